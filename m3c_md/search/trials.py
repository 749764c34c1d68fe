"""Trials: which start meets which bandwidth, from which labels, and which decompositions go on to more bandwidths.

Every start is first judged by its least-squares rule, which costs next to nothing and tells well what the local search
will make of it. Only those that promise something are optimised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args
from zlib import crc32

import numpy as np

from m3c_md.arrays import IntArray
from m3c_md.frames.windows import equally_spaced
from m3c_md.matching import same_states
from m3c_md.optimize.blocks import Rule
from m3c_md.search.failures import Failure, excused
from m3c_md.search.local_search import SearchSettings
from m3c_md.search.problem import STANDARD, BandwidthStart, Kernel, SearchProblem
from m3c_md.search.selection import (
    LARGEST_ERROR,
    NEARLY_AS_GOOD,
    NOTHING_LEARNED,
    TINY_STATE,
    Candidate,
    Standing,
    clearly_above,
    in_doubt,
    more_metastable,
    ranked,
    same_decomposition,
)
from m3c_md.search.starts import bandwidth_start, shared_starts

Start = str | IntArray
Trials = dict[Kernel, list["Trial"]]

# Starts that are made first. They know about time, each in its own way, so that it says something if they agree.
KNOWING_STARTS = ("kinetic", "lumping")
# How far up the grid of bandwidths scouts go, and where the one bandwidth lies at which a metric is tried first: wider
# kernels tell neighbouring states apart less and less, and the sweep meets them anyway.
LAST_SCOUT = 0.6
BELOW_THE_MIDDLE = 0.45
# Bandwidths at which all starts are tried, and decompositions that then meet the other bandwidths.
N_SCOUTS = 2
N_DECOMPOSITIONS = 3
# A start whose least-squares rule scores worse than the best by more than this factor is not optimised: the scores of
# local optima differ less from those of their starts (by a factor of 1 to 2.5 over all studied systems).
UNPROMISING = 2.5
# Trials at the first bandwidths, and at the others, that are optimised at most: the most promising ones.
MOST_SCOUTS = 4
MOST_SWEPT = 6
# Trials in the metric of scaled columns that have places of their own: what they find need not be learned.
PLAIN_TRIALS = 2
# Kernels with which the same labels are optimised at first.
KERNELS_OF_A_START = 2
# Trials that are optimised before it is asked whether all of them have lost a state.
TRIALS_AT_ONCE = 4
# A decomposition that scores worse than the best by more than this factor is not tried at other bandwidths (1.15, 1.6:
# the same states of alanine dipeptide, deca-alanine and two simulated series).
HOPELESS = 1.3
# Start labels that agree on this share of the windows are one start, if they have the same states.
SAME_START = 0.98
# Kinetics are estimated from at most this many windows: a small sample would miss the rare transitions.
KINETIC_WINDOWS = 10_000
# A start may hold a state rarer than the balance allows for: its labels are then bound to this share of what it has,
# but to no fewer windows than `TINY_STATE`, and to no smaller share of them than `RAREST`. Where somebody asked for
# states much larger than by default, that is what they get.
LOOSENED = 0.5
RAREST = 0.001
LARGEST_LOOSENED = 0.02


@dataclass(frozen=True)
class Trial:
    """One candidate to be optimised: from labels, or from the rule it reached before, or from both.

    Attributes
    ----------
    start : str
    labels : (n_windows,) array, optional
        Those of the rule by default.
    rule : Rule, optional
        That of least squares by default.
    twins : tuple of str
        Other starts whose labels are nearly the same: what is found for one is found for all.
    least_share : float, optional
        Lower bound on the shares of the labels; None for that of the settings.
    held : bool
        Whether labels stay as they are (`m3c_md.search.label_modes`).
    """

    start: str
    labels: IntArray | None = None
    rule: Rule | None = None
    twins: tuple[str, ...] = ()
    least_share: float | None = None
    held: bool = False

    def settings(self, common: SearchSettings) -> SearchSettings:
        """Settings of this trial."""
        return common.with_least_share(self.least_share)


def scouting(bandwidths: Sequence[float]) -> list[float]:
    """Some bandwidths from the lower and middle part of the grid, where solutions differ most."""
    if len(bandwidths) <= N_SCOUTS:
        return list(bandwidths)
    places = np.linspace(1, LAST_SCOUT * (len(bandwidths) - 1), N_SCOUTS).round().astype(int)
    return [bandwidths[place] for place in sorted(set(places.tolist()))]


def middle(bandwidths: Sequence[float]) -> list[float]:
    """One bandwidth from just below the middle of the grid, which serves most where the metric is a good one."""
    return [bandwidths[int(BELOW_THE_MIDDLE * (len(bandwidths) - 1))]]


def stream(seed: int, *names: str | float) -> np.random.Generator:
    """Generator of its own for a start (at a bandwidth): the same whatever else is tried, and in which order."""
    return np.random.default_rng([seed, *(crc32(str(name).encode()) for name in names)])


def labels_of_start(problem: SearchProblem, start: Start, seed: int) -> list[IntArray]:
    """Labels of all windows by a start that is the same for all kernels, one or several sets; else none."""
    if not isinstance(start, str):
        return [start]
    if start in get_args(BandwidthStart):
        return []
    return shared_starts(start, problem, stream(seed, start))  # type: ignore[arg-type]


def trial_name(start: Start, number: int, place: int = 0) -> str:
    """Name of the trials of a start, by its number; a start may have several sets of labels.

    Examples
    --------
    >>> trial_name("lumping", 1), trial_name("lumping", 1, 2)
    ('lumping', 'lumping 3')
    """
    name = start if isinstance(start, str) else f"labels {number}"
    return name if place == 0 else f"{name} {place + 1}"


def first_trials(
    problem: SearchProblem,
    kernels: Sequence[Kernel],
    starts: Sequence[tuple[int, Start, list[IntArray]]],
    n_windows: int,
    seed: int,
    failures: list[Failure] | None,
    *,
    rarer: bool = True,
) -> Trials:
    """Start labels of every candidate on the first sample; ``rarer`` states than the balance allows may be among them.

    Single frames do not tell whether a rare state is metastable, so theirs are never rarer.

    Parameters
    ----------
    starts : sequence of (int, str or array, list of arrays)
        Their numbers, names (or the labels that a user gave), and labels of all windows where these are the same for
        all kernels, see `labels_of_start`.
    """
    chosen = equally_spaced(problem.data.n_windows, n_windows)
    wide = np.union1d(chosen, equally_spaced(problem.data.n_windows, KINETIC_WINDOWS))
    trials: Trials = {kernel: [] for kernel in kernels}
    rarer = rarer and len(problem.data.windows) > 1

    def add(kernel: Kernel, name: str, labels: IntArray, places: IntArray) -> None:
        least = _least_share(labels, problem) if rarer else None
        _add(trials[kernel], Trial(name, labels=labels[places], least_share=least))

    for number, start, shared in starts:
        name = trial_name(start, number)
        for kernel in kernels if name in get_args(BandwidthStart) else ():
            with excused(failures, kernel.bandwidth, name):
                labels = bandwidth_start(name, problem, kernel, wide, stream(seed, name, *kernel))  # type: ignore[arg-type]
                add(kernel, name, labels, np.searchsorted(wide, chosen))
        for place, labels in enumerate(shared):
            for kernel in kernels:
                add(kernel, trial_name(start, number, place), labels, chosen)
    return trials


def _least_share(labels: IntArray, problem: SearchProblem) -> float | None:
    """Lower bound on the shares of labels that lets the rarest state of a start be; None where none is too rare."""
    lower = problem.settings.balance[0]
    smallest = float(np.bincount(labels, minlength=problem.settings.n_states).min()) / len(labels)
    if smallest >= lower or lower > LARGEST_LOOSENED:
        return None
    return min(lower, max(LOOSENED * smallest, RAREST, TINY_STATE / problem.n_windows))


def _add(trials: list[Trial], new: Trial) -> None:
    """Add a trial, or a twin to one that starts from nearly the same labels and would end at the same optimum."""
    assert new.labels is not None
    for place, other in enumerate(trials):
        if other.labels is not None and same_states(new.labels, other.labels, SAME_START):
            trials[place] = replace(other, twins=(*other.twins, new.start))
            return
    trials.append(new)


def promising(
    problem: SearchProblem,
    judged: Sequence[tuple[Trial, Candidate]],
    known: Sequence[tuple[Trial, Candidate]],
    most: int,
) -> list[tuple[Trial, Candidate]]:
    """Trials whose least-squares rule is not much worse than the best one known, best first; one to ``most`` of them.

    So is one that looks more metastable than the best, whatever its score. States that rest on one part of the data
    may look perfect, so those in doubt do not count as the best, and are tried last.
    """
    doubtful = _in_doubt(known)
    order = sorted(judged, key=lambda one: (id(one[1]) in doubtful, one[1].score))
    supported = [c.score for _, c in known if id(c) not in doubtful]
    limit = min(UNPROMISING * min(supported, default=np.inf), NOTHING_LEARNED)
    hopeful = [one for place, one in enumerate(order) if place == 0 or one[1].score <= limit]
    chosen = _few_of_each_start(hopeful)[:most]
    plain = _few_of_each_start([one for one in hopeful if one[1].metric == STANDARD])[:PLAIN_TRIALS]
    chosen += [one for one in plain if all(one is not other for other in chosen)]
    others = [c for _, c in order if c.standing(problem.settings, problem.n_windows) != Standing.DEGENERATE]
    extra = more_metastable(order[0][1], others)
    return chosen + [one for one in order if one[1] is extra and all(one is not other for other in chosen)]


def _in_doubt(judged: Sequence[tuple[Trial, Candidate]]) -> set[int]:
    """Identities of candidates of doubtful support, or with a state of a handful of windows that any rule tells apart.

    The latter are in doubt where others have none and are as metastable without such states.
    """
    few = {id(c): c.n_tiny_states for _, c in judged}
    sure = max((c.sure for _, c in judged if not few[id(c)]), default=-np.inf)
    return in_doubt([c for _, c in judged]) | {id(c) for _, c in judged if few[id(c)] and c.sure - few[id(c)] <= sure}


def agreed(
    problem: SearchProblem, judged: Sequence[tuple[Trial, Candidate]], names: Sequence[str]
) -> list[tuple[Trial, Candidate]]:
    """Trials, best first, of the decomposition on which starts of all these names agree; none where they do not.

    It must have the best score of all that are not in doubt, and no other decomposition may be nearly as good or
    clearly more metastable: where the data leave a choice, it is worth a closer look, and a word. So is one with states
    that rest on one part of the data, on which starts agree easily.
    """
    doubtful = _in_doubt(judged)
    order = sorted(judged, key=lambda one: (id(one[1]) in doubtful, one[1].score))
    if not order or not order[0][1].may_win(problem.settings, problem.n_windows):
        return []
    best = order[0][1]
    if best.support.error > LARGEST_ERROR:
        return []
    together = [one for one in order if same_decomposition(one[1], best)]
    others = [c for _, c in order if not any(c is one for _, one in together)]
    starts = {name.split()[0] for trial, _ in together for name in (trial.start, *trial.twins)}
    above = [
        c
        for c in others
        if c.may_win(problem.settings, problem.n_windows)
        and (clearly_above(c, best) or (c.score <= NEARLY_AS_GOOD * best.score and id(c) not in doubtful))
    ]
    return together if starts >= set(names) and not above else []


def _few_of_each_start(judged: Sequence[tuple[Trial, Candidate]]) -> list[tuple[Trial, Candidate]]:
    """Return trials without those that begin from the labels of others before them, but for one."""
    few: list[tuple[Trial, Candidate]] = []
    for one in judged:
        if sum(_same_labels(one[0], other) for other, _ in few) < KERNELS_OF_A_START:
            few.append(one)
    return few


def worth_teaching(judged: Sequence[tuple[Trial, Candidate]], most: int) -> list[tuple[Trial, Candidate]]:
    """Return the starts from which a metric is learned: those with the best scores, and the most metastable ones.

    A score says little in a metric that hides the states, so neither counts alone. Each start comes with the kernel
    that serves it best.
    """
    doubtful = _in_doubt(judged)
    by_score = sorted(judged, key=lambda one: (id(one[1]) in doubtful, one[1].score))
    by_metastability = sorted(judged, key=lambda one: (id(one[1]) in doubtful, -one[1].lowest))
    chosen: list[tuple[Trial, Candidate]] = []
    for order in (by_score, by_metastability):
        before = len(chosen)
        for trial, candidate in order:
            if len(chosen) - before == most:
                break
            if not any(_same_labels(trial, other) for other, _ in chosen):
                chosen.append((trial, candidate))
    return chosen


def _same_labels(one: Trial, other: Trial) -> bool:
    assert one.labels is not None
    assert other.labels is not None
    return same_states(one.labels, other.labels, SAME_START)


def sweep(problem: SearchProblem, scouted: Sequence[Candidate], bandwidths: Sequence[float]) -> Trials:
    """Carry the best clearly different decompositions that the scouts found, if any, to all other bandwidths."""
    found: list[Candidate] = []
    for candidate in ranked(problem, scouted):
        known = any(same_decomposition(candidate, other) for other in found)
        hopeless = bool(found) and candidate.score > HOPELESS * found[0].score
        if candidate.may_win(problem.settings, problem.n_windows) and not (known or hopeless):
            found.append(candidate)
    if not found:
        return {}
    tried = {(c.start, c.kernel) for c in scouted}
    trials: Trials = {}
    for c in found[:N_DECOMPOSITIONS]:
        for kernel in (Kernel(bandwidth, c.metric) for bandwidth in bandwidths):
            if (c.start, kernel) not in tried:
                trial = Trial(c.start, labels=c.optimum.labels, least_share=c.least_share)
                trials.setdefault(kernel, []).append(trial)
    return trials


def continued(candidates: Sequence[Candidate]) -> Trials:
    """Trials that go on from the rules that the candidates have reached."""
    trials: Trials = {}
    for c in candidates:
        trial = Trial(c.start, rule=c.optimum.rule, least_share=c.least_share, held=c.held)
        trials.setdefault(c.kernel, []).append(trial)
    return trials


def by_kernel(judged: Sequence[tuple[Trial, Candidate]]) -> Trials:
    """Trials that begin with their least-squares rules, kernel by kernel."""
    trials: Trials = {}
    for trial, candidate in judged:
        trials.setdefault(candidate.kernel, []).append(replace(trial, rule=candidate.optimum.rule))
    return trials
