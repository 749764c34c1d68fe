"""Metrics that compete in a search, and metrics that are learned from what it has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

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
)
from m3c_md.search.problem import FEW_COLUMNS, SearchProblem
from m3c_md.search.selection import Candidate
from m3c_md.search.trials import stream

MetricChoice = Literal["auto", "standard", "kinetic", "learned"]

# How the names of learned metrics begin.
LEARNED = "learned"
# Name of the metric of all that starts have learned.
POOLED = "pooled"
# Windows from which a metric is learned at most: gradients of a smooth rule need no more.
LEARNED_WINDOWS = 20_000


def with_competing_metrics(problem: SearchProblem, choice: MetricChoice, kind: FeatureKind, seed: int) -> SearchProblem:
    """Return the problem with all metrics that compete from the beginning."""
    if problem.moments is None:
        return problem
    moments, n_columns = problem.moments, len(problem.scale)
    most = min(n_columns, MOST_DIRECTIONS)
    few = max(2, problem.settings.n_states - 1)
    metrics = [kinetic_metric("kinetic", moments, 1.0, most)]
    if n_columns > FEW_COLUMNS:
        metrics += [
            kinetic_metric("kinetic 2", moments, 2.0, most),
            kinetic_metric(f"{few} slowest", moments, 1.0, few),
            shared_metric("shared", moments, min(most, 2 * few)),
        ]
        if problem.late_moments is not None:
            metrics.append(kinetic_metric("late", problem.late_moments, 1.0, min(most, 2 * few)))
    # Where nothing is slow, there is no such metric: all frames would be alike.
    metrics = [metric for metric in metrics if metric.matrix.any()]
    if choice == "kinetic" and metrics:
        problem = replace(problem, metrics={})
    for metric in metrics:
        problem = with_new_metric(problem, metric, kind, seed)
    return problem


def with_new_metric(problem: SearchProblem, metric: Metric, kind: FeatureKind, seed: int) -> SearchProblem:
    """Return the problem with one more metric in the unit of the others, and random features of its own."""
    first = next(iter(problem.maps.values()))
    drawn = draw_fourier_map(metric.n_directions, first.n_features, stream(seed, "metric", metric.name), kind=kind)
    # The phases are those of all others: a model file holds them once.
    drawn = replace(drawn, phases=first.phases)
    return problem.with_metric(with_extent(metric, problem.data.frames, problem.scale), drawn)


def pooled_metric(problem: SearchProblem, names: Sequence[str]) -> Metric:
    """Metric of the directions that matter to any of some metrics, each counted alike.

    Starts cut the data in different places. What matters to no cut is noise, and what one misses another one has.
    """
    frames = problem.data.frames / problem.scale
    spread = np.asarray(np.cov(frames.T, ddof=0)).reshape(len(problem.scale), -1)
    total = np.zeros((len(problem.scale), len(problem.scale)))
    for one in names:
        scaled = problem.metrics[one].matrix * problem.scale[:, None]
        square = scaled @ scaled.T
        total += square / np.trace(square @ spread)
    return Metric(POOLED, square_root(total) / problem.scale[:, None])


def learned_metric(problem: SearchProblem, candidate: Candidate, name: str) -> Metric:
    """Metric of the directions in which a candidate's scores change, each of its states counted alike.

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
        name, feature_map, rule, frames, np.tile(of_windows, len(windows)) / of_windows.sum(), problem.scale
    )
