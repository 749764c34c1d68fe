"""Frames at the border between two states, where trajectories crossed it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from m3c_md import M3CModel
from m3c_md.clustering.sampled_states import crossings
from m3c_md.exceptions import InputError
from tests.conftest import quick


def slow_walk(n_frames: int, seed: int) -> np.ndarray:
    """Coordinate in three wells at -2, 0 and 2 that takes eight frames from one to the next."""
    rng = np.random.default_rng(seed)
    stops = np.cumsum(rng.choice([-1, 1], size=n_frames // 38))
    stops = 2.0 * (np.abs(stops % 4 - 2) - 1.0)  # 0, 2, 0, -2: never from one end to the other
    pieces = [np.concatenate([np.full(30, a), np.linspace(a, b, 8)]) for a, b in pairwise(stops)]
    x = np.concatenate(pieces)
    return (x + 0.05 * rng.normal(size=len(x)))[:, None]


@pytest.fixture(scope="module")
def trajs() -> list[np.ndarray]:
    return [slow_walk(2500, seed) for seed in range(2)]


@pytest.fixture(scope="module")
def model(trajs: list[np.ndarray]) -> M3CModel:
    found: M3CModel = quick(3).fit_fetch(trajs)
    by_place = {round(float(x)): int(found.transform([[x]])[0]) for x in (-2.0, 0.0, 2.0)}
    return found.rename({by_place[-2]: "left", by_place[0]: "middle", by_place[2]: "right"})


def test_frames_lie_between_the_wells_near_the_border(model: M3CModel, trajs: list[np.ndarray]) -> None:
    for side, middle in (("left", -1.0), ("right", 1.0)):
        frames = model.transition_frames(trajs, side, "middle", 12)
        assert frames.shape == (12, 2)
        x = np.array([trajs[i][k, 0] for i, k in frames])
        assert np.abs(x - middle).max() < 0.6
        margins = np.array([model.margin(trajs[i][k : k + 1])[0] for i, k in frames])
        assert (np.diff(margins) >= 0.0).all()
        assert margins.max() < np.median(model.margin(trajs[0]))
        assert len({tuple(pair) for pair in frames.tolist()}) == 12


def test_both_directions_are_the_same_border(model: M3CModel, trajs: list[np.ndarray]) -> None:
    there, back = (model.transition_frames(trajs, *ends, 5) for ends in (("left", "middle"), ("middle", "left")))
    assert np.array_equal(there, back)


def test_states_that_do_not_touch_have_none(model: M3CModel, trajs: list[np.ndarray]) -> None:
    assert model.transition_frames(trajs, "left", "right").shape == (0, 2)


def test_one_frame_of_every_crossing() -> None:
    states = np.array([0, 0, 1, 1, 0, 2, 1, 0])
    leads = np.array([1.0, 0.3, 0.2, 0.5, 0.6, 0.1, 0.9, 0.4])
    # Crossings 1-2, 3-4 and 6-7; the frame with the smaller lead of each.
    assert crossings(states, leads, 0, 1).tolist() == [2, 3, 7]
    assert crossings(states, leads, 1, 0).tolist() == [2, 3, 7]
    assert crossings(states, leads, 0, 2).tolist() == [5]


def test_a_merged_model_has_no_frames_at_the_border_that_vanished(model: M3CModel, trajs: list[np.ndarray]) -> None:
    merged = model.merge([["left", "middle"]])
    frames = merged.transition_frames(trajs, "left+middle", "right", 8)
    assert np.abs(np.array([trajs[i][k, 0] for i, k in frames]) - 1.0).max() < 0.6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0, 0), "two states"), ((0, 5), "numbered"), (("left", "up"), "no such state"), ((0, 1, 0), "n=0")],
)
def test_bad_arguments_are_refused(
    model: M3CModel, trajs: list[np.ndarray], arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        model.transition_frames(trajs, *arguments)
