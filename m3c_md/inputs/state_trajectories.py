"""State trajectories as users give them, checked and turned into arrays of whole numbers."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3c_md.exceptions import InputError
from m3c_md.inputs.settings import check_integer

# A count matrix of so many states takes 8 MB. Larger labels are mostly frame numbers or cluster identifiers taken for
# states, and matrices for them would fill the memory; whoever means it gives n_states.
_MOST_UNANNOUNCED_STATES = 1000


def as_state_trajectories(dtrajs: Any, n_states: int | None = None) -> list[NDArray[np.intp]]:
    """Turn state labels, one array or a list of them, into a list of integer arrays of shape (n_frames,).

    Nothing is copied if the arrays are good already. Floats are refused, not cast: they are coordinates more often
    than states.

    Examples
    --------
    >>> as_state_trajectories([[0, 0, 1], [1, 1]])
    [array([0, 0, 1]), array([1, 1])]
    """
    if isinstance(dtrajs, str | bytes | dict) or dtrajs is None:
        raise InputError(f"dtrajs is {dtrajs!r:.60}; give an array of states (n_frames,) or a list of such arrays")
    if n_states is not None:
        n_states = check_integer("n_states", n_states, 1)
    # Unlike coordinates, nested lists cannot be one trajectory: every item that is no number is a trajectory.
    if isinstance(dtrajs, list | tuple) and any(not isinstance(x, numbers.Number | str | bytes) for x in dtrajs):
        return [_as_state_trajectory(x, f"trajectory {i}", n_states) for i, x in enumerate(dtrajs)]
    if isinstance(dtrajs, list | tuple) and len(dtrajs) == 0:
        raise InputError("dtrajs is an empty list; give at least one array of states (n_frames,)")
    return [_as_state_trajectory(dtrajs, "dtrajs", n_states)]


def _as_state_trajectory(states: Any, name: str, n_states: int | None) -> NDArray[np.intp]:
    if np.ma.isMaskedArray(states):
        raise InputError(f"{name} is a masked array, and masked frames have no state; split trajectories there")
    try:
        array = np.asarray(states)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"{name} cannot be read as an array ({error}); give an array of states (n_frames,)") from error
    if array.ndim != 1:
        raise InputError(
            f"{name} has shape {array.shape}, but states are of shape (n_frames,); give several trajectories as a list "
            "of arrays, and flatten a single column with .ravel()"
        )
    if len(array) == 0:
        raise InputError(f"{name} has no frames; leave it out")
    if array.dtype.kind not in "iu":
        raise InputError(_no_state_message(array, name))
    smallest, largest = int(array.min()), int(array.max())
    if smallest < 0:
        raise InputError(
            f"{name} holds {smallest} at frame {int(array.argmin())}, but states are numbered from 0; split "
            "trajectories at frames without a state, or drop these frames"
        )
    if n_states is None and largest >= _MOST_UNANNOUNCED_STATES:
        raise InputError(
            f"{name} holds state {largest} at frame {int(array.argmax())}; number the states from 0 without gaps, e.g. "
            f"by numpy.unique(states, return_inverse=True), or give n_states if there are more than "
            f"{_MOST_UNANNOUNCED_STATES}"
        )
    if n_states is not None and largest >= n_states:
        raise InputError(
            f"{name} holds state {largest} at frame {int(array.argmax())}, but n_states={n_states} allows 0 to "
            f"{n_states - 1} only; raise n_states or number the states from 0"
        )
    return array.astype(np.intp, copy=False)


def _no_state_message(array: NDArray[Any], name: str) -> str:
    if array.dtype.kind == "b":
        return f"{name} has dtype bool; if states 0 and 1 are meant, convert it with .astype(int)"
    if array.dtype.kind != "f":
        return f"{name} has dtype {array.dtype}, but states are whole numbers from 0; convert it with .astype(int)"
    fractional = np.flatnonzero(~(np.isfinite(array) & (array == np.floor(array))))
    if len(fractional) == 0:
        return f"{name} has dtype {array.dtype}, but states are whole numbers from 0; convert it with .astype(int)"
    frame = int(fractional[0])
    return (
        f"{name} holds {array[frame]} at frame {frame}, which is no state; give the whole numbers that transform "
        "returns, and split trajectories at frames without a state"
    )
