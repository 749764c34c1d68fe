"""Reports of a comparison of methods and of a scan over numbers of states."""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from m3c_md.disk import checked_path
from m3c_md.exceptions import M3CWarning
from m3c_md.inputs.dataset import Dataset
from m3c_md.inputs.settings import check_random_state
from m3c_md.report.figures import draw_picture
from m3c_md.report.findings import Findings, findings_of, level_timescales, markov_test
from m3c_md.report.hover_map import map_sections
from m3c_md.report.model_report import (
    kinetics_section,
    markov_sections,
    numbers_of_model,
    relevance_sections,
    search_sections,
    states_section,
    structure_sections,
    timescale_picture,
    timescale_section,
)
from m3c_md.report.page import Page, Section, data_table, figure, warnings_section
from m3c_md.report.provenance import Provenance
from m3c_md.wording import amount, plain_number, with_error

if TYPE_CHECKING:
    import pandas as pd

# Columns of a comparison that a reader wants first; table.csv has all.
COMPARED = ("setting", "Q", "Q in hindsight", "VAMP-2", "smallest", "entered", "never visited", "seconds")
# More methods or numbers than this have no number of their own on the first screen.
MOST_NUMBERS = 4
SPLITS = (
    "How states split as their number grows; areas and widths grow with populations. A dashed line: part of the state "
    "came from elsewhere in the row above, so that borders were drawn anew."
)


def with_spreads(table: pd.DataFrame) -> pd.DataFrame:
    """Table in which every value has its spread in one column of text, "Q ±" in "Q".

    Examples
    --------
    >>> import pandas as pd
    >>> with_spreads(pd.DataFrame({"Q": [2.5], "Q ±": [0.25], "halves": [2]})).to_dict("list")
    {'Q': ['2.50 ± 0.25'], 'halves': [2]}
    """
    shown = table.copy()
    for name in [name for name in table.columns if f"{name} ±" in table.columns]:
        pairs = zip(table[name], table[f"{name} ±"], strict=True)
        shown[name] = [with_error(mean, spread) for mean, spread in pairs]
        shown = shown.drop(columns=f"{name} ±")
    return shown


def as_text(table: pd.DataFrame) -> pd.DataFrame:
    """Table of text: four digits, shares of states in per cent, a dash for what is not known.

    Examples
    --------
    >>> import pandas as pd
    >>> as_text(pd.DataFrame({"Q": [2.51234], "t3": [None], "populations": [[0.75, 0.25]]})).to_dict("list")
    {'Q': ['2.512'], 't3': ['-'], 'populations': ['75% 25%']}
    """

    def cell(value: Any) -> str:
        if isinstance(value, list):
            return " ".join(f"{share:.0%}" for share in value)
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        return "-" if text in ("nan", "None", "<NA>", "") else text

    return with_spreads(table).map(cell)


def comparison_page(
    comparison: Any,
    trajs: Sequence[Any] | None,
    provenance: Provenance,
    *,
    structures: Sequence[Any] = (),
    warnings: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    random_state: Any = None,
) -> Page:
    """Page of a `Comparison`: who leads, methods side by side, and the states of the first of them.

    Parameters
    ----------
    comparison : Comparison
    trajs : list of arrays or None
        To draw maps over; without, there are none.
    provenance : Provenance
    structures : sequence of paths
        A PDB file for every state of the first method, or none.
    warnings : sequence of str
        What was said besides what the comparison itself keeps.
    columns : sequence of str, optional
        What the columns are called, if models do not know.
    random_state
        For intervals.
    """
    first, model = next(iter(comparison.models.items()))
    columns = model.columns if columns is None else columns
    found = _found_in_comparison(comparison, first, random_state)
    said = [*_said_in_comparison(comparison), *_not_in(comparison.table, [*comparison.messages, *warnings])]
    sections = [
        _methods_section(comparison),
        *([] if trajs is None else map_sections(comparison.models, trajs, columns)),
        _named(states_section(model, found), first),
        *structure_sections(model, structures),
        timescale_picture(comparison.plot_timescales),
        *markov_sections(model, found),
        *relevance_sections(model, columns),
        kinetics_section(model, found),
        *search_sections(model),
        _agreement_section(comparison),
        warnings_section(said),
        provenance.section(),
    ]
    table = as_text(comparison.table)
    numbers = [(f"Q of {name}", table.loc[name, "Q"], table.loc[name, "setting"].strip("-")) for name in table.index]
    methods = ", ".join(comparison.models)
    title = (
        f"{comparison.n_states} states at lag time {_lag(comparison)}: metastability Q of {methods} in held-out data"
    )
    numbers = [*numbers[:MOST_NUMBERS], *numbers_of_model(model, found, len(said))[1:]]
    return Page(title, comparison.verdict, numbers, sections)


def _lag(result: Any) -> str:
    return amount(result.lagtime * result.dt, result.unit, 6)


def _named(section: Section, method: str) -> Section:
    return Section(f"{section.title} of {method}", section.body)


def _found_in_comparison(comparison: Any, method: str, random_state: Any) -> Findings:
    """What is known of the states of one method in the trajectories that it was judged by."""
    dtrajs, timescales = comparison.dtrajs[method], comparison.timescales[method]
    test = markov_test(dtrajs, timescales, comparison.n_states, random_state)
    quality = float(comparison.table.loc[method, "Q"])
    options: dict[str, Any] = {"random_state": random_state}
    return findings_of(dtrajs, comparison.n_states, comparison.lagtime, quality, {method: timescales}, test, **options)


def _said_in_comparison(comparison: Any) -> list[str]:
    """Warnings of all methods, each with the names of those that it is true of."""
    methods: dict[str, list[str]] = {}
    for name, model in comparison.models.items():
        for text in [*model.warnings, *comparison.timescales[name].warnings]:
            methods.setdefault(text, []).append(name)
    failed = comparison.splits.loc[comparison.splits["error"] != "", ["method", "error"]].drop_duplicates()
    return [
        *(f"{name} failed: {error}" for name, error in failed.itertuples(index=False)),
        *(f"{', '.join(names)}: {text}" for text, names in methods.items()),
    ]


def _not_in(table: pd.DataFrame, warnings: Sequence[str]) -> list[str]:
    """Warnings that are not those of a table, which tells them in one line for each row."""
    told = [" ".join(text.split()) for text in table["warnings"] if text]
    return [text for text in dict.fromkeys(warnings) if not any(known in text for known in told)]


def _said_in_scan(scan: Any) -> list[str]:
    """Warnings of all numbers of states, one by one."""
    said = []
    for number, text in scan.table["warnings"].items():
        own = scan.models[number].warnings if number in scan.models else []
        rest = text.removeprefix("; ".join(own)).removeprefix("; ")
        said += [f"{number} states: {one}" for one in [*own, *([rest] if rest else [])]]
    return said


def table_of_comparison(comparison: Any) -> str:
    """HTML table of the methods: what a reader wants first, ``comparison.table`` has all."""
    times = [name for name in comparison.table.columns if name.endswith(f"/ {comparison.unit}")]
    spreads = [f"{name} ±" for name in ("Q", "VAMP-2", *times)]
    chosen = [*COMPARED[:4], *times, *COMPARED[4:], *spreads]
    table = comparison.table[chosen].dropna(axis=1, how="all")
    if not table["never visited"].any():
        table = table.drop(columns="never visited")
    if "smallest" in table:
        table["smallest"] = [f"{share:.1%}" if share == share else "-" for share in table["smallest"]]
    table["seconds"] = [plain_number(seconds, 2) for seconds in table["seconds"]]
    return data_table(as_text(table))


def table_of_scan(scan: Any) -> str:
    """HTML table of the numbers of states, without their warnings."""
    return data_table(as_text(scan.table.drop(columns=["warnings", "halves"])).rename_axis("states"))


def _methods_section(comparison: Any) -> Section:
    parts = comparison.splits["held out"].nunique()
    drawn = draw_picture(comparison.plot_metastability, "q-", "metastability of every method")
    note = (
        f"Q: metastability, at most {comparison.n_states}; mean ± standard deviation over {parts} held-out parts. "
        "Settings are chosen by a part of the training data; Q in hindsight is that of the settings which the "
        "held-out parts themselves would have chosen. Smallest: population of the smallest state; entered: how often "
        "the least entered state was."
    )
    body = table_of_comparison(comparison) + figure(drawn.svg, note)
    return Section("Methods", body, pictures={"metastability.png": drawn.figure})


def _agreement_section(comparison: Any) -> Section:
    note = "Adjusted Rand index: 1 if two methods find the same states, whatever their numbers; about 0 by mere chance."
    return Section("Agreement", data_table(as_text(comparison.agreement)) + f'<p class="note">{note}</p>')


def scan_page(
    scan: Any,
    trajs: Sequence[Any] | None,
    provenance: Provenance,
    *,
    structures: Sequence[Any] = (),
    warnings: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    random_state: Any = None,
) -> Page:
    """Page of a `StateScan`: which number of states, what speaks for each, and the states of the suggested one.

    Parameters are those of `comparison_page`.
    """
    warnings = [*_said_in_scan(scan), *_not_in(scan.table, warnings)]
    number, model = suggested(scan)
    columns = model.columns if columns is None else columns
    table = as_text(scan.table.drop(columns="warnings"))
    drawn = draw_picture(scan.plot, "scan-", "timescales, stability and populations by the number of states")
    tree = draw_picture(scan.plot_tree, "tree-", "how states split")
    stability = (
        "Stability: agreement of the states with those of fits to halves of the data (adjusted Rand index, 1 for the "
        "same states), as a mean and for the half that agrees least. Timescales are those at the lag time of the fits; "
        "entered: how often the least entered state was, trajectories: how many visit the least visited one."
    )
    sections = [
        Section(
            "Numbers of states",
            table_of_scan(scan) + figure(drawn.svg, stability),
            pictures={"scan.png": drawn.figure},
        ),
        Section("Tree", figure(tree.svg, SPLITS), pictures={"tree.png": tree.figure}),
    ]
    if trajs is not None:
        sections += _states_of_scan(scan, model, trajs, structures, columns, random_state)
    sections += [
        *relevance_sections(model, columns),
        *search_sections(model),
        warnings_section(warnings),
        provenance.section(),
    ]
    chosen = "none" if scan.suggestion is None else str(scan.suggestion)
    values = table.loc[number]
    numbers = [
        ("suggested number", chosen, f"of {table.index[0]} to {table.index[-1]} that were tried"),
        (f"Q of {number} states", values["Q"], f"of at most {number}, lag time {_lag(scan)}"),
        (f"stability of {number} states", values["stability"], "1 if halves of the data agree"),
        ("warnings", str(len(warnings)), "with what to do, below" if warnings else ""),
    ]
    tried = ", ".join(str(n) for n in table.index)
    verdict = f"{chosen} states are suggested." if scan.suggestion else "No number of states is convincing."
    return Page(f"How many states? {tried} at lag time {_lag(scan)}", verdict, numbers, sections, scan.reason)


def suggested(scan: Any) -> tuple[int, Any]:
    """Number of states whose model a report shows, and that model: the suggested one, or the smallest."""
    number = scan.suggestion if scan.suggestion in scan.models else min(scan.models)
    return int(number), scan.models[number]


def _states_of_scan(
    scan: Any,
    model: Any,
    trajs: Sequence[Any],
    structures: Sequence[Any],
    columns: Sequence[str] | None,
    random_state: Any,
) -> list[Section]:
    """Parts on the states of one model of a scan."""
    dtrajs, n = model.transform(list(trajs)), model.n_states
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore", M3CWarning)  # the table of the scan has them
        timescales = level_timescales(dtrajs, n, scan.lagtime, dt=scan.dt, unit=scan.unit, random_state=random_state)
    test = markov_test(dtrajs, timescales, n, random_state)
    quality = float(scan.table.loc[n, "Q"])
    found = findings_of(dtrajs, n, scan.lagtime, quality, {"": timescales}, test, random_state=random_state)
    return [
        Section(f"{n} states", states_section(model, found).body),
        *map_sections(model, trajs, columns),
        *structure_sections(model, structures),
        timescale_section(found),
        *markov_sections(model, found),
        kinetics_section(model, found),
    ]


def write_study_report(
    study: Any, page: Any, path: Any, data: Any, structures: Sequence[Any] | None, random_state: Any
) -> Path:
    """Write the page of a comparison or of a scan, which ``page`` makes; see `ShownStudy.report`."""
    checked_path("path", path)
    check_random_state(random_state)
    trajs = None if data is None else Dataset.of(data).arrays()
    call = f"{type(study).__name__}.report({str(path)!r}{'' if data is None else ', trajs'}, {random_state=!r})"
    lines = [] if trajs is None else [f"{len(trajs)} trajectories, {sum(map(len, trajs))} frames"]
    provenance = Provenance(call, random_state, lines)
    made: Page = page(study, trajs, provenance, structures=structures or (), random_state=random_state)
    return made.write(path)
