"""Candidates: one local optimum per start and bandwidth, judged on few windows first and on all at the end.

All starts are judged at some bandwidths on a small sample of windows, first by least squares; those that promise
something are optimised. The best clearly different decompositions that they lead to are then tried at all bandwidths;
the better of those go on to larger samples, warm started from where they stood (successive halving), and the last ones
to all the data. So the many candidates cost a fixed amount, a second or so, and only the last ones grow with the data.
Where all lose a state, a few starts whose labels are held take their place (`m3c_md.search.rescue`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from zlib import crc32

from m3c_md.exceptions import DegenerateSolutionError
from m3c_md.frames.windows import equally_spaced
from m3c_md.search import learning
from m3c_md.search.bandwidth_choice import plainest_first
from m3c_md.search.failures import Failure, all_failed, excused, failed_starts
from m3c_md.search.fate import FateKind
from m3c_md.search.journal import Journal, NoJournal
from m3c_md.search.metrics import LEARNED
from m3c_md.search.problem import FEW_COLUMNS, STANDARD, Kernel, SearchProblem
from m3c_md.search.rescue import TIGHTER_BALANCE, held_trials, outdone, tighter_trials
from m3c_md.search.rungs import STREAMED, rung_sizes
from m3c_md.search.selection import (
    Candidate,
    by_score,
    choose,
    nothing_left,
    now_better,
    ranked,
    unpolished,
)
from m3c_md.search.steps import (
    TRIAL_GAP,
    Judged,
    SearchOptions,
    least_squares_of_kernel,
    optimise_kernel,
    polish_winner,
)
from m3c_md.search.trials import (
    MOST_SCOUTS,
    MOST_SWEPT,
    TRIALS_AT_ONCE,
    Start,
    Trials,
    by_kernel,
    continued,
    first_trials,
    promising,
    scouting,
    sweep,
)
from m3c_md.workers import deaf_workers

Report = Callable[[float], object]

# Where no more than this share of some trials keep their states, others that promise less are not tried.
MOSTLY_LOST = 0.25
# Beyond this number of states trials become fewer in proportion: each takes as much longer.
MANY_STATES = 3
# Candidates that may lose a state at full accuracy before it is taken that all of them would.
MOST_POLISHED = 3


class Search:
    """One search for the best rule: run it once.

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
        # First trials, starts as least squares judges them, and candidates that have come to their end, best first.
        self._first: Trials = {}
        self._judged: Judged = []
        self._ended: list[Candidate] = []

    def run(self) -> list[Candidate]:
        """Run all candidates and return them, the winner first, then by how far they came and by score.

        Raises
        ------
        DegenerateSolutionError
            If every candidate leaves some state without frames.
        SolverError, InputError
            If a solver failed on every candidate that might have won.
        """
        found = self._scouted_and_swept()
        self.report(0.7)
        helped = False
        if self._in_need(found):
            found, helped = found + self._rescued(), True
        if not found:
            raise all_failed(self.failures)
        winner = self._finished(found)
        if winner is None and not helped:
            winner = self._finished(self._rescued())
        if winner is None:
            if any(c.fate.kind is FateKind.FAILED for c in self._ended):
                raise all_failed(self.failures)
            besides = f" Besides, {'; '.join(failed_starts(self.failures))}." if self.failures else ""
            raise DegenerateSolutionError(f"{nothing_left(self._ended, self.problem.settings)}{besides}")
        self.report(1.0)
        # Starts that came no further than least squares in a metric of their own are of no use to anyone.
        return [winner, *(c for c in self._ended if c.optimum.iterations or not c.metric.startswith(LEARNED))]

    def report(self, share: float) -> None:
        """Tell which share of the work is done; help that comes late does not undo what was done."""
        self._share = max(self._share, share)
        self._report(self._share)

    def _scouted_and_swept(self) -> list[Candidate]:
        """Candidates on the first sample."""
        problem, options, n_windows = self.problem, self.options, self.sizes[0][0]
        scouts = scouting(self.bandwidths) if options.halving else self.bandwidths
        rarer = options.selection != "objective"
        kernels = [
            Kernel(bandwidth, metric)
            for metric in problem.metrics
            for bandwidth in (scouts if metric == STANDARD or not options.halving else scouts[-1:])
        ]
        trials = first_trials(problem, kernels, self.starts, n_windows, options.seed, self.failures, rarer=rarer)
        self._first = trials
        if not options.halving:
            return self._optimised(trials, n_windows, "all", 0.05, 0.7)
        self._judged = self._by_least_squares(trials)
        if options.learn and len(problem.scale) > FEW_COLUMNS:
            self._learn_by_least_squares()
        found = self._tried(self._judged, MOST_SCOUTS, "scouts", 0.05, 0.5)
        if not self._some_may_win(found):
            return found
        if len(scouts) < len(self.bandwidths):
            most = self._most_swept(found)
            found += self._judged_and_tried(sweep(problem, found, self.bandwidths), most, "sweep", 0.5, 0.6)
        return found + self._learned(found) if options.learn else found

    def _learn_by_least_squares(self) -> None:
        """Let starts learn metrics, make new starts in what they have learned, and let these learn, too."""
        bandwidths, options, n_windows = self.bandwidths, self.options, self.sizes[0][0]
        judge = self._by_least_squares_in
        self.problem, pupils = learning.taught(
            self.problem, self._judged, learning.MOST_TAUGHT, bandwidths, options, judge
        )
        self._judged += pupils
        self.problem, trials = learning.fresh_starts(
            self.problem, self._judged, self.starts, bandwidths, n_windows, options, self.failures
        )
        fresh = self._by_least_squares(trials)
        self.problem, pupils = learning.taught(self.problem, fresh, learning.TAUGHT_AGAIN, bandwidths, options, judge)
        self._judged += fresh + pupils

    def _learned(self, found: list[Candidate]) -> list[Candidate]:
        """Candidates in metrics learned from the best one, again and again while that helps, then in the plain one."""
        more: list[Candidate] = []
        best = self._best_first(found)[0]
        for _ in range(learning.MOST_ROUNDS):
            if not self._some_may_win([best]):
                return more
            with excused(self.failures, best.bandwidth, best.start):
                self.problem, name = learning.with_learned(self.problem, best, self.options)
                trials = learning.continued_in(best, name, self.bandwidths)
                more += self._judged_and_tried(trials, learning.LEARNED_AT_ONCE, name, 0.6, 0.68)
            before, best = best, self._best_first(found + more)[0]
            if best.score > learning.WORTH_LEARNING * before.score:
                break
        if best.metric != STANDARD and STANDARD in self.problem.metrics:
            plain = learning.continued_in(best, STANDARD, self.bandwidths)
            more += self._judged_and_tried(plain, learning.PLAIN_AT_ONCE, "plain", 0.68, 0.7)
        return more

    def _judged_and_tried(self, trials: Trials, most: int, stage: str, begin: float, end: float) -> list[Candidate]:
        """Judge trials by least squares, and optimise those that promise something."""
        judged = self._by_least_squares(trials)
        self._judged += judged
        return self._tried(judged, most, stage, begin, end)

    def _most_swept(self, scouted: Sequence[Candidate]) -> int:
        """Number of trials at the other bandwidths: the fewer, the more scouts have lost a state.

        Fewer also where states are many and every trial is dear.
        """
        hope = sum(self._some_may_win([c]) for c in scouted) / len(scouted)
        affordable = min(1.0, MANY_STATES / self.problem.settings.n_states)
        return max(TRIALS_AT_ONCE, round(hope * affordable * MOST_SWEPT))

    def _tried(self, judged: Judged, most: int, stage: str, begin: float, end: float) -> list[Candidate]:
        """Optimise the trials that promise something, some at a time, until most of some lose a state."""
        if not judged:
            return []
        chosen = promising(self.problem, judged, self._judged, most)
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

    def _in_need(self, found: Sequence[Candidate]) -> bool:
        """Whether the best candidate has lost a state, or is clearly less metastable than a start was."""
        if not found or not self.options.halving:
            return False
        best = self._best_first(found)[0]
        return not self._some_may_win([best]) or outdone(self.problem, best, self._judged)

    def _rescued(self) -> list[Candidate]:
        """Candidates on the first sample whose labels are held, or closer to balance where they cannot be."""
        settings, n_windows = self.problem.settings, self.sizes[0][0]
        found: list[Candidate] = []
        self._judged = self._judged or self._by_least_squares(self._first)
        if len(self.problem.data.windows) > 1:  # single frames do not tell whether a start is metastable
            found = self._optimised(held_trials(self.problem, self._judged), n_windows, "held", 0.7, 0.72)
        for share in TIGHTER_BALANCE:
            if self._some_may_win(found):
                break
            closer = tighter_trials(settings, self._judged, share)
            found += self._optimised(closer, n_windows, f"balance {share}", 0.72, 0.74)
        return found

    def _ranked(self, some: Sequence[Candidate]) -> list[Candidate]:
        return (by_score if self.options.selection == "objective" else ranked)(self.problem, some)

    def _best_first(self, some: Sequence[Candidate]) -> list[Candidate]:
        """Candidates on the same windows, the winner as it stands first."""
        order = self._ranked(some)
        return order if self.options.selection == "objective" else plainest_first(self.problem, order)

    def _finished(self, candidates: list[Candidate]) -> Candidate | None:
        """Take the better candidates to larger samples and the best to all data; None if none keeps its states."""
        waiting = self._climbed(candidates)
        self.report(0.9)
        polished: list[Candidate] = []
        for _ in range(MOST_POLISHED):
            waiting = waiting or ([] if polished else self._dropped())
            if not waiting:
                break
            candidate, *waiting = waiting
            done: list[Candidate] = []
            with excused(self.failures, candidate.bandwidth, candidate.start):
                done.append(self._polished(candidate))
            if not done:
                self._end([candidate.ended(FateKind.FAILED, "at full accuracy")])
            elif not self._some_may_win(done):
                self._end([done[0].ended(FateKind.DEGENERATE, "at full accuracy")])
            else:
                polished += done
                better = now_better(candidate, done[0], waiting)
                if better is None:
                    break
                waiting = [better, *(c for c in waiting if c is not better)]
        order = self._ranked(polished)
        self._end([unpolished(c) for c in [*order[1:], *waiting]])
        return order[0].ended(FateKind.WINNER) if order else None

    def _dropped(self) -> list[Candidate]:
        """Take back those that were dropped, best first, where solvers failed on better ones."""
        if not any(c.fate.kind is FateKind.FAILED for c in self._ended):
            return []
        back = [c for c in self._ended if c.fate.kind is FateKind.DROPPED and self._some_may_win([c])]
        self._ended = [c for c in self._ended if not any(c is one for one in back)]
        # Those that met more windows first: scores of different samples do not compare.
        return sorted(self._ranked(back), key=lambda c: -c.n_windows)

    def _climbed(self, candidates: list[Candidate]) -> list[Candidate]:
        """Survivors of all samples, best first."""
        alive, out = choose(self.problem, self._best_first(candidates), self.sizes[0][1])
        self._end(out)
        for rung, (n_windows, n_keep) in enumerate(self.sizes[1:]):
            begin, end = (0.74 + 0.16 * (rung + i) / (len(self.sizes) - 1) for i in (0, 1))
            further = self._optimised(continued(alive), n_windows, f"{n_windows} windows", begin, end)
            arrived = {(c.start, c.kernel, c.held) for c in further}
            lost = [c for c in alive if (c.start, c.kernel, c.held) not in arrived]
            self._end([c.ended(FateKind.FAILED, f"{n_windows} windows") for c in lost])
            alive, out = choose(self.problem, self._best_first(further), n_keep)
            self._end(out)
        return alive

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

    def _polished(self, candidate: Candidate) -> Candidate:
        """Bring a candidate to full accuracy on all windows, if that is not in the journal."""
        # The labels of one start may have been changed in another metric, and then come with one kernel twice.
        labels = crc32(candidate.optimum.labels.tobytes())
        step = f"polished {candidate.start} {candidate.kernel}{' held' if candidate.held else ''} {labels}"
        before = self.journal.found(step)
        if before is not None:
            return before[0]
        polished = polish_winner(self.problem, candidate, self.options, STREAMED, self.report)
        self.journal.keep(step, [polished])
        return polished
