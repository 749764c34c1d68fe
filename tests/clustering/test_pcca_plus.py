"""PCCAPlus: deeptime's own pipeline, and everything that can go wrong in it said aloud."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from deeptime.clustering import ClusterModel
from deeptime.markov import TransitionCountEstimator
from deeptime.markov.msm import MarkovStateModel, MaximumLikelihoodMSM
from scipy.optimize import linear_sum_assignment

from m3c_md import PCCAPlus
from m3c_md.clustering.pcca_plus import PCCAPlusModel
from m3c_md.exceptions import (
    ConvergenceWarning,
    DegenerateSolutionError,
    DisconnectedWarning,
    FewerStatesWarning,
    FewVisitsWarning,
    InputError,
    NegativeMatrixWarning,
    SolverError,
)
from m3c_md.matching import agreement
from m3c_md.partitions.k_medoids import k_medoids
from tests.conftest import Wells, hidden_markov_wells


def of_symbols(n_states: int, n_symbols: int, **changes: Any) -> PCCAPlus:
    """Estimator for series of a few different numbers, each of which becomes a microstate."""
    return PCCAPlus(n_states, **{"n_microstates": n_symbols, "scale": "none", "random_state": 0, **changes})


def quietly(estimator: PCCAPlus, data: Any) -> tuple[PCCAPlusModel, set[type[Warning]]]:
    """Model, and the kinds of warnings that came with it."""
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        model: PCCAPlusModel = estimator.fit(data).model
    assert [str(w.message) for w in record] == model.warnings
    assert all(w.filename == __file__ for w in record)
    return model, {w.category for w in record}


def walk(matrix: np.ndarray, n_steps: int, seed: int) -> np.ndarray:
    """Series of a Markov chain, as numbers on a line."""
    rng = np.random.default_rng(seed)
    states = [0]
    for _ in range(n_steps):
        states.append(int(rng.choice(len(matrix), p=matrix[states[-1]])))
    return np.array(states, dtype=float)


def plain_msm(model: PCCAPlusModel, trajs: list[np.ndarray]) -> MarkovStateModel:
    """MSM by deeptime alone, on the microstates of the model."""
    micro = ClusterModel(model.centers / model.scale)
    dtrajs = [micro.transform(x / model.scale) for x in trajs]
    counts = TransitionCountEstimator(lagtime=model.lagtime, count_mode="sliding").fit_fetch(dtrajs)
    return MaximumLikelihoodMSM().fit_fetch(counts.submodel_largest())


def best_order(memberships: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Order of columns that makes memberships most like those wanted."""
    return np.asarray(linear_sum_assignment(wanted.T @ memberships, maximize=True)[1])


# PCCA+ of deeptime gives the third of three states no microstate of this series.
LOST_STATE = np.repeat([0.0, 1, 2, 3, 0, 1, 0], [3, 6, 5, 3, 5, 9, 1])


class TestAgainstPlainDeeptime:
    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.NegativeMatrixWarning")
    @pytest.mark.parametrize("discretization", ["k-means", "k-medoids"])
    @pytest.mark.parametrize("lagtime", [1, 3])
    def test_same_matrix_and_same_lumping(self, lagtime: int, discretization: Any, three_wells: Wells) -> None:
        trajs = [three_wells.frames[:310], three_wells.frames[310:]]
        model = PCCAPlus(3, lagtime, n_microstates=12, discretization=discretization, random_state=0).fit_fetch(trajs)
        msm = plain_msm(model, trajs)
        assert model.n_disconnected_frames == 0
        assert model.msm.lagtime == model.lagtime == lagtime
        assert model.msm.reversible
        assert model.msm.transition_matrix == pytest.approx(msm.transition_matrix, abs=1e-8)
        pcca = msm.pcca(3)
        order = best_order(pcca.memberships, model.pcca.memberships)
        assert model.pcca.memberships == pytest.approx(pcca.memberships[:, order], abs=1e-6)
        assert np.array_equal(model.states, np.argsort(order)[pcca.assignments])
        assert agreement(model.transform(three_wells.frames), three_wells.states) > 0.98

    def test_the_lag_time_is_used(self) -> None:
        # Up and down in nearly every step within two slow halves; two steps later each number is back.
        stay, hop, leave = 0.03, 0.95, 0.02
        chain = [[stay, hop, leave, 0], [hop, stay, 0, leave], [leave, 0, stay, hop], [0, leave, hop, stay]]
        x = walk(np.array(chain), 2000, 0)
        one, two = (quietly(of_symbols(2, 4, lagtime=lag), x)[0] for lag in (1, 2))
        micro = np.argsort(one.centers.ravel())
        assert one.msm.transition_matrix[micro[0], micro[1]] > 0.9
        micro = np.argsort(two.centers.ravel())
        assert two.msm.transition_matrix[micro[0], micro[0]] > 0.9

    def test_pairs_give_the_same_msm(self) -> None:
        x = walk(np.array([[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.0, 0.02, 0.98]]), 500, 0)
        whole, pairs = (quietly(of_symbols(2, 3), data)[0] for data in (x, (x[:-1], x[1:])))
        for model in (whole, pairs):
            model.micro = np.argsort(model.centers.ravel())
        matrices = [m.msm.transition_matrix[np.ix_(m.micro, m.micro)] for m in (whole, pairs)]
        assert matrices[0] == pytest.approx(matrices[1], abs=1e-8)

    def test_no_count_across_trajectories(self) -> None:
        trajs = [np.tile([0.0, 0.0, 1.0, 1.0], 10), np.tile([5.0, 5.0, 6.0, 6.0, 6.0, 6.0], 10)]
        model, kinds = quietly(of_symbols(2, 4), trajs)
        assert kinds == {DisconnectedWarning, FewVisitsWarning}  # the second trajectory never leaves its half
        assert model.msm.n_states == 2


@pytest.fixture(scope="module")
def models(three_wells: Wells) -> list[PCCAPlusModel]:
    chain = np.array([[0.85, 0.15, 0, 0], [0.05, 0.9, 0.05, 0], [0, 0.06, 0.55, 0.39], [0, 0, 0.3, 0.7]])
    found = [quietly(of_symbols(n, 4), walk(chain, 400, seed))[0] for n in (2, 3) for seed in range(4)]
    return [*found, PCCAPlus(3, n_microstates=12, random_state=0).fit_fetch(three_wells.frames)]


class TestOrder:
    """The lumping on the model must speak of the same states as transform."""

    def test_assignments_are_the_states(self, models: list[PCCAPlusModel]) -> None:
        for model in models:
            assert np.array_equal(model.pcca.assignments, model.states)
            assert [list(s) for s in model.pcca.sets] == [
                list(np.flatnonzero(model.states == state)) for state in range(model.n_states)
            ]
            assert np.array_equal(model.transform(model.centers), model.states)

    def test_every_field_is_in_the_same_order(self, models: list[PCCAPlusModel]) -> None:
        for model in models:
            pcca, pi = model.pcca, model.msm.stationary_distribution
            assert pcca.n_metastable == model.n_states
            coarse = pcca.memberships.T @ pi
            assert pcca.coarse_grained_stationary_probability == pytest.approx(coarse, abs=1e-9)
            expected = pcca.memberships.T * pi / coarse[:, None]
            assert pcca.metastable_distributions == pytest.approx(expected, abs=1e-9)
            # The coarse matrix keeps the stationary distribution only in the matching order.
            assert coarse @ pcca.coarse_grained_transition_matrix == pytest.approx(coarse, abs=1e-3)
            # Projection of the eigenvectors: PCCA+ preserves the slow eigenvalues.
            slow = np.sort(np.linalg.eigvals(pcca.coarse_grained_transition_matrix).real)
            assert slow[-1] == pytest.approx(1.0, abs=1e-6)

    def test_memberships_are_those_of_the_nearest_microstate(self, models: list[PCCAPlusModel]) -> None:
        for model in models:
            assert np.array_equal(model.memberships(model.centers), model.pcca.memberships)

    def test_repr(self, models: list[PCCAPlusModel]) -> None:
        assert "lagtime=1, n_microstates=12)" in repr(models[-1])

    def test_the_largest_score_decides_on_ties_too(self) -> None:
        differences = 0
        for seed in range(10):
            x = np.repeat(np.random.default_rng(seed).integers(0, 12, size=60), 3).astype(float)
            model, _ = quietly(of_symbols(2, 5, discretization="k-medoids", random_state=seed), x)
            halves = np.arange(24) / 2.0
            differences += np.count_nonzero(model.decision_function(halves).argmax(axis=1) != model.transform(halves))
        assert differences == 0


@pytest.fixture(scope="module")
def halves() -> list[np.ndarray]:
    """Two trajectories that never meet: four numbers in two slow pairs, and two others far to the right."""
    return [np.tile(np.repeat([0.0, 1.0, 0.0, 1.0, 3.0, 4.0, 3.0, 4.0], 5), 5), np.tile([10.0, 10.0, 11.0], 20)]


class TestDisconnected:
    @pytest.mark.parametrize("discretization", ["k-means", "k-medoids"])
    def test_frames_outside_are_counted_and_get_the_nearest_state(
        self, discretization: Any, halves: list[np.ndarray]
    ) -> None:
        with pytest.warns(DisconnectedWarning, match=r"60 of 260 frames are in 2 of 6 microstates .*fewer microstat"):
            model = of_symbols(2, 6, discretization=discretization).fit(halves).model
        assert model.n_disconnected_frames == 60
        assert (model.n_microstates, model.msm.n_states, len(model.centers)) == (6, 4, 4)
        assert sorted(model.centers.ravel()) == pytest.approx([0.0, 1.0, 3.0, 4.0])
        assert model.msm.count_model.count_matrix.sum() == 199
        inside, outside = model.transform(halves)
        assert set(outside) == set(inside[halves[0] == 4.0])
        assert agreement(inside, halves[0] > 2) == 1.0
        assert model.populations == pytest.approx([160 / 260, 100 / 260])

    def test_the_order_of_the_halves_does_not_matter(self, halves: list[np.ndarray]) -> None:
        one, other = (quietly(of_symbols(2, 6), data)[0] for data in (halves, halves[::-1]))
        grid = np.linspace(-1.0, 12.0, 40)
        assert np.array_equal(one.transform(grid), other.transform(grid))
        assert other.n_disconnected_frames == 60

    def test_scaled_distances_decide_which_microstate_is_nearest(self) -> None:
        # The lonely frames are nearer to the left pair on the axis that the scale stretches.
        steps = np.array([[0.0, 0.0], [0.0, 0.1], [100.0, 5.0], [100.0, 5.1]])
        inside = steps[np.tile(np.repeat([0, 1, 0, 1, 2, 3, 2, 3], 5), 5)]
        outside = np.tile([[60.0, 0.0]], (30, 1))
        by_scale = {}
        for scale in ("none", "standard"):
            model, kinds = quietly(of_symbols(2, 5, scale=scale), [inside, outside])
            assert DisconnectedWarning in kinds
            assert model.n_disconnected_frames == 30
            lonely = model.transform(outside)[0]
            by_scale[scale] = [lonely == model.transform(steps[[i]])[0] for i in (0, 2)]
        assert by_scale["none"] == [False, True]
        assert by_scale["standard"] == [True, False]

    def test_a_one_way_start_is_outside(self) -> None:
        x = np.concatenate([[9.0, 8.0, 8.0, 7.0], np.tile(np.repeat([0.0, 1.0, 0.0, 1.0, 3.0, 4.0], 5), 5)])
        model, kinds = quietly(of_symbols(2, 7), x)
        assert kinds >= {DisconnectedWarning}
        assert model.n_disconnected_frames == 4
        assert sorted(model.centers.ravel()) == pytest.approx([0.0, 1.0, 3.0, 4.0])

    def test_memberships_and_margin_outside(self, halves: list[np.ndarray]) -> None:
        model, _ = quietly(of_symbols(2, 6), halves)
        soft = model.memberships(halves)[1]
        assert soft.sum(axis=1) == pytest.approx(1.0)
        assert np.isfinite(model.margin(halves)[1]).all()

    def test_connected_data_say_nothing(self) -> None:
        frames = hidden_markov_wells(600, 3, stay=0.9).frames
        model = PCCAPlus(3, n_microstates=12, random_state=0).fit_fetch(frames)
        assert model.warnings == []
        assert model.n_disconnected_frames == 0

    @pytest.mark.parametrize("n_states", [5, 6])
    def test_too_small_a_connected_set(self, n_states: int, halves: list[np.ndarray]) -> None:
        message = rf"only 4 of 6 microstates both ways, too few for n_states={n_states}; use fewer microstates, a short"
        with pytest.raises(DegenerateSolutionError, match=message):
            of_symbols(n_states, 6).fit(halves)

    def test_a_trajectory_that_never_comes_back(self) -> None:
        with pytest.raises(DegenerateSolutionError, match=r"only 1 of 10 microstates both ways"):
            of_symbols(2, 10).fit(np.repeat(np.arange(10.0), 5))


@pytest.fixture(scope="module")
def model() -> PCCAPlusModel:
    with pytest.warns(FewerStatesWarning, match=r"asked for 3 states and populated 2; ask for that many") as record:
        model: PCCAPlusModel = of_symbols(3, 4).fit(LOST_STATE).model
    assert record[0].filename == __file__
    assert any("populated 2" in text for text in model.warnings)
    return model


class TestFewerStates:
    def test_empty_states_come_last(self, model: PCCAPlusModel) -> None:
        assert model.n_states == 3
        assert model.n_populated == 2
        assert model.populations[2] == 0.0
        assert model.populations[0] >= model.populations[1] > 0.0
        assert np.bincount(model.transform(LOST_STATE), minlength=3) / 32 == pytest.approx(model.populations)
        assert len(model.pcca.sets[2]) == 0

    def test_everything_else_works(self, model: PCCAPlusModel) -> None:
        new = np.linspace(-5.0, 10.0, 50)
        scores, labels = model.decision_function(new), model.transform(new)
        assert np.isneginf(scores[:, 2]).all()
        assert np.isfinite(scores[:, :2]).all()
        assert np.array_equal(scores.argmax(axis=1), labels)
        margin = model.margin(new)
        assert margin == pytest.approx(np.abs(scores[:, 0] - scores[:, 1]))
        soft = model.memberships(new)
        assert soft.min() >= 0.0
        assert soft.sum(axis=1) == pytest.approx(1.0)
        assert [len(indices) for indices in model.sample(LOST_STATE, 2)] == [2, 2, 0]
        assert "populations=[" in repr(model)

    def test_one_state_left_of_two(self, model: PCCAPlusModel) -> None:
        # What remains if the only other state is emptied: margins are infinite, never nan.
        alone = model.copy()
        alone.states[...] = 0
        assert np.isposinf(alone.margin(LOST_STATE)).all()
        assert (alone.transform(LOST_STATE) == 0).all()

    def test_asking_for_as_many_as_were_found_is_quiet(self) -> None:
        _, kinds = quietly(of_symbols(2, 4), LOST_STATE)
        assert FewerStatesWarning not in kinds


class TestReports:
    def test_warnings_exactly_where_they_are_due(self) -> None:
        seen: list[tuple[bool, bool]] = []
        for seed in range(25):
            matrix = np.random.default_rng(seed).dirichlet(np.full(5, 0.3), 5)
            matrix = 0.9 * matrix + 0.02
            model, kinds = quietly(of_symbols(3, 5), walk(matrix, 150, seed))
            negative = bool((model.pcca.coarse_grained_transition_matrix < -1e-8).any())
            fewer = bool((model.populations == 0.0).any())
            assert (NegativeMatrixWarning in kinds) == negative
            assert (FewerStatesWarning in kinds) == fewer
            assert (DisconnectedWarning in kinds) == (model.n_disconnected_frames > 0)
            assert model.n_populated == len(set(model.transform(model.centers)))
            seen.append((negative, fewer))
        # Both happen and both fail to happen, or the test above says nothing.
        assert all(0 < sum(column) < len(seen) for column in zip(*seen, strict=True))

    def test_the_negative_entry_is_named(self) -> None:
        for seed in range(25):
            model, kinds = quietly(of_symbols(3, 5), walk(np.full((5, 5), 0.2), 100, seed))
            if NegativeMatrixWarning in kinds:
                smallest = model.pcca.coarse_grained_transition_matrix.min()
                assert any(f"down to {smallest:.2g}; estimate an MSM" in text for text in model.warnings)
                return
        pytest.fail("no negative matrix among 25")


class TestErrorsOfDeeptime:
    def test_a_period_of_two_steps(self) -> None:
        with pytest.raises(SolverError, match=r"PCCA\+ failed for 2 states"):
            of_symbols(2, 2).fit(np.tile([0.0, 1.0], 20))

    @pytest.mark.parametrize(
        "error",
        [
            ValueError("odd"),
            np.linalg.LinAlgError("singular"),
            IndexError("none left"),
            ZeroDivisionError("empty"),
            RuntimeError("3 metastable states requested, but transition matrix only has 2"),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_whatever_pcca_raises(self, error: Exception, three_wells: Wells, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any) -> None:
            raise error

        monkeypatch.setattr(MarkovStateModel, "pcca", fail)
        with pytest.raises(
            SolverError, match=rf"PCCA\+ failed for 3 states of 12 microstates \({error}\); ask for one"
        ):
            PCCAPlus(3, n_microstates=12, n_restarts=1, random_state=0).fit(three_wells.frames)

    def test_what_deeptime_says_of_the_msm_is_passed_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        frames = hidden_markov_wells(600, 3, stay=0.9).frames
        fit_fetch = MaximumLikelihoodMSM.fit_fetch

        def grumbling(estimator: Any, data: Any) -> Any:
            warnings.warn("not converged", RuntimeWarning, stacklevel=2)
            return fit_fetch(estimator, data)

        monkeypatch.setattr(MaximumLikelihoodMSM, "fit_fetch", grumbling)
        with pytest.warns(ConvergenceWarning, match="deeptime says of the microstate MSM: not converged"):
            model = PCCAPlus(3, n_microstates=12, n_restarts=1, random_state=0).fit(frames).model
        remedy = "use fewer microstates, a shorter lag time or longer trajectories"
        assert model.warnings == [f"deeptime says of the microstate MSM: not converged; {remedy}"]

    def test_as_many_states_as_microstates(self, three_wells: Wells) -> None:
        model, _ = quietly(PCCAPlus(3, n_microstates=3, random_state=0), three_wells.frames)
        assert sorted(model.states) == [0, 1, 2]
        assert agreement(model.transform(three_wells.frames), three_wells.states) > 0.98

    def test_noise_gives_a_model_or_a_clear_word(self) -> None:
        for seed in range(6):
            x = np.random.default_rng(seed).normal(size=(60, 2))
            try:
                model, _ = quietly(PCCAPlus(4, n_microstates=12, n_restarts=1, random_state=seed), x)
            except (DegenerateSolutionError, SolverError) as error:
                assert "use" in str(error) or "ask" in str(error)  # noqa: PT017
            else:
                assert model.memberships(x).sum(axis=1) == pytest.approx(1.0)

    def test_more_microstates_than_points_in_a_sample(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(k_medoids.__kwdefaults__, "max_points", 10)
        sites = np.eye(14) + np.eye(14, k=1) + np.eye(14, k=-1)
        x = walk(sites / sites.sum(axis=1)[:, None], 600, seed=0)
        model, _ = quietly(of_symbols(2, 11, discretization="k-medoids"), x)
        assert (model.n_microstates, len(model.centers)) == (11, 11)
        assert model.populations.min() > 0.0

    def test_the_default_number_of_microstates_on_short_data(self, three_wells: Wells) -> None:
        with pytest.raises(InputError, match=r"n_microstates=200, but there are only 150 distinct frames; ask for few"):
            PCCAPlus(3).fit(three_wells.frames[:150])
