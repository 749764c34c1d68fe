"""From blocks of frames to columns: one file, or one trajectory in memory, after the other."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mdtraj as md
import numpy as np
from deeptime.util.callbacks import ProgressCallback

from m3c_md.exceptions import TrajectoryError, TrajectoryWarning
from m3c_md.features.cache import cache_key, cached_file, read_cached, write_cached
from m3c_md.features.dihedrals import (
    Dihedrals,
    Float32Array,
    cell_vectors,
    dihedral_angles,
    first_stretched_frame,
    first_unusable_frame,
    sines_and_cosines,
)
from m3c_md.features.files import trajectory_blocks
from m3c_md.features.skeleton import Skeleton
from m3c_md.features.topology import Inspection, after_inspection
from m3c_md.inputs.dihedral_columns import DihedralColumns
from m3c_md.inputs.dihedral_names import column_names

_STRETCHED = (
    "{}, frame {}: {}, too far for a bond, so that the angles may be meaningless: either the molecule is broken across "
    "a periodic box that the file does not tell or that periodic=False ignores (make it whole first), or residues are "
    "missing in between, or the topology does not belong to the trajectory"
)


class ColumnLabels(list[str]):
    """Names of columns: a list of strings that also knows what is missing, and prints both.

    Attributes
    ----------
    missing : dict
        For each kind of angle, the residues that do not have it.

    Examples
    --------
    >>> print(ColumnLabels(["sin phi ALA 2", "cos phi ALA 2"], {"phi": ["ALA 1"]}))
    0  sin phi ALA 2
    1  cos phi ALA 2
    without phi: ALA 1
    """

    def __init__(self, labels: Iterable[str], missing: dict[str, list[str]]) -> None:
        super().__init__(labels)
        self.missing = missing

    def __str__(self) -> str:
        width = len(str(len(self) - 1))
        lines = [f"{column:>{width}}  {label}" for column, label in enumerate(self)]
        lines += [f"without {kind}: {', '.join(residues)}" for kind, residues in self.missing.items() if residues]
        return "\n".join(lines)


@dataclass(frozen=True)
class Recipe:
    """All that turns coordinates into columns; small, so that it travels to other processes."""

    dihedrals: Dihedrals
    skeleton: Skeleton
    sincos: bool
    periodic: bool
    stride: int

    @property
    def labels(self) -> ColumnLabels:
        """Names of the columns."""
        return ColumnLabels(column_names(self.dihedrals.names, sincos=self.sincos), self.dihedrals.missing)

    @property
    def dihedral_columns(self) -> DihedralColumns:
        """Columns and the atoms that they are made of."""
        found = self.dihedrals
        return DihedralColumns(found.names, found.quartets.astype(np.int64), found.atoms, self.sincos, self.periodic)

    def fingerprint(self) -> dict[str, Any]:
        """Everything here that features depend on, as JSON can write it."""
        return {
            "names": self.dihedrals.names,
            "atoms": self.dihedrals.quartets.tolist(),
            "n_atoms": self.dihedrals.n_atoms,
            "sincos": self.sincos,
            "periodic": self.periodic,
            "stride": self.stride,
        }

    def blocks(self, source: Iterable[md.Trajectory], name: str, notes: list[str]) -> Iterator[Float32Array]:
        """Features block by block. An unusable frame raises, after the frames before it have been handed out.

        So does a topology that does not fit, before anything is handed out.
        """
        inspection = Inspection(self.skeleton)
        return after_inspection(self._unchecked(source, name, notes, inspection), inspection, name, notes)

    def _unchecked(
        self, source: Iterable[md.Trajectory], name: str, notes: list[str], inspection: Inspection
    ) -> Iterator[Float32Array]:
        done = 0
        for block in source:
            first = -done % self.stride
            xyz = block.xyz[first :: self.stride]
            box: list[Any] = [None, None]
            if block.unitcell_lengths is not None and block.unitcell_angles is not None:
                box = [part[first :: self.stride] for part in (block.unitcell_lengths, block.unitcell_angles)]
            cells = cell_vectors(*box) if self.periodic and box[0] is not None else None
            geometry = dihedral_angles(xyz, self.dihedrals.quartets, cells)
            unusable = first_unusable_frame(geometry)
            if not inspection.complete:
                inspection.look(xyz if unusable is None else xyz[: unusable[0]], *box)
            angles = geometry.angles if unusable is None else geometry.angles[: unusable[0]]
            if len(angles):
                yield sines_and_cosines(angles) if self.sincos else angles
            if unusable is not None:
                raise TrajectoryError(
                    f"{name}, frame {done + first + unusable[0] * self.stride}: {unusable[1]}, so that an angle is "
                    "not defined; cut or repair the trajectory there (atoms and frames are counted from 0)"
                )
            stretched = None if notes else first_stretched_frame(geometry)
            if stretched is not None:
                notes.append(_STRETCHED.format(name, done + first + stretched[0] * self.stride, stretched[1]))
            done += len(block)


@dataclass(frozen=True)
class Reading:
    """What became of one file: its features, up to the problem if there was one, and what to warn about."""

    features: Float32Array
    problem: str | None
    notes: list[str]


def read_file(path: Path, topology: md.Topology, recipe: Recipe, chunk: int, directory: Path | None) -> Reading:
    """Features of one file, from the cache or from the file; problems are told, not raised, so that others go on."""
    n_columns = len(recipe.labels)
    key = None if directory is None else cache_key(path, recipe.fingerprint())
    kept = None if directory is None or key is None else cached_file(directory, path, key)
    cached = None if kept is None else read_cached(kept, n_columns)
    if cached is not None:
        return Reading(cached, None, [])
    blocks: list[Float32Array] = [np.empty((0, n_columns), dtype=np.float32)]
    notes: list[str] = []
    problem: str | None = None
    try:
        blocks.extend(recipe.blocks(trajectory_blocks(path, topology, chunk), str(path), notes))
    except TrajectoryError as error:
        problem = str(error)
    features = np.concatenate(blocks)
    # A file that was written to meanwhile has another key by now: what was read is neither its old nor its new state.
    if kept is not None and problem is None and cache_key(path, recipe.fingerprint()) == key:
        trouble = write_cached(kept, features)
        notes += [] if trouble is None else [trouble]
    return Reading(features, problem, notes)


def all_features(paths: Sequence[Path], readings: Sequence[Reading]) -> list[Float32Array]:
    """Columns of every file; an error that carries all that was read if some file has a problem."""
    warn_of([note for reading in readings for note in reading.notes], stacklevel=4)
    problems = [reading.problem for reading in readings if reading.problem is not None]
    if not problems:
        return [reading.features for reading in readings]
    read = {str(path): reading for path, reading in zip(paths, readings, strict=True)}
    error = TrajectoryError(
        "\n".join([*problems, f"({len(problems)} of {len(paths)} files)"] if len(paths) > 1 else problems),
        finished={name: reading.features for name, reading in read.items() if reading.problem is None},
        partial={name: reading.features for name, reading in read.items() if reading.problem and len(reading.features)},
    )
    # For those who program; the command line prints the message alone.
    error.add_note("the features that could be read are in the attributes finished and partial of this error")
    raise error


def regrouped(blocks: Iterable[Float32Array], size: int) -> Iterator[Float32Array]:
    """The same rows in arrays of ``size``; what is left comes last, also before an error."""
    waiting: list[Float32Array] = []
    n_waiting = 0
    try:
        for block in blocks:
            waiting.append(block)
            n_waiting += len(block)
            if n_waiting >= size:
                rows = np.concatenate(waiting)
                whole = len(rows) - len(rows) % size
                yield from np.split(rows[:whole], whole // size)
                waiting, n_waiting = [rows[whole:]], len(rows) - whole
    except TrajectoryError:
        if n_waiting:
            yield np.concatenate(waiting)
        raise
    if n_waiting:
        yield np.concatenate(waiting)


def counted(blocks: Iterable[Float32Array], progress: Any) -> Iterator[Float32Array]:
    """Pass blocks on, and count their rows in a progress bar."""
    if progress is None:
        yield from blocks
        return
    with ProgressCallback(progress, "frames", None) as bar:
        for block in blocks:
            bar(len(block))
            yield block


def warned_of(blocks: Iterable[Float32Array], notes: Sequence[str]) -> Iterator[Float32Array]:
    """Pass blocks on, and warn whoever asks for them of what was noticed meanwhile."""
    yield from blocks
    warn_of(notes, stacklevel=3)


def warn_of(notes: Iterable[str], stacklevel: int) -> None:
    """Turn notes into warnings; ``stacklevel`` as in `warnings.warn`, seen from here."""
    for note in notes:
        warnings.warn(note, TrajectoryWarning, stacklevel=stacklevel)
