"""What the results of benchmarks/soak.py say: markdown tables."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from soak_systems import KINDS, VERSION

Row = dict[str, Any]

SIZES = ((0, 1_000), (1_000, 20_000), (20_000, 100_000), (100_000, 10**9))
# Warnings of a search that had to be helped.
RESCUED = {"OverlappingStatesWarning", "RareStateWarning"}
# A seed that was begun so often and never ended has killed its process.
MOST_BEGUN = 2


def last_rows(path: Path) -> dict[int, Row]:
    """Last row of every seed; a seed whose process died again and again is bad."""
    rows: dict[int, Row] = {}
    begun: Counter[int] = Counter()
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:  # the last line of a process that was killed
            continue
        if row.get("version") != VERSION:
            continue
        seed = row["seed"]
        begun[seed] = begun[seed] + 1 if row["outcome"] == "started" else 0
        rows[seed] = row
        if begun[seed] >= MOST_BEGUN:
            rows[seed] = {**row, "outcome": "bad", "reason": "died", "text": "the process died", "description": ""}
    return rows


def _table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _size(row: Row) -> str:
    for low, high in SIZES:
        if low <= row["frames"] < high:
            return f"< {high:,}" if low == 0 else f">= {low:,}" if high == 10**9 else f"{low:,} - {high:,}"
    raise AssertionError(row)


def _quantiles(rows: list[Row]) -> list[str]:
    """Median, 90 %, 99 % and worst of the cost ratio, and whose the worst is."""
    ratios = np.array([row["ratio"] for row in rows])
    if not len(ratios):
        return ["0", *["-"] * 6]
    worst = int(ratios.argmax())
    values = [*np.percentile(ratios, [50, 90, 99]), ratios[worst]]
    seconds = max(row["seconds"] for row in rows)
    return [str(len(ratios)), *(f"{x:.2f}" for x in values), str(rows[worst]["seed"]), f"{seconds:.1f}"]


def _accuracy(rows: list[Row]) -> list[str]:
    both = [r for r in rows if r.get("accuracy") is not None and r.get("deeptime accuracy") is not None]
    if not both:
        return ["0", *["-"] * 4]
    ours = np.array([r["accuracy"] for r in both])
    theirs = np.array([r["deeptime accuracy"] for r in both])
    medians = [f"{np.median(x):.4f}" for x in (ours, theirs)]
    return [str(len(both)), *medians, str(int((ours > theirs + 0.01).sum())), str(int((ours < theirs - 0.01).sum()))]


def report(rows: dict[int, Row]) -> str:
    """Return markdown about all rows that ended."""
    done = [row for _, row in sorted(rows.items()) if row["outcome"] not in ("started", "interrupted")]
    bad = [row for row in done if row["outcome"] == "bad"]
    typed = [row for row in done if row["outcome"] == "typed error"]
    fits = [row for row in done if "ratio" in row]
    parts = [
        f"{len(done)} systems: {len(done) - len(typed) - len(bad)} models, {len(typed)} errors of the package that are "
        f"in their place, {len(bad)} bad; deeptime failed on {sum(bool(r.get('deeptime failed')) for r in done)}."
    ]
    if bad:
        cells = (
            [r["seed"], r["reason"], r.get("text", "")[:160].replace("|", "/"), r.get("trace", ""), r["description"]]
            for r in sorted(bad, key=lambda r: (r["reason"], r["seed"]))
        )
        parts.append(_table(["seed", "bad because", "text", "where", "system"], cells))
    if typed:
        kinds: dict[str, list[Row]] = {}
        for row in typed:
            text = re.sub(r"\d+(\.\d+)?", "N", " ".join(row["text"].split()[:8]))
            kinds.setdefault(f"{row['error']}: {text} ...", []).append(row)
        cells = ([kind, len(some), [r["seed"] for r in some][:10]] for kind, some in sorted(kinds.items()))
        parts.append(_table(["error", "number", "seeds"], cells))
    told = Counter(name for row in done for name in row.get("warnings", []))
    parts.append(_table(["warning", "systems"], told.most_common()))

    head = ["frames", "search", "fits", "ratio: median", "90 %", "99 %", "worst", "its seed", "longest fit, CPU s"]
    cells = []
    for size in dict.fromkeys(_size({"frames": low}) for low, _ in SIZES):
        of_size = [row for row in fits if _size(row) == size]
        helped = [row for row in of_size if RESCUED & set(row["warnings"])]
        plain = [row for row in of_size if not RESCUED & set(row["warnings"])]
        for name, some in (("all", of_size), ("plain", plain), ("ended in rescue", helped)):
            cells.append([size, name, *_quantiles(some)])
    cells.append(["all", "all", *_quantiles(fits)])
    parts.append(_table(head, cells))

    head = ["kind", "both have labels", "M3C: median accuracy", "deeptime", "M3C better by 0.01", "worse by 0.01"]
    kinds_of = [(kind, [row for row in fits if row["kind"] == kind]) for kind in KINDS]
    right = [row for row in fits if row["asked"] == row["true"]]
    cells = [[name, *_accuracy(some)] for name, some in [*kinds_of, ("asked = true", right), ("all", fits)]]
    parts.append(_table(head, [cell for cell in cells if cell[1] != "0"]))
    return "\n\n".join(parts)
