"""The methods of a comparison by name, each with the settings among which held-out training data will choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from m3c_md.clustering.given_estimator import GivenEstimator, check_usable
from m3c_md.clustering.hidden_markov import HiddenMarkov
from m3c_md.clustering.k_medoids import KMedoids
from m3c_md.clustering.m3c import M3C
from m3c_md.clustering.mmc import MMC
from m3c_md.clustering.pcca_plus import PCCAPlus
from m3c_md.clustering.state_estimator import StateEstimator
from m3c_md.clustering.tica_pcca_plus import TICAPCCAPlus
from m3c_md.clustering.vampnet import VAMPNet, torch_is_missing
from m3c_md.exceptions import InputError
from m3c_md.inputs.settings import as_list, check_choice, check_integer
from m3c_md.validation.measures import MANY_COLUMNS

# Names that users give, and those that tables show.
METHODS = {
    "m3c": "M3C",
    "pcca+": "PCCA+",
    "tica+pcca+": "TICA + PCCA+",
    "hmm": "HMM",
    "vampnet": "VAMPnet",
    "mmc": "MMC",
    "k-medoids": "k-medoids",
}
# TICA joins from MANY_COLUMNS columns on: in fewer, cells of the columns themselves are fine enough.
DEFAULT = ("m3c", "pcca+", "mmc", "k-medoids")
DEFAULT_OF_MANY = ("m3c", "pcca+", "tica+pcca+", "mmc", "k-medoids")
# TICA at the lag time of the comparison takes slow noise for states where ten times as much does not.
LONGER_TICA = 10

Settings = dict[str, StateEstimator]


@dataclass(frozen=True)
class Choices:
    """What may be chosen among, as users give it; checked by `build_methods`."""

    n_microstates: Any = (50, 100, 200)
    n_components: Any = (2, 5, 10)
    tica_lagtime: Any = None


@dataclass(frozen=True)
class Shape:
    """Size of the training data, as far as it limits settings; none of it is known before they are read."""

    n_frames: int | None = None
    n_columns: int | None = None
    longest: int | None = None


def build_methods(
    methods: Any, n_states: int, lagtime: int, choices: Choices, shape: Shape
) -> tuple[dict[str, Settings], list[str]]:
    """Estimators by the name that tables show and by setting, and messages on what is left out.

    Parameters
    ----------
    methods : None, str, dict, or list of str and dict
        Names of ours, and dicts of estimators by names of the user's. None is the default, which depends on columns.
    n_states, lagtime : int
    choices : Choices
    shape : Shape

    Examples
    --------
    >>> built, _ = build_methods(["m3c", "pcca+"], 3, 1, Choices((50, 100)), Shape(5000, 4, 5000))
    >>> {name: list(settings) for name, settings in built.items()}
    {'M3C': [''], 'PCCA+': ['50 cells', '100 cells']}
    """
    built: dict[str, Settings] = {}
    messages: list[str] = []
    for name, given in _named(methods, shape.n_columns):
        if given is not None:
            if name in built or name in METHODS.values():
                raise InputError(
                    f"methods holds the name {name!r} twice, or it is that of a method of ours; use another"
                )
            built[name] = {"": _adapted(name, given, n_states)}
        elif name == "vampnet" and torch_is_missing():
            messages.append(f"vampnet left out: {torch_is_missing()}")
        else:
            built[METHODS[name]], message = _settings_of(name, n_states, lagtime, choices, shape)
            messages += [message] if message and message not in messages else []
    if not built:
        raise InputError("; ".join(messages))
    return built, messages


def _named(methods: Any, n_columns: int | None) -> list[tuple[str, Any]]:
    """Names of ours in small letters with None, names of the user's with their estimators."""
    if methods is None:
        methods = DEFAULT if n_columns is not None and n_columns < MANY_COLUMNS else DEFAULT_OF_MANY
    items = [methods] if isinstance(methods, str | dict) else methods
    if not isinstance(items, list | tuple) or not items or methods == {}:
        raise InputError(
            f"methods={methods!r:.60} must name at least one of {', '.join(METHODS)}, or give estimators of yours as "
            "{'name': estimator}"
        )
    named: list[tuple[str, Any]] = []
    for item in items:
        if isinstance(item, dict):
            named += list(item.items())
            continue
        name = str(item).lower()  # tables show "M3C"
        check_choice("methods", name if name in METHODS else item, tuple(METHODS))
        named.append((name, None))
    return named


def _adapted(name: Any, given: Any, n_states: int) -> StateEstimator:
    """Estimator of a user with the face of ours."""
    if not isinstance(name, str) or not name:
        raise InputError(f"methods holds the name {name!r:.60}; give estimators of yours as {{'name': estimator}}")
    check_usable(f"methods[{name!r:.40}]", given)
    if not isinstance(given, StateEstimator):
        return GivenEstimator(given, n_states)
    own = given.get_params().get("n_states")
    if own != n_states:
        raise InputError(f"methods[{name!r:.40}] has n_states={own}, but n_states={n_states} are compared; give that")
    return given


def _settings_of(name: str, n_states: int, lagtime: int, choices: Choices, shape: Shape) -> tuple[Settings, str]:
    """Settings of a method of ours, and a message on those that are left out."""
    if name not in ("pcca+", "tica+pcca+", "hmm"):
        simple: dict[str, StateEstimator] = {
            "m3c": M3C(n_states, lagtime),
            "mmc": MMC(n_states),
            "k-medoids": KMedoids(n_states),
            "vampnet": VAMPNet(n_states, lagtime),
        }
        return {"": simple[name]}, ""
    numbers, message = usable_numbers(choices.n_microstates, n_states, shape.n_frames)
    if name == "pcca+":
        return {f"{n} cells": PCCAPlus(n_states, lagtime, n_microstates=n) for n in numbers}, message
    kind = TICAPCCAPlus if name == "tica+pcca+" else HiddenMarkov
    components, lags = _components(choices.n_components, shape.n_columns), _tica_lags(choices, lagtime, shape.longest)
    if name == "hmm" and shape.n_columns is not None and shape.n_columns < MANY_COLUMNS:
        return {f"{n} cells": HiddenMarkov(n_states, lagtime, n_microstates=n) for n in numbers}, message
    return {
        _words(lag if len(lags) > 1 else None, dimension, n): kind(
            n_states, lagtime, n_components=dimension, tica_lagtime=lag, n_microstates=n, n_restarts=1
        )
        for lag in lags
        for dimension in components
        for n in numbers
    }, message


def _words(tica_lagtime: int | None, n_components: int, n_microstates: int) -> str:
    at = "" if tica_lagtime is None else f" at lag {tica_lagtime}"
    return f"{n_components} component{'s' if n_components > 1 else ''}{at}, {n_microstates} cells"


def _components(given: Any, n_columns: int | None) -> list[int]:
    """Numbers of slow components in rising order, none above the number of columns."""
    numbers = _whole("n_components", given, 1)
    return numbers if n_columns is None else sorted({min(number, n_columns) for number in numbers})


def _tica_lags(choices: Choices, lagtime: int, longest: int | None) -> list[int]:
    """Lag times of TICA: those given, or that of the comparison and ten times as much where trajectories allow it."""
    if choices.tica_lagtime is not None:
        lags = _whole("tica_lagtime", choices.tica_lagtime, 1)
        if longest is not None and lags[-1] >= longest:
            raise InputError(
                f"tica_lagtime={lags[-1]} needs trajectories of at least {lags[-1] + 1} frames; shorten it"
            )
        return lags
    longer = LONGER_TICA * lagtime
    return [lagtime, *([longer] if longest is not None and 10 * longer <= longest else [])]


def _whole(name: str, given: Any, smallest: int) -> list[int]:
    """Several whole numbers, or one, in rising order."""
    numbers = sorted({check_integer(name, number, smallest) for number in as_list(name, given)})
    if not numbers:
        raise InputError(f"{name} is empty; give at least one number")
    return numbers


def usable_numbers(n_microstates: Any, n_states: int, n_frames: int | None) -> tuple[list[int], str]:
    """Numbers of microstates in rising order that leave ten frames to each, and a message on the others."""
    numbers = _whole("n_microstates", n_microstates, n_states)
    if n_frames is None:
        return numbers, ""
    kept = [number for number in numbers if 10 * number <= n_frames] or numbers[:1]
    dropped = ", ".join(str(number) for number in numbers if number not in kept)
    message = f"n_microstates {dropped} left out: fewer than ten of {n_frames} training frames for each"
    return kept, message if dropped else ""


def label_of(name: str, setting: str) -> str:
    """Name of a method with its setting, as texts have it.

    Examples
    --------
    >>> label_of("PCCA+", "100 cells"), label_of("M3C", "")
    ('PCCA+ (100 cells)', 'M3C')
    """
    return f"{name} ({setting})" if setting else name
