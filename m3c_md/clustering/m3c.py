"""M3C: maximum margin metastable clustering of trajectories, with the face of a deeptime estimator."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, get_args

import numpy as np
from deeptime.base import EstimatorTransformer
from deeptime.util.callbacks import ProgressCallback
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from m3c_md.clustering.model import M3CModel
from m3c_md.exceptions import (
    AmbiguousSolutionWarning,
    ConvergenceWarning,
    InputError,
    M3CWarning,
    OverlappingStatesWarning,
    RareStateWarning,
    ShortTrajectoryWarning,
)
from m3c_md.inputs import (
    as_time_lagged_pair,
    as_trajectories,
    check_choice,
    check_flag,
    check_integer,
    check_jobs,
    check_positive,
    check_random_state,
    check_range,
    is_list_of_arrays,
    long_enough,
)
from m3c_md.optimize.feature_map import FeatureKind
from m3c_md.optimize.labels import class_bounds
from m3c_md.search.candidates import search_until_populated
from m3c_md.search.local_search import SearchSettings
from m3c_md.search.problem import (
    BandwidthStart,
    ColumnScale,
    SharedStart,
    default_bandwidths,
    prepare_problem,
)
from m3c_md.search.selection import Candidate, Selection, close_rival
from m3c_md.search.windows import WindowSet, windows_of_pairs, windows_of_trajectories

IntArray = NDArray[np.intp]
Note = tuple[str, type[M3CWarning]]
# A rival decomposition whose score is within this share of the winner's is worth a warning.
CLOSE_SCORE = 0.02
KNOWN_STARTS = (*get_args(BandwidthStart), *get_args(SharedStart))


class M3C(EstimatorTransformer):  # type: ignore[misc]
    r"""Maximum margin metastable clustering.

    Finds ``n_states`` metastable states as the large-margin decision rule on continuous coordinates that the
    trajectories cross least: argmax_k (w_k · φ(x) + b_k) with random Fourier features φ of a Gaussian kernel. No
    discretisation is involved, every frame (new ones too) gets a state and a margin.

    Parameters
    ----------
    n_states : int
        Number κ of metastable states.
    lagtime : int, default=1
        Lag time in frames between the two slices of a transition pair.
    bandwidth : "auto", float or sequence of float
        Width(s) σ of the Gaussian kernel to try, in units of the scaled columns. "auto" tries eight, from 0.18 to 2
        times the root mean square distance between frames.
    n_features : int, default=100
        Number d of random features.
    regularization : float
        β: weight of β/2 ||W||² against the mean loss. Larger values give smoother boundaries.
    balance : (float, float), default=(0.01, 0.99)
        Smallest and largest share of the transition pairs that a state may have. A solution whose rule leaves some
        state with a smaller share of frames than the first number is degenerate and does not win; where there is no
        other, one with up to 0.005 less is returned with a `RareStateWarning`.
    reweight : bool, default=True
        Whether to weight transition pairs towards the relaxed distribution: removes the bias of trajectories started
        out of equilibrium, changes nothing where data are in equilibrium (see ``model.effective_sample``).
    starts : sequence of str or label arrays
        Where the local search starts; known: "kinetic", "relaxation", "relaxation-literal", "pcca", "lumping",
        "kmeans", "kmedoids", "random". State trajectories of your own (one integer array per trajectory) may stand in
        place of a name.
    selection : "class-averaged" or "objective"
        What the winner minimises among the candidates that are not degenerate: the objective (as in the paper), or
        the objective with each state's mean loss counted alike.
    features : "orthogonal" or "fourier"
        Orthogonal random features, or the paper's independent ones with random phases.
    n_coarse : int, default=30
        Number of coarse transition pairs in the SDP relaxation (starts "relaxation" and "relaxation-literal").
    max_iterations : int, default=100
        Limit r_max on the rounds of the local search.
    tolerance : int, default=0
        The local search ends when no more than this many labels change in a round (α_H of the paper).
    scale : "standard" or "none"
        Whether to divide each column by its standard deviation first.
    random_state : None, int or numpy.random.Generator
        Same number, same answer, whatever the number of processes or threads.
    n_jobs : int, optional
        Processes over which candidates are spread, through joblib.
    progress : optional
        A progress bar class such as ``tqdm.tqdm``.

    See Also
    --------
    M3C.paper : the settings of the paper.

    References
    ----------
    Hao Wu, "Maximum margin clustering for state decomposition of metastable systems", arXiv:1501.00125 (2015).

    Examples
    --------
    >>> import numpy as np
    >>> from m3c_md import M3C
    >>> rng = np.random.default_rng(0)
    >>> side = np.repeat([-1.0, 1.0, -1.0, 1.0], 250)
    >>> trajectory = side[:, None] + 0.3 * rng.normal(size=(1000, 1))
    >>> model = M3C(n_states=2, random_state=0).fit_fetch(trajectory)
    >>> model.transform([[-1.0], [1.0]]).tolist() in ([0, 1], [1, 0])
    True
    """

    # deeptime's wrapper around fit hides its docstring and refuses DataFrames. Opting out of it is a promise that
    # fit never changes its input; a test holds us to it.
    _MUTABLE_INPUT_DATA: ClassVar[bool] = True

    def __init__(
        self,
        n_states: int,
        lagtime: int = 1,
        *,
        bandwidth: str | float | Sequence[float] = "auto",
        n_features: int = 100,
        regularization: float = 3e-3,
        balance: tuple[float, float] = (0.01, 0.99),
        reweight: bool = True,
        starts: Sequence[Any] = ("kinetic", "lumping", "kmeans"),
        selection: Selection = "class-averaged",
        features: FeatureKind = "orthogonal",
        n_coarse: int = 30,
        max_iterations: int = 100,
        tolerance: int = 0,
        scale: ColumnScale = "standard",
        random_state: Any = None,
        n_jobs: int | None = None,
        progress: Any = None,
    ) -> None:
        super().__init__()
        self.n_states = n_states
        self.lagtime = lagtime
        self.bandwidth = bandwidth
        self.n_features = n_features
        self.regularization = regularization
        self.balance = balance
        self.reweight = reweight
        self.starts = starts
        self.selection = selection
        self.features = features
        self.n_coarse = n_coarse
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.scale = scale
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress

    @classmethod
    def paper(cls, n_states: int, lagtime: int = 1, *, random_state: Any = None, **changes: Any) -> M3C:
        """Estimator with the paper's settings: 50 Fourier features, σ = 2⁻⁴ ... 2⁴, β = 0.01, SDP start only.

        ``changes`` overrides single settings. Bandwidths are absolute, so scale your data to order one first.
        """
        settings: dict[str, Any] = {
            "bandwidth": tuple(2.0**j for j in range(-4, 5)),
            "n_features": 50,
            "features": "fourier",
            "regularization": 0.01,
            "reweight": False,
            "starts": ("relaxation-literal",),
            "selection": "objective",
            "scale": "none",
        }
        return cls(n_states, lagtime, random_state=random_state, **{**settings, **changes})

    def fit(self, data: Any, y: Any = None) -> M3C:
        """Find the metastable states of trajectories.

        Parameters
        ----------
        data : array (n_frames, n_columns), DataFrame, list of them, or tuple (X, Y)
            One trajectory, several, or frames X with the frames Y one lag time later.
        y : ignored
            For scikit-learn pipelines.

        Returns
        -------
        self : M3C
        """
        del y
        windows, notes = self._windows(data)
        settings = self._settings(windows.n_windows)
        starts = self._checked_starts(windows, is_pair=_is_pair(data))
        bandwidths = self._bandwidths()
        names = tuple(start if isinstance(start, str) else "labels" for start in starts)
        rng = check_random_state(self.random_state)
        n_jobs = check_jobs(self.n_jobs)
        if self.progress is not None and not callable(self.progress):
            raise InputError(f"progress={self.progress!r} must be a progress bar class such as tqdm.tqdm, or None")
        # One BLAS thread: sums then do not depend on how many there are. Parallel work is done by processes.
        with ProgressCallback(self.progress, "M3C", 100) as bar, threadpool_limits(limits=1):
            problem = prepare_problem(
                windows,
                settings,
                rng,
                starts=names,
                n_features=check_integer("n_features", self.n_features, 1),
                feature_kind=self.features,
                scale=self.scale,
                reweight=check_flag("reweight", self.reweight),
                n_coarse=check_integer("n_coarse", self.n_coarse, settings.n_states),
            )
            candidates, used = search_until_populated(
                problem,
                bandwidths or default_bandwidths(problem.data.frames, problem.scale),
                starts,
                selection=self.selection,
                seed=int(rng.integers(2**63)),
                halving="relaxation-literal" not in names,
                n_jobs=n_jobs,
                report=lambda share: bar(max(0, int(100 * share) - int(bar.progress_bar.n))),
            )
        self._model = M3CModel(
            problem.base_map,
            problem.scale,
            candidates,
            lagtime=int(self.lagtime),
            effective_sample=problem.effective_sample,
        )
        for message, category in (*notes, *_doubts(candidates, settings, used)):
            warnings.warn(message, category, stacklevel=2)
            self._model.warnings.append(message)
        return self

    def fit_transform(self, data: Any, y: Any = None) -> Any:
        """Fit and return the states of the training frames; ``y`` is ignored."""
        return self.fit(data, y).transform(data)

    def transform(self, data: Any) -> Any:
        """States of frames under the fitted model, see `M3CModel.transform`."""
        return self._fitted().transform(data)

    def fit_predict(self, data: Any, y: Any = None) -> Any:
        """Fit and return the states of the training frames (scikit-learn's name for it)."""
        return self.fit_transform(data, y)

    def _fitted(self) -> M3CModel:
        if self._model is None:
            raise ValueError("this M3C has no model yet; call fit first")
        model: M3CModel = self._model
        return model

    def _windows(self, data: Any) -> tuple[WindowSet, list[Note]]:
        lagtime = check_integer("lagtime", self.lagtime, 1)
        if _is_pair(data):
            return windows_of_pairs(*as_time_lagged_pair(data)), []
        trajectories = as_trajectories(data)
        kept = long_enough(trajectories, lagtime)
        n_short = len(trajectories) - len(kept)
        note = (
            f"{n_short} of {len(trajectories)} trajectories have no more than lagtime={lagtime} frames and take no "
            "part in the fit; choose a shorter lag time to use them"
        )
        notes: list[Note] = [(note, ShortTrajectoryWarning)] if n_short else []
        return windows_of_trajectories(kept, lagtime), notes

    def _settings(self, n_windows: int) -> SearchSettings:
        n_states = check_integer("n_states", self.n_states, 2)
        try:
            lower, upper = (float(share) for share in self.balance)
        except (TypeError, ValueError) as error:
            raise InputError(f"balance={self.balance!r} must be two numbers, e.g. (0.01, 0.99)") from error
        class_bounds(n_windows, n_states, (lower, upper))
        check_choice("selection", self.selection, get_args(Selection))
        check_choice("features", self.features, get_args(FeatureKind))
        check_choice("scale", self.scale, get_args(ColumnScale))
        return SearchSettings(
            n_states,
            check_range("regularization", self.regularization, 1e-9, 1e9),
            (lower, upper),
            max_iterations=check_integer("max_iterations", self.max_iterations, 1),
            tolerance=check_integer("tolerance", self.tolerance, 0),
        )

    def _bandwidths(self) -> list[float]:
        """Bandwidths given by the user in rising order, none for "auto"."""
        if isinstance(self.bandwidth, str):
            check_choice("bandwidth", self.bandwidth, ("auto",))
            return []
        values = np.atleast_1d(np.asarray(self.bandwidth, dtype=object)).tolist()
        if not values:
            raise InputError("bandwidth is empty; give 'auto', a number or several")
        return sorted({check_positive("bandwidth", value) for value in values})

    def _checked_starts(self, windows: WindowSet, *, is_pair: bool) -> list[str | IntArray]:
        given = [self.starts] if isinstance(self.starts, str) else self.starts
        if not isinstance(given, list | tuple) or len(given) == 0:
            raise InputError(f"starts={self.starts!r:.40} must name at least one of {', '.join(KNOWN_STARTS)}")
        shortest = 0 if is_pair else int(self.lagtime)
        checked: list[str | IntArray] = []
        for start in given:
            if isinstance(start, str):
                check_choice("starts", start, KNOWN_STARTS)
                checked.append(start)
            else:
                checked.append(_window_labels(start, windows, shortest, self.n_states))
        return checked

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="clusterer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return bool(self.has_model)

    def __repr__(self) -> str:
        from inspect import signature

        defaults = {name: p.default for name, p in signature(type(self)).parameters.items()}
        shown = (f"{k}={v!r}" for k, v in self.get_params().items() if k == "n_states" or v is not defaults[k])
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_html_(self) -> str:
        from sklearn.utils import estimator_html_repr

        return str(estimator_html_repr(self))


def _is_pair(data: Any) -> bool:
    """Whether data are time-lagged pairs: deeptime's convention is a tuple of two arrays."""
    return isinstance(data, tuple) and len(data) == 2


def _window_labels(start: Any, windows: WindowSet, shortest: int, n_states: int) -> IntArray:
    """Turn state trajectories given as a start into labels of the windows (those of their first frames)."""
    parts = start if is_list_of_arrays(start) else [start]
    arrays = [np.asarray(part) for part in parts]
    if any(a.ndim != 1 or a.dtype.kind not in "iu" for a in arrays):
        raise InputError("a start that is not a name must be integer states, one 1-d array per trajectory")
    # Trajectories too short for the lag time take no part in the fit, nor do their states.
    states = np.concatenate([a for a in arrays if len(a) > shortest] or [np.empty(0, dtype=int)])
    n_frames = len(windows.frames)
    if len(states) != n_frames:
        raise InputError(f"a start has {len(states)} states for {n_frames} frames; give every frame a state")
    found = np.unique(states)
    if not np.array_equal(found, np.arange(n_states)):
        raise InputError(
            f"a start has the states {found[:10].tolist()}, but n_states={n_states} needs all of 0 to {n_states - 1}"
        )
    return np.asarray(states[windows.windows[0]], dtype=np.intp)


def _doubts(candidates: Sequence[Candidate], asked: SearchSettings, used: SearchSettings) -> list[Note]:
    """What the user would want to know before trusting the winner."""
    notes: list[Note] = []
    winner, rival = candidates[0], close_rival(candidates, CLOSE_SCORE)
    if used.guard < asked.guard:
        message = (
            f"the smallest state has {winner.populations.min():.2%} of the frames, less than balance[0]={asked.guard}; "
            "lower balance[0] if it is a state, or ask for fewer states"
        )
        notes.append((message, RareStateWarning))
    if used.balance != asked.balance:
        message = (
            f"every candidate lost a state, so labels were held to at least {used.balance[0]:.1%} per state; "
            "the states overlap, and fewer of them may describe the data better"
        )
        notes.append((message, OverlappingStatesWarning))
    if not winner.optimum.converged:
        message = (
            f"the local search stopped after {winner.optimum.iterations} rounds, with labels still changing or a gap "
            f"of {winner.optimum.gap:.1e}; raise max_iterations or tolerance"
        )
        notes.append((message, ConvergenceWarning))
    if rival is not None:
        message = (
            f"a clearly different decomposition (start {rival.start!r}, bandwidth {rival.bandwidth:.3g}) scores within "
            f"{CLOSE_SCORE:.0%} of the one returned; compare them with model.candidates and model.alternative"
        )
        notes.append((message, AmbiguousSolutionWarning))
    return notes
