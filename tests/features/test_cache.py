"""Features kept on disk are found again, and never when they are stale or damaged."""

from __future__ import annotations

import os

import numpy as np
import pytest

from m3c_md.exceptions import InputError, TrajectoryError, TrajectoryWarning
from m3c_md.features import DihedralFeaturizer, reading
from m3c_md.features.cache import read_cached, write_cached
from tests.features import random_trajectory, topology_of

PEPTIDE = topology_of(["ALA", "LYS", "ALA"])


@pytest.fixture
def file(tmp_path):
    random_trajectory(PEPTIDE, 10).save(str(tmp_path / "run.dcd"))
    return tmp_path / "run.dcd"


@pytest.fixture
def reads(monkeypatch):
    """Names of the trajectory files that were really read."""
    names = []
    original = reading.trajectory_blocks

    def counted(path, *given):
        names.append(path.name)
        return original(path, *given)

    monkeypatch.setattr(reading, "trajectory_blocks", counted)
    return names


def load(file, top=PEPTIDE, *, stride=1, chunk=100, atoms=None, **settings):
    [features] = DihedralFeaturizer(**settings).load(
        file, top, stride=stride, chunk=chunk, atoms=atoms, cache=file.parent / "deep" / "cache"
    )
    return features


def test_a_second_load_reads_no_trajectory(file, reads):
    first = load(file)
    second = load(file, chunk=3)
    np.testing.assert_array_equal(first, second)
    assert reads == ["run.dcd"]
    assert [path.suffix for path in (file.parent / "deep" / "cache").iterdir()] == [".npy"]


def test_the_result_is_that_without_cache(file):
    load(file)
    np.testing.assert_array_equal(load(file), DihedralFeaturizer().load(file, PEPTIDE)[0])


@pytest.mark.parametrize(
    "other",
    [
        {"stride": 2},
        {"sincos": False},
        {"dihedrals": ("psi", "phi")},
        {"periodic": False},
        {"residues": [2]},
        {"top": topology_of(["ALA", "LYS", "ALA"], first=5)},
        {"top": topology_of(["ALA", "LYS", "ALA"], ["HOH"]), "atoms": "protein", "residues": [1, 2]},
    ],
    ids=lambda other: next(iter(other)),
)
def test_other_settings_are_other_features(file, reads, other):
    load(file)
    load(file, **other)
    assert reads == ["run.dcd"] * 2


def test_a_changed_file_is_read_again(file, reads):
    load(file)
    random_trajectory(PEPTIDE, 10, seed=1).save(str(file))
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    changed = load(file)
    assert len(reads) == 2
    np.testing.assert_array_equal(changed, DihedralFeaturizer().load(file, PEPTIDE)[0])


def test_another_file_of_the_same_name_size_and_time_is_read(file, reads, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    twin = tmp_path / "elsewhere" / "run.dcd"
    random_trajectory(PEPTIDE, 10, seed=1).save(str(twin))
    os.utime(twin, ns=(0, 10**18))
    os.utime(file, ns=(0, 10**18))
    ours = load(file)
    [theirs] = DihedralFeaturizer().load(twin, PEPTIDE, cache=tmp_path / "deep" / "cache")
    assert len(reads) == 2
    assert np.abs(ours - theirs).max() > 0.1


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "pickle", "shape", "type", "nan"])
def test_a_damaged_cache_is_computed_again(file, reads, damage):
    expected = load(file)
    [kept] = (file.parent / "deep" / "cache").iterdir()
    content = kept.read_bytes()
    if damage == "cut":
        kept.write_bytes(content[:-7])
    elif damage in ("empty", "text"):
        kept.write_bytes(b"" if damage == "empty" else b"not an array at all")
    else:
        other = {
            "pickle": np.array([{}], dtype=object),
            "shape": expected[:, 1:],
            "type": expected.astype(np.float64),
            "nan": np.full_like(expected, np.nan),
        }
        np.save(kept, other[damage], allow_pickle=True)
    np.testing.assert_array_equal(load(file), expected)
    assert len(reads) == 2
    assert kept.read_bytes() == content


def test_a_damaged_trajectory_is_not_kept_but_its_neighbours_are(file, reads, tmp_path):
    good = tmp_path / "good.dcd"
    random_trajectory(PEPTIDE, 10, seed=1).save(str(good))
    file.write_bytes(file.read_bytes()[:-10])
    for _ in range(2):
        with pytest.raises(TrajectoryError):
            DihedralFeaturizer().load([file, good], PEPTIDE, cache=tmp_path / "cache")
    assert reads == ["run.dcd", "good.dcd", "run.dcd"]


def test_a_file_that_grows_while_it_is_read_is_not_kept(file, monkeypatch):
    original = reading.trajectory_blocks

    def growing(path, *given):
        yield from original(path, *given)
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))

    monkeypatch.setattr(reading, "trajectory_blocks", growing)
    load(file)
    assert list((file.parent / "deep" / "cache").iterdir()) == []


def test_features_survive_a_cache_that_cannot_be_written(file, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.warns(TrajectoryWarning, match="No space left"):
        features = load(file)
    assert features.shape == (10, 8)
    assert list((file.parent / "deep" / "cache").iterdir()) == []


def test_a_file_is_complete_or_absent(tmp_path):
    features = np.ones((3, 2), dtype=np.float32)
    assert write_cached(tmp_path / "a.npy", features) is None
    np.testing.assert_array_equal(read_cached(tmp_path / "a.npy", 2), features)
    assert read_cached(tmp_path / "a.npy", 3) is None
    assert read_cached(tmp_path / "b.npy", 2) is None
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


def test_folders_that_cannot_be(file, tmp_path):
    with pytest.raises(InputError, match="cache=5"):
        DihedralFeaturizer().load(file, PEPTIDE, cache=5)
    with pytest.raises(InputError, match="cannot be made a folder"):
        DihedralFeaturizer().load(file, PEPTIDE, cache=file)
