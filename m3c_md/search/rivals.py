"""Rivals of the winner: other decompositions that the data do not rule out, or that rest on too little of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.frames.windows import equally_spaced
from m3c_md.matching import same_states
from m3c_md.optimize.blocks import all_label_costs
from m3c_md.search.fate import FateKind
from m3c_md.search.problem import SearchProblem
from m3c_md.search.scores import window_shares
from m3c_md.search.selection import (
    COMPARED_WINDOWS,
    INTERVAL,
    LARGEST_ERROR,
    SAME_DECOMPOSITION,
    Candidate,
    clearly_above,
)

# Candidates that are asked whether they are as good as the winner: those with the best scores.
MOST_COMPARED = 12


def close_rival(problem: SearchProblem, candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the best candidate of another decomposition that the data do not tell from the winner, if there is one.

    Neither its loss nor its metastability is worse by more than two standard errors of the difference, over
    independent parts of the data. Only those that met as many windows as the finalists did are asked, and that may win.
    """
    winner = candidates[0]
    furthest = max((c.n_windows for c in candidates[1:] if c.fate.kind is FateKind.FINALIST), default=0)
    near = [
        c
        for c in candidates[1:]
        if c.n_windows >= furthest > 0
        and c.fate.kind in (FateKind.FINALIST, FateKind.DROPPED)
        and c.scored_like(winner)
        and not c.support.error > LARGEST_ERROR
        and not clearly_above(winner, c)
    ]
    if not near:
        return None
    states, losses = compared_states(problem, winner), compared_losses(problem, winner)
    for c in sorted(near, key=lambda c: c.score)[:MOST_COMPARED]:
        penalty = problem.settings.penalty(c.optimum.rule) - problem.settings.penalty(winner.optimum.rule)
        if not same_states(states, compared_states(problem, c), SAME_DECOMPOSITION) and (
            c.held or not clearly_positive(compared_losses(problem, c) - losses, penalty)
        ):
            return c
    return None


def clearly_positive(by_part: FloatArray, certain: float = 0.0) -> bool:
    """Whether a sum over independent parts of the data, and what is certain beside it, is above zero beyond chance.

    What chance explains is two standard errors over the parts.

    Examples
    --------
    >>> clearly_positive(np.array([1.0, 1.1, 0.9, 1.0])), clearly_positive(np.array([1.0, -1.1, 0.9, -0.6]))
    (True, False)
    """
    error = np.sqrt(len(by_part)) * by_part.std(ddof=1) if len(by_part) > 1 else np.inf
    return bool(by_part.sum() + certain > INTERVAL * error)


def compared_losses(problem: SearchProblem, candidate: Candidate) -> FloatArray:
    """Return what each part of a sample, the same for all candidates, adds to the classes' mean loss."""
    chosen = equally_spaced(problem.data.n_windows, COMPARED_WINDOWS)
    blocks = problem.features(candidate.kernel, chosen)
    costs = all_label_costs(blocks, candidate.optimum.rule)
    losses = window_shares(costs.min(axis=1), costs.argmin(axis=1), blocks.weights)
    _, parts = np.unique(problem.data.parts[chosen], return_inverse=True)
    return np.bincount(parts, weights=losses).astype(np.float64)


def set_aside(problem: SearchProblem, candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the most metastable candidate that did not win because its states rest on too little of the data.

    None unless it is more metastable than the winner beyond the winner's error.
    """
    winner = candidates[0]
    others = [
        c
        for c in candidates[1:]
        if c.metastability > winner.highest
        and c.support.error > LARGEST_ERROR
        and c.n_tiny_states == 0
        and c.may_win(problem.settings, problem.n_windows)
    ]
    best = max(others, key=lambda c: c.metastability, default=None)
    return best if best is not None and differ(problem, winner, best) else None


def differ(problem: SearchProblem, one: Candidate, other: Candidate) -> bool:
    """Whether two rules give frames clearly different states."""
    return not same_states(compared_states(problem, one), compared_states(problem, other), SAME_DECOMPOSITION)


def compared_states(problem: SearchProblem, candidate: Candidate) -> IntArray:
    """States that a candidate's rule gives to a sample of frames, the same for all candidates."""
    chosen = problem.data.windows[0, equally_spaced(problem.data.n_windows, COMPARED_WINDOWS)]
    features = problem.feature_map(*candidate.kernel)(problem.data.frames[chosen], np.float32)
    return np.asarray(candidate.optimum.rule.scores(features).argmax(axis=0), dtype=np.intp)
