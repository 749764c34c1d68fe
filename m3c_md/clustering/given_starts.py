"""Starts that users give: names, or states of frames, which become labels of windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import IntArray
from m3c_md.exceptions import InputError
from m3c_md.inputs.lengths import window_counts
from m3c_md.inputs.trajectories import is_list_of_arrays


def as_starts(starts: Any) -> Any:
    """Starts as they were given; one name is a list of one."""
    return [starts] if isinstance(starts, str) else starts


def state_arrays(start: Any) -> list[NDArray[np.integer]]:
    """State trajectories that were given as a start."""
    parts = start if is_list_of_arrays(start) else [start]
    try:
        arrays = [np.asarray(part) for part in parts]
    except ValueError:  # lists of different length
        arrays = [np.empty(0)]
    if any(a.ndim != 1 or a.dtype.kind not in "iu" for a in arrays):
        raise InputError("a start that is not a name must be integer states, one 1-d array per trajectory")
    return arrays


def window_labels(start: Any, first_frames: IntArray, n_frames: int, shortest: int, n_states: int) -> IntArray:
    """Labels of windows, those of their first frames, from state trajectories that were given as a start.

    Parameters
    ----------
    start : array or list of arrays
        States of all frames.
    first_frames : (n_windows,) array
        Number of the first frame of each window, among the ``n_frames`` of trajectories that have a window.
    n_frames : int
    shortest : int
        Number of frames up to which a trajectory is too short to hold a window.
    n_states : int

    Examples
    --------
    >>> states = [np.array([0, 0, 1, 1]), np.array([1])]
    >>> window_labels(states, np.array([0, 1, 2]), 4, shortest=1, n_states=2).tolist()
    [0, 0, 1]
    """
    arrays = state_arrays(start)
    # Trajectories too short for the lag time take no part in the fit, nor do their states.
    counts = window_counts([len(a) for a in arrays], shortest)
    states = np.concatenate([a for a, n in zip(arrays, counts, strict=True) if n] or [np.empty(0, dtype=int)])
    if len(states) != n_frames:
        raise InputError(f"a start has {len(states)} states for {n_frames} frames; give every frame a state")
    found = np.unique(states)
    if not np.array_equal(found, np.arange(n_states)):
        raise InputError(
            f"a start has the states {found[:10].tolist()}, but n_states={n_states} needs all of 0 to {n_states - 1}"
        )
    return np.asarray(states[first_frames], dtype=np.intp)
