"""Populations of alanine dipeptide at 300 K without the rule: what `m3c-md sample` is to agree with.

    python benchmarks/sampling.py FOLDER                # needs OpenMM; about eight minutes of an idle core
    python benchmarks/sampling.py FOLDER --entries      # with bias against without, four rules; an hour of an idle core

OpenMM's own metadynamics fills a bias along φ and ψ, which are known to be the slow coordinates here. The bias is then
left as it is, and angles are collected: weights undo a bias that no longer changes exactly. States are those of the
rule that M3C finds in the shipped trajectories (500 K). Errors are over eight blocks. The row goes to
benchmarks/results/sampling.jsonl; FOLDER keeps the surface and the angles.

With --entries the reference is made if it is not there yet. For each of four rules, found in all or some of the shipped
trajectories, eight biased trajectories are run as in notebook 7 (0.4 ns or more fill the bias, 1 ns is collected), then
trajectories of 5 ns without bias, as many as --free says. Entries into the core of α_L are counted as `m3c-md sample`
counts them, and populations are compared with the reference. Another --biased-seed makes rows of its own. What is
finished is kept in FOLDER: after a stop (or with a smaller --free) the same command goes on, and counts whatever is
finished. With --free 0 in a new FOLDER the count without bias is that of the last rows.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chi2
from scipy.stats import t as student
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parents[1]))

from m3c_md import M3C, DihedralFeaturizer
from m3c_md.cli.sample import CORE
from m3c_md.data import alanine_dipeptide, read_run
from m3c_md.data.bias import Filling
from m3c_md.data.dynamics import DEFAULTS, TIME_STEP_PS, make_system
from m3c_md.data.free_energies import GAS_CONSTANT, state_weights
from m3c_md.data.peptides import build_peptide
from m3c_md.data.sampling import read_fillings, read_weights, sample
from m3c_md.data.simulate import simulate

RESULTS = Path(__file__).parent / "results" / "sampling.jsonl"
TEMPERATURE = 300.0
FILL_NS = 3
# Steps between two hills; steps between two records of the angles (0.2 ps).
PER_HILL, PER_RECORD = 125, 50
# The surface is filled up to here, kJ/mol: beyond it are no ways between states.
HIGHEST = 45.0
# α_L: states are numbered by falling population.
RARE = 2
# Rules by name: trajectories and random_state of their fits. Blur and width of hills were chosen with others, but for
# the first, which is the rule of notebook 7.
RULES = {
    "all": (range(20), 0),
    "first-ten": (range(10), 201),
    "last-ten": (range(10, 20), 202),
    "three": ((0, 7, 14), 203),
}


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
    return rounded(state_weights([model.transform(columns)], [weights], model.n_states, TEMPERATURE))


def rounded(states: Any) -> dict[str, Any]:
    return {name: np.round(value, 5).tolist() for name, value in states._asdict().items()}


def entries(folder: Path, model: Any, state: int) -> Any:
    """Entries into the core of a state in each finished trajectory of a run, and its length in ns."""
    run = read_run(folder)
    cored = model.core(list(run.features), margin=CORE).dtrajs
    counts = [int(np.count_nonzero((x[1:] == state) & (x[:-1] != state))) for x in cored]
    return np.array(counts), np.array([len(x) for x in cored]) * run.dt / 1000.0


def rate_ends(counts: Any, ns: Any) -> dict[str, Any]:
    """Entries per ns with two 95 % intervals: independent events (Poisson), and Student's t over trajectories."""
    n, total, rates = int(counts.sum()), float(ns.sum()), counts / ns
    low = chi2.ppf(0.025, 2 * n) / 2 / total if n else 0.0
    poisson = (low, chi2.ppf(0.975, 2 * n + 2) / 2 / total)
    reach = student.ppf(0.975, len(counts) - 1) * rates.std(ddof=1) / len(counts) ** 0.5
    found = {
        "n": n,
        "ns": total,
        "per_ns": n / total,
        "poisson": poisson,
        "student": (n / total - reach, n / total + reach),
    }
    return {key: np.round(value, 4).tolist() for key, value in found.items()} | {"each": counts.tolist()}


def run_biased(folder: Path, model: Any, seed: int) -> dict[str, Any]:
    """Run trajectories with a bias along a rule; entries, filling, populations."""
    usual = dataclasses.replace(DEFAULTS["alanine-dipeptide"], temperature=TEMPERATURE)
    short = dataclasses.replace(usual, n_frames=500, chunk_frames=100, equilibration_frames=20, seed=seed)
    columns = model.dihedral_columns
    sample(short, Filling(fill_frames=200), model.collective_variable(RARE), columns, 8, folder, progress=tqdm)
    states = model.transform(list(read_run(folder).features))
    found = state_weights(states, read_weights(folder), model.n_states, TEMPERATURE)
    fillings = {"filling": [filled._asdict() for filled in read_fillings(folder)]}
    return rate_ends(*entries(folder, model, RARE)) | fillings | rounded(found)


def compared(with_bias: dict[str, Any], without: dict[str, Any], reference: dict[str, Any]) -> dict[str, Any]:
    """The gain, at the wider end of each rate, too; shifts of populations in units of their standard errors."""
    least = max(0.0, min(with_bias["poisson"][0], with_bias["student"][0]))
    most = max(without["poisson"][1], without["student"][1])
    errors = np.hypot(with_bias["population_errors"], reference["population_errors"])
    shifts = (np.array(with_bias["populations"]) - reference["populations"]) / errors
    return {
        "biased": with_bias,
        "free": without,
        "reference": reference,
        "times": with_bias["per_ns"] / without["per_ns"] if without["n"] else None,
        "times_at_least": least / most,
        "shifts": np.round(shifts, 2).tolist(),
    }


def count_entries(folder: Path, data: Any, featurizer: Any, reference: Any, n_free: int, seed: int) -> None:
    """Run all rules with bias, then without; keep a row for each rule and seed."""
    rules, biased = {}, {}
    for name, (chosen, random_state) in RULES.items():
        frames = [data.features[number] for number in chosen]
        rules[name] = M3C(3, random_state=random_state).fit_fetch(frames, featurizer=featurizer)
        biased[name] = run_biased(folder / f"{name}-{seed}", rules[name], seed)
        print(name, biased[name], judged(reference, rules[name]), flush=True)
    if n_free:
        usual = dataclasses.replace(DEFAULTS["alanine-dipeptide"], temperature=TEMPERATURE, n_frames=2500, seed=7000)
        simulate(usual, n_free, folder / "free", progress=tqdm)
    for name, model in rules.items():
        free = rate_ends(*entries(folder / "free", model, RARE)) if (folder / "free").exists() else earlier_free(name)
        row = {"kind": "entries", "rule": name, "seed": seed, "temperature": TEMPERATURE, "state": RARE}
        keep(row | compared(biased[name], free, judged(reference, model)))


def earlier_free(rule: str) -> dict[str, Any]:
    """What was counted without bias along a rule when its last row was made."""
    rows = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    return [row["free"] for row in rows if row.get("rule") == rule][-1]


def keep(row: dict[str, Any]) -> None:
    """Put a row in the place of its earlier one; the reference comes first, where notebook 7 looks for it."""
    rows = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    same = [all(old.get(key) == row.get(key) for key in ("kind", "rule", "seed")) for old in rows]
    rows = [old for old, is_same in zip(rows, same, strict=True) if not is_same] + [row]
    rows.sort(key=lambda each: str(each["kind"]), reverse=True)
    RESULTS.write_text("".join(json.dumps(each) + "\n" for each in rows))
    print(json.dumps(row))


def main(folder: Path, ns: float, seed: int, n_free: int | None, biased_seed: int) -> None:
    data, featurizer = alanine_dipeptide(), DihedralFeaturizer()
    featurizer.load(data.trajectory_files[0], data.topology_file, stride=1000)
    quartets = featurizer.dihedral_columns().quartets
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "surface.npy").exists():
        np.save(folder / "surface.npy", surface(quartets, seed))
    if not (folder / "angles.npy").exists():
        np.save(folder / "angles.npy", biased_angles(np.load(folder / "surface.npy"), quartets, ns, seed + 10))
    found = np.load(folder / "angles.npy")
    if n_free is not None:
        count_entries(folder, data, featurizer, found, n_free, biased_seed)
        return
    model = M3C(3, random_state=0).fit_fetch(data.features, featurizer=featurizer)
    row = {"kind": "reference", "temperature": TEMPERATURE, "ns": len(found) * PER_RECORD * TIME_STEP_PS / 1000}
    keep(row | judged(found, model))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ns", type=float, default=20.0, help="to collect")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--entries", action="store_true", help="count entries with and without bias instead")
    parser.add_argument(
        "--free", type=int, default=14, metavar="N", help="trajectories of 5 ns without bias; 0: as they are"
    )
    parser.add_argument("--biased-seed", type=int, default=9000, help="base seed of runs along rules (default: 9000)")
    options = parser.parse_args()
    n_free = options.free if options.entries else None
    main(options.folder, options.ns, options.seed, n_free, options.biased_seed)
