"""Selection: what a candidate is, how it is judged, and which candidates go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from m3c_md.exceptions import DegenerateSolutionError
from m3c_md.matching import agreement
from m3c_md.optimize.window_loss import window_losses
from m3c_md.search.local_search import LocalOptimum, SearchSettings
from m3c_md.search.problem import SearchProblem
from m3c_md.search.windows import BLOCK_SIZE, FeatureBlocks

FloatArray = NDArray[np.float64]
Selection = Literal["objective", "class-averaged"]

# Labelings of windows that agree on this share are one decomposition, and on that share one solution.
SAME_DECOMPOSITION = 0.93
SAME_SOLUTION = 0.999
# Candidates of one decomposition that go on to a larger sample.
SAME_KEPT = 2


class Standing(IntEnum):
    """What the populations of a candidate say: the lower, the better; a degenerate one never wins."""

    FINE = 0
    RARE = 1
    DEGENERATE = 2


@dataclass(frozen=True)
class Candidate:
    """A (start, bandwidth) and how far it came.

    Attributes
    ----------
    start, bandwidth : str, float
    optimum : LocalOptimum
        On ``n_windows`` windows.
    score : float
        What selection minimises.
    populations : (n_states,) array
        Share of the frames that the rule gives to each state.
    metastability : float
        Weighted Q of the rule on the windows it was fitted to.
    n_windows : int
    fate : str
        "winner", "finalist", "degenerate: ...", "same as ...", "dropped: ...", "failed: ...".
    """

    start: str
    bandwidth: float
    optimum: LocalOptimum
    score: float
    populations: FloatArray
    metastability: float
    n_windows: int
    fate: str = ""

    def standing(self, settings: SearchSettings, n_windows: int) -> Standing:
        """Whether all states have enough frames; half as many will do on a sample, where a rare state fluctuates."""
        smallest = float(self.populations.min()) * (1.0 if self.n_windows == n_windows else 2.0)
        if not smallest > 0.0 or smallest < settings.floor:
            return Standing.DEGENERATE
        return Standing.FINE if smallest >= settings.guard else Standing.RARE


def score(blocks: FeatureBlocks, optimum: LocalOptimum, settings: SearchSettings, selection: Selection) -> float:
    """Return what the selection minimises.

    "objective" is the objective of the problem (the paper's choice). "class-averaged" replaces the mean loss by the
    mean of the classes' mean losses: Σ_k (mean loss in class k) / κ + β/2 |W|². A class of few windows then cannot
    hide its loss behind its size.
    """
    if selection == "objective":
        return optimum.objective
    loss, mass, done = np.zeros(settings.n_states), np.zeros(settings.n_states), 0
    for block in blocks:
        labels = optimum.labels[done : done + block.windows.shape[1]]
        done += len(labels)
        losses = window_losses(optimum.rule.window_scores(block), labels)
        loss += np.bincount(labels, weights=block.weights * losses, minlength=settings.n_states)
        mass += np.bincount(labels, weights=block.weights, minlength=settings.n_states)
    penalty = 0.5 * settings.regularization * float((optimum.rule.weights**2).sum())
    return class_averaged(loss, mass) + penalty


def class_averaged(loss: FloatArray, mass: FloatArray) -> float:
    """Mean over the classes of their mean losses; infinite if a class has no windows."""
    return float((loss / mass).mean()) if (mass > 0.0).all() else np.inf


def metastability_of(transitions: FloatArray) -> float:
    """Q of the reversible chain of weighted transitions between states."""
    macro = transitions + transitions.T
    mass = macro.sum(axis=1)
    return float((np.diag(macro) / np.where(mass > 0.0, mass, 1.0)).sum())


def judge(
    problem: SearchProblem,
    start: str,
    bandwidth: float,
    blocks: FeatureBlocks,
    optimum: LocalOptimum,
    selection: Selection,
) -> Candidate:
    """Measure a local optimum on the windows it was fitted to."""
    n_states = problem.settings.n_states
    states = blocks.slice_states(optimum.rule)
    populations = np.bincount(states.ravel(), minlength=n_states) / states.size
    moves = np.bincount(states[0] * n_states + states[-1], weights=blocks.weights, minlength=n_states * n_states)
    # Single frames say nothing about time.
    metastability = (
        metastability_of(np.asarray(moves, dtype=np.float64).reshape(n_states, n_states)) if len(states) > 1 else np.nan
    )
    # Labels that a start gave, not the search, have objectives that do not tell which start was right.
    held = problem.settings.hold_labels
    value = n_states - metastability if held else score(blocks, optimum, problem.settings, selection)
    return Candidate(start, bandwidth, optimum, value, populations, metastability, states.shape[1])


def frame_populations(problem: SearchProblem, candidate: Candidate) -> FloatArray:
    """Share of all frames that a candidate's rule gives to each state."""
    feature_map, n_states = problem.feature_map(candidate.bandwidth), problem.settings.n_states
    counts = np.zeros(n_states)
    for start in range(0, len(problem.data.frames), BLOCK_SIZE):
        scores = candidate.optimum.rule.scores(feature_map(problem.data.frames[start : start + BLOCK_SIZE]))
        counts += np.bincount(scores.argmax(axis=0), minlength=n_states)
    return np.asarray(counts / counts.sum())


def ranked(problem: SearchProblem, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates by standing, then by score: rules that give a state too few frames have a low score just for that."""
    n_windows = problem.n_windows
    return sorted(candidates, key=lambda c: (c.standing(problem.settings, n_windows), c.score))


def choose(problem: SearchProblem, candidates: list[Candidate], n_keep: int) -> tuple[list[Candidate], list[Candidate]]:
    """Split candidates, best first, into those that go on and those that end here with a fate.

    Where places are few, of one decomposition only the best bandwidths go on: between neighbours there is little to
    choose, and the places are for other decompositions.
    """
    alive: list[Candidate] = []
    out: list[Candidate] = []
    n_same = SAME_KEPT if n_keep < len(candidates) else len(candidates)
    for candidate in candidates:
        twin = next(
            (c for c in alive if c.bandwidth == candidate.bandwidth and agree(c, candidate, SAME_SOLUTION)), None
        )
        if candidate.standing(problem.settings, problem.n_windows) == Standing.DEGENERATE:
            state = int(np.argmin(candidate.populations))
            share = candidate.populations[state]
            out.append(replace(candidate, fate=f"degenerate: state {state} has {share:.2%} of the frames"))
        elif twin is not None:
            out.append(replace(candidate, fate=f"same as {twin.start}"))
        elif len(alive) < n_keep and sum(agree(c, candidate, SAME_DECOMPOSITION) for c in alive) < n_same:
            alive.append(candidate)
        else:
            out.append(replace(candidate, fate=f"dropped: score after {candidate.n_windows} windows"))
    return alive, out


def agree(a: Candidate, b: Candidate, share: float) -> bool:
    """Whether two candidates on the same windows give this share of them the same label."""
    return agreement(a.optimum.labels, b.optimum.labels) >= share


def close_rival(candidates: Sequence[Candidate], share: float) -> Candidate | None:
    """Best finalist whose decomposition differs from the winner's while its score is within ``share`` of it."""
    finalists = [c for c in candidates[1:] if c.fate == "finalist"]
    same = [agree(c, candidates[0], SAME_DECOMPOSITION) for c in finalists]
    # The winner's bandwidth may be wider than the one with the best score.
    best = min([candidates[0].score, *(c.score for c, known in zip(finalists, same, strict=True) if known)])
    others = [c for c, known in zip(finalists, same, strict=True) if not known and c.score <= (1.0 + share) * best]
    return others[0] if others else None


def nothing_left(ended: list[Candidate], settings: SearchSettings) -> DegenerateSolutionError:
    """Error that says what became of the best of the degenerate candidates, and what to do."""
    best = min(ended, key=lambda c: c.score)
    state = int(np.argmin(best.populations))
    return DegenerateSolutionError(
        f"all {len(ended)} candidates are degenerate: they leave some state with fewer than "
        f"{settings.guard:.2%} of the frames. In the best one (start {best.start!r}, bandwidth "
        f"{best.bandwidth:.3g}) it is state {state} of {settings.n_states}, with {best.populations[state]:.2%}. "
        "Ask for fewer states, add starts, try other bandwidths, or lower balance[0] if a state is really that rare."
    )
