"""Lower bounds are lower bounds: against any rule, and with the dual variables written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from m3c_md.optimize.blocks import Rule, WindowBlock, class_sums, pass_sums
from m3c_md.optimize.certificate import DualPoint, constant_dual, feasible_dual
from m3c_md.optimize.window_loss import project_to_simplex, window_losses

PROPERTY = settings(deadline=None, max_examples=80, derandomize=True)
SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def problems(draw):
    """(block, labels, n_states, rng): frames shared between windows, unequal weights, every state present."""
    n_slices, n_states, n_features = draw(st.integers(1, 3)), draw(st.integers(2, 4)), draw(st.integers(1, 4))
    n_windows = n_states + draw(st.integers(0, 8))
    rng = np.random.default_rng(draw(SEEDS))
    return (*make_problem(rng, n_slices, n_states, n_features, n_windows), n_states, rng)


def make_problem(rng, n_slices, n_states, n_features, n_windows):
    features = rng.normal(size=(n_windows + n_slices - 1, n_features))
    windows = np.arange(n_windows) + np.arange(n_slices)[:, None]
    labels = rng.permutation(np.r_[np.arange(n_states), rng.integers(n_states, size=n_windows - n_states)])
    return WindowBlock(features, windows, rng.dirichlet(np.ones(n_windows))), labels


def random_rule(rng, block, n_states, bias=True):
    size = 10.0 ** rng.uniform(-2.0, 1.0)
    offsets = size * rng.normal(size=n_states) if bias else np.zeros(n_states)
    return Rule(size * rng.normal(size=(n_states, block.features.shape[1])), offsets)


def objective(block, labels, rule, regularization):
    losses = window_losses(rule.window_scores(block), labels)
    return 0.5 * regularization * (rule.weights**2).sum() + block.weights @ losses


@given(problems(), st.booleans(), st.floats(1e-3, 3.0), st.floats(1e-3, 10.0))
@PROPERTY
def test_no_rule_falls_below_the_bound(problem, bias, smoothing, regularization):
    block, labels, n_states, rng = problem
    classes = class_sums([block], labels, n_states)
    sums = pass_sums([block], labels, random_rule(rng, block, n_states, bias), smoothing)
    bound = feasible_dual(sums, classes, bias=bias).value(regularization)
    constant = constant_dual(classes).value(regularization)
    for _ in range(10):
        value = objective(block, labels, random_rule(rng, block, n_states, bias), regularization)
        assert bound <= value + 1e-10 * max(1.0, abs(bound))
        assert constant <= value + 1e-10 * max(1.0, abs(constant))


@given(problems(), st.floats(1e-3, 3.0), st.floats(1e-3, 10.0))
@PROPERTY
def test_bound_holds_at_the_rule_that_the_dual_point_itself_suggests(problem, smoothing, regularization):
    """W = -gradient / β is where a wrong bound would show first."""
    block, labels, n_states, rng = problem
    classes = class_sums([block], labels, n_states)
    sums = pass_sums([block], labels, random_rule(rng, block, n_states), smoothing)
    point = feasible_dual(sums, classes, bias=True).improved_by(constant_dual(classes), regularization)
    weights = -point.gradient / regularization
    bound = point.value(regularization)
    for _ in range(20):
        rule = Rule(weights, rng.normal(scale=1.0 + np.abs(weights).max(), size=n_states))
        assert bound <= objective(block, labels, rule, regularization) + 1e-10 * max(1.0, abs(bound))


def explicit_dual(block, labels, rule, smoothing):
    """Λ of a pass, (n_windows, n_tuples), from the definition of the smoothed loss."""
    n_states = len(rule.weights)
    tuples = list(itertools.product(range(n_states), repeat=len(block.windows)))
    scores = rule.window_scores(block)
    values = np.empty((len(tuples), len(labels)))
    for t, n in np.ndindex(*values.shape):
        y = labels[n]
        values[t, n] = any(k != y for k in tuples[t])
        values[t, n] += sum(scores[i, k, n] - scores[i, y, n] for i, k in enumerate(tuples[t]))
    return block.weights[:, None] * project_to_simplex(values / smoothing).T, tuples


def dual_sums(matrix, tuples, block, labels, n_states):
    """(violation, gradient, bias residual) of an explicit Λ, by loops."""
    violation, gradient, residual = 0.0, np.zeros((n_states, block.features.shape[1])), np.zeros(n_states)
    for (n, t), mass in np.ndenumerate(matrix):
        violation += mass * any(k != labels[n] for k in tuples[t])
        for i, k in enumerate(tuples[t]):
            feature = block.features[block.windows[i, n]]
            gradient[k] += mass * feature
            gradient[labels[n]] -= mass * feature
            residual[k] += mass
            residual[labels[n]] -= mass
    return violation, gradient, residual


def constant_votes(block, tuples, state):
    matrix = np.zeros((len(block.weights), len(tuples)))
    matrix[:, tuples.index((state,) * len(block.windows))] = block.weights
    return matrix


@pytest.mark.parametrize(("n_slices", "n_states"), [(1, 2), (1, 4), (2, 2), (2, 3), (3, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_dual_point_written_out_is_feasible_and_has_the_claimed_sums(n_slices, n_states, seed):
    rng = np.random.default_rng(seed)
    block, labels = make_problem(rng, n_slices, n_states, 3, 9)
    rule, smoothing = random_rule(rng, block, n_states), 0.7
    classes = class_sums([block], labels, n_states)
    matrix, tuples = explicit_dual(block, labels, rule, smoothing)
    residual = dual_sums(matrix, tuples, block, labels, n_states)[2]
    assert np.abs(residual).max() > 1e-3  # otherwise there is nothing to repair

    # The least mass of constant votes that cancels the residual, found by a linear programme.
    constants = [constant_votes(block, tuples, k) for k in range(n_states)]
    effects = np.column_stack([dual_sums(m, tuples, block, labels, n_states)[2] for m in constants])
    votes = linprog(np.ones(n_states), A_eq=effects, b_eq=-residual, method="highs")
    assert votes.status == 0
    mixed = (matrix + sum(q * m for q, m in zip(votes.x, constants, strict=True))) / (1.0 + votes.x.sum())

    assert mixed.min() >= 0.0
    np.testing.assert_allclose(mixed.sum(axis=1), block.weights, atol=1e-12)
    violation, gradient, residual = dual_sums(mixed, tuples, block, labels, n_states)
    np.testing.assert_allclose(residual, 0.0, atol=1e-12)
    point = feasible_dual(pass_sums([block], labels, rule, smoothing), classes, bias=True)
    assert point.violation == pytest.approx(violation, abs=1e-12)
    np.testing.assert_allclose(point.gradient, gradient, atol=1e-12)
    assert point.value(0.3) == pytest.approx(violation - (gradient**2).sum() / 0.6, abs=1e-10)


@pytest.mark.parametrize(("n_slices", "n_states"), [(1, 3), (2, 3), (3, 2)])
def test_constant_dual_written_out(n_slices, n_states):
    block, labels = make_problem(np.random.default_rng(1), n_slices, n_states, 2, 8)
    classes = class_sums([block], labels, n_states)
    tuples = list(itertools.product(range(n_states), repeat=n_slices))
    matrix = sum(classes.shares[k] * constant_votes(block, tuples, k) for k in range(n_states))
    violation, gradient, residual = dual_sums(matrix, tuples, block, labels, n_states)
    np.testing.assert_allclose(residual, 0.0, atol=1e-14)
    point = constant_dual(classes)
    assert point.violation == pytest.approx(violation, abs=1e-14)
    np.testing.assert_allclose(point.gradient, gradient, atol=1e-13)


def test_without_bias_the_pass_itself_is_the_dual_point():
    rng = np.random.default_rng(2)
    block, labels = make_problem(rng, 2, 3, 2, 8)
    rule = random_rule(rng, block, 3, bias=False)
    sums = pass_sums([block], labels, rule, 0.4)
    point = feasible_dual(sums, class_sums([block], labels, 3), bias=False)
    matrix, tuples = explicit_dual(block, labels, rule, 0.4)
    violation, gradient, _ = dual_sums(matrix, tuples, block, labels, 3)
    assert point.violation == pytest.approx(violation, abs=1e-12)
    np.testing.assert_allclose(point.gradient, gradient, atol=1e-12)


@given(SEEDS, st.floats(1e-3, 10.0))
@PROPERTY
def test_improvement_is_the_best_point_of_the_segment(seed, regularization):
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.uniform(-2.0, 1.0)
    one, other = (DualPoint(rng.uniform(), size * rng.normal(size=(2, 3))) for _ in range(2))
    best = one.improved_by(other, regularization).value(regularization)
    shares = np.linspace(0.0, 1.0, 2001)
    segment = [
        DualPoint((1 - t) * one.violation + t * other.violation, (1 - t) * one.gradient + t * other.gradient).value(
            regularization
        )
        for t in shares
    ]
    scale = max(1.0, np.abs(segment).max())
    # A parabola's best grid point is within (step / 2)² |change|² / (2 β) of its top.
    coarse = (0.5 * shares[1]) ** 2 * ((other.gradient - one.gradient) ** 2).sum() / (2.0 * regularization)
    assert max(segment) - 1e-12 * scale <= best <= max(segment) + coarse + 1e-12 * scale
    assert best >= one.value(regularization) - 1e-12 * scale
    assert best >= other.value(regularization) - 1e-12 * scale


def test_improvement_between_points_with_equal_gradients():
    gradient = np.ones((2, 2))
    low, high = DualPoint(0.2, gradient), DualPoint(0.5, gradient)
    assert low.improved_by(high, 0.1).violation == 0.5
    assert high.improved_by(low, 0.1).violation == 0.5
    assert low.improved_by(low, 0.1).violation == 0.2
