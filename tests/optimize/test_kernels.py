"""The compiled loops do what the array code does: window by window, and in every sum that a solver sees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from m3c_md.optimize import blocks as blocks_module
from m3c_md.optimize import curvature as curvature_module
from m3c_md.optimize import kernels, line_risk
from m3c_md.optimize.blocks import Rule, WindowBlock, all_label_costs, class_sums, pass_sums
from m3c_md.optimize.curvature import curvature
from m3c_md.optimize.line_risk import RiskAlongLine
from m3c_md.partitions import nearest
from m3c_md.partitions.nearest import assign

pytestmark = pytest.mark.skipif(kernels.compiled() is None, reason="numba is missing or switched off")


def without_numba(function):
    """What the array code gives."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (blocks_module, curvature_module, line_risk, nearest):
            patch.setattr(module, "compiled", lambda: None)
        return function()


def random_case(seed, n_slices, n_states, n_windows=60, n_frames=45, n_features=4):
    """A block with frames in several windows, ties among scores included."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_frames, n_features)).round(1)
    windows = rng.integers(n_frames, size=(n_slices, n_windows))
    weights = rng.random(n_windows)
    labels = np.concatenate([np.arange(n_states), rng.integers(n_states, size=n_windows - n_states)])
    rule = Rule(rng.normal(size=(n_states, n_features)).round(1), rng.normal(size=n_states).round(1))
    return [WindowBlock(features, windows, weights / weights.sum())], labels, rule


cases = given(
    seed=st.integers(0, 10**6),
    n_slices=st.integers(1, 3),
    n_states=st.integers(2, 5),
    smoothing=st.sampled_from([1e-6, 0.01, 0.3, 2.0]),
)


@cases
@settings(max_examples=60, deadline=None)
def test_passes_are_the_same(seed, n_slices, n_states, smoothing):
    blocks, labels, rule = random_case(seed, n_slices, n_states)
    ours = pass_sums(blocks, labels, rule, smoothing)
    theirs = without_numba(lambda: pass_sums(blocks, labels, rule, smoothing))
    for name in ("loss", "smoothed", "slack", "violation", "gradient", "bias_gradient"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-11)
    # Supports may differ where a tuple has the probability zero; the curvature then is one-sided, either way.
    if smoothing > 1e-3:
        hessians = [
            curvature(blocks, ours, n_states, smoothing),
            without_numba(lambda: curvature(blocks, ours, n_states, smoothing)),
        ]
        np.testing.assert_allclose(*hessians, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("smoothing", [1e-3, 0.3, 3.0])
@pytest.mark.parametrize(("n_slices", "n_states"), [(1, 12), (2, 8), (2, 12)])
def test_passes_with_many_states_are_the_same(n_slices, n_states, smoothing):
    """Most tuples are left out without a look at them: none that matters is."""
    for seed in range(5):
        blocks, labels, rule = random_case(seed, n_slices, n_states)
        ours = pass_sums(blocks, labels, rule, smoothing)
        theirs = without_numba(lambda b=blocks, y=labels, r=rule: pass_sums(b, y, r, smoothing))
        for name in ("loss", "smoothed", "slack", "violation", "gradient", "bias_gradient"):
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-11)


def test_an_infinite_score_is_an_infinite_loss():
    blocks, labels, rule = random_case(0, 2, 3)
    scores = rule.scores(blocks[0].features)
    scores[(labels[0] + 1) % 3, blocks[0].windows[0, 0]] = np.inf
    with np.errstate(all="ignore"):
        assert pass_sums(blocks, labels, rule, 0.1, [scores]).loss == np.inf


@cases
@settings(max_examples=40, deadline=None)
def test_slopes_along_a_line_are_the_same(seed, n_slices, n_states, smoothing):
    blocks, labels, rule = random_case(seed, n_slices, n_states)
    direction = random_case(seed + 1, n_slices, n_states)[2]
    scores, change = ([one.scores(blocks[0].features)] for one in (rule, direction))

    def slopes():
        risk = RiskAlongLine(blocks, labels, scores, change, smoothing)
        return [risk.slope(length) for length in (1.0, 0.1, 0.0, 30.0, 4.0)]

    np.testing.assert_allclose(slopes(), without_numba(slopes), rtol=1e-7, atol=1e-9)


@cases
@settings(max_examples=40, deadline=None)
def test_label_costs_and_class_sums_are_the_same(seed, n_slices, n_states, smoothing):
    del smoothing
    blocks, labels, rule = random_case(seed, n_slices, n_states)
    np.testing.assert_allclose(
        all_label_costs(blocks, rule), without_numba(lambda: all_label_costs(blocks, rule)), rtol=1e-12, atol=1e-14
    )
    ours, theirs = class_sums(blocks, labels, n_states), without_numba(lambda: class_sums(blocks, labels, n_states))
    np.testing.assert_allclose(ours.features, theirs.features, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(ours.shares, theirs.shares)


@given(seed=st.integers(0, 10**6), n_columns=st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_nearest_centres_are_the_same_with_ties(seed, n_columns):
    rng = np.random.default_rng(seed)
    points, centers = rng.integers(4, size=(50, n_columns)) * 0.5, rng.integers(4, size=(7, n_columns)) * 0.5
    np.testing.assert_array_equal(assign(points, centers), without_numba(lambda: assign(points, centers)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_single_precision_is_nearly_the_same(dtype):
    blocks, labels, rule = random_case(1, 2, 3)
    rounded = [WindowBlock(blocks[0].features.astype(dtype), blocks[0].windows, blocks[0].weights)]
    ours, exact = pass_sums(rounded, labels, rule, 0.1), pass_sums(blocks, labels, rule, 0.1)
    assert ours.loss == pytest.approx(exact.loss, rel=1e-6)
    assert ours.gradient.dtype == np.float64
    np.testing.assert_allclose(ours.gradient, exact.gradient, atol=1e-6)


def test_can_be_switched_off(monkeypatch):
    kernels.compiled.cache_clear()
    try:
        monkeypatch.setenv(kernels.SWITCH, "1")
        assert kernels.compiled() is None
        kernels.compiled.cache_clear()
        monkeypatch.setenv(kernels.SWITCH, "0")
        assert kernels.compiled() is not None
    finally:
        kernels.compiled.cache_clear()


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_nearest_centres_do_not_depend_on_the_unit(unit):
    rng = np.random.default_rng(0)
    points, centers = rng.normal(size=(60, 2)), rng.normal(size=(5, 2))
    np.testing.assert_array_equal(assign(unit * points, unit * centers), assign(points, centers))
