"""Candidates: one local optimum per start and bandwidth, judged on few windows first and on all at the end.

All starts are tried at some bandwidths on a small sample of windows. The best clearly different decompositions that
they lead to are then tried at all bandwidths; the better of those go on to larger samples, warm started from where
they stood (successive halving), and the last ones to all the data. So the many candidates cost a fixed amount, a few
seconds, and only the last ones grow with the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from m3c_md.optimize.blocks import Blocks, all_label_costs, class_sums
from m3c_md.optimize.labels import balanced_labels, class_bounds
from m3c_md.optimize.least_squares import least_squares_rule, second_moments
from m3c_md.optimize.threads import ONE_BLAS_THREAD
from m3c_md.search.bandwidth_choice import widest_first
from m3c_md.search.failures import Failure, all_failed, excused
from m3c_md.search.journal import Journal, NoJournal
from m3c_md.search.local_search import SearchSettings, local_search
from m3c_md.search.polish import polish_on_all_data
from m3c_md.search.problem import SearchProblem
from m3c_md.search.selection import (
    Candidate,
    Selection,
    Standing,
    choose,
    frame_populations,
    judge,
    nothing_left,
    ranked,
)
from m3c_md.search.trials import Start, Trial, Trials, continued, first_trials, last_resort, scouting, sweep
from m3c_md.search.windows import FeatureBlocks, equally_spaced
from m3c_md.workers import deaf_workers

IntArray = NDArray[np.intp]
Report = Callable[[float], object]

# (windows, candidates that go on): all candidates meet the first sample, the survivors the next, ...
RUNGS = ((2000, 6), (6000, 3), (20_000, 2))
# Of more windows than this, the winner is polished by looks at all the data, not with all features in memory.
STREAMED = RUNGS[-1][0]
# Windows that a search keeps in memory: kinetics are estimated from all of them.
SEARCHED = 100_000
# Accuracy of the large-margin problem for a candidate that may still be dropped.
TRIAL_GAP = 1e-2
# Down to this gap features in single precision will do: their rounding moves objectives by a millionth.
SINGLE_PRECISION_GAP = 5e-5
TRIAL_ITERATIONS = 30
# Where all features are in memory, a winner is brought to this gap or the one asked for, whichever is smaller.
IN_MEMORY_GAP = 1e-4


def search(
    problem: SearchProblem,
    bandwidths: Sequence[float],
    starts: Sequence[Start],
    *,
    selection: Selection,
    seed: int,
    gap: float = 1e-3,
    halving: bool = True,
    n_jobs: int | None = None,
    report: Report = lambda share: None,
    journal: Journal | None = None,
    failures: list[Failure] | None = None,
) -> list[Candidate]:
    """Run all candidates and return them, the winner first, then by how far they came and by score.

    Parameters
    ----------
    problem : SearchProblem
    bandwidths : sequence of float
        In rising order.
    starts : sequence of str or (n_windows,) label arrays
        Names of starts, or window labels to start from.
    selection : "objective" or "class-averaged"
        What the winner minimises among the candidates that are not degenerate, see `score`; by "class-averaged" its
        bandwidth may then be a wider one, see `widest_first`.
    seed : int
        Every (start, bandwidth) has its own stream: results depend neither on order nor on ``n_jobs``.
    gap : float
        Relative duality gap of the winner.
    halving : bool
        Whether most candidates are judged on samples only; otherwise all bandwidths meet all starts on all windows.
    n_jobs : int, optional
        Processes for the candidates, through joblib.
    report : callable
        Told now and then which share of the work is done.
    journal : Journal, optional
        Steps that are in it are not done again, and those that are done are put in.
    failures : list of Failure, optional
        Receives the starts and candidates that failed while others went on; without it the first failure is raised.

    Raises
    ------
    DegenerateSolutionError
        If every candidate leaves some state without frames.
    SolverError, InputError
        If a solver failed on every candidate that might have won.
    """
    sizes = _rung_sizes(problem.data.n_windows, halving, problem.everything is not None)
    scouts = scouting(bandwidths) if halving else bandwidths
    trials = first_trials(problem, scouts, starts, sizes[0][0], seed, failures)
    journal = NoJournal() if journal is None else journal
    # The search may come again with labels held closer to balance: steps are told apart by that.
    balance = f"balance {problem.settings.balance[0]:.6g}{' held' if problem.settings.hold_labels else ''}"

    def optimise(some: Trials, n_windows: int, stage: str, begin: float, end: float) -> list[Candidate]:
        accuracy = TRIAL_GAP if halving else gap
        steps = _optimise(
            problem, some, n_windows, selection, accuracy, n_jobs, journal, f"{balance} {stage}", failures
        )
        total = sum(1 + len(trial.twins) for group in some.values() for trial in group)
        done: list[Candidate] = []
        for group in steps:
            done += group
            report(begin + (end - begin) * len(done) / total)
        return done

    candidates = optimise(trials, sizes[0][0], "scouts", 0.05, 0.5)
    if not candidates:
        raise all_failed(failures)
    if len(scouts) < len(bandwidths):
        others = sweep(problem, candidates, bandwidths)
        if not others:
            others = last_resort(candidates, trials, [width for width in bandwidths if width not in scouts])
        candidates += optimise(others, sizes[0][0], "sweep", 0.5, 0.7)

    def best_first(some: list[Candidate]) -> list[Candidate]:
        order = ranked(problem, some)
        return widest_first(problem, order) if selection == "class-averaged" else order

    alive, ended = choose(problem, best_first(candidates), sizes[0][1])
    for rung, (n_windows, n_keep) in enumerate(sizes[1:]):
        begin, end = (0.7 + 0.2 * (rung + i) / (len(sizes) - 1) for i in (0, 1))
        further = optimise(continued(alive), n_windows, f"{n_windows} windows", begin, end)
        arrived = {(c.start, c.bandwidth) for c in further}
        lost = [replace(c, fate=f"failed: {n_windows} windows") for c in alive if (c.start, c.bandwidth) not in arrived]
        alive, out = choose(problem, best_first(further), n_keep)
        ended = out + lost + ended
    report(0.9)

    def polish(candidate: Candidate) -> Candidate:
        step = f"{balance} polished {candidate.start} {candidate.bandwidth!r}"
        before = journal.found(step)
        polished = _polish(problem, candidate, selection, gap, report) if before is None else before[0]
        if before is None:
            journal.keep(step, [polished])
        return polished

    finished = _finish(problem, alive, ended, polish, failures)
    report(1.0)
    return finished


def _rung_sizes(n_windows: int, halving: bool, streamed: bool) -> list[tuple[int, int]]:
    """Sizes of the samples and numbers of survivors, ending with all windows unless these are looked at in a stream."""
    if not halving:
        return [(n_windows, 10**9)]
    if streamed:
        return list(RUNGS)
    # A sample of more than half of the windows saves less than it costs.
    smaller = [(size, keep) for size, keep in RUNGS if 2 * size <= n_windows]
    keep = RUNGS[len(smaller)][1] if len(smaller) < len(RUNGS) else 1
    return [*smaller, (n_windows, keep)]


def _optimise(
    problem: SearchProblem,
    trials: Trials,
    n_windows: int,
    selection: Selection,
    gap: float,
    n_jobs: int | None,
    journal: Journal,
    stage: str,
    failures: list[Failure] | None,
) -> Iterator[list[Candidate]]:
    """Local search for all trials on an equally spaced sample of windows, bandwidth by bandwidth.

    A step in which a trial failed is not put in the journal: whoever goes on from there is to hear of it, too.
    """
    from joblib import Parallel, delayed

    groups = [(f"{stage} {bandwidth!r}", bandwidth, some) for bandwidth, some in trials.items() if some]
    before = {step: journal.found(step) for step, _, _ in groups}

    chosen = equally_spaced(problem.data.n_windows, n_windows)
    problem = replace(problem, everything=None)  # a sample is all that processes need: nothing else is sent to them
    with deaf_workers():
        results: Iterator[tuple[list[Candidate], list[Failure]]] = Parallel(n_jobs=n_jobs, return_as="generator")(
            delayed(_optimise_bandwidth)(problem, bandwidth, some, chosen, selection, gap)
            for step, bandwidth, some in groups
            if before[step] is None
        )
    for step, _, _ in groups:
        known = before[step]
        if known is None:
            known, failed = next(results)
            if failed and failures is None:
                raise failed[0].error
            if failed and failures is not None:
                failures += failed
            else:
                journal.keep(step, known)
        yield known


def _optimise_bandwidth(
    problem: SearchProblem,
    bandwidth: float,
    trials: list[Trial],
    chosen: IntArray,
    selection: Selection,
    gap: float,
) -> tuple[list[Candidate], list[Failure]]:
    """Local search for all trials of one bandwidth, which share their features, and what failed on the way."""
    settings = problem.settings
    limit = min(settings.max_iterations, TRIAL_ITERATIONS) if gap >= TRIAL_GAP else None
    candidates: list[Candidate] = []
    failures: list[Failure] = []
    # One BLAS thread in every process: sums then do not depend on how many there are.
    with ONE_BLAS_THREAD:
        precision = np.float32 if gap >= SINGLE_PRECISION_GAP else np.float64
        feature_map = problem.feature_map(bandwidth)
        blocks = FeatureBlocks(problem.data, feature_map, problem.weights[chosen], chosen, precision)
        fitted = _fitted(blocks, settings)
        moments = None
        for trial in trials:
            with excused(failures, bandwidth, trial.start, *trial.twins):
                labels = _balanced_start(fitted, trial, len(chosen), settings)
                rule = trial.rule
                if rule is None:
                    classes = class_sums(fitted, labels, settings.n_states)
                    moments = second_moments(fitted) if moments is None else moments
                    rule = least_squares_rule(moments, classes, settings.regularization)
                optimum = local_search(fitted, labels, settings, start=rule, gap=gap, max_iterations=limit)
                candidate = judge(problem, trial.start, bandwidth, blocks, optimum, selection)
                candidates += [replace(candidate, start=name) for name in (trial.start, *trial.twins)]
    return candidates, failures


def _fitted(blocks: FeatureBlocks, settings: SearchSettings) -> Blocks:
    """What rules are fitted to: windows, or single frames where labels are those of frames and stay.

    A window may leave its state, and where most do, a rule fitted to windows would give states up. That is not wanted
    where labels have been chosen already.
    """
    return [replace(block, windows=block.windows[:1]) for block in blocks] if settings.hold_labels else blocks


def _balanced_start(blocks: Blocks, trial: Trial, n_windows: int, settings: SearchSettings) -> IntArray:
    """Labels of a trial within the balance; a sample may hold too few windows of a rare state."""
    bounds = class_bounds(n_windows, settings.n_states, settings.balance)
    if trial.rule is not None:
        return balanced_labels(all_label_costs(blocks, trial.rule), *bounds).labels
    assert trial.labels is not None
    counts = np.bincount(trial.labels, minlength=settings.n_states)
    if counts.min() >= bounds[0] and counts.max() <= bounds[1]:
        return trial.labels
    return balanced_labels(1.0 - np.eye(settings.n_states)[trial.labels], *bounds).labels


def _finish(
    problem: SearchProblem,
    alive: list[Candidate],
    ended: list[Candidate],
    polish: Callable[[Candidate], Candidate],
    failures: list[Failure] | None,
) -> list[Candidate]:
    """Polish the best candidate on all windows to the requested gap; if it loses a state, take the next.

    Should no finalist keep its states, those dropped before for their score come to their turn. A state rarer than
    asked for is better than none: the first such finalist is kept, and no other is polished in its place.
    """
    settings, n_windows = problem.settings, problem.n_windows
    finalists = [replace(c, fate="finalist") for c in alive]
    fine = [c for c in ended if c.fate.startswith("dropped") and c.standing(settings, n_windows) == Standing.FINE]
    others = [*finalists, *ended]
    rare: list[Candidate] = []
    for candidate in [*finalists, *ranked(problem, fine)]:
        if rare and candidate.standing(settings, n_windows) == Standing.RARE:
            break
        others = [c for c in others if c is not candidate]
        done: list[Candidate] = []
        with excused(failures, candidate.bandwidth, candidate.start):
            done.append(polish(candidate))
        if not done:
            others.append(replace(candidate, fate="failed: at full accuracy"))
            continue
        (polished,) = done
        if polished.standing(settings, n_windows) == Standing.FINE:
            return [replace(polished, fate="winner"), *rare, *others]
        if polished.standing(settings, n_windows) == Standing.RARE:
            rare.append(replace(polished, fate="finalist"))
        else:
            others.append(replace(polished, fate="degenerate: at full accuracy"))
    if rare:
        return [replace(rare[0], fate="winner"), *rare[1:], *others]
    if any(c.fate.startswith("failed") for c in others):
        raise all_failed(failures)
    raise nothing_left(others, settings)


def _polish(
    problem: SearchProblem, candidate: Candidate, selection: Selection, gap: float, report: Report
) -> Candidate:
    """Bring a candidate to full accuracy on all windows, and count its states on all frames."""
    if problem.everything is not None and not problem.settings.hold_labels:
        n_sample, everything = RUNGS[-1][0], problem.everything
        # Half of what is left of the bar with every look: nobody knows how many there will be.
        return polish_on_all_data(
            problem, everything, candidate, selection, gap, n_sample, lambda looks: report(1.0 - 0.1 * 0.5**looks)
        )
    gap = min(gap, IN_MEMORY_GAP)
    whole = candidate.n_windows == problem.data.n_windows
    if not (whole and candidate.optimum.converged and candidate.optimum.gap <= gap):
        precision = np.float32 if gap >= SINGLE_PRECISION_GAP else np.float64
        feature_map = problem.feature_map(candidate.bandwidth)
        blocks = FeatureBlocks(problem.data, feature_map, problem.weights, dtype=precision)
        fitted = _fitted(blocks, problem.settings)
        rule = candidate.optimum.rule
        labels = candidate.optimum.labels
        if not whole:
            labels = _balanced_start(fitted, Trial("", rule=rule), problem.data.n_windows, problem.settings)
        optimum = local_search(fitted, labels, problem.settings, start=rule, gap=gap)
        candidate = judge(problem, candidate.start, candidate.bandwidth, blocks, optimum, selection)
    return replace(candidate, populations=frame_populations(problem, candidate))
