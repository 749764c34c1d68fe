"""Steps of a search, each by itself: sizes of samples, limits of trials, balanced starts, who wins in the end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from m3c_md.search import steps as steps_module
from m3c_md.search.candidates import MOST_POLISHED, Search
from m3c_md.search.fate import FateKind
from m3c_md.search.local_search import SearchSettings
from m3c_md.search.problem import Kernel
from m3c_md.search.rungs import ALL, RUNGS, rung_sizes
from m3c_md.search.selection import SAME_KEPT, choose
from m3c_md.search.steps import TRIAL_GAP, SearchOptions, _balanced_start, optimise_kernel
from m3c_md.search.trials import Trial
from tests.search._data import N_CANDIDATE_WINDOWS, candidate, problem_of, search, switching

# With a balance of 1 %, a state of half as many frames is rare, and better than none.
FINE, RARE, EMPTY = (0.3, 0.3, 0.4), (0.5, 0.494, 0.006), (0.5, 0.5, 0.0)


@pytest.fixture(scope="module")
def problem():
    trajectories, _ = switching([200, 200, 200], np.random.default_rng(0), spread=1.2)
    return problem_of(trajectories, 3, n_features=20)


class TestRungs:
    def test_a_stream_ends_with_a_sample_others_with_all_windows(self):
        assert rung_sizes(10**6, True, True) == list(RUNGS)
        assert rung_sizes(10**6, True, False) == [*RUNGS, (10**6, 1)]

    def test_no_sample_of_more_than_half_of_the_windows(self):
        for n_windows in (500, 2 * RUNGS[0][0] - 1, 2 * RUNGS[0][0], 2 * RUNGS[1][0] + 1):
            *samples, last = rung_sizes(n_windows, True, False)
            assert last[0] == n_windows
            assert [size for size, _ in samples] == [size for size, _ in RUNGS if 2 * size <= n_windows]
            assert last[1] == RUNGS[len(samples)][1]

    def test_without_halving_all_go_to_the_end(self):
        ((size, keep),) = rung_sizes(12_345, False, False)
        assert size == 12_345
        assert keep > 10_000


def test_trials_are_cut_short_and_the_others_are_not(problem, monkeypatch):
    monkeypatch.setattr(steps_module, "TRIAL_ITERATIONS", 1)
    rng = np.random.default_rng(0)
    chosen, start = np.arange(N_CANDIDATE_WINDOWS), [Trial("random", rng.permutation(N_CANDIDATE_WINDOWS) % 3)]
    (trial,), _ = optimise_kernel(problem, Kernel(2.0), start, chosen, "objective", TRIAL_GAP)
    (whole,), _ = optimise_kernel(problem, Kernel(2.0), start, chosen, "objective", 0.5 * TRIAL_GAP)
    assert trial.optimum.iterations == 1 < whole.optimum.iterations
    assert whole.optimum.converged


@pytest.mark.parametrize("held", [True, False])
def test_labels_that_are_held_keep_a_state_of_a_handful_of_windows(held):
    """A local search gives it up, since leaving it wrong is cheap; a rule for given labels is to tell it apart."""
    (frames,), (wells,) = switching([2000], np.random.default_rng(0))
    kept = np.sort(np.r_[np.flatnonzero(wells < 2), np.flatnonzero(wells == 2)[:8]])
    few, chosen = problem_of([frames[kept]], 3, regularization=0.03), np.arange(len(kept) - 1)
    trial = Trial("given", labels=wells[kept][:-1], least_share=0.002, held=held)
    (found,), _ = optimise_kernel(few, Kernel(3.0), [trial], chosen, "class-averaged", TRIAL_GAP)
    assert (found.populations.min() > 0.002) == held


class TestBalancedStart:
    def settings(self, lower, upper=0.99):
        return SearchSettings(3, 1e-3, (lower, upper))

    def test_labels_within_the_bounds_stay(self):
        labels = np.repeat([0, 1, 2], [10, 30, 60])
        assert _balanced_start([], Trial("", labels), 100, self.settings(0.1, 0.6)) is labels

    @pytest.mark.parametrize(("lower", "upper", "n_moved"), [(0.15, 0.99, 5), (0.05, 0.5, 10)])
    def test_others_are_moved_no_more_than_needed(self, lower, upper, n_moved):
        labels = np.repeat([0, 1, 2], [10, 30, 60])
        moved = _balanced_start([], Trial("", labels), 100, self.settings(lower, upper))
        counts = np.bincount(moved, minlength=3)
        assert lower * 100 <= counts.min() <= counts.max() <= upper * 100
        assert np.count_nonzero(moved != labels) == n_moved


class TestFinish:
    """Samples are left out: who is polished, and who wins."""

    def finish(self, problem, monkeypatch, alive, ends):
        """Polishing gives every start the populations in ``ends``; returns winner, other fates, who was polished."""
        polished = []

        def polish(one):
            polished.append(one.start)
            return replace(one, populations=np.array(ends[one.start]))

        search = Search(problem, (1.0,), ("kinetic",), SearchOptions("class-averaged", 0))
        monkeypatch.setattr(search, "_climbed", lambda candidates: candidates)
        monkeypatch.setattr(search, "_polished", polish)
        return search._finished(alive), {c.start: str(c.fate) for c in search._ended}, polished

    def test_the_first_that_keeps_its_states_wins(self, problem, monkeypatch):
        alive = [candidate(name, 1.0, 0.1) for name in "abc"]
        winner, ended, polished = self.finish(problem, monkeypatch, alive, {"a": EMPTY, "b": FINE})
        assert polished == ["a", "b"]
        assert (winner.start, winner.fate.kind) == ("b", FateKind.WINNER)
        assert ended == {"a": "degenerate: at full accuracy", "c": "finalist"}

    def test_a_rare_state_wins_where_it_comes_first(self, problem, monkeypatch):
        alive = [candidate("a", 1.0, 0.1, populations=RARE), candidate("b", 1.0, 0.2)]
        winner, ended, polished = self.finish(problem, monkeypatch, alive, {"a": RARE})
        assert (winner.start, polished, ended) == ("a", ["a"], {"b": "finalist"})

    def test_only_so_many_are_brought_to_full_accuracy(self, problem, monkeypatch):
        names = [f"{i}" for i in range(MOST_POLISHED + 2)]
        alive = [candidate(name, 1.0, 0.1) for name in names]
        winner, ended, polished = self.finish(problem, monkeypatch, alive, dict.fromkeys(names, EMPTY))
        assert winner is None
        assert polished == names[:MOST_POLISHED]
        assert sorted(ended) == names


def test_where_all_else_has_lost_a_state_the_safest_of_those_not_needed_is_tried(problem, monkeypatch):
    """Better ones had a state of a few windows; states of the last are all large."""
    names = [f"{i}" for i in range(MOST_POLISHED + 2)]
    alive = [candidate(name, 1.0, 0.1, populations=RARE) for name in names[:-1]] + [candidate(names[-1], 1.0, 0.9)]
    ends = {**dict.fromkeys(names, EMPTY), names[-1]: FINE}
    polished = []

    def polish(self, one):
        polished.append(one.start)
        return replace(one, populations=np.array(ends[one.start]))

    monkeypatch.setattr(Search, "_explored", lambda self: alive)
    monkeypatch.setattr(Search, "_in_need", lambda self, found: False)
    monkeypatch.setattr(Search, "_climbed", lambda self, found: list(found))
    monkeypatch.setattr(Search, "_polished", polish)
    monkeypatch.setattr(Search, "_rescued", lambda self, found: iter(()))
    found = search(problem, (1.0,), ("lumping",), selection="class-averaged")
    assert polished == [*names[:MOST_POLISHED], names[-1]]
    assert (found[0].start, str(found[0].fate)) == (names[-1], "winner")
    assert sorted(c.start for c in found) == names


class TestChoose:
    """Few places: two for one decomposition at most, in the order given; the others end with a fate."""

    def test_places_are_for_different_decompositions(self, problem):
        given = [candidate("a", width, 0.1 * width) for width in (1.0, 2.0, 4.0)]
        given += [candidate("b", 1.0, 0.5, 1), candidate("c", 1.0, 0.6, 2)]
        alive, out = choose(problem, given, 4)
        assert [(c.start, c.bandwidth) for c in alive] == [("a", 1.0), ("a", 2.0), ("b", 1.0), ("c", 1.0)]
        assert [(c.start, c.bandwidth, c.fate.kind) for c in out] == [("a", 4.0, FateKind.DROPPED)]

    def test_no_more_go_on_than_there_are_places(self, problem):
        alive, out = choose(problem, [candidate(f"{shift}", 1.0, 0.1, shift) for shift in range(4)], 2)
        assert [c.start for c in alive] == ["0", "1"]
        assert [c.fate.kind for c in out] == [FateKind.DROPPED, FateKind.DROPPED]

    def test_of_one_decomposition_few_go_on_however_many_places_there_are(self, problem):
        given = [candidate("a", width, 0.1 * width) for width in (1.0, 2.0, 4.0)]
        alive, out = choose(problem, given, 5)
        assert [c.bandwidth for c in alive] == [1.0, 2.0][:SAME_KEPT]
        assert [c.fate.kind for c in out] == [FateKind.DROPPED]

    def test_where_all_go_on_twins_and_empty_ones_do_not(self, problem):
        given = [candidate("a", width, 0.1 * width) for width in (1.0, 2.0, 4.0)]
        given += [candidate("twin", 2.0, 0.2), candidate("empty", 1.0, 0.01, 1, EMPTY)]
        alive, out = choose(problem, given, ALL)
        assert [(c.start, c.bandwidth) for c in alive] == [("a", 1.0), ("a", 2.0), ("a", 4.0)]
        assert [c.fate.kind for c in out] == [FateKind.SAME, FateKind.DEGENERATE]
        assert str(out[0].fate) == "same as a"
