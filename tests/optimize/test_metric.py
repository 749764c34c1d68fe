"""Metrics: known answers from brute force and from deeptime, units that do not matter, columns that say nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from deeptime.decomposition import TICA
from numpy.testing import assert_allclose

from m3c_md.optimize.blocks import Rule
from m3c_md.optimize.feature_map import FourierMap, draw_fourier_map, gaussian_kernel
from m3c_md.optimize.metric import (
    CHUNK,
    MOST_DIRECTIONS,
    LaggedMoments,
    Metric,
    gradient_metric,
    kinetic_metric,
    lagged_moments,
    mean_and_spread,
    root_mean_square_distance,
    shared_metric,
    square_root,
    typical_values,
    with_extent,
)


def memory(persistence: Any, n_frames: int, seed: int = 0) -> np.ndarray:
    """Columns of unit variance that forget exponentially, each at its own rate."""
    rng, rho = np.random.default_rng(seed), np.asarray(persistence, dtype=float)
    noise = rng.normal(size=(n_frames, len(rho))) * np.sqrt(1.0 - rho**2)
    frames = np.empty_like(noise)
    frames[0] = rng.normal(size=len(rho))
    for t in range(1, n_frames):
        frames[t] = rho * frames[t - 1] + noise[t]
    return frames


def moments_of(frames: np.ndarray, lag: int = 1, scale: np.ndarray | None = None) -> LaggedMoments:
    times = np.arange(len(frames) - lag)
    return lagged_moments(frames, times, times + lag, frames.std(axis=0) if scale is None else scale)


def square(metric: Metric) -> np.ndarray:
    """M with its trace divided out: what is left does not depend on the unit of distance."""
    full = metric.full_matrix()
    return np.asarray(full / np.trace(full))


class TestMetric:
    def test_factors_and_a_diagonal_matrix_are_the_same_metric(self) -> None:
        rng = np.random.default_rng(0)
        factors, frames, drawn = rng.uniform(0.5, 2.0, 4), rng.normal(size=(9, 4)), rng.normal(size=(4, 7))
        one, other = Metric("factors", factors), Metric("matrix", np.diag(factors))
        assert one.n_directions == other.n_directions == 4
        assert_allclose(one(frames), other(frames))
        assert_allclose(one.frequencies(drawn), other.frequencies(drawn))
        assert_allclose(one.full_matrix(), other.full_matrix())

    def test_the_full_matrix_gives_the_squared_distances_of_coordinates(self) -> None:
        rng = np.random.default_rng(1)
        metric, (x, y) = Metric("few", rng.normal(size=(5, 2))), rng.normal(size=(2, 5))
        apart = metric((x - y)[None])[0]
        assert apart.shape == (2,)
        assert (x - y) @ metric.full_matrix() @ (x - y) == pytest.approx(apart @ apart)

    @pytest.mark.parametrize("kind", ["orthogonal", "fourier"])
    def test_features_have_the_inner_products_of_the_kernel_in_its_coordinates(self, kind: Any) -> None:
        rng = np.random.default_rng(2)
        metric, frames = Metric("few", rng.normal(size=(4, 2))), rng.normal(size=(40, 4)) + 7.0
        drawn = draw_fourier_map(2, 20_000, rng, kind=kind)
        features = FourierMap(metric.frequencies(drawn.frequencies), drawn.phases, frames.mean(axis=0))
        phi = features.with_bandwidth(1.7)(frames)
        assert_allclose(phi @ phi.T, gaussian_kernel(metric(frames), metric(frames), 1.7), atol=0.05)


class TestLaggedMoments:
    def test_they_are_those_of_both_ends_of_all_windows(self) -> None:
        frames = memory([0.9, 0.2, 0.5], 300) @ np.random.default_rng(1).normal(size=(3, 3)) + [1e3, 0.0, -5.0]
        scale = frames.std(axis=0)
        found = moments_of(frames, 4)
        scaled = (frames - frames.mean(axis=0)) / scale
        x, y = scaled[:-4], scaled[4:]
        mean = 0.5 * (x + y).mean(axis=0)
        instantaneous = 0.5 * ((x - mean).T @ (x - mean) + (y - mean).T @ (y - mean)) / len(x)
        lagged = (x - mean).T @ (y - mean) / len(x)
        assert_allclose(found.instantaneous, instantaneous, atol=1e-5)
        assert_allclose(found.lagged, 0.5 * (lagged + lagged.T), atol=1e-5)

    def test_chunks_do_not_matter(self) -> None:
        frames = memory([0.9, 0.5], CHUNK + 500)
        whole = moments_of(frames)
        x, y = (frames[:-1], frames[1:])
        both = np.concatenate([x, y]) / frames.std(axis=0)
        assert_allclose(whole.instantaneous, np.cov(both.T, ddof=0), atol=1e-4)


class TestKinetic:
    frames = memory([0.98, 0.9, 0.5, 0.0], 4000)

    @pytest.mark.parametrize("lag", [1, 5])
    def test_autocorrelations_are_the_eigenvalues_of_tica(self, lag: int) -> None:
        mixed = self.frames @ np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))[0]
        values, vectors = moments_of(mixed, lag).slow_directions
        tica = TICA(lagtime=lag).fit((mixed[:-lag], mixed[lag:])).fetch_model()
        expected = tica.singular_values
        assert_allclose(values[:2], expected[:2], rtol=0.02)
        slowest = (mixed / mixed.std(axis=0)) @ vectors[:, 0]
        assert abs(np.corrcoef(slowest, tica.transform(mixed)[:, 0])[0, 1]) > 0.999

    def test_without_collinear_columns_the_ridge_hardly_matters(self) -> None:
        values, _ = moments_of(self.frames).slow_directions
        expected = TICA(lagtime=1).fit((self.frames[:-1], self.frames[1:])).fetch_model().singular_values
        assert_allclose(values[:3], expected[:3], rtol=0.02)

    def test_slow_columns_weigh_more_and_more_with_the_sharpness(self) -> None:
        moments = moments_of(self.frames)
        weights = [np.diag(square(kinetic_metric("k", moments, sharpness, 4))) for sharpness in (1.0, 2.0)]
        for one in weights:
            assert (np.diff(one) < 0.0).all()
        assert weights[1][0] > weights[0][0]
        assert weights[1][2] < weights[0][2]

    def test_no_more_directions_than_asked_for_nor_such_that_forget_at_once(self) -> None:
        assert kinetic_metric("k", moments_of(self.frames), 1.0, 2).matrix.shape == (4, 2)
        alternating = np.random.default_rng(0).normal(size=(500, 3)) + 3.0 * (-1.0) ** np.arange(500)[:, None]
        assert kinetic_metric("k", moments_of(alternating), 1.0, 3).n_directions < 3

    def test_units_and_origins_of_columns_do_not_matter(self) -> None:
        units = np.array([1e-3, 1.0, 50.0, 1e4])
        for make in (lambda m: kinetic_metric("k", m, 1.0, 4), lambda m: shared_metric("s", m, 4)):
            one, other = make(moments_of(self.frames)), make(moments_of(self.frames * units + 100.0 * units))
            assert_allclose(other.full_matrix() * np.outer(units, units), one.full_matrix(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("n_frames", [1, 2, 8192, 20_001])
def test_means_and_spreads_are_those_of_all_frames_at_once(n_frames: int) -> None:
    frames = 1e6 + np.random.default_rng(0).normal(size=(n_frames, 3)) * [1e-3, 1.0, 1e3]
    mean, spread = mean_and_spread(frames)
    assert_allclose(mean, frames.mean(axis=0), rtol=1e-14)
    assert_allclose(spread, frames.std(axis=0), rtol=1e-9)


def test_what_columns_share_comes_before_one_slow_column_alone() -> None:
    """Six columns show one process, a seventh is slower than it; TICA takes the seventh, the shared metric the six."""
    slow, noise = memory([0.95, 0.98], 20_000), np.random.default_rng(1).normal(size=(20_000, 6))
    frames = np.column_stack([slow[:, :1] + 0.7 * noise, slow[:, 1]])
    moments = moments_of(frames)
    by_kinetics, by_sharing = kinetic_metric("k", moments, 1.0, 1), shared_metric("s", moments, 1)
    assert np.diag(square(by_kinetics))[6] > 0.9
    assert np.diag(square(by_sharing))[6] < 0.05
    assert_allclose(np.diag(square(by_sharing))[:6], 1.0 / 6.0, atol=0.03)


class TestOddColumns:
    def metrics(self, frames: np.ndarray) -> list[Metric]:
        spread = frames.std(axis=0)
        moments = moments_of(frames, scale=np.where(spread > 0.0, spread, 1.0))
        return [kinetic_metric("k", moments, 1.0, 50), shared_metric("s", moments, 50)]

    def test_a_constant_column_has_no_weight(self) -> None:
        frames = np.insert(memory([0.95, 0.5], 800), 1, 3.0, axis=1)
        for metric in self.metrics(frames):
            assert np.isfinite(metric.matrix).all()
            assert np.ptp(metric(frames), axis=0).max() > 0.5
            assert np.abs(metric.matrix[1]).max() < 1e-6 * np.abs(metric.matrix).max()

    @pytest.mark.parametrize("n_copies", [2, 5])
    def test_a_repeated_column_is_as_one_for_slowness(self, n_copies: int) -> None:
        frames = memory([0.95, 0.7], 3000)
        repeated = np.column_stack([np.repeat(frames[:, :1], n_copies, axis=1), frames[:, 1]])
        one, other = (self.metrics(x)[0] for x in (frames, repeated))
        distances = [
            np.linalg.norm(np.diff(metric(x[::50]), axis=0), axis=1) for metric, x in ((one, frames), (other, repeated))
        ]
        assert_allclose(distances[1], distances[0], rtol=0.03)

    def test_a_column_that_is_the_sum_of_others_adds_no_direction(self) -> None:
        frames = memory([0.95, 0.7], 3000)
        values, _ = moments_of(np.column_stack([frames, frames.sum(axis=1)])).slow_directions
        assert_allclose(values[:2], moments_of(frames).slow_directions[0], rtol=0.02)
        assert values[2] < 0.05

    def test_more_columns_than_frames(self) -> None:
        frames = np.random.default_rng(0).normal(size=(40, 120))
        for metric in self.metrics(frames):
            assert np.isfinite(metric.matrix).all()
            assert 1 <= metric.n_directions <= MOST_DIRECTIONS
            assert np.ptp(metric(frames), axis=0).max() > 0.0


class TestGradient:
    def case(self, units: Any = 1.0) -> tuple[FourierMap, Rule, np.ndarray, np.ndarray]:
        """A rule of three states on four columns, frames, and their weights; the same rule in other units."""
        rng = np.random.default_rng(0)
        drawn = draw_fourier_map(4, 30, rng, kind="fourier", center=rng.normal(size=4)).with_bandwidth(1.5)
        rule = Rule(rng.normal(size=(3, 30)), rng.normal(size=3))
        frames, weights = rng.normal(size=(60, 4)), rng.uniform(0.2, 1.0, 60)
        column = np.ones(4) * units
        scaled = FourierMap(drawn.frequencies / column[:, None], drawn.phases, drawn.center * column)
        return scaled, rule, frames * column, weights / weights.sum()

    def by_brute_force(
        self, feature_map: FourierMap, rule: Rule, frames: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Sum of outer products of gradients by central differences of the scores, centred over the states."""
        step = 1e-5
        gradients = np.empty((3, len(frames), 4))
        for column in range(4):
            moved = np.zeros(4)
            moved[column] = step
            gradients[:, :, column] = (
                rule.scores(feature_map(frames + moved)) - rule.scores(feature_map(frames - moved))
            ) / (2.0 * step)
        gradients -= gradients.mean(axis=0)
        return np.asarray(np.einsum("n,kni,knj->ij", weights, gradients, gradients))

    def test_it_is_the_mean_outer_product_of_gradients(self) -> None:
        case = self.case()
        metric = gradient_metric("g", *case, np.ones(4))
        expected = self.by_brute_force(*case)
        assert_allclose(metric.full_matrix(), expected, rtol=1e-4, atol=1e-4 * np.trace(expected))

    def test_what_all_scores_have_in_common_does_not_count(self) -> None:
        feature_map, rule, *data = self.case()
        lifted = Rule(rule.weights + np.linspace(-3.0, 3.0, 30), rule.bias)
        one, other = (gradient_metric("g", feature_map, r, *data, np.ones(4)).full_matrix() for r in (rule, lifted))
        assert_allclose(other, one, rtol=1e-4, atol=1e-4 * np.trace(one))

    @pytest.mark.parametrize("scale", [np.ones(4), np.array([1e-3, 1.0, 20.0, 5e3])])
    def test_it_follows_the_units_of_the_columns(self, scale: np.ndarray) -> None:
        units = np.array([1e-3, 1.0, 20.0, 5e3])
        one = gradient_metric("g", *self.case(), np.ones(4)).full_matrix()
        other = gradient_metric("g", *self.case(units), units).full_matrix()
        assert_allclose(other * np.outer(units, units), one, rtol=1e-3, atol=1e-4 * np.trace(one))

    def test_columns_that_the_rule_does_not_see_have_no_weight(self) -> None:
        feature_map, rule, frames, weights = self.case()
        blind = replace(feature_map, frequencies=feature_map.frequencies * np.array([1.0, 0.0, 1.0, 0.0])[:, None])
        relevance = np.diag(square(gradient_metric("g", blind, rule, frames, weights, np.ones(4))))
        assert relevance[[1, 3]].max() < 1e-12
        assert relevance[[0, 2]].min() > 0.05

    def test_directions_come_largest_first(self) -> None:
        sizes = np.linalg.norm(gradient_metric("g", *self.case(), np.ones(4)).matrix, axis=0)
        assert (np.diff(sizes) <= 0.0).all()


def test_directions_have_signs_of_their_own() -> None:
    """Eigenvectors come with either sign; the features of a metric must not depend on which."""
    moments = moments_of(memory([0.98, 0.9, 0.5], 2000) @ np.random.default_rng(0).normal(size=(3, 3)))
    rooted = Metric("root", square_root(moments.lagged @ moments.lagged))
    for metric in (kinetic_metric("k", moments, 1.0, 3), shared_metric("s", moments, 3), rooted):
        scaled = metric.matrix if metric is rooted else metric.matrix * moments.scale[:, None]
        assert scaled.shape[1] > 1
        assert (scaled.max(axis=0) >= -scaled.min(axis=0)).all()


class TestSquareRoot:
    def test_outer_products_add_up(self) -> None:
        factor = np.random.default_rng(0).normal(size=(6, 3))
        root = square_root(factor @ factor.T)
        assert root.shape == (6, 3)
        assert_allclose(root @ root.T, factor @ factor.T, atol=1e-10)
        assert_allclose(root.T @ root, np.diag(np.diag(root.T @ root)), atol=1e-10)

    def test_of_many_directions_the_largest_are_kept(self) -> None:
        root = square_root(np.diag(np.arange(1.0, MOST_DIRECTIONS + 21.0)))
        assert root.shape == (MOST_DIRECTIONS + 20, MOST_DIRECTIONS)
        assert_allclose((root**2).sum(), np.arange(21.0, MOST_DIRECTIONS + 21.0).sum())


class TestExtent:
    def test_distances_are_as_large_as_those_of_scaled_columns(self) -> None:
        rng = np.random.default_rng(0)
        frames, scale = rng.normal(size=(50, 3)) * [1.0, 5.0, 0.1] + 1e3, np.array([2.0, 1.0, 0.3])
        metric = Metric("m", 1e-4 * rng.normal(size=(3, 2)))
        changed = with_extent(metric, frames, scale)
        assert root_mean_square_distance(changed(frames)) == pytest.approx(root_mean_square_distance(frames / scale))
        assert_allclose(square(changed), square(metric))

    def test_where_all_frames_are_alike_there_is_no_unit(self) -> None:
        metric = Metric("blind", np.array([[0.0], [1.0]]))
        frames = np.column_stack([np.arange(5.0), np.zeros(5)])
        assert with_extent(metric, frames, np.ones(2)) is metric


class TestTypicalValues:
    """A few frames far away decide nothing; a state, however far away and rare, does."""

    frames = memory([0.9, 0.5, 0.0], 3000, seed=4) * [1.0, 1e3, 1e-3] + [0.0, 1e4, 1.0]

    def test_without_outliers_they_are_means_and_spreads_to_the_bit(self) -> None:
        typical, (mean, spread) = typical_values(self.frames), mean_and_spread(self.frames)
        np.testing.assert_array_equal(typical.mean, mean)
        np.testing.assert_array_equal(typical.spread, spread)
        assert typical.clipped(self.frames) is self.frames

    @pytest.mark.parametrize("n_outliers", [1, 5, 10])
    @pytest.mark.parametrize("away", [1e2, -1e9])
    def test_a_few_frames_far_away_leave_units_as_they_were(self, n_outliers: int, away: float) -> None:
        spoilt = self.frames.copy()
        spoilt[np.arange(n_outliers) * 97, 1] += 1e3 * away
        assert mean_and_spread(spoilt)[1][1] > 2.0 * mean_and_spread(self.frames)[1][1]
        typical, (mean, spread) = typical_values(spoilt), mean_and_spread(self.frames)
        assert_allclose(typical.spread, spread, rtol=0.05)
        assert (np.abs(typical.mean - mean) < 0.05 * spread).all()
        clipped = typical.clipped(spoilt)
        assert np.abs(clipped[:, 1] - mean[1]).max() < 5.0 * spread[1]
        np.testing.assert_array_equal(clipped[:, [0, 2]], spoilt[:, [0, 2]])
        np.testing.assert_array_equal(clipped[1], spoilt[1])

    def test_a_state_of_a_percent_is_no_outlier(self) -> None:
        apart = self.frames.copy()
        apart[:30, 0] += 1e3
        np.testing.assert_array_equal(typical_values(apart).spread, mean_and_spread(apart)[1])

    def test_a_column_that_is_constant_but_for_a_few_frames_keeps_them(self) -> None:
        flag = np.zeros((2000, 1))
        flag[5:8] = 1.0
        np.testing.assert_array_equal(typical_values(flag).spread, mean_and_spread(flag)[1])

    def test_slow_directions_are_those_without_the_outliers(self) -> None:
        spoilt = self.frames.copy()
        spoilt[[100, 900], 0] = 1e7
        first = np.arange(len(spoilt) - 1)
        one, other = (
            lagged_moments(x, first, first + 1, typical_values(x).spread).slow_directions[0]
            for x in (self.frames, spoilt)
        )
        assert_allclose(other, one, atol=0.02)
