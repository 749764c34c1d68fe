"""Metrics of an estimator: given ones are checked and used, learned ones find the columns that matter and are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from deeptime.decomposition import TICA
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from m3c_md import M3C, MMC, M3CModel, load_model
from m3c_md.clustering.training_data import FEWEST_TO_LEARN
from m3c_md.exceptions import InputError
from m3c_md.matching import agreement
from m3c_md.search import runner as runner_module
from m3c_md.search.rungs import STREAMED
from tests.conftest import Wells, hidden_markov_wells, quick

pytestmark = pytest.mark.filterwarnings("ignore::m3c_md.exceptions.FewVisitsWarning")

# What tells three states apart in four columns.
CENTRES = np.array([[0.0, 2.0, -1.0, 1.0], [2.0, 0.0, 1.0, -1.0], [-2.0, -2.0, 0.0, 0.0]])
NAMES = [f"true {i}" for i in range(4)] + [f"noise {i}" for i in range(30)]


def among_noise(n_frames: int = 2500, n_noise: int = 30, seed: int = 0) -> Wells:
    """Three states in four columns, and columns of noise after them that are as wide."""
    rng = np.random.default_rng(seed)
    states = np.cumsum(np.where(rng.random(n_frames) < 0.97, 0, rng.integers(1, 3, n_frames))) % 3
    telling = CENTRES[states] + 0.8 * rng.normal(size=(n_frames, 4))
    return Wells(np.hstack([telling, 1.5 * rng.normal(size=(n_frames, n_noise))]), states)


@pytest.fixture(scope="module")
def noisy() -> Wells:
    return among_noise()


@pytest.fixture(scope="module")
def model(noisy: Wells) -> M3CModel:
    found: M3CModel = M3C(3, random_state=0).fit_fetch(pd.DataFrame(noisy.frames, columns=NAMES))
    return found


def as_frame(x: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(x, columns=NAMES)


def same(one: Any, other: Any, x: Any) -> None:
    assert_array_equal(one.decision_function(x), other.decision_function(x))
    assert_array_equal(one.metric, other.metric)
    pd.testing.assert_frame_equal(one.candidates, other.candidates)


class TestLearned:
    def test_the_states_are_found_among_noise(self, model: M3CModel, noisy: Wells) -> None:
        assert agreement(model.transform(as_frame(noisy.frames)), noisy.states) > 0.97
        fresh = among_noise(seed=1)
        assert agreement(model.transform(as_frame(fresh.frames)), fresh.states) > 0.97

    def test_relevance_names_the_columns_that_matter(self, model: M3CModel) -> None:
        relevance = model.relevance
        assert list(relevance.index) == NAMES
        assert relevance.sum() == pytest.approx(1.0)
        assert relevance.min() >= 0.0
        assert set(relevance.sort_values().index[-4:]) == set(NAMES[:4])
        assert relevance.iloc[:4].sum() > 0.8

    def test_the_metric_is_a_matrix_of_squared_distances(self, model: M3CModel, noisy: Wells) -> None:
        assert model.metric.shape == (34, 34)
        assert_allclose(model.metric, model.metric.T)
        assert np.linalg.eigvalsh(model.metric).min() > -1e-9 * np.trace(model.metric)
        # In the unit of scaled columns, whatever the metric; windows have the first and the last frames once only.
        spread = np.cov(noisy.frames.T, ddof=0)
        assert np.trace(model.metric @ spread) == pytest.approx(34.0, rel=1e-3)

    def test_certificate_and_traces(self, model: M3CModel) -> None:
        assert 0.0 <= model.gap <= 1e-3
        assert model.lower_bound <= model.objective
        for record in model.records:
            assert np.diff(record.optimum.trace).max(initial=-np.inf) <= 1e-6 * record.optimum.trace[0]

    def test_every_alternative_has_its_own_metric(self, model: M3CModel, noisy: Wells) -> None:
        table = model.candidates
        assert len(set(table["metric"])) > 2
        for metric in set(table["metric"]):
            other = model.alternative(int(np.flatnonzero(table["metric"] == metric)[0]))
            assert_array_equal(other.metric, model.metrics[metric].full_matrix())
            assert set(other.transform(as_frame(noisy.frames[:200]))) <= {0, 1, 2}

    def test_units_of_the_columns_do_not_matter(self, noisy: Wells) -> None:
        x, units = noisy.frames[:1600, :12], 2.0 ** np.arange(-12.0, 12.0, 2.0)
        one, other = (quick(3, bandwidth="auto").fit_fetch(frames) for frames in (x, x * units))
        assert_array_equal(one.transform(x), other.transform(x * units))
        assert_allclose(other.relevance, one.relevance)
        assert_allclose(other.metric * np.outer(units, units), one.metric)

    def test_rounding_of_units_and_origins_hardly_matters(self, noisy: Wells) -> None:
        x, units = noisy.frames[:1600, :12], np.geomspace(1e-4, 1e4, 12)
        one, other = (quick(3, bandwidth="auto").fit_fetch(frames) for frames in (x, x * units + 3.0 * units))
        assert agreement(one.transform(x), other.transform(x * units + 3.0 * units)) > 0.99
        assert_allclose(other.relevance, one.relevance, atol=0.02)

    def test_a_file_holds_all_of_it(self, model: M3CModel, noisy: Wells, tmp_path: Path) -> None:
        model.save(tmp_path / "model.m3c")
        again, x = load_model(tmp_path / "model.m3c"), as_frame(noisy.frames)
        same(again, model, x)
        pd.testing.assert_series_equal(again.relevance, model.relevance)
        assert_array_equal(again.slow_coordinates(x), model.slow_coordinates(x))
        for number in range(len(model.candidates)):
            assert_array_equal(
                again.alternative(number).decision_function(x[:50]), model.alternative(number).decision_function(x[:50])
            )

    @pytest.mark.parametrize("metric", ["learned", "kinetic"])
    def test_so_does_one_with_random_phases(self, metric: str, noisy: Wells, tmp_path: Path) -> None:
        x = noisy.frames[:800, :10]
        fitted = quick(3, features="fourier", metric=metric, bandwidth=3.0).fit_fetch(x)
        fitted.save(tmp_path / "model.m3c")
        again = load_model(tmp_path / "model.m3c")
        for number in range(len(fitted.candidates)):
            assert_array_equal(
                again.alternative(number).decision_function(x), fitted.alternative(number).decision_function(x)
            )


class TestSlowCoordinates:
    def test_they_are_projections_on_the_directions_of_the_sensitivity(self, model: M3CModel, noisy: Wells) -> None:
        x = noisy.frames
        found = model.slow_coordinates(as_frame(x), 2)
        directions = model.sensitivity[:, :2] / np.linalg.norm(model.sensitivity[:, :2], axis=0)
        assert_allclose(directions.T @ directions, np.eye(2), atol=1e-6)
        expected = ((x - x.mean(axis=0)) / x.std(axis=0)) @ directions
        assert_allclose(np.abs(found), np.abs(expected), atol=1e-8)

    def test_two_of_them_show_three_states(self, model: M3CModel, noisy: Wells) -> None:
        y = model.slow_coordinates(as_frame(noisy.frames))
        assert y.shape == (len(noisy.frames), 2)
        centres = np.array([y[noisy.states == k].mean(axis=0) for k in range(3)])
        nearest = ((y[:, None] - centres) ** 2).sum(axis=-1).argmin(axis=1)
        assert (nearest == noisy.states).mean() > 0.95

    def test_the_largest_component_is_positive(self, model: M3CModel) -> None:
        center, n = model.feature_map.center, 3
        along = model.slow_coordinates(as_frame(center + np.diag(model.spread)), n)
        for column in range(n):
            assert along[np.abs(along[:, column]).argmax(), column] > 0.0

    def test_trajectories_come_back_as_they_were_given(self, model: M3CModel, noisy: Wells) -> None:
        parts = [as_frame(noisy.frames[:100]), as_frame(noisy.frames[100:130])]
        found = model.slow_coordinates(parts, 1)
        assert [y.shape for y in found] == [(100, 1), (30, 1)]
        assert_allclose(np.concatenate(found), model.slow_coordinates(as_frame(noisy.frames[:130]), 1))

    def test_numbers_that_cannot_be(self, model: M3CModel, noisy: Wells) -> None:
        most = model.sensitivity.shape[1]
        assert model.slow_coordinates(as_frame(noisy.frames[:5]), most).shape == (5, most)
        with pytest.raises(InputError, match=rf"^n={most + 1} must be 1 to {most}"):
            model.slow_coordinates(as_frame(noisy.frames), most + 1)
        with pytest.raises(InputError, match=r"^n=0 must be a whole number of at least 1"):
            model.slow_coordinates(as_frame(noisy.frames), 0)
        with pytest.raises(InputError, match="has 7 columns, but the model was fitted to 34"):
            model.slow_coordinates(noisy.frames[:, :7])


class TestSameSeedSameAnswer:
    @pytest.fixture(scope="class")
    @staticmethod
    def data() -> np.ndarray:
        return among_noise(1600, 6).frames

    def estimator(self, **changes: Any) -> M3C:
        return M3C(3, starts=("kinetic", "kmeans"), random_state=0, **changes)

    def test_for_any_number_of_processes(self, data: np.ndarray) -> None:
        one, two = (self.estimator(n_jobs=n_jobs).fit_fetch(data) for n_jobs in (1, 2))
        assert any(name.startswith("learned") for name in one.candidates["metric"])
        same(one, two, data)

    def test_for_a_fit_that_was_stopped(
        self, data: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expected = self.estimator().fit_fetch(data)
        original, calls = runner_module.optimise_kernel, []

        def stopping(problem: Any, kernel: Any, *rest: Any) -> Any:
            if kernel.metric.startswith("learned") and calls.count("learned") == 2:
                raise KeyboardInterrupt
            calls.append(kernel.metric.partition(" ")[0])
            return original(problem, kernel, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(runner_module, "optimise_kernel", stopping)
            with pytest.raises(KeyboardInterrupt):
                self.estimator().fit(data, checkpoint=tmp_path / "fit")
        assert calls.count("learned") == 2
        again = []

        def counting(problem: Any, kernel: Any, *rest: Any) -> Any:
            again.append(kernel)
            return original(problem, kernel, *rest)

        monkeypatch.setattr(runner_module, "optimise_kernel", counting)
        resumed = self.estimator().fit(data, checkpoint=tmp_path / "fit").fetch_model()
        same(resumed, expected, data)
        n_left = len(again)
        again.clear()
        self.estimator().fit(data)
        assert 0 < n_left == len(again) - len(calls)

    def test_another_metric_does_not_go_on_from_there(self, data: np.ndarray, tmp_path: Path) -> None:
        self.estimator().fit(data[:300], checkpoint=tmp_path / "fit")
        with pytest.raises(InputError, match="belongs to a fit with other data or other settings"):
            self.estimator(metric="learned").fit(data[:300], checkpoint=tmp_path / "fit")


class TestGiven:
    @pytest.fixture(scope="class")
    @staticmethod
    def wells() -> Wells:
        """Two columns with three states and four of noise that is ten times as wide."""
        x, states = hidden_markov_wells(800, 3)
        return Wells(np.hstack([x, 10.0 * np.random.default_rng(0).normal(size=(800, 4))]), states)

    def fit(self, wells: Wells, metric: Any, **changes: Any) -> M3CModel:
        found: M3CModel = quick(3, **{"bandwidth": "auto", "metric": metric, **changes}).fit_fetch(wells.frames)
        return found

    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")  # noise has no states
    def test_only_what_it_shows_is_seen(self, wells: Wells) -> None:
        found = self.fit(wells, np.eye(6)[:, :2])
        assert set(found.candidates["metric"]) == {"given"}
        assert agreement(found.transform(wells.frames), wells.states) > 0.98
        assert found.relevance[:2].sum() == pytest.approx(1.0)
        assert not found.metric[2:].any()
        wrong = self.fit(wells, np.eye(6)[:, 2:], starts=("kinetic", "kmeans"), selection="objective")
        assert agreement(wrong.transform(wells.frames), wells.states) < 0.6

    def test_factors_are_a_diagonal_matrix(self, wells: Wells) -> None:
        factors = [1.0, 1.0, 0.0, 0.0, 0.01, 0.0]
        one, other = (self.fit(wells, metric) for metric in (factors, np.diag(factors)))
        assert_array_equal(one.transform(wells.frames), other.transform(wells.frames))
        assert_allclose(one.metric, other.metric)

    @pytest.mark.parametrize("factor", [7.0, 1e-60, 1e200])
    def test_its_unit_does_not_matter_nor_do_bandwidths_change(self, factor: float, wells: Wells) -> None:
        one, other = (self.fit(wells, c * np.eye(6)[:, :2], bandwidth=(1.0, 2.0)) for c in (1.0, factor))
        assert one.bandwidth == other.bandwidth
        assert_allclose(other.metric, one.metric)
        assert_array_equal(one.transform(wells.frames), other.transform(wells.frames))

    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")  # some do not show the states
    @pytest.mark.parametrize("name", ["PCA", "scaler", "TICA", "single precision", "frame"])
    def test_linear_transformers_are_matrices(self, name: str, wells: Wells) -> None:
        x = wells.frames
        transformer: Any = {
            "PCA": lambda: PCA(3).fit(x),
            "scaler": lambda: StandardScaler().fit(x),
            "TICA": lambda: TICA(lagtime=1, dim=2).fit((x[:-1], x[1:])).fetch_model(),
            "single precision": lambda: FunctionTransformer(
                lambda y: (y.astype(np.float32) - 5.0) @ x[:6, :3].astype("f4")
            ),
            "frame": lambda: PCA(2).fit(pd.DataFrame(x, columns=list("abcdef"))),
        }[name]()
        # Right labels, as far as these coordinates go: the metric is what this is about.
        found = self.fit(wells, transformer, starts=[wells.states], regularization=1e-4)
        shown = pd.DataFrame(x[:100], columns=list("abcdef")) if name == "frame" else x[:100]
        y = np.asarray(transformer.transform(shown), dtype=float)
        expected = ((y[:, None] - y) ** 2).sum(axis=-1)
        squared = np.einsum("ijk,kl,ijl->ij", x[:100, None] - x[:100], found.metric, x[:100, None] - x[:100])
        assert_allclose(squared / squared.max(), expected / expected.max(), atol=1e-4)
        if name == "TICA":
            assert agreement(found.transform(x), wells.states) > 0.98

    @pytest.mark.parametrize(
        ("metric", "message"),
        [
            (np.eye(5), r"metric has the shape \(5, 5\) for data with 6 columns; give a matrix of the shape \(6, n\)"),
            (np.ones(7), r"metric has the shape \(7,\) for data with 6 columns; .* or 6 factors"),
            (PCA(2), r"^metric=PCA.* could not transform frames of 6 columns .*; fit it first"),
            (PCA(2).fit(np.eye(4)), r"^metric=PCA.* could not transform frames of 6 columns .*; fit it first"),
            (FunctionTransformer(np.sin), r"^metric=FunctionTransformer.* is not linear"),
            (FunctionTransformer(np.abs), r"^metric=FunctionTransformer.* is not linear"),
            (FunctionTransformer(lambda x: 1e4 + np.sin(x)), r"^metric=FunctionTransformer.* is not linear"),
            (
                FunctionTransformer(lambda x: x * np.nan),
                r"^metric=FunctionTransformer.*, or numbers that are not finite",
            ),
            (FunctionTransformer(lambda x: x[:, 0]), r"^metric=Function.* an array of shape \(57,\)"),
            (FunctionTransformer(lambda x: 0.0 * x), r"^metric=Function.* makes all frames equal; fit it to data"),
        ],
        ids=range(10),
    )
    def test_what_is_no_metric_of_these_columns(self, metric: Any, message: str, wells: Wells) -> None:
        with pytest.raises(InputError, match=f"(?s){message}"):
            self.fit(wells, metric)

    def test_a_metric_that_sees_constant_columns_only(self, wells: Wells) -> None:
        x = np.column_stack([wells.frames[:, :2], np.full(800, 3.0)])
        with pytest.raises(InputError, match=r"(?s)^metric=.* makes all frames equal; include columns that vary"):
            quick(3, metric=[0.0, 0.0, 1.0]).fit(x)

    def test_an_estimator_with_a_matrix_can_be_shown_and_copied(self) -> None:
        from sklearn.base import clone

        estimator = M3C(2, metric=np.eye(2))
        assert "metric" in repr(estimator)
        assert_array_equal(clone(estimator).metric, np.eye(2))


class TestOddColumns:
    """Columns that say nothing, or what others say: states are found all the same."""

    @pytest.mark.parametrize("metric", ["auto", "kinetic", "learned"])
    @pytest.mark.parametrize("name", ["constant", "repeated", "collinear", "nearly constant"])
    def test_they_do_no_harm(self, name: str, metric: str, three_wells: Wells) -> None:
        x, rng = three_wells.frames, np.random.default_rng(0)
        more = {
            "constant": np.full((600, 8), 0.1),
            "repeated": np.repeat(x[:, :1], 8, axis=1),
            "collinear": x @ rng.normal(size=(2, 8)),
            "nearly constant": 0.1 + 1e-14 * rng.integers(0, 2, size=(600, 8)),
        }[name]
        model = quick(3, metric=metric, bandwidth="auto").fit_fetch(np.hstack([x, more]))
        assert agreement(model.transform(np.hstack([x, more])), three_wells.states) > 0.97
        assert np.isfinite(model.relevance).all()
        assert model.relevance.sum() == pytest.approx(1.0)
        if name == "constant":
            assert model.relevance[2:].max() < 1e-6

    @pytest.mark.parametrize("metric", ["auto", "kinetic", "learned"])
    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")
    def test_more_columns_than_frames(self, metric: str) -> None:
        """So few frames do not tell what is slow; that they are clustered, and nothing is infinite, is all there is."""
        x, _ = hidden_markov_wells(120, 2, stay=0.9)
        wide = np.hstack([x, 0.1 * np.random.default_rng(0).normal(size=(120, 200))])
        model = quick(2, bandwidth="auto", scale="none", metric=metric).fit_fetch(wide)
        assert model.relevance.sum() == pytest.approx(1.0)
        assert model.populations.min() > 0.01
        assert np.isfinite(model.metric).all()


class TestWays:
    def test_a_single_bandwidth(self, noisy: Wells) -> None:
        x = noisy.frames[:1600, :14]
        model = M3C(3, bandwidth=3.0, random_state=0).fit_fetch(x)
        assert set(model.candidates["bandwidth"]) == {3.0}
        assert len(set(model.candidates["metric"])) > 2
        assert agreement(model.transform(x), noisy.states[:1600]) > 0.95

    def test_clusters_of_single_frames_learn_too(self) -> None:
        """Clouds far apart in two columns of ten; MMC knows no time, so no metric is a kinetic one."""
        rng = np.random.default_rng(0)
        clouds = rng.integers(0, 3, 900)
        x = np.hstack([4.0 * CENTRES[clouds, :2] + rng.normal(size=(900, 2)), 2.0 * rng.normal(size=(900, 8))])
        model = MMC(3, starts=("kmeans",), scale="none", metric="learned", random_state=0).fit_fetch(x)
        metrics = set(model.candidates["metric"])
        assert any(name.startswith("learned") for name in metrics)
        assert not any("kinetic" in name or "slow" in name or "shared" in name for name in metrics)
        assert agreement(model.transform(x), clouds) > 0.95
        assert model.relevance[:2].sum() > 0.8

    def test_a_stream_of_many_windows(self) -> None:
        x, states = among_noise(STREAMED + 1500, 8)
        assert x.shape[1] == 12
        model = M3C(3, random_state=0).fit_fetch([x[:9000], x[9000:]])
        assert model.candidates["windows"][0] == len(x) - 2
        assert model.gap <= 1e-2
        assert agreement(model.transform(x), states) > 0.97
        assert set(model.relevance.sort_values().index[-4:]) == {0, 1, 2, 3}

    def test_a_rare_state_is_kept_in_a_stream_as_in_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A state of two per cent: the last step on all data must weigh it as the search did."""
        rng = np.random.default_rng(0)
        states = np.concatenate([np.repeat(rng.permutation([0, 1] * 20), 49), np.full(40, 2)])
        states = np.concatenate([np.roll(states, 200 * i) for i in range(3)])
        x = np.array([[0.0, 0.0], [3.0, 0.0], [1.5, 2.2]])[states] + 0.5 * rng.normal(size=(len(states), 2))
        parts = np.split(x, 6)
        estimator = quick(3, bandwidth="auto", starts=("kinetic", "lumping"), metric="standard")
        in_memory = estimator.fit_fetch(parts)
        monkeypatch.setattr("m3c_md.clustering.margin_search.STREAMED", 1000)
        streamed = estimator.fit_fetch(parts)
        for found in (in_memory, streamed):
            assert agreement(found.transform(x), states) > 0.97
            assert 0.01 < found.populations[-1] < 0.04
        assert agreement(in_memory.transform(x), streamed.transform(x)) > 0.99


@pytest.mark.filterwarnings("ignore:")
def test_nothing_is_learned_from_fewer_windows_than_columns_deserve() -> None:
    """Among as many columns as frames some tell any labels apart, and a metric learned from them would be chance."""
    rng = np.random.default_rng(0)
    state = np.repeat([0, 1] * 3, 20)
    x = np.hstack([4.0 * state[:, None] + rng.normal(size=(120, 1)), rng.normal(size=(120, 200))])
    model = M3C(2, random_state=0).fit_fetch(x)
    assert not any(name.startswith("learned") for name in model.candidates["metric"])


@pytest.mark.parametrize("n_windows", [FEWEST_TO_LEARN - 1, FEWEST_TO_LEARN])
def test_metrics_compete_from_enough_windows_up(n_windows: int) -> None:
    x = among_noise(n_windows + 1, 6).frames
    model = M3C(3, random_state=0).fit_fetch(x)
    assert (set(model.candidates["metric"]) == {"standard"}) == (n_windows < FEWEST_TO_LEARN)
