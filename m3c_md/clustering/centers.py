"""Models whose states are unions of cells around centres: a frame has the state of its nearest centre."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.clustering.archive import LARGEST, Contents
from m3c_md.clustering.state_model import StateModel, falling
from m3c_md.exceptions import ModelFileError
from m3c_md.partitions.nearest import assign

# Frames further away than so many times the distance between centres have no nearest one that arithmetic could tell.
MOST_SPREADS = 1e10


class CentersModel(StateModel):
    """States as unions of Voronoi cells; scores are minus the distance to the nearest centre of each state.

    Parameters
    ----------
    centers : (n_centers, n_columns) array
    scale : (n_columns,) array
        Divisors of the columns, applied before distances are measured.
    states : (n_centers,) array
        State of every centre; a state may have none.
    populations : (n_states,) array
        Share of the training frames in each state.
    """

    def __init__(self, centers: FloatArray, scale: FloatArray, states: IntArray, populations: FloatArray) -> None:
        super().__init__(populations, centers.shape[1])
        self.centers = centers
        self.scale = scale
        self.states = states

    def memberships(self, data: Any) -> Any:
        """Membership of every frame, (n_frames, n_states): one for its state, zero for the others."""
        return self._each(data, lambda x: np.eye(self.n_states)[self.states[self._nearest(x)]])

    def _farthest(self) -> FloatArray:
        # Beyond it all centres are equally far to double precision.
        reach = MOST_SPREADS * float((np.ptp(self.centers, axis=0) / self.scale).max()) * self.scale
        return np.asarray(np.minimum(super()._farthest(), np.abs(self.centers).max(axis=0) + reach))

    def _nearest(self, frames: FloatArray) -> IntArray:
        return nearest_center(frames, self.centers, self.scale, self.states)

    def _contents(self) -> Contents:
        arrays = {"centers": self.centers, "scale": self.scale, "states": self.states, "populations": self.populations}
        return Contents(self._texts(), {**arrays, **self._visit_arrays()})

    def _states(self, frames: FloatArray) -> IntArray:
        """State of the nearest centre; distances of all states would take longer."""
        return self.states[self._nearest(frames)]

    def _scores(self, frames: FloatArray) -> FloatArray:
        distances = cdist(frames / self.scale, self.centers / self.scale)
        scores = np.full((len(frames), self.n_states), -np.inf)
        for state in np.unique(self.states):
            scores[:, state] = -distances[:, self.states == state].min(axis=1)
        return scores


def nearest_center(frames: FloatArray, centers: FloatArray, scale: FloatArray, states: IntArray) -> IntArray:
    """Index of the nearest centre of each frame; halfway between several, one of the first state."""
    by_state = np.argsort(states, kind="stable")
    return np.asarray(by_state[assign(frames / scale, centers[by_state] / scale)])


def ordered_states(
    frames: FloatArray, centers: FloatArray, scale: FloatArray, states: IntArray, n_states: int
) -> tuple[IntArray, FloatArray]:
    """Order of the states by falling population, and the populations in that order.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [1.1]])
    >>> order, populations = ordered_states(x, x[:2], np.ones(1), np.array([0, 1]), 2)
    >>> order.tolist(), populations.round(2).tolist()
    ([1, 0], [0.67, 0.33])
    """

    def counted(numbered: IntArray) -> IntArray:
        return np.bincount(numbered[nearest_center(frames, centers, scale, numbered)], minlength=n_states)

    return order_by_population(counted, states, n_states)


def order_by_population(
    counted: Callable[[IntArray], IntArray], states: IntArray, n_states: int
) -> tuple[IntArray, FloatArray]:
    """Order of the states by falling population, and the populations in that order.

    Parameters
    ----------
    counted : callable
        Numbers of frames of all states, from the state of every centre.
    states : (n_centers,) array
        State of every centre, in any order of the states.
    n_states : int
    """
    order = np.arange(n_states)
    for _ in range(n_states + 1):
        counts = counted(np.argsort(order)[states])
        shares = counts / counts.sum()
        step = falling(shares)
        if (step == np.arange(n_states)).all():
            break
        # Frames halfway between states go to the first of them, so a new order may take some along.
        order = order[step]
    return order, shares


def stored_centers(contents: Contents) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
    """Arguments of `CentersModel` from a model file."""
    centers, populations = contents.array("centers", None, None), contents.shares("populations", None)
    scale = contents.positive("scale", centers.shape[1])
    states = contents.indices("states", len(centers), below=len(populations)).astype(np.intp)
    if len(populations) < 2:
        raise ModelFileError("it has a single state")
    if np.abs(centers).max() > LARGEST * scale.min():
        raise ModelFileError("its scales are too small for its centres")
    return centers, scale, states, populations
