"""The part of RESULTS.md on speed, from what benchmarks/speed.py and benchmarks/scaling.py have measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from tables import markdown

RESULTS = Path(__file__).parents[1] / "results"
# Ratios of CPU time to deeptime's PCCA+ pipeline that are aimed at.
AIMS = {"1e4x4": 1.5, "1e5x4": 0.4, "1e5x36": 0.12, "1e6x4": 0.08}


def speed_section() -> list[str]:
    """Tables of all that was measured; what was not is left out."""
    path = RESULTS / "speed.json"
    found: dict[str, list[dict[str, Any]]] = json.loads(path.read_text()) if path.exists() else {}
    lines = [
        "## Speed",
        "",
        "CPU seconds of one thread (`benchmarks/speed.py`, which says what is measured; `benchmarks/scaling.py`). "
        "Ratios are those of runs that alternate in one process, with their range.",
        "",
    ]
    lines += [line for name, table in TABLES.items() if name in found for line in table(found[name])]
    if (RESULTS / "scaling.json").exists():
        lines += ["![Cost against frames, columns, states and features](figures/scaling.png)", ""]
    return lines


def ratios(rows: list[dict[str, Any]]) -> list[str]:
    cells = []
    for row in rows:
        ours, theirs = np.array(row["ours"]), np.array(row["deeptime"])
        ratio = ours / theirs
        aim = f"{AIMS[row['name']]:g}" if row["name"] in AIMS else ""
        measured = f"{np.median(ratio):.3f} ({ratio.min():.3f} to {ratio.max():.3f})"
        size = f"{row['frames']:,} x {row['columns']}"
        cells.append(
            (row["name"], size, f"{np.median(ours):.2f}", f"{np.median(theirs):.2f}", measured, aim, f"{row['memory']}")
        )
    header = ("data", "frames x columns", "M3C, s", "deeptime, s", "ratio (range)", "aim", "MB above the data")
    return markdown(header, cells)


def quality(rows: list[dict[str, Any]]) -> list[str]:
    cells = []
    for row in rows:
        worst = {name: max((fit[name] for fit in row["fits"]), key=abs) for name in ("objective", "Q", "gap")}
        basins = sum(fit["basin"] for fit in row["fits"])
        n = len(row["fits"])
        cells.append(
            (row["name"], f"{worst['objective']:.1e}", f"{worst['Q']:.1e}", f"{basins} of {n}", f"{worst['gap']:.1e}")
        )
    header = (
        "data",
        "objective above the slow fit, worst",
        "held-out Q, worst",
        "same basin",
        "gap on all data, worst",
    )
    return ["Quality of the fast fit against a slow one on all data (`--quality`):", "", *markdown(header, cells)]


def files(rows: list[dict[str, Any]]) -> list[str]:
    small, large = sorted(rows, key=lambda row: row["frames"])[:2]
    cells = [
        (row["name"], f"{row['seconds']:.1f}", f"{row['memory']:.0f}", f"{row['gap']:.1e}") for row in (small, large)
    ]
    return [
        f"From a memory-mapped file (`--file`): ten times the frames take {large['seconds'] / small['seconds']:.1f} "
        "times the time.",
        "",
        *markdown(("frames x 4", "CPU s", "MB above the mapping", "gap"), cells),
    ]


def transform(rows: list[dict[str, Any]]) -> list[str]:
    cells = []
    for row in rows:
        labels, alone = np.median(row["labels"]), np.median(row["map"])
        cells.append((row["name"], f"{1.0 / labels:.2f}", f"{1.0 / alone:.2f}", f"{labels / alone:.2f}"))
    header = ("data", "labels, million frames/s", "Fourier map alone, million frames/s", "ratio of times")
    return ["`transform` (`--transform`):", "", *markdown(header, cells)]


def first_fit(rows: list[dict[str, Any]]) -> list[str]:
    cells = [(row["name"], *(f"{x:.1f}" for x in row["seconds"])) for row in rows]
    return [
        "What a user waits for, wall seconds (`--first-fit`):",
        "",
        *markdown(("", "import", "first fit", "second fit"), cells),
    ]


def profile(rows: list[dict[str, Any]]) -> list[str]:
    parts = list(rows[0]["parts"])
    cells = [
        (
            row["name"],
            f"{row['seconds']:.2f}",
            *(f"{max(row['parts'][part], 0.0) / row['seconds']:.0%}" for part in parts),
        )
        for row in rows
    ]
    return ["Where the time goes (`--profile`):", "", *markdown(("data", "CPU s, profiled", *parts), cells)]


TABLES = {
    "speed": ratios,
    "quality": quality,
    "file": files,
    "transform": transform,
    "first fit": first_fit,
    "profile": profile,
}
