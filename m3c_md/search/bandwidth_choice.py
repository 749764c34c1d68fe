"""Metric and bandwidth of the winner: scaled columns and the widest kernel, where they describe the data as well.

The score is that of the data fitted to. A narrow kernel lowers it by following single excursions of a trajectory that
no other trajectory repeats, the more columns there are the better. So of all bandwidths at which one decomposition was
found, the widest is taken whose loss could, for all that the data say, as well be the lower one: it exceeds that of the
best by no more than one standard error (the rule that Breiman and others use to prune trees). A metric that was learned
lowers the score in the same way, so scaled columns are taken where their loss is within two standard errors.

Where two kernels give the same labels, the data cannot tell them apart, whatever their losses are: then the wider one,
and a metric that was not learned, win unless their score is much worse.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from m3c_md.search.metrics import is_learned
from m3c_md.search.problem import STANDARD, SearchProblem
from m3c_md.search.selection import (
    INTERVAL,
    NEARLY_AS_GOOD,
    Candidate,
    Standing,
    clearly_above,
    same_decomposition,
    same_solution,
)

# By how many standard errors a loss may be worse, and by which factor a score: a few parts that all hold one rare
# event have a large standard error.
STANDARD_ERRORS = 1.0
WORSE_SCORE = 1.3
# The same factor for the same decomposition in scaled columns, where norms are larger, and for the same labels. (Three
# states of Langerin: a kinetic metric has 1.3 to 1.6 times the score of learned ones, and Q of 2.998 on other
# trajectories where these have 2.73 to 2.998. Deca-alanine, two states: up to 2.4 times, and the same Q.)
PLAINER_SCORE = 2.5


def plainest_first(problem: SearchProblem, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Put the plainest candidate that is as good as the first one before it: in scaled columns, or of a wider kernel.

    All candidates were optimised on the same windows. A metric that was learned follows the sample, too, so it must
    lower the loss by more than chance does, or be more metastable.
    """
    if not candidates or candidates[0].held:  # labels that are held have a score of another kind
        return list(candidates)
    best = candidates[0]
    if best.metric != STANDARD:
        plain = [c for c in candidates if c.metric == STANDARD and _is_plainer(problem, c, best)]
        if plain and _as_good(plain[0], best, INTERVAL):
            best = plain[0]
    if is_learned(best.metric):
        slow = [c for c in candidates if not is_learned(c.metric) and _has_same_labels(problem, c, best)]
        best = min(slow, key=lambda c: c.score, default=best)
    wider = [
        c
        for c in candidates
        if c.metric == best.metric
        and c.bandwidth > best.bandwidth
        and (
            _has_same_labels(problem, c, best)
            or (
                _may_replace(problem, c, best, WORSE_SCORE)
                and same_decomposition(c, best)
                and _as_good(c, best, STANDARD_ERRORS)
            )
        )
    ]
    best = min(wider, key=lambda c: (-c.bandwidth, c.score), default=best)
    return [best, *(c for c in candidates if c is not best)]


def _is_plainer(problem: SearchProblem, candidate: Candidate, best: Candidate) -> bool:
    """Whether a candidate in scaled columns may replace the best one: more easily if it is the same decomposition."""
    same = same_decomposition(candidate, best)
    factor, errors = (PLAINER_SCORE, INTERVAL) if same else (NEARLY_AS_GOOD, 1.0)
    return _may_replace(problem, candidate, best, factor) and not clearly_above(best, candidate, errors)


def _has_same_labels(problem: SearchProblem, candidate: Candidate, best: Candidate) -> bool:
    """Whether a candidate has the labels of the best one, at a score that is not much worse.

    Then the data cannot tell the two, and what is wider and was not learned from them says more about other data.
    """
    return (
        _may_replace(problem, candidate, best, PLAINER_SCORE)
        and same_solution(candidate, best)
        and not clearly_above(best, candidate, 1.0)
    )


def _may_replace(problem: SearchProblem, candidate: Candidate, best: Candidate, factor: float) -> bool:
    """Whether a candidate has as many frames in its states as the best one, and a score that is not much worse."""
    standing = best.standing(problem.settings, problem.n_windows)
    return (
        candidate.scored_like(best)
        and best.score <= candidate.score <= factor * best.score
        and candidate.standing(problem.settings, problem.n_windows) == standing != Standing.DEGENERATE
    )


def _as_good(candidate: Candidate, best: Candidate, errors: float) -> bool:
    """Whether the loss of a candidate exceeds that of the best one by no more than some standard errors over parts."""
    excess = np.subtract(candidate.part_losses, best.part_losses)
    return bool(excess.sum() <= errors * np.sqrt(len(excess)) * excess.std(ddof=1))
