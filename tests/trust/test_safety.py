"""Files and texts of others do no harm: nothing is executed, nothing grows, nothing gets into a page as markup.

Model files are mutated in tests/clustering/test_model_file.py; here are caches, arrays and settings.
"""

from __future__ import annotations

import ast
import io
import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import m3c_md
import m3c_md.data
from m3c_md import M3C, DihedralFeaturizer, compare, load_model, scan_states
from m3c_md.cli import main
from m3c_md.cli.trajectories import FeatureSettings
from m3c_md.disk import parse_array, read_array
from m3c_md.exceptions import InputError
from m3c_md.features.cache import read_cached, write_cached
from tests.clustering.test_model_file import largest_memory, mutated_bytes
from tests.conftest import hidden_markov_wells
from tests.features import random_trajectory, topology_of

FEATURES = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
HOMES = (Path(m3c_md.__file__).parent, Path(m3c_md.data.__file__).parent)


def with_checksum(array: bytes) -> bytes:
    return array + f"{zlib.crc32(array):08x}".encode()


def outcome(call: Callable[[], Any]) -> tuple[Any, str]:
    """What a call returns, or in which words it refuses; other errors pass."""
    try:
        return call(), ""
    except InputError as error:
        return None, str(error)


class TestCaches:
    def test_what_is_written_is_an_array_for_everybody(self, tmp_path: Path) -> None:
        assert write_cached(tmp_path / "a.npy", FEATURES) is None
        assert np.array_equal(np.load(tmp_path / "a.npy", allow_pickle=False), FEATURES)
        assert (tmp_path / "a.npy").read_bytes() == with_checksum((tmp_path / "a.npy").read_bytes()[:-8])

    def test_any_damage_is_noticed(self, tmp_path: Path) -> None:
        file, rng = tmp_path / "a.npy", np.random.default_rng(1)
        write_cached(file, FEATURES)
        good, before = file.read_bytes(), largest_memory()
        for _ in range(500):
            bad = mutated_bytes(good, rng)
            file.write_bytes(bad)
            found = read_cached(file, 4)
            assert found is None or bad == good
        assert largest_memory() - before < 100e6

    def test_files_made_on_purpose_are_features_or_nothing(self, tmp_path: Path) -> None:
        """With checksums that are right, so that headers and numbers are looked at."""
        file, rng = tmp_path / "a.npy", np.random.default_rng(2)
        write_cached(file, FEATURES)
        good, before, accepted = file.read_bytes()[:-8], largest_memory(), 0
        for i in range(500):
            changed = mutated_bytes(good[:128], rng) + good[128:] if i % 2 else mutated_bytes(good, rng, start=128)
            file.write_bytes(with_checksum(changed))
            found = read_cached(file, 4)
            accepted += found is not None
            if found is not None:
                assert found.dtype == np.float32
                assert found.shape[1] == 4
                assert np.isfinite(found).all()
        assert 50 < accepted < 450
        assert largest_memory() - before < 100e6

    @pytest.mark.parametrize(
        "header",
        [
            b"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000000, 4), }",
            b"{'descr': '<f4', 'fortran_order': False, 'shape': (-7, -4), }",
            b"{'descr': '|O', 'fortran_order': False, 'shape': (7, 4), }",
            b"{'descr': '<f4', 'fortran_order': False, 'shape': __import__('os').mkdir('ran'), }",
            b"(" * 3000,
            b"{'descr': '<f4'}",
            b"",
        ],
    )
    def test_headers_that_lie(self, header: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        text = header + b"\n"
        data = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + FEATURES.tobytes()
        file = tmp_path / "a.npy"
        file.write_bytes(with_checksum(data))
        assert read_cached(file, 4) is None
        file.write_bytes(data)
        with pytest.raises(InputError, match=r"a\.npy (is no array file|is damaged|holds pickled objects)"):
            read_array(file)
        assert not (tmp_path / "ran").exists()


def test_mutated_arrays() -> None:
    """As they are read by the command line, and with the angles of a run."""
    rng, file = np.random.default_rng(3), io.BytesIO()
    np.save(file, np.random.default_rng(0).normal(size=(6, 2)))
    good, before, outcomes = file.getvalue(), largest_memory(), []
    for i in range(1500):
        bad = mutated_bytes(good[:128], rng) + good[128:] if i % 2 else mutated_bytes(good, rng)
        array, refusal = outcome(lambda bad=bad: parse_array(io.BytesIO(bad), len(bad), "x.npy"))
        assert refusal.startswith("x.npy ") or array.nbytes <= len(bad)
        outcomes.append(not refusal)
    assert min(outcomes.count(True), outcomes.count(False)) > 50
    assert largest_memory() - before < 100e6


def test_mutated_settings_of_features(tmp_path: Path) -> None:
    file, rng = tmp_path / "features.json", np.random.default_rng(4)
    good = FeatureSettings(["sin phi ALA 2", "cos phi ALA 2"], ["phi"], "resSeq 2").to_json().encode()
    for data in [b"[" * 100_000, b"", b"null", b'{"format": "m3c_md features"}'] + [
        mutated_bytes(good, rng) for _ in range(300)
    ]:
        file.write_bytes(data)
        settings, refusal = outcome(lambda: FeatureSettings.read(file))
        assert str(file) in refusal or all(isinstance(column, str) for column in settings.columns)


def calls_in(tree: ast.AST) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("home", HOMES, ids=["package", "data"])
def test_no_shell_no_pickle_no_evaluation(home: Path) -> None:
    files = [path for path in home.rglob("*.py") if "tests" not in path.parts]
    assert files
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imports = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imports |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        # Workers of the user's own cluster are sent to and fro what Dask itself would pickle; no file is involved.
        allowed = {"pickle"} if path.name == "cluster.py" else set()
        assert not (imports - allowed) & {"subprocess", "pickle", "marshal", "shelve", "dill", "cloudpickle"}, path
        assert not calls_in(tree) & {"eval", "exec", "os.system", "os.popen", "__import__", "joblib.load"}, path
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword):
                assert node.arg != "shell", path
                assert node.arg != "allow_pickle" or ast.unparse(node.value) == "False", path


ODD_NAMES = ["with spaces and 'quotes'", "ü 空 ☃", "a;touch ran;$(touch ran)`touch ran`", "-rf", "..x", "%s{x}"]


class TestNamesOfFiles:
    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_features_and_their_cache(self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = tmp_path / name
        (folder / "in").mkdir(parents=True)
        monkeypatch.chdir(folder / "in")
        trajectory = random_trajectory(topology_of(["ACE", "ALA", "NME"]), 5)
        trajectory.save(str(tmp_path / "plain.xtc"))
        shutil.copy(tmp_path / "plain.xtc", folder / f"{name}.xtc")
        featurizer = DihedralFeaturizer()
        expected = featurizer.transform(trajectory)
        for _ in range(2):  # the second time from the cache
            (found,) = featurizer.load(Path("..") / f"{name}.xtc", trajectory.topology, cache=Path("../in/../cache"))
            np.testing.assert_allclose(found, expected, atol=0.05)
        assert [path.suffix for path in (folder / "cache").iterdir()] == [".npy"]
        assert not list(tmp_path.rglob("ran"))

    def test_commands(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
        name = ODD_NAMES[2]
        (tmp_path / "in").mkdir()
        monkeypatch.chdir(tmp_path / "in")
        np.save(f"{name}.npy", hidden_markov_wells(200, 2).frames)
        out = "../out ü/../out ü"
        assert main(["fit", f"{name}.npy", "--n-states", "2", "--out", out, "--json"]) == 0
        written = json.loads(capsys.readouterr().out)["written"]
        assert f"labels/{name}.npy" in written
        assert all((tmp_path / "out ü" / path).is_file() for path in written)
        assert main(["transform", f"{out}/model.m3c", f"{name}.npy", "--out", "../new"]) == 0
        assert load_model(tmp_path / "out ü" / "model.m3c").n_states == 2
        assert not list(tmp_path.rglob("ran"))


EVIL = "<script>alert('x')</script>"


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")
class TestPages:
    def check(self, html: str) -> None:
        assert "<script>alert" not in html
        assert "&lt;script&gt;alert" in html

    def test_estimators(self) -> None:
        self.check(M3C(2, starts=(EVIL,))._repr_html_())

    def test_studies(self) -> None:
        trajs = [hidden_markov_wells(150, 2, seed).frames for seed in (0, 1)]
        comparison = compare(
            trajs, 2, methods="pcca+", n_microstates=8, unit=EVIL, lagtimes=[1, 500], n_jobs=1, random_state=0
        )
        self.check(comparison._repr_html_())
        scan = scan_states(trajs, 2, n_resamples=1, unit=EVIL, n_jobs=1, random_state=0)
        self.check(scan._repr_html_())
