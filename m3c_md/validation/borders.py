"""How sure are the borders? Rules fitted again to resampled trajectories, and kinetics with that uncertainty in it."""

from __future__ import annotations

import warnings as python_warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from deeptime.util.callbacks import ProgressCallback
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from m3c_md.arrays import FloatArray
from m3c_md.clustering.state_estimator import StateEstimator
from m3c_md.clustering.state_model import StateModel
from m3c_md.exceptions import DegenerateSolutionError, InputError, M3CWarning, SolverError
from m3c_md.inputs.dataset import Dataset
from m3c_md.inputs.lengths import check_longest
from m3c_md.inputs.settings import check_integer, check_positive, check_progress, check_random_state, check_string
from m3c_md.inputs.state_names import names_or_none
from m3c_md.markov.kinetics import Kinetics, effective_number, energy_of, kinetics_of_flows
from m3c_md.markov.resampling import FlowSamples, blocks_of_trajectories
from m3c_md.markov.reversible import reversible_flows
from m3c_md.markov.transitions import counts_per_trajectory

# Standard errors from fewer refits are themselves hardly known.
LEAST_REFITS = 5


@dataclass(frozen=True)
class ResampledRules:
    """A rule, and rules fitted to resampled trajectories, with the states in the same order.

    Attributes
    ----------
    model : StateModel
        Fitted to the trajectories as they are.
    models : list of StateModel
        Fitted to draws of them.
    orders : list of (n_states,) int arrays
        Number in ``model`` of each state of the other models.
    draws : list of int arrays
        Which parts of the data each was fitted to.
    parts : Dataset
        Trajectories, or blocks of them where they are fewer than ten.
    n_failed : int
        Draws that no rule could be fitted to.

    Examples
    --------
    >>> from m3c_md import M3C
    >>> x = np.repeat([-1.0, 1.0] * 20, 25)[:, None] + 0.2 * np.random.default_rng(0).normal(size=(1000, 2))
    >>> estimator = M3C(2, starts=("kinetic",), bandwidth=1.0, random_state=0)
    >>> rules = refit(estimator, [x[:500], x[500:]], 5, random_state=0)
    >>> rules.border_uncertainty(x).max() <= 1.0
    np.True_
    """

    model: StateModel
    models: list[StateModel]
    orders: list[NDArray[np.intp]]
    draws: list[NDArray[np.intp]]
    parts: Dataset = field(repr=False)
    n_failed: int = 0

    def border_uncertainty(self, data: Any) -> Any:
        """Share of the resampled rules that give a frame another state than the rule does, (n_frames,).

        Zero deep inside a state, up to one half and more at a border that the data do not determine.
        """
        several = Dataset.of(data, self.model.n_columns).several
        own = _as_list(self.model.transform(data), several)
        total = [np.zeros(len(x)) for x in own]
        for model, order in zip(self.models, self.orders, strict=True):
            for share, mine, other in zip(total, own, _as_list(model.transform(data), several), strict=True):
                share += order[other] != mine
        shares = [share / len(self.models) for share in total]
        return shares if several else shares[0]

    def order_like(self, labels: NDArray[np.integer]) -> NDArray[np.intp]:
        """Numbers that the states of the rule have in another labelling of all frames."""
        own = np.concatenate(self.model.transform(self.parts))
        return _best_order(own, labels, self.model.n_states)

    def kinetics(
        self,
        lagtime: int = 1,
        *,
        dt: float = 1.0,
        unit: str = "frame",
        temperature: float | None = None,
        order: NDArray[np.intp] | None = None,
    ) -> Kinetics:
        """Kinetics whose 95 % intervals hold the uncertainty of the borders, too, see `m3c_md.kinetics`.

        Every resampled data set is labelled by the rule that was fitted to it. ``order`` renumbers the states.
        """
        lag, step, name = check_integer("lagtime", lagtime, 1), check_positive("dt", dt), check_string("unit", unit)
        check_longest(self.parts.lengths, lag)
        energy, n = energy_of(temperature), self.model.n_states
        numbers = np.arange(n) if order is None else np.asarray(order)

        def counts(model: StateModel, own: NDArray[np.intp], chosen: NDArray[np.intp]) -> FloatArray:
            labels = [numbers[own[x]] for x in model.transform(self.parts)]
            separate = counts_per_trajectory(labels, lag, n)
            return np.asarray(separate[chosen].sum(axis=0))

        everything = np.arange(len(self.parts.lengths))
        estimate = counts(self.model, np.arange(n), everything)
        fitted = zip(self.models, self.orders, self.draws, strict=True)
        samples = np.array([counts(*one) for one in fitted])
        flows = FlowSamples(reversible_flows(estimate[None])[0], reversible_flows(samples))
        n_parts = min(effective_number(self.parts.trajectories), float(len(self.models)))
        names = names_or_none(self.model.state_names, n) if order is None else None
        return kinetics_of_flows(
            flows,
            lag,
            "refit",
            n_parts,
            dt=step,
            unit=name,
            energy=energy,
            warnings=list(self.model.warnings),
            names=names,
        )


def refit(
    estimator: StateEstimator,
    data: Any,
    n_refits: int = 20,
    *,
    random_state: Any = None,
    progress: Any = None,
) -> ResampledRules:
    """Fit an estimator to the data and to ``n_refits`` draws of whole trajectories with replacement.

    Fewer than ten trajectories are cut into twenty blocks first. A refit costs as much as a fit: give an estimator with
    one bandwidth and one start, e.g. ``M3C(3, bandwidth=model.bandwidth, starts=("kinetic",))``, where that matters.

    Parameters
    ----------
    estimator : M3C, MMC, PCCAPlus or KMedoids
        It is not changed: its settings are copied for every fit.
    data : array or list of arrays
        Trajectories.
    n_refits : int
        At least 5; errors of errors are about 1 / √(2 n_refits).
    random_state : None, int or numpy.random.Generator
        For the draws.
    progress : optional
        True, or a progress bar class such as ``tqdm.tqdm``.

    Returns
    -------
    ResampledRules
        With `border_uncertainty` and `kinetics`. Warnings of the refits are not shown.

    Examples
    --------
    >>> from m3c_md import M3C
    >>> rng = np.random.default_rng(0)
    >>> trajs = [np.repeat([-1.0, 1.0] * 4, 25)[:, None] + 0.4 * rng.normal(size=(200, 1)) for _ in range(12)]
    >>> rules = refit(M3C(2, bandwidth=1.0, starts=("kinetic",), random_state=0), trajs, 5, random_state=0)
    >>> rules.border_uncertainty(np.array([[-1.0], [1.0]])).tolist()
    [0.0, 0.0]
    """
    if not isinstance(estimator, StateEstimator):
        raise InputError(f"estimator={estimator!r:.60} must be an estimator of this package, e.g. M3C(3)")
    n = check_integer("n_refits", n_refits, LEAST_REFITS)
    progress = check_progress(progress)
    rng = check_random_state(random_state)
    dataset = Dataset.of(data)
    model = _fresh(estimator).fit_fetch(data)
    parts = _parts(dataset)
    own = np.concatenate(model.transform(parts))
    rules = ResampledRules(model, [], [], [], parts)
    n_failed = 0
    with ProgressCallback(progress, "refits", n) as bar:
        for _ in range(n):
            chosen = np.sort(rng.integers(len(parts.lengths), size=len(parts.lengths)))
            other = _fitted(estimator, [parts.trajectories[i] for i in chosen])
            if other is None:
                n_failed += 1
            else:
                rules.models.append(other)
                rules.draws.append(chosen)
                rules.orders.append(_best_order(np.concatenate(other.transform(parts)), own, model.n_states))
            bar()
    if len(rules.models) < LEAST_REFITS:
        raise SolverError(f"{n_failed} of {n} refits found no {model.n_states} states; ask for fewer, or add data")
    return ResampledRules(model, rules.models, rules.orders, rules.draws, parts, n_failed)


def _fresh(estimator: StateEstimator) -> Any:
    """Estimator with the same settings and without a model."""
    return type(estimator)(**estimator.get_params(deep=False))


def _fitted(estimator: StateEstimator, trajectories: list[Any]) -> Any:
    """Model of other trajectories; None if there is none."""
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore", M3CWarning)
        try:
            return _fresh(estimator).fit_fetch(trajectories)
        except (DegenerateSolutionError, SolverError):
            return None


def _parts(dataset: Dataset) -> Dataset:
    """Trajectories, or blocks of them where they are few."""
    blocks = blocks_of_trajectories(dataset.trajectories, 1)
    if blocks is None:
        raise InputError(
            f"{dataset.n_frames} frames are too few to be cut into blocks that can be drawn; give more data"
        )
    return dataset.cut([[n * k // b for k in range(1, b)] for n, b in zip(dataset.lengths, blocks, strict=True)])


def _best_order(labels: NDArray[np.integer], like: NDArray[np.integer], n_states: int) -> NDArray[np.intp]:
    """Number of every state of ``labels`` in ``like``, by the matching that leaves most frames where they are."""
    shared = np.bincount(labels.astype(np.intp) * n_states + like, minlength=n_states**2).reshape(n_states, n_states)
    return np.asarray(linear_sum_assignment(shared, maximize=True)[1])


def _as_list(labels: Any, several: bool) -> list[NDArray[np.int32]]:
    return list(labels) if several else [labels]
