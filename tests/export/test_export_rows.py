"""What was measured of exports covers all that was promised, and the page has the numbers of the rows."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = [json.loads(line) for line in (ROOT / "benchmarks/results/export.jsonl").read_text().splitlines()]
ACCURACY = [row for row in ROWS if row["kind"] == "accuracy"]
PAGE = " ".join((ROOT / "docs/howto/collective_variables.md").read_text(encoding="utf-8").split())


def worst(quantity: str, program: str) -> float:
    """Largest error of all rows; every one must have it."""
    return max(max(row[key] for key in row if key.startswith(f"{quantity} error, {program}")) for row in ACCURACY)


def test_both_molecules_all_metrics_and_two_to_six_states() -> None:
    cases = {(row["molecule"], row["metric"], row["n_states"]) for row in ACCURACY}
    molecules = ("alanine dipeptide", "deca-alanine")
    assert cases == set(product(molecules, ("standard", "kinetic", "learned"), range(2, 7)))
    assert {row["n_frames"] for row in ACCURACY} == {200}


def test_values_and_forces_are_as_exact_as_promised_and_as_the_page_says() -> None:
    ours = max(row["force error"] for row in ACCURACY)
    assert ours < 1e-4
    said = {"OpenMM": ("1e-14", "6e-13"), "PyTorch": ("5e-15", "2e-13"), "PLUMED itself": ("5e-9", "1e-9")}
    for program, on_page in said.items():
        for quantity, limit, text in zip(("value", "force"), (1e-6, 1e-4), on_page, strict=True):
            found = worst(quantity, program)
            assert found < limit
            assert math.isclose(found, float(text), rel_tol=0.2)
            assert text in PAGE
    assert worst("value", "PLUMED vectors") < 1e-6
    assert worst("value", "PLUMED classic") < 1e-6
    assert math.isclose(ours, 2e-5, rel_tol=0.25)


def test_the_page_says_what_a_step_costs() -> None:
    for n_dihedrals, form in ((2, "expression"), (18, "python")):
        (row,) = (
            row for row in ROWS if row["kind"] == "cost" and (row["dihedrals"], row["form"]) == (n_dihedrals, form)
        )
        assert f"{row['times the bare step']:.2f} times" in PAGE
        assert f"{row['from']:.2f} to {row['to']:.2f}" in PAGE
