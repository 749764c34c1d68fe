"""Looks at blocks: every sum by hand, whatever the blocks, and a bound that knows when there is none."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from m3c_md.optimize.blocks import Rule, WindowBlock, class_sums, distinct_frames, pass_sums
from m3c_md.optimize.large_margin import solve_large_margin
from m3c_md.optimize.streaming import add_up, look_at_block
from m3c_md.optimize.window_loss import window_losses

N_STATES, WIDTH = 3, 0.1


@pytest.fixture
def case():
    rng = np.random.default_rng(4)
    features = rng.normal(size=(41, 4))
    windows = np.stack([np.arange(40), np.arange(1, 41)])
    weights = rng.uniform(0.2, 1.0, size=40)
    rule = Rule(rng.normal(size=(N_STATES, 4)), rng.normal(size=N_STATES))
    return WindowBlock(features, windows, weights / weights.sum()), rule


def cheapest(block, rule, prices):
    """Labels and losses by trying every label for every window."""
    scores = rule.window_scores(block)
    n_windows = block.windows.shape[1]
    losses = np.stack([window_losses(scores, np.full(n_windows, k)) for k in range(N_STATES)], axis=1)
    labels = (block.weights[:, None] * losses + prices).argmin(axis=1)
    return labels, losses[np.arange(n_windows), labels]


@pytest.mark.parametrize("prices", [np.zeros(3), np.array([0.02, -0.01, 0.0])])
def test_sums_by_hand(case, prices):
    block, rule = case
    own = np.arange(41) % 3 > 0
    look = look_at_block(block, own, rule, WIDTH, prices)
    labels, losses = cheapest(block, rule, prices)
    reference = pass_sums([block], labels, rule, WIDTH)
    for name in ("loss", "smoothed", "slack", "violation", "gradient", "bias_gradient"):
        np.testing.assert_allclose(getattr(look, name), getattr(reference, name), rtol=1e-12)
    classes = class_sums([block], labels, N_STATES)
    np.testing.assert_allclose(look.shares, classes.shares)
    np.testing.assert_allclose(look.features, classes.features)
    states = rule.scores(block.features).argmax(axis=0)
    for k in range(N_STATES):
        assert look.n_labels[k] == (labels == k).sum()
        assert look.n_frames[k] == (states[own] == k).sum()
        assert look.class_loss[k] == pytest.approx((block.weights * losses)[labels == k].sum())
        for j in range(N_STATES):
            moves = (states[block.windows[0]] == k) & (states[block.windows[1]] == j)
            assert look.transitions[k, j] == pytest.approx(block.weights[moves].sum())


def test_sums_do_not_depend_on_the_blocks(case):
    block, rule = case
    whole = look_at_block(block, np.ones(41, dtype=bool), rule, WIDTH, np.zeros(3))
    parts = []
    for begin, end in ((0, 11), (11, 12), (12, 40)):
        frames, windows = distinct_frames(block.windows[:, begin:end])
        own = (frames >= begin) & (frames < (end if end < 40 else 41))
        part = WindowBlock(block.features[frames], windows, block.weights[begin:end])
        parts.append(look_at_block(part, own, rule, WIDTH, np.zeros(3)))
    total = add_up(iter(parts))
    for field in fields(total):
        np.testing.assert_allclose(getattr(total, field.name), getattr(whole, field.name), rtol=1e-12, atol=1e-14)
        assert np.ndim(getattr(total, field.name)) == np.ndim(getattr(whole, field.name))
    assert isinstance(total.loss, float)


@pytest.mark.parametrize("bias", [True, False])
def test_no_rule_does_better_than_the_bound_for_these_labels(case, bias):
    block, rule = case
    rule = rule if bias else Rule(rule.weights, np.zeros(N_STATES))
    look = look_at_block(block, np.ones(41, dtype=bool), rule, WIDTH, np.zeros(3))
    labels, _ = cheapest(block, rule, np.zeros(3))
    best = solve_large_margin([block], labels, N_STATES, 0.05, bias=bias, tolerance=1e-8)
    assert look.lower_bound(2, 0.05, bias=bias) <= best.objective * (1.0 + 1e-9)
    # At the optimum, with hardly any smoothing, it is the optimum.
    again = look_at_block(block, np.ones(41, dtype=bool), best.rule, 1e-9, np.zeros(3))
    if np.array_equal(cheapest(block, best.rule, np.zeros(3))[0], labels):
        assert again.lower_bound(2, 0.05, bias=bias) >= 0.0


def test_without_windows_of_a_state_there_is_no_bound(case):
    block, rule = case
    look = look_at_block(block, np.ones(41, dtype=bool), rule, WIDTH, np.array([10.0, 0.0, 0.0]))
    assert look.shares[0] == 0.0
    assert look.lower_bound(2, 0.05, bias=True) == -np.inf
