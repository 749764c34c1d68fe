"""Trimming: as many states as were asked for, where fewer are there, with as little damage as possible.

Halves of a state are nearly as metastable as states at the lag time if what they are cut along is slow. Many lag times
later they are one state. What lasts is kept as it is, and the outermost windows of some state are called another one:
the answer is then right but for these.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.search.splitting import all_merged, metastability_of_states

# A state that adds less than this share of what the others add, many lag times later, is no state of its own. Chosen on
# systems of which some states are missing (10 and 12 asked for): 0.25 leaves halves of slow noise apart; with 0.5
# states that are left soon go, too (the soak).
LEAST_MEMORY = 0.35
# Frames are between two states if the lead of one over the other is less than this share of the median: 0.15 of those
# of a state that was cut in two, at least 0.06 in nineteen of twenty. Two of three pairs of states that were merged
# wrongly had less than this share there (795 merges in 95 random systems).
MIDDLE = 0.3
LEAST_BETWEEN = 0.02
# Directions of the largest spread of a state along which its outermost windows may be cut off.
MOST_AXES = 5


def remembered_states(
    states: IntArray, pairs: tuple[IntArray, IntArray], scores: FloatArray | None = None
) -> tuple[IntArray, float]:
    """States without those that have been forgotten many lag times later, and the metastability of the rest by then.

    Two states are merged as long as that loses next to nothing of it, unless there is a gap between them: states that
    are left soon are forgotten, too.

    Parameters
    ----------
    states : (n_slices, n_windows) array
    pairs : pair of index arrays
        Windows, and those that begin many lag times later.
    scores : (n_states, n_windows) array, optional
        Scores of the first frames, which tell where there are gaps.

    Examples
    --------
    >>> cut_in_two = np.array([0, 1, 2, 2, 0, 0, 2, 2, 1, 0, 2, 2, 1, 1, 2, 2])
    >>> later = np.arange(12)
    >>> remembered_states(cut_in_two[None], (later, later + 4))[0].tolist()
    [[0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1]]
    """
    first, second = pairs

    def lasting(states: IntArray) -> float:
        return metastability_of_states(np.stack([states[0, first], states[-1, second]]))

    now = lasting(states)
    while (n_states := int(states.max()) + 1) > 2:
        ways = [
            (lasting(merged), pair, merged)
            for pair, merged in zip(combinations(range(n_states), 2), all_merged(states), strict=True)
            if scores is None or not have_gap(scores[list(pair)], states[0], pair)
        ]
        if not ways:
            break
        rest, (one, other), merged = max(ways, key=lambda way: way[0])
        if now - rest >= LEAST_MEMORY * (now - 1.0) / (n_states - 1):
            break
        states, now = merged, rest
        if scores is not None:
            together = np.maximum(scores[one], scores[other])
            scores = np.delete(np.where(np.arange(n_states)[:, None] == one, together, scores), other, axis=0)
    return states, now


def have_gap(scores: FloatArray, states: IntArray, pair: tuple[int, int]) -> bool:
    """Whether hardly any frames of two states lie between them.

    Parameters
    ----------
    scores : (2, n_windows) array
        Those of the two states.
    states : (n_windows,) array
    pair : (int, int)
        Numbers of the two states.

    Examples
    --------
    >>> places = np.linspace(-1.0, 1.0, 201)
    >>> cut = (places > 0.0).astype(int)
    >>> apart = np.sign(places) + 0.1 * places
    >>> [have_gap(np.stack([-scores, scores]), cut, (0, 1)) for scores in (places, apart)]
    [False, True]
    """
    lead = np.abs(scores[0] - scores[1])[np.isin(states, pair)]
    return bool(np.mean(lead < MIDDLE * np.median(lead)) < LEAST_BETWEEN)


def trimmed_states(
    first: FloatArray, last: FloatArray, states: IntArray, n_states: int, fewest: int
) -> IntArray | None:
    """As many states as asked for: those given, and the outermost windows of some of them; None if impossible.

    Of all that might be cut off, that is taken which is most metastable.

    Parameters
    ----------
    first, last : (n_windows, n_directions) arrays
        Coordinates of the first and the last frames of windows.
    states : (2, n_windows) array
        States of these frames, numbered from zero.
    n_states : int
    fewest : int
        Number of windows that are cut off at a time.
    """
    for new in range(int(states.max()) + 1, n_states):
        cuts = [cut for state in range(new) for cut in _cuts(first, last, states, state, new, fewest)]
        if not cuts:
            return None
        states = max(cuts, key=metastability_of_states)
    return np.asarray(states[0])


def _cuts(first: FloatArray, last: FloatArray, states: IntArray, state: int, new: int, fewest: int) -> list[IntArray]:
    """States with the outermost windows of one of them cut off, at both ends of all directions of large spread."""
    inside = states == state
    points = first[inside[0]]
    if len(points) < 2 * fewest:
        return []
    center = points.mean(axis=0)
    axes = np.linalg.svd(points - center, full_matrices=False)[2][:MOST_AXES]
    along = np.stack([(x - center) @ axes.T for x in (first, last)])
    cuts = []
    for places in [*np.moveaxis(along, -1, 0), *np.moveaxis(-along, -1, 0)]:
        border = np.sort(places[0, inside[0]])[-fewest]
        cut = np.where(inside & (places >= border), new, states)
        # Repeated values may leave nothing on one side.
        if np.bincount(cut[0], minlength=new + 1)[[state, new]].min() >= fewest:
            cuts.append(cut)
    return cuts
