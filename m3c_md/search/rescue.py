"""What to do where every candidate of a search loses a state: labels that are held, from the most metastable starts.

There may be fewer states than were asked for, or they overlap: leaving ϱ_l of the labels wrong, at a cost of 3ϱ_l, is
then cheaper than keeping the states apart, and every local search ends with a state less. What is left is to hold
labels and to fit a rule to them. Where some states last, these are held, and next to nothing is cut off for the others
(`m3c_md.search.trimming`). Elsewhere the labels of a start are held as they are, or those of a search that has kept
most of its states, with one of them split (`m3c_md.search.splitting`). The objectives of such rules do not tell which
start was right, their metastability does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.frames.windows import equally_spaced
from m3c_md.matching import same_states
from m3c_md.search.local_search import SearchSettings
from m3c_md.search.problem import ENOUGH_LATE, STANDARD, SearchProblem
from m3c_md.search.selection import (
    INTERVAL,
    LARGEST_ERROR,
    REMEMBERED,
    SAME_DECOMPOSITION,
    TINY_STATE,
    Candidate,
    Standing,
    remembers,
    same_decomposition,
)
from m3c_md.search.splitting import completed_states, populated_numbers, populated_states
from m3c_md.search.support import support_of_windows
from m3c_md.search.trials import LARGEST_LOOSENED, RAREST, Trial, Trials, stream
from m3c_md.search.trimming import remembered_states, trimmed_states

# Starts whose labels are held.
N_HELD = 4
# Candidates that have lost a state and are completed.
N_COMPLETED = 2
# Candidates whose states may have been forgotten many lag times later, and how many are made of those that have not.
N_RECALLED = 12
N_TRIMMED = 2
# Metrics of kernels for labels that no rule has kept, the widest kernel in each.
PLAIN_METRICS = (STANDARD, "kinetic")
# Lower bounds on the labels, as shares of 1/κ, for where labels cannot be held.
TIGHTER_BALANCE = (0.25, 0.5)


def outdone(problem: SearchProblem, best: Candidate, judged: Sequence[tuple[Trial, Candidate]]) -> bool:
    """Whether a start, by its least-squares rule, is more metastable than the best candidate beyond their errors."""
    starts = [c for _, c in judged if c.standing(problem.settings, problem.n_windows) != Standing.DEGENERATE]
    return any(c.lowest > best.highest and not c.support.error > LARGEST_ERROR for c in starts)


def held_trials(problem: SearchProblem, judged: Sequence[tuple[Trial, Candidate]]) -> Trials:
    """Trials that hold the labels of the most metastable starts, by their least-squares rules, that are different.

    Many lag times later, where that is known: the halves of a state that was cut in two have been forgotten by then,
    and a rare state that a rule has lost may come back when its labels are held. Elsewhere such starts come last.
    """
    trials_of = {id(candidate): trial for trial, candidate in judged}
    trials: Trials = {}
    for candidate in _different(_most_useful_first(problem, [candidate for _, candidate in judged]), N_HELD):
        trial = trials_of[id(candidate)]
        held = Trial(trial.start, labels=trial.labels, least_share=trial.least_share, held=True)
        trials.setdefault(candidate.kernel, []).append(held)
    return trials


def labelled_trials(
    problem: SearchProblem, given: Sequence[tuple[str, IntArray]], judged: Sequence[tuple[Trial, Candidate]], n: int
) -> Trials:
    """Trials that hold the labels of a start whose rules lose a state, if these are clearly the most metastable ones.

    A rare state may stay for long, but overlap with large ones in all that a rule of least squares sees of it. Then
    what rules have kept says nothing about it, its labels do.

    Parameters
    ----------
    given : sequence of (str, (n_windows,) array)
        Names of starts, and their labels of all windows.
    judged : sequence of (Trial, Candidate)
    n : int
        Number of windows of the sample.
    """
    windows = problem.data.windows
    after = np.minimum(np.searchsorted(windows[0], windows[-1]), problem.data.n_windows - 1)
    first = np.flatnonzero(windows[0, after] == windows[-1])
    if len(first) < ENOUGH_LATE * problem.data.n_windows or _wants_large_states(problem):
        return {}
    best, best_name, best_labels = max((c.highest for _, c in judged), default=np.inf), "", None
    for name, labels in given:
        if np.bincount(labels, minlength=problem.settings.n_states).min() < TINY_STATE:
            continue
        states = np.stack([labels[first], labels[after[first]]])
        metastability, support = support_of_windows(problem, states, problem.weights[first], first)
        lowest = metastability - INTERVAL * np.nan_to_num(support.error)
        if lowest > best and not support.error > LARGEST_ERROR:
            best, best_name, best_labels = lowest, name, labels
    if best_labels is None:
        return {}
    labels = best_labels[equally_spaced(problem.data.n_windows, n)]
    trial = Trial(f"{best_name} (labels)", labels=labels, least_share=RAREST, held=True)
    # Sharper metrics hardly see a direction in which a few frames differ.
    known = [c.kernel for t, c in judged if best_name in (t.start, *t.twins) and c.metric in PLAIN_METRICS]
    widest = {kernel.metric: kernel for kernel in sorted(known)}
    return {kernel: [trial] for kernel in widest.values()}


def _most_useful_first(problem: SearchProblem, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates by how long their states last, if that is known of them and says anything.

    It says nothing where even the longest-lived states have kept little of what the most metastable ones had; there,
    and elsewhere last, they are in the order of what fresh data would keep of their metastability, those that have lost
    a state after all others.
    """
    known = [c for c in candidates if not np.isnan(c.support.lasting)]
    longest = max(known, key=lambda c: c.support.lasting, default=None)
    highest = max((c.metastability for c in known), default=1.0)
    lasting = {id(c) for c in known} if longest is not None and remembers(longest, highest) else set()

    def usefulness(candidate: Candidate) -> tuple[bool, bool, float]:
        if id(candidate) in lasting:
            return True, True, candidate.support.lasting
        lost = candidate.standing(problem.settings, problem.n_windows) == Standing.DEGENERATE
        return False, not lost, candidate.sure

    return sorted(candidates, key=usefulness, reverse=True)


def trimmed_trials(problem: SearchProblem, found: Sequence[Candidate], n_windows: int) -> Trials:
    """Trials that hold those states of some candidates that last, with next to nothing cut off for the others.

    None where it is not known what lasts, where most of it has been forgotten (states that are left after a few lag
    times have, too), or where larger states are wanted.
    """
    if _wants_large_states(problem):
        return {}
    sample = _Sample(problem, n_windows)
    pairs = problem.later_windows(sample.chosen)
    known = [c for c in sample.met(found) if not np.isnan(c.support.lasting)]
    recalled: list[tuple[float, Candidate, IntArray]] = []
    if pairs is not None:
        for candidate in _different(sorted(known, key=lambda c: -c.support.lasting), N_RECALLED):
            scores, fewest = sample.scores(candidate), sample.fewest(candidate)
            states = populated_states(scores, fewest)
            if states is not None:
                states, lasting = remembered_states(states, pairs, scores[0, populated_numbers(scores, fewest)])
                recalled.append((lasting, candidate, states))
    recalled.sort(key=lambda one: -one[0])
    n_last = int(recalled[0][2].max()) + 1 if recalled else 1
    if n_last < 2 or recalled[0][0] - 1.0 < REMEMBERED * (n_last - 1):
        return {}
    kept: list[IntArray] = []
    trials: Trials = {}
    for _, candidate, states in recalled:
        if len(kept) < N_TRIMMED and not any(same_states(states[0], other, SAME_DECOMPOSITION) for other in kept):
            kept.append(states[0])
            ends = sample.coordinates(candidate)
            labels = trimmed_states(*ends, states, problem.settings.n_states, TINY_STATE)
            if labels is not None:
                name = f"{candidate.start} ({states.max() + 1} of {problem.settings.n_states} last)"
                trial = Trial(name, labels=labels, least_share=RAREST, held=True)
                trials.setdefault(candidate.kernel, []).append(trial)
    return trials


def completed_trials(problem: SearchProblem, found: Sequence[Candidate], n_windows: int, seed: int) -> Trials:
    """Trials that hold the states which the most useful of some candidates have kept, completed by splits."""
    sample = _Sample(problem, n_windows)
    trials: Trials = {}
    for candidate in _different(_most_useful_first(problem, sample.met(found)), N_COMPLETED):
        first, last = sample.coordinates(candidate)
        rng = stream(seed, "split", candidate.start)
        scores, fewest = sample.scores(candidate), sample.fewest(candidate)
        labels = completed_states(first, last, scores, problem.settings.n_states, fewest, rng)
        if labels is not None:
            trial = Trial(f"{candidate.start} (split)", labels=labels, held=True)
            trials.setdefault(candidate.kernel, []).append(trial)
    return trials


def _wants_large_states(problem: SearchProblem) -> bool:
    """Whether somebody asked for states much larger than by default, which are never undercut."""
    return problem.settings.balance[0] > LARGEST_LOOSENED


def _different(candidates: Sequence[Candidate], n_most: int) -> list[Candidate]:
    """The first of some candidates, each decomposition once."""
    kept: list[Candidate] = []
    for candidate in candidates:
        if len(kept) < n_most and not any(same_decomposition(candidate, other) for other in kept):
            kept.append(candidate)
    return kept


class _Sample:
    """Equally spaced windows of a problem, and what candidates make of them."""

    def __init__(self, problem: SearchProblem, n_windows: int) -> None:
        self.problem = problem
        self.chosen = equally_spaced(problem.data.n_windows, n_windows)
        windows = problem.data.windows[:, self.chosen]
        self._slices = [problem.data.frames[frames] for frames in (windows[0], windows[-1])]

    def met(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Candidates with their states, and what supports them, on these windows, whichever they met before."""
        n_windows = len(self.chosen)
        return [c if c.n_windows == n_windows else _on_windows(self.problem, c, self.chosen) for c in candidates]

    def scores(self, candidate: Candidate) -> FloatArray:
        """Scores of the first and last frames by the rule of a candidate."""
        feature_map, rule = self.problem.feature_map(*candidate.kernel), candidate.optimum.rule
        return np.stack([rule.scores(feature_map(x, np.float32)) for x in self._slices])

    def coordinates(self, candidate: Candidate) -> tuple[FloatArray, FloatArray]:
        """First and last frames in the metric of a candidate."""
        first, last = (self.problem.metrics[candidate.metric](x) for x in self._slices)
        return first, last

    def fewest(self, candidate: Candidate) -> int:
        """Windows that a state must have: a state that a start was allowed to have is one to keep, however rare."""
        guard = self.problem.settings.with_least_share(candidate.least_share).guard
        return max(TINY_STATE, int(np.ceil(guard * len(self.chosen))))


def _on_windows(problem: SearchProblem, candidate: Candidate, chosen: IntArray) -> Candidate:
    """Return a candidate that met other windows with its states, and what supports them, on the chosen ones."""
    blocks = problem.features(candidate.kernel, chosen)
    states = blocks.slice_states(candidate.optimum.rule)
    metastability, support = support_of_windows(problem, states, blocks.weights, chosen)
    optimum = replace(candidate.optimum, labels=states[0])
    return replace(candidate, optimum=optimum, metastability=metastability, support=support, n_windows=len(chosen))


def tighter_trials(settings: SearchSettings, judged: Sequence[tuple[Trial, Candidate]], share: float) -> Trials:
    """Trials of the best starts, by their least-squares rules, with labels held closer to balance."""
    trials: Trials = {}
    if share / settings.n_states <= settings.balance[0]:
        return trials
    for trial, candidate in sorted(judged, key=lambda one: one[1].score)[:N_HELD]:
        closer = Trial(trial.start, labels=trial.labels, least_share=share / settings.n_states)
        trials.setdefault(candidate.kernel, []).append(closer)
    return trials
