"""The loss of a window: the paper's maximum over label tuples, exact, smoothed, and for every label at once.

A window is ``n_slices`` frames that must share one label (2: transition pairs, M3C; 1: single frames, MMC).
``scores`` has shape (n_slices, n_states, n_windows), windows last: the reductions over slices and states then run
over long contiguous rows, several times faster than over short trailing axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray, IntArray


def window_losses(scores: FloatArray, labels: IntArray) -> FloatArray:
    """Slack ξ of each window for its label (paper, constraint of eq. m3c), in O(n_slices n_states).

    With r_i = max_{k≠y} s_ik - s_iy, the maximum over all tuples other than (y, ..., y) is Σ_i max(r_i, 0) if any
    r_i ≥ 0 and max_i r_i otherwise; ξ = max(0, 1 + that maximum).

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[[2.0], [0.0]], [[0.5], [0.0]]])  # a pair that prefers state 0, once by less than 1
    >>> window_losses(scores, np.array([0])).tolist(), window_losses(scores, np.array([1])).tolist()
    ([0.5], [3.5])
    """
    return _loss_of_leads(_largest(_leads(scores, labels)))


def label_costs(scores: FloatArray) -> FloatArray:
    """Loss of every window for every label, (n_states, n_windows): the matrix Hᵀ of the label step (eq. m3c-D).

    Examples
    --------
    >>> import numpy as np
    >>> label_costs(np.array([[[2.0], [0.0]], [[0.5], [0.0]]])).tolist()
    [[0.5], [3.5]]
    """
    n_states = scores.shape[1]
    best = scores.max(axis=1)
    runner_up = np.partition(scores, n_states - 2, axis=1)[:, n_states - 2]
    # The strongest rival of state k is the best state, or the runner-up where k itself is the best; a tie makes
    # the two equal, so comparing with the maximum is safe.
    return np.stack(
        [
            _loss_of_leads(np.where(scores[:, state] == best, runner_up, best) - scores[:, state])
            for state in range(n_states)
        ]
    )


def _leads(scores: FloatArray, labels: IntArray) -> FloatArray:
    """s_ik - s_iy for all states k ≠ y, and -inf for k = y."""
    windows = np.arange(len(labels))
    lead: FloatArray = scores - scores[:, labels, windows][:, None, :]
    lead[:, labels, windows] = -np.inf
    return lead


def _loss_of_leads(rivals: FloatArray) -> FloatArray:
    """Turn each slice's r_i = (best rival score - own score), (n_slices, n_windows), into losses."""
    largest = rivals.max(axis=0)
    worst_tuple = np.where(largest >= 0.0, np.maximum(rivals, 0.0).sum(axis=0), largest)
    return np.asarray(np.maximum(0.0, 1.0 + worst_tuple))


def label_tuples(n_slices: int, n_states: int) -> IntArray:
    """All n_states**n_slices label tuples, in the order of their base-n_states number.

    Examples
    --------
    >>> label_tuples(2, 2).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    return np.indices((n_states,) * n_slices).reshape(n_slices, -1).T.astype(np.intp)


def project_to_simplex(values: FloatArray) -> FloatArray:
    """Euclidean projection of every column onto the probability simplex.

    Examples
    --------
    >>> project_to_simplex(np.array([[0.25, 3.0], [-0.25, 1.0]])).tolist()
    [[0.75, 1.0], [0.25, 0.0]]
    """
    # Relative to the largest entry, which is always in the support, nothing cancels however large the values are.
    values = values - values.max(axis=0)
    descending = -np.sort(-values, axis=0)
    excess = np.cumsum(descending, axis=0) - 1.0
    rank = np.arange(1, len(values) + 1)[:, None]
    support = np.count_nonzero(descending * rank > excess, axis=0)
    threshold = excess[support - 1, np.arange(values.shape[1])] / support
    return np.asarray(np.maximum(values - threshold, 0.0))


@dataclass(frozen=True)
class SmoothedLoss:
    """Losses of a block of windows after quadratic smoothing, max_λ (λ·v - (μ/2)(|λ|² - 1)) over the simplex.

    v holds one value 1{tuple ≠ (y, ..., y)} + Σ_i (s_{i, k_i} - s_{i, y}) for each of the `label_tuples`; ξ is its
    maximum.

    Attributes
    ----------
    loss, smoothed : (n_windows,) arrays
        ξ itself and its smoothed value: ξ ≤ smoothed ≤ ξ + μ/2.
    slack : (n_windows,) array
        ξ - λ·v ≥ 0, what smoothing adds to the duality gap.
    violation : (n_windows,) array
        1 - λ(y, ..., y): what the dual objective counts.
    slope : (n_slices, n_states, n_windows) array
        ∂smoothed/∂s_ik: the probability under λ that slice i is labelled k, minus one for k = y.
    curved : (m,) index array
        Windows with more than one supporting tuple; only these bend the smoothed loss.
    support : (m, n_tuples) boolean array
        Supporting tuples of the curved windows.
    """

    loss: FloatArray
    smoothed: FloatArray
    slack: FloatArray
    violation: FloatArray
    slope: FloatArray
    curved: IntArray
    support: NDArray[np.bool_]


def smoothed_losses(scores: FloatArray, labels: IntArray, smoothing: float) -> SmoothedLoss:
    """Smooth the losses of a block of windows; see `SmoothedLoss`.

    Windows that are right by the margin and more (most of them, in a good solution) cost nothing beyond their exact
    loss: for them λ stays on the own tuple.
    """
    n_slices, n_states, n_windows = scores.shape
    lead = _leads(scores, labels)
    rivals = _largest(lead)
    loss = _loss_of_leads(rivals)
    smoothed = loss.copy()
    slack, violation = np.zeros((2, n_windows))
    slope = np.zeros(scores.shape)

    active = np.flatnonzero(rivals.max(axis=0) > -1.0 - smoothing)
    own, columns = labels[active], np.arange(len(active))
    values, own_tuple = _tuple_values(lead[:, :, active], own)
    probabilities = project_to_simplex((values - values.max(axis=0)) / smoothing)

    linear = np.einsum("ta,ta->a", probabilities, values)
    slack[active] = loss[active] - linear
    smoothed[active] = linear + 0.5 * smoothing * (1.0 - np.einsum("ta,ta->a", probabilities, probabilities))
    violation[active] = 1.0 - probabilities[own_tuple, columns]
    cube = probabilities.reshape((n_states,) * n_slices + (len(active),))
    for i in range(n_slices):
        marginal = cube.sum(axis=tuple(j for j in range(n_slices) if j != i))
        marginal[own, columns] -= 1.0
        slope[i][:, active] = marginal
    support = probabilities > 0.0
    bends = np.flatnonzero(np.count_nonzero(support, axis=0) > 1)
    return SmoothedLoss(loss, smoothed, slack, violation, slope, active[bends], support[:, bends].T)


class SmoothedLine:
    """Smoothed losses of a block of windows along a line of scores: their derivative at any point of it.

    What does not depend on the point (leads of the scores and of their change) is prepared once.
    """

    def __init__(self, scores: FloatArray, change: FloatArray, labels: IntArray, smoothing: float) -> None:
        self._labels = labels
        self._smoothing = smoothing
        self._lead = _leads(scores, labels)
        self._moves = change - change[:, labels, np.arange(len(labels))][:, None, :]

    def slopes(self, length: float) -> FloatArray:
        """Derivatives at ``scores + length * change``, (n_windows,)."""
        lead = self._lead + length * self._moves
        active = np.flatnonzero(_largest(lead).max(axis=0) > -1.0 - self._smoothing)
        values, _ = _tuple_values(lead[:, :, active], self._labels[active])
        probabilities = project_to_simplex((values - values.max(axis=0)) / self._smoothing)
        slopes = np.zeros(len(self._labels))
        slopes[active] = np.einsum("ta,ta->a", probabilities, _tuple_sums(self._moves[:, :, active]))
        return slopes


def _tuple_values(lead: FloatArray, labels: IntArray) -> tuple[FloatArray, IntArray]:
    """Values v of all label tuples, (n_tuples, n_windows), and the row of each window's own tuple."""
    n_slices, n_states, n_windows = lead.shape
    columns = np.arange(n_windows)
    lead[:, labels, columns] = 0.0
    values = _tuple_sums(lead)
    values += 1.0
    own_tuple = labels * sum(n_states**i for i in range(n_slices))
    values[own_tuple, columns] = 0.0
    return values, own_tuple


def _tuple_sums(terms: FloatArray) -> FloatArray:
    """Σ_i terms[i, k_i] for all `label_tuples`, (n_tuples, n_windows)."""
    n_slices, n_states, n_windows = terms.shape
    sums: FloatArray = terms[0]
    for i in range(1, n_slices):
        sums = (sums[:, None, :] + terms[i]).reshape(n_states ** (i + 1), n_windows)
    return sums.copy() if n_slices == 1 else sums


def _largest(lead: FloatArray) -> FloatArray:
    """Maximum over the states: long vectors one by one, faster than a reduction over a short middle axis."""
    largest = lead[:, 0].copy()
    for state in range(1, lead.shape[1]):
        np.maximum(largest, lead[:, state], out=largest)
    return largest


@lru_cache(maxsize=64)
def orthonormal_contrasts(n: int) -> FloatArray:
    """(n, n - 1) matrix whose columns are an orthonormal basis of the vectors that sum to zero (Helmert)."""
    columns = np.zeros((n, n - 1))
    for j in range(1, n):
        columns[:j, j - 1] = 1.0
        columns[j, j - 1] = -j
        columns[:, j - 1] /= np.sqrt(j * (j + 1.0))
    columns.setflags(write=False)
    return columns
