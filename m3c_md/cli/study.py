"""``m3c-md compare`` and ``m3c-md scan``: whether M3C beats PCCA+, and how many states there are."""

from __future__ import annotations

import argparse
import time
from typing import Any

from m3c_md.cli.console import Console, progress_bar
from m3c_md.cli.fit import brief_list
from m3c_md.cli.output import OutputFolder, add_checkpoint_option, add_output_options
from m3c_md.cli.report import (
    REPORT,
    data_lines,
    report_text,
    warn_of_methods,
    write_html,
)
from m3c_md.cli.structures import write_structures
from m3c_md.cli.times import time_lines, time_step
from m3c_md.cli.trajectories import Trajectories, add_data_options, load_trajectories, whole_number
from m3c_md.wording import amount

# As in m3c_md.validation.contenders, which is slow to import.
METHODS = ("m3c", "pcca+", "tica+pcca+", "hmm", "vampnet", "mmc", "k-medoids")
COMPARE_FILES = (
    *("table.csv", "splits.csv", "settings.csv", "metastability.png", "implied_timescales.png"),
    *("ramachandran.png", "states.png", "structures/state_*.pdb", "structures/frames.csv", "report.txt", REPORT),
)
SCAN_FILES = (
    *("table.csv", "tree.csv", "scan.png", "tree.png", "structures/state_*.pdb", "structures/frames.csv"),
    *("report.txt", REPORT),
)
# Of every state of M3C, for the report.
N_STRUCTURES = 5

COMPARE_EXAMPLES = """examples:
  m3c-md compare run*.xtc --top protein.pdb --n-states 3 --dt 20 --unit ps --out comparison
  m3c-md compare run*.xtc --top protein.pdb --n-states 3 --methods m3c tica+pcca+ hmm --microstates 100 500 --out DIR

The first line says who leads. Settings (microstates, components) are chosen on held-out training trajectories.
DIR gets table.csv, splits.csv (every held-out trajectory), settings.csv (what was chosen among), metastability.png,
implied_timescales.png, ramachandran.png (for one phi and one psi) or states.png (slow coordinates),
structures/state_0.pdb ... (the frames deepest inside each state of M3C), report.txt, and report.html, which shows all
of it in a browser."""

SCAN_EXAMPLES = """examples:
  m3c-md scan run*.xtc --top protein.pdb --states 2-6 --out scan

DIR gets table.csv, scan.png, tree.csv and tree.png (how states split), structures/state_0.pdb ... (the frames
deepest inside each state of the suggested number), report.txt, and report.html, which shows all of it in a browser.
Scan one state further than you would go."""


def state_numbers(text: str) -> list[int]:
    """Argument type: a number of states, or the first and the last of several.

    Examples
    --------
    >>> state_numbers("3"), state_numbers("2-4")
    ([3], [2, 3, 4])
    """
    first, _, last = text.partition("-")
    try:
        low, high = whole_number(2)(first), whole_number(2)(last or first)
    except argparse.ArgumentTypeError:
        low, high = 1, 0
    if high < low:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of states of at least 2, or a range such as 2-4")
    return list(range(low, high + 1))


def add_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "compare",
        help="M3C next to PCCA+, with TICA or without, and other methods on held-out trajectories",
        description="Fit several methods and judge each on trajectories that it has not seen.",
        epilog=COMPARE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_data_options(parser)
    parser.add_argument("--n-states", type=whole_number(2), required=True, metavar="K", help="number of states")
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=METHODS,
        metavar="METHOD",
        help=f"among {', '.join(METHODS)} (default: m3c, pcca+, mmc, k-medoids, from 9 columns on tica+pcca+ as well; "
        "vampnet needs the extra 'deep')",
    )
    parser.add_argument(
        "--microstates",
        nargs="+",
        type=whole_number(2),
        default=[50, 100, 200],
        metavar="N",
        help="numbers of microstates to choose among (default: 50 100 200)",
    )
    parser.add_argument(
        "--components",
        nargs="+",
        type=whole_number(1),
        default=[2, 5, 10],
        metavar="N",
        help="numbers of TICA components to choose among (default: 2 5 10)",
    )
    parser.add_argument(
        "--tica-lag",
        nargs="+",
        type=whole_number(1),
        metavar="FRAMES",
        help="lag times of TICA to choose among (default: that of --lag, and ten times as much)",
    )
    add_checkpoint_option(parser)
    add_output_options(parser)
    parser.set_defaults(run=run_compare)


def add_scan(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "scan",
        help="how many states?",
        description="Fit M3C for several numbers of states, and see how slow and how stable they are.",
        epilog=SCAN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_data_options(parser)
    parser.add_argument(
        "--states",
        nargs="+",
        type=state_numbers,
        default=[[2, 3, 4, 5]],
        metavar="K",
        help="numbers of states to try, such as 2 3 4 or 2-4 (default: 2-5)",
    )
    add_checkpoint_option(parser)
    add_output_options(parser)
    parser.set_defaults(run=run_scan)


def run_compare(options: argparse.Namespace, console: Console) -> int:
    """Compare methods, print the table, write tables and pictures."""
    dt, unit = time_step(options)
    began = time.perf_counter()
    with OutputFolder(options.out, COMPARE_FILES, force=options.force) as folder:
        from m3c_md import compare
        from m3c_md.report.study_report import comparison_page
        from m3c_md.validation.contenders import Choices, Shape, build_methods

        choices = Choices(options.microstates, options.components, options.tica_lag)
        build_methods(options.methods, options.n_states, options.lag, choices, Shape())
        data = _loaded(folder, options, console)
        console.begin(
            f"comparing methods with {options.n_states} states at lag time {amount(options.lag * dt, unit, 6)}"
        )
        comparison = compare(
            data.features,
            options.n_states,
            methods=options.methods,
            lagtime=options.lag,
            n_microstates=options.microstates,
            n_components=options.components,
            tica_lagtime=options.tica_lag,
            dt=dt,
            unit=unit,
            random_state=options.seed,
            n_jobs=options.jobs,
            progress=progress_bar,
            checkpoint=options.checkpoint,
        )
        for message in comparison.messages:
            console.warn(message)
        warn_of_methods(console, comparison.table["warnings"].to_dict())
        folder.table("table.csv", comparison.table)
        folder.table("splits.csv", comparison.splits.set_index("method"))
        folder.table("settings.csv", comparison.settings.set_index("method"))
        body = comparison.lines()
        _say(console, body)
        model = next(iter(comparison.models.values()))
        results = (comparison_page, (comparison, data.features), model)
        seconds = _report(folder, options, console, data, body, began, results)
    result = {
        "command": "compare",
        "verdict": comparison.verdict,
        "table": _records(comparison.table.drop(columns="warnings")),
        "differences": _records(comparison.differences),
        "settings": _records(comparison.settings),
        "agreement": comparison.agreement.to_dict(),
    }
    console.result({**result, **_common(folder, options, console, dt, unit, seconds)})
    return 0


def run_scan(options: argparse.Namespace, console: Console) -> int:
    """Fit several numbers of states, print table and suggestion, write tables and pictures."""
    dt, unit = time_step(options)
    began = time.perf_counter()
    with OutputFolder(options.out, SCAN_FILES, force=options.force) as folder:
        from m3c_md import scan_states
        from m3c_md.report.study_report import scan_page, suggested

        data = _loaded(folder, options, console)
        numbers = sorted({number for some in options.states for number in some})
        console.begin(f"fitting {', '.join(map(str, numbers))} states at lag time {amount(options.lag * dt, unit, 6)}")
        scan = scan_states(
            data.features,
            numbers,
            lagtime=options.lag,
            dt=dt,
            unit=unit,
            random_state=options.seed,
            n_jobs=options.jobs,
            progress=progress_bar,
            checkpoint=options.checkpoint,
        )
        for number, text in scan.table["warnings"].items():
            if text:
                console.warn(f"{number} states: {text}")
        folder.table("table.csv", scan.table)
        folder.table("tree.csv", scan.tree.set_index("n_states"))
        body = scan.lines()
        _say(console, body)
        results = (scan_page, (scan, data.features), suggested(scan)[1])
        seconds = _report(folder, options, console, data, body, began, results)
    result = {
        "command": "scan",
        "suggestion": scan.suggestion,
        "reason": scan.reason,
        "table": _records(scan.table.drop(columns="warnings")),
        "tree": _records(scan.tree.set_index("n_states")),
    }
    console.result({**result, **_common(folder, options, console, dt, unit, seconds)})
    return 0


def _loaded(folder: OutputFolder, options: argparse.Namespace, console: Console) -> Trajectories:
    """Data on the command line, read when the settings are known to be good."""
    from m3c_md.clustering.checkpoint import check_checkpoint
    from m3c_md.inputs.settings import check_jobs

    check_jobs(options.jobs)
    check_checkpoint(options.checkpoint, options.seed)
    data = load_trajectories(options)
    folder.protect(data.inputs)
    for line in data_lines(data) + time_lines(options):
        console.say(line)
    return data


def _say(console: Console, lines: list[str]) -> None:
    console.say()
    for line in lines:
        console.say(line)


def _records(table: Any) -> list[dict[str, Any]]:
    rows = table.reset_index().astype(object)
    return [dict(row) for row in rows.where(rows.notna(), None).to_dict("records")]


def _report(
    folder: OutputFolder,
    options: argparse.Namespace,
    console: Console,
    data: Trajectories,
    body: list[str],
    began: float,
    results: tuple[Any, tuple[Any, ...], Any],
) -> float:
    """Write structures of a model, report.txt and report.html, and tell where to look."""
    page, shown, model = results
    if data.settings.dihedrals is not None and hasattr(model, "relevance"):
        write_structures(folder, model, data, N_STRUCTURES)
    seconds = time.perf_counter() - began
    folder.text("report.txt", report_text(options, console, data, body, seconds))
    seconds = write_html(folder, page, options, console, data, began, *shown, random_state=options.seed)
    console.say(f"\nWritten to {options.out} in {seconds:.1f} s: {brief_list(folder.names())}")
    console.say(f"Open {options.out / REPORT} in a browser.")
    return seconds


def _common(
    folder: OutputFolder, options: argparse.Namespace, console: Console, dt: float, unit: str, seconds: float
) -> dict[str, Any]:
    """Fields of the JSON object that both commands have."""
    return {
        "lag_time": options.lag * dt,
        "unit": unit,
        "warnings": console.warnings,
        "out": str(options.out),
        "written": folder.names(),
        "seconds": seconds,
    }
