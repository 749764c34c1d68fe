"""Which two coordinates a map of states is drawn over if nobody says, and the states of its cells, to be read off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.inputs.torsion_columns import Torsions
from m3c_md.plots.colors import matched_order
from m3c_md.plots.grid import majority_cells, map_domain
from m3c_md.plots.state_map import SLOW_LABELS, DrawableModel, mark_degrees, plot_state_map, slow_coordinates

RAMACHANDRAN = "ramachandran.png"


class MapView(NamedTuple):
    """Two coordinates of every frame, and how a model is asked at such a point; see `plot_state_map`.

    Attributes
    ----------
    coordinates : list of (n_frames, 2) arrays
    embed : callable or None
        Columns as a function of coordinates; None if a point of the map does not tell them.
    periodic : (float or None, float or None)
    labels : (str, str)
    """

    coordinates: list[FloatArray]
    embed: Callable[[FloatArray], FloatArray] | None
    periodic: tuple[float | None, float | None]
    labels: tuple[str, str]

    @property
    def file(self) -> str:
        """Name of a file that holds such a map."""
        return RAMACHANDRAN if self.periodic == (360.0, 360.0) else "states.png"

    def plot(self, models: Any, trajs: Sequence[Any]) -> Any:
        """Draw states of a model, or of a dict of them, over these coordinates."""
        axes = plot_state_map(models, trajs, **self._asdict())
        if self.periodic == (360.0, 360.0):
            mark_degrees(axes)
        return axes


class StateCells(NamedTuple):
    """What a reader of a map wants to know at a point of it.

    Attributes
    ----------
    states : (n, n) array of int
        State of each cell, by rows from below; -1 where there is no frame to tell.
    margin : (n, n) array
        Lead of that state over the second.
    names : (n_states,) array of int
        Number under which each of these states is drawn: that of the state of the first model that it resembles.
    """

    states: IntArray
    margin: FloatArray
    names: IntArray


def usual_view(models: Any, trajs: Sequence[Any], columns: Sequence[str] | None = None) -> MapView | None:
    """Coordinates that show the states of models: φ and ψ, the two columns, or two slow coordinates.

    Parameters
    ----------
    models : fitted model or dict of models
    trajs : list of arrays (n_frames, n_columns)
    columns : sequence of str, optional
        What the columns are called.

    Returns
    -------
    MapView or None
        None for a single column, and for many columns of which no model knows slow coordinates.

    Examples
    --------
    >>> trajs = [np.random.default_rng(0).normal(size=(10, 2))]
    >>> usual_view(None, trajs, ["a / nm", "b / nm"]).labels
    ('a / nm', 'b / nm')
    """
    arrays = [np.asarray(x, dtype=np.float64).reshape(len(x), -1) for x in trajs]
    n_columns = arrays[0].shape[1]
    named = None if columns is None else [str(name) for name in columns]
    ramachandran = None if named is None else _ramachandran(arrays, named)
    if ramachandran is not None:
        return ramachandran
    if n_columns == 2:
        labels = ("column 0", "column 1") if named is None else (named[0], named[1])
        return MapView(arrays, lambda points: points, (None, None), labels)
    slow = slow_coordinates(models if isinstance(models, Mapping) else {"": models}, arrays)
    return None if slow is None else MapView(slow, None, (None, None), SLOW_LABELS)


def _ramachandran(arrays: list[FloatArray], columns: Sequence[str]) -> MapView | None:
    """Map over the only φ and the only ψ, if there is one of each, as sine and cosine; None otherwise."""
    torsions = Torsions.among(columns)
    places = [
        [place for name, place in zip(torsions.names, torsions.places, strict=True) if name.startswith(kind)]
        for kind in ("phi ", "psi ")
    ]
    if [len(some) for some in places] != [1, 1]:
        return None
    (phi,), (psi,) = places
    if phi[1] is None or psi[1] is None:
        return None
    sines, cosines = [phi[0], psi[0]], [phi[1], psi[1]]
    degrees = [np.degrees(np.arctan2(x[:, sines], x[:, cosines])) for x in arrays]

    def embed(points: FloatArray) -> FloatArray:
        features = np.empty((len(points), len(columns)))
        radians = np.radians(points)
        features[:, sines], features[:, cosines] = np.sin(radians), np.cos(radians)
        return features

    return MapView(degrees, embed if len(columns) == 4 else None, (360.0, 360.0), ("φ / °", "ψ / °"))


def state_cells(
    models: Mapping[str, DrawableModel], trajs: Sequence[Any], view: MapView, n: int = 60
) -> tuple[dict[str, StateCells], tuple[float, float, float, float]]:
    """States and margins of the cells of a map of some models, and the limits of the map: left, right, bottom, top.

    Examples
    --------
    >>> from m3c_md import M3C
    >>> x = np.random.default_rng(0).normal(size=(400, 2)) * 0.3
    >>> x[:, 0] += np.repeat([-1.0, 1.0] * 20, 10)
    >>> model = M3C(2, random_state=0).fit_fetch(x)
    >>> cells, limits = state_cells({"": model}, [x], usual_view(model, [x]), 10)
    >>> cells[""].states.shape, bool((cells[""].margin >= 0).all())
    ((10, 10), True)
    """
    points = np.concatenate(view.coordinates)
    domain = map_domain(points, view.periodic)
    points = domain.wrap(points)
    frames = np.concatenate([np.asarray(x, dtype=np.float64).reshape(len(x), -1) for x in trajs])
    labels = {name: np.asarray(model.transform(frames)).astype(np.intp) for name, model in models.items()}
    most = max(model.n_states for model in models.values())
    reference = next(iter(labels.values()))
    found = {}
    for name, model in models.items():
        if view.embed is None:
            lead = np.asarray(model.margin(frames), dtype=np.float64)
            states, margin = majority_cells(points, labels[name], lead, domain, n)
        else:
            columns = view.embed(domain.mesh(n))  # with a border around, which contours need and nobody points at
            states, margin = (
                np.asarray(values).reshape(n + 2, n + 2)[1:-1, 1:-1]
                for values in (model.transform(columns), model.margin(columns))
            )
        found[name] = StateCells(states.astype(np.intp), margin, matched_order(reference, labels[name], most))
    return found, domain.extent
