"""A collective variable as an OpenMM force, whose energy is its value: to be used inside of other forces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError
from m3c_md.export.torsions import sines_and_cosines, torsions
from m3c_md.export.variable import CollectiveVariable
from m3c_md.inputs.dihedral_columns import DihedralColumns

if TYPE_CHECKING:
    import openmm

Form = Literal["auto", "python", "expression", "nested"]
# Forces inside of a CustomCVForce, at most: it needs a force group for each.
MOST_INNER = 32
# One expression is compiled for so many angles and cosines: it costs next to nothing in a step, but the time that it
# takes to derive grows with the square of its length (half a second for 50 cosines).
EXPRESSION_ANGLES = 2
EXPRESSION_TERMS = 100


def openmm_force(variable: CollectiveVariable, columns: DihedralColumns, form: Form) -> openmm.Force:
    """Force whose energy, as a number in kJ/mol, is the value of a collective variable.

    Parameters
    ----------
    variable : CollectiveVariable
    columns : DihedralColumns
        Atoms of the columns, numbered as in the System.
    form : "auto", "python", "expression" or "nested"
        A `PythonForce`, one expression of the angles, or forces within forces; "auto" takes the expression for one or
        two angles, the `PythonForce` for more, and nested forces where OpenMM is too old to have it (before 8.3).
    """
    try:
        import openmm
    except ImportError as error:
        raise InputError(
            'to_openmm needs OpenMM, which is not installed; python -m pip install "m3c_md[simulate]"'
        ) from error

    has_python = hasattr(openmm, "PythonForce")
    if form == "auto":
        n_terms = variable.n_terms * variable.n_differences
        short = columns.n_angles <= EXPRESSION_ANGLES and n_terms <= EXPRESSION_TERMS
        form = "expression" if short else "python" if has_python else "nested"
    if form == "expression":
        return _expression(variable, columns)
    if form == "nested":
        return _nested(variable, columns)
    if not has_python:
        raise InputError(f"form='python' needs OpenMM 8.3 or later, and this is {openmm.__version__}; use 'nested'")
    function = RuleFunction(variable, columns.quartets)
    force = openmm.PythonForce(function)
    force.setParticles(function.particles)
    return force


class RuleFunction:
    """Value of a collective variable and the forces on its atoms, as `openmm.PythonForce` asks for them; it pickles.

    Parameters
    ----------
    variable : CollectiveVariable
    quartets : (n_angles, 4) array
        Atoms of each angle.

    Attributes
    ----------
    particles : list of int
        Atoms that there is a force on.
    """

    def __init__(self, variable: CollectiveVariable, quartets: NDArray[np.integer]) -> None:
        self.variable = variable
        atoms, places = np.unique(quartets, return_inverse=True)
        self.particles = [int(atom) for atom in atoms]
        self.quartets = places.reshape(quartets.shape)
        # Sums over the angles that an atom belongs to are a product with this; forces are negative derivatives.
        self._collect = -(np.arange(len(atoms))[:, None] == self.quartets.ravel()).astype(np.float64)

    def __call__(self, state: openmm.State) -> tuple[float, FloatArray]:
        """Energy in kJ/mol, and forces in kJ/mol/nm on the particles."""
        return self.energy_and_forces(state.getPositions(asNumpy=True)._value)

    def energy_and_forces(self, points: FloatArray) -> tuple[float, FloatArray]:
        """Value of the variable at points (n_particles, 3) in nm, and its negative derivatives."""
        angles, by_atom = torsions(points, self.quartets)
        columns = sines_and_cosines(angles)
        values, gradients = self.variable.values_and_gradients(columns[None])
        slopes = gradients[0, 0::2] * columns[1::2] - gradients[0, 1::2] * columns[0::2]
        forces = self._collect @ (slopes[:, None, None] * by_atom).reshape(-1, 3)
        return float(values[0]), forces


def _expression(variable: CollectiveVariable, columns: DihedralColumns) -> openmm.CustomCVForce:
    """One expression of all angles."""
    import openmm

    numbers = range(1, columns.n_angles + 1)
    labels = [f"{part}{k}" for k in numbers for part in ("s", "c")]

    def angle(m: int) -> str:
        return "+".join(f"({w!r})*{x}" for w, x in zip(variable.frequencies[:, m].tolist(), labels, strict=True))

    sums = []
    for amplitudes, phases in zip(variable.amplitudes.T.tolist(), variable.phases.T.tolist(), strict=True):
        pairs = enumerate(zip(amplitudes, phases, strict=True))
        sums.append("+".join(f"({a!r})*cos({angle(m)}+({p!r}))" for m, (a, p) in pairs))
    parts = [_value(variable), *(f"d{k}={text}" for k, text in enumerate(sums))]
    parts += [f"s{k}=sin(t{k}); c{k}=cos(t{k})" for k in numbers]
    force = openmm.CustomCVForce("; ".join(parts))
    for k, four in zip(numbers, columns.quartets.tolist(), strict=True):
        torsion = openmm.CustomTorsionForce("theta")
        torsion.addTorsion(*four, [])
        force.addCollectiveVariable(f"t{k}", torsion)
    return force


def _nested(variable: CollectiveVariable, columns: DihedralColumns) -> openmm.CustomCVForce:
    """Argument of each cosine as a force on all torsions; sums of up to 32 of their cosines; sums of these."""
    import openmm

    sums: list[Any] = []
    for amplitudes, phases in zip(variable.amplitudes.T.tolist(), variable.phases.T.tolist(), strict=True):
        blocks = []
        for begin in range(0, variable.n_terms, MOST_INNER):
            chosen = range(begin, min(begin + MOST_INNER, variable.n_terms))
            block = openmm.CustomCVForce("+".join(f"({amplitudes[m]!r})*cos(u{m}+({phases[m]!r}))" for m in chosen))
            for m in chosen:
                block.addCollectiveVariable(f"u{m}", _linear_force(variable.frequencies[:, m], columns.quartets))
            blocks.append(block)
        while len(blocks) > 1:
            blocks = [_sum_of(blocks[k : k + MOST_INNER]) for k in range(0, len(blocks), MOST_INNER)]
        sums += blocks
    if len(sums) > MOST_INNER:
        raise InputError(f"{len(sums)} differences are more than nested forces can hold; name fewer states")
    force = openmm.CustomCVForce(_value(variable))
    for k, inner in enumerate(sums):
        force.addCollectiveVariable(f"d{k}", inner)
    return force


def _linear_force(frequencies: FloatArray, quartets: NDArray[np.integer]) -> openmm.CustomTorsionForce:
    """Sum over all angles of a sine and a cosine, each with its factor."""
    import openmm

    force = openmm.CustomTorsionForce("a*sin(theta)+b*cos(theta)")
    force.addPerTorsionParameter("a")
    force.addPerTorsionParameter("b")
    for four, factors in zip(quartets.tolist(), frequencies.reshape(-1, 2).tolist(), strict=True):
        force.addTorsion(*four, factors)
    return force


def _sum_of(forces: Sequence[openmm.Force]) -> openmm.CustomCVForce:
    import openmm

    total = openmm.CustomCVForce("+".join(f"g{k}" for k in range(len(forces))))
    for k, force in enumerate(forces):
        total.addCollectiveVariable(f"g{k}", force)
    return total


def _value(variable: CollectiveVariable) -> str:
    """Expression of the variable in the sums of cosines, d0, d1, ..."""
    shifted = [f"(d{k}+({c!r}))" for k, c in enumerate(variable.offsets.tolist())]
    return variable.expression(shifted)
