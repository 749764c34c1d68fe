"""What lasts is kept, and next to nothing is cut off for the states that are not there."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from m3c_md.matching import agreement
from m3c_md.search.trimming import remembered_states, trimmed_states

LATE = 20


def hidden(n_frames, n_states, leave, rng):
    """A series of states that are left with some probability for any state."""
    jumps = rng.random(n_frames) < leave
    return rng.integers(n_states, size=n_frames)[np.maximum.accumulate(np.where(jumps, np.arange(n_frames), 0))]


def later(n_frames):
    places = np.arange(n_frames - LATE)
    return places, places + LATE


@pytest.mark.parametrize("leave", [0.002, 0.03])
def test_halves_that_forget_are_one_state_and_states_that_last_stay(leave):
    """Also where states are left soon: what counts is how much the others remember."""
    rng = np.random.default_rng(0)
    true = hidden(20_000, 4, leave, rng)
    halves = np.where((true == 2) & (rng.random(len(true)) < 0.5), 4, true)
    states, lasting = remembered_states(np.stack([halves, halves]), later(len(true)))
    assert agreement(states[0], true) == 1.0
    assert states.max() == 3
    stays = 0.25 + 0.75 * (1 - leave) ** LATE
    assert lasting == pytest.approx(4 * stays, abs=0.2)


def test_states_that_are_all_forgotten_have_next_to_no_metastability():
    states = np.random.default_rng(0).integers(5, size=(2, 4000))
    assert remembered_states(states, later(4000))[1] < 1.1


@pytest.mark.parametrize(("spread", "n_left"), [(0.1, 4), (1.0, 2)])
def test_states_that_are_forgotten_but_lie_apart_stay(spread, n_left):
    """Two pairs of states; within a pair one goes over to the other soon. Without a gap between they are one."""
    rng = np.random.default_rng(3)
    pair, member = hidden(20_000, 2, 0.001, rng), hidden(20_000, 2, 0.2, rng)
    places = np.stack([10.0 * pair, np.where(member == 0, -1.0, 1.0)], axis=1) + spread * rng.normal(size=(20_000, 2))
    centers = np.array([[10.0 * (k // 2), 2.0 * (k % 2) - 1.0] for k in range(4)])
    scores = -((places[None] - centers[:, None]) ** 2).sum(axis=2)
    states = scores.argmax(axis=0)
    left, _ = remembered_states(np.stack([states, states]), later(len(states)), scores)
    assert len(np.unique(left)) == n_left
    assert agreement(left[0], states if n_left == 4 else pair) > 0.99


class TestTrimmed:
    rng = np.random.default_rng(1)
    true = hidden(2000, 3, 0.01, rng)
    frames = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])[true] + rng.normal(size=(2000, 2))
    ends = frames[:-1], frames[1:]
    given = np.stack([true[:-1], true[1:]])

    @pytest.mark.parametrize("n_states", [3, 4, 7])
    def test_all_windows_but_a_few_stay_where_they_were(self, n_states):
        labels = trimmed_states(*self.ends, self.given, n_states, 10)
        assert_array_equal(np.unique(labels), np.arange(n_states))
        new = labels >= 3
        assert_array_equal(labels[~new], self.given[0, ~new])
        assert_array_equal(np.bincount(labels, minlength=n_states)[3:], 10)

    def test_what_is_cut_off_lies_outside_of_a_state(self):
        labels = trimmed_states(*self.ends, self.given, 4, 10)
        cut = self.ends[0][labels == 3]
        (state,) = np.unique(self.given[0, labels == 3])
        distances = np.linalg.norm(
            self.ends[0][self.given[0] == state] - self.ends[0][self.given[0] == state].mean(0), axis=1
        )
        own = np.linalg.norm(cut - self.ends[0][self.given[0] == state].mean(axis=0), axis=1)
        assert own.min() > np.median(distances)

    def test_of_all_ends_the_one_that_is_not_left_at_once_is_cut_off(self):
        """A dozen frames in a row lie beyond a state in a direction of their own."""
        frames = self.frames.copy()
        place = int(np.flatnonzero(np.convolve(self.true == 1, np.ones(12), "valid") == 12)[0])
        frames[place : place + 12] = [6.0, -4.0] + 0.2 * self.rng.normal(size=(12, 2))
        labels = trimmed_states(frames[:-1], frames[1:], self.given, 4, 10)
        assert np.isin(np.flatnonzero(labels == 3), np.arange(place, place + 12)).all()

    def test_none_where_there_are_too_few_windows_or_no_differences(self):
        ends = self.frames[:15], self.frames[1:16]
        one = np.zeros((2, 15), dtype=np.intp)
        assert trimmed_states(*ends, one, 2, 10) is None
        same = np.zeros((15, 2))
        assert trimmed_states(same, same, one, 2, 5) is None
