"""``m3c-md kinetics``: populations, life times, first-passage times and free energies with their errors."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from m3c_md.cli.apply import load_like_fit
from m3c_md.cli.console import Console
from m3c_md.cli.fit import brief_list
from m3c_md.cli.markov import add_core_option
from m3c_md.cli.output import OutputFolder, add_output_options
from m3c_md.cli.paths import PATH_FILES, add_paths_option, path_ends, write_paths
from m3c_md.cli.report import data_lines, report_text, use_files
from m3c_md.cli.times import time_lines, time_step
from m3c_md.cli.trajectories import add_file_options, add_time_options, positive_number, whole_number

KINETICS_FILES = ("states.csv", "passages.csv", "states.md", "states.tex", "network.png", *PATH_FILES, "report.txt")

EXAMPLES = """examples:
  m3c-md kinetics states/model.m3c run*.xtc --top protein.pdb --core --dt 2 --unit ps --out kinetics
  m3c-md kinetics states/model.m3c distances*.npy --lag 20 --temperature 300 --out kinetics
  m3c-md kinetics states/model.m3c run*.xtc --top protein.pdb --core --paths coil helix --out paths

The features are those of the fit; its features.json has to stand beside MODEL. DIR gets states.csv
(populations, life times, free energies), passages.csv (mean first-passage times and rates), each with
95 % intervals, the table of states for a paper as states.md and states.tex, network.png, report.txt.
Choose a lag time at which timescales are level (see the report of m3c-md fit), or --core. With --paths
also paths.csv, fluxes.csv and committors.csv (transition path theory), paths.png, transitions.csv (frames
at the border of the two states) and structures/transition_FROM_to_TO.pdb (these frames, superposed).
Fluxes and their times have 95 % intervals, too. States have names if the model was renamed (m3c-md edit)."""


def add_kinetics(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "kinetics",
        help="populations, life times and first-passage times with errors",
        description="Populations, life times, free energies and first-passage times of states, with 95 % intervals.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="model.m3c of an earlier fit")
    add_file_options(parser)
    add_core_option(parser)
    add_paths_option(parser)
    add_time_options(parser)
    parser.add_argument(
        "--temperature", type=positive_number, metavar="T", help="in kelvin; then free energies are in kJ/mol, not kT"
    )
    parser.add_argument("--seed", type=whole_number(0), default=0, help="same seed, same answer (default: 0)")
    add_output_options(parser)
    parser.set_defaults(run=run_kinetics, stride=1)


def run_kinetics(options: argparse.Namespace, console: Console) -> int:
    """Summarise the states of some files, and write tables and a picture."""
    use_files()
    dt, unit = time_step(options)
    began = time.perf_counter()
    with OutputFolder(options.out, KINETICS_FILES, force=options.force) as folder:
        ends = path_ends(options)
        model, data = load_like_fit(options)
        folder.protect(data.inputs)
        for line in data_lines(data) + time_lines(options):
            console.say(line)
        summary = model.summary(
            data.features,
            options.lag,
            core=options.core,
            **{"dt": dt, "unit": unit, "temperature": options.temperature, "random_state": options.seed},
        )
        result = summary.kinetics
        folder.table("states.csv", result.states.join(summary.table[["visits", "trajectory", "frame"]]))
        folder.table("passages.csv", result.pairs)
        folder.text("states.md", summary.to_markdown() + "\n")
        folder.text("states.tex", summary.to_latex() + "\n")
        body = [f"model: {options.model}", f"kinetics: {summary.described()}", *repr(result).splitlines()[1:]]
        found = None
        if ends is not None:
            lines, found = write_paths(folder, model, data, ends, summary.margin, options)
            body += lines
        for line in body:
            console.say(line)
        if not result.states["population"].isna().any():
            from m3c_md.plots import plot_network

            folder.picture("network.png", plot_network(result))
        seconds = time.perf_counter() - began
        folder.text("report.txt", report_text(options, console, data, body, seconds))
    console.say(f"\nWritten to {options.out} in {seconds:.1f} s: {brief_list(folder.names())}")
    console.result(
        {
            "command": "kinetics",
            "n_frames": data.n_frames,
            "lag_time": options.lag * dt,
            "unit": unit,
            "energy_unit": result.energy_unit,
            "confidence": result.confidence,
            "margin": summary.margin,
            "states": result.states.join(summary.table[["visits", "trajectory", "frame"]]).to_dict("records"),
            "passages": result.pairs.reset_index().to_dict("records"),
            "paths": found,
            "warnings": console.warnings,
            "out": str(options.out),
            "written": folder.names(),
            "seconds": seconds,
        }
    )
    return 0
