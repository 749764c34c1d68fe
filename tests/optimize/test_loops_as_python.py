"""The loops that numba compiles, run line by line as the Python that they are: same sums, same labels, same fits.

No tracer and no debugger sees into compiled code; here they do. And what the package does without numba, in whole fits.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from m3c_md.optimize import blocks as blocks_module
from m3c_md.optimize import curvature as curvature_module
from m3c_md.optimize import kernels, line_risk, newton
from m3c_md.optimize.blocks import Rule, WindowBlock, all_label_costs, class_sums, pass_sums, thinned
from m3c_md.optimize.curvature import MAX_HESSIAN_ROWS, curvature
from m3c_md.optimize.large_margin import SAMPLE_SIZE, minimise_smoothed, solve_large_margin
from m3c_md.optimize.line_risk import RiskAlongLine
from m3c_md.partitions import lumping, nearest
from m3c_md.partitions.lumping import flip_to_metastability, lumped_metastability
from m3c_md.partitions.nearest import assign
from tests.conftest import hidden_markov_wells, quick
from tests.optimize.test_kernels import random_case

pytestmark = pytest.mark.skipif(kernels.compiled() is None, reason="numba is missing or switched off")
Patch = pytest.MonkeyPatch


def as_python(function: Callable[[], Any]) -> Any:
    """What the uncompiled loops give; the helpers that they call are not compiled either."""
    loops = kernels.compiled()
    compiled = {name: value for name, value in vars(loops).items() if hasattr(value, "py_func")}
    assert len(compiled) >= 12 or os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"  # with it they are plain already
    with pytest.MonkeyPatch.context() as patch:
        for name, value in compiled.items():
            patch.setattr(loops, name, value.py_func)
        return function()


def without_numba(function: Callable[[], Any]) -> Any:
    """What the array code gives, in all places that have some."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (blocks_module, curvature_module, line_risk, newton, nearest, lumping):
            patch.setattr(module, "compiled", lambda: None)
        return function()


@pytest.mark.parametrize("smoothing", [1e-6, 0.05, 1.0])
@pytest.mark.parametrize(("n_slices", "n_states"), [(1, 2), (1, 4), (2, 2), (2, 3), (3, 2)])
class TestSums:
    def test_passes_and_curvature(self, n_slices: int, n_states: int, smoothing: float) -> None:
        blocks, labels, rule = random_case(7, n_slices, n_states)
        ours = pass_sums(blocks, labels, rule, smoothing)
        theirs = as_python(lambda: pass_sums(blocks, labels, rule, smoothing))
        for name in ("loss", "smoothed", "slack", "violation", "gradient", "bias_gradient"):
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-12, atol=1e-14)
        for (windows, support), (others, theirs_too) in zip(ours.kinks, theirs.kinks, strict=True):
            np.testing.assert_array_equal(windows, others)
            np.testing.assert_array_equal(support, theirs_too)
        hessian = curvature(blocks, ours, n_states, smoothing)
        np.testing.assert_allclose(
            hessian, as_python(lambda: curvature(blocks, ours, n_states, smoothing)), rtol=1e-12, atol=1e-12
        )

    def test_slopes(self, n_slices: int, n_states: int, smoothing: float) -> None:
        blocks, labels, rule = random_case(8, n_slices, n_states)
        direction = random_case(9, n_slices, n_states)[2]
        scores, change = ([one.scores(blocks[0].features)] for one in (rule, direction))

        def slopes() -> list[float]:
            risk = RiskAlongLine(blocks, labels, scores, change, smoothing)
            return [risk.slope(length) for length in (1.0, 0.1, 0.0, 30.0, 4.0)]

        np.testing.assert_allclose(slopes(), as_python(slopes), rtol=1e-12, atol=1e-14)

    def test_costs_and_classes(self, n_slices: int, n_states: int, smoothing: float) -> None:
        del smoothing
        blocks, labels, rule = random_case(10, n_slices, n_states)
        costs = all_label_costs(blocks, rule)
        np.testing.assert_allclose(costs, as_python(lambda: all_label_costs(blocks, rule)), rtol=1e-12, atol=1e-14)
        ours, theirs = class_sums(blocks, labels, n_states), as_python(lambda: class_sums(blocks, labels, n_states))
        np.testing.assert_allclose(ours.features, theirs.features, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n_columns", [1, 3])
def test_nearest_centres(n_columns: int) -> None:
    rng = np.random.default_rng(n_columns)
    points, centers = rng.integers(4, size=(50, n_columns)) * 0.5, rng.integers(4, size=(7, n_columns)) * 0.5
    np.testing.assert_array_equal(assign(points, centers), as_python(lambda: assign(points, centers)))


def chain(seed: int, n: int = 30) -> np.ndarray:
    """Counts of a random walk on a circle of cells, some of which are never visited."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((n, n))
    where = np.cumsum(rng.integers(-1, 2, size=400)) % n
    np.add.at(counts, (where[:-1], where[1:]), 1.0 + rng.random(399))
    counts[:, 5] = counts[5] = 0.0
    return counts


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("way", [as_python, without_numba])
@pytest.mark.parametrize("n_states", [2, 4])
def test_flips(seed: int, way: Callable[[Callable[[], Any]], Any], n_states: int) -> None:
    counts = chain(seed)
    labels = np.random.default_rng(seed).permutation(np.arange(len(counts)) % n_states)
    ours = flip_to_metastability(counts, labels, n_states)
    theirs = way(lambda: flip_to_metastability(counts, labels, n_states))
    np.testing.assert_array_equal(ours, theirs)
    assert lumped_metastability(counts, theirs, n_states) > lumped_metastability(counts, labels, n_states)
    assert np.bincount(theirs, minlength=n_states).min() > 0


@pytest.mark.parametrize("way", [as_python, without_numba])
@pytest.mark.parametrize("start", ["lumping", "kmeans"])
def test_whole_fits(way: Callable[[Callable[[], Any]], Any], start: str) -> None:
    frames = hidden_markov_wells(120, 2).frames
    ours = quick(2, starts=(start,), n_features=20).fit_fetch(frames)
    theirs = way(lambda: quick(2, starts=(start,), n_features=20).fit_fetch(frames))
    np.testing.assert_array_equal(ours.transform(frames), theirs.transform(frames))
    assert theirs.objective == pytest.approx(ours.objective, rel=1e-4)
    assert theirs.gap <= 1e-3


def test_numba_may_be_missing(monkeypatch: Patch) -> None:
    kernels.compiled.cache_clear()
    monkeypatch.setitem(sys.modules, "numba", None)
    try:
        assert kernels.compiled() is None
    finally:
        kernels.compiled.cache_clear()


class TestLargeProblems:
    """Many windows: solved on a sample of them first."""

    def problem(self, n: int, seed: int = 0) -> tuple[list[WindowBlock], np.ndarray]:
        rng = np.random.default_rng(seed)
        labels = np.sort(rng.integers(2, size=n))
        features = rng.normal(size=(n, 3)) + 2.0 * labels[:, None]
        half = n // 2 + 1
        blocks = [
            WindowBlock(features[:half], np.arange(half)[None], np.full(half, 1.0 / n)),
            WindowBlock(features[half:], np.arange(n - half)[None], np.full(n - half, 1.0 / n)),
        ]
        return blocks, labels

    def test_a_cold_start_ends_where_a_warm_one_does(self) -> None:
        blocks, labels = self.problem(4 * SAMPLE_SIZE)
        cold = solve_large_margin(blocks, labels, 2, 1e-2, tolerance=1e-5)
        zero = Rule(np.zeros((2, 3)), np.zeros(2))
        warm = solve_large_margin(blocks, labels, 2, 1e-2, tolerance=1e-5, start=zero)
        assert cold.converged
        assert warm.converged
        assert cold.objective == pytest.approx(warm.objective, rel=2e-5)
        assert cold.passes < warm.passes

    def test_a_sample_that_misses_a_state_is_not_used(self) -> None:
        blocks, labels = self.problem(4 * SAMPLE_SIZE)
        labels = np.zeros_like(labels)
        labels[[1, 2, 3, 5, 6]] = 1  # every fourth window is in the sample
        result = solve_large_margin(blocks, labels, 2, 1e-2, tolerance=1e-3)
        assert result.converged

    def test_samples_hold_every_so_manieth_window(self) -> None:
        blocks, labels = self.problem(101)
        sample, chosen = thinned(blocks, labels, 4)
        assert sum(block.windows.shape[1] for block in sample) == len(chosen) == 26
        assert sum(block.weights.sum() for block in sample) == pytest.approx(1.0)
        features = np.concatenate([block.features[block.windows[0]] for block in sample])
        everything = np.concatenate([block.features for block in blocks])
        first = np.concatenate([np.arange(0, 51, 4), 51 + np.arange(0, 50, 4)])
        np.testing.assert_array_equal(features, everything[first])
        np.testing.assert_array_equal(chosen, labels[first])


def test_at_the_bottom_there_is_no_step(monkeypatch: Patch) -> None:
    """Where the line search finds no descent, smoothing shrinks, and the tilted problem stays where it is."""
    blocks, labels, rule = random_case(3, 2, 2)
    monkeypatch.setattr("m3c_md.optimize.large_margin._line_search", lambda *arguments: 0.0)
    result = solve_large_margin(blocks, labels, 2, 1e-2, tolerance=1e-9, start=rule)
    assert not result.converged
    assert result.smoothing < 1e-13
    still = minimise_smoothed(blocks, labels, rule, 1e-2, 0.1, Rule(0.0 * rule.weights, 0.0 * rule.bias))
    np.testing.assert_array_equal(still.weights, rule.weights)


def test_there_is_a_limit_on_the_rows_of_a_hessian() -> None:
    """Beyond it, some of the curved windows stand for all, and the Newton step stays a direction of descent."""
    n = 2 * MAX_HESSIAN_ROWS
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 2
    block = WindowBlock(rng.normal(size=(n, 2)), np.arange(n)[None], np.full(n, 1.0 / n))
    result = solve_large_margin([block], labels, 2, 1e-2, smoothing=2.0, tolerance=1e-2)
    assert result.converged
