"""Pictures as SVG inside a page: no clash of names, and colours that follow the page from light to dark.

What is drawn for the page is kept, so that a command can write the same picture to a file without drawing it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from typing import Any, NamedTuple

# What pictures draw in black, white and greys, and the darkest colours of lines, is left to the page.
PAGE_COLORS = {
    "#000000": "--ink",
    "#ffffff": "--paper",
    "#d9d9d9": "--shade",  # below the lag time
    "#cccccc": "--rule",  # frames of legends
    "#b0b0b0": "--rule",
    "#404040": "--soft",  # shares in the tree of states
    "#4c4c4c": "--soft",
    "#595959": "--soft",
    "#666666": "--soft",
    "#808080": "--soft",
    "#332288": "--indigo",
    "#117733": "--green",
    "#882255": "--wine",
}
# matplotlib's own style, whatever the user has set, with text as text: smaller, and it can be searched.
SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "m3c_md", "font.size": 10.0, "legend.framealpha": 0.7}
# Black and white that stay as they are: what is written or drawn on a ground that does not follow the page.
BLACK, WHITE = "#010101", "#fefefe"
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


class Picture(NamedTuple):
    """A picture in a page.

    Attributes
    ----------
    svg : str
        To be put into the page.
    figure : matplotlib Figure
        What was drawn; pyplot has forgotten it.
    """

    svg: str
    figure: Any


def draw_picture(draw: Callable[[], Any], prefix: str, title: str, scale: float = 1.0) -> Picture:
    """Draw a picture and make it fit for a page.

    Parameters
    ----------
    draw : callable
        Draws into a new figure and returns its axes.
    prefix : str
        Stands before all names within the picture: different ones in a page.
    title : str
        What the picture shows, for those who cannot see it.
    scale : float
        How much larger than drawn it may become.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import matplotlib.pyplot as plt
    >>> svg, figure = draw_picture(lambda: plt.subplots()[1], "f1-", "an empty picture")
    >>> svg[:5], "http" in svg, 'id="f1-figure_1"' in svg, plt.fignum_exists(figure.number)
    ('<svg ', False, True, False)
    """
    import matplotlib.pyplot as plt
    import numpy as np

    with plt.style.context("default"), plt.rc_context(SETTINGS):
        figure = np.atleast_1d(np.asarray(draw(), dtype=object)).ravel()[0].figure
        try:
            for image in (image for panel in figure.axes for image in panel.images):
                image.set_interpolation("none")  # its own pixels, which the browser scales
            text = StringIO()
            figure.savefig(text, format="svg", bbox_inches="tight", metadata=NO_METADATA, facecolor="none")
            figure.set_layout_engine("none")  # things have their places; finding them again is a third of the work
        finally:
            plt.close(figure)
    return Picture(_fitted(text.getvalue(), prefix, title, scale), figure)


def _fitted(svg: str, prefix: str, title: str, scale: float) -> str:
    """SVG of matplotlib made fit for a page."""
    from html import escape

    start = re.search(r"<svg[^>]*>", svg)
    assert start is not None, "matplotlib writes one"
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', start[0])
    assert box is not None, "matplotlib writes one"
    body = svg[start.end() :].replace("xlink:href", "href")
    body = re.sub(r'\bid="', f'id="{prefix}', body)
    body = re.sub(r"url\(#", f"url(#{prefix}", body)
    body = re.sub(r'href="#', f'href="#{prefix}', body)
    # Rules of the picture's own, which would hold for all pictures of the page.
    body = re.sub(r"<style[^>]*>.*?</style>", "", body, flags=re.DOTALL)
    # The font of the page, whatever matplotlib measured with; some of its versions write one property, some two.
    body = re.sub(r"(font-family:|\bfont:(?: \w+)* [\d.]+px) '[^;\"]*(?=[;\"])", r"\1 var(--figure-font)", body)
    for color, variable in PAGE_COLORS.items():
        body = body.replace(f"{color};", f"var({variable});").replace(f'{color}"', f'var({variable})"')
    wide, high = float(box[1]), float(box[2])
    style = f"max-width: {scale * wide * 4 / 3:.0f}px; aspect-ratio: {wide:g} / {high:g}"
    return f'<svg viewBox="0 0 {wide:g} {high:g}" style="{style}" role="img" aria-label="{escape(title)}">{body}'
