"""Secondary structure by DSSP (Kabsch and Sander, as mdtraj has it), of whole backbones only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import mdtraj as md
import numpy as np
from numpy.typing import NDArray

from m3c_md.features.dihedrals import Float32Array, cell_vectors, chosen_residues, take_shortest_images
from m3c_md.inputs.dihedral_names import residue_names
from m3c_md.inputs.secondary_structure import FORMS

# DSSP looks at these, and at nothing else.
BACKBONE = ("N", "CA", "C", "O")
# Hydrogen bonds of a helix reach over three or more residues, a strand needs a partner: fewer residues have neither.
FEWEST_RESIDUES = 5
# mdtraj's letters, those of residues without a whole backbone included.
LETTERS = {"C": "coil", "H": "helix", "E": "strand", "NA": "coil"}


@dataclass(frozen=True)
class Backbone:
    """Backbone atoms of a molecule.

    Attributes
    ----------
    topology : mdtraj.Topology
        Of these atoms alone.
    atoms : array
        Their numbers in the whole topology.
    path : array
        Which of them are N, CA and C, from residue to residue.
    oxygens : array (n, 2)
        Which of them are carbonyl carbons and their oxygens.
    residues : dict
        Names of the residues that are asked for, by their number among the residues here.
    """

    topology: md.Topology
    atoms: NDArray[np.intp]
    path: NDArray[np.intp]
    oxygens: NDArray[np.intp]
    residues: dict[int, str]


def find_backbone(topology: md.Topology, residues: object = None) -> Backbone | str:
    """Backbone of all amino acids, since hydrogen bonds go anywhere; or why there is none, in words.

    Parameters
    ----------
    topology : mdtraj.Topology
    residues : optional
        Those that are asked for, as for `DihedralFeaturizer`.

    Examples
    --------
    >>> from m3c_md.data import alanine_dipeptide, deca_alanine
    >>> find_backbone(alanine_dipeptide().topology)
    'DSSP needs 5 residues with backbone atoms N, CA, C and O, and there is 1'
    >>> len(find_backbone(deca_alanine().topology).atoms)
    40
    """
    protein = chosen_residues(topology, None)
    by_name = {residue.index: {atom.name: atom.index for atom in residue.atoms} for residue in protein}
    whole = [number for number, atoms in by_name.items() if set(BACKBONE) <= atoms.keys()]
    if len(whole) < FEWEST_RESIDUES:
        return (
            f"DSSP needs {FEWEST_RESIDUES} residues with backbone atoms N, CA, C and O, and there "
            f"{'is' if len(whole) == 1 else 'are'} {len(whole)}"
        )
    kept = sorted(atoms[name] for atoms in by_name.values() for name in BACKBONE if name in atoms)
    place = {atom: number for number, atom in enumerate(kept)}
    path = [place[atoms[name]] for atoms in by_name.values() for name in BACKBONE[:3] if name in atoms]
    oxygens = [[place[atoms["C"]], place[atoms["O"]]] for atoms in by_name.values() if {"C", "O"} <= atoms.keys()]
    names = residue_names(chosen_residues(topology, residues))
    present = [number for number in sorted(by_name) if by_name[number].keys() & set(BACKBONE)]
    wanted = {i: names[number] for i, number in enumerate(present) if number in names and number in whole}
    return Backbone(topology.subset(kept), np.array(kept), np.array(path), np.array(oxygens), wanted)


def structure_of_blocks(blocks: Iterable[md.Trajectory], backbone: Backbone, *, periodic: bool) -> NDArray[np.uint8]:
    """Secondary structure of the frames of one trajectory, see `SecondaryStructure`."""
    return np.concatenate([_structure(block, backbone, periodic=periodic) for block in blocks])


def _structure(block: md.Trajectory, backbone: Backbone, *, periodic: bool) -> NDArray[np.uint8]:
    xyz = np.take(block.xyz, backbone.atoms, axis=1)
    if periodic and block.unitcell_lengths is not None and block.unitcell_angles is not None:
        xyz = whole_chain(xyz, backbone, cell_vectors(block.unitcell_lengths, block.unitcell_angles))
    letters = md.compute_dssp(md.Trajectory(xyz, backbone.topology))[:, list(backbone.residues)]
    codes = np.zeros(letters.shape, dtype=np.uint8)
    for letter, form in LETTERS.items():
        codes[letters == letter] = FORMS.index(form)
    return codes


def whole_chain(xyz: Float32Array, backbone: Backbone, cells: NDArray[np.float64]) -> Float32Array:
    """Coordinates of the backbone with every atom beside the one before, where a periodic box has torn them apart.

    DSSP takes coordinates as they are, and a hydrogen bond across a border would be none.
    """
    steps = np.diff(xyz[:, backbone.path], axis=1)
    carbons, oxygens = backbone.oxygens.T
    vectors = np.concatenate([steps, xyz[:, oxygens] - xyz[:, carbons]], axis=1)
    torn = take_shortest_images(vectors, np.linalg.norm(vectors, axis=-1), cells)
    if len(torn) == 0:
        return xyz
    repaired = xyz.copy()
    chain = np.cumsum(vectors[torn, : steps.shape[1]], axis=1, dtype=np.float64)
    repaired[np.ix_(torn, backbone.path[1:])] = xyz[torn, backbone.path[0]][:, None] + chain
    repaired[np.ix_(torn, oxygens)] = repaired[np.ix_(torn, carbons)] + vectors[torn, steps.shape[1] :]
    return repaired
