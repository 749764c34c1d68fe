"""Who leads, by how much, and whether that is more than chance: paired differences over held-out parts, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.confidence import TAILS
from m3c_md.validation.splits import HALVES

if TYPE_CHECKING:
    import pandas as pd


class Difference(NamedTuple):
    """Mean by which one method lies behind another over the parts that both were judged by, and half its interval.

    Attributes
    ----------
    mean, half : float
        NaN where there is no part, or a single one, which gives no interval.
    n_parts : int
    """

    mean: float
    half: float
    n_parts: int

    @property
    def level(self) -> bool:
        """Whether zero lies within the interval; a single part cannot tell methods apart unless they are equal."""
        return not abs(self.mean) > (np.inf if np.isnan(self.half) else self.half) + 1e-12

    def words(self) -> str:
        """How far behind, in words; "level" is said elsewhere."""
        by = "ahead" if self.mean < 0 else "behind"
        if np.isnan(self.half):
            return f"{by} by {short(abs(self.mean))}"
        # One digit more where the first does not show that the interval ends before zero.
        digit = self.half / 10.0 if abs(self.mean) < 2.0 * self.half else self.half
        return f"{by} by {short(abs(self.mean), digit)} ± {short(self.half, digit)}"


def paired_difference(leader: FloatArray, other: FloatArray) -> Difference:
    """How much the leader has more than another method over the same held-out parts, with a 95 % interval.

    The interval is Student's, of the mean of the differences. Parts that judge fits to each other's trajectories are
    not quite independent, so it is somewhat too narrow.

    Parameters
    ----------
    leader, other : (n_parts,) arrays
        Values of the same parts; NaN where a method failed.

    Examples
    --------
    >>> mean, half, n_parts = paired_difference(np.array([2.9, 2.8, 2.7]), np.array([2.7, 2.5, 2.5]))
    >>> round(mean, 3), round(half, 3), n_parts
    (0.233, 0.143, 3)
    """
    from scipy.stats import t

    gaps = leader - other
    gaps = gaps[~np.isnan(gaps)]
    n = len(gaps)
    if n < 2:
        return Difference(float(gaps[0]) if n else np.nan, np.nan, n)
    half = float(t.ppf(TAILS[1], n - 1) * gaps.std(ddof=1) / np.sqrt(n))
    return Difference(float(gaps.mean()), half, n)


def differences_to_leader(splits: pd.DataFrame) -> tuple[str | None, dict[str, Difference]]:
    """Method with the largest mean Q, and how far the others lie behind it.

    A method leads only if it was judged by every part that any method was judged by, if there is such a one.

    Parameters
    ----------
    splits : DataFrame
        With columns "method", "held out" and "Q".
    """
    values = splits.pivot(index="held out", columns="method", values="Q")
    values = values[list(dict.fromkeys(splits["method"]))]
    known = values.notna().sum()
    if not known.max():
        return None, {}
    complete = values.loc[:, known == known.max()]
    leader = str(complete.mean().idxmax())
    first = values[leader].to_numpy()
    others = [name for name in values.columns if name != leader]
    return leader, {name: paired_difference(first, values[name].to_numpy()) for name in others}


def verdict(leader: str | None, differences: Mapping[str, Difference], labels: Mapping[str, str]) -> str:
    """One sentence on who leads.

    Parameters
    ----------
    leader, differences
        From `differences_to_leader`.
    labels : dict
        What to call each method, in the order in which equals are named.

    Examples
    --------
    >>> gaps = {"PCCA+": Difference(0.01, 0.02, 4), "MMC": Difference(0.22, 0.07, 4)}
    >>> verdict("M3C", gaps, {"M3C": "M3C", "PCCA+": "PCCA+ (100 cells)", "MMC": "MMC"})
    'M3C and PCCA+ (100 cells) are level within errors; MMC is behind by .22 ± .07.'
    """
    if leader is None:
        return "No method could be judged by held-out data."
    failed = [name for name, gap in differences.items() if not gap.n_parts]
    judged = {name: gap for name, gap in differences.items() if gap.n_parts}
    single = bool(judged) and max(gap.n_parts for gap in judged.values()) < 2
    if single:
        return _of_one_part(leader, judged, failed, labels)
    level = [name for name, gap in judged.items() if gap.level]
    behind = sorted((name for name in judged if name not in level), key=lambda name: judged[name].mean)
    first = _listed([label for name, label in labels.items() if name == leader or name in level])
    if level:
        first += " are level within errors"
        if any(judged[name].n_parts == 2 and judged[name].half > 0.0 for name in level):
            # Student's factor is 12.7 then: hardly any difference lies beyond it.
            first += f", which are large with two held-out parts (largest mean Q: {labels[leader]})"
    else:
        first += " leads" if behind else " was the only one to be judged"
    parts = [first, *(f"{labels[name]} is {judged[name].words()}" for name in behind)]
    return "; ".join([*parts, *_failures(failed, labels)]) + "."


def _of_one_part(
    leader: str, judged: Mapping[str, Difference], failed: Sequence[str], labels: Mapping[str, str]
) -> str:
    """Verdict of a single held-out part, which has no errors."""
    level = [name for name, gap in judged.items() if abs(gap.mean) < 1e-12]
    first = _listed([label for name, label in labels.items() if name == leader or name in level])
    first += " have the same Q" if level else " has the largest Q"
    rest = sorted((name for name in judged if name not in level), key=lambda name: judged[name].mean)
    parts = [first, *(f"{labels[name]} is {judged[name].words()}" for name in rest)]
    parts += ["one held-out part gives no errors, so this may be chance"]
    return "; ".join([*parts, *_failures(failed, labels)]) + "."


def _failures(failed: Sequence[str], labels: Mapping[str, str]) -> list[str]:
    return [f"{_listed([labels[name] for name in failed])} failed"] if failed else []


def _listed(names: Sequence[str]) -> str:
    """Names in a row, the last two with "and" between."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def short(value: float, error: float = np.nan) -> str:
    """Write a number without a zero before the point, to the first digit of its error but to two digits at least.

    Examples
    --------
    >>> short(0.2249, 0.071), short(0.071), short(0.00345, 0.0012), short(1.5), short(0.0)
    ('.22', '.07', '.003', '1.50', '0')
    """
    size = abs(error) if np.isfinite(error) and error > 0.0 else abs(value)
    if not np.isfinite(value) or size == 0.0:
        return "0" if value == 0.0 else f"{value:.2g}"
    text = f"{value:.{min(max(2, -int(np.floor(np.log10(size)))), 9)}f}"
    return text[1:] if text.startswith("0.") else text


def named_judges(names: Iterable[str]) -> str:
    """What a user calls the data that fits are judged on, from the names of the held-out parts.

    Examples
    --------
    >>> named_judges(["first half", "second half"])
    'the half of the trajectory that was not fitted'
    """
    halves = set(names) <= set(HALVES)
    return "the half of the trajectory that was not fitted" if halves else "held-out trajectories"
