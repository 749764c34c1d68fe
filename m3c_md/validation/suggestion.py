"""Which number of states a scan suggests, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from m3c_md.clustering.visits import FEW_ENTRIES, entered_times
from m3c_md.wording import amount

if TYPE_CHECKING:
    import pandas as pd

# A gap counts as clear if it is this factor or more, and at least half of the largest gap on a logarithmic scale.
LEAST_GAP = 2.0
# Adjusted Rand index between the labels of all data and of halves of them above which we call states stable.
STABLE = 0.8


def suggest(table: pd.DataFrame, lag: float, unit: str) -> tuple[int | None, str]:
    """Number of states that is suggested, None if none is convincing, and why.

    The largest number with a clear gap to the next process among those that are stable and slow. States often form a
    tree, whose first splits are far slower than the others: the largest gap of all would mostly give two states.

    Parameters
    ----------
    table : DataFrame
        As in `StateScan.table`.
    lag : float
        Lag time in ``unit``.
    unit : str

    Examples
    --------
    >>> import pandas as pd
    >>> rows = {"Q": [1.9, 2.0], "t2 / ps": [90.0, 90.0], "t3 / ps": [np.nan, 1.5], "stability": [1.0, 0.4]}
    >>> suggest(pd.DataFrame({**rows, "entered": [50, 9]}, index=[2, 3]), 1.0, "ps")[0]
    2
    """
    # The fastest process of a decomposition into κ states is t_κ.
    fastest = {n: float(table.loc[n, f"t{n} / {unit}"]) for n in table.index}
    stability = {n: float(table.loc[n, "stability"]) for n in table.index}
    good = [n for n in table.index if stability[n] >= STABLE and fastest[n] > lag]
    if not good:
        return None, _not_convincing(fastest, stability, lag, unit)
    gaps = {n: _gap(fastest, n, lag) for n in good}
    known = {n: gap for n, gap in gaps.items() if not np.isnan(gap)}
    clear = _clear(known)
    chosen = max(clear) if clear else max(known, key=lambda n: known[n]) if known else good[-1]
    reason = (
        f"{chosen} states: fits to halves of the data find the same states (adjusted Rand index "
        f"{stability[chosen]:.2f}, at least {STABLE} is asked for), and their fastest process, t{chosen}, takes "
        f"{amount(fastest[chosen], unit)} at the lag time of the fit, {amount(lag, unit)}."
    )
    if chosen in known:
        # A next process below the lag time, or one that M3C cannot find, is not measured: the gap may be larger.
        resolved = fastest[chosen + 1] > lag
        how = f" (t{chosen + 1} of {chosen + 1} states: {amount(fastest[chosen + 1], unit)})" if resolved else ""
        factor = f"{'' if resolved else 'at least '}{known[chosen]:.1f}"
        reason += f" One state more would add a process that is {factor} times faster{how}"
        others = ", ".join(f"{gap:.1f} for {n}" for n, gap in known.items() if n != chosen)
        reason += f"; for other numbers of states this factor is {others}." if others else "."
        if not clear:
            reason += f" No factor is clear ({LEAST_GAP:g} or more): the largest was taken, but look for yourself."
        elif others:
            reason += " The largest number of states with a clear gap of this kind was taken."
    return chosen, reason + _visits(table, chosen) + _others(table, good, list(known), stability)


def _clear(gaps: dict[int, float]) -> list[int]:
    """Return the numbers of states with a clear gap after them."""
    largest = max(gaps.values(), default=0.0)
    return [n for n, gap in gaps.items() if gap >= max(LEAST_GAP, largest**0.5)]


def _not_convincing(fastest: dict[int, float], stability: dict[int, float], lag: float, unit: str) -> str:
    best = max(stability, key=lambda n: np.nan_to_num(stability[n], nan=-1.0))
    speed = "is too fast to be measured" if np.isnan(fastest[best]) else f"takes {amount(fastest[best], unit)}"
    return (
        f"No number of states is convincing: fits to halves of the data agree best for {best} states (adjusted Rand "
        f"index {stability[best]:.2f}, at least {STABLE} is asked for), whose fastest process {speed} (lag time "
        f"{amount(lag, unit)}). More "
        "data, other features or another lag time may help."
    )


def _visits(table: pd.DataFrame, chosen: int) -> str:
    """Say how often the state that is entered least was entered, and what follows if that is rarely."""
    entered = {n: int(count) for n, count in table["entered"].dropna().items()}
    if chosen not in entered:
        return ""
    text = f" The state that is entered least was {entered_times(entered[chosen])}"
    if entered[chosen] >= FEW_ENTRIES:
        return f"{text}."
    enough = [n for n, count in entered.items() if n < chosen and count >= FEW_ENTRIES]
    fewer = f", or take {max(enough)} states" if enough else ""
    return f"{text} only: its population and rates are hardly known. Add data{fewer}."


def _others(table: pd.DataFrame, good: list[int], known: list[int], stability: dict[int, float]) -> str:
    """Say what is to be said of the other numbers of states."""
    reason = ""
    unknown = [n for n in good if n not in known]
    if unknown:
        reason += f" What would follow {', '.join(map(str, unknown))} states is not known: scan one state more."
    unstable = [n for n in table.index if stability[n] < STABLE]
    if unstable:
        reason += f" Not stable: {', '.join(f'{n} ({stability[n]:.2f})' for n in unstable)}."
    missing = [n for n in table.index if np.isnan(stability[n])]
    if missing:
        reason += f" M3C failed for {', '.join(map(str, missing))} states."
    return reason


def _gap(fastest: dict[int, float], n: int, lag: float) -> float:
    """How many times slower the last process kept is than the first one left out; NaN if that is not known.

    A process below the lag time is not resolved: all that is known is that it is faster.
    """
    if n + 1 not in fastest:
        return np.nan
    return fastest[n] / max(float(np.nan_to_num(fastest[n + 1])), lag)
