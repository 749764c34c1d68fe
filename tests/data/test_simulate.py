"""The start structures that the simulation script builds: angles as asked for, bonds as in the table, all L."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "data" / "simulate.py"


@pytest.fixture(scope="module")
def simulate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("m3c_md_simulate", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def placed_atoms(simulate: ModuleType, n_alanines: int, capped: bool, phi: float, psi: float) -> dict:
    placed = {name: np.array(xyz) for name, xyz in simulate._ORIGIN.items()}
    for row in simulate.peptide_rows(n_alanines, capped, phi, psi):
        assert row.atom not in placed
        placed[row.atom] = simulate.place_atom(*(placed[anchor] for anchor in row.anchors), row)
        assert np.linalg.norm(placed[row.atom] - placed[row.anchors[2]]) == pytest.approx(row.bond)
    return {atom: xyz for atom, xyz in placed.items() if atom[0] >= 0}


def dihedral(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> float:
    """Angle in degrees, by the textbook formula."""
    first, second = np.cross(b - a, c - b), np.cross(c - b, d - c)
    return float(np.degrees(np.arctan2(np.linalg.norm(c - b) * np.dot(b - a, second), np.dot(first, second))))


@pytest.mark.parametrize(("n_alanines", "capped", "n_atoms"), [(1, True, 22), (10, False, 103)])
@pytest.mark.parametrize(("phi", "psi"), [(-63.0, -42.0), (-75.0, 145.0)])
def test_backbone_angles_are_those_asked_for(simulate, n_alanines, capped, n_atoms, phi, psi) -> None:
    atoms = placed_atoms(simulate, n_alanines, capped, phi, psi)
    assert len(atoms) == n_atoms
    first = 1 if capped else 0
    for i in range(first, first + n_alanines):
        n, ca, c = (atoms[i, name] for name in ("N", "CA", "C"))
        if i > 0:
            assert dihedral(atoms[i - 1, "C"], n, ca, c) == pytest.approx(phi)
        if (i + 1, "N") in atoms:
            assert dihedral(n, ca, c, atoms[i + 1, "N"]) == pytest.approx(psi)
        # L: looking from HA towards CA, one reads CO, R, N clockwise.
        towards = atoms[i, "CA"] - atoms[i, "HA"]
        turn = np.cross(c - ca, atoms[i, "CB"] - ca)
        assert np.dot(turn, towards) > 0.0


def test_no_two_atoms_are_on_top_of_each_other(simulate) -> None:
    for capped, n_alanines in ((True, 1), (False, 10)):
        xyz = np.array(list(placed_atoms(simulate, n_alanines, capped, -75.0, 145.0).values()))
        distances = np.linalg.norm(xyz[:, None] - xyz, axis=-1) + 10.0 * np.eye(len(xyz))
        assert distances.min() > 0.95


def test_chunks_have_seeds_of_their_own(simulate) -> None:
    settings = next(iter(simulate.DEFAULTS.values()))
    seeds = {simulate.chunk_seed(settings, trajectory, chunk) for trajectory in range(20) for chunk in range(50)}
    assert len(seeds) == 1000
