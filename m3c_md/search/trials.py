"""Trials: which start meets which bandwidth, from which labels, and which decompositions go on to more bandwidths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from m3c_md.matching import agreement
from m3c_md.optimize.blocks import Rule
from m3c_md.search.failures import Failure, excused
from m3c_md.search.problem import BandwidthStart, SearchProblem
from m3c_md.search.selection import SAME_DECOMPOSITION, Candidate, Standing, agree, ranked
from m3c_md.search.starts import bandwidth_start, shared_starts
from m3c_md.search.windows import equally_spaced

IntArray = NDArray[np.intp]
Start = str | IntArray
Trials = dict[float, list["Trial"]]

# Bandwidths at which all starts are tried, and decompositions that then meet the other bandwidths.
N_SCOUTS = 2
N_DECOMPOSITIONS = 3
# Starts that meet the other bandwidths where all scouts are degenerate.
N_LAST_RESORT = 2
# A decomposition that scores worse than the best by more than this factor is not tried at other bandwidths.
HOPELESS = 1.3
# Start labels that agree on this share of the windows are one start.
SAME_START = 0.98
# Kinetics are estimated from at most this many windows: a small sample would miss the rare transitions.
KINETIC_WINDOWS = 10_000


@dataclass(frozen=True)
class Trial:
    """One candidate to be optimised: from labels, or from the rule it reached before.

    ``twins`` are other starts whose labels are nearly the same: what is found for one is found for all.
    """

    start: str
    labels: IntArray | None = None
    rule: Rule | None = None
    twins: tuple[str, ...] = ()


def scouting(bandwidths: Sequence[float]) -> list[float]:
    """Some bandwidths from the lower and middle part of the grid, where solutions differ most."""
    if len(bandwidths) <= N_SCOUTS:
        return list(bandwidths)
    places = np.linspace(1, 0.6 * (len(bandwidths) - 1), N_SCOUTS).round().astype(int)
    return [bandwidths[place] for place in sorted(set(places.tolist()))]


def _stream(seed: int, *names: str | float) -> np.random.Generator:
    """Generator of its own for a start (at a bandwidth): the same whatever else is tried, and in which order."""
    return np.random.default_rng([seed, *(crc32(str(name).encode()) for name in names)])


def first_trials(
    problem: SearchProblem,
    bandwidths: Sequence[float],
    starts: Sequence[Start],
    n_windows: int,
    seed: int,
    failures: list[Failure] | None,
) -> Trials:
    """Start labels of every candidate on the first sample."""
    chosen = equally_spaced(problem.data.n_windows, n_windows)
    wide = np.union1d(chosen, equally_spaced(problem.data.n_windows, KINETIC_WINDOWS))
    trials: Trials = {bandwidth: [] for bandwidth in bandwidths}
    for number, start in enumerate(starts):
        if isinstance(start, str) and start in get_args(BandwidthStart):
            for bandwidth in bandwidths:
                rng = _stream(seed, start, bandwidth)
                with excused(failures, bandwidth, start):
                    labels = bandwidth_start(start, problem, bandwidth, wide, rng)  # type: ignore[arg-type]
                    _add(trials[bandwidth], start, labels[np.searchsorted(wide, chosen)])
            continue
        name, shared = f"labels {number}", [] if isinstance(start, str) else [start]
        if isinstance(start, str):
            name = start
            with excused(failures, None, start):
                shared = shared_starts(start, problem, _stream(seed, start))  # type: ignore[arg-type]
        for place, labels in enumerate(shared):
            for bandwidth in bandwidths:
                _add(trials[bandwidth], name if place == 0 else f"{name} {place + 1}", labels[chosen])
    return trials


def _add(trials: list[Trial], name: str, labels: IntArray) -> None:
    """Add a trial, or a twin to one that starts from nearly the same labels and would end at the same optimum."""
    for place, other in enumerate(trials):
        if other.labels is not None and agreement(labels, other.labels) >= SAME_START:
            trials[place] = replace(other, twins=(*other.twins, name))
            return
    trials.append(Trial(name, labels=labels))


def sweep(problem: SearchProblem, scouted: list[Candidate], bandwidths: Sequence[float]) -> Trials:
    """Carry the best clearly different decompositions that the scouts found, if any, to all other bandwidths."""
    found: list[Candidate] = []
    for candidate in ranked(problem, scouted):
        known = any(agree(candidate, other, SAME_DECOMPOSITION) for other in found)
        hopeless = bool(found) and candidate.score > HOPELESS * found[0].score
        degenerate = candidate.standing(problem.settings, problem.n_windows) == Standing.DEGENERATE
        if not (known or hopeless or degenerate):
            found.append(candidate)
    if not found:
        return {}
    tried = {(c.start, c.bandwidth) for c in scouted}
    return {
        bandwidth: [
            Trial(c.start, labels=c.optimum.labels)
            for c in found[:N_DECOMPOSITIONS]
            if (c.start, bandwidth) not in tried
        ]
        for bandwidth in bandwidths
    }


def last_resort(scouted: list[Candidate], trials: Trials, bandwidths: Sequence[float]) -> Trials:
    """Where all scouts are degenerate: the starts that came closest to an honest solution, at all other bandwidths."""
    closest = list(dict.fromkeys(c.start for c in sorted(scouted, key=lambda c: -c.populations.min())))
    known = {
        name: replace(trial, start=name, twins=())
        for group in trials.values()
        for trial in group
        for name in (trial.start, *trial.twins)
    }
    return {bandwidth: [known[start] for start in closest[:N_LAST_RESORT]] for bandwidth in bandwidths}


def continued(candidates: list[Candidate]) -> Trials:
    """Trials that go on from the rules that the candidates have reached."""
    trials: Trials = {}
    for candidate in candidates:
        trials.setdefault(candidate.bandwidth, []).append(Trial(candidate.start, rule=candidate.optimum.rule))
    return trials
