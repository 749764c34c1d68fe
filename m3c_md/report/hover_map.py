"""Map of states that tells the state, its margin and its population under the pointer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from m3c_md.inputs.state_names import default_names, state_title
from m3c_md.plots.view import state_cells, usual_view
from m3c_md.report.figures import BLACK, WHITE, draw_picture
from m3c_md.report.page import Section, figure

# Cells along each axis: those that the map itself has where it shows the state of most frames.
CELLS = 60
# Of the names within the picture.
PREFIX = "map-"
CAPTION = (
    "States in colours, pale near a border; free energy of the frames in greys. Point at the map to read state, margin "
    "(the lead of its score over the second, small at a border) and population."
)
SLOW = " Slow coordinates are the directions along which the states change most."


def map_sections(models: Any, trajs: Sequence[Any], columns: Sequence[str] | None) -> list[Section]:
    """Map of the states of a model, or of a dict of them, if there are two coordinates to draw it over."""
    named: Mapping[str, Any] = models if isinstance(models, Mapping) else {"": models}
    view = usual_view(models, trajs, columns)
    if view is None:
        return []

    def draw() -> Any:
        axes = np.atleast_1d(np.asarray(view.plot(models, trajs), dtype=object)).ravel()
        for number, panel in enumerate(axes):
            panel.patch.set_gid(f"panel-{number}")
            # Pale colours and greys mean the same by night: the map keeps its white ground and its black lines.
            panel.patch.set_facecolor(WHITE)
            for lines in panel.collections:
                lines.set_edgecolor(BLACK)
        return axes

    drawn = draw_picture(draw, PREFIX, "map of the states", 1.2 if len(named) == 1 else 1.0)
    cells, limits = state_cells(named, trajs, view, CELLS)
    scripts = []
    for number, (name, model) in enumerate(named.items()):
        found = cells[name]
        content = {
            "panel": f"{PREFIX}panel-{number}",
            "n": CELLS,
            "states": found.states.ravel().tolist(),
            "margin": [float(f"{value:.2g}") for value in found.margin.ravel()],
            "names": _names(model, found.names, name),
            "populations": [f"{share:.1%}" for share in model.populations],
            "limits": limits,
            "labels": view.labels,
        }
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
        scripts.append(f'<script type="application/json" class="cells">{text}</script>')
    caption = CAPTION + (SLOW if view.labels[0].startswith("slow coordinate") else "")
    return [Section("Map", figure(drawn.svg, caption) + "".join(scripts), pictures={view.file: drawn.figure})]


def _names(model: Any, drawn_as: Any, method: str) -> list[str]:
    """What each state of a model is called where the pointer is."""
    own = state_names(model)
    before = f"{method}, " if method else ""
    return [f"{before}{name}{'' if drawn_as[k] == k else f' (like state {drawn_as[k]})'}" for k, name in enumerate(own)]


def state_names(model: Any) -> list[str]:
    """What the states of a model are called: by the names that they were given, or by their numbers.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> state_names(SimpleNamespace(n_states=2)), state_names(SimpleNamespace(n_states=1, state_names=["coil"]))
    (['state 0', 'state 1'], ['coil'])
    """
    given = getattr(model, "state_names", default_names(model.n_states))
    return [state_title(given, state) for state in range(model.n_states)]
