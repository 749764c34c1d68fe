"""Rounding of relation matrices: exact recovery, invariances and the promise that no class is empty."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from m3c_md.exceptions import InputError
from m3c_md.optimize import rounding as module
from m3c_md.optimize.rounding import _inner_simplex_memberships, round_relation

METHODS = ["inner_simplex", "pcca"]


def relation_of(classes: np.ndarray) -> np.ndarray:
    same: np.ndarray = (classes[:, None] == classes).astype(float)
    return same


def same_partition(one: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(relation_of(one), relation_of(other))


@st.composite
def populated_classes(draw: Any, max_states: int = 5) -> tuple[np.ndarray, int, np.random.Generator]:
    n_states = draw(st.integers(2, max_states))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    extra = rng.integers(0, n_states, draw(st.integers(1, 25)))
    return rng.permutation(np.concatenate([np.arange(n_states), extra])), n_states, rng


def fuzzy_relation(rng: np.random.Generator, classes: np.ndarray, noise: float) -> np.ndarray:
    """Return a block relation whose links are all off by up to `noise`."""
    error = noise * rng.random((len(classes), len(classes)))
    M = np.abs(relation_of(classes) - 0.5 * (error + error.T))
    np.fill_diagonal(M, 1.0)
    return M


class TestRecovery:
    @pytest.mark.parametrize("method", METHODS)
    @given(case=populated_classes())
    @settings(deadline=None, max_examples=30, derandomize=True)
    def test_separate_blocks(self, method: Any, case: tuple[np.ndarray, int, np.random.Generator]) -> None:
        classes, n_states, rng = case
        weights = 0.1 + rng.random(len(classes))
        assert same_partition(round_relation(relation_of(classes), n_states, method=method), classes)
        labels = round_relation(relation_of(classes), n_states, weights=weights, method=method)
        assert same_partition(labels, classes)

    @given(case=populated_classes(), noise=st.floats(0.0, 0.05))
    @settings(deadline=None, max_examples=40, derandomize=True)
    def test_blocks_under_noise(self, case: tuple[np.ndarray, int, np.random.Generator], noise: float) -> None:
        classes, n_states, rng = case
        assert same_partition(round_relation(fuzzy_relation(rng, classes, noise), n_states), classes)

    @given(case=populated_classes())
    @settings(deadline=None, max_examples=25, derandomize=True)
    def test_pcca_agrees_on_clear_blocks(self, case: tuple[np.ndarray, int, np.random.Generator]) -> None:
        classes, n_states, rng = case
        assert same_partition(round_relation(fuzzy_relation(rng, classes, 0.05), n_states, method="pcca"), classes)

    def test_windows_between_classes_go_to_the_nearer_one(self) -> None:
        """Memberships of a chain of windows between two ends switch once, in the middle."""
        position = np.linspace(0.0, 1.0, 9)
        M = np.exp(-((position[:, None] - position) ** 2) / 0.05)
        labels = round_relation(M, 2)
        assert np.array_equal(np.delete(labels, 4), [0, 0, 0, 0, 1, 1, 1, 1])


class TestEveryClassIsPopulated:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("n_states", [1, 2, 3, 6])
    @pytest.mark.parametrize("M", [np.ones((6, 6)), np.eye(6), 0.5 * (np.ones((6, 6)) + np.eye(6))])
    def test_relations_without_information(self, M: np.ndarray, n_states: int, method: Any) -> None:
        labels = round_relation(M, n_states, method=method)
        assert set(labels) == set(range(n_states))
        assert np.array_equal(labels, round_relation(M.copy(), n_states, method=method))

    @pytest.mark.parametrize("method", METHODS)
    @given(seed=st.integers(0, 10_000), n_windows=st.integers(2, 12), rank=st.integers(1, 4), data=st.data())
    @settings(deadline=None, max_examples=40, derandomize=True)
    def test_any_relation(self, method: Any, seed: int, n_windows: int, rank: int, data: Any) -> None:
        n_states = data.draw(st.integers(2, n_windows))
        rng = np.random.default_rng(seed)
        factor = np.abs(rng.normal(size=(n_windows, rank)))
        factor /= np.linalg.norm(factor, axis=1)[:, None]
        M = np.clip(factor @ factor.T, 0.0, 1.0)
        labels = round_relation(M, n_states, weights=0.01 + rng.random(n_windows), method=method)
        assert set(labels) == set(range(n_states))

    @pytest.mark.parametrize("method", METHODS)
    def test_more_blocks_than_classes_stay_whole(self, method: Any) -> None:
        blocks = np.array([0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 0, 2])
        labels = round_relation(relation_of(blocks), 3, method=method)
        assert set(labels) == {0, 1, 2}
        assert all(len(set(labels[blocks == block])) == 1 for block in range(5))

    def test_empty_class_takes_its_most_typical_window(self) -> None:
        memberships = np.array([[0.9, 0.1, 0.0], [0.6, 0.1, 0.3], [0.6, 0.0, 0.4], [0.2, 0.8, 0.0]])
        assert np.array_equal(module._populated_labels(memberships), [0, 0, 2, 1])

    def test_repair_does_not_empty_another_class(self) -> None:
        """The first window is the most typical one of both empty classes, but can serve only one."""
        memberships = np.array([[0.4, 0.3, 0.3], [0.8, 0.0, 0.2], [0.9, 0.0, 0.1]])
        assert np.array_equal(module._populated_labels(memberships), [1, 2, 0])

    def test_class_that_pcca_loses_is_restored(self) -> None:
        rng = np.random.default_rng(0)
        lost = 0
        for _ in range(60):
            factor = np.abs(rng.normal(size=(8, 3)))
            factor /= np.linalg.norm(factor, axis=1)[:, None]
            M = np.clip(factor @ factor.T, 0.0, 1.0)
            memberships = module._pcca_memberships(M, np.ones(8), 4)
            lost += memberships is not None and len(set(np.argmax(memberships, axis=1))) < 4
            assert set(round_relation(M, 4, method="pcca")) == {0, 1, 2, 3}
        assert lost > 0  # else this tests nothing

    @given(seed=st.integers(0, 10_000), n_states=st.integers(2, 8), uniform=st.booleans())
    @settings(deadline=None, max_examples=30, derandomize=True)
    def test_weights_of_very_different_size(self, seed: int, n_states: int, uniform: bool) -> None:
        rng = np.random.default_rng(seed)
        M = np.ones((8, 8)) if uniform else relation_of(rng.integers(0, n_states, 8))
        labels = round_relation(M, n_states, weights=10.0 ** rng.uniform(-12, 0, 8))
        assert set(labels) == set(range(n_states))


class TestInvariance:
    @given(case=populated_classes(), seed=st.integers(0, 1000))
    @settings(deadline=None, max_examples=30, derandomize=True)
    def test_order_of_windows(self, case: tuple[np.ndarray, int, np.random.Generator], seed: int) -> None:
        classes, n_states, rng = case
        M, weights = fuzzy_relation(rng, classes, 0.6), 0.5 + rng.random(len(classes))
        order = np.random.default_rng(seed).permutation(len(classes))
        labels = round_relation(M, n_states, weights=weights)
        shuffled = round_relation(M[np.ix_(order, order)], n_states, weights=weights[order])
        assert same_partition(shuffled, labels[order])

    @given(case=populated_classes(), factor=st.floats(1e-3, 1e3))
    @settings(deadline=None, max_examples=20, derandomize=True)
    def test_scale_of_weights(self, case: tuple[np.ndarray, int, np.random.Generator], factor: float) -> None:
        classes, n_states, rng = case
        M, weights = fuzzy_relation(rng, classes, 0.5), 0.5 + rng.random(len(classes))
        labels = round_relation(M, n_states, weights=weights)
        assert np.array_equal(labels, round_relation(M, n_states, weights=factor * weights))

    @given(case=populated_classes())
    @settings(deadline=None, max_examples=30, derandomize=True)
    def test_a_window_of_weight_two_counts_as_two(self, case: tuple[np.ndarray, int, np.random.Generator]) -> None:
        classes, n_states, rng = case
        M = fuzzy_relation(rng, classes, 0.5)
        weights = np.ones(len(classes))
        weights[0] = 2.0
        doubled = np.r_[0, np.arange(len(classes))]
        labels = round_relation(M, n_states, weights=weights)
        assert same_partition(round_relation(M[np.ix_(doubled, doubled)], n_states), labels[doubled])

    def test_classes_are_numbered_by_first_appearance(self) -> None:
        classes = np.array([2, 2, 0, 1, 0])
        assert np.array_equal(round_relation(relation_of(classes), 3), [0, 0, 1, 2, 1])


class TestEigenvectors:
    @given(case=populated_classes())
    @settings(deadline=None, max_examples=20, derandomize=True)
    def test_they_are_eigenvectors_orthonormal_in_pi(self, case: tuple[np.ndarray, int, np.random.Generator]) -> None:
        classes, n_states, rng = case
        M, c = fuzzy_relation(rng, classes, 0.4), 0.1 + rng.random(len(classes))
        X = module._leading_eigenvectors(M, c, n_states)
        degree = M @ c
        pi = c * degree / np.sum(c * degree)
        assert np.allclose(X.T @ (pi[:, None] * X), np.eye(n_states), atol=1e-9)
        mapped = M * c / degree[:, None] @ X
        eigenvalues = X.T @ (pi[:, None] * mapped)
        assert np.allclose(mapped, X * np.diag(eigenvalues), atol=1e-9)
        reference = np.sort(np.linalg.eigvals(M * c / degree[:, None]).real)[::-1]
        assert np.allclose(np.diag(eigenvalues), reference[:n_states], atol=1e-8)

    def test_inner_simplex_of_a_simplex_returns_its_coordinates(self) -> None:
        """Mixtures of the corners of any simplex are read back as those mixtures."""
        rng = np.random.default_rng(0)
        mixtures = np.vstack([np.eye(3), rng.dirichlet(np.ones(3), size=10)])
        vectors = mixtures @ np.column_stack([np.ones(3), rng.normal(size=(3, 2))])
        memberships = module._inner_simplex_memberships(vectors)
        assert np.allclose(memberships[:, np.argmax(memberships[:3], axis=1)], mixtures)


@pytest.mark.parametrize(
    ("relation", "n_states", "weights", "message"),
    [
        (np.ones((2, 3)), 2, None, "square"),
        (np.array([[1.0, 0.2], [0.8, 1.0]]), 2, None, "symmetric"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), 2, None, "finite"),
        (np.array([[1.0, -0.2], [-0.2, 1.0]]), 2, None, "negative"),
        (np.array([[0.0, 0.2], [0.2, 1.0]]), 2, None, "diagonal"),
        (np.eye(3), 4, None, "n_states"),
        (np.eye(3), 0, None, "n_states"),
        (np.eye(3), 2, [1.0, 0.0, 1.0], "positive"),
        (np.eye(3), 2, [1.0, 1.0], "3 positive"),
    ],
)
def test_unusable_input_is_named(relation: Any, n_states: int, weights: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        round_relation(relation, n_states, weights=weights)


def test_unknown_method_is_named() -> None:
    with pytest.raises(InputError, match="'kmeans'"):
        round_relation(np.eye(3), 2, method="kmeans")  # type: ignore[arg-type]


def test_vertices_are_far_from_the_origin_whatever_their_signs():
    """A point half way between two vertices is half of each, also where all of its coordinates are negative."""
    vectors = np.array([[1.0, 2.0, -2.1], [1.0, -2.1, 2.0], [1.0, -2.0, -2.0], [1.0, -0.05, -0.05]])
    memberships = _inner_simplex_memberships(vectors)
    np.testing.assert_allclose(np.sort(memberships[:3], axis=1), [[0.0, 0.0, 1.0]] * 3, atol=1e-12)
    np.testing.assert_allclose(np.sort(memberships[3]), [0.0, 0.5, 0.5], atol=1e-12)
