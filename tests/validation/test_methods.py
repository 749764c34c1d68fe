"""A method is fitted and judged, its setting is chosen without the test data, and failures are results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from m3c_md import HiddenMarkov, KMedoids, PCCAPlus, TICAPCCAPlus
from m3c_md.clustering import kinetic_map
from m3c_md.clustering.state_estimator import StateEstimator
from m3c_md.exceptions import DegenerateSolutionError, InputError, SolverError
from m3c_md.inputs.dataset import Dataset
from m3c_md.validation import implied_timescales, metastability, methods
from m3c_md.validation.measures import Judgement
from m3c_md.validation.methods import Task, best_setting, fit_and_judge
from m3c_md.validation.splits import Split
from tests.conftest import hidden_markov_wells

TRAIN, TEST = hidden_markov_wells(300, 3, 1), hidden_markov_wells(250, 3, 2)
SPLIT = Split(Dataset.of([TRAIN.frames]), {"other": Dataset.of([TEST.frames])})


def task(estimator: StateEstimator, seed: tuple[int, ...] = (0, 0)) -> Task:
    return Task("it", 0, {"": estimator}, SPLIT, seed)


def judged(quality: float, vamp2: float = 1.0) -> Judgement:
    return Judgement(quality, vamp2, np.array([1.0]), 0, 0)


class TestFitAndJudge:
    def test_judged_on_the_test_data(self) -> None:
        fit = fit_and_judge(task(KMedoids(3)), 2)
        assert fit.model is not None
        assert fit.error == fit.setting == ""
        assert fit.trials == {}
        assert fit.seconds > 0.0
        states = fit.model.transform(TEST.frames)
        found = fit.judgements["other"]
        assert found.metastability == pytest.approx(metastability(states, 2), rel=1e-14)
        its = implied_timescales(states, [2], confidence=None)
        np.testing.assert_array_equal(found.timescales, [its.timescales_for_process(i)[0] for i in range(2)])

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


class TestChoice:
    """One coarse setting that cannot tell three wells apart, and one that can."""

    COARSE, FINE = PCCAPlus(3, n_microstates=3, n_restarts=1), PCCAPlus(3, n_microstates=12, n_restarts=1)

    def overlapping(self, seed: int) -> np.ndarray:
        """Three wells in one column, and a column of large noise in which three cells say nothing."""
        wells = hidden_markov_wells(400, 3, seed)
        noise = np.random.default_rng(seed).normal(size=400)
        return np.column_stack([0.6 * wells.states + 0.1 * noise[::-1], noise])

    def chosen_for(self, tests: dict[str, Dataset], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[Any]]:
        seen: list[Any] = []
        real = methods._fitted

        def watched(estimator: Any, split: Split, *more: Any) -> Any:
            seen.append(split)
            return real(estimator, split, *more)

        monkeypatch.setattr(methods, "_fitted", watched)
        train = Dataset.of([self.overlapping(seed) for seed in (1, 2)])
        settings = {"coarse": self.COARSE, "fine": self.FINE}
        return fit_and_judge(Task("it", 0, settings, Split(train, tests), (0,)), 1), seen

    def test_the_held_out_training_data_choose_and_the_test_data_are_not_asked(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        test = {"other": Dataset.of(self.overlapping(3))}
        fit, seen = self.chosen_for(test, monkeypatch)
        inner = {name: trial.inner.metastability for name, trial in fit.trials.items()}
        assert fit.setting == max(inner, key=lambda name: inner[name])
        assert inner["coarse"] != inner["fine"]
        # What chooses are halves of the training trajectories, judged by their other halves.
        for split in seen[:2]:
            assert split.train.lengths == [200, 200]
            assert [part.lengths for part in split.tests.values()] == [[200, 200]]
        assert all(split.tests == test for split in seen[2:])
        # Both were fitted to all training data and judged, so that hindsight can be shown.
        assert len(seen) == 4
        assert fit.judgements["other"] is fit.trials[fit.setting].judgements["other"]
        assert fit.trials["coarse"].judgements["other"] != fit.trials["fine"].judgements["other"]
        without, _ = self.chosen_for({"another": Dataset.of(self.overlapping(9))}, monkeypatch)
        assert without.setting == fit.setting

    def test_without_test_data_only_the_chosen_one_is_fitted_to_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fit, seen = self.chosen_for({}, monkeypatch)
        assert len(seen) == 3
        assert seen[-1].train.lengths == [400, 400]
        assert all(trial.judgements == {} for trial in fit.trials.values())

    def test_largest_q_then_largest_vamp2_then_the_first(self) -> None:
        assert best_setting({"a": judged(1.5, 9.0), "b": judged(1.6, 1.0)}) == "b"
        assert best_setting({"a": judged(1.5, 1.1), "b": judged(1.5 - 1e-13, 1.2)}) == "b"
        assert best_setting({"a": judged(1.5), "b": judged(1.5)}) == "a"
        assert best_setting({"a": Judgement.unknown(2), "b": judged(0.1)}) == "b"
        assert best_setting({"a": Judgement.unknown(2), "b": Judgement.unknown(2)}) == "a"

    def test_too_short_for_a_choice(self) -> None:
        train = Dataset.of(hidden_markov_wells(9, 2, 0).frames)
        settings = {"2": PCCAPlus(2, 6, n_microstates=2), "3": PCCAPlus(2, 6, n_microstates=3)}
        fit = fit_and_judge(Task("it", 0, settings, Split(train, {}), (0,)), 6)
        assert fit.setting == "2"
        assert all(np.isnan(trial.inner.metastability) for trial in fit.trials.values())

    @pytest.mark.parametrize("kind", [TICAPCCAPlus, HiddenMarkov])
    def test_tica_is_done_once_for_all_settings_of_a_lag_time(self, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        done: list[int] = []
        real = kinetic_map.kinetic_map

        def watched(data: Any, lagtime: int) -> Any:
            done.append(lagtime)
            return real(data, lagtime)

        monkeypatch.setattr(kinetic_map, "kinetic_map", watched)
        settings = {
            f"{n} {lag}": kind(3, n_components=n, tica_lagtime=lag, n_microstates=10, n_restarts=1)
            for lag in (1, 2)
            for n in (1, 2)
        }
        fit = fit_and_judge(Task("it", 0, settings, SPLIT, (0,)), 1)
        assert done == [1, 2, 1, 2]  # of the halves, then of all
        assert fit.model is not None
        alone = fit_and_judge(Task("it", 0, {fit.setting: settings[fit.setting]}, SPLIT, (0,)), 1)
        np.testing.assert_array_equal(alone.model.transform(TEST.frames), fit.model.transform(TEST.frames))  # type: ignore[union-attr]
