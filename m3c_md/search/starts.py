"""Start labels for the local search, from kinetics, geometry, the SDP relaxation, chance or the user.

Every function returns one state per window; the local search then needs no more than that every state occurs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from m3c_md.search.coarse_graining import k_means
from m3c_md.search.microstates import Microstates
from m3c_md.search.windows import FeatureBlocks

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


def kinetic_start(blocks: FeatureBlocks, n_states: int, rng: np.random.Generator) -> IntArray:
    """Slow coordinates (reversible TICA) in the feature space itself, then k-means on the κ-1 slowest.

    The coordinates are linear in the features of the rule to be found, so a separation that they show is one that a
    rule can express.
    """
    instantaneous, lagged, mean = _covariances(blocks)
    values, vectors = eigh(instantaneous)
    keep = values > 1e-6 * values[-1]
    whitening = vectors[:, keep] / np.sqrt(values[keep])
    slow = eigh(whitening.T @ lagged @ whitening)[1][:, ::-1][:, : n_states - 1]
    projection = whitening @ slow
    first = np.concatenate([(b.features[b.windows[0]] - mean) @ projection for b in blocks])
    return k_means(first, n_states, rng, n_restarts=3).labels


def _covariances(blocks: FeatureBlocks) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weighted reversible covariance and time-lagged covariance of the features, and their mean."""
    mean = sum(0.5 * (b.weights @ (b.features[b.windows[0]] + b.features[b.windows[-1]])) for b in blocks)
    n = len(mean)
    instantaneous, lagged = np.zeros((n, n)), np.zeros((n, n))
    for b in blocks:
        x, y = b.features[b.windows[0]] - mean, b.features[b.windows[-1]] - mean
        wx = x * b.weights[:, None]
        instantaneous += 0.5 * (wx.T @ x + (y * b.weights[:, None]).T @ y)
        cross = wx.T @ y
        lagged += 0.5 * (cross + cross.T)
    return instantaneous, lagged, mean


def lump_by_metastability(counts: FloatArray, labels: IntArray, n_states: int) -> IntArray:
    """Raise Q = Σ_k C_kk / C_k over micro states by single flips, steepest first, until none helps.

    Parameters
    ----------
    counts : (n, n) array
        Transition counts; symmetrised here, so that Q is that of the reversible chain.
    labels : (n,) array
        Start; every state must occur, and none is ever emptied.
    """
    labels = labels.copy()
    symmetric = 0.5 * (counts + counts.T)
    visits = symmetric.sum(axis=1)
    own = np.diag(symmetric)
    onehot = np.eye(n_states)[labels]
    to_state = symmetric @ onehot
    mass = visits @ onehot
    inner = np.einsum("ik,ik->k", onehot, to_state)
    members = onehot.sum(axis=0)
    everyone = np.arange(len(labels))
    while True:
        # Q after moving cell i from its state to state k touches only those two terms.
        own_term = inner / mass
        leave_mass = mass[labels] - visits
        leave = (inner[labels] - 2.0 * to_state[everyone, labels] + own) / np.where(leave_mass > 0, leave_mass, 1.0)
        join = (inner + 2.0 * to_state + own[:, None]) / (mass + visits[:, None])
        gain = (leave - own_term[labels])[:, None] + join - own_term
        gain[everyone, labels] = -np.inf
        gain[(members[labels] <= 1) | (leave_mass <= 0) | (visits == 0)] = -np.inf
        cell, target = np.unravel_index(np.argmax(gain), gain.shape)
        if not gain[cell, target] > 1e-12:
            return labels
        source = labels[cell]
        inner[source] += own[cell] - 2.0 * to_state[cell, source]
        inner[target] += own[cell] + 2.0 * to_state[cell, target]
        mass[source] -= visits[cell]
        mass[target] += visits[cell]
        members[source] -= 1
        members[target] += 1
        to_state[:, source] -= symmetric[:, cell]
        to_state[:, target] += symmetric[:, cell]
        labels[cell] = target
