"""Implied timescales of several methods side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from m3c_md.confidence import confidence_band
from m3c_md.exceptions import InputError
from m3c_md.inputs.settings import check_integer
from m3c_md.plots.axes import panels, plain_log_ticks, time_units
from m3c_md.plots.colors import series_style

# Panels drawn unless more are asked for: a model on micro states has a process for every one of them.
MOST_PROCESSES = 5
# Of processes in one axes; dashes are for exact values.
LINE_STYLES = ("-", ":", "-.", (0, (3, 1, 1, 1, 1, 1)))
# Lag times that differ by a larger factor are drawn on a logarithmic axis.
MOST_LINEAR = 20.0


def plot_implied_timescales(
    timescales: Any, *, ax: Any = None, n_timescales: int | None = None, exact: Sequence[float] | None = None
) -> Any:
    """Draw implied timescales against the lag time: a panel per process, a line with a 95 % band per method.

    Parameters
    ----------
    timescales : ImpliedTimescales or dict of them
        deeptime's (values in frames) or a subclass; ``dt`` and ``unit`` attributes give the axes their unit. The keys
        of a dict are the names of the methods.
    ax : matplotlib axes or array of them, optional
        One axes takes all processes, told apart by the style of the lines; an array needs one per process. A new
        figure by default.
    n_timescales : int, optional
        Number of processes; by default all that some method has, at most 5.
    exact : sequence of float, optional
        Known relaxation times in units of the axes, slowest first: dashed lines.

    Returns
    -------
    array of axes, or ``ax`` if it was given

    Notes
    -----
    The axis of lag times is logarithmic where the longest is more than twenty times the shortest: timescales rise at
    the short ones. Inside the grey area a timescale is shorter than the lag time, and not resolved. Bands that reach
    the upper or lower edge may go on beyond it.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from deeptime.util.validation import ImpliedTimescales
    >>> result = ImpliedTimescales([1, 2, 4], [[20.0, 3.0], [21.0, 3.1], [22.0, 3.2]])
    >>> axes = plot_implied_timescales({"M3C": result}, exact=[22.0, 3.2])
    >>> [panel.get_title() for panel in axes]
    ['$t_{2}$', '$t_{3}$']
    """
    methods = dict(timescales) if isinstance(timescales, Mapping) else {"": timescales}
    _check(methods)
    most = max(one.max_n_processes for one in methods.values())
    count = (
        min(most, MOST_PROCESSES) if n_timescales is None else min(most, check_integer("n_timescales", n_timescales, 1))
    )
    steps, unit = time_units(list(methods.values()))
    together = ax is not None and np.ndim(np.asarray(ax, dtype=object)) == 0
    known = [] if exact is None else [float(value) for value in exact][:count]
    limits = _limits(list(zip(methods.values(), steps, strict=True)), count, known)
    axes = panels(ax, (1, 1 if together else count), "process", (3.4 * count + 0.6, 3.4), sharex=True, sharey=True)[0]
    for process in range(count):
        panel = axes[0 if together else process]
        for number, ((name, result), dt) in enumerate(zip(methods.items(), steps, strict=True)):
            line = LINE_STYLES[process % len(LINE_STYLES)] if together else "-"
            label = name if process == 0 or not together else "_"
            _draw(panel, result, process, dt, line, label, number, limits)
        if process < len(known):
            first = process == 0 or not together
            panel.axhline(known[process], color="black", ls=(0, (6, 3)), lw=1.0, label="exact" if first else "_")
        panel.set_title("" if together else f"$t_{{{process + 2}}}$")
    lags = np.concatenate([result.lagtimes * dt for result, dt in zip(methods.values(), steps, strict=True)])
    _finish(axes, (lags.min(), lags.max()), limits, unit)
    _legend(axes[0], count if together else 0)
    return axes if ax is None else ax


def _check(methods: Mapping[str, Any]) -> None:
    if not methods:
        raise InputError("timescales is an empty dict; give at least one {name: ImpliedTimescales}")
    for name, one in methods.items():
        if not all(hasattr(one, part) for part in ("lagtimes", "timescales_for_process", "max_n_processes")):
            raise InputError(
                f"timescales{f' of {name!r}' if name else ''} is a {type(one).__name__}; give deeptime "
                "ImpliedTimescales, e.g. deeptime.util.validation.implied_timescales(models)"
            )


def _limits(results: list[tuple[Any, float]], count: int, known: list[float]) -> tuple[float, float]:
    """Limits of the timescales: room for all lines, not for bands without end.

    Sampled timescales can be zero or infinite. Bands are cut at ten times the largest value of all lines, and lines and
    bands at a tenth of the shortest lag time, where nothing is resolved anyway.
    """
    lags = np.concatenate([result.lagtimes * dt for result, dt in results])
    drawn, tops = [*lags, *known], []
    for result, dt in results:
        for process in range(min(count, result.max_n_processes)):
            drawn += [*(result.timescales_for_process(process) * dt)]
            if result.has_samples:
                tops += [*(confidence_band(result.samples_for_process(process))[1] * dt)]
    usable = [value for value in drawn if np.isfinite(value) and value > 0.0]
    highest = max(usable)
    tops = [min(value, 10.0 * highest) for value in tops if not np.isnan(value)]
    return max(0.8 * min(usable), 0.1 * lags.min()), 1.2 * max([highest, *tops])


def _draw(
    panel: Any,
    result: Any,
    process: int,
    dt: float,
    line: Any,
    label: str,
    number: int,
    limits: tuple[float, float],
) -> None:
    """One process of one method; a method without it has no line, but keeps its place in the legend."""
    lags = result.lagtimes * dt
    style = series_style(number)
    values = np.full(len(lags), np.nan)
    if process < result.max_n_processes:
        values = result.timescales_for_process(process) * dt
        if result.has_samples:
            low, high = confidence_band(result.samples_for_process(process))
            panel.fill_between(lags, *np.clip([low * dt, high * dt], *limits), color=style["color"], alpha=0.2, lw=0)
    # The first lines are the thickest, so that those on top of them do not hide them.
    width = max(1.0, 2.6 - 0.7 * number)
    panel.plot(lags, values, ls=line, lw=width, ms=2.5 + 1.8 * width, label=label or "_", **style)


def _finish(axes: Any, lags: tuple[float, float], limits: tuple[float, float], unit: str) -> None:
    """Limits, the grey area below the lag time, units; ``lags`` are the shortest and the longest."""
    is_wide = lags[1] > MOST_LINEAR * lags[0]
    left, right = (lags[0] / 1.15, 1.15 * lags[1]) if is_wide else (0.0, 1.04 * lags[1])
    times = np.geomspace(left, right, 400) if is_wide else np.linspace(right / 400, right, 400)
    for panel in axes:
        panel.set(yscale="log", xlim=(left, right), ylim=limits, xlabel=f"lag time / {unit}")
        if is_wide:
            panel.set_xscale("log")
            plain_log_ticks(panel.xaxis)
        panel.fill_between(times, np.minimum(limits[0], times), times, color="0.85", lw=0, zorder=0)
        plain_log_ticks(panel.yaxis)
    axes[0].set_ylabel(f"implied timescale / {unit}")


def _legend(panel: Any, n_styles: int) -> None:
    """Legend of methods, and of the processes where one axes holds them all."""
    from matplotlib.lines import Line2D

    handles, labels = panel.get_legend_handles_labels()
    if n_styles > 1:
        styles = [Line2D([], [], color="0.3", ls=LINE_STYLES[i % len(LINE_STYLES)]) for i in range(n_styles)]
        handles, labels = handles + styles, labels + [f"$t_{{{i + 2}}}$" for i in range(n_styles)]
    if handles:
        panel.legend(handles, labels, fontsize="small", loc="best")
