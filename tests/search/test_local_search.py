"""Local search: falls monotonically to a fixed point of both half steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from m3c_md.frames.windows import FeatureBlocks
from m3c_md.matching import agreement
from m3c_md.optimize.blocks import all_label_costs
from m3c_md.optimize.labels import balanced_labels, class_bounds
from m3c_md.optimize.large_margin import MAX_PASSES, solve_large_margin
from m3c_md.search.local_search import COARSEST_GAP, EMPTY_ROUNDS, HASTY_PASSES, local_search
from tests.search._data import problem_of, switching


@pytest.fixture(scope="module")
def case():
    """Three overlapping wells, the blocks of one bandwidth, and the wells as labels."""
    trajectories, wells = switching([200, 200], np.random.default_rng(0), spread=1.0)
    problem = problem_of(trajectories, 3, n_features=24)
    blocks = FeatureBlocks(problem.data, problem.feature_map(2.5), problem.weights)
    return problem, blocks, np.concatenate(wells)[problem.data.windows[0]]


def spoiled(labels, share, n_states=3, seed=0):
    """Labels of which a share is drawn anew."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(labels)) < share, rng.integers(n_states, size=len(labels)), labels)


def objective_of(blocks, rule, labels, regularization):
    costs = all_label_costs(blocks, rule)
    return costs[np.arange(len(labels)), labels].sum() + 0.5 * regularization * (rule.weights**2).sum()


class TestDescent:
    @pytest.mark.parametrize(("share", "seed"), [(0.2, 0), (0.6, 1), (0.6, 2), (1.0, 3)])
    def test_trace_never_rises(self, case, share, seed):
        problem, blocks, wells = case
        end = local_search(blocks, spoiled(wells, share, seed=seed), problem.settings)
        trace = np.array(end.trace)
        assert len(trace) == 2 * end.iterations
        assert (np.diff(trace) <= 1e-12 * trace[:-1]).all()
        assert end.objective == trace[-2]

    def test_objective_is_that_of_rule_and_labels(self, case):
        problem, blocks, wells = case
        for limit in (1, 100):
            end = local_search(blocks, spoiled(wells, 0.4), problem.settings, max_iterations=limit)
            value = objective_of(blocks, end.rule, end.labels, problem.settings.regularization)
            assert end.objective == pytest.approx(value, rel=1e-10)

    def test_a_spoiled_start_recovers_the_wells(self, case):
        problem, blocks, wells = case
        end = local_search(blocks, spoiled(wells, 0.3), problem.settings)
        assert agreement(end.labels, wells) > 0.95


class TestFixedPoint:
    @pytest.fixture
    def end(self, case):
        problem, blocks, wells = case
        end = local_search(blocks, spoiled(wells, 0.4), problem.settings, gap=1e-5)
        assert end.converged
        return end

    def test_labels_are_the_best_for_the_rule(self, case, end):
        problem, blocks, _ = case
        bounds = class_bounds(len(end.labels), 3, problem.settings.balance)
        again = balanced_labels(all_label_costs(blocks, end.rule), *bounds)
        np.testing.assert_array_equal(again.labels, end.labels)
        penalty = 0.5 * problem.settings.regularization * (end.rule.weights**2).sum()
        assert again.cost + penalty == pytest.approx(end.objective, rel=1e-10)

    def test_rule_is_the_best_for_the_labels(self, case, end):
        problem, blocks, _ = case
        best = solve_large_margin(blocks, end.labels, 3, problem.settings.regularization, tolerance=1e-7)
        assert end.gap <= 1e-5
        assert end.lower_bound <= best.objective <= end.objective * (1.0 + 1e-7)
        assert end.objective <= best.objective * (1.0 + 2e-5)

    def test_starting_from_the_solution_ends_there(self, case, end):
        problem, blocks, _ = case
        assert local_search(blocks, end.labels, problem.settings, start=end.rule, gap=COARSEST_GAP).iterations == 1
        again = local_search(blocks, end.labels, problem.settings, start=end.rule, gap=1e-4)
        assert again.iterations <= 2  # the first round is solved coarsely, the second proves the gap
        assert again.converged
        assert again.objective <= end.objective * (1.0 + 1e-12)
        np.testing.assert_array_equal(again.labels, end.labels)

    def test_a_warm_start_is_never_worse(self, case, end):
        problem, blocks, wells = case
        for seed in range(3):
            other = local_search(blocks, spoiled(wells, 0.5, seed=seed), problem.settings, max_iterations=2)
            again = local_search(blocks, other.labels, problem.settings, start=other.rule)
            assert again.objective <= other.objective * (1.0 + 1e-12)


class TestInvariance:
    def test_names_of_states(self, case):
        problem, blocks, wells = case
        start, names = spoiled(wells, 0.3), np.array([2, 0, 1])
        one = local_search(blocks, start, problem.settings, gap=1e-6)
        two = local_search(blocks, names[start], problem.settings, gap=1e-6)
        assert two.objective == pytest.approx(one.objective, rel=1e-5)
        np.testing.assert_array_equal(two.labels, names[one.labels])

    def test_order_of_windows(self, case):
        problem, blocks, wells = case
        order = np.random.default_rng(0).permutation(len(wells))
        moved = FeatureBlocks(problem.data, problem.feature_map(2.5), problem.weights[order], order)
        start = spoiled(wells, 0.3)
        one = local_search(blocks, start, problem.settings, gap=1e-6)
        two = local_search(moved, start[order], problem.settings, gap=1e-6)
        assert two.objective == pytest.approx(one.objective, rel=1e-5)
        np.testing.assert_array_equal(two.labels, one.labels[order])

    def test_a_list_of_blocks_will_do(self, case):
        problem, blocks, wells = case
        one, two = (local_search(b, spoiled(wells, 0.3), problem.settings) for b in (blocks, list(blocks)))
        assert one.trace == two.trace


class TestSettings:
    def test_limit_on_rounds(self, case):
        problem, blocks, wells = case
        start = spoiled(wells, 0.9)
        full = local_search(blocks, start, problem.settings)
        assert full.iterations > 3
        for limit in (1, 2):
            short = local_search(blocks, start, problem.settings, max_iterations=limit)
            own = local_search(blocks, start, replace(problem.settings, max_iterations=limit))
            assert short.iterations == own.iterations == limit
            assert not short.converged
            assert short.trace == own.trace == full.trace[: 2 * limit]

    def test_tolerance_counts_changed_labels(self, case):
        problem, blocks, wells = case
        start = spoiled(wells, 0.4)
        full = local_search(blocks, start, problem.settings)
        loose = local_search(blocks, start, replace(problem.settings, tolerance=10))
        assert loose.converged
        assert loose.iterations <= full.iterations
        assert loose.objective >= full.objective
        assert loose.gap <= 1e-4
        bounds = class_bounds(len(wells), 3, problem.settings.balance)
        after = balanced_labels(all_label_costs(blocks, loose.rule), *bounds).labels
        assert np.count_nonzero(after != loose.labels) <= 10

    @pytest.mark.parametrize("balance", [(0.01, 0.99), (0.25, 0.45), (1 / 3, 1 / 3)])
    def test_labels_keep_the_balance(self, case, balance):
        problem, blocks, wells = case
        n = len(wells) - len(wells) % 3  # a third each must be possible
        blocks = FeatureBlocks(problem.data, problem.feature_map(2.5), problem.weights[:n], np.arange(n))
        start = np.random.default_rng(0).permutation(np.arange(n) % 3)
        end = local_search(blocks, start, replace(problem.settings, balance=balance))
        lower, upper = class_bounds(n, 3, balance)
        assert lower <= np.bincount(end.labels, minlength=3).min()
        assert np.bincount(end.labels).max() <= upper
        trace = np.array(end.trace)
        assert (np.diff(trace) <= 1e-12 * trace[:-1]).all()

    def test_without_bias(self, case):
        problem, blocks, wells = case
        end = local_search(blocks, wells, replace(problem.settings, bias=False))
        np.testing.assert_array_equal(end.rule.bias, 0.0)
        with_bias = local_search(blocks, wells, problem.settings, gap=1e-6)
        assert with_bias.objective < end.objective

    def test_accuracy(self, case):
        problem, blocks, wells = case
        for gap in (1e-2, 1e-4, 1e-6):
            end = local_search(blocks, wells, problem.settings, gap=gap)
            assert end.gap <= gap
            assert end.lower_bound <= end.objective

    def test_converged_means_that_the_accuracy_was_reached(self, case):
        problem, blocks, wells = case
        end = local_search(blocks, wells, problem.settings, gap=1e-15)  # more than floating point can give
        assert end.gap > 1e-15
        assert not end.converged

    def test_a_smaller_gap_is_wanted_but_not_insisted_on(self, case, monkeypatch):
        problem, blocks, wells = case
        cheap = local_search(blocks, wells, problem.settings, gap=1e-2, wanted=1e-4)
        assert cheap.converged
        assert cheap.gap <= 1e-4
        monkeypatch.setattr("m3c_md.search.local_search.EXTRA_PASSES", 2)
        monkeypatch.setattr("m3c_md.search.local_search.HASTY_PASSES", 2)
        settled = local_search(blocks, wells, problem.settings, gap=1e-2, wanted=1e-9)
        assert settled.converged
        assert 1e-9 < settled.gap <= 1e-2

    def test_labels_that_move_are_not_worth_many_steps(self, case, monkeypatch):
        problem, blocks, wells = case
        asked = []

        def spy(*args, **options):
            asked.append(options["max_passes"])
            return solve_large_margin(*args, **options)

        monkeypatch.setattr("m3c_md.search.local_search.solve_large_margin", spy)
        end = local_search(blocks, spoiled(wells, 0.4), problem.settings, gap=1e-8)
        assert end.converged
        assert end.gap <= 1e-8
        assert asked[0] == HASTY_PASSES
        assert asked[-1] == MAX_PASSES

    def test_an_empty_state_is_refused(self, case):
        problem, blocks, wells = case
        with pytest.raises(ValueError, match="state 2"):
            local_search(blocks, np.minimum(wells, 1), problem.settings)


@pytest.mark.parametrize("n_slices", [1, 3])
def test_windows_of_other_lengths(n_slices):
    trajectories, wells = switching([200, 200], np.random.default_rng(0))
    problem = problem_of(trajectories, 3, n_features=30, n_slices=n_slices)
    blocks = FeatureBlocks(problem.data, problem.feature_map(2.5), problem.weights)
    truth = np.concatenate(wells)[problem.data.windows[0]]
    end = local_search(blocks, spoiled(truth, 0.3), problem.settings)
    assert end.converged
    assert (np.diff(end.trace) <= 1e-12).all()
    assert agreement(end.labels, truth) > 0.95


def test_a_trial_that_has_lost_a_state_is_given_up(case):
    """With so much regularisation every window is cheapest in one state; not everybody minds."""
    problem, blocks, labels = case
    settings = problem.settings
    stiff = replace(settings, regularization=100.0)
    trial = local_search(blocks, labels, stiff, max_iterations=30, give_up=True)
    assert trial.iterations == EMPTY_ROUNDS
    assert not trial.converged
    states = np.bincount(all_label_costs(blocks, trial.rule).argmin(axis=1), minlength=settings.n_states)
    assert states.min() == 0
    assert local_search(blocks, labels, stiff, max_iterations=1).iterations == 1
    assert local_search(blocks, labels, stiff, max_iterations=30).iterations > EMPTY_ROUNDS
