"""Which atoms around the angles a topology calls bonded, and how far apart such atoms usually are."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import mdtraj as md
import numpy as np
from numpy.typing import NDArray

# Covalent radii in nm (Cordero et al., Dalton Trans. 2008, 2832). Bonds to other elements, metals above all, are not
# looked at: their lengths vary, and files disagree on whether they are bonds.
_RADII = {
    **{"H": 0.031, "D": 0.031, "B": 0.084, "C": 0.076, "N": 0.071, "O": 0.066, "F": 0.057, "Si": 0.111},
    **{"P": 0.107, "S": 0.105, "Cl": 0.102, "Se": 0.120, "Br": 0.120, "I": 0.139},
}


@dataclass(frozen=True)
class Skeleton:
    """What a topology says about the residues of the angles; small, so that it travels to other processes.

    Attributes
    ----------
    atoms : array (n_atoms,)
        Indices in the topology; the other attributes count within this array.
    names : tuple of str
        For example "ALA2-CA".
    heavy : array (n_atoms,) of bool
        Whether an atom is no hydrogen.
    residues : array (n_atoms,)
        Which residue an atom belongs to, as in ``ends``.
    listed : array (n, 2)
        All bonds that the topology knows, whatever they are.
    bonds : array (n_bonds, 2)
        Bonds to look at. Of a peptide bond, the carbon comes first.
    lengths : array (n_bonds,)
        Sum of the covalent radii in nm.
    peptide : array (n_bonds,) of bool
        Whether a bond leads to the next residue.
    ends : array (n_residues, 2)
        Backbone N and C of each residue in order, -1 for none.
    omegas : array (n_omegas, 4)
        CA, C, N, CA of peptide bonds.
    """

    atoms: NDArray[np.int64]
    names: tuple[str, ...]
    heavy: NDArray[np.bool_]
    residues: NDArray[np.int64]
    listed: NDArray[np.int64]
    bonds: NDArray[np.int64]
    lengths: NDArray[np.float64]
    peptide: NDArray[np.bool_]
    ends: NDArray[np.int64]
    omegas: NDArray[np.int32]


def find_skeleton(topology: md.Topology, quartets: NDArray[np.int32]) -> Skeleton:
    """Bonds of the residues that some dihedral angles are in, by the topology or by the names of the atoms.

    Those within a residue and from residue to residue are enough. Others (disulfides, CONECT records) may be there in
    one state of a molecule and not in another, and are left out. Consecutive atoms of an angle count as bonded whatever
    the topology says.

    Parameters
    ----------
    topology : mdtraj.Topology
    quartets : array (n_angles, 4)
        Atoms of each angle.

    Examples
    --------
    >>> from m3c_md.data import alanine_dipeptide
    >>> found = find_skeleton(alanine_dipeptide().topology, np.array([[6, 7, 8, 16]]))
    >>> [f"{found.names[i]} {found.names[j]}" for i, j in found.bonds[:3]]
    ['ALA2-N ALA2-CA', 'ALA2-N ALA2-H', 'ALA2-CA ALA2-C']
    """
    used = set(np.unique(quartets).tolist())
    numbers = sorted({topology.atom(index).residue.index for index in used})
    atoms = sorted(atom.index for number in numbers for atom in topology.residue(number).atoms)
    listed = _listed(topology, atoms)
    steps = np.stack([quartets[:, :-1], quartets[:, 1:]], axis=-1).reshape(-1, 2).tolist()
    chain = {bond for bond in listed if _belongs_to_the_chain(*(topology.atom(index) for index in bond))}
    lengths = _usual_lengths(topology, used, chain | {_in_order(topology, *step) for step in steps})
    bonds = sorted(lengths)
    place = {index: number for number, index in enumerate(atoms)}
    backbones = [{atom.name: atom.index for atom in topology.residue(number).atoms} for number in numbers]
    omegas = [
        [before["CA"], before["C"], after["N"], after["CA"]]
        for before, after in itertools.pairwise(backbones)
        if {"CA", "C"} <= before.keys() and {"N", "CA"} <= after.keys() and (before["C"], after["N"]) in lengths
    ]
    return Skeleton(
        atoms=np.array(atoms),
        names=tuple(str(topology.atom(index)) for index in atoms),
        heavy=np.array([_symbol(topology.atom(index)) not in ("H", "D") for index in atoms]),
        residues=np.searchsorted(numbers, [topology.atom(index).residue.index for index in atoms]),
        listed=np.array([[place[i], place[j]] for i, j in listed]).reshape(-1, 2),
        bonds=np.array([[place[i], place[j]] for i, j in bonds]),
        lengths=np.array([lengths[bond] for bond in bonds]),
        peptide=np.array([topology.atom(i).residue.index != topology.atom(j).residue.index for i, j in bonds]),
        ends=np.array([[place.get(backbone.get(name, -1), -1) for name in ("N", "C")] for backbone in backbones]),
        omegas=np.array([[place[i] for i in quartet] for quartet in omegas], dtype=np.int32).reshape(-1, 4),
    )


def _in_order(topology: md.Topology, i: int, j: int) -> tuple[int, int]:
    """The two atoms of a bond, that of the earlier residue first."""
    return (i, j) if (topology.atom(i).residue.index, i) < (topology.atom(j).residue.index, j) else (j, i)


def _listed(topology: md.Topology, atoms: list[int]) -> set[tuple[int, int]]:
    """Bonds among some atoms, by the topology or, if it has none, by the names of the atoms."""
    among = set(atoms)
    bonds = {(a.index, b.index) for a, b in topology.bonds if a.index in among and b.index in among}
    if not bonds:
        part = topology.subset(atoms)  # a topology that is not ours stays as it is
        part.create_standard_bonds()
        bonds = {(atoms[a.index], atoms[b.index]) for a, b in part.bonds}
    return {_in_order(topology, *bond) for bond in bonds}


def _belongs_to_the_chain(first: Any, second: Any) -> bool:
    """Whether a bond lies within a residue, or leads from its C to the N of the next."""
    step = int(second.residue.index - first.residue.index)
    return step == 0 or (step == 1 and first.name == "C" and second.name == "N")


def _usual_lengths(topology: md.Topology, used: set[int], bonds: set[tuple[int, int]]) -> dict[tuple[int, int], float]:
    """Sum of the covalent radii of each bond whose elements have one."""
    radii = {}
    for index in {index for bond in bonds for index in bond}:
        # What angles are made of is of the size of carbon, whatever element a reader makes of the name CA.
        radii[index] = _RADII.get(_symbol(topology.atom(index)), _RADII["C"] if index in used else np.nan)
    return {(i, j): radii[i] + radii[j] for i, j in bonds if np.isfinite(radii[i] + radii[j])}


def _symbol(atom: Any) -> str:
    """Symbol of the element, empty if there is none."""
    return str(getattr(atom.element, "symbol", ""))
