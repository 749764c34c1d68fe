"""Why the defaults are what they are: the verdict of the ablations on every rival of every default."""

from __future__ import annotations

from dataclasses import dataclass

import ablations
from tables import Difference, Table, markdown, paired
from targets import SEQUENCE_AIMS


@dataclass(frozen=True)
class Default:
    """A default, the variants that were tried in its place, and what speaks for it beside their results."""

    name: str
    rivals: tuple[str, ...]
    why: str


DEFAULTS = (
    Default(
        "selection class-averaged",
        ("selection objective", *ablations.CROSS_VALIDATED),
        "The smallest objective may be that of a state that hides a large loss in few frames. Leaving data out costs "
        "more than it tells: what is left out of a few slow events is most of them.",
    ),
    Default(
        "bandwidth: widest within a standard error",
        (*ablations.WIDEST, ablations.BEST_BANDWIDTH),
        "Matters where trajectories are few and columns many; elsewhere it changes next to nothing.",
    ),
    Default(
        "β 0.003",
        ("β 0.0003", "β 0.001", "β 0.01", "β 0.03"),
        "A flat optimum: smaller values follow noise at borders, larger ones lose bent borders.",
    ),
    Default(
        "100 features, 200 for more than 8 columns",
        ("50 features", "100 features", "200 features", "400 features"),
        "The kernel of many columns needs more; beyond that only the cost rises.",
    ),
    Default("orthogonal features", ("paper's features",), "The same cost with less noise in the kernel."),
    Default(
        "reweighting", ("unweighted",), "Made for trajectories that start out of equilibrium; harmless where none do."
    ),
    Default(
        "balance 0.01",
        ("balance 0.003", "balance 0.03", "balance 0.1"),
        "Larger than the share of noise that could pose as a state, smaller than the states that people look for.",
    ),
    Default(
        "scaled columns",
        ("columns as they are",),
        "Columns of different units; sines and cosines of angles hardly care.",
    ),
    Default(
        "lag 1",
        ("lag 2", "lag 5", "lag 10"),
        "The lag time is the user's; quality is judged at lag 1 here, whatever the lag time of the fit.",
    ),
    Default(
        "starts kinetic, lumping, kmeans",
        (
            "start kinetic",
            "start lumping",
            "start kmeans",
            "start pcca",
            "start SDP, exact kernel, tight cap",
            "start SDP, literal",
            "all starts",
        ),
        "No single start is good everywhere; the relaxation adds cost and no wins.",
    ),
)


def defaults_section(table: Table) -> list[str]:
    """Table of all rivals: where they are clearly better or worse, and how often they were tried."""
    rows = []
    for default in DEFAULTS:
        for place, rival in enumerate(default.rivals):
            verdict = judged(table, rival)
            if verdict is not None:
                rows.append((default.name if place == 0 else "", rival, *verdict))
    lines = [
        "## Why the defaults are what they are",
        "",
        "Every rival of every default, tried by itself. Better, worse: systems on which the 95 % confidence interval "
        "of the paired difference (in Q, or in per cent of test error) leaves out zero; on all others there is no "
        "difference to be seen. One default has to do for all systems, so a rival has to win somewhere and lose "
        "nowhere.",
        "",
        *markdown(("default", "rival", "better on", "worse on", "systems", "fits"), rows),
    ]
    lines += [
        f"- {default.name}: {default.why}" for default in DEFAULTS if any(judged(table, r) for r in default.rivals)
    ]
    return [*lines, ""]


def judged(table: Table, rival: str) -> tuple[str, str, str, str] | None:
    """Systems on which a variant is clearly better, and worse; numbers of systems and of fits."""
    better, worse, n_systems, n_fits = [], [], 0, 0
    for system in table.systems():
        difference = difference_to_default(table, system, rival)
        if difference is None or len(difference.values) < 2:
            continue
        n_systems, n_fits = n_systems + 1, n_fits + len(difference.values)
        low, high = difference.interval()
        # Errors are better if they are smaller.
        gain, digits = (-1.0, 2) if system in SEQUENCE_AIMS else (1.0, 4)
        text = f"{system} {difference.mean:+.{digits}f}"
        if low > 0.0 or high < 0.0:
            (better if gain * difference.mean > 0.0 else worse).append(text)
    if not n_systems:
        return None
    return ", ".join(better) or "-", ", ".join(worse) or "-", str(n_systems), str(n_fits)


def difference_to_default(table: Table, system: str, rival: str) -> Difference | None:
    default = table.by_seed(system, ablations.BASELINE, "quality")
    return paired(table.by_seed(system, rival, "quality"), default)
