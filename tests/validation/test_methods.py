"""The methods by name: which stand in the table, with which settings, and what becomes of those that fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from m3c_md import KMedoids, PCCAPlus
from m3c_md.clustering.state_estimator import StateEstimator
from m3c_md.exceptions import DegenerateSolutionError, FewVisitsWarning, InputError, SolverError
from m3c_md.inputs.dataset import Dataset
from m3c_md.validation import implied_timescales, metastability
from m3c_md.validation.methods import METHODS, Task, build_methods, fit_and_judge, judgement_on, usable_numbers
from m3c_md.validation.splits import Split
from tests.conftest import hidden_markov_wells

TRAIN, TEST = hidden_markov_wells(300, 3, 1), hidden_markov_wells(250, 3, 2)
SPLIT = Split(Dataset.of([TRAIN.frames]), {"other": Dataset.of([TEST.frames])})


def task(estimator: StateEstimator, seed: tuple[int, ...] = (0, 0)) -> Task:
    return Task("it", 0, estimator, SPLIT, seed)


class TestBuild:
    def test_all_with_their_settings(self) -> None:
        built, message = build_methods(METHODS, 3, 5, (50, 20), 10_000)
        assert list(built) == ["M3C", "PCCA+ (20)", "PCCA+ (50)", "MMC", "k-medoids"]
        assert message == ""
        for name, estimator in built.items():
            settings = estimator.get_params()
            assert settings["n_states"] == 3
            assert settings.get("lagtime", 5) == 5
            assert name != "PCCA+ (20)" or settings["n_microstates"] == 20
        assert built["M3C"].get_params()["lagtime"] == built["PCCA+ (50)"].get_params()["lagtime"] == 5

    def test_in_the_order_given(self) -> None:
        assert list(build_methods(["k-medoids", "m3c"], 2, 1, 5, 100)[0]) == ["k-medoids", "M3C"]

    def test_a_single_name_and_repeated_names(self) -> None:
        assert list(build_methods("mmc", 2, 1, 5, 100)[0]) == ["MMC"]
        assert list(build_methods(("mmc", "mmc"), 2, 1, 5, 100)[0]) == ["MMC"]

    def test_capitals_as_in_the_tables(self) -> None:
        assert list(build_methods(["M3C", "K-Medoids"], 2, 1, 5, 100)[0]) == ["M3C", "k-medoids"]

    @pytest.mark.parametrize("name", ["pcca", "PCCA+ (50)", "", None, 3])
    def test_an_unknown_name_lists_the_known(self, name: Any) -> None:
        with pytest.raises(InputError) as caught:
            build_methods(("m3c", name), 2, 1, 5, 100)
        assert repr(name) in str(caught.value)
        assert all(repr(known) in str(caught.value) for known in METHODS)

    @pytest.mark.parametrize("names", [(), [], None, 7, {"m3c": 1}])
    def test_no_names(self, names: Any) -> None:
        with pytest.raises(InputError, match=r"must name at least one of m3c, pcca\+, mmc, k-medoids"):
            build_methods(names, 2, 1, 5, 100)

    def test_microstates_concern_pcca_plus_only(self) -> None:
        assert build_methods(["k-medoids"], 60, 1, (50, 100), 20)[1] == ""
        with pytest.raises(InputError, match="n_microstates=50 must be a whole number of at least 60"):
            build_methods(["pcca+"], 60, 1, (50, 100), 20)


class TestNumbersOfMicrostates:
    @pytest.mark.parametrize("given", [40, np.int64(40), [40], (40, 40), range(40, 41), np.array([40]), {40}])
    def test_one_or_several(self, given: Any) -> None:
        assert usable_numbers(given, 3, 400) == ([40], "")

    def test_rising_and_ten_frames_for_each(self) -> None:
        kept, message = usable_numbers((100, 10, 40, 41), 3, 400)
        assert kept == [10, 40]
        assert message == "n_microstates 41, 100 left out: fewer than ten of 400 training frames for each"

    def test_the_smallest_stays_in_any_case(self) -> None:
        assert usable_numbers((200, 50), 3, 30)[0] == [50]

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ((), "n_microstates is empty"),
            (2, "n_microstates=2 must be a whole number of at least 3"),
            ((50, 1), "n_microstates=1 must"),
            (50.0, "n_microstates=50.0 must"),
            ("50", "n_microstates='50' must be a number or several"),
            (None, "n_microstates=None must"),
            ([[50, 100], [200]], r"n_microstates=\[50, 100\] must"),
            (True, "n_microstates=True must"),
        ],
    )
    def test_refused(self, given: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            usable_numbers(given, 3, 1000)


class TestFitAndJudge:
    def test_judged_on_the_test_data(self) -> None:
        fit = fit_and_judge(task(KMedoids(3)), 2)
        assert fit.model is not None
        assert fit.error == ""
        assert fit.seconds > 0.0
        states = fit.model.transform(TEST.frames)
        quality, times = fit.judgements["other"]
        assert quality == metastability(states, 2)
        its = implied_timescales(states, [2], confidence=None)
        np.testing.assert_array_equal(times, [its.timescales_for_process(i)[0] for i in range(2)])

    def test_the_estimator_given_is_left_alone(self) -> None:
        estimator = KMedoids(3)
        fit_and_judge(task(estimator), 1)
        assert not estimator.has_model
        assert estimator.random_state is None

    def test_numbers_drawn_depend_on_the_seed_only(self) -> None:
        def centers(*seed: int) -> np.ndarray:
            fit = fit_and_judge(task(PCCAPlus(3, n_microstates=15, n_restarts=1), seed), 1)
            return np.asarray(fit.model.centers)  # type: ignore[union-attr]

        again = centers(0, 0)
        np.testing.assert_array_equal(centers(0, 0), again)
        assert all((centers(*other) != again).any() for other in ((0, 1), (1, 0), (0, 0, 1)))

    @pytest.mark.parametrize("kind", [InputError, DegenerateSolutionError, SolverError])
    def test_failure_is_a_result(self, kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any) -> None:
            raise kind("no luck")

        monkeypatch.setattr(KMedoids, "fit", fail)
        fit = fit_and_judge(task(KMedoids(3)), 1)
        assert fit.model is None
        assert fit.error == "no luck"
        assert np.isnan(fit.judgements["other"].metastability)
        assert np.isnan(fit.judgements["other"].timescales).tolist() == [True, True]

    def test_a_programming_error_is_not_hidden(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(KMedoids, "fit", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fit_and_judge(task(KMedoids(3)), 1)

    def test_a_missed_state_gives_nan_not_a_guess(self) -> None:
        with pytest.warns(FewVisitsWarning):
            model = KMedoids(3, random_state=0).fit_fetch(TRAIN.frames)
        seen = TEST.frames[TEST.states != 1]
        with pytest.warns() as caught:
            quality, times = judgement_on(model, [seen], 1)
        assert {w.category.__name__ for w in caught} == {"UnvisitedStateWarning", "DisconnectedWarning"}
        assert np.isnan(quality)
        assert np.isnan(times).tolist() == [False, True]
