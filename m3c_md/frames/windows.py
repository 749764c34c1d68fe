"""Windows over trajectories: which frames must share a label, and the same windows as blocks of features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.exceptions import InputError
from m3c_md.frames.parts import independent_parts
from m3c_md.inputs.lengths import window_counts
from m3c_md.optimize.blocks import Rule, WindowBlock, distinct_frames
from m3c_md.optimize.feature_map import FourierMap

# Windows per block: large enough for the matrix products, small enough for the caches.
BLOCK_SIZE = 8192
# Features are kept in memory up to this size and recomputed in every pass beyond it.
FEATURE_CACHE_BYTES = 500_000_000


@dataclass(frozen=True)
class WindowSet:
    """Frames of all trajectories and the windows over them.

    Attributes
    ----------
    frames : (n_frames, n_columns) array
    windows : (n_slices, n_windows) array
        Frame numbers; a window never crosses from one trajectory to another.
    horizon : int
        Median number of lag times that a trajectory spans.
    parts : (n_windows,) array
        Independent part of the data that each window belongs to, see `independent_parts`.
    lengths : tuple of int
        Numbers of frames of the trajectories, in the order of the frames; empty if they are not known.
    clock : (2, n_windows) array, optional
        Number of every window, and of its first frame, among all those of the data that the windows are a sample of;
        None if it is not known how they follow each other.
    reach : int
        Frames from the first to the last slice of a window.
    """

    frames: FloatArray
    windows: IntArray
    horizon: int
    parts: IntArray
    lengths: tuple[int, ...] = ()
    clock: IntArray | None = None
    reach: int = 0

    def later(self, n_reaches: int) -> tuple[IntArray, IntArray, int] | None:
        """Pairs of frames of one trajectory that are about ``n_reaches`` times the reach of a window apart.

        Returns the first and the second frame of the pairs, and how many frames they are apart in the median; None
        where that is not known. A thin sample has no closer pairs than its windows are apart.
        """
        pairs = self.later_windows(n_reaches, np.arange(self.n_windows))
        if pairs is None:
            return None
        first, second, apart = pairs
        return self.windows[0, first], self.windows[-1, second], apart

    def later_windows(self, n_reaches: int, chosen: IntArray) -> tuple[IntArray, IntArray, int] | None:
        """Pairs of chosen windows of one trajectory whose ends are about ``n_reaches`` times their reach apart.

        Returns the places of both windows among the chosen ones, which are in the order of time, and how many frames
        lie between the first frame of the one and the last frame of the other, in the median; None where that is not
        known.
        """
        if self.clock is None or self.reach == 0 or len(chosen) < 2:
            return None
        numbers, first_frames = self.clock[:, chosen]
        spacing = max(1.0, float(np.median(np.diff(numbers))))
        step = max(1, round((n_reaches - 1) * self.reach / spacing))
        if step >= len(chosen):
            return None
        apart = numbers[step:] - numbers[:-step]
        # From one trajectory to the next there are more frames than windows.
        inside = np.flatnonzero(first_frames[step:] - first_frames[:-step] == apart)
        if not len(inside):
            return None
        return inside, inside + step, int(np.median(apart[inside])) + self.reach

    @property
    def n_windows(self) -> int:
        """Number of windows N."""
        return int(self.windows.shape[1])


def windows_of_trajectories(trajectories: Sequence[FloatArray], lagtime: int, n_slices: int = 2) -> WindowSet:
    """Collect all windows (x_t, x_{t+lag}, ...) of each trajectory (the set P of the paper for n_slices = 2).

    Examples
    --------
    >>> import numpy as np
    >>> windows_of_trajectories([np.zeros((3, 1)), np.zeros((2, 1))], lagtime=1).windows.tolist()
    [[0, 1, 3], [1, 2, 4]]
    """
    lengths = [len(x) for x in trajectories]
    counts = window_counts(lengths, (n_slices - 1) * lagtime)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    first = np.concatenate([np.arange(s, s + n) for s, n in zip(starts, counts, strict=True)]).astype(np.intp)
    windows = np.stack([first + i * lagtime for i in range(n_slices)])
    horizon = lag_times_spanned([length if n else 0 for length, n in zip(lengths, counts, strict=True)], lagtime)
    parts = independent_parts(counts, np.arange(windows.shape[1]))
    clock = np.stack([np.arange(windows.shape[1]), first])
    reach = (n_slices - 1) * lagtime
    return WindowSet(np.concatenate(trajectories), windows, horizon, parts, tuple(lengths), clock, reach)


def lag_times_spanned(lengths: Sequence[int], lagtime: int) -> int:
    """Median number of lag times that a trajectory spans, zero if there is none; lengths of zero do not count.

    Examples
    --------
    >>> lag_times_spanned([20, 0, 31], lagtime=5)
    5
    """
    used = [length for length in lengths if length]
    return max(1, int(np.median(used)) // lagtime) if used else 0


def windows_of_pairs(first: FloatArray, second: FloatArray) -> WindowSet:
    """Windows of time-lagged pairs (X, Y) whose trajectories are not known."""
    n = len(first)
    windows = np.stack([np.arange(n), np.arange(n, 2 * n)])
    return WindowSet(np.concatenate([first, second]), windows, 1, independent_parts([n], np.arange(n)))


def equally_spaced(n_available: int, n_wanted: int) -> IntArray:
    """Choose ``n_wanted`` of ``n_available`` indices, equally spaced in time.

    Examples
    --------
    >>> equally_spaced(10, 4).tolist()
    [1, 3, 6, 8]
    """
    if n_wanted >= n_available:
        return np.arange(n_available)
    return ((np.arange(n_wanted) + 0.5) * (n_available / n_wanted)).astype(np.intp)


class FeatureBlocks:
    """The windows of a `WindowSet` (or some of them) as blocks of features; can be iterated again and again.

    Parameters
    ----------
    data : WindowSet
    feature_map : FourierMap
    weights : (n_windows,) array
        Weights of the chosen windows; normalised here.
    chosen : index array, optional
        Which windows; all by default.
    dtype : float64 or float32
        Precision of the features.
    """

    def __init__(
        self,
        data: WindowSet,
        feature_map: FourierMap,
        weights: FloatArray,
        chosen: IntArray | None = None,
        dtype: type[np.floating] = np.float64,
    ) -> None:
        self._frames = data.frames
        self._map = feature_map
        self._dtype = dtype
        windows = data.windows if chosen is None else data.windows[:, chosen]
        total = float(weights.sum())
        if not 0.0 < total < np.inf:
            raise InputError(f"the weights of {len(weights)} windows sum to {total}; some must be positive, all finite")
        self.weights = weights / weights.sum()
        self._parts = [
            distinct_frames(windows[:, start : start + BLOCK_SIZE]) for start in range(0, windows.shape[1], BLOCK_SIZE)
        ]
        n_rows = sum(len(frames) for frames, _ in self._parts)
        keep = n_rows * feature_map.n_features * np.dtype(dtype).itemsize <= FEATURE_CACHE_BYTES
        self._cache = [self._map(self._frames[frames], dtype) for frames, _ in self._parts] if keep else None

    def with_weights(self, weights: FloatArray) -> FeatureBlocks:
        """Return the same blocks, features and all, with other weights of the windows, as they are."""
        other = copy(self)
        other.weights = weights
        return other

    def __iter__(self) -> Iterator[WindowBlock]:
        """Yield the blocks, always in the same order."""
        done = 0
        for number, (frames, windows) in enumerate(self._parts):
            n = windows.shape[1]
            features = self._map(self._frames[frames], self._dtype) if self._cache is None else self._cache[number]
            yield WindowBlock(features, windows, self.weights[done : done + n])
            done += n

    def slice_states(self, rule: Rule) -> IntArray:
        """State of every slice of every window under ``rule``, (n_slices, n_windows)."""
        return np.concatenate([rule.scores(b.features).argmax(axis=0)[b.windows] for b in self], axis=1)
