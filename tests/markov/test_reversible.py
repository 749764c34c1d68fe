"""Reversible estimates of many count matrices at once, against deeptime's and against the conditions of optimality."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from deeptime.markov.msm import MaximumLikelihoodMSM
from deeptime.markov.tools.estimation import transition_matrix as deeptime_estimate
from hypothesis import given, settings
from hypothesis import strategies as st

from m3c_md.markov.reversible import (
    largest_connected_set,
    relaxation_eigenvalues,
    reversible_flows,
    transition_matrices,
)

few_examples = settings(deadline=None, max_examples=30, derandomize=True)


def random_counts(seed: int, k: int, decades: float, n: int = 1) -> np.ndarray:
    """Sparse count matrices of very different entries, connected by a ring."""
    rng = np.random.default_rng(seed)
    counts = np.floor(10 ** rng.uniform(0, decades, (n, k, k))) * (rng.random((n, k, k)) < 0.6)
    ring = np.arange(k), (np.arange(k) + 1) % k
    counts[:, *ring] = np.maximum(counts[:, *ring], 1.0)
    return counts


def likelihood(counts: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    return np.where(counts > 0, counts * np.log(np.where(counts > 0, matrices, 1.0)), 0.0).sum(axis=(1, 2))


class TestReversibleEstimate:
    @few_examples
    @given(seed=st.integers(0, 10**6), k=st.integers(2, 6))
    def test_deeptime_finds_the_same(self, seed: int, k: int) -> None:
        counts = random_counts(seed, k, 2.5, n=3)
        ours = transition_matrices(reversible_flows(counts))
        for count, matrix in zip(counts, ours, strict=True):
            msm = MaximumLikelihoodMSM(reversible=True, maxerr=1e-14).fit_fetch(count)
            np.testing.assert_allclose(matrix, msm.transition_matrix, atol=1e-10)

    @few_examples
    @given(seed=st.integers(0, 10**6), k=st.integers(2, 8), decades=st.floats(0, 7))
    def test_conditions_of_optimality(self, seed: int, k: int, decades: float) -> None:
        counts = random_counts(seed, k, decades, n=2)
        flows = reversible_flows(counts)
        np.testing.assert_array_equal(flows, flows.transpose(0, 2, 1))
        np.testing.assert_allclose(flows.sum(axis=(1, 2)), 1.0)
        # x_ij (c_i/x_i + c_j/x_j) = c_ij + c_ji
        u = counts.sum(axis=2) / flows.sum(axis=2)
        np.testing.assert_allclose(
            flows * (u[:, :, None] + u[:, None, :]), counts + counts.transpose(0, 2, 1), rtol=1e-6
        )

    def test_counts_of_very_different_size_converge(self) -> None:
        for seed in range(100):
            flows = reversible_flows(random_counts(seed, 2 + seed % 6, 10.0))
            assert (flows >= 0.0).all()

    def test_counts_so_uneven_that_deeptime_gives_up(self) -> None:
        counts = random_counts(3, 5, 6.0, n=10)
        ours = transition_matrices(reversible_flows(counts))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "didn't converge"
            theirs = np.array([deeptime_estimate(c, reversible=True, maxiter=10_000) for c in counts])
        assert np.abs(ours - theirs).max() > 1e-8, "otherwise this test needs harder counts"
        assert (likelihood(counts, ours) >= likelihood(counts, theirs) * (1 + 1e-14)).all()

    def test_chains_without_loops_are_their_normalised_counts(self) -> None:
        # Every transition matrix on a path is reversible, so the constraint costs nothing.
        counts = np.array([[50.0, 3.0, 0.0], [7.0, 20.0, 5.0], [0.0, 1.0, 9.0]])
        expected = counts / counts.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(transition_matrices(reversible_flows(counts[None]))[0], expected, atol=1e-15)

    def test_matrices_are_estimated_independently(self) -> None:
        counts = random_counts(0, 4, 2.0, n=5)
        counts[2, 3] = counts[2, :, 3] = 0.0  # this one lacks a state
        together = reversible_flows(counts)
        for count, flow in zip(counts, together, strict=True):
            np.testing.assert_allclose(reversible_flows(count[None])[0], flow, rtol=1e-12)
        assert np.isnan(together[2, 3]).all()
        assert np.isnan(together[2, :, 3]).all()
        assert np.isfinite(together[2, :3, :3]).all()

    def test_nothing_connected(self) -> None:
        assert np.isnan(reversible_flows(np.array([[[0.0, 1.0], [0.0, 0.0]]]))).all()


class TestConnectedSet:
    @pytest.mark.parametrize(
        ("counts", "states"),
        [
            ([[1, 1], [1, 1]], [0, 1]),
            ([[1, 1], [0, 1]], [0]),  # one way is not enough; among equals the first
            ([[1, 1], [0, 5]], [1]),  # among equals the one with more transitions
            ([[0, 1], [0, 0]], []),
            ([[0, 1], [1, 0]], [0, 1]),
            ([[99, 0, 0], [0, 0, 1], [0, 1, 0]], [1, 2]),  # most states, not most transitions, as in deeptime
            ([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 2, 1], [0, 0, 1, 1]], [2, 3]),
            ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], [0, 1, 2]),
        ],
    )
    def test_known_sets(self, counts: list[list[int]], states: list[int]) -> None:
        assert largest_connected_set(np.array(counts, dtype=float)).tolist() == states


class TestEigenvalues:
    def test_they_are_those_of_the_transition_matrix(self) -> None:
        flows = reversible_flows(random_counts(1, 5, 2.0, n=4))
        expected = np.sort(np.linalg.eigvals(transition_matrices(flows)).real)[:, ::-1]
        np.testing.assert_allclose(expected[:, 0], 1.0)
        np.testing.assert_allclose(relaxation_eigenvalues(flows), expected[:, 1:], atol=1e-12)

    def test_missing_processes_are_nan_at_the_end(self) -> None:
        counts = np.zeros((1, 4, 4))
        counts[0, 1:3, 1:3] = [[0.0, 5.0], [5.0, 0.0]]  # periodic: the smallest eigenvalue there is
        np.testing.assert_allclose(relaxation_eigenvalues(reversible_flows(counts)), [[-1.0, np.nan, np.nan]])

    def test_one_state_has_none(self) -> None:
        assert relaxation_eigenvalues(reversible_flows(np.ones((3, 1, 1)))).shape == (3, 0)
