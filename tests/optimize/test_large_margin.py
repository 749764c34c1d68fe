"""The large-margin solver against an interior-point method, liblinear, closed forms, and its own certificate."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from m3c_md.optimize import curvature as curvature_module
from m3c_md.optimize import large_margin as large_margin_module
from m3c_md.optimize.blocks import Rule, WindowBlock, all_label_costs, class_sums, pass_sums
from m3c_md.optimize.curvature import curvature
from m3c_md.optimize.feature_map import draw_fourier_map
from m3c_md.optimize.large_margin import minimise_smoothed, solve_definite, solve_large_margin
from m3c_md.optimize.window_loss import orthonormal_contrasts, window_losses


def random_problem(seed, n_slices=2, n_states=3, n_features=3, n_windows=25, noise=1.0):
    """Overlapping clusters in one series; windows share frames, weights are unequal. Returns (block, labels)."""
    rng = np.random.default_rng(seed)
    n_frames = n_windows + n_slices - 1
    states = np.sort(np.arange(n_frames) % n_states)  # long stays: few windows straddle two clusters
    centers = rng.normal(scale=1.5, size=(n_states, n_features))
    features = centers[states] + noise * rng.normal(size=(n_frames, n_features))
    windows = np.arange(n_windows) + np.arange(n_slices)[:, None]
    weights = rng.uniform(0.2, 1.0, size=n_windows)
    return WindowBlock(features, windows, weights / weights.sum()), states[:n_windows]


def metastable_problem(n_windows=3000, n_features=60, bandwidth=0.4, seed=0, n_states=3):
    """Pairs of a series that hops between wells, in random features of a narrow kernel."""
    rng = np.random.default_rng(seed)
    hops = rng.random(n_windows + 1) < 0.02
    states = np.cumsum(hops * rng.integers(1, n_states, size=n_windows + 1)) % n_states
    centers = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])
    points = centers[states] + 0.45 * rng.normal(size=(n_windows + 1, 2))
    features = draw_fourier_map(2, n_features, rng).with_bandwidth(bandwidth)(points)
    windows = np.stack([np.arange(n_windows), np.arange(1, n_windows + 1)])
    return WindowBlock(features, windows, np.full(n_windows, 1.0 / n_windows)), states[:n_windows]


def objective(block, labels, rule, regularization):
    losses = window_losses(rule.window_scores(block), labels)
    return 0.5 * regularization * (rule.weights**2).sum() + block.weights @ losses


def optimum_by_interior_point(block, labels, n_states, regularization, bias):
    """Optimum of the quadratic programme with one constraint for each window and label tuple, by Clarabel."""
    import cvxpy as cp

    weights, offsets = cp.Variable((n_states, block.features.shape[1])), cp.Variable(n_states)
    slacks = cp.Variable(len(labels), nonneg=True)
    onehot = np.eye(n_states)[labels]
    constraints = [] if bias else [offsets == 0]
    for states in itertools.product(range(n_states), repeat=len(block.windows)):
        lead = 0
        for frames, state in zip(block.windows, states, strict=True):
            signs = np.eye(n_states)[state] - onehot
            lead = lead + cp.sum(cp.multiply(signs, block.features[frames] @ weights.T), axis=1) + signs @ offsets
        differs = (labels[:, None] != np.array(states)).any(axis=1).astype(float)
        constraints.append(slacks >= differs + lead)
    problem = cp.Problem(
        cp.Minimize(0.5 * regularization * cp.sum_squares(weights) + block.weights @ slacks), constraints
    )
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert problem.status == cp.OPTIMAL
    return problem.value


def assert_consistent(result, block, labels, regularization, tolerance):
    """What every result must satisfy, converged or not."""
    assert result.objective == pytest.approx(objective(block, labels, result.rule, regularization), rel=1e-12)
    assert result.lower_bound <= result.objective + 1e-12
    assert result.gap >= 0.0
    assert result.converged == (result.gap <= tolerance)
    _, _, objectives, bounds = zip(*result.trace, strict=True)
    assert (np.diff(objectives) <= 0.0).all()
    assert (np.diff(bounds) >= -1e-12 * np.abs(bounds[:-1])).all()
    assert result.trace[-1][0] == result.passes
    assert result.trace[-1][2:] == (result.objective, result.lower_bound)


def assert_same_optimum(one, other, gap=1e-3):
    """The certified intervals overlap and are short: what two runs on equivalent problems owe each other."""
    assert max(one.gap, other.gap) <= gap
    rounding = 1e-10 * one.objective
    assert one.lower_bound <= other.objective + rounding
    assert other.lower_bound <= one.objective + rounding


def distance_bound(result, regularization):
    """β/2 |W - W*|² ≤ objective - optimum, by strong convexity in W."""
    return np.sqrt(2.0 * max(result.objective - result.lower_bound, 0.0) / regularization)


# ------------------------------------------------------------------------------------------- other solvers


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("n_slices", "n_states"), [(1, 2), (1, 3), (2, 2), (2, 3)])
@pytest.mark.parametrize("regularization", [1.0, 0.01])
def test_agrees_with_an_interior_point_method(n_slices, n_states, bias, regularization):
    block, labels = random_problem(n_slices + 10 * n_states, n_slices, n_states)
    result = solve_large_margin([block], labels, n_states, regularization, bias=bias, tolerance=1e-8, max_passes=3000)
    optimum = optimum_by_interior_point(block, labels, n_states, regularization, bias)
    assert_consistent(result, block, labels, regularization, 1e-8)
    assert result.lower_bound <= optimum + 1e-9
    assert optimum <= result.objective + 1e-9
    assert result.objective == pytest.approx(optimum, rel=1e-6)
    assert result.converged
    if not bias:
        np.testing.assert_array_equal(result.rule.bias, 0.0)


@pytest.mark.parametrize("regularization", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize(("n_slices", "n_states"), [(1, 2), (2, 3)])
@pytest.mark.parametrize("seed", range(4))
def test_small_problems_converge_within_the_default_passes(seed, n_slices, n_states, regularization):
    block, labels = random_problem(seed, n_slices, n_states)
    result = solve_large_margin([block], labels, n_states, regularization, tolerance=1e-6)
    assert result.converged


@pytest.mark.parametrize("regularization", [1.0, 1e-2])
def test_two_states_agree_with_the_support_vector_machine(regularization):
    """With u = w_1 - w_0 = 2 w_1 the problem is β/2 times liblinear's, C = 2 / (β N)."""
    block, labels = random_problem(0, n_slices=1, n_states=2, n_windows=80)
    n = len(labels)
    block = WindowBlock(block.features, block.windows, np.full(n, 1.0 / n))
    machine = LinearSVC(
        loss="hinge", C=2.0 / (regularization * n), fit_intercept=False, tol=1e-10, max_iter=10**6, random_state=0
    ).fit(block.features, labels)
    direction = machine.coef_[0]
    hinge = np.maximum(0.0, 1.0 - (2 * labels - 1) * (block.features @ direction)).mean()
    expected = 0.25 * regularization * direction @ direction + hinge

    result = solve_large_margin([block], labels, 2, regularization, bias=False, tolerance=1e-7, max_passes=3000)
    assert result.converged
    assert result.objective == pytest.approx(expected, rel=1e-6)
    weights, tolerance = result.rule.weights, 1e-4 + 2.0 * distance_bound(result, regularization)
    np.testing.assert_allclose(weights[1], -weights[0], atol=1e-10)
    np.testing.assert_allclose(weights[1] - weights[0], direction, atol=tolerance)


@pytest.mark.parametrize("n_states", [3, 4])
def test_single_frames_agree_with_crammer_and_singer(n_states):
    regularization = 0.05
    block, labels = random_problem(1, n_slices=1, n_states=n_states, n_windows=80)
    n = len(labels)
    block = WindowBlock(block.features, block.windows, np.full(n, 1.0 / n))
    machine = LinearSVC(
        multi_class="crammer_singer",
        C=1.0 / (regularization * n),
        fit_intercept=False,
        tol=1e-10,
        max_iter=10**6,
        random_state=0,
    ).fit(block.features, labels)
    expected = objective(block, labels, Rule(machine.coef_, np.zeros(n_states)), regularization)
    result = solve_large_margin([block], labels, n_states, regularization, bias=False, tolerance=1e-7, max_passes=3000)
    assert result.converged
    assert result.objective == pytest.approx(expected, rel=1e-6)


# ------------------------------------------------------------------------------------------- known answers


@pytest.mark.parametrize("n_slices", [1, 2])
@pytest.mark.parametrize("margin", [0.5, 2.0])
def test_separable_clusters_have_the_analytic_margin(n_slices, margin):
    """Slabs at distance 2·margin along e: w_1 - w_0 = e / margin, objective β / (4 margin²)."""
    rng = np.random.default_rng(3)
    normal = np.array([0.6, -0.8])
    along = np.array([0.8, 0.6])
    spread = np.repeat(rng.normal(size=20), 2)  # mirrored: every point has a partner across the boundary
    depth = np.repeat(np.r_[np.zeros(6), rng.uniform(0.1, 2.0, size=14)], 2) + margin
    labels = np.tile([0, 1], 20)
    offset = np.array([3.0, -1.0])  # for the bias to find
    features = offset + (depth * (2 * labels - 1))[:, None] * normal + spread[:, None] * along
    # Both slices of a window lie in the same slab; each window also serves as its own second slice.
    second = np.roll(np.arange(40), 2)
    windows = np.stack([np.arange(40), second])[:n_slices]
    block = WindowBlock(features, windows, np.full(40, 1.0 / 40))
    regularization = 1e-3
    result = solve_large_margin([block], labels, 2, regularization, tolerance=1e-6, max_passes=3000)
    assert result.converged
    assert result.objective == pytest.approx(regularization / (4.0 * margin**2), rel=2e-6)
    tolerance = 2.0 * distance_bound(result, regularization)
    np.testing.assert_allclose(result.rule.weights[1] - result.rule.weights[0], normal / margin, atol=tolerance)
    scores = result.rule.scores(features)
    np.testing.assert_array_equal(scores.argmax(axis=0), labels)


@pytest.mark.parametrize("regularization", [0.1, 1.0, 4.0, 40.0])
@pytest.mark.parametrize("size", [0.5, 1.0, 3.0])
def test_two_points_on_a_line_have_a_closed_form(regularization, size):
    """min β u²/4 + max(0, 1 - u·size): u = min(1 / size, 2 size / β), hard or soft margin."""
    block = WindowBlock(np.array([[-size], [size]]), np.arange(2)[None], np.array([0.5, 0.5]))
    result = solve_large_margin([block], np.array([0, 1]), 2, regularization, bias=False, tolerance=1e-9)
    u = min(1.0 / size, 2.0 * size / regularization)
    assert result.converged
    assert result.objective == pytest.approx(0.25 * regularization * u**2 + max(0.0, 1.0 - u * size), rel=1e-8)


def test_features_without_information_leave_the_trivial_rule():
    """All frames equal: the best rule is constant and votes for the largest state, loss 2 per window of the others."""
    labels = np.array([0, 0, 0, 1, 2])
    block = WindowBlock(np.ones((5, 2)), np.arange(5)[None], np.full(5, 0.2))
    result = solve_large_margin([block], labels, 3, 0.1, tolerance=1e-6)
    assert result.converged
    assert result.objective == pytest.approx(0.2 * (0 * 3 + 2 * 2), rel=2e-6)


# ---------------------------------------------------------------------------------------- derivatives


@pytest.mark.parametrize(("n_slices", "n_states"), [(1, 2), (2, 3), (3, 3)])
def test_gradients_agree_with_finite_differences(n_slices, n_states):
    block, labels = random_problem(4, n_slices, n_states)
    rng = np.random.default_rng(5)
    rule = Rule(rng.normal(scale=0.3, size=(n_states, 3)), rng.normal(scale=0.3, size=n_states))
    smoothing, step = 0.5, 1e-6
    sums = pass_sums([block], labels, rule, smoothing)
    for _ in range(5):
        direction = Rule(rng.normal(size=(n_states, 3)), rng.normal(size=n_states))
        above, below = (
            pass_sums([block], labels, rule.moved(direction, length), smoothing).smoothed for length in (step, -step)
        )
        slope = (sums.gradient * direction.weights).sum() + sums.bias_gradient @ direction.bias
        assert (above - below) / (2.0 * step) == pytest.approx(slope, abs=1e-6)


def in_contrasts(weights, bias):
    """Coordinates of `curvature` for a rule or a gradient."""
    return (orthonormal_contrasts(len(bias)).T @ np.column_stack([weights, bias])).ravel()


@pytest.mark.parametrize(("n_slices", "n_states"), [(1, 2), (1, 4), (2, 3), (3, 2)])
def test_curvature_agrees_with_differences_of_the_gradient(n_slices, n_states):
    block, labels = random_problem(6, n_slices, n_states)
    rng = np.random.default_rng(7)
    rule = Rule(rng.normal(scale=0.2, size=(n_states, 3)), rng.normal(scale=0.2, size=n_states))
    smoothing, step = 0.8, 1e-7
    sums = pass_sums([block], labels, rule, smoothing)
    hessian = curvature([block], sums, n_states, smoothing)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-12)
    for _ in range(4):
        direction = Rule(rng.normal(size=(n_states, 3)), rng.normal(size=n_states))
        above, below = (
            pass_sums([block], labels, rule.moved(direction, length), smoothing) for length in (step, -step)
        )
        # The smoothed loss is quadratic where the supports do not change; the step must stay inside such a piece.
        for side in (above, below):
            np.testing.assert_array_equal(side.kinks[0][1], sums.kinks[0][1])
        numeric = in_contrasts(above.gradient - below.gradient, above.bias_gradient - below.bias_gradient) / (2 * step)
        expected = hessian @ in_contrasts(direction.weights, direction.bias)
        np.testing.assert_allclose(numeric, expected, atol=1e-6 * np.abs(expected).max())


def test_thinned_curvature_is_close_to_the_full_one(monkeypatch):
    block, labels = metastable_problem(n_windows=2000, n_features=6, bandwidth=1.0)
    rng = np.random.default_rng(8)
    rule = Rule(rng.normal(size=(3, 6)), np.zeros(3))
    sums = pass_sums([block], labels, rule, 1.0)
    monkeypatch.setattr(curvature_module, "MAX_HESSIAN_ROWS", 10**9)
    full = curvature([block], sums, 3, 1.0)
    monkeypatch.setattr(curvature_module, "MAX_HESSIAN_ROWS", 1500)
    thinned = curvature([block], sums, 3, 1.0)
    assert not np.array_equal(full, thinned)
    assert np.linalg.norm(thinned - full, 2) < 0.3 * np.linalg.norm(full, 2)


# ------------------------------------------------------------------------------------- blocks of windows


def split(block, sizes):
    """Cut a block into blocks of the given numbers of windows, each with only the frames it needs."""
    parts, start = [], 0
    for size in sizes:
        windows = block.windows[:, start : start + size]
        frames, inverse = np.unique(windows, return_inverse=True)
        parts.append(
            WindowBlock(block.features[frames], inverse.reshape(windows.shape), block.weights[start : start + size])
        )
        start += size
    assert start == block.windows.shape[1]
    return parts


@pytest.mark.parametrize("sizes", [(25,), (10, 15), (1,) * 25, (24, 1), (7, 0, 18)])
def test_sums_do_not_depend_on_the_blocks(sizes):
    block, labels = random_problem(9)
    rng = np.random.default_rng(10)
    rule = Rule(rng.normal(size=(3, 3)), rng.normal(size=3))
    whole, parts = ([block], split(block, sizes))
    expected, actual = (pass_sums(data, labels, rule, 0.5) for data in (whole, parts))
    for name in ("loss", "smoothed", "slack", "violation", "gradient", "bias_gradient"):
        np.testing.assert_allclose(getattr(actual, name), getattr(expected, name), atol=1e-12)
    for name in ("shares", "features"):
        np.testing.assert_allclose(
            getattr(class_sums(parts, labels, 3), name), getattr(class_sums(whole, labels, 3), name), atol=1e-12
        )
    np.testing.assert_allclose(curvature(parts, actual, 3, 0.5), curvature(whole, expected, 3, 0.5), atol=1e-12)
    np.testing.assert_allclose(all_label_costs(parts, rule), all_label_costs(whole, rule), atol=1e-12)


def test_label_costs_of_the_blocks_are_weighted_losses():
    block, labels = random_problem(11)
    rule = Rule(np.random.default_rng(0).normal(size=(3, 3)), np.array([0.1, 0.0, -0.3]))
    costs = all_label_costs([block], rule)
    expected = block.weights @ window_losses(rule.window_scores(block), labels)
    assert costs[np.arange(len(labels)), labels].sum() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("sizes", [(10, 15), (1,) * 25])
def test_optimum_does_not_depend_on_the_blocks(sizes):
    block, labels = random_problem(12)
    whole = solve_large_margin([block], labels, 3, 0.05)
    parts = solve_large_margin(split(block, sizes), labels, 3, 0.05)
    assert_same_optimum(whole, parts)


def test_weights_may_be_spread_over_copies_and_zero():
    """A window twice with half its weight is the same window, one of weight zero is none."""
    block, labels = random_problem(13)
    double = WindowBlock(
        block.features,
        np.hstack([block.windows, block.windows, block.windows[:, ::-1]]),
        np.r_[0.25 * block.weights, 0.75 * block.weights, np.zeros(25)],
    )
    once = solve_large_margin([block], labels, 3, 0.05)
    twice = solve_large_margin([double], np.r_[labels, labels, labels], 3, 0.05)
    assert_same_optimum(once, twice)


@pytest.mark.parametrize("n_labels", [24, 26, 0])
def test_number_of_labels_must_fit(n_labels):
    block, labels = random_problem(14)
    with pytest.raises(ValueError, match="one label per window"):
        solve_large_margin([block], np.resize(labels, n_labels), 3, 0.1)


def test_weights_that_do_not_sum_to_one_are_refused():
    block = WindowBlock(np.eye(2), np.arange(2)[None], np.full(2, 0.05))
    with pytest.raises(ValueError, match=r"sum to 0\.1; normalise"):
        solve_large_margin([block], np.arange(2), 2, 1.0)


def test_no_blocks():
    with pytest.raises(ValueError, match="no data"):
        solve_large_margin([], np.zeros(0, dtype=np.intp), 2, 0.1)


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_empty_state_is_named(empty):
    block, labels = random_problem(15)
    labels = np.where(labels == empty, (empty + 1) % 3, labels)
    with pytest.raises(ValueError, match=f"state {empty} "):
        solve_large_margin([block], labels, 3, 0.1)


def test_state_of_zero_weight_is_named():
    block, labels = random_problem(15)
    weights = np.where(labels == 1, 0.0, block.weights)
    with pytest.raises(ValueError, match="state 1 "):
        solve_large_margin([WindowBlock(block.features, block.windows, weights / weights.sum())], labels, 3, 0.1)


# ------------------------------------------------------------------------------------------- invariances


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([1e-2, 0.3]))
@settings(deadline=None, max_examples=12, derandomize=True)
def test_permuted_states_and_windows(seed, bias, regularization):
    rng = np.random.default_rng(seed)
    block, labels = random_problem(seed, n_windows=20)
    windows, states = rng.permutation(20), rng.permutation(3)
    shuffled = WindowBlock(block.features, block.windows[::-1, windows], block.weights[windows])
    one = solve_large_margin([block], labels, 3, regularization, bias=bias)
    other = solve_large_margin([shuffled], states[labels[windows]], 3, regularization, bias=bias)
    assert_same_optimum(one, other)
    distance = np.linalg.norm(other.rule.weights[states] - one.rule.weights)
    assert distance <= distance_bound(one, regularization) + distance_bound(other, regularization) + 1e-9


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=8, derandomize=True)
def test_rotated_and_rescaled_features(seed):
    """A rotation changes nothing; features times s with β times s² neither."""
    rng = np.random.default_rng(seed)
    block, labels = random_problem(seed, n_windows=20)
    rotation = 3.0 * np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turned = WindowBlock(block.features @ rotation, block.windows, block.weights)
    one = solve_large_margin([block], labels, 3, 0.1)
    other = solve_large_margin([turned], labels, 3, 0.9)
    assert_same_optimum(one, other)


def test_constant_shift_of_the_features_is_absorbed_by_the_bias_only():
    """|W| alone is penalised, so that moving all frames moves b; without b the optimum changes."""
    block, labels = random_problem(16)
    moved = WindowBlock(block.features + np.array([2.0, -1.0, 0.5]), block.windows, block.weights)
    with_bias, without = (
        [solve_large_margin([data], labels, 3, 0.1, bias=bias) for data in (block, moved)] for bias in (True, False)
    )
    assert_same_optimum(*with_bias)
    first, second = without
    assert first.objective < second.lower_bound or second.objective < first.lower_bound
    for result in without:
        assert with_bias[0].lower_bound < result.objective


def test_common_part_of_the_start_is_irrelevant():
    block, labels = random_problem(17)
    rng = np.random.default_rng(18)
    start = Rule(rng.normal(size=(3, 3)), rng.normal(size=3))
    shifted = Rule(start.weights + rng.normal(size=3), start.bias + 5.0)
    one, other = (solve_large_margin([block], labels, 3, 0.1, start=rule) for rule in (start, shifted))
    assert other.objective == pytest.approx(one.objective, rel=1e-4)
    np.testing.assert_allclose(one.rule.weights.sum(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(other.rule.weights.sum(axis=0), 0.0, atol=1e-10)


def test_solver_leaves_its_input_alone_and_repeats_itself():
    block, labels = random_problem(19)
    start = Rule(np.random.default_rng(0).normal(size=(3, 3)), np.arange(3.0))
    inputs = (block.features, block.weights, block.windows, labels, start.weights, start.bias)
    copies = [array.copy() for array in inputs]
    one, other = (solve_large_margin([block], labels, 3, 0.1, start=start) for _ in range(2))
    for array, before in zip(inputs, copies, strict=True):
        np.testing.assert_array_equal(array, before)
    np.testing.assert_array_equal(one.rule.weights, other.rule.weights)
    assert one.trace == other.trace


# ----------------------------------------------------------------------------- warm starts and stopping


@pytest.mark.parametrize("smoothing", [2.0, 0.01])
def test_warm_start_from_the_solution_stops_soon(smoothing):
    block, labels = metastable_problem(n_windows=1000, n_features=20, bandwidth=1.0)
    cold = solve_large_margin([block], labels, 3, 1e-2)
    warm = solve_large_margin([block], labels, 3, 1e-2, start=cold.rule, smoothing=smoothing)
    assert cold.converged
    assert warm.converged
    assert warm.objective <= cold.objective * (1.0 + 1e-12)
    assert warm.passes <= cold.passes


@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.sampled_from([1e-3, 0.1, 5.0]))
@settings(deadline=None, max_examples=25, derandomize=True)
def test_result_is_never_worse_than_the_start(seed, max_passes, size):
    """Also if the solver is stopped on its way through smoothed problems, whose optima may be worse."""
    block, labels = random_problem(seed)
    near = solve_large_margin([block], labels, 3, 0.05, tolerance=1e-3).rule
    rng = np.random.default_rng(seed)
    start = near.moved(Rule(rng.normal(size=(3, 3)), rng.normal(size=3)), size)
    result = solve_large_margin([block], labels, 3, 0.05, start=start, max_passes=max_passes, tolerance=1e-9)
    assert result.objective <= objective(block, labels, start, 0.05) + 1e-12
    assert_consistent(result, block, labels, 0.05, 1e-9)


@pytest.mark.parametrize("max_passes", [2, 3, 5, 8])
def test_gap_is_true_when_passes_run_out(max_passes):
    block, labels = random_problem(20)
    limited = solve_large_margin([block], labels, 3, 0.02, tolerance=1e-7, max_passes=max_passes)
    full = solve_large_margin([block], labels, 3, 0.02)
    assert full.gap <= 1e-3
    assert not limited.converged
    assert limited.passes <= max_passes
    assert limited.gap > 1e-7
    assert_consistent(limited, block, labels, 0.02, 1e-7)
    assert limited.lower_bound <= full.objective
    assert limited.objective >= full.lower_bound


@given(st.integers(0, 2**32 - 1), st.booleans(), st.floats(1e-3, 10.0), st.integers(1, 2), st.integers(2, 3))
@settings(deadline=None, max_examples=15, derandomize=True)
def test_certificate_holds_against_random_rules(seed, bias, regularization, n_slices, n_states):
    block, labels = random_problem(seed, n_slices, n_states, n_windows=15)
    result = solve_large_margin([block], labels, n_states, regularization, bias=bias, tolerance=1e-5)
    assert_consistent(result, block, labels, regularization, 1e-5)
    rng = np.random.default_rng(seed)
    for size in (1e-4, 1e-2, 1.0):
        change = Rule(rng.normal(size=(n_states, 3)), rng.normal(size=n_states) * bias)
        assert objective(block, labels, result.rule.moved(change, size), regularization) >= result.lower_bound


# ------------------------------------------------------------------------------------- harder instances


@pytest.mark.parametrize("bias", [True, False])
def test_narrow_kernel_and_little_regularization(bias):
    block, labels = metastable_problem()
    result = solve_large_margin([block], labels, 3, 1e-3, bias=bias)
    assert result.converged
    assert result.gap <= 1e-4
    assert_consistent(result, block, labels, 1e-3, 1e-4)


def test_thinning_the_hessian_does_not_spoil_convergence(monkeypatch):
    block, labels = metastable_problem(n_windows=2000, n_features=10, bandwidth=1.0)
    monkeypatch.setattr(curvature_module, "MAX_HESSIAN_ROWS", 300)
    thinned = solve_large_margin([block], labels, 3, 1e-3)
    monkeypatch.undo()
    full = solve_large_margin([block], labels, 3, 1e-3)
    assert thinned.converged
    assert full.converged
    assert thinned.objective == pytest.approx(full.objective, rel=2e-4)


@pytest.mark.parametrize("regularization", [1e-2, 1e-3, 1e-4, 1e-5])
@pytest.mark.parametrize("smoothing", [2.0, 0.1])
def test_separated_unequal_clusters_converge(regularization, smoothing):
    """Few windows touch the margin then: almost no curvature but the regulariser's, and none in the bias."""
    rng = np.random.default_rng(0)
    labels = (np.arange(200) < 20).astype(np.intp)
    features = rng.normal(size=(200, 2)) + 3.0 * labels[:, None]
    block = WindowBlock(features, np.arange(200)[None], np.full(200, 1.0 / 200))
    result = solve_large_margin([block], labels, 2, regularization, smoothing=smoothing)
    assert result.converged


def test_a_hessian_that_rounding_makes_indefinite_still_gives_a_descent_direction():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(2, 6))
    singular = 1e13 * factor.T @ factor + 1e-9 * np.eye(6)  # rank 2: the ridge is lost in the last digits
    right = rng.normal(size=6)
    step = solve_definite(singular, right)
    assert np.isfinite(step).all()
    assert step @ right > 0.0
    definite = factor.T @ factor + np.eye(6)
    np.testing.assert_allclose(definite @ solve_definite(definite, right), right, atol=1e-10)


def open_directions(seed):
    """A block and labels; most columns are of few windows, so that some windows hardly bend along them."""
    rng, n, n_columns = np.random.default_rng(seed), 1000, 40
    columns = np.where(rng.random(n) < 0.8, rng.integers(0, 4, n), rng.integers(4, n_columns, n))
    x = rng.normal(size=n)
    labels = (x + 0.7 * rng.normal(size=n) > 0.0).astype(int)
    features = np.zeros((n, n_columns))
    features[np.arange(n), columns] = x * np.where(columns >= 4, 30.0, 1.0)
    return WindowBlock(features, np.arange(n)[None], np.full(n, 1.0 / n)), labels


@pytest.mark.parametrize("seed", [0, 1])
def test_curvature_of_some_windows_may_leave_a_direction_open(seed, monkeypatch):
    """Steps by some of the curvature are far too long, until all of it is taken."""
    block, labels = open_directions(seed)
    best = solve_large_margin([block], labels, 2, 1e-4)
    monkeypatch.setattr(curvature_module, "MAX_HESSIAN_ROWS", 50)
    found = solve_large_margin([block], labels, 2, 1e-4, max_passes=200)
    assert found.converged
    assert found.objective == pytest.approx(best.objective, rel=2e-4)
    monkeypatch.setattr(large_margin_module, "SHORT_STEP", 0.0)
    assert not solve_large_margin([block], labels, 2, 1e-4, max_passes=200).converged


def test_short_steps_at_one_width_of_the_smoothing_take_all_curvature_too(monkeypatch):
    """Steps on a soak system of integers, eight states and 132,000 pairs stayed short for 147 s."""
    block, labels = open_directions(0)
    start = solve_large_margin([block], labels, 2, 1e-4, tolerance=0.3).rule
    zero, taken = Rule(np.zeros((2, 40)), np.zeros(2)), []
    direction = large_margin_module._newton_direction

    def recorded(*args, thorough):
        taken.append(thorough)
        return direction(*args, thorough=thorough)

    monkeypatch.setattr(large_margin_module, "_newton_direction", recorded)
    monkeypatch.setattr(large_margin_module, "_line_search", lambda *args: 0.1)
    minimise_smoothed([block], labels, start, 1e-4, 0.02, zero, tolerance=1e-9, max_passes=5)
    assert taken == [False, False, True, True, True]
    taken.clear()
    monkeypatch.setattr(large_margin_module, "_line_search", lambda *args: 0.5)
    minimise_smoothed([block], labels, start, 1e-4, 0.02, zero, tolerance=1e-9, max_passes=5)
    assert not any(taken)
