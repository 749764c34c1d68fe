"""MMC: the problem of M3C with windows of one frame, checked against its definition."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from m3c_md import M3C, MMC
from m3c_md.clustering.margin_model import MarginModel, MMCModel
from m3c_md.exceptions import DegenerateSolutionError
from m3c_md.matching import agreement
from m3c_md.optimize.blocks import WindowBlock
from m3c_md.optimize.large_margin import solve_large_margin
from tests.conftest import Wells, hidden_markov_wells, quick


def quick_mmc(n_states: int, **changes: Any) -> MMC:
    return MMC(n_states, **{"bandwidth": 1.0, "starts": ("kmeans",), "random_state": 0, **changes})


def cost(model: MarginModel, frames: np.ndarray, regularization: float) -> float:
    """Objective of the rule from the definition, each frame with its cheapest label, in plain loops."""
    losses = []
    for scores in model.decision_function(frames):
        of_labels = []
        for y in range(len(scores)):
            others = [scores[k] for k in range(len(scores)) if k != y]
            of_labels.append(max(0.0, 1.0 + max(others) - scores[y]))
        losses.append(min(of_labels))
    return float(0.5 * regularization * (model.rule.weights**2).sum() + np.mean(losses))


@pytest.fixture(scope="module")
def overlapping() -> np.ndarray:
    """Three clouds that touch: some frames have a loss."""
    rng = np.random.default_rng(4)
    x: np.ndarray = np.array([[0.0, 0.0], [2.2, 0.0], [1.1, 2.0]])[rng.integers(0, 3, 400)]
    return x + 0.45 * rng.normal(size=x.shape)


@pytest.fixture(scope="module")
def model(three_wells: Wells) -> MMCModel:
    fitted: MMCModel = quick_mmc(3).fit_fetch(three_wells.frames)
    return fitted


class TestObjective:
    @pytest.mark.parametrize("regularization", [3e-3, 5e-2])
    @pytest.mark.parametrize("n_states", [2, 3])
    def test_it_is_what_the_rule_costs(self, n_states: int, regularization: float, overlapping: np.ndarray) -> None:
        model = quick_mmc(n_states, regularization=regularization).fit_fetch(overlapping)
        assert model.objective == pytest.approx(cost(model, overlapping, regularization), rel=1e-6)

    def test_certificate(self, overlapping: np.ndarray, model: MMCModel) -> None:
        for fitted in (model, quick_mmc(3).fit_fetch(overlapping)):
            assert 0.0 <= fitted.gap <= 1e-3
            assert 0.0 < fitted.lower_bound <= fitted.objective
            assert fitted.gap == pytest.approx(1.0 - fitted.lower_bound / fitted.objective, rel=1e-6)

    def test_no_nearby_rule_is_better(self, overlapping: np.ndarray) -> None:
        # The labels may change as well, so a local minimum of the whole problem is tested, not only of the convex part.
        regularization = 1e-2
        model = quick_mmc(3, regularization=regularization).fit_fetch(overlapping)
        rng = np.random.default_rng(0)
        scale = np.abs(model.rule.weights).mean()
        for _ in range(20):
            moved = model.copy()
            moved.rule.weights[...] += 0.05 * scale * rng.normal(size=moved.rule.weights.shape)
            moved.rule.bias[...] += 0.05 * scale * rng.normal(size=moved.rule.bias.shape)
            assert cost(moved, overlapping, regularization) >= model.lower_bound * (1.0 - 1e-9)

    def test_trace_never_rises(self, model: MMCModel) -> None:
        trace = np.array(model.trace)
        assert len(trace) > 0
        assert np.diff(trace).max(initial=-np.inf) <= 1e-9 * trace[0]

    def test_same_as_m3c_on_pairs_of_equal_frames(self, three_wells: Wells, model: MMCModel) -> None:
        # If both slices are the same frame on the right side, the losses of one and two slices are equal.
        x = three_wells.frames
        pairs = quick(3, starts=("kmeans",), reweight=False).fit_fetch((x, x))
        assert model.margin(x).min() > 0.0
        assert pairs.objective == pytest.approx(model.objective, rel=1e-3)
        assert pairs.decision_function(x) == pytest.approx(model.decision_function(x), abs=0.02)
        assert np.array_equal(pairs.transform(x), model.transform(x))

    def test_doubled_frames_do_not_change_it(self, three_wells: Wells, model: MMCModel) -> None:
        x = three_wells.frames
        doubled = quick_mmc(3).fit_fetch([x, x])
        assert doubled.objective == pytest.approx(model.objective, rel=1e-3)


class TestBlindToTime:
    @pytest.mark.parametrize("seed", [0, 1])
    def test_shuffled_frames_have_the_same_clusters(self, seed: int, three_wells: Wells, model: MMCModel) -> None:
        x = three_wells.frames
        other = quick_mmc(3).fit_fetch(np.random.default_rng(seed).permutation(x))
        assert other.objective == pytest.approx(model.objective, rel=2e-4)
        assert np.array_equal(other.transform(x), model.transform(x))

    def test_two_far_wells_that_exchange_in_every_step_are_two_clusters(self) -> None:
        # The mirror image of the test of M3C: here geometry decides, not kinetics.
        rng = np.random.default_rng(0)
        slow = np.tile(np.repeat([0, 1], 40), 5)
        fast = rng.integers(0, 2, size=len(slow))
        x = np.column_stack([4.0 * fast, 1.0 * slow]) + 0.1 * rng.normal(size=(len(slow), 2))
        by_geometry = quick_mmc(2, scale="none", bandwidth=2.0).fit_predict(x)
        by_kinetics = quick(2, scale="none", bandwidth=2.0, starts=("kinetic", "kmeans")).fit_predict(x)
        assert agreement(by_geometry, fast) > 0.98
        assert agreement(by_kinetics, slow) > 0.98

    def test_no_lagtime(self, model: MMCModel) -> None:
        assert "lagtime" not in inspect.signature(MMC).parameters
        assert "reweight" not in inspect.signature(MMC).parameters
        assert not hasattr(model, "lagtime")
        assert "lagtime" not in repr(model)

    def test_every_other_argument_of_m3c_has_the_same_name_and_default(self) -> None:
        ours, theirs = (inspect.signature(cls).parameters for cls in (MMC, M3C))
        assert set(theirs) - set(ours) == {"lagtime", "reweight"}
        different = {name for name in ours if ours[name].default != theirs[name].default}
        assert different == {"metric", "starts"}


class TestTwoClustersOfUnequalSize:
    """At the zero rule single frames of two classes have no curvature, and Newton's first step is far too long."""

    @pytest.mark.parametrize("share", [0.5, 0.6, 0.7, 0.8, 0.95])
    def test_the_large_margin_problem_is_solved(self, share: float) -> None:
        labels = (np.arange(100) >= 100 * share).astype(np.intp)
        x = np.where(labels, 1.0, -1.0)[:, None] + 0.2 * np.random.default_rng(0).normal(size=(100, 1))
        block = WindowBlock(x, np.arange(100)[None], np.full(100, 0.01))
        result = solve_large_margin([block], labels, 2, 3e-3)
        assert result.converged
        assert result.gap <= 1e-3

    def test_clusters_far_apart_are_found(self) -> None:
        x, states = hidden_markov_wells(200, 2, seed=5)
        assert np.bincount(states).tolist() == [151, 49]
        assert agreement(quick_mmc(2, starts=[states]).fit_predict(x), states) > 0.98


class TestSearch:
    def test_default_search(self) -> None:
        x, states = hidden_markov_wells(200, 2, seed=4)
        model = MMC(2, random_state=0).fit_fetch(x)
        assert agreement(model.transform(x), states) > 0.98
        assert {"kmeans", "relaxation"} == set(model.candidates["start"])
        assert model.gap <= 1e-3

    @pytest.mark.parametrize("start", ["kmeans", "kmedoids", "relaxation"])
    def test_every_start_that_looks_at_the_data_leads_there(self, start: str, three_wells: Wells) -> None:
        model = quick_mmc(3, starts=(start,), n_coarse=15).fit_fetch(three_wells.frames)
        assert agreement(model.transform(three_wells.frames), three_wells.states) > 0.98

    def test_labels_of_the_user(self, three_wells: Wells) -> None:
        x, states = three_wells
        cut = [100, 101, 350]
        model = quick_mmc(3, starts=[np.split(states, cut)]).fit_fetch(np.split(x, cut))
        assert agreement(model.transform(x), states) > 0.995
        assert set(model.candidates["start"]) == {"labels 0"}

    def test_labels_of_the_user_for_pairs(self, three_wells: Wells) -> None:
        x, states = three_wells
        model = quick_mmc(3, starts=[[states[:-1], states[1:]]]).fit_fetch((x[:-1], x[1:]))
        assert agreement(model.transform(x), states) > 0.995

    def test_alternatives_are_models_of_mmc(self, three_wells: Wells) -> None:
        model = quick_mmc(3, bandwidth=(0.7, 1.4)).fit_fetch(three_wells.frames)
        for number in range(len(model.candidates)):
            other = model.alternative(number)
            assert type(other) is MMCModel
            assert other.bandwidth == model.candidates["bandwidth"][number]
            assert agreement(other.transform(three_wells.frames), three_wells.states) > 0.98

    def test_settings_of_the_paper(self) -> None:
        ours, theirs = MMC.paper(3, random_state=1).get_params(), M3C.paper(3, random_state=1).get_params()
        assert {name: theirs[name] for name in ours} == ours
        assert MMC.paper(3, n_coarse=7).n_coarse == 7

    def test_the_papers_settings_fit(self, two_wells: Wells) -> None:
        model = MMC.paper(2, n_coarse=12, bandwidth=(0.5, 1.0), random_state=0).fit_fetch(two_wells.frames)
        assert agreement(model.transform(two_wells.frames), two_wells.states) > 0.98


class TestDegenerateSolutions:
    """A constant rule costs next to nothing: it must never be returned."""

    def test_one_cloud_is_refused_where_no_rule_can_part_it(self) -> None:
        cloud = np.random.default_rng(0).normal(size=(300, 2))
        with pytest.raises(DegenerateSolutionError, match=r"state \d of 3, .*fewer states"):
            quick_mmc(3, bandwidth=100.0).fit(cloud)

    def test_they_are_shown_and_never_win(self, two_wells: Wells) -> None:
        model = quick_mmc(2, bandwidth=(1.0, 1e4), metric="standard").fit_fetch(two_wells.frames)
        table = model.candidates.set_index("bandwidth")
        assert table.loc[1.0, "fate"] == "winner"
        assert table.loc[1e4, "fate"] == "dropped: by its least-squares rule"
        assert model.populations.min() > 0.01

    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")
    @pytest.mark.parametrize("regularization", [1e-3, 1e-1, 1.0])
    def test_every_state_has_frames_however_smooth_the_rule(
        self, regularization: float, overlapping: np.ndarray
    ) -> None:
        try:
            model = quick_mmc(3, regularization=regularization).fit_fetch(overlapping)
        except DegenerateSolutionError:
            return
        assert np.bincount(model.transform(overlapping), minlength=3).min() >= 0.005 * len(overlapping)
