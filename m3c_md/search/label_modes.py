"""What a search does with the labels of a candidate: it changes them, or it holds them as the start had them.

Labels are held where every local search loses a state (`m3c_md.search.rescue`). All that follows from it is here: what
rules are fitted to and how, what the score is, and which data the winner meets. Trials and candidates only say which
of the two they are by ``held``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.optimize.blocks import Blocks, Rule
from m3c_md.search.local_search import LocalOptimum, SearchSettings, fit_to_labels, local_search
from m3c_md.search.scores import Selection, score

# Where all features are in memory, this gap is wanted of a winner, or the one asked for, whichever is smaller.
IN_MEMORY_GAP = 1e-3


@dataclass(frozen=True)
class Effort:
    """How far an optimisation goes.

    Attributes
    ----------
    gap, wanted : float
        Relative duality gap at the end, and a smaller one that is tried for.
    max_iterations : int, optional
        Rounds of a candidate that is only being tried out.
    give_up : bool
        Whether to end as soon as a state is lost for good.
    """

    gap: float
    wanted: float = np.inf
    max_iterations: int | None = None
    give_up: bool = False


class SearchedLabels:
    """Labels that the local search changes."""

    held = False
    # Whether the winner is improved by looks at all the data, where these do not fit in memory.
    meets_all_data = True
    # Whether states of a handful of windows count as much as other rare ones: any rule tells them apart, so a search
    # had better not look for them.
    lifts_fully = False

    def fitted(self, blocks: Blocks) -> Blocks:
        """What rules are fitted to: all slices of the windows."""
        return blocks

    def lifts_rare_states(self, selection: Selection) -> bool:
        """Whether rare states count more where rules are fitted."""
        return selection != "objective"

    def wanted_gap(self, gap: float) -> float:
        """Gap to try for in a winner of which ``gap`` is asked."""
        return min(gap, IN_MEMORY_GAP)

    def optimum(
        self, blocks: Blocks, labels: IntArray, settings: SearchSettings, start: Rule, smoothing: float, effort: Effort
    ) -> LocalOptimum:
        """End of a local search."""
        return local_search(
            blocks,
            labels,
            settings,
            start=start,
            smoothing=smoothing,
            gap=effort.gap,
            wanted=effort.wanted,
            max_iterations=effort.max_iterations,
            give_up=effort.give_up,
        )

    def score(
        self,
        losses: FloatArray,
        weights: FloatArray,
        optimum: LocalOptimum,
        settings: SearchSettings,
        selection: Selection,
        metastability: float,
    ) -> float:
        """What selection minimises: a loss."""
        return score(losses, weights, optimum, settings, selection)


class HeldLabels:
    """Labels that stay as the start had them: only a rule is fitted to them."""

    held = True
    # A rule for labels that are held is no better for more windows than the last sample has.
    meets_all_data = False
    # A state that was given is to be told apart, however few its windows.
    lifts_fully = True

    def fitted(self, blocks: Blocks) -> Blocks:
        """What rules are fitted to: single frames.

        A window may leave its state, and where most do, a rule fitted to windows would give states up. That is not
        wanted where labels have been chosen already.
        """
        return [replace(block, windows=block.windows[:1]) for block in blocks]

    def lifts_rare_states(self, selection: Selection) -> bool:
        """Whether rare states count more where rules are fitted: labels cannot be lost, but frames of a state can."""
        return selection != "objective"

    def wanted_gap(self, gap: float) -> float:
        """Gap to try for in a winner of which ``gap`` is asked: more accuracy would be of no use."""
        return gap

    def optimum(
        self, blocks: Blocks, labels: IntArray, settings: SearchSettings, start: Rule, smoothing: float, effort: Effort
    ) -> LocalOptimum:
        """The best rule for the labels."""
        trial = effort.max_iterations is not None
        return fit_to_labels(blocks, labels, settings, start=start, smoothing=smoothing, gap=effort.gap, trial=trial)

    def score(
        self,
        losses: FloatArray,
        weights: FloatArray,
        optimum: LocalOptimum,
        settings: SearchSettings,
        selection: Selection,
        metastability: float,
    ) -> float:
        """What selection minimises: how much is missing of states that are never left.

        Labels that a start gave, not the search, have objectives that do not tell which start was right.
        """
        return settings.n_states - metastability


LabelMode = SearchedLabels | HeldLabels
SEARCHED, HELD = SearchedLabels(), HeldLabels()


def label_mode(held: bool) -> LabelMode:
    """Mode of a trial or candidate."""
    return HELD if held else SEARCHED
