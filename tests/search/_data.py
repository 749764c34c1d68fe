"""Small metastable series whose hidden states are known."""

from __future__ import annotations

import numpy as np

from m3c_md.frames.windows import windows_of_trajectories
from m3c_md.optimize.blocks import Rule
from m3c_md.search.candidates import Search
from m3c_md.search.local_search import LocalOptimum, SearchSettings
from m3c_md.search.problem import STANDARD, Kernel, prepare_problem
from m3c_md.search.scores import score, states_and_losses
from m3c_md.search.selection import Candidate
from m3c_md.search.steps import SearchOptions
from m3c_md.search.support import Support

TRIANGLE = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])


def switching(lengths, rng, centers=TRIANGLE, spread=0.5, stay=0.98):
    """Trajectories that jump between Gaussian wells, and the well of every frame; `spread` may differ by column."""
    n_states = len(centers)
    trajectories, wells = [], []
    for number, length in enumerate(lengths):
        jumps = np.where(rng.random(length) < stay, 0, rng.integers(1, n_states, size=length))
        jumps[0] = number
        well = np.cumsum(jumps) % n_states
        wells.append(well)
        trajectories.append(centers[well] + spread * rng.normal(size=(length, centers.shape[1])))
    return trajectories, wells


def slow_and_wide(lengths, rng, stay=0.98):
    """Two wells apart in the first column, with a second column that is much wider but forgets at once.

    Geometry alone sees the second column only: its two lobes lie farther apart than the wells.
    """
    trajectories, wells = switching(lengths, rng, np.array([[-1.0, 0.0], [1.0, 0.0]]), np.array([0.3, 0.5]), stay)
    for frames in trajectories:
        frames[:, 1] += rng.choice([-3.0, 3.0], size=len(frames))
    return trajectories, wells


def scored(blocks, optimum, settings, selection):
    """Score of a local optimum on the windows that it was fitted to."""
    losses = states_and_losses(blocks, optimum.rule, optimum.labels)[1]
    return score(losses, blocks.weights, optimum, settings, selection)


def problem_of(
    trajectories,
    n_states,
    seed=0,
    *,
    starts=("lumping",),
    lagtime=1,
    n_slices=2,
    n_features=40,
    regularization=3e-3,
    balance=(0.01, 0.99),
    reweight=False,
    scale="none",
    n_coarse=12,
    max_iterations=100,
):
    """A search problem with settings small enough for tests."""
    return prepare_problem(
        windows_of_trajectories(trajectories, lagtime, n_slices),
        SearchSettings(n_states, regularization, balance, max_iterations=max_iterations),
        np.random.default_rng(seed),
        starts=starts,
        n_features=n_features,
        feature_kind="orthogonal",
        scale=scale,
        reweight=reweight,
        n_coarse=n_coarse,
    )


def search(problem, bandwidths, starts, *, report=lambda share: None, journal=None, failures=None, **options):
    """Run a search, the way an estimator does."""
    given = {"selection": "objective", "seed": 0, **options}
    found = Search(
        problem, bandwidths, starts, SearchOptions(**given), report=report, journal=journal, failures=failures
    )
    return found.run()


N_CANDIDATE_WINDOWS = 597  # of three trajectories of 200 frames


def labels_of(shift):
    """Three states in turn, in steps that differ clearly from one shift to another."""
    return (np.arange(N_CANDIDATE_WINDOWS) // (7 + 6 * shift)) % 3


def candidate(
    start,
    bandwidth,
    score,
    shift=0,
    populations=(0.3, 0.3, 0.4),
    *,
    quality=2.5,
    error=0.01,
    n_parts=5,
    metric=STANDARD,
    **more,
):
    """A candidate that nobody has optimised: what is done with it depends on these properties alone."""
    optimum = LocalOptimum(Rule(np.zeros((3, 10)), np.zeros(3)), labels_of(shift), score, 0.0, 1, True, (score,))
    # A state of one part makes an error of one, and is missing in fresh data with probability 1 / e.
    support = Support(error, n_parts, expected=quality - error / np.e)
    shares = np.array(populations)
    return Candidate(
        start, Kernel(bandwidth, metric), optimum, score, shares, quality, N_CANDIDATE_WINDOWS, support=support, **more
    )
