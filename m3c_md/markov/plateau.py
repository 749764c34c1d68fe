"""Where timescales level off: the value to quote, the lag time that it belongs to, or that they still rise.

Labels that err near a border, or states with an inside of their own, make a timescale too small at short lag times:
where an eigenvalue is A exp(-lag / t) with A < 1, the implied timescale lag / (lag / t - log A) rises towards t. What
it is at the lag time of a fit says little; where it no longer rises it is a property of the molecule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray
from m3c_md.wording import amount, plain_number

# A timescale is level at a lag time if no more than so much of it is missing there. By the law above it rises until r
# times that lag time by (1 - 1/r) of what is missing. Lag times from twice as long on are looked at: nearer ones show
# little.
MOST_MISSING = 0.1
LEAST_RATIO = 2.0
# A rise by so many of its standard errors is no chance (one-sided 95 %).
SURE = 1.645
# How much further to look, if it still rises, but never beyond so much of the longest trajectory.
FURTHER = 4
LONGEST_SHARE = 0.2


class Plateau(NamedTuple):
    """A timescale where it is level, or at its longest resolved lag time if it still rises there; times in frames.

    Attributes
    ----------
    name : str
        "t2" for the slowest process, and so on.
    value, low, high : float
        Timescale and its 95 % interval (NaN if there are no samples).
    lagtime : int
        Where it was read; 0 if it is resolved at none.
    level : bool
        Whether it does not rise from there on, as far as can be told.
    try_lagtime : int or None
        Longest lag time to look at next, if it still rises and the trajectories are long enough.
    """

    name: str
    value: float
    low: float
    high: float
    lagtime: int
    level: bool
    try_lagtime: int | None

    def describe(self, dt: float = 1.0, unit: str = "frame") -> str:
        """One line for people, in units.

        Examples
        --------
        >>> Plateau("t2", 36.0, 30.0, 45.0, 10, True, None).describe(0.5, "ns")
        't2 = 18 ns (95 %: 15 to 22.5), level from lag time 5 ns on'
        """
        if self.lagtime == 0:
            return f"{self.name} cannot be measured, because it is shorter than every lag time"
        known = self.low == self.low
        band = f" (95 %: {plain_number(self.low * dt)} to {plain_number(self.high * dt)})" if known else ""
        where = f"lag time {amount(self.lagtime * dt, unit, 4)}"
        value = amount(self.value * dt, unit)
        if self.level:
            return f"{self.name} = {value}{band}, level from {where} on"
        remedy = (
            "longer trajectories, or frames saved more often, would show more"
            if self.try_lagtime is None
            else f"look at lag times up to {amount(self.try_lagtime * dt, unit, 4)}"
        )
        return (
            f"{self.name} is {value}{band} at {where}, the longest at which it can be measured, and is not seen to be "
            f"level; {remedy}"
        )

    def row(self, dt: float = 1.0) -> tuple[str, str, str, str, str]:
        """Cells of a table: name, value, interval, lag time, and whether it is level there.

        Examples
        --------
        >>> Plateau("t2", 36.0, 30.0, 45.0, 10, True, None).row(0.5)
        ('t2', '18', '15 to 22.5', '5', 'level')
        """
        if self.lagtime == 0:
            return self.name, "-", "-", "-", "not resolved"
        band = f"{plain_number(self.low * dt)} to {plain_number(self.high * dt)}" if self.low == self.low else "-"
        level = "level" if self.level else "not seen to be level"
        return self.name, plain_number(self.value * dt), band, plain_number(self.lagtime * dt, 4), level


def find_plateau(
    name: str,
    lagtimes: Sequence[int],
    timescales: FloatArray,
    bands: tuple[FloatArray, FloatArray],
    paired: FloatArray | None,
    longest: int,
) -> Plateau:
    """Plateau of one timescale.

    Parameters
    ----------
    name : str
    lagtimes : sequence of int
        In ascending order.
    timescales : (n_lagtimes,) array
        In frames; NaN where there is none.
    bands : two (n_lagtimes,) arrays
        Ends of the 95 % interval.
    paired : (n_lagtimes, n_samples) array, optional
        Timescales of resampled data, each sample the same data at all lag times: they say which rises are chance.
        Without them every rise counts that leaves more than a tenth missing.
    longest : int
        Frames of the longest trajectory.

    Examples
    --------
    >>> lags = np.array([1, 2, 4, 8, 16, 32])
    >>> t = lags / (lags / 100.0 + 0.01)  # rises towards 100
    >>> find_plateau("t2", lags, t, (t, t), None, 10_000)[1:5:3]
    (94.11764705882352, 16)
    """
    lags = np.asarray(lagtimes)
    resolved = np.flatnonzero(np.isfinite(timescales) & (timescales > lags))
    if len(resolved) == 0:
        return Plateau(name, np.nan, np.nan, np.nan, 0, False, None)
    # What does not rise visibly is better than what rises by no more than chance: that is known less well.
    level = next((i for i in resolved.tolist() if _is_level(lags, timescales, None, i, resolved)), None)
    if level is None and paired is not None:
        level = next((i for i in resolved.tolist() if _is_level(lags, timescales, paired, i, resolved)), None)
    place = resolved[-1] if level is None else level
    further = int(min(FURTHER * lags[-1], LONGEST_SHARE * longest))
    goes_on = level is None and place == len(lags) - 1 and lags[-1] < further < timescales[place]
    ends = (float(bands[0][place]), float(bands[1][place]))
    return Plateau(
        name, float(timescales[place]), *ends, int(lags[place]), level is not None, further if goes_on else None
    )


def _is_level(
    lags: NDArray[np.intp], timescales: FloatArray, paired: FloatArray | None, i: int, resolved: NDArray[np.intp]
) -> bool:
    """Whether the timescale does not rise from lag time number i on, as far as one can see; false if one cannot."""
    later = [j for j in resolved if lags[j] >= LEAST_RATIO * lags[i]]
    rises = np.log(timescales[later] / timescales[i])
    allowed = np.log1p(MOST_MISSING * (1.0 - lags[i] / lags[later]))
    if paired is not None:
        allowed = np.maximum(allowed, [SURE * scatter_of_rise(paired[j], paired[i]) for j in later])
    return len(later) > 0 and bool((rises <= allowed).all())


def scatter_of_rise(later: FloatArray, earlier: FloatArray) -> float:
    """Standard error of the logarithm of a ratio, from samples in which both are known."""
    known = np.isfinite(later) & np.isfinite(earlier) & (later > 0.0) & (earlier > 0.0)
    return float(np.log(later[known] / earlier[known]).std()) if known.sum() > 1 else np.inf
