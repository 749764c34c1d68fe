"""Transition paths on the command line: tables, a picture, and structures at the border."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from m3c_md.cli.output import OutputFolder
from m3c_md.cli.structures import write_transition
from m3c_md.cli.times import time_step
from m3c_md.cli.trajectories import Trajectories

if TYPE_CHECKING:
    from m3c_md.clustering.state_model import StateModel

PATH_FILES = (
    *("paths.csv", "fluxes.csv", "committors.csv", "paths.png", "transitions.csv", "structures/transition_*.pdb"),
)
# Structures at the border, as many as m3c-md fit writes of a state.
N_STRUCTURES = 10


def add_paths_option(parser: argparse.ArgumentParser) -> None:
    """Between which states paths are wanted."""
    parser.add_argument(
        "--paths",
        nargs=2,
        metavar=("FROM", "TO"),
        help="transition paths from one state to another, by number or name, and structures at their border",
    )


def path_ends(options: argparse.Namespace) -> list[int] | None:
    """States between which paths are wanted, known to the model; None if none are."""
    from m3c_md import load_model
    from m3c_md.exceptions import InputError
    from m3c_md.inputs.state_names import state_number

    if options.paths is None:
        return None
    names = load_model(options.model).state_names
    ends = [state_number(names, int(x) if x.isdecimal() else x, "--paths") for x in options.paths]
    if ends[0] == ends[1]:
        raise InputError(f"--paths {' '.join(options.paths)} names one state twice; name two")
    return ends


def write_paths(
    folder: OutputFolder, model: StateModel, data: Trajectories, ends: list[int], margin: float, options: Any
) -> tuple[list[str], dict[str, Any]]:
    """Write all that there is on paths between two states; lines for the report and numbers for scripts come back."""
    import pandas as pd

    from m3c_md import transition_paths
    from m3c_md.plots import plot_paths

    dt, unit = time_step(options)
    dtrajs = model.core(data.features, margin).dtrajs
    source, target = ends
    known: dict[str, Any] = {"n_states": model.n_states, "names": model.state_names, "dt": dt, "unit": unit}
    paths = transition_paths(dtrajs, source, target, options.lag, random_state=options.seed, **known)
    folder.table("paths.csv", paths.pathways.drop(columns="states"))
    folder.table("fluxes.csv", paths.fluxes)
    folder.table("committors.csv", paths.states)
    folder.picture("paths.png", plot_paths(paths))
    frames = model.transition_frames(data.features, source, target, N_STRUCTURES)
    files = [str(data.files[i]) for i in frames[:, 0]]
    places = pd.DataFrame({"file": files, "frame": frames[:, 1] * data.stride})
    places["margin"] = [float(model.margin(data.features[i][k : k + 1])[0]) for i, k in frames.tolist()]
    folder.table("transitions.csv", places)
    if data.settings.dihedrals is not None and len(frames):
        write_transition(folder, model, data, ends, frames)
    lines = [
        "",
        f"paths from {paths.title(paths.source)} to {paths.title(paths.target)}:",
        *repr(paths).splitlines()[1:],
        f"frames where a trajectory crosses the border between the two, in transitions.csv: {len(frames)}",
    ]
    numbers = {"mfpt": paths.mfpt, "duration": paths.duration, "total_flux": paths.total_flux}
    tables = {"paths": paths.pathways, "fluxes": paths.fluxes.reset_index(), "committors": paths.states.reset_index()}
    tables["transitions"] = places
    intervals = {f"{name}_interval": list(pair) for name, pair in paths.intervals.items()}
    return lines, {**numbers, **intervals, **{name: table.to_dict("records") for name, table in tables.items()}}
