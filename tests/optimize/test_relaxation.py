"""The relaxation against strong duality, brute force, its own full form and another solver."""

from __future__ import annotations

import itertools
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from m3c_md.exceptions import InputError, SolverError
from m3c_md.optimize import relaxation as module
from m3c_md.optimize.full_relaxation import fixed_labels_value, solve_full_relaxation
from m3c_md.optimize.relaxation import joint_gram, joint_kernel, kernel_features, solve_relaxation

SIZES = list(itertools.product((1, 2), (2, 3)))  # (slices, states)


def random_windows(seed: int, n_slices: int, n_windows: int, n_columns: int) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    start = rng.normal(size=(n_windows, n_columns))
    points = [start + 0.4 * rng.normal(size=start.shape) for _ in range(n_slices)]
    return points, rng.dirichlet(np.full(n_windows, 5.0))


def three_groups(n_per_group: int = 4) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Pairs of points in three separate groups of slightly different weight."""
    rng = np.random.default_rng(7)
    groups = np.repeat(np.arange(3), n_per_group)
    centres = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    points = [centres[groups] + 0.3 * rng.normal(size=(len(groups), 2)) for _ in range(2)]
    weights = 1.0 + 0.1 * rng.random(len(groups))
    return points, weights / weights.sum(), groups


def options(weights: np.ndarray, n_states: int, **more: Any) -> dict[str, Any]:
    cap = max(1.3 / n_states, 1.05 * weights.max())
    return {"regularization": 0.02, "min_share": 0.01, "max_share": min(cap, 1.0), **more}


def primal_optimum(
    slices: list[np.ndarray], weights: np.ndarray, labels: np.ndarray, n_states: int, beta: float
) -> float:
    """Eq. m3c-coarse-grained-supervised as printed, one constraint per window and label tuple."""
    W, slack = cp.Variable((n_states, slices[0].shape[1])), cp.Variable(len(weights))
    constraints = []
    for window, label in enumerate(labels):
        own = sum(W[label] @ X[window] for X in slices)
        for other in itertools.product(range(n_states), repeat=len(slices)):
            score = sum(W[k] @ X[window] for k, X in zip(other, slices, strict=True))
            same = float(all(k == label for k in other))
            constraints.append(own - score + same >= 1 - slack[window])
    problem = cp.Problem(cp.Minimize(0.5 * beta * cp.sum_squares(W) + weights @ slack), constraints)
    return float(problem.solve(solver="CLARABEL"))


class TestGram:
    def test_joint_gram_is_the_sum_of_all_blocks(self) -> None:
        slices, _ = random_windows(0, 3, 4, 2)
        assert np.allclose(joint_gram(slices), sum(X @ Y.T for X in slices for Y in slices))

    def test_joint_kernel_is_the_sum_of_all_blocks(self) -> None:
        points, _ = random_windows(1, 2, 4, 3)
        expected = np.zeros((4, 4))
        for X, Y in itertools.product(points, repeat=2):
            for i, j in itertools.product(range(4), repeat=2):
                expected[i, j] += np.exp(-np.sum((X[i] - Y[j]) ** 2) / (2 * 1.7**2))
        assert np.allclose(joint_kernel(points, 1.7), expected, atol=1e-12)

    @given(seed=st.integers(0, 10_000), n_slices=st.integers(1, 3), bandwidth=st.sampled_from([0.1, 1.0, 20.0]))
    @settings(deadline=None, max_examples=15, derandomize=True)
    def test_kernel_features_reproduce_every_block(self, seed: int, n_slices: int, bandwidth: float) -> None:
        points, _ = random_windows(seed, n_slices, 5, 2)
        features = kernel_features(points, bandwidth)
        for one, other in itertools.product(range(n_slices), repeat=2):
            exact = module.gaussian_kernel(points[one], points[other], bandwidth)
            assert np.allclose(features[one] @ features[other].T, exact, atol=1e-10)

    @pytest.mark.parametrize(
        "slices", [[], [np.zeros(3)], [np.zeros((3, 2)), np.zeros((4, 2))], [np.full((2, 2), np.nan)]]
    )
    def test_unusable_slices_are_refused(self, slices: list[np.ndarray]) -> None:
        with pytest.raises(InputError, match="slices must be"):
            joint_gram(slices)


class TestFixedLabels:
    @pytest.mark.parametrize(("n_slices", "n_states"), SIZES)
    @pytest.mark.parametrize("seed", range(5))
    def test_strong_duality(self, n_slices: int, n_states: int, seed: int) -> None:
        slices, weights = random_windows(seed, n_slices, 6, 3)
        labels = np.random.default_rng(seed).integers(0, n_states, 6)
        beta = (0.3, 0.05, 0.01)[seed % 3]
        value = fixed_labels_value(slices, weights, labels, n_states, regularization=beta)
        assert value == pytest.approx(primal_optimum(slices, weights, labels, n_states, beta), abs=1e-6)

    def test_wrong_labels_are_refused(self) -> None:
        slices, weights = random_windows(0, 1, 4, 2)
        with pytest.raises(InputError, match="labels"):
            fixed_labels_value(slices, weights, [0, 1, 2, 3], 3, regularization=0.1)


class TestFullAndReducedForm:
    @pytest.mark.parametrize("row_sums", [True, False])
    @pytest.mark.parametrize(("n_slices", "n_states"), SIZES)
    @pytest.mark.parametrize("seed", range(3))
    def test_they_agree(self, n_slices: int, n_states: int, row_sums: bool, seed: int) -> None:
        points, weights = random_windows(seed, n_slices, 6, 2)
        slices = kernel_features(points, bandwidth=(0.7, 1.5, 4.0)[seed])
        setting = options(weights, n_states, row_sums=row_sums)
        full = solve_full_relaxation(slices, weights, n_states, **setting)
        reduced = solve_relaxation(joint_gram(slices), weights, n_states, n_slices=n_slices, **setting)
        assert reduced.value == pytest.approx(full.value, rel=1e-6, abs=1e-6)
        assert full.assignment is not None
        assert np.allclose(full.assignment, 1 / n_states if row_sums else 0.0, atol=1e-5)

    def test_printed_form_is_refused_where_its_reduction_does_not_hold(self) -> None:
        rng = np.random.default_rng(3)
        slices, weights = [rng.normal(size=(6, 2))], np.full(6, 1 / 6)
        setting = options(weights, 2, row_sums=False)
        full = solve_full_relaxation(slices, weights, 2, **setting)
        assert full.assignment is not None
        assert full.assignment.max() > 0.01  # D = 0 is not optimal, so the reduced value would be wrong
        with pytest.raises(InputError, match="row_sums=True"):
            solve_relaxation(joint_gram(slices), weights, 2, n_slices=1, **setting)

    def test_one_slice_needs_similarity_above_the_regularization(self) -> None:
        setting = {"regularization": 5.0, "min_share": 0.0, "max_share": 0.8, "row_sums": False}
        points, weights = random_windows(0, 1, 5, 2)
        kernel = joint_kernel(points, 1.0)
        full = solve_full_relaxation(kernel_features(points, 1.0), weights, 2, **setting)
        assert full.assignment is not None
        assert full.assignment.max() > 0.01
        with pytest.raises(InputError, match="needs Kˢc >= 5"):
            solve_relaxation(kernel, weights, 2, n_slices=1, **setting)
        solve_relaxation(kernel, weights, 2, n_slices=2, **setting)


class TestBounds:
    @pytest.mark.parametrize("n_slices", [1, 2])
    @pytest.mark.parametrize("solver", ["SCS", "CLARABEL"])
    def test_relaxation_lies_below_every_balanced_labelling(self, n_slices: int, solver: Any) -> None:
        points, weights = random_windows(5, n_slices, 5, 2)
        slices, setting = kernel_features(points, 1.0), options(weights, 2)
        found = solve_relaxation(joint_gram(slices), weights, 2, n_slices=n_slices, solver=solver, **setting)
        values = [
            fixed_labels_value(slices, weights, labels, 2, regularization=setting["regularization"])
            for labels in itertools.product((0, 1), repeat=5)
            if np.bincount(labels, weights, minlength=2).max() <= setting["max_share"]
        ]
        assert len(values) > 5
        assert found.lower_bound is not None
        assert found.lower_bound <= min(values) + 1e-9

    @pytest.mark.parametrize(("solver", "accuracy"), [("SCS", 1e-3), ("CLARABEL", 1e-6)])
    @pytest.mark.parametrize("row_sums", [True, False])
    @pytest.mark.parametrize("bandwidth", [0.3, 1.0, 8.0])
    def test_certificate_closes_the_gap(self, solver: Any, accuracy: float, row_sums: bool, bandwidth: float) -> None:
        points, weights, _ = three_groups()
        setting = options(weights, 3, row_sums=row_sums, solver=solver)
        found = solve_relaxation(joint_kernel(points, bandwidth), weights, 3, **setting)
        assert found.lower_bound is not None
        assert -accuracy < (found.value - found.lower_bound) / abs(found.value) < accuracy
        assert 0 <= found.violation < accuracy
        assert (found.status, found.solver) == ("optimal", solver)

    @given(seed=st.integers(0, 10_000), n_states=st.integers(2, 4), strict=st.booleans())
    @settings(deadline=None, max_examples=40, derandomize=True)
    def test_any_multipliers_give_a_valid_bound(self, seed: int, n_states: int, strict: bool) -> None:
        """Mixtures of labellings are feasible; no multipliers may bound the objective below what they reach."""
        rng = np.random.default_rng(seed)
        weights = rng.dirichlet(np.ones(6))
        labellings = np.eye(n_states)[rng.integers(0, n_states, (3, 6))]
        M = np.einsum("l,lik,ljk->ij", rng.dirichlet(np.ones(3)), labellings, labellings)
        shares = M @ weights
        feasible = module._Relations(weights, 1 / n_states if strict else 0.0, shares.min(), shares.max())
        assert feasible.violation(M) < 1e-12
        objective, nonneg = rng.normal(size=(6, 6)), rng.random((6, 6))
        objective, nonneg = objective + objective.T, np.triu(nonneg, 1) + np.triu(nonneg, 1).T
        bound = feasible.upper_bound(objective, nonneg, rng.normal(size=6), rng.normal(size=6))
        assert bound >= np.sum(objective * M) - 1e-9


class TestReducedForm:
    def test_separate_groups_are_found_exactly(self) -> None:
        _, weights, groups = three_groups()
        same = (groups[:, None] == groups).astype(float)
        kernel = 4.0 * same  # alike within a group, unlike otherwise
        found = solve_relaxation(kernel, weights, 3, regularization=0.1, min_share=0.01, max_share=0.5)
        assert np.allclose(found.relation[same == 1], 1.0, atol=1e-4)
        share = np.bincount(groups, weights)
        expected = 1 + 4 * np.sum(share**2) / (0.2 * 3) - 4 * np.sum(share**2) / 0.2
        assert found.value == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize("solver", ["SCS", "CLARABEL"])
    def test_relation_has_the_promised_form(self, solver: Any) -> None:
        points, weights, _ = three_groups()
        setting = options(weights, 3, solver=solver)
        M = solve_relaxation(joint_kernel(points, 2.0), weights, 3, **setting).relation
        assert np.array_equal(M, M.T)
        assert np.array_equal(np.diag(M), np.ones(len(M)))
        assert M.min() >= 0
        assert M.max() <= 1
        assert np.linalg.eigvalsh(M - 1 / 3)[0] > -1e-3
        assert (M @ weights).max() < setting["max_share"] + 1e-3

    def test_solvers_agree(self) -> None:
        points, weights, groups = three_groups()
        kernel = joint_kernel(points, 1.5)
        first, second = (
            solve_relaxation(kernel, weights, 3, solver=solver, **options(weights, 3)) for solver in ("SCS", "CLARABEL")
        )
        assert first.value == pytest.approx(second.value, rel=1e-3)
        assert np.abs(first.relation - second.relation).max() < 0.05
        assert np.array_equal(second.relation > 0.5, groups[:, None] == groups)

    def test_regularization_and_kernel_scale_leave_the_relation_alone(self) -> None:
        points, weights, _ = three_groups(3)
        kernel, setting = joint_kernel(points, 2.0), options(weights, 3)
        reference = solve_relaxation(kernel, weights, 3, **setting)
        other = solve_relaxation(1e6 * kernel, weights, 3, **{**setting, "regularization": 30.0})
        assert np.allclose(reference.relation, other.relation, atol=1e-6)
        assert (other.value - 1) * 30.0 / 1e6 == pytest.approx((reference.value - 1) * 0.02, rel=1e-6)

    def test_order_of_windows_does_not_matter(self) -> None:
        points, weights, _ = three_groups(3)
        order = np.random.default_rng(0).permutation(len(weights))
        kernel, setting = joint_kernel(points, 2.0), options(weights, 3)
        reference = solve_relaxation(kernel, weights, 3, **setting)
        shuffled = solve_relaxation(kernel[np.ix_(order, order)], weights[order], 3, **setting)
        assert shuffled.value == pytest.approx(reference.value, rel=1e-7)
        assert np.allclose(shuffled.relation, reference.relation[np.ix_(order, order)], atol=1e-4)

    @pytest.mark.parametrize("low", [0.0, 0.2])
    def test_min_share_binds(self, low: float) -> None:
        """Where every link costs, windows of the printed form stay alone unless their class must have a share."""
        weights, kernel = np.full(8, 1 / 8), np.eye(8) - 0.01
        setting = {"regularization": 0.1, "min_share": low, "max_share": 0.6, "row_sums": False}
        shares = solve_relaxation(kernel, weights, 4, **setting).relation @ weights
        assert np.allclose(shares, max(low, 1 / 8), atol=1e-5)

    def test_kernel_without_links_is_not_an_error(self) -> None:
        weights = np.full(6, 1 / 6)
        found = solve_relaxation(np.eye(6), weights, 2, **options(weights, 2))
        assert found.violation < 1e-6
        assert found.lower_bound == pytest.approx(found.value)

    def test_same_input_same_answer(self) -> None:
        points, weights, _ = three_groups(3)
        for solver in ("SCS", "CLARABEL"):
            first, second = (
                solve_relaxation(joint_kernel(points, 1.0), weights, 3, **options(weights, 3, solver=solver))
                for _ in range(2)
            )
            assert np.array_equal(first.relation, second.relation)

    def test_default_solver_depends_on_size(self, monkeypatch: pytest.MonkeyPatch) -> None:
        points, weights, _ = three_groups(3)
        kernel = joint_kernel(points, 1.0)
        assert solve_relaxation(kernel, weights, 3, **options(weights, 3)).solver == "CLARABEL"
        monkeypatch.setattr(module, "_CLARABEL_WINDOWS", 8)
        assert solve_relaxation(kernel, weights, 3, **options(weights, 3)).solver == "SCS"


class TestErrors:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"max_share": 0.3}, "enclose 1/n_states"),
            ({"min_share": 0.4, "max_share": 0.6}, "enclose 1/n_states"),
            ({"min_share": 0.5, "max_share": 0.4}, "min_share <= max_share"),
            ({"max_share": 1.5}, "max_share <= 1"),
            ({"weights": [0.6, 0.2, 0.1, 0.1], "max_share": 0.5}, "largest weight 0.6"),
            ({"weights": [0.5, 0.5, 0.5, 0.5]}, "sum 1"),
            ({"weights": [1.1, -0.1, 0.0, 0.0]}, "not negative"),
            ({"n_states": 1}, "n_states"),
            ({"n_states": 5}, "n_states"),
            ({"regularization": 0.0}, "regularization"),
            ({"gram": np.eye(3)}, "symmetric"),
            ({"gram": np.triu(np.ones((4, 4)))}, "symmetric"),
            ({"solver": "MOSEK"}, "solver must be one of"),
        ],
    )
    def test_unusable_input_is_named(self, change: dict[str, Any], message: str) -> None:
        arguments: dict[str, Any] = {"gram": np.eye(4), "weights": np.full(4, 0.25), "n_states": 3}
        arguments |= {"regularization": 0.1, "min_share": 0.01, "max_share": 0.6} | change
        with pytest.raises(InputError, match=message):
            solve_relaxation(**arguments)

    @pytest.mark.parametrize("solver", ["SCS", "CLARABEL"])
    def test_infeasibility_that_only_the_solver_sees(self, solver: Any) -> None:
        """The heavy window fills its class, so the two light ones cannot reach a share of 0.3."""
        bounds = {"min_share": 0.3, "max_share": 0.8}
        with pytest.raises(SolverError, match=f"{solver} found no solution .*infeasible.*wider bounds"):
            solve_relaxation(np.eye(3), [0.8, 0.1, 0.1], 2, regularization=0.1, solver=solver, **bounds)

    def test_errors_of_cvxpy_do_not_leak(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise cp.error.SolverError("it broke")

        monkeypatch.setattr(cp.Problem, "solve", fail)
        with pytest.raises(SolverError, match=r"CLARABEL failed .* it broke .*other solver"):
            solve_relaxation(np.eye(4), np.full(4, 0.25), 2, **options(np.full(4, 0.25), 2))

    def test_inaccurate_solution_is_accepted_only_on_evidence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        points, weights, _ = three_groups(2)
        kernel, setting = joint_kernel(points, 1.0), options(weights, 3, solver="SCS", tolerance=1e-17)
        found = solve_relaxation(kernel, weights, 3, **setting)  # more digits than there are: runs into its limit
        assert found.status == "optimal_inaccurate"
        assert found.violation < 1e-6
        for limit in ("_INACCURATE_VIOLATION", "_INACCURATE_GAP"):
            with monkeypatch.context() as patch:
                patch.setattr(module, limit, -1.0)
                with pytest.raises(SolverError, match="SCS ended with status 'optimal_inaccurate'"):
                    solve_relaxation(kernel, weights, 3, **setting)


def test_points_that_coincide_need_no_features_of_their_own() -> None:
    points = np.array([[0.0], [1.0], [0.0], [4.0], [1.0]])
    first, second = kernel_features([points, points], 1.0)
    assert first.shape == (5, 3)
    np.testing.assert_allclose(first, second, atol=1e-12)


@pytest.mark.parametrize("row_sums", [True, False])
def test_as_many_states_as_windows(row_sums: bool) -> None:
    """With shares of 1/N at most every window is a class of its own."""
    kernel = joint_kernel([[[0.0], [0.5], [3.0]]], 1.0)
    found = solve_relaxation(
        kernel, [1 / 3] * 3, 3, regularization=0.01, min_share=0.01, max_share=1 / 3, row_sums=row_sums
    )
    np.testing.assert_allclose(found.relation, np.eye(3), atol=1e-5)


def test_shares_may_enclose_the_fair_one_exactly() -> None:
    kernel = joint_kernel([[[0.0], [0.1], [5.0], [5.1]]], 1.0)
    found = solve_relaxation(kernel, [0.25] * 4, 2, regularization=0.01, min_share=0.5, max_share=0.5)
    np.testing.assert_allclose(found.relation, np.kron(np.eye(2), np.ones((2, 2))), atol=1e-4)
    assert found.lower_bound is not None
    assert found.lower_bound == pytest.approx(found.value, rel=1e-4)
