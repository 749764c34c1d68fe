"""Coring by margin: what it does to single trajectories, to known chains, and how the margin is chosen."""

from __future__ import annotations

import numpy as np
import pytest

from m3c_md.markov.coring import _best, choose_margin, core_states
from m3c_md.markov.transitions import transition_matrix
from tests.markov import BARRIER, lumped, markov_chain, slowest, stationary

# Of BARRIER: two states, of which the inner cells are shallow and the outer ones deep.
SIDE, DEPTH = np.array([0, 0, 1, 1]), np.array([1.0, 0.1, 0.1, 1.0])
# Five cells in a row, more of the weight on the left; cells 1 to 3 belong to no core.
ROW = np.array(
    [
        [0.9, 0.1, 0.0, 0.0, 0.0],
        [0.3, 0.4, 0.3, 0.0, 0.0],
        [0.0, 0.3, 0.4, 0.3, 0.0],
        [0.0, 0.0, 0.3, 0.4, 0.3],
        [0.0, 0.0, 0.0, 0.2, 0.8],
    ]
)


def cored(states: list[int], deep: list[int], min_dwell: int = 1) -> tuple[list[int], list[int]]:
    labels, transition = core_states(np.array(states), np.array(deep, dtype=float), 1.0, min_dwell)
    assert labels.dtype == np.int32
    return labels.tolist(), np.flatnonzero(transition).tolist()


class TestOneTrajectory:
    def test_a_frame_keeps_its_state_until_it_is_deep_inside_another(self) -> None:
        assert cored([0, 1, 0, 1, 1, 1], [1, 0, 0, 0, 1, 0]) == ([0, 0, 0, 0, 1, 1], [1, 2, 3])

    def test_an_excursion_that_returns_is_no_transition(self) -> None:
        assert cored([0, 1, 1, 0, 0], [1, 0, 0, 0, 1]) == ([0] * 5, [])

    def test_before_the_first_core_comes_its_state(self) -> None:
        assert cored([1, 0, 1, 0, 1], [0, 0, 0, 1, 0]) == ([0] * 5, [])

    def test_without_a_core_the_deepest_frame_decides(self) -> None:
        labels, transition = core_states(np.array([0, 2, 1]), np.array([0.1, 0.3, 0.2]), 1.0)
        assert labels.tolist() == [2, 2, 2]
        assert not transition.any()

    def test_a_stay_that_is_too_short_does_not_count(self) -> None:
        states = [0, 0, 1, 1, 0, 0, 0, 2, 2, 2]
        assert cored(states, [1] * 10, 3) == ([0] * 7 + [2] * 3, [])
        # Until the next core, not until the next shallow frame.
        assert cored([0, 0, 0, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0, 1, 1, 1], 3)[0] == [0, 0, 0, 1, 1, 1, 0, 0, 0]
        # What the end cuts off may have been short.
        assert cored([0, 0, 0, 1, 1], [1] * 5, 3)[0] == [0] * 5
        # A way over a short stay is a transition from the first to the last.
        assert cored([0, 0, 0, 1, 2, 2, 2], [1] * 7, 3) == ([0, 0, 0, 0, 2, 2, 2], [3])

    @pytest.mark.parametrize("seed", range(5))
    def test_margin_zero_changes_nothing_and_larger_ones_never_add_a_change(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        states, leads = rng.integers(0, 3, 200), rng.random(200)
        changes = []
        for margin in (0.0, 0.2, 0.5, 0.8, 0.95):
            labels, transition = core_states(states, leads, margin)
            changes.append(np.count_nonzero(np.diff(labels)))
            np.testing.assert_array_equal(labels[leads >= margin], states[leads >= margin])
            assert not transition[leads >= margin].any()
        np.testing.assert_array_equal(core_states(states, leads, 0.0)[0], states)
        assert changes == sorted(changes, reverse=True)

    def test_backwards_in_time_the_ways_between_cores_are_the_same(self) -> None:
        rng = np.random.default_rng(0)
        states, leads = rng.integers(0, 3, 300), rng.random(300)
        forward = core_states(states, leads, 0.7)[1]
        np.testing.assert_array_equal(core_states(states[::-1], leads[::-1], 0.7)[1][::-1], forward)


CELLS = [markov_chain(BARRIER, 4000, seed) for seed in range(10)]


class TestKnownChains:
    def test_recrossings_vanish_and_the_timescale_is_right_at_lag_1(self) -> None:
        exact = slowest(BARRIER, 1)
        plain = slowest(transition_matrix([SIDE[x] for x in CELLS]), 1)
        choice = choose_margin([SIDE[x] for x in CELLS], [DEPTH[x] for x in CELLS], 2)
        after = slowest(transition_matrix([core_states(SIDE[x], DEPTH[x], choice.margin)[0] for x in CELLS]), 1)
        assert slowest(lumped(BARRIER, SIDE.tolist(), 1), 1) < 0.6 * exact  # what recrossings do to infinite data
        assert plain < 0.65 * exact
        assert after == pytest.approx(exact, rel=0.1)
        assert choice.margin > 0.1
        assert choice.reason.startswith("timescales at lag 1 ")
        assert " those at lag " in choice.reason

    @pytest.mark.parametrize(
        ("t2", "expected"),
        [((90.0, 99.0, 120.0, 150.0), 0.5), ((80.0, 90.0, 99.0, 150.0), 1.0)],
        ids=["too high before the other is right", "right together"],
    )
    def test_no_timescale_is_overdone_for_the_sake_of_another(self, t2: tuple[float, ...], expected: float) -> None:
        """True timescales are 100 and 50; the second one takes a margin of 1 to be right."""
        t3, later = (40.0, 46.0, 50.0, 50.0), np.array([100.0, 50.0])
        rows = [(np.array(first), later, 0) for first in zip(t2, t3, strict=True)]
        choice = _best(np.array([0.0, 0.5, 1.0, 2.0]), rows, np.array([0, 1]), [25, 12], np.ones(3))
        assert choice.margin == expected
        assert ("agree" in choice.reason) == (expected == 1.0)

    def test_the_choice_is_told(self) -> None:
        table = choose_margin([SIDE[x] for x in CELLS], [DEPTH[x] for x in CELLS], 2).table
        assert table.index[0] == 0.0
        assert table["outside"].is_monotonic_increasing
        assert table["changes"].is_monotonic_decreasing
        assert table["t2"].iloc[0] < 0.7 * table["t2 later"].iloc[0]

    def test_a_chain_that_is_markovian_is_left_alone(self) -> None:
        chains = [markov_chain([[0.95, 0.05], [0.1, 0.9]], 3000, seed) for seed in range(5)]
        rng = np.random.default_rng(0)
        choice = choose_margin(chains, [rng.random(3000) + 0.5 for _ in chains], 2)
        assert choice.margin == 0.0

    def test_states_without_a_timescale_are_left_alone(self) -> None:
        noise = np.random.default_rng(0).integers(0, 2, 1000)
        choice = choose_margin([noise], [np.ones(1000)], 2)
        assert choice.margin == 0.0
        assert "nothing to choose by" in choice.reason

    def test_every_state_keeps_half_of_its_frames(self) -> None:
        """A state that is shallow throughout must not lose its core to one that is deep."""
        cells = markov_chain(BARRIER, 8000, 3)
        depth = np.array([5.0, 0.1, 0.1, 0.5])[cells]
        choice = choose_margin([SIDE[cells]], [depth], 2)
        assert choice.margin <= 0.5
        assert set(core_states(SIDE[cells], depth, choice.margin)[0].tolist()) == {0, 1}

    def test_populations_are_those_of_the_committor_even_in_short_trajectories(self) -> None:
        """Each frame counts for a core as often as it comes from there; frames before the first core, too."""
        inner = [1, 2, 3]
        hit = np.linalg.solve(np.eye(3) - ROW[np.ix_(inner, inner)], ROW[inner, 4])
        committor = np.array([0.0, *hit, 1.0])
        expected = float(stationary(ROW) @ committor)
        leads = np.array([1.0, 0.0, 0.0, 0.0, 1.0])
        sides = np.array([0, 0, 0, 1, 1])
        for n_frames, n_trajectories in ((30, 1500), (300, 150)):
            shares = []
            for seed in range(n_trajectories):
                cells = markov_chain(ROW, n_frames, 10_000 * n_frames + seed)
                shares.append(core_states(sides[cells], leads[cells], 1.0)[0].mean())
            error = np.std(shares) / n_trajectories**0.5
            assert abs(np.mean(shares) - expected) < 3.5 * error
            assert error < 0.015
