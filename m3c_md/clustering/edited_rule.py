"""States that users merge and split: what comes of it is a model like any other."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.clustering.archive import Contents
from m3c_md.clustering.edits import (
    Edit,
    Merge,
    Split,
    contents_of_edits,
    gradients_of_rule,
    scores_of_rule,
    stored_edits,
)
from m3c_md.clustering.score_relevance import exchange_shares, score_directions, weights_by_state
from m3c_md.clustering.state_estimator import callers, quietly_fitted
from m3c_md.clustering.state_model import StateModel, falling
from m3c_md.clustering.visits import few_visits_notes, visits_of
from m3c_md.exceptions import InputError, ModelFileError, UnrelatedPairWarning
from m3c_md.frames.windows import equally_spaced
from m3c_md.inputs.dataset import Dataset
from m3c_md.inputs.settings import check_integer
from m3c_md.inputs.state_names import default_names, joined_names, split_names, state_number
from m3c_md.optimize.blocks import Rule
from m3c_md.optimize.feature_map import FourierMap
from m3c_md.optimize.quick_states import states_of_rule
from m3c_md.search.rungs import STREAMED

if TYPE_CHECKING:
    from m3c_md.clustering.state_estimator import StateEstimator

# Frames from which the relevance of columns to edited states is computed, as after a fit.
DESCRIBED_FRAMES = 1000


class EditedRule(StateModel):
    """A rule, and what was done to its states: their scores are those of the rule, changed by one edit after the other.

    Attributes
    ----------
    edits : tuple of Merge and Split
        In the order in which they were made; none after a fit. See `m3c_md.clustering.edits` for the scores.
    """

    feature_map: FourierMap
    rule: Rule
    sensitivity: FloatArray
    spread: FloatArray
    shares: FloatArray
    edits: tuple[Edit, ...] = ()
    # Whether relevance and slow directions are those of the states as they are now.
    _described: bool = True

    def merge(self, groups: Any, trajs: Any = None) -> Self:
        """Return a model in which some states are one; this model does not change.

        The score of merged states is the largest of theirs: labels are those of this model with other numbers, other
        borders stay where they are, and ``margin`` is the lead over the states that are left. ``candidates``,
        ``objective`` and ``gap`` remain those of the fit, and ``alternative(0)`` has its states.

        Parameters
        ----------
        groups : sequence
            New states in their order: a state (number or name), or several that become one. States that are not in it
            follow as they are.
        trajs : array or list of arrays, optional
            Trajectories to count ``visits`` in and to compute ``relevance`` from; a merged model has neither without.

        Examples
        --------
        >>> import numpy as np
        >>> from m3c_md import M3C
        >>> x = np.repeat([-2.0, 0.0, 2.0, 0.0] * 20, 20) + 0.2 * np.random.default_rng(0).normal(size=1600)
        >>> model = M3C(3, bandwidth=1.0, starts=("kinetic",), random_state=0).fit_fetch(x)
        >>> merged = model.merge([[0, 2], 1])
        >>> merged.n_states, bool((merged.transform(x) == (model.transform(x) == 1)).all())
        (2, True)
        """
        members = _checked_groups(groups, self.state_names)
        numbers = np.empty(self.n_states, dtype=np.intp)
        for new, some in enumerate(members):
            numbers[some] = new
        edit = Merge(numbers)
        shares = np.array([self.populations[some].sum() for some in members])
        other = self._with_edit(edit, shares, joined_names(self.state_names, members))
        if trajs is not None:
            other._look_at(self._dataset(trajs))
        return other

    def split(self, state: Any, n: int, trajs: Any, *, random_state: Any = None, **settings: Any) -> Self:
        """Return a model in which a state is split into ``n`` parts; this model does not change.

        A rule is fitted within the state, to the transition pairs that begin in it (20,000 of them at most), with a
        kernel and a metric of its own. The part that this rule gives a frame has the score that the state had, and the
        others have less by their distance from it in the scores of that rule: no border of the state moves, and `merge`
        of the parts gives back the labels and margins of this model.

        Parameters
        ----------
        state : int or str
            Number or name. The largest part keeps the number, the others come after all states.
        n : int
            Number of parts.
        trajs : array or list of arrays
            Trajectories.
        random_state : None, int or numpy.random.Generator
        **settings
            Of the estimator, `M3C` or `MMC`, e.g. ``lagtime=10``.

        Examples
        --------
        >>> import numpy as np
        >>> from m3c_md import M3C
        >>> cycle = [-2.0, -2.0, -1.0] * 3 + [3.0] * 3
        >>> x = np.repeat(cycle * 12, 10) + 0.1 * np.random.default_rng(0).normal(size=1440)
        >>> quick = {"bandwidth": 1.0, "starts": ("kinetic",), "random_state": 0}
        >>> model = M3C(2, **quick).fit_fetch(x)
        >>> parts = model.split(0, 2, x, **quick)
        >>> parts.populations.round(2).tolist(), parts.transform([[-2.0], [-1.0], [3.0]]).tolist()
        ([0.5, 0.25, 0.25], [0, 2, 1])
        """
        number = state_number(self.state_names, state)
        estimator = self._estimator_within(check_integer("n", n, 2), random_state, settings)
        lag = estimator._lag()
        dataset = self._dataset(trajs)
        inside = [x == number for x in self._of_trajectories(dataset, self._labels)]
        starts = [np.flatnonzero(x[: max(0, len(x) - lag)]) for x in inside]
        if sum(map(len, starts)) == 0:
            raise InputError(
                f"state={state!r:.60} has no {'transition pair' if lag else 'frame'} in trajs; give others"
            )
        starts = _thinned(starts, STREAMED)
        frames = _frames_of(dataset, starts)
        fitted, notes = quietly_fitted(
            estimator, (frames, _frames_of(dataset, [x + lag for x in starts])) if lag else frames
        )
        edit, parts = _ordered_split(dataset, inside, Split(number, self.n_states, fitted.feature_map, fitted.rule))
        shares = np.append(self.populations, np.zeros(edit.n_parts - 1))
        shares[edit.parts()] = self.populations[number] * parts
        other = self._with_edit(edit, shares, split_names(self.state_names, number, edit.n_parts))
        other._look_at(dataset)
        assert other._visits is not None
        # That the pairs are pairs is known.
        notes = [note for note in notes if note[1] is not UnrelatedPairWarning] + few_visits_notes(other._visits)
        other.warnings += [message for message, _ in notes]
        for message, category in notes:
            warnings.warn(message, category, stacklevel=callers() + 1)
        return other

    def _estimator_within(self, n: int, random_state: Any, settings: dict[str, Any]) -> StateEstimator | Any:
        """Estimator of the parts of a state, its settings checked."""
        raise NotImplementedError

    def _with_edit(self, edit: Edit, populations: FloatArray, names: list[str]) -> Self:
        """Model after one more edit, of which visits and relevance are not known."""
        other = copy.copy(self)
        other.edits = (*self.edits, edit)
        other.populations, other.state_names = populations, names
        other.warnings = list(self.warnings)
        other._visits, other._described = None, False
        return other

    def _look_at(self, dataset: Dataset) -> None:
        """Count visits, and compute what columns matter to the states as they are now."""
        labels = self._of_trajectories(dataset, self._labels)
        self._visits = visits_of(labels, self.n_states)
        places = _thinned([np.arange(n) for n in dataset.lengths], DESCRIBED_FRAMES)
        frames = _frames_of(dataset, places)
        self.shares = exchange_shares(self._scores, frames)
        weights = weights_by_state(self._scores(frames))
        self.sensitivity = score_directions(self._gradients(frames), weights, self.spread)
        self._described = True

    def _scores(self, frames: FloatArray) -> FloatArray:
        scores = scores_of_rule(self.feature_map, self.rule, frames)
        for edit in self.edits:
            scores = edit.scores(frames, scores)
        return scores

    def _parts(self, frames: FloatArray) -> tuple[FloatArray, IntArray]:
        """Scores before states were merged at last, (n_frames, n_parts), and the state that every part is in now.

        A frame between two parts of one state is far from all borders, however small its lead over other states: these
        are its third choice. The scores of the states do not tell that.
        """
        n_kept = len(self.edits)
        while n_kept and isinstance(self.edits[n_kept - 1], Merge):
            n_kept -= 1
        scores = scores_of_rule(self.feature_map, self.rule, frames)
        for edit in self.edits[:n_kept]:
            scores = edit.scores(frames, scores)
        numbers = np.arange(scores.shape[1])
        for merge in self.edits[n_kept:]:
            numbers = merge.states(frames, numbers)
        return scores, numbers

    def _states(self, frames: FloatArray) -> NDArray[np.intp]:
        states = states_of_rule(self.feature_map, self.rule, frames)
        for edit in self.edits:
            states = edit.states(frames, states)
        return states

    def _gradients(self, frames: FloatArray) -> FloatArray:
        """Derivatives of the scores of all states with respect to the columns, (n_frames, n_states, n_columns)."""
        scores = scores_of_rule(self.feature_map, self.rule, frames)
        gradients = gradients_of_rule(self.feature_map, self.rule, frames)
        for edit in self.edits:
            gradients = edit.gradients(frames, scores, gradients)
            scores = edit.scores(frames, scores)
        return gradients

    def _feature_maps(self) -> list[FourierMap]:
        """Feature maps of the rule and of those within its states."""
        return [self.feature_map, *(edit.feature_map for edit in self.edits if isinstance(edit, Split))]

    def _check_described(self, what: str) -> None:
        """Refuse what is not known about states that were merged without data."""
        if not self._described:
            raise InputError(
                f"{what} was computed for the states before they were merged; give merge the trajectories, "
                "model.merge(groups, trajs), or ask the model before"
            )

    def _edit_contents(self) -> Contents:
        """Entries of a model file on edits; none if there are none."""
        contents = contents_of_edits(self.edits)
        if self.edits:
            contents.settings["described"] = self._described
            contents.arrays["edited_populations"] = self.populations
        return contents

    def _with_stored_edits(self, contents: Contents) -> None:
        """Take the edits that a model file holds, if it does."""
        self.edits = stored_edits(contents, self.n_states, self.n_columns)
        if self.edits:
            described = contents.settings.get("described")
            if not isinstance(described, bool):
                raise ModelFileError("its setting 'described' is not true or false")
            self._described = described
            self.populations = contents.shares("edited_populations", self.edits[-1].n_after)
            self.state_names = default_names(self.n_states)


def _checked_groups(groups: Any, names: Sequence[str]) -> list[list[int]]:
    """States that become one, by number, for every state afterwards."""
    if isinstance(groups, str | bytes | dict) or not hasattr(groups, "__iter__"):
        raise InputError(f"groups={groups!r:.60} must be a list of states and of lists of states, e.g. [[0, 2], 1]")
    found: list[list[int]] = []
    for group in groups:
        single = isinstance(group, str) or not hasattr(group, "__iter__")
        found.append([state_number(names, state, "groups") for state in ([group] if single else group)])
    named = [state for group in found for state in group]
    for state in named:
        if named.count(state) > 1:
            raise InputError(f"groups={groups!r:.60} has state {names[state]!r} twice; name every state at most once")
    if not all(found):
        raise InputError(f"groups={groups!r:.60} has a group without a state; leave it out")
    found += [[state] for state in range(len(names)) if state not in named]
    if len(found) < 2:
        raise InputError(f"groups={groups!r:.60} would leave a single state; leave at least two")
    return found


def _thinned(places: Sequence[IntArray], most: int) -> list[IntArray]:
    """At most so many places of all trajectories, equally spaced."""
    sizes = np.array([len(x) for x in places])
    ends = np.cumsum(sizes)
    kept = equally_spaced(int(ends[-1]), most)
    numbers = np.searchsorted(ends, kept, side="right")
    return [x[kept[numbers == i] - (ends[i] - sizes[i])] for i, x in enumerate(places)]


def _frames_of(dataset: Dataset, places: Sequence[IntArray]) -> FloatArray:
    """Frames at some places of every trajectory, in rising order, read block by block."""
    found = []
    for number, wanted in enumerate(places):
        for begin, frames in dataset.blocks(number):
            here = wanted[(wanted >= begin) & (wanted < begin + len(frames))] - begin
            found.append(frames[here])
    return np.concatenate(found)


def _ordered_split(dataset: Dataset, inside: Sequence[NDArray[np.bool_]], edit: Split) -> tuple[Split, FloatArray]:
    """Split with its parts by falling number of frames, and their shares in the frames of the state."""
    counts = np.zeros(edit.n_parts)
    for number, own in enumerate(inside):
        for begin, frames in dataset.blocks(number):
            some = frames[own[begin : begin + len(frames)]]
            if len(some):
                states = states_of_rule(edit.feature_map, edit.rule, some)
                counts += np.bincount(states, minlength=edit.n_parts)
    order = falling(counts)
    rule = Rule(edit.rule.weights[order], edit.rule.bias[order])
    return replace(edit, rule=rule), np.asarray(counts[order] / counts.sum())
