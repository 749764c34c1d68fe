"""Biased molecular dynamics along the rule of a model, which a stop does not harm, and the weights that undo the bias.

Well-tempered metadynamics (Barducci, Bussi and Parrinello 2008) fills the wells along a collective variable first. The
bias is then left as it is, and frames are collected: with a bias V that no longer changes, weights exp(V / kT) are
exact, however well or badly the wells were filled. Every trajectory fills its own bias and is thus an estimate of its
own.

Runs are cut into chunks as in `m3c_md.data.simulate`; besides the files that are named there, a folder has::

    bias.json                 how the bias is made, and of which collective variable
    traj_00_bias.npy          float64, value of the variable and bias in kJ/mol of each frame
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from m3c_md.data.dynamics import PhaseSpacePoint, Settings, chunk_seed, current_point, make_context, start_point
from m3c_md.data.simulate import (
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

if TYPE_CHECKING:
    import openmm

    from m3c_md.export.variable import CollectiveVariable
    from m3c_md.inputs.dihedral_columns import DihedralColumns

BIAS = "bias.json"
GAS_CONSTANT = 8.31446261815324e-3
"""kJ/mol/K."""
GRID_PER_WIDTH = 5
"""Points of the grid that holds the bias, per width of a hill."""
_GROUP = 31
"""Force group of the bias; all other forces are in group 0."""


@dataclasses.dataclass(frozen=True)
class Filling:
    """How the bias is made.

    Attributes
    ----------
    fill_frames
        Frames during which hills are dropped.
    steps_per_hill
        Time steps between two hills.
    height, width
        Of the first hills in kJ/mol, and of all hills in units of the collective variable.
    bias_factor
        Temperature at which the variable would be sampled once all is filled, in units of the real one.
    """

    fill_frames: int = 1000
    steps_per_hill: int = 125
    height: float = 1.0
    width: float = 0.1
    bias_factor: float = 6.0


class Bias:
    """Bias on a grid of the collective variable, and the force that it is.

    Parameters
    ----------
    variable : CollectiveVariable
    columns : DihedralColumns
        Atoms of its columns.
    filling : Filling
    temperature : float
        In kelvin.
    values : array, optional
        Bias on the grid in kJ/mol; zero by default.
    """

    def __init__(
        self,
        variable: CollectiveVariable,
        columns: DihedralColumns,
        filling: Filling,
        temperature: float,
        values: npt.NDArray[np.float64] | None = None,
    ) -> None:
        import openmm

        from m3c_md.export.openmm_force import openmm_force

        self.filling = filling
        self.thermal = GAS_CONSTANT * temperature
        self.largest = variable.largest
        n_points = 2 * math.ceil(self.largest / filling.width * GRID_PER_WIDTH) + 1
        self.grid = np.linspace(-self.largest, self.largest, n_points)
        self.values = np.zeros(n_points) if values is None else values
        self.force = openmm.CustomCVForce("bias(s)")
        self.force.addCollectiveVariable("s", openmm_force(variable, columns, "auto"))
        self.force.addTabulatedFunction("bias", self._table())
        self.force.setForceGroup(_GROUP)

    def _table(self) -> openmm.Continuous1DFunction:
        import openmm

        return openmm.Continuous1DFunction(self.values.tolist(), -self.largest, self.largest)

    def drop_hill(self, context: openmm.Context) -> None:
        """Add a hill where the system is; the higher the bias is there already, the lower the hill."""
        (at,) = self.force.getCollectiveVariableValues(context)
        there = float(np.interp(at, self.grid, self.values))
        height = self.filling.height * math.exp(-there / (self.thermal * (self.filling.bias_factor - 1.0)))
        self.values = self.values + height * np.exp(-0.5 * ((self.grid - at) / self.filling.width) ** 2)
        table = self.force.getTabulatedFunction(0)
        table.setFunctionParameters(self.values.tolist(), -self.largest, self.largest)
        self.force.updateParametersInContext(context)

    def at_frame(self, context: openmm.Context) -> tuple[float, float]:
        """Value of the variable, and the bias in kJ/mol as the system feels it."""
        (at,) = self.force.getCollectiveVariableValues(context)
        return at, context.getState(energy=True, groups={_GROUP}).getPotentialEnergy()._value


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
        Of the dynamics; ``n_frames`` are collected after ``filling.fill_frames`` that are not kept.
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
    folder.mkdir(parents=True, exist_ok=True)
    check_settings(folder, settings)
    _check_bias(folder, filling, variable, columns)
    if not (folder / TOPOLOGY).exists():
        write_topology(folder / TOPOLOGY, settings)
    per_trajectory = sum(_chunks(settings, filling))
    waiting = [number for number in range(n_trajectories) if not dihedrals_path(folder, number).exists()]
    done = (n_trajectories - len(waiting)) * per_trajectory
    bar = progress(total=n_trajectories * per_trajectory, initial=done, unit=" frames") if progress else None
    try:
        for trajectory in waiting:
            chunks = _chunks(settings, filling)
            for chunk in range(_chunks_done(folder, trajectory), len(chunks)):
                _advance(folder, settings, filling, (variable, columns), trajectory, chunk)
                if bar is not None:
                    bar.update(chunks[chunk])
            _finish(folder, settings, trajectory)
    finally:
        if bar is not None:
            bar.close()


def read_weights(folder: Path) -> list[npt.NDArray[np.float64]]:
    """Weights that undo the bias, one array for each finished trajectory of `sample`; the mean of each is one.

    They go with the features of `m3c_md.data.read_run`: averages with these weights are those of the molecule without
    bias, and ``M3C.fit(features, weights=weights)`` sees its distribution.
    """
    from m3c_md.disk import read_array
    from m3c_md.exceptions import InputError

    thermal = GAS_CONSTANT * read_settings(folder).temperature
    weights = []
    for trajectory in range(len(list(folder.glob("traj_*_bias.npy")))):
        if not dihedrals_path(folder, trajectory).exists():
            break
        biases = np.asarray(read_array(_bias_path(folder, trajectory)), dtype=np.float64)[:, 1]
        factors = np.exp((biases - biases.max()) / thermal)
        weights.append(factors / factors.mean())
    if not weights:
        raise InputError(f"{folder} has no finished biased trajectory; give a folder of m3c-md sample")
    return weights


# --- one trajectory ----------------------------------------------------------------------------------------------


def _chunks(settings: Settings, filling: Filling) -> list[int]:
    """Frames of each chunk of a trajectory: those that fill, then those that collect."""
    sizes = []
    for total in (filling.fill_frames, settings.n_frames):
        full, rest = divmod(total, settings.chunk_frames)
        sizes += [settings.chunk_frames] * full + [rest] * (rest > 0)
    return sizes


def _chunks_done(folder: Path, trajectory: int) -> int:
    checkpoint = parts_path(folder, trajectory) / "checkpoint.npz"
    return _read_checkpoint(checkpoint)[0] if checkpoint.exists() else 0


def _advance(
    folder: Path, settings: Settings, filling: Filling, of_model: tuple[Any, Any], trajectory: int, chunk: int
) -> None:
    """Run one chunk of a trajectory; all that it leaves is written before the checkpoint says that it is done."""
    parts = parts_path(folder, trajectory)
    parts.mkdir(exist_ok=True)
    checkpoint = parts / "checkpoint.npz"
    system, starts = prepared(settings)
    if checkpoint.exists():
        _, point, values = _read_checkpoint(checkpoint)
    else:
        start = starts[settings.starts[trajectory % len(settings.starts)]]
        point, values = start_point(system, settings, start, trajectory), None
    n_filling = math.ceil(filling.fill_frames / settings.chunk_frames)
    n_frames = _chunks(settings, filling)[chunk]
    seed = chunk_seed(settings, trajectory, chunk + 1)
    collecting = chunk >= n_filling
    make_bias = functools.partial(Bias, *of_model, filling, settings.temperature)
    frames, point, felt, values = run_chunk(system, settings, make_bias, values, point, n_frames, seed, collecting)
    if collecting:
        first = (chunk - n_filling) * settings.chunk_frames
        write_xtc(parts / f"{chunk - n_filling:05d}.xtc", frames, first, settings)
        with writing_file(parts / f"bias_{chunk - n_filling:05d}.npy") as temporary:
            np.save(temporary, felt)
    with writing_file(checkpoint) as temporary:
        np.savez(temporary, n_chunks=chunk + 1, values=values, **point._asdict())


def run_chunk(
    system: openmm.System,
    settings: Settings,
    make_bias: Callable[[Any], Bias],
    values: npt.NDArray[np.float64] | None,
    point: PhaseSpacePoint,
    n_frames: int,
    seed: int,
    collecting: bool,
) -> tuple[npt.NDArray[np.float32], PhaseSpacePoint, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Run frames; return them, the end, variable and bias of each frame, and the bias on its grid.

    Hills are dropped unless collecting.
    """
    bias = make_bias(values)
    biased = copy.copy(system)
    biased.addForce(bias.force)
    context = make_context(biased, settings, seed)
    context.setPositions(point.positions)
    context.setVelocities(point.velocities)
    frames = np.empty((n_frames, *point.positions.shape), dtype=np.float32)
    felt = np.empty((n_frames, 2))
    for frame in range(n_frames):
        left = settings.steps_per_frame
        while left and not collecting:
            taken = min(bias.filling.steps_per_hill, left)
            context.getIntegrator().step(taken)
            bias.drop_hill(context)
            left -= taken
        context.getIntegrator().step(left)
        point = current_point(context)
        frames[frame] = point.positions - point.positions.mean(axis=0)
        felt[frame] = bias.at_frame(context)
    return frames, point, felt, bias.values


def _finish(folder: Path, settings: Settings, trajectory: int) -> None:
    """Join what was collected; the file of angles comes last and says that the trajectory is finished."""
    parts = sorted(parts_path(folder, trajectory).glob("bias_*.npy"))
    with writing_file(_bias_path(folder, trajectory)) as temporary:
        np.save(temporary, np.concatenate([np.load(path) for path in parts]))
    finish_trajectory(settings, folder, trajectory)


def _bias_path(folder: Path, trajectory: int) -> Path:
    return folder / f"traj_{trajectory:02d}_bias.npy"


def _read_checkpoint(path: Path) -> tuple[int, PhaseSpacePoint, npt.NDArray[np.float64]]:
    with np.load(path, allow_pickle=False) as file:
        return int(file["n_chunks"]), PhaseSpacePoint(file["positions"], file["velocities"]), file["values"]


def _check_bias(folder: Path, filling: Filling, variable: CollectiveVariable, columns: DihedralColumns) -> None:
    """Write how the bias is made into a new folder; raise if the folder was made with another."""
    arrays = (variable.frequencies, variable.amplitudes, variable.phases, variable.offsets, columns.quartets)
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()
    wanted = {**dataclasses.asdict(filling), "variable": variable.formula, "sha256": digest}
    path = folder / BIAS
    if not path.exists():
        if any(folder.glob("parts_*")) or any(folder.glob("traj_*")):
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
