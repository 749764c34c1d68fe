"""benchmarks/rivals.py on small made-up data: it fits what `compare` fits, goes on where it was, tells who leads."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from m3c_md import compare
from m3c_md.validation import contenders
from m3c_md.validation.measures import judge

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if not (BENCHMARKS / "rivals.py").exists():
    pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)


@pytest.fixture(scope="module")
def rivals() -> ModuleType:
    """Script as a module; those that it imports find each other by their plain names."""
    before = list(sys.path)
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module("rivals")
    finally:
        sys.path[:] = before


@pytest.fixture(scope="module")
def section(rivals: ModuleType) -> ModuleType:
    return sys.modules[rivals.rivals_section.__module__]


def series(seed: int, n: int = 1000) -> np.ndarray:
    """Two states in the first of nine columns, the others are noise."""
    rng = np.random.default_rng(seed)
    states = np.repeat(rng.permutation(np.arange(n // 40) % 2), 40)
    return np.column_stack([3.0 * states + 0.7 * rng.normal(size=n), rng.normal(size=(n, 8))])


@pytest.fixture
def case(rivals: ModuleType) -> Any:
    test = series(1)
    return rivals.Case(2, [series(0)], lambda model: judge(model, [test], 1).metastability)


def test_a_single_setting_has_a_held_out_q_as_well(rivals: ModuleType) -> None:
    """By which the rivals are chosen among each other; on so few frames PCCA+ has no choice of cells."""
    short = series(0, 880)
    row = rivals.row_of(rivals.Case(2, [short], lambda model: 0.0), "pcca+", 3)
    halves = {"test": [short[440:]], "methods": ["pcca+"], "n_microstates": 50, "random_state": 3, "n_jobs": 1}
    assert row["n_settings"] == 1
    assert row["inner Q"] == compare([short[:440]], 2, **halves).table.loc["PCCA+", "Q"]
    assert row["seconds"] < row["seconds with choice"]


@pytest.mark.parametrize("method", ["tica+pcca+", "pcca+", "m3c"])
def test_fits_and_choices_are_those_of_compare(rivals: ModuleType, case: Any, method: str) -> None:
    row = rivals.row_of(case, method, 3)
    result = compare(case.train, 2, test=[series(1)], methods=[method], random_state=3, n_jobs=1)
    name = rivals.METHODS[method]
    assert row["setting"] == result.table.loc[name, "setting"]
    assert row["quality"] == result.table.loc[name, "Q"]
    assert 0.0 < row["seconds"] <= row["seconds with choice"]
    if row["n_settings"] > 1:
        assert row["inner Q"] == result.settings["inner Q"].max()


def test_rows_are_kept_and_not_computed_again(
    rivals: ModuleType, case: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    systems = {"made": rivals.System(lambda seed, _: case if seed == 0 else None, range(2))}
    monkeypatch.setattr(rivals, "SYSTEMS", systems)
    monkeypatch.setattr(contenders, "torch_is_missing", lambda: "it needs torch")
    results = tmp_path / "new" / "rivals.jsonl"
    rivals.run(["made"], ["pcca+", "vampnet"], None, tmp_path, results)
    rivals.run(["made"], ["pcca+", "vampnet"], None, tmp_path, results)
    (row,) = map(json.loads, results.read_text(encoding="utf-8").splitlines())
    assert (row["system"], row["seed"], row["method"], row["found"]) == ("made", 0, "PCCA+", 2)
    said = capsys.readouterr().out
    assert "made 0 VAMPnet: cannot be run here" in said
    assert f"made 1: there are no data in {tmp_path}" in said


def made_rows(system: str, qualities: dict[str, list[float]], inner: dict[str, float]) -> list[dict[str, Any]]:
    return [
        {"system": system, "seed": seed, "method": method, "code": "abc", "setting": "", "quality": value}
        | {"seconds": 1.0, "seconds with choice": 4.0, "inner Q": inner.get(method)}
        for method, values in qualities.items()
        for seed, value in enumerate(values)
    ]


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    """M3C leads in Q and is last in the error; the hidden Markov model is what held-out data would choose.

    VAMPnet has the largest held-out Q, but lost a state on the first of three splits, which anyone sees.
    """
    q = {"M3C": [1.9, 1.91, 1.92], "TICA + PCCA+": [1.7, 1.72, 1.71], "PCCA+": [1.6, 2.0, 1.91], "HMM": [1.8, 1.8, 1.8]}
    q["VAMPnet"] = [1.0, 1.85, 1.86]
    error = {"M3C": [3.0, 3.1], "TICA + PCCA+": [1.0, 1.1], "PCCA+": [1.0, 1.2], "HMM": [1.0, 1.1]}
    inner = {"TICA + PCCA+": 1.7, "PCCA+": 1.6, "HMM": 1.8, "VAMPnet": 1.9}
    rows = [*made_rows("deca-alanine", q, inner), *made_rows("letter", error, inner)]
    return [row | {"found": 1 if row["quality"] == 1.0 and row["method"] == "VAMPnet" else 2} for row in rows]


class TestReport:
    def test_outcomes_run_the_right_way(self, section: ModuleType, rows: list[dict[str, Any]]) -> None:
        table = section.with_chosen(rows)
        outcomes = {
            (system, rival): section.outcome(section.advantage(table, system, rival))
            for system in ("deca-alanine", "letter")
            for rival in ("TICA + PCCA+", "PCCA+")
        }
        assert outcomes["deca-alanine", "TICA + PCCA+"] == "win"
        assert outcomes["deca-alanine", "PCCA+"] == "tie"
        assert outcomes["letter", "TICA + PCCA+"] == "loss"

    def test_the_choice_is_by_held_out_training_data(self, section: ModuleType, rows: list[dict[str, Any]]) -> None:
        table = section.with_chosen(rows)
        assert table.values("deca-alanine", section.CHOSEN, "quality").tolist() == [1.8, 1.85, 1.86]
        assert table.values("deca-alanine", section.CHOSEN, "seconds with choice").tolist() == [16.0] * 3

    def test_no_choice_where_a_rival_is_missing(self, section: ModuleType, rows: list[dict[str, Any]]) -> None:
        assert not len(section.with_chosen(rows).values("letter", section.CHOSEN, "quality"))

    def test_text_and_picture(self, section: ModuleType, rows: list[dict[str, Any]], tmp_path: Path) -> None:
        text = "\n".join(section.rivals_section(rows))
        assert "- TICA + PCCA+: wins 1, ties 0, losses 1. Lost: letter." in text
        assert "- letter: TICA + PCCA+ is ahead by 2.00; M3C is behind on 2 of 2 splits." in text
        assert "- deca-alanine: " not in text
        gaps = np.array([1.9, 1.91, 1.92]) - np.array([1.6, 2.0, 1.91])
        low, high = ttest_1samp(gaps, 0.0).confidence_interval(0.95)
        apart = f"{gaps.mean():+.4f} ({low:+.4f} to {high:+.4f})"
        assert f"| deca-alanine | PCCA+ | {apart} | tie | 2 / 0 / 1 | 4 | 1 |" in text
        section.draw(rows, tmp_path / "figures" / "rivals.png")
        assert (tmp_path / "figures" / "rivals.png").stat().st_size > 10_000

    def test_the_readme_says_who_lost_states_and_who_leads(
        self, section: ModuleType, rows: list[dict[str, Any]], tmp_path: Path
    ) -> None:
        readme = tmp_path / "README.md"
        readme.write_text(f"before\n{section.FIRST}old numbers\n{section.LAST}after\n", encoding="utf-8")
        for _ in range(2):  # the second time it finds what it wrote
            section.write_readme(rows, readme)
        text = readme.read_text(encoding="utf-8")
        assert text.startswith(f"before\n{section.FIRST}| system |")
        assert text.endswith(f"{section.LAST}after\n")
        assert "old numbers" not in text
        assert "1.5700 ± 0.4937 (1 fewer) |" in text
        assert "TICA + PCCA+ 1 / 0 / 1; PCCA+ 0 / 1 / 1; HMM 1 / 0 / 1; VAMPnet 0 / 1 / 0;" in " ".join(text.split())
        assert "A rival has the better mean on letter (TICA + PCCA+, PCCA+, HMM)." in " ".join(text.split())

    def test_nothing_measured_nothing_said(self, section: ModuleType) -> None:
        assert section.rivals_section([]) == []
