"""What a search is about: the windows, their weights, the feature maps and the fixed settings, prepared once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.exceptions import InputError
from m3c_md.frames.source import FrameBlock, Source
from m3c_md.frames.weights import effective_sample, nothing_relaxed, weights_of_ratios
from m3c_md.frames.windows import FeatureBlocks, WindowSet
from m3c_md.optimize.feature_map import FeatureKind, FourierMap, draw_fourier_map
from m3c_md.optimize.metric import (
    LaggedMoments,
    Metric,
    Typical,
    kinetic_metric,
    lagged_moments,
    shared_metric,
    typical_values,
    with_extent,
)
from m3c_md.partitions.k_medoids import k_medoids
from m3c_md.partitions.microstates import Microstates, find_microstates
from m3c_md.partitions.nearest import Clustering, at_most_distinct, nearly_nearest
from m3c_md.partitions.reweighting import relaxed_ratios
from m3c_md.search.local_search import SearchSettings
from m3c_md.search.rungs import STREAMED

SharedStart = Literal["pcca", "lumping", "kmeans", "kmedoids", "random"]
BandwidthStart = Literal["kinetic", "relaxation", "relaxation-literal"]
ColumnScale = Literal["none", "standard"]

# Fine partitions over which the weights of the windows are averaged: (up to so many windows, partitions). The more
# windows the cells hold, the less one partition differs from another.
N_PARTITIONS = ((8_000, 3), (20_000, 2), (np.inf, 1))
# Effective sample beyond which the weights of a large data set are taken to be uniform.
NEARLY_UNIFORM = 0.98
# Squares of distances must neither underflow nor overflow.
SMALLEST_EXTENT = 1e-100
# Bandwidths tried by default, in units of the root mean square distance between frames.
BANDWIDTH_FACTORS = tuple(2.0 ** (0.5 * j) for j in range(-5, 3))
# Name of the metric of scaled columns.
STANDARD = "standard"
# Up to this number of columns a fine partition of scaled columns sees all that there is, and the kernel does with
# fewer random features.
FEW_COLUMNS = 8
# Random features by default, up to `FEW_COLUMNS` and from `MANY_COLUMNS` on, and in proportion between them: the kernel
# of many needs more of them, however few the windows (labelled sequences of 1,000 windows in 16 to 36 columns: up to
# three times the errors with 100).
N_FEATURES = (100, 200)
MANY_COLUMNS = 16
# A kernel needs no more features than there are windows, but a few.
FEWEST_FEATURES = 20
# Slow directions in which the frames of more columns are partitioned.
CELL_DIRECTIONS = 10
# A longer lag time, in lag times, at which slow directions are looked for, too: columns of noise have a memory, but
# few of them one as long as states. And the share of the windows that must reach so far.
LATE = 20
ENOUGH_LATE = 0.5
# Pairs of a thin sample may be further apart, but by then states are forgotten, too.
TOO_LATE = 5 * LATE


class Kernel(NamedTuple):
    """A Gaussian kernel: its width, and the name of the metric in which distances are taken."""

    bandwidth: float
    metric: str = STANDARD

    def __str__(self) -> str:
        """Name in the journal of a search."""
        return f"{self.metric} {self.bandwidth!r}"


@dataclass(frozen=True)
class SearchProblem:
    """Everything that the candidates of one search share.

    Attributes
    ----------
    data : WindowSet
        All windows, or a sample of them where they are many.
    weights : (n_windows,) array
        Normalised weights of these windows.
    scale : (n_columns,) array
        Columns are divided by this before distances are taken.
    typical : Typical
        Means and spreads of the columns, in which a few frames far away do not count.
    metrics : mapping of str to Metric
        Metrics that compete, by name.
    maps : mapping of str to FourierMap
        Feature map of bandwidth 1 for each of them.
    moments, late_moments : LaggedMoments or None
        Second moments of the scaled columns at the lag time, and at `LATE` times that; None where no metric needs
        them, or where trajectories are too short.
    spaces : list of Metric
        Coordinates in which frames are partitioned, one after the other.
    partitions : list of Microstates
        Fine partitions of the frames; empty if neither weights nor starts need them.
    coarse : Clustering or None
        Coarse windows, scaled slices side by side; None if no start needs them.
    settings : SearchSettings
    everything : Source, optional
        All the data, weighted, where ``data`` is a sample or where the winner is to be polished block by block.
    unrelaxed : bool
        Whether weights were asked for but cannot be computed from these data, so that windows count alike.
    """

    data: WindowSet
    weights: FloatArray
    scale: FloatArray
    typical: Typical
    metrics: Mapping[str, Metric]
    maps: Mapping[str, FourierMap]
    moments: LaggedMoments | None
    late_moments: LaggedMoments | None
    spaces: list[Metric]
    partitions: list[Microstates]
    coarse: Clustering | None
    settings: SearchSettings
    everything: Source | None = None
    unrelaxed: bool = False

    @property
    def n_windows(self) -> int:
        """Number of windows of all the data."""
        return self.data.n_windows if self.everything is None else self.everything.n_windows

    @property
    def n_parts(self) -> int:
        """Number of independent parts that the windows come from."""
        return len(np.unique(self.data.parts))

    @cached_property
    def center(self) -> FloatArray:
        """Mean of the columns, around which all feature maps are."""
        known = next(iter(self.maps.values()), None)
        return self.data.frames.mean(axis=0) if known is None else known.center

    @property
    def effective_sample(self) -> float:
        """Effective sample size of the weights, as a fraction of the windows."""
        return effective_sample(self.weights)

    def feature_map(self, bandwidth: float, metric: str = STANDARD) -> FourierMap:
        """Feature map of the Gaussian kernel of this width in a metric."""
        return self.maps[metric].with_bandwidth(bandwidth)

    def features(self, kernel: Kernel, chosen: IntArray, precision: type[np.floating] = np.float32) -> FeatureBlocks:
        """Features of some windows, given by their numbers, and their weights."""
        return FeatureBlocks(self.data, self.feature_map(*kernel), self.weights[chosen], chosen, precision)

    def later_windows(self, chosen: IntArray) -> tuple[IntArray, IntArray] | None:
        """Pairs of chosen windows, by their places among them, between which most of what is not a state is forgotten.

        They are `LATE` lag times apart, or less where trajectories are too short for that; None where there are too
        few of them, or where they are too far apart.
        """
        for n_reaches in (LATE, LATE // 2, LATE // 4):
            pairs = self.data.later_windows(n_reaches, chosen)
            if pairs is not None and len(pairs[0]) >= ENOUGH_LATE * len(chosen):
                return None if pairs[2] > TOO_LATE * self.data.reach else pairs[:2]
        return None

    def with_metric(self, metric: Metric, drawn: FourierMap) -> SearchProblem:
        """Return the problem with one more metric, whose features have frequencies drawn for its coordinates."""
        of_columns = FourierMap(metric.frequencies(drawn.frequencies), drawn.phases, self.center)
        return replace(
            self,
            metrics={**self.metrics, metric.name: metric},
            maps={**self.maps, metric.name: of_columns},
        )


def prepare_problem(
    data: WindowSet,
    settings: SearchSettings,
    rng: np.random.Generator,
    *,
    starts: tuple[str, ...],
    n_features: int,
    feature_kind: FeatureKind,
    scale: ColumnScale,
    reweight: bool,
    n_coarse: int,
    source: Source | None = None,
    kinetic: bool = False,
    given: Metric | None = None,
) -> SearchProblem:
    """Choose scale and features, partition the frames, weight and coarse-grain the windows (Algorithm 1, line 1).

    ``kinetic``: whether slow directions of the columns are wanted. ``given``: a metric that takes the place of all.
    """
    typical = typical_values(data.frames)
    columns = column_scale(data.frames, scale, typical)
    first = Metric(STANDARD, 1.0 / columns) if given is None else with_extent(given, data.frames, columns)
    # First of all, so that the features depend on nothing but the seed and the number of directions.
    base_map = draw_fourier_map(first.n_directions, n_features, rng, kind=feature_kind)
    moments = late = None
    if kinetic:
        moments = lagged_moments(data.frames, data.windows[0], data.windows[-1], columns, typical)
        late = _late_moments(data, columns, typical) if len(columns) > FEW_COLUMNS else None
    spaces = [first]
    if moments is not None and len(columns) > FEW_COLUMNS:
        spaces += _slow_spaces(moments, late)
    enough = next(number for most, number in N_PARTITIONS if data.n_windows <= most)
    n_partitions = enough if reweight else int("pcca" in starts or "lumping" in starts)
    if n_partitions:
        n_partitions = max(n_partitions, len(spaces))
    within = [spaces[number % len(spaces)] for number in range(n_partitions)]
    partitions = [find_microstates(data, space, rng) for space in within]
    weights, unrelaxed = np.full(data.n_windows, 1.0 / data.n_windows), False
    if reweight:
        ratios = [relaxed_ratios(cells, data.horizon) for cells in partitions]
        of_windows = [ratio[cells.windows[0]] for ratio, cells in zip(ratios, partitions, strict=True)]
        relaxed, unrelaxed = weights_of_ratios(of_windows), nothing_relaxed(float(np.mean(of_windows)))
        # Weights that hardly differ are not worth a look at all the data in search of cells.
        if source is None or effective_sample(relaxed) < NEARLY_UNIFORM:
            weights = relaxed
            if source is not None:
                source = source.weighted(_ratios_of_block, [c.centers for c in partitions], ratios, within)
    coarse = None
    if any(start.startswith("relaxation") for start in starts):
        points = joined_slices(data, columns)
        coarse = k_medoids(points, at_most_distinct(points, n_coarse), rng)
    problem = SearchProblem(
        data, weights, columns, typical, {}, {}, moments, late, spaces, partitions, coarse, settings, source, unrelaxed
    )
    return problem.with_metric(first, base_map)


def _late_moments(data: WindowSet, scale: FloatArray, known: Typical) -> LaggedMoments | None:
    """Second moments at a longer lag time, by which fast noise has gone; None where that leaves too few windows."""
    pairs = data.later(LATE)
    if pairs is None:
        return None
    first, last, apart = pairs
    if len(first) < ENOUGH_LATE * data.n_windows or apart > TOO_LATE * data.reach:
        return None
    return lagged_moments(data.frames, first, last, scale, known)


def _slow_spaces(moments: LaggedMoments, late: LaggedMoments | None) -> list[Metric]:
    """Spaces of slow directions in which frames are partitioned, beside that of scaled columns.

    Cells in hundreds of columns would say little about the slow ones.
    """
    slow = [
        kinetic_metric("slow", moments, 1.0, CELL_DIRECTIONS),
        shared_metric("shared", moments, CELL_DIRECTIONS),
    ]
    if late is not None:
        slow.append(kinetic_metric("late", late, 1.0, CELL_DIRECTIONS))
    # Where nothing is slow, there are no such directions: all frames would be alike.
    return [space for space in slow if space.matrix.any()]


def with_slow_spaces(problem: SearchProblem, rng: np.random.Generator) -> SearchProblem:
    """Return a problem that has none with partitions in slow directions; weights of windows stay what they are."""
    data, typical = problem.data, problem.typical
    moments = problem.moments or lagged_moments(data.frames, data.windows[0], data.windows[-1], problem.scale, typical)
    late = _late_moments(data, problem.scale, typical)
    spaces = _slow_spaces(moments, late)
    partitions = [find_microstates(problem.data, space, rng) for space in spaces]
    return replace(
        problem,
        moments=moments,
        late_moments=late,
        spaces=[*problem.spaces, *spaces],
        partitions=[*problem.partitions, *partitions],
    )


def _ratios_of_block(
    block: FrameBlock, centers: list[FloatArray], ratios: list[FloatArray], spaces: list[Metric]
) -> NDArray[np.float32]:
    """Sum of the ratios of the cells that the first frames of windows are in."""
    frames = block.frames[block.windows[0]]
    cells = zip(ratios, centers, spaces, strict=True)
    total = sum(ratio[nearly_nearest(space(frames), middle)] for ratio, middle, space in cells)
    return np.asarray(total, dtype=np.float32)


def column_scale(frames: FloatArray, scale: ColumnScale, typical: Typical | None = None) -> FloatArray:
    """Divisors of the columns: ones, or typical standard deviations (one for a constant column).

    ``typical``: what is typical of the columns, where that is known.

    Examples
    --------
    >>> column_scale(np.array([[0.0, 5.0], [2.0, 5.0]]), "standard").tolist()
    [1.0, 1.0]
    """
    typical = typical_values(frames) if typical is None else typical
    # Rounding gives equal frames a tiny standard deviation, but never a range.
    if not _clearly_varied(typical):
        extent = np.ptp(frames, axis=0).max()
        if extent > 0.0 and not SMALLEST_EXTENT < extent < 1.0 / SMALLEST_EXTENT:
            raise InputError(
                f"the columns span up to {extent:.3g}, too extreme to square; change the unit of the features"
            )
        if not extent > 0.0:
            raise InputError(
                f"all {len(frames)} frames are equal, so there is nothing to cluster; check how the features were made"
            )
    return np.ones(frames.shape[1]) if scale == "none" else divisors(typical.spread)


def _clearly_varied(typical: Typical) -> bool:
    """Whether frames differ by more than rounding, by numbers that can be squared: no need to look for their range."""
    spread = float(typical.spread.max())
    usual = SMALLEST_EXTENT < spread < SMALLEST_EXTENT**-0.5
    return typical.lowest is None and usual and spread > 1e-6 * float(np.abs(typical.mean).max())


def divisors(spread: FloatArray) -> FloatArray:
    """Standard deviations as divisors: one for a column that is constant but for rounding.

    Examples
    --------
    >>> divisors(np.array([2.0, 1e-14])).tolist()
    [2.0, 1.0]
    """
    return np.where(spread > 1e-12 * spread.max(), spread, 1.0)


def default_bandwidths(spread: FloatArray, scale: FloatArray) -> FloatArray:
    """Bandwidths from 0.18 to 2 times the root mean square distance between frames, half an octave apart."""
    return np.asarray(np.array(BANDWIDTH_FACTORS) * np.sqrt(2.0 * ((spread / scale) ** 2).sum()))


def default_n_features(n_columns: int, n_windows: int) -> int:
    """Number of random features that fits the data.

    Examples
    --------
    >>> default_n_features(4, 10_000), default_n_features(12, 10_000), default_n_features(36, 10_000)
    (100, 150, 200)
    >>> default_n_features(36, 70)
    70
    """
    columns = n_columns if n_windows <= STREAMED else 0
    wanted = round(float(np.interp(columns, (FEW_COLUMNS, MANY_COLUMNS), N_FEATURES)))
    return min(wanted, max(n_windows, FEWEST_FEATURES))


def joined_slices(data: WindowSet, scale: FloatArray) -> FloatArray:
    """Windows as points: their scaled slices side by side, (n_windows, n_slices n_columns)."""
    return np.hstack([data.frames[frames] / scale for frames in data.windows])
