"""Fewer features for trials: nothing is lost that a rule can see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from m3c_md.frames.windows import FeatureBlocks
from m3c_md.optimize.blocks import Rule, WindowBlock
from m3c_md.optimize.large_margin import solve_large_margin
from m3c_md.search.compression import compressed, compressed_rule, expanded_rule, principal_directions
from m3c_md.search.label_modes import IN_MEMORY_GAP
from m3c_md.search.problem import Kernel
from m3c_md.search.steps import TRIAL_GAP, SearchOptions, optimise_kernel, polish_winner
from m3c_md.search.trials import Trial
from tests.search._data import problem_of, switching


def one_column(bandwidth: float, rng: np.random.Generator) -> tuple[list[WindowBlock], np.ndarray]:
    """Pairs of frames of one column, as blocks of 100 features, and labels by sign."""
    x = rng.normal(size=(600, 1))
    frequencies = rng.normal(size=(1, 100)) / bandwidth
    features = np.sqrt(2.0 / 100) * np.cos(x @ frequencies + rng.uniform(0.0, 2.0 * np.pi, 100))
    windows = np.stack([np.arange(300), np.arange(300, 600)])
    return [WindowBlock(features, windows, np.full(300, 1 / 300))], (x[:300, 0] > 0.0).astype(np.intp)


@pytest.mark.parametrize("bandwidth", [0.5, 2.0])
def test_optimum_of_few_directions_is_that_of_all_features(bandwidth: float) -> None:
    blocks, labels = one_column(bandwidth, np.random.default_rng(0))
    directions = principal_directions(blocks)
    assert directions is not None
    assert directions.shape[1] < 30
    np.testing.assert_allclose(directions.T @ directions, np.eye(directions.shape[1]), atol=1e-12)
    whole = solve_large_margin(blocks, labels, 2, 3e-3, tolerance=1e-6)
    few = solve_large_margin(compressed(blocks, directions), labels, 2, 3e-3, tolerance=1e-6)
    assert few.objective == pytest.approx(whole.objective, rel=1e-3)
    scores = expanded_rule(few.rule, directions).scores(blocks[0].features)
    np.testing.assert_allclose(scores, few.rule.scores(compressed(blocks, directions)[0].features), atol=1e-9)


def test_rules_go_there_and_back() -> None:
    blocks, _ = one_column(1.0, np.random.default_rng(1))
    directions = principal_directions(blocks)
    assert directions is not None
    rng = np.random.default_rng(2)
    rule = Rule(rng.normal(size=(3, directions.shape[1])), rng.normal(size=3))
    back = compressed_rule(expanded_rule(rule, directions), directions)
    np.testing.assert_allclose(back.weights, rule.weights, atol=1e-12)
    np.testing.assert_array_equal(back.bias, rule.bias)


def test_the_certificate_of_a_winner_is_that_of_all_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial that leaves out much has a bound that is none: polishing does not take it over, however good it looks."""
    monkeypatch.setattr("m3c_md.search.compression.LEFT_OUT", 0.3)
    trajectories, wells = switching([150, 150], np.random.default_rng(0), np.array([[-2.0], [2.0]]))
    problem = problem_of(trajectories, 2, n_features=40)
    chosen = np.arange(problem.data.n_windows)
    trial = Trial("kmeans", labels=np.concatenate(wells)[problem.data.windows[0]])
    (candidate,), _ = optimise_kernel(problem, Kernel(2.0), [trial], chosen, "objective", TRIAL_GAP)
    blocks = FeatureBlocks(problem.data, problem.feature_map(2.0), problem.weights)
    best = solve_large_margin(blocks, candidate.optimum.labels, 2, problem.settings.regularization, tolerance=1e-8)
    assert candidate.optimum.objective > 1.01 * best.objective  # so much was left out
    sure = replace(
        candidate, optimum=replace(candidate.optimum, converged=True, lower_bound=candidate.optimum.objective)
    )
    winner = polish_winner(problem, sure, SearchOptions("objective", 0), len(chosen), lambda share: None)
    same = solve_large_margin(blocks, winner.optimum.labels, 2, problem.settings.regularization, tolerance=1e-8)
    assert winner.optimum.lower_bound <= same.objective * (1.0 + 1e-6)
    assert winner.optimum.gap <= IN_MEMORY_GAP


def test_features_that_all_vary_are_left_alone() -> None:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(500, 40)) / np.sqrt(40)
    assert principal_directions([WindowBlock(features, np.arange(500)[None], np.full(500, 1 / 500))]) is None
