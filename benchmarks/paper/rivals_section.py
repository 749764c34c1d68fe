"""The parts of RESULTS.md and of the README on the rivals that people use, from what benchmarks/rivals.py measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
from studies import Row
from tables import Difference, Table, interval_text, markdown, paired, spread

HERE = Path(__file__).parents[1]
RESULTS, FIGURE = HERE / "results" / "rivals.jsonl", HERE / "figures" / "rivals.png"
# Names that users give to `compare`, and those that tables show.
METHODS = {"m3c": "M3C", "tica+pcca+": "TICA + PCCA+", "pcca+": "PCCA+", "hmm": "HMM", "vampnet": "VAMPnet"}
# What a careful user would have: of the rivals that populate most states, which anyone sees, the one with the largest
# Q on held-out training data, by which their settings are chosen as well.
OF_FOUR, CHOSEN = ("TICA + PCCA+", "PCCA+", "HMM", "VAMPnet"), "chosen of four"
RIVALS = (*OF_FOUR, CHOSEN)
# Systems judged by errors in per cent, which are better if they are smaller; all others are judged by Q.
BY_ERROR = ("letter", "satellite", "waveform")
# What the README holds between these lines is written here.
FIRST, LAST = "<!-- rivals: written by benchmarks/paper/report.py -->\n", "<!-- end of rivals -->\n"
# Differences below these count as equal, split by split: in Q, and in per cent.
EQUAL_Q, EQUAL_ERROR = 0.001, 0.1


def key_of(row: Row) -> tuple[str, int, str]:
    return row["system"], row["seed"], row["method"]


def last_rows(path: Path = RESULTS) -> dict[tuple[str, int, str], Row]:
    """Rows by system, seed and method, the last of each; none where there is no file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {key_of(row): row for row in map(json.loads, lines)}


def with_chosen(rows: Sequence[Row]) -> Table:
    """Table of the rows in order and, where all four are there, of what held-out training data would choose."""

    def merit(row: Row) -> tuple[int, float]:
        inner = row.get("inner Q")
        return row.get("found", 0), -1.0 if inner is None else inner

    by_key = {key_of(row): row for row in rows}
    chosen = []
    for system, seed in dict.fromkeys((row["system"], row["seed"]) for row in rows):
        four = [by_key[key] for name in OF_FOUR if (key := (system, seed, name)) in by_key]
        if len(four) == len(OF_FOUR):
            best = max(four, key=merit)
            spent = sum(row["seconds with choice"] for row in four)
            chosen.append(best | {"method": CHOSEN, "setting": best["method"], "seconds with choice": spent})
    return Table(sorted([*rows, *chosen], key=key_of))


def advantage(table: Table, system: str, rival: str) -> Difference | None:
    """By how much M3C is better, split by split, whichever way the measure runs."""
    ours, theirs = (table.by_seed(system, name, "quality") for name in ("M3C", rival))
    return paired(theirs, ours) if system in BY_ERROR else paired(ours, theirs)


def outcome(difference: Difference) -> str:
    """Who is better: the 95 % interval leaves out zero, or it is a tie; a single split cannot tell."""
    if len(difference.values) < 2:
        return "-"
    low, high = difference.interval()
    return "win" if low > 0.0 else "loss" if high < 0.0 else "tie"


def digits_of(system: str) -> int:
    return 2 if system in BY_ERROR else 4


def counts(difference: Difference, system: str) -> str:
    """Splits on which M3C is better, equal and worse."""
    equal = EQUAL_ERROR if system in BY_ERROR else EQUAL_Q
    values = difference.values
    return f"{(values > equal).sum()} / {(np.abs(values) <= equal).sum()} / {(values < -equal).sum()}"


def cpu_ratio(table: Table, system: str, rival: str, column: str) -> str:
    """Median over splits of the CPU time of the rival over that of M3C."""
    ours, theirs = table.by_seed(system, "M3C", "seconds"), table.by_seed(system, rival, column)
    return f"{np.median([theirs[seed] / ours[seed] for seed in sorted(set(ours) & set(theirs))]):.2g}"


def mean_text(table: Table, system: str, method: str) -> str:
    """Mean quality, over fewer splits than M3C's where that is said."""
    values = table.values(system, method, "quality")
    failed = sum("error" in row for row in table.all(system, method))
    text = spread(values, digits_of(system))
    # M3C populates all states that are asked for.
    asked, found = (table.by_seed(system, name, "found") for name in ("M3C", method))
    fewer = sum(found[seed] < asked[seed] for seed in set(asked) & set(found))
    text += f" ({fewer} fewer)" if fewer else ""
    if 0 < len(values) + failed < len(table.all(system, "M3C")):
        text += f", {len(values)} split{'s' if len(values) > 1 else ''}"
    return text + (f", {failed} failed" if failed else "")


def means_table(table: Table) -> list[str]:
    rows = []
    for system in table.systems():
        cells = [mean_text(table, system, name) for name in ("M3C", *RIVALS)]
        measure = "test error, %" if system in BY_ERROR else "exact Q" if system.startswith("Model") else "held-out Q"
        rows.append((system, measure, f"{len(table.all(system, 'M3C'))}", *cells))
    return markdown(("system", "measure", "splits", "M3C", *RIVALS), rows)


def differences_table(table: Table) -> list[str]:
    rows = []
    for system in table.systems():
        for rival in RIVALS:
            ahead = advantage(table, system, rival)
            if ahead is None:
                continue
            shown = Difference(-ahead.values if system in BY_ERROR else ahead.values)
            text = interval_text(shown, digits_of(system)) if len(ahead.values) > 1 else f"{shown.mean:+.4f}"
            ratios = (cpu_ratio(table, system, rival, name) for name in ("seconds with choice", "seconds"))
            rows.append((system, rival, text, outcome(ahead), counts(ahead, system), *ratios))
    header = ("system", "rival", "M3C - rival (95 %)", "M3C", "better / equal / worse")
    return markdown((*header, "CPU of rival / M3C, with choice", "fit alone"), rows)


def listed(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"


def leads(table: Table) -> dict[str, dict[str, Difference]]:
    """By how much M3C is better than each rival, by system; rivals without rows are left out."""
    found = {rival: {name: advantage(table, name, rival) for name in table.systems()} for rival in RIVALS}
    known = {rival: {name: ahead for name, ahead in all_.items() if ahead is not None} for rival, all_ in found.items()}
    return {rival: systems for rival, systems in known.items() if systems}


def endings(found: dict[str, Difference]) -> dict[str, list[str]]:
    """Systems that M3C wins, ties and loses."""
    return {kind: [name for name in found if outcome(found[name]) == kind] for kind in ("win", "tie", "loss")}


def words(table: Table) -> list[str]:
    """Wins, ties and losses against each rival."""
    lines = []
    for rival, found in leads(table).items():
        ended = endings(found)
        number = f"wins {len(ended['win'])}, ties {len(ended['tie'])}, losses {len(ended['loss'])}"
        lead = mean_of_q(found, "; mean lead over the systems with Q ")
        behind = [name for name in ended["tie"] if found[name].mean < 0.0]
        lines.append(
            f"- {rival}: {number}{lead}. Lost: {listed(ended['loss'])}. Ties with a mean behind the rival's: "
            f"{listed(behind)}."
        )
    return [*lines, ""]


def mean_of_q(found: dict[str, Difference], before: str) -> str:
    """Mean lead over the systems that are judged by Q, those with a single split too; nothing for a single system."""
    values = np.array([ahead.mean for name, ahead in found.items() if name not in BY_ERROR])
    return f"{before}{interval_text(Difference(values), 3)}" if len(values) > 1 else ""


def rivals_section(rows: Sequence[Row]) -> list[str]:
    """Chapter of RESULTS.md; nothing where nothing was measured."""
    if not rows:
        return []
    table = with_chosen(rows)
    code = ", ".join(sorted({row["code"] for row in rows}))
    return [
        "## The rivals that people use",
        "",
        "M3C with its defaults beside TICA + PCCA+, PCCA+ on the columns, a discrete hidden Markov model and a "
        f"VAMPnet, all as `compare` fits them, on the same splits (`benchmarks/rivals.py`; code {code}). Components, "
        "cells and the lag time of TICA are chosen by Q on a held-out part of the training data; no setting is chosen "
        f'with hindsight. "{CHOSEN}" is, split by split, that of {", ".join(OF_FOUR)} with the largest such Q, among '
        "those that populate most states. Means ± standard deviations over splits; (2 fewer): two of the fits populate "
        "fewer states than asked for, and those that are missing add nothing to Q.",
        "",
        *means_table(table),
        "Wins, ties and losses of M3C by system; a win or a loss has a 95 % interval (Student's, of the paired "
        "difference) that leaves out zero. Splits of one molecule share their data, and the systems of Langerin are "
        "the same two halves, so intervals are somewhat too narrow; two splits hardly ever give more than a tie, and "
        "a single one is not counted, but is in the mean over systems.",
        "",
        *words(table),
        *reasons(table),
        f"Split by split (equal: within {EQUAL_Q} of Q, {EQUAL_ERROR} % of error):",
        "",
        *differences_table(table),
        "![Paired differences to the rivals](figures/rivals.png)",
        "",
        "Means with 95 % intervals from three splits on, dots alone below that. The axes are linear around zero and "
        "logarithmic outside.",
        "",
    ]


def readme_part(rows: Sequence[Row]) -> str:
    """Table of the README, and what it comes to."""
    table = with_chosen(rows)
    known = leads(table)
    short = [
        f"{rival} {' / '.join(str(len(names)) for names in endings(found).values())}{mean_of_q(found, ', ')}"
        for rival, found in known.items()
    ]
    behind = {
        name: [rival for rival in known if name in known[rival] and known[rival][name].mean < 0.0]
        for name in table.systems()
    }
    better = [f"{name} ({', '.join(rivals)})" for name, rivals in behind.items() if rivals]
    text = (
        "Wins / ties / losses of M3C by system (95 % intervals of the paired differences), and its mean lead over the "
        f"systems with Q: {'; '.join(short)}. A rival has the better mean on {'; '.join(better) or 'none'}."
    )
    return "\n".join([*means_table(table), *wrap(text, 120), ""])


def write_readme(rows: Sequence[Row], readme: Path) -> None:
    """Put the part of the README where it belongs."""
    text = readme.read_text(encoding="utf-8")
    before, after = text.split(FIRST)[0], text.split(LAST)[1]
    readme.write_text(f"{before}{FIRST}{readme_part(rows)}{LAST}{after}", encoding="utf-8")


def reasons(table: Table) -> list[str]:
    """Where a rival has the better mean: by how much, on which splits, with which settings."""
    lines = []
    for system in table.systems():
        found = {rival: ahead for rival in RIVALS if (ahead := advantage(table, system, rival)) is not None}
        behind = {rival: ahead for rival, ahead in found.items() if rival != CHOSEN and ahead.mean < 0.0}
        if behind:
            lines.append(reason(table, system, *min(behind.items(), key=lambda item: item[1].mean)))
    return ["Where a rival has the better mean:", "", *lines, ""] if lines else []


def reason(table: Table, system: str, rival: str, ahead: Difference) -> str:
    """What the numbers tell of a system where M3C does not lead: whether it is one split or all of them."""
    n, digits = len(ahead.values), digits_of(system)
    worse = int((ahead.values < 0.0).sum())
    text = f"- {system}: {rival} is ahead by {-ahead.mean:.{digits}f}; M3C is behind on {worse} of {n} splits"
    others = np.delete(ahead.values, ahead.values.argmin())
    if n > 2 and others.mean() > 0.0:
        text += (
            f". It is one split: there M3C is behind by {-ahead.values.min():.{digits}f}, and ahead by "
            f"{others.mean():.{digits}f} in the mean of the others"
        )
    settings = [row["setting"] for row in table.all(system, rival) if row["setting"]]
    return f"{text}. Settings of the rival: {'; '.join(settings)}." if settings else f"{text}."


def draw(rows: Sequence[Row], path: Path) -> None:
    """Dot plot of the paired differences; to the right of zero M3C is better."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    table = with_chosen(rows)
    labels = {True: "test error of the rival - that of M3C (percentage points)", False: "Q of M3C - Q of the rival"}
    groups = {kind: [name for name in table.systems() if (name in BY_ERROR) == kind] for kind in labels}
    shown = {labels[kind]: systems for kind, systems in groups.items() if systems}
    heights = [len(systems) for systems in shown.values()]
    size = (8.0, 1.6 + 0.55 * sum(heights))
    figure, axes = plt.subplots(len(shown), figsize=size, height_ratios=heights, layout="constrained", squeeze=False)
    for axis, (label, systems) in zip(axes[:, 0], shown.items(), strict=True):
        draw_dots(axis, table, systems)
        axis.set_xlabel(f"{label}; right of zero M3C is better")
    figure.legend(*axes[-1, 0].get_legend_handles_labels(), loc="outside upper center", ncols=len(RIVALS))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_dots(axis: Any, table: Table, systems: Sequence[str]) -> None:
    """Mean differences of some systems; intervals from three splits on, those of two would fill the picture."""
    from m3c_md.plots.colors import series_style

    for number, rival in enumerate(RIVALS):
        found = {i: advantage(table, system, rival) for i, system in enumerate(systems)}
        dots = {i + 0.15 * (number - (len(RIVALS) - 1) / 2): ahead for i, ahead in found.items() if ahead is not None}
        means = [ahead.mean for ahead in dots.values()]
        halves = [ahead.interval()[1] - ahead.mean if len(ahead.values) > 2 else 0.0 for ahead in dots.values()]
        axis.errorbar(
            means, list(dots), xerr=halves, label=rival, linestyle="none", markersize=4, **series_style(number)
        )
    axis.axvline(0.0, color="black", linewidth=0.8)
    linear = 1.0 if systems[0] in BY_ERROR else 0.01
    axis.set_xscale("symlog", linthresh=linear)  # differences range from thousandths to tenths
    axis.set_yticks(range(len(systems)), systems)
    axis.set_ylim(len(systems) - 0.5, -0.5)
    axis.grid(axis="x", alpha=0.3)
