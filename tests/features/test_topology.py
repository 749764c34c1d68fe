"""A topology that does not belong to the trajectory is refused, and one that does is not, whatever the trajectory."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path

import mdtraj as md
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from m3c_md.cli import main
from m3c_md.data import alanine_dipeptide, deca_alanine
from m3c_md.exceptions import TrajectoryError, TrajectoryWarning
from m3c_md.features import DihedralFeaturizer, cache
from m3c_md.features.dihedrals import find_dihedrals
from tests.features import random_trajectory, topology_of

ASP7 = Path(__file__).parents[3] / "shared" / "data" / "asp7"
REFUSED = r"are bonded in the topology, but [\d.]+ nm apart in the median of .*give the topology that was written with"
CUBE = np.eye(3)
DODECAHEDRON = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, np.sqrt(0.5)]])
SKEWED = np.array([[1.0, 0.0, 0.0], [-0.33, 0.94, 0.0], [0.33, 0.47, 0.82]])


def shipped(data, stride=100):
    return md.load(str(data.trajectory_files[0]), top=str(data.topology_file), stride=stride)


@pytest.fixture(scope="module")
def ala2():
    return shipped(alanine_dipeptide())


@pytest.fixture(scope="module")
def deca():
    return shipped(deca_alanine())


def in_order(trajectory, order):
    """The same frames with the atoms in another order, and the topology as it was."""
    return like(trajectory, trajectory.xyz[:, order])


def like(trajectory, xyz):
    return md.Trajectory(xyz.astype(np.float32), trajectory.topology)


def swapped(trajectory, *names):
    """The same frames with two atoms in each other's place."""
    found = [next(atom.index for atom in trajectory.topology.atoms if str(atom) == name) for name in names]
    order = np.arange(trajectory.n_atoms)
    order[found] = order[found[::-1]]
    return in_order(trajectory, order)


def refuses(trajectory, kinds=("phi", "psi"), message=REFUSED):
    with pytest.raises(TrajectoryError, match=message) as error:
        DihedralFeaturizer(kinds).transform(trajectory)
    return str(error.value)


def put_into_box(trajectory, cell, shift):
    """Every atom by itself, as some programs write it; the box is not told."""
    fractions = (trajectory.xyz.astype(np.float64) + shift) @ np.linalg.inv(cell)
    return like(trajectory, (fractions - np.floor(fractions)) @ cell)


def with_box(trajectory, cell):
    trajectory.unitcell_vectors = np.repeat(cell[None].astype(np.float32), len(trajectory), axis=0)
    return trajectory


@pytest.mark.skipif(not ASP7.exists(), reason="the real trajectories are not part of the project")
class TestPublishedTopologyInAnotherOrder:
    @pytest.mark.parametrize("kinds", [("phi", "psi"), ("phi",), ("psi",), ("omega",), ("phi", "chi1")])
    @pytest.mark.parametrize(("stride", "chunk"), [(1, 10_000), (1000, 500), (20, 100)])
    def test_is_refused(self, kinds, stride, chunk):
        for load in (
            DihedralFeaturizer(kinds).load,
            lambda *g, **o: list(DihedralFeaturizer(kinds).iter_load(*g, **o)),
        ):
            with pytest.raises(TrajectoryError, match=REFUSED):
                load(ASP7 / "asp7.xtc", ASP7 / "asp7.pdb", stride=stride, chunk=chunk)

    def test_in_one_frame(self, tmp_path):
        md.load_frame(str(ASP7 / "asp7.xtc"), 5, top=str(ASP7 / "asp7.pdb")).save(str(tmp_path / "one.xtc"))
        with pytest.raises(TrajectoryError, match=r"one.xtc: ASP\d-.* in the median of one frame.*\d+ of 56 bonds"):
            DihedralFeaturizer().load(tmp_path / "one.xtc", ASP7 / "asp7.pdb")

    def test_the_right_one_passes(self):
        kinds = ("phi", "psi", "omega", "chi1", "chi2")
        [features] = DihedralFeaturizer(kinds).load(ASP7 / "asp7.xtc", ASP7 / "asp7_reordered.pdb", stride=20)
        assert features.shape == (501, 64)


class TestShippedMolecules:
    @pytest.mark.parametrize("data", [alanine_dipeptide, deca_alanine])
    def test_pass_in_every_frame_alone(self, data):
        trajectory = shipped(data(), stride=50)
        featurizer = DihedralFeaturizer()
        for frame in trajectory:
            featurizer.transform(frame)

    @settings(deadline=None, max_examples=60, derandomize=True)
    @given(seed=st.integers(0, 10**6), n_frames=st.sampled_from([1, 20]), which=st.sampled_from(["ala2", "deca"]))
    def test_in_a_random_order_are_refused(self, ala2, deca, seed, n_frames, which):
        molecule = {"ala2": ala2, "deca": deca}[which][:n_frames]
        refuses(in_order(molecule, np.random.default_rng(seed).permutation(molecule.n_atoms)))

    def test_with_any_two_atoms_swapped_are_refused_if_an_angle_has_one_of_them(self, ala2):
        used = set(find_dihedrals(ala2.topology, ("phi", "psi")).quartets.ravel().tolist())
        for first, second in itertools.combinations(range(ala2.n_atoms), 2):
            order = np.arange(ala2.n_atoms)
            order[[first, second]] = second, first
            if used & {first, second}:
                refuses(in_order(ala2[:5], order))

    @settings(deadline=None, max_examples=60, derandomize=True)
    @given(st.data())
    def test_with_one_atom_of_an_angle_elsewhere_are_refused(self, deca, data):
        used = np.unique(find_dihedrals(deca.topology, ("phi", "psi")).quartets).tolist()
        first = data.draw(st.sampled_from(used))
        second = data.draw(st.sampled_from([index for index in range(deca.n_atoms) if index != first]))
        order = np.arange(deca.n_atoms)
        order[[first, second]] = second, first
        refuses(in_order(deca[:20], order))

    @settings(deadline=None, max_examples=40, derandomize=True)
    @given(st.permutations(range(10)).filter(lambda order: order != list(range(10))))
    def test_with_whole_residues_in_another_order_are_refused(self, deca, order):
        # Residues 2 to 9 have the same atoms; each is as it should be, only the bonds between them are not.
        backbone = deca.atom_slice(
            [atom.index for atom in deca.topology.atoms if atom.name in ("N", "CA", "C", "O", "CB")]
        )
        refuses(in_order(backbone[:20], np.arange(50).reshape(10, 5)[order].ravel()))

    def test_the_message_names_the_atoms(self, ala2):
        said = refuses(swapped(ala2, "ALA2-CA", "ALA2-CB")[:17])
        assert said.startswith("the trajectory: ")
        assert "median of 6 frames" in said
        assert "ALA2-C" in said
        assert "bonds that were checked are off" in said
        assert "lists atoms in another order" in said

    def test_hydrogen_in_another_order_is_worth_a_warning(self, ala2):
        with pytest.warns(TrajectoryWarning, match=r"ALA2-.*are bonded in the topology, but .*the angles are right"):
            features = DihedralFeaturizer().transform(swapped(ala2, "ALA2-H", "ALA2-HA"))
        np.testing.assert_array_equal(features, DihedralFeaturizer().transform(ala2))
        DihedralFeaturizer().transform(swapped(ala2, "ALA2-HB1", "ALA2-HB3"))

    @pytest.mark.parametrize("names", [("ALA2-CA", "ALA2-CB"), ("ALA2-O", "NME3-N"), ("ALA2-C", "ALA2-HA")])
    def test_a_topology_without_bonds_is_enough(self, ala2, names):
        bare = ala2.topology.copy()
        bare._bonds = []
        trajectory = md.Trajectory(swapped(ala2, *names).xyz, bare)
        refuses(trajectory)
        assert bare.n_bonds == 0
        DihedralFeaturizer().transform(md.Trajectory(ala2.xyz, bare))

    def test_residues_of_unknown_names_are_known_by_their_angles(self, ala2):
        for molecule, fits in ((ala2, True), (swapped(ala2, "ALA2-CA", "ALA2-CB"), False)):
            odd = molecule.topology.copy()
            odd._bonds = []
            for residue, name in zip(odd.residues, ("AAA", "BBB", "CCC"), strict=True):
                residue.name = name
            trajectory = md.Trajectory(molecule.xyz, odd)
            if fits:
                DihedralFeaturizer().transform(trajectory)
            else:
                refuses(trajectory)

    def test_only_residues_with_angles_count(self, deca):
        strange = swapped(deca, "ALA9-CA", "ALA9-CB")
        DihedralFeaturizer(residues=[2, 5]).transform(strange)
        refuses(strange)


class TestNoFalseAlarm:
    @pytest.mark.parametrize("periodic", [True, False])
    @pytest.mark.parametrize("cell", [CUBE, DODECAHEDRON, SKEWED], ids=["cube", "dodecahedron", "skewed"])
    @pytest.mark.parametrize("n_frames", [1, 40])
    def test_broken_across_a_box_that_is_told(self, deca, cell, n_frames, periodic):
        whole = deca[:n_frames]
        broken = with_box(put_into_box(whole, 1.7 * cell, 0.3), 1.7 * cell)
        if periodic:
            features = DihedralFeaturizer().transform(broken)
            assert np.abs(features - DihedralFeaturizer().transform(whole)).max() < 1e-3
        else:
            with pytest.warns(TrajectoryWarning, match="make it whole first"):
                DihedralFeaturizer(periodic=False).transform(broken)
        refuses(with_box(swapped(broken, "ALA5-CA", "ALA5-CB"), 1.7 * cell))

    @settings(deadline=None, max_examples=25, derandomize=True)
    @given(
        shift=st.tuples(*[st.floats(-2, 2)] * 3),
        n_frames=st.sampled_from([1, 10]),
        cell=st.sampled_from([CUBE, np.diag([0.9, 1.1, 1.0]), DODECAHEDRON, SKEWED]),
    )
    def test_broken_across_a_box_that_is_not_told_is_worth_a_warning(self, deca, shift, n_frames, cell):
        still = like(deca, np.repeat(deca.xyz[:1], n_frames, axis=0))  # at the border in all frames
        broken = put_into_box(still, 3.2 * cell, np.array(shift))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            DihedralFeaturizer().transform(broken)
        assert ["make it whole first" in str(warning.message) for warning in caught] in ([], [True])

    def test_some_broken_frames_are_worth_a_warning(self, deca):
        xyz = deca.xyz[:30].copy()
        xyz[[1, 8], 40:] += 2.0
        with pytest.warns(TrajectoryWarning, match="frame 1: atoms"):
            DihedralFeaturizer().transform(like(deca, xyz))

    def test_missing_residues_are_worth_a_warning(self, deca):
        kept = [atom.index for atom in deca.topology.atoms if atom.residue.resSeq not in (4, 5, 6)]
        cut = deca.atom_slice(kept)
        cut.topology.create_standard_bonds()  # also from residue 3 to 7
        with pytest.warns(TrajectoryWarning, match="residues are missing in between"):
            DihedralFeaturizer().transform(cut)

    def test_a_gap_at_the_only_peptide_bond_is_worth_a_warning(self):
        xyz = random_trajectory(topology_of(["ALA"], ["ALA"]), 20).xyz + np.repeat([0.0, 2.0], 5)[None, :, None]
        with pytest.warns(TrajectoryWarning, match="atoms 3 and 5 are"):
            DihedralFeaturizer().transform(md.Trajectory(xyz.astype(np.float32), topology_of(["ALA", "ALA"])))

    def test_two_chains_in_one_are_worth_a_warning(self):
        # As in GRO and PRMTOP files, which know no chains.
        one = topology_of(["ALA"] * 6)
        halves = random_trajectory(topology_of(["ALA"] * 3, ["ALA"] * 3), 20)
        xyz = halves.xyz + np.repeat([0.0, 2.0], 15)[None, :, None]
        with pytest.warns(TrajectoryWarning, match="atoms 13 and 15 are"):
            DihedralFeaturizer().transform(md.Trajectory(xyz.astype(np.float32), one))

    def test_two_rings_in_one_chain_are_worth_a_warning(self):
        # The ends of each ring meet: these are no residues in another order.
        topology = topology_of(["ALA"] * 12)
        turns = 2.0 * np.pi * np.arange(18) / 18
        circle = 0.145 / (2.0 * np.sin(np.pi / 18)) * np.column_stack([np.cos(turns), np.sin(turns), 0.0 * turns])
        nitrogen, alpha, carbon = circle.reshape(6, 3, 3).transpose(1, 0, 2)
        ring = np.stack([nitrogen, alpha, 1.35 * alpha, carbon, 1.3 * carbon], axis=1).reshape(-1, 3)
        both = np.concatenate([ring, ring + np.array([2.0, 2.0, 0.0])])
        xyz = both + 0.003 * np.random.default_rng(0).normal(size=(20, 60, 3))
        rings = md.Trajectory(xyz.astype(np.float32), topology)
        with pytest.warns(TrajectoryWarning, match="atoms 28 and 30 are"):
            DihedralFeaturizer().transform(rings)
        other = np.arange(60).reshape(12, 5)[[*range(5), 6, 5, *range(7, 12)]].ravel()
        refuses(in_order(rings, other))

    @pytest.mark.parametrize("factor", [10.0, 0.1])
    def test_other_units(self, deca, factor):
        scaled = like(deca, factor * deca.xyz)
        if factor > 1.0:
            with pytest.warns(TrajectoryWarning, match="too far for a bond"):
                features = DihedralFeaturizer().transform(scaled)
        else:
            features = DihedralFeaturizer().transform(scaled)
        np.testing.assert_allclose(features, DihedralFeaturizer().transform(deca), atol=1e-3)
        with pytest.raises(TrajectoryError, match="are bonded in the topology"):
            DihedralFeaturizer().transform(swapped(scaled, "ALA5-CA", "ALA5-CB"))
        with pytest.raises(TrajectoryError, match="are bonded in the topology"):
            DihedralFeaturizer().transform(like(deca, 3.0 * deca.xyz))

    def test_other_atoms_may_be_anywhere(self, ala2):
        topology = ala2.topology.copy()
        residue = topology.residue(1)
        zinc = topology.add_atom("ZN", md.element.zinc, residue)
        site = topology.add_atom("M", md.element.virtual, residue)
        topology.add_bond(zinc, topology.atom(8))
        topology.add_bond(site, topology.atom(8))
        other = topology.add_atom("CX", md.element.carbon, topology.add_residue("LIG", topology.add_chain()))
        topology.add_bond(other, topology.atom(8))
        xyz = np.concatenate([ala2.xyz, np.full((len(ala2), 3, 3), 5.0, dtype=np.float32)], axis=1)
        xyz[:, -2] = np.nan
        np.testing.assert_array_equal(
            DihedralFeaturizer().transform(md.Trajectory(xyz, topology)), DihedralFeaturizer().transform(ala2)
        )

    def test_elements_that_are_not_known(self, ala2):
        topology = ala2.topology.copy()
        for atom in topology.atoms:
            atom.element = md.element.calcium if atom.name == "CA" else md.element.virtual
        DihedralFeaturizer().transform(md.Trajectory(ala2.xyz, topology))
        refuses(md.Trajectory(swapped(ala2, "ALA2-CA", "ALA2-CB").xyz, topology))

    def test_hydrogen_that_is_not_a_number_does_not_matter(self, ala2):
        xyz = ala2.xyz.copy()
        xyz[:, [atom.index for atom in ala2.topology.atoms if atom.name.startswith("H")]] = np.nan
        DihedralFeaturizer().transform(like(ala2, xyz))
        refuses(swapped(like(ala2, xyz), "ALA2-CA", "ALA2-CB"))

    def test_a_frame_that_cannot_be_used_is_still_named(self, ala2):
        xyz = ala2.xyz.copy()
        xyz[3] = np.nan
        with pytest.raises(TrajectoryError, match="frame 3: a coordinate of atom"):
            DihedralFeaturizer().transform(like(ala2, xyz))
        xyz[0] = 0.0
        with pytest.raises(TrajectoryError, match=r"frame 0: atoms .* lie at the same point"):
            DihedralFeaturizer().transform(like(ala2, xyz))
        # The frames before it say that the topology is wrong, which matters more.
        refuses(
            swapped(
                like(ala2, np.where(np.arange(len(xyz))[:, None, None] == 3, np.nan, ala2.xyz)), "ALA2-CA", "ALA2-CB"
            )
        )


class TestOmega:
    PEPTIDE = topology_of(["ALA"] * 6)

    def test_peptide_bonds_that_are_not_planar_are_refused(self):
        refuses(random_trajectory(self.PEPTIDE, 3, omega=90.0), message=r"15 of 15 angles omega .* in 3 frames.*planar")
        refuses(random_trajectory(self.PEPTIDE, 200, omega=None), message="peptide bonds are planar; .*another order")

    @pytest.mark.parametrize("omega", [0.0, 180.0])
    def test_cis_and_trans_are_planar(self, omega):
        DihedralFeaturizer().transform(random_trajectory(self.PEPTIDE, 20, omega=omega))

    def test_one_on_its_way_is_not_enough(self):
        DihedralFeaturizer().transform(random_trajectory(topology_of(["ALA"] * 3), 1, omega=90.0))


class TestFiles:
    @pytest.fixture
    def files(self, ala2, tmp_path):
        names = ("right.xtc", "wrong.xtc")
        for name, trajectory in zip(names, (ala2, swapped(ala2, "ALA2-CA", "ALA2-N")), strict=True):
            trajectory.save(str(tmp_path / name))
        return [tmp_path / name for name in names]

    TOP = alanine_dipeptide().topology_file

    @pytest.mark.parametrize("chunk", [1, 3, 1000])
    @pytest.mark.parametrize("stride", [1, 40])
    def test_nothing_of_a_refused_file_is_handed_out(self, files, chunk, stride):
        messages = set()
        with pytest.raises(TrajectoryError, match=REFUSED) as error:
            DihedralFeaturizer().load(files, self.TOP, chunk=chunk, stride=stride)
        assert list(error.value.finished) == [str(files[0])]
        assert error.value.partial == {}
        messages.add(str(error.value).splitlines()[0])
        with pytest.raises(TrajectoryError, match=REFUSED) as error:
            next(DihedralFeaturizer().iter_load(files[1], self.TOP, chunk=chunk, stride=stride))
        messages.add(str(error.value))
        with pytest.raises(TrajectoryError) as error:
            DihedralFeaturizer().load(files[1], self.TOP, stride=stride)
        assert messages == {str(error.value).splitlines()[0]}  # the verdict does not depend on blocks

    def test_frames_before_a_damage_are_handed_out_if_the_topology_fits(self, files):
        for file in files:
            content = file.read_bytes()
            file.write_bytes(content[: len(content) // 2])
        with pytest.raises(TrajectoryError, match=r"right.xtc is damaged or truncated") as error:
            DihedralFeaturizer().load(files, self.TOP, chunk=2)
        assert "wrong.xtc: " in str(error.value)
        assert list(error.value.partial) == [str(files[0])]

    def test_features_kept_before_topologies_were_checked_are_not_used(self, files, tmp_path, monkeypatch):
        wrong = files[1]
        with monkeypatch.context() as before:
            before.setattr(cache, "_VERSION", 1)
            before.setattr("m3c_md.features.topology.Inspection.conclude", lambda *_: None)
            DihedralFeaturizer().load(wrong, self.TOP, cache=tmp_path / "cache")
        assert len(list((tmp_path / "cache").iterdir())) == 1
        for _ in range(2):
            with pytest.raises(TrajectoryError, match=REFUSED):
                DihedralFeaturizer().load(wrong, self.TOP, cache=tmp_path / "cache")
        assert len(list((tmp_path / "cache").iterdir())) == 1

    def test_the_command_line_says_it_in_one_line(self, files, tmp_path, capsys):
        given = ["fit", str(files[1]), "--top", str(self.TOP), "--n-states", "2", "--out", str(tmp_path / "out")]
        assert main(given) == 2
        said = capsys.readouterr().err.splitlines()
        assert "wrong.xtc: " in said[-1]
        assert "are bonded in the topology" in said[-1]
        assert "give the topology that was written with the trajectory" in said[-1]
        assert not [line for line in said if "Traceback" in line or line.startswith("warning")]
        assert not (tmp_path / "out").exists()
