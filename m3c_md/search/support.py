"""Support: whether the states of a candidate rest on many independent parts of the data or on one.

A trajectory that gets stuck in some corner makes that corner look metastable. Nothing in the data fitted to tells it
from a state, except that no other trajectory goes there. So a part of the data at a time is left out of the transition
counts, without another fit: metastability that depends on one part changes by a whole state when that part goes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.search.problem import LATE, SearchProblem

# Parts from which on two neighbours are left out together, too.
ENOUGH_PARTS = 5
# Share of a state that must be left for it to count. It lies between a data set of Model I in which five of ten
# trajectories see a state, four of them an eighth of it together, and Langerin, where one has 95 % of a false state.
HARDLY_ANYTHING = 0.1
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
    lasting : float
        Q many lag times later, counted and not extrapolated; not a number where trajectories are too short.
    lasting_without : tuple of float
        The same without each part.
    least_memory : float
        How much is left by then of the state that is forgotten first, see `least_memory`.
    missing : float
        Number of states that fresh data of the same size may be expected to miss.
    """

    error: float = np.nan
    n_parts: int = 0
    without: tuple[float, ...] = ()
    expected: float = np.nan
    lasting: float = np.nan
    lasting_without: tuple[float, ...] = ()
    least_memory: float = np.nan
    missing: float = np.nan


def metastability_of(transitions: FloatArray) -> FloatArray:
    """Q of the reversible chain of weighted transitions between states, (..., n_states, n_states) to (...).

    A state that is never visited adds nothing.
    """
    macro = transitions + np.swapaxes(transitions, -1, -2)
    mass = macro.sum(axis=-1)
    stays = np.diagonal(macro, axis1=-2, axis2=-1)
    return np.asarray((stays / np.where(mass > 0.0, mass, 1.0)).sum(axis=-1))


def least_memory(transitions: FloatArray) -> float:
    """Smallest eigenvalue of the reversible chain of transitions: 1 if no state is left, 0 if two are as good as one.

    Not a number where it cannot be had.

    Examples
    --------
    >>> cut_in_two = np.array([[90.0, 0.0, 0.0], [0.0, 5.0, 5.0], [0.0, 5.0, 5.0]])
    >>> abs(round(least_memory(cut_in_two), 9)), round(least_memory(np.eye(3)), 9)
    (0.0, 1.0)
    """
    macro = transitions + transitions.T
    root = np.sqrt(macro.sum(axis=1))
    root = np.where(root > 0.0, root, 1.0)
    try:
        return float(np.linalg.eigvalsh(macro / np.outer(root, root))[0])
    except (np.linalg.LinAlgError, ArithmeticError, ValueError):  # what is not known speaks against nobody
        return np.nan


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


def support_of_windows(
    problem: SearchProblem, states: IntArray, weights: FloatArray, chosen: IntArray
) -> tuple[float, Support]:
    """Metastability of the states (n_slices, n_chosen) of chosen windows, and on how much of the data they rest.

    Where trajectories are many, each is a part, and a state that one of them visits again and again rests on one part.
    Blocks of a few long trajectories are not as different as that, so there visits count.
    """
    n_states, parts, pairs = problem.settings.n_states, problem.data.parts[chosen], problem.later_windows(chosen)
    transitions = part_transitions(states, weights, parts, n_states)
    later = n_independent = None
    if pairs is not None:
        first, second = pairs
        ends = np.stack([states[0, first], states[-1, second]])
        later = part_transitions(ends, weights[first], parts[first], n_states)
    if problem.data.clock is not None and len(chosen) > 1:
        times, first_frames = problem.data.clock[:, chosen]
        trajectories = first_frames - times
        if np.count_nonzero(np.diff(trajectories)) + 1 < len(transitions):
            apart = max(LATE * problem.data.reach, 2.0 * float(np.median(np.diff(times))))
            n_independent = independent_visits(states[0], weights, trajectories, times, apart, n_states)
    return float(metastability_of(transitions.sum(axis=0))), support_of(transitions, later, n_independent)


def support_of(
    transitions: FloatArray, later: FloatArray | None = None, n_independent: FloatArray | None = None
) -> Support:
    """Jackknife over parts of the data, from the transitions of each part, and from those many lag times later.

    ``n_independent``: how many independent visits each state had; as many as parts by default.

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
    if n_independent is None:
        n_independent = independent_parts_of_states(transitions)
    expected = expected_metastability(transitions.sum(axis=0), n_independent)
    support = Support(float(error), fewest, tuple(without.tolist()), expected)
    if later is None or len(later) < 2:
        return support
    after = later.sum(axis=0)
    return replace(
        support,
        missing=float(np.exp(-n_independent).sum()),
        least_memory=least_memory(after),
        lasting=float(metastability_of(after)),
        lasting_without=tuple(_without(after, later).tolist()),
    )


def expected_metastability(transitions: FloatArray, n_independent: FloatArray) -> float:
    """Q after `A_WHILE` that fresh data of the same size may be expected to have.

    A state with m independent visits has none in fresh data with a probability of about exp(-m) (Poisson), and then
    adds nothing.

    Examples
    --------
    >>> never_left = np.diag([90.0, 10.0])
    >>> round(expected_metastability(never_left, np.array([5.0, 1.0])), 2)  # 1 - exp(-5) and 1 - exp(-1)
    1.63
    """
    mass = transitions.sum(axis=0) + transitions.sum(axis=1)
    chain = (transitions + transitions.T) / np.where(mass > 0.0, mass, 1.0)[:, None]
    stays = np.diagonal(np.linalg.matrix_power(chain, A_WHILE))
    return float((stays * -np.expm1(-n_independent)).sum())


def independent_parts_of_states(transitions: FloatArray) -> FloatArray:
    """Number of independent parts of the data that each state rests on, from the transitions of each part.

    Parts count by their shares of the state, and so many as the largest share goes into it; two neighbours may hold
    one visit, and are one where parts are many.

    Examples
    --------
    >>> alone = np.zeros((10, 2, 2))
    >>> alone[:, 0, 0], alone[3, 1, 1] = 10.0, 10.0  # the second state is seen in one part only
    >>> independent_parts_of_states(alone).tolist()
    [5.0, 1.0]
    """
    mass = transitions.sum(axis=1) + transitions.sum(axis=2)
    whole = mass.sum(axis=0)
    if len(mass) >= ENOUGH_PARTS:
        mass = mass + np.roll(mass, -1, axis=0)
    return np.asarray(whole / np.where(whole > 0.0, mass.max(axis=0), 1.0))


def independent_visits(
    states: IntArray, weights: FloatArray, trajectories: IntArray, times: IntArray, apart: float, n_states: int
) -> FloatArray:
    """Number of independent visits of each state, by their shares: so many as the largest share goes into it.

    A state that is entered again within ``apart`` of the time at which it was left has not been left.

    Parameters
    ----------
    states, weights, trajectories, times : (n_windows,) arrays
        In the order of time.

    Examples
    --------
    >>> states, ones = np.array([0, 0, 1, 1, 0, 1, 0, 0]), np.ones(8)
    >>> independent_visits(states, ones, np.zeros(8, dtype=int), np.arange(8), 3, 2).tolist()
    [1.0, 1.0]
    >>> independent_visits(states, ones, np.zeros(8, dtype=int), np.arange(8), 1, 2).round(2).tolist()
    [2.5, 1.5]
    """
    found = np.zeros(n_states)
    for state in range(n_states):
        inside = np.flatnonzero(states == state)
        if len(inside):
            again = (np.diff(times[inside]) > apart) | (np.diff(trajectories[inside]) != 0)
            visits = np.bincount(np.cumsum(np.r_[0, again]), weights=weights[inside])
            found[state] = visits.sum() / max(visits.max(), np.finfo(float).tiny)
    return found


def error_of_difference(one: Support, other: Support) -> float:
    """Jackknife error of the difference of two metastabilities on the same data.

    Parts that are hard for one are hard for the other, so the difference is known better than either. Where it is not
    known which parts they rest on, as if they were independent.
    """
    if len(one.without) != len(other.without) or not one.without:
        return float(np.hypot(np.nan_to_num(one.error), np.nan_to_num(other.error)))
    return _paired_error(one.without, other.without)


def lasts_longer(one: Support, other: Support, errors: float) -> bool:
    """Whether states are more metastable than others many lag times later, by so many errors of the difference.

    Slow noise, cut in two, may be as metastable as states at the lag time, and more so than states that overlap; it is
    forgotten where these are not. Nothing is said where it is not known, or not for the same parts of the data.
    """
    if len(one.lasting_without) != len(other.lasting_without) or not one.lasting_without:
        return False
    return one.lasting - other.lasting > errors * _paired_error(one.lasting_without, other.lasting_without)


def _paired_error(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Jackknife error of the difference of two numbers, from their values without each part of the data."""
    difference = np.subtract(one, other)
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
