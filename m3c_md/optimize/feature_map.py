"""Explicit feature maps of the Gaussian kernel exp(-|x - x'|² / (2σ²)), and the kernel itself.

Both maps have the form φ(x) = sqrt(2/d) cos((x - centre) Ω + phases), so that a model stores three small arrays
whichever way the frequencies Ω were drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from m3c_md.arrays import FloatArray

FeatureKind = Literal["orthogonal", "fourier"]


@dataclass(frozen=True)
class FourierMap:
    """φ(x) = sqrt(2/d) cos((x - centre) Ω + phases), whose inner products approximate a Gaussian kernel.

    Attributes
    ----------
    frequencies : (n_columns, n_features) array
        Ω, in units of the inverse bandwidth.
    phases : (n_features,) array
        Offsets of the cosines.
    center : (n_columns,) array
        Subtracted first: the kernel does not change, rounding errors of data far from the origin do.
    """

    frequencies: FloatArray
    phases: FloatArray
    center: FloatArray

    @property
    def n_columns(self) -> int:
        """Number of coordinates of a point."""
        return int(self.frequencies.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return int(self.frequencies.shape[1])

    def __call__(self, points: ArrayLike, dtype: type[np.floating] = np.float64) -> NDArray[np.floating]:
        """Map points (n, n_columns) to features (n, n_features); single precision takes a quarter of the time."""
        x = np.asarray(points, dtype=np.float64) - self.center
        frequencies = self.frequencies
        if dtype != np.float64:
            # In units of the frequencies, and after the centre is subtracted, points of any unit survive the rounding.
            unit = np.abs(frequencies).max(axis=1)
            unit[unit == 0.0] = 1.0
            x, frequencies = (x * unit).astype(dtype), (frequencies / unit[:, None]).astype(dtype)
        angles = x @ frequencies
        angles += self.phases.astype(dtype, copy=False)
        np.cos(angles, out=angles)
        angles *= dtype(np.sqrt(2.0 / self.n_features))
        return angles

    def with_bandwidth(self, bandwidth: float, scale: ArrayLike = 1.0) -> FourierMap:
        """Return the map of kernel width ``bandwidth`` on columns divided by ``scale`` (this one has both 1).

        All bandwidths of a search share one draw of frequencies: their objectives are then compared on common
        random numbers.
        """
        column_scale = np.broadcast_to(np.asarray(scale, dtype=np.float64), self.center.shape)
        return FourierMap(self.frequencies / (bandwidth * column_scale[:, None]), self.phases, self.center)


def draw_fourier_map(
    n_columns: int,
    n_features: int,
    rng: np.random.Generator,
    *,
    kind: FeatureKind = "orthogonal",
    center: ArrayLike | None = None,
) -> FourierMap:
    """Draw a feature map of the Gaussian kernel of width 1.

    Parameters
    ----------
    n_columns, n_features : int
        Number of coordinates of a point and of features; ``n_features`` is rounded up to an even number for
        orthogonal features, which come in cosine/sine pairs.
    rng : numpy.random.Generator
        Source of randomness.
    kind : "orthogonal" or "fourier"
        "fourier": independent normal frequencies and uniform phases (Rahimi and Recht, the paper's choice).
        "orthogonal": cosine/sine pairs whose frequencies are orthogonal within blocks of ``n_columns`` (Yu et al.
        2016): same expectation, smaller variance.
    center : (n_columns,) array, optional
        Point that is moved to the origin.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> points = rng.normal(size=(5, 2))
    >>> phi = draw_fourier_map(2, 4000, rng)(points)
    >>> bool(np.abs(phi @ phi.T - gaussian_kernel(points, points, 1.0)).max() < 0.05)
    True
    """
    if kind == "fourier":
        frequencies = rng.normal(size=(n_columns, n_features))
        phases = rng.uniform(0.0, 2.0 * np.pi, size=n_features)
    else:
        n_pairs = -(-n_features // 2)
        half = _orthogonal_frequencies(n_columns, n_pairs, rng)
        frequencies = np.hstack([half, half])
        phases = np.repeat([0.0, -0.5 * np.pi], n_pairs)
    middle = np.zeros(n_columns) if center is None else np.asarray(center, dtype=np.float64)
    return FourierMap(frequencies, phases, middle)


def _orthogonal_frequencies(n_columns: int, n_frequencies: int, rng: np.random.Generator) -> FloatArray:
    """Frequencies with normal marginals, orthogonal within blocks of ``n_columns``."""
    n_blocks = -(-n_frequencies // n_columns)
    directions, triangular = np.linalg.qr(rng.normal(size=(n_blocks, n_columns, n_columns)))
    # Without the signs of R's diagonal, LAPACK's Q is not uniform on the orthogonal group.
    signs = np.sign(np.diagonal(triangular, axis1=1, axis2=2))
    directions = directions * signs[:, None, :]
    lengths = np.sqrt(rng.chisquare(n_columns, size=(n_blocks, 1, n_columns)))
    columns = np.concatenate(list(directions * lengths), axis=1)
    return np.ascontiguousarray(columns[:, :n_frequencies])


def gaussian_kernel(points: ArrayLike, others: ArrayLike, bandwidth: float) -> FloatArray:
    """Evaluate exp(-|x - x'|² / (2 bandwidth²)) for all pairs of rows.

    Examples
    --------
    >>> float(gaussian_kernel([[0.0]], [[1.0]], 1.0)[0, 0].round(4))
    0.6065
    """
    from scipy.spatial.distance import cdist

    squared = cdist(np.asarray(points, dtype=np.float64), np.asarray(others, dtype=np.float64), "sqeuclidean")
    kernel: FloatArray = np.exp(squared / (-2.0 * bandwidth**2))
    return kernel
