"""What a deeptime user may take for granted of an estimator and its model, clause by clause."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any, ClassVar

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from deeptime.base import Estimator, EstimatorTransformer, Model, Transformer
from deeptime.decomposition import TICA
from deeptime.markov import TransitionCountEstimator
from deeptime.markov.msm import BayesianMSM, MaximumLikelihoodMSM
from deeptime.plots import plot_implied_timescales
from deeptime.util.validation import ck_test, implied_timescales
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from m3c_md import M3C, M3CModel
from m3c_md.exceptions import NotFittedWarning
from m3c_md.matching import agreement
from tests.conftest import Wells, hidden_markov_wells, quick

# A value other than the default for every argument of the constructor.
CHANGED: dict[str, Any] = {
    "n_states": 3,
    "lagtime": 2,
    "bandwidth": [0.7, 1.3],
    "n_features": 40,
    "regularization": 0.02,
    "balance": (0.05, 0.9),
    "reweight": False,
    "starts": ["kmeans", "random"],
    "selection": "class-averaged",
    "features": "fourier",
    "n_coarse": 12,
    "max_iterations": 50,
    "tolerance": 1,
    "gap": 1e-3,
    "scale": "standard",
    "metric": "learned",
    "random_state": 7,
    "n_jobs": 1,
    "progress": None,
}
ARGUMENTS = list(inspect.signature(M3C).parameters)


def same_bits(one: M3CModel, other: M3CModel, frames: np.ndarray) -> bool:
    return np.array_equal(one.decision_function(frames), other.decision_function(frames)) and np.array_equal(
        one.transform(frames), other.transform(frames)
    )


class TestKinship:
    def test_classes(self) -> None:
        assert issubclass(M3C, EstimatorTransformer)
        assert issubclass(M3C, Estimator)
        assert issubclass(M3CModel, Model)
        assert issubclass(M3CModel, Transformer)


class TestParameters:
    def test_the_table_above_is_complete(self) -> None:
        assert list(CHANGED) == ARGUMENTS

    @pytest.mark.parametrize("name", ARGUMENTS)
    def test_constructor_stores_and_does_nothing_else(self, name: str) -> None:
        anything = object()
        estimator = M3C(**{"n_states": 2, name: anything})
        assert getattr(estimator, name) is anything
        assert estimator.get_params()[name] is anything
        assert not estimator.has_model

    @pytest.mark.parametrize("name", ARGUMENTS)
    def test_set_params(self, name: str) -> None:
        estimator = M3C(2)
        before = estimator.get_params()
        assert estimator.set_params(**{name: CHANGED[name]}) is estimator
        assert estimator.get_params() == {**before, name: CHANGED[name]}

    def test_set_params_refuses_unknown_names(self) -> None:
        with pytest.raises(ValueError, match="Invalid parameter n_clusters"):
            M3C(2).set_params(n_clusters=3)

    def test_clone_carries_every_argument_and_no_model(self, three_state_model: M3CModel) -> None:
        estimator = M3C(**CHANGED)
        estimator._model = three_state_model
        twin = clone(estimator)
        assert type(twin) is M3C
        assert twin.get_params() == CHANGED
        assert not twin.has_model

    def test_clone_takes_state_trajectories_as_starts(self, two_wells: Wells) -> None:
        twin = clone(quick(2, starts=[two_wells.states]))
        assert np.array_equal(twin.starts[0], two_wells.states)

    def test_fit_leaves_every_argument_alone(self, three_wells: Wells) -> None:
        estimator = M3C(**{**CHANGED, "starts": ["kmeans", three_wells.states.copy()]})
        before, content = estimator.get_params(), copy.deepcopy(estimator.get_params())
        estimator.fit(three_wells.frames)
        after = estimator.get_params()
        assert all(after[name] is before[name] for name in ARGUMENTS)
        assert np.array_equal(after["starts"][1], content["starts"][1])
        del after["starts"], content["starts"]
        assert after == content


class TestFitting:
    def test_life_of_an_estimator(self, two_wells: Wells) -> None:
        estimator = quick(2)
        assert not estimator.has_model
        with pytest.warns(NotFittedWarning):
            assert estimator.fetch_model() is None
        with pytest.warns(NotFittedWarning):
            assert estimator.model is None
        assert estimator.fit(two_wells.frames) is estimator
        assert estimator.has_model
        assert isinstance(estimator.model, M3CModel)
        assert estimator.model is estimator.fetch_model()

    def test_fit_fetch_and_its_relatives_agree(self, two_wells: Wells) -> None:
        x = two_wells.frames
        labels = quick(2).fit_fetch(x).transform(x)
        assert np.array_equal(quick(2).fit_transform(x), labels)
        assert np.array_equal(quick(2).fit_predict(x), labels)
        assert np.array_equal(quick(2).fit(x, None).transform(x), labels)

    def test_a_model_fetched_earlier_never_changes(self, three_wells: Wells) -> None:
        x = three_wells.frames
        estimator = quick(3)
        first = estimator.fit_fetch(x)
        before = pickle.dumps(first)
        second = estimator.set_params(n_states=2).fit_fetch(x[:300])
        third = estimator.fit_fetch(x[:300])
        assert first is not second
        assert second is not third
        assert (first.n_states, second.n_states) == (3, 2)
        assert pickle.dumps(first) == before

    def test_fit_needs_no_more_than_the_documented_arguments(self) -> None:
        fit = M3C(2).fit
        assert fit.__doc__ == M3C.fit.__doc__
        assert "trajectories" in (fit.__doc__ or "")
        assert next(iter(inspect.signature(fit).parameters)) == "data"

    def test_input_is_not_changed(self, two_wells: Wells) -> None:
        # deeptime would lock the arrays during fit; the class opts out of that wrapper, so we hold it to the promise.
        assert M3C._MUTABLE_INPUT_DATA
        labels = two_wells.states.copy()
        arrays = [two_wells.frames[:250].copy(), np.asfortranarray(two_wells.frames[250:])]
        before = [x.copy() for x in (*arrays, labels)]
        starts = ("kinetic", "lumping", "kmeans", [labels[:250], labels[250:]])
        model = quick(2, starts=starts, scale="standard").fit_fetch(arrays)
        model.transform(arrays)
        model.memberships(arrays)
        model.sample(arrays, 2)
        assert all(np.array_equal(x, y) for x, y in zip((*arrays, labels), before, strict=True))
        assert all(x.flags.writeable for x in arrays)

    def test_read_only_arrays_are_accepted(self, two_wells: Wells) -> None:
        assert not two_wells.frames.flags.writeable
        model = quick(2, starts=("kinetic", two_wells.states), scale="standard").fit_fetch([two_wells.frames])
        assert len(model.sample(two_wells.frames, 1)) == 2


class TestTransform:
    def test_unfitted_use_is_a_value_error(self, two_wells: Wells) -> None:
        with pytest.raises(ValueError, match="fit"):
            M3C(2).transform(two_wells.frames)
        with pytest.raises(ValueError, match="fit"):
            M3C(2)(two_wells.frames)

    def test_estimator_and_model_are_callable(self, two_wells: Wells) -> None:
        estimator = quick(2).fit(two_wells.frames)
        expected = estimator.model.transform(two_wells.frames)
        for transform in (estimator, estimator.transform, estimator.model):
            assert np.array_equal(transform(two_wells.frames), expected)

    def test_one_array_in_one_array_out(self, three_wells: Wells, three_state_model: M3CModel) -> None:
        labels = three_state_model.transform(three_wells.frames)
        assert isinstance(labels, np.ndarray)
        assert labels.shape == (len(three_wells.frames),)
        assert labels.dtype == np.int32
        assert set(labels) == {0, 1, 2}

    @pytest.mark.parametrize("container", [list, tuple])
    def test_list_in_list_out(self, container: type, three_wells: Wells, three_state_model: M3CModel) -> None:
        x = three_wells.frames
        parts = three_state_model.transform(container([x[:100], x[100:101], x[101:]]))
        assert isinstance(parts, list)
        assert [part.shape for part in parts] == [(100,), (1,), (499,)]
        assert all(part.dtype == np.int32 for part in parts)
        assert np.array_equal(np.concatenate(parts), three_state_model.transform(x))

    def test_a_list_of_one_is_still_a_list(self, three_wells: Wells, three_state_model: M3CModel) -> None:
        (only,) = three_state_model.transform([three_wells.frames])
        assert np.array_equal(only, three_state_model.transform(three_wells.frames))

    def test_a_series_of_numbers_is_one_column(self, two_wells: Wells) -> None:
        x = two_wells.frames[:, 0]
        model = quick(2).fit_fetch(x)
        labels = model.transform(x)
        assert labels.shape == x.shape
        assert same_bits(model, quick(2).fit_fetch(x[:, None]), x)
        assert agreement(labels, two_wells.states) > 0.99

    def test_data_frames_are_arrays_with_names(self, three_wells: Wells, three_state_model: M3CModel) -> None:
        x = three_wells.frames
        table = pd.DataFrame(x, columns=["phi", "psi"], index=np.arange(len(x))[::-1])
        assert np.array_equal(three_state_model.transform(table), three_state_model.transform(x))
        # A table is stored by columns, so sums over it round differently: no bit identity here.
        assert np.array_equal(quick(3).fit_fetch(table).transform(x), three_state_model.transform(x))
        halves = [table.iloc[:300], table.iloc[300:]]
        parts = quick(3).fit_transform(halves)
        assert [len(part) for part in parts] == [300, 300]
        assert np.array_equal(np.concatenate(parts), three_state_model.transform(x))

    @pytest.mark.parametrize("lagtime", [1, 3])
    def test_time_lagged_pairs_do_as_well_as_their_trajectory(self, lagtime: int, three_wells: Wells) -> None:
        x = three_wells.frames
        estimator = quick(3, lagtime=lagtime, reweight=False)
        whole = estimator.fit_fetch(x)
        pairs = estimator.fit_fetch((x[:-lagtime], x[lagtime:]))
        assert agreement(whole.transform(x), pairs.transform(x)) > 0.99
        assert pairs.objective == pytest.approx(whole.objective, rel=0.05)
        assert pairs.lagtime == lagtime

    def test_pairs_never_cross_trajectories(self) -> None:
        # Each trajectory stays in its well: only a pair across trajectories could have a loss from crossing.
        rng = np.random.default_rng(0)
        wells = [centre + 0.1 * rng.normal(size=(100, 1)) for centre in (-1.0, 1.0) * 3]
        model = quick(2).fit_fetch(wells)
        assert model.candidates["metastability"][0] == pytest.approx(2.0)
        joined = quick(2).fit_fetch(np.concatenate(wells))
        assert joined.objective > model.objective


class TestCopies:
    @pytest.mark.parametrize(
        "duplicate",
        [M3CModel.copy, copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))],
        ids=["Model.copy", "copy", "deepcopy", "pickle"],
    )
    def test_copies_are_bit_identical(self, duplicate: Any, three_wells: Wells, three_state_model: M3CModel) -> None:
        twin = duplicate(three_state_model)
        assert twin is not three_state_model
        assert same_bits(twin, three_state_model, three_wells.frames)
        assert repr(twin) == repr(three_state_model)
        assert twin.candidates.equals(three_state_model.candidates)

    def test_a_fitted_estimator_can_be_pickled(self, two_wells: Wells) -> None:
        estimator = quick(2).fit(two_wells.frames)
        twin = pickle.loads(pickle.dumps(estimator))
        assert twin.get_params() == estimator.get_params()
        assert same_bits(twin.model, estimator.model, two_wells.frames)

    def test_a_model_does_not_carry_the_data(self, three_state_model: M3CModel) -> None:
        long = quick(3).fit_fetch(np.tile(np.eye(3)[np.repeat([0, 1, 2], 200)], (2, 1)))
        assert len(pickle.dumps(long)) < 100_000
        assert len(pickle.dumps(three_state_model)) < 100_000


class Identity:
    """Transition probabilities of an MSM as the observable of a Chapman-Kolmogorov test, no PCCA+ involved."""

    def __call__(self, model: Any, mlag: float = 1.0) -> np.ndarray:
        matrix = np.eye(3) if model is None else model.transition_matrix
        return np.linalg.matrix_power(matrix, round(mlag))


@pytest.fixture(scope="module")
def dtrajs(three_wells: Wells, three_state_model: M3CModel) -> list[np.ndarray]:
    labels: list[np.ndarray] = three_state_model.transform([three_wells.frames[:300], three_wells.frames[300:]])
    return labels


class TestDownstream:
    def test_counts_and_msm(self, dtrajs: list[np.ndarray]) -> None:
        counts = TransitionCountEstimator(lagtime=1, count_mode="sliding").fit_fetch(dtrajs)
        assert counts.n_states == 3
        assert counts.count_matrix.sum() == sum(len(d) - 1 for d in dtrajs)
        msm = MaximumLikelihoodMSM().fit_fetch(counts)
        assert msm.n_states == 3
        assert np.diag(msm.transition_matrix).min() > 0.9
        # States are ordered by falling population, so the stationary distribution falls too, up to its own noise.
        assert msm.stationary_distribution[0] > msm.stationary_distribution[2]

    def test_bayesian_msm(self, dtrajs: list[np.ndarray]) -> None:
        counts = TransitionCountEstimator(lagtime=1, count_mode="effective").fit_fetch(dtrajs)
        posterior = BayesianMSM(n_samples=5).fit_fetch(counts)
        assert len(posterior.samples) == 5
        assert posterior.prior.n_states == 3

    def test_implied_timescales_and_their_plot(self, dtrajs: list[np.ndarray]) -> None:
        mpl.use("Agg")
        import matplotlib.pyplot as plt

        lags = [1, 2, 5]
        models = [MaximumLikelihoodMSM(lagtime=lag).fit_fetch(dtrajs) for lag in lags]
        scales = implied_timescales(models)
        assert scales.timescales_for_process(0).shape == (3,)
        figure, axes = plt.subplots()
        plot_implied_timescales(scales, ax=axes)
        assert len(axes.lines) >= 2
        plt.close(figure)

    def test_chapman_kolmogorov(self, dtrajs: list[np.ndarray]) -> None:
        models = [MaximumLikelihoodMSM(lagtime=lag).fit_fetch(dtrajs) for lag in (1, 2, 4)]
        result = ck_test(models, Identity())
        assert result.predictions.shape == result.estimates.shape == (4, 3, 3)
        # The hidden chain is Markovian: prediction and estimate agree up to the noise of 600 frames.
        assert np.abs(result.predictions - result.estimates).max() < 0.1
        assert models[0].ck_test(models, 3).predictions.shape == (4, 3, 3)


class TestScikitLearn:
    @pytest.mark.parametrize("repr_of", ["estimator", "fitted", "pipeline"])
    def test_html_repr_shows_the_estimator(self, repr_of: str, two_wells: Wells) -> None:
        shown: Any = quick(2)
        if repr_of == "fitted":
            shown = shown.fit(two_wells.frames)
        elif repr_of == "pipeline":
            shown = make_pipeline(TICA(lagtime=1, dim=2), shown)
        html = shown._repr_html_()
        assert "<div" in html
        assert "M3C" in html

    @pytest.mark.parametrize(
        "estimator",
        [M3C(2), M3C(3, 5, bandwidth=(0.5, 1.0), starts=("pcca",), scale="standard"), M3C(**CHANGED), M3C.paper(4)],
        ids=["defaults", "some", "all", "paper"],
    )
    def test_repr_evaluates_to_an_equal_estimator(self, estimator: M3C) -> None:
        text = repr(estimator)
        assert text.startswith("M3C(n_states=")
        assert "\n" not in text
        again = eval(text, {"M3C": M3C})
        assert again.get_params() == estimator.get_params()

    def test_repr_leaves_defaults_out(self) -> None:
        assert repr(M3C(2)) == "M3C(n_states=2)"

    def test_tags(self) -> None:
        tags = get_tags(M3C(2))
        assert tags.estimator_type == "clusterer"
        assert not tags.target_tags.required
        assert tags.transformer_tags is not None

    def test_check_is_fitted(self, two_wells: Wells) -> None:
        estimator = quick(2)
        with pytest.raises(NotFittedError):
            check_is_fitted(estimator)
        check_is_fitted(estimator.fit(two_wells.frames))

    def test_pipeline_after_tica(self, three_wells: Wells) -> None:
        x = three_wells.frames
        pipeline = make_pipeline(TICA(lagtime=1, dim=2), quick(3))
        assert pipeline.fit(x) is pipeline
        labels = pipeline.transform(x)
        assert labels.dtype == np.int32
        assert agreement(labels, three_wells.states) > 0.98
        assert np.array_equal(clone(pipeline).fit_transform(x), labels)
        assert np.array_equal(clone(pipeline).fit_predict(x), labels)

    def test_targets_are_ignored(self, two_wells: Wells) -> None:
        # scikit-learn hands y to every step of a pipeline, whether it needs it or not.
        x, y = two_wells
        assert np.array_equal(make_pipeline(quick(2)).fit_transform(x, y), quick(2).fit_predict(x, y))

    def test_pipeline_passes_parameters_on(self) -> None:
        pipeline = make_pipeline(TICA(lagtime=1, dim=2), M3C(3)).set_params(m3c__n_states=5)
        assert pipeline.named_steps["m3c"].n_states == 5

    def test_pipeline_of_several_trajectories(self, three_wells: Wells) -> None:
        x = three_wells.frames
        parts = [x[:300], x[300:]]
        # TICA.transform of deeptime stacks a list into one array, so a list cannot go through a pipeline as a whole.
        tica = TICA(lagtime=1, dim=2).fit_fetch(parts)
        projected = [tica.transform(part) for part in parts]
        labels = quick(3).fit_fetch(projected).transform(projected)
        assert agreement(np.concatenate(labels), three_wells.states) > 0.98


class FakeBar:
    """The part of tqdm's interface that deeptime asks for, with a memory."""

    made: ClassVar[list[FakeBar]] = []

    def __init__(self, total: int | None = None) -> None:
        self.total, self.first_total, self.n = total, total, 0
        self.description, self.closed = "", False
        FakeBar.made.append(self)

    def update(self, n: int = 1) -> None:
        assert not self.closed
        self.n += n

    def set_description(self, description: str) -> None:
        self.description = description

    def close(self) -> None:
        self.closed = True


class TestProgress:
    @pytest.fixture(autouse=True)
    def _forget(self) -> None:
        FakeBar.made.clear()

    def test_bar_is_filled_and_closed(self, two_wells: Wells) -> None:
        quick(2, bandwidth=(0.7, 1.4), starts=("kinetic", "kmeans"), progress=FakeBar).fit(two_wells.frames)
        (bar,) = FakeBar.made
        assert bar.first_total == bar.n == 100  # per cent
        assert "M3C" in bar.description
        assert bar.closed

    def test_bar_never_runs_past_its_end(self) -> None:
        # More windows than the first sample of the search holds, so candidates are optimised more than once.
        frames = hidden_markov_wells(2200, 2).frames
        quick(2, n_features=20, progress=FakeBar).fit(frames)
        (bar,) = FakeBar.made
        assert bar.first_total is not None
        assert bar.n <= bar.first_total

    def test_bar_is_closed_when_the_fit_fails(self) -> None:
        # Every candidate is degenerate: no bandwidth this large tells the wells apart.
        with pytest.raises(RuntimeError, match="degenerate"):
            quick(2, bandwidth=1e4, progress=FakeBar).fit(np.repeat([-1.0, 1.0], 50))
        assert FakeBar.made[0].closed

    def test_the_answer_does_not_depend_on_it(self, three_wells: Wells, three_state_model: M3CModel) -> None:
        model = quick(3, progress=FakeBar).fit_fetch(three_wells.frames)
        assert same_bits(model, three_state_model, three_wells.frames)

    def test_none_is_silent(self, two_wells: Wells, capfd: pytest.CaptureFixture[str]) -> None:
        quick(2).fit(two_wells.frames)
        assert capfd.readouterr() == ("", "")
