"""Weights of windows: rare states count more where a rule is fitted, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from m3c_md.frames.weights import LEAST_WEIGHT, LIFTED_WINDOWS, lift_factors, lifted


def shares(weights: np.ndarray, labels: np.ndarray, n_states: int) -> np.ndarray:
    return np.bincount(labels, weights=weights, minlength=n_states)


class TestLifted:
    labels = np.repeat([0, 1, 2], [9000, 900, 100])

    def test_a_rare_state_counts_about_as_much_as_the_least_weight(self) -> None:
        heavier = lifted(np.full(10_000, 1e-4), self.labels, 3)
        assert heavier.sum() == pytest.approx(1.0)
        assert shares(heavier, self.labels, 3)[2] == pytest.approx(LEAST_WEIGHT / (1.0 + LEAST_WEIGHT - 0.01))

    def test_windows_of_other_states_keep_their_ratios(self) -> None:
        weights = np.random.default_rng(0).uniform(0.5, 2.0, 10_000)
        heavier = lifted(weights, self.labels, 3)
        for state in range(3):
            ratios = (heavier / weights)[self.labels == state]
            assert_allclose(ratios, ratios[0])
        assert_allclose((heavier / weights)[0], (heavier / weights)[9500])

    def test_where_no_state_is_rare_nothing_changes(self) -> None:
        weights = np.random.default_rng(0).uniform(0.5, 2.0, 10_000)
        assert_allclose(lifted(weights, self.labels % 2, 2), weights / weights.sum(), rtol=1e-15)

    def test_rare_is_a_matter_of_weight_not_of_numbers(self) -> None:
        weights = np.where(self.labels == 1, 0.1, 1.0)
        factors = lift_factors(weights, self.labels, 3)
        assert factors[0] == 1.0
        assert factors[1] == pytest.approx(LEAST_WEIGHT * weights.sum() / 90.0)
        assert factors[2] == pytest.approx(LEAST_WEIGHT * weights.sum() / 100.0)

    @pytest.mark.parametrize("number", [1, LIFTED_WINDOWS, 3 * LIFTED_WINDOWS])
    def test_a_handful_of_windows_is_lifted_less(self, number: int) -> None:
        labels = np.repeat([0, 1], [10_000, number])
        assert lift_factors(np.ones(len(labels)), labels, 2).tolist() == [1.0, max(1.0, number / LIFTED_WINDOWS)]

    def test_unless_it_is_to_be_lifted_fully(self) -> None:
        labels = np.repeat([0, 1], [9_990, 10])
        assert lift_factors(np.ones(10_000), labels, 2, fully=True).tolist() == [1.0, LEAST_WEIGHT * 1000]
        assert shares(lifted(np.ones(10_000), labels, 2, fully=True), labels, 2)[1] == pytest.approx(0.05, rel=0.05)

    def test_an_empty_state_does_no_harm(self) -> None:
        heavier = lifted(np.ones(10_000), self.labels, 4)
        assert_allclose(heavier, lifted(np.ones(10_000), self.labels, 3))
        assert np.isfinite(heavier).all()
