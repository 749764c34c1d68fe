"""Trajectories as users give them, checked and turned into arrays: errors name the value and the remedy."""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterator, Sequence, Set, ValuesView
from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError, InputTypeError


def as_trajectory(data: Any, name: str = "data", first: int = 0) -> FloatArray:
    """Turn one array-like or DataFrame into a finite float64 array of shape (n_frames, n_columns).

    Nothing is copied if ``data`` is such an array already. Messages count frames from ``first`` on.

    Examples
    --------
    >>> as_trajectory([1, 2, 3]).shape
    (3, 1)
    """
    if type(data).__module__.partition(".")[0] == "mdtraj":
        raise InputError(
            f"{name} is a {type(data).__name__} of mdtraj; turn it into features first: "
            "m3c_md.DihedralFeaturizer().transform(it) makes sines and cosines of phi and psi"
        )
    if np.ma.isMaskedArray(data):
        raise InputError(f"{name} is a masked array, and masked frames have no state; drop or fill them first")
    if isinstance(data, bytes | bytearray | memoryview):
        raise InputError(f"{name} is a {type(data).__name__}; give an array (n_frames, n_columns)")
    try:
        array = np.asarray(data)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"{name} cannot be read as an array ({error}); give a (n_frames, n_columns) array") from error
    if array.dtype.kind == "O" and array.ndim == 2:
        array = _numbers_of_objects(array, name)
    if array.dtype.kind not in "fiub":
        raise InputError(_no_numbers_message(data, array, name))
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim == 3:
        raise InputError(
            f"{name} has shape {array.shape}; reshape it to (n_frames, n_columns), or give list(...) of it if these "
            "are trajectories of one length (a step before in a pipeline may have stacked them: fit it by itself)"
        )
    if array.ndim != 2:
        raise InputError(f"{name} has shape {array.shape}; reshape it to (n_frames, n_columns)")
    if 0 in array.shape:
        what = "feature" if array.shape[1] == 0 else "sample"
        raise InputError(
            f"{name} has shape {array.shape}: there is nothing in it, 0 {what}(s) (shape={array.shape}) while a "
            "minimum of 1 is required; give frames or leave it out"
        )
    trajectory = array.astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        # A sum is finite only if all entries are: one fast pass for good data.
        suspicious = not np.isfinite(trajectory.sum())
    if suspicious and not np.isfinite(trajectory).all():
        frame, column = np.argwhere(~np.isfinite(trajectory))[0]
        raise InputError(
            f"{name} holds {trajectory[frame, column]} at frame {first + frame}, column {column}; remove or repair "
            "such frames, for NaN and inf are in no state"
        )
    return trajectory


def _numbers_of_objects(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Numbers that pandas or others have put into an array of objects; with texts or None it remains what it is."""
    if any(isinstance(value, str | bytes | None) for value in array.flat):
        return array
    try:
        return array.astype(np.float64)
    except OverflowError:
        return array
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"{name} has dtype object, and not only of numbers ({error}); convert it first") from error


def _no_numbers_message(data: Any, array: NDArray[Any], name: str) -> str:
    """Say what was given in place of numbers, and what to do about it."""
    if array.dtype.kind == "c":
        remedy = "convert it, e.g. to real and imaginary parts as columns"
        return f"Complex data not supported: {name} has dtype {array.dtype}; {remedy}"
    if hasattr(data, "toarray"):
        return f"{name} is sparse ({type(data).__name__}); give its method toarray() instead"
    if isinstance(data, os.PathLike):
        return f"{name} is the path {str(data)!r:.60}; read it first, e.g. with numpy.load or DihedralFeaturizer.load"
    if isinstance(data, Iterator | Set | ValuesView):
        return f"{name} is a {type(data).__name__} (dtype object); convert it by list(...) and give that"
    if array.dtype.kind == "O" and array.ndim == 1 and len(array) and isinstance(array[0], np.ndarray):
        return f"{name} has dtype object: it is an array of arrays; convert it by list(...) and give that"
    return (
        f"{name} has dtype {array.dtype}, but numbers are needed; convert it to a float array of shape "
        "(n_frames, n_columns)"
    )


def check_columns(widths: Sequence[int], n_columns: int | None) -> None:
    """Refuse trajectories whose numbers of columns differ from each other, or from those of a model."""
    wanted = widths[0] if n_columns is None else n_columns
    for i, width in enumerate(widths):
        if width != wanted:
            source = "trajectory 0 has" if n_columns is None else "the model was fitted to"
            one_frame = n_columns is not None and width == 1
            reshape = f"; if it is a single frame: Reshape your data to (1, {wanted})" if one_frame else ""
            raise InputError(
                f"trajectory {i} has {width} columns, but {source} {wanted}; featurise all trajectories alike{reshape}"
            )


def column_names(data: Any) -> list[str] | None:
    """Names of the columns of tables (DataFrames), None where there are none; tables of a list must agree.

    Examples
    --------
    >>> import pandas as pd
    >>> column_names([pd.DataFrame({"phi": [0.1], "psi": [0.2]}), np.zeros((3, 2))])
    ['phi', 'psi']
    """
    given = list(data) if is_list_of_arrays(data) else [data]
    named = {i: names for i, x in enumerate(given) if (names := _names_of(x)) is not None}
    if not named:
        return None
    first = min(named)
    for i, names in named.items():
        check_names(names, named[first], f"trajectory {i}", f"trajectory {first} has")
    return named[first]


def check_names(names: Sequence[str] | None, wanted: Sequence[str] | None, whose: str, source: str) -> None:
    """Refuse columns of other names, or in another order, than others of the same kind."""
    if names is None or wanted is None or list(names) == list(wanted) or len(names) != len(wanted):
        return
    column = next(i for i, (name, other) in enumerate(zip(names, wanted, strict=True)) if name != other)
    remedy = "bring its columns into that order" if sorted(names) == sorted(wanted) else "featurise all alike"
    raise InputError(
        f"column {column} of {whose} is {names[column]!r:.40}, but {source} {wanted[column]!r:.40} there; {remedy}"
    )


def _names_of(table: Any) -> list[str] | None:
    columns = getattr(table, "columns", None)
    if columns is None or not hasattr(table, "shape") or len(table.shape) != 2:
        return None
    names = list(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


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
