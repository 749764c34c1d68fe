"""Metrics that compete in a search, and metrics that are learned from what it has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.frames.windows import equally_spaced
from m3c_md.optimize.feature_map import FeatureKind, draw_fourier_map
from m3c_md.optimize.metric import (
    MOST_DIRECTIONS,
    Metric,
    gradient_metric,
    kinetic_metric,
    shared_metric,
    square_root,
    with_extent,
    with_variance,
)
from m3c_md.search.problem import FEW_COLUMNS, SearchProblem, divisors, with_slow_spaces
from m3c_md.search.selection import Candidate
from m3c_md.search.trials import stream

MetricChoice = Literal["auto", "standard", "kinetic", "learned"]

# Frames between which columns are exchanged.
EXCHANGED_FRAMES = 1000
# Share of the metric at hand that a learned one keeps.
KEPT_SHARE = 0.3
# Columns from which on those that matter no more than noise does leave a learned metric: each has next to no share in
# it, but all of them together have a fifth where they are 500. Of fewer columns most may matter.
NOISY_COLUMNS = 100
# Noise has about the share of the median column, where most are noise. Those of columns that are alike are spread as
# squares of normal numbers in one or two directions: a tenth of them exceeds the median by more than this factor.
NOISE_SPREAD = 3.0
# Share of the metric that a few columns must have for the others to be noise: where many columns say a little each (the
# squares of normal numbers have a third of their sum above that), all are needed.
LEAST_LEFT = 0.5
# How the names of learned metrics begin.
LEARNED = "learned"
# Name of the metric of all that starts have learned.
POOLED = "pooled"
# Windows from which a metric is learned at most: gradients of a smooth rule need no more.
LEARNED_WINDOWS = 5_000


def is_learned(name: str) -> bool:
    """Whether the metric of this name was learned from rules."""
    return name == POOLED or name.startswith(LEARNED)


def with_competing_metrics(problem: SearchProblem, choice: MetricChoice, kind: FeatureKind, seed: int) -> SearchProblem:
    """Return the problem with all metrics that compete from the beginning."""
    if problem.moments is None:
        return problem
    n_columns = len(problem.scale)
    metrics = [kinetic_metric("kinetic", problem.moments, 1.0, min(n_columns, MOST_DIRECTIONS))]
    if n_columns > FEW_COLUMNS:
        metrics += _sharper_metrics(problem)
    # Where nothing is slow, there is no such metric: all frames would be alike.
    metrics = [metric for metric in metrics if metric.matrix.any()]
    if choice == "kinetic" and metrics:
        problem = replace(problem, metrics={})
    for metric in metrics:
        problem = with_new_metric(problem, metric, kind, seed)
    return problem


def _sharper_metrics(problem: SearchProblem) -> list[Metric]:
    """Metrics that leave more directions out than the kinetic one."""
    assert problem.moments is not None
    most = min(len(problem.scale), MOST_DIRECTIONS)
    few = max(2, problem.settings.n_states - 1)
    metrics = [
        kinetic_metric("kinetic 2", problem.moments, 2.0, most),
        kinetic_metric(f"{few} slowest", problem.moments, 1.0, few),
        shared_metric("shared", problem.moments, min(most, 2 * few)),
    ]
    if problem.late_moments is not None:
        metrics.append(kinetic_metric("late", problem.late_moments, 1.0, min(most, 2 * few)))
    return metrics


def with_slow_directions(problem: SearchProblem, kind: FeatureKind, seed: int) -> SearchProblem:
    """Return a problem of few columns, or of few windows, with the partitions and metrics that others have."""
    problem = with_slow_spaces(problem, stream(seed, "slow spaces"))
    assert problem.moments is not None
    kinetic = kinetic_metric("kinetic", problem.moments, 1.0, min(len(problem.scale), MOST_DIRECTIONS))
    for metric in (kinetic, *_sharper_metrics(problem)):
        if metric.matrix.any() and metric.name not in problem.metrics:
            problem = with_new_metric(problem, metric, kind, seed)
    return problem


def with_new_metric(problem: SearchProblem, metric: Metric, kind: FeatureKind, seed: int) -> SearchProblem:
    """Return the problem with one more metric in the unit of the others, and random features of its own."""
    first = next(iter(problem.maps.values()))
    drawn = draw_fourier_map(metric.n_directions, first.n_features, stream(seed, "metric", metric.name), kind=kind)
    # The phases are those of all others: a model file holds them once.
    drawn = replace(drawn, phases=first.phases)
    return problem.with_metric(in_unit_of(metric, problem), drawn)


def in_unit_of(metric: Metric, problem: SearchProblem) -> Metric:
    """Metric in a unit in which frames are as far apart as with scaled columns, so that bandwidths serve all."""
    if problem.moments is None:
        return with_extent(metric, problem.data.frames, problem.scale)
    return with_variance(metric, problem.moments, problem.scale)


def pooled_metric(problem: SearchProblem, names: Sequence[str]) -> Metric:
    """Metric of the directions that matter to any of some metrics, each counted alike.

    Starts cut the data in different places. What matters to no cut is noise, and what one misses another one has.
    """
    return _blend(problem, POOLED, [(problem.metrics[name], 1.0) for name in names])


def _blend(problem: SearchProblem, name: str, metrics: Sequence[tuple[Metric, float]]) -> Metric:
    """Metric whose squared distances are weighted sums of those of some metrics, each in the unit of its variance."""
    n_columns, scale = len(problem.scale), problem.scale[:, None]
    spread = _covariance(problem)
    total = np.zeros((n_columns, n_columns))
    for metric, weight in metrics:
        square = metric.full_matrix() * scale * scale.T
        total += weight * square / max(float((square * spread).sum()), np.finfo(float).tiny)
    return Metric(name, square_root(total) / scale)


def _covariance(problem: SearchProblem) -> FloatArray:
    """Covariance of the scaled columns, but for a factor; that of the windows where it is known already."""
    if problem.moments is not None:
        return problem.moments.instantaneous
    frames = problem.typical.clipped(problem.data.frames)
    return np.atleast_2d(np.cov((frames / problem.scale).T, ddof=0))


def learned_metric(problem: SearchProblem, candidate: Candidate, name: str) -> Metric:
    """Metric of the directions in which a candidate's scores change, with a share of the metric that it had.

    One round alone would follow the sample; what matters survives the next rounds anyway.
    """
    new, old = sensitivity(problem, candidate), problem.metrics[candidate.metric]
    blend = _blend(problem, name, [(new, 1.0 - KEPT_SHARE), (old, KEPT_SHARE)])
    return without_noise(blend, problem.scale) if len(problem.scale) >= NOISY_COLUMNS else blend


def without_noise(metric: Metric, scale: FloatArray) -> Metric:
    """Metric in which columns count less by what noise has of them, and not at all if they have no more.

    Scores of a rule change a little with every column that goes by chance with the states of the sample. Where a few
    columns do not tell nearly everything, nothing is taken away.

    Examples
    --------
    >>> loud = Metric("learned", np.array([[5.0], [1.0], [1.0], [1.0]]))
    >>> without_noise(loud, np.ones(4)).matrix.ravel().round(2).tolist()
    [4.69, 0.0, 0.0, 0.0]
    """
    shares = ((metric.matrix * scale[:, None]) ** 2).sum(axis=1)
    left = np.maximum(shares - NOISE_SPREAD * np.median(shares), 0.0)
    if left.sum() < LEAST_LEFT * shares.sum():
        return metric
    return replace(metric, matrix=metric.matrix * np.sqrt(left / np.maximum(shares, np.finfo(float).tiny))[:, None])


def sensitivity(problem: SearchProblem, candidate: Candidate) -> Metric:
    """Directions in which a candidate's scores change, each of its states counted alike.

    On the windows that it was fitted to, but on no more than `LEARNED_WINDOWS` of them.
    """
    chosen = equally_spaced(problem.data.n_windows, min(candidate.n_windows, LEARNED_WINDOWS))
    feature_map, rule = problem.feature_map(*candidate.kernel), candidate.optimum.rule
    windows, weights = problem.data.windows[:, chosen], problem.weights[chosen]
    frames = problem.data.frames[windows.ravel()]
    states = rule.scores(feature_map(problem.data.frames[windows[0]], np.float32)).argmax(axis=0)
    mass = np.bincount(states, weights=weights, minlength=problem.settings.n_states)
    of_windows = weights / mass[states]
    return gradient_metric(
        "rule", feature_map, rule, frames, np.tile(of_windows, len(windows)) / of_windows.sum(), problem.scale
    )


def exchange_relevance(problem: SearchProblem, candidate: Candidate) -> FloatArray:
    """How much each column matters to a candidate's scores: shares that sum to one.

    The mean square of the change of the scores where a frame gets the column of another frame (for independent columns:
    their total Sobol indices), each state counted alike. Slopes would not do: scores of well separated states are flat
    where the frames are.
    """
    chosen = problem.data.windows[0, equally_spaced(problem.data.n_windows, EXCHANGED_FRAMES)]
    feature_map, rule = problem.feature_map(*candidate.kernel), candidate.optimum.rule
    frames = problem.data.frames[chosen]
    scores = rule.scores(feature_map(frames))
    states = scores.argmax(axis=0)
    weights = 1.0 / np.bincount(states, minlength=len(scores))[states]
    # Any partners will do, the same for all columns and fits.
    partners = np.random.default_rng(0).permutation(len(frames))
    # Angles of single precision will do for shares, and their cosines cost a fifth.
    angles = ((frames - feature_map.center) @ feature_map.frequencies + feature_map.phases).astype(np.float32)
    changes = np.zeros(frames.shape[1])
    for column, frequencies in enumerate(feature_map.frequencies):
        # Columns may have units that single precision does not know; their products with frequencies have none.
        turned = np.outer(frames[partners, column] - frames[:, column], frequencies).astype(np.float32)
        moved = np.cos(angles + turned) * np.float32(np.sqrt(2.0 / feature_map.n_features))
        change = rule.scores(moved) - scores
        changes[column] = float(((change - change.mean(axis=0)) ** 2).sum(axis=0) @ weights)
    # A rule that does not change with any column leaves none out.
    return changes / changes.sum() if changes.sum() > 0.0 else np.full(len(changes), 1.0 / len(changes))


def sensitivity_of(problem: SearchProblem, winner: Candidate) -> dict[str, Any]:
    """Directions along which the winner's scores change, the unit of each column, and how much each matters."""
    spread = problem.typical.spread
    # A constant column may change the scores of a rule, but never did.
    of_rule = sensitivity(problem, winner).matrix * spread[:, None]
    directions, sizes, _ = np.linalg.svd(of_rule, full_matrices=False)
    return {
        "sensitivity": directions * sizes,
        "spread": divisors(spread),
        "shares": exchange_relevance(problem, winner),
    }
