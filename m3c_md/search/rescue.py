"""What to do where every candidate of a search loses a state: labels that are held, from the most metastable starts.

There may be fewer states than were asked for, or they overlap: leaving ϱ_l of the labels wrong, at a cost of 3ϱ_l, is
then cheaper than keeping the states apart, and every local search ends with a state less. What is left is to keep the
labels of a start as they are and to fit a rule to them, or those of a search that has kept most of its states, with one
of them split. The objectives of such rules do not tell which start was right, their metastability does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from m3c_md.arrays import IntArray
from m3c_md.frames.windows import equally_spaced
from m3c_md.search.local_search import SearchSettings
from m3c_md.search.problem import SearchProblem
from m3c_md.search.selection import LARGEST_ERROR, TINY_STATE, Candidate, Standing, remembers, same_decomposition
from m3c_md.search.splitting import completed_states
from m3c_md.search.support import support_of_windows
from m3c_md.search.trials import Trial, Trials, stream

# Starts whose labels are held.
N_HELD = 4
# Candidates that have lost a state and are completed.
N_COMPLETED = 2
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
    kept: list[tuple[Trial, Candidate]] = []
    trials_of = {id(candidate): trial for trial, candidate in judged}
    for candidate in _most_useful_first(problem, [candidate for _, candidate in judged]):
        trial = trials_of[id(candidate)]
        if len(kept) < N_HELD and not any(same_decomposition(candidate, other) for _, other in kept):
            kept.append((trial, candidate))
    trials: Trials = {}
    for trial, candidate in kept:
        held = Trial(trial.start, labels=trial.labels, least_share=trial.least_share, held=True)
        trials.setdefault(candidate.kernel, []).append(held)
    return trials


def _most_useful_first(problem: SearchProblem, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates by how long their states last, if that is known of them and says anything.

    It says nothing where even the longest-lived states have been forgotten by then; there, and elsewhere last, they are
    in the order of what fresh data would keep of their metastability, those that have lost a state after all others.
    """
    known = [c for c in candidates if not np.isnan(c.support.lasting)]
    longest = max(known, key=lambda c: c.support.lasting, default=None)
    lasting = {id(c) for c in known} if longest is not None and remembers(longest) else set()

    def usefulness(candidate: Candidate) -> tuple[bool, bool, float]:
        if id(candidate) in lasting:
            return True, True, candidate.support.lasting
        lost = candidate.standing(problem.settings, problem.n_windows) == Standing.DEGENERATE
        return False, not lost, candidate.sure

    return sorted(candidates, key=usefulness, reverse=True)


def completed_trials(problem: SearchProblem, found: Sequence[Candidate], n_windows: int, seed: int) -> Trials:
    """Trials that hold the states which the most useful of some candidates have kept, completed by splits."""
    chosen = equally_spaced(problem.data.n_windows, n_windows)
    windows, n_states = problem.data.windows[:, chosen], problem.settings.n_states
    kept: list[Candidate] = []
    trials: Trials = {}
    met = [c if c.n_windows == n_windows else _on_windows(problem, c, chosen) for c in found]
    for candidate in _most_useful_first(problem, met):
        if len(kept) == N_COMPLETED or any(same_decomposition(candidate, other) for other in kept):
            continue
        kept.append(candidate)
        slices = [problem.data.frames[frames] for frames in (windows[0], windows[-1])]
        feature_map, metric = problem.feature_map(*candidate.kernel), problem.metrics[candidate.metric]
        scores = np.stack([candidate.optimum.rule.scores(feature_map(x, np.float32)) for x in slices])
        rng = stream(seed, "split", candidate.start)
        # A state that a start was allowed to have is one to keep, however rare.
        guard = problem.settings.with_least_share(candidate.least_share).guard
        fewest = max(TINY_STATE, int(np.ceil(guard * n_windows)))
        labels = completed_states(metric(slices[0]), metric(slices[1]), scores, n_states, fewest, rng)
        if labels is not None:
            trial = Trial(f"{candidate.start} (split)", labels=labels, held=True)
            trials.setdefault(candidate.kernel, []).append(trial)
    return trials


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
