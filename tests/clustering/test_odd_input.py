"""Short trajectories, which are left out with a warning, and odd data that must work all the same.

What is refused stands in tests/trust.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from m3c_md.exceptions import ShortTrajectoryWarning
from m3c_md.inputs.trajectories import is_list_of_arrays
from m3c_md.matching import agreement
from tests.conftest import hidden_markov_wells, other_warnings, quick

X, STATES = hidden_markov_wells(300, 3, seed=1)


class TestShortTrajectories:
    def test_they_are_counted_and_left_out(self) -> None:
        with pytest.warns(ShortTrajectoryWarning, match=r"2 of 3 .*lagtime=3.*shorter lag time") as record:
            model = quick(3, lagtime=3).fit_fetch([X[:3], X, X[:1]])
        assert other_warnings(model) == [str(record[0].message)]
        alone = quick(3, lagtime=3).fit_fetch(X)
        assert np.array_equal(model.transform(X), alone.transform(X))
        assert [len(labels) for labels in model.transform([X[:3], X, X[:1]])] == [3, 300, 1]

    def test_the_warning_points_at_the_caller_of_fit(self) -> None:
        with pytest.warns(ShortTrajectoryWarning) as record:
            quick(3, lagtime=3).fit([X, X[:2]])
        assert record[0].filename == __file__

    def test_their_start_labels_are_left_out_too(self) -> None:
        with pytest.warns(ShortTrajectoryWarning):
            model = quick(3, lagtime=3, starts=[[STATES[:2], STATES]]).fit_fetch([X[:2], X])
        assert agreement(model.transform(X), STATES) > 0.98

    def test_a_trajectory_of_one_window_is_long_enough(self) -> None:
        assert quick(3, lagtime=3).fit_fetch([X, X[:4]]).n_states == 3


def from_bytes_swapped(x: np.ndarray) -> np.ndarray:
    return x.astype(x.dtype.newbyteorder())


# What must work: each turns good frames into odd ones of the same meaning.
ODD_BUT_FINE: dict[str, Callable[[np.ndarray], Any]] = {
    "float32": lambda x: x.astype(np.float32),
    "float16": lambda x: x.astype(np.float16),
    "long double": lambda x: x.astype(np.longdouble),
    "big-endian or little-endian": from_bytes_swapped,
    "integers": lambda x: np.round(100 * x).astype(int),
    "small integers": lambda x: np.round(20 * x).astype(np.int8),
    "Fortran order": np.asfortranarray,
    "every other column of a wider array": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "negative strides": lambda x: x[::-1].copy()[::-1],
    "lists of lists": lambda x: x.tolist(),
    "tuple of tuples": lambda x: [tuple(row) for row in x.tolist()],
    "list of lists of lists": lambda x: [x[:150].tolist(), x[150:].tolist()],
    "data frame": pd.DataFrame,
    "every frame twice": lambda x: np.repeat(x, 2, axis=0),
    "frames rounded onto a grid": lambda x: x.round(1),
    "a constant column": lambda x: np.column_stack([x, np.full(len(x), 0.1)]),
    "a constant column of large numbers": lambda x: np.column_stack([x, np.full(len(x), 1e6 + 0.1)]),
    "the same column twice": lambda x: np.column_stack([x, x[:, 0]]),
    "far from the origin": lambda x: x + 1e6,
    "many trajectories of different length": lambda x: np.split(x, [2, 5, 17, 100, 180]),
}


class TestOddButFine:
    @pytest.mark.parametrize(
        ("name", "scale"),
        [
            *[(name, "none") for name in ODD_BUT_FINE],
            *[(name, "standard") for name in ODD_BUT_FINE if "column" in name or "far" in name or "int" in name],
        ],
    )
    def test_states_are_found_all_the_same(self, name: str, scale: str) -> None:
        odd = ODD_BUT_FINE[name](X)
        # The automatic bandwidth follows the units of the data; one factor of it is enough here.
        spread = np.sqrt(np.var(np.asarray(as_one_array(odd), dtype=float), axis=0).sum())
        width = spread if scale == "none" else 1.0
        model = quick(3, scale=scale, bandwidth=float(width)).fit_fetch(odd)
        labels = as_one_array(model.transform(odd))
        truth = np.repeat(STATES, 2) if name == "every frame twice" else STATES
        assert agreement(labels, truth) > 0.98

    def test_one_column_is_enough(self) -> None:
        x, states = hidden_markov_wells(300, 2)
        assert agreement(quick(2).fit_predict(x[:, :1]), states) > 0.98

    def test_two_distinct_frames_are_two_states(self) -> None:
        side = np.tile(np.repeat([0.0, 1.0], 30), 5)
        assert agreement(quick(2).fit_predict(side), side.astype(int)) == 1.0

    @pytest.mark.parametrize("n_states", [2, 3, 4])
    def test_numbers_of_states(self, n_states: int) -> None:
        x, states = hidden_markov_wells(500, n_states, seed=3)
        labels = quick(n_states).fit_predict(x)
        assert set(labels) == set(range(n_states))
        assert agreement(labels, states) > 0.98


def as_one_array(data: Any) -> np.ndarray:
    """Join trajectories that came as a list."""
    return np.concatenate(data) if is_list_of_arrays(data) else np.asarray(data)
