"""Interpreter of the few actions of PLUMED that exports consist of, and of nothing else: anything unknown is an error.

Scalars have shape (n_frames,), vectors (n_frames, n); constants are vectors (n,) or matrices (n, m).
"""

from __future__ import annotations

import re
from typing import Any

import mdtraj as md
import numpy as np
from numpy.typing import NDArray

KEYWORDS = {
    "TORSION": {"ATOMS"},
    "CONSTANT": {"VALUES", "NROWS", "NCOLS"},
    "CONCATENATE": {"ARG"},
    "MATRIX_VECTOR_PRODUCT": {"ARG"},
    "CUSTOM": {"ARG", "VAR", "FUNC", "PERIODIC"},
    "COMBINE": {"ARG", "COEFFICIENTS", "PERIODIC"},
    "SUM": {"ARG", "PERIODIC"},
    "PRINT": {"ARG", "FILE", "STRIDE", "FMT"},
}
FUNCTIONS = {"sin": np.sin, "cos": np.cos, "exp": np.exp, "log": np.log}


class Plumed:
    """Values of all labels for the frames of a trajectory, and what is printed."""

    def __init__(self, text: str, points: NDArray[np.float64], **known: NDArray[np.float64]) -> None:
        self.points = points
        self.values: dict[str, NDArray[np.float64]] = dict(known)
        self.printed: NDArray[np.float64] | None = None
        self.actions: list[str] = []
        for line in text.splitlines():
            if line and not line.startswith("#"):
                self._run(line)

    def _run(self, line: str) -> None:
        label, action, words = re.fullmatch(r"(?:(\w+): )?([A-Z_]+) (.*)", line).groups()  # type: ignore[union-attr]
        self.actions.append(action)
        options: dict[str, str] = dict(word.split("=", 1) for word in words.split() if word != "NOPBC")
        known = {re.sub(r"\d+$", "", key) for key in options}
        assert known <= KEYWORDS[action], line[:80]
        assert "NOPBC" not in words.split() or action == "TORSION"
        assert "PERIODIC" not in KEYWORDS[action] or options["PERIODIC"] == "NO"
        if action == "PRINT":
            self.printed = self.values[options["ARG"]]
            return
        assert label not in self.values, f"{label} is there twice"
        self.values[label] = getattr(self, f"_{action.lower()}")(options)

    def _arguments(self, options: dict[str, str]) -> list[NDArray[np.float64]]:
        return [self.values[name] for name in options["ARG"].split(",")]

    def _torsion(self, options: dict[str, str]) -> NDArray[np.float64]:
        fours = [[int(atom) - 1 for atom in atoms.split(",")] for atoms in options.values()]
        assert list(options) in (["ATOMS"], [f"ATOMS{k}" for k in range(1, len(fours) + 1)])
        angles = dihedrals(self.points, np.array(fours))
        return angles[:, 0] if list(options) == ["ATOMS"] else angles

    def _constant(self, options: dict[str, str]) -> NDArray[np.float64]:
        numbers = np.array([float(number) for number in options["VALUES"].split(",")])
        if "NROWS" in options:
            return numbers.reshape(int(options["NROWS"]), int(options["NCOLS"]))
        return numbers

    def _concatenate(self, options: dict[str, str]) -> NDArray[np.float64]:
        return np.stack(self._arguments(options), axis=-1)

    def _matrix_vector_product(self, options: dict[str, str]) -> NDArray[np.float64]:
        matrix, vector = self._arguments(options)
        assert matrix.ndim == 2
        assert min(matrix.shape) > 1, "PLUMED would take it for a vector"
        return np.asarray(vector @ matrix.T)

    def _custom(self, options: dict[str, str]) -> NDArray[np.float64]:
        arguments = self._arguments(options)
        names = options.get("VAR", ",".join("xyz"[: len(arguments)])).split(",")
        variables: dict[str, Any] = dict(zip(names, arguments, strict=True))
        assert re.fullmatch(r"[\w.+\-*/()]+", options["FUNC"])
        value: NDArray[np.float64] = eval(options["FUNC"], {"__builtins__": {}, **FUNCTIONS}, variables)
        return value

    def _combine(self, options: dict[str, str]) -> NDArray[np.float64]:
        coefficients = [float(number) for number in options["COEFFICIENTS"].split(",")]
        return np.asarray(sum(c * x for c, x in zip(coefficients, self._arguments(options), strict=True)))

    def _sum(self, options: dict[str, str]) -> NDArray[np.float64]:
        (vector,) = self._arguments(options)
        assert vector.ndim == 2
        return np.asarray(vector.sum(axis=1))


def dihedrals(points: NDArray[np.float64], fours: NDArray[np.intp]) -> NDArray[np.float64]:
    """Dihedral angles by projection on the plane across the middle bond: not the formula of the package."""
    a, b, c, d = np.moveaxis(points[:, fours], 2, 0)
    axis = (c - b) / np.linalg.norm(c - b, axis=-1, keepdims=True)
    one, other = ((v - (v * axis).sum(axis=-1, keepdims=True) * axis) for v in (a - b, d - c))
    return np.asarray(np.arctan2((np.cross(axis, one) * other).sum(axis=-1), (one * other).sum(axis=-1)))


def run(text: str, trajectory: md.Trajectory) -> Plumed:
    """Run an input on the frames of a trajectory."""
    return Plumed(text, trajectory.xyz.astype(np.float64))
