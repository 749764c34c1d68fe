"""Tests of the paper's test systems: potentials, simulation, exact reference and labelled sequences."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigvals, expm
from scipy.sparse.linalg import expm_multiply

from m3c_md.exceptions import InputError
from m3c_md.systems import (
    MODEL_I,
    MODEL_II,
    DiffusionModel,
    ExactReference,
    agreement,
    classification_error,
    exact_reference,
    labelled_sequence,
    simulate,
)

MODELS = pytest.mark.parametrize("model", [MODEL_I, MODEL_II], ids=lambda model: model.name)
few_examples = settings(deadline=None, max_examples=10, derandomize=True)


def some_labels(reference: ExactReference, n_states: int, seed: int) -> np.ndarray:
    """A partition into Voronoi cells of random centres, each containing at least its centre's own grid cell."""
    rng = np.random.default_rng(seed)
    centres = reference.points[rng.choice(len(reference.points), n_states, replace=False)]
    return np.argmin(((reference.points[:, None] - centres) ** 2).sum(axis=2), axis=1)


class TestPotentials:
    @MODELS
    def test_gradient_is_that_of_the_potential(self, model: DiffusionModel) -> None:
        x = np.random.default_rng(0).uniform(-2.4, 2.4, (500, 2))
        width = 1e-5
        central = [(model.potential(x + width * e) - model.potential(x - width * e)) / (2 * width) for e in np.eye(2)]
        np.testing.assert_allclose(model.gradient(x), np.stack(central, axis=-1), atol=2e-6)

    def test_model_1_is_the_printed_formula(self) -> None:
        x1, x2 = 0.83, -0.41
        centres = [(m1, m2) for m1 in (-1, 0, 1) for m2 in (-1 / 8, 1 / 8)]
        wells = sum(np.exp(-8 * (x1 - m1) ** 2 - 200 * (x2 / 6 - m2) ** 2) for m1, m2 in centres)
        printed = -8 * wells + 4 / 5 * x1**4 + 16 / 9 * x2**2
        assert MODEL_I.potential([x1, x2]) == pytest.approx(printed, rel=1e-12)

    def test_model_2_is_the_printed_formula_in_the_upper_half_plane(self) -> None:
        x1, x2, gamma = -0.6, 1.4, 1.67
        theta, radius = np.arctan2(x2, x1), np.hypot(x1, x2)
        assert theta > np.pi / 2  # the bent part of the arc, where the formula's first term is not constant in theta
        printed = (
            -4 * gamma * np.exp(-16 * ((radius - 1.6) ** 2 + max(theta - np.pi / 2, 0) ** 2))
            - 4 * gamma * np.exp(-0.8 * (x1 + 1) ** 2 - 32 * (x2 - 0.5) ** 2)
            - 4 * gamma * np.exp(-0.8 * (x1 + 1) ** 2 - 32 * (x2 + 0.5) ** 2)
            + gamma / 5 * (x1**4 + x2**4)
        )
        assert MODEL_II.potential([x1, x2]) == pytest.approx(printed, rel=1e-12)

    def test_model_2_does_not_jump_across_the_negative_axis(self) -> None:
        x1 = np.linspace(-2.5, -0.01, 200)
        above, below = (MODEL_II.potential(np.stack((x1, np.full_like(x1, side)), axis=-1)) for side in (1e-9, -1e-9))
        np.testing.assert_allclose(above, below, atol=1e-7)

    def test_model_2_is_mirror_symmetric(self) -> None:
        x = np.random.default_rng(1).uniform(-2, 2, (200, 2))
        np.testing.assert_allclose(MODEL_II.potential(x), MODEL_II.potential(x * [1, -1]), rtol=1e-12)

    @MODELS
    def test_any_leading_shape_and_the_origin(self, model: DiffusionModel) -> None:
        x = np.random.default_rng(2).uniform(-2, 2, (3, 4, 2))
        x[0, 0] = 0.0
        assert model.potential(x).shape == (3, 4)
        assert np.isfinite(model.gradient(x)).all()
        np.testing.assert_allclose(model.gradient(x)[1, 2], model.gradient(x[1, 2]), rtol=1e-12)


class TestSimulate:
    @MODELS
    def test_defaults_are_the_papers_protocol(self, model: DiffusionModel) -> None:
        duration = 10 * model.interval  # the full length only repeats the loop
        trajs = simulate(model, np.random.default_rng(0), duration=duration)
        low, high = np.array(model.start_box).T
        assert [traj.shape for traj in trajs] == [(11, 2)] * model.n_trajectories
        assert all(((traj[0] >= low) & (traj[0] <= high)).all() for traj in trajs)
        assert round(model.duration / model.interval) == {"Model I": 400, "Model II": 50}[model.name]

    def test_same_seed_same_trajectories(self) -> None:
        first, again, other = (simulate(MODEL_II, np.random.default_rng(s), duration=0.04) for s in (3, 3, 4))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_one_step_is_euler_maruyama(self) -> None:
        """The mean of many single steps from (nearly) one point is the drift, the covariance 2 A dt."""
        step, box = 1e-3, ((0.9, 0.9), (0.5, 0.5))
        model = DiffusionModel(**{**MODEL_I.__dict__, "start_box": box})
        moves = np.diff(simulate(model, np.random.default_rng(0), n_trajectories=40_000, duration=step,
                                 interval=step, step=step), axis=1)[:, 0]  # fmt: skip
        drift = -np.array(model.mobility) * model.gradient([0.9, 0.5]) * step
        variance = 2 * np.array(model.mobility) * step
        error = 5 * np.sqrt(variance / len(moves))
        assert (np.abs(moves.mean(axis=0) - drift) < error).all()
        np.testing.assert_allclose(np.cov(moves.T), np.diag(variance), atol=5 * variance.max() * np.sqrt(2 / 4e4))

    def test_occupation_and_metastability_match_the_reference(self) -> None:
        """1500 stationary trajectories of Model II; 5 standard errors, taken over independent trajectories."""
        reference, n_trajectories, lag = exact_reference(MODEL_II, 0.05), 1500, MODEL_II.interval
        rng = np.random.default_rng(0)
        cells = rng.choice(len(reference.points), n_trajectories, p=reference.stationary)
        starts = iter(reference.points[cells] + 0.05 * (rng.random((n_trajectories, 2)) - 0.5))

        class StationaryStart(np.random.Generator):
            def uniform(self, *_: object, **__: object) -> np.ndarray:  # type: ignore[override]
                return np.array(list(starts))

        trajs = np.array(simulate(MODEL_II, StationaryStart(np.random.PCG64(1)), n_trajectories=n_trajectories,
                                  duration=8 * lag))  # fmt: skip
        best = reference.best_partition(3, lag)
        index = np.clip(((trajs + 2.5) / 0.05).astype(int), 0, 99)
        labels = best[index[..., 0] * 100 + index[..., 1]]
        energy = MODEL_II.potential(trajs).mean(axis=1)
        exact = reference.stationary @ MODEL_II.potential(reference.points)
        assert abs(energy.mean() - exact) < 5 * energy.std() / np.sqrt(n_trajectories)
        exact_crossing = 1 - np.diag(reference.transition_matrix(best, lag)) @ np.bincount(best, reference.stationary)
        crossing = (labels[:, 1:] != labels[:, :-1]).mean(axis=1)
        assert abs(crossing.mean() - exact_crossing) < 5 * crossing.std() / np.sqrt(n_trajectories)

    def test_relaxation_from_the_box_matches_the_reference(self) -> None:
        """Non-stationary law: state populations after one sample interval from the uniform start, Model I."""
        reference, n_trajectories = exact_reference(MODEL_I, 0.05), 3000
        trajs = simulate(MODEL_I, np.random.default_rng(5), n_trajectories=n_trajectories, duration=0.2)
        labels = np.digitize(reference.points[:, 0], [-0.5, 0.5])
        in_box = (np.abs(reference.points) < 1.5).all(axis=1)
        later = expm_multiply(reference.generator.T * 0.2, in_box / in_box.sum())
        exact = np.bincount(labels, later)
        found = np.bincount(np.digitize(np.array(trajs)[:, -1, 0], [-0.5, 0.5]), minlength=3) / n_trajectories
        assert (np.abs(found - exact) < 5 * np.sqrt(exact * (1 - exact) / n_trajectories)).all()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"interval": 0.2, "step": 0.03}, "whole multiple of 0.03"),
            ({"duration": 1.0, "interval": 0.3}, "whole multiple of 0.3"),
            ({"duration": 0.1, "interval": 0.2}, "whole multiple of 0.2"),
            ({"duration": -1.0}, "=-1.0 must be a positive finite number"),
            ({"step": 0.0}, "positive finite"),
            ({"duration": np.nan}, "=nan must be a positive finite number"),
            ({"interval": np.inf}, "positive finite"),
            ({"n_trajectories": 0}, "n_trajectories=0 must be a whole number of at least 1"),
            ({"duration": 20.0, "interval": 0.2, "step": 0.2}, "diverged with step=0.2; choose a smaller"),
        ],
    )
    def test_bad_arguments_are_named(self, arguments: dict[str, float], message: str) -> None:
        with pytest.raises(InputError, match=message):
            simulate(MODEL_I, np.random.default_rng(0), **arguments)  # type: ignore[arg-type]


class TestExactReference:
    @MODELS
    def test_generator_is_reversible_and_conserves_probability(self, model: DiffusionModel) -> None:
        reference = exact_reference(model, 0.05)
        generator = reference.generator
        scale = np.abs(generator.diagonal()).max()
        assert np.abs(generator.sum(axis=1)).max() < 1e-12 * scale
        assert np.abs(generator.T @ reference.stationary).max() < 1e-12 * scale
        flux = generator.multiply(reference.stationary[:, None]).tocsr()
        assert np.abs(flux - flux.T).max() < 1e-12 * scale
        off_diagonal = generator.copy()
        off_diagonal.setdiag(0.0)
        assert off_diagonal.min() >= 0.0
        assert reference.stationary.sum() == pytest.approx(1.0, abs=1e-12)

    @MODELS
    def test_box_holds_the_mass(self, model: DiffusionModel) -> None:
        reference = exact_reference(model, 0.05)
        low, high = np.array(model.box).T
        rim = ((reference.points < low + 0.05) | (reference.points > high - 0.05)).any(axis=1)
        assert reference.stationary[rim].sum() < 1e-7

    def test_generator_is_consistent_with_the_diffusion(self) -> None:
        """L f tends to A (lap f - grad U grad f) at second order in the spacing, away from the rim."""
        errors = []
        for spacing in (0.1, 0.05):
            reference = exact_reference(MODEL_II, spacing)
            x1, x2 = reference.points.T
            f, df = np.sin(x1) * x2, np.stack((np.cos(x1) * x2, np.sin(x1)), axis=1)
            exact = (-np.sin(x1) * x2 - (MODEL_II.gradient(reference.points) * df).sum(axis=1)) * MODEL_II.mobility[0]
            inside = (np.abs(reference.points) < 2.0).all(axis=1)
            errors.append(np.sqrt(reference.stationary[inside] @ (reference.generator @ f - exact)[inside] ** 2))
        assert errors[1] < 0.35 * errors[0]

    @MODELS
    @pytest.mark.parametrize("lag_factor", [0.1, 1.0, 30.0])
    def test_transition_matrix_against_dense_expm(self, model: DiffusionModel, lag_factor: float) -> None:
        reference, lag = exact_reference(model, 0.25), lag_factor * model.interval
        labels = some_labels(reference, 4, seed=7)
        indicators = np.eye(4)[labels]
        joint = indicators.T @ np.diag(reference.stationary) @ expm(reference.generator.toarray() * lag) @ indicators
        expected = joint / joint.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(reference.transition_matrix(labels, lag), expected, atol=1e-10)

    def test_chapman_kolmogorov_of_single_cells(self) -> None:
        reference = exact_reference(MODEL_II, 0.5)
        singletons = np.arange(len(reference.points))
        once, twice = (reference.transition_matrix(singletons, lag) for lag in (0.03, 0.06))
        np.testing.assert_allclose(once @ once, twice, atol=1e-10)
        np.testing.assert_allclose(reference.stationary @ once, reference.stationary, atol=1e-12)

    @few_examples
    @given(seed=st.integers(0, 10**6), n_states=st.integers(2, 5))
    def test_metastability_invariants(self, seed: int, n_states: int) -> None:
        reference = exact_reference(MODEL_I, 0.25)
        labels = some_labels(reference, n_states, seed)
        at = [reference.metastability(labels, lag) for lag in (0.0, 0.05, 0.2, 1.0, 500.0)]
        assert at[0] == pytest.approx(n_states, abs=1e-10)
        assert all(later <= earlier + 1e-10 for earlier, later in pairwise(at))
        assert at[-1] == pytest.approx(1.0, abs=1e-6)  # independence: P_kk = pi_k
        permuted = np.random.default_rng(seed).permutation(n_states)[labels] * 3 + 1
        assert reference.metastability(permuted, 0.2) == pytest.approx(at[2], abs=1e-12)
        np.testing.assert_allclose(reference.transition_matrix(labels, 0.2).sum(axis=1), 1.0, atol=1e-10)

    def test_relaxation_times_are_those_of_the_dense_generator(self) -> None:
        reference = exact_reference(MODEL_I, 0.25)
        rates = np.sort(-eigvals(reference.generator.toarray()).real)
        np.testing.assert_allclose(reference.relaxation_times(4), 1.0 / rates[1:5], rtol=1e-6)

    @pytest.mark.parametrize(
        ("model", "times"), [(MODEL_I, (19.9, 10.4, 1.56)), (MODEL_II, (22.0, 12.3, 4.5))], ids=["I", "II"]
    )
    def test_relaxation_times_of_the_prototype(self, model: DiffusionModel, times: tuple[float, ...]) -> None:
        """An independent implementation (design, section 5) gave these at the same spacing, to these digits."""
        np.testing.assert_allclose(exact_reference(model, 0.05).relaxation_times(3), times, rtol=0.01)

    @MODELS
    def test_relaxation_times_converge_at_second_order(self, model: DiffusionModel) -> None:
        coarse, middle, fine = (exact_reference(model, h).relaxation_times(2) for h in (0.1, 0.05, 0.025))
        assert (np.abs(fine / middle - 1) < 0.01).all()
        assert (np.abs(fine - middle) < 0.4 * np.abs(middle - coarse)).all()

    def test_implied_timescales_never_exceed_the_relaxation_times(self) -> None:
        """Variational principle for reversible processes; nearly tight for the best partition at long lag."""
        reference = exact_reference(MODEL_I, 0.1)
        lag = 10.0
        values = np.sort(eigvals(reference.transition_matrix(reference.best_partition(3, 0.2), lag)).real)
        implied = -lag / np.log(values[1::-1])
        exact = reference.relaxation_times(2)
        assert (implied <= exact * (1 + 1e-8)).all()
        np.testing.assert_allclose(implied, exact, rtol=0.02)

    def test_bad_arguments_are_named(self) -> None:
        reference = exact_reference(MODEL_I, 0.25)
        with pytest.raises(InputError, match="one per cell, got"):
            reference.metastability([0, 1], 0.2)
        with pytest.raises(InputError, match=r"lagtime=-1\.0 must be a number of at least 0"):
            reference.metastability(np.zeros(len(reference.points)), -1.0)
        with pytest.raises(InputError, match=r"whole multiple of 0\.3"):
            ExactReference(MODEL_II, 0.3)
        with pytest.raises(InputError, match="count=1000001 must not be larger"):
            reference.relaxation_times(10**6)
        with pytest.raises(InputError, match="n_states=1 must be a whole number of at least 2"):
            reference.best_partition(1, 0.2)

    def test_cached_arrays_cannot_be_changed(self) -> None:
        reference = exact_reference(MODEL_I, 0.25)
        for array in (reference.points, reference.stationary, reference.best_partition(3, 0.2)):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


class TestBestPartition:
    @pytest.mark.parametrize(("model", "prototype"), [(MODEL_I, 2.9649), (MODEL_II, 2.9904)], ids=["I", "II"])
    def test_reaches_the_prototype(self, model: DiffusionModel, prototype: float) -> None:
        reference = exact_reference(model, 0.05)
        best = reference.metastability(reference.best_partition(3, model.interval), model.interval)
        assert prototype - 1e-4 < best < prototype + 5e-4

    def test_model_1_has_three_columns(self) -> None:
        """Each state holds an upper and a lower well (paper, 'Diffusion models')."""
        reference = exact_reference(MODEL_I, 0.05)
        columns = np.digitize(reference.points[:, 0], [-0.5, 0.5])
        assert agreement(reference.best_partition(3, 0.2), columns, reference.stationary) > 0.995

    def test_model_2_keeps_the_arc_whole(self) -> None:
        reference = exact_reference(MODEL_II, 0.05)
        best = reference.best_partition(3, 0.02)
        spots = np.array([[1.6, 0.0], [0.3, 1.57], [0.3, -1.57], [-1.0, 0.5], [-1.0, -0.5]])
        at = best[((reference.points[:, None] - spots) ** 2).sum(axis=2).argmin(axis=0)]
        assert at[0] == at[1] == at[2] == 0  # ordered by population, the arc is the largest
        assert {at[3], at[4]} == {1, 2}

    @MODELS
    @pytest.mark.parametrize("n_states", [2, 3])
    def test_is_stationary_for_the_gradient_of_q(self, model: DiffusionModel, n_states: int) -> None:
        """With a dense propagator: no cell has a larger entry of dQ/dchi = (2 (P 1_k)_i - P_kk) / pi_k elsewhere."""
        reference, lag = exact_reference(model, 0.25), model.interval
        best = reference.best_partition(n_states, lag)
        indicators = np.eye(n_states)[best]
        images = expm(reference.generator.toarray() * lag) @ indicators
        mass = reference.stationary @ indicators
        stay = reference.stationary @ (indicators * images) / mass
        gradient = (2 * images - stay) / mass
        own = gradient[np.arange(len(best)), best]
        assert (gradient <= own[:, None] + 1e-8).all()

    @few_examples
    @given(seed=st.integers(0, 10**6))
    def test_beats_partitions_with_moved_boundaries(self, seed: int) -> None:
        """Cells near a random point change sides to the state of a random other cell: Q falls."""
        reference, rng = exact_reference(MODEL_II, 0.1), np.random.default_rng(seed)
        best = reference.best_partition(3, 0.02)
        centre = reference.points[rng.choice(len(best), p=reference.stationary)]
        near = ((reference.points - centre) ** 2).sum(axis=1) < rng.uniform(0.15, 1.0) ** 2
        moved = np.where(near, rng.integers(3), best)
        assert reference.metastability(moved, 0.02) <= reference.metastability(best, 0.02) + 1e-9

    def test_symmetry_does_not_trap_two_states(self) -> None:
        """Model I's slowest mode is odd in x1; cutting the middle wells in half would give Q = 1.48."""
        reference = exact_reference(MODEL_I, 0.1)
        assert reference.metastability(reference.best_partition(2, 0.2), 0.2) > 1.95

    def test_states_are_ordered_by_population_and_repeatable(self) -> None:
        first, again = ExactReference(MODEL_I, 0.1), ExactReference(MODEL_I, 0.1)
        best = first.best_partition(3, 0.2)
        populations = np.bincount(best, first.stationary)
        assert (np.diff(populations) <= 1e-9).all()
        np.testing.assert_array_equal(best, again.best_partition(3, 0.2))


class TestAgreement:
    @few_examples
    @given(seed=st.integers(0, 10**6), n_states=st.integers(1, 5))
    def test_invariant_under_renaming_and_symmetric(self, seed: int, n_states: int) -> None:
        rng = np.random.default_rng(seed)
        a, b, weights = rng.integers(0, n_states, 30), rng.integers(0, 4, 30), rng.random(30)
        value = agreement(a, b, weights)
        assert agreement(rng.permutation(n_states)[a] + 5, b, weights) == pytest.approx(value, abs=1e-12)
        assert agreement(b, a, weights) == pytest.approx(value, abs=1e-12)
        assert agreement(a, a, weights) == pytest.approx(1.0, abs=1e-12)
        assert 0.0 < value <= 1.0

    def test_known_values(self) -> None:
        assert agreement([0, 0, 1], [1, 1, 1], [1, 1, 2]) == 0.5
        assert classification_error([0, 0, 1, 2], [2, 2, 0, 0]) == 0.25
        assert classification_error([0, 1], [1, 0]) == 0.0

    def test_bad_arguments_are_named(self) -> None:
        with pytest.raises(InputError, match="one length"):
            agreement([0, 1], [0, 1, 1])
        with pytest.raises(InputError, match="not negative"):
            agreement([0, 1], [0, 1], [1.0, -1.0])


class TestLabelledSequence:
    @few_examples
    @given(seed=st.integers(0, 10**6), n_classes=st.integers(2, 4))
    def test_train_and_test_split_the_data(self, seed: int, n_classes: int) -> None:
        rng = np.random.default_rng(seed)
        y = rng.permutation(np.repeat(np.arange(n_classes) * 10, 60))
        X = np.stack((np.arange(len(y)), y), axis=1)  # a pattern knows its row and its class
        sequence = labelled_sequence(X, y, 50, rng)
        assert len(sequence.train_y) == 50
        np.testing.assert_array_equal(sequence.train_X[:, 1], sequence.train_y)
        np.testing.assert_array_equal(sequence.test_X[:, 1], sequence.test_y)
        rows = np.concatenate((sequence.train_X[:, 0], sequence.test_X[:, 0]))
        np.testing.assert_array_equal(np.sort(rows), np.arange(len(y)))

    @pytest.mark.parametrize("n_classes", [2, 3, 4])
    def test_chain_has_the_papers_statistics(self, n_classes: int) -> None:
        papers = {
            2: [[0.97, 0.03], [0.03, 0.97]],
            3: [[0.97, 0.015, 0.015], [0.025, 0.95, 0.025], [0.02, 0.02, 0.96]],
            4: [[0.9517, 0.0198, 0.0138, 0.0147], [0.0198, 0.9509, 0.0134, 0.0159],
                [0.0138, 0.0134, 0.9535, 0.0193], [0.0147, 0.0159, 0.0193, 0.9501]],
        }  # fmt: skip
        matrix, length = np.array(papers[n_classes]), 40_000
        y = np.repeat(np.arange(n_classes), length)
        found = labelled_sequence(y[:, None], y, length, np.random.default_rng(0)).train_y
        counts = np.zeros((n_classes, n_classes))
        np.add.at(counts, (found[:-1], found[1:]), 1)
        visits = counts.sum(axis=1, keepdims=True)
        assert (np.abs(counts / visits - matrix) < 5 * np.sqrt(matrix * (1 - matrix) / visits)).all()

    def test_starts_from_the_stationary_distribution(self) -> None:
        matrix = [[0.9, 0.1], [0.3, 0.7]]  # stationary (0.75, 0.25)
        y = np.array([0, 1])
        rng = np.random.default_rng(0)
        first = [labelled_sequence(y[:, None], y, 1, rng, transition_matrix=matrix).train_y[0] for _ in range(2000)]
        assert abs(np.mean(first) - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 2000)

    def test_redraws_until_feasible_and_is_reproducible(self) -> None:
        y = np.repeat(["a", "b"], [12, 9])  # a run of 20 of one class is common but cannot be served
        for seed in range(5):
            one, two = (labelled_sequence(np.arange(21), y, 20, np.random.default_rng(seed)) for _ in range(2))
            assert len(one.test_y) == 1
            np.testing.assert_array_equal(one.train_X, two.train_X)

    def test_errors_name_class_size_and_need(self) -> None:
        y = np.repeat([0, 1], [500, 3])
        with pytest.raises(InputError, match=r"class 1 has 3 instances but the last chain needed \d+ \(200 on average"):
            labelled_sequence(y[:, None], y, 400, np.random.default_rng(0))
        with pytest.raises(InputError, match="between 1 and the 503 instances of the data set, got 504"):
            labelled_sequence(y[:, None], y, 504, np.random.default_rng(0))

    @pytest.mark.parametrize(
        ("n_classes", "matrix", "message"),
        [
            (5, None, "no transition matrix for 5 classes; give transition_matrix"),
            (2, np.eye(3), "must be 2 x 2"),
            (2, [[0.9, 0.2], [0.1, 0.9]], "must be stochastic"),
            (2, [[1.1, -0.1], [0.1, 0.9]], "must be stochastic"),
            (2, np.eye(2), "several stationary distributions"),
        ],
    )
    def test_bad_chains_are_named(self, n_classes: int, matrix: object, message: str) -> None:
        y = np.repeat(np.arange(n_classes), 20)
        with pytest.raises(InputError, match=message):
            labelled_sequence(y[:, None], y, 10, np.random.default_rng(0), transition_matrix=matrix)  # type: ignore[arg-type]

    def test_patterns_and_classes_must_match(self) -> None:
        with pytest.raises(InputError, match="one class per pattern"):
            labelled_sequence(np.zeros((3, 2)), [0, 1], 2, np.random.default_rng(0))
