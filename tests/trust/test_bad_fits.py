"""Tables of what no estimator and no model takes: data and arguments, each with the error and its words.

A row is refused by a fitted estimator, which keeps its model.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mdtraj
import numpy as np
import pandas as pd
import pytest
from deeptime.base import InputFormatError
from scipy import sparse
from sklearn.exceptions import NotFittedError

from m3c_md import M3C, MMC, KMedoids, PCCAPlus
from m3c_md.clustering.state_estimator import StateEstimator
from m3c_md.exceptions import DegenerateSolutionError, InputError
from tests.conftest import hidden_markov_wells, quick
from tests.trust import refused

X, STATES = hidden_markov_wells(300, 3, seed=1)
FITTED: dict[str, StateEstimator] = {
    "M3C": quick(3),
    "MMC": MMC(3, bandwidth=1.0, starts=("kmeans",), random_state=0),
    "KMedoids": KMedoids(3, n_restarts=2, random_state=0),
    "PCCAPlus": PCCAPlus(3, n_microstates=12, n_restarts=1, random_state=0),
}
WITH_LAG = ("M3C", "PCCAPlus")
MARGIN = ("M3C", "MMC")
CENTERS = ("KMedoids", "PCCAPlus")


@pytest.fixture(scope="module")
def fitted() -> dict[str, StateEstimator]:
    return {name: estimator.fit(X) for name, estimator in FITTED.items()}


def spoilt(value: float, frame: int = 7, column: int = 1) -> np.ndarray:
    x = X.copy()
    x[frame, column] = value
    return x


def md_trajectory() -> mdtraj.Trajectory:
    topology = mdtraj.Topology()
    topology.add_atom("CA", mdtraj.element.carbon, topology.add_residue("ALA", topology.add_chain()))
    return mdtraj.Trajectory(np.zeros((5, 1, 3)), topology)


def cyclic() -> list[Any]:
    x: list[Any] = []
    x.append(x)
    return x


class WithoutLength:
    """Looks like an array that can be sliced, and cannot be counted."""

    shape, dtype = (5, 2), np.dtype(float)

    def __getitem__(self, key: Any) -> Any:
        return np.zeros((5, 2))[key]


# name -> (data, what the message says: the value and the remedy); made anew for each test, as generators serve once
BAD_DATA: dict[str, tuple[Callable[[], Any], str]] = {
    "nan": (lambda: spoilt(np.nan), r"data holds nan at frame 7, column 1; remove or repair"),
    "inf": (lambda: spoilt(np.inf), r"data holds inf at frame 7, column 1; remove or repair"),
    "minus inf": (lambda: spoilt(-np.inf, 0, 0), r"data holds -inf at frame 0, column 0; remove or repair"),
    "nan in a list": (lambda: [X, spoilt(np.nan, 299, 0)], r"trajectory 1 holds nan at frame 299, column 0; remove"),
    "nan in a pair": (lambda: (X, spoilt(np.nan)), r"Y of the pair \(X, Y\) holds nan at frame 7, column 1"),
    "missing value": (lambda: pd.DataFrame({"a": pd.array([1.0, None])}), r"data holds nan at frame 1, column 0"),
    "empty list": (list, r"empty list; give at least one trajectory"),
    "empty tuple": (tuple, r"empty list; give at least one trajectory"),
    "list of empty lists": (lambda: [[], []], r"data has shape \(2, 0\).*give frames or leave it out"),
    "no frames": (lambda: np.empty((0, 2)), r"data has shape \(0, 2\)"),
    "no columns": (lambda: np.empty((5, 0)), r"data has shape \(5, 0\)"),
    "one without frames": (lambda: [X, np.empty((0, 2))], r"trajectory 1 has shape \(0, 2\).*leave it out"),
    "columns differ": (lambda: [X, X[:, :1]], r"trajectory 1 has 1 columns, but trajectory 0 has 2; featurise"),
    "constant": (lambda: np.ones((50, 2)), r"all 50 frames are equal.*check how the features were made"),
    "constant up to rounding": (lambda: np.full((50, 2), 0.1), r"all 50 frames are equal"),
    "None": (lambda: None, r"data is None; give an array"),
    "None in a list": (lambda: [None, X], r"trajectory 0 has dtype object.*convert"),
    "string": (lambda: "trajectory.xtc", r"data is 'trajectory.xtc'; give an array"),
    "bytes": (lambda: b"abc", r"data is b'abc'; give an array"),
    "bytearray": (lambda: bytearray(range(60)), r"data is a bytearray; give an array"),
    "memoryview": (lambda: memoryview(bytes(60)), r"data is a memoryview; give an array"),
    "path": (lambda: Path("run.xtc"), r"data is the path 'run\.xtc'; read it first"),
    "strings": (lambda: ["a", "b"], r"dtype <U1.*convert"),
    "numbers as text": (lambda: np.array([["1", "2"]]), r"dtype <U1.*convert"),
    "objects": (lambda: np.array([[1, None], [2, 3]], dtype=object), r"dtype object.*convert"),
    "array of arrays": (lambda: np.array([X, X[:9]], dtype=object), r"array of arrays; convert it by list\(\.\.\.\)"),
    "integers beyond all types": (lambda: [[10**400, 1], [2, 3]], r"dtype object.*convert"),
    "table of text": (lambda: pd.DataFrame({"a": ["x", "y"]}), r"dtype (object|str).*convert"),
    "structured": (lambda: np.zeros(5, dtype=[("a", float), ("b", float)]), r"dtype \[\('a'.*convert"),
    "complex": (lambda: X + 1j, r"dtype complex128.*convert"),
    "dates": (lambda: np.array(["2020-01-01"], dtype="M8[D]"), r"dtype datetime64.*convert"),
    "sparse": (lambda: sparse.csr_array(X), r"data is sparse \(csr_array\); give its method toarray\(\)"),
    "masked": (lambda: np.ma.masked_greater(X, 1.0), r"data is a masked array.*drop or fill"),
    "without a length": (WithoutLength, r"dtype object.*convert"),
    "three axes": (lambda: np.zeros((3, 4, 5)), r"shape \(3, 4, 5\); reshape it .*give list\(\.\.\.\) of it.*pipeline"),
    "three axes in a list": (lambda: [X, np.zeros((3, 4, 5))], r"trajectory 1 has shape \(3, 4, 5\); reshape"),
    "four axes": (lambda: np.zeros((2, 3, 4, 5)), r"shape \(2, 3, 4, 5\); reshape it to \(n_frames, n_columns\)"),
    "a number": (lambda: 3.0, r"shape \(\); reshape"),
    "ragged": (lambda: [[1.0, 2.0], [3.0]], r"cannot be read as an array .*give a \(n_frames, n_columns\) array"),
    "ragged in a list": (lambda: [[[1.0, 2.0], [3.0]]], r"trajectory 0 cannot be read as an array"),
    "a list that holds itself": (cyclic, r"trajectory 0 (cannot be read as an array|has dtype object|has shape)"),
    "dict": (lambda: {"phi": X}, r"data is \{'phi'.*give an array"),
    "values of a dict": (lambda: {"phi": X}.values(), r"data is a dict_values.*convert it by list"),
    "set": (lambda: {1.0, 2.0}, r"data is a set.*convert it by list"),
    "generator": (lambda: (x for x in X), r"data is a generator .*dtype object.*convert it by list"),
    "mdtraj": (md_trajectory, r"data is a Trajectory of mdtraj; turn it into features first: .*DihedralFeaturizer"),
    "mdtraj in a list": (lambda: [md_trajectory()], r"trajectory 0 is a Trajectory of mdtraj; turn it into features"),
    "mdtraj in a tuple": (lambda: (md_trajectory(), md_trajectory()), r"X of the pair .* is a Trajectory of mdtraj"),
    "unequal pair": (lambda: (X, X[:-1]), r"pairs \(X, Y\), but X has shape \(300, 2\) and Y \(299, 2\); .*list"),
    "unequal columns": (lambda: (X, X[:, :1]), r"X has shape \(300, 2\) and Y \(300, 1\)"),
    "names in another order": (
        lambda: [pd.DataFrame(X, columns=["phi", "psi"]), pd.DataFrame(X, columns=["psi", "phi"])],
        r"column 0 of trajectory 1 is 'psi', but trajectory 0 has 'phi' there; bring its columns into that order",
    ),
    "other names": (
        lambda: [X, pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(X, columns=["a", "c"])],
        r"column 1 of trajectory 2 is 'c', but trajectory 1 has 'b' there; featurise all alike",
    ),
    "squares that overflow": (lambda: 1e200 * X, r"span up to .*e\+200.*change the unit"),
    "squares that vanish": (lambda: 1e-200 * X, r"span up to .*e-200.*change the unit"),
    "fewer distinct frames than states": (
        lambda: np.tile([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]], (20, 1)),
        r"^n_(micro)?states=\d+, but there are only 2 distinct frames; ask for fewer",
    ),
}
# (estimators, data, what the message says)
BAD_DATA_OF_SOME: dict[str, tuple[tuple[str, ...], Callable[[], Any], str]] = {
    "one frame": (WITH_LAG, lambda: X[:1], r"lagtime=1 needs trajectories of at least 2 frames, but the longest has 1"),
    "one frame alone": (CENTERS[:1], lambda: X[:1], r"there is a single frame \(1 sample\)"),
    "one frame, three clusters": (("MMC",), lambda: X[:1], r"n_states=3, but there is a single frame"),
    "all too short": (
        WITH_LAG,
        lambda: [X[i : i + 1] for i in range(50)],
        r"lagtime=1 needs trajectories of at least 2 frames, but the longest has 1; choose a shorter lag time",
    ),
    "too few windows": (("M3C",), lambda: X[:3], r"2 windows cannot populate 3 states; supply more data or ask for"),
}

WHOLE = r"must be a whole number of at least "
POSITIVE = r"must be a positive finite number"
TWO_NUMBERS = r"must be two numbers, e\.g\. "
NOT_STATES = r"must be integer states, one 1-d array per trajectory"
SEED = r"must be None, a whole number of at least 0 or a numpy\.random\.Generator"
ALL = tuple(FITTED)
HUGE = 10**30
# (estimators, argument, values, what the message says, with the value in place of VALUE)
BAD_ARGUMENTS: list[tuple[tuple[str, ...], str, tuple[Any, ...], str]] = [
    (ALL, "n_states", (1, 0, -3, 2.5, "3", True, None, np.nan, [3]), rf"n_states=VALUE {WHOLE}2"),
    (("M3C", "MMC"), "n_states", (301, HUGE), r"balance=\(0.01, 0.99\) must satisfy .* 1/n_states = .*fewer states"),
    (MARGIN, "n_states", (150,), r"1/n_states = 0\.00666667.*lower the first"),
    (("KMedoids",), "n_states", (301, HUGE), r"n_states=VALUE, but there are only 300 distinct frames; ask for fewer"),
    (("PCCAPlus",), "n_states", (301, HUGE), r"n_microstates=12 must be a whole number of at least VALUE"),
    (
        WITH_LAG,
        "lagtime",
        (0, -5, 1.5, "1", None, True),
        r"lagtime=VALUE must be a whole number of frames of at least 1",
    ),
    (WITH_LAG, "lagtime", (300, HUGE), r"lagtime=VALUE needs trajectories of at least \d+ frames.*shorter lag time"),
    (MARGIN, "balance", ((0.5, 0.6),), r"balance=VALUE .*1/n_states = 0\.333333.*lower the first or raise the second"),
    (MARGIN, "balance", ((0.4, 0.99),), r"balance=VALUE .*1/n_states = 0\.333333.*lower the first"),
    (MARGIN, "balance", ((0.01, 0.3),), r"balance=VALUE .*raise the second"),
    (MARGIN, "balance", ((-0.1, 0.9),), r"balance=VALUE .*0 <= lower"),
    (MARGIN, "balance", ((0.1, 1.5),), r"balance=VALUE .*upper <= 1"),
    (MARGIN, "balance", ((np.nan, 0.9),), r"balance=VALUE"),
    (MARGIN, "balance", ((0.1,), (0.1, 0.2, 0.3), "x", None, 0.1), rf"balance=VALUE {TWO_NUMBERS}"),
    (("M3C",), "starts", ("kinetics",), r"starts=VALUE is not known; choose one of 'kinetic', .*'kmeans'"),
    (("M3C",), "starts", (("kinetic", "k-means"),), r"starts='k-means' is not known; choose one of 'kinetic', .*"),
    (("MMC",), "starts", ("kinetic", "pcca", "lumping"), r"starts=VALUE is not known; choose one of 'kmeans'"),
    (MARGIN, "starts", ((), None, 5, {}), r"starts=VALUE must name at least one of k"),
    (MARGIN, "starts", (STATES,), r"starts=array.* must name at least one of k"),
    (MARGIN, "starts", ([STATES[:-1]],), r"299 states for 300 frames; give every frame a state"),
    (MARGIN, "starts", ([[STATES, STATES]],), r"600 states for 300 frames"),
    (MARGIN, "starts", ([STATES.astype(float)], [STATES > 0], [STATES[:, None]], [None], [[[0, 1], [2]]]), NOT_STATES),
    (MARGIN, "starts", ([np.minimum(STATES, 1)],), r"the states \[0, 1\], but n_states=3 needs all of 0 to 2"),
    (MARGIN, "starts", ([STATES + 1],), r"the states \[1, 2, 3\], but n_states=3 needs all of 0 to 2"),
    (MARGIN, "starts", ([STATES - 1],), r"the states \[-1, 0, 1\]"),
    (MARGIN, "selection", ("best", None, 1), r"selection=VALUE is not known; choose one of .*'class-averaged'"),
    (MARGIN, "features", ("sines", None), r"features=VALUE is not known; choose one of .*'fourier'"),
    (ALL, "scale", (None, "minmax", True, ["none"]), r"scale=VALUE is not known; choose one of 'none', 'standard'"),
    (MARGIN, "bandwidth", ("big",), r"bandwidth='big' is not known; choose one of 'auto'"),
    (MARGIN, "bandwidth", ([], ()), r"bandwidth is empty; give 'auto'"),
    (MARGIN, "bandwidth", (0, -1, np.nan, np.inf, None, True), rf"bandwidth=VALUE {POSITIVE}"),
    (MARGIN, "bandwidth", ((1.0, 0.0),), rf"bandwidth=0\.0 {POSITIVE}"),
    (MARGIN, "bandwidth", (1e30, 1e-30), r"bandwidth=1e[+-]30 is far from the distances between frames; 'auto' would"),
    (MARGIN, "regularization", (0, -1, 1e-300, np.nan, "a", None), r"regularization=VALUE must be a number from"),
    (MARGIN, "n_features", (0, -1, 1.5, None), rf"n_features=VALUE {WHOLE}1"),
    (MARGIN, "n_features", (20_001, HUGE), r"n_features=VALUE must not be larger than 20000"),
    (MARGIN, "max_iterations", (0, 2.5, None), rf"max_iterations=VALUE {WHOLE}1"),
    (MARGIN, "tolerance", (-1, 0.5), rf"tolerance=VALUE {WHOLE}0"),
    (MARGIN, "n_coarse", (0, 2.5, None), rf"n_coarse=VALUE {WHOLE}[13]"),
    (MARGIN, "gap", (0.0, -1, 0.5, None, "small"), r"gap=VALUE must be a number from 1e-12 to 0\.1"),
    (("M3C",), "reweight", (1, None, "yes"), r"reweight=VALUE must be True or False"),
    (MARGIN, "n_jobs", (0, "a", 1.5, True), r"n_jobs=VALUE must be None, a positive number of processes, or -1"),
    (MARGIN, "n_jobs", (5000, HUGE), r"n_jobs=VALUE is more than 4096 processes; -1 takes all cores"),
    (MARGIN, "progress", (5, "tqdm", len, int), r"progress=.* must be a progress bar class such as tqdm\.tqdm"),
    (ALL, "random_state", (-1, "a", 1.5, True, [], (), {}), rf"random_state=VALUE {SEED}"),
    (CENTERS, "n_restarts", (0, -1, 1.5, None, True), rf"n_restarts=VALUE {WHOLE}1"),
    (("PCCAPlus",), "n_microstates", (2, 0, -1, 20.0, None, "all", True), rf"n_microstates=VALUE {WHOLE}3"),
    (("PCCAPlus",), "n_microstates", (301, 10**9), r"n_microstates=VALUE, but there are only 300 distinct frames"),
    (("PCCAPlus",), "discretization", (None, "kmeans", 3), r"discretization=VALUE is not known; choose one of 'k-mea"),
]

# name -> (data, what the message says), for models of two columns
BAD_FRAMES: dict[str, tuple[Callable[[], Any], str]] = {
    "one column": (lambda: X[:, :1], r"trajectory 0 has 1 columns, but the model was fitted to 2; featurise"),
    "three columns": (lambda: np.zeros((4, 3)), r"has 3 columns, but the model was fitted to 2; featurise"),
    "one of several": (lambda: [X, X[:, :1]], r"trajectory 1 has 1 columns, but the model was fitted to 2"),
    "series": (lambda: np.zeros(5), r"has 1 columns, but the model was fitted to 2"),
    "nan": (lambda: spoilt(np.nan), r"data holds nan at frame 7, column 1; remove or repair"),
    "nan in a list": (lambda: [X, spoilt(np.nan)], r"trajectory 1 holds nan at frame 7, column 1"),
    "empty list": (list, r"empty list"),
    "empty array": (lambda: np.empty((0, 2)), r"shape \(0, 2\)"),
    "None": (lambda: None, r"data is None"),
    "text": (lambda: [["a", "b"]], r"dtype <U1.*convert"),
    "mdtraj": (md_trajectory, r"Trajectory of mdtraj; turn it into features"),
    "sparse": (lambda: sparse.csr_array(X), r"data is sparse"),
    "another unit": (
        lambda: 1e30 * X,
        r"data holds .*e\+30 at frame \d+, column \d, too far from .* in the same units",
    ),
    "squares that overflow": (lambda: [X, spoilt(1e200)], r"trajectory 1 holds 1e\+200 at frame 7, column 1, too far"),
    "largest integers": (lambda: np.full((3, 2), 2**63 - 1), r"data holds 9\.223e\+18 at frame 0, column 0, too far"),
}
METHODS = ("transform", "decision_function", "margin", "memberships")


def with_value(pattern: str, value: Any) -> str:
    return pattern.replace("VALUE", re.escape(repr(value)))


def refused_by(estimator: StateEstimator, data: Any, kind: type[Exception], message: str) -> None:
    """A fitted estimator refuses data, and is what it was before."""
    before, model = estimator.get_params(), estimator.model
    labels = model.transform(X)
    refused(lambda: estimator.fit(data), kind, message)
    assert estimator.get_params() == before
    assert estimator.model is model
    assert np.array_equal(model.transform(X), labels)


class TestEstimators:
    @pytest.mark.parametrize("name", FITTED)
    @pytest.mark.parametrize("case", BAD_DATA)
    def test_data(self, case: str, name: str, fitted: dict[str, StateEstimator]) -> None:
        make, message = BAD_DATA[case]
        refused_by(fitted[name], make(), InputError, message)

    @pytest.mark.parametrize(
        ("name", "case"), [(n, case) for case in BAD_DATA_OF_SOME for n in BAD_DATA_OF_SOME[case][0]]
    )
    def test_data_of_some(self, case: str, name: str, fitted: dict[str, StateEstimator]) -> None:
        _, make, message = BAD_DATA_OF_SOME[case]
        refused_by(fitted[name], make(), InputError, message)

    @pytest.mark.parametrize(
        ("name", "argument", "value", "message"),
        [
            pytest.param(name, argument, value, with_value(message, value), id=f"{name}-{argument}-{value!r:.30}")
            for names, argument, values, message in BAD_ARGUMENTS
            for name in names
            for value in values
        ],
    )
    def test_arguments(
        self, name: str, argument: str, value: Any, message: str, fitted: dict[str, StateEstimator]
    ) -> None:
        estimator = copy.copy(fitted[name])
        model = estimator.model
        estimator.set_params(**{argument: value})
        refused(lambda: estimator.fit(X), InputError, message)
        assert estimator.model is model

    def test_input_errors_are_what_deeptime_users_catch(self) -> None:
        with pytest.raises(InputFormatError):
            quick(3).fit([])
        with pytest.raises(ValueError, match="empty list"):
            quick(3).fit([])

    def test_a_search_without_an_honest_answer_says_what_to_do(self) -> None:
        # One well cannot be split by a rule this smooth: better no states than empty ones.
        cloud = np.random.default_rng(0).normal(size=(300, 2))
        message = r"state \d of 3, .*fewer states.*bandwidths.*balance"
        refused(lambda: quick(3, bandwidth=1000.0).fit(cloud), DegenerateSolutionError, message)

    def test_trajectories_that_nothing_connects(self) -> None:
        # As many microstates as frames: none is entered and left twice.
        call = PCCAPlus(3, n_microstates=300, random_state=0).fit
        message = r"only 1 of 300 microstates .*fewer microstates, a shorter lag time or longer trajectories"
        refused(lambda: call(X), DegenerateSolutionError, message)

    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.OverlappingStatesWarning")
    def test_one_jump_and_a_lag_time_that_always_spans_it(self) -> None:
        x = np.repeat([-1.0, 1.0], 50) + 0.1 * np.random.default_rng(0).normal(size=100)
        try:
            model = quick(2, lagtime=50).fit_fetch(x)
        except DegenerateSolutionError:  # every window crosses, so there may be nothing metastable to return
            return
        assert 0.0 < model.effective_sample <= 1.0 + 1e-12

    @pytest.mark.parametrize("make", [M3C, MMC, KMedoids, PCCAPlus])
    def test_without_a_model(self, make: type[StateEstimator]) -> None:
        refused(lambda: make(2).transform(X), NotFittedError, rf"this {make.__name__} has no model yet; call fit first")


class TestModels:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("name", FITTED)
    @pytest.mark.parametrize("case", BAD_FRAMES)
    def test_frames(self, case: str, name: str, method: str, fitted: dict[str, StateEstimator]) -> None:
        make, message = BAD_FRAMES[case]
        data = make()
        refused(lambda: getattr(fitted[name].model, method)(data), InputError, message)

    @pytest.mark.parametrize("name", FITTED)
    def test_tables_with_columns_in_another_order(self, name: str) -> None:
        table = pd.DataFrame(X, columns=["phi", "psi"])
        model = FITTED[name].__class__(**FITTED[name].get_params()).fit_fetch([table[:150], X[150:]])
        assert model.columns == ["phi", "psi"]
        turned, other = table[["psi", "phi"]], table.rename(columns={"psi": "chi1"})
        for method in METHODS:
            call = getattr(model, method)
            message = (
                r"column 0 of these data is 'psi', but the model was fitted to 'phi' there; bring .* into that order"
            )
            refused(lambda call=call: call(turned), InputError, message)
            refused(lambda call=call: call([table, other]), InputError, r"column 1 of trajectory 1 is 'chi1', but traj")
            refused(lambda call=call: call(other), InputError, r"'chi1', but the model was fitted to 'psi'.* alike")
        refused(lambda: model.sample(turned, 2), InputError, r"column 0 of these data is 'psi'")
        # Arrays have no names, and tables with plain numbers for names are as good as arrays.
        labels = model.transform(table)
        assert np.array_equal(model.transform(X), labels)
        assert np.array_equal(model.transform(pd.DataFrame(X)), labels)
