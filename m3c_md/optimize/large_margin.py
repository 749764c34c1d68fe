"""The large-margin problem for fixed labels: minimise β/2 |W|² + Σ_n c_n ξ_n(W, b) (paper, eq. m3c with y fixed).

Newton's method on the smoothed loss, the smoothing continued towards zero until the duality gap of the problem
*without* smoothing is small enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from m3c_md.optimize.blocks import PassSums, Rule, WindowBlock, WindowBlocks, class_sums, curvature, pass_sums
from m3c_md.optimize.certificate import constant_dual, feasible_dual
from m3c_md.optimize.window_loss import orthonormal_contrasts

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


@dataclass(frozen=True)
class LargeMarginResult:
    """Solution of the large-margin problem, with its certificate.

    Attributes
    ----------
    rule : Rule
    objective, lower_bound : float
        β/2 |W|² + Σ c ξ at ``rule``, and the value of a feasible dual point.
    passes : int
        How many times the data were touched.
    converged : bool
        Whether the requested gap was reached.
    trace : list of (passes, smoothing, objective, lower_bound)
    """

    rule: Rule
    objective: float
    lower_bound: float
    passes: int
    converged: bool
    trace: list[tuple[int, float, float, float]] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """Relative duality gap."""
        return relative_gap(self.objective, self.lower_bound)

    @property
    def smoothing(self) -> float:
        """Last width of the smoothing."""
        return self.trace[-1][1]


def relative_gap(objective: float, lower_bound: float) -> float:
    """(objective - lower bound) / objective, never negative (rounding)."""
    return max(objective - lower_bound, 0.0) / max(objective, np.finfo(float).tiny)


def solve_large_margin(
    blocks: WindowBlocks | list[WindowBlock],
    labels: IntArray,
    n_states: int,
    regularization: float,
    *,
    bias: bool = True,
    tolerance: float = 1e-4,
    start: Rule | None = None,
    smoothing: float = 2.0,
    max_passes: int = 500,
) -> LargeMarginResult:
    """Solve the large-margin problem for fixed labels to a certified relative duality gap.

    Parameters
    ----------
    blocks : iterable of WindowBlock
        The data; iterated once per pass.
    labels : (n_windows,) array
        State of every window, in the order of the blocks. Every state must occur.
    n_states, regularization : int, float
        κ and β.
    bias : bool
        Whether the rule has the unregularised offsets b_k.
    tolerance : float
        Relative duality gap at which to stop.
    start : Rule, optional
        Warm start. The result is never worse than this.
    smoothing : float
        First width μ of the smoothing; a warm start deserves a smaller one.
    max_passes : int
        Limit; the result says whether it was ``converged``.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[-1.0], [-2.0], [1.0], [2.0]])
    >>> block = WindowBlock(x, np.arange(4)[None], np.full(4, 0.25))
    >>> result = solve_large_margin([block], np.array([0, 0, 1, 1]), 2, 0.01)
    >>> result.rule.weights.round(2).tolist(), result.gap <= 1e-4  # w_1 - w_0 = 1: x = ±1 lie at margin 1
    ([[-0.5], [0.5]], True)
    """
    classes = class_sums(blocks, labels, n_states)
    if not (classes.shares > 0.0).all():
        empty = int(np.argmin(classes.shares))
        raise ValueError(f"state {empty} has no window of positive weight; give every state at least one")
    zero = Rule(np.zeros_like(classes.features), np.zeros(n_states))
    rule = zero if start is None else _centered(start, bias)

    def evaluate(at: Rule, width: float) -> PassSums:
        return pass_sums(blocks, labels, at, width)

    dual = constant_dual(classes)
    sums = evaluate(rule, smoothing)
    passes = 2
    best_rule, best = rule, np.inf
    trace: list[tuple[int, float, float, float]] = []
    while True:
        penalty = 0.5 * regularization * float((rule.weights**2).sum())
        if penalty + sums.loss < best:
            best_rule, best = rule, penalty + sums.loss
        dual = dual.improved_by(feasible_dual(sums, classes, bias=bias), regularization)
        lower_bound = dual.value(regularization)
        trace.append((passes, smoothing, best, lower_bound))
        if relative_gap(best, lower_bound) <= tolerance or passes >= max_passes or smoothing < 1e-14:
            break
        if penalty + sums.loss - lower_bound <= 4.0 * sums.slack:
            # What is left is mostly the smoothing's own error: time for a smaller width.
            smoothing *= np.clip(0.5 * tolerance * best / sums.slack, 0.1, 0.5)
            sums = evaluate(rule, smoothing)
            passes += 1
        hessian = curvature(blocks, sums, n_states, smoothing)
        direction, slope = _newton_direction(rule, sums, hessian, regularization, bias)
        value = penalty + sums.smoothed
        length = 1.0
        while passes < max_passes:
            trial = rule.moved(direction, length)
            trial_sums = evaluate(trial, smoothing)
            passes += 1
            trial_value = 0.5 * regularization * float((trial.weights**2).sum()) + trial_sums.smoothed
            if trial_value <= value + 1e-4 * length * slope:
                rule, sums = trial, trial_sums
                break
            # Minimiser of the parabola through value, slope and trial value, kept within a safe range.
            parabola = -0.5 * slope * length**2 / (trial_value - value - slope * length)
            length = float(np.clip(parabola, 0.1 * length, 0.5 * length))
            if length < 1e-10:  # no descent left in floating point: only a smaller width can help
                smoothing *= 0.25
                sums = evaluate(rule, smoothing)
                passes += 1
                break
    return LargeMarginResult(best_rule, best, lower_bound, passes, relative_gap(best, lower_bound) <= tolerance, trace)


def _centered(rule: Rule, bias: bool) -> Rule:
    """Remove the common part of all states: it changes no loss, and without it |W|² is smallest."""
    offsets = rule.bias - rule.bias.mean() if bias else np.zeros_like(rule.bias)
    return Rule(rule.weights - rule.weights.mean(axis=0), offsets)


def _newton_direction(
    rule: Rule, sums: PassSums, hessian: FloatArray, regularization: float, bias: bool
) -> tuple[Rule, float]:
    """Newton direction of the smoothed objective in contrast coordinates, and its slope there."""
    n_states, n_features = rule.weights.shape
    contrasts = orthonormal_contrasts(n_states)
    gradient = np.empty((n_states - 1, n_features + 1))
    gradient[:, :n_features] = contrasts.T @ (sums.gradient + regularization * rule.weights)
    gradient[:, n_features] = contrasts.T @ sums.bias_gradient
    diagonal = np.full((n_states - 1, n_features + 1), regularization)
    # The bias has no curvature of its own; the small ridge only guards against a singular matrix.
    diagonal[:, n_features] = 1e-6 * regularization if bias else np.inf
    if not bias:
        keep = np.isfinite(diagonal.ravel())
        hessian, gradient, diagonal = hessian[np.ix_(keep, keep)], gradient[:, :n_features], diagonal[:, :n_features]
    hessian[np.diag_indices_from(hessian)] += diagonal.ravel()
    step = -cho_solve(cho_factor(hessian, lower=True, overwrite_a=True), gradient.ravel()).reshape(gradient.shape)
    slope = float((step * gradient).sum())
    moves = contrasts @ step
    offsets = moves[:, n_features] if bias else np.zeros(n_states)
    return Rule(moves[:, :n_features], offsets), slope
