"""Macrostates of microstates: the fields of deeptime's `PCCAModel` for a decomposition that is not PCCA+."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from deeptime.markov import PCCAModel
from deeptime.markov.msm import MarkovStateModel
from numpy.typing import NDArray

from m3c_md.exceptions import InputError
from m3c_md.inputs.state_trajectories import as_state_trajectories

IntegerArray = NDArray[np.integer]


class LumpedModel(PCCAModel):  # type: ignore[misc]
    """Lumping of the microstates of a Markov state model into sets, with all fields of deeptime's `PCCAModel`.

    Memberships are zero or one, so the coarse transition matrix is that of the lumped chain at equilibrium: never
    negative, rows sum to one, detailed balance is kept.

    Attributes
    ----------
    purity : float or None
        Share of the frames whose microstate belongs to the state that the frame itself has; None if the microstates
        were judged by their centres. What is missing from 1 is lost by going through microstates.
    """

    def __init__(self, msm: MarkovStateModel, states: IntegerArray, n_states: int, purity: float | None) -> None:
        memberships = np.eye(n_states)[states]
        stationary = np.asarray(msm.stationary_distribution)
        coarse = memberships.T @ stationary
        distributions = memberships.T * stationary / coarse[:, None]
        transition = np.asarray(distributions @ (msm.transition_matrix @ memberships))
        super().__init__(transition, coarse, memberships, distributions)
        self.purity = purity

    def __repr__(self) -> str:
        shares = ", ".join(f"{share:.3g}" for share in self.coarse_grained_stationary_probability)
        return (
            f"LumpedModel(n_metastable={self.n_metastable}, n_microstates={len(self.memberships)}, shares=[{shares}])"
        )


def lump_microstates(
    msm: MarkovStateModel, states: IntegerArray, n_states: int, *, purity: float | None = None
) -> LumpedModel:
    """Lump a Markov state model by the state of each of its microstates.

    Parameters
    ----------
    msm : deeptime MarkovStateModel
    states : (n_microstates,) int array
        State of every microstate, of all or of those in the (connected) set that the MSM knows; -1 where unknown.
    n_states : int
    purity : float, optional

    Examples
    --------
    >>> from deeptime.markov.msm import MarkovStateModel
    >>> chain = MarkovStateModel([[0.8, 0.2, 0.0], [0.2, 0.7, 0.1], [0.0, 0.1, 0.9]])
    >>> lump_microstates(chain, np.array([0, 0, 1]), 2).coarse_grained_transition_matrix.round(3).tolist()
    [[0.95, 0.05], [0.1, 0.9]]
    """
    symbols = _symbols(msm)
    if len(states) not in (n_microstates(msm), msm.n_states):
        raise InputError(
            f"got {len(states)} microstates, but the MSM was made from {n_microstates(msm)}, of which it knows "
            f"{msm.n_states}; give all of them, or those that it knows in its order"
        )
    active = states[symbols] if len(states) == n_microstates(msm) else states
    if active.min() < 0:
        raise InputError(
            f"microstate {symbols[np.argmin(active)]} of the MSM occurs in no frame of dtrajs; give the microstate "
            "trajectories that the MSM was estimated from"
        )
    missing = np.setdiff1d(np.arange(n_states), active)
    if len(missing):
        raise InputError(
            f"state {missing[0]} holds none of the {len(active)} microstates of the MSM; use more microstates, or "
            "fewer states"
        )
    return LumpedModel(msm, active, n_states, purity)


def check_msm(msm: Any) -> None:
    """Refuse what is no Markov state model of microstates."""
    if not isinstance(msm, MarkovStateModel):
        raise InputError(
            f"msm is a {type(msm).__name__}; give a deeptime MarkovStateModel, e.g. "
            "MaximumLikelihoodMSM(lagtime=1).fit_fetch(dtrajs), or the prior of a Bayesian one"
        )


def n_microstates(msm: MarkovStateModel) -> int:
    """Number of microstates before a connected set of them was chosen."""
    return int(msm.n_states if msm.count_model is None else msm.count_model.n_states_full)


def _symbols(msm: MarkovStateModel) -> IntegerArray:
    """Numbers that the microstates of the MSM had before a connected set of them was chosen."""
    return np.arange(msm.n_states) if msm.count_model is None else np.asarray(msm.count_model.state_symbols)


def states_of_microstates(
    labels: Sequence[IntegerArray], dtrajs: Any, n_states: int, n_cells: int
) -> tuple[IntegerArray, float]:
    """State that most frames of each of ``n_cells`` microstates have (-1 without frames), and the share of such frames.

    Examples
    --------
    >>> states_of_microstates([np.array([0, 0, 1, 1, 1])], [np.array([0, 0, 0, 1, 1])], 2, 2)
    (array([0, 1]), 0.8)
    """
    micro = as_state_trajectories(dtrajs, np.iinfo(np.intp).max)  # how many are allowed is said below, in words of lump
    lengths = [len(x) for x in labels], [len(x) for x in micro]
    if lengths[0] != lengths[1]:
        raise InputError(f"trajs have {lengths[0]} frames and dtrajs {lengths[1]}; give every frame its microstate")
    cells, states = np.concatenate(micro), np.concatenate(labels)
    if cells.max() >= n_cells:
        raise InputError(
            f"dtrajs hold microstate {cells.max()}, but the MSM was made from {n_cells}, numbered from 0; give the "
            "microstate trajectories that the MSM was estimated from"
        )
    frames = np.bincount(cells * n_states + states, minlength=n_cells * n_states).reshape(n_cells, n_states)
    most = np.where(frames.sum(axis=1) > 0, frames.argmax(axis=1), -1)
    return most, float(frames.max(axis=1).sum() / len(cells))
