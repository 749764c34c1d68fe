"""compare against what people use: settings chosen without the test data, users' estimators, a table that fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans

from m3c_md import PCCAPlus, compare
from m3c_md.exceptions import InputError
from m3c_md.validation import Comparison, kept_fits
from m3c_md.validation.methods import Fit, Task, fit_and_judge
from m3c_md.validation.tables import WIDTH, terminal_lines
from tests.clustering.test_rivals import hidden_in_noise
from tests.conftest import hidden_markov_wells

WIDE = [hidden_in_noise(seed, n_noise=10, n_frames=800)[0] for seed in (10, 11, 12)]
WELLS = [hidden_markov_wells(250, 3, seed).frames for seed in range(3)]
QUICK: dict[str, Any] = {"random_state": 0, "n_jobs": 1, "lagtimes": 1}


@pytest.fixture(scope="module")
def wide() -> Comparison:
    """Three states that one of eleven columns tells: cells of all columns miss them, slow coordinates do not."""
    methods = ["pcca+", "tica+pcca+", "hmm", {"k-means": KMeans(3)}]
    return compare(WIDE, 3, methods=methods, n_microstates=(10, 30), n_components=(1, 5), tica_lagtime=1, **QUICK)


class TestSettings:
    def test_the_row_is_the_chosen_setting_and_the_choice_knew_the_training_data_only(self, wide: Comparison) -> None:
        chosen = wide.settings[wide.settings["chosen"]]
        for (method, held_out), trials in wide.settings.groupby(["method", "held out"]):
            (row,) = chosen[(chosen["method"] == method) & (chosen["held out"] == held_out)].to_dict("records")
            assert row["inner Q"] == trials["inner Q"].max()
            split = wide.splits[(wide.splits["method"] == method) & (wide.splits["held out"] == held_out)]
            assert split["setting"].tolist() == [row["setting"]]
            assert split["Q"].tolist() == [row["Q"]]
        assert wide.settings.groupby("method")["setting"].nunique().to_dict() == {
            "HMM": 4,
            "PCCA+": 2,
            "TICA + PCCA+": 4,
        }

    def test_hindsight_is_shown_as_such(self, wide: Comparison) -> None:
        for method in ("PCCA+", "TICA + PCCA+", "HMM"):
            own = wide.settings[wide.settings["method"] == method]
            best = own.groupby("held out")["Q"].max().mean()
            assert wide.table.loc[method, "Q in hindsight"] == pytest.approx(best)
            assert wide.table.loc[method, "Q"] <= best + 1e-12
        assert np.isnan(wide.table.loc["k-means", "Q in hindsight"])

    def test_the_model_has_the_setting_of_the_row(self, wide: Comparison) -> None:
        model = wide.models["TICA + PCCA+"]
        assert f"{model.n_components} component" in wide.table.loc["TICA + PCCA+", "setting"]  # type: ignore[attr-defined]

    def test_tica_leads_where_noise_hides_the_states(self, wide: Comparison) -> None:
        assert wide.table.loc["TICA + PCCA+", "Q"] > 2.7
        assert wide.table.loc["PCCA+", "Q"] < 2.3
        first, *rest = wide.verdict.split("; ")
        assert "TICA + PCCA+" in first
        assert any(text.startswith("PCCA+ (") and "is behind by" in text for text in rest)
        # What the indicator functions keep of the slow processes says the same as Q.
        assert wide.table["VAMP-2"].idxmax() == wide.table["Q"].idxmax()
        assert wide.table.loc["TICA + PCCA+", "t2 ratio"] == pytest.approx(1.0, abs=0.2)
        assert wide.table.loc["PCCA+", "t2 ratio"] < 0.8

    def test_by_default_tica_joins_from_nine_columns_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Stopped(BaseException):
            pass

        seen: list[str] = []

        def stop(tasks: list[Task], *_: Any) -> Any:
            seen.extend(dict.fromkeys(task.name for task in tasks))
            raise Stopped

        monkeypatch.setattr("m3c_md.validation.comparison.fit_all", stop)
        for data, expected in ((WELLS, False), ([x[:, :9] for x in WIDE], True), ([x[:, :8] for x in WIDE], False)):
            seen.clear()
            with pytest.raises(Stopped):
                compare(data, 3, **QUICK)
            assert ("TICA + PCCA+" in seen) is expected


class TestOfUsers:
    def test_beside_ours(self) -> None:
        many = {f"PCCA+ ({n})": PCCAPlus(3, n_microstates=n) for n in (10, 20)}
        found = compare(WELLS, 3, methods=["k-medoids", many, {"mine": KMeans(3)}], **QUICK)
        assert list(found.table.index) == ["k-medoids", "PCCA+ (10)", "PCCA+ (20)", "mine"]
        assert found.table["setting"].tolist() == [""] * 4
        assert found.agreement.loc["mine", "k-medoids"] > 0.98
        assert found.verdict.startswith("k-medoids, PCCA+ (10), PCCA+ (20) and mine are level")

    def test_same_seed_same_answer(self) -> None:
        noise = [np.random.default_rng(seed).normal(size=(100, 2)) for seed in range(2)]
        mine = {"mine": KMeans(3, n_init=1)}
        one, two = (compare(noise, 3, methods=mine, **QUICK).splits.drop(columns="seconds") for _ in range(2))
        pd.testing.assert_frame_equal(one, two)

    def test_wrong_labels_are_a_failure_with_a_reason(self) -> None:
        found = compare(WELLS, 3, methods=["k-medoids", {"mine": KMeans(5)}], **QUICK)
        assert "mine failed" in found.verdict
        assert "but with n_states=3 labels are 0 to 2" in found.table.loc["mine", "warnings"]
        assert list(found.models) == ["k-medoids"]

    def test_what_cannot_label_new_frames_is_refused_before_data_are_read(self) -> None:
        with pytest.raises(InputError, match="cannot label frames that it has not seen"):
            compare("no data", 3, methods={"mine": object()})

    def test_checkpoints_keep_ours_only(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        done: list[str] = []

        def watched(task: Task, lagtime: int) -> Fit:
            done.append(task.name)
            return fit_and_judge(task, lagtime)

        monkeypatch.setattr(kept_fits, "fit_and_judge", watched)
        options = {"methods": ["pcca+", {"mine": KMeans(3)}], "n_microstates": (8, 12), "checkpoint": tmp_path, **QUICK}
        first = compare(WELLS, 3, **options)
        assert len(done) == 8
        again = compare(WELLS, 3, **options)
        assert done[8:] == ["mine"] * 4
        pd.testing.assert_frame_equal(again.settings, first.settings)
        assert again.verdict == first.verdict


class TestText:
    def test_one_held_out_part(self) -> None:
        found = compare(WELLS[:2], 3, test=WELLS[2], methods=["pcca+", "k-medoids"], n_microstates=10, **QUICK)
        assert "one held-out part gives no errors" in found.verdict
        assert found.differences["low"].isna().all()

    @pytest.mark.parametrize("n_states", [2, 3, 4, 12])
    def test_no_line_is_longer_than_a_terminal(self, n_states: int) -> None:
        rows = [
            {
                "setting": "10 components at lag 100, 500 cells",
                "Q": 10.8912345,
                "Q ±": 0.00123456,
                "Q in hindsight": 10.912345,
                "VAMP-2": 9.87654321,
                **{f"t{i} ratio": 0.98 for i in range(2, n_states + 1)},
                "smallest": 0.00012,
                "entered": 123456,
                "never visited": 12,
                "never left": 34,
                "seconds": 1234.5678,
            }
        ] * 3
        names = ["M3C", "TICA + PCCA+", "an estimator of mine with a very long name"]
        table = pd.DataFrame(rows, index=pd.Index(names, name="method"))
        lines = terminal_lines("title", "word " * 60, table, 5)
        assert max(map(len, lines)) <= WIDTH == 100
        (row,) = (line for line in lines if line.startswith("TICA + PCCA+ "))
        assert all(text in row for text in ("10.8912 ± 0.0012", "10.91", "9.877", "12+34", "0.0%", "123456"))
        assert any(line.startswith("an estimat") and "… " in line for line in lines)
        assert "10 components at lag 100, 500 cells" in " ".join(lines)

    def test_unknown_numbers_are_dashes(self, wide: Comparison) -> None:
        (line,) = (line for line in wide.lines() if line.startswith("k-means "))
        assert " - " in line
