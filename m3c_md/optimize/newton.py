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

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.optimize.blocks import Blocks, PassSums, Rule, WindowBlock, distinct_frames
from m3c_md.optimize.curvature import MAX_HESSIAN_ENTRIES, WINDOWS_PER_UNKNOWN, hessian_stride
from m3c_md.optimize.kernels import compiled
from m3c_md.optimize.window_loss import label_tuples

Linear = Callable[[FloatArray], FloatArray]

# Curved windows that stand for all where these are at least twice as many: so many, or `WINDOWS_PER_UNKNOWN`, and so
# many supporting tuples. Below this width it takes more, as the root: the narrower, the more directions the regulariser
# leaves to the windows (12 states, 20,000 windows, gap 1e-3: 16 passes instead of 28). Then windows in the
# preconditioner.
FEWEST_WINDOWS = 3000
MAX_MEMBERS = 60_000
WIDE_SMOOTHING = 0.03
MAX_MEAN_WINDOWS = 1500
# What rounding leaves of a pivot that is zero, where all others are fractions of few tuples.
SMALLEST_PIVOT = 1e-9
# Ridge for the biases, which have no curvature of their own, as a share of the regularization.
BIAS_RIDGE = 1e-6
# Share of the gradient's norm that may be left over: much less takes more products, more takes more passes.
FORCING = 0.2
# Iterations that the matrix must be worth. Most steps need 2 to 15, those to the last digits of a small problem up to
# 100; with this limit three states of 200 features keep the matrix, for which it is faster, and five never do.
FEWEST_ITERATIONS = 20
# Costs in operations that the matrix and its factor take in the same time (1e8: 2 ms): thin products are slower, and
# every step, iteration and supporting tuple costs something, whatever the numbers of columns.
PRODUCT_PENALTY = 1.5
STEP_COST, ITERATION_COST, MEMBER_COST = 1e8, 5e6, 2e3


@dataclass(frozen=True)
class CurvedWindows:
    """The curved windows of a block and all that products with their curvature need.

    Attributes
    ----------
    n_states : int
    features : (n_frames, n_columns) array
        Of the frames in curved windows only, with a column of ones where the rule has a bias.
    windows : (n_slices, n_windows) array
        Rows of ``features``.
    support : (n_windows, n_tuples) boolean array
        Supporting tuples.
    cells : (n_members, n_slices) array
        One row for each supporting tuple, window after window: the places frame * n_states + state of its states.
    ends : (n_windows,) array
        Where the rows of each window end.
    factors : (n_windows,) array
        c_n / μ.
    """

    n_states: int
    features: NDArray[np.floating]
    windows: IntArray
    support: NDArray[np.bool_]
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

    def mean_rows(self, stride: int) -> NDArray[np.floating]:
        """Matrix A with AᵀA = the mean over the states of the blocks of the curvature that belong to one state.

        Every ``stride``-th window stands for all.
        """
        windows, support = self.windows[:, ::stride], self.support[::stride].astype(np.float64)
        roots = np.sqrt(stride / self.n_states * self.factors[::stride])
        rows = []
        coupling = _slice_coupling(support, len(windows), self.n_states)
        for i, frames in enumerate(windows):  # Cholesky's method in all windows at once
            some = np.flatnonzero(coupling[i, i] > SMALLEST_PIVOT)
            column = coupling[i:, i, some] / np.sqrt(coupling[i, i, some])
            coupling[i:, i:, some] -= column[:, None] * column
            scale = (roots[some] * column).astype(self.features.dtype)
            part = scale[0, :, None] * self.features[frames[some]]
            for factor, others in zip(scale[1:], windows[i + 1 :], strict=True):
                part += factor[:, None] * self.features[others[some]]
            rows.append(part)
        return np.concatenate(rows)


def _slice_coupling(support: FloatArray, n_slices: int, n_states: int) -> FloatArray:
    """How the slices of windows bend the loss together, summed over the states, (n_slices, n_slices, n_windows).

    The number of supporting tuples with equal states in two slices, minus what their independence would give.
    """
    tuples = label_tuples(n_slices, n_states)
    counts = [support @ (tuples[:, i, None] == np.arange(n_states)) for i in range(n_slices)]
    coupling = np.empty((n_slices, n_slices, len(support)))
    for i in range(n_slices):
        for j in range(n_slices):
            together = support @ (tuples[:, i] == tuples[:, j])
            coupling[i, j] = together - (counts[i] * counts[j]).sum(axis=1) / support.sum(axis=1)
    return coupling


def curved_windows(
    blocks: Blocks, sums: PassSums, n_states: int, smoothing: float, bias: bool, *, thorough: bool = False
) -> list[CurvedWindows]:
    """Gather the curved windows of all blocks, or some of them, equally spaced, where they are many."""
    stride = _stride(*sums.n_curved, n_states * sums.gradient.shape[1], smoothing, thorough)
    return [
        _gathered(block, windows[::stride], support[::stride], n_states, stride / smoothing, bias)
        for block, (windows, support) in zip(blocks, sums.kinks, strict=True)
        if len(windows)
    ]


def _stride(n_windows: int, n_members: int, n_unknowns: int, smoothing: float, thorough: bool) -> int:
    """Distance between the windows that stand for all; where all of them are wanted, as many as fit into memory."""
    if thorough:
        return max(1, -(-n_windows * n_unknowns // MAX_HESSIAN_ENTRIES))
    excess = max(n_windows / max(FEWEST_WINDOWS, WINDOWS_PER_UNKNOWN * n_unknowns), n_members / MAX_MEMBERS)
    return max(1, int(excess * min(1.0, math.sqrt(smoothing / WIDE_SMOOTHING))))


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
    return CurvedWindows(n_states, features, windows, support, cells, ends, block.weights[chosen] * scale)


def affordable_iterations(
    sums: PassSums, smoothing: float, n_states: int, n_features: int, *, thorough: bool = False
) -> int:
    """Number of iterations that cost as much as the matrix and its factor; zero where the matrix is the cheaper way."""
    n_windows, n_members = sums.n_curved
    if n_windows == 0:
        return 0
    n_unknowns, n_columns = (n_states - 1) * (n_features + 1), n_features + 1
    # The factor always is in double precision: counted twice.
    n_rows = (n_members - n_windows) / hessian_stride(n_windows, n_members, n_states * n_features, thorough=thorough)
    matrix = n_rows * n_unknowns**2 + 2 * n_unknowns**3 / 3
    mean = min(n_windows, MAX_MEAN_WINDOWS) * n_columns**2 + 2 * n_columns**3 / 3
    stride = _stride(n_windows, n_members, n_states * n_features, smoothing, thorough)
    n_slices = round(math.log(sums.kinks[0][1].shape[1], n_states))
    product = 4 * n_slices * (n_windows / stride) * n_columns * n_states
    left = matrix - STEP_COST - PRODUCT_PENALTY * mean - MEMBER_COST * n_members / stride
    n_iterations = int(left / (ITERATION_COST + PRODUCT_PENALTY * product))
    return n_iterations if n_iterations >= FEWEST_ITERATIONS else 0


def conjugate_direction(
    blocks: Blocks,
    rule: Rule,
    sums: PassSums,
    smoothing: float,
    regularization: float,
    bias: bool,
    max_iterations: int,
    *,
    thorough: bool = False,
) -> tuple[Rule, float] | None:
    """Nearly the Newton direction of the smoothed objective, and its slope there; None where the iteration fails.

    All vectors sum to zero over the states, as gradients do: the common part of all states changes no loss.
    """
    n_states, n_features = rule.weights.shape
    gradient = np.column_stack([sums.gradient + regularization * rule.weights, sums.bias_gradient])
    ridge = np.append(np.full(n_features, regularization), BIAS_RIDGE * regularization)
    gradient, ridge = gradient[:, : n_features + bias], ridge[: n_features + bias]
    gradient = gradient - gradient.mean(axis=0)
    parts = curved_windows(blocks, sums, n_states, smoothing, bias, thorough=thorough)
    precondition = _preconditioner(parts, ridge)
    if precondition is None:
        return None

    def product(step: FloatArray) -> FloatArray:
        return sum((part.times(step) for part in parts), ridge * step)

    step, reached = conjugate_gradients(product, precondition, -gradient, max_iterations)
    step -= step.mean(axis=0)  # what rounding in single precision has added
    slope = float((step * gradient).sum())
    if not reached or not slope <= 0.0:
        return None
    return Rule(step[:, :n_features], step[:, n_features] if bias else np.zeros(n_states)), slope


def _preconditioner(parts: list[CurvedWindows], ridge: FloatArray) -> Linear | None:
    """Solve with one matrix for all states, the mean of their own blocks; None where that has no factor."""
    stride = max(1, -(-sum(len(part.ends) for part in parts) // MAX_MEAN_WINDOWS))
    matrix = np.diag(ridge)
    for part in parts:
        rows = part.mean_rows(stride)
        matrix += rows.T @ rows
    # Single precision leaves errors of this size, which the regulariser may be too small to cover.
    matrix[np.diag_indices_from(matrix)] += 1e-7 * float(np.diag(matrix).max())
    try:
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    return lambda right: np.ascontiguousarray(cho_solve(factor, right.T, check_finite=False).T)


def conjugate_gradients(
    product: Linear, precondition: Linear, right: FloatArray, max_iterations: int
) -> tuple[FloatArray, bool]:
    """Solve product(x) = right until the residual is small; return x and whether that was reached."""
    solution, residual = np.zeros_like(right), right
    left = float((residual**2).sum())
    enough = FORCING**2 * left
    along, power = np.zeros_like(right), 1.0
    for _ in range(max_iterations):
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
