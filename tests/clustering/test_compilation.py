"""The first fit of all says why it takes longer than the next one, and the next one does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import m3c_md
from m3c_md.clustering import compilation
from m3c_md.clustering.compilation import COMPILING, is_compiled, titled

pytest.importorskip("numba")
LOOK = """
from m3c_md.clustering.compilation import is_compiled
print(is_compiled())
"""


def loops(folder: Path | None, signatures: tuple[object, ...] = ()) -> SimpleNamespace:
    stats = SimpleNamespace(cache_path=None if folder is None else str(folder))
    return SimpleNamespace(pass_loop=SimpleNamespace(signatures=signatures, stats=stats, __name__="pass_loop"))


def test_loops_in_the_cache_or_in_memory_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "compiled", lambda: loops(tmp_path))
    assert not is_compiled()
    assert titled("M3C") == f"M3C ({COMPILING})"
    (tmp_path / "compiled_loops.pass_loop-135.py311.nbi").write_bytes(b"")
    assert is_compiled()
    assert titled("M3C") == "M3C"
    monkeypatch.setattr(compilation, "compiled", lambda: loops(tmp_path / "nowhere", (object(),)))
    assert is_compiled()


def test_without_numba_there_is_nothing_to_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "compiled", lambda: None)
    assert is_compiled()


def test_an_empty_cache_is_noticed(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    environment.pop("M3C_MD_NO_NUMBA", None)
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        cwd=Path(m3c_md.__file__).parents[1],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False"]
