"""A word about a slowest timescale that is too short at a lag time, and none where it is right."""

from __future__ import annotations

import re

import numpy as np
import pytest

from m3c_md import kinetics
from m3c_md.exceptions import TimescaleWarning
from m3c_md.markov.rise import rise_notes
from tests.markov import BARRIER, THREE_STATES, lumped, markov_chain, slowest

HALVES = np.array([0, 0, 1, 1])[markov_chain(BARRIER, 40_000, 0)]


def test_of_a_markov_chain_nothing_is_said() -> None:
    said = [len(rise_notes([markov_chain(THREE_STATES, 3000, seed)], lag, 3)) for seed in range(30) for lag in (1, 4)]
    assert np.mean(said) <= 0.1


def test_recrossings_are_told_with_both_timescales_in_units() -> None:
    exact = [slowest(lumped(BARRIER, [0, 0, 1, 1], lag), lag) for lag in (1, 64)]
    assert exact[1] > 1.3 * exact[0]
    ((message, category),) = rise_notes([HALVES], 1, 2, 0.5, "ns")
    assert category is TimescaleWarning
    first, later = re.findall(r"([\d.]+) ns at", message)
    np.testing.assert_allclose([float(first), float(later)], 0.5 * np.array(exact), rtol=0.2)
    assert "A longer lag time helps" in message


def test_longer_lag_times_end_it() -> None:
    assert rise_notes([HALVES], 32, 2) == []


@pytest.mark.parametrize("data", [np.zeros(50, dtype=np.intp), np.array([0, 1, 1]), np.tile([0, 1], 30)])
def test_little_data_and_data_without_timescales(data: np.ndarray) -> None:
    assert rise_notes([data], 1, int(data.max()) + 1) == []


def test_kinetics_says_it_unless_no_intervals_are_asked_for() -> None:
    with pytest.warns(TimescaleWarning, match="rates too large"):
        result = kinetics(HALVES, random_state=0)
    assert any("rates too large" in text for text in result.warnings)
    assert kinetics(HALVES, confidence=None).warnings == []
    assert kinetics(HALVES, 32, random_state=0).warnings == []
