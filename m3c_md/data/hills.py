"""Hills that an integrator can climb: how long a time step is on them, and how wide they must be for it.

The difference of two scores is nearly level inside of states and steep at their borders: in a time step of 4 fs it
changes by 0.005 here and by 0.1 there. Hills of that width would be jumped over in one step. Forces then are not those
of the bias, the molecule is heated on its way across a border, and no weights can undo that: with hills of 0.1 and
steps of 4 fs the population of a state of alanine dipeptide came out at a thousandth of what it is.

Hills must not be wide either. A state is a narrow range of the variable: hills as wide as the way from one state to the
next lift the border as much as the states, and nothing is gained. Steps of half the usual length allow hills of half
the width.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from m3c_md.arrays import FloatArray
from m3c_md.export.torsions import sines_and_cosines, torsions
from m3c_md.export.variable import CollectiveVariable

TIME_STEP_PS = 0.002
"""Of biased runs, at most."""
STEPS_PER_WIDTH = 2.5
"""A hill is so many thermal time steps wide, where the variable is fastest."""


def thermal_speeds(
    variable: CollectiveVariable,
    quartets: npt.NDArray[np.integer],
    points: FloatArray,
    masses: FloatArray,
    thermal: float,
) -> tuple[FloatArray, FloatArray]:
    """Values of a collective variable, and how fast thermal motion changes it (per ps), for each frame.

    With velocities drawn at random, the variance of dξ/dt is kT Σ_i |∂ξ/∂x_i|² / m_i.

    Parameters
    ----------
    variable : CollectiveVariable
    quartets : (n_angles, 4) array
        Atoms of each dihedral angle.
    points : (n_frames, n_atoms, 3) array
        In nm.
    masses : (n_atoms,) array
        In atomic mass units.
    thermal : float
        kT in kJ/mol.

    Examples
    --------
    >>> from m3c_md.export.variable import CollectiveVariable
    >>> sine = CollectiveVariable((0, 1), "difference", np.array([[1e-3], [0.0]]), np.full((1, 1), 1e3),
    ...                           np.full((1, 1), -0.5 * np.pi), np.zeros(1))
    >>> corner = np.array([[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]])
    >>> values, speeds = thermal_speeds(sine, np.array([[0, 1, 2, 3]]), corner, np.array([1.0, 1e9, 1e9, 1.0]), 2.0)
    >>> values.round(6).tolist(), speeds.round(6).tolist()  # the sine of an angle of 0, two atoms 1 nm off the axis
    ([0.0], [2.0])
    """
    angles, by_atom = torsions(points, quartets)
    columns = sines_and_cosines(angles)
    values, gradients = variable.values_and_gradients(columns)
    slopes = gradients[:, 0::2] * columns[:, 1::2] - gradients[:, 1::2] * columns[:, 0::2]
    by_point = np.zeros(points.shape)
    for angle, four in enumerate(quartets.tolist()):
        for place, atom in enumerate(four):
            by_point[:, atom] += slopes[:, angle, None] * by_atom[:, angle, place]
    return values, np.sqrt(thermal * (by_point**2).sum(axis=-1) @ (1.0 / masses))


def hill_width(time_step: float, speeds: FloatArray) -> float:
    """Width of the narrowest hills that are not jumped over, in units of the collective variable.

    Parameters
    ----------
    time_step : float
        In ps.
    speeds : (n_frames,) array
        Of `thermal_speeds`.

    Examples
    --------
    >>> hill_width(0.002, np.array([1.0, 40.0, 3.0]))
    0.2
    """
    return STEPS_PER_WIDTH * time_step * float(speeds.max())
