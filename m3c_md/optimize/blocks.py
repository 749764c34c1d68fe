"""Data as blocks of windows, and everything a solver asks of them: sums over blocks for a given rule.

A block may come from memory, from a re-read chunk or from a remote worker; only small arrays leave it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from m3c_md.exceptions import InputError
from m3c_md.optimize.kernels import compiled
from m3c_md.optimize.window_loss import (
    SmoothedLine,
    label_costs,
    label_tuples,
    orthonormal_contrasts,
    smoothed_losses,
)

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

# Rows that may enter the Hessian of a whole pass: beyond this, more rows cost more than the better step saves. But with
# fewer windows for each unknown than this, steps are ten times too long, and hundreds of passes may not be enough; and
# the rows must fit into memory (a quarter of a gigabyte).
MAX_HESSIAN_ROWS = 3000
WINDOWS_PER_UNKNOWN = 2
MAX_HESSIAN_ENTRIES = 3 * 10**7


@dataclass(frozen=True)
class WindowBlock:
    """Features of some frames, the windows over them, and the windows' weights.

    Attributes
    ----------
    features : (n_frames, n_features) array
        In single precision, some sums over the block are too; sums over blocks are always in double precision.
    windows : (n_slices, n_windows) array
        Row numbers in ``features``.
    weights : (n_windows,) array
        c_n; over all blocks of a problem they sum to one.
    """

    features: NDArray[np.floating]
    windows: IntArray
    weights: FloatArray


class RepeatedBlocks(Protocol):
    """Anything that can be iterated again and again and yields the same blocks each time."""

    def __iter__(self) -> Iterator[WindowBlock]: ...


Blocks = RepeatedBlocks | list[WindowBlock]


@dataclass(frozen=True)
class Rule:
    """A decision rule: state = argmax_k (w_k · φ(x) + b_k)."""

    weights: FloatArray
    bias: FloatArray

    def scores(self, features: NDArray[np.floating]) -> FloatArray:
        """Decision function of every frame, (n_states, n_frames)."""
        # In this order and copied, the long and thin product takes half the time.
        values = np.asarray((features @ self.weights.T.astype(features.dtype)).T, dtype=np.float64, order="C")
        values += self.bias[:, None]
        return values

    def window_scores(self, block: WindowBlock) -> FloatArray:
        """Decision function on the slices of every window, (n_slices, n_states, n_windows)."""
        return slice_scores(self.scores(block.features), block.windows)

    def moved(self, direction: Rule, length: float) -> Rule:
        """Return the rule at ``self + length * direction``."""
        return Rule(self.weights + length * direction.weights, self.bias + length * direction.bias)


@dataclass(frozen=True)
class ClassSums:
    """Σ c_n over the windows of each state, and Σ c_n Σ_i φ(x_i) likewise: all that the trivial dual points need."""

    shares: FloatArray
    features: FloatArray
    n_slices: int


@dataclass(frozen=True)
class PassSums:
    """What one pass over the data at a given rule returns (losses and gradients without the regulariser).

    Attributes
    ----------
    loss, smoothed, slack, violation : float
        Σ c_n of the fields of `SmoothedLoss`.
    gradient : (n_states, n_features) array
        Σ c_n Σ_i (marginal_i - onehot(y)) φ(x_i)ᵀ: derivative of ``smoothed`` with respect to W.
    bias_gradient : (n_states,) array
    kinks : tuple of (windows, supporting tuples)
        The curved windows of every block, for `curvature`.
    """

    loss: float
    smoothed: float
    slack: float
    violation: float
    gradient: FloatArray
    bias_gradient: FloatArray
    kinks: tuple[tuple[IntArray, NDArray[np.bool_]], ...]

    @property
    def n_curved(self) -> tuple[int, int]:
        """Numbers of curved windows and of their supporting tuples."""
        n_members = sum(int(np.count_nonzero(support)) for _, support in self.kinks)
        return sum(len(support) for _, support in self.kinks), n_members


def class_sums(blocks: Blocks, labels: IntArray, n_states: int) -> ClassSums:
    """Sum weights and features over the windows of each state."""
    shares = np.zeros(n_states)
    features: FloatArray | None = None
    n_slices = 0
    for block, own in _with_labels(blocks, labels):
        n_slices = len(block.windows)
        shares += np.bincount(own, weights=block.weights, minlength=n_states)
        part = times_features(frame_votes(block, own, n_states), block)
        features = part if features is None else features + part
    if features is None:
        raise InputError("no blocks: the problem has no data")
    if not abs(shares.sum() - 1.0) <= 1e-6:  # or not a number
        raise InputError(f"the weights of all blocks sum to {shares.sum():.6g}; normalise them to sum to one")
    return ClassSums(shares, features, n_slices)


def distinct_frames(windows: IntArray) -> tuple[IntArray, IntArray]:
    """Frames that occur in some windows, and the windows renumbered to those frames.

    Examples
    --------
    >>> [x.tolist() for x in distinct_frames(np.array([[3, 7], [7, 9]]))]
    [[3, 7, 9], [[0, 1], [1, 2]]]
    """
    frames, renumbered = np.unique(windows, return_inverse=True)
    return frames, renumbered.reshape(windows.shape).astype(np.intp)


def thinned(blocks: Blocks, labels: IntArray, stride: int) -> tuple[list[WindowBlock], IntArray]:
    """Every ``stride``-th window of each block as a problem of its own, with its labels."""
    sample, chosen = [], []
    for block, own in _with_labels(blocks, labels):
        frames, windows = distinct_frames(block.windows[:, ::stride])
        sample.append(WindowBlock(block.features[frames], windows, block.weights[::stride]))
        chosen.append(own[::stride])
    total = sum(float(block.weights.sum()) for block in sample) or 1.0  # nothing to normalise: all weights are zero
    return [replace(block, weights=block.weights / total) for block in sample], np.concatenate(chosen)


def slice_scores(scores: FloatArray, windows: IntArray) -> FloatArray:
    """Spread scores of frames (n_states, n_frames) to windows, (n_slices, n_states, n_windows)."""
    return np.stack([scores[:, frames] for frames in windows])


def frame_scores(blocks: Blocks, rule: Rule) -> list[FloatArray]:
    """Scores of the frames of every block under ``rule`` (or under a direction of change of a rule)."""
    return [rule.scores(block.features) for block in blocks]


def pass_sums(
    blocks: Blocks, labels: IntArray, rule: Rule, smoothing: float, scores: list[FloatArray] | None = None
) -> PassSums:
    """Evaluate losses and gradient of the smoothed empirical risk at ``rule``, whose ``scores`` may be known."""
    known = frame_scores(blocks, rule) if scores is None else scores
    parts = [
        block_sums(block, own, values, smoothing)
        for (block, own), values in zip(_with_labels(blocks, labels), known, strict=True)
    ]
    return PassSums(
        loss=sum(part.loss for part in parts),
        smoothed=sum(part.smoothed for part in parts),
        slack=sum(part.slack for part in parts),
        violation=sum(part.violation for part in parts),
        gradient=np.sum([part.gradient for part in parts], axis=0),
        bias_gradient=np.sum([part.bias_gradient for part in parts], axis=0),
        kinks=tuple(kink for part in parts for kink in part.kinks),
    )


def frame_votes(block: WindowBlock, labels: IntArray, n_states: int) -> FloatArray:
    """Add up per frame the weights of the windows of each label that it belongs to, (n_states, n_frames)."""
    loops = compiled()
    if loops is not None:
        totals = np.zeros((n_states, len(block.features)))
        loops.frame_sum_loop(block.windows, block.weights, labels, totals)
        return totals
    onehot = np.zeros((n_states, len(labels)))
    onehot[labels, np.arange(len(labels))] = block.weights
    return _frame_sums(block, np.broadcast_to(onehot, (len(block.windows), *onehot.shape)))


class RiskAlongLine:
    """Derivative of the smoothed risk along ``scores + length * change``, from scores alone: no feature is touched."""

    def __init__(
        self,
        blocks: Blocks,
        labels: IntArray,
        scores: list[FloatArray],
        change: list[FloatArray],
        smoothing: float,
    ) -> None:
        self._parts: list[Callable[[float], float]] = [
            _slope_along(block, own, values, moves, smoothing)
            for (block, own), values, moves in zip(_with_labels(blocks, labels), scores, change, strict=True)
        ]

    def slope(self, length: float) -> float:
        """Derivative at ``length``."""
        return sum(part(length) for part in self._parts)


def _slope_along(
    block: WindowBlock, labels: IntArray, scores: FloatArray, change: FloatArray, smoothing: float
) -> Callable[[float], float]:
    """Derivative of the risk of one block as a function of the length."""
    windows, weights = block.windows, block.weights
    if compiled() is not None:
        return _CompiledSlope(block, labels, scores, change, smoothing)
    line = SmoothedLine(slice_scores(scores, windows), slice_scores(change, windows), labels, smoothing)
    return lambda length: float(weights @ line.slopes(length))


class _CompiledSlope:
    """Derivative of the risk of one block; windows beyond the margin wherever the search has gone are left out."""

    def __init__(
        self, block: WindowBlock, labels: IntArray, scores: FloatArray, change: FloatArray, smoothing: float
    ) -> None:
        self._block, self._labels, self._smoothing = block, labels, smoothing
        self._scores, self._change = scores, change
        self._loops: Any = compiled()
        self._reach = -1.0
        self._active = np.empty(block.windows.shape[1], dtype=np.intp)
        self._n_active = 0

    def __call__(self, length: float) -> float:
        block, labels, smoothing = self._block, self._labels, self._smoothing
        if length > self._reach:
            self._reach = length
            self._n_active = self._loops.active_loop(
                self._scores, self._change, length, block.windows, labels, smoothing, self._active
            )
        active = self._active[: self._n_active]
        return float(
            self._loops.slope_loop(
                self._scores, self._change, length, block.windows, block.weights, labels, smoothing, active
            )
        )


def all_label_costs(blocks: Blocks, rule: Rule) -> FloatArray:
    """c_n H_nk for all windows and labels, (n_windows, n_states): the costs of the label step."""
    return np.concatenate(
        [block.weights[:, None] * block_label_costs(block, rule.scores(block.features)) for block in blocks]
    )


def block_label_costs(block: WindowBlock, scores: FloatArray) -> FloatArray:
    """Loss of the windows of a block for every label, (n_windows, n_states), from the scores of its frames."""
    loops = compiled()
    if loops is None:
        return label_costs(slice_scores(scores, block.windows)).T
    costs = np.empty((block.windows.shape[1], len(scores)))
    loops.cost_loop(scores, block.windows, costs)
    return costs


def _with_labels(blocks: Blocks, labels: IntArray) -> Iterator[tuple[WindowBlock, IntArray]]:
    """Yield every block with its share of the labels, checking that the two have the same length."""
    done = 0
    for block in blocks:
        n_windows = block.windows.shape[1]
        own = labels[done : done + n_windows]
        done += n_windows
        if done > len(labels):
            break
        yield block, own
    if done != len(labels):
        raise InputError(f"{len(labels)} labels for blocks with {done} or more windows; give one label per window")


def block_sums(block: WindowBlock, labels: IntArray, scores: FloatArray, smoothing: float) -> PassSums:
    """Sum the smoothed losses of one block, and their derivatives, from the scores of its frames."""
    loops = compiled()
    if loops is not None:
        n_slices, n_windows = block.windows.shape
        slopes = np.zeros(scores.shape)
        curved = np.empty(n_windows, dtype=np.intp)
        support = np.empty((n_windows, len(scores) ** n_slices), dtype=np.bool_)
        loss, smoothed, slack, violation, n_curved = loops.pass_loop(
            scores, block.windows, block.weights, labels, smoothing, slopes, curved, support
        )
        kinks = (curved[:n_curved], support[:n_curved])
        return PassSums(loss, smoothed, slack, violation, times_features(slopes, block), slopes.sum(axis=1), (kinks,))
    losses = smoothed_losses(slice_scores(scores, block.windows), labels, smoothing)
    per_frame = _frame_sums(block, losses.slope * block.weights)
    return PassSums(
        float(block.weights @ losses.loss),
        float(block.weights @ losses.smoothed),
        float(block.weights @ losses.slack),
        float(block.weights @ losses.violation),
        times_features(per_frame, block),
        per_frame.sum(axis=1),
        ((losses.curved, losses.support),),
    )


def times_features(per_frame: FloatArray, block: WindowBlock) -> FloatArray:
    """Sum the features of the frames with coefficients (n_states, n_frames)."""
    loops = compiled()
    if loops is not None:
        sums = np.zeros((len(per_frame), block.features.shape[1]))
        loops.product_loop(per_frame, block.features, sums)
        return sums
    product = per_frame.astype(block.features.dtype, copy=False) @ block.features
    return np.asarray(product, dtype=np.float64)


def _frame_sums(block: WindowBlock, coefficients: FloatArray) -> FloatArray:
    """Add (n_slices, n_states, n_windows) coefficients up per frame: scores belong to frames, not to windows."""
    n_frames = len(block.features)
    totals = np.zeros((coefficients.shape[1], n_frames))
    for frames, part in zip(block.windows, coefficients, strict=True):
        for state, column in enumerate(part):
            totals[state] += np.bincount(frames, weights=column, minlength=n_frames)
    return totals


def curvature(blocks: Blocks, sums: PassSums, n_states: int, smoothing: float) -> FloatArray:
    """Generalised Hessian of the smoothed risk in contrast coordinates, (p, p), p = (n_states - 1)(n_features + 1).

    Σ c_n J_nᵀ (I_S - 11ᵀ/|S|) J_n / μ over windows with supporting tuples S. It touches only the curved windows, and
    only some of them, equally spaced, where they are many: Newton's method does not need more.
    """
    n_windows, n_members = sums.n_curved
    stride = hessian_stride(n_windows, n_members, n_states * sums.gradient.shape[1])
    total: FloatArray | None = None
    for block, (windows, support) in zip(blocks, sums.kinks, strict=True):
        rows = _curvature_rows(
            block, np.ascontiguousarray(windows[::stride]), np.ascontiguousarray(support[::stride]), n_states
        )
        part = np.asarray(rows.T @ rows, dtype=np.float64)
        total = part if total is None else total + part
    if total is None:
        raise InputError("no blocks: the problem has no data")
    total *= stride / smoothing
    return total


def hessian_stride(n_windows: int, n_members: int, n_unknowns: int) -> int:
    """Distance between the curved windows, with so many supporting tuples, that stand for all in the Hessian.

    Examples
    --------
    >>> hessian_stride(10_000, 20_000, 100), hessian_stride(4000, 8000, 2000), hessian_stride(40_000, 80_000, 10_000)
    (4, 1, 14)
    """
    n_rows = n_members - n_windows
    stride = min(-(-n_rows // MAX_HESSIAN_ROWS), n_windows // (WINDOWS_PER_UNKNOWN * n_unknowns))
    return max(1, stride, -(-n_rows * n_unknowns // MAX_HESSIAN_ENTRIES))


def _curvature_rows(
    block: WindowBlock, windows: IntArray, support: NDArray[np.bool_], n_states: int
) -> NDArray[np.floating]:
    """Matrix A with AᵀA = Σ c_n J_nᵀ (I_S - 11ᵀ/|S|) J_n.

    Windows are grouped by |S|; an orthonormal basis of the contrasts among |S| tuples turns each window into |S| - 1
    rows.
    """
    n_slices, n_features, n_contrasts = len(block.windows), block.features.shape[1], n_states - 1
    loops = compiled()
    if loops is not None:
        rows = np.zeros((int(support.sum()) - len(support), n_contrasts, n_features + 1), block.features.dtype)
        basis = orthonormal_contrasts(n_states)
        loops.curvature_loop(block.features, block.windows, block.weights, windows, support, basis, rows)
        return rows.reshape(len(rows), n_contrasts * (n_features + 1))
    coordinates = orthonormal_contrasts(n_states)[label_tuples(n_slices, n_states)]
    sizes = support.sum(axis=1)
    matrix = np.zeros((int((sizes - 1).sum()), n_contrasts, n_features + 1))
    done = 0
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        tuples = np.nonzero(support[chosen])[1].reshape(-1, size)
        factors = np.einsum("wtip,tr->iwrp", coordinates[tuples], orthonormal_contrasts(int(size)))
        factors *= np.sqrt(block.weights[windows[chosen]])[None, :, None, None]
        n_rows = len(chosen) * (size - 1)
        rows = matrix[done : done + n_rows].reshape(len(chosen), size - 1, n_contrasts, n_features + 1)
        for i in range(n_slices):
            features = block.features[block.windows[i, windows[chosen]]]
            rows[..., :n_features] += factors[i][..., None] * features[:, None, None, :]
            rows[..., n_features] += factors[i]
        done += n_rows
    return matrix.reshape(len(matrix), n_contrasts * (n_features + 1))
