"""Colours name states, and states of other methods find their name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from m3c_md.exceptions import InputError
from m3c_md.plots import STATE_COLORS, matched_order, state_color
from m3c_md.plots.colors import SERIES_COLORS, series_style


def test_state_and_series_colours_are_all_different():
    everything = STATE_COLORS + SERIES_COLORS
    assert len(set(everything)) == len(everything)
    assert len({series_style(k)["marker"] for k in range(8)}) == 8
    assert [state_color(k) for k in range(8)] == list(STATE_COLORS)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.permutations(range(4)), st.lists(st.integers(0, 3), max_size=40))
def test_a_permuted_labeling_is_matched_exactly(permutation, more):
    states = np.array([0, 1, 2, 3, *more])
    order = matched_order(states, np.array(permutation)[states], 4)
    np.testing.assert_array_equal(order[np.array(permutation)[states]], states)


def test_an_extra_state_gets_a_name_that_the_reference_does_not_use():
    reference = np.repeat([0, 1], [6, 4])
    states = np.repeat([2, 0, 1], [4, 2, 4])  # state 0 of the reference split in two
    assert matched_order(reference, states, 3).tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("states", "message"), [([0, 1], "shapes"), ([0, 1, 3], "run from 0 to 3"), ([-1, 0, 1], "run from -1")]
)
def test_labelings_that_do_not_fit_are_refused(states, message):
    with pytest.raises(InputError, match=message):
        matched_order([0, 1, 2], states, 3)
