"""What all stages of a search share: judge trials by least squares, optimise them, remember what became of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from m3c_md.frames.windows import equally_spaced
from m3c_md.search.bandwidth_choice import plainest_first
from m3c_md.search.failures import Failure
from m3c_md.search.fate import FateKind
from m3c_md.search.journal import Journal, NoJournal
from m3c_md.search.problem import SearchProblem
from m3c_md.search.rungs import rung_sizes
from m3c_md.search.selection import Candidate, by_score, ranked
from m3c_md.search.steps import TRIAL_GAP, Judged, SearchOptions, least_squares_of_kernel, optimise_kernel
from m3c_md.search.trials import KNOWING_STARTS, TRIALS_AT_ONCE, Start, Trials, by_kernel, promising
from m3c_md.workers import deaf_workers

Report = Callable[[float], object]

# A rule that gives all states the same score costs 1. Where the least-squares rules of all starts cost nearly as much,
# every local search loses a state, and rules for the labels of the starts are all that is left (of 240 random systems
# and labelled sequences none whose best start costs more than 0.70 was otherwise).
HOPELESS_START = 0.8
# Where no more than this share of some trials keep their states, others that promise less are not tried.
MOSTLY_LOST = 0.25


class Runner:
    """A search, as far as its stages have it in common.

    Parameters
    ----------
    problem : SearchProblem
    bandwidths : sequence of float
        In rising order.
    starts : sequence of str or (n_windows,) label arrays
        Names of starts, or window labels to start from.
    options : SearchOptions
    report : callable
        Told now and then which share of the work is done.
    journal : Journal, optional
        Steps that are in it are not done again, and those that are done are put in.
    failures : list of Failure, optional
        Receives the starts and candidates that failed while others went on; without it the first failure is raised.
    """

    def __init__(
        self,
        problem: SearchProblem,
        bandwidths: Sequence[float],
        starts: Sequence[Start],
        options: SearchOptions,
        *,
        report: Report = lambda share: None,
        journal: Journal | None = None,
        failures: list[Failure] | None = None,
    ) -> None:
        self.problem = problem
        self.bandwidths = bandwidths
        self.starts = starts
        self.options = options
        self._report = report
        self._share = 0.0
        self.journal = NoJournal() if journal is None else journal
        self.failures = failures
        self.sizes = rung_sizes(problem.data.n_windows, options.halving, problem.everything is not None)
        # Starts as least squares judges them, and candidates that have come to their end, best first.
        self._judged: Judged = []
        self._ended: list[Candidate] = []
        self._set_aside: list[Candidate] = []

    def report(self, share: float) -> None:
        """Tell which share of the work is done; help that comes late does not undo what was done."""
        self._share = max(self._share, share)
        self._report(self._share)

    def _judged_and_tried(self, trials: Trials, most: int, stage: str, begin: float, end: float) -> list[Candidate]:
        """Judge trials by least squares, and optimise those that promise something."""
        judged = self._by_least_squares(trials)
        self._judged += judged
        return self._tried(judged, most, stage, begin, end)

    def _tried(self, judged: Judged, most: int, stage: str, begin: float, end: float) -> list[Candidate]:
        """Optimise the trials that promise something, some at a time, until most of some lose a state."""
        if not judged:
            return []
        chosen = promising(self.problem, judged, self._judged, most) if self._may_come_to_something() else []
        tried = {id(trial) for trial, _ in chosen}
        found: list[Candidate] = []
        for done in range(0, len(chosen), TRIALS_AT_ONCE):
            some = chosen[done : done + TRIALS_AT_ONCE]
            now, then = (begin + (end - begin) * min(n / len(chosen), 1.0) for n in (done, done + len(some)))
            more = self._optimised(by_kernel(some), self.sizes[0][0], f"{stage} {done}", now, then)
            found += more
            if sum(self._some_may_win([c]) for c in more) <= MOSTLY_LOST * len(more):
                tried -= {id(trial) for trial, _ in chosen[done + len(some) :]}
                break
        self._ended += [
            replace(candidate, start=name).ended(FateKind.DROPPED, "by its least-squares rule")
            for trial, candidate in judged
            if id(trial) not in tried
            for name in (trial.start, *trial.twins)
        ]
        return found

    def _may_come_to_something(self) -> bool:
        """Whether some start is not so poor by its least-squares rule that a local search would lose its states.

        That is known of starts that know about time. Random labels say nothing before they have been optimised.
        """
        knowing = set(KNOWING_STARTS) <= {start for start in self.starts if isinstance(start, str)}
        return not knowing or min(candidate.score for _, candidate in self._judged) < HOPELESS_START

    def _by_least_squares(self, trials: Trials) -> Judged:
        """Judge trials by their least-squares rules on the first sample, with which they then begin."""
        return self._by_least_squares_in(self.problem, trials)

    def _by_least_squares_in(self, problem: SearchProblem, trials: Trials) -> Judged:
        chosen = equally_spaced(problem.data.n_windows, self.sizes[0][0])
        judged: Judged = []
        for kernel, some in trials.items():
            failed: list[Failure] = []
            judged += least_squares_of_kernel(problem, kernel, some, chosen, self.options.selection, failed)
            self._take(failed)
        return judged

    def _some_may_win(self, candidates: Sequence[Candidate]) -> bool:
        """Whether some candidate leaves no state without frames."""
        settings, n_windows = self.problem.settings, self.problem.n_windows
        return any(c.may_win(settings, n_windows) for c in candidates)

    def _ranked(self, some: Sequence[Candidate]) -> list[Candidate]:
        return (by_score if self.options.selection == "objective" else ranked)(self.problem, some)

    def _best_first(self, some: Sequence[Candidate]) -> list[Candidate]:
        """Candidates on the same windows, the winner as it stands first."""
        order = self._ranked(some)
        return order if self.options.selection == "objective" else plainest_first(self.problem, order)

    def _end(self, candidates: list[Candidate]) -> None:
        """Keep those that came furthest first."""
        self._ended = candidates + self._ended

    def _optimised(self, trials: Trials, n_windows: int, stage: str, begin: float, end: float) -> list[Candidate]:
        """Local search for all trials on an equally spaced sample of windows, bandwidth by bandwidth."""
        gap = TRIAL_GAP if self.options.halving else self.options.gap
        total = sum(1 + len(trial.twins) for group in trials.values() for trial in group)
        done: list[Candidate] = []
        for group in self._steps(trials, n_windows, stage, gap):
            done += group
            self.report(begin + (end - begin) * len(done) / total)
        return done

    def _steps(self, trials: Trials, n_windows: int, stage: str, gap: float) -> Iterator[list[Candidate]]:
        """Candidates of one bandwidth after the other.

        A step in which a trial failed is not put in the journal: whoever goes on from there is to hear of it, too.
        """
        from joblib import Parallel, delayed

        groups = [(f"{stage} {kernel}", kernel, some) for kernel, some in trials.items() if some]
        before = {step: self.journal.found(step) for step, _, _ in groups}
        chosen = equally_spaced(self.problem.data.n_windows, n_windows)
        sample = replace(self.problem, everything=None)  # all that processes need: nothing else is sent to them
        tasks = [
            delayed(optimise_kernel)(sample, kernel, some, chosen, self.options.selection, gap)
            for step, kernel, some in groups
            if before[step] is None
        ]
        results: Iterator[tuple[list[Candidate], list[Failure]]] = iter(())
        if tasks:
            with deaf_workers():
                results = Parallel(n_jobs=self.options.n_jobs, return_as="generator")(tasks)
        for step, _, _ in groups:
            known = before[step]
            if known is None:
                known, failed = next(results)
                self._take(failed)
                if not failed:
                    self.journal.keep(step, known)
            yield known

    def _take(self, failed: list[Failure]) -> None:
        """Remember failures, or raise the first where nobody wants to hear of them."""
        if failed and self.failures is None:
            raise failed[0].error
        if self.failures is not None:
            self.failures += failed
