"""Trajectory files: which ones are meant, their topology, and their frames in blocks that memory can hold."""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
import shutil
import struct
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mdtraj as md
import numpy as np

from m3c_md.exceptions import InputError, TrajectoryError
from m3c_md.features.dihedrals import select_atoms

# Formats that mdtraj reads piece by piece; all others are read as a whole.
_STREAMED = {
    *(".xtc", ".trr", ".dcd", ".dtr", ".nc", ".ncdf", ".netcdf", ".mdcrd", ".crd", ".lammpstrj", ".xyz", ".xyz.gz"),
    *(".h5", ".hdf5", ".lh5", ".arc"),
}
# Formats that say which atoms they hold, so that no other file is needed.
_WITH_TOPOLOGY = {
    *(".h5", ".hdf5", ".lh5", ".gro", ".arc", ".pdb", ".pdb.gz", ".gsd", ".mol2", ".hoomdxml"),
    *(".cif", ".cif.gz", ".mmcif", ".mmcif.gz", ".pdbx", ".pdbx.gz"),
}
# Coordinates of one block take this many bytes or less: large enough that mdtraj's overhead per call does not count,
# and for the atoms of a dihedral alone mdtraj would need more time (it copies them frame by frame) and no less memory.
_BLOCK_BYTES = 2**24
# Larger by this factor for files with a topology, which mdtraj builds anew for each block.
_WITH_TOPOLOGY_FACTOR = 16


def trajectory_files(files: Any) -> list[Path]:
    """Turn a name, a pattern, or a list of them into the list of files that they stand for.

    The files of a pattern come in natural order ("run2.xtc" before "run10.xtc").

    Parameters
    ----------
    files : str, path, or sequence of them
        ``*``, ``?``, ``[...]`` and ``**`` have their usual meaning, unless a file of that very name exists.

    Examples
    --------
    >>> trajectory_files("no/such/*.xtc")
    Traceback (most recent call last):
    m3c_md.exceptions.InputError: no file matches 'no/such/*.xtc'; check the folder and the ending
    """
    names = [files] if isinstance(files, str | os.PathLike) else files
    if not isinstance(names, Sequence) or not all(isinstance(name, str | os.PathLike) for name in names):
        raise InputError(f"files={files!r:.60} must be a file name, a pattern, or a list of them")
    if len(names) == 0:
        raise InputError("files is an empty list; name at least one trajectory file")
    found = [path for name in names for path in _matches(os.fspath(name))]
    seen: set[Path] = set()
    for path in found:
        if path.resolve() in seen:
            raise InputError(f"{path} is named twice, and its frames would count twice; name each file once")
        seen.add(path.resolve())
    return found


def _matches(name: str) -> list[Path]:
    if os.path.exists(name):
        return [Path(name)]
    if not glob.has_magic(name):
        raise InputError(f"there is no file {name!r} (looked in {Path.cwd()}); check its name and folder")
    matches = sorted(glob.glob(name, recursive=True), key=_natural_order)
    if not matches:
        raise InputError(f"no file matches {name!r}; check the folder and the ending")
    return [Path(match) for match in matches]


def _natural_order(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def read_topology(top: Any, files: Sequence[Path] = (), atoms: Any = None) -> md.Topology:
    """Find out which atoms the frames consist of.

    Parameters
    ----------
    top : path, mdtraj.Topology, mdtraj.Trajectory or None
        None takes the topology from the first of ``files``, if that is of a format that has one.
    files : sequence of paths, optional
    atoms : str or indices, optional
        Which atoms of ``top`` the files contain, if not all: a selection string of mdtraj, or rising indices.

    Examples
    --------
    >>> read_topology(md.Topology()).n_atoms
    0
    """
    if top is None:
        if not files:
            raise InputError("top is missing; give a topology file, an mdtraj.Topology or an mdtraj.Trajectory")
        top = files[0]
        if extension_of(top) not in _WITH_TOPOLOGY:
            raise InputError(
                f"top is missing, and files like {top} do not say which atoms they hold; give top=, e.g. the PDB file "
                "that the simulation started from"
            )
    if isinstance(top, md.Trajectory):
        top = top.topology
    if isinstance(top, str | os.PathLike):
        top = _topology_of_file(Path(top))
    if not isinstance(top, md.Topology):
        raise InputError(f"top={top!r:.60} must be a topology file, an mdtraj.Topology or an mdtraj.Trajectory")
    return top if atoms is None else top.subset(_atom_indices(top, atoms))


def _topology_of_file(path: Path) -> md.Topology:
    if not os.path.exists(path):  # False also for names that cannot be
        raise InputError(f"there is no topology file {str(path)!r} (looked in {Path.cwd()}); check its name and folder")
    try:
        if extension_of(path) == ".hdf5":  # md.load_topology knows .h5 only
            return md.load_frame(str(path), 0).topology
        return md.load_topology(str(path))
    except Exception as error:  # mdtraj's parsers raise errors of any type, Exception itself included
        raise InputError(
            f"no topology can be read from {path} ({type(error).__name__}: {_shortened(error)}); give a PDB, GRO, "
            "PRMTOP, PSF or HDF5 file, or an mdtraj.Topology"
        ) from error


def _atom_indices(topology: md.Topology, atoms: Any) -> Any:
    if isinstance(atoms, str):
        return select_atoms(topology, atoms, "atoms")
    indices = np.asarray(atoms)
    if indices.ndim != 1 or indices.dtype.kind not in "iu" or len(indices) == 0:
        raise InputError(f"atoms={atoms!r:.60} must be a selection string of mdtraj or a list of atom indices")
    if np.any(np.diff(indices) <= 0) or indices[0] < 0 or indices[-1] >= topology.n_atoms:
        raise InputError(
            f"atoms={atoms!r:.60} must rise from atom to atom, each from 0 to {topology.n_atoms - 1}: mdtraj keeps "
            "atoms in the order of the topology"
        )
    return indices


def extension_of(path: Any) -> str:
    """Ending of a file name as mdtraj reads it: with the format inside, if it is compressed.

    Examples
    --------
    >>> extension_of("a.pdb.gz"), extension_of("b.xtc")
    ('.pdb.gz', '.xtc')
    """
    base, extension = os.path.splitext(str(path))
    return os.path.splitext(base)[1] + extension if extension == ".gz" else extension


@contextlib.contextmanager
def plain_path(path: Path) -> Iterator[str]:
    """Name of a file in letters that all readers of mdtraj know: some take ASCII only, and get a link instead."""
    if str(path).isascii():
        yield str(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder) / f"file{extension_of(path)}"
        try:
            link.symlink_to(path.resolve())
        except OSError:  # not every system allows links
            shutil.copyfile(path, link)
        yield str(link)


def trajectory_blocks(path: Path, topology: md.Topology, chunk: int) -> Iterator[md.Trajectory]:
    """Read the frames of a file in blocks, each of ``chunk`` frames or less and never large in memory.

    A file that turns out to be damaged yields all frames before the damage, and then raises.

    Parameters
    ----------
    path : Path
    topology : mdtraj.Topology
        Of the atoms in the file.
    chunk : int

    Raises
    ------
    TrajectoryError
        That names the file and the frame.
    """
    n_bytes = _BLOCK_BYTES * (_WITH_TOPOLOGY_FACTOR if extension_of(path) in _WITH_TOPOLOGY else 1)
    size = max(1, min(chunk, n_bytes // (12 * max(topology.n_atoms, 1))))
    done = 0
    damage: Exception | None = None
    try:
        for block in _stream(path, topology, itertools.repeat(size)):
            yield block
            done += len(block)
    except Exception as error:  # mdtraj's readers raise errors of any type, Exception itself included
        damage = error
    if damage is not None:
        # The block that failed may begin with good frames: read it again, frame by frame.
        try:
            again = itertools.chain(itertools.repeat(size, done // size), itertools.repeat(1))
            for block in itertools.islice(_stream(path, topology, again), done // size, None):
                yield block
                done += len(block)
        except Exception as error:
            damage = error
        raise TrajectoryError(_damage_message(path, topology, done, damage)) from damage
    if done == 0:
        raise TrajectoryError(f"{path} holds no frames; leave it out, or write it again")
    promised = _frames_promised(path)
    if promised > done:
        raise TrajectoryError(
            f"{path} is truncated: its header promises {promised} frames, but only {done} are complete; write it "
            "again, or go on with the frames before the damage (partial of this error)"
        )


def _stream(path: Path, topology: md.Topology, sizes: Iterable[int]) -> Iterator[md.Trajectory]:
    """Blocks of frames with the numbers of frames asked for; the last may be shorter."""
    with plain_path(path) as name:
        yield from _stream_file(name, extension_of(path), topology, sizes)


def _stream_file(name: str, extension: str, topology: md.Topology, sizes: Iterable[int]) -> Iterator[md.Trajectory]:
    own = extension in _WITH_TOPOLOGY
    if extension not in _STREAMED:
        whole = md.load(name) if own else md.load(name, top=topology)
        _check_atoms(whole.topology, topology)
        start = 0
        for size in sizes:
            if start >= len(whole):
                return
            yield whole[start : start + size]
            start += size
        return
    options = {"n_atoms": topology.n_atoms} if extension in (".mdcrd", ".crd") else {}
    checked = False
    with md.open(name, **options) as handle:
        for size in sizes:
            # No stride here: for some formats n_frames counts frames before it is applied, for others after.
            block = handle.read_as_traj(n_frames=size) if own else handle.read_as_traj(topology, n_frames=size)
            if len(block) == 0:
                return
            if not checked:
                _check_atoms(block.topology, topology)
                checked = True
            yield block


def _check_atoms(found: md.Topology, wanted: md.Topology) -> None:
    """Compare the atoms that a file says it holds with those that it should hold."""
    if found is wanted:
        return
    if found.n_atoms != wanted.n_atoms:
        raise ValueError(f"it has {found.n_atoms} atoms, and the topology {wanted.n_atoms}")
    for ours, theirs in zip(wanted.atoms, found.atoms, strict=True):
        if ours.name != theirs.name:  # residues are named HIS or HIE by taste
            raise ValueError(f"its atom {theirs.index} is {theirs}, and that of the topology {ours}")


def _damage_message(path: Path, topology: md.Topology, done: int, damage: Exception) -> str:
    if isinstance(damage, ImportError):
        return (
            f"{path} cannot be read, because mdtraj needs another package for its format; install it, e.g. by "
            f"'pip install tables' for HDF5 files ({_shortened(damage)})"
        )
    if done:
        return (
            f"{path} is damaged or truncated: it can be read up to frame {done - 1} ({done} frames), and then mdtraj "
            f"says {_shortened(damage)!r}; write it again, or go on with the frames before the damage (partial of this "
            "error)"
        )
    n_atoms = _atoms_of(path, topology)
    if n_atoms not in (None, topology.n_atoms):
        return (
            f"{path} has {n_atoms} atoms in a frame, but the topology has {topology.n_atoms}; give the topology that "
            "the file was written with, or say by atoms= which atoms of the topology it contains"
        )
    return (
        f"{path} cannot be read from its first frame on ({type(damage).__name__}: {_shortened(damage)}); check that it "
        "is a trajectory of the format that its ending says, and that it belongs to the topology"
    )


def _atoms_of(path: Path, topology: md.Topology) -> int | None:
    """Number of atoms in the first frame, if that can be found out whatever the topology says."""
    try:
        if extension_of(path) in _WITH_TOPOLOGY:
            return int(_topology_of_file(path).n_atoms)
        options = {"n_atoms": topology.n_atoms} if extension_of(path) in (".mdcrd", ".crd") else {}
        with plain_path(path) as name, md.open(name, **options) as handle:
            frame = handle.read(n_frames=1)
        return int((frame[0] if isinstance(frame, tuple) else frame).shape[1])
    except Exception:  # then the first error is all that there is to tell
        return None


def _frames_promised(path: Path) -> int:
    """Number of frames in the header of a DCD file, which mdtraj replaces by what it finds; 0 if not known."""
    if extension_of(path) != ".dcd":
        return 0
    with path.open("rb") as file:
        head = file.read(12)
    for order in "<>":
        size, magic, n_frames = struct.unpack(f"{order}i4si", head)
        if size == 84 and magic == b"CORD":
            return int(n_frames)
    return 0


def _shortened(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:160] if lines else type(error).__name__
