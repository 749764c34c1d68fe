"""Support: parts of the data, and what leaving one out does to the metastability of states."""

from __future__ import annotations

import numpy as np
import pytest

from m3c_md.frames.parts import N_PARTS, independent_parts
from m3c_md.search.selection import LARGEST_ERROR
from m3c_md.search.support import (
    A_WHILE,
    ENOUGH_PARTS,
    independent_visits,
    lasts_longer,
    least_memory,
    metastability_of,
    part_transitions,
    support_of,
)


class TestParts:
    def test_ten_trajectories_are_ten_parts_whatever_their_lengths(self):
        sizes = [5, 0, 100, *[7] * (N_PARTS - 2)]
        parts = independent_parts(sizes, np.arange(sum(sizes)))
        np.testing.assert_array_equal(np.bincount(parts), [n for n in sizes if n])

    @pytest.mark.parametrize("sizes", [[1000], [500, 500], [900, 100], [333, 333, 334], [990, 5, 5], [1]])
    def test_fewer_are_cut_into_about_ten_blocks_that_do_not_cross_trajectories(self, sizes):
        parts = independent_parts(sizes, np.arange(sum(sizes)))
        trajectory = np.repeat(np.arange(len(sizes)), sizes)
        assert (np.diff(parts) >= 0).all(), "blocks are contiguous"
        assert len({(t, p) for t, p in zip(trajectory, parts, strict=True)}) == len(set(parts.tolist()))
        if sum(sizes) > 1:
            assert N_PARTS <= len(set(parts.tolist())) <= N_PARTS + len(sizes)

    def test_a_sample_has_the_parts_of_its_windows(self):
        sizes, chosen = [300, 0, 450], np.array([0, 17, 299, 300, 749])
        np.testing.assert_array_equal(
            independent_parts(sizes, chosen), independent_parts(sizes, np.arange(750))[chosen]
        )

    def test_order_of_trajectories_does_not_matter(self):
        one, two = independent_parts([600, 200], np.arange(800)), independent_parts([200, 600], np.arange(800))
        assert sorted(np.bincount(one)) == sorted(np.bincount(two))


class TestMetastability:
    def test_it_is_the_trace_of_the_reversible_chain(self):
        """Counts [[6, 1], [3, 2]] symmetrise to [[12, 4], [4, 4]]: 12/16 + 4/8."""
        assert metastability_of(np.array([[6.0, 1.0], [3.0, 2.0]])) == pytest.approx(0.75 + 0.5)
        assert metastability_of(np.array([[1.0, 0.0], [0.0, 0.0]])) == 1.0  # a state that is never visited adds nothing

    def test_of_many_matrices_at_once(self):
        counts = np.random.default_rng(0).uniform(size=(5, 3, 3))
        np.testing.assert_allclose(metastability_of(counts), [metastability_of(one) for one in counts])


def test_transitions_of_parts_by_hand():
    states = np.array([[0, 0, 1, 1], [0, 1, 1, 0]])
    found = part_transitions(states, np.array([1.0, 2.0, 3.0, 4.0]), np.array([7, 7, 9, 9]), 2)
    np.testing.assert_array_equal(found, [[[1, 2], [0, 0]], [[0, 0], [4, 3]]])


class TestSupport:
    def by_hand(self, counts):
        """Jackknife errors that leave out one part at a time, and two neighbours at a time."""
        n = len(counts)
        one = [metastability_of(np.delete(counts, i, axis=0).sum(axis=0)) for i in range(n)]
        two = [metastability_of(np.delete(counts, [i, (i + 1) % n], axis=0).sum(axis=0)) for i in range(n)]
        return np.sqrt((n - 1) * np.var(one)), np.sqrt((n - 2) / 2 * np.var(two))

    @pytest.mark.parametrize("seed", range(6))
    def test_the_larger_of_two_jackknifes_by_hand(self, seed):
        counts = np.random.default_rng(seed).uniform(1, 9, size=(6, 3, 3))
        assert support_of(counts).error == pytest.approx(max(self.by_hand(counts)))

    def test_of_few_parts_no_two_are_left_out(self):
        counts = np.random.default_rng(0).uniform(1, 9, size=(ENOUGH_PARTS - 1, 3, 3))
        assert support_of(counts).error == pytest.approx(self.by_hand(counts)[0])

    @pytest.mark.parametrize("shares", [(1.0, 0.0), (0.5, 0.5), (0.7, 0.3)])
    def test_one_visit_is_one_visit_however_the_blocks_cut_it(self, shares):
        """Ten blocks of one trajectory: leaving out either block alone would leave half of the state."""
        counts = np.tile(np.diag([90.0, 0.0]), (10, 1, 1))
        counts[4:6, 1, 1] = 20.0 * np.array(shares)
        assert support_of(counts).error > 2.0 * LARGEST_ERROR
        # Visits that are not neighbours are two: nothing says that one without the other would not be.
        counts[[5, 7]] = counts[[7, 5]]
        if shares[1] > 0.0:
            assert support_of(counts).error < LARGEST_ERROR

    @pytest.mark.parametrize("n_parts", [10, 50])
    @pytest.mark.parametrize("elsewhere", [0.0, 0.02, 0.05])
    def test_a_state_that_is_nearly_all_in_one_trajectory_rests_on_it(self, n_parts, elsewhere):
        counts = np.tile(np.diag([90.0, 100.0 * elsewhere / (n_parts - 1)]), (n_parts, 1, 1))
        counts[3, 1, 1] = 100.0 * (1.0 - elsewhere)
        assert support_of(counts).error > 0.8
        counts[:, 1, 1] = np.where(np.arange(n_parts) == 3, 50.0, 50.0 / (n_parts - 1))
        assert support_of(counts).error < LARGEST_ERROR

    def test_a_state_of_which_an_eighth_is_seen_elsewhere_does_not_rest_on_one_trajectory(self):
        """Model I with a well that five of ten trajectories see, seven eighths of it in one (its seed 5005)."""
        counts = np.tile(np.diag([390.0, 0.0]), (10, 1, 1))
        counts[2, 1, 1] = 259.0
        counts[[0, 6, 8, 9], 1, 1] = [1.0, 33.0, 2.0, 3.0]
        assert support_of(counts).error < LARGEST_ERROR

    @pytest.mark.parametrize("n_parts", [10, 100])
    def test_a_state_of_one_part_has_an_error_of_nearly_one_and_one_of_many_has_not(self, n_parts):
        common = np.tile(np.diag([90.0, 0.0]), (n_parts, 1, 1))
        common[0, 1, 1] = 20.0
        alone = support_of(common)
        assert 0.85 < alone.error < 1.0
        assert alone.n_parts == 1
        common[::3, 1, 1] = 20.0
        shared = support_of(common)
        assert shared.error < 0.05
        assert shared.n_parts == len(common[::3])

    def test_error_is_that_of_other_data_of_the_kind(self):
        """Twenty parts of a two-state chain: the jackknife error against the spread over many such data sets."""
        rng = np.random.default_rng(1)

        def data_set():
            parts = []
            for _ in range(20):
                leaves = rng.binomial(100, [0.05, 0.1])
                parts.append([[100 - leaves[0], leaves[0]], [leaves[1], 100 - leaves[1]]])
            return np.array(parts, dtype=float)

        sets = [data_set() for _ in range(300)]
        spread = np.std([metastability_of(one.sum(axis=0)) for one in sets])
        assert np.mean([support_of(one).error for one in sets]) == pytest.approx(spread, rel=0.15)

    def test_one_part_tells_nothing(self):
        assert np.isnan(support_of(np.ones((1, 2, 2))).error)


class TestExpectedMetastability:
    """Q of fresh data: a state of m parts is missing there with probability exp(-m)."""

    @staticmethod
    def parts(n_parts, holding):
        """Parts that never leave the first state, but for some that never leave the second."""
        transitions = np.zeros((n_parts, 2, 2))
        transitions[:, 0, 0] = 10.0
        transitions[holding, 1, 1] = 10.0
        return transitions

    @pytest.mark.parametrize(("holding", "n_independent"), [([3], 1), ([3, 8], 2), ([1, 5, 9], 3), ([3, 4], 1)])
    def test_by_hand(self, holding, n_independent):
        """Two neighbours may hold one visit, cut in two."""
        expected = (1.0 - np.exp(-10.0)) + (1.0 - np.exp(-n_independent))
        assert support_of(self.parts(20, holding)).expected == pytest.approx(expected, rel=1e-12)

    def test_a_part_counts_by_its_share(self):
        uneven = self.parts(20, [3, 8])
        uneven[8, 1, 1] = 0.1
        assert support_of(uneven).expected == pytest.approx(support_of(self.parts(20, [3])).expected, abs=0.01)

    def test_of_states_seen_everywhere_it_is_q_after_a_while(self):
        rng = np.random.default_rng(0)
        transitions = rng.uniform(1.0, 2.0, size=(40, 3, 3)) + 20.0 * np.eye(3)
        counts = transitions.sum(axis=0) + transitions.sum(axis=0).T
        eigenvalues = np.linalg.eigvals(counts / counts.sum(axis=1, keepdims=True)).real
        assert support_of(transitions).expected == pytest.approx((eigenvalues**A_WHILE).sum(), abs=1e-4)

    def test_a_cut_through_a_state_is_worth_less_than_a_state_that_was_seen_once(self):
        """Two states seen everywhere, a third in one part: cut one of the first two instead, and halves mix quickly."""
        right, cut = np.zeros((10, 3, 3)), np.zeros((10, 3, 3))
        right[:, 0, 0], right[:, 1, 1], right[4, 2, 2] = 100.0, 100.0, 50.0
        cut[:, 0, 0], cut[4, 0, 0] = 100.0, 150.0
        cut[:, 1:, 1:] = [[43.0, 7.0], [7.0, 43.0]]
        assert support_of(right).error > 2.0 * LARGEST_ERROR > LARGEST_ERROR > support_of(cut).error
        assert support_of(right).expected > support_of(cut).expected
        # At one lag time the halves count for more than a state that fresh data may not see.
        by_hand = 2.0 * (1.0 - np.exp(-5.0)) + 1.0 - np.exp(-1.0)
        assert metastability_of(cut.sum(axis=0)) > by_hand == pytest.approx(support_of(right).expected, abs=1e-9)

    def test_it_foretells_whether_fresh_data_show_a_state(self):
        """Over many draws of what is seen, no more is promised than fresh data of the same kind keep."""
        rng = np.random.default_rng(1)
        n_parts, promised, kept = 40, [], []
        for _ in range(400):
            seen = np.flatnonzero(rng.random(n_parts) < rng.uniform(0.5, 4.0) / n_parts)
            fresh = rng.random(n_parts) < len(seen) / n_parts
            if len(seen):
                promised.append(support_of(self.parts(n_parts, seen)).expected)
                kept.append(1.0 + fresh.any())
        assert abs(np.mean(promised) - np.mean(kept)) < 3.0 * np.std(kept) / np.sqrt(len(kept)) + 0.05


class TestIndependentVisits:
    """In a few long trajectories visits count, not blocks."""

    @staticmethod
    def visits(states, apart=3, trajectories=None):
        states = np.asarray(states)
        trajectories = np.zeros(len(states), dtype=int) if trajectories is None else np.asarray(trajectories)
        found = independent_visits(states, np.ones(len(states)), trajectories, np.arange(len(states)), apart, 2)
        return found.tolist()

    def test_visits_of_equal_length_count_one_each(self):
        assert self.visits(np.repeat([0, 1, 0, 1, 0, 1], 10)) == [3.0, 3.0]

    def test_a_short_excursion_does_not_end_a_visit(self):
        states = np.repeat([0, 1, 0, 1, 0], [20, 3, 20, 10, 20])
        assert self.visits(states, apart=4) == [pytest.approx(60 / 40), pytest.approx(13 / 10)]

    def test_trajectories_end_visits(self):
        assert self.visits([1] * 40, trajectories=np.repeat([0, 7], 20)) == [0.0, 2.0]

    def test_states_by_turns_in_one_block_have_more_support_than_one_stay_of_the_same_length(self):
        """What decides between them in data of one trajectory: by blocks both would rest on one."""
        once, often = np.zeros(1000, dtype=int), np.zeros(1000, dtype=int)
        once[420:480] = 1
        for start in range(400, 500, 20):
            often[start : start + 12] = 1
        parts = np.arange(1000) // 100
        expected = []
        for states in (once, often):
            counts = part_transitions(np.stack([states[:-1], states[1:]]), np.ones(999), parts[:-1], 2)
            n_independent = np.array(self.visits(states[:-1], apart=5))
            expected.append(support_of(counts, None, n_independent).expected - metastability_of(counts.sum(axis=0)))
        assert expected[1] > expected[0]


class TestLasting:
    def test_slow_noise_cut_in_two_is_forgotten_and_states_are_not(self):
        """At one lag time both are alike, twenty later they are not; without late counts nothing is said."""
        at_once = np.tile([[97.0, 3.0], [3.0, 97.0]], (10, 1, 1))
        states, noise = (
            np.tile([[75.0, 25.0], [25.0, 75.0]], (10, 1, 1)),
            np.tile([[55.0, 45.0], [45.0, 55.0]], (10, 1, 1)),
        )
        lasting, fleeting, unknown = support_of(at_once, states), support_of(at_once, noise), support_of(at_once)
        assert lasting.lasting == pytest.approx(1.5)
        assert lasts_longer(lasting, fleeting, 3.0)
        assert not lasts_longer(fleeting, lasting, 3.0)
        assert not lasts_longer(lasting, unknown, 3.0)
        assert not lasts_longer(unknown, fleeting, 3.0)

    def test_differences_within_their_error_do_not_count(self):
        rng = np.random.default_rng(0)
        found = 0
        for _ in range(200):
            one, other = rng.poisson([[70.0, 30.0], [30.0, 70.0]], size=(2, 10, 2, 2)).astype(float)
            found += lasts_longer(support_of(one, one), support_of(other, other), 3.0)
        assert found <= 4  # 200 draws at three errors of ten parts: one or two by chance


class TestWhatIsLeft:
    """Many lag times later: of the state that is forgotten first, and of states that fresh data may not see."""

    def test_the_least_memory_is_the_smallest_eigenvalue_of_the_reversible_chain(self):
        counts = np.random.default_rng(0).uniform(size=(4, 4)) + 3.0 * np.eye(4)
        chain = counts + counts.T
        eigenvalues = np.linalg.eigvals(chain / chain.sum(axis=1, keepdims=True)).real
        assert least_memory(counts) == pytest.approx(eigenvalues.min())

    def test_two_halves_are_one_state_whatever_their_sizes(self):
        halves = np.zeros((3, 3))
        halves[0, 0], halves[1:, 1:] = 50.0, np.outer([3.0, 7.0], [3.0, 7.0])
        assert least_memory(halves) == pytest.approx(0.0, abs=1e-12)
        assert least_memory(np.diag([50.0, 3.0, 7.0])) == pytest.approx(1.0)

    def test_a_state_without_transitions_is_forgotten(self):
        assert least_memory(np.diag([1.0, 0.0])) == 0.0

    def test_states_of_few_parts_may_be_missing_in_fresh_data(self):
        """Of twenty parts, two of which may hold one visit, one has the second state: exp(-10) and exp(-1)."""
        counts = TestExpectedMetastability.parts(20, [3])
        found = support_of(counts, counts)
        assert found.missing == pytest.approx(np.exp(-10.0) + np.exp(-1.0))
        assert np.isnan(support_of(counts).missing)
