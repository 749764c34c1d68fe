"""Weights of windows towards the relaxed distribution.

Trajectories that start far from equilibrium spend their first steps rolling downhill. These steps cross the borders
of the right decomposition as if the system did so at equilibrium, and charge them to it (design notes: Model II).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.frames.weights import weights_of_ratios
from m3c_md.partitions.microstates import Microstates


def relaxed_ratios(cells: Microstates, horizon: int) -> FloatArray:
    """How much rarer or more frequent each cell would be if the data had gone on for another ``horizon`` lag times.

    The empirical distribution is propagated, p_m = p_0 T^m; a window in cell i has the ratio p_m(i) / n(i).
    """
    n_windows = cells.windows.shape[1]
    counts = cells.counts(np.ones(n_windows))
    visits = counts.sum(axis=1)
    start = visits / n_windows
    # Where a trajectory ends in a cell that is never left, it is taken to start anew: nothing is lost in there.
    counts[visits == 0.0] = start
    transition = counts / counts.sum(axis=1, keepdims=True)
    relaxed = start @ np.linalg.matrix_power(transition, horizon)
    return np.asarray(relaxed / np.maximum(visits, 1.0))


def relaxed_weights(partitions: Sequence[Microstates], horizon: int) -> FloatArray:
    """Weight windows as if the data had gone on for another ``horizon`` lag times."""
    return weights_of_ratios([relaxed_ratios(cells, horizon)[cells.windows[0]] for cells in partitions])
