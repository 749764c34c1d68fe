"""Markov chains that transition paths are computed on, with samples that tell how sure they are."""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.exceptions import InputError
from m3c_md.inputs.lengths import check_longest
from m3c_md.inputs.settings import check_integer, check_random_state
from m3c_md.inputs.state_names import default_names, state_number, state_title
from m3c_md.inputs.state_trajectories import as_state_trajectories
from m3c_md.markov.kinetics import effective_number
from m3c_md.markov.resampling import MOST_SAMPLES, choose_confidence, flows_at_lagtimes
from m3c_md.markov.reversible import transition_matrices
from m3c_md.markov.timescales import disconnected_notes
from m3c_md.markov.transitions import number_of_states, short_trajectory_notes


@dataclass(frozen=True)
class Chain:
    """Markov chain on connected cells, which are states or microstates.

    Attributes
    ----------
    matrix, stationary : (n_cells, n_cells) and (n_cells,) arrays
    states : (n_cells,) array
        State of every cell.
    n_states, lagtime : int
    """

    matrix: FloatArray
    stationary: FloatArray
    states: IntArray
    n_states: int
    lagtime: int

    def ends(self, what: str, given: Any, names: Sequence[str] | None) -> tuple[int, ...]:
        """States where paths begin or end, checked."""
        several = [given] if isinstance(given, str) or not hasattr(given, "__iter__") else list(given)
        called = default_names(self.n_states) if names is None else names
        numbers = tuple(dict.fromkeys(state_number(called, state, what) for state in several))
        if not numbers:
            raise InputError(f"{what}={given!r:.40} names no state; give one, by number or name")
        for state in numbers:
            if state not in self.states:
                raise InputError(
                    f"{what}={given!r:.40}: {state_title(names, state)} is not connected with the others at this lag "
                    "time; use a shorter one, or more data"
                )
        return numbers


@dataclass(frozen=True)
class SampledChain:
    """A chain, and samples of it that show how sure it is.

    Attributes
    ----------
    chain : Chain
    samples : list of Chain, or None
        Of the posterior, or of resampled trajectories; they may lack states.
    n_parts : float or None
        Number of trajectories that samples were drawn from; None for samples of a posterior.
    confidence : str or None
        "bootstrap", "bayesian" or None.
    """

    chain: Chain
    samples: list[Chain] | None = None
    n_parts: float | None = None
    confidence: str | None = None


def chain_of_trajectories(
    dtrajs: Any, lagtime: int, n_states: int | None, confidence: str | None, n_samples: int, random_state: Any
) -> SampledChain:
    """Chain of the states of trajectories that are connected.

    Examples
    --------
    >>> chain_of_trajectories([0, 0, 1, 0, 1, 1, 0], 1, None, None, 2, 0).chain.matrix.round(2).tolist()
    [[0.33, 0.67], [0.67, 0.33]]
    """
    trajectories = as_state_trajectories(dtrajs, n_states)
    n, lag = number_of_states(trajectories, n_states), check_integer("lagtime", lagtime, 1)
    check_integer("n_samples", n_samples, 2, MOST_SAMPLES)
    rng = check_random_state(random_state)
    check_longest([len(x) for x in trajectories], lag)
    method = choose_confidence(confidence, trajectories, lag)
    (flows,) = flows_at_lagtimes(trajectories, [lag], n, method, n_samples, rng)
    notes = short_trajectory_notes(trajectories, [lag]) + disconnected_notes([lag], [flows])
    for message, category in notes:
        python_warnings.warn(message, category, stacklevel=3)
    samples = None if flows.samples is None else [_chain_of_flows(flow, lag) for flow in flows.samples]
    n_parts = effective_number(trajectories) if method == "bootstrap" else None
    return SampledChain(_chain_of_flows(flows.estimate, lag), samples, n_parts, method)


def _chain_of_flows(flows: FloatArray, lag: int) -> Chain:
    """Chain of the connected states of equilibrium flows."""
    connected = np.flatnonzero(~np.isnan(np.diagonal(flows)))
    block = np.ix_(connected, connected)
    return Chain(transition_matrices(flows[None])[0][block], flows[block].sum(axis=1), connected, len(flows), lag)


def chain_of_model(msm: Any, assignments: Any, n_states: int | None) -> SampledChain:
    """Chain of a deeptime model; the samples of a Bayesian one come along.

    Examples
    --------
    >>> from deeptime.markov.msm import MarkovStateModel
    >>> chain_of_model(MarkovStateModel([[0.9, 0.1], [0.2, 0.8]]), None, None).chain.stationary.round(2).tolist()
    [0.67, 0.33]
    """
    if not is_posterior(msm):
        return SampledChain(_chain_of_model(msm, assignments, n_states))
    samples = [_chain_of_model(sample, assignments, n_states, msm.prior) for sample in msm.samples]
    return SampledChain(_chain_of_model(msm.prior, assignments, n_states), samples, None, "bayesian")


def is_posterior(given: Any) -> bool:
    """Tell whether this is what deeptime's BayesianMSM gives: a model and samples of it."""
    return hasattr(given, "samples") and hasattr(getattr(given, "prior", None), "transition_matrix")


def _chain_of_model(msm: Any, assignments: Any, n_states: int | None, counted: Any = None) -> Chain:
    """Chain of a deeptime model, of states that keep their numbers or of microstates that have some.

    The numbers are those of the counts, which samples have not: they are given the model that has them.
    """
    matrix = np.asarray(
        msm.transition_matrix.toarray() if hasattr(msm.transition_matrix, "toarray") else msm.transition_matrix
    )
    n_cells = len(matrix)
    if assignments is None:
        counted = msm if counted is None else counted
        counts = counted.count_model if getattr(counted, "has_count_model", False) else None
        states = np.arange(n_cells) if counts is None else np.asarray(counts.state_symbols, dtype=np.intp)
    else:
        states = np.asarray(assignments)
        if states.shape != (n_cells,) or states.dtype.kind not in "iu" or states.min() < 0:
            raise InputError(
                f"assignments has shape {states.shape} and dtype {states.dtype}; give the state of each of the "
                f"{n_cells} microstates of the model, numbered from 0"
            )
    n = int(states.max()) + 1
    if n_states is not None:
        n = max(n, check_integer("n_states", n_states, n))
    return Chain(matrix, np.asarray(msm.stationary_distribution), states.astype(np.intp), n, int(msm.lagtime or 1))
