"""A data set: what is left where it is, what is read and how often, which trajectories count at a lag time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from m3c_md.exceptions import InputError
from m3c_md.inputs import dataset as module
from m3c_md.inputs.dataset import Dataset, double_blocks
from m3c_md.inputs.lengths import check_longest, too_short, window_counts

few_examples = settings(deadline=None, max_examples=30, derandomize=True)


@pytest.fixture
def mapped(tmp_path: Path) -> NDArray[np.float32]:
    """A memory map of single precision."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32))
    values: NDArray[np.float32] = np.load(tmp_path / "x.npy", mmap_mode="r")
    return values


class TestMaking:
    def test_what_can_be_sliced_is_left_as_it_is(self, mapped: NDArray[np.float32]) -> None:
        integers = np.zeros((3, 2), dtype=np.int16)
        given = [mapped, integers]
        found = Dataset.of(given)
        assert all(ours is theirs for ours, theirs in zip(found.trajectories, given, strict=True))
        assert found.ready == [False, False]
        assert Dataset.of(mapped).trajectories[0] is mapped

    def test_nothing_is_read(self) -> None:
        class Unreadable:
            shape, dtype = (10**9, 3), np.dtype("float32")

            def __getitem__(self, key: Any) -> Any:
                raise AssertionError("read")

            def __len__(self) -> int:
                return self.shape[0]

        found = Dataset.of([Unreadable(), Unreadable()])
        assert (found.n_frames, found.n_columns, found.n_windows(5)) == (2 * 10**9, 3, 2 * 10**9 - 10)

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (np.zeros((2, 2, 2)), "shape"),
            (np.zeros((0, 2)), "nothing in it"),
            (np.array(["a", "b"]), "dtype"),
            ([np.zeros((3, 2)), np.zeros((3, 1))], "trajectory 1 has 1 columns, but trajectory 0 has 2"),
            ([], "empty list"),
            (None, "None"),
            ("file.xtc", "file.xtc"),
            (np.ma.masked_array([1.0, 2.0]), "masked"),
        ],
    )
    def test_what_cannot_be_used_is_named(self, data: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            Dataset.of(data)

    def test_lists_and_tables_become_arrays_at_once(self) -> None:
        table = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
        for data, shape in ((table, (2, 2)), ([[0.0, 1.0], [2.0, 3.0]], (2, 2)), ([1.0, 2.0], (2, 1))):
            found = Dataset.of(data)
            assert found.trajectories[0].shape == shape
            assert found.ready == [True]
            assert not found.several
        assert Dataset.of([table]).columns == ["a", "b"]

    def test_arrays_of_other_packages_are_read_by_numpy(self) -> None:
        class Tensor:
            shape, dtype = (2, 1), "float32 of another package"

            def __getitem__(self, key: Any) -> Any:
                raise AssertionError("sliced")

            def __len__(self) -> int:
                return self.shape[0]

            def __array__(self, *_: Any, **__: Any) -> NDArray[np.float32]:
                return np.zeros(self.shape, dtype=np.float32)

        assert Dataset.of(Tensor()).trajectories[0].dtype == np.float64

    def test_a_lazy_array_of_unknown_length_is_computed(self) -> None:
        array = pytest.importorskip("dask.array")
        numbers = array.from_array(np.arange(6.0)[:, None], chunks=3)
        assert Dataset.of([numbers[numbers[:, 0] > 2.0]]).lengths == [3]

    def test_columns_of_a_model(self) -> None:
        with pytest.raises(InputError, match=r"trajectory 1 has 3 columns, but the model was fitted to 2; featurise"):
            Dataset.of([np.zeros((3, 2)), np.zeros((3, 3))], 2)
        with pytest.raises(InputError, match="the model was fitted to 3"):
            Dataset.of(Dataset.of([np.zeros((3, 2))]), 3)

    def test_a_data_set_is_a_data_set(self) -> None:
        found = Dataset.of(np.zeros((3, 2)))
        assert Dataset.of(found) is found
        assert Dataset.of(found, 2) is found


class TestFrames:
    def test_good_arrays_are_handed_out_without_a_copy(self) -> None:
        x = np.zeros((3, 2))
        assert Dataset.of([x]).arrays()[0] is x

    def test_trajectories_may_differ_in_length_and_kind(self) -> None:
        arrays = Dataset.of([np.zeros((3, 2)), [[1, 2]], pd.DataFrame(np.ones((2, 2)))]).arrays()
        assert [(len(x), x.dtype) for x in arrays] == [(3, np.float64), (1, np.float64), (2, np.float64)]

    @few_examples
    @given(n_frames=st.integers(1, 40), at_once=st.integers(1, 50), before=st.integers(0, 9))
    def test_blocks_are_the_frames_in_double_precision(self, n_frames: int, at_once: int, before: int) -> None:
        x = np.arange(2 * n_frames, dtype=np.float32).reshape(n_frames, 2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "FRAMES_AT_ONCE", at_once)
            blocks = list(Dataset.of([np.zeros((3, 2)), x]).blocks(1, before))
            again = list(double_blocks(x))
        assert [first for first, _ in blocks] == list(range(before, before + n_frames, at_once))
        for parts in ([frames for _, frames in blocks], again):
            assert {part.dtype for part in parts} == {np.dtype(np.float64)}
            np.testing.assert_array_equal(np.concatenate(parts), x)

    def test_a_bad_frame_is_named_wherever_it_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "FRAMES_AT_ONCE", 4)
        bad = np.zeros((9, 2))
        bad[6, 1] = np.nan
        for data, name in ((Dataset.of([np.zeros((2, 2)), bad]), "trajectory 1"), (Dataset.of(bad), "data")):
            for read in (data.arrays, data.shared, lambda data=data: list(data.blocks(len(data.lengths) - 1))):
                with pytest.raises(InputError, match=f"{name} holds nan at frame 6, column 1"):
                    read()

    def test_one_column_may_be_given_flat(self) -> None:
        found = Dataset.of([np.arange(3.0), np.arange(4.0)])
        assert found.n_columns == 1
        assert [x.shape for x in found.cut([[1], []]).trajectories] == [(1, 1), (2, 1), (4, 1)]


class TestShared:
    def test_memory_maps_stay_and_all_else_is_read_once(self, mapped: NDArray[np.float32]) -> None:
        single, double = np.ones((3, 2), dtype=np.float32), np.ones((3, 2))
        found = Dataset.of([mapped, single, double, [[1.0, 2.0]]]).shared()
        assert found.trajectories[0] is mapped
        assert found.trajectories[1].dtype == np.float64
        assert found.trajectories[2] is double
        assert found.ready == [False, True, True, True]

    def test_a_map_of_double_precision_is_ready_as_it_is(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", np.ones((4, 2)))
        found = Dataset.of(np.load(tmp_path / "x.npy", mmap_mode="r")).shared()
        assert found.ready == [True]
        assert isinstance(found.trajectories[0].base, np.memmap)

    def test_a_bad_frame_in_a_map_is_found(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", np.array([[1.0], [np.inf]], dtype=np.float32))
        with pytest.raises(InputError, match="trajectory 1 holds inf at frame 1, column 0"):
            Dataset.of([np.zeros((2, 1)), np.load(tmp_path / "x.npy", mmap_mode="r")]).shared()


class TestLengths:
    def test_short_ones_are_left_out(self) -> None:
        found = Dataset.of([np.zeros((n, 1)) for n in (3, 6, 5, 9)])
        assert found.long(5).lengths == [6, 9]
        assert found.long(2).lengths == found.lengths
        assert [len(x) for x in found.arrays(reach=5)] == [6, 9]
        assert found.n_windows(5) == 5

    def test_they_are_spoken_of(self) -> None:
        found = Dataset.of([np.zeros((n, 1)) for n in (3, 6, 5, 9)])
        assert found.too_short(5) == "2 of 4 trajectories have no more than lagtime=5 frames"
        assert found.too_short(5, "test ") == "2 of 4 test trajectories have no more than lagtime=5 frames"
        assert found.too_short(2) == too_short([3], 2) == ""

    def test_one_must_remain(self) -> None:
        found = Dataset.of([np.zeros((7, 1)), np.zeros((2, 1))])
        for ask in (found.long, found.too_short, lambda lag: check_longest([7, 2], lag)):
            with pytest.raises(InputError, match=r"lagtime=7 .* at least 8 frames, but the longest has 7; .*shorter"):
                ask(7)

    @few_examples
    @given(lengths=st.lists(st.integers(1, 20), min_size=1, max_size=5), reach=st.integers(0, 25))
    def test_a_window_begins_wherever_it_ends_within_the_trajectory(self, lengths: list[int], reach: int) -> None:
        expected = [sum(first + reach < length for first in range(length)) for length in lengths]
        assert window_counts(lengths, reach) == expected

    def test_some_of_them_and_pieces_keep_the_names_of_their_columns(self) -> None:
        found = Dataset.of([pd.DataFrame({"phi": np.arange(4.0)}), np.arange(5.0)])
        assert found.chosen([1, 1]).lengths == [5, 5]
        assert found.chosen([1, 0]).ready == [False, True]
        pieces = found.cut([[1, 3], [4]])
        assert pieces.columns == ["phi"]
        assert pieces.ready == [True, True, True, False, False]
        assert [x.ravel().tolist() for x in pieces.trajectories] == [[0], [1, 2], [3], [0, 1, 2, 3], [4]]
