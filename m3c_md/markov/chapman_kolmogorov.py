"""Chapman-Kolmogorov test of the macro-MSM, with the states in the order in which they were given."""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from deeptime.util.validation import ChapmanKolmogorovTest

from m3c_md.arrays import FloatArray
from m3c_md.confidence import CONFIDENCE
from m3c_md.exceptions import LagtimeWarning
from m3c_md.inputs.settings import check_integer, check_positive, check_random_state, check_string
from m3c_md.inputs.state_trajectories import as_state_trajectories
from m3c_md.markov.resampling import (
    MOST_SAMPLES,
    FlowSamples,
    blocks_of_trajectories,
    choose_confidence,
    flows_at_lagtimes,
    resampled_flows,
)
from m3c_md.markov.reversible import transition_matrices
from m3c_md.markov.timescales import disconnected_notes, usable_lagtimes
from m3c_md.markov.transitions import Note, StateArray, longest_of, named, number_of_states, short_trajectory_notes

# Differences below this are rounding, not deviations.
_ROUNDING = 1e-9


class ChapmanKolmogorov(ChapmanKolmogorovTest):  # type: ignore[misc]
    """deeptime's test result, which also knows its time unit, its verdict and what to beware of.

    Works with `deeptime.plots.plot_ck_test`. Lag times are in frames. Rows and columns of states outside the connected
    set are NaN.

    Attributes
    ----------
    dt : float
        Time between two frames, in ``unit``.
    unit : str
        Unit of time.
    confidence : str or None
        Where the samples come from: "bootstrap", "bayesian", or None if there are none.
    warnings : list of str
        What was said about this test.
    judged_by : str or None
        Resampled data that give the verdict: "trajectories", "blocks" (of fewer than ten trajectories), or None.

    Examples
    --------
    >>> chain = np.cumsum(np.random.default_rng(0).random(20_000) < 0.05) % 2  # leaves each state after 20 frames
    >>> test = chapman_kolmogorov(chain, lagtime=2, n_steps=3, random_state=0)
    >>> test.passes, test.max_deviation <= test.allowed_deviation
    (True, True)
    """

    def __init__(
        self,
        lagtimes: Sequence[int],
        predictions: FloatArray,
        predictions_samples: list[FloatArray] | None,
        estimates: FloatArray,
        estimates_samples: list[FloatArray] | None,
        observable: None = None,  # deeptime keeps what it evaluated; here it is the transition matrix itself
        *,
        dt: float = 1.0,
        unit: str = "frame",
        confidence: str | None = None,
        warnings: Iterable[str] = (),
        scatter: FloatArray | None = None,
        judged_by: str | None = None,
    ) -> None:
        super().__init__(lagtimes, predictions, predictions_samples, estimates, estimates_samples, observable)
        self.judged_by = judged_by
        self._scatter = scatter
        self.dt = dt
        self.unit = unit
        self.confidence = confidence
        self.warnings = list(warnings)

    def __repr__(self) -> str:
        verdict = {True: "passes", False: "fails", None: "not judged"}[self.passes]
        steps = f"{len(self.lagtimes) - 1} multiples of {self.dt * self.lagtimes[1]:g} {self.unit}"
        return (
            f"<{type(self).__name__}: {len(self.estimates[0])} states, {steps}, largest deviation "
            f"{self.max_deviation:.3g}, {verdict} (confidence {self.confidence})>"
        )

    @property
    def max_deviation(self) -> float:
        """Largest difference between a predicted and an estimated probability, NaN if there is none to compare."""
        deviation = np.abs(self.predictions - self.estimates)
        return float(np.nanmax(deviation)) if not np.isnan(deviation).all() else float("nan")

    @property
    def allowed_deviation(self) -> float | None:
        """What `max_deviation` reaches by chance in 5 % of cases if the states are Markovian; None if not known.

        The 95 % quantile, over resampled data, of the largest difference between a resampled deviation and the observed
        one: all probabilities are judged together, not one by one. Resampled are trajectories, or blocks of them where
        they are fewer than ten. On simulated Markov chains of 5 to 20 trajectories `passes` was True in 90 to 97 % of
        cases. Posterior samples, which bands may come from, would not do: those at different lag times are independent
        of each other, though estimated from the same data, and almost everything would pass.
        """
        return None if self._scatter is None else float(np.quantile(self._scatter, CONFIDENCE)) + _ROUNDING

    @property
    def passes(self) -> bool | None:
        """Whether `max_deviation` is explained by chance, see `allowed_deviation`; None if that is not known.

        This is about significance: with much data a model fails by a deviation too small to matter.
        """
        if self.allowed_deviation is None or np.isnan(self.max_deviation):
            return None
        return self.max_deviation <= self.allowed_deviation

    def plot(self, **options: Any) -> Any:
        """Draw the test in ``unit``, states from 0 on; see `m3c_md.plots.plot_chapman_kolmogorov`."""
        from m3c_md.plots.chapman_kolmogorov import plot_chapman_kolmogorov

        return plot_chapman_kolmogorov(self, **options)


def chapman_kolmogorov(
    dtrajs: Any,
    lagtime: int = 1,
    n_steps: int = 5,
    *,
    n_states: int | None = None,
    confidence: str | None = "auto",
    n_samples: int = 100,
    dt: float = 1.0,
    unit: str = "frame",
    random_state: Any = None,
) -> ChapmanKolmogorov:
    """Compare predictions T(lagtime)^k with estimates T(k lagtime) of the macro-MSM for k = 0, ..., n_steps.

    The states are the given ones in the given order. (deeptime's ``msm.ck_test(models, n)`` runs PCCA on the macro-MSM
    and may permute them.) Transition matrices are the reversible ones of `implied_timescales`.

    Parameters
    ----------
    dtrajs, n_states, confidence, n_samples, dt, unit, random_state
        As for `implied_timescales`.
    lagtime : int
        Lag time of the model that is tested, in frames.
    n_steps : int
        Largest multiple. Multiples too long for the data, or at which transitions connect other states than at
        ``lagtime``, are left out with a `LagtimeWarning`.

    Returns
    -------
    ChapmanKolmogorov
        For `deeptime.plots.plot_ck_test`; with `max_deviation`, `allowed_deviation` and `passes`.

    Examples
    --------
    >>> test = chapman_kolmogorov([0, 0, 1, 1] * 50, lagtime=1, n_steps=2, confidence=None)
    >>> test.predictions[2].round(2)  # one half each: the model has forgotten after two steps
    array([[0.5, 0.5],
           [0.5, 0.5]])
    >>> test.estimates[2].round(2)  # whereas these data change their state for sure
    array([[0., 1.],
           [1., 0.]])
    """
    trajectories = as_state_trajectories(dtrajs, n_states)
    n = number_of_states(trajectories, n_states)
    lag, steps = check_integer("lagtime", lagtime, 1), check_integer("n_steps", n_steps, 1)
    check_integer("n_samples", n_samples, 2, MOST_SAMPLES)
    time_step, time_unit, rng = check_positive("dt", dt), check_string("unit", unit), check_random_state(random_state)
    longest = longest_of(trajectories)
    steps = min(steps, longest)  # as many multiples as frames are beyond the data in any case
    lags, notes = usable_lagtimes(longest, [lag * k for k in range(1, steps + 1)])
    notes += short_trajectory_notes(trajectories, lags)
    method = choose_confidence(confidence, trajectories, lags[-1])
    flows = list(flows_at_lagtimes(trajectories, lags, n, method, n_samples, rng))
    notes += disconnected_notes(lags[:1], flows[:1])
    lags, flows, lost = _comparable(lags, flows)
    notes += lost
    blocks = _blocks(trajectories, lags[-1], method)
    for message, category in notes:
        python_warnings.warn(message, category, stacklevel=2)
    multiples = [0] + [one // lag for one in lags]
    estimated = transition_matrices(np.array([one.estimate for one in flows]))
    sampled = [transition_matrices(one.samples) for one in flows if one.samples is not None]
    predictions = np.array([_power(estimated[0], k) for k in multiples])
    estimates = np.concatenate([_power(estimated[:1], 0), estimated])
    judging = sampled
    if blocks is not None and method == "bayesian":
        resampled = resampled_flows(trajectories, lags, n, blocks, n_samples, rng)
        judging = [transition_matrices(one) for one in resampled]
    return ChapmanKolmogorov(
        [0, *lags],
        predictions,
        [_power(sampled[0], k) for k in multiples] if sampled else None,
        estimates,
        [_power(sampled[0], 0), *sampled] if sampled else None,
        scatter=None if blocks is None else _scatter(predictions - estimates, judging, multiples[1:]),
        judged_by=None if blocks is None else "trajectories" if max(blocks) == 1 else "blocks",
        dt=time_step,
        unit=time_unit,
        confidence=method,
        warnings=[message for message, _ in notes],
    )


def _blocks(trajectories: Sequence[StateArray], longest_lag: int, method: str | None) -> list[int] | None:
    """Into how many blocks to cut each trajectory for the verdict; None if there is none."""
    if method is None:
        return None
    return [1] * len(trajectories) if method == "bootstrap" else blocks_of_trajectories(trajectories, longest_lag)


def _scatter(deviation: FloatArray, matrices: Sequence[FloatArray], multiples: Sequence[int]) -> FloatArray:
    """Largest difference between the deviation of each resampled data set and the observed one, (n_samples,)."""
    resampled = np.array([_power(matrices[0], k) - one for k, one in zip(multiples, matrices, strict=True)])
    scatter = np.abs(resampled - deviation[1:, None])
    # Resampled data may miss a state, whose entries are NaN.
    return np.asarray(np.where(np.isnan(scatter), 0.0, scatter).max(axis=(0, 2, 3)))


def _comparable(lags: list[int], flows: list[FlowSamples]) -> tuple[list[int], list[FlowSamples], list[Note]]:
    """Keep the multiples at which the same states are connected as at the first; a note on the others."""
    outside = np.isnan([np.diagonal(one.estimate) for one in flows])
    same = (outside == outside[0]).all(axis=1)
    kept = [one for one, keep in zip(flows, same, strict=True) if keep]
    message = (
        f"left out {named('lag time', np.array(lags)[~same])}: transitions connect other states there than at lag time "
        f"{lags[0]}, so that there is nothing to compare; give more or longer trajectories, or fewer steps"
    )
    note: list[Note] = [] if same.all() else [(message, LagtimeWarning)]
    return [lag for lag, keep in zip(lags, same, strict=True) if keep], kept, note


def _power(matrices: FloatArray, exponent: int) -> FloatArray:
    """Power of matrices that are NaN in rows and columns of missing states, and stay so."""
    missing = np.isnan(matrices)
    return np.where(missing, np.nan, np.linalg.matrix_power(np.where(missing, 0.0, matrices), exponent))
