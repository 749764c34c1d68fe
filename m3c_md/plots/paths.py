"""Picture of transition paths: states in the order of their committors, and the flux between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError
from m3c_md.markov.paths import TransitionPaths
from m3c_md.plots.axes import single_axes
from m3c_md.plots.network import (
    LABEL_POINTS,
    data_per_point,
    draw_arrow,
    draw_states,
    format_time,
    label_place,
)
from m3c_md.wording import plain_number

if TYPE_CHECKING:
    import pandas as pd

# Arrows with a smaller share of the flux than this are left out.
LEAST_SHARE = 0.01
# Lengths on the page, in units of which the whole way from source to target is so many.
WAY, STOREY = 4.0, 1.0
# Radius of a state with all the probability, and of the smallest circle that holds its name.
LARGEST_RADIUS, SMALLEST_RADIUS = 0.5, 0.27
# Inches of a figure, room at its edges, and size of the words on arrows.
WIDTH, EDGE, POINTS = 7.0, 0.15, 0.85 * LABEL_POINTS
# Words that are farther from an arrow than this are not taken for its own.
NEAR = 0.9
# Bends of arrows that are tried, until one leads past the states that it does not concern.
BENDS = (0.0, 0.2, -0.2, 0.35, -0.35, 0.5, -0.5, 0.7, -0.7)


def plot_paths(paths: TransitionPaths, *, ax: Any = None) -> Any:
    """Draw the flux from the source to the target: states from left to right by their committor, fluxes as arrows.

    The width of an arrow grows with its share of the flux, which stands on it beside the flux in transitions per time
    and its 95 % interval; shares below 1 % are left out. The area of a circle is proportional to the population (with
    a smallest size that holds the name). The states of the strongest path stand in one line.

    Parameters
    ----------
    paths : TransitionPaths
        Result of `m3c_md.transition_paths`.
    ax : matplotlib axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from m3c_md import transition_paths
    >>> chain = [0, 0, 0, 1, 1, 2, 2, 2, 2, 1, 0, 0, 1, 2, 2, 1] * 50
    >>> ax = plot_paths(transition_paths(chain, 0, 2, names=["left", "bridge", "right"], dt=2.0, unit="ps"))
    >>> ax.get_xlabel()
    'probability to reach right before left'
    """
    if not isinstance(paths, TransitionPaths):
        raise InputError(f"paths is a {type(paths).__name__}; give the result of m3c_md.transition_paths")
    fluxes = paths.fluxes[paths.fluxes["share"] >= LEAST_SHARE]
    drawn = sorted({*paths.source, *paths.target, *(state for pair in fluxes.index for state in pair)})
    share = paths.states["population"].to_numpy()[drawn]
    radii = np.maximum(SMALLEST_RADIUS, LARGEST_RADIUS * np.sqrt(share))
    centres = path_positions(paths.states["committor"].to_numpy()[drawn], _line(paths, drawn), radii)
    pairs = [(drawn.index(i), drawn.index(j)) for i, j in fluxes.index]
    curves = [_free_curve(centres, radii, i, j) for i, j in pairs]
    power = flux_power(float(fluxes["flux"].max()))
    words = _words(fluxes, power)
    axis = single_axes(ax, (WIDTH, WIDTH))
    boxes = _fit(axis, ax is None, centres, radii, [curve for _, curve in curves], words)
    names = [str(state) if paths.names is None else paths.names[state] for state in drawn]
    circles = draw_states(axis, centres, radii, [f"{part:.0%}" for part in share], drawn, names)
    style = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    for (i, j), (bend, _), part, text, box in zip(pairs, curves, fluxes["share"], words, boxes, strict=True):
        draw_arrow(axis, centres[[i, j]], (circles[i], circles[j]), bend, part)
        at_centre = {"ha": "center", "va": "center", "fontsize": POINTS, "linespacing": 1.1}
        axis.text(*box[:2], text, bbox=style, zorder=2, **at_centre)
    _describe(axis, paths, power)
    return axis


def path_positions(committors: FloatArray, line: list[int], radii: FloatArray) -> FloatArray:
    """Places of states: from left to right by committor, those of one line level, others above or below it.

    Examples
    --------
    >>> path_positions(np.array([0.0, 0.5, 0.5, 1.0]), [0, 1, 3], np.full(4, 0.3)).tolist()
    [[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [4.0, 0.0]]
    """
    places = np.column_stack([WAY * committors, np.zeros(len(committors))])
    placed: list[int] = []
    order = [*line, *(k for k in np.argsort(committors, kind="stable").tolist() if k not in line)]
    for k in order:
        storey = 0 if k in line else 1
        while True:
            # 0, 1, -1, 2, -2, ...
            places[k, 1] = STOREY * (storey // 2 + storey % 2) * (1 if storey % 2 else -1)
            apart = np.linalg.norm(places[placed] - places[k], axis=1) - radii[placed] - radii[k]
            if not placed or apart.min() > 0.1:
                break
            storey += 1
        placed.append(k)
    return places + 0.0  # no negative zeros


def _line(paths: TransitionPaths, drawn: list[int]) -> list[int]:
    """Places among those drawn of the states of the strongest path."""
    strongest = paths.pathways["states"].iloc[0]
    return [drawn.index(state) for state in strongest if state in drawn]


def flux_power(largest: float) -> int:
    """Power of ten, a multiple of three, to be taken out of fluxes, so that smaller ones are readable, too; mostly 0.

    Examples
    --------
    >>> flux_power(0.004), flux_power(0.02), flux_power(12.0)
    (-3, -3, 0)
    """
    return 0 if not 0.0 < largest < 0.1 else 3 * int(np.floor(np.log10(largest) / 3.0))


def _words(fluxes: pd.DataFrame, power: int) -> list[str]:
    """What stands on each arrow: share, flux in units of a power of ten, and its interval if that is known."""
    words = [f"{one.share:.0%}\n{format_time(one.flux / 10.0**power)}" for one in fluxes.itertuples()]
    if "flux low" not in fluxes:
        return words
    ends = (fluxes[["flux low", "flux high"]].to_numpy() / 10.0**power).tolist()
    return [
        f"{text}\n({plain_number(low, 2)} to {plain_number(high, 2)})" if np.isfinite([low, high]).all() else text
        for text, (low, high) in zip(words, ends, strict=True)
    ]


def _fit(
    axis: Any, own: bool, centres: FloatArray, radii: FloatArray, curves: list[FloatArray], words: list[str]
) -> list[FloatArray]:
    """Set limits that hold circles, arrows and words, and return the boxes of the words: places and sizes.

    Letters have their size on the page, so that the limits and the places of the words depend on each other.
    """
    circles = np.concatenate([centres - radii[:, None], centres + radii[:, None]])
    shown = np.concatenate([circles, *curves])
    boxes: list[FloatArray] = []
    for _ in range(3):
        low, high = shown.min(axis=0) - EDGE, shown.max(axis=0) + EDGE
        axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), yticks=(), aspect="equal")
        if own:
            axis.figure.set_size_inches(WIDTH, 1.3 + WIDTH * (high[1] - low[1]) / (high[0] - low[0]))
        step = POINTS * data_per_point(axis)
        boxes = []
        for curve, text in zip(curves, words, strict=True):
            lines = text.split("\n")
            extent = step * np.array([0.65 * max(map(len, lines)) + 0.3, 0.4 + 1.2 * len(lines)])
            place = _place_of_words(curve, extent, centres, radii, curves, boxes)
            boxes.append(np.concatenate([place, extent]))
        ends = [box[:2] + sign * box[2:] / 2.0 for box in boxes for sign in (-1.0, 1.0)]
        shown = np.concatenate([circles, *curves, ends])
    return boxes


def _place_of_words(
    curve: FloatArray,
    extent: FloatArray,
    centres: FloatArray,
    radii: FloatArray,
    curves: list[FloatArray],
    boxes: list[FloatArray],
) -> FloatArray:
    """Place for words on their arrow, or near it where they would hide it, clear of circles and of other words."""
    way = curve[-1] - curve[0]
    along, arrows = [curve[k] for k in sorted(range(12, 89, 2), key=lambda k: abs(k - 45))], np.concatenate(curves)

    def is_free(place: FloatArray) -> bool:
        gaps = np.maximum(np.abs(centres - place) - extent / 2.0, 0.0)
        on_words = any((np.abs(box[:2] - place) < (box[2:] + extent) / 2.0).all() for box in boxes)
        return bool((np.linalg.norm(gaps, axis=1) > radii).all()) and not on_words

    def hides_arrows(place: FloatArray) -> bool:
        return bool((np.abs(arrows - place) < extent / 2.0).all(axis=1).any())

    tried = along
    if (np.abs(way) < 1.3 * extent).all():  # nothing of the arrow would be left to see
        across = np.array([abs(way[1]), abs(way[0])]) / np.linalg.norm(way)  # to the right, or above
        across[1] *= -np.sign(way[0] * way[1]) or 1.0
        beside = [curve[50] + side * far * across for far in np.arange(0.05, NEAR, 0.05) for side in (1.0, -1.0)]
        tried = [place for place in beside if not hides_arrows(place)] + along
    return np.asarray(next((place for place in tried if is_free(place)), label_place(curve, 45, extent, boxes)))


def _free_curve(centres: FloatArray, radii: FloatArray, i: int, j: int) -> tuple[float, FloatArray]:
    """Bend of an arrow that passes by all other states, and points along the part of it that is seen.

    The curve is the quadratic Bezier curve of matplotlib's "arc3".
    """
    start, end = centres[i], centres[j]
    normal = np.array([start[1] - end[1], end[0] - start[0]])
    hidden = np.minimum(radii[[i, j]] / np.linalg.norm(end - start), 0.45)
    t = np.linspace(hidden[0], 1.0 - hidden[1], 101)[:, None]
    others = [k for k in range(len(centres)) if k not in (i, j)]

    def curve(bend: float) -> FloatArray:
        control = (start + end) / 2.0 - bend * normal
        return np.asarray((1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end)

    def room(bend: float) -> float:
        apart = np.linalg.norm(curve(bend)[:, None] - centres[others], axis=2) - radii[others]
        return float(apart.min(initial=np.inf))

    best = next((bend for bend in BENDS if room(bend) > 0.12), max(BENDS, key=room))
    return best, curve(best)


def _describe(axis: Any, paths: TransitionPaths, power: int) -> None:
    """Write what axis, arrows and times are."""
    source, target = paths.title(paths.source), paths.title(paths.target)
    axis.set_xticks([0.0, 0.25 * WAY, 0.5 * WAY, 0.75 * WAY, WAY], ["0", "0.25", "0.5", "0.75", "1"])
    axis.set_xlabel(f"probability to reach {target} before {source}")
    axis.spines[["left", "right", "top"]].set_visible(False)
    per = f"1/{paths.unit}" if power == 0 else f"$10^{{{power}}}$/{paths.unit}"
    sure = "" if paths.confidence is None else " (95 %)"
    axis.set_title(
        f"{source} → {target}: mean first-passage time {format_time(paths.mfpt)} {paths.unit}, "
        f"{format_time(paths.duration)} {paths.unit} on the way\narrows: share of the flux, and flux in {per}{sure}",
        fontsize="medium",
    )
