"""Trials: who is tried where, and what is not worth a second try."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from m3c_md.optimize.blocks import Rule
from m3c_md.search import trials as trials_module
from m3c_md.search.trials import (
    HOPELESS,
    N_DECOMPOSITIONS,
    N_LAST_RESORT,
    Trial,
    continued,
    first_trials,
    last_resort,
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
    return {(trial.start, bandwidth) for bandwidth, group in trials.items() for trial in group}


def test_scouts_are_from_the_lower_and_middle_part():
    widths = [2.0**j for j in range(9)]
    found = scouting(widths)
    assert found == sorted(found)
    assert widths[0] < found[0] < found[-1] < widths[6]
    assert scouting(widths[:2]) == widths[:2]


class TestFirstTrials:
    def starts(self, monkeypatch, **known):
        monkeypatch.setattr(trials_module, "shared_starts", lambda name, problem, rng: known[name])

    def test_several_labels_of_one_start_are_numbered_from_two(self, problem, monkeypatch):
        self.starts(monkeypatch, lumping=[labels_of(0), labels_of(1), labels_of(2)])
        trials = first_trials(problem, (1.0, 2.0), ("lumping", labels_of(3)), N_CANDIDATE_WINDOWS, 0, None)
        for group in trials.values():
            assert [trial.start for trial in group] == ["lumping", "lumping 2", "lumping 3", "labels 1"]

    def test_nearly_the_same_labels_are_one_trial_with_twins(self, problem, monkeypatch):
        nearly, not_quite = labels_of(0).copy(), labels_of(0).copy()
        nearly[:5] = (nearly[:5] + 1) % 3  # less than 2 % of the windows
        not_quite[:60] = (not_quite[:60] + 1) % 3
        self.starts(monkeypatch, kmeans=[labels_of(0)], pcca=[nearly], random=[not_quite])
        (group,) = first_trials(problem, (1.0,), ("kmeans", "pcca", "random"), N_CANDIDATE_WINDOWS, 0, None).values()
        assert [(trial.start, trial.twins) for trial in group] == [("kmeans", ("pcca",)), ("random", ())]

    def test_a_sample_has_the_labels_of_its_windows(self, problem, monkeypatch):
        self.starts(monkeypatch, kmeans=[labels_of(0)])
        (group,) = first_trials(problem, (1.0,), ("kmeans",), 100, 0, None).values()
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

    def test_where_all_are_empty_those_that_came_closest_try_again(self, problem):
        shares = {"a": 0.001, "b": 0.003, "twin": 0.002}
        scouted = [candidate(name, 1.0, 0.1, populations=(0.5, 0.5 - x, x)) for name, x in shares.items()]
        trials = {1.0: [Trial("a", labels_of(0), twins=("twin",)), Trial("b", labels_of(1))]}
        again = last_resort(scouted, trials, (2.0, 4.0))
        assert N_LAST_RESORT == 2
        assert pairs(again) == {(name, width) for name in ("b", "twin") for width in (2.0, 4.0)}
        assert all(trial.twins == () for group in again.values() for trial in group)


def test_those_that_go_on_start_from_their_rules():
    some = [candidate("a", 1.0, 0.1), candidate("b", 2.0, 0.1), candidate("c", 1.0, 0.2)]
    some = [
        replace(c, optimum=replace(c.optimum, rule=Rule(np.full((3, 10), i), np.zeros(3)))) for i, c in enumerate(some)
    ]
    trials = continued(some)
    assert pairs(trials) == {("a", 1.0), ("b", 2.0), ("c", 1.0)}
    for one in some:
        (trial,) = [trial for trial in trials[one.bandwidth] if trial.start == one.start]
        assert trial.rule is one.optimum.rule
        assert trial.labels is None
