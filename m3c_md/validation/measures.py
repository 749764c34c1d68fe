"""What held-out trajectories say of a decomposition: metastability, VAMP-2, timescales, and what they do not show."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.clustering.kinetic_map import cells_of, kinetic_map
from m3c_md.clustering.state_model import StateModel
from m3c_md.exceptions import InputError, M3CWarning, SolverError
from m3c_md.inputs.dataset import Dataset
from m3c_md.markov.timescales import implied_timescales
from m3c_md.markov.transitions import transition_counts
from m3c_md.validation.splits import Split

# Microstates of the reference for timescales, and frames that each has at least in the mean: many more fit noise.
MOST_CELLS, FRAMES_PER_CELL = 100, 20
# From so many columns on microstates are found in slow coordinates, because distances in all columns say little.
MANY_COLUMNS = 9
# Frames of which microstates are made: more change little, and might not fit into memory.
MOST_FRAMES = 200_000


class Judgement(NamedTuple):
    """What some test trajectories say of a decomposition.

    Attributes
    ----------
    metastability : float
        Q, the sum of the states' probabilities to stay; a state from which no transition starts adds nothing.
    vamp2 : float
        VAMP-2 score of the indicator functions of the states.
    timescales : (n_states - 1,) array
        Implied timescales in frames, NaN where the test data do not connect the states.
    never_visited, never_left : int
        Number of states from which no transition starts, and of those that are visited but never left: what they add
        to Q (nothing, one) says more about the data than about the state.
    """

    metastability: float
    vamp2: float
    timescales: FloatArray
    never_visited: int
    never_left: int

    @classmethod
    def unknown(cls, n_states: int) -> Judgement:
        """Judgement of a method that failed."""
        return cls(np.nan, np.nan, np.full(n_states - 1, np.nan), 0, 0)


def judge(model: StateModel, test: Any, lagtime: int) -> Judgement:
    """Judge a model by test trajectories."""
    dtrajs = model.transform(test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", M3CWarning)  # what is missing is counted
        counts = transition_counts(dtrajs, lagtime, model.n_states)
        its = implied_timescales(dtrajs, [lagtime], n_states=model.n_states, confidence=None)
    total, stays = counts.sum(axis=1), np.diagonal(counts)
    times = np.array([its.timescales_for_process(i)[0] for i in range(its.max_n_processes)])
    return Judgement(
        float((stays[total > 0] / total[total > 0]).sum()),
        vamp2_of_counts(counts),
        times,
        int((total == 0).sum()),
        int(((total > 0) & (stays == total)).sum()),
    )


def vamp2_of_counts(counts: FloatArray) -> float:
    """VAMP-2 score of indicator functions: Σ_ij c_ij² / (c_i. c_.j), between 1 and the number of states.

    It is the sum of the squared singular values of C00^-1/2 C01 C11^-1/2, which for sets are the counts divided by the
    roots of their row and column sums. A score of functions that were chosen on other data, with coefficients from
    there, is the same number, because as many coefficients as functions only change the basis; in this way Q, the trace
    of the transition matrix, is the generalised matrix Rayleigh quotient of the same functions. States that are not
    visited add nothing.

    Parameters
    ----------
    counts : (n_states, n_states) array
        Transition counts of the test data.

    Examples
    --------
    >>> round(vamp2_of_counts(np.array([[9.0, 1.0], [1.0, 9.0]])), 12)  # eigenvalues 1 and 0.8
    1.64
    """
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    norm = np.outer(rows, columns)
    return float(np.divide(counts**2, norm, out=np.zeros_like(counts), where=norm > 0.0).sum())


def beginnings(data: Dataset, n_frames: int, lagtime: int) -> Dataset:
    """Return the data, or the beginnings of their trajectories, with pairs in them, if they have more frames than that.

    Examples
    --------
    >>> data = Dataset.of([np.zeros((n, 1)) for n in (2, 6, 8)])
    >>> beginnings(data, 12, 1).lengths, beginnings(data, 20, 1) is data
    ([2, 4, 4], True)
    """
    if data.n_frames <= n_frames:
        return data
    length = max(2 * lagtime, n_frames // len(data.lengths))
    cuts = [[length] if n > length else [] for n in data.lengths]
    firsts = np.cumsum([0, *(len(cut) + 1 for cut in cuts[:-1])])
    return data.cut(cuts).chosen(firsts.tolist())


def microstate_timescales(train: Dataset, test: Dataset, n_timescales: int, lagtime: int) -> FloatArray:
    """Implied timescales in frames of a Markov state model of microstates on test data: what states can hope to keep.

    Microstates (at most 100, of 20 frames or more in the mean) are cells of the test frames, in slow coordinates of the
    training data if there are nine columns or more. The model is that of the test data, so it is no truth: the fewer
    the data, the longer its timescales are by chance. All methods are compared with the same. Of more than 200,000
    frames it takes the beginnings of the trajectories.

    Parameters
    ----------
    train, test : Dataset
    n_timescales : int
    lagtime : int
        In frames.

    Returns
    -------
    (n_timescales,) array
        NaN where the test data are too few.

    Examples
    --------
    >>> x = np.repeat([-1.0, 1.0] * 20, 25)[:, None] + 0.3 * np.random.default_rng(0).normal(size=(1000, 1))
    >>> microstate_timescales(Dataset.of(x), Dataset.of(x), 1, 1).round().tolist()
    [12.0]
    """
    frames = beginnings(test, MOST_FRAMES, lagtime).arrays(reach=lagtime)
    n_cells = min(MOST_CELLS, sum(map(len, frames)) // FRAMES_PER_CELL)
    if n_cells <= n_timescales:
        return np.full(n_timescales, np.nan)
    try:
        many = test.n_columns >= MANY_COLUMNS
        if many:
            coordinates = kinetic_map(beginnings(train, MOST_FRAMES, lagtime), lagtime).slowest(
                max(5, n_timescales + 1)
            )
            frames = [coordinates(x) for x in frames]
        cells = cells_of(frames, n_cells, scaled=not many)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", M3CWarning)
            its = implied_timescales(cells, [lagtime], n_timescales=n_timescales, confidence=None)
    except (InputError, SolverError):  # all frames are equal, or hardly connected
        return np.full(n_timescales, np.nan)
    times = np.array([its.timescales_for_process(i)[0] for i in range(its.max_n_processes)])
    return np.concatenate([times, np.full(n_timescales - len(times), np.nan)])


def reference_timescales(splits: Sequence[Split], n_timescales: int, lagtime: int) -> dict[str, FloatArray]:
    """Timescales of microstates by held-out part, see `microstate_timescales`."""
    return {
        name: microstate_timescales(split.train, part, n_timescales, lagtime)
        for split in splits
        for name, part in split.tests.items()
    }
