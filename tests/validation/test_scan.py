"""scan_states: three wells are three, a suggestion that says why, numbers that fail are told."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from m3c_md import M3C, scan_states
from m3c_md.exceptions import DegenerateSolutionError, InputError, ShortTrajectoryWarning
from m3c_md.inputs.dataset import Dataset
from m3c_md.matching import agreement
from m3c_md.validation import StateScan, implied_timescales, metastability, scan
from m3c_md.validation.methods import Fit
from m3c_md.validation.scan_fits import NumberOfStates, decided, halves_of, in_known_kernel
from m3c_md.wording import plain_number, with_error
from tests.conftest import hidden_markov_wells

WELLS = [hidden_markov_wells(200, 3, seed) for seed in range(3)]
TRAJS = [well.frames for well in WELLS]
TWO_LEVELS = np.repeat([[0.0], [1.0]] * 5, 10, axis=0)


def one_candidate(*arguments: Any, **settings: Any) -> M3C:
    """M3C with a search of a single candidate."""
    return M3C(*arguments, **{"bandwidth": 1.0, "starts": ("kinetic",), **settings})


@pytest.fixture(scope="module", autouse=True)
def _quick_search() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "M3C", one_candidate)
        yield


def quick(trajs: Any = TRAJS, n_states: Any = (2, 3), **changes: Any) -> StateScan:
    return scan_states(trajs, n_states, **{"n_resamples": 2, "random_state": 0, "n_jobs": 1, **changes})


@pytest.fixture(scope="module")
def scanned() -> StateScan:
    """Two to four states; the search of a single candidate finds no fourth."""
    return quick(n_states=range(2, 5), dt=0.5, unit="ns", lagtime=2)


class TestThreeWells:
    def test_three_is_suggested(self, scanned: StateScan) -> None:
        assert scanned.suggestion == 3
        assert scanned.reason.startswith("3 states: fits to halves of the data find the same states")
        assert (scanned.lagtime, scanned.dt, scanned.unit) == (2, 0.5, "ns")
        assert "at the lag time of the fit, 1 ns" in scanned.reason

    def test_of_a_single_trajectory(self) -> None:
        found = quick(hidden_markov_wells(400, 3, seed=4).frames, range(2, 5), lagtime=2)
        assert found.suggestion == 3
        assert found.table.loc[3, "stability"] > 0.9

    def test_columns(self, scanned: StateScan) -> None:
        times = ["t2 / ns", "t3 / ns", "t4 / ns"]
        assert list(scanned.table.columns) == [
            *("Q", "Q ±", "held-out Q"),
            *times,
            *("stability", "least stability", "halves", "populations", "entered", "trajectories", "warnings"),
        ]
        assert scanned.table["entered"].tolist() == [m.visits["entered"].min() for m in scanned.models.values()]
        fewest = [m.visits["trajectories"].min() for m in scanned.models.values()]
        assert scanned.table["trajectories"].tolist() == fewest
        errors = [m.candidates.loc[0, "error"] for m in scanned.models.values()]
        assert scanned.table["Q ±"].tolist() == errors
        assert scanned.table.index.tolist() == [2, 3, 4]
        assert scanned.table.index.name == "n_states"
        assert (scanned.table[["Q", *times, "stability", "least stability"]].dtypes == np.float64).all()
        assert scanned.table.loc[[2, 3], times].isna().to_numpy().tolist() == [
            [False, True, True],
            [False, False, True],
        ]

    def test_values_are_those_of_the_hidden_states(self, scanned: StateScan) -> None:
        hidden = [well.states for well in WELLS]
        row = scanned.table.loc[3]
        assert row["Q"] == pytest.approx(metastability(hidden, 2), rel=1e-12)
        its = implied_timescales(hidden, [2], confidence=None)
        for process in (0, 1):
            in_ns = 0.5 * its.timescales_for_process(process)[0]
            assert row[f"t{process + 2} / ns"] == pytest.approx(in_ns, rel=1e-9)
        assert (row["stability"], row["least stability"]) == (1.0, 1.0)
        shares = np.sort(np.bincount(np.concatenate(hidden)))[::-1] / 600
        np.testing.assert_allclose(row["populations"], shares, atol=1e-4)

    def test_models_by_number(self, scanned: StateScan) -> None:
        assert list(scanned.models) == [2, 3, 4]
        assert [model.n_states for model in scanned.models.values()] == [2, 3, 4]
        states = np.concatenate(scanned.models[3].transform(TRAJS))
        assert agreement(states, np.concatenate([well.states for well in WELLS])) == 1.0

    def test_a_number_too_many_says_so(self, scanned: StateScan) -> None:
        row = scanned.table.loc[4]
        assert "every rule that was tried lost one of the 4 states" in row["warnings"]
        assert row["t4 / ns"] < 0.1 * row["t3 / ns"]

    def test_a_number_that_fails_has_a_row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = M3C.fit_fetch

        def four_fail(self: M3C, data: Any, **options: Any) -> Any:
            if self.n_states == 4:
                raise DegenerateSolutionError("all 9 candidates are degenerate")
            return real(self, data, **options)

        monkeypatch.setattr(M3C, "fit_fetch", four_fail)
        scanned = quick(TRAJS, (2, 3, 4), lagtime=2, dt=0.5, unit="ns")
        row = scanned.table.loc[4]
        assert row.drop(["populations", "halves", "warnings"]).isna().all()
        assert row["halves"] == 0
        assert set(scanned.tree["n_states"]) == {2, 3}
        assert row["populations"] == []
        assert "degenerate" in row["warnings"]
        assert scanned.reason.endswith("M3C failed for 4 states.")
        assert "nan" not in scanned.reason


class TestStability:
    def test_is_the_agreement_with_models_of_halves(self, monkeypatch: pytest.MonkeyPatch) -> None:
        models = []
        real = M3C.fit_fetch

        def record(self: M3C, data: Any, **options: Any) -> Any:
            models.append((data, real(self, data, **options)))
            return models[-1][1]

        monkeypatch.setattr(M3C, "fit_fetch", record)
        # Four wells by two states: which wells go together depends on the half.
        data = [hidden_markov_wells(150, 4, seed).frames for seed in range(3)]
        found = quick(data, 2, n_resamples=3)
        (_, whole), *halves = models
        for half, _ in halves:
            # Three trajectories are cut into four pieces each, so that there are ten or more to choose from.
            assert len(half.lengths) == 6
            assert all(any(np.shares_memory(x, y) for y in data) for x in half.trajectories)
        labels = np.concatenate(whole.transform(data))
        scores = [adjusted_rand_score(labels, np.concatenate(model.transform(data))) for _, model in halves]
        row = found.table.loc[2]
        assert row["stability"] == np.mean(scores)
        assert row["least stability"] == min(scores)
        assert row["halves"] == len(halves)

    def test_held_out_q_is_that_of_frames_a_half_does_not_have(self, monkeypatch: pytest.MonkeyPatch) -> None:
        models = []
        real = M3C.fit_fetch

        def record(self: M3C, data: Any, **options: Any) -> Any:
            models.append((data, real(self, data, **options)))
            return models[-1][1]

        monkeypatch.setattr(M3C, "fit_fetch", record)
        found = quick(n_states=3)
        pieces = [piece for x in TRAJS for piece in np.array_split(x, 4)]
        expected = []
        for half, model in models[1:]:
            used = {float(x[0, 0]) for x in half.trajectories}
            rest = [piece for piece in pieces if float(piece[0, 0]) not in used]
            assert len(rest) == 6
            expected.append(metastability(model.transform(rest), 1, 3))
        assert found.table.loc[3, "held-out Q"] == pytest.approx(np.mean(expected), rel=1e-12)
        assert len(expected) == 2

    def test_fits_to_halves_learn_nothing_again(self) -> None:
        rng = np.random.default_rng(0)
        slow = np.repeat(rng.integers(2, size=60), 40)[:, None] + 0.2 * rng.normal(size=(2400, 1))
        frames = np.hstack([slow, rng.normal(size=(2400, 3))])
        model = M3C(2, metric="kinetic", bandwidth=1.0, random_state=0).fit_fetch(frames)
        again = in_known_kernel(M3C(2, metric="kinetic"), model).fit_fetch(frames)
        assert again.candidates["metric"].unique().tolist() == ["given"]
        assert again.candidates["bandwidth"].unique().tolist() == [model.bandwidth]
        # The same coordinates in the same unit (of windows there, of frames here): model.metric is A Aᵀ, M3C takes A.
        np.testing.assert_allclose(again.metric, model.metric, rtol=1e-3, atol=1e-6)
        assert agreement(model.transform(frames), again.transform(frames)) > 0.995

    @pytest.mark.parametrize(
        ("agreements", "enough"),
        [([], False), ([0.95, 0.9], True), ([0.95, 0.84], False), ([0.9, 0.45], True), ([0.99, 0.42], False)],
    )
    def test_more_halves_only_where_two_leave_a_doubt(self, agreements: list[float], enough: bool) -> None:
        assert decided(NumberOfStates(Fit(None, 0.0, {}), agreements=agreements)) is enough

    def test_stable_states_take_two_halves(self) -> None:
        assert quick(n_states=3, n_resamples=5).table.loc[3, "halves"] == 2

    def test_a_failing_half_counts_as_zero(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real, calls = M3C.fit, []

        def fail_the_second(self: M3C, data: Any, y: Any = None) -> M3C:
            calls.append(data)
            if len(calls) == 2:
                raise DegenerateSolutionError("not this time")
            return real(self, data, y)

        monkeypatch.setattr(M3C, "fit", fail_the_second)
        found = quick(n_states=3)
        assert found.table.loc[3, ["stability", "least stability"]].tolist() == [0.5, 0.0]
        assert found.suggestion is None

    @pytest.mark.parametrize(("n_frames", "lagtime", "n_pieces"), [(600, 1, 10), (100, 10, 4), (30, 20, 1)])
    def test_pieces_of_a_single_trajectory_hold_transitions(self, n_frames: int, lagtime: int, n_pieces: int) -> None:
        x = np.arange(float(n_frames))[:, None]
        for half, tests in halves_of(Dataset.of([x]), lagtime, 4, np.random.default_rng(0)):
            rest = [] if n_pieces == 1 else tests["rest"].trajectories
            assert len(half.lengths) == -(-n_pieces // 2)
            for piece in half.trajectories + rest:
                assert len(piece) > lagtime
                assert (np.diff(piece[:, 0]) == 1.0).all()
            # Every frame is in one of the two.
            frames = np.concatenate(half.trajectories + rest)[:, 0]
            np.testing.assert_array_equal(np.sort(frames), x[:, 0])

    def test_ten_trajectories_stay_whole(self) -> None:
        data = [np.full((20, 1), float(i)) for i in range(10)]
        halves = halves_of(Dataset.of(data), 1, 3, np.random.default_rng(0))
        drawn = [[float(x[0, 0]) for x in half.trajectories] for half, _ in halves]
        assert [len(half) for half in drawn] == [5, 5, 5]
        assert drawn[0] != drawn[1]
        assert all(len(x) == 20 for half, _ in halves for x in half.trajectories)


class TestTree:
    def test_of_three_wells(self, scanned: StateScan) -> None:
        tree = scanned.tree
        assert tree["n_states"].tolist() == [2, 2, 3, 3, 3, 4, 4, 4, 4]
        three = tree[tree["n_states"] == 3].set_index("state")
        two, hidden = (np.concatenate(scanned.models[n].transform(TRAJS)) for n in (2, 3))
        for state, row in three.iterrows():
            assert row["parent"] == np.bincount(two[hidden == state]).argmax()
            assert row["share"] == np.mean(two[hidden == state] == row["parent"])
            assert row["population"] == np.mean(hidden == state)
        assert three["nested"].all()
        # One of two states goes on as it was, the other one is split by the process that two states do not have.
        assert three["timescale / ns"].isna().sum() == 1
        assert three["timescale / ns"].max() == scanned.table.loc[3, "t3 / ns"]
        np.testing.assert_allclose(tree.groupby("n_states")["population"].sum(), 1.0)

    def test_drawn(self, scanned: StateScan) -> None:
        axes = scanned.plot_tree()
        assert [label.get_text() for label in axes.get_yticklabels()] == ["2 states", "3 states", "4 states"]


class TestInput:
    @pytest.mark.parametrize("numbers", [3, np.int64(3), [3], (n for n in (3, 3)), np.array([3]), {3}])
    def test_one_number_or_several(self, numbers: Any) -> None:
        assert list(quick(TRAJS[:1], numbers, n_resamples=1).models) == [3]

    def test_in_rising_order_each_once(self) -> None:
        assert quick(TRAJS[:1], [3, 2, 3], n_resamples=1).table.index.tolist() == [2, 3]

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"n_states": []}, "n_states is empty; give .* range"),
            ({"n_states": range(1, 4)}, "n_states=1 must be a whole number of at least 2"),
            ({"n_states": [2.0]}, "n_states=2.0 must"),
            ({"n_states": "23"}, "n_states='23' must be a number or several"),
            ({"n_states": None}, "n_states=None must"),
            ({"lagtime": 0}, "lagtime=0 must"),
            ({"lagtime": 200}, "lagtime=200 needs .* longest has 200"),
            ({"n_resamples": 0}, "n_resamples=0 must"),
            ({"dt": -1.0}, "dt=-1.0 must"),
            ({"unit": 3}, "unit=3 must"),
            ({"random_state": "x"}, "random_state='x' must"),
            ({"n_jobs": 0}, "n_jobs=0 must"),
            ({"progress": 1}, "progress=1 must"),
            ({"trajs": []}, "empty list"),
            ({"trajs": [np.full((9, 2), np.inf)]}, "trajectory 0 holds inf"),
        ],
    )
    def test_refused(self, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            quick(**changes)

    def test_short_trajectories_are_told(self) -> None:
        with pytest.warns(ShortTrajectoryWarning, match="1 of 4 trajectories have no more than lagtime=3") as caught:
            found = quick([TRAJS[0][:3], *TRAJS], 3, lagtime=3, n_resamples=1)
        assert caught[0].filename == __file__
        assert list(found.models) == [3]

    def test_nothing_found_names_every_number(self) -> None:
        with pytest.raises(DegenerateSolutionError) as caught:
            quick(TWO_LEVELS, [3, 4])
        assert "3: n_states=3, but there are only 2 distinct frames" in str(caught.value)
        assert "4: n_states=4, but" in str(caught.value)

    def test_noise_gives_no_suggestion(self) -> None:
        found = quick([np.random.default_rng(seed).normal(size=(100, 2)) for seed in range(2)], 2)
        assert found.suggestion is None
        assert found.reason.startswith("No number of states is convincing")

    def test_input_is_not_changed(self, scanned: StateScan) -> None:
        assert scanned.models
        for well, seed in zip(WELLS, range(3), strict=True):
            np.testing.assert_array_equal(well.frames, hidden_markov_wells(200, 3, seed).frames)


class TestSameAnswer:
    def test_same_seed_whichever_numbers_stand_beside(self, scanned: StateScan) -> None:
        np.random.seed(1)  # noqa: NPY002
        again = quick(n_states=[3, 2], dt=0.5, unit="ns", lagtime=2)
        drawn = np.random.random()  # noqa: NPY002
        pd.testing.assert_frame_equal(again.table, scanned.table.loc[[2, 3], again.table.columns], check_exact=True)
        np.random.seed(1)  # noqa: NPY002
        assert np.random.random() == drawn  # noqa: NPY002

    def test_progress_reaches_its_total(self) -> None:
        bars: list[Any] = []

        class Bar:
            def __init__(self, total: int) -> None:
                self.promised, self.total, self.n = total, total, 0
                bars.append(self)

            def update(self, n: int = 1) -> None:
                self.n += n

            def close(self) -> None:
                self.total = -1

            def set_description(self, text: str) -> None:
                assert text == "scan"

        quick(TWO_LEVELS, (2, 3), progress=Bar)  # three states are not found
        assert [(bar.n, bar.promised, bar.total) for bar in bars] == [(6, 6, -1)]


class TestShown:
    def test_text(self, scanned: StateScan) -> None:
        assert str(scanned) == repr(scanned)
        assert " ".join(str(scanned).split()).endswith(f"Suggested number of states: 3 {scanned.reason}")

    @pytest.mark.parametrize("numbers", [(2, 3, 4), range(2, 12)])
    def test_text_fits_a_terminal_and_says_what_the_table_says(
        self, scanned: StateScan, numbers: Sequence[int]
    ) -> None:
        known = scanned.table.loc[[2, 3]]
        table = pd.concat([known] * len(numbers)).iloc[: len(numbers)].set_axis(numbers)
        table[[f"t{n} / ns" for n in numbers if n > 4]] = np.nan
        table.loc[4, "t4 / ns"], table.loc[numbers[-1], "entered"] = 12345.6789, pd.NA
        lines = replace(scanned, table=table).lines()
        assert max(map(len, lines)) <= 100
        heads = [head.strip() for head in lines[2].split("  ") if head]
        assert heads[:5] == ["states", "Q", "held-out Q", "slowest", "fastest"]
        assert heads[5:] == ["stability", "smallest", "entered", "trajectories"]
        assert "timescales of exchange between the states in ns" in " ".join(lines)
        three = scanned.table.loc[3]
        shown = ["3", *with_error(three["Q"], three["Q ±"]).split(), f"{three['held-out Q']:.4g}"]
        assert lines[4].split()[:7] == [*shown, plain_number(three["t2 / ns"]), plain_number(three["t3 / ns"])]
        assert lines[5].split()[6] == "12300"
        assert lines[2 + len(numbers)].split()[-2] == "-"

    def test_html_is_escaped(self) -> None:
        html = quick(TRAJS[:1], 3, n_resamples=1, unit="<i>s")._repr_html_()
        assert "<i>" not in html
        assert "the lag time of the fit, 1 &lt;i&gt;s" in html or "(lag time 1 &lt;i&gt;s)" in html

    def test_survives_pickling(self, scanned: StateScan) -> None:
        again = pickle.loads(pickle.dumps(scanned))
        pd.testing.assert_frame_equal(again.table, scanned.table)
        assert again.reason == scanned.reason
        assert scanned in {scanned}
