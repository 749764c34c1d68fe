"""M3C: maximum margin metastable clustering of trajectories, with the face of a deeptime estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self, get_args

from deeptime.markov import TransitionCountModel
from deeptime.markov.msm import MarkovStateModel

from m3c_md.clustering.margin_model import M3CModel
from m3c_md.clustering.margin_search import PAPER_SETTINGS, MarginEstimator
from m3c_md.clustering.microstate_chain import has_lag
from m3c_md.clustering.microstate_lumping import lump_microstates
from m3c_md.clustering.training_data import LaggedPair, Note, short_notes, transition_pairs
from m3c_md.exceptions import InputError
from m3c_md.frames.source import LocalSource
from m3c_md.frames.windows import WindowSet
from m3c_md.inputs.dataset import Dataset
from m3c_md.inputs.settings import check_flag, check_integer
from m3c_md.optimize.feature_map import FeatureKind
from m3c_md.search.metrics import sensitivity_of
from m3c_md.search.problem import BandwidthStart, ColumnScale, SearchProblem, SharedStart
from m3c_md.search.scores import Selection
from m3c_md.search.selection import Candidate


class M3C(MarginEstimator):
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
    n_features : "auto" or int
        Number d of random features. "auto" takes 100 for up to 8 columns, and more for more of them, up to 200 from 16
        columns on, unless there are more than 20,000 pairs: in many dimensions the kernel needs more of them, and the
        fit twice the time. Never more than there are pairs, unless these are fewer than 20.
    regularization : float
        β: weight of β/2 ||W||² against the mean loss. Larger values give smoother boundaries.
    balance : (float, float), default=(0.01, 0.99)
        Smallest and largest share of the transition pairs that a state may have. A start that holds a rarer state (down
        to 0.001, and to ten pairs) may keep it, and wins with a `RareStateWarning` if it scores better and its states
        are seen in several independent parts of the data; a first number above 0.02 is never undercut. A solution whose
        rule leaves some state without frames is degenerate and does not win. Where all do that, those states are kept
        that last, and a few frames are cut off for each of the others; where none last, the labels of the most
        metastable starts are left as they are, and the best of them is taken (with an `OverlappingStatesWarning`).
    reweight : bool, default=True
        Whether to weight transition pairs towards the relaxed distribution: removes the bias of trajectories started
        out of equilibrium, changes nothing where data are in equilibrium (see ``model.effective_sample``).
    starts : sequence of str or label arrays
        Where the local search starts; known: "kinetic", "relaxation", "relaxation-literal", "pcca", "lumping",
        "kmeans", "kmedoids", "random". State trajectories of your own (one integer array per trajectory) may stand in
        place of a name.
    selection : "class-averaged" or "objective"
        What the winner minimises among the candidates that are not degenerate: the objective (as in the paper), or
        the objective with each state's mean loss counted alike. By "class-averaged" a candidate whose states rest on
        one part of the data gives way to one whose states do not, one that is more metastable beyond the error of the
        difference comes first, and the winner's decomposition is taken at the widest bandwidth whose loss exceeds the
        best one by no more than a standard error. ``model.candidates`` shows all of this.
    features : "orthogonal" or "fourier"
        Orthogonal random features, or the paper's independent ones with random phases.
    n_coarse : int, default=30
        Number of coarse transition pairs in the SDP relaxation (starts "relaxation" and "relaxation-literal").
    max_iterations : int, default=100
        Limit r_max on the rounds of the local search.
    tolerance : int, default=0
        The local search ends when no more than this many labels change in a round (α_H of the paper).
    gap : float, default=0.01
        Largest relative duality gap of the rule for its labels, on all data. Up to 20,000 transition pairs it is 1e-3
        or less where that takes no more than a few steps.
    scale : "standard" or "none"
        Whether to divide each column by its standard deviation first. A few frames far away from all others (up to ten,
        or one in a thousand) that have more than half of a column's variance do not count.
    metric : "auto", "standard", "kinetic", "learned", matrix or fitted estimator
        In which coordinates the kernel takes distances. "standard": every column divided by its standard deviation (as
        it is for ``scale="none"``); "kinetic": slow directions count more; "learned": directions learned from the rule
        itself; "auto": all compete, and the plainest that describes the data as well as the best wins (below 1,500
        pairs, or ten to a column, a metric may be that of chance, and "auto" is "standard" unless nothing comes of
        that). A matrix (n_columns, n_directions), or a fitted linear transformer such as deeptime's TICA, is taken as
        it is. ``model.metric`` has what was taken, ``model.relevance`` how much each column matters.
    random_state : None, int or numpy.random.Generator
        Same number, same answer, whatever the number of processes or threads.
    n_jobs : int, optional
        Processes over which candidates are spread, through joblib.
    progress : optional
        True, or a progress bar class such as ``tqdm.tqdm``.

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
    >>> side = np.repeat([-1.0, 1.0] * 20, 25)
    >>> trajectory = side[:, None] + 0.3 * rng.normal(size=(1000, 1))
    >>> model = M3C(n_states=2, random_state=0).fit_fetch(trajectory)
    >>> model.transform([[-1.0], [1.0]]).tolist() in ([0, 1], [1, 0])
    True
    """

    KNOWN_STARTS = (*get_args(BandwidthStart), *get_args(SharedStart))

    def __init__(
        self,
        n_states: int,
        lagtime: int = 1,
        *,
        bandwidth: str | float | Sequence[float] = "auto",
        n_features: Literal["auto"] | int = "auto",
        regularization: float = 3e-3,
        balance: tuple[float, float] = (0.01, 0.99),
        reweight: bool = True,
        starts: Sequence[Any] = ("kinetic", "lumping", "kmeans"),
        selection: Selection = "class-averaged",
        features: FeatureKind = "orthogonal",
        n_coarse: int = 30,
        max_iterations: int = 100,
        tolerance: int = 0,
        gap: float = 1e-2,
        scale: ColumnScale = "standard",
        metric: Any = "auto",
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
        self.gap = gap
        self.scale = scale
        self.metric = metric
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress

    @classmethod
    def paper(cls, n_states: int, lagtime: int = 1, *, random_state: Any = None, **changes: Any) -> M3C:
        """Estimator with the paper's settings: 50 Fourier features, σ = 2⁻⁴ ... 2⁴, β = 0.01, SDP start only.

        ``changes`` overrides single settings. Bandwidths are absolute, so scale your data to order one first.
        """
        return cls(n_states, lagtime, random_state=random_state, **{**PAPER_SETTINGS, "reweight": False, **changes})

    def fit(
        self,
        data: Any,
        y: Any = None,
        *,
        client: Any = None,
        checkpoint: Any = None,
        featurizer: Any = None,
        weights: Any = None,
        microstates: bool = False,
    ) -> Self:
        """Find the states of trajectories, or of microstates where these are all there is.

        Parameters
        ----------
        data : array (n_frames, n_columns), DataFrame, list of them, tuple (X, Y), or microstates
            Trajectories or pairs of frames, see `MarginEstimator.fit`; a deeptime MarkovStateModel or
            TransitionCountModel of microstates; or, with ``microstates=True``, anything else that `lump_microstates`
            takes. The model of microstates is the `LumpedModel` of that function, with all fields of deeptime's
            `PCCAModel`; of the settings only ``n_states``, ``lagtime`` (for trajectories) and ``balance`` matter then
            (no state with less than a tenth of the first share is looked for).
        y : ignored
            For scikit-learn pipelines.
        client, checkpoint, featurizer, weights : optional
            See `MarginEstimator.fit`; not for microstates.
        microstates : bool
            Whether integer trajectories, or a transition matrix, are microstates and meant to be lumped.

        Returns
        -------
        self

        Examples
        --------
        >>> from deeptime.markov.msm import MarkovStateModel
        >>> from m3c_md import M3C
        >>> msm = MarkovStateModel([[0.9, 0.1, 0.0], [0.1, 0.89, 0.01], [0.0, 0.01, 0.99]])
        >>> M3C(n_states=2).fit_fetch(msm).assignments.tolist()
        [0, 0, 1]
        """
        told = check_flag("microstates", microstates)
        settings, _ = self._checked_settings(client, checkpoint)
        if not (told or isinstance(data, MarkovStateModel | TransitionCountModel)):
            options = {"client": client, "checkpoint": checkpoint, "featurizer": featurizer, "weights": weights}
            return super().fit(data, y, **options)
        if any(option is not None for option in (client, checkpoint, featurizer, weights)):
            raise InputError(
                "client, checkpoint, featurizer and weights are for coordinates; leave them out for microstates"
            )
        # Models and matrices have a lag time of their own. The share is as small as that of the rarest states that the
        # search in coordinates would take.
        lag = None if has_lag(data) else self._lag()
        share = 0.1 * settings.balance[0]
        self._model, self._labels = lump_microstates(data, settings.n_states, lagtime=lag, least_share=share), None
        return self

    def _windows(self, data: Dataset | LaggedPair) -> tuple[WindowSet, list[Note]]:
        return transition_pairs(data, self._lag())

    def _source(self, data: Dataset) -> tuple[LocalSource, list[Note]]:
        # Too short ones stay in their places: errors name trajectories by their numbers.
        return LocalSource(data.trajectories, self._lag()), short_notes(data, self._lag())

    def _reweighted(self) -> bool:
        return check_flag("reweight", self.reweight)

    def _shortest(self) -> int:
        return check_integer("lagtime", self.lagtime, 1)

    def _lag(self) -> int:
        return int(self.lagtime)

    def _model_of(self, problem: SearchProblem, candidates: list[Candidate]) -> M3CModel:
        return M3CModel(
            problem.metrics,
            problem.maps,
            candidates,
            **sensitivity_of(problem, candidates[0]),
            lagtime=int(self.lagtime),
            effective_sample=problem.effective_sample,
        )


# M3CModel.split fits one within a state.
M3CModel._estimator = M3C
