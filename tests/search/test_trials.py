"""Trials: who is tried where, and what is not worth a second try."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from m3c_md.optimize.blocks import Rule
from m3c_md.search import trials as trials_module
from m3c_md.search.problem import Kernel
from m3c_md.search.selection import LARGEST_ERROR, TINY_STATE
from m3c_md.search.trials import (
    HOPELESS,
    LARGEST_LOOSENED,
    N_DECOMPOSITIONS,
    UNPROMISING,
    Trial,
    agreed,
    continued,
    first_trials,
    labels_of_start,
    promising,
    scouting,
    sweep,
)
from tests.search._data import N_CANDIDATE_WINDOWS, candidate, labels_of, problem_of, switching


@pytest.fixture(scope="module")
def problem():
    trajectories, _ = switching([200, 200, 200], np.random.default_rng(0))
    problem = problem_of(trajectories, 3, n_features=10)
    assert problem.data.n_windows == N_CANDIDATE_WINDOWS
    return problem


def pairs(trials):
    return {(trial.start, kernel.bandwidth) for kernel, group in trials.items() for trial in group}


def kernels(*bandwidths):
    return [Kernel(bandwidth) for bandwidth in bandwidths]


def test_scouts_are_from_the_lower_and_middle_part():
    widths = [2.0**j for j in range(9)]
    found = scouting(widths)
    assert found == sorted(found)
    assert widths[0] < found[0] < found[-1] < widths[6]
    assert scouting(widths[:2]) == widths[:2]


def made(problem, starts):
    """Starts with their numbers and labels."""
    return [(number, start, labels_of_start(problem, start, 0)) for number, start in enumerate(starts)]


class TestAgreed:
    """Two kinds of starts that lead to the same states are a reason not to try everything else."""

    names = ("kinetic", "lumping")

    def judged(self, *candidates):
        return [(Trial(c.start, labels=c.optimum.labels), c) for c in candidates]

    def starts(self, problem, *candidates):
        return [c.start for _, c in agreed(problem, self.judged(*candidates), self.names)]

    def test_the_best_two_of_different_kinds_are_the_same(self, problem):
        given = [
            candidate("lumping 2", 1.0, 0.3, 0),
            candidate("kinetic", 1.0, 0.2, 0),
            candidate("lumping", 1.0, 0.5, 1),
        ]
        assert self.starts(problem, *given) == ["kinetic", "lumping 2"]

    def test_two_of_one_kind_say_nothing(self, problem):
        assert self.starts(problem, candidate("lumping", 1.0, 0.2, 0), candidate("lumping 2", 2.0, 0.2, 0)) == []

    def test_nor_where_something_else_is_better(self, problem):
        pair = [candidate("kinetic", 1.0, 0.2, 0), candidate("lumping", 1.0, 0.3, 0)]
        assert self.starts(problem, *pair, candidate("lumping 2", 1.0, 0.1, 1)) == []
        steadier = candidate("lumping 2", 1.0, 0.4, 1, quality=2.95, error=0.001)
        assert self.starts(problem, *pair, steadier) == []

    def test_nor_where_they_have_lost_a_state(self, problem):
        lost = [candidate(name, 1.0, 0.2, 0, populations=(0.5, 0.5, 0.0)) for name in self.names]
        assert self.starts(problem, *lost) == []

    @pytest.mark.parametrize(("share", "believed"), [(0.99, True), (1.01, False)])
    def test_nor_where_a_state_rests_on_one_part(self, problem, share, believed):
        """Langerin, five states, one half of the trajectories: all starts agree on states of one trajectory each."""
        pair = [candidate(name, 1.0, 0.2, 0, error=share * LARGEST_ERROR) for name in self.names]
        assert bool(self.starts(problem, *pair)) == believed


class TestFirstTrials:
    def starts(self, monkeypatch, **known):
        monkeypatch.setattr(trials_module, "shared_starts", lambda name, problem, rng: known[name])

    def test_several_labels_of_one_start_are_numbered_from_two(self, problem, monkeypatch):
        self.starts(monkeypatch, lumping=[labels_of(0), labels_of(1), labels_of(2)])
        trials = first_trials(
            problem, kernels(1.0, 2.0), made(problem, ("lumping", labels_of(3))), N_CANDIDATE_WINDOWS, 0, None
        )
        for group in trials.values():
            assert [trial.start for trial in group] == ["lumping", "lumping 2", "lumping 3", "labels 1"]

    def test_nearly_the_same_labels_are_one_trial_with_twins(self, problem, monkeypatch):
        nearly, not_quite = labels_of(0).copy(), labels_of(0).copy()
        nearly[:5] = (nearly[:5] + 1) % 3  # less than 2 % of the windows
        not_quite[:60] = (not_quite[:60] + 1) % 3
        self.starts(monkeypatch, kmeans=[labels_of(0)], pcca=[nearly], random=[not_quite])
        (group,) = first_trials(
            problem, kernels(1.0), made(problem, ("kmeans", "pcca", "random")), N_CANDIDATE_WINDOWS, 0, None
        ).values()
        assert [(trial.start, trial.twins) for trial in group] == [("kmeans", ("pcca",)), ("random", ())]

    def test_a_sample_has_the_labels_of_its_windows(self, problem, monkeypatch):
        self.starts(monkeypatch, kmeans=[labels_of(0)])
        (group,) = first_trials(problem, kernels(1.0), made(problem, ("kmeans",)), 100, 0, None).values()
        (trial,) = group
        assert len(trial.labels) == 100
        np.testing.assert_array_equal(
            trial.labels, labels_of(0)[trials_module.equally_spaced(N_CANDIDATE_WINDOWS, 100)]
        )


class TestSweep:
    def test_the_best_different_decompositions_meet_all_other_bandwidths(self, problem):
        scouted = [
            candidate(f"start {shift}", 1.0, 0.1 + 0.001 * shift, shift) for shift in range(N_DECOMPOSITIONS + 1)
        ]
        scouted.append(candidate("twin", 1.0, 0.1005))
        best = {f"start {shift}" for shift in range(N_DECOMPOSITIONS)}
        assert pairs(sweep(problem, scouted, (1.0, 2.0, 4.0))) == {
            (name, width) for name in best for width in (2.0, 4.0)
        }

    def test_a_decomposition_that_scores_much_worse_is_left_alone(self, problem):
        scouted = [candidate("best", 1.0, 0.1), candidate("worse", 1.0, 0.99 * HOPELESS * 0.1, 1)]
        assert {name for name, _ in pairs(sweep(problem, scouted, (1.0, 2.0)))} == {"best", "worse"}
        scouted[1] = candidate("worse", 1.0, 1.01 * HOPELESS * 0.1, 1)
        assert {name for name, _ in pairs(sweep(problem, scouted, (1.0, 2.0)))} == {"best"}

    def test_hopeless_is_measured_by_the_best_not_by_the_last(self, problem):
        scouted = [candidate(f"{i}", 1.0, 0.1 * (0.9 * HOPELESS) ** i, i) for i in range(3)]
        assert scouted[2].score > HOPELESS * scouted[0].score > scouted[1].score
        assert {name for name, _ in pairs(sweep(problem, scouted, (1.0, 2.0)))} == {"0", "1"}

    def test_a_decomposition_without_a_state_goes_nowhere(self, problem):
        empty = (0.5, 0.5, 0.0)
        scouted = [candidate("empty", 1.0, 0.01, 1, empty), candidate("honest", 1.0, 0.5)]
        assert {name for name, _ in pairs(sweep(problem, scouted, (1.0, 2.0)))} == {"honest"}
        assert sweep(problem, scouted[:1], (1.0, 2.0)) == {}


class TestPromising:
    """Starts as least squares judges them: by score, by support, by metastability."""

    def chosen(self, problem, *given, most=10):
        judged = [(Trial(one.start, labels_of(number)), one) for number, one in enumerate(given)]
        return [trial.start for trial, _ in promising(problem, judged, judged, most)]

    def test_much_worse_than_the_best_is_not_tried(self, problem):
        inside, outside = 0.99 * UNPROMISING * 0.1, 1.01 * UNPROMISING * 0.1
        given = [candidate("c", 1.0, outside), candidate("b", 1.0, inside), candidate("a", 1.0, 0.1)]
        assert self.chosen(problem, *given) == ["a", "b"]

    def test_no_more_than_wanted(self, problem):
        given = [candidate(f"{i}", 1.0, 0.1 + 0.01 * i) for i in range(5)]
        assert self.chosen(problem, *given, most=3) == ["0", "1", "2"]

    def test_the_best_is_tried_even_where_nothing_is_learned(self, problem):
        assert self.chosen(problem, candidate("a", 1.0, 1.2), candidate("b", 1.0, 1.1)) == ["b"]

    def test_what_rests_on_one_part_is_no_measure_for_others_and_comes_last(self, problem):
        lucky = candidate("lucky", 1.0, 0.01, error=2 * LARGEST_ERROR)
        assert self.chosen(problem, lucky, candidate("a", 1.0, 0.2), candidate("b", 1.0, 0.3)) == ["a", "b", "lucky"]

    def test_what_looks_more_metastable_is_tried_whatever_its_score(self, problem):
        given = [candidate("a", 1.0, 0.1), candidate("b", 1.0, 0.9, quality=2.9), candidate("c", 1.0, 0.9, quality=2.7)]
        assert self.chosen(problem, *given) == ["a", "b"]
        assert self.chosen(problem, *given[:1], replace(given[1], populations=np.array([0.5, 0.5, 0.0]))) == ["a"]


class TestRarerStates:
    def test_labels_may_be_as_rare_as_half_of_what_a_start_has(self, problem):
        """597 pairs: a hundredth is six of them; a start with four gets a bound below."""
        for n_rare, loosened in ((4, True), (6, False)):
            labels = np.zeros(N_CANDIDATE_WINDOWS, dtype=int)
            labels[: 200 + n_rare] = np.repeat([1, 2], [200, n_rare])
            large = replace(problem, settings=replace(problem.settings, balance=(0.01, 0.99)))
            (group,) = first_trials(large, kernels(1.0), made(large, (labels,)), N_CANDIDATE_WINDOWS, 0, None).values()
            assert (group[0].least_share is not None) == loosened
            (plain,) = first_trials(
                large, kernels(1.0), made(large, (labels,)), N_CANDIDATE_WINDOWS, 0, None, rarer=False
            ).values()
            assert plain[0].least_share is None

    def test_but_no_rarer_than_a_few_windows_and_never_where_somebody_chose_the_bound(self, problem):
        labels = np.zeros(N_CANDIDATE_WINDOWS, dtype=int)
        labels[:202] = np.repeat([1, 2], [200, 2])

        def bound(lower):
            asked = replace(problem, settings=replace(problem.settings, balance=(lower, 0.99)))
            return next(
                iter(first_trials(asked, kernels(1.0), made(asked, (labels,)), N_CANDIDATE_WINDOWS, 0, None).values())
            )[0].least_share

        assert bound(LARGEST_LOOSENED) == pytest.approx(TINY_STATE / N_CANDIDATE_WINDOWS)
        assert bound(1.01 * LARGEST_LOOSENED) is None
        assert bound(0.003) is None, "two of 597 are more than that"


def test_those_that_go_on_start_from_their_rules():
    some = [candidate("a", 1.0, 0.1), candidate("b", 2.0, 0.1), candidate("c", 1.0, 0.2)]
    some = [
        replace(c, optimum=replace(c.optimum, rule=Rule(np.full((3, 10), i), np.zeros(3)))) for i, c in enumerate(some)
    ]
    trials = continued(some)
    assert pairs(trials) == {("a", 1.0), ("b", 2.0), ("c", 1.0)}
    for one in some:
        (trial,) = [trial for trial in trials[one.kernel] if trial.start == one.start]
        assert trial.rule is one.optimum.rule
        assert trial.labels is None
