"""States over φ and ψ of every residue: one Ramachandran plot for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from m3c_md.exceptions import InputError
from m3c_md.inputs.dataset import Dataset
from m3c_md.inputs.dihedral_names import dihedral_of
from m3c_md.inputs.torsion_columns import Torsions
from m3c_md.plots.axes import panels
from m3c_md.plots.grid import free_energy, map_domain
from m3c_md.plots.state_map import (
    DrawableModel,
    colorbar,
    draw_free_energy,
    draw_legend,
    drawn_names,
    mark_degrees,
    tint_majority,
)

# Residues of a picture that is still readable, and panels in a row of it.
MOST_RESIDUES, PER_ROW = 12, 4
# Cells of a panel along each axis: 8° each, as wide as thermal motion leaves sharp.
CELLS = 45


def plot_residues(
    model: DrawableModel,
    data: Any,
    *,
    columns: Sequence[str] | None = None,
    residues: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Draw the states of a model over φ and ψ: a Ramachandran plot for every residue.

    Free energy in greys; a cell has the colour of the state of most of its frames, and is pale where these are close to
    another state. A residue that does not matter has one colour, or all of them mixed.

    Parameters
    ----------
    model : fitted model
        Of columns that `DihedralFeaturizer` made.
    data : array (n_frames, n_columns) or list of them
        Trajectories with these columns.
    columns : sequence of str, optional
        Names of the columns, ``featurizer.describe()``. Not needed if the model knows them, from a fit to tables or
        from ``fit(..., featurizer=featurizer)``.
    residues : sequence of str, optional
        Names such as "ALA 2"; by default all that have both angles, or the twelve that matter most (`relevance`).
    ax : array of matplotlib axes, optional
        One for each residue; a new figure by default.

    Returns
    -------
    array of matplotlib axes, one for each residue

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from m3c_md import M3C
    >>> from m3c_md.data import alanine_dipeptide
    >>> data = alanine_dipeptide()
    >>> model = M3C(3, random_state=0).fit_fetch(data.features[:2])
    >>> axes = plot_residues(model, data.features[:2], columns=data.columns)
    >>> [axis.get_title() for axis in axes]
    ['ALA 2']
    """
    frames = np.concatenate(Dataset.of(data).arrays())
    names = _names(model, columns, frames.shape[1])
    torsions = Torsions.among(names)
    degrees, pairs = np.degrees(torsions.of_frames(frames)), torsions.pairs
    chosen = _chosen(model, names, list(pairs), residues)
    states, lead = np.asarray(model.transform(frames)).astype(np.intp), np.asarray(model.margin(frames))
    strength = lead / (float(np.median(lead)) or 1.0)
    axes, unused = _axes(ax, len(chosen))
    for panel, residue in zip(axes, chosen, strict=True):
        angles = degrees[:, list(pairs[residue])]
        domain = map_domain(angles, (360.0, 360.0))
        points = domain.wrap(angles)
        image = draw_free_energy(panel, free_energy(points, domain, CELLS), domain)
        tint_majority(panel, points, states, strength, domain, CELLS)
        mark_degrees(panel)
        panel.set(xlim=(-180, 180), ylim=(-180, 180), xlabel="φ / °", ylabel="ψ / °", title=residue)
    for panel in unused:
        panel.set_axis_off()
    in_a_row = -(-len(axes) // _n_rows(len(axes)))
    colorbar(axes[in_a_row - 1], image)
    below, names = axes[(len(axes) - 1) // in_a_row * in_a_row], drawn_names(model, model.n_states)
    draw_legend(below, model, np.arange(model.n_states), names)
    return axes if ax is None else ax


def _names(model: Any, columns: Sequence[str] | None, n_columns: int) -> list[str]:
    """Names of the columns, those given or those of the model."""
    names = getattr(model, "columns", None) if columns is None else list(columns)
    if names is None:
        raise InputError(
            "the model does not know which dihedrals its columns are; give columns=featurizer.describe(), or fit with "
            "featurizer=featurizer"
        )
    if len(names) != n_columns:
        raise InputError(f"columns has {len(names)} names, but data {n_columns} columns; give featurizer.describe()")
    return list(names)


def _chosen(model: Any, columns: list[str], known: list[str], residues: Sequence[str] | None) -> list[str]:
    """Residues to draw: those asked for, or all, or those that matter most in the order of the sequence."""
    if not known:
        raise InputError("no residue has both phi and psi; use DihedralFeaturizer(('phi', 'psi')), or plot_state_map")
    if residues is not None:
        wanted = [residues] if isinstance(residues, str) else list(residues)
        unknown = [name for name in wanted if name not in known]
        if unknown or not wanted:
            raise InputError(
                f"residues={residues!r:.60} must be among those with phi and psi, such as {', '.join(known[:10])}"
            )
        return wanted
    if len(known) <= MOST_RESIDUES or not hasattr(model, "relevance"):
        return known[:MOST_RESIDUES]
    shares = dict.fromkeys(known, 0.0)
    for column, share in zip(columns, model.relevance, strict=True):
        residue = dihedral_of(column).residue
        shares[residue] = shares.get(residue, 0.0) + float(share)
    most = set(sorted(known, key=lambda name: -shares[name])[:MOST_RESIDUES])
    return [name for name in known if name in most]


def _axes(given: Any, n: int) -> tuple[Any, Any]:
    """Axes of n panels, and those that a full last row would have had."""
    if given is not None:
        return panels(given, (1, n), "residue", (0.0, 0.0)).ravel(), []
    rows = _n_rows(n)
    columns = -(-n // rows)
    size = (2.4 * columns + 1.2, 2.5 * rows + 0.8)
    axes = panels(None, (rows, columns), "residue", size).ravel()
    return axes[:n], axes[n:]


def _n_rows(n: int) -> int:
    """Rows of n panels."""
    return -(-n // PER_ROW)
