"""Time one look at all data in this process and on a Dask cluster, and project the fit of a large data set.

    python benchmarks/cluster.py --sizes 1e5 1e6 4e6 --workers 2 --looks 4

A look is what the last step of a large fit repeats: every worker featurises its frames and sums over their windows.
Seconds are the shortest of some repeats. CPU seconds (of this process, or of all workers together) depend less on what
else the machine does, and the projection rests on them: frames per worker times the CPU time of a frame, plus what the
client does for every task and every block, as if nothing of that went on at the same time. Reading the data and the
search on a sample, some seconds whatever the size, are not in it.

Workers are measured as Dask starts them, and with memory settings (see `KEEPING`) under which they keep the memory of
one block for the next. Dask's own make glibc fetch it from the kernel anew for every array, page by page.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from distributed import Client, LocalCluster
from synthetic import dihedral_series

from m3c_md import M3C
from m3c_md.frames import cluster
from m3c_md.frames.cluster import spread
from m3c_md.frames.source import BLOCK_WINDOWS, FrameBlock, LocalSource, Source
from m3c_md.optimize.streaming import StreamSums, add_up
from m3c_md.search.polish import look_at

N_ANGLES = 2
SMOOTHING = 0.01
# Frames that the rule is fitted to.
FITTED = 30_000
# Blocks on a full store.
BLOCKS_PER_STORE = cluster.BYTES_PER_STORE // (BLOCK_WINDOWS * 2 * N_ANGLES * 8)
# Tasks of the pass that measures what a task costs.
MANY_TASKS = 500


# Environment of workers that keep freed memory; the largest values that glibc takes or that make a difference.
KEEPING = {"MALLOC_TRIM_THRESHOLD_": str(1 << 28), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}


class Timing(NamedTuple):
    """Wall and CPU seconds."""

    wall: float
    cpu: float


class Case(NamedTuple):
    """Measurements for one number of frames on one kind of workers."""

    n_frames: int
    workers: str
    local: Timing
    storing: float
    n_tasks: int
    dask: Timing


class Overhead(NamedTuple):
    """Seconds of an empty pass of one task, of every further task, and of adding up the results of a block."""

    round_trip: float
    task: float
    block: float


@contextmanager
def workers_with(settings: dict[str, str], n_workers: int) -> Iterator[Client]:
    """Start workers with a thread each, in an environment with some settings."""
    quiet = {"dashboard_address": ":0", "scheduler_kwargs": {"dashboard": False}}
    with (
        mock.patch.dict(os.environ, settings),  # and back again: Dask leaves its own settings there
        LocalCluster(n_workers=n_workers, threads_per_worker=1, **quiet) as machines,
        Client(machines) as client,
    ):
        yield client


def worker_cpu(client: Client) -> float:
    return float(sum(client.run(time.process_time).values()))


def fastest(work: Callable[[], object], cpu: Callable[[], float], repeats: int) -> Timing:
    """Shortest wall and CPU time of some runs, after one that does not count (compiled code is loaded in it)."""
    work()
    walls, cpus = [], []
    for _ in range(repeats):
        cpu_before, begin = cpu(), time.perf_counter()
        work()
        walls.append(time.perf_counter() - begin)
        cpus.append(cpu() - cpu_before)
    return Timing(min(walls), min(cpus))


def arguments_of_look() -> tuple[Any, ...]:
    """Feature map and rule of a fit to some frames, as the last step of a search has them."""
    model = M3C(3, random_state=0).fit_fetch(dihedral_series(FITTED, N_ANGLES)[0])
    return model.feature_map, model.rule, SMOOTHING, np.zeros(3)


def look(source: Source, arguments: tuple[Any, ...]) -> StreamSums:
    return add_up(source.map(look_at, *arguments))


def measure(client: Client, workers: str, n_frames: int, arguments: tuple[Any, ...], repeats: int) -> Case:
    frames = dihedral_series(n_frames, N_ANGLES)[0]
    local = LocalSource([frames], 1)
    here = fastest(lambda: look(local, arguments), time.process_time, repeats)
    begin = time.perf_counter()
    source = spread(client, [frames], 1)
    list(source.map(nothing))
    storing = time.perf_counter() - begin
    there = fastest(lambda: look(source, arguments), lambda: worker_cpu(client), repeats)
    ours, theirs = look(local, arguments), look(source, arguments)
    assert ours.loss == theirs.loss, "the same bits"
    assert np.array_equal(ours.gradient, theirs.gradient)
    return Case(n_frames, workers, here, storing, len(source._stores), there)


def nothing(block: FrameBlock) -> None:
    del block


def measure_overhead(client: Client, arguments: tuple[Any, ...], repeats: int) -> Overhead:
    def empty_pass(n_tasks: int) -> float:
        source = spread(client, [np.zeros((n_tasks * BLOCK_WINDOWS + 1, 1), dtype=np.float32)], 1)
        assert len(source._stores) == n_tasks
        return fastest(lambda: list(source.map(nothing)), time.process_time, repeats).wall

    with mock.patch.object(cluster, "BYTES_PER_STORE", 1):
        one, many = empty_pass(1), empty_pass(MANY_TASKS)
    part = look(LocalSource([dihedral_series(BLOCK_WINDOWS, N_ANGLES)[0]], 1), arguments)
    packed = pickle.dumps([part] * BLOCKS_PER_STORE)
    adding = fastest(lambda: add_up(pickle.loads(packed)), time.process_time, repeats)
    return Overhead(one, (many - one) / (MANY_TASKS - 1), adding.cpu / BLOCKS_PER_STORE)


def seconds_on_cluster(n_frames: float, n_workers: int, per_frame: float, overhead: Overhead) -> float:
    """Time of a look, as if workers and client waited for each other."""
    n_blocks = n_frames / BLOCK_WINDOWS
    n_tasks = max(n_blocks / BLOCKS_PER_STORE, min(n_blocks, cluster.TASKS_PER_THREAD * n_workers))
    waiting = overhead.round_trip + n_tasks * overhead.task + n_blocks * overhead.block
    return waiting + n_frames * per_frame / n_workers


def break_even(n_workers: int, alone: float, per_frame: float, overhead: Overhead) -> float:
    """Smallest number of frames, to a tenth, for which a look on a cluster is faster than one in this process."""
    for n_frames in 1000.0 * 1.1 ** np.arange(150):
        if seconds_on_cluster(n_frames, n_workers, per_frame, overhead) < n_frames * alone:
            return float(n_frames)
    return np.inf


def report(cases: list[Case], overhead: Overhead, options: argparse.Namespace) -> None:
    print(
        f"| frames | workers | here, s | here, CPU s | {options.workers} workers, s | their CPU s | tasks | "
        "storing, s | gain, wall |\n|---|---|---|---|---|---|---|---|---|"
    )
    for case in cases:
        print(
            f"| {case.n_frames:.0e} | {case.workers} | {case.local.wall:.3f} | {case.local.cpu:.3f} | "
            f"{case.dask.wall:.3f} | {case.dask.cpu:.3f} | {case.n_tasks} | {case.storing:.2f} | "
            f"{case.local.wall / case.dask.wall:.2f} |"
        )
    per_frame = cases[-1].dask.cpu / cases[-1].n_frames
    alone = cases[-1].local.cpu / cases[-1].n_frames
    print(
        f"\nA frame costs {alone * 1e6:.2f} µs of CPU here, {per_frame * 1e6:.2f} µs on a worker that keeps memory. A "
        f"pass of one empty task takes {overhead.round_trip * 1e3:.1f} ms, every further task "
        f"{overhead.task * 1e3:.2f} ms, the sums of a block {overhead.block * 1e6:.0f} µs."
    )
    even = break_even(options.workers, alone, per_frame, overhead)
    print(f"By these numbers {options.workers} workers pay from about {even:.1g} frames on.")
    one = seconds_on_cluster(options.project, options.project_workers, per_frame, overhead)
    print(
        f"Projection to {options.project:.0e} frames on {options.project_workers} workers: {one:.0f} s per look, "
        f"{options.looks * one:.0f} s for {options.looks} looks; {options.project * alone:.0f} s per look here."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e5, 1e6, 4e6], help="numbers of frames")
    parser.add_argument("--workers", type=int, default=2, help="worker processes on this machine, a thread each")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--project", type=float, default=1e9, help="frames of the data set to project to")
    parser.add_argument("--project-workers", type=int, default=64)
    parser.add_argument("--looks", type=int, default=4, help="looks at all data that a fit takes")
    options = parser.parse_args()
    arguments, cases = arguments_of_look(), []
    for kind, settings in (("as Dask starts them", {}), ("keep memory", KEEPING)):
        with workers_with(settings, options.workers) as client:
            overhead = measure_overhead(client, arguments, options.repeats)
            for size in options.sizes:
                cases.append(measure(client, kind, int(size), arguments, options.repeats))
    report(cases, overhead, options)


if __name__ == "__main__":
    main()
