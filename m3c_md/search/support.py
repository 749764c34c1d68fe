"""Support: whether the states of a candidate rest on many independent parts of the data or on one.

A trajectory that gets stuck in some corner makes that corner look metastable. Nothing in the data fitted to tells it
from a state, except that no other trajectory goes there. So a part of the data at a time is left out of the transition
counts, without another fit: metastability that depends on one part changes by a whole state when that part goes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3c_md.arrays import FloatArray, IntArray

# Parts from which on two neighbours are left out together, too.
ENOUGH_PARTS = 5
# Share of a state that must be left for it to count.
HARDLY_ANYTHING = 0.2
# Lag times after which states that rest on little are compared with others. The two halves of a state that was cut in
# two count nearly as much as states at one lag time; after a few they have forgotten which half they were, and states
# have not. Chosen on six and eight hidden states and on Langerin: with 1 the right decomposition of series that see
# a state once gives way to one with such a cut, with 10 states of one trajectory of Langerin win.
A_WHILE = 3


@dataclass(frozen=True)
class Support:
    """What leaving out parts of the data says about a candidate.

    Attributes
    ----------
    error : float
        Jackknife standard error of the metastability Q over the parts; not a number where there is only one part.
    n_parts : int
        Number of parts in which the state that is seen in the fewest parts is seen.
    without : tuple of float
        Q without each part.
    expected : float
        Q after a while that fresh data of the same size may be expected to have, see `expected_metastability`; not a
        number where that is not known.
    """

    error: float = np.nan
    n_parts: int = 0
    without: tuple[float, ...] = ()
    expected: float = np.nan


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
    Support(error=0.0, n_parts=2, without=(1.8, 1.8), expected=1.307...)
    >>> alone = np.array([[20.0, 0.0], [0.0, 0.0]])  # the second state is seen in one of two parts
    >>> support_of(np.stack([half, alone])).n_parts
    1
    """
    n_parts = len(transitions)
    seen = transitions.sum(axis=1) + transitions.sum(axis=2) > 0.0
    fewest = int(seen.sum(axis=0).min())
    if n_parts < 2:
        return Support(np.nan, fewest)
    total = transitions.sum(axis=0)
    without = _without(total, transitions)
    error = np.sqrt((n_parts - 1) * without.var())
    if n_parts >= ENOUGH_PARTS:
        # A single visit may be longer than a part. Neighbours left out together: the moving blocks of Künsch (1989).
        neighbours = transitions + np.roll(transitions, -1, axis=0)
        error = max(error, np.sqrt(0.5 * (n_parts - 2) * _without(total, neighbours).var()))
    return Support(float(error), fewest, tuple(without.tolist()), expected_metastability(transitions))


def expected_metastability(transitions: FloatArray) -> float:
    """Q after `A_WHILE` that fresh data of the same size may be expected to have, from the transitions of each part.

    A state that m independent parts have visited is visited by none of as many fresh ones with a probability of about
    exp(-m) (Poisson), and then adds nothing. Parts count by their shares of the state, and so many as the largest
    share goes into it; two neighbours may hold one visit, and are one where parts are many.

    Examples
    --------
    >>> alone = np.zeros((10, 2, 2))
    >>> alone[:, 0, 0], alone[3, 1, 1] = 10.0, 10.0  # the second state is seen in one part only
    >>> round(expected_metastability(alone), 2)  # 1 - exp(-5) and 1 - exp(-1)
    1.63
    """
    total = transitions.sum(axis=0)
    mass = transitions.sum(axis=1) + transitions.sum(axis=2)
    if len(mass) >= ENOUGH_PARTS:
        mass = mass + np.roll(mass, -1, axis=0)
    whole = total.sum(axis=0) + total.sum(axis=1)
    n_independent = whole / np.where(whole > 0.0, mass.max(axis=0), 1.0)
    chain = (total + total.T) / np.where(whole > 0.0, whole, 1.0)[:, None]
    stays = np.diagonal(np.linalg.matrix_power(chain, A_WHILE))
    return float((stays * -np.expm1(-n_independent)).sum())


def error_of_difference(one: Support, other: Support) -> float:
    """Jackknife error of the difference of two metastabilities on the same data.

    Parts that are hard for one are hard for the other, so the difference is known better than either. Where it is not
    known which parts they rest on, as if they were independent.
    """
    if len(one.without) != len(other.without) or not one.without:
        return float(np.hypot(np.nan_to_num(one.error), np.nan_to_num(other.error)))
    difference = np.subtract(one.without, other.without)
    return float(np.sqrt((len(difference) - 1) * difference.var()))


def _without(total: FloatArray, left_out: FloatArray) -> FloatArray:
    """Q without some of the transitions, (n, n_states, n_states) to (n,).

    A state of which hardly anything is left counts as gone: a few frames elsewhere do not make it independent of the
    part that holds nearly all of it.
    """
    rest = total - left_out
    mass, before = (x.sum(axis=-1) + x.sum(axis=-2) for x in (rest, total))
    gone = mass < HARDLY_ANYTHING * before
    return metastability_of(np.where(gone[..., :, None] | gone[..., None, :], 0.0, rest))
