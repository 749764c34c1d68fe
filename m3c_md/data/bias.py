"""The bias of a biased run: a sum of hills along a collective variable, and whether it has been filled.

The variable is the difference of scores seen through a slight blur. Too much of a blur is worse than none: what is left
of a rule then are its few slowest cosines, which are drawn at random and need not tell its states apart. Along some
rules of alanine dipeptide no bias whatever could then bring the molecule across.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from m3c_md.data.dynamics import Settings
from m3c_md.data.free_energies import GAS_CONSTANT
from m3c_md.data.hills import TIME_STEP_PS, hill_width, thermal_speeds

if TYPE_CHECKING:
    import openmm

    from m3c_md.arrays import FloatArray
    from m3c_md.export.variable import CollectiveVariable
    from m3c_md.inputs.dihedral_columns import DihedralColumns

N_POINTS = 1001
"""Points of the grid that holds the bias."""
ROUND_TRIPS = 3
"""How often a trajectory should go to the other side of the border and back before its bias counts as filled."""
LONGEST = 4
"""Filling ends after so many times the frames that were asked for, round trips or not."""
SIDE = 0.25
"""The difference of scores from which on a frame is on one side of the border; at 1 it is well inside of a state."""
_GROUP = 31
"""Force group of the bias; all other forces are in group 0."""


@dataclasses.dataclass(frozen=True)
class Filling:
    """How the bias is made.

    Attributes
    ----------
    fill_frames
        Frames during which hills are dropped; up to `LONGEST` times as many, until there were `ROUND_TRIPS`.
    hill_spacing
        Time between two hills, in ps.
    height
        Of the first hills in kJ/mol.
    bias_factor
        Temperature at which the variable would be sampled once all is filled, in units of the real one.
    blur
        Of the variable, see `CollectiveVariable.blurred`. Chosen for 14 rules on a model of the diffusion of alanine
        dipeptide in φ and ψ: a bias is worth a factor of 5000 or more for each of them with a blur of 0.5 or 1, of 77
        for the worst without blur, of 7 for the worst with a blur of 8 (``benchmarks/sampling_gain.py``).
    """

    fill_frames: int = 500
    hill_spacing: float = 0.5
    height: float = 0.5
    bias_factor: float = 8.0
    blur: float = 1.0


@dataclasses.dataclass(frozen=True)
class Plan:
    """All that a biased run depends on; `make_plan` makes it.

    Attributes
    ----------
    settings
        Of the dynamics, with a time step that suits the bias.
    filling
        How the bias is made.
    rule
        The difference of scores, whose sign says on which side of the border a frame is.
    variable
        The same, blurred; what the bias is a function of.
    columns
        Atoms of the columns of the variable.
    width
        Of hills, in units of the variable.
    """

    settings: Settings
    filling: Filling
    rule: CollectiveVariable
    variable: CollectiveVariable
    columns: DihedralColumns
    width: float


def make_plan(settings: Settings, filling: Filling, variable: CollectiveVariable, columns: DihedralColumns) -> Plan:
    """Plan of a biased run, with hills as wide as the shipped frames of the molecule ask for.

    The time step is 2 fs at most; the time between two frames stays what it is in the settings.
    """
    import mdtraj

    from m3c_md.data import alanine_dipeptide, deca_alanine

    data = {"alanine-dipeptide": alanine_dipeptide, "deca-alanine": deca_alanine}[settings.molecule]()
    frames = mdtraj.load(str(data.trajectory_files[0]), top=data.topology)
    masses = np.array([atom.element.mass for atom in data.topology.atoms])
    blurred = variable.blurred(filling.blur)
    thermal = GAS_CONSTANT * settings.temperature
    speeds = thermal_speeds(blurred, columns.quartets, frames.xyz.astype(np.float64), masses, thermal)[1]
    step = min(settings.time_step, TIME_STEP_PS)
    steps_per_frame = max(1, round(settings.spacing / step))
    settings = dataclasses.replace(settings, time_step=step, steps_per_frame=steps_per_frame)
    return Plan(settings, filling, variable, blurred, columns, hill_width(step, speeds))


class Bias:
    """Bias on a grid of the collective variable, and the force that it is.

    Parameters
    ----------
    plan : Plan
    values : (N_POINTS,) array
        Bias on the grid in kJ/mol.
    """

    def __init__(self, plan: Plan, values: npt.NDArray[np.float64]) -> None:
        import openmm

        from m3c_md.export.openmm_force import openmm_force

        self.plan = plan
        self.grid = np.linspace(*plan.variable.bounds, N_POINTS)
        self.values = values
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


def crossings(values: FloatArray, before: int = 0) -> tuple[int, int]:
    """How often the border was crossed from one side to the other, and the side at the end (1, -1; 0 if on none yet).

    Going to and fro at the border is no crossing: a frame is on a side if the difference is at least `SIDE` there.

    Parameters
    ----------
    values : (n_frames,) array
        Difference of scores; the border is at zero.
    before : -1, 0 or 1
        Side before the first frame.

    Examples
    --------
    >>> crossings(np.array([0.5, 0.1, -0.1, 0.1, -0.6, -0.5, 0.7]))
    (2, 1)
    >>> crossings(np.array([0.1, -0.7]), before=1), crossings(np.array([0.1, 0.2]))
    ((1, -1), (0, 0))
    """
    sides = np.append(before, np.where(np.abs(values) >= SIDE, np.sign(values), 0)).astype(int)
    sides = sides[sides != 0]
    return int(np.count_nonzero(np.diff(sides))), int(sides[-1]) if len(sides) else 0
