"""benchmarks/coring.py: what its rows say of coring, and that the page on kinetics says the same."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
SCRIPT, PAGE = ROOT / "benchmarks" / "coring.py", ROOT / "docs" / "howto" / "kinetics.md"
if not SCRIPT.exists() or not PAGE.exists():
    pytest.skip("benchmarks and pages are not beside the tests", allow_module_level=True)
EXACT = {"t2": 19.9, "t3": 10.4}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("coring_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows(script: ModuleType) -> Any:
    return script.latest_rows()


def test_model_i_at_lag_one_is_within_five_per_cent(script: ModuleType, rows: Any) -> None:
    cored = script.medians_at_first_lag(rows, "Model I", "M3C cored")
    labelled = script.medians_at_first_lag(rows, "Model I", "M3C")
    assert len({row["seed"] for row in rows if row["system"] == "Model I"}) == 20
    for name, exact in EXACT.items():
        assert abs(cored[name] / exact - 1.0) < 0.05 < abs(labelled[name] / exact - 1.0)


def test_the_page_has_these_numbers(script: ModuleType, rows: Any) -> None:
    words = " ".join(PAGE.read_text(encoding="utf-8").split())
    cored = script.medians_at_first_lag(rows, "Model I", "M3C cored")
    labelled = script.medians_at_first_lag(rows, "Model I", "M3C")
    for name, exact in EXACT.items():
        assert f"{name} is {labelled[name]:.1f} as labelled and {cored[name]:.1f} cored (exact: {exact})" in words


@pytest.mark.parametrize("system", ["Model I", "Model I, 60 more"])
def test_cored_states_have_the_timescales_of_exact_states_on_the_same_data(
    script: ModuleType, rows: Any, system: str
) -> None:
    lag = script.MODEL_I.interval
    cored, labelled, exact = (
        script.against_exact_states(rows, system, method, lag) for method in ("M3C cored", "M3C", "exact states")
    )
    for name in EXACT:
        assert abs(cored[name][0] - 1.0) < 0.05 < 1.0 - labelled[name][0]
        assert exact[name][0] < 0.95


def test_the_page_has_the_table(script: ModuleType, rows: Any) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for title, method in (
        ("exact states", "exact states"),
        ("M3C as labelled", "M3C"),
        ("M3C cored", "M3C cored"),
        ("PCCA+ cored by stays", "PCCA+ cored"),
    ):
        cells = [
            f"{100 * (median - 1):+.1f} ± {100 * error:.1f} %"
            for system in script.MODEL_I_SYSTEMS
            for median, error in script.against_exact_states(rows, system, method, script.MODEL_I.interval).values()
        ]
        assert f"| {title}, lag 1 | {' | '.join(cells)} |" in page


def test_coring_is_never_worse_elsewhere(script: ModuleType, rows: Any) -> None:
    judged = list(script.is_coring_worse(rows))
    assert {row["system"] for row in judged} == set(script.SYSTEMS) - set(script.MODEL_I_SYSTEMS)
    for row in judged:
        off = {kind: abs(np.log(row[kind] / row["later"])) for kind in ("labelled", "cored")}
        assert off["cored"] < off["labelled"], row
