"""Linear metrics: coordinates (x - centre) A in which the distances of the Gaussian kernel are taken.

The kernel exp(-|Aᵀ(x - x')|² / 2σ²) has the random features of the frequencies A Ω / σ, so that a rule with a metric is
made of the same three small arrays as one without. Three ways to find A: from the spread of the columns, from second
moments at a lag time (directions that change slowly), and from the gradients of a rule that is known already
(directions across its borders).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigh

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import solving
from m3c_md.optimize.blocks import Rule
from m3c_md.optimize.feature_map import FourierMap

# Added to the correlation matrix, as a share of its mean diagonal: columns that repeat each other, and directions in
# which short data hardly vary, then do not pose as slow ones.
RIDGE = 1e-2
# Autocorrelations up to this are none: single precision knows no better.
NO_MEMORY = 1e-5
# Directions with less than this share of the largest variance are left out.
NEGLIGIBLE = 1e-8
# Directions of a metric at most: what is beyond them is noise, and files would grow.
MOST_DIRECTIONS = 50
# Frames whose features are in memory at a time.
CHUNK = 8192
# Frames that may be outliers: no more than the fewest that a state may have, as a number and as a share of all; of
# small data no more than a share of them.
FEW_FRAMES = 10
FEW_OF_ALL = 1e-3
FEW_OF_SMALL = 0.05


@dataclass(frozen=True)
class Metric:
    """Linear coordinates in which distances are taken.

    Attributes
    ----------
    name : str
    matrix : (n_columns,) or (n_columns, n_directions) array
        A; factors of the columns where it is diagonal.
    """

    name: str
    matrix: FloatArray

    @property
    def n_directions(self) -> int:
        """Number of coordinates."""
        return int(self.matrix.shape[-1])

    def __call__(self, frames: FloatArray) -> FloatArray:
        """Coordinates of frames, (n, n_columns) to (n, n_directions)."""
        return np.asarray(frames * self.matrix if self.matrix.ndim == 1 else frames @ self.matrix)

    def frequencies(self, drawn: FloatArray) -> FloatArray:
        """Frequencies in terms of columns, from frequencies (n_directions, n_features) in terms of coordinates."""
        return np.asarray(self.matrix[:, None] * drawn if self.matrix.ndim == 1 else self.matrix @ drawn)

    def full_matrix(self) -> FloatArray:
        """A Aᵀ, whose quadratic form is the squared distance."""
        return np.asarray(np.diag(self.matrix**2) if self.matrix.ndim == 1 else self.matrix @ self.matrix.T)


@dataclass(frozen=True)
class Typical:
    """What is typical of columns.

    Attributes
    ----------
    mean, spread : (n_columns,) arrays
        Means and standard deviations; without a few frames where these have more than half of the variance.
    lowest, highest : (n_columns,) arrays, optional
        Range of the other frames where there are such columns, infinite for those that are not.
    """

    mean: FloatArray
    spread: FloatArray
    lowest: FloatArray | None = None
    highest: FloatArray | None = None

    def clipped(self, frames: FloatArray) -> FloatArray:
        """Frames, with those beyond the typical range at its end."""
        return frames if self.lowest is None else np.clip(frames, self.lowest, self.highest)


@dataclass(frozen=True)
class LaggedMoments:
    """Second moments of scaled columns over windows, the same forwards and backwards in time.

    Attributes
    ----------
    scale : (n_columns,) array
        Columns are divided by this; the largest standard deviation is then 1.
    instantaneous, lagged : (n_columns, n_columns) arrays
        Covariances within a frame, and between the first and the last frame of a window.
    """

    scale: FloatArray
    instantaneous: FloatArray
    lagged: FloatArray

    @cached_property
    def slow_directions(self) -> tuple[FloatArray, FloatArray]:
        """Autocorrelations (falling, from 0 to 1) and directions of unit variance of scaled columns (TICA).

        Several metrics are made of them, so they are kept.
        """
        ridge = RIDGE * max(float(np.trace(self.instantaneous)) / len(self.instantaneous), np.finfo(float).tiny)
        with solving("the slow directions of the columns", "use metric='standard'"):
            values, vectors = eigh(self.lagged, self.instantaneous + ridge * np.eye(len(self.instantaneous)))
        remembered = np.where(values[::-1] > NO_MEMORY, values[::-1], 0.0)
        return np.minimum(remembered, 1.0), np.ascontiguousarray(vectors[:, ::-1])


def lagged_moments(
    frames: FloatArray,
    first: np.ndarray,
    last: np.ndarray,
    scale: FloatArray,
    known: Typical | None = None,
) -> LaggedMoments:
    """Second moments of the windows that begin with the frames ``first`` and end with the frames ``last``.

    Columns are divided by ``scale``, and by one number more: single precision knows no numbers like 1e90. Frames beyond
    the typical range of a column count as if they were at its end.
    ``known``: what is typical of the columns (`typical_values`), where somebody has asked for it.
    """
    typical = typical_values(frames) if known is None else known
    center, scale = typical.mean, scale * (typical.spread / scale).max()
    n_columns = frames.shape[1]
    of_sums, of_differences, mean = (np.zeros(s) for s in ((n_columns, n_columns), (n_columns, n_columns), n_columns))
    for start in range(0, len(first), CHUNK):
        x, y = (
            ((typical.clipped(frames[numbers[start : start + CHUNK]]) - center) / scale).astype(np.float32)
            for numbers in (first, last)
        )
        # Symmetric products of sums and of differences are half the work of those of first and last frames.
        sums, differences = x + y, x - y
        mean += 0.5 * sums.sum(axis=0, dtype=np.float64)
        of_sums += sums.T @ sums
        of_differences += differences.T @ differences
    n, outer = len(first), np.outer(mean, mean) / len(first) ** 2
    instantaneous, lagged = 0.25 * (of_sums + of_differences) / n, 0.25 * (of_sums - of_differences) / n
    return LaggedMoments(scale, instantaneous - outer, lagged - outer)


def typical_values(frames: FloatArray) -> Typical:
    """What is typical of columns: a few frames far away from all others do not decide about their units.

    Examples
    --------
    >>> column = np.sin(np.arange(1000.0))
    >>> column[7] = 1e9
    >>> typical = typical_values(column[:, None])
    >>> typical.spread.round(1).tolist(), typical.clipped(column[6:8, None]).round(1).tolist()
    ([0.7], [[-0.3], [1.0]])
    """
    mean, spread, fourth = _moments_of_columns(frames)
    typical = Typical(mean, spread)
    n_frames, n_few = len(frames), max(FEW_FRAMES, int(FEW_OF_ALL * len(frames)))
    if n_frames < n_few / FEW_OF_SMALL:
        return typical
    # Elsewhere so few frames cannot have half of the variance (Cauchy and Schwarz).
    with np.errstate(over="ignore"):
        few_may = ~(fourth < 0.25 * n_frames / n_few * spread**4)
    suspects = np.flatnonzero(few_may & (spread > 0.0) & np.isfinite(spread))
    if not len(suspects):
        return typical
    mean, spread = mean.copy(), spread.copy()
    lowest, highest = np.full(len(mean), -np.inf), np.full(len(mean), np.inf)
    for column in suspects:
        values = frames[:, column]
        by_distance = np.argpartition(np.abs(values - np.median(values)), n_frames - n_few)
        kept = values[by_distance[: n_frames - n_few]]
        # A column that is constant but for these frames tells nothing else.
        if 0.0 < kept.std() < np.sqrt(0.5) * spread[column]:
            mean[column], spread[column] = kept.mean(), kept.std()
            lowest[column], highest[column] = kept.min(), kept.max()
    return Typical(mean, spread, lowest, highest)


def _moments_of_columns(frames: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Means, standard deviations and fourth moments of columns, a part at a time: much faster than all at once."""
    mean = frames.mean(axis=0)
    squares, fourth = np.zeros(frames.shape[1]), np.zeros(frames.shape[1])
    with np.errstate(over="ignore"):  # whoever squares such numbers refuses them
        for start in range(0, len(frames), CHUNK):
            centred = frames[start : start + CHUNK] - mean
            squares += np.einsum("nd,nd->d", centred, centred)
            centred *= centred
            fourth += np.einsum("nd,nd->d", centred, centred)
    return mean, np.sqrt(squares / len(frames)), fourth / len(frames)


def mean_and_spread(frames: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations of columns.

    Examples
    --------
    >>> mean_and_spread(np.array([[1.0, 5.0], [3.0, 5.0]]))
    (array([2., 5.]), array([1., 0.]))
    """
    return _moments_of_columns(frames)[:2]


def kinetic_metric(name: str, moments: LaggedMoments, sharpness: float, most: int) -> Metric:
    """At most ``most`` of the slowest directions, weighted by a power of their autocorrelations."""
    values, vectors = moments.slow_directions
    return Metric(name, _kept(vectors * values**sharpness, most) / moments.scale[:, None])


def shared_metric(name: str, moments: LaggedMoments, most: int) -> Metric:
    """At most ``most`` directions along which many columns change together, slowly.

    A state shows in several columns. A column that is slow by itself has as long a memory, and TICA cannot tell the
    two apart; here it counts once, and what several columns share counts as often as they do.
    """
    with solving("the shared directions of the columns", "use metric='standard'"):
        values, vectors = eigh(moments.lagged)
    least = NO_MEMORY * float(np.trace(moments.instantaneous)) / len(values)
    weights = np.where(values[::-1] > least, values[::-1], 0.0)
    return Metric(name, _kept(vectors[:, ::-1] * weights, most) / moments.scale[:, None])


def _kept(directions: FloatArray, most: int) -> FloatArray:
    """Return the first directions, but those that are next to zero; the very first in any case.

    The largest component of each is positive: random features depend on the sign, which eigenvectors do not have.
    """
    sizes = (directions**2).sum(axis=0)
    number = int(np.count_nonzero(sizes > NEGLIGIBLE * sizes[0]))
    kept = directions[:, : max(1, min(most, number))]
    largest = kept[np.abs(kept).argmax(axis=0), np.arange(kept.shape[1])]
    return np.asarray(np.where(largest < 0.0, -kept, kept))


def gradient_metric(
    name: str, feature_map: FourierMap, rule: Rule, frames: FloatArray, weights: FloatArray, scale: FloatArray
) -> Metric:
    """Square root of the mean outer product of the gradients of a rule's scores (Radhakrishnan and others 2024).

    With scores f_k centred over the states, Σ_n w_n Σ_k ∇f_k(x_n) ∇f_k(x_n)ᵀ = (2/d) Ω (S ∘ WᵀW) Ωᵀ, where S is the
    second moment of the sines of the angles whose cosines are the features: one look at the frames, and no gradient is
    ever formed.
    """
    centred = rule.weights - rule.weights.mean(axis=0)
    sines = FourierMap(feature_map.frequencies, feature_map.phases - 0.5 * np.pi, feature_map.center)
    moments = np.zeros((feature_map.n_features, feature_map.n_features))
    for start in range(0, len(frames), CHUNK):
        part = slice(start, start + CHUNK)
        s = sines(frames[part], np.float32)
        moments += (s * weights[part, None].astype(np.float32)).T @ s
    scaled = feature_map.frequencies * scale[:, None]
    product = scaled @ (0.5 * (moments + moments.T) * (centred.T @ centred)) @ scaled.T
    return Metric(name, square_root(product) / scale[:, None])


def square_root(square: FloatArray) -> FloatArray:
    """Return directions, largest first, whose outer products add up to a matrix; negligible ones are left out."""
    with solving("the directions of a metric", "use metric='standard'"):
        values, vectors = eigh(square)
    root = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0.0))
    return _kept(root, MOST_DIRECTIONS)


def root_mean_square_distance(points: FloatArray) -> float:
    """Root of the mean squared distance between all pairs of points.

    Examples
    --------
    >>> root_mean_square_distance(np.array([[0.0], [2.0]]))  # (0, 2, 2, 0)
    1.4142135623730951
    """
    return float(np.sqrt(2.0 * points.var(axis=0).sum()))


def with_extent(metric: Metric, frames: FloatArray, scale: FloatArray) -> Metric:
    """Return the metric in a unit in which frames are as far apart as with columns divided by ``scale``.

    One list of bandwidths then serves all metrics. A metric in which all frames are the same stays as it is.
    """
    own = root_mean_square_distance(metric(frames - frames.mean(axis=0)))
    if own == 0.0:
        return metric
    return Metric(metric.name, metric.matrix * (root_mean_square_distance(frames / scale) / own))


def with_variance(metric: Metric, moments: LaggedMoments, scale: FloatArray) -> Metric:
    """Return the metric in the unit of `with_extent`, from second moments: without a look at the frames."""
    unit = moments.scale if metric.matrix.ndim == 1 else moments.scale[:, None]
    scaled = metric.matrix * unit
    if metric.matrix.ndim == 1:
        own = float((scaled**2 * np.diag(moments.instantaneous)).sum())
    else:
        own = float((scaled * (moments.instantaneous @ scaled)).sum())
    if own <= 0.0:
        return metric
    wanted = float(((moments.scale / scale) ** 2 * np.diag(moments.instantaneous)).sum())
    return Metric(metric.name, metric.matrix * np.sqrt(wanted / own))
