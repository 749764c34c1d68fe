"""What the studies aim for, whether it was reached, and what their results say about the cause where it was not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import printed
from studies import Row
from tables import PCCA, Table, as_printed, counted, interval_text, markdown, paired, spread

# Loss of Q against PCCA+ that is tolerated in any single experiment.
Q_LOSS_ALLOWED = 0.02
# A state with less than this share of the frames is worth a second look.
RARE = 0.05
# What M3C says when it had to hold labels closer to balance.
HELD_TO_BALANCE = "every candidate lost a state"
# Names in the paper of systems that it has too.
PAPER_MOLECULES = {"alanine-dipeptide": "alanine dipeptide", "deca-alanine": "deca-alanine"}


@dataclass(frozen=True)
class Target:
    """What was aimed for, what was reached, and why not if it was not."""

    study: str
    paper: str
    aim: str
    measured: str
    met: bool
    cause: str = ""


def diffusion_targets(table: Table) -> list[Target]:
    found = []
    for system, least, least_right in (("Model I", 2.9645, 1.0), ("Model II", 2.985, 0.8)):
        rows = table.all(system, "M3C")
        if not rows:
            continue
        q = table.values(system, "M3C", "Q")
        right, n = sum(row.get("right", False) for row in rows), len(rows)
        met = q.mean() >= least and right >= least_right * n
        aim = f"Q ≥ {least}, {'all' if least_right == 1.0 else f'at least {least_right:.0%} of the experiments'} right"
        measured = f"{spread(q)}, {right} of {n} right"
        if system == "Model II" and (best := table.best_pcca(system, "Q")):
            pcca = table.values(system, best, "Q").mean()
            met, aim, measured = met and pcca < 2.975, f"{aim}, PCCA+ below 2.975", f"{measured}; {best}: {pcca:.4f}"
        paper = as_printed(printed.DIFFUSION_Q[system]["M3C"])
        found.append(Target(f"{system}, Q", paper, aim, measured, met, diffusion_cause(table, system)))
    return found


def diffusion_cause(table: Table, system: str) -> str:
    """What hindsight says about the experiments that were not right, and about the best candidate in all."""
    rows = [row for row in table.all(system, "M3C") if "Q" in row]
    wrong = [row for row in rows if not row["right"]]
    had = sum(row.get("among", False) for row in wrong)
    lost = (
        f"Wrong in {len(wrong)} experiments; a right candidate was there and lost in {had} of them. " if wrong else ""
    )
    return lost + search_diagnosis(rows, 4)


def search_diagnosis(rows: Sequence[Row], digits: int) -> str:
    """Say what became of the candidates that hindsight would have chosen, and how often a search was in trouble."""
    best = np.abs([row["best_quality"] for row in rows])
    wider, narrower = (
        sum(sign * row["best_bandwidth"] > sign * row["bandwidth"] for row in rows) for sign in (1.0, -1.0)
    )
    held = sum(any(HELD_TO_BALANCE in text for text in row.get("warnings", ())) for row in rows)
    rare = sum(min(row["populations"]) < RARE for row in rows)
    return (
        f"The best candidates of all searches, chosen with hindsight, have a mean of {best.mean():.{digits}f}; they "
        f"have a wider bandwidth than the winner in {wider} and a narrower one in {narrower} of {len(rows)} fits, and "
        f"were {counted(row['best_fate'].partition(':')[0].partition(' as ')[0] for row in rows)}. In {held} fits "
        f"every candidate had lost a state at first; the smallest state has less than {RARE:.0%} of the frames in "
        f"{rare}. Winners started from {counted(row['start'] for row in rows)}."
    )


SEQUENCE_AIMS = {"letter": (0.10, 0.23), "satellite": (0.09, 0.32), "waveform": (12.0, 20.0)}


def sequence_targets(table: Table) -> list[Target]:
    found = []
    for system, (train_aim, test_aim) in SEQUENCE_AIMS.items():
        train, test = (table.values(system, "M3C", f"{part}_error") for part in ("train", "test"))
        if not len(train):
            continue
        paper = printed.SEQUENCE_ERRORS[system]["M3C"]
        found.append(
            Target(
                f"{system}, training / test error, %",
                f"{paper[0][0]:.2f} / {paper[1][0]:.2f}",
                f"≤ {train_aim:.2f} / {test_aim:.2f}",
                f"{train.mean():.3f} / {test.mean():.3f} ({len(train)} sequences)",
                bool(train.mean() <= train_aim and test.mean() <= test_aim),
                sequence_cause(table, system),
            )
        )
    return found


def sequence_cause(table: Table, system: str) -> str:
    """Split the errors by whether a search was in trouble: one that was may dominate the mean."""
    rows = [row for row in table.all(system, "M3C") if "test_error" in row]
    errors = np.array([row["test_error"] for row in rows])
    rare = np.array([min(row["populations"]) < RARE for row in rows])
    apart = ""
    if rare.any() and not rare.all():
        fine, poor = errors[~rare].mean(), errors[rare].mean()
        apart = f" ({fine:.2f} where all states have at least {RARE:.0%} of the frames, {poor:.2f} elsewhere)"
    return f"Median test error {np.median(errors):.2f}{apart}. " + search_diagnosis(rows, 2)


def molecule_targets(table: Table) -> list[Target]:
    found = []
    for system in table.systems():
        best = table.best_pcca(system, "Q")
        ours, theirs = table.by_seed(system, "M3C", "Q"), table.by_seed(system, best, "Q") if best else {}
        difference = paired(ours, theirs)
        if best is None or difference is None:
            continue
        q, rival = np.array(list(ours.values())), np.array(list(theirs.values()))
        dipeptide = "dipeptide" in system
        outside = q.mean() - rival.mean() > max(q.std(ddof=1), rival.std(ddof=1))
        met = q.mean() >= rival.mean() and q.std() <= 0.5 * rival.std() if dipeptide else bool(outside)
        aim = "≥ best PCCA+, spread ≤ half of its" if dipeptide else "above best PCCA+ by more than the spread"
        measured = f"{spread(q)} against {spread(rival)} ({best}); difference {interval_text(difference)}"
        failed = sum("error" in row for row in table.all(system, best))
        measured += f"; {best} failed in {failed}" if failed else ""
        name = PAPER_MOLECULES.get(system)
        paper = f"{as_printed(printed.MOLECULE_Q[name]['M3C'])} against {printed_best_pcca(name)}" if name else ""
        found.append(Target(f"{system}, held-out Q", paper, aim, measured, bool(met), molecule_cause(table, system)))
    return found


def printed_best_pcca(name: str) -> str:
    values = {method: pair for method, pair in printed.MOLECULE_Q[name].items() if method.startswith(PCCA)}
    best = max(values, key=lambda method: values[method][0])
    return f"{as_printed(values[best])} ({best})"


def molecule_cause(table: Table, system: str) -> str:
    return search_diagnosis([row for row in table.all(system, "M3C") if "Q" in row], 4)


def everywhere_target(tables: Sequence[Table]) -> Target | None:
    """Never degenerate, never fewer states, never much worse than PCCA+."""
    failures, worst, n = 0, (np.inf, ""), 0
    for table in tables:
        for system in table.systems():
            rows = table.all(system, "M3C")
            n += len(rows)
            failures += sum("error" in row or min(row["populations"]) <= 0.0 for row in rows)
            best = table.best_pcca(system, "Q")
            if best and (gap := paired(table.by_seed(system, "M3C", "Q"), table.by_seed(system, best, "Q"))):
                worst = min(worst, (float(gap.values.min()), f"{system}, against {best}"))
    if not n:
        return None
    met = failures == 0 and worst[0] >= -Q_LOSS_ALLOWED
    aim = f"never degenerate, never fewer states, no seed worse than PCCA+ by more than {Q_LOSS_ALLOWED} in Q"
    return Target("any system", "", aim, f"{failures} failures in {n} fits; worst {worst[0]:+.4f} ({worst[1]})", met)


def all_targets(tables: dict[str, Table]) -> list[Target]:
    found = [
        *diffusion_targets(tables["diffusion"]),
        *sequence_targets(tables["sequences"]),
        *molecule_targets(tables["molecules"]),
    ]
    everywhere = everywhere_target([tables["diffusion"], tables["molecules"]])
    return [*found, everywhere] if everywhere else found


def targets_section(targets: Sequence[Target]) -> list[str]:
    rows = [(one.study, one.paper, one.aim, one.measured, "met" if one.met else "**missed**") for one in targets]
    lines = ["## Targets", ""]
    lines += markdown(("study", "paper's M3C", "target for the default", "measured", ""), rows)
    missed = [one for one in targets if not one.met and one.cause]
    if missed:
        lines += [
            "Missed targets, and what the results say about the cause. (The best of many candidates beats the winner "
            "by chance alone: what hindsight would choose bounds what selection can gain, it does not estimate it.)",
            "",
        ]
        lines += [*(f"- {one.study}: {one.cause}" for one in missed), ""]
    return lines
