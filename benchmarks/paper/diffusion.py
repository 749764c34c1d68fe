"""Model I and Model II: Q, implied timescales, objective values and the decomposition that every method finds.

    python benchmarks/paper/diffusion.py                 20 experiments per model, some minutes
    python benchmarks/paper/diffusion.py --first 5000    20 others
    python benchmarks/paper/diffusion.py --quick

For every seed the paper's protocol is simulated and all methods are fitted to it. Q is that of the exact reference (a
finite-volume generator with cells of 0.05), and that of a simulation of 10,000 time units as in the paper; implied
timescales come from the exact transition matrices. "right" means that a partition agrees with the best one on 95 % of
the stationary mass. Beside the paper's table there are its settings from other starts, whose objective values its text
compares, and a start at the degenerate optimum. Writes ``results/diffusion.json``.
"""

from __future__ import annotations

import argparse
import base64
import zlib
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from joblib import Memory
from numpy.typing import NDArray
from studies import (
    HERE,
    Row,
    asked_methods,
    asked_seeds,
    fit_and_judge,
    pcca_estimators,
    print_means,
    run_study,
    study_parser,
)

from m3c_md import M3C, MMC, KMedoids
from m3c_md.systems import MODEL_I, MODEL_II, DiffusionModel, agreement, exact_reference, simulate
from m3c_md.validation import metastability

MODELS = {model.name: model for model in (MODEL_I, MODEL_II)}
# Lag times of the implied timescales, in sample intervals.
LAGS = {"Model I": (1, 2, 5, 10, 20, 40), "Model II": (1, 2, 5, 10, 20, 50, 100)}
BINS = (6, 10, 20, 30, 40)
RIGHT = 0.95
# The paper's long simulation: 10,000 time units. As many side by side are a hundred times faster than one; each is
# left alone first for five times the slowest relaxation time.
N_LONG, RELAXING, MEASURED = 100, 110.0, 100.0
# Slow modes of the exact transition matrices at long lag times, and how much of the next one may be left there.
N_MODES, NEGLIGIBLE = 50, 1e-6
FROM_M3C = "MMC.paper from M3C"
DEGENERATE = "M3C.paper, degenerate start"


def estimators(n_states: int, seed: int, trajectories: list[NDArray[np.float64]]) -> dict[str, Any]:
    """All methods. Those named after the paper have its settings: k-medoids bins, and M3C's and MMC's presets."""
    common: dict[str, Any] = {"random_state": seed}
    return {
        "k-medoids": KMedoids(n_states, **common),
        "MMC": MMC(n_states, **common),
        **pcca_estimators(n_states, BINS, seed, n_restarts=10),
        "M3C": M3C(n_states, **common),
        "M3C.paper": M3C.paper(n_states, **common),
        "M3C.paper, kinetic start": M3C.paper(n_states, starts=("kinetic",), **common),
        "M3C.paper, random start": M3C.paper(n_states, starts=("random",), **common),
        "MMC.paper": MMC.paper(n_states, **common),
        FROM_M3C: MMC.paper(n_states, **common),  # its start is known only when M3C is done
        DEGENERATE: M3C.paper(n_states, starts=("kinetic", nearly_constant(n_states, trajectories)), **common),
    }


def nearly_constant(n_states: int, trajectories: list[NDArray[np.float64]]) -> list[NDArray[np.intp]]:
    """One state but for the first frames, which are as many as the paper's balance asks of each other state."""
    lengths = [len(x) for x in trajectories]
    states = np.zeros(sum(lengths), dtype=np.intp)
    size = -(-len(states) // 90)
    for state in range(1, n_states):
        states[(state - 1) * size : state * size] = state
    return np.split(states, np.cumsum(lengths)[:-1])


METHODS = tuple(estimators(3, 0, [np.zeros((200, 2))]))


def simulate_long(name: str) -> list[NDArray[np.int32]]:
    """Cells of the reference that a long equilibrium simulation visits."""
    model = MODELS[name]
    runs = simulate(model, np.random.default_rng(0), n_trajectories=N_LONG, duration=RELAXING + MEASURED)
    first = round(RELAXING / model.interval)
    return [cells_of(model, x[first:]).astype(np.int32) for x in runs]


@lru_cache(maxsize=2)
def long_simulation(name: str) -> list[NDArray[np.int32]]:
    """The same from this process's or an earlier one's memory: it takes half a minute."""
    cells: list[NDArray[np.int32]] = Memory(HERE / ".cache", verbose=0).cache(simulate_long)(name)
    return cells


def cells_of(model: DiffusionModel, frames: NDArray[np.float64]) -> NDArray[np.intp]:
    """Number of the reference cell that every frame is in; the few frames outside the box count to its rim."""
    points = exact_reference(model).points
    low, spacing = points[0], points[1, 1] - points[0, 1]
    shape = np.round((points[-1] - low) / spacing).astype(int) + 1
    place = np.clip(np.round((frames - low) / spacing).astype(int), 0, shape - 1)
    return np.asarray(place[:, 0] * shape[1] + place[:, 1])


def judge(name: str, model: Any, *, long: bool = True) -> Row:
    """Exact Q of a fitted model, its agreement with the best partition, and more where ``long``."""
    system = MODELS[name]
    reference = exact_reference(system)
    cells = model.transform(reference.points)
    best = reference.best_partition(system.n_states, system.interval)
    share = agreement(cells, best, reference.stationary)
    quality = float(np.trace(exact_matrix(name, cells, system.interval)))
    row: Row = {"Q": quality, "agreement": share, "right": share > RIGHT}
    if long:
        row["Q_simulated"] = metastability([cells[x] for x in long_simulation(name)], 1, system.n_states)
        row["timescales"] = [timescales(name, cells, lag) for lag in LAGS[name]]
    return row


def exact_quality(name: str, model: Any) -> float:
    return float(judge(name, model, long=False)["Q"])


def timescales(name: str, cells: NDArray[np.int32], lag: int) -> list[float]:
    """Exact implied timescales of a partition; zero, as in the paper, where an eigenvalue is not positive."""
    system = MODELS[name]
    time = lag * system.interval
    values = np.sort(np.linalg.eigvals(exact_matrix(name, cells, time)).real)[::-1][1:]
    found = [-time / np.log(value) if value > 0 else 0.0 for value in values]
    return (found + [0.0] * system.n_states)[: system.n_states - 1]


def exact_matrix(name: str, cells: NDArray[np.int32], time: float) -> NDArray[np.float64]:
    """Transition matrix of a partition: by slow modes where the others have decayed, which is much faster."""
    reference = exact_reference(MODELS[name])
    rates, modes = slow_modes(name)
    if np.exp(rates[-1] * time) > NEGLIGIBLE:
        return reference.transition_matrix(cells, time)
    indicators = np.eye(cells.max() + 1)[:, np.unique(cells)][cells]
    overlaps = modes.T @ (reference.stationary[:, None] * indicators)
    return np.asarray((overlaps.T * np.exp(rates * time)) @ overlaps / (reference.stationary @ indicators)[:, None])


@lru_cache(maxsize=2)
def slow_modes(name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rates and modes, normalised with the stationary distribution."""
    reference = exact_reference(MODELS[name])
    rates, modes = reference.slow_modes(N_MODES)
    return rates, modes / np.sqrt((modes**2 * reference.stationary[:, None]).sum(axis=0))


def packed(cells: NDArray[np.int32]) -> str:
    """States of the reference cells as a short text, for the maps of the report."""
    return base64.b64encode(zlib.compress(cells.astype(np.uint8).tobytes(), 9)).decode()


def unpacked(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8)


def run(name: str, seed: int, methods: Sequence[str], *, maps: bool = False) -> dict[str, Row]:
    """All methods on one experiment."""
    system = MODELS[name]
    trajectories = simulate(system, np.random.default_rng(seed))
    known = estimators(system.n_states, seed, trajectories)

    def long_judge(model: Any) -> Row:
        drawn = {"map": packed(model.transform(exact_reference(system).points))} if maps else {}
        return judge(name, model) | drawn

    rows: dict[str, Row] = {}
    for method in methods:
        if method == FROM_M3C:
            ours = known["M3C"] if known["M3C"].has_model else known["M3C"].fit(trajectories)
            known[FROM_M3C].starts = [ours.fetch_model().transform(trajectories)]
        quality = partial(exact_quality, name) if method == "M3C" else None
        rows[method] = fit_and_judge(known[method], trajectories, long_judge, quality)
    if "M3C" in methods and "Q" in rows["M3C"]:
        rows["M3C"]["among"] = among(name, known["M3C"].fetch_model())
    if DEGENERATE in methods and "Q" in rows[DEGENERATE]:
        rows[DEGENERATE] |= degenerate_solution(known[DEGENERATE].fetch_model())
    return rows


def among(name: str, model: Any) -> bool:
    """Say whether some candidate that is not degenerate is right."""
    usable = np.flatnonzero(~model.candidates["degenerate"].to_numpy())
    return any(judge(name, model.alternative(int(i)), long=False)["right"] for i in usable)


def degenerate_solution(model: Any) -> Row:
    """The best degenerate candidate: what the plain objective would have chosen."""
    table = model.candidates
    worst = table[table["degenerate"]].sort_values("objective").head(1)
    return {
        "degenerate_populations": worst["populations"].iloc[0] if len(worst) else None,
        "degenerate_bandwidth": worst["bandwidth"].iloc[0] if len(worst) else None,
    }


def work(first: int, name: str, seed: int, methods: Sequence[str]) -> dict[str, Row]:
    """Work of the study; maps are kept for the first seed only."""
    return run(name, seed, methods, maps=seed == first)


def main(arguments: Sequence[str] | None = None) -> None:
    parser: argparse.ArgumentParser = study_parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=sorted(MODELS), default=sorted(MODELS))
    options = parser.parse_args(arguments)
    seeds = dict.fromkeys(options.models, asked_seeds(options))
    rows = run_study("diffusion", seeds, asked_methods(options, METHODS), partial(work, options.first), options)
    print_means(rows, METHODS, ("Q", "right"))


if __name__ == "__main__":
    import diffusion  # under its own name, by which other processes find its functions

    diffusion.main()
