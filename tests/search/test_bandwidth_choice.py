"""The widest bandwidth that is as good as the best: by one standard error, in the same decomposition, never more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from m3c_md.frames.windows import FeatureBlocks
from m3c_md.search import bandwidth_choice
from m3c_md.search.bandwidth_choice import PLAINER_SCORE, STANDARD_ERRORS, WORSE_SCORE, plainest_first
from m3c_md.search.fate import FateKind
from m3c_md.search.problem import STANDARD, Kernel
from m3c_md.search.selection import ranked, same_decomposition, same_solution
from tests.search._data import problem_of, scored, search, switching

BANDWIDTHS = tuple(2.0 ** (0.5 * j) for j in range(-1, 7))


@pytest.fixture(scope="module")
def case():
    """Overlapping wells at many bandwidths: neighbours are nearly as good as each other."""
    trajectories, _ = switching([240, 240, 220], np.random.default_rng(1), spread=0.9)
    problem = problem_of(trajectories, 3, n_features=40)
    found = search(problem, BANDWIDTHS, ("kinetic",), selection="class-averaged", seed=0, halving=False)
    honest = [c for c in found if c.fate.kind is not FateKind.DEGENERATE]
    assert len(honest) >= 4
    return problem, honest


@pytest.fixture
def anything_goes(monkeypatch):
    """No bounds on loss and score: what is still refused is refused for another reason."""
    monkeypatch.setattr(bandwidth_choice, "STANDARD_ERRORS", 1e9)
    monkeypatch.setattr(bandwidth_choice, "WORSE_SCORE", 1e9)


@pytest.fixture
def nothing_by_labels(monkeypatch):
    """What has the same labels must not have a worse score."""
    monkeypatch.setattr(bandwidth_choice, "PLAINER_SCORE", 0.0)


def test_parts_sum_to_the_class_averaged_loss(case):
    problem, candidates = case
    for candidate in candidates[:3]:
        blocks = FeatureBlocks(problem.data, problem.feature_map(candidate.bandwidth), problem.weights)
        penalty = 0.5 * problem.settings.regularization * (candidate.optimum.rule.weights**2).sum()
        whole = scored(blocks, candidate.optimum, problem.settings, "class-averaged") - penalty
        assert sum(candidate.part_losses) == pytest.approx(whole, rel=1e-5)


def test_nothing_wider_is_as_good_as_the_one_chosen(case):
    """The definition, one candidate after the other."""
    problem, candidates = case
    order = ranked(problem, candidates)
    best, chosen = order[0], plainest_first(problem, order)[0]
    reference = best.part_losses

    def as_good(candidate):
        excess = np.subtract(candidate.part_losses, reference)
        error = np.sqrt(len(excess)) * excess.std(ddof=1)
        by_loss = candidate.score <= WORSE_SCORE * best.score and excess.sum() <= STANDARD_ERRORS * error
        by_labels = candidate.score <= PLAINER_SCORE * best.score and same_solution(candidate, best)
        return same_decomposition(candidate, best) and (by_loss or by_labels)

    assert chosen is best or as_good(chosen)
    assert not any(as_good(c) for c in order if c.bandwidth > chosen.bandwidth)


@pytest.mark.usefixtures("nothing_by_labels")
@pytest.mark.parametrize(("errors", "worse"), [(1e9, 1e9), (1e9, 1.0), (-1e9, 1e9)])
def test_bounds_on_loss_and_score_both_hold(case, monkeypatch, errors, worse):
    problem, candidates = case
    order = ranked(problem, candidates)
    monkeypatch.setattr(bandwidth_choice, "STANDARD_ERRORS", errors)
    monkeypatch.setattr(bandwidth_choice, "WORSE_SCORE", worse)
    chosen = plainest_first(problem, order)[0]
    alike = [c for c in order if same_decomposition(c, order[0])]
    widest = max(alike, key=lambda c: c.bandwidth)
    assert widest.bandwidth > order[0].bandwidth
    assert chosen is (widest if min(errors, worse) > 1.0 else order[0])


def test_order_is_kept_but_for_the_one_that_comes_first(case, monkeypatch):
    problem, candidates = case
    order = ranked(problem, candidates)
    monkeypatch.setattr(bandwidth_choice, "WORSE_SCORE", 1e9)
    again = plainest_first(problem, order)
    assert [c for c in again if c is not again[0]] == [c for c in order if c is not again[0]]


@pytest.mark.usefixtures("anything_goes")
def test_another_decomposition_is_never_taken(case):
    problem, candidates = case
    order = ranked(problem, candidates)
    best, wide = order[0], max(order, key=lambda c: c.bandwidth)
    mixed = replace(
        wide, optimum=replace(wide.optimum, labels=np.roll(wide.optimum.labels, len(wide.optimum.labels) // 3))
    )
    assert not same_decomposition(mixed, best)
    assert plainest_first(problem, [best, mixed])[0] is best


@pytest.mark.usefixtures("anything_goes")
def test_a_state_lost_on_the_way_is_never_taken(case):
    problem, candidates = case
    order = ranked(problem, candidates)
    best, wide = order[0], max(order, key=lambda c: c.bandwidth)
    empty = replace(wide, populations=np.array([0.6, 0.4, 0.0]))
    assert plainest_first(problem, [best, wide])[0] is wide
    assert plainest_first(problem, [best, empty])[0] is best


def test_labels_that_are_held_keep_their_order(case):
    problem, candidates = case
    order = [replace(c, held=True) for c in ranked(problem, candidates)]
    assert plainest_first(problem, order) == order
    assert plainest_first(problem, []) == []


@pytest.mark.usefixtures("anything_goes")
def test_the_search_takes_it_unless_the_objective_selects(case):
    problem, candidates = case
    chosen = plainest_first(problem, ranked(problem, candidates))[0]
    assert chosen.score > min(c.score for c in candidates), "another one than the best, or nothing is tested"
    again = search(problem, BANDWIDTHS, ("kinetic",), selection="class-averaged", seed=0, halving=False)
    assert again[0].bandwidth == chosen.bandwidth
    plain = search(problem, BANDWIDTHS, ("kinetic",), selection="objective", seed=0, halving=False)
    assert plain[0].score == min(c.score for c in plain if c.fate.kind is not FateKind.DEGENERATE)


class TestTheSameLabels:
    """Where the data cannot tell two kernels, the one that says more about other data wins."""

    @pytest.fixture
    def best(self, case):
        problem, candidates = case
        return replace(ranked(problem, candidates)[0], kernel=Kernel(1.0, "learned 2"))

    def other(self, best, bandwidth, metric, factor, **more):
        kernel = Kernel(bandwidth, metric)
        # Losses that are much worse in every part: the labels alone speak for it.
        losses = tuple(10.0 + loss for loss in best.part_losses)
        return replace(best, kernel=kernel, score=factor * best.score, part_losses=losses, **more)

    def test_a_metric_that_was_not_learned(self, case, best):
        problem, _ = case
        for metric in ("late", "kinetic", STANDARD):
            slow = self.other(best, 1.0, metric, 0.9 * PLAINER_SCORE)
            assert plainest_first(problem, [best, slow])[0] is slow
        assert plainest_first(problem, [best, self.other(best, 1.0, "late", 1.1 * PLAINER_SCORE)])[0] is best
        assert plainest_first(problem, [best, self.other(best, 1.0, "learned 1", 1.2)])[0] is best

    def test_a_wider_kernel(self, case, best):
        problem, _ = case
        wide = [self.other(best, width, best.metric, 2.0) for width in (1.5, 4.0, 2.0)]
        assert plainest_first(problem, [best, *wide])[0] is wide[1]
        narrow = self.other(best, 0.5, best.metric, 1.2)
        assert plainest_first(problem, [best, narrow])[0] is best

    def test_other_labels_or_less_metastability_do_not(self, case, best):
        problem, _ = case
        labels = best.optimum.labels.copy()
        labels[:20] = (labels[:20] + 1) % 3
        moved = self.other(best, 4.0, "late", 1.2, optimum=replace(best.optimum, labels=labels))
        assert same_decomposition(moved, best)
        assert plainest_first(problem, [best, moved])[0] is best
        lower = tuple(q - 0.5 for q in best.support.without)
        support = replace(best.support, without=lower)
        loose = self.other(best, 4.0, "late", 1.2, metastability=best.metastability - 0.5, support=support)
        assert plainest_first(problem, [best, loose])[0] is best
