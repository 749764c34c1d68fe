"""Folders that may not be written to, for real: root, who may write everywhere, becomes somebody else in a child."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from m3c_md import DihedralFeaturizer, KMedoids, compare
from m3c_md.cli import main
from m3c_md.clustering.state_model import StateModel
from m3c_md.exceptions import TrajectoryWarning
from tests.conftest import hidden_markov_wells, quick
from tests.features import random_trajectory, topology_of

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and users")
NOBODY = 65534


@pytest.fixture
def locked() -> Iterator[Path]:
    """A folder with an old file, which everybody may enter and read, and which we may not write to."""
    with tempfile.TemporaryDirectory() as name:  # that of pytest may be entered by its owner only
        folder = Path(name)
        (folder / "old.txt").write_text("old")
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        assert [path.name for path in folder.rglob("*")] == ["old.txt"]


def somebody_elses(task: Callable[[], object]) -> str:
    """What becomes of a task in a process that is not root's."""
    if os.geteuid() != 0:
        return outcome(task)
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks in programs with threads
        child = os.fork()
    if child == 0:
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writing, outcome(task).encode()[:60_000])
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


def outcome(task: Callable[[], object]) -> str:
    try:
        return f"returned {task()!r}"
    except BaseException as error:
        own = "" if isinstance(error, OSError) else "".join(traceback.format_exception(error))
        return f"{type(error).__name__}: {error}{own}"


@pytest.fixture(scope="module")
def frames() -> np.ndarray:
    return hidden_markov_wells(200, 2).frames


@pytest.fixture(scope="module")
def model(frames: np.ndarray) -> StateModel:
    quick(2).fit(frames)  # loads and compiles what a child may not be allowed to read
    fitted: StateModel = KMedoids(2, random_state=0).fit_fetch(frames)
    return fitted


def test_the_folder_is_locked(locked: Path) -> None:
    said = somebody_elses(lambda: (locked / "new.txt").write_text("new"))
    assert said.startswith("PermissionError: [Errno 13]"), said


@pytest.mark.parametrize("name", ["new.m3c", "old.txt"])
def test_models(locked: Path, model: StateModel, name: str) -> None:
    said = somebody_elses(lambda: model.save(locked / name))
    assert said == f"PermissionError: [Errno 13] the model was not written (Permission denied): '{locked / name}'"
    assert (locked / "old.txt").read_text() == "old"


def test_checkpoints_of_fits(locked: Path, model: StateModel, frames: np.ndarray) -> None:
    """In a folder that cannot be made, and in one that is there: known before, or at, the first step."""
    said = somebody_elses(lambda: quick(2).fit(frames, checkpoint=locked / "steps"))
    assert said == f"PermissionError: [Errno 13] Permission denied: '{locked / 'steps'}'"
    said = somebody_elses(lambda: quick(2).fit(frames, checkpoint=locked))
    assert said.startswith(f"PermissionError: [Errno 13] a checkpoint was not written (Permission denied): '{locked}")


def test_checkpoints_of_comparisons(locked: Path, model: StateModel, frames: np.ndarray) -> None:
    options: dict[str, Any] = {"methods": "k-medoids", "random_state": 0, "n_jobs": 1}
    said = somebody_elses(lambda: compare([frames, frames[::-1] + 0.01], 2, checkpoint=locked, **options))
    assert said.startswith(f"PermissionError: [Errno 13] the model was not written (Permission denied): '{locked}"), (
        said
    )


def test_caches_do_without(locked: Path) -> None:
    trajectory = random_trajectory(topology_of(["ACE", "ALA", "NME"]), 5)
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        trajectory.save(f"{name}/a.xtc")
        Path(f"{name}/a.xtc").chmod(0o644)

        def load(**options: Any) -> tuple[tuple[int, ...], list[str]]:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                (features,) = DihedralFeaturizer().load(f"{name}/a.xtc", trajectory.topology, n_jobs=1, **options)
            return features.shape, [f"{one.category.__name__}: {one.message}" for one in caught]

        assert load() == ((5, 4), [])  # and everything is loaded that a child may not be allowed to read
        said = somebody_elses(lambda: load(cache=locked))
        refusal = somebody_elses(lambda: load(cache=locked / "c"))
    assert refusal.startswith(f"InputError: cache='{locked / 'c'}' cannot be made a folder (Permission denied); name")
    assert said.startswith(f"returned ((5, 4), ['{TrajectoryWarning.__name__}: "), said
    assert "Permission denied" in said
    assert "name another cache" in said


@pytest.mark.parametrize("place", ["", "new"])
def test_commands(locked: Path, model: StateModel, frames: np.ndarray, place: str) -> None:
    """Before the work is done, in one line, and with the code of bad input."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        np.save(f"{name}/x.npy", frames)
        Path(f"{name}/x.npy").chmod(0o644)

        def fit() -> tuple[int, list[str]]:
            import io

            sys.stderr = io.StringIO()
            code = main(["fit", f"{name}/x.npy", "--n-states", "2", "--out", str(locked / place)])
            return code, sys.stderr.getvalue().splitlines()

        standard = sys.stderr
        try:
            said = somebody_elses(fit)
        finally:
            sys.stderr = standard
    assert said.startswith("returned (2, [")
    assert said.count("m3c-md: ") == 1
    assert f"{locked / place}" in said
    assert ("may not be written to; choose another folder with --out" if place == "" else "Permission denied") in said
