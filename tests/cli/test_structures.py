"""B-factors of the structures are the relevance of the right residues, and the files say so."""

from __future__ import annotations

import argparse

import mdtraj as md
import numpy as np
import pandas as pd
import pytest

from m3c_md import DihedralFeaturizer
from m3c_md.cli.output import OutputFolder
from m3c_md.cli.report import MOST_LEADING, relevance_lines
from m3c_md.cli.structures import b_factors, superposed_atoms, write_structures
from m3c_md.cli.trajectories import FeatureSettings, Trajectories, load_trajectories
from m3c_md.exceptions import InputError
from tests.features import random_trajectory, topology_of


class Sampler:
    """A model that chooses the first frames of every trajectory."""

    def __init__(self, columns: list[str], shares: np.ndarray) -> None:
        self.relevance = pd.Series(shares / shares.sum(), index=columns)
        self.state_names = ["0", "1"]

    def sample(self, features, n):
        return [np.array([[trajectory, frame] for frame in range(n)]) for trajectory in range(len(features))]


def loaded(folder, topology, residues=None) -> Trajectories:
    random_trajectory(topology, 6).save(str(folder / "run.xtc"))
    random_trajectory(topology, 1).save(str(folder / "top.pdb"))
    options = {"dihedrals": ["phi", "psi"], "residues": residues, "jobs": 1, "top": str(folder / "top.pdb")}
    return load_trajectories(argparse.Namespace(files=[str(folder / "run.xtc")], **options))


def factors_of(path) -> dict[tuple[str, int], set[float]]:
    """B-factors by chain and number of the residue, from the columns of the format."""
    found: dict[tuple[str, int], set[float]] = {}
    for line in path.read_text().splitlines():
        if line.startswith(("ATOM", "HETATM")):
            found.setdefault((line[21], int(line[22:26])), set()).add(float(line[60:66]))
    return found


def written(folder, data, shares):
    with OutputFolder(folder / "out", ["structures/*.pdb"], force=False) as out:
        write_structures(out, Sampler(data.settings.columns, np.asarray(shares)), data, 2)
    return folder / "out" / "structures" / "state_0.pdb"


def test_every_atom_has_the_share_of_its_residue(tmp_path):
    data = loaded(tmp_path, topology_of(["ACE", "ALA", "SER", "GLY", "NME"]))
    # Four columns for each of three residues: 1 + 1 + 1 + 1, 2 + 2 + 2 + 2 and none.
    path = written(tmp_path, data, [1.0] * 4 + [2.0] * 4 + [0.0] * 4)
    wanted = {("A", 1): {0.0}, ("A", 2): {50.0}, ("A", 3): {99.99}, ("A", 4): {0.0}, ("A", 5): {0.0}}
    assert factors_of(path) == wanted
    assert md.load(str(path)).n_frames == 2
    first = path.read_text().splitlines()[:3]
    assert all(line.startswith("REMARK  99 ") and len(line) <= 80 for line in first[:2])
    remark = " ".join(line.removeprefix("REMARK  99 ") for line in first[:2])
    assert remark == (
        "B-factors: relevance of the residue to the states, from 0 to 100; 100 is SER 3, which has 66.7% of it"
    )


def test_residues_of_two_chains_are_not_mixed_up(tmp_path):
    data = loaded(tmp_path, topology_of(["ACE", "ALA", "NME"], ["ACE", "ALA", "NME"]))
    factors = factors_of(written(tmp_path, data, [1.0] * 4 + [4.0] * 4))
    assert (factors["A", 2], factors["B", 2]) == ({25.0}, {99.99})


def test_names_are_those_of_the_chosen_residues(tmp_path):
    # Of one chain alone residues are called "ALA 2", without the chain that they need when both are there.
    data = loaded(tmp_path, topology_of(["ACE", "ALA", "NME"], ["ACE", "ALA", "NME"]), "chainid 1")
    assert data.settings.columns[0] == "sin phi ALA 2"
    factors = factors_of(written(tmp_path, data, [1.0] * 4))
    assert (factors["A", 2], factors["B", 2]) == ({0.0}, {99.99})


def test_atoms_without_columns_have_none():
    topology = topology_of(["ALA", "ALA"], ["HOH", "HOH"])
    factors = b_factors(topology, pd.Series([0.4, 0.6], index=["ALA 1", "ALA 2"]))
    assert len(factors) == topology.n_atoms
    assert not factors[topology.select("water")].any()
    np.testing.assert_allclose(factors[topology.select("resSeq 1 and protein")], 200.0 / 3.0)


def trajectories(columns: list[str], dihedrals: list[str] | None) -> Trajectories:
    return Trajectories([], [], FeatureSettings(columns, dihedrals))


def test_leading_residues_come_first_and_the_others_are_summed_up():
    columns = list(DihedralFeaturizer("phi", sincos=False).describe(topology_of(["ACE", *["ALA"] * 9, "NME"])))
    shares = np.arange(1.0, 10.0)
    lines = relevance_lines(Sampler(columns, shares), trajectories(columns, ["phi"]), structures=False)
    assert lines[1] == "    residues: ALA 10 20.0%, ALA 9 17.8%, ALA 8 15.6%, ALA 7 13.3%, ALA 6 11.1%; 4 more 22.2%"
    assert lines[2].count(",") == MOST_LEADING - 1
    assert lines[2].startswith("    dihedrals: phi ALA 10 20.0%, phi ALA 9 17.8%")
    assert len(lines) == 3


def test_columns_of_arrays_are_named_as_they_are():
    columns = ["column 0", "column 1"]
    lines = relevance_lines(Sampler(columns, np.array([1.0, 3.0])), trajectories(columns, None), structures=False)
    assert lines[1:] == ["    columns: column 1 75.0%, column 0 25.0%"]


def test_tiny_shares_are_not_named_but_the_largest_always_is():
    for shares, wanted in (
        ([0.004, 0.986, 0.01], "column 1 98.6%, column 2 1.0%; 1 more 0.4%"),
        ([1.0] * 200, "column 0 0.5%; 199 more 99.5%"),
    ):
        columns = [f"column {number}" for number in range(len(shares))]
        lines = relevance_lines(Sampler(columns, np.array(shares)), trajectories(columns, None), structures=False)
        assert lines[1:] == [f"    columns: {wanted}"]


def test_columns_that_are_no_angles_have_no_b_factors(tmp_path):
    data = trajectories(["a", "b"], None)
    random_trajectory(topology_of(["ALA", "ALA"]), 1).save(str(tmp_path / "top.pdb"))
    with pytest.raises(InputError, match="column 'a' has no name"):
        written(tmp_path, Trajectories([], [], data.settings, top=str(tmp_path / "top.pdb")), [1.0, 1.0])


def test_structures_lie_on_each_other_and_say_which_frames_they_are(tmp_path):
    data = loaded(tmp_path, topology_of(["ACE", "ALA", "ALA", "NME"]))
    turned = md.load(str(tmp_path / "run.xtc"), top=str(tmp_path / "top.pdb"))
    angle = np.linspace(0.0, 3.0, len(turned))
    turns = np.array([[[np.cos(a), -np.sin(a), 0.0], [np.sin(a), np.cos(a), 0.0], [0.0, 0.0, 1.0]] for a in angle])
    turned.xyz = np.einsum("fij,faj->fai", turns, np.repeat(turned.xyz[:1], len(turned), axis=0)) + angle[:, None, None]
    turned.save(str(tmp_path / "run.xtc"))  # one structure, turned and moved
    with OutputFolder(tmp_path / "out", ["structures/*"], force=False) as out:
        model = Sampler(data.settings.columns, np.ones(len(data.settings.columns)))
        write_structures(
            out, model, Trajectories([*data.files] * 2, [*data.features] * 2, data.settings, 2, data.top), 3
        )
    states = [md.load(str(tmp_path / "out" / "structures" / f"state_{state}.pdb")) for state in range(2)]
    for state in states:
        np.testing.assert_allclose(state.xyz, np.repeat(states[0].xyz[:1], 3, axis=0), atol=2e-3)
    np.testing.assert_allclose(states[0].xyz[0], turned.xyz[0], atol=2e-3)  # the first stays where it was
    table = pd.read_csv(tmp_path / "out" / "structures" / "frames.csv")
    assert table["frame"].tolist() == [0, 2, 4] * 2
    assert table["model"].tolist() == [1, 2, 3] * 2
    assert set(table["file"]) == {str(tmp_path / "run.xtc")}
    text = (tmp_path / "out" / "structures" / "state_1.pdb").read_text()
    assert "REMARK  99 MODEL 3: frame 4 (from 0) of run.xtc\n" in text
    numbers = [int(line.split()[1]) for line in text.splitlines() if line.startswith("MODEL")]
    assert numbers == list(range(1, len(numbers) + 1)) == table[table["structure"] == "state_1.pdb"]["model"].tolist()
    assert "REMARK  99 Models are superposed on " in text


def test_heavy_atoms_are_superposed_where_there_is_no_backbone():
    topology = md.Topology()
    residue = topology.add_residue("ALA", topology.add_chain(), 1)
    for name, symbol in (("CB", "C"), ("HB1", "H"), ("CG", "C"), ("CD", "C")):
        topology.add_atom(name, md.element.get_by_symbol(symbol), residue)
    assert superposed_atoms(topology) == [0, 2, 3]
