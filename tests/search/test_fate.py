"""Fates: kinds with details, in words that a file gives back."""

from __future__ import annotations

import pytest

from m3c_md.search.fate import Fate, FateKind

WORDS = {
    "": Fate(),
    "winner": Fate(FateKind.WINNER),
    "finalist": Fate(FateKind.FINALIST),
    "degenerate: state 1 has 0.00% of the frames": Fate(FateKind.DEGENERATE, "state 1 has 0.00% of the frames"),
    "same as kmeans 2": Fate(FateKind.SAME, "kmeans 2"),
    "dropped: score after 300 windows": Fate(FateKind.DROPPED, "score after 300 windows"),
    "failed: at full accuracy": Fate(FateKind.FAILED, "at full accuracy"),
}


@pytest.mark.parametrize("text", WORDS)
def test_words_and_fates_are_the_same(text):
    assert str(WORDS[text]) == text
    assert Fate.of_text(text) == WORDS[text]


def test_every_kind_has_words():
    assert {fate.kind for fate in WORDS.values()} == set(FateKind)


@pytest.mark.parametrize("text", ["lost", "winner: of all", "dropped", "winners", " winner"])
def test_other_words_are_refused(text):
    with pytest.raises(ValueError, match="no candidate ends as"):
        Fate.of_text(text)
