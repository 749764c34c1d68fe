"""Microstates alone, where PCCA+ stood: as many states as asked, Q no lower, and the traps of the neighbours."""

from __future__ import annotations

import pickle
import re
import time
import warnings
from typing import Any

import numpy as np
import pytest
from deeptime.markov import PCCAModel, TransitionCountEstimator, TransitionCountModel
from deeptime.markov.msm import BayesianMSM, MarkovStateModel, MaximumLikelihoodMSM
from scipy.sparse import csr_matrix

from m3c_md import M3C, lump_microstates
from m3c_md.clustering.lumped import LumpedModel
from m3c_md.clustering.microstate_chain import as_chain, closed_classes, stationary_of
from m3c_md.clustering.microstate_search import (
    kinetic_coordinates,
    large_margin_states,
    most_metastable,
    states_of_class,
)
from m3c_md.exceptions import (
    DisconnectedWarning,
    FewVisitsWarning,
    InputError,
    M3CWarning,
    NonReversibleWarning,
    RareStateWarning,
    ShortTrajectoryWarning,
)
from m3c_md.matching import agreement
from m3c_md.partitions.lumping import flip_to_metastability, lumped_metastability
from tests.clustering.test_lumped import ALLOWED, downstream

FEW = "ignore::m3c_md.exceptions.FewVisitsWarning"
RARE = "ignore::m3c_md.exceptions.RareStateWarning"


def random_flows(n: int, n_blocks: int, separation: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric flows of a chain in blocks, and the block of every microstate."""
    rng = np.random.default_rng(seed)
    block = np.concatenate([np.repeat(np.arange(n_blocks), 2), rng.integers(n_blocks, size=n - 2 * n_blocks)])
    weight = rng.lognormal(0.0, 1.0, n)
    flows = rng.exponential(1.0, (n, n)) ** 2 * np.sqrt(np.outer(weight, weight))
    flows *= np.where(block[:, None] == block, 1.0, separation)
    flows = flows + flows.T
    flows += np.diag(flows.sum(axis=1))
    return flows / flows.sum(), block


def msm_of(flows: np.ndarray) -> MarkovStateModel:
    weights = flows.sum(axis=1)
    return MarkovStateModel(flows / weights[:, None], stationary_distribution=weights, reversible=True)


def blocks_of(*blocks: np.ndarray) -> np.ndarray:
    """Matrices along the diagonal of a larger one."""
    n = sum(len(block) for block in blocks)
    matrix, done = np.zeros((n, n)), 0
    for block in blocks:
        matrix[done : done + len(block), done : done + len(block)] = block
        done += len(block)
    return matrix


def metastability(flows: np.ndarray, labels: np.ndarray, n_states: int) -> float:
    return lumped_metastability(flows, labels, n_states)


def all_lumpings(n: int, n_states: int) -> list[np.ndarray]:
    """Every way to make exactly so many states of a few microstates."""
    labels = np.stack(np.unravel_index(np.arange(n_states**n), (n_states,) * n), axis=1)
    return [one for one in labels if len(np.unique(one)) == n_states]


class TestRandomChains:
    """A small version of benchmarks/microstates.py."""

    @pytest.mark.filterwarnings(RARE)
    @pytest.mark.parametrize("n_states", [3, 4, 5, 6])
    def test_all_states_and_no_less_metastable_than_pcca(self, n_states: int) -> None:
        leads = []
        for seed in range(4):
            flows, _ = random_flows([20, 80][seed // 2], n_states, [0.01, 0.3][seed % 2], seed)
            msm = msm_of(flows)
            ours = lump_microstates(msm, n_states)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = msm.pcca(n_states)
            assert np.array_equal(np.unique(ours.assignments), np.arange(n_states))
            assert ours.coarse_grained_transition_matrix.min() >= 0.0
            leads.append(ours.metastability - metastability(flows, theirs.assignments, n_states))
        assert min(leads) > -0.01
        assert np.mean(leads) >= 0.0

    @pytest.mark.parametrize("seed", range(5))
    def test_well_separated_blocks_are_found(self, seed: int) -> None:
        flows, block = random_flows(60, 4, 1e-3, seed)
        lumped = lump_microstates(msm_of(flows), 4)
        assert agreement(lumped.assignments, block) == 1.0
        assert not lumped.held
        assert lumped.margins is not None
        assert (lumped.margins > 0.0).all()

    @pytest.mark.parametrize("seed", range(8))
    def test_the_best_of_all_lumpings(self, seed: int) -> None:
        flows, _ = random_flows(8, 3, 0.2, seed)
        best = max(metastability(flows, labels, 3) for labels in all_lumpings(8, 3))
        assert lump_microstates(msm_of(flows), 3, least_share=0.0).metastability >= best - 0.01

    def test_cpu_time_at_500_microstates(self) -> None:
        flows, _ = random_flows(500, 4, 0.05, 0)
        msm = msm_of(flows)
        lump_microstates(msm_of(random_flows(30, 3, 0.1, 0)[0]), 3)  # loops are compiled
        began = time.process_time()
        lump_microstates(msm, 4)
        ours, began = time.process_time() - began, time.process_time()
        msm.pcca(4)
        assert ours <= 5.0 * (time.process_time() - began)

    def test_the_same_answer_every_time(self) -> None:
        msm = msm_of(random_flows(80, 4, 0.2, 3)[0])
        one, other = (lump_microstates(msm, 4) for _ in range(2))
        assert np.array_equal(one.assignments, other.assignments)
        assert np.array_equal(one.margins, other.margins, equal_nan=True)

    def test_the_order_of_microstates_does_not_matter(self) -> None:
        flows, _ = random_flows(50, 3, 0.01, 1)
        order = np.random.default_rng(0).permutation(50)
        lumped = lump_microstates(msm_of(flows), 3)
        shuffled = lump_microstates(msm_of(flows[np.ix_(order, order)]), 3)
        assert np.array_equal(shuffled.assignments, lumped.assignments[order])

    def test_states_by_falling_population(self) -> None:
        lumped = lump_microstates(msm_of(random_flows(50, 4, 0.01, 1)[0]), 4)
        assert (np.diff(lumped.coarse_grained_stationary_probability) <= 0.0).all()


@pytest.fixture(scope="module")
def sampled() -> tuple[list[np.ndarray], MarkovStateModel]:
    """Microstate trajectories of a chain in three blocks, and their MSM."""
    chain = msm_of(random_flows(30, 3, 0.01, 5)[0])
    dtrajs = [chain.simulate(3000, seed=seed) for seed in range(3)]
    counts = TransitionCountEstimator(lagtime=1, count_mode="sliding").fit_fetch(dtrajs).submodel_largest()
    return dtrajs, MaximumLikelihoodMSM().fit_fetch(counts)


class TestInPlaceOfPCCA:
    def test_user_code_goes_on(self, sampled: Any) -> None:
        dtrajs, msm = sampled
        before, after = downstream(msm, msm.pcca(3), dtrajs), downstream(msm, lump_microstates(msm, 3), dtrajs)
        for quantity, tolerance in ALLOWED.items():
            assert after[quantity] == pytest.approx(before[quantity], rel=tolerance, abs=tolerance), quantity
        for quantity in ("vamp", "matrix", "weights"):  # of sharp and soft memberships
            assert after[quantity] == pytest.approx(before[quantity], abs=0.02), quantity
        assert after["drawn inside"].tolist() == [1.0, 1.0, 1.0]

    def test_it_is_a_pcca_model_with_all_fields(self, sampled: Any) -> None:
        _, msm = sampled
        ours, theirs = lump_microstates(msm, 3), msm.pcca(3)
        assert isinstance(ours, PCCAModel)
        assert isinstance(ours, LumpedModel)
        for field in ("memberships", "metastable_distributions", "coarse_grained_transition_matrix", "assignments"):
            assert getattr(ours, field).shape == getattr(theirs, field).shape
        assert ours.metastable_distributions.sum(axis=1) == pytest.approx(np.ones(3))
        assert ours.coarse_grained_transition_matrix.sum(axis=1) == pytest.approx(np.ones(3))
        assert len(ours.sets) == ours.n_metastable == ours.n_states == 3

    def test_every_kind_of_input_gives_the_same_states(self, sampled: Any) -> None:
        dtrajs, msm = sampled
        wanted = lump_microstates(msm, 3).assignments
        matrix, weights = msm.transition_matrix, msm.stationary_distribution
        for given, options in [
            (dtrajs, {"lagtime": 1}),
            (dtrajs, {}),
            (TransitionCountEstimator(1, "sliding").fit_fetch(dtrajs), {}),
            (msm.count_model, {}),
            (matrix, {"stationary_distribution": weights}),
            (matrix, {}),
            (csr_matrix(matrix), {}),
            (matrix.tolist(), {}),
            (MarkovStateModel(csr_matrix(matrix)), {}),
        ]:
            assert np.array_equal(lump_microstates(given, 3, **options).assignments, wanted)

    def test_the_estimator_does_the_same(self, sampled: Any) -> None:
        dtrajs, msm = sampled
        wanted = lump_microstates(msm, 3)
        for data, options in [(msm, {}), (msm.count_model, {}), (dtrajs, {"microstates": True})]:
            estimator = M3C(3).fit(data, **options)
            assert isinstance(estimator.fetch_model(), LumpedModel)
            assert np.array_equal(estimator.fetch_model().assignments, wanted.assignments)
            assert all(
                np.array_equal(*x) for x in zip(estimator.transform(dtrajs), wanted.transform(dtrajs), strict=True)
            )
        for matrix in (msm.transition_matrix, csr_matrix(msm.transition_matrix), msm.transition_matrix.tolist()):
            assert np.array_equal(M3C(3).fit_fetch(matrix, microstates=True).assignments, wanted.assignments)

    def test_the_estimator_counts_at_its_lag_time(self, sampled: Any) -> None:
        dtrajs, _ = sampled
        wanted = lump_microstates(dtrajs, 3, lagtime=5)
        model = M3C(3, lagtime=5).fit_fetch(dtrajs, microstates=True)
        assert np.array_equal(model.coarse_grained_transition_matrix, wanted.coarse_grained_transition_matrix)
        assert wanted.metastability < lump_microstates(dtrajs, 3).metastability - 0.01

    def test_integer_trajectories_are_coordinates_to_nobody(self, sampled: Any) -> None:
        with pytest.raises(InputError, match="lump_microstates"):
            M3C(3).fit(sampled[0])

    def test_the_estimator_checks_its_settings(self, sampled: Any) -> None:
        with pytest.raises(InputError, match="balance"):
            M3C(3, balance=(0.5, 0.4)).fit(sampled[1])
        with pytest.raises(InputError, match="microstates='yes'"):
            M3C(3).fit(sampled[0], microstates="yes")  # type: ignore[arg-type]
        with pytest.raises(InputError, match="client, checkpoint, featurizer and weights are for coordinates"):
            M3C(3, random_state=0).fit(sampled[1], checkpoint="steps")

    def test_copies_and_repr(self, sampled: Any) -> None:
        lumped = lump_microstates(sampled[1], 3)
        for twin in (lumped.copy(), pickle.loads(pickle.dumps(lumped))):
            assert np.array_equal(twin.states, lumped.states)
            assert np.array_equal(twin.margins, lumped.margins, equal_nan=True)
        assert repr(lumped).startswith("LumpedModel(n_metastable=3, n_microstates=30, shares=[")

    def test_the_input_is_not_changed(self, sampled: Any) -> None:
        dtrajs, msm = sampled
        before = pickle.dumps((dtrajs, msm.transition_matrix, msm.count_model.count_matrix))
        lump_microstates(msm, 3)
        lump_microstates(dtrajs, 3)
        assert pickle.dumps((dtrajs, msm.transition_matrix, msm.count_model.count_matrix)) == before

    def test_visits_of_trajectories(self, sampled: Any) -> None:
        dtrajs, msm = sampled
        lumped = lump_microstates(dtrajs, 3)
        assert lumped.visits is not None
        assert lumped.visits["frames"].sum() == 9000
        assert lump_microstates(msm, 3).visits is None


# Two wells of two microstates, well connected each.
PAIR = np.array([[0.7, 0.3, 0.0, 0.0], [0.3, 0.69, 0.01, 0.0], [0.0, 0.01, 0.69, 0.3], [0.0, 0.0, 0.3, 0.7]])
TWO = np.array([[0.6, 0.4], [0.4, 0.6]])


class TestTraps:
    """The four traps of deeptime's PCCA+, and their kin."""

    def test_a_disconnected_matrix(self) -> None:
        matrix = blocks_of(PAIR, TWO)
        msm = MarkovStateModel(matrix, stationary_distribution=np.full(6, 1 / 6))
        by_class = lump_microstates(msm, 2)
        assert agreement(by_class.assignments, np.array([0, 0, 0, 0, 1, 1])) == 1.0
        assert by_class.metastability == pytest.approx(2.0)
        finer = lump_microstates(matrix, 3, stationary_distribution=np.full(6, 1 / 6))
        assert agreement(finer.assignments, np.array([0, 0, 1, 1, 2, 2])) == 1.0

    def test_a_closed_class_of_one_microstate(self) -> None:
        lumped = lump_microstates(blocks_of(PAIR, np.eye(1)), 3, stationary_distribution=np.full(5, 0.2))
        assert agreement(lumped.assignments, np.array([0, 0, 1, 1, 2])) == 1.0

    def test_more_closed_classes_than_states(self) -> None:
        with pytest.raises(InputError, match=r"fall apart into 3 classes .* more than n_states=2; ask for 3 states"):
            lump_microstates(blocks_of(TWO, TWO, TWO), 2, stationary_distribution=np.full(6, 1 / 6))

    @pytest.mark.parametrize("wrap", [np.asarray, MarkovStateModel])
    def test_no_single_stationary_distribution(self, wrap: Any) -> None:
        with pytest.raises(InputError, match=r"has 2 closed classes .* give stationary_distribution="):
            lump_microstates(wrap(blocks_of(PAIR, TWO)), 2)

    def test_transient_microstates_go_where_they_lead(self) -> None:
        matrix = blocks_of(PAIR, np.zeros((1, 1)))
        matrix[4, 3], matrix[4, 0] = 0.9, 0.1
        lumped = lump_microstates(matrix, 2)
        assert lumped.assignments[4] == lumped.assignments[3] != lumped.assignments[0]
        assert lumped.metastable_distributions[:, 4].tolist() == [0.0, 0.0]

    def test_a_closed_class_without_weight(self) -> None:
        with pytest.warns(DisconnectedWarning, match="nothing connects microstates 4, 5 with a microstate that has a"):
            lumped = lump_microstates(blocks_of(PAIR, TWO), 2, stationary_distribution=[0.25] * 4 + [0.0] * 2)
        assert lumped.assignments[4:].tolist() == [0, 0]

    @pytest.mark.filterwarnings(RARE)
    def test_no_state_is_lost_and_no_matrix_is_negative(self) -> None:
        lost = negative = 0
        for seed in range(20):
            msm = msm_of(random_flows(12, 3, 0.8, seed)[0])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = msm.pcca(3)
            lost += len(np.unique(theirs.assignments)) < 3
            negative += theirs.coarse_grained_transition_matrix.min() < -1e-8
            ours = lump_microstates(msm, 3)
            assert len(np.unique(ours.assignments)) == 3
            assert ours.coarse_grained_transition_matrix.min() >= 0.0
            assert ours.coarse_grained_transition_matrix.sum(axis=1) == pytest.approx(np.ones(3))
        assert lost, "PCCA+ loses none of these states: the test shows nothing"
        assert negative, "PCCA+ has no negative matrix here: the test shows nothing"

    def test_indices_are_not_shifted(self) -> None:
        # Microstate 1 is visited once and never entered, so the connected set is 0, 2, 3, 4.
        walk = np.concatenate([[1], np.tile(np.repeat([0, 2, 0, 2, 3, 4, 3, 4], 20), 30)])
        with pytest.warns(DisconnectedWarning, match=r"microstate 1 of 5, with 0.02% of the transitions, lies outside"):
            lumped = lump_microstates(walk, 2)
        assert lumped.memberships.shape == (4, 2)
        labels = lumped.transform(walk)
        assert labels.dtype == np.int32
        assert labels.shape == walk.shape
        assert agreement(labels[1:], (walk[1:] > 2).astype(int)) == 1.0
        assert labels[0] == labels[1], "the state that it leads to"
        assert lumped.states.shape == (5,)

    def test_indices_of_a_restricted_msm(self) -> None:
        walk = np.concatenate([[1], np.tile(np.repeat([0, 2, 0, 2, 3, 4, 3, 4], 20), 30)])
        counts = TransitionCountEstimator(1, "sliding").fit_fetch(walk).submodel_largest()
        lumped = lump_microstates(MaximumLikelihoodMSM().fit_fetch(counts), 2)
        assert agreement(lumped.transform(walk)[1:], (walk[1:] > 2).astype(int)) == 1.0
        assert lumped.transform([walk, walk[:5]])[1].shape == (5,)


class TestTrajectories:
    WALK = np.tile(np.repeat([0, 1, 0, 1, 2, 3, 2, 3], 20), 30)

    def test_every_frame_gets_a_label(self) -> None:
        # Microstate 4 follows 3 in a trajectory too short for the lag time, 5 stands alone, 6 is never seen.
        dtrajs = [self.WALK, np.array([3, 4, 4]), np.array([5, 5]), np.array([7, 7])]
        with pytest.warns(M3CWarning) as said:
            lumped = lump_microstates(dtrajs, 2, lagtime=3)
        labels = lumped.transform(dtrajs)
        assert [len(x) for x in labels] == [len(x) for x in dtrajs]
        assert (labels[1] == labels[1][0]).all()
        assert labels[2].tolist() == labels[3].tolist() == [0, 0]
        texts = {warning.category: str(warning.message) for warning in said}
        assert "3 of 4 trajectories have no more than lagtime=3 frames" in texts[ShortTrajectoryWarning]
        assert "nothing connects microstates 5, 7 with" in texts[DisconnectedWarning]
        assert lumped.warnings == [str(warning.message) for warning in said]

    def test_a_microstate_that_was_never_seen(self) -> None:
        lumped = lump_microstates([self.WALK], 2)
        for microstate in (4, 9):
            with pytest.raises(InputError, match=rf"trajectory 1 holds microstate {microstate} at frame 1, of which"):
                lumped.transform([self.WALK, np.array([0, microstate])])

    def test_a_state_that_was_hardly_entered(self) -> None:
        walk = np.concatenate([np.tile([0, 1], 500), np.tile([2, 3], 500), np.tile([0, 1], 500)])
        with pytest.warns(FewVisitsWarning, match="state 1 was entered once"):
            lump_microstates(walk, 2)

    def test_the_warning_points_to_the_users_line(self) -> None:
        walk = np.concatenate([np.tile([0, 1], 500), np.tile([2, 3], 500), np.tile([0, 1], 500)])
        for call in (lambda: lump_microstates(walk, 2), lambda: M3C(2).fit(walk, microstates=True)):
            with pytest.warns(FewVisitsWarning) as said:
                call()
            assert said[0].filename == __file__

    def test_too_many_microstates(self) -> None:
        with pytest.raises(InputError, match=r"hold microstate 20000, and matrices .* number microstates from 0"):
            lump_microstates(np.array([0, 20_000, 0]), 2)

    def test_more_than_a_thousand_numbers_are_fine(self) -> None:
        lumped = lump_microstates(self.WALK * 500, 2)
        assert agreement(lumped.transform(self.WALK * 500), (self.WALK > 1).astype(int)) == 1.0


class TestRareStates:
    """A microstate that is hardly visited and hardly left has the largest Q of all, and is no state."""

    @staticmethod
    def flows_with_a_sticky_microstate(share: float) -> np.ndarray:
        flows = blocks_of(random_flows(30, 3, 0.02, 4)[0], np.zeros((1, 1)))
        flows[30, 30] = share
        flows[30, 0] = flows[0, 30] = 1e-4 * share
        return flows / flows.sum()

    def test_it_is_no_state_by_default(self) -> None:
        flows = self.flows_with_a_sticky_microstate(1e-4)
        msm = msm_of(flows)
        lumped = lump_microstates(msm, 3)
        assert lumped.coarse_grained_stationary_probability.min() > 0.05
        assert min(len(states) for states in lumped.sets) > 1

    def test_it_is_one_if_it_is_allowed(self) -> None:
        flows = self.flows_with_a_sticky_microstate(1e-4)
        with pytest.warns(RareStateWarning, match=r"state 2 has 0.01% of the population, less than 1%; ask for fewer"):
            lumped = lump_microstates(msm_of(flows), 3, least_share=0.0)
        assert lumped.sets[2].tolist() == [30]
        assert lumped.metastability > lump_microstates(msm_of(flows), 3).metastability

    def test_counts_tell_what_is_rare_where_there_are_counts(self) -> None:
        # At equilibrium the third well has 1e-4, but a third of the simulation was spent there.
        counts = blocks_of(*[np.array([[700.0, 300.0], [300.0, 700.0]])] * 3)
        counts[1, 2] = counts[2, 1] = 30.0
        counts[3, 4], counts[4, 3] = 0.3, 30.0
        model = TransitionCountModel(counts)
        with pytest.warns(RareStateWarning, match="state 2 has 0.5"):
            lumped = lump_microstates(model, 3)
        assert agreement(lumped.assignments, np.array([0, 0, 1, 1, 2, 2])) == 1.0

    def test_where_no_other_states_are_left(self) -> None:
        flows = blocks_of(np.array([[0.6, 0.3], [0.3, 0.5]]), np.array([[1e-5]]))
        flows[2, 0] = flows[0, 2] = 1e-6
        with pytest.warns(RareStateWarning, match=r"state 2 has 6.47e-06 of the transitions, less than least_share"):
            lumped = lump_microstates(msm_of(flows / flows.sum()), 3)
        assert lumped.n_metastable == 3


class TestNonReversible:
    CYCLE = np.array([[0.7, 0.25, 0.05, 0.0], [0.1, 0.7, 0.2, 0.0], [0.24, 0.05, 0.7, 0.01], [0.0, 0.01, 0.0, 0.99]])

    def test_the_mean_of_both_directions_is_lumped(self) -> None:
        with pytest.warns(NonReversibleWarning, match=r"is not reversible: \d+\.\d\d% of the equilibrium flow"):
            lumped = lump_microstates(self.CYCLE, 2)
        assert agreement(lumped.assignments, np.array([0, 0, 0, 1])) == 1.0
        weights = stationary_of(self.CYCLE)
        flows = weights[:, None] * self.CYCLE
        onehot = lumped.memberships
        macro = onehot.T @ flows @ onehot
        assert lumped.coarse_grained_transition_matrix == pytest.approx(macro / macro.sum(axis=1, keepdims=True))

    def test_q_is_that_of_the_matrix_itself(self) -> None:
        flows = stationary_of(self.CYCLE)[:, None] * self.CYCLE
        for labels in all_lumpings(4, 2):
            onehot = np.eye(2)[labels]
            macro = onehot.T @ flows @ onehot
            q = float((np.diag(macro) / macro.sum(axis=1)).sum())
            assert metastability(flows, labels, 2) == pytest.approx(q)

    def test_an_estimate_of_deeptime_is_reversible_enough(self, sampled: Any) -> None:
        lump_microstates(sampled[1], 3)  # warnings are errors


class TestBadInput:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (np.array([[0.9, 0.2], [0.1, 0.9]]), "row 0 of the transition matrix sums to 1.1, not to 1"),
            (np.array([[1.1, -0.1], [0.1, 0.9]]), "holds -0.1 in row 0, column 1; probabilities are not negative"),
            (np.array([[np.nan, 1.0], [0.1, 0.9]]), "holds nan in row 0, column 0"),
            (np.ones((2, 3)) / 3, r"has shape \(2, 3\); give a square one"),
            (np.array([[5, 1], [1, 5]]), "row 0 of the transition matrix sums to 6, not to 1; .*counts go into"),
            (np.zeros((0, 0)), r"has shape \(0, 0\)"),
            (np.array([["a", "b"], ["c", "d"]]), "holds what are no numbers"),
            (None, "dtrajs is None"),
            ("file.npy", "dtrajs is 'file.npy'"),
            ([], "empty list"),
            (np.array([0.0, 1.0, 0.0]), "dtype float64"),
            ([np.array([0, -1, 0])], "holds -1 at frame 1"),
            (MaximumLikelihoodMSM(), "microstates is a MaximumLikelihoodMSM; give a deeptime MarkovStateModel"),
        ],
    )
    def test_no_microstates(self, given: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            lump_microstates(given, 2)

    def test_a_bayesian_model(self) -> None:
        posterior = BayesianMSM(n_samples=2).fit_fetch(
            TransitionCountEstimator(1, "effective").fit_fetch(np.tile([0, 0, 1, 1], 50))
        )
        with pytest.raises(InputError, match="or the prior of a Bayesian one"):
            lump_microstates(posterior, 2)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n_states": 0}, "n_states=0 must be a whole number of at least 1"),
            ({"n_states": 2.0}, "n_states=2.0"),
            ({"n_states": 5}, "n_states=5, but only 4 of 4 microstates are connected"),
            ({"lagtime": 2}, "lagtime=2 is for microstate trajectories"),
            ({"least_share": 0.6}, "least_share=0.6 must be a number from 0 to 0.5"),
            ({"least_share": -1}, "least_share=-1"),
            ({"stationary_distribution": [0.5, 0.5]}, r"has shape \(2,\); give one number for each of the 4"),
            ({"stationary_distribution": [0.4, 0.2, 0.2, 0.2]}, "is not that of the matrix: one step changes the weig"),
            ({"stationary_distribution": [np.nan] * 4}, "must hold finite numbers"),
            ({"stationary_distribution": ["a"] * 4}, "cannot be read"),
        ],
    )
    def test_bad_settings(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=re.compile(message)):
            lump_microstates(PAIR, **{"n_states": 2, **options})

    def test_a_distribution_for_a_model(self) -> None:
        with pytest.raises(InputError, match="stationary_distribution is for a transition matrix"):
            lump_microstates(MarkovStateModel(PAIR), 2, stationary_distribution=np.full(4, 0.25))

    def test_settings_come_before_data(self) -> None:
        class Untouchable:
            def __getattr__(self, name: str) -> Any:
                raise AssertionError(f"{name} was looked at")

        with pytest.raises(InputError, match="n_states=-1"):
            lump_microstates(Untouchable(), -1)

    def test_a_lag_time_beyond_all_trajectories(self) -> None:
        with pytest.raises(InputError, match="lagtime=9 needs trajectories of at least 10 frames"):
            lump_microstates([0, 1, 0], 2, lagtime=9)


class TestOddButFine:
    def test_one_state(self) -> None:
        lumped = lump_microstates(PAIR, 1)
        assert lumped.coarse_grained_transition_matrix == pytest.approx(np.ones((1, 1)))

    def test_as_many_states_as_microstates(self) -> None:
        lumped = lump_microstates(PAIR, 4)
        assert np.sort(lumped.assignments).tolist() == [0, 1, 2, 3]
        assert lumped.metastability == pytest.approx(np.trace(PAIR))

    def test_a_walk_that_never_stays(self) -> None:
        ring = np.zeros((8, 8))
        for i in range(8):
            ring[i, (i + 1) % 8] = ring[i, (i - 1) % 8] = 0.5
        assert lump_microstates(ring, 2).metastability == pytest.approx(1.5)  # two arcs of four

    def test_microstates_that_are_all_alike(self) -> None:
        assert len(np.unique(lump_microstates(np.full((6, 6), 1 / 6), 3).assignments)) == 3

    @pytest.mark.parametrize(
        ("kind", "n_cells", "n_states"),
        [("star", 7, 2), ("star", 25, 3), ("alike", 4, 2), ("alike", 9, 2), ("cycle", 3, 2), ("cycle", 9, 7)],
    )
    def test_chains_without_a_slow_process(self, kind: str, n_cells: int, n_states: int) -> None:
        """Their kinetic coordinates are zero: all microstates lie at one point, and k-means has nothing to part."""
        star = np.zeros((n_cells, n_cells))
        star[0], star[:, 0] = 1.0, 1.0
        chains = {"star": star, "alike": np.ones((n_cells, n_cells)), "cycle": np.roll(np.eye(n_cells), 1, axis=1)}
        matrix = chains[kind] / chains[kind].sum(axis=1, keepdims=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NonReversibleWarning)
            lumped = lump_microstates(matrix, n_states)
        assert np.array_equal(np.unique(lumped.assignments), np.arange(n_states))


class TestParts:
    def test_kinetic_coordinates_are_eigenvectors(self) -> None:
        flows, _ = random_flows(20, 3, 0.1, 0)
        weights = flows.sum(axis=1)
        transition = flows / weights[:, None]
        points = kinetic_coordinates(flows, 4)
        values = np.sort(np.linalg.eigvals(transition).real)[::-1][1:5]
        assert transition @ points == pytest.approx(points * values, abs=1e-10)
        assert points.T @ (weights[:, None] * points) == pytest.approx(np.diag(values**2), abs=1e-10)

    def test_closed_classes(self) -> None:
        matrix = blocks_of(TWO, PAIR, np.zeros((1, 1)))
        matrix[6, 0] = 1.0
        assert [members.tolist() for members in closed_classes(matrix)] == [[0, 1], [2, 3, 4, 5]]

    def test_flips_respect_the_least_share(self) -> None:
        flows = TestRareStates.flows_with_a_sticky_microstate(1e-4)
        support = flows.sum(axis=1)
        start = np.where(np.arange(31) < 15, 0, 1)
        start[28:] = 2
        free = flip_to_metastability(flows, start, 3)
        bound = flip_to_metastability(flows, start, 3, support=support, least=0.01)
        assert np.bincount(bound, weights=support).min() >= 0.01
        assert metastability(flows, bound, 3) <= metastability(flows, free, 3) + 1e-12
        same = flip_to_metastability(flows, start, 3, support=support, least=0.0)
        assert np.array_equal(same, free)

    def test_labels_are_held_where_the_rule_loses_metastability(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from m3c_md.clustering import microstate_search as module

        flows, _ = random_flows(30, 3, 0.05, 2)
        lumping = most_metastable(flows, flows.sum(axis=1), 3, 0.0)
        worse = np.where(np.arange(30) == np.argmax(lumping == 0), 1, lumping)
        optimum = large_margin_states(flows, kinetic_coordinates(flows, 5), worse, 3)
        assert optimum is not None
        tilted = type(optimum.rule)(0.0 * optimum.rule.weights, np.array([1.0, 0.0, 0.0]))  # one state for all
        bad = type(optimum)(tilted, *[getattr(optimum, name) for name in list(vars(optimum))[1:]])
        for answer in (None, bad):
            monkeypatch.setattr(module, "large_margin_states", lambda *_, answer=answer: answer)
            found = states_of_class(flows, flows.sum(axis=1), 3, 0.0)
            assert found.held
            assert np.isnan(found.margins).all()
            assert np.array_equal(found.labels, lumping)

    def test_the_rule_decides_where_states_are_clear(self) -> None:
        flows, block = random_flows(40, 3, 1e-3, 7)
        found = states_of_class(flows, flows.sum(axis=1), 3, 0.0)
        assert not found.held
        assert agreement(found.labels, block) == 1.0

    def test_support_is_that_of_counts(self, sampled: Any) -> None:
        dtrajs, msm = sampled
        frames = np.bincount(np.concatenate([x[:-1] for x in dtrajs]))
        assert as_chain(msm).support == pytest.approx(frames / frames.sum())
        assert as_chain(msm.transition_matrix).support == pytest.approx(msm.stationary_distribution, abs=1e-6)
