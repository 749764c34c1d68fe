"""A scan over numbers of states that was stopped goes on from its checkpoint and ends with the same answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from m3c_md import KMedoids, scan_states
from m3c_md.cli import main
from m3c_md.exceptions import FewVisitsWarning, InputError, ModelFileError, SolverError
from m3c_md.validation import kept_fits
from m3c_md.validation import scan as scan_module
from m3c_md.validation.methods import Task
from m3c_md.validation.scan import StateScan
from tests.conftest import hidden_markov_wells
from tests.trust import refused

Trajectories = list[np.ndarray]


@pytest.fixture(scope="module")
def trajs() -> Trajectories:
    return [hidden_markov_wells(200, 3, seed).frames for seed in range(2)]


def scan(trajs: Trajectories, **changes: Any) -> StateScan:
    return scan_states(trajs, (2, 3), **{"n_resamples": 2, "random_state": 5, "n_jobs": 1, **changes})


@pytest.fixture(scope="module")
def expected(trajs: Trajectories) -> StateScan:
    return scan(trajs)


def assert_same(result: StateScan, expected: StateScan, trajs: Trajectories) -> None:
    assert result.table.equals(expected.table)
    assert (result.suggestion, result.reason) == (expected.suggestion, expected.reason)
    for number, model in expected.models.items():
        for ours, theirs in zip(
            result.models[number].decision_function(trajs), model.decision_function(trajs), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)


class Stopped(BaseException):
    """As a Ctrl-C is: nothing catches it."""


def test_finished_fits_are_not_done_again(
    trajs: Trajectories, expected: StateScan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, done = kept_fits.fit_and_judge, []

    def fit(task: Task, lagtime: int) -> Any:
        if len(done) == limit:
            raise Stopped
        done.append((task.name, task.run))
        return original(task, lagtime)

    monkeypatch.setattr(kept_fits, "fit_and_judge", fit)
    for limit in range(6):
        with pytest.raises(Stopped):
            scan(trajs, checkpoint=tmp_path / "fits")
        assert len(done) == limit
    limit = 6
    assert_same(scan(trajs, checkpoint=tmp_path / "fits"), expected, trajs)
    assert_same(scan(trajs, checkpoint=tmp_path / "fits"), expected, trajs)
    assert len(done) == len(set(done)) == 6


def test_failures_are_kept_as_well(trajs: Trajectories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Any, data: Any, **options: Any) -> Any:
        if self.n_states == 3:
            raise SolverError("no luck with three; use two")
        return original(self, data, **options)

    original = scan_module.M3C.fit_fetch
    monkeypatch.setattr(scan_module.M3C, "fit_fetch", fails)
    first = scan(trajs, checkpoint=tmp_path)
    monkeypatch.setattr(kept_fits, "fit_and_judge", lambda *_: pytest.fail("fitted again"))
    again = scan(trajs, checkpoint=tmp_path)
    assert again.table.equals(first.table)
    assert again.table.loc[3, "warnings"] == "no luck with three; use two"


PROGRAM = """
import sys
import numpy as np
from m3c_md import scan_states

trajs = [np.load(path) for path in sys.argv[2:]]
scan_states(trajs, (2, 3), n_resamples=2, random_state=5, n_jobs=1, checkpoint=sys.argv[1])
"""


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_killed(trajs: Trajectories, expected: StateScan, tmp_path: Path) -> None:
    for number, x in enumerate(trajs):
        np.save(tmp_path / f"x{number}.npy", x)
    fits = tmp_path / "fits"
    arrays = [tmp_path / f"x{number}.npy" for number in range(2)]
    running = subprocess.Popen([sys.executable, "-W", "ignore", "-c", PROGRAM, fits, *arrays], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120.0
    while not list(fits.glob("[!.]*.json")):
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    running.kill()
    running.communicate()
    assert running.returncode == -signal.SIGKILL
    assert_same(scan(trajs, checkpoint=fits), expected, trajs)


class TestRefused:
    def test_other_data_and_other_settings(self, trajs: Trajectories, tmp_path: Path) -> None:
        scan(trajs, checkpoint=tmp_path)
        words = "belongs to a comparison or scan of other data or with other settings; remove the folder"
        for call in (
            lambda: scan(trajs, checkpoint=tmp_path, random_state=6),
            lambda: scan(trajs, checkpoint=tmp_path, lagtime=2),
            lambda: scan([trajs[0], trajs[1] + 1e-9], checkpoint=tmp_path),
        ):
            refused(call, InputError, words)

    def test_models_of_others(self, trajs: Trajectories, tmp_path: Path) -> None:
        scan(trajs, checkpoint=tmp_path)
        with pytest.warns(FewVisitsWarning):
            other = KMedoids(2, random_state=0).fit_fetch(trajs)
        other.save(tmp_path / "2_states_0.m3c")
        refused(
            lambda: scan(trajs, checkpoint=tmp_path), ModelFileError, "of 2 states .* is a KMedoidsModel; remove it"
        )

    def test_a_seed_that_does_not_come_again(self, trajs: Trajectories, tmp_path: Path) -> None:
        refused(lambda: scan(trajs, checkpoint=tmp_path, random_state=None), InputError, "give a whole number")


def test_command(trajs: Trajectories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "x.npy", trajs[0])
    given = ["scan", str(tmp_path / "x.npy"), "--states", "2", "--jobs", "1", "--checkpoint", str(tmp_path / "fits")]
    assert main([*given, "--out", str(tmp_path / "one")]) == 0
    monkeypatch.setattr(kept_fits, "fit_and_judge", lambda *_: pytest.fail("fitted again"))
    assert main([*given, "--out", str(tmp_path / "two")]) == 0
    assert (tmp_path / "one" / "table.csv").read_text() == (tmp_path / "two" / "table.csv").read_text()


def test_fits_to_halves_that_fail_are_not_hidden(trajs: Trajectories, monkeypatch: pytest.MonkeyPatch) -> None:
    """They count as unstable, and the table says why."""
    original, calls = scan_module.M3C.fit_fetch, []

    def fails_later(self: Any, data: Any, **options: Any) -> Any:
        calls.append(self.n_states)
        if len(calls) == 3:
            raise SolverError("no luck with this sample; use others")
        return original(self, data, **options)

    monkeypatch.setattr(scan_module.M3C, "fit_fetch", fails_later)
    table = scan(trajs).table
    said = "1 of 2 fits to halves of the data failed: no luck with this sample; use others"
    assert table.loc[2, "warnings"].endswith(said)
    assert table.loc[2, "least stability"] == 0.0
    assert "halves" not in table.loc[3, "warnings"]
