"""Independent parts of the data: trajectories, or blocks of them where these are few."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from m3c_md.arrays import IntArray

# Parts that data are cut into where there are fewer trajectories than this; otherwise every trajectory is a part.
N_PARTS = 10


def independent_parts(n_windows: Sequence[int], chosen: IntArray) -> IntArray:
    """Return the part of the data that each of the chosen windows belongs to.

    A part is a trajectory where there are ten or more. Fewer are cut into contiguous blocks, at least ten in all, none
    of which reaches from one trajectory into another.

    Parameters
    ----------
    n_windows : sequence of int
        Number of windows of every trajectory; windows are numbered trajectory by trajectory.
    chosen : (n_chosen,) array
        Numbers of windows.

    Examples
    --------
    >>> independent_parts([60, 0, 40], np.array([0, 9, 10, 59, 60, 99])).tolist()
    [0, 0, 1, 5, 6, 9]
    """
    sizes = np.array([n for n in n_windows if n > 0])
    ends = np.cumsum(sizes)
    trajectory = np.searchsorted(ends, chosen, side="right")
    if len(sizes) >= N_PARTS or len(sizes) == 0:
        return np.asarray(trajectory, dtype=np.intp)
    n_blocks = -(-N_PARTS * sizes // ends[-1])
    first_blocks = np.concatenate([[0], np.cumsum(n_blocks)[:-1]])
    place = chosen - (ends - sizes)[trajectory]
    return np.asarray(first_blocks[trajectory] + place * n_blocks[trajectory] // sizes[trajectory], dtype=np.intp)
