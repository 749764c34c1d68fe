"""Molecular dynamics that ships with the package: real trajectories to try things on, and the code that made them.

`alanine_dipeptide` and `deca_alanine` return it; ``README.md`` beside the files says how they were made, what they are
good for and what not to conclude from them. `read_run` reads the output of ``m3c-md simulate`` in the same way.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import mdtraj

__all__ = ["MolecularData", "alanine_dipeptide", "deca_alanine", "read_run"]

# The files are inside the package in an installation, and at the top of a clone.
_INSTALLED = Path(__file__).parent / "files"
SHIPPED = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parents[2] / "data"
DIHEDRALS = "_dihedrals.npy"


@dataclass(frozen=True, repr=False)
class MolecularData:
    """Trajectories of one molecule.

    Attributes
    ----------
    folder : Path
        Where the files are.
    angles : list of arrays (n_frames, n_angles) of float32
        Backbone dihedrals in radians, one array per trajectory.
    angle_names : list of str
        For example ``"phi ALA 2"``, in the order of the columns of ``angles``.
    dt : float
        Time between two frames.
    unit : str
        Unit of ``dt``.
    temperature : float
        In kelvin.

    Examples
    --------
    >>> data = alanine_dipeptide()
    >>> len(data.angles), data.angles[0].shape, data.features[0].shape, data.dt, data.unit
    (20, (10000, 2), (10000, 4), 2.0, 'ps')
    """

    folder: Path
    angles: list[NDArray[np.float32]]
    angle_names: list[str]
    dt: float
    unit: str
    temperature: float

    @functools.cached_property
    def features(self) -> list[NDArray[np.float32]]:
        """Sines and cosines of the angles, (n_frames, 2 n_angles): the columns of `m3c_md.DihedralFeaturizer`."""
        return [np.stack([np.sin(x), np.cos(x)], axis=-1).reshape(len(x), -1) for x in self.angles]

    @property
    def columns(self) -> list[str]:
        """Names of the columns of ``features``."""
        return [f"{function} {angle}" for angle in self.angle_names for function in ("sin", "cos")]

    @functools.cached_property
    def topology(self) -> mdtraj.Topology:
        """Atoms and bonds of the molecule."""
        import mdtraj

        return mdtraj.load_topology(str(self.topology_file))

    @property
    def topology_file(self) -> Path:
        """PDB file with a start structure."""
        return self.folder / "topology.pdb"

    @property
    def trajectory_files(self) -> list[Path]:
        """XTC files with the coordinates of the first trajectories; the others have only angles."""
        finished = (path.with_name(f"{path.name.removesuffix(DIHEDRALS)}.xtc") for path in _finished(self.folder))
        return [path for path in finished if path.is_file()]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def __str__(self) -> str:
        n_frames = sum(map(len, self.angles))
        return (
            f"{len(self.angles)} trajectories, {n_frames} frames every {self.dt:g} {self.unit}, "
            f"{len(self.angle_names)} backbone dihedrals, {self.temperature:g} K; "
            f"coordinates of {len(self.trajectory_files)}"
        )


def alanine_dipeptide() -> MolecularData:
    """20 trajectories of 20 ns of alanine dipeptide (Ace-Ala-NMe) at 500 K, a frame every 2 ps.

    Examples
    --------
    >>> data = alanine_dipeptide()
    >>> len(data.features), data.features[0].shape, data.columns[0]
    (20, (10000, 4), 'sin phi ALA 2')
    """
    return read_run(SHIPPED / "alanine_dipeptide")


def deca_alanine() -> MolecularData:
    """Trajectories of deca-alanine (Ala10 with charged ends), which folds and unfolds; see ``README.md`` for how often.

    Examples
    --------
    >>> data = deca_alanine()
    >>> data.features[0].shape[1], data.angle_names[:3]
    (36, ['psi ALA 1', 'phi ALA 2', 'psi ALA 2'])
    """
    return read_run(SHIPPED / "deca_alanine")


def read_run(folder: Path | str) -> MolecularData:
    """Read the finished trajectories of a run of ``m3c-md simulate``.

    Parameters
    ----------
    folder : path
        What ``--out`` was.

    Examples
    --------
    The shipped data are such a folder:

    >>> read_run(alanine_dipeptide().folder).temperature
    500.0
    """
    from m3c_md.data.simulate import SETTINGS, TOPOLOGY, read_settings
    from m3c_md.disk import checked_path
    from m3c_md.exceptions import InputError
    from m3c_md.features import DihedralFeaturizer

    folder = checked_path("folder", folder)
    if not (folder / SETTINGS).is_file():
        raise InputError(f"{folder} has no {SETTINGS}; give a folder that m3c-md simulate has written to")
    files = _finished(folder)
    if not files:
        raise InputError(f"{folder} has no finished trajectory; run m3c-md simulate again, it goes on where it was")
    settings = read_settings(folder)
    names = DihedralFeaturizer(sincos=False).describe(folder / TOPOLOGY)
    angles = [_read_angles(file, len(names)) for file in files]
    return MolecularData(folder, angles, list(names), settings.spacing, "ps", settings.temperature)


def _finished(folder: Path) -> list[Path]:
    """Files of angles, in the order of the trajectories' numbers."""
    files = folder.glob(f"traj_*{DIHEDRALS}")
    return sorted(files, key=lambda path: (len(path.name), path.name))


def _read_angles(file: Path, n_angles: int) -> NDArray[np.float32]:
    """Angles of one trajectory, of which there must be as many as the topology has."""
    from m3c_md.disk import read_array
    from m3c_md.exceptions import InputError

    angles = read_array(file)
    if angles.dtype != np.float32 or angles.ndim != 2 or angles.shape[1] != n_angles or len(angles) == 0:
        raise InputError(
            f"{file} has dtype {angles.dtype} and shape {angles.shape}, not float32 and (n_frames, {n_angles}); it "
            "does not belong to this run, remove it"
        )
    if not np.isfinite(angles).all():
        raise InputError(f"{file} holds angles that are not finite; remove it and run m3c-md simulate again")
    return angles.astype(np.float32, copy=False)
