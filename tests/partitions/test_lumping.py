"""Lumping: flips climb to a local optimum of Q, which on small chains is the best of all."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from m3c_md.frames.windows import windows_of_trajectories
from m3c_md.matching import agreement
from m3c_md.optimize.metric import Metric
from m3c_md.partitions import lumping as module
from m3c_md.partitions.lumping import best_lumpings, flip_to_metastability, lumped_metastability, pcca_microstates
from m3c_md.partitions.microstates import Microstates, find_microstates
from tests.search._data import switching

FEW = settings(deadline=None, max_examples=40, derandomize=True)
CHAINS = {"seed": st.integers(0, 10**6), "n": st.integers(3, 8), "n_states": st.integers(2, 3)}


def random_counts(n, rng, zeros=0.3):
    """Counts with holes, asymmetric as those of finite data are."""
    return rng.exponential(size=(n, n)) ** 2 * (rng.random((n, n)) > zeros) + np.diag(rng.random(n))


def random_labels(n, n_states, rng):
    return rng.permutation(np.arange(n) % n_states)


def block_chain(sizes, rng, leak=1e-3):
    """Symmetric counts, dense within blocks and weak between them."""
    blocks = np.repeat(np.arange(len(sizes)), sizes)
    counts = rng.uniform(0.5, 1.5, size=(len(blocks), len(blocks)))
    counts[blocks[:, None] != blocks] *= leak
    return counts + counts.T, blocks


def metastability_by_hand(counts, labels, n_states):
    """Trace of the row-normalised macro transition matrix of the symmetrised counts."""
    symmetric = counts + counts.T
    macro = np.array(
        [[symmetric[np.ix_(labels == i, labels == j)].sum() for j in range(n_states)] for i in range(n_states)]
    )
    return np.trace(macro / macro.sum(axis=1, keepdims=True))


def single_flips(labels, n_states):
    """All labelings one flip away that leave no state empty."""
    for cell, state in product(range(len(labels)), range(n_states)):
        flipped = labels.copy()
        flipped[cell] = state
        if state != labels[cell] and len(np.unique(flipped)) == n_states:
            yield flipped


class TestLumpedMetastability:
    @FEW
    @given(**CHAINS)
    def test_is_the_trace_of_the_macro_transition_matrix(self, seed, n, n_states):
        rng = np.random.default_rng(seed)
        counts, labels = random_counts(n, rng), random_labels(n, n_states, rng)
        expected = metastability_by_hand(counts, labels, n_states)
        assert lumped_metastability(counts, labels, n_states) == pytest.approx(expected)
        assert lumped_metastability(7.0 * counts, labels, n_states) == pytest.approx(expected)

    def test_bounds(self):
        counts, blocks = block_chain([3, 4, 2], np.random.default_rng(0), leak=0.0)
        assert lumped_metastability(counts, blocks, 3) == pytest.approx(3.0)
        swap = np.array([[0.0, 1.0], [1.0, 0.0]])
        assert lumped_metastability(swap, np.array([0, 1]), 2) == 0.0

    def test_a_state_never_visited_counts_nothing(self):
        counts = np.diag([1.0, 1.0, 0.0])
        assert lumped_metastability(counts, np.arange(3), 3) == 2.0


class TestFlips:
    @FEW
    @given(**CHAINS)
    def test_end_in_a_local_optimum_no_worse_than_the_start(self, seed, n, n_states):
        rng = np.random.default_rng(seed)
        counts, start = random_counts(n, rng), random_labels(n, n_states, rng)
        end = flip_to_metastability(counts, start, n_states)
        best = lumped_metastability(counts, end, n_states)
        assert best >= lumped_metastability(counts, start, n_states) - 1e-12
        assert set(end.tolist()) == set(range(n_states))
        for flipped in single_flips(end, n_states):
            assert metastability_by_hand(counts, flipped, n_states) <= best + 1e-9

    @pytest.mark.parametrize("seed", range(8))
    @pytest.mark.parametrize("n_states", [2, 3])
    def test_the_best_of_a_few_starts_is_the_global_optimum(self, seed, n_states):
        rng = np.random.default_rng(seed)
        counts = random_counts(7, rng)
        every = (np.array(labels) for labels in product(range(n_states), repeat=7) if labels[0] == 0)
        optimum = max(
            lumped_metastability(counts, labels, n_states) for labels in every if len(set(labels.tolist())) == n_states
        )
        found = max(
            lumped_metastability(
                counts, flip_to_metastability(counts, random_labels(7, n_states, rng), n_states), n_states
            )
            for _ in range(25)
        )
        assert found == pytest.approx(optimum)

    @FEW
    @given(seed=st.integers(0, 10**6))
    def test_names_of_cells_do_not_matter(self, seed):
        rng = np.random.default_rng(seed)
        counts, start, order = random_counts(8, rng), random_labels(8, 3, rng), rng.permutation(8)
        end = flip_to_metastability(counts, start, 3)
        moved = flip_to_metastability(counts[np.ix_(order, order)], start[order], 3)
        np.testing.assert_array_equal(moved, end[order])

    def test_start_is_not_changed(self):
        counts, blocks = block_chain([4, 4], np.random.default_rng(0))
        start = np.roll(blocks, 1)
        kept = start.copy()
        np.testing.assert_array_equal(flip_to_metastability(counts, start, 2), blocks)
        np.testing.assert_array_equal(start, kept)

    def test_the_last_cell_of_a_state_stays(self):
        # One block of noise: Q is best if one state keeps the block to itself, but both must live.
        counts, _ = block_chain([6], np.random.default_rng(0))
        for seed in range(5):
            end = flip_to_metastability(counts, random_labels(6, 3, np.random.default_rng(seed)), 3)
            assert len(np.unique(end)) == 3

    def test_cells_without_counts_are_left_where_they_are(self):
        counts, blocks = block_chain([3, 3], np.random.default_rng(0))
        padded = np.zeros((8, 8))
        padded[:6, :6] = counts
        start = np.array([0, 1, 0, 1, 1, 1, 0, 1])
        end = flip_to_metastability(padded, start, 2)
        np.testing.assert_array_equal(end, [*blocks, 0, 1])


class TestPcca:
    @pytest.mark.parametrize("sizes", [(4, 5), (3, 6, 4), (2, 3, 4, 5)])
    def test_recovers_blocks(self, sizes):
        rng = np.random.default_rng(0)
        counts, blocks = block_chain(sizes, rng)
        order = rng.permutation(len(blocks))
        labels = pcca_microstates(counts[np.ix_(order, order)], rng.normal(size=(len(blocks), 2)), len(sizes))
        assert agreement(labels, blocks[order]) == 1.0

    def test_every_cell_of_a_disconnected_chain_gets_the_state_of_its_neighbour(self):
        counts, blocks = block_chain([3, 3], np.random.default_rng(0))
        padded = np.zeros((9, 9))
        padded[:6, :6] = counts
        padded[6, 6] = padded[7, 7] = 0.1  # two lonely cells, and one never visited
        centers = np.concatenate([np.arange(6.0), [0.2, 4.9, 5.3]])[:, None]
        labels = pcca_microstates(padded, centers, 2)
        assert agreement(labels[:6], blocks) == 1.0
        np.testing.assert_array_equal(labels[6:], labels[[0, 5, 5]])

    def test_geometry_decides_where_nothing_is_connected(self):
        centers = np.array([[0.0], [0.1], [9.0], [9.1]])
        labels = pcca_microstates(np.eye(4), centers, 2)
        assert agreement(labels, np.array([0, 0, 1, 1])) == 1.0

    def test_counts_are_symmetrised(self):
        counts, blocks = block_chain([4, 4], np.random.default_rng(0))
        one_way = np.triu(counts) + 0.5 * np.diag(np.diag(counts))
        assert agreement(pcca_microstates(one_way, np.arange(8.0)[:, None], 2), blocks) == 1.0


@pytest.fixture(scope="module")
def series():
    trajectories, wells = switching([700, 500], np.random.default_rng(0), spread=0.7)
    data = windows_of_trajectories(trajectories, 1)
    rng = np.random.default_rng(1)
    partitions = [find_microstates(data, Metric("ones", np.ones(2)), rng) for _ in range(2)]
    return partitions, np.full(data.n_windows, 1.0 / data.n_windows), np.concatenate(wells)[data.windows[0]]


class TestBestLumpings:
    @pytest.mark.parametrize("n_states", [2, 3, 4])
    def test_sorted_with_every_state_in_each(self, series, n_states):
        partitions, weights, _ = series
        lumpings = best_lumpings(partitions, weights, n_states)
        values = [lumping.metastability for lumping in lumpings]
        assert values == sorted(values, reverse=True)
        for lumping in lumpings:
            assert lumping.windows.shape == weights.shape
            np.testing.assert_array_equal(np.unique(lumping.windows), np.arange(n_states))

    def test_the_best_finds_the_wells(self, series):
        partitions, weights, wells = series
        assert agreement(best_lumpings(partitions, weights, 3)[0].windows, wells) > 0.98

    def test_no_worse_than_pcca_alone(self, series):
        partitions, weights, _ = series
        best = best_lumpings(partitions, weights, 3)[0]
        for cells in partitions:
            counts = cells.counts(weights)
            alone = pcca_microstates(counts, cells.centers, 3)
            assert best.metastability >= lumped_metastability(counts, alone, 3) - 1e-12

    def test_metastability_is_that_of_the_cells(self, series):
        partitions, weights, _ = series
        (best, *_) = best_lumpings(partitions[:1], weights, 3)
        state_of = np.zeros(partitions[0].n_microstates, dtype=int)
        state_of[partitions[0].windows[0]] = best.windows
        value = metastability_by_hand(partitions[0].counts(weights), state_of, 3)
        assert best.metastability == pytest.approx(value, abs=1e-3)  # cells that no window starts from are unknown

    def test_as_many_cells_as_states(self):
        windows = np.array([[0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 2, 0]])
        cells = Microstates(np.arange(3.0)[:, None], np.arange(3), windows)
        for lumping in best_lumpings([cells], np.full(6, 1 / 6), 3):
            assert agreement(lumping.windows, windows[0]) == 1.0


class TestFlipsWithoutNumba:
    """The array code, which stands in where numba is missing."""

    @pytest.fixture(autouse=True)
    def _arrays(self, monkeypatch):
        monkeypatch.setattr(module, "compiled", lambda: None)

    @pytest.mark.parametrize("seed", range(12))
    def test_no_single_flip_helps_and_no_state_is_emptied(self, seed):
        rng = np.random.default_rng(seed)
        n_states = 2 + seed % 3
        counts = random_counts(9, rng)
        start = random_labels(9, n_states, rng)
        before = start.copy()
        labels = flip_to_metastability(counts, start, n_states)
        np.testing.assert_array_equal(start, before)
        assert len(np.unique(labels)) == n_states
        reached = metastability_by_hand(counts, labels, n_states)
        assert reached >= metastability_by_hand(counts, start, n_states) - 1e-12
        for flipped in single_flips(labels, n_states):
            assert metastability_by_hand(counts, flipped, n_states) <= reached + 1e-9

    @pytest.mark.parametrize("seed", range(12))
    def test_they_are_the_flips_of_the_compiled_loop(self, seed, monkeypatch):
        rng = np.random.default_rng(100 + seed)
        counts, start = random_counts(12, rng), random_labels(12, 3, rng)
        labels = flip_to_metastability(counts, start, 3)
        monkeypatch.undo()
        np.testing.assert_array_equal(labels, flip_to_metastability(counts, start, 3))

    def test_cells_that_were_never_visited_stay_where_they_are(self):
        counts, blocks = block_chain([3, 3], np.random.default_rng(0))
        padded = np.zeros((8, 8))
        padded[1:7, 1:7] = counts
        start = np.array([0, *blocks, 1])
        start[[1, 6]] = start[[6, 1]]
        labels = flip_to_metastability(padded, start, 2)
        np.testing.assert_array_equal(labels, [0, *blocks, 1])

    def test_a_state_whose_other_cells_were_never_visited_keeps_the_one_that_was(self):
        """Moving it would leave a state without any weight."""
        counts = np.array([[1.0, 5.0, 0.0], [5.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
        assert flip_to_metastability(counts, np.array([0, 1, 1]), 2).tolist() == [0, 1, 1]

    def test_a_state_of_cells_that_were_never_visited_gets_one_that_was(self):
        counts = np.array([[9.0, 1.0, 0.0], [1.0, 9.0, 0.0], [0.0, 0.0, 0.0]])
        labels = flip_to_metastability(counts, np.array([0, 0, 1]), 2)
        assert labels[0] != labels[1]
        assert labels[2] == 1


def test_of_all_ways_to_merge_the_most_metastable_come_first(monkeypatch):
    """Against all ways to merge six states into three."""
    rng = np.random.default_rng(0)
    counts = np.diag(rng.uniform(20.0, 60.0, size=6)) + rng.exponential(size=(6, 6)) ** 3
    every = {tuple(module._in_order(np.array(way))) for way in product(range(3), repeat=6) if len(set(way)) == 3}
    best = max(lumped_metastability(counts, np.array(way), 3) for way in every)
    found = module.merge_states(counts, np.arange(6), 3)
    qualities = [lumped_metastability(counts, labels, 3) for labels in found]
    assert qualities == sorted(qualities, reverse=True)
    monkeypatch.setattr(module, "MERGES_KEPT", 1000)
    assert lumped_metastability(counts, module.merge_states(counts, np.arange(6), 3)[0], 3) == pytest.approx(best)
    assert qualities[0] == pytest.approx(best)
