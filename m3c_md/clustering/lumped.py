"""Macrostates of microstates: the fields of deeptime's `PCCAModel` for a decomposition that is not PCCA+."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from deeptime.markov import PCCAModel
from numpy.typing import NDArray

from m3c_md.exceptions import InputError
from m3c_md.inputs import as_state_trajectories

if TYPE_CHECKING:
    from deeptime.markov.msm import MarkovStateModel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.integer]


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

    def __init__(self, msm: MarkovStateModel, states: IntArray, n_states: int, purity: float | None) -> None:
        memberships = np.eye(n_states)[states]
        stationary = np.asarray(msm.stationary_distribution)
        coarse = memberships.T @ stationary
        distributions = memberships.T * stationary / coarse[:, None]
        transition = np.asarray(distributions @ (msm.transition_matrix @ memberships))
        super().__init__(transition, coarse, memberships, distributions)
        self.purity = purity


def lump_microstates(
    msm: MarkovStateModel, states: IntArray, n_states: int, *, purity: float | None = None
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
    active = _active_states(msm, states)
    if active.min() < 0:
        raise InputError(
            f"microstate {int(np.argmin(active))} of the MSM occurs in no frame of dtrajs; give the microstate "
            "trajectories that the MSM was estimated from"
        )
    missing = np.setdiff1d(np.arange(n_states), active)
    if len(missing):
        raise InputError(
            f"state {missing[0]} holds none of the {len(active)} microstates of the MSM; use more microstates, or "
            "fewer states"
        )
    return LumpedModel(msm, active, n_states, purity)


def _active_states(msm: MarkovStateModel, states: IntArray) -> IntArray:
    """States of the microstates that the MSM knows, in its own order."""
    symbols = np.arange(msm.n_states) if msm.count_model is None else np.asarray(msm.count_model.state_symbols)
    if len(states) > symbols.max():
        return states[symbols]
    if len(states) == msm.n_states:
        return states
    raise InputError(
        f"got {len(states)} microstates, but the MSM has {msm.n_states}, numbered up to {symbols.max()}; give the "
        "centres of all microstates"
    )


def states_of_microstates(labels: Sequence[IntArray], dtrajs: Any, n_states: int) -> tuple[IntArray, float]:
    """State that most frames of each microstate have (-1 for one without frames), and the share of such frames.

    Examples
    --------
    >>> states_of_microstates([np.array([0, 0, 1, 1, 1])], [np.array([0, 0, 0, 1, 1])], 2)
    (array([0, 1]), 0.8)
    """
    micro = as_state_trajectories(dtrajs)
    lengths = [len(x) for x in labels], [len(x) for x in micro]
    if lengths[0] != lengths[1]:
        raise InputError(f"trajs have {lengths[0]} frames and dtrajs {lengths[1]}; give every frame its microstate")
    cells, states = np.concatenate(micro), np.concatenate(labels)
    n_cells = int(cells.max()) + 1
    frames = np.bincount(cells * n_states + states, minlength=n_cells * n_states).reshape(n_cells, n_states)
    most = np.where(frames.sum(axis=1) > 0, frames.argmax(axis=1), -1)
    return most, float(frames.max(axis=1).sum() / len(cells))
