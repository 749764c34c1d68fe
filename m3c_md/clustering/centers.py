"""Models whose states are unions of cells around centres: a frame has the state of its nearest centre."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from m3c_md.clustering.face import StateModel, falling
from m3c_md.search.coarse_graining import assign

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


class CentersModel(StateModel):
    """States as unions of Voronoi cells; scores are minus the distance to the nearest centre of each state.

    Parameters
    ----------
    centers : (n_centers, n_columns) array
    scale : (n_columns,) array
        Divisors of the columns, applied before distances are measured.
    states : (n_centers,) array
        State of every centre, numbered anyhow; they are renumbered by falling population.
    frames : (n_frames, n_columns) array
        Training frames, to count populations.
    n_states : int
        Some states may hold no centre; they are the last.

    Attributes
    ----------
    states : (n_centers,) array
        State of every centre.
    order : (n_states,) array
        The number that each state had before.
    """

    def __init__(
        self, centers: FloatArray, scale: FloatArray, states: IntArray, frames: FloatArray, n_states: int
    ) -> None:
        self.scale = scale
        self.order = np.arange(n_states)
        self._set_centers(centers, states)
        for _ in range(n_states + 1):
            shares = np.bincount(self.states[self._nearest(frames)], minlength=n_states) / len(frames)
            order = falling(shares)
            if (order == np.arange(n_states)).all():
                break
            # Frames halfway between states go to the first of them, so a new order may take some along.
            self.order = self.order[order]
            self._set_centers(centers, np.argsort(order)[self.states])
        super().__init__(shares, centers.shape[1])

    def _set_centers(self, centers: FloatArray, states: IntArray) -> None:
        self.centers = centers
        self.states = states
        self._by_state: IntArray = np.argsort(states, kind="stable")

    def transform(self, data: Any) -> Any:
        """State of every frame: that of its nearest centre, see `StateModel.transform`."""
        return self._each(data, lambda x: self.states[self._nearest(x)].astype(np.int32))

    def memberships(self, data: Any) -> Any:
        """Membership of every frame, (n_frames, n_states): one for its state, zero for the others."""
        return self._each(data, lambda x: np.eye(self.n_states)[self.states[self._nearest(x)]])

    def _nearest(self, frames: FloatArray) -> IntArray:
        """Nearest centre; halfway between several, one of the first state."""
        return self._by_state[assign(frames / self.scale, self.centers[self._by_state] / self.scale)]

    def _scores(self, frames: FloatArray) -> FloatArray:
        distances = cdist(frames / self.scale, self.centers / self.scale)
        scores = np.full((len(frames), self.n_states), -np.inf)
        for state in np.unique(self.states):
            scores[:, state] = -distances[:, self.states == state].min(axis=1)
        return scores
