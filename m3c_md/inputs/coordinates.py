"""State trajectories in place of coordinates: a frequent mistake of those who come from PCCA+, told at the door."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3c_md.exceptions import InputError
from m3c_md.inputs.trajectories import is_list_of_arrays

# Frames that are looked at; data may be in files.
SEEN = 10_000
# Integers in a column of shape (n, 1) are states if they are consecutive and each of them comes so often on average.
FRAMES_PER_STATE = 5


def check_coordinates(data: Any, names: list[str] | None = None) -> None:
    """Refuse trajectories that look like states: whole numbers in one dimension. Floats are never refused.

    Parameters
    ----------
    data : whatever was given in place of trajectories
        What is no array at all is left to `m3c_md.inputs.dataset.Dataset`.
    names : list of str, optional
        What messages call the trajectories.

    Examples
    --------
    >>> check_coordinates(np.array([0.0, 3.0, 3.0]))
    >>> check_coordinates([np.array([0, 3, 3])])
    Traceback (most recent call last):
    ...
    m3c_md.exceptions.InputError: trajectory 0 holds whole numbers from 0 to 3 in one dimension: that looks like a \
state trajectory, not coordinates; give the coordinates that were discretised (microstates alone are for \
lump_microstates), or a true coordinate as floats of shape (n_frames, 1)
    """
    several = is_list_of_arrays(data)
    pair = isinstance(data, tuple) and len(data) == 2
    for i, x in enumerate(data if several else [data]):
        values = _whole_numbers(x)
        if values is None or not _look_like_states(values):
            continue
        name = f"{'XY'[i]} of the pair (X, Y)" if pair else f"trajectory {i}" if several else "data"
        verb = "holds" if len(values) == len(x) else "begins with"
        raise InputError(
            f"{name if names is None else names[i]} {verb} whole numbers from {values.min()} to {values.max()} in one "
            "dimension: that looks like a state trajectory, not coordinates; give the coordinates that were "
            "discretised (microstates alone are for lump_microstates), or a true coordinate as floats "
            "of shape (n_frames, 1)"
        )


def _whole_numbers(data: Any) -> NDArray[np.integer] | None:
    """Return the first frames of an array of integers in one dimension, (n,) or (n, 1); None for all else."""
    if not (isinstance(data, list | tuple) or hasattr(data, "shape")) or np.ma.isMaskedArray(data):
        return None
    if isinstance(data, memoryview):
        return None
    try:
        shape = data.shape if hasattr(data, "shape") else np.asarray(data).shape
        if len(shape) not in (1, 2) or 0 in shape or (len(shape) == 2 and shape[1] != 1):
            return None
        # Known before anything is read, except of lists and tables.
        if hasattr(data, "dtype") and np.dtype(data.dtype).kind not in "iu":
            return None
        values = np.asarray(data[:SEEN])
    except (ValueError, TypeError, OverflowError, RecursionError, KeyError):
        return None  # what it is, and that it is no good, is said where it is read
    return values if values.dtype.kind in "iu" else None


def _look_like_states(values: NDArray[np.integer]) -> bool:
    """Whether integers are states: if they are no column, or if few consecutive ones come again and again."""
    if values.ndim == 1:
        return True
    found = np.unique(values)
    consecutive = int(found[-1]) - int(found[0]) == len(found) - 1
    return int(found[0]) >= 0 and consecutive and FRAMES_PER_STATE * len(found) <= len(values)
