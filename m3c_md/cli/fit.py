"""``m3c-md fit``: from trajectory files to states, model, pictures and structures."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from m3c_md.cli.console import Console, progress_bar
from m3c_md.cli.markov import (
    add_core_option,
    core_files,
    coring_lines,
    markov_lines,
    plateau_lines,
    plateau_result,
    warn_of_rise,
)
from m3c_md.cli.output import OutputFolder, add_checkpoint_option, add_output_options
from m3c_md.cli.report import (
    REPORT,
    data_lines,
    proof_line,
    relevance_lines,
    report_text,
    state_lines,
    use_files,
    write_html,
)
from m3c_md.cli.structures import write_structures
from m3c_md.cli.times import time_lines, time_step
from m3c_md.cli.trajectories import Trajectories, add_data_options, load_trajectories, whole_number
from m3c_md.wording import amount

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from m3c_md.clustering.margin_model import M3CModel
    from m3c_md.markov.timescales import ImpliedTimescales
    from m3c_md.report.findings import Findings

MODEL, FEATURES = "model.m3c", "features.json"
FIT_FILES = (
    *(MODEL, FEATURES, "labels/*.npy", "cored/*.npy", "transitions/*.npy"),
    *("structures/state_*.pdb", "structures/frames.csv"),
    *("implied_timescales.png", "ramachandran.png", "states.png", "residues.png", "relevance.png", "search.png"),
    *("report.txt", REPORT),
)

EXAMPLES = """examples:
  m3c-md fit run*.xtc --top protein.pdb --n-states 3 --lag 5 --dt 20 --unit ps --out states
  m3c-md fit run*.xtc --top protein.pdb --n-states 4 --dihedrals phi psi chi1 --residues 'resSeq 5 to 12' --out states
  m3c-md fit distances*.npy --n-states 3 --out states

DIR gets labels/NAME.npy (a state per frame), model.m3c and features.json (for m3c-md transform and
m3c_md.load_model), implied_timescales.png, search.png, the states as ramachandran.png (one phi and
one psi) or else as states.png (over two slow coordinates) and residues.png (over phi and psi of each residue),
relevance.png (which residues or columns the states depend on), structures/state_0.pdb ... (the frames
deepest inside each state, superposed; B-factors: relevance of the residue), structures/frames.csv (which
frames these are), report.txt, and report.html, which shows all of it in a browser. With --core also
cored/NAME.npy (states by coring) and transitions/NAME.npy (True for frames between two cores)."""


def add_fit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "fit",
        help="find the metastable states of trajectories",
        description="Find the metastable states of trajectories by maximum margin metastable clustering (M3C).",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_data_options(parser)
    parser.add_argument(
        "--n-states", type=whole_number(2), required=True, metavar="K", help="number of states (see m3c-md scan)"
    )
    parser.add_argument(
        "--structures", type=whole_number(0), default=10, metavar="N", help="PDB models per state (default: 10)"
    )
    add_core_option(parser)
    add_checkpoint_option(parser)
    add_output_options(parser)
    parser.set_defaults(run=run_fit)


def run_fit(options: argparse.Namespace, console: Console) -> int:
    """Fit, say what was found, and write everything down; what matters most is written first."""
    dt, unit = time_step(options)  # a unit without a time is told before any data are read
    began = time.perf_counter()
    with OutputFolder(options.out, FIT_FILES, force=options.force) as folder:
        from m3c_md import M3C
        from m3c_md.report.model_report import model_page

        settings = {"random_state": options.seed, "n_jobs": options.jobs, "progress": progress_bar}
        estimator = M3C(options.n_states, options.lag, **settings)
        estimator._checked_settings(checkpoint=options.checkpoint)
        if len(options.files) > 1:
            console.say(f"reading {len(options.files)} files ...")
        data = load_trajectories(options)
        folder.protect(data.inputs)
        for line in data_lines(data) + time_lines(options):
            console.say(line)
        console.begin(f"looking for {options.n_states} states at lag time {amount(options.lag * dt, unit, 6)}")
        model = estimator.fit_fetch(data.features, checkpoint=options.checkpoint, featurizer=data.featurizer)
        dtrajs = model.transform(data.features)
        write_labels(folder, data, dtrajs)
        folder.text(FEATURES, data.settings.to_json())
        with folder.writing(MODEL) as path:
            model.save(path)
        body, found, numbers = _kinetic_findings(folder, model, data, dtrajs, options)
        warn_of_rise(console, found.slowest)
        with_structures = data.settings.dihedrals is not None and options.structures > 0
        body += relevance_lines(model, data, with_structures)
        console.say()
        for line in body:
            console.say(line)
        console.say(f"\nwriting pictures{' and structures' if with_structures else ''} ...")
        _write_residues(folder, model, data)
        if with_structures:
            write_structures(folder, model, data, options.structures)
        seconds = time.perf_counter() - began
        folder.text("report.txt", report_text(options, console, data, body, seconds))
        title = f"{model.n_states} states of {data.n_frames} frames, {', '.join(data.names()[:3])}"
        seconds = write_html(
            folder, model_page, options, console, data, began, model, data.features, found, title=title
        )
    console.say(f"\nWritten to {options.out} in {seconds:.1f} s: {brief_list(folder.names())}")
    console.say(f"Open {options.out / REPORT} in a browser.")
    console.result(
        {
            "command": "fit",
            "n_frames": data.n_frames,
            "columns": data.settings.columns,
            "relevance": model.relevance.to_list(),
            "populations": model.populations,
            "visits": None if model.visits is None else model.visits.to_dict("records"),
            **numbers,
            "objective": model.objective,
            "gap": model.gap,
            "warnings": console.warnings,
            "out": str(options.out),
            "written": folder.names(),
            "seconds": seconds,
        }
    )
    return 0


def write_labels(folder: OutputFolder, data: Trajectories, dtrajs: list[NDArray[np.int32]]) -> None:
    """Write the states of every trajectory to a file of its name."""
    import numpy as np

    for name, states in zip(data.names(), dtrajs, strict=True):
        with folder.writing(f"labels/{name}.npy") as path:
            np.save(path, states)


def _kinetic_findings(
    folder: OutputFolder,
    model: M3CModel,
    data: Trajectories,
    dtrajs: list[NDArray[np.int32]],
    options: argparse.Namespace,
) -> tuple[list[str], Findings, dict[str, Any]]:
    """Lines on states and timescales, findings for the report, and numbers for scripts; cored states are written."""
    from m3c_md.report.findings import findings_of, markov_test
    from m3c_md.validation import metastability

    quality = metastability(dtrajs, options.lag, model.n_states)
    timescales = _timescales(dtrajs, model.n_states, options)
    numbers = {
        "Q": quality,
        "lag_time": model.lagtime * timescales.dt,
        "unit": timescales.unit,
        "timescales": {name: t for name, t in _at_lag(timescales, model.lagtime).items() if " " not in name},
        "plateaus": plateau_result(timescales),
        "coring": None,
    }
    test = markov_test(dtrajs, timescales, model.n_states, options.seed)
    lines = _findings(model, quality, timescales) + markov_lines(test)
    known = (model.n_states, model.lagtime, quality)
    if not options.core:
        return lines, findings_of(dtrajs, *known, {"": timescales}, test, random_state=options.seed), numbers
    cored = core_files(folder, model, data)
    after = _timescales(cored.dtrajs, model.n_states, options)
    numbers["coring"] = {"margin": cored.margin, "plateaus": plateau_result(after)}
    curves = {"as labelled": timescales, "cored": after}
    found = findings_of(cored.dtrajs, *known, curves, test, cored.margin, options.seed)
    return lines + coring_lines(cored, after), found, numbers


def _timescales(dtrajs: list[NDArray[np.int32]], n_states: int, options: argparse.Namespace) -> ImpliedTimescales:
    """Timescales at lag times among which that of the fit is, as far as they rise."""
    from m3c_md.report.findings import level_timescales

    dt, unit = time_step(options)
    return level_timescales(dtrajs, n_states, options.lag, dt=dt, unit=unit, random_state=options.seed)


def _at_lag(timescales: ImpliedTimescales, lagtime: int) -> dict[str, float]:
    """Timescales and the ends of their bands at the lag time of the fit."""
    row = timescales.lagtimes.tolist().index(lagtime)
    return {str(name): float(value) for name, value in timescales.to_frame().iloc[row].items()}


def _findings(model: M3CModel, quality: float, timescales: ImpliedTimescales) -> list[str]:
    """Lines on states and timescales, for the terminal and for the report."""
    unit, lag = timescales.unit, model.lagtime * timescales.dt
    found = _at_lag(timescales, model.lagtime)
    lines = [f"M3C found {model.n_states} states:"]
    lines += state_lines(model)
    lines += [
        f"  metastability Q = {quality:.4f} of at most {model.n_states}, lag time {amount(lag, unit, 6)}",
        proof_line(model),
        "  timescales, where they no longer rise with the lag time:",
        *plateau_lines(timescales),
    ]
    if any(plateau.lagtime != model.lagtime for plateau in timescales.plateaus):
        values = [f"{name} = {value:.3g}" for name, value in found.items() if " " not in name and value == value]
        lines.append(
            f"    (at the lag time of the fit, {amount(lag, unit, 6)}: {', '.join(values) or 'none is resolved'})"
        )
    return lines


def _write_residues(folder: OutputFolder, model: M3CModel, data: Trajectories) -> None:
    """Write states over φ and ψ of each residue, unless the map of the report shows the same."""
    from m3c_md.inputs.torsion_columns import Torsions
    from m3c_md.plots import plot_residues
    from m3c_md.plots.view import RAMACHANDRAN, usual_view

    columns = data.settings.columns
    if data.settings.dihedrals is None or not Torsions.among(columns).pairs:
        return
    view = usual_view(model, [data.features[0][:1]], columns)
    if view is not None and view.file == RAMACHANDRAN:
        return
    use_files()
    folder.picture("residues.png", plot_residues(model, data.features, columns=columns))


def brief_list(names: list[str]) -> str:
    """Names of files, those of a folder as one."""
    folders: dict[str, int] = {}
    for name in names:
        shown = f"{name.split('/')[0]}/" if "/" in name else name
        folders[shown] = folders.get(shown, 0) + 1
    return ", ".join(
        f"{name} ({count} {'files' if count > 1 else 'file'})" if name.endswith("/") else name
        for name, count in folders.items()
    )
