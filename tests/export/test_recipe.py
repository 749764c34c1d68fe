"""Which atoms columns are made of: known to featurizers, kept by fits and model files, found again in a topology."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import mdtraj as md
import numpy as np
import pytest

from m3c_md import M3C, DihedralFeaturizer, load_model
from m3c_md.data import alanine_dipeptide
from m3c_md.exceptions import InputError, ModelFileError
from tests.export.conftest import Case, molecule


def in_water(topology: md.Topology, *, before: bool) -> md.Topology:
    """Topology with a water molecule whose residue has the number of an amino acid."""
    water = md.Topology()
    residue = water.add_residue("HOH", water.add_chain(), resSeq=2)
    for name in ("O", "H1", "H2"):
        water.add_atom(name, md.element.Element.getBySymbol(name[0]), residue)
    return water.join(topology) if before else topology.join(water)


class TestFeaturizer:
    def test_it_knows_the_molecule_of_its_first_use(self) -> None:
        featurizer, _, trajectory = molecule("ala2")
        known = featurizer.dihedral_columns()
        assert known.columns == featurizer.describe()
        names = [[trajectory.topology.atom(number).name for number in four] for four in known.quartets]
        assert names == [["C", "N", "CA", "C"], ["N", "CA", "C", "N"]]
        assert known.atoms[1] == ("ALA 2 N", "ALA 2 CA", "ALA 2 C", "NME 3 N")

    def test_other_numbers_of_the_same_atoms_are_not_mixed_up(self) -> None:
        featurizer, trajectory = DihedralFeaturizer(residues=[2]), molecule("ala2")[2][:3]
        featurizer.transform(trajectory)
        # Without the hydrogens of the first methyl group all later atoms have smaller numbers.
        kept = [atom.index for atom in trajectory.topology.atoms if atom.index not in (0, 2, 3)]
        featurizer.transform(trajectory.atom_slice(kept))
        with pytest.raises(InputError, match="number the atoms of the same angles differently; give the topology"):
            featurizer.dihedral_columns()
        assert featurizer.dihedral_columns(trajectory).quartets[0].tolist() == [4, 6, 7, 8]


class TestTopology:
    def test_the_same_molecule_is_left_alone(self, ala2: Case) -> None:
        assert ala2.columns.in_topology(ala2.trajectory.topology) is ala2.columns
        assert ala2.columns.in_topology(in_water(ala2.trajectory.topology, before=False)) is ala2.columns

    def test_atoms_are_found_behind_others(self, ala10: Case) -> None:
        moved = ala10.columns.in_topology(in_water(ala10.trajectory.topology, before=True))
        assert np.array_equal(moved.quartets, ala10.columns.quartets + 3)

    def test_another_molecule_is_refused(self, ala2: Case, ala10: Case) -> None:
        with pytest.raises(InputError, match="the topology has no atom 'ACE 1 C', which 'phi ALA 2' of this model"):
            ala2.columns.in_topology(ala10.trajectory.topology)

    def test_two_of_the_same_kind_are_refused_unless_numbers_tell(self, ala2: Case) -> None:
        single = ala2.trajectory.topology
        twice = single.join(single)
        assert ala2.columns.in_topology(twice) is ala2.columns
        with pytest.raises(InputError, match="the topology has 2 atoms 'ACE 1 C'"):
            ala2.columns.in_topology(in_water(twice, before=True))


class TestModelFile:
    def test_atoms_come_back(self, case: Case, tmp_path: Path) -> None:
        case.model.save(tmp_path / "model.m3c")
        again = load_model(tmp_path / "model.m3c")
        states = (0, 1)
        assert again.to_plumed(states=states) == case.model.to_plumed(states=states)  # type: ignore[attr-defined]
        assert again.dihedral_columns.atoms == case.columns.atoms  # type: ignore[attr-defined]

    def test_files_without_atoms_still_load(self, ala2: Case, tmp_path: Path) -> None:
        old = ala2.model.copy()
        old.dihedral_columns = None
        old.save(tmp_path / "old.m3c")
        with zipfile.ZipFile(tmp_path / "old.m3c") as archive:
            assert "quartets.npy" not in archive.namelist()
            assert "dihedrals" not in json.loads(archive.read("model.json"))["settings"]
        again = load_model(tmp_path / "old.m3c")
        assert again.dihedral_columns is None  # type: ignore[attr-defined]
        text = again.to_plumed(ala2.columns, (0, 1))  # type: ignore[attr-defined]
        assert text == ala2.model.to_plumed(states=(0, 1))

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"sincos": False}, "its dihedrals make 2 columns, not 4"),
            ({"sincos": "yes"}, "'sincos' and 'periodic' are not true or false"),
            ({"atoms": (("A 1 N",) * 3,) * 2}, "'dihedral_atoms' has 6 entries, not 8"),
            ({"quartets": np.array([[0, 1, 2, -1], [0, 1, 2, 3]])}, "'quartets' has entries outside 0 to"),
            ({"quartets": np.array([[0, 1, 2], [0, 1, 2]])}, r"'quartets' has dtype int64 and shape \(2, 3\)"),
        ],
    )
    def test_what_could_not_be_read_back_is_not_written(
        self, ala2: Case, tmp_path: Path, change: dict[str, object], words: str
    ) -> None:
        broken = ala2.model.copy()
        broken.dihedral_columns = replace(ala2.columns, **change)  # type: ignore[arg-type]
        with pytest.raises(ModelFileError, match=words):
            broken.save(tmp_path / "model.m3c")
        assert not list(tmp_path.iterdir())

    def test_alternatives_know_their_atoms(self, ala2: Case) -> None:
        assert ala2.model.alternative(0).dihedral_columns is ala2.columns


class TestFit:
    def test_a_featurizer_of_other_data_is_refused(self) -> None:
        featurizer = molecule("ala10")[0]
        with pytest.raises(InputError, match=r"there are 36 columns .*, but the model was fitted to 4"):
            M3C(2, random_state=0).fit(alanine_dipeptide().features[:1], featurizer=featurizer)

    def test_what_is_no_featurizer_is_refused_before_data_are_read(self) -> None:
        with pytest.raises(InputError, match="featurizer='phi' must be the DihedralFeaturizer that made the data"):
            M3C(2).fit(None, featurizer="phi")
