"""Scores: what a search minimises, from the losses of windows class by class."""

from __future__ import annotations

from typing import Literal

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.frames.windows import FeatureBlocks
from m3c_md.optimize.blocks import Rule, slice_scores
from m3c_md.optimize.window_loss import window_losses
from m3c_md.search.local_search import LocalOptimum, SearchSettings

Selection = Literal["objective", "class-averaged"]

# Consecutive parts of the data whose losses count as independent: those of windows that follow each other are not.
N_LOSS_PARTS = 20


def states_and_losses(blocks: FeatureBlocks, rule: Rule, labels: IntArray) -> tuple[IntArray, FloatArray]:
    """State of every slice of every window under a rule, (n_slices, n_windows), and loss of every window."""
    states, losses, done = [], np.empty(len(labels)), 0
    for block in blocks:
        part = slice(done, done + block.windows.shape[1])
        scores = rule.scores(block.features)
        states.append(scores.argmax(axis=0)[block.windows])
        losses[part] = window_losses(slice_scores(scores, block.windows), labels[part])
        done = part.stop
    return np.concatenate(states, axis=1), losses


def score(
    losses: FloatArray, weights: FloatArray, optimum: LocalOptimum, settings: SearchSettings, selection: Selection
) -> float:
    """Return what the selection minimises, from the losses and the weights of the windows.

    "objective" is the objective of the problem (the paper's choice). "class-averaged" replaces the mean loss by the
    mean of the classes' mean losses: Σ_k (mean loss in class k) / κ + β/2 |W|². A class of few windows then cannot
    hide its loss behind its size.
    """
    if selection == "objective":
        return optimum.objective
    labels, n_states = optimum.labels, settings.n_states
    loss, mass = (
        np.bincount(labels, weights=w, minlength=n_states).astype(np.float64) for w in (weights * losses, weights)
    )
    return class_averaged(loss, mass) + settings.penalty(optimum.rule)


def part_losses(losses: FloatArray, weights: FloatArray, labels: IntArray) -> tuple[float, ...]:
    """What consecutive parts of the windows add to their class-averaged loss, which is the sum."""
    shares = window_shares(weights * losses, labels, weights)
    return tuple(float(part.sum()) for part in np.array_split(shares, N_LOSS_PARTS))


def window_shares(costs: FloatArray, labels: IntArray, weights: FloatArray) -> FloatArray:
    """What each window adds to the mean over the classes of their mean losses; ``costs`` are weighted losses.

    Examples
    --------
    >>> window_shares(np.array([0.2, 0.1, 0.1]), np.array([0, 1, 1]), np.array([0.5, 0.25, 0.25])).tolist()
    [0.2, 0.1, 0.1]
    """
    mass = np.bincount(labels, weights=weights)
    # A class without weight has no costs either.
    return np.asarray(costs / np.where(mass > 0.0, mass, 1.0)[labels] / np.count_nonzero(mass))


def class_averaged(loss: FloatArray, mass: FloatArray) -> float:
    """Mean over the classes of their mean losses; infinite if a class has no windows."""
    return float((loss / mass).mean()) if (mass > 0.0).all() else np.inf
