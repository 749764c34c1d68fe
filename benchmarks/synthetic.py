"""Synthetic metastable dihedral series: hidden Markov switching between states, von Mises noise around their angles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def dihedral_series(
    n_frames: int,
    n_angles: int,
    seed: int = 0,
    *,
    n_states: int = 3,
    dwell: float = 100.0,
    concentration: float = 6.0,
    draw: int = 0,
    dtype: type[np.floating] = np.float64,
) -> tuple[NDArray[np.floating], NDArray[np.intp]]:
    """Sines and cosines of the angles, (n_frames, 2 n_angles), and the hidden state of every frame.

    States are left after ``dwell`` frames in the mean, for any other with the same probability. Their angles are chosen
    far apart, the best of some random draws; ``concentration`` is that of the noise. Another ``draw`` is another
    trajectory of the same system.
    """
    rng = np.random.default_rng([seed, n_angles, n_states])
    draws = rng.uniform(-np.pi, np.pi, size=(200, n_states, n_angles))
    apart = np.cos(draws[:, :, None] - draws[:, None]).mean(axis=-1)
    apart[:, np.arange(n_states), np.arange(n_states)] = -1.0
    centres = draws[apart.max(axis=(1, 2)).argmin()]
    rng = np.random.default_rng([seed, n_angles, n_states, draw])
    jumps = np.where(rng.random(n_frames) < 1.0 / dwell, rng.integers(1, n_states, size=n_frames), 0)
    states = np.cumsum(jumps) % n_states
    features = np.empty((n_frames, 2 * n_angles), dtype=dtype)
    for angle in range(n_angles):  # column by column: the frames may be many
        values = centres[states, angle] + rng.vonmises(0.0, concentration, size=n_frames)
        features[:, 2 * angle], features[:, 2 * angle + 1] = np.sin(values), np.cos(values)
    return features, states
