"""The trajectories of a user as one data set: checked once, and read when their frames are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError
from m3c_md.inputs.lengths import check_longest, too_short, window_counts
from m3c_md.inputs.trajectories import as_trajectory, check_columns, column_names, is_list_of_arrays

# Frames that are read at a time.
FRAMES_AT_ONCE = 16_384


@dataclass(frozen=True, eq=False)
class Dataset:
    """Trajectories with the same columns; `Dataset.of` makes one of whatever users give.

    Shapes, types and columns are checked when it is made. Frames are checked, and turned into double precision, when
    they are read.

    Attributes
    ----------
    trajectories : list of arrays (n_frames, n_columns) or (n_frames,)
        As they were given, if parts of them can be read (arrays, memory maps, h5py, zarr, Dask).
    ready : list of bool
        Which of them are arrays in double precision that were checked to the last frame.
    columns : list of str or None
        Names of the columns.
    several : bool
        Whether a list of trajectories was given, as against one.
    """

    trajectories: list[Any]
    ready: list[bool]
    columns: list[str] | None = None
    several: bool = True

    @classmethod
    def of(cls, data: Any, n_columns: int | None = None) -> Dataset:
        """Data set of an array, a table or a list of them, with ``n_columns`` if that is given.

        Anything with ``shape``, ``dtype`` and slices is left where it is; all else becomes an array here.

        Examples
        --------
        >>> Dataset.of([np.zeros((3, 2), dtype=np.float32), [[1.0, 2.0]]]).lengths
        [3, 1]
        """
        if isinstance(data, cls):
            check_columns([data.n_columns], n_columns)
            return data
        if isinstance(data, str | bytes | dict) or data is None:
            raise InputError(f"data is {data!r:.60}; give an array (n_frames, n_columns) or a list of such arrays")
        several = is_list_of_arrays(data)
        given = list(data) if several else [data]
        if not given:
            raise InputError("data is an empty list; give at least one trajectory (n_frames, n_columns)")
        ready = [not _is_sliceable(x) for x in given]
        trajectories = [
            as_trajectory(x, _name(i, several)) if whole else _checked_shape(x, _name(i, several))
            for i, (x, whole) in enumerate(zip(given, ready, strict=True))
        ]
        columns = column_names(data)
        check_columns([_width(x) for x in trajectories], n_columns)
        return cls(trajectories, ready, columns, several)

    @property
    def lengths(self) -> list[int]:
        """Numbers of frames of the trajectories."""
        return [len(x) for x in self.trajectories]

    @property
    def n_frames(self) -> int:
        """Number of all frames."""
        return sum(self.lengths)

    @property
    def n_columns(self) -> int:
        """Number of coordinates of a frame."""
        return _width(self.trajectories[0])

    def n_windows(self, reach: int) -> int:
        """Number of windows that reach so far in time (zero for single frames)."""
        return sum(window_counts(self.lengths, reach))

    def too_short(self, lagtime: int, kind: str = "") -> str:
        """Words on trajectories without a transition pair, see `m3c_md.inputs.lengths.too_short`; one must have one."""
        check_longest(self.lengths, lagtime)
        return too_short(self.lengths, lagtime, kind)

    def long(self, lagtime: int) -> Dataset:
        """Return the trajectories that have a transition pair; there must be one."""
        check_longest(self.lengths, lagtime)
        return self.chosen([i for i, n in enumerate(window_counts(self.lengths, lagtime)) if n])

    def chosen(self, numbers: Sequence[int]) -> Dataset:
        """Return some of the trajectories, given by their numbers."""
        return self._with([self.trajectories[i] for i in numbers], [self.ready[i] for i in numbers])

    def cut(self, cuts: Sequence[Sequence[int]]) -> Dataset:
        """Return pieces of the trajectories: each is cut before the frames whose numbers ``cuts`` has for it.

        Examples
        --------
        >>> Dataset.of([np.zeros((5, 1)), np.zeros((4, 1))]).cut([[2, 3], []]).lengths
        [2, 1, 2, 4]
        """
        pieces, ready = [], []
        for x, whole, inner in zip(self.trajectories, self.ready, cuts, strict=True):
            ends = [0, *inner, len(x)]
            pieces += [x[begin:end] for begin, end in pairwise(ends)]
            ready += [whole] * (len(inner) + 1)
        return self._with(pieces, ready)

    def arrays(self, reach: int = 0) -> list[FloatArray]:
        """Frames in double precision of the trajectories that have a window reaching so far; all are checked."""
        arrays = [
            x if whole else as_trajectory(x, self.name(i))
            for i, (x, whole) in enumerate(zip(self.trajectories, self.ready, strict=True))
        ]
        return [x for x, n in zip(arrays, window_counts(self.lengths, reach), strict=True) if n]

    def blocks(self, number: int, before: int = 0) -> Iterator[tuple[int, FloatArray]]:
        """Yield the frames of a trajectory in double precision, some at a time, with the number of the first of them.

        The trajectory itself begins with frame ``before``.
        """
        x = self.trajectories[number]
        for first in range(0, len(x), FRAMES_AT_ONCE):
            frames = x[first : first + FRAMES_AT_ONCE]
            if not self.ready[number]:
                frames = as_trajectory(frames, self.name(number), before + first)
            yield before + first, frames

    def shared(self) -> Dataset:
        """Return the same data, every frame checked, as other processes can be given them.

        Memory maps stay where they are. All else becomes an array in double precision: what is in memory is converted
        once and not by every process, and what lies elsewhere could not be sent.
        """
        trajectories, ready = [], []
        for i, x in enumerate(self.trajectories):
            stays = isinstance(x, np.memmap) and x.dtype != np.float64
            if stays:
                for _ in self.blocks(i):
                    pass
            trajectories.append(x if stays or self.ready[i] else as_trajectory(x, self.name(i)))
            ready.append(not stays)
        return self._with(trajectories, ready)

    def name(self, number: int) -> str:
        """Return what messages call a trajectory."""
        return _name(number, self.several)

    def _with(self, trajectories: list[Any], ready: list[bool]) -> Self:
        return replace(self, trajectories=trajectories, ready=ready, several=True)


def double_blocks(trajectory: Any) -> Iterator[FloatArray]:
    """Yield the frames of a trajectory that was checked in double precision, some at a time."""
    for first in range(0, len(trajectory), FRAMES_AT_ONCE):
        yield np.asarray(trajectory[first : first + FRAMES_AT_ONCE], dtype=np.float64)


def _name(number: int, several: bool) -> str:
    return f"trajectory {number}" if several else "data"


def _is_sliceable(data: Any) -> bool:
    """Whether ``data`` is an array that can be read in parts; DataFrames and masked arrays are not taken for one."""
    if np.ma.isMaskedArray(data) or not all(hasattr(data, name) for name in ("shape", "dtype", "__getitem__")):
        return False
    # Tables are taken whole, and what cannot be counted (sparse matrices, numbers) is refused there.
    if not hasattr(data, "__len__") or hasattr(data, "iloc") or hasattr(data, "toarray"):
        return False
    try:
        np.dtype(data.dtype)
    except TypeError:  # types of other packages, of which numpy has to make arrays
        return False
    # Dask arrays may not know how long they are before they are computed.
    return not any(n != n for n in data.shape)


def _checked_shape(data: Any, name: str) -> Any:
    """Return an array that can be read in parts, unless its shape or type is wrong."""
    if np.dtype(data.dtype).kind not in "fiub" or len(data.shape) not in (1, 2) or 0 in data.shape:
        # Raises what is wrong; data that lie elsewhere are stood for by one number, whatever their size.
        as_trajectory(
            data if isinstance(data, np.ndarray) else np.broadcast_to(np.zeros((), data.dtype), data.shape), name
        )
    return data[:, None] if isinstance(data, np.ndarray) and data.ndim == 1 else data


def _width(data: Any) -> int:
    return int(data.shape[1]) if len(data.shape) > 1 else 1
