"""The loss of a window against its definition, a maximum over all label tuples, and its smoothing against theory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from m3c_md.optimize.window_loss import (
    SmoothedLine,
    label_costs,
    label_tuples,
    orthonormal_contrasts,
    project_to_simplex,
    smoothed_losses,
    window_losses,
)

PROPERTY = settings(deadline=None, max_examples=60, derandomize=True)
# Small integers make ties, between states, between tuples and with the margin.
SCORES = st.one_of(st.integers(-2, 2).map(float), st.floats(-4.0, 4.0))
SMOOTHINGS = st.floats(0.02, 3.0)


@st.composite
def scored_windows(draw):
    """(scores, labels) of a few windows."""
    shape = (draw(st.integers(1, 3)), draw(st.integers(2, 5)), draw(st.integers(1, 4)))
    scores = draw(arrays(np.float64, shape, elements=SCORES))
    labels = draw(arrays(np.intp, shape[2], elements=st.integers(0, shape[1] - 1)))
    return scores, labels


def tuple_values(scores, labels):
    """1{tuple ≠ (y, ..., y)} + Σ_i (s_{i, k_i} - s_{i, y}) by loops, (n_tuples, n_windows)."""
    n_slices, n_states, n_windows = scores.shape
    values = []
    for states in itertools.product(range(n_states), repeat=n_slices):
        values.append(
            [
                float(any(k != labels[n] for k in states))
                + sum(scores[i, k, n] - scores[i, labels[n], n] for i, k in enumerate(states))
                for n in range(n_windows)
            ]
        )
    return np.array(values)


def project_by_bisection(values):
    """Projection of every column onto the simplex: bisection for the threshold t with Σ max(v - t, 0) = 1."""
    columns = []
    for column in values.T:
        low, high = column.max() - 1.0, column.max()
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if np.maximum(column - middle, 0.0).sum() > 1.0 else (low, middle)
        columns.append(np.maximum(column - 0.5 * (low + high), 0.0))
    return np.array(columns).T


# ---------------------------------------------------------------------------------------------- exact losses


@given(scored_windows())
@PROPERTY
def test_loss_is_the_maximum_over_all_tuples(case):
    scores, labels = case
    np.testing.assert_allclose(window_losses(scores, labels), tuple_values(scores, labels).max(axis=0), atol=1e-12)


@given(scored_windows())
@PROPERTY
def test_label_costs_are_the_losses_of_constant_labels(case):
    scores, labels = case
    costs = label_costs(scores)
    for state in range(scores.shape[1]):
        np.testing.assert_allclose(costs[state], window_losses(scores, np.full_like(labels, state)), atol=1e-12)


def test_loss_does_not_change_its_input():
    scores = np.random.default_rng(0).normal(size=(2, 3, 5))
    before = scores.copy()
    labels = np.array([0, 1, 2, 0, 1])
    window_losses(scores, labels)
    label_costs(scores)
    smoothed_losses(scores, labels, 0.5)
    np.testing.assert_array_equal(scores, before)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([[3.0, 0.0], [3.0, 0.0]], 0.0),  # right by more than the margin
        ([[3.0, 0.0], [0.25, 0.0]], 0.75),  # right, the worse slice decides
        ([[0.0, 0.0], [3.0, 0.0]], 1.0),  # a tie costs the whole margin
        ([[0.0, 2.0], [3.0, 0.0]], 3.0),  # one slice wrong by 2
        ([[0.0, 2.0], [0.0, 5.0]], 8.0),  # both wrong: 1 + 2 + 5
    ],
)
def test_known_losses_of_a_pair_labelled_zero(scores, expected):
    assert window_losses(np.array(scores)[:, :, None], np.array([0])).tolist() == [expected]


@pytest.mark.parametrize(("n_slices", "n_states"), [(1, 2), (1, 5), (2, 3), (3, 4)])
def test_label_tuples_come_in_lexicographic_order(n_slices, n_states):
    expected = list(itertools.product(range(n_states), repeat=n_slices))
    assert [tuple(row) for row in label_tuples(n_slices, n_states).tolist()] == expected


# ------------------------------------------------------------------------------------------------- smoothing


@given(scored_windows(), SMOOTHINGS)
@PROPERTY
def test_smoothed_loss_solves_its_definition(case, smoothing):
    """Compare with max_λ λ·v - (μ/2)(|λ|² - 1), λ from bisection over explicit tuples."""
    scores, labels = case
    values = tuple_values(scores, labels)
    weights = project_by_bisection(values / smoothing)
    result = smoothed_losses(scores, labels, smoothing)

    own = [label_tuples(*scores.shape[:2]).tolist().index([y] * len(scores)) for y in labels]
    linear = (weights * values).sum(axis=0)
    np.testing.assert_allclose(result.loss, values.max(axis=0), atol=1e-12)
    np.testing.assert_allclose(result.smoothed, linear + 0.5 * smoothing * (1.0 - (weights**2).sum(axis=0)), atol=1e-10)
    np.testing.assert_allclose(result.slack, values.max(axis=0) - linear, atol=1e-10)
    np.testing.assert_allclose(result.violation, 1.0 - weights[own, np.arange(len(labels))], atol=1e-10)


@given(scored_windows(), SMOOTHINGS)
@PROPERTY
def test_smoothed_loss_is_close_above_the_loss(case, smoothing):
    scores, labels = case
    result = smoothed_losses(scores, labels, smoothing)
    np.testing.assert_allclose(result.loss, window_losses(scores, labels), atol=1e-12)
    assert (result.smoothed >= result.loss - 1e-12).all()
    assert (result.smoothed <= result.loss + 0.5 * smoothing + 1e-12).all()
    assert (result.slack >= -1e-12).all()
    assert (result.violation >= -1e-12).all()
    assert (result.violation <= 1.0 + 1e-12).all()


@given(scored_windows())
@PROPERTY
def test_smoothing_converges_to_the_loss_monotonically(case):
    scores, labels = case
    values = np.array([smoothed_losses(scores, labels, width).smoothed for width in (1.0, 1e-2, 1e-4, 1e-6)])
    assert (np.diff(values, axis=0) <= 1e-10).all()
    np.testing.assert_allclose(values[-1], window_losses(scores, labels), atol=1e-6)


@given(scored_windows(), st.floats(0.1, 3.0))
@PROPERTY
def test_slope_agrees_with_finite_differences(case, smoothing):
    scores, labels = case
    step = 1e-6
    numeric = np.zeros_like(scores)
    for index in np.ndindex(*scores.shape[:2]):
        change = np.zeros_like(scores)
        change[index] = step
        above, below = (smoothed_losses(scores + sign * change, labels, smoothing).smoothed for sign in (1, -1))
        numeric[index] = (above - below) / (2.0 * step)
    # The slope has Lipschitz constant below 2 n_slices / μ: kinks of the second derivative cost at most that.
    slope = smoothed_losses(scores, labels, smoothing).slope
    np.testing.assert_allclose(slope, numeric, atol=2 * len(scores) * step / smoothing + 1e-8)


@given(scored_windows(), SMOOTHINGS, st.integers(0, 2**32 - 1))
@PROPERTY
def test_slope_and_slack_bound_the_loss_everywhere(case, smoothing, seed):
    """loss(s') ≥ loss(s) - slack + slope·(s' - s), which is all that the duality gap rests on."""
    scores, labels = case
    other = scores + np.random.default_rng(seed).normal(scale=3.0, size=scores.shape)
    result = smoothed_losses(scores, labels, smoothing)
    linear = result.loss - result.slack + (result.slope * (other - scores)).sum(axis=(0, 1))
    assert (window_losses(other, labels) >= linear - 1e-10).all()


@given(scored_windows(), SMOOTHINGS)
@PROPERTY
def test_parts_of_the_smoothed_loss_fit_together(case, smoothing):
    """λ·v is violation + slope·s, and slopes are differences of two distributions over states."""
    scores, labels = case
    result = smoothed_losses(scores, labels, smoothing)
    linear = result.violation + (result.slope * scores).sum(axis=(0, 1))
    np.testing.assert_allclose(result.loss - result.slack, linear, atol=1e-10)
    np.testing.assert_allclose(result.slope.sum(axis=1), 0.0, atol=1e-10)
    marginals = result.slope.copy()
    marginals[:, labels, np.arange(len(labels))] += 1.0
    assert marginals.min() >= -1e-10


@given(scored_windows(), SMOOTHINGS)
@PROPERTY
def test_support_lists_the_tuples_of_curved_windows(case, smoothing):
    scores, labels = case
    result = smoothed_losses(scores, labels, smoothing)
    values = tuple_values(scores, labels) / smoothing
    weights = project_by_bisection(values)
    # How far each tuple is above the projection's threshold; a distance of rounding size may count either way.
    above = (values - (values.max(axis=0) - weights.max(axis=0)))[:, result.curved].T
    assert (above[result.support] > -1e-9).all()
    assert (above[~result.support] < 1e-9).all()
    assert (result.support.sum(axis=1) > 1).all()
    straight = np.setdiff1d(np.arange(len(labels)), result.curved)
    assert (weights[:, straight].max(axis=0) > 1.0 - 1e-9).all()


@given(scored_windows(), SMOOTHINGS, st.integers(0, 2**32 - 1))
@PROPERTY
def test_symmetries(case, smoothing, seed):
    scores, labels = case
    rng = np.random.default_rng(seed)
    n_slices, n_states, n_windows = scores.shape
    reference = smoothed_losses(scores, labels, smoothing)
    states, slices, windows = (rng.permutation(n) for n in (n_states, n_slices, n_windows))
    # New state j is the old states[j]; new label of y is where y went.
    relabelled = smoothed_losses(scores[:, states], np.argsort(states)[labels], smoothing)
    reordered = smoothed_losses(scores[slices], labels, smoothing)
    shuffled = smoothed_losses(scores[:, :, windows], labels[windows], smoothing)
    lifted = smoothed_losses(scores + rng.normal(size=(n_slices, 1, n_windows)), labels, smoothing)
    for name in ("loss", "smoothed", "slack", "violation"):
        expected = getattr(reference, name)
        np.testing.assert_allclose(getattr(relabelled, name), expected, atol=1e-10)
        np.testing.assert_allclose(getattr(reordered, name), expected, atol=1e-10)
        np.testing.assert_allclose(getattr(shuffled, name), expected[windows], atol=1e-10)
        np.testing.assert_allclose(getattr(lifted, name), expected, atol=1e-10)
    np.testing.assert_allclose(relabelled.slope, reference.slope[:, states], atol=1e-10)
    np.testing.assert_allclose(reordered.slope, reference.slope[slices], atol=1e-10)
    np.testing.assert_allclose(shuffled.slope, reference.slope[:, :, windows], atol=1e-10)
    np.testing.assert_allclose(lifted.slope, reference.slope, atol=1e-10)


@pytest.mark.parametrize("n_slices", [1, 2, 3])
@pytest.mark.parametrize("n_windows", [1, 4])
def test_windows_far_on_the_right_side_cost_nothing(n_slices, n_windows):
    labels = np.arange(n_windows) % 3
    scores = np.zeros((n_slices, 3, n_windows))
    scores[:, labels, np.arange(n_windows)] = 10.0
    result = smoothed_losses(scores, labels, 0.5)
    for part in (result.loss, result.smoothed, result.slack, result.violation, result.slope):
        np.testing.assert_array_equal(part, np.zeros_like(part))
    assert result.curved.shape == (0,)
    assert result.support.shape == (0, 3**n_slices)


def test_no_window_at_all():
    result = smoothed_losses(np.zeros((2, 3, 0)), np.zeros(0, dtype=np.intp), 0.5)
    assert result.loss.shape == (0,)
    assert result.slope.shape == (2, 3, 0)


def test_activity_ends_where_smoothing_does():
    """Just inside r = -1 - μ a window bends, outside it does not, and the value is continuous there."""
    labels, smoothing = np.array([0]), 0.5
    inside, outside = (
        smoothed_losses(np.array([[[1.5 + change], [0.0]]]), labels, smoothing) for change in (-1e-6, 1e-6)
    )
    assert inside.curved.tolist() == [0]
    assert outside.curved.tolist() == []
    np.testing.assert_allclose(inside.smoothed, outside.smoothed, atol=1e-11)
    np.testing.assert_allclose(inside.slope, outside.slope, atol=1e-5)


# ------------------------------------------------------------------------------------------------ projection

COLUMNS = st.tuples(st.integers(1, 6), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.one_of(SCORES, st.floats(-100.0, 100.0)))
)


@given(COLUMNS)
@PROPERTY
def test_projection_agrees_with_bisection(values):
    np.testing.assert_allclose(project_to_simplex(values), project_by_bisection(values), atol=1e-12)


@given(COLUMNS)
@PROPERTY
def test_projection_is_the_nearest_point_of_the_simplex(values):
    """No vertex lies within less than a right angle of the residual: the variational inequality."""
    nearest = project_to_simplex(values)
    assert nearest.min() >= 0.0
    np.testing.assert_allclose(nearest.sum(axis=0), 1.0, rtol=1e-12)
    residual = values - nearest
    for column in range(values.shape[1]):
        angles = residual[:, column] - residual[:, column] @ nearest[:, column]
        assert angles.max() <= 1e-10


@given(COLUMNS)
@PROPERTY
def test_projection_leaves_the_simplex_alone(values):
    inside = project_to_simplex(values)
    np.testing.assert_allclose(project_to_simplex(inside), inside, atol=1e-12)
    np.testing.assert_allclose(project_to_simplex(values + 7.0), inside, atol=1e-12)


@pytest.mark.parametrize("size", [1e6, 1e9, 1e14, 1e17])
def test_projection_of_huge_values_stays_on_the_simplex(size):
    """A small smoothing divides scores by it; a dual point off the simplex would certify nonsense."""
    values = size + np.array([[0.0, 1.0 / 3.0, 0.0], [0.0, 0.0, -size], [0.0, 0.1, -0.1]])
    nearest = project_to_simplex(values)
    np.testing.assert_allclose(nearest.sum(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(nearest, project_by_bisection(values - values.max(axis=0)), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_contrasts_are_an_orthonormal_basis_of_the_zero_sums(n):
    basis = orthonormal_contrasts(n)
    assert basis.shape == (n, n - 1)
    np.testing.assert_allclose(basis.T @ basis, np.eye(n - 1), atol=1e-14)
    np.testing.assert_allclose(basis.sum(axis=0), 0.0, atol=1e-14)
    assert not basis.flags.writeable


@pytest.mark.parametrize("n_slices", [1, 2, 3])
@pytest.mark.parametrize("length", [0.0, 0.3, 2.0])
def test_derivative_along_a_line_is_slope_times_change(n_slices, length):
    rng = np.random.default_rng(n_slices)
    scores, change = rng.normal(size=(2, n_slices, 3, 40))
    labels = rng.integers(3, size=40)
    for smoothing in (1.0, 0.05):
        slope = smoothed_losses(scores + length * change, labels, smoothing).slope
        actual = SmoothedLine(scores, change, labels, smoothing).slopes(length)
        np.testing.assert_allclose(actual, (slope * change).sum(axis=(0, 1)), atol=1e-10)


@pytest.mark.parametrize("lead", [1.0, 2.0**21])
def test_large_leads_leave_small_differences_alone(lead):
    """Two rivals a quarter and less apart, in units of the smoothing, share the weight 5/8 to 3/8 at any height."""
    smoothing = 2.0**-29
    scores = np.array([[[0.0], [lead], [lead - smoothing / 4.0]]])
    found = smoothed_losses(scores, np.array([0]), smoothing)
    np.testing.assert_allclose(found.slope[0, :, 0], [-1.0, 0.625, 0.375], rtol=1e-9)
    line = SmoothedLine(scores, np.array([[[0.0], [1.0], [0.0]]]), np.array([0]), smoothing)
    np.testing.assert_allclose(line.slopes(0.0), 0.625, rtol=1e-9)
