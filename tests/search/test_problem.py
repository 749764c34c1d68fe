"""What a search prepares: scales, bandwidths, weights, partitions and coarse windows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from m3c_md.exceptions import InputError
from m3c_md.frames.weights import effective_sample
from m3c_md.frames.windows import windows_of_trajectories
from m3c_md.optimize.feature_map import gaussian_kernel
from m3c_md.partitions.reweighting import relaxed_weights
from m3c_md.search.problem import BANDWIDTH_FACTORS, STANDARD, column_scale, default_bandwidths, joined_slices
from tests.search._data import problem_of, switching


@pytest.fixture(scope="module")
def trajectories():
    return switching([200, 150], np.random.default_rng(0))[0]


class TestColumnScale:
    def test_standard_deviations_or_ones(self):
        frames = np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 20.0, 1e-4]
        np.testing.assert_allclose((frames / column_scale(frames, "standard")).std(axis=0), 1.0)
        np.testing.assert_array_equal(column_scale(frames, "none"), 1.0)

    def test_a_constant_column_is_not_divided_by_zero(self):
        frames = np.column_stack([np.arange(10.0), np.full(10, 0.1)])
        scale = column_scale(frames, "standard")
        assert scale[0] == pytest.approx(frames[:, 0].std())
        assert scale[1] == 1.0

    @pytest.mark.parametrize("scale", ["none", "standard"])
    @pytest.mark.parametrize("value", [0.0, 1.0, -4.5])
    def test_equal_frames_cannot_be_clustered(self, scale, value):
        with pytest.raises(InputError, match="all 1000 frames are equal"):
            column_scale(np.full((1000, 2), value), scale)

    def test_equal_frames_whose_mean_is_rounded_cannot_be_clustered(self):
        with pytest.raises(InputError, match="all 1000 frames are equal"):
            column_scale(np.full((1000, 2), 0.1), "none")

    @pytest.mark.parametrize("n_outliers", [0, 2])
    def test_frames_that_are_beyond_squares_are_refused(self, n_outliers):
        frames = np.random.default_rng(0).normal(size=(1000, 2))
        frames[:n_outliers, 0] = 1e170
        frames *= 1.0 if n_outliers else 1e120
        with pytest.raises(InputError, match="too extreme to square"):
            column_scale(frames, "standard")


class TestDefaultBandwidths:
    def test_multiples_of_the_root_mean_square_distance(self):
        frames = np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 2.0, 3.0]
        scale = np.array([1.0, 0.5, 2.0])
        distances = pdist(frames / scale)
        mean_square = 2.0 * (distances**2).sum() / 40**2  # over all ordered pairs, a frame with itself too
        np.testing.assert_allclose(
            default_bandwidths(frames.std(axis=0), scale),
            np.array(BANDWIDTH_FACTORS) * np.sqrt(mean_square),
            rtol=1e-12,
        )

    def test_they_follow_the_units(self):
        spread, ones = np.array([0.3, 2.0]), np.ones(2)
        expected = default_bandwidths(spread, ones)
        np.testing.assert_allclose(default_bandwidths(50.0 * spread, ones), 50.0 * expected)
        np.testing.assert_allclose(default_bandwidths(50.0 * spread, 50.0 * ones), expected)

    def test_they_rise(self):
        assert (np.diff(BANDWIDTH_FACTORS) > 0.0).all()


def test_joined_slices_are_the_scaled_frames_of_a_window():
    frames = np.arange(12.0).reshape(6, 2)
    data = windows_of_trajectories([frames], lagtime=2, n_slices=3)
    np.testing.assert_array_equal(
        joined_slices(data, np.array([2.0, 1.0])), [[0.0, 1.0, 2.0, 5.0, 4.0, 9.0], [1.0, 3.0, 3.0, 7.0, 5.0, 11.0]]
    )


class TestPrepareProblem:
    def test_only_what_is_needed_is_prepared(self, trajectories):
        bare = problem_of(trajectories, 3, starts=("kinetic", "kmeans"))
        assert bare.partitions == []
        assert bare.coarse is None
        assert len(problem_of(trajectories, 3, starts=("pcca",)).partitions) == 1
        assert len(problem_of(trajectories, 3, starts=("lumping",)).partitions) == 1
        assert len(problem_of(trajectories, 3, starts=("kmeans",), reweight=True).partitions) == 3
        for name in ("relaxation", "relaxation-literal"):
            coarse = problem_of(trajectories, 3, starts=(name,), n_coarse=7).coarse
            assert coarse is not None
            assert coarse.centers.shape == (7, 4)

    def test_partitions_get_fewer_the_more_windows_they_hold(self):
        numbers = [
            len(problem_of([np.linspace(0.0, 1.0, n)[:, None]], 2, starts=("lumping",), reweight=True).partitions)
            for n in (8_001, 8_002, 20_001, 20_002)
        ]
        assert numbers == [3, 2, 2, 1]

    def test_no_more_coarse_windows_than_windows(self):
        coarse = problem_of([np.random.default_rng(0).normal(size=(9, 2))], 2, starts=("relaxation",)).coarse
        assert coarse is not None
        assert len(coarse.centers) == 8

    def test_no_more_coarse_windows_than_distinct_windows(self):
        frames = np.random.default_rng(0).integers(0, 2, size=(300, 1)).astype(float)
        coarse = problem_of([frames], 2, starts=("relaxation",), n_coarse=30).coarse
        assert coarse is not None
        assert len(coarse.centers) == 4

    def test_weights(self, trajectories):
        plain = problem_of(trajectories, 3)
        np.testing.assert_allclose(plain.weights, 1.0 / plain.data.n_windows)
        assert plain.effective_sample == pytest.approx(1.0)
        weighted = problem_of(trajectories, 3, reweight=True)
        np.testing.assert_array_equal(weighted.weights, relaxed_weights(weighted.partitions, weighted.data.horizon))
        assert weighted.effective_sample == effective_sample(weighted.weights) < 1.0

    def test_same_seed_same_problem(self, trajectories):
        one, two, other = (problem_of(trajectories, 3, seed, reweight=True) for seed in (4, 4, 5))
        np.testing.assert_array_equal(one.weights, two.weights)
        np.testing.assert_array_equal(one.maps[STANDARD].frequencies, two.maps[STANDARD].frequencies)
        assert not np.array_equal(one.maps[STANDARD].frequencies, other.maps[STANDARD].frequencies)

    def test_feature_map_is_that_of_the_kernel_on_scaled_columns(self, trajectories):
        frames = np.concatenate(trajectories) * [1.0, 100.0] + 1000.0
        problem = problem_of([frames], 3, n_features=6000, scale="standard")
        points = frames[:30]
        features = problem.feature_map(2.0)(points)
        expected = gaussian_kernel(points / frames.std(axis=0), points / frames.std(axis=0), 2.0)
        np.testing.assert_allclose(features @ features.T, expected, atol=0.06)


def test_default_bandwidths_leave_no_gap():
    """From a fraction of the extent of the data to twice that, neighbours nearer than a factor 1.5."""
    factors = np.array(BANDWIDTH_FACTORS)
    ratios = factors[1:] / factors[:-1]
    assert (ratios > 1.0).all()
    assert (ratios < 1.5).all()
    assert 1.0 in factors
    assert factors[0] < 0.2 < 1.9 < factors[-1]
