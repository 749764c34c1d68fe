"""Who wins: by populations and support first, then by score, unless another is clearly more metastable."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from m3c_md.search.fate import Fate, FateKind
from m3c_md.search.rivals import close_rival, set_aside
from m3c_md.search.selection import (
    INTERVAL,
    LARGER_ERROR,
    LARGEST_ERROR,
    choose,
    fleeting,
    outlasts,
    ranked,
    remembers,
    same_decomposition,
)
from tests.search._data import candidate, problem_of, switching


@pytest.fixture(scope="module")
def problem():
    trajectories, _ = switching([200, 200, 200], np.random.default_rng(0))
    return problem_of(trajectories, 3, n_features=10)


def order(problem, *given):
    return [c.start for c in ranked(problem, given)]


def test_the_lowest_score_wins_among_those_with_all_states(problem):
    given = [
        candidate("b", 1.0, 0.2),
        candidate("a", 1.0, 0.1),
        candidate("lost", 1.0, 0.01, populations=(0.5, 0.5, 0)),
    ]
    assert order(problem, *given) == ["a", "b", "lost"]


def test_a_rare_state_wins_by_its_score(problem):
    rare = candidate("rare", 1.0, 0.05, populations=(0.6, 0.397, 0.003), least_share=0.002)
    assert order(problem, candidate("a", 1.0, 0.1), rare)[0] == "rare"
    assert order(problem, candidate("a", 1.0, 0.04), rare)[0] == "a"


def test_what_rests_on_one_part_gives_way_whatever_its_score(problem):
    lucky = candidate("lucky", 1.0, 0.01, quality=2.99, error=1.01 * LARGEST_ERROR)
    other = candidate("a", 1.0, 0.3, quality=2.95)
    assert order(problem, lucky, other) == ["a", "lucky"]
    sure = replace(lucky, support=replace(lucky.support, error=0.99 * LARGEST_ERROR))
    assert order(problem, sure, other) == ["lucky", "a"]


def lasting(one, values):
    """A candidate with Q many lag times later: its value, and what it is without each part."""
    without = tuple(np.asarray(values, dtype=float).tolist())
    return replace(one, support=replace(one.support, lasting=float(np.mean(without)), lasting_without=without))


def test_slow_noise_gives_way_to_states_that_last(problem):
    """It has the lower score and is more metastable at the lag time, but is forgotten much sooner."""
    noise = lasting(candidate("noise", 1.0, 0.1, shift=1, quality=2.8), [1.99, 2.01, 2.0, 1.98, 2.02])
    states = lasting(candidate("states", 1.0, 0.2, quality=2.77), [2.36, 2.34, 2.35, 2.33, 2.37])
    assert order(problem, noise, states) == ["states", "noise"]


def test_states_last_longer_only_beyond_the_error_of_the_difference(problem):
    first = lasting(candidate("a", 1.0, 0.1, shift=1), [1.7, 2.3, 2.0, 1.6, 2.4])
    other = lasting(candidate("b", 1.0, 0.2), [2.36, 2.34, 2.35, 2.33, 2.37])
    assert order(problem, first, other) == ["a", "b"]
    unknown = candidate("c", 1.0, 0.05, shift=2)
    assert order(problem, first, other, unknown)[0] == "c"


def test_states_that_are_all_forgotten_are_compared_at_the_lag_time_alone(problem):
    """Quality 2.5 at the lag time: by then the longest-lived must have kept 1.75."""
    first = lasting(candidate("a", 1.0, 0.1, shift=1), [1.20, 1.21, 1.2, 1.19, 1.2])
    for later, winner in ((1.7, "a"), (1.8, "b")):
        other = lasting(candidate("b", 1.0, 0.2), later + 0.01 * np.array([-2, -1, 0, 1, 2]))
        assert order(problem, first, other)[0] == winner


def test_labels_with_next_to_no_memory_outlast_no_states(problem):
    """What has little to lose has lost little many lag times later: that says nothing against states that live less."""
    dull = lasting(candidate("dull", 1.0, 0.1, shift=1, quality=1.2), [1.20, 1.21, 1.2, 1.19, 1.2])
    states = lasting(candidate("states", 1.0, 0.2, quality=2.9), [1.10, 1.11, 1.1, 1.09, 1.1])
    assert remembers(dull)
    assert not remembers(dull, states.metastability)
    assert not outlasts(dull, states)
    assert fleeting([dull, states]) == set()


def test_the_same_states_with_other_borders_are_no_less_lasting(problem):
    wide = lasting(candidate("wide", 2.0, 0.1), [2.30, 2.31, 2.30, 2.31, 2.30])
    narrow = lasting(candidate("narrow", 1.0, 0.2), [2.35, 2.36, 2.35, 2.36, 2.35])
    assert same_decomposition(wide, narrow)
    assert order(problem, wide, narrow) == ["wide", "narrow"]


def test_states_that_are_sure_are_not_given_up_for_one_that_is_not(problem):
    """Fresh data see its third state with a probability of 1 - 1/e, which may be more than another has to offer."""
    rarely_visited = candidate("right but for one", 1.0, 0.01, quality=2.9, error=0.9)
    assert rarely_visited.sure == pytest.approx(2.57, abs=0.01)
    for quality, winner in ((2.5, "right but for one"), (2.6, "poor")):
        assert order(problem, rarely_visited, candidate("poor", 1.0, 0.3, quality=quality))[0] == winner


def with_late(one, lasting, least_memory, missing):
    """A candidate of which it is known what is left many lag times later, with errors too large to say more."""
    without = (lasting - 1.0, lasting + 1.0)
    late = replace(one.support, lasting=lasting, lasting_without=without, least_memory=least_memory, missing=missing)
    return replace(one, support=late)


@pytest.mark.parametrize(
    ("least_memory", "lasting", "winner"),
    [
        (0.02, 2.0, "seen once"),  # two of its states are one, and fresh data keep 2.85 - 0.37 of the other
        (0.3, 2.0, "seen everywhere"),  # a state that lives shortly is a state
        (0.02, 2.6, "seen everywhere"),  # it is expected to keep more all the same
    ],
)
def test_a_state_of_one_part_gives_way_to_states_but_not_to_halves_of_one(problem, least_memory, lasting, winner):
    """Both halves of slow noise are seen everywhere, and as metastable after a while as states are."""
    once = with_late(candidate("seen once", 1.0, 0.2, quality=2.9, error=0.9), 2.85, 0.9, 0.37)
    everywhere = with_late(candidate("seen everywhere", 1.0, 0.1, shift=1, quality=2.85), lasting, least_memory, 0.0)
    assert once.sure < everywhere.sure
    assert order(problem, once, everywhere)[0] == winner


def test_halves_give_way_only_where_the_others_remember(problem):
    """States that live for a few lag times are gone many of them later, as slow noise is: nothing follows from it."""
    once = with_late(candidate("seen once", 1.0, 0.2, quality=2.9, error=0.9), 1.9, 0.3, 0.37)
    everywhere = with_late(candidate("seen everywhere", 1.0, 0.1, shift=1, quality=2.85), 1.2, 0.02, 0.0)
    assert order(problem, once, everywhere)[0] == "seen everywhere"


def test_where_all_rest_on_little_that_is_no_reason(problem):
    """An error that is not significantly larger than the smallest one says nothing."""
    given = [candidate("a", 1.0, 0.1, error=1.9 * LARGEST_ERROR), candidate("b", 1.0, 0.2, error=LARGEST_ERROR)]
    assert LARGER_ERROR > 1.9
    assert order(problem, *given)[0] == "a"


@pytest.mark.parametrize(("quality", "winner"), [(2.69, "b"), (2.67, "a")])
def test_clearly_more_metastable_beats_the_score(problem, quality, winner):
    """Two errors of 0.05 and 0.075: the difference has one of 0.09, and an interval of 0.18 to one side."""
    given = [candidate("a", 1.0, 0.1, quality=2.5, error=0.05), candidate("b", 1.0, 0.4, quality=quality, error=0.075)]
    assert pytest.approx(0.18, abs=1e-3) == INTERVAL * np.hypot(0.05, 0.075)
    assert order(problem, *given)[0] == winner


def test_but_not_if_a_state_is_lost(problem):
    given = [candidate("a", 1.0, 0.1), candidate("b", 1.0, 0.4, quality=3.0, populations=(0.5, 0.5, 0.0))]
    assert order(problem, *given)[0] == "a"


def test_where_states_have_no_memory_the_most_metastable_is_taken(problem):
    given = [candidate("a", 1.0, 0.1, quality=1.1, error=0.3), candidate("b", 1.0, 0.4, quality=1.4, error=0.3)]
    assert order(problem, *given)[0] == "b"


def test_held_labels_come_after_those_that_were_not_but_may_be_clearly_better(problem):
    held = candidate("held", 1.0, 0.05, quality=2.52, held=True)
    assert order(problem, held, candidate("a", 1.0, 0.3)) == ["a", "held"]
    assert order(problem, replace(held, metastability=2.9), candidate("a", 1.0, 0.3)) == ["held", "a"]


def test_single_frames_are_judged_by_score_alone(problem):
    given = [
        candidate("b", 1.0, 0.2, quality=np.nan, error=np.nan),
        candidate("a", 1.0, 0.1, quality=np.nan, error=np.nan),
    ]
    assert order(problem, *given) == ["a", "b"]


def test_labelings_that_differ_in_a_rare_state_alone_are_not_the_same(problem):
    one = candidate("a", 1.0, 0.1)
    labels = np.zeros(len(one.optimum.labels), dtype=int)
    labels[:210] = np.repeat([1, 2], [200, 10])
    moved = labels.copy()
    moved[200:220] = np.repeat([0, 2], 10)
    first, second = (replace(one, optimum=replace(one.optimum, labels=x)) for x in (labels, moved))
    assert same_decomposition(first, first)
    assert not same_decomposition(first, second)


def test_a_more_metastable_one_has_a_place_of_its_own(problem):
    given = [candidate("a", 1.0, 0.1), candidate("b", 1.0, 0.2, 1), candidate("c", 1.0, 0.9, 2, quality=2.9)]
    alive, out = choose(problem, given, 2)
    assert [c.start for c in alive] == ["a", "b", "c"]
    assert out == []
    given[2] = replace(given[2], metastability=2.5)
    assert [c.start for c in choose(problem, given, 2)[0]] == ["a", "b"]


class TestWhatIsSaid:
    """Rivals are told from the winner by what their rules do to frames, however many windows each has seen."""

    def told(self, problem, monkeypatch, ask, *others, excess=0.0):
        """Start of what is told, where the other costs ``excess`` more than the winner, give or take 0.01 a part."""
        states = {"winner": np.arange(60) // 20, "same": np.arange(60) // 20, "other": np.arange(60) % 3}
        noise = 0.01 * np.tile([1.0, -1.0], 5)
        losses = {"winner": np.full(10, 0.01), "other": 0.01 + 0.1 * excess + noise}
        monkeypatch.setattr("m3c_md.search.rivals.compared_states", lambda problem, c: states[c.start])
        monkeypatch.setattr("m3c_md.search.rivals.compared_losses", lambda problem, c: losses[c.start])
        winner = replace(candidate("winner", 1.0, 0.1), fate=Fate(FateKind.WINNER), n_windows=20_000)
        found = ask(problem, [winner, *others])
        return None if found is None else found.start

    def test_a_rival_is_another_decomposition_that_is_as_good_within_the_errors(self, problem, monkeypatch):
        rival = replace(candidate("other", 1.0, 0.15), fate=Fate(FateKind.FINALIST))
        same = replace(candidate("same", 2.0, 0.1), fate=Fate(FateKind.FINALIST))
        assert self.told(problem, monkeypatch, close_rival, same) is None
        # The error of the sum of ten parts of ±0.01 is 0.033.
        assert self.told(problem, monkeypatch, close_rival, same, rival, excess=0.06) == "other"
        assert self.told(problem, monkeypatch, close_rival, same, rival, excess=0.07) is None
        lucky = replace(rival, support=replace(rival.support, error=0.9))
        assert self.told(problem, monkeypatch, close_rival, lucky) is None
        mixing = replace(rival, metastability=0.5 * rival.metastability)
        assert self.told(problem, monkeypatch, close_rival, mixing) is None

    def test_scores_of_smaller_samples_are_not_compared(self, problem, monkeypatch):
        finalist = replace(candidate("same", 1.0, 0.1), fate=Fate(FateKind.FINALIST), n_windows=20_000)
        early = replace(
            candidate("other", 1.0, 0.1), fate=Fate(FateKind.DROPPED, "score after 2000 windows"), n_windows=2000
        )
        assert self.told(problem, monkeypatch, close_rival, finalist, early) is None
        late = replace(early, n_windows=20_000)
        assert self.told(problem, monkeypatch, close_rival, finalist, late) == "other"

    def test_what_was_set_aside_is_more_metastable_and_rests_on_little(self, problem, monkeypatch):
        lucky = replace(
            candidate("other", 1.0, 0.05, quality=2.9, error=0.9),
            fate=Fate(FateKind.DROPPED, "score after 597 windows"),
        )
        assert self.told(problem, monkeypatch, set_aside, lucky) == "other"
        assert self.told(problem, monkeypatch, set_aside, replace(lucky, metastability=2.5)) is None
        assert self.told(problem, monkeypatch, set_aside, replace(lucky, start="same")) is None
        supported = replace(lucky, support=replace(lucky.support, error=0.01))
        assert self.told(problem, monkeypatch, set_aside, supported) is None
