"""Metrics as users give them: by name, as a matrix, or as a fitted linear transformer."""

from __future__ import annotations

import warnings
from typing import Any, get_args

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError
from m3c_md.frames.windows import equally_spaced
from m3c_md.inputs.settings import check_choice
from m3c_md.optimize.metric import Metric, root_mean_square_distance
from m3c_md.search.metrics import MetricChoice

GIVEN = "given"
# Frames on which it is seen whether a transformer is linear, and by which share of what comes out of it may be off:
# some transformers compute in single precision.
PROBED = 50
ROUNDING = 1e-3
REMEDY = f"give one of {', '.join(map(repr, get_args(MetricChoice)))}, a matrix, or a fitted linear transformer"


def check_metric(metric: Any, *, timeless: bool) -> None:
    """Check all of a metric that can be checked without data; ``timeless`` if windows are single frames."""
    if isinstance(metric, str):
        check_choice("metric", metric, get_args(MetricChoice))
        if timeless and metric == "kinetic":
            raise InputError(
                "metric='kinetic' needs pairs of frames, and here is no lag time; use 'auto' or 'standard'"
            )
    elif isinstance(metric, type):
        raise InputError(f"metric={metric!r:.60} is a class; give one of its instances, fitted to the data")
    elif not hasattr(metric, "transform"):
        _matrix(metric)


def checked_metric(metric: Any, frames: FloatArray) -> MetricChoice | Metric:
    """Return a metric by name, or the one that was given as a matrix or as a fitted linear transformer."""
    if isinstance(metric, str):
        return metric  # type: ignore[return-value]
    n_columns = frames.shape[1]
    matrix = _matrix_of(metric, frames) if hasattr(metric, "transform") else _matrix(metric)
    if len(matrix) != n_columns:
        raise InputError(
            f"metric has the shape {matrix.shape} for data with {n_columns} columns; give a matrix of the shape "
            f"({n_columns}, n), whose columns are the coordinates to take distances in, or {n_columns} factors"
        )
    # Distances are brought to the unit of all metrics later, so the size of the numbers says nothing.
    given = Metric(GIVEN, matrix / np.abs(matrix).max())
    varied = root_mean_square_distance(given(frames - frames.mean(axis=0)))
    if not varied > 1e-12 * root_mean_square_distance(frames):
        raise InputError(f"metric={metric!r:.60} makes all frames equal; include columns that vary, or use 'auto'")
    return given


def _matrix(metric: Any) -> FloatArray:
    """Return factors of columns or a matrix, of numbers that are finite and not all zero."""
    try:
        matrix = np.asarray(metric)
        numeric = matrix.dtype.kind in "iuf"
        matrix = matrix.astype(np.float64) if numeric else matrix
    except (TypeError, ValueError):  # lists of different length
        numeric = False
    if not numeric or matrix.ndim not in (1, 2) or matrix.size == 0:
        raise InputError(f"metric={metric!r:.60} is neither a name nor a matrix of numbers; {REMEDY}")
    if not np.isfinite(matrix).all():
        raise InputError(f"metric={metric!r:.60} has entries that are not finite; replace them by numbers")
    if not matrix.any():
        raise InputError(f"metric={metric!r:.60} is zero, so that all frames are alike; {REMEDY}")
    return matrix


def _matrix_of(transformer: Any, frames: FloatArray) -> FloatArray:
    """Matrix of a linear transformer: what it makes of steps along the columns from the mean of the frames."""
    center, spread = frames.mean(axis=0), frames.std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    chosen = frames[equally_spaced(len(frames), PROBED)]
    points = np.vstack([center, center + np.diag(spread), chosen])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that columns have no names here
            found = np.asarray(transformer.transform(points), dtype=np.float64)
    except Exception as error:  # whatever others raise
        raise InputError(
            f"metric={transformer!r:.60} could not transform frames of {len(center)} columns ({error}); "
            "fit it first, to the same columns"
        ) from error
    if found.ndim != 2 or len(found) != len(points) or found.shape[1] == 0 or not np.isfinite(found).all():
        raise InputError(
            f"metric={transformer!r:.60} makes of {points.shape} frames an array of shape {found.shape}, or numbers "
            f"that are not finite; {REMEDY}"
        )
    origin, matrix = found[0], (found[1 : 1 + len(center)] - found[0]) / spread[:, None]
    expected, actual = (chosen - center) @ matrix, found[1 + len(center) :] - origin
    tolerated = ROUNDING * np.abs(actual).max() + 1e-6 * np.abs(found).max()
    if np.abs(actual - expected).max() > tolerated:
        raise InputError(f"metric={transformer!r:.60} is not linear, so it is no metric of the columns; {REMEDY}")
    if not matrix.any():
        raise InputError(f"metric={transformer!r:.60} makes all frames equal; fit it to data that vary")
    return np.asarray(matrix)
