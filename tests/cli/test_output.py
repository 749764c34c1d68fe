"""Folders and console: no half files, no lost files, warnings without source lines, quick help."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import m3c_md
from m3c_md.cli import main
from m3c_md.cli.console import Console, plain_warnings
from m3c_md.cli.output import OutputFolder
from m3c_md.exceptions import M3CWarning


class TestFolder:
    def test_a_file_that_fails_leaves_nothing_and_the_old_one(self, tmp_path):
        (tmp_path / "report.txt").write_text("old")

        def fail(folder):
            with folder.writing("report.txt") as path:
                path.write_text("half")
                raise ValueError("full disk")

        with OutputFolder(tmp_path, ["report.txt"], force=True) as folder, pytest.raises(ValueError, match="full disk"):
            fail(folder)
        assert [path.name for path in tmp_path.iterdir()] == ["report.txt"]
        assert (tmp_path / "report.txt").read_text() == "old"

    def test_a_file_in_place_of_the_folder(self, tmp_path):
        (tmp_path / "file").write_text("")
        with (
            pytest.raises(NotADirectoryError, match="--out"),
            OutputFolder(tmp_path / "file", ["report.txt"], force=True),
        ):
            pass

    def test_other_files_are_no_obstacle_and_stay(self, tmp_path):
        (tmp_path / "mine.txt").write_text("mine")
        with OutputFolder(tmp_path, ["report.txt"], force=False) as folder:
            folder.text("report.txt", "new")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt", "report.txt"]

    def test_what_is_read_is_not_replaced(self, arrays, tmp_path, capsys):
        (tmp_path / "labels").mkdir()
        mine = tmp_path / "labels" / "mine.npy"
        mine.write_bytes(Path(arrays[0]).read_bytes())
        assert main(["fit", str(mine), "--n-states", "2", "--out", str(tmp_path), "--force"]) == 2
        assert "mine.npy is read and would be replaced" in capsys.readouterr().err
        assert mine.exists()


def test_warnings_are_plain_lines_told_once(capsys):
    console = Console(json=False)
    with plain_warnings(console):
        for _ in range(2):
            warnings.warn("states\n overlap", M3CWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: states overlap\n"
    assert console.warnings == ["states overlap"]


@pytest.mark.parametrize("command", ["fit", "transform", "compare", "scan"])
def test_help_has_examples(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"examples:\n  m3c-md {command} " in capsys.readouterr().out


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom m3c_md.cli import main\ntry:\n    main(['fit', '--help'])\nexcept SystemExit:\n    pass\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    home = Path(m3c_md.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=home, capture_output=True, text=True, check=True)
    assert not {"numpy", "deeptime", "mdtraj", "matplotlib", "pandas", "tqdm"} & set(done.stderr.split())
