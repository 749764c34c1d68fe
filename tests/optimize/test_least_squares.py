"""The least-squares start: the solution of its normal equations, and a much better start than the zero rule."""

from __future__ import annotations

import numpy as np
import pytest

from m3c_md.optimize.blocks import WindowBlock, class_sums
from m3c_md.optimize.large_margin import solve_large_margin
from m3c_md.optimize.least_squares import TARGET_LEAD, least_squares_rule, second_moments


def random_blocks(n_states, seed=0, n=300):
    """Two blocks of pairs around as many centres as there are states."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(n_states), rng.integers(n_states, size=n - n_states)])
    centres = rng.normal(size=(n_states, 5)) * 2.0
    frames = np.concatenate([centres[labels] + rng.normal(size=(n, 5)) for _ in range(2)])
    weights = rng.random(n)
    weights /= weights.sum()
    half = n // 2
    parts = (slice(0, half), slice(half, n))
    blocks = [
        WindowBlock(frames, np.stack([np.arange(n)[part], np.arange(n, 2 * n)[part]]), weights[part]) for part in parts
    ]
    return blocks, labels, frames, weights


@pytest.mark.parametrize("n_states", [2, 3, 5])
def test_solves_the_ridge_regression(n_states):
    blocks, labels, frames, weights = random_blocks(n_states)
    ridge = 0.01
    rule = least_squares_rule(second_moments(blocks), class_sums(blocks, labels, n_states), ridge)
    # The same by an augmented least-squares problem in plain numpy.
    root = np.sqrt(np.tile(weights, 2))[:, None]
    design = np.column_stack([frames, np.ones(len(frames))])
    targets = TARGET_LEAD * (np.eye(n_states) - 1.0 / n_states)[np.tile(labels, 2)]
    penalty = np.diag(np.sqrt([ridge] * 5 + [1e-9]))
    expected = np.linalg.lstsq(
        np.vstack([root * design, penalty]), np.vstack([root * targets, np.zeros((6, n_states))]), rcond=None
    )[0]
    np.testing.assert_allclose(rule.weights, expected[:5].T, atol=1e-8)
    np.testing.assert_allclose(rule.bias, expected[5], atol=1e-8)


def test_scores_sum_to_zero():
    blocks, labels, frames, _ = random_blocks(3)
    rule = least_squares_rule(second_moments(blocks), class_sums(blocks, labels, 3), 0.01)
    np.testing.assert_allclose(rule.scores(frames).sum(axis=0), 0.0, atol=1e-10)


def test_is_a_better_start_than_nothing():
    blocks, labels, _, _ = random_blocks(3)
    rule = least_squares_rule(second_moments(blocks), class_sums(blocks, labels, 3), 3e-3)
    cold = solve_large_margin(blocks, labels, 3, 3e-3, tolerance=1e-3)
    warm = solve_large_margin(blocks, labels, 3, 3e-3, tolerance=1e-3, start=rule, smoothing=0.03)
    assert warm.passes < cold.passes
    assert warm.objective == pytest.approx(cold.objective, rel=2e-3)


def test_without_blocks_there_is_nothing_to_solve():
    with pytest.raises(ValueError, match="no data"):
        second_moments([])
