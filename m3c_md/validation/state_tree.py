"""How states split as their number grows: which state of fewer states each state of more of them comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray

if TYPE_CHECKING:
    import pandas as pd

# Share of a state that must lie in one state of the level above for it to count as a part of that one.
NESTED = 0.9


def shared_frames(first: NDArray[np.integer], second: NDArray[np.integer], n_first: int, n_second: int) -> FloatArray:
    """Number of frames that one labeling has in one state and the other in another, (n_first, n_second).

    Examples
    --------
    >>> shared_frames(np.array([0, 0, 1, 1]), np.array([0, 2, 1, 1]), 2, 3).tolist()
    [[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]]
    """
    pairs = np.bincount(first.astype(np.intp) * n_second + second, minlength=n_first * n_second)
    return pairs.reshape(n_first, n_second).astype(np.float64)


def state_tree(
    overlaps: Mapping[int, FloatArray], timescales: Mapping[int, float], unit: str = "frame"
) -> pd.DataFrame:
    """Table of the states of every number of states and of the states that they come from.

    Parameters
    ----------
    overlaps : mapping of int to (n_before, n_states) array
        For every number of states, in rising order, the frames that its states (columns) share with those of the
        number before it (rows); a single row of all frames for the first.
    timescales : mapping of int to float
        Time of the fastest process of every number of states: the one that the number before it did not have.
    unit : str
        Of the timescales.

    Returns
    -------
    DataFrame
        One row per state: n_states, state, parent (the state of the number before that has most of its frames; missing
        for the first number), share (of its frames that lie in the parent), nested (whether that is at least 0.9: if
        not, the states were drawn anew and not split), merged back (the share of all frames that have their labels of
        the number before again, if the states of every parent are merged), population (share of all frames), and the
        timescale of the split that the state came from, which is that of the new process; missing where a state went on
        as it was.

    Examples
    --------
    >>> two, three = np.array([[60.0, 40.0]]), np.array([[40.0, 0.0, 20.0], [0.0, 40.0, 0.0]])
    >>> state_tree({2: two, 3: three}, {2: 500.0, 3: 90.0}, "ps").drop(columns=["share", "merged back"])
       n_states  state  parent  nested  population  timescale / ps
    0         2      0    <NA>    True         0.6           500.0
    1         2      1    <NA>    True         0.4           500.0
    2         3      0       0    True         0.4            90.0
    3         3      1       1    True         0.4             NaN
    4         3      2       0    True         0.2            90.0
    """
    import pandas as pd

    levels: list[pd.DataFrame] = []
    for n_states, overlap in overlaps.items():
        frames = overlap.sum(axis=0)
        parents = overlap.argmax(axis=0)
        # A model may have a state without any of the frames that it was fitted to.
        share = overlap[parents, np.arange(n_states)] / np.maximum(frames, 1.0)
        split = np.bincount(parents, minlength=len(overlap))[parents] > 1
        known = pd.array(parents if levels else [pd.NA] * n_states, dtype="Int64")
        columns = {"n_states": n_states, "state": np.arange(n_states), "parent": known, "share": share}
        again = overlap[parents, np.arange(n_states)].sum() / frames.sum() if levels else np.nan
        columns |= {"nested": share >= NESTED, "merged back": again, "population": frames / frames.sum()}
        columns[f"timescale / {unit}"] = np.where(split, timescales[n_states], np.nan)
        levels.append(pd.DataFrame(columns))
    return pd.concat(levels, ignore_index=True)
