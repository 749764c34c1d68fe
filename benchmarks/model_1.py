"""The README's picture of Model I: its states, and how they exchange.

python benchmarks/model_1.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from m3c_md import M3C, kinetics
from m3c_md.plots import plot_decomposition, plot_network
from m3c_md.systems import MODEL_I, simulate

# Frames after which the timescales of the states are level.
LAG = 10
FIGURE = Path(__file__).parent / "figures" / "model_1.png"


def main() -> None:
    trajectories = simulate(MODEL_I, np.random.default_rng(0))
    model = M3C(MODEL_I.n_states, random_state=0).fit_fetch(trajectories)
    figure, (left, right) = plt.subplots(1, 2, figsize=(12.0, 5.0), layout="constrained")
    plot_decomposition(model, trajectories, ax=left)
    left.set_title("Model I: three metastable states")
    dtrajs = model.transform(trajectories)
    plot_network(kinetics(dtrajs, lagtime=LAG, unit="frames", random_state=0), ax=right)
    right.set_title("populations and mean first-passage times")
    figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    main()
