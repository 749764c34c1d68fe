"""What can be said about the states of a model in some trajectories: every number of a report, each computed once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3c_md.exceptions import InputError, M3CWarning, SolverError
from m3c_md.markov.chapman_kolmogorov import ChapmanKolmogorov, chapman_kolmogorov
from m3c_md.markov.kinetics import Kinetics, kinetics
from m3c_md.markov.timescales import ImpliedTimescales, implied_timescales
from m3c_md.markov.transitions import metastability

StateArray = NDArray[np.int32]


@dataclass(frozen=True)
class Findings:
    """States of trajectories in numbers.

    Attributes
    ----------
    quality : float
        Metastability Q at the lag time of the fit.
    lagtime : int
        Of the fit, in frames.
    timescales : dict
        Implied timescales to draw, by name; the last are those that count.
    test : ChapmanKolmogorov or None
        At the lag time from which the slowest timescale is level; None if none is resolved.
    kinetics : Kinetics, optional
        At that lag time, or at one frame of cored states; None where states are entered too rarely.
    margin : float
        Of the coring, 0 without.
    warnings : list of str
        What was said about these numbers.
    """

    quality: float
    lagtime: int
    timescales: dict[str, ImpliedTimescales]
    test: ChapmanKolmogorov | None
    kinetics: Kinetics | None
    margin: float = 0.0
    warnings: list[str] = field(default_factory=list)

    @property
    def slowest(self) -> ImpliedTimescales:
        """Timescales that count: those of cored states, if states were cored."""
        return list(self.timescales.values())[-1]


def find(
    model: Any,
    trajs: Sequence[Any],
    *,
    lagtime: int = 1,
    dt: float = 1.0,
    unit: str = "frame",
    core: bool = False,
    random_state: Any = None,
) -> Findings:
    """Compute all findings on the states that a model gives some trajectories.

    Examples
    --------
    >>> from m3c_md import M3C
    >>> rng = np.random.default_rng(0)
    >>> x = np.cumsum(rng.random((5000, 1)) < 0.01, axis=0) % 2 + 0.1 * rng.normal(size=(5000, 1))
    >>> found = find(M3C(2, random_state=0).fit_fetch(x), [x], random_state=0)
    >>> bool(found.quality > 1.9), found.kinetics.states["population"].sum().round(6)
    (True, np.float64(1.0))
    """
    n, dtrajs = model.n_states, model.transform(list(trajs))
    quality = metastability(dtrajs, lagtime, n)
    timescales = {"": level_timescales(dtrajs, n, lagtime, dt=dt, unit=unit, random_state=random_state)}
    margin, states = 0.0, dtrajs
    if core:
        cored = model.core(list(trajs))
        margin, states = cored.margin, cored.dtrajs
        after = level_timescales(states, n, lagtime, dt=dt, unit=unit, random_state=random_state)
        timescales = {"as labelled": timescales[""], "cored": after}
    test = markov_test(dtrajs, next(iter(timescales.values())), n, random_state)
    return findings_of(states, n, lagtime, quality, timescales, test, margin, random_state)


def findings_of(
    dtrajs: Sequence[StateArray],
    n_states: int,
    lagtime: int,
    quality: float,
    timescales: dict[str, ImpliedTimescales],
    test: ChapmanKolmogorov | None,
    margin: float = 0.0,
    random_state: Any = None,
) -> Findings:
    """Complete findings of which all but the kinetics are known; ``dtrajs`` are cored if ``margin`` is not 0."""
    last = list(timescales.values())[-1]
    lag = 1 if margin else last.plateaus[0].lagtime or lagtime
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", M3CWarning)
        rates, failed = None, []
        try:
            rates = kinetics(
                list(dtrajs), lag, n_states=n_states, dt=last.dt, unit=last.unit, random_state=random_state
            )
        except (SolverError, InputError) as error:  # states that are hardly ever entered: no reason to lose the fit
            failed = [str(error)]
    said = dict.fromkeys([*last.warnings, *rising(last), *(str(warning.message) for warning in caught), *failed])
    return Findings(quality, lagtime, timescales, test, rates, margin, list(said))


def level_timescales(
    dtrajs: Sequence[StateArray], n_states: int, lagtime: int, *, dt: float, unit: str, random_state: Any
) -> ImpliedTimescales:
    """Implied timescales at lag times among which a given one is, and as far as they rise.

    Examples
    --------
    >>> chain = np.cumsum(np.random.default_rng(0).random(20_000) < 0.005) % 2
    >>> 3 in level_timescales([chain], 2, 3, dt=1.0, unit="frame", random_state=0).lagtimes
    True
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", M3CWarning)  # the last call says it again
        found = implied_timescales(list(dtrajs), n_states=n_states, confidence=None)
        lags = {*found.lagtimes.tolist(), lagtime}
        further = [plateau.try_lagtime for plateau in found.plateaus if plateau.try_lagtime is not None]
    if further:
        lags |= {*np.geomspace(max(lags), max(further), 4).round().astype(int).tolist()}
    return implied_timescales(
        list(dtrajs), sorted(lags), n_states=n_states, dt=dt, unit=unit, random_state=random_state
    )


def markov_test(
    dtrajs: Sequence[StateArray], timescales: ImpliedTimescales, n_states: int, random_state: Any
) -> ChapmanKolmogorov | None:
    """Chapman-Kolmogorov test at the lag time from which the slowest timescale is level; None if none is resolved.

    Examples
    --------
    >>> chain = np.cumsum(np.random.default_rng(0).random(20_000) < 0.005) % 2
    >>> timescales = level_timescales([chain], 2, 1, dt=1.0, unit="frame", random_state=0)
    >>> markov_test([chain], timescales, 2, 0).passes
    True
    """
    lag = timescales.plateaus[0].lagtime if timescales.max_n_processes else 0
    if lag == 0:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", M3CWarning)  # of short trajectories and missing states there was a word before
        return chapman_kolmogorov(
            list(dtrajs), lag, n_states=n_states, dt=timescales.dt, unit=timescales.unit, random_state=random_state
        )


def verdict_of_test(test: ChapmanKolmogorov) -> str:
    """Say whether a Chapman-Kolmogorov test was passed, and by how much probabilities deviate."""
    word = {True: "passed", False: "failed", None: "not judged, for data are too few"}[test.passes]
    allowed = "" if test.allowed_deviation is None else f", by chance up to {test.allowed_deviation:#.2g}"
    return f"{word} (probabilities deviate by {test.max_deviation:#.2g}{allowed})"


def rising(timescales: ImpliedTimescales) -> list[str]:
    """Timescales that are resolved, but were not seen to be level, in words."""
    return [p.describe(timescales.dt, timescales.unit) for p in timescales.plateaus if p.lagtime and not p.level]
