"""Steps of a search with one kernel: judge starts by least squares, optimise trials, polish a winner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.frames.weights import lifted
from m3c_md.frames.windows import FeatureBlocks, equally_spaced
from m3c_md.optimize.blocks import Blocks, Rule, all_label_costs, class_sums
from m3c_md.optimize.feature_map import FeatureKind
from m3c_md.optimize.labels import balanced_labels, class_bounds
from m3c_md.optimize.least_squares import least_squares_rule, second_moments
from m3c_md.optimize.threads import ONE_BLAS_THREAD
from m3c_md.search.compression import compressed, compressed_rule, expanded_rule, principal_directions
from m3c_md.search.failures import Failure, excused
from m3c_md.search.label_modes import Effort, label_mode
from m3c_md.search.local_search import LEAST_SQUARES_SMOOTHING, WARM_SMOOTHING, LocalOptimum, SearchSettings
from m3c_md.search.polish import polish_on_all_data
from m3c_md.search.populations import frame_populations
from m3c_md.search.problem import Kernel, SearchProblem
from m3c_md.search.scores import Selection, states_and_losses
from m3c_md.search.selection import (
    Candidate,
    judge,
)
from m3c_md.search.trials import Trial

Report = Callable[[float], object]
Judged = list[tuple[Trial, Candidate]]

# Accuracy of the large-margin problem for a candidate that may still be dropped.
TRIAL_GAP = 1e-2
# Down to this gap features in single precision will do: their rounding moves objectives by a millionth.
SINGLE_PRECISION_GAP = 5e-5
# Rounds of a trial: what is still creeping then goes on in the next sample (8 or 12: 18 series of many
# states and 68 systems of the soak, none less accurate in the mean).
TRIAL_ITERATIONS = 8


@dataclass(frozen=True)
class SearchOptions:
    """How a search goes about it.

    Attributes
    ----------
    selection : "objective" or "class-averaged"
        What the winner minimises among the candidates that may win, see `score`. By "class-averaged" support has a say
        in who may win, see `ranked`, and its bandwidth may be a wider one, see `plainest_first`.
    seed : int
        Every (start, bandwidth) has its own stream: results depend neither on order nor on ``n_jobs``.
    gap : float
        Relative duality gap of the winner.
    halving : bool
        Whether most candidates are judged on samples only; otherwise all bandwidths meet all starts on all windows.
    n_jobs : int, optional
        Processes for the candidates, through joblib.
    kind : "orthogonal" or "fourier"
        Random features of metrics that are learned.
    learn : bool
        Whether metrics are learned from the best candidates.
    seek_slow : bool
        Whether slow directions are sought where they were left out at first and starts are poor.
    """

    selection: Selection
    seed: int
    gap: float = 1e-3
    halving: bool = True
    n_jobs: int | None = None
    kind: FeatureKind = "orthogonal"
    learn: bool = False
    seek_slow: bool = False


def least_squares_of_kernel(
    problem: SearchProblem,
    kernel: Kernel,
    trials: list[Trial],
    chosen: IntArray,
    selection: Selection,
    failures: list[Failure],
) -> Judged:
    """Trials of one kernel, each with the candidate that its least-squares rule is; failures are put in the list."""
    judged: Judged = []
    if not trials:
        return judged
    with ONE_BLAS_THREAD:
        blocks = problem.features(kernel, chosen)
        moments = second_moments(blocks)
        for trial in trials:
            with excused(failures, kernel.bandwidth, trial.start, *trial.twins):
                settings = trial.settings(problem.settings)
                labels = _balanced_start(blocks, trial, len(chosen), settings)
                rule = _least_squares_rule(blocks, moments, labels, settings, lift=selection != "objective")
                seen = states_and_losses(blocks, rule, labels)
                objective = float(blocks.weights @ seen[1]) + settings.penalty(rule)
                optimum = LocalOptimum(rule, labels, objective, 0.0, 0, False, (objective,))
                judgement = judge(problem, trial.start, kernel, blocks, optimum, selection, chosen, settings, seen=seen)
                judged.append((trial, judgement))
    return judged


def _least_squares_rule(
    blocks: FeatureBlocks, moments: FloatArray, labels: IntArray, settings: SearchSettings, *, lift: bool
) -> Rule:
    """Rule of least squares, in which rare states count more if they are to be lifted."""
    if not lift:
        return least_squares_rule(moments, class_sums(blocks, labels, settings.n_states), settings.regularization)
    weights = lifted(blocks.weights, labels, settings.n_states)
    # All but the windows of rare states weigh as much less as these weigh more.
    share = float((weights / np.maximum(blocks.weights, np.finfo(float).tiny)).min())
    extra = weights - share * blocks.weights
    extra[extra <= 1e-9 * weights] = 0.0  # what rounding leaves of windows that are not lifted
    if extra.any():
        moments = share * moments + second_moments(_with_weights(blocks, extra))
    classes = class_sums(_with_weights(blocks, weights), labels, settings.n_states)
    return least_squares_rule(moments, classes, settings.regularization)


def optimise_kernel(
    problem: SearchProblem,
    kernel: Kernel,
    trials: list[Trial],
    chosen: IntArray,
    selection: Selection,
    gap: float,
) -> tuple[list[Candidate], list[Failure]]:
    """Local search for all trials of one kernel, which share their features, and what failed on the way."""
    candidates: list[Candidate] = []
    failures: list[Failure] = []
    # One BLAS thread in every process: sums then do not depend on how many there are.
    with ONE_BLAS_THREAD:
        precision = np.float32 if gap >= SINGLE_PRECISION_GAP else np.float64
        blocks = problem.features(kernel, chosen, precision)
        directions = principal_directions(blocks) if gap >= TRIAL_GAP else None
        searched: Blocks = blocks if directions is None else compressed(blocks, directions)
        for trial in trials:
            with excused(failures, kernel.bandwidth, trial.start, *trial.twins):
                settings, mode = trial.settings(problem.settings), label_mode(trial.held)
                limit = min(settings.max_iterations, TRIAL_ITERATIONS) if gap >= TRIAL_GAP else None
                labels = _balanced_start(mode.fitted(blocks), trial, len(chosen), settings)
                fitted = mode.fitted(searched)
                if mode.lifts_rare_states(selection):
                    fitted = _with_weights(
                        fitted, lifted(blocks.weights, labels, settings.n_states, fully=mode.lifts_fully)
                    )
                rule = trial.rule
                if rule is not None and directions is not None:
                    rule = compressed_rule(rule, directions)
                if rule is None:
                    classes = class_sums(fitted, labels, settings.n_states)
                    rule = least_squares_rule(second_moments(fitted), classes, settings.regularization)
                # A trial that has labels has not been optimised yet: its rule is that of least squares.
                smoothing = WARM_SMOOTHING if trial.labels is None else LEAST_SQUARES_SMOOTHING
                effort = Effort(gap, max_iterations=limit, give_up=limit is not None)
                optimum = mode.optimum(fitted, labels, settings, rule, smoothing, effort)
                if directions is not None:
                    optimum = replace(optimum, rule=expanded_rule(optimum.rule, directions))
                candidate = judge(problem, trial.start, kernel, blocks, optimum, selection, chosen, settings, mode)
                candidates += [replace(candidate, start=name) for name in (trial.start, *trial.twins)]
    return candidates, failures


def _with_weights(blocks: Blocks, weights: FloatArray) -> Blocks:
    """Return blocks whose windows have other weights."""
    if isinstance(blocks, FeatureBlocks):  # those that do not fit in memory must not be brought there
        return blocks.with_weights(weights)
    done, others = 0, []
    for block in blocks:
        n_windows = block.windows.shape[1]
        others.append(replace(block, weights=weights[done : done + n_windows]))
        done += n_windows
    return others


def _balanced_start(blocks: Blocks, trial: Trial, n_windows: int, settings: SearchSettings) -> IntArray:
    """Labels of a trial within the balance; a sample may hold too few windows of a rare state."""
    bounds = class_bounds(n_windows, settings.n_states, settings.balance)
    if trial.labels is None:
        assert trial.rule is not None
        return balanced_labels(all_label_costs(blocks, trial.rule), *bounds).labels
    counts = np.bincount(trial.labels, minlength=settings.n_states)
    if counts.min() >= bounds[0] and counts.max() <= bounds[1]:
        return trial.labels
    return balanced_labels(1.0 - np.eye(settings.n_states)[trial.labels], *bounds).labels


def polish_winner(
    problem: SearchProblem, candidate: Candidate, options: SearchOptions, n_sample: int, report: Report
) -> Candidate:
    """Bring a candidate to full accuracy on all windows, and count its states on all frames.

    Where the data are looked at in a stream, ``n_sample`` windows of them are kept in memory with their features.
    """
    settings, mode = problem.settings.with_least_share(candidate.least_share), label_mode(candidate.held)
    selection, gap = options.selection, options.gap
    n_windows, wanted = problem.data.n_windows, mode.wanted_gap(gap)
    if problem.everything is not None:
        if mode.meets_all_data:
            # Half of what is left of the bar with every look: nobody knows how many there will be.
            return polish_on_all_data(
                problem,
                problem.everything,
                candidate,
                selection,
                gap,
                n_sample,
                lambda looks: report(1.0 - 0.1 * 0.5**looks),
            )
        n_windows = min(n_windows, n_sample)
    whole = candidate.n_windows == n_windows
    # The gap of a trial is that of fewer features, with labels that may still change: no certificate of a winner.
    if options.halving or not (whole and candidate.optimum.converged and candidate.optimum.gap <= wanted):
        precision = np.float32 if wanted >= SINGLE_PRECISION_GAP else np.float64
        chosen = equally_spaced(problem.data.n_windows, n_windows)
        blocks = problem.features(candidate.kernel, chosen, precision)
        fitted = mode.fitted(blocks)
        rule, labels = candidate.optimum.rule, candidate.optimum.labels
        if not whole:
            labels = _balanced_start(fitted, Trial("", rule=rule), n_windows, settings)
        if mode.lifts_rare_states(selection):
            fitted = _with_weights(fitted, lifted(blocks.weights, labels, settings.n_states, fully=mode.lifts_fully))
        effort = Effort(gap, wanted, give_up=options.halving)
        optimum = mode.optimum(fitted, labels, settings, rule, WARM_SMOOTHING, effort)
        name, kernel = candidate.start, candidate.kernel
        candidate = judge(problem, name, kernel, blocks, optimum, selection, chosen, settings, mode)
    return replace(candidate, populations=frame_populations(problem, candidate))
