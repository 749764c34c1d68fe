"""Candidates: one local optimum per start and bandwidth, judged on few windows first and on all at the end.

All bandwidths and starts are tried on a small sample of windows; the better ones go on to larger samples, warm
started from where they stood (successive halving), and the last ones to all the data. So the search costs little
more than the winner's own optimisation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from m3c_md.exceptions import DegenerateSolutionError
from m3c_md.optimize.blocks import Rule, all_label_costs
from m3c_md.optimize.labels import balanced_labels, class_bounds
from m3c_md.optimize.window_loss import window_losses
from m3c_md.search.local_search import LocalOptimum, SearchSettings, local_search
from m3c_md.search.problem import BandwidthStart, SearchProblem
from m3c_md.search.starts import bandwidth_start, shared_starts
from m3c_md.search.windows import BLOCK_SIZE, FeatureBlocks, equally_spaced, matched_share

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
Selection = Literal["objective", "class-averaged"]
Report = Callable[[int], object]

# (windows, candidates that go on): all candidates meet the first sample, the survivors the next, ...
RUNGS = ((2000, 6), (6000, 3), (20_000, 2))
# Accuracy of the large-margin problem for a candidate that may still be dropped.
TRIAL_GAP = 1e-2
TRIAL_ITERATIONS = 30
# Kinetics are estimated from at most this many windows: a small sample would miss the rare transitions.
KINETIC_WINDOWS = 20_000


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
        "winner", "finalist", "degenerate: ...", "same as ...", "dropped: ...".
    """

    start: str
    bandwidth: float
    optimum: LocalOptimum
    score: float
    populations: FloatArray
    metastability: float
    n_windows: int
    fate: str = ""

    def is_degenerate(self, balance: tuple[float, float]) -> bool:
        """Whether the rule gives some state fewer frames than the balance demands of the labels."""
        return bool(self.populations.min() < balance[0])


@dataclass(frozen=True)
class _Trial:
    """One candidate to be optimised: from labels, or from the rule it reached before."""

    start: str
    labels: IntArray | None = None
    rule: Rule | None = None


def search(
    problem: SearchProblem,
    bandwidths: Sequence[float],
    starts: Sequence[str | IntArray],
    *,
    selection: Selection,
    seed: np.random.SeedSequence,
    gap: float = 1e-4,
    halving: bool = True,
    n_jobs: int | None = None,
    report: Report = lambda steps: None,
) -> list[Candidate]:
    """Run all candidates and return them, the winner first, then by how far they came and by score.

    Parameters
    ----------
    problem : SearchProblem
    bandwidths : sequence of float
    starts : sequence of str or (n_windows,) label arrays
        Names of starts, or window labels to start from.
    selection : "objective" or "class-averaged"
        What the winner minimises among the candidates that are not degenerate, see `score`.
    seed : numpy.random.SeedSequence
        Every (start, bandwidth) has its own stream: results depend neither on order nor on ``n_jobs``.
    gap : float
        Relative duality gap of the winner.
    halving : bool
        Whether most candidates are judged on samples only; otherwise all go to the end on all windows.
    n_jobs : int, optional
        Processes for the candidates, through joblib.
    report : callable
        Told after each finished candidate.

    Raises
    ------
    DegenerateSolutionError
        If every candidate leaves some state without frames.
    """
    sizes = _rung_sizes(problem.data.n_windows, halving)
    trials = _first_trials(problem, bandwidths, starts, sizes[0][0], seed)
    ended: list[Candidate] = []
    alive: list[Candidate] = []
    for rung, (n_windows, n_keep) in enumerate(sizes):
        last = rung == len(sizes) - 1
        accuracy = gap if last and not halving else TRIAL_GAP
        alive = _optimise(problem, trials, n_windows, selection, accuracy, n_jobs, report)
        alive, out = _choose(problem, alive, n_keep)
        ended = out + ended
        if not alive:
            raise _nothing_left(ended, problem.settings)
        trials = {b: [_Trial(c.start, rule=c.optimum.rule) for c in alive if c.bandwidth == b] for b in bandwidths}
    return _finish(problem, alive, ended, selection, gap)


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
    return float((loss / mass).mean()) + penalty


def _rung_sizes(n_windows: int, halving: bool) -> list[tuple[int, int]]:
    """Sizes of the samples and numbers of survivors, ending with all windows."""
    if not halving:
        return [(n_windows, 10**9)]
    smaller = [(size, keep) for size, keep in RUNGS if size < n_windows]
    keep = RUNGS[len(smaller)][1] if len(smaller) < len(RUNGS) else 1
    return [*smaller, (n_windows, keep)]


def _first_trials(
    problem: SearchProblem,
    bandwidths: Sequence[float],
    starts: Sequence[str | IntArray],
    n_windows: int,
    seed: np.random.SeedSequence,
) -> dict[float, list[_Trial]]:
    """Start labels of every candidate on the first sample."""
    chosen = equally_spaced(problem.data.n_windows, n_windows)
    wide = np.union1d(chosen, equally_spaced(problem.data.n_windows, KINETIC_WINDOWS))
    trials: dict[float, list[_Trial]] = {bandwidth: [] for bandwidth in bandwidths}
    for number, (start, stream) in enumerate(zip(starts, seed.spawn(len(starts)), strict=True)):
        name = start if isinstance(start, str) else f"labels {number}"
        if isinstance(start, str) and start in get_args(BandwidthStart):
            for bandwidth, own in zip(bandwidths, stream.spawn(len(bandwidths)), strict=True):
                rng = np.random.default_rng(own)
                labels = bandwidth_start(start, problem, bandwidth, wide, rng)  # type: ignore[arg-type]
                trials[bandwidth].append(_Trial(name, labels=labels[np.searchsorted(wide, chosen)]))
            continue
        shared = (
            shared_starts(start, problem, np.random.default_rng(stream))  # type: ignore[arg-type]
            if isinstance(start, str)
            else [start]
        )
        for place, labels in enumerate(shared):
            for bandwidth in bandwidths:
                trials[bandwidth].append(_Trial(name if place == 0 else f"{name} {place + 1}", labels=labels[chosen]))
    return trials


def _optimise(
    problem: SearchProblem,
    trials: dict[float, list[_Trial]],
    n_windows: int,
    selection: Selection,
    gap: float,
    n_jobs: int | None,
    report: Report,
) -> list[Candidate]:
    """Local search for all trials on an equally spaced sample of windows."""
    from joblib import Parallel, delayed

    chosen = equally_spaced(problem.data.n_windows, n_windows)
    tasks = [(bandwidth, some) for bandwidth, some in trials.items() if some]
    results = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_optimise_bandwidth)(problem, bandwidth, some, chosen, selection, gap) for bandwidth, some in tasks
    )
    candidates: list[Candidate] = []
    for some in results:
        candidates += some
        report(len(some))
    return candidates


def _optimise_bandwidth(
    problem: SearchProblem,
    bandwidth: float,
    trials: list[_Trial],
    chosen: IntArray,
    selection: Selection,
    gap: float,
) -> list[Candidate]:
    """Local search for all trials of one bandwidth, which share their features."""
    settings = problem.settings
    blocks = FeatureBlocks(problem.data, problem.feature_map(bandwidth), problem.weights[chosen], chosen)
    bounds = class_bounds(len(chosen), settings.n_states, settings.balance)
    candidates = []
    for trial in trials:
        labels = trial.labels
        if trial.rule is not None:
            labels = balanced_labels(all_label_costs(blocks, trial.rule), *bounds).labels
        assert labels is not None
        labels = _populated(labels, settings.n_states, bounds)
        limit = min(settings.max_iterations, TRIAL_ITERATIONS) if gap >= TRIAL_GAP else settings.max_iterations
        optimum = local_search(blocks, labels, settings, start=trial.rule, gap=gap, max_iterations=limit)
        candidates.append(judge(problem, trial.start, bandwidth, blocks, optimum, selection))
    return candidates


def _populated(labels: IntArray, n_states: int, bounds: tuple[int, int]) -> IntArray:
    """Move as few windows as the balance needs: a sample may hold too few windows of a rare state."""
    counts = np.bincount(labels, minlength=n_states)
    if counts.min() >= bounds[0] and counts.max() <= bounds[1]:
        return labels
    return balanced_labels(1.0 - np.eye(n_states)[labels], *bounds).labels


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
    macro = np.bincount(
        states[0] * n_states + states[-1], weights=blocks.weights, minlength=n_states * n_states
    ).reshape(n_states, n_states)
    macro = macro + macro.T
    mass = macro.sum(axis=1)
    metastability = float((np.diag(macro) / np.where(mass > 0.0, mass, 1.0)).sum())
    value = score(blocks, optimum, problem.settings, selection)
    return Candidate(start, bandwidth, optimum, value, populations, metastability, states.shape[1])


def frame_populations(problem: SearchProblem, candidate: Candidate) -> FloatArray:
    """Share of all frames that a candidate's rule gives to each state."""
    feature_map, n_states = problem.feature_map(candidate.bandwidth), problem.settings.n_states
    counts = np.zeros(n_states)
    for start in range(0, len(problem.data.frames), BLOCK_SIZE):
        scores = candidate.optimum.rule.scores(feature_map(problem.data.frames[start : start + BLOCK_SIZE]))
        counts += np.bincount(scores.argmax(axis=0), minlength=n_states)
    return np.asarray(counts / counts.sum())


def _choose(
    problem: SearchProblem, candidates: list[Candidate], n_keep: int
) -> tuple[list[Candidate], list[Candidate]]:
    """Split candidates into those that go on, best first, and those that end here with a fate."""
    alive: list[Candidate] = []
    out: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: c.score):
        twin = next((c for c in alive if c.bandwidth == candidate.bandwidth and _same(c, candidate, 0.999)), None)
        if candidate.is_degenerate(problem.settings.balance):
            state = int(np.argmin(candidate.populations))
            share = candidate.populations[state]
            out.append(replace(candidate, fate=f"degenerate: state {state} has {share:.2%} of the frames"))
        elif twin is not None:
            out.append(replace(candidate, fate=f"same as {twin.start}"))
        elif len(alive) < n_keep:
            alive.append(candidate)
        else:
            out.append(replace(candidate, fate=f"dropped: score after {candidate.n_windows} windows"))
    return alive, out


def _same(a: Candidate, b: Candidate, share: float) -> bool:
    return len(a.optimum.labels) == len(b.optimum.labels) and matched_share(a.optimum.labels, b.optimum.labels) >= share


def _finish(
    problem: SearchProblem, alive: list[Candidate], ended: list[Candidate], selection: Selection, gap: float
) -> list[Candidate]:
    """Polish the best candidate on all windows to the requested gap; if it turns degenerate, take the next."""
    for number, candidate in enumerate(alive):
        if candidate.optimum.gap > gap or not candidate.optimum.converged:
            blocks = FeatureBlocks(problem.data, problem.feature_map(candidate.bandwidth), problem.weights)
            optimum = local_search(
                blocks, candidate.optimum.labels, problem.settings, start=candidate.optimum.rule, gap=gap
            )
            candidate = judge(problem, candidate.start, candidate.bandwidth, blocks, optimum, selection)
        candidate = replace(candidate, populations=frame_populations(problem, candidate))
        if not candidate.is_degenerate(problem.settings.balance):
            rest = [replace(c, fate="finalist") for c in alive[number + 1 :]]
            return [replace(candidate, fate="winner"), *rest, *ended]
        ended = [replace(candidate, fate="degenerate: at full accuracy"), *ended]
    raise _nothing_left(ended, problem.settings)


def _nothing_left(ended: list[Candidate], settings: SearchSettings) -> DegenerateSolutionError:
    best = min(ended, key=lambda c: c.score)
    state = int(np.argmin(best.populations))
    return DegenerateSolutionError(
        f"all {len(ended)} candidates are degenerate: they leave some state with fewer than "
        f"{settings.balance[0]:.2%} of the frames. In the best one (start {best.start!r}, bandwidth "
        f"{best.bandwidth:.3g}) it is state {state} of {settings.n_states}, with {best.populations[state]:.2%}. "
        "Ask for fewer states, add starts, try other bandwidths, or lower balance[0] if a state is really that rare."
    )
