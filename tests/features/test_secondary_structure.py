"""Secondary structure: what DSSP says, of molecules torn by a periodic box too, and where there is none."""

from __future__ import annotations

import mdtraj as md
import numpy as np
import pytest

from m3c_md import DihedralFeaturizer
from m3c_md.data import alanine_dipeptide, deca_alanine
from m3c_md.exceptions import InputError
from m3c_md.inputs.secondary_structure import FORMS
from tests.features import random_trajectory, topology_of


@pytest.fixture(scope="module")
def peptide() -> md.Trajectory:
    data = deca_alanine()
    return md.load(str(data.trajectory_files[0]), top=data.topology, stride=25)


def test_letters_are_those_of_mdtraj(peptide: md.Trajectory) -> None:
    found = DihedralFeaturizer().secondary_structure(peptide)
    assert found.residues == tuple(f"ALA {n}" for n in range(1, 11))
    np.testing.assert_array_equal(found.codes[0] == FORMS.index("helix"), md.compute_dssp(peptide) == "H")
    np.testing.assert_array_equal(found.codes[0] == FORMS.index("coil"), md.compute_dssp(peptide) == "C")


def test_chosen_residues_are_judged_in_the_whole_molecule(peptide: md.Trajectory) -> None:
    found = DihedralFeaturizer(residues=[5, 6]).secondary_structure(peptide)
    assert found.residues == ("ALA 5", "ALA 6")
    np.testing.assert_array_equal(found.codes[0], DihedralFeaturizer().secondary_structure(peptide).codes[0][:, 4:6])


def test_files_in_blocks_give_the_same(peptide: md.Trajectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("m3c_md.features.featurizer._DEFAULT_CHUNK", 700)
    data = deca_alanine()
    found = DihedralFeaturizer().secondary_structure(data.trajectory_files, data.topology_file)
    assert len(found.codes[0]) == 2500
    np.testing.assert_array_equal(found.codes[0][::25], DihedralFeaturizer().secondary_structure(peptide).codes[0])


def test_a_molecule_torn_by_the_box_is_put_together(peptide: md.Trajectory) -> None:
    edge = 4.0
    rng = np.random.default_rng(0)
    # Every residue, and every oxygen by itself, in an image of its own: much worse than what simulations write.
    images = rng.integers(-1, 2, size=(len(peptide), peptide.n_atoms, 3))
    of_residue = np.array([atom.residue.index for atom in peptide.topology.atoms])
    oxygens = np.array([atom.name == "O" for atom in peptide.topology.atoms])
    images = np.where(oxygens[:, None], images, images[:, of_residue])
    box = {"unitcell_lengths": np.full((len(peptide), 3), edge), "unitcell_angles": np.full((len(peptide), 3), 90.0)}
    torn = md.Trajectory(peptide.xyz + edge * images, peptide.topology, **box)
    whole = DihedralFeaturizer().secondary_structure(peptide).codes[0]
    assert np.count_nonzero(whole == FORMS.index("helix")) > 100
    found = DihedralFeaturizer().secondary_structure(torn).codes[0]
    assert (found == whole).mean() > 0.999  # hydrogen bonds at the limit of strength may go by rounding
    as_it_is = DihedralFeaturizer(periodic=False).secondary_structure(torn).codes[0]
    assert (as_it_is == whole).mean() < 0.9


def test_water_and_caps_do_not_disturb() -> None:
    molecule = random_trajectory(topology_of(["ACE", *["ALA"] * 6, "NME"], ["HOH"] * 3), 5)
    found = DihedralFeaturizer().secondary_structure(molecule)
    assert found.residues == tuple(f"ALA {n} chain 0" for n in range(2, 8)) or len(found.residues) == 6
    assert found.codes[0].shape == (5, 6)


def test_too_short_a_molecule_has_none_and_says_why() -> None:
    found = DihedralFeaturizer().secondary_structure(alanine_dipeptide().trajectory_files, alanine_dipeptide().topology)
    assert (found.residues, found.codes) == ((), [])
    assert found.missing == "DSSP needs 5 residues with backbone atoms N, CA, C and O, and there is 1"


def test_no_trajectory_is_refused() -> None:
    with pytest.raises(InputError, match="must be a file name"):
        DihedralFeaturizer().secondary_structure(np.zeros((3, 2)))
