"""Data as blocks of windows, and everything a solver asks of them: sums over blocks for a given rule.

A block may come from memory, from a re-read chunk or from a remote worker; only small arrays leave it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.exceptions import InputError
from m3c_md.optimize.kernels import compiled
from m3c_md.optimize.window_loss import (
    label_costs,
    smoothed_losses,
)


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
    for block, own in with_labels(blocks, labels):
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
    for block, own in with_labels(blocks, labels):
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
        for (block, own), values in zip(with_labels(blocks, labels), known, strict=True)
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


def with_labels(blocks: Blocks, labels: IntArray) -> Iterator[tuple[WindowBlock, IntArray]]:
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
