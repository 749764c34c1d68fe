"""A collective variable as a TorchScript module, for PYTORCH_MODEL of PLUMED and for openmm-torch."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal

import numpy as np

from m3c_md.exceptions import InputError
from m3c_md.export.variable import STEEPNESS, CollectiveVariable
from m3c_md.inputs.dihedral_columns import DihedralColumns

if TYPE_CHECKING:
    import torch

Inputs = Literal["positions", "columns"]


def torch_module(variable: CollectiveVariable, columns: DihedralColumns | None) -> torch.jit.ScriptModule:
    """TorchScript module in double precision.

    Parameters
    ----------
    variable : CollectiveVariable
    columns : DihedralColumns or None
        Atoms of the columns: the module then takes positions (n_atoms, 3) of any unit and returns a number. None: it
        takes columns, (n_columns,) or (n_frames, n_columns), and returns (1,) or (n_frames, 1).
    """
    try:
        import torch
    except ImportError as error:
        raise InputError(
            'to_torch needs PyTorch, which is not installed; python -m pip install "m3c_md[deep]"'
        ) from error

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array))

    class Variable(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            for name in ("frequencies", "amplitudes", "phases", "offsets"):
                self.register_buffer(name, tensor(getattr(variable, name)))
            is_own = np.arange(variable.n_differences) < variable.n_own
            self.register_buffer("own", tensor(is_own.astype(np.float64)))

        def forward(self, x):  # type: ignore[no-untyped-def]
            angles = (x.to(self.frequencies.dtype) @ self.frequencies).unsqueeze(-1) + self.phases
            differences = (torch.cos(angles) * self.amplitudes).sum(dim=-2) + self.offsets
            if variable.kind == "difference" and not variable.has_merged:
                return differences
            powers = torch.exp(-STEEPNESS * differences)
            # By products, since slices would be traced for the shape of the example alone.
            own = 1.0 + (powers * self.own).sum(dim=-1, keepdim=True)
            others = (powers * (1.0 - self.own)).sum(dim=-1, keepdim=True)
            if variable.kind == "membership":
                return own / (own + others)
            return torch.log(own / others) / STEEPNESS

    class OfPositions(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, quartets: np.ndarray) -> None:
            super().__init__()
            self.variable = Variable()
            self.register_buffer("quartets", tensor(quartets))

        def forward(self, positions):  # type: ignore[no-untyped-def]
            four = positions.to(torch.float64)[self.quartets]
            f, g, h = four[:, 0] - four[:, 1], four[:, 1] - four[:, 2], four[:, 3] - four[:, 2]
            a, b = torch.linalg.cross(f, g), torch.linalg.cross(h, g)
            sine = (torch.linalg.cross(b, a) * g).sum(dim=-1) / torch.linalg.vector_norm(g, dim=-1)
            cosine = (a * b).sum(dim=-1)
            length = torch.sqrt(sine * sine + cosine * cosine)
            return self.variable(torch.stack([sine / length, cosine / length], dim=-1).flatten()).squeeze()

    if columns is None:
        module, example = Variable(), torch.zeros(2, variable.n_columns, dtype=torch.float64)
    else:
        points = np.random.default_rng(0).normal(size=(int(columns.quartets.max()) + 1, 3))
        module, example = OfPositions(columns.quartets), tensor(points)
    with warnings.catch_warnings():
        # PyTorch would have us use something newer, but TorchScript is what PLUMED and openmm-torch read.
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.trace(module.eval(), example)
