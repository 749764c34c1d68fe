"""Reweighting: nothing happens in equilibrium, and what only rolls downhill counts less."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from m3c_md.frames.weights import WEIGHT_BOUNDS, effective_sample
from m3c_md.frames.windows import windows_of_trajectories
from m3c_md.optimize.metric import Metric
from m3c_md.partitions.microstates import Microstates, find_microstates
from m3c_md.partitions.reweighting import relaxed_weights
from m3c_md.systems import MODEL_II, simulate
from tests.search._data import switching


def partitions_of(data, n=3, seed=0):
    rng = np.random.default_rng(seed)
    ones = Metric("ones", np.ones(data.frames.shape[1]))
    return [find_microstates(data, ones, rng) for _ in range(n)]


def by_hand(pairs):
    """Micro states of windows given as (cell, next cell)."""
    windows = np.array(pairs, dtype=np.intp).T
    return Microstates(np.zeros((windows.max() + 1, 1)), windows[0], windows)


def relaxing(n_trajectories, length, start, rng):
    """Autoregressive series that all start at `start`, far out for their stationary spread of one."""
    x = np.full(n_trajectories, float(start))
    frames = [x]
    for _ in range(length - 1):
        x = 0.8 * x + 0.6 * rng.normal(size=n_trajectories)
        frames.append(x)
    return list(np.array(frames).T[:, :, None])


class TestByHand:
    def test_two_cells(self):
        # 0 -> 0, 1, 1, 1 and 1 -> 0, 1: p_0 = (4, 2)/6, T = [[1/4, 3/4], [1/2, 1/2]].
        cells = by_hand([(0, 0), (0, 1), (0, 1), (0, 1), (1, 0), (1, 1)])
        one = np.array([4, 2]) / 6 @ np.array([[0.25, 0.75], [0.5, 0.5]])
        expected = np.array([one[0] / 4] * 4 + [one[1] / 2] * 2)
        np.testing.assert_allclose(relaxed_weights([cells], 1), expected, rtol=1e-12)
        stationary = np.array([0.4, 0.6])
        expected = np.array([stationary[0] / 4] * 4 + [stationary[1] / 2] * 2)
        np.testing.assert_allclose(relaxed_weights([cells], 60), expected, rtol=1e-12)

    def test_stationary_data_stay_as_they_are(self):
        rng = np.random.default_rng(0)
        path = rng.integers(5, size=400)
        path[-1] = path[0]  # a closed path leaves each cell as often as it enters it
        cells = by_hand(list(pairwise(path)))
        np.testing.assert_allclose(relaxed_weights([cells], 100), np.full(399, 1 / 399), rtol=1e-9)

    def test_single_frames_have_nowhere_to_go(self):
        cells = Microstates(np.zeros((3, 1)), np.arange(9) % 3, np.arange(9)[None] % 3)
        np.testing.assert_allclose(relaxed_weights([cells], 50), np.full(9, 1 / 9), rtol=1e-12)

    def test_bounds_of_weights(self):
        # All flows into cell 1, which has few windows: 1000/10 for these, nothing for the others.
        flow = by_hand([(0, 1)] * 990 + [(1, 1)] * 10)
        weights = relaxed_weights([flow], 1)
        assert weights.sum() == pytest.approx(1.0)
        assert weights[-1] / weights[0] == pytest.approx(WEIGHT_BOUNDS[1] / WEIGHT_BOUNDS[0])
        # A second partition that knows of nothing lifts them to a half: 50.5 and 0.5.
        weights = relaxed_weights([flow, by_hand([(0, 0)] * 1000)], 1)
        lifted = np.clip([50.5, 0.5], *WEIGHT_BOUNDS)
        assert weights[-1] / weights[0] == pytest.approx(lifted[0] / lifted[1])

    def test_a_cell_never_left_does_no_harm(self):
        weights = relaxed_weights([by_hand([(0, 1), (1, 0), (1, 0), (0, 2)])], 4)
        assert np.isfinite(weights).all()
        assert weights.sum() == pytest.approx(1.0)
        assert weights.min() > 0.0

    def test_partitions_are_averaged(self):
        rng = np.random.default_rng(2)
        one, two = (by_hand(rng.integers(4, size=(50, 2)).tolist()) for _ in range(2))
        mean = (relaxed_weights([one], 3) + relaxed_weights([two], 3)) / 2
        np.testing.assert_allclose(relaxed_weights([one, two], 3), mean, rtol=1e-10)
        np.testing.assert_allclose(relaxed_weights([two, one], 3), mean, rtol=1e-10)


class TestEffectiveSample:
    def test_extremes(self):
        assert effective_sample(np.full(7, 3.0)) == pytest.approx(1.0)
        assert effective_sample(np.eye(5)[0]) == pytest.approx(0.2)

    def test_units_do_not_matter(self):
        weights = np.random.default_rng(0).random(30)
        assert effective_sample(17.0 * weights) == pytest.approx(effective_sample(weights))
        assert 1 / 30 < effective_sample(weights) < 1.0


class TestData:
    def test_equilibrium_is_left_alone(self):
        trajectories, _ = switching([1500, 1500], np.random.default_rng(0))
        data = windows_of_trajectories(trajectories, 1)
        weights = relaxed_weights(partitions_of(data), data.horizon)
        assert effective_sample(weights) > 0.95
        assert np.abs(weights * data.n_windows - 1.0).mean() < 0.2

    @pytest.mark.parametrize("start", [-6.0, 6.0])
    def test_the_way_down_counts_less(self, start):
        data = windows_of_trajectories(relaxing(60, 30, start, np.random.default_rng(1)), 1)
        weights = relaxed_weights(partitions_of(data), data.horizon)
        relative = (weights * data.n_windows).reshape(60, 29).mean(axis=0)
        assert relative[:3].max() < 0.3
        assert relative[10:].min() > 1.0
        # The weighted mean is nearer to the true one, which is zero.
        first = data.frames[data.windows[0], 0]
        assert abs(weights @ first) < 0.5 * abs(first.mean())

    def test_model_2_starts_on_slopes(self):
        trajectories = simulate(MODEL_II, np.random.default_rng(0))
        data = windows_of_trajectories(trajectories, 1)
        weights = relaxed_weights(partitions_of(data), data.horizon)
        energy = MODEL_II.potential(data.frames[data.windows[0]])
        assert weights @ energy < energy.mean()
        steps = weights.reshape(len(trajectories), -1).sum(axis=0) * (len(trajectories[0]) - 1)
        assert steps[0] < 0.7
        assert steps[len(steps) // 2 :].mean() > 1.0
        assert 0.5 < effective_sample(weights) < 1.0

    def test_weights_are_a_distribution(self):
        data = windows_of_trajectories(relaxing(20, 40, 8.0, np.random.default_rng(4)), 2)
        for horizon in (1, 20, 500):
            weights = relaxed_weights(partitions_of(data), horizon)
            assert weights.min() > 0.0
            assert weights.sum() == pytest.approx(1.0)
            assert weights.max() <= WEIGHT_BOUNDS[1] / WEIGHT_BOUNDS[0] * weights.min() * (1.0 + 1e-12)

    def test_order_of_windows_does_not_matter(self):
        data = windows_of_trajectories(relaxing(20, 30, 5.0, np.random.default_rng(4)), 1)
        cells = partitions_of(data)
        order = np.random.default_rng(0).permutation(data.n_windows)
        moved = [Microstates(c.centers, c.frames, c.windows[:, order]) for c in cells]
        np.testing.assert_allclose(
            relaxed_weights(moved, data.horizon), relaxed_weights(cells, data.horizon)[order], rtol=1e-9
        )

    def test_names_of_cells_do_not_matter(self):
        data = windows_of_trajectories(relaxing(20, 30, 5.0, np.random.default_rng(4)), 1)
        (cells,) = partitions_of(data, n=1)
        names = np.random.default_rng(0).permutation(cells.n_microstates)
        renamed = Microstates(cells.centers[np.argsort(names)], names[cells.frames], names[cells.windows])
        np.testing.assert_allclose(
            relaxed_weights([renamed], data.horizon), relaxed_weights([cells], data.horizon), rtol=1e-9
        )
