"""Structures of the states as PDB files, with the relevance of residues in the place of B-factors."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from m3c_md.cli.console import progress_bar, silent_standard_output
from m3c_md.cli.output import OutputFolder
from m3c_md.cli.trajectories import Trajectories

if TYPE_CHECKING:
    import mdtraj as md
    import pandas as pd
    from numpy.typing import NDArray

    from m3c_md.clustering.margin_model import M3CModel

# mdtraj writes B-factors of less than 100 only.
LARGEST_B_FACTOR = 99.99
# Names of the atoms of a backbone, and how many are needed to lay one structure on another.
BACKBONE, FEWEST_FITTED = ("N", "CA", "C", "O"), 3
# A remark of free text, and the letters of a line that follow its number.
REMARK, REMARK_WIDTH = "REMARK  99 ", 69


def write_structures(folder: OutputFolder, model: M3CModel, data: Trajectories, n_structures: int) -> None:
    """Write the frames deepest inside each state, deepest first, superposed, with all atoms of the files.

    A table beside them, and remarks in them, say which frames they are.
    """
    import mdtraj as md
    import pandas as pd

    from m3c_md.clustering.relevance import relevance_by_residue
    from m3c_md.features.files import plain_path, read_topology

    topology = read_topology(data.top, data.files)
    shares = relevance_by_residue(model.relevance, data.settings.columns)
    factors = b_factors(topology, shares, data.settings.residues)
    samples = model.sample(data.features, n_structures)
    fitted, reference, rows = superposed_atoms(topology, data.settings.residues), None, []
    with silent_standard_output(), progress_bar(total=sum(map(len, samples)), desc="structures") as bar:
        for state, chosen in enumerate(samples):
            frames = []
            for number, (trajectory, frame) in enumerate(chosen.tolist(), 1):
                place = frame * data.stride
                with plain_path(data.files[trajectory]) as name:
                    frames.append(md.load_frame(name, place, top=topology))
                rows.append((state, number, str(data.files[trajectory]), place))
                bar.update()
            joined = superposed(md.join(frames, check_topology=False), reference, fitted)
            reference = joined[0] if reference is None else reference
            notes = [b_factor_note(shares), _superposition_note(len(fitted)), *map(_frame_note, rows[-len(frames) :])]
            with folder.writing(f"structures/state_{state}.pdb") as path:
                joined.save_pdb(str(path), bfactors=factors)
                _add_remarks(path, notes)
    table = pd.DataFrame(rows, columns=["state", "model", "file", "frame"])
    folder.table("structures/frames.csv", table.set_index("state"))


def superposed_atoms(topology: md.Topology, residues: Any = None) -> list[int]:
    """Atoms by which structures are laid on top of each other: the backbone of the residues with columns.

    All atoms of these residues but hydrogens where there are fewer than three of the backbone.

    Parameters
    ----------
    topology : mdtraj.Topology
    residues : optional
        As given to the featurizer.
    """
    from m3c_md.features.dihedrals import chosen_residues

    atoms = [atom for residue in chosen_residues(topology, residues) for atom in residue.atoms]
    backbone = [atom.index for atom in atoms if atom.name in BACKBONE]
    heavy = [atom.index for atom in atoms if atom.element is None or atom.element.symbol != "H"]
    return backbone if len(backbone) >= FEWEST_FITTED else heavy


def superposed(frames: md.Trajectory, reference: md.Trajectory | None, atoms: list[int]) -> md.Trajectory:
    """Structures of a state turned and moved on to the first of them, which is laid on a reference, if there is one."""
    if len(atoms) < FEWEST_FITTED:
        return frames
    if reference is not None:
        first = frames[0].superpose(reference, atom_indices=atoms)
        return frames.superpose(first, atom_indices=atoms)
    return frames.superpose(frames, 0, atom_indices=atoms)


def b_factors(topology: md.Topology, shares: pd.Series, residues: Any = None) -> NDArray[Any]:
    """B-factor of every atom: the share of its residue, 100 for the largest; 0 for all that has no columns.

    Parameters
    ----------
    topology : mdtraj.Topology
    shares : Series
        Relevance by the names of residues.
    residues : optional
        As given to the featurizer: names depend on it.
    """
    import numpy as np

    from m3c_md.features.dihedrals import chosen_residues
    from m3c_md.inputs.dihedral_names import residue_names

    names = residue_names(chosen_residues(topology, residues))
    scaled = (100.0 * shares / shares.max()).clip(0.0, LARGEST_B_FACTOR)
    return np.array([scaled.get(names.get(atom.residue.index), 0.0) for atom in topology.atoms])


def b_factor_note(shares: pd.Series) -> str:
    """Say what the B-factors mean."""
    return (
        f"B-factors: relevance of the residue to the states, from 0 to 100; 100 is {shares.idxmax()}, which has "
        f"{shares.max():.1%} of it"
    )


def _superposition_note(n_atoms: int) -> str:
    return f"Models are superposed on {n_atoms} atoms, those of other states on state 0; deepest inside first."


def _frame_note(row: tuple[int, int, str, int]) -> str:
    _, number, name, place = row
    return f"MODEL {number}: frame {place} (from 0) of {Path(name).name}"


def _add_remarks(path: Path, texts: list[str]) -> None:
    """Put texts at the beginning of a PDB file."""
    lines = [f"{REMARK}{line}\n" for text in texts for line in textwrap.wrap(text, REMARK_WIDTH)]
    path.write_bytes("".join(lines).encode("ascii", "replace") + path.read_bytes())
