"""Lengths of trajectories: how many windows each has room for, and what is said of those that have none."""

from __future__ import annotations

from collections.abc import Sequence

from m3c_md.exceptions import InputError


def window_counts(lengths: Sequence[int], reach: int) -> list[int]:
    """Numbers of windows of trajectories: none where one is too short for a window that reaches so far in time.

    Examples
    --------
    >>> window_counts([5, 2], reach=2)
    [3, 0]
    """
    return [max(length - reach, 0) for length in lengths]


def check_longest(lengths: Sequence[int], lagtime: int) -> None:
    """Refuse a lag time at which no trajectory has a transition pair."""
    longest = max(lengths)
    if longest <= lagtime:
        raise InputError(
            f"lagtime={lagtime} needs trajectories of at least {lagtime + 1} frames, but the longest has {longest}; "
            f"choose a shorter lag time or give longer trajectories{' than 1 sample' if longest == 1 else ''}"
        )


def too_short(lengths: Sequence[int], lagtime: int, kind: str = "") -> str:
    """Words on trajectories without a transition pair, which the caller goes on from; none if there are none.

    Examples
    --------
    >>> too_short([9, 2], 5, "test ")
    '1 of 2 test trajectories have no more than lagtime=5 frames'
    """
    n_short = window_counts(lengths, lagtime).count(0)
    words = f"{n_short} of {len(lengths)} {kind}trajectories have no more than lagtime={lagtime} frames"
    return words if n_short else ""
