"""Structures of the states as PDB files, with the relevance of residues in the place of B-factors."""

from __future__ import annotations

import re
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
    from m3c_md.clustering.state_model import StateModel

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
    from m3c_md.inputs.state_names import state_file

    samples = model.sample(data.features, n_structures)
    names = [f"structures/state_{state_file(model.state_names, state)}.pdb" for state in range(len(samples))]
    _write_files(folder, model, data, dict(zip(names, samples, strict=True)), "structures/frames.csv")


def write_transition(folder: OutputFolder, model: StateModel, data: Trajectories, ends: list[int], chosen: Any) -> None:
    """Write frames between two states with all atoms of the files, moved on top of the first of them."""
    from m3c_md.inputs.state_names import state_file

    names = "_to_".join(state_file(model.state_names, state) for state in ends)
    _write_files(folder, model, data, {f"structures/transition_{names}.pdb": chosen})


def _write_files(
    folder: OutputFolder, model: Any, data: Trajectories, files: dict[str, Any], table: str | None = None
) -> None:
    """Write one PDB file of superposed models for each list of (trajectory, frame) indices, and a table of them all."""
    import mdtraj as md
    import pandas as pd

    from m3c_md.features.files import plain_path, read_topology

    topology = read_topology(data.top, data.files)
    shares = _relevance(model, data)
    factors = None if shares is None else b_factors(topology, shares, data.settings.residues)
    fitted, reference, rows = superposed_atoms(topology, data.settings.residues), None, []
    with silent_standard_output(), progress_bar(total=sum(map(len, files.values())), desc="structures") as bar:
        for target, chosen in files.items():
            frames = []
            for number, (trajectory, frame) in enumerate(chosen.tolist(), 1):
                place = frame * data.stride
                with plain_path(data.files[trajectory]) as name:
                    frames.append(md.load_frame(name, place, top=topology))
                rows.append((Path(target).name, number, str(data.files[trajectory]), place))
                bar.update()
            if not frames:
                continue
            joined = superposed(md.join(frames, check_topology=False), reference, fitted)
            reference = joined[0] if reference is None else reference
            notes = [] if shares is None else [b_factor_note(shares)]
            notes += [_superposition_note(len(fitted)), *map(_frame_note, rows[-len(frames) :])]
            with folder.writing(target) as path:
                joined.save_pdb(str(path), bfactors=factors)
                _add_remarks(path, notes)
    if table is not None:
        columns = ["structure", "model", "file", "frame"]
        folder.table(table, pd.DataFrame(rows, columns=columns).set_index("structure"))


def _relevance(model: Any, data: Trajectories) -> pd.Series | None:
    """Relevance by residue; None for models that have none, or not of the states as they are now."""
    from m3c_md.exceptions import InputError
    from m3c_md.relevance import relevance_by_residue

    try:
        relevance = model.relevance
    except (AttributeError, InputError):
        return None
    return relevance_by_residue(relevance, data.settings.columns)


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
    return f"Models are superposed on {n_atoms} atoms, and the files of all states on each other."


def _frame_note(row: tuple[str, int, str, int]) -> str:
    _, number, name, place = row
    return f"MODEL {number}: frame {place} (from 0) of {Path(name).name}"


def _add_remarks(path: Path, texts: list[str]) -> None:
    """Put texts at the beginning of a PDB file, and number its models from 1 as they do (mdtraj begins at 0)."""
    lines = [f"{REMARK}{line}\n" for text in texts for line in textwrap.wrap(text, REMARK_WIDTH)]
    models = re.sub(rb"(?m)^MODEL +(\d+)", lambda found: b"MODEL %8d" % (int(found[1]) + 1), path.read_bytes())
    path.write_bytes("".join(lines).encode("ascii", "replace") + models)
