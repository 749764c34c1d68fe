"""Maps of a decomposition of a two-dimensional space, and of the search that led to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from m3c_md.exceptions import InputError
from m3c_md.inputs import as_trajectories

if TYPE_CHECKING:
    from m3c_md.clustering.model import M3CModel

# Okabe and Ito's colours: told apart by colour-blind readers, and the same for a state in every picture.
STATE_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")


def state_color(state: int) -> str:
    """Colour of a state.

    Examples
    --------
    >>> state_color(0) == state_color(8)
    True
    """
    return STATE_COLORS[state % len(STATE_COLORS)]


def plot_decomposition(
    model: M3CModel,
    data: Any,
    *,
    ax: Any = None,
    labels: tuple[str, str] = ("$x_1$", "$x_2$"),
    resolution: int = 300,
    max_points: int = 4000,
) -> Any:
    """Draw the states of a model on two coordinates: regions, the margin around the boundaries, and the frames.

    Parameters
    ----------
    model : M3CModel
        Fitted to two columns.
    data : array (n_frames, 2) or list of them
        Frames to draw; they also set the limits of the axes.
    ax : matplotlib axes, optional
        Where to draw; a new figure by default.
    labels : (str, str)
        Names of the axes, with units.
    resolution : int
        Points of the map along each axis.
    max_points : int
        Frames drawn, equally spaced in time.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from m3c_md import M3C
    >>> x = np.random.default_rng(0).normal(size=(400, 2)) * 0.3
    >>> x[:, 0] += np.repeat([-1.0, 1.0, -1.0, 1.0], 100)
    >>> ax = plot_decomposition(M3C(2, random_state=0).fit_fetch(x), x)
    >>> ax.get_xlabel()
    '$x_1$'
    """
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_rgb

    if model.feature_map.n_columns != 2:
        raise InputError(
            f"a map needs a model of two columns, this one has {model.feature_map.n_columns}; fit two coordinates"
        )
    frames = np.concatenate(as_trajectories(data, 2))
    low, high = frames.min(axis=0), frames.max(axis=0)
    margin = 0.05 * (high - low)
    axes = [np.linspace(low[i] - margin[i], high[i] + margin[i], resolution) for i in range(2)]
    grid = np.stack(np.meshgrid(*axes), axis=-1)
    states = model.transform(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    lead = np.minimum(model.margin(grid.reshape(-1, 2)), 1.0).reshape(grid.shape[:2])

    axis = plt.subplots(figsize=(5.0, 4.2), layout="constrained")[1] if ax is None else ax
    colors = np.array([to_rgb(state_color(k)) for k in range(model.n_states)])
    # The margin as saturation: full colour where the rule is sure, white on a boundary.
    strength = (0.15 + 0.45 * lead)[..., None]
    extent = (axes[0][0], axes[0][-1], axes[1][0], axes[1][-1])
    axis.imshow(1.0 - strength * (1.0 - colors[states]), extent=extent, origin="lower", aspect="auto")
    shown = frames[:: -(-len(frames) // max_points)]
    shown_states = model.transform(shown)
    for state in range(model.n_states):
        points = shown[shown_states == state]
        name = f"state {state} ({model.populations[state]:.0%})"
        axis.scatter(points[:, 0], points[:, 1], s=3, color=state_color(state), linewidths=0, label=name)
        if 0 < np.count_nonzero(states == state) < states.size:
            axis.contour(axes[0], axes[1], states == state, levels=[0.5], colors="black", linewidths=1.0)
    axis.set(xlabel=labels[0], ylabel=labels[1], xlim=extent[:2], ylim=extent[2:])
    axis.legend(loc="upper right", markerscale=3, fontsize="small", framealpha=0.9)
    return axis


def plot_candidates(model: M3CModel, *, ax: Any = None) -> Any:
    """Draw the score of every candidate against its bandwidth, one line per start; the winner has a ring.

    Degenerate candidates are crosses; hollow marks were judged on a sample of the windows only.

    Returns
    -------
    matplotlib axes
    """
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = plt.subplots(figsize=(5.0, 4.2), layout="constrained")[1] if ax is None else ax
    table = model.candidates
    everything = table["windows"].max()
    for number, (start, rows) in enumerate(table.groupby("start", sort=True)):
        color = state_color(number)
        rows = rows.sort_values("bandwidth")
        axis.plot(rows["bandwidth"], rows["score"], color=color, lw=1.0, label=start)
        for marker, chosen, face in (
            ("x", rows["degenerate"], color),
            ("o", ~rows["degenerate"] & (rows["windows"] < everything), "white"),
            ("o", ~rows["degenerate"] & (rows["windows"] == everything), color),
        ):
            part = rows[chosen]
            axis.plot(part["bandwidth"], part["score"], marker, ms=6, mfc=face, mec=color, zorder=3)
    axis.scatter(table["bandwidth"][0], table["score"][0], s=140, facecolors="none", edgecolors="black", zorder=4)
    axis.set(
        xscale="log", yscale="log", xlabel="bandwidth σ (units of the scaled columns)", ylabel="score (lower is better)"
    )
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    for one in (axis.xaxis, axis.yaxis):
        one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        one.set_minor_formatter(NullFormatter())
    axis.legend(title="start", fontsize="small", loc="best")
    return axis
