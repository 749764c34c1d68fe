"""The matrix of curvature of the smoothed risk, from windows with several supporting label tuples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.exceptions import InputError
from m3c_md.optimize.blocks import Blocks, PassSums, WindowBlock
from m3c_md.optimize.kernels import compiled
from m3c_md.optimize.window_loss import (
    label_tuples,
    orthonormal_contrasts,
)

# Rows that may enter the Hessian of a whole pass: beyond this, more rows cost more than the better step saves. But with
# fewer windows for each unknown than this, steps are ten times too long, and hundreds of passes may not be enough; and
# the rows must fit into memory (a quarter of a gigabyte).
MAX_HESSIAN_ROWS = 3000
WINDOWS_PER_UNKNOWN = 2
MAX_HESSIAN_ENTRIES = 3 * 10**7


def curvature(blocks: Blocks, sums: PassSums, n_states: int, smoothing: float, *, thorough: bool = False) -> FloatArray:
    """Generalised Hessian of the smoothed risk in contrast coordinates, (p, p), p = (n_states - 1)(n_features + 1).

    Σ c_n J_nᵀ (I_S - 11ᵀ/|S|) J_n / μ over windows with supporting tuples S. It touches only the curved windows, and
    only some of them, equally spaced, where they are many: Newton's method mostly does not need more. A ``thorough``
    one has all that fit into memory.
    """
    n_windows, n_members = sums.n_curved
    stride = hessian_stride(n_windows, n_members, n_states * sums.gradient.shape[1], thorough=thorough)
    total: FloatArray | None = None
    for block, (windows, support) in zip(blocks, sums.kinks, strict=True):
        rows = _curvature_rows(
            block, np.ascontiguousarray(windows[::stride]), np.ascontiguousarray(support[::stride]), n_states
        )
        part = np.asarray(rows.T @ rows, dtype=np.float64)
        total = part if total is None else total + part
    if total is None:
        raise InputError("no blocks: the problem has no data")
    total *= stride / smoothing
    return total


def hessian_stride(n_windows: int, n_members: int, n_unknowns: int, *, thorough: bool = False) -> int:
    """Distance between the curved windows, with so many supporting tuples, that stand for all in the Hessian.

    Examples
    --------
    >>> hessian_stride(10_000, 20_000, 100), hessian_stride(4000, 8000, 2000), hessian_stride(40_000, 80_000, 10_000)
    (4, 1, 14)
    """
    n_rows = n_members - n_windows
    stride = min(-(-n_rows // MAX_HESSIAN_ROWS), n_windows // (WINDOWS_PER_UNKNOWN * n_unknowns))
    return max(1, 1 if thorough else stride, -(-n_rows * n_unknowns // MAX_HESSIAN_ENTRIES))


def _curvature_rows(
    block: WindowBlock, windows: IntArray, support: NDArray[np.bool_], n_states: int
) -> NDArray[np.floating]:
    """Matrix A with AᵀA = Σ c_n J_nᵀ (I_S - 11ᵀ/|S|) J_n.

    Windows are grouped by |S|; an orthonormal basis of the contrasts among |S| tuples turns each window into |S| - 1
    rows.
    """
    n_slices, n_features, n_contrasts = len(block.windows), block.features.shape[1], n_states - 1
    loops = compiled()
    if loops is not None:
        rows = np.zeros((int(support.sum()) - len(support), n_contrasts, n_features + 1), block.features.dtype)
        basis = orthonormal_contrasts(n_states)
        loops.curvature_loop(block.features, block.windows, block.weights, windows, support, basis, rows)
        return rows.reshape(len(rows), n_contrasts * (n_features + 1))
    coordinates = orthonormal_contrasts(n_states)[label_tuples(n_slices, n_states)]
    sizes = support.sum(axis=1)
    matrix = np.zeros((int((sizes - 1).sum()), n_contrasts, n_features + 1))
    done = 0
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        tuples = np.nonzero(support[chosen])[1].reshape(-1, size)
        factors = np.einsum("wtip,tr->iwrp", coordinates[tuples], orthonormal_contrasts(int(size)))
        factors *= np.sqrt(block.weights[windows[chosen]])[None, :, None, None]
        n_rows = len(chosen) * (size - 1)
        rows = matrix[done : done + n_rows].reshape(len(chosen), size - 1, n_contrasts, n_features + 1)
        for i in range(n_slices):
            features = block.features[block.windows[i, windows[chosen]]]
            rows[..., :n_features] += factors[i][..., None] * features[:, None, None, :]
            rows[..., n_features] += factors[i]
        done += n_rows
    return matrix.reshape(len(matrix), n_contrasts * (n_features + 1))
