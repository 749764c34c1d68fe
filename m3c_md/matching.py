"""Comparison of labelings that number their states differently."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from m3c_md.exceptions import InputError

# Labels below this are counted as they are; others are sorted first.
FEW_STATES = 100


def agreement(labels_a: ArrayLike, labels_b: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Return the fraction of weight on which two labelings agree after the best matching of their labels.

    Examples
    --------
    >>> agreement([0, 0, 1, 1], [1, 1, 0, 1])
    0.75
    """
    try:
        first, second = np.asarray(labels_a), np.asarray(labels_b)
        mass = np.ones(first.shape) if weights is None else np.asarray(weights, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InputError(f"labels or weights cannot be read as arrays ({error}); give one number per frame") from error
    for name, labels in (("labels_a", first), ("labels_b", second)):
        named = labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels.flat)
        finite = labels.dtype.kind == "f" and bool(np.isfinite(labels).all())
        if labels.dtype.kind not in "iubUS" and not named and not finite:
            raise InputError(f"{name} holds labels of dtype {labels.dtype} that are no states; give whole numbers")
    if first.ndim != 1 or first.size == 0 or not first.shape == second.shape == mass.shape:
        raise InputError(
            f"need 1-d labels and weights of one length > 0, got {first.shape}, {second.shape}, {mass.shape}"
        )
    if not (mass >= 0).all() or not 0 < mass.sum() < np.inf:
        raise InputError("weights must be finite, not negative and not all zero")
    table = _shared_weight(first, second, mass)
    return min(1.0, float(table[linear_sum_assignment(table, maximize=True)].sum() / table.sum()))


def same_states(labels_a: NDArray[np.intp], labels_b: NDArray[np.intp], share: float) -> bool:
    """Return whether two labelings agree on a share of the frames and every state of one is a state of the other.

    A state is found again if more than half of what either labeling puts into it is put there by both, which no two
    states can be. Without that, labelings that differ in a rare state alone would be the same.

    Examples
    --------
    >>> rare = np.array([0] * 98 + [1] * 2)
    >>> same_states(rare, rare, 0.9), same_states(rare, rare[::-1], 0.9)
    (True, False)
    """
    table = _shared_weight(labels_a, labels_b, np.ones(len(labels_a)))
    rows, columns = linear_sum_assignment(table, maximize=True)
    both = table[rows, columns]
    either = table.sum(axis=1)[rows] + table.sum(axis=0)[columns] - both
    every_state = len(both) == max(table.shape) and bool((2.0 * both > either).all())
    return every_state and float(both.sum()) >= share * len(labels_a)


def _shared_weight(first: NDArray[Any], second: NDArray[Any], mass: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weight of the frames that one labeling puts into one state and the other into another, for all pairs."""
    (n_a, index_a), (n_b, index_b) = _numbered(first), _numbered(second)
    counts = np.bincount(index_a * n_b + index_b, weights=mass, minlength=n_a * n_b)
    return np.asarray(counts, dtype=np.float64).reshape(n_a, n_b)


def _numbered(labels: NDArray[np.generic]) -> tuple[int, NDArray[np.intp]]:
    """Labels as numbers from zero, and how many numbers there may be; those of states are such numbers already."""
    if np.issubdtype(labels.dtype, np.integer):
        numbers: NDArray[np.intp] = labels.astype(np.intp)
        if int(numbers.min()) >= 0 and int(numbers.max()) < FEW_STATES:
            return int(numbers.max()) + 1, numbers
    names, index = np.unique(labels, return_inverse=True)
    return len(names), index
