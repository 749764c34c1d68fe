"""The paper's figure: Model I, three states, by four methods; the picture and the table of the README.

python benchmarks/methods.py --out benchmarks/figures/methods.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from tqdm import tqdm

from m3c_md import PCCAPlus, compare
from m3c_md.systems import MODEL_I, exact_reference, simulate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("methods.png"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    trajs = simulate(MODEL_I, np.random.default_rng(options.seed))
    unit = {"dt": MODEL_I.interval, "unit": "time units"}
    # Both numbers of micro states are shown, so they are handed in and not chosen among.
    some = {f"PCCA+ ({n})": PCCAPlus(MODEL_I.n_states, n_microstates=n) for n in (10, 200)}
    methods = ["m3c", some, "mmc", "k-medoids"]
    result = compare(trajs, MODEL_I.n_states, methods=methods, random_state=options.seed, progress=tqdm, **unit)
    print(result)
    reference = exact_reference(MODEL_I)
    for name, model in result.models.items():
        exact = reference.metastability(model.transform(reference.points), MODEL_I.interval)
        print(f"{name:12s} exact Q {exact:.4f}")

    n_maps, n_processes = len(result.models), MODEL_I.n_states - 1
    figure = plt.figure(figsize=(2.7 * n_maps, 6.4), layout="constrained")
    maps, curves = figure.subfigures(2, 1, height_ratios=(1.1, 1.0))
    result.plot_map(trajs, ax=maps.subplots(1, n_maps, sharex=True, sharey=True))
    axes = curves.subplots(1, n_processes + 1)
    result.plot_timescales(ax=axes[:n_processes], exact=reference.relaxation_times(n_processes))
    result.plot_metastability(ax=axes[-1])
    figure.savefig(options.out, dpi=110)


if __name__ == "__main__":
    main()
