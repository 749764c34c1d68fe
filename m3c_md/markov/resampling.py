"""Confidence in macro-MSMs: bootstrap over trajectories, and samples of the Bayesian posterior."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from deeptime.markov.tools.estimation.dense.tmat_sampling.sampler_rev import SamplerRev
from scipy.stats import norm
from scipy.stats import t as student

from m3c_md.arrays import FloatArray
from m3c_md.confidence import TAILS
from m3c_md.exceptions import InputError, SolverError, solving
from m3c_md.inputs.settings import check_choice
from m3c_md.markov.reversible import largest_connected_set, reversible_flows, transition_matrices
from m3c_md.markov.transitions import StateArray, counts_per_trajectory

# 95 % bands of resampled trajectories are too narrow if there are few: on simulated chains they held the truth in 70 %
# of cases with 3 trajectories, 80 to 88 % with 5, 85 to 95 % with 10, 90 to 96 % with 20.
_AUTO_BOOTSTRAP = 10
_LEAST_BOOTSTRAP = 5
# Gibbs sweeps between two posterior samples: BayesianMSM makes one for a few states, which leaves them correlated.
_SWEEPS = 10
# Blocks into which fewer trajectories than _AUTO_BOOTSTRAP are cut, where whole ones would be too few to draw among.
# They are fewer where they would be shorter than twice the lag time: most of what they count is in the next one then.
_MOST_BLOCKS = 20
_LEAST_BLOCK_LAGS = 2
# More samples than this say nothing new, and would fill the memory.
MOST_SAMPLES = 100_000


class FlowSamples(NamedTuple):
    """Reversible equilibrium flows at one lag time: estimate (k, k), samples (n_samples, k, k) or None."""

    estimate: FloatArray
    samples: FloatArray | None


def choose_confidence(confidence: Any, trajectories: Sequence[StateArray], longest_lag: int) -> str | None:
    """Decide between "bootstrap", "bayesian" and None by what was asked for and how many trajectories there are.

    Examples
    --------
    >>> choose_confidence("auto", [np.zeros(50, dtype=np.intp)], 1)
    'bayesian'
    """
    if confidence is None:
        return None
    check_choice("confidence", confidence, ("auto", "bootstrap", "bayesian"))
    n = sum(len(x) > longest_lag for x in trajectories)
    if confidence == "auto":
        return "bootstrap" if n >= _AUTO_BOOTSTRAP else "bayesian"
    if confidence == "bootstrap" and n < _LEAST_BOOTSTRAP:
        raise InputError(
            f"confidence='bootstrap' draws among whole trajectories and needs at least {_LEAST_BOOTSTRAP} of more than "
            f"{longest_lag} frames (the longest lag time), but there are {n}; use confidence='bayesian' or shorter lags"
        )
    return str(confidence)


def flows_at_lagtimes(
    trajectories: Sequence[StateArray],
    lagtimes: Sequence[int],
    n_states: int,
    confidence: str | None,
    n_samples: int,
    rng: np.random.Generator,
) -> Iterator[FlowSamples]:
    """Estimate the macro-MSM at each lag time, with samples of it.

    Bootstrap draws the same trajectories at every lag time, so that sample s belongs to one set of data throughout and
    differences between lag times can be judged; posterior samples at different lag times are independent.

    Examples
    --------
    >>> x = np.array([0, 0, 1, 1, 0, 0, 0, 1, 0])
    >>> (result,) = flows_at_lagtimes([x], [1], 2, "bayesian", 5, np.random.default_rng(0))
    >>> result.estimate.round(3).tolist(), result.samples.shape
    ([[0.375, 0.25], [0.25, 0.125]], (5, 2, 2))
    """
    whole = [1] * len(trajectories)
    resampled = None
    if confidence == "bootstrap":
        resampled = resampled_flows(trajectories, lagtimes, n_states, whole, n_samples, rng)
    for lag in lagtimes:
        counts = counts_per_trajectory(trajectories, lag, n_states).sum(axis=0)
        estimate = reversible_flows(counts[None])[0]
        samples = None
        if resampled is not None:
            samples = next(resampled)
        elif confidence == "bayesian":
            # deeptime's own "effective" counts keep more than these and gave 95 % bands that held the truth in 60 to
            # 85 % of simulated Markov chains only.
            samples = posterior_flows(counts / counts_for_one(trajectories, lag, n_states), n_samples, rng)
        yield FlowSamples(estimate, samples)


def counts_for_one(trajectories: Sequence[StateArray], lag: int, n_states: int) -> float:
    """How many counts of transitions say as much as one that is independent of all others.

    Windows overlap, so that there is about one independent count in ``lag``. Counts that come in bunches say less:
    where a border is crossed back and forth, they differ between blocks of the data by more than those of a Markov
    chain would. By so much more that their variance grows, counts are worth less (the dispersion of a quasi-likelihood;
    there and back are taken together, as a bunch has both).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> slow = np.cumsum(rng.random(10_000) < 0.02) % 2
    >>> wavering = (np.convolve(slow, np.ones(9) / 9, "same") + 0.1 * rng.normal(size=10_000) > 0.5).astype(int)
    >>> counts_for_one([slow], 1, 2) < 1.4 < counts_for_one([wavering], 1, 2)
    True
    """
    lengths = np.array([len(x) for x in trajectories])
    n_blocks = min(_MOST_BLOCKS, int(lengths.sum()) // (_LEAST_BLOCK_LAGS * lag))
    if n_blocks < _LEAST_BOOTSTRAP:
        return float(lag)
    blocks = np.maximum(1, np.round(n_blocks * lengths / lengths.sum()).astype(int))
    counts = np.concatenate(
        [_counts_per_block(x, lag, n_states, b) for x, b in zip(trajectories, blocks.tolist(), strict=True)]
    )
    started = counts.sum(axis=2, keepdims=True)
    everything = np.maximum(started.sum(axis=0), 1.0)
    chance = counts.sum(axis=0) / everything
    surplus = counts - started * chance
    variance = started * chance * (1.0 - chance) * (1.0 - started / everything)
    i, j = np.triu_indices(n_states, 1)
    seen = ((surplus[:, i, j] + surplus[:, j, i]) ** 2).sum()
    expected = (variance[:, i, j] + variance[:, j, i]).sum()
    # That so few blocks hardly know it is allowed for as in Student's distribution.
    allowance = (student.ppf(TAILS[1], len(counts) - 1) / norm.ppf(TAILS[1])) ** 2
    return float(max(lag, allowance * seen / expected)) if expected > 0.0 else float(lag)


def blocks_of_trajectories(trajectories: Sequence[StateArray], longest_lag: int) -> list[int] | None:
    """Into how many blocks to cut each trajectory, so that there is something to draw among; None if data are too few.

    Ten trajectories and more stay whole. Fewer are cut into twenty blocks in all, each at least twice as long as the
    longest lag time; there must be five.

    Examples
    --------
    >>> blocks_of_trajectories([np.zeros(3000), np.zeros(1000)], 10)
    [15, 5]
    """
    lengths = np.array([len(x) for x in trajectories])
    if (lengths > longest_lag).sum() >= _AUTO_BOOTSTRAP:
        return [1] * len(trajectories)
    n_blocks = min(_MOST_BLOCKS, int(lengths.sum()) // (_LEAST_BLOCK_LAGS * longest_lag))
    blocks = np.maximum(1, np.round(n_blocks * lengths / lengths.sum()).astype(int))
    return None if n_blocks < _LEAST_BOOTSTRAP else [int(n) for n in blocks]


def resampled_flows(
    trajectories: Sequence[StateArray],
    lagtimes: Sequence[int],
    n_states: int,
    blocks: Sequence[int],
    n_samples: int,
    rng: np.random.Generator,
) -> Iterator[FloatArray]:
    """Flows of resampled data at each lag time, (n_samples, k, k): blocks of trajectories are drawn with replacement.

    The same blocks are drawn at every lag time. A transition belongs to the block that it starts in, so that none is
    lost at their ends.

    Examples
    --------
    >>> x = np.array([0, 0, 1, 1, 0, 0, 0, 1, 0, 0])
    >>> [flows.shape for flows in resampled_flows([x], [1, 2], 2, [5], 3, np.random.default_rng(0))]
    [(3, 2, 2), (3, 2, 2)]
    """
    n = sum(blocks)
    draws = rng.multinomial(n, np.full(n, 1.0 / n), size=n_samples)
    for lag in lagtimes:
        separate = np.concatenate(
            [_counts_per_block(x, lag, n_states, b) for x, b in zip(trajectories, blocks, strict=True)]
        )
        yield reversible_flows(np.tensordot(draws, separate, axes=1))


def _counts_per_block(states: StateArray, lag: int, n_states: int, n_blocks: int) -> FloatArray:
    if n_blocks == 1:
        return counts_per_trajectory([states], lag, n_states)
    cuts = [len(states) * b // n_blocks for b in range(n_blocks + 1)]
    pieces = [states[begin : end + lag] for begin, end in pairwise(cuts)]
    return counts_per_trajectory(pieces, lag, n_states)


def posterior_flows(counts: FloatArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
    """Sample reversible equilibrium flows from the posterior of independent counts, as deeptime's BayesianMSM does.

    Parameters
    ----------
    counts : array (k, k)
        Independent transitions; need not be whole numbers.
    n_samples : int
        How many samples.
    rng : numpy.random.Generator
        Gives the seed of deeptime's sampler, which BayesianMSM takes from the clock.

    Returns
    -------
    array (n_samples, k, k)
        NaN outside the largest connected set.

    Examples
    --------
    >>> flows = posterior_flows(np.array([[80.0, 20.0], [20.0, 30.0]]), 200, np.random.default_rng(0))
    >>> bool(abs(flows[:, 0, 1].mean() - 20 / 150) < 0.02)
    True
    """
    states = largest_connected_set(counts)
    flows = np.full((n_samples, *counts.shape), np.nan)
    block = np.ix_(np.arange(n_samples), states, states)
    if len(states) == 1:
        flows[block] = 1.0
    elif len(states) > 1:
        inside = counts[np.ix_(states, states)]
        start = transition_matrices(reversible_flows(inside[None])[0])
        remedy = "use confidence='bootstrap', a shorter lag time or more data"
        with solving("deeptime's sampler of the posterior", remedy):
            sampler = SamplerRev(inside, start, seed=int(rng.integers(2**31)))
            samples = np.array([_next_flow(sampler) for _ in range(n_samples)])
        if not np.isfinite(samples).all():
            raise SolverError(f"deeptime's sampler of the posterior gave numbers that are not finite; {remedy}")
        flows[block] = samples
    return flows


def _next_flow(sampler: Any) -> FloatArray:
    matrix, stationary = sampler.sample(_SWEEPS, return_statdist=True)
    flow: FloatArray = stationary[:, None] * matrix
    return flow
