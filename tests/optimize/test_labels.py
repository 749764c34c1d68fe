"""The label step is exact: brute force, another solver, and dual prices all agree with it."""

from __future__ import annotations

import itertools
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog
from scipy.sparse import eye, kron

from m3c_md.exceptions import InputError, SolverError
from m3c_md.optimize import labels as labels_module
from m3c_md.optimize.labels import balanced_labels, class_bounds, label_prices, price_bound


def cost_of(costs, labels):
    return costs[np.arange(len(costs)), labels].sum()


def brute_force(costs, lower, upper):
    n, k = costs.shape
    labelings = np.array(list(itertools.product(range(k), repeat=n)))
    counts = (labelings[:, :, None] == np.arange(k)).sum(axis=1)
    feasible = ((counts >= lower) & (counts <= upper)).all(axis=1)
    return costs[np.arange(n), labelings[feasible]].sum(axis=1).min()


def linear_programme(costs, lower, upper):
    """The full LP, row sums 1 and class sums in bounds, by scipy's HiGHS."""
    n, k = costs.shape
    columns = kron(np.ones((1, n)), eye(k), format="csr")
    scale = np.abs(costs).max() or 1.0
    answer = linprog(
        costs.ravel() / scale,
        A_eq=kron(eye(n), np.ones((1, k)), format="csr"),
        b_eq=np.ones(n),
        A_ub=np.vstack([columns.toarray(), -columns.toarray()]),
        b_ub=np.r_[np.full(k, upper), np.full(k, -lower)],
        bounds=(0, 1),
        method="highs",
        options={"dual_feasibility_tolerance": 1e-10, "primal_feasibility_tolerance": 1e-10},
    )
    assert answer.status == 0
    return answer.fun * scale


def assert_consistent(result, costs, lower, upper):
    k = costs.shape[1]
    np.testing.assert_array_equal(result.counts, np.bincount(result.labels, minlength=k))
    assert lower <= result.counts.min()
    assert result.counts.max() <= upper
    assert result.cost == pytest.approx(cost_of(costs, result.labels), rel=1e-12)


def assert_certified(result, costs, lower, upper):
    """Weak duality closes the gap: no labelling is cheaper."""
    bound = price_bound(costs, label_prices(costs, result.labels, lower, upper), lower, upper)
    assert result.cost - bound <= 1e-9 * np.ptp(costs)


class TestClassBounds:
    @pytest.mark.parametrize(
        ("n", "k", "balance", "expected"),
        [
            (1000, 3, (0.01, 0.99), (10, 990)),  # the defaults
            (700, 3, (0.07, 0.93), (49, 651)),  # 0.07 * 700 = 49.00000000000001 in floating point
            (1001, 3, (0.01, 0.99), (11, 990)),
            (3, 3, (1 / 3, 1 / 3), (1, 1)),
            (49, 49, (1 / 49, 1 / 49), (1, 1)),  # 49 * (1 / 49) < 1 in floating point
            (10, 3, (0.0, 1.0), (1, 10)),  # no empty class even without a lower share
            (10**6, 5, (0.2, 0.2), (200_000, 200_000)),
        ],
    )
    def test_known_values(self, n, k, balance, expected):
        assert class_bounds(n, k, balance) == expected

    @given(st.integers(1, 10**7), st.integers(1, 100))
    @settings(deadline=None, max_examples=100, derandomize=True)
    def test_percent_shares_are_exact(self, n, percent):
        lower, upper = class_bounds(n, 1, (percent / 100, 1.0))
        assert (lower, upper) == (-(-percent * n // 100), n)

    @pytest.mark.parametrize(
        ("n", "k", "balance", "named"),
        [
            (10, 3, (0.4, 0.99), r"0\.4"),
            (10, 3, (0.01, 0.3), r"0\.3"),
            (10, 3, (-0.1, 0.99), r"-0\.1"),
            (10, 3, (0.01, 1.5), r"1\.5"),
            (10, 3, (float("nan"), 0.9), "nan"),
            (10, 3, (1 / 3, 1.0), "4 to 10"),  # three classes of at least 4
            (10, 3, (0.0, 0.35), "1 to 3"),  # three classes of at most 3
            (2, 3, (0.0, 1.0), "2 windows"),
        ],
    )
    def test_impossible_shares_are_named(self, n, k, balance, named):
        with pytest.raises(InputError, match=named):
            class_bounds(n, k, balance)


class TestExactness:
    @given(st.data())
    @settings(deadline=None, max_examples=150, derandomize=True)
    def test_brute_force(self, data):
        n, k = data.draw(st.integers(3, 8)), data.draw(st.integers(2, 3))
        lower = data.draw(st.integers(0, n // k))
        upper = data.draw(st.integers(-(-n // k), n))
        values = data.draw(st.sampled_from([st.integers(-3, 3).map(float), st.floats(-1e3, 1e3, width=32)]))
        costs = data.draw(arrays(np.float64, (n, k), elements=values))
        result = balanced_labels(costs, lower, upper)
        assert_consistent(result, costs, lower, upper)
        assert result.cost == pytest.approx(brute_force(costs, lower, upper), abs=1e-9 * (np.ptp(costs) + 1e-300))

    @pytest.mark.parametrize("k", [2, 3, 4, 5])
    @pytest.mark.parametrize("kind", ["uniform", "ties", "skewed", "spanning", "chain"])
    @pytest.mark.parametrize("tightness", ["loose", "tight", "equal"])
    def test_linear_programme(self, k, kind, tightness):
        rng = np.random.default_rng([k, len(kind), len(tightness)])
        n = k * int(rng.integers(60 // k, 200 // k))
        costs = rng.random((n, k))
        if kind == "ties":
            costs = rng.integers(0, 3, (n, k)).astype(float)
        elif kind == "skewed":
            costs += np.arange(k)
        elif kind == "spanning":  # windows weighted over six decades
            costs *= 10.0 ** rng.uniform(-6, 0, (n, 1))
        elif kind == "chain":  # cheap moves only j -> j + 1: a deficit at the end is filled through all classes
            costs = np.abs(rng.integers(0, 2, (n, 1)) + rng.normal(0, 0.1, (n, 1)) - np.arange(k)) ** 2
        lower = {"loose": 2, "tight": n // k - 2, "equal": n // k}[tightness]
        upper = {"loose": n // 2 + 1, "tight": n // k + 3, "equal": n // k}[tightness]
        result = balanced_labels(costs, lower, upper)
        assert_consistent(result, costs, lower, upper)
        assert_certified(result, costs, lower, upper)
        assert result.cost == pytest.approx(linear_programme(costs, lower, upper), rel=1e-8, abs=1e-8)

    @pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12])
    def test_scale_does_not_matter(self, scale):
        costs = np.random.default_rng(4).random((80, 3)) + np.array([0.0, 0.5, 1.0])
        unit, scaled = balanced_labels(costs, 20, 40), balanced_labels(costs * scale, 20, 40)
        np.testing.assert_array_equal(unit.labels, scaled.labels)
        assert scaled.cost == pytest.approx(unit.cost * scale, rel=1e-12)

    @pytest.mark.parametrize("k", [2, 4, 7])
    def test_certificate_at_ten_thousand(self, k):
        rng = np.random.default_rng(k)
        costs = rng.exponential(size=(10_000, k)) + np.linspace(0, 2, k)
        bounds = class_bounds(10_000, k, (0.8 / k, 1.3 / k))
        result = balanced_labels(costs, *bounds)
        assert result.method == "flow"
        assert_consistent(result, costs, *bounds)
        assert_certified(result, costs, *bounds)

    @given(st.integers(0, 10**6))
    @settings(deadline=None, max_examples=25, derandomize=True)
    def test_order_of_windows_and_classes_is_irrelevant(self, seed):
        rng = np.random.default_rng(seed)
        costs = rng.random((50, 4)) + rng.uniform(0, 1, 4)
        cost = balanced_labels(costs, 8, 16).cost
        shuffled = costs[rng.permutation(50)][:, rng.permutation(4)]
        assert balanced_labels(shuffled, 8, 16).cost == pytest.approx(cost, rel=1e-10)


class TestMethod:
    def test_row_minima_when_balanced(self):
        costs = np.random.default_rng(0).random((1000, 3))
        result = balanced_labels(costs, *class_bounds(1000, 3, (0.01, 0.99)))
        assert result.method == "argmin"
        np.testing.assert_array_equal(result.labels, costs.argmin(axis=1))

    def test_ties_go_to_the_lowest_class(self):
        np.testing.assert_array_equal(balanced_labels(np.zeros((4, 3)), 0, 4).labels, np.zeros(4))

    def test_flow_only_moves_what_it_must(self):
        costs = np.random.default_rng(1).random((5000, 2)) + np.array([0.0, 2.0])
        result = balanced_labels(costs, 50, 4950)
        cheapest = np.sort(np.argsort(costs[:, 1] - costs[:, 0])[:50])
        assert result.method == "flow"
        np.testing.assert_array_equal(np.flatnonzero(result.labels == 1), cheapest)

    def test_all_windows_alike(self):
        result = balanced_labels(np.full((9, 3), 7.0), 3, 3)
        assert result.cost == 63.0
        np.testing.assert_array_equal(result.counts, [3, 3, 3])

    def test_one_class(self):
        assert balanced_labels([[1.0], [2.0]], 1, 2).cost == 3.0

    def test_input_is_left_alone(self):
        costs = np.random.default_rng(2).random((30, 3)) + np.array([0, 3, 3])
        kept = costs.copy()
        balanced_labels(costs, 5, 20)
        np.testing.assert_array_equal(costs, kept)


class TestPrices:
    def test_wrong_labels_are_not_certified(self):
        rng = np.random.default_rng(3)
        costs = rng.random((60, 3))
        best = balanced_labels(costs, 20, 20)
        labels = best.labels.copy()
        i, j = np.flatnonzero(labels == 0)[0], np.flatnonzero(labels == 1)[0]
        labels[[i, j]] = labels[[j, i]]
        bound = price_bound(costs, label_prices(costs, labels, 20, 20), 20, 20)
        assert bound <= best.cost + 1e-12
        assert cost_of(costs, labels) - bound > 1e-6

    @given(arrays(np.float64, 3, elements=st.floats(-5, 5)))
    @settings(deadline=None, max_examples=50, derandomize=True)
    def test_any_prices_bound_from_below(self, prices):
        costs = np.random.default_rng(5).random((40, 3)) + np.array([0.0, 0.4, 0.8])
        assert price_bound(costs, prices, 10, 15) <= balanced_labels(costs, 10, 15).cost + 1e-9

    def test_prices_act_only_on_binding_bounds(self):
        costs = np.random.default_rng(6).random((90, 3)) + np.array([0.0, 0.3, 1.5])
        result = balanced_labels(costs, 5, 45)
        prices = label_prices(costs, result.labels, 5, 45)
        assert (prices[result.counts < 45] <= 0).all()
        assert (prices[result.counts > 5] >= 0).all()
        chosen = np.take_along_axis(costs + prices, result.labels[:, None], axis=1).ravel()
        np.testing.assert_allclose(chosen, (costs + prices).min(axis=1), atol=1e-12)


class TestErrors:
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_cost_that_is_not_finite(self, value):
        costs = np.zeros((5, 2))
        costs[3, 1] = value
        with pytest.raises(InputError, match=r"costs\[3, 1\]"):
            balanced_labels(costs, 1, 4)

    @pytest.mark.parametrize("bounds", [(3, 5), (0, 2), (4, 3), (-1, 5)])
    def test_bounds_that_cannot_hold(self, bounds):
        with pytest.raises(InputError, match="5 windows"):
            balanced_labels(np.zeros((5, 2)), *bounds)

    def test_shape(self):
        with pytest.raises(InputError, match="shape"):
            balanced_labels(np.zeros(5), 1, 4)

    def test_solver_status_is_not_ignored(self, monkeypatch):
        """Integer costs beyond the solver's range are refused by it; the linear program answers in its place."""
        costs = np.random.default_rng(7).random((30, 2)) + np.array([0, 3])
        expected = balanced_labels(costs, 5, 25)
        monkeypatch.setattr(labels_module, "_COST_BITS", 80)
        monkeypatch.setattr(labels_module, "_MAX_COST_BITS", 61)
        np.testing.assert_array_equal(balanced_labels(costs, 5, 25).labels, expected.labels)
        monkeypatch.setattr("scipy.optimize.linprog", lambda *_, **__: SimpleNamespace(status=4, message="no luck"))
        with pytest.raises(SolverError, match=r"BAD_COST_RANGE; the linear program .* status 4 \(no luck\)"):
            balanced_labels(costs, 5, 25)


@settings(deadline=None, max_examples=25, derandomize=True)
@given(st.integers(0, 10_000), st.integers(2, 5))
def test_linear_program_stands_in_for_the_flow(seed: int, n_classes: int) -> None:
    """Where OR-tools cannot be loaded beside cvxpy, the simplex method must give the same cost and integral flows."""
    rng = np.random.default_rng(seed)
    costs = rng.random((60, n_classes)) + np.linspace(0.0, 1.0, n_classes)
    lower, upper = class_bounds(60, n_classes, (0.6 / n_classes, 0.9))
    by_flow = balanced_labels(costs, lower, upper)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labels_module, "_flow_solver", lambda: None)
        by_program = balanced_labels(costs, lower, upper)
    assert by_program.method == by_flow.method == "flow"
    assert by_program.cost == pytest.approx(by_flow.cost, rel=1e-9)
    assert by_program.counts.min() >= lower
    assert by_program.counts.max() <= upper


def test_cvxpy_first_does_not_break_the_label_step() -> None:
    """OR-tools cannot be loaded after cvxpy's HiGHS: labels must be the same, and the user keeps the solver."""
    code = (
        "import cvxpy as cp\n"
        "x = cp.Variable(2)\n"
        "problem = cp.Problem(cp.Minimize(cp.sum(x)), [x >= 1])\n"
        "problem.solve(solver='HIGHS')\n"
        "from m3c_md.optimize.labels import balanced_labels\n"
        "from m3c_md.optimize.relaxation import cvxpy_module\n"
        "labels = balanced_labels([[0, 5], [0, 2]], 1, 1)\n"
        "assert cvxpy_module() is cp\n"
        "x = cp.Variable(2)\n"
        "cp.Problem(cp.Minimize(cp.sum(x)), [x >= 1]).solve(solver='HIGHS')\n"
        "print(labels.labels, labels.method, x.value.round(6))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # cvxpy may have something to say about solvers that it does not know; the last line is ours.
    assert done.stdout.splitlines()[-1] == "[0 1] flow [1. 1.]"
    assert done.stderr == ""
