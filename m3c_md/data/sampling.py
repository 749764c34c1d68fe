"""Biased molecular dynamics along the rule of a model, which a stop does not harm, and the weights that undo the bias.

Well-tempered metadynamics (Barducci, Bussi and Parrinello 2008) fills the wells along a collective variable first. The
bias is then left as it is, and frames are collected: with a bias V that no longer changes, weights exp(V / kT) are
exact, however well or badly the wells were filled, as long as the time step suits the bias (see `m3c_md.data.hills`).
Filling goes on until the molecule has gone to and fro across the border, within bounds (see `m3c_md.data.bias`). Every
trajectory fills its own bias and is thus an estimate of its own.

Runs are cut into chunks as in `m3c_md.data.simulate`; besides the files that are named there, a folder has::

    bias.json                 how the bias is made, and of which collective variable
    traj_00_bias.npy          float64, value of the variable and bias in kJ/mol of each frame
    traj_00_filling.json      how many frames filled the bias, and how many round trips were made meanwhile
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from m3c_md.data.bias import LONGEST, N_POINTS, ROUND_TRIPS, Bias, Filling, Plan, crossings, make_plan
from m3c_md.data.dynamics import PhaseSpacePoint, Settings, chunk_seed, current_point, make_context, start_point
from m3c_md.data.free_energies import GAS_CONSTANT
from m3c_md.data.simulate import (
    SETTINGS,
    TOPOLOGY,
    check_settings,
    dihedrals_path,
    finish_trajectory,
    parts_path,
    prepared,
    read_settings,
    write_topology,
    write_xtc,
    writing_file,
)
from m3c_md.export.torsions import sines_and_cosines, torsions
from m3c_md.workers import interrupts_later

if TYPE_CHECKING:
    import openmm

    from m3c_md.export.variable import CollectiveVariable
    from m3c_md.inputs.dihedral_columns import DihedralColumns

BIAS = "bias.json"


class Filled(NamedTuple):
    """How the bias of a trajectory was filled.

    Attributes
    ----------
    frames : int
        Frames during which hills were dropped.
    round_trips : int
        How often the molecule went to the other side of the border and back meanwhile.
    """

    frames: int
    round_trips: int


def sample(
    settings: Settings,
    filling: Filling,
    variable: CollectiveVariable,
    columns: DihedralColumns,
    n_trajectories: int,
    folder: Path,
    *,
    progress: Callable[..., Any] | None = None,
) -> None:
    """Run biased trajectories ``0, ..., n_trajectories - 1`` to their end; what is finished is not repeated.

    Parameters
    ----------
    settings : Settings
        Of the dynamics; ``n_frames`` are collected after those that fill the bias, which are not kept. The time step
        is 2 fs at most.
    filling : Filling
    variable : CollectiveVariable
        ``model.collective_variable(states)``.
    columns : DihedralColumns
        Atoms of its columns in the molecule of the settings.
    n_trajectories : int
    folder : Path
        Made if it is not there; a run with the same settings and variable that is in it goes on.
    progress : optional
        A progress bar class such as ``tqdm.tqdm``; it counts frames.
    """
    plan = make_plan(settings, filling, variable, columns)
    folder.mkdir(parents=True, exist_ok=True)
    _check_bias(folder, plan)  # first, so that runs without bias are known by what they lack
    check_settings(folder, plan.settings)
    if not (folder / TOPOLOGY).exists():
        write_topology(folder / TOPOLOGY, plan.settings)
    stages = {number: _stage(folder, plan, number) for number in range(n_trajectories)}
    bar = None
    if progress is not None:
        totals = [max(stage.filled, filling.fill_frames) + settings.n_frames for stage in stages.values()]
        done = sum(stage.filled + stage.collected for stage in stages.values())
        bar = progress(total=sum(totals), initial=done, unit=" frames")
    try:
        for trajectory, stage in stages.items():
            while (n_frames := _n_next(plan, stage)) > 0:
                stage = _advance(folder, plan, trajectory, stage, n_frames)
                if bar is not None:
                    if stage.collected == 0 and stage.filled > filling.fill_frames:
                        bar.total += n_frames
                    bar.update(n_frames)
            if not dihedrals_path(folder, trajectory).exists():
                _finish(folder, plan.settings, trajectory, stage)
    finally:
        if bar is not None:
            bar.close()


def read_weights(folder: Path | str) -> list[npt.NDArray[np.float64]]:
    """Weights that undo the bias, one array for each finished trajectory of `sample`; the mean of each is one.

    They go with the features of `m3c_md.data.read_run`: averages with these weights are those of the molecule without
    bias, and ``M3C.fit(features, weights=weights)`` sees its distribution.
    """
    from m3c_md.disk import checked_path, read_array
    from m3c_md.exceptions import InputError

    folder = checked_path("folder", folder)
    if not (folder / BIAS).is_file():
        raise InputError(f"{folder} has no {BIAS}; give a folder of m3c-md sample")
    thermal = GAS_CONSTANT * read_settings(folder).temperature
    weights = []
    for trajectory in range(len(list(folder.glob("traj_*_bias.npy")))):
        if not dihedrals_path(folder, trajectory).exists():
            break
        biases = np.asarray(read_array(_bias_path(folder, trajectory)), dtype=np.float64)[:, 1]
        factors = np.exp((biases - biases.max()) / thermal)
        weights.append(factors / factors.mean())
    if not weights:
        raise InputError(f"{folder} has no finished trajectory; run m3c-md sample again, it goes on where it was")
    return weights


def read_fillings(folder: Path | str) -> list[Filled]:
    """How the bias of each finished trajectory of `sample` was filled.

    Fewer than `ROUND_TRIPS` say that filling was given up: the molecule may stay where it is, and errors may be too
    small.
    """
    return [_read_filling(Path(folder), trajectory) for trajectory in range(len(read_weights(folder)))]


# --- one trajectory ----------------------------------------------------------------------------------------------


class _Stage(NamedTuple):
    """How far a trajectory is: frames that filled and were collected, borders crossed while filling, the side now."""

    chunks: int = 0
    filled: int = 0
    collected: int = 0
    crossed: int = 0
    side: int = 0

    @property
    def round_trips(self) -> int:
        return self.crossed // 2


def _n_next(plan: Plan, stage: _Stage) -> int:
    """Frames of the next chunk; zero if there is none."""
    left = _left_to_fill(plan, stage) or plan.settings.n_frames - stage.collected
    return min(plan.settings.chunk_frames, left)


def _left_to_fill(plan: Plan, stage: _Stage) -> int:
    """Frames that are still to fill the bias, at most; zero if it is filled, or if that was given up."""
    wanted = plan.filling.fill_frames
    if stage.filled < wanted:
        return wanted - stage.filled
    return 0 if stage.round_trips >= ROUND_TRIPS else LONGEST * wanted - stage.filled


def _stage(folder: Path, plan: Plan, trajectory: int) -> _Stage:
    if dihedrals_path(folder, trajectory).exists():
        shutil.rmtree(parts_path(folder, trajectory), ignore_errors=True)  # from a stop in the very last moment
        filled = _read_filling(folder, trajectory)
        return _Stage(filled=filled.frames, collected=plan.settings.n_frames, crossed=2 * filled.round_trips)
    checkpoint = parts_path(folder, trajectory) / "checkpoint.npz"
    return _read_checkpoint(checkpoint)[0] if checkpoint.exists() else _Stage()


def _advance(folder: Path, plan: Plan, trajectory: int, stage: _Stage, n_frames: int) -> _Stage:
    """Run one chunk of a trajectory; all that it leaves is written before the checkpoint says that it is done."""
    settings = plan.settings
    parts = parts_path(folder, trajectory)
    parts.mkdir(exist_ok=True)
    checkpoint = parts / "checkpoint.npz"
    system, starts = prepared(settings)
    if checkpoint.exists():
        _, point, values = _read_checkpoint(checkpoint)
    else:
        start = starts[settings.starts[trajectory % len(settings.starts)]]
        point, values = start_point(system, settings, start, trajectory), np.zeros(N_POINTS)
        _write_checkpoint(checkpoint, stage, point, values)
    collecting = _left_to_fill(plan, stage) == 0
    seed = chunk_seed(settings, trajectory, stage.chunks + 1)
    frames, point, felt, values = run_chunk(system, plan, values, point, n_frames, seed, collecting)
    stage = stage._replace(chunks=stage.chunks + 1)
    if collecting:
        part = stage.collected // settings.chunk_frames
        write_xtc(parts / f"{part:05d}.xtc", frames, stage.collected, settings)
        with writing_file(parts / f"bias_{part:05d}.npy") as temporary:
            np.save(temporary, felt)
        stage = stage._replace(collected=stage.collected + n_frames)
    else:
        angles = torsions(frames.astype(np.float64), plan.columns.quartets)[0]
        crossed, side = crossings(plan.rule.values(sines_and_cosines(angles)), stage.side)
        stage = stage._replace(filled=stage.filled + n_frames, crossed=stage.crossed + crossed, side=side)
    _write_checkpoint(checkpoint, stage, point, values)
    return stage


def run_chunk(
    system: openmm.System,
    plan: Plan,
    values: npt.NDArray[np.float64],
    point: PhaseSpacePoint,
    n_frames: int,
    seed: int,
    collecting: bool,
) -> tuple[npt.NDArray[np.float32], PhaseSpacePoint, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Run frames; return them, the end, variable and bias of each frame, and the bias on its grid.

    Hills are dropped unless collecting.
    """
    bias = Bias(plan, values)
    biased = copy.copy(system)
    biased.addForce(bias.force)
    context = make_context(biased, plan.settings, seed)
    context.setPositions(point.positions)
    context.setVelocities(point.velocities)
    per_hill = max(1, round(plan.filling.hill_spacing / plan.settings.time_step))
    frames = np.empty((n_frames, *point.positions.shape), dtype=np.float32)
    felt = np.empty((n_frames, 2))
    for frame in range(n_frames):
        with interrupts_later():
            left = plan.settings.steps_per_frame
            while left and not collecting:
                taken = min(per_hill, left)
                context.getIntegrator().step(taken)
                bias.drop_hill(context)
                left -= taken
            context.getIntegrator().step(left)
            point = current_point(context)
            frames[frame] = point.positions - point.positions.mean(axis=0)
            felt[frame] = bias.at_frame(context)
    return frames, point, felt, bias.values


def _finish(folder: Path, settings: Settings, trajectory: int, stage: _Stage) -> None:
    """Join what was collected; the file of angles comes last and says that the trajectory is finished."""
    parts = sorted(parts_path(folder, trajectory).glob("bias_*.npy"))
    with writing_file(_bias_path(folder, trajectory)) as temporary:
        np.save(temporary, np.concatenate([np.load(path) for path in parts]))
    filled = Filled(stage.filled, stage.round_trips)
    with writing_file(_filling_path(folder, trajectory)) as temporary:
        temporary.write_text(json.dumps(filled._asdict()) + "\n", encoding="utf-8")
    finish_trajectory(settings, folder, trajectory)


def _bias_path(folder: Path, trajectory: int) -> Path:
    return folder / f"traj_{trajectory:02d}_bias.npy"


def _filling_path(folder: Path, trajectory: int) -> Path:
    return folder / f"traj_{trajectory:02d}_filling.json"


def _read_filling(folder: Path, trajectory: int) -> Filled:
    return Filled(**json.loads(_filling_path(folder, trajectory).read_text(encoding="utf-8")))


def _write_checkpoint(path: Path, stage: _Stage, point: PhaseSpacePoint, values: npt.NDArray[np.float64]) -> None:
    with writing_file(path) as temporary:
        np.savez(temporary, stage=np.array(stage), values=values, **point._asdict())


def _read_checkpoint(path: Path) -> tuple[_Stage, PhaseSpacePoint, npt.NDArray[np.float64]]:
    with np.load(path, allow_pickle=False) as file:
        stage = _Stage(*file["stage"].tolist())
        return stage, PhaseSpacePoint(file["positions"], file["velocities"]), file["values"]


def _check_bias(folder: Path, plan: Plan) -> None:
    """Write how the bias is made into a new folder; raise if the folder was made with another."""
    variable = plan.variable
    arrays = (variable.frequencies, variable.amplitudes, variable.phases, variable.offsets, plan.columns.quartets)
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()
    wanted = {**dataclasses.asdict(plan.filling), "variable": variable.formula, "sha256": digest}
    path = folder / BIAS
    if not path.exists():
        if (folder / SETTINGS).exists():
            raise ValueError(f"{folder} has trajectories without a bias; choose another --out")
        with writing_file(path) as temporary:
            temporary.write_text(json.dumps(wanted, indent=2) + "\n", encoding="utf-8")
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        differing = {key: (found.get(key), wanted[key]) for key in wanted if found.get(key) != wanted[key]}
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{path} was not written by m3c-md sample; choose another --out") from error
    if differing:
        raise ValueError(f"{folder} was made with another bias (old, new): {differing}; choose another --out")
