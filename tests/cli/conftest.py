"""Files such as users have: a small peptide that switches between two shapes, and arrays of features."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import mdtraj as md
import numpy as np
import pytest

from m3c_md.cli import main
from tests.conftest import hidden_markov_wells
from tests.features import random_trajectory, topology_of

PEPTIDE = topology_of(["ACE", "ALA", "NME"])
N_FRAMES = 250


class Molecule(NamedTuple):
    """A topology, two trajectories of the same name in different folders, and the shape of each frame in them."""

    top: Path
    files: list[Path]
    shapes: list[np.ndarray]


def switching_peptide(n_frames: int, seed: int) -> tuple[md.Trajectory, np.ndarray]:
    """One of two random shapes at a time, with some noise."""
    shapes = random_trajectory(PEPTIDE, 2, seed=5).xyz
    rng = np.random.default_rng(seed)
    states = np.cumsum(rng.random(n_frames) < 0.04) % 2
    noise = 0.003 * rng.normal(size=(n_frames, PEPTIDE.n_atoms, 3))
    return md.Trajectory((shapes[states] + noise).astype(np.float32), PEPTIDE), states


@pytest.fixture(scope="session")
def molecule(tmp_path_factory) -> Molecule:
    folder = tmp_path_factory.mktemp("molecule")
    files, shapes = [], []
    for seed, name in enumerate(("a", "b")):
        (folder / name).mkdir()
        trajectory, states = switching_peptide(N_FRAMES, seed)
        files.append(folder / name / "run.xtc")
        trajectory.save(str(files[-1]))
        shapes.append(states)
    trajectory[0].save(str(folder / "top.pdb"))
    return Molecule(folder / "top.pdb", files, shapes)


@pytest.fixture(scope="session")
def fitted(molecule, tmp_path_factory) -> Path:
    """Folder of a fit to every second frame of the peptide."""
    out = tmp_path_factory.mktemp("fitted") / "states"
    files = list(map(str, molecule.files))
    options = ["--top", str(molecule.top), "--n-states", "2", "--stride", "2", "--dt", "5", "--structures", "3"]
    assert main(["fit", *files, *options, "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="session")
def arrays(tmp_path_factory) -> list[str]:
    """Features of two trajectories between two wells, as .npy files."""
    folder = tmp_path_factory.mktemp("arrays")
    for seed in range(2):
        np.save(folder / f"x{seed}.npy", hidden_markov_wells(200, 2, seed).frames)
    return [str(folder / f"x{seed}.npy") for seed in range(2)]
