"""Model files: the same model comes back, nothing is executed, no file however broken does harm, none is left half."""

from __future__ import annotations

import builtins
import copy
import errno
import io
import json
import os
import pickle
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from m3c_md import MMC, KMedoids, M3CModel, PCCAPlus, load_model
from m3c_md.clustering.k_medoids import KMedoidsModel
from m3c_md.clustering.margin_model import MarginModel, MMCModel
from m3c_md.clustering.pcca_plus import PCCAPlusModel
from m3c_md.clustering.state_model import StateModel
from m3c_md.exceptions import InputError, ModelFileError
from tests.clustering.test_pcca_plus import LOST_STATE, of_symbols, quietly
from tests.conftest import Wells, hidden_markov_wells, quick

Models = dict[str, StateModel]
Files = dict[str, bytes]
Members = dict[str, bytes]
Refused = Callable[..., None]

NAMES = ("M3C", "MMC", "KMedoids", "PCCAPlus", "disconnected", "lost")
KINDS = dict(zip(NAMES, (M3CModel, MMCModel, KMedoidsModel, *3 * (PCCAPlusModel,)), strict=True))
by_name = pytest.mark.parametrize("name", NAMES)
by_margin = pytest.mark.parametrize("name", ["M3C", "MMC"])
by_pcca = pytest.mark.parametrize("name", ["PCCAPlus", "disconnected", "lost"])

HALVES = [np.tile(np.repeat([0.0, 1.0, 0.0, 1.0, 3.0, 4.0, 3.0, 4.0], 5), 5), np.tile([10.0, 10.0, 11.0], 20)]


@pytest.fixture(scope="module")
def models(three_wells: Wells, searched_model: M3CModel) -> Models:
    x = three_wells.frames
    return {
        "M3C": searched_model,
        "MMC": MMC(3, bandwidth=1.0, starts=("kmeans",), random_state=0).fit_fetch(x),
        "KMedoids": KMedoids(3, n_restarts=5, random_state=0).fit_fetch(x),
        "PCCAPlus": PCCAPlus(3, n_microstates=12, n_restarts=1, random_state=0).fit_fetch(x),
        "disconnected": quietly(of_symbols(2, 6), HALVES)[0],
        "lost": quietly(of_symbols(3, 4), LOST_STATE)[0],
    }


def frames_of(model: StateModel, n: int = 300, seed: int = 0) -> np.ndarray:
    """Frames all over the place: inside the states, between and beyond them."""
    return np.random.default_rng(seed).uniform(-4.0, 12.0, size=(n, model.n_columns))


def bytes_of(model: StateModel, folder: Path) -> bytes:
    model.save(folder / "bytes.m3c")
    return (folder / "bytes.m3c").read_bytes()


def through_a_file(model: StateModel, folder: Path) -> Any:
    model.save(folder / "model.m3c")
    return load_model(folder / "model.m3c")


def loaded(data: bytes, folder: Path) -> StateModel:
    (folder / "given.m3c").write_bytes(data)
    return load_model(folder / "given.m3c")


def members_of(data: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(members: Members, compression: int = zipfile.ZIP_STORED) -> bytes:
    """Archive with correct checksums, so that what is wrong with the members is not found by zipfile."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def npy(array: Any, *, version: tuple[int, int] | None = None, allow_pickle: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asanyarray(array), version, allow_pickle=allow_pickle)
    return buffer.getvalue()


def array_of(data: bytes) -> np.ndarray:
    return np.asarray(np.load(io.BytesIO(data), allow_pickle=False))


def same_bits(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


class TestRoundTrip:
    @by_name
    @pytest.mark.parametrize("method", ["transform", "decision_function", "margin", "memberships"])
    def test_every_number_is_the_same_to_the_last_bit(
        self, name: str, method: str, models: Models, tmp_path: Path
    ) -> None:
        model = models[name]
        again = through_a_file(model, tmp_path)
        assert type(again) is KINDS[name]
        # Libraries take other ways for few rows than for many.
        for n in (1, 2, 7, 3000):
            x = frames_of(model, n, seed=n)
            assert same_bits(getattr(again, method)(x), getattr(model, method)(x))
        pieces = [frames_of(model, 5), frames_of(model, 3)]
        assert all(map(same_bits, getattr(again, method)(pieces), getattr(model, method)(pieces)))

    @by_name
    def test_attributes(self, name: str, models: Models, tmp_path: Path) -> None:
        model = models[name]
        again = through_a_file(model, tmp_path)
        assert repr(again) == repr(model)
        assert same_bits(again.populations, model.populations)
        assert (again.n_states, again.n_columns, again.warnings) == (model.n_states, model.n_columns, model.warnings)
        assert again.warnings is not model.warnings
        assert again.transform(frames_of(model)).dtype == np.int32
        for key, value in vars(model).items():
            if isinstance(value, np.ndarray):
                assert same_bits(getattr(again, key), value)
                assert getattr(again, key).flags.writeable
            else:
                assert type(getattr(again, key)) is type(value) or key == "msm"

    @by_name
    def test_the_warnings_of_a_fit_come_along(self, name: str, models: Models, tmp_path: Path) -> None:
        model = copy.deepcopy(models[name])
        model.warnings.append('a "quoted" \\ text\nover two lines, with κ and 状')
        assert through_a_file(model, tmp_path).warnings == model.warnings
        assert any("outside the largest connected set" in text for text in models["disconnected"].warnings)

    @by_name
    def test_a_loaded_model_can_be_saved_copied_and_pickled(self, name: str, models: Models, tmp_path: Path) -> None:
        model, x = models[name], frames_of(models[name])
        once = through_a_file(model, tmp_path)
        for again in (
            through_a_file(once, tmp_path),
            pickle.loads(pickle.dumps(once)),
            once.copy(),
            copy.deepcopy(once),
        ):
            assert repr(again) == repr(model)
            assert same_bits(again.decision_function(x), model.decision_function(x))

    @by_name
    def test_the_same_model_gives_the_same_bytes(
        self, name: str, models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = bytes_of(models[name], tmp_path)
        monkeypatch.setattr("time.time", lambda: 2e9)
        assert bytes_of(models[name], tmp_path) == first
        if name not in (
            "PCCAPlus",
            "disconnected",
        ):  # deeptime normalises a stationary distribution anew, which moves its last bit here
            assert bytes_of(loaded(first, tmp_path), tmp_path) == first

    @by_name
    def test_nobody_is_changed_by_being_saved(self, name: str, models: Models, tmp_path: Path) -> None:
        before = pickle.dumps(models[name].decision_function(frames_of(models[name])))
        again = through_a_file(models[name], tmp_path)
        again.warnings.append("of the loaded model only")
        again.populations[:] = 0.0
        assert pickle.dumps(models[name].decision_function(frames_of(models[name]))) == before
        assert "of the loaded model only" not in models[name].warnings
        assert models[name].populations.sum() == pytest.approx(1.0)

    @by_margin
    def test_the_record_of_the_search(self, name: str, models: Models, tmp_path: Path) -> None:
        model = models[name]
        assert isinstance(model, MarginModel)
        again = through_a_file(model, tmp_path)
        assert len(model.records) > 1 or name == "MMC"
        pd.testing.assert_frame_equal(again.candidates, model.candidates, check_exact=True)
        assert again.trace == model.trace
        assert all(type(value) is float for value in again.trace)
        for field in ("objective", "lower_bound", "gap", "bandwidth", "chosen"):
            assert getattr(again, field) == getattr(model, field)
            assert type(getattr(again, field)) is type(getattr(model, field))
        for one, other in zip(again.records, model.records, strict=True):
            assert (one.optimum.iterations, one.optimum.converged) == (
                other.optimum.iterations,
                other.optimum.converged,
            )
            assert type(one.n_windows) is type(one.optimum.iterations) is int
            assert one.optimum.trace == other.optimum.trace

    def test_alternatives(self, models: Models, tmp_path: Path) -> None:
        model = models["M3C"]
        assert isinstance(model, M3CModel)
        again, x = through_a_file(model, tmp_path), frames_of(model)
        labels = set()
        for i in np.arange(len(model.records)):  # numpy's integers are no Python integers, and JSON knows only these
            other = model.alternative(i)
            labels.add(other.transform(x).tobytes())
            for same in (again.alternative(i), through_a_file(other, tmp_path)):
                assert same.chosen == i
                assert repr(same) == repr(other)
                assert same_bits(same.decision_function(x), other.decision_function(x))
        assert len(labels) > 1

    def test_lag_time_and_sample_size(self, three_wells: Wells, tmp_path: Path) -> None:
        model = quick(3, lagtime=np.int32(2), random_state=1).fit_fetch(three_wells.frames)
        again = through_a_file(model, tmp_path)
        assert again.lagtime == 2
        assert again.effective_sample == model.effective_sample

    @by_pcca
    def test_the_markov_state_model(self, name: str, models: Models, tmp_path: Path) -> None:
        model = models[name]
        assert isinstance(model, PCCAPlusModel)
        again = through_a_file(model, tmp_path)
        assert same_bits(again.msm.transition_matrix, model.msm.transition_matrix)
        assert again.msm.stationary_distribution == pytest.approx(model.msm.stationary_distribution, rel=1e-14)
        assert again.msm.reversible is True
        assert again.msm.transition_matrix_tolerance == model.msm.transition_matrix_tolerance
        assert again.msm.mfpt([0], [1]) == pytest.approx(model.msm.mfpt([0], [1]), rel=1e-12)
        assert again.msm.timescales() == pytest.approx(model.msm.timescales(), rel=1e-9)
        for field in ("count_matrix", "count_matrix_full", "state_symbols"):
            assert same_bits(getattr(again.msm.count_model, field), getattr(model.msm.count_model, field))
        assert again.msm.count_model.counting_mode == model.msm.count_model.counting_mode
        assert (again.lagtime, again.n_microstates, again.n_populated, again.n_disconnected_frames) == (
            (model.lagtime, model.n_microstates, model.n_populated, model.n_disconnected_frames)
        )

    @by_pcca
    def test_the_lumping(self, name: str, models: Models, tmp_path: Path) -> None:
        model = models[name]
        assert isinstance(model, PCCAPlusModel)
        again = through_a_file(model, tmp_path)
        for field in (
            "memberships",
            "assignments",
            "metastable_distributions",
            "coarse_grained_transition_matrix",
            "coarse_grained_stationary_probability",
        ):
            assert same_bits(getattr(again.pcca, field), getattr(model.pcca, field))
        assert again.pcca.n_metastable == model.n_states
        assert [s.tolist() for s in again.pcca.sets] == [s.tolist() for s in model.pcca.sets]

    @by_name
    def test_lump_and_sample(self, name: str, models: Models, tmp_path: Path) -> None:
        model = models[name]
        again = through_a_file(model, tmp_path)
        x = frames_of(model)
        assert all(map(same_bits, again.sample(x, 4), model.sample(x, 4)))
        if model.n_columns == 2:
            micro = models["PCCAPlus"]
            assert isinstance(micro, PCCAPlusModel)
            one, other = (m.lump(micro.msm, centers=micro.centers) for m in (again, model))
            assert same_bits(one.coarse_grained_transition_matrix, other.coarse_grained_transition_matrix)

    @pytest.mark.parametrize("factor", [1e-90, 1e90])
    def test_any_unit_that_can_be_fitted(self, factor: float, three_wells: Wells, tmp_path: Path) -> None:
        x = factor * three_wells.frames
        rules = quick(3), quick(3, scale="none", bandwidth=factor)
        for estimator in (*rules, KMedoids(3, n_restarts=1, scale="none", random_state=0)):
            model = estimator.fit_fetch(x[:200])
            assert same_bits(through_a_file(model, tmp_path).decision_function(x), model.decision_function(x))


class TestLayout:
    """What the module's docstring says about the file, with nothing but numpy, zipfile and json."""

    @by_name
    def test_plain_tools_can_read_it(self, name: str, models: Models, tmp_path: Path) -> None:
        model = models[name]
        model.save(tmp_path / "model.m3c")
        with zipfile.ZipFile(tmp_path / "model.m3c") as archive:
            assert archive.testzip() is None
            assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
            text = json.loads(archive.read("model.json"))
            assert sorted(set(archive.namelist()) - {"model.json"}) == sorted(
                f"{key}.npy" for key in self.arrays(model)
            )
        assert list(text) == ["format", "version", "package", "kind", "settings"]
        assert (text["format"], text["version"], text["kind"]) == ("m3c_md model", 1, KINDS[name].__name__)
        assert text["settings"]["warnings"] == model.warnings
        with np.load(tmp_path / "model.m3c", allow_pickle=False) as opened:
            for key, value in self.arrays(model).items():
                assert opened[key].dtype.str in ("<f8", "<i8", "|b1")
                assert np.array_equal(opened[key], value, equal_nan=value.dtype.kind == "f")

    @staticmethod
    def arrays(model: StateModel) -> dict[str, np.ndarray]:
        return model._contents().arrays

    def test_the_rule_can_be_applied_by_hand(self, models: Models, tmp_path: Path) -> None:
        model = models["M3C"]
        model.save(tmp_path / "model.m3c")
        with np.load(tmp_path / "model.m3c") as file:
            x = frames_of(model)
            # Metrics are numbered as they first come among the candidates; that of the first one is the first.
            angles = (x - file["center"]) @ file["frequencies_0"] / file["bandwidth"][0] + file["phases"]
            scores = np.cos(angles) * np.sqrt(2.0 / angles.shape[1]) @ file["weights"][0].T + file["bias"][0]
            order = np.argsort(-file["populations"][0])
        assert scores[:, order] == pytest.approx(model.decision_function(x), abs=1e-9)

    @by_name
    def test_a_file_without_labels_is_small(self, name: str, models: Models, tmp_path: Path) -> None:
        held = sum(array.nbytes for array in self.arrays(models[name]).values())
        assert len(bytes_of(models[name], tmp_path)) < held + 500 * len(self.arrays(models[name])) + 2000


class TestPaths:
    @pytest.mark.parametrize("name", ["plain", "with spaces .m3c", "модель 模型 é ☃.m3c", ".hidden", "-f", "a%s{x}"])
    @pytest.mark.parametrize("kind", [str, Path])
    def test_names(self, name: str, kind: Any, models: Models, tmp_path: Path) -> None:
        folder = tmp_path / "ordner mit ä und 空"
        folder.mkdir()
        models["KMedoids"].save(kind(folder / name))
        assert [path.name for path in folder.iterdir()] == [name]
        assert repr(load_model(kind(folder / name))) == repr(models["KMedoids"])

    def test_as_long_as_a_name_can_be(self, models: Models, tmp_path: Path) -> None:
        path = tmp_path / (250 * "x" + ".m3c")
        models["KMedoids"].save(path)
        assert load_model(path).n_states == 3

    def test_relative_and_upwards(self, models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "a" / "b").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / "a" / "b")
        for path, place in (("m", "a/b/m"), ("../m", "a/m"), ("../../a/../m", "m"), ("./../b/n", "a/b/n")):
            models["KMedoids"].save(path)
            assert (tmp_path / place).is_file()
            assert load_model(path).n_states == 3
        assert sum(path.is_file() for path in tmp_path.rglob("*")) == 4

    def test_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"nothing\.m3c"):
            load_model(tmp_path / "nothing.m3c")

    def test_a_folder_is_no_file(self, models: Models, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        for path in (tmp_path / "folder", str(tmp_path), tmp_path / "folder" / ".."):
            with pytest.raises(OSError, match=r"the model was not written \("):
                models["KMedoids"].save(path)
            with pytest.raises(OSError, match="folder" if path != str(tmp_path) else "test_a_folder"):
                load_model(path)
        assert [path.name for path in tmp_path.rglob("*")] == ["folder"]

    def test_missing_folder(self, models: Models, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"the model was not written \(.*\): '.*nowhere.*model\.m3c'"):
            models["KMedoids"].save(tmp_path / "nowhere" / "model.m3c")
        assert list(tmp_path.iterdir()) == []

    def test_a_file_in_place_of_the_folder(self, models: Models, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("text")
        with pytest.raises(OSError, match=r"was not written .*file.*model\.m3c"):
            models["KMedoids"].save(tmp_path / "file" / "model.m3c")
        assert (tmp_path / "file").read_text() == "text"

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="no folder is read-only for root")
    def test_read_only_folder(self, models: Models, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        with pytest.raises(PermissionError, match=r"was not written .*model\.m3c"):
            models["KMedoids"].save(tmp_path / "model.m3c")
        tmp_path.chmod(0o700)
        assert list(tmp_path.iterdir()) == []


class TestWriting:
    def test_an_existing_file_is_replaced(self, models: Models, tmp_path: Path) -> None:
        path = tmp_path / "model.m3c"
        path.write_bytes(bytes(100_000))
        for name in NAMES:
            models[name].save(path)
            assert repr(load_model(path)) == repr(models[name])
        assert [path.name for path in tmp_path.iterdir()] == ["model.m3c"]

    @pytest.mark.parametrize("step", ["open", "fsync", "replace"])
    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS])
    def test_a_failure_leaves_the_old_file_and_nothing_else(
        self, step: str, number: int, models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "model.m3c"
        models["KMedoids"].save(path)

        def fail(*_: Any) -> None:
            raise OSError(number, os.strerror(number), "some temporary name")

        monkeypatch.setattr(os if step == "fsync" else Path, step, fail)
        with pytest.raises(OSError, match=rf"was not written \({os.strerror(number)}\): '.*model\.m3c'") as caught:
            models["M3C"].save(path)
        monkeypatch.undo()
        assert caught.value.errno == number
        assert isinstance(caught.value, PermissionError) == (number == errno.EACCES)
        assert [path.name for path in tmp_path.iterdir()] == ["model.m3c"]
        assert repr(load_model(path)) == repr(models["KMedoids"])

    def test_an_interruption_leaves_nothing_behind(
        self, models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(_: int) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            models["M3C"].save(tmp_path / "model.m3c")
        assert list(tmp_path.iterdir()) == []

    def test_a_disk_that_really_has_no_room(self, models: Models, tmp_path: Path) -> None:
        resource = pytest.importorskip("resource")
        path = tmp_path / "model.m3c"
        models["KMedoids"].save(path)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        assert len(bytes_of(models["M3C"], tmp_path)) > 5000
        (tmp_path / "bytes.m3c").unlink()
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
            with pytest.raises(OSError, match=r"the model was not written \(.*model\.m3c"):
                models["M3C"].save(path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert [path.name for path in tmp_path.iterdir()] == ["model.m3c"]
        assert repr(load_model(path)) == repr(models["KMedoids"])

    def test_many_at_once(self, models: Models, tmp_path: Path) -> None:
        path = tmp_path / "model.m3c"
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: models["M3C"].save(path), range(12)))
        assert [path.name for path in tmp_path.iterdir()] == ["model.m3c"]
        assert repr(load_model(path)) == repr(models["M3C"])

    def test_what_could_not_be_read_is_not_written(self, models: Models, tmp_path: Path) -> None:
        class Own(KMedoidsModel):
            pass

        good = models["KMedoids"]
        assert isinstance(good, KMedoidsModel)
        broken = copy.deepcopy(good)
        broken.centers[0, 0] = np.nan
        with pytest.raises(
            ModelFileError, match="cannot be saved: the array 'centers' has entries that are not finite"
        ):
            broken.save(tmp_path / "model.m3c")
        own = Own(good.centers, good.scale, good.populations, good.scatter)
        with pytest.raises(ModelFileError, match="cannot be saved: it holds a 'Own', and known are KMedoidsModel, M3C"):
            own.save(tmp_path / "model.m3c")
        assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def files(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Files:
    return {name: bytes_of(model, tmp_path_factory.mktemp("files")) for name, model in models.items()}


@pytest.fixture
def refused(tmp_path: Path) -> Refused:
    def check(data: bytes | Members, match: str) -> None:
        with pytest.raises(ModelFileError, match=match) as caught:
            loaded(data if isinstance(data, bytes) else zipped(data), tmp_path)
        assert str(caught.value).startswith(f"{tmp_path / 'given.m3c'} cannot be used: ")
        assert len(str(caught.value)) < 500 + len(str(tmp_path))
        assert isinstance(caught.value, InputError)

    return check


def with_text(members: Members, **changes: Any) -> Members:
    return {**members, "model.json": json.dumps({**json.loads(members["model.json"]), **changes}).encode()}


def with_settings(members: Members, **changes: Any) -> Members:
    return with_text(members, settings={**json.loads(members["model.json"])["settings"], **changes})


def with_entry(members: Members, name: str, value: Any, index: Any = 0) -> Members:
    array = array_of(members[f"{name}.npy"]).copy()
    array.flat[index] = value
    return {**members, f"{name}.npy": npy(array)}


def with_array(members: Members, name: str, change: Callable[[np.ndarray], Any]) -> Members:
    return {**members, f"{name}.npy": npy(change(array_of(members[f"{name}.npy"])))}


class TestNoModelFile:
    @pytest.mark.parametrize("data", [b"", b"PK", b"PK\x03\x04", bytes(1000), b"\x93NUMPY\x01\x00", b"{}"])
    def test_no_archive(self, data: bytes, refused: Refused) -> None:
        refused(data, "it is damaged or no model file")

    def test_archives_of_others(self, refused: Refused) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, weights=np.zeros(3))
        refused(buffer.getvalue(), "it has no model.json, so it is no model file")
        refused({}, "it has no model.json")
        refused({"model.json": b'{"format": "keras"}'}, "does not say 'm3c_md model'")

    def test_a_pickle(self, models: Models, refused: Refused) -> None:
        refused(pickle.dumps(models["KMedoids"]), "it is damaged or no model file")

    @pytest.mark.parametrize("version", [2, 0, 1.5, "1", None, [1], {"a": 1}, 10**400])
    def test_versions(self, version: Any, files: Files, refused: Refused) -> None:
        members = with_text(members_of(files["M3C"]), version=version, package="9.1.0")
        refused(
            members, r"it has version .* \(m3c_md '9\.1\.0' wrote it\), and this m3c_md knows version 1; update m3c_md"
        )

    @pytest.mark.parametrize("kind", ["Rule", "os.system", "", None, ["M3CModel"], 3, "x" * 1000])
    def test_kinds(self, kind: Any, files: Files, refused: Refused) -> None:
        refused(with_text(members_of(files["M3C"]), kind=kind), "and known are KMedoidsModel, M3CModel, MMCModel, PCCA")

    @pytest.mark.parametrize(
        "text", [b"", b"[]", b"null", b"{", b'"x"', b"\xff", b'{"format": 3}', b"\xef\xbb\xbf{}", b"7"]
    )
    def test_texts(self, text: bytes, files: Files, refused: Refused) -> None:
        refused({**members_of(files["M3C"]), "model.json": text}, "no model file")

    @pytest.mark.parametrize("settings", [None, [], "x", 3])
    def test_no_settings(self, settings: Any, files: Files, refused: Refused) -> None:
        refused(with_text(members_of(files["M3C"]), settings=settings), "has no settings")


def flattened(text: bytes) -> bytes:
    """Bytes in the middle of a file whose checksum no longer fits."""
    return text[:2000] + bytes([text[2000] ^ 1]) + text[2001:]


class TestArchives:
    @by_name
    def test_compressed(self, name: str, files: Files, refused: Refused) -> None:
        for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            refused(zipped(members_of(files[name]), method), "'model.json' is compressed, which model files are not")

    def test_a_single_compressed_member_is_not_unpacked(self, files: Files, refused: Refused) -> None:
        buffer = io.BytesIO(files["M3C"])
        with zipfile.ZipFile(buffer, "a") as archive:
            archive.writestr("bomb.npy", bytes(20_000_000), zipfile.ZIP_DEFLATED)
        tracemalloc.start()
        refused(buffer.getvalue(), "'bomb.npy' is compressed")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2_000_000

    @pytest.mark.parametrize("name", ["model.json", "weights.npy"])
    def test_the_same_name_twice(self, name: str, files: Files, refused: Refused) -> None:
        buffer = io.BytesIO(files["M3C"])
        with zipfile.ZipFile(buffer, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr(name, members_of(files["M3C"])[name])
        refused(buffer.getvalue(), "its members have the same name")

    def test_members_that_share_their_bytes(self, refused: Refused) -> None:
        # Each member reaches to the end of all: 200 of them are 200 times as long as the file.
        buffer = io.BytesIO(
            zipped({"model.json": b"{}", **{f"{i}.npy": b"" for i in range(200)}, "z.npy": bytes(200_000)})
        )
        data = buffer.getvalue()
        with zipfile.ZipFile(buffer, "a") as archive:
            for info in archive.infolist():
                own = data[info.header_offset + 30 + len(info.filename) : archive.start_dir]
                info.file_size = info.compress_size = len(own)
                info.CRC = zlib.crc32(own)
            archive.comment = b"makes zipfile write the directory anew"
        with zipfile.ZipFile(buffer) as archive:
            assert sum(info.file_size for info in archive.infolist()) > 100 * len(data)
        tracemalloc.start()
        refused(buffer.getvalue(), "together longer than the file")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3_000_000

    def test_checksums_are_checked(self, files: Files, refused: Refused) -> None:
        refused(flattened(files["M3C"]), "Bad CRC-32")

    def test_files_cut_short(self, files: Files, refused: Refused) -> None:
        for cut in range(1, len(files["KMedoids"]), 97):
            refused(files["KMedoids"][:-cut], "it is damaged or no model file")

    @pytest.mark.parametrize("name", ["readme.txt", "../evil.npz", "/etc/passwd", "weights"])
    def test_foreign_members(self, name: str, files: Files, refused: Refused) -> None:
        refused({**members_of(files["M3C"]), name: b"x"}, "does not belong in a model file")

    def test_nothing_is_unpacked_into_the_file_system(self, files: Files, tmp_path: Path) -> None:
        (tmp_path / "inner").mkdir()
        members = {**members_of(files["M3C"]), "../../evil.npy": npy(np.zeros(1))}
        assert loaded(zipped(members), tmp_path / "inner").n_states == 3
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["given.m3c", "inner"]


class Payload:
    """Makes a folder when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


class TestNothingIsExecuted:
    @pytest.mark.parametrize("name", ["weights", "extra"])
    def test_pickles_in_arrays(self, name: str, files: Files, tmp_path: Path, refused: Refused) -> None:
        mark = tmp_path / "it ran"
        array = np.empty(1, dtype=object)
        array[0] = Payload(mark)
        bad = npy(array, allow_pickle=True)
        np.load(io.BytesIO(bad), allow_pickle=True)
        assert mark.exists()  # or the payload is a dud
        mark.rmdir()
        refused({**members_of(files["M3C"]), f"{name}.npy": bad}, "does not begin as in a model file")
        # A header that lies about what follows, and a pickle without a header.
        body = pickle.dumps(Payload(mark))
        refused({**members_of(files["M3C"]), f"{name}.npy": body}, "does not begin as in a model file")
        refused({**members_of(files["M3C"]), "model.json": body}, "it is damaged or no model file")
        assert not mark.exists()

    @by_name
    def test_nobody_who_executes_is_called(
        self, name: str, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        loaded(files[name], tmp_path)  # imports what it needs

        def never(*_: Any, **__: Any) -> None:
            raise AssertionError("executed")

        with monkeypatch.context() as patch:  # pytest itself cannot do without them
            for function in ("load", "loads", "Unpickler"):
                patch.setattr(pickle, function, never)
            for function in ("eval", "exec", "compile"):
                patch.setattr(builtins, function, never)
            model = loaded(files[name], tmp_path)
        assert isinstance(model, KINDS[name])

    def test_code_in_a_header(self, files: Files, tmp_path: Path, refused: Refused) -> None:
        members = members_of(files["KMedoids"])
        for code in (b"__import__('os').mkdir('x')", b"(" * 500, b"9**9**9**9", b"1L,", b"1_0"):
            header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%s), }\n" % code
            data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8)
            refused({**members, "scatter.npy": data}, "does not begin as in a model file")
        assert [path.name for path in tmp_path.iterdir()] == ["given.m3c"]


class TestArrays:
    @by_name
    def test_each_is_needed(self, name: str, files: Files, refused: Refused) -> None:
        members = members_of(files[name])
        # Files of earlier versions have neither visits nor what is left many lag times later.
        for missing in set(members) - {"model.json", "visits.npy", "lasting.npy", "least_memory.npy"}:
            rest = {key: value for key, value in members.items() if key != missing}
            # A metric has either factors or a matrix; where there is neither, the matrix is missed.
            known = missing.removesuffix(".npy").replace("factors", "matrix")
            refused(rest, f"the array '{known}' is missing")

    def test_a_file_of_before_that_knows_no_late_transitions_is_read(self, files: Files, tmp_path: Path) -> None:
        members = members_of(files["M3C"])
        late = ("lasting", "least_memory", "missing")
        older = {key: value for key, value in members.items() if not key.startswith(late)}
        before, now = loaded(zipped(older), tmp_path), loaded(files["M3C"], tmp_path)
        assert isinstance(before, M3CModel)
        assert isinstance(now, M3CModel)
        assert all(np.isnan([getattr(record.support, name) for name in late]).all() for record in before.records)
        assert [record.support.error for record in before.records] == [record.support.error for record in now.records]

    @by_name
    def test_other_types_and_shapes(self, name: str, files: Files, refused: Refused) -> None:
        members = members_of(files[name])
        for key in {name.removesuffix(".npy") for name in members} - {"model.json"}:
            array = array_of(members[f"{key}.npy"])
            other_type = np.int64 if array.dtype != np.int64 else np.float64
            wrong = [np.ones(array.shape, other_type), array[None], array.ravel()[0], array[:0], array[..., None]]
            if array.ndim == 2:
                wrong.append(array.ravel())
            for bad in wrong:
                refused({**members, f"{key}.npy": npy(bad)}, rf"the array '{key}' has dtype \w+ and shape ")
            for dtype in (">f8", "<f4", "<U3", "V8", [("a", "<f8")]):
                refused({**members, f"{key}.npy": npy(np.zeros(array.shape, dtype))}, "does not begin as in a model fi")

    @by_name
    def test_other_lengths(self, name: str, files: Files, refused: Refused) -> None:
        members = members_of(files[name])
        for key in {name.removesuffix(".npy") for name in members} - {"model.json"}:
            longer = with_array(members, key, lambda a: np.concatenate([a, a[-1:]]))
            refused(longer, "cannot be used: (the (array|setting)|it|its) ")

    @by_name
    def test_other_layouts(self, name: str, files: Files, refused: Refused) -> None:
        members = members_of(files[name])
        key = "weights.npy" if "weights.npy" in members else "centers.npy"
        array = array_of(members[key])
        fortran = npy(np.asfortranarray(np.zeros((4, 3))))
        assert b"'fortran_order': True" in fortran
        for bad in (
            npy(array, version=(2, 0)),
            npy(array, version=(3, 0)),
            fortran,
            npy(array)[1:],
            npy(array) + b"\0",
        ):
            refused({**members, key: bad}, "does not (begin as in a model file|fit its)")

    @pytest.mark.parametrize(
        "shape", ["100000000000000000,", "9" * 58 + ",", "4611686018427387904, 4", "1000000000, 0"]
    )
    def test_promises_of_a_header_take_no_memory(self, shape: str, files: Files, refused: Refused) -> None:
        members = members_of(files["KMedoids"])
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape}), }}\n".encode()
        data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
        tracemalloc.start()
        for rest in (b"", bytes(8)):
            refused({**members, "centers.npy": data + rest}, "'centers'|does not fit its|is damaged")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1_000_000

    @by_name
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
    def test_numbers_that_are_none(self, name: str, value: float, files: Files, refused: Refused) -> None:
        members = members_of(files[name])
        for key in {name.removesuffix(".npy") for name in members} - {
            "model.json",
            "metastability",
            "error",
            "least_share",
            "without",
            "expected",
            "lasting",
            "lasting_without",
            "least_memory",
            "missing",
        }:
            if array_of(members[f"{key}.npy"]).dtype == np.float64:
                refused(with_entry(members, key, value), f"the array '{key}' has entries that are not finite, or above")

    @by_name
    @pytest.mark.parametrize("value", [0.0, -1.0, 1e-300, 5e-324])
    def test_scales(self, name: str, value: float, files: Files, refused: Refused) -> None:
        members = members_of(files[name])
        for key in {"scale", "spread", "bandwidth", "effective_sample", "objective"} & {
            key.removesuffix(".npy") for key in members
        }:
            refused(with_entry(members, key, value), f"the array '{key}' has entries that are not positive, or below")

    def test_products_that_overflow(self, files: Files, refused: Refused) -> None:
        members = with_entry(members_of(files["M3C"]), "frequencies_0", 1e100)
        refused(with_entry(members, "bandwidth", 1e-100), "too small for its frequencies")
        members = with_entry(members_of(files["KMedoids"]), "centers", 1e100)
        refused(with_entry(members, "scale", 1e-100), "its scales are too small for its centres")

    @by_name
    def test_shares(self, name: str, files: Files, refused: Refused) -> None:
        members = members_of(files[name])
        for key in {"populations", "stationary", "memberships"} & {key.removesuffix(".npy") for key in members}:
            for change in (
                lambda a: 1.01 * a,
                lambda a: -a,
                lambda a: a - np.eye(a.shape[-1])[0] + np.eye(a.shape[-1])[1],
            ):
                refused(with_array(members, key, change), f"the array '{key}' has rows that are no shares of a whole")

    @pytest.mark.parametrize("name", ["states", "connected", "iterations", "n_windows", "trace_lengths"])
    @pytest.mark.parametrize("value", [-1, 2**62, -(2**63)])
    def test_integers_out_of_range(self, name: str, value: int, files: Files, refused: Refused) -> None:
        members = members_of(files["PCCAPlus" if name in ("states", "connected") else "M3C"])
        refused(with_entry(members, name, value), f"the array '{name}' has entries outside 0 to ")

    def test_contradictions(self, files: Files, refused: Refused) -> None:
        m3c, medoids, pcca = (members_of(files[name]) for name in ("M3C", "KMedoids", "PCCAPlus"))
        refused(with_array(m3c, "trace_lengths", lambda a: a - (a == a.max())), "traces of together")
        refused(
            with_array(m3c, "trace_lengths", lambda a: np.full_like(a, array_of(m3c["trace.npy"]).size)), "traces of"
        )
        m3c_weights = array_of(m3c["weights.npy"])
        one_state = {
            **with_array(m3c, "weights", lambda a: a[:, :1]),
            "populations.npy": npy(np.ones((len(m3c_weights), 1))),
        }
        refused(with_array(one_state, "bias", lambda a: a[:, :1]), "it has 1 states")
        refused(with_array(medoids, "states", lambda a: a[::-1].copy()), "are not those of 3 states in order")
        alone = {**medoids, "populations.npy": npy([1.0]), "states.npy": npy(np.zeros(3, dtype=np.int64))}
        refused(alone, "it has a single state")
        refused(with_array(pcca, "states", lambda a: (a + 1) % 3), "its memberships are not those of its states")
        refused(with_array(pcca, "connected", lambda a: np.zeros_like(a)), "transition counts contradict each other")
        refused(with_array(pcca, "counts", lambda a: a - 1.0), "transition counts contradict each other")
        refused(with_array(pcca, "counts", lambda a: a[:, :-1].copy()), "transition counts contradict each other")
        refused(with_array(pcca, "transition_matrix", lambda a: 2.0 * a), "its transition matrix is none")
        refused(
            with_array(pcca, "transition_matrix", lambda a: 2.0 * np.eye(len(a)) - a), "its transition matrix is none"
        )

    @pytest.mark.parametrize(("one", "other"), [("M3C", "KMedoids"), ("KMedoids", "PCCAPlus"), ("PCCAPlus", "MMC")])
    def test_the_kind_of_another(self, one: str, other: str, files: Files, refused: Refused) -> None:
        refused(with_text(members_of(files[one]), kind=KINDS[other].__name__), "the (array|setting) '.*' is missing")


class TestSettings:
    @pytest.mark.parametrize("value", [None, -1, 1000, 0.0, "0", True, [0], {}, 10**30, float("nan")])
    def test_chosen(self, value: Any, files: Files, refused: Refused) -> None:
        refused(with_settings(members_of(files["M3C"]), chosen=value), "the setting 'chosen' is ")

    @pytest.mark.parametrize(
        ("name", "setting"), [("M3C", "lagtime"), ("lost", "lagtime"), ("lost", "n_disconnected_frames")]
    )
    @pytest.mark.parametrize("value", [None, -1, 1.5, "1", False, [], 2**60])
    def test_counts(self, name: str, setting: str, value: Any, files: Files, refused: Refused) -> None:
        refused(with_settings(members_of(files[name]), **{setting: value}), f"the setting '{setting}' is ")

    @by_name
    @pytest.mark.parametrize("value", [None, "text", {"a": "b"}, [1], ["a", None], [["a"]], 3])
    def test_texts(self, name: str, value: Any, files: Files, refused: Refused) -> None:
        members = members_of(files[name])
        for setting in {"warnings", "start", "fate"} & set(json.loads(members["model.json"])["settings"]):
            refused(with_settings(members, **{setting: value}), f"the setting '{setting}' is ")

    def test_too_few_texts(self, files: Files, refused: Refused) -> None:
        refused(with_settings(members_of(files["M3C"]), fate=["winner"]), r"the setting 'fate' has 1 entries, not \d")

    @pytest.mark.parametrize("name", ["chosen", "fate"])
    def test_nesting(self, name: str, files: Files, refused: Refused) -> None:
        # Trouble in the parser, in what it hands on, or in the message about it: all depths around the limit.
        members = members_of(files["M3C"])
        text = with_settings(members, **{name: "HERE"})["model.json"]
        for depth in (50, *range(840, 1000, 3), 100_000):
            for opened, closed in ((b"[", b"]"), (b'{"a":', b"}")):
                nested = depth * opened + b"1" + depth * closed
                members["model.json"] = text.replace(b'"HERE"', nested)
                refused(members, f"the setting '{name}' is |recursion")

    def test_long_texts_are_not_repeated_in_the_message(self, files: Files, refused: Refused) -> None:
        refused(with_settings(members_of(files["M3C"]), chosen="x" * 100_000), "the setting 'chosen' is ")
        refused(with_settings(members_of(files["M3C"]), chosen=list(range(10_000))), "the setting 'chosen' is ")
        refused(with_text(members_of(files["M3C"]), version="x" * 100_000), "it has version 'xxx")

    def test_numbers_too_long_to_read(self, files: Files, refused: Refused) -> None:
        text = with_settings(members_of(files["M3C"]), chosen="HERE")["model.json"].replace(b'"HERE"', b"9" * 100_000)
        refused({**members_of(files["M3C"]), "model.json": text}, "it is damaged or no model file")

    def test_what_is_not_asked_for_is_ignored(self, files: Files, tmp_path: Path) -> None:
        members = with_settings(members_of(files["M3C"]), further={"a": [1, None]})
        assert loaded(zipped({**members, "further.npy": npy(np.zeros(3))}), tmp_path).n_states == 3


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1.0, 1e308, -1e308, 1e119, 1e-119, 5e-324, 1e-8, 1e16])
WORDS = [None, True, False, 0, -1, 1, 2, 10**20, 1e400, 0.5, "", "x", "winner", [], ["x"], [0], {}, {"a": 1}, [[[]]]]


def mutated_text(text: bytes, rng: np.random.Generator) -> bytes:
    """Text of a model with one of its values exchanged, left out, or one added."""
    whole = json.loads(text)
    where = whole if rng.random() < 0.3 else whole["settings"]
    key = rng.choice([*where, "new"])
    if rng.random() < 0.2:
        where.pop(key, None)
    else:
        where[str(key)] = WORDS[rng.integers(len(WORDS))]
    return json.dumps(whole).encode()


def mutated_numbers(data: bytes, rng: np.random.Generator) -> bytes:
    """Array with one of its entries exchanged, or scaled, or in another order, or of another shape."""
    array = array_of(data).copy()
    way = rng.integers(5)
    if way == 0 and array.dtype == np.float64:
        array.flat[rng.integers(array.size)] = rng.choice(SPECIAL)
    elif way == 1:
        array.flat[rng.integers(array.size)] = array.flat[rng.integers(array.size)]
    elif way == 2:
        array = rng.permutation(array, axis=int(rng.integers(array.ndim)))
    elif way == 3 and array.dtype != np.bool_:
        array = array * array.dtype.type(rng.choice([-1, 0, 2]))
    else:
        array = array.repeat(rng.integers(3), axis=0)
    return npy(np.ascontiguousarray(array))


def mutated_bytes(data: bytes, rng: np.random.Generator, *, start: int = 0) -> bytes:
    """Bytes with some of them flipped, exchanged, cut out, or put in, at or after ``start``."""
    changed = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        if len(changed) <= start:
            break
        i = int(rng.integers(start, len(changed)))
        length = int(rng.integers(1, 9))
        way = rng.integers(5)
        if way == 0:
            changed[i] ^= 1 << int(rng.integers(8))
        elif way == 1:
            changed[i : i + length] = rng.bytes(min(length, len(changed) - i))
        elif way == 2:
            del changed[i : i + length]
        elif way == 3:
            changed[i:i] = changed[i : i + length]
        else:
            changed[i] = int(rng.choice(np.frombuffer(b"\0\xff09(),' }", np.uint8)))
    return bytes(changed)


def mutated_members(members: Members, rng: np.random.Generator) -> Members:
    """Members of a file with one of them changed in one of many ways."""
    names = list(members)
    name, other = (str(x) for x in rng.choice(names, 2))
    way = rng.random()
    if way < 0.25:
        return {**members, "model.json": mutated_text(members["model.json"], rng)}
    if way < 0.6 and name != "model.json":
        return {**members, name: mutated_numbers(members[name], rng)}
    if way < 0.7:  # headers are at the front
        return {**members, name: mutated_bytes(members[name][:128], rng) + members[name][128:]}
    if way < 0.75:
        return {**members, name: members[other]}
    return {**members, name: mutated_bytes(members[name], rng)}


def works(model: StateModel) -> None:
    """Whether a model that was accepted keeps what every model promises; warnings are errors here."""
    if model._farthest().min() < 2e6:  # centres at one point, or narrow as a hair: then it has to say so
        with pytest.raises(InputError, match="too far from the frames of the fit"):
            model.transform(np.full((1, model.n_columns), 1e7))
        return
    x = np.concatenate([frames_of(model, 20), np.zeros((1, model.n_columns)), np.full((1, model.n_columns), 1e6)])
    labels, scores, soft = model.transform(x), model.decision_function(x), model.memberships(x)
    assert labels.dtype == np.int32
    assert labels.min() >= 0
    assert labels.max() < model.n_states
    assert scores.shape == soft.shape == (len(x), model.n_states)
    assert not np.isnan(scores).any()
    assert soft.min() >= 0.0
    assert np.abs(soft.sum(axis=1) - 1.0).max() < 1e-5
    assert not np.isnan(model.margin(x)).any()
    assert type(model).__name__ in repr(model)
    if isinstance(model, MarginModel):
        assert model.gap >= 0.0
        assert all(isinstance(text, str) for text in model.warnings)


@pytest.fixture(scope="module")
def small_files(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Files of few features, so that mutations hit everything."""
    x = hidden_markov_wells(200, 2).frames
    few: Models = {
        **models,
        "M3C": quick(2, n_features=6, bandwidth=(1.0, 2.0)).fit_fetch(x),
        "MMC": MMC(2, n_features=6, bandwidth=1.0, starts=("kmeans",), metric="standard", random_state=0).fit_fetch(x),
        "PCCAPlus": PCCAPlus(2, n_microstates=5, n_restarts=1, random_state=0).fit_fetch(x),
    }
    return {name: bytes_of(model, tmp_path_factory.mktemp("small")) for name, model in few.items()}


def largest_memory() -> float:
    """Most memory in bytes that this process ever had, where the system tells."""
    if sys.platform == "win32":
        return 0.0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)


class TestMutations:
    """Always a clear error or a model that works."""

    def accepted(self, data: bytes, folder: Path) -> bool:
        message = ""
        try:
            model = loaded(data, folder)
        except ModelFileError as error:
            message = str(error)
        if message:
            assert "given.m3c cannot be used: " in message
            assert len(message) < 1000
        else:
            works(model)
        return not message

    @by_name
    def test_members_with_correct_checksums(self, name: str, small_files: Files, tmp_path: Path) -> None:
        members, rng = members_of(small_files[name]), np.random.default_rng(NAMES.index(name))
        before = largest_memory()
        outcomes = [self.accepted(zipped(mutated_members(members, rng)), tmp_path) for _ in range(340)]
        # Mutations of either fate, or the test says nothing.
        assert min(outcomes.count(True), outcomes.count(False)) > 40
        assert largest_memory() - before < 100e6

    @by_name
    def test_any_bytes(self, name: str, small_files: Files, tmp_path: Path) -> None:
        data, rng = small_files[name], np.random.default_rng(NAMES.index(name))
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            directory = archive.start_dir
        outcomes = [
            self.accepted(mutated_bytes(data, rng, start=directory if i % 2 else 0), tmp_path) for i in range(200)
        ]
        assert outcomes.count(False) > 100


def test_a_folder_is_no_model_and_the_file_in_it_is_named(tmp_path):
    with pytest.raises(IsADirectoryError, match=r"is a folder; give the file of the model in it, e.g. .*model\.m3c$"):
        load_model(tmp_path)
    (tmp_path / "three.m3c").write_bytes(b"")
    with pytest.raises(IsADirectoryError, match=r"is a folder; .*three\.m3c$"):
        load_model(tmp_path)
