"""Windows: never across trajectories, and the same features however they are cut into blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from m3c_md.frames import windows as windows_module
from m3c_md.frames.source import LocalSource, sample_windows
from m3c_md.frames.windows import FeatureBlocks, WindowSet, equally_spaced, windows_of_pairs, windows_of_trajectories
from m3c_md.matching import agreement
from m3c_md.optimize.blocks import Rule
from m3c_md.optimize.feature_map import draw_fourier_map

FEW = settings(deadline=None, max_examples=60, derandomize=True)


def stamped(lengths):
    """Trajectories whose frames say where they are: (trajectory, time)."""
    return [np.column_stack([np.full(n, i), np.arange(n)]).astype(float) for i, n in enumerate(lengths)]


def contents(data):
    """Coordinates of the slices of every window, one tuple per window."""
    return [tuple(map(tuple, window)) for window in data.frames[data.windows.T].tolist()]


class TestWindowsOfTrajectories:
    @FEW
    @given(
        lengths=st.lists(st.integers(0, 12), min_size=1, max_size=5),
        lagtime=st.integers(1, 5),
        n_slices=st.integers(1, 4),
    )
    def test_exactly_the_windows_that_fit_into_one_trajectory(self, lengths, lagtime, n_slices):
        expected = [
            tuple((float(i), float(t + j * lagtime)) for j in range(n_slices))
            for i, n in enumerate(lengths)
            for t in range(n)
            if t + (n_slices - 1) * lagtime < n
        ]
        data = windows_of_trajectories(stamped(lengths), lagtime, n_slices)
        assert contents(data) == expected
        assert data.n_windows == len(expected)
        assert data.windows.shape == (n_slices, len(expected))
        assert data.windows.dtype == np.intp

    def test_single_slices_are_all_the_frames(self):
        data = windows_of_trajectories(stamped([4, 3]), lagtime=9, n_slices=1)
        assert data.windows.tolist() == [list(range(7))]

    def test_order_of_trajectories_only_orders_windows(self):
        trajectories = stamped([7, 2, 11, 3])
        data = windows_of_trajectories(trajectories, 2)
        for order in ([3, 2, 1, 0], [1, 3, 0, 2]):
            other = windows_of_trajectories([trajectories[i] for i in order], 2)
            assert sorted(contents(other)) == sorted(contents(data))
            assert other.horizon == data.horizon

    def test_short_trajectories_do_not_count_for_the_horizon(self):
        long = stamped([21, 21])
        assert windows_of_trajectories(long, 5).horizon == 4
        assert windows_of_trajectories(long + stamped([5, 1, 3, 2, 4]), 5).horizon == 4

    def test_horizon_is_at_least_one_lag(self):
        assert windows_of_trajectories(stamped([6]), 5).horizon == 1

    def test_nothing_long_enough_gives_no_windows(self):
        data = windows_of_trajectories(stamped([3, 2]), 3)
        assert data.n_windows == 0
        assert data.windows.shape == (2, 0)

    def test_frames_are_all_kept(self):
        trajectories = stamped([3, 1, 8])
        np.testing.assert_array_equal(windows_of_trajectories(trajectories, 4).frames, np.concatenate(trajectories))


def test_pairs_are_joined_row_by_row():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 9, 3))
    data = windows_of_pairs(first, second)
    np.testing.assert_array_equal(data.frames[data.windows[0]], first)
    np.testing.assert_array_equal(data.frames[data.windows[1]], second)
    assert (data.n_windows, data.horizon) == (9, 1)


class TestEquallySpaced:
    @FEW
    @given(n_available=st.integers(1, 5000), n_wanted=st.integers(1, 6000))
    def test_distinct_in_range_and_evenly_apart(self, n_available, n_wanted):
        chosen = equally_spaced(n_available, n_wanted)
        assert len(chosen) == min(n_available, n_wanted)
        assert chosen[0] >= 0
        assert chosen[-1] < n_available
        steps = np.diff(np.concatenate([chosen, [chosen[0] + n_available]]))
        assert steps.min() >= 1
        assert np.ptp(steps) <= 1

    def test_a_sample_three_times_as_large_contains_the_smaller(self):
        for n_wanted in (1, 7, 200):
            small, large = (equally_spaced(3 * 200 * 7 * 6, n) for n in (n_wanted, 3 * n_wanted))
            assert set(small) <= set(large)

    def test_no_end_is_favoured(self):
        chosen = equally_spaced(1000, 10)
        assert abs(chosen.mean() - 499.5) <= 0.5


class TestMatchedShare:
    @FEW
    @given(seed=st.integers(0, 10**6), n_states=st.integers(2, 5))
    def test_names_do_not_matter_and_sides_are_equal(self, seed, n_states):
        rng = np.random.default_rng(seed)
        labels, others = rng.integers(n_states, size=(2, 40))
        share = agreement(labels, others)
        assert agreement(labels, rng.permutation(n_states)[labels]) == 1.0
        assert agreement(others, labels) == share
        assert agreement(rng.permutation(n_states)[labels], others) == share
        assert np.mean(labels == others) <= share <= 1.0
        # Some matching takes at least the average over all matchings.
        assert share >= 1.0 / n_states

    def test_one_wrong_window_costs_one_window(self):
        labels = np.arange(30) % 3
        others = (labels + 1) % 3
        others[4] = labels[4]
        assert agreement(labels, others) == pytest.approx(29 / 30)

    def test_states_that_only_one_side_has(self):
        assert agreement(np.array([0, 0, 0, 0]), np.array([0, 1, 2, 2])) == 0.5


@pytest.fixture
def noise():
    rng = np.random.default_rng(3)
    data = windows_of_trajectories(list(rng.normal(size=(4, 25, 2))), 2)
    return data, draw_fourier_map(2, 10, rng), rng.uniform(0.5, 2.0, size=data.n_windows)


def flattened(blocks):
    """Features of every slice of every window, and the weights, whatever the blocks."""
    parts = [(b.features[b.windows], b.weights) for b in blocks]
    return np.concatenate([p[0] for p in parts], axis=1), np.concatenate([p[1] for p in parts])


class TestFeatureBlocks:
    def test_features_are_the_map_of_the_frames(self, noise):
        data, feature_map, weights = noise
        features, own = flattened(FeatureBlocks(data, feature_map, weights))
        np.testing.assert_allclose(features, feature_map(data.frames)[data.windows], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(own, weights / weights.sum(), rtol=1e-14)

    @pytest.mark.parametrize("size", [1, 7, 92, 10_000])
    @pytest.mark.parametrize("cache", [0, 10**9])
    def test_size_of_blocks_and_cache_change_nothing(self, noise, monkeypatch, size, cache):
        expected = flattened(FeatureBlocks(*noise))
        monkeypatch.setattr(windows_module, "BLOCK_SIZE", size)
        monkeypatch.setattr(windows_module, "FEATURE_CACHE_BYTES", cache)
        blocks = FeatureBlocks(*noise)
        assert max(b.windows.shape[1] for b in blocks) <= size
        for found, wanted in zip(flattened(blocks), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)

    @pytest.mark.parametrize("cache", [0, 10**9])
    def test_can_be_iterated_again_with_the_same_bits(self, noise, monkeypatch, cache):
        monkeypatch.setattr(windows_module, "BLOCK_SIZE", 30)
        monkeypatch.setattr(windows_module, "FEATURE_CACHE_BYTES", cache)
        blocks = FeatureBlocks(*noise)
        for first, second in zip(blocks, blocks, strict=True):
            np.testing.assert_array_equal(first.features, second.features)
            np.testing.assert_array_equal(first.windows, second.windows)
            np.testing.assert_array_equal(first.weights, second.weights)

    def test_without_cache_the_map_runs_in_every_pass_and_with_it_once(self, noise, monkeypatch):
        data, feature_map, weights = noise
        for cache, expected in ((0, 2), (10**9, 1)):
            calls = []
            monkeypatch.setattr(windows_module, "FEATURE_CACHE_BYTES", cache)
            monkeypatch.setattr(
                type(feature_map),
                "__call__",
                lambda self, x, dtype, calls=calls: calls.append(1) or np.zeros((len(x), 10)),
            )
            blocks = FeatureBlocks(data, feature_map, weights)
            list(blocks), list(blocks)
            monkeypatch.undo()
            assert len(calls) == expected

    def test_chosen_windows_only(self, noise, monkeypatch):
        data, feature_map, weights = noise
        monkeypatch.setattr(windows_module, "BLOCK_SIZE", 5)
        chosen = np.array([3, 4, 40, 41, 77, 90])
        blocks = FeatureBlocks(data, feature_map, weights[chosen], chosen)
        features, own = flattened(blocks)
        np.testing.assert_allclose(features, feature_map(data.frames)[data.windows[:, chosen]], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(own, weights[chosen] / weights[chosen].sum(), rtol=1e-14)
        # A frame that two windows of a block share is mapped once.
        assert [len(b.features) for b in blocks] == [
            len(np.unique(data.windows[:, c])) for c in (chosen[:5], chosen[5:])
        ]

    def test_slice_states_are_the_states_of_the_frames(self, noise, monkeypatch):
        data, feature_map, weights = noise
        monkeypatch.setattr(windows_module, "BLOCK_SIZE", 20)
        rng = np.random.default_rng(0)
        rule = Rule(rng.normal(size=(3, 10)), rng.normal(size=3))
        states = rule.scores(feature_map(data.frames)).argmax(axis=0)
        found = FeatureBlocks(data, feature_map, weights).slice_states(rule)
        np.testing.assert_array_equal(found, states[data.windows])

    def test_shared_frames_are_kept_in_memory_once(self):
        data = WindowSet(np.zeros((100, 1)), np.stack([np.arange(99), np.arange(1, 100)]), 99, np.zeros(99, int))
        (block,) = FeatureBlocks(data, draw_fourier_map(1, 4, np.random.default_rng(0)), np.ones(99))
        assert len(block.features) == 100


class TestLater:
    """Pairs of frames further apart than a window reaches, as slow directions are made of."""

    def test_they_are_so_far_apart_and_of_one_trajectory(self):
        trajectories = [np.arange(100.0)[:, None], 1000.0 + np.arange(60.0)[:, None], np.zeros((3, 1))]
        data = windows_of_trajectories(trajectories, lagtime=2)
        first, last, apart = data.later(10)
        assert apart == 20
        assert set((data.frames[last] - data.frames[first]).ravel()) == {20.0}
        assert len(first) == (100 - 20) + (60 - 20)

    def test_in_a_thin_sample_they_are_as_close_as_its_windows_are(self):
        trajectories = [np.arange(5000.0)[:, None], np.arange(5000.0)[:, None]]
        source = LocalSource(trajectories, 1, 2)
        data = sample_windows(source, equally_spaced(source.n_windows, 100))
        first, last, apart = data.later(20)
        differences = (data.frames[last] - data.frames[first]).ravel()
        assert np.median(differences) == apart
        assert 100 <= apart <= 102
        assert differences.min() > 0

    def test_none_where_no_trajectory_is_as_long(self):
        assert windows_of_trajectories([np.zeros((15, 1))] * 4, lagtime=1).later(20) is None

    def test_none_for_pairs_of_unknown_origin(self):
        assert windows_of_pairs(np.zeros((50, 1)), np.zeros((50, 1))).later(20) is None
