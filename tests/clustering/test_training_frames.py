"""PCCA+ and k-medoids on data too large to load: the same sums block by block, centres from a sample."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from m3c_md import KMedoids, PCCAPlus
from m3c_md.clustering import training_frames
from m3c_md.exceptions import InputError, M3CWarning, ShortTrajectoryWarning
from m3c_md.frames import source as source_module
from m3c_md.matching import agreement
from tests.conftest import hidden_markov_wells

N_FRAMES = 3000
ESTIMATORS = {
    "PCCA+": lambda: PCCAPlus(3, 2, n_microstates=30, n_restarts=1, random_state=0),
    "PCCA+, k-medoids": lambda: PCCAPlus(
        3, 2, n_microstates=30, discretization="k-medoids", n_restarts=1, random_state=0
    ),
    "k-medoids": lambda: KMedoids(3, n_restarts=2, random_state=0),
}


@pytest.fixture(scope="module")
def trajectories() -> list[np.ndarray]:
    """Three trajectories in single precision of one series."""
    frames = hidden_markov_wells(N_FRAMES, 3, seed=1).frames.astype(np.float32)
    return [frames[:1200], frames[1200:2000], frames[2000:]]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Everything counts as large."""
    monkeypatch.setattr(training_frames, "MOST_NUMBERS", 1000)
    return monkeypatch


def fitted(name: str, data: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", M3CWarning)
        return ESTIMATORS[name]().fit_fetch(data)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_where_the_sample_holds_all_frames_the_answer_is_the_same(
    name: str, trajectories: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = fitted(name, trajectories)
    monkeypatch.setattr(training_frames, "MOST_NUMBERS", 1000)
    found = fitted(name, trajectories)
    np.testing.assert_array_equal(found.centers, expected.centers)
    np.testing.assert_array_equal(found.populations, expected.populations)
    assert found.visits.equals(expected.visits)
    assert found.warnings == expected.warnings
    if name == "k-medoids":
        assert found.scatter == pytest.approx(expected.scatter, rel=1e-12)
    else:
        np.testing.assert_array_equal(
            found.msm.count_model.count_matrix_full, expected.msm.count_model.count_matrix_full
        )
        assert found.n_disconnected_frames == expected.n_disconnected_frames


@pytest.mark.parametrize("name", ESTIMATORS)
def test_all_frames_count_whatever_the_sample_and_the_blocks(
    name: str, trajectories: list[np.ndarray], large: pytest.MonkeyPatch
) -> None:
    large.setattr(training_frames, "SAMPLED_WINDOWS", 600)
    large.setattr(source_module.plan_blocks, "__defaults__", (350,))
    found = fitted(name, trajectories)
    states = np.concatenate(found.transform(trajectories))
    counts = np.bincount(states, minlength=3)
    np.testing.assert_allclose(found.populations, counts / N_FRAMES, rtol=1e-12)
    assert found.visits["frames"].tolist() == counts.tolist()
    assert (np.diff(found.populations) <= 0.0).all()
    if name != "k-medoids":
        assert found.msm.count_model.count_matrix_full.sum() == N_FRAMES - 3 * 2
        truth = hidden_markov_wells(N_FRAMES, 3, seed=1).states
        assert agreement(states, truth) > 0.9


def test_short_trajectories_and_holes_are_told(trajectories: list[np.ndarray], large: pytest.MonkeyPatch) -> None:
    with pytest.warns(ShortTrajectoryWarning, match="take no part in the fit"):
        PCCAPlus(3, 2, n_microstates=30, n_restarts=1, random_state=0).fit([*trajectories, trajectories[0][:2]])
    hole = trajectories[1].copy()
    hole[600, 0] = np.nan
    for estimator in (PCCAPlus(3, 2, n_microstates=30), KMedoids(3)):
        with pytest.raises(InputError, match="trajectory 1 holds nan at frame 600, column 0"):
            estimator.fit([trajectories[0], hole])
    with pytest.raises(InputError, match="lagtime=9000"):
        PCCAPlus(3, 9000).fit(trajectories)


def test_memory_maps_are_enough(tmp_path: Path, trajectories: list[np.ndarray], large: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "x.npy", trajectories[0])
    lazy = np.load(tmp_path / "x.npy", mmap_mode="r")
    for name in ("PCCA+", "k-medoids"):
        np.testing.assert_array_equal(fitted(name, lazy).centers, fitted(name, trajectories[0]).centers)
