"""The methods by name, each ready to be fitted and judged."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.clustering.k_medoids import KMedoids
from m3c_md.clustering.m3c import M3C
from m3c_md.clustering.mmc import MMC
from m3c_md.clustering.pcca_plus import PCCAPlus
from m3c_md.clustering.state_estimator import StateEstimator
from m3c_md.clustering.state_model import StateModel
from m3c_md.exceptions import DegenerateSolutionError, InputError, M3CWarning, SolverError
from m3c_md.inputs.settings import as_list, check_choice, check_integer
from m3c_md.markov.timescales import implied_timescales
from m3c_md.markov.transitions import metastability
from m3c_md.validation.splits import Split

METHODS = ("m3c", "pcca+", "mmc", "k-medoids")


class Judgement(NamedTuple):
    """Q of some test trajectories (NaN if they miss a state) and their implied timescales in frames."""

    metastability: float
    timescales: FloatArray


class Task(NamedTuple):
    """What is to be fitted to what, and judged by what.

    Attributes
    ----------
    name : str
        Of the method.
    run : int
        Number of this fit among those of the method.
    estimator : StateEstimator
    split : Split
    seed : tuple of int
        Of the random numbers.
    """

    name: str
    run: int
    estimator: StateEstimator
    split: Split
    seed: tuple[int, ...]


@dataclass(frozen=True)
class Fit:
    """What came of fitting one method to some trajectories and judging it on others.

    Attributes
    ----------
    model : StateModel or None
        None if the method failed.
    seconds : float
        Time to fit.
    judgements : dict
        By the name of the test trajectories; all NaN if the method failed.
    error : str
        Why the method failed, else empty.
    """

    model: StateModel | None
    seconds: float
    judgements: dict[str, Judgement]
    error: str = ""


def build_methods(
    names: Sequence[str], n_states: int, lagtime: int, n_microstates: int | Sequence[int], n_frames: int
) -> tuple[dict[str, StateEstimator], str]:
    """Estimators by the name that tables and pictures show, and a message on what is left out.

    PCCA+ stands there once for every number of microstates that ``n_frames`` training frames allow.

    Examples
    --------
    >>> list(build_methods(["m3c", "pcca+"], 3, 1, (50, 100), 5000)[0])
    ['M3C', 'PCCA+ (50)', 'PCCA+ (100)']
    """
    if isinstance(names, str):
        names = (names,)
    if not isinstance(names, list | tuple) or not names:
        raise InputError(f"methods={names!r:.60} must name at least one of {', '.join(METHODS)}")
    estimators: dict[str, StateEstimator] = {}
    message = ""
    for given in names:
        name = str(given).lower()  # tables show "M3C"
        check_choice("methods", name if name in METHODS else given, METHODS)
        if name == "m3c":
            estimators["M3C"] = M3C(n_states, lagtime)
        elif name == "mmc":
            estimators["MMC"] = MMC(n_states)
        elif name == "k-medoids":
            estimators["k-medoids"] = KMedoids(n_states)
        else:
            numbers, message = usable_numbers(n_microstates, n_states, n_frames)
            for number in numbers:
                estimators[f"PCCA+ ({number})"] = PCCAPlus(n_states, lagtime, n_microstates=number)
    return estimators, message


def usable_numbers(n_microstates: Any, n_states: int, n_frames: int) -> tuple[list[int], str]:
    """Numbers of microstates in rising order that leave ten frames to each, and a message on the others."""
    numbers = sorted(
        {check_integer("n_microstates", number, n_states) for number in as_list("n_microstates", n_microstates)}
    )
    if not numbers:
        raise InputError("n_microstates is empty; give at least one number of microstates")
    kept = [number for number in numbers if 10 * number <= n_frames] or numbers[:1]
    dropped = ", ".join(str(number) for number in numbers if number not in kept)
    message = f"n_microstates {dropped} left out: fewer than ten of {n_frames} training frames for each"
    return kept, message if dropped else ""


def fit_and_judge(task: Task, lagtime: int) -> Fit:
    """Fit a fresh copy of an estimator, with a stream of random numbers of its own, and judge it on test data."""
    settings, split = task.estimator.get_params(), task.split
    own = type(task.estimator)(**{**settings, "random_state": np.random.default_rng(task.seed)})
    began = time.perf_counter()
    with warnings.catch_warnings():
        # They are on the models and in the results; told once, in the table.
        warnings.simplefilter("ignore", M3CWarning)
        try:
            model: StateModel = own.fit_fetch(split.train)
            seconds = time.perf_counter() - began
            return Fit(model, seconds, {name: judgement_on(model, test, lagtime) for name, test in split.tests.items()})
        except (InputError, DegenerateSolutionError, SolverError) as error:
            unknown = Judgement(np.nan, np.full(int(settings["n_states"]) - 1, np.nan))
            return Fit(None, time.perf_counter() - began, dict.fromkeys(split.tests, unknown), str(error))


def judgement_on(model: StateModel, test: Any, lagtime: int) -> Judgement:
    """Q and implied timescales of test trajectories under a model."""
    dtrajs = model.transform(test)
    quality = metastability(dtrajs, lagtime, model.n_states)
    its = implied_timescales(dtrajs, [lagtime], n_states=model.n_states, confidence=None)
    values = np.array([its.timescales_for_process(i)[0] for i in range(its.max_n_processes)])
    return Judgement(quality, values)


def least_entered(model: StateModel | None) -> int | None:
    """How often the training trajectories entered the state that they entered least; None if that is not known."""
    visits = None if model is None else model.visits
    return None if visits is None else int(visits["entered"].min())
