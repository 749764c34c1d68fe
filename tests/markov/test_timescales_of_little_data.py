"""Implied timescales of data that do not suffice, and of parameters that make no sense: a result or a clear message."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np
import pytest

from m3c_md.exceptions import DisconnectedWarning, InputError, M3CWarning, TimescaleWarning
from m3c_md.validation import implied_timescales
from tests.markov import THREE_STATES, markov_chain


def values(dtrajs: Any, lagtimes: Any) -> np.ndarray:
    """Timescales (n_lagtimes, n_processes) without confidence."""
    its = implied_timescales(dtrajs, lagtimes, confidence=None)
    return np.array([its.timescales_for_process(p) for p in range(its.max_n_processes)]).T


class TestLittleData:
    def test_two_halves_that_never_meet(self) -> None:
        with pytest.warns(DisconnectedWarning, match=r"do not connect state 0 with .* every lag time; .* Give more"):
            its = implied_timescales([[0] * 50, [1] * 60], [1, 5], random_state=0)
        assert its.confidence == "bayesian"
        assert np.isnan(its.timescales_for_process(0)).all()
        assert its.to_frame().isna().all(axis=None)

    def test_a_gap_in_the_labels(self) -> None:
        with pytest.warns(DisconnectedWarning, match="connect state 1 with"):
            t = values(2 * np.array([0, 0, 0, 0, 1, 1, 1, 0]), 1)
        np.testing.assert_allclose(t, [[-1.0 / np.log(5 / 12), np.nan]])

    def test_connected_at_short_lags_only(self) -> None:
        dtraj = [0] * 10 + [1] * 3 + [0] * 3
        with pytest.warns(DisconnectedWarning, match=r"state 1 with the others in both directions, at lag time 8;"):
            t = values(dtraj, [1, 8])
        assert np.isnan(t).tolist() == [[False], [True]]

    def test_bootstrap_draws_that_miss_a_state(self) -> None:
        rare = [[0] * 30 for _ in range(11)] + [[0] * 10 + [1] * 10 + [0] * 10]
        its = implied_timescales(rare, [1, 2], confidence="bootstrap", random_state=0)
        missing = np.isnan(its.samples_for_process(0))
        assert missing.any()
        assert not missing.all()
        np.testing.assert_array_equal(missing[0], missing[1])  # the same trajectories at every lag time
        assert np.isfinite(its.to_frame().to_numpy()).all()

    @pytest.mark.parametrize("confidence", ["auto", "bayesian", None])
    def test_one_state(self, confidence: str | None) -> None:
        with pytest.warns(TimescaleWarning, match="one state only, hence no timescale; look for at least two"):
            its = implied_timescales([0] * 50, [1, 2], confidence=confidence)
        assert its.max_n_processes == 0
        assert its.to_frame().shape == (2, 0)

    @pytest.mark.parametrize("confidence", ["auto", "bayesian", None])
    def test_two_frames(self, confidence: str | None) -> None:
        with pytest.warns(DisconnectedWarning, match="states 0, 1"):
            its = implied_timescales([0, 1], confidence=confidence)
        assert its.lagtimes.tolist() == [1]
        assert np.isnan(its.timescales_for_process(0)).all()

    def test_one_frame(self) -> None:
        with pytest.raises(InputError, match="lag time 1 cannot be used, for the longest trajectory has 1 frames"):
            implied_timescales([0])

    def test_no_traceback_from_inside_deeptime(self) -> None:
        """Tiny data of all sorts give a result or our own error, and no warning but our own."""
        for seed in range(150):
            rng = np.random.default_rng(seed)
            n_states = rng.integers(1, 5)
            dtrajs = [
                rng.integers(0, n_states, n).cumsum() // 5 % n_states for n in rng.integers(1, 30, rng.integers(1, 12))
            ]
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                with contextlib.suppress(InputError):
                    implied_timescales(
                        dtrajs,
                        None if seed % 2 else rng.integers(1, 30, 4),
                        confidence=("auto", "bayesian", "bootstrap")[seed % 3],
                        n_samples=3,
                        random_state=seed,
                    ).to_frame()
            assert all(issubclass(w.category, M3CWarning) for w in caught), [str(w.message) for w in caught]


class TestBadParameters:
    @pytest.mark.parametrize(
        "options",
        [
            {"n_states": 2},
            {"n_states": 0},
            {"n_timescales": 0},
            {"n_samples": 1},
            {"n_samples": 10.0},
            {"dt": 0.0},
            {"dt": np.nan},
            {"unit": ""},
            {"unit": None},
            {"random_state": "seed"},
            {"progress": 7},
            {"confidence": "yes"},
        ],
    )
    def test_each_is_refused_by_name(self, options: dict[str, Any]) -> None:
        with pytest.raises(InputError, match=next(iter(options))):
            implied_timescales(markov_chain(THREE_STATES, 5000, 0), [1], **options)
