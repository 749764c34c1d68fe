"""Populations of alanine dipeptide at 300 K without the rule: what `m3c-md sample` is to agree with.

    python benchmarks/sampling.py FOLDER                # needs OpenMM; about five minutes of an idle core
    python benchmarks/sampling.py FOLDER --ns 20        # longer

OpenMM's own metadynamics fills a bias along φ and ψ, which are known to be the slow coordinates here. The bias is then
left as it is, and angles are collected: weights undo a bias that no longer changes exactly. States are those of the
rule that M3C finds in the shipped trajectories (500 K). Errors are over eight blocks. The row goes to
benchmarks/results/sampling.jsonl; FOLDER keeps the surface and the angles.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from m3c_md import M3C, DihedralFeaturizer
from m3c_md.data import alanine_dipeptide
from m3c_md.data.dynamics import TIME_STEP_PS, make_system
from m3c_md.data.free_energies import GAS_CONSTANT, state_weights
from m3c_md.data.peptides import build_peptide

RESULTS = Path(__file__).parent / "results" / "sampling.jsonl"
TEMPERATURE = 300.0
FILL_NS = 3
# Steps between two hills; steps between two records of the angles (0.2 ps).
PER_HILL, PER_RECORD = 125, 50
# The surface is filled up to here, kJ/mol: beyond it are no ways between states.
HIGHEST = 45.0


def angle(four: Any) -> Any:
    """Force whose energy is a dihedral angle."""
    import openmm

    force = openmm.CustomTorsionForce("theta")
    force.addTorsion(*map(int, four), [])
    return force


def simulation(system: Any, topology: Any, positions: Any, seed: int) -> Any:
    import openmm
    from openmm import app

    integrator = openmm.LangevinMiddleIntegrator(TEMPERATURE, 1.0, TIME_STEP_PS)
    integrator.setRandomNumberSeed(seed)
    made = app.Simulation(topology, system, integrator, openmm.Platform.getPlatformByName("Reference"))
    made.context.setPositions(positions)
    made.minimizeEnergy()
    made.context.setVelocitiesToTemperature(TEMPERATURE, seed)
    return made


def surface(quartets: Any, seed: int) -> Any:
    """Free energy of (psi, phi) in kJ/mol by metadynamics."""
    from openmm import app, unit

    topology, positions = build_peptide(1, True, "coil")
    system = make_system(topology)
    variables = [app.BiasVariable(angle(four), -np.pi, np.pi, 0.35, periodic=True, gridWidth=73) for four in quartets]
    metadynamics = app.Metadynamics(system, variables, TEMPERATURE * unit.kelvin, 8.0, 1.0, PER_HILL)
    metadynamics.step(simulation(system, topology, positions, seed), round(FILL_NS * 1000 / TIME_STEP_PS))
    return metadynamics.getFreeEnergy()._value


def biased_angles(energies: Any, quartets: Any, ns: float, seed: int) -> Any:
    """Columns phi, psi and bias (kJ/mol) of a run on a bias that stays as it is."""
    import openmm

    values = -np.minimum(energies - energies.min(), HIGHEST)
    values[-1], values[:, -1] = values[0], values[:, 0]  # the grid ends where it begins
    topology, positions = build_peptide(1, True, "coil")
    system = make_system(topology)
    force = openmm.CustomCVForce("bias(phi, psi)")
    for name, four in zip(("phi", "psi"), quartets, strict=True):
        force.addCollectiveVariable(name, angle(four))
    square = (-np.pi, np.pi, -np.pi, np.pi)
    table = openmm.Continuous2DFunction(len(values), len(values), values.ravel().tolist(), *square, True)
    force.addTabulatedFunction("bias", table)
    force.setForceGroup(31)
    system.addForce(force)
    run = simulation(system, topology, positions, seed)
    run.step(50_000)
    found = np.empty((round(ns * 1000 / (PER_RECORD * TIME_STEP_PS)), 3))
    for row in found:
        run.step(PER_RECORD)
        row[:2] = force.getCollectiveVariableValues(run.context)
        row[2] = run.context.getState(energy=True, groups={31}).getPotentialEnergy()._value
    return found


def judged(found: Any, model: Any) -> dict[str, Any]:
    """Populations and free energies of states, with errors over blocks."""
    columns = np.stack([np.sin(found[:, :2]), np.cos(found[:, :2])], axis=-1).reshape(len(found), -1)
    weights = np.exp(found[:, 2] / (GAS_CONSTANT * TEMPERATURE))
    states = state_weights([model.transform(columns)], [weights], model.n_states, TEMPERATURE)
    return {name: np.round(value, 5).tolist() for name, value in states._asdict().items()}


def main(folder: Path, ns: float, seed: int) -> None:
    data, featurizer = alanine_dipeptide(), DihedralFeaturizer()
    featurizer.load(data.trajectory_files[0], data.topology_file, stride=1000)
    model = M3C(3, random_state=0).fit_fetch(data.features, featurizer=featurizer)
    quartets = featurizer.dihedral_columns().quartets
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "surface.npy").exists():
        np.save(folder / "surface.npy", surface(quartets, seed))
    if not (folder / "angles.npy").exists():
        np.save(folder / "angles.npy", biased_angles(np.load(folder / "surface.npy"), quartets, ns, seed + 10))
    found = np.load(folder / "angles.npy")
    row = {"kind": "reference", "temperature": TEMPERATURE, "ns": len(found) * PER_RECORD * TIME_STEP_PS / 1000}
    RESULTS.write_text(json.dumps(row | judged(found, model)) + "\n")
    print(RESULTS.read_text())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ns", type=float, default=12.0, help="to collect")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    main(options.folder, options.ns, options.seed)
