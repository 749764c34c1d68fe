"""The line search on lines with a known minimum, and the solver where steps and accuracy run out."""

from __future__ import annotations

import numpy as np
import pytest

from m3c_md.optimize import large_margin
from m3c_md.optimize.blocks import Rule, WindowBlock
from m3c_md.optimize.large_margin import FLATNESS, MAX_LINE_STEPS, _line_search, minimise_smoothed, solve_large_margin
from tests.optimize.test_large_margin import assert_consistent, assert_same_optimum, metastable_problem, random_problem


class Risk:
    """A convex risk along a line by its derivative, which counts how often it is asked."""

    def __init__(self, slope):
        self._slope, self.n_calls = slope, 0

    def slope(self, length):
        self.n_calls += 1
        return self._slope(length)


ZERO = Rule(np.zeros((2, 1)), np.zeros(2))


@pytest.mark.parametrize("kink", [1e-6, 1e-3, 0.3, 1.0, 7.0, 1e4])
@pytest.mark.parametrize("steepness", [1.0, 1e3])
@pytest.mark.parametrize("before", [0.0, 0.3])
def test_the_end_is_nearly_flat_wherever_the_kink_is(kink, steepness, before):
    """Falling nearly straight up to the kink, then rising steeply: both too long and too short a first step."""

    def slope(length):
        return -1.0 + before * min(length / kink, 1.0) + steepness * max(length / kink - 1.0, 0.0)

    risk = Risk(slope)
    length = _line_search(risk, ZERO, ZERO, -1.0, 0.0)
    assert abs(slope(length)) <= FLATNESS
    assert risk.n_calls < MAX_LINE_STEPS


def test_an_end_that_stays_does_not_hold_the_secant_back():
    """A derivative that rises as the third power: plain secants creep along the flat part, one tenth at a time."""
    risk = Risk(lambda length: (1e-2 * length) ** 3 - 1.0)
    length = _line_search(risk, ZERO, ZERO, -1.0, 0.0)
    assert abs((1e-2 * length) ** 3 - 1.0) <= FLATNESS
    assert risk.n_calls <= 16  # seven doublings, then a bracket of a factor two


@pytest.mark.parametrize("offset", [0.0, -0.7])
def test_regulariser_and_offset_belong_to_the_line(offset):
    """Without any risk the line is a parabola with its minimum at -(β⟨W, D⟩ + offset) / (β|D|²)."""
    rule, direction = Rule(np.array([[2.0], [-1.0]]), np.zeros(2)), Rule(np.array([[-0.5], [0.25]]), np.zeros(2))
    beta = 0.3
    across = beta * float((rule.weights * direction.weights).sum()) + offset
    along = beta * float((direction.weights**2).sum())
    length = _line_search(Risk(lambda length: 0.0), rule, direction, across, beta, offset)
    assert abs(across + length * along) <= FLATNESS * abs(across)
    assert length == pytest.approx(-across / along, rel=FLATNESS)


@pytest.mark.parametrize("kink", [1e-3, 0.3, 7.0])
def test_a_wall_is_not_climbed(kink):
    """Where steps run out before the line is flat, the end is still on the way down, and most of the way."""
    length = _line_search(Risk(lambda length: -1.0 if length <= kink else 1e12), ZERO, ZERO, -1.0, 0.0)
    assert 0.9 * kink < length <= kink


def test_no_descent_is_no_step():
    assert _line_search(Risk(lambda length: 1.0), ZERO, ZERO, -1.0, 0.0) == 0.0


@pytest.mark.parametrize("seed", range(4))
def test_an_accuracy_that_cannot_be_reached_is_approached(seed):
    """The smoothing shrinks until rounding rules; nothing breaks there, and the gap is next to nothing."""
    block, labels = random_problem(seed)
    result = solve_large_margin([block], labels, 3, 0.05, tolerance=0.0, max_passes=150)
    assert_consistent(result, block, labels, 0.05, 0.0)
    assert result.gap < 1e-8
    assert result.passes <= 150


def test_smoothing_never_grows_and_shrinks_within_its_limits():
    block, labels = metastable_problem(600, 20)
    result = solve_large_margin([block], labels, 3, 1e-3, tolerance=1e-8)
    widths = np.array([row[1] for row in result.trace])
    ratios = widths[1:] / widths[:-1]
    assert (ratios <= 1.0).all()
    assert (ratios > 0.1**2 * (1.0 - 1e-12)).all()  # at most twice a pass: for accuracy, and for want of descent
    assert result.smoothing == widths[-1]


class TestSample:
    """A large problem without a start begins with a sample of its windows."""

    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch):
        monkeypatch.setattr(large_margin, "SAMPLE_SIZE", 100)

    @pytest.mark.parametrize("bias", [True, False])
    def test_the_optimum_is_the_same_and_costs_less(self, bias, monkeypatch):
        block, labels = metastable_problem(1500, 20)
        sampled = solve_large_margin([block], labels, 3, 1e-3, bias=bias)
        assert_consistent(sampled, block, labels, 1e-3, 1e-4)
        monkeypatch.setattr(large_margin, "SAMPLE_SIZE", 10**9)
        cold = solve_large_margin([block], labels, 3, 1e-3, bias=bias)
        assert_same_optimum(sampled, cold)
        assert sampled.passes < cold.passes
        assert sampled.trace[0][1] < cold.trace[0][1]  # the smoothing goes on from where the sample left it
        assert bias or not sampled.rule.bias.any()

    def test_from_four_samples_on(self, monkeypatch):
        sizes = []
        thinned = large_margin.thinned
        monkeypatch.setattr(large_margin, "thinned", lambda b, y, s: sizes.append(s) or thinned(b, y, s))
        for n_windows in (399, 400):
            block, labels = metastable_problem(n_windows, 5)
            solve_large_margin([block], labels, 3, 0.1, tolerance=0.1)
        assert sizes == [4]

    def test_the_sample_is_solved_roughly_only(self, monkeypatch):
        asked = []
        solve = large_margin.solve_large_margin

        def spy(*args, **options):
            asked.append(options["tolerance"])
            return solve(*args, **options)

        monkeypatch.setattr(large_margin, "solve_large_margin", spy)
        block, labels = metastable_problem(400, 5)
        spy([block], labels, 3, 0.1, tolerance=1e-4)
        assert len(asked) == 2
        assert asked[0] < asked[1] <= 0.1

    def test_a_state_that_the_sample_misses(self):
        """One window in fifteen is drawn, always the first: a state that is never there has no sample to start from."""
        block, _ = metastable_problem(1500, 10)
        labels = np.zeros(1500, dtype=np.intp)
        labels[1::15], labels[2::15] = 1, 2
        result = solve_large_margin([block], labels, 3, 0.1)
        assert_consistent(result, block, labels, 0.1, 1e-4)
        assert result.converged


def test_a_tilted_sample_goes_to_the_minimum_of_the_tilted_objective():
    """At the end the gradient of β/2 |W|² + smoothed risk + ⟨tilt, (W, b)⟩ has nearly vanished."""
    from m3c_md.optimize.blocks import pass_sums

    block, labels = metastable_problem(600, 20)
    rng = np.random.default_rng(0)
    tilt_w, tilt_b = 0.01 * rng.normal(size=(3, 20)), 0.01 * rng.normal(size=3)
    tilt = Rule(tilt_w - tilt_w.mean(axis=0), tilt_b - tilt_b.mean())
    beta, width, start = 0.01, 0.1, Rule(np.zeros((3, 20)), np.zeros(3))

    def gradient(rule):
        sums = pass_sums([block], labels, rule, width)
        return np.column_stack([sums.gradient + beta * rule.weights + tilt.weights, sums.bias_gradient + tilt.bias])

    for tolerance in (0.05, 1e-6):
        rule = minimise_smoothed([block], labels, start, beta, width, tilt, tolerance=tolerance, max_passes=100)
        assert np.linalg.norm(gradient(rule)) <= tolerance * np.linalg.norm(gradient(start))
    one_step = minimise_smoothed([block], labels, start, beta, width, tilt, max_passes=1)
    assert 0.05 * np.linalg.norm(gradient(start)) < np.linalg.norm(gradient(one_step))
    assert np.any(one_step.weights != start.weights)
    at_rest = minimise_smoothed([block], labels, rule, beta, width, tilt, max_passes=0)
    np.testing.assert_array_equal(at_rest.weights, rule.weights)


def test_a_tilted_sample_without_bias_keeps_none():
    block, labels = metastable_problem(300, 10)
    start = Rule(np.zeros((3, 10)), np.zeros(3))
    rule = minimise_smoothed([block], labels, start, 0.01, 0.1, start, bias=False)
    assert not rule.bias.any()
    assert rule.weights.any()


def test_states_of_no_weight_and_blocks_of_no_windows_are_told_apart():
    block, labels = random_problem(0)
    nothing = WindowBlock(block.features, block.windows[:, :0], block.weights[:0])
    whole = solve_large_margin([block], labels, 3, 0.1)
    assert_same_optimum(solve_large_margin([nothing, block, nothing], labels, 3, 0.1), whole)
