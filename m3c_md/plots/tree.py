"""Picture of how states split as their number grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from m3c_md.exceptions import InputError
from m3c_md.inputs.state_names import names_or_none
from m3c_md.plots.axes import single_axes
from m3c_md.plots.colors import state_color
from m3c_md.plots.network import format_time

if TYPE_CHECKING:
    import pandas as pd

# Diameters in points: of a state that holds all frames, and of the smallest circle that holds its number.
LARGEST, SMALLEST = 60.0, 15.0
# Widths of lines in points: of a state without and with all frames.
THINNEST, THICKEST = 1.0, 14.0
# Inches between states side by side, between numbers of states, and for what is written at the sides.
COLUMN, ROW, SIDES = 0.62, 0.85, 2.9

Node = tuple[int, int]


def plot_state_tree(scan: Any, *, names: Mapping[int, Sequence[str]] | None = None, ax: Any = None) -> Any:
    """Draw how states split: a row of circles for every number of states, joined to those they come from.

    The area of a circle and the width of a line grow with the population; a state has the colour of the largest state
    of the last row that comes of it. Dashed lines lead to states that do not lie within one state of the row above:
    there the borders were drawn anew. On the right stands the timescale of the process that a row adds.

    Parameters
    ----------
    scan : StateScan or DataFrame
        Result of `scan_states`, or its ``tree``.
    names : dict of int to sequence of str, optional
        What the states are called, by their number, e.g. ``{3: model.state_names}``; they stand below the circles.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import pandas as pd
    >>> tree = pd.DataFrame({"n_states": [2, 2, 3, 3, 3], "state": [0, 1, 0, 1, 2], "parent": [None, None, 0, 1, 0]})
    >>> tree = tree.assign(population=[0.6, 0.4, 0.4, 0.4, 0.2], nested=True)
    >>> ax = plot_state_tree(tree.assign(**{"timescale / ps": [90.0, 90.0, 20.0, None, 20.0]}))
    >>> [text.get_text() for text in ax.texts][-2:]
    ['$t_{2}$ = 90 ps', '$t_{3}$ = 20 ps']
    """
    tree, unit = _checked(scan)
    numbers = sorted(set(tree["n_states"].tolist()))
    called = _checked_names(names, numbers)
    children = _children(tree, numbers)
    place = _places(tree, numbers[0], children)
    population = {(row.n_states, row.state): float(row.population) for row in tree.itertuples()}
    color = {node: state_color(_leads_to(node, children, population)[1]) for node in population}
    row_of = {number: float(-row) for row, number in enumerate(numbers)}
    width = 1.0 + max(place.values())
    axis = single_axes(ax, (SIDES + COLUMN * width, 0.3 + ROW * len(numbers)))
    nested = {(row.n_states, row.state): bool(row.nested) for row in tree.itertuples()}
    for parent, some in children.items():
        for node in some:
            ends = [place[parent], place[node]], [row_of[parent[0]], row_of[node[0]]]
            size = THINNEST + (THICKEST - THINNEST) * population[node]
            solid = nested[node]
            style = {"ls": "-", "alpha": 0.55, "lw": size} if solid else {"ls": (0, (3, 2)), "lw": max(1.5, 0.4 * size)}
            axis.plot(*ends, color=color[node], solid_capstyle="butt", zorder=1, **style)
    from_right = {node for parent, some in children.items() for node in some if place[parent] > place[node]}
    for node, share in population.items():
        point = place[node], row_of[node[0]]
        _draw_state(axis, point, node[1], share, color[node], called.get(node, ""))
        _write_share(axis, point, share, -1 if node in from_right else 1)
    _write_sides(axis, tree, row_of, unit, width)
    return axis


def _checked(scan: Any) -> tuple[pd.DataFrame, str]:
    """Return the tree of a scan or a tree itself, and its unit of time."""
    tree = getattr(scan, "tree", scan)
    needed = ("n_states", "state", "parent", "nested", "population")
    times = [str(name) for name in getattr(tree, "columns", ()) if str(name).startswith("timescale / ")]
    if not times or any(name not in tree.columns for name in needed):
        raise InputError(f"scan is a {type(scan).__name__} without a tree of states; give what scan_states returned")
    return tree, times[0].removeprefix("timescale / ")


def _checked_names(names: Any, numbers: list[int]) -> dict[Node, str]:
    """Names of states that have one, by number of states and state."""
    if names is None:
        return {}
    if not isinstance(names, Mapping) or not set(names) <= set(numbers):
        raise InputError(f"names={names!r:.60} must be names by numbers of states, e.g. {{{numbers[0]}: [...]}}")
    return {
        (number, state): name
        for number, given in names.items()
        for state, name in enumerate(names_or_none(given, number) or [])
        if name != str(state)
    }


def _children(tree: pd.DataFrame, numbers: list[int]) -> dict[Node, list[Node]]:
    """States of the next number that come from each state, the largest first."""
    before = dict(zip(numbers[1:], numbers, strict=False))
    children: dict[Node, list[Node]] = {(row.n_states, row.state): [] for row in tree.itertuples()}
    for row in tree.sort_values("population", ascending=False, kind="stable").itertuples():
        if row.n_states in before:
            children[before[row.n_states], int(row.parent)].append((row.n_states, row.state))
    return children


def _places(tree: pd.DataFrame, first: int, children: dict[Node, list[Node]]) -> dict[Node, float]:
    """Place of each state from left to right: those that nothing comes of side by side, others above their children."""
    place: dict[Node, float] = {}
    n_ends = 0

    def put(node: Node) -> float:
        nonlocal n_ends
        below = [put(child) for child in children[node]]
        if not below:
            n_ends += 1
        place[node] = 0.5 * (below[0] + below[-1]) if below else float(n_ends - 1)
        return place[node]

    for state in tree.loc[tree["n_states"] == first].sort_values("population", ascending=False)["state"]:
        put((first, state))
    return place


def _leads_to(node: Node, children: dict[Node, list[Node]], population: dict[Node, float]) -> Node:
    """Return the largest state of the last row, or where the branch ends, that comes of a state."""
    if not children[node]:
        return node
    ends = [_leads_to(child, children, population) for child in children[node]]
    return max(ends, key=lambda end: (end[0], population[end]))


def _diameter(share: float) -> float:
    return max(SMALLEST, LARGEST * float(np.sqrt(share)))


def _draw_state(axis: Any, point: tuple[float, float], state: int, share: float, color: str, name: str) -> None:
    from matplotlib.colors import to_rgb
    from matplotlib.patheffects import withStroke

    x, y = point
    diameter = _diameter(share)
    axis.scatter(x, y, s=diameter**2, color=color, edgecolors="black", linewidths=0.8, zorder=3)
    dark = np.dot(to_rgb(color), (0.299, 0.587, 0.114)) < 0.5  # perceived brightness
    ink = "white" if dark else "black"
    axis.text(x, y, str(state), ha="center", va="center", color=ink, weight="bold", fontsize=9, zorder=4)
    if name:
        halo = [withStroke(linewidth=2, foreground="white")]
        below = {"textcoords": "offset points", "ha": "center", "va": "top", "path_effects": halo, "zorder": 5}
        axis.annotate(name, (x, y), (0.0, -0.5 * diameter - 1.0), fontsize=7.5, **below)


def _write_share(axis: Any, point: tuple[float, float], share: float, side: int) -> None:
    """Write the population above a state, to its left (-1) or right (1): where the branch from above does not come."""
    from matplotlib.patheffects import withStroke

    away = 0.36 * _diameter(share) + 1.0
    digits = 0 if share >= 0.0995 else 1
    axis.annotate(
        f"{100 * share:.{digits}f}%",
        point,
        (side * away, away),
        textcoords="offset points",
        fontsize=6.5,
        color="0.25",
        ha="left" if side > 0 else "right",
        va="bottom",
        zorder=4,
        path_effects=[withStroke(linewidth=2, foreground="white")],
    )


def _write_sides(axis: Any, tree: pd.DataFrame, row_of: dict[int, float], unit: str, width: float) -> None:
    """Write numbers of states on the left, and the timescales that they add on the right."""
    axis.text(width + 0.1, 0.5, "process that a row adds", ha="left", va="center", fontsize=7, color="0.4")
    times = tree.groupby("n_states")[f"timescale / {unit}"].max()
    for number, y in row_of.items():
        time = times[number]
        known = "unknown" if np.isnan(time) else f"{format_time(time)} {unit}"
        axis.text(width + 0.1, y, f"$t_{{{number}}}$ = {known}", ha="left", va="center", fontsize=9)
    axis.set_yticks(list(row_of.values()), [f"{number} states" for number in row_of])
    axis.tick_params(left=False, bottom=False, labelbottom=False)
    axis.spines[:].set_visible(False)
    axis.set(xlim=(-0.7, width - 0.3), ylim=(min(row_of.values()) - 0.5, 0.5))
