"""The smoothed risk along a line of rules: its slope costs no product with features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.optimize.blocks import Blocks, WindowBlock, slice_scores, with_labels
from m3c_md.optimize.kernels import compiled
from m3c_md.optimize.window_loss import (
    SmoothedLine,
)


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
            for (block, own), values, moves in zip(with_labels(blocks, labels), scores, change, strict=True)
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
