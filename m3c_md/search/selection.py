"""Selection: what a candidate is, how it is judged, and which candidates go on.

Who may win is a matter of populations and support: every state must have frames, and must not rest on one part of the
data where other candidates rest on many. Who does win is a matter of the score, unless another candidate is more
metastable beyond the errors of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.frames.windows import FeatureBlocks
from m3c_md.matching import agreement, same_states
from m3c_md.search.fate import Fate, FateKind
from m3c_md.search.label_modes import SEARCHED, LabelMode
from m3c_md.search.local_search import LocalOptimum, SearchSettings
from m3c_md.search.problem import Kernel, SearchProblem
from m3c_md.search.rungs import ALL
from m3c_md.search.scores import Selection, part_losses, states_and_losses
from m3c_md.search.support import (
    Support,
    error_of_difference,
    lasts_longer,
    support_of_windows,
)

# Labelings of windows that agree on this share are one decomposition, if every state is found again: at another
# bandwidth, or on other windows, boundaries move by a few per cent (0.90 or 0.96: the same states of alanine dipeptide,
# deca-alanine and two simulated series).
SAME_DECOMPOSITION = 0.93
# Windows on which decompositions are compared that do not have the same windows: shares are then known to a per cent.
COMPARED_WINDOWS = 2000
# Labelings that agree on this share are one solution.
SAME_SOLUTION = 0.999
# Candidates of one decomposition that go on to a larger sample.
SAME_KEPT = 2
# Half-width of an interval of 95 %, in standard errors.
INTERVAL = 2.0
# A state adds at most one to Q. Where the interval of Q is wider than half of that to either side, the data do not
# tell whether the state is there.
LARGEST_ERROR = 0.5 / INTERVAL
# An error from ten parts that exceeds another by this factor is larger at the level of 95 % (F test, 9 and 9).
LARGER_ERROR = 2.0
# By how many errors of the difference states must be less metastable, many lag times later, than the longest-lived of
# many candidates: more than for a single comparison.
FLEETING = 3.0
# Share of their metastability that the longest-lived states must have kept by then for that comparison to count.
REMEMBERED = 0.5
# A state of which less than this is remembered many lag times later is none: two are as good as one by then.
FORGOTTEN = 0.1
# By which factor the score of a candidate may rise at full accuracy before others have another chance.
TURNED_OUT_WORSE = 1.03
# Scores that differ by less than this factor are nearly the same.
NEARLY_AS_GOOD = 1.25
# A state with fewer windows than this is told apart by any rule.
TINY_STATE = 10
# Every window costs 1 under the rule that gives all states the same score. A rule that costs as much has learned
# nothing, whatever its states are.
NOTHING_LEARNED = 0.98


class Standing(IntEnum):
    """What the populations of a candidate say: the lower, the better; a degenerate one never wins."""

    FINE = 0
    RARE = 1
    DEGENERATE = 2


@dataclass(frozen=True)
class Candidate:
    """A (start, kernel) and how far it came.

    Attributes
    ----------
    start, kernel : str, Kernel
    optimum : LocalOptimum
        On ``n_windows`` windows.
    score : float
        What selection minimises.
    populations : (n_states,) array
        Share of the frames that the rule gives to each state.
    metastability : float
        Weighted Q of the rule on the windows it was fitted to.
    n_windows : int
    fate : Fate
        What became of it; open while it goes on.
    support : Support
        On how much of the data its states rest.
    least_share : float, optional
        Lower bound on the shares of the labels that it was optimised with; None for that of the settings.
    held : bool
        Whether its labels were left as the start had them (`m3c_md.search.label_modes`). Its score is then of another
        kind.
    part_losses : tuple of float
        What consecutive parts of its windows add to its class-averaged loss; empty after looks at all data.
    """

    start: str
    kernel: Kernel
    optimum: LocalOptimum
    score: float
    populations: FloatArray
    metastability: float
    n_windows: int
    fate: Fate = field(default_factory=Fate)
    support: Support = field(default_factory=Support)
    least_share: float | None = None
    held: bool = False
    part_losses: tuple[float, ...] = ()

    @property
    def bandwidth(self) -> float:
        """Width of the kernel."""
        return self.kernel.bandwidth

    @property
    def metric(self) -> str:
        """Name of the metric in which the kernel takes distances."""
        return self.kernel.metric

    def standing(self, settings: SearchSettings, n_windows: int) -> Standing:
        """Whether all states have enough frames; half as many will do on a sample, where a rare state fluctuates."""
        smallest = float(self.populations.min()) * (1.0 if self.n_windows == n_windows else 2.0)
        if self.optimum.lost or not smallest > 0.0 or smallest < settings.with_least_share(self.least_share).floor:
            return Standing.DEGENERATE
        return Standing.FINE if smallest >= settings.guard else Standing.RARE

    def may_win(self, settings: SearchSettings, n_windows: int) -> bool:
        """Whether all states have frames, by a rule that is better than none.

        The latter is not asked of those that are there because all others have lost a state.
        """
        if self.standing(settings, n_windows) == Standing.DEGENERATE:
            return False
        closer = self.least_share is not None and self.least_share > settings.balance[0]
        return closer or not self.learned_nothing

    @property
    def learned_nothing(self) -> bool:
        """Whether the rule is no better than none; a rule for labels that are held is not asked."""
        return not self.held and self.score >= NOTHING_LEARNED

    @property
    def n_tiny_states(self) -> int:
        """Number of states with so few of the windows that the candidate met that any rule would tell them apart."""
        return int((self.populations * self.n_windows < TINY_STATE).sum())

    @property
    def merit(self) -> tuple[bool, float]:
        """Key to sort by, best first: by score, with scores of the other kind after all that are not."""
        return self.held, self.score

    def scored_like(self, other: Candidate) -> bool:
        """Whether the scores of two candidates are of one kind, so that they compare."""
        return self.held == other.held

    def ended(self, kind: FateKind, detail: str = "") -> Candidate:
        """Return this candidate with its fate."""
        return replace(self, fate=Fate(kind, detail))

    @property
    def sure(self) -> float:
        """Metastability that fresh data may be expected to have; Q where that is not known."""
        expected = self.support.expected
        return float(self.metastability if np.isnan(expected) else expected)

    @property
    def lowest(self) -> float:
        """Lower end of the interval of the metastability."""
        return float(self.metastability - INTERVAL * np.nan_to_num(self.support.error))

    @property
    def highest(self) -> float:
        """Upper end of the interval of the metastability."""
        return float(self.metastability + INTERVAL * np.nan_to_num(self.support.error))


def judge(
    problem: SearchProblem,
    start: str,
    kernel: Kernel,
    blocks: FeatureBlocks,
    optimum: LocalOptimum,
    selection: Selection,
    chosen: IntArray,
    settings: SearchSettings,
    mode: LabelMode = SEARCHED,
    *,
    seen: tuple[IntArray, FloatArray] | None = None,
) -> Candidate:
    """Measure a local optimum on the windows ``chosen`` that it was fitted to with ``settings``.

    ``seen``: their states and losses (`states_and_losses`) where these are known.
    """
    n_states, labels, weights = settings.n_states, optimum.labels, blocks.weights
    states, losses = states_and_losses(blocks, optimum.rule, labels) if seen is None else seen
    populations = np.bincount(states.ravel(), minlength=n_states) / states.size
    metastability, support = np.nan, Support()
    if len(states) > 1:  # single frames say nothing about time
        metastability, support = support_of_windows(problem, states, weights, chosen)
    value = mode.score(losses, weights, optimum, settings, selection, metastability)
    return Candidate(
        start,
        kernel,
        optimum,
        value,
        populations,
        metastability,
        states.shape[1],
        support=support,
        least_share=settings.balance[0],
        held=mode.held,
        part_losses=part_losses(losses, weights, labels),
    )


def by_score(problem: SearchProblem, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates that leave no state without frames first, rare ones after the others, then by score."""
    settings, n_windows = problem.settings, problem.n_windows
    return sorted(candidates, key=lambda c: (c.standing(settings, n_windows), c.merit))


def ranked(problem: SearchProblem, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates, best first, with what their support says.

    Degenerate candidates come last, before them those that are in doubt (see `in_doubt`). The rest are ordered by score
    (labels that were held have a score of another kind and come after those that were not), and then whoever is more
    metastable than the first, beyond the errors of both, comes first.
    Of different decompositions whose scores are nearly the same, the one that is more metastable by an error of the
    difference comes first: random features alone move scores by as much.
    Where the states of the first have hardly any memory, scores say nothing and the most metastable one comes first.
    """
    degenerate = [not c.may_win(problem.settings, problem.n_windows) for c in candidates]
    doubtful = in_doubt([c for c, lost in zip(candidates, degenerate, strict=True) if not lost])
    keys = {id(c): (lost, id(c) in doubtful, c.merit) for c, lost in zip(candidates, degenerate, strict=True)}
    order = sorted(candidates, key=lambda c: keys[id(c)])
    may_win = [c for c in order if not any(keys[id(c)][:2])]
    if may_win and is_poor(may_win[0], problem.settings.n_states):
        return _first(max(may_win, key=lambda c: c.metastability), order)
    while better := [c for c in may_win if clearly_above(c, order[0])]:
        order = _first(better[0], order)
    near = [c for c in may_win if c.scored_like(order[0]) and c.score <= NEARLY_AS_GOOD * order[0].score]
    steadier = [c for c in near if clearly_above(c, order[0], errors=1.0) and not same_decomposition(c, order[0])]
    return _first(max(steadier, key=lambda c: c.metastability), order) if steadier else order


def in_doubt(candidates: Sequence[Candidate]) -> set[int]:
    """Identities of the candidates with a state that rests on one part of the data, where there are better ones.

    Better is one whose states rest on many parts and that is as metastable in fresh data as may be expected of the
    other. Of many states one or two are often visited rarely, and all the others of that candidate may be right: it is
    not given up for one that cuts large states where nothing is, which is in doubt instead (see `has_less_than`).
    """
    errors = [float(np.nan_to_num(c.support.error)) for c in candidates]
    limit = max(LARGEST_ERROR, LARGER_ERROR * min(errors, default=0.0))
    supported = [c for c, error in zip(candidates, errors, strict=True) if not error > limit]
    doubtful: set[int] = set()
    for c in (c for c, error in zip(candidates, errors, strict=True) if error > limit):
        cut = {id(other) for other in supported if has_less_than(other, c)}
        if c.sure > max((other.sure for other in supported if id(other) not in cut), default=-np.inf):
            doubtful |= cut
        else:
            doubtful.add(id(c))
    return doubtful | fleeting([c for c in candidates if id(c) not in doubtful])


def has_less_than(cut: Candidate, other: Candidate) -> bool:
    """Whether two states of a candidate are one many lag times later, and fresh data would keep more of another one.

    Halves of slow noise are seen everywhere, since there is nothing to be seen: that is no support. A state that was
    seen once is worth more than they are.
    """
    kept, worth = (c.support.lasting - c.support.missing for c in (cut, other))
    is_cut = cut.support.least_memory < FORGOTTEN
    return is_cut and worth > kept and remembers(other) and not same_decomposition(cut, other)


def fleeting(candidates: Sequence[Candidate]) -> set[int]:
    """Identities of the candidates whose states are clearly less metastable, many lag times later, than others are.

    They are compared with the one whose states last longest, unless that, too, has forgotten most by then: where states
    live for a few lag times, slow noise lives longer. The same states with slightly other borders are no worse.
    """
    known = [c for c in candidates if not np.isnan(c.support.lasting)]
    if not known:
        return set()
    longest = max(known, key=lambda c: c.support.lasting)
    return {id(c) for c in known if outlasts(longest, c) and not same_decomposition(c, longest)}


def outlasts(one: Candidate, other: Candidate) -> bool:
    """Whether the states of one candidate last, and are clearly more metastable, many lag times later, than others.

    They must have kept enough of what either had: labels with next to no memory, by chance or of something very slow,
    lose none of it, and that says nothing against states that live for some lag times.
    """
    highest = max(one.metastability, other.metastability)
    return remembers(one, highest) and lasts_longer(one.support, other.support, FLEETING)


def remembers(candidate: Candidate, highest: float | None = None) -> bool:
    """Whether states have kept enough of their metastability many lag times later; labels without memory have 1.

    ``highest``: the metastability of which enough must be left, if it is not their own.
    """
    before = candidate.metastability if highest is None else highest
    return bool(candidate.support.lasting - 1.0 >= REMEMBERED * (before - 1.0))


def clearly_above(one: Candidate, other: Candidate, errors: float = INTERVAL) -> bool:
    """Whether one candidate is more metastable than another by more than some errors of the difference."""
    error = error_of_difference(one.support, other.support)
    return bool(one.metastability - other.metastability > errors * error)


def _first(best: Candidate, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates with one of them before the others."""
    return [best, *(c for c in candidates if c is not best)]


def is_poor(candidate: Candidate, n_states: int) -> bool:
    """Whether Q is closer to that of labels without memory, which is 1, than to that of states that are never left."""
    return candidate.metastability < 0.5 * (1 + n_states)


def choose(
    problem: SearchProblem, candidates: Sequence[Candidate], n_keep: int
) -> tuple[list[Candidate], list[Candidate]]:
    """Split candidates, best first, into those that go on and those that end here with a fate.

    Of one decomposition only the best kernels go on: between neighbours there is little to choose, and the places are
    for other decompositions. Another one that looks more metastable than the best has a
    place of its own: a larger sample may show that it is.
    """
    alive: list[Candidate] = []
    out: list[Candidate] = []
    n_same = ALL if n_keep == ALL else SAME_KEPT
    for candidate in candidates:
        twin = next((c for c in alive if c.kernel == candidate.kernel and same_solution(c, candidate)), None)
        if not candidate.may_win(problem.settings, problem.n_windows):
            out.append(as_degenerate(candidate))
        elif twin is not None:
            out.append(candidate.ended(FateKind.SAME, twin.start))
        elif len(alive) < n_keep and sum(same_decomposition(c, candidate) for c in alive) < n_same:
            alive.append(candidate)
        else:
            out.append(candidate.ended(FateKind.DROPPED, f"score after {candidate.n_windows} windows"))
    dropped = [c for c in out if c.fate.kind is FateKind.DROPPED]
    dropped = [c for c in dropped if not any(same_decomposition(c, d) for d in alive)]
    extra = more_metastable(alive[0], dropped) if alive else None
    if extra is None:
        return alive, out
    return [*alive, replace(extra, fate=Fate())], [c for c in out if c is not extra]


def more_metastable(best: Candidate, others: Sequence[Candidate]) -> Candidate | None:
    """Return the most metastable of some candidates, if its interval lies above the metastability of the best one."""
    supported = [c for c in others if c.lowest > best.metastability and not c.support.error > LARGEST_ERROR]
    return max(supported, key=lambda c: c.lowest, default=None)


def as_degenerate(candidate: Candidate) -> Candidate:
    """Candidate with a fate that says which state has too few frames, or that its rule is none."""
    state = int(np.argmin(candidate.populations))
    if candidate.learned_nothing:
        detail = "its rule is no better than none"
    elif candidate.optimum.lost and candidate.populations[state] > 0.0:
        detail = f"state {state} was being given up"
    else:
        detail = f"state {state} has {candidate.populations[state]:.2%} of the frames"
    return candidate.ended(FateKind.DEGENERATE, detail)


def same_solution(a: Candidate, b: Candidate) -> bool:
    """Whether two candidates on the same windows have the same labels, but for a few."""
    return same_decomposition(a, b) and agreement(a.optimum.labels, b.optimum.labels) >= SAME_SOLUTION


def same_decomposition(a: Candidate, b: Candidate) -> bool:
    """Whether two candidates on the same windows divide them into the same states."""
    return same_states(a.optimum.labels, b.optimum.labels, SAME_DECOMPOSITION)


def now_better(before: Candidate, polished: Candidate, others: Sequence[Candidate]) -> Candidate | None:
    """Return another decomposition that scores better than one that turned out worse at full accuracy than before."""
    if polished.score <= TURNED_OUT_WORSE * before.score:
        return None
    return next((c for c in others if c.score < polished.score and not same_decomposition(c, before)), None)


def unpolished(candidate: Candidate) -> Candidate:
    """A candidate that came to the last sample and was not needed; one that had been dropped before stays so."""
    return candidate.ended(FateKind.FINALIST) if candidate.fate.kind is FateKind.OPEN else candidate
