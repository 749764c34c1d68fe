"""How often training trajectories entered, left and visited each state: what its population and its rates rest on.

Counts are over consecutive frames, whatever the lag time. A large data set is counted block by block: of a block only
its sums are kept, and the trajectories that reach beyond it are joined when the next block comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from m3c_md.clustering.archive import Contents
from m3c_md.clustering.training_data import Note
from m3c_md.exceptions import FewVisitsWarning, ModelFileError
from m3c_md.frames.source import FrameBlock, Source
from m3c_md.frames.windows import WindowSet

if TYPE_CHECKING:
    import pandas as pd

CountArray = NDArray[np.int64]

# A rate from n events has a relative error of about 1 / sqrt(n): a third at this number.
FEW_ENTRIES = 10
# States that one warning names.
MOST_NAMED = 8
# In place of a count that cannot be known.
UNKNOWN = -1
# Rows of `VisitCounts.counts`.
FRAMES, VISITS, ENTERED, LEFT, TRAJECTORIES, MOST = range(6)


class HasStates(Protocol):
    """Whatever gives frames their states."""

    @property
    def n_states(self) -> int:
        """Number of states."""

    def _states(self, frames: NDArray[np.float64]) -> NDArray[np.intp]:
        """State of some frames."""


@dataclass(frozen=True)
class VisitCounts:
    """Counts of every state.

    Attributes
    ----------
    counts : (6, n_states) array
        Frames, visits, times entered and left, trajectories, and the frames of the trajectory that has most of them;
        -1 where it is not known.
    n_trajectories : int
        Number of all trajectories; 0 if it is not known.
    """

    counts: CountArray
    n_trajectories: int

    def table(self) -> pd.DataFrame:
        """Counts as a table with one row per state."""
        import pandas as pd

        frames, most = self.counts[FRAMES], self.counts[MOST]
        share = np.full(len(frames), np.nan)
        np.divide(most, frames, out=share, where=(frames > 0) & (most != UNKNOWN))
        return pd.DataFrame(
            {
                "frames": frames,
                "visits": _maybe_missing(self.counts[VISITS]),
                "entered": self.counts[ENTERED],
                "left": self.counts[LEFT],
                "trajectories": _maybe_missing(self.counts[TRAJECTORIES]),
                "largest_share": share,
            },
            index=pd.RangeIndex(len(frames), name="state"),
        )


def _maybe_missing(counts: CountArray) -> Any:
    import pandas as pd

    return pd.array([pd.NA if count == UNKNOWN else count for count in counts.tolist()], dtype="Int64")


def visits_of(dtrajs: Sequence[NDArray[np.integer]], n_states: int) -> VisitCounts:
    """Count the visits of state trajectories.

    Parameters
    ----------
    dtrajs : sequence of (n_frames,) int arrays
        State of every frame, trajectory by trajectory.
    n_states : int

    Examples
    --------
    >>> table = visits_of([np.array([0, 0, 1, 0]), np.array([1, 1, 1])], 2).table()
    >>> table.loc[1].to_dict()
    {'frames': 4.0, 'visits': 2.0, 'entered': 1.0, 'left': 1.0, 'trajectories': 2.0, 'largest_share': 0.75}
    """
    numbers = np.repeat(np.arange(len(dtrajs)), [len(x) for x in dtrajs])
    return joined([stays_of(np.concatenate(dtrajs), numbers, n_states)], n_states)


def visits_of_pairs(first: NDArray[np.integer], second: NDArray[np.integer], n_states: int) -> VisitCounts:
    """Count what can be counted of states and those one lag time later; visits and trajectories are not known.

    Examples
    --------
    >>> visits_of_pairs(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).counts.tolist()
    [[2, 1], [-1, -1], [0, 1], [1, 0], [-1, -1], [-1, -1]]
    """
    counts = np.full((6, n_states), UNKNOWN, dtype=np.int64)
    moved = first != second
    for row, states in ((FRAMES, first), (ENTERED, second[moved]), (LEFT, first[moved])):
        counts[row] = np.bincount(states, minlength=n_states)
    return VisitCounts(counts, 0)


def visits_of_windows(model: Any, windows: WindowSet) -> VisitCounts:
    """Visits of frames in memory under a model that can ``transform`` them."""
    states: NDArray[np.int32] = model.transform(windows.frames)
    if not windows.lengths:
        first, second = np.split(states, 2)
        return visits_of_pairs(first, second, model.n_states)
    return visits_of(np.split(states, np.cumsum(windows.lengths)[:-1]), model.n_states)


def visits_of_source(model: HasStates, source: Source) -> VisitCounts:
    """Visits of all data of a source, by one look at each block."""
    return joined(source.map(stays_of_block, model), model.n_states)


class Stays(NamedTuple):
    """What consecutive frames of one or several trajectories say; the first and the last may reach beyond them.

    Attributes
    ----------
    sums : (6, n_states) array
        As in `VisitCounts`, but visits are those that begin with a trajectory, and these, trajectories and their most
        frames are counted without the first trajectory and the last.
    ends : (1 or 2, n_states) array
        Frames of the first and the last trajectory; one row if they are the same.
    numbers, states : (int, int)
        Number of the first and the last trajectory, and state of the first and the last frame.
    n_between : int
        Number of trajectories between the first and the last.
    """

    sums: CountArray
    ends: CountArray
    numbers: tuple[int, int]
    states: tuple[int, int]
    n_between: int


def stays_of(states: NDArray[np.integer], numbers: NDArray[np.integer], n_states: int) -> Stays:
    """Count the stays of frames one after the other; ``numbers`` are those of their trajectories."""
    begins = np.flatnonzero(np.diff(numbers, prepend=-1))
    moved = np.flatnonzero(states[1:] != states[:-1]) + 1
    moved = moved[numbers[moved] == numbers[moved - 1]]
    # Frames by trajectory and state.
    place = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(states)))
    frames = np.bincount(place * n_states + states, minlength=len(begins) * n_states).reshape(-1, n_states)
    sums = np.zeros((6, n_states), dtype=np.int64)
    sums[FRAMES] = frames.sum(axis=0)
    sums[VISITS] = np.bincount(states[begins[1:]], minlength=n_states)
    sums[ENTERED] = np.bincount(states[moved], minlength=n_states)
    sums[LEFT] = np.bincount(states[moved - 1], minlength=n_states)
    between = frames[1:-1]
    sums[TRAJECTORIES] = np.count_nonzero(between, axis=0)
    sums[MOST] = between.max(axis=0, initial=0)
    return Stays(
        sums,
        frames[[0, -1]] if len(frames) > 1 else frames,
        (int(numbers[0]), int(numbers[-1])),
        (int(states[0]), int(states[-1])),
        len(between),
    )


def stays_of_block(block: FrameBlock, model: HasStates) -> Stays:
    """Stays of the frames that are counted in a block and in no other."""
    reach = (len(block.frames) - block.windows.shape[1]) // len(block.pieces)
    lengths = [piece.n_windows + (reach if piece.ends else 0) for piece in block.pieces]
    numbers = np.repeat([piece.trajectory for piece in block.pieces], lengths)
    frames = np.asarray(block.frames[block.own], dtype=np.float64)
    return stays_of(model._states(frames), numbers, model.n_states)


def joined(parts: Iterable[Stays], n_states: int) -> VisitCounts:
    """Join the stays of consecutive parts; a trajectory may reach over several of them."""
    total = np.zeros((6, n_states), dtype=np.int64)
    n_trajectories = 0
    number, last, frames = -1, -1, np.zeros(n_states, dtype=np.int64)  # the trajectory that may go on

    def end_trajectory() -> None:
        total[TRAJECTORIES] += frames > 0
        np.maximum(total[MOST], frames, out=total[MOST])

    for part in parts:
        head, tail = part.ends[0], part.ends[-1]
        if part.numbers[0] != number:
            end_trajectory()
            frames = np.zeros(n_states, dtype=np.int64)
            total[VISITS, part.states[0]] += 1
            n_trajectories += 1
        elif part.states[0] != last:
            total[ENTERED, part.states[0]] += 1
            total[LEFT, last] += 1
        frames = frames + head
        if len(part.ends) > 1:
            end_trajectory()
            frames = tail
            n_trajectories += part.n_between + 1
        total[:MOST] += part.sums[:MOST]
        np.maximum(total[MOST], part.sums[MOST], out=total[MOST])
        number, last = part.numbers[1], part.states[1]
    end_trajectory()
    # A visit begins with a trajectory or with an entry.
    total[VISITS] += total[ENTERED]
    return VisitCounts(total, n_trajectories)


def few_visits_notes(visits: VisitCounts) -> list[Note]:
    """Say so if states were hardly entered, or by one of several trajectories alone; those without frames are not ours.

    Examples
    --------
    >>> visits = visits_of([np.repeat([0, 1], 50)], 2)
    >>> few_visits_notes(visits)[0][0].partition(":")[0]
    'state 0 was never entered, state 1 was entered once'
    """
    frames, _, entered, _, trajectories, _ = visits.counts
    lonely = (trajectories == 1) & (visits.n_trajectories > 1)
    few = np.flatnonzero(((entered < FEW_ENTRIES) | lonely) & (frames > 0)).tolist()
    if not few:
        return []
    told = [f"state {state} was {entered_times(int(entered[state]))}{_by(visits, state)}" for state in few[:MOST_NAMED]]
    rest = f" and {len(few) - MOST_NAMED} more states hardly more often" if len(few) > MOST_NAMED else ""
    its, it, are = (
        ("its", "it", "population and rates are") if len(few) == 1 else ("their", "them", "populations and rates are")
    )
    message = (
        f"{', '.join(told)}{rest}: {its} {are} hardly known; add trajectories that enter {it}, or ask for fewer states"
    )
    return [(message, FewVisitsWarning)]


def entered_times(n: int) -> str:
    """How often a state was entered, in words."""
    return {0: "never entered", 1: "entered once"}.get(n, f"entered {n} times")


def _by(visits: VisitCounts, state: int) -> str:
    if visits.n_trajectories < 2:
        return ""
    return f" and visited by {visits.counts[TRAJECTORIES, state]} of {visits.n_trajectories} trajectories"


def stored_visits(contents: Contents, n_states: int) -> VisitCounts | None:
    """Visits that a model file holds; None for files of alternatives, and of versions that did not count them."""
    if "visits" not in contents.arrays:
        return None
    counts = contents.array("visits", 6, n_states, kind="i")
    if counts.min() < UNKNOWN or counts[[FRAMES, ENTERED, LEFT]].min() < 0:
        raise ModelFileError("the array 'visits' has entries that are no counts")
    return VisitCounts(counts, contents.number("n_trajectories", 0))
