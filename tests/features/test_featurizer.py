"""The featuriser as its users see it: columns, formats, strides, chunks, processes, errors, real files."""

from __future__ import annotations

import pickle
from pathlib import Path

import mdtraj as md
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tqdm import tqdm

from m3c_md.exceptions import InputError, TrajectoryError, TrajectoryWarning
from m3c_md.features import DihedralFeaturizer
from m3c_md.features.reading import regrouped
from tests.features import by_hand, random_trajectory, topology_of

SHARED = Path(__file__).parents[3] / "shared" / "data"
PEPTIDE = topology_of(["ACE", "ALA", "LYS", "NME"])
N_FRAMES = 23


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A topology and three XTC files of different lengths."""
    folder = tmp_path_factory.mktemp("files")
    random_trajectory(PEPTIDE, 1).save(str(folder / "top.pdb"))
    for i in range(3):
        random_trajectory(PEPTIDE, N_FRAMES + i, seed=i).save(str(folder / f"run{i}.xtc"))
    return folder


def by_mdtraj(trajectory, periodic=True):
    """Columns of phi and psi of residues 2 and 3, put together by hand from mdtraj's functions."""
    angles = []
    for residue in (2, 3):
        for compute in (md.compute_phi, md.compute_psi):
            indices, values = compute(trajectory, periodic=periodic)
            of_residue = [trajectory.topology.atom(quartet[1]).residue.resSeq == residue for quartet in indices]
            angles.append(values[:, np.flatnonzero(of_residue)[0]])
    return np.column_stack([function(angle) for angle in angles for function in (np.sin, np.cos)])


class TestColumns:
    def test_names(self):
        assert DihedralFeaturizer().describe(PEPTIDE) == [
            *("sin phi ALA 2", "cos phi ALA 2", "sin psi ALA 2", "cos psi ALA 2"),
            *("sin phi LYS 3", "cos phi LYS 3", "sin psi LYS 3", "cos psi LYS 3"),
        ]
        raw = DihedralFeaturizer(("psi", "chi4"), residues=[3], sincos=False)
        assert raw.describe(PEPTIDE) == ["psi LYS 3", "chi4 LYS 3"]

    def test_what_is_missing_is_told(self):
        labels = DihedralFeaturizer(("phi", "chi4")).describe(PEPTIDE)
        assert labels.missing == {"phi": ["ACE 1", "NME 4"], "chi4": ["ACE 1", "ALA 2", "NME 4"]}
        assert str(labels).splitlines()[-2:] == ["without phi: ACE 1, NME 4", "without chi4: ACE 1, ALA 2, NME 4"]
        assert str(labels).splitlines()[0] == "0  sin phi ALA 2"

    def test_values_are_those_of_mdtraj_in_the_order_of_the_names(self):
        trajectory = random_trajectory(PEPTIDE, N_FRAMES)
        features = DihedralFeaturizer().transform(trajectory)
        assert features.dtype == np.float32
        np.testing.assert_array_equal(features, by_mdtraj(trajectory))

    def test_raw_angles_and_their_sines(self):
        trajectory = random_trajectory(PEPTIDE, N_FRAMES)
        angles = DihedralFeaturizer(sincos=False).transform(trajectory)
        features = DihedralFeaturizer().transform(trajectory)
        np.testing.assert_array_equal(features[:, 0::2], np.sin(angles))
        np.testing.assert_array_equal(features[:, 1::2], np.cos(angles))
        assert np.abs(angles).max() <= np.float32(np.pi)

    def test_names_after_first_use(self, folder):
        for use in (
            lambda f: f.transform(random_trajectory(PEPTIDE, 2)),
            lambda f: f.load(folder / "run0.xtc", folder / "top.pdb"),
            lambda f: f.iter_load(folder / "run0.xtc", folder / "top.pdb"),
        ):
            featurizer = DihedralFeaturizer()
            with pytest.raises(InputError, match="give a topology"):
                featurizer.describe()
            use(featurizer)
            assert featurizer.describe() == DihedralFeaturizer().describe(folder / "top.pdb")

    def test_another_molecule_is_refused(self):
        featurizer = DihedralFeaturizer()
        featurizer.transform(random_trajectory(PEPTIDE, 2))
        with pytest.raises(InputError, match="'sin phi LYS 3' would be 'sin phi ALA 3'"):
            featurizer.transform(random_trajectory(topology_of(["ACE", "ALA", "ALA", "NME"]), 2))
        with pytest.raises(InputError, match="8 columns would be 12"):
            featurizer.transform(random_trajectory(topology_of(["ACE", "ALA", "LYS", "ALA", "NME"]), 2))

    def test_the_same_molecule_in_water_is_the_same(self):
        featurizer = DihedralFeaturizer()
        dry = random_trajectory(PEPTIDE, 5)
        wet = random_trajectory(topology_of(["HOH"] * 2, ["ACE", "ALA", "LYS", "NME"]), 5)
        wet.xyz[:, 6:] = dry.xyz
        np.testing.assert_array_equal(featurizer.transform(wet), featurizer.transform(dry))

    def test_list_in_list_out_and_call(self):
        trajectories = [random_trajectory(PEPTIDE, n) for n in (3, 4)]
        featurizer = DihedralFeaturizer()
        assert [x.shape for x in featurizer.transform(trajectories)] == [(3, 8), (4, 8)]
        np.testing.assert_array_equal(featurizer(trajectories[0]), featurizer.transform(trajectories[0]))

    def test_nothing_is_changed(self):
        trajectory = random_trajectory(PEPTIDE, 3, cell=0.1)
        before = trajectory.xyz.copy()
        DihedralFeaturizer().transform(trajectory)
        np.testing.assert_array_equal(trajectory.xyz, before)

    def test_a_permutation_of_frames_permutes_rows(self):
        trajectory = random_trajectory(PEPTIDE, N_FRAMES, cell=0.3)  # so small that some molecules reach across it
        order = np.random.default_rng(1).permutation(N_FRAMES)
        featurizer = DihedralFeaturizer()
        np.testing.assert_array_equal(featurizer.transform(trajectory)[order], featurizer.transform(trajectory[order]))

    def test_a_box_counts_only_if_asked_for(self):
        whole = random_trajectory(PEPTIDE, N_FRAMES, cell=1.5)
        broken = md.Trajectory(whole.xyz % np.float32(1.5), PEPTIDE)
        broken.unitcell_vectors = whole.unitcell_vectors
        expected = DihedralFeaturizer().transform(whole)
        across = DihedralFeaturizer().transform(broken)
        assert np.quantile(np.abs(across - expected), 0.99) < 1e-3
        with pytest.warns(TrajectoryWarning, match=r"the trajectory, frame 0: atoms .* nm apart"):
            as_it_is = DihedralFeaturizer(periodic=False).transform(broken)
        assert np.abs(as_it_is - expected).max() > 0.5


class TestLoading:
    def test_one_array_per_file(self, folder):
        trajs = DihedralFeaturizer().load([folder / "run0.xtc", str(folder / "run2.xtc")], top=folder / "top.pdb")
        assert [x.shape for x in trajs] == [(N_FRAMES, 8), (N_FRAMES + 2, 8)]
        for i, features in zip((0, 2), trajs, strict=True):
            whole = md.load(str(folder / f"run{i}.xtc"), top=str(folder / "top.pdb"))
            np.testing.assert_array_equal(features, by_mdtraj(whole))

    def test_a_pattern(self, folder):
        featurizer = DihedralFeaturizer()
        trajs = featurizer.load(str(folder / "*.xtc"), top=PEPTIDE)
        assert [len(x) for x in trajs] == [N_FRAMES, N_FRAMES + 1, N_FRAMES + 2]

    @settings(deadline=None, max_examples=40, derandomize=True)
    @given(stride=st.integers(1, 30), chunk=st.integers(1, 30))
    def test_strides_and_chunks(self, folder, stride, chunk):
        featurizer = DihedralFeaturizer()
        [features] = featurizer.load(folder / "run0.xtc", PEPTIDE, stride=stride, chunk=chunk)
        strided = md.load(str(folder / "run0.xtc"), top=PEPTIDE, stride=stride)
        np.testing.assert_array_equal(features, featurizer.transform(strided))
        pieces = list(featurizer.iter_load(folder / "run0.xtc", PEPTIDE, stride=stride, chunk=chunk))
        np.testing.assert_array_equal(np.concatenate(pieces), features)
        assert [len(piece) for piece in pieces[:-1]] == [chunk] * (len(pieces) - 1)
        assert 1 <= len(pieces[-1]) <= chunk

    @pytest.mark.parametrize(
        "ending",
        ["xtc", "trr", "dcd", "nc", "mdcrd", "lammpstrj", "xyz", "xyz.gz", "gro", "pdb", "pdb.gz", "cif", "h5", "lh5"],
    )
    @pytest.mark.filterwarnings("ignore:Warning. The 'netCDF4'", "ignore:.*mmap=True:RuntimeWarning")
    def test_formats(self, tmp_path, ending):
        if ending in ("h5", "lh5"):
            pytest.importorskip("tables")
        file = tmp_path / f"run.{ending}"
        random_trajectory(PEPTIDE, N_FRAMES, cell=2.0).save(str(file))
        whole = md.load(str(file)) if ending in ("h5", "lh5") else md.load(str(file), top=PEPTIDE)
        expected = by_mdtraj(whole, periodic=False)
        for chunk, stride in ((5, 1), (5, 3), (100, 7)):
            [features] = DihedralFeaturizer().load(file, PEPTIDE, chunk=chunk, stride=stride)
            np.testing.assert_array_equal(features, expected[::stride])

    @pytest.mark.parametrize("ending", ["pdb", "gro", "h5"])
    def test_files_that_bring_their_topology(self, tmp_path, ending):
        if ending == "h5":
            pytest.importorskip("tables")
        file = tmp_path / f"run.{ending}"
        random_trajectory(PEPTIDE, 4, cell=2.0).save(str(file))
        [without] = DihedralFeaturizer().load(file)
        [with_top] = DihedralFeaturizer().load(file, PEPTIDE)
        np.testing.assert_array_equal(without, with_top)

    def test_restart_files_have_one_frame(self, tmp_path):
        random_trajectory(PEPTIDE, 1).save(str(tmp_path / "a.rst7"))
        assert DihedralFeaturizer().load(tmp_path / "a.rst7", PEPTIDE)[0].shape == (1, 8)

    def test_files_without_the_water_of_the_topology(self, folder):
        wet = topology_of(["ACE", "ALA", "LYS", "NME"], ["HOH"] * 4)
        expected = DihedralFeaturizer().load(folder / "run0.xtc", PEPTIDE)[0]
        for atoms in ("protein", "not water", np.arange(PEPTIDE.n_atoms)):
            [features] = DihedralFeaturizer().load(folder / "run0.xtc", wet, atoms=atoms)
            np.testing.assert_array_equal(features, expected)
        with pytest.raises(TrajectoryError, match=r"has 19 atoms in a frame, but the topology has 31.*atoms="):
            DihedralFeaturizer().load(folder / "run0.xtc", wet)

    def test_processes_give_the_same(self, folder, tmp_path):
        files = [folder / f"run{i}.xtc" for i in range(3)]
        expected = DihedralFeaturizer().load(files, PEPTIDE)
        found = DihedralFeaturizer().load(files, PEPTIDE, n_jobs=2)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        (tmp_path / "bad.xtc").write_bytes(files[0].read_bytes()[:-50])
        with pytest.raises(TrajectoryError) as error:
            DihedralFeaturizer().load([tmp_path / "bad.xtc", files[1]], PEPTIDE, n_jobs=2)
        np.testing.assert_array_equal(error.value.finished[str(files[1])], expected[1])

    def test_progress_counts_files(self, folder):
        bars = []

        class Bar(tqdm):
            def __init__(self, *given, **options):
                super().__init__(*given, **options)
                bars.append(self)

        DihedralFeaturizer().load(str(folder / "*.xtc"), PEPTIDE, progress=Bar)
        assert [(bar.n, bar.total) for bar in bars] == [(3, 3)]
        with pytest.raises(InputError, match="progress=5"):
            DihedralFeaturizer().load(str(folder / "*.xtc"), PEPTIDE, progress=5)

    def test_one_file_at_a_time_out_of_core(self, folder):
        with pytest.raises(InputError, match="stands for 3 files"):
            DihedralFeaturizer().iter_load(str(folder / "*.xtc"), PEPTIDE)

    @pytest.mark.parametrize("option", ["stride", "chunk"])
    @pytest.mark.parametrize("value", [0, -1, 1.5, None])
    def test_numbers_that_make_no_sense(self, folder, option, value):
        for load in (DihedralFeaturizer().load, DihedralFeaturizer().iter_load):
            with pytest.raises(InputError, match=f"{option}="):
                load(folder / "run0.xtc", PEPTIDE, **{option: value})

    @pytest.mark.parametrize("options", [{"sincos": 1}, {"periodic": "yes"}, {"dihedrals": "xi"}, {"residues": 2}])
    def test_settings_that_make_no_sense(self, options):
        with pytest.raises(InputError, match=next(iter(options))):
            DihedralFeaturizer(**options).describe(PEPTIDE)

    @settings(deadline=None, max_examples=30, derandomize=True)
    @given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 12))
    def test_regrouping_keeps_rows_and_order(self, lengths, size):
        rows = np.arange(2.0 * sum(lengths), dtype=np.float32).reshape(-1, 2)
        pieces = list(regrouped(np.split(rows, np.cumsum(lengths)[:-1]) if lengths else [], size))
        assert [len(piece) for piece in pieces[:-1]] == [size] * (len(pieces) - 1)
        np.testing.assert_array_equal(np.concatenate([np.empty((0, 2)), *pieces]), rows)


class TestTrouble:
    def test_what_was_read_is_not_lost(self, folder, tmp_path):
        content = (folder / "run1.xtc").read_bytes()
        bad = tmp_path / "bad.xtc"
        bad.write_bytes(content[: int(0.7 * len(content))])
        (tmp_path / "worse.xtc").write_bytes(b"nothing of the kind")
        whole = DihedralFeaturizer().load(str(folder / "*.xtc"), PEPTIDE)
        files = [folder / "run0.xtc", bad, tmp_path / "worse.xtc", folder / "run2.xtc"]
        with pytest.raises(TrajectoryError, match=r"bad.xtc is damaged or truncated: it can be read up to") as error:
            DihedralFeaturizer().load(files, PEPTIDE, chunk=4)
        assert "worse.xtc cannot be read from its first frame on" in str(error.value)
        assert "2 of 4 files" in str(error.value)
        assert list(error.value.finished) == [str(files[0]), str(files[3])]
        assert "finished and partial" in error.value.__notes__[0]
        np.testing.assert_array_equal(error.value.finished[str(files[0])], whole[0])
        np.testing.assert_array_equal(error.value.finished[str(files[3])], whole[2])
        assert list(error.value.partial) == [str(bad)]
        partial = error.value.partial[str(bad)]
        assert f"({len(partial)} frames)" in str(error.value)
        assert 0.6 * len(whole[1]) < len(partial) < 0.75 * len(whole[1])
        np.testing.assert_array_equal(partial, whole[1][: len(partial)])
        copy = pickle.loads(pickle.dumps(error.value))
        assert str(copy) == str(error.value)
        assert copy.partial.keys() == error.value.partial.keys()

    def test_out_of_core_hands_out_all_frames_before_the_damage(self, folder, tmp_path):
        content = (folder / "run1.xtc").read_bytes()
        (tmp_path / "bad.xtc").write_bytes(content[: len(content) // 2 + 20])
        [whole] = DihedralFeaturizer().load(folder / "run1.xtc", PEPTIDE)
        got = []
        with pytest.raises(TrajectoryError, match=r"\(12 frames\)"):
            got.extend(DihedralFeaturizer().iter_load(tmp_path / "bad.xtc", PEPTIDE, chunk=5))
        np.testing.assert_array_equal(np.concatenate(got), whole[:12])

    def test_a_dcd_file_that_lacks_its_last_frames(self, tmp_path):
        file = tmp_path / "a.dcd"
        random_trajectory(PEPTIDE, 10).save(str(file))
        file.write_bytes(file.read_bytes()[:-1])
        with pytest.raises(TrajectoryError, match=r"header promises 10 frames, but only 9 are complete") as error:
            DihedralFeaturizer().load(file, PEPTIDE)
        assert len(error.value.partial[str(file)]) == 9

    @pytest.mark.parametrize("stride", [1, 2, 3])
    def test_a_coordinate_that_is_not_finite(self, tmp_path, stride):
        trajectory = random_trajectory(PEPTIDE, 20)
        trajectory.xyz[12, 4] = np.nan
        trajectory.save(str(tmp_path / "a.dcd"))
        with pytest.raises(TrajectoryError, match=r"a.dcd, frame 12: a coordinate of atom .* not a finite") as error:
            DihedralFeaturizer().load(tmp_path / "a.dcd", PEPTIDE, chunk=7, stride=stride)
        expected = DihedralFeaturizer().transform(trajectory[:12:stride])
        np.testing.assert_allclose(error.value.partial[str(tmp_path / "a.dcd")], expected, atol=1e-4)
        with pytest.raises(InputError, match="the trajectory, frame 12"):
            DihedralFeaturizer().transform(trajectory)

    def test_a_bad_frame_that_is_skipped_does_no_harm(self, tmp_path):
        trajectory = random_trajectory(PEPTIDE, 20)
        trajectory.xyz[12] = 0.0
        trajectory.save(str(tmp_path / "a.dcd"))
        assert DihedralFeaturizer().load(tmp_path / "a.dcd", PEPTIDE, stride=5)[0].shape == (4, 8)
        with pytest.raises(TrajectoryError, match=r"frame 12: atoms .* lie at the same point"):
            DihedralFeaturizer().load(tmp_path / "a.dcd", PEPTIDE)

    def test_atoms_too_far_apart_are_worth_a_warning(self, tmp_path):
        trajectory = random_trajectory(PEPTIDE, 20)
        trajectory.xyz[13:, 4:] += 3.0
        trajectory.save(str(tmp_path / "a.xtc"))
        for load in (DihedralFeaturizer().load, lambda *given: list(DihedralFeaturizer().iter_load(*given))):
            with pytest.warns(TrajectoryWarning, match=r"a.xtc, frame 13: atoms .* 5\.[1-3] nm apart") as caught:
                load(tmp_path / "a.xtc", PEPTIDE)
            assert len(caught) == 1
            assert caught[0].filename == __file__

    def test_trajectories_that_are_none(self):
        with pytest.raises(InputError, match="no frames"):
            DihedralFeaturizer().transform(random_trajectory(PEPTIDE, 3)[:0])
        with pytest.raises(InputError, match=r"use load for the names"):
            DihedralFeaturizer().transform("run.xtc")
        with pytest.raises(InputError, match="no topology"):
            DihedralFeaturizer().transform(md.Trajectory(np.zeros((1, 3, 3)), None))


@pytest.mark.skipif(not SHARED.exists(), reason="the real trajectories are not part of the project")
class TestRealFiles:
    def test_alanine_dipeptide(self):
        folder = SHARED / "alanine_dipeptide_msmbuilder"
        featurizer = DihedralFeaturizer(sincos=False)
        angles = featurizer.load(str(folder / "*.dcd"), folder / "ala2.pdb", stride=7, chunk=1000)
        assert featurizer.describe() == ["phi ALA 2", "psi ALA 2"]
        assert featurizer.describe().missing == {"phi": ["ACE 1", "NME 3"], "psi": ["ACE 1", "NME 3"]}
        for file, found in zip(sorted(folder.glob("*.dcd")), angles, strict=True):
            whole = md.load(str(file), top=str(folder / "ala2.pdb"), stride=7)
            np.testing.assert_array_equal(found[:, :1], md.compute_phi(whole)[1])
            np.testing.assert_array_equal(found[:, 1:], md.compute_psi(whole)[1])
            quartets = np.vstack([md.compute_phi(whole)[0], md.compute_psi(whole)[0]])
            np.testing.assert_allclose(np.cos(found), np.cos(by_hand(whole.xyz, quartets)), atol=1e-5)
            np.testing.assert_allclose(np.sin(found), np.sin(by_hand(whole.xyz, quartets)), atol=1e-5)

    def test_a_triclinic_box(self):
        folder = SHARED / "asp7"
        [features] = DihedralFeaturizer().load(folder / "asp7.xtc", folder / "asp7_reordered.pdb", stride=50)
        whole = md.load(str(folder / "asp7.xtc"), top=str(folder / "asp7_reordered.pdb"), stride=50)
        assert whole.unitcell_angles[0, 0] != 90.0
        assert features.shape == (201, 24)
        phi, psi = md.compute_phi(whole)[1], md.compute_psi(whole)[1]
        np.testing.assert_array_equal(features[:, 0], np.sin(psi[:, 0]))  # the first residue has no phi
        np.testing.assert_array_equal(features[:, 2::4], np.sin(phi))
        np.testing.assert_array_equal(features[:, 5::4], np.cos(psi[:, 1:]))
