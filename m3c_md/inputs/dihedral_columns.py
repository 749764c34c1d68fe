"""Which four atoms each dihedral column is made of: what a model needs to be told to leave Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3c_md.exceptions import InputError
from m3c_md.inputs.dihedral_names import column_names


@dataclass(frozen=True)
class DihedralColumns:
    """Columns of `DihedralFeaturizer` and the atoms behind them; ``featurizer.dihedral_columns()`` returns it.

    Attributes
    ----------
    names : tuple of str
        One name per angle, such as "phi ALA 2".
    quartets : array (n_angles, 4) of int
        Numbers of the four atoms of each angle, counted from 0.
    atoms : tuple of tuples of str
        What these atoms are called, such as "ALA 2 CA", for each angle.
    sincos : bool
        Whether columns are sines and cosines of the angles (sine first), or the angles in radians.
    periodic : bool
        Whether angles are taken across the borders of a periodic box.
    """

    names: tuple[str, ...]
    quartets: NDArray[np.int64]
    atoms: tuple[tuple[str, ...], ...]
    sincos: bool
    periodic: bool

    @property
    def n_angles(self) -> int:
        """Number of dihedral angles."""
        return len(self.names)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return column_names(self.names, sincos=self.sincos)

    def in_topology(self, topology: Any) -> DihedralColumns:
        """Return the same columns with the atom numbers of a topology.

        Parameters
        ----------
        topology : mdtraj.Topology
            Of the same molecule, alone or among others (water, ions), in whatever order its atoms are.

        Raises
        ------
        InputError
            If an atom is missing, or if several have its name and none of them its number.
        """
        found = [atom_name(atom) for atom in topology.atoms]
        wanted = [name for four in self.atoms for name in four]
        numbers = self.quartets.ravel()
        if numbers.max() < len(found) and all(found[i] == name for i, name in zip(numbers, wanted, strict=True)):
            return self
        places: dict[str, list[int]] = {}
        for number, name in enumerate(found):
            places.setdefault(name, []).append(number)
        for place, name in enumerate(wanted):
            matching = places.get(name, [])
            if len(matching) != 1:
                how_many = "no atom" if not matching else f"{len(matching)} atoms"
                raise InputError(
                    f"the topology has {how_many} {name!r}, which {self.names[place // 4]!r} of this model is made of; "
                    "give the topology of the molecule that the model was fitted to"
                )
        renumbered = np.array([places[name][0] for name in wanted], dtype=np.int64).reshape(-1, 4)
        return replace(self, quartets=renumbered)


def atom_name(atom: Any) -> str:
    """Residue and name of an atom of an mdtraj.Topology, such as "ALA 2 CA"."""
    return f"{atom.residue.name} {atom.residue.resSeq} {atom.name}"


def check_same_columns(ours: Sequence[str] | None, theirs: Sequence[str], n_columns: int) -> None:
    """Refuse columns that are not those of a model, whose names may not be known.

    Examples
    --------
    >>> check_same_columns(["sin phi ALA 2", "cos phi ALA 2"], ["sin phi ALA 2", "cos phi ALA 2"], 2)
    """
    if len(theirs) != n_columns:
        raise InputError(
            f"there are {len(theirs)} columns ({', '.join(theirs[:3])}, ...), but the model was fitted to {n_columns}; "
            "give the featurizer of the fit"
        )
    for number, (old, new) in enumerate(zip(ours or theirs, theirs, strict=True)):
        if old != new:
            raise InputError(
                f"column {number} is {new!r}, but the model was fitted to {old!r}; give the featurizer of the fit, or "
                "a topology with the same numbers of residues"
            )
