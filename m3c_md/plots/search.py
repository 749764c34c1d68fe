"""Pictures of a search: how the objective fell, and what every start reached at every bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from m3c_md.exceptions import InputError
from m3c_md.plots.axes import panels, plain_log_ticks, single_axes
from m3c_md.plots.colors import series_style

if TYPE_CHECKING:
    import pandas as pd

# Where a search begins, in the words of users; further starts of a kind are numbered, or begin in a learned metric.
WORDS = {
    "kinetic": "slow coordinates",
    "lumping": "lumped cells",
    "kmeans": "k-means",
    "kmedoids": "k-medoids",
    "pcca": "PCCA+",
    "relaxation": "convex relaxation",
    "relaxation-literal": "relaxation of the paper",
    "random": "random states",
    "labels": "states that were given",
}


class SearchedModel(Protocol):
    """A model that keeps the record of how it was found."""

    @property
    def records(self) -> Sequence[Any]:
        """Everything that was tried, the winner first."""

    @property
    def candidates(self) -> pd.DataFrame:
        """Table of everything that was tried."""


def plot_candidates(model: SearchedModel, *, ax: Any = None) -> Any:
    """Draw the score of every candidate against the width of its kernel; the winner has a ring.

    Colours say where the search for a candidate began. Lines join candidates of one start in one metric. Candidates
    that lost a state are crosses; hollow marks were judged on a sample of the data only.

    Parameters
    ----------
    model : M3CModel
    ax : matplotlib axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from m3c_md import M3C
    >>> x = np.repeat([-1.0, 1.0] * 20, 25) + 0.1 * np.random.default_rng(0).normal(size=1000)
    >>> plot_candidates(M3C(2, random_state=0).fit_fetch(x)).get_ylabel()
    'score (lower is better)'
    """
    from matplotlib.lines import Line2D

    styles = _styles(model)
    axis = single_axes(ax, (5.0, 4.2))
    table = model.candidates
    everything = table["windows"].max()
    for (start, _), rows in table.groupby(["start", "metric"], sort=True):
        color, mark = styles[_began(start)]["color"], styles[_began(start)]["marker"]
        rows = rows.sort_values("bandwidth")
        axis.plot(rows["bandwidth"], rows["score"], color=color, lw=1.0)
        for marker, chosen, face in (
            ("x", rows["degenerate"], color),
            (mark, ~rows["degenerate"] & (rows["windows"] < everything), "white"),
            (mark, ~rows["degenerate"] & (rows["windows"] == everything), color),
        ):
            part = rows[chosen]
            axis.plot(part["bandwidth"], part["score"], ls="", marker=marker, ms=6, mfc=face, mec=color, zorder=3)
    axis.scatter(table["bandwidth"][0], table["score"][0], s=140, facecolors="none", edgecolors="black", zorder=4)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="width σ of the kernel (units of the scaled columns)",
        ylabel="score (lower is better)",
    )
    plain_log_ticks(axis.xaxis, axis.yaxis)
    handles = [Line2D([], [], lw=1.0, ms=6, label=start, **style) for start, style in styles.items()]
    axis.legend(handles=handles, title="search began from", fontsize="small", loc="best")
    return axis


def plot_search(model: SearchedModel, *, axes: Any = None) -> Any:
    """Draw the search of a model: how objectives fell step by step on the left, all scores on the right.

    A step finds a new rule for the states, or new states for the rule (Algorithm 1, lines 6-11). A candidate is drawn
    with its last local search in the colour of where it began; the winner's line is thick and black-ringed, candidates
    that lost a state are dashed and end in a cross, hollow ends mean that only a sample of the data was seen.

    Parameters
    ----------
    model : M3CModel
    axes : two matplotlib axes, optional
        A new figure by default.

    Returns
    -------
    array of two axes, or ``axes`` if given

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from m3c_md import M3C
    >>> x = np.repeat([-1.0, 1.0] * 20, 25) + 0.1 * np.random.default_rng(0).normal(size=1000)
    >>> left, right = plot_search(M3C(2, random_state=0).fit_fetch(x))
    >>> left.get_xlabel(), right.get_xlabel()
    ('step of the search', 'width σ of the kernel (units of the scaled columns)')
    """
    styles = _styles(model)
    left, right = panels(axes, (1, 2), "side", (10.0, 4.2))[0]
    everything = max(record.n_windows for record in model.records)
    for number, record in reversed(list(enumerate(model.records))):
        _draw_trace(left, record, styles[_began(record.start)], number == 0, record.n_windows == everything)
    left.set(yscale="log", xlabel="step of the search", ylabel="objective (lower is better)")
    plain_log_ticks(left.yaxis)
    left.xaxis.get_major_locator().set_params(integer=True)
    _legend(left, model.records, everything)
    plot_candidates(model, ax=right)
    return np.array([left, right], dtype=object) if axes is None else axes


def _styles(model: Any) -> dict[str, dict[str, Any]]:
    """Colour and mark of every kind of start, the same on both sides."""
    if not hasattr(model, "records") or not hasattr(model, "candidates"):
        raise InputError(f"a {type(model).__name__} has no record of a search; give the model of a fitted M3C")
    kinds = sorted({_began(record.start) for record in model.records})
    return {kind: series_style(number) for number, kind in enumerate(kinds)}


def _began(start: str) -> str:
    """Words for where a search began, from the name of a start such as "lumping 3 (learned)"."""
    kind = start.split(" ")[0]
    return WORDS.get(kind, kind)


def _draw_trace(panel: Any, record: Any, style: dict[str, Any], wins: bool, whole: bool) -> None:
    degenerate, color = record.fate.kind == "degenerate", style["color"]
    steps, values = np.arange(1, len(record.optimum.trace) + 1), record.optimum.trace
    prominent = wins or record.fate.kind == "finalist"
    panel.plot(
        steps,
        values,
        color=color,
        ls="--" if degenerate else "-",
        lw=3.0 if wins else 1.2 if prominent else 0.8,
        alpha=1.0 if prominent or degenerate else 0.6,
        zorder=4 if wins else 2,
    )
    marker = "x" if degenerate else style["marker"]
    face = color if whole else "white"
    panel.plot(steps[-1:], values[-1:], ls="", marker=marker, ms=9 if wins else 6, mfc=face, mec=color, zorder=5)
    if wins:
        panel.scatter(steps[-1], values[-1], s=200, facecolors="none", edgecolors="black", zorder=6)


def _legend(panel: Any, records: Sequence[Any], everything: int) -> None:
    """What lines and ends mean, in grey; the colours are explained by the other panel."""
    from matplotlib.lines import Line2D

    kinds = {record.fate.kind for record in records}
    handles = [Line2D([], [], color="0.3", lw=3.0, label="winner")]
    if "finalist" in kinds:
        handles.append(Line2D([], [], color="0.3", lw=1.2, label="finalist"))
    if kinds - {"winner", "finalist", "degenerate"}:
        handles.append(Line2D([], [], color="0.3", lw=0.8, alpha=0.6, label="given up, or found before"))
    if "degenerate" in kinds:
        handles.append(Line2D([], [], color="0.3", ls="--", lw=0.8, marker="x", label="lost a state"))
    if any(record.n_windows < everything for record in records):
        handles.append(Line2D([], [], color="0.3", ls="", marker="o", mfc="white", label="judged on a sample"))
    panel.legend(handles=handles, fontsize="small", loc="best")
