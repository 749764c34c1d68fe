"""Macrostates of microstates: the fields of deeptime's `PCCAModel` for a decomposition that is not PCCA+."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from deeptime.markov import PCCAModel
from deeptime.markov.msm import MarkovStateModel
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray
from m3c_md.clustering.visits import VisitCounts
from m3c_md.exceptions import InputError
from m3c_md.inputs.state_trajectories import as_state_trajectories

if TYPE_CHECKING:
    import pandas as pd

IntegerArray = NDArray[np.integer]

# In place of the state of a microstate that has none.
UNKNOWN = -1


class LumpedModel(PCCAModel):  # type: ignore[misc]
    """Lumping of the microstates of a Markov state model into sets, with all fields of deeptime's `PCCAModel`.

    Memberships are zero or one, so the coarse transition matrix is that of the lumped chain at equilibrium: never
    negative, rows sum to one, detailed balance is kept.

    Attributes
    ----------
    states : (n_all,) array
        State of every microstate by the number that it has in trajectories, whether or not it belongs to the
        (connected) set that the fields of `PCCAModel` are about; -1 where it is not known. See `transform`.
    purity : float or None
        Share of the frames whose microstate belongs to the state that the frame itself has; None if the microstates
        were judged by their centres, or alone. What is missing from 1 is lost by going through microstates.
    margins : (n_microstates,) array or None
        Of `lump_microstates`: lead of the best score of each microstate over the second, small at a border; NaN where
        no large-margin rule decides. None for lumpings by a model of frames.
    held : bool
        Of `lump_microstates`: whether the labels are those of the most metastable lumping, because the large-margin
        rule would have lost a state, or metastability.
    warnings : list of str
        What was said about the lumping.
    """

    def __init__(
        self,
        transition_matrix: Any,
        stationary: FloatArray,
        states: IntegerArray,
        n_states: int,
        *,
        all_states: IntegerArray | None = None,
        purity: float | None = None,
    ) -> None:
        memberships = np.eye(n_states)[states]
        coarse = memberships.T @ stationary
        distributions = memberships.T * stationary / coarse[:, None]
        transition = np.asarray(distributions @ (transition_matrix @ memberships))
        super().__init__(transition, coarse, memberships, distributions)
        self.states = np.array(states if all_states is None else all_states, dtype=np.int32)
        self.purity = purity
        self.margins: FloatArray | None = None
        self.held = False
        self.warnings: list[str] = []
        self._visits: VisitCounts | None = None

    @property
    def n_states(self) -> int:
        """Number of states; `n_metastable` by another name."""
        return int(self.n_metastable)

    @property
    def metastability(self) -> float:
        """Q: sum of the probabilities to stay, at most the number of states."""
        return float(np.trace(self.coarse_grained_transition_matrix))

    @property
    def visits(self) -> pd.DataFrame | None:
        """How often trajectories were in each state, see `StateModel.visits`; None if no trajectories were given."""
        return None if self._visits is None else self._visits.table()

    def transform(self, dtrajs: Any) -> Any:
        """State of every frame of microstate trajectories, numbered as in these: no index is shifted.

        Parameters
        ----------
        dtrajs : (n_frames,) int array, or list of them

        Returns
        -------
        (n_frames,) int32 array, or list of them

        Examples
        --------
        >>> from deeptime.markov.msm import MarkovStateModel
        >>> chain = MarkovStateModel([[0.8, 0.2, 0.0], [0.2, 0.7, 0.1], [0.0, 0.1, 0.9]])
        >>> lump_by_states(chain, np.array([0, 0, 1]), 2).transform([2, 2, 0]).tolist()
        [1, 1, 0]
        """
        trajectories = as_state_trajectories(dtrajs, np.iinfo(np.intp).max)
        labels = [self._labels(x, number) for number, x in enumerate(trajectories)]
        single = isinstance(dtrajs, np.ndarray) or (isinstance(dtrajs, list | tuple) and np.ndim(dtrajs[0]) == 0)
        return labels[0] if single else labels

    def _labels(self, trajectory: IntegerArray, number: int) -> NDArray[np.int32]:
        known = trajectory < len(self.states)
        labels = np.where(known, self.states[np.where(known, trajectory, 0)], UNKNOWN)
        if labels.min() < 0:
            frame = int(np.argmin(labels))
            raise InputError(
                f"trajectory {number} holds microstate {trajectory[frame]} at frame {frame}, of which the lumped model "
                "knows nothing; give the microstate trajectories that it was estimated from, or others with the same "
                "microstates"
            )
        return np.asarray(labels, dtype=np.int32)

    def __repr__(self) -> str:
        shares = ", ".join(f"{share:.3g}" for share in self.coarse_grained_stationary_probability)
        held = ", held=True" if self.held else ""
        return (
            f"LumpedModel(n_metastable={self.n_metastable}, n_microstates={len(self.memberships)}, shares=[{shares}]"
            f"{held})"
        )


def lump_by_states(
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
    >>> lump_by_states(chain, np.array([0, 0, 1]), 2).coarse_grained_transition_matrix.round(3).tolist()
    [[0.95, 0.05], [0.1, 0.9]]
    """
    symbols = symbols_of(msm)
    if len(states) not in (n_microstates(msm), msm.n_states):
        raise InputError(
            f"got {len(states)} microstates, but the MSM was made from {n_microstates(msm)}, of which it knows "
            f"{msm.n_states}; give all of them, or those that it knows in its order"
        )
    everything = states if len(states) == n_microstates(msm) else spread_states(states, symbols, n_microstates(msm))
    active = everything[symbols]
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
    stationary = np.asarray(msm.stationary_distribution)
    return LumpedModel(msm.transition_matrix, stationary, active, n_states, all_states=everything, purity=purity)


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


def symbols_of(msm: MarkovStateModel) -> IntegerArray:
    """Numbers that the microstates of the MSM had before a connected set of them was chosen."""
    return np.arange(msm.n_states) if msm.count_model is None else np.asarray(msm.count_model.state_symbols)


def spread_states(states: IntegerArray, symbols: IntegerArray, n_all: int) -> IntegerArray:
    """States of all microstates from those of some, -1 for the others.

    Examples
    --------
    >>> spread_states(np.array([1, 0]), np.array([0, 2]), 4).tolist()
    [1, -1, 0, -1]
    """
    everything = np.full(n_all, UNKNOWN, dtype=np.intp)
    everything[symbols] = states
    return everything


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
    most = np.where(frames.sum(axis=1) > 0, frames.argmax(axis=1), UNKNOWN)
    return most, float(frames.max(axis=1).sum() / len(cells))
