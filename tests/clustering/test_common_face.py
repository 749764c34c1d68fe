"""What the methods promise alike: a table of them, and every clause of the common face for each."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from deeptime.base import EstimatorTransformer, Model, Transformer
from deeptime.decomposition import TICA
from deeptime.markov.msm import MaximumLikelihoodMSM
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from m3c_md import M3C, MMC, HiddenMarkov, KMedoids, PCCAPlus, TICAPCCAPlus
from m3c_md.clustering.state_estimator import StateEstimator
from m3c_md.clustering.state_model import StateModel
from m3c_md.exceptions import InputError, NotFittedWarning, ShortTrajectoryWarning
from m3c_md.inputs import dataset as dataset_module
from m3c_md.matching import agreement
from tests.conftest import Wells, hidden_markov_wells, other_warnings, quick

Maker = Callable[..., StateEstimator]


def m3c(n_states: Any = 3, **changes: Any) -> M3C:
    return quick(n_states, **changes)


def mmc(n_states: Any = 3, **changes: Any) -> MMC:
    return MMC(n_states, **{"bandwidth": 1.0, "starts": ("kmeans",), "random_state": 0, **changes})


def k_medoids(n_states: Any = 3, **changes: Any) -> KMedoids:
    return KMedoids(n_states, **{"n_restarts": 5, "random_state": 0, **changes})


def pcca_plus(n_states: Any = 3, **changes: Any) -> PCCAPlus:
    return PCCAPlus(n_states, **{"n_microstates": 12, "n_restarts": 1, "random_state": 0, **changes})


def tica_pcca_plus(n_states: Any = 3, **changes: Any) -> TICAPCCAPlus:
    return TICAPCCAPlus(n_states, **{"n_microstates": 12, "n_restarts": 1, "random_state": 0, **changes})


def hidden_markov(n_states: Any = 3, **changes: Any) -> HiddenMarkov:
    return HiddenMarkov(n_states, **{"n_microstates": 12, "n_restarts": 1, "random_state": 0, **changes})


MAKERS: dict[str, Maker] = {
    "M3C": m3c,
    "MMC": mmc,
    "KMedoids": k_medoids,
    "PCCAPlus": pcca_plus,
    "TICAPCCAPlus": tica_pcca_plus,
    "HiddenMarkov": hidden_markov,
}
CLASSES: dict[str, type[StateEstimator]] = {
    "M3C": M3C,
    "MMC": MMC,
    "KMedoids": KMedoids,
    "PCCAPlus": PCCAPlus,
    "TICAPCCAPlus": TICAPCCAPlus,
    "HiddenMarkov": HiddenMarkov,
}
METHODS = ("transform", "decision_function", "margin", "memberships")
WITH_LAG = ("M3C", "PCCAPlus", "TICAPCCAPlus", "HiddenMarkov")


def scaled(name: str, scale: str) -> dict[str, str]:
    """Setting of estimators that ask for a scale; those on slow coordinates have one already."""
    return {} if name in ("TICAPCCAPlus", "HiddenMarkov") else {"scale": scale}


by_name = pytest.mark.parametrize("name", MAKERS)
by_new_name = pytest.mark.parametrize("name", ["MMC", "KMedoids", "PCCAPlus", "TICAPCCAPlus", "HiddenMarkov"])


@pytest.fixture(scope="module")
def three_wells() -> Wells:
    """Half as many frames as elsewhere: there are many fits here."""
    return hidden_markov_wells(300, 3, seed=1)


@pytest.fixture(scope="module")
def two_wells() -> Wells:
    return hidden_markov_wells(200, 2)


@pytest.fixture(scope="module")
def models(three_wells: Wells) -> dict[str, StateModel]:
    return {name: make().fit_fetch(three_wells.frames) for name, make in MAKERS.items()}


@pytest.fixture(scope="module")
def new_frames() -> np.ndarray:
    """Frames in the wells, between them and far away, where no data were."""
    rng = np.random.default_rng(8)
    return np.concatenate([rng.uniform(-2.5, 2.5, size=(200, 2)), rng.uniform(-50.0, 50.0, size=(20, 2))])


def same_bits(one: StateModel, other: StateModel, frames: np.ndarray) -> bool:
    return all(np.array_equal(getattr(one, method)(frames), getattr(other, method)(frames)) for method in METHODS)


@by_name
class TestEstimator:
    def test_kinship(self, name: str, models: dict[str, StateModel]) -> None:
        assert issubclass(CLASSES[name], EstimatorTransformer)
        assert isinstance(models[name], Model)
        assert isinstance(models[name], Transformer)
        kind = "MappedModel" if name == "TICAPCCAPlus" else f"{name}Model"
        assert type(models[name]).__name__ == kind

    def test_constructor_stores_and_does_nothing_else(self, name: str) -> None:
        for argument in inspect.signature(CLASSES[name]).parameters:
            anything = object()
            estimator = CLASSES[name](**{"n_states": 2, argument: anything})
            assert estimator.get_params()[argument] is anything
            assert not estimator.has_model

    def test_only_n_states_and_lagtime_by_position(self, name: str) -> None:
        kinds = inspect.signature(CLASSES[name]).parameters
        by_position = [k for k, p in kinds.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert by_position == (["n_states", "lagtime"] if name in WITH_LAG else ["n_states"])

    def test_life_of_an_estimator(self, name: str, two_wells: Wells) -> None:
        estimator = MAKERS[name](2)
        assert not estimator.has_model
        with pytest.warns(NotFittedWarning):
            assert estimator.fetch_model() is None
        assert estimator.fit(two_wells.frames) is estimator
        assert estimator.has_model
        assert estimator.model is estimator.fetch_model()
        assert estimator.fit_fetch(two_wells.frames) is estimator.model

    def test_relatives_of_fit_agree(self, name: str, three_wells: Wells, models: dict[str, StateModel]) -> None:
        x = three_wells.frames
        labels = models[name].transform(x)
        estimator = MAKERS[name]()
        assert np.array_equal(estimator.fit_transform(x), labels)
        assert np.array_equal(estimator.fit_predict(x, three_wells.states), labels)
        assert np.array_equal(estimator(x), labels)
        assert np.array_equal(models[name](x), labels)

    def test_unfitted_use_names_the_class(self, name: str, two_wells: Wells) -> None:
        with pytest.raises(ValueError, match=rf"this {name} has no model yet; call fit"):
            MAKERS[name](2).transform(two_wells.frames)

    def test_a_model_fetched_earlier_never_changes(self, name: str, three_wells: Wells, two_wells: Wells) -> None:
        estimator = MAKERS[name]()
        first = estimator.fit_fetch(three_wells.frames)
        before = pickle.dumps(first)
        second = estimator.set_params(n_states=2).fit_fetch(two_wells.frames)
        assert second is not first
        assert (first.n_states, second.n_states) == (3, 2)
        assert pickle.dumps(first) == before

    def test_fit_leaves_every_argument_alone(self, name: str, two_wells: Wells) -> None:
        estimator = MAKERS[name](2)
        before, content = estimator.get_params(), copy.deepcopy(estimator.get_params())
        estimator.fit(two_wells.frames)
        assert all(value is before[key] for key, value in estimator.get_params().items())
        assert estimator.get_params() == content

    def test_input_is_not_changed(self, name: str, two_wells: Wells) -> None:
        assert CLASSES[name]._MUTABLE_INPUT_DATA
        arrays = [two_wells.frames[:120].copy(), np.asfortranarray(two_wells.frames[120:])]
        before = [x.copy() for x in arrays]
        model = MAKERS[name](2).fit_fetch(arrays)
        for method in METHODS:
            getattr(model, method)(arrays)
        model.sample(arrays, 2)
        assert all(np.array_equal(x, y) for x, y in zip(arrays, before, strict=True))
        assert all(x.flags.writeable for x in arrays)

    def test_fit_has_a_docstring_and_refuses_unknown_keywords(self, name: str, two_wells: Wells) -> None:
        assert "trajectories" in (MAKERS[name](2).fit.__doc__ or "")
        with pytest.raises(TypeError, match="lag"):
            MAKERS[name](2).fit(two_wells.frames, lag=3)


@by_name
class TestScikitLearn:
    def test_clone(self, name: str, two_wells: Wells) -> None:
        estimator = MAKERS[name](2).fit(two_wells.frames)
        twin = clone(estimator)
        assert type(twin) is CLASSES[name]
        assert twin.get_params() == estimator.get_params()
        assert not twin.has_model
        assert same_bits(twin.fit_fetch(two_wells.frames), estimator.model, two_wells.frames)

    def test_set_params_refuses_unknown_names(self, name: str) -> None:
        with pytest.raises(ValueError, match="Invalid parameter n_clusters"):
            MAKERS[name](2).set_params(n_clusters=3)

    def test_repr_evaluates_to_an_equal_estimator(self, name: str) -> None:
        assert repr(CLASSES[name](2)) == f"{name}(n_states=2)"
        estimator = MAKERS[name](4, **scaled(name, "none"))
        again = eval(repr(estimator), {name: CLASSES[name]})
        assert again.get_params() == estimator.get_params()

    def test_html_repr(self, name: str) -> None:
        html = MAKERS[name](2)._repr_html_()
        assert "<div" in html
        assert name in html
        assert name in make_pipeline(TICA(lagtime=1, dim=2), MAKERS[name](2))._repr_html_()

    def test_tags_and_check_is_fitted(self, name: str, two_wells: Wells) -> None:
        estimator = MAKERS[name](2)
        assert get_tags(estimator).estimator_type == "clusterer"
        assert get_tags(estimator).transformer_tags is not None
        with pytest.raises(ValueError, match="not fitted"):
            check_is_fitted(estimator)
        check_is_fitted(estimator.fit(two_wells.frames))

    def test_pipeline_after_tica(self, name: str, three_wells: Wells) -> None:
        pipeline = make_pipeline(TICA(lagtime=1, dim=2), MAKERS[name]())
        labels = pipeline.fit(three_wells.frames).transform(three_wells.frames)
        assert labels.dtype == np.int32
        assert agreement(labels, three_wells.states) > 0.98
        assert np.array_equal(clone(pipeline).fit_predict(three_wells.frames), labels)


@by_name
class TestKindsOfData:
    def test_states_are_found(self, name: str, three_wells: Wells, models: dict[str, StateModel]) -> None:
        assert agreement(models[name].transform(three_wells.frames), three_wells.states) > 0.98
        assert other_warnings(models[name]) == []

    def test_one_array_in_one_array_out(self, name: str, three_wells: Wells, models: dict[str, StateModel]) -> None:
        labels = models[name].transform(three_wells.frames)
        assert labels.shape == (300,)
        assert labels.dtype == np.int32
        assert set(labels) == {0, 1, 2}

    @pytest.mark.parametrize("container", [list, tuple])
    def test_list_in_list_out(
        self, name: str, container: type, three_wells: Wells, models: dict[str, StateModel]
    ) -> None:
        x = three_wells.frames
        for method in METHODS:
            whole = getattr(models[name], method)(x)
            parts = getattr(models[name], method)(container([x[:100], x[100:101], x[101:]]))
            assert isinstance(parts, list)
            assert [len(part) for part in parts] == [100, 1, 199]
            assert all(part.dtype == whole.dtype for part in parts)
            assert np.concatenate(parts) == pytest.approx(whole, abs=1e-12)

    def test_a_list_of_one_is_still_a_list(self, name: str, three_wells: Wells, models: dict[str, StateModel]) -> None:
        (only,) = models[name].transform([three_wells.frames])
        assert np.array_equal(only, models[name].transform(three_wells.frames))

    def test_a_series_of_numbers_is_one_column(self, name: str, two_wells: Wells) -> None:
        x = two_wells.frames[:, 0]
        model = MAKERS[name](2).fit_fetch(x)
        assert model.transform(x).shape == x.shape
        assert same_bits(model, MAKERS[name](2).fit_fetch(x[:, None]), x)
        assert agreement(model.transform(x), two_wells.states) > 0.98

    def test_time_lagged_pairs(self, name: str, three_wells: Wells, models: dict[str, StateModel]) -> None:
        x = three_wells.frames
        if name == "HiddenMarkov":
            with pytest.raises(InputError, match="needs trajectories, not a pair of arrays; give a list"):
                hidden_markov().fit((x[:-1], x[1:]))
            return
        model = MAKERS[name]().fit_fetch((x[:-1], x[1:]))
        assert agreement(model.transform(x), models[name].transform(x)) > 0.99
        assert model.populations.sum() == pytest.approx(1.0)

    def test_order_of_trajectories_does_not_matter(self, name: str, three_wells: Wells) -> None:
        x = three_wells.frames
        parts = np.split(x, [70, 150, 220])
        one, other = MAKERS[name]().fit_fetch(parts), MAKERS[name]().fit_fetch(parts[::-1])
        assert agreement(one.transform(x), other.transform(x)) > 0.99

    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.NegativeMatrixWarning")
    def test_more_states_and_fewer(self, name: str) -> None:
        for n_states in (2, 4):
            x, states = hidden_markov_wells(400, n_states, seed=3)
            labels = MAKERS[name](n_states).fit_predict(x)
            assert set(labels) == set(range(n_states))
            assert agreement(labels, states) > 0.98


@by_new_name
class TestOddButFine:
    """As for M3C in test_odd_input.py."""

    @pytest.mark.parametrize(
        "odd",
        [
            lambda x: x.astype(np.float32),
            np.asfortranarray,
            lambda x: np.repeat(x, 2, axis=1)[:, ::2],
            lambda x: x[::-1].copy()[::-1],
            lambda x: x.astype(x.dtype.newbyteorder()),
            lambda x: x.tolist(),
            lambda x: pd.DataFrame(x, columns=["phi", "psi"], index=np.arange(len(x))[::-1]),
        ],
        ids=["float32", "Fortran order", "strided", "backwards", "byte order", "lists", "DataFrame"],
    )
    def test_odd_forms_of_the_same_frames(
        self, name: str, odd: Callable[[np.ndarray], Any], three_wells: Wells, models: dict[str, StateModel]
    ) -> None:
        x = three_wells.frames
        expected = models[name].transform(x)
        assert np.array_equal(models[name].transform(odd(x)), expected)
        # Rounding and the order of sums may move a boundary by a frame, no more.
        assert np.mean(MAKERS[name]().fit_predict(odd(x)) == expected) > 0.998

    @pytest.mark.parametrize("scale", ["none", "standard"])
    @pytest.mark.parametrize(
        "change",
        [lambda x: x + 1e6, lambda x: np.column_stack([x, np.full(len(x), 1e6 + 0.1)]), lambda x: 1024.0 * x],
        ids=["far away", "constant column", "other unit"],
    )
    def test_harmless_changes(self, name: str, scale: str, change: Callable[[Any], Any], three_wells: Wells) -> None:
        x = change(three_wells.frames)
        wide = {"bandwidth": float(np.ptp(x, axis=0).max()) / 3.0} if name in ("M3C", "MMC") and scale == "none" else {}
        assert agreement(MAKERS[name](**scaled(name, scale), **wide).fit_predict(x), three_wells.states) > 0.98


@by_name
class TestPopulations:
    def test_they_fall_and_are_shares_of_the_training_frames(self, name: str) -> None:
        x = hidden_markov_wells(500, 3, seed=2).frames
        parts = [x[:123], x[123:]]
        model = MAKERS[name]().fit_fetch(parts)
        counts = np.bincount(np.concatenate(model.transform(parts)), minlength=3)
        assert model.n_states == len(model.populations) == 3
        assert counts.tolist() == sorted(counts, reverse=True)
        assert model.populations == pytest.approx(counts / 500, abs=1e-12)

    def test_repr_shows_them(self, name: str, models: dict[str, StateModel]) -> None:
        text = repr(models[name])
        assert text.startswith(f"{type(models[name]).__name__}(n_states=3, populations=[0.")
        assert all(f"{share:.3g}" in text for share in models[name].populations)
        assert "\n" not in text

    def test_labels_are_ready_for_deeptime(self, name: str, three_wells: Wells, models: dict[str, StateModel]) -> None:
        msm = MaximumLikelihoodMSM(lagtime=1).fit_fetch(models[name].transform([three_wells.frames]))
        assert np.diag(msm.transition_matrix).min() > 0.9


@by_name
class TestScores:
    def test_the_largest_score_decides(
        self, name: str, models: dict[str, StateModel], new_frames: np.ndarray, three_wells: Wells
    ) -> None:
        for x in (new_frames, three_wells.frames):
            scores = models[name].decision_function(x)
            assert scores.shape == (len(x), 3)
            assert np.array_equal(scores.argmax(axis=1), models[name].transform(x))

    def test_margin_is_the_lead(self, name: str, models: dict[str, StateModel], new_frames: np.ndarray) -> None:
        margin = models[name].margin(new_frames)
        ordered = np.sort(models[name].decision_function(new_frames), axis=1)
        assert margin.shape == (len(new_frames),)
        assert margin.min() >= 0.0
        assert np.array_equal(margin, ordered[:, -1] - ordered[:, -2])

    def test_memberships_are_probabilities(
        self, name: str, models: dict[str, StateModel], new_frames: np.ndarray
    ) -> None:
        soft = models[name].memberships(new_frames)
        assert soft.shape == (len(new_frames), 3)
        assert soft.min() >= 0.0
        assert soft.sum(axis=1) == pytest.approx(1.0, abs=1e-9)
        assert np.array_equal(soft.argmax(axis=1), models[name].transform(new_frames))

    @pytest.mark.parametrize("batch", [1, 7, 219])
    def test_batches_do_not_matter(
        self,
        name: str,
        batch: int,
        models: dict[str, StateModel],
        new_frames: np.ndarray,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        expected = {method: getattr(models[name], method)(new_frames) for method in METHODS}
        monkeypatch.setattr(dataset_module, "FRAMES_AT_ONCE", batch)
        for method, whole in expected.items():
            result = getattr(models[name], method)(new_frames)
            assert result.dtype == whole.dtype
            assert result == pytest.approx(whole, abs=1e-10)


@by_name
class TestSample:
    @pytest.mark.parametrize("by", ["margin", "random"])
    def test_indices_point_into_the_right_state(
        self, name: str, by: Any, models: dict[str, StateModel], three_wells: Wells
    ) -> None:
        parts = [three_wells.frames[:120], three_wells.frames[120:]]
        labels, margins = models[name].transform(parts), models[name].margin(parts)
        samples = models[name].sample(parts, 5, by=by, random_state=0)
        again = models[name].sample(parts, 5, by=by, random_state=np.random.default_rng(0))
        assert len(samples) == 3
        for state, indices in enumerate(samples):
            assert np.array_equal(indices, again[state])
            assert [labels[i][t] for i, t in indices] == [state] * 5
            assert len({tuple(pair) for pair in indices.tolist()}) == 5
            if by == "margin":
                inside = np.concatenate([m[d == state] for m, d in zip(margins, labels, strict=True)])
                assert [margins[i][t] for i, t in indices] == sorted(inside, reverse=True)[:5]

    def test_a_state_without_frames_gives_none(
        self, name: str, models: dict[str, StateModel], three_wells: Wells
    ) -> None:
        x = three_wells.frames
        labels = models[name].transform(x)
        samples = models[name].sample(np.concatenate([x[labels == 0][:4], x[labels == 1][:1]]), 3)
        assert [indices.shape for indices in samples] == [(3, 2), (1, 2), (0, 2)]

    @pytest.mark.parametrize(("n", "by", "message"), [(0, "margin", "n=0"), (1, "depth", "by='depth' is not known")])
    def test_bad_arguments(
        self, name: str, n: int, by: Any, message: str, models: dict[str, StateModel], three_wells: Wells
    ) -> None:
        with pytest.raises(InputError, match=message):
            models[name].sample(three_wells.frames, n, by=by)


@by_name
class TestReproducibility:
    def test_same_seed_same_bits(self, name: str, three_wells: Wells, models: dict[str, StateModel]) -> None:
        assert same_bits(MAKERS[name]().fit_fetch(three_wells.frames), models[name], three_wells.frames)
        one, other = (
            MAKERS[name](random_state=np.random.default_rng(3)).fit_fetch(three_wells.frames) for _ in range(2)
        )
        assert same_bits(one, other, three_wells.frames)

    def test_global_random_state_is_neither_used_nor_changed(
        self, name: str, three_wells: Wells, models: dict[str, StateModel]
    ) -> None:
        before = np.random.get_state()  # noqa: NPY002
        try:
            np.random.seed(12345)  # noqa: NPY002
            marked = np.random.get_state()  # noqa: NPY002
            model = MAKERS[name]().fit_fetch(three_wells.frames)
            model.sample(three_wells.frames, 3, by="random", random_state=0)
            after = np.random.get_state()  # noqa: NPY002
        finally:
            np.random.set_state(before)  # noqa: NPY002
        assert np.array_equal(marked[1], after[1])
        assert marked[2:] == after[2:]
        assert same_bits(model, models[name], three_wells.frames)

    @pytest.mark.parametrize(
        "duplicate",
        [lambda m: m.copy(), copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))],
        ids=["Model.copy", "copy", "deepcopy", "pickle"],
    )
    def test_copies(
        self, name: str, duplicate: Callable[[Any], Any], models: dict[str, StateModel], new_frames: np.ndarray
    ) -> None:
        twin = duplicate(models[name])
        assert twin is not models[name]
        assert same_bits(twin, models[name], new_frames)
        assert repr(twin) == repr(models[name])

    def test_a_fitted_estimator_can_be_pickled(self, name: str, two_wells: Wells) -> None:
        estimator = MAKERS[name](2).fit(two_wells.frames)
        twin = pickle.loads(pickle.dumps(estimator))
        assert twin.get_params() == estimator.get_params()
        assert same_bits(twin.model, estimator.model, two_wells.frames)

    def test_a_model_does_not_carry_the_data(self, name: str) -> None:
        x = hidden_markov_wells(2000, 3).frames
        size = len(pickle.dumps(MAKERS[name]().fit_fetch(x)))
        assert size < x.nbytes
        assert size < 30_000


class TestShortTrajectories:
    @pytest.mark.parametrize("name", WITH_LAG)
    def test_they_are_counted_and_left_out(self, name: str, three_wells: Wells) -> None:
        x = three_wells.frames
        with pytest.warns(ShortTrajectoryWarning, match=r"2 of 3 .*lagtime=3.*shorter lag time") as record:
            model = MAKERS[name](lagtime=3).fit([x[:3], x, x[:1]]).model
        assert record[0].filename == __file__
        assert other_warnings(model) == [str(record[0].message)]
        assert same_bits(model, MAKERS[name](lagtime=3).fit_fetch(x), x)

    @pytest.mark.parametrize("name", ["MMC", "KMedoids"])
    def test_methods_blind_to_time_use_every_frame(self, name: str, three_wells: Wells) -> None:
        x = three_wells.frames
        pieces = [x[i : i + 1] for i in range(len(x))]
        assert same_bits(MAKERS[name]().fit_fetch(pieces), MAKERS[name]().fit_fetch(x), x)


@by_name
@pytest.mark.parametrize("method", ["transform", "decision_function", "margin", "memberships"])
def test_pieces_of_a_trajectory_are_labelled_as_they_come(
    name: str, method: str, models: dict[str, StateModel], new_frames: np.ndarray
) -> None:
    call = getattr(models[name], method)
    pieces = (new_frames[i : i + 70] for i in range(0, len(new_frames), 70))
    np.testing.assert_allclose(call(pieces), call(new_frames), rtol=1e-12, atol=1e-12)
    with pytest.raises(InputError, match="at its end: each can be read only once"):
        call(pieces)


@by_name
def test_a_bad_frame_among_pieces_is_named(name: str, models: dict[str, StateModel], new_frames: np.ndarray) -> None:
    bad = new_frames.copy()
    bad[101, 1] = np.nan
    with pytest.raises(InputError, match="data holds nan at frame 101, column 1"):
        models[name].transform(iter(np.split(bad, [50, 90])))
