"""Soak: random systems through everything a user would do; each ends in a model or in an error that helps.

    python benchmarks/soak.py --seeds 0 2000        go on with these seeds; those in the results are not done again
    python benchmarks/soak.py --seeds 0 50 --again  do them again
    python benchmarks/soak.py --seeds 0 2000 --most-frames 5000     the small systems among them
    python benchmarks/soak.py --show 17             one system: description, full traceback, profile of the fit
    python benchmarks/soak.py --report              markdown tables of all results

A seed says everything about its system (benchmarks/soak_systems.py). Rows are appended to
benchmarks/results/soak.jsonl, one line each, so several processes with other seeds may write to it; the last row of a
seed counts. Bad is: an exception that is not the package's, or that is, but blames input which is good or names no
remedy; a warning that is not the package's; a fit that takes too long; an answer that contradicts itself
(benchmarks/soak_way.py); a process that dies. Cost is CPU time of fit + transform against deeptime's pipeline (k-means
with 200 centres, counts, reversible MSM, PCCA+, labels) on the same data, one thread, compilation done before.
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # before numpy is loaded
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(_name, "1")

import argparse
import cProfile
import faulthandler
import json
import pstats
import signal
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from soak_report import last_rows, report
from soak_systems import VERSION, System, build, plan
from soak_way import CLOCK, RIVAL_SECONDS, BrokenError, Stall, fault, limit, public_way, rival

from m3c_md import M3C
from m3c_md.exceptions import M3CWarning
from m3c_md.matching import agreement

RESULTS = Path(__file__).parent / "results" / "soak.jsonl"
# Where a compiled loop hangs no alarm is heard: after so many limits of a fit the process is ended from outside.
DEAF = 6.0
# Of systems of more frames than this, deeptime's pipeline, which takes most of the time there, runs on every fourth.
LARGE, SOME_LARGE = 60_000, 4


def soak(system: System, scale: float = 1.0, *, against: bool = True) -> dict[str, Any]:
    """Row of results of one system; ``scale`` stretches limits of time, ``against`` says whether deeptime runs, too."""
    chosen = system.plan
    row: dict[str, Any] = {
        "seed": chosen.seed, "version": VERSION, "description": chosen.description, "kind": chosen.kind,
        "modifiers": chosen.modifiers, "frames": chosen.n_frames, "columns": chosen.n_columns, "pairs": chosen.n_pairs,
        "trajectories": len(chosen.lengths), "asked": chosen.n_asked, "true": chosen.n_true, "lagtime": chosen.lagtime,
    }  # fmt: skip
    labels: list[NDArray[np.int32]] | None = None
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            labels = public_way(system, scale * limit(chosen), row)
            row["outcome"] = "model"
        except Stall as error:
            row |= {"outcome": "bad", "reason": "stall", "text": str(error), "trace": trace_of(error)}
        except BrokenError as error:
            row |= {"outcome": "bad", "reason": "broken", "text": str(error), "trace": trace_of(error)}
        except Exception as error:
            reason = fault(error)
            row |= {"outcome": "bad" if reason else "typed error", "reason": reason, "trace": trace_of(error)}
            row |= {"error": type(error).__name__, "text": str(error)}
    row["wall"] = round(time.perf_counter() - began, 3)
    ours = [w for w in told if issubclass(w.category, M3CWarning)]
    row["warnings"] = sorted({w.category.__name__ for w in ours})
    foreign = sorted({f"{w.category.__name__}: {w.message}"[:200] for w in told if w not in ours})
    if foreign and row["outcome"] != "bad":
        row |= {"outcome": "bad", "reason": "foreign warning", "text": "; ".join(foreign)}
    truth = None if system.truth is None else np.concatenate(system.truth)
    if truth is not None:
        row["accuracy"] = None if labels is None else round(agreement(np.concatenate(labels), truth), 5)
    if not against:
        return row
    theirs, spent, note = rival(system)
    row |= {"deeptime seconds": round(spent, 4), "deeptime failed": note}
    if "seconds" in row and not note:  # a rival that failed has no cost to compare with
        row["ratio"] = round(row["seconds"] / max(spent, 1e-4), 4)
    if truth is not None:
        row["deeptime accuracy"] = None if theirs is None else round(agreement(np.concatenate(theirs), truth), 5)
    return row


def trace_of(error: BaseException) -> str:
    """Where an exception was raised: the last frames within the package."""
    root = error.__cause__ if isinstance(error, BrokenError) and error.__cause__ is not None else error
    frames = [f for f in traceback.extract_tb(root.__traceback__) if "m3c_md" in f.filename or "soak" in f.filename]
    return " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames[-4:]))


def append(row: dict[str, Any], path: Path) -> None:
    """Write one line at once to the end of the file: lines of several processes do not mix."""
    line = json.dumps(row, default=float).encode() + b"\n"
    path.parent.mkdir(exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


def warm_up() -> None:
    """Load and compile everything, on small and on streamed data."""
    x = np.repeat([-1.0, 1.0] * 250, 50) + 0.3 * np.random.default_rng(0).normal(size=25_000)
    for n in (2_000, 25_000):
        M3C(2, random_state=0).fit_fetch(x[:n]).transform(x[:n])


def run(seeds: list[int], path: Path, scale: float) -> None:
    """Soak some seeds, each announced before: one that was announced twice and never ended has killed its process."""
    from tqdm import tqdm

    warm_up()
    n_bad = 0
    with tqdm(seeds, unit="system") as bar:
        for seed in bar:
            append({"seed": seed, "version": VERSION, "outcome": "started"}, path)
            chosen = plan(seed)
            bar.set_postfix_str(f"seed {seed}, {chosen.n_frames} x {chosen.n_columns}, {n_bad} bad")
            faulthandler.dump_traceback_later(CLOCK * (DEAF * scale * limit(chosen) + RIVAL_SECONDS), exit=True)
            system = build(chosen)
            try:
                large = system.plan.n_frames > LARGE
                row = soak(system, scale, against=not large or seed % SOME_LARGE == 0)
            except KeyboardInterrupt:
                append({"seed": seed, "version": VERSION, "outcome": "interrupted"}, path)
                raise
            finally:
                faulthandler.cancel_dump_traceback_later()
                system.close()
            append(row, path)
            if row["outcome"] == "bad":
                n_bad += 1
                bar.write(f"seed {seed}: {row['reason']}: {row.get('text', '')[:200]} ({row['description']})")


def unfinished(seeds: range, path: Path, again: bool, most_frames: int) -> list[int]:
    """Seeds that are still to be done."""
    rows = {} if again else last_rows(path)
    finished = {seed for seed, row in rows.items() if row["outcome"] not in ("started", "interrupted")}
    return [seed for seed in seeds if seed not in finished and plan(seed).n_frames <= most_frames]


def supervise(arguments: list[str]) -> int:
    """Run the seeds in a process of their own, and in a new one where that dies: compiled code may crash or hang."""
    ended: list[bool] = []

    def end(*_: Any) -> None:
        ended.append(True)
        worker.send_signal(signal.SIGTERM)

    while True:
        began = time.monotonic()
        worker = subprocess.Popen([sys.executable, __file__, "--worker", *arguments])
        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, lambda *_: None)  # the worker hears Ctrl-C, too, and tidies up
        code = worker.wait()
        if code in (0, 2, 130) or ended or time.monotonic() - began < 5.0:  # that soon it cannot be a system
            return code
        print(f"the process died (code {code}); going on", file=sys.stderr)
        arguments = [argument for argument in arguments if argument != "--again"]


def show(seed: int, scale: float) -> None:
    """Describe a system and run it, with everything that can be said about it."""
    chosen = plan(seed)
    print(f"seed {seed}: {chosen.description}")
    warm_up()
    system = build(chosen)
    profiler = cProfile.Profile(time.process_time)
    profiler.enable()
    try:
        public_way(system, 10.0 * scale * limit(chosen), {})
    except BaseException:
        traceback.print_exc()
    profiler.disable()
    pstats.Stats(profiler).sort_stats("cumulative").print_stats(r"m3c_md|soak", 15)
    print(json.dumps(soak(system, scale), indent=1, default=float))
    system.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 100), metavar=("FIRST", "END"))
    parser.add_argument("--again", action="store_true", help="also seeds that are in the results")
    parser.add_argument("--most-frames", type=int, default=10**9, help="leave larger systems out")
    parser.add_argument("--patience", type=float, default=1.0, help="factor on the limits of time")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--show", type=int, metavar="SEED")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.report:
        print(report(last_rows(options.results)))
    elif options.show is not None:
        show(options.show, options.patience)
    elif options.worker:
        for number in (signal.SIGINT, signal.SIGTERM):  # shells start what is in the background deaf to Ctrl-C
            signal.signal(number, signal.default_int_handler)
        try:
            seeds = unfinished(range(*options.seeds), options.results, options.again, options.most_frames)
            run(seeds, options.results, options.patience)
        except KeyboardInterrupt:
            sys.exit(130)
    else:
        sys.exit(supervise(sys.argv[1:]))


if __name__ == "__main__":
    main()
