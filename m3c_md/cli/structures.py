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

# mdtraj writes B-factors of less than 100 only.
LARGEST_B_FACTOR = 99.99
# A remark of free text, and the letters of a line that follow its number.
REMARK, REMARK_WIDTH = "REMARK  99 ", 69


def write_structures(folder: OutputFolder, model: M3CModel, data: Trajectories, n_structures: int) -> None:
    """Write the frames deepest inside each state, deepest first, with all atoms of the files."""
    import mdtraj as md
    from tqdm import tqdm

    from m3c_md.clustering.relevance import relevance_by_residue
    from m3c_md.features.files import plain_path, read_topology
    from m3c_md.inputs.state_names import state_file

    topology = read_topology(data.top, data.files)
    shares = relevance_by_residue(model.relevance, data.settings.columns)
    factors = b_factors(topology, shares, data.settings.residues)
    samples = model.sample(data.features, n_structures)
    with silent_standard_output(), tqdm(total=sum(map(len, samples)), desc="structures") as bar:
        for state, chosen in enumerate(samples):
            frames = []
            for trajectory, frame in chosen.tolist():
                place = frame * data.stride
                with plain_path(data.files[trajectory]) as name:
                    frames.append(md.load_frame(name, place, top=topology))
                bar.update()
            with folder.writing(f"structures/state_{state_file(model.state_names, state)}.pdb") as path:
                md.join(frames, check_topology=False).save_pdb(str(path), bfactors=factors)
                _add_remark(path, b_factor_note(shares))


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
