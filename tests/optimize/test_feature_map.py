"""Feature maps approximate the Gaussian kernel as fast as theory says, and obey its invariances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

from m3c_md.optimize.feature_map import FourierMap, draw_fourier_map, gaussian_kernel

KINDS = ("orthogonal", "fourier")


def kernel_errors(points, n_features, kind, n_draws, seed=0):
    """Errors of the approximate kernel for all pairs of different points, one row per draw."""
    rng = np.random.default_rng(seed)
    exact = gaussian_kernel(points, points, 1.0)
    pairs = np.triu_indices(len(points), 1)
    rows = []
    for _ in range(n_draws):
        features = draw_fourier_map(points.shape[1], n_features, rng, kind=kind)(points)
        rows.append((features @ features.T - exact)[pairs])
    return np.array(rows)


def root_mean_square(errors):
    return float(np.sqrt((errors**2).mean()))


@pytest.mark.parametrize("bandwidth", [0.3, 1.0, 7.0])
def test_kernel_agrees_with_scikit_learn(bandwidth):
    rng = np.random.default_rng(3)
    points, others = rng.normal(size=(7, 4)), rng.normal(size=(5, 4))
    expected = rbf_kernel(points, others, gamma=0.5 / bandwidth**2)
    np.testing.assert_allclose(gaussian_kernel(points, others, bandwidth), expected, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_inner_products_are_unbiased(kind):
    points = np.random.default_rng(0).normal(size=(8, 3))
    errors = kernel_errors(points, 20, kind, n_draws=3000)
    standard_errors = errors.std(axis=0) / np.sqrt(len(errors))
    assert (np.abs(errors.mean(axis=0)) < 5.0 * standard_errors).all()


@pytest.mark.parametrize("kind", KINDS)
def test_error_falls_like_one_over_root_of_features(kind):
    points = np.random.default_rng(1).normal(size=(10, 3))
    coarse, fine = (root_mean_square(kernel_errors(points, d, kind, n_draws=150)) for d in (48, 768))
    assert coarse / fine == pytest.approx(4.0, rel=0.15)  # sqrt(768 / 48)


@pytest.mark.parametrize("n_columns", [3, 8])
def test_orthogonal_features_have_the_smaller_error(n_columns):
    points = np.random.default_rng(2).normal(size=(8, n_columns)) / np.sqrt(n_columns)
    n_features = 4 * n_columns
    ours, fourier = (kernel_errors(points, n_features, kind, n_draws=500) for kind in KINDS)
    assert root_mean_square(ours) < 0.9 * root_mean_square(fourier)


def test_orthogonality_itself_reduces_the_error():
    """Not only the cosine/sine pairs do: the same pairs with independent frequencies are worse."""
    n_columns, n_pairs = 6, 6
    points = np.random.default_rng(4).normal(size=(8, n_columns)) / np.sqrt(n_columns)
    pairs = np.triu_indices(len(points), 1)
    exact = gaussian_kernel(points, points, 1.0)[pairs]
    rng = np.random.default_rng(5)
    errors = []
    for _ in range(1000):
        half = rng.normal(size=(n_columns, n_pairs))
        independent = FourierMap(np.hstack([half, half]), np.repeat([0.0, -0.5 * np.pi], n_pairs), np.zeros(n_columns))(
            points
        )
        errors.append((independent @ independent.T)[pairs] - exact)
    ours = kernel_errors(points, 2 * n_pairs, "orthogonal", n_draws=1000)
    assert root_mean_square(ours) < 0.9 * root_mean_square(np.array(errors))


@pytest.mark.parametrize("kind", KINDS)
def test_frequencies_are_standard_normal_one_by_one(kind):
    """A wrong sign convention of QR, or unit lengths, would show in these moments."""
    rng = np.random.default_rng(6)
    draws = np.array([draw_fourier_map(3, 6, rng, kind=kind).frequencies[:, :3] for _ in range(6000)])
    for power, moment, spread in ((1, 0.0, 1.0), (2, 1.0, 2.0), (4, 3.0, 96.0)):
        standard_error = np.sqrt(spread / len(draws))
        assert (np.abs((draws**power).mean(axis=0) - moment) < 5.0 * standard_error).all()


@given(n_columns=st.integers(1, 6), n_features=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40, derandomize=True)
def test_frequencies_are_orthogonal_within_blocks(n_columns, n_features, seed):
    feature_map = draw_fourier_map(n_columns, n_features, np.random.default_rng(seed))
    n_pairs = feature_map.n_features // 2
    half = feature_map.frequencies[:, :n_pairs]
    np.testing.assert_array_equal(half, feature_map.frequencies[:, n_pairs:])
    for start in range(0, n_pairs, n_columns):
        block = half[:, start : start + n_columns]
        lengths = np.linalg.norm(block, axis=0)
        np.testing.assert_allclose(block.T @ block, np.diag(lengths**2), atol=1e-12 * lengths.max() ** 2)


@given(n_columns=st.integers(1, 6), n_features=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40, derandomize=True)
def test_orthogonal_features_have_unit_length(n_columns, n_features, seed):
    rng = np.random.default_rng(seed)
    feature_map = draw_fourier_map(n_columns, n_features, rng)
    points = rng.normal(scale=10.0, size=(5, n_columns))
    assert feature_map.n_columns == n_columns
    assert feature_map.n_features == n_features + n_features % 2
    assert feature_map(points).shape == (5, feature_map.n_features)
    np.testing.assert_allclose((feature_map(points) ** 2).sum(axis=1), 1.0, rtol=1e-13)


@pytest.mark.parametrize("n_features", [1, 7, 12])
def test_fourier_keeps_odd_numbers_of_features(n_features):
    assert draw_fourier_map(2, n_features, np.random.default_rng(0), kind="fourier").n_features == n_features


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1.0, 0.3, np.array([0.1, 1.0, 20.0])])
def test_bandwidth_and_scale_divide_the_distance_from_the_centre(kind, scale):
    rng = np.random.default_rng(7)
    center = rng.normal(size=3)
    feature_map = draw_fourier_map(3, 10, rng, kind=kind, center=center)
    points = rng.normal(size=(6, 3)) * scale
    bandwidth = 0.37
    np.testing.assert_allclose(
        feature_map.with_bandwidth(bandwidth, scale)(points),
        feature_map(center + (points - center) / (bandwidth * np.asarray(scale))),
        atol=1e-12,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_bandwidth_and_scale_belong_to_the_kernel(kind):
    rng = np.random.default_rng(8)
    scale = np.array([0.1, 5.0])
    points = rng.normal(size=(6, 2)) * scale
    features = draw_fourier_map(2, 20_000, rng, kind=kind).with_bandwidth(0.8, scale)(points)
    np.testing.assert_allclose(features @ features.T, gaussian_kernel(points / scale, points / scale, 0.8), atol=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_data_and_centre_move_together(kind):
    points = np.random.default_rng(9).normal(size=(6, 3))
    shift = np.array([64.0, -1024.0, 0.5])
    at_origin = draw_fourier_map(3, 11, np.random.default_rng(10), kind=kind)
    moved = draw_fourier_map(3, 11, np.random.default_rng(10), kind=kind, center=shift)
    np.testing.assert_allclose(moved(points + shift), at_origin(points), atol=1e-10)


def test_centre_saves_digits_far_from_the_origin():
    points = np.arange(12.0).reshape(6, 2) / 16.0
    shift = np.array([2.0**40, -(2.0**41)])  # points + shift is exact in binary
    expected = draw_fourier_map(2, 16, np.random.default_rng(0))(points)
    centred = draw_fourier_map(2, 16, np.random.default_rng(0), center=shift)(points + shift)
    np.testing.assert_array_equal(centred, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_seed_decides(kind):
    first, again, other = (draw_fourier_map(2, 8, np.random.default_rng(seed), kind=kind) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.frequencies, again.frequencies)
    np.testing.assert_array_equal(first.phases, again.phases)
    assert not np.allclose(first.frequencies, other.frequencies)


def test_points_are_not_changed_and_integers_are_accepted():
    feature_map = draw_fourier_map(2, 8, np.random.default_rng(0))
    points = np.arange(6.0).reshape(3, 2)
    before = points.copy()
    features = feature_map(points)
    np.testing.assert_array_equal(points, before)
    np.testing.assert_array_equal(feature_map(points.astype(int).tolist()), features)


@pytest.mark.parametrize("unit", [1e-60, 1.0, 1e60])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_single_precision_in_any_unit_and_far_from_the_origin(unit, offset):
    rng = np.random.default_rng(0)
    points = (rng.normal(size=(200, 3)) + offset) * unit
    draw = draw_fourier_map(3, 50, rng, center=points.mean(axis=0)).with_bandwidth(1.0, unit)
    single = draw(points, np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, draw(points), atol=2e-6)
