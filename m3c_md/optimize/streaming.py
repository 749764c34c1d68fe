"""One look at all the data, block by block: everything that a rule's next improvement and its certificate need.

Labels are not stored: a window has the label that is cheapest under the rule at hand, so that a block needs to be told
nothing but the rule, and returns nothing but sums of the size of a rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.optimize.blocks import (
    ClassSums,
    PassSums,
    Rule,
    WindowBlock,
    block_label_costs,
    block_sums,
    frame_votes,
    times_features,
)
from m3c_md.optimize.certificate import constant_dual, feasible_dual


@dataclass(frozen=True)
class StreamSums:
    """Sums over the windows of a block or of all data, each window with its cheapest label under a rule.

    Attributes
    ----------
    loss, smoothed, slack, violation : float
        As in `PassSums`.
    gradient, bias_gradient : arrays
        As in `PassSums`.
    shares, features : (n_states,) and (n_states, n_features) arrays
        As in `ClassSums`.
    class_loss : (n_states,) array
        Weighted loss of the windows of each label.
    n_labels : (n_states,) array
        Number of windows of each label.
    n_frames : (n_states,) array
        Number of frames that the rule gives to each state.
    transitions : (n_states, n_states) array
        Weighted number of windows whose first and last slice the rule gives to two states.
    """

    loss: float
    smoothed: float
    slack: float
    violation: float
    gradient: FloatArray
    bias_gradient: FloatArray
    shares: FloatArray
    features: FloatArray
    class_loss: FloatArray
    n_labels: FloatArray
    n_frames: FloatArray
    transitions: FloatArray

    def pass_sums(self) -> PassSums:
        """Return the part that belongs to the smoothed risk."""
        return PassSums(
            self.loss, self.smoothed, self.slack, self.violation, self.gradient, self.bias_gradient, kinks=()
        )

    def lower_bound(self, n_slices: int, regularization: float, *, bias: bool) -> float:
        """Value of the best dual point at hand for the labels of this look; no rule does better for them."""
        classes = ClassSums(self.shares, self.features, n_slices)
        if not (self.shares > 0.0).all():
            return -np.inf
        dual = constant_dual(classes).improved_by(feasible_dual(self.pass_sums(), classes, bias=bias), regularization)
        return dual.value(regularization)


def look_at_block(
    block: WindowBlock, own: NDArray[np.bool_], rule: Rule, smoothing: float, prices: FloatArray
) -> StreamSums:
    """Compute the sums of one block.

    Parameters
    ----------
    block : WindowBlock
    own : (n_frames,) bool array
        Frames that are counted in this block.
    rule : Rule
    smoothing : float
    prices : (n_states,) array
        Added to the weighted cost of a label before the cheapest is taken: what balance costs, see `label_prices`.
    """
    n_states = len(rule.bias)
    scores = rule.scores(block.features)
    costs = block_label_costs(block, scores)
    labels = (block.weights[:, None] * costs + prices).argmin(axis=1)
    sums = block_sums(block, labels, scores, smoothing)
    states = scores.argmax(axis=0)
    first, last = states[block.windows[0]], states[block.windows[-1]]
    moves = _sums(first * n_states + last, block.weights, n_states**2)
    chosen = costs[np.arange(len(labels)), labels]
    return StreamSums(
        sums.loss,
        sums.smoothed,
        sums.slack,
        sums.violation,
        sums.gradient,
        sums.bias_gradient,
        shares=_sums(labels, block.weights, n_states),
        features=times_features(frame_votes(block, labels, n_states), block),
        class_loss=_sums(labels, block.weights * chosen, n_states),
        n_labels=np.bincount(labels, minlength=n_states).astype(np.float64),
        n_frames=np.bincount(states[own], minlength=n_states).astype(np.float64),
        transitions=moves.reshape(n_states, n_states),
    )


def _sums(places: IntArray, values: FloatArray, n: int) -> FloatArray:
    """Sum values by place."""
    return np.asarray(np.bincount(places, weights=values, minlength=n), dtype=np.float64)


def add_up(parts: Iterable[StreamSums]) -> StreamSums:
    """Add the sums of all blocks, in their order: the same blocks give the same bits."""
    total: dict[str, FloatArray] = {}
    for part in parts:
        for field in fields(part):
            value = np.asarray(getattr(part, field.name))
            total[field.name] = value if field.name not in total else total[field.name] + value
    scalars = ("loss", "smoothed", "slack", "violation")
    return StreamSums(**{name: float(value) if name in scalars else value for name, value in total.items()})  # type: ignore[arg-type]
