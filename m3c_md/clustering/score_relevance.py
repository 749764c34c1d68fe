"""How much columns matter to scores, whatever these are made of: directions of change, and shares of the columns.

The same quantities as `m3c_md.search.metrics.sensitivity_of` has for the winner of a search, from frames and scores.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.optimize.metric import square_root

Scores = Callable[[FloatArray], FloatArray]


def weights_by_state(scores: FloatArray) -> FloatArray:
    """Weights of frames with which every state that occurs counts alike; they sum to one.

    Examples
    --------
    >>> weights_by_state(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]])).tolist()
    [0.5, 0.25, 0.25]
    """
    states = scores.argmax(axis=1)
    weights = 1.0 / np.bincount(states)[states]
    return np.asarray(weights / weights.sum())


def exchange_shares(scores_of: Scores, frames: FloatArray) -> FloatArray:
    """Shares of the columns in the mean square change of the scores where a frame gets the column of another frame.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> exchange_shares(lambda x: np.column_stack([x[:, 1], -x[:, 1]]), x).tolist()
    [0.0, 1.0]
    """
    scores = scores_of(frames)
    weights = weights_by_state(scores)
    partners = np.random.default_rng(0).permutation(len(frames))  # any will do, the same for all columns
    changes = np.zeros(frames.shape[1])
    for column in range(frames.shape[1]):
        moved = frames.copy()
        moved[:, column] = frames[partners, column]
        change = scores_of(moved) - scores
        changes[column] = float(((change - change.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) @ weights)
    # Scores that do not change with any column leave none out.
    return changes / changes.sum() if changes.sum() > 0.0 else np.full(len(changes), 1.0 / len(changes))


def score_directions(gradients: FloatArray, weights: FloatArray, spread: FloatArray) -> FloatArray:
    """Directions along which scores change, most first, in columns divided by ``spread``.

    Their outer products add up to the mean outer product of the gradients (n_frames, n_states, n_columns).

    Examples
    --------
    >>> slopes = np.tile([[[1.0, 0.0], [-1.0, 0.0]]], (3, 1, 1))
    >>> np.abs(score_directions(slopes, np.full(3, 1 / 3), np.ones(2))).round(3).tolist()
    [[1.414], [0.0]]
    """
    scaled = (gradients - gradients.mean(axis=1, keepdims=True)) * spread
    return square_root(np.einsum("n,nki,nkj->ij", weights, scaled, scaled, optimize=True))
