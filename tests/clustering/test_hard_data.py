"""Whole fits where states are rare, missing or seen once: who wins, and what is said about it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.typing import NDArray

from m3c_md import M3C
from m3c_md.exceptions import AmbiguousSolutionWarning, FewVisitsWarning, OverlappingStatesWarning, RareStateWarning
from m3c_md.matching import agreement

CENTRES = np.array([[0.0, 0.0], [2.2, 0.0], [2.2, 2.4]])


def columns(angles: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def chain(leave: NDArray[np.float64], n_frames: int, rng: np.random.Generator, first: int = 0) -> NDArray[np.intp]:
    """States of a Markov chain with these rates off the diagonal."""
    matrix = leave + np.diag(1.0 - leave.sum(axis=1))
    cumulative, draws = np.cumsum(matrix, axis=1), rng.random(n_frames)
    states = np.empty(n_frames, dtype=np.intp)
    state = first
    for t in range(n_frames):
        states[t] = state
        state = int((draws[t] > cumulative[state]).sum())
    return states


def with_a_rare_third_state(seed: int) -> tuple[list[NDArray[np.float64]], NDArray[np.intp]]:
    """Ten trajectories of 2,000 frames in two states, and in a third that has about 0.5 % of them."""
    rng = np.random.default_rng(seed)
    leave = np.array([[0.0, 0.005, 0.0], [0.005, 0.0, 0.00025], [0.0, 0.02, 0.0]])
    states = [chain(leave, 2000, rng, i % 2) for i in range(10)]
    return [columns(CENTRES[s] + rng.vonmises(0.0, 8.0, (2000, 2))) for s in states], np.concatenate(states)


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.FewVisitsWarning")
@pytest.mark.parametrize("seed", [2, 3, 9])
def test_a_rare_state_is_found_rather_than_a_large_one_split(seed: int) -> None:
    trajs, states = with_a_rare_third_state(seed)
    share = float((states == 2).mean())
    assert 0.001 < share < 0.01, "rarer than the balance"
    with pytest.warns(RareStateWarning, match=r"less than balance\[0\]=0.01"):
        model = M3C(3, random_state=0).fit_fetch(trajs)
    found = np.concatenate(model.transform(trajs))
    assert agreement(found, states) > 0.99
    assert np.count_nonzero((found == 2) & (states == 2)) > 0.9 * np.count_nonzero(states == 2)


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.AmbiguousSolutionWarning")
@pytest.mark.parametrize("seed", [1, 2])
def test_a_handful_of_outliers_is_no_state(seed: int) -> None:
    rng = np.random.default_rng(seed)
    states = chain(np.array([[0.0, 0.01], [0.01, 0.0]]), 10_000, rng)
    frames = columns(CENTRES[states] + rng.vonmises(0.0, 6.0, (10_000, 2)))
    wild = rng.choice(10_000, 20, replace=False)
    frames[wild] += 6.0 * rng.normal(size=(20, 4))
    model = M3C(2, random_state=0).fit_fetch(frames)
    assert agreement(model.transform(frames), states) > 0.97
    with pytest.warns(OverlappingStatesWarning, match="every rule that was tried lost one of the 3 states"):
        third = M3C(3, random_state=0).fit_fetch(frames)
    assert np.bincount(third.transform(frames)[wild], minlength=3)[2] < 20, "the outliers are not a state"


def test_a_state_of_one_trajectory_gives_way_to_one_of_many() -> None:
    """One trajectory of thirty is stuck in a corner of its own, and looks perfectly metastable there."""
    rng = np.random.default_rng(0)
    states = [chain(np.array([[0.0, 0.02], [0.02, 0.0]]), 300, rng, i % 2) for i in range(29)]
    trajs = [columns(CENTRES[s] + rng.vonmises(0.0, 6.0, (300, 2))) for s in states]
    trajs.append(columns(CENTRES[2] + np.pi / 2 + rng.vonmises(0.0, 6.0, (300, 2))))
    with pytest.warns(AmbiguousSolutionWarning, match="set aside because one of them is seen in [12] of 30 indep"):
        model = M3C(2, random_state=0).fit_fetch(trajs)
    assert agreement(np.concatenate(model.transform(trajs[:-1])), np.concatenate(states)) > 0.97
    assert (model.visits["trajectories"] >= 29).all()
    table = model.candidates
    assert table["error"][0] < 0.05
    assert table["parts"][0] >= 29


def test_what_rests_on_few_visits_is_said() -> None:
    states = np.repeat([0, 1, 0, 1, 0], 400)
    frames = columns(CENTRES[states] + np.random.default_rng(0).vonmises(0.0, 60.0, (2000, 2)))
    with pytest.warns(FewVisitsWarning, match="state 0 was entered (twice|2 times)"):
        M3C(2, random_state=0).fit(frames)


@pytest.mark.parametrize("seed", [2, 4])
def test_of_two_equivalent_cuts_the_other_is_named(seed: int) -> None:
    """Two angles that do the same: scores differ by up to 11 % through the random features, and no data tell which."""
    rng = np.random.default_rng(seed)
    leave = np.array([[0.0, 0.01], [0.01, 0.0]])
    states = np.stack([chain(leave, 6000, rng) for _ in range(2)], axis=1)
    angles = 2.2 * states + rng.vonmises(0.0, 8.0, (6000, 2))
    trajs = [columns(angles), columns(angles[:, ::-1])]
    with pytest.warns(AmbiguousSolutionWarning, match="describe the data as well within the errors") as caught:
        model = M3C(2, random_state=seed).fit_fetch(trajs)
    row = int(re.findall(r"model\.alternative\((\d+)\)", str(caught[0].message))[0])
    assert (
        agreement(np.concatenate(model.transform(trajs)), np.concatenate(model.alternative(row).transform(trajs))) < 0.9
    )
    assert f"score {model.candidates['score'][row]:.3g} against {model.candidates['score'][0]:.3g}" in str(
        caught[0].message
    )
