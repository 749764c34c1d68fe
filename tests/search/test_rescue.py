"""Where every candidate loses a state: which starts keep their labels, and what that may cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from m3c_md.exceptions import DegenerateSolutionError
from m3c_md.matching import agreement
from m3c_md.search import candidates as candidates_module
from m3c_md.search import rungs as rungs_module
from m3c_md.search import steps as steps_module
from m3c_md.search.label_modes import HeldLabels, SearchedLabels
from m3c_md.search.problem import Kernel
from m3c_md.search.rescue import (
    N_HELD,
    N_TRIMMED,
    TIGHTER_BALANCE,
    completed_trials,
    held_trials,
    labelled_trials,
    outdone,
    tighter_trials,
    trimmed_trials,
)
from m3c_md.search.selection import LARGEST_ERROR
from m3c_md.search.steps import least_squares_of_kernel
from m3c_md.search.trials import TRIALS_AT_ONCE, Trial
from tests.search._data import candidate, labels_of, problem_of, search, switching

FIRST_SAMPLE = 300


@pytest.fixture(scope="module")
def problem():
    trajectories, _ = switching([200, 200, 200], np.random.default_rng(0))
    return problem_of(trajectories, 3, n_features=10)


@pytest.fixture(scope="module")
def too_many():
    """Three wells and four states asked for: there is no fourth."""
    trajectories, wells = switching([400, 400, 400], np.random.default_rng(0), spread=0.5)
    return problem_of(trajectories, 4, n_features=24, starts=("lumping",)), np.concatenate(wells)


@pytest.fixture(scope="module")
def lasting_wells():
    """Three wells that last, and five states asked for."""
    trajectories, wells = switching([1000, 1000], np.random.default_rng(5), stay=0.995, spread=0.6)
    return problem_of(trajectories, 5, n_features=40, starts=TestWholeSearch.STARTS), np.concatenate(wells)


def judged(*candidates):
    return [(Trial(c.start, labels=labels_of(i)), c) for i, c in enumerate(candidates)]


def names(trials):
    return [trial.start for group in trials.values() for trial in group]


def test_the_most_metastable_starts_are_held_each_decomposition_once(problem):
    given = [candidate(f"{i}", 1.0, 0.5, i, quality=2.0 + 0.1 * i) for i in range(N_HELD + 2)]
    given.append(candidate("twin", 1.0, 0.5, N_HELD + 1, quality=2.9))
    trials = held_trials(problem, judged(*given))
    assert names(trials) == ["twin", *(f"{i}" for i in range(N_HELD, 1, -1))][:N_HELD]
    assert all(trial.held for group in trials.values() for trial in group)


def test_a_start_whose_rule_has_lost_a_state_comes_last(problem):
    lost = candidate("lost", 1.0, 0.5, 0, (0.5, 0.5, 0.0), quality=2.9)
    assert names(held_trials(problem, judged(lost, candidate("a", 1.0, 1.5, 1)))) == ["a", "lost"]


def test_what_is_known_of_later_times_counts_more_than_a_state_that_a_rule_has_lost(problem):
    def later(name, shift, lasting, populations=(0.3, 0.3, 0.4)):
        found = candidate(name, 1.0, 0.5, shift, populations, quality=2.9)
        return replace(found, support=replace(found.support, lasting=lasting))

    given = [later("cut", 0, 1.5), later("rare", 1, 2.4, (0.5, 0.5, 0.0)), later("whole", 2, 2.6)]
    assert names(held_trials(problem, judged(*given))) == ["whole", "rare", "cut"]


def test_where_everything_is_forgotten_later_times_say_nothing(problem):
    """Slow noise outlives states that are left after a few lag times, and has little to lose."""

    def later(name, shift, quality, lasting):
        found = candidate(name, 1.0, 0.5, shift, quality=quality)
        return replace(found, support=replace(found.support, lasting=lasting))

    given = [later("noise", 0, 1.8, 1.35), later("states", 1, 2.9, 1.3)]
    assert names(held_trials(problem, judged(*given))) == ["states", "noise"]
    assert names(held_trials(problem, judged(later("noise", 0, 2.2, 2.0), given[1]))) == ["noise", "states"]


class TestCompleted:
    """Two large wells and a small one, and a fourth state asked for that is not there."""

    N_RARE = 13

    @pytest.fixture
    def case(self):
        rng = np.random.default_rng(1)
        wells = np.repeat([0, 1, 0, 1, 0, 1, 2, 0], [300, 250, 250, 300, 200, 250, self.N_RARE, 438 - self.N_RARE])
        frames = np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 9.0]])[wells] + 0.4 * rng.normal(size=(len(wells), 2))
        return problem_of([frames], 4, n_features=40), wells[:-1]

    def of_wells(self, problem, wells, **share):
        """The rule of least squares for the wells, on all windows; nothing is left for the fourth state."""
        labels = np.where(np.arange(len(wells)) % 150 == 7, 3, wells)
        given, everywhere = Trial("wells", labels=labels, **share), np.arange(len(wells))
        ((_, found),) = least_squares_of_kernel(problem, Kernel(2.0), [given], everywhere, "class-averaged", [])
        return found

    @pytest.mark.parametrize(("share", "kept"), [(0.002, True), (0.01, False)])
    def test_a_rare_state_that_a_start_may_have_stays_as_it_is(self, case, share, kept):
        problem, wells = case
        found = self.of_wells(problem, wells, least_share=share)
        ((trial,),) = completed_trials(problem, [found], len(wells), 0).values()
        assert (trial.start, trial.held) == ("wells (split)", True)
        assert set(trial.labels.tolist()) == {0, 1, 2, 3}
        rare = np.unique(trial.labels[wells == 2])
        alone = len(rare) == 1 and np.count_nonzero(trial.labels == rare[0]) == self.N_RARE
        assert alone == kept

    def test_a_candidate_that_met_other_windows_is_completed_like_one_that_met_these(self, case):
        problem, wells = case
        found = self.of_wells(problem, wells, least_share=0.002)
        far = replace(found, n_windows=17, optimum=replace(found.optimum, labels=np.zeros(17, dtype=np.intp)))
        here, there = (completed_trials(problem, [c], len(wells), 0).values() for c in (found, far))
        assert_array_equal(*(trials[0].labels for (trials,) in (here, there)))

    def test_states_of_a_candidate_that_is_lost_in_the_end_are_completed(self, completed_in_the_end):
        """What came to all windows knows the states better than what was found on the first sample."""
        assert max(c.n_windows for c in completed_in_the_end) > FIRST_SAMPLE


@pytest.fixture
def completed_in_the_end(monkeypatch):
    """Candidates that are completed where every winner of a search loses a state in the end."""
    trajectories, _ = switching([400, 400, 400], np.random.default_rng(0))
    problem, given = problem_of(trajectories, 3, n_features=24, starts=("lumping",)), []

    def seen(problem, found, *rest):
        given.extend(found)
        return completed_trials(problem, found, *rest)

    def but_one(problem, candidate):
        return candidate.populations if candidate.held else np.array([0.5, 0.5, 0.0])

    monkeypatch.setattr(rungs_module, "RUNGS", ((FIRST_SAMPLE, 2), (2 * FIRST_SAMPLE, 2)))
    monkeypatch.setattr(candidates_module, "completed_trials", seen)
    monkeypatch.setattr(steps_module, "frame_populations", but_one)
    # Not before it is polished is a candidate known to need help.
    monkeypatch.setattr(candidates_module.Search, "_in_need", lambda self, found: False)
    search(problem, (1.5, 3.0), ("kinetic", "lumping"), selection="class-averaged")
    return given


def test_closer_balance_is_closer_than_asked_for(problem):
    trials = tighter_trials(problem.settings, judged(candidate("a", 1.0, 0.5)), TIGHTER_BALANCE[0])
    ((trial,),) = trials.values()
    assert problem.settings.balance[0] < trial.least_share == pytest.approx(TIGHTER_BALANCE[0] / 3)
    assert tighter_trials(problem.settings, judged(candidate("a", 1.0, 0.5)), 0.02) == {}


def test_a_start_that_is_clearly_more_metastable_calls_for_help(problem):
    best = candidate("best", 1.0, 0.1, quality=2.5, error=0.01)
    assert outdone(problem, best, judged(candidate("a", 1.0, 0.9, quality=2.6, error=0.01)))
    assert not outdone(problem, best, judged(candidate("a", 1.0, 0.9, quality=2.53, error=0.01)))
    lucky = candidate("a", 1.0, 0.9, quality=2.99, error=LARGEST_ERROR)
    assert not outdone(problem, best, judged(lucky))


class TestLabelled:
    """A rule of least squares has lost the rare one of three wells, the labels of a start have it."""

    @staticmethod
    def case(n_rare, **more):
        rng = np.random.default_rng(2)
        wells = np.repeat([0, 1] * 10, 100)
        for begin in (250, 650, 1050, 1450, 1850):
            wells[begin : begin + n_rare] = 2
        frames = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 2.5]])[wells] + 0.4 * rng.normal(size=(len(wells), 2))
        problem = problem_of([frames], 3, n_features=40, **more)
        halves = candidate("lumping", 2.0, 0.5, quality=2.1)
        return problem, wells[:-1], [(Trial("lumping", labels=wells[:-1]), halves)]

    def test_labels_that_are_more_metastable_than_what_rules_have_kept_are_held(self):
        problem, wells, known = self.case(15)
        ((kernel, (trial,)),) = labelled_trials(problem, [("lumping", wells)], known, 1999).items()
        assert (kernel, trial.start, trial.held) == (Kernel(2.0), "lumping (labels)", True)
        assert_array_equal(trial.labels, wells)

    def test_not_where_rules_have_kept_as_much(self):
        problem, wells, known = self.case(15)
        better = [(trial, replace(c, metastability=2.95)) for trial, c in known]
        assert labelled_trials(problem, [("lumping", wells)], better, 1999) == {}

    def test_not_for_a_state_of_a_handful_of_windows_or_of_one_visit(self):
        problem, wells, known = self.case(1)
        assert labelled_trials(problem, [("lumping", wells)], known, 1999) == {}
        once = np.where(np.arange(1999) < 30, 2, wells % 2)
        assert labelled_trials(problem, [("lumping", once)], known, 1999) == {}

    def test_not_where_larger_states_are_wanted(self):
        problem, wells, known = self.case(15, balance=(0.05, 0.99))
        assert labelled_trials(problem, [("lumping", wells)], known, 1999) == {}

    def test_not_where_windows_do_not_follow_each_other(self):
        """Of a thin sample it is not known where its windows go."""
        problem, wells, known = self.case(15)
        thin = replace(problem, data=replace(problem.data, windows=problem.data.windows[:, ::3]))
        assert labelled_trials(thin, [("lumping", wells[::3])], known, 600) == {}


class TestTrimmed:
    """Three wells that last, and a fourth state asked for."""

    @staticmethod
    def with_halves(stay):
        """The rule of least squares for three wells, one of them cut in two by chance, on all windows."""
        trajectories, wells = switching([1500, 1500], np.random.default_rng(3), stay=stay, spread=0.4)
        problem = problem_of(trajectories, 4, n_features=40)
        wells = np.concatenate([w[:-1] for w in wells])
        middle = np.concatenate([x[:-1] for x in trajectories])[:, 1]
        halves = np.where((wells == 0) & (middle > 0.0), 3, wells)
        everywhere = np.arange(len(wells))
        given = [Trial("halves", labels=halves)]
        ((_, found),) = least_squares_of_kernel(problem, Kernel(2.0), given, everywhere, "class-averaged", [])
        return problem, wells, found

    def test_halves_are_put_together_and_little_is_cut_off(self):
        problem, wells, found = self.with_halves(stay=0.995)
        assert agreement(found.optimum.labels, wells) < 0.9
        ((trial,),) = trimmed_trials(problem, [found], len(wells)).values()
        assert (trial.start, trial.held) == ("halves (3 of 4 last)", True)
        assert set(trial.labels.tolist()) == {0, 1, 2, 3}
        assert agreement(trial.labels, wells) > 0.98

    def test_nothing_is_made_where_larger_states_are_wanted(self):
        problem, wells, found = self.with_halves(stay=0.995)
        larger = replace(problem, settings=replace(problem.settings, balance=(0.05, 0.99)))
        assert trimmed_trials(larger, [found], len(wells)) == {}

    def test_nothing_is_made_of_states_that_are_left_soon(self):
        problem, wells, found = self.with_halves(stay=0.9)
        assert trimmed_trials(problem, [found], len(wells)) == {}

    def test_nothing_is_made_where_no_later_times_are_known(self):
        trajectories, _ = switching([6] * 150, np.random.default_rng(0))
        problem = problem_of(trajectories, 4, lagtime=1)
        everywhere = np.arange(problem.data.n_windows)
        given = [Trial("any", labels=everywhere % 4)]
        ((_, found),) = least_squares_of_kernel(problem, Kernel(2.0), given, everywhere, "class-averaged", [])
        assert trimmed_trials(problem, [found], len(everywhere)) == {}


class TestWholeSearch:
    WIDTHS = tuple(0.75 * 2.0 ** (0.5 * j) for j in range(6))
    STARTS = ("kinetic", "lumping", "kmeans")

    def test_more_states_than_there_are_end_with_held_labels(self, too_many):
        problem, wells = too_many
        winner = search(problem, self.WIDTHS, ("kinetic", "lumping", "kmeans"), selection="class-averaged")[0]
        assert winner.held
        assert winner.populations.min() >= problem.settings.floor
        assert winner.optimum.converged
        states = winner.optimum.rule.scores(problem.feature_map(winner.bandwidth)(problem.data.frames)).argmax(axis=0)
        # The three wells are kept apart.
        shares = [np.bincount(wells[states == k], minlength=3).max() / (states == k).sum() for k in range(4)]
        assert min(shares) > 0.9

    def test_the_wells_that_last_are_hardly_touched(self, lasting_wells):
        problem, wells = lasting_wells
        winner = search(problem, self.WIDTHS, self.STARTS, selection="class-averaged")[0]
        assert winner.start.endswith("(3 of 5 last)")
        features = problem.feature_map(*winner.kernel)(problem.data.frames)
        states = winner.optimum.rule.scores(features).argmax(axis=0)
        assert set(states.tolist()) == set(range(5))
        assert agreement(states, wells) > 0.96

    def test_where_trimmed_states_are_lost_too_others_are_held(self, lasting_wells, monkeypatch):
        """One way out after another, and none of them twice."""
        problem, _ = lasting_wells
        stages = []

        def no_way(self, candidates):
            stages.append([c.start for c in candidates])

        monkeypatch.setattr(candidates_module.Search, "_finished", no_way)
        with pytest.raises(DegenerateSolutionError):
            search(problem, self.WIDTHS, self.STARTS, selection="class-averaged")
        assert len(stages) == 2
        assert all(name.endswith("last)") for name in stages[0][-1:])
        assert not any(name.endswith("last)") for name in stages[1])

    def test_the_effort_is_bounded(self, too_many, monkeypatch):
        """A few local searches that lose a state, not all of them, and no other search after that."""
        problem, _ = too_many
        calls = []
        for mode in (SearchedLabels, HeldLabels):

            def counted(self, *arguments, original=mode.optimum):
                calls.append(self.held)
                return original(self, *arguments)

            monkeypatch.setattr(mode, "optimum", counted)
        search(problem, self.WIDTHS, ("kinetic", "lumping", "kmeans", "random"), selection="class-averaged")
        assert calls.count(False) <= 4 * TRIALS_AT_ONCE
        assert calls.count(True) <= 2 * N_HELD + 2 * N_TRIMMED

    def test_single_frames_are_held_closer_to_balance(self):
        frames = np.random.default_rng(0).normal(size=(400, 2))
        problem = problem_of([frames], 3, n_features=20, n_slices=1, starts=("kmeans",), regularization=0.3)
        found = []
        try:
            found = search(problem, (4.0, 8.0), ("kmeans", "random"), selection="class-averaged")
        except DegenerateSolutionError:
            return
        assert found[0].populations.min() >= problem.settings.floor
        assert not found[0].held


class TestSetAside:
    """Where the best candidate loses a state at full accuracy, others are judged by what it has kept."""

    @staticmethod
    def lasting(name, shift, lasting):
        """A candidate of Q 2.5 whose states add so much many lag times later, whichever part is left out."""
        found = candidate(name, 1.0, 0.5, shift)
        return replace(found, support=replace(found.support, lasting=lasting, lasting_without=(lasting,) * 5))

    @pytest.mark.parametrize(("left", "used"), [(1.9, False), (2.3, True)])
    def test_a_candidate_that_forgets_what_the_lost_one_remembers_comes_last(self, problem, monkeypatch, left, used):
        best, other = self.lasting("best", 0, 2.2), self.lasting("other", 1, left)
        polished = []

        def polish(self, one):
            polished.append(one.start)
            lost = one.start == "best"
            return replace(one, populations=np.array([0.5, 0.5, 0.0])) if lost else one

        def way_out(self, found):
            polished.append("way out")
            yield []

        monkeypatch.setattr(candidates_module.Search, "_explored", lambda self: [best, other])
        monkeypatch.setattr(candidates_module.Search, "_in_need", lambda self, found: False)
        monkeypatch.setattr(candidates_module.Search, "_climbed", lambda self, found: list(found))
        monkeypatch.setattr(candidates_module.Search, "_polished", polish)
        monkeypatch.setattr(candidates_module.Search, "_rescued", way_out)
        winner = search(problem, (1.0,), ("lumping",))[0]
        assert winner.start == "other"
        assert polished == (["best", "other"] if used else ["best", "way out", "other"])
