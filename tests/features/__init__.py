"""Made-up peptides in random shapes, and a dihedral formula written without mdtraj."""

from __future__ import annotations

from collections.abc import Sequence

import mdtraj as md
import numpy as np
from numpy.typing import NDArray

ATOMS = {
    "ACE": ("CH3", "C", "O"),
    "NME": ("N", "C"),
    "GLY": ("N", "CA", "C", "O"),
    "ALA": ("N", "CA", "CB", "C", "O"),
    "SER": ("N", "CA", "CB", "OG", "C", "O"),
    "LYS": ("N", "CA", "CB", "CG", "CD", "CE", "NZ", "C", "O"),
    "HOH": ("O", "H1", "H2"),
}

# How each atom is placed, in this order: the three atoms that it is measured from (nearest last, "-" for the residue
# before), the length to the last of them in nm, the angle there and the dihedral angle, in degrees; None is random.
PLACES: dict[str, list[tuple[tuple[str, str, str], float, float, float | None]]] = {
    "N": [(("-O", "-CA", "-C"), 0.133, 116.0, 180.0), (("-O", "-CH3", "-C"), 0.133, 116.0, 180.0)],
    "CA": [(("-CA", "-C", "N"), 0.146, 122.0, 180.0), (("-CH3", "-C", "N"), 0.146, 122.0, 180.0)],
    "CH3": [],
    "C": [(("-C", "N", "CA"), 0.152, 111.0, None), (("-CA", "-C", "N"), 0.146, 122.0, 180.0)],
    "O": [(("N", "CA", "C"), 0.123, 120.5, None)],
    "CB": [(("C", "N", "CA"), 0.153, 110.0, -122.0)],
    "OG": [(("N", "CA", "CB"), 0.142, 111.0, None)],
    "CG": [(("N", "CA", "CB"), 0.152, 113.0, None)],
    "CD": [(("CA", "CB", "CG"), 0.152, 111.0, None)],
    "CE": [(("CB", "CG", "CD"), 0.152, 111.0, None)],
    "NZ": [(("CG", "CD", "CE"), 0.149, 111.0, None)],
    "H1": [],
    "H2": [],
}
# The first three atoms of a chain (CH3, C, O or N, CA, C) and of a water molecule have nothing to be measured from.
STARTS = {"N": (0.0, 0.0), "CH3": (0.0, 0.0), "CA": (0.146, 0.0), "C": (0.2, 0.142), "O": (0.0, 0.0)}
CAP_STARTS = {"C": (0.152, 0.0), "O": (0.214, 0.106)}
WATER_STARTS = {"O": (0.0, 0.0), "H1": (0.096, 0.0), "H2": (-0.024, 0.093)}


def topology_of(*chains: Sequence[str], first: int = 1, letters: Sequence[str | None] | None = None) -> md.Topology:
    """Topology of chains, each a sequence of residue names; every chain is numbered from ``first``."""
    topology = md.Topology()
    for i, residues in enumerate(chains):
        chain = topology.add_chain(letters[i] if letters else None)
        for number, name in enumerate(residues, start=first):
            residue = topology.add_residue(name, chain, resSeq=number)
            for atom in ATOMS[name]:
                topology.add_atom(atom, md.element.Element.getBySymbol(atom[0]), residue)
    return topology


def random_trajectory(
    topology: md.Topology, n_frames: int, seed: int = 0, cell: float | None = None, omega: float | None = 180.0
) -> md.Trajectory:
    """Peptides with the bonds of real ones and random dihedral angles; in a cube of edge ``cell`` (nm) if given.

    Chains lie across the origin and through each other. ``omega`` in degrees; None is random.
    """
    rng = np.random.default_rng(seed)
    xyz = np.zeros((n_frames, topology.n_atoms, 3))
    for chain in topology.chains:
        placed: dict[tuple[int, str], NDArray[np.float64]] = {}
        for residue in chain.residues:
            names = {atom.name for atom in residue.atoms}
            for name in (name for name in PLACES if name in names):
                placed[residue.index, name] = _place(placed, residue, name, n_frames, rng, omega)
        centre = np.mean(list(placed.values()), axis=0)
        for atom in chain.atoms:
            xyz[:, atom.index] = placed[atom.residue.index, atom.name] - centre
    trajectory = md.Trajectory(xyz.astype(np.float32), topology)
    if cell is not None:
        trajectory.unitcell_lengths = np.full((n_frames, 3), cell, dtype=np.float32)
        trajectory.unitcell_angles = np.full((n_frames, 3), 90.0, dtype=np.float32)
    return trajectory


def _place(placed, residue, name, n_frames, rng, omega) -> NDArray[np.float64]:
    """One atom in all frames: measured from others where they are there already."""
    for others, length, angle, dihedral in PLACES[name]:
        keys = [(residue.index - other.startswith("-"), other.removeprefix("-")) for other in others]
        if all(key in placed for key in keys):
            dihedral = omega if dihedral == 180.0 and others[2] == "N" else dihedral
            turn = (
                rng.uniform(-180.0, 180.0, n_frames) if dihedral is None else dihedral + 6.0 * rng.normal(size=n_frames)
            )
            return _measured(*(placed[key] for key in keys), length * rng.normal(1.0, 0.02, n_frames), angle, turn)
    starts = WATER_STARTS if residue.is_water else CAP_STARTS if residue.name == "ACE" and name != "CH3" else STARTS
    return np.broadcast_to([*starts[name], 0.0], (n_frames, 3)) + 0.003 * rng.normal(size=(n_frames, 3))


def _measured(first, second, third, lengths, angle, dihedrals) -> NDArray[np.float64]:
    """Points at a length from the third, an angle there, and a dihedral angle with the first."""
    axis = third - second
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    normal = np.cross(second - first, axis)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    angle, dihedrals = np.deg2rad(angle), np.deg2rad(dihedrals)[:, None]
    across = np.cos(dihedrals) * np.cross(normal, axis) + np.sin(dihedrals) * normal
    return third + lengths[:, None] * (-np.cos(angle) * axis + np.sin(angle) * across)


def by_hand(xyz: NDArray[np.float32], quartets: NDArray[np.int32]) -> NDArray[np.float64]:
    """Dihedral angles in double precision: the outer bonds seen along the middle one."""
    p = xyz.astype(np.float64)[:, quartets]
    back, axis, ahead = p[:, :, 0] - p[:, :, 1], p[:, :, 2] - p[:, :, 1], p[:, :, 3] - p[:, :, 2]
    axis = axis / np.linalg.norm(axis, axis=-1, keepdims=True)
    v = back - (back * axis).sum(-1, keepdims=True) * axis
    w = ahead - (ahead * axis).sum(-1, keepdims=True) * axis
    return np.arctan2((np.cross(axis, v) * w).sum(-1), (v * w).sum(-1))
