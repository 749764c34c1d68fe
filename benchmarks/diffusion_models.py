"""How often the default M3C finds the right decomposition of the paper's two diffusions.

    python benchmarks/diffusion_models.py --seeds 20

For every seed: simulate the paper's protocol, fit ``M3C(3)`` with default settings, and measure Q exactly on the grid
reference. "right" means that the partition agrees with the best one on 95 % of the stationary mass; "among" that some
candidate that is not degenerate does.
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

from m3c_md import M3C
from m3c_md.exceptions import AmbiguousSolutionWarning
from m3c_md.systems import MODEL_I, MODEL_II, DiffusionModel, agreement, exact_reference, simulate

MODELS = {"I": MODEL_I, "II": MODEL_II}
RIGHT = 0.95


def data_sets(model: DiffusionModel, seeds: int, first: int) -> list[list[np.ndarray]]:
    """Simulate all experiments side by side: many trajectories in one call are much faster than many calls."""
    trajectories = simulate(model, np.random.default_rng(first), n_trajectories=model.n_trajectories * seeds)
    return [trajectories[i * model.n_trajectories : (i + 1) * model.n_trajectories] for i in range(seeds)]


def run_one(name: str, seed: int, trajectories: list[np.ndarray]) -> dict[str, Any]:
    model = MODELS[name]
    reference = exact_reference(model)
    best = reference.best_partition(model.n_states, model.interval)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AmbiguousSolutionWarning)
        fitted = M3C(model.n_states, random_state=seed).fit_fetch(trajectories)
    seconds = time.perf_counter() - began

    def share_right(number: int) -> float:
        return agreement(fitted.alternative(number).transform(reference.points), best, reference.stationary)

    usable = np.flatnonzero(~fitted.candidates["degenerate"].to_numpy())
    return {
        "seed": seed,
        "Q": reference.metastability(fitted.transform(reference.points), model.interval),
        "right": share_right(0) > RIGHT,
        "among": any(share_right(int(i)) > RIGHT for i in usable),
        "smallest population": float(fitted.populations.min()),
        "gap": fitted.gap,
        "start": str(fitted.candidates["start"][0]),
        "bandwidth": fitted.bandwidth,
        "effective sample": fitted.effective_sample,
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=sorted(MODELS), default=sorted(MODELS))
    parser.add_argument("--seeds", type=int, default=20, help="experiments per model")
    parser.add_argument("--first", type=int, default=0, help="seed of the simulations")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in options.models:
        model = MODELS[name]
        reference = exact_reference(model)
        best = reference.metastability(reference.best_partition(model.n_states, model.interval), model.interval)
        sets = data_sets(model, options.seeds, options.first)
        rows[name] = Parallel(n_jobs=options.jobs)(
            delayed(run_one)(name, options.first + i, one) for i, one in enumerate(sets)
        )
        values = np.array([row["Q"] for row in rows[name]])
        print(f"{model.name}: Q {values.mean():.4f} ± {values.std(ddof=1):.4f} (best possible {best:.4f})")
        print(f"  right {sum(r['right'] for r in rows[name])}, among {sum(r['among'] for r in rows[name])}", end="")
        print(f" of {options.seeds}; worst Q {values.min():.4f}", end="")
        print(f"; smallest population {min(r['smallest population'] for r in rows[name]):.3f}", end="")
        seconds = [row["seconds"] for row in rows[name]]
        print(f"; seconds {np.median(seconds):.1f} (max {max(seconds):.1f})", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1, default=float))


if __name__ == "__main__":
    main()
