"""What a search has to say to its user: what failed, what was lost, what else would have been as good."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from m3c_md.clustering.training_data import Note
from m3c_md.exceptions import (
    AmbiguousSolutionWarning,
    ConvergenceWarning,
    FailedStartWarning,
    OverlappingStatesWarning,
    RareStateWarning,
    WeightsWarning,
)
from m3c_md.search.failures import Failure, failed_starts
from m3c_md.search.local_search import SearchSettings
from m3c_md.search.problem import SearchProblem
from m3c_md.search.repopulation import RAISED
from m3c_md.search.rivals import close_rival, set_aside
from m3c_md.search.selection import Candidate


def search_notes(
    problem: SearchProblem, candidates: Sequence[Candidate], failures: Sequence[Failure], lagtime: int
) -> list[Note]:
    """All that there is to say about a search and its winner; ``lagtime`` is 0 for single frames."""
    doubts = _doubts(candidates[0], problem.settings, lagtime)
    return [*_failed(problem, failures), *doubts, *_rivals(problem, candidates)]


def _failed(problem: SearchProblem, failures: Sequence[Failure]) -> list[Note]:
    """What the search had to do without."""
    notes: list[Note] = [
        (
            f"{text}; the winner comes from what was left, so leave this start out or heed that advice",
            FailedStartWarning,
        )
        for text in failed_starts(failures)
    ]
    if problem.unrelaxed:
        message = (
            "no transition pair begins where the data lead to, so there are no weights towards the relaxed "
            "distribution and all pairs count alike; give longer trajectories, or set reweight=False"
        )
        notes.append((message, WeightsWarning))
    return notes


def _doubts(winner: Candidate, asked: SearchSettings, lagtime: int) -> list[Note]:
    """What the user would want to know before trusting the winner."""
    notes: list[Note] = []
    if winner.populations.min() < asked.guard:
        message = (
            f"the smallest state has {winner.populations.min():.2%} of the frames, less than balance[0]={asked.guard}; "
            "lower balance[0] if it is a state, or ask for fewer states"
        )
        notes.append((message, RareStateWarning))
    if winner.held or (winner.least_share is not None and winner.least_share > asked.balance[0]):
        notes.append((_lost_states(winner, asked, lagtime), OverlappingStatesWarning))
    if winner.start.endswith(RAISED):
        message = (
            f"no rule that was found keeps {asked.n_states} states apart, so scores of states without frames were "
            "raised until each had a few: the rule is not the best one for any labels and has no certificate; ask for "
            "fewer states, or add data"
        )
        notes.append((message, ConvergenceWarning))
    elif not winner.optimum.converged and winner.held:
        message = (
            f"the rule for the labels of the start was left at a gap of {winner.optimum.gap:.1e}; that matters little "
            "where labels are given; for a smaller gap raise regularization"
        )
        notes.append((message, ConvergenceWarning))
    elif not winner.optimum.converged:
        message = (
            f"the local search stopped after {winner.optimum.iterations} rounds, with labels still changing or a gap "
            f"of {winner.optimum.gap:.1e}; raise max_iterations or tolerance"
        )
        notes.append((message, ConvergenceWarning))
    return notes


def _lost_states(winner: Candidate, asked: SearchSettings, lagtime: int) -> str:
    """Say that every candidate has lost a state, what was done about it, and what the user can do."""
    n_states = asked.n_states
    way = (
        f"labels were held as start {winner.start!r} gives them (Q = {winner.metastability:.2f} of at most {n_states})"
        if winner.held
        else f"each state was held to at least {winner.least_share:.1%} of the frames"
    )
    fewer = f"{n_states - 1} states may describe the data better (scan_states or m3c-md scan tell)"
    shorter = f"a lag time shorter than {lagtime} frames may tell them apart" if lagtime > 1 else ""
    smooth = f"if you expect so many states, try regularization={0.1 * asked.regularization:.2g}"
    return f"every rule that was tried lost one of the {n_states} states, so {way}; " + "; ".join(
        advice for advice in (fewer if n_states > 2 else "", shorter, smooth) if advice
    )


def _rivals(problem: SearchProblem, candidates: Sequence[Candidate]) -> list[Note]:
    """Name a clearly different decomposition that is as good as the winner, or that was set aside."""
    winner = candidates[0]
    notes: list[Note] = []
    rival = close_rival(problem, candidates)
    if rival is not None:
        message = (
            "clearly different states describe the data as well within the errors (score "
            f"{rival.score:.3g} against {winner.score:.3g}{_quality(rival, winner)}); before you rely on these, look "
            f"at the others: {_found_as(rival, candidates)}"
        )
        notes.append((message, AmbiguousSolutionWarning))
    other = set_aside(problem, candidates)
    if other is not None:
        message = (
            f"more metastable states (smallest {other.populations.min():.2%}{_quality(other, winner)}) were set aside "
            f"because one of them is seen in {other.support.n_parts} of {problem.n_parts} independent parts of the "
            f"data only; add data, or look at them: {_found_as(other, candidates)}"
        )
        notes.append((message, AmbiguousSolutionWarning))
    return notes


def _quality(rival: Candidate, winner: Candidate) -> str:
    """Metastabilities with their errors, where time is known."""
    if np.isnan(winner.metastability):
        return ""
    return (
        f", Q {rival.metastability:.3f} ± {rival.support.error:.3f} against {winner.metastability:.3f} ± "
        f"{winner.support.error:.3f}"
    )


def _found_as(candidate: Candidate, candidates: Sequence[Candidate]) -> str:
    """Where a user finds a candidate in the record of the search."""
    row = next(row for row, one in enumerate(candidates) if one is candidate)
    return f"model.alternative({row}), row {row} of model.candidates"
