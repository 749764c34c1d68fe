"""A method is fitted and judged; which of its settings is taken, a held-out part of the training data decides."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

import numpy as np

from m3c_md.clustering.kinetic_map import KineticMap, MapsSlowCoordinates
from m3c_md.clustering.state_estimator import StateEstimator
from m3c_md.clustering.state_model import StateModel
from m3c_md.exceptions import DegenerateSolutionError, InputError, M3CWarning, SolverError
from m3c_md.validation.measures import Judgement, judge
from m3c_md.validation.splits import INNER, Split, inner_split

# What a method may end with on data that do not suit it.
FAILURES = (InputError, DegenerateSolutionError, SolverError)


class Task(NamedTuple):
    """What is to be fitted to what, and judged by what.

    Attributes
    ----------
    name : str
        Of the method.
    run : int
        Number of this fit among those of the method.
    settings : dict
        Estimators by the words for their setting; one of several is chosen by a held-out part of the training data.
    split : Split
    seed : tuple of int
        Of the random numbers.
    """

    name: str
    run: int
    settings: Mapping[str, StateEstimator]
    split: Split
    seed: tuple[int, ...]


class Trial(NamedTuple):
    """What came of one of several settings.

    Attributes
    ----------
    inner : Judgement
        By the part of the training data that was held out to choose by.
    judgements : dict
        Of the fit to all training data, by the name of the test trajectories. The choice knows nothing of them.
    """

    inner: Judgement
    judgements: dict[str, Judgement]


@dataclass(frozen=True)
class Fit:
    """What came of fitting one method to some trajectories and judging it on others.

    Attributes
    ----------
    model : StateModel or None
        None if the method failed.
    seconds : float
        Time to fit with the chosen setting; the choice is not counted.
    judgements : dict
        By the name of the test trajectories; all NaN if the method failed.
    error : str
        Why the method failed, else empty.
    setting : str
        The setting that was chosen, in words.
    trials : dict
        What came of each setting, if there were several.
    """

    model: StateModel | None
    seconds: float
    judgements: dict[str, Judgement]
    error: str = ""
    setting: str = ""
    trials: dict[str, Trial] = field(default_factory=dict)


def fit_and_judge(task: Task, lagtime: int) -> Fit:
    """Fit a method with the setting that held-out training data choose, and judge it on test data.

    Without test data only the chosen setting is fitted to all training data, else all are, so that hindsight can be
    shown as such. All fits have streams of random numbers of their own, whatever settings stand beside.
    """
    if len(task.settings) == 1:
        ((setting, estimator),) = task.settings.items()
        return _fitted(estimator, task.split, lagtime, _seed(task, setting), {}, setting)
    inner = inner_split(task.split.train, lagtime)
    n_states = _n_states(next(iter(task.settings.values())))
    held_out = dict.fromkeys(task.settings, Judgement.unknown(n_states))
    if inner is not None:
        maps: dict[int, KineticMap] = {}
        for setting, estimator in task.settings.items():
            fit = _fitted(estimator, inner, lagtime, (*_seed(task, setting), 1), maps)
            held_out[setting] = fit.judgements[INNER]
    chosen = best_setting(held_out)
    wanted = task.settings if task.split.tests else {chosen: task.settings[chosen]}
    maps = {}
    fits = {
        setting: _fitted(estimator, task.split, lagtime, _seed(task, setting), maps, setting)
        for setting, estimator in wanted.items()
    }
    trials = {name: Trial(held_out[name], fits[name].judgements if name in fits else {}) for name in task.settings}
    best = fits[chosen]
    return Fit(best.model, best.seconds, best.judgements, best.error, chosen, trials)


def best_setting(held_out: Mapping[str, Judgement]) -> str:
    """Setting with the largest Q, among equals with the largest VAMP-2; the first if none is known.

    Examples
    --------
    >>> a, b = Judgement.unknown(2), Judgement(1.5, 1.2, np.array([3.0]), 0, 0)
    >>> best_setting({"50 cells": a, "100 cells": b})
    '100 cells'
    """

    def merit(setting: str) -> tuple[float, float]:
        judged = held_out[setting]
        # Sums in another order may differ in the last digit.
        return np.nan_to_num(round(judged.metastability, 9), nan=-1.0), np.nan_to_num(judged.vamp2, nan=-1.0)

    return max(held_out, key=merit)


def _fitted(
    estimator: StateEstimator,
    split: Split,
    lagtime: int,
    seed: tuple[int, ...],
    maps: dict[int, KineticMap],
    setting: str = "",
) -> Fit:
    """Fit a fresh copy of an estimator, with a stream of random numbers of its own, and judge it on test data."""
    settings = estimator.get_params(deep=False)
    own = type(estimator)(**{**settings, "random_state": np.random.default_rng(seed)})
    if isinstance(own, MapsSlowCoordinates):
        own.share_maps(maps)
    began = time.perf_counter()
    with warnings.catch_warnings():
        # They are on the models and in the results; told once, in the table.
        warnings.simplefilter("ignore", M3CWarning)
        try:
            model: StateModel = own.fit_fetch(split.train)
            seconds = time.perf_counter() - began
            judgements = {name: judge(model, test, lagtime) for name, test in split.tests.items()}
            return Fit(model, seconds, judgements, "", setting)
        except FAILURES as error:
            unknown = dict.fromkeys(split.tests, Judgement.unknown(_n_states(estimator)))
            return Fit(None, time.perf_counter() - began, unknown, str(error), setting)


def _n_states(estimator: StateEstimator) -> int:
    return int(estimator.get_params(deep=False)["n_states"])


def _seed(task: Task, setting: str) -> tuple[int, ...]:
    return (*task.seed, crc32(setting.encode())) if setting else task.seed


def least_entered(model: StateModel | None) -> int | None:
    """How often the training trajectories entered the state that they entered least; None if that is not known."""
    visits = None if model is None else model.visits
    return None if visits is None else int(visits["entered"].min())


def words_of_task(task: Task) -> str:
    """What is being fitted."""
    some = f", {len(task.settings)} settings" if len(task.settings) > 1 else ""
    (held_out, *others) = list(task.split.tests) or ["all"]
    to = "all data" if held_out == "all" or others else f"all but {held_out}"
    return f"compare: {task.name}{some} to {to}"
