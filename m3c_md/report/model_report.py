"""Report of one model: its states, where they are, how they exchange, and how far to trust that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from m3c_md.exceptions import InputError
from m3c_md.inputs.dataset import Dataset
from m3c_md.markov.kinetics import Kinetics, compact
from m3c_md.markup import paragraphs
from m3c_md.plots.chapman_kolmogorov import plot_chapman_kolmogorov
from m3c_md.plots.colors import state_color
from m3c_md.plots.network import plot_network
from m3c_md.plots.relevance import plot_relevance
from m3c_md.plots.search import plot_search
from m3c_md.plots.timescales import plot_implied_timescales
from m3c_md.report.figures import BLACK, WHITE, draw_picture
from m3c_md.report.findings import Findings, find, verdict_of_test
from m3c_md.report.hover_map import map_sections, state_names
from m3c_md.report.molecules import check_structures, molecule_section
from m3c_md.report.page import Page, Section, data_table, figure, warnings_section
from m3c_md.report.provenance import Provenance
from m3c_md.wording import amount, intervals_by, plain_number

# More states than this make a grid of panels, or a net of arrows, that nobody reads.
MOST_PANELS, MOST_ARROWS = 5, 8
# Longer lists are folded.
MOST_ROWS = 12
NO_KINETICS = "States are entered too rarely for a Markov model of them: there are no rates (see Warnings)."
DEEPEST = "Each is the frame deepest inside its state, in thin lines the next ones, laid over each other by backbone."
PREDICTED = (
    "Chance to be in the second state some time after being in the first: as the Markov model of the shortest lag time "
    "predicts it (lines), and as counted in the trajectories (points), with 95 % intervals."
)
RELEVANT = (
    "How much the states depend on each: how far their scores change, on average, where one takes its value from "
    "another frame. The shares add up to 100 %."
)
TRIED = (
    "How the rule was found. A fit begins with several guesses, improves them step by step, and compares the results. "
    "Each line is one such attempt, coloured by the guess that it began with; the winner has a ring. Left: how the "
    "objective fell. Right: the score that was reached at which width of the kernel."
)


def model_page(
    model: Any,
    trajs: Sequence[Any],
    found: Findings,
    provenance: Provenance,
    *,
    title: str,
    structures: Sequence[Any] = (),
    warnings: Sequence[str] = (),
    columns: Sequence[str] | None = None,
) -> Page:
    """Page of a model and what was found in some trajectories.

    Parameters
    ----------
    model : fitted model
    trajs : list of arrays
    found : Findings
    provenance : Provenance
    title : str
    structures : sequence of paths
        A PDB file for every state, or none.
    warnings : sequence of str
        What else was said.
    columns : sequence of str, optional
        What the columns are called, if the model does not know.
    """
    columns = model.columns if columns is None else columns
    said = list(dict.fromkeys([*warnings, *model.warnings, *found.warnings]))
    sections = [
        states_section(model, found),
        *map_sections(model, trajs, columns),
        *structure_sections(model, structures),
        timescale_section(found),
        *markov_sections(model, found),
        *relevance_sections(model, columns),
        kinetics_section(model, found),
        *search_sections(model),
        warnings_section(said),
        provenance.section(),
    ]
    return Page(title, verdict_of_model(model, found), numbers_of_model(model, found, len(said)), sections)


def verdict_of_model(model: Any, found: Findings) -> str:
    """What there is to say first: how many states, how slow, and whether their Markov model holds."""
    slow = found.slowest
    said = [f"{model.n_states} metastable states"]
    if slow.max_n_processes:
        plateau = slow.plateaus[0]
        words = f"the slowest exchange takes {amount(plateau.value * slow.dt, slow.unit)}"
        still = "" if plateau.level else ", and more at longer lag times"
        said.append(f"{words}{still}" if plateau.lagtime else "they exchange faster than can be measured")
    if found.test is not None:
        holds = {True: "passes", False: "fails", None: "has too few data for"}[found.test.passes]
        said.append(f"their Markov model {holds} the Chapman-Kolmogorov test")
    return f"{'; '.join(said)}."


def numbers_of_model(model: Any, found: Findings, n_warnings: int) -> list[tuple[str, str, str]]:
    """Numbers for the first screen."""
    slow = found.slowest
    lag = amount(found.lagtime * slow.dt, slow.unit, 4)
    numbers = [("metastability Q", f"{found.quality:.3f}", f"of at most {model.n_states}, lag time {lag}")]
    if slow.max_n_processes and slow.plateaus[0].lagtime:
        p = slow.plateaus[0]
        ends = plain_number(p.low * slow.dt), plain_number(p.high * slow.dt)
        band = f"95 %: {ends[0]} to {ends[1]}; " if p.low == p.low else ""
        where = f"{'level from' if p.level else 'still rises at'} lag time {amount(p.lagtime * slow.dt, slow.unit, 4)}"
        where += " on" if p.level else ""
        numbers.append(("slowest timescale", amount(p.value * slow.dt, slow.unit), f"{band}{where}"))
    smallest = int(model.populations.argmin())
    entered = "" if model.visits is None else model.visits["entered"].iloc[smallest]
    remark = f"entered {entered} times" if str(entered).isdigit() else ""
    numbers.append(("smallest state", f"{model.populations[smallest]:.1%}", remark))
    if hasattr(model, "gap"):
        numbers.append(("gap to the optimum", _percent(model.gap), "at most: proven for these labels"))
    return [*numbers, ("warnings", str(n_warnings), "with what to do, below" if n_warnings else "")]


def _percent(share: float) -> str:
    """Small share in per cent, with one digit."""
    return f"{plain_number(100.0 * share, 1)} %"


def state_colors(model: Any) -> list[str]:
    """Colours of the states of a model."""
    return [state_color(k) for k in range(model.n_states)]


def states_section(model: Any, found: Findings) -> Section:
    """Table of the states: share of the frames, visits, and what the Markov model says of them."""
    import pandas as pd

    rates = found.kinetics
    if rates is None:
        table, note = pd.DataFrame(index=range(model.n_states)), NO_KINETICS
    else:
        note = f"Equilibrium and life times: {_where(found, rates)}."
        table = compact(rates.states).rename(
            columns={
                "population": "in equilibrium (95 %)",
                "life time": f"life time / {rates.unit} (95 %)",
                "free energy": f"free energy / {rates.energy_unit} (95 %)",
            }
        )
    table.insert(0, "of the frames", [f"{share:.1%}" for share in model.populations])
    if model.visits is not None:
        for place, name in enumerate(("entered", "trajectories")):
            table.insert(1 + place, name, model.visits[name].astype(str).to_numpy())
    table = table.set_axis(state_names(model)).rename_axis("state")
    return Section("States", f'{data_table(table, state_colors(model))}<p class="note">{escape(note)}</p>')


def _where(found: Findings, rates: Kinetics) -> str:
    """Which Markov model numbers come from."""
    how = f", cored with margin {found.margin:.3g}" if found.margin else ""
    lag = amount(rates.lagtime * rates.dt, rates.unit, 4)
    return f"reversible Markov model at lag time {lag}{how}; {intervals_by(rates.confidence)}"


def structure_sections(model: Any, structures: Sequence[Any]) -> list[Section]:
    """Structures of the states, if there are some."""
    if not structures:
        return []
    names = [f"{name}: {share:.1%}" for name, share in zip(state_names(model), model.populations, strict=True)]
    return [molecule_section(structures, names, state_colors(model), DEEPEST)]


def timescale_section(found: Findings) -> Section:
    """Implied timescales and where they are level."""
    slow = found.slowest
    lines = [plateau.describe(slow.dt, slow.unit) for plateau in slow.plateaus]
    said = paragraphs([f"{line}." for line in lines])
    return timescale_picture(lambda: plot_implied_timescales(found.timescales), said)


def timescale_picture(draw: Callable[[], Any], before: str = "") -> Section:
    """Section with a picture of implied timescales, and what stands before it."""
    drawn = draw_picture(draw, "its-", "implied timescales")
    caption = "Bands: 95 % intervals. In the grey area a timescale is shorter than the lag time and cannot be measured."
    body = before + figure(drawn.svg, caption)
    return Section("Implied timescales", body, pictures={"implied_timescales.png": drawn.figure})


def markov_sections(model: Any, found: Findings) -> list[Section]:
    """Chapman-Kolmogorov test, if a timescale is resolved."""
    test = found.test
    if test is None:
        return []
    where = f"at lag time {amount(test.lagtimes[1] * test.dt, test.unit, 4)}"
    said = [f"The test {where}: {verdict_of_test(test)}."]
    if test.passes is False:
        said.append(
            "With much data even deviations that are too small to matter fail this test: look at how large they are."
        )
    body = paragraphs(said)
    if test.estimates.shape[1] <= MOST_PANELS:
        drawn = draw_picture(
            lambda: plot_chapman_kolmogorov(test, names=model.state_names), "ck-", "Chapman-Kolmogorov test"
        )
        body += figure(drawn.svg, PREDICTED)
    return [Section("Chapman-Kolmogorov test", body)]


def relevance_sections(model: Any, columns: Sequence[str] | None) -> list[Section]:
    """What the states depend on, for models that know."""
    try:
        _ = model.relevance
    except (AttributeError, InputError):  # of methods without one, and of states that were merged or split
        return []
    drawn = draw_picture(
        lambda: plot_relevance(model, columns=columns), "relevance-", "relevance of residues or columns"
    )
    return [Section("Relevance", figure(drawn.svg, RELEVANT), pictures={"relevance.png": drawn.figure})]


def kinetics_section(model: Any, found: Findings) -> Section:
    """First-passage times and rates with their errors."""
    rates = found.kinetics
    if rates is None:
        return Section("Kinetics", paragraphs([NO_KINETICS]))
    table = compact(rates.pairs).rename(
        columns={"mfpt": f"mean first-passage time / {rates.unit} (95 %)", "rate": f"rate / {rates.unit}⁻¹ (95 %)"}
    )
    names = state_names(model)
    table.index = table.index.map(lambda pair: f"{names[pair[0]]} → {names[pair[1]]}")
    table.index.name = "passage"
    shown = data_table(table)
    if len(table) > MOST_ROWS:
        shown = f"<details><summary>All {len(table)} passages</summary>{shown}</details>"
    body = paragraphs([f"From the {_where(found, rates)}."]) + shown
    if model.n_states <= MOST_ARROWS and not rates.states["population"].isna().any():
        drawn = draw_picture(lambda: _network(rates, model.state_names), "network-", "network of states")
        body += figure(
            drawn.svg, f"Mean first-passage times in {rates.unit}; the area of a circle grows with its population."
        )
    return Section("Kinetics", body)


def _network(rates: Kinetics, names: Sequence[str]) -> Any:
    """Network of states; what is written in its circles keeps its colour on a dark page."""
    from matplotlib.colors import to_rgb

    axis = plot_network(rates, names=names)
    for text in axis.texts:
        if text.get_weight() == "bold":
            text.set_color(WHITE if to_rgb(text.get_color()) == (1.0, 1.0, 1.0) else BLACK)
    return axis


def search_sections(model: Any) -> list[Section]:
    """How the model was found, for those that keep the record."""
    if not hasattr(model, "records"):
        return []
    drawn = draw_picture(lambda: plot_search(model), "search-", "record of the search")
    return [Section("Search", figure(drawn.svg, TRIED), pictures={"search.png": drawn.figure})]


def write_model_report(
    model: Any,
    path: Any,
    data: Any,
    *,
    lagtime: int,
    dt: float,
    unit: str,
    core: bool,
    structures: Sequence[Any] | None,
    random_state: Any,
) -> Path:
    """Write the report of a model; see `StateModel.report`."""
    import warnings

    from m3c_md.exceptions import M3CWarning

    check_structures(structures, model.n_states)
    trajs = Dataset.of(data, model.n_columns).arrays()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", M3CWarning)  # the report says it
        found = find(model, trajs, lagtime=lagtime, dt=dt, unit=unit, core=core, random_state=random_state)
    call = f"model.report({str(path)!r}, trajs, dt={dt!r}, unit={unit!r}, core={core!r}, random_state={random_state!r})"
    lines = [repr(model), f"{len(trajs)} trajectories, {sum(map(len, trajs))} frames"]
    page = model_page(
        model,
        trajs,
        found,
        Provenance(call, random_state, lines),
        title=f"{type(model).__name__}: {model.n_states} states of {sum(map(len, trajs))} frames",
        structures=structures or (),
    )
    return page.write(path)
