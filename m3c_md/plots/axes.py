"""What the pictures share: new or given axes, plain numbers on log axes, units of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from m3c_md.exceptions import InputError

# Marks of a log axis over up to so many decades; beyond, only powers of ten.
FINE_MARKS = ((1.0, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)), (2.5, (1.0, 2.0, 5.0)))
# Maps that fit into one row, and how many a row has if there are more: on a page of a report they stay readable.
MOST_MAPS, MAPS_OF_MANY = 4, 3


def panels(given: Any, shape: tuple[int, int], what: str, size: tuple[float, float], **subplots: Any) -> Any:
    """Axes of a picture of several panels: those given, if there are enough of them, or those of a new figure.

    Parameters
    ----------
    given : None, axes, or (nested) sequence of axes
    shape : (int, int)
        Rows and columns that are needed.
    what : str
        What a panel shows, for the error message.
    size : (float, float)
        Of a new figure, in inches.
    **subplots
        Passed to ``plt.subplots``.

    Returns
    -------
    array of axes with ``shape``
    """
    import matplotlib.pyplot as plt

    if given is None:
        return np.asarray(plt.subplots(*shape, figsize=size, squeeze=False, layout="constrained", **subplots)[1])
    axes = np.asarray(given, dtype=object)
    wanted = shape[0] * shape[1]
    if axes.size != wanted:
        raise InputError(
            f"{axes.size} axes were given, but {wanted} are needed, one per {what}; make them with "
            f"plt.subplots({shape[0]}, {shape[1]}) or leave them out"
        )
    return axes.reshape(shape)


def map_panels(given: Any, n_models: int) -> tuple[Any, Any, Any]:
    """Panels of maps side by side, in rows of three where they would become too small to read.

    Those on the left come back once more, and the one at the right end of the first row.

    Examples
    --------
    >>> panels, firsts, corner = map_panels(None, 5)
    >>> len(panels), len(firsts), corner is panels[2]
    (5, 2, True)
    """
    n_columns = MAPS_OF_MANY if given is None and n_models > MOST_MAPS else n_models
    shape = (-(-n_models // n_columns), n_columns)
    size = (3.5 * n_columns + 1.1, 4.5 * shape[0])
    axes = panels(given, shape, "model", size, sharex=True, sharey=True).ravel()
    for panel in axes[n_models:]:
        panel.remove()
    for panel in axes[:n_models]:
        panel.tick_params(labelbottom=True)
    return axes[:n_models], axes[:n_models:n_columns], axes[n_columns - 1]


def single_axes(ax: Any, size: tuple[float, float]) -> Any:
    """Axes of a picture of one panel: the given one or that of a new figure."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def plain_log_ticks(*axes: Any) -> None:
    """Mark log axes in plain numbers such as 1, 2, 5, 10; at powers of ten where these would be too many."""
    from matplotlib.ticker import FuncFormatter, LogFormatterMathtext, LogLocator, NullFormatter

    for axis in axes:
        low, high = axis.get_view_interval()
        decades = np.log10(high / low) if low > 0 else np.inf
        marks = next((digits for most, digits in FINE_MARKS if decades <= most), None)
        axis.set_major_locator(LogLocator(subs=marks or (1.0,)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}") if marks else LogFormatterMathtext())
        axis.set_minor_formatter(NullFormatter())


def time_units(results: Sequence[Any]) -> tuple[list[float], str]:
    """Time between frames of each result, and the unit that they share; frames where they do not say.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> time_units([SimpleNamespace(dt=2.0, unit="ps"), SimpleNamespace(dt=0.5, unit="ps")])
    ([2.0, 0.5], 'ps')
    """
    units = {str(getattr(result, "unit", "frame")) for result in results}
    if len(units) > 1:
        raise InputError(f"times come in different units, {sorted(units)}; compute them all with the same unit")
    return [float(getattr(result, "dt", 1.0)) for result in results], units.pop()
