"""Names, topologies and blocks of trajectory files, whole and damaged."""

from __future__ import annotations

import gc
from pathlib import Path

import mdtraj as md
import numpy as np
import pytest

from m3c_md.exceptions import InputError, TrajectoryError
from m3c_md.features import files as files_module
from m3c_md.features.files import extension_of, read_topology, trajectory_blocks, trajectory_files
from tests.features import random_trajectory, topology_of

PEPTIDE = topology_of(["ALA", "LYS", "GLY"])

# mdtraj's parsers leave files open when they fail.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def files_left_open_are_closed_here():
    yield
    gc.collect()


class TestNames:
    def test_one_name_a_path_and_lists_of_both(self, tmp_path):
        first, second = tmp_path / "a.xtc", tmp_path / "b.xtc"
        first.touch()
        second.touch()
        assert trajectory_files(str(first)) == trajectory_files(first) == [first]
        assert trajectory_files([second, str(first)]) == [second, first]

    def test_patterns_in_natural_order(self, tmp_path):
        for number in (10, 2, 1):
            (tmp_path / f"run{number}.xtc").touch()
        (tmp_path / "notes.txt").touch()
        assert [path.name for path in trajectory_files(tmp_path / "*.xtc")] == ["run1.xtc", "run2.xtc", "run10.xtc"]
        assert [path.name for path in trajectory_files(str(tmp_path / "run[12].xtc"))] == ["run1.xtc", "run2.xtc"]

    def test_folders_within_folders(self, tmp_path):
        (tmp_path / "deep" / "deeper").mkdir(parents=True)
        (tmp_path / "deep" / "deeper" / "run.xtc").touch()
        assert [path.name for path in trajectory_files(str(tmp_path / "**" / "*.xtc"))] == ["run.xtc"]

    def test_a_file_whose_name_looks_like_a_pattern(self, tmp_path):
        odd = tmp_path / "run[1].xtc"
        odd.touch()
        assert trajectory_files(odd) == [odd]

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("missing.xtc", "there is no file 'missing.xtc'"),
            ("*.xtc", r"no file matches '\*.xtc'"),
            ([], "empty list"),
            (5, "must be a file name"),
            ([b"a"], "must be a file name"),
        ],
    )
    def test_names_that_stand_for_nothing(self, name, message, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InputError, match=message):
            trajectory_files(name)

    def test_the_same_file_twice(self, tmp_path):
        (tmp_path / "a.xtc").touch()
        with pytest.raises(InputError, match="named twice"):
            trajectory_files([tmp_path / "a.xtc", str(tmp_path / "*.xtc")])

    @pytest.mark.parametrize(
        ("name", "ending"), [("a.b.xtc", ".xtc"), ("a.pdb.gz", ".pdb.gz"), (Path("x/y.nc"), ".nc")]
    )
    def test_endings(self, name, ending):
        assert extension_of(name) == ending


class TestTopology:
    def test_from_a_file_a_topology_or_a_trajectory(self, tmp_path):
        trajectory = random_trajectory(PEPTIDE, 1)
        trajectory.save(str(tmp_path / "top.pdb"))
        for top in (tmp_path / "top.pdb", str(tmp_path / "top.pdb"), PEPTIDE, trajectory):
            assert read_topology(top).n_atoms == PEPTIDE.n_atoms

    def test_from_the_first_file_if_it_has_one(self, tmp_path):
        random_trajectory(PEPTIDE, 1).save(str(tmp_path / "a.pdb"))
        assert read_topology(None, [tmp_path / "a.pdb"]).n_atoms == PEPTIDE.n_atoms

    def test_missing(self):
        with pytest.raises(InputError, match="give top="):
            read_topology(None, [Path("a.xtc")])
        with pytest.raises(InputError, match="top is missing"):
            read_topology(None)

    @pytest.mark.usefixtures("files_left_open_are_closed_here")
    def test_not_a_topology(self, tmp_path):
        (tmp_path / "top.pdb").write_bytes(np.random.default_rng(0).bytes(1000))
        (tmp_path / "top.txt").write_text("ALA")
        with pytest.raises(InputError, match=r"no topology can be read from .*top.pdb"):
            read_topology(tmp_path / "top.pdb")
        with pytest.raises(InputError, match=r"no topology can be read from .*top.txt"):
            read_topology(tmp_path / "top.txt")
        with pytest.raises(InputError, match=r"there is no topology file 'nowhere.pdb'"):
            read_topology("nowhere.pdb")
        with pytest.raises(InputError, match="top=3"):
            read_topology(3)

    @pytest.mark.parametrize("atoms", ["protein", list(range(PEPTIDE.n_atoms))])
    def test_only_some_atoms(self, atoms):
        solvated = topology_of(["ALA", "LYS", "GLY"], ["HOH"] * 3)
        assert read_topology(solvated, atoms=atoms).n_atoms == PEPTIDE.n_atoms

    @pytest.mark.parametrize("atoms", [[1, 0], [0, 0], [-1, 2], [0, 999]])
    def test_atoms_must_rise_within_the_topology(self, atoms):
        with pytest.raises(InputError, match="must rise"):
            read_topology(PEPTIDE, atoms=atoms)

    @pytest.mark.parametrize("atoms", [[], [0.5], 3, [[0, 1]]])
    def test_atoms_that_are_no_indices(self, atoms):
        with pytest.raises(InputError, match="selection string"):
            read_topology(PEPTIDE, atoms=atoms)


class TestBlocks:
    @pytest.mark.parametrize("chunk", [1, 3, 10, 100])
    def test_all_frames_once(self, tmp_path, chunk):
        trajectory = random_trajectory(PEPTIDE, 10)
        trajectory.save(str(tmp_path / "a.dcd"))
        blocks = list(trajectory_blocks(tmp_path / "a.dcd", PEPTIDE, chunk))
        assert max(len(block) for block in blocks) <= chunk
        np.testing.assert_allclose(np.concatenate([b.xyz for b in blocks]), trajectory.xyz, atol=1e-6)

    def test_a_block_is_small_in_memory(self, tmp_path, monkeypatch):
        random_trajectory(PEPTIDE, 10).save(str(tmp_path / "a.xtc"))
        monkeypatch.setattr(files_module, "_BLOCK_BYTES", 4 * 12 * PEPTIDE.n_atoms)
        assert [len(b) for b in trajectory_blocks(tmp_path / "a.xtc", PEPTIDE, 100)] == [4, 4, 2]
        monkeypatch.setattr(files_module, "_BLOCK_BYTES", 1)
        assert [len(b) for b in trajectory_blocks(tmp_path / "a.xtc", PEPTIDE, 100)] == [1] * 10

    @pytest.mark.parametrize("ending", ["xtc", "trr", "dcd", "gro", "pdb", "xyz"])
    def test_another_number_of_atoms(self, tmp_path, ending):
        file = tmp_path / f"a.{ending}"
        random_trajectory(topology_of(["ALA"] * 3), 3).save(str(file))
        expected = rf"a.{ending} has 15 atoms in a frame, but the topology has {PEPTIDE.n_atoms}"
        with pytest.raises(TrajectoryError, match=expected):
            list(trajectory_blocks(file, PEPTIDE, 10))

    @pytest.mark.parametrize("ending", ["gro", "pdb"])
    def test_other_atoms_of_the_same_number(self, tmp_path, ending):
        file = tmp_path / f"a.{ending}"
        random_trajectory(topology_of(["GLY", "LYS", "ALA"]), 3).save(str(file))
        with pytest.raises(TrajectoryError, match="its atom 2 is GLY1-C, and that of the topology ALA1-CB"):
            list(trajectory_blocks(file, PEPTIDE, 10))

    @pytest.mark.parametrize("ending", ["xtc", "trr", "dcd", "nc", "xyz", "gro", "pdb", "mdcrd", "what"])
    @pytest.mark.filterwarnings("ignore:Warning. The 'netCDF4'")
    @pytest.mark.usefixtures("files_left_open_are_closed_here")
    def test_garbage(self, tmp_path, ending):
        file = tmp_path / f"a.{ending}"
        file.write_bytes(np.random.default_rng(0).bytes(5000))
        with pytest.raises(TrajectoryError, match=rf"a.{ending} cannot be read from its first frame on"):
            list(trajectory_blocks(file, PEPTIDE, 10))

    @pytest.mark.parametrize("ending", ["xtc", "trr", "dcd", "xyz", "gro", "pdb", "mdcrd"])
    @pytest.mark.usefixtures("files_left_open_are_closed_here")
    def test_an_empty_file(self, tmp_path, ending):
        file = tmp_path / f"a.{ending}"
        file.touch()
        with pytest.raises(TrajectoryError, match=rf"a.{ending} (cannot be read|holds no frames)"):
            list(trajectory_blocks(file, PEPTIDE, 10))

    def test_a_format_that_needs_another_package(self, tmp_path):
        try:
            import tables  # noqa: F401
        except ImportError:
            (tmp_path / "a.h5").touch()
            with pytest.raises(TrajectoryError, match="pip install tables"):
                list(trajectory_blocks(tmp_path / "a.h5", PEPTIDE, 10))
        else:
            pytest.skip("PyTables is installed")


@pytest.mark.parametrize("chunk", [1, 7, 100])
@pytest.mark.parametrize("ending", ["xtc", "trr", "dcd"])
class TestTruncated:
    """Cut at many places, a file yields the frames before the cut and then an error that counts them."""

    def test_frames_before_the_cut_are_handed_out(self, tmp_path, ending, chunk):
        trajectory = random_trajectory(PEPTIDE, 20)
        file = tmp_path / f"a.{ending}"
        trajectory.save(str(file))
        whole = md.load(str(file), top=PEPTIDE)
        content = file.read_bytes()
        ends = frame_ends(file)
        for cut in np.random.default_rng(0).integers(1, len(content), 12):
            file.write_bytes(content[:cut])
            complete = int(np.sum(ends <= cut))
            got = []
            # XTC and TRR do not say how many frames there should be, and a few bytes of the next frame count as none.
            noticed = ending == "dcd" or cut - max([0, *ends[ends <= cut]]) >= 4
            if noticed:
                with pytest.raises(TrajectoryError) as error:
                    got += self.collect(file, chunk, got)
                assert "a." + ending in str(error.value)
                assert complete == 0 or f"{complete} " in str(error.value)
            else:
                self.collect(file, chunk, got)
            assert len(got) == complete
            np.testing.assert_array_equal(np.array(got).reshape(-1, PEPTIDE.n_atoms, 3), whole.xyz[:complete])

    def collect(self, file, chunk, got):
        for block in trajectory_blocks(file, PEPTIDE, chunk):
            got += list(block.xyz)
        return []


def frame_ends(file: Path) -> np.ndarray:
    """Where each frame ends, in bytes."""
    size = file.stat().st_size
    with md.open(str(file)) as handle:
        if file.suffix == ".dcd":
            frame = 3 * (8 + 4 * PEPTIDE.n_atoms)
            return size - frame * np.arange(len(handle) - 1, -1, -1)
        return np.append(handle.offsets[1:], size)
