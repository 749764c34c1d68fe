"""``m3c-md transform``: states of new trajectories under a saved model."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from m3c_md.cli.console import Console
from m3c_md.cli.fit import FEATURES, brief_list, write_labels
from m3c_md.cli.output import OutputFolder, add_output_options
from m3c_md.cli.report import data_lines, report_text
from m3c_md.cli.trajectories import FeatureSettings, Trajectories, add_file_options, load_trajectories

TRANSFORM_FILES = ("labels/*.npy", "report.txt")

EXAMPLES = """examples:
  m3c-md transform states/model.m3c new*.xtc --top protein.pdb --out new-states
  m3c-md transform states/model.m3c new-distances.npy --out new-states

The features are those of the fit; its features.json has to stand beside MODEL.
DIR gets labels/NAME.npy (a state per frame) and report.txt."""


def add_transform(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "transform",
        help="states of new trajectories under a saved model",
        description="Give every frame of new trajectories its state under a model that m3c-md fit wrote.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="model.m3c of an earlier fit")
    add_file_options(parser)
    add_output_options(parser)
    parser.set_defaults(run=run_transform)


def run_transform(options: argparse.Namespace, console: Console) -> int:
    """Label new files with the features and the rule of an earlier fit."""
    began = time.perf_counter()
    with OutputFolder(options.out, TRANSFORM_FILES, force=options.force) as folder:
        import numpy as np

        from m3c_md.inputs.state_names import state_title

        model, data = load_like_fit(options)
        folder.protect(data.inputs)
        for line in data_lines(data):
            console.say(line)
        dtrajs = model.transform(data.features)
        write_labels(folder, data, dtrajs)
        populations = np.bincount(np.concatenate(dtrajs), minlength=model.n_states) / data.n_frames
        body = [f"model: {options.model}", "states (in brackets, of the frames of the fit):"]
        body += [
            f"  {state_title(model.state_names, state)}: {share:6.1%} of the frames ({before:.1%})"
            for state, (share, before) in enumerate(zip(populations, model.populations, strict=True))
        ]
        for line in body:
            console.say(line)
        seconds = time.perf_counter() - began
        folder.text("report.txt", report_text(options, console, data, body, seconds))
    console.say(f"\nWritten to {options.out} in {seconds:.1f} s: {brief_list(folder.names())}")
    console.result(
        {
            "command": "transform",
            "n_frames": data.n_frames,
            "columns": data.settings.columns,
            "states": model.state_names,
            "populations": populations,
            "populations_of_fit": model.populations,
            "warnings": console.warnings,
            "out": str(options.out),
            "written": folder.names(),
            "seconds": seconds,
        }
    )
    return 0


def load_like_fit(options: argparse.Namespace) -> tuple[Any, Trajectories]:
    """Model of an earlier fit, and files with the features that it was fitted to."""
    from m3c_md import load_model
    from m3c_md.exceptions import InputError

    model = load_model(options.model)
    settings = FeatureSettings.read(options.model.parent / FEATURES)
    if len(settings.columns) != model.n_columns:
        raise InputError(
            f"{options.model.parent / FEATURES} has {len(settings.columns)} columns, but {options.model} was "
            f"fitted to {model.n_columns}; keep the two files of a fit together"
        )
    _check_sort(settings, options)
    data = load_trajectories(options, settings)
    _check_columns(settings, data, options.model)
    return model, data


def _check_sort(settings: FeatureSettings, options: argparse.Namespace) -> None:
    """Refuse the wrong sort of files before any is read."""
    from m3c_md.exceptions import InputError
    from m3c_md.features.files import trajectory_files

    arrays = trajectory_files(options.files)[0].suffix == ".npy"
    if arrays and settings.dihedrals is not None:
        raise InputError(
            f"{options.model} was fitted to dihedrals ({' '.join(settings.dihedrals)}) of trajectories; give "
            "trajectory files and --top instead of arrays"
        )
    if not arrays and settings.dihedrals is None:
        raise InputError(
            f"{options.model} was fitted to arrays of {len(settings.columns)} columns; give .npy files with these "
            "columns"
        )


def _check_columns(settings: FeatureSettings, data: Trajectories, model: Path) -> None:
    from m3c_md.exceptions import InputError

    ours, theirs = settings.columns, data.settings.columns
    if len(ours) != len(theirs):
        raise InputError(
            f"{data.files[0]} has {len(theirs)} columns, but {model} was fitted to {len(ours)}; give files of the same "
            "molecule, or arrays with the same columns"
        )
    for number, (old, new) in enumerate(zip(ours, theirs, strict=True)):
        if old != new:
            raise InputError(
                f"column {number} of {data.files[0]} is {new!r}, but {model} was fitted to {old!r}; give files of the "
                "same molecule with the same numbers of residues"
            )
