"""What is said about data and methods in every report, and the page with its pictures."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from m3c_md.cli.console import Console
from m3c_md.cli.output import OutputFolder
from m3c_md.cli.times import time_lines
from m3c_md.cli.trajectories import Trajectories

if TYPE_CHECKING:
    import pandas as pd

    from m3c_md.clustering.margin_model import MarginModel
    from m3c_md.clustering.state_model import StateModel
    from m3c_md.report.page import Page

REPORT = "report.html"
# More columns than this are not named one by one.
MOST_NAMED = 12
# Residues, angles or columns that are named because the states depend on them most.
MOST_LEADING = 5
# Smaller shares than this are not worth a name.
LEAST_LEADING = 0.01


def report_text(
    options: argparse.Namespace, console: Console, data: Trajectories, body: list[str], seconds: float
) -> str:
    """Text of report.txt: what was done, to which data, what came of it, and what was warned of."""
    from m3c_md import __version__

    warned = [f"  {message}" for message in console.warnings] or ["  none"]
    return "\n".join(
        [
            f"m3c-md {__version__}",
            f"command: {options.command_line}",
            f"seconds: {seconds:.1f}",
            "",
            *data_lines(data),
            *time_lines(options),
            *(f"  {path}: {len(x)} frames" for path, x in zip(data.files, data.features, strict=True)),
            "",
            *body,
            "",
            "warnings:",
            *warned,
            "",
        ]
    )


def write_html(
    folder: OutputFolder,
    page: Callable[..., Page],
    options: argparse.Namespace,
    console: Console,
    data: Trajectories,
    began: float,
    *results: Any,
    **more: Any,
) -> float:
    """Write report.html, which ``page`` makes of results and of where they come from; return the seconds till now.

    Pictures of the page that are among the results of the command become files as well.
    """
    from m3c_md.report.provenance import Provenance

    files = [f"  {path}: {len(x)} frames" for path, x in zip(data.files, data.features, strict=True)]
    seconds = time.perf_counter() - began
    provenance = Provenance(options.command_line, options.seed, [*data_lines(data), *files], seconds)
    use_files()
    structures = [path for path in folder.written if path.suffix == ".pdb"]
    made = page(
        *results, provenance, structures=structures, warnings=console.warnings, columns=data.settings.columns, **more
    )
    for name, figure in made.pictures.items():
        if name in folder.results:
            folder.picture(name, figure)
    with folder.writing(REPORT) as path:
        made.write(path)
    return time.perf_counter() - began


def data_lines(data: Trajectories) -> list[str]:
    """Frames and columns in a few lines."""
    settings = data.settings
    named = settings.columns if len(settings.columns) <= MOST_NAMED else [*settings.columns[:MOST_NAMED], "..."]
    some = "" if data.stride == 1 else f" (one in {data.stride} of the files)"
    lines = [
        f"data: {len(data.files)} {'trajectories' if len(data.files) > 1 else 'trajectory'}, "
        f"{data.n_frames} frames{some}",
        f"features: {len(settings.columns)} columns: {', '.join(named)}",
    ]
    lacking = {kind: names for kind, names in settings.missing.items() if names}
    return [*lines, *(f"  residues without {kind}: {_briefly(names)}" for kind, names in lacking.items())]


def _briefly(names: list[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def use_files() -> None:
    """Draw into files, whether or not there is a screen."""
    import matplotlib

    matplotlib.use("Agg")


def state_lines(model: StateModel) -> list[str]:
    """One line per state: its share of the training frames and how often it was entered."""
    from m3c_md.clustering.visits import entered_times
    from m3c_md.inputs.state_names import state_title

    visits = model.visits
    assert visits is not None, "a fit counts them"
    several = visits["trajectories"].max() > 1
    lines = []
    for state, share, row in zip(visits.index, model.populations, visits.to_dict("records"), strict=True):
        by = f", in {row['trajectories']} trajectories" if several else ""
        title = state_title(model.state_names, state)
        lines.append(f"  {title}: {share:6.1%} of the frames, {entered_times(row['entered'])}{by}")
    return lines


def relevance_lines(model: MarginModel, data: Trajectories, structures: bool) -> list[str]:
    """Residues and angles, or else columns, that the states depend on most, and what B-factors of structures are."""
    from m3c_md.cli.structures import b_factor_note
    from m3c_md.relevance import named_relevance, relevance_by_dihedral, relevance_by_residue

    relevance = named_relevance(model.relevance, data.settings.columns)
    lines = ["  relevance, how much the scores of the states change with each (see relevance.png):"]
    if data.settings.dihedrals is None:
        return [*lines, f"    columns: {_leading(relevance)}"]
    residues = relevance_by_residue(relevance)
    lines += [f"    residues: {_leading(residues)}", f"    dihedrals: {_leading(relevance_by_dihedral(relevance))}"]
    return [*lines, *([f"    {b_factor_note(residues)}"] if structures else [])]


def _leading(shares: pd.Series) -> str:
    """Names of the largest shares, and how much is left for the others."""
    largest = shares.sort_values(ascending=False, kind="stable").head(MOST_LEADING)
    largest = largest[: max(1, int((largest >= LEAST_LEADING).sum()))]
    text = ", ".join(f"{name} {share:.1%}" for name, share in largest.items())
    others = len(shares) - len(largest)
    return f"{text}; {others} more {max(0.0, 1.0 - largest.sum()):.1%}" if others else text


def table_lines(table: Any) -> list[str]:
    """Table as text; each value with its spread in one column, so that it fits a terminal."""
    from m3c_md.report.study_report import with_spreads

    shown = with_spreads(table)
    shown["populations"] = [" ".join(f"{share:.3f}" for share in shares) for shares in shown["populations"]]
    text = shown.rename_axis(index=None).to_string(float_format=lambda value: f"{value:.4g}", na_rep="-")
    return [f"  {line}" for line in str(text).splitlines()]


def warn_of_methods(console: Console, warned: Mapping[str, str]) -> None:
    """Say what was warned of, once for all methods that it is true of."""
    methods: dict[str, list[str]] = {}
    for method, text in warned.items():
        if text:
            methods.setdefault(text, []).append(method)
    for text, names in methods.items():
        console.warn(f"{', '.join(names)}: {text}")
