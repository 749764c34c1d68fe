"""Chapman-Kolmogorov test: known answers, deeptime's answers, the verdict, and little data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from deeptime.markov import TransitionCountEstimator
from deeptime.markov._observables import MembershipsObservable
from deeptime.markov.msm import MaximumLikelihoodMSM
from deeptime.plots import plot_ck_test
from deeptime.util.validation import ChapmanKolmogorovTest, ck_test

from m3c_md.exceptions import DisconnectedWarning, InputError, LagtimeWarning, M3CWarning, ShortTrajectoryWarning
from m3c_md.validation import ChapmanKolmogorov, chapman_kolmogorov
from tests.markov import BARRIER, THREE_STATES, lumped, markov_chain

CHAIN = markov_chain(THREE_STATES, 5000, 0)
MANY = [markov_chain(THREE_STATES, 500, seed) for seed in range(12)]


class TestKnownAnswers:
    def test_by_hand(self) -> None:
        # 0 0 0 0 1 1 1 0 at lag 1: 0 stays in 3 of 4, 1 in 2 of 3; at lag 2: 00 00 01 01 11 10
        test = chapman_kolmogorov([0, 0, 0, 0, 1, 1, 1, 0], 1, 2, confidence=None)
        assert test.lagtimes.tolist() == [0, 1, 2]
        one = np.array([[3 / 4, 1 / 4], [1 / 3, 2 / 3]])
        two = np.array([[1 / 2, 1 / 2], [1 / 2, 1 / 2]])
        np.testing.assert_allclose(test.predictions, [np.eye(2), one, one @ one], atol=1e-14)
        np.testing.assert_allclose(test.estimates, [np.eye(2), one, two], atol=1e-14)
        assert test.max_deviation == pytest.approx(np.abs(one @ one - two).max(), abs=1e-14)

    def test_a_long_chain_agrees_with_its_own_powers(self) -> None:
        test = chapman_kolmogorov(markov_chain(THREE_STATES, 200_000, 0), 5, 4, confidence=None)
        truth = [np.linalg.matrix_power(THREE_STATES, lag) for lag in test.lagtimes]
        # The rarest state (2) is visited some 1100 times, so that 4 standard errors are 4 sqrt(0.25 / 1100) = 0.06.
        np.testing.assert_allclose(test.predictions, truth, atol=0.06)
        np.testing.assert_allclose(test.estimates, truth, atol=0.06)
        # Both come from the same data: their difference is much smaller than their errors.
        assert test.max_deviation < 0.03

    def test_a_lumped_chain_deviates_as_it_must(self) -> None:
        states = [0, 0, 1, 1]
        test = chapman_kolmogorov(np.array(states)[markov_chain(BARRIER, 200_000, 0)], 2, 4, confidence=None)
        expected = [np.linalg.matrix_power(lumped(BARRIER, states, 2), k) for k in range(5)]
        np.testing.assert_allclose(test.predictions, expected, atol=0.01)
        np.testing.assert_allclose(test.estimates[1:], [lumped(BARRIER, states, 2 * k) for k in range(1, 5)], atol=0.01)

    def test_states_keep_their_order(self) -> None:
        names = np.array([2, 0, 1])
        ours, renamed = (chapman_kolmogorov(x, 3, 3, confidence=None) for x in (CHAIN, names[CHAIN]))
        np.testing.assert_allclose(renamed.predictions[:, names][:, :, names], ours.predictions, atol=1e-12)
        np.testing.assert_allclose(renamed.estimates[:, names][:, :, names], ours.estimates, atol=1e-12)


class TestAgainstDeeptime:
    @pytest.mark.parametrize("dtrajs", [CHAIN, MANY], ids=["one", "many"])
    def test_same_matrices(self, dtrajs: Any) -> None:
        models = [
            MaximumLikelihoodMSM(maxerr=1e-14).fit_fetch(TransitionCountEstimator(lag, "sliding").fit_fetch(dtrajs))
            for lag in (4, 8, 12)
        ]
        theirs = ck_test(models, MembershipsObservable(models[0], np.eye(3)))
        ours = chapman_kolmogorov(dtrajs, 4, 3, confidence=None)
        assert isinstance(ours, ChapmanKolmogorovTest)
        np.testing.assert_array_equal(ours.lagtimes, theirs.lagtimes)
        np.testing.assert_allclose(ours.predictions, theirs.predictions.real, atol=1e-10)
        np.testing.assert_allclose(ours.estimates, theirs.estimates.real, atol=1e-10)

    @pytest.mark.parametrize("confidence", ["bootstrap", "bayesian", None])
    def test_its_plot_draws_ours(self, confidence: str | None) -> None:
        import matplotlib.pyplot as plt

        test = chapman_kolmogorov(MANY, 3, 3, confidence=confidence, n_samples=20, random_state=0)
        grid = plot_ck_test(test)
        lines = [line.get_ydata() for line in grid.get_axis(0, 1).get_lines()]
        assert any(np.array_equal(test.estimates[:, 0, 1], y) for y in lines)
        assert len(grid.get_axis(0, 1).collections) == (0 if confidence is None else 2)
        plt.close(grid.figure)

    def test_its_plot_draws_missing_states(self) -> None:
        import matplotlib.pyplot as plt

        with pytest.warns(DisconnectedWarning, match="state 3"):
            test = chapman_kolmogorov(np.append(CHAIN, 3), 3, 3, n_samples=20, random_state=0)
        plt.close(plot_ck_test(test).figure)


class TestConfidence:
    @pytest.mark.parametrize("confidence", ["bootstrap", "bayesian"])
    def test_samples_scatter_about_the_values(self, confidence: str) -> None:
        test = chapman_kolmogorov(MANY, 3, 3, confidence=confidence, n_samples=200, random_state=0)
        for samples, value in ((test.predictions_samples, test.predictions), (test.estimates_samples, test.estimates)):
            samples = np.array(samples)
            assert samples.shape == (4, 200, 3, 3)
            np.testing.assert_allclose(samples.sum(axis=3), 1.0)
            assert (samples[0] == np.eye(3)).all()
            assert (np.abs(samples.mean(axis=1) - value) <= samples.std(axis=1) + 1e-12).all()
            assert (samples[1:].std(axis=1)[:, [0, 1, 2], [0, 1, 2]] > 0.001).all()

    @pytest.mark.parametrize("confidence", ["bootstrap", "bayesian"])
    def test_same_seed_same_answer(self, confidence: str) -> None:
        first, again, other = (
            np.array(chapman_kolmogorov(MANY, 3, confidence=confidence, random_state=seed).estimates_samples)
            for seed in (3, 3, 4)
        )
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_markov_chains_pass_about_as_often_as_promised(self) -> None:
        passed = [
            chapman_kolmogorov(
                [markov_chain(THREE_STATES, 300, 50 * n + i) for i in range(20)], 5, random_state=n
            ).passes
            for n in range(40)
        ]
        assert sum(map(bool, passed)) >= 32  # 95 % is 38

    def test_lumped_chains_fail_if_there_are_enough_data(self) -> None:
        states = np.array([0, 0, 1, 1])
        for seed in range(5):
            dtrajs = [states[markov_chain(BARRIER, 2000, 50 * seed + i)] for i in range(15)]
            test = chapman_kolmogorov(dtrajs, 5, random_state=seed)
            assert test.passes is False
            assert test.allowed_deviation is not None
            assert test.max_deviation > test.allowed_deviation

    def test_no_verdict_without_samples(self) -> None:
        test = chapman_kolmogorov(MANY, 3, confidence=None)
        assert test.passes is None
        assert test.allowed_deviation is None
        assert test.judged_by is None

    def test_posterior_bands_leave_the_verdict_to_trajectories(self) -> None:
        bands, bootstrap = (
            chapman_kolmogorov(MANY, 3, confidence=confidence, random_state=0)
            for confidence in ("bayesian", "bootstrap")
        )
        assert bands.judged_by == bootstrap.judged_by == "trajectories"
        assert bands.passes is bootstrap.passes is True
        assert bands.allowed_deviation == pytest.approx(bootstrap.allowed_deviation, rel=0.5)

    def test_one_trajectory_is_judged_by_its_blocks(self) -> None:
        passed = [chapman_kolmogorov(markov_chain(THREE_STATES, 3000, 900 + n), 5, random_state=n) for n in range(20)]
        assert {test.judged_by for test in passed} == {"blocks"}
        assert sum(bool(test.passes) for test in passed) >= 16  # 95 % is 19
        states = np.array([0, 0, 1, 1])
        for seed in range(3):
            test = chapman_kolmogorov(states[markov_chain(BARRIER, 20_000, seed)], 5, random_state=seed)
            assert test.passes is False

    def test_too_few_frames_for_blocks_are_not_judged(self) -> None:
        test = chapman_kolmogorov([0, 0, 1, 1, 0, 0, 1, 0], 1, 2, random_state=0)
        assert test.passes is None

    def test_equal_trajectories_that_deviate_leave_no_doubt(self) -> None:
        assert chapman_kolmogorov([[0, 0, 1, 1] * 10] * 12, 1, 2, random_state=0).passes is False

    def test_one_step_agrees_by_construction(self) -> None:
        test = chapman_kolmogorov(MANY, 3, 1, random_state=0)
        assert test.max_deviation == 0.0
        assert test.passes is True

    def test_units_are_carried(self) -> None:
        test = chapman_kolmogorov(CHAIN, 2, 2, confidence=None, dt=20.0, unit="ps")
        assert (test.dt, test.unit, test.lagtimes.tolist()) == (20.0, "ps", [0, 2, 4])

    def test_input_stays_as_it_was(self) -> None:
        dtrajs = [x.copy() for x in MANY]
        chapman_kolmogorov(dtrajs, 2, 2, n_samples=5)
        assert all(np.array_equal(x, y) for x, y in zip(dtrajs, MANY, strict=True))


class TestLittleData:
    def test_multiples_too_long_are_left_out(self) -> None:
        with pytest.warns(
            LagtimeWarning, match=r"left out lag times 9, 12: the longest trajectory has 9 frames"
        ) as caught:
            test = chapman_kolmogorov([0, 0, 1, 1, 0, 0, 1, 1, 0], 3, 4, confidence=None)
        assert test.lagtimes.tolist() == [0, 3, 6]
        assert test.warnings == [str(w.message) for w in caught]
        assert caught[0].filename == __file__

    def test_one_must_remain(self) -> None:
        with pytest.raises(InputError, match="longest trajectory has 3 frames; choose lag times of at most 2"):
            chapman_kolmogorov([0, 1, 0], 3)

    def test_a_state_that_is_not_connected_is_nan_and_named(self) -> None:
        with pytest.warns(DisconnectedWarning, match="do not connect state 3 with the others"):
            test = chapman_kolmogorov(np.append(CHAIN, 3), 4, 3, n_samples=10, random_state=0)
        np.testing.assert_array_equal(np.isnan(test.predictions).all(axis=(0, 2)), [False, False, False, True])
        without = chapman_kolmogorov(CHAIN, 4, 3, confidence=None)
        np.testing.assert_allclose(test.predictions[:, :3, :3], without.predictions, atol=1e-12)
        assert test.max_deviation == pytest.approx(without.max_deviation)

    def test_multiples_that_connect_other_states_are_left_out(self) -> None:
        with pytest.warns(
            LagtimeWarning, match=r"left out lag times 2, 4: transitions connect other states there than at"
        ):
            test = chapman_kolmogorov([0, 1] * 20, 1, 4, confidence=None)
        assert test.lagtimes.tolist() == [0, 1, 3]
        np.testing.assert_allclose(test.predictions, test.estimates)

    def test_bootstrap_draws_that_miss_a_state(self) -> None:
        rare = [[0] * 30 for _ in range(11)] + [[0] * 10 + [1] * 10 + [0] * 10]
        test = chapman_kolmogorov(rare, 1, 3, confidence="bootstrap", random_state=0)
        missing = np.isnan(np.array(test.estimates_samples)).any(axis=(0, 2, 3))
        assert 0 < missing.sum() < 100
        assert test.passes is not None

    def test_one_state(self) -> None:
        test = chapman_kolmogorov([0] * 50, 2, 2)
        assert (test.predictions == 1.0).all()
        assert test.max_deviation == 0.0

    def test_nothing_connected(self) -> None:
        with pytest.warns(DisconnectedWarning, match="states 0, 1"):
            test = chapman_kolmogorov([0, 1], 1, 1)
        assert np.isnan(test.max_deviation)
        assert test.passes is None

    def test_short_trajectories_are_told(self) -> None:
        with pytest.warns(ShortTrajectoryWarning, match=r"1 of 13 .* too short for lag time 12 and"):
            chapman_kolmogorov([*MANY, MANY[0][:12]], 4, 3, confidence=None)

    def test_no_traceback_from_inside_deeptime(self) -> None:
        """Tiny data of all sorts give a result or our own error, and no warning but our own."""
        for seed in range(100):
            rng = np.random.default_rng(seed)
            n_states = rng.integers(1, 5)
            dtrajs = [
                rng.integers(0, n_states, n).cumsum() // 5 % n_states for n in rng.integers(1, 30, rng.integers(1, 12))
            ]
            confidence = ("auto", "bayesian", "bootstrap")[seed % 3]
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    test: ChapmanKolmogorov | None = chapman_kolmogorov(
                        dtrajs, int(rng.integers(1, 5)), 3, confidence=confidence, n_samples=3, random_state=seed
                    )
                except InputError:
                    test = None
                assert test is None or test.passes in (True, False, None)
            assert all(issubclass(w.category, M3CWarning) for w in caught), [str(w.message) for w in caught]

    @pytest.mark.parametrize(
        "options",
        [{"lagtime": 0}, {"lagtime": 1.5}, {"n_steps": 0}, {"n_samples": 1}, {"dt": -1}, {"unit": 3}, {"n_states": 2}],
    )
    def test_bad_parameters_are_refused_by_name(self, options: dict[str, Any]) -> None:
        with pytest.raises(InputError, match=next(iter(options))):
            chapman_kolmogorov(CHAIN, **options)
