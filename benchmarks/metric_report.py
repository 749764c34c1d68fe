"""Tables of benchmarks/metric.py: quality of every method, and its paired differences from one of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

Row = dict[str, Any]
# Number by seed, of one method on one system.
Numbers = dict[int, float]

MEASURES = {
    "deca": ("Q",), "asp7": ("Q",), "langerin": ("Q",), "noise": ("accuracy",), "short": ("Q", "accuracy"),
    "relevance": ("AUC",), "cost": ("seconds", "accuracy", "Q"),
}  # fmt: skip
MUCH_OUTSIDE = 0.01
ALL = "all systems"


def key_of(row: Row) -> tuple[Any, ...]:
    settings = row.get("settings", {}) if not row["method"].startswith("M3C") else {}
    return row["study"], row["system"], row["seed"], row["method"], *settings.values()


def last_rows(path: Path) -> dict[tuple[Any, ...], Row]:
    """The last row of every fit."""
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return {key_of(row): row for row in map(json.loads, lines)}


def number(row: Row, measure: str) -> float:
    """What a fit is judged by, -inf where it failed."""
    if measure == "seconds":
        return float(row["seconds"]) if "quality" in row else -np.inf
    return float(row.get("quality", {}).get(measure, -np.inf))


def picked(rows: list[Row], measure: str) -> dict[str, Row]:
    """The fits that speak for a method with one seed: itself, or the best of its settings and the one chosen."""
    method = rows[0]["method"]
    if all("inner" not in row for row in rows):
        return {method: rows[0]}
    by_inner = max(rows, key=lambda row: row["inner"] if row.get("inner") is not None else -np.inf)
    # TICA is needed once for every lag, but is part of the time of all settings.
    maps = {row["settings"].get("tica lag"): row.get("inner tica seconds", 0.0) for row in rows}
    alone = sum(row.get("inner seconds", 0.0) - row.get("inner tica seconds", 0.0) for row in rows)
    search = alone + sum(maps.values())
    return {
        f"{method}, hindsight": max(rows, key=lambda row: number(row, measure)),
        f"{method}, chosen": by_inner | {"seconds": by_inner["seconds"] + search},
    }


def by_method(rows: list[Row], measure: str) -> dict[str, dict[int, Row]]:
    """Fits of one system, by method and seed."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["method"], row["seed"]), []).append(row)
    table: dict[str, dict[int, Row]] = {}
    for (_, seed), some in sorted(groups.items()):
        if all("quality" in row and measure not in (*row["quality"], "seconds") for row in some):
            continue  # not judged by this, as M3C without relevance
        for name, row in picked(some, measure).items():
            table.setdefault(name, {})[seed] = row
    return table


def numbers(fits: dict[int, Row], measure: str) -> Numbers:
    """Numbers of the fits that did not fail."""
    found = {seed: number(row, measure) for seed, row in fits.items()}
    return {seed: value for seed, value in found.items() if np.isfinite(value)}


def interval(values: list[float]) -> tuple[float, float, float]:
    """Mean and its 95 % interval by Student's t; without bounds where there is one value."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, np.nan, np.nan
    half = float(student.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return mean, mean - half, mean + half


def difference(reference: Numbers, other: Numbers, measure: str) -> str:
    """Reference minus other where both have a number; of times it is the ratio, whose logarithm is averaged."""
    seeds = sorted(reference.keys() & other.keys())
    if not seeds:
        return ""
    if measure == "seconds":
        mean, low, high = np.exp(interval([np.log(reference[s] / other[s]) for s in seeds]))
        return f"x {mean:.3g}" + (f" ({low:.3g} to {high:.3g})" if len(seeds) > 1 else "")
    mean, low, high = interval([reference[s] - other[s] for s in seeds])
    return f"{mean:+.4f}" + (f" ({low:+.4f} to {high:+.4f})" if len(seeds) > 1 else "")


def line(name: str, fits: dict[int, Row], measure: str, reference: Numbers | None) -> str:
    found = numbers(fits, measure)
    mean = f"{np.mean(list(found.values())):.4f}" if found else "-"
    apart = "" if reference is None else difference(reference, found, measure)
    fewer = sum(0 < row.get("found", 0) < row["asked"] for row in fits.values())
    seconds = np.median([row.get("seconds", np.nan) for row in fits.values()])
    failed = sum("error" in row for row in fits.values())
    return f"  {name:29s}{len(fits):3d} {mean:>8s}  {apart:30s}{fewer:5d}{failed:7d} {seconds:8.2f}".rstrip()


def troubles(rows: list[Row]) -> list[str]:
    """What went wrong among all settings of the rivals, whether picked or not."""
    lines = []
    for method in sorted({row["method"] for row in rows if "inner" in row or "error" in row}):
        some = [row for row in rows if row["method"] == method]
        fewer = sum(0 < row.get("found", 0) < row["asked"] for row in some)
        outside = sum(row.get("outside", 0.0) > MUCH_OUTSIDE for row in some)
        failed = Counter(row["error"] for row in some if "error" in row)
        text = f"  {method}: of {len(some)} fits {fewer} found fewer states, {outside} left > 1 % of frames out"
        lines.append(f"{text}, {sum(failed.values())} failed")
        lines += [f"    {count} x {error}"[:100] for error, count in failed.most_common(3)]
    return lines


def pooled(tables: dict[str, dict[str, dict[int, Row]]], measure: str) -> dict[str, Numbers]:
    """Mean over systems by method and seed, where a method has a number for all of them; of times the geometric one."""
    means: dict[str, Numbers] = {}
    for name in next(iter(tables.values())):
        found = [numbers(table.get(name, {}), measure) for table in tables.values()]
        seeds = set.intersection(*(set(x) for x in found))
        if measure == "seconds":
            means[name] = {s: float(np.exp(np.mean([np.log(x[s]) for x in found]))) for s in sorted(seeds)}
        else:
            means[name] = {s: float(np.mean([x[s] for x in found])) for s in sorted(seeds)}
    return means


def section(study: str, measure: str, rows: list[Row], against: str) -> list[str]:
    """One study by one measure."""
    systems = list(dict.fromkeys(row["system"] for row in rows))
    of = {name: [row for row in rows if row["system"] == name] for name in systems}
    tables = {name: by_method(some, measure) for name, some in of.items()}
    tables = {name: t for name, t in tables.items() if any(numbers(fits, measure) for fits in t.values())}
    if not tables:
        return []
    what = "ratio" if measure == "seconds" else "difference"
    lines = [
        "",
        f"{study}: {measure}; {what}: {against} against the method",
        f"  {'method':29s}{'n':>3s} {'mean':>8s}  {what + ' (95 %)':30s}fewer failed    CPU s",
    ]
    for name, table in tables.items():
        reference = numbers(table[against], measure) if against in table else None
        lines.append(f" {name}")
        lines += [line(m, fits, measure, None if m == against else reference) for m, fits in table.items()]
        lines += troubles(of[name]) if measure == MEASURES[study][0] else []
    if len(tables) > 1:
        means = pooled(tables, measure)
        lines.append(f" {ALL}")
        for name, found in means.items():
            apart = difference(means[against], found, measure) if against in means and name != against else ""
            mean = f"{np.mean(list(found.values())):.4f}" if found else "-"
            lines.append(f"  {name:29s}{len(found):3d} {mean:>8s}  {apart}".rstrip())
    return lines


def report(rows: dict[tuple[Any, ...], Row], studies: list[str], against: str) -> str:
    """All tables. Where the method to compare with was not measured, the first M3C that was takes its place."""
    lines = [
        "Differences are of the same seeds, with 95 % intervals by Student's t; splits of one molecule share",
        "data, so those of deca, asp7 and langerin are too narrow. hindsight: best setting on the test data;",
        "chosen: by Q on a part of the training data, CPU s with that search. n: seeds; fewer: with fewer",
        "states than asked; failed: with an error.",
    ]
    for study in studies:
        some = [row for row in rows.values() if row["study"] == study]
        for measure in MEASURES[study] if some else ():
            methods = sorted({row["method"] for row in some})
            ours = [name for name in methods if name.startswith("M3C")]
            lines += section(study, measure, some, against if against in methods or not ours else ours[0])
    return "\n".join(lines)
