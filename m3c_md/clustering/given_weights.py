"""Weights of frames as users give them: checked, and turned into weights of windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.clustering.training_data import LaggedPair, Note
from m3c_md.exceptions import InputError, WeightsWarning
from m3c_md.frames.source import FrameBlock
from m3c_md.frames.weights import WEIGHT_BOUNDS, weights_of_ratios
from m3c_md.inputs.dataset import Dataset
from m3c_md.inputs.lengths import window_counts
from m3c_md.inputs.trajectories import is_list_of_arrays
from m3c_md.search.problem import SearchProblem


def check_weights(weights: Any) -> list[FloatArray] | None:
    """Weights of frames as users give them: one array per trajectory, positive and finite; None where none are."""
    if weights is None:
        return None
    arrays = []
    for number, given in enumerate(weights if is_list_of_arrays(weights) else [weights]):
        try:
            array = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"weights[{number}]={given!r:.60} must be an array of numbers, one per frame") from error
        if array.ndim != 1:
            raise InputError(f"weights[{number}] has shape {array.shape}; give one number per frame, (n_frames,)")
        if not (np.isfinite(array) & (array > 0.0)).all():
            wrong = int(np.argmin(np.isfinite(array) & (array > 0.0)))
            raise InputError(
                f"weights[{number}] holds {array[wrong]:.4g} at frame {wrong}; weights must be positive and finite, "
                "e.g. exp((bias - bias.max()) / kT)"
            )
        arrays.append(array)
    return arrays


def frame_weights(data: Dataset | LaggedPair, weights: list[FloatArray], shortest: int) -> FloatArray:
    """Weights of all frames that count, trajectory by trajectory; refuse weights that do not fit the data."""
    lengths = [len(data.first)] if isinstance(data, LaggedPair) else data.lengths
    if len(weights) != len(lengths):
        raise InputError(f"weights has {len(weights)} arrays for {len(lengths)} trajectories; give one for each")
    for number, (array, length) in enumerate(zip(weights, lengths, strict=True)):
        if len(array) != length:
            raise InputError(
                f"weights[{number}] has {len(array)} entries, but trajectory {number} has {length} frames; give every "
                "frame a weight"
            )
    counts = window_counts(lengths, shortest)
    largest = max(float(array.max()) for array, n in zip(weights, counts, strict=True) if n)
    return np.concatenate([array / largest for array, n in zip(weights, counts, strict=True) if n])


def uneven_notes(by_frame: FloatArray | None) -> list[Note]:
    """Say so if most of the weight is cut off by the bound on single weights, so that the fit does not see it.

    Examples
    --------
    >>> uneven_notes(np.ones(1000)), uneven_notes(None)
    ([], [])
    >>> uneven_notes(np.where(np.arange(1000) < 3, 1.0, 1e-9))[0][0].split(";")[0]
    'half of the weight is on 2 of 1000 frames'
    """
    if by_frame is None:
        return []
    total, most = by_frame.sum(), WEIGHT_BOUNDS[1]
    cut = np.maximum(by_frame - most * by_frame.mean(), 0.0).sum()
    if cut <= 0.5 * total:
        return []
    n_half = int(np.searchsorted(np.cumsum(np.sort(by_frame)[::-1]), 0.5 * total)) + 1
    message = (
        f"half of the weight is on {n_half} of {len(by_frame)} frames; none counts more than {most:g} times the mean, "
        "so that the fit hardly heeds these weights: look whether the bias was divided by kT in its own unit (2.494 "
        "kJ/mol or 0.596 kcal/mol at 300 K), or sample longer"
    )
    return [(message, WeightsWarning)]


def with_weights(problem: SearchProblem, by_frame: FloatArray, first_frames: IntArray) -> SearchProblem:
    """Return the problem with windows weighted as their first frames are."""
    everything = problem.everything
    if everything is not None:
        all_windows = everything.first_frames(np.arange(everything.n_windows))
        everything = everything.weighted(_weights_of_block, by_frame[all_windows].astype(np.float32))
    return replace(problem, weights=weights_of_ratios([by_frame[first_frames]]), everything=everything)


def _weights_of_block(block: FrameBlock, weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Weights of the windows of a block, of those of all windows."""
    return weights[block.first_window : block.first_window + block.windows.shape[1]]
