"""Coring: a trajectory changes its state when it is deep inside another one, not when it crosses a border.

Near a border trajectories cross it many times before they decide. Each crossing counts as a transition, so that rates
are too large and timescales too small at short lag times. A rule with margins says how deep a frame is inside its
state: its core is where the margin is large enough, and between cores a frame keeps the state of the last one.

In equilibrium the population of a state then is the mean probability to have come from its core (the backward
committor), and by time reversal that is also the probability to reach its core first. This is what frames before the
first core get: the state of the core that is reached first. Left out, or given the state on whose side they lie, they
would not follow the same law as all others, and short trajectories would have other populations than long ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray
from m3c_md.markov.reversible import relaxation_eigenvalues, reversible_flows
from m3c_md.markov.transitions import StateArray, counts_per_trajectory

if TYPE_CHECKING:
    import pandas as pd

# Margins that are tried: so many steps of the same size, and as many with the same number of frames between them.
N_STEPS = 12
# A state keeps at least so much of its frames in its core.
LEAST_CORE = 0.5
# Timescales at lag 1 agree with those at longer lags if they differ by no more than this.
TOLERANCE = 0.02
# The longer lag time, as a share of the timescale itself: recrossings are over, and there are still data enough.
LONGER = 0.25
# Timescales of fewer frames are not resolved at any longer lag.
LEAST_TIMESCALE = 4.0


class MarginChoice(NamedTuple):
    """The margin that was taken, why, and what was tried.

    Attributes
    ----------
    margin : float
    reason : str
    table : pandas.DataFrame
        For every margin: ``outside`` (share of the frames in no core), ``changes`` of state, and for every timescale
        t2, t3, ... its value at lag time 1 and, as "t2 later", at a longer one, in frames.
    """

    margin: float
    reason: str
    table: pd.DataFrame


@dataclass(frozen=True)
class CoredTrajectories:
    """States by coring.

    Attributes
    ----------
    dtrajs : (n_frames,) int32 array, or list of them
        State of every frame: that of the core it was in last.
    transition : (n_frames,) bool array, or list of them
        Frames on their way from one core to another: after the last frame in the one and before the first in the other.
    margin : float
        How deep a core is.
    min_dwell : int
        Frames that a stay must last.
    choice : MarginChoice or None
        How the margin was chosen; None if it was given.
    """

    dtrajs: Any
    transition: Any
    margin: float
    min_dwell: int
    choice: MarginChoice | None = None

    def __repr__(self) -> str:
        why = "as given" if self.choice is None else self.choice.reason
        on_the_way = np.concatenate(self.transition if isinstance(self.transition, list) else [self.transition]).mean()
        return (
            f"<{type(self).__name__}: margin {self.margin:.3g} ({why}), min_dwell {self.min_dwell}, {on_the_way:.2%} "
            "of the frames on their way between two cores>"
        )


def core_trajectories(depths: Any, n_states: int, margin: float | None, min_dwell: int) -> CoredTrajectories:
    """Core trajectories, with a margin that is chosen by them if it is None.

    Parameters
    ----------
    depths : array with fields "state" and "lead", or list of them
        Of every frame; a list gives lists.
    n_states : int
    margin : float or None
    min_dwell : int

    Examples
    --------
    >>> depths = np.array([(0, 2.0), (1, 0.1), (0, 1.5)], dtype=[("state", int), ("lead", float)])
    >>> core_trajectories(depths, 2, 1.0, 1).dtrajs
    array([0, 0, 0], dtype=int32)
    """
    several = isinstance(depths, list)
    parts = [(x["state"], x["lead"]) for x in (depths if several else [depths])]
    choice = None
    if margin is None:
        choice = choose_margin([states for states, _ in parts], [leads for _, leads in parts], n_states, min_dwell)
        margin = choice.margin
    cored = [core_states(states, leads, margin, min_dwell) for states, leads in parts]
    dtrajs, transition = [states for states, _ in cored], [way for _, way in cored]
    if several:
        return CoredTrajectories(dtrajs, transition, margin, min_dwell, choice)
    return CoredTrajectories(dtrajs[0], transition[0], margin, min_dwell, choice)


def core_states(
    states: NDArray[np.integer], leads: FloatArray, margin: float, min_dwell: int = 1
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Cored states of one trajectory, and which frames are on their way between two cores.

    Parameters
    ----------
    states : (n_frames,) int array
        State of each frame.
    leads : (n_frames,) array
        How deep it is inside: its margin.
    margin : float
        Frames with at least this margin are in the core of their state. With 0 all are, and states stay as they are.
    min_dwell : int
        A stay counts if so many frames pass between its first frame in the core and the next other core; shorter ones
        keep the state from before.

    Returns
    -------
    states : (n_frames,) int32 array
        State of the last core; before the first one, of that one. Without any core, the state of the deepest frame.
    transition : (n_frames,) bool array

    Examples
    --------
    >>> states, leads = np.array([0, 0, 1, 0, 1, 1, 1]), np.array([2.0, 0.1, 0.2, 0.1, 0.3, 2.0, 2.0])
    >>> cored, transition = core_states(states, leads, 1.0)
    >>> cored.tolist(), transition.tolist()
    ([0, 0, 0, 0, 0, 1, 1], [False, True, True, True, True, False, False])
    """
    visits = np.flatnonzero(leads >= margin)
    visits = visits[_long_enough(states[visits], visits, len(states), min_dwell)]
    if len(visits) == 0:
        deepest = int(leads.argmax())
        return np.full(len(states), states[deepest], dtype=np.int32), np.zeros(len(states), dtype=bool)
    frames = np.arange(len(states))
    last = np.searchsorted(visits, frames, side="right") - 1  # number of the last visit to a core, -1 before the first
    following = np.minimum(np.searchsorted(visits, frames), len(visits) - 1)
    of_core = states[visits]
    cored = of_core[np.maximum(last, 0)]
    return cored.astype(np.int32), (last >= 0) & (cored != of_core[following])


def _long_enough(
    of_core: NDArray[np.integer], visits: NDArray[np.intp], n_frames: int, min_dwell: int
) -> NDArray[np.bool_]:
    """Which frames in cores belong to stays that last, until another core is entered or the trajectory ends."""
    if len(visits) == 0:
        return np.zeros(0, dtype=bool)
    begins = np.flatnonzero(np.diff(of_core, prepend=of_core[0] - 1))
    lasting = np.diff(visits[begins], append=n_frames) >= min_dwell
    return np.repeat(lasting, np.diff(begins, append=len(visits)))


def choose_margin(
    states: Sequence[NDArray[np.integer]], leads: Sequence[FloatArray], n_states: int, min_dwell: int = 1
) -> MarginChoice:
    """Choose the margin at which timescales at lag 1 come closest to those at longer lag times.

    Recrossings of borders lower timescales at short lag times alone, so that the difference shows how many are left. It
    is judged for every timescale of at least four frames, at a lag time of a quarter of it. Margins are looked at up to
    the first at which none is lower by more than 2 %: from there on there is nothing left to mend. Of these the one
    with the smallest sum of squared differences (of logarithms) is taken. That is not always the last: where one
    timescale takes a large margin to rise, another may be too high by then. No state loses more than half of its frames
    from its core, and none its connection with the others.

    Parameters
    ----------
    states, leads : sequences of (n_frames,) arrays
        State of each frame and its margin.
    n_states : int
    min_dwell : int

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(20, 1000)) * 0.5 + np.repeat([[-1, 1] * 10], 50)[None]
    >>> choose_margin(list((x > 0).astype(int)), list(abs(x)), 2).margin > 0.2
    True
    """
    margins = _margins(np.concatenate(states), np.concatenate(leads))
    now = _timescales(_cored(states, leads, 0.0, min_dwell), 1, n_states)
    judged = np.flatnonzero(now >= LEAST_TIMESCALE)
    longer = [max(2, round(LONGER * t)) for t in now[judged]]
    rows = []
    for margin in margins:
        cored = _cored(states, leads, margin, min_dwell)
        first = _timescales(cored, 1, n_states)[judged]
        later = np.array([_timescales(cored, lag, n_states)[p] for p, lag in zip(judged, longer, strict=True)])
        rows.append((first, later, sum(np.count_nonzero(np.diff(x)) for x in cored)))
    return _best(margins, rows, judged, longer, np.concatenate(leads))


def _best(
    margins: FloatArray, rows: list[Any], judged: NDArray[np.intp], longer: list[int], leads: FloatArray
) -> MarginChoice:
    """Choose among what was tried, and say why."""
    import pandas as pd

    first, later = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    table = pd.DataFrame({"outside": [float((leads < margin).mean()) for margin in margins]}, index=margins)
    table.index.name = "margin"
    table["changes"] = [row[2] for row in rows]
    for column, process in enumerate(judged):
        table[f"t{process + 2}"] = first[:, column]
        table[f"t{process + 2} later"] = later[:, column]
    if len(judged) == 0:
        return MarginChoice(0.0, "no timescale is resolved at longer lag times, nothing to choose by", table)
    with np.errstate(divide="ignore", invalid="ignore"):
        missing = np.log(later / first)
    good = (missing <= TOLERANCE).all(axis=1)
    looked_at = int(good.argmax()) + 1 if good.any() else len(margins)
    distance = np.where(np.isnan(missing), np.inf, missing**2).sum(axis=1)[:looked_at]
    closest = int(distance.argmin())
    lags = " and ".join(str(lag) for lag in longer)
    if not np.isfinite(distance[closest]):
        return MarginChoice(0.0, f"no timescale is resolved at lag {lags}, nothing to choose by", table)
    if np.abs(missing[closest]).max() <= TOLERANCE:
        agreement = f"agree with those at lag {lags} to {TOLERANCE:.0%}"
    else:
        offs = [f"t{p + 2} {-off:+.0%}" for p, off in zip(judged, missing[closest], strict=True)]
        agreement = f"come closest to those at lag {lags} ({', '.join(offs)})"
    return MarginChoice(float(margins[closest]), f"timescales at lag 1 {agreement}", table)


def _margins(states: NDArray[np.integer], leads: FloatArray) -> FloatArray:
    """Margins to try, 0 first."""
    largest = min(np.quantile(leads[states == state], 1.0 - LEAST_CORE) for state in np.unique(states))
    outside = float((leads < largest).mean())
    by_frames = np.quantile(leads, outside * np.linspace(0.0, 1.0, N_STEPS + 1)[1:-1])
    return np.unique(np.concatenate([np.linspace(0.0, max(largest, 0.0), N_STEPS + 1), np.maximum(by_frames, 0.0)]))


def _cored(
    states: Sequence[NDArray[np.integer]], leads: Sequence[FloatArray], margin: float, min_dwell: int
) -> list[StateArray]:
    return [core_states(x, lead, margin, min_dwell)[0].astype(np.intp) for x, lead in zip(states, leads, strict=True)]


def _timescales(trajectories: Sequence[StateArray], lag: int, n_states: int) -> FloatArray:
    """Implied timescales in frames; NaN where there is none."""
    counts = counts_per_trajectory(trajectories, lag, n_states).sum(axis=0)
    eigenvalues = relaxation_eigenvalues(reversible_flows(counts[None]))[0]
    times = np.full(len(eigenvalues), np.nan)
    slow = (eigenvalues > 0.0) & (eigenvalues < 1.0)
    times[slow] = -lag / np.log(eigenvalues[slow])
    return times
