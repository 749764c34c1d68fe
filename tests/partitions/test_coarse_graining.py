"""Coarse graining: medoids are locally optimal data points, whatever the size, order or duplication of the points."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from m3c_md.exceptions import InputError
from m3c_md.partitions import nearest
from m3c_md.partitions.k_means import _lloyd, _means_seed, k_means, k_means_cells
from m3c_md.partitions.k_medoids import _seed, k_medoids
from m3c_md.partitions.nearest import assign, drawn_sample, nearly_nearest

METHODS = [k_medoids, k_means]


def blobs(n, rng, n_blobs=5, dim=3, spread=0.05):
    """Points around the corners of a simplex of edge sqrt(2), and the blob of each."""
    truth = rng.permutation(np.arange(n) % n_blobs)
    corners = np.eye(max(n_blobs, dim))[:n_blobs]
    return corners[truth] + spread * rng.normal(size=(n, corners.shape[1])), truth


def mixture(n, rng, dim=4):
    """Overlapping clouds: no clustering is obvious."""
    return 2 * rng.normal(size=(8, dim))[rng.integers(8, size=n)] + rng.normal(size=(n, dim))


def scatter(points, centers):
    return cdist(points, centers).min(axis=1).sum()


def assert_consistent(found, points, k):
    assert found.centers.shape == (k, points.shape[1])
    np.testing.assert_array_equal(found.labels, cdist(points, found.centers).argmin(axis=1))
    np.testing.assert_array_equal(found.counts, np.bincount(found.labels, minlength=k))
    assert found.counts.min() >= 1
    assert found.inertia == pytest.approx(scatter(points, found.centers), rel=1e-10)
    if found.indices is not None:
        assert len(set(found.indices.tolist())) == k
        np.testing.assert_array_equal(points[found.indices], found.centers)
        np.testing.assert_array_equal(found.labels[found.indices], np.arange(k))


class TestBoth:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("max_points", [100, 1000])
    def test_separated_blobs_are_recovered(self, method, max_points):
        points, truth = blobs(400, np.random.default_rng(0))
        found = method(points, 5, np.random.default_rng(1), max_points=max_points)
        assert_consistent(found, points, 5)
        assert found.n_sampled == min(max_points, 400)
        pairs = set(zip(truth.tolist(), found.labels.tolist(), strict=True))
        assert len(pairs) == 5  # a bijection between blobs and clusters

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("max_points", [150, 1000])
    def test_same_seed_same_answer(self, method, max_points):
        points = mixture(400, np.random.default_rng(2))
        first, second = (method(points, 12, np.random.default_rng(3), max_points=max_points) for _ in range(2))
        np.testing.assert_array_equal(first.centers, second.centers)
        np.testing.assert_array_equal(first.labels, second.labels)

    @pytest.mark.parametrize("method", METHODS)
    def test_duplicates(self, method):
        """Seven distinct points, unevenly repeated, and seven clusters: each point is its own centre."""
        distinct = np.random.default_rng(4).normal(size=(7, 2))
        points = np.repeat(distinct, [1, 1, 2, 3, 50, 80, 200], axis=0)
        found = method(points, 7, np.random.default_rng(5))
        assert_consistent(found, points, 7)
        assert sorted(found.counts.tolist()) == [1, 1, 2, 3, 50, 80, 200]
        assert found.inertia == pytest.approx(0.0, abs=1e-9)

    @pytest.mark.parametrize("method", METHODS)
    def test_sample_of_duplicates_still_finds_the_rare_points(self, method):
        points = np.zeros((5000, 2))
        points[[17, 4000]] = [[1.0, 0.0], [0.0, 1.0]]
        found = method(points, 3, np.random.default_rng(6), max_points=20)
        assert_consistent(found, points, 3)
        assert sorted(found.counts.tolist()) == [1, 1, 4998]
        assert found.n_sampled == 20

    @pytest.mark.parametrize("method", METHODS)
    def test_too_few_distinct_points(self, method):
        points = np.repeat([[0.0, 1.0], [2.0, 3.0], [-0.0, 1.0]], 10, axis=0)
        with pytest.raises(InputError, match=r"2 distinct points.*n_clusters=3"):
            method(points, 3, np.random.default_rng(0))

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize(
        ("points", "k", "named"),
        [(np.zeros(5), 2, "shape"), ([[0.0], [np.nan], [1.0]], 2, "point 1"), ([[0.0], [1.0]], 0, "n_clusters=0")],
    )
    def test_bad_input_is_named(self, method, points, k, named):
        with pytest.raises(InputError, match=named):
            method(points, k, np.random.default_rng(0))

    @pytest.mark.parametrize("method", METHODS)
    def test_points_equal_up_to_rounding(self, method):
        """Distinct points whose squared distance underflows: an error, neither an empty cluster nor a warning."""
        points = np.repeat([[0.0], [1e-200], [1.0]], 20, axis=0)
        with pytest.raises(InputError, match="Only 2 of n_clusters=3"):
            method(points, 3, np.random.default_rng(0))

    @pytest.mark.parametrize("method", METHODS)
    def test_input_is_left_alone(self, method):
        points = mixture(100, np.random.default_rng(7))
        kept = points.copy()
        method(points, 4, np.random.default_rng(0), max_points=50)
        np.testing.assert_array_equal(points, kept)

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("k", [1, 6])
    def test_extreme_numbers_of_clusters(self, method, k):
        points = np.random.default_rng(8).normal(size=(6, 2))
        found = method(points, k, np.random.default_rng(0))
        assert_consistent(found, points, k)


class TestMedoids:
    @given(st.integers(0, 10**6))
    @settings(deadline=None, max_examples=20, derandomize=True)
    def test_optimum_of_tiny_problems(self, seed):
        points = np.random.default_rng(seed).normal(size=(10, 2))
        best = min(scatter(points, points[list(m)]) for m in itertools.combinations(range(10), 3))
        found = k_medoids(points, 3, np.random.default_rng(seed), n_restarts=20)
        assert found.inertia == pytest.approx(best, rel=1e-6)

    @pytest.mark.parametrize("k", [1, 5, 20])
    def test_no_exchange_of_a_medoid_helps(self, k):
        points = mixture(300, np.random.default_rng(9))
        found = k_medoids(points, k, np.random.default_rng(10))
        distances = cdist(points, points)
        for leaving in range(k):
            others = distances[np.delete(found.indices, leaving)].min(axis=0, initial=np.inf)
            after = np.minimum(distances, others).sum(axis=1)  # one entry for each entering point
            assert after.min() >= found.inertia * (1 - 3e-6)

    def test_weight_of_duplicates_counts(self):
        points = np.array([[0.0]] * 3 + [[1.0]] + [[1.5]])
        assert k_medoids(points, 1, np.random.default_rng(0)).centers[0, 0] == 0.0

    def test_order_of_points_is_irrelevant(self):
        rng = np.random.default_rng(11)
        points = mixture(500, rng)
        order = rng.permutation(500)
        one = k_medoids(points, 10, np.random.default_rng(0))
        other = k_medoids(points[order], 10, np.random.default_rng(0))
        assert other.inertia == pytest.approx(one.inertia, rel=1e-9)
        np.testing.assert_array_equal(np.sort(order[other.indices]), one.indices)

    @pytest.mark.parametrize(("scale", "shift"), [(1e-60, 0.0), (1e60, 0.0), (1.0, 1e6)])
    def test_scale_and_origin_are_irrelevant(self, scale, shift):
        points = mixture(400, np.random.default_rng(12))
        one = k_medoids(points, 8, np.random.default_rng(0))
        other = k_medoids(points * scale + shift, 8, np.random.default_rng(0))
        assert other.inertia == pytest.approx(one.inertia * scale, rel=1e-2)

    def test_float32_points(self):
        points = mixture(300, np.random.default_rng(13)).astype(np.float32)
        assert_consistent(k_medoids(points, 6, np.random.default_rng(0)), points, 6)

    def test_nearly_equal_points(self):
        """Distinct points whose distances the table cannot resolve still give distinct medoids."""
        points = np.array([[1.0], [1.0 + 1e-12], [1.0 + 2e-12], [-1e6], [3.0]])
        assert_consistent(k_medoids(points, 5, np.random.default_rng(0)), points, 5)

    def test_better_than_rounding_k_means_to_data(self):
        points = mixture(600, np.random.default_rng(14))
        means = k_means(points, 15, np.random.default_rng(0))
        rounded = points[cdist(means.centers, points).argmin(axis=1)]
        assert k_medoids(points, 15, np.random.default_rng(0)).inertia < scatter(points, rounded)

    def test_sample_is_nearly_as_good(self):
        points = mixture(2000, np.random.default_rng(15))
        exact = k_medoids(points, 10, np.random.default_rng(0), n_restarts=4)
        sampled = k_medoids(points, 10, np.random.default_rng(0), n_restarts=4, max_points=500)
        assert_consistent(sampled, points, 10)
        assert sampled.n_sampled == 500
        assert sampled.inertia < 1.03 * exact.inertia

    def test_memory_is_bounded(self):
        points = mixture(50_000, np.random.default_rng(16))
        tracemalloc.start()
        found = k_medoids(points, 30, np.random.default_rng(0), n_restarts=2, max_points=1000)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(found.labels) == 50_000
        assert peak < 4 * 1000**2 + 2e7  # the distance table and blocks; all pairs would need 1e10

    @pytest.mark.parametrize("max_points", [0, 2, 19])
    def test_a_sample_holds_at_least_as_many_points_as_clusters(self, max_points):
        points = mixture(50, np.random.default_rng(19))
        found = k_medoids(points, 20, np.random.default_rng(0), max_points=max_points)
        assert_consistent(found, points, 20)
        assert found.n_sampled == 20

    @pytest.mark.parametrize("n_restarts", [0, -1])
    def test_bad_options_are_named(self, n_restarts):
        with pytest.raises(InputError, match=f"n_restarts={n_restarts} must be positive"):
            k_medoids(np.arange(10.0)[:, None], 3, np.random.default_rng(0), n_restarts=n_restarts)


class TestMeans:
    def test_centers_are_means(self):
        points, _ = blobs(300, np.random.default_rng(17))
        found = k_means(points, 5, np.random.default_rng(0))
        means = [points[found.labels == k].mean(axis=0) for k in range(5)]
        np.testing.assert_allclose(found.centers, means, atol=1e-9)
        assert found.indices is None


class TestAssign:
    @given(st.integers(0, 10**6), st.sampled_from([0.0, 1e3, 1e8]))
    @settings(deadline=None, max_examples=30, derandomize=True)
    def test_nearest_also_far_from_the_origin(self, seed, shift):
        rng = np.random.default_rng(seed)
        points, centers = rng.normal(size=(500, 3)) + shift, rng.normal(size=(17, 3)) + shift
        np.testing.assert_array_equal(assign(points, centers), cdist(points, centers, "sqeuclidean").argmin(axis=1))

    @given(st.integers(0, 10**6), st.sampled_from([1.0, 0.1]))
    @settings(deadline=None, max_examples=30, derandomize=True)
    def test_ties_go_to_the_lowest_index(self, seed, step):
        """Points and centres of one grid, in which most nearest centres are tied, some centres even doubled."""
        rng = np.random.default_rng(seed)
        points, centers = rng.integers(-2, 3, (200, 2)), rng.integers(-2, 3, (9, 2))
        squares = ((points[:, None] - centers) ** 2).sum(axis=2)  # exact in integers
        labels = assign(points * step, centers * step)
        if step == 1.0:
            np.testing.assert_array_equal(labels, squares.argmin(axis=1))
        else:  # the step is rounded: nearest still, ties up to that rounding
            np.testing.assert_array_equal(squares[np.arange(200), labels], squares.min(axis=1))

    def test_blocks_do_not_show(self):
        rng = np.random.default_rng(18)
        points, centers = rng.normal(size=(20_000, 2)), rng.normal(size=(50, 2))
        np.testing.assert_array_equal(assign(points, centers), cdist(points, centers).argmin(axis=1))

    def test_no_points(self):
        assert assign(np.empty((0, 2)), np.zeros((3, 2))).shape == (0,)

    def test_shapes_are_checked(self):
        with pytest.raises(InputError, match=r"\(5, 2\).*\(3, 4\)"):
            assign(np.zeros((5, 2)), np.zeros((3, 4)))


@pytest.mark.parametrize("method", METHODS)
def test_numbers_of_any_kind_will_do(method):
    points = np.random.default_rng(0).integers(50, size=(60, 2))
    expected = method(points.astype(np.float64), 4, np.random.default_rng(1))
    for kind in (np.int16, np.float32, object):
        found = method(points.astype(kind), 4, np.random.default_rng(1))
        np.testing.assert_array_equal(found.centers, expected.centers)
        assert found.centers.dtype == np.float64


@pytest.mark.parametrize("far", [0, 2, 5])
def test_seeds_go_where_the_distance_is(far):
    """Of six points five are one: the other is drawn whatever its place and the random number, first or second."""
    x = np.zeros((6, 1))
    x[far] = 1.0
    for seed in range(10):
        medoids = _seed(cdist(x, x).astype(np.float32), np.ones(6, dtype=np.float32), 2, np.random.default_rng(seed))
        means = _means_seed(x, 2, np.random.default_rng(seed))
        for chosen in (medoids, means):
            assert far in chosen
            assert len(set(chosen.tolist())) == 2


def test_heavy_points_are_seeds_more_often():
    """The first medoid is drawn by weight, the second by weight times distance."""
    x, weights = np.array([[0.0], [1.0], [2.0]]), np.array([1e-9, 1.0, 1e-9], dtype=np.float32)
    distances = cdist(x, x).astype(np.float32)
    for seed in range(10):
        assert _seed(distances, weights, 2, np.random.default_rng(seed))[0] == 1


class TestAssignWithoutNumba:
    """The array code, which stands in where numba is missing."""

    @pytest.fixture(autouse=True)
    def _arrays(self, monkeypatch):
        monkeypatch.setattr(nearest, "compiled", lambda: None)

    @pytest.mark.parametrize("origin", [0.0, 1e8])
    def test_ties_go_to_the_lowest_and_far_from_the_origin_nothing_cancels(self, origin, monkeypatch):
        monkeypatch.setattr(nearest, "BLOCK_ENTRIES", 64)
        grid = np.array(list(itertools.product(range(6), repeat=2)), dtype=np.float64)
        centers = np.array([[1.0, 1.0], [1.0, 3.0], [3.0, 1.0], [3.0, 3.0], [3.0, 3.0]])
        expected = cdist(grid, centers, "sqeuclidean").argmin(axis=1)
        np.testing.assert_array_equal(assign(grid + origin, centers + origin), expected)

    def test_one_centre(self):
        assert assign([[0.0], [5.0]], [[2.0]]).tolist() == [0, 0]


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_centre_that_lost_its_points_goes_where_it_is_missed_most(side):
    x = np.array([[0.0], [0.1], [0.2], [0.3], [side * 5.0]])
    centers, squares, converged = _lloyd(x, np.array([[0.1], [100.0]]), 20, assign)
    assert converged
    np.testing.assert_allclose(np.sort(centers.ravel()), np.sort([0.15, side * 5.0]))
    assert squares == pytest.approx(0.15**2 * 2 + 0.05**2 * 2)


def test_samples_have_no_point_twice():
    x = np.random.default_rng(0).normal(size=(50, 2))
    sample = drawn_sample(x, 40, 3, np.random.default_rng(1))
    assert len(np.unique(sample)) == len(sample) == 40
    assert (np.diff(sample) > 0).all()
    np.testing.assert_array_equal(drawn_sample(x, 50, 3, np.random.default_rng(1)), np.arange(50))


@pytest.mark.parametrize(("unit", "origin"), [(1.0, 0.0), (1e-60, 0.0), (1e60, 0.0), (1.0, 1e7)])
@pytest.mark.parametrize("dim", [1, 4, 36])
def test_nearly_the_nearest_centre_is_nearly_as_near(dim, unit, origin):
    rng = np.random.default_rng(dim)
    points, centers = mixture(5000, rng, dim), mixture(200, rng, dim)
    nearly = nearly_nearest(unit * (points + origin), unit * (centers + origin))
    distances = cdist(points, centers)
    assert (distances[np.arange(5000), nearly] <= distances.min(axis=1) * (1.0 + 1e-4) + 1e-4).all()
    assert np.mean(nearly == distances.argmin(axis=1)) > 0.999


@pytest.mark.parametrize("distance", [1e3, 1e6, 1e9])
def test_a_centre_far_away_does_not_blur_the_others(distance):
    rng = np.random.default_rng(3)
    points, centers = mixture(5000, rng, 4), mixture(100, rng, 4)
    centers[7] += distance
    assert np.mean(nearly_nearest(points, centers) == cdist(points, centers).argmin(axis=1)) > 0.999


def test_points_far_from_all_centres_have_some_centre():
    points = np.array([[0.0], [1e30], [-1e30]])
    assert set(nearly_nearest(points, np.array([[0.0], [1.0]]))) <= {0, 1}


def test_cells_without_points_are_left_out_and_all_others_numbered():
    points = np.repeat([[0.0], [1.0], [5.0]], 30, axis=0)
    centers, cells = k_means_cells(points, 3, np.random.default_rng(0), max_points=90, max_iterations=5)
    np.testing.assert_array_equal(np.unique(cells), np.arange(len(centers)))
    np.testing.assert_allclose(centers[cells], points)


def test_cells_are_about_as_tight_as_those_of_exact_distances():
    points = mixture(6000, np.random.default_rng(1))
    centers, cells = k_means_cells(points, 100, np.random.default_rng(0), max_points=3000, max_iterations=10)
    exact = k_means(points, 100, np.random.default_rng(0), n_restarts=1, max_points=3000, max_iterations=10)
    assert np.linalg.norm(points - centers[cells], axis=1).sum() < 1.03 * exact.inertia
