"""The paper's protocol on the shipped molecules: fit one trajectory, judge on all others, for every trajectory in turn.

    python benchmarks/paper/molecules.py alanine-dipeptide
    python benchmarks/paper/molecules.py deca-alanine --states 2

Prints a table (mean and standard deviation over the fitted trajectories of the held-out metastability Q, and the paired
difference to M3C with its standard error) and what M3C's states are. ``--json FILE`` keeps every fit; a file that is
there is gone on with.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from m3c_md import M3C, MMC, KMedoids, PCCAPlus
from m3c_md.data import MolecularData, alanine_dipeptide, deca_alanine
from m3c_md.exceptions import M3CWarning
from m3c_md.validation import metastability

MOLECULES = {"alanine-dipeptide": alanine_dipeptide, "deca-alanine": deca_alanine}
DEFAULT_STATES = {"alanine-dipeptide": 3, "deca-alanine": 2}
MICROSTATES = (100, 200, 300, 400, 500)


def methods(n_states: int, lagtime: int, seed: int, geometric: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"M3C": M3C(n_states, lagtime, random_state=seed)}
    found |= {f"PCCA+ ({n})": PCCAPlus(n_states, lagtime, n_microstates=n, random_state=seed) for n in MICROSTATES}
    if geometric:
        found |= {"MMC": MMC(n_states, random_state=seed), "k-medoids": KMedoids(n_states, random_state=seed)}
    return found


def run_one(name: str, fitted: int, n_states: int, lagtime: int, geometric: bool) -> dict[str, Any]:
    """All methods fitted to one trajectory."""
    data = MOLECULES[name]()
    others = [x for i, x in enumerate(data.features) if i != fitted]
    row: dict[str, Any] = {"fitted": fitted}
    for method, estimator in methods(n_states, lagtime, fitted, geometric).items():
        began = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", M3CWarning)
                model = estimator.fit_fetch(data.features[fitted])
                quality = metastability(model.transform(others), lagtime, n_states)
        except (RuntimeError, ValueError) as error:
            row[method] = {"error": str(error)}
            continue
        row[method] = {
            "Q": quality,
            "populations": model.populations.tolist(),
            "centres": state_centres(data, model, n_states) if method == "M3C" else None,
            "warnings": list(model.warnings),
            "seconds": time.process_time() - began,
        }
    return row


def state_centres(data: MolecularData, model: Any, n_states: int) -> list[list[float]]:
    """Circular mean of every angle in every state, in degrees, over all trajectories."""
    angles = np.concatenate(data.angles).astype(float)
    states = np.concatenate(model.transform(data.features))
    means = [np.angle(np.exp(1j * angles[states == k]).mean(axis=0), deg=True) for k in range(n_states)]
    return [mean.round(1).tolist() for mean in means]


def print_table(rows: list[dict[str, Any]]) -> None:
    names = [name for name in rows[0] if name != "fitted"]
    values = {name: np.array([row[name].get("Q", np.nan) for row in rows]) for name in names}
    print(f"\n| method | held-out Q | spread | M3C - method (standard error) | fitted | CPU s |\n|{'---|' * 6}")
    for name in names:
        q, difference = values[name], values["M3C"] - values[name]
        n = int(np.isfinite(difference).sum())
        error = np.nanstd(difference, ddof=1) / np.sqrt(n) if n > 1 else np.nan
        seconds = np.median([row[name].get("seconds", np.nan) for row in rows])
        print(
            f"| {name} | {np.nanmean(q):.4f} | {np.nanstd(q, ddof=1):.4f} | {np.nanmean(difference):+.4f} ({error:.4f})"
            f" | {np.isfinite(q).sum()} of {len(q)} | {seconds:.1f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("molecule", choices=sorted(MOLECULES))
    parser.add_argument("--states", type=int, help="default: 3 for alanine dipeptide, 2 for deca-alanine")
    parser.add_argument("--lag", type=int, default=1, help="lag time in frames")
    parser.add_argument("--geometric", action="store_true", help="MMC and k-medoids as well")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="keep every fit in this file, and go on with what is in it")
    options = parser.parse_args()
    n_states = options.states or DEFAULT_STATES[options.molecule]
    data = MOLECULES[options.molecule]()
    print(data)
    rows = json.loads(options.json.read_text()) if options.json and options.json.exists() else []
    missing = sorted(set(range(len(data.angles))) - {row["fitted"] for row in rows})
    results = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
        delayed(run_one)(options.molecule, i, n_states, options.lag, options.geometric) for i in missing
    )
    for row in results:
        rows.append(row)
        print(f"fitted {row['fitted']}: M3C Q {row['M3C'].get('Q', np.nan):.4f}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    rows.sort(key=lambda row: row["fitted"])
    print_table(rows)
    found = [row["M3C"] for row in rows if "Q" in row["M3C"]]
    print(
        "\nM3C's states, mean over the fits: population, angles in degrees ("
        + ", ".join(data.angle_names[:4])
        + " ...)"
    )
    for state in range(n_states):
        share = np.mean([one["populations"][state] for one in found])
        angles = np.array([one["centres"][state][:4] for one in found])
        print(f"  state {state}: {share:.3f}, {np.median(angles, axis=0).round().tolist()}")


if __name__ == "__main__":
    main()
