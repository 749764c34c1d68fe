"""Lumping of microstates where PCCA+ stood: the same user code both ways, and the arithmetic by hand."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from deeptime.clustering import KMeans
from deeptime.decomposition import VAMP
from deeptime.markov import PCCAModel, TransitionCountEstimator, TransitionCountModel
from deeptime.markov.msm import MarkovStateModel, MaximumLikelihoodMSM
from deeptime.markov.sample import compute_index_states, indices_by_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from m3c_md import MMC, KMedoids, PCCAPlus
from m3c_md.clustering.lumped import LumpedModel, lump_by_states, states_of_microstates
from m3c_md.clustering.state_model import StateModel
from m3c_md.exceptions import InputError
from m3c_md.matching import agreement
from tests.conftest import Wells, hidden_markov_wells, quick

ESTIMATORS: dict[str, Any] = {
    "M3C": quick(3),
    "MMC": MMC(3, bandwidth=1.0, starts=("kmeans",), random_state=0),
    "KMedoids": KMedoids(3, n_restarts=5, random_state=0),
    "PCCAPlus": PCCAPlus(3, n_microstates=12, random_state=0),
}
by_name = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture(scope="module")
def trajs(three_wells: Wells) -> list[np.ndarray]:
    return [three_wells.frames[:280], three_wells.frames[280:]]


@pytest.fixture(scope="module")
def models(trajs: list[np.ndarray]) -> dict[str, StateModel]:
    return {name: estimator.fit_fetch(trajs) for name, estimator in ESTIMATORS.items()}


@pytest.fixture(scope="module")
def micro(trajs: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray], MarkovStateModel]:
    """Centres, microstate trajectories and MSM, as a deeptime user has them."""
    clusters = KMeans(15, fixed_seed=3, n_jobs=1).fit_fetch(np.concatenate(trajs))
    dtrajs = [clusters.transform(x) for x in trajs]
    counts = TransitionCountEstimator(lagtime=1, count_mode="sliding").fit_fetch(dtrajs)
    return clusters.cluster_centers, dtrajs, MaximumLikelihoodMSM().fit_fetch(counts)


def downstream(msm: MarkovStateModel, pcca: PCCAModel, dtrajs: list[np.ndarray]) -> dict[str, np.ndarray]:
    """What user code does with PCCA+ results; states by falling weight, as every method numbers them differently."""
    m = pcca.n_metastable
    order = np.argsort(-pcca.coarse_grained_stationary_probability)
    sets = [pcca.sets[i] for i in order]
    pairs = [(i, j) for i in range(m) for j in range(m) if i != j]
    fluxes = [msm.reactive_flux(sets[i], sets[j]) for i, j in pairs]
    indices = compute_index_states(dtrajs)
    drawn = indices_by_distribution(indices, pcca.metastable_distributions[order], 200)
    inside = [np.mean([dtrajs[i][t] in sets[k] for i, t in frames]) for k, frames in enumerate(drawn)]
    vamp = VAMP(lagtime=1, observable_transform=lambda x: pcca.memberships[x]).fit_fetch(dtrajs)
    return {
        "mfpt": np.array([msm.mfpt(sets[i], sets[j]) for i, j in pairs]),
        "flux": np.array([flux.total_flux for flux in fluxes]),
        "committor": np.array([flux.forward_committor for flux in fluxes]),
        "drawn inside": np.array(inside),
        "vamp": vamp.singular_values,
        "matrix": pcca.coarse_grained_transition_matrix[np.ix_(order, order)],
        "weights": pcca.coarse_grained_stationary_probability[order],
        "assignments": np.argsort(order)[pcca.assignments],
    }


# Sharp and soft memberships of the same sets: equal where only the sets count, close where memberships do.
ALLOWED = {"mfpt": 1e-9, "flux": 1e-9, "committor": 1e-9, "assignments": 0.0}
ALLOWED_SOFT = {"drawn inside": 0.1, "vamp": 0.01, "matrix": 0.01, "weights": 0.01}


class TestSameCodeBothWays:
    @pytest.mark.parametrize("way", ["centers", "frames"])
    @by_name
    def test_one_line_changed(
        self, name: str, way: str, models: dict[str, StateModel], micro: Any, trajs: list[np.ndarray]
    ) -> None:
        centers, dtrajs, msm = micro
        before = downstream(msm, msm.pcca(3), dtrajs)
        if way == "centers":
            after = downstream(msm, models[name].lump(msm, centers=centers), dtrajs)
        else:
            after = downstream(msm, models[name].lump(msm, trajs=trajs, dtrajs=dtrajs), dtrajs)
        for quantity, tolerance in {**ALLOWED, **ALLOWED_SOFT}.items():
            assert after[quantity] == pytest.approx(before[quantity], rel=tolerance, abs=tolerance), quantity
        assert after["drawn inside"].tolist() == [1.0, 1.0, 1.0]

    @by_name
    def test_states_are_numbered_as_in_the_model(self, name: str, models: dict[str, StateModel], micro: Any) -> None:
        centers, _, msm = micro
        lumped = models[name].lump(msm, centers=centers)
        assert np.array_equal(lumped.assignments, models[name].transform(centers))
        assert lumped.n_metastable == models[name].n_states
        assert lumped.purity is None

    @by_name
    def test_frames_tell_how_much_is_lost(
        self, name: str, models: dict[str, StateModel], micro: Any, trajs: list[np.ndarray]
    ) -> None:
        _, dtrajs, msm = micro
        lumped = models[name].lump(msm, trajs=trajs, dtrajs=dtrajs)
        through = [lumped.assignments[d] for d in dtrajs]
        direct = models[name].transform(trajs)
        assert lumped.purity == pytest.approx(np.mean(np.concatenate(through) == np.concatenate(direct)))
        assert lumped.purity is not None
        assert lumped.purity > 0.98

    def test_it_is_a_pcca_model_with_all_fields(self, models: dict[str, StateModel], micro: Any) -> None:
        centers, _, msm = micro
        lumped = models["M3C"].lump(msm, centers=centers)
        assert isinstance(lumped, PCCAModel)
        assert isinstance(lumped, LumpedModel)
        theirs = msm.pcca(3)
        fields = [
            field for field in dir(PCCAModel) if not field.startswith("_") and field not in ("copy", "get_params")
        ]
        assert len(fields) >= 7
        for field in fields:
            ours_, theirs_ = getattr(lumped, field), getattr(theirs, field)
            assert type(ours_) is type(theirs_), field
            assert np.shape(np.asarray(ours_, dtype=object)) == np.shape(np.asarray(theirs_, dtype=object)) or (
                field == "sets"
            )

    def test_copies(self, models: dict[str, StateModel], micro: Any) -> None:
        centers, _, msm = micro
        lumped = models["M3C"].lump(msm, centers=centers)
        for twin in (lumped.copy(), pickle.loads(pickle.dumps(lumped))):
            assert np.array_equal(twin.memberships, lumped.memberships)
            assert twin.purity == lumped.purity

    def test_repr(self) -> None:
        lumped = lump_by_states(CHAIN, np.array([0, 0, 1]), 2)
        assert repr(lumped) == "LumpedModel(n_metastable=2, n_microstates=3, shares=[0.667, 0.333])"

    def test_the_msm_is_not_changed(self, models: dict[str, StateModel], micro: Any) -> None:
        centers, _, msm = micro
        before = pickle.dumps((msm.transition_matrix, msm.stationary_distribution))
        models["M3C"].lump(msm, centers=centers)
        assert pickle.dumps((msm.transition_matrix, msm.stationary_distribution)) == before


# Uniform stationary distribution.
CHAIN = MarkovStateModel(np.array([[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.0, 0.1, 0.9]]))


class TestByHand:
    def test_a_known_chain(self) -> None:
        lumped = lump_by_states(CHAIN, np.array([1, 1, 0]), 2)
        assert lumped.memberships.tolist() == [[0, 1], [0, 1], [1, 0]]
        assert lumped.assignments.tolist() == [1, 1, 0]
        assert [s.tolist() for s in lumped.sets] == [[2], [0, 1]]
        assert lumped.coarse_grained_stationary_probability == pytest.approx([1 / 3, 2 / 3])
        assert lumped.metastable_distributions == pytest.approx(np.array([[0, 0, 1], [0.5, 0.5, 0]]))
        assert lumped.coarse_grained_transition_matrix == pytest.approx(np.array([[0.9, 0.1], [0.05, 0.95]]))

    def test_a_chain_with_unequal_weights(self) -> None:
        # Weights 1 : 2 : 1 and flux 0.2 * 1/4 between neighbours.
        msm = MarkovStateModel(np.array([[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.0, 0.2, 0.8]]))
        lumped = lump_by_states(msm, np.array([0, 1, 1]), 2)
        assert lumped.coarse_grained_stationary_probability == pytest.approx([0.25, 0.75])
        assert lumped.coarse_grained_transition_matrix == pytest.approx(np.array([[0.8, 0.2], [0.2 / 3, 1 - 0.2 / 3]]))
        assert lumped.metastable_distributions[1] == pytest.approx([0, 2 / 3, 1 / 3])

    def test_a_sparse_matrix(self) -> None:
        sparse = MarkovStateModel(csr_matrix(CHAIN.transition_matrix))
        one, other = (lump_by_states(msm, np.array([0, 0, 1]), 2) for msm in (CHAIN, sparse))
        assert other.coarse_grained_transition_matrix == pytest.approx(one.coarse_grained_transition_matrix)
        assert isinstance(other.coarse_grained_transition_matrix, np.ndarray)

    @given(st.integers(0, 10**6), st.integers(2, 8), st.integers(1, 5))
    @settings(deadline=None, max_examples=40, derandomize=True)
    def test_any_reversible_chain(self, seed: int, n_microstates: int, n_states: int) -> None:
        rng = np.random.default_rng(seed)
        n_states = min(n_states, n_microstates)
        flux = rng.random((n_microstates, n_microstates)) ** 4 + 1e-6
        flux = flux + flux.T
        pi = flux.sum(axis=1) / flux.sum()
        states = rng.permutation(
            np.concatenate([np.arange(n_states), rng.integers(0, n_states, n_microstates - n_states)])
        )
        msm = MarkovStateModel(flux / flux.sum(axis=1)[:, None])
        lumped = lump_by_states(msm, states, n_states)
        coarse = lumped.coarse_grained_transition_matrix
        weights = lumped.coarse_grained_stationary_probability
        expected = np.zeros((n_states, n_states))
        for i in range(n_microstates):
            for j in range(n_microstates):
                expected[states[i], states[j]] += pi[i] * msm.transition_matrix[i, j]
        assert weights == pytest.approx(expected.sum(axis=1), rel=1e-6)
        assert coarse == pytest.approx(expected / expected.sum(axis=1)[:, None], rel=1e-6)
        assert coarse.min() >= 0.0
        assert coarse.sum(axis=1) == pytest.approx(1.0)
        assert weights @ coarse == pytest.approx(weights)
        assert weights[:, None] * coarse == pytest.approx((weights[:, None] * coarse).T)
        assert lumped.metastable_distributions.sum(axis=1) == pytest.approx(1.0)
        assert lumped.memberships.sum(axis=1).tolist() == [1.0] * n_microstates

    def test_states_of_microstates(self) -> None:
        labels = [np.array([0, 0, 1, 1]), np.array([1, 0, 2])]
        cells = [np.array([0, 0, 0, 3]), np.array([3, 3, 1])]
        states, purity = states_of_microstates(labels, cells, n_states=3, n_cells=5)
        assert states.tolist() == [0, 2, -1, 1, -1]
        assert purity == pytest.approx(5 / 7)

    def test_purity_on_a_model(self) -> None:
        model = KMedoids(2, scale="none", random_state=0).fit_fetch(np.repeat([0.0, 10.0], [6, 5]))
        # Microstate 0 has five frames left of the boundary and one right of it; microstate 1 has four and one.
        x = np.array([0.0, 0, 0, 0, 0, 10, 10, 10, 10, 10, 0])
        d = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
        msm = MarkovStateModel(np.array([[0.9, 0.1], [0.1, 0.9]]))
        lumped = model.lump(msm, trajs=x, dtrajs=d)
        assert lumped.assignments.tolist() == [0, 1]
        assert lumped.purity == pytest.approx(9 / 11)


def restricted_msm(symbols: list[int], n_full: int) -> MarkovStateModel:
    """MSM of a connected set that leaves some microstates out."""
    counts = np.zeros((n_full, n_full))
    n = len(symbols)
    counts[np.ix_(symbols, symbols)] = 10.0 * np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1)
    return MaximumLikelihoodMSM().fit_fetch(TransitionCountModel(counts).submodel(symbols))


@pytest.fixture(scope="module")
def line() -> StateModel:
    """Two states on a line, parted near five."""
    model: StateModel = KMedoids(2, scale="none", random_state=0).fit_fetch(np.repeat([0.0, 10.0], [6, 5]))
    return model


class TestActiveSet:
    """MSMs mostly know a part of the microstates only."""

    CENTERS = np.array([0.0, 9.0, 1.0, 10.0, 2.0, 8.0])

    def test_centres_of_all_microstates(self, line: StateModel) -> None:
        msm = restricted_msm([0, 2, 5], 6)
        lumped = line.lump(msm, centers=self.CENTERS)
        assert lumped.memberships.shape == (3, 2)
        assert lumped.assignments.tolist() == [0, 0, 1]

    def test_centres_of_the_active_set_alone(self, line: StateModel) -> None:
        msm = restricted_msm([0, 2, 5], 6)
        assert line.lump(msm, centers=self.CENTERS[[0, 2, 5]]).assignments.tolist() == [0, 0, 1]

    def test_the_last_microstates_left_out(self, line: StateModel) -> None:
        msm = restricted_msm([0, 1, 2], 6)
        assert line.lump(msm, centers=self.CENTERS).assignments.tolist() == [0, 1, 0]
        assert line.lump(msm, centers=self.CENTERS[:3]).assignments.tolist() == [0, 1, 0]

    def test_frames(self, line: StateModel) -> None:
        msm = restricted_msm([0, 2, 5], 6)
        d = np.repeat([0, 1, 2, 3, 4, 5], 4)
        lumped = line.lump(msm, trajs=[self.CENTERS[d][:10], self.CENTERS[d][10:]], dtrajs=[d[:10], d[10:]])
        assert lumped.assignments.tolist() == [0, 0, 1]
        assert lumped.purity == 1.0

    def test_against_a_full_analysis_of_disconnected_data(self) -> None:
        x, states = hidden_markov_wells(400, 3, seed=7)
        far = np.full((30, 2), 9.0)
        micro = KMeans(10, fixed_seed=1, n_jobs=1).fit_fetch(np.concatenate([x, far]))
        dtrajs = [micro.transform(x), micro.transform(far)]
        counts = TransitionCountEstimator(lagtime=1, count_mode="sliding").fit_fetch(dtrajs).submodel_largest()
        msm = MaximumLikelihoodMSM().fit_fetch(counts)
        assert msm.n_states < 10
        model = KMedoids(3, random_state=0).fit_fetch(x)
        by_centers = model.lump(msm, centers=micro.cluster_centers)
        by_frames = model.lump(msm, trajs=[x, far], dtrajs=dtrajs)
        assert np.array_equal(by_centers.assignments, by_frames.assignments)
        position = {symbol: i for i, symbol in enumerate(counts.state_symbols)}
        inside = np.isin(dtrajs[0], counts.state_symbols)
        lumped = [by_centers.assignments[position[symbol]] for symbol in dtrajs[0][inside]]
        assert agreement(lumped, states[inside]) > 0.98


class TestRefused:
    MSM = restricted_msm([0, 2, 5], 6)
    X = np.array([0.0, 1.0, 9.0, 10.0])
    D = np.array([0, 2, 5, 5])

    @pytest.mark.parametrize(
        "arguments",
        [
            {},
            {"trajs": X},
            {"dtrajs": D},
            {"centers": X, "trajs": X},
            {"centers": X, "dtrajs": D},
            {"centers": X, "trajs": X, "dtrajs": D},
        ],
        ids=lambda a: " ".join(a) or "none",
    )
    def test_neither_or_both(self, arguments: dict[str, Any], line: StateModel) -> None:
        with pytest.raises(InputError, match=r"either centers= .*or both trajs= and dtrajs="):
            line.lump(self.MSM, **arguments)

    @pytest.mark.parametrize("n_centers", [1, 2, 4, 5])
    def test_wrong_number_of_centres(self, n_centers: int, line: StateModel) -> None:
        message = (
            rf"got {n_centers} microstates, but the MSM was made from 6, of which it knows 3; give all of them, or"
        )
        with pytest.raises(InputError, match=message):
            line.lump(self.MSM, centers=np.linspace(0.0, 10.0, n_centers))

    @pytest.mark.parametrize("n_centers", [2, 4, 8])
    def test_wrong_number_of_centres_for_an_msm_that_knows_all_its_states(
        self, n_centers: int, line: StateModel
    ) -> None:
        # The first centres must not be taken for those of the MSM.
        with pytest.raises(InputError, match=rf"got {n_centers} microstates, but the MSM was made from 3"):
            line.lump(CHAIN, centers=[0.0, 1.0, 10.0, 9.0, 9.0, 0.0, 1.0, 2.0][:n_centers])

    @pytest.mark.parametrize(
        ("d", "missing"),
        [
            ([0, 1, 5, 5], 2),  # by its number in dtrajs, not in the active set
            ([0, 1, 2, 2], 5),  # as many numbers as in the active set, but not those: 0, 1, 2 are not 0, 2, 5
            ([0, 2, 3, 3], 5),  # beyond the last number in dtrajs
        ],
    )
    def test_a_microstate_without_frames(self, d: list[int], missing: int, line: StateModel) -> None:
        with pytest.raises(InputError, match=rf"microstate {missing} of the MSM occurs in no frame of dtrajs; give"):
            line.lump(self.MSM, trajs=self.X, dtrajs=np.array(d))

    @pytest.mark.parametrize(("msm", "n_full"), [(MSM, 6), (CHAIN, 3)], ids=["restricted", "whole"])
    def test_a_microstate_unknown_to_the_msm(self, msm: MarkovStateModel, n_full: int, line: StateModel) -> None:
        message = (
            rf"dtrajs hold microstate {n_full}, but the MSM was made from {n_full}, numbered from 0; give the micr"
        )
        with pytest.raises(InputError, match=message):
            line.lump(msm, trajs=self.X, dtrajs=np.array([0, 1, 2, n_full]))

    def test_a_state_without_microstates(self, line: StateModel) -> None:
        with pytest.raises(InputError, match=r"state 1 holds none of the 3 microstates of the MSM; use more micros"):
            line.lump(self.MSM, centers=np.zeros(6))

    @pytest.mark.parametrize("d", [[0, 2, 5], [0, 2, 5, 5, 5]])
    def test_dtrajs_of_another_length(self, d: list[int], line: StateModel) -> None:
        with pytest.raises(InputError, match=rf"trajs have \[4\] frames and dtrajs \[{len(d)}\]; give every frame"):
            line.lump(self.MSM, trajs=self.X, dtrajs=np.array(d))

    def test_another_number_of_trajectories(self, line: StateModel) -> None:
        with pytest.raises(InputError, match=r"trajs have \[2, 2\] frames and dtrajs \[4\]"):
            line.lump(self.MSM, trajs=[self.X[:2], self.X[2:]], dtrajs=self.D)

    @pytest.mark.parametrize(
        ("d", "message"),
        [
            ([0.0, 2.0, 5.0, 5.0], "dtype float64"),
            ([0, -1, 5, 5], "holds -1 at frame 1"),
            ([[0, 2, 5, 5]] * 2, "trajs have"),
            (["a", "b", "c", "d"], "dtype"),
            ([], "empty list"),
            ("file.npy", "dtrajs is 'file.npy'"),
        ],
    )
    def test_bad_dtrajs(self, d: Any, message: str, line: StateModel) -> None:
        with pytest.raises(InputError, match=message):
            line.lump(self.MSM, trajs=self.X, dtrajs=d)

    @pytest.mark.parametrize(
        ("centers", "message"),
        [
            (np.zeros((6, 2)), "has 2 columns, but the model was fitted to 1"),
            ([0.0, np.nan], "holds nan"),
            ([], r"centers has shape \(0, 1\): there is nothing in it"),
        ],
    )
    def test_bad_centres(self, centers: Any, message: str, line: StateModel) -> None:
        with pytest.raises(InputError, match=message):
            line.lump(self.MSM, centers=centers)

    @pytest.mark.parametrize("msm", [None, CHAIN.transition_matrix, MaximumLikelihoodMSM()], ids=["None", "P", "MLMSM"])
    def test_no_msm(self, msm: Any, line: StateModel) -> None:
        with pytest.raises(InputError, match=rf"msm is a {type(msm).__name__}; give a deeptime MarkovStateModel"):
            line.lump(msm, centers=[0.0, 1.0, 10.0])


class TestOddButFine:
    def test_nested_lists_of_centres(self, line: StateModel) -> None:
        assert line.lump(CHAIN, centers=[[0.0], [1.0], [10.0]]).assignments.tolist() == [0, 0, 1]

    def test_a_list_of_one_array_for_each_centre(self, line: StateModel) -> None:
        centers = [np.array([0.0]), np.array([1.0]), np.array([10.0])]
        assert line.lump(CHAIN, centers=centers).assignments.tolist() == [0, 0, 1]

    def test_more_than_a_thousand_microstates(self, line: StateModel) -> None:
        msm = restricted_msm([0, 700, 1500], 1501)
        x, d = np.array([0.0, 1.0, 10.0]), np.array([0, 700, 1500])
        assert line.lump(msm, trajs=x, dtrajs=d).assignments.tolist() == [0, 0, 1]

    def test_more_than_a_thousand_centres(self, line: StateModel) -> None:
        msm = restricted_msm([0, 700, 1500], 1501)
        assert line.lump(msm, centers=np.linspace(0.0, 10.0, 1501)).assignments.tolist() == [0, 0, 1]
