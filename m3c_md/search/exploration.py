"""Exploration: all that a search tries on the first sample.

Two kinds of starts know most: the slow coordinates of the features, and lumpings of fine cells. They are made first,
with few kernels. Where both lead to the same decomposition, and no other looks better, that is where the search goes
on. Where they do not, all starts meet all kernels, learn metrics, and new ones are made in what they have learned.
"""

from __future__ import annotations

from collections.abc import Sequence

from m3c_md.arrays import IntArray
from m3c_md.search import learning
from m3c_md.search.failures import excused
from m3c_md.search.metrics import with_slow_directions
from m3c_md.search.problem import FEW_COLUMNS, STANDARD, Kernel
from m3c_md.search.runner import Runner
from m3c_md.search.selection import Candidate, is_poor, same_solution
from m3c_md.search.trials import (
    KNOWING_STARTS,
    MOST_SCOUTS,
    MOST_SWEPT,
    TRIALS_AT_ONCE,
    Trials,
    agreed,
    first_trials,
    labels_of_start,
    scouting,
    sweep,
    trial_name,
)

# Beyond this number of states trials become fewer in proportion: each takes as much longer.
MANY_STATES = 3
# Starts that need not be made where these agree: geometry knows nothing about time.
SUPERFLUOUS_STARTS = ("kmeans",)
# Metrics in which they are judged first, and how many of those that there are: slow directions at a longer lag time
# tell states from noise best where columns are many.
KNOWING_METRICS = ("late", "kinetic", STANDARD)
N_KNOWING_METRICS = 2
# Where the least-squares rule of the best start costs more than this, the start that knows most about a kernel is made
# for kernels narrower by an octave, which is so many steps of the list, too, as long as each lowers the cost of the one
# before it by this factor (320 random systems: 5 % more time, Q higher by .02 in the mean, by up to 4 in some).
POOR_START = 0.4
OF_ONE_KERNEL = "kinetic"
OCTAVE = 2
WORTH_NARROWING = 0.9
# Up to so many columns noise that hides states is not looked for: it took a fifth more time and found no better states.
VERY_FEW_COLUMNS = 4


class Exploration(Runner):
    """The part of a search that looks at the first sample only."""

    def _explored(self) -> list[Candidate]:
        """Candidates on the first sample."""
        self._labels: dict[int, list[IntArray]] = {}
        self._first: Trials = {}
        if not self.options.halving:
            kernels = [Kernel(bandwidth, metric) for metric in self.problem.metrics for bandwidth in self.bandwidths]
            self._first = self._trials(kernels, range(len(self.starts)))
            return self._optimised(self._first, self.sizes[0][0], "all", 0.05, 0.7)
        found = self._of_starts_that_agree()
        agreed = self._some_may_win(found)
        if not agreed:
            found = found + self._of_all_starts()
        if not self._some_may_win(found):
            return found
        # Where starts agree, metrics that are learned meet other bandwidths soon enough.
        if len(scouting(self.bandwidths)) < len(self.bandwidths) and not (agreed and self.options.learn):
            most_swept = TRIALS_AT_ONCE if agreed else self._most_swept(found)
            trials = sweep(self.problem, found, self.bandwidths)
            found += self._judged_and_tried(trials, most_swept, "sweep", 0.5, 0.6)
        return found + self._learned(found) if self.options.learn else found

    def _trials(self, kernels: Sequence[Kernel], starts: Sequence[int]) -> Trials:
        """First trials of some starts, by their numbers, with some kernels; labels are made once for all kernels."""
        options = self.options
        for number in starts:
            start = self.starts[number]
            if number not in self._labels:
                with excused(self.failures, None, start if isinstance(start, str) else "labels"):
                    self._labels[number] = labels_of_start(self.problem, start, options.seed)
        named = [(number, self.starts[number], self._labels.get(number, [])) for number in starts]
        rarer = options.selection != "objective"
        return first_trials(self.problem, kernels, named, self.sizes[0][0], options.seed, self.failures, rarer=rarer)

    def _labels_of_starts(self) -> list[tuple[str, IntArray]]:
        """Labels of all windows by starts that are the same for all kernels, with the names of their trials."""
        return [
            (trial_name(self.starts[number], number, place), labels)
            for number, given in self._labels.items()
            for place, labels in enumerate(given)
        ]

    def _scouting_kernels(self) -> list[Kernel]:
        """Kernels with which starts are judged first: several bandwidths in scaled columns, one in other metrics."""
        scouts = scouting(self.bandwidths)
        return [
            Kernel(bandwidth, metric)
            for metric in self.problem.metrics
            for bandwidth in (scouts if metric == STANDARD else scouts[-1:])
        ]

    def _of_starts_that_agree(self) -> list[Candidate]:
        """Candidates of the starts that know most, if they lead to the same decomposition; none otherwise.

        None either where there are starts beside those that they make superfluous: whoever adds one wants it tried.
        """
        names = [start if isinstance(start, str) else "labels" for start in self.starts]
        if not set(KNOWING_STARTS) <= set(names) <= {*KNOWING_STARTS, *SUPERFLUOUS_STARTS}:
            return []
        numbers = [number for number, name in enumerate(names) if name in KNOWING_STARTS]
        metrics = [m for m in KNOWING_METRICS if m in self.problem.metrics][:N_KNOWING_METRICS]
        kernels = [Kernel(scouting(self.bandwidths)[-1], metric) for metric in metrics]
        if not kernels:
            return []
        self._judged = self._by_least_squares(self._trials(kernels, numbers))
        together = agreed(self.problem, self._judged, KNOWING_STARTS)
        if not together:
            return []
        if self.options.learn and len(self.problem.scale) > FEW_COLUMNS:
            self.problem, pupils = learning.taught(
                self.problem, together[:1], 1, self.bandwidths, self.options, self._by_least_squares_in
            )
            together, self._judged = together + pupils, self._judged + pupils
        return self._tried(together, TRIALS_AT_ONCE, "agreed", 0.05, 0.3)

    def _of_all_starts(self) -> list[Candidate]:
        """Candidates of all starts with all kernels of scouting, and in metrics that starts have learned."""
        before, kernels = self._judged, self._scouting_kernels()
        known = {c.kernel for _, c in before}
        others = [n for n, start in enumerate(self.starts) if not (known and str(start) in KNOWING_STARTS)]
        numbers = range(len(self.starts))
        judged = self._by_least_squares(self._trials([k for k in kernels if k not in known], numbers))
        judged += self._by_least_squares(self._trials([k for k in kernels if k in known], others))
        self._judged = before + judged
        many = len(self.problem.scale) > FEW_COLUMNS
        noisy = self.options.seek_slow and self._noise_may_hide_states()
        if noisy:
            self._judge_in_slow_directions()
        if self._judged and self._best_judged().score > POOR_START:
            self._judge_in_narrower_kernels()
        if self.options.learn and (many or noisy):
            self._learn_by_least_squares()
        return self._tried(self._judged, MOST_SCOUTS, "scouts", 0.05, 0.5)

    def _best_judged(self) -> Candidate:
        return min((c for _, c in self._judged), key=lambda c: c.score)

    def _noise_may_hide_states(self) -> bool:
        """Whether slow directions that were left out at first may help.

        Of few columns some may be slow noise if the best start is metastable, but its states are not apart. Where
        windows are few, many columns tell any labels apart along such directions, so all else must have come to nothing
        (181 random systems of few windows: accuracy +.06, Q +.4 in the mean; labelled sequences never come here).
        """
        if not self._judged or len(self.problem.scale) <= VERY_FEW_COLUMNS:
            return False
        best = self._best_judged()
        if self.problem.moments is None:
            return best.learned_nothing
        few = len(self.problem.scale) <= FEW_COLUMNS
        return few and best.score > POOR_START and not is_poor(best, self.problem.settings.n_states)

    def _judge_in_slow_directions(self) -> None:
        """Make starts in slow directions, as where columns are many."""
        before = set(self.problem.metrics)
        self.problem = with_slow_directions(self.problem, self.options.kind, self.options.seed)
        self._labels.clear()
        new = [metric for metric in self.problem.metrics if metric not in before]
        kernels = [Kernel(scouting(self.bandwidths)[-1], metric) for metric in new]
        self._judged += self._by_least_squares(self._trials(kernels, range(len(self.starts))))

    def _judge_in_narrower_kernels(self) -> None:
        """Judge slow coordinates of narrower and narrower kernels, while that helps.

        Many states in a row lie closer together than the kernels of scouting can tell.
        """
        numbers = [number for number, start in enumerate(self.starts) if str(start) == OF_ONE_KERNEL]
        for metric in KNOWING_METRICS:
            best = min((c for _, c in self._judged if c.metric == metric), key=lambda c: c.score, default=None)
            while numbers and best is not None and best.score > POOR_START:
                place = self.bandwidths.index(best.bandwidth) - OCTAVE
                kernel = Kernel(self.bandwidths[max(place, 0)], metric)
                if any(c.kernel == kernel for _, c in self._judged):
                    break
                judged = self._by_least_squares(self._trials([kernel], numbers))
                self._judged += judged
                now = min((c for _, c in judged), key=lambda c: c.score, default=best)
                best = now if now.score <= WORTH_NARROWING * best.score else None

    def _learn_by_least_squares(self) -> None:
        """Let starts learn metrics, make new starts in what they have learned, and let these learn, too."""
        bandwidths, options, n_windows = self.bandwidths, self.options, self.sizes[0][0]
        judged_in = self._by_least_squares_in
        self.problem, pupils = learning.taught(
            self.problem, self._judged, learning.MOST_TAUGHT, bandwidths, options, judged_in
        )
        self._judged += pupils
        self.problem, trials = learning.fresh_starts(
            self.problem, self._judged, self.starts, bandwidths, n_windows, options, self.failures
        )
        fresh = self._by_least_squares(trials)
        self.problem, pupils = learning.taught(
            self.problem, fresh, learning.TAUGHT_AGAIN, bandwidths, options, judged_in
        )
        self._judged += fresh + pupils

    def _learned(self, found: list[Candidate]) -> list[Candidate]:
        """Candidates in metrics learned from the best one, again and again while that helps, then in the plain one."""
        more: list[Candidate] = []
        best = self._best_first(found)[0]
        few = len(self.problem.scale) <= FEW_COLUMNS
        for _ in range(learning.ROUNDS_OF_FEW_COLUMNS if few else learning.MOST_ROUNDS):
            if not self._some_may_win([best]):
                return more
            with excused(self.failures, best.bandwidth, best.start):
                self.problem, name = learning.with_learned(self.problem, best, self.options)
                near = [b for b in self.bandwidths if learning.is_near(b, best.bandwidth)]
                trials = learning.continued_in(best, name, near)
                more += self._judged_and_tried(trials, learning.LEARNED_AT_ONCE, name, 0.6, 0.68)
            before, best = best, self._best_first(found + more)[0]
            if best.score > learning.WORTH_LEARNING * before.score or same_solution(best, before):
                break
        if best.metric != STANDARD and STANDARD in self.problem.metrics:
            near = [b for b in self.bandwidths if learning.is_near(b, best.bandwidth)]
            plain = learning.continued_in(best, STANDARD, near)
            more += self._judged_and_tried(plain, learning.PLAIN_AT_ONCE, "plain", 0.68, 0.7)
        return more

    def _most_swept(self, scouted: Sequence[Candidate]) -> int:
        """Number of trials at the other bandwidths: the fewer, the more scouts have lost a state.

        Fewer also where states are many and every trial is dear.
        """
        hope = sum(self._some_may_win([c]) for c in scouted) / len(scouted)
        affordable = min(1.0, MANY_STATES / self.problem.settings.n_states)
        return max(TRIALS_AT_ONCE, round(hope * affordable * MOST_SWEPT))
