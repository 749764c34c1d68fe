"""Bootstrap and posterior samples: what they are drawn from, how much they scatter, what they leave alone."""

from __future__ import annotations

import random

import numpy as np
import pytest

from m3c_md.exceptions import InputError
from m3c_md.markov.resampling import (
    _counts_per_block,
    blocks_of_trajectories,
    choose_confidence,
    counts_for_one,
    flows_at_lagtimes,
    posterior_flows,
    resampled_flows,
)
from m3c_md.markov.reversible import reversible_flows, transition_matrices
from m3c_md.markov.transitions import counts_per_trajectory
from tests.markov import BARRIER, THREE_STATES, markov_chain

TEN = [markov_chain(THREE_STATES, 300, seed) for seed in range(10)]


class TestChoice:
    def test_auto_wants_ten_trajectories_that_reach_the_longest_lag(self) -> None:
        assert choose_confidence("auto", TEN, 299) == "bootstrap"
        assert choose_confidence("auto", TEN, 300) == "bayesian"
        assert choose_confidence("auto", TEN[:9], 1) == "bayesian"
        assert choose_confidence(None, TEN, 1) is None

    def test_bootstrap_of_too_few_is_refused_with_a_way_out(self) -> None:
        assert choose_confidence("bootstrap", TEN[:5], 1) == "bootstrap"
        with pytest.raises(InputError, match=r"at least 5 of more than 20 frames .* there are 4; use .*'bayesian'"):
            choose_confidence("bootstrap", TEN[:4], 20)

    @pytest.mark.parametrize("value", ["bayes", "", 1, True, ["auto"]])
    def test_unknown(self, value: object) -> None:
        with pytest.raises(
            InputError, match=r"confidence=.* is not known; choose one of 'auto', 'bootstrap', 'bayesian'"
        ):
            choose_confidence(value, TEN, 1)


class TestBootstrap:
    def test_samples_are_estimates_from_drawn_trajectories(self) -> None:
        lags = [1, 7]
        results = list(flows_at_lagtimes(TEN, lags, 3, "bootstrap", 4, np.random.default_rng(5)))
        draws = np.random.default_rng(5).multinomial(10, np.full(10, 0.1), size=4)
        for result, lag in zip(results, lags, strict=True):
            assert result.samples is not None
            for sample, draw in zip(result.samples, draws, strict=True):
                drawn = [x for x, times in zip(TEN, draw, strict=True) for _ in range(times)]
                counts = counts_per_trajectory(drawn, lag, 3).sum(axis=0)
                np.testing.assert_allclose(sample, reversible_flows(counts[None])[0], atol=1e-12)

    def test_equal_trajectories_leave_no_doubt(self) -> None:
        (result,) = flows_at_lagtimes([TEN[0]] * 6, [2], 3, "bootstrap", 20, np.random.default_rng(0))
        assert result.samples is not None
        np.testing.assert_allclose(result.samples, np.broadcast_to(result.estimate, (20, 3, 3)), atol=1e-12)


class TestPosterior:
    def test_two_states_scatter_as_beta_distributions(self) -> None:
        counts = np.array([[400.0, 100.0], [90.0, 210.0]])
        matrices = transition_matrices(posterior_flows(counts, 1000, np.random.default_rng(0)))
        total = counts.sum(axis=1)
        p = np.array([0.2, 0.3])
        leaving = np.stack([matrices[:, 0, 1], matrices[:, 1, 0]], axis=1)
        error = np.sqrt(p * (1 - p) / (total + 1))
        np.testing.assert_allclose(leaving.mean(axis=0), p, atol=0.2 * error.min())
        np.testing.assert_allclose(leaving.std(axis=0), error, rtol=0.15)

    def test_overlapping_windows_count_once(self) -> None:
        # Same data at a fivefold frame rate: five times the frames, the same information, the same bands.
        slow = markov_chain([[0.9, 0.1], [0.1, 0.9]], 2000, 0)
        spread = []
        for trajectory, lag in ((slow, 1), (np.repeat(slow, 5), 5)):
            (result,) = flows_at_lagtimes([trajectory], [lag], 2, "bayesian", 300, np.random.default_rng(0))
            assert result.samples is not None
            spread.append(result.samples[:, 0, 1].std())
        assert spread[1] == pytest.approx(spread[0], rel=0.2)

    def test_bands_are_as_wide_as_estimates_scatter_where_borders_are_crossed_back_and_forth(self) -> None:
        estimates, widths = [], []
        for seed in range(60):
            halves = np.array([0, 0, 1, 1])[markov_chain(BARRIER, 3000, seed)]
            (result,) = flows_at_lagtimes([halves], [1], 2, "bayesian", 60, np.random.default_rng(seed))
            assert result.samples is not None
            estimates.append(np.log(result.estimate[0, 1]))
            widths.append(np.log(result.samples[:, 0, 1]).std())
        # Crossings counted as if they were independent would give less than two thirds of it.
        assert np.mean(widths) == pytest.approx(np.std(estimates), rel=0.3)

    def test_states_outside_stay_unknown(self) -> None:
        flows = posterior_flows(
            np.array([[5.0, 2.0, 0.0], [2.0, 5.0, 1.0], [0.0, 0.0, 0.0]]), 6, np.random.default_rng(0)
        )
        assert np.isfinite(flows[:, :2, :2]).all()
        assert np.isnan(flows[:, 2]).all()

    def test_one_state_and_none(self) -> None:
        assert (posterior_flows(np.array([[3.0]]), 2, np.random.default_rng(0)) == 1.0).all()
        assert np.isnan(posterior_flows(np.array([[0.0, 1.0], [0.0, 0.0]]), 2, np.random.default_rng(0))).all()


class TestIndependentCounts:
    def test_those_of_a_chain_are_independent(self) -> None:
        found = [counts_for_one([markov_chain(THREE_STATES, 3000, seed)], 1, 3) for seed in range(60)]
        assert min(found) >= 1.0
        assert np.mean(found) < 1.3

    def test_those_of_recrossings_are_not(self) -> None:
        # On the barrier as many go on as go back, so that n crossings follow each other with probability 2^-n: the mean
        # of n² is three times that of n. Twenty blocks know it as Student's distribution says.
        halves = [np.array([0, 0, 1, 1])[markov_chain(BARRIER, 10_000, seed)] for seed in range(20)]
        assert np.mean([counts_for_one([x], 1, 2) for x in halves]) == pytest.approx(
            3.0 * (2.093 / 1.96) ** 2, rel=0.15
        )

    def test_what_is_known_of_little_data_is_the_lag_time(self) -> None:
        assert counts_for_one([np.array([0, 1, 0, 0, 1, 1, 0])], 2, 2) == 2.0
        assert counts_for_one([np.zeros(500, dtype=np.intp)], 3, 2) == 3.0
        assert counts_for_one([np.zeros(3, dtype=np.intp)] * 50, 1, 2) == 1.0


@pytest.mark.parametrize("confidence", ["bootstrap", "bayesian"])
def test_same_seed_same_samples_and_nothing_global_is_touched(confidence: str) -> None:
    def samples(seed: int) -> np.ndarray:
        return np.array(
            [r.samples for r in flows_at_lagtimes(TEN, [1, 3], 3, confidence, 5, np.random.default_rng(seed))]
        )

    np.random.seed(1)  # noqa: NPY002
    random.seed(1)
    before = np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    first = samples(0)
    assert (np.random.get_state()[1].tolist(), random.getstate()) == before  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    np.testing.assert_array_equal(samples(0), first)
    assert not np.array_equal(samples(1), first)


class TestBlocks:
    def test_blocks_count_every_transition_once(self) -> None:
        chain = markov_chain(THREE_STATES, 997, 0)
        for lag in (1, 7):
            separate = _counts_per_block(chain, lag, 3, 6)
            assert separate.shape == (6, 3, 3)
            np.testing.assert_array_equal(separate.sum(axis=0), counts_per_trajectory([chain], lag, 3)[0])
            assert np.ptp(separate.sum(axis=(1, 2))) <= lag + 1

    def test_ten_trajectories_stay_whole_and_fewer_are_cut(self) -> None:
        assert blocks_of_trajectories([np.zeros(50)] * 10, 5) == [1] * 10
        assert blocks_of_trajectories([np.zeros(500)] * 2, 5) == [10, 10]
        assert blocks_of_trajectories([np.zeros(500)], 40) == [6]
        assert blocks_of_trajectories([np.zeros(500)], 100) is None

    def test_the_same_blocks_are_drawn_at_every_lag(self) -> None:
        chain = markov_chain(THREE_STATES, 2000, 0)
        first, again = resampled_flows([chain], [1, 1], 3, [10], 5, np.random.default_rng(0))
        np.testing.assert_array_equal(first, again)
