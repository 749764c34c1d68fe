"""Lumping of micro states into macro states, to start from: PCCA+, and merges and flips that raise Q."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse.csgraph import connected_components

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.optimize.kernels import compiled
from m3c_md.optimize.rounding import round_relation
from m3c_md.partitions.k_means import k_means
from m3c_md.partitions.microstates import Microstates
from m3c_md.partitions.nearest import assign

# PCCA+ states beyond those asked for, before merging, and merged lumpings kept at each level.
EXTRA_STATES = 3
MERGES_KEPT = 12


@dataclass(frozen=True)
class Lumping:
    """A lumping of micro states, and its Q."""

    cells: Microstates
    labels: IntArray
    metastability: float

    @property
    def windows(self) -> IntArray:
        """State of every window's first slice."""
        return np.asarray(self.labels[self.cells.windows[0]])


def pcca_microstates(
    counts: FloatArray,
    centers: FloatArray,
    n_states: int,
    method: Literal["pcca", "inner_simplex"] = "pcca",
) -> IntArray:
    """PCCA+, or its first guess, on the reversible chain of symmetrised counts.

    It runs on the largest connected set (it is wrong on a disconnected chain); the other cells get the state of their
    nearest connected cell. If that set has fewer cells than states, geometry decides.
    """
    symmetric = 0.5 * (counts + counts.T)
    cells = _largest_connected(symmetric)
    if len(cells) < n_states:
        return k_means(centers, n_states, np.random.default_rng(0), n_restarts=5).labels
    chain = symmetric[np.ix_(cells, cells)]
    # A cell without self-transitions is legitimate, but PCCA+ wants a walk that can stay.
    lazy = chain + np.diag(1e-9 * chain.sum(axis=1))
    labels = round_relation(lazy, n_states, method=method)
    return labels[assign(centers, centers[cells])]


def _largest_connected(symmetric: FloatArray) -> IntArray:
    _, component = connected_components(symmetric > 0.0, directed=False)
    mass = np.bincount(component, weights=symmetric.sum(axis=1))
    return np.flatnonzero((component == np.argmax(mass)) & (symmetric.sum(axis=1) > 0.0))


def best_lumpings(partitions: list[Microstates], weights: FloatArray, n_states: int) -> list[Lumping]:
    """Most metastable lumpings of several fine partitions, best first.

    Perron clusters, a few more than asked for, merged back in all promising ways, each then improved by single
    flips. PCCA+ into exactly κ states often follows a slow but rare process (a cell hardly ever left) where merging
    finer states finds the metastable ones; several partitions differ by chance, so the best of all is kept.
    """
    lumpings: list[Lumping] = []
    for cells in partitions:
        counts = cells.counts(weights)
        n_fine = min(n_states + max(EXTRA_STATES, n_states), cells.n_microstates)
        # The first guess of PCCA+ will do: flips follow, and optimising it for many states takes ten times as long.
        fine = pcca_microstates(counts, cells.centers, n_fine, method="inner_simplex")
        for merged in merge_states(counts, fine, n_states):
            labels = flip_to_metastability(counts, merged, n_states)
            lumpings.append(Lumping(cells, labels, lumped_metastability(counts, labels, n_states)))
    return sorted(lumpings, key=lambda lumping: -lumping.metastability)


def merge_states(counts: FloatArray, labels: IntArray, n_states: int) -> list[IntArray]:
    """Merge states pairwise down to ``n_states``, keeping the most metastable ways at each level.

    Merging needs only the counts between states, which are few; the cells come back at the end.

    Examples
    --------
    >>> chain = np.array([[8.0, 2, 0], [2, 7, 1], [0, 1, 9]])
    >>> merge_states(chain, np.array([0, 1, 2]), 2)[0].tolist()
    [0, 0, 1]
    """
    n_fine = int(labels.max()) + 1
    onehot = np.eye(n_fine)[labels]
    between = onehot.T @ (0.5 * (counts + counts.T)) @ onehot
    level = [np.arange(n_fine)]
    for _ in range(n_fine, n_states, -1):
        merges = [(value, finer, i, j) for finer in level for value, i, j in _best_merges(between, finer)]
        # The same states come about in several ways: as many as are kept are looked at, best first.
        merged: dict[tuple[int, ...], IntArray] = {}
        for _, finer, i, j in sorted(merges, key=lambda merge: -merge[0]):
            coarser = _in_order(np.where(finer == j, i, finer))
            merged.setdefault(tuple(coarser.tolist()), coarser)
            if len(merged) == MERGES_KEPT:
                break
        level = list(merged.values())
    return [coarser[labels] for coarser in level]


def _best_merges(between: FloatArray, labels: IntArray) -> list[tuple[float, int, int]]:
    """Q after the merge of two states, and which two, for the merges that cost least."""
    onehot = np.eye(int(labels.max()) + 1)[labels]
    macro = onehot.T @ between @ onehot
    mass, inner = macro.sum(axis=1), np.diag(macro)
    terms = inner / np.where(mass > 0.0, mass, 1.0)
    joint_mass = np.add.outer(mass, mass)
    joint = (np.add.outer(inner, inner) + 2.0 * macro) / np.where(joint_mass > 0.0, joint_mass, 1.0)
    value = terms.sum() - np.add.outer(terms, terms) + joint
    first, second = np.triu_indices(len(macro), 1)
    best = np.argsort(-value[first, second], kind="stable")[:MERGES_KEPT]
    return [(float(value[first[n], second[n]]), int(first[n]), int(second[n])) for n in best]


def _in_order(labels: IntArray) -> IntArray:
    """Renumber states in the order of their first appearance, so that equal partitions are equal arrays."""
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels.tolist()])


def lumped_metastability(counts: FloatArray, labels: IntArray, n_states: int) -> float:
    """Q = Σ_k C_kk / C_k of a lumping, on symmetrised counts.

    Examples
    --------
    >>> lumped_metastability(np.array([[8.0, 2.0], [2.0, 8.0]]), np.array([0, 1]), 2)
    1.6
    """
    onehot = np.eye(n_states)[labels]
    macro = onehot.T @ (0.5 * (counts + counts.T)) @ onehot
    mass = macro.sum(axis=1)
    return float((np.diag(macro) / np.where(mass > 0.0, mass, 1.0)).sum())


def flip_to_metastability(
    counts: FloatArray,
    labels: IntArray,
    n_states: int,
    *,
    support: FloatArray | None = None,
    least: float = 0.0,
) -> IntArray:
    """Raise Q over lumpings by single flips, steepest first, until none helps.

    Parameters
    ----------
    counts : (n, n) array
        Transition counts; symmetrised here, so that Q is that of the reversible chain.
    labels : (n,) array
        Start; every state must occur, and none is ever emptied.
    n_states : int
    support, least : (n,) array, float, optional
        Weights of the cells, and the sum of them below which no flip may bring a state.

    Examples
    --------
    >>> chain = np.array([[9.0, 1, 0, 0], [1, 8, 1, 0], [0, 1, 8, 1], [0, 0, 1, 9]])
    >>> flip_to_metastability(chain, np.array([0, 1, 0, 1]), 2).tolist()
    [0, 0, 1, 1]
    """
    labels = labels.astype(np.intp)
    symmetric = 0.5 * (counts + counts.T)
    loops = compiled() if support is None else None  # with bounds there are few cells, and arrays are as fast
    if loops is not None:
        loops.flip_loop(symmetric, labels, n_states)
        return labels
    visits = symmetric.sum(axis=1)
    own = np.diag(symmetric)
    onehot = np.eye(n_states)[labels]
    to_state = symmetric @ onehot
    mass, members = visits @ onehot, onehot.sum(axis=0)
    inner = np.einsum("ik,ik->k", onehot, to_state)
    cells = np.arange(len(labels))
    support = np.zeros(len(labels)) if support is None else support
    held = support @ onehot
    while True:
        # Moving cell i from its state to state k touches only these two terms of Q.
        terms = inner / np.where(mass > 0.0, mass, 1.0)
        left_mass = mass[labels] - visits
        left = (inner[labels] - 2.0 * to_state[cells, labels] + own) / np.where(left_mass > 0.0, left_mass, 1.0)
        joined = (inner + 2.0 * to_state + own[:, None]) / np.maximum(mass + visits[:, None], np.finfo(float).tiny)
        gain = (left - terms[labels])[:, None] + joined - terms
        gain[(members[labels] <= 1) | (left_mass <= 0.0) | (visits == 0.0) | (held[labels] - support < least)] = -np.inf
        gain[cells, labels] = -np.inf
        cell, target = np.unravel_index(np.argmax(gain), gain.shape)
        if not gain[cell, target] > 1e-12:  # smaller gains of Q, which is of the order of one, are rounding
            return labels
        source = labels[cell]
        inner[source] += own[cell] - 2.0 * to_state[cell, source]
        inner[target] += own[cell] + 2.0 * to_state[cell, target]
        for state, sign in ((source, -1.0), (target, 1.0)):
            mass[state] += sign * visits[cell]
            members[state] += sign
            held[state] += sign * support[cell]
            to_state[:, state] += sign * symmetric[:, cell]
        labels[cell] = target
