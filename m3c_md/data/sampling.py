"""Biased molecular dynamics along the rule of a model, which a stop does not harm, and the weights that undo the bias.

Well-tempered metadynamics (Barducci, Bussi and Parrinello 2008) fills the wells along a collective variable first. The
bias is then left as it is, and frames are collected: with a bias V that no longer changes, weights exp(V / kT) are
exact, however well or badly the wells were filled, as long as the time step suits the bias (see `m3c_md.data.hills`).
The variable is the difference of two scores seen through a blur: the scores themselves are so level inside of states
that a bias along them cannot lift a molecule from the bottom of a well. Every trajectory fills its own bias and is thus
an estimate of its own.

Runs are cut into chunks as in `m3c_md.data.simulate`; besides the files that are named there, a folder has::

    bias.json                 how the bias is made, and of which collective variable
    traj_00_bias.npy          float64, value of the variable and bias in kJ/mol of each frame
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from m3c_md.data.dynamics import PhaseSpacePoint, Settings, chunk_seed, current_point, make_context, start_point
from m3c_md.data.free_energies import GAS_CONSTANT
from m3c_md.data.hills import longest_time_step, thermal_speeds
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

if TYPE_CHECKING:
    import openmm

    from m3c_md.export.variable import CollectiveVariable
    from m3c_md.inputs.dihedral_columns import DihedralColumns

BIAS = "bias.json"
N_POINTS = 1001
"""Points of the grid that holds the bias."""
_GROUP = 31
"""Force group of the bias; all other forces are in group 0."""


@dataclasses.dataclass(frozen=True)
class Filling:
    """How the bias is made.

    Attributes
    ----------
    fill_frames
        Frames during which hills are dropped.
    hill_spacing
        Time between two hills, in ps.
    height
        Of the first hills in kJ/mol.
    width
        Of all hills, as a share of the range of the variable in the shipped frames of the molecule.
    bias_factor
        Temperature at which the variable would be sampled once all is filled, in units of the real one.
    blur
        Of the variable, see `CollectiveVariable.blurred`.
    """

    fill_frames: int = 500
    hill_spacing: float = 0.5
    height: float = 0.5
    width: float = 0.085
    bias_factor: float = 8.0
    blur: float = 8.0


@dataclasses.dataclass(frozen=True)
class Plan:
    """All that a biased run depends on; `make_plan` makes it.

    Attributes
    ----------
    settings
        Of the dynamics, with a time step that suits the bias.
    filling
        How the bias is made.
    variable
        What it is a function of, blurred.
    columns
        Atoms of the columns of the variable.
    width
        Of hills, in units of the variable.
    """

    settings: Settings
    filling: Filling
    variable: CollectiveVariable
    columns: DihedralColumns
    width: float


def make_plan(settings: Settings, filling: Filling, variable: CollectiveVariable, columns: DihedralColumns) -> Plan:
    """Plan of a biased run: hills and time step as the shipped frames of the molecule ask for them.

    The time between two frames stays what it is in the settings.
    """
    import mdtraj

    from m3c_md.data import alanine_dipeptide, deca_alanine

    data = {"alanine-dipeptide": alanine_dipeptide, "deca-alanine": deca_alanine}[settings.molecule]()
    frames = mdtraj.load(str(data.trajectory_files[0]), top=data.topology)
    masses = np.array([atom.element.mass for atom in data.topology.atoms])
    variable = variable.blurred(filling.blur)
    thermal = GAS_CONSTANT * settings.temperature
    values, speeds = thermal_speeds(variable, columns.quartets, frames.xyz.astype(np.float64), masses, thermal)
    width = filling.width * float(np.ptp(values))
    step = longest_time_step(width, speeds)
    steps_per_frame = max(1, round(settings.spacing / step))
    settings = dataclasses.replace(settings, time_step=step, steps_per_frame=steps_per_frame)
    return Plan(settings, filling, variable, columns, width)


class Bias:
    """Bias on a grid of the collective variable, and the force that it is.

    Parameters
    ----------
    plan : Plan
    values : (N_POINTS,) array, optional
        Bias on the grid in kJ/mol; zero by default.
    """

    def __init__(self, plan: Plan, values: npt.NDArray[np.float64] | None = None) -> None:
        import openmm

        from m3c_md.export.openmm_force import openmm_force

        self.plan = plan
        self.grid = np.linspace(*plan.variable.bounds, N_POINTS)
        self.values = np.zeros(N_POINTS) if values is None else values
        self.force = openmm.CustomCVForce("bias(s)")
        self.force.addCollectiveVariable("s", openmm_force(plan.variable, plan.columns, "auto"))
        self.force.addTabulatedFunction("bias", self._table())
        self.force.setForceGroup(_GROUP)

    def _table(self) -> openmm.Continuous1DFunction:
        import openmm

        return openmm.Continuous1DFunction(self.values.tolist(), *self.plan.variable.bounds)

    def drop_hill(self, context: openmm.Context) -> None:
        """Add a hill where the system is; the higher the bias is there already, the lower the hill."""
        (at,) = self.force.getCollectiveVariableValues(context)
        there = float(np.interp(at, self.grid, self.values))
        filling, thermal = self.plan.filling, GAS_CONSTANT * self.plan.settings.temperature
        height = filling.height * math.exp(-there / (thermal * (filling.bias_factor - 1.0)))
        self.values = self.values + height * np.exp(-0.5 * ((self.grid - at) / self.plan.width) ** 2)
        table = self.force.getTabulatedFunction(0)
        table.setFunctionParameters(self.values.tolist(), *self.plan.variable.bounds)
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
        Of the dynamics; ``n_frames`` are collected after ``filling.fill_frames`` that are not kept. The time step is
        made shorter where hills ask for it.
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
    chunks = _chunks(plan)
    done = {number: _chunks_done(folder, number, chunks) for number in range(n_trajectories)}
    bar = None
    if progress is not None:
        finished = sum(sum(chunks[:n_chunks]) for n_chunks in done.values())
        bar = progress(total=n_trajectories * sum(chunks), initial=finished, unit=" frames")
    try:
        for trajectory, first in done.items():
            for chunk in range(first, len(chunks)):
                _advance(folder, plan, trajectory, chunk)
                if bar is not None:
                    bar.update(chunks[chunk])
            if not dihedrals_path(folder, trajectory).exists():
                _finish(folder, plan.settings, trajectory)
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


def _chunks(plan: Plan) -> list[int]:
    """Frames of each chunk of a trajectory: those that fill, then those that collect."""
    sizes = []
    for total in (plan.filling.fill_frames, plan.settings.n_frames):
        full, rest = divmod(total, plan.settings.chunk_frames)
        sizes += [plan.settings.chunk_frames] * full + [rest] * (rest > 0)
    return sizes


def _chunks_done(folder: Path, trajectory: int, chunks: list[int]) -> int:
    if dihedrals_path(folder, trajectory).exists():
        shutil.rmtree(parts_path(folder, trajectory), ignore_errors=True)  # from a stop in the very last moment
        return len(chunks)
    checkpoint = parts_path(folder, trajectory) / "checkpoint.npz"
    return _read_checkpoint(checkpoint)[0] if checkpoint.exists() else 0


def _advance(folder: Path, plan: Plan, trajectory: int, chunk: int) -> None:
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
        point, values = start_point(system, settings, start, trajectory), None
    n_filling = math.ceil(plan.filling.fill_frames / settings.chunk_frames)
    n_frames, seed = _chunks(plan)[chunk], chunk_seed(settings, trajectory, chunk + 1)
    collecting = chunk >= n_filling
    frames, point, felt, values = run_chunk(system, plan, values, point, n_frames, seed, collecting)
    if collecting:
        first = (chunk - n_filling) * settings.chunk_frames
        write_xtc(parts / f"{chunk - n_filling:05d}.xtc", frames, first, settings)
        with writing_file(parts / f"bias_{chunk - n_filling:05d}.npy") as temporary:
            np.save(temporary, felt)
    with writing_file(checkpoint) as temporary:
        np.savez(temporary, n_chunks=chunk + 1, values=values, **point._asdict())


def run_chunk(
    system: openmm.System,
    plan: Plan,
    values: npt.NDArray[np.float64] | None,
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
