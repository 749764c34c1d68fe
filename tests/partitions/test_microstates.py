"""Micro states: a fine partition of frames, with the counts that belong to it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from m3c_md.frames.windows import windows_of_trajectories
from m3c_md.optimize.metric import Metric
from m3c_md.partitions.microstates import Microstates, find_microstates
from tests.search._data import switching

ONES = Metric("ones", np.ones(2))
ONE = Metric("one", np.ones(1))


@pytest.fixture(scope="module")
def data():
    return windows_of_trajectories(switching([300, 200], np.random.default_rng(0))[0], 3)


class TestFindMicrostates:
    def test_every_frame_belongs_to_the_nearest_center(self, data):
        cells = find_microstates(data, ONES, np.random.default_rng(1))
        assert cells.n_microstates == int(2.0 * np.sqrt(data.n_windows))
        np.testing.assert_array_equal(cells.frames, cdist(data.frames, cells.centers).argmin(axis=1))
        np.testing.assert_array_equal(np.unique(cells.frames), np.arange(cells.n_microstates))
        np.testing.assert_array_equal(cells.windows, cells.frames[data.windows])

    def test_same_seed_same_cells(self, data):
        one, two = (find_microstates(data, ONES, np.random.default_rng(5)) for _ in range(2))
        np.testing.assert_array_equal(one.frames, two.frames)

    def test_units_that_the_scale_removes_do_not_matter(self, data):
        units = np.array([1024.0, 0.25])
        stretched = type(data)(data.frames * units, data.windows, data.horizon, data.parts)
        one = find_microstates(data, ONES, np.random.default_rng(5))
        two = find_microstates(stretched, Metric("units", 1.0 / units), np.random.default_rng(5))
        np.testing.assert_array_equal(one.frames, two.frames)
        np.testing.assert_allclose(two.centers, one.centers)

    def test_no_more_cells_than_distinct_frames(self):
        frames = np.random.default_rng(0).integers(0, 3, size=(400, 2)).astype(float)
        cells = find_microstates(windows_of_trajectories([frames], 1), ONES, np.random.default_rng(0))
        assert cells.n_microstates == 9
        np.testing.assert_allclose(cells.centers[cells.frames], frames, atol=1e-12)

    def test_no_more_cells_than_distinct_frames_in_long_series(self):
        frames = np.random.default_rng(0).integers(0, 10, size=(20_000, 1)).astype(float)
        cells = find_microstates(windows_of_trajectories([frames], 1), ONE, np.random.default_rng(0))
        assert cells.n_microstates == 10

    def test_number_of_cells_is_capped(self):
        frames = np.random.default_rng(0).normal(size=(12_000, 1))
        cells = find_microstates(windows_of_trajectories([frames], 1), ONE, np.random.default_rng(0))
        assert cells.n_microstates == 200


class TestCounts:
    def test_weighted_counts_by_hand(self):
        cells = Microstates(np.zeros((3, 1)), np.arange(3), np.array([[0, 0, 2, 0], [1, 1, 2, 2]]))
        expected = [[0.0, 3.0, 4.0], [0.0, 0.0, 0.0], [0.0, 0.0, 3.0]]
        np.testing.assert_array_equal(cells.counts(np.array([1.0, 2.0, 3.0, 4.0])), expected)

    def test_no_weight_is_lost(self, data):
        weights = np.random.default_rng(0).random(data.n_windows)
        counts = find_microstates(data, ONES, np.random.default_rng(1)).counts(weights)
        assert counts.sum() == pytest.approx(weights.sum())
        assert counts.min() >= 0.0

    def test_windows_of_many_slices_count_from_first_to_last(self):
        cells = Microstates(np.zeros((3, 1)), np.arange(3), np.array([[0, 1], [1, 1], [2, 0]]))
        np.testing.assert_array_equal(cells.counts(np.ones(2)), [[0, 0, 1], [1, 0, 0], [0, 0, 0]])


def test_many_repeated_frames_give_fewer_cells():
    """Forty distinct frames a hundred times over: cells without frames are left out, not an error."""
    rng = np.random.default_rng(0)
    frames = np.tile(rng.normal(size=(40, 2)), (100, 1))
    data = windows_of_trajectories([frames], 1)
    cells = find_microstates(data, ONES, rng)
    assert 2 <= cells.n_microstates <= 40
    assert set(cells.frames) == set(range(cells.n_microstates))
