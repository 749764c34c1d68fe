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

from m3c_md.features import DihedralFeaturizer


def peptide(n_residues: int, n_water: int) -> md.Topology:
    topology = md.Topology()
    chain = topology.add_chain()
    for _ in range(n_residues):
        residue = topology.add_residue("ALA", chain)
        for name in ("N", "H", "CA", "HA", "CB", "HB1", "HB2", "HB3", "C", "O"):
            topology.add_atom(name, md.element.Element.getBySymbol(name[0]), residue)
    chain = topology.add_chain()
    for _ in range(n_water):
        residue = topology.add_residue("HOH", chain)
        for name in ("O", "H1", "H2"):
            topology.add_atom(name, md.element.Element.getBySymbol(name[0]), residue)
    return topology


def made_up(topology: md.Topology, n_frames: int, cell: np.ndarray | None, wrap: bool) -> md.Trajectory:
    """Random walks of atoms, bonds of a few tenths of a nm; angles mean nothing, but take as long as real ones."""
    rng = np.random.default_rng(0)
    start = np.cumsum(0.05 * rng.normal(size=(topology.n_atoms, 3)), axis=0)
    xyz = start + 0.02 * rng.normal(size=(n_frames, topology.n_atoms, 3))
    if wrap and cell is not None:
        fractions = xyz @ np.linalg.inv(cell)
        xyz = (fractions - np.floor(fractions)) @ cell
    trajectory = md.Trajectory(xyz.astype(np.float32), topology)
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
        ("in water, cubic box, whole", peptide(20, 1000), 1_000, cube, False),
        ("in water, cubic box, broken", peptide(20, 1000), 1_000, cube, True),
        ("small, triclinic box, whole", peptide(3, 0), 2_000, dodecahedron, False),
        ("small, triclinic box, broken", peptide(3, 0), 2_000, dodecahedron, True),
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, topology, n_frames, cell, wrap in cases:
            for ending in ("xtc", "dcd"):
                file = str(Path(folder) / f"run.{ending}")
                made_up(topology, n_frames, cell, wrap).save(file)
                compare(f"{ending.upper()}, {name}", [file], topology, options.repeats)


if __name__ == "__main__":
    main()
