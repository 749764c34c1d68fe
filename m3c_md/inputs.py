"""Checks of user input, in one place: each error names the value that is wrong and the remedy."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3c_md.exceptions import InputError

FloatArray = NDArray[np.float64]


def as_trajectory(data: Any, name: str = "data") -> FloatArray:
    """Turn one array-like or DataFrame into a finite float64 array of shape (n_frames, n_columns).

    Nothing is copied if ``data`` is such an array already.

    Examples
    --------
    >>> as_trajectory([1, 2, 3]).shape
    (3, 1)
    """
    if type(data).__module__.partition(".")[0] == "mdtraj":
        raise InputError(
            f"{name} is a {type(data).__name__} of mdtraj; turn it into features first, e.g. sines and cosines of "
            "mdtraj.compute_phi and compute_psi"
        )
    if np.ma.isMaskedArray(data):
        raise InputError(f"{name} is a masked array, and masked frames have no state; drop or fill them first")
    try:
        array = np.asarray(data)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} cannot be read as an array ({error}); give a (n_frames, n_columns) array") from error
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"{name} has dtype {array.dtype}, but numbers are needed; convert it to a float array of shape "
            "(n_frames, n_columns)"
        )
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InputError(f"{name} has shape {array.shape}; reshape it to (n_frames, n_columns)")
    if 0 in array.shape:
        raise InputError(f"{name} has shape {array.shape}: there is nothing in it; give frames or leave it out")
    trajectory = array.astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        # A sum is finite only if all entries are: one fast pass for good data.
        suspicious = not np.isfinite(trajectory.sum())
    if suspicious and not np.isfinite(trajectory).all():
        frame, column = np.argwhere(~np.isfinite(trajectory))[0]
        raise InputError(
            f"{name} holds {trajectory[frame, column]} at frame {frame}, column {column}; remove or repair such frames"
        )
    return trajectory


def as_trajectories(data: Any, n_columns: int | None = None) -> list[FloatArray]:
    """Turn an array or a list (or tuple) of arrays into a list of trajectories with the same columns.

    Examples
    --------
    >>> [x.shape for x in as_trajectories([[[0.0, 1.0]], [[2.0, 3.0], [4.0, 5.0]]])]
    [(1, 2), (2, 2)]
    """
    if isinstance(data, str | bytes | dict) or data is None:
        raise InputError(f"data is {data!r:.60}; give an array (n_frames, n_columns) or a list of such arrays")
    if is_list_of_arrays(data):
        if len(data) == 0:
            raise InputError("data is an empty list; give at least one trajectory (n_frames, n_columns)")
        trajectories = [as_trajectory(x, f"trajectory {i}") for i, x in enumerate(data)]
    else:
        trajectories = [as_trajectory(data)]
    wanted = trajectories[0].shape[1] if n_columns is None else n_columns
    for i, x in enumerate(trajectories):
        if x.shape[1] != wanted:
            source = "trajectory 0 has" if n_columns is None else "the model was fitted to"
            raise InputError(
                f"trajectory {i} has {x.shape[1]} columns, but {source} {wanted}; featurise all trajectories alike"
            )
    return trajectories


def is_list_of_arrays(data: Any) -> bool:
    """Whether ``data`` is a list or tuple of trajectories, as against one trajectory written as nested lists.

    Examples
    --------
    >>> is_list_of_arrays([np.zeros(3)]), is_list_of_arrays([[0.0], [1.0]]), is_list_of_arrays([[[0.0], [1.0]]])
    (True, False, True)
    """
    if not isinstance(data, list | tuple):
        return False
    return len(data) == 0 or any(_is_trajectory(x) for x in data)


def _is_trajectory(item: Any) -> bool:
    if isinstance(item, list | tuple):
        return any(not isinstance(x, numbers.Number | str) for x in item)
    return not isinstance(item, numbers.Number | str | bytes | None)


def as_time_lagged_pair(data: tuple[Any, Any]) -> tuple[FloatArray, FloatArray]:
    """Check a tuple (X, Y) of frames and the frames one lag time later."""
    first, second = as_trajectory(data[0], "X of the pair (X, Y)"), as_trajectory(data[1], "Y of the pair (X, Y)")
    if first.shape != second.shape:
        raise InputError(
            f"a tuple is read as time-lagged pairs (X, Y), but X has shape {first.shape} and Y {second.shape}; give "
            "trajectories as a list instead of a tuple"
        )
    return first, second


def long_enough(trajectories: Sequence[FloatArray], lagtime: int) -> list[FloatArray]:
    """Trajectories that hold at least one transition pair; there must be one."""
    kept = [x for x in trajectories if len(x) > lagtime]
    if not kept:
        longest = max(len(x) for x in trajectories)
        raise InputError(
            f"lagtime={lagtime} needs trajectories of at least {lagtime + 1} frames, but the longest has {longest}; "
            "choose a shorter lag time or give longer trajectories"
        )
    return kept


def check_integer(name: str, value: Any, smallest: int) -> int:
    """Check a whole number that must not be smaller than ``smallest``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral) or value < smallest:
        raise InputError(f"{name}={value!r} must be a whole number of at least {smallest}")
    return int(value)


def check_positive(name: str, value: Any) -> float:
    """Check a finite positive number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0.0 < float(value) < np.inf:
        raise InputError(f"{name}={value!r} must be a positive finite number")
    return float(value)


def check_range(name: str, value: Any, low: float, high: float) -> float:
    """Check a number between two bounds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not low <= float(value) <= high:
        raise InputError(f"{name}={value!r} must be a number from {low:g} to {high:g}")
    return float(value)


def check_flag(name: str, value: Any) -> bool:
    """Check a truth value."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name}={value!r} must be True or False")
    return bool(value)


def check_random_state(value: Any) -> np.random.Generator:
    """Turn None, a whole number or a Generator into a Generator."""
    try:
        return np.random.default_rng(value)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"random_state={value!r} must be None, a whole number of at least 0 or a numpy.random.Generator"
        ) from error


def check_jobs(value: Any) -> int | None:
    """Check a number of processes in joblib's sense: None, positive, or negative (-1: all cores)."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, numbers.Integral) or value == 0):
        raise InputError(f"n_jobs={value!r} must be None, a positive number of processes, or -1 for all cores")
    return None if value is None else int(value)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Check that a string is one of the known choices."""
    if not (isinstance(value, str) and value in choices):
        known = ", ".join(repr(choice) for choice in choices)
        raise InputError(f"{name}={value!r} is not known; choose one of {known}")
