"""Files are complete or absent: full disks, folders that may not be written to, stops; for all that writes.

Models have such tests in tests/clustering/test_model_file.py, simulations in tests/cli/test_simulate_command.py.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pandas as pd
import pytest

from m3c_md import DihedralFeaturizer
from m3c_md.cli import main
from m3c_md.cli.output import OutputFolder
from m3c_md.disk import writing
from m3c_md.exceptions import TrajectoryWarning
from m3c_md.features.cache import read_cached, write_cached
from tests.conftest import hidden_markov_wells
from tests.features import random_trajectory, topology_of

NUMBERS = [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT]


def fails_with(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number), "some temporary name")

    return fail


def fails_on_disk(number: int, savefig: Callable[..., Any]) -> Callable[..., Any]:
    """Fail where a picture goes to a file, not where it is drawn in memory for a page."""
    fail = fails_with(number)

    def save(figure: Any, target: Any, **settings: Any) -> Any:
        return (fail if isinstance(target, str | os.PathLike) else savefig)(figure, target, **settings)

    return save


@contextlib.contextmanager
def small_files() -> Iterator[None]:
    """No file may grow beyond 3,000 bytes, as on a full disk; no longer than needed, for pytest writes files too."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def names_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


class TestWriting:
    def test_the_file_appears_at_the_end(self, tmp_path: Path) -> None:
        target = tmp_path / "a.txt"
        target.write_text("old")
        with writing(target, "the text") as partial:
            partial.write_text("new")
            assert target.read_text() == "old"
            assert partial.suffix == ".txt"
        assert target.read_text() == "new"
        assert names_in(tmp_path) == ["a.txt"]

    @pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, ValueError, MemoryError])
    def test_a_stop_leaves_the_old_file(self, stop: type[BaseException], tmp_path: Path) -> None:
        target = tmp_path / "a.txt"
        target.write_text("old")

        def half() -> None:
            with writing(target, "the text") as partial:
                partial.write_text("half")
                raise stop

        with pytest.raises(stop):
            half()
        assert names_in(tmp_path) == ["a.txt"]
        assert target.read_text() == "old"

    @pytest.mark.parametrize("number", NUMBERS)
    @pytest.mark.parametrize("step", ["write_text", "replace"])
    def test_errors_are_about_the_name_that_was_given(
        self, step: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def write() -> None:
            with writing(tmp_path / "a.txt", "the text") as partial:
                partial.write_text("new")

        monkeypatch.setattr(Path, step, fails_with(number))
        with pytest.raises(OSError, match=rf"the text was not written \({os.strerror(number)}\): '.*a\.txt'") as caught:
            write()
        assert caught.value.errno == number
        assert names_in(tmp_path) == []

    def test_errors_without_a_number(self, tmp_path: Path) -> None:
        """numpy says how much it could write, and not why it could write no more."""

        def write() -> None:
            with writing(tmp_path / "a.npy", "the array") as partial:
                np.save(partial, np.zeros(10_000))

        with small_files(), pytest.raises(OSError, match=r"the array was not written .*a\.npy"):
            write()
        assert names_in(tmp_path) == []


class TestCache:
    def test_no_room(self, tmp_path: Path) -> None:
        features = np.ones((3000, 4), dtype=np.float32)
        with small_files():
            said = write_cached(tmp_path / "a.npy", features)
        assert said is not None
        assert "a.npy" in said
        assert "name another cache" in said
        assert names_in(tmp_path) == []

    @pytest.mark.parametrize("number", NUMBERS)
    def test_features_are_worth_more_than_their_copy(
        self, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trajectory = random_trajectory(topology_of(["ACE", "ALA", "NME"]), 5)
        trajectory.save(str(tmp_path / "a.xtc"))
        monkeypatch.setattr(Path, "replace", fails_with(number))
        with pytest.warns(TrajectoryWarning, match=f"{os.strerror(number)}.*name another cache"):
            (features,) = DihedralFeaturizer().load(tmp_path / "a.xtc", trajectory.topology, cache=tmp_path / "c")
        assert features.shape == (5, 4)
        assert names_in(tmp_path) == ["a.xtc"]

    def test_an_old_copy_survives(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        old = np.ones((3, 4), dtype=np.float32)
        write_cached(tmp_path / "a.npy", old)
        with monkeypatch.context() as patch:
            patch.setattr(np, "save", fails_with(errno.ENOSPC))
            assert write_cached(tmp_path / "a.npy", 2.0 * old) is not None
        assert np.array_equal(read_cached(tmp_path / "a.npy", 4), old)


# Where each kind of result is written: what fails, and what was complete before.
WRITERS = {
    "labels": (np, "save", fails_with(errno.ENOSPC), []),
    "pictures": (
        matplotlib.figure.Figure,
        "savefig",
        fails_on_disk(errno.ENOSPC, matplotlib.figure.Figure.savefig),
        ["features.json", "labels/x.npy", "model.m3c", "report.txt"],
    ),
}


class TestCommands:
    @pytest.fixture
    def arrays(self, tmp_path: Path) -> str:
        (tmp_path / "in").mkdir()
        np.save(tmp_path / "in" / "x.npy", hidden_markov_wells(150, 2).frames)
        return str(tmp_path / "in" / "x.npy")

    @pytest.mark.parametrize("kind", WRITERS)
    def test_a_full_disk(
        self, kind: str, arrays: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
    ) -> None:
        home, function, failing, complete = WRITERS[kind]
        monkeypatch.setattr(home, function, failing)
        out = tmp_path / "out"
        assert main(["fit", arrays, "--n-states", "2", "--out", str(out)]) == 2
        last = capsys.readouterr().err.splitlines()[-1]
        assert "was not written (No space left on device); " in last
        assert ("finished and complete in" if complete else "nothing was written") in last
        assert "some temporary name" not in last
        assert names_in(out) == complete
        assert out.exists() == bool(complete)

    def test_tables_and_texts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def write(folder: OutputFolder) -> None:
            with folder:
                folder.text("report.txt", "done")
                monkeypatch.setattr(pd.DataFrame, "to_csv", fails_with(errno.ENOSPC))
                folder.table("table.csv", pd.DataFrame({"a": [1]}))

        message = r"table\.csv was not written \(No space left on device\); finished and complete in .*: report\.txt"
        with pytest.raises(OSError, match=message):
            write(OutputFolder(tmp_path / "out", ["report.txt", "table.csv"], force=False))
        assert names_in(tmp_path) == ["out/report.txt"]

    def test_a_disk_that_really_has_no_room(self, arrays: str, tmp_path: Path, capsys: Any) -> None:
        with small_files():
            assert main(["fit", arrays, "--n-states", "2", "--out", str(tmp_path / "out")]) == 2
        last = capsys.readouterr().err.splitlines()[-1]
        assert "model.m3c was not written" in last or "the model was not written" in last
        assert names_in(tmp_path / "out") == ["features.json", "labels/x.npy"]

    def test_results_of_an_earlier_run_survive(
        self, arrays: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
    ) -> None:
        out = tmp_path / "out"
        (out / "labels").mkdir(parents=True)
        np.save(out / "labels" / "old.npy", np.zeros(3))
        (out / "report.txt").write_text("old")
        monkeypatch.setattr(np, "save", fails_with(errno.ENOSPC))
        assert main(["fit", arrays, "--n-states", "2", "--out", str(out), "--force"]) == 2
        assert names_in(out) == ["labels/old.npy", "report.txt"]

    def test_a_folder_that_may_not_be_written_to(
        self, arrays: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
    ) -> None:
        """Known before the work is done; root may write everywhere, so this is asked of the system in its place."""
        monkeypatch.setattr(os, "access", lambda *_: False)
        monkeypatch.setattr("m3c_md.clustering.m3c.M3C.fit", fails_with(errno.EIO))
        assert main(["fit", arrays, "--n-states", "2", "--out", str(tmp_path / "out")]) == 2
        assert "may not be written to; choose another folder with --out" in capsys.readouterr().err
        assert names_in(tmp_path) == ["in/x.npy"]
