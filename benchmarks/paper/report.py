"""Write ``benchmarks/RESULTS.md``, its figures and the README's table from the results of studies; no number is typed.

    python benchmarks/paper/report.py

Run it after any of ``diffusion.py``, ``sequences.py``, ``molecules.py``, ``ablations.py``. A study without results is
named. The paper's numbers come from ``printed.py``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import ablations
import diffusion
import figures
import molecules
import numpy as np
import printed
import rivals_section
import sequences
from defaults_section import defaults_section, difference_to_default
from speed_section import speed_section
from studies import HERE, RESULTS, load_rows
from summary import summary_section
from tables import Difference, Table, as_printed, counted, counted_right, fits, interval_text, markdown, paired, spread
from targets import PAPER_MOLECULES, SEQUENCE_AIMS, all_targets, targets_section

from m3c_md.systems import exact_reference

GREY = "Means with standard deviations over the fits; in the grey area a timescale is shorter than the lag time."


def sequences_section(table: Table) -> list[str]:
    lines = [
        "## Sequential data",
        "",
        "Errors in per cent, mean ± standard deviation over sequences of 1000 patterns (`sequences.py`). PCCA+ has the "
        "paper's k-medoids bins, or k-means bins. `M3C.paper` has the settings of the paper, its columns scaled.",
        "",
    ]
    for system in table.systems():
        quoted = printed.SEQUENCE_ERRORS.get(system, {})
        rows = []
        for method in table.methods(system, sequences.METHODS):
            train, test = (table.values(system, method, f"{part}_error") for part in ("train", "test"))
            paper = quoted.get(method, (None, None))
            cells = (as_printed(paper[0], 2), spread(train, 2), as_printed(paper[1], 2), spread(test, 2))
            rows.append((method, *cells, fits(table, system, method)))
        header = (system, "training, paper", "training, ours", "test, paper", "test, ours", "fits")
        lines += markdown(header, rows)
    return [*lines, "![Test errors](figures/sequences.png)", ""]


def diffusion_section(table: Table) -> list[str]:
    lines = [
        "## Model I and Model II",
        "",
        'Mean ± standard deviation over experiments (`diffusion.py`). "exact" is Q of the finite-volume reference, '
        '"simulated" that of a simulation of 10,000 time units as in the paper; "right" agrees with the best partition '
        f"on {diffusion.RIGHT:.0%} of the stationary mass. A fit with fewer states than asked for has a Q of those it "
        "has (exact), and none at all (simulated).",
        "",
    ]
    for system in table.systems():
        quoted = printed.DIFFUSION_Q[system]
        model = diffusion.MODELS[system]
        reference = exact_reference(model)
        best = reference.best_partition(model.n_states, model.interval)
        lines += [f"Best possible Q of {system}: {reference.metastability(best, model.interval):.4f}.", ""]
        rows = []
        for method in table.methods(system, diffusion.METHODS):
            q = table.values(system, method, "Q")
            worst = f"{q.min():.4f}" if len(q) else "-"
            simulated = spread(table.values(system, method, "Q_simulated"))
            cells = (
                as_printed(quoted.get(method)),
                spread(q),
                simulated,
                counted_right(table, system, method).removesuffix(" right"),
                worst,
            )
            rows.append((method, *cells, fits(table, system, method)))
        lines += markdown((system, "Q, paper", "Q, exact", "Q, simulated", "right", "worst", "fits"), rows)
    lines += objective_lines(table)
    lines += ["![Implied timescales](figures/diffusion_timescales.png)", "", GREY, ""]
    return [*lines, "![Decompositions of one experiment](figures/diffusion_maps.png)", ""]


def objective_lines(table: Table) -> list[str]:
    """The objective values that the paper's text compares, and the degenerate optimum below them."""
    rows = []
    for method, value in printed.OBJECTIVES.items():
        found = table.values("Model I", method, "objective")
        if len(found):
            q = spread(table.values("Model I", method, "Q"))
            rows.append((method, f"{value:.4f}", spread(found), f"{found.min():.4f}", q))
    degenerate = table.values("Model I", diffusion.DEGENERATE, "degenerate_objective")
    lines = ["Objective values of Model I, with the paper's β = 0.01, 50 features and σ = 2⁻⁴ ... 2⁴:", ""]
    lines += markdown(("", "paper, one experiment", "ours", "least", "Q, exact"), rows)
    if len(degenerate):
        example = next(row for row in table.all("Model I", diffusion.DEGENERATE) if row.get("degenerate_populations"))
        lines += [
            "The degenerate optimum: started from one state and as few others as the balance allows, the search ends "
            f"at {spread(degenerate)}, below the right solution, with a rule that gives the states "
            f"{', '.join(f'{share:.1%}' for share in example['degenerate_populations'])} of the frames (first "
            "experiment). The smallest objective would choose it; the package does not.",
            "",
        ]
    return lines


def molecules_section(table: Table) -> list[str]:
    lines = [
        "## Molecules",
        "",
        "Held-out Q, mean ± standard deviation over fits (`molecules.py` says who is fitted to what); difference: M3C "
        "- method, fit by fit, with its 95 % confidence interval. The paper's columns are of other simulations: "
        "compare differences and spreads.",
        "",
    ]
    for system in table.systems():
        quoted = printed.MOLECULE_Q.get(PAPER_MOLECULES.get(system, ""), {})
        rows = []
        for method in table.methods(system, molecules.METHODS):
            difference = paired(table.by_seed(system, "M3C", "Q"), table.by_seed(system, method, "Q"))
            apart = "" if difference is None or method == "M3C" else interval_text(difference)
            q = spread(table.values(system, method, "Q"))
            seconds = np.median([row["seconds"] for row in table.all(system, method)])
            cells = (as_printed(quoted.get(method)), q, apart, fits(table, system, method), f"{seconds:.1f}")
            rows.append((method, *cells))
        lines += markdown((system, "Q, paper", "Q, ours", "M3C - method", "fits", "CPU s"), rows)
    lines += ["![Held-out Q](figures/molecules_q.png)", ""]
    return [*lines, "![Implied timescales of molecules](figures/molecules_timescales.png)", "", GREY, ""]


def ablations_section(table: Table) -> list[str]:
    lines = [
        *defaults_section(table),
        "## Ablations",
        "",
        "One setting changed at a time (`ablations.py`), on seeds that no other study uses. Quality is exact Q (Model "
        "I, Model II), test error in per cent (letter, satellite, waveform) or held-out Q (molecules). Differences are "
        'variant - default, experiment by experiment, with a 95 % confidence interval; "better / worse" counts '
        "experiments, p is that of the sign test.",
        "",
        f"Read p with care: there are {n_comparisons(table)} comparisons below, so about "
        f"{0.05 * n_comparisons(table):.0f} of them would have p < 0.05 by chance. Experiments on molecules share "
        "their data (asp7 has 5 blocks and mdshare 10, whatever the number of seeds), so intervals and p values are "
        "too small. Variants were not all run on the same number of seeds.",
        "",
    ]
    for system in table.systems():
        sign = -1.0 if system in SEQUENCE_AIMS else 1.0
        rows = []
        for method in table.methods(system, ablations.METHODS):
            quality = table.by_seed(system, method, "quality")
            difference = difference_to_default(table, system, method)
            cells = ("", "", "")
            if difference is not None and method != ablations.BASELINE:
                above, below, p = Difference(sign * difference.values).signs()
                cells = (interval_text(difference), f"{above} / {below}", f"{p:.2g}")
            rows.append((method, spread(np.array(list(quality.values()))), *cells, fits(table, system, method)))
        lines += markdown((system, "quality", "variant - default", "better / worse", "p", "fits"), rows)
        starts = counted(row["start"] for row in table.all(system, ablations.BASELINE) if "start" in row)
        lines += [f"Starts that found the default's winner: {starts}.", ""]
    return [*lines, "![Ablations](figures/ablations.png)", ""]


def n_comparisons(table: Table) -> int:
    return len({(row["system"], row["method"]) for row in table.rows if row["method"] != ablations.BASELINE})


def header(tables: dict[str, Table]) -> list[str]:
    lines = [
        "# Results",
        "Written by `python benchmarks/paper/report.py` from `benchmarks/paper/results/*.json`; do not edit. Every "
        "number of the paper (arXiv:1501.00125) has ours beside it. The same defaults are used everywhere, methods "
        'never see true labels, and "best PCCA+" has its number of micro states chosen with hindsight.',
        "",
    ]
    for study, table in tables.items():
        if table.rows:
            seeds = sorted({row["seed"] for row in table.rows})
            code = ", ".join(sorted({row["code"] for row in table.rows}))
            lines.append(f"- {study}: {len(table.rows)} fits, seeds {seeds[0]} to {seeds[-1]}, code {code}")
        else:
            lines.append(f"- {study}: no results; run `python benchmarks/paper/{study}.py`")
    return [*lines, ""]


SECTIONS: dict[str, tuple[Callable[[Table], list[str]], Callable[[Table, Path], None]]] = {
    "sequences": (sequences_section, figures.draw_sequences),
    "diffusion": (diffusion_section, figures.draw_diffusion),
    "molecules": (molecules_section, figures.draw_molecules),
    "ablations": (ablations_section, figures.draw_ablations),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--out", type=Path, default=HERE.parent, help="folder of RESULTS.md and of figures/")
    options = parser.parse_args()
    tables = {name: Table(load_rows(name, options.results)) for name in SECTIONS}
    folder = options.out / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    lines = header(tables) + summary_section(tables) + targets_section(all_targets(tables))
    for name, (section, draw) in SECTIONS.items():
        if tables[name].rows:
            lines += section(tables[name])
            draw(tables[name], folder)
    rivals = list(rivals_section.last_rows().values())
    if rivals:
        lines += rivals_section.rivals_section(rivals)
        rivals_section.draw(rivals, folder / rivals_section.FIGURE.name)
    lines += speed_section()
    (options.out / "RESULTS.md").write_text("\n".join(lines), encoding="utf-8")
    if rivals and options.out == HERE.parent:
        rivals_section.write_readme(rivals, HERE.parents[1] / "README.md")
    print(options.out / "RESULTS.md")


if __name__ == "__main__":
    main()
