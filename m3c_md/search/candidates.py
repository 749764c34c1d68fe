"""Candidates: one local optimum per start and bandwidth, judged on few windows first and on all at the end.

All starts are judged at some bandwidths on a small sample of windows, first by least squares; those that promise
something are optimised. The best clearly different decompositions that they lead to are then tried at all bandwidths;
the better of those go on to larger samples, warm started from where they stood (successive halving), and the last ones
to all the data. So the many candidates cost a fixed amount, a second or so, and only the last ones grow with the data.
Where all lose a state, a few starts whose labels are held take their place (`m3c_md.search.rescue`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from zlib import crc32

import numpy as np

from m3c_md.exceptions import DegenerateSolutionError
from m3c_md.search.exploration import Exploration
from m3c_md.search.failures import all_failed, excused, failed_starts
from m3c_md.search.fate import Fate, FateKind
from m3c_md.search.local_search import SearchSettings
from m3c_md.search.metrics import LEARNED
from m3c_md.search.repopulation import repopulated
from m3c_md.search.rescue import (
    TIGHTER_BALANCE,
    completed_trials,
    held_trials,
    labelled_trials,
    outdone,
    tighter_trials,
    trimmed_trials,
)
from m3c_md.search.rungs import STREAMED
from m3c_md.search.selection import (
    Candidate,
    Standing,
    choose,
    now_better,
    outlasts,
    same_decomposition,
    unpolished,
)
from m3c_md.search.steps import polish_winner
from m3c_md.search.trials import continued

# Candidates that may lose a state at full accuracy before it is taken that all of them would (of 130 systems of the
# soak the second kept its states in 2 of 13, a third in none of 6).
MOST_POLISHED = 2


class Search(Exploration):
    """One search for the best rule: run it once."""

    def run(self) -> list[Candidate]:
        """Run all candidates and return them, the winner first, then by how far they came and by score.

        Raises
        ------
        DegenerateSolutionError
            If every candidate leaves some state without frames.
        SolverError, InputError
            If a solver failed on every candidate that might have won.
        """
        found = self._explored()
        self.report(0.7)
        ways_out = self._rescued(found)
        if self._in_need(found):
            found = [*found, *next(ways_out)]
        if not found and self.failures:
            raise all_failed(self.failures)
        winner = self._finished(found)
        while winner is None and (rescued := next(ways_out, None)) is not None:
            winner = self._finished(rescued)
        aside, self._set_aside = self._set_aside, []
        if winner is None and aside:
            winner = self._finished(aside)
        else:
            self._end([unpolished(c) for c in aside])
        if winner is None and (safest := self._safest()):
            winner = self._finished(safest)
        if winner is None:
            winner = self._repopulated()
        if winner is None:
            if any(c.fate.kind is FateKind.FAILED for c in self._ended):
                raise all_failed(self.failures)
            besides = f" Besides, {'; '.join(failed_starts(self.failures))}." if self.failures else ""
            raise DegenerateSolutionError(f"{nothing_left(self._ended, self.problem.settings)}{besides}")
        self.report(1.0)
        # Starts that came no further than least squares in a metric of their own are of no use to anyone.
        return [winner, *(c for c in self._ended if c.optimum.iterations or not c.metric.startswith(LEARNED))]

    def _in_need(self, found: Sequence[Candidate]) -> bool:
        """Whether there is no candidate, or the best has lost a state or is less metastable than a start was."""
        if not self.options.halving:
            return False
        if not found:
            return bool(self._judged)
        best = self._best_first(found)[0]
        return not self._some_may_win([best]) or outdone(self.problem, best, self._judged)

    def _rescued(self, found: Sequence[Candidate]) -> Iterator[list[Candidate]]:
        """Candidates on the first sample whose labels are held, or closer to balance where they cannot be.

        What has lost a state has kept others, and what came further knows them better, so all that has ended counts.
        """
        n_windows, seed = self.sizes[0][0], self.options.seed
        self._judged = self._judged or self._by_least_squares(self._first)
        lost = [c for c in self._ended if c.fate.kind is FateKind.DEGENERATE]
        known = [*found, *lost, *(c for _, c in self._judged)]
        held: list[Candidate] = []
        if len(self.problem.data.windows) > 1:  # single frames do not tell whether a start is metastable
            # Where a rare state is at stake, small samples are of no use.
            most = self.sizes[-1][0]
            labelled = labelled_trials(self.problem, self._labels_of_starts(), self._judged, most)
            found_again = self._optimised(labelled, most, "labels", 0.7, 0.702)
            highest = max((c.metastability for _, c in self._judged), default=np.inf)
            if self._some_may_win([c for c in found_again if c.metastability > highest]):
                yield found_again
            else:
                self._end([c.ended(FateKind.DROPPED, "by its metastability") for c in found_again])
            trimmed = trimmed_trials(self.problem, known, n_windows)
            held += self._optimised(trimmed, n_windows, "trimmed", 0.702, 0.705)
            if self._some_may_win(held):
                yield held
                held = []
            held += self._optimised(held_trials(self.problem, self._judged), n_windows, "held", 0.705, 0.71)
            completed = completed_trials(self.problem, known, n_windows, seed)
            held += self._optimised(completed, n_windows, "completed", 0.71, 0.72)
        for share in TIGHTER_BALANCE:
            if self._some_may_win(held):
                break
            closer = tighter_trials(self.problem.settings, self._judged, share)
            held += self._optimised(closer, n_windows, f"balance {share}", 0.72, 0.74)
        yield held

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
                waiting = self._not_outlasted(waiting, done[0])
            else:
                polished += done
                better = now_better(candidate, done[0], waiting)
                if better is None:
                    break
                waiting = [better, *(c for c in waiting if c is not better)]
        order = self._ranked(polished)
        self._end([unpolished(c) for c in [*order[1:], *waiting]])
        return order[0].ended(FateKind.WINNER) if order else None

    def _not_outlasted(self, waiting: Sequence[Candidate], lost: Candidate) -> list[Candidate]:
        """Candidates that are left: those are set aside whose states are forgotten where those of the lost one last.

        What it has kept is then worth more, with a state of nothing, than they are.
        """
        outlasted = [outlasts(lost, c) for c in waiting]
        self._set_aside += [c for c, is_outlasted in zip(waiting, outlasted, strict=True) if is_outlasted]
        return [c for c, is_outlasted in zip(waiting, outlasted, strict=True) if not is_outlasted]

    def _safest(self) -> list[Candidate]:
        """Take back those that were not needed, of the largest rarest states, where better ones have lost a state."""
        left = [c for c in self._ended if c.fate.kind is FateKind.FINALIST and self._some_may_win([c])]
        safest = sorted(left, key=lambda c: -c.populations.min())[:MOST_POLISHED]
        self._ended = [c for c in self._ended if not any(c is one for one in safest)]
        return [replace(c, fate=Fate()) for c in safest]

    def _repopulated(self) -> Candidate | None:
        """The most metastable of some candidates that hold labels, with frames for every state, where all lost one."""
        held = [c for c in self._ended if c.held and c.fate.kind is FateKind.DEGENERATE]
        n_windows, selection = self.sizes[-1][0], self.options.selection
        found: list[Candidate] = []
        for candidate in sorted(held, key=lambda c: -c.metastability)[:MOST_POLISHED]:
            with excused(self.failures, candidate.bandwidth, candidate.start):
                raised = repopulated(self.problem, candidate, selection, n_windows)
                found += [raised] if raised is not None and self._some_may_win([raised]) else []
        order = self._ranked(found)
        self._end([unpolished(c) for c in order[1:]])
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
            if n_windows == self.sizes[-1][0] and self._is_decided(alive):
                break
            if all(c.n_windows >= n_windows for c in alive):
                continue
            begin, end = (0.74 + 0.16 * (rung + i) / (len(self.sizes) - 1) for i in (0, 1))
            further = self._optimised(continued(alive), n_windows, f"{n_windows} windows", begin, end)
            arrived = {(c.start, c.kernel, c.held) for c in further}
            lost = [c for c in alive if (c.start, c.kernel, c.held) not in arrived]
            self._end([c.ended(FateKind.FAILED, f"{n_windows} windows") for c in lost])
            alive, out = choose(self.problem, self._best_first(further), n_keep)
            self._end(out)
        return alive

    def _is_decided(self, alive: Sequence[Candidate]) -> bool:
        """Whether the last sample has nothing to decide: one decomposition, of states that are not rare, is left.

        The best candidate comes to as many windows in the end. A rare state has few in the samples before, which tell
        little about the bandwidth that it needs.
        """
        settings, n_windows = self.problem.settings, self.problem.n_windows
        return all(same_decomposition(c, alive[0]) and c.standing(settings, n_windows) == Standing.FINE for c in alive)

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


def nothing_left(ended: Sequence[Candidate], settings: SearchSettings) -> str:
    """Say what became of the best of the degenerate candidates, and what to do."""
    lost = [c for c in ended if c.fate.kind is FateKind.DEGENERATE] or ended
    best = min(lost, key=lambda c: c.score)
    state = int(np.argmin(best.populations))
    return (
        f"all {len(ended)} candidates are degenerate: they leave some state with fewer than "
        f"{settings.guard:.2%} of the frames. In the best one (start {best.start!r}, bandwidth "
        f"{best.bandwidth:.3g}) it is state {state} of {settings.n_states}, with {best.populations[state]:.2%}. "
        "Ask for fewer states, add starts, try other bandwidths, or lower balance[0] if a state is really that rare."
    )
