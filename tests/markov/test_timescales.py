"""Implied timescales: known answers, deeptime's answers, honest bands, and a clear word where data do not suffice."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from deeptime.markov.msm import MaximumLikelihoodMSM
from deeptime.plots import plot_implied_timescales
from deeptime.util.validation import ImpliedTimescales as DeeptimeImpliedTimescales
from deeptime.util.validation import implied_timescales as deeptime_implied_timescales

from m3c_md.exceptions import (
    DisconnectedWarning,
    InputError,
    LagtimeWarning,
    ShortTrajectoryWarning,
    TimescaleWarning,
)
from m3c_md.validation import ImpliedTimescales, implied_timescales
from tests.markov import BARRIER, THREE_STATES, lumped, markov_chain, pairs_with_counts, slowest

CHAIN = markov_chain(THREE_STATES, 5000, 0)
MANY = [markov_chain(THREE_STATES, 500, seed) for seed in range(12)]


def values(dtrajs: Any, lagtimes: Any, **options: Any) -> np.ndarray:
    """Timescales (n_lagtimes, n_processes) without confidence."""
    its = implied_timescales(dtrajs, lagtimes, confidence=None, **options)
    return np.array([its.timescales_for_process(p) for p in range(its.max_n_processes)]).T


def categories(dtrajs: Any, lagtimes: Any = None) -> list[type[Warning]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        implied_timescales(dtrajs, lagtimes, confidence=None)
    return [w.category for w in caught]


class TestKnownAnswers:
    def test_two_states_by_hand(self) -> None:
        # 0 stays in 3 of 4, 1 in 2 of 3: eigenvalue 3/4 + 2/3 - 1 = 5/12
        assert values([0, 0, 0, 0, 1, 1, 1, 0], 1)[0, 0] == pytest.approx(-1.0 / np.log(5 / 12), rel=1e-13)

    def test_three_states_on_a_path(self) -> None:
        # Eigenvectors (1, 0, -1) and (1, -2, 1), eigenvalues 0.8 and 0.4
        dtrajs = pairs_with_counts([[8, 2, 0], [2, 6, 2], [0, 2, 8]])
        np.testing.assert_allclose(values(dtrajs, 1), [[-1.0 / np.log(0.8), -1.0 / np.log(0.4)]], rtol=1e-12)

    def test_three_equal_states(self) -> None:
        dtrajs = pairs_with_counts([[8, 1, 1], [1, 8, 1], [1, 1, 8]])
        np.testing.assert_allclose(values(dtrajs, 1), [[-1.0 / np.log(0.7)] * 2], rtol=1e-12)

    def test_the_timescale_is_in_frames_at_every_lag(self) -> None:
        np.testing.assert_allclose(values(markov_chain(THREE_STATES, 200_000, 1), [1, 4, 16])[:, 0], 41.5, rtol=0.12)
        assert slowest(THREE_STATES, 1) == pytest.approx(41.5, abs=0.1)

    def test_a_periodic_sequence_has_no_timescale(self) -> None:
        with pytest.warns(TimescaleWarning, match="t2 cannot be measured, because it is shorter than every lag time"):
            assert np.isnan(values([0, 1] * 20, 1)).all()  # the eigenvalue is -1; deeptime says infinity


class TestAgainstDeeptime:
    @pytest.mark.parametrize("dtrajs", [CHAIN, MANY], ids=["one", "many"])
    def test_same_timescales(self, dtrajs: Any) -> None:
        lags = [1, 2, 5, 10]
        models = [MaximumLikelihoodMSM(lagtime=lag, maxerr=1e-14).fit_fetch(dtrajs) for lag in lags]
        theirs = deeptime_implied_timescales(models)
        ours = implied_timescales(dtrajs, lags, confidence=None)
        assert isinstance(ours, DeeptimeImpliedTimescales)
        np.testing.assert_array_equal(ours.lagtimes, theirs.lagtimes)
        for process in range(2):
            np.testing.assert_allclose(
                ours.timescales_for_process(process), theirs.timescales_for_process(process), rtol=1e-10
            )

    def test_largest_connected_set_as_in_deeptime(self) -> None:
        dtraj = np.concatenate([[3] * 5, CHAIN])  # state 3 is left and never seen again
        msm = MaximumLikelihoodMSM(lagtime=1, maxerr=1e-14).fit_fetch(dtraj)
        with pytest.warns(DisconnectedWarning, match="do not connect state 3 with the others"):
            ours = values(dtraj, 1)[0]
        np.testing.assert_allclose(ours[:2], msm.timescales(), rtol=1e-10)
        assert np.isnan(ours[2])

    @pytest.mark.parametrize("confidence", ["bootstrap", "bayesian", None])
    def test_its_plot_draws_ours(self, confidence: str | None) -> None:
        from matplotlib.figure import Figure

        its = implied_timescales(MANY, [1, 2, 5], confidence=confidence, n_samples=20, random_state=0)
        ax = Figure().subplots()
        plot_implied_timescales(its, ax=ax)
        lines = [line.get_ydata() for line in ax.get_lines()]
        assert any(np.array_equal(its.timescales_for_process(1), y) for y in lines)
        assert len(ax.collections) == (1 if confidence is None else 3)  # the cutoff, and a band per process


class TestWhatMustNotMatter:
    def test_names_of_states(self) -> None:
        np.testing.assert_allclose(values(np.array([2, 0, 1])[CHAIN], [1, 8]), values(CHAIN, [1, 8]), rtol=1e-10)

    def test_order_of_trajectories(self) -> None:
        np.testing.assert_allclose(values(MANY[::-1], [1, 8]), values(MANY, [1, 8]), rtol=1e-10)

    @pytest.mark.parametrize("lag", [1, 7])
    def test_direction_of_time(self, lag: int) -> None:
        # Closed to a ring: otherwise the frames at the ends count as starts in one direction only.
        ring = np.concatenate([CHAIN[:2000], CHAIN[:lag]])
        np.testing.assert_allclose(values(ring[::-1], lag), values(ring, lag), rtol=1e-9)

    def test_order_and_repetition_of_lag_times(self) -> None:
        its = implied_timescales(CHAIN, [5, 1, 5, 2], confidence=None)
        assert its.lagtimes.tolist() == [1, 2, 5]
        np.testing.assert_array_equal(values(CHAIN, [5, 1, 5, 2]), values(CHAIN, [1, 2, 5]))

    @pytest.mark.parametrize("lagtimes", [5, np.int64(5), [5], np.array([5]), range(5, 6), (5,), {5}])
    def test_kind_of_lag_times(self, lagtimes: Any) -> None:
        assert implied_timescales(CHAIN, lagtimes, confidence=None).lagtimes.tolist() == [5]

    def test_input_stays_as_it_was(self) -> None:
        dtrajs = [x.copy() for x in MANY]
        implied_timescales(dtrajs, [1, 2], n_samples=5)
        assert all(np.array_equal(x, y) for x, y in zip(dtrajs, MANY, strict=True))


class TestConfidence:
    def test_method_is_told(self) -> None:
        assert implied_timescales(MANY, [1, 2], n_samples=5).confidence == "bootstrap"
        assert implied_timescales(CHAIN, [1, 2], n_samples=5).confidence == "bayesian"
        none = implied_timescales(CHAIN, [1, 2], confidence=None)
        assert none.confidence is None
        assert not none.has_samples

    @pytest.mark.parametrize("confidence", ["bootstrap", "bayesian"])
    def test_same_seed_same_answer(self, confidence: str) -> None:
        first, again, other = (
            implied_timescales(MANY, [1, 4], confidence=confidence, n_samples=8, random_state=seed)
            for seed in (3, 3, 4)
        )
        assert first.samples_for_process(0).shape == (2, 8)
        np.testing.assert_array_equal(first.samples_for_process(1), again.samples_for_process(1))
        assert not np.array_equal(first.samples_for_process(1), other.samples_for_process(1))

    @pytest.mark.parametrize("confidence", ["bootstrap", "bayesian"])
    def test_bands_hold_the_truth_about_as_often_as_they_promise(self, confidence: str) -> None:
        lags, n_experiments = [1, 5, 15], 40
        truth = slowest(THREE_STATES, 1)
        hits = np.zeros(len(lags))
        width = []
        for experiment in range(n_experiments):
            dtrajs = [markov_chain(THREE_STATES, 300, 1000 + 20 * experiment + i) for i in range(20)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TimescaleWarning)  # a few draws have t3 below 15
                table = implied_timescales(dtrajs, lags, confidence=confidence, random_state=experiment).to_frame()
            hits += (table["t2 low"].to_numpy() <= truth) & (truth <= table["t2 high"].to_numpy())
            width.append(table["t2 high"] - table["t2 low"])
        # 95 % is 38 of 40; fewer than 32 would happen once in 5000 times.
        assert (hits >= 32).all(), hits
        assert np.median(width) < truth, "bands that say nothing are always right"

    def test_bootstrap_is_right_for_states_that_are_not_markovian(self) -> None:
        states, lag = [0, 0, 1, 1], 5
        truth = slowest(lumped(BARRIER, states, lag), lag)
        assert truth < 0.8 * slowest(BARRIER, 1), "the lumped chain should be far from Markovian at this lag"
        hits = 0
        for experiment in range(30):
            dtrajs = [np.array(states)[markov_chain(BARRIER, 300, 20 * experiment + i)] for i in range(20)]
            table = implied_timescales(dtrajs, lag, confidence="bootstrap", random_state=0).to_frame()
            hits += bool((table["t2 low"] <= truth).all() and (truth <= table["t2 high"]).all())
        assert hits >= 24

    def test_sampled_eigenvalues_that_are_not_positive_count_as_zero(self) -> None:
        with pytest.warns(TimescaleWarning):
            its = implied_timescales(np.random.default_rng(0).integers(0, 2, 300), 1, random_state=0)
        samples = its.samples_for_process(0)
        assert not np.isnan(samples).any()
        assert (samples == 0.0).any()
        assert (samples > 0.0).any()


class TestUnits:
    def test_table_in_units(self) -> None:
        its = implied_timescales(CHAIN, [1, 2], dt=0.5, unit="ns", n_samples=50, random_state=0)
        table = its.to_frame()
        assert (its.dt, its.unit) == (0.5, "ns")
        assert table.index.name == "lag time (ns)"
        assert table.index.tolist() == [0.5, 1.0]
        assert list(table) == ["t2", "t2 low", "t2 high", "t3", "t3 low", "t3 high"]
        np.testing.assert_allclose(table["t2"], 0.5 * its.timescales_for_process(0))
        np.testing.assert_allclose(
            table["t3 low"], 0.5 * np.quantile(its.samples_for_process(1), 0.025, axis=1, method="nearest")
        )
        assert (table["t2 low"] <= table["t2"]).all()

    def test_units_do_not_change_the_frames(self) -> None:
        np.testing.assert_array_equal(values(CHAIN, [1, 2], dt=20.0, unit="ps"), values(CHAIN, [1, 2]))

    def test_bounds_may_be_infinite_or_unknown(self) -> None:
        its = ImpliedTimescales([1], np.array([[5.0]]), np.array([[[4.0], [np.inf], [np.inf], [np.nan]]]))
        table = its.to_frame()
        assert (table["t2 low"].item(), table["t2 high"].item()) == (4.0, np.inf)
        unknown = ImpliedTimescales([1], np.array([[np.nan]]), np.full((1, 4, 1), np.nan)).to_frame()
        assert unknown.isna().all(axis=None)

    def test_fewer_timescales(self) -> None:
        its = implied_timescales(CHAIN, [1, 2], n_timescales=1, n_samples=5)
        assert its.max_n_processes == 1
        assert its.samples_for_process(0).shape == (2, 5)
        assert values(CHAIN, 1, n_timescales=9).shape == (1, 2)

    def test_progress_is_told_once_per_lag_time(self) -> None:
        from tqdm import tqdm

        bars: list[Any] = []

        class Bar(tqdm):
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs, disable=None)
                bars.append(self)
                self.calls = 0

            def update(self, n: float | None = 1) -> bool | None:
                self.calls += 1
                return super().update(n)

        implied_timescales(CHAIN, [1, 2, 5], confidence=None, progress=Bar)
        assert [bar.calls for bar in bars] == [3]


class TestLagTimes:
    def test_those_too_long_are_left_out_in_one_warning(self) -> None:
        with pytest.warns(
            LagtimeWarning, match=r"left out lag times 500, 900: the longest trajectory has 500 frames"
        ) as w:
            its = implied_timescales(MANY, [900, 1, 5, 500], confidence=None)
        assert its.lagtimes.tolist() == [1, 5]
        assert len(w) == 1
        assert its.warnings == [str(w[0].message)]

    def test_one_must_remain(self) -> None:
        with pytest.raises(InputError, match=r"lag times 4, 9 cannot be used, for the longest trajectory has 4 frames"):
            implied_timescales([0, 1, 0, 1], [4, 9])

    @pytest.mark.parametrize("lagtimes", [0, -5, 2.0, [1, 2.5], [0, 1], [None], [True], np.array([1.0, 2.0])])
    def test_what_is_no_lag_time(self, lagtimes: Any) -> None:
        with pytest.raises(InputError, match=r"lag time=.* must be a whole number of frames of at least 1"):
            implied_timescales(CHAIN, lagtimes)

    @pytest.mark.parametrize("lagtimes", ["12", b"12", {1: 2}])
    def test_text_is_no_list_of_lag_times(self, lagtimes: Any) -> None:
        with pytest.raises(InputError, match=r"lagtimes=.* must be a number or several"):
            implied_timescales(CHAIN, lagtimes)

    def test_no_lag_time(self) -> None:
        with pytest.raises(InputError, match="lagtimes is empty; give at least one"):
            implied_timescales(CHAIN, [])

    def test_short_trajectories_are_told_once(self) -> None:
        with pytest.warns(
            ShortTrajectoryWarning, match=r"1 of 2 .*shortest has 6 frames.* lag times from 8 up to 16"
        ) as w:
            implied_timescales([CHAIN, CHAIN[:6]], [2, 8, 16], confidence=None)
        assert [x.category for x in w].count(ShortTrajectoryWarning) == 1

    @pytest.mark.parametrize("dtrajs", [CHAIN, MANY, [CHAIN[:3000], CHAIN[3000:]]])
    def test_default_is_about_ten_up_to_the_timescales(self, dtrajs: Any) -> None:
        its = implied_timescales(dtrajs, confidence=None)
        assert its.lagtimes[0] == 1
        assert 6 <= its.n_lagtimes <= 10
        assert 10 <= its.lagtimes[-1] <= 45

    def test_default_is_at_most_a_tenth_of_the_longest_trajectory(self) -> None:
        slow = markov_chain([[0.999, 0.001], [0.001, 0.999]], 4000, 0)
        assert 100 <= implied_timescales(slow, confidence=None).lagtimes[-1] <= 400
        assert implied_timescales([0, 0, 0, 0, 1, 1, 1, 0], confidence=None).lagtimes.tolist() == [1]


class TestWarnings:
    @pytest.mark.parametrize("n_states", [2, 3])
    def test_white_noise_always_warns(self, n_states: int) -> None:
        for seed in range(25):
            noise = np.random.default_rng(seed).integers(0, n_states, 2000)
            assert categories(noise) == [TimescaleWarning]
            assert categories(noise, [1, 2, 5, 10, 20, 50]) == [TimescaleWarning]

    def test_white_noise_is_said_to_grow_with_the_lag(self) -> None:
        noise = np.random.default_rng(0).integers(0, 3, 5000)
        with pytest.warns(TimescaleWarning, match="t2 cannot be measured, .*t2 grows in proportion") as w:
            its = implied_timescales(noise, [1, 2, 5, 10, 20, 50], confidence=None)
        assert its.warnings == [str(w[0].message)]
        assert "fewer states" in its.warnings[0]

    def test_a_good_chain_never_warns(self) -> None:
        for seed in range(25):
            assert categories(markov_chain(THREE_STATES, 5000, seed), [1, 2, 4, 8]) == []
            assert categories([markov_chain(THREE_STATES, 500, 100 * seed + i) for i in range(10)]) == []

    def test_labels_that_err_at_random_on_top_of_a_slow_process(self) -> None:
        for seed in range(10):
            rng = np.random.default_rng(seed)
            slow = np.cumsum(rng.random(10_000) < 0.001) % 2
            wrong = rng.random(10_000) < 0.1
            with pytest.warns(TimescaleWarning, match="t2 grows in proportion to the lag time"):
                values(np.where(wrong, 1 - slow, slow), [1, 2, 4, 8, 16, 32])

    def test_trajectories_that_never_relax(self) -> None:
        # Two kinds of trajectory, each noise about its own mean: the eigenvalue is the same at all lags.
        rng = np.random.default_rng(0)
        dtrajs = [(rng.random(200) < p).astype(int) for p in (0.05, 0.95) for _ in range(10)]
        with pytest.warns(TimescaleWarning, match="t2 grows in proportion"):
            t = values(dtrajs, [1, 2, 4, 8, 16])[:, 0]
        assert (t > [1, 2, 4, 8, 16]).all(), "only growth tells that there is nothing to see"

    @pytest.mark.parametrize(
        ("lags", "options", "words"),
        [
            ([1, 5, 30], {}, "at lag time 30 frames, because it is shorter than that"),
            ([1, 30, 40], {"dt": 0.5, "unit": "ns"}, "at lag times 15, 20 ns, because it is shorter than these"),
        ],
    )
    def test_a_timescale_below_its_lag_is_named_with_the_lag_in_its_unit(
        self, lags: list[int], options: dict[str, Any], words: str
    ) -> None:
        with pytest.warns(TimescaleWarning, match=rf"^t3 cannot be measured {words}\. Remedy: "):
            values(markov_chain(THREE_STATES, 20_000, 0), lags, **options)

    def test_the_warning_points_at_the_caller(self) -> None:
        with pytest.warns(TimescaleWarning) as caught:
            implied_timescales([0, 1] * 10, 1, confidence=None)
        assert caught[0].filename == __file__
