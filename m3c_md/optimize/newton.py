"""Newton's direction where unknowns are many: conjugate gradients, with products of a Hessian that is never formed.

The generalised Hessian of the smoothed risk is Σ c_n J_nᵀ (I_S - 11ᵀ/|S|) J_n / μ over windows with several supporting
tuples S. Between two products with features it works on the scores of frames alone, where a curved window costs a few
additions: one product costs n_frames n_states n_features, the matrix n_rows (n_states n_features)².
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import csr_array

from m3c_md.optimize.blocks import MAX_HESSIAN_ROWS, Blocks, PassSums, Rule, WindowBlock, distinct_frames
from m3c_md.optimize.kernels import compiled
from m3c_md.optimize.window_loss import label_tuples

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
Linear = Callable[[FloatArray], FloatArray]

# Supporting tuples that may enter the products of a step: of more windows, some stand for all.
MAX_MEMBERS = 20_000
# Share of the gradient's norm that may be left over: with 0.3 more passes are needed, with 0.03 more products.
FORCING = 0.1
# An iteration that has not come to its end by then is as expensive as the matrix, or more: it is given up.
MAX_ITERATIONS = 200
# For the choice between the two ways: iterations of a step (2 to 15 until the last digits are asked for, then up to
# 100), the speed of thin products relative to that of the matrix, and what steps cost whatever their size, in
# operations (3 ms).
USUAL_ITERATIONS = 20
PRODUCT_PENALTY = 1.5
OVERHEAD = 1.5e8


@dataclass(frozen=True)
class CurvedWindows:
    """The curved windows of a block and all that products with their curvature need.

    Attributes
    ----------
    features : (n_frames, n_columns) array
        Of the frames in curved windows only, with a column of ones where the rule has a bias.
    cells : (n_members, n_slices) array
        One row for each supporting tuple, window after window: the places frame * n_states + state of its states.
    ends : (n_windows,) array
        Where the rows of each window end.
    factors : (n_windows,) array
        c_n / μ.
    """

    features: NDArray[np.floating]
    cells: IntArray
    ends: IntArray
    factors: FloatArray

    def slopes(self, change: NDArray[np.floating]) -> NDArray[np.floating]:
        """How the derivatives with respect to the scores change with the scores, both (n_frames, n_states)."""
        loops = compiled()
        if loops is not None:
            slopes = np.zeros_like(change)
            loops.curvature_product_loop(change.ravel(), self.cells, self.ends, self.factors, slopes.ravel())
            return slopes
        sizes = np.diff(self.ends, prepend=0)
        moves = change.ravel()[self.cells].sum(axis=1)
        moves -= np.repeat(np.add.reduceat(moves, self.ends - sizes) / sizes, sizes)
        moves *= np.repeat(self.factors, sizes)
        totals = np.bincount(self.cells.ravel(), np.repeat(moves, self.cells.shape[1]), minlength=change.size)
        return totals.reshape(change.shape).astype(change.dtype, copy=False)

    def times(self, step: FloatArray) -> FloatArray:
        """Product of the curvature with a change of the rule, (n_states, n_columns)."""
        change = self.features @ np.ascontiguousarray(step.T, dtype=self.features.dtype)
        return np.asarray(self.slopes(change).T @ self.features, dtype=np.float64)

    def mean_block(self, n_states: int) -> FloatArray:
        """Mean over the states of the blocks of the curvature that belong to one state, (n_columns, n_columns)."""
        n_slices, n_windows = self.cells.shape[1], len(self.ends)
        sizes = np.diff(self.ends, prepend=0)
        owner = np.repeat(np.arange(n_windows), sizes)
        frames, states = self.cells[self.ends - sizes] // n_states, self.cells % n_states
        counts = [
            np.bincount(owner * n_states + states[:, i], minlength=n_windows * n_states).reshape(n_windows, n_states)
            for i in range(n_slices)
        ]
        rows, columns, values = [], [], []
        for i in range(n_slices):
            for j in range(n_slices):
                equal = np.bincount(owner, states[:, i] == states[:, j], minlength=n_windows)
                rows.append(frames[:, i])
                columns.append(frames[:, j])
                values.append(self.factors * (equal - (counts[i] * counts[j]).sum(axis=1) / sizes))
        n_frames, precision = len(self.features), self.features.dtype
        places = (np.concatenate(rows), np.concatenate(columns))
        coupling = csr_array((np.concatenate(values).astype(precision), places), shape=(n_frames, n_frames))
        return np.asarray(self.features.T @ (coupling @ self.features), dtype=np.float64) / n_states


def curved_windows(blocks: Blocks, sums: PassSums, n_states: int, smoothing: float, bias: bool) -> list[CurvedWindows]:
    """Gather the curved windows of all blocks, or some of them, equally spaced, where they are many."""
    n_members = sum(int(np.count_nonzero(support)) for _, support in sums.kinks)
    stride = max(1, -(-n_members // MAX_MEMBERS))
    return [
        _gathered(block, windows[::stride], support[::stride], n_states, stride / smoothing, bias)
        for block, (windows, support) in zip(blocks, sums.kinks, strict=True)
        if len(windows)
    ]


def _gathered(
    block: WindowBlock, chosen: IntArray, support: NDArray[np.bool_], n_states: int, scale: float, bias: bool
) -> CurvedWindows:
    """Gather some windows of a block whose supporting tuples are known."""
    frames, windows = distinct_frames(block.windows[:, chosen])
    n_features = block.features.shape[1]
    features = np.ones((len(frames), n_features + bias), block.features.dtype)
    features[:, :n_features] = block.features[frames]
    owner, tuples = np.nonzero(support)
    cells = windows.T[owner] * n_states + label_tuples(len(windows), n_states)[tuples]
    ends = np.cumsum(np.bincount(owner, minlength=len(chosen)))
    return CurvedWindows(features, cells, ends, block.weights[chosen] * scale)


def products_pay(sums: PassSums, n_states: int, n_features: int) -> bool:
    """Whether conjugate gradients promise to cost less than the matrix and its factor, by the numbers of operations."""
    n_windows = sum(len(support) for _, support in sums.kinks)
    if n_windows == 0:
        return False
    n_members = sum(int(np.count_nonzero(support)) for _, support in sums.kinks)
    n_unknowns, n_columns = (n_states - 1) * (n_features + 1), n_features + 1
    # The factor always is in double precision: counted twice.
    direct = min(n_members - n_windows, MAX_HESSIAN_ROWS) * n_unknowns**2 + 2 * n_unknowns**3 / 3
    n_slices = round(math.log(sums.kinks[0][1].shape[1], n_states))
    n_frames = n_slices * n_windows * min(1.0, MAX_MEMBERS / n_members)
    preparation = 2 * n_frames * n_columns**2 + 2 * n_columns**3 / 3
    iterations = USUAL_ITERATIONS * 4 * n_frames * n_columns * n_states
    return direct > OVERHEAD + PRODUCT_PENALTY * (preparation + iterations)


def conjugate_direction(
    blocks: Blocks, rule: Rule, sums: PassSums, smoothing: float, regularization: float, bias: bool
) -> tuple[Rule, float] | None:
    """Nearly the Newton direction of the smoothed objective, and its slope there; None where the iteration fails.

    All vectors sum to zero over the states, as gradients do: the common part of all states changes no loss.
    """
    n_states, n_features = rule.weights.shape
    gradient = np.column_stack([sums.gradient + regularization * rule.weights, sums.bias_gradient])
    ridge = np.append(np.full(n_features, regularization), 1e-6 * regularization)  # as in the direct solver
    gradient, ridge = gradient[:, : n_features + bias], ridge[: n_features + bias]
    gradient = gradient - gradient.mean(axis=0)
    parts = curved_windows(blocks, sums, n_states, smoothing, bias)
    precondition = _preconditioner(parts, n_states, ridge)
    if precondition is None:
        return None

    def product(step: FloatArray) -> FloatArray:
        return sum((part.times(step) for part in parts), ridge * step)

    step, reached = conjugate_gradients(product, precondition, -gradient)
    slope = float((step * gradient).sum())
    if not reached or not slope <= 0.0:
        return None
    return Rule(step[:, :n_features], step[:, n_features] if bias else np.zeros(n_states)), slope


def _preconditioner(parts: list[CurvedWindows], n_states: int, ridge: FloatArray) -> Linear | None:
    """Solve with one matrix for all states, the mean of their own blocks; None where that has no factor."""
    matrix = sum((part.mean_block(n_states) for part in parts), np.diag(ridge))
    # Single precision leaves errors of this size, which the regulariser may be too small to cover.
    matrix[np.diag_indices_from(matrix)] += 1e-7 * float(np.diag(matrix).max())
    try:
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    return lambda right: np.ascontiguousarray(cho_solve(factor, right.T, check_finite=False).T)


def conjugate_gradients(product: Linear, precondition: Linear, right: FloatArray) -> tuple[FloatArray, bool]:
    """Solve product(x) = right until the residual is small; return x and whether that was reached."""
    solution, residual = np.zeros_like(right), right
    left = float((residual**2).sum())
    enough = FORCING**2 * left
    along, power = np.zeros_like(right), 1.0
    for _ in range(MAX_ITERATIONS):
        if left <= enough:
            break
        turned = precondition(residual)
        before, power = power, float((residual * turned).sum())
        along = turned + (power / before) * along
        image = product(along)
        bend = float((along * image).sum())
        if not 0.0 < bend < np.inf:  # rounding has taken the matrix's definiteness away, or there are no numbers left
            return solution, False
        solution = solution + (power / bend) * along
        residual = residual - (power / bend) * image
        left = float((residual**2).sum())
    return solution, left <= enough < np.inf
