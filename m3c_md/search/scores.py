"""Scores: what a search minimises, from the losses of windows class by class."""

from __future__ import annotations

from typing import Literal

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.frames.windows import FeatureBlocks
from m3c_md.optimize.blocks import Rule
from m3c_md.optimize.window_loss import window_losses
from m3c_md.search.local_search import LocalOptimum, SearchSettings

Selection = Literal["objective", "class-averaged"]


def class_losses(blocks: FeatureBlocks, rule: Rule, labels: IntArray, n_states: int) -> tuple[FloatArray, FloatArray]:
    """Weighted losses and weights of the windows, summed over each class."""
    loss, mass, done = np.zeros(n_states), np.zeros(n_states), 0
    for block in blocks:
        own = labels[done : done + block.windows.shape[1]]
        done += len(own)
        losses = window_losses(rule.window_scores(block), own)
        loss += np.bincount(own, weights=block.weights * losses, minlength=n_states)
        mass += np.bincount(own, weights=block.weights, minlength=n_states)
    return loss, mass


def score(blocks: FeatureBlocks, optimum: LocalOptimum, settings: SearchSettings, selection: Selection) -> float:
    """Return what the selection minimises.

    "objective" is the objective of the problem (the paper's choice). "class-averaged" replaces the mean loss by the
    mean of the classes' mean losses: Σ_k (mean loss in class k) / κ + β/2 |W|². A class of few windows then cannot
    hide its loss behind its size.
    """
    if selection == "objective":
        return optimum.objective
    loss, mass = class_losses(blocks, optimum.rule, optimum.labels, settings.n_states)
    return class_averaged(loss, mass) + settings.penalty(optimum.rule)


def window_shares(costs: FloatArray, labels: IntArray, weights: FloatArray) -> FloatArray:
    """What each window adds to the mean over the classes of their mean losses; ``costs`` are weighted losses.

    Examples
    --------
    >>> window_shares(np.array([0.2, 0.1, 0.1]), np.array([0, 1, 1]), np.array([0.5, 0.25, 0.25])).tolist()
    [0.2, 0.1, 0.1]
    """
    mass = np.bincount(labels, weights=weights)
    return np.asarray(costs / mass[labels] / np.count_nonzero(mass))


def class_averaged(loss: FloatArray, mass: FloatArray) -> float:
    """Mean over the classes of their mean losses; infinite if a class has no windows."""
    return float((loss / mass).mean()) if (mass > 0.0).all() else np.inf
