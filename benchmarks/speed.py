"""M3C against the PCCA+ pipeline of deeptime: ratios of CPU time, memory, and whether quality is the same.

    python benchmarks/speed.py                      the table of the README
    python benchmarks/speed.py --cases 1e4x4        one case
    python benchmarks/speed.py --quality            objective, held-out Q and basin against the slow fit, 10 seeds
    python benchmarks/speed.py --file 1e7           a memory-mapped file of 1e7 frames, against 1e6
    python benchmarks/speed.py --transform          frames labelled per second
    python benchmarks/speed.py --first-fit          what a user waits for once: import, compilation
    python benchmarks/speed.py --profile            where the time goes

Every run prints a table and keeps its numbers in benchmarks/results/speed.json, for benchmarks/RESULTS.md. One
process with one thread, the same data, runs alternating. Ours: ``M3C(3).fit_fetch`` + ``transform``. The rival:
``KMeans(200, max_iter=20)``, assignment, counts, reversible ``MaximumLikelihoodMSM``, ``pcca(3)``, labels. Compilation
is done before.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import cProfile
import json
import pstats
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from synthetic import dihedral_series

from m3c_md import M3C
from m3c_md.frames.source import LocalSource, SourceBlocks
from m3c_md.matching import agreement
from m3c_md.optimize.blocks import all_label_costs
from m3c_md.search.local_search import SearchSettings, local_search
from m3c_md.validation import metastability

SHARED = Path(__file__).parents[2] / "shared" / "data"
SYNTHETIC = {"1e4x4": (10_000, 2), "1e5x4": (100_000, 2), "1e5x36": (100_000, 18), "1e6x4": (1_000_000, 2)}
MEASURED = ("ala2", "mdshare", "asp7")
RESULTS = Path(__file__).parent / "results" / "speed.json"


def keep(section: str, rows: list[dict[str, Any]]) -> None:
    """Replace one section of the file of results; cases that were not measured this time stay."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    names = [row["name"] for row in rows]
    results[section] = [row for row in results.get(section, []) if row["name"] not in names] + rows
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def data_of(case: str, seed: int = 0) -> list[np.ndarray] | None:
    """Trajectories of a case, None where the data are not on this machine."""
    if case in SYNTHETIC:
        return [dihedral_series(*SYNTHETIC[case], seed)[0]]
    if case == "ala2":
        from m3c_md.data import alanine_dipeptide

        return [x.astype(np.float64) for x in alanine_dipeptide().features]
    if case == "mdshare":
        path = SHARED / "alanine_dipeptide_mdshare" / "dihedral_traj0.npy"
        if not path.exists():
            return None
        angles = np.load(path).astype(np.float64)
        return [np.column_stack([np.sin(angles), np.cos(angles)])]
    folder = SHARED / "asp7"
    if not folder.exists():
        return None
    from m3c_md import DihedralFeaturizer

    return [x.astype(np.float64) for x in DihedralFeaturizer().load(folder / "asp7.xtc", folder / "asp7_reordered.pdb")]


def ours(trajectories: list[np.ndarray]) -> list[np.ndarray]:
    labels: list[np.ndarray] = M3C(3, random_state=0).fit_fetch(trajectories).transform(trajectories)
    return labels


def rival(trajectories: list[np.ndarray]) -> list[np.ndarray]:
    from deeptime.clustering import KMeans
    from deeptime.markov import TransitionCountEstimator
    from deeptime.markov.msm import MaximumLikelihoodMSM

    clusters = KMeans(200, max_iter=20, fixed_seed=13, n_jobs=1).fit_fetch(np.concatenate(trajectories))
    micro = [clusters.transform(x, n_jobs=1) for x in trajectories]
    counts = TransitionCountEstimator(1, "sliding").fit_fetch(micro).submodel_largest()
    pcca = MaximumLikelihoodMSM(reversible=True).fit_fetch(counts).pcca(3)
    states = np.full(200, -1)
    states[counts.state_symbols] = pcca.assignments
    return [states[x] for x in micro]


def cpu_seconds(function: Callable[[list[np.ndarray]], Any], data: list[np.ndarray]) -> float:
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function(data)
    return time.process_time() - began


def peak_memory(function: Callable[[list[np.ndarray]], Any], data: list[np.ndarray]) -> float:
    """MB of resident memory above what was there before, at the highest of many glances."""
    page = os.sysconf("SC_PAGE_SIZE")

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * page

    before, highest, done = resident(), [0], threading.Event()

    def watch() -> None:
        while not done.is_set():
            highest[0] = max(highest[0], resident())
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        cpu_seconds(function, data)
    finally:
        done.set()
        watcher.join()
    return (highest[0] - before) / 1e6


def compare_speed(cases: list[str], repeats: int) -> list[dict[str, Any]]:
    print(f"| data | M3C, CPU s | deeptime, CPU s | ratio (range) | M3C, MB above the data |\n|{'---|' * 5}")
    rows = []
    for case in cases:
        data = data_of(case)
        if data is None:
            continue
        times = np.array([[cpu_seconds(ours, data), cpu_seconds(rival, data)] for _ in range(repeats)])
        ratios = times[:, 0] / times[:, 1]
        memory = peak_memory(ours, data)
        n_frames, n_columns = sum(map(len, data)), data[0].shape[1]
        mine, theirs = np.median(times, axis=0)
        print(
            f"| {case}: {n_frames} x {n_columns} | {mine:.2f} | {theirs:.2f} | {np.median(ratios):.3f} "
            f"({ratios.min():.3f}-{ratios.max():.3f}) | {memory:.0f} |",
            flush=True,
        )
        rows.append(
            {
                "name": case,
                "frames": n_frames,
                "columns": n_columns,
                "ours": times[:, 0].round(3).tolist(),
                "deeptime": times[:, 1].round(3).tolist(),
                "memory": round(memory),
            }
        )
    return rows


def check_quality(cases: list[str], seeds: int) -> list[dict[str, Any]]:
    """Winner of the default fit against a local search on all windows, in double precision, from its own rule.

    Without weights, which the slow fit does not know.
    """
    print(
        "| data | seeds | objective above the slow fit (worst) | Q difference (worst) | same basin | gap (worst) |\n"
        f"|{'---|' * 6}"
    )
    rows = []
    for case in cases:
        found = []
        for seed in range(seeds):
            data = data_of(case, seed)
            if data is None:
                break
            test = dihedral_series(100_000, SYNTHETIC[case][1], seed, draw=1)[0] if case in SYNTHETIC else data[0]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = M3C(3, reweight=False, random_state=seed).fit_fetch(data)
            blocks = SourceBlocks(LocalSource(data, 1), model.feature_map)
            settings = SearchSettings(3, 3e-3, (0.01, 0.99))
            labels = all_label_costs(blocks, model.rule).argmin(axis=1)
            slow = local_search(blocks, labels, settings, start=model.rule, gap=1e-5)
            states, exact = model.transform(test), slow.rule.scores(model.feature_map(test)).argmax(axis=0)
            found.append(
                {
                    "objective": model.objective / slow.objective - 1.0,
                    "Q": metastability(states, 1, 3) - metastability(exact, 1, 3),
                    "basin": agreement(states, exact) > 0.95,
                    "gap": model.gap,
                }
            )
        if found:
            worst = {name: max((row[name] for row in found), key=abs) for name in ("objective", "Q", "gap")}
            basins = sum(row["basin"] for row in found)
            print(
                f"| {case} | {len(found)} | {worst['objective']:.1e} | {worst['Q']:.1e} | {basins} of {len(found)} | "
                f"{worst['gap']:.1e} |",
                flush=True,
            )
            rows.append({"name": case, "fits": found})
    return rows


def from_file(n_frames: int) -> list[dict[str, Any]]:
    """Fit a memory-mapped file, and one of a tenth of its size, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        results = []
        for n in (n_frames // 10, n_frames):
            path = Path(folder) / f"{n}.npy"
            mapped = np.lib.format.open_memmap(path, "w+", np.float32, (n, 4))
            for start in range(0, n, 1_000_000):
                part = mapped[start : start + 1_000_000]
                part[:] = dihedral_series(len(part), 2, 0, draw=start, dtype=np.float32)[0]
            mapped.flush()
            del mapped
            done = subprocess.run(
                [sys.executable, __file__, "--fit-file", str(path)], capture_output=True, text=True, check=True
            )
            results.append(json.loads(done.stdout))
        print(f"| frames | CPU s | MB above the mapping | gap |\n|{'---|' * 4}")
        for n, one in zip((n_frames // 10, n_frames), results, strict=True):
            print(f"| {n:.0e} | {one['seconds']:.1f} | {one['memory']:.0f} | {one['gap']:.1e} |")
        print(f"time ratio {results[1]['seconds'] / results[0]['seconds']:.1f}")
        return [
            {"name": f"{n:.0e}", "frames": n, **one} for n, one in zip((n_frames // 10, n_frames), results, strict=True)
        ]


def fit_file(path: Path) -> None:
    """Fit one file; resident memory less the pages of the file that happen to be mapped."""
    warm_up()
    mapped = np.load(path, mmap_mode="r")
    own, done = [0], threading.Event()

    def anonymous() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) * 1024

    before = anonymous()

    def watch() -> None:
        while not done.is_set():
            own[0] = max(own[0], anonymous())
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.process_time()
    model = M3C(3, random_state=0).fit_fetch(mapped)
    model.transform(mapped)
    seconds = time.process_time() - began
    done.set()
    watcher.join()
    print(json.dumps({"seconds": seconds, "memory": (own[0] - before) / 1e6, "gap": model.gap}))


def warm_up() -> None:
    """Load everything and have it compiled, on small and on streamed data."""
    for n in (500, 25_000):
        ours([dihedral_series(n, 2)[0]])


def first_fit() -> list[dict[str, Any]]:
    """What a user waits for: import, first fit with and without compiled code at hand."""
    code = (
        "import time; t=time.perf_counter(); import numpy as np; from m3c_md import M3C; a=time.perf_counter(); "
        "x=np.repeat([-1.0,1.0]*20,50)+0.3*np.random.default_rng(0).normal(size=2000); M3C(2,random_state=0).fit(x); "
        "b=time.perf_counter(); M3C(2,random_state=0).fit(x); c=time.perf_counter(); print(a-t, b-a, c-b)"
    )
    print(f"| | import, s | first fit, s | second fit, s |\n|{'---|' * 4}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        for name, more in (
            ("nothing compiled yet", {}),
            ("compiled before", {}),
            ("without numba", {"M3C_MD_NO_NUMBA": "1"}),
        ):
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**environment, **more}
            )
            seconds = [float(x) for x in done.stdout.split()]
            print(f"| {name} | " + " | ".join(f"{x:.1f}" for x in seconds) + " |", flush=True)
            rows.append({"name": name, "seconds": seconds})
    return rows


def transform_rate() -> list[dict[str, Any]]:
    """Frames labelled per second of one core, and the cost of the Fourier map alone in the same precision."""
    print(f"| data | labels, million frames/s | feature map alone, million frames/s | ratio of times |\n|{'---|' * 4}")
    rows = []
    for name, n_angles in (("1e6x4", 2), ("1e6x36", 18)):
        frames = dihedral_series(1_000_000, n_angles, dtype=np.float32)[0]
        model = M3C(3, random_state=0).fit_fetch(frames[:30_000])

        def map_alone(data: list[np.ndarray], feature_map: Any = model.feature_map) -> None:
            for begin in range(0, len(data[0]), 8192):
                feature_map(data[0][begin : begin + 8192], np.float32)

        times = np.array(
            [
                [cpu_seconds(lambda x, model=model: model.transform(x[0]), [frames]), cpu_seconds(map_alone, [frames])]
                for _ in range(3)
            ]
        )
        labels, alone = np.median(times, axis=0)
        print(f"| {name} | {1.0 / labels:.2f} | {1.0 / alone:.2f} | {labels / alone:.2f} |", flush=True)
        rows.append({"name": name, "labels": times[:, 0].tolist(), "map": times[:, 1].tolist()})
    return rows


# Parts of a fit, by the functions that do them: all time spent in and below a function, which calls no other of these.
PARTS = {
    "read, check and sample": ("_searched",),
    "cells and weights": ("prepare_problem",),
    "starts": ("_first_trials",),
    "trials on samples": ("optimise_kernel",),
    "winner on all data": ("polish_winner",),
    "labels of all frames": ("transform",),
}


def profile() -> list[dict[str, Any]]:
    """Where the time goes, in parts of a fit and in single functions."""
    rows = []
    for case in ("1e4x4", "1e6x4"):
        data = data_of(case)
        assert data is not None
        profiler = cProfile.Profile(time.process_time)
        profiler.enable()
        ours(data)
        profiler.disable()
        stats = pstats.Stats(profiler)
        calls = stats.stats  # type: ignore[attr-defined]
        total = stats.total_tt  # type: ignore[attr-defined]
        parts = {
            part: sum(entry[3] for (_, _, name), entry in calls.items() if name in names)
            for part, names in PARTS.items()
        }
        parts["other"] = total - sum(parts.values())
        print(f"\n{case}: {total:.2f} s under the profiler")
        for part, seconds in parts.items():
            print(f"  {part:<24} {seconds:6.3f} s {seconds / total:6.1%}")
        stats.sort_stats("tottime").print_stats(12)
        rows.append({"name": case, "seconds": total, "parts": parts})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=[*SYNTHETIC, *MEASURED], default=[*SYNTHETIC, *MEASURED])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quality", action="store_true")
    parser.add_argument("--seeds", type=int, default=10, help="of --quality")
    parser.add_argument("--file", type=float, metavar="N")
    parser.add_argument("--fit-file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--first-fit", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--transform", action="store_true")
    options = parser.parse_args()
    if options.fit_file:
        fit_file(options.fit_file)
    elif options.first_fit:
        keep("first fit", first_fit())
    else:
        warm_up()
        if options.profile:
            keep("profile", profile())
        elif options.transform:
            keep("transform", transform_rate())
        elif options.file:
            keep("file", from_file(int(options.file)))
        elif options.quality:
            cases = [case for case in options.cases if case not in ("1e6x4", "asp7")]
            keep("quality", check_quality(cases, options.seeds))
        else:
            keep("speed", compare_speed(options.cases, options.repeats))


if __name__ == "__main__":
    main()
