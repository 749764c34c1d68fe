"""Fewer features for trials: the directions in which the features of a sample hardly vary are left out.

The features of one or two columns, or of a wide bandwidth, lie close to a space of few dimensions. A rule whose weights
lie in that space has the same norm and nearly the same scores there, at a part of the cost: a Newton step costs the
cube of the number of features. What is left out would change an optimum a little, so this is for trials; certificates
are computed with all features.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.optimize.blocks import Blocks, Rule

# Mean square of the features, whose sum is one, that may be left out: weights of norm 10 then miss 0.01 of a score.
LEFT_OUT = 1e-6
# Share of the features that must be superfluous before the change of coordinates pays.
WORTH_IT = 0.3


def principal_directions(blocks: Blocks) -> FloatArray | None:
    """Return orthonormal directions (n_features, n_kept) that hold nearly all of the features; None if most of them do.

    Examples
    --------
    >>> from m3c_md.optimize.blocks import WindowBlock
    >>> x = np.array([[0.6, 0.8, 0.0], [-0.6, -0.8, 0.0], [0.3, 0.4, 0.0]])
    >>> block = WindowBlock(x, np.arange(3)[None], np.full(3, 1 / 3))
    >>> abs(principal_directions([block])).round(3).tolist()
    [[0.6], [0.8], [0.0]]
    """
    moments = sum(np.asarray(block.features.T @ block.features, dtype=np.float64) for block in blocks)
    try:
        values, vectors = np.linalg.eigh(np.atleast_2d(moments))
    except (np.linalg.LinAlgError, ArithmeticError, ValueError):  # a saving that cannot be had is no failure
        return None
    n_left_out = int(np.count_nonzero(np.cumsum(np.maximum(values, 0.0)) <= LEFT_OUT * np.trace(moments)))
    return None if n_left_out < WORTH_IT * len(values) else np.ascontiguousarray(vectors[:, n_left_out:])


def compressed(blocks: Blocks, directions: FloatArray) -> Blocks:
    """Return the same windows with the features along some directions alone."""
    return [replace(b, features=b.features @ directions.astype(b.features.dtype)) for b in blocks]


def compressed_rule(rule: Rule, directions: FloatArray) -> Rule:
    """Return a rule for features along some directions; what lies across them is lost."""
    return Rule(rule.weights @ directions, rule.bias)


def expanded_rule(rule: Rule, directions: FloatArray) -> Rule:
    """Return the rule for all features that a rule for some directions stands for."""
    return Rule(rule.weights @ directions.T, rule.bias)
