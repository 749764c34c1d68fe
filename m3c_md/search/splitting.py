"""Splitting of states: what to start from where a decomposition has fewer states than were asked for.

Where only some of the states that were asked for are there, a search ends with these and some empty ones. They are the
best part of an answer: it is completed by splitting populated states where that costs the least metastability.
"""

from __future__ import annotations

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.partitions.k_means import k_means
from m3c_md.partitions.nearest import assign
from m3c_md.search.support import metastability_of, part_transitions

# By how much Q must rise for states to be merged and others to be split: less is chance, and never ends.
WORTH_REGROUPING = 0.02


def completed_states(
    first: FloatArray, last: FloatArray, scores: FloatArray, n_states: int, fewest: int, rng: np.random.Generator
) -> IntArray | None:
    """States of windows, each with at least ``fewest`` of them, made of those that a rule has left; None if impossible.

    Windows of states that have fewer go to the next best state. Then populated states are split in two, those first
    whose halves are the most metastable, until there are as many as asked for.

    Parameters
    ----------
    first, last : (n_windows, n_directions) arrays
        Coordinates of the first and the last frames of windows.
    scores : (2, n_states, n_windows) array
        Scores of these frames.
    """
    states = populated_states(scores, fewest)
    if states is None:
        return None
    for number in range(int(states.max()) + 1, n_states):
        split = _best_split(first, last, states, number, fewest, rng)
        if split is None:
            return None
        states = split
    return np.asarray(_regrouped(first, last, states, n_states, fewest, rng)[0])


def populated_states(scores: FloatArray, fewest: int) -> IntArray | None:
    """States of windows, (2, n_windows), with at least ``fewest`` of them each; None if that cannot be had.

    Windows of states that have fewer go to the next best state.
    """
    populated = populated_numbers(scores, fewest)
    if len(populated) == 0:
        return None
    states = scores[:, populated].argmax(axis=1)
    return None if np.bincount(states[0], minlength=len(populated)).min() < fewest else np.asarray(states)


def populated_numbers(scores: FloatArray, fewest: int) -> IntArray:
    """Numbers of the states of at least ``fewest`` windows, by their scores (2, n_states, n_windows)."""
    return np.flatnonzero(np.bincount(scores[0].argmax(axis=0), minlength=scores.shape[1]) >= fewest)


def _regrouped(
    first: FloatArray, last: FloatArray, states: IntArray, n_states: int, fewest: int, rng: np.random.Generator
) -> IntArray:
    """States after merging the two that lose least and splitting another one, as long as that is more metastable.

    Where a large state was cut in two, and a small one was forgotten for it, this puts both right.
    """
    for _ in range(n_states if n_states > 2 else 0):
        merged = max(all_merged(states), key=metastability_of_states)
        split = _best_split(first, last, merged, n_states - 1, fewest, rng)
        if split is None or metastability_of_states(split) <= metastability_of_states(states) + WORTH_REGROUPING:
            break
        states = split
    return states


def all_merged(states: IntArray) -> list[IntArray]:
    """States with two of them merged, for every pair, numbered from zero.

    Examples
    --------
    >>> [merged.tolist() for merged in all_merged(np.array([0, 1, 2]))]
    [[0, 0, 1], [0, 1, 0], [0, 1, 1]]
    """
    numbers = np.arange(int(states.max()) + 1)
    pairs = [(one, other) for one in numbers for other in numbers[one + 1 :]]
    return [np.where(numbers == other, one, numbers - (numbers > other))[states] for one, other in pairs]


def _best_split(
    first: FloatArray, last: FloatArray, states: IntArray, number: int, fewest: int, rng: np.random.Generator
) -> IntArray | None:
    """States with the one of ``number`` split whose halves are the most metastable; None where none can be split."""
    splits = [_split(first, last, states, state, number, fewest, rng) for state in range(number)]
    return max((split for split in splits if split is not None), key=metastability_of_states, default=None)


def metastability_of_states(states: IntArray) -> float:
    """Q of the states of windows, from the first slice to the last one."""
    weights, parts = np.ones(states.shape[1]), np.zeros(states.shape[1], dtype=np.intp)
    return float(metastability_of(part_transitions(states, weights, parts, int(states.max()) + 1)[0]))


def _split(
    first: FloatArray,
    last: FloatArray,
    states: IntArray,
    state: int,
    new: int,
    fewest: int,
    rng: np.random.Generator,
) -> IntArray | None:
    """States of both slices with one of them split: around two means, or in the middle if a half would be too small."""
    inside = states == state
    points = first[inside[0]]
    if len(points) < 2 * fewest or not np.ptp(points, axis=0).any():
        return None
    centers = k_means(points, 2, rng, n_restarts=3).centers
    if np.bincount(assign(points, centers), minlength=2).min() < fewest:
        centers = _middle_cut(points)
    done = states.copy()
    for row, (slice_points, own) in enumerate(zip((first, last), inside, strict=True)):
        if own.any():
            done[row, own] = np.where(assign(slice_points[own], centers) == 1, new, state)
    smallest = np.bincount(done[0], minlength=new + 1)[[state, new]].min()
    return done if smallest >= fewest else None


def _middle_cut(points: FloatArray) -> FloatArray:
    """Means of the two halves of points on either side of the median along the direction of their largest spread."""
    centred = points - points.mean(axis=0)
    axis = np.linalg.svd(centred, full_matrices=False)[2][0]
    order = np.argsort(centred @ axis, kind="stable")
    half = len(points) // 2
    return np.stack([points[order[:half]].mean(axis=0), points[order[half:]].mean(axis=0)])
