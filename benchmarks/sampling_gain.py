"""How much a bias along a rule can help at best: rates on a surface, for many rules, blurs and widths of hills.

    python benchmarks/sampling_gain.py FOLDER     # that of benchmarks/sampling.py, whose surface it uses; two minutes

The molecule is replaced by diffusion on the free energy of φ and ψ at 300 K (jumps between neighbours on a grid of 5°).
The bias is the one that well-tempered metadynamics ends with, at the resolution of its hills. The gain is the flux into
the core of α_L, reactive and per time, over the flux without bias; filling is not part of it. Rules are those that M3C
finds in 2 to 15 of the shipped trajectories, drawn at random. Rows go to benchmarks/results/sampling_gain.jsonl.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import mdtraj
import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import spsolve

sys.path.insert(0, str(Path(__file__).parents[1]))

from m3c_md import M3C, DihedralFeaturizer
from m3c_md.cli.sample import CORE
from m3c_md.data import alanine_dipeptide
from m3c_md.data.bias import Filling
from m3c_md.data.free_energies import GAS_CONSTANT
from m3c_md.data.hills import hill_width, thermal_speeds

RESULTS = Path(__file__).parent / "results" / "sampling_gain.jsonl"
THERMAL = GAS_CONSTANT * 300.0
# α_L: states are numbered by falling population.
RARE = 2
N_RULES = 14
# What is tried: blurs and time steps (fs, of which widths of hills follow) for α_L alone, then other names of states.
BLURS, STEPS = (0.0, 0.25, 0.5, 1.0, 2.0, 8.0), (1.0, 2.0, 4.0)
PAIRS = ((2, 0), (2, 1))


def flux(energies: Any, source: Any, target: Any) -> float:
    """Reactive flux from source to target at equilibrium on a periodic surface (kJ/mol), in jumps per time."""
    n, u = energies.size, energies.ravel() / THERMAL
    places = np.arange(n).reshape(energies.shape)
    pairs = [(places.ravel(), np.roll(places, by, axis).ravel()) for axis in (0, 1) for by in (1, -1)]
    begin, end = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    rates = sparse.csr_matrix((np.exp(0.5 * (u[begin] - u[end])), (begin, end)), shape=(n, n))
    rates = (rates - sparse.diags(np.asarray(rates.sum(axis=1)).ravel())).tocsr()
    between = ~(source | target)
    committor = target.astype(np.float64)
    committor[between] = spsolve(rates[between][:, between].tocsc(), -(rates @ committor)[between])
    weights = np.exp(u.min() - u)
    return float((weights * (rates @ committor))[source].sum() / weights.sum())


def final_bias(values: Any, energies: Any, width: float) -> Any:
    """Bias at each point of the surface once metadynamics along a variable has converged, with hills of a width."""
    grid = np.linspace(values.min(), values.max(), 400)
    seen = np.exp(-0.5 * ((grid[:, None] - values) / width) ** 2) @ np.exp(-energies.ravel() / THERMAL)
    along = -THERMAL * np.log(seen / seen.max())
    return -(1.0 - 1.0 / Filling().bias_factor) * np.interp(values, grid, along).reshape(energies.shape)


def main(folder: Path) -> None:
    energies = np.load(folder / "surface.npy")[:-1, :-1].T  # φ first; the last points are the first ones again
    energies = np.minimum(energies - energies.min(), 60.0)  # beyond it metadynamics has never been
    angles = np.linspace(-np.pi, np.pi, len(energies), endpoint=False)
    phi, psi = (x.ravel() for x in np.meshgrid(angles, angles, indexing="ij"))
    points = np.column_stack([np.sin(phi), np.cos(phi), np.sin(psi), np.cos(psi)])
    data, featurizer = alanine_dipeptide(), DihedralFeaturizer()
    featurizer.load(data.trajectory_files[0], data.topology_file, stride=1000)
    quartets = featurizer.dihedral_columns().quartets
    frames = mdtraj.load(str(data.trajectory_files[0]), top=data.topology).xyz[::5].astype(np.float64)
    masses = np.array([atom.element.mass for atom in data.topology.atoms])

    tried = [(RARE, blur, step) for step in STEPS for blur in BLURS] + [(pair, 1.0, 2.0) for pair in PAIRS]
    gains, rng = [], np.random.default_rng(7)
    for number in range(N_RULES):
        chosen = rng.choice(20, int(rng.choice([2, 3, 5, 10, 15])), replace=False)
        model = M3C(3, random_state=100 + number).fit_fetch([data.features[k] for k in chosen], featurizer=featurizer)
        states_there, scores = model.transform(points), np.sort(model.decision_function(points), axis=1)
        inside = scores[:, -1] - scores[:, -2] >= CORE
        source, target = inside & (states_there != RARE), inside & (states_there == RARE)
        without, row = flux(energies, source, target), []
        for states, blur, step in tried:
            variable = model.collective_variable(states).blurred(blur)
            width = hill_width(step / 1000.0, thermal_speeds(variable, quartets, frames, masses, THERMAL)[1])
            bias = final_bias(variable.values(points), energies, width)
            row.append(flux(energies + bias, source, target) / without)
        gains.append(row)
        print(number, sorted(chosen.tolist()), np.round(row).tolist(), flush=True)
    rows = []
    for (states, blur, step), each in zip(tried, np.array(gains).T, strict=True):
        found = {"states": states, "blur": blur, "step_fs": step, "n_rules": N_RULES}
        numbers = {"least": each.min(), "median": np.median(each), "most": each.max()}
        rows.append(found | {name: round(float(value), 1) for name, value in numbers.items()})
    RESULTS.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
