"""States of a chain of microstates: the most metastable lumping, and the large-margin rule that begins from it.

Points are the microstates in their kinetic coordinates, the slow eigenvectors of the reversible chain times their
eigenvalues; windows are the pairs (i, j) with weight π_i T_ij.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.exceptions import InputError, SolverError, solving
from m3c_md.optimize.blocks import WindowBlock
from m3c_md.optimize.rounding import round_relation
from m3c_md.partitions.k_means import k_means
from m3c_md.partitions.lumping import flip_to_metastability, lumped_metastability, merge_states
from m3c_md.partitions.nearest import at_most_distinct
from m3c_md.search.local_search import LocalOptimum, SearchSettings, local_search

# Finer states than asked for, in numbers of those, that are merged back; more of them where many are too rare.
FINER = (2, 4, 8)
EXTRA_STATES = 3
# Kinetic coordinates, in numbers of states. With κ - 1 of them, as in PCCA+, the rule lost a state in 3 of 40 chains of
# 50 to 200 microstates that were estimated from 5,000 transitions; with twice as many in 1 of 40.
COORDINATES = 2
# Q that the large-margin rule may have less than the most metastable lumping. Of 120 chains that were estimated from
# 2,000 to 30,000 transitions, true Q was level where the rule cost no more than this, and 0.012 lower (standard error
# 0.004) where it cost more than 0.005.
LOSS = 0.002
# Heaviest pairs of microstates that the rule is fitted to. Dense chains of 500 have 125,000; the heaviest 5,000 had 70
# to 78 % of the weight, 20,000 had 87 to 93 %. All of them took 5 to 40 times as long, for the same states where these
# are separate, and did not converge where they are not (three chains).
MOST_PAIRS = 8_000
REGULARIZATION = 3e-3
GAP = 1e-2
MAX_ITERATIONS = 30
# A walk that cannot stay anywhere is legitimate, but Perron clusters want one that can.
LAZINESS = 1e-9
REMEDY = "ask for another number of states"


@dataclass(frozen=True)
class MicrostateLabels:
    """States of microstates.

    Attributes
    ----------
    labels : (n,) array
    margins : (n,) array
        Lead of the best score over the second; NaN where no rule decides.
    held : bool
        Whether some labels are those of a lumping because the rule would have lost a state, or metastability.
    """

    labels: IntArray
    margins: FloatArray
    held: bool = False


def states_of_chain(flows: FloatArray, support: FloatArray, n_states: int, least: float) -> MicrostateLabels:
    """States of a reversible chain; each of its closed classes has at least one of its own.

    Parameters
    ----------
    flows : (n, n) array
        π_i T_ij, symmetric, with no row of zeros.
    support : (n,) array
        Share of the frames that each microstate has.
    n_states : int
    least : float
        Share that a state should have. Q alone is easily raised by splitting off a microstate that is hardly visited.

    Examples
    --------
    >>> flows = np.array([[9.0, 1, 0, 0], [1, 9, 0.1, 0], [0, 0.1, 9, 1], [0, 0, 1, 9]]) / 40.2
    >>> states_of_chain(flows, np.full(4, 0.25), 2, 0.0).labels.tolist()
    [0, 0, 1, 1]
    """
    n_classes, numbers = connected_components(flows > 0.0, directed=False)
    if n_classes > n_states:
        raise InputError(
            f"the microstates fall apart into {n_classes} classes with no transition between them, more than "
            f"n_states={n_states}; ask for {n_classes} states or more, or give the largest class alone"
        )
    members = [np.flatnonzero(numbers == number) for number in range(n_classes)]
    if n_classes == 1:
        return states_of_class(flows, support, n_states, least)
    return _joined([(flows[np.ix_(cells, cells)], support[cells], cells) for cells in members], n_states, least)


def _joined(classes: list[tuple[FloatArray, FloatArray, IntArray]], n_states: int, least: float) -> MicrostateLabels:
    """States of several classes: as many of each as make the sum of their Q largest."""
    spare = n_states - len(classes)
    found = [
        [states_of_class(flows, support, number, least) for number in range(1, min(spare + 1, len(cells)) + 1)]
        for flows, support, cells in classes
    ]
    # Q of the classes so far, by the number of states that they share; what a class adds is its own affair.
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for (flows, _, _), options in zip(classes, found, strict=True):
        better: dict[int, tuple[float, tuple[int, ...]]] = {}
        for used, (value, choice) in best.items():
            for number, option in enumerate(options, start=1):
                total = value + lumped_metastability(flows, option.labels, number)
                if total > better.get(used + number, (-1.0,))[0]:
                    better[used + number] = total, (*choice, number)
        best = better
    n_cells = sum(len(cells) for _, _, cells in classes)
    labels, margins, held, done = np.zeros(n_cells, dtype=np.intp), np.full(n_cells, np.nan), False, 0
    for (_, _, cells), options, number in zip(classes, found, best[n_states][1], strict=True):
        option = options[number - 1]
        labels[cells], margins[cells] = option.labels + done, option.margins
        held, done = held or option.held, done + number
    return MicrostateLabels(labels, margins, held)


def states_of_class(flows: FloatArray, support: FloatArray, n_states: int, least: float) -> MicrostateLabels:
    """States of a chain that is connected."""
    n_cells = len(flows)
    unknown = np.full(n_cells, np.nan)
    if n_states == 1:
        return MicrostateLabels(np.zeros(n_cells, dtype=np.intp), unknown)
    if n_states == n_cells:
        return MicrostateLabels(np.arange(n_cells), unknown)
    lumping = most_metastable(flows, support, n_states, least)
    points = kinetic_coordinates(flows, COORDINATES * n_states - 1)
    optimum = large_margin_states(flows, points, lumping, n_states)
    if optimum is not None:
        scores = optimum.rule.scores(points)
        labels = scores.argmax(axis=0)
        if _is_as_good(flows, support, labels, lumping, n_states, least):
            top = np.sort(scores, axis=0)
            return MicrostateLabels(labels, top[-1] - top[-2])
    return MicrostateLabels(lumping, unknown, held=True)


def _is_as_good(
    flows: FloatArray, support: FloatArray, labels: IntArray, lumping: IntArray, n_states: int, least: float
) -> bool:
    """Whether the states of a rule are as many as those of a lumping, not rarer, and hardly less metastable."""
    if len(np.unique(labels)) < n_states:
        return False
    if _is_rare(support, labels, n_states, least) and not _is_rare(support, lumping, n_states, least):
        return False
    wanted = lumped_metastability(flows, lumping, n_states) - LOSS
    return lumped_metastability(flows, labels, n_states) >= wanted


def kinetic_coordinates(flows: FloatArray, n_coordinates: int) -> FloatArray:
    """Slow right eigenvectors of the chain times their eigenvalues, (n, n_coordinates), the constant one left out.

    Eigenvectors have unit variance at equilibrium; distances are then kinetic ones. Processes that change their sign
    every step are not slow and count nothing.

    Examples
    --------
    >>> flows = np.array([[0.4, 0.1], [0.1, 0.4]])
    >>> np.abs(kinetic_coordinates(flows, 1)).round(3).tolist()
    [[0.6], [0.6]]
    """
    n_cells = len(flows)
    wanted = min(n_coordinates, n_cells - 1)
    root = np.sqrt(flows.sum(axis=1))
    # Eigenvalues lie in [-1, 1]: moved down by 3, the constant vector comes last of all.
    matrix = flows / np.outer(root, root) - 3.0 * np.outer(root, root) / (root @ root)
    with solving(f"the eigenvectors of {n_cells} microstates", REMEDY):
        values, vectors = eigh(matrix, subset_by_index=[n_cells - wanted, n_cells - 1])
    slow = vectors / root[:, None] * np.sqrt(root @ root)
    # The largest entry is positive, so that signs do not depend on the library.
    largest = slow[np.abs(slow).argmax(axis=0), np.arange(wanted)]
    return np.asarray((slow * np.sign(largest) * np.clip(values, 0.0, 1.0))[:, ::-1])


def most_metastable(flows: FloatArray, support: FloatArray, n_states: int, least: float) -> IntArray:
    """Lumping with the largest Q that was found, without a state that is too rare if there is one.

    The search begins from PCCA+ and its first guess, from finer such clusters merged back, and from k-means in kinetic
    coordinates; single flips then raise Q, and never take so much of a state that it becomes too rare.

    Examples
    --------
    >>> flows = np.array([[9.0, 1, 0, 0], [1, 9, 0.1, 0], [0, 0.1, 9, 1], [0, 0, 1, 9]]) / 40.2
    >>> most_metastable(flows, np.full(4, 0.25), 2, 0.001).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """
    points = kinetic_coordinates(flows, n_states - 1)
    starts = [
        _perron_clusters(flows, n_states, "inner_simplex"),
        _perron_clusters(flows, n_states, "pcca"),
        *_merged_clusters(flows, support, n_states, least),
    ]
    # A chain that forgets everything in one step, or swings to and fro, has microstates at the same point.
    if at_most_distinct(points, n_states) == n_states:
        starts.append(k_means(points, n_states, np.random.default_rng(0), n_restarts=3).labels)
    found = [flip_to_metastability(flows, start, n_states, support=support, least=least) for start in starts]

    def merit(labels: IntArray) -> tuple[bool, float]:
        return not _is_rare(support, labels, n_states, least), lumped_metastability(flows, labels, n_states)

    return max(found, key=merit)


def _is_rare(support: FloatArray, labels: IntArray, n_states: int, least: float) -> bool:
    """Whether some state has too small a share."""
    return bool(np.bincount(labels, weights=support, minlength=n_states).min() < least)


def _perron_clusters(flows: FloatArray, n_states: int, method: Literal["inner_simplex", "pcca"]) -> IntArray:
    lazy = flows + np.diag(LAZINESS * flows.sum(axis=1))
    return round_relation(lazy, n_states, method=method)


def _merged_clusters(flows: FloatArray, support: FloatArray, n_states: int, least: float) -> list[IntArray]:
    """Finer Perron clusters, too rare ones joined to their neighbours, merged back to ``n_states``."""
    for factor in FINER:
        n_fine = min(factor * n_states + EXTRA_STATES, len(flows))
        fine = _without_rare(flows, support, _perron_clusters(flows, n_fine, "inner_simplex"), n_states, least)
        common = np.bincount(fine, weights=support) >= least
        if common.all() or n_fine == len(flows):
            break
    return merge_states(flows, fine, n_states)


def _without_rare(flows: FloatArray, support: FloatArray, labels: IntArray, n_states: int, least: float) -> IntArray:
    """Join the rarest state to the one that it exchanges most with, until none is too rare or none can be spared."""
    labels = labels.copy()
    while True:
        n_left = int(labels.max()) + 1
        shares = np.bincount(labels, weights=support, minlength=n_left)
        rarest = int(shares.argmin())
        if n_left <= n_states or shares[rarest] >= least:
            return labels
        onehot = np.eye(n_left)[labels]
        exchange = flows[labels == rarest].sum(axis=0) @ onehot
        exchange[rarest] = -1.0
        labels[labels == rarest] = int(exchange.argmax())
        labels[labels > rarest] -= 1


def large_margin_states(flows: FloatArray, points: FloatArray, labels: IntArray, n_states: int) -> LocalOptimum | None:
    """Large-margin rule, linear in kinetic coordinates, that begins from a lumping; None if there is none."""
    first, second = np.nonzero(np.triu(flows))
    weights = np.where(first == second, 1.0, 2.0) * flows[first, second]
    heaviest = np.sort(np.argsort(-weights, kind="stable")[:MOST_PAIRS])
    first, second, weights = first[heaviest], second[heaviest], weights[heaviest]
    # A pair across a border belongs to the smaller state, which would miss it more.
    shares = np.bincount(labels, weights=flows.sum(axis=1), minlength=n_states)
    own = np.where(shares[labels[first]] <= shares[labels[second]], labels[first], labels[second])
    if len(np.unique(own)) < n_states:
        return None
    block = WindowBlock(points, np.stack([first, second]), weights / weights.sum())
    settings = SearchSettings(n_states, REGULARIZATION, (0.0, 1.0), max_iterations=MAX_ITERATIONS)
    try:
        optimum = local_search([block], own, settings, gap=GAP, give_up=True)
    except SolverError:  # the lumping stands
        return None
    return None if optimum.lost else optimum
