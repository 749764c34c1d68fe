"""Local search: alternate the large-margin problem and the balanced label step (Algorithm 1, lines 6-11)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from m3c_md.optimize.blocks import Rule, WindowBlock, WindowBlocks, all_label_costs
from m3c_md.optimize.labels import balanced_labels, class_bounds
from m3c_md.optimize.large_margin import LargeMarginResult, relative_gap, solve_large_margin

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

# Early rounds are solved to a gap of this much only: their labels are about to change anyway.
COARSEST_GAP = 0.1


@dataclass(frozen=True)
class SearchSettings:
    """What stays the same for all candidates of a search."""

    n_states: int
    regularization: float
    balance: tuple[float, float]
    bias: bool = True
    max_iterations: int = 100
    tolerance: int = 0


@dataclass(frozen=True)
class LocalOptimum:
    """End of a local search.

    Attributes
    ----------
    rule : Rule
    labels : (n_windows,) array
        Window labels for which ``rule`` was computed and which the rule confirms when ``converged``.
    objective, lower_bound : float
        Of the large-margin problem at ``labels``.
    iterations : int
    converged : bool
        Whether no more than ``tolerance`` labels changed in the last round, at full accuracy.
    trace : tuple of float
        Objective after every half step; never increases.
    """

    rule: Rule
    labels: IntArray
    objective: float
    lower_bound: float
    iterations: int
    converged: bool
    trace: tuple[float, ...]

    @property
    def gap(self) -> float:
        """Relative duality gap of the large-margin problem at ``labels``."""
        return relative_gap(self.objective, self.lower_bound)


def local_search(
    blocks: WindowBlocks | list[WindowBlock],
    labels: IntArray,
    settings: SearchSettings,
    *,
    start: Rule | None = None,
    gap: float = 1e-4,
    max_iterations: int | None = None,
) -> LocalOptimum:
    """Alternate (W, b) for fixed labels and labels for fixed (W, b) until the labels stand still.

    The large-margin problem is solved only as accurately as the labels deserve: a round that starts after a
    fraction f of the labels changed is solved to a gap of about f, the last ones to ``gap``. Every solve starts
    from the rule before it and never returns a worse one, so the objective falls monotonically all the same.

    Parameters
    ----------
    blocks : iterable of WindowBlock
    labels : (n_windows,) array
        Start labels; every state must occur.
    settings : SearchSettings
    start : Rule, optional
        Warm start of the first large-margin problem.
    gap : float
        Relative duality gap at the end.
    max_iterations : int, optional
        Overrides that of ``settings`` (for a candidate that is only being tried out).
    """
    lower, upper = class_bounds(len(labels), settings.n_states, settings.balance)
    limit = settings.max_iterations if max_iterations is None else max_iterations
    rule, smoothing = start, 2.0 if start is None else 0.25
    accuracy = max(gap, COARSEST_GAP)
    trace: list[float] = []
    result: LargeMarginResult
    for iteration in range(1, limit + 1):
        result = solve_large_margin(
            blocks,
            labels,
            settings.n_states,
            settings.regularization,
            bias=settings.bias,
            tolerance=accuracy,
            start=rule,
            smoothing=smoothing,
        )
        rule, smoothing = result.rule, max(result.trace[-1][1], 1e-4)
        trace.append(result.objective)
        assigned = balanced_labels(all_label_costs(blocks, rule), lower, upper)
        changed = int(np.count_nonzero(assigned.labels != labels))
        if changed <= settings.tolerance and (result.gap <= gap or not result.converged):
            return LocalOptimum(rule, labels, result.objective, result.lower_bound, iteration, True, tuple(trace))
        penalty = 0.5 * settings.regularization * float((rule.weights**2).sum())
        trace.append(min(penalty + assigned.cost, trace[-1]))
        labels = assigned.labels
        accuracy = float(np.clip(0.5 * changed / len(labels), gap, 0.3 * accuracy if changed == 0 else accuracy))
        smoothing = smoothing if changed == 0 else max(smoothing, min(0.25, changed / len(labels)))
    return LocalOptimum(result.rule, labels, result.objective, result.lower_bound, limit, False, tuple(trace))
