"""Weights of frames enter the fit, from memory and from files, and must fit the data."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from m3c_md import M3C, MMC
from m3c_md.clustering.given_weights import frame_weights
from m3c_md.clustering.training_data import training_set
from m3c_md.exceptions import InputError, WeightsWarning
from tests.conftest import hidden_markov_wells

QUICK = {"random_state": 0, "n_features": 40, "bandwidth": 1.0, "starts": ("kmeans",)}


def wells(n_frames: int = 3000) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    found = hidden_markov_wells(n_frames, 3)
    return found.frames, found.states


class TestFit:
    def test_equal_weights_change_nothing_but_the_reweighting(self) -> None:
        x, _ = wells()
        plain = M3C(3, reweight=False, **QUICK).fit_fetch(x)  # type: ignore[arg-type]
        same = M3C(3, **QUICK).fit_fetch(x, weights=np.full(len(x), 7.0))  # type: ignore[arg-type]
        assert same.effective_sample == 1.0
        np.testing.assert_allclose(same.decision_function(x), plain.decision_function(x), rtol=0.0, atol=1e-9)

    def test_the_unit_of_weights_does_not_matter(self) -> None:
        x, states = wells()
        weights = np.where(states == 1, 4.0, 1.0)
        one, other = (M3C(3, **QUICK).fit_fetch(x, weights=w) for w in (weights, 1e200 * weights))  # type: ignore[arg-type]
        np.testing.assert_allclose(one.decision_function(x), other.decision_function(x), rtol=0.0, atol=1e-9)

    def test_the_objective_is_that_of_the_weighted_windows(self) -> None:
        # The paper's own selection; all windows in memory, and a gap of a thousandth.
        x, states = wells()
        heavy = np.where(states == 0, 10.0, 1.0)
        model = M3C(3, **QUICK).fit_fetch(x, weights=heavy)  # type: ignore[arg-type]
        first, second = model.decision_function(x[:-1]), model.decision_function(x[1:])
        labels = (first + second).argmax(axis=1)
        rows = np.arange(len(labels))

        def lead(scores: NDArray[np.float64]) -> NDArray[np.float64]:
            others = scores.copy()
            others[rows, labels] = -np.inf
            return np.asarray(others.max(axis=1) - scores[rows, labels])

        r = np.stack([lead(first), lead(second)])
        m = np.where((r >= 0.0).any(axis=0), np.maximum(r, 0.0).sum(axis=0), r.max(axis=0))
        weights = heavy[:-1] / heavy[:-1].sum()
        regularizer = 0.5 * 3e-3 * (model.rule.weights**2).sum()
        assert model.objective == pytest.approx(regularizer + (weights * np.maximum(0.0, 1.0 + m)).sum(), rel=0.02)
        assert model.effective_sample == pytest.approx(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))

    def test_from_files_and_in_blocks(self, tmp_path: Path) -> None:
        x, states = wells(26_000)
        np.save(tmp_path / "x.npy", x)
        weights = np.where(states == 2, 5.0, 1.0)
        on_disk = np.load(tmp_path / "x.npy", mmap_mode="r")
        model = M3C(3, **QUICK).fit_fetch([on_disk[:9000], on_disk[9000:]], weights=[weights[:9000], weights[9000:]])  # type: ignore[arg-type]
        plain = M3C(3, reweight=False, **QUICK).fit_fetch([x[:9000], x[9000:]])  # type: ignore[arg-type]
        # The sample that was searched has the weights of all.
        expected = weights.sum() ** 2 / (len(weights) * (weights**2).sum())
        assert model.effective_sample == pytest.approx(expected, rel=0.02)
        assert not np.allclose(model.rule.weights, plain.rule.weights)
        assert (model.transform(x) == plain.transform(x)).mean() > 0.99

    def test_single_frames_and_pairs(self) -> None:
        x, _ = wells(1500)
        weights = np.linspace(1.0, 2.0, 1500)
        assert MMC(3, random_state=0).fit_fetch(x, weights=weights).n_states == 3
        pair = M3C(3, **QUICK).fit_fetch((x[:-1], x[1:]), weights=weights[:-1])  # type: ignore[arg-type]
        whole = M3C(3, **QUICK).fit_fetch(x, weights=weights)  # type: ignore[arg-type]
        assert pair.effective_sample == pytest.approx(whole.effective_sample)

    def test_frames_of_trajectories_that_are_too_short_do_not_count(self) -> None:
        x = np.arange(10.0)[:, None]
        data = training_set([x[:6], x[6:7], x[7:]])
        found = frame_weights(data, [np.arange(1.0, 7.0), np.array([50.0]), np.arange(8.0, 11.0)], 1)
        np.testing.assert_allclose(found, np.array([1, 2, 3, 4, 5, 6, 8, 9, 10]) / 10.0)


class TestRefusals:
    @pytest.mark.parametrize(
        ("weights", "words"),
        [
            ([np.ones(10)], "weights has 1 arrays for 2 trajectories; give one for each"),
            ([np.ones(10), np.ones(11)], r"weights\[1\] has 11 entries, but trajectory 1 has 10 frames"),
            ([np.ones(10), np.ones((10, 1))], r"weights\[1\] has shape \(10, 1\); give one number per frame"),
            ([np.ones(10), np.zeros(10)], r"weights\[1\] holds 0 at frame 0; weights must be positive and finite"),
            ([np.ones(10), np.r_[np.ones(4), np.nan, np.ones(5)]], r"weights\[1\] holds nan at frame 4"),
            ([np.ones(10), ["a"] * 10], r"weights\[1\]=.* must be an array of numbers, one per frame"),
        ],
    )
    def test_weights_that_do_not_fit(self, weights: object, words: str) -> None:
        x = np.random.default_rng(0).normal(size=(10, 2))
        with pytest.raises(InputError, match=words):
            M3C(2).fit([x, x + 1.0], weights=weights)

    def test_values_are_looked_at_before_any_data(self) -> None:
        with pytest.raises(InputError, match=r"weights\[0\] holds -1 at frame 0"):
            M3C(2).fit(None, weights=np.array([-1.0]))


def test_a_bias_in_another_unit_is_told() -> None:
    """exp(V) where exp(V / kT) was meant: a few frames have all the weight, which the bounds on a weight take away."""
    x, states = wells()
    bias = 10.0 * (states == 1) + np.random.default_rng(0).uniform(0.0, 20.0, len(x))  # kJ/mol
    right, wrong = (np.exp((bias - bias.max()) / thermal) for thermal in (2.494, 0.1))
    with pytest.warns(
        WeightsWarning, match=r"half of the weight is on \d of 3000 frames.*divided by kT in its own unit"
    ):
        model = M3C(3, **QUICK).fit_fetch(x, weights=wrong)  # type: ignore[arg-type]
    assert any("half of the weight" in said for said in model.warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeightsWarning)
        M3C(3, **QUICK).fit(x, weights=right)  # type: ignore[arg-type]
