"""Data of a fit as windows, and what there is to say about the data and about what was found in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import (
    ConvergenceWarning,
    InputError,
    M3CWarning,
    RareStateWarning,
    ShortTrajectoryWarning,
    UnrelatedPairWarning,
)
from m3c_md.frames.cluster import is_dask
from m3c_md.frames.windows import WindowSet, windows_of_pairs, windows_of_trajectories
from m3c_md.inputs.coordinates import check_coordinates
from m3c_md.inputs.dataset import Dataset
from m3c_md.inputs.dihedral_columns import DihedralColumns, check_same_columns
from m3c_md.inputs.trajectories import as_time_lagged_pair, column_names, is_list_of_arrays
from m3c_md.partitions.nearest import Clustering, at_most_distinct

Note = tuple[str, type[M3CWarning]]

# A state with a smaller share of the frames is worth a warning, whatever the method.
RARE = 0.01
# Pairs of frames a lag time apart, if there are so many, are correlated by so much in some coordinate.
LEAST_CORRELATED_PAIRS = 100
LEAST_CORRELATION = 0.1
# Windows, and windows per column, from which on metrics compete by default: among many columns some tell any labels of
# few windows apart by chance (sequences of 1,000 windows: twice the errors with a metric that was learned).
FEWEST_TO_LEARN = 1500
WINDOWS_TO_LEARN = 10
# A kernel so much wider than the data is a constant to double precision, one so much narrower sees single frames.
MOST_WIDTHS = 1e6


@dataclass(frozen=True)
class LaggedPair:
    """Frames X, the frames Y one lag time later, and the names of their columns."""

    first: FloatArray
    second: FloatArray
    columns: list[str] | None


def training_set(data: Any) -> Dataset | LaggedPair:
    """Data of a fit, checked: trajectories, or the pair that a tuple of two arrays is by deeptime's convention."""
    check_coordinates(data)
    if isinstance(data, tuple) and len(data) == 2:
        return LaggedPair(*as_time_lagged_pair(data), column_names(data))
    return Dataset.of(data)


def columns_of_featurizer(featurizer: Any) -> DihedralColumns | None:
    """Columns that a featuriser makes, and the atoms behind them; None where none is given."""
    if featurizer is None:
        return None
    if not callable(getattr(featurizer, "dihedral_columns", None)):
        raise InputError(f"featurizer={featurizer!r:.60} must be the DihedralFeaturizer that made the data")
    found: DihedralColumns = featurizer.dihedral_columns()
    return found


def check_made_of(data: Dataset | LaggedPair, columns: DihedralColumns | None) -> None:
    """Refuse a featuriser that has not made the data."""
    if columns is not None:
        n_columns = data.first.shape[1] if isinstance(data, LaggedPair) else data.n_columns
        check_same_columns(data.columns, columns.columns, n_columns)


def transition_pairs(data: Dataset | LaggedPair, lagtime: int) -> tuple[WindowSet, list[Note]]:
    """All pairs of frames a lag time apart, and a note where trajectories are too short to have one."""
    if isinstance(data, LaggedPair):
        return windows_of_pairs(data.first, data.second), unrelated_pair_notes(data.first, data.second)
    notes = short_notes(data, lagtime)
    return windows_of_trajectories(data.arrays(reach=lagtime), lagtime), notes


def unrelated_pair_notes(first: FloatArray, second: FloatArray) -> list[Note]:
    """Say so if frames and those one lag time later have nothing to do with each other: two trajectories, most likely.

    Metastable coordinates have a correlation with themselves one lag time later; one of them is enough.
    """
    if len(first) < LEAST_CORRELATED_PAIRS:
        return []
    x, y = first - first.mean(axis=0), second - second.mean(axis=0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        correlation = (x * y).sum(axis=0) / np.sqrt((x * x).sum(axis=0) * (y * y).sum(axis=0))
    largest = float(np.nan_to_num(correlation, nan=0.0).max())
    message = (
        f"a tuple of two arrays is read as frames X and the frames Y one lag time later, but no column of X is "
        f"correlated with that of Y (at most {largest:.2f}); if these are two trajectories, give them as a list"
    )
    return [(message, UnrelatedPairWarning)] if largest < LEAST_CORRELATION else []


def short_notes(data: Dataset, lagtime: int) -> list[Note]:
    """Say so if trajectories have no transition pair; one of them must have one."""
    short = data.too_short(lagtime)
    note = f"{short} and take no part in the fit; choose a shorter lag time to use them"
    return [(note, ShortTrajectoryWarning)] if short else []


def single_frames(data: Dataset | LaggedPair) -> WindowSet:
    """Every frame as a window of its own."""
    if isinstance(data, LaggedPair):
        pair = windows_of_trajectories([data.first, data.second], lagtime=1, n_slices=1)
        return replace(pair, lengths=())  # X and Y are no trajectories
    return windows_of_trajectories(data.arrays(), lagtime=1, n_slices=1)


def check_distinct(windows: WindowSet, n_states: int) -> None:
    """Refuse more states than there are different frames (where all are equal, `prepare_problem` has its own words)."""
    if len(windows.frames) == 1:
        raise InputError(f"n_states={n_states}, but there is a single frame (1 sample); give trajectories")
    available = at_most_distinct(windows.frames, n_states)
    if 1 < available < n_states:
        raise InputError(f"n_states={n_states}, but there are only {available} distinct frames; ask for fewer states")


def clustering_notes(found: Clustering, name: str, remedy: str) -> list[Note]:
    """Say so if a clustering that is part of the result ended at its limit."""
    message = f"{name} reached its limit on iterations before its {len(found.centers)} centres stood still; {remedy}"
    return [] if found.converged else [(message, ConvergenceWarning)]


def rare_state_notes(populations: FloatArray, remedy: str) -> list[Note]:
    """Return a warning if a state has hardly any frames; states without any are not counted."""
    smallest = float(populations[populations > 0.0].min())
    message = f"the smallest state has {smallest:.2%} of the frames, less than {RARE:.0%}; {remedy}"
    return [(message, RareStateWarning)] if smallest < RARE else []


def as_given(data: Any) -> list[Any]:
    """Trajectories as they were given, nothing checked."""
    return list(data) if is_list_of_arrays(data) else [data]


def check_lengths(data: Any) -> None:
    """Refuse Dask arrays that do not know how long they are."""
    for i, x in enumerate(as_given(data)):
        if is_dask(x) and any(np.isnan(n) for n in x.shape):
            raise InputError(
                f"trajectory {i} is a Dask array of shape {x.shape}; call its method compute_chunk_sizes() first"
            )


def check_widths(bandwidths: Sequence[float], usual: Sequence[float]) -> None:
    """Refuse bandwidths of another order than the data."""
    for bandwidth in bandwidths:
        if not usual[0] / MOST_WIDTHS <= bandwidth <= usual[-1] * MOST_WIDTHS:
            raise InputError(
                f"bandwidth={bandwidth:.6g} is far from the distances between frames; 'auto' would try "
                f"{usual[0]:.3g} to {usual[-1]:.3g}"
            )


def enough_to_learn(windows: WindowSet) -> bool:
    """Whether there are so many windows, and so many to a column, that a metric is not that of chance."""
    return bool(windows.n_windows >= max(FEWEST_TO_LEARN, WINDOWS_TO_LEARN * windows.frames.shape[1]))
