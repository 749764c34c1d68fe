"""``m3c-md demo``: the paper's Model I, found again."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from m3c_md.clustering.margin_model import M3CModel

DEMO_FILES = ("decomposition.png", "labels.npy", "candidates.csv")


def add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    demo = commands.add_parser(
        "demo",
        help="fit the paper's Model I and draw its decomposition",
        description="Simulate the paper's Model I (10 trajectories of 80 time units), find its three metastable "
        "states, compare with the exact optimum and draw the result.",
    )
    demo.add_argument("--out", type=Path, default=Path("m3c-demo"), help="folder to write to (default: %(default)s)")
    demo.add_argument("--seed", type=int, default=0, help="seed of simulation and fit (default: %(default)s)")
    demo.add_argument("--force", action="store_true", help="overwrite the demo's files in an existing folder")
    demo.set_defaults(run=lambda options, _console: run_demo(options))


def run_demo(options: argparse.Namespace) -> int:
    """Fit Model I, print what was found, and write a picture, the labels and the table of candidates."""
    out: Path = options.out
    existing = [name for name in DEMO_FILES if (out / name).exists()]
    if existing and not options.force:
        raise FileExistsError(f"{out / existing[0]} exists; choose another folder with --out or overwrite with --force")
    out.mkdir(parents=True, exist_ok=True)

    import numpy as np
    from tqdm import tqdm

    from m3c_md import M3C
    from m3c_md.systems import MODEL_I, exact_reference, simulate

    print("Simulating Model I: 10 trajectories of 80 time units, a frame every 0.2 ...", flush=True)
    trajectories = simulate(MODEL_I, np.random.default_rng(options.seed))
    began = time.perf_counter()
    model = M3C(MODEL_I.n_states, random_state=options.seed, progress=tqdm).fit_fetch(trajectories)
    seconds = time.perf_counter() - began
    reference = exact_reference(MODEL_I)
    best = reference.metastability(reference.best_partition(MODEL_I.n_states, MODEL_I.interval), MODEL_I.interval)
    found = reference.metastability(model.transform(reference.points), MODEL_I.interval)

    n_frames = sum(len(x) for x in trajectories)
    print(f"\nM3C found {model.n_states} states in {n_frames} frames in {seconds:.1f} s:")
    for state, share in enumerate(model.populations):
        print(f"  state {state}: {share:6.1%} of the frames")
    print(f"  objective {model.objective:.4f}, certified to within {model.gap:.0e} of the optimum for its labels")
    print(f"  metastability Q = {found:.4f} (exact; the best possible partition has {best:.4f})")
    _write_demo(out, model, trajectories)
    print(f"\nLook at {out / 'decomposition.png'}; labels.npy and candidates.csv are beside it.")
    return 0


def _write_demo(out: Path, model: M3CModel, trajectories: list[NDArray[np.float64]]) -> None:
    """Write each file under a temporary name first, so that no half file is left behind."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    from m3c_md.plots import plot_candidates, plot_decomposition

    figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.2), layout="constrained")
    plot_decomposition(model, trajectories, ax=left)
    left.set_title("Model I: three metastable states")
    plot_candidates(model, ax=right)
    right.set_title("the search: every start and bandwidth")
    figure.savefig(out / ".part.png", dpi=150)
    plt.close(figure)
    (out / ".part.png").replace(out / "decomposition.png")
    np.save(out / ".part.npy", np.stack(model.transform(trajectories)))
    (out / ".part.npy").replace(out / "labels.npy")
    model.candidates.to_csv(out / ".part.csv", index=False)
    (out / ".part.csv").replace(out / "candidates.csv")
