"""Chains with known transition matrices, shared by the tests of this room."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Eigenvalues 0.976 and 0.954, timescales 41.5 and 21.2 frames; no direct way between states 0 and 2.
THREE_STATES = np.array([[0.98, 0.02, 0.0], [0.01, 0.98, 0.01], [0.0, 0.03, 0.97]])
# Lumped to {0, 1} and {2, 3} not Markovian: the two barrier states recross quickly.
BARRIER = np.array([[0.985, 0.015, 0.0, 0.0], [0.3, 0.4, 0.3, 0.0], [0.0, 0.3, 0.4, 0.3], [0.0, 0.0, 0.015, 0.985]])


def stationary(matrix: ArrayLike) -> NDArray[np.float64]:
    """Stationary distribution of a connected transition matrix."""
    p = np.asarray(matrix, dtype=float)
    equations = np.vstack([p.T - np.eye(len(p)), np.ones(len(p))])
    solution: NDArray[np.float64] = np.linalg.lstsq(equations, np.append(np.zeros(len(p)), 1.0), rcond=None)[0]
    return solution


def markov_chain(matrix: ArrayLike, n_frames: int, seed: int) -> NDArray[np.intp]:
    """A chain that starts in equilibrium."""
    rng = np.random.default_rng(seed)
    limits = np.cumsum(np.vstack([matrix, stationary(matrix)]), axis=1)[:, :-1].tolist()
    chain, state = [], -1  # the last row draws the start
    for uniform in rng.random(n_frames).tolist():
        state = bisect(limits[state], uniform)
        chain.append(state)
    return np.array(chain, dtype=np.intp)


def lumped(matrix: ArrayLike, states: Sequence[int], lagtime: int) -> NDArray[np.float64]:
    """Transition matrix that the lumped chain has at a lag time, with infinitely many data."""
    membership = np.eye(max(states) + 1)[list(states)]
    flows = membership.T @ np.diag(stationary(matrix)) @ np.linalg.matrix_power(np.asarray(matrix), lagtime)
    flows = flows @ membership
    result: NDArray[np.float64] = flows / flows.sum(axis=1, keepdims=True)
    return result


def slowest(matrix: NDArray[Any], lagtime: int) -> float:
    """Largest implied timescale of a transition matrix."""
    return float(-lagtime / np.log(np.sort(np.linalg.eigvals(matrix).real)[-2]))


def pairs_with_counts(counts: ArrayLike) -> list[NDArray[np.intp]]:
    """Trajectories of two frames each that have exactly these counts at lag time 1."""
    table = np.asarray(counts, dtype=np.intp)
    return [np.array([i, j]) for i, j in np.argwhere(table > 0) for _ in range(table[i, j])]
