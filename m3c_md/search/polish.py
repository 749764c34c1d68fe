"""The last step on data too large to hold as features: a rule found on a sample is improved by looks at all the data.

Each look, at the rule at hand, gives the loss and its gradient on all windows (`m3c_md.optimize.streaming`). The
sample, tilted so that its gradient is that of all the data, then says where to go (Shamir, Srebro and Zhang 2014,
"DANE"): near the optimum sample and data differ little in curvature, and a few looks take the duality gap on all the
data below a per cent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.frames.source import FrameBlock, Source, SourceBlocks
from m3c_md.frames.weights import lift_factors
from m3c_md.frames.windows import FeatureBlocks, equally_spaced
from m3c_md.optimize.blocks import Rule, WindowBlock, all_label_costs, pass_sums
from m3c_md.optimize.feature_map import FourierMap
from m3c_md.optimize.labels import balanced_labels, class_bounds, label_prices
from m3c_md.optimize.large_margin import minimise_smoothed, relative_gap
from m3c_md.optimize.streaming import StreamSums, add_up, look_at_block
from m3c_md.search.local_search import LocalOptimum, SearchSettings, fit_to_labels, local_search
from m3c_md.search.problem import SearchProblem
from m3c_md.search.scores import Selection, class_averaged
from m3c_md.search.selection import Candidate
from m3c_md.search.support import Support, metastability_of, support_of_windows

# Looks at all the data: what has not settled by then is left to an exact search on all windows, of a few rounds.
MAX_LOOKS = 20
EXACT_ROUNDS = 5
# Widest and narrowest smoothing to begin with.
FIRST_SMOOTHING = 0.02
SMALLEST_SMOOTHING = 1e-4
# Shares of the wanted gap that may come from the smoothing: at the end, and at the first look, which has to leave room
# because later steps bring more windows to a kink.
SMOOTHING_SHARE = 0.15
FIRST_SHARE = 0.05
# The objective may rise by this share before a step is halved, and must have fallen by no more at the end: while it
# falls faster, labels are still changing, however small the gap for those at hand.
TOLERATED_RISE = 1e-3
STEADY_FALL = 1e-4
# Part of the way to where the sample leads that is gone at least.
SHORTEST_STEP = 0.25
# Factor by which the smoothing narrows where it keeps the gap open: its share of the gap falls about as much, and every
# narrowing costs a look, so it is a large one.
NARROWER = 0.3
# Looks in a row at which some state has lost its frames, before a candidate is given up as degenerate.
LOST_LOOKS = 2
# Rounds of the local search on the sample between two looks, and the share of labels that may change in the last. Most
# looks need one or two; where a state is being lost there would be no end, and the next look says more.
MAX_ROUNDS = 5
STILL_LABELS = 1e-3


@dataclass(frozen=True)
class Look:
    """A rule and what all the data say about it."""

    rule: Rule
    sums: StreamSums
    objective: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """Relative duality gap for the labels that are cheapest under the rule."""
        return relative_gap(self.objective, self.lower_bound)


@dataclass(frozen=True)
class _Views:
    """A sample that answers for all the data, and these, each as it is and as rules are fitted to it.

    Where rare states count more in fits, ``sample`` and ``lifted`` differ from ``plain`` and ``everything`` in their
    weights.
    """

    settings: SearchSettings
    feature_map: FourierMap
    bounds: tuple[int, int]
    n_slices: int
    plain: FeatureBlocks
    sample: FeatureBlocks
    everything: Source
    lifted: Source

    def labels(self, rule: Rule) -> IntArray:
        """Balanced labels of the sample that are cheapest under a rule."""
        return balanced_labels(all_label_costs(self.sample, rule), *self.bounds).labels

    def look(self, rule: Rule, smoothing: float, data: Source) -> Look:
        """Look at data: what they say about a rule."""
        settings = self.settings
        costs = all_label_costs(self.sample, rule)
        balanced = balanced_labels(costs, *self.bounds)
        prices = np.zeros(settings.n_states)
        if balanced.method == "flow":
            # Weights, and with them costs and prices, are as much smaller as there are more windows.
            ratio = len(costs) / self.everything.n_windows
            prices = ratio * label_prices(costs, balanced.labels, *self.bounds)
        sums = add_up(data.map(look_at, self.feature_map, rule, smoothing, prices))
        objective = settings.penalty(rule) + sums.loss
        bound = sums.lower_bound(self.n_slices, settings.regularization, bias=settings.bias)
        return Look(rule, sums, objective, bound)


@dataclass(frozen=True)
class _Descent:
    """Where looks have led: the best look, the objectives on the way, the last smoothing, whether a state was lost."""

    best: Look
    trace: list[float]
    smoothing: float
    lost: bool


def polish_on_all_data(
    problem: SearchProblem,
    everything: Source,
    candidate: Candidate,
    selection: Selection,
    gap: float,
    n_sample: int,
    report: Callable[[int], object] = lambda n_looks: None,
) -> Candidate:
    """Improve a candidate by looks at all the data until the duality gap there is small and the objective steady.

    Parameters
    ----------
    problem, everything, candidate, selection
        The problem on a sample, all the data, where to start, and how to judge the result.
    gap : float
        Relative duality gap to reach.
    n_sample : int
        Windows of the sample that answers for all the data.
    report : callable
        Told the number of looks taken.
    """
    chosen = equally_spaced(problem.data.n_windows, n_sample)
    views = _views(problem, everything, candidate, selection, chosen)
    end = _descended(views, candidate.optimum, gap, report)
    best, trace = end.best, end.trace
    if best.gap > gap and not end.lost:
        # What a sample cannot resolve takes all windows, in double precision.
        exact = _searched_on_all_data(views, best.rule, gap)
        found = views.look(exact.rule, end.smoothing, views.lifted)
        best = replace(found, objective=exact.objective, lower_bound=exact.lower_bound)
        trace.extend(exact.trace)
    # Its labels on the sample, to compare the winner with candidates that went no further.
    optimum = LocalOptimum(
        best.rule,
        views.labels(best.rule),
        best.objective,
        best.lower_bound,
        len(trace),
        best.gap <= gap,
        tuple(trace),
    )
    states, support = views.plain.slice_states(best.rule), Support()
    if views.n_slices > 1:
        _, support = support_of_windows(problem, states, views.plain.weights, chosen)
    # Rare states count more where a rule is fitted, not where it is judged.
    sums = best.sums if views.lifted is everything else views.look(best.rule, end.smoothing, everything).sums
    return _judged(problem, candidate, optimum, sums, selection, support)


def _views(
    problem: SearchProblem, everything: Source, candidate: Candidate, selection: Selection, chosen: IntArray
) -> _Views:
    """Sample and all the data, with weights for the fit of a candidate."""
    settings = problem.settings.with_least_share(candidate.least_share)
    feature_map, rule = problem.feature_map(*candidate.kernel), candidate.optimum.rule
    plain = problem.features(candidate.kernel, chosen)
    bounds = class_bounds(len(chosen), settings.n_states, settings.balance)
    sample, lifted = plain, everything
    if selection != "objective":
        labels = balanced_labels(all_label_costs(plain, rule), *bounds).labels
        factors = lift_factors(plain.weights, labels, settings.n_states)
        if factors.max() > 1.0:
            heavier = plain.weights * factors[labels]
            sample = plain.with_weights(heavier / heavier.sum())
            lifted = everything.weighted(_lifted_weights, feature_map, rule, factors)
    return _Views(settings, feature_map, bounds, len(problem.data.windows), plain, sample, everything, lifted)


def _descended(views: _Views, start: LocalOptimum, gap: float, report: Callable[[int], object]) -> _Descent:
    """Look at all the data and let the sample say where to go, again and again."""
    rule = start.rule
    smoothing = _narrow_enough(views, rule, FIRST_SHARE * gap * start.objective)
    best: Look | None = None
    trace: list[float] = []
    step, n_lost = 1.0, 0
    for n_looks in range(1, MAX_LOOKS + 1):
        now = views.look(rule, smoothing, views.lifted)
        report(n_looks)
        before = np.inf if best is None else best.objective
        if best is None or now.objective < best.objective:
            best = now
        trace.append(best.objective)
        steady = abs(before - now.objective) <= STEADY_FALL * now.objective
        n_lost = n_lost + 1 if _smallest(now.sums) < views.settings.floor else 0
        if n_lost >= LOST_LOOKS or (now.gap <= gap and steady):
            best = now
            break
        if now.objective > (1.0 + TOLERATED_RISE) * best.objective:
            rule = Rule(0.5 * (rule.weights + best.rule.weights), 0.5 * (rule.bias + best.rule.bias))
            continue
        # Where nothing is gained but the gap stays, a sample leads round in circles: go a part of the way only.
        falls = now.objective < (1.0 - STEADY_FALL) * before
        step = min(2.0 * step, 1.0) if falls else max(0.5 * step, SHORTEST_STEP)
        target = _improved(views, now, smoothing)
        rule = now.rule.moved(Rule(target.weights - now.rule.weights, target.bias - now.rule.bias), step)
        if now.sums.slack > SMOOTHING_SHARE * gap * now.objective:
            smoothing *= NARROWER  # from the next look on: gradients of two widths do not go together
    assert best is not None
    return _Descent(best, trace, smoothing, n_lost >= LOST_LOOKS)


def _searched_on_all_data(views: _Views, rule: Rule, gap: float) -> LocalOptimum:
    """End of a local search on all windows, with a rule that is the best one for its labels.

    Labels that are still changing after a few rounds stay as they are: where there are no states they would go on and
    on, towards a state without frames.
    """
    blocks, settings = SourceBlocks(views.lifted, views.feature_map), views.settings
    bounds = class_bounds(views.everything.n_windows, settings.n_states, settings.balance)
    labels = balanced_labels(all_label_costs(blocks, rule), *bounds).labels
    few = replace(settings, max_iterations=min(settings.max_iterations, EXACT_ROUNDS))
    found = local_search(blocks, labels, few, start=rule, gap=gap)
    return found if found.gap <= gap else fit_to_labels(blocks, found.labels, settings, start=found.rule, gap=gap)


def _smallest(sums: StreamSums) -> float:
    """Share of the frames that the rarest state has."""
    return float(sums.n_frames.min() / sums.n_frames.sum())


def _lifted_weights(block: FrameBlock, feature_map: FourierMap, rule: Rule, factors: FloatArray) -> FloatArray:
    """Weights of the windows of one block, larger for those of rare states; not normalised."""
    windows = WindowBlock(feature_map(block.frames, np.float32), block.windows, block.weights)
    return np.asarray(block.weights * factors[all_label_costs([windows], rule).argmin(axis=1)])


def look_at(block: FrameBlock, feature_map: FourierMap, rule: Rule, smoothing: float, prices: FloatArray) -> StreamSums:
    """Featurise one block of frames and sum over its windows."""
    features = feature_map(block.frames, np.float32)
    windows = WindowBlock(features, block.windows, block.weights)
    return look_at_block(windows, block.own, rule, smoothing, prices)


def _narrow_enough(views: _Views, rule: Rule, slack: float) -> float:
    """Width of the smoothing that adds no more than ``slack`` to the gap of the sample."""
    labels, smoothing = views.labels(rule), FIRST_SMOOTHING
    while smoothing > SMALLEST_SMOOTHING and pass_sums(views.sample, labels, rule, smoothing).slack > slack:
        smoothing *= 0.5
    return smoothing


def _improved(views: _Views, now: Look, smoothing: float) -> Rule:
    """Local search on the sample, tilted to have the gradient of all the data at the rule at hand."""
    sample, settings, rule = views.sample, views.settings, now.rule
    labels = views.labels(rule)
    own = pass_sums(sample, labels, rule, smoothing)
    tilt = Rule(now.sums.gradient - own.gradient, now.sums.bias_gradient - own.bias_gradient)
    for _ in range(MAX_ROUNDS):
        rule = minimise_smoothed(sample, labels, rule, settings.regularization, smoothing, tilt, bias=settings.bias)
        before, labels = labels, views.labels(rule)
        if np.count_nonzero(labels != before) <= STILL_LABELS * len(labels):
            break
    return rule


def _judged(
    problem: SearchProblem,
    candidate: Candidate,
    optimum: LocalOptimum,
    sums: StreamSums,
    selection: Selection,
    support: Support,
) -> Candidate:
    penalty = problem.settings.penalty(optimum.rule)
    score = optimum.objective if selection == "objective" else class_averaged(sums.class_loss, sums.shares) + penalty
    return Candidate(
        candidate.start,
        candidate.kernel,
        optimum,
        score,
        sums.n_frames / sums.n_frames.sum(),
        float(metastability_of(sums.transitions)) if len(problem.data.windows) > 1 else np.nan,
        problem.n_windows,
        support=support,
        least_share=candidate.least_share,
    )
