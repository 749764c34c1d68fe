"""Micro states: a fine partition of the frames, for reweighting and for starts, never for the result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.frames.windows import WindowSet
from m3c_md.optimize.metric import Metric
from m3c_md.partitions.k_means import k_means_cells
from m3c_md.partitions.nearest import at_most_distinct

# Frames that k-means sees: more of them move the centres by less than their own scatter.
MAX_POINTS = 4_000
# Rounds of k-means: cells need not be the best ones, only fine.
MAX_ROUNDS = 6


@dataclass(frozen=True)
class Microstates:
    """A fine partition of the frames.

    Attributes
    ----------
    centers : (n_microstates, n_directions) array
        In the coordinates in which the frames were partitioned.
    frames : (n_frames,) array
        Micro state of every frame.
    windows : (n_slices, n_windows) array
        Micro state of every slice of every window.
    """

    centers: FloatArray
    frames: IntArray
    windows: IntArray

    @property
    def n_microstates(self) -> int:
        """Number of micro states."""
        return len(self.centers)

    def counts(self, weights: FloatArray) -> FloatArray:
        """Weighted transition counts from the first to the last slice of the windows."""
        n = self.n_microstates
        pairs = self.windows[0] * n + self.windows[-1]
        return np.bincount(pairs, weights=weights, minlength=n * n).reshape(n, n).astype(np.float64, copy=False)


def find_microstates(data: WindowSet, metric: Metric, rng: np.random.Generator) -> Microstates:
    """Partition the frames by k-means into min(200, 2 sqrt(N)) cells (fewer if there are fewer distinct frames)."""
    points = metric(data.frames)
    wanted = at_most_distinct(points, min(200, int(2.0 * np.sqrt(data.n_windows))))
    centers, cells = k_means_cells(points, wanted, rng, max_points=MAX_POINTS, max_iterations=MAX_ROUNDS)
    return Microstates(centers, cells, cells[data.windows])
