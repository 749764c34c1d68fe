"""Coarse graining of a data set into a few weighted centres (Algorithm 1, line 1).

k-medoids (centres are data points, scatter is the sum of plain Euclidean distances) is the default of the paper;
k-means is the option. Both look for centres in at most `max_points` points and then assign all points in blocks, so
that memory does not grow with the square of the data.
"""

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
_BLOCK_ENTRIES = 2**18
# Candidates whose swaps are evaluated together: larger wastes work as the first good swap is taken at once.
_SWAP_BLOCK = 32
# Relative gain below which a swap in the float32 distance table is rounding noise.
_MIN_GAIN = 1e-6
# One in so many starts is carried to the end: nearly as good as finishing all, in half the time.
_STARTS_PER_END = 5
# Samples of a large data set among which the medoids with least scatter of all the data are chosen (CLARA).
_N_SAMPLES = 2


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


def k_medoids(
    points: ArrayLike,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    n_restarts: int = 10,
    max_points: int = 3000,
    max_iterations: int = 100,
) -> Clustering:
    """Cluster around data points of least Euclidean scatter.

    Seeds are drawn far apart (greedy k-means++ with plain distances) and the best are improved until no exchange of
    one medoid for another point helps (PAM, with the swap formula of Schubert and Rousseeuw). Beyond `max_points`
    points this happens in random samples, and the medoids with least scatter of all the data are kept (CLARA).

    Parameters
    ----------
    points : (N, D) array_like
        Points; duplicates are allowed.
    n_clusters : int
        Number of clusters.
    rng : numpy.random.Generator
        Source of seeds and samples.
    n_restarts : int, optional
        Starts, in all samples together.
    max_points : int, optional
        Points in a sample (as many as clusters, if that is more); 4 * max_points**2 bytes of memory are needed.
    max_iterations : int, optional
        Limit on sweeps of the exchange over all points of a sample.

    Returns
    -------
    Clustering
        With `indices` of the medoids, ordered as the points are.

    Raises
    ------
    InputError
        If there are fewer distinct points than clusters, or points are not finite.

    Examples
    --------
    >>> found = k_medoids([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]], 2, np.random.default_rng(0))
    >>> found.centers.ravel(), found.inertia
    (array([ 1., 11.]), 4.0)
    """
    X = _checked_points(points, n_clusters)
    if n_restarts < 1:
        raise InputError(f"n_restarts={n_restarts} must be positive.")
    max_points = max(max_points, n_clusters)
    n_samples = 1 if len(X) <= max_points else min(_N_SAMPLES, n_restarts)
    n_starts = -(-n_restarts // n_samples)

    def attempt() -> Clustering:
        sample = _draw_sample(X, max_points, n_clusters, rng)
        medoids, converged = _sample_medoids(X, sample, n_clusters, rng, n_starts, max_iterations)
        indices = np.sort(medoids)
        return _clustering(X, X[indices], indices, len(sample), converged)

    return min((attempt() for _ in range(n_samples)), key=lambda found: found.inertia)


def k_means(
    points: ArrayLike,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    n_restarts: int = 10,
    max_points: int = 10_000,
    max_iterations: int = 300,
    fewer: bool = False,
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
    fewer : bool, optional
        Whether clusters that no point is nearest to are left out; otherwise they are an error.

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
    X = _checked_points(points, n_clusters)
    sample = _draw_sample(X, max(max_points, n_clusters), n_clusters, rng)
    x = _plain(X[sample])
    # Around their mean, and in units of their extent, squares of points neither cancel nor overflow.
    origin = x.mean(axis=0)
    x -= origin
    unit = np.abs(x).max() or 1.0
    x /= unit
    starts = (_lloyd(x, x[_means_seed(x, n_clusters, rng)], max_iterations) for _ in range(n_restarts))
    centers, _, converged = min(starts, key=lambda found: found[1])
    centers = centers[np.lexsort(centers.T[::-1])]  # numbers that do not depend on which seed came first
    centers = centers * unit + origin
    if fewer:
        centers = centers[np.unique(assign(X[sample], centers))]
    return _clustering(X, centers, None, len(sample), converged)


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
        squares = np.minimum(squares, cdist(x, x[more], "sqeuclidean").min(axis=1))
        chosen = np.concatenate([chosen, more])
    return chosen


def _lloyd(
    x: NDArray[np.float64], centers: NDArray[np.float64], max_iterations: int
) -> tuple[NDArray[np.float64], float, bool]:
    """Move centres to the means of their points until none changes hands; centres, sum of squares, whether done."""
    n_clusters, converged = len(centers), False
    labels = assign(x, centers)
    for _ in range(max_iterations):
        counts = np.bincount(labels, minlength=n_clusters)
        sums = np.stack([np.bincount(labels, weights=column, minlength=n_clusters) for column in x.T], axis=1)
        centers = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centers)
        if not counts.all():  # a centre that lost all its points goes where it is missed most
            squares = ((x - centers[labels]) ** 2).sum(axis=1)
            empty = np.flatnonzero(counts == 0)
            centers[empty] = x[np.argsort(-squares, kind="stable")[: len(empty)]]
        before, labels = labels, assign(x, centers)
        converged = np.array_equal(before, labels)
        if converged:
            break
    return centers, float(((x - centers[labels]) ** 2).sum()), converged


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
    for block in _blocks(len(X), len(C)):
        x = X[block].astype(np.float64)
        local = x - origin
        scores = squares - 2.0 * (local @ shifted.T)
        nearest = scores.argmin(axis=1)
        # Where rounding could have decided, decide again by differences, which are exact for exact ties.
        size = np.einsum("nd,nd->n", local, local) + squares.max()
        close = scores.min(axis=1) + 8.0 * np.finfo(np.float64).eps * (X.shape[1] + 2) * size
        unsure = np.flatnonzero((scores <= close[:, None]).sum(axis=1) > 1)
        if len(unsure):
            nearest[unsure] = cdist(x[unsure], C, "sqeuclidean").argmin(axis=1)
        labels[block] = nearest
    return labels


def _blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    rows = max(1, _BLOCK_ENTRIES // max(n_columns, 1))
    return (slice(start, start + rows) for start in range(0, n_rows, rows))


def _checked_points(points: ArrayLike, n_clusters: int) -> Floats:
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


def _plain(X: Floats) -> NDArray[np.float64]:
    """Float64 copy without negative zeros, which equal zero but need not sort with it."""
    return X.astype(np.float64) + 0.0


def _draw_sample(X: Floats, size: int, n_distinct: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw `size` random points (all, if there are no more), `n_distinct` or more of them distinct, as indices."""
    sample = np.arange(len(X)) if len(X) <= size else np.sort(rng.choice(len(X), size, replace=False))
    if at_most_distinct(_plain(X[sample]), n_distinct) == n_distinct:
        return sample
    # Mostly duplicates: make sure of enough distinct points. Rare, hence the slow look at all the data only here.
    distinct = np.unique(_plain(X), axis=0, return_index=True)[1]
    if len(distinct) < n_distinct:
        raise InputError(
            f"{len(distinct)} distinct points cannot form n_clusters={n_distinct}; ask for fewer clusters."
        )
    chosen = rng.choice(distinct, n_distinct, replace=False)
    return np.concatenate([chosen, np.setdiff1d(sample, chosen)[: size - n_distinct]])


def _clustering(
    X: Floats, centers: Floats, indices: NDArray[np.intp] | None, n_sampled: int, converged: bool
) -> Clustering:
    C = centers.astype(np.float64)
    labels = assign(X, C)
    inertia = sum(float(np.linalg.norm(X[b] - C[labels[b]], axis=1).sum()) for b in _blocks(len(X), X.shape[1]))
    counts = np.bincount(labels, minlength=len(C))
    if not counts.all():
        raise InputError(
            f"Only {np.count_nonzero(counts)} of n_clusters={len(C)} clusters can be populated: some distinct points "
            "are equal up to rounding; ask for fewer clusters."
        )
    return Clustering(C, indices, labels, counts, inertia, n_sampled, converged)


def _sample_medoids(
    X: Floats,
    sample: NDArray[np.intp],
    n_clusters: int,
    rng: np.random.Generator,
    n_starts: int,
    max_iterations: int,
) -> tuple[NDArray[np.intp], bool]:
    """Find medoids in a sample, as indices in X, and whether no exchange would help any more.

    Duplicates are merged into one weighted point, so that medoids are distinct by construction. All starts get one
    sweep of exchanges and the best few are carried to the end.
    """
    distinct, first, counts = np.unique(_plain(X[sample]), axis=0, return_index=True, return_counts=True)
    # Sorted points would put neighbours into one block of candidates, of which only one can enter.
    order = rng.permutation(len(distinct))
    distances = _distance_table(distinct[order])
    weights = counts[order].astype(np.float32)
    starts = [_exchange(distances, weights, _seed(distances, weights, n_clusters, rng), 1)[0] for _ in range(n_starts)]
    starts.sort(key=lambda medoids: _scatter(distances, weights, medoids))
    ends = [
        _exchange(distances, weights, medoids, max_iterations) for medoids in starts[: -(-n_starts // _STARTS_PER_END)]
    ]
    best, converged = min(ends, key=lambda end: _scatter(distances, weights, end[0]))
    return sample[first[order[best]]], converged


def _distance_table(points: NDArray[np.float64]) -> NDArray[np.float32]:
    """Euclidean distances between all points in units of the largest coordinate, which suit float32."""
    x = points - points.mean(axis=0)
    x /= np.abs(x).max() or 1.0
    squares = np.einsum("nd,nd->n", x, x)
    table = np.empty((len(x), len(x)), dtype=np.float32)
    for rows in _blocks(len(x), len(x)):
        squared = squares[rows, None] + squares - 2.0 * (x[rows] @ x.T)
        table[rows] = np.sqrt(np.maximum(squared, 0.0, out=squared), out=squared)
    np.fill_diagonal(table, 0.0)
    return table


def _scatter(distances: NDArray[np.float32], weights: NDArray[np.float32], medoids: NDArray[np.intp]) -> float:
    return float(distances[medoids].min(axis=0).astype(np.float64) @ weights)


def _seed(
    distances: NDArray[np.float32], weights: NDArray[np.float32], n_clusters: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Medoids drawn one by one with probability proportional to the distance from those before.

    As in greedy k-means++ a few candidates are drawn each time and the one that leaves least scatter is kept.
    """
    n_trials = 2 + int(np.log(n_clusters))
    medoids = [int(rng.choice(len(weights), p=weights / weights.sum(dtype=np.float64)))]
    nearest = distances[medoids[0]].copy()
    while len(medoids) < n_clusters:
        mass = np.cumsum(nearest * weights, dtype=np.float64)
        if mass[-1] > 0.0:
            drawn = np.searchsorted(mass, rng.random(n_trials) * mass[-1], side="right")
            trials = np.minimum(drawn, np.searchsorted(mass, mass[-1]))  # the product may round up to the total
        else:  # the remaining points differ from a medoid by less than the table resolves: any will do
            trials = np.setdiff1d(np.arange(len(weights)), medoids)[:1]
        left = np.minimum(distances[trials], nearest)
        kept = int((left @ weights).argmin())
        medoids.append(int(trials[kept]))
        nearest = left[kept]
        nearest[medoids] = 0.0
    return np.array(medoids)


def _exchange(
    distances: NDArray[np.float32], weights: NDArray[np.float32], medoids: NDArray[np.intp], max_sweeps: int
) -> tuple[NDArray[np.intp], bool]:
    """Exchange medoids for other points while that reduces the scatter (PAM's swap phase, taken eagerly).

    Returns the medoids, and whether none of the exchanges helps any more.

    With d1, d2 the distances of a point to its nearest and second nearest medoid and d to a candidate, exchanging
    medoid i changes the scatter by Σ_all min(d − d1, 0) + Σ_{nearest is i} (clip(d, d1, d2) − d1): the first sum
    is shared by all i, the second is a matrix product, so all k exchanges cost little more than one.
    """
    n_points, n_clusters = len(weights), len(medoids)
    blocks = [slice(start, start + _SWAP_BLOCK) for start in range(0, n_points, _SWAP_BLOCK)]
    scatter = _scatter(distances, weights, medoids)
    nearest, gap, membership = _two_nearest(distances, weights, medoids)
    idle = 0  # blocks since the last exchange; a full round of them proves that no exchange helps
    for step in range(max_sweeps * len(blocks)):
        block = blocks[step % len(blocks)]
        change = _exchange_changes(distances[block], weights, nearest, gap, membership)
        candidate, leaving = divmod(int(change.argmin()), n_clusters)
        idle += 1
        if change[candidate, leaving] < -_MIN_GAIN * scatter:
            trial = medoids.copy()
            trial[leaving] = block.start + candidate
            trial_scatter = _scatter(distances, weights, trial)
            if trial_scatter < scatter:  # not so only if rounding feigned the gain; never go round in circles
                medoids, scatter, idle = trial, trial_scatter, 0
                nearest, gap, membership = _two_nearest(distances, weights, medoids)
        if idle == len(blocks):
            break
    return medoids, idle == len(blocks)


def _two_nearest(
    distances: NDArray[np.float32], weights: NDArray[np.float32], medoids: NDArray[np.intp]
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Distance d1 to the nearest medoid, gap d2 - d1 to the second, and the (N, k) table of weights at the nearest."""
    to_medoids = distances[medoids]
    columns = np.arange(len(weights))
    labels = to_medoids.argmin(axis=0)
    nearest = to_medoids[labels, columns]
    # A single medoid has no second: its loss then hands every point to the candidate, however far that is.
    to_medoids[labels, columns] = np.inf
    gap: NDArray[np.float32] = to_medoids.min(axis=0) - nearest
    membership = np.zeros((len(weights), len(medoids)), dtype=np.float32)
    membership[columns, labels] = weights
    return nearest, gap, membership


def _exchange_changes(
    candidates: NDArray[np.float32],
    weights: NDArray[np.float32],
    nearest: NDArray[np.float32],
    gap: NDArray[np.float32],
    membership: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Change of scatter, (candidates, k), when a candidate replaces medoid i; see `_exchange`."""
    excess = candidates - nearest
    shared = np.minimum(excess, np.float32(0)) @ weights
    np.maximum(excess, np.float32(0), out=excess)
    np.minimum(excess, gap, out=excess)
    change: NDArray[np.float32] = shared[:, None] + excess @ membership
    return change
