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


def test_coring_is_never_worse_elsewhere(script: ModuleType, rows: Any) -> None:
    judged = list(script.is_coring_worse(rows))
    assert {row["system"] for row in judged} == set(script.SYSTEMS) - {"Model I"}
    for row in judged:
        off = {kind: abs(np.log(row[kind] / row["later"])) for kind in ("labelled", "cored")}
        assert off["cored"] < off["labelled"], row
