"""Transition paths: on which ways, and how often, a system goes from some states to others (transition path theory).

Committors and fluxes are deeptime's (`deeptime.markov.reactive_flux`), of the Markov model of the macrostates or of one
of microstates; here they get names and units, and microstates are added up to states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from deeptime.markov import reactive_flux
from deeptime.markov.tools.flux import pathways as flux_pathways

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError
from m3c_md.inputs.settings import check_positive, check_string
from m3c_md.inputs.state_names import default_names, names_or_none, state_title, with_end_names, with_names
from m3c_md.markov.chains import Chain, SampledChain, chain_of_model, chain_of_trajectories, is_posterior
from m3c_md.markov.kinetics import compact, interval
from m3c_md.wording import amount, intervals_by, plain_number, with_interval

if TYPE_CHECKING:
    import pandas as pd

# Paths that are told, and the share of the flux after which the rest is no longer looked for: what is left are many
# paths with next to no flux.
MOST_PATHS = 50
TOLD_SHARE = 0.999


@dataclass(frozen=True)
class TransitionPaths:
    """How a system goes from the source to the target; times in ``unit``, fluxes per ``unit``.

    Attributes
    ----------
    states : pandas.DataFrame
        One row per state: ``population``, and ``committor``, the probability to reach the target before the source
        (0 and 1 in these; the mean over microstates where there are any); ``name`` first where states have names. NaN
        for states that are not connected with the others.
    fluxes : pandas.DataFrame
        One row per pair of states (from, to) that reactive trajectories pass in this direction on balance: net ``flux``
        with the ends of its 95 % interval as ``flux low`` and ``flux high``, and its ``share`` in the total flux;
        largest first. An interval that reaches below 0 says that the direction is not sure.
    pathways : pandas.DataFrame
        Paths that the flux is made of, the strongest first: ``path`` in words, ``states`` along it, ``flux`` with its
        interval, ``share``.
    source, target : tuple of int
    total_flux : float
        Transitions from source to target per time, by a system at equilibrium.
    mfpt : float
        Mean first-passage time to the target, from where the source is entered; its reciprocal is the rate.
    duration : float
        Mean time between the last frame in the source and the first in the target; at least a lag time.
    lagtime, dt, unit
        Lag time in frames, time between frames and its unit.
    names : list of str or None
        What the states are called, if not by their numbers.
    confidence : str or None
        What intervals are from: "bootstrap", "bayesian" or None, which has none.
    intervals : dict of str to (float, float)
        Ends of the 95 % intervals of ``total_flux``, ``mfpt`` and ``duration``; empty where there are none, NaN where
        too many samples have no way from the source to the target.
    """

    states: pd.DataFrame
    fluxes: pd.DataFrame
    pathways: pd.DataFrame
    source: tuple[int, ...]
    target: tuple[int, ...]
    total_flux: float
    mfpt: float
    duration: float
    lagtime: int
    dt: float = 1.0
    unit: str = "frame"
    names: list[str] | None = None
    confidence: str | None = None
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Transitions to the target per time that the system comes from the source: the reciprocal of ``mfpt``."""
        return 1.0 / self.mfpt

    def title(self, states: Sequence[int]) -> str:
        """Return what some states are called."""
        return " or ".join(state_title(self.names, state) for state in states)

    def described(self, quantity: str) -> str:
        """Return ``total_flux``, ``mfpt`` or ``duration`` as text, with the interval if there is one."""
        value = plain_number(getattr(self, quantity))
        if quantity not in self.intervals:
            return value
        return with_interval(value, *self.intervals[quantity])

    def __repr__(self) -> str:
        head = f"<{type(self).__name__}: {self.title(self.source)} to {self.title(self.target)}"
        lines = [
            f"{head}, lag time {amount(self.lagtime * self.dt, self.unit, 4)}, {intervals_by(self.confidence)}>",
            f"mean first-passage time {self.described('mfpt')} {self.unit}, time on the way "
            f"{self.described('duration')} {self.unit}, {self.described('total_flux')} transitions per {self.unit}",
            compact(self.pathways.drop(columns="states")).to_string(),
            self.states.to_string(float_format=lambda x: f"{x:.3g}"),
        ]
        return "\n".join(lines)


def transition_paths(
    dtrajs: Any,
    source: Any,
    target: Any,
    lagtime: int = 1,
    *,
    assignments: Any = None,
    n_states: int | None = None,
    names: Sequence[str] | None = None,
    dt: float = 1.0,
    unit: str = "frame",
    confidence: str | None = "auto",
    n_samples: int = 200,
    random_state: Any = None,
) -> TransitionPaths:
    """Paths from some states to others, with their fluxes, committors and times, by transition path theory.

    Use a lag time at which timescales are level, or cored trajectories (``model.core``): recrossings at a border would
    count as transitions.

    Parameters
    ----------
    dtrajs : array (n_frames,), list of such arrays, or deeptime MarkovStateModel or BayesianMSMPosterior
        State of each frame, of which the reversible macro-MSM is made; or a Markov model, of states or of microstates.
        A Markov model alone says nothing about errors; of a Bayesian one the samples give the intervals.
    source, target : int, str, or list of them
        States where paths begin and end, by number or name.
    lagtime : int
        In frames, for state trajectories; a Markov model has its own.
    assignments : (n_microstates,) int array, optional
        State of every microstate of a Markov model, e.g. ``model.lump(msm, ...).assignments``: then paths are those of
        microstates, added up to states.
    n_states : int, optional
        Number of states, if there may be more than the largest label tells.
    names : sequence of str, optional
        What the states are called, e.g. ``model.state_names``.
    dt, unit : float, str
        Time between frames and its unit.
    confidence, n_samples, random_state
        Of the 95 % intervals, for state trajectories; as for `kinetics`.

    Returns
    -------
    TransitionPaths
        Draw it with `m3c_md.plots.plot_paths`.

    Examples
    --------
    >>> chain = [0, 0, 0, 1, 1, 2, 2, 2, 2, 1, 0, 0, 1, 2, 2, 1] * 50
    >>> paths = transition_paths(chain, "left", "right", names=["left", "bridge", "right"], dt=2.0, unit="ps")
    >>> paths.pathways["path"].tolist(), round(paths.mfpt)
    (['left → bridge → right'], 15)
    """
    time_step, time_unit = check_positive("dt", dt), check_string("unit", unit)
    if hasattr(dtrajs, "transition_matrix") or is_posterior(dtrajs):
        sampled = chain_of_model(dtrajs, assignments, n_states)
    elif assignments is None:
        sampled = chain_of_trajectories(dtrajs, lagtime, n_states, confidence, n_samples, random_state)
    else:
        raise InputError("assignments are states of the microstates of a Markov model; give that, not trajectories")
    chain = sampled.chain
    called = names_or_none(names, chain.n_states)
    begin, end = (chain.ends(what, given, called) for what, given in (("source", source), ("target", target)))
    if set(begin) & set(end):
        raise InputError(f"source={source!r:.40} and target={target!r:.40} share a state; name different ones")
    return _in_units(sampled, begin, end, time_step, time_unit, called)


class _Flow(NamedTuple):
    """What reactive flux through a chain amounts to, in units of time.

    ``net`` (n_states, n_states) has the balance of each pair of states, negative in the direction against the flow.
    """

    net: FloatArray
    committor: FloatArray
    total_flux: float
    mfpt: float
    duration: float


def _flow_of(chain: Chain, source: tuple[int, ...], target: tuple[int, ...], step: float) -> _Flow | None:
    """Flow through cells added up to states; None where the chain lacks an end."""
    if not all(np.isin(state, chain.states) for state in (*source, *target)):
        return None
    cells = [np.flatnonzero(np.isin(chain.states, some)) for some in (source, target)]
    found = reactive_flux(chain.matrix, *cells, stationary_distribution=chain.stationary)
    of_cells = np.eye(chain.n_states)[chain.states]
    net = of_cells.T @ np.asarray(found.net_flux) @ of_cells / step
    with np.errstate(invalid="ignore"):
        committor = of_cells.T @ (chain.stationary * found.forward_committor) / (of_cells.T @ chain.stationary)
    # Steps from the source to the target: one more than visits of cells between them.
    between = np.setdiff1d(np.arange(len(chain.states)), np.concatenate(cells))
    on_the_way = (chain.stationary * found.forward_committor * found.backward_committor)[between].sum()
    return _Flow(
        net - net.T,
        committor,
        float(found.total_flux) / step,
        float(found.mfpt) * step,
        float(on_the_way / found.total_flux + 1.0) * step,
    )


def _in_units(
    sampled: SampledChain,
    source: tuple[int, ...],
    target: tuple[int, ...],
    dt: float,
    unit: str,
    names: list[str] | None,
) -> TransitionPaths:
    """Tables of the flow, in units of time."""
    import pandas as pd

    chain = sampled.chain
    step = chain.lagtime * dt
    flow = _flow_of(chain, source, target, step)
    assert flow is not None  # both ends were looked for in the chain
    population = np.bincount(chain.states, weights=chain.stationary, minlength=chain.n_states)
    population[population == 0.0] = np.nan
    states = pd.DataFrame({"population": population, "committor": flow.committor})
    states.index.name = "state"
    fluxes, pathways = _flux_table(flow), _path_table(flow, source, target, names)
    intervals = {}
    if sampled.samples is not None:
        flows = [_flow_of(sample, source, target, step) for sample in sampled.samples]
        for name in ("total_flux", "mfpt", "duration"):
            values = np.array([[np.nan if one is None else getattr(one, name)] for one in flows])
            low, high = _ends(np.array([getattr(flow, name)]), values, sampled.n_parts)
            intervals[name] = (float(low[0]), float(high[0]))
        fluxes, pathways = _with_intervals(fluxes, pathways, flows, sampled.n_parts)
    return TransitionPaths(
        with_names(states, names),
        with_end_names(fluxes, names),
        pathways,
        source,
        target,
        flow.total_flux,
        flow.mfpt,
        flow.duration,
        chain.lagtime,
        dt,
        unit,
        names,
        sampled.confidence,
        intervals,
    )


def _ends(estimate: FloatArray, samples: FloatArray, n_parts: float | None) -> tuple[FloatArray, FloatArray]:
    """Ends of 95 % intervals: errors are symmetric in the logarithm, unless some samples are not even positive."""
    with np.errstate(invalid="ignore"):
        positive = ~(samples <= 0.0).any(axis=0)
    on_logs, plain = (interval(estimate, samples, scale, n_parts) for scale in ("log", "plain"))
    low, high = (np.where(positive, *both) for both in zip(on_logs, plain, strict=True))
    return low, high


def _with_intervals(
    fluxes: pd.DataFrame,
    pathways: pd.DataFrame,
    flows: list[_Flow | None],
    n_parts: float | None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables with intervals beside the fluxes."""
    pairs = np.array(fluxes.index.tolist())
    along = pathways["states"].tolist()
    of_pairs, of_paths = np.full((len(flows), len(pairs)), np.nan), np.full((len(flows), len(along)), np.nan)
    for number, flow in enumerate(flows):
        if flow is not None:
            of_pairs[number] = flow.net[pairs[:, 0], pairs[:, 1]]
            of_paths[number] = _flux_along(along, flow.net)
    for table, samples, least in ((fluxes, of_pairs, -np.inf), (pathways, of_paths, 0.0)):
        low, high = _ends(table["flux"].to_numpy(), samples, n_parts)
        place = int(table.columns.get_indexer(["flux"])[0]) + 1
        table.insert(place, "flux low", np.maximum(low, least))
        table.insert(place + 1, "flux high", high)
    return fluxes, pathways


def _flux_along(along: list[tuple[int, ...]], net: FloatArray) -> list[float]:
    """Flux of each of some paths: the least on its way, once what goes along those before it is taken away.

    This is how `_paths` divides the flux, but for the order of the paths. It stays that of the estimate here, so that a
    sample in which two paths change places is told from one in which a path has no flux.
    """
    left = np.maximum(net, 0.0)
    fluxes = []
    for path in along:
        steps = (np.array(path[:-1]), np.array(path[1:]))
        fluxes.append(float(left[steps].min()))
        left[steps] -= fluxes[-1]
    return fluxes


def _flux_table(flow: _Flow) -> pd.DataFrame:
    """Net fluxes between states, largest first; what is rounding is left out."""
    import pandas as pd

    pairs = np.argwhere(flow.net > 1e-10 * flow.total_flux)
    pairs = pairs[np.argsort(-flow.net[pairs[:, 0], pairs[:, 1]], kind="stable")]
    flux = flow.net[pairs[:, 0], pairs[:, 1]]
    index = pd.MultiIndex.from_arrays(pairs.T, names=["from", "to"])
    return pd.DataFrame({"flux": flux, "share": flux / flow.total_flux}, index=index)


def _paths(
    net: FloatArray, source: tuple[int, ...], target: tuple[int, ...]
) -> tuple[list[tuple[int, ...]], list[float]]:
    """Paths that the flux between states is made of, the strongest first, and the flux of each."""
    from scipy.sparse import csr_matrix

    forward = csr_matrix(np.maximum(net, 0.0))
    paths, flux = flux_pathways(forward, list(source), list(target), fraction=TOLD_SHARE, maxiter=MOST_PATHS)
    return [tuple(int(state) for state in path) for path in paths], [float(x) for x in flux]


def _path_table(flow: _Flow, source: tuple[int, ...], target: tuple[int, ...], names: list[str] | None) -> pd.DataFrame:
    """Paths in words, with their fluxes and shares."""
    import pandas as pd

    along, flux = _paths(flow.net, source, target)
    called = default_names(len(flow.net)) if names is None else names
    table = {"path": [" → ".join(called[state] for state in path) for path in along], "states": along}
    return pd.DataFrame({**table, "flux": flux, "share": np.array(flux) / flow.total_flux})
