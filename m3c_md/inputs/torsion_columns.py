"""Dihedral angles behind columns: where their sines and cosines stand, found by name."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError
from m3c_md.inputs.dihedral_names import FUNCTIONS, are_of_dihedrals, column_names, dihedral_of


@dataclass(frozen=True)
class Torsions:
    """Angles, and the columns that they are read from.

    Attributes
    ----------
    names : list of str
        Such as "phi ALA 2".
    places : list of (int, int or None)
        Numbers of the columns of sine and cosine; of the angle itself, in radians, and None where there are no such.
    """

    names: list[str]
    places: list[tuple[int, int | None]]

    @classmethod
    def among(cls, columns: Sequence[Hashable]) -> Torsions:
        """Angles that some columns hold; other columns, and a sine without its cosine, are passed over.

        Examples
        --------
        >>> Torsions.among(["distance", "cos phi ALA 2", "sin phi ALA 2", "psi ALA 2", "sin phi ALA 3"])
        Torsions(names=['phi ALA 2', 'psi ALA 2'], places=[(2, 1), (3, None)])
        """
        place = {name: number for number, name in enumerate(columns)}
        found: dict[str, tuple[int, int | None]] = {}
        for name in dict.fromkeys(str(dihedral_of(column)) for column in columns if are_of_dihedrals([column])):
            sine, cosine = (place.get(f"{function} {name}") for function in FUNCTIONS)
            if sine is not None and cosine is not None:
                found[name] = (sine, cosine)
            elif name in place:
                found[name] = (place[name], None)
        return cls(list(found), list(found.values()))

    @classmethod
    def of_all(cls, columns: Sequence[Hashable]) -> Torsions:
        """Angles of columns that are named and ordered as those of `DihedralFeaturizer`; an error for all others.

        Examples
        --------
        >>> Torsions.of_all(["sin phi ALA 2", "cos phi ALA 2"]).places
        [(0, 1)]
        """
        found = cls.among(columns)
        if not any(list(columns) == column_names(found.names, sincos=sincos) for sincos in (True, False)):
            raise InputError(
                f"columns {list(columns)!r:.60} are not those of a DihedralFeaturizer in their order (sine, then "
                "cosine); give featurizer.describe() of the fit"
            )
        return found

    @property
    def residues(self) -> list[str]:
        """Names of the residues, in the order of the angles."""
        return list(dict.fromkeys(dihedral_of(name).residue for name in self.names))

    @property
    def pairs(self) -> dict[str, tuple[int, int]]:
        """Numbers of φ and ψ among the angles, by the residues that have both."""
        numbers = {name: number for number, name in enumerate(self.names)}
        both = ((residue, f"phi {residue}", f"psi {residue}") for residue in self.residues)
        return {name: (numbers[phi], numbers[psi]) for name, phi, psi in both if phi in numbers and psi in numbers}

    def of_frames(self, frames: FloatArray) -> FloatArray:
        """Angles of frames in radians, (n_frames, n_angles).

        Examples
        --------
        >>> Torsions.among(["cos psi ALA 2", "sin psi ALA 2"]).of_frames(np.array([[0.0, 1.0]])).round(3)
        array([[1.571]])
        """
        angles = np.empty((len(frames), len(self.names)))
        for number, (sine, cosine) in enumerate(self.places):
            angles[:, number] = frames[:, sine] if cosine is None else np.arctan2(frames[:, sine], frames[:, cosine])
        return angles

    def slopes(self, gradients: FloatArray, angles: FloatArray) -> FloatArray:
        """Derivatives with respect to the angles, from those with respect to the columns.

        Examples
        --------
        >>> both = Torsions.among(["sin phi ALA 2", "cos phi ALA 2"])
        >>> both.slopes(np.array([[3.0, 5.0]]), np.array([[0.0]])).tolist()  # the cosine does not change at 0
        [[3.0]]
        """
        slopes = np.empty_like(angles)
        for number, (sine, cosine) in enumerate(self.places):
            slopes[:, number] = gradients[:, sine]
            if cosine is not None:
                slopes[:, number] *= np.cos(angles[:, number])
                slopes[:, number] -= np.sin(angles[:, number]) * gradients[:, cosine]
        return slopes
