"""What M3C finds, how firmly, and what it says about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import m3c_md
from m3c_md import M3C, M3CModel
from m3c_md.exceptions import (
    AmbiguousSolutionWarning,
    ConvergenceWarning,
    OverlappingStatesWarning,
    RareStateWarning,
    ShortTrajectoryWarning,
)
from m3c_md.matching import agreement
from tests.conftest import Wells, hidden_markov_wells, other_warnings, quick


def square_of_wells() -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Four wells on a square, visited in turn, and the mirror image: two states may as well be left/right as up/down.

    Returns
    -------
    trajectories, left_or_right, down_or_up
    """
    corners = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    centres = corners[np.tile(np.repeat(np.arange(4), 20), 5)]
    x = centres + 0.2 * np.random.default_rng(0).normal(size=centres.shape)
    first, second = (centres > 0).astype(int).T
    return [x, x[:, ::-1].copy()], [first, second], [second, first]


def rival_of(model: M3CModel) -> int:
    """First row of another start than that of the winner, which is there in several metrics."""
    starts = model.candidates["start"]
    return next(number for number, start in enumerate(starts) if start != starts[0])


@pytest.fixture(scope="module")
def ambiguous_model() -> M3CModel:
    trajectories, left_or_right, down_or_up = square_of_wells()
    # Many features: few would break the symmetry by chance.
    estimator = quick(2, starts=[left_or_right, down_or_up], n_features=1200, regularization=3e-3)
    with pytest.warns(AmbiguousSolutionWarning, match=r"before you rely on these, .* model\.alternative\(1\)"):
        model: M3CModel = estimator.fit_fetch(trajectories)
    return model


class TestRecovery:
    @pytest.mark.parametrize("n_states", [2, 3])
    def test_default_search_finds_hidden_states(self, n_states: int) -> None:
        x, states = hidden_markov_wells(400, n_states, seed=5)
        labels = M3C(n_states, random_state=0).fit_predict(x)
        assert agreement(labels, states) > 0.98
        assert set(labels) == set(range(n_states))

    @pytest.mark.parametrize("seed", range(4))
    def test_any_seed_will_do(self, seed: int, three_wells: Wells) -> None:
        labels = quick(3, random_state=seed).fit_predict(three_wells.frames)
        assert agreement(labels, three_wells.states) > 0.98

    @pytest.mark.parametrize("start", ["kinetic", "pcca", "lumping", "kmeans", "kmedoids"])
    def test_every_start_that_looks_at_the_data_leads_there(self, start: str, three_wells: Wells) -> None:
        labels = quick(3, starts=(start,)).fit_predict(three_wells.frames)
        assert agreement(labels, three_wells.states) > 0.98

    def test_new_frames_get_their_state(self, three_wells: Wells, three_state_model: M3CModel) -> None:
        x, states = hidden_markov_wells(500, 3, seed=99)
        joint = np.concatenate([three_state_model.transform(three_wells.frames), three_state_model.transform(x)])
        assert agreement(joint, np.concatenate([three_wells.states, states])) > 0.98

    def test_kinetics_not_geometry_decides(self) -> None:
        # Two wells that are exchanged in every step are one state, however far apart; k-means would part them.
        rng = np.random.default_rng(0)
        state = np.tile(np.repeat([0, 1], 40), 8)
        fast = rng.choice([-2.0, 2.0], size=len(state))
        x = np.column_stack([fast, np.where(state, 0.5, -0.5)]) + 0.1 * rng.normal(size=(len(state), 2))
        assert agreement(quick(2, starts=("kinetic", "kmeans")).fit_predict(x), state) > 0.98


class TestPopulations:
    def test_exactly_as_many_states_as_asked_for(self, three_wells: Wells, searched_model: M3CModel) -> None:
        assert searched_model.n_states == 3
        assert set(searched_model.transform(three_wells.frames)) == {0, 1, 2}

    @pytest.mark.parametrize("seed", range(3))
    def test_states_are_ordered_by_falling_population(self, seed: int) -> None:
        x = hidden_markov_wells(400, 3, seed=seed).frames
        model = quick(3).fit_fetch(x)
        counts = np.bincount(model.transform(x))
        assert counts.tolist() == sorted(counts, reverse=True)
        assert model.populations == pytest.approx(counts / counts.sum(), abs=1e-12)

    @pytest.mark.parametrize("least", [0.01, 0.15, 0.3])
    def test_no_state_is_smaller_than_the_balance_allows(self, least: float, three_wells: Wells) -> None:
        x = three_wells.frames
        try:
            model = quick(3, balance=(least, 1.0)).fit_fetch(x)
        except RuntimeError:  # an honest refusal is allowed where the data have no such decomposition
            assert np.bincount(three_wells.states).min() < least * len(x)
        else:
            assert np.bincount(model.transform(x), minlength=3).min() >= least * len(x)


class TestStartsThatAgree:
    def test_end_the_exploration_unless_somebody_adds_a_start(self, three_wells: Wells) -> None:
        x = three_wells.frames
        usual = M3C(3, random_state=0).fit_fetch(x)
        assert set(usual.candidates["start"]) == {"kinetic", "lumping"}
        more = M3C(3, starts=("kinetic", "lumping", three_wells.states), random_state=0).fit_fetch(x)
        assert {"kinetic", "lumping", "labels 2"} <= set(more.candidates["start"])
        assert agreement(usual.transform(x), more.transform(x)) > 0.99


class TestWhereTheBalanceDoesNotFit:
    """Every candidate of the first search loses a state there."""

    @pytest.mark.parametrize("seed", [0, 1])
    def test_a_state_rarer_than_the_balance_is_found(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        states = np.cumsum(rng.random(6000) < 0.03) % 2
        states[2000:2012] = states[4000:4012] = 2  # 0.4 % of the frames
        x = np.array([[-1.5, 0.0], [1.5, 0.0], [0.0, 4.0]])[states] + 0.3 * rng.normal(size=(6000, 2))
        with pytest.warns(RareStateWarning, match=r"0\.40% of the frames, less than balance\[0\]=0\.01"):
            model = M3C(3, random_state=0).fit_fetch(x)
        np.testing.assert_array_equal(model.transform(x) == 2, states == 2)

    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.AmbiguousSolutionWarning")
    def test_overlapping_states_are_kept_apart(self) -> None:
        rng = np.random.default_rng(1)
        states = np.cumsum(np.where(rng.random(1200) < 0.97, 0, rng.integers(1, 3, 1200))) % 3
        angle = 2.0 * np.pi * np.arange(3) / 3
        centres = 1.5 * np.column_stack([np.cos(angle), np.sin(angle), *np.zeros((4, 3))])
        x = centres[states] + 0.9 * rng.normal(size=(1200, 6))
        with pytest.warns(
            OverlappingStatesWarning, match=r"every rule that was tried lost one of the 3 states, so .*; 2 states may"
        ):
            model = M3C(3, random_state=0).fit_fetch(x)
        assert agreement(model.transform(x), states) > 0.85
        shares = np.sort(np.bincount(states))[::-1] / 1200
        np.testing.assert_allclose(model.populations, shares, atol=0.05)  # 48, 42 and 10 %


# Prints what a fit in another process finds.
FIT_ELSEWHERE = """
import json, sys
import numpy as np
from m3c_md import M3C
x = np.load(sys.argv[1])
for n_jobs in json.loads(sys.argv[2]):
    model = M3C(3, bandwidth=(0.5, 1.0), starts=("kinetic", "lumping"), random_state=0, n_jobs=n_jobs).fit_fetch(x)
    print(json.dumps([model.transform(x).tolist(), model.objective]))
"""


class TestReproducibility:
    def test_same_seed_same_bits(self, three_wells: Wells, three_state_model: M3CModel) -> None:
        again = quick(3).fit_fetch(three_wells.frames)
        x = three_wells.frames
        assert np.array_equal(again.decision_function(x), three_state_model.decision_function(x))

    def test_a_generator_counts_as_a_seed(self, two_wells: Wells) -> None:
        x = two_wells.frames
        scores = [quick(2, random_state=np.random.default_rng(3)).fit_fetch(x).decision_function(x) for _ in range(2)]
        assert np.array_equal(*scores)

    def test_neither_processes_nor_threads_change_the_answer(self, three_wells: Wells, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", three_wells.frames)
        answers: list[Any] = []
        for n_threads, n_jobs in (("1", [None]), ("2", [None, 2])):
            done = subprocess.run(
                [sys.executable, "-c", FIT_ELSEWHERE, str(tmp_path / "x.npy"), json.dumps(n_jobs)],
                env={**os.environ, "OMP_NUM_THREADS": n_threads, "OPENBLAS_NUM_THREADS": n_threads},
                cwd=Path(m3c_md.__file__).parents[1],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            answers += [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == 3
        assert all(answer == answers[0] for answer in answers)

    def test_order_of_trajectories_does_not_matter(self, three_wells: Wells) -> None:
        x = three_wells.frames
        parts = np.split(x, [150, 310, 400])
        one, other = quick(3).fit_fetch(parts), quick(3).fit_fetch(parts[::-1])
        assert agreement(one.transform(x), other.transform(x)) > 0.99

    def test_where_a_trajectory_is_cut_hardly_matters(self, three_wells: Wells, three_state_model: M3CModel) -> None:
        x = three_wells.frames
        for place in (100, 331):
            cut = quick(3).fit_fetch([x[:place], x[place:]])
            assert agreement(cut.transform(x), three_state_model.transform(x)) > 0.99

    def test_numbering_of_columns_does_not_matter(self, three_wells: Wells, three_state_model: M3CModel) -> None:
        x = three_wells.frames
        swapped = quick(3).fit_predict(x[:, ::-1])
        assert agreement(swapped, three_state_model.transform(x)) > 0.99

    @pytest.mark.parametrize("reweight", [True, False])
    def test_single_precision_is_enough(self, reweight: bool, three_wells: Wells) -> None:
        x = three_wells.frames
        single = quick(3, reweight=reweight).fit_predict(x.astype(np.float32))
        assert np.mean(single == quick(3, reweight=reweight).fit_predict(x)) > 0.999

    def test_units_do_not_matter_to_the_automatic_bandwidth(self) -> None:
        x = hidden_markov_wells(300, 2, seed=2).frames
        for scale, ratio in (("none", 1024.0), ("standard", 1.0)):
            estimator = M3C(2, starts=("kinetic",), scale=scale, random_state=0)
            small, large = (estimator.fit_fetch(factor * x) for factor in (1.0, 1024.0))
            # A power of two scales without rounding, so even the objectives agree.
            assert np.array_equal(small.transform(x), large.transform(1024.0 * x))
            assert large.bandwidth == pytest.approx(ratio * small.bandwidth, rel=1e-12)

    @pytest.mark.parametrize("features", ["orthogonal", "fourier"])
    def test_the_origin_does_not_matter(self, features: Any, two_wells: Wells) -> None:
        # Features are centred on the data: also those with random phases see only differences of frames.
        x = two_wells.frames
        here, there = (quick(2, features=features).fit_fetch(x + shift) for shift in (0.0, 4096.0))
        assert there.decision_function(x + 4096.0) == pytest.approx(here.decision_function(x), abs=1e-3)
        assert np.array_equal(there.transform(x + 4096.0), here.transform(x))


class TestPaper:
    def test_settings_of_the_paper(self) -> None:
        estimator = M3C.paper(4, 2, random_state=1)
        assert isinstance(estimator, M3C)
        assert (estimator.n_states, estimator.lagtime, estimator.random_state) == (4, 2, 1)
        # Section 'Experiments' of the paper: N^c = 30, d = 50, sigma = 2^-4 ... 2^4, beta = 0.01, alpha_H = 0,
        # r_max = 100, balance (0.01, 0.99).
        assert estimator.n_coarse == 30
        assert estimator.n_features == 50
        assert list(estimator.bandwidth) == [0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
        assert estimator.regularization == 0.01
        assert (estimator.tolerance, estimator.max_iterations) == (0, 100)
        assert tuple(estimator.balance) == (0.01, 0.99)
        assert estimator.features == "fourier"
        assert not estimator.reweight
        assert list(estimator.starts) == ["relaxation-literal"]
        assert estimator.selection == "objective"
        assert estimator.scale == "none"

    def test_single_settings_can_be_changed(self) -> None:
        assert M3C.paper(2, n_coarse=12, starts=("kinetic",)).get_params()["n_coarse"] == 12

    def test_it_fits(self) -> None:
        x, states = hidden_markov_wells(300, 2, seed=1)
        model = M3C.paper(2, random_state=0, n_coarse=12, bandwidth=(0.5, 1.0)).fit_fetch(x)
        assert agreement(model.transform(x), states) > 0.98
        assert model.effective_sample == pytest.approx(1.0, abs=1e-12)
        # No candidate is left out or dropped on the way: the paper compares them all at the end.
        assert sorted(model.candidates["bandwidth"]) == [0.5, 1.0]
        assert not model.candidates["fate"].str.startswith("dropped").any()


class TestStartsOfTheUser:
    def test_right_labels_are_kept(self, three_wells: Wells) -> None:
        x, states = three_wells
        model = quick(3, starts=[states]).fit_fetch(x)
        assert agreement(model.transform(x), states) > 0.995
        assert set(model.candidates["start"]) == {"labels 0"}

    def test_one_array_for_each_trajectory(self, three_wells: Wells) -> None:
        x, states = three_wells
        cut = [100, 350]
        model = quick(3, starts=["kinetic", np.split(states, cut)]).fit_fetch(np.split(x, cut))
        assert agreement(model.transform(x), states) > 0.995
        assert set(model.candidates["start"]) == {"kinetic", "labels 1"}


class TestSearchRecord:
    def test_certificate(self, searched_model: M3CModel) -> None:
        assert 0.0 <= searched_model.gap <= 1e-3
        assert searched_model.lower_bound <= searched_model.objective
        expected = (searched_model.objective - searched_model.lower_bound) / searched_model.objective
        assert searched_model.gap == pytest.approx(expected, rel=1e-6)

    def test_trace_never_rises(self, searched_model: M3CModel) -> None:
        for number in range(len(searched_model.candidates)):
            trace = np.array(searched_model.alternative(number).trace)
            assert len(trace) > 0
            # Candidates on samples are computed in single precision.
            assert np.diff(trace).max(initial=-np.inf) <= 1e-6 * trace[0]

    def test_objective_is_what_the_rule_costs(self, three_wells: Wells) -> None:
        # From the definition, in plain loops: penalty plus mean loss over all label tuples (paper's n = 2 slices).
        x, regularization = three_wells.frames, 5e-3
        model = quick(3, reweight=False, regularization=regularization).fit_fetch(x)
        scores = model.decision_function(x)
        tuples = [(k, m) for k in range(3) for m in range(3)]

        def loss(now: np.ndarray, later: np.ndarray, y: int) -> float:
            return float(max(((k, m) != (y, y)) + now[k] - now[y] + later[m] - later[y] for k, m in tuples))

        # Windows take the cheapest state: the balance is not active here.
        cheapest = [min(loss(a, b, y) for y in range(3)) for a, b in pairwise(scores)]
        penalty = 0.5 * regularization * (model.rule.weights**2).sum()
        assert model.objective == pytest.approx(penalty + np.mean(cheapest), rel=1e-6)

    def test_one_row_for_each_candidate(self, searched_model: M3CModel) -> None:
        table = searched_model.candidates
        assert isinstance(table, pd.DataFrame)
        wanted = {"start", "bandwidth", "objective", "populations", "metastability", "degenerate", "fate"}
        assert wanted <= set(table.columns)
        rows = list(zip(table["start"], table["bandwidth"], strict=True))
        assert len(set(rows)) == len(rows)
        # A search may leave out combinations that can only repeat others, but no start and no bandwidth.
        assert {start for start, _ in rows} == {"kinetic", "kmeans"}
        assert {width for _, width in rows} == {0.5, 1.0, 2.0}

    def test_the_winner_is_first_and_best(self, searched_model: M3CModel) -> None:
        table = searched_model.candidates
        assert table["fate"][0] == "winner"
        assert (table["fate"] == "winner").sum() == 1
        assert table["objective"][0] == searched_model.objective
        assert table["bandwidth"][0] == searched_model.bandwidth
        # The others were optimised to a gap of 1 % only, so they may seem a little worse than they are, not better.
        honest = table[~table["degenerate"]]
        assert honest["score"].min() == table["score"][0]

    def test_metastability_is_the_trace_of_the_macro_chain(self, three_wells: Wells) -> None:
        x = three_wells.frames
        model = quick(3, reweight=False).fit_fetch(x)
        labels = model.transform(x)
        counts = np.zeros((3, 3))
        np.add.at(counts, (labels[:-1], labels[1:]), 1.0)
        counts = counts + counts.T
        expected = (np.diag(counts) / counts.sum(axis=1)).sum()
        assert model.candidates["metastability"][0] == pytest.approx(expected, rel=1e-12)

    def test_degenerate_candidates_are_shown_and_never_win(self, two_wells: Wells) -> None:
        model = quick(2, bandwidth=(1.0, 1e4), metric="standard").fit_fetch(two_wells.frames)
        table = model.candidates.set_index("bandwidth")
        assert table.loc[1.0, "fate"] == "winner"
        assert table.loc[1e4, "fate"] == "dropped: by its least-squares rule"
        literal = quick(2, bandwidth=(1.0, 1e4), starts=("relaxation-literal",), n_coarse=12, metric="standard")
        whole = literal.fit_fetch(two_wells.frames)
        table = whole.candidates.set_index("bandwidth")
        assert table.loc[1e4, "degenerate"]
        assert table.loc[1e4, "fate"].startswith("degenerate")
        assert min(table.loc[1e4, "populations"]) < 0.01

    def test_alternative_zero_is_the_model(self, three_wells: Wells, searched_model: M3CModel) -> None:
        x = three_wells.frames
        twin = searched_model.alternative(0)
        assert np.array_equal(twin.decision_function(x), searched_model.decision_function(x))
        assert repr(twin) == repr(searched_model)

    def test_every_alternative_works(self, three_wells: Wells, searched_model: M3CModel) -> None:
        table = searched_model.candidates
        for number in range(len(table)):
            model = searched_model.alternative(number)
            assert model.bandwidth == table["bandwidth"][number]
            assert model.objective == table["objective"][number]
            assert agreement(model.transform(three_wells.frames), three_wells.states) > 0.98

    def test_an_alternative_can_be_another_decomposition(self, ambiguous_model: M3CModel) -> None:
        trajectories, left_or_right, down_or_up = square_of_wells()
        x = np.concatenate(trajectories)
        labels = [ambiguous_model.alternative(number).transform(x) for number in (0, rival_of(ambiguous_model))]
        expected = [np.concatenate(parts) for parts in (left_or_right, down_or_up)]
        if ambiguous_model.candidates["start"][0] == "labels 1":
            expected.reverse()
        assert [agreement(a, b) > 0.98 for a, b in zip(labels, expected, strict=True)] == [True, True]


class TestWarnings:
    def test_a_close_rival_is_named_and_remembered(self, ambiguous_model: M3CModel) -> None:
        (message,) = other_warnings(ambiguous_model)
        assert f"model.alternative({rival_of(ambiguous_model)})" in message

    def test_short_trajectories_are_remembered_too(self, two_wells: Wells) -> None:
        with pytest.warns(ShortTrajectoryWarning) as record:
            model = quick(2, lagtime=3).fit_fetch([two_wells.frames, two_wells.frames[:2]])
        assert other_warnings(model) == [str(record[0].message)]

    def test_no_warning_where_the_answer_is_clear(self, searched_model: M3CModel) -> None:
        assert other_warnings(searched_model) == []

    def test_a_search_cut_short_says_so(self, three_wells: Wells) -> None:
        with pytest.warns(ConvergenceWarning, match=r"after 1 rounds.*raise max_iterations") as record:
            model = quick(3, max_iterations=1).fit(three_wells.frames).model
        assert other_warnings(model) == [str(record[0].message)]
        assert record[0].filename == __file__
        assert agreement(model.transform(three_wells.frames), three_wells.states) > 0.9


class TestReweighting:
    def test_effective_sample_is_a_share(self, three_state_model: M3CModel) -> None:
        assert 0.0 < three_state_model.effective_sample <= 1.0 + 1e-12

    def test_no_weights_no_loss(self, three_wells: Wells) -> None:
        model = quick(3, reweight=False).fit_fetch(three_wells.frames)
        assert model.effective_sample == pytest.approx(1.0, abs=1e-12)

    def test_relaxation_from_a_far_start_costs_sample(self) -> None:
        # Short runs that start far out and slide into one of two wells: their first frames say nothing of equilibrium.
        rng = np.random.default_rng(0)
        slide = 3.0 * 0.7 ** np.arange(40)
        runs = [
            np.column_stack([side + 0.2 * rng.normal(size=40), slide + 0.2 * rng.normal(size=40)])
            for side in (-1.0, 1.0) * 10
        ]
        model = quick(2).fit_fetch(runs)
        assert model.effective_sample < 0.95
        assert model.alternative(0).effective_sample == model.effective_sample


@pytest.mark.parametrize("call", ["fit", "fit_fetch", "fit_predict"])
def test_warnings_point_at_the_line_of_the_user(call: str) -> None:
    frames = hidden_markov_wells(200, 2).frames
    with pytest.warns(ShortTrajectoryWarning) as caught:
        getattr(quick(2), call)([frames, frames[:1]])
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("n_frames", "n_columns", "expected"), [(300, 8, 100), (300, 12, 150), (300, 16, 200), (20_100, 16, 100)]
)
def test_number_of_features_follows_the_data(n_frames: int, n_columns: int, expected: int) -> None:
    wells = hidden_markov_wells(n_frames, 2, seed=3).frames
    noise = 0.2 * np.random.default_rng(0).normal(size=(n_frames, n_columns - 2))
    model = quick(2, bandwidth=3.0).fit_fetch(np.hstack([wells, noise]))
    assert model.feature_map.frequencies.shape == (n_columns, expected)


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")  # each state is visited twice
def test_more_states_than_a_relaxation_has_windows() -> None:
    # n_coarse (30) belongs to the relaxation, from which nothing starts here.
    rng = np.random.default_rng(0)
    cells = np.repeat(np.concatenate([rng.permutation(32), rng.permutation(32)]), 30)
    x = np.stack([cells // 6, cells % 6], axis=1) * 8.0 + rng.normal(size=(len(cells), 2))
    model = M3C(32, bandwidth=0.3, starts=(cells,), metric="standard", random_state=0).fit_fetch(x)
    assert agreement(cells, model.transform(x)) > 0.99
