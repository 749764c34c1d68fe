"""Newton's direction by products with the curvature: the same as by its matrix, and what happens where that fails."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from m3c_md.optimize import blocks as blocks_module
from m3c_md.optimize import curvature as curvature_module
from m3c_md.optimize import large_margin, line_risk, newton
from m3c_md.optimize.blocks import Rule, WindowBlock, pass_sums
from m3c_md.optimize.curvature import curvature
from m3c_md.optimize.large_margin import minimise_smoothed, solve_large_margin
from m3c_md.optimize.newton import affordable_iterations, conjugate_direction, conjugate_gradients, curved_windows
from m3c_md.optimize.window_loss import orthonormal_contrasts
from tests.optimize.test_kernels import random_case

BETA = 0.02
MANY = 500


def split(blocks, sizes):
    """The windows of one block as several blocks over the same frames."""
    ends = np.cumsum(sizes)
    return [
        replace(blocks[0], windows=blocks[0].windows[:, end - size : end], weights=blocks[0].weights[end - size : end])
        for size, end in zip(sizes, ends, strict=True)
    ]


def without_numba(function):
    with pytest.MonkeyPatch.context() as patch:
        for module in (blocks_module, curvature_module, line_risk, newton):
            patch.setattr(module, "compiled", lambda: None)
        return function()


def products_of(blocks, sums, n_states, smoothing, bias, steps):
    """Products of the curvature with all steps."""
    parts = curved_windows(blocks, sums, n_states, smoothing, bias)
    return [sum((part.times(step) for part in parts), 0.0 * step) for step in steps]


def in_contrasts(matrix, n_states, bias):
    """The dense curvature as a function of (n_states, n_features + bias) steps."""
    contrasts = orthonormal_contrasts(n_states)
    n_columns = len(matrix) // (n_states - 1)

    def product(step):
        full = np.hstack([step, np.zeros((n_states, n_columns - step.shape[1]))])
        image = contrasts @ (matrix @ (contrasts.T @ full).ravel()).reshape(n_states - 1, n_columns)
        return image[:, : step.shape[1]]

    return product


@given(
    seed=st.integers(0, 10**6),
    n_slices=st.integers(1, 3),
    n_states=st.integers(2, 5),
    smoothing=st.sampled_from([1e-6, 0.01, 0.3, 2.0]),
    bias=st.booleans(),
    single=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_products_are_those_of_the_matrix(seed, n_slices, n_states, smoothing, bias, single):
    blocks, labels, rule = random_case(seed, n_slices, n_states)
    blocks = split(blocks, (25, 0, 35))
    if single:
        blocks = [replace(block, features=block.features.astype(np.float32)) for block in blocks]
    sums = pass_sums(blocks, labels, rule, smoothing)
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(3, n_states, 4 + bias))
    dense = in_contrasts(curvature(blocks, sums, n_states, smoothing), n_states, bias)
    expected = [dense(step) for step in steps]
    scale = (n_slices * np.abs(blocks[0].features).max()) ** 2 / smoothing * np.abs(steps).max()
    for way in (lambda function: function(), without_numba):
        actual = way(lambda: products_of(blocks, sums, n_states, smoothing, bias, steps))
        np.testing.assert_allclose(actual, expected, rtol=0.0, atol=(1e-5 if single else 1e-13) * scale)
        # Whatever is common to all states neither matters nor appears.
        np.testing.assert_allclose(np.sum(actual, axis=1), 0.0, atol=(1e-5 if single else 1e-13) * scale)


@pytest.mark.parametrize("n_slices", [1, 2, 3])
@pytest.mark.parametrize("n_states", [2, 3, 5])
@pytest.mark.parametrize("bias", [True, False])
def test_the_mean_block_is_the_mean_of_the_blocks_of_the_matrix(n_slices, n_states, bias):
    blocks, labels, rule = random_case(5, n_slices, n_states)
    sums = pass_sums(blocks, labels, rule, 0.3)
    product = in_contrasts(curvature(blocks, sums, n_states, 0.3), n_states, bias)
    expected = np.zeros((4 + bias, 4 + bias))
    for state in range(n_states):
        for column in range(4 + bias):
            step = np.zeros((n_states, 4 + bias))
            step[state, column] = 1.0
            expected[column] += product(step)[state] / n_states
    (part,) = curved_windows(blocks, sums, n_states, 0.3, bias)
    rows = part.mean_rows(1)
    np.testing.assert_allclose(rows.T @ rows, expected, atol=1e-12)


def wells(n_states=4, n_features=5, n_windows=240, seed=0, spread=1.0):
    """Overlapping clouds, one for each state, in windows of two frames."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n_windows) % n_states
    centers = 1.5 * rng.normal(size=(n_states, n_features))
    frames = np.repeat(centers[labels], 2, axis=0) + spread * rng.normal(size=(2 * n_windows, n_features))
    return WindowBlock(frames, np.arange(2 * n_windows).reshape(-1, 2).T, np.full(n_windows, 1.0 / n_windows)), labels


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.01, 0.5])
def test_the_direction_is_that_of_the_matrix(bias, smoothing, monkeypatch):
    monkeypatch.setattr(newton, "FORCING", 1e-10)
    block, labels = wells()
    rng = np.random.default_rng(1)
    rule = Rule(0.3 * rng.normal(size=(4, 5)), np.zeros(4))  # not centred
    blocks = split([block], (100, 0, 140))
    sums = pass_sums(blocks, labels, rule, smoothing)
    found = conjugate_direction(blocks, rule, sums, smoothing, BETA, bias, MANY)
    hessian = curvature(blocks, sums, 4, smoothing)
    direction, slope = large_margin._direct_direction(rule, sums, hessian, BETA, bias)
    assert found is not None
    np.testing.assert_allclose(found[0].weights, direction.weights, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found[0].bias, direction.bias, rtol=1e-5, atol=1e-7)
    assert found[1] == pytest.approx(slope, rel=1e-6)
    assert slope < 0.0


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("way", [lambda function: function(), without_numba])
def test_both_ways_lead_to_the_same_optimum(bias, precision, way, monkeypatch):
    block, labels = wells()
    blocks = split([replace(block, features=block.features.astype(precision))], (100, 0, 140))
    results = []
    for n_iterations in (MANY, 0):
        monkeypatch.setattr(large_margin, "affordable_iterations", lambda *_, n=n_iterations, **__: n)
        results.append(way(lambda: solve_large_margin(blocks, labels, 4, BETA, bias=bias, tolerance=1e-5)))
    assert all(result.converged for result in results)
    assert results[0].objective == pytest.approx(results[1].objective, rel=2e-5)
    assert max(result.lower_bound for result in results) <= min(result.objective for result in results)


class MadeAnew:
    """Blocks that can only be iterated, and whose features are other arrays each time."""

    def __init__(self, blocks):
        self._blocks = blocks

    def __iter__(self):
        return (replace(block, features=block.features.copy()) for block in self._blocks)


def test_blocks_that_are_made_anew_in_every_pass(monkeypatch):
    monkeypatch.setattr(large_margin, "affordable_iterations", lambda *_, **__: MANY)
    block, labels = wells()
    blocks = split([block], (100, 0, 140))
    here, anew = (solve_large_margin(data, labels, 4, BETA) for data in (blocks, MadeAnew(blocks)))
    np.testing.assert_array_equal(here.rule.weights, anew.rule.weights)


def test_the_tilted_problem_too(monkeypatch):
    block, labels = wells()
    rng = np.random.default_rng(2)
    start = solve_large_margin([block], labels, 4, BETA, tolerance=1e-3).rule
    tilt = Rule(1e-3 * rng.normal(size=(4, 5)), np.zeros(4))
    rules = []
    for n_iterations in (MANY, 0):
        monkeypatch.setattr(large_margin, "affordable_iterations", lambda *_, n=n_iterations, **__: n)
        rules.append(minimise_smoothed([block], labels, start, BETA, 0.1, tilt, tolerance=1e-6, max_passes=100))
    np.testing.assert_allclose(rules[0].weights, rules[1].weights, atol=1e-4)


def test_nothing_is_curved():
    """Only the regulariser bends then: the step leads to the zero rule, all at once."""
    block = WindowBlock(np.array([[-1.0], [1.0]]), np.array([[0, 1]]), np.array([0.5, 0.5]))
    rule = Rule(np.array([[-9.0], [9.0]]), np.zeros(2))
    sums = pass_sums([block], np.array([0, 1]), rule, 0.1)
    found = conjugate_direction([block], rule, sums, 0.1, BETA, True, MANY)
    assert found is not None
    np.testing.assert_allclose(found[0].weights, -rule.weights, rtol=1e-6)
    assert affordable_iterations(sums, 0.1, 2, 1) == 0


@pytest.mark.parametrize(("limit", "number"), [("FEWEST_WINDOWS", 350), ("MAX_MEMBERS", 900)])
def test_many_windows_are_thinned(limit, number, monkeypatch):
    block, labels = wells(n_windows=2000)
    rule = Rule(0.3 * np.random.default_rng(0).normal(size=(4, 5)), np.zeros(4))
    sums = pass_sums([block], labels, rule, 0.5)
    step = np.random.default_rng(1).normal(size=(4, 6))
    (full,) = products_of([block], sums, 4, 0.5, True, [step])
    monkeypatch.setattr(newton, limit, number)
    (part,) = curved_windows([block], sums, 4, 0.5, True)
    assert len(part.ends) <= 400 < 1100 < len(sums.kinks[0][0])
    assert np.linalg.norm(part.times(step) - full) < 0.2 * np.linalg.norm(full)
    (every,) = curved_windows([block], sums, 4, 0.5, True, thorough=True)
    assert len(every.ends) == sums.n_curved[0] > len(part.ends)
    monkeypatch.setattr(newton, "MAX_HESSIAN_ENTRIES", sums.n_curved[0] * sums.gradient.size // 3)
    (fitting,) = curved_windows([block], sums, 4, 0.5, True, thorough=True)  # all windows may not fit into memory
    assert len(fitting.ends) < len(every.ends)
    (narrow,) = curved_windows([block], sums, 4, 1e-3, True)  # the narrower the width, the more windows it takes
    assert len(narrow.ends) == len(sums.kinks[0][0])


class TestConjugateGradients:
    matrix = np.diag([1.0, 2.0, 50.0]) + 0.1

    def solve(self, matrix, right, max_iterations=MANY):
        return conjugate_gradients(lambda x: x @ matrix, lambda x: x / np.abs(np.diag(matrix)), right, max_iterations)

    def test_residual(self):
        right = np.array([[1.0, -2.0, 3.0], [0.0, 1.0, 0.0]])
        solution, reached = self.solve(self.matrix, right)
        assert reached
        assert np.linalg.norm(right - solution @ self.matrix) <= newton.FORCING * np.linalg.norm(right)

    def test_no_right_side(self):
        solution, reached = self.solve(self.matrix, np.zeros((2, 3)))
        assert reached
        np.testing.assert_array_equal(solution, 0.0)

    @pytest.mark.parametrize("matrix", [-np.eye(3), np.full((3, 3), np.nan)])
    def test_not_definite(self, matrix):
        assert not self.solve(matrix, np.ones((2, 3)))[1]

    def test_limit(self, monkeypatch):
        monkeypatch.setattr(newton, "FORCING", 1e-6)
        right = np.array([[1.0, -2.0, 3.0]])
        assert not self.solve(self.matrix, right, 1)[1]
        assert self.solve(self.matrix, right, 3)[1]


class TestFallback:
    """Where products lead nowhere, the matrix does."""

    def both(self, monkeypatch, n_iterations=MANY):
        block, labels = wells()
        monkeypatch.setattr(large_margin, "affordable_iterations", lambda *_, **__: 0)
        expected = solve_large_margin([block], labels, 4, BETA)
        monkeypatch.setattr(large_margin, "affordable_iterations", lambda *_, **__: n_iterations)
        return solve_large_margin([block], labels, 4, BETA), expected

    def test_limit_on_iterations(self, monkeypatch):
        monkeypatch.setattr(newton, "FORCING", 1e-12)
        found, expected = self.both(monkeypatch, 2)
        np.testing.assert_array_equal(found.rule.weights, expected.rule.weights)

    def test_direction_that_rises(self, monkeypatch):
        monkeypatch.setattr(newton, "conjugate_gradients", lambda product, precondition, right, most: (-right, True))
        found, expected = self.both(monkeypatch)
        np.testing.assert_array_equal(found.rule.weights, expected.rule.weights)

    def test_no_factor(self, monkeypatch):
        def fail(*_, **__):
            raise newton.LinAlgError

        monkeypatch.setattr(newton, "cho_factor", fail)
        found, expected = self.both(monkeypatch)
        np.testing.assert_array_equal(found.rule.weights, expected.rule.weights)

    @pytest.mark.parametrize("size", [1e200, np.inf])
    def test_numbers_without_squares(self, size):
        block, labels = wells()
        rule = Rule(np.zeros((4, 5)), np.zeros(4))
        sums = pass_sums([block], labels, rule, 0.5)
        block.features[3] = size
        with np.errstate(all="ignore"):
            assert conjugate_direction([block], rule, sums, 0.5, BETA, True, MANY) is None
            huge = replace(sums, gradient=np.full((4, 5), size) * np.array([[1.0], [-1.0], [1.0], [-1.0]]))
            assert conjugate_direction([wells()[0]], rule, huge, 0.5, BETA, True, MANY) is None


@pytest.mark.parametrize(
    ("n_states", "n_features", "n_windows", "expected"),
    [
        (2, 200, 300, False),
        (2, 200, 20_000, False),
        (3, 200, 300, False),
        (3, 200, 20_000, False),
        (6, 200, 500, True),
        (6, 200, 20_000, True),
        (8, 200, 1000, True),
        (6, 20, 1000, False),
        (3, 1000, 1000, True),
        (12, 100, 1000, True),
    ],
)
def test_the_matrix_is_kept_where_it_is_cheap(n_states, n_features, n_windows, expected):
    support = np.zeros((n_windows, n_states**2), dtype=bool)
    support[:, :2] = True
    sums = pass_sums(*random_case(0, 2, n_states), 0.1)
    sums = replace(sums, kinks=((np.arange(n_windows), support),))
    assert (affordable_iterations(sums, 0.1, n_states, n_features) > 0) == expected
