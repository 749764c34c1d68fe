"""Learning which directions matter: starts learn metrics from their own rules, and new starts are made in these.

A start is labels. Its least-squares rule says along which directions the labels change; in the metric of these
directions the rule of least squares is a better one, and says it more clearly (Radhakrishnan and others 2024,
"recursive feature machines"). Labels that are partly wrong teach nearly the same directions as right ones. So the
metrics of several starts are pooled, and the frames are cut anew in the pooled metric, where noise is out of the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from m3c_md.exceptions import SolverError
from m3c_md.partitions.microstates import find_microstates
from m3c_md.search.failures import Failure, excused
from m3c_md.search.metrics import LEARNED, POOLED, learned_metric, pooled_metric, with_new_metric
from m3c_md.search.problem import Kernel, SearchProblem
from m3c_md.search.selection import Candidate
from m3c_md.search.steps import Judged, SearchOptions
from m3c_md.search.trials import Start, Trial, Trials, first_trials, labels_of_start, middle, stream, worth_teaching

ByLeastSquares = Callable[[SearchProblem, Trials], Judged]

# Rounds in which a start learns a metric from its least-squares rule.
LESSONS = 2
# Rounds in which a metric is learned from the best candidate, one where columns are few (there is less to learn, and
# more rounds left the states as they were), and trials that are optimised in each (two took a seventh more time and
# gave the same means on 17 systems of benchmarks/rivals.py and many_states.py).
MOST_ROUNDS = 3
ROUNDS_OF_FEW_COLUMNS = 1
LEARNED_AT_ONCE = 1
# Trials in the metric of scaled columns that are optimised in the end.
PLAIN_AT_ONCE = 1
# Starts that learn a metric: so many by their scores, and as many by their metastability; of the first starts, and of
# those in the metric of all that was learned.
MOST_TAUGHT = 1
TAUGHT_AGAIN = 1
# Bandwidths that are tried in a metric that was learned differ from that of the rule by this factor at most.
FURTHEST = 2.1
# A round that lowers the score by less than this factor is the last.
WORTH_LEARNING = 0.97


def with_learned(problem: SearchProblem, candidate: Candidate, options: SearchOptions) -> tuple[SearchProblem, str]:
    """Return the problem with the metric of a candidate's rule, and the name of that metric."""
    number = sum(name.startswith(LEARNED) for name in problem.metrics) + 1
    metric = learned_metric(problem, candidate, f"{LEARNED} {number}")
    return with_new_metric(problem, metric, options.kind, options.seed), metric.name


def taught(
    problem: SearchProblem,
    judged: Judged,
    most: int,
    bandwidths: Sequence[float],
    options: SearchOptions,
    by_least_squares: ByLeastSquares,
) -> tuple[SearchProblem, Judged]:
    """Return the more promising starts in metrics that they have learned, and the problem with these metrics.

    A start that cannot learn (its rule does not change anywhere) is left as it was.
    """
    pupils: Judged = []
    for trial, candidate in worth_teaching(judged, most):
        again: Judged = []
        for _ in range(LESSONS):
            try:
                problem, name = with_learned(problem, candidate, options)
            except SolverError:
                break
            kernels = [Kernel(bandwidth, name) for bandwidth in middle(bandwidths)]
            again = by_least_squares(problem, {kernel: [replace(trial, rule=None)] for kernel in kernels})
            if not again:
                break
            candidate = min((one for _, one in again), key=lambda c: c.score)
        pupils += again
    return problem, pupils


def fresh_starts(
    problem: SearchProblem,
    judged: Judged,
    starts: Sequence[Start],
    bandwidths: Sequence[float],
    n_windows: int,
    options: SearchOptions,
    failures: list[Failure] | None,
) -> tuple[SearchProblem, Trials]:
    """Return starts that are made in the pooled metric of all that was learned, and the problem with that metric."""
    names = list(dict.fromkeys(c.metric for _, c in judged if c.metric.startswith(LEARNED)))
    if not names:
        return problem, {}
    problem = with_new_metric(problem, pooled_metric(problem, names), options.kind, options.seed)
    space = problem.metrics[POOLED]
    cells = find_microstates(problem.data, space, stream(options.seed, POOLED))
    inside = replace(problem, spaces=[space], partitions=[cells])
    kernels = [Kernel(bandwidth, POOLED) for bandwidth in middle(bandwidths)]
    # Labels that a user gave are the same in every metric.
    by_name = [start for start in starts if isinstance(start, str)]
    named = []
    for number, start in enumerate(by_name):
        with excused(failures, None, start):
            named.append((number, start, labels_of_start(inside, start, options.seed)))
    rarer = options.selection != "objective"
    trials = first_trials(inside, kernels, named, n_windows, options.seed, failures, rarer=rarer)
    return problem, {kernel: [_renamed(trial) for trial in some] for kernel, some in trials.items()}


def _renamed(trial: Trial) -> Trial:
    twins = tuple(f"{name} ({LEARNED})" for name in trial.twins)
    return replace(trial, start=f"{trial.start} ({LEARNED})", twins=twins)


def is_near(bandwidth: float, other: float) -> bool:
    """Whether a bandwidth is worth a try in a metric that was learned with another one: all have the same unit."""
    return 1.0 / FURTHEST <= bandwidth / other <= FURTHEST


def continued_in(candidate: Candidate, metric: str, bandwidths: Sequence[float]) -> Trials:
    """Trials that begin from the labels of a candidate, in another metric, at some bandwidths."""
    trial = Trial(candidate.start, labels=candidate.optimum.labels, least_share=candidate.least_share)
    return {Kernel(bandwidth, metric): [trial] for bandwidth in bandwidths}
