"""Training and test data: every trajectory held out once, never judged by a fit to itself, no overlap unnoticed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from m3c_md.exceptions import InputError
from m3c_md.inputs.dataset import Dataset
from m3c_md.validation.splits import (
    MAX_SPLITS,
    Split,
    check_disjoint,
    check_repeated,
    find_overlap,
    groups,
    hold_out,
    long_trajectories,
)

Frames = NDArray[np.float64]


def walk(n_frames: int, seed: int, n_columns: int = 2) -> Frames:
    return np.cumsum(np.random.default_rng(seed).normal(size=(n_frames, n_columns)), axis=0)


def refused(train: list[Frames], test: list[Frames]) -> bool:
    try:
        check_disjoint(train, test)
    except InputError:
        return True
    return False


def held_out(split: Split) -> list[Frames]:
    return [x for some in split.tests.values() for x in some.trajectories]


def among(x: Frames, trajectories: list[Frames]) -> bool:
    return any(x is y for y in trajectories)


class TestHoldOut:
    @pytest.mark.parametrize("n", [2, 3, 5, 6, 7, 11, 23])
    def test_each_trajectory_is_held_out_once_and_absent_from_that_fit(self, n: int) -> None:
        trajectories = [walk(10, seed) for seed in range(n)]
        splits = hold_out(Dataset.of(trajectories), 1)
        assert len(splits) == min(n, MAX_SPLITS)
        for x in trajectories:
            assert sum(among(x, held_out(split)) for split in splits) == 1
            for split in splits:
                assert among(x, held_out(split)) != among(x, split.train.trajectories)
        sizes = [len(held_out(split)) for split in splits]
        assert max(sizes) - min(sizes) <= 1

    def test_names_tell_who_is_held_out(self) -> None:
        trajectories = [walk(10, seed) for seed in range(7)]
        for split in hold_out(Dataset.of(trajectories), 1):
            ((name, some),) = split.tests.items()
            numbers = [int(word) for word in name.removeprefix("trajectory ").split(", ")]
            assert all(x is trajectories[i] for x, i in zip(some.trajectories, numbers, strict=True))

    def test_few_trajectories_are_held_out_one_by_one(self) -> None:
        found = groups(Dataset.of([walk(n, 0) for n in (3, 4, 5)]), "test trajectory")
        lengths = {name: some.lengths for name, some in found.items()}
        assert lengths == {"test trajectory 0": [3], "test trajectory 1": [4], "test trajectory 2": [5]}

    @pytest.mark.parametrize("n_frames", [4, 5, 10, 11])
    def test_halves_of_a_single_one_are_contiguous_and_swap_roles(self, n_frames: int) -> None:
        x = walk(n_frames, 0)
        first, second = hold_out(Dataset.of([x]), 1)
        halves = [*first.train.trajectories, *first.tests["second half"].trajectories]
        np.testing.assert_array_equal(np.concatenate(halves), x)
        assert first.train is second.tests["first half"]
        assert second.train is first.tests["second half"]
        assert abs(first.train.n_frames - second.train.n_frames) <= 1

    @pytest.mark.parametrize(("n_frames", "lagtime"), [(2, 1), (3, 1), (11, 5), (1, 1)])
    def test_halves_without_a_transition_are_refused(self, n_frames: int, lagtime: int) -> None:
        with pytest.raises(InputError, match=rf"single trajectory of {n_frames} frames .*lagtime={lagtime}.*give"):
            hold_out(Dataset.of([walk(n_frames, 0)]), lagtime)

    @pytest.mark.parametrize(("n_frames", "lagtime"), [(4, 1), (12, 5)])
    def test_halves_of_one_transition_are_enough(self, n_frames: int, lagtime: int) -> None:
        assert len(hold_out(Dataset.of([walk(n_frames, 0)]), lagtime)) == 2


class TestLongTrajectories:
    def test_those_without_a_pair_are_left_out_with_a_message(self) -> None:
        data = [walk(n, n) for n in (5, 6, 7)]
        kept, message = long_trajectories(Dataset.of(data), 5, "test ")
        assert [x is y for x, y in zip(kept.trajectories, data[1:], strict=True)] == [True, True]
        assert "1 of 3 test trajectories have no more than lagtime=5 frames" in message

    def test_silent_if_all_are_long(self) -> None:
        assert long_trajectories(Dataset.of([walk(6, 0)]), 5)[1] == ""

    def test_one_must_be_long(self) -> None:
        with pytest.raises(InputError, match="the longest has 5"):
            long_trajectories(Dataset.of([walk(5, 0), walk(2, 0)]), 5)


X, Y = walk(200, 0), walk(150, 1)
ONE_HOT = np.eye(3)[np.cumsum(np.random.default_rng(3).random(1000) < 0.1) % 3]

OVERLAPPING: dict[str, tuple[list[Frames], list[Frames]]] = {
    "the same array": ([X, Y], [Y]),
    "a copy": ([X, Y], [Y.copy()]),
    "a slice": ([X, Y], [X[50:60]]),
    "a slice of four frames": ([X], [X[7:11].copy()]),
    "a shifted slice that begins before the training data": ([X[20:]], [X[:30].copy()]),
    "the end of one": ([X], [np.concatenate([walk(50, 9), X[-5:]])]),
    "the first of several": ([X, Y], [walk(60, 5), X[:70].copy()]),
    "Fortran order": ([X], [np.asfortranarray(X)]),
    "reversed columns of a reversed view": ([X[:, ::-1]], [X[:, ::-1].copy()]),
    "minus zeros": ([np.where(X > 0.0, X, 0.0)], [np.where(X > 0.0, X, -0.0)]),
    "training data given twice": ([X, X], [X]),
    "one column": ([X[:, :1]], [X[:, :1].copy()]),
    "frames of few kinds": ([ONE_HOT], [ONE_HOT.copy()]),
    "a slice of frames of few kinds": ([ONE_HOT], [ONE_HOT[300:700].copy()]),
}

# Not overlapping, or beyond what is looked for (see find_overlap).
ACCEPTED: dict[str, tuple[list[Frames], list[Frames]]] = {
    "others": ([X, Y], [walk(100, 7)]),
    "the next part of the same trajectory": ([X[:100]], [X[100:]]),
    "three frames": ([X], [X[:3].copy()]),
    "a single frame in common": ([X], [np.vstack([X[3:4], walk(50, 4)])]),
    "every second frame": ([X[::2]], [X[1::2]]),
    "rounded to single precision": ([X], [X.astype(np.float32).astype(np.float64)]),
    "the same columns in another order": ([X], [X[:, ::-1].copy()]),
    "backwards": ([X], [X[::-1].copy()]),
    "short ones": ([walk(3, 1), walk(2, 2)], [walk(2, 3), walk(1, 4), walk(4, 5)]),
    "constant": ([np.zeros((300, 2))], [np.zeros((300, 2))]),
}


class TestOverlap:
    @pytest.mark.parametrize("name", OVERLAPPING)
    def test_found(self, name: str) -> None:
        with pytest.raises(InputError, match=r"test trajectory \d+ has the same frames from frame \d+ .*allow_overlap"):
            check_disjoint(*OVERLAPPING[name])

    @pytest.mark.parametrize("name", ACCEPTED)
    def test_accepted(self, name: str) -> None:
        check_disjoint(*ACCEPTED[name])

    def test_the_message_names_both_trajectories_and_the_frame(self) -> None:
        test = [walk(30, 8), np.concatenate([walk(17, 9), Y[5:25]])]
        with pytest.raises(InputError, match=r"test trajectory 1 .* from frame 17 on as training trajectory 1"):
            check_disjoint([X, Y], test)

    def test_training_trajectories_may_repeat_if_the_test_is_another(self) -> None:
        check_disjoint([X, X], [Y, Y])

    @pytest.mark.parametrize(
        "make",
        [
            lambda rng: rng.integers(0, 5, size=(400, 1)),
            lambda rng: np.eye(3)[np.cumsum(rng.random(2000) < 0.05) % 3],
            lambda rng: np.cumsum(rng.integers(0, 2, size=(500, 1)) * 2 - 1, axis=0),
            lambda rng: np.repeat(rng.integers(0, 3, 60), 10)[:, None],
            lambda rng: np.cumsum(rng.normal(size=(3000, 1)), axis=0).round(1),
            lambda rng: (rng.random((300, 4)) < 0.2).astype(float),
        ],
        ids=["integers", "one-hot", "lattice walk", "steps", "rounded", "contacts"],
    )
    def test_no_false_alarm_where_frames_and_runs_recur(
        self, make: Callable[[np.random.Generator], NDArray[np.float64]]
    ) -> None:
        rng = np.random.default_rng(0)
        for _ in range(5):
            assert not refused([make(rng) * 1.0, make(rng) * 1.0], [make(rng) * 1.0])

    @given(
        st.lists(st.integers(1, 40), min_size=1, max_size=4),
        st.integers(0, 10_000),
        st.integers(0, 40),
        st.integers(1, 12),
    )
    @settings(deadline=None, max_examples=60, derandomize=True)
    def test_a_common_run_is_found_if_and_only_if_it_has_four_frames(
        self, lengths: list[int], seed: int, start: int, n_common: int
    ) -> None:
        train = [walk(n, seed + i) for i, n in enumerate(lengths)]
        common = train[-1][start : start + n_common]
        test = [walk(5, seed + 50), np.concatenate([walk(3, seed + 51), common, walk(2, seed + 52)])]
        found = find_overlap([*train, *test], [0] * len(train) + [1, 1])
        expected = (len(train) - 1, len(train) + 1, 3) if len(common) >= 4 else None
        assert found == expected

    def test_nothing_is_changed(self) -> None:
        frozen = X.copy()
        frozen.flags.writeable = False
        check_disjoint([frozen], [Y])
        np.testing.assert_array_equal(frozen, X)


class TestRepeated:
    def test_a_trajectory_given_twice_cannot_be_held_out(self) -> None:
        with pytest.raises(
            InputError, match=r"trajectory 2 has the same frames from frame 0 on as trajectory 0, .*once"
        ):
            check_repeated([X, Y, X.copy()])

    def test_overlapping_pieces(self) -> None:
        with pytest.raises(InputError, match=r"trajectory 1 has the same frames from frame 0 on as trajectory 0"):
            check_repeated([X[:110], X[100:]])

    def test_pieces_and_single_ones_pass(self) -> None:
        check_repeated([X[:100], X[100:], Y])
        check_repeated([X])
