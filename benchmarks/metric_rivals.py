"""The rivals of benchmarks/metric.py: TICA + k-means + MSM + PCCA+, and PCCA+ on the columns as they are.

A rival has settings that nobody knows beforehand. All of them are fitted: the best on the test data is the rival in
hindsight, and the best on a held-out part of the training data is what a careful user would have chosen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3c_md import PCCAPlus

Frames = NDArray[np.floating]
Labels = list[NDArray[np.integer]]

# Lags of TICA: with lag 1 alone it takes slow noise for states. An MSM of the same lag instead of 1, the lag of M3C and
# of Q, is no better in hindsight (deca-alanine, asp7, langerin, noise).
COMPONENTS, CELLS, TICA_LAGS = (2, 5, 10, 20), (50, 100, 200, 500), (1, 10, 30)
RAW_CELLS = (50, 200, 500)
LEAST_FRAMES = 10  # of a cell in the mean
MOST_FRAMES = 10_000  # for k-means, evenly spaced, as is usual; all frames are assigned
PLAIN_CELLS = 200
FAILURES = (ArithmeticError, RuntimeError, ValueError, AssertionError, IndexError)  # what deeptime ends with


@dataclass(frozen=True)
class Fit:
    """What one method with one setting makes of a split.

    Attributes
    ----------
    labels : states of the test trajectories, None where the method failed
    found : number of states that have training frames
    outside : share of training frames outside the connected set, which have the state of the nearest cell inside
    seconds : CPU time of fit and labels
    mapping : seconds of these for TICA, which all settings of one lag share
    """

    n_states: int
    settings: dict[str, Any]
    labels: Labels | None
    found: int
    outside: float
    seconds: float
    error: str = ""
    mapping: float = 0.0


Fits = Callable[[list[Frames], list[Frames], Sequence[int], int], Iterator[Fit]]


def some_cells(cells: Sequence[int], trajectories: list[Frames]) -> list[int]:
    """Numbers of cells that leave enough frames in each; the smallest in any case."""
    n_frames = sum(map(len, trajectories))
    return [n for n in cells if n == min(cells) or n * LEAST_FRAMES <= n_frames]


def failed(n_states: int, settings: dict[str, Any], error: Exception, seconds: float) -> Fit:
    return Fit(n_states, settings, None, 0, 0.0, seconds, f"{type(error).__name__}: {error}"[:120])


def fast_cells(frames: Frames, n: int, seed: int) -> Frames:
    """Centres by scikit-learn's k-means, the same algorithm as deeptime's in less time."""
    from sklearn.cluster import KMeans

    some = frames[:: -(-len(frames) // MOST_FRAMES)]
    return np.asarray(KMeans(n, n_init=1, max_iter=20, random_state=seed).fit(some).cluster_centers_)


def deeptime_cells(frames: Frames, n: int, seed: int) -> Frames:
    from deeptime.clustering import KMeans

    return np.asarray(KMeans(n, max_iter=20, fixed_seed=seed, n_jobs=1).fit_fetch(frames).cluster_centers)


def nearest(trajectories: list[Frames], centres: Frames) -> Labels:
    from deeptime.clustering import ClusterModel

    model = ClusterModel(np.ascontiguousarray(centres))
    return [model.transform(np.ascontiguousarray(x), n_jobs=1) for x in trajectories]


def connected_msm(cells: Labels) -> tuple[Any, NDArray[np.intp], float]:
    """MSM of the largest connected set of cells, these cells, and the share of frames in the others."""
    from deeptime.markov import TransitionCountEstimator
    from deeptime.markov.msm import MaximumLikelihoodMSM

    counts = TransitionCountEstimator(1, "sliding").fit_fetch(cells).submodel_largest()
    inside = np.asarray(counts.state_symbols)
    outside = 1.0 - float(np.isin(np.concatenate(cells), inside).mean())
    return MaximumLikelihoodMSM(reversible=True).fit_fetch(counts), inside, outside


def lumpings(
    train: list[Frames],
    test: list[Frames],
    states: Sequence[int],
    settings: dict[str, Any],
    seed: int,
    began: float,
    find_cells: Callable[[Frames, int, int], Frames] = fast_cells,
) -> Iterator[Fit]:
    """Cells, MSM and PCCA+ for some numbers of states, which share cells and MSM; each counts that time as its own."""
    try:
        centres = find_cells(np.concatenate(train), settings["cells"], seed)
        cells = nearest(train, centres)
        msm, inside, outside = connected_msm(cells)
        cells = cells if len(inside) == len(centres) else nearest(train, centres[inside])
        test_cells = cells if test is train else nearest(test, centres[inside])
    except FAILURES as error:
        yield from (failed(k, settings, error, time.process_time() - began) for k in states)
        return
    shared = time.process_time() - began
    for k in states:
        began = time.process_time()
        try:
            if len(inside) < k:
                raise ValueError(f"fewer connected cells than states: {len(inside)} of {settings['cells']}")
            of_cell = np.asarray(msm.pcca(k).assignments)
            labels = [of_cell[x] for x in test_cells]
        except FAILURES as error:
            yield failed(k, settings, error, shared + time.process_time() - began)
            continue
        found = len(np.unique(of_cell[np.concatenate(cells)]))
        yield Fit(k, settings, labels, found, outside, shared + time.process_time() - began)


def tica_fits(train: list[Frames], test: list[Frames], states: Sequence[int], seed: int) -> Iterator[Fit]:
    """TICA scaled as a kinetic map, then cells and PCCA+, for all settings."""
    from deeptime.decomposition import TICA

    for lag in TICA_LAGS:
        began = time.process_time()
        model = TICA(lagtime=lag, scaling="kinetic_map").fit(train).fetch_model()
        train_map = [model.transform(x) for x in train]
        test_map = train_map if test is train else [model.transform(x) for x in test]
        spent = time.process_time() - began
        most = train_map[0].shape[1]
        for components in sorted({min(n, most) for n in COMPONENTS}):
            for cells in some_cells(CELLS, train):
                settings = {"tica lag": lag, "components": components, "cells": cells}
                fitted = [x[:, :components] for x in train_map]
                judged = fitted if test is train else [x[:, :components] for x in test_map]
                for fit in lumpings(fitted, judged, states, settings, seed, time.process_time() - spent):
                    yield replace(fit, mapping=spent)


def raw_fits(train: list[Frames], test: list[Frames], states: Sequence[int], seed: int) -> Iterator[Fit]:
    """The package's PCCA+ on standardised columns, from one start of k-means."""
    for cells in some_cells(RAW_CELLS, train):
        for k in states:
            began, settings = time.process_time(), {"cells": cells}
            try:
                estimator = PCCAPlus(k, n_microstates=cells, n_restarts=1, random_state=seed)
                model = estimator.fit_fetch(train)
                labels = model.transform(test)
            except FAILURES as error:
                yield failed(k, settings, error, time.process_time() - began)
                continue
            seconds = time.process_time() - began
            outside = model.n_disconnected_frames / sum(map(len, train))
            yield Fit(k, settings, labels, model.n_populated, outside, seconds)


def plain_fits(train: list[Frames], test: list[Frames], states: Sequence[int], seed: int) -> Iterator[Fit]:
    """The pipeline of deeptime as it is used without thinking, for its cost."""
    yield from lumpings(train, test, states, {"cells": PLAIN_CELLS}, seed, time.process_time(), deeptime_cells)


RIVALS: dict[str, Fits] = {"tica": tica_fits, "raw": raw_fits, "deeptime": plain_fits}
NAMES = {"tica": "TICA+PCCA+", "raw": "PCCA+ on columns", "deeptime": "deeptime pipeline"}


def inner_halves(train: list[Frames]) -> tuple[list[Frames], list[Frames]]:
    """Parts of the training data to fit and to choose by: every second trajectory, of few the first halves."""
    if len(train) >= 4:
        return train[::2], train[1::2]
    return [x[: len(x) // 2] for x in train], [x[len(x) // 2 :] for x in train]


def correlated_columns(train: list[Frames], n_states: int) -> Frames:
    """Relevance of columns as TICA users read it: largest correlation with one of the slowest k - 1 components."""
    from deeptime.decomposition import TICA

    model = TICA(lagtime=TICA_LAGS[-1], dim=n_states - 1).fit(train).fetch_model()
    frames, slow = np.concatenate(train), np.concatenate([model.transform(x) for x in train])
    both = np.corrcoef(frames, slow, rowvar=False)[: frames.shape[1], frames.shape[1] :]
    return np.asarray(np.abs(both).max(axis=1))
