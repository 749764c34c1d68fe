"""What weighted frames of several runs say about states: populations and free energies, with errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from m3c_md.arrays import FloatArray

GAS_CONSTANT = 8.31446261815324e-3
"""kJ/mol/K."""
N_BLOCKS = 8
"""Parts of a trajectory that stands alone."""


class StateWeights(NamedTuple):
    """Populations and free energies of states; a state that was never seen has an infinite free energy.

    Attributes
    ----------
    populations, population_errors : (n_states,) arrays
    free_energies, free_energy_errors : (n_states,) arrays
        In kJ/mol, above the state with the largest population.
    """

    populations: FloatArray
    population_errors: FloatArray
    free_energies: FloatArray
    free_energy_errors: FloatArray


def state_weights(
    labels: Sequence[npt.NDArray[np.integer]], weights: Sequence[FloatArray], n_states: int, temperature: float
) -> StateWeights:
    """Populations and free energies from weighted frames, with standard errors by the jackknife over trajectories.

    Every trajectory counts as one estimate, whatever its bias was. One that stands alone is cut into eight blocks; they
    share their bias and are therefore added up with their weights, and their errors know nothing of what is slower than
    a block is long.

    Parameters
    ----------
    labels : sequence of (n_frames,) int arrays
        States, one array per trajectory.
    weights : sequence of (n_frames,) arrays
        Of the same frames, in any unit.
    n_states : int
    temperature : float
        In kelvin.

    Examples
    --------
    >>> found = state_weights([np.array([0, 1]), np.array([0, 1])], [np.ones(2), np.array([3.0, 1.0])], 2, 300.0)
    >>> found.populations.tolist(), found.population_errors.round(4).tolist()
    ([0.625, 0.375], [0.125, 0.125])
    >>> found.free_energies.round(3).tolist(), found.free_energy_errors.round(3).tolist()
    ([0.0, 1.274], [0.0, 1.37])
    """
    alone = len(labels) == 1
    if alone:
        labels, weights = np.array_split(labels[0], N_BLOCKS), np.array_split(weights[0], N_BLOCKS)
    each = np.array([np.bincount(x, weights=w, minlength=n_states) for x, w in zip(labels, weights, strict=True)])
    if not alone:
        each /= each.sum(axis=1, keepdims=True)
    total = each.sum(axis=0)
    populations = total / total.sum()
    lowest = int(populations.argmax())
    without = total - each
    without /= without.sum(axis=1, keepdims=True)
    energies = np.array([_energies(p, lowest, temperature) for p in without])
    return StateWeights(
        populations, _jackknife(without), _energies(populations, lowest, temperature), _jackknife(energies)
    )


def _energies(populations: FloatArray, lowest: int, temperature: float) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(populations[lowest] / populations) * (GAS_CONSTANT * temperature))


def _jackknife(without: FloatArray) -> FloatArray:
    """Standard errors from estimates that leave out one trajectory each; infinite where one of these is."""
    n = len(without)
    spread = np.full(without.shape[1], np.inf)
    finite = np.isfinite(without).all(axis=0)
    spread[finite] = np.sqrt((n - 1.0) * without[:, finite].var(axis=0))
    return spread
