"""Settings as users give them, checked: each error names the value that is wrong and the remedy."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from m3c_md.exceptions import InputError


def check_integer(name: str, value: Any, smallest: int, largest: int | None = None) -> int:
    """Check a whole number that must not be smaller than ``smallest``, nor larger than ``largest``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral) or value < smallest:
        of = " of frames" if name in ("lagtime", "lag time") else ""
        raise InputError(f"{name}={value!r:.60} must be a whole number{of} of at least {smallest}")
    number = int(value)
    if largest is not None and number > largest:
        raise InputError(f"{name}={number!r:.60} must not be larger than {largest}; choose a smaller number")
    return number


def as_list(name: str, values: Any) -> list[Any]:
    """Several values as a list, a single one as a list of one; text is neither.

    Examples
    --------
    >>> as_list("lagtimes", range(2)), as_list("lagtimes", 7)
    ([0, 1], [7])
    """
    if isinstance(values, str | bytes | bytearray | dict):
        raise InputError(f"{name}={values!r:.60} must be a number or several, e.g. [1, 2, 5]")
    try:
        return list(values)
    except TypeError:
        return [values]


def check_positive(name: str, value: Any) -> float:
    """Check a finite positive number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0.0 < float(value) < np.inf:
        raise InputError(f"{name}={value!r} must be a positive finite number")
    return float(value)


def check_range(name: str, value: Any, low: float, high: float = np.inf) -> float:
    """Check a finite number between two bounds."""
    largest = min(high, np.finfo(float).max)
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not low <= float(value) <= largest:
        span = f"of at least {low:g}" if high == np.inf else f"from {low:g} to {high:g}"
        raise InputError(f"{name}={value!r} must be a number {span}")
    return float(value)


def check_flag(name: str, value: Any) -> bool:
    """Check a truth value."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name}={value!r} must be True or False")
    return bool(value)


def check_random_state(value: Any) -> np.random.Generator:
    """Turn None, a whole number or a Generator into a Generator."""
    message = f"random_state={value!r:.60} must be None, a whole number of at least 0 or a numpy.random.Generator"
    # numpy takes True for 1, and nothing at all for 0.
    if isinstance(value, bool | np.bool_) or (isinstance(value, list | tuple | np.ndarray) and np.size(value) == 0):
        raise InputError(message)
    try:
        return np.random.default_rng(value)
    except (TypeError, ValueError) as error:
        raise InputError(message) from error


def check_generator(value: Any) -> np.random.Generator:
    """Check a numpy.random.Generator."""
    if not isinstance(value, np.random.Generator):
        raise InputError(f"rng={value!r:.60} must be a numpy.random.Generator, e.g. numpy.random.default_rng(0)")
    return value


# More processes than any machine has; joblib would try to start them.
_MOST_JOBS = 4096


def check_jobs(value: Any) -> int | None:
    """Check a number of processes in joblib's sense: None, positive, or negative (-1: all cores)."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, numbers.Integral) or value == 0):
        raise InputError(f"n_jobs={value!r} must be None, a positive number of processes, or -1 for all cores")
    n_jobs = None if value is None else int(value)
    if n_jobs is not None and abs(n_jobs) > _MOST_JOBS:
        raise InputError(f"n_jobs={n_jobs!r:.60} is more than {_MOST_JOBS} processes; -1 takes all cores")
    return n_jobs


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Check that a string is one of the known choices."""
    if not (isinstance(value, str) and value in choices):
        known = ", ".join(repr(choice) for choice in choices)
        raise InputError(f"{name}={value!r} is not known; choose one of {known}")


# What deeptime asks of a progress bar.
_BAR_METHODS = ("update", "close", "set_description")


def check_progress(value: Any) -> Any:
    """Progress bar class that was given, tqdm's for True, None for False or None; a function that makes bars will do.

    Examples
    --------
    >>> check_progress(True).__name__, check_progress(False)
    ('tqdm', None)
    """
    if isinstance(value, bool):
        from tqdm import tqdm

        return tqdm if value else None
    is_bar = callable(value) and (not isinstance(value, type) or all(hasattr(value, name) for name in _BAR_METHODS))
    if value is not None and (not is_bar or isinstance(value, BuiltinFunctionType)):
        raise InputError(f"progress={value!r} must be a progress bar class such as tqdm.tqdm, True or None")
    return value


def check_string(name: str, value: Any) -> str:
    """Check a string that must not be empty."""
    if not isinstance(value, str) or not value:
        raise InputError(f"{name}={value!r} must be a non-empty string")
    return value
