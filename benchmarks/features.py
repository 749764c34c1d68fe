"""Time `DihedralFeaturizer.load` against mdtraj's own load, compute_phi, compute_psi, sines and cosines.

    python benchmarks/features.py --repeats 7

Files are made on the fly: a small peptide without a box, a peptide in water in a cubic box (whole, and broken
across its borders), and a small peptide in a triclinic box. Runs alternate after a warm-up of each; CPU time counts, so
that others on the machine do not matter. Real files instead: ``--files run0.xtc run1.xtc --top ala2.pdb``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mdtraj as md
import numpy as np

from m3c_md.data import deca_alanine
from m3c_md.features import DihedralFeaturizer


def peptide(n_residues: int, n_water: int) -> md.Trajectory:
    """Frames of the first residues of deca-alanine, in a cluster of water."""
    data = deca_alanine()
    molecule = md.load(str(data.trajectory_files[0]), top=str(data.topology_file))
    molecule = molecule.atom_slice(molecule.topology.select(f"resid < {n_residues}"))
    topology = molecule.topology.copy()
    chain = topology.add_chain()
    for _ in range(n_water):
        residue = topology.add_residue("HOH", chain)
        for name in ("O", "H1", "H2"):
            topology.add_atom(name, md.element.Element.getBySymbol(name[0]), residue)
    water = np.cumsum(0.05 * np.random.default_rng(0).normal(size=(3 * n_water, 3)), axis=0)
    xyz = np.concatenate([molecule.xyz, np.repeat(water[None], len(molecule), axis=0)], axis=1)
    return md.Trajectory(xyz.astype(np.float32), topology)


def made_up(molecule: md.Trajectory, n_frames: int, cell: np.ndarray | None, wrap: bool) -> md.Trajectory:
    """Its frames over and over, as far as needed, and whole or broken across the borders of a box."""
    xyz = np.resize(molecule.xyz, (n_frames, *molecule.xyz.shape[1:])).astype(np.float64)
    if wrap and cell is not None:
        fractions = xyz @ np.linalg.inv(cell)
        xyz = (fractions - np.floor(fractions)) @ cell
    trajectory = md.Trajectory(xyz.astype(np.float32), molecule.topology)
    if cell is not None:
        trajectory.unitcell_vectors = np.repeat(cell[None].astype(np.float32), n_frames, axis=0)
    return trajectory


def by_mdtraj(files: Sequence[str], top: Any, periodic: bool = True) -> list[np.ndarray]:
    columns = []
    for file in files:
        trajectory = md.load(file, top=top)
        angles = [compute(trajectory, periodic=periodic)[1] for compute in (md.compute_phi, md.compute_psi)]
        columns.append(np.hstack([function(angle) for angle in angles for function in (np.sin, np.cos)]))
    return columns


def compare(name: str, files: Sequence[str], top: Any, repeats: int) -> None:
    topology = md.load_topology(top) if isinstance(top, str) else top

    def ours() -> list[np.ndarray]:
        return DihedralFeaturizer().load(list(files), topology)

    def theirs() -> list[np.ndarray]:
        return by_mdtraj(files, topology)

    def seconds(work: Callable[[], Any]) -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    sizes = [(np.sort(x, axis=1), np.sort(y, axis=1)) for x, y in zip(ours(), theirs(), strict=True)]
    difference = max(float(np.abs(x - y).max()) for x, y in sizes)
    times = np.array([(seconds(ours), seconds(theirs)) for _ in range(repeats)])
    ratios = times[:, 0] / times[:, 1]
    ours_median, theirs_median = np.median(times, axis=0)
    print(
        f"{name}: {sum(len(x) for x, _ in sizes)} frames, {topology.n_atoms} atoms: {ours_median:.3f} s, mdtraj "
        f"{theirs_median:.3f} s, ratio {np.median(ratios):.2f} (from {ratios.min():.2f} to {ratios.max():.2f}); "
        f"largest difference {difference:.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--files", nargs="+")
    parser.add_argument("--top")
    options = parser.parse_args()
    if options.files:
        compare("given files", options.files, options.top, options.repeats)
        return
    cube = np.diag([3.0, 3.0, 3.0])
    dodecahedron = 3.0 * np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, np.sqrt(0.5)]])
    cases = (
        ("small, no box", peptide(3, 0), 20_000, None, False),
        ("in water, cubic box, whole", peptide(10, 1000), 1_000, cube, False),
        ("in water, cubic box, broken", peptide(10, 1000), 1_000, cube, True),
        ("small, triclinic box, whole", peptide(3, 0), 2_000, dodecahedron, False),
        ("small, triclinic box, broken", peptide(3, 0), 2_000, dodecahedron, True),
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, molecule, n_frames, cell, wrap in cases:
            for ending in ("xtc", "dcd"):
                file = str(Path(folder) / f"run.{ending}")
                made_up(molecule, n_frames, cell, wrap).save(file)
                compare(f"{ending.upper()}, {name}", [file], molecule.topology, options.repeats)


if __name__ == "__main__":
    main()
