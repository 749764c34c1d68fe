"""What is tried where every candidate of a search has lost a state."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from m3c_md.exceptions import DegenerateSolutionError
from m3c_md.search import lost_states
from m3c_md.search.local_search import SearchSettings
from m3c_md.search.lost_states import (
    FEWEST_WINDOWS,
    LARGEST_LOOSENED,
    RARER_BALANCE,
    _other_settings,
    search_until_populated,
)


def settings_of(lower, n_states=3, **more):
    return SearchSettings(n_states, 1e-3, (lower, 0.99), **more)


def kinds(settings, tried):
    """("rarer" | "held" | "tighter", lower bound) of every try."""
    return [
        ("held" if s.hold_labels else "rarer" if s.balance[0] < settings.balance[0] else "tighter", s.balance[0])
        for s in tried
    ]


def test_rarer_states_come_first_then_held_labels_then_closer_balance():
    settings = settings_of(0.01)
    tried = kinds(settings, _other_settings(settings, 10**6, 2))
    assert [kind for kind, _ in tried] == ["rarer"] * len(RARER_BALANCE) + ["held"] + ["tighter"] * 2
    lower = [share for kind, share in tried if kind == "rarer"]
    assert lower == sorted(lower, reverse=True)
    closer = [share for kind, share in tried if kind == "tighter"]
    assert closer == sorted(closer)
    assert 0.01 < closer[0] < closer[-1] < 1.0 / 3.0


@pytest.mark.parametrize("share", RARER_BALANCE)
def test_a_rarer_state_must_still_have_windows(share):
    settings, enough = settings_of(0.01), math.ceil(FEWEST_WINDOWS / share)
    assert ("rarer", share) in kinds(settings, _other_settings(settings, enough, 2))
    assert ("rarer", share) not in kinds(settings, _other_settings(settings, enough - 1, 2))


def test_a_bound_that_somebody_chose_is_not_loosened():
    for lower, loosened in ((LARGEST_LOOSENED, True), (1.01 * LARGEST_LOOSENED, False), (min(RARER_BALANCE), False)):
        settings = settings_of(lower)
        found = [kind for kind, _ in kinds(settings, _other_settings(settings, 10**6, 2))]
        assert ("rarer" in found) == loosened


def test_single_frames_do_not_tell_what_is_metastable():
    settings = settings_of(0.01)
    tried = _other_settings(settings, 10**6, 1)
    assert {kind for kind, _ in kinds(settings, tried)} == {"tighter"}


def test_closer_balance_still_asks_for_no_more_frames_than_before():
    settings = settings_of(0.01)
    for other in _other_settings(settings, 10**6, 2):
        assert other.guard <= settings.guard
        assert other.balance[1] == settings.balance[1]
        assert (other.n_states, other.regularization) == (settings.n_states, settings.regularization)


def test_closer_than_asked_for_only():
    settings = settings_of(0.25, n_states=2)
    tighter = [share for kind, share in kinds(settings, _other_settings(settings, 100, 2)) if kind == "tighter"]
    assert tighter == []


@pytest.mark.parametrize(("lower", "least", "guard"), [(0.1, None, 0.1), (0.1, 0.04, 0.04)])
def test_floor_lies_below_the_guard(lower, least, guard):
    settings = settings_of(lower, least_population=least)
    assert settings.guard == guard
    assert 0.5 * guard <= settings.floor < guard
    assert settings_of(0.001).floor == 0.5 * 0.001  # a slack in units of one would leave nothing of so rare a state


@dataclass(frozen=True)
class Problem:
    """As much of a problem as it takes to choose other settings: a million pairs."""

    settings: SearchSettings
    n_windows: int = 10**6

    @property
    def data(self):
        return SimpleNamespace(windows=np.zeros((2, 5)))


class TestWhichAnswerIsTaken:
    """The search itself is replaced: who answers what is known."""

    def run(self, monkeypatch, answers, n_states=3):
        """``answers``: kind of settings -> Q of the winner, or nothing where all candidates are degenerate."""
        settings = settings_of(0.01, n_states)
        problem = Problem(settings)
        tried = []

        def search(problem, bandwidths, starts, **options):
            kind = "asked" if problem.settings == settings else kinds(settings, [problem.settings])[0]
            tried.append((kind, len(bandwidths)))
            name = kind if isinstance(kind, str) else kind[0]
            answer = answers.get(kind, answers.get(name))
            if answer is None:
                raise DegenerateSolutionError("nothing left")
            # The winner comes first; what the losers have does not count.
            return [SimpleNamespace(metastability=q) for q in (answer, 0.0, float(n_states))]

        monkeypatch.setattr(lost_states, "search", search)
        widths = tuple(2.0**j for j in range(8))
        found, used, _ = search_until_populated(problem, widths, ("kinetic",))
        return found[0].metastability, kinds(settings, [used])[0][0] if used != settings else "asked", tried

    def test_what_was_asked_for_needs_no_other(self, monkeypatch):
        assert self.run(monkeypatch, {"asked": 2.0}) == (2.0, "asked", [("asked", 8)])

    def test_a_clearly_metastable_answer_ends_the_search(self, monkeypatch):
        quality, kind, tried = self.run(monkeypatch, {"rarer": 2.9})
        assert (quality, kind, len(tried)) == (2.9, "rarer", 2)

    def test_of_doubtful_answers_the_most_metastable_is_taken(self, monkeypatch):
        answers = {("rarer", RARER_BALANCE[0]): 1.4, ("rarer", RARER_BALANCE[1]): 1.2, "held": 1.7, "tighter": 2.4}
        quality, kind, tried = self.run(monkeypatch, answers)
        assert (quality, kind) == (1.7, "held")
        assert "tighter" not in [name[0] for name, _ in tried], (
            "labels are pushed about only where nothing else is left"
        )
        assert self.run(monkeypatch, {**answers, "held": 1.3})[:2] == (1.4, "rarer")

    def test_closer_balance_is_for_where_nothing_else_is_left(self, monkeypatch):
        quality, kind, tried = self.run(monkeypatch, {"tighter": 1.1})
        assert (quality, kind) == (1.1, "tighter")
        # Overlapping states deserve no long search; rare ones do.
        sizes = {name[0]: n for name, n in tried[1:]}
        assert sizes["rarer"] == 8 > sizes["held"] == sizes["tighter"]

    def test_where_nothing_helps_the_first_error_is_raised(self, monkeypatch):
        with pytest.raises(DegenerateSolutionError, match="nothing left"):
            self.run(monkeypatch, {})
