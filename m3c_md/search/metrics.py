"""Metrics that compete in a search, and metrics that are learned from what it has found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from m3c_md.frames.windows import equally_spaced
from m3c_md.optimize.feature_map import FeatureKind, draw_fourier_map
from m3c_md.optimize.metric import (
    Metric,
    gradient_metric,
    kinetic_metric,
    shared_metric,
    square_root,
    with_extent,
)
from m3c_md.search.problem import FEW_COLUMNS, STANDARD, SearchProblem
from m3c_md.search.selection import Candidate
from m3c_md.search.trials import stream

MetricChoice = Literal["auto", "standard", "kinetic", "learned"]

# How the names of learned metrics begin.
LEARNED = "learned"
# Powers of the autocorrelations by which slow directions are weighted.
SHARPNESSES = (1.0, 2.0)
# Directions of a metric at most: what is beyond them is noise, and random features become the better the fewer.
MOST_DIRECTIONS = 50


def with_competing_metrics(
    problem: SearchProblem, choice: MetricChoice, kind: FeatureKind, seed: int
) -> SearchProblem:
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
    if choice == "kinetic":
        problem = _without(problem, STANDARD)
    for metric in metrics:
        problem = with_new_metric(problem, metric, kind, seed)
    return problem


def _without(problem: SearchProblem, name: str) -> SearchProblem:
    from dataclasses import replace

    metrics = {key: metric for key, metric in problem.metrics.items() if key != name}
    return replace(problem, metrics=metrics)


def with_new_metric(problem: SearchProblem, metric: Metric, kind: FeatureKind, seed: int) -> SearchProblem:
    """Return the problem with one more metric in the unit of the others, and random features of its own."""
    frames = problem.data.frames
    # The extent of scaled columns: one list of bandwidths then serves all metrics.
    extent = float(np.sqrt(2.0 * (frames / problem.scale).var(axis=0).sum()))
    n_features = next(iter(problem.maps.values())).n_features
    drawn = draw_fourier_map(metric.n_directions, n_features, stream(seed, "metric", metric.name), kind=kind)
    return problem.with_metric(with_extent(metric, frames, extent), drawn)


def pooled_metric(problem: SearchProblem, names: Sequence[str], name: str) -> Metric:
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
    return Metric(name, square_root(total) / problem.scale[:, None])


def learned_metric(problem: SearchProblem, candidate: Candidate, name: str) -> Metric:
    """Metric of the directions in which a candidate's scores change, each of its states counted alike."""
    chosen = equally_spaced(problem.data.n_windows, candidate.n_windows)
    labels, weights = candidate.optimum.labels, problem.weights[chosen]
    mass = np.bincount(labels, weights=weights, minlength=problem.settings.n_states)
    of_windows = weights / np.where(mass > 0.0, mass, 1.0)[labels]
    windows = problem.data.windows[:, chosen]
    frames = problem.data.frames[windows.ravel()]
    return gradient_metric(
        name,
        problem.feature_map(*candidate.kernel),
        candidate.optimum.rule,
        frames,
        np.tile(of_windows, len(windows)) / of_windows.sum(),
        problem.scale,
    )
