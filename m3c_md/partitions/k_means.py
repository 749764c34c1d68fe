"""k-means: cells around means, the fine partitions of micro states and a start of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from m3c_md.optimize.kernels import compiled
from m3c_md.partitions.nearest import (
    Clustering,
    assign,
    checked_points,
    clustering_around,
    drawn_sample,
    nearly_nearest,
    plain,
)

Nearest = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.intp]]


def k_means(
    points: ArrayLike,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    n_restarts: int = 10,
    max_points: int = 10_000,
    max_iterations: int = 300,
) -> Clustering:
    """Cluster around means: Lloyd's iteration from k-means++ seeds, on at most `max_points` points.

    Parameters
    ----------
    points : (N, D) array_like
        Points; duplicates are allowed.
    n_clusters : int
        Number of clusters.
    rng : numpy.random.Generator
        Source of seeds and of the sample.
    n_restarts : int, optional
        Number of k-means++ starts.
    max_points : int, optional
        Size of the random sample that stands for larger data sets.
    max_iterations : int, optional
        Limit for each start.

    Returns
    -------
    Clustering
        With `indices` None. The inertia sums distances, not their squares, to compare with `k_medoids`.

    Raises
    ------
    InputError
        If there are fewer (numerically) distinct points than clusters, or points are not finite.

    Examples
    --------
    >>> found = k_means([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]], 2, np.random.default_rng(0))
    >>> sorted(found.centers.ravel().tolist())
    [1.0, 11.0]
    """
    X = checked_points(points, n_clusters)
    sample = drawn_sample(X, max(max_points, n_clusters), n_clusters, rng)
    centers, converged = _means(X[sample], n_clusters, rng, n_restarts, max_iterations, assign)
    return clustering_around(X, centers, None, len(sample), converged)


def k_means_cells(
    points: ArrayLike, n_cells: int, rng: np.random.Generator, *, max_points: int, max_iterations: int
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Centres of cells, and the cell of every point: k-means where nearly the nearest centre will do.

    Distances are of single precision, and there is one start. Cells that no point is nearest to are left out.
    Parameters are those of `k_means`, errors too.

    Examples
    --------
    >>> centers, cells = k_means_cells(
    ...     [[0.0], [1.0], [10.0], [11.0]], 2, np.random.default_rng(0), max_points=4, max_iterations=9
    ... )
    >>> centers.ravel().tolist(), cells.tolist()
    ([0.5, 10.5], [0, 0, 1, 1])
    """
    X = checked_points(points, n_cells)
    sample = drawn_sample(X, max(max_points, n_cells), n_cells, rng)
    centers, _ = _means(X[sample], n_cells, rng, 1, max_iterations, nearly_nearest)
    cells = nearly_nearest(X, centers)
    populated = np.bincount(cells, minlength=len(centers)) > 0
    return centers[populated], (np.cumsum(populated) - 1)[cells]


def _means(
    points: NDArray[np.floating],
    n_clusters: int,
    rng: np.random.Generator,
    n_restarts: int,
    max_iterations: int,
    nearest: Nearest,
) -> tuple[NDArray[np.float64], bool]:
    """Centres of the best of some starts, in an order of their own, and whether they stood still."""
    x = plain(points)
    # Around their mean, and in units of their extent, squares of points neither cancel nor overflow.
    origin = x.mean(axis=0)
    x -= origin
    unit = np.abs(x).max() or 1.0
    x /= unit
    seeds = (x[_means_seed(x, n_clusters, rng)] for _ in range(n_restarts))
    starts = (_lloyd(x, centers, max_iterations, nearest) for centers in seeds)
    centers, _, converged = min(starts, key=lambda found: found[1])
    centers = centers[np.lexsort(centers.T[::-1])]  # numbers that do not depend on which seed came first
    return centers * unit + origin, converged


def _means_seed(x: NDArray[np.float64], n_clusters: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Points drawn with probability proportional to the squared distance from those before (k-means++).

    The first ones are drawn one by one, where each matters; of many, a fifth of those that are there at once.
    """
    chosen = np.array([rng.integers(len(x))])
    squares = ((x - x[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < n_clusters:
        mass = np.cumsum(squares)
        n_more = min(max(1, len(chosen) // 5), n_clusters - len(chosen))
        if mass[-1] > 0.0:
            drawn = np.searchsorted(mass, rng.random(n_more) * mass[-1], side="right")
            more = np.unique(
                np.minimum(drawn, np.searchsorted(mass, mass[-1]))
            )  # the product may round up to the total
        else:  # what is left differs from a seed by less than squares resolve: any will do
            more = np.setdiff1d(np.arange(len(x)), chosen)[:n_more]
        squares = np.minimum(squares, cdist(x[more], x, "sqeuclidean").min(axis=0))
        chosen = np.concatenate([chosen, more])
    return chosen


def _lloyd(
    x: NDArray[np.float64], centers: NDArray[np.float64], max_iterations: int, nearest: Nearest
) -> tuple[NDArray[np.float64], float, bool]:
    """Move centres to the means of their points until none changes hands; centres, sum of squares, whether done."""
    n_clusters, converged = len(centers), False
    labels = nearest(x, centers)
    for _ in range(max_iterations):
        counts, sums = _counts_and_sums(x, labels, n_clusters)
        centers = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centers)
        if not counts.all():  # a centre that lost all its points goes where it is missed most
            squares = ((x - centers[labels]) ** 2).sum(axis=1)
            empty = np.flatnonzero(counts == 0)
            centers[empty] = x[np.argsort(-squares, kind="stable")[: len(empty)]]
        before, labels = labels, nearest(x, centers)
        converged = np.array_equal(before, labels)
        if converged:
            break
    return centers, float(((x - centers[labels]) ** 2).sum()), converged


def _counts_and_sums(
    x: NDArray[np.float64], labels: NDArray[np.intp], n_clusters: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Numbers of points and sums of points of every cluster."""
    loops = compiled()
    counts, sums = np.zeros(n_clusters, dtype=np.intp), np.zeros((n_clusters, x.shape[1]))
    if loops is not None:
        loops.mean_loop(x, labels, counts, sums)
        return counts, sums
    np.add.at(counts, labels, 1)
    np.add.at(sums, labels, x)
    return counts, sums
