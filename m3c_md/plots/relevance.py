"""Which columns, dihedral angles or residues the states of a model depend on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np

from m3c_md.exceptions import InputError
from m3c_md.inputs.dihedral_names import KINDS, are_of_dihedrals, dihedral_of
from m3c_md.inputs.settings import check_choice
from m3c_md.plots.axes import single_axes
from m3c_md.plots.colors import series_style
from m3c_md.relevance import named_relevance, relevance_by_dihedral, residues_and_kinds

if TYPE_CHECKING:
    import pandas as pd

Bars = Literal["column", "dihedral", "residue"]

# Inches: of a bar, and of the narrowest and the widest figure.
BAR_WIDTH, NARROWEST, WIDEST = 0.25, 4.0, 14.0
# Few bars are as wide as if there were so many.
FEWEST_PLACES = 3
# Inches that a letter of a name and a turned name take along the axis.
LETTER, LINE = 0.08, 0.15


class ModelWithRelevance(Protocol):
    """A model that knows how much its columns matter."""

    @property
    def relevance(self) -> pd.Series:
        """Shares of the columns."""


def plot_relevance(
    model: ModelWithRelevance,
    *,
    by: Bars | None = None,
    columns: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Draw how much the states depend on each column, or on each residue along the sequence.

    Bars are shares of ``model.relevance`` and add up to 100 %. Those of residues are stacked by the kind of dihedral
    angle, which has the same colour in every such picture.

    Parameters
    ----------
    model : M3CModel or MMCModel
    by : "residue", "dihedral" or "column", optional
        What has a bar: by default residues, if the columns are named as `DihedralFeaturizer` names them (dihedral
        angles if there is one residue only), columns otherwise.
    columns : sequence of str, optional
        Names of the columns, such as ``featurizer.describe()``; those that the model knows by default, or numbers.
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
    >>> x = np.random.default_rng(0).normal(size=(1000, 2)) * 0.3
    >>> x[:, 0] += np.repeat([-1.0, 1.0] * 20, 25)
    >>> model = M3C(2, random_state=0).fit_fetch(x)
    >>> ax = plot_relevance(model, columns=["sin phi ALA 2", "cos phi ALA 3"])
    >>> ax.get_xlabel(), [name.get_text() for name in ax.get_xticklabels()]
    ('residue', ['ALA 2', 'ALA 3'])
    """
    if not hasattr(model, "relevance"):
        raise InputError(f"a {type(model).__name__} has no relevance; give the model of a fitted M3C or MMC")
    relevance = named_relevance(model.relevance, columns)
    by = _usual_bars(relevance) if by is None else by
    check_choice("by", by, get_args(Bars))
    table = _shares(relevance, by)
    axis = single_axes(ax, (min(max(1.0 + BAR_WIDTH * len(table), NARROWEST), WIDEST), 3.4))
    _draw(axis, table)
    axis.set(xlabel=by, ylabel="share of the relevance / %")
    _name_bars(axis, [str(name) for name in table.index])
    if by == "residue":  # above the axes, where it hides no bar
        where = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.2}
        axis.legend(fontsize="small", ncols=5, frameon=False, handlelength=1.0, columnspacing=1.0, **where)
    return axis


def _draw(axis: Any, table: pd.DataFrame) -> None:
    """Stacked bars of a table, and limits that leave them room."""
    places, bottom = np.arange(len(table)), np.zeros(len(table))
    for name, shares in table.items():
        color = series_style(KINDS.index(name))["color"] if name in KINDS else "0.4"
        heights = 100.0 * shares.to_numpy()
        axis.bar(places, heights, bottom=bottom, width=0.8, color=color, label=name)
        bottom += heights
    middle, half = places.mean(), 0.5 * max(len(table), FEWEST_PLACES) + 0.1
    axis.set(xlim=(middle - half, middle + half), ylim=(0.0, 1.05 * bottom.max()))


def _usual_bars(relevance: pd.Series) -> Bars:
    """Bars of residues where there are several, of angles where there is one, of columns where neither is known."""
    if not are_of_dihedrals(relevance.index):
        return "column"
    return "residue" if len({dihedral_of(name).residue for name in relevance.index}) > 1 else "dihedral"


def _shares(relevance: pd.Series, by: Bars) -> pd.DataFrame:
    """Table with a row for each bar and a column for each colour."""
    if by == "column":
        return relevance.to_frame()
    if by == "residue":
        return residues_and_kinds(relevance)
    shares = relevance_by_dihedral(relevance)
    kinds = shares.index.map(lambda name: dihedral_of(name).kind)
    return shares.to_frame().assign(**{kind: shares.where(kinds == kind, 0.0) for kind in kinds}).iloc[:, 1:]


def _name_bars(axis: Any, names: list[str]) -> None:
    """Names under the bars, turned where there is no room; every second or third only where that does not suffice."""
    width = axis.get_window_extent().width / axis.figure.dpi
    places = max(len(names), FEWEST_PLACES)
    turned = LETTER * (1 + max(map(len, names))) * places > width
    step = max(1, round(np.ceil(LINE * places / width))) if turned else 1
    shown = range(0, len(names), step)
    axis.set_xticks(shown, [names[i] for i in shown], rotation=90 if turned else 0, fontsize="small")
