"""Fits of a scan: every number of states on all data, and again on halves of them in the kernel that was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from m3c_md.clustering.m3c import M3C
from m3c_md.clustering.margin_model import M3CModel
from m3c_md.exceptions import ModelFileError
from m3c_md.inputs.dataset import Dataset
from m3c_md.validation.kept_fits import KeptFits, fit_all
from m3c_md.validation.methods import Fit, Task
from m3c_md.validation.splits import Split

# Halves that are fitted in any case. More of them where these leave a doubt: see `decided`.
FIRST_HALVES = 2
# Mean adjusted Rand indices below the first of these and from the second on are far enough from the line at 0.8.
CLEAR = (0.7, 0.9)
# Fewer trajectories than this are cut into at least as many pieces before they are halved.
N_PIECES = 10
# Random features of all fits of a scan, as M3C takes them for many frames. Where columns are many and frames are few it
# would take twice as many, in up to twice the time (six states in 36 columns: accuracy 0.998 with both).
N_FEATURES = 100
# Name of the frames that a fit to half of the data does not see.
REST = "rest"


@dataclass
class NumberOfStates:
    """What the fits of one number of states gave.

    Attributes
    ----------
    whole : Fit
        To all data.
    halves : list of Fit
        To halves of the data, judged on the rest.
    agreements : list of float
        Adjusted Rand index between the labels of all frames by the models of a half and of all data; zero where the
        fit to the half failed.
    """

    whole: Fit
    halves: list[Fit] = field(default_factory=list)
    agreements: list[float] = field(default_factory=list)

    @property
    def model(self) -> M3CModel | None:
        """Model of all data, None if there is none."""
        return self.whole.model if isinstance(self.whole.model, M3CModel) else None


def halves_of(data: Dataset, lagtime: int, n_halves: int, rng: np.random.Generator) -> list[Split]:
    """Random halves of the trajectories (of pieces of them, where these are few), each with the rest to judge by.

    Half of the data without replacement varies as much from draw to draw as all of them drawn with replacement, costs
    half as much to fit, and what is left out is as large.

    Examples
    --------
    >>> (split,) = halves_of(Dataset.of(np.zeros((100, 1))), 1, 1, np.random.default_rng(0))
    >>> split.train.lengths, split.tests["rest"].lengths
    ([10, 10, 10, 10, 10], [10, 10, 10, 10, 10])
    """
    # Of two trajectories every second draw would be the same.
    wanted = -(-N_PIECES // len(data.lengths))
    pieces = data.cut([_equal_parts(n, max(1, min(wanted, n // (2 * lagtime + 2)))) for n in data.lengths])
    n_pieces = len(pieces.lengths)
    splits = []
    for _ in range(n_halves):
        order = rng.permutation(n_pieces).tolist()
        half, rest = sorted(order[: -(-n_pieces // 2)]), sorted(order[-(-n_pieces // 2) :])
        splits.append(Split(pieces.chosen(half), {REST: pieces.chosen(rest)} if rest else {}))
    return splits


def _equal_parts(n_frames: int, n_parts: int) -> list[int]:
    """Where to cut frames into parts whose lengths differ by one at most, the longer ones first."""
    size, longer = divmod(n_frames, n_parts)
    return [i * size + min(i, longer) for i in range(1, n_parts)]


def fits_by_number(
    data: Dataset,
    halves: list[Split],
    estimators: Sequence[M3C],
    seed: int,
    n_jobs: int | None,
    bar: Any,
    kept: KeptFits | None,
) -> dict[int, NumberOfStates]:
    """Fit all data and then, where that gave a model, as many halves of them as are needed; every number of states."""

    def run(tasks: list[Task]) -> list[Fit]:
        fits = []
        for task, fit in zip(tasks, fit_all(tasks, estimators[0].lagtime, n_jobs, kept), strict=True):
            if not isinstance(fit.model, M3CModel | None):
                kind = type(fit.model).__name__
                raise ModelFileError(f"the model of {task.name} in the checkpoint is a {kind}; remove it")
            fits.append(fit)
            bar()
        return fits

    wholes = run([_task(estimator, Split(data, {}), 0, seed) for estimator in estimators])
    numbers = {e.n_states: NumberOfStates(whole) for e, whole in zip(estimators, wholes, strict=True)}
    for some in (range(min(FIRST_HALVES, len(halves))), range(FIRST_HALVES, len(halves))):
        again = [
            _task(in_known_kernel(estimator, model), halves[i], i + 1, seed)
            for estimator in estimators
            if (model := numbers[estimator.n_states].model) is not None and not decided(numbers[estimator.n_states])
            for i in some
        ]
        bar(len(some) * len(estimators) - len(again))
        for task, fit in zip(again, run(again), strict=True):
            _add(numbers[task.settings[""].get_params()["n_states"]], fit, data)
    return numbers


def n_features_for(data: Dataset, lagtime: int) -> Literal["auto"] | int:
    """Return the number of random features; M3C takes fewer of them where there are fewer transition pairs.

    Examples
    --------
    >>> n_features_for(Dataset.of(np.zeros((30, 1))), 1), n_features_for(Dataset.of(np.zeros((300, 1))), 1)
    ('auto', 100)
    """
    return N_FEATURES if data.n_windows(lagtime) >= N_FEATURES else "auto"


def in_known_kernel(estimator: M3C, model: M3CModel) -> M3C:
    """Estimator that learns no metric and tries no bandwidth but those of a model; all its starts are tried again.

    What is asked is whether the same states come back, and the search for metric and bandwidth is the dear part.
    """
    metric = model.metrics[model.records[model.chosen].metric].matrix
    return type(estimator)(**{**estimator.get_params(), "bandwidth": model.bandwidth, "metric": metric})


def decided(number: NumberOfStates) -> bool:
    """Whether fits to further halves would not change what is thought of a number of states.

    Examples
    --------
    >>> decided(NumberOfStates(Fit(None, 0.0, {}), agreements=[0.99, 0.97]))
    True
    >>> decided(NumberOfStates(Fit(None, 0.0, {}), agreements=[0.99, 0.65]))  # a mean of 0.82
    False
    """
    if not number.agreements:
        return False
    # Every candidate lost one of the states: dear to fit, and hardly worth it.
    held = number.model is not None and number.model.records[number.model.chosen].held
    return held or not CLEAR[0] <= float(np.mean(number.agreements)) < CLEAR[1]


def _task(estimator: M3C, split: Split, run: int, seed: int) -> Task:
    """Fit of one number of states to all data (run 0) or to a half of them."""
    n_states = estimator.n_states
    return Task(f"{n_states} states", run, {"": estimator}, split, (seed, n_states, run))


def _add(number: NumberOfStates, fit: Fit, data: Dataset) -> None:
    """Keep a fit to a half, and how far it agrees with that to all data."""
    from sklearn.metrics import adjusted_rand_score

    assert number.model is not None
    number.halves.append(fit)
    agreement = 0.0
    if fit.model is not None:
        labels, others = (np.concatenate(model.transform(data)) for model in (number.model, fit.model))
        agreement = float(adjusted_rand_score(labels, others))
    number.agreements.append(agreement)
