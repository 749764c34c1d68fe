"""What users do to the states of a rule: some become one, one becomes several. The rule itself is not fitted again.

An edit turns the scores of the states before it into those of the states after it, so that any number of them follow
each other and the largest score decides as ever. The score of merged states is the largest of theirs, max_i f_i: frames
keep their borders to all other states, to the last bit, and the margin of a frame is its lead over the states that are
left (a smooth maximum would move borders, and labels with them). The parts of a state with the score f have the scores
f + g_j - max_l g_l, where g_j are the scores of a rule that was fitted within the state. The part that g takes has f
itself, so that the state has the borders that it had, the margin between two parts is that of g, and merging the parts
of a split gives back what was split, again to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.clustering.archive import Contents
from m3c_md.exceptions import ModelFileError
from m3c_md.optimize.blocks import Rule
from m3c_md.optimize.feature_map import FourierMap
from m3c_md.optimize.quick_states import states_of_rule


@dataclass(frozen=True)
class Merge:
    """Some states become one, with the largest of their scores.

    Attributes
    ----------
    numbers : (n_before,) array
        Number that every state has afterwards; each number from 0 on occurs.

    Examples
    --------
    >>> merge = Merge(np.array([0, 1, 0]))
    >>> merge.scores(np.zeros((1, 1)), np.array([[0.1, 0.2, 0.7]])).tolist()
    [[0.7, 0.2]]
    """

    numbers: IntArray

    @property
    def n_after(self) -> int:
        """Number of states afterwards."""
        return int(self.numbers.max()) + 1

    def scores(self, frames: FloatArray, before: FloatArray) -> FloatArray:
        """Scores of the states afterwards, (n_frames, n_after)."""
        del frames
        after = np.full((len(before), self.n_after), -np.inf)
        for old, new in enumerate(self.numbers):
            np.maximum(after[:, new], before[:, old], out=after[:, new])
        return after

    def states(self, frames: FloatArray, before: IntArray) -> IntArray:
        """State of frames afterwards, from their state before."""
        del frames
        return np.asarray(self.numbers[before])

    def gradients(self, frames: FloatArray, before: FloatArray, slopes: FloatArray) -> FloatArray:
        """Derivatives of the scores afterwards, from scores before and their derivatives (n_frames, n, n_columns)."""
        del frames
        after = np.empty((len(before), self.n_after, slopes.shape[2]))
        for new in range(self.n_after):
            members = np.flatnonzero(self.numbers == new)
            leader = members[before[:, members].argmax(axis=1)]
            after[:, new] = slopes[np.arange(len(before)), leader]
        return after


@dataclass(frozen=True)
class Split:
    """A state becomes several parts; the first keeps its number, the others follow after all states.

    Attributes
    ----------
    state : int
        Which one.
    n_before : int
        Number of states before.
    feature_map, rule : FourierMap, Rule
        Rule within the state. It has features of its own: the kernel and the metric of a rule see what tells its states
        apart, and may be blind to what is inside of one.
    """

    state: int
    n_before: int
    feature_map: FourierMap
    rule: Rule

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self.rule.bias)

    @property
    def n_after(self) -> int:
        """Number of states afterwards."""
        return self.n_before + self.n_parts - 1

    def parts(self) -> list[int]:
        """Numbers of the parts afterwards."""
        return [self.state, *range(self.n_before, self.n_after)]

    def scores(self, frames: FloatArray, before: FloatArray) -> FloatArray:
        """Scores of the states afterwards, (n_frames, n_after)."""
        within = scores_of_rule(self.feature_map, self.rule, frames)
        after = np.empty((len(before), self.n_after))
        after[:, : self.n_before] = before
        after[:, self.parts()] = before[:, [self.state]] + (within - within.max(axis=1, keepdims=True))
        return after

    def states(self, frames: FloatArray, before: IntArray) -> IntArray:
        """State of frames afterwards, from their state before."""
        after = before.copy()
        inside = np.flatnonzero(before == self.state)
        if len(inside):
            after[inside] = np.array(self.parts())[states_of_rule(self.feature_map, self.rule, frames[inside])]
        return after

    def gradients(self, frames: FloatArray, before: FloatArray, slopes: FloatArray) -> FloatArray:
        """Derivatives of the scores afterwards, from scores before and their derivatives (n_frames, n, n_columns)."""
        within = scores_of_rule(self.feature_map, self.rule, frames)
        changes = gradients_of_rule(self.feature_map, self.rule, frames)
        leader = changes[np.arange(len(frames)), within.argmax(axis=1)]
        after = np.empty((len(before), self.n_after, slopes.shape[2]))
        after[:, : self.n_before] = slopes
        after[:, self.parts()] = slopes[:, [self.state]] + changes - leader[:, None]
        return after


Edit = Merge | Split


def scores_of_rule(feature_map: FourierMap, rule: Rule, frames: FloatArray) -> FloatArray:
    """Scores of frames under a rule, (n_frames, n_states)."""
    return rule.scores(feature_map(frames)).T


def gradients_of_rule(feature_map: FourierMap, rule: Rule, frames: FloatArray) -> FloatArray:
    """Derivatives of the scores of a rule with respect to the columns, (n_frames, n_states, n_columns)."""
    sines = FourierMap(feature_map.frequencies, feature_map.phases - 0.5 * np.pi, feature_map.center)(frames)
    return np.stack([-(sines * weights) @ feature_map.frequencies.T for weights in rule.weights], axis=1)


@dataclass(frozen=True)
class Origin:
    """Where the score of a state comes from: the largest score of some rows of one rule.

    Attributes
    ----------
    rule : int
        Number of the edit whose rule it is; -1 for the rule that was fitted first.
    rows : tuple of int
    """

    rule: int
    rows: tuple[int, ...]


def origins(n_rows: int, edits: Sequence[Edit]) -> list[Origin | None]:
    """Origin of every state after all edits; None if its score is made of several rules.

    Examples
    --------
    >>> [origin.rows for origin in origins(3, [Merge(np.array([0, 1, 0]))])]
    [(0, 2), (1,)]
    """
    found: list[Origin | None] = [Origin(-1, (row,)) for row in range(n_rows)]
    whole: dict[Origin, Origin | None] = {}  # all parts of a split are what was split
    for number, edit in enumerate(edits):
        if isinstance(edit, Split):
            parts = [Origin(number, (row,)) for row in range(edit.n_parts)]
            whole[Origin(number, tuple(range(edit.n_parts)))] = found[edit.state]
            found = [*found, *parts[1:]]
            found[edit.state] = parts[0]
        else:
            groups = [[found[old] for old in np.flatnonzero(edit.numbers == new)] for new in range(edit.n_after)]
            found = [_joined_origin(group, whole) for group in groups]
    return found


def _joined_origin(group: Sequence[Origin | None], whole: dict[Origin, Origin | None]) -> Origin | None:
    """Origin of merged states."""
    known = [origin for origin in group if origin is not None]
    if len(known) < len(group):
        return None
    by_rule: dict[int, set[int]] = {}
    for origin in known:
        by_rule.setdefault(origin.rule, set()).update(origin.rows)
    joined = [Origin(rule, tuple(sorted(rows))) for rule, rows in by_rule.items()]
    replaced = [whole.get(origin, origin) for origin in joined]
    if replaced != joined:
        return _joined_origin(replaced, whole)
    return joined[0] if len(joined) == 1 else None


def contents_of_edits(edits: Sequence[Edit]) -> Contents:
    """Entries of a model file on edits; none if there are none."""
    if not edits:
        return Contents({}, {})
    arrays: dict[str, NDArray[Any]] = {}
    for number, edit in enumerate(edits):
        if isinstance(edit, Merge):
            arrays[f"edit_{number}_numbers"] = edit.numbers
        else:
            feature_map = edit.feature_map
            for name, array in (
                *(("state", np.array([edit.state])), ("weights", edit.rule.weights), ("bias", edit.rule.bias)),
                *(("frequencies", feature_map.frequencies), ("phases", feature_map.phases)),
                *(("center", feature_map.center),),
            ):
                arrays[f"edit_{number}_{name}"] = array
    return Contents({"n_edits": len(edits)}, arrays)


def stored_edits(contents: Contents, n_states: int, n_columns: int) -> tuple[Edit, ...]:
    """Edits that a model file holds, of a rule with so many states and columns."""
    edits: list[Edit] = []
    for number in range(contents.number("n_edits", 0, len(contents.arrays)) if "n_edits" in contents.settings else 0):
        edit: Edit
        if f"edit_{number}_numbers" in contents.arrays:
            edit = Merge(contents.indices(f"edit_{number}_numbers", n_states, below=n_states).astype(np.intp))
            if len(np.unique(edit.numbers)) < max(edit.n_after, 2):
                raise ModelFileError(f"the array 'edit_{number}_numbers' leaves a number out, or one state alone")
        else:
            edit = _stored_split(contents, f"edit_{number}_", n_states, n_columns)
        edits.append(edit)
        n_states = edit.n_after
    return tuple(edits)


def _stored_split(contents: Contents, prefix: str, n_states: int, n_columns: int) -> Split:
    weights, phases = contents.array(f"{prefix}weights", None, None), contents.array(f"{prefix}phases", None)
    if weights.shape[1] != len(phases) or len(weights) < 2:
        raise ModelFileError(
            f"the array '{prefix}weights' has shape {weights.shape}, but there are {len(phases)} phases"
        )
    frequencies = contents.array(f"{prefix}frequencies", n_columns, len(phases))
    state = int(contents.indices(f"{prefix}state", 1, below=n_states)[0])
    feature_map = FourierMap(frequencies, phases, contents.array(f"{prefix}center", n_columns))
    return Split(state, n_states, feature_map, Rule(weights, contents.array(f"{prefix}bias", len(weights))))
