"""Implied timescales of macrostate trajectories, with confidence, units and a word of warning where they mislead."""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from deeptime.util.callbacks import ProgressCallback
from deeptime.util.validation import ImpliedTimescales as DeeptimeImpliedTimescales

from m3c_md.arrays import FloatArray
from m3c_md.confidence import confidence_band
from m3c_md.exceptions import DisconnectedWarning, InputError, LagtimeWarning, TimescaleWarning
from m3c_md.inputs.settings import (
    as_list,
    check_integer,
    check_positive,
    check_progress,
    check_random_state,
    check_string,
)
from m3c_md.inputs.state_trajectories import as_state_trajectories
from m3c_md.markov.plateau import Plateau, find_plateau
from m3c_md.markov.resampling import (
    MOST_SAMPLES,
    FlowSamples,
    blocks_of_trajectories,
    choose_confidence,
    flows_at_lagtimes,
    resampled_flows,
)
from m3c_md.markov.reversible import relaxation_eigenvalues
from m3c_md.markov.transitions import Note, StateArray, longest_of, named, number_of_states, short_trajectory_notes
from m3c_md.markup import paragraphs, table
from m3c_md.wording import amount, plain_number

if TYPE_CHECKING:
    import pandas as pd

# Lag times by default: as many as a picture shows well, chosen after a look at so many, up to so many frames at least.
_N_DEFAULT_LAGS = 10
_N_SCOUTED_LAGS = 25
_LEAST_DEFAULT_RANGE = 10
# Growth of log t with log lag above which a timescale counts as noise, judged over lags that differ by a factor of at
# least four. A Markov process has the growth 0: t is the same at every lag. An eigenvalue that does not depend on the
# lag has the growth 1, because t = -lag / log(eigenvalue): that is what statistical noise does, or labels that err at
# random, or trajectories too short to show relaxation at all. The line between the two is drawn half way.
_NOISE_GROWTH = 0.5
_LEAST_LAG_RATIO = 4.0


class ImpliedTimescales(DeeptimeImpliedTimescales):  # type: ignore[misc]
    """deeptime's implied timescales, which also know their time unit, their confidence and what to beware of.

    Lag times and timescales are in frames, as deeptime has them, so that `deeptime.plots.plot_implied_timescales` and
    everything else made for deeptime's object works; `to_frame` gives them in ``unit``.

    Attributes
    ----------
    dt : float
        Time between two frames, in ``unit``.
    unit : str
        Unit of time.
    confidence : str or None
        Where the samples come from: "bootstrap", "bayesian", or None if there are none.
    warnings : list of str
        What was said about these timescales.
    longest : int
        Frames of the longest trajectory, as far as that is known.
    paired : (n_lagtimes, n_samples, n_timescales) array or None
        Timescales of resampled data, the same data at every lag time, by which `plateaus` tells a rise from chance.

    Examples
    --------
    >>> chain = np.cumsum(np.random.default_rng(0).random(20_000) < 0.05) % 2  # leaves each state after 20 frames
    >>> timescales = implied_timescales(chain, [1, 2, 4, 8], dt=2.0, unit="ps", random_state=0)
    >>> timescales.plateaus[0].level, round(timescales.plateaus[0].value, -1)
    (True, 10.0)
    """

    def __init__(
        self,
        lagtimes: Sequence[int],
        its: FloatArray,
        its_stats: FloatArray | None = None,
        *,
        dt: float = 1.0,
        unit: str = "frame",
        confidence: str | None = None,
        warnings: Iterable[str] = (),
        longest: int = 0,
        paired: FloatArray | None = None,
    ) -> None:
        super().__init__(lagtimes, its, its_stats)
        self.dt = dt
        self.unit = unit
        self.confidence = confidence
        self.warnings = list(warnings)
        self.longest = longest
        self.paired = paired

    def __repr__(self) -> str:
        lags = f"{self.dt * self.lagtimes[0]:g} to {self.dt * self.lagtimes[-1]:g} {self.unit}"
        slowest = self.plateaus[0].describe(self.dt, self.unit) if self.max_n_processes else "no timescale"
        warned = f", {len(self.warnings)} warning{'s' if len(self.warnings) > 1 else ''}" if self.warnings else ""
        return (
            f"<{type(self).__name__}: {self.max_n_processes} timescales at {len(self.lagtimes)} lag times ({lags}), "
            f"{slowest}, confidence {self.confidence}{warned}>"
        )

    def _repr_html_(self) -> str:
        """Table of the timescales where they are level, for notebooks."""
        lags = f"lag times {self.dt * self.lagtimes[0]:g} to {self.dt * self.lagtimes[-1]:g} {self.unit}"
        rows = [plateau.row(self.dt) for plateau in self.plateaus]
        head = ["", f"timescale / {self.unit}", "95 %", f"lag time / {self.unit}", ""]
        return paragraphs([f"{type(self).__name__}, {lags}"]) + table(rows, head) + paragraphs(self.warnings)

    @property
    def plateaus(self) -> list[Plateau]:
        """For every process where its timescale is level, or that it still rises; times in frames, see `Plateau`.

        Examples
        --------
        >>> its = ImpliedTimescales([1, 2, 5, 10], np.array([[5.0], [8.0], [10.0], [10.1]]), dt=0.5, unit="ns")
        >>> its.plateaus[0].describe(its.dt, its.unit)
        't2 = 5 ns, level from lag time 2.5 ns on'
        """
        missing = np.full(len(self.lagtimes), np.nan)
        return [
            find_plateau(
                f"t{process + 2}",
                self.lagtimes,
                self.timescales_for_process(process),
                confidence_band(self.samples_for_process(process)) if self.has_samples else (missing, missing),
                None if self.paired is None else self.paired[:, :, process],
                self.longest,
            )
            for process in range(self.max_n_processes)
        ]

    def plot(self, **options: Any) -> Any:
        """Draw the timescales in ``unit``, into a figure of their own; see `m3c_md.plots.plot_implied_timescales`."""
        from m3c_md.plots.timescales import plot_implied_timescales

        return plot_implied_timescales(self, **options)

    def to_frame(self) -> pd.DataFrame:
        """Return a table in ``unit``: lag time (index), timescales t2, t3, ... and the ends of their 95 % bands.

        Examples
        --------
        >>> its = ImpliedTimescales([1, 2], np.array([[9.0], [11.0]]), dt=0.5, unit="ns")
        >>> its.to_frame().reset_index()
           lag time (ns)   t2
        0            0.5  4.5
        1            1.0  5.5
        """
        import pandas as pd

        columns: dict[str, FloatArray] = {}
        for process in range(self.max_n_processes):
            name = f"t{process + 2}"
            columns[name] = self.dt * self.timescales_for_process(process)
            if self.has_samples:
                low, high = confidence_band(self.samples_for_process(process))
                columns[f"{name} low"], columns[f"{name} high"] = self.dt * low, self.dt * high
        return pd.DataFrame(columns, index=pd.Index(self.dt * self.lagtimes, name=f"lag time ({self.unit})"))


def implied_timescales(
    dtrajs: Any,
    lagtimes: Any = None,
    *,
    n_states: int | None = None,
    n_timescales: int | None = None,
    confidence: str | None = "auto",
    n_samples: int = 100,
    dt: float = 1.0,
    unit: str = "frame",
    random_state: Any = None,
    progress: Any = None,
) -> ImpliedTimescales:
    """Implied timescales of the macrostates at several lag times: -lag / log(eigenvalue) of reversible macro-MSMs.

    At each lag time the MSM is that of `deeptime.markov.msm.MaximumLikelihoodMSM` on the largest set of states that the
    transitions connect. Unlike deeptime, which takes the eigenvalue's modulus, an eigenvalue that is not positive gives
    no timescale (NaN): nothing relaxes slowly there.

    Parameters
    ----------
    dtrajs : array (n_frames,) or list of such arrays
        State of each frame: whole numbers from 0 on.
    lagtimes : int or sequence of int, optional
        In frames. By default about ten, from 1 to a tenth of the longest trajectory or, if that is less, to where the
        first timescale falls below its lag (but at least 10). Those too long for the data are left out with a
        `LagtimeWarning`.
    n_states : int, optional
        Number of states, if there may be more than the largest label tells.
    n_timescales : int, optional
        How many, from the slowest on; by default all, one less than there are states.
    confidence : "auto", "bootstrap", "bayesian" or None
        Bootstrap draws whole trajectories with replacement; it is right also where the states are not Markovian.
        "bayesian" samples the posterior of deeptime's BayesianMSM with the counts divided by the lag time, as
        overlapping windows are not independent. "auto" is bootstrap if at least ten trajectories are longer than the
        longest lag time.
    n_samples : int
        Number of samples for the confidence. Sampled eigenvalues that are not positive count as timescale 0, so that
        bands are not biased towards slow processes.
    dt, unit : float, str
        Time between frames and its unit, for tables and plots.
    random_state : None, int or numpy.random.Generator
        Same seed, same answer; the global state of numpy is neither read nor changed.
    progress : optional
        True, or a progress bar class such as ``tqdm.tqdm``.

    Returns
    -------
    ImpliedTimescales
        In frames; see there. A `TimescaleWarning` tells of timescales below their lag time or growing like noise, a
        `DisconnectedWarning` of states that the transitions do not connect.

    Examples
    --------
    >>> dtraj = np.cumsum(np.random.default_rng(0).random(20_000) < 0.05) % 2  # -1 / log(0.9) is 9.49
    >>> its = implied_timescales(dtraj, [1, 2, 5], dt=2.0, unit="ps", random_state=0)
    >>> its.timescales_for_process(0).round(1)
    array([9.5, 9.6, 9.7])
    """
    trajectories = as_state_trajectories(dtrajs, n_states)
    n = number_of_states(trajectories, n_states)
    n_kept = n - 1 if n_timescales is None else min(check_integer("n_timescales", n_timescales, 1), n - 1)
    check_integer("n_samples", n_samples, 2, MOST_SAMPLES)
    progress = check_progress(progress)
    time_step, time_unit, rng = check_positive("dt", dt), check_string("unit", unit), check_random_state(random_state)
    lags, notes = usable_lagtimes(longest_of(trajectories), _asked_for(lagtimes, trajectories, n))
    notes += short_trajectory_notes(trajectories, lags)
    method = choose_confidence(confidence, trajectories, lags[-1])
    estimates = []
    with ProgressCallback(progress, "implied timescales", len(lags)) as bar:
        for estimate in flows_at_lagtimes(trajectories, lags, n, method, n_samples, rng):
            estimates.append(estimate)
            bar()
    its = _timescales(np.array([e.estimate for e in estimates]), lags, np.nan)[:, :n_kept]
    notes += disconnected_notes(lags, estimates) + _timescale_notes(lags, its, estimates, n, time_step, time_unit)
    for message, category in notes:
        python_warnings.warn(message, category, stacklevel=2)
    blocks = None if method is None else blocks_of_trajectories(trajectories, lags[-1])
    paired = None
    if blocks is not None:
        paired = _sampled_timescales(resampled_flows(trajectories, lags, n, blocks, n_samples, rng), lags)[
            :, :, :n_kept
        ]
    return ImpliedTimescales(
        lags,
        its,
        None if method is None else _sampled_timescales((e.samples for e in estimates), lags)[:, :, :n_kept],
        longest=longest_of(trajectories),
        paired=paired,
        dt=time_step,
        unit=time_unit,
        confidence=method,
        warnings=[message for message, _ in notes],
    )


def usable_lagtimes(longest: int, lagtimes: Sequence[int]) -> tuple[list[int], list[Note]]:
    """Lag times shorter than the longest trajectory, and a note on the others; there must be one.

    Examples
    --------
    >>> usable_lagtimes(3, [1, 2])
    ([1, 2], [])
    """
    too_long = [lag for lag in lagtimes if lag >= longest]
    if len(too_long) == len(lagtimes):
        raise InputError(
            f"{named('lag time', lagtimes)} cannot be used, for the longest trajectory has {longest} frames; choose "
            f"lag times of at most {longest - 1} frames or give longer trajectories"
        )
    message = (
        f"left out {named('lag time', too_long)}: the longest trajectory has {longest} frames; choose lag times of at "
        f"most {longest - 1} frames, better much shorter"
    )
    return [lag for lag in lagtimes if lag < longest], [(message, LagtimeWarning)] if too_long else []


def disconnected_notes(lagtimes: Sequence[int], estimates: Sequence[FlowSamples]) -> list[Note]:
    """Say which states the transitions do not connect, and at which lag times, if there are any."""
    outside = np.isnan([np.diagonal(e.estimate) for e in estimates])
    if not outside.any():
        return []
    states, lags = np.flatnonzero(outside.any(axis=0)), np.array(lagtimes)[outside.any(axis=1)]
    where = "every lag time" if len(lags) == len(lagtimes) else named("lag time", lags)
    message = (
        f"transitions do not connect {named('state', states)} with the others in both directions, at {where}; what "
        "concerns these is NaN. Give more or longer trajectories, shorter lag times, or fewer states"
    )
    return [(message, DisconnectedWarning)]


def _asked_for(lagtimes: Any, trajectories: Sequence[StateArray], n_states: int) -> list[int]:
    """Lag times in ascending order, each once."""
    if lagtimes is None:
        return _default_lagtimes(trajectories, n_states)
    checked = sorted({check_integer("lag time", lag, 1) for lag in as_list("lagtimes", lagtimes)})
    if not checked:
        raise InputError("lagtimes is empty; give at least one lag time in frames, or None for a choice by the data")
    return checked


def _default_lagtimes(trajectories: Sequence[StateArray], n_states: int) -> list[int]:
    """About ten, as long as all timescales that are resolved at lag 1 stay above the lag.

    Eigenvalues fall with the lag, so a timescale that has fallen below it (eigenvalue < 1/e) never comes back. Longer
    lags would only show noise; but up to 10 frames we look in any case, to see how noise grows.
    """
    longest_lag = max(1, longest_of(trajectories) // 10)
    scouted = _spaced(longest_lag, _N_SCOUTED_LAGS)
    rng = np.random.default_rng(0)  # nothing is drawn without confidence
    flows = [e.estimate for e in flows_at_lagtimes(trajectories, scouted, n_states, None, 0, rng)]
    n_resolved = (relaxation_eigenvalues(np.array(flows)) > np.exp(-1.0)).sum(axis=1)
    n_useful = int(np.argmax(np.append(n_resolved < n_resolved[0], True)))  # before the first one is lost
    upper = scouted[n_useful - 1] if n_resolved[0] > 0 else 1
    return _spaced(min(longest_lag, max(_LEAST_DEFAULT_RANGE, upper)), _N_DEFAULT_LAGS)


def _spaced(longest: int, n: int) -> list[int]:
    return [int(lag) for lag in np.unique(np.geomspace(1, longest, n).round().astype(int))]


def _timescales(flows: FloatArray, lagtimes: Sequence[int], not_positive: float) -> FloatArray:
    """Timescales (n_lagtimes, n_states - 1), NaN for missing processes, ``not_positive`` for eigenvalues <= 0."""
    eigenvalues = relaxation_eigenvalues(flows)
    result = np.where(np.isnan(eigenvalues), np.nan, not_positive)
    lags = np.broadcast_to(np.array(lagtimes, dtype=float)[:, None], eigenvalues.shape)
    slow = eigenvalues > 0.0
    with np.errstate(divide="ignore"):  # an eigenvalue that rounds to 1 has an infinite timescale
        result[slow] = lags[slow] / np.abs(np.log(eigenvalues[slow]))
    return result


def _sampled_timescales(samples: Iterable[FloatArray | None], lagtimes: Sequence[int]) -> FloatArray:
    """Timescales of samples of the flows, (n_lagtimes, n_samples, n_states - 1)."""
    return np.array(
        [
            _timescales(flows, [lag] * len(flows), 0.0)
            for flows, lag in zip(samples, lagtimes, strict=True)
            if flows is not None
        ]
    )


def _timescale_notes(
    lagtimes: Sequence[int],
    its: FloatArray,
    estimates: Sequence[FlowSamples],
    n_states: int,
    dt: float,
    unit: str,
) -> list[Note]:
    """One note on all timescales that mislead, if there are any."""
    if n_states == 1:
        return [("there is one state only, hence no timescale; look for at least two states", TimescaleWarning)]
    lags = np.array(lagtimes)
    n_connected = np.array([np.isfinite(np.diagonal(e.estimate)).sum() for e in estimates])
    complaints = []
    for process, t in enumerate(its.T):
        exists = process < n_connected - 1  # the others have a note of their own
        unresolved = lags[exists & ~(t > lags)]
        if len(unresolved):
            every = len(unresolved) == exists.sum()
            where = "" if every else f" at {_in_units(unresolved * dt, unit)}"
            these = "every lag time" if every else "these" if len(unresolved) > 1 else "that"
            complaints.append(f"t{process + 2} cannot be measured{where}, because it is shorter than {these}")
        if _grows_like_noise(lags, t):
            complaints.append(f"t{process + 2} grows in proportion to the lag time, as it does for mere noise")
    if not complaints:
        return []
    remedy = (
        "read timescales at shorter lag times, where they are level; if one is level nowhere, look for fewer states"
    )
    return [("; ".join(complaints) + f". Remedy: {remedy} or simulate longer", TimescaleWarning)]


def _in_units(times: FloatArray, unit: str) -> str:
    """Lag times in a row, with their unit behind the last."""
    *others, last = times.tolist()
    return named("lag time", [*(plain_number(time, 4) for time in others), amount(last, unit, 4)])


def _grows_like_noise(lagtimes: Any, timescales: FloatArray) -> bool:
    known = np.isfinite(timescales) & (timescales > 0.0)
    lags = lagtimes[known]
    if len(lags) < 3 or lags[-1] < _LEAST_LAG_RATIO * lags[0]:
        return False
    return bool(np.polyfit(np.log(lags), np.log(timescales[known]), 1)[0] > _NOISE_GROWTH)
