"""``m3c-md profile``: torsions and secondary structure of the states, and what tells them from their neighbours."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from m3c_md.cli.apply import load_like_fit
from m3c_md.cli.console import Console, silent_standard_output
from m3c_md.cli.fit import brief_list
from m3c_md.cli.output import OutputFolder, add_output_options
from m3c_md.cli.report import data_lines, report_text, use_files
from m3c_md.cli.trajectories import add_file_options

PROFILE_FILES = ("angles.csv", "borders.csv", "residues.csv", "profile.png", "ramachandran.png", "report.txt")

EXAMPLES = """examples:
  m3c-md profile states/model.m3c run*.xtc --top protein.pdb --out profile

The features are those of the fit; its features.json has to stand beside MODEL. DIR gets angles.csv (mean
and spread of every dihedral in every state, in degrees), borders.csv (which dihedrals tell a state from
each of its neighbours), residues.csv (shares of the frames in regions of the Ramachandran map, helix and
strand), profile.png (residues by states), ramachandran.png (a map for each state and residue), report.txt."""


def add_profile(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "profile",
        help="torsions and secondary structure of states, and what tells them apart",
        description="What is in a state: its torsions, its secondary structure, and what tells it from its neighbours.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="model.m3c of an earlier fit")
    add_file_options(parser)
    add_output_options(parser)
    parser.set_defaults(run=run_profile)


def run_profile(options: argparse.Namespace, console: Console) -> int:
    """Look at the states of some files, and write tables and pictures."""
    from m3c_md.clustering.profile import profile_of_columns
    from m3c_md.exceptions import InputError
    from m3c_md.plots import plot_profile, plot_profile_ramachandran

    use_files()

    began = time.perf_counter()
    with OutputFolder(options.out, PROFILE_FILES, force=options.force) as folder:
        model, data = load_like_fit(options)
        if data.featurizer is None:
            raise InputError(
                f"{data.files[0]} is an array of features, and a profile needs dihedrals; fit to trajectory files"
            )
        folder.protect(data.inputs)
        for line in data_lines(data):
            console.say(line)
        with silent_standard_output():
            structure = data.featurizer.secondary_structure(data.files, data.top)
        profile = profile_of_columns(model, data.settings.columns, data.features, structure)
        folder.table("angles.csv", profile.angles)
        folder.table("borders.csv", profile.borders.set_index(["state", "neighbour", "dihedral"]))
        folder.table("residues.csv", profile.residues)
        body = [f"model: {options.model}", *profile.words()]
        for line in body:
            console.say(line)
        folder.picture("profile.png", plot_profile(profile))
        if profile.maps:
            folder.picture("ramachandran.png", plot_profile_ramachandran(profile))
        seconds = time.perf_counter() - began
        folder.text("report.txt", report_text(options, console, data, body, seconds))
    console.say(f"\nWritten to {options.out} in {seconds:.1f} s: {brief_list(folder.names())}")
    console.result(
        {
            "command": "profile",
            "n_frames": data.n_frames,
            "states": profile.names,
            "populations": profile.populations,
            "angles": profile.angles.reset_index().to_dict("records"),
            "borders": profile.borders.to_dict("records"),
            "residues": profile.residues.reset_index().to_dict("records"),
            "missing": profile.missing,
            "warnings": console.warnings,
            "out": str(options.out),
            "written": folder.names(),
            "seconds": seconds,
        }
    )
    return 0
