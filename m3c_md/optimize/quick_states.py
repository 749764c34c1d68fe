"""States of frames in single precision, without features or scores ever being in memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray
from m3c_md.optimize.blocks import Rule
from m3c_md.optimize.feature_map import FourierMap
from m3c_md.optimize.kernels import compiled

# Error of a feature, with a wide margin, as long as the angles whose cosines are taken are no larger than so many
# turns: single precision knows them to a ten-thousandth.
SINGLE_ROUNDING = 1e-4
MOST_TURNS = 100.0


def states_of_rule(feature_map: FourierMap, rule: Rule, frames: FloatArray) -> NDArray[np.intp]:
    """State of every frame: by single precision, several times as fast, and by double where rounding could decide."""
    states, sure = quick_states(feature_map, rule, frames)
    close = np.flatnonzero(~sure)
    if len(close):
        states[close] = rule.scores(feature_map(frames[close])).argmax(axis=0)
    return states


def quick_states(feature_map: FourierMap, rule: Rule, frames: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """State of every frame, and whether that is sure; where it is not, double precision has to decide.

    Takes a third of the time that features in single precision take, where numba is there.

    Examples
    --------
    >>> from m3c_md.optimize.feature_map import draw_fourier_map
    >>> rng = np.random.default_rng(0)
    >>> phi, rule = draw_fourier_map(2, 50, rng), Rule(rng.normal(size=(3, 50)), rng.normal(size=3))
    >>> x = rng.normal(size=(1000, 2))
    >>> states, sure = quick_states(phi, rule, x)
    >>> bool((states == rule.scores(phi(x)).argmax(axis=0))[sure].all()), bool(sure.mean() > 0.9)
    (True, True)
    """
    # Sums of as many rounded terms as there are features, each no larger than its weight.
    error = SINGLE_ROUNDING * float(np.abs(rule.weights).sum(axis=1).max() + np.abs(rule.bias).max())
    per_turn = feature_map.frequencies / (2.0 * np.pi)
    # In units of the frequencies, and after the centre is subtracted, points of any unit survive the rounding.
    unit = np.abs(per_turn).max(axis=1)
    unit[unit == 0.0] = 1.0
    with np.errstate(over="ignore", invalid="ignore"):  # what single precision cannot hold is too far away
        points = ((frames - feature_map.center) * unit).astype(np.float32)
        near = np.abs(points).sum(axis=1) <= MOST_TURNS
        turns = points @ (per_turn / unit[:, None]).astype(np.float32)
        phases = (feature_map.phases / (2.0 * np.pi)).astype(np.float32)
        weights = (np.sqrt(2.0 / feature_map.n_features) * rule.weights).astype(np.float32)
        find = _of_arrays if compiled() is None else compiled().state_loop
        states, leads = np.empty(len(frames), dtype=np.intp), np.empty(len(frames))
        find(turns, phases, weights, rule.bias, states, leads)
    return states, near & (leads > error)


def _of_arrays(
    turns: NDArray[np.float32],
    phases: NDArray[np.float32],
    weights: NDArray[np.float32],
    bias: FloatArray,
    states: NDArray[np.intp],
    leads: FloatArray,
) -> None:
    """Do without numba what `m3c_md.optimize.compiled_loops.state_loop` does."""
    features = np.cos(np.float32(2.0 * np.pi) * (turns + phases))
    scores = (features @ weights.T).T.astype(np.float64) + bias[:, None]
    states[:] = scores.argmax(axis=0)
    second, first = np.partition(scores, -2, axis=0)[-2:]
    leads[:] = first - second
