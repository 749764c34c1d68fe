"""Figures of the report, drawn from the rows of the studies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import ablations
import diffusion
import matplotlib.pyplot as plt
import molecules
import numpy as np
import sequences
from matplotlib.colors import ListedColormap
from tables import FloatArray, Table, paired

from m3c_md.plots import STATE_COLORS, matched_order
from m3c_md.plots.colors import series_style
from m3c_md.systems import exact_reference

GEOMETRIC = ("MMC", "k-medoids")
DPI = 110
ERROR_TICKS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0)
# Maps of Model I and Model II: the paper's figures, in its order, and what its text describes.
MAPPED = {
    "Model I": ("M3C", "PCCA+ (10)", "MMC", "k-medoids", "MMC.paper from M3C", "M3C.paper, random start"),
    "Model II": ("M3C", "PCCA+ (20)", "MMC", "k-medoids", "MMC.paper from M3C", "M3C.paper, random start"),
}


def save(figure: Any, folder: Path, name: str) -> None:
    figure.savefig(folder / f"{name}.png", dpi=DPI)
    plt.close(figure)


def shown_methods(table: Table, system: str, column: str, *, larger: bool = True) -> list[str]:
    """M3C, PCCA+ with its best bin number, and the geometric methods, as far as there are results."""
    best = table.best_pcca(system, column, larger=larger)
    wanted = ["M3C", *([best] if best else []), *GEOMETRIC]
    return [name for name in wanted if table.all(system, name)]


def draw_bands(axis: Any, lags: Sequence[float], values: FloatArray, name: str, number: int) -> None:
    """Mean and standard deviation over experiments of one timescale against the lag time."""
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    style = series_style(number)
    axis.plot(lags, mean, label=name, markersize=4, linewidth=1.3, **style)
    axis.fill_between(lags, np.maximum(mean - deviation, 0.0), mean + deviation, color=style["color"], alpha=0.15, lw=0)


def timescale_panel(
    axis: Any, table: Table, system: str, process: int, lags: Sequence[float], unit: str, exact: float | None
) -> None:
    for number, method in enumerate(shown_methods(table, system, "Q")):
        rows = [row["timescales"] for row in table.all(system, method) if "timescales" in row]
        if rows:
            draw_bands(axis, lags, np.array(rows, dtype=float)[:, :, process], method, number)
    if exact is not None:
        axis.axhline(exact, color="black", linestyle="--", linewidth=1.0, label="exact")
    axis.fill_between(lags, 0.0, lags, color="0.85", linewidth=0)
    axis.set(xscale="log", xlabel=f"lag time ({unit})", ylabel=f"$t_{process + 2}$ ({unit})", title=system)
    axis.set_xlim(lags[0], lags[-1])
    axis.set_xticks(lags, [f"{lag:g}" for lag in lags], minor=False)
    axis.minorticks_off()
    axis.set_ylim(0.0, 1.35 * axis.get_ylim()[1])  # room for the legend
    axis.legend(fontsize="x-small", ncols=2, loc="upper left")


def draw_diffusion(table: Table, folder: Path) -> None:
    draw_diffusion_timescales(table, folder)
    draw_maps(table, folder)


def draw_diffusion_timescales(table: Table, folder: Path) -> None:
    """The paper's figures of implied timescales, exact at every lag time."""
    systems = table.systems()
    figure, axes = plt.subplots(len(systems), 2, figsize=(9.0, 3.4 * len(systems)), layout="constrained", squeeze=False)
    for line, system in zip(axes, systems, strict=True):
        model = diffusion.MODELS[system]
        known = exact_reference(model).relaxation_times(2)
        lags = [lag * model.interval for lag in diffusion.LAGS[system]]
        for process, axis in enumerate(line):
            timescale_panel(axis, table, system, process, lags, "time units", float(known[process]))
    save(figure, folder, "diffusion_timescales")


def draw_maps(table: Table, folder: Path) -> None:
    """Decompositions of the first experiment of which there are maps, beside the best one."""
    systems = [system for system in table.systems() if any("map" in row for row in table.all(system, "M3C"))]
    panels = {system: maps_of(table, system) for system in systems}
    width = max((len(found) for found in panels.values()), default=0)
    if not width:
        return
    size = (2.2 * width, 2.9 * len(systems))
    figure, axes = plt.subplots(len(systems), width, figsize=size, layout="constrained", squeeze=False)
    for line, (system, found) in zip(axes, panels.items(), strict=True):
        for axis in line[len(found) :]:
            axis.set_axis_off()
        for axis, (title, cells) in zip(line, found.items(), strict=False):
            draw_map(axis, system, cells, title)
        line[0].set_ylabel(f"{system}\n$x_2$")
    save(figure, folder, "diffusion_maps")


def maps_of(table: Table, system: str) -> dict[str, FloatArray]:
    """States of the reference cells by title, in the colours of the best partition."""
    model = diffusion.MODELS[system]
    reference = exact_reference(model)
    best = reference.best_partition(model.n_states, model.interval)
    found: dict[str, Any] = {f"best, Q {reference.metastability(best, model.interval):.4f}": best}
    for method in MAPPED[system]:
        row = next((row for row in table.all(system, method) if "map" in row), None)
        if row is not None:
            cells = diffusion.unpacked(row["map"])
            order = matched_order(best, cells.astype(int), model.n_states)
            found[f"{method}\nQ {row['Q']:.4f}"] = order[cells]
    return found


def draw_map(axis: Any, system: str, cells: FloatArray, title: str) -> None:
    model = diffusion.MODELS[system]
    points = exact_reference(model).points
    x, y = (np.unique(points[:, i].round(9)) for i in (0, 1))
    states = np.asarray(cells).reshape(len(x), len(y)).T
    colors = ListedColormap(list(STATE_COLORS[: model.n_states]))
    axis.pcolormesh(x, y, states, cmap=colors, vmin=-0.5, vmax=model.n_states - 0.5, alpha=0.5, rasterized=True)
    energy = np.asarray(model.potential(points)).reshape(len(x), len(y)).T
    axis.contour(x, y, energy - energy.min(), levels=np.arange(1.0, 9.0, 1.5), colors="black", linewidths=0.5)
    axis.set(xlabel="$x_1$")
    axis.set_title(title, fontsize=7.5)


def draw_sequences(table: Table, folder: Path) -> None:
    """Test errors of all sequences."""
    systems = table.systems()
    figure, axes = plt.subplots(1, len(systems), figsize=(3.6 * len(systems), 3.6), layout="constrained", squeeze=False)
    for axis, system in zip(axes[0], systems, strict=True):
        names = table.methods(system, sequences.METHODS)
        draw_strips(axis, table, system, names, "test_error")
        axis.set(xlabel="test error (%)", title=system)
        axis.set_xscale("symlog", linthresh=1.0)
        low, high = axis.get_xlim()
        axis.set_xticks([tick for tick in ERROR_TICKS if low <= tick <= high], minor=False)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_xlim(low, high)
    save(figure, folder, "sequences")


def draw_strips(axis: Any, table: Table, system: str, names: Sequence[str], column: str) -> None:
    """One dot per experiment and a bar at the mean, a line per method."""
    rng = np.random.default_rng(0)
    for place, name in enumerate(reversed(names)):
        values = table.values(system, name, column)
        color = series_style(0)["color"] if name == "M3C" else "0.4"
        axis.plot(values, place + rng.uniform(-0.2, 0.2, len(values)), ".", color=color, markersize=4, alpha=0.6)
        if len(values):
            axis.plot([values.mean()] * 2, [place - 0.35, place + 0.35], color=color, linewidth=2.0)
    axis.set_yticks(range(len(names)), list(reversed(names)), fontsize="x-small")
    axis.grid(axis="x", color="0.9")


def draw_molecules(table: Table, folder: Path) -> None:
    """Held-out Q of every fit, and the slowest implied timescale on held-out trajectories."""
    systems = table.systems()
    figure, axes = panels(len(systems))
    for axis, system in zip(axes, systems, strict=True):
        draw_strips(axis, table, system, table.methods(system, molecules.METHODS), "Q")
        axis.set(xlabel="held-out Q", title=system)
    save(figure, folder, "molecules_q")
    figure, axes = panels(len(systems))
    for axis, system in zip(axes, systems, strict=True):
        lags, unit = lag_times(table, system)
        timescale_panel(axis, table, system, 0, lags, unit, None)
    save(figure, folder, "molecules_timescales")


def panels(count: int, height: float = 3.4) -> tuple[Any, list[Any]]:
    """Axes in lines of three, those left over switched off."""
    lines = -(-count // 3)
    figure, axes = plt.subplots(lines, 3, figsize=(12.0, height * lines), layout="constrained", squeeze=False)
    for axis in axes.ravel()[count:]:
        axis.set_axis_off()
    return figure, list(axes.ravel()[:count])


def lag_times(table: Table, system: str) -> tuple[list[float], str]:
    row = next(row for row in table.rows if row["system"] == system and "lag_times" in row)
    return row["lag_times"], row["unit"]


def draw_ablations(table: Table, folder: Path) -> None:
    """Paired differences to the default with 95 % confidence intervals, better to the right."""
    systems = [system for system in table.systems() if table.by_seed(system, ablations.BASELINE, "quality")]
    most = max(len(table.methods(system, ablations.METHODS)) for system in systems)
    figure, axes = panels(len(systems), 1.2 + 0.15 * most)
    for axis, system in zip(axes, systems, strict=True):
        draw_forest(axis, table, system)
    save(figure, folder, "ablations")


def draw_forest(axis: Any, table: Table, system: str) -> None:
    sequential = system in sequences.DATA_SETS
    default = table.by_seed(system, ablations.BASELINE, "quality")
    names = [name for name in table.methods(system, ablations.METHODS) if name != ablations.BASELINE]
    for place, name in enumerate(reversed(names)):
        difference = paired(table.by_seed(system, name, "quality"), default)
        if difference is not None:
            low, high = difference.interval()
            clear = low > 0.0 or high < 0.0
            axis.plot([low, high], [place, place], color="black" if clear else "0.6", linewidth=1.2)
            axis.plot(difference.mean, place, "o", color="black" if clear else "0.6", markersize=3)
    axis.axvline(0.0, color=series_style(1)["color"], linewidth=1.0)
    axis.set_yticks(range(len(names)), list(reversed(names)), fontsize="xx-small")
    axis.set_title(f"{system}, {len(default)} experiments", fontsize="small")
    axis.set_xlabel("variant - default, test error (%)" if sequential else "variant - default, Q", fontsize="small")
    axis.tick_params(axis="x", labelsize="x-small")
    axis.locator_params(axis="x", nbins=6)
    axis.grid(axis="x", color="0.92")
    if sequential:  # fewer errors are better, and better is to the right
        axis.invert_xaxis()
