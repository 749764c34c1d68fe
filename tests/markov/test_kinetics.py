"""Kinetics: exact on known chains, in units, with intervals that hold the truth as often as they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from deeptime.markov.msm import MarkovStateModel, MaximumLikelihoodMSM

from m3c_md import kinetics
from m3c_md.exceptions import DisconnectedWarning, InputError
from m3c_md.markov.kinetics import Kinetics, effective_number, interval, kinetics_of_flows
from m3c_md.markov.resampling import FlowSamples
from tests.markov import THREE_STATES, markov_chain, stationary

MANY = [markov_chain(THREE_STATES, 500, seed) for seed in range(20)]


def exact(lag: int = 1) -> Kinetics:
    flows = stationary(THREE_STATES)[:, None] * np.linalg.matrix_power(THREE_STATES, lag)
    samples = FlowSamples(flows, None)
    return kinetics_of_flows(samples, lag, None, None, dt=1.0, unit="frame", energy=(1.0, "kT"), warnings=[])


class TestNumbers:
    @pytest.mark.parametrize("lag", [1, 5])
    def test_those_of_deeptime_for_the_same_data(self, lag: int) -> None:
        result = kinetics(MANY, lag, confidence=None)
        msm = MaximumLikelihoodMSM(lagtime=lag).fit_fetch(MANY)
        np.testing.assert_allclose(result.states["population"], msm.stationary_distribution, rtol=1e-6)
        for (i, j), time in result.pairs["mfpt"].items():
            assert time == pytest.approx(msm.mfpt(i, j), rel=1e-6)
        np.testing.assert_allclose(result.pairs["rate"], 1.0 / result.pairs["mfpt"])

    def test_those_of_a_known_matrix(self) -> None:
        result = exact()
        msm = MarkovStateModel(THREE_STATES)
        assert result.matrix("mfpt")[0, 2] == pytest.approx(msm.mfpt(0, 2))
        np.testing.assert_allclose(result.states["life time"], -1.0 / np.log(np.diagonal(THREE_STATES)))
        shares = stationary(THREE_STATES)
        np.testing.assert_allclose(result.states["free energy"], np.log(shares[0] / shares), atol=1e-12)

    def test_units(self) -> None:
        plain = kinetics(MANY, 2, random_state=0)
        scaled = kinetics(MANY, 2, dt=20.0, unit="ps", temperature=300.0, random_state=0)
        for name in ("mfpt", "mfpt low", "mfpt high"):
            np.testing.assert_allclose(scaled.pairs[name], 20.0 * plain.pairs[name])
        np.testing.assert_allclose(scaled.pairs["rate high"], plain.pairs["rate high"] / 20.0)
        np.testing.assert_allclose(scaled.states["life time low"], 20.0 * plain.states["life time low"])
        np.testing.assert_allclose(scaled.states["population"], plain.states["population"])
        kt = 8.314462618e-3 * 300.0
        np.testing.assert_allclose(scaled.states["free energy high"], kt * plain.states["free energy high"])
        assert (scaled.energy_unit, plain.energy_unit) == ("kJ/mol", "kT")
        assert "times in ps, free energies in kJ/mol" in repr(scaled)

    def test_values_lie_in_their_intervals(self) -> None:
        for confidence in ("bootstrap", "bayesian"):
            result = kinetics(MANY, confidence=confidence, random_state=0)
            for table in (result.states, result.pairs):
                for name in [name for name in table if f"{name} low" in table]:
                    assert (table[f"{name} low"] <= table[name]).all()
                    assert (table[name] <= table[f"{name} high"]).all()

    def test_same_seed_same_answer(self) -> None:
        first, again, other = (kinetics(MANY[:2], random_state=seed).pairs["mfpt low"] for seed in (1, 1, 2))
        assert first.equals(again)
        assert not first.equals(other)


class TestIntervals:
    @pytest.mark.filterwarnings("ignore:t2 is:m3c_md.exceptions.TimescaleWarning")  # by chance, in one of 40 data sets
    @pytest.mark.parametrize(("n_trajectories", "n_frames"), [(1, 4000), (10, 400)])
    def test_they_hold_the_truth_in_about_95_percent_of_cases(self, n_trajectories: int, n_frames: int) -> None:
        """A small version of benchmarks/kinetics.py, which has 200 data sets."""
        truth, hits = exact(), []
        for number in range(40):
            dtrajs = [markov_chain(THREE_STATES, n_frames, 5000 + 20 * number + i) for i in range(n_trajectories)]
            result = kinetics(dtrajs, n_states=3, n_samples=100, random_state=number)
            for name, mine, true in (
                ("population", result.states, truth.states),
                ("life time", result.states, truth.states),
                ("mfpt", result.pairs, truth.pairs),
            ):
                hits += ((mine[f"{name} low"] <= true[name]) & (true[name] <= mine[f"{name} high"])).tolist()
        assert 0.89 <= np.mean(hits) <= 0.99

    def test_few_parts_make_them_wider(self) -> None:
        samples = np.random.default_rng(0).normal(size=(2000, 1))
        few, many = (interval(np.zeros(1), samples, "plain", n)[1][0] for n in (5.0, 500.0))
        assert many == pytest.approx(1.96, abs=0.1)
        assert few == pytest.approx(2.776 * (5 / 4) ** 0.5, abs=0.15)

    def test_probabilities_stay_between_0_and_1(self) -> None:
        low, high = interval(np.array([0.99]), np.random.default_rng(0).beta(2, 1, size=(500, 1)), "logit", 10.0)
        assert 0.0 < low[0] < high[0] < 1.0

    def test_a_state_that_resampled_data_miss_has_no_ends(self) -> None:
        rare = [np.zeros(200, dtype=int) for _ in range(11)] + [np.repeat([0, 1, 0], 60)]
        result = kinetics(rare, confidence="bootstrap", random_state=0)
        assert result.states["population"].notna().all()
        assert np.isnan(result.states["population low"][1])
        assert result.pairs["mfpt high"].isna().all()

    def test_a_long_trajectory_counts_for_most(self) -> None:
        assert effective_number([np.zeros(1000), *[np.zeros(1)] * 9]) < 1.03
        assert effective_number([np.zeros(7)] * 9) == pytest.approx(9.0)


class TestLittleData:
    def test_a_state_outside_is_nan_and_named(self) -> None:
        with pytest.warns(DisconnectedWarning, match="do not connect state 3"):
            result = kinetics([*MANY, np.array([0, 0, 3])], n_states=4, random_state=0)
        assert np.isnan(result.states["population"][3])
        assert result.pairs.loc[[(0, 3), (3, 0)], "mfpt"].isna().all()
        assert result.states["population"][:3].sum() == pytest.approx(1.0)
        assert "do not connect state 3" in result.warnings[0]

    def test_one_state(self) -> None:
        result = kinetics(np.zeros(50, dtype=int))
        assert result.states["population"].tolist() == [1.0]
        assert len(result.pairs) == 0

    @pytest.mark.parametrize(
        "options",
        [
            *({"lagtime": 0}, {"lagtime": 1.5}, {"dt": 0}, {"unit": ""}, {"temperature": -3.0}, {"n_samples": 1}),
            *({"confidence": "guess"}, {"random_state": "x"}, {"n_states": 2}),
        ],
    )
    def test_bad_parameters_are_refused_by_name(self, options: dict[str, Any]) -> None:
        with pytest.raises(InputError, match=next(iter(options))):
            kinetics(MANY, **options)
