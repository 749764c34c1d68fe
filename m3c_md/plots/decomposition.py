"""The states of a model of two columns, with the frames on top."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from m3c_md.exceptions import InputError
from m3c_md.inputs.dataset import Dataset
from m3c_md.inputs.state_names import state_title
from m3c_md.plots.axes import single_axes
from m3c_md.plots.colors import state_color
from m3c_md.plots.grid import map_domain, nearness
from m3c_md.plots.state_map import DrawableModel
from m3c_md.plots.uncertainty import borders_by_name, draw_zones, zone_handles


class ModelOfColumns(DrawableModel, Protocol):
    """A model that knows how many columns it was fitted to."""

    @property
    def n_columns(self) -> int:
        """Number of columns."""

    @property
    def state_names(self) -> list[str]:
        """What the states are called."""


def plot_decomposition(
    model: ModelOfColumns,
    data: Any,
    *,
    ax: Any = None,
    labels: tuple[str, str] = ("$x_1$", "$x_2$"),
    uncertainty: Any = None,
    resolution: int = 300,
    max_points: int = 4000,
) -> Any:
    """Draw the states of a model on two coordinates: regions, the margin around the boundaries, and the frames.

    Colours are pale near a boundary and where no frame is. For models of more columns see `plot_state_map` (slow
    coordinates) and `plot_residues` (φ and ψ of every residue).

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
    uncertainty : ResampledRules, optional
        What `m3c_md.validation.refit` returns: zones are hatched in which 5 %, or 25 %, of the rules that were fitted
        to resampled trajectories give another state than that of the fit.
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
    >>> x[:, 0] += np.repeat([-1.0, 1.0] * 20, 10)
    >>> ax = plot_decomposition(M3C(2, random_state=0).fit_fetch(x), x)
    >>> ax.get_xlabel()
    '$x_1$'
    """
    from matplotlib.colors import to_rgb

    if model.n_columns != 2:
        raise InputError(
            f"frames are drawn on the plane of two columns, this model has {model.n_columns}; "
            "plot_state_map(model, data) draws its states over two slow coordinates, and plot_residues(model, data) "
            "over phi and psi of every residue"
        )
    rules = borders_by_name(uncertainty, {"": model})
    frames = np.concatenate(Dataset.of(data, 2).arrays())
    domain = map_domain(frames, None)
    axes = [np.linspace(domain.low[i], domain.high[i], resolution) for i in range(2)]
    grid = np.stack(np.meshgrid(*axes), axis=-1)
    states = model.transform(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    lead = np.minimum(model.margin(grid.reshape(-1, 2)), 1.0).reshape(grid.shape[:2])

    axis = single_axes(ax, (5.0, 4.2))
    colors = np.array([to_rgb(state_color(k)) for k in range(model.n_states)])
    # Full colour where frames are and the rule is sure; pale on a boundary, and where the rule is a mere guess.
    strength = (0.15 + 0.45 * lead * nearness(frames, domain, resolution))[..., None]
    extent = (axes[0][0], axes[0][-1], axes[1][0], axes[1][-1])
    axis.imshow(1.0 - strength * (1.0 - colors[states]), extent=extent, origin="lower", aspect="auto")
    shown = frames[:: -(-len(frames) // max_points)]
    shown_states = model.transform(shown)
    for state in range(model.n_states):
        points = shown[shown_states == state]
        name = f"{state_title(model.state_names, state)} ({model.populations[state]:.0%})"
        axis.scatter(points[:, 0], points[:, 1], s=3, color=state_color(state), linewidths=0, label=name)
        if 0 < np.count_nonzero(states == state) < states.size:
            axis.contour(axes[0], axes[1], states == state, levels=[0.5], colors="black", linewidths=1.0)
    if rules:
        shares = np.asarray(rules[""].border_uncertainty(grid.reshape(-1, 2))).reshape(grid.shape[:2])
        draw_zones(axis, axes[0], axes[1], shares)
    axis.set(xlabel=labels[0], ylabel=labels[1], xlim=extent[:2], ylim=extent[2:])
    handles = [*axis.get_legend_handles_labels()[0], *(zone_handles() if rules else ())]
    axis.legend(handles=handles, loc="upper right", markerscale=3, fontsize="small", framealpha=0.9)
    return axis
