"""Transition counts of macrostate trajectories, and the metastability Q that they show."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from m3c_md.exceptions import InputError, M3CWarning, ShortTrajectoryWarning, UnvisitedStateWarning
from m3c_md.inputs.lengths import check_longest
from m3c_md.inputs.settings import check_integer
from m3c_md.inputs.state_trajectories import as_state_trajectories

FloatArray: TypeAlias = NDArray[np.float64]
StateArray: TypeAlias = NDArray[np.intp]
Note: TypeAlias = tuple[str, type[M3CWarning]]

# What the transition counts of all trajectories may take; macrostates need a few kilobytes.
MOST_COUNT_BYTES = 2e9


def transition_counts(dtrajs: Any, lagtime: int = 1, n_states: int | None = None) -> FloatArray:
    """Count the transitions from frame t to frame t + lagtime (sliding window), never across trajectories.

    Parameters
    ----------
    dtrajs : array (n_frames,) or list of such arrays
        State of each frame: whole numbers from 0 on.
    lagtime : int
        Lag time in frames. Trajectories that are no longer are left out with a `ShortTrajectoryWarning`.
    n_states : int, optional
        Number of states, if there may be more than the largest label tells.

    Returns
    -------
    array (n_states, n_states)
        Entry (i, j): how often a frame in state i was in state j one lag time later.

    Examples
    --------
    >>> transition_counts([0, 0, 1, 0])
    array([[1., 1.],
           [1., 0.]])
    """
    trajectories, n, lag = _checked(dtrajs, lagtime, n_states)
    _tell(short_trajectory_notes(trajectories, [lag]))
    return _total_counts(trajectories, lag, n)


def transition_matrix(dtrajs: Any, lagtime: int = 1, n_states: int | None = None) -> FloatArray:
    """Transition matrix by row-normalised counts: the estimate of largest likelihood, not made reversible.

    Parameters
    ----------
    dtrajs, lagtime, n_states
        As for `transition_counts`.

    Returns
    -------
    array (n_states, n_states)
        Rows of states that no transition starts from are NaN.

    Examples
    --------
    >>> transition_matrix([0, 0, 1, 0])
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    trajectories, n, lag = _checked(dtrajs, lagtime, n_states)
    _tell(short_trajectory_notes(trajectories, [lag]))
    return _row_normalised(_total_counts(trajectories, lag, n))


def metastability(dtrajs: Any, lagtime: int = 1, n_states: int | None = None) -> float:
    """Metastability Q, the trace of the macrostates' transition matrix (paper, 'Experiments').

    Works on the trajectories of a fit as on held-out ones. Q lies between 0 and the number of states, and is at least 1
    if states have any memory at all.

    Parameters
    ----------
    dtrajs, lagtime
        As for `transition_counts`.
    n_states : int, optional
        Give it for held-out trajectories, which may miss the last states altogether.

    Returns
    -------
    float
        Q, or NaN with an `UnvisitedStateWarning` if no transition starts from some state: its probability to stay is
        unknown, and every number put in its place would be a guess.

    Examples
    --------
    >>> metastability([0, 0, 0, 1, 1, 0])  # stays in 0 twice in three times, in 1 once in two
    1.1666666666666665
    """
    trajectories, n, lag = _checked(dtrajs, lagtime, n_states)
    matrix = _row_normalised(_total_counts(trajectories, lag, n))
    notes = short_trajectory_notes(trajectories, [lag])
    never_left = np.flatnonzero(np.isnan(np.diagonal(matrix)))
    if len(never_left):
        notes.append((_never_left_message(trajectories, lag, never_left), UnvisitedStateWarning))
    _tell(notes)
    return float(np.trace(matrix))


def counts_per_trajectory(trajectories: Sequence[StateArray], lagtime: int, n_states: int) -> FloatArray:
    """Sliding-window counts of each trajectory on its own, zero for those no longer than the lag time.

    Examples
    --------
    >>> counts_per_trajectory([np.array([0, 1, 1]), np.array([0])], 1, 2).tolist()
    [[[0.0, 1.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]]
    """
    n_bytes = 8 * len(trajectories) * n_states**2
    if n_bytes > MOST_COUNT_BYTES:
        raise InputError(
            f"n_states={n_states:.6g} in {len(trajectories)} trajectories take {n_bytes / 1e9:.3g} GB of transition "
            "counts; give macrostates, and leave microstates to deeptime's TransitionCountEstimator"
        )
    counts = np.empty((len(trajectories), n_states, n_states))
    for count, x in zip(counts, trajectories, strict=True):
        pairs = x[:-lagtime] * n_states + x[lagtime:]
        count[:] = np.bincount(pairs, minlength=n_states**2).reshape(n_states, n_states)
    return counts


def _total_counts(trajectories: Sequence[StateArray], lagtime: int, n_states: int) -> FloatArray:
    """Counts of all trajectories together, in the memory of one."""
    total: FloatArray = sum(
        (counts_per_trajectory([x], lagtime, n_states)[0] for x in trajectories), start=np.zeros(())
    )
    return total


def number_of_states(trajectories: Sequence[StateArray], n_states: int | None) -> int:
    """Number of states asked for, or the largest label plus one."""
    return int(max(x.max() for x in trajectories)) + 1 if n_states is None else n_states


def longest_of(trajectories: Sequence[StateArray]) -> int:
    """Length of the longest trajectory; lag times must be smaller."""
    return max(len(x) for x in trajectories)


def short_trajectory_notes(trajectories: Sequence[StateArray], lagtimes: Sequence[int]) -> list[Note]:
    """Say which trajectories do not reach some of the lag times (in ascending order), if there are any."""
    lengths = np.array([len(x) for x in trajectories])
    n_short = int((lengths <= lagtimes[-1]).sum())
    if n_short == 0:
        return []
    first = next(lag for lag in lagtimes if (lengths <= lag).any())
    lags = f"lag time {first}" if first == lagtimes[-1] else f"lag times from {first} up to {lagtimes[-1]}"
    message = (
        f"{n_short} of {len(lengths)} trajectories (the shortest has {lengths.min()} frames) are too short for {lags} "
        "and were left out there; a shorter lag time would use them"
    )
    return [(message, ShortTrajectoryWarning)]


def named(noun: str, values: Iterable[object], most: int = 8) -> str:
    """Write values in a row for a message, not all if there are many.

    Examples
    --------
    >>> named("state", [4]), named("state", range(20), 3)
    ('state 4', 'states 0, 1, 2 and 17 more')
    """
    words = [str(value) for value in values]
    rest = f" and {len(words) - most} more" if len(words) > most else ""
    return f"{noun}{'s' if len(words) > 1 else ''} {', '.join(words[:most])}{rest}"


def _checked(dtrajs: Any, lagtime: Any, n_states: int | None) -> tuple[list[StateArray], int, int]:
    trajectories = as_state_trajectories(dtrajs, n_states)
    lag = check_integer("lagtime", lagtime, 1)
    check_longest([len(x) for x in trajectories], lag)
    return trajectories, number_of_states(trajectories, n_states), lag


def _row_normalised(counts: FloatArray) -> FloatArray:
    total = counts.sum(axis=1, keepdims=True)
    matrix = np.full_like(counts, np.nan)
    np.divide(counts, total, out=matrix, where=total > 0.0)
    return matrix


def _never_left_message(trajectories: Sequence[StateArray], lag: int, states: NDArray[np.intp]) -> str:
    visited = np.isin(states, np.concatenate(trajectories))
    reasons = []
    if (~visited).any():
        reasons.append(f"never visited: {named('state', states[~visited])}")
    if visited.any():
        reasons.append(f"visited only where no frame follows {lag} later: {named('state', states[visited])}")
    return (
        f"Q is NaN, because there are states from which no transition starts ({'; '.join(reasons)}); give more or "
        "longer trajectories, a shorter lag time, or fewer states"
    )


def _tell(notes: list[Note]) -> None:
    for message, category in notes:
        warnings.warn(message, category, stacklevel=3)
