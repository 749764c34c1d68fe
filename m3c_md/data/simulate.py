"""Runs of molecular dynamics that a stop does not harm: frames are written in chunks, and a run goes on where it was.

Every chunk starts from the saved end of the one before, in a new context and with a random seed that depends on the
base seed, the trajectory and the chunk only. A run that was killed therefore goes on with the same command as if
nothing had happened, loses at most one chunk of each trajectory, and ends in the same bytes.

Files of a run::

    settings.json             what was run; a resumed run must agree with it
    topology.pdb              minimised first start structure
    traj_00.xtc               coordinates, one file per finished trajectory
    traj_00_dihedrals.npy     float32, radians, in the order of `m3c_md.DihedralFeaturizer`
    parts_00/                 chunks (XTC) and checkpoint of a trajectory that is being made

The folders of the package's own data are such runs, from which most coordinates were left out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import shutil
import signal
import tempfile
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from m3c_md.data.dynamics import (
    PhaseSpacePoint,
    Settings,
    chunk_seed,
    make_system,
    minimise,
    run_chunk,
    start_point,
)
from m3c_md.data.peptides import Positions, build_peptide, check_chirality
from m3c_md.disk import writing

if TYPE_CHECKING:
    import openmm
    from openmm import app

SETTINGS, TOPOLOGY = "settings.json", "topology.pdb"


def simulate(
    settings: Settings,
    n_trajectories: int,
    folder: Path,
    *,
    n_jobs: int = 1,
    progress: Callable[..., Any] | None = None,
) -> None:
    """Run trajectories ``0, ..., n_trajectories - 1`` to their end; what is finished is not repeated.

    Parameters
    ----------
    settings : Settings
        For example ``dataclasses.replace(DEFAULTS["alanine-dipeptide"], n_frames=1000)``.
    n_trajectories : int
    folder : Path
        Made if it is not there; a run with the same settings that is in it goes on.
    n_jobs : int
        Processes over which trajectories are spread; the frames do not depend on it.
    progress : optional
        A progress bar class such as ``tqdm.tqdm``; it counts frames.
    """
    folder.mkdir(parents=True, exist_ok=True)
    check_settings(folder, settings)
    if not (folder / TOPOLOGY).exists():
        write_topology(folder / TOPOLOGY, settings)
    total = n_trajectories * settings.n_frames
    done = {trajectory: frames_done(folder, settings, trajectory) for trajectory in range(n_trajectories)}
    waiting = [trajectory for trajectory in done if not dihedrals_path(folder, trajectory).exists()]
    bar = progress(total=total, initial=sum(done.values()), unit=" frames") if progress is not None else None

    def advanced(trajectory: int, n_frames: int) -> bool:
        """Take note of a finished chunk; tell whether the trajectory is finished too."""
        if bar is not None:
            bar.update(n_frames - done[trajectory])
        done[trajectory] = n_frames
        return dihedrals_path(folder, trajectory).exists()

    try:
        if n_jobs == 1:
            for trajectory in waiting:
                while not advanced(trajectory, advance(folder, settings, trajectory)):
                    pass
        else:
            _advance_in_parallel(folder, settings, waiting, n_jobs, advanced)
    finally:
        if bar is not None:
            bar.close()


def _advance_in_parallel(
    folder: Path, settings: Settings, waiting: list[int], n_jobs: int, advanced: Callable[[int, int], bool]
) -> None:
    """Keep ``n_jobs`` processes busy with the next chunks of as many trajectories."""
    # A worker dies at once on Ctrl-C, without a traceback: all that it loses is its chunk.
    with ProcessPoolExecutor(
        n_jobs, mp_context=get_context("spawn"), initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_DFL)
    ) as pool:
        running: dict[Future[int], int] = {}
        queue = list(waiting)
        while queue or running:
            while queue and len(running) < n_jobs:
                trajectory = queue.pop(0)
                running[pool.submit(advance, folder, settings, trajectory)] = trajectory
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                trajectory = running.pop(future)
                if not advanced(trajectory, future.result()):
                    queue.insert(0, trajectory)


def advance(folder: Path, settings: Settings, trajectory: int) -> int:
    """Run the next chunk of a trajectory, join its chunks if that was the last one; return how many frames it has."""
    parts = parts_path(folder, trajectory)
    parts.mkdir(exist_ok=True)
    system, starts = prepared(settings)
    checkpoint = parts / "checkpoint.npz"
    if checkpoint.exists():
        chunk, point = read_checkpoint(checkpoint)
    else:
        start = starts[settings.starts[trajectory % len(settings.starts)]]
        chunk, point = 0, start_point(system, settings, start, trajectory)
        write_checkpoint(checkpoint, chunk, point)
    n_chunks = math.ceil(settings.n_frames / settings.chunk_frames)
    if chunk < n_chunks:
        first = chunk * settings.chunk_frames
        n_frames = min(settings.chunk_frames, settings.n_frames - first)
        frames, point = run_chunk(system, settings, point, n_frames, chunk_seed(settings, trajectory, chunk + 1))
        # In this order: a stop between the two repeats the chunk and writes the same file again.
        write_xtc(parts / f"{chunk:05d}.xtc", frames, first, settings)
        chunk += 1
        write_checkpoint(checkpoint, chunk, point)
    if chunk == n_chunks:
        finish_trajectory(settings, folder, trajectory)
    return min(chunk * settings.chunk_frames, settings.n_frames)


def finish_trajectory(settings: Settings, folder: Path, trajectory: int) -> None:
    """Join the chunks of a trajectory, compute its angles from what was saved, remove the chunks."""
    import mdtraj

    from m3c_md.features import DihedralFeaturizer
    from m3c_md.features.files import plain_path

    parts = parts_path(folder, trajectory)
    topology = mdtraj.load_topology(str(folder / TOPOLOGY))
    chunks = []
    for path in sorted(parts.glob("[0-9]*.xtc")):
        with plain_path(path) as name:
            chunks.append(mdtraj.load(name, top=topology))
    joined = mdtraj.join(chunks)
    if joined.n_frames != settings.n_frames:
        raise ValueError(f"{parts} holds {joined.n_frames} frames, not {settings.n_frames}; remove it and run again")
    write_xtc(folder / f"traj_{trajectory:02d}.xtc", joined.xyz, 0, settings)
    with writing_file(dihedrals_path(folder, trajectory)) as temporary:
        np.save(temporary, DihedralFeaturizer(sincos=False, periodic=False).transform(joined))
    shutil.rmtree(parts)


@functools.lru_cache(maxsize=1)
def prepared(settings: Settings) -> tuple[openmm.System, dict[str, Positions]]:
    """Make the system, and the minimised start structures by their names; once in every process."""
    starts = {}
    for name in settings.starts:
        topology, positions = build_peptide(settings.n_alanines, settings.capped, name)
        system = make_system(topology)
        starts[name] = minimise(system, settings, positions)
        check_chirality(topology, starts[name])
    return system, starts


# --- files -------------------------------------------------------------------------------------------------------


def writing_file(path: Path) -> contextlib.AbstractContextManager[Path]:
    """Write by way of a temporary file, always of the same name: what a killed run leaves is used up by the next."""
    return writing(path, path.name, temporary=path.with_name(f"writing_{path.name}"))


def parts_path(folder: Path, trajectory: int) -> Path:
    """Folder of the chunks of an unfinished trajectory."""
    return folder / f"parts_{trajectory:02d}"


def dihedrals_path(folder: Path, trajectory: int) -> Path:
    """File that is written last: a trajectory that has it is finished."""
    return folder / f"traj_{trajectory:02d}_dihedrals.npy"


def frames_done(folder: Path, settings: Settings, trajectory: int) -> int:
    """Count the frames of a trajectory that need not be run any more."""
    if dihedrals_path(folder, trajectory).exists():
        shutil.rmtree(parts_path(folder, trajectory), ignore_errors=True)  # from a stop in the very last moment
        return settings.n_frames
    checkpoint = parts_path(folder, trajectory) / "checkpoint.npz"
    n_chunks = read_checkpoint(checkpoint)[0] if checkpoint.exists() else 0
    return min(n_chunks * settings.chunk_frames, settings.n_frames)


def write_xtc(path: Path, frames: npt.NDArray[np.float32], first_frame: int, settings: Settings) -> None:
    """Write frames by way of a temporary file, so that the name never shows half a file.

    Frame ``i`` of a trajectory has time ``i * spacing``.
    """
    numbers = np.arange(first_frame, first_frame + len(frames), dtype=np.int32)
    times = (numbers * settings.spacing).astype(np.float32)
    with writing_file(path) as temporary:
        if str(temporary).isascii():
            _write_xtc(temporary, frames, times, numbers * settings.steps_per_frame)
        else:  # mdtraj's XTC files know ASCII paths only
            with tempfile.TemporaryDirectory() as elsewhere:
                _write_xtc(Path(elsewhere) / "frames.xtc", frames, times, numbers * settings.steps_per_frame)
                shutil.copyfile(Path(elsewhere) / "frames.xtc", temporary)


def _write_xtc(
    path: Path, frames: npt.NDArray[np.float32], times: npt.NDArray[np.float32], steps: npt.NDArray[np.int32]
) -> None:
    from mdtraj.formats import XTCTrajectoryFile

    with XTCTrajectoryFile(str(path), "w") as file:
        file.write(frames, time=times, step=steps)


def write_topology(path: Path, settings: Settings) -> None:
    """Write the minimised first start structure as PDB."""
    from openmm import app

    start = settings.starts[0]
    topology: app.Topology = build_peptide(settings.n_alanines, settings.capped, start)[0]
    positions = prepared(settings)[1][start] * 10.0
    with writing_file(path) as temporary, temporary.open("w") as file:
        app.PDBFile.writeFile(topology, positions, file)


def write_checkpoint(path: Path, n_chunks: int, point: PhaseSpacePoint) -> None:
    """Save the end of chunk ``n_chunks``."""
    with writing_file(path) as temporary:
        np.savez(temporary, n_chunks=n_chunks, positions=point.positions, velocities=point.velocities)


def read_checkpoint(path: Path) -> tuple[int, PhaseSpacePoint]:
    """Read what `write_checkpoint` wrote."""
    with np.load(path, allow_pickle=False) as file:
        return int(file["n_chunks"]), PhaseSpacePoint(file["positions"], file["velocities"])


def read_settings(folder: Path) -> Settings:
    """Read what a run was made with."""
    from m3c_md.exceptions import InputError

    path = folder / SETTINGS
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        settings = Settings(**{**content, "starts": tuple(content["starts"])})
        numbers = [settings.temperature, settings.spacing]
        if not all(isinstance(number, int | float) and 0.0 < number < math.inf for number in numbers):
            raise ValueError(f"temperature and spacing are {numbers}")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{path} was not written by m3c-md simulate; choose another folder") from error
    return settings


def check_settings(folder: Path, settings: Settings) -> None:
    """Write the settings into a new folder; raise if the folder was made with others."""
    path = folder / SETTINGS
    if not path.exists():
        with writing_file(path) as temporary:
            temporary.write_text(json.dumps(dataclasses.asdict(settings), indent=2) + "\n", encoding="utf-8")
        return
    old, new = dataclasses.asdict(read_settings(folder)), dataclasses.asdict(settings)
    differing = {key: (old[key], new[key]) for key in new if old[key] != new[key]}
    if differing:
        raise ValueError(f"{folder} was made with other settings (old, new): {differing}; choose another --out")
