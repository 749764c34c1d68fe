"""Data on the workers of a Dask cluster: blocks stay where they are, and only what a pass returns comes back.

Blocks are cut, and their results put in order, as in one process, so that a fit has the same bits wherever it is done.
Consecutive blocks lie together in a *store*, which is one task of a pass. A store that is lost with its worker is
filled again by Dask: it is the result of a task that holds the frames, or computes them as a Dask array says.

Dask starts workers on Linux with MALLOC_TRIM_THRESHOLD_=65536, so that freed memory goes back to the kernel at once. A
pass needs the same memory again for the next block, and getting it more than doubles the CPU time (see
benchmarks/cluster.py). Where MALLOC_TRIM_THRESHOLD_=268435456 and MALLOC_MMAP_THRESHOLD_=33554432 are in the
environment, workers keep it.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from m3c_md.exceptions import InputError
from m3c_md.frames.source import (
    BlockedTrajectories,
    FrameBlock,
    Piece,
    block_of_frames,
    block_weights,
    joined,
    sum_of_ratios,
)
from m3c_md.frames.weights import clipped_ratios
from m3c_md.optimize.threads import ONE_BLAS_THREAD

Result = TypeVar("Result")
Weights = list[NDArray[np.float32]]

# How often Dask repeats a task that failed, say because a file system did. Workers that die are counted by Dask itself
# (its setting distributed.scheduler.allowed-failures).
RETRIES = 3
# A pass has this many tasks per thread, to share the work out evenly, or more where stores would grow too large. At
# four columns, a full one takes half a second: long beside the milliseconds that Dask needs for a task.
TASKS_PER_THREAD = 4
BYTES_PER_STORE = 64_000_000
# Frames of this process travel inside the task that stores them, and Dask warns of tasks larger than 10 MB.
BYTES_PER_TASK = 8_000_000
# Tasks whose results are brought here together: few enough for the memory where whole blocks are asked for.
TASKS_AT_ONCE = 8


class StoredBlocks(NamedTuple):
    """Consecutive blocks that lie together on a worker (a tuple of plain collections: Dask knows their size).

    Attributes
    ----------
    stretches : dict of (n_frames, n_columns) arrays
        By trajectory, the frames that the blocks need.
    begins : dict of int
        By trajectory, the number of the first of these frames.
    plan, first_windows, lagtime, n_slices
        Of the blocks, as in `BlockedTrajectories`.
    """

    stretches: dict[int, NDArray[np.floating]]
    begins: dict[int, int]
    plan: list[list[Piece]]
    first_windows: list[int]
    lagtime: int
    n_slices: int

    def blocks(self, weights: float | Weights) -> Iterator[FrameBlock]:
        """Yield the blocks; ``weights`` is that of every window, or an array per block."""
        for number, (pieces, first) in enumerate(zip(self.plan, self.first_windows, strict=True)):
            frames = joined([self._frames(piece) for piece in pieces])
            if isinstance(weights, float):
                own = np.full(sum(piece.n_windows for piece in pieces), weights)
            else:
                own = weights[number].astype(np.float64)
            yield block_of_frames(frames, pieces, self.lagtime, self.n_slices, first, own)

    def _frames(self, piece: Piece) -> NDArray[np.floating]:
        begin = piece.first - self.begins[piece.trajectory]
        end = begin + piece.n_windows + (self.n_slices - 1) * self.lagtime
        return self.stretches[piece.trajectory][begin:end]


class BlockWork(NamedTuple):
    """What is to be done with every block."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class ClusterSource(BlockedTrajectories):
    """Trajectories whose blocks lie on the workers of a cluster; made by `spread`.

    Parameters
    ----------
    client : distributed.Client
    lengths, lagtime, n_slices
        As in `BlockedTrajectories`.
    stores : list of futures of StoredBlocks
        All blocks, in their order.
    weights : list of futures of lists of arrays, optional
        Weights of the windows, store by store and block by block; all the same by default.
    """

    def __init__(
        self,
        client: Any,
        lengths: Sequence[int],
        lagtime: int,
        n_slices: int,
        stores: list[Any],
        weights: list[Any] | None = None,
    ) -> None:
        super().__init__(lengths, lagtime, n_slices)
        self._client = client
        self._stores = stores
        self._weights = [1.0 / self.n_windows] * len(stores) if weights is None else weights

    def map(self, function: Callable[..., Result], *arguments: Any) -> Iterator[Result]:
        """Yield ``function(block, *arguments)`` for all blocks, in their order."""
        for packed in self._collected(self._started(_packed_results, function, arguments)):
            yield from _unpacked(packed)

    def weighted(self, ratios: Callable[..., NDArray[np.floating]], *arguments: Any) -> ClusterSource:
        """Return the same data with windows weighted by `weights_of_ratios` of ``ratios(block, *arguments)``."""
        parts = self._started(_results, ratios, arguments)
        mean = self._sum(_sums_of_ratios, parts) / self.n_windows
        total = self._sum(_sums_of_clipped, parts, mean=mean)
        weights = self._everywhere(_weights_of_blocks, parts, mean=mean, total=total)
        return ClusterSource(self._client, self.lengths, self.lagtime, self.n_slices, self._stores, weights)

    def _started(self, task: Callable[..., Any], function: Callable[..., Any], arguments: tuple[Any, ...]) -> list[Any]:
        """Apply a function to all blocks; it travels once and from worker to worker, not with every task."""
        work = self._client.submit(_block_work, function, *arguments, pure=False, retries=RETRIES)
        return self._everywhere(task, self._stores, self._weights, work=work)

    def _everywhere(self, task: Callable[..., Any], *each: list[Any], **common: Any) -> list[Any]:
        # Keys of tasks that are not "pure" are random: no result of another pass is taken for that of this one.
        futures: list[Any] = self._client.map(task, *each, **common, pure=False, retries=RETRIES)
        return futures

    def _sum(self, task: Callable[..., list[float]], parts: list[Any], **common: float) -> float:
        """Add the numbers of all blocks up, in the order of the blocks."""
        tasks = self._everywhere(task, parts, **common)
        return float(sum(number for numbers in self._collected(tasks) for number in numbers))

    def _collected(self, tasks: list[Any]) -> Iterator[Any]:
        """Yield the results of tasks in order, some at a time; what has come here is forgotten there."""
        while tasks:
            results = _gathered(self._client, tasks[:TASKS_AT_ONCE])
            del tasks[:TASKS_AT_ONCE]
            yield from results


def spread(client: Any, trajectories: Sequence[Any], lagtime: int, n_slices: int = 2) -> ClusterSource:
    """Spread the blocks of trajectories over the workers of a cluster.

    Dask arrays are computed there. Other trajectories are read here and sent; the scheduler keeps a copy, so that what
    a dead worker had can be sent again. For more than some gigabytes, give Dask arrays.

    Parameters
    ----------
    client : distributed.Client
    trajectories : sequence of array-likes (n_frames, n_columns)
        Dask arrays, arrays, or anything that gives arrays when it is sliced.
    lagtime, n_slices : int
        Of the windows.
    """
    cut = BlockedTrajectories([len(x) for x in trajectories], lagtime, n_slices)
    size = _blocks_per_store(client, trajectories, len(cut.plan))
    plans = [cut.plan[begin : begin + size] for begin in range(0, len(cut.plan), size)]
    ranges = [_ranges(plan, cut.reach) for plan in plans]
    remote = _computed_there(client, trajectories, ranges)
    stores = []
    for number, (plan, parts) in enumerate(zip(plans, ranges, strict=True)):
        stretches = [
            remote[number, i] if is_dask(trajectories[i]) else np.asarray(trajectories[i][begin:end])
            for i, (begin, end) in parts.items()
        ]
        begins = {i: begin for i, (begin, _) in parts.items()}
        first = cut.first_windows[number * size : number * size + len(plan)]
        stores.append(
            client.submit(_filled, stretches, begins, plan, first, lagtime, n_slices, pure=False, retries=RETRIES)
        )
    return ClusterSource(client, cut.lengths, lagtime, n_slices, stores)


def _gathered(client: Any, tasks: list[Any]) -> list[Any]:
    try:
        return list(client.gather(tasks))
    except Exception as error:
        failure = copy(error).with_traceback(error.__traceback__)
        # The client keeps an error as long as there are futures of its task. The error's traceback leads to those, and
        # to all data of the source, which would therefore stay on the workers for ever.
        error.__traceback__ = None
    raise failure


def check_client(client: Any) -> Any:
    """Refuse what cannot run tasks and hand back their results."""
    if isinstance(client, type) or not all(
        callable(getattr(client, name, None)) for name in ("submit", "map", "gather")
    ):
        raise InputError(
            f"client={client!r:.60} has no methods submit, map and gather; give a dask.distributed.Client, or none to "
            "fit in this process"
        )
    if getattr(client, "asynchronous", False):
        raise InputError(f"client={client!r:.60} is asynchronous, and fit waits; make it with asynchronous=False")
    return client


def current_client(trajectories: Sequence[Any]) -> Any:
    """Return the current client of Dask if one is wanted, that is if there are Dask arrays; otherwise None."""
    # Who has a client has loaded its package; it is slow to load.
    if "distributed" not in sys.modules or not any(is_dask(x) for x in trajectories):
        return None
    import distributed

    clients: Any = distributed.Client
    try:
        client = clients.current()
    except ValueError:
        return None
    return check_client(client)


def is_dask(data: Any) -> bool:
    """Whether data are yet to be computed by Dask."""
    return hasattr(data, "__dask_graph__")


def _blocks_per_store(client: Any, trajectories: Sequence[Any], n_blocks: int) -> int:
    """Enough blocks for tasks that are worth their while, few enough to share out and to send."""
    n_threads = sum(client.nthreads().values()) if hasattr(client, "nthreads") else 1
    fair = n_blocks // (TASKS_PER_THREAD * max(n_threads, 1))
    size, sent = _n_bytes(trajectories), _n_bytes([x for x in trajectories if not is_dask(x)])
    return max(1, min(fair, BYTES_PER_STORE * n_blocks // size, BYTES_PER_TASK * n_blocks // max(sent, 1)))


def _n_bytes(trajectories: Sequence[Any]) -> int:
    return sum(int(np.prod(x.shape)) * np.dtype(x.dtype).itemsize for x in trajectories)


def _ranges(plan: list[list[Piece]], reach: int) -> dict[int, tuple[int, int]]:
    """First frame and end of what some consecutive blocks need of each trajectory."""
    ranges: dict[int, tuple[int, int]] = {}
    for piece in (piece for pieces in plan for piece in pieces):
        begin, _ = ranges.get(piece.trajectory, (piece.first, 0))
        ranges[piece.trajectory] = (begin, piece.first + piece.n_windows + reach)
    return ranges


def _computed_there(
    client: Any, trajectories: Sequence[Any], ranges: list[dict[int, tuple[int, int]]]
) -> dict[tuple[int, int], Any]:
    """Futures of the stretches of Dask arrays, by store and trajectory."""
    wanted = {
        (number, i): trajectories[i][begin:end]
        for number, parts in enumerate(ranges)
        for i, (begin, end) in parts.items()
        if is_dask(trajectories[i])
    }
    if not wanted:
        return {}
    # All in one call: a chunk that several of them lie in is computed once.
    return dict(zip(wanted, client.compute(list(wanted.values()), retries=RETRIES), strict=True))


# What follows runs on the workers.


def _filled(
    stretches: list[NDArray[np.floating]],
    begins: dict[int, int],
    plan: list[list[Piece]],
    first_windows: list[int],
    lagtime: int,
    n_slices: int,
) -> StoredBlocks:
    arrays = {i: joined([part]) for i, part in zip(begins, stretches, strict=True)}
    return StoredBlocks(arrays, begins, plan, first_windows, lagtime, n_slices)


def _block_work(function: Callable[..., Any], *arguments: Any) -> BlockWork:
    return BlockWork(function, arguments)


def _applied(store: StoredBlocks, weights: float | Weights, work: BlockWork) -> Iterator[Any]:
    with ONE_BLAS_THREAD:
        for block in store.blocks(weights):
            yield work.function(block, *work.arguments)


def _results(store: StoredBlocks, weights: float | Weights, work: BlockWork) -> list[Any]:
    return list(_applied(store, weights, work))


def _packed_results(store: StoredBlocks, weights: float | Weights, work: BlockWork) -> bytes:
    """Results in one piece: many small arrays would each be sent on their own, and take ten times as long."""
    results: list[Any] = []
    try:
        for result in _applied(store, weights, work):
            results.append(result)
    except InputError as error:
        # Bad data are an answer, not an accident of the worker: it comes in its turn, and the task is not repeated.
        results.append(error)
    return pickle.dumps(results, protocol=pickle.HIGHEST_PROTOCOL)


def _unpacked(packed: bytes) -> Iterator[Any]:
    for result in pickle.loads(packed):
        if isinstance(result, InputError):
            raise result
        yield result


def _sums_of_ratios(ratios: list[NDArray[np.floating]]) -> list[float]:
    return [sum_of_ratios(part) for part in ratios]


def _sums_of_clipped(ratios: list[NDArray[np.floating]], mean: float) -> list[float]:
    return [float(clipped_ratios(part, mean).sum()) for part in ratios]


def _weights_of_blocks(ratios: list[NDArray[np.floating]], mean: float, total: float) -> Weights:
    return [block_weights(part, mean, total) for part in ratios]
