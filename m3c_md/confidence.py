"""Confidence bands of resampled numbers: one rule for tables and for pictures."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from m3c_md.arrays import FloatArray

# Bands and error bars hold this share of the samples, as in deeptime's pictures.
CONFIDENCE = 0.95
TAILS = (0.025, 0.975)


def confidence_band(samples: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Bounds that hold 95 % of the samples (last axis) that are numbers; NaN where there is no such sample.

    Bounds are samples themselves: nothing is interpolated between them, so infinite ones (of timescales) do no harm.

    Examples
    --------
    >>> low, high = confidence_band([[*range(101), np.nan], [np.nan] * 102])
    >>> low.tolist(), high.tolist()
    ([2.0, nan], [98.0, nan])
    >>> low, high = confidence_band([1.0, 2.0, np.inf])
    >>> low.item(), high.item()
    (1.0, inf)
    """
    values = np.asarray(samples, dtype=np.float64)
    bounds = np.full((2, *values.shape[:-1]), np.nan)
    known = ~np.isnan(values).all(axis=-1)
    if known.any():
        bounds[:, known] = np.nanquantile(values[known], TAILS, axis=-1, method="nearest")
    return bounds[0], bounds[1]
