"""PCCA+ with everything around it (Algorithm 3 of the paper): microstates, Markov state model, lumping."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self, get_args

import numpy as np
from deeptime.markov import PCCAModel, TransitionCountModel
from deeptime.markov.msm import MarkovStateModel, MaximumLikelihoodMSM

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.clustering.archive import Contents
from m3c_md.clustering.centers import CentersModel, stored_centers
from m3c_md.clustering.state_estimator import StateEstimator
from m3c_md.clustering.training_data import Note, clustering_notes, rare_state_notes, training_set
from m3c_md.clustering.training_frames import training_frames
from m3c_md.exceptions import (
    ConvergenceWarning,
    DegenerateSolutionError,
    DisconnectedWarning,
    FewerStatesWarning,
    InputError,
    ModelFileError,
    NegativeMatrixWarning,
    SolverError,
)
from m3c_md.inputs.settings import check_choice, check_integer, check_random_state
from m3c_md.optimize.threads import ONE_BLAS_THREAD
from m3c_md.partitions.k_means import k_means
from m3c_md.partitions.k_medoids import k_medoids
from m3c_md.partitions.nearest import Clustering, at_most_distinct
from m3c_md.search.problem import ColumnScale, column_scale

Discretization = Literal["k-means", "k-medoids"]

# Entries of a coarse matrix below this are negative; above it they are rounding.
NEGATIVE = -1e-8
# What deeptime raises where its numbers go astray.
FOREIGN = (AssertionError, RuntimeError, ValueError, ArithmeticError, IndexError)


class PCCAPlusModel(CentersModel):
    """States as unions of the microstates that PCCA+ puts together.

    Attributes
    ----------
    msm : deeptime MarkovStateModel
        Reversible, on the connected microstates.
    pcca : deeptime PCCAModel
        The lumping of these microstates, with the states in the order of this model.
    centers : (n_connected, n_columns) array
        Centres of the microstates of `msm`.
    n_disconnected_frames : int
        Training frames in microstates outside the largest connected set. They have the state of the nearest connected
        microstate.
    """

    def __init__(
        self,
        msm: MarkovStateModel,
        pcca: PCCAModel,
        centers: FloatArray,
        scale: FloatArray,
        populations: FloatArray,
        n_disconnected_frames: int,
    ) -> None:
        super().__init__(centers, scale, pcca.assignments, populations)
        self.msm = msm
        self.pcca = pcca
        self.n_disconnected_frames = n_disconnected_frames

    @property
    def n_microstates(self) -> int:
        """Number of microstates, connected or not."""
        return int(self.msm.count_model.n_states_full)

    @property
    def lagtime(self) -> int:
        """Lag time in frames."""
        return int(self.msm.lagtime)

    @property
    def n_populated(self) -> int:
        """Number of states that have frames; PCCA+ may return fewer than it was asked for."""
        return int(np.count_nonzero(self.populations))

    def memberships(self, data: Any) -> Any:
        """PCCA+ memberships of the microstate of every frame, (n_frames, n_states)."""
        return self._each(data, lambda x: self.pcca.memberships[self._nearest(x)])

    def _contents(self) -> Contents:
        contents = super()._contents()
        counts = self.msm.count_model
        contents.settings |= {"lagtime": self.lagtime, "n_disconnected_frames": self.n_disconnected_frames}
        contents.arrays |= {
            "counts": np.asarray(counts.count_matrix_full),
            "connected": np.asarray(counts.state_symbols),
            "transition_matrix": np.asarray(self.msm.transition_matrix),
            "stationary": np.asarray(self.msm.stationary_distribution),
            "memberships": self.pcca.memberships,
            "distributions": self.pcca.metastable_distributions,
            "coarse_transition_matrix": self.pcca.coarse_grained_transition_matrix,
            "coarse_stationary": self.pcca.coarse_grained_stationary_probability,
        }
        return contents

    @classmethod
    def _from_contents(cls, contents: Contents) -> Self:
        centers, scale, states, populations = stored_centers(contents)
        n, k = len(centers), len(populations)
        pcca = PCCAModel(
            contents.array("coarse_transition_matrix", k, k),
            contents.array("coarse_stationary", k),
            contents.shares("memberships", n, k),
            contents.array("distributions", k, n),
        )
        if not np.array_equal(pcca.assignments, states):
            raise ModelFileError("its memberships are not those of its states")
        model = cls(
            _stored_msm(contents, n),
            pcca,
            centers,
            scale,
            populations,
            contents.number("n_disconnected_frames", 0),
        )
        return model._with_texts(contents)

    def _shown(self) -> list[str]:
        return [f"lagtime={self.lagtime}", f"n_microstates={self.n_microstates}"]


class PCCAPlus(StateEstimator):
    """The usual way to macrostates: microstates, reversible maximum-likelihood MSM, PCCA+.

    Clusters the frames into microstates, estimates the Markov state model on the largest connected set with deeptime,
    lumps it by PCCA+, and gives every frame (new ones too) the state of its nearest connected microstate.

    Parameters
    ----------
    n_states : int
        Number κ of metastable states asked for. PCCA+ may return fewer: see ``model.n_populated``.
    lagtime : int, default=1
        Lag time in frames.
    n_microstates : int, default=200
        Number of microstates.
    discretization : "k-means" or "k-medoids"
        How they are found; the paper has k-medoids.
    n_restarts : int, default=3
        Starts of the discretization.
    scale : "standard" or "none"
        Whether to divide each column by its standard deviation first.
    random_state : None, int or numpy.random.Generator

    Notes
    -----
    Beyond 50 million numbers (frames times columns) the scale and the microstates come from 100,000 transition pairs at
    equal distances; all frames are then assigned and counted block by block, so memory maps are never loaded as a
    whole.

    Warns
    -----
    DisconnectedWarning
        Frames lie outside the largest connected set.
    FewerStatesWarning
        Some states have no microstate at all.
    RareStateWarning
        A state has less than 1 % of the frames.
    FewVisitsWarning
        A state was entered fewer than ten times, or one of several trajectories alone visits it.
    NegativeMatrixWarning
        The coarse transition matrix has negative entries.

    Examples
    --------
    >>> import numpy as np
    >>> from m3c_md import PCCAPlus
    >>> x = np.repeat([-1.0, 1.0] * 20, 25)[:, None] + 0.3 * np.random.default_rng(0).normal(size=(1000, 1))
    >>> model = PCCAPlus(2, n_microstates=10, random_state=0).fit_fetch(x)
    >>> model.transform([[-1.0], [1.0]]).tolist() in ([0, 1], [1, 0])
    True
    """

    def __init__(
        self,
        n_states: int,
        lagtime: int = 1,
        *,
        n_microstates: int = 200,
        discretization: Discretization = "k-means",
        n_restarts: int = 3,
        scale: ColumnScale = "standard",
        random_state: Any = None,
    ) -> None:
        super().__init__()
        self.n_states = n_states
        self.lagtime = lagtime
        self.n_microstates = n_microstates
        self.discretization = discretization
        self.n_restarts = n_restarts
        self.scale = scale
        self.random_state = random_state

    def fit(self, data: Any, y: Any = None) -> Self:
        """Find the states of trajectories; data as in `M3C.fit`, ``y`` is ignored."""
        del y
        n_states = self._checked_settings()
        given = training_set(data)
        frames, notes = training_frames(given, int(self.lagtime))
        scale = column_scale(frames.windows.frames, self.scale)
        with ONE_BLAS_THREAD:
            cells, unfinished = self._microstates(frames.windows.frames / scale)
            counts = frames.counts(cells, scale)
            msm, trouble = _connected_msm(counts.transitions, int(self.lagtime), n_states)
            pcca, unreal = _pcca(msm, n_states)
            connected = np.asarray(msm.count_model.state_symbols)
            centers = (cells.centers * scale)[connected]
            order, populations = frames.ordered(centers, scale, pcca.assignments, n_states)
        n_outside = int(counts.frames.sum() - counts.frames[connected].sum())
        model = PCCAPlusModel(msm, _in_order(pcca, order), centers, scale, populations, n_outside)
        notes = [*notes, *unfinished, *trouble, *unreal, *_doubts(model, frames.n_frames)]
        self._keep(model, notes, given, frames.visits(model))
        return self

    def _checked_settings(self) -> int:
        """Number of states; all settings are checked, before any data are read."""
        n_states = check_integer("n_states", self.n_states, 2)
        check_integer("lagtime", self.lagtime, 1)
        check_integer("n_microstates", self.n_microstates, n_states)
        check_choice("discretization", self.discretization, get_args(Discretization))
        check_integer("n_restarts", self.n_restarts, 1)
        check_choice("scale", self.scale, get_args(ColumnScale))
        check_random_state(self.random_state)
        return n_states

    def _microstates(self, points: FloatArray) -> tuple[Clustering, list[Note]]:
        """Clustering of the scaled frames, and what there is to say about it."""
        wanted, rng = int(self.n_microstates), check_random_state(self.random_state)
        available = at_most_distinct(points, wanted)
        if available < wanted:
            raise InputError(f"n_microstates={wanted}, but there are only {available} distinct frames; ask for fewer")
        find = k_means if self.discretization == "k-means" else k_medoids
        found: Clustering = find(points, wanted, rng, n_restarts=int(self.n_restarts))
        notes = clustering_notes(found, self.discretization, "raise n_restarts, or use fewer microstates")
        return found, notes


def _connected_msm(counts: FloatArray, lagtime: int, n_states: int) -> tuple[MarkovStateModel, list[Note]]:
    """Reversible maximum-likelihood MSM on the largest connected set of microstates."""
    connected = TransitionCountModel(counts, counting_mode="sliding", lagtime=lagtime).submodel_largest()
    if connected.n_states < n_states:
        raise DegenerateSolutionError(
            f"the trajectories connect only {connected.n_states} of {len(counts)} microstates both ways, too few for "
            f"n_states={n_states}; use fewer microstates, a shorter lag time or longer trajectories"
        )
    name = f"deeptime's MSM of {connected.n_states} microstates"
    remedy = "use fewer microstates, a shorter lag time or longer trajectories"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            msm = MaximumLikelihoodMSM(reversible=True, lagtime=lagtime).fit_fetch(connected)
            finite = np.isfinite(msm.transition_matrix).all() and np.isfinite(msm.stationary_distribution).all()
        except FOREIGN as error:
            raise SolverError(f"{name} failed ({error}); {remedy}") from error
    if not finite:
        raise SolverError(f"{name} has entries that are no numbers; {remedy}")
    notes: list[Note] = [
        (f"deeptime says of the microstate MSM: {warning.message}; {remedy}", ConvergenceWarning) for warning in caught
    ]
    return msm, notes


def _stored_msm(contents: Contents, n_connected: int) -> MarkovStateModel:
    """Markov state model of a model file."""
    counts = contents.array("counts", None, None)
    connected = contents.indices("connected", n_connected, below=len(counts))
    if counts.shape[0] != counts.shape[1] or not (counts >= 0.0).all() or len(np.unique(connected)) < n_connected:
        raise ModelFileError("its transition counts contradict each other")
    model = TransitionCountModel(counts, counting_mode="sliding", lagtime=contents.number("lagtime", 1))
    try:
        return MarkovStateModel(
            contents.array("transition_matrix", n_connected, n_connected),
            stationary_distribution=contents.shares("stationary", n_connected),
            reversible=True,
            count_model=model.submodel(connected),
            # As strict as deeptime's estimator.
            transition_matrix_tolerance=1e-6,
        )
    except (ValueError, AssertionError) as error:
        raise ModelFileError(f"its transition matrix is none ({error})") from error


def _pcca(msm: MarkovStateModel, n_states: int) -> tuple[PCCAModel, list[Note]]:
    """Lumping by deeptime, and what it had to say; it warns of eigenvectors that are complex by rounding."""
    remedy = "ask for one state more or less, or for other microstates"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            lumped = msm.pcca(n_states)
        except FOREIGN as error:
            raise SolverError(
                f"deeptime's PCCA+ failed for {n_states} states of {msm.n_states} microstates ({error}); {remedy}"
            ) from error
    if not np.isfinite(lumped.memberships).all():
        raise SolverError(f"deeptime's PCCA+ gave memberships that are not finite for {n_states} states; {remedy}")
    texts = dict.fromkeys(str(warning.message).rstrip(".") for warning in caught)
    return lumped, [(f"deeptime says of PCCA+: {text}; {remedy}", ConvergenceWarning) for text in texts]


def _in_order(pcca: PCCAModel, order: IntArray) -> PCCAModel:
    """The same lumping with its states in another order."""
    return PCCAModel(
        pcca.coarse_grained_transition_matrix[np.ix_(order, order)],
        pcca.coarse_grained_stationary_probability[order],
        pcca.memberships[:, order],
        pcca.metastable_distributions[order],
    )


def _doubts(model: PCCAPlusModel, n_frames: int) -> list[Note]:
    """What the user would want to know before trusting the lumping."""
    notes: list[Note] = []
    if model.n_disconnected_frames:
        message = (
            f"{model.n_disconnected_frames} of {n_frames} frames are in {model.n_microstates - model.msm.n_states} of "
            f"{model.n_microstates} microstates outside the largest connected set and have the state of the nearest "
            "connected one; use fewer microstates or a shorter lag time to connect them"
        )
        notes.append((message, DisconnectedWarning))
    if model.n_populated < model.n_states:
        message = (
            f"PCCA+ was asked for {model.n_states} states and populated {model.n_populated}; ask for that many, or "
            "for another number of microstates"
        )
        notes.append((message, FewerStatesWarning))
    notes += rare_state_notes(model.populations, "ask for fewer states, or for another number of microstates")
    smallest = float(model.pcca.coarse_grained_transition_matrix.min())
    if smallest < NEGATIVE:
        message = (
            f"the coarse transition matrix of PCCA+ has negative entries, down to {smallest:.2g}; estimate an MSM from "
            "the state trajectories instead of using it"
        )
        notes.append((message, NegativeMatrixWarning))
    return notes
