"""Blocks of frames: every window once, wherever the cuts are, and every frame counted once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from m3c_md.exceptions import InputError
from m3c_md.frames import source as source_module
from m3c_md.frames.source import LocalSource, SourceBlocks, plan_blocks, sample_windows
from m3c_md.frames.weights import weights_of_ratios
from m3c_md.frames.windows import windows_of_trajectories


def numbered(lengths):
    """Trajectories whose frames are numbered through."""
    ends = np.cumsum(lengths)
    return [np.arange(end - n, end, dtype=float)[:, None] for n, end in zip(lengths, ends, strict=True)]


def values_of_windows(block):
    return block.frames[:, 0][block.windows]


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(source_module.plan_blocks, "__defaults__", (7,))


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    lagtime=st.integers(1, 4),
    n_slices=st.integers(1, 3),
    size=st.integers(1, 12),
)
@settings(max_examples=80, deadline=None)
def test_blocks_hold_every_window_once_in_order(lengths, lagtime, n_slices, size):
    reach = (n_slices - 1) * lagtime
    trajectories = numbered(lengths)
    expected = windows_of_trajectories(trajectories, lagtime, n_slices)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module.plan_blocks, "__defaults__", (size,))
        source = LocalSource(trajectories, lagtime, n_slices)
    blocks = list(source.map(lambda block: block))
    assert source.n_windows == expected.n_windows == sum(b.windows.shape[1] for b in blocks)
    assert all(b.windows.shape[1] <= size for b in blocks)
    if not blocks:
        return
    seen = np.concatenate([values_of_windows(b) for b in blocks], axis=1)
    np.testing.assert_array_equal(seen, expected.windows)
    assert [b.first_window for b in blocks] == np.cumsum([0, *(b.windows.shape[1] for b in blocks)])[:-1].tolist()
    counted = np.sort(np.concatenate([b.frames[b.own, 0] for b in blocks]))
    long_enough = np.concatenate([x[:, 0] for x in trajectories if len(x) > reach])
    np.testing.assert_array_equal(counted, long_enough)
    for block in blocks:
        for row, value in enumerate(block.frames[:, 0]):
            trajectory, frame = block.place(row)
            assert trajectories[trajectory][frame, 0] == value
    assert sum(float(b.weights.sum()) for b in blocks) == pytest.approx(1.0)
    chosen = np.arange(0, source.n_windows, 3)
    np.testing.assert_array_equal(long_enough[source.first_frames(chosen)], expected.windows[0][chosen])


@pytest.mark.usefixtures("small_blocks")
def test_a_sample_is_the_chosen_windows():
    source = LocalSource(numbered([20, 3, 15]), lagtime=2)
    chosen = np.array([0, 1, 6, 7, 17, 18, 30])
    sample = sample_windows(source, chosen)
    whole = windows_of_trajectories(source.trajectories, 2)
    np.testing.assert_array_equal(sample.frames[:, 0][sample.windows], whole.frames[:, 0][whole.windows[:, chosen]])
    assert sample.horizon == whole.horizon == 7
    np.testing.assert_array_equal(sample.parts, whole.parts[chosen])


@pytest.mark.usefixtures("small_blocks")
def test_a_frame_that_is_no_number_is_named():
    trajectories = numbered([20, 3, 30])  # the second has no window, and the third is still the third
    trajectories[2][13] = np.nan
    source = LocalSource(trajectories, lagtime=4)
    with pytest.raises(InputError, match="trajectory 2 holds nan at frame 13, column 0; remove or repair"):
        sample_windows(source, np.arange(5))


def test_trajectories_without_a_window_do_not_count():
    source = LocalSource(numbered([20, 3, 30, 4, 4]), lagtime=4)
    assert source.n_frames == 50
    assert source.n_windows == 42
    assert source.horizon == 6
    np.testing.assert_array_equal(source.first_frames(np.array([0, 15, 16, 41])), [0, 15, 20, 45])


@pytest.mark.usefixtures("small_blocks")
def test_weights_come_from_ratios_of_blocks():
    source = LocalSource(numbered([12, 9]), lagtime=1)
    weighted = source.weighted(lambda block, factor: factor * (1.0 + block.frames[block.windows[0], 0] % 3), 5.0)
    got = np.concatenate(list(weighted.map(lambda block: block.weights)))
    first = np.concatenate([np.arange(11.0), np.arange(12.0, 20.0)])
    np.testing.assert_allclose(got, weights_of_ratios([1.0 + first % 3]), rtol=1e-6)
    assert got.sum() == pytest.approx(1.0, rel=1e-6)


def test_anything_that_can_be_sliced_is_a_trajectory(tmp_path):
    array = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", array)

    class Sliced:
        shape, dtype = array.shape, array.dtype

        def __len__(self):
            return len(array)

        def __getitem__(self, key):
            assert isinstance(key, slice), "blocks are slices"
            return array[key]

    expected = list(LocalSource([array], 1).map(lambda block: block.frames.sum()))
    for other in (np.load(tmp_path / "x.npy", mmap_mode="r"), Sliced()):
        assert list(LocalSource([other], 1).map(lambda block: block.frames.sum())) == expected


def test_plans_put_short_trajectories_together():
    plan = plan_blocks([3] * 10, reach=1, size=8)
    assert [sum(piece.n_windows for piece in block) for block in plan] == [8, 8, 4]
    assert plan_blocks([1, 1], reach=1) == []


def test_blocks_of_features_repeat_themselves():
    source = LocalSource(numbered([40]), lagtime=1)
    blocks = SourceBlocks(source, lambda frames: frames * 2.0)
    first, second = ([b.features.sum() for b in blocks] for _ in range(2))
    assert first == second == [2.0 * sum(range(40))]
