"""Bad input: one table of what is refused and in which words, one of odd data that must work all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mdtraj
import numpy as np
import pandas as pd
import pytest
from deeptime.base import InputFormatError

from m3c_md import M3CModel
from m3c_md.exceptions import DegenerateSolutionError, InputError, ShortTrajectoryWarning
from m3c_md.inputs import is_list_of_arrays
from m3c_md.matching import agreement
from tests.conftest import Wells, hidden_markov_wells, quick

X, STATES = hidden_markov_wells(300, 3, seed=1)


def spoilt(value: float, frame: int = 7, column: int = 1) -> np.ndarray:
    x = X.copy()
    x[frame, column] = value
    return x


def md_trajectory() -> mdtraj.Trajectory:
    topology = mdtraj.Topology()
    topology.add_atom("CA", mdtraj.element.carbon, topology.add_residue("ALA", topology.add_chain()))
    return mdtraj.Trajectory(np.zeros((5, 1, 3)), topology)


# name -> (data, what the message says: the value and the remedy)
BAD_DATA: dict[str, tuple[Any, str]] = {
    "nan": (spoilt(np.nan), r"data holds nan at frame 7, column 1; remove or repair"),
    "inf": (spoilt(np.inf), r"data holds inf at frame 7, column 1; remove or repair"),
    "minus inf": (spoilt(-np.inf, 0, 0), r"data holds -inf at frame 0, column 0; remove or repair"),
    "nan in a list": ([X, spoilt(np.nan, 299, 0)], r"trajectory 1 holds nan at frame 299, column 0; remove or repair"),
    "nan in a pair": ((X, spoilt(np.nan)), r"Y of the pair \(X, Y\) holds nan at frame 7, column 1"),
    "missing value": (pd.DataFrame({"a": pd.array([1.0, None])}), r"data holds nan at frame 1, column 0"),
    "empty list": ([], r"empty list; give at least one trajectory"),
    "empty tuple": ((), r"empty list; give at least one trajectory"),
    "no frames": (np.empty((0, 2)), r"data has shape \(0, 2\)"),
    "no columns": (np.empty((5, 0)), r"data has shape \(5, 0\)"),
    "one without frames": ([X, np.empty((0, 2))], r"trajectory 1 has shape \(0, 2\).*leave it out"),
    "columns differ": ([X, X[:, :1]], r"trajectory 1 has 1 columns, but trajectory 0 has 2; featurise .* alike"),
    "constant": (np.ones((50, 2)), r"all 50 frames are equal.*check how the features were made"),
    "constant up to the rounding of its mean": (np.full((50, 2), 0.1), r"all 50 frames are equal"),
    "None": (None, r"data is None; give an array"),
    "None in a list": ([None, X], r"trajectory 0 has dtype object.*convert"),
    "string": ("trajectory.xtc", r"data is 'trajectory.xtc'; give an array"),
    "bytes": (b"abc", r"data is b'abc'; give an array"),
    "strings": (["a", "b"], r"dtype <U1.*convert"),
    "numbers as text": (np.array([["1", "2"]]), r"dtype <U1.*convert"),
    "objects": (np.array([[1, None], [2, 3]], dtype=object), r"dtype object.*convert"),
    "table of text": (pd.DataFrame({"a": ["x", "y"]}), r"dtype (object|str).*convert"),
    "complex": (X + 1j, r"dtype complex128.*convert"),
    "dates": (np.array(["2020-01-01"], dtype="M8[D]"), r"dtype datetime64.*convert"),
    "three axes": (np.zeros((3, 4, 5)), r"shape \(3, 4, 5\); reshape it to \(n_frames, n_columns\)"),
    "three axes in a list": ([X, np.zeros((3, 4, 5))], r"trajectory 1 has shape \(3, 4, 5\); reshape"),
    "a number": (3.0, r"shape \(\); reshape"),
    "ragged": ([[1.0, 2.0], [3.0]], r"cannot be read as an array .*give a \(n_frames, n_columns\) array"),
    "dict": ({"phi": X}, r"data is \{'phi'.*give an array"),
    "generator": ((x for x in X), r"dtype object.*convert"),
    "mdtraj": (md_trajectory(), r"data is a Trajectory of mdtraj; turn it into features first.*compute_phi"),
    "mdtraj in a list": ([md_trajectory()], r"trajectory 0 is a Trajectory of mdtraj; turn it into features"),
    "mdtraj in a tuple": ((md_trajectory(), md_trajectory()), r"X of the pair .* is a Trajectory of mdtraj"),
    "unequal pair": ((X, X[:-1]), r"pairs \(X, Y\), but X has shape \(300, 2\) and Y \(299, 2\); .*list"),
    "unequal columns": ((X, X[:, :1]), r"X has shape \(300, 2\) and Y \(300, 1\)"),
    "one frame": (X[:1], r"lagtime=1 needs trajectories of at least 2 frames, but the longest has 1"),
    "too few windows": (X[:3], r"2 windows cannot populate 3 states; supply more data or ask for fewer"),
}

WHOLE = r"must be a whole number of at least "
POSITIVE = r"must be a positive finite number"
TWO_NUMBERS = r"must be two numbers, e\.g\. "
NOT_STATES = r"must be integer states, one 1-d array per trajectory"
# (argument, value, what the message says)
BAD_ARGUMENTS: list[tuple[str, Any, str]] = [
    *[("n_states", value, rf"n_states={value!r} {WHOLE}2") for value in (1, 0, -3, 2.5, "3", True, None, np.nan)],
    ("n_states", 301, r"299 windows cannot populate 301 states; .*fewer states"),
    ("n_states", 150, r"1/n_states = 0\.00666667.*lower the first"),
    *[("lagtime", value, rf"lagtime={value!r} {WHOLE}1") for value in (0, -5, 1.5, "1", None, True)],
    ("lagtime", 300, r"lagtime=300 needs trajectories of at least 301 frames, but the longest has 300; .*shorter"),
    ("balance", (0.5, 0.6), r"balance=\(0\.5, 0\.6\) .*1/n_states = 0\.333333.*lower the first or raise the second"),
    ("balance", (0.4, 0.99), r"balance=\(0\.4, 0\.99\) .*1/n_states = 0\.333333.*lower the first"),
    ("balance", (0.01, 0.3), r"balance=\(0\.01, 0\.3\) .*raise the second"),
    ("balance", (-0.1, 0.9), r"balance=\(-0\.1, 0\.9\) .*0 <= lower"),
    ("balance", (0.1, 1.5), r"balance=\(0\.1, 1\.5\) .*upper <= 1"),
    ("balance", (np.nan, 0.9), r"balance=\(nan, 0\.9\)"),
    ("balance", (0.1,), rf"balance=\(0\.1,\) {TWO_NUMBERS}"),
    ("balance", (0.1, 0.2, 0.3), rf"balance=\(0\.1, 0\.2, 0\.3\) {TWO_NUMBERS}"),
    ("balance", "x", rf"balance='x' {TWO_NUMBERS}"),
    ("balance", None, rf"balance=None {TWO_NUMBERS}"),
    ("balance", 0.1, rf"balance=0\.1 {TWO_NUMBERS}"),
    ("starts", "kinetics", r"starts='kinetics' is not known; choose one of 'kinetic', .*'kmeans'"),
    ("starts", ("kinetic", "k-means"), r"starts='k-means' is not known; choose one of 'kinetic', .*'kmeans'"),
    ("starts", (), r"starts=\(\) must name at least one of kinetic, .*kmeans"),
    ("starts", [STATES[:-1]], r"299 states for 300 frames; give every frame a state"),
    ("starts", [[STATES, STATES]], r"600 states for 300 frames"),
    ("starts", [STATES.astype(float)], NOT_STATES),
    ("starts", [STATES > 0], NOT_STATES),
    ("starts", [STATES[:, None]], NOT_STATES),
    ("starts", [None], NOT_STATES),
    ("starts", STATES, r"starts=array.* must name at least one of kinetic"),
    ("starts", [np.minimum(STATES, 1)], r"the states \[0, 1\], but n_states=3 needs all of 0 to 2"),
    ("starts", [STATES + 1], r"the states \[1, 2, 3\], but n_states=3 needs all of 0 to 2"),
    ("starts", [STATES - 1], r"the states \[-1, 0, 1\]"),
    ("selection", "best", r"selection='best' is not known; choose one of .*'class-averaged'"),
    ("features", "sines", r"features='sines' is not known; choose one of .*'fourier'"),
    ("scale", None, r"scale=None is not known; choose one of 'none', 'standard'"),
    ("scale", "minmax", r"scale='minmax' is not known; choose one of 'none', 'standard'"),
    ("bandwidth", "big", r"bandwidth='big' is not known; choose one of 'auto'"),
    ("bandwidth", [], r"bandwidth is empty; give 'auto'"),
    *[("bandwidth", value, rf"bandwidth={value!r} {POSITIVE}") for value in (0, -1, np.nan, np.inf, None, True)],
    ("bandwidth", (1.0, 0.0), rf"bandwidth=0\.0 {POSITIVE}"),
    *[
        ("regularization", value, rf"regularization={value!r} must be a number from")
        for value in (0, -1, 1e-300, np.nan, "a", None)
    ],
    *[("n_features", value, rf"n_features={value!r} {WHOLE}1") for value in (0, -1, 1.5, None)],
    *[("max_iterations", value, rf"max_iterations={value!r} {WHOLE}1") for value in (0, 2.5, None)],
    *[("tolerance", value, rf"tolerance={value!r} {WHOLE}0") for value in (-1, 0.5)],
    *[("n_coarse", value, rf"n_coarse={value!r} {WHOLE}3") for value in (2, 0, 2.5, None)],
]


class TestRefused:
    @pytest.mark.parametrize("name", BAD_DATA)
    def test_data(self, name: str) -> None:
        data, message = BAD_DATA[name]
        with pytest.raises(InputError, match=f"(?s){message}") as caught:
            quick(3).fit(data)
        assert isinstance(caught.value, InputFormatError)
        assert isinstance(caught.value, ValueError)

    @pytest.mark.parametrize(("name", "value", "message"), BAD_ARGUMENTS)
    def test_argument(self, name: str, value: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            quick(**{"n_states": 3, name: value}).fit(X)

    @pytest.mark.parametrize(
        ("argument", "value"),
        [("n_states", 1), ("bandwidth", "big"), ("starts", ("nope",)), ("balance", (0.9, 0.95)), ("n_features", 0)],
    )
    def test_an_earlier_model_survives(self, argument: str, value: Any, two_wells: Wells) -> None:
        estimator = quick(2).fit(two_wells.frames)
        model, labels = estimator.model, estimator.transform(two_wells.frames)
        with pytest.raises(InputError):
            estimator.set_params(**{argument: value}).fit(two_wells.frames)
        with pytest.raises(InputError):
            estimator.fit(spoilt(np.nan))
        assert estimator.model is model
        assert np.array_equal(estimator.transform(two_wells.frames), labels)

    def test_a_search_without_an_honest_answer_says_what_to_do(self) -> None:
        # One well cannot be split by a rule this smooth: better no states than empty ones.
        cloud = np.random.default_rng(0).normal(size=(300, 2))
        with pytest.raises(DegenerateSolutionError, match=r"state \d of 3, .*fewer states.*bandwidths.*balance"):
            quick(3, bandwidth=1000.0).fit(cloud)


class TestKnownGaps:
    """Input that is not refused as it should be; each of these is a defect that was reported."""

    @pytest.mark.parametrize(
        ("name", "value"),
        [("starts", None), ("starts", 5), ("random_state", "a"), ("random_state", -1), ("n_jobs", 0), ("n_jobs", "a")],
    )
    def test_argument(self, name: str, value: Any) -> None:
        with pytest.raises(InputError, match=name):
            quick(3, **{name: value}).fit(X)

    def test_masked_values(self) -> None:
        with pytest.raises(InputError, match="mask"):
            quick(3).fit(np.ma.masked_greater(X, 1.0))

    def test_numbers_whose_squares_overflow(self) -> None:
        with pytest.raises(InputError, match=r"span up to .*e\+200.* unit"):
            quick(3).fit(1e200 * X)

    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.OverlappingStatesWarning")
    def test_one_jump_and_a_lag_time_that_always_spans_it(self) -> None:
        x = np.repeat([-1.0, 1.0], 50) + 0.1 * np.random.default_rng(0).normal(size=100)
        try:
            model = quick(2, lagtime=50).fit_fetch(x)
        except DegenerateSolutionError:  # every window crosses, so there may be nothing metastable to return
            return
        assert 0.0 < model.effective_sample <= 1.0 + 1e-12


BAD_FRAMES: dict[str, tuple[Any, str]] = {
    "one column": (X[:, :1], r"trajectory 0 has 1 columns, but the model was fitted to 2; featurise"),
    "three columns": (np.zeros((4, 3)), r"has 3 columns, but the model was fitted to 2; featurise"),
    "one of several": ([X, X[:, :1]], r"trajectory 1 has 1 columns, but the model was fitted to 2"),
    "series": (np.zeros(5), r"has 1 columns, but the model was fitted to 2"),
    "nan": (spoilt(np.nan), r"data holds nan at frame 7, column 1; remove or repair"),
    "nan in a list": ([X, spoilt(np.nan)], r"trajectory 1 holds nan at frame 7, column 1"),
    "empty list": ([], r"empty list"),
    "empty array": (np.empty((0, 2)), r"shape \(0, 2\)"),
    "None": (None, r"data is None"),
    "mdtraj": (md_trajectory(), r"Trajectory of mdtraj; turn it into features"),
}


class TestRefusedByTheModel:
    @pytest.mark.parametrize("method", ["transform", "decision_function", "margin", "memberships"])
    @pytest.mark.parametrize("name", BAD_FRAMES)
    def test_frames(self, name: str, method: str, three_state_model: M3CModel) -> None:
        data, message = BAD_FRAMES[name]
        with pytest.raises(InputError, match=message):
            getattr(three_state_model, method)(data)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"n": 0}, rf"n=0 {WHOLE}1"),
            ({"n": 1.5}, rf"n=1\.5 {WHOLE}1"),
            ({"n": 2, "by": "depth"}, r"by='depth' is not known; choose one of 'margin', 'random'"),
        ],
    )
    def test_sample(self, arguments: dict[str, Any], message: str, three_state_model: M3CModel) -> None:
        with pytest.raises(InputError, match=message):
            three_state_model.sample(X, **arguments)

    @pytest.mark.parametrize("number", [-1, 1, 0.5, None])
    def test_alternative(self, number: Any, three_state_model: M3CModel) -> None:
        with pytest.raises(InputError, match=f"number={number}"):
            three_state_model.alternative(number)


class TestShortTrajectories:
    def test_they_are_counted_and_left_out(self) -> None:
        with pytest.warns(ShortTrajectoryWarning, match=r"2 of 3 .*lagtime=3.*shorter lag time") as record:
            model = quick(3, lagtime=3).fit_fetch([X[:3], X, X[:1]])
        assert len(record) == 1
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
        side = np.tile(np.repeat([0, 1], 30), 5)
        assert agreement(quick(2).fit_predict(side), side) == 1.0

    @pytest.mark.parametrize("n_states", [2, 3, 4])
    def test_numbers_of_states(self, n_states: int) -> None:
        x, states = hidden_markov_wells(500, n_states, seed=3)
        labels = quick(n_states).fit_predict(x)
        assert set(labels) == set(range(n_states))
        assert agreement(labels, states) > 0.98


def as_one_array(data: Any) -> np.ndarray:
    """Join trajectories that came as a list."""
    return np.concatenate(data) if is_list_of_arrays(data) else np.asarray(data)
