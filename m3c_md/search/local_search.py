"""Local search: alternate the large-margin problem and the balanced label step (Algorithm 1, lines 6-11)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.optimize.blocks import Blocks, Rule, all_label_costs
from m3c_md.optimize.labels import balanced_labels, class_bounds
from m3c_md.optimize.large_margin import MAX_PASSES, relative_gap, solve_large_margin

# Early rounds are solved to a gap of this much only: their labels are about to change anyway.
COARSEST_GAP = 0.1
# First width of the smoothing: without a rule to start from, with that of least squares, and with one that was
# optimised before. Near a poor rule most windows lie beyond a narrow smoothing, and steps that see few of them are
# short.
COLD_SMOOTHING = 0.5
LEAST_SQUARES_SMOOTHING = 0.3
WARM_SMOOTHING = 0.03
# How much rarer than asked for a state may be, where there is no other solution: a rule that finds a real but rare
# state gives it less than the labels were forced to.
RARE_SLACK = 0.005
# Rounds in a row in which some state is the cheapest label of fewer windows than this share of the guard, before a
# search is given up as degenerate: labels that are pushed to it for balance do not bring it back.
EMPTY_ROUNDS = 2
EMPTY_SHARE = 0.5
# Rounds in a row in which the classes' mean loss rises, and by which factor over its least, before a search is given
# up: the mean loss of all windows falls while a state is taken apart, that of the states does not.
DRIFTING_ROUNDS = 3
DRIFTED = 1.4
# Share of the labels that may still change where a trial ends: they cost next to nothing either way.
TRIAL_CHANGES = 1e-3
# Newton steps on labels that are about to change, or in a trial: a state that is being lost, or an objective near zero,
# may ask for hundreds, and the next round begins where they end.
HASTY_PASSES = 10
# The same for the way from the gap that was asked for to a smaller one that is wanted.
EXTRA_PASSES = 30
# The same for a rule whose labels were given: their states overlap, or some have little left to tell them apart by.
HELD_PASSES = 40


@dataclass(frozen=True)
class SearchSettings:
    """What stays the same for all candidates of a search.

    Attributes
    ----------
    n_states, regularization : int, float
        κ and β.
    balance : (float, float)
        Bounds ϱ_l and ϱ_u on the shares of the labels.
    least_population : float, optional
        Smallest share of the frames that a state should have; ϱ_l by default.
    bias : bool
        Whether rules have offsets b_k.
    max_iterations, tolerance : int
        r_max and α_H of Algorithm 1.
    """

    n_states: int
    regularization: float
    balance: tuple[float, float]
    least_population: float | None = None
    bias: bool = True
    max_iterations: int = 100
    tolerance: int = 0

    @property
    def guard(self) -> float:
        """Share of the frames that every state should have under the rule."""
        return self.balance[0] if self.least_population is None else self.least_population

    @property
    def floor(self) -> float:
        """Share of the frames below which a state is as good as empty."""
        return max(self.guard - RARE_SLACK, 0.5 * self.guard)

    def with_least_share(self, least_share: float | None) -> SearchSettings:
        """Settings of a candidate whose labels have another lower bound.

        Closer balance asks for no more frames than before, a looser one for fewer.
        """
        if least_share is None:
            return self
        guard = min(self.guard, least_share)
        return replace(self, balance=(least_share, self.balance[1]), least_population=guard)

    def penalty(self, rule: Rule) -> float:
        """β/2 |W|²."""
        return 0.5 * self.regularization * float((rule.weights**2).sum())


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
    lost : bool
        Whether the search was given up because a state was lost, or being lost.
    """

    rule: Rule
    labels: IntArray
    objective: float
    lower_bound: float
    iterations: int
    converged: bool
    trace: tuple[float, ...]
    lost: bool = False

    @property
    def gap(self) -> float:
        """Relative duality gap of the large-margin problem at ``labels``."""
        return relative_gap(self.objective, self.lower_bound)


def local_search(
    blocks: Blocks,
    labels: IntArray,
    settings: SearchSettings,
    *,
    start: Rule | None = None,
    smoothing: float = WARM_SMOOTHING,
    gap: float = 1e-4,
    wanted: float = np.inf,
    max_iterations: int | None = None,
    give_up: bool = False,
) -> LocalOptimum:
    """Alternate (W, b) for fixed labels and labels for fixed (W, b) until the labels stand still.

    The large-margin problem is solved only as accurately as the labels deserve: a round that starts after a
    fraction f of the labels changed is solved to a gap of about f, the last ones to ``gap``. Every solve starts
    from the rule before it and never returns a worse one, so the objective falls monotonically all the same.

    Parameters
    ----------
    blocks : iterable of WindowBlock
    labels : (n_windows,) array
        Start labels, within the balance of ``settings`` (else the first label step may raise the objective).
    settings : SearchSettings
    start : Rule, optional
        Warm start of the first large-margin problem.
    smoothing : float
        First width of the smoothing where there is a start; the better the start, the smaller.
    gap : float
        Relative duality gap at the end.
    wanted : float
        A smaller gap, which labels are optimised with, and which the end has, too, unless that takes too long.
    max_iterations : int, optional
        Overrides that of ``settings`` for a candidate that is only being tried out, and that may end with a few labels
        still changing.
    give_up : bool
        Whether to end as soon as a state is lost for good: that is degenerate, whatever else would be found.
    """
    bounds = class_bounds(len(labels), settings.n_states, settings.balance)
    trial = max_iterations is not None
    limit = settings.max_iterations if max_iterations is None else max_iterations
    tolerance = max(settings.tolerance, int(TRIAL_CHANGES * len(labels))) if trial else settings.tolerance
    rule, smoothing = start, COLD_SMOOTHING if start is None else smoothing
    aim = min(gap, wanted)
    accuracy = max(aim, COARSEST_GAP)
    trace: list[float] = []
    iteration = 0
    hasty = True
    watch = _Watch(settings, len(labels))
    while True:
        iteration += 1
        patient = EXTRA_PASSES if aim < gap else MAX_PASSES
        solved = solve_large_margin(
            blocks,
            labels,
            settings.n_states,
            settings.regularization,
            bias=settings.bias,
            tolerance=accuracy,
            start=rule,
            smoothing=smoothing,
            max_passes=HASTY_PASSES if hasty else patient,
        )
        rule = solved.rule
        costs = all_label_costs(blocks, rule)
        assigned = balanced_labels(costs, *bounds)
        lost = watch.sees_a_state_vanish(costs, assigned.labels) and give_up
        n_changed = int(np.count_nonzero(assigned.labels != labels))
        trace += [solved.objective, settings.penalty(rule) + assigned.cost]
        still = n_changed <= tolerance
        # Labels that stand still at an accuracy that the solver cannot improve are as good as it gets.
        enough = solved.gap <= aim or (not hasty and solved.gap <= gap)
        stuck = not solved.converged and (trial or (not hasty and aim == gap))
        if (still and (enough or stuck)) or iteration == limit or lost:
            converged = still and solved.gap <= gap
            value, bound = solved.objective, solved.lower_bound
            return LocalOptimum(rule, labels, value, bound, iteration, converged, tuple(trace), lost)
        # What patience did not reach once is not tried for again.
        aim = aim if hasty or (not still and solved.gap <= aim) else gap
        labels, hasty = assigned.labels, trial or not still
        share = n_changed / len(labels)
        # A trial need not be accurate before its labels are about to stand still.
        accuracy = max(aim, min(COARSEST_GAP, share) if trial else min(0.5 * share, accuracy))
        # A kink that has just moved needs a wider smoothing than the one that finished the last problem.
        smoothing = min(WARM_SMOOTHING, max(solved.smoothing, share))


def fit_to_labels(
    blocks: Blocks,
    labels: IntArray,
    settings: SearchSettings,
    *,
    start: Rule,
    smoothing: float = WARM_SMOOTHING,
    gap: float = 1e-4,
    trial: bool = False,
) -> LocalOptimum:
    """Return the best rule for labels that stay as they are; less accurate than ``gap`` where it is only a trial.

    Parameters are those of `local_search`.
    """
    solved = solve_large_margin(
        blocks,
        labels,
        settings.n_states,
        settings.regularization,
        bias=settings.bias,
        tolerance=gap,
        start=start,
        smoothing=smoothing,
        max_passes=HASTY_PASSES if trial else HELD_PASSES,
    )
    value, bound = solved.objective, solved.lower_bound
    return LocalOptimum(solved.rule, labels, value, bound, 1, solved.converged, (value,))


class _Watch:
    """Watches a search for a state that is lost, or being lost, round after round."""

    def __init__(self, settings: SearchSettings, n_windows: int) -> None:
        self.n_states = settings.n_states
        self.few = EMPTY_SHARE * max(settings.guard * n_windows - 1.0, 0.0)
        self.n_empty = self.n_worse = 0
        self.least = self.before = np.inf

    def sees_a_state_vanish(self, costs: FloatArray, labels: IntArray) -> bool:
        """Whether a state is the cheapest label of hardly any window, or the classes' mean loss keeps rising."""
        loss = _mean_class_cost(costs, labels, self.n_states)
        self.n_worse = self.n_worse + 1 if loss > self.before else 0
        self.least, self.before = min(self.least, loss), loss
        cheapest = int(np.bincount(costs.argmin(axis=1), minlength=self.n_states).min())
        self.n_empty = self.n_empty + 1 if cheapest <= self.few else 0
        drifts = self.n_worse >= DRIFTING_ROUNDS and loss > DRIFTED * self.least
        return self.n_empty >= EMPTY_ROUNDS or drifts


def _mean_class_cost(costs: FloatArray, labels: IntArray, n_states: int) -> float:
    """Mean over the classes of the mean costs of their windows."""
    own = costs[np.arange(len(labels)), labels]
    return float(
        (np.bincount(labels, weights=own, minlength=n_states) / np.bincount(labels, minlength=n_states)).mean()
    )
