"""The large-margin problem for fixed labels: minimise β/2 |W|² + Σ_n c_n ξ_n(W, b) (paper, eq. m3c with y fixed).

Newton's method on the smoothed loss, the smoothing continued towards zero until the duality gap of the problem
*without* smoothing is small enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.exceptions import InputError, SolverError
from m3c_md.optimize.blocks import Blocks, ClassSums, PassSums, Rule, class_sums, frame_scores, pass_sums, thinned
from m3c_md.optimize.certificate import constant_dual, feasible_dual
from m3c_md.optimize.curvature import curvature
from m3c_md.optimize.line_risk import RiskAlongLine
from m3c_md.optimize.newton import BIAS_RIDGE, affordable_iterations, conjugate_direction
from m3c_md.optimize.window_loss import orthonormal_contrasts

# Largest and smallest reduction of the smoothing's width at a time, and the width below which rounding rules.
SHRINKAGE = (0.1, 0.5)
SMALLEST_SMOOTHING = 1e-14
# The line search ends where the derivative along the line has fallen to this share of its first value.
FLATNESS = 0.2
MAX_LINE_STEPS = 30
# Steps after which a problem is left as it is.
MAX_PASSES = 500
# Share of the largest diagonal entry that a ridge may grow to before a matrix is given up, and what to do then.
LARGEST_RIDGE = 1e6
REMEDY = "raise regularization, use another bandwidth, or look for extreme values in the features"
# Windows of the sample that a cold start of a large problem begins with, and its gap: a smaller one than chance makes
# between a sample of this size and all windows would be of no use.
SAMPLE_SIZE = 1500
SAMPLE_GAP = 1e-2
# A width is narrowed as soon as the gap is no more than so many times the error that it makes: Newton steps within one
# width converge fast at its end, and the last of them would be lost on a problem that is about to change.
MOSTLY_SMOOTHING = 4.0
# Steps in a row that are shorter than this share of Newton's before curvature is taken from all windows: some of them
# may leave a direction open along which the others bend (281 passes became 22 on data rounded to one digit).
SHORT_STEP = 0.25
SHORT_STEPS = 2
# Share of a bracket, at either end, where the secant of the line search may not end: the bracket would hardly shrink.
LEAST_CUT = 0.1
# First ridge as a share of the largest diagonal entry: a hundred roundings of double precision.
FIRST_RIDGE = 1e-14


@dataclass(frozen=True)
class LargeMarginResult:
    """Solution of the large-margin problem, with its certificate.

    Attributes
    ----------
    rule : Rule
    objective, lower_bound : float
        β/2 |W|² + Σ c ξ at ``rule``, and the value of a feasible dual point.
    passes : int
        How many times the scores and gradients of all frames were computed.
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
    blocks: Blocks,
    labels: IntArray,
    n_states: int,
    regularization: float,
    *,
    bias: bool = True,
    tolerance: float = 1e-4,
    start: Rule | None = None,
    smoothing: float = 0.5,
    max_passes: int = MAX_PASSES,
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
    >>> from m3c_md.optimize.blocks import WindowBlock
    >>> x = np.array([[-1.0], [-2.0], [1.0], [2.0]])
    >>> block = WindowBlock(x, np.arange(4)[None], np.full(4, 0.25))
    >>> result = solve_large_margin([block], np.array([0, 0, 1, 1]), 2, 0.01)
    >>> result.rule.weights.round(2).tolist(), result.gap <= 1e-4  # w_1 - w_0 = 1: x = ±1 lie at margin 1
    ([[-0.5], [0.5]], True)
    """
    classes = class_sums(blocks, labels, n_states)
    if not (classes.shares > 0.0).all():
        empty = int(np.argmin(classes.shares))
        raise InputError(f"state {empty} has no window of positive weight; give every state at least one")
    if start is None and len(labels) >= 4 * SAMPLE_SIZE:
        start, smoothing = _sample_start(blocks, labels, classes, regularization, bias, smoothing)
    zero = Rule(np.zeros_like(classes.features), np.zeros(n_states))
    rule = zero if start is None else _centered(start, bias)
    scores = frame_scores(blocks, rule)
    sums = pass_sums(blocks, labels, rule, smoothing, scores)
    dual = constant_dual(classes)
    best_rule, best = rule, np.inf
    trace: list[tuple[int, float, float, float]] = []
    passes, n_short = 1, 0
    while True:
        objective = 0.5 * regularization * float((rule.weights**2).sum()) + sums.loss
        if objective < best:
            best_rule, best = rule, objective
        dual = dual.improved_by(feasible_dual(sums, classes, bias=bias), regularization)
        lower_bound = max(dual.value(regularization), 0.0)  # losses and penalties are not negative
        trace.append((passes, smoothing, best, lower_bound))
        if relative_gap(best, lower_bound) <= tolerance or passes >= max_passes or smoothing < SMALLEST_SMOOTHING:
            break
        if objective - lower_bound <= MOSTLY_SMOOTHING * sums.slack:
            # What is left is mostly the smoothing's own error: time for a smaller width.
            wanted = 0.5 * tolerance * best / sums.slack
            smoothing *= float(np.clip(wanted, *SHRINKAGE))
            sums = pass_sums(blocks, labels, rule, smoothing, scores)
        thorough = n_short >= SHORT_STEPS
        direction, slope = _newton_direction(blocks, rule, sums, smoothing, regularization, bias, thorough=thorough)
        change = frame_scores(blocks, direction)
        risk = RiskAlongLine(blocks, labels, scores, change, smoothing)
        length = _line_search(risk, rule, direction, slope, regularization)
        passes += 1
        n_short = n_short + 1 if length < SHORT_STEP or thorough else 0
        if length > 0.0:
            rule = rule.moved(direction, length)
            scores = [values + length * part for values, part in zip(scores, change, strict=True)]
        else:  # no descent left in floating point: only a smaller width can help
            smoothing *= SHRINKAGE[0]
        sums = pass_sums(blocks, labels, rule, smoothing, scores)
    return LargeMarginResult(best_rule, best, lower_bound, passes, relative_gap(best, lower_bound) <= tolerance, trace)


def minimise_smoothed(
    blocks: Blocks,
    labels: IntArray,
    start: Rule,
    regularization: float,
    smoothing: float,
    tilt: Rule,
    *,
    bias: bool = True,
    tolerance: float = 0.05,
    max_passes: int = 20,
) -> Rule:
    """Minimise β/2 |W|² + smoothed risk + ⟨tilt, (W, b)⟩ at one width of the smoothing, by Newton's method.

    With the difference between the gradients of all the data and of these blocks as ``tilt``, a sample answers for all
    the data near ``start``.

    Parameters
    ----------
    tolerance : float
        Stop when the gradient has fallen to this share of its first norm.
    """
    rule = start
    scores = frame_scores(blocks, rule)
    sums = tilted(pass_sums(blocks, labels, rule, smoothing, scores), tilt)
    first, n_short = np.inf, 0
    for _ in range(max_passes):
        norm = float(np.linalg.norm(sums.gradient + regularization * rule.weights) ** 2 + (sums.bias_gradient**2).sum())
        first = min(first, norm) if np.isinf(first) else first
        if norm <= tolerance**2 * first:
            break
        thorough = n_short >= SHORT_STEPS
        direction, slope = _newton_direction(blocks, rule, sums, smoothing, regularization, bias, thorough=thorough)
        change = frame_scores(blocks, direction)
        offset = float((tilt.weights * direction.weights).sum() + tilt.bias @ direction.bias)
        risk = RiskAlongLine(blocks, labels, scores, change, smoothing)
        length = _line_search(risk, rule, direction, slope, regularization, offset)
        n_short = n_short + 1 if length < SHORT_STEP or thorough else 0
        if length == 0.0:
            break
        rule = rule.moved(direction, length)
        scores = [values + length * part for values, part in zip(scores, change, strict=True)]
        sums = tilted(pass_sums(blocks, labels, rule, smoothing, scores), tilt)
    return rule


def tilted(sums: PassSums, tilt: Rule) -> PassSums:
    """Add a linear function of the rule to the risk: its gradient changes by a constant."""
    return replace(sums, gradient=sums.gradient + tilt.weights, bias_gradient=sums.bias_gradient + tilt.bias)


def _sample_start(
    blocks: Blocks, labels: IntArray, classes: ClassSums, regularization: float, bias: bool, smoothing: float
) -> tuple[Rule | None, float]:
    """Solve the problem on a sample of the windows: most of the way at a small part of the cost."""
    n_states = len(classes.shares)
    sample, chosen = thinned(blocks, labels, len(labels) // SAMPLE_SIZE)
    weights = np.concatenate([block.weights for block in sample])
    if not np.bincount(chosen, weights, n_states).min() > 0.0:
        return None, smoothing
    found = solve_large_margin(
        sample, chosen, n_states, regularization, bias=bias, tolerance=SAMPLE_GAP, smoothing=smoothing
    )
    return found.rule, found.smoothing


def _line_search(
    risk: RiskAlongLine, rule: Rule, direction: Rule, slope: float, regularization: float, offset: float = 0.0
) -> float:
    """Length along the direction at which the smoothed objective is nearly flat; zero if it does not descend.

    Far from the optimum few windows are curved, Newton's step is then far too long, and merely asking for some
    descent would let it through. The derivative along the line rises monotonically and costs no feature product.
    """
    across = offset + regularization * float((rule.weights * direction.weights).sum())
    along = regularization * float((direction.weights**2).sum())
    low, high = (0.0, slope), (np.inf, np.inf)
    length, side = 1.0, 0.0
    for _ in range(MAX_LINE_STEPS):
        value = across + length * along + risk.slope(length)
        if abs(value) <= FLATNESS * abs(slope):
            return length
        # An end that stays for the second time counts half (the Illinois rule), so that it cannot hold the secant
        # back: where nothing is curved yet the step is many powers of ten too long.
        if value < 0.0:
            low, high = (length, value), (high[0], high[1] * (0.5 if side < 0 else 1.0))
        else:
            low, high = (low[0], low[1] * (0.5 if side > 0 else 1.0)), (length, value)
        side = np.sign(value)
        if np.isinf(high[0]):
            length *= 2.0
        else:
            secant = (high[1] * low[0] - low[1] * high[0]) / (high[1] - low[1])
            inset = LEAST_CUT * (high[0] - low[0])
            length = float(np.clip(secant, low[0] + inset, high[0] - inset))
    return low[0]


def _centered(rule: Rule, bias: bool) -> Rule:
    """Remove the common part of all states: it changes no loss, and without it |W|² is smallest."""
    offsets = rule.bias - rule.bias.mean() if bias else np.zeros_like(rule.bias)
    return Rule(rule.weights - rule.weights.mean(axis=0), offsets)


def _newton_direction(
    blocks: Blocks,
    rule: Rule,
    sums: PassSums,
    smoothing: float,
    regularization: float,
    bias: bool,
    *,
    thorough: bool = False,
) -> tuple[Rule, float]:
    """Newton direction of the smoothed objective, or nearly so, and its slope there; by the cheaper of two ways."""
    n_iterations = affordable_iterations(sums, smoothing, *rule.weights.shape, thorough=thorough)
    if n_iterations > 0:
        found = conjugate_direction(
            blocks, rule, sums, smoothing, regularization, bias, n_iterations, thorough=thorough
        )
        if found is not None:
            return found
    hessian = curvature(blocks, sums, len(rule.bias), smoothing, thorough=thorough)
    return _direct_direction(rule, sums, hessian, regularization, bias)


def _direct_direction(
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
    diagonal[:, n_features] = BIAS_RIDGE * regularization
    if not bias:
        keep = np.tile(np.arange(n_features + 1) < n_features, n_states - 1)
        hessian, gradient, diagonal = hessian[np.ix_(keep, keep)], gradient[:, :n_features], diagonal[:, :n_features]
    hessian[np.diag_indices_from(hessian)] += diagonal.ravel()
    step = -solve_definite(hessian, gradient.ravel()).reshape(gradient.shape)
    slope = float((step * gradient).sum())
    moves = contrasts @ step
    offsets = moves[:, n_features] if bias else np.zeros(n_states)
    return Rule(moves[:, :n_features], offsets), slope


def solve_definite(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Solve with a symmetric matrix that is positive definite but for rounding.

    At the smallest widths the curvature is so large that the regulariser is lost in its last digits. Any definite
    matrix gives a direction of descent, so a ridge on the scale of the matrix does no harm.
    """
    ridge, largest = 0.0, float(np.diag(matrix).max())
    if not np.isfinite(largest):
        raise SolverError(f"a matrix of the large-margin problem holds {largest} on its diagonal; {REMEDY}")
    while True:
        try:
            # Features are finite, so these are; to look again takes a tenth of the time.
            ridged = matrix + ridge * np.eye(len(matrix)) if ridge > 0.0 else matrix.copy()
            factor = cho_factor(ridged, True, overwrite_a=True, check_finite=False)
            solution = np.asarray(cho_solve(factor, right, check_finite=False))
        except LinAlgError as error:
            ridge = max(100.0 * ridge, FIRST_RIDGE * largest)
            if not 0.0 < ridge <= LARGEST_RIDGE * largest:
                raise SolverError(
                    f"a matrix of {len(matrix)} rows of the large-margin problem has no Cholesky factor ({error}; "
                    f"largest diagonal entry {largest:.3g}); {REMEDY}"
                ) from error
            continue
        if not np.isfinite(solution).all():
            raise SolverError(
                f"a linear system of {len(matrix)} rows of the large-margin problem has no finite solution (largest "
                f"diagonal entry {largest:.3g}); {REMEDY}"
            )
        return solution
