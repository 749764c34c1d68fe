"""Which state comes from which: parents, shares, what is nested, and when."""

from __future__ import annotations

import numpy as np

from m3c_md.validation.state_tree import shared_frames, state_tree


def levels(*labels: list[int]) -> dict[int, np.ndarray]:
    """Overlaps of labelings of the same frames."""
    above, overlaps = np.zeros(len(labels[0]), dtype=int), {}
    for some in labels:
        states = np.array(some)
        overlaps[states.max() + 1] = shared_frames(above, states, above.max() + 1, states.max() + 1)
        above = states
    return overlaps


def test_a_split_has_the_time_of_the_new_process() -> None:
    tree = state_tree(levels([0, 0, 0, 1, 1], [1, 1, 2, 0, 0]), {2: 40.0, 3: 7.0}, "ns")
    assert tree["parent"].isna().tolist() == [True, True, False, False, False]
    assert tree["parent"].tolist()[2:] == [1, 0, 0]
    assert tree["share"].tolist() == [1.0] * 5
    assert tree["population"].tolist() == [0.6, 0.4, 0.4, 0.4, 0.2]
    np.testing.assert_array_equal(tree["timescale / ns"], [40.0, 40.0, np.nan, 7.0, 7.0])


def test_borders_that_were_drawn_anew_are_not_nested() -> None:
    # The third state takes four frames of the first and three of the second.
    before, after = [0] * 10 + [1] * 10, [0] * 6 + [2] * 7 + [1] * 7
    tree = state_tree(levels(before, after), {2: 40.0, 3: 7.0})
    assert tree["nested"].tolist() == [True, True, True, True, False]
    assert tree["parent"].tolist()[2:] == [0, 1, 0]
    assert tree["share"].tolist()[-1] == 4 / 7
    # Three frames would have another state than before.
    assert tree["merged back"].tolist()[2:] == [17 / 20] * 3
    assert tree["merged back"][:2].isna().all()


def test_a_small_shift_of_a_border_is_nested() -> None:
    before, after = [0] * 20 + [1] * 20, [0] * 10 + [2] * 11 + [1] * 19
    tree = state_tree(levels(before, after), {2: 40.0, 3: 7.0})
    assert tree["nested"].all()
    assert tree["share"].tolist()[-1] == 10 / 11


def test_numbers_that_were_left_out() -> None:
    tree = state_tree(levels([0, 0, 0, 0, 1, 1], [0, 0, 2, 3, 1, 1]), {2: 40.0, 4: 3.0})
    assert tree["parent"].tolist()[2:] == [0, 1, 0, 0]
    np.testing.assert_array_equal(tree["timescale / frame"][2:], [3.0, np.nan, 3.0, 3.0])


def test_a_state_without_frames() -> None:
    tree = state_tree({2: np.array([[5.0, 0.0]])}, {2: 1.0})
    assert tree["population"].tolist() == [1.0, 0.0]
    assert not tree["nested"][1]
