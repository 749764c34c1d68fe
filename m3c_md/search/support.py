"""Support: whether the states of a candidate rest on many independent parts of the data or on one.

A trajectory that gets stuck in some corner makes that corner look metastable. Nothing in the data fitted to tells it
from a state, except that no other trajectory goes there. So a part of the data at a time is left out of the transition
counts, without another fit: metastability that depends on one part changes by a whole state when that part goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

# Parts that data are cut into where there are fewer trajectories than this; otherwise every trajectory is a part.
N_PARTS = 10


@dataclass(frozen=True)
class Support:
    """What leaving out parts of the data says about a candidate.

    Attributes
    ----------
    error : float
        Jackknife standard error of the metastability Q over the parts; not a number where there is only one part.
    n_parts : int
        Number of parts in which the state that is seen in the fewest parts is seen.
    """

    error: float = np.nan
    n_parts: int = 0


def independent_parts(n_windows: Sequence[int], chosen: IntArray) -> IntArray:
    """Return the part of the data that each of the chosen windows belongs to.

    A part is a trajectory where there are ten or more. Fewer are cut into contiguous blocks, at least ten in all, none
    of which reaches from one trajectory into another.

    Parameters
    ----------
    n_windows : sequence of int
        Number of windows of every trajectory; windows are numbered trajectory by trajectory.
    chosen : (n_chosen,) array
        Numbers of windows.

    Examples
    --------
    >>> independent_parts([60, 0, 40], np.array([0, 9, 10, 59, 60, 99])).tolist()
    [0, 0, 1, 5, 6, 9]
    """
    sizes = np.array([n for n in n_windows if n > 0])
    ends = np.cumsum(sizes)
    trajectory = np.searchsorted(ends, chosen, side="right")
    if len(sizes) >= N_PARTS or len(sizes) == 0:
        return np.asarray(trajectory, dtype=np.intp)
    n_blocks = -(-N_PARTS * sizes // ends[-1])
    first_blocks = np.concatenate([[0], np.cumsum(n_blocks)[:-1]])
    place = chosen - (ends - sizes)[trajectory]
    return np.asarray(first_blocks[trajectory] + place * n_blocks[trajectory] // sizes[trajectory], dtype=np.intp)


def metastability_of(transitions: FloatArray) -> FloatArray:
    """Q of the reversible chain of weighted transitions between states, (..., n_states, n_states) to (...).

    A state that is never visited adds nothing.
    """
    macro = transitions + np.swapaxes(transitions, -1, -2)
    mass = macro.sum(axis=-1)
    stays = np.diagonal(macro, axis1=-2, axis2=-1)
    return np.asarray((stays / np.where(mass > 0.0, mass, 1.0)).sum(axis=-1))


def part_transitions(states: IntArray, weights: FloatArray, parts: IntArray, n_states: int) -> FloatArray:
    """Weighted transitions from the first to the last slice of windows, (n_parts, n_states, n_states).

    Parameters
    ----------
    states : (n_slices, n_windows) array
    weights, parts : (n_windows,) arrays
    n_states : int
    """
    numbers, numbered = np.unique(parts, return_inverse=True)
    index = (numbered * n_states + states[0]) * n_states + states[-1]
    counts = np.bincount(index, weights=weights, minlength=len(numbers) * n_states**2)
    return counts.astype(np.float64).reshape(len(numbers), n_states, n_states)


def support_of(transitions: FloatArray) -> Support:
    """Jackknife over parts of the data, from the transitions of each part.

    A state that is seen in one part only makes Q fall by up to one without that part, and the error is then about 0.9.

    Examples
    --------
    >>> half = np.array([[9.0, 1.0], [1.0, 9.0]])
    >>> support_of(np.stack([half, half]))
    Support(error=0.0, n_parts=2)
    >>> alone = np.array([[20.0, 0.0], [0.0, 0.0]])  # the second state is seen in one of two parts
    >>> support_of(np.stack([half, alone])).n_parts
    1
    """
    n_parts = len(transitions)
    seen = transitions.sum(axis=1) + transitions.sum(axis=2) > 0.0
    fewest = int(seen.sum(axis=0).min())
    if n_parts < 2:
        return Support(np.nan, fewest)
    without = metastability_of(transitions.sum(axis=0) - transitions)
    error = np.sqrt((n_parts - 1) * without.var())
    return Support(float(error), fewest)
