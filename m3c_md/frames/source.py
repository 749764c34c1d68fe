"""Where frames come from: trajectories in memory, in files or on other machines, seen as a fixed sequence of blocks.

A block is a stretch of windows with the frames that they need (so that a frame is read and featurised once), cut the
same way wherever the data are. Work on all data is a function of one block, applied by `Source.map`; only what the
function returns leaves the place where the block is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.exceptions import InputError
from m3c_md.frames.parts import independent_parts
from m3c_md.frames.weights import clipped_ratios
from m3c_md.frames.windows import WindowSet, lag_times_spanned
from m3c_md.inputs.lengths import window_counts
from m3c_md.optimize.blocks import WindowBlock
from m3c_md.optimize.feature_map import FourierMap

Result = TypeVar("Result")

# Windows per block: large enough for the matrix products, small enough for the caches.
BLOCK_WINDOWS = 8192


@dataclass(frozen=True)
class Piece:
    """Windows ``first, ..., first + n_windows - 1`` of one trajectory (a window is named by its first frame)."""

    trajectory: int
    first: int
    n_windows: int
    ends: bool  # whether the last window of the trajectory is among them


@dataclass(frozen=True)
class FrameBlock:
    """Frames of a block, the windows over them, and which frames are counted here and in no other block.

    Attributes
    ----------
    frames : (n_frames, n_columns) array
    windows : (n_slices, n_windows) array
        Row numbers in ``frames``.
    own : (n_frames,) bool array
    first_window : int
        Number of the first window among all windows of the data.
    weights : (n_windows,) array
        Over all blocks they sum to one.
    pieces : tuple of Piece
        What the block was made of.
    """

    frames: NDArray[np.floating]
    windows: IntArray
    own: NDArray[np.bool_]
    first_window: int
    weights: FloatArray
    pieces: tuple[Piece, ...]

    def place(self, row: int) -> tuple[int, int]:
        """Trajectory and frame that a row of ``frames`` comes from."""
        reach = (len(self.frames) - self.windows.shape[1]) // len(self.pieces)
        for piece in self.pieces:
            if row < piece.n_windows + reach:
                return piece.trajectory, piece.first + row
            row -= piece.n_windows + reach
        raise IndexError(f"row {row} is beyond the frames of the block")


class Source(Protocol):
    """Data as a fixed sequence of blocks."""

    @property
    def n_windows(self) -> int:
        """Number of windows in all blocks."""

    @property
    def n_frames(self) -> int:
        """Number of frames of all trajectories that have a window."""

    @property
    def horizon(self) -> int:
        """Median number of lag times that a trajectory spans."""

    @property
    def reach(self) -> int:
        """Frames from the first to the last slice of a window."""

    def parts(self, chosen: IntArray) -> IntArray:
        """Independent parts of the data that some windows, given by their numbers, belong to."""

    def first_frames(self, chosen: IntArray) -> IntArray:
        """Return the numbers, among all frames that count, of the first frames of some windows."""

    def map(self, function: Callable[..., Result], *arguments: Any) -> Iterator[Result]:
        """Yield ``function(block, *arguments)`` for all blocks, in their order."""

    def weighted(self, ratios: Callable[..., NDArray[np.floating]], *arguments: Any) -> Source:
        """Return the same data with windows weighted by `weights_of_ratios` of ``ratios(block, *arguments)``."""


def plan_blocks(lengths: Sequence[int], reach: int, size: int = BLOCK_WINDOWS) -> list[list[Piece]]:
    """Cut the windows of all trajectories into blocks of ``size``; a block may hold several short trajectories.

    Examples
    --------
    >>> [[(p.trajectory, p.first, p.n_windows) for p in block] for block in plan_blocks([5, 3], reach=1, size=3)]
    [[(0, 0, 3)], [(0, 3, 1), (1, 0, 2)]]
    """
    blocks: list[list[Piece]] = [[]]
    room = size
    for trajectory, n_windows in enumerate(window_counts(lengths, reach)):
        first = 0
        while first < n_windows:
            taken = min(room, n_windows - first)
            blocks[-1].append(Piece(trajectory, first, taken, first + taken == n_windows))
            first += taken
            room -= taken
            if room == 0:
                blocks.append([])
                room = size
    return blocks if blocks[-1] else blocks[:-1]


def cut_out(trajectories: Sequence[Any], piece: Piece, reach: int) -> Any:
    """Frames of a piece, as the trajectory gives them."""
    return trajectories[piece.trajectory][piece.first : piece.first + piece.n_windows + reach]


def joined(parts: Sequence[Any]) -> NDArray[np.floating]:
    """Frames of all pieces of a block as one array, (n_frames, n_columns).

    Always in the same layout: products, and hence labels, then do not depend on how a trajectory lies in memory.
    """
    arrays = [np.asarray(part) for part in parts]
    frames = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    return np.ascontiguousarray(frames.reshape(len(frames), -1))


def block_of_frames(
    frames: NDArray[np.floating],
    pieces: Sequence[Piece],
    lagtime: int,
    n_slices: int,
    first: int,
    weights: FloatArray,
) -> FrameBlock:
    """Lay the windows over the frames of a block; ``first`` is the number of its first window."""
    reach = (n_slices - 1) * lagtime
    starts, own, done = [], [], 0
    for piece in pieces:
        n_frames = piece.n_windows + reach
        starts.append(np.arange(done, done + piece.n_windows))
        own.append(np.arange(n_frames) < (n_frames if piece.ends else piece.n_windows))
        done += n_frames
    begin = np.concatenate(starts)
    windows = np.stack([begin + i * lagtime for i in range(n_slices)])
    return FrameBlock(frames, windows, np.concatenate(own), first, weights, tuple(pieces))


def sum_of_ratios(ratios: NDArray[np.floating]) -> float:
    """Sum of the ratios of one block."""
    return float(np.sum(ratios, dtype=np.float64))


def block_weights(ratios: NDArray[np.floating], mean: float, total: float) -> NDArray[np.float32]:
    """Weights of the windows of one block; ``total`` is the sum of the clipped ratios of all blocks."""
    return (clipped_ratios(ratios, mean) / total).astype(np.float32)


class BlockedTrajectories:
    """What all sources of trajectories share: where their blocks begin and end.

    Parameters
    ----------
    lengths : sequence of int
        Numbers of frames of the trajectories.
    lagtime, n_slices : int
        Of the windows.

    Attributes
    ----------
    lengths : list of int
        Numbers of frames; those of a trajectory too short for a window do not count.
    plan : list of lists of Piece
        What the blocks are made of.
    first_windows : list of int
        Numbers of the first windows of the blocks, and the number of all windows.
    """

    def __init__(self, lengths: Sequence[int], lagtime: int, n_slices: int) -> None:
        self.lagtime = lagtime
        self.n_slices = n_slices
        counts = window_counts(lengths, self.reach)
        self.lengths = [length if n else 0 for length, n in zip(lengths, counts, strict=True)]
        self.plan = plan_blocks(self.lengths, self.reach)
        sizes = [sum(piece.n_windows for piece in pieces) for pieces in self.plan]
        self.first_windows = np.concatenate([[0], np.cumsum(sizes)]).astype(int).tolist()

    @property
    def reach(self) -> int:
        """Frames from the first slice of a window to its last."""
        return (self.n_slices - 1) * self.lagtime

    @property
    def n_windows(self) -> int:
        """Number of windows in all blocks."""
        return int(self.first_windows[-1])

    @property
    def n_frames(self) -> int:
        """Number of frames of all trajectories that have a window."""
        return sum(self.lengths)

    @property
    def horizon(self) -> int:
        """Median number of lag times that a trajectory spans."""
        return lag_times_spanned(self.lengths, self.lagtime)

    def parts(self, chosen: IntArray) -> IntArray:
        """Independent parts of the data that some windows, given by their numbers, belong to."""
        return independent_parts(window_counts(self.lengths, self.reach), chosen)

    def first_frames(self, chosen: IntArray) -> IntArray:
        """Return the numbers, among all frames that count, of the first frames of some windows."""
        windows_before = np.concatenate([[0], np.cumsum(window_counts(self.lengths, self.reach))])
        frames_before = np.concatenate([[0], np.cumsum(self.lengths)])
        trajectory = np.searchsorted(windows_before, chosen, side="right") - 1
        return np.asarray(chosen - windows_before[trajectory] + frames_before[trajectory], dtype=np.intp)


class LocalSource(BlockedTrajectories):
    """Trajectories in this process: arrays, or anything that gives arrays when it is sliced (memory maps, HDF5, zarr).

    Parameters
    ----------
    trajectories : sequence of array-likes (n_frames, n_columns)
    lagtime, n_slices : int
        Of the windows.
    weights : (n_windows,) array, optional
        All the same by default.
    """

    def __init__(
        self,
        trajectories: Sequence[Any],
        lagtime: int,
        n_slices: int = 2,
        weights: NDArray[np.floating] | None = None,
    ) -> None:
        super().__init__([len(x) for x in trajectories], lagtime, n_slices)
        self.trajectories = trajectories
        self.weights = weights

    def map(self, function: Callable[..., Result], *arguments: Any) -> Iterator[Result]:
        """Yield ``function(block, *arguments)`` for all blocks, in their order."""
        for number in range(len(self.plan)):
            yield function(self._block(number), *arguments)

    def weighted(self, ratios: Callable[..., NDArray[np.floating]], *arguments: Any) -> LocalSource:
        """Return the same data with windows weighted by `weights_of_ratios` of ``ratios(block, *arguments)``."""
        # Sums of blocks, added in their order: wherever the blocks are, the same bits come out.
        parts = list(self.map(ratios, *arguments))
        mean = sum(sum_of_ratios(part) for part in parts) / self.n_windows
        total = sum(float(clipped_ratios(part, mean).sum()) for part in parts)
        weights = np.concatenate([block_weights(part, mean, total) for part in parts])
        return LocalSource(self.trajectories, self.lagtime, self.n_slices, weights)

    def _block(self, number: int) -> FrameBlock:
        begin, end = self.first_windows[number : number + 2]
        if self.weights is None:
            weights = np.full(end - begin, 1.0 / self.n_windows)
        else:
            weights = self.weights[begin:end].astype(np.float64)
        pieces = self.plan[number]
        frames = joined([cut_out(self.trajectories, piece, self.reach) for piece in pieces])
        return block_of_frames(frames, pieces, self.lagtime, self.n_slices, begin, weights)


def check_finite(block: FrameBlock) -> None:
    """Refuse frames that are not numbers, naming the first."""
    with np.errstate(over="ignore", invalid="ignore"):
        # A sum is finite only if all entries are: one fast pass for good data.
        if np.isfinite(block.frames.sum()) or np.isfinite(block.frames).all():
            return
    row, column = np.argwhere(~np.isfinite(block.frames))[0]
    trajectory, frame = block.place(int(row))
    raise InputError(
        f"trajectory {trajectory} holds {block.frames[row, column]} at frame {frame}, column {column}; remove or "
        "repair such frames"
    )


def sampled(block: FrameBlock, chosen: IntArray) -> tuple[NDArray[np.float64], IntArray]:
    """Frames of those windows of a block that are among ``chosen`` (sorted numbers), and the windows over them."""
    check_finite(block)
    begin, end = np.searchsorted(chosen, [block.first_window, block.first_window + block.windows.shape[1]])
    if end - begin == block.windows.shape[1]:
        return block.frames.astype(np.float64), block.windows
    windows = block.windows[:, chosen[begin:end] - block.first_window]
    rows, renumbered = np.unique(windows, return_inverse=True)
    return block.frames[rows].astype(np.float64), renumbered.reshape(windows.shape).astype(np.intp)


class SourceBlocks:
    """All windows of a source as blocks of features in double precision, computed anew in every pass."""

    def __init__(self, source: Source, feature_map: FourierMap) -> None:
        self._source = source
        self._map = feature_map

    def __iter__(self) -> Iterator[WindowBlock]:
        """Yield the blocks, always in the same order."""
        # Frames travel, not their features, which are many times larger.
        return (featurised(block, self._map) for block in self._source.map(whole_block))


def whole_block(block: FrameBlock) -> FrameBlock:
    """Return the block itself."""
    return block


def featurised(block: FrameBlock, feature_map: FourierMap) -> WindowBlock:
    """Features of a block in double precision."""
    return WindowBlock(feature_map(block.frames), block.windows, block.weights)


def sample_windows(source: Source, chosen: IntArray) -> WindowSet:
    """Bring some windows, given by their sorted numbers, into memory."""
    frames, windows, done = [], [], 0
    for part, over in source.map(sampled, chosen):
        frames.append(part)
        windows.append(over + done)
        done += len(part)
    clock = np.stack([chosen, source.first_frames(chosen)])
    every, over_all = np.concatenate(frames), np.concatenate(windows, axis=1)
    return WindowSet(every, over_all, source.horizon, source.parts(chosen), clock=clock, reach=source.reach)
