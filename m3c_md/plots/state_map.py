"""Maps of states over two coordinates: free energy, regions with their margins, decision boundaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.exceptions import InputError
from m3c_md.inputs.dataset import Dataset
from m3c_md.inputs.settings import check_choice, check_integer
from m3c_md.inputs.state_names import default_names
from m3c_md.plots.axes import map_panels
from m3c_md.plots.colors import matched_order, state_color
from m3c_md.plots.grid import Domain, check_unit, free_energy, majority_cells, map_domain, nearness
from m3c_md.plots.uncertainty import borders_by_name, draw_uncertainty, zone_handles

Embedding = Callable[[FloatArray], Any]

# Opacity of a state's colour on a boundary and where the rule is sure; less would not show, more would hide the greys.
PALE, FULL = 0.08, 0.55
# Grey of the free energy minimum and of the highest cell: dark enough to see, light enough for colours on top.
DARKEST, LIGHTEST = 0.2, 0.92
SLOW_LABELS = ("slow coordinate 1", "slow coordinate 2")


class DrawableModel(Protocol):
    """What a map needs to know about a model."""

    populations: FloatArray

    @property
    def n_states(self) -> int:
        """Number of states."""

    def transform(self, data: Any) -> Any:
        """State of every frame."""

    def margin(self, data: Any) -> Any:
        """Lead of the best state over the second."""


def plot_state_map(
    models: DrawableModel | Mapping[str, DrawableModel],
    data: Any,
    *,
    coordinates: Any = None,
    embed: Embedding | None = None,
    periodic: tuple[float | None, float | None] | None = None,
    labels: tuple[str, str] | None = None,
    uncertainty: Any = None,
    resolution: int = 200,
    bins: int = 60,
    ax: Any = None,
) -> Any:
    """Draw states over two coordinates: free energy in greys, states in colours, boundaries as lines.

    Colours are full where frames are and the lead of the best state reaches their median lead, pale near a boundary and
    away from all frames. (A lead has no common unit across methods; the median makes them comparable.)

    Parameters
    ----------
    models : fitted model, or dict of them
        With a dict, a panel per method. States of the others are named and coloured after those of the first that they
        share most frames with. Names of the first model's states (``model.rename``) stand in the legends.
    data : array (n_frames, n_columns) or list of them
        Trajectories with the columns that the models were fitted to.
    coordinates : array (n_frames, 2) or list of them, optional
        What to draw on, frame by frame as ``data``. By default ``data`` itself where it has two columns, and else the
        two directions along which the states of the first model that knows them change most (`slow_coordinates`).
    embed : callable, optional
        Columns of ``data`` as a function of coordinates, (n, 2) array to (n, n_columns) array: the models are asked at
        every point of the map. Without it, a cell of the map has the state of most of its frames, and is blank where
        there are none.
    periodic : (float or None, float or None), optional
        Periods of the coordinates. A periodic axis shows one period around 0.
    labels : (str, str), optional
        Names of the axes, with units.
    uncertainty : ResampledRules, or dict of them, optional
        What `m3c_md.validation.refit` returns, for models of a dict by their names: zones are hatched in which 5 %, or
        25 %, of the rules that were fitted to resampled trajectories give another state than that of the fit.
    resolution : int
        Points of the map along each axis where the models can be asked.
    bins : int
        Cells of the free energy along each axis, and of the map of states without ``embed``.
    ax : matplotlib axes or array of them, optional
        One per model; a new figure by default.

    Returns
    -------
    matplotlib axes, or array of them for a dict

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from m3c_md import M3C
    >>> x = np.random.default_rng(0).normal(size=(400, 2)) * 0.3
    >>> x[:, 0] += np.repeat([-1.0, 1.0] * 20, 10)
    >>> ax = plot_state_map(M3C(2, random_state=0).fit_fetch(x), x, labels=("a / nm", "b / nm"))
    >>> ax.get_xlabel()
    'a / nm'
    """
    named = dict(models) if isinstance(models, Mapping) else {"": models}
    if not named:
        raise InputError("models is an empty dict; give at least one {name: model}")
    resolution, bins = check_integer("resolution", resolution, 2), check_integer("bins", bins, 2)
    rules = borders_by_name(uncertainty, named)
    if coordinates is None and embed is None:
        coordinates = slow_coordinates(named, data)
        labels = SLOW_LABELS if labels is None and coordinates is not None else labels
    frames, points, rule = _frames_and_points(data, coordinates, embed)
    shown = labels or ("$x_1$", "$x_2$")
    domain = map_domain(points, periodic)
    points = domain.wrap(points)
    near = nearness(points, domain, resolution)
    energy = free_energy(points, domain, bins)
    columns = None if rule is None else rule(domain.mesh(resolution))
    states = {name: _checked_states(name, model, frames) for name, model in named.items()}
    n = max(model.n_states for model in named.values())
    reference = next(iter(states.values()))
    names = drawn_names(next(iter(named.values())), n)

    axes, firsts, corner = map_panels(ax, len(named))
    for panel, (name, model) in zip(axes, named.items(), strict=True):
        image = draw_free_energy(panel, energy, domain)
        order = matched_order(reference, states[name], n)
        lead = np.asarray(model.margin(frames), dtype=np.float64)
        scale = float(np.median(lead)) or float(lead.max()) or 1.0
        if columns is None:
            _draw_majority(panel, points, order[states[name]], lead / scale, domain, bins)
        else:
            _draw_rule(panel, model, columns, order, scale, domain, near)
        if name in rules:
            draw_uncertainty(
                panel, rules[name], frames, points, columns, domain, bins if columns is None else resolution
            )
        draw_legend(panel, model, order, names, zones=name in rules)
        panel.set(xlabel=shown[0], xlim=domain.extent[:2], ylim=domain.extent[2:])
        panel.set_title(name)
    for panel in firsts:
        panel.set_ylabel(shown[1])
    colorbar(corner, image)
    return axes if isinstance(models, Mapping) and ax is None else axes[0] if ax is None else ax


def plot_ramachandran(
    models: DrawableModel | Mapping[str, DrawableModel],
    data: Any,
    angles: Any,
    *,
    embed: Embedding | None = None,
    unit: Literal["degrees", "radians"] | None = None,
    uncertainty: Any = None,
    resolution: int = 200,
    bins: int = 60,
    ax: Any = None,
) -> Any:
    """Draw a `plot_state_map` over the torsions φ and ψ, in degrees and periodic.

    Parameters
    ----------
    models, data, uncertainty, resolution, bins, ax
        As for `plot_state_map`.
    angles : array (n_frames, 2) or list of them
        φ and ψ of every frame of ``data``.
    embed : callable, optional
        Columns of ``data`` as a function of (φ, ψ) in the unit of ``angles``.
    unit : "degrees" or "radians", optional
        Of ``angles``; degrees by default, but angles that all lie between -π and π are refused then.

    Returns
    -------
    matplotlib axes, or array of them for a dict

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from m3c_md import M3C
    >>> def sines_and_cosines(angles):
    ...     return np.column_stack([np.sin(angles), np.cos(angles)])
    >>> angles = 0.3 * np.random.default_rng(0).normal(size=(400, 2))
    >>> angles[:, 1] += np.repeat([-0.7, 2.6] * 20, 10)
    >>> x = sines_and_cosines(angles)
    >>> model = M3C(2, random_state=0).fit_fetch(x)
    >>> ax = plot_ramachandran(model, x, angles, embed=sines_and_cosines, unit="radians")
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('φ / °', 'ψ / °')
    """
    if unit is not None:
        check_choice("unit", unit, ("degrees", "radians"))
    arrays = Dataset.of(angles).arrays()
    check_unit(arrays, unit)
    factor = 180.0 / np.pi if unit == "radians" else 1.0
    degrees = [factor * one for one in arrays]
    axes = plot_state_map(
        models,
        data,
        coordinates=degrees,
        embed=None if embed is None else lambda points: embed(points / factor),
        periodic=(360.0, 360.0),
        labels=("φ / °", "ψ / °"),
        uncertainty=uncertainty,
        resolution=resolution,
        bins=bins,
        ax=ax,
    )
    mark_degrees(axes)
    return axes


def mark_degrees(axes: Any) -> None:
    """Let axes of two angles have ticks where chemists expect them, and as many pixels for one as for the other."""
    for panel in np.atleast_1d(np.asarray(axes, dtype=object)).ravel():
        panel.set(xticks=range(-180, 181, 90), yticks=range(-180, 181, 90), aspect="equal")


def slow_coordinates(named: Mapping[str, Any], data: Any) -> Any:
    """Slow coordinates of data that are no map themselves, by the first model that knows two; None where none does."""
    dataset = Dataset.of(data)
    slow = [model for model in named.values() if getattr(model, "n_directions", 0) > 1]
    return None if dataset.n_columns == 2 or not slow else slow[0].slow_coordinates(dataset)


def _frames_and_points(
    data: Any, coordinates: Any, embed: Embedding | None
) -> tuple[FloatArray, FloatArray, Embedding | None]:
    """Frames of all trajectories, their coordinates, and how to ask a model at coordinates (None: one cannot)."""
    trajectories = Dataset.of(data).arrays()
    frames = np.concatenate(trajectories)
    if coordinates is None:
        if embed is not None:
            raise InputError("embed maps coordinates to columns of data; give coordinates= as well")
        if frames.shape[1] != 2:
            raise InputError(
                f"data has {frames.shape[1]} columns, a map has two, and no model here knows slow coordinates; give "
                "coordinates= of two columns to draw on"
            )
        return frames, frames, lambda points: points
    drawn = Dataset.of(coordinates).arrays()
    lengths, wanted = [len(x) for x in drawn], [len(x) for x in trajectories]
    if lengths != wanted:
        raise InputError(
            f"coordinates have {_briefly(lengths)} frames, data {_briefly(wanted)}; "
            "give the coordinates of the same frames"
        )
    if drawn[0].shape[1] != 2:
        raise InputError(f"coordinates have {drawn[0].shape[1]} columns; choose two of them to draw on")
    if embed is None:
        return frames, np.concatenate(drawn), None

    def columns(points: FloatArray) -> FloatArray:
        embedded = np.asarray(embed(points))
        if embedded.shape != (len(points), frames.shape[1]):
            raise InputError(
                f"embed turned {points.shape} coordinates into {embedded.shape}, but data has {frames.shape[1]} "
                f"columns; return an array of shape ({len(points)}, {frames.shape[1]})"
            )
        return embedded

    return frames, np.concatenate(drawn), columns


def _briefly(lengths: list[int]) -> str:
    return str(lengths[0]) if len(lengths) == 1 else f"{str(lengths[:5])[:-1]}{', ...' if len(lengths) > 5 else ''}]"


def _checked_states(name: str, model: DrawableModel, frames: FloatArray) -> IntArray:
    """States of the frames under a model, or an error that says what the model lacks."""
    who = f"model {name!r}" if name else "the model"
    missing = [part for part in ("transform", "margin", "n_states", "populations") if not hasattr(model, part)]
    if missing:
        raise InputError(f"{who} is a {type(model).__name__} without {missing[0]}; give a fitted model (fetch_model())")
    return np.asarray(model.transform(frames)).astype(np.intp)


def draw_free_energy(panel: Any, energy: FloatArray, domain: Domain) -> Any:
    """Image of the free energy in greys."""
    from matplotlib.colors import LinearSegmentedColormap

    greys = LinearSegmentedColormap.from_list("free energy", [str(DARKEST), str(LIGHTEST)])
    return panel.imshow(
        energy,
        extent=domain.extent,
        origin="lower",
        aspect="auto",
        cmap=greys,
        vmin=0.0,
        vmax=max(np.nanmax(energy), 1.0),
    )


def _tint(panel: Any, names: IntArray, strength: FloatArray, domain: Domain) -> None:
    """Colours of the states over the free energy; negative names are left blank."""
    from matplotlib.colors import to_rgb

    colors = np.array([to_rgb(state_color(k)) for k in range(max(int(names.max()), 0) + 1)])
    opacity = np.where(names < 0, 0.0, PALE + (FULL - PALE) * np.clip(strength, 0.0, 1.0))
    image = np.concatenate([colors[np.maximum(names, 0)], opacity[..., None]], axis=-1)
    panel.imshow(image, extent=domain.extent, origin="lower", aspect="auto")


def _draw_rule(
    panel: Any,
    model: DrawableModel,
    columns: FloatArray,
    order: IntArray,
    scale: float,
    domain: Domain,
    near: FloatArray,
) -> None:
    """States, margins and boundaries of a model that can be asked anywhere; pale where ``near`` says no frame is."""
    x, y = domain.centres(len(near))
    shape = (len(y), len(x))
    names = order[np.asarray(model.transform(columns)).reshape(shape)]
    strength = np.asarray(model.margin(columns), dtype=np.float64).reshape(shape) / scale
    _tint(panel, names[1:-1, 1:-1], near * np.minimum(strength[1:-1, 1:-1], 1.0), domain)
    # The lead, with a sign that says whether the state is the best: its zeros are the boundary to a fraction of a cell.
    # The floor keeps the sign where a method knows no lead.
    lead = np.maximum(strength, 1e-6)
    present = np.unique(names)
    for name in present if len(present) > 1 else ():
        signed = np.where(names == name, lead, -lead)
        panel.contour(x, y, signed, levels=[0.0], colors="black", linewidths=1.5)


def tint_majority(
    panel: Any, points: FloatArray, names: IntArray, strength: FloatArray, domain: Domain, bins: int
) -> IntArray:
    """Colour every cell by the state of most of its frames, and return these states; -1 where there is no frame."""
    majority, mean_lead = majority_cells(points, names, np.minimum(strength, 1.0), domain, bins)
    _tint(panel, majority, mean_lead, domain)
    return majority


def _draw_majority(
    panel: Any, points: FloatArray, names: IntArray, strength: FloatArray, domain: Domain, bins: int
) -> None:
    """States of most frames of every cell, with lines where two cells of different states meet."""
    from matplotlib.collections import LineCollection

    x, y = domain.edges(bins)
    majority = tint_majority(panel, points, names, strength, domain, bins)

    def differ(a: IntArray, b: IntArray) -> NDArray[np.bool_]:
        return np.asarray((a != b) & (a >= 0) & (b >= 0))

    upright = [
        ((x[j + 1], y[i]), (x[j + 1], y[i + 1])) for i, j in np.argwhere(differ(majority[:, :-1], majority[:, 1:]))
    ]
    level = [((x[j], y[i + 1]), (x[j + 1], y[i + 1])) for i, j in np.argwhere(differ(majority[:-1], majority[1:]))]
    panel.add_collection(LineCollection(upright + level, colors="black", linewidths=1.5))


def drawn_names(model: DrawableModel, n: int) -> list[str]:
    """Names of the states of the first model, and numbers of those that only others have."""
    own = list(getattr(model, "state_names", ()))
    return own + default_names(n)[len(own) :]


def draw_legend(panel: Any, model: DrawableModel, order: IntArray, names: list[str], *, zones: bool = False) -> None:
    """Every state with its population below the panel; a model that numbers it differently has its own number added."""
    from matplotlib.patches import Patch
    from matplotlib.transforms import offset_copy

    handles = []
    renumbered = bool((order[: model.n_states] != np.arange(model.n_states)).any())
    for name, state in sorted((int(order[k]), k) for k in range(model.n_states)):
        text = f"{names[name]}{f' ({state})' if renumbered else ''}: {model.populations[state]:.0%}"
        handles.append(Patch(facecolor=state_color(name), edgecolor="none", alpha=0.8, label=text))
    panel.legend(
        handles=[*handles, *(zone_handles() if zones else ())],
        title=f"state{' (its own number)' if renumbered else ''}: population",
        loc="upper center",
        # In points, so that it clears the label of the axis in panels of any size.
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=offset_copy(panel.transAxes, panel.figure, y=-32.0, units="points"),
        ncols=len(handles) if len(handles) <= 3 else -(-len(handles) // 2),
        fontsize="small",
        title_fontsize="small",
        handlelength=1.2,
        columnspacing=1.2,
        frameon=False,
    )


def colorbar(panel: Any, image: Any) -> None:
    """Beside the last panel and as high as it, which leaves the sizes of given axes alone."""
    panel.figure.colorbar(image, cax=panel.inset_axes((1.04, 0.0, 0.05, 1.0)), label="free energy / kT")
