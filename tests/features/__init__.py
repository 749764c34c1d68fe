"""Made-up peptides with random coordinates, and a dihedral formula written without mdtraj."""

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


def random_trajectory(topology: md.Topology, n_frames: int, seed: int = 0, cell: float | None = None) -> md.Trajectory:
    """Atoms close to each other, so that no bond is too long; in a cube of edge ``cell`` (nm) if given."""
    xyz = 0.05 * np.random.default_rng(seed).normal(size=(n_frames, topology.n_atoms, 3))
    trajectory = md.Trajectory(xyz.astype(np.float32), topology)
    if cell is not None:
        trajectory.unitcell_lengths = np.full((n_frames, 3), cell, dtype=np.float32)
        trajectory.unitcell_angles = np.full((n_frames, 3), 90.0, dtype=np.float32)
    return trajectory


def by_hand(xyz: NDArray[np.float32], quartets: NDArray[np.int32]) -> NDArray[np.float64]:
    """Dihedral angles in double precision: the outer bonds seen along the middle one."""
    p = xyz.astype(np.float64)[:, quartets]
    back, axis, ahead = p[:, :, 0] - p[:, :, 1], p[:, :, 2] - p[:, :, 1], p[:, :, 3] - p[:, :, 2]
    axis = axis / np.linalg.norm(axis, axis=-1, keepdims=True)
    v = back - (back * axis).sum(-1, keepdims=True) * axis
    w = ahead - (ahead * axis).sum(-1, keepdims=True) * axis
    return np.arctan2((np.cross(axis, v) * w).sum(-1), (v * w).sum(-1))
