"""Network of macrostates: populations and mean first-passage times."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from m3c_md.arrays import FloatArray
from m3c_md.confidence import confidence_band
from m3c_md.exceptions import InputError
from m3c_md.inputs.settings import check_positive
from m3c_md.inputs.state_names import check_state_names
from m3c_md.markov.kinetics import Kinetics
from m3c_md.plots.axes import single_axes
from m3c_md.plots.colors import state_color
from m3c_md.wording import plain_number

# Sizes relative to the circle that the states stand on: radius of a state with all the probability, and of the smallest
# circle that holds its label.
LARGEST_RADIUS, SMALLEST_RADIUS = 0.42, 0.2
# Widths of arrows in points: none at all flows, and the largest flux.
THINNEST, THICKEST = 1.2, 5.0
# Bend of the two arrows between neighbours, and between states that have others on both sides: these share their space.
NEIGHBOUR_BEND, ACROSS_BEND = 0.22, 0.1
# Size of the labels of arrows in points, smaller where there are more states than this.
LABEL_POINTS, MOST_LARGE_LABELS = 10.0, 4
# Names of states are broken into lines of so many letters.
LETTERS_OF_A_LINE = 9
# Orders on the circle are compared one by one up to this many states.
MOST_TO_ORDER = 8


def plot_network(
    msm: Any,
    *,
    names: Sequence[str] | None = None,
    dt: float = 1.0,
    unit: str = "frame",
    positions: ArrayLike | None = None,
    ax: Any = None,
) -> Any:
    r"""Draw macrostates as circles and mean first-passage times as arrows between them.

    The area of a circle is proportional to the stationary probability (with a smallest size that holds the label), the
    width of an arrow grows with the probability flux π_i p_ij; dotted arrows join states without a direct transition,
    where the passage leads through others. States that exchange fast are neighbours.

    Parameters
    ----------
    msm : deeptime MarkovStateModel, BayesianMSMPosterior or Kinetics
        Of the macrostates; readable up to about five of them. States outside its active set are not drawn, and the
        others keep their number and colour. With a posterior, or the result of `m3c_md.kinetics` (which has a unit of
        its own), 95 % intervals stand below the values.
    names : sequence of str, optional
        What the states are called, e.g. ``model.state_names``; by default as the kinetics call them.
    dt : float
        Time between frames in units.
    unit : str
        Of ``dt``.
    positions : (n_states, 2) array, optional
        Centres of the circles; a ring by default.
    ax : matplotlib axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from deeptime.markov.msm import MarkovStateModel
    >>> ax = plot_network(MarkovStateModel([[0.9, 0.1], [0.2, 0.8]]), dt=2.0, unit="ps")
    >>> sorted(text.get_text() for text in ax.texts)
    ['0\n67%', '1\n33%', '10', '20']
    """
    network = _network(msm, check_positive("dt", dt), unit)
    share, times = network.share, network.times
    centres = ring_positions(times) if positions is None else _checked_positions(positions, len(share))
    size = np.ptp(centres, axis=0).max() / 2.0 if len(share) > 1 else 1.0
    radii = size * np.maximum(SMALLEST_RADIUS, LARGEST_RADIUS * np.sqrt(share))

    reach = radii.max() + 0.1 * size
    low, high = centres.min(axis=0) - reach, centres.max(axis=0) + reach
    axis = single_axes(ax, (6.0, 0.4 + 6.0 * min(2.0, (high[1] - low[1]) / (high[0] - low[0]))))
    axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=(), yticks=(), aspect="equal")
    shares = _words(share, network.share_band, "{:.0%}".format)
    circles = draw_states(axis, centres, radii, shares, network.numbers, _called(network, names))
    axis.spines[:].set_visible(False)
    power = common_power(times)
    time_band = None if network.time_band is None else network.time_band / 10.0**power
    words = np.array(_words(times / 10.0**power, time_band, format_time), dtype=object)
    strength = network.flux / max(network.flux.max(), np.finfo(float).tiny)
    _draw_passages(axis, centres, circles, strength, words.reshape(times.shape))
    below = "" if network.time_band is None else ", below: 95 % intervals"
    per = network.unit if power == 0 else f"($10^{{{power}}}$ {network.unit})"
    axis.set_xlabel(f"arrows: mean first-passage times / {per}{below}")
    return axis


class _Network(NamedTuple):
    """What is drawn; bands are (2, ...) arrays of the ends of 95 % intervals, or None."""

    share: FloatArray
    flux: FloatArray
    times: FloatArray
    share_band: FloatArray | None
    time_band: FloatArray | None
    numbers: list[int]
    unit: str
    names: list[str] | None = None


def _network(msm: Any, dt: float, unit: str) -> _Network:
    """Network of a Markov model, of a Bayesian posterior (its prior and its samples), or of kinetics."""
    if isinstance(msm, Kinetics):
        return _of_kinetics(msm)
    samples = list(msm.samples) if hasattr(msm, "prior") and hasattr(msm, "samples") else []
    model = msm.prior if samples else msm
    if not all(hasattr(model, name) for name in ("mfpt", "stationary_distribution", "transition_matrix")):
        raise InputError(
            f"msm is a {type(msm).__name__}; give a deeptime MarkovStateModel of the macrostates, the posterior of its "
            "BayesianMSM, or the result of m3c_md.kinetics"
        )
    share, flux = _probabilities(model)
    shares = np.array([one.stationary_distribution for one in samples]) if samples else None
    times = np.array([dt * passage_times(one) for one in samples]) if samples else None
    numbers = _state_numbers(model, len(share))
    return _Network(share, flux, dt * passage_times(model), _band(shares), _band(times), numbers, unit)


def _band(samples: FloatArray | None) -> FloatArray | None:
    """Ends of the central 95 % of samples (n_samples, ...)."""
    return None if samples is None else np.stack(confidence_band(np.moveaxis(samples, 0, -1)))


def _of_kinetics(result: Kinetics) -> _Network:
    """Network of kinetics, without the states that are not connected with the others."""
    known = np.flatnonzero(result.states["population"].notna())
    if len(known) == 0:
        raise InputError("these kinetics have no connected states; give more or longer trajectories, or fewer states")
    block = np.ix_(known, known)
    flux = result.flows[block] * ~np.eye(len(known), dtype=bool)
    share, times = result.states["population"].to_numpy()[known], result.matrix("mfpt")[block]
    share_band = time_band = None
    if result.confidence is not None:
        share_band = np.stack([result.states[f"population {end}"].to_numpy()[known] for end in ("low", "high")])
        time_band = np.stack([result.matrix(f"mfpt {end}")[block] for end in ("low", "high")])
    return _Network(share, flux, times, share_band, time_band, known.tolist(), result.unit, result.names)


def _called(network: _Network, names: Sequence[str] | None) -> list[str]:
    """What the states that are drawn are called."""
    known = network.names if names is None else list(names)
    if known is None:
        return [str(number) for number in network.numbers]
    checked = check_state_names(known, max(max(network.numbers) + 1, len(known)))
    return [checked[number] for number in network.numbers]


def _words(values: FloatArray, band: FloatArray | None, write: Callable[[float], str]) -> list[str]:
    """Values as they are written, with their intervals below; an interval of one number is left out."""
    words = [write(float(value)) for value in values.ravel()]
    if band is None:
        return words
    ends = [(write(float(a)), write(float(b))) for a, b in zip(band[0].ravel(), band[1].ravel(), strict=True)]
    return [w if a == b else f"{w}\n{a.removesuffix('%')}–{b}" for w, (a, b) in zip(words, ends, strict=True)]


def passage_times(msm: Any) -> FloatArray:
    """Mean first-passage times of all pairs of states in frames, (n_states, n_states); 0 on the diagonal.

    Examples
    --------
    >>> from deeptime.markov.msm import MarkovStateModel
    >>> passage_times(MarkovStateModel([[0.9, 0.1], [0.2, 0.8]])).round(6).tolist()
    [[0.0, 10.0], [5.0, 0.0]]
    """
    n = len(msm.stationary_distribution)
    return np.array([[0.0 if i == j else float(msm.mfpt(i, j)) for j in range(n)] for i in range(n)])


def ring_positions(times: FloatArray) -> FloatArray:
    """Places on the unit circle, in the order that keeps states of short passage times beside each other.

    Examples
    --------
    >>> ring_positions(np.array([[0.0, 5.0], [5.0, 0.0]])).round(6).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    n = len(times)
    order = tuple(range(n))
    if 3 < n <= MOST_TO_ORDER:
        far = np.log(np.where(times > 0.0, times, 1.0))
        far = far + far.T
        order = min(
            ((0, *rest) for rest in permutations(range(1, n))), key=lambda ring: sum(far[ring, np.roll(ring, 1)])
        )
    # Two states lie side by side; more of them start at the top and go round clockwise.
    angle = (np.pi if n <= 2 else np.pi / 2.0) - 2.0 * np.pi * np.argsort(order) / n
    return np.column_stack([np.cos(angle), np.sin(angle)])


def common_power(times: FloatArray) -> int:
    """Power of ten, a multiple of three, to be taken out of times that are long to write; 0 if none is.

    Examples
    --------
    >>> common_power(np.array([[0.0, 4.0e4], [12.0, 0.0]])), common_power(np.array([[0.0, 2.5e9], [4.0e7, 0.0]]))
    (0, 6)
    """
    written = times[(times > 0.0) & np.isfinite(times)]
    if written.size == 0 or (written.min() >= 1e-3 and written.max() < 1e6):
        return 0
    return 3 * int(np.floor(np.median(np.log10(written)) / 3.0))


def format_time(value: float) -> str:
    """Three digits, without an exponent where that is readable.

    Examples
    --------
    >>> format_time(1234.5), format_time(0.98765), format_time(2.5e9), format_time(float("inf"))
    ('1230', '0.988', '2.5e+09', '∞')
    """
    return plain_number(value) if np.isfinite(value) else "∞"


def _probabilities(msm: Any) -> tuple[FloatArray, FloatArray]:
    """Stationary distribution and fluxes between different states."""
    matrix = msm.transition_matrix
    dense = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)
    share = np.asarray(msm.stationary_distribution, dtype=np.float64)
    flux = share[:, None] * dense
    np.fill_diagonal(flux, 0.0)
    return share, flux


def _state_numbers(msm: Any, n: int) -> list[int]:
    """Numbers that the states had before the model was restricted to its active set."""
    counts = msm.count_model if getattr(msm, "has_count_model", False) else None
    return list(range(n)) if counts is None else [int(symbol) for symbol in counts.state_symbols]


def _checked_positions(positions: ArrayLike, n: int) -> FloatArray:
    centres = np.array(positions, dtype=np.float64)
    if centres.shape != (n, 2) or not np.isfinite(centres).all():
        raise InputError(f"positions has shape {centres.shape}; give finite numbers of shape ({n}, 2), a row per state")
    if n > 1 and not np.ptp(centres, axis=0).max() > 0.0:
        raise InputError("positions are all the same; give every state a place of its own")
    return centres


def draw_states(
    axis: Any, centres: FloatArray, radii: FloatArray, below: list[str], numbers: list[int], names: list[str]
) -> list[Any]:
    """Draw states as circles with their names and what stands below these; the axes have their limits already."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Circle

    circles = []
    for centre, radius, part, number, name in zip(centres, radii, below, numbers, names, strict=True):
        color = state_color(number)
        circle = axis.add_patch(Circle(tuple(centre), radius, facecolor=color, edgecolor="black", lw=1.0, zorder=3))
        # Perceived brightness decides between black and white letters.
        dark = np.dot(to_rgb(color), (0.299, 0.587, 0.114)) < 0.5
        lines = [*textwrap.wrap(name, LETTERS_OF_A_LINE), *part.split("\n")]
        usual = LABEL_POINTS if len(lines) <= 2 else LABEL_POINTS - 2.0
        # Letters are about 0.65 of their size wide; a word should stay inside of its circle, if it can be read there.
        fitting = 1.8 * radius / data_per_point(axis) / (0.65 * max(map(len, lines)))
        style = {"color": "white" if dark else "black", "weight": "bold", "fontsize": max(5.0, min(usual, fitting))}
        axis.text(*centre, "\n".join(lines), ha="center", va="center", zorder=4, **style)
        circles.append(circle)
    return circles


def _arrow_curve(centres: FloatArray, radii: FloatArray, i: int, j: int) -> tuple[float, FloatArray]:
    """Bend of the arrow from i to j, and points along the part of it that is seen, from start to end.

    The curve is the quadratic Bezier curve of matplotlib's "arc3".
    """
    start, end = centres[i], centres[j]
    normal = np.array([start[1] - end[1], end[0] - start[0]])
    sides = np.delete((centres - start) @ normal, [i, j])
    # Others on both sides: the arrow shares its space with theirs.
    bend = ACROSS_BEND if (sides > 0.0).any() and (sides < 0.0).any() else NEIGHBOUR_BEND
    control = (start + end) / 2.0 - bend * normal
    hidden = radii[[i, j]] / np.linalg.norm(end - start)
    t = np.linspace(hidden[0], 1.0 - hidden[1], 101)[:, None]
    return bend, (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end


def _draw_passages(axis: Any, centres: FloatArray, circles: list[Any], strength: FloatArray, times: Any) -> None:
    """Arrows between all pairs of states, with the times on them."""
    radii = np.array([circle.radius for circle in circles])
    pairs = [(i, j) for i in range(len(centres)) for j in range(len(centres)) if i != j]
    points = LABEL_POINTS if len(centres) <= MOST_LARGE_LABELS else 0.85 * LABEL_POINTS
    box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.9}
    step = points * data_per_point(axis)
    labels: list[FloatArray] = []
    for i, j in pairs:
        bend, curve = _arrow_curve(centres, radii, i, j)
        draw_arrow(axis, centres[[i, j]], (circles[i], circles[j]), bend, strength[i, j])
        text = times[i, j]
        lines = text.split("\n")
        # Letters are about 0.65 of their size wide; 1.6 of it is a line with some room around it.
        extent = step * np.array([0.65 * max(map(len, lines)) + 0.5, 0.4 + 1.2 * len(lines)])
        place = label_place(curve, 20 if bend == ACROSS_BEND else 42, extent, labels)
        labels.append(np.concatenate([place, extent]))
        axis.text(*place, text, ha="center", va="center", bbox=box, fontsize=points, zorder=2)


def label_place(curve: FloatArray, wish: int, extent: FloatArray, labels: list[FloatArray]) -> FloatArray:
    """Point of an arrow for its label: as near to the wish (in percent of its length) as other labels allow.

    Labels stand nearer to the start, away from that of the way back; between states with others on both sides still
    nearer, away from crossings.
    """
    tried = sorted(range(12, 89, 2), key=lambda k: abs(k - wish))
    if not labels:
        return np.asarray(curve[wish])
    others = np.array(labels)
    # Distance to the closest label in units of what would be needed; 1 and more is free.
    room = [(np.abs(curve[k] - others[:, :2]) / ((extent + others[:, 2:]) / 2.0)).max(axis=1).min() for k in tried]
    free = [k for k, space in zip(tried, room, strict=True) if space >= 1.0]
    return np.asarray(curve[free[0] if free else tried[int(np.argmax(room))]])


def data_per_point(axis: Any) -> float:
    """Length of a typographic point in data units of axes with equal aspect."""
    inches = axis.get_position(original=True).size * axis.figure.get_size_inches()
    spans = np.array([np.ptp(axis.get_xlim()), np.ptp(axis.get_ylim())])
    return float((spans / inches).max() / 72.0)


def draw_arrow(axis: Any, ends: FloatArray, circles: tuple[Any, Any], bend: float, strength: float) -> None:
    """Arrow from one circle to the other, bent to its right, in the colour of the state that it leaves."""
    from matplotlib.patches import FancyArrowPatch

    width = THINNEST + (THICKEST - THINNEST) * strength
    arrow = FancyArrowPatch(
        *ends,
        connectionstyle=f"arc3,rad={bend}",
        arrowstyle="-|>",
        mutation_scale=10.0 + 1.5 * width,
        patchA=circles[0],
        patchB=circles[1],
        shrinkA=2,
        shrinkB=2,
        lw=width,
        ls="-" if strength > 0.0 else ":",
        color=circles[0].get_facecolor(),
        zorder=1,
    )
    axis.add_patch(arrow)
