"""Pictures of a comparison of methods, and of a scan over the number of states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from m3c_md.exceptions import InputError
from m3c_md.plots.axes import panels, plain_log_ticks, single_axes
from m3c_md.plots.colors import series_style, state_color

if TYPE_CHECKING:
    import pandas as pd


def plot_metastability(
    splits: pd.DataFrame, *, lagtime: int = 1, dt: float = 1.0, unit: str = "frame", ax: Any = None
) -> Any:
    """Draw Q of every method: a dot for every split, the mean, and the spread (standard deviation) as a bar.

    Parameters
    ----------
    splits : DataFrame
        With columns "method" and "Q", as in `Comparison.splits`.
    lagtime, dt, unit
        Lag time of Q in frames, and the time between frames.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import pandas as pd
    >>> table = pd.DataFrame({"method": ["M3C", "M3C", "PCCA+", "PCCA+"], "Q": [2.9, 2.92, 2.88, 2.9]})
    >>> [label.get_text() for label in plot_metastability(table).get_yticklabels()]
    ['M3C', 'PCCA+']
    """
    methods = list(dict.fromkeys(splits["method"]))
    axis = single_axes(ax, (5.0, 0.8 + 0.42 * len(methods)))
    for row, method in enumerate(methods):
        values = splits.loc[splits["method"] == method, "Q"].dropna().to_numpy()
        style = series_style(row)
        axis.plot(values, np.full(len(values), row), ls="", ms=4, mfc="none", **style)
        if len(values):
            spread = values.std(ddof=1) if len(values) > 1 else 0.0
            axis.errorbar(values.mean(), row, xerr=spread, ms=8, capsize=3, **style)
    axis.set_yticks(range(len(methods)), methods)
    axis.set_ylim(len(methods) - 0.5, -0.5)
    axis.locator_params(axis="x", nbins=4)  # values may differ in the fourth digit only, and marks then are long
    axis.set_xlabel(f"held-out metastability Q at lag time {lagtime * dt:g} {unit}")
    axis.grid(axis="x", alpha=0.3)
    return axis


def plot_scan(table: pd.DataFrame, *, lagtime: int = 1, dt: float = 1.0, unit: str = "frame", axes: Any = None) -> Any:
    """Draw timescales, stability and populations against the number of states.

    Parameters
    ----------
    table : DataFrame
        As in `StateScan.table`.
    lagtime, dt, unit
        Lag time in frames, and the time between frames.
    axes : three matplotlib axes, optional

    Returns
    -------
    array of three matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import pandas as pd
    >>> row = {"t2 / ps": 20.0, "stability": 0.9, "least stability": 0.8, "populations": [0.6, 0.4]}
    >>> axes = plot_scan(pd.DataFrame([row], index=pd.Index([2], name="n_states")), unit="ps")
    >>> axes[0].get_ylabel()
    'implied timescale / ps'
    """
    left, middle, right = axes = panels(axes, (1, 3), "property", (11.0, 3.4))[0]
    numbers = table.index.to_numpy()
    columns = [column for column in table.columns if column.startswith("t") and column.endswith(f"/ {unit}")]
    if not columns:
        raise InputError(f"the table has no timescales in unit={unit!r}, only {', '.join(map(str, table.columns))}")
    for i, column in enumerate(columns):
        left.plot(numbers, table[column], label=f"$t_{{{column[1:].split(' ')[0]}}}$", **series_style(i))
    left.axhspan(0.0, lagtime * dt, color="0.8", zorder=0)
    left.set(yscale="log", ylabel=f"implied timescale / {unit}")
    plain_log_ticks(left.yaxis)
    left.legend(fontsize="small", ncols=2)
    low = (table["stability"] - table["least stability"]).clip(lower=0.0)  # a mean can round to below its smallest part
    middle.errorbar(numbers, table["stability"], yerr=[low, np.zeros(len(low))], fmt="o-", color="0.3", capsize=3)
    middle.set(ylim=(0.0, 1.05), ylabel="adjusted Rand index of fits to halves")
    for n, shares in zip(numbers, table["populations"], strict=True):
        bottom = 0.0
        for state, share in enumerate(shares):
            right.bar(n, share, bottom=bottom, color=state_color(state), edgecolor="white", linewidth=0.5)
            bottom += share
    right.set(ylim=(0.0, 1.0), ylabel="population of the states")
    for axis in axes:
        axis.set_xlabel("number of states")
        axis.set_xticks(numbers)
    return axes
