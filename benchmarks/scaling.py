"""CPU time of a default fit, with labels, against frames, columns, states and features: one at a time, log-log slopes.

    python benchmarks/scaling.py

One thread, synthetic dihedrals, medians of three. Numbers go to benchmarks/results/scaling.json, the picture to
benchmarks/figures/scaling.png.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from synthetic import dihedral_series

from m3c_md import M3C

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "scaling.json"
FIGURE = HERE / "figures" / "scaling.png"
# One of these is varied, the others stay.
USUAL = {"frames": 100_000, "angles": 2, "states": 3, "features": 100}
VARIED = {
    "frames": (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000),
    "angles": (1, 2, 4, 8, 16, 32, 64),
    "states": (2, 3, 4, 5, 6, 8),
    "features": (50, 100, 200, 400, 800),
}
AXES = {
    "frames": "frames N",
    "angles": "columns D",
    "states": "states κ",
    "features": "Fourier features d",
}


def seconds_of(frames: int, angles: int, states: int, features: int, repeats: int) -> list[float]:
    """CPU time of fits to one data set."""
    data = dihedral_series(frames, angles, n_states=states, dtype=np.float32)[0]
    times = []
    for seed in range(repeats):
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            M3C(states, n_features=features, random_state=seed).fit_fetch(data).transform(data)
        times.append(time.process_time() - began)
    return times


def measure(repeats: int) -> dict[str, list[dict[str, Any]]]:
    seconds_of(1_000, 2, 3, 100, 1)
    seconds_of(30_000, 2, 3, 100, 1)  # all is compiled now
    results: dict[str, list[dict[str, Any]]] = {}
    for name, values in VARIED.items():
        results[name] = []
        for value in values:
            times = seconds_of(**{**USUAL, name: value}, repeats=repeats)
            results[name].append({"value": value, "seconds": times})
            print(f"{name} {value}: {np.median(times):.2f} s", flush=True)
    return results


def slopes(values: np.ndarray, seconds: np.ndarray) -> tuple[float, float]:
    """Log-log slope between the first two points and between the last two."""
    steps = np.diff(np.log(seconds)) / np.diff(np.log(values))
    return float(steps[0]), float(steps[-1])


def draw(results: dict[str, list[dict[str, Any]]]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(13, 3.4), sharey=True, layout="constrained")
    for ax, (name, rows) in zip(axes, results.items(), strict=True):
        values = np.array([row["value"] for row in rows]) * (2 if name == "angles" else 1)
        seconds = np.median([row["seconds"] for row in rows], axis=1)
        first, last = slopes(values, seconds)
        ax.loglog(values, seconds, "o-")
        ax.set(xlabel=AXES[name], title=f"slope {first:.2f} at first, {last:.2f} at last")
        ax.set_xticks(values, [f"{v:.0e}".replace("e+0", "e") if v >= 1000 else str(v) for v in values], minor=False)
        ax.minorticks_off()
        ax.grid(alpha=0.3)
        if name == "frames":
            ax.tick_params(axis="x", labelrotation=45)
    axes[0].set_ylabel("CPU time of fit and labels (s)")
    usual = {**USUAL, "columns": 2 * USUAL["angles"]}
    figure.suptitle(
        f"Default M3C; where not varied: N = {usual['frames']:,}, D = {usual['columns']}, κ = {usual['states']}, "
        f"d = {usual['features']}"
    )
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--draw", action="store_true", help="only draw what was measured before")
    options = parser.parse_args()
    if not options.draw:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(measure(options.repeats), indent=1) + "\n")
    draw(json.loads(RESULTS.read_text()))


if __name__ == "__main__":
    main()
