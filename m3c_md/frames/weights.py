"""Weights of windows from ratios: how much rarer or more frequent each would be in relaxed data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray, IntArray

# Bounds on a weight relative to the uniform one: no few windows decide alone, and none is ignored. A process seen
# once in one direction only (a helix that melts and does not refold) would otherwise be weighted away.
WEIGHT_BOUNDS = (0.05, 20.0)
# Share of the weight that a state has at least where a rule is fitted.
LEAST_WEIGHT = 0.05
# Windows of a state from which on it is lifted.
LIFTED_WINDOWS = 8


def weights_of_ratios(ratios: Sequence[NDArray[np.floating]]) -> FloatArray:
    """Normalised weights of windows from their ratios, averaged over partitions to lessen the influence of one."""
    total = np.asarray(np.sum(ratios, axis=0, dtype=np.float64))
    weights = clipped_ratios(total, float(total.mean()))
    return np.asarray(weights / weights.sum())


def clipped_ratios(ratios: NDArray[np.floating], mean: float) -> FloatArray:
    """Weights of windows before they are normalised; ``mean`` is that of the ratios of all windows.

    Where all ratios vanish (see `nothing_relaxed`) windows count alike.
    """
    if nothing_relaxed(mean):
        return np.ones(len(ratios))
    return np.clip(ratios.astype(np.float64) / mean, *WEIGHT_BOUNDS)


def nothing_relaxed(mean: float) -> bool:
    """Whether the data would all have gone to where no window begins, so that ratios say nothing.

    Examples
    --------
    >>> nothing_relaxed(0.0), nothing_relaxed(1e-3)
    (True, False)
    """
    return not 0.0 < mean < np.inf


def effective_sample(weights: FloatArray) -> float:
    """(Σ w)² / (N Σ w²): one for uniform weights, 1/N if one window has them all.

    Examples
    --------
    >>> effective_sample(np.array([1.0, 1.0, 0.0, 0.0]))
    0.5
    """
    return min(1.0, float(weights.sum() ** 2 / (len(weights) * (weights**2).sum())))


def lifted(weights: FloatArray, labels: IntArray, n_states: int, *, fully: bool = False) -> FloatArray:
    """Weights of windows, normalised, in which no state counts less than a share of `LEAST_WEIGHT`.

    A state of weight p is given up where leaving its windows wrong, at a cost of 3p, is cheaper than telling them
    apart. That a state is rare says nothing against it; that it has a handful of windows does: any rule with many
    features tells them apart. So states of few windows are lifted less, unless they are to be lifted ``fully``.
    """
    heavier = weights * lift_factors(weights, labels, n_states, fully=fully)[labels]
    return np.asarray(heavier / heavier.sum())


def lift_factors(weights: FloatArray, labels: IntArray, n_states: int, *, fully: bool = False) -> FloatArray:
    """By how much the windows of each state count more, (n_states,); one for all but the rare ones.

    Examples
    --------
    >>> lift_factors(np.ones(4000), np.repeat([0, 1], [3960, 40]), 2).tolist()
    [1.0, 5.0]
    """
    mass = np.bincount(labels, weights=weights, minlength=n_states) / weights.sum()
    number = np.bincount(labels, minlength=n_states)
    wanted = LEAST_WEIGHT / np.maximum(mass, np.finfo(float).tiny)
    return np.asarray(np.maximum(1.0, wanted if fully else np.minimum(wanted, number / LIFTED_WINDOWS)))
