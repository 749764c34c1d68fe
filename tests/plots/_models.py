"""A model that is no M3C: the nearest of some centres."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


class NearestCentre:
    """States around centres, with a margin in units of its own."""

    def __init__(self, centres: ArrayLike, frames: NDArray[np.float64], margin_unit: float = 1.0) -> None:
        self.centres = np.asarray(centres, dtype=np.float64)
        self.margin_unit = margin_unit
        self.n_states = len(self.centres)
        self.populations = np.bincount(self.transform(frames), minlength=self.n_states) / len(frames)

    def _distances(self, frames: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.linalg.norm(np.asarray(frames)[:, None] - self.centres, axis=2)

    def transform(self, frames: NDArray[np.float64]) -> NDArray[np.int32]:
        return self._distances(frames).argmin(axis=1).astype(np.int32)

    def margin(self, frames: NDArray[np.float64]) -> NDArray[np.float64]:
        nearest = np.sort(self._distances(frames), axis=1)
        return self.margin_unit * (nearest[:, 1] - nearest[:, 0])
