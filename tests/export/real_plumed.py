"""PLUMED itself, by its ``plumed driver``, where there is one on the PATH.

A wheel that brings the program along: ``python -m pip install --no-deps hillclimber``.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# The first version with actions on vectors.
OF_VECTORS = (2, 10)


class Driven(NamedTuple):
    """What PLUMED printed for each frame, and the forces that the variable as an energy puts on all atoms."""

    printed: NDArray[np.float64]
    forces: NDArray[np.float64]


@functools.cache
def version() -> tuple[int, int] | None:
    """Version of the `plumed` on the PATH; None if there is none that runs."""
    if shutil.which("plumed") is None:
        return None
    said = subprocess.run(["plumed", "info", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"^(\d+)\.(\d+)", said, re.MULTILINE)
    return (int(found[1]), int(found[2])) if found else None


def drive(text: str, points: NDArray[np.float64], folder: Path) -> Driven:
    """Run an input on frames (n_frames, n_atoms, 3) in nm.

    The variable is added as an energy in kJ/mol, whose forces PLUMED writes down in kJ/mol/nm.
    """
    name = re.findall(r"^PRINT ARG=(\S+)", text, re.MULTILINE)[-1]
    (folder / "plumed.dat").write_text(f"{text}energy_of_variable: BIASVALUE ARG={name}\n", encoding="utf-8")
    with (folder / "frames.xyz").open("w") as file:
        for frame in points.astype(np.float64):
            file.write(f"{len(frame)}\n0 0 0\n")  # no box
            file.writelines("X {:.17g} {:.17g} {:.17g}\n".format(*atom) for atom in frame.tolist())
    options = ["--plumed", "plumed.dat", "--ixyz", "frames.xyz", "--length-units", "nm"]
    options += ["--dump-forces", "forces", "--dump-forces-fmt", "%.12g"]
    run = subprocess.run(["plumed", "driver", *options], cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    return Driven(read_colvar(folder / "COLVAR"), _read_forces(folder / "forces"))


def read_colvar(path: Path) -> NDArray[np.float64]:
    """Second column of what PRINT wrote; the first is the time."""
    return np.loadtxt(path, ndmin=2)[:, 1]


def _read_forces(path: Path) -> NDArray[np.float64]:
    lines = path.read_text().splitlines()
    n_atoms = int(lines[0])
    frames = [lines[k + 2 : k + 2 + n_atoms] for k in range(0, len(lines), n_atoms + 2)]
    return np.array([[line.split()[1:4] for line in frame] for frame in frames], dtype=np.float64)
