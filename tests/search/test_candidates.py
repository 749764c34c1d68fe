"""Candidates: each is tried once, the best honest one wins, and an empty state never does."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from m3c_md.exceptions import DegenerateSolutionError
from m3c_md.frames.windows import FeatureBlocks, windows_of_trajectories
from m3c_md.matching import agreement
from m3c_md.optimize.blocks import all_label_costs
from m3c_md.optimize.feature_map import draw_fourier_map
from m3c_md.optimize.labels import balanced_labels, class_bounds
from m3c_md.optimize.large_margin import solve_large_margin
from m3c_md.optimize.window_loss import window_losses
from m3c_md.search import candidates as candidates_module
from m3c_md.search import rungs as rungs_module
from m3c_md.search import runner as runner_module
from m3c_md.search import steps as steps_module
from m3c_md.search import trials as trials_module
from m3c_md.search.fate import FateKind
from m3c_md.search.local_search import local_search
from m3c_md.search.populations import frame_populations
from m3c_md.search.problem import Kernel
from m3c_md.search.selection import Standing, judge
from m3c_md.search.starts import shared_starts
from m3c_md.search.trials import N_SCOUTS
from tests.search._data import problem_of, scored, search, slow_and_wide, switching

BANDWIDTHS = (1.5, 3.0)


def run(problem, bandwidths=BANDWIDTHS, starts=("kinetic", "kmeans"), *, selection="objective", seed=0, **options):
    return search(problem, bandwidths, starts, selection=selection, seed=seed, **options)


def truth_of(problem, wells):
    return np.concatenate(wells)[problem.data.windows[0]]


def summary(candidates):
    return [(c.start, c.bandwidth, c.score, str(c.fate), c.n_windows) for c in candidates]


@pytest.fixture(scope="module")
def wells_case():
    """Three overlapping wells, and the wells of the windows."""
    trajectories, wells = switching([220, 200, 180], np.random.default_rng(0), spread=0.8)
    problem = problem_of(trajectories, 3, n_features=24)
    return problem, truth_of(problem, wells)


@pytest.fixture(scope="module")
def trap_case():
    """Wells that geometry misses; then giving all frames to one state has a smaller objective than the truth."""
    trajectories, wells = slow_and_wide([300, 300], np.random.default_rng(0))
    problem = problem_of(trajectories, 2, n_features=24)
    return problem, truth_of(problem, wells)


@pytest.fixture(scope="module")
def trap_result(trap_case):
    return run(trap_case[0], (1.0, 2.0), ("kinetic", "kmeans", "random", "lumping"), halving=False)


class TestBookkeeping:
    def test_every_candidate_appears_once(self, trap_result):
        pairs = [(c.start, c.bandwidth) for c in trap_result]
        assert len(set(pairs)) == len(pairs)
        names = {c.start for c in trap_result}
        assert {"kinetic", "kmeans", "random", "lumping"} <= names
        assert all(name.startswith("lumping ") for name in names - {"kinetic", "kmeans", "random", "lumping"})
        assert len(pairs) == 2 * len(names)

    def test_one_winner_and_it_comes_first(self, trap_result):
        assert trap_result[0].fate.kind is FateKind.WINNER
        assert [c.fate.kind for c in trap_result].count(FateKind.WINNER) == 1
        assert not any(c.fate.kind is FateKind.OPEN for c in trap_result)

    def test_the_winner_is_the_best_honest_one(self, trap_case, trap_result):
        problem = trap_case[0]
        honest = [c.score for c in trap_result if c.standing(problem.settings, problem.data.n_windows) == Standing.FINE]
        assert trap_result[0].score == min(honest)

    def test_label_arrays_are_starts_too(self, wells_case):
        problem, truth = wells_case
        found = run(problem, (3.0,), ("kmeans", truth))
        assert sorted(c.start for c in found) == ["kmeans", "labels 1"]
        assert agreement(found[0].optimum.labels, truth) > 0.95

    def test_reported_share_of_the_work_rises_to_one(self, wells_case, monkeypatch):
        monkeypatch.setattr(rungs_module, "RUNGS", ((150, 3), (400, 2)))
        shares = []
        run(wells_case[0], (0.75, 1.5, 3.0, 6.0), ("kinetic", "kmeans"), report=shares.append)
        assert shares == sorted(shares)
        assert shares[0] > 0.0
        assert shares[-1] == 1.0
        assert len(shares) > 5

    def test_winner_is_optimised_to_the_end(self, wells_case):
        problem, truth = wells_case
        for gap in (1e-3, 1e-6):
            winner = run(problem, (3.0,), ("kinetic",), gap=gap)[0]
            assert winner.optimum.converged
            assert winner.optimum.gap <= gap
            assert winner.n_windows == problem.data.n_windows
        assert agreement(winner.optimum.labels, truth) > 0.95


class TestHalving:
    @pytest.fixture
    def rungs(self, monkeypatch):
        monkeypatch.setattr(rungs_module, "RUNGS", ((150, 3), (400, 2)))

    def test_losers_end_early_and_order_is_by_how_far_they_came(self, wells_case, rungs):
        problem, truth = wells_case
        found = run(problem, (1.5, 6.0), ("kinetic", "random", "kmeans"))
        assert len(found) == 6
        sizes = [c.n_windows for c in found]
        assert sizes == sorted(sizes, reverse=True)
        assert set(sizes) <= {150, 400, problem.data.n_windows}
        assert sizes[0] == problem.data.n_windows
        assert sizes.count(150) >= 3
        assert agreement(found[0].optimum.labels, truth) > 0.95

    def test_starts_scout_and_the_best_decompositions_sweep(self, wells_case):
        """Hopeless starts meet only some bandwidths, the best decomposition meets all of them."""
        problem, truth = wells_case
        grid = tuple(0.75 * 2.0 ** (0.5 * j) for j in range(6))
        found = run(problem, grid, (truth, "random"))
        tried = {name: sorted(c.bandwidth for c in found if c.start == name) for name in ("labels 0", "random")}
        assert tried["labels 0"] == sorted(grid)
        assert len(tried["random"]) == N_SCOUTS

    def test_same_winner_as_without(self, wells_case, rungs):
        problem, _ = wells_case
        quick, full = (run(problem, halving=halving)[0] for halving in (True, False))
        assert quick.bandwidth == full.bandwidth
        assert agreement(quick.optimum.labels, full.optimum.labels) > 0.98
        assert quick.score <= full.score * 1.01

    def test_without_it_all_go_to_the_end(self, wells_case, rungs):
        problem, _ = wells_case
        found = run(problem, (1.5, 3.0, 6.0), ("kinetic", "random", "kmeans"), halving=False, gap=1e-3)
        assert len(found) == 9
        assert {c.n_windows for c in found} == {problem.data.n_windows}
        assert not any(c.fate.kind is FateKind.DROPPED for c in found)
        assert all(c.optimum.gap <= 1e-3 for c in found)

    def test_twins_at_one_bandwidth_are_carried_once(self, wells_case):
        problem, truth = wells_case
        found = run(problem, (3.0,), (truth, (truth + 1) % 3), halving=False)
        assert [str(c.fate) for c in found] == ["winner", f"same as {found[0].start}"]


class TestDegenerate:
    def test_the_trap_has_a_smaller_objective_and_does_not_win(self, trap_case, trap_result):
        problem, truth = trap_case
        winner = trap_result[0]
        trapped = [c for c in trap_result if c.fate.kind is FateKind.DEGENERATE]
        assert trapped
        assert min(c.score for c in trapped) < winner.score
        assert min(c.score for c in trapped) <= 3.0 * problem.settings.balance[0] * 1.01
        assert winner.populations.min() >= problem.settings.balance[0]
        assert agreement(winner.optimum.labels, truth) > 0.95

    def test_fate_says_which_state_and_how_few(self, trap_result):
        trapped = next(c for c in trap_result if c.fate.kind is FateKind.DEGENERATE)
        state = int(trapped.populations.argmin())
        assert str(trapped.fate) == f"degenerate: state {state} has {trapped.populations[state]:.2%} of the frames"

    def test_error_names_state_share_and_remedy(self, trap_case, monkeypatch):
        monkeypatch.setattr(candidates_module, "held_trials", lambda *_: {})
        monkeypatch.setattr(candidates_module, "completed_trials", lambda *_: {})
        monkeypatch.setattr(candidates_module, "tighter_trials", lambda *_: {})
        monkeypatch.setattr(runner_module, "HOPELESS_START", np.inf)
        with pytest.raises(DegenerateSolutionError) as caught:
            run(trap_case[0], (16.0, 32.0), ("random",))
        message = str(caught.value)
        assert "all 2 candidates" in message
        assert "state 0 of 2" in message or "state 1 of 2" in message
        assert "with 0.00%" in message
        for remedy in ("fewer states", "starts", "bandwidths", "balance[0]"):
            assert remedy in message

    def test_starts_that_are_as_good_as_nothing_are_not_optimised_but_held(self, monkeypatch):
        """Memoryless frames: every local search would lose a state, so none is begun, and the answer is the same."""
        x = np.random.default_rng(3).normal(size=(1500, 2))
        problem = problem_of([x], 2)
        tried = []

        def counted(*arguments, **options):
            tried.append(1)
            return local_search(*arguments, **options)

        monkeypatch.setattr("m3c_md.search.label_modes.local_search", counted)
        quick = run(problem, BANDWIDTHS, ("kinetic", "lumping"), selection="class-averaged")
        assert quick[0].held
        assert not tried
        monkeypatch.setattr(runner_module, "HOPELESS_START", np.inf)
        slow = run(problem, BANDWIDTHS, ("kinetic", "lumping"), selection="class-averaged")
        assert tried
        assert slow[0].held
        assert quick[0].metastability >= slow[0].metastability - 0.02

    def test_without_a_lower_share_an_empty_state_is_still_degenerate(self, trap_case):
        problem, _ = trap_case
        loose = replace(problem, settings=replace(problem.settings, balance=(0.0, 1.0)))
        try:
            winner = run(loose, (2.0,), ("random",))[0]
        except DegenerateSolutionError:
            return
        assert winner.populations.min() > 0.0

    def test_another_finalist_steps_in_when_the_best_turns_degenerate(self, wells_case, monkeypatch):
        problem, _ = wells_case
        monkeypatch.setattr(rungs_module, "RUNGS", ((150, 2), (300, 2)))
        best = run(problem)[0].bandwidth
        monkeypatch.setattr(
            steps_module,
            "frame_populations",
            lambda problem, c: np.eye(3)[0] if c.bandwidth == best else frame_populations(problem, c),
        )
        found = run(problem)
        assert found[0].bandwidth != best
        assert "degenerate: at full accuracy" in [str(c.fate) for c in found]

    @pytest.mark.parametrize("n_slices", [1, 2])
    @pytest.mark.parametrize("n_states", [2, 3, 4])
    def test_value_of_the_constant_classifier(self, n_states, n_slices):
        """3(κ-1)ϱ for pairs and 2(κ-1)ϱ for single frames: design notes, section 4, item 6."""
        frames = np.random.default_rng(0).normal(size=(199 + n_slices, 2))
        data = windows_of_trajectories([frames], 1, n_slices)
        share = 0.02
        lower, upper = class_bounds(200, n_states, (share, 1.0))
        labels = np.zeros(200, dtype=np.intp)
        labels[: lower * (n_states - 1)] = np.repeat(np.arange(1, n_states), lower)
        flat = draw_fourier_map(2, 6, np.random.default_rng(1)).with_bandwidth(1e9)
        blocks = FeatureBlocks(data, flat, np.ones(200))
        solved = solve_large_margin(blocks, labels, n_states, 0.01, tolerance=1e-6)
        expected = (n_slices + 1) * (n_states - 1) * share
        assert solved.objective == pytest.approx(expected, rel=1e-5)
        assert solved.lower_bound == pytest.approx(expected, rel=1e-5)
        # The label step cannot do better, and the search stays where it is.
        again = balanced_labels(all_label_costs(blocks, solved.rule), lower, upper)
        assert again.cost == pytest.approx(expected, rel=1e-4)
        assert (blocks.slice_states(solved.rule) == 0).all()

    def test_extreme_bandwidths_of_a_hard_case_never_win_with_an_empty_state(self):
        rng = np.random.default_rng(1)
        problem = problem_of([rng.normal(size=(250, 2))], 3, n_features=20)  # noise: there is nothing to find
        honest = None
        with suppress(DegenerateSolutionError):
            honest = run(problem, (2.0**-4, 2.0**4), ("kinetic", "random"))[0]
        assert honest is None or frame_populations(problem, honest).min() >= problem.settings.balance[0]


class TestWeights:
    def test_a_way_down_of_little_weight_does_not_break_the_fit(self):
        """A fast approach from afar is hardly weighted; a start that makes it a state must not end in an error."""
        trajectories, _ = switching([600], np.random.default_rng(0), np.array([[0.0, 0.0], [4.0, 0.0]]))
        ramp = np.linspace(80.0, 8.0, 25)[:, None] * np.ones(2)
        problem = problem_of([np.concatenate([ramp, trajectories[0]])], 2, n_features=24, reweight=True)
        assert problem.weights[:20].max() < 0.2 / problem.data.n_windows
        winner = run(problem, (2.0, 4.0), ("kmeans", "lumping"))[0]
        assert winner.optimum.converged
        assert winner.populations.min() >= problem.settings.balance[0]


class TestReproducibility:
    def test_same_seed_same_result_whatever_the_number_of_processes(self, wells_case):
        problem, _ = wells_case
        with threadpool_limits(limits=1):
            one, two, parallel = (run(problem, n_jobs=n) for n in (1, 1, 2))
        for other in (two, parallel):
            assert summary(other) == summary(one)
            for a, b in zip(one, other, strict=True):
                np.testing.assert_array_equal(a.optimum.rule.weights, b.optimum.rule.weights)
                np.testing.assert_array_equal(a.optimum.labels, b.optimum.labels)
                np.testing.assert_array_equal(a.populations, b.populations)

    def test_streams_depend_on_the_name_of_a_start_not_on_its_place(self, wells_case, monkeypatch):
        problem, _ = wells_case
        drawn = []
        monkeypatch.setattr(
            trials_module, "shared_starts", lambda *given: drawn.append(shared_starts(*given)) or drawn[-1]
        )
        for starts in (("random", "kinetic"), ("kinetic", "random")):
            search(problem, (3.0,), starts, selection="objective", seed=0)
        np.testing.assert_array_equal(drawn[0], drawn[1])

    def test_order_of_candidates_does_not_matter_to_kinetic_starts(self, wells_case):
        problem, _ = wells_case
        one, two = (run(problem, order, ("kinetic",)) for order in (BANDWIDTHS, BANDWIDTHS[::-1]))
        assert [c.bandwidth for c in one] == [c.bandwidth for c in two]
        assert [c.score for c in two] == pytest.approx([c.score for c in one], rel=0.02)

    def test_order_of_trajectories(self):
        trajectories, _ = switching([260, 200, 140], np.random.default_rng(3), spread=0.8)
        found = []
        for order in ([0, 1, 2], [2, 0, 1]):
            problem = problem_of([trajectories[i] for i in order], 3, n_features=24, reweight=True)
            winner = run(problem, (2.0, 3.0), ("kinetic", "lumping"))[0]
            scores = winner.optimum.rule.scores(problem.feature_map(winner.bandwidth)(np.concatenate(trajectories)))
            found.append((winner.score, scores.argmax(axis=0)))
        assert found[1][0] == pytest.approx(found[0][0], rel=0.01)
        assert agreement(found[0][1], found[1][1]) > 0.98


class TestJudgement:
    @pytest.fixture(scope="class")
    @staticmethod
    def judged(wells_case):
        problem, truth = wells_case
        weights = np.random.default_rng(0).uniform(0.5, 1.5, size=len(truth))
        problem = replace(problem, weights=weights / weights.sum())
        blocks = FeatureBlocks(problem.data, problem.feature_map(3.0), problem.weights)
        optimum = local_search(blocks, truth, problem.settings)
        everything = np.arange(problem.data.n_windows)
        judged = judge(problem, "mine", Kernel(3.0), blocks, optimum, "objective", everything, problem.settings)
        return problem, blocks, optimum, judged

    def test_populations_and_metastability_by_hand(self, judged):
        problem, _, optimum, candidate = judged
        states = optimum.rule.scores(problem.feature_map(3.0)(problem.data.frames)).argmax(axis=0)
        first, last = states[problem.data.windows]
        share = np.bincount(np.concatenate([first, last]), minlength=3) / (2 * len(first))
        np.testing.assert_allclose(candidate.populations, share)
        np.testing.assert_allclose(frame_populations(problem, candidate), np.bincount(states) / len(states))
        w = problem.weights
        stays = [
            2.0 * w[(first == k) & (last == k)].sum() / (w[first == k].sum() + w[last == k].sum()) for k in range(3)
        ]
        assert candidate.metastability == pytest.approx(sum(stays))

    def test_objective_score(self, judged):
        _, _, optimum, candidate = judged
        assert candidate.score == optimum.objective

    def test_class_averaged_score_by_hand(self, judged):
        problem, blocks, optimum, _ = judged
        scores = optimum.rule.scores(problem.feature_map(3.0)(problem.data.frames))
        losses = window_losses(np.stack([scores[:, f] for f in problem.data.windows]), optimum.labels)
        means = [
            np.average(losses[optimum.labels == k], weights=problem.weights[optimum.labels == k]) for k in range(3)
        ]
        expected = np.mean(means) + 0.5 * problem.settings.regularization * (optimum.rule.weights**2).sum()
        assert scored(blocks, optimum, problem.settings, "class-averaged") == pytest.approx(expected, rel=1e-10)

    def test_class_averaged_score_sees_through_the_trap(self, trap_case):
        """Misplaced windows of a tiny class cost the objective little, and this score as much as any other class."""
        problem, truth = trap_case
        blocks = FeatureBlocks(problem.data, problem.feature_map(2.0), problem.weights)
        lower, _ = class_bounds(len(truth), 2, problem.settings.balance)
        tiny = (np.arange(len(truth)) % (len(truth) // lower) == 0).astype(np.intp)
        right, wrong = (local_search(blocks, start, problem.settings) for start in (truth, tiny))
        assert scored(blocks, wrong, problem.settings, "objective") < scored(
            blocks, right, problem.settings, "objective"
        )
        averaged = [scored(blocks, o, problem.settings, "class-averaged") for o in (right, wrong)]
        assert averaged[0] < averaged[1]

    @pytest.mark.parametrize("selection", ["objective", "class-averaged"])
    def test_both_selections_find_the_wells(self, wells_case, selection):
        problem, truth = wells_case
        found = run(problem, selection=selection)
        assert agreement(found[0].optimum.labels, truth) > 0.95
        blocks = FeatureBlocks(problem.data, problem.feature_map(found[0].bandwidth), problem.weights)
        assert found[0].score == pytest.approx(scored(blocks, found[0].optimum, problem.settings, selection))
