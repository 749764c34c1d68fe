"""MMC: maximum margin clustering of single frames, blind to time; the paper's geometric rival of M3C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from m3c_md.clustering.margin_model import MMCModel
from m3c_md.clustering.margin_search import PAPER_SETTINGS, MarginEstimator
from m3c_md.clustering.training_data import LaggedPair, Note, single_frames
from m3c_md.frames.source import LocalSource
from m3c_md.frames.windows import WindowSet
from m3c_md.inputs.dataset import Dataset
from m3c_md.optimize.feature_map import FeatureKind
from m3c_md.search.metrics import sensitivity_of
from m3c_md.search.problem import ColumnScale, SearchProblem
from m3c_md.search.scores import Selection
from m3c_md.search.selection import Candidate


class MMC(MarginEstimator):
    """Maximum margin clustering (Algorithm 2 of the paper).

    The large-margin rule that passes through the emptiest regions of space: the same problem and the same search as
    `M3C` with windows of one frame instead of two. Time plays no part, so the clusters need not be metastable; it
    is here for comparison.

    Parameters
    ----------
    n_states : int
        Number κ of clusters.
    starts : sequence of str or label arrays
        Where the local search starts; known: "kmeans", "kmedoids", "relaxation", "relaxation-literal", "random".
    metric : "standard", "learned", "auto", matrix or fitted estimator
        Coordinates in which the kernel takes distances, see `M3C`; "auto" is "standard" and "learned" in competition.
        Clusters of single frames confirm themselves in a metric that is learned from them, so by default nothing is
        learned; and nothing here is kinetic.
    bandwidth, n_features, regularization, balance, selection, features, n_coarse, max_iterations, tolerance, gap, \
scale, random_state, n_jobs, progress
        As in `M3C`.

    Examples
    --------
    >>> import numpy as np
    >>> from m3c_md import MMC
    >>> rng = np.random.default_rng(0)
    >>> frames = rng.choice([-1.0, 1.0], (300, 1)) + 0.2 * rng.normal(size=(300, 1))
    >>> labels = MMC(n_states=2, random_state=0).fit_fetch(frames).transform(frames)
    >>> bool(((frames[:, 0] > 0) == (labels == labels[frames.argmax()])).all())
    True
    """

    KNOWN_STARTS = ("kmeans", "kmedoids", "relaxation", "relaxation-literal", "random")

    def __init__(
        self,
        n_states: int,
        *,
        bandwidth: str | float | Sequence[float] = "auto",
        n_features: Literal["auto"] | int = "auto",
        regularization: float = 3e-3,
        balance: tuple[float, float] = (0.01, 0.99),
        starts: Sequence[Any] = ("kmeans", "relaxation"),
        selection: Selection = "class-averaged",
        features: FeatureKind = "orthogonal",
        n_coarse: int = 30,
        max_iterations: int = 100,
        tolerance: int = 0,
        gap: float = 1e-2,
        scale: ColumnScale = "standard",
        metric: Any = "standard",
        random_state: Any = None,
        n_jobs: int | None = None,
        progress: Any = None,
    ) -> None:
        super().__init__()
        self.n_states = n_states
        self.bandwidth = bandwidth
        self.n_features = n_features
        self.regularization = regularization
        self.balance = balance
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
    def paper(cls, n_states: int, *, random_state: Any = None, **changes: Any) -> MMC:
        """Estimator with the paper's settings, see `M3C.paper`."""
        return cls(n_states, random_state=random_state, **{**PAPER_SETTINGS, **changes})

    def _windows(self, data: Dataset | LaggedPair) -> tuple[WindowSet, list[Note]]:
        return single_frames(data), []

    def _source(self, data: Dataset) -> tuple[LocalSource, list[Note]]:
        return LocalSource(data.trajectories, lagtime=1, n_slices=1), []

    def _reweighted(self) -> bool:
        return False

    def _shortest(self) -> int:
        return 0

    def _lag(self) -> int:
        return 0

    def _model_of(self, problem: SearchProblem, candidates: list[Candidate]) -> MMCModel:
        return MMCModel(problem.metrics, problem.maps, candidates, **sensitivity_of(problem, candidates[0]))


# MMCModel.split fits one within a state.
MMCModel._estimator = MMC
