"""Frames that centres are sought among: all of them in memory or, where they are many, a sample, and blocks of all.

`PCCAPlus` and `KMedoids` seek their centres among a few thousand frames in any case. What needs all frames (counts,
populations, scatter) is a sum over blocks, which are read one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.clustering.centers import nearest_center, order_by_population, ordered_states
from m3c_md.clustering.state_model import StateModel
from m3c_md.clustering.training_data import LaggedPair, Note, short_notes, single_frames, transition_pairs
from m3c_md.clustering.visits import VisitCounts, visits_of_source, visits_of_windows
from m3c_md.frames.source import FrameBlock, LocalSource, check_finite, sample_windows
from m3c_md.frames.windows import WindowSet, equally_spaced
from m3c_md.inputs.dataset import Dataset
from m3c_md.partitions.nearest import Clustering, assign

# Numbers, frames times columns, up to which all frames are brought into memory: 0.4 GB in double precision, and as much
# again for their scaled copy.
MOST_NUMBERS = 50_000_000
# Windows of the sample beyond: ten times as many as k-means looks at, so that rare frames have their part in it.
SAMPLED_WINDOWS = 100_000


@dataclass(frozen=True)
class CellCounts:
    """Transitions between cells, and frames of each of them."""

    transitions: FloatArray
    frames: NDArray[np.int64]


@dataclass(frozen=True)
class FramesInMemory:
    """All frames; ``windows`` are those of the fit."""

    windows: WindowSet

    @property
    def n_frames(self) -> int:
        """Number of all frames."""
        return len(self.windows.frames)

    def counts(self, found: Clustering, scale: FloatArray) -> CellCounts:
        """Count all frames and windows in the cells of a clustering of the scaled frames."""
        del scale  # the clustering has the labels of all frames already
        return _counts(found.labels, self.windows.windows, found.labels, len(found.centers))

    def scatter(self, found: Clustering, scale: FloatArray) -> float:
        """Sum over all frames of the scaled distance to the nearest centre."""
        del scale
        return found.inertia

    def ordered(
        self, centers: FloatArray, scale: FloatArray, states: IntArray, n_states: int
    ) -> tuple[IntArray, FloatArray]:
        """Order of the states by falling population, and the populations in that order."""
        return ordered_states(self.windows.frames, centers, scale, states, n_states)

    def visits(self, model: StateModel) -> VisitCounts:
        """Visits of all frames under a model."""
        return visits_of_windows(model, self.windows)


@dataclass(frozen=True)
class FramesInBlocks:
    """A sample of the windows, and all data in blocks."""

    windows: WindowSet
    source: LocalSource

    @property
    def n_frames(self) -> int:
        """Number of all frames."""
        return self.source.n_frames

    def counts(self, found: Clustering, scale: FloatArray) -> CellCounts:
        """Count all frames and windows in the cells of a clustering of the scaled frames."""
        parts = list(self.source.map(_counts_of_block, found.centers, scale))
        return CellCounts(sum(part.transitions for part in parts), sum(part.frames for part in parts))  # type: ignore[arg-type]

    def scatter(self, found: Clustering, scale: FloatArray) -> float:
        """Sum over all frames of the scaled distance to the nearest centre."""
        return sum(self.source.map(_scatter_of_block, found.centers, scale))

    def ordered(
        self, centers: FloatArray, scale: FloatArray, states: IntArray, n_states: int
    ) -> tuple[IntArray, FloatArray]:
        """Order of the states by falling population, and the populations in that order."""

        def counted(numbered: IntArray) -> IntArray:
            parts = self.source.map(_states_of_block, centers, scale, numbered, n_states)
            return np.asarray(np.sum(list(parts), axis=0), dtype=np.intp)

        return order_by_population(counted, states, n_states)

    def visits(self, model: StateModel) -> VisitCounts:
        """Visits of all frames under a model."""
        return visits_of_source(model, self.source)


TrainingFrames = FramesInMemory | FramesInBlocks


def training_frames(data: Dataset | LaggedPair, lagtime: int) -> tuple[TrainingFrames, list[Note]]:
    """Frames of a fit to transition pairs (to single frames if ``lagtime`` is 0), and what there is to say of them.

    Pairs (X, Y) are in memory however many they are.
    """
    if isinstance(data, Dataset) and data.n_frames * data.n_columns > MOST_NUMBERS:
        notes = short_notes(data, lagtime) if lagtime else []
        source = LocalSource(data.trajectories, max(lagtime, 1), n_slices=2 if lagtime else 1)
        chosen = equally_spaced(source.n_windows, SAMPLED_WINDOWS)
        return FramesInBlocks(sample_windows(source, chosen), source), notes
    if not lagtime:
        return FramesInMemory(single_frames(data)), []
    windows, notes = transition_pairs(data, lagtime)
    return FramesInMemory(windows), notes


def _counts(cells: IntArray, windows: IntArray, counted: IntArray, n_cells: int) -> CellCounts:
    """Transitions of windows over frames in some cells, and how many frames to count are in each of these."""
    pairs = cells[windows[0]] * n_cells + cells[windows[-1]]
    transitions = np.bincount(pairs, minlength=n_cells * n_cells).reshape(n_cells, n_cells).astype(np.float64)
    return CellCounts(transitions, np.bincount(counted, minlength=n_cells))


def _scaled(block: FrameBlock, scale: FloatArray) -> FloatArray:
    """Frames of a block in double precision, divided by the scale."""
    check_finite(block)
    return np.asarray(block.frames, dtype=np.float64) / scale


def _counts_of_block(block: FrameBlock, centers: FloatArray, scale: FloatArray) -> CellCounts:
    cells = assign(_scaled(block, scale), centers)
    return _counts(cells, block.windows, cells[block.own], len(centers))


def _scatter_of_block(block: FrameBlock, centers: FloatArray, scale: FloatArray) -> float:
    points = _scaled(block, scale)[block.own]
    return float(np.linalg.norm(points - centers[assign(points, centers)], axis=1).sum())


def _states_of_block(
    block: FrameBlock, centers: FloatArray, scale: FloatArray, states: IntArray, n_states: int
) -> IntArray:
    """Numbers of the frames of a block in each state."""
    frames = np.asarray(block.frames[block.own], dtype=np.float64)
    return np.bincount(states[nearest_center(frames, centers, scale, states)], minlength=n_states)
