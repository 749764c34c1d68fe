"""Whether the slowest timescale is too short at a lag time: then rates are too large there, however sure they look."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import TimescaleWarning
from m3c_md.markov.plateau import find_plateau, scatter_of_rise
from m3c_md.markov.resampling import blocks_of_trajectories, resampled_flows
from m3c_md.markov.reversible import relaxation_eigenvalues, reversible_flows
from m3c_md.markov.transitions import Note, StateArray, counts_per_trajectory, longest_of
from m3c_md.wording import amount

# Lag times are doubled up to this share of the longest trajectory; at longer ones chance has more to say.
LONGEST_SHARE = 0.05
# Resampled data by which a rise is told from chance.
N_SAMPLES = 50
# A rise by less is not worth a word; by fewer of its standard errors it may be chance (one-sided 1 %).
LEAST_RISE, SURE = 0.1, 2.33


def rise_notes(
    trajectories: Sequence[StateArray], lag: int, n_states: int, dt: float = 1.0, unit: str = "frame"
) -> list[Note]:
    """Say so if the slowest timescale rises from a lag time on, by more than a tenth and by more than chance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> slow = np.cumsum(rng.random(20_000) < 0.005) % 2
    >>> wrong = np.where(rng.random(20_000) < 0.01, 1 - slow, slow)  # every hundredth label
    >>> rise_notes([slow], 1, 2), len(rise_notes([wrong], 1, 2))
    ([], 1)
    """
    longest = longest_of(trajectories)
    tried = [lag * 2**k for k in range(longest.bit_length()) if k == 0 or lag * 2**k <= LONGEST_SHARE * longest]
    counts = [counts_per_trajectory(trajectories, x, n_states).sum(axis=0, keepdims=True) for x in tried]
    slowest = np.array([_slowest(reversible_flows(some), x)[0] for some, x in zip(counts, tried, strict=True)])
    unresolved = np.flatnonzero(~(slowest > tried))
    lags = tried[: unresolved[0]] if len(unresolved) else tried
    blocks = blocks_of_trajectories(trajectories, lags[-1]) if len(lags) > 1 else None
    if blocks is None:
        return []
    times = slowest[: len(lags)]
    flows = resampled_flows(trajectories, lags, n_states, blocks, N_SAMPLES, np.random.default_rng(0))
    paired = np.array([_slowest(some, x) for some, x in zip(flows, lags, strict=True)])
    unknown = np.full(len(lags), np.nan)
    plateau = find_plateau("t2", lags, times, (unknown, unknown), paired, longest)
    rise = np.log(plateau.value / times[0])
    chance = scatter_of_rise(paired[lags.index(plateau.lagtime)], paired[0])
    if rise < max(np.log1p(LEAST_RISE), SURE * chance):
        return []
    level = "where it is level" if plateau.level else "and not seen to be level"
    message = (
        f"t2 is {amount(times[0] * dt, unit)} at lag time {amount(lag * dt, unit, 4)}, and "
        f"{amount(plateau.value * dt, unit)} at {amount(plateau.lagtime * dt, unit, 4)}, {level}: life times and "
        "first-passage times are too short, and rates too large. A longer lag time helps, and so does coring "
        "(model.core, --core)"
    )
    return [(message, TimescaleWarning)]


def _slowest(flows: FloatArray, lag: int) -> FloatArray:
    """Slowest timescale of flows (n, k, k) in frames; NaN where there is none."""
    eigenvalues = relaxation_eigenvalues(flows)
    largest = eigenvalues[:, 0] if eigenvalues.shape[1] else np.full(len(flows), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(largest > 0.0, -lag / np.log(largest), np.nan))
