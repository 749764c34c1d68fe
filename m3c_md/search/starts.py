"""Start labels for the local search: from kinetics, geometry, the SDP relaxation or chance.

Some starts are the same for every bandwidth (`shared_starts`), others live in the feature space of one bandwidth
(`bandwidth_start`). All return one state per window; the local search needs no more than that every state occurs.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.exceptions import SolverError, solving
from m3c_md.frames.windows import FeatureBlocks, equally_spaced
from m3c_md.matching import agreement
from m3c_md.optimize.relaxation import joint_gram, joint_kernel, solve_relaxation
from m3c_md.optimize.rounding import round_relation
from m3c_md.partitions.k_means import k_means
from m3c_md.partitions.k_medoids import k_medoids
from m3c_md.partitions.lumping import Lumping, best_lumpings, pcca_microstates
from m3c_md.partitions.nearest import Clustering
from m3c_md.search.problem import BandwidthStart, Kernel, SearchProblem, SharedStart, joined_slices
from m3c_md.search.selection import COMPARED_WINDOWS, SAME_DECOMPOSITION

# Cap on a relaxed class, as a multiple of the fair share 1/κ: with the search's own ϱ_u = 0.99 the relation matrix is
# nearly all ones and rounding amplifies the solver's noise.
RELAXATION_CAP = 1.35
# The cap is no lower than so many times the heaviest coarse window, which must fit into a class with room to spare: a
# problem that is only just feasible has no interior, which solvers need.
SPARE_SHARE = 1.05
# Directions of the features with less variance than this share of the largest are rounding of single precision.
LEAST_VARIANCE = 1e-6
# Different lumpings to start from: the most metastable one of a few hundred transitions is often not the right one.
N_LUMPINGS = 6
# Points in which k-means looks for a few centres, and rounds in each of which it may move them: what is left then does
# not change where a local search ends.
CLUSTERED_POINTS = 3000
CLUSTERING_ROUNDS = 30


def shared_starts(name: SharedStart, problem: SearchProblem, rng: np.random.Generator) -> list[IntArray]:
    """Labels of all windows, one or several sets, for a start that does not depend on the bandwidth.

    ``pcca``
        PCCA+ on the micro states.
    ``lumping``
        The most metastable lumpings of the micro states that are clearly different.
    ``kmeans``, ``kmedoids``
        Geometry of the frames, and of the windows, alone.
    ``random``
        Every window by itself.
    """
    data, n_states = problem.data, problem.settings.n_states
    if name == "random":
        # A permuted round robin: random, and every state occurs however few the windows.
        return [rng.permutation(np.arange(data.n_windows) % n_states)]
    if name == "kmeans":
        return [
            _few_cells(space(data.frames), n_states, rng, n_restarts=5)[data.windows[0]] for space in problem.spaces
        ]
    if name == "kmedoids":
        return [k_medoids(joined_slices(data, problem.scale), n_states, rng).labels]
    if name == "pcca":
        cells = problem.partitions[0]
        states = pcca_microstates(cells.counts(problem.weights), cells.centers, n_states)
        return [states[cells.windows[0]]]
    lumpings = best_lumpings(problem.partitions, problem.weights, n_states)
    return [lumping.windows for lumping in _clearly_different(lumpings, data.n_windows)]


def _clearly_different(lumpings: list[Lumping], n_windows: int) -> list[Lumping]:
    """Best lumpings no two of which are the same decomposition, compared on a sample of the windows."""
    chosen = equally_spaced(n_windows, COMPARED_WINDOWS)
    kept: list[tuple[Lumping, IntArray]] = []
    for lumping in lumpings:
        labels = lumping.labels[lumping.cells.windows[0, chosen]]
        if len(kept) < N_LUMPINGS and all(agreement(labels, other) < SAME_DECOMPOSITION for _, other in kept):
            kept.append((lumping, labels))
    return [lumping for lumping, _ in kept]


def bandwidth_start(
    name: BandwidthStart, problem: SearchProblem, kernel: Kernel, chosen: IntArray, rng: np.random.Generator
) -> IntArray:
    """Labels of the chosen windows for a start that lives in the feature space of one kernel.

    ``kinetic``
        k-means on the slow coordinates of the features.
    ``relaxation``
        SDP relaxation on coarse windows with the exact kernel and a tight cap on the classes.
    ``relaxation-literal``
        The paper's: with the random features and the search's own balance.
    """
    if name == "kinetic":
        return kinetic_labels(problem.features(kernel, chosen), problem.settings.n_states, rng)
    coarse = problem.coarse
    assert coarse is not None, "prepare_problem coarse-grains whenever a relaxation start is asked for"
    return relaxation_labels(problem, coarse, kernel, literal=name == "relaxation-literal")[coarse.labels[chosen]]


def kinetic_labels(blocks: FeatureBlocks, n_states: int, rng: np.random.Generator) -> IntArray:
    """Slow coordinates (reversible TICA) in the feature space itself, then k-means on the κ - 1 slowest.

    The coordinates are linear in the features of the rule to be found, so a separation that they show is one that a
    rule can express.
    """
    instantaneous, lagged = _covariances(blocks)
    remedy = "use another bandwidth, or other starts"
    with solving("the slow coordinates of the features", remedy):
        values, vectors = eigh(instantaneous)
        keep = values > LEAST_VARIANCE * values[-1]
        if not keep.any():
            raise SolverError(f"the features do not vary, so they have no slow coordinates; {remedy}")
        whitening = vectors[:, keep] / np.sqrt(values[keep])
        slow = eigh(whitening.T @ lagged @ whitening)[1][:, ::-1][:, : n_states - 1]
    projection = whitening @ slow
    first = np.concatenate([b.features[b.windows[0]] @ projection.astype(b.features.dtype) for b in blocks])
    return _few_cells(first, n_states, rng, n_restarts=3)


def _few_cells(points: FloatArray, n_cells: int, rng: np.random.Generator, n_restarts: int) -> IntArray:
    """Labels of points by k-means with few centres, found in a sample and not to the last digit."""
    found = k_means(
        points, n_cells, rng, n_restarts=n_restarts, max_points=CLUSTERED_POINTS, max_iterations=CLUSTERING_ROUNDS
    )
    return found.labels


def _covariances(blocks: FeatureBlocks) -> tuple[FloatArray, FloatArray]:
    """Weighted reversible covariance and time-lagged covariance of the features."""
    mean, of_sums, of_differences = (np.zeros(()) for _ in range(3))
    for block in blocks:
        root = np.sqrt(block.weights).astype(block.features.dtype)[:, None]
        x, y = block.features[block.windows[0]] * root, block.features[block.windows[-1]] * root
        # Symmetric products of sums and of differences are half the work of those of first and last frames.
        sums, differences = x + y, x - y
        mean = mean + 0.5 * np.asarray(root.T @ sums, dtype=np.float64)[0]
        of_sums = of_sums + 0.25 * np.asarray(sums.T @ sums, dtype=np.float64)
        of_differences = of_differences + 0.25 * np.asarray(differences.T @ differences, dtype=np.float64)
    outer = np.outer(mean, mean)
    return np.asarray(of_sums + of_differences - outer), np.asarray(of_sums - of_differences - outer)


def relaxation_labels(problem: SearchProblem, coarse: Clustering, kernel: Kernel, *, literal: bool) -> IntArray:
    """Labels of the coarse windows by SDP relaxation and rounding (Algorithm 1, lines 2 and 3)."""
    settings = problem.settings
    weights = np.bincount(coarse.labels, weights=problem.weights, minlength=len(coarse.centers))
    slices = [x * problem.scale for x in np.split(coarse.centers, len(problem.data.windows), axis=1)]
    if literal:
        gram = joint_gram([problem.feature_map(*kernel)(x) for x in slices])
        max_share, row_sums = settings.balance[1], bool((gram @ weights).min() < 0.0)
    else:
        gram = joint_kernel([problem.metrics[kernel.metric](x) for x in slices], kernel.bandwidth)
        max_share, row_sums = max(RELAXATION_CAP / settings.n_states, SPARE_SHARE * float(weights.max())), True
    relaxation = solve_relaxation(
        gram,
        weights,
        settings.n_states,
        regularization=settings.regularization,
        min_share=settings.balance[0],
        max_share=min(max_share, 1.0),
        row_sums=row_sums,
        n_slices=len(slices),
    )
    return round_relation(relaxation.relation, settings.n_states, weights=weights)
