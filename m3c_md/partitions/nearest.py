"""Centres of clusters: what a clustering is, and which centre is nearest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from m3c_md.exceptions import InputError
from m3c_md.optimize.kernels import compiled

Floats = NDArray[np.floating]

# Entries of one block of a points-by-centres table: 2 MB in float64, which stays in the cache.
BLOCK_ENTRIES = 2**18
# Coordinates beyond which sums of squares are too large for single precision.
FARTHEST = 1e15


@dataclass(frozen=True)
class Clustering:
    """Centres and the assignment of all points to them.

    Attributes
    ----------
    centers : (k, D) ndarray
        Centres.
    indices : (k,) ndarray of intp or None
        Position of each centre in the points; None where centres are no data points (k-means).
    labels : (N,) ndarray of intp
        Nearest centre of each point.
    counts : (k,) ndarray of intp
        Points of each centre, all positive; counts / N are the weights c of the coarse-grained problem.
    inertia : float
        Within-cluster scatter: sum over all points of the Euclidean distance to their centre.
    n_sampled : int
        Number of points among which the centres were sought.
    converged : bool
        Whether the centres stood still before the limit on iterations.
    """

    centers: NDArray[np.float64]
    indices: NDArray[np.intp] | None
    labels: NDArray[np.intp]
    counts: NDArray[np.intp]
    inertia: float
    n_sampled: int
    converged: bool = True


def at_most_distinct(points: ArrayLike, wanted: int) -> int:
    """Return ``wanted``, or the number of distinct points if that is smaller.

    Examples
    --------
    >>> at_most_distinct([[0.0], [1.0], [0.0]], 5)
    2
    """
    X = np.asarray(points)
    # Continuous data show enough distinct points in a few rows; only others are looked through as a whole.
    if len(np.unique(X[: 4 * wanted], axis=0)) >= wanted:
        return wanted
    return min(wanted, len(np.unique(X, axis=0)))


def assign(points: ArrayLike, centers: ArrayLike) -> NDArray[np.intp]:
    """Index of the nearest centre of each point, the lowest on ties.

    Parameters
    ----------
    points : (N, D) array_like
        Points.
    centers : (k, D) array_like
        Centres.

    Returns
    -------
    (N,) ndarray of intp
        Labels.

    Examples
    --------
    >>> assign([[0.0], [4.0], [5.0], [9.0]], [[0.0], [10.0]])
    array([0, 0, 0, 1])
    """
    X, C = np.asarray(points), np.asarray(centers, dtype=np.float64)
    if X.ndim != 2 or C.ndim != 2 or len(C) == 0 or X.shape[1] != C.shape[1]:
        raise InputError(f"points {X.shape} and centers {C.shape} must be tables with equally many columns.")
    loops = compiled()
    if loops is not None:
        nearest_of_all = np.empty(len(X), dtype=np.intp)
        loops.nearest_loop(np.ascontiguousarray(X, dtype=np.float64), np.ascontiguousarray(C.T), nearest_of_all)
        return nearest_of_all
    # Far from the origin |c|^2 - 2 x.c cancels; around the centres' mean it does not.
    origin = C.mean(axis=0)
    shifted = C - origin
    squares = np.einsum("kd,kd->k", shifted, shifted)
    labels = np.empty(len(X), dtype=np.intp)
    for block in row_blocks(len(X), len(C)):
        x = X[block].astype(np.float64)
        local = x - origin
        scores = squares - 2.0 * (local @ shifted.T)
        nearest = scores.argmin(axis=1)
        # Where rounding could have decided, decide again by differences, which are exact for exact ties. A sum of as
        # many terms as there are columns is off by half an eps for each; 8 leaves room for the others.
        size = np.einsum("nd,nd->n", local, local) + squares.max()
        close = scores.min(axis=1) + 8.0 * np.finfo(np.float64).eps * (X.shape[1] + 2) * size
        unsure = np.flatnonzero((scores <= close[:, None]).sum(axis=1) > 1)
        if len(unsure):
            nearest[unsure] = cdist(x[unsure], C, "sqeuclidean").argmin(axis=1)
        labels[block] = nearest
    return labels


def nearly_nearest(points: Floats, centers: NDArray[np.float64]) -> NDArray[np.intp]:
    """Index of a centre of each point that is the nearest, but for rounding of single precision: a third of the time.

    Examples
    --------
    >>> nearly_nearest(np.array([[0.0], [4.0], [9.0]]), np.array([[0.0], [10.0]]))
    array([0, 0, 1])
    """
    # In the midst of the centres and in units of their extent, single precision serves points of any unit; the median
    # stays there if a few centres are far away.
    origin = np.median(centers, axis=0)
    shifted = centers - origin
    unit = np.abs(shifted).max() or 1.0
    near = (shifted / unit).astype(np.float32)
    half_squares = 0.5 * np.einsum("kd,kd->k", near, near)
    labels = np.empty(len(points), dtype=np.intp)
    for block in row_blocks(len(points), max(points.shape[1], len(centers))):
        x = points[block] - origin
        x /= unit
        # A point so far from all centres that its square has no number there may have any of them.
        closeness = np.clip(x, -FARTHEST, FARTHEST).astype(np.float32) @ near.T
        closeness -= half_squares
        labels[block] = closeness.argmax(axis=1)
    return labels


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of rows whose tables of so many columns stay in the cache."""
    rows = max(1, BLOCK_ENTRIES // max(n_columns, 1))
    return (slice(start, start + rows) for start in range(0, n_rows, rows))


def checked_points(points: ArrayLike, n_clusters: int) -> Floats:
    """Points as a table of finite floats; refuses what cannot be clustered."""
    X = np.asarray(points)
    if X.ndim != 2 or X.shape[1] == 0:
        raise InputError(f"points must have shape (n_points, n_dimensions), got {X.shape}.")
    if not np.issubdtype(X.dtype, np.floating):
        X = X.astype(np.float64)
    if not np.isfinite(X).all():
        raise InputError(f"point {np.argwhere(~np.isfinite(X))[0, 0]} is not finite; remove it or repair the features.")
    if n_clusters < 1:
        raise InputError(f"n_clusters={n_clusters} must be positive.")
    return X


def plain(X: Floats) -> NDArray[np.float64]:
    """Float64 copy without negative zeros, which equal zero but need not sort with it."""
    return X.astype(np.float64) + 0.0


def drawn_sample(X: Floats, size: int, n_distinct: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw `size` random points (all, if there are no more), `n_distinct` or more of them distinct, as indices."""
    sample = np.arange(len(X)) if len(X) <= size else np.sort(rng.choice(len(X), size, replace=False))
    if at_most_distinct(plain(X[sample]), n_distinct) == n_distinct:
        return sample
    # Mostly duplicates: make sure of enough distinct points. Rare, hence the slow look at all the data only here.
    distinct = np.unique(plain(X), axis=0, return_index=True)[1]
    if len(distinct) < n_distinct:
        raise InputError(
            f"{len(distinct)} distinct points cannot form n_clusters={n_distinct}; ask for fewer clusters."
        )
    chosen = rng.choice(distinct, n_distinct, replace=False)
    return np.concatenate([chosen, np.setdiff1d(sample, chosen)[: size - n_distinct]])


def clustering_around(
    X: Floats, centers: Floats, indices: NDArray[np.intp] | None, n_sampled: int, converged: bool
) -> Clustering:
    """Clustering of all points around given centres; refuses centres that no point is nearest to."""
    C = centers.astype(np.float64)
    labels = assign(X, C)
    inertia = sum(float(np.linalg.norm(X[b] - C[labels[b]], axis=1).sum()) for b in row_blocks(len(X), X.shape[1]))
    counts = np.bincount(labels, minlength=len(C))
    if not counts.all():
        raise InputError(
            f"Only {np.count_nonzero(counts)} of n_clusters={len(C)} clusters can be populated: some distinct points "
            "are equal up to rounding; ask for fewer clusters."
        )
    return Clustering(C, indices, labels, counts, inertia, n_sampled, converged)
