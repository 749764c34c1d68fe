"""Judging candidates: by their states first, then by their score; and what becomes of each."""

from __future__ import annotations

import numpy as np
import pytest

from m3c_md.optimize.blocks import Rule
from m3c_md.search.candidates import nothing_left
from m3c_md.search.local_search import LocalOptimum, SearchSettings
from m3c_md.search.problem import Kernel
from m3c_md.search.scores import class_averaged
from m3c_md.search.selection import (
    NOTHING_LEARNED,
    Candidate,
    Standing,
    as_degenerate,
)

SETTINGS = SearchSettings(2, 1e-3, (0.1, 0.9))
N_WINDOWS = 100


def candidate(smallest=0.4, labels=None, *, score=0.5, n_windows=N_WINDOWS, **more):
    labels = np.arange(N_WINDOWS) % 2 if labels is None else labels
    optimum = LocalOptimum(Rule(np.zeros((2, 1)), np.zeros(2)), labels, score, score, 1, True, (score,))
    return Candidate("start", Kernel(1.0), optimum, score, np.array([1.0 - smallest, smallest]), 1.5, n_windows, **more)


@pytest.mark.parametrize(
    ("smallest", "standing"),
    [
        (0.0, Standing.DEGENERATE),
        (0.999 * SETTINGS.floor, Standing.DEGENERATE),
        (1.001 * SETTINGS.floor, Standing.RARE),
        (0.999 * SETTINGS.guard, Standing.RARE),
        (SETTINGS.guard, Standing.FINE),
        (0.5, Standing.FINE),
    ],
)
def test_standing_depends_on_the_smallest_state(smallest, standing):
    assert candidate(smallest).standing(SETTINGS, N_WINDOWS) == standing
    # On a sample half as many will do, but none at all will never do.
    assert candidate(0.5 * smallest, n_windows=50).standing(SETTINGS, N_WINDOWS) == standing


def test_a_state_without_frames_is_degenerate_even_where_none_are_asked_for():
    assert candidate(0.0).standing(SearchSettings(2, 1e-3, (0.0, 1.0)), N_WINDOWS) == Standing.DEGENERATE


def test_class_average_by_hand():
    assert class_averaged(np.array([0.2, 0.3]), np.array([0.4, 0.6])) == pytest.approx(0.5)
    assert class_averaged(np.array([0.2, 0.0]), np.array([1.0, 0.0])) == np.inf


def test_a_bound_that_a_candidate_was_given_counts_in_place_of_that_of_the_settings():
    rare = candidate(0.03, least_share=0.02)
    assert rare.standing(SETTINGS, N_WINDOWS) == Standing.RARE
    assert candidate(0.03).standing(SETTINGS, N_WINDOWS) == Standing.DEGENERATE
    assert candidate(0.11, least_share=0.4).standing(SETTINGS, N_WINDOWS) == Standing.FINE, "closer asks for no more"


def test_a_rule_that_is_no_better_than_none_cannot_win_unless_all_others_lost_a_state():
    assert candidate(score=0.9 * NOTHING_LEARNED).may_win(SETTINGS, N_WINDOWS)
    assert not candidate(score=NOTHING_LEARNED).may_win(SETTINGS, N_WINDOWS)
    assert candidate(score=NOTHING_LEARNED, held=True).may_win(SETTINGS, N_WINDOWS)
    assert candidate(score=NOTHING_LEARNED, least_share=0.2).may_win(SETTINGS, N_WINDOWS)
    assert str(as_degenerate(candidate(score=1.0)).fate) == "degenerate: its rule is no better than none"


def test_error_names_the_best_of_the_degenerate_and_its_smallest_state():
    message = nothing_left([candidate(0.02, score=3.0), candidate(0.03, score=2.0)], SETTINGS)
    assert "all 2 candidates" in message
    assert "state 1 of 2, with 3.00%" in message
