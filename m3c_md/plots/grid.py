"""Rectangle that a map is drawn on, periodic or not, and the free energy of points in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.exceptions import InputError
from m3c_md.inputs.settings import check_positive

# Cells along an axis by which a point counts as near a frame or not: for few frames, and for many.
COARSEST, FINEST = 8, 60
# π, and a little more for angles in single precision.
ROUND_PI = np.pi + 1e-3


@dataclass(frozen=True)
class Domain:
    """Rectangle of the map, and along which axes it is periodic.

    Attributes
    ----------
    low, high : (2,) arrays
    period : pair of float or None
    """

    low: FloatArray
    high: FloatArray
    period: tuple[float | None, float | None]

    def edges(self, n: int) -> tuple[FloatArray, FloatArray]:
        """Edges of n cells along each axis."""
        return np.linspace(self.low[0], self.high[0], n + 1), np.linspace(self.low[1], self.high[1], n + 1)

    def centres(self, n: int) -> tuple[FloatArray, FloatArray]:
        """Centres of n cells along each axis and of one more beyond every edge, so that contours reach the edges."""
        steps = (np.arange(-1, n + 1) + 0.5) / n
        x, y = (self.low[i] + steps * (self.high[i] - self.low[i]) for i in range(2))
        return x, y

    def mesh(self, n: int) -> FloatArray:
        """All pairs of `centres`, x running fastest, moved into the period that is shown: ((n + 2)², 2)."""
        return self.wrap(np.stack(np.meshgrid(*self.centres(n)), axis=-1).reshape(-1, 2))

    def wrap(self, points: FloatArray) -> FloatArray:
        """Move points into the period that is shown; a copy."""
        wrapped = points.copy()
        for axis, period in enumerate(self.period):
            if period is not None:
                wrapped[:, axis] = (points[:, axis] + period / 2.0) % period - period / 2.0
        return wrapped

    def cells(self, points: FloatArray, n: int) -> IntArray:
        """Number of the cell of each point, of n along each axis, x running fastest."""
        column, row = (
            np.clip(np.searchsorted(edges, points[:, axis], side="right") - 1, 0, n - 1)
            for axis, edges in enumerate(self.edges(n))
        )
        return np.asarray(row * n + column)

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top, as for ``imshow``."""
        return float(self.low[0]), float(self.high[0]), float(self.low[1]), float(self.high[1])


def map_domain(points: FloatArray, periodic: tuple[float | None, float | None] | None) -> Domain:
    """Limits of the map: one period around 0, or the range of the points and 5 % more on each side.

    Examples
    --------
    >>> map_domain(np.array([[0.0, 0.0], [10.0, 2.0]]), (None, 360.0)).extent
    (-0.5, 10.5, -180.0, 180.0)
    """
    periods = (None, None) if periodic is None else tuple(periodic)
    if len(periods) != 2:
        raise InputError(f"periodic={periodic!r} must name two periods, (x, y), with None for an axis without")
    x, y = (None if period is None else check_positive("periodic", period) for period in periods)
    low, high = points.min(axis=0), points.max(axis=0)
    margin = np.where(high > low, 0.05 * (high - low), 0.5)
    low, high = low - margin, high + margin
    for axis, period in enumerate((x, y)):
        if period is not None:
            low[axis], high[axis] = -period / 2.0, period / 2.0
    return Domain(low, high, (x, y))


def free_energy(points: FloatArray, domain: Domain, bins: int) -> FloatArray:
    """-ln p of the cells in kT, (bins along y, bins along x); 0 in the densest cell, NaN in empty ones.

    Examples
    --------
    >>> square = Domain(np.zeros(2), np.ones(2), (None, None))
    >>> free_energy(np.array([[0.1, 0.9], [0.2, 0.8], [0.9, 0.9]]), square, 2).round(2).tolist()
    [[nan, nan], [0.0, 0.69]]
    """
    counts = np.histogram2d(points[:, 0], points[:, 1], bins=domain.edges(bins))[0].T
    with np.errstate(divide="ignore"):
        energy = np.log(counts.max()) - np.log(counts)
    return np.where(counts > 0, energy, np.nan)


def nearness(points: FloatArray, domain: Domain, n: int) -> FloatArray:
    """One at the points of a map of n times n that are near a frame, falling to zero further away, (y, x).

    Cells are the finer the more points there are. Cells that hold points, and those beside them, are near.

    Examples
    --------
    >>> square = Domain(np.zeros(2), np.ones(2), (None, None))
    >>> nearness(np.array([[0.05, 0.5]]), square, 8)[4].tolist()
    [1.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    from scipy.ndimage import distance_transform_edt

    cells = min(FINEST, max(COARSEST, int(len(points) ** 0.5)))
    empty = np.histogram2d(points[:, 0], points[:, 1], bins=domain.edges(cells))[0].T == 0
    beyond = [(cells, cells) if period is not None else (0, 0) for period in reversed(domain.period)]
    far = distance_transform_edt(np.pad(empty, beyond, mode="wrap"))
    (below, _), (left, _) = beyond
    fading = np.clip(1.0 - (far[below : below + cells, left : left + cells] - 1.0) / 2.0, 0.0, 1.0)
    places = (np.arange(n) + 0.5) * cells // n
    return np.asarray(fading[np.ix_(places.astype(int), places.astype(int))])


def majority_cells(
    points: FloatArray, states: IntArray, values: FloatArray, domain: Domain, bins: int
) -> tuple[IntArray, FloatArray]:
    """State of most points of every cell (-1 where there are none) and the mean of their values, (y, x).

    Examples
    --------
    >>> square = Domain(np.zeros(2), np.ones(2), (None, None))
    >>> points = np.array([[0.1, 0.9], [0.2, 0.8], [0.2, 0.7], [0.9, 0.9]])
    >>> states, means = majority_cells(points, np.array([0, 1, 1, 0]), np.array([1.0, 2.0, 3.0, 4.0]), square, 2)
    >>> states.tolist(), means.tolist()
    ([[-1, -1], [1, 0]], [[0.0, 0.0], [2.0, 4.0]])
    """
    n, cell = int(states.max()) + 1, domain.cells(points, bins)
    counts = np.bincount(cell * n + states, minlength=bins * bins * n).reshape(bins, bins, n)
    frames = counts.sum(axis=-1)
    means = np.bincount(cell, values, bins * bins).reshape(bins, bins) / np.maximum(frames, 1)
    return np.where(frames > 0, counts.argmax(axis=-1), -1), means


def check_unit(angles: list[FloatArray], unit: str | None) -> None:
    """Refuse angles that are most likely in another unit: a map of them would be a dot, or nothing but noise."""
    largest = max(float(np.abs(x).max()) for x in angles)
    if unit is None and largest <= ROUND_PI:
        raise InputError(
            f"angles lie between -{largest:.3g} and {largest:.3g}, which looks like radians (as DihedralFeaturizer "
            'gives them by sincos=False); say unit="radians", or unit="degrees" if that is what they are'
        )
    if unit == "radians" and largest > 2.0 * ROUND_PI:
        raise InputError(
            f'angles go up to {largest:.4g}, which is no angle in radians (-π to π); say unit="degrees", or divide them'
        )
