"""Colours that mean the same in every picture, and the matching of states that number themselves differently."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from m3c_md.exceptions import InputError

# Okabe and Ito's colours: told apart by colour-blind readers, and the same for a state in every picture.
STATE_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
# For things that are not states (methods, starts of a search): Tol's "muted" colours, safe as well, and none of them a
# state's; marks tell them apart even in print without colour.
SERIES_COLORS = ("#332288", "#CC6677", "#117733", "#88CCEE", "#882255", "#DDCC77", "#44AA99", "#AA4499")
SERIES_MARKERS = ("o", "s", "^", "D", "v", "P", "h", "*")


def state_color(state: int) -> str:
    """Colour of a state.

    Examples
    --------
    >>> state_color(0) == state_color(8)
    True
    """
    return STATE_COLORS[state % len(STATE_COLORS)]


def series_style(number: int) -> dict[str, Any]:
    """Colour and mark of a method or of a start, as keywords of matplotlib's ``plot``.

    Examples
    --------
    >>> series_style(0)
    {'color': '#332288', 'marker': 'o'}
    """
    return {
        "color": SERIES_COLORS[number % len(SERIES_COLORS)],
        "marker": SERIES_MARKERS[number % len(SERIES_MARKERS)],
    }


def matched_order(reference_states: ArrayLike, states: ArrayLike, n: int) -> NDArray[np.intp]:
    """Reference state that each state of another labeling corresponds to, by best overlap on the frames.

    Parameters
    ----------
    reference_states, states : (n_frames,) arrays of int
        Two labelings of the same frames with labels 0 to ``n - 1``.
    n : int
        Number of states of the labeling that has more of them.

    Returns
    -------
    (n,) array
        A permutation: state k of ``states`` is drawn in the colour of state ``order[k]`` of the reference.

    Examples
    --------
    >>> matched_order([0, 0, 0, 1, 1, 2], [2, 2, 1, 1, 1, 0], 3).tolist()
    [2, 1, 0]
    """
    first, second = np.asarray(reference_states), np.asarray(states)
    if first.ndim != 1 or first.shape != second.shape:
        raise InputError(f"two labelings of the same frames are needed, got shapes {first.shape} and {second.shape}")
    for labels in (first, second):
        if labels.size and not 0 <= labels.min() <= labels.max() < n:
            raise InputError(f"states run from {labels.min()} to {labels.max()}, but must lie in 0 to {n - 1}")
    overlap = np.bincount(second * n + first, minlength=n * n).reshape(n, n)
    return np.asarray(linear_sum_assignment(overlap, maximize=True)[1])
