"""``m3c-md demo``: from the shipped trajectory files of alanine dipeptide to states, and how PCCA+ does on them."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from m3c_md.cli.console import Console, progress_bar
from m3c_md.cli.fit import FEATURES, MODEL, brief_list, write_labels
from m3c_md.cli.output import OutputFolder, add_output_options
from m3c_md.cli.report import (
    REPORT,
    data_lines,
    proof_line,
    relevance_lines,
    report_text,
    state_lines,
    warn_of_methods,
    write_html,
)
from m3c_md.cli.structures import write_structures
from m3c_md.cli.trajectories import Trajectories, load_trajectories, whole_number
from m3c_md.wording import amount

if TYPE_CHECKING:
    from m3c_md.clustering.margin_model import M3CModel
    from m3c_md.data import MolecularData
    from m3c_md.validation.comparison import Comparison

# States of alanine dipeptide, and microstates of PCCA+ from few to many: its states depend on the number.
N_STATES = 3
MICROSTATES = (100, 200, 500)
# Enough to see in a viewer what the structures of a state share.
STRUCTURES_PER_STATE = 10
DEMO_FILES = (
    *("ramachandran.png", "implied_timescales.png", "metastability.png", "relevance.png", "search.png"),
    *(MODEL, FEATURES, "labels/*.npy", "structures/state_*.pdb", "structures/frames.csv", "table.csv"),
    *("report.txt", REPORT),
)


def add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    demo = commands.add_parser(
        "demo",
        help="the main job on shipped data: states of alanine dipeptide, beside those of PCCA+",
        description="Find the three states of alanine dipeptide in the two trajectory files that ship with the "
        "package, and judge them and those of PCCA+ on the eighteen other trajectories. Takes about a minute.",
    )
    add_output_options(demo, default=Path("m3c-demo"))
    demo.add_argument("--seed", type=whole_number(0), default=0, help="same seed, same answer (default: %(default)s)")
    demo.add_argument(
        "--jobs", type=whole_number(1), metavar="N", help="processes to spread the work over (default: all cores)"
    )
    demo.set_defaults(run=run_demo)


def run_demo(options: argparse.Namespace, console: Console) -> int:
    """Read, fit, compare, and write everything down."""
    from m3c_md.data import alanine_dipeptide

    began = time.perf_counter()
    with OutputFolder(options.out, DEMO_FILES, force=options.force) as folder:
        from m3c_md import compare
        from m3c_md.exceptions import DegenerateSolutionError

        shipped = alanine_dipeptide()
        files = shipped.trajectory_files
        console.say(f"Alanine dipeptide in implicit solvent: {shipped}.")
        console.say(f"Reading {' and '.join(path.name for path in files)} ...")
        data = _load(shipped, options.jobs)
        for line in data_lines(data):
            console.say(line)
        console.say()
        console.begin(f"Fitting M3C and PCCA+ to these, judging on the other {len(shipped.angles) - len(files)}")
        comparison = compare(
            data.features,
            N_STATES,
            test=shipped.features[len(files) :],
            methods=("m3c", "pcca+"),
            n_microstates=MICROSTATES,
            dt=shipped.dt,
            unit=shipped.unit,
            random_state=options.seed,
            n_jobs=options.jobs,
            progress=progress_bar,
        )
        warn_of_methods(console, comparison.table["warnings"].to_dict())
        if "M3C" not in comparison.models:
            raise DegenerateSolutionError(comparison.table["warnings"]["M3C"])
        model: M3CModel = comparison.models["M3C"]
        model.columns, model.dihedral_columns = data.settings.columns, data.featurizer.dihedral_columns()
        body = _findings(comparison, model, data)
        for line in ["", *body]:
            console.say(line)
        console.say("\nWriting labels, model, pictures and structures ...")
        _write(folder, comparison, model, data)
        seconds = time.perf_counter() - began
        folder.text("report.txt", report_text(options, console, data, body, seconds))
        seconds = _write_page(folder, options, console, data, comparison, began)
    console.say(f"\nWritten to {options.out} in {seconds:.1f} s: {brief_list(folder.names())}")
    console.say(f"Open the report in a browser: {(options.out / REPORT).resolve()}")
    console.result(
        {
            "command": "demo",
            "verdict": comparison.verdict,
            "table": comparison.table.drop(columns="warnings").reset_index().to_dict("records"),
            "populations": model.populations,
            "gap": model.gap,
            "warnings": console.warnings,
            "out": str(options.out),
            "written": folder.names(),
            "seconds": seconds,
        }
    )
    return 0


def _write_page(
    folder: OutputFolder,
    options: argparse.Namespace,
    console: Console,
    data: Trajectories,
    comparison: Comparison,
    began: float,
) -> float:
    """Write report.html and return the seconds till now."""
    from m3c_md.report.study_report import comparison_page

    results = (comparison, data.features)
    return write_html(folder, comparison_page, options, console, data, began, *results, random_state=options.seed)


def _load(shipped: MolecularData, n_jobs: int | None) -> Trajectories:
    """Dihedrals of the trajectory files that ship with the package."""
    options = {"dihedrals": ["phi", "psi"], "residues": None, "jobs": n_jobs}
    files = [str(path) for path in shipped.trajectory_files]
    return load_trajectories(argparse.Namespace(files=files, top=str(shipped.topology_file), **options))


def _findings(comparison: Comparison, model: M3CModel, data: Trajectories) -> list[str]:
    lines = [f"M3C found {model.n_states} states:"]
    lines += state_lines(model)
    lines += [
        proof_line(model),
        *relevance_lines(model, data, structures=True),
        "",
    ]
    lag = amount(comparison.lagtime * comparison.dt, comparison.unit, 6)
    lines += [f"On the trajectories that were not fitted, at lag time {lag} (Q: metastability, at most {N_STATES}):"]
    return [*lines, *comparison.lines()[1:]]


def _write(folder: OutputFolder, comparison: Comparison, model: M3CModel, data: Trajectories) -> None:
    """What matters most is written first."""
    write_labels(folder, data, model.transform(data.features))
    folder.text(FEATURES, data.settings.to_json())
    with folder.writing(MODEL) as path:
        model.save(path)
    folder.table("table.csv", comparison.table)
    write_structures(folder, model, data, STRUCTURES_PER_STATE)
