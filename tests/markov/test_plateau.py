"""Plateaus: the timescale to quote, or that it still rises."""

from __future__ import annotations

import numpy as np
import pytest

from m3c_md.markov.plateau import Plateau, find_plateau
from m3c_md.markov.timescales import ImpliedTimescales, implied_timescales
from tests.markov import BARRIER, THREE_STATES, markov_chain, slowest

LAGS = np.array([1, 2, 4, 8, 16, 32, 64])


def plateau(timescales: np.ndarray, paired: np.ndarray | None = None, longest: int = 10_000) -> Plateau:
    return find_plateau("t2", LAGS, timescales, (timescales, timescales), paired, longest)


class TestKnownLaw:
    @pytest.mark.parametrize("offset", [0.0, 1e-3, 5e-3, 0.01])
    def test_no_more_than_a_tenth_is_missing(self, offset: float) -> None:
        """An eigenvalue exp(-offset - lag / 200) has the plateau 200."""
        found = plateau(LAGS / (LAGS / 200.0 + offset))
        assert found.level
        assert 180.0 <= found.value <= 200.0
        assert found.lagtime >= 9 * 200.0 * offset * 0.99

    def test_what_rises_to_the_end_says_so_and_what_to_try(self) -> None:
        found = plateau(LAGS / (LAGS / 2000.0 + 0.1))
        assert not found.level
        assert found.lagtime == 64
        assert found.try_lagtime == 256
        assert "look at lag times up to 256 frame" in found.describe()
        assert plateau(LAGS / (LAGS / 2000.0 + 0.1), longest=300).try_lagtime is None

    def test_below_every_lag_time(self) -> None:
        found = plateau(0.5 * LAGS)
        assert (found.lagtime, found.level) == (0, False)
        assert np.isnan(found.value)
        assert "cannot be measured" in found.describe()

    def test_lags_beyond_the_timescale_have_no_say(self) -> None:
        assert plateau(np.array([10.0, 10.2, 10.1, 10.0, 15.0, 31.0, np.nan])).lagtime == 1
        assert not plateau(np.array([10.0, 10.2, 10.1, 10.0, 60.0, 120.0, np.nan])).level

    def test_a_rise_by_chance_is_told_from_one_that_is_sure(self) -> None:
        rng = np.random.default_rng(0)
        t = np.array([50.0, 55.0, 60.0, 66.0, 72.0, 80.0, 90.0])
        noisy = t[:, None] * np.exp(0.4 * rng.normal(size=(7, 200)))
        sure = t[:, None] * np.exp(0.01 * rng.normal(size=(7, 200)))
        assert plateau(t, noisy).level
        assert not plateau(t, sure).level

    def test_words_have_units(self) -> None:
        its = ImpliedTimescales([1, 2, 4, 8], np.array([[20.0], [20.1], [20.0], [20.2]]), dt=0.5, unit="ns")
        assert "t2 = 10 ns, level from lag time 0.5 ns on" in repr(its)

    def test_frames_are_counted_and_long_times_have_no_exponent(self) -> None:
        found = Plateau("t2", 2104.0, 1762.0, 2504.0, 56, True, None).describe()
        assert found == "t2 = 2100 frames (95 %: 1760 to 2500), level from lag time 56 frames on"
        assert "lag time 1 frame on" in Plateau("t2", 20.0, 10.0, 30.0, 1, True, None).describe()


class TestChains:
    def test_a_markov_chain_is_level_from_the_first_lag_on(self) -> None:
        dtrajs = [markov_chain(THREE_STATES, 4000, 100 + seed) for seed in range(12)]
        for found, exact in zip(implied_timescales(dtrajs, random_state=0).plateaus, (41.5, 21.2), strict=True):
            assert found.level
            assert found.value == pytest.approx(exact, rel=0.15)
            assert found.low < found.value < found.high

    @pytest.mark.parametrize("n_trajectories", [1, 12])  # blocks or trajectories tell a rise from chance
    def test_recrossings_move_the_plateau_to_longer_lags(self, n_trajectories: int) -> None:
        sides = np.array([0, 0, 1, 1])
        n_frames = 60_000 // n_trajectories
        dtrajs = [sides[markov_chain(BARRIER, n_frames, 7 + seed)] for seed in range(n_trajectories)]
        its = implied_timescales(dtrajs, [1, 2, 4, 8, 16, 24, 32, 48, 72], random_state=0)
        (found,) = its.plateaus
        exact = slowest(BARRIER, 1)
        assert found.level or found.lagtime == 72  # 7 % are missing at lag 32: a close call
        assert found.lagtime >= 16
        assert found.value == pytest.approx(exact, rel=0.15)
        assert its.timescales_for_process(0)[0] < 0.7 * exact
        assert its.paired is not None
        assert its.paired.shape[0] == 9
