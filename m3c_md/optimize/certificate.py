"""Feasible dual points of the large-margin problem: where every lower bound comes from.

A dual point spreads each window's weight c_n over label tuples. Of it only three sums matter: the violated mass
``violation``, ``gradient`` = Σ λ_n Σ_i (e_{k_i} - e_y) φ(x_i)ᵀ and the same sum without features, which must vanish
if the rule has a bias. Its value is violation - |gradient|² / (2β), and convex combinations of dual points are dual
points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.optimize.blocks import ClassSums, PassSums


@dataclass(frozen=True)
class DualPoint:
    """The sums of a feasible dual point that its value depends on."""

    violation: float
    gradient: FloatArray

    def value(self, regularization: float) -> float:
        """Lower bound on the optimum of the large-margin problem."""
        return self.violation - float((self.gradient**2).sum()) / (2.0 * regularization)

    def improved_by(self, other: DualPoint, regularization: float) -> DualPoint:
        """Best point on the segment to ``other``; the bound never falls."""
        change = other.gradient - self.gradient
        curvature = float((change**2).sum())
        slope = regularization * (other.violation - self.violation) - float((self.gradient * change).sum())
        if slope <= 0.0:
            return self
        share = min(1.0, slope / curvature) if curvature > 0.0 else 1.0
        return DualPoint(self.violation + share * (other.violation - self.violation), self.gradient + share * change)


def constant_dual(classes: ClassSums) -> DualPoint:
    """Dual point in which every window votes for state k with the share of state k: its bias sum is zero."""
    return _mixture_of_constants(classes, classes.shares)


def feasible_dual(sums: PassSums, classes: ClassSums, *, bias: bool) -> DualPoint:
    """Make the dual point of a pass feasible.

    The marginals of a smoothed loss are a dual point but for the bias constraint, whose residual a vanishes only at
    the smoothed optimum. The κ constant points ("everybody votes for k") have residuals n_slices (e_k - shares), so
    weights q ≥ 0 with n_slices q = n_slices Q shares - a cancel it for Q = max_k a_k / (n_slices shares_k): mixing
    them in costs only O(|a|), where charging the residual with a bound on |b| would be loose.
    """
    point = DualPoint(sums.violation, sums.gradient)
    if not bias:
        return point
    residual = sums.bias_gradient / classes.n_slices
    total = max(float((residual / classes.shares).max()), 0.0)
    constants = _mixture_of_constants(classes, np.maximum(total * classes.shares - residual, 0.0))
    return DualPoint(
        (point.violation + constants.violation) / (1.0 + total),
        (point.gradient + constants.gradient) / (1.0 + total),
    )


def _mixture_of_constants(classes: ClassSums, votes: FloatArray) -> DualPoint:
    """Σ_k votes_k times the dual point in which all windows vote for k (not normalised)."""
    everything = classes.features.sum(axis=0)
    total = float(votes.sum())
    gradient = votes[:, None] * everything - total * classes.features
    return DualPoint(total - float(votes @ classes.shares), gradient)
