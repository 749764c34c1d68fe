"""Polish by looks at all data: the same rule as with all features in memory, and a certificate that holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from m3c_md import M3C, MMC
from m3c_md.frames.source import LocalSource
from m3c_md.frames.windows import FeatureBlocks
from m3c_md.matching import agreement
from m3c_md.optimize.blocks import all_label_costs
from m3c_md.optimize.large_margin import minimise_smoothed, solve_large_margin
from m3c_md.search import candidates as candidates_module
from m3c_md.search import polish as polish_module
from m3c_md.search import rungs as rungs_module
from m3c_md.search.local_search import local_search
from m3c_md.search.polish import polish_on_all_data
from m3c_md.search.problem import Kernel
from m3c_md.search.selection import judge
from tests.conftest import hidden_markov_wells
from tests.search._data import problem_of, switching

BANDWIDTH = 2.5


@pytest.fixture(scope="module")
def trajectories():
    return switching([1500, 900], np.random.default_rng(0), spread=1.0)[0]


def case_of(trajectories):
    """A problem, all its data as a source, and a candidate found on a tenth of the windows."""
    problem = problem_of(trajectories, 3, n_features=24)
    chosen = np.arange(0, problem.data.n_windows, 10)
    blocks = FeatureBlocks(problem.data, problem.feature_map(BANDWIDTH), problem.weights[chosen], chosen)
    wells = np.argmin(((problem.data.frames[:, None] - [[0, 0], [4, 0], [0, 4]]) ** 2).sum(axis=-1), axis=1)
    optimum = local_search(blocks, wells[problem.data.windows[0, chosen]], problem.settings, gap=1e-2)
    candidate = judge(problem, "wells", Kernel(BANDWIDTH), blocks, optimum, "class-averaged", chosen, problem.settings)
    return replace(problem, everything=LocalSource(trajectories, 1)), candidate


@pytest.fixture(scope="module")
def case(trajectories):
    return case_of(trajectories)


def in_memory(problem, rule):
    """Where a search with all features in memory goes from a rule."""
    blocks = FeatureBlocks(problem.data, problem.feature_map(BANDWIDTH), problem.weights)
    labels = all_label_costs(blocks, rule).argmin(axis=1)
    optimum = local_search(blocks, labels, problem.settings, start=rule, gap=1e-5)
    return judge(
        problem, "wells", Kernel(BANDWIDTH), blocks, optimum, "class-averaged", np.arange(len(labels)), problem.settings
    )


@pytest.mark.parametrize("sample", [500, 10**6])
def test_there_is_nothing_left_to_gain_in_memory(case, sample):
    problem, candidate = case
    polished = polish_on_all_data(problem, problem.everything, candidate, "class-averaged", 1e-2, sample)
    assert polished.optimum.gap <= 1e-2
    assert polished.optimum.converged
    exact = in_memory(problem, polished.optimum.rule)
    assert polished.optimum.objective == pytest.approx(exact.optimum.objective, rel=2e-3)
    assert polished.score == pytest.approx(exact.score, rel=1e-2)
    assert polished.metastability == pytest.approx(exact.metastability, abs=5e-3)
    np.testing.assert_allclose(polished.populations, exact.populations, atol=5e-3)
    assert polished.n_windows == problem.n_windows


@pytest.mark.parametrize("gap", [1e-3, 1e-6])
def test_any_gap_that_is_asked_for_is_reached(case, gap):
    problem, candidate = case
    polished = polish_on_all_data(problem, problem.everything, candidate, "objective", gap, 500)
    assert polished.optimum.gap <= gap
    assert polished.score == polished.optimum.objective
    assert polished.optimum.objective <= in_memory(problem, polished.optimum.rule).optimum.objective * (1.0 + gap)


@pytest.mark.parametrize("seed", [1, 3, 4, 5])
def test_a_small_sample_does_not_lead_round_in_circles(seed, monkeypatch):
    """Full steps do here: twenty looks, and then all windows have to be brought into memory."""
    problem, candidate = case_of(switching([1500, 900], np.random.default_rng(seed), spread=1.0)[0])
    monkeypatch.setattr("m3c_md.search.polish.local_search", lambda *_, **__: pytest.fail("the looks missed the gap"))
    polished = polish_on_all_data(problem, problem.everything, candidate, "class-averaged", 1e-2, 800)
    assert polished.optimum.gap <= 1e-2
    assert polished.optimum.iterations <= 15


def test_labels_that_go_on_changing_do_not_keep_the_next_look_waiting(case, monkeypatch):
    """Where a state is being lost, labels change in every round: one such look took ten seconds."""
    problem, candidate = case
    rounds, looks = [], []

    def counted(*arguments, **options):
        rounds.append(len(looks))
        return minimise_smoothed(*arguments, **options)

    monkeypatch.setattr(polish_module, "minimise_smoothed", counted)
    monkeypatch.setattr(polish_module, "STILL_LABELS", -1.0)
    polish_on_all_data(problem, problem.everything, candidate, "objective", 1e-2, 300, looks.append)
    assert 0 < max(np.bincount(rounds)) <= 6


def test_labels_that_do_not_come_to_rest_are_certified_as_they_are(monkeypatch):
    """Where there are no states, labels change for ever: on 22,000 pairs of noise they did for 30 rounds and 22 s."""
    problem, candidate = case_of([np.random.default_rng(0).normal(1.3, 2.0, size=(3000, 2))])
    monkeypatch.setattr(polish_module, "MAX_LOOKS", 1)
    monkeypatch.setattr(polish_module, "EXACT_ROUNDS", 1)
    polished = polish_on_all_data(problem, problem.everything, candidate, "class-averaged", 1e-4, 300)
    assert polished.optimum.gap <= 1e-4
    # Its own labels are cheaper yet, but no other rule is cheaper with those that it was fitted to.
    blocks = FeatureBlocks(problem.data, problem.feature_map(BANDWIDTH), problem.weights)
    penalty = problem.settings.penalty(polished.optimum.rule)
    own = penalty + all_label_costs(blocks, polished.optimum.rule).min(axis=1).sum()
    assert own <= polished.optimum.objective * (1.0 + 1e-6)


def test_the_certificate_is_one_for_the_labels_of_the_rule(case):
    problem, candidate = case
    polished = polish_on_all_data(problem, problem.everything, candidate, "class-averaged", 1e-2, 500)
    blocks = FeatureBlocks(problem.data, problem.feature_map(BANDWIDTH), problem.weights)
    costs = all_label_costs(blocks, polished.optimum.rule)
    labels = costs.argmin(axis=1)
    penalty = 0.5 * problem.settings.regularization * float((polished.optimum.rule.weights**2).sum())
    assert polished.optimum.objective == pytest.approx(penalty + costs.min(axis=1).sum(), rel=1e-5)
    exact = solve_large_margin(blocks, labels, 3, problem.settings.regularization, tolerance=1e-7)
    assert polished.optimum.lower_bound <= exact.objective * (1.0 + 1e-6)
    assert polished.optimum.objective >= exact.lower_bound * (1.0 - 1e-6)


@pytest.mark.parametrize("estimator", [M3C(3, random_state=0), MMC(3, random_state=0)], ids=["M3C", "MMC"])
def test_a_streamed_fit_is_the_fit_in_memory(estimator, monkeypatch):
    wells = hidden_markov_wells(3000, 3)
    trajectories = [wells.frames[:1800], wells.frames[1800:]]
    whole = estimator.fit_fetch(trajectories)
    monkeypatch.setattr("m3c_md.clustering.margin_search.STREAMED", 2000)
    monkeypatch.setattr(rungs_module, "RUNGS", ((1000, 4), (2000, 2)))
    streamed = estimator.fit_fetch(trajectories)
    assert streamed.gap <= 1e-2
    assert agreement(streamed.transform(wells.frames), wells.states) > 0.98
    assert agreement(streamed.transform(wells.frames), whole.transform(wells.frames)) > 0.995
    assert streamed.candidates["windows"][0] == whole.candidates["windows"][0]
    # States are counted on all frames.
    counts = np.bincount(streamed.transform(wells.frames), minlength=3) / 3000
    np.testing.assert_allclose(streamed.populations, counts, atol=1e-3)


def test_streamed_fits_are_reproducible_and_know_files(monkeypatch, tmp_path):
    monkeypatch.setattr("m3c_md.clustering.margin_search.STREAMED", 1000)
    monkeypatch.setattr("m3c_md.clustering.margin_search.SEARCHED", 1500)
    monkeypatch.setattr(rungs_module, "RUNGS", ((500, 4), (1000, 2)))
    frames = hidden_markov_wells(4000, 3).frames
    np.save(tmp_path / "x.npy", frames)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    models = [M3C(3, random_state=5).fit_fetch(x) for x in (frames, frames, mapped)]
    for model in models[1:]:
        np.testing.assert_array_equal(model.decision_function(frames), models[0].decision_function(frames))
        assert model.objective == models[0].objective


def test_starts_of_the_user_are_seen_by_a_streamed_fit(monkeypatch):
    monkeypatch.setattr("m3c_md.clustering.margin_search.STREAMED", 1000)
    monkeypatch.setattr("m3c_md.clustering.margin_search.SEARCHED", 1500)
    monkeypatch.setattr(rungs_module, "RUNGS", ((500, 4), (1000, 2)))
    wells = hidden_markov_wells(4000, 3)
    model = M3C(3, starts=[[wells.states]], bandwidth=1.0, random_state=0).fit_fetch([wells.frames])
    assert agreement(model.transform(wells.frames), wells.states) > 0.98


def test_weights_of_all_windows_are_used(monkeypatch):
    """Trajectories that roll down a slope first are reweighted in a streamed fit as in one in memory."""
    rng = np.random.default_rng(0)
    trajectories = []
    for i in range(60):
        side = 1.0 if i % 2 else -1.0
        slope = np.linspace(6.0 * side, side, 30)
        stay = np.repeat(rng.choice([-1.0, 1.0], size=3), 12)
        trajectories.append((np.concatenate([slope, stay]) + 0.2 * rng.normal(size=66))[:, None])
    sides = [(x[:, 0] > 0.0).astype(int) for x in trajectories]
    estimator = M3C(2, starts=[sides], bandwidth=1.0, random_state=0)
    whole = estimator.fit_fetch(trajectories)
    monkeypatch.setattr("m3c_md.clustering.margin_search.STREAMED", 1000)
    monkeypatch.setattr(rungs_module, "RUNGS", ((500, 4), (1000, 2)))
    streamed = estimator.fit_fetch(trajectories)
    assert whole.effective_sample < 0.98
    assert streamed.effective_sample == pytest.approx(whole.effective_sample)
    assert streamed.objective == pytest.approx(whole.objective, rel=1e-2)


def test_the_bar_of_a_streamed_fit_only_moves_forward(monkeypatch):
    monkeypatch.setattr("m3c_md.clustering.margin_search.STREAMED", 1000)
    monkeypatch.setattr(rungs_module, "RUNGS", ((500, 4), (1000, 2)))
    shares = []
    original = candidates_module.Search.report

    def watched(search, share):
        original(search, share)
        shares.append(search._share)

    monkeypatch.setattr(candidates_module.Search, "report", watched)
    M3C(3, random_state=0).fit(hidden_markov_wells(2000, 3).frames)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert any(0.9 < share < 1.0 for share in shares)
