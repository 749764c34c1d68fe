"""Which angles there are, what they are called, and their values."""

from __future__ import annotations

import mdtraj as md
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from m3c_md.exceptions import InputError
from m3c_md.features.dihedrals import (
    KINDS,
    cell_vectors,
    check_kinds,
    dihedral_angles,
    find_dihedrals,
    first_stretched_frame,
    first_unusable_frame,
    minimum_image,
    sines_and_cosines,
)
from tests.features import by_hand, random_trajectory, topology_of

DODECAHEDRON = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, np.sqrt(0.5)]])
SKEWED = np.array([[1.0, 0.0, 0.0], [-0.33, 0.94, 0.0], [0.33, 0.47, 0.82]])


def wrapped_angle(difference):
    return np.abs((difference + np.pi) % (2.0 * np.pi) - np.pi)


class TestWhichAngles:
    def test_residue_by_residue_and_then_in_the_order_asked_for(self):
        topology = topology_of(["ALA", "GLY", "LYS"])
        assert find_dihedrals(topology, ("psi", "phi")).names == ("psi ALA 1", "psi GLY 2", "phi GLY 2", "phi LYS 3")

    def test_missing_angles_are_named(self):
        topology = topology_of(["ACE", "ALA", "GLY", "SER", "NME"])
        found = find_dihedrals(topology, ("phi", "chi1"))
        assert found.missing == {"phi": ["ACE 1", "NME 5"], "chi1": ["ACE 1", "ALA 2", "GLY 3", "NME 5"]}
        assert found.names == ("phi ALA 2", "phi GLY 3", "phi SER 4", "chi1 SER 4")

    def test_every_amino_acid_either_has_an_angle_or_is_named_missing(self):
        topology = topology_of(["LYS", "ALA", "SER", "GLY", "LYS"], ["GLY", "LYS"])
        found = find_dihedrals(topology, KINDS)
        columns = [name.split(" ", 1) for name in found.names]
        for kind in KINDS:
            has = [residue for column, residue in columns if column == kind]
            assert len(has) + len(found.missing[kind]) == topology.n_residues
            assert not set(has) & set(found.missing[kind])

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_same_atoms_as_mdtraj(self, kind):
        topology = topology_of(["LYS", "ALA", "SER", "GLY", "LYS"], ["LYS", "LYS"])
        theirs = getattr(md, f"compute_{kind}")(random_trajectory(topology, 1))[0]
        np.testing.assert_array_equal(find_dihedrals(topology, (kind,)).quartets, theirs)

    def test_water_is_neither_missing_nor_a_reason_to_name_chains(self):
        topology = topology_of(["ALA", "ALA"], ["HOH", "HOH"])
        found = find_dihedrals(topology, ("phi", "psi"))
        assert found.names == ("psi ALA 1", "phi ALA 2")
        assert found.missing == {"phi": ["ALA 1"], "psi": ["ALA 2"]}

    def test_chains_are_named_by_letter_or_number(self):
        chains = (["ALA", "ALA"], ["ALA", "ALA"])
        lettered = find_dihedrals(topology_of(*chains, letters=["A", "B"]), ("phi",))
        assert lettered.names == ("phi ALA 2 chain A", "phi ALA 2 chain B")
        for letters in (None, ["A", "A"]):
            numbered = find_dihedrals(topology_of(*chains, letters=letters), ("phi",))
            assert numbered.names == ("phi ALA 2 chain 0", "phi ALA 2 chain 1")

    def test_names_stay_unique_when_numbers_repeat(self):
        topology = topology_of(["ALA", "ALA", "ALA"])
        for residue in topology.residues:
            residue.resSeq = 7  # as with insertion codes
        assert find_dihedrals(topology, ("phi",)).names == ("phi ALA 7 (residue 1)", "phi ALA 7 (residue 2)")

    def test_an_unusual_residue_with_a_backbone_counts(self):
        topology = topology_of(["ALA", "ALA", "ALA"])
        next(r for r in topology.residues if r.resSeq == 2).name = "XYZ"
        assert "phi XYZ 2" in find_dihedrals(topology, ("phi",)).names

    @pytest.mark.parametrize("residues", [[2, 3], (3, 2), np.array([2, 3]), "resSeq 2 to 3", "residue 2 3 and name CA"])
    def test_residues_can_be_chosen(self, residues):
        topology = topology_of(["ALA"] * 4, first=1)
        found = find_dihedrals(topology, ("phi",), residues)
        assert found.names == ("phi ALA 2", "phi ALA 3")

    def test_a_number_means_the_amino_acid_and_not_the_water_of_that_number(self):
        topology = topology_of(["ALA", "ALA"], ["HOH", "HOH"])
        assert find_dihedrals(topology, ("phi",), [2]).missing == {"phi": []}

    @pytest.mark.parametrize(
        ("residues", "message"),
        [
            ([2, 9], r"no residue \[9\].*from 1 to 2"),
            ([], "empty"),
            (2, "list of residue numbers"),
            ([1.5], "list of residue numbers"),
            ("residues of my choice (", "no selection that mdtraj understands"),
            ("resname GLY", "selects nothing"),
        ],
    )
    def test_residues_that_make_no_sense(self, residues, message):
        with pytest.raises(InputError, match=message):
            find_dihedrals(topology_of(["ALA", "ALA"]), ("phi",), residues)

    def test_an_angle_that_no_residue_has(self):
        with pytest.raises(InputError, match=r"no residue has the angle 'chi1'.*GLY 1.*leave 'chi1' out"):
            find_dihedrals(topology_of(["GLY", "GLY"]), ("phi", "chi1"))
        with pytest.raises(InputError, match="no amino acids"):
            find_dihedrals(topology_of(["HOH"]), ("phi",))

    @pytest.mark.parametrize(
        ("kinds", "message"),
        [
            (("phi", "xi"), "'xi' is not known; choose one of 'phi', 'psi', 'omega', 'chi1', 'chi2', 'chi3', 'chi4'"),
            ((), "at least one"),
            (5, "at least one"),
            (("phi", "phi"), "twice"),
        ],
    )
    def test_kinds_that_make_no_sense(self, kinds, message):
        with pytest.raises(InputError, match=message):
            check_kinds(kinds)


class TestAngles:
    @pytest.fixture
    def quartets(self):
        return find_dihedrals(topology_of(["LYS", "ALA", "SER", "LYS"]), ("phi", "psi", "omega", "chi1")).quartets

    def test_against_a_formula_without_mdtraj(self, quartets):
        trajectory = random_trajectory(topology_of(["LYS", "ALA", "SER", "LYS"]), 200)
        ours = dihedral_angles(trajectory.xyz, quartets).angles
        assert ours.dtype == np.float32
        # Single precision, and worse where three atoms lie nearly on a line.
        error = wrapped_angle(ours - by_hand(trajectory.xyz, quartets))
        assert np.quantile(error, 0.99) < 1e-5
        assert error.max() < 1e-3

    def test_signs_are_those_of_iupac(self):
        # Looking along the middle bond, clockwise is positive.
        xyz = np.array([[[0, 1, 0], [0, 0, 0], [1, 0, 0], [1, 0, 1]]], dtype=np.float32)
        assert dihedral_angles(xyz, np.array([[0, 1, 2, 3]])).angles[0, 0] == pytest.approx(np.pi / 2)

    @settings(deadline=None, max_examples=25, derandomize=True)
    @given(st.integers(0, 10**6), st.floats(-50, 50), st.sampled_from([np.eye(3), DODECAHEDRON, SKEWED]))
    def test_a_molecule_broken_across_the_box_has_the_angles_of_the_whole_one(self, seed, shift, cell):
        topology = topology_of(["ALA"] * 3)
        quartets = find_dihedrals(topology, ("phi", "psi")).quartets
        whole = random_trajectory(topology, 5, seed).xyz.astype(np.float64)
        cells = np.repeat(1.5 * cell[None], 5, axis=0)
        fractions = (whole + shift) @ np.linalg.inv(1.5 * cell)
        broken = (fractions - np.floor(fractions)) @ (1.5 * cell)
        expected = by_hand(whole, quartets)
        found = dihedral_angles(broken.astype(np.float32), quartets, cells)
        assert np.quantile(wrapped_angle(found.angles - expected), 0.9) < 1e-3
        np.testing.assert_allclose(found.lengths, dihedral_angles(whole, quartets).lengths, atol=1e-6)

    @pytest.mark.parametrize("cell", [np.eye(3), DODECAHEDRON, SKEWED], ids=["cube", "dodecahedron", "skewed"])
    def test_against_mdtraj_in_a_box(self, cell, quartets):
        trajectory = random_trajectory(topology_of(["LYS", "ALA", "SER", "LYS"]), 40)
        fractions = trajectory.xyz @ np.linalg.inv(cell)
        trajectory.xyz = ((fractions - np.floor(fractions)) @ cell).astype(np.float32)
        trajectory.unitcell_vectors = np.repeat(cell[None].astype(np.float32), 40, axis=0)
        cells = cell_vectors(trajectory.unitcell_lengths, trajectory.unitcell_angles)
        np.testing.assert_allclose(cells, trajectory.unitcell_vectors, atol=1e-6)
        theirs = md.compute_dihedrals(trajectory, quartets, periodic=True)
        difference = wrapped_angle(dihedral_angles(trajectory.xyz, quartets, cells).angles - theirs)
        assert np.quantile(difference, 0.99) < 1e-4
        # Something was broken, or the test would show nothing.
        assert wrapped_angle(dihedral_angles(trajectory.xyz, quartets).angles - theirs).max() > 0.1

    def test_a_whole_molecule_has_the_same_bits_with_and_without_a_box(self, quartets):
        xyz = random_trajectory(topology_of(["LYS", "ALA", "SER", "LYS"]), 30).xyz
        cells = np.repeat(3.0 * DODECAHEDRON[None], 30, axis=0)
        np.testing.assert_array_equal(
            dihedral_angles(xyz, quartets, cells).angles, dihedral_angles(xyz, quartets).angles
        )

    @pytest.mark.parametrize("edge", [0.0, np.nan])
    def test_a_cell_without_volume_is_none(self, quartets, edge):
        xyz = 10.0 * random_trajectory(topology_of(["LYS", "ALA", "SER", "LYS"]), 3).xyz
        cells = cell_vectors(np.full((3, 3), edge), np.full((3, 3), 90.0))
        np.testing.assert_array_equal(
            dihedral_angles(xyz, quartets, cells).angles, dihedral_angles(xyz, quartets).angles
        )

    def test_impossible_angles_of_a_cell_are_no_cell(self):
        assert np.isnan(cell_vectors(np.ones((1, 3)), np.array([[10.0, 20.0, 170.0]]))).any()

    @settings(deadline=None, max_examples=30, derandomize=True)
    @given(st.lists(st.floats(-3, 3), min_size=3, max_size=3), st.sampled_from([np.eye(3), DODECAHEDRON, SKEWED]))
    def test_minimum_image_is_an_image_and_none_is_shorter(self, vector, cell):
        image = minimum_image(np.array([vector]), cell[None])[0].astype(np.float64)
        steps = np.linalg.solve(cell.T, image - vector)
        np.testing.assert_allclose(steps, np.rint(steps), atol=1e-5)
        others = np.array([np.array(shift) - 4.0 for shift in np.ndindex(9, 9, 9)]) @ cell + vector
        assert np.linalg.norm(image) <= np.linalg.norm(others, axis=1).min() + 1e-5

    def test_sines_and_cosines_alternate(self):
        angles = np.array([[0.1, 0.2, 0.3]], dtype=np.float32)
        columns = sines_and_cosines(angles)
        np.testing.assert_array_equal(columns[:, 0::2], np.sin(angles))
        np.testing.assert_array_equal(columns[:, 1::2], np.cos(angles))
        assert columns.dtype == np.float32


class TestFramesThatCannotBeUsed:
    QUARTETS = np.array([[0, 1, 2, 3], [1, 2, 3, 4]], dtype=np.int32)

    def frames(self):
        return 0.05 * np.random.default_rng(0).normal(size=(6, 6, 3)).astype(np.float32)

    def test_none(self):
        geometry = dihedral_angles(self.frames(), self.QUARTETS)
        assert first_unusable_frame(geometry) is None
        assert first_stretched_frame(geometry) is None

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
    @pytest.mark.parametrize("cells", [None, np.repeat(np.eye(3)[None], 6, axis=0)], ids=["no box", "box"])
    def test_a_coordinate_that_is_not_finite(self, value, cells):
        xyz = self.frames()
        xyz[4, 2, 1] = value
        frame, reason = first_unusable_frame(dihedral_angles(xyz, self.QUARTETS, cells))
        assert frame == 4
        assert "not a finite number" in reason

    def test_an_atom_that_no_angle_needs_may_be_anywhere(self):
        xyz = self.frames()
        xyz[4, 5] = np.nan
        assert first_unusable_frame(dihedral_angles(xyz, self.QUARTETS)) is None

    def test_atoms_on_top_of_each_other(self):
        xyz = self.frames()
        xyz[3] = 0.0  # a frame that was never written
        xyz[5, 3] = xyz[5, 4]
        assert first_unusable_frame(dihedral_angles(xyz, self.QUARTETS)) == (3, "atoms 0 and 1 lie at the same point")
        assert first_unusable_frame(dihedral_angles(xyz[4:], self.QUARTETS))[0] == 1

    def test_a_bond_that_is_none(self):
        xyz = self.frames()
        xyz[2, 3:] += 1.0
        frame, reason = first_stretched_frame(dihedral_angles(xyz, self.QUARTETS))
        assert frame == 2
        assert reason.startswith("atoms 2 and 3 are 1.8 nm")
