"""A rule by least squares: where the large-margin problem starts from when all that is known is labels."""

from __future__ import annotations

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError
from m3c_md.optimize.blocks import Blocks, ClassSums, Rule
from m3c_md.optimize.large_margin import solve_definite

# Lead of the own state over each other one that least squares aims at: what the margin asks for, and a little more.
TARGET_LEAD = 1.5


def second_moments(blocks: Blocks) -> FloatArray:
    """Σ c_n Σ_i φφᵀ over all slices, φ extended by a one for the bias; the same for all labels."""
    total: FloatArray | None = None
    for block in blocks:
        mass = np.zeros(len(block.features))
        for frames in block.windows:
            mass += np.bincount(frames, weights=block.weights, minlength=len(mass))
        weighty = np.flatnonzero(mass > 0.0)
        root = np.sqrt(mass[weighty]).astype(block.features.dtype)[:, None]
        extended = np.hstack([block.features[weighty] * root, root])
        part = np.asarray(extended.T @ extended, dtype=np.float64)
        total = part if total is None else total + part
    if total is None:
        raise InputError("no blocks: the problem has no data")
    return total


def least_squares_rule(moments: FloatArray, classes: ClassSums, regularization: float) -> Rule:
    """Rule whose scores are closest to TARGET_LEAD (e_y - 1/κ) on the slices of all windows.

    A linear problem with one matrix for all labels: a start for many labelings costs hardly more than for one. It is
    much nearer to the large-margin rule than the zero rule is.

    Examples
    --------
    >>> from m3c_md.optimize.blocks import WindowBlock, class_sums
    >>> block = WindowBlock(np.array([[-1.0], [1.0]]), np.array([[0, 1]]), np.array([0.5, 0.5]))
    >>> rule = least_squares_rule(second_moments([block]), class_sums([block], np.array([0, 1]), 2), 1e-9)
    >>> rule.weights.round(3).ravel().tolist()
    [-0.75, 0.75]
    """
    n_states, n_features = classes.features.shape
    targets = TARGET_LEAD * (np.eye(n_states) - 1.0 / n_states)
    sums = np.column_stack([classes.features, classes.n_slices * classes.shares])
    # The biases are not regularised; the last entry only keeps the matrix definite.
    ridge = np.append(np.full(n_features, regularization), 1e-9)
    # Moments of single precision may lack the last digits that a small regularization needs.
    solution = solve_definite(moments + np.diag(ridge), sums.T @ targets).T
    return Rule(np.ascontiguousarray(solution[:, :n_features]), solution[:, n_features].copy())
