"""Numbers as people write them: with their errors, their units, and no more digits than they are worth."""

from __future__ import annotations

import math

# How intervals were made, in words for people who do not know our settings.
_INTERVALS = {
    "bootstrap": "95 % intervals by resampling whole trajectories",
    "bayesian": "95 % intervals from a Bayesian Markov model",
    "refit": "95 % intervals by fitting the rule again to resampled trajectories",
}


def intervals_by(confidence: str | None) -> str:
    """Say how intervals were made.

    Examples
    --------
    >>> intervals_by("bayesian"), intervals_by(None)
    ('95 % intervals from a Bayesian Markov model', 'without intervals')
    """
    return "without intervals" if confidence is None else _INTERVALS[confidence]


def plain_number(value: float, digits: int = 3) -> str:
    """Some significant digits, without an exponent where that is readable.

    Examples
    --------
    >>> plain_number(2104.3), plain_number(0.98765), plain_number(2.5e9), plain_number(0.0), plain_number(-0.5)
    ('2100', '0.988', '2.5e+09', '0', '-0.5')
    """
    rounded = float(f"{value:.{digits}g}")
    if not 1e-4 <= abs(rounded) < 1e6:
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def amount(value: float, unit: str, digits: int = 3) -> str:
    """Give a number its unit; frames are counted.

    Examples
    --------
    >>> amount(203.4, "frame"), amount(1, "frame"), amount(7.5, "ns")
    ('203 frames', '1 frame', '7.5 ns')
    """
    text = plain_number(value, digits)
    return f"{text} {unit}{'s' if unit == 'frame' and text != '1' else ''}"


def with_interval(value: str, low: float, high: float) -> str:
    """Give a number the ends of its interval; none where both ends are the number, which then holds by definition.

    Examples
    --------
    >>> with_interval("2100", 1762.0, 2504.0), with_interval("0", 0.0, 0.0)
    ('2100 (1760 to 2500)', '0')
    """
    ends = plain_number(low), plain_number(high)
    return value if set(ends) == {value} else f"{value} ({ends[0]} to {ends[1]})"


def with_error(value: float, error: float) -> str:
    """Give a number its error: two digits of it, and as many decimals of the number.

    Examples
    --------
    >>> with_error(2.66, 0.0061), with_error(89.82, 16.2), with_error(1.894, float("nan")), with_error(2.0, 0.0)
    ('2.6600 ± 0.0061', '90 ± 16', '1.894', '2 ± 0')
    """
    if math.isnan(value):
        return "-"
    if not math.isfinite(error) or error <= 0.0:
        shown = plain_number(value, 4)
        return f"{shown} ± 0" if error == 0.0 else shown
    decimals = max(0, 1 - math.floor(math.log10(float(f"{error:.1e}"))))
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"
