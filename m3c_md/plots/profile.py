"""What is in the states: Ramachandran maps by residue and state, and a heat map of residues by states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from m3c_md.exceptions import InputError
from m3c_md.inputs.dihedral_names import KINDS, dihedral_of
from m3c_md.inputs.state_names import state_title
from m3c_md.plots.axes import panels
from m3c_md.plots.colors import state_color

if TYPE_CHECKING:
    from m3c_md.arrays import FloatArray

# Residues of a grid that is still readable.
MOST_RESIDUES = 8
# Cells with less than this share of the fullest one are as pale as it gets: three powers of e.
PALEST = 3.0
# Longer names of states are turned.
LETTERS = 4
SYMBOLS = {"phi": "φ", "psi": "ψ", "omega": "ω", **{f"chi{n}": f"χ{n}" for n in range(1, 5)}}
# Inches of a row, and of the lowest and the highest figure.
ROW, LOWEST, HIGHEST = 0.24, 2.0, 14.0
# Colours of -180, -90, 0 and 90°, between which others lie: told apart by colour-blind readers, and none paler than the
# others, since paleness means a wide spread.
WHEEL = ("#4477AA", "#228833", "#CCBB44", "#EE6677")
# Helix or strand has a panel if a residue of a state is in it in more than this share of the frames.
LEAST_SHARE = 0.01


def plot_profile(profile: Any, *, ax: Any = None) -> Any:
    """Draw residues by states: the mean of every torsion as a colour and, where it is known, helix and strand.

    Colours of means go around in a circle, as angles do; they are the paler the wider an angle is spread. Numbers are
    degrees and per cent.

    Parameters
    ----------
    profile : StateProfile
    ax : sequence of matplotlib axes, optional
        One for each kind of dihedral, and one each for helix and strand where they occur; a new figure by default.

    Returns
    -------
    array of matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from m3c_md import M3C, state_profile
    >>> from m3c_md.data import alanine_dipeptide
    >>> data = alanine_dipeptide()
    >>> model = M3C(3, random_state=0).fit_fetch(data.features[:2])
    >>> axes = plot_profile(state_profile(model, data.columns, data.features[:2]))
    >>> [axis.get_title() for axis in axes]
    ['φ', 'ψ']
    """
    of_angle = {name: dihedral_of(name) for name in profile.angles.index.unique("dihedral")}
    kinds = [kind for kind in KINDS if any(angle.kind == kind for angle in of_angle.values())]
    shares = [form for form in ("helix", "strand") if profile.residues.get(form, np.zeros(1)).max() > LEAST_SHARE]
    residues = list(profile.residues.index.unique("residue"))
    height = min(max(1.2 + ROW * len(residues), LOWEST), HIGHEST)
    n = len(kinds) + len(shares)
    size = (1.4 + n * (0.5 + 0.42 * profile.n_states) + 1.2, height)
    axes = panels(ax, (1, n), "kind of dihedral, helix and strand", size, sharey=True)[0]
    table = profile.angles.reset_index()
    table["kind"] = [of_angle[name].kind for name in table["dihedral"]]
    table["residue"] = [of_angle[name].residue for name in table["dihedral"]]
    for panel, kind in zip(axes, kinds, strict=False):
        rows = table[table["kind"] == kind]
        means, spreads = (
            rows.pivot_table(index="residue", columns="state", values=what, dropna=False).reindex(residues).to_numpy()
            for what in ("mean", "spread")
        )
        wheel = _draw_means(panel, means, spreads)
        panel.set_title(SYMBOLS[kind])
    for panel, form in zip(axes[len(kinds) :], shares, strict=True):
        bar = _draw_shares(panel, profile.residues[form].unstack("state").reindex(residues).to_numpy())
        panel.set_title(form)
    _name_rows(axes, residues, profile.names)
    figure = axes[0].figure
    figure.colorbar(wheel, ax=axes[len(kinds) - 1], label="mean angle / °", ticks=range(-180, 181, 90))
    if shares:
        figure.colorbar(bar, ax=axes[-1], label="share of the frames / %")
    return axes


def _draw_means(panel: Any, means: FloatArray, spreads: FloatArray) -> Any:
    """Cells whose colour is an angle and whose opacity says how narrow it is; blank where there is none."""
    from matplotlib.colors import LinearSegmentedColormap

    wheel = LinearSegmentedColormap.from_list("angles", [*WHEEL, WHEEL[0]])
    opacity = np.nan_to_num(0.15 + 0.85 * np.exp(-0.5 * np.radians(spreads) ** 2))
    known = np.ma.masked_invalid(means)
    _write(panel, means)
    return panel.imshow(known, cmap=wheel, vmin=-180, vmax=180, alpha=opacity, aspect="auto")


def _draw_shares(panel: Any, shares: FloatArray) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    # Not to black, so that numbers can be read everywhere.
    greys = LinearSegmentedColormap.from_list("shares", ["white", "0.5"])
    _write(panel, 100.0 * shares)
    return panel.imshow(np.ma.masked_invalid(100.0 * shares), cmap=greys, vmin=0, vmax=100, aspect="auto")


def _write(panel: Any, values: FloatArray) -> None:
    """Write numbers into cells where there is room for every row."""
    if ROW * len(values) > HIGHEST:
        return
    for row, column in np.argwhere(np.isfinite(values)):
        panel.text(column, row, f"{values[row, column]:.0f}", ha="center", va="center", fontsize="x-small")


def _name_rows(axes: Any, residues: list[str], states: list[str]) -> None:
    """Residues along the first axis, every second or third only where there is no room; states below all panels."""
    room = (axes[0].figure.get_size_inches()[1] - 1.2) / 0.15
    step = max(1, int(np.ceil(len(residues) / room)))
    shown = range(0, len(residues), step)
    axes[0].set_yticks(shown, [residues[i] for i in shown], fontsize="small")
    for panel in axes:
        turned = max(map(len, states)) > LETTERS
        panel.set_xticks(range(len(states)), states, rotation=90 if turned else 0)
        panel.set_xlabel("state")


def plot_profile_ramachandran(profile: Any, *, residues: Sequence[str] | None = None, ax: Any = None) -> Any:
    """Draw Ramachandran maps: a row for each state, a column for each residue.

    Frames of the state are in its colour, on a logarithmic scale; those of all states in grey behind them.

    Parameters
    ----------
    profile : StateProfile
    residues : sequence of str, optional
        Names such as "ALA 2" of residues with φ and ψ; by default all, or the eight that tell neighbours apart most.
    ax : array of matplotlib axes, optional
        One for each state and residue; a new figure by default.

    Returns
    -------
    array of matplotlib axes (n_states, n_residues)

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from m3c_md import M3C, state_profile
    >>> from m3c_md.data import alanine_dipeptide
    >>> data = alanine_dipeptide()
    >>> model = M3C(3, random_state=0).fit_fetch(data.features[:2])
    >>> plot_profile_ramachandran(state_profile(model, data.columns, data.features[:2])).shape
    (3, 1)
    """
    chosen = _most_telling(profile) if residues is None else _known(profile, residues)
    n = profile.n_states
    axes = panels(ax, (n, len(chosen)), "state and residue", (1.0 + 1.6 * len(chosen), 0.6 + 1.6 * n))
    for column, residue in enumerate(chosen):
        everything = profile.maps[residue].sum(axis=0)
        for state in range(n):
            panel = axes[state, column]
            _draw_cells(panel, everything, "#808080", 0.45)
            _draw_cells(panel, profile.maps[residue][state], state_color(state), 1.0)
            panel.set(xticks=(-180, 0, 180), yticks=(-180, 0, 180), aspect="equal")
            panel.tick_params(labelsize="small", labelbottom=state == n - 1, labelleft=column == 0)
        axes[0, column].set_title(residue, fontsize="medium")
        axes[-1, column].set_xlabel("φ / °")
    for state in range(n):
        title = state_title(profile.names, state)
        axes[state, 0].set_ylabel(f"{title}, {profile.populations[state]:.0%}\nψ / °")
    return axes


def _draw_cells(panel: Any, counts: Any, color: str, most: float) -> None:
    """Cells with frames in one colour, the fuller the less transparent."""
    from matplotlib.colors import to_rgb

    image = np.ones((*counts.shape, 4))
    image[..., :3] = to_rgb(color)
    with np.errstate(divide="ignore"):
        depth = np.log(counts) - np.log(max(counts.max(), 1))
    image[..., 3] = np.where(counts > 0, most * np.clip(1.0 + depth / (1.5 * PALEST), 0.15, 1.0), 0.0)
    panel.imshow(image, extent=(-180, 180, -180, 180), origin="lower", interpolation="nearest")


def _known(profile: Any, residues: Sequence[str]) -> list[str]:
    wanted = [residues] if isinstance(residues, str) else list(residues)
    unknown = [name for name in wanted if name not in profile.maps]
    if unknown or not wanted:
        raise InputError(
            f"residues={residues!r:.60}: {unknown[0] if unknown else 'an empty list'!r} is no residue with phi and psi "
            f"of this profile; these are {', '.join(list(profile.maps)[:10])}"
        )
    return wanted


def _most_telling(profile: Any) -> list[str]:
    """Residues with φ and ψ, or those with the largest share in any border, in the order of the sequence."""
    names = list(profile.maps)
    if not names:
        raise InputError("no residue has both phi and psi; fit to dihedrals=('phi', 'psi'), or use plot_profile")
    if len(names) <= MOST_RESIDUES or profile.borders.empty:
        return names[:MOST_RESIDUES]
    of_residue = profile.borders["dihedral"].map(lambda name: dihedral_of(name).residue)
    sums = profile.borders.groupby(["state", "neighbour", of_residue])["share"].sum()
    largest = sums.groupby(level=2).max().reindex(names, fill_value=0.0).sort_values(ascending=False, kind="stable")
    return [name for name in names if name in set(largest.index[:MOST_RESIDUES])]
