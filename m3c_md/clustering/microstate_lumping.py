"""Microstates alone, where PCCA+ stood: ``pcca = msm.pcca(3)`` becomes ``pcca = lump_microstates(msm, 3)``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.clustering.lumped import UNKNOWN, IntegerArray, LumpedModel, spread_states
from m3c_md.clustering.microstate_chain import NO_WEIGHT, MicrostateChain, as_chain, named_microstates
from m3c_md.clustering.microstate_search import MicrostateLabels, states_of_chain
from m3c_md.clustering.state_estimator import callers
from m3c_md.clustering.state_model import falling
from m3c_md.clustering.training_data import RARE, Note
from m3c_md.clustering.visits import few_visits_notes, visits_of
from m3c_md.exceptions import DisconnectedWarning, InputError, RareStateWarning
from m3c_md.inputs.settings import check_integer, check_range
from m3c_md.optimize.threads import ONE_BLAS_THREAD

# M3C looks for no state rarer than this either, unless it is told to.
LEAST_SHARE = 0.001


def lump_microstates(
    microstates: Any,
    n_states: int,
    *,
    lagtime: int | None = None,
    stationary_distribution: Any = None,
    least_share: float = LEAST_SHARE,
) -> LumpedModel:
    """Metastable states of microstates alone, by M3C in their kinetic coordinates: in place of ``msm.pcca(n_states)``.

    Points are the microstates, at the slow right eigenvectors of the reversible transition matrix T times their
    eigenvalues (2κ - 1 of them); windows are the pairs (i, j) with weight π_i T_ij (the 8,000 heaviest). First comes
    the most metastable lumping that can be found, with the largest Q = Σ_k P(stay in state k): PCCA+ and its first
    guess, finer clusters merged back, and k-means in kinetic coordinates, each improved by flips of single
    microstates. From there M3C alternates the large-margin problem and the labels, with a rule that is linear in the
    coordinates. That rule decides unless it loses a state, or more than 0.002 of Q: then the most metastable lumping
    is kept, and ``held`` is True. So Q does the work, and the rule adds margins: judged on the true chain, the two
    were level. Q is no lower than that of PCCA+ (by more than 0.002) unless a state of PCCA+ is rarer than
    ``least_share``. The answer is the same in every run.

    Parameters
    ----------
    microstates : deeptime MarkovStateModel or TransitionCountModel, transition matrix, or trajectories
        A matrix is an array (n, n), sparse or not. Trajectories are an array of whole numbers (n_frames,), or a list of
        such arrays: transitions are counted at ``lagtime`` in a sliding window. Of counts and trajectories the largest
        connected set is lumped after a reversible maximum-likelihood estimate; a model or a matrix is taken as it is.
    n_states : int
        Number κ of states; so many you get.
    lagtime : int, default=1
        Lag time of trajectories in frames.
    stationary_distribution : (n,) array, optional
        Of a matrix; computed if it has but one.
    least_share : float, default=0.001
        Share of the counted transitions (of the stationary distribution where there are no counts) below which no state
        is looked for: Q alone would rise if microstates that were hardly ever visited became states. Zero allows all.

    Returns
    -------
    LumpedModel
        With all fields of deeptime's `PCCAModel`; states are numbered by falling population. ``transform`` gives the
        frames of microstate trajectories their states, those outside the connected set, too.

    Warns
    -----
    DisconnectedWarning
        Microstates lie outside the connected set of the trajectories or counts.
    NonReversibleWarning
        There is no detailed balance; the mean of both directions is lumped, which has the same Q.
    RareStateWarning
        A state has less than 1 % of the population.
    FewVisitsWarning
        Trajectories entered a state fewer than ten times, or one of several alone visits it.

    Notes
    -----
    A matrix that falls apart into closed classes is lumped class by class: each is at least one state, and further
    states go where Q rises most. More classes than states are refused.

    See Also
    --------
    StateModel.lump : microstates by a model that was fitted to coordinates; the better where you have these.

    Examples
    --------
    >>> import numpy as np
    >>> from deeptime.markov.msm import MarkovStateModel
    >>> from m3c_md import lump_microstates
    >>> msm = MarkovStateModel([[0.8, 0.2, 0.0, 0.0], [0.2, 0.79, 0.01, 0.0], [0.0, 0.01, 0.79, 0.2], [0, 0, 0.2, 0.8]])
    >>> pcca = lump_microstates(msm, 2)  # msm.pcca(2)
    >>> [states.tolist() for states in pcca.sets], pcca.coarse_grained_transition_matrix.round(4).tolist()
    ([[0, 1], [2, 3]], [[0.995, 0.005], [0.005, 0.995]])
    >>> pcca.transform([3, 3, 0]).tolist()
    [1, 1, 0]
    """
    wanted = check_integer("n_states", n_states, 1)
    least = check_range("least_share", least_share, 0.0, 1.0 / wanted)
    chain = as_chain(microstates, lagtime, stationary_distribution)
    with ONE_BLAS_THREAD:
        model, notes = _lumped(chain, wanted, least)
    model.warnings.extend(message for message, _ in notes)
    for message, category in notes:
        warnings.warn(message, category, stacklevel=callers() + 1)
    return model


def _lumped(chain: MicrostateChain, n_states: int, least: float) -> tuple[LumpedModel, list[Note]]:
    weighted = np.flatnonzero(chain.stationary > NO_WEIGHT)
    if len(weighted) < n_states:
        raise InputError(
            f"n_states={n_states}, but only {len(weighted)} of {chain.n_all} microstates are connected and have a "
            "stationary weight; ask for fewer states, or use a shorter lag time or longer trajectories"
        )
    flows = chain.flows[np.ix_(weighted, weighted)]
    found = _by_population(states_of_chain(flows, chain.support[weighted], n_states, least), flows, n_states)
    everything = spread_states(found.labels, chain.symbols[weighted], chain.n_all)
    everything, lost = with_neighbours(everything, chain.exchange, n_states)
    # Transient microstates of a matrix have no weight, and went where their transitions go.
    alone = np.intersect1d(np.concatenate([chain.symbols, *chain.trajectories]), lost)
    everything[alone] = 0
    states = everything[chain.symbols]
    model = LumpedModel(chain.transition, chain.stationary, states, n_states, all_states=everything)
    model.margins = np.full(len(states), np.nan)
    model.margins[weighted] = found.margins
    model.held = found.held
    notes = [*chain.notes, *_alone_notes(alone), *_rare_notes(model, chain, least)]
    if chain.trajectories:
        model._visits = visits_of([model.states[x] for x in chain.trajectories], n_states)
        notes += few_visits_notes(model._visits)
    return model, notes


def _by_population(found: MicrostateLabels, flows: FloatArray, n_states: int) -> MicrostateLabels:
    """The same states in the order of falling population."""
    populations = np.eye(n_states)[found.labels].T @ flows.sum(axis=1)
    order = falling(populations.round(12))  # equal ones stay as they are, whatever the last digit
    return MicrostateLabels(np.argsort(order)[found.labels], found.margins, found.held)


def with_neighbours(
    states: IntegerArray, exchange: tuple[FloatArray, ...], n_states: int
) -> tuple[IntegerArray, IntArray]:
    """States of all microstates: one without a state gets the one with which it exchanges most; and who is left over.

    Those with the largest exchange come first, so that a chain of outsiders is followed inwards.

    Examples
    --------
    >>> links = np.array([[0.0, 5, 1, 0], [5, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    >>> [x.tolist() for x in with_neighbours(np.array([1, -1, 0, -1]), (links,), 2)]
    [[1, 1, 0, -1], [3]]
    """
    states = states.copy()
    for links in exchange:
        known = states != UNKNOWN
        onehot = np.zeros((len(states), n_states))
        onehot[known, states[known]] = 1.0
        towards = links @ onehot
        towards[known] = -1.0
        while towards.max() > 0.0:
            cell, state = np.unravel_index(int(towards.argmax()), towards.shape)
            states[cell] = state
            towards[:, state] += np.where(states == UNKNOWN, links[:, cell], 0.0)
            towards[cell] = -1.0
    return states, np.flatnonzero(states == UNKNOWN)


def _rare_notes(model: LumpedModel, chain: MicrostateChain, least: float) -> list[Note]:
    """Name states with hardly any population, and those with fewer counts than asked for."""
    shares = model.memberships.T @ chain.support
    populations = model.coarse_grained_stationary_probability
    rarest = int(np.argmin(shares))
    if shares[rarest] < least:
        message = (
            f"state {rarest} has {shares[rarest]:.3g} of the transitions, less than least_share={least:g}: no lumping "
            f"into {model.n_states} states without such a one was found; ask for fewer states"
        )
        return [(message, RareStateWarning)]
    rarest = int(np.argmin(populations))
    if populations[rarest] >= RARE:
        return []
    message = (
        f"state {rarest} has {populations[rarest]:.2%} of the population, less than {RARE:.0%}; ask for fewer states, "
        "or raise least_share if such a state is of no use"
    )
    return [(message, RareStateWarning)]


def _alone_notes(alone: IntArray) -> list[Note]:
    message = (
        f"nothing connects {named_microstates(alone)} with a microstate that has a state; frames there get state 0, "
        "the most populated: give trajectories that connect them, or drop these frames"
    )
    return [(message, DisconnectedWarning)] if len(alone) else []
