"""Transition paths: on which ways, and how often, a system goes from some states to others (transition path theory).

Committors and fluxes are deeptime's (`deeptime.markov.reactive_flux`), of the Markov model of the macrostates or of one
of microstates; here they get names and units, and microstates are added up to states.
"""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from deeptime.markov import ReactiveFlux, reactive_flux
from deeptime.markov.tools.flux import pathways as flux_pathways

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.exceptions import InputError
from m3c_md.inputs.lengths import check_longest
from m3c_md.inputs.settings import check_integer, check_positive, check_string
from m3c_md.inputs.state_names import (
    default_names,
    names_or_none,
    state_number,
    state_title,
    with_end_names,
    with_names,
)
from m3c_md.inputs.state_trajectories import as_state_trajectories
from m3c_md.markov.resampling import FlowSamples
from m3c_md.markov.reversible import reversible_flows, transition_matrices
from m3c_md.markov.timescales import disconnected_notes
from m3c_md.markov.transitions import counts_per_trajectory, number_of_states, short_trajectory_notes

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
        and its ``share`` in the total flux; largest first.
    pathways : pandas.DataFrame
        Paths that the flux is made of, the strongest first: ``path`` in words, ``states`` along it, ``flux``,
        ``share``.
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

    @property
    def rate(self) -> float:
        """Transitions to the target per time that the system comes from the source: the reciprocal of ``mfpt``."""
        return 1.0 / self.mfpt

    def title(self, states: Sequence[int]) -> str:
        """Return what some states are called."""
        return " or ".join(state_title(self.names, state) for state in states)

    def __repr__(self) -> str:
        head = f"<{type(self).__name__}: {self.title(self.source)} to {self.title(self.target)}"
        lines = [
            f"{head}, lag time {self.lagtime * self.dt:.4g} {self.unit}>",
            f"mean first-passage time {self.mfpt:.4g} {self.unit}, time on the way {self.duration:.3g} {self.unit}, "
            f"{self.total_flux:.3g} transitions per {self.unit}",
            self.pathways.drop(columns="states").to_string(float_format=lambda x: f"{x:.3g}"),
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
) -> TransitionPaths:
    """Paths from some states to others, with their fluxes, committors and times, by transition path theory.

    Use a lag time at which timescales are level, or cored trajectories (``model.core``): recrossings at a border would
    count as transitions.

    Parameters
    ----------
    dtrajs : array (n_frames,), list of such arrays, or deeptime MarkovStateModel
        State of each frame, of which the reversible macro-MSM is made; or a Markov model, of states or of microstates.
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
    if hasattr(dtrajs, "transition_matrix"):
        chain = _chain_of_model(dtrajs, assignments, n_states)
    elif assignments is None:
        chain = _chain_of_trajectories(dtrajs, lagtime, n_states)
    else:
        raise InputError("assignments are states of the microstates of a Markov model; give that, not trajectories")
    called = names_or_none(names, chain.n_states)
    begin, end = (chain.ends(what, given, called) for what, given in (("source", source), ("target", target)))
    if set(begin) & set(end):
        raise InputError(f"source={source!r:.40} and target={target!r:.40} share a state; name different ones")
    cells = [np.flatnonzero(np.isin(chain.states, some)) for some in (begin, end)]
    found = reactive_flux(chain.matrix, *cells, stationary_distribution=chain.stationary)
    return _in_units(found, chain, begin, end, time_step, time_unit, called)


@dataclass(frozen=True)
class _Chain:
    """Markov chain on connected cells, which are states or microstates.

    Attributes
    ----------
    matrix, stationary : (n_cells, n_cells) and (n_cells,) arrays
    states : (n_cells,) array
        State of every cell.
    n_states, lagtime : int
    """

    matrix: FloatArray
    stationary: FloatArray
    states: IntArray
    n_states: int
    lagtime: int

    def ends(self, what: str, given: Any, names: Sequence[str] | None) -> tuple[int, ...]:
        """States where paths begin or end, checked."""
        several = [given] if isinstance(given, str) or not hasattr(given, "__iter__") else list(given)
        called = default_names(self.n_states) if names is None else names
        numbers = tuple(dict.fromkeys(state_number(called, state, what) for state in several))
        if not numbers:
            raise InputError(f"{what}={given!r:.40} names no state; give one, by number or name")
        for state in numbers:
            if state not in self.states:
                raise InputError(
                    f"{what}={given!r:.40}: {state_title(names, state)} is not connected with the others at this lag "
                    "time; use a shorter one, or more data"
                )
        return numbers


def _chain_of_trajectories(dtrajs: Any, lagtime: int, n_states: int | None) -> _Chain:
    """Chain of the states of trajectories that are connected."""
    trajectories = as_state_trajectories(dtrajs, n_states)
    n, lag = number_of_states(trajectories, n_states), check_integer("lagtime", lagtime, 1)
    check_longest([len(x) for x in trajectories], lag)
    flows = reversible_flows(counts_per_trajectory(trajectories, lag, n).sum(axis=0)[None])
    notes = short_trajectory_notes(trajectories, [lag]) + disconnected_notes([lag], [FlowSamples(flows[0], None)])
    for message, category in notes:
        python_warnings.warn(message, category, stacklevel=3)
    connected = np.flatnonzero(~np.isnan(np.diagonal(flows[0])))
    block = np.ix_(connected, connected)
    return _Chain(transition_matrices(flows)[0][block], flows[0][block].sum(axis=1), connected, n, lag)


def _chain_of_model(msm: Any, assignments: Any, n_states: int | None) -> _Chain:
    """Chain of a deeptime model, of states that keep their numbers or of microstates that have some."""
    matrix = np.asarray(
        msm.transition_matrix.toarray() if hasattr(msm.transition_matrix, "toarray") else msm.transition_matrix
    )
    n_cells = len(matrix)
    if assignments is None:
        counts = msm.count_model if getattr(msm, "has_count_model", False) else None
        states = np.arange(n_cells) if counts is None else np.asarray(counts.state_symbols, dtype=np.intp)
    else:
        states = np.asarray(assignments)
        if states.shape != (n_cells,) or states.dtype.kind not in "iu" or states.min() < 0:
            raise InputError(
                f"assignments has shape {states.shape} and dtype {states.dtype}; give the state of each of the "
                f"{n_cells} microstates of the model, numbered from 0"
            )
    n = int(states.max()) + 1
    if n_states is not None:
        n = max(n, check_integer("n_states", n_states, n))
    return _Chain(matrix, np.asarray(msm.stationary_distribution), states.astype(np.intp), n, int(msm.lagtime or 1))


def _in_units(
    found: ReactiveFlux,
    chain: _Chain,
    source: tuple[int, ...],
    target: tuple[int, ...],
    dt: float,
    unit: str,
    names: list[str] | None,
) -> TransitionPaths:
    """Fluxes of cells added up to states, in units of time."""
    import pandas as pd

    step = chain.lagtime * dt
    of_cells = np.eye(chain.n_states)[chain.states]
    net = of_cells.T @ np.asarray(found.net_flux) @ of_cells / step
    np.fill_diagonal(net, 0.0)
    net = np.maximum(net - net.T, 0.0)
    population = of_cells.T @ chain.stationary
    with np.errstate(invalid="ignore"):
        committor = of_cells.T @ (chain.stationary * found.forward_committor) / population
    states = pd.DataFrame(
        {"population": population, "committor": committor}, index=pd.RangeIndex(len(net), name="state")
    )
    states.loc[population == 0.0, "population"] = np.nan
    total = float(found.total_flux) / step
    # Steps from the source to the target: one more than visits of cells between them.
    between = np.setdiff1d(np.arange(len(chain.states)), [*found.source_states, *found.target_states])
    on_the_way = (chain.stationary * found.forward_committor * found.backward_committor)[between].sum()
    return TransitionPaths(
        with_names(states, names),
        _flux_table(net, total, names),
        _path_table(net, total, source, target, names),
        source,
        target,
        total,
        float(found.mfpt) * step,
        float(on_the_way / found.total_flux + 1.0) * step,
        chain.lagtime,
        dt,
        unit,
        names,
    )


def _flux_table(net: FloatArray, total: float, names: list[str] | None) -> pd.DataFrame:
    """Net fluxes between states, largest first; what is rounding is left out."""
    import pandas as pd

    pairs = np.argwhere(net > 1e-10 * total)
    pairs = pairs[np.argsort(-net[pairs[:, 0], pairs[:, 1]], kind="stable")]
    flux = net[pairs[:, 0], pairs[:, 1]]
    index = pd.MultiIndex.from_arrays(pairs.T, names=["from", "to"])
    return with_end_names(pd.DataFrame({"flux": flux, "share": flux / total}, index=index), names)


def _path_table(
    net: FloatArray, total: float, source: tuple[int, ...], target: tuple[int, ...], names: list[str] | None
) -> pd.DataFrame:
    """Paths that the flux between states is made of, the strongest first."""
    import pandas as pd
    from scipy.sparse import csr_matrix

    paths, flux = flux_pathways(csr_matrix(net), list(source), list(target), fraction=TOLD_SHARE, maxiter=MOST_PATHS)
    called = default_names(len(net)) if names is None else names
    along = [tuple(int(state) for state in path) for path in paths]
    table = {"path": [" → ".join(called[state] for state in path) for path in along], "states": along}
    return pd.DataFrame({**table, "flux": flux, "share": np.asarray(flux) / total})
