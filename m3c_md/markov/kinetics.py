"""Populations, rates, first-passage times, life times and free energies of macrostates, each with a 95 % interval."""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, logit
from scipy.stats import t as student

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import solving
from m3c_md.inputs.lengths import check_longest
from m3c_md.inputs.settings import check_integer, check_positive, check_random_state, check_string
from m3c_md.inputs.state_names import names_or_none, with_end_names, with_names
from m3c_md.inputs.state_trajectories import as_state_trajectories
from m3c_md.markov.resampling import MOST_SAMPLES, FlowSamples, choose_confidence, flows_at_lagtimes
from m3c_md.markov.reversible import transition_matrices
from m3c_md.markov.rise import rise_notes
from m3c_md.markov.timescales import disconnected_notes
from m3c_md.markov.transitions import StateArray, number_of_states, short_trajectory_notes
from m3c_md.wording import amount, intervals_by, plain_number, with_interval

if TYPE_CHECKING:
    import pandas as pd

# Molar gas constant in kJ/(mol K).
GAS_CONSTANT = 8.314462618e-3
# Quantities of states and of pairs of states, with the scale on which their errors are symmetric.
STATE_SCALES = {"population": "logit", "life time": "log", "free energy": "plain"}
PAIR_SCALES = {"mfpt": "log", "rate": "log"}
# Where more resampled data than this miss a state, nothing is known about the ends of its intervals.
MOST_MISSING = 0.025
LEVEL = 0.95


@dataclass(frozen=True)
class Kinetics:
    """Kinetics of macrostates at one lag time; times in ``unit``.

    Attributes
    ----------
    states : pandas.DataFrame
        One row per state: ``population``, ``life time`` and ``free energy`` above the first connected state (models
        number their states by falling population), each with the ends of its 95 % interval as ``... low`` and
        ``... high``; ``name`` comes first where states have names.
    pairs : pandas.DataFrame
        One row per ordered pair of states (from, to): mean first-passage time ``mfpt`` and ``rate``, its reciprocal;
        ``from name`` and ``to name`` come first where states have names.
    flows : (n_states, n_states) array
        Equilibrium flows at the lag time: population of i times the probability of a transition from i to j.
    lagtime : int
        In frames.
    dt, unit : float, str
        Time between frames, and its unit.
    energy_unit : str
        "kT" or "kJ/mol".
    confidence : str or None
        "bootstrap", "bayesian", "refit" (whose intervals have the uncertainty of the borders in them) or None.
    warnings : list of str
        What was said about these numbers.
    names : list of str or None
        What the states are called, if not by their numbers.

    Examples
    --------
    >>> chain = np.cumsum(np.random.default_rng(0).random(20_000) < 0.05) % 2  # leaves each state after 20 frames
    >>> result = kinetics(chain, dt=2.0, unit="ps", random_state=0)
    >>> list(result.states.columns)[:3], result.pairs.index.tolist()
    (['population', 'population low', 'population high'], [(0, 1), (1, 0)])
    """

    states: pd.DataFrame
    pairs: pd.DataFrame
    flows: FloatArray
    lagtime: int
    dt: float = 1.0
    unit: str = "frame"
    energy_unit: str = "kT"
    confidence: str | None = None
    warnings: list[str] = field(default_factory=list)
    names: list[str] | None = None

    def __repr__(self) -> str:
        lag = amount(self.lagtime * self.dt, self.unit, 4)
        head = f"<{type(self).__name__}: lag time {lag}, {intervals_by(self.confidence)}>"
        lines = [head, f"times in {self.unit}, free energies in {self.energy_unit}"]
        return "\n".join([*lines, compact(self.states).to_string(), compact(self.pairs).to_string()])

    def matrix(self, quantity: str = "mfpt") -> FloatArray:
        """Values of a quantity of pairs as a matrix (from, to); 0 on the diagonal.

        Examples
        --------
        >>> kinetics([0, 0, 0, 1, 1] * 40, confidence=None).matrix("mfpt").round(2)
        array([[0.  , 3.  ],
               [2.03, 0.  ]])
        """
        n = len(self.states)
        values = np.zeros((n, n))
        for (i, j), value in self.pairs[quantity].items():
            values[i, j] = value
        return values


def kinetics(
    dtrajs: Any,
    lagtime: int = 1,
    *,
    n_states: int | None = None,
    names: Sequence[str] | None = None,
    dt: float = 1.0,
    unit: str = "frame",
    temperature: float | None = None,
    confidence: str | None = "auto",
    n_samples: int = 200,
    random_state: Any = None,
) -> Kinetics:
    """Populations, life times, free energies, first-passage times and rates of states, with 95 % intervals.

    All follow from the reversible macro-MSM at the lag time: choose one at which timescales are level
    (``implied_timescales(...).plateaus``), or use cored trajectories (``model.core``), which are level from lag 1 on.

    Parameters
    ----------
    dtrajs : array (n_frames,) or list of such arrays
        State of each frame: whole numbers from 0 on.
    lagtime : int
        In frames.
    n_states : int, optional
        Number of states, if there may be more than the largest label tells.
    names : sequence of str, optional
        What the states are called, e.g. ``model.state_names``; tables and pictures then say so.
    dt, unit : float, str
        Time between frames and its unit.
    temperature : float, optional
        In kelvin; then free energies are in kJ/mol, otherwise in kT.
    confidence : "auto", "bootstrap", "bayesian" or None
        As for `implied_timescales`. Intervals of "bootstrap" allow for few trajectories (Student's t on the scale on
        which errors are symmetric: logit of populations, logarithm of times).
    n_samples : int
        Samples for the intervals.
    random_state : None, int or numpy.random.Generator

    Returns
    -------
    Kinetics
        What concerns states outside the connected set is NaN, with a `DisconnectedWarning`; a `TimescaleWarning` tells
        of a slowest timescale that rises from the lag time on, which intervals do not allow for. Life times are
        -lagtime / log(probability to stay); rates are reciprocals of mean first-passage times.

    Examples
    --------
    >>> chain = np.cumsum(np.random.default_rng(0).random(20_000) < 0.05) % 2  # leaves each state after 20 frames
    >>> result = kinetics(chain, dt=2.0, unit="ps", temperature=300.0, random_state=0)
    >>> result.pairs["mfpt"].round(-1).tolist(), result.states["population"].round(1).tolist()
    ([40.0, 40.0], [0.5, 0.5])
    """
    trajectories = as_state_trajectories(dtrajs, n_states)
    n = number_of_states(trajectories, n_states)
    called = names_or_none(names, n)
    lag = check_integer("lagtime", lagtime, 1)
    check_integer("n_samples", n_samples, 2, MOST_SAMPLES)
    time_step, time_unit = check_positive("dt", dt), check_string("unit", unit)
    energy, rng = energy_of(temperature), check_random_state(random_state)
    check_longest([len(x) for x in trajectories], lag)
    method = choose_confidence(confidence, trajectories, lag)
    (flows,) = flows_at_lagtimes(trajectories, [lag], n, method, n_samples, rng)
    notes = short_trajectory_notes(trajectories, [lag]) + disconnected_notes([lag], [flows])
    if method is not None:  # what has no interval claims nothing
        notes += rise_notes(trajectories, lag, n, time_step, time_unit)
    for message, category in notes:
        python_warnings.warn(message, category, stacklevel=2)
    return kinetics_of_flows(
        flows,
        lag,
        method,
        effective_number(trajectories) if method == "bootstrap" else None,
        dt=time_step,
        unit=time_unit,
        energy=energy,
        warnings=[message for message, _ in notes],
        names=called,
    )


def energy_of(temperature: float | None) -> tuple[float, str]:
    """Return what kT is in the unit of free energies, and that unit.

    Examples
    --------
    >>> energy_of(300.0)
    (2.4943387854, 'kJ/mol')
    """
    return (1.0, "kT") if temperature is None else (GAS_CONSTANT * check_positive("temperature", temperature), "kJ/mol")


def effective_number(trajectories: Sequence[StateArray]) -> float:
    """Number of equally long trajectories that would say as much about errors as these.

    Examples
    --------
    >>> effective_number([np.zeros(100), np.zeros(100), np.zeros(1)])
    2.01...
    """
    lengths = np.array([len(x) for x in trajectories], dtype=float)
    return float(lengths.sum() ** 2 / (lengths**2).sum())


def kinetics_of_flows(
    flows: FlowSamples,
    lag: int,
    method: str | None,
    n_parts: float | None,
    *,
    dt: float,
    unit: str,
    energy: tuple[float, str],
    warnings: list[str],
    names: list[str] | None = None,
) -> Kinetics:
    """Kinetics of equilibrium flows at a lag time and samples of them.

    ``n_parts`` is the number of parts that samples were drawn from, or None for samples of a posterior.
    """
    import pandas as pd

    first = int(np.isnan(np.diagonal(flows.estimate)).argmin())
    estimates = _quantities(flows.estimate[None], lag * dt, energy[0], first)
    sampled = None if flows.samples is None else _quantities(flows.samples, lag * dt, energy[0], first)
    n = len(flows.estimate)
    states: dict[str, FloatArray] = {}
    pairs: dict[str, FloatArray] = {}
    different = ~np.eye(n, dtype=bool)
    for scales, table in ((STATE_SCALES, states), (PAIR_SCALES, pairs)):
        for name, scale in scales.items():
            value = estimates[name][0]
            columns = {name: value}
            if sampled is not None:
                low, high = interval(value, sampled[name], scale, n_parts)
                columns |= {f"{name} low": low, f"{name} high": high}
            table.update({key: array[different] if array.ndim == 2 else array for key, array in columns.items()})
    ends = np.argwhere(different)
    return Kinetics(
        with_names(pd.DataFrame(states, index=pd.RangeIndex(n, name="state")), names),
        with_end_names(pd.DataFrame(pairs, index=pd.MultiIndex.from_arrays(ends.T, names=["from", "to"])), names),
        flows.estimate,
        lag,
        dt,
        unit,
        energy[1],
        method,
        warnings,
        names,
    )


def interval(
    estimate: FloatArray, samples: FloatArray, scale: str, n_parts: float | None
) -> tuple[FloatArray, FloatArray]:
    """Ends of the 95 % interval, from samples of a posterior or from resampled data.

    Samples of a posterior give the central 95 %. Of resampled data the standard error is taken, on the scale ("logit",
    "log" or "plain") on which errors are symmetric, times the quantile of Student's t for ``n_parts`` parts: with few
    parts the central 95 % of the samples would be too narrow. Ends are NaN where more than 2.5 % of the samples miss
    the state.

    Examples
    --------
    >>> samples = np.random.default_rng(0).normal(5.0, 1.0, size=(10_000, 1))
    >>> low, high = interval(np.array([5.0]), samples, "plain", 1000.0)
    >>> low.round(1), high.round(1)
    (array([3.]), array([7.]))
    """
    forward, back = {"logit": (logit, expit), "log": (np.log, np.exp), "plain": (np.asarray, np.asarray)}[scale]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        moved = forward(samples)
        moved = np.where(np.isfinite(moved), moved, np.nan)
        unknown = np.isnan(moved).mean(axis=0) > MOST_MISSING
        moved = np.where(unknown, 0.0, moved)
        if n_parts is None:
            # Between the quantiles that Weibull's rule finds, a new draw lies with this probability.
            ends = np.nanquantile(moved, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0], axis=0, method="weibull")
        else:
            # Resampled data scatter by (n - 1) / n of the variance.
            error = np.nanstd(moved, axis=0) * np.sqrt(n_parts / (n_parts - 1.0))
            reach = student.ppf((1.0 + LEVEL) / 2.0, n_parts - 1.0) * error
            ends = np.stack([forward(estimate) - reach, forward(estimate) + reach])
        low, high = (np.where(unknown, np.nan, back(end)) for end in ends)
    return low, high


def _quantities(flows: FloatArray, lag: float, kt: float, first: int) -> dict[str, FloatArray]:
    """All quantities of flows (n, k, k), in the unit of the lag time and of kT; NaN outside the connected set.

    Free energies are those above the state with the number ``first``.
    """
    matrices = transition_matrices(flows)
    populations = np.where(np.isnan(flows), 0.0, flows).sum(axis=-1)
    populations[np.isnan(np.diagonal(flows, axis1=1, axis2=2))] = np.nan
    stay = np.diagonal(matrices, axis1=1, axis2=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        life = np.where(stay > 0.0, -lag / np.log(stay), 0.0)
        life[np.isnan(stay)] = np.nan
        passage = lag * passage_steps(matrices)
        rate = 1.0 / passage
        free = kt * np.log(populations[:, [first]] / populations)
    return {"population": populations, "life time": life, "free energy": free, "mfpt": passage, "rate": rate}


def passage_steps(matrices: FloatArray) -> FloatArray:
    """Mean first-passage times (n, k, k) of transition matrices in steps; 0 on the diagonal, NaN outside.

    Examples
    --------
    >>> passage_steps(np.array([[[0.9, 0.1], [0.2, 0.8]]])).round(6).tolist()
    [[[0.0, 10.0], [5.0, 0.0]]]
    """
    n, k, _ = matrices.shape
    outside = np.isnan(np.diagonal(matrices, axis1=1, axis2=2))
    known = np.where(np.isnan(matrices), 0.0, matrices)
    times = np.zeros((n, k, k))
    for target in range(k):
        # m = 1 + T m with m = 0 in the target; states outside stand by themselves.
        system = np.eye(k) - known
        system[:, target, :] = 0.0
        system[:, :, target] = 0.0
        system[:, target, target] = 1.0
        right = np.ones((n, k, 1))
        right[:, target] = 0.0
        reachable = ~outside[:, target]  # from a target outside, the others have no way to it, and no finite time
        with solving("the mean first-passage times", "use a shorter lag time, more data or fewer states"):
            times[reachable, :, target] = np.linalg.solve(system[reachable], right[reachable])[:, :, 0]
    times[outside[:, :, None] | outside[:, None, :]] = np.nan
    return times


def compact(table: pd.DataFrame) -> pd.DataFrame:
    """Table with each value and its interval in one column of text.

    Examples
    --------
    >>> import pandas as pd
    >>> compact(pd.DataFrame({"t": [2.0], "t low": [1.0], "t high": [3.5]})).to_dict("list")
    {'t': ['2 (1 to 3.5)']}
    """
    import pandas as pd

    shown = {}
    for name in [name for name in table if f"{name} low" in table or not str(name).endswith((" low", " high"))]:
        values = [plain_number(value) if isinstance(value, float) else str(value) for value in table[name]]
        if f"{name} low" in table:
            ends = zip(table[f"{name} low"], table[f"{name} high"], strict=True)
            values = [with_interval(value, *pair) for value, pair in zip(values, ends, strict=True)]
        shown[str(name)] = values
    return pd.DataFrame(shown, index=table.index)
