"""Rows of a study as tables: values by system and method, paired differences, text for a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from printed import Printed
from scipy.stats import binomtest, t
from studies import Row

FloatArray = NDArray[np.float64]
PCCA = "PCCA+"


class Table:
    """Rows of a study, asked for by system and method."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)

    def systems(self) -> list[str]:
        """Systems that have rows."""
        return list(dict.fromkeys(row["system"] for row in self.rows))

    def methods(self, system: str, order: Sequence[str]) -> list[str]:
        """Methods of a system that have rows, in the given order."""
        found = {row["method"] for row in self.rows if row["system"] == system}
        return [name for name in order if name in found]

    def all(self, system: str, method: str) -> list[Row]:
        """Rows of a method, failed fits too."""
        return [row for row in self.rows if (row["system"], row["method"]) == (system, method)]

    def by_seed(self, system: str, method: str, column: str) -> dict[int, float]:
        """Values of a column; fits that failed have none."""
        return {row["seed"]: row[column] for row in self.all(system, method) if row.get(column) is not None}

    def values(self, system: str, method: str, column: str) -> FloatArray:
        """Values of a column without their seeds."""
        return np.array(list(self.by_seed(system, method, column).values()), dtype=float)

    def best_pcca(self, system: str, column: str, *, larger: bool = True) -> str | None:
        """PCCA+ with the bin number and discretisation that is best on average: chosen with hindsight."""
        names = {row["method"] for row in self.rows if row["system"] == system and row["method"].startswith(PCCA)}
        means = {
            name: self.values(system, name, column).mean() for name in names if len(self.values(system, name, column))
        }
        return (max if larger else min)(means, key=lambda name: means[name]) if means else None


@dataclass(frozen=True)
class Difference:
    """Paired differences, ours - theirs, experiment by experiment."""

    values: FloatArray

    @property
    def mean(self) -> float:
        """Mean difference."""
        return float(self.values.mean())

    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the mean (t distribution)."""
        n = len(self.values)
        half = float(t.ppf(0.975, n - 1) * self.values.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan
        return self.mean - half, self.mean + half

    def signs(self) -> tuple[int, int, float]:
        """Experiments above and below zero, and the p value of the sign test."""
        above, below = int((self.values > 0).sum()), int((self.values < 0).sum())
        return above, below, float(binomtest(above, above + below).pvalue) if above + below else 1.0


def paired(ours: dict[int, float], theirs: dict[int, float]) -> Difference | None:
    both = sorted(set(ours) & set(theirs))
    return Difference(np.array([ours[seed] - theirs[seed] for seed in both])) if both else None


def spread(values: FloatArray, digits: int = 4) -> str:
    if not len(values):
        return "-"
    deviation = f" ± {values.std(ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{deviation}"


def as_printed(pair: Printed | None, digits: int = 4) -> str:
    return f"{pair[0]:.{digits}f} ± {pair[1]:.{digits}f}" if pair else ""


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def interval_text(difference: Difference, digits: int = 4) -> str:
    low, high = difference.interval()
    return f"{difference.mean:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"


def fits(table: Table, system: str, method: str) -> str:
    """Number of fits, of those that failed and of those that found fewer states than asked for."""
    rows = table.all(system, method)
    failed = sum("error" in row for row in rows)
    fewer = sum(row.get("n_populated", np.inf) < len(row.get("populations", ())) for row in rows)
    return f"{len(rows)}" + (f", {failed} failed" if failed else "") + (f", {fewer} with fewer states" if fewer else "")


def counted(names: Iterable[str]) -> str:
    """Names with how often they occur, numbers of lumpings left out."""
    counts = Counter(name.rstrip(" 0123456789") for name in names)
    return ", ".join(f"{name} ({count})" for name, count in counts.most_common())


def counted_right(table: Table, system: str, method: str) -> str:
    """How many experiments of a diffusion ended with the right decomposition."""
    rows = [row for row in table.all(system, method) if "right" in row]
    return f"{sum(row['right'] for row in rows)} of {len(rows)} right"
