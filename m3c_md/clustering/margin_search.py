"""What M3C and MMC share: check the settings, run the search, keep the winner. They differ in their windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from deeptime.util.callbacks import ProgressCallback

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.clustering.checkpoint import CheckpointFolder, check_checkpoint
from m3c_md.clustering.compilation import titled
from m3c_md.clustering.given_metric import check_metric, checked_metric
from m3c_md.clustering.given_starts import as_starts, state_arrays, window_labels
from m3c_md.clustering.given_weights import check_weights, frame_weights, uneven_notes, with_weights
from m3c_md.clustering.margin_model import MarginModel
from m3c_md.clustering.search_notes import search_notes
from m3c_md.clustering.state_estimator import StateEstimator
from m3c_md.clustering.training_data import (
    LaggedPair,
    Note,
    as_given,
    check_distinct,
    check_lengths,
    check_made_of,
    check_widths,
    columns_of_featurizer,
    enough_to_learn,
    training_set,
)
from m3c_md.clustering.visits import visits_of_source, visits_of_windows
from m3c_md.exceptions import InputError
from m3c_md.frames.cluster import check_client, current_client, spread
from m3c_md.frames.source import LocalSource, Source, sample_windows
from m3c_md.frames.windows import WindowSet, equally_spaced
from m3c_md.inputs.dataset import Dataset
from m3c_md.inputs.settings import (
    check_choice,
    check_integer,
    check_jobs,
    check_positive,
    check_progress,
    check_random_state,
    check_range,
)
from m3c_md.optimize.feature_map import FeatureKind
from m3c_md.optimize.labels import check_shares, class_bounds
from m3c_md.optimize.metric import Metric
from m3c_md.optimize.threads import ONE_BLAS_THREAD
from m3c_md.search.candidates import Search
from m3c_md.search.journal import fingerprint
from m3c_md.search.local_search import SearchSettings
from m3c_md.search.metrics import with_competing_metrics
from m3c_md.search.problem import (
    ColumnScale,
    SearchProblem,
    default_bandwidths,
    default_n_features,
    prepare_problem,
)
from m3c_md.search.rungs import SEARCHED, STREAMED
from m3c_md.search.scores import Selection
from m3c_md.search.selection import Candidate
from m3c_md.search.steps import SearchOptions

# More random features than this approximate the kernel no better, and the solver's matrices would fill the memory.
MOST_FEATURES = 20_000
# The paper's start, for which all candidates see all windows.
LITERAL = "relaxation-literal"
# The paper's settings that differ from the defaults of both methods.
PAPER_SETTINGS: dict[str, Any] = {
    "bandwidth": tuple(2.0**j for j in range(-4, 5)),
    "n_features": 50,
    "features": "fourier",
    "regularization": 0.01,
    "starts": (LITERAL,),
    "selection": "objective",
    "scale": "none",
    "metric": "standard",
}


@dataclass(frozen=True)
class _Searched:
    """Data of a fit.

    Attributes
    ----------
    windows : WindowSet
        Those to search in.
    source : Source, optional
        All data, if they are so many that ``windows`` are a sample.
    first_frames : (n_windows,) array
        Number of the first frame of each window, among ``n_frames``.
    n_frames : int
    notes : list
        What there is to say about the data.
    """

    windows: WindowSet
    source: Source | None
    first_frames: IntArray
    n_frames: int
    notes: list[Note]

    @property
    def n_windows(self) -> int:
        """Number of all windows."""
        return self.windows.n_windows if self.source is None else self.source.n_windows


class MarginEstimator(StateEstimator):
    """Large-margin clustering of windows; a subclass says what a window is and which starts there are."""

    KNOWN_STARTS: ClassVar[tuple[str, ...]]

    n_states: int
    bandwidth: str | float | Sequence[float]
    n_features: Literal["auto"] | int
    regularization: float
    balance: tuple[float, float]
    starts: Sequence[Any]
    selection: Selection
    features: FeatureKind
    n_coarse: int
    max_iterations: int
    tolerance: int
    gap: float
    scale: ColumnScale
    metric: Any
    random_state: Any
    n_jobs: int | None
    progress: Any

    def _windows(self, data: Dataset | LaggedPair) -> tuple[WindowSet, list[Note]]:
        """Windows of the data, and what there is to say about them."""
        raise NotImplementedError

    def _source(self, data: Dataset) -> tuple[LocalSource, list[Note]]:
        """Data as blocks of frames that are read when they are needed, and what there is to say about them."""
        raise NotImplementedError

    def _reweighted(self) -> bool:
        """Whether windows are weighted towards the relaxed distribution."""
        raise NotImplementedError

    def _shortest(self) -> int:
        """Number of frames up to which a trajectory is too short to hold a window."""
        raise NotImplementedError

    def _lag(self) -> int:
        """Lag time of the windows in frames; zero for single frames."""
        raise NotImplementedError

    def _model_of(self, problem: SearchProblem, candidates: list[Candidate]) -> MarginModel:
        """Model of the winner, which is the first candidate."""
        raise NotImplementedError

    def fit(
        self,
        data: Any,
        y: Any = None,
        *,
        client: Any = None,
        checkpoint: Any = None,
        featurizer: Any = None,
        weights: Any = None,
    ) -> Self:
        """Find the states of trajectories.

        Parameters
        ----------
        data : array (n_frames, n_columns), DataFrame, list of them, or tuple (X, Y)
            One trajectory, several, or frames X with the frames Y one lag time later: a tuple of two is always such a
            pair, as in deeptime, so give trajectories as a list. Columns of DataFrames are remembered by name. Arrays
            may be memory maps, Dask arrays or anything else that gives arrays when it is sliced; many frames are read a
            slice at a time.
        y : ignored
            For scikit-learn pipelines.
        client : dask.distributed.Client, optional
            Cluster to work on; by default the current one if there are Dask arrays among the trajectories, and none
            otherwise. Frames then lie on the workers, and only sums come back from them; the answer is that of a fit
            without a cluster, to the last bit on machines of one kind. Workers may come
            and go. Dask arrays are computed on the workers; other arrays are sent there through the scheduler, which
            keeps a copy. Up to 20,000 windows, pairs (X, Y) and the start "relaxation-literal" do without a cluster.
        checkpoint : path, optional
            Folder in which every finished step of the search is kept. The same fit with the same folder goes on where
            it was stopped, by whatever; remove the folder when you have the model. Needs a number as random_state.
        featurizer : DihedralFeaturizer, optional
            What made the data. The model then knows the names of its columns and the atoms that they are made of, and
            so do its files: all that `M3CModel.to_plumed` and ``m3c-md export`` need.
        weights : array (n_frames,), or list of them, optional
            Weights of frames, one array per trajectory, e.g. exp(bias / kT) of a biased simulation. A window counts as
            much as its first frame, but at least a twentieth of the mean and at most twenty times that. They take the
            place of ``reweight``. Populations of the model remain shares of frames.

        Returns
        -------
        self
        """
        del y
        # A typo is told at once, not after the hour that it may take to read the data.
        settings, bandwidths = self._checked_settings(client, checkpoint)
        dihedrals, weights = columns_of_featurizer(featurizer), check_weights(weights)
        check_lengths(data)
        client = current_client(as_given(data)) if client is None else client
        given = training_set(data)
        check_made_of(given, dihedrals)
        searched = self._searched(given, client)
        windows, source, notes = searched.windows, searched.source, searched.notes
        check_distinct(windows, settings.n_states)
        class_bounds(searched.n_windows, settings.n_states, settings.balance)
        shortest = self._shortest() if isinstance(given, Dataset) else 0
        by_frame = None if weights is None else frame_weights(given, weights, shortest)
        starts = self._checked_starts(searched, shortest)
        metric = checked_metric(self.metric, windows.frames)
        seek_slow = metric == "auto" and self._lag() > 0
        if metric == "auto" and not enough_to_learn(windows):
            metric = "standard"
        rng, folder = check_random_state(self.random_state), check_checkpoint(checkpoint, self.random_state)
        # One BLAS thread: sums then do not depend on how many there are. Parallel work is done by processes.
        with ProgressCallback(check_progress(self.progress), titled(type(self).__name__), 100) as bar, ONE_BLAS_THREAD:
            problem = self._problem(searched, settings, starts, metric, rng, by_frame)
            search = self._search(problem, bandwidths, starts, metric, rng, folder, bar, seek_slow)
            candidates, problem = search.run(), search.problem
        notes += uneven_notes(by_frame) + search_notes(problem, candidates, search.failures or [], self._lag())
        model = self._model_of(problem, candidates)
        with ONE_BLAS_THREAD:
            visits = visits_of_windows(model, windows) if source is None else visits_of_source(model, source)
        model.dihedral_columns = dihedrals
        self._keep(model, notes, given, visits, None if dihedrals is None else dihedrals.columns)
        return self

    def _problem(
        self,
        searched: _Searched,
        settings: SearchSettings,
        starts: Sequence[str | IntArray],
        metric: str | Metric,
        rng: np.random.Generator,
        by_frame: FloatArray | None,
    ) -> SearchProblem:
        """Return what all candidates share, before metrics compete."""
        problem = prepare_problem(
            searched.windows,
            settings,
            rng,
            starts=tuple(start if isinstance(start, str) else "labels" for start in starts),
            n_features=self._n_features(searched.windows.frames.shape[1], searched.n_windows),
            feature_kind=self.features,
            scale=self.scale,
            reweight=self._reweighted() and by_frame is None,
            n_coarse=int(self.n_coarse),
            source=searched.source,
            kinetic=self._lag() > 0 and metric in ("auto", "kinetic"),
            given=metric if isinstance(metric, Metric) else None,
        )
        return problem if by_frame is None else with_weights(problem, by_frame, searched.first_frames)

    def _search(
        self,
        problem: SearchProblem,
        bandwidths: list[float],
        starts: Sequence[str | IntArray],
        metric: Any,
        rng: np.random.Generator,
        folder: Path | None,
        bar: Any,
        seek_slow: bool,
    ) -> Search:
        """Return a search that is ready to run; ``bar`` is told of its progress."""
        usual = default_bandwidths(problem.typical.spread, problem.scale).tolist()
        check_widths(bandwidths, usual)
        bandwidths = bandwidths or usual
        options = SearchOptions(
            self.selection,
            int(rng.integers(2**63)),
            float(self.gap),
            self._halving(),
            check_jobs(self.n_jobs),
            self.features,
            metric in ("auto", "learned"),
            seek_slow,
        )
        if not isinstance(metric, Metric):
            problem = with_competing_metrics(problem, metric, self.features, options.seed)
        journal = None
        if folder is not None:
            journal = CheckpointFolder(folder, fingerprint(problem, bandwidths, *starts, replace(options, n_jobs=None)))
        return Search(
            problem,
            bandwidths,
            starts,
            options,
            journal=journal,
            failures=[],
            report=lambda share: bar(max(0, int(100 * share) - int(bar.progress_bar.n))),
        )

    def _halving(self) -> bool:
        """Whether most candidates are judged on samples; the paper's own start is not."""
        given = as_starts(self.starts)
        return not (isinstance(given, list | tuple) and any(isinstance(s, str) and s == LITERAL for s in given))

    def _searched(self, data: Dataset | LaggedPair, client: Any) -> _Searched:
        """Windows to search in, and all data as a source if they are many."""
        if isinstance(data, Dataset) and self._halving() and data.n_windows(self._shortest()) > STREAMED:
            source, notes = self._source(data)
            return _sample(source if client is None else _on_workers(source, client), notes)
        windows, notes = self._windows(data)
        return _Searched(windows, None, windows.windows[0], len(windows.frames), notes)

    def _checked_settings(self, client: Any = None, checkpoint: Any = None) -> tuple[SearchSettings, list[float]]:
        """Settings of the search and bandwidths; all that can be checked without data is."""
        settings = self._settings()
        relaxed = any(isinstance(start, str) and start.startswith("relaxation") for start in self._given_starts())
        check_integer("n_coarse", self.n_coarse, settings.n_states if relaxed else 1)
        self._shortest()
        self._reweighted()
        for start in self._given_starts():
            if isinstance(start, str):
                check_choice("starts", start, self.KNOWN_STARTS)
            else:
                state_arrays(start)
        check_metric(self.metric, timeless=self._lag() == 0)
        self._n_features(1, 1)
        bandwidths = self._bandwidths()
        # Less is beyond double precision, and a tenth is no certificate any more.
        check_range("gap", self.gap, 1e-12, 0.1)
        check_random_state(self.random_state)
        check_jobs(self.n_jobs)
        check_progress(self.progress)
        check_checkpoint(checkpoint, self.random_state)
        if client is not None:
            check_client(client)
        return settings, bandwidths

    def _settings(self) -> SearchSettings:
        n_states = check_integer("n_states", self.n_states, 2)
        try:
            lower, upper = (float(share) for share in self.balance)
        except (TypeError, ValueError) as error:
            raise InputError(f"balance={self.balance!r} must be two numbers, e.g. (0.01, 0.99)") from error
        check_shares(n_states, (lower, upper))
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

    def _n_features(self, n_columns: int, n_windows: int) -> int:
        """Number of random features: the user's, or one that fits the data."""
        if isinstance(self.n_features, str):
            check_choice("n_features", self.n_features, ("auto",))
            return default_n_features(n_columns, n_windows)
        return check_integer("n_features", self.n_features, 1, MOST_FEATURES)

    def _bandwidths(self) -> list[float]:
        """Bandwidths given by the user in rising order, none for "auto"."""
        if isinstance(self.bandwidth, str):
            check_choice("bandwidth", self.bandwidth, ("auto",))
            return []
        values = np.atleast_1d(np.asarray(self.bandwidth, dtype=object)).tolist()
        if not values:
            raise InputError("bandwidth is empty; give 'auto', a number or several")
        return sorted({check_positive("bandwidth", value) for value in values})

    def _given_starts(self) -> Sequence[Any]:
        given = as_starts(self.starts)
        if not isinstance(given, list | tuple) or len(given) == 0:
            raise InputError(f"starts={self.starts!r:.40} must name at least one of {', '.join(self.KNOWN_STARTS)}")
        return given

    def _checked_starts(self, searched: _Searched, shortest: int) -> list[str | IntArray]:
        first, n_frames = searched.first_frames, searched.n_frames
        return [
            start if isinstance(start, str) else window_labels(start, first, n_frames, shortest, self.n_states)
            for start in self._given_starts()
        ]


def _on_workers(source: LocalSource, client: Any) -> Source:
    return spread(client, source.trajectories, source.lagtime, source.n_slices)


def _sample(source: Source, notes: list[Note]) -> _Searched:
    """Windows of a source to search in."""
    chosen = equally_spaced(source.n_windows, SEARCHED)
    return _Searched(sample_windows(source, chosen), source, source.first_frames(chosen), source.n_frames, notes)
