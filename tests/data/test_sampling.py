"""Biased runs: weights undo the bias, a stop at any moment does no harm, another bias is not mixed in."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mdtraj
import numpy as np
import pytest

from m3c_md import M3C
from m3c_md.cli import main
from m3c_md.cli.sample import molecule_of
from m3c_md.data import alanine_dipeptide, read_run
from m3c_md.data import sampling as runs
from m3c_md.data.bias import LONGEST, ROUND_TRIPS, Filling, Plan, make_plan
from m3c_md.data.dynamics import DEFAULTS, PhaseSpacePoint
from m3c_md.data.free_energies import GAS_CONSTANT, state_weights
from m3c_md.data.hills import thermal_speeds
from m3c_md.data.sampling import Filled, read_fillings, read_weights, sample
from m3c_md.exceptions import InputError
from m3c_md.export.torsions import sines_and_cosines, torsions
from m3c_md.export.variable import CollectiveVariable
from tests.data import test_simulate as stand_in
from tests.data.test_simulate import TINY, contents
from tests.export.conftest import Case, fitted

FILLING = Filling(fill_frames=5, hill_spacing=0.004)


@pytest.fixture
def case() -> Case:
    return fitted("ala2", "kinetic", 3)


def use_stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk in place of the physics; its bias grows by one with every frame that fills."""
    stand_in.use_stand_ins(monkeypatch)
    for name in ("prepared", "start_point", "write_topology"):
        monkeypatch.setattr(runs, name, getattr(stand_in.runs, name))
    walk = stand_in.runs.run_chunk

    def run_chunk(
        _system: Any, plan: Plan, values: Any, point: PhaseSpacePoint, n: int, seed: int, collect: bool
    ) -> tuple[Any, ...]:
        frames, end = walk(None, plan.settings, point, n, seed)
        point = end if collect else point  # few frames: a long walk would tear the molecule apart
        values = values + (0 if collect else n)
        felt = np.column_stack([frames[:, 0, 0], values[0] + np.arange(n)]).astype(np.float64)
        return frames, point, felt, values

    monkeypatch.setattr(runs, "run_chunk", run_chunk)


@pytest.fixture(params=["stand-in", "OpenMM"])
def physics(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "OpenMM":
        pytest.importorskip("openmm")
    else:
        use_stand_ins(monkeypatch)
    return str(request.param)


def run(case: Case, folder: Path, n_trajectories: int = 2, **changes: Any) -> None:
    filling = dataclasses.replace(FILLING, **changes)
    sample(TINY, filling, case.model.collective_variable((0, 2)), case.columns, n_trajectories, folder)


@pytest.mark.usefixtures("physics")
class TestRuns:
    def test_frames_go_with_weights(self, case: Case, tmp_path: Path) -> None:
        run(case, tmp_path)
        weights, features = read_weights(tmp_path), read_run(tmp_path).features
        assert [len(w) for w in weights] == [len(x) for x in features] == [TINY.n_frames] * 2
        for number, w in enumerate(weights):
            bias = np.load(tmp_path / f"traj_{number:02d}_bias.npy")[:, 1]
            np.testing.assert_allclose(np.log(w / w[0]), (bias - bias[0]) / (GAS_CONSTANT * TINY.temperature))
            assert w.mean() == pytest.approx(1.0)

    def test_a_stop_at_any_chunk_does_no_harm(
        self, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run(case, tmp_path / "whole")
        usual, calls = runs.run_chunk, []

        def stopping(*arguments: Any) -> Any:
            calls.append(1)
            if len(calls) % 2 == 0:
                raise KeyboardInterrupt
            return usual(*arguments)

        monkeypatch.setattr(runs, "run_chunk", stopping)
        for _ in range(20):
            try:
                run(case, tmp_path / "stopped")
                break
            except KeyboardInterrupt:
                continue
        assert len(calls) > 10
        assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")

    def test_more_trajectories_repeat_none(self, case: Case, tmp_path: Path) -> None:
        run(case, tmp_path, 1)
        before = (tmp_path / "traj_00.xtc").stat().st_mtime_ns
        run(case, tmp_path, 2)
        assert (tmp_path / "traj_00.xtc").stat().st_mtime_ns == before
        assert len(read_weights(tmp_path)) == 2

    def test_another_bias_is_not_mixed_in(self, case: Case, tmp_path: Path) -> None:
        run(case, tmp_path, 1)
        with pytest.raises(ValueError, match=r"made with another bias \(old, new\): \{'height': \(0.5, 2.0\)\}"):
            run(case, tmp_path, 1, height=2.0)
        other = case.model.collective_variable((0, 1))
        with pytest.raises(ValueError, match=r"'variable': \('f_0 - f_2', 'f_0 - f_1'\)"):
            sample(TINY, FILLING, other, case.columns, 1, tmp_path)


class TestStops:
    """A stop at any moment: what is complete stays, and the next run ends as if nothing had happened."""

    @pytest.mark.parametrize("moment", ["while a file is written", "before it has its name", "after it has its name"])
    def test_around_every_file(self, moment: str, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        use_stand_ins(monkeypatch)
        replace, run_chunk = Path.replace, runs.run_chunk

        def stopped(source: Path, target: Path) -> None:
            if moment == "after it has its name":
                replace(source, target)
            elif moment == "while a file is written":
                os.truncate(source, source.stat().st_size // 2)
            raise KeyboardInterrupt

        chunks: list[int] = []
        monkeypatch.setattr(runs, "run_chunk", lambda *arguments: (chunks.append(1), run_chunk(*arguments))[1])
        run(case, tmp_path / "whole", 1, fill_frames=2)
        whole, n_chunks, n_stops = contents(tmp_path / "whole"), len(chunks), 0
        while True:
            folder = tmp_path / f"stop {n_stops}"
            chunks.clear()
            with monkeypatch.context() as patch:
                patch.setattr(Path, "replace", stand_in.at_call(n_stops, replace, stopped))
                try:
                    run(case, folder, 1, fill_frames=2)
                    break
                except KeyboardInterrupt:
                    n_stops += 1
            run(case, folder, 1, fill_frames=2)
            assert contents(folder) == whole
            assert len(chunks) <= n_chunks + 1  # one at most was lost
        # Bias and settings; a checkpoint at the start and for each of three chunks that fill (2, 3 and 3 frames) and of
        # three that collect, frames and biases of the latter; in the end biases, filling, coordinates and angles.
        assert (n_chunks, n_stops) == (3 + 3, 2 + 1 + 3 + 3 * 3 + 4)

    @pytest.mark.parametrize("what_is_gone", ["nothing", "checkpoint.npz", "00001.xtc", "bias_00001.npy"])
    def test_while_chunks_are_removed(
        self, what_is_gone: str, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(folder: Path, **_options: Any) -> None:
            (folder / what_is_gone).unlink(missing_ok=True)
            raise KeyboardInterrupt

        use_stand_ins(monkeypatch)
        run(case, tmp_path / "whole", 1)
        with monkeypatch.context() as patch:
            patch.setattr(runs.shutil, "rmtree", interrupted)
            with pytest.raises(KeyboardInterrupt):
                run(case, tmp_path / "stopped", 1)
        assert (tmp_path / "stopped" / "parts_00").exists()
        with monkeypatch.context() as patch:
            patch.setattr(runs, "run_chunk", stand_in.stop)
            run(case, tmp_path / "stopped", 1)
        assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")
        assert not (tmp_path / "stopped" / "parts_00").exists()


def test_runs_without_a_bias_are_not_gone_on_with(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_ins(monkeypatch)
    stand_in.simulate(TINY, 1, tmp_path)
    with pytest.raises(ValueError, match="has trajectories without a bias; choose another --out"):
        run(case, tmp_path)
    with pytest.raises(InputError, match=r"has no bias\.json; give a folder of m3c-md sample"):
        read_weights(str(tmp_path))


def test_weights_of_a_run_that_was_stopped_at_once(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_ins(monkeypatch)
    monkeypatch.setattr(runs, "run_chunk", stand_in.stop)
    with pytest.raises(KeyboardInterrupt):
        run(case, tmp_path)
    with pytest.raises(
        InputError, match="has no finished trajectory; run m3c-md sample again, it goes on where it was"
    ):
        read_weights(tmp_path)


class TestFilling:
    """It goes on until the border was crossed to and fro, for four times the frames that were asked for at most."""

    def run(self, case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch, at: Callable[[int], float]) -> list[bool]:
        """Run a trajectory whose frame number k, counted from 0 on, is at a given value; was each chunk collected?"""
        use_stand_ins(monkeypatch)
        usual, kinds, seen = runs.run_chunk, [], [0]

        def run_chunk(*arguments: Any) -> Any:
            kinds.append(arguments[-1])
            seen[0] += arguments[4]
            return usual(*arguments)

        def values(_variable: Any, frames: Any) -> Any:
            return np.array([at(k) for k in range(seen[0] - len(frames), seen[0])])

        monkeypatch.setattr(runs, "run_chunk", run_chunk)
        monkeypatch.setattr(CollectiveVariable, "values", values)
        run(case, folder, 1)
        return kinds

    def test_it_ends_when_there_were_round_trips(
        self, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kinds = self.run(case, tmp_path, monkeypatch, lambda k: (-1.0) ** k)
        assert kinds == [False] * 3 + [True] * 3  # 3 + 2 frames have two round trips only; 7 = 3 + 3 + 1 are collected
        assert read_fillings(tmp_path) == [Filled(frames=8, round_trips=3)]

    def test_it_takes_the_frames_that_were_asked_for(
        self, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(runs, "ROUND_TRIPS", 1)
        self.run(case, tmp_path, monkeypatch, lambda k: (-1.0) ** k)
        assert read_fillings(tmp_path) == [Filled(frames=5, round_trips=2)]

    def test_it_is_given_up(self, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.run(case, tmp_path, monkeypatch, lambda k: 0.2 * (-1.0) ** k)  # to and fro at the border is no crossing
        assert read_fillings(tmp_path) == [Filled(frames=LONGEST * FILLING.fill_frames, round_trips=0)]
        assert len(read_weights(tmp_path)[0]) == TINY.n_frames


def test_a_bias_along_the_rule_moves_the_molecule_to_and_fro(tmp_path: Path) -> None:
    """What was wrong once: through a strong blur, or with wide hills, a bias along some rules moved nothing."""
    pytest.importorskip("openmm")
    data, columns = alanine_dipeptide(), fitted("ala2", "kinetic", 3).columns
    model = M3C(3, random_state=1).fit_fetch(data.features[:3])
    settings = dataclasses.replace(
        DEFAULTS["alanine-dipeptide"], temperature=300.0, n_frames=1, chunk_frames=100, equilibration_frames=5, seed=3
    )
    sample(settings, Filling(fill_frames=100), model.collective_variable(2), columns, 1, tmp_path)
    (filled,) = read_fillings(tmp_path)
    assert filled.round_trips >= ROUND_TRIPS  # without bias, α_L is entered about once in 70 ns


def test_the_bias_is_filled_where_the_system_is_and_then_stays(case: Case, tmp_path: Path) -> None:
    pytest.importorskip("openmm")
    settings = dataclasses.replace(TINY, n_frames=6, steps_per_frame=20, chunk_frames=6, equilibration_frames=2)
    filling = Filling(fill_frames=6, hill_spacing=0.04, height=0.5)
    plan = make_plan(settings, filling, case.model.collective_variable(2), case.columns)
    sample(settings, filling, case.model.collective_variable(2), case.columns, 1, tmp_path)
    felt = np.load(tmp_path / "traj_00_bias.npy")
    frames = np.stack([np.sin(x := read_run(tmp_path).angles[0]), np.cos(x)], axis=-1).reshape(6, -1)
    near = 0.2 * plan.width  # coordinates in XTC files are rounded
    np.testing.assert_allclose(felt[:, 0], plan.variable.values(frames.astype(np.float64)), atol=near)
    (filled,) = read_fillings(tmp_path)
    assert 0.5 < felt[:, 1].max() < 2 * filled.frames * 0.5  # two hills in a frame, each lower than the first
    assert len(np.unique(felt[:, 1].round(9))) == 6


class TestPlan:
    """The time step suits the hills: too long a one made populations wrong by a factor of twenty."""

    def plan(self, case: Case, **changes: Any) -> Plan:
        settings = dataclasses.replace(DEFAULTS["alanine-dipeptide"], **changes)
        return make_plan(settings, Filling(), case.model.collective_variable(2), case.columns)

    def test_steps_are_short_and_frames_stay_as_far_apart(self, case: Case) -> None:
        plan = self.plan(case)
        assert plan.settings.time_step == 0.002 < DEFAULTS["alanine-dipeptide"].time_step
        assert plan.settings.spacing == pytest.approx(2.0)
        shorter = self.plan(case, time_step=0.001, steps_per_frame=2000)
        assert shorter.settings.time_step == 0.001
        assert shorter.width == pytest.approx(0.5 * plan.width)

    def test_the_molecule_needs_some_steps_to_cross_a_hill_but_hills_are_narrower_than_states(self, case: Case) -> None:
        plan = self.plan(case)
        data = alanine_dipeptide()
        points = mdtraj.load(str(data.trajectory_files[0]), top=data.topology).xyz[::100].astype(np.float64)
        masses = np.array([atom.element.mass for atom in data.topology.atoms])
        thermal = GAS_CONSTANT * plan.settings.temperature
        values, speeds = thermal_speeds(plan.variable, plan.columns.quartets, points, masses, thermal)
        assert speeds.max() * plan.settings.time_step <= plan.width / 2.5
        assert plan.width < 0.1 * np.ptp(values)

    def test_speeds_are_those_of_random_velocities(self, case: Case) -> None:
        points = case.trajectory.xyz[:20].astype(np.float64)
        masses = np.array([atom.element.mass for atom in case.trajectory.topology.atoms])
        variable = case.model.collective_variable(2)
        values, speeds = thermal_speeds(variable, case.columns.quartets, points, masses, 2.5)
        assert np.abs(values - variable.values(case.frames[:20])).max() < 1e-10
        rng, step = np.random.default_rng(0), 1e-6
        velocities = rng.normal(size=(500, 1, *points.shape[1:])) * np.sqrt(2.5 / masses)[:, None]
        moved = sines_and_cosines(torsions(points + step * velocities, case.columns.quartets)[0])
        changes = np.array([variable.values(x) - values for x in moved]) / step
        np.testing.assert_allclose(changes.std(axis=0), speeds, rtol=0.15)


class TestFreeEnergies:
    def test_errors_are_those_of_the_mean_over_trajectories(self) -> None:
        rng = np.random.default_rng(0)
        labels = [rng.integers(3, size=50) for _ in range(6)]
        weights = [rng.uniform(0.5, 2.0, size=50) for _ in range(6)]
        found = state_weights(labels, weights, 3, 300.0)
        each = np.array([[w[x == k].sum() / w.sum() for k in range(3)] for x, w in zip(labels, weights, strict=True)])
        np.testing.assert_allclose(found.populations, each.mean(axis=0))
        np.testing.assert_allclose(found.population_errors, each.std(axis=0, ddof=1) / np.sqrt(6))
        thermal = GAS_CONSTANT * 300.0
        np.testing.assert_allclose(np.exp(-found.free_energies / thermal), each.mean(axis=0) / each.mean(axis=0).max())

    def test_errors_are_as_large_as_the_scatter_of_repetitions(self) -> None:
        rng = np.random.default_rng(1)
        repeated = [
            state_weights([rng.choice(2, p=[0.8, 0.2], size=100) for _ in range(8)], [np.ones(100)] * 8, 2, 300.0)
            for _ in range(200)
        ]
        scatter = np.std([found.free_energies[1] for found in repeated])
        assert np.mean([found.free_energy_errors[1] for found in repeated]) == pytest.approx(scatter, rel=0.15)

    def test_one_trajectory_is_cut_into_blocks_that_count_by_their_weight(self) -> None:
        labels = np.repeat([0, 1, 0, 1, 1, 0, 0, 1], 10)
        found = state_weights([labels], [np.ones(80)], 2, 300.0)
        assert found.populations.tolist() == [0.5, 0.5]
        assert found.population_errors[0] == pytest.approx(np.std([1, 0] * 4, ddof=1) / np.sqrt(8))
        weights = np.where(np.arange(80) < 10, 7.0, 1.0)
        assert state_weights([labels], [weights], 2, 300.0).populations[0] == pytest.approx(10.0 / 14.0)

    def test_a_state_that_is_not_seen(self) -> None:
        found = state_weights([np.zeros(10, int)] * 3, [np.ones(10)] * 3, 2, 300.0)
        assert found.populations.tolist() == [1.0, 0.0]
        assert found.free_energies.tolist() == [0.0, np.inf]
        assert found.free_energy_errors[1] == np.inf


class TestCommand:
    @pytest.fixture(autouse=True)
    def _tiny(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from types import ModuleType

        use_stand_ins(monkeypatch)
        monkeypatch.setitem(DEFAULTS, "alanine-dipeptide", TINY)
        monkeypatch.setitem(sys.modules, "openmm", ModuleType("openmm"))

    @pytest.fixture
    def model(self, case: Case, tmp_path: Path) -> Path:
        case.model.save(tmp_path / "model.m3c")
        return tmp_path / "model.m3c"

    def test_it_runs_and_tells_populations(self, model: Path, tmp_path: Path, capsys: Any) -> None:
        options = ["--states", "0", "2", "--fill-frames", "4", "--n-trajectories", "3", "--n-frames", "7", "--json"]
        assert main(["sample", str(model), *options, "--out", str(tmp_path / "biased")]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["molecule"], found["n_trajectories"]) == ("alanine-dipeptide", 3)
        assert sum(found["populations"]) == pytest.approx(1.0)
        assert len(found["free_energies"]) == len(found["entries_per_ns"]) == 3
        assert (found["settings"]["fill_frames"], found["settings"]["time_step"]) == (4, 0.002)
        assert [filled["frames"] for filled in found["filling"]] == [16] * 3  # never across the border
        said = "\n".join(found["warnings"])
        assert "3 of 3 trajectories made fewer than 3 round trips across the border" in said
        assert "states entered fewer than 10 times: 0, 1, 2; their populations are guesses" in said
        assert len(read_weights(tmp_path / "biased")) == 3

    def test_ctrl_c_says_how_to_go_on(self, model: Path, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
        def stop(*_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(runs, "run_chunk", stop)
        assert main(["sample", str(model), "--states", "0", "2", "--out", str(tmp_path / "biased")]) == 130
        assert "is complete up to the last chunk; the same command goes on" in capsys.readouterr().err

    def test_states_that_do_not_exist(self, model: Path, tmp_path: Path, capsys: Any) -> None:
        assert main(["sample", str(model), "--states", "0", "9", "--out", str(tmp_path / "biased")]) == 2
        assert "there is no state 9" in capsys.readouterr().err
        assert not (tmp_path / "biased").exists()

    def test_a_model_without_atoms(self, case: Case, tmp_path: Path, capsys: Any) -> None:
        model = case.model.copy()
        model.dihedral_columns = None
        model.save(tmp_path / "plain.m3c")
        assert main(["sample", str(tmp_path / "plain.m3c"), "--states", "2", "--out", str(tmp_path / "biased")]) == 2
        assert "does not say which atoms its columns are made of" in capsys.readouterr().err
        assert not (tmp_path / "biased").exists()

    def test_frames_and_weights_go_back_into_a_fit(self, case: Case, tmp_path: Path) -> None:
        run(case, tmp_path, 2)
        frames, weights = read_run(tmp_path).features, read_weights(tmp_path)
        with pytest.raises(InputError, match="weights has 1 arrays for 2 trajectories; give one for each"):
            M3C(2).fit(frames, weights=weights[:1])
        with pytest.raises(InputError, match=r"weights\[1\] has 6 entries, but trajectory 1 has 7 frames"):
            M3C(2).fit(frames, weights=[weights[0], weights[1][1:]])

    def test_another_molecule(self, case: Case) -> None:
        assert molecule_of(fitted("ala10", "learned", 3).model)[0] == "deca-alanine"
        model = case.model.copy()
        other = tuple(tuple(name.replace("ALA", "GLY") for name in four) for four in case.columns.atoms)
        model.dihedral_columns = dataclasses.replace(case.columns, atoms=other)
        with pytest.raises(InputError, match="of neither alanine dipeptide nor deca-alanine"):
            molecule_of(model)

    def test_without_openmm(self, model: Path, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
        monkeypatch.setitem(sys.modules, "openmm", None)
        assert main(["sample", str(model), "--states", "0", "2", "--out", str(tmp_path / "biased")]) == 2
        assert "m3c-md sample needs OpenMM, which is not installed" in capsys.readouterr().err


def test_ctrl_c_inside_of_a_python_force_is_no_error_of_openmm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable of many dihedrals is computed by Python inside of a time step, where most signals arrive."""
    openmm = pytest.importorskip("openmm", minversion="8.3")
    case = fitted("ala10", "learned", 3)
    usual = DEFAULTS["deca-alanine"]
    settings = dataclasses.replace(usual, n_frames=9, steps_per_frame=100, chunk_frames=9, equilibration_frames=1)
    variable = case.model.collective_variable(0)
    assert isinstance(case.model.to_openmm(states=0), openmm.PythonForce)
    run_chunk, times = runs.run_chunk, iter((0.05, 0.2, 0.4))

    def soon_interrupted(*arguments: Any) -> Any:
        timer = threading.Timer(next(times), lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        try:
            return run_chunk(*arguments)
        finally:
            timer.join()

    monkeypatch.setattr(runs, "run_chunk", soon_interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
    try:
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                sample(settings, Filling(fill_frames=9), variable, case.columns, 1, tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)


def test_real_signals_at_several_moments_lose_nothing(case: Case, tmp_path: Path) -> None:
    pytest.importorskip("openmm")
    case.model.save(tmp_path / "model.m3c")
    options = ["--states", "2", "--n-trajectories", "1", "--n-frames", "2", "--fill-frames", "1", "--seed", "5"]

    def command(out: str) -> list[str]:
        words = ["sample", str(tmp_path / "model.m3c"), *options, "--out", str(tmp_path / out)]
        return [sys.executable, "-c", PATIENT, *words]

    # Set up, while the bias is filled, while frames are collected: stopped when the file appears.
    moments = [("topology.pdb", signal.SIGINT), ("parts_00/checkpoint.npz", signal.SIGKILL)]
    for awaited, wanted in [*moments, ("parts_00/00000.xtc", signal.SIGINT)]:
        running = subprocess.Popen(command("stopped"), stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 120
        while not (tmp_path / "stopped" / awaited).exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        running.send_signal(wanted)
        error = running.communicate(timeout=120)[1]
        assert not (tmp_path / "stopped" / "traj_00_dihedrals.npy").exists(), "too late to lose anything"
        if wanted == signal.SIGINT:
            assert running.returncode == 130, error
            assert "is complete up to the last chunk; the same command goes on" in error
    for out in ("stopped", "whole"):
        subprocess.run(command(out), check=True, capture_output=True)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


# Chunks of one short frame, so that there is something to lose.
PATIENT = """
import dataclasses, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
from m3c_md.cli import main, sample
from m3c_md.data import dynamics
short = dataclasses.replace(dynamics.DEFAULTS["alanine-dipeptide"], steps_per_frame=100, equilibration_frames=1)
dynamics.DEFAULTS["alanine-dipeptide"] = short
sample.CHUNK_FRAMES = 1
sys.exit(main(sys.argv[1:]))
"""
