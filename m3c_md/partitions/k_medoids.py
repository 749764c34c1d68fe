"""k-medoids: the coarse graining of the paper, by exchanges of medoids."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from m3c_md.exceptions import InputError
from m3c_md.partitions.nearest import Clustering, checked_points, clustering_around, drawn_sample, plain, row_blocks

Floats = NDArray[np.floating]

# Candidates whose swaps are evaluated together: larger wastes work as the first good swap is taken at once.
_SWAP_BLOCK = 32
# Relative gain below which a swap in the float32 distance table is rounding noise.
_MIN_GAIN = 1e-6
# One in so many starts is carried to the end: nearly as good as finishing all, in half the time.
_STARTS_PER_END = 5
# Samples of a large data set among which the medoids with least scatter of all the data are chosen (CLARA).
_N_SAMPLES = 2


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
    X = checked_points(points, n_clusters)
    if n_restarts < 1:
        raise InputError(f"n_restarts={n_restarts} must be positive.")
    max_points = max(max_points, n_clusters)
    n_samples = 1 if len(X) <= max_points else min(_N_SAMPLES, n_restarts)
    n_starts = -(-n_restarts // n_samples)

    def attempt() -> Clustering:
        sample = drawn_sample(X, max_points, n_clusters, rng)
        medoids, converged = _sample_medoids(X, sample, n_clusters, rng, n_starts, max_iterations)
        indices = np.sort(medoids)
        return clustering_around(X, X[indices], indices, len(sample), converged)

    return min((attempt() for _ in range(n_samples)), key=lambda found: found.inertia)


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
    distinct, first, counts = np.unique(plain(X[sample]), axis=0, return_index=True, return_counts=True)
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
    for rows in row_blocks(len(x), len(x)):
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
