"""Every state gets its frames where all rules have left one without any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from m3c_md.clustering.search_notes import _doubts
from m3c_md.exceptions import ConvergenceWarning, DegenerateSolutionError
from m3c_md.matching import agreement
from m3c_md.search import candidates as candidates_module
from m3c_md.search.fate import FateKind
from m3c_md.search.problem import Kernel
from m3c_md.search.repopulation import raised_biases, repopulated
from m3c_md.search.steps import least_squares_of_kernel
from m3c_md.search.trials import Trial
from tests.search._data import problem_of, search, switching


class TestRaisedBiases:
    @pytest.mark.parametrize("seed", range(20))
    @pytest.mark.parametrize("fewest", [1, 7, 30])
    def test_every_state_has_its_frames_and_the_others_stay(self, seed, fewest):
        rng = np.random.default_rng(seed)
        n_states = int(rng.integers(2, 9))
        scores = rng.normal(size=(n_states, 500)) + rng.normal(0.0, 4.0, size=(n_states, 1))
        before = scores.argmax(axis=0)
        raised = raised_biases(scores, fewest)
        after = (scores + raised[:, None]).argmax(axis=0)
        assert (raised >= 0.0).all()
        assert np.bincount(after, minlength=n_states).min() >= fewest
        assert np.count_nonzero(after != before) <= 2 * (n_states - 1) * fewest

    def test_nothing_is_raised_where_nothing_is_missing(self):
        scores = np.eye(3)[:, np.arange(30) % 3]
        assert raised_biases(scores, 10).tolist() == [0.0, 0.0, 0.0]

    def test_those_go_over_that_are_closest(self):
        scores = np.stack([np.zeros(10), -np.arange(10.0)])
        raised = raised_biases(scores, 3)
        # The first is a tie, which goes to the first state.
        assert (scores + raised[:, None]).argmax(axis=0).tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]

    @pytest.mark.parametrize("n_frames", [5, 11])
    def test_none_where_there_are_too_few_frames(self, n_frames):
        assert raised_biases(np.random.default_rng(0).normal(size=(3, n_frames)), 4) is None


@pytest.fixture(scope="module")
def too_many():
    """Two wells and three states asked for, with the rule of least squares for the two."""
    trajectories, wells = switching([1000, 1000], np.random.default_rng(0), np.array([[0.0, 0.0], [5.0, 0.0]]))
    problem = problem_of(trajectories, 3, starts=("lumping",))
    wells = np.concatenate([w[:-1] for w in wells])
    labels = np.where(np.arange(len(wells)) % 200 == 5, 2, wells)
    everywhere = np.arange(len(wells))
    given = [Trial("wells", labels=labels, held=True)]
    ((_, found),) = least_squares_of_kernel(problem, Kernel(3.0), given, everywhere, "class-averaged", [])
    return problem, wells, found


def test_a_state_without_frames_gets_some_and_the_others_keep_theirs(too_many):
    problem, wells, found = too_many
    assert found.populations.min() == 0.0
    raised = repopulated(problem, found, "class-averaged", 20_000)
    assert (raised.start, raised.held) == ("wells (raised)", True)
    assert raised.populations.min() >= raised_floor(problem)
    assert agreement(raised.optimum.labels, wells) > 0.95
    assert raised.optimum.gap == 1.0
    told = {kind: text for text, kind in _doubts(raised, problem.settings, 1)}
    assert "scores of states without frames were raised" in told[ConvergenceWarning]
    assert "no certificate" in told[ConvergenceWarning]
    assert not raised.optimum.converged


def test_no_answer_where_nothing_is_remembered_or_larger_states_are_wanted(too_many):
    problem, _, found = too_many
    noise = problem_of([np.random.default_rng(0).normal(size=(2000, 2))], 3, starts=("lumping",))
    everywhere = np.arange(noise.data.n_windows)
    given = [Trial("any", labels=(noise.data.frames[:-1, 0] > 0.0).astype(int) + (everywhere % 500 == 0), held=True)]
    ((_, halves),) = least_squares_of_kernel(noise, Kernel(3.0), given, everywhere, "class-averaged", [])
    assert repopulated(noise, halves, "class-averaged", 20_000) is None
    larger = replace(problem, settings=replace(problem.settings, balance=(0.1, 0.99)))
    assert repopulated(larger, found, "class-averaged", 20_000) is None


def raised_floor(problem):
    return problem.settings.with_least_share(0.001).floor


def test_a_search_that_has_lost_every_state_ends_with_it(too_many, monkeypatch):
    problem, wells, _ = too_many
    monkeypatch.setattr(candidates_module.Search, "_finished", lambda self, found: self._end(lost(found)))

    def lost(found):
        return [replace(c, populations=np.array([0.5, 0.5, 0.0])).ended(FateKind.DEGENERATE) for c in found]

    winner = search(problem, (1.5, 3.0), ("lumping", "kmeans"), selection="class-averaged")[0]
    assert winner.start.endswith("(raised)")
    # One well may be cut in two, but the wells are kept apart.
    shares = [np.bincount(wells[winner.optimum.labels == k], minlength=2) for k in range(3)]
    assert min(share.max() / share.sum() for share in shares) > 0.95
    monkeypatch.setattr(candidates_module, "repopulated", lambda *given: None)
    with pytest.raises(DegenerateSolutionError):
        search(problem, (1.5, 3.0), ("lumping", "kmeans"), selection="class-averaged")
