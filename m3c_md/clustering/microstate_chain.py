"""Microstates as users have them (Markov state model, counts, transition matrix, trajectories), made one chain."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from deeptime.markov import TransitionCountEstimator, TransitionCountModel
from deeptime.markov.msm import MarkovStateModel, MaximumLikelihoodMSM
from scipy.sparse import csr_matrix, issparse
from scipy.sparse.csgraph import connected_components

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.clustering.lumped import IntegerArray, n_microstates, symbols_of
from m3c_md.clustering.training_data import Note
from m3c_md.exceptions import (
    ConvergenceWarning,
    DisconnectedWarning,
    InputError,
    NonReversibleWarning,
    ShortTrajectoryWarning,
    SolverError,
    solving,
)
from m3c_md.inputs.lengths import check_longest, too_short
from m3c_md.inputs.settings import check_integer
from m3c_md.inputs.state_trajectories import as_state_trajectories

# Rows of a transition matrix, stationary distributions and detailed balance may be off by this much: estimators
# iterate to about 1e-8, and single precision has seven digits.
ROUNDING = 1e-6
# Weight below which a microstate has none: stationary distributions come with such errors.
NO_WEIGHT = 1e-15
# Matrices are kept as arrays: so many microstates take 800 MB each.
MOST_MICROSTATES = 10_000
# A message names no more microstates than this.
MOST_NAMED = 8
REMEDY = "use fewer microstates, a shorter lag time or longer trajectories"


@dataclass(frozen=True)
class MicrostateChain:
    """A stationary Markov chain on microstates, and where it comes from.

    Attributes
    ----------
    transition : (n, n) array or sparse matrix
    stationary : (n,) array
    symbols : (n,) array
        Numbers of these microstates among all.
    n_all : int
        Number of all microstates, inside and outside the (connected) set of the chain.
    exchange : tuple of (n_all, n_all) arrays
        How often all microstates follow each other, in either order; the second tells where the first does not.
    frames : (n,) array or None
        Transitions that were counted from each microstate.
    trajectories : list of int arrays
        If these were given.
    notes : list of (message, category)
    """

    transition: Any
    stationary: FloatArray
    symbols: IntegerArray
    n_all: int
    exchange: tuple[FloatArray, ...]
    frames: FloatArray | None = None
    trajectories: list[IntArray] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def flows(self) -> FloatArray:
        """Equilibrium flows π_i T_ij, the mean of both directions; they sum to one."""
        flows = self.stationary[:, None] * as_dense(self.transition)
        return np.asarray(0.5 * (flows + flows.T))

    @property
    def support(self) -> FloatArray:
        """Share of the counted transitions of each microstate; of equilibrium where counts are not known."""
        frames = self.stationary if self.frames is None or not self.frames.sum() > 0.0 else self.frames
        return np.asarray(frames / frames.sum())


def as_chain(microstates: Any, lagtime: Any = None, stationary_distribution: Any = None) -> MicrostateChain:
    """Chain of whatever describes microstates, see `lump_microstates`.

    Examples
    --------
    >>> chain = as_chain([[0.9, 0.1], [0.2, 0.8]])
    >>> chain.stationary.round(3).tolist(), chain.flows.round(3).tolist()
    ([0.667, 0.333], [[0.6, 0.067], [0.067, 0.267]])
    """
    lag = None if lagtime is None else check_integer("lagtime", lagtime, 1)
    is_matrix = _is_matrix(microstates)
    if lag is not None and has_lag(microstates):
        raise InputError(f"lagtime={lag} is for microstate trajectories; models and matrices have one of their own")
    if stationary_distribution is not None and not is_matrix:
        raise InputError("stationary_distribution is for a transition matrix; models and trajectories have their own")
    if is_matrix:
        return _chain_of_matrix(microstates, stationary_distribution)
    if isinstance(microstates, TransitionCountModel):
        return _chain_of_counts(microstates)
    if isinstance(microstates, MarkovStateModel):
        return _chain_of_msm(microstates)
    if hasattr(microstates, "fit") or hasattr(microstates, "prior"):
        raise InputError(
            f"microstates is a {type(microstates).__name__}; give a deeptime MarkovStateModel, e.g. "
            "MaximumLikelihoodMSM(lagtime=1).fit_fetch(dtrajs), or the prior of a Bayesian one"
        )
    return _chain_of_trajectories(microstates, 1 if lag is None else lag)


def has_lag(microstates: Any) -> bool:
    """Whether these are no trajectories but a model or a matrix, which have a lag time of their own."""
    return isinstance(microstates, MarkovStateModel | TransitionCountModel) or _is_matrix(microstates)


def as_dense(matrix: Any) -> FloatArray:
    """Matrix as an array of floats, whether it is sparse or not."""
    return np.asarray(matrix.toarray() if issparse(matrix) else matrix, dtype=np.float64)


def _is_matrix(microstates: Any) -> bool:
    """Whether this is a matrix: sparse, an array of two dimensions, or nested lists of floats."""
    if issparse(microstates) or isinstance(microstates, np.ndarray):
        return bool(microstates.ndim == 2)
    if not isinstance(microstates, list | tuple):
        return False
    try:
        array = np.asarray(microstates)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return False
    return array.ndim == 2 and array.dtype.kind == "f" and array.shape[0] == array.shape[1]


def _chain_of_matrix(matrix: Any, stationary: Any) -> MicrostateChain:
    try:
        transition = as_dense(matrix)
    except (ValueError, TypeError) as error:
        raise InputError(f"the transition matrix holds what are no numbers ({error}); give probabilities") from error
    check_transition_matrix(transition)
    weights = stationary_of(transition) if stationary is None else checked_stationary(transition, stationary)
    everything = np.arange(len(transition))
    return _balanced(MicrostateChain(transition, weights, everything, len(transition), (transition + transition.T,)))


def check_transition_matrix(transition: FloatArray) -> None:
    """Refuse what is no transition matrix."""
    if transition.ndim != 2 or transition.shape[0] != transition.shape[1] or len(transition) == 0:
        raise InputError(
            f"the transition matrix has shape {transition.shape}; give a square one, or trajectories of microstates "
            "as a list of integer arrays"
        )
    if not np.isfinite(transition).all() or transition.min() < -ROUNDING:
        bad = np.argwhere(~(np.isfinite(transition) & (transition >= -ROUNDING)))[0]
        raise InputError(
            f"the transition matrix holds {transition[tuple(bad)]:.4g} in row {bad[0]}, column {bad[1]}; probabilities "
            "are not negative: give the matrix of an MSM, not a coarse matrix of PCCA+ or a rate matrix"
        )
    sums = transition.sum(axis=1)
    worst = int(np.argmax(np.abs(sums - 1.0)))
    if abs(sums[worst] - 1.0) > ROUNDING:
        raise InputError(
            f"row {worst} of the transition matrix sums to {sums[worst]:.6g}, not to 1; give probabilities (counts go "
            "into deeptime's TransitionCountModel first)"
        )


def stationary_of(transition: FloatArray) -> FloatArray:
    """Stationary distribution of a transition matrix that has a single closed class; zero outside it.

    Examples
    --------
    >>> stationary_of(np.array([[0.5, 0.5, 0.0], [0.0, 0.9, 0.1], [0.0, 0.1, 0.9]])).round(6).tolist()
    [0.0, 0.5, 0.5]
    """
    classes = closed_classes(transition)
    if len(classes) > 1:
        raise InputError(
            f"the transition matrix has {len(classes)} closed classes of microstates, so that its stationary "
            "distribution depends on where one starts; give stationary_distribution=, or the matrix of one class"
        )
    inside = classes[0]
    matrix = transition[np.ix_(inside, inside)]
    # π(T - 1) = 0 and Σπ = 1: one equation too many, and all of them hold.
    system = np.vstack([matrix.T - np.eye(len(inside)), np.ones(len(inside))])
    right = np.zeros(len(inside) + 1)
    right[-1] = 1.0
    with solving(f"the stationary distribution of {len(inside)} microstates", "give stationary_distribution="):
        found = np.linalg.lstsq(system, right, rcond=None)[0]
    weights = np.zeros(len(transition))
    weights[inside] = np.maximum(found, 0.0) / np.maximum(found, 0.0).sum()
    return weights


def closed_classes(transition: FloatArray) -> list[IntArray]:
    """Sets of microstates that reach each other and nothing else.

    Examples
    --------
    >>> [c.tolist() for c in closed_classes(np.array([[1.0, 0.0, 0.0], [0.1, 0.8, 0.1], [0.0, 0.0, 1.0]]))]
    [[0], [2]]
    """
    links = csr_matrix(transition > 0.0)
    n_classes, numbers = connected_components(links, directed=True, connection="strong")
    rows, columns = links.nonzero()
    leaves = np.unique(numbers[rows[numbers[rows] != numbers[columns]]])
    closed = np.setdiff1d(np.arange(n_classes), leaves)
    return sorted((np.flatnonzero(numbers == number) for number in closed), key=lambda members: int(members[0]))


def checked_stationary(transition: FloatArray, given: Any) -> FloatArray:
    """Stationary distribution as a user gives it: not negative, sums to one, unchanged by the matrix."""
    try:
        weights = np.asarray(given, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InputError(f"stationary_distribution cannot be read ({error}); give one number a microstate") from error
    if weights.shape != (len(transition),):
        raise InputError(
            f"stationary_distribution has shape {weights.shape}; give one number for each of the {len(transition)} "
            "microstates"
        )
    if not (np.isfinite(weights).all() and weights.min() >= -ROUNDING and weights.sum() > 0.0):
        raise InputError("stationary_distribution must hold finite numbers that are not negative, and not all zero")
    weights = np.maximum(weights, 0.0) / np.maximum(weights, 0.0).sum()
    change = np.abs(weights @ transition - weights)
    if change.sum() > ROUNDING * 10:
        raise InputError(
            f"stationary_distribution is not that of the matrix: one step changes the weight of microstate "
            f"{int(change.argmax())} by {change.max():.3g}; leave it out, and it is computed"
        )
    return np.asarray(weights)


def _chain_of_msm(msm: MarkovStateModel) -> MicrostateChain:
    transition = as_dense(msm.transition_matrix)
    check_transition_matrix(transition)
    try:
        weights = checked_stationary(transition, msm.stationary_distribution)
    except (ValueError, AssertionError, ArithmeticError, RuntimeError):  # deeptime on a disconnected matrix
        weights = stationary_of(transition)
    counts, frames = msm.count_model, None
    exchange: tuple[FloatArray, ...] = (transition + transition.T,)
    if counts is not None:
        frames = as_dense(counts.count_matrix).sum(axis=1)
        exchange = (_both_ways(counts.count_matrix_full),)
    return _balanced(
        MicrostateChain(msm.transition_matrix, weights, symbols_of(msm), n_microstates(msm), exchange, frames)
    )


def _both_ways(counts: Any) -> FloatArray:
    dense = as_dense(counts)
    return np.asarray(dense + dense.T)


def _chain_of_counts(counts: TransitionCountModel) -> MicrostateChain:
    """Chain of the reversible maximum-likelihood MSM on the largest connected set."""
    connected = counts.submodel_largest()
    outside = np.setdiff1d(counts.state_symbols, connected.state_symbols)
    visited = outside[_both_ways(counts.count_matrix_full)[outside].sum(axis=1) > 0.0]
    msm, notes = _reversible_msm(connected)
    chain = _chain_of_msm(msm)
    if len(visited):
        notes.append((_outside_message(visited, counts), DisconnectedWarning))
    return replace(chain, notes=[*chain.notes, *notes])


def _reversible_msm(connected: TransitionCountModel) -> tuple[MarkovStateModel, list[Note]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            msm = MaximumLikelihoodMSM(reversible=True).fit_fetch(connected)
        except (AssertionError, RuntimeError, ValueError, ArithmeticError, IndexError) as error:
            raise SolverError(
                f"deeptime's MSM of {connected.n_states} microstates failed ({error}); {REMEDY}"
            ) from error
    texts = dict.fromkeys(str(warning.message).rstrip(".") for warning in caught)
    return msm, [(f"deeptime says of the microstate MSM: {text}; {REMEDY}", ConvergenceWarning) for text in texts]


def _outside_message(outside: IntegerArray, counts: TransitionCountModel) -> str:
    matrix = as_dense(counts.count_matrix_full)
    share = matrix[outside].sum() / matrix.sum()
    one = len(outside) == 1
    return (
        f"{named_microstates(outside)} of {counts.n_states_full}, with {share:.2%} of the transitions, "
        f"{'lies' if one else 'lie'} outside the largest connected set and had no part in the search; frames "
        f"there get the state that {'it exchanges' if one else 'they exchange'} most with; {REMEDY} to connect "
        f"{'it' if one else 'them'}"
    )


def named_microstates(numbers: Sequence[Any] | IntegerArray) -> str:
    """Numbers of microstates in words, not all if there are many.

    Examples
    --------
    >>> named_microstates([4]), named_microstates(range(20))
    ('microstate 4', 'microstates 0, 1, 2, 3, 4, 5, 6, 7 and 12 more')
    """
    words = [str(int(number)) for number in numbers]
    rest = f" and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
    return f"microstate{'s' if len(words) > 1 else ''} {', '.join(words[:MOST_NAMED])}{rest}"


def _chain_of_trajectories(dtrajs: Any, lag: int) -> MicrostateChain:
    trajectories = as_state_trajectories(dtrajs, np.iinfo(np.intp).max)
    lengths = [len(x) for x in trajectories]
    check_longest(lengths, lag)
    n_all = int(max(x.max() for x in trajectories)) + 1
    if n_all > MOST_MICROSTATES:
        raise InputError(
            f"dtrajs hold microstate {n_all - 1}, and matrices of more than {MOST_MICROSTATES} would fill the memory; "
            "number microstates from 0 without gaps, e.g. by numpy.unique(states, return_inverse=True), or use fewer"
        )
    short = too_short(lengths, lag)
    notes: list[Note] = [(f"{short} and take no part in the states", ShortTrajectoryWarning)] if short else []
    counts = _counted(trajectories, lag, n_all)
    chain = _chain_of_counts(TransitionCountModel(counts, counting_mode="sliding", lagtime=lag))
    # Frames that are in no pair at the lag time (those of short trajectories) still have neighbours in time.
    exchange = (*chain.exchange, _both_ways(_counted(trajectories, 1, n_all)))
    return replace(chain, exchange=exchange, trajectories=trajectories, notes=[*notes, *chain.notes])


def _counted(trajectories: list[IntArray], lag: int, n_all: int) -> FloatArray:
    long_enough = [x for x in trajectories if len(x) > lag]
    if not long_enough:
        return np.zeros((n_all, n_all))
    counts = TransitionCountEstimator(lagtime=lag, count_mode="sliding", n_states=n_all).fit_fetch(long_enough)
    return as_dense(counts.count_matrix_full)


def _balanced(chain: MicrostateChain) -> MicrostateChain:
    """Say so if the chain has no detailed balance."""
    flows = chain.stationary[:, None] * as_dense(chain.transition)
    circular = 0.5 * float(np.abs(flows - flows.T).sum())
    if circular <= ROUNDING * 10:
        return chain
    message = (
        f"the transition matrix is not reversible: {circular:.2%} of the equilibrium flow has no flow back; the "
        "mean of both directions is lumped, which has the same Q for every lumping; estimate a reversible MSM "
        "(MaximumLikelihoodMSM(reversible=True)) if the data come from equilibrium"
    )
    return replace(chain, notes=[*chain.notes, (message, NonReversibleWarning)])
