"""Time the two-slice large-margin solver against liblinear's Crammer-Singer solver on the same frames.

    python benchmarks/large_margin.py --windows 10000 --features 50 --states 3 --repeats 5 --gap 1e-3

Both run in this process with one BLAS thread, in alternation, from a cold start. The comparison favours liblinear: its
problem has one slice per window (n scores instead of 2n), and its stopping rule (``tol``, scikit-learn's default)
certifies nothing, while ours stops at a duality gap. C = 1/(beta n) makes the two regularisers equal.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from m3c_md.optimize.blocks import WindowBlock
from m3c_md.optimize.feature_map import draw_fourier_map
from m3c_md.optimize.large_margin import LargeMarginResult, solve_large_margin

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

REGULARIZATIONS = (1e-2, 1e-3)
LAGTIME = 1
EXIT_PROBABILITY = 0.01
CONCENTRATION = 3.0  # of the von Mises wells: about 3 in 100 frames lie nearer to another well


class Run(NamedTuple):
    """Seconds of both solvers in one repeat, and how they ended."""

    ours: float
    liblinear: float
    result: LargeMarginResult
    iterations: int
    converged: bool


def metastable_series(n_frames: int, n_states: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Two dihedral-like angles around one well per hidden state, as cosines and sines; and the hidden states."""
    jumps = (rng.random(n_frames) < EXIT_PROBABILITY) * rng.integers(1, n_states, size=n_frames)
    states = (np.cumsum(jumps) % n_states).astype(np.intp)
    angle = 2.0 * np.pi * np.arange(n_states) / n_states
    wells = np.column_stack([angle, -angle])
    angles = rng.vonmises(wells[states], CONCENTRATION)
    return np.hstack([np.cos(angles), np.sin(angles)]), states


def run_once(features: FloatArray, states: IntArray, beta: float, gap: float) -> Run:
    n_windows = len(features) - LAGTIME
    frames = np.arange(n_windows)
    block = WindowBlock(features, np.stack([frames, frames + LAGTIME]), np.full(n_windows, 1.0 / n_windows))
    labels = states[:n_windows]
    start = time.perf_counter()
    result = solve_large_margin([block], labels, int(states.max()) + 1, beta, tolerance=gap)
    middle = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine = LinearSVC(multi_class="crammer_singer", C=1.0 / (beta * n_windows), random_state=0)
        machine.fit(features[:n_windows], labels)
    end = time.perf_counter()
    failed = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return Run(middle - start, end - middle, result, int(np.max(machine.n_iter_)), not failed)


def report(beta: float, runs: list[Run]) -> None:
    ours, liblinear = (np.array([getattr(run, name) for run in runs]) for name in ("ours", "liblinear"))
    ratios = ours / liblinear
    last = runs[-1]
    print(f"beta = {beta:g}")
    print(
        f"  ours, two slices       {np.median(ours):8.3f} s   gap {last.result.gap:.1e}, {last.result.passes} passes, "
        f"objective {last.result.objective:.5f}, {'converged' if last.result.converged else 'NOT CONVERGED'}"
    )
    print(
        f"  liblinear, one slice   {np.median(liblinear):8.3f} s   {last.iterations} iterations, "
        f"{'converged' if last.converged else 'NOT CONVERGED'}"
    )
    print(f"  ratio ours / liblinear {np.median(ratios):8.2f}     ({ratios.min():.2f} to {ratios.max():.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", type=int, default=10_000, help="number of transition pairs")
    parser.add_argument("--features", type=int, default=50, help="number of random features")
    parser.add_argument("--states", type=int, default=3, help="number of hidden states")
    parser.add_argument("--repeats", type=int, default=5, help="alternating runs of both solvers")
    parser.add_argument("--gap", type=float, default=1e-3, help="relative duality gap of our solver")
    parser.add_argument("--seed", type=int, default=0, help="seed of series and features")
    options = parser.parse_args()

    rng = np.random.default_rng(options.seed)
    points, states = metastable_series(options.windows + LAGTIME, options.states, rng)
    features = draw_fourier_map(points.shape[1], options.features, rng)(points)
    with threadpool_limits(limits=1):
        for beta in REGULARIZATIONS:
            report(beta, [run_once(features, states, beta, options.gap) for _ in range(options.repeats)])


if __name__ == "__main__":
    main()
