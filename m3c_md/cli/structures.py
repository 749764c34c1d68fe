"""Structures of the states as PDB files, with the relevance of residues in the place of B-factors."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from m3c_md.cli.console import silent_standard_output
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
# Fewer atoms than this do not say how a molecule is turned.
FEWEST_FITTED = 4
# A remark of free text, and the letters of a line that follow its number.
REMARK, REMARK_WIDTH = "REMARK  99 ", 69


def write_structures(folder: OutputFolder, model: M3CModel, data: Trajectories, n_structures: int) -> None:
    """Write the frames deepest inside each state, deepest first, with all atoms of the files."""
    from m3c_md.inputs.state_names import state_file

    samples = model.sample(data.features, n_structures)
    names = [f"structures/state_{state_file(model.state_names, state)}.pdb" for state in range(len(samples))]
    _write_files(folder, model, data, dict(zip(names, samples, strict=True)))


def write_transition(folder: OutputFolder, model: StateModel, data: Trajectories, ends: list[int], chosen: Any) -> None:
    """Write frames between two states with all atoms of the files, moved on top of the first of them."""
    from m3c_md.inputs.state_names import state_file

    names = "_to_".join(state_file(model.state_names, state) for state in ends)
    _write_files(folder, model, data, {f"structures/transition_{names}.pdb": chosen}, superposed=True)


def _write_files(
    folder: OutputFolder, model: Any, data: Trajectories, files: dict[str, Any], *, superposed: bool = False
) -> None:
    """Write one PDB file of several models for each list of (trajectory, frame) indices."""
    import mdtraj as md
    from tqdm import tqdm

    from m3c_md.features.files import plain_path, read_topology

    topology = read_topology(data.top, data.files)
    shares = _relevance(model, data)
    factors = None if shares is None else b_factors(topology, shares, data.settings.residues)
    with silent_standard_output(), tqdm(total=sum(map(len, files.values())), desc="structures") as bar:
        for target, chosen in files.items():
            frames = []
            for trajectory, frame in chosen.tolist():
                with plain_path(data.files[trajectory]) as name:
                    frames.append(md.load_frame(name, frame * data.stride, top=topology))
                bar.update()
            if not frames:
                continue
            joined = md.join(frames, check_topology=False)
            if superposed:
                joined.superpose(joined, 0, atom_indices=_fitted_atoms(topology))
            with folder.writing(target) as path:
                joined.save_pdb(str(path), bfactors=factors)
                if shares is not None:
                    _add_remark(path, b_factor_note(shares))


def _relevance(model: Any, data: Trajectories) -> pd.Series | None:
    """Relevance by residue; None for models that have none, or not of the states as they are now."""
    from m3c_md.exceptions import InputError
    from m3c_md.relevance import relevance_by_residue

    try:
        relevance = model.relevance
    except (AttributeError, InputError):
        return None
    return relevance_by_residue(relevance, data.settings.columns)


def _fitted_atoms(topology: md.Topology) -> NDArray[Any]:
    """Atoms that structures are superposed by: the backbone, or all atoms where there is none."""
    import numpy as np

    backbone = topology.select("backbone")
    return backbone if len(backbone) >= FEWEST_FITTED else np.arange(topology.n_atoms)


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


def _add_remark(path: Path, text: str) -> None:
    """Put a text at the beginning of a PDB file."""
    lines = [f"{REMARK}{line}\n" for line in textwrap.wrap(text, REMARK_WIDTH)]
    path.write_bytes("".join(lines).encode("ascii", "replace") + path.read_bytes())
