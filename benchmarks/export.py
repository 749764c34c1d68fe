"""Exported rules against `decision_function`, and what they cost in a simulation.

    python benchmarks/export.py             # accuracy for both molecules, all metrics, 2 to 6 states
    python benchmarks/export.py --cost      # overhead per time step, needs OpenMM

Values and forces are compared on 200 frames of the shipped trajectories: values with the scores of the model on columns
in double precision, forces with central differences. OpenMM, PyTorch and PLUMED take part where they are installed
(PLUMED as tests/export/real_plumed.py says; an interpreter of its actions always does). A step with the variable inside
of a CustomCVForce, as in metadynamics, is compared with the bare step, in CPU time, in turns. Rows go to
benchmarks/results/export.jsonl; accuracies that are there are not computed again (remove the file for that).
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import mdtraj as md
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from m3c_md import M3C, DihedralFeaturizer
from m3c_md.data import alanine_dipeptide, deca_alanine
from m3c_md.exceptions import DegenerateSolutionError, InputError
from m3c_md.export.columns import columns_of_frames
from m3c_md.export.openmm_force import RuleFunction
from m3c_md.optimize.metric import gradient_metric
from tests.export.plumed_interpreter import run
from tests.export.real_plumed import OF_VECTORS, drive, version

MOLECULES = {"alanine dipeptide": alanine_dipeptide, "deca-alanine": deca_alanine}
METRICS = ("standard", "kinetic", "learned")
N_FRAMES = 200
STEP = 1e-5
RESULTS = Path(__file__).parent / "results" / "export.jsonl"


def fit(data: Any, metric: str, n_states: int, **settings: Any) -> Any:
    featurizer = DihedralFeaturizer()
    featurizer.describe(data.topology)
    featurizer.load(data.trajectory_files[0], data.topology, stride=len(data.features[0]) // 2)
    trajs = [x[::10] for x in data.features]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = M3C(n_states, metric=metric, random_state=0, **settings).fit_fetch(trajs, featurizer=featurizer)
    # A rule in the metric that is asked for, even if another won; one that was never tried is learned here.
    known = [record.metric for record in model.records]
    if metric == "standard" or not settings:
        return model
    found = [k for k, name in enumerate(known) if name not in ("standard", "given")]
    if found:
        return model.alternative(found[0])
    frames = np.concatenate(trajs).astype(np.float64)
    weights, scale = np.full(len(frames), 1.0 / len(frames)), frames.std(axis=0)
    learned = gradient_metric("learned", model.feature_map, model.rule, frames, weights, scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = M3C(n_states, metric=learned.full_matrix(), random_state=0, **settings)
        return again.fit_fetch(trajs, featurizer=featurizer)


def accuracy() -> None:
    known = {(row["molecule"], row["metric"], row["n_states"]) for row in kept("accuracy")}
    for name, load in MOLECULES.items():
        data = load()
        trajectory = md.load(str(data.trajectory_files[0]), top=data.topology)
        trajectory = trajectory[:: len(trajectory) // N_FRAMES][:N_FRAMES]
        for metric in METRICS:
            for n_states in (n for n in range(2, 7) if (name, metric, n) not in known):
                model = any_fit(data, metric, n_states)
                row = {"kind": "accuracy", "molecule": name, "metric": metric, "n_states": n_states}
                row |= {"winner": model.records[model.chosen].metric, **errors_of(model, trajectory)}
                write([*kept("cost"), *kept("accuracy"), row])
    rows = kept("accuracy")
    values = max(row[key] for row in rows for key in row if key.startswith("value error"))
    forces = max(row[key] for row in rows for key in row if key.startswith("force error"))
    print(f"{len(rows)} rules: values are off by {values:.1e} at most, forces by {forces:.1e} kJ/mol/nm")


def any_fit(data: Any, metric: str, n_states: int) -> Any:
    """Quick fit, with more starts and other bandwidths where states are lost: any rule of so many states will do."""
    for settings in ({"starts": ("kmeans",), "bandwidth": 2.0}, {"bandwidth": 2.0}, {"bandwidth": 1.0}, {}):
        try:
            return fit(data, metric, n_states, balance=(0.001, 0.99), **settings)
        except DegenerateSolutionError:
            continue
    raise SystemExit(f"no rule of {n_states} states in the metric {metric!r}")


def kept(kind: str) -> list[dict[str, Any]]:
    """Rows of a kind that are there."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return [row for line in lines if (row := json.loads(line))["kind"] == kind]


def write(rows: list[dict[str, Any]]) -> None:
    RESULTS.write_text("".join(json.dumps(row) + "\n" for row in rows))


def errors_of(model: Any, trajectory: md.Trajectory) -> dict[str, Any]:
    """Largest errors over all frames, of the variable from the first state to the last."""
    states = (0, model.n_states - 1)
    scores = model.decision_function(columns_of_frames(model.dihedral_columns, trajectory))
    exact = scores[:, states[0]] - scores[:, states[1]]
    errors: dict[str, Any] = {"n_frames": len(trajectory)}
    for syntax in ("vectors", "classic"):
        printed = run(model.to_plumed(states=states, syntax=syntax), trajectory).printed
        errors[f"value error, PLUMED {syntax}"] = float(np.abs(printed - exact).max())
    variable = model.collective_variable(states)
    function = RuleFunction(variable, model.dihedral_columns.quartets)
    points = trajectory.xyz[:, function.particles].astype(np.float64)
    forces = np.zeros(trajectory.xyz.shape)
    forces[:, function.particles] = [function.energy_and_forces(x)[1] for x in points]
    errors["force error"] = slope_error(function, points, forces[:, function.particles])
    known = version()
    for syntax in () if known is None else ("vectors", "classic")[known < OF_VECTORS :]:
        with tempfile.TemporaryDirectory() as folder:
            driven = drive(model.to_plumed(states=states, syntax=syntax), trajectory.xyz, Path(folder))
        errors[f"value error, PLUMED itself, {syntax}"] = float(np.abs(driven.printed - exact).max())
        errors[f"force error, PLUMED itself, {syntax}"] = float(np.abs(driven.forces - forces).max())
    for name, evaluate in (("OpenMM", by_openmm), ("PyTorch", by_torch)):
        try:
            values, found = evaluate(model, states, trajectory)
        except InputError:  # not installed
            continue
        errors[f"value error, {name}"] = float(np.abs(values - exact).max())
        errors[f"force error, {name}"] = float(np.abs(found - forces).max())
    return {"cosines": variable.n_terms, **errors}


def slope_error(function: RuleFunction, points: Any, forces: Any) -> float:
    """Largest difference between forces and central differences: another atom and axis in every frame."""
    worst = 0.0
    for number, x in enumerate(points):
        atom, axis = number % len(function.particles), number % 3
        shift = np.zeros_like(x)
        shift[atom, axis] = STEP
        ends = [function.energy_and_forces(x + sign * shift)[0] for sign in (1.0, -1.0)]
        worst = max(worst, abs((ends[0] - ends[1]) / (2.0 * STEP) + forces[number, atom, axis]))
    return float(worst)


def by_openmm(model: Any, states: tuple[int, int], trajectory: md.Trajectory) -> tuple[Any, Any]:
    """Values and forces of all frames by the force that `to_openmm` chooses."""
    force = model.to_openmm(states=states)
    import openmm

    system = openmm.System()
    for _ in range(trajectory.n_atoms):
        system.addParticle(12.0)
    system.addForce(force)
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    values, forces = [], []
    for positions in trajectory.xyz.astype(np.float64):
        context.setPositions(positions)
        state = context.getState(energy=True, forces=True)
        values.append(state.getPotentialEnergy()._value)
        forces.append(state.getForces(asNumpy=True)._value)
    return np.array(values), np.array(forces)


def by_torch(model: Any, states: tuple[int, int], trajectory: md.Trajectory) -> tuple[Any, Any]:
    """Values and forces of all frames by the TorchScript module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit announces its end
        module = model.to_torch(states=states)
    import torch

    values, forces = [], []
    for frame in trajectory.xyz.astype(np.float64):
        positions = torch.tensor(frame, requires_grad=True)
        value = module(positions)
        value.backward()
        values.append(value.item())
        forces.append(-positions.grad.numpy())
    return np.array(values), np.array(forces)


def cost(n_steps: int, rounds: int) -> None:
    from m3c_md.data.dynamics import DEFAULTS, make_system
    from m3c_md.data.peptides import build_peptide

    rows = []
    for name, load in MOLECULES.items():
        settings = DEFAULTS[name.replace(" ", "-")]
        model = fit(load(), "standard", 2)
        topology, positions = build_peptide(settings.n_alanines, settings.capped, "helix")
        contexts = {"bare": context_of(make_system(topology), positions, settings.platform)}
        n_angles = model.dihedral_columns.n_angles
        forms = ("expression", "python", "nested") if n_angles <= 2 else ("python", "nested")
        for form in forms:
            began = time.process_time()
            contexts[form] = context_of(biased(make_system(topology), model, form), positions, settings.platform)
            print(f"{name}, {n_angles} dihedrals: {form} is built in {time.process_time() - began:.2f} s")
        seconds: dict[str, list[float]] = {form: [] for form in contexts}
        for _ in range(rounds):
            for form, context in contexts.items():
                began = time.process_time()
                context.getIntegrator().step(n_steps)
                seconds[form].append((time.process_time() - began) / n_steps)
        bare = float(np.median(seconds["bare"]))
        terms = model.collective_variable().n_terms
        for form, found in seconds.items():
            ratios = np.array(found) / np.array(seconds["bare"])
            row = {"kind": "cost", "molecule": name, "dihedrals": n_angles, "cosines": terms, "form": form}
            row |= {"platform": settings.platform, "ms a step": 1e3 * float(np.median(found))}
            rows.append(
                row | {"times the bare step": float(np.median(ratios)), "from": ratios.min(), "to": ratios.max()}
            )
            print(
                f"{name}, {n_angles} dihedrals, {terms} cosines, {settings.platform}, {form}: "
                f"{1e3 * np.median(found):.3f} ms a step, {np.median(ratios):.2f} times the bare one "
                f"({ratios.min():.2f}-{ratios.max():.2f}), {1e3 * (np.median(found) - bare):.3f} ms more"
            )
    write([*rows, *kept("accuracy")])


def biased(system: Any, model: Any, form: str) -> Any:
    import openmm

    force = openmm.CustomCVForce("0.5*s^2")
    force.addCollectiveVariable("s", model.to_openmm(form=form))
    system.addForce(force)
    return system


def context_of(system: Any, positions: Any, platform: str) -> Any:
    import openmm

    integrator = openmm.LangevinMiddleIntegrator(300.0, 1.0, 0.002)
    integrator.setRandomNumberSeed(1)
    properties = {"Threads": "1"} if platform == "CPU" else {}
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName(platform), properties)
    context.setPositions(positions)
    openmm.LocalEnergyMinimizer.minimize(context, maxIterations=50)
    integrator.step(20)
    return context


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cost", action="store_true", help="overhead per time step")
    parser.add_argument("--steps", type=int, default=300, help="time steps of a round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.cost:
        cost(options.steps, options.rounds)
    else:
        accuracy()
