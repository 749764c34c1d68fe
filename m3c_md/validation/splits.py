"""Which trajectories a method is fitted to and on which others it is judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from m3c_md.exceptions import InputError
from m3c_md.inputs.dataset import Dataset, double_blocks

HashArray = NDArray[np.uint64]
BoolArray = NDArray[np.bool_]

# More trajectories than this are held out in groups: every group costs one fit of every method.
MAX_SPLITS = 5
# Fewer trajectories than this are cut into halves to choose settings by.
FEWEST_WHOLE = 4
# Name of the part of the training data that settings are chosen by.
INNER = "rest of the training data"
# Parts of a single trajectory, each of which judges the other.
HALVES = ("first half", "second half")
# Runs of 2^n frames that must be equal before trajectories are taken to overlap: of frames that occur once, of others.
SHORT_RUN, LONG_RUN = 2, 7


class Split(NamedTuple):
    """Trajectories to fit to, and groups of others to judge by, each with a name."""

    train: Dataset
    tests: dict[str, Dataset]


def long_trajectories(data: Dataset, lagtime: int, kind: str = "") -> tuple[Dataset, str]:
    """Trajectories that have a transition pair, and a message on the others.

    Examples
    --------
    >>> long_trajectories(Dataset.of([np.zeros((2, 1)), np.zeros((9, 1))]), 5)[1]
    '1 of 2 trajectories have no more than lagtime=5 frames: left out, and the others are numbered without them'
    """
    short = data.too_short(lagtime, kind)
    return data.long(lagtime), f"{short}: left out, and the others are numbered without them" if short else ""


class Overlap(NamedTuple):
    """Two trajectories that share frames, and the frame of the second where that begins."""

    first: int
    second: int
    frame: int


def groups(data: Dataset, what: str = "trajectory") -> dict[str, Dataset]:
    """Trajectories one by one, or in five groups if there are more, by name.

    Examples
    --------
    >>> groups(Dataset.of([np.zeros(n) for n in (3, 4, 5, 6, 7, 8)]))["trajectory 0, 5"].lengths
    [3, 8]
    """
    return {f"{what} {', '.join(map(str, group))}": data.chosen(group) for group in _members(len(data.lengths))}


def _members(n: int) -> list[list[int]]:
    step = min(n, MAX_SPLITS)
    # Every fifth, not neighbours: runs from one start often stand next to each other.
    return [list(range(group, n, step)) for group in range(step)]


def hold_out(data: Dataset, lagtime: int) -> list[Split]:
    """Hold out one trajectory at a time, groups of them if there are more than five, halves of a single one.

    Examples
    --------
    >>> x = np.arange(8.0)[:, None]
    >>> [list(split.tests) for split in hold_out(Dataset.of([x, x, x]), lagtime=1)]
    [['trajectory 0'], ['trajectory 1'], ['trajectory 2']]
    >>> [split.train.lengths for split in hold_out(Dataset.of(x), lagtime=1)]
    [[4], [4]]
    """
    n = len(data.lengths)
    if n == 1:
        return _halves(data, lagtime)
    trains = [data.chosen([i for i in range(n) if i not in held]) for held in _members(n)]
    return [Split(train, {name: test}) for train, (name, test) in zip(trains, groups(data).items(), strict=True)]


def _halves(data: Dataset, lagtime: int) -> list[Split]:
    """Halves of a single trajectory, each judged by the other."""
    middle = data.n_frames // 2
    if middle <= lagtime:
        raise InputError(
            f"a single trajectory of {data.n_frames} frames has no halves of more than lagtime={lagtime} frames; "
            "give a longer one, several, or test="
        )
    halves = data.cut([[middle]])
    first, second = halves.chosen([0]), halves.chosen([1])
    return [Split(first, {HALVES[1]: second}), Split(second, {HALVES[0]: first})]


def inner_split(train: Dataset, lagtime: int) -> Split | None:
    """Part of the training data to fit settings to, and the other part to choose among them by; None if too few.

    Of four trajectories or more it is every second one, of fewer the first and the second halves.

    Examples
    --------
    >>> x = np.zeros((8, 1))
    >>> inner_split(Dataset.of([x] * 5), 1).train.lengths, inner_split(Dataset.of([x]), 1).train.lengths
    ([8, 8, 8], [4])
    >>> inner_split(Dataset.of([x]), 4)
    """
    n = len(train.lengths)
    if n >= FEWEST_WHOLE:
        return Split(train.chosen(range(0, n, 2)), {INNER: train.chosen(range(1, n, 2))})
    long = [i for i, length in enumerate(train.lengths) if length // 2 > lagtime]
    if not long:
        return None
    halves = train.chosen(long).cut([[train.lengths[i] // 2] for i in long])
    n_halves = len(halves.lengths)
    return Split(halves.chosen(range(0, n_halves, 2)), {INNER: halves.chosen(range(1, n_halves, 2))})


def check_disjoint(train: Sequence[Any], test: Sequence[Any]) -> None:
    """Refuse test trajectories that share frames with the training data; see `find_overlap` for what is found."""
    found = find_overlap([*train, *test], [0] * len(train) + [1] * len(test))
    if found is not None:
        raise InputError(
            f"test trajectory {found.second - len(train)} has the same frames from frame {found.frame} on as training "
            f"trajectory {found.first}, so it cannot judge what was fitted to them; give other trajectories, leave "
            "test=None for held-out ones, or say allow_overlap=True"
        )


def check_repeated(trajectories: Sequence[Any]) -> None:
    """Refuse trajectories that share frames: held out, one of them could not judge a fit to the other."""
    found = find_overlap(trajectories, range(len(trajectories)))
    if found is not None:
        raise InputError(
            f"trajectory {found.second} has the same frames from frame {found.frame} on as trajectory {found.first}, "
            "so it cannot be held out to judge what was fitted to the other; give every frame once, or say "
            "allow_overlap=True"
        )


def find_overlap(trajectories: Sequence[Any], groups: Sequence[int]) -> Overlap | None:
    """First trajectory that shares a run of frames with an earlier one of another group.

    Frames are compared to the last bit, so rounded copies are not found. A run of 4 frames is enough if each occurs
    once in its trajectory, as continuous coordinates do. In data of few distinct frames (contacts, one-hot vectors)
    short runs are in all trajectories, and it takes a run of 128 frames in which the frame changes 10 times.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(20, 1))
    >>> find_overlap([x[:8], x[8:], x[6:10].copy()], [0, 0, 1])
    >>> find_overlap([x[:8], x[8:], x[3:10].copy()], [0, 0, 1])
    Overlap(first=0, second=2, frame=0)
    """
    lengths = [len(x) for x in trajectories]
    owner = np.repeat(np.arange(len(lengths)), lengths)
    frames = np.concatenate([_fingerprints(x) for x in trajectories])
    _, where, times = np.unique(_mixed(frames, owner.astype(np.uint64)), return_inverse=True, return_counts=True)
    changes = np.append(frames[1:] != frames[:-1], False)
    overlaps = [
        _shared_run(frames, owner, np.asarray(groups)[owner], n_doublings, telling, needed)
        for n_doublings, telling, needed in ((SHORT_RUN, times[where] == 1, 2**SHORT_RUN), (LONG_RUN, changes, 10))
    ]
    return min((found for found in overlaps if found is not None), key=lambda o: (o.second, o.frame), default=None)


def _shared_run(
    frames: HashArray, owner: NDArray[np.intp], group: NDArray[Any], n_doublings: int, telling: BoolArray, needed: int
) -> Overlap | None:
    """First run of 2^n_doublings frames, at least ``needed`` of them telling, that another group has as well."""
    width = 2**n_doublings
    if len(frames) < width:
        return None
    runs = frames
    for n in range(n_doublings):
        runs = _mixed(runs[: -(2**n)], runs[2**n :])
    n_telling = np.convolve(telling, np.ones(width, dtype=np.intp), mode="valid")
    starts = np.flatnonzero((owner[: len(runs)] == owner[width - 1 :]) & (n_telling >= needed))
    order = starts[np.argsort(runs[starts], kind="stable")]
    earlier, later = order[:-1], order[1:]
    shared = (runs[earlier] == runs[later]) & (group[earlier] != group[later])
    if not shared.any():
        return None
    best = np.argmin(np.where(shared, later, len(frames)))
    one, other = owner[earlier[best]], owner[later[best]]
    return Overlap(int(one), int(other), int(later[best] - np.searchsorted(owner, other)))


def _fingerprints(trajectory: Any) -> HashArray:
    """One number for every frame: equal for equal frames, and else by chance of 1 in 10^19 only."""
    totals = []
    for frames in double_blocks(trajectory):
        total = np.zeros(len(frames), dtype=np.uint64)
        for column in np.ascontiguousarray(frames.T + 0.0).view(np.uint64):  # + 0.0: minus zero is equal to zero
            total = _mixed(total, column)
        totals.append(total)
    return np.concatenate(totals)


def _mixed(first: HashArray, second: HashArray) -> HashArray:
    """Hash of pairs of numbers; order matters. Odd factors, so multiplication modulo 2^64 loses nothing."""
    mixed = (first + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(31)) ^ second) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(29)))
