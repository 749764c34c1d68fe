"""Counts, transition matrices and metastability: done by hand, by deeptime, and under changes that must not matter."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from deeptime.markov import TransitionCountEstimator
from hypothesis import given, settings
from hypothesis import strategies as st

from m3c_md.exceptions import InputError, ShortTrajectoryWarning, UnvisitedStateWarning
from m3c_md.validation import metastability, transition_counts, transition_matrix
from tests.markov import THREE_STATES, markov_chain, stationary

few_examples = settings(deadline=None, max_examples=40, derandomize=True)
LABELS = st.lists(st.integers(0, 3), min_size=8, max_size=40)


class TestByHand:
    def test_counts_at_lag_one(self) -> None:
        # 0>0 0>1 1>1 1>2 2>0 0>0
        assert transition_counts([0, 0, 1, 1, 2, 0, 0]).tolist() == [[2, 1, 0], [0, 1, 1], [1, 0, 0]]

    def test_counts_at_lag_two_slide_by_one_frame(self) -> None:
        # 0.1 0.1 1.2 1.0 2.0
        assert transition_counts([0, 0, 1, 1, 2, 0, 0], lagtime=2).tolist() == [[0, 2, 0], [1, 0, 1], [1, 0, 0]]

    def test_no_pair_crosses_from_one_trajectory_to_the_next(self) -> None:
        assert transition_counts([[0, 0, 0], [1, 1, 1]]).tolist() == [[2, 0], [0, 2]]

    def test_states_never_seen_have_empty_rows(self) -> None:
        assert transition_counts([0, 2, 0], n_states=4).tolist() == [[0, 0, 1, 0], [0] * 4, [1, 0, 0, 0], [0] * 4]

    def test_rows_are_normalised_and_unknown_rows_are_nan(self) -> None:
        np.testing.assert_array_equal(
            transition_matrix([0, 0, 0, 1, 1, 0, 2]),
            [[2 / 4, 1 / 4, 1 / 4], [1 / 2, 1 / 2, 0], [np.nan] * 3],
        )

    def test_metastability_is_the_trace(self) -> None:
        # 0 stays in 2 of 3, 1 in 1 of 2, 2 in 1 of 2
        assert metastability([0, 0, 0, 1, 1, 2, 2, 0]) == pytest.approx(2 / 3 + 1 / 2 + 1 / 2, abs=1e-15)

    def test_a_periodic_sequence_never_stays(self) -> None:
        assert metastability([0, 1, 2] * 10) == 0.0
        assert metastability([0, 1, 2] * 10, lagtime=3) == 3.0

    def test_one_state_has_metastability_one(self) -> None:
        assert metastability([0, 0]) == 1.0


class TestAgainstOthers:
    @few_examples
    @given(labels=st.lists(LABELS, min_size=1, max_size=4), lagtime=st.integers(1, 7))
    def test_deeptime_counts_the_same(self, labels: list[list[int]], lagtime: int) -> None:
        dtrajs = [np.array(x) for x in labels]
        theirs = TransitionCountEstimator(lagtime, "sliding", n_states=4).fit_fetch(dtrajs).count_matrix
        np.testing.assert_array_equal(transition_counts(dtrajs, lagtime, 4), theirs)

    def test_a_long_chain_shows_its_transition_matrix(self) -> None:
        n = 50_000
        estimate = transition_matrix(markov_chain(THREE_STATES, n, 0))
        error = np.sqrt(THREE_STATES * (1.0 - THREE_STATES) / (n * stationary(THREE_STATES))[:, None])
        assert (np.abs(estimate - THREE_STATES) <= 4.0 * error).all()
        assert metastability(markov_chain(THREE_STATES, n, 1)) == pytest.approx(2.93, abs=4 * np.diag(error).sum())


class TestWhatMustNotMatter:
    @few_examples
    @given(labels=LABELS, lagtime=st.integers(1, 3), cut=st.integers(4, 100))
    def test_splitting_a_trajectory_loses_exactly_the_pairs_across(
        self, labels: list[int], lagtime: int, cut: int
    ) -> None:
        cut = min(cut, len(labels) - 4)
        across = np.zeros((4, 4))
        for t in range(cut - lagtime, cut):
            across[labels[t], labels[t + lagtime]] += 1
        split = transition_counts([labels[:cut], labels[cut:]], lagtime, 4)
        np.testing.assert_array_equal(transition_counts(labels, lagtime, 4) - split, across)

    @few_examples
    @given(labels=st.lists(LABELS, min_size=2, max_size=4), data=st.data())
    def test_order_of_trajectories_and_names_of_states(self, labels: list[list[int]], data: Any) -> None:
        names = np.array(data.draw(st.permutations(range(4))))
        counts = transition_counts(labels, 1, 4)
        np.testing.assert_array_equal(transition_counts(labels[::-1], 1, 4), counts)
        renamed = [names[x] for x in labels]
        np.testing.assert_array_equal(transition_counts(renamed, 1, 4)[np.ix_(names, names)], counts)
        if (counts.sum(axis=1) > 0).all():
            assert metastability(renamed, 1, 4) == pytest.approx(metastability(labels, 1, 4), abs=1e-14)

    @pytest.mark.parametrize("dtype", ["i1", "u1", "i4", ">i4", "i8", "u8"])
    def test_dtype_of_the_labels(self, dtype: str) -> None:
        labels = np.array([0, 1, 1, 0], dtype=dtype)
        before = labels.copy()
        assert transition_counts(labels).tolist() == [[0, 1], [1, 1]]
        np.testing.assert_array_equal(labels, before)

    def test_small_dtypes_do_not_overflow(self) -> None:
        labels = np.array([0, 100, 100, 0], dtype=np.int8)
        assert transition_counts(labels)[100, 100] == 1.0

    def test_read_only_labels(self) -> None:
        labels = np.array([0, 1, 1, 0])
        labels.flags.writeable = False
        assert metastability(labels) == 0.5


class TestMessages:
    def test_short_trajectories_are_left_out_and_counted(self) -> None:
        with pytest.warns(
            ShortTrajectoryWarning, match=r"2 of 3 trajectories \(the shortest has 1 frames\).*lag time 2"
        ):
            assert transition_counts([[0, 1, 0], [0, 1], [1]], 2).tolist() == [[1, 0], [0, 0]]

    def test_the_warning_points_at_the_caller(self) -> None:
        for function in (transition_counts, transition_matrix, metastability):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                function([[0, 1, 0, 0], [0]])
            assert [w.filename for w in caught] == [__file__]

    @pytest.mark.parametrize("function", [transition_counts, transition_matrix, metastability])
    def test_all_too_short(self, function: Any) -> None:
        with pytest.raises(InputError, match=r"lagtime=3 needs .* at least 4 frames, but the longest has 3; .*shorter"):
            function([[0, 1, 0], [0]], 3)

    def test_a_state_never_visited_is_named(self) -> None:
        with pytest.warns(UnvisitedStateWarning, match=r"Q is NaN.*never visited: states 2, 3\); give more or longer"):
            assert np.isnan(metastability([0, 1, 1, 0], n_states=4))

    def test_a_state_never_left_is_named(self) -> None:
        with pytest.warns(UnvisitedStateWarning, match=r"no frame follows 2 later: state 1\)"):
            assert np.isnan(metastability([0, 0, 0, 1, 1], lagtime=2))

    @pytest.mark.parametrize("lagtime", [0, -5, 1.0, "1", None, True])
    @pytest.mark.parametrize("function", [transition_counts, transition_matrix, metastability])
    def test_lag_times_that_are_none(self, function: Any, lagtime: Any) -> None:
        with pytest.raises(InputError, match="lagtime="):
            function([0, 1, 0], lagtime)
