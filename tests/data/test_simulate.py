"""Runs: complete files, a stop at any moment does no harm, and neither does the number of processes."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mdtraj as md
import numpy as np
import pytest
from mdtraj.formats import XTCTrajectoryFile

import m3c_md.data
from m3c_md import DihedralFeaturizer
from m3c_md.data import read_run
from m3c_md.data import simulate as runs
from m3c_md.data.dynamics import DEFAULTS, PhaseSpacePoint, Settings, chunk_seed
from m3c_md.data.simulate import frames_done, parts_path, read_settings, simulate

TINY = dataclasses.replace(
    DEFAULTS["alanine-dipeptide"], n_frames=7, steps_per_frame=5, chunk_frames=3, equilibration_frames=1
)
TOPOLOGY = m3c_md.data.SHIPPED / "alanine_dipeptide" / "topology.pdb"
# Nanometres that an atom moves at most between frames of the stand-in, along each axis.
STRIDE = 0.004


def use_stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the physics, which needs OpenMM, by a walk that depends on the same things: start, velocities, seed."""
    first = md.load(str(TOPOLOGY)).xyz[0].astype(np.float64)

    def prepared(settings: Settings) -> tuple[None, dict[str, np.ndarray]]:
        return None, {name: (1.0 + 0.1 * i) * first for i, name in enumerate(settings.starts)}

    def start_point(_system: Any, settings: Settings, positions: np.ndarray, trajectory: int) -> PhaseSpacePoint:
        rng = np.random.default_rng(chunk_seed(settings, trajectory, 0))
        return PhaseSpacePoint(positions, 0.5 * STRIDE * rng.choice([-1.0, 1.0], size=positions.shape))

    def run_chunk(
        _system: Any, _settings: Settings, point: PhaseSpacePoint, n_frames: int, seed: int
    ) -> tuple[np.ndarray, PhaseSpacePoint]:
        rng = np.random.default_rng(seed)
        frames = []
        for _ in range(n_frames):
            moves = 0.5 * STRIDE * rng.choice([-1.0, 1.0], size=point.positions.shape)
            point = PhaseSpacePoint(point.positions + point.velocities + moves, moves)
            frames.append(point.positions)
        return np.array(frames, dtype=np.float32), point

    monkeypatch.setattr(runs, "prepared", prepared)
    monkeypatch.setattr(runs, "start_point", start_point)
    monkeypatch.setattr(runs, "run_chunk", run_chunk)
    monkeypatch.setattr(runs, "write_topology", lambda path, _settings: shutil.copy(TOPOLOGY, path))


@pytest.fixture
def stand_ins(monkeypatch) -> None:
    use_stand_ins(monkeypatch)


@pytest.fixture(params=["stand-in", "OpenMM"])
def physics(request, monkeypatch) -> str:
    """Both: the files are the same affair whoever makes the frames, and the stand-in runs everywhere."""
    if request.param == "OpenMM":
        pytest.importorskip("openmm")
    else:
        use_stand_ins(monkeypatch)
    return request.param


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the topology, whose PDB header has a date."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != runs.TOPOLOGY
    }


def stop(*_arguments: Any, **_options: Any) -> Any:
    raise KeyboardInterrupt


def at_call(number: int, function: Callable[..., Any], instead: Callable[..., Any]) -> Callable[..., Any]:
    """Do as ``function`` does, but something else at one of the calls, counted from 0."""
    calls = iter(range(number + 1))

    def counted(*arguments: Any, **options: Any) -> Any:
        return (instead if next(calls, None) == number else function)(*arguments, **options)

    return counted


class Bar:
    """A progress bar that remembers."""

    made: list[Bar]

    def __init__(self, total: int, initial: int, unit: str) -> None:
        self.total, self.initial, self.unit = total, initial, unit
        self.updates: list[int] = []
        self.closed = False
        self.made.append(self)

    def update(self, n: int) -> None:
        self.updates.append(n)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def bars(monkeypatch) -> list[Bar]:
    monkeypatch.setattr(Bar, "made", [], raising=False)
    return Bar.made


@pytest.mark.usefixtures("physics")
class TestRun:
    def test_files(self, tmp_path):
        simulate(TINY, 2, tmp_path / "new" / "run")
        assert sorted(path.name for path in (tmp_path / "new" / "run").iterdir()) == [
            *("settings.json", "topology.pdb"),
            *("traj_00.xtc", "traj_00_dihedrals.npy", "traj_01.xtc", "traj_01_dihedrals.npy"),
        ]
        assert read_settings(tmp_path / "new" / "run") == TINY
        assert json.loads((tmp_path / "new" / "run" / "settings.json").read_text())["n_frames"] == 7

    def test_angles_are_those_of_the_saved_coordinates(self, tmp_path):
        simulate(TINY, 2, tmp_path)
        run = read_run(tmp_path)
        assert [len(x) for x in run.angles] == [7, 7]
        assert run.dt == pytest.approx(TINY.spacing)
        for angles, file in zip(run.angles, run.trajectory_files, strict=True):
            ours = DihedralFeaturizer(sincos=False).load(file, run.topology_file)[0]
            np.testing.assert_allclose(angles, ours, atol=1e-6)
        assert not np.array_equal(run.angles[0], run.angles[1])

    @pytest.mark.parametrize("calls", [1, 2, 4])
    def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(self, calls, tmp_path, monkeypatch):
        simulate(TINY, 2, tmp_path / "whole")
        with monkeypatch.context() as patch:
            patch.setattr(runs, "run_chunk", at_call(calls, runs.run_chunk, stop))
            with pytest.raises(KeyboardInterrupt):
                simulate(TINY, 2, tmp_path / "stopped")
        assert contents(tmp_path / "stopped") != contents(tmp_path / "whole")
        simulate(TINY, 2, tmp_path / "stopped")
        assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")

    def test_a_finished_run_is_left_alone(self, tmp_path, monkeypatch, bars):
        simulate(TINY, 2, tmp_path)
        before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()}
        for name in ("run_chunk", "start_point", "write_topology", "prepared"):
            monkeypatch.setattr(runs, name, stop)
        simulate(TINY, 2, tmp_path, progress=Bar)
        assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()} == before
        assert [(bar.initial, bar.total, bar.updates, bar.closed) for bar in bars] == [(14, 14, [], True)]


@pytest.mark.usefixtures("stand_ins")
class TestFrames:
    @pytest.mark.parametrize(("n_frames", "chunk_frames"), [(7, 3), (6, 3), (2, 3), (3, 1), (1, 1)])
    def test_number_and_times(self, n_frames, chunk_frames, tmp_path):
        settings = dataclasses.replace(TINY, n_frames=n_frames, chunk_frames=chunk_frames)
        simulate(settings, 1, tmp_path)
        with XTCTrajectoryFile(str(tmp_path / "traj_00.xtc")) as file:
            xyz, times, steps, _ = file.read()
        assert xyz.shape == (n_frames, md.load(str(TOPOLOGY)).n_atoms, 3)
        np.testing.assert_allclose(times, 0.02 * np.arange(n_frames), rtol=1e-6)  # five steps of 4 fs
        np.testing.assert_array_equal(steps, 5 * np.arange(n_frames))
        assert np.load(tmp_path / "traj_00_dihedrals.npy").shape == (n_frames, 2)

    def test_a_chunk_starts_where_the_one_before_ended(self, tmp_path):
        simulate(dataclasses.replace(TINY, n_frames=40), 1, tmp_path)
        xyz = md.load(str(tmp_path / "traj_00.xtc"), top=str(TOPOLOGY)).xyz
        moved = np.abs(np.diff(xyz, axis=0)).max(axis=(1, 2))
        assert moved.max() < STRIDE + 0.0015  # XTC has a precision of 0.001 nm
        assert moved.min() > 0.5 * STRIDE  # no chunk is there twice
        steps = np.diff(xyz, axis=0).round(3)
        assert len(np.unique(steps, axis=0)) == len(steps)  # nor are its random numbers

    def test_start_structures_are_taken_in_turn(self, tmp_path):
        simulate(TINY, 4, tmp_path)
        first = [md.load_frame(str(tmp_path / f"traj_0{i}.xtc"), 0, top=str(TOPOLOGY)).xyz[0] for i in range(4)]
        close = [[np.abs(one - other).max() < 3 * STRIDE for other in first] for one in first]
        assert close == [[(i - j) % 2 == 0 for i in range(4)] for j in range(4)]

    def test_trajectories_of_the_same_start_have_random_numbers_of_their_own(self, tmp_path):
        simulate(dataclasses.replace(TINY, starts=("coil",)), 2, tmp_path)
        xyz = [md.load(str(tmp_path / f"traj_0{i}.xtc"), top=str(TOPOLOGY)).xyz for i in range(2)]
        turns = [np.diff(x, n=2, axis=0) > 0.5 * STRIDE for x in xyz]
        for frame in range(len(turns[0])):
            assert np.mean(turns[0][frame] != turns[1][frame]) > 0.1

    def test_more_trajectories_can_be_asked_for_later(self, tmp_path):
        simulate(TINY, 3, tmp_path / "at once")
        simulate(TINY, 1, tmp_path / "later")
        simulate(TINY, 3, tmp_path / "later")
        assert contents(tmp_path / "later") == contents(tmp_path / "at once")


@pytest.mark.usefixtures("stand_ins")
class TestStops:
    """A stop at any moment: what is complete stays, and the next run ends as if nothing had happened."""

    @pytest.mark.parametrize("moment", ["while a file is written", "before it has its name", "after it has its name"])
    def test_around_every_file(self, moment, tmp_path, monkeypatch):
        replace = Path.replace

        def stopped(source: Path, target: Path) -> None:
            if moment == "after it has its name":
                replace(source, target)
            elif moment == "while a file is written":
                os.truncate(source, source.stat().st_size // 2)
            raise KeyboardInterrupt

        simulate(TINY, 2, tmp_path / "whole")
        whole, n_stops = contents(tmp_path / "whole"), 0
        chunks: list[int] = []
        run_chunk = runs.run_chunk
        monkeypatch.setattr(runs, "run_chunk", lambda *arguments: (chunks.append(1), run_chunk(*arguments))[1])
        while True:
            folder = tmp_path / f"stop {n_stops}"
            chunks.clear()
            with monkeypatch.context() as patch:
                patch.setattr(Path, "replace", at_call(n_stops, replace, stopped))
                try:
                    simulate(TINY, 2, folder)
                    break
                except KeyboardInterrupt:
                    n_stops += 1
            simulate(TINY, 2, folder)
            assert contents(folder) == whole
            assert len(chunks) <= 2 * 3 + 1  # three chunks per trajectory, of which one at most was lost
        # Settings; per trajectory a checkpoint at the start, three chunks with theirs, coordinates and angles.
        assert n_stops == 1 + 2 * (1 + 2 * 3 + 2)

    def test_between_a_chunk_and_its_checkpoint(self, tmp_path, monkeypatch):
        simulate(TINY, 1, tmp_path / "whole")
        # The first checkpoint is that of the start, so that call 2 is that of the second chunk.
        with monkeypatch.context() as patch:
            patch.setattr(runs, "write_checkpoint", at_call(2, runs.write_checkpoint, stop))
            with pytest.raises(KeyboardInterrupt):
                simulate(TINY, 1, tmp_path / "stopped")
        parts = parts_path(tmp_path / "stopped", 0)
        assert sorted(path.name for path in parts.glob("*.xtc")) == ["00000.xtc", "00001.xtc"]
        assert frames_done(tmp_path / "stopped", TINY, 0) == 3
        with XTCTrajectoryFile(str(parts / "00001.xtc")) as file:
            assert file.read()[2].tolist() == [15, 20, 25]  # steps of frames 3 to 5
        chunk = (parts / "00001.xtc").read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(runs, "run_chunk", at_call(1, runs.run_chunk, stop))
            with pytest.raises(KeyboardInterrupt):
                simulate(TINY, 1, tmp_path / "stopped")
        assert (parts / "00001.xtc").read_bytes() == chunk
        simulate(TINY, 1, tmp_path / "stopped")
        assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")

    @pytest.mark.parametrize("what_is_gone", ["nothing", "checkpoint.npz", "00001.xtc"])
    def test_while_chunks_are_removed(self, what_is_gone, tmp_path, monkeypatch):
        def interrupted(folder: Path, **_options: Any) -> None:
            (folder / what_is_gone).unlink(missing_ok=True)
            raise KeyboardInterrupt

        simulate(TINY, 1, tmp_path / "whole")
        with monkeypatch.context() as patch:
            patch.setattr(runs.shutil, "rmtree", interrupted)
            with pytest.raises(KeyboardInterrupt):
                simulate(TINY, 1, tmp_path / "stopped")
        assert parts_path(tmp_path / "stopped", 0).exists()
        with monkeypatch.context() as patch:
            patch.setattr(runs, "run_chunk", stop)
            patch.setattr(runs, "finish_trajectory", stop)
            simulate(TINY, 1, tmp_path / "stopped")
        assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")
        assert not parts_path(tmp_path / "stopped", 0).exists()

    def test_before_the_chunks_are_joined_no_frame_is_run_again(self, tmp_path, monkeypatch):
        simulate(TINY, 1, tmp_path / "whole")
        with monkeypatch.context() as patch:
            patch.setattr(runs, "finish_trajectory", stop)
            with pytest.raises(KeyboardInterrupt):
                simulate(TINY, 1, tmp_path / "stopped")
        assert frames_done(tmp_path / "stopped", TINY, 0) == 7
        monkeypatch.setattr(runs, "run_chunk", stop)
        simulate(TINY, 1, tmp_path / "stopped")
        assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")

    def test_a_trajectory_without_angles_is_not_read_as_a_finished_one(self, tmp_path, monkeypatch):
        """Coordinates are written before angles: after a stop between the two, one trajectory has the former only."""
        simulate(TINY, 1, tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(runs.np, "save", stop)
            with pytest.raises(KeyboardInterrupt):
                simulate(TINY, 2, tmp_path)
        run = read_run(tmp_path)
        assert len(run.angles) == 1
        assert [path.name for path in run.trajectory_files] == ["traj_00.xtc"]
        assert "coordinates of 1" in str(run)

    def test_a_chunk_that_is_lost_is_missed(self, tmp_path, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(runs, "run_chunk", at_call(2, runs.run_chunk, stop))
            with pytest.raises(KeyboardInterrupt):
                simulate(TINY, 1, tmp_path)
        (tmp_path / "parts_00" / "00000.xtc").unlink()
        with pytest.raises((RuntimeError, ValueError), match=r"parts_00 holds 4 frames, not 7; remove it"):
            simulate(TINY, 1, tmp_path)
        shutil.rmtree(tmp_path / "parts_00")
        simulate(TINY, 1, tmp_path)
        assert len(read_run(tmp_path).angles[0]) == 7


@pytest.mark.usefixtures("stand_ins")
class TestProgress:
    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_frames_are_counted_with_those_of_before(self, n_jobs, tmp_path, monkeypatch, bars):
        monkeypatch.setattr(runs, "ProcessPoolExecutor", threads)
        with monkeypatch.context() as patch:
            patch.setattr(runs, "run_chunk", at_call(4, runs.run_chunk, stop))
            with pytest.raises(KeyboardInterrupt):
                simulate(TINY, 2, tmp_path, progress=Bar)
        simulate(TINY, 2, tmp_path, n_jobs=n_jobs, progress=Bar)
        first, second = bars
        assert (first.total, first.initial, first.updates) == (14, 0, [3, 3, 1, 3])
        assert (second.total, second.initial) == (14, 10)
        assert sorted(second.updates) == [1, 3]
        assert first.closed
        assert second.closed
        assert "frames" in first.unit

    def test_frames_of_trajectories_that_were_not_asked_for_do_not_count(self, tmp_path, bars):
        simulate(TINY, 2, tmp_path)
        simulate(TINY, 1, tmp_path, progress=Bar)
        assert (bars[0].initial, bars[0].total) == (7, 7)


def changed(value: Any) -> Any:
    """Another value of the same type."""
    match value:
        case bool():
            return not value
        case str():
            return f"other {value}"
        case tuple():
            return value[::-1]
    return value + 1


@pytest.mark.usefixtures("stand_ins")
class TestOtherSettings:
    @pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Settings)])
    def test_are_refused_by_name(self, name, tmp_path):
        simulate(TINY, 1, tmp_path)
        before = contents(tmp_path)
        old = getattr(TINY, name)
        new = changed(old)
        with pytest.raises(ValueError, match="other settings") as caught:
            simulate(dataclasses.replace(TINY, **{name: new}), 1, tmp_path)
        for part in (str(tmp_path), repr(name), repr(old), repr(new), "--out"):
            assert part in str(caught.value)
        others = {field.name for field in dataclasses.fields(Settings)} - {name}
        assert not [other for other in others if repr(other) in str(caught.value)]
        assert contents(tmp_path) == before

    @pytest.mark.parametrize("text", ['{"editor.fontSize": 12}', '{"starts": []}', "[]", '{"molecule": ', ""])
    def test_a_file_of_somebody_else_is_named_and_kept(self, text, tmp_path):
        (tmp_path / "settings.json").write_text(text)
        with pytest.raises(ValueError, match=r"settings\.json"):
            simulate(TINY, 1, tmp_path)
        assert contents(tmp_path) == {"settings.json": text.encode()}


def threads(n_jobs: int, **_options: Any) -> ThreadPoolExecutor:
    """Stand-in for a pool of processes, which sees the other stand-ins."""
    return ThreadPoolExecutor(n_jobs)


class TestInParallel:
    @pytest.mark.usefixtures("stand_ins")
    @pytest.mark.parametrize("n_jobs", [2, 3, 8])
    def test_the_bytes_do_not_depend_on_it(self, n_jobs, tmp_path, monkeypatch):
        monkeypatch.setattr(runs, "ProcessPoolExecutor", threads)
        simulate(TINY, 5, tmp_path / "one")
        simulate(TINY, 5, tmp_path / "several", n_jobs=n_jobs)
        assert contents(tmp_path / "several") == contents(tmp_path / "one")

    @pytest.mark.usefixtures("stand_ins")
    def test_no_more_trajectories_are_begun_than_there_are_processes(self, tmp_path, monkeypatch):
        """So that the first ones are finished soon, whatever happens to the last."""
        monkeypatch.setattr(runs, "ProcessPoolExecutor", threads)
        most = []
        advance = runs.advance

        def watched(folder: Path, settings: Settings, trajectory: int) -> int:
            most.append(len(list(folder.glob("parts_*"))))
            return advance(folder, settings, trajectory)

        monkeypatch.setattr(runs, "advance", watched)
        simulate(TINY, 6, tmp_path, n_jobs=2)
        assert max(most) <= 2

    @pytest.mark.usefixtures("stand_ins")
    def test_an_error_in_one_of_them_is_told_and_costs_one_chunk(self, tmp_path, monkeypatch, bars):
        monkeypatch.setattr(runs, "ProcessPoolExecutor", threads)
        simulate(TINY, 2, tmp_path / "whole")

        def blow_up(*_arguments: Any) -> None:
            raise FloatingPointError("too hot")

        with monkeypatch.context() as patch:
            patch.setattr(runs, "run_chunk", at_call(3, runs.run_chunk, blow_up))
            with pytest.raises(FloatingPointError, match="too hot"):
                simulate(TINY, 2, tmp_path / "broken", n_jobs=2, progress=Bar)
        assert bars[0].closed
        assert sum(frames_done(tmp_path / "broken", TINY, i) for i in range(2)) >= 7
        simulate(TINY, 2, tmp_path / "broken", n_jobs=2)
        assert contents(tmp_path / "broken") == contents(tmp_path / "whole")

    def test_processes_give_the_bytes_of_a_single_one(self, tmp_path):
        pytest.importorskip("openmm")
        simulate(TINY, 3, tmp_path / "one")
        simulate(TINY, 3, tmp_path / "two", n_jobs=2)
        assert contents(tmp_path / "two") == contents(tmp_path / "one")


@pytest.mark.parametrize("molecule", DEFAULTS)
def test_topology_has_the_columns_and_residues_of_the_molecule(molecule, tmp_path):
    pytest.importorskip("openmm")
    settings = dataclasses.replace(DEFAULTS[molecule], n_frames=2, steps_per_frame=2, equilibration_frames=1)
    simulate(settings, 1, tmp_path)
    run = read_run(tmp_path)
    alanines = ["ALA"] * settings.n_alanines
    residues = [residue.name for residue in run.topology.residues]
    assert residues == (["ACE", *alanines, "NME"] if settings.capped else alanines)
    assert run.topology.n_bonds == run.topology.n_atoms - 1  # a tree: all atoms hang together
    assert len(run.angle_names) == 2 * settings.n_alanines - (0 if settings.capped else 2)
    assert run.angles[0].shape == (2, len(run.angle_names))
