"""Which trajectories a method is fitted to and on which others it is judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from m3c_md.exceptions import InputError

FloatArray = NDArray[np.float64]

# More trajectories than this are held out in groups: every group costs one fit of every method.
MAX_SPLITS = 5
# Frames in a row that must be equal before test and training data are taken to overlap.
RUN = 5


class Split(NamedTuple):
    """Trajectories to fit to, and groups of others to judge by, each with a name."""

    train: list[FloatArray]
    tests: dict[str, list[FloatArray]]


def groups(trajectories: Sequence[FloatArray], what: str = "trajectory") -> dict[str, list[int]]:
    """Trajectories one by one, or in five groups if there are more, as indices by name.

    Examples
    --------
    >>> groups([np.zeros(3)] * 6)["trajectory 0, 5"]
    [0, 5]
    """
    n = len(trajectories)
    step = min(n, MAX_SPLITS)
    # Every fifth, not neighbours: runs from one start often stand next to each other.
    members = [list(range(group, n, step)) for group in range(step)]
    return {f"{what} {', '.join(map(str, group))}": group for group in members}


def hold_out(trajectories: Sequence[FloatArray], lagtime: int) -> list[Split]:
    """Hold out one trajectory at a time, groups of them if there are more than five, halves of a single one.

    Examples
    --------
    >>> x = np.arange(8.0)[:, None]
    >>> [list(split.tests) for split in hold_out([x, x, x], lagtime=1)]
    [['trajectory 0'], ['trajectory 1'], ['trajectory 2']]
    >>> [len(split.train[0]) for split in hold_out([x], lagtime=1)]
    [4, 4]
    """
    if len(trajectories) == 1:
        return _halves(trajectories[0], lagtime)
    return [
        Split([x for i, x in enumerate(trajectories) if i not in held], {name: [trajectories[i] for i in held]})
        for name, held in groups(trajectories).items()
    ]


def _halves(trajectory: FloatArray, lagtime: int) -> list[Split]:
    middle = len(trajectory) // 2
    if middle <= lagtime:
        raise InputError(
            f"a single trajectory of {len(trajectory)} frames has no halves of more than lagtime={lagtime} frames; "
            "give a longer one, several, or test="
        )
    first, second = [trajectory[:middle]], [trajectory[middle:]]
    return [Split(first, {"second half": second}), Split(second, {"first half": first})]


def check_disjoint(train: Sequence[FloatArray], test: Sequence[FloatArray]) -> None:
    """Refuse test trajectories of which some frames in a row are in the training data as well."""
    frames = np.concatenate([*train, *test]) + 0.0  # no negative zeros, which are equal but have other bytes
    rows = np.ascontiguousarray(frames).view(np.dtype((np.void, frames.itemsize * frames.shape[1]))).ravel()
    numbers = np.unique(rows, return_inverse=True)[1]
    lengths = [len(x) for x in (*train, *test)]
    parts = np.split(numbers, np.cumsum(lengths)[:-1])
    known = np.concatenate([_runs(part) for part in parts[: len(train)]])
    for i, part in enumerate(parts[len(train) :]):
        found = np.flatnonzero(np.isin(_runs(part), known))
        if len(found):
            raise InputError(
                f"test trajectory {i} has the same frames from frame {found[0]} on as the training data, so it cannot "
                "judge what was fitted to them; give other trajectories, leave test=None for held-out ones, or say "
                "allow_overlap=True"
            )


def _runs(numbers: NDArray[np.intp]) -> NDArray[np.uint64]:
    """One number for every few frames in a row: equal for equal runs, and else by chance of 1 in 10^19 only."""
    width = min(RUN, len(numbers))
    values = numbers.astype(np.uint64) + np.uint64(1)
    total = np.zeros(len(numbers) - width + 1, dtype=np.uint64)
    factor = np.uint64(0x9E3779B97F4A7C15)  # odd, so multiplication modulo 2^64 loses nothing
    for i in range(width):
        mixed = (values[i : i + len(total)] ^ (values[i : i + len(total)] << np.uint64(29))) * factor
        total = (total ^ (total >> np.uint64(31))) * factor + mixed
    return total
