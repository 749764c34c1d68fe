"""M3C with 4 to 12 states, against TICA + PCCA+ with its best settings in hindsight, on systems with known states.

    python benchmarks/many_states.py --rows long-6-18-1 wells-3x3 --seeds 0 2      these rows, both seeds included
    python benchmarks/many_states.py --rows long-20000 --seeds 0 9                 all rows whose name begins so
    python benchmarks/many_states.py --report                                      the table of all results

Rows are named after what is in them: ``long-20000-6-18-1`` is one trajectory of 20,000 frames of six hidden states in
18 angles with slow noise; ``short`` has a hundred trajectories, ``slow`` fifty of 500 frames that see one or two states
each, ``wells`` a lattice of wells, as it is or embedded in 30 columns beside 30 of noise; ``langerin`` has no known
states and is judged by held-out Q. A draw has *all states* if every true state has at least 0.5 % of the frames, and
counts as *clear* if each was entered 20 times as well. A rival whose row is known already is only timed again beside a
new fit. Results are appended to benchmarks/results/many_states.jsonl; the last row of a fit counts.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from metric import SHARED, append, code_head, metastability_found
from metric_rivals import FAILURES, Frames, Labels, deeptime_cells, lumpings
from metric_systems import langerin, many_states_module
from soak_way import deeptimes_own

from m3c_md import M3C
from m3c_md.matching import agreement
from m3c_md.systems import MODEL_I, simulate

Row = dict[str, Any]
RESULTS = Path(__file__).parent / "results" / "many_states.jsonl"
STATES = (4, 5, 6, 8, 10, 12)
LATTICES = {"2x2": (2, 2, 1), "2x3": (2, 3, 1), "3x3": (3, 3, 1), "3x3x2": (3, 3, 2)}
# Settings of the rival: lags of TICA, components (and one less than the states), cells.
LAGS, COMPONENTS, CELLS = (1, 10), (4, 10), (100, 300)
LEAST_SHARE, LEAST_VISITS = 0.005, 20
DIGITS = 5


@dataclass(frozen=True)
class System:
    """Trajectories to fit, trajectories to judge by and their true states, if these are known."""

    n_states: int
    train: list[Frames]
    test: list[Frames]
    truth: Labels | None


def hmm_system(k: int, n_angles: int, ar: int, lengths: list[int], seed: int, **timescales: float) -> System:
    x, s = many_states_module(SHARED).HMM(k, n_angles, ar=ar, seed=seed, **timescales).sim(lengths, 100 + seed)
    return System(k, x, x, s)


def wells_system(lattice: str, embedded: bool, seed: int) -> System:
    nx, ny, nz = LATTICES[lattice]
    columns = {"embed": 30, "noise": 30} if embedded else {}
    x, s = many_states_module(SHARED).Wells(nx, ny, nz=nz, seed=seed, **columns).sim([20_000], 100 + seed)
    return System(nx * ny * nz, x, x, s)


def langerin_system(k: int, seed: int) -> System:
    split = next(langerin(seed, SHARED))
    return System(k, split.train, split.test, None)


def all_rows() -> dict[str, Callable[[int], System]]:
    """Systems by the names of their rows."""
    rows: dict[str, Callable[[int], System]] = {}
    for k in STATES:
        for n_angles in (2, 18, 60):
            for ar in (0, 1):
                rows[f"long-20000-{k}-{n_angles}-{ar}"] = lambda s, a=(k, n_angles, ar): hmm_system(*a, [20_000], s)
        rows[f"long-100000-{k}-18-1"] = lambda s, k=k: hmm_system(k, 18, 1, [100_000], s)
        rows[f"short-20000-{k}-18-1"] = lambda s, k=k: hmm_system(k, 18, 1, [200] * 100, s)
        slow = {"t_slow": 5000.0, "t_fast": 500.0}
        rows[f"slow-25000-{k}-18-1"] = lambda s, k=k, t=slow: hmm_system(k, 18, 1, [500] * 50, s, **t)
    for lattice in LATTICES:
        rows[f"wells-{lattice}"] = lambda s, a=lattice: wells_system(a, False, s)
        rows[f"wells-{lattice}-embedded"] = lambda s, a=lattice: wells_system(a, True, s)
    for k in (4, 5, 6, 7, 8):
        rows[f"langerin-{k}"] = lambda s, k=k: langerin_system(k, s)
    return rows


def visits(states: Labels, k: int) -> np.ndarray:
    """How often each state was entered, a trajectory that begins in it included."""
    return np.sum([np.bincount(s[np.r_[True, np.diff(s) != 0]], minlength=k) for s in states], axis=0)


def rarest(system: System) -> float:
    """Share of the frames that the rarest true state has; zero for one that was never entered, one if none is known."""
    if system.truth is None:
        return 1.0
    counts = np.bincount(np.concatenate(system.truth), minlength=system.n_states)
    return round(float(counts.min() / counts.sum()), DIGITS)


def is_clear(system: System) -> bool:
    if system.truth is None:
        return True
    return bool(rarest(system) >= LEAST_SHARE and visits(system.truth, system.n_states).min() >= LEAST_VISITS)


def judged(system: System, labels: Labels) -> Row:
    """Quality of some labels of the judged trajectories."""
    from sklearn.metrics import adjusted_rand_score

    k = system.n_states
    shares = np.bincount(np.concatenate(labels), minlength=k) / sum(map(len, labels))
    row = {"Q": metastability_found(labels, k), "smallest": float(shares.min()), "visits": int(visits(labels, k).min())}
    if system.truth is not None:
        found, true = np.concatenate(labels), np.concatenate(system.truth)
        row |= {"accuracy": agreement(found, true), "rand": adjusted_rand_score(found, true)}
    return {name: round(value, DIGITS) for name, value in row.items()}


def m3c_row(system: System, seed: int) -> Row:
    began = time.process_time()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = M3C(system.n_states, random_state=seed).fit_fetch(system.train)
        labels = model.transform(system.test)
    except (RuntimeError, ValueError) as error:
        return {"seconds": time.process_time() - began, "error": f"{type(error).__name__}: {error}"[:200]}
    row: Row = {"seconds": round(time.process_time() - began, 3), **judged(system, labels)}
    row["said"] = sorted({w.category.__name__ for w in caught if "m3c_md" in w.category.__module__})
    winner = model.candidates.iloc[0]
    return row | {"start": winner["start"], "metric": winner["metric"], "held": bool(winner.get("held", False))}


def rival_row(system: System, seed: int) -> Row:
    """The best settings of TICA + PCCA+ in hindsight, by accuracy or held-out Q, and what one setting costs.

    Cells are found by scikit-learn's k-means on a part of the frames ("quick seconds"). What counts as the cost is
    that of the same settings with deeptime's own k-means, which is what its users run.
    """
    from deeptime.decomposition import TICA

    k, measure = system.n_states, "Q" if system.truth is None else "accuracy"
    rows = []
    for lag in LAGS:
        began = time.process_time()
        try:
            model = TICA(lagtime=lag, scaling="kinetic_map").fit(system.train).fetch_model()
        except FAILURES:
            continue
        train = [model.transform(x) for x in system.train]
        test = train if system.test is system.train else [model.transform(x) for x in system.test]
        spent = time.process_time() - began
        for n in sorted({min(n, train[0].shape[1]) for n in (*COMPONENTS, k - 1)}):
            for cells in CELLS:
                settings = {"lag": lag, "components": n, "cells": cells}
                some = [x[:, :n] for x in train]
                other = some if test is train else [x[:, :n] for x in test]
                for fit in lumpings(some, other, [k], settings, seed, time.process_time() - spent):
                    if fit.labels is not None:
                        row = judged(system, fit.labels) | {"quick seconds": round(fit.seconds, 3), **settings}
                        rows.append((row[measure], row, (some, spent)))
    if not rows:
        return {"error": "every setting failed", "seconds": np.nan}
    _, best, (some, spent) = max(rows, key=lambda row: row[0])
    return best | {"seconds": _seconds_of(some, k, best["cells"], seed, spent)}


def _seconds_of(some: list[Frames], k: int, cells: int, seed: int, spent: float) -> float:
    """CPU time of PCCA+ on TICA's components, which have taken a part of it already."""
    (fit,) = lumpings(some, some, [k], {"cells": cells}, seed, time.process_time() - spent, deeptime_cells)
    return round(fit.seconds, 3)


def timed_again(system: System, seed: int, known: Row) -> Row:
    """Row of the rival as it is known, with the time that its best settings take now.

    Its quality does not change, and times compare only within one run.
    """
    from deeptime.decomposition import TICA

    if "cells" not in known:
        return known
    began = time.process_time()
    model = TICA(lagtime=known["lag"], scaling="kinetic_map").fit(system.train).fetch_model()
    some = [model.transform(x)[:, : known["components"]] for x in system.train]
    spent = time.process_time() - began
    return known | {"seconds": _seconds_of(some, system.n_states, known["cells"], seed, spent)}


RIVAL = "TICA+PCCA+"
METHODS: dict[str, Callable[[System, int], Row]] = {"M3C": m3c_row, RIVAL: rival_row}


def known_rows(path: Path) -> dict[tuple[str, int, str], Row]:
    """The last row of every fit."""
    if not path.exists():
        return {}
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {(row["row"], row["seed"], row["method"]): row for row in rows}


def run(options: argparse.Namespace) -> None:
    x = simulate(MODEL_I, np.random.default_rng(0))
    warm_up = System(3, x, x, None)
    head, known = code_head(), known_rows(options.results)
    with deeptimes_own():
        for method in options.method:
            METHODS[method](warm_up, 0)
        for name, make in all_rows().items():
            if not name.startswith(tuple(options.rows)):
                continue
            for seed in range(options.seeds[0], options.seeds[1] + 1):
                wanted = [m for m in options.method if options.again or (name, seed, m) not in known]
                if not wanted:
                    continue
                system = make(seed)
                names = {"row": name, "seed": seed, "clear": is_clear(system), "rarest": rarest(system)}
                rows = [names | {"method": m} | METHODS[m](system, seed) for m in wanted]
                rival = known.get((name, seed, RIVAL))
                if rival is not None and RIVAL not in wanted:
                    rows.append(timed_again(system, seed, rival))
                rows = [row | {"code": head} for row in rows]
                append(rows, options.results)
                for row in rows:
                    print(*(f"{key}={value}" for key, value in row.items() if key != "code"), flush=True)


def means(rows: list[Row], measure: str) -> float:
    """Mean of a measure; fits that failed count as zero."""
    return float(np.mean([row.get(measure, 0.0) for row in rows])) if rows else np.nan


def report(path: Path) -> Iterator[str]:
    """Lines of a table: means over all draws of both methods, and the ratio of CPU times that were taken in one run."""
    known = known_rows(path)
    yield (
        "| row | draws (clear) | M3C | worst | TICA + PCCA+ in hindsight | with all states | M3C | TICA + PCCA+ "
        "| M3C, s | ratio of CPU, median (worst) |"
    )
    yield "|" + 10 * "---|"
    for name in all_rows():
        seeds = sorted({seed for row, seed, _ in known if row == name})
        both = [s for s in seeds if all((name, s, m) in known for m in METHODS)]
        clear = [s for s in both if known[name, s, "M3C"]["clear"]]
        if not both:
            continue
        ours, theirs = ([known[name, s, m] for s in both] for m in METHODS)
        measure = "Q" if name.startswith("langerin") else "accuracy"
        # Seconds of different runs may be those of different machines.
        together = [(a, b) for a, b in zip(ours, theirs, strict=True) if a["code"] == b["code"]]
        ratios = [a["seconds"] / b["seconds"] for a, b in together]
        cost = f"{np.median(ratios):.2f} ({max(ratios):.2f})" if ratios else "not in one run"
        worst = min(row.get(measure, 0.0) for row in ours)
        whole = [(a, b) for a, b in zip(ours, theirs, strict=True) if a["rarest"] >= LEAST_SHARE]
        of_whole = (f"{means([pair[i] for pair in whole], measure):.4f}" if whole else "" for i in (0, 1))
        yield (
            f"| {name} | {len(both)} ({len(clear)}) | {means(ours, measure):.4f} | {worst:.4f} | "
            f"{means(theirs, measure):.4f} | {len(whole)} | {' | '.join(of_whole)} | {means(ours, 'seconds'):.1f} | "
            f"{cost} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=[""], help="rows whose names begin so")
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 9), metavar=("FIRST", "LAST"))
    parser.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--again", action="store_true", help="also what is known already")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    if options.report:
        print("\n".join(report(options.results)))
    else:
        run(options)


if __name__ == "__main__":
    main()
