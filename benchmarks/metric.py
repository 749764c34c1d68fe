"""M3C's setting ``metric`` against TICA + PCCA+ and PCCA+ on the columns, where columns are many or slow for nothing.

    python benchmarks/metric.py --study noise --seeds 0 4 --metric auto standard    M3C with these metrics
    python benchmarks/metric.py --study deca --seeds 0 9 --metric released          M3C without the argument
    python benchmarks/metric.py --study deca noise --seeds 0 4 --rival tica raw     the rivals
    python benchmarks/metric.py --study cost --seeds 0 2 --metric auto standard --rival deeptime
    python benchmarks/metric.py --report                                            tables of all results
    python benchmarks/metric.py --report --against "M3C standard" --study noise

Studies (both seeds are included; a seed or data that are not there are skipped; benchmarks/metric_systems.py):

deca, asp7      held-out Q; the seed is the trajectory that is fitted (0 to 9) or the block (0 to 4)
langerin        held-out Q for 3 to 6 states; seeds 0 and 1 are even and odd trajectories, 2 to 11 random halves
noise           accuracy with 0 to 500 columns of slow noise beside the four that tell the states
short           held-out Q and accuracy, trajectories no longer than the states live
relevance       does ``model.relevance`` tell true columns from noise? (AUC; rival: correlation with TICA's components)
cost            CPU time of fit and labels, where the columns suffice and where they do not

Rows are appended to benchmarks/results/metric.jsonl and not computed again (but see ``--again``); the last row of a fit
counts. A rival has one row for each of its settings, with Q on a held-out part of the training data as "inner": the
report takes the best in hindsight, and the one that "inner" would choose. A state that the judged frames never leave
adds nothing to Q. Fits with fewer states than asked are scored as they are, and counted.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from metric_report import key_of, last_rows, report
from metric_rivals import FAILURES, NAMES, RIVALS, Fit, correlated_columns, inner_halves
from metric_systems import STUDIES, Split
from numpy.typing import NDArray
from soak_way import deeptimes_own

from m3c_md import M3C
from m3c_md.matching import agreement
from m3c_md.validation import transition_counts

Row = dict[str, Any]
RESULTS = Path(__file__).parent / "results" / "metric.jsonl"
# Data sets that are not part of the project lie beside the clone.
SHARED = Path(__file__).parents[2] / "shared"
METRICS = ("auto", "standard", "kinetic", "learned", "released")
DIGITS = 6


def metastability_found(labels: Sequence[NDArray[np.integer]], n_states: int) -> float:
    """Metastability Q as in `m3c_md.validation.metastability`, but a state without transitions adds nothing."""
    counts = transition_counts(list(labels), 1, n_states)
    visits = counts.sum(axis=1)
    return float((np.diagonal(counts)[visits > 0] / visits[visits > 0]).sum())


def judged(split: Split, labels: Sequence[NDArray[np.integer]], n_states: int) -> dict[str, float]:
    quality = {"Q": round(metastability_found(labels, n_states), DIGITS)}
    if split.truth is not None:
        quality["accuracy"] = round(agreement(np.concatenate(labels), np.concatenate(split.truth)), DIGITS)
    return quality


def separation(values: NDArray[np.floating], informative: NDArray[np.bool_]) -> float:
    """Chance that a column that matters has a larger value than one that does not (AUC)."""
    from sklearn.metrics import roc_auc_score

    return round(float(roc_auc_score(informative, values)), DIGITS)


def m3c_row(split: Split, n_states: int, metric: str, seed: int) -> Row:
    """One fit of M3C; "released" leaves the argument out."""
    argument: dict[str, Any] = {} if metric == "released" else {"metric": metric}
    row: Row = {"asked": n_states, "settings": argument}
    began = time.process_time()
    try:
        model = M3C(n_states, random_state=seed, **argument).fit_fetch(split.train)
        labels = model.transform(split.test)
    except (RuntimeError, ValueError) as error:
        seconds = round(time.process_time() - began, 4)
        return row | {"error": f"{type(error).__name__}: {error}"[:200], "seconds": seconds}
    row |= {"seconds": round(time.process_time() - began, 4), "found": int(np.count_nonzero(model.populations))}
    row["quality"] = judged(split, labels, n_states)
    row["chosen"] = model.candidates.iloc[0]["metric"]
    if split.informative is not None and hasattr(model, "relevance"):
        row["quality"]["AUC"] = separation(np.asarray(model.relevance, dtype=float), split.informative)
    return row


def fit_row(fit: Fit) -> Row:
    row = {"asked": fit.n_states, "settings": fit.settings, "seconds": round(fit.seconds, 4), "found": fit.found}
    return row | {"outside": round(fit.outside, 5)} | ({"error": fit.error} if fit.error else {})


def rival_rows(split: Split, states: Sequence[int], rival: str, seed: int) -> list[Row]:
    """All settings of a rival, judged on the test data and, where there is a choice, on a part of the training data."""
    rows = []
    for fit in RIVALS[rival](split.train, split.test, states, seed):
        rows.append(fit_row(fit))
        if fit.labels is not None:
            rows[-1]["quality"] = judged(split, fit.labels, fit.n_states)
    if rival == "deeptime":
        return rows
    inner = {}
    for fit in RIVALS[rival](*inner_halves(split.train), states, seed):
        q = None if fit.labels is None else round(metastability_found(fit.labels, fit.n_states), DIGITS)
        spent = {"inner seconds": round(fit.seconds, 4), "inner tica seconds": round(fit.mapping, 4)}
        inner[fit.n_states, *fit.settings.values()] = {"inner": q} | spent
    return [row | inner.get((row["asked"], *row["settings"].values()), {}) for row in rows]


def relevance_rows(split: Split, states: Sequence[int]) -> list[Row]:
    rows = []
    for k in states:
        began = time.process_time()
        values = correlated_columns(split.train, k)
        seconds = round(time.process_time() - began, 4)
        auc = separation(values, np.asarray(split.informative))
        rows.append({"asked": k, "settings": {}, "seconds": seconds, "found": k, "quality": {"AUC": auc}})
    return rows


def rows_of(study: str, split: Split, seed: int, method: str, systems: dict[str, int]) -> list[Row]:
    """Rows of one method, a metric of M3C or a rival, on the data of one split."""
    with deeptimes_own():
        if method in METRICS:
            rows = [m3c_row(split, k, method, seed) for k in systems.values()]
        elif study == "relevance":
            rows = relevance_rows(split, list(systems.values())) if method == "tica" else []
        else:
            try:
                rows = rival_rows(split, list(systems.values()), method, seed)
            except FAILURES as error:  # TICA itself
                text = f"{type(error).__name__}: {error}"[:120]
                rows = [{"asked": k, "settings": {}, "found": 0, "error": text} for k in systems.values()]
    names = {k: name for name, k in systems.items()}
    return [{"study": study, "system": names[row["asked"]]} | row for row in rows]


def name_of(study: str, method: str) -> str:
    if method in METRICS:
        return f"M3C {method}"
    return "TICA correlation" if study == "relevance" else NAMES[method]


def append(rows: Iterable[Row], path: Path) -> None:
    """Write lines at once to the end of the file: those of several processes do not mix."""
    lines = "".join(json.dumps(row, default=float) + "\n" for row in rows)
    path.parent.mkdir(exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, lines.encode())
    finally:
        os.close(handle)


def code_head() -> str:
    """Commit of the clone, with a mark where files differ from it."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def warm_up(metrics: Sequence[str], rivals: Sequence[str]) -> None:
    """Load and compile everything, on small, on wide and on streamed data."""
    rng = np.random.default_rng(0)
    for n_frames, n_columns in ((2_000, 1), (2_000, 40), (25_000, 1)):
        x = np.repeat([-1.0, 1.0] * 250, 50)[:n_frames, None] + 0.3 * rng.normal(size=(n_frames, n_columns))
        split = Split({"warm-up": 2}, [x], [x])
        with deeptimes_own():
            for metric in metrics:
                m3c_row(split, 2, metric, 0)
            for rival in rivals if n_frames * n_columns == 2_000 else ():
                rival_rows(split, [2], rival, 0)


def run(options: argparse.Namespace) -> None:
    """Measure what is asked for and not known yet, one split after the other."""
    methods = [*options.metric, *options.rival]
    known = {} if options.again else last_rows(options.results)
    finished = {key_of(row)[:4] for row in known.values()}
    head = code_head()
    warm_up(options.metric, options.rival)
    first, last = options.seeds
    for study in options.study:
        for seed in range(first, last + 1):
            for split in STUDIES[study](seed, options.shared):
                for method in methods:
                    names = {"seed": seed, "method": name_of(study, method)}
                    asked = {
                        system: k
                        for system, k in split.systems.items()
                        if (study, system, seed, names["method"]) not in finished
                        and (not options.system or system in options.system)
                    }
                    began = time.process_time()
                    rows = rows_of(study, split, seed, method, asked) if asked else []
                    append([row | names | {"head": head} for row in rows], options.results)
                    spent = time.process_time() - began
                    if rows:
                        print(f"{study} {seed} {', '.join(asked)}: {names['method']}, {spent:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument(
        "--system", nargs="+", metavar="NAME", help="only these of the studies, as the report names them"
    )
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 4), metavar=("FIRST", "LAST"))
    parser.add_argument("--metric", nargs="+", choices=METRICS, default=[], help="settings of M3C to measure")
    parser.add_argument("--rival", nargs="+", choices=RIVALS, default=[], help="rivals to measure")
    parser.add_argument("--again", action="store_true", help="also what is in the results")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--shared", type=Path, default=SHARED, help="folder of data and systems that do not ship")
    parser.add_argument("--report", action="store_true", help="print the results")
    parser.add_argument("--against", default="M3C auto", help="method that the report compares the others with")
    options = parser.parse_args()
    if not options.report and not options.metric and not options.rival:
        parser.error("nothing to measure: give --metric, --rival or --report")
    if set(options.metric) - {"released"} and "metric" not in M3C(2).get_params():
        parser.error("this M3C has no metric yet: give --metric released")
    if options.metric or options.rival:
        run(options)
    if options.report:
        print(report(last_rows(options.results), options.study, options.against))


if __name__ == "__main__":
    main()
