"""An estimator that a user hands in, with the face of those of this package; what it returns is checked."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray
from m3c_md.clustering.archive import Contents
from m3c_md.clustering.state_estimator import StateEstimator
from m3c_md.clustering.state_model import StateModel, falling
from m3c_md.clustering.training_data import LaggedPair, training_set
from m3c_md.clustering.visits import visits_of
from m3c_md.exceptions import InputError, ModelFileError, SolverError
from m3c_md.inputs.settings import check_integer, check_random_state


class GivenModel(StateModel):
    """States by whatever a user handed in, numbered by falling population.

    Attributes
    ----------
    fitted : object
        What was handed in, fitted: deeptime's model, or scikit-learn's estimator.
    numbers : (n_states,) array
        Number here of each of its labels.
    """

    def __init__(self, fitted: Any, numbers: NDArray[np.intp], populations: FloatArray, n_columns: int) -> None:
        super().__init__(populations, n_columns)
        self.fitted = fitted
        self.numbers = numbers

    def transform(self, data: Any) -> Any:
        """State of every frame; the whole of each trajectory is handed on at once, for time may matter."""
        dataset = self._dataset(data)
        labels = [self._states(x).astype(np.int32) for x in dataset.arrays()]
        return labels if dataset.several else labels[0]

    def _states(self, frames: FloatArray) -> NDArray[np.intp]:
        return np.asarray(self.numbers[labels_of(self.fitted, frames, self.n_states)])

    def _scores(self, frames: FloatArray) -> FloatArray:
        return np.asarray(np.eye(self.n_states)[self._states(frames)])

    def _contents(self) -> Contents:
        raise ModelFileError(f"a {type(self.fitted).__name__} that was handed in has no file of ours; save it yourself")


class GivenEstimator(StateEstimator):
    """An estimator of deeptime's kind (fit, fetch_model, transform) or scikit-learn's (fit, predict).

    deeptime's are given a list of trajectories, scikit-learn's all frames one after the other. Labels must be whole
    numbers from 0 to ``n_states - 1``, one for every frame.

    Parameters
    ----------
    estimator : object
        It is copied before it is fitted. Its ``random_state``, if it has one and that is None, is set.
    n_states : int
    random_state : None, int or numpy.random.Generator

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.cluster import KMeans
    >>> x = np.repeat([-1.0, 1.0, 1.0] * 11, 30)[:, None]
    >>> GivenEstimator(KMeans(2), 2, random_state=0).fit_fetch(x).populations.round(2).tolist()
    [0.67, 0.33]
    """

    def __init__(self, estimator: Any, n_states: int, *, random_state: Any = None) -> None:
        super().__init__()
        self.estimator = estimator
        self.n_states = n_states
        self.random_state = random_state

    def fit(self, data: Any, y: Any = None) -> Self:
        """Fit a copy of the estimator to trajectories; ``y`` is ignored."""
        del y
        n_states = check_integer("n_states", self.n_states, 2)
        check_usable("estimator", self.estimator)
        rng = check_random_state(self.random_state)
        given = training_set(data)
        if isinstance(given, LaggedPair):
            raise InputError("an estimator that was handed in needs trajectories, not a pair of arrays")
        trajectories = given.arrays()
        fitted = _fitted(_seeded(self.estimator, rng), trajectories)
        labels = [labels_of(fitted, x, n_states) for x in trajectories]
        shares = np.bincount(np.concatenate(labels), minlength=n_states) / given.n_frames
        order = falling(shares)
        numbers = np.argsort(order)
        model = GivenModel(fitted, numbers, shares[order], given.n_columns)
        self._keep(model, [], given, visits_of([numbers[x] for x in labels], n_states))
        return self


def check_usable(name: str, estimator: Any) -> None:
    """Refuse what cannot be fitted, or cannot give new frames a state.

    Examples
    --------
    >>> from sklearn.cluster import DBSCAN
    >>> check_usable("mine", DBSCAN())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    m3c_md.exceptions.InputError: mine=DBSCAN() cannot label frames that it has not seen; ...
    """
    if isinstance(estimator, type):
        raise InputError(f"{name}={estimator.__name__} is a class; give an estimator, e.g. {estimator.__name__}(...)")
    if not callable(getattr(estimator, "fit", None)) or not _has_labels(estimator):
        raise InputError(
            f"{name}={estimator!r:.60} cannot label frames that it has not seen; it needs fit and predict (as in "
            "scikit-learn), or fit, fetch_model and transform (as in deeptime)"
        )


def _has_labels(estimator: Any) -> bool:
    return any(callable(getattr(estimator, name, None)) for name in ("predict", "fetch_model"))


def _seeded(estimator: Any, rng: np.random.Generator) -> Any:
    """Copy of an estimator with numbers of its own, if it takes any and was given none."""
    own = copy.deepcopy(estimator)
    settings = own.get_params() if callable(getattr(own, "get_params", None)) else {}
    if "random_state" in settings and settings["random_state"] is None:
        own.set_params(random_state=int(rng.integers(2**31)))
    return own


def _fitted(estimator: Any, trajectories: list[FloatArray]) -> Any:
    """What gives frames their labels, after the fit; whatever it raises is its failure, not ours."""
    try:
        if not hasattr(estimator, "fetch_model"):
            return estimator.fit(np.concatenate(trajectories))
        estimator.fit(trajectories)
        return estimator.fetch_model()
    except Exception as error:
        raise SolverError(f"fit ended with {type(error).__name__}: {error!s:.200}") from error


def labels_of(fitted: Any, frames: FloatArray, n_states: int) -> NDArray[np.intp]:
    """Labels of one trajectory, checked: whole numbers below ``n_states``, one for every frame.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> labels_of(DummyClassifier().fit([[0.0], [1.0]], [7, 7]), np.zeros((2, 1)), 2)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    m3c_md.exceptions.InputError: label 7 was given to frame 0, but with n_states=2 labels are 0 to 1; ...
    """
    label = getattr(fitted, "predict", None) or fitted.transform
    try:
        found = np.asarray(label(frames))
    except Exception as error:
        raise SolverError(f"its labels ended with {type(error).__name__}: {error!s:.200}") from error
    if found.shape != (len(frames),) or found.dtype.kind not in "iu":
        raise InputError(
            f"labels have shape {found.shape} and dtype {found.dtype} for {len(frames)} frames; give an estimator that "
            "returns one whole number for every frame"
        )
    wrong = np.flatnonzero((found < 0) | (found >= n_states))
    if len(wrong):
        raise InputError(
            f"label {found[wrong[0]]} was given to frame {wrong[0]}, but with n_states={n_states} labels are 0 to "
            f"{n_states - 1}; give an estimator of {n_states} states"
        )
    return found.astype(np.intp)
