"""scan_states: three wells are three, a suggestion that says why, numbers that fail are told."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
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
from m3c_md.validation.scan import suggest
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
        assert scanned.reason.startswith("3 states: labels come back")
        assert (scanned.lagtime, scanned.dt, scanned.unit) == (2, 0.5, "ns")
        assert "longer than the lag time of 1 ns" in scanned.reason

    def test_of_a_single_trajectory(self) -> None:
        found = quick(hidden_markov_wells(400, 3, seed=4).frames, range(2, 5), lagtime=2)
        assert found.suggestion == 3
        assert found.table.loc[3, "stability"] > 0.9

    def test_columns(self, scanned: StateScan) -> None:
        times = ["t2 / ns", "t3 / ns", "t4 / ns"]
        assert list(scanned.table.columns) == [
            "Q",
            *times,
            "stability",
            "least stability",
            "populations",
            "entered",
            "warnings",
        ]
        assert scanned.table["entered"].tolist() == [m.visits["entered"].min() for m in scanned.models.values()]
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
        assert "every candidate lost one of the 4 states" in row["warnings"]
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
        assert row.drop(["populations", "warnings"]).isna().all()
        assert row["populations"] == []
        assert "degenerate" in row["warnings"]
        assert scanned.reason.endswith("M3C failed for 4 states.")
        assert "nan" not in scanned.reason


class TestStability:
    def test_is_the_agreement_with_models_of_resampled_trajectories(self, monkeypatch: pytest.MonkeyPatch) -> None:
        models = []
        real = M3C.fit_fetch

        def record(self: M3C, data: Any, **options: Any) -> Any:
            models.append((data, real(self, data, **options)))
            return models[-1][1]

        monkeypatch.setattr(M3C, "fit_fetch", record)
        # Four wells by two states: which wells go together depends on the sample.
        data = [hidden_markov_wells(150, 4, seed).frames for seed in range(3)]
        found = quick(data, 2, n_resamples=3)
        (used, whole), *resampled = models
        assert used is not None
        assert len(resampled) == 3
        for sample, _ in resampled:
            # Three trajectories are cut into four pieces each, so that there are ten or more to draw from.
            assert len(sample.lengths) == 12
            assert all(any(np.shares_memory(x, y) for y in data) for x in sample.trajectories)
        labels = np.concatenate(whole.transform(data))
        scores = [adjusted_rand_score(labels, np.concatenate(model.transform(data))) for _, model in resampled]
        assert found.table.loc[2, "stability"] == np.mean(scores)
        assert found.table.loc[2, "least stability"] == min(scores)

    def test_a_failing_resample_counts_as_zero(self, monkeypatch: pytest.MonkeyPatch) -> None:
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
        samples = scan._samples(Dataset.of([x]), lagtime, 4, np.random.default_rng(0))
        assert [len(sample.lengths) for sample in samples] == [n_pieces] * 4
        for piece in (piece for sample in samples for piece in sample.trajectories):
            assert len(piece) > lagtime
            assert (np.diff(piece[:, 0]) == 1.0).all()

    def test_ten_trajectories_are_drawn_whole(self) -> None:
        data = [np.full((20, 1), float(i)) for i in range(10)]
        for sample in scan._samples(Dataset.of(data), 1, 3, np.random.default_rng(0)):
            assert len(sample.lengths) == 10
            assert all(any(np.array_equal(x, y) for y in data) for x in sample.trajectories)


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
        assert "t3 / ns" in str(scanned)
        assert str(scanned).endswith(scanned.reason)

    def test_html_is_escaped(self) -> None:
        html = quick(TRAJS[:1], 3, n_resamples=1, unit="<i>s")._repr_html_()
        assert "<i>" not in html
        assert "the lag time of 1 &lt;i&gt;s" in html or "(lag time 1 &lt;i&gt;s)" in html

    def test_survives_pickling(self, scanned: StateScan) -> None:
        again = pickle.loads(pickle.dumps(scanned))
        pd.testing.assert_frame_equal(again.table, scanned.table)
        assert again.reason == scanned.reason
        assert scanned in {scanned}


def table(rows: dict[int, tuple[float, float]], unit: str = "ps") -> pd.DataFrame:
    """Stability and fastest timescale of each number of states."""
    most = max(rows)
    filled = []
    for n, (stability, fastest) in rows.items():
        times = {f"t{i} / {unit}": np.nan if i > n else fastest + 100.0 * (n - i) for i in range(2, most + 1)}
        filled.append({"n_states": n, "Q": 0.9 * n, **times, "stability": stability})
    return pd.DataFrame(filled).set_index("n_states")


class TestSuggest:
    def test_the_largest_gap_wins(self) -> None:
        chosen, reason = suggest(table({2: (1.0, 50.0), 3: (0.9, 40.0), 4: (0.95, 4.0), 5: (0.2, 3.0)}), 1.0, "ps")
        assert chosen == 3
        assert "The next process is 10.0 times faster, the largest gap among 2, 3, 4 states." in reason
        assert "(adjusted Rand index 0.90)" in reason
        assert "takes 40 ps, longer than the lag time of 1 ps" in reason
        assert "Not stable: 5 (0.20)." in reason

    def test_a_next_process_below_the_lag_counts_as_the_lag(self) -> None:
        chosen, reason = suggest(table({2: (1.0, 50.0), 3: (1.0, 30.0), 4: (1.0, 0.001)}), 5.0, "ps")
        assert chosen == 3
        assert "at least 6.0 times faster" in reason

    @pytest.mark.parametrize("next_one", [(np.nan, np.nan), (1.0, np.nan), (0.5, -np.inf)])
    def test_a_next_process_that_is_not_found_counts_as_the_lag(self, next_one: tuple[float, float]) -> None:
        chosen, reason = suggest(table({2: (1.0, 50.0), 3: (1.0, 30.0), 4: next_one}), 2.0, "ps")
        assert chosen == 3
        assert "at least 15.0 times faster" in reason

    def test_unstable_ones_are_listed_and_not_chosen(self) -> None:
        chosen, reason = suggest(table({2: (0.85, 30.0), 3: (0.79, 29.0), 4: (np.nan, np.nan)}), 1.0, "ps")
        assert chosen == 2
        assert "Not stable: 3 (0.79). M3C failed for 4 states." in reason
        assert "the largest gap" not in reason  # of one candidate

    def test_exactly_stable_is_stable(self) -> None:
        assert suggest(table({2: (0.8, 30.0), 3: (0.0, 1.0)}), 1.0, "ps")[0] == 2

    def test_exactly_the_lag_is_not_slow(self) -> None:
        assert suggest(table({2: (1.0, 5.0)}), 5.0, "ps")[0] is None

    def test_the_last_number_has_no_next_one(self) -> None:
        chosen, reason = suggest(table({2: (1.0, 50.0), 3: (1.0, 40.0)}), 1.0, "ps")
        assert chosen == 2
        assert "1.2 times faster" in reason
        assert "The gap after 3 states is not known: scan one state more." in reason

    def test_without_any_gap_the_largest_number(self) -> None:
        chosen, reason = suggest(table({2: (1.0, 50.0), 4: (1.0, 40.0), 6: (0.3, 30.0)}), 1.0, "ps")
        assert chosen == 4
        assert "The gap after 2, 4 states is not known" in reason

    def test_none_is_convincing(self) -> None:
        chosen, reason = suggest(table({2: (0.5, 50.0), 3: (0.7, 40.0)}), 1.0, "ps")
        assert chosen is None
        assert "labels agree best for 3 states (adjusted Rand index 0.70, 0.8 wanted)" in reason
        assert "takes 40 ps (lag time 1 ps)" in reason

    def test_stable_but_not_slow(self) -> None:
        chosen, reason = suggest(table({2: (1.0, np.nan), 3: (np.nan, np.nan)}), 1.0, "ps")
        assert chosen is None
        assert "best for 2 states (adjusted Rand index 1.00" in reason
        assert "fastest process is not resolved" in reason
        assert "nan" not in reason

    def test_a_negative_agreement_is_better_than_none(self) -> None:
        assert "best for 3 states" in suggest(table({2: (np.nan, np.nan), 3: (-0.1, 4.0)}), 1.0, "ps")[1]
