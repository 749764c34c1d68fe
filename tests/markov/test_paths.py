"""Transition paths of chains whose committors, fluxes and times are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from deeptime.markov import TransitionCountEstimator
from deeptime.markov.msm import BayesianMSM, MarkovStateModel, MaximumLikelihoodMSM

from m3c_md import kinetics, transition_paths
from m3c_md.exceptions import DisconnectedWarning, InputError

# A walk on a line, 0 - 1 - 2 - 3: the probabilities of steps are symmetric, so that all states are equally likely and
# the committor rises by the resistances 1 / p of the steps.
STEPS = np.array([0.1, 0.05, 0.2])
# Two ways from 0 to 3, by 1 and by 2, the first with twice the probability.
FORK = np.array([[0.85, 0.1, 0.05, 0.0], [0.1, 0.8, 0.0, 0.1], [0.05, 0.0, 0.9, 0.05], [0.0, 0.1, 0.05, 0.85]])


def line(steps: np.ndarray) -> MarkovStateModel:
    matrix = np.diag(steps, 1) + np.diag(steps, -1)
    return MarkovStateModel(matrix + np.diag(1.0 - matrix.sum(axis=1)))


def walk(matrix: np.ndarray, n_frames: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    cumulated = np.cumsum(matrix, axis=1)
    states = np.zeros(n_frames, dtype=np.intp)
    for t, u in enumerate(rng.random(n_frames - 1)):
        states[t + 1] = np.searchsorted(cumulated[states[t]], u)
    return states


class TestKnownChains:
    def test_committors_and_flux_of_a_line(self) -> None:
        paths = transition_paths(line(STEPS), 0, 3, dt=0.5, unit="ns")
        resistance = np.concatenate([[0.0], np.cumsum(1.0 / STEPS)])
        np.testing.assert_allclose(paths.states["committor"], resistance / resistance[-1], atol=1e-12)
        # A current through resistors in series, a quarter of the population at its beginning.
        assert paths.total_flux == pytest.approx(0.25 / resistance[-1] / 0.5)
        assert sorted(paths.fluxes.index) == [(0, 1), (1, 2), (2, 3)]
        np.testing.assert_allclose(paths.fluxes["flux"], paths.total_flux)
        assert paths.pathways["path"].tolist() == ["0 → 1 → 2 → 3"]
        assert paths.pathways["share"].tolist() == pytest.approx([1.0])

    def test_a_fork_has_two_paths_with_the_shares_of_its_branches(self) -> None:
        paths = transition_paths(MarkovStateModel(FORK), "start", "end", names=["start", "fast", "slow", "end"])
        assert paths.pathways["path"].tolist() == ["start → fast → end", "start → slow → end"]
        np.testing.assert_allclose(paths.pathways["share"], [2.0 / 3.0, 1.0 / 3.0])
        np.testing.assert_allclose(paths.states["committor"], [0.0, 0.5, 0.5, 1.0])
        by_name = paths.fluxes.set_index(["from name", "to name"])["share"]
        assert by_name["start", "fast"] == pytest.approx(2.0 / 3.0)

    def test_the_mean_first_passage_time_is_that_of_the_chain(self) -> None:
        for matrix in (FORK, line(STEPS).transition_matrix):
            msm = MarkovStateModel(matrix, lagtime=5)
            for source, target in ((0, 3), (3, 0), (1, 3)):
                paths = transition_paths(msm, source, target, dt=2.0, unit="ps")
                # deeptime counts steps of a lag time in frames.
                assert paths.mfpt == pytest.approx(2.0 * msm.mfpt(source, target))
                assert paths.rate == pytest.approx(1.0 / paths.mfpt)

    def test_the_time_on_the_way_is_that_of_a_long_walk(self) -> None:
        states = walk(FORK, 200_000)
        ends = np.flatnonzero((states == 0) | (states == 3))
        leaves = (states[ends[:-1]] == 0) & (states[ends[1:]] == 3)
        times = np.diff(ends)[leaves]
        paths = transition_paths(MarkovStateModel(FORK), 0, 3)
        assert paths.duration == pytest.approx(times.mean(), abs=4.0 * times.std() / np.sqrt(len(times)))
        assert paths.total_flux == pytest.approx(len(times) / len(states), rel=4.0 / np.sqrt(len(times)))

    def test_a_direct_transition_takes_a_lag_time(self) -> None:
        paths = transition_paths(MarkovStateModel([[0.9, 0.1], [0.2, 0.8]], lagtime=4), 0, 1, dt=0.5)
        assert paths.duration == pytest.approx(2.0)
        assert paths.mfpt == pytest.approx(20.0)
        assert paths.pathways["states"].tolist() == [(0, 1)]

    def test_several_sources(self) -> None:
        paths = transition_paths(line(STEPS), [0, 1], 3)
        np.testing.assert_allclose(paths.states["committor"], [0.0, 0.0, 0.8, 1.0])
        assert paths.pathways["path"].tolist() == ["1 → 2 → 3"]


class TestTrajectories:
    def test_they_are_those_of_the_reversible_model(self) -> None:
        states = walk(FORK, 20_000)
        paths = transition_paths(states, 0, 3, 2, dt=0.1, unit="ns")
        plain = kinetics(states, 2, dt=0.1, unit="ns", confidence=None)
        assert paths.mfpt == pytest.approx(plain.pairs["mfpt"][0, 3])
        np.testing.assert_allclose(paths.states["population"], plain.states["population"])
        msm = MaximumLikelihoodMSM(lagtime=2).fit_fetch(states)
        assert paths.total_flux == pytest.approx(msm.reactive_flux([0], [3]).total_flux / 0.2, rel=1e-6)

    def test_states_that_are_not_connected_have_no_committor(self) -> None:
        states = [walk(FORK, 2000), np.full(100, 5)]
        with pytest.warns(DisconnectedWarning):
            paths = transition_paths(states, 0, 3, names=[*"abcdef"])
        assert np.isnan(paths.states["committor"]).tolist() == [False] * 4 + [True] * 2
        with pytest.warns(DisconnectedWarning), pytest.raises(InputError, match="f is not connected"):
            transition_paths(states, "f", "a", names=[*"abcdef"])

    def test_a_model_restricted_to_its_active_set_keeps_its_numbers(self) -> None:
        states = walk(FORK, 2000)
        shifted = np.array([0, 2, 3, 5])[states]
        counts = TransitionCountEstimator(1, "sliding").fit_fetch(shifted).submodel_largest()
        paths = transition_paths(MaximumLikelihoodMSM().fit_fetch(counts), 0, 5)
        assert set(paths.pathways["states"]) == {(0, 2, 5), (0, 3, 5)}


def walks(n: int, n_frames: int, seed: int) -> list[np.ndarray]:
    """Walks on the fork that begin in equilibrium."""
    rng, cumulated = np.random.default_rng(seed), np.cumsum(FORK, axis=1)
    states = np.empty((n_frames, n), dtype=np.intp)
    states[0] = rng.integers(4, size=n)  # all states are equally likely
    for t in range(1, n_frames):
        states[t] = (rng.random(n)[:, None] > cumulated[states[t - 1]]).sum(axis=1)
    return list(states.T)


class TestIntervals:
    @pytest.mark.parametrize(("n", "n_frames", "confidence"), [(20, 200, "bootstrap"), (2, 2000, "bayesian")])
    def test_they_hold_the_truth_in_most_data_sets(self, n: int, n_frames: int, confidence: str) -> None:
        exact = transition_paths(MarkovStateModel(FORK), 0, 3)
        assert exact.confidence is None
        assert exact.intervals == {}
        held = []
        for seed in range(30):
            found = transition_paths(walks(n, n_frames, 500 + seed), 0, 3, n_samples=50, random_state=seed)
            assert found.confidence == confidence
            values = [(*found.intervals[name], getattr(exact, name)) for name in ("total_flux", "mfpt", "duration")]
            ends = ["flux low", "flux high"]
            values += [(*found.fluxes.loc[pair, ends], flux) for pair, flux in exact.fluxes["flux"].items()]
            by_states = found.pathways.set_index("states")[ends]
            truth = zip(exact.pathways["states"], exact.pathways["flux"], strict=True)
            values += [(*by_states.loc[[path]].iloc[0], flux) for path, flux in truth]
            held.append([low <= value <= high for low, high, value in values])
        # 95 % of 30 is 28.5; fewer than 24 are seen less than once in 1,000 times for a quantity (binomial).
        assert np.mean(held) > 0.88
        assert np.sum(held, axis=0).min() >= 24

    def test_they_shrink_with_the_root_of_the_data(self) -> None:
        widths = []
        for n_frames in (200, 3200):
            found = transition_paths(walks(20, n_frames, 3), 0, 3, random_state=0)
            widths.append([np.log(high / low) for low, high in found.intervals.values()])
        # Sixteen times the data: four times as narrow, give or take the luck of two draws.
        assert (np.abs(np.log2(np.divide(*widths)) - 2.0) < 1.0).all()

    def test_same_seed_same_interval(self) -> None:
        data = walks(20, 100, 0)
        first, again, other = (transition_paths(data, 0, 3, n_samples=20, random_state=s) for s in (1, 1, 2))
        assert first.intervals == again.intervals != other.intervals
        assert first.total_flux == other.total_flux
        assert transition_paths(data, 0, 3, confidence=None).intervals == {}

    def test_a_flux_whose_direction_is_not_known_may_go_back(self) -> None:
        # Both ways of the fork are alike, and a rung between them carries nothing on balance.
        rung = np.array([[0.8, 0.1, 0.1, 0.0], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.0, 0.1, 0.1, 0.8]])
        found = transition_paths(walk(rung, 2000), 0, 3, random_state=0)
        (across,) = [pair for pair in found.fluxes.index if set(pair) == {1, 2}]
        assert found.fluxes.loc[across, "flux low"] < 0.0 < found.fluxes.loc[across, "flux high"]
        assert (found.pathways["flux low"] >= 0.0).all()

    def test_nothing_is_said_where_few_samples_have_both_ends(self) -> None:
        # One of twelve trajectories is all that knows the target: a third of the resampled data lack it.
        data = [np.tile([0, 0, 1], 20) for _ in range(11)] + [np.tile([0, 1, 2, 1], 20)]
        found = transition_paths(data, 0, 2, random_state=0)
        assert found.total_flux > 0.0
        assert np.isnan(found.intervals["total_flux"]).all()
        assert found.fluxes["flux low"].isna().all()

    def test_a_bayesian_model_brings_its_samples(self) -> None:
        states = walk(FORK, 4000)
        counts = TransitionCountEstimator(1, "effective").fit_fetch(np.array([0, 2, 3, 5])[states]).submodel_largest()
        posterior = BayesianMSM(n_samples=50).fit_fetch(counts)
        found = transition_paths(posterior, 0, 5)
        assert set(found.pathways["states"]) == {(0, 2, 5), (0, 3, 5)}
        fluxes = [msm.reactive_flux([0], [3]).total_flux for msm in posterior.samples]
        ends = np.quantile(fluxes, [0.025, 0.975], method="weibull")
        np.testing.assert_allclose(found.intervals["total_flux"], ends, rtol=1e-3)

    def test_the_text_has_them(self) -> None:
        found = transition_paths(walks(20, 200, 0), 0, 3, random_state=0)
        low, high = found.intervals["mfpt"]
        assert f"({low:.3g} to {high:.3g}) frame" in repr(found)
        assert "95 % intervals by resampling whole trajectories" in repr(found)
        low, high = found.pathways.loc[0, ["flux low", "flux high"]]
        assert f"({low:.3g} to {high:.3g})" in repr(found)


class TestMicrostates:
    @pytest.fixture(scope="class")
    @staticmethod
    def fine() -> tuple[MarkovStateModel, np.ndarray]:
        """Every state of the fork as two microstates that exchange at random within it."""
        halves = np.kron(FORK, np.full((2, 2), 0.5))
        return MarkovStateModel(halves), np.repeat(np.arange(4), 2)

    def test_states_that_are_uniform_inside_give_the_same_paths(self, fine: Any) -> None:
        msm, assignments = fine
        micro = transition_paths(msm, 0, 3, assignments=assignments, dt=2.0)
        macro = transition_paths(MarkovStateModel(FORK), 0, 3, dt=2.0)
        np.testing.assert_allclose(micro.states, macro.states)
        assert micro.pathways["states"].tolist() == macro.pathways["states"].tolist()
        np.testing.assert_allclose(micro.pathways["flux"], macro.pathways["flux"])
        assert micro.mfpt == pytest.approx(macro.mfpt)
        assert micro.duration == pytest.approx(macro.duration)

    def test_coarse_fluxes_are_those_of_deeptime(self) -> None:
        rng = np.random.default_rng(3)
        counts = rng.random((8, 8)) + np.diag(np.full(8, 6.0))
        flows = counts + counts.T
        msm = MarkovStateModel(flows / flows.sum(axis=1, keepdims=True))
        assignments = np.repeat(np.arange(4), 2)
        paths = transition_paths(msm, 1, 2, assignments=assignments)
        sets, coarse = msm.reactive_flux([2, 3], [4, 5]).coarse_grain([{0, 1}, {2, 3}, {4, 5}, {6, 7}])
        states = [assignments[min(one)] for one in sets]
        for (i, j), flux in paths.fluxes["flux"].items():
            assert coarse.net_flux[states.index(i), states.index(j)] == pytest.approx(flux)
        assert paths.total_flux == pytest.approx(coarse.total_flux)

    @pytest.mark.parametrize("wrong", [[0, 1], np.zeros(8), np.full(8, -1)])
    def test_bad_assignments_are_refused(self, fine: Any, wrong: Any) -> None:
        with pytest.raises(InputError, match="assignments"):
            transition_paths(fine[0], 0, 1, assignments=wrong)

    def test_assignments_of_trajectories_are_refused(self) -> None:
        with pytest.raises(InputError, match="assignments"):
            transition_paths([0, 1, 0, 1], 0, 1, assignments=[0, 1])


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (0, 0, "share a state"),
        ([0, 1], 1, "share a state"),
        (0, 9, "numbered 0 to 3"),
        ("x", 1, "no such state"),
        ([], 1, "names no state"),
        (0, 1.5, "whole number"),
    ],
)
def test_bad_ends_are_refused(source: Any, target: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        transition_paths(line(STEPS), source, target)


def test_the_text_names_states_and_units() -> None:
    text = repr(transition_paths(line(STEPS), 0, 3, names=["coil", *"bc", "helix"], dt=0.5, unit="ns"))
    assert "coil to helix, lag time 0.5 ns" in text
    assert "coil → b → c → helix" in text
    assert "transitions per ns" in text
