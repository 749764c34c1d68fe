"""What the evidence studies share: options, resumable runs, fitting and judging one method, the record of a search.

A study is a table of rows, one per (system, seed, method), kept in ``results/<study>.json``. A row that is there is not
computed again, so a stopped study goes on where it was, more seeds extend it, and a new method is run on the old seeds.
``--fresh`` forgets the rows that were asked for and computes them anew, as is due when the package has changed.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import subprocess
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from tqdm import tqdm

import m3c_md
from m3c_md import PCCAPlus
from m3c_md.exceptions import M3CWarning

Row = dict[str, Any]
Key = tuple[str, int, str]
# (system, seed, methods) -> one row per method, without the three names.
Work = Callable[[str, int, Sequence[str]], dict[str, Row]]
# Model -> the numbers that a study judges it by.
Judge = Callable[[Any], Row]
# Model -> one number, larger is better.
Quality = Callable[[Any], float]

HERE = Path(__file__).parent
RESULTS = HERE / "results"
# Data sets that are not part of the project lie beside the clone.
SHARED = HERE.parents[2] / "shared" / "data"
QUICK_SEEDS = 3
DIGITS = 7
WARNING_LENGTH = 60  # enough to tell warnings apart


def study_parser(description: str | None, *, seeds: int = 20) -> argparse.ArgumentParser:
    """Options that all studies have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=seeds, help=f"experiments per system (default {seeds})")
    parser.add_argument("--first", type=int, default=0, help="first seed; another one gives fresh experiments")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SEEDS} seeds only")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="only these methods")
    parser.add_argument("--jobs", type=int, default=2, help="processes over which seeds are spread")
    parser.add_argument("--fresh", action="store_true", help="compute again what the results already have")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    return parser


def asked_seeds(options: argparse.Namespace) -> range:
    return range(options.first, options.first + (QUICK_SEEDS if options.quick else options.seeds))


def asked_methods(options: argparse.Namespace, known: Iterable[str]) -> list[str]:
    """Methods that the user wants, all by default; a name that is not known is an error."""
    names = list(known)
    wrong = sorted(set(options.methods or ()) - set(names))
    if wrong:
        raise SystemExit(f"unknown methods {wrong}; known: {names}")
    return [name for name in names if options.methods is None or name in options.methods]


def load_rows(study: str, folder: Path = RESULTS) -> list[Row]:
    path = folder / f"{study}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def save_rows(study: str, rows: Iterable[Row], folder: Path) -> None:
    """Write all rows, one per line and in order; the old file stays whole until the new one is."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(rounded(row)) for row in sorted(rows, key=key_of)]
    partial = folder / f"{study}.json.partial"
    partial.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    partial.replace(folder / f"{study}.json")


def key_of(row: Row) -> Key:
    return row["system"], row["seed"], row["method"]


def rounded(value: Any) -> Any:
    """Plain numbers of a few digits instead of numpy's: results are read by people too."""
    if isinstance(value, Mapping):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [rounded(one) for one in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def run_study(
    study: str, seeds: Mapping[str, Iterable[int]], methods: Sequence[str], work: Work, options: argparse.Namespace
) -> list[Row]:
    """Compute the rows that are missing, keep each as soon as it is there, and return all rows asked for.

    Parameters
    ----------
    study : str
        Name of the results file.
    seeds : mapping
        Seeds by name of the system.
    methods : sequence of str
        Names of the methods.
    work : callable
        See `Work`; runs in other processes.
    options : namespace
        Of `study_parser`.
    """
    asked = {(system, seed, method) for system, some in seeds.items() for seed in some for method in methods}
    rows = {key_of(row): row for row in load_rows(study, options.results)}
    if options.fresh:
        rows = {key: row for key, row in rows.items() if key not in asked}
    tasks = [
        (system, seed, missing)
        for system, some in seeds.items()
        for seed in some
        if (missing := [method for method in methods if (system, seed, method) not in rows])
    ]
    code = code_version()
    results = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
        delayed(_rows_of)(work, code, *task) for task in tasks
    )
    for some in tqdm(results, total=len(tasks), desc=study):
        rows |= {key_of(row): row for row in some}
        save_rows(study, rows.values(), options.results)
    return [rows[key] for key in sorted(asked & set(rows))]


def _rows_of(work: Work, code: str, system: str, seed: int, methods: Sequence[str]) -> list[Row]:
    names = {"system": system, "seed": seed}
    return [names | {"method": method, "code": code} | row for method, row in work(system, seed, methods).items()]


def code_version() -> str:
    """Commit of the package that is measured, or its version where there is no repository."""
    command = ["git", "-C", str(HERE), "log", "-1", "--format=%h", "--", ":/m3c_md", ":/data"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() or m3c_md.__version__
    except (OSError, subprocess.CalledProcessError):
        return m3c_md.__version__


def fit_and_judge(estimator: Any, data: Any, judge: Judge, quality: Quality | None = None) -> Row:
    """Fit one method and judge its model; a method that fails gives a row that says why.

    Parameters
    ----------
    estimator : M3C, MMC, KMedoids or PCCAPlus
    data : trajectories
    judge : callable
        See `Judge`.
    quality : callable, optional
        Larger is better; if it is given, all candidates of a search are judged by it: was a better one not chosen?
    """
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", M3CWarning)
        try:
            model = estimator.fit_fetch(data)
            seconds = time.process_time() - began
            row = judge(model)
        except (RuntimeError, ValueError) as error:
            return {"error": f"{type(error).__name__}: {error}"[:200], "seconds": time.process_time() - began}
        row |= {"populations": model.populations, "n_populated": int((model.populations > 0).sum()), "seconds": seconds}
        row["warnings"] = [text[:WARNING_LENGTH] for text in model.warnings]
        if hasattr(model, "candidates"):
            row |= search_record(model)
            row |= best_candidate(model, quality) if quality is not None else {}
    return row


def search_record(model: Any) -> Row:
    """How a large-margin model was found."""
    table = model.candidates
    degenerate = table[table["degenerate"]]
    return {
        "objective": model.objective,
        "gap": model.gap,
        "start": table["start"][0],
        "bandwidth": model.bandwidth,
        "score": table["score"][0],
        "n_candidates": len(table),
        "n_degenerate": len(degenerate),
        "degenerate_objective": degenerate["objective"].min() if len(degenerate) else None,
        "effective_sample": getattr(model, "effective_sample", None),
    }


def best_candidate(model: Any, quality: Quality) -> Row:
    """The candidate of a search that hindsight would have chosen, degenerate ones left out."""
    table = model.candidates
    judged = {}
    for i in np.flatnonzero(~table["degenerate"].to_numpy()):
        try:
            judged[int(i)] = quality(model.alternative(int(i)))
        except ValueError:  # no quality on held-out data: a state that they do not visit
            continue
    best = max(judged, key=lambda i: judged[i])
    columns = ("start", "bandwidth", "score", "objective", "windows", "fate")
    return {"best_quality": judged[best]} | {f"best_{name}": table[name][best] for name in columns}


def print_means(rows: Sequence[Row], methods: Sequence[str], columns: Sequence[str]) -> None:
    """Mean, standard deviation and range of some columns, for a first look; the report has it all."""
    for system in dict.fromkeys(row["system"] for row in rows):
        print(f"\n{system}: {', '.join(columns)} (mean ± standard deviation, range)")
        for method in methods:
            some = [row for row in rows if (row["system"], row["method"]) == (system, method)]
            values = [np.array([row[name] for row in some if row.get(name) is not None]) for name in columns]
            text = "   ".join(
                f"{x.mean():.4f} ± {x.std():.4f} ({x.min():.4f} to {x.max():.4f})" for x in values if len(x)
            )
            if some:
                print(f"  {method:36s} {text}   {len(some)} fits")


def pcca_estimators(n_states: int, bins: Sequence[int], seed: int, n_restarts: int) -> dict[str, Any]:
    """PCCA+ with several numbers of micro states: the paper's k-medoids, and the k-means that most people use."""
    medoids: dict[str, Any] = {"discretization": "k-medoids", "n_restarts": n_restarts, "random_state": seed}
    return {
        **{f"PCCA+ ({n})": PCCAPlus(n_states, n_microstates=n, **medoids) for n in bins},
        **{f"PCCA+ k-means ({n})": PCCAPlus(n_states, n_microstates=n, random_state=seed) for n in bins},
    }


def data_folder(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the option that says where the data sets are that do not ship with the project."""
    parser.add_argument(
        "--data", type=Path, default=SHARED / name, help="folder of the data (default: beside the clone)"
    )
