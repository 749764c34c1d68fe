"""Checks of user input: what passes unharmed, what is refused and in which words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from deeptime.base import InputFormatError
from hypothesis import given, settings
from hypothesis import strategies as st

from m3c_md.exceptions import InputError
from m3c_md.inputs.settings import as_list, check_choice, check_integer, check_positive, check_string
from m3c_md.inputs.state_trajectories import as_state_trajectories
from m3c_md.inputs.trajectories import (
    as_time_lagged_pair,
    as_trajectory,
    is_list_of_arrays,
)

few_examples = settings(deadline=None, max_examples=30, derandomize=True)


def test_input_errors_are_what_deeptime_users_catch() -> None:
    assert issubclass(InputError, InputFormatError)
    assert issubclass(InputError, ValueError)


class TestAsTrajectory:
    def test_a_good_array_is_passed_on_without_a_copy(self) -> None:
        x = np.zeros((5, 2))
        assert as_trajectory(x) is x

    def test_a_series_of_numbers_becomes_one_column(self) -> None:
        assert as_trajectory(np.arange(4)).tolist() == [[0.0], [1.0], [2.0], [3.0]]

    @pytest.mark.parametrize("dtype", ["f2", "f4", ">f8", "i1", "u8", "?", "g"])
    def test_any_real_dtype_becomes_native_float64(self, dtype: str) -> None:
        x = as_trajectory(np.array([[0, 1], [1, 1]], dtype=dtype))
        assert x.dtype == np.float64
        assert x.dtype.isnative
        assert x.tolist() == [[0.0, 1.0], [1.0, 1.0]]

    def test_a_data_frame_is_its_values(self) -> None:
        table = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}, index=[10, 20])
        assert as_trajectory(table).tolist() == [[1.0, 0.5], [2.0, 1.5]]

    def test_a_sum_that_overflows_is_not_taken_for_a_bad_frame(self) -> None:
        assert as_trajectory(np.full((10, 1), 1e308)).shape == (10, 1)

    @few_examples
    @given(
        shape=st.tuples(st.integers(1, 20), st.integers(1, 4)),
        place=st.integers(0, 10_000),
        bad=st.sampled_from([np.nan, np.inf, -np.inf]),
    )
    def test_the_first_bad_frame_is_named(self, shape: tuple[int, int], place: int, bad: float) -> None:
        x = np.zeros(shape)
        x.flat[place % x.size] = bad
        frame, column = np.unravel_index(place % x.size, shape)
        with pytest.raises(InputError, match=rf"trajectory 3 holds {bad} at frame {frame}, column {column}; .*repair"):
            as_trajectory(x, "trajectory 3")

    def test_infinities_that_cancel_are_found(self) -> None:
        with pytest.raises(InputError, match="frame 0, column 0"):
            as_trajectory(np.array([[np.inf, -np.inf]]))


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (np.zeros((4, 2)), False),
        (np.zeros((3, 4, 2)), False),
        (pd.DataFrame({"a": [1.0]}), False),
        ([0.0, 1.0], False),
        ([np.float64(0.0), np.int32(1)], False),
        ([[0.0, 1.0], [2.0, 3.0]], False),
        (((0.0, 1.0), (2.0, 3.0)), False),
        ([], True),
        ([np.zeros(3)], True),
        ([np.zeros((3, 1)), np.zeros((2, 1))], True),
        ((np.zeros(3), np.zeros(3)), True),
        ([pd.DataFrame({"a": [1.0]})], True),
        ([[[0.0], [1.0]], [[2.0]]], True),
    ],
)
def test_is_list_of_arrays(data: Any, answer: bool) -> None:
    assert is_list_of_arrays(data) is answer


class TestStateTrajectories:
    def test_good_arrays_are_passed_on_without_a_copy(self) -> None:
        x, y = np.array([0, 1], dtype=np.intp), np.array([2], dtype=np.intp)
        first, second = as_state_trajectories([x, y])
        assert first is x
        assert second is y

    @pytest.mark.parametrize(
        "dtrajs",
        [
            np.array([0, 2, 1]),
            [0, 2, 1],
            (np.int32(0), 2, 1),
            [[0, 2, 1]],
            [np.array([0, 2, 1], dtype="u1")],
            (np.array([0, 2, 1], dtype=">i8"),),
            pd.Series([0, 2, 1], index=[7, 8, 9]),
            [pd.DataFrame({"state": [0, 2, 1]})["state"]],
        ],
    )
    def test_kinds_of_one_trajectory(self, dtrajs: Any) -> None:
        (states,) = as_state_trajectories(dtrajs, 3)
        assert states.dtype == np.intp
        assert states.tolist() == [0, 2, 1]

    def test_nested_lists_are_several_trajectories(self) -> None:
        assert [x.tolist() for x in as_state_trajectories([[0, 1], [1, 0]])] == [[0, 1], [1, 0]]
        assert [x.tolist() for x in as_state_trajectories([[0, 1], np.array([1])])] == [[0, 1], [1]]

    @pytest.mark.parametrize(
        ("dtrajs", "message"),
        [
            (None, "dtrajs is None; give an array of states"),
            ("0110", "dtrajs is '0110'; give an array"),
            ({"a": [0]}, "give an array of states"),
            ([], "dtrajs is an empty list"),
            ((), "dtrajs is an empty list"),
            (np.array([], dtype=int), "dtrajs has no frames"),
            ([[0, 1], []], "trajectory 1 has no frames; leave it out"),
            (np.zeros((3, 4), dtype=int), r"dtrajs has shape \(3, 4\).*several trajectories as a list"),
            ([np.zeros((3, 1), dtype=int)], r"trajectory 0 has shape \(3, 1\).*\.ravel\(\)"),
            (np.int64(3), r"dtrajs has shape \(\)"),
            ([[0, 1], 1], r"trajectory 1 has shape \(\)"),
            (np.array([0.0, 1.0]), r"dtrajs has dtype float64, .*convert it with \.astype\(int\)"),
            ([[0, 1], [0, 0.5]], "trajectory 1 holds 0.5 at frame 1, which is no state"),
            ([0.0, np.nan, 1.0], "dtrajs holds nan at frame 1, which is no state.*split"),
            (np.array([1.0, np.inf]), "holds inf at frame 1"),
            (np.array([True, False]), r"dtrajs has dtype bool; if states 0 and 1 are meant"),
            ([["a", "b"]], r"trajectory 0 has dtype <U1, but states are whole numbers"),
            (["a", "b"], "dtrajs has dtype <U1"),
            ([[0, None]], "trajectory 0 has dtype object"),
            ([[0, 1], [[0], [1, 2]]], "trajectory 1 cannot be read as an array"),
            ([[0, 1], [1, 0, -1, -1]], "trajectory 1 holds -1 at frame 2, .*numbered from 0; split"),
            ([0, 1, 5000], "dtrajs holds state 5000 at frame 2; number the states from 0.* or give n_states"),
            (np.array([0, 2**64 - 1], dtype=np.uint64), "holds state 18446744073709551615 at frame 1; number"),
            (np.ma.masked_equal([0, 1, 9], 9), "dtrajs is a masked array"),
        ],
    )
    def test_what_is_refused(self, dtrajs: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            as_state_trajectories(dtrajs)

    def test_states_beyond_those_announced(self) -> None:
        with pytest.raises(
            InputError, match="trajectory 1 holds state 3 at frame 1, but n_states=3 allows 0 to 2 only"
        ):
            as_state_trajectories([[0, 1], [1, 3]], 3)
        assert as_state_trajectories([0, 5000], 5001)[0].tolist() == [0, 5000]

    @pytest.mark.parametrize("n_states", [0, -1, 2.0, "2", True])
    def test_number_of_states_that_is_none(self, n_states: Any) -> None:
        with pytest.raises(InputError, match="n_states="):
            as_state_trajectories([0, 1], n_states)


class TestTimeLaggedPair:
    def test_a_pair_of_equal_shape_passes(self) -> None:
        x, y = as_time_lagged_pair((np.arange(3), [4, 5, 6]))
        assert x.shape == y.shape == (3, 1)

    def test_the_bad_half_is_named(self) -> None:
        with pytest.raises(InputError, match=r"Y of the pair \(X, Y\) holds nan at frame 1"):
            as_time_lagged_pair((np.zeros(2), [0.0, np.nan]))


class TestParameters:
    @pytest.mark.parametrize("value", [2, np.int64(2), np.uint8(2)])
    def test_whole_numbers(self, value: Any) -> None:
        assert check_integer("n", value, 2) == 2
        assert type(check_integer("n", value, 2)) is int

    @pytest.mark.parametrize("value", [1, -3, 2.0, 2.5, "2", None, True, np.True_, np.nan, [2], 2j])
    def test_not_whole_or_too_small(self, value: Any) -> None:
        with pytest.raises(InputError, match=r"^n=.* must be a whole number of at least 2$"):
            check_integer("n", value, 2)

    @pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5), np.int64(3)])
    def test_positive_numbers(self, value: Any) -> None:
        assert check_positive("x", value) == value
        assert type(check_positive("x", value)) is float

    @pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, "1", None, True, [1.0], 1j])
    def test_not_positive(self, value: Any) -> None:
        with pytest.raises(InputError, match=r"^x=.* must be a positive finite number$"):
            check_positive("x", value)

    def test_known_choice(self) -> None:
        check_choice("colour", "red", ("red", "green"))

    @pytest.mark.parametrize("value", ["Red", "", None, 1, ["red"]])
    def test_unknown_choice_lists_the_known_ones(self, value: Any) -> None:
        with pytest.raises(InputError, match=r"^colour=.* is not known; choose one of 'red', 'green'$"):
            check_choice("colour", value, ("red", "green"))

    def test_strings(self) -> None:
        assert check_string("unit", "ps") == "ps"
        for value in ("", None, 1, b"ps"):
            with pytest.raises(InputError, match=r"^unit=.* must be a non-empty string$"):
                check_string("unit", value)

    def test_several_values_or_one(self) -> None:
        assert as_list("n", (i for i in (2, 3))) == [2, 3]
        assert as_list("n", None) == [None]
        with pytest.raises(InputError, match="n='23' must be a number or several"):
            as_list("n", "23")
