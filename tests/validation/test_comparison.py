"""compare: held-out numbers that can be checked by hand, no leakage, same seed same answer, a word where data fail."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, ClassVar

import matplotlib
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from m3c_md import PCCAPlus, compare
from m3c_md.exceptions import (
    DegenerateSolutionError,
    InputError,
    LagtimeWarning,
    M3CWarning,
    ModelFileError,
    ShortTrajectoryWarning,
    SolverError,
)
from m3c_md.validation import Comparison, implied_timescales, kept_fits
from m3c_md.validation.contenders import DEFAULT
from m3c_md.validation.methods import Fit, Task, fit_and_judge
from m3c_md.validation.splits import Split
from tests.conftest import hidden_markov_wells

matplotlib.use("Agg")

WELLS = [hidden_markov_wells(300, 3, seed) for seed in range(3)]
TRAJS = [well.frames for well in WELLS]  # read-only
OTHERS = [hidden_markov_wells(200, 3, seed) for seed in (10, 11)]
QUICK: dict[str, Any] = {"methods": ("pcca+", "k-medoids"), "n_microstates": 20, "n_jobs": 1, "random_state": 0}
NUMBERS = ["Q", "Q ±", "Q in hindsight", "VAMP-2", "VAMP-2 ±", "t2 / ps", "t2 / ps ±", "t3 / ps", "t3 / ps ±"]
NUMBERS += ["t2 ratio", "t3 ratio"]
COLUMNS = ["setting", *NUMBERS, "populations", "smallest", "entered", "never visited", "never left"]
COLUMNS += ["seconds", "measured", "warnings"]


def quick(trajs: Any = TRAJS, n_states: Any = 3, **changes: Any) -> Comparison:
    return compare(trajs, n_states, **{**QUICK, **changes})


def counted_q(states: NDArray[np.intp], lagtime: int, n_states: int = 3) -> float:
    """Q by counting, the slow way."""
    stays, leaves = np.zeros(n_states), np.zeros(n_states)
    for now, then in zip(states[:-lagtime], states[lagtime:], strict=True):
        leaves[now] += 1
        stays[now] += now == then
    return float((stays / leaves).sum())


def without_clock(result: Comparison) -> tuple[pd.DataFrame, pd.DataFrame]:
    return result.table.drop(columns="seconds"), result.splits.drop(columns="seconds")


def assert_same(one: Comparison, other: Comparison) -> None:
    for a, b in zip(without_clock(one), without_clock(other), strict=True):
        pd.testing.assert_frame_equal(a, b, check_exact=True)
    pd.testing.assert_frame_equal(one.agreement, other.agreement, check_exact=True)
    assert one.dtrajs.keys() == other.dtrajs.keys()
    for name in one.dtrajs:
        for a, b in zip(one.dtrajs[name], other.dtrajs[name], strict=True):
            np.testing.assert_array_equal(a, b)
        pd.testing.assert_frame_equal(one.timescales[name].to_frame(), other.timescales[name].to_frame())


@pytest.fixture(scope="module")
def result() -> Comparison:
    return quick(dt=2.0, unit="ps", lagtime=2, lagtimes=[1, 2, 5])


@pytest.fixture(scope="module")
def tested() -> Comparison:
    """All methods, judged on test data."""
    test = [well.frames for well in OTHERS]
    return compare(TRAJS[0], 3, test=test, n_microstates=(10, 20), lagtimes=[1, 2], random_state=5, n_jobs=1)


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Split]]:
    """What was fitted to what."""
    seen: list[tuple[str, Split]] = []

    def record(task: Task, lagtime: int) -> Fit:
        seen.append((task.name, task.split))
        return fit_and_judge(task, lagtime)

    monkeypatch.setattr(kept_fits, "fit_and_judge", record)
    return seen


class TestNumbers:
    def test_columns_and_types(self, result: Comparison) -> None:
        assert list(result.table.columns) == COLUMNS
        assert list(result.table.index) == ["PCCA+", "k-medoids"]
        assert result.table["setting"].tolist() == ["20 cells", ""]
        assert result.table.index.name == "method"
        assert (result.table[[*NUMBERS, "smallest", "seconds"]].dtypes == np.float64).all()
        least = [int(result.models[name].visits["entered"].min()) for name in result.table.index]
        assert result.table["entered"].tolist() == least
        assert all(f"was entered {n} times" in text for n, text in zip(least, result.table["warnings"], strict=True))
        measured = ["Q", "VAMP-2", "t2 / ps", "t3 / ps", "t2 ratio", "t3 ratio", "never visited", "never left"]
        assert list(result.splits.columns) == ["method", "setting", "held out", *measured, "seconds", "error"]
        assert (result.splits["error"] == "").all()
        assert (result.n_states, result.lagtime, result.dt, result.unit, result.messages) == (3, 2, 2.0, "ps", [])

    def test_q_and_timescales_are_those_of_the_hidden_states(self, result: Comparison) -> None:
        # The wells lie so far apart that every method finds them: up to their names, states are the hidden ones.
        for name in ("PCCA+", "k-medoids"):
            own = result.splits[result.splits["method"] == name].set_index("held out")
            for i, well in enumerate(WELLS):
                row = own.loc[f"trajectory {i}"]
                assert row["Q"] == pytest.approx(counted_q(well.states, 2), rel=1e-12)
                its = implied_timescales(well.states, [2], confidence=None)
                for process in (0, 1):
                    frames = its.timescales_for_process(process)[0]
                    assert row[f"t{process + 2} / ps"] == pytest.approx(2.0 * frames, rel=1e-9)

    def test_mean_and_spread_are_over_the_held_out_rows(self, result: Comparison) -> None:
        for name, row in result.table.iterrows():
            own = result.splits[result.splits["method"] == name]
            assert list(own["held out"]) == ["trajectory 0", "trajectory 1", "trajectory 2"]
            for column in ("Q", "VAMP-2", "t2 / ps", "t3 / ps"):
                assert row[column] == pytest.approx(np.mean(own[column]), rel=1e-12)
                assert row[f"{column} ±"] == pytest.approx(np.std(own[column], ddof=1), rel=1e-12)
            assert row["measured"] == "3 of 3"
            assert row["populations"] == result.models[str(name)].populations.round(4).tolist()

    def test_units_reach_the_timescales(self, result: Comparison) -> None:
        for its in result.timescales.values():
            assert (its.dt, its.unit, its.lagtimes.tolist()) == (2.0, "ps", [1, 2, 5])
        frame = result.timescales["k-medoids"].to_frame()
        assert frame.index.name == "lag time (ps)"

    def test_dt_and_unit_change_nothing_else(self, result: Comparison) -> None:
        plain = quick(lagtime=2, lagtimes=[1, 2, 5])
        np.testing.assert_array_equal(plain.table["Q"], result.table["Q"])
        np.testing.assert_allclose(2.0 * plain.table["t2 / frame"], result.table["t2 / ps"], rtol=1e-14)

    def test_states_of_all_frames_under_the_models(self, result: Comparison) -> None:
        assert list(result.models) == list(result.dtrajs) == list(result.timescales) == ["PCCA+", "k-medoids"]
        for name, model in result.models.items():
            for states, frames in zip(result.dtrajs[name], TRAJS, strict=True):
                np.testing.assert_array_equal(states, model.transform(frames))

    def test_default_lag_times_are_the_same_for_all(self) -> None:
        its = quick(TRAJS[:2]).timescales
        assert its["k-medoids"].lagtimes.tolist() == its["PCCA+"].lagtimes.tolist()
        assert len(its["k-medoids"].lagtimes) > 3


class TestAgreement:
    def test_matrix(self, tested: Comparison) -> None:
        names = list(tested.models)
        assert list(tested.agreement.index) == list(tested.agreement.columns) == names
        values = tested.agreement.to_numpy()
        np.testing.assert_array_equal(values, values.T)
        np.testing.assert_array_equal(np.diag(values), 1.0)
        labels = {name: np.concatenate(tested.dtrajs[name]) for name in names}
        assert tested.agreement.loc["M3C", "MMC"] == adjusted_rand_score(labels["M3C"], labels["MMC"])

    def test_confusion_counts_frames(self, tested: Comparison) -> None:
        table = tested.confusion("PCCA+", "M3C")
        assert (table.index.name, table.columns.name, table.shape) == ("PCCA+", "M3C", (3, 3))
        assert table.to_numpy().sum() == 400
        rows, columns = (np.concatenate(tested.dtrajs[name]) for name in ("PCCA+", "M3C"))
        for i in range(3):
            for j in range(3):
                assert table.loc[i, j] == np.count_nonzero((rows == i) & (columns == j))
        assert np.count_nonzero(tested.confusion("M3C", "M3C").to_numpy()) == 3

    @pytest.mark.parametrize("name", ["pcca+", "m3c", None])
    def test_an_unknown_method_lists_the_known(self, tested: Comparison, name: Any) -> None:
        with pytest.raises(InputError, match=r"method=.* is not known; choose one of 'M3C', 'PCCA\+'"):
            tested.confusion("M3C", name)


class TestSplits:
    @pytest.mark.parametrize("n", [2, 3, 5])
    def test_no_fit_sees_what_it_is_judged_by(self, n: int, fitted: list[tuple[str, Split]]) -> None:
        data = [hidden_markov_wells(80, 2, seed).frames for seed in range(n)]
        quick(data, 2, methods="k-medoids", lagtimes=1)
        whole, *splits = [split for _, split in fitted]
        assert [x is y for x, y in zip(whole.train.trajectories, data, strict=True)] == [True] * n
        assert whole.tests == {}
        assert len(splits) == n
        for i, split in enumerate(splits):
            assert list(split.tests) == [f"trajectory {i}"]
            assert split.tests[f"trajectory {i}"].trajectories[0] is data[i]
            assert len(split.train.trajectories) == n - 1
            assert not any(x is data[i] for x in split.train.trajectories)

    def test_groups_of_more_than_five(self, fitted: list[tuple[str, Split]]) -> None:
        data = [hidden_markov_wells(60, 2, seed).frames for seed in range(8)]
        found = quick(data, 2, methods="k-medoids", lagtimes=1)
        assert list(found.splits["held out"]) == [f"trajectory {i}, {i + 5}" for i in range(3)] + [
            "trajectory 3",
            "trajectory 4",
        ]
        for _, split in fitted[1:]:
            (test,) = split.tests.values()
            assert len(split.train.lengths) + len(test.lengths) == 8

    def test_halves_of_one(self) -> None:
        found = quick(hidden_markov_wells(400, 2).frames, 2, lagtimes=1)
        assert list(found.splits["held out"]) == ["second half", "first half"] * 2
        assert (found.table["measured"] == "2 of 2").all()

    def test_one_in_a_list_is_one(self) -> None:
        x = hidden_markov_wells(200, 2).frames
        assert_same(quick([x], 2, lagtimes=1), quick(x, 2, lagtimes=1))

    def test_test_data_are_judged_by_one_fit(self, fitted: list[tuple[str, Split]]) -> None:
        test = [well.frames for well in OTHERS]
        found = quick(test=test, lagtimes=1)
        assert [name for name, _ in fitted] == ["PCCA+", "k-medoids"]
        assert all(x is y for _, split in fitted for x, y in zip(split.train.trajectories, TRAJS, strict=True))
        assert list(found.splits["held out"]) == ["test trajectory 0", "test trajectory 1"] * 2
        assert found.splits["Q"].tolist() == pytest.approx([counted_q(w.states, 1) for w in OTHERS] * 2)
        assert [len(states) for states in found.dtrajs["k-medoids"]] == [200, 200]

    def test_the_models_do_not_depend_on_the_test_data(self) -> None:
        one, other = quick(lagtimes=1).models, quick(lagtimes=1, test=OTHERS[0].frames).models
        for name, model in one.items():
            np.testing.assert_array_equal(model.decision_function(TRAJS[1]), other[name].decision_function(TRAJS[1]))

    def test_many_test_trajectories_are_grouped(self) -> None:
        test = [hidden_markov_wells(60, 3, seed).frames for seed in range(20, 26)]
        assert quick(test=test, methods="k-medoids", lagtimes=1).splits["held out"].iloc[0] == "test trajectory 0, 5"

    def test_one_test_trajectory_has_no_spread(self) -> None:
        row = quick(test=OTHERS[0].frames, methods="k-medoids", lagtimes=1).table.loc["k-medoids"]
        assert np.isfinite(row["Q"])
        assert np.isnan(row["Q ±"])

    def test_overlap_is_refused_unless_asked_for(self) -> None:
        with pytest.raises(
            InputError, match=r"test trajectory 1 .* from frame 0 on as training trajectory 1.*allow_ov"
        ):
            quick(test=[OTHERS[0].frames, TRAJS[1][50:]])
        found = quick(test=TRAJS, allow_overlap=True, lagtimes=1)
        assert found.splits["Q"].tolist() == pytest.approx([counted_q(well.states, 1) for well in WELLS] * 2)

    def test_a_trajectory_given_twice_is_refused_too(self) -> None:
        with pytest.raises(InputError, match="trajectory 2 has the same frames from frame 0 on as trajectory 0"):
            quick([TRAJS[0], TRAJS[1], TRAJS[0]])
        assert len(quick([TRAJS[0]] * 2, allow_overlap=True, lagtimes=1).splits) == 4

    def test_a_missed_state_is_counted_not_averaged_away(self) -> None:
        seen = WELLS[2].states != 0
        found = quick([*TRAJS[:2], TRAJS[2][seen]], lagtimes=1)
        own = found.splits[found.splits["method"] == "k-medoids"].set_index("held out")
        assert own["never visited"].tolist() == [0, 0, 1]
        # The state adds nothing to Q of that part, which takes part in the mean all the same.
        of_two = counted_q(WELLS[2].states[seen] - 1, 1, 2)
        assert own["Q"].tolist() == pytest.approx([*(counted_q(well.states, 1) for well in WELLS[:2]), of_two])
        row = found.table.loc["k-medoids"]
        assert (row["measured"], row["never visited"]) == ("3 of 3", 1)
        assert row["Q"] == pytest.approx(own["Q"].mean())
        assert "once a state adds nothing to Q, because 1 of 3 held-out parts do not visit it" in row["warnings"]
        assert "  1+0" in str(found)
        # What is said below the table is whole, in lines that fit a terminal as well.
        assert f"k-medoids: {row['warnings']}" in " ".join(map(str.strip, str(found).splitlines()))
        assert max(len(line) for line in str(found).splitlines()) <= 100


class TestSameAnswer:
    def test_all_methods(self, tested: Comparison) -> None:
        assert list(tested.table.index) == ["M3C", "PCCA+", "MMC", "k-medoids"]
        assert tested.table["setting"].tolist() == ["", "10 cells", "", ""]  # both find the wells: the first is taken
        assert (tested.table["measured"] == "2 of 2").all()
        for name in tested.models:  # each is certain of the wells
            assert tested.agreement.loc["k-medoids", name] == 1.0
        assert tested.table["Q"].tolist() == pytest.approx([np.mean([counted_q(w.states, 1) for w in OTHERS])] * 4)

    @pytest.mark.parametrize("method", DEFAULT)
    def test_whichever_methods_stand_beside(self, tested: Comparison, method: str) -> None:
        test = [well.frames for well in OTHERS]
        alone = compare(
            TRAJS[0], 3, methods=[method], test=test, n_microstates=(20, 10), lagtimes=[1, 2], random_state=5, n_jobs=1
        )
        (name,) = alone.models
        for found, beside in zip(without_clock(alone), without_clock(tested), strict=True):
            rows = beside[beside["method"] == name] if "method" in beside else beside.loc[[name]]
            pd.testing.assert_frame_equal(found.reset_index(drop=True), rows.reset_index(drop=True), check_exact=True)
        frames = TRAJS[1]
        np.testing.assert_array_equal(
            alone.models[name].decision_function(frames), tested.models[name].decision_function(frames)
        )

    def test_same_seed_or_generator(self) -> None:
        noisy = [np.random.default_rng(seed).normal(size=(90, 2)) for seed in range(2)]
        first = quick(noisy, lagtimes=1, n_microstates=9)
        assert_same(quick(noisy, lagtimes=1, n_microstates=9), first)
        draws = [quick(noisy, lagtimes=1, random_state=np.random.default_rng(8), n_microstates=9) for _ in range(2)]
        assert_same(*draws)
        other = quick(noisy, lagtimes=1, random_state=1, n_microstates=9)
        assert not other.agreement.equals(first.agreement)  # noise: another seed, other states

    def test_global_random_numbers_are_neither_used_nor_changed(self) -> None:
        np.random.seed(3)  # noqa: NPY002
        first = quick(TRAJS[:2], lagtimes=1)
        drawn = np.random.random()  # noqa: NPY002
        np.random.seed(3)  # noqa: NPY002
        assert np.random.random() == drawn  # noqa: NPY002
        assert_same(quick(TRAJS[:2], lagtimes=1), first)

    def test_in_two_processes(self) -> None:
        data = [hidden_markov_wells(80, 2, seed).frames for seed in range(3)]
        settings: dict[str, Any] = {"methods": ("m3c", "pcca+"), "n_microstates": 8, "lagtimes": 1, "test": data[2:]}
        assert_same(quick(data[:2], 2, **settings, n_jobs=2), quick(data[:2], 2, **settings))

    def test_input_is_not_changed(self, result: Comparison) -> None:
        assert result.models
        for well, seed in zip(WELLS, range(3), strict=True):
            np.testing.assert_array_equal(well.frames, hidden_markov_wells(300, 3, seed).frames)
            assert not well.frames.flags.writeable


class TestFailures:
    def test_a_method_that_fails_has_a_row_and_harms_nobody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        good = quick(TRAJS[:2], lagtimes=1)

        def fail(*_: Any) -> None:
            raise SolverError("status 7 <of a solver>")

        monkeypatch.setattr(PCCAPlus, "fit", fail)
        found = quick(TRAJS[:2], lagtimes=1)
        row = found.table.loc["PCCA+"]
        assert row[["Q", "Q ±", "t2 / frame", "t3 / frame"]].isna().all()
        assert (row["populations"], row["measured"]) == ([], "0 of 2")
        assert row["warnings"] == "failed: status 7 <of a solver>"
        assert list(found.models) == list(found.dtrajs) == list(found.timescales) == ["k-medoids"]
        assert found.agreement.shape == (1, 1)
        pd.testing.assert_series_equal(
            found.table.loc["k-medoids"].drop("seconds"), good.table.loc["k-medoids"].drop("seconds")
        )
        assert "PCCA+: failed: status 7 <of a solver>" in str(found)
        assert "&lt;of a solver&gt;" in found._repr_html_()
        assert found.plot_metastability().get_yticklabels()[0].get_text() == "PCCA+"

    def test_one_failing_split(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = PCCAPlus.fit

        def fail_without_the_first(self: PCCAPlus, data: Any, y: Any = None) -> PCCAPlus:
            if not any(x is TRAJS[0] for x in data.trajectories):
                raise DegenerateSolutionError("I need trajectory 0")
            return real(self, data, y)

        monkeypatch.setattr(PCCAPlus, "fit", fail_without_the_first)
        row = (found := quick(lagtimes=1)).table.loc["PCCA+"]
        assert row["measured"] == "2 of 3"
        assert row["Q"] == pytest.approx(np.mean([counted_q(well.states, 1) for well in WELLS[1:]]))
        assert row["warnings"].startswith("failed: I need trajectory 0")
        assert "PCCA+" in found.models

    def test_all_failing_is_one_error_that_names_each(self) -> None:
        with pytest.raises(DegenerateSolutionError) as caught:
            quick([np.ones((30, 2)), np.ones((40, 2))])
        for name in ("PCCA+", "k-medoids"):
            assert f"{name}: all 70 frames are equal" in str(caught.value)


A, B = (shift + 0.3 * np.random.default_rng(shift).normal(size=(100, 1)) for shift in (0, 6))
NOISE = [np.random.default_rng(seed).normal(size=(80, 2)) for seed in range(2)]
POOR: dict[str, tuple[Any, int]] = {
    "disconnected": ([A, B], 2),
    "disconnected, several of each": ([A, B, A + 0.01, B + 0.01], 2),
    "never back": (np.concatenate([A, B]), 2),
    "noise": (NOISE, 3),
    "single": (WELLS[0].frames, 3),
    "single of four frames": (NOISE[0][:4], 2),
    "short": ([x[i : i + 2] for x in NOISE for i in (0, 2, 4)], 2),
    "two frames each": ([x[:2] for x in NOISE], 2),
    "more states than frames in a split": ([x[:10] for x in NOISE], 15),
    "a constant column": ([np.column_stack([x, 0.0 * x]) for x in (A, B)], 2),
    "few distinct frames": ([np.round(x) for x in NOISE], 3),
}


@pytest.mark.parametrize("name", POOR)
def test_poor_data_give_a_result_with_a_reason(name: str) -> None:
    data, n_states = POOR[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", M3CWarning)
        found = quick(data, n_states, n_microstates=max(n_states + 5, 10))
    for _, row in found.table.iterrows():
        assert np.isfinite(row["Q"]) or row["warnings"]  # no NaN without a word
    assert "held-out" in str(found)
    found.plot_metastability().figure.canvas.draw()


class TestLeftOut:
    def test_lag_times_longer_than_the_data(self) -> None:
        with pytest.warns(LagtimeWarning, match="left out lag times 300, 1000") as caught:
            found = quick(lagtimes=[1000, 5, 1, 300, 5])
        assert len(caught) == 1
        assert caught[0].filename == __file__
        assert found.timescales["k-medoids"].lagtimes.tolist() == [1, 5]
        assert any("left out lag times 300, 1000" in message for message in found.messages)
        assert "left out lag times 300, 1000" in str(found)
        assert "left out lag times 300, 1000" in found._repr_html_()

    def test_lag_times_are_measured_by_the_test_data(self) -> None:
        with pytest.warns(LagtimeWarning, match="left out lag time 250"):
            quick(test=OTHERS[0].frames, lagtimes=[1, 250])

    def test_all_lag_times_too_long(self) -> None:
        with pytest.raises(InputError, match="lag times 300, 400 cannot be used"):
            quick(lagtimes=[300, 400])

    def test_short_trajectories(self) -> None:
        with pytest.warns(ShortTrajectoryWarning, match="1 of 4 trajectories have no more than lagtime=7") as caught:
            found = quick([TRAJS[0], TRAJS[1][:7], *TRAJS[1:]], lagtime=7, lagtimes=1)
        assert caught[0].filename == __file__
        assert len(found.dtrajs["k-medoids"]) == 3
        assert found.messages == [str(caught[0].message)]

    def test_short_test_trajectories(self) -> None:
        test = [OTHERS[0].frames[:1], OTHERS[1].frames]
        with pytest.warns(ShortTrajectoryWarning, match="1 of 2 test trajectories"):
            found = quick(test=test, lagtimes=1)
        assert found.splits["held out"].unique().tolist() == ["test trajectory 0"]

    def test_microstates(self) -> None:
        found = quick(n_microstates=(10, 61), lagtimes=1)  # 600 frames without the one that is held out
        assert found.table["setting"].tolist() == ["10 cells", ""]
        assert found.messages == ["n_microstates 61 left out: fewer than ten of 600 training frames for each"]

    def test_microstates_are_not_mentioned_without_pcca_plus(self) -> None:
        assert quick(methods="k-medoids", n_microstates=(10, 500), lagtimes=1).messages == []


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "one state": ({"n_states": 1}, "n_states=1 must be a whole number of at least 2"),
    "states": ({"n_states": 2.0}, "n_states=2.0 must"),
    "method": (
        {"methods": ("pcca+", "gmm")},
        r"methods='gmm' is not known; choose one of 'm3c', 'pcca\+', 'tica\+pcca\+', 'hmm'",
    ),
    "no method": ({"methods": ()}, "must name at least one of m3c"),
    "lag time zero": ({"lagtime": 0}, "lagtime=0 must be a whole number of frames of at least 1"),
    "lag time": ({"lagtime": 1.5}, "lagtime=1.5 must"),
    "lag time too long": ({"lagtime": 300}, "lagtime=300 needs trajectories of at least 301 frames.*longest has 300"),
    "lag time too long for the test": ({"lagtime": 250, "test": OTHERS[0].frames}, "lagtime=250.*longest has 200"),
    "halves": ({"trajs": TRAJS[0], "lagtime": 150}, "single trajectory of 300 frames has no halves"),
    "lag times": ({"lagtimes": [1, 2.5]}, "lagtimes=2.5 must"),
    "lag times zero": ({"lagtimes": [0]}, "lagtimes=0 must"),
    "no lag times": ({"lagtimes": []}, "lagtimes is empty"),
    "nested lag times": ({"lagtimes": [[1, 2], [3]]}, r"lagtimes=\[1, 2\] must"),
    "no microstates": ({"n_microstates": []}, "n_microstates is empty"),
    "few microstates": ({"n_microstates": 2}, "n_microstates=2 must be a whole number of at least 3"),
    "dt": ({"dt": 0.0}, "dt=0.0 must be a positive"),
    "negative dt": ({"dt": -2}, "dt=-2 must"),
    "dt as text": ({"dt": "2 ps"}, "dt='2 ps' must"),
    "unit": ({"unit": None}, "unit=None must be a non-empty string"),
    "empty unit": ({"unit": ""}, "unit='' must"),
    "progress": ({"progress": 3}, "progress=3 must be a progress bar class"),
    "jobs": ({"n_jobs": 0}, "n_jobs=0 must"),
    "seed": ({"random_state": -1}, "random_state=-1 must"),
    "flag": ({"allow_overlap": "yes"}, "allow_overlap='yes' must be True or False"),
    "no data": ({"trajs": []}, "empty list"),
    "a generator": ({"trajs": iter(TRAJS)}, "dtype object"),
    "columns differ": ({"trajs": [TRAJS[0], TRAJS[1][:, :1]]}, "trajectory 1 has 1 columns"),
    "nan": ({"trajs": [TRAJS[0], np.full((30, 2), np.nan)]}, "trajectory 1 holds nan at frame 0"),
    "test columns": ({"test": [TRAJS[1][:, :1]]}, "trajectory 0 has 1 columns, but .* 2"),
    "test nan": ({"test": [np.full((30, 2), np.nan)]}, "trajectory 0 holds nan"),
    "no test": ({"test": []}, "empty list"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_anything_is_fitted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changes, message = REFUSED[name]
    monkeypatch.setattr(kept_fits, "fit_and_judge", lambda *_: pytest.fail("something was fitted"))
    with pytest.raises(InputError, match=message):
        quick(**changes)


class Bar:
    """A progress bar as deeptime wants it."""

    made: ClassVar[list[Bar]] = []

    def __init__(self, total: int) -> None:
        self.total, self.n, self.closed = total, 0, False
        self.described: list[str] = []
        self.promised = total
        Bar.made.append(self)

    def update(self, n: int = 1) -> None:
        self.n += n

    def close(self) -> None:
        self.closed = True

    def set_description(self, text: str) -> None:
        self.described.append(text)


def test_progress_reaches_its_total() -> None:
    Bar.made.clear()
    quick(progress=Bar, lagtimes=1)
    (bar,) = Bar.made
    assert bar.n == bar.promised == 2 * 4  # two methods on the whole and on three splits
    assert bar.closed
    assert bar.described[0] == bar.described[-1] == "compare"
    assert bar.described[1:5] == [
        "compare: PCCA+ to all data",
        "compare: k-medoids to all data",
        "compare: PCCA+ to all but trajectory 0",
        "compare: k-medoids to all but trajectory 0",
    ]


def test_progress_by_tqdm_itself(capsys: pytest.CaptureFixture[str]) -> None:
    from tqdm import tqdm

    quick(TRAJS[:2], n_microstates=(10, 20), progress=tqdm, lagtimes=1)
    assert "PCCA+, 2 settings to all but trajectory 1" in capsys.readouterr().err


class TestShown:
    def test_text(self, result: Comparison) -> None:
        text = str(result)
        assert text == repr(result)
        assert text.startswith("3 states at lag time 4 ps, on held-out trajectories:")
        assert "PCCA+" in text
        assert text.splitlines()[1] == "PCCA+ (20 cells) and k-medoids are level within errors."
        assert "t2 t3/micro" in text
        assert all(len(line) <= 100 for line in result.lines())

    def test_halves_are_called_halves(self) -> None:
        text = str(quick(TRAJS[0], methods="k-medoids", lagtimes=1))
        assert text.splitlines()[0].endswith(", on the half of the trajectory that was not fitted:")

    def test_html_is_escaped(self) -> None:
        html = quick(TRAJS[:2], methods="k-medoids", unit="<b>&ps", lagtimes=1)._repr_html_()
        assert "<b>" not in html
        assert "t2 / &lt;b&gt;&amp;ps" in html
        assert "3 states at lag time 1 &lt;b&gt;&amp;ps" in html

    def test_plots(self, result: Comparison) -> None:
        import matplotlib.pyplot as plt

        axes = result.plot_metastability()
        assert axes.get_xlabel() == "held-out metastability Q at lag time 4 ps"
        assert axes is result.plot_metastability(ax=axes)
        panels = result.plot_timescales()
        assert [text.get_text() for text in panels[0].get_legend().get_texts()] == ["PCCA+", "k-medoids"]
        assert panels[0].get_ylabel() == "implied timescale / ps"
        assert len(np.ravel(result.plot_map(TRAJS))) >= 2
        plt.close("all")

    def test_survives_pickling(self, result: Comparison) -> None:
        again = pickle.loads(pickle.dumps(result))
        assert_same(again, result)
        np.testing.assert_array_equal(again.models["k-medoids"].transform(TRAJS[0]), result.dtrajs["k-medoids"][0])

    def test_equality_is_identity(self, result: Comparison) -> None:
        assert result == result
        assert result != quick(TRAJS[:2], methods="k-medoids", lagtimes=1)
        assert result in {result}


class TestCheckpoint:
    def test_finished_fits_are_not_done_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        expected = quick(lagtimes=1)
        done: list[str] = []

        def watched(task: Task, lagtime: int) -> Fit:
            if len(done) == limit:
                raise KeyboardInterrupt
            fit = fit_and_judge(task, lagtime)
            done.append(task.name)
            return fit

        monkeypatch.setattr(kept_fits, "fit_and_judge", watched)
        for limit in range(8):
            with pytest.raises(KeyboardInterrupt):
                quick(lagtimes=1, checkpoint=tmp_path)
            assert len(done) == limit
        limit = 8
        assert_same(quick(lagtimes=1, checkpoint=tmp_path), expected)
        again = quick(lagtimes=1, checkpoint=tmp_path)
        assert len(done) == 8
        assert_same(again, expected)
        # Times are those of the fits, not of reading them.
        files = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
        assert sorted(again.splits["seconds"].unique()) == sorted(
            file["seconds"] for file in files if file["judgements"]
        )

    def test_methods_that_failed_are_not_tried_again(self, tmp_path: Path, fitted: list[Any]) -> None:
        few = [np.repeat([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]], 40, axis=0) for _ in range(2)]
        few[1] = few[1] + 1e-3
        few[1][:] = few[1][0]  # two states only where the other is held out
        first = quick(few, methods=("k-medoids", "pcca+"), lagtimes=1, n_microstates=3, checkpoint=tmp_path)
        assert "failed" in " ".join(first.table["warnings"])
        n_fits = len(fitted)
        assert_same(quick(few, methods=("k-medoids", "pcca+"), lagtimes=1, n_microstates=3, checkpoint=tmp_path), first)
        assert len(fitted) == n_fits

    def test_killed_in_between(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "data.npz", *TRAJS)
        code = """
import os, random, signal, sys, time
import numpy as np
from m3c_md import compare

data = list(np.load(sys.argv[1]).values())
options = dict(methods=("pcca+", "k-medoids"), n_microstates=20, n_jobs=1, random_state=0, lagtimes=1)

def run():
    compare(data, 3, checkpoint=sys.argv[2], **options)

compare(data, 2, **options)  # loaded and compiled, as the forks are then
delays = random.Random(3)
for _ in range(20):
    child = os.fork()
    if child == 0:
        run()
        os._exit(0)
    time.sleep(delays.uniform(0.0, 0.03))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
run()
"""
        kept = tmp_path / "kept"
        command = [sys.executable, "-W", "ignore", "-c", code, tmp_path / "data.npz", kept]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        assert len(list(kept.glob("*.json"))) == 8
        assert_same(quick(lagtimes=1, checkpoint=kept), quick(lagtimes=1))

    def test_refused(self, tmp_path: Path) -> None:
        quick(lagtimes=1, checkpoint=tmp_path)
        changes: list[dict[str, Any]] = [{"random_state": 1}, {"lagtime": 2}, {"trajs": [x + 1e-9 for x in TRAJS]}]
        for change in changes:
            with pytest.raises(InputError, match="comparison or scan of other data or with other settings; remove"):
                quick(**{"lagtimes": 1, "checkpoint": tmp_path, **change})
        with pytest.raises(InputError, match=r"random_state=None .* give a whole number"):
            quick(random_state=None, checkpoint=tmp_path)
        text = next(tmp_path.glob("*.json"))
        for damage in ("", "[]", '{"comparison": 3}'):
            text.write_text(damage)
            with pytest.raises(
                ModelFileError, match=r"json is no finished fit of a comparison or scan \(.*\); remove it"
            ):
                quick(lagtimes=1, checkpoint=tmp_path)
