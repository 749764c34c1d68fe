"""Model I as a chain on a grid, in equilibrium from its first frame: for studies whose truth must be exact."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm
from scipy.spatial import cKDTree

from m3c_md.systems import MODEL_I, exact_reference

# Cells are coarser than those of the reference by default: the transition matrix is dense.
SPACING = 0.1


def drawn_cells(n_trajectories: int, n_frames: int, rng: np.random.Generator) -> tuple[Any, list[NDArray[np.intp]]]:
    """Draw trajectories from the exact transition matrix at the model's interval; the reference comes first."""
    reference = exact_reference(MODEL_I, spacing=SPACING)
    limits = np.cumsum(np.maximum(expm(MODEL_I.interval * reference.generator.toarray()), 0.0), axis=1)
    cells = np.empty((n_frames, n_trajectories), dtype=np.intp)
    cells[0] = rng.choice(len(limits), size=n_trajectories, p=reference.stationary)
    for t in range(1, n_frames):
        chances = rng.random(n_trajectories) * limits[cells[t - 1], -1]
        cells[t] = [np.searchsorted(limits[cell], chance) for cell, chance in zip(cells[t - 1], chances, strict=True)]
    return reference, list(np.ascontiguousarray(cells.T))


def exact_states(trajs: list[Any]) -> list[NDArray[np.intp]]:
    """States of frames of Model I in its most metastable partition: those of the nearest cells of the reference."""
    reference = exact_reference(MODEL_I)
    partition, tree = reference.best_partition(3, MODEL_I.interval), cKDTree(reference.points)
    return [partition[tree.query(x)[1]] for x in trajs]
