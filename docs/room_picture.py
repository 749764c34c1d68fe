"""Draw the arrows of a ``mermaid`` fence as SVG: pages need no network, and no script to draw a dozen boxes."""

from __future__ import annotations

import re
from typing import Any

BOX, ROW, COLUMN, HEIGHT = 90, 46, 130, 28


def arrows_of(text: str) -> list[tuple[str, str]]:
    """Return pairs (from, to) of the lines ``a --> b``."""
    return re.findall(r"(\w+) --> (\w+)", text)


def layers_of(arrows: list[tuple[str, str]]) -> list[list[str]]:
    """Return rooms from left to right, each right of all that lead to it; in a layer, near what leads to them."""
    before: dict[str, list[str]] = {}
    for source, target in arrows:
        before.setdefault(source, [])
        before.setdefault(target, []).append(source)
    depth: dict[str, int] = {}

    def depth_of(room: str) -> int:
        if room not in depth:
            depth[room] = 1 + max((depth_of(other) for other in before[room]), default=-1)
        return depth[room]

    height: dict[str, float] = {}
    layers: list[list[str]] = [[] for _ in range(1 + max(map(depth_of, before)))]
    for room in before:
        layers[depth[room]].append(room)
    for layer in layers:
        layer.sort(key=lambda room: (sum(height[o] for o in before[room]) / max(1, len(before[room])), room))
        height.update({room: place - 0.5 * len(layer) for place, room in enumerate(layer)})
    return layers


def picture(text: str) -> str:
    """Return the boxes and arrows of a fence as an inline SVG in the colour of the text around it."""
    arrows = arrows_of(text)
    layers = layers_of(arrows)
    rows = max(map(len, layers))
    place = {
        room: (i * COLUMN, ROW * (j + 0.5 * (rows - len(layer))))
        for i, layer in enumerate(layers)
        for j, room in enumerate(layer)
    }
    shapes = []
    middle = 0.5 * ROW * rows
    for source, target in arrows:
        (x, y), (u, v) = place[source], place[target]
        x, y, v, bend = x + BOX, y + HEIGHT / 2, v + HEIGHT / 2, (u - x - BOX) / 2
        # Around the boxes in between, if there are any.
        around = ROW * (0.0 if bend < COLUMN / 2 else 1.5 if y > middle else -1.5)
        shapes.append(
            f'<path d="M{x} {y}C{x + bend} {y + around} {u - bend} {v + around} {u - 7} {v}" fill="none" '
            'stroke="currentColor" opacity="0.6" marker-end="url(#tip)"/>'
        )
    for room, (x, y) in place.items():
        shapes.append(
            f'<rect x="{x}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="4" '
            'fill="var(--color-background-primary, white)" stroke="currentColor"/>'
            f'<text x="{x + BOX / 2}" y="{y + 18}" text-anchor="middle" font-size="13" fill="currentColor">'
            f"{room}</text>"
        )
    size = f"-4 {-ROW} {COLUMN * (len(layers) - 1) + BOX + 8} {ROW * (rows + 2)}"
    tip = (
        '<marker id="tip" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="currentColor"/></marker>'
    )
    drawn = "".join(shapes)
    return f'<svg viewBox="{size}" role="img" aria-label="rooms">{tip}{drawn}</svg>'


def draw_fences(_app: Any, doctree: Any) -> None:
    """Put pictures in the place of ``mermaid`` fences."""
    from docutils import nodes

    for block in list(doctree.findall(nodes.literal_block)):
        if block.get("language") == "mermaid":
            block.replace_self(nodes.raw("", picture(block.astext()), format="html"))
