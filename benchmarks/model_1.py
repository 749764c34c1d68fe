"""The README's picture of Model I: its states, and everything that the search tried.

python benchmarks/model_1.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from m3c_md import M3C
from m3c_md.plots import plot_candidates, plot_decomposition
from m3c_md.systems import MODEL_I, simulate

FIGURE = Path(__file__).parent / "figures" / "model_1.png"


def main() -> None:
    trajectories = simulate(MODEL_I, np.random.default_rng(0))
    model = M3C(MODEL_I.n_states, random_state=0).fit_fetch(trajectories)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.2), layout="constrained")
    plot_decomposition(model, trajectories, ax=left)
    left.set_title("Model I: three metastable states")
    plot_candidates(model, ax=right)
    right.set_title("the search: every start and bandwidth")
    figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    main()
