"""What was measured of biased runs proves what the page on sampling says, and the page has the numbers of the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

ROOT = Path(__file__).parents[2]
ROWS = [json.loads(line) for line in (ROOT / "benchmarks/results/sampling.jsonl").read_text().splitlines()]
ENTRIES = [row for row in ROWS if row["kind"] == "entries"]
PAGE = (ROOT / "docs/howto/sampling.md").read_text(encoding="utf-8")
each_row = pytest.mark.parametrize("row", ENTRIES, ids=lambda row: f"{row['rule']}-{row['seed']}")


def test_there_are_several_rules_and_seeds() -> None:
    assert len({row["rule"] for row in ENTRIES}) >= 4
    assert len({row["seed"] for row in ENTRIES}) >= 2
    assert len({(row["rule"], row["seed"]) for row in ENTRIES}) == len(ENTRIES)


@each_row
def test_the_rare_state_is_entered_at_least_twenty_times_as_often(row: dict[str, Any]) -> None:
    """By Poisson statistics from the counts alone, both at the unfavourable ends of their 95 % intervals."""
    biased, free = row["biased"], row["free"]
    assert biased["n"] == sum(biased["each"])
    least = chi2.ppf(0.025, 2 * biased["n"]) / 2.0 / biased["ns"]
    most = chi2.ppf(0.975, 2 * free["n"] + 2) / 2.0 / free["ns"]
    assert least / most > 20.0
    assert 20.0 < row["times_at_least"] <= least / most + 1.0  # which also knows how trajectories differ


@each_row
def test_populations_are_those_of_the_reference_within_their_errors(row: dict[str, Any]) -> None:
    errors = np.hypot(row["biased"]["population_errors"], row["reference"]["population_errors"])
    shifts = (np.array(row["biased"]["populations"]) - row["reference"]["populations"]) / errors
    np.testing.assert_allclose(shifts, row["shifts"], atol=0.01)
    assert np.abs(shifts).max() < 2.5


def test_differences_are_as_large_as_errors_say_over_all_rows() -> None:
    """For two of three populations, which sum to one: too small errors would show here, too large ones as well."""
    squares = np.array([row["shifts"] for row in ENTRIES])[:, [0, 2]] ** 2
    assert 0.005 < chi2.sf(squares.sum(), squares.size) < 0.995


def test_the_page_has_these_numbers() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    for row in ENTRIES:
        biased = row["biased"]
        rare, first, second = (
            f"{biased['populations'][k]:.{digits}f} ± {biased['population_errors'][k]:.{digits}f}"
            for k, digits in ((2, 3), (0, 2), (1, 2))
        )
        low, high = biased["poisson"]
        wanted = f"| {row['seed']} | {biased['n']} | {biased['per_ns']:.0f} ({low:.0f} to {high:.0f}) | "
        wanted += f"{int(row['times_at_least'])} | {rare} | {first} | {second} |"
        assert sum(line.endswith(wanted) for line in lines) == 1, wanted
    shifts = np.abs([row["shifts"] for row in ENTRIES])
    assert f"Of the {shifts.size} populations {(shifts < 1.0).sum()} are within one standard error" in " ".join(
        PAGE.split()
    )
    assert f"the largest difference is {shifts.max():.1f}." in " ".join(PAGE.split())
    least = int(min(row["times_at_least"] for row in ENTRIES))
    assert f"{least} times or more for each" in " ".join(PAGE.split())
