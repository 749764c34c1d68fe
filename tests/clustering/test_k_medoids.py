"""KMedoids: medoids are frames, the scatter is what it claims to be, and no simpler search does better."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from m3c_md import KMedoids
from m3c_md.clustering.k_medoids import KMedoidsModel
from m3c_md.exceptions import InputError, RareStateWarning
from m3c_md.partitions.k_medoids import k_medoids
from tests.conftest import Wells, hidden_markov_wells


def scatter_of(model: KMedoidsModel, frames: np.ndarray) -> float:
    """From the definition: distances in units of the scale to the nearest centre."""
    return float(cdist(frames / model.scale, model.centers / model.scale).min(axis=1).sum())


def best_scatter(points: np.ndarray, n_clusters: int) -> float:
    """Least scatter over all choices of medoids."""
    distances = cdist(points, points)
    return min(float(distances[list(c)].min(axis=0).sum()) for c in combinations(range(len(points)), n_clusters))


def plain_pam(points: np.ndarray, n_clusters: int, rng: np.random.Generator) -> float:
    """Scatter after one random start improved by the best exchange until none helps, as in textbooks."""
    distances = cdist(points, points)
    medoids = list(rng.choice(len(points), n_clusters, replace=False))
    best = distances[medoids].min(axis=0).sum()
    while True:
        trials = [[*medoids[:i], j, *medoids[i + 1 :]] for i in range(n_clusters) for j in range(len(points))]
        values = [distances[trial].min(axis=0).sum() for trial in trials]
        if min(values) >= best - 1e-12:
            return float(best)
        best, medoids = min(values), trials[int(np.argmin(values))]


def some_frames(seed: int, n_frames: int = 40) -> np.ndarray:
    """Columns of very different units."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_frames, 3)) * [1e-3, 1.0, 700.0]


class TestMedoids:
    @pytest.mark.parametrize("scale", ["none", "standard"])
    def test_centres_are_frames_to_the_last_bit(self, scale: str) -> None:
        for seed in range(20):
            x = some_frames(seed)
            model = KMedoids(3, scale=scale, n_restarts=2, random_state=0).fit_fetch(x)
            assert all((x == centre).all(axis=1).any() for centre in model.centers)

    def test_each_centre_lies_in_its_own_state(self, three_wells: Wells) -> None:
        model = KMedoids(3, random_state=0).fit_fetch(three_wells.frames)
        assert model.centers.shape == (3, 2)
        assert model.transform(model.centers).tolist() == [0, 1, 2]
        assert model.decision_function(model.centers).max(axis=1) == pytest.approx(0.0, abs=1e-12)

    def test_a_frame_has_the_state_of_its_nearest_medoid(self) -> None:
        x = some_frames(1, 200)
        model = KMedoids(4, n_restarts=2, random_state=0).fit_fetch(x)
        new = 2.0 * some_frames(2, 100)
        distances = cdist(new / x.std(axis=0), model.centers / x.std(axis=0))
        assert np.array_equal(model.transform(new), distances.argmin(axis=1))
        assert model.decision_function(new) == pytest.approx(-distances, rel=1e-12)
        assert np.array_equal(model.memberships(new), np.eye(4)[distances.argmin(axis=1)])

    def test_no_frame_would_be_a_better_medoid_of_its_cluster(self) -> None:
        x = some_frames(3, 150)
        model = KMedoids(3, scale="none", random_state=0).fit_fetch(x)
        labels = model.transform(x)
        for state in range(3):
            inside = x[labels == state]
            sums = cdist(inside, inside).sum(axis=0)
            mine = cdist(model.centers[state : state + 1], inside).sum()
            assert mine <= sums.min() * (1.0 + 1e-5)


class TestScatter:
    @pytest.mark.parametrize("scale", ["none", "standard"])
    @pytest.mark.parametrize("n_frames", [50, 4000])
    def test_it_is_the_sum_of_distances(self, n_frames: int, scale: str) -> None:
        x = some_frames(5, n_frames)
        model = KMedoids(3, scale=scale, n_restarts=2, random_state=0).fit_fetch(x)
        assert model.scatter == pytest.approx(scatter_of(model, x), rel=1e-9)
        assert f"scatter={model.scatter:.4g}" in repr(model)

    @given(st.integers(0, 10**6), st.integers(2, 3), st.booleans())
    @settings(deadline=None, max_examples=20, derandomize=True)
    def test_optimal_on_small_data(self, seed: int, n_states: int, on_a_grid: bool) -> None:
        rng = np.random.default_rng(seed)
        x = rng.integers(0, 6, size=(14, 2)).astype(float) if on_a_grid else rng.normal(size=(14, 2))
        if len(np.unique(x, axis=0)) < n_states:
            return
        model = KMedoids(n_states, scale="none", random_state=0).fit_fetch(x)
        assert scatter_of(model, x) == pytest.approx(best_scatter(x, n_states), rel=1e-5)
        assert (np.bincount(model.transform(x), minlength=n_states) > 0).all()

    @pytest.mark.parametrize("seed", range(3))
    def test_not_worse_than_the_plain_exchange_from_several_starts(self, seed: int) -> None:
        x = np.random.default_rng(seed).normal(size=(60, 2))
        plain = min(plain_pam(x, 4, np.random.default_rng(100 + start)) for start in range(3))
        model = KMedoids(4, scale="none", random_state=0).fit_fetch(x)
        assert model.scatter <= plain * (1.0 + 1e-5)

    def test_more_restarts_are_not_worse(self) -> None:
        x = np.random.default_rng(3).normal(size=(200, 4))
        few, many = (KMedoids(6, n_restarts=n, random_state=1).fit_fetch(x).scatter for n in (1, 40))
        assert many <= few

    def test_beyond_a_sample_the_clusters_are_found_all_the_same(self) -> None:
        x, states = hidden_markov_wells(4000, 3, stay=0.5)
        model = KMedoids(3, n_restarts=2, random_state=0).fit_fetch(x)
        labels = model.transform(x)
        means = np.array([x[labels == state].mean(axis=0) for state in range(3)])
        # The medoid of a round cloud of about 1300 frames with a width of 0.25 is next to its mean.
        assert np.abs(means - model.centers).max() < 0.05
        assert len(np.unique(np.column_stack([labels, states]), axis=0)) == 3

    def test_more_states_than_points_in_a_sample(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # Small samples, because thousands of states, as samples of the usual size ask for, take half a minute.
        monkeypatch.setitem(k_medoids.__kwdefaults__, "max_points", 30)
        x = some_frames(8, 50)
        model = KMedoids(31, random_state=0).fit_fetch(x)
        assert model.n_states == 31
        assert (np.bincount(model.transform(x), minlength=31) > 0).all()
        assert model.scatter == pytest.approx(scatter_of(model, x), rel=1e-9)


class TestDuplicates:
    def test_medoids_are_distinct(self) -> None:
        x = np.repeat([0.0, 0.0, 0.0, 1.0, 7.0], [500, 300, 200, 1, 1])
        with pytest.warns(RareStateWarning, match=r"the smallest state has 0\.10% of the frames, .* outlier"):
            model = KMedoids(3, random_state=0).fit_fetch(x)
        assert sorted(model.centers.ravel().round(12)) == [0.0, 1.0, 7.0]
        assert model.populations == pytest.approx(np.array([1000, 1, 1]) / 1002)
        assert model.scatter == pytest.approx(0.0, abs=1e-12)

    def test_rare_frames_in_a_crowd_larger_than_a_sample(self) -> None:
        x = np.concatenate([np.zeros(5000), [1.0, 1.0, 9.0]])
        with pytest.warns(RareStateWarning):
            model = KMedoids(3, n_restarts=2, random_state=0).fit_fetch(x)
        assert sorted(model.centers.ravel().round(12)) == [0.0, 1.0, 9.0]

    def test_counts_of_duplicates_weigh(self) -> None:
        # One cluster too few: the pair with fewer frames has to share a medoid with its neighbour.
        x = np.repeat([0.0, 1.0, 10.0, 11.5], [50, 50, 3, 1])
        model = KMedoids(3, scale="none", random_state=0).fit_fetch(x)
        assert model.centers.ravel().tolist() == [0.0, 1.0, 10.0] or model.centers.ravel().tolist() == [1.0, 0.0, 10.0]
        assert model.scatter == pytest.approx(1.5)

    def test_too_few_distinct_frames(self) -> None:
        with pytest.raises(InputError, match=r"n_states=3, but there are only 2 distinct frames; ask for fewer"):
            KMedoids(3).fit(np.repeat([0.0, 1.0], 50))

    def test_every_frame_a_state_of_its_own(self) -> None:
        x = np.arange(6.0)
        model = KMedoids(6, random_state=0).fit_fetch(x)
        assert sorted(model.transform(x)) == list(range(6))
        assert model.scatter == pytest.approx(0.0, abs=1e-12)


class TestTies:
    def test_populations_are_those_of_transform(self) -> None:
        # Frame 1 is as far from medoid 0 as from medoid 2.
        x = np.repeat([0.0, 1.0, 2.0], [3, 1, 5])
        model = KMedoids(2, scale="none", random_state=0).fit_fetch(x)
        assert sorted(model.centers.ravel()) == [0.0, 2.0]
        assert model.populations == pytest.approx(np.bincount(model.transform(x)) / 9)

    def test_the_largest_score_decides(self) -> None:
        x = np.repeat([0.0, 2.0, 6.0], [3, 4, 5])
        model = KMedoids(3, scale="none", random_state=0).fit_fetch(x)
        halfway = np.array([1.0, 4.0])
        assert np.array_equal(model.transform(halfway), model.decision_function(halfway).argmax(axis=1))
        assert model.margin(halfway).tolist() == [0.0, 0.0]


class TestBlindToTime:
    def test_shuffled_frames_have_the_same_clusters(self, three_wells: Wells) -> None:
        x = three_wells.frames
        shuffled = np.random.default_rng(0).permutation(x)
        one, other = (KMedoids(3, random_state=0).fit_fetch(data) for data in (x, shuffled))
        assert one.scatter == pytest.approx(other.scatter, rel=1e-6)
        assert np.array_equal(one.transform(x), other.transform(x))
