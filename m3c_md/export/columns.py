"""What the columns of a rule are made of, as users say it: a featuriser, atoms, or labels of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError
from m3c_md.export.torsions import sines_and_cosines, torsions
from m3c_md.inputs.dihedral_columns import DihedralColumns, check_same_columns

# Label of an action of PLUMED, or of one of its components.
_LABEL = re.compile(r"[A-Za-z_@][\w@+-]*(\.[\w+-]+)*")
# Atoms of an angle that follow each other are bonded; nm.
_LONGEST_BOND = 0.3


def dihedral_columns_of(
    given: Any, stored: DihedralColumns | None, names: Sequence[str] | None, n_columns: int
) -> DihedralColumns:
    """Atoms of the columns of a model.

    Parameters
    ----------
    given : DihedralFeaturizer, DihedralColumns or None
        None for what the model knows itself.
    stored : DihedralColumns or None
        What the model knows.
    names, n_columns
        Columns of the model; names may not be known.
    """
    if given is None and stored is None:
        raise InputError(
            "this model does not know which atoms its columns are made of; give the DihedralFeaturizer of the fit, or "
            "fit again with fit(..., featurizer=...)"
        )
    found: Any = stored if given is None else given
    if callable(getattr(found, "dihedral_columns", None)):
        found = found.dihedral_columns()
    if not isinstance(found, DihedralColumns):
        raise InputError(
            f"featurizer={given!r:.60} must be the DihedralFeaturizer of the fit, or what its dihedral_columns() "
            "returns; rules on other columns go to PLUMED by a list of its labels, one for each column"
        )
    check_same_columns(names, found.columns, n_columns)
    if not found.sincos:
        raise InputError(
            "a rule on angles jumps where an angle passes from π to -π, and cannot pull a simulation; fit to sines and "
            "cosines, DihedralFeaturizer(sincos=True)"
        )
    return found


def check_labels(labels: Sequence[Any], n_columns: int) -> list[str]:
    """Labels of PLUMED for the columns of a model, checked.

    Examples
    --------
    >>> check_labels(["d1", "d2.x"], 2)
    ['d1', 'd2.x']
    """
    for label in labels:
        if not isinstance(label, str) or not _LABEL.fullmatch(label):
            raise InputError(f"{label!r:.60} is no label of PLUMED; give texts such as 'd1', one for each column")
    if len(labels) != n_columns:
        raise InputError(f"{len(labels)} labels for {n_columns} columns of the model; give one for each, in order")
    return list(labels)


def columns_of_frames(columns: DihedralColumns, trajectory: Any) -> FloatArray:
    """Columns of all frames of an mdtraj.Trajectory in double precision; its molecules must be whole."""
    if not hasattr(trajectory, "xyz") or getattr(trajectory, "topology", None) is None:
        raise InputError(f"trajectory={trajectory!r:.60} must be an mdtraj.Trajectory with its topology")
    if not np.array_equal(columns.in_topology(trajectory.topology).quartets, columns.quartets):
        raise InputError(
            "the trajectory numbers its atoms differently from the columns; give columns.in_topology(its topology)"
        )
    points = np.asarray(trajectory.xyz, dtype=np.float64)
    if len(points) == 0:
        raise InputError("the trajectory has no frames; give one that has, or none for a text without reference values")
    chains = points[:, columns.quartets]
    longest = np.sqrt((np.diff(chains, axis=2) ** 2).sum(axis=-1)).max(axis=2)
    if not longest.max() <= _LONGEST_BOND:
        raise InputError(
            f"bonded atoms of the trajectory are up to {longest.max():.3g} nm apart; give frames of whole molecules "
            "(mdtraj: make_molecules_whole)"
        )
    return sines_and_cosines(torsions(points, columns.quartets)[0])
