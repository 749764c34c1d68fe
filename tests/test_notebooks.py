"""The notebooks run from top to bottom, and what is stored in them is small, complete and says nothing of a machine."""

from __future__ import annotations

import base64
import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import m3c_md

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SECONDS_PER_NOTEBOOK = 600
# Notebooks that simulate need OpenMM, and more time.
SIMULATING = {"7_from_states_to_sampling": 1200}
LARGEST_FILE = 1_000_000
# Pixels; 75 dpi times the widest picture that is still readable on a page.
WIDEST_PICTURE = 1500
# Absolute paths below the folders where people and installers keep things, on Unix and on Windows; a path in a web
# address does not count.
MACHINE_PATH = re.compile(
    r"(?<![\w:/.])/(?:home|Users|root|tmp|usr|opt|var|private|mnt|work)/|\b[A-Z]:\\\\?\w|ipykernel_\d"
)

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])


def test_there_are_notebooks_and_each_has_a_line_in_their_readme():
    assert NOTEBOOKS
    readme = (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in NOTEBOOKS if path.name not in readme] == []


@each_notebook
def test_stored_outputs_are_complete_and_in_order(path: Path):
    cells = _code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        for output in cell["outputs"]:
            assert output["output_type"] != "error", "".join(output["traceback"])
            # Warnings come with the path of the file that they are raised in, progress bars with the width of a window.
            assert output.get("name") != "stderr", "".join(output["text"])


@each_notebook
def test_stored_outputs_are_small_and_have_pictures(path: Path):
    assert path.stat().st_size < LARGEST_FILE
    assert _count_pictures(_outputs(path)) > 0
    for output in _outputs(path):
        if "image/png" in output.get("data", {}):
            picture = base64.b64decode("".join(output["data"]["image/png"]))
            assert max(_png_size(picture)) <= WIDEST_PICTURE


@each_notebook
def test_nothing_stored_names_a_machine(path: Path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert set(notebook["metadata"]) <= {"kernelspec", "language_info"}
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    for cell in notebook["cells"]:
        assert not {"execution", "collapsed"} & set(cell["metadata"]), "times of execution are stored"
        texts = ["".join(cell["source"])]
        for output in cell.get("outputs", []):
            texts += ["".join(output.get("text", "")), *_texts(output.get("data", {}))]
        for text in texts:
            assert not MACHINE_PATH.search(text), MACHINE_PATH.search(text)
            assert " at 0x" not in text, "a repr with an address changes in every run"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/home/somebody/x.py:3: UserWarning", True),
        ("C:\\Users\\somebody", True),
        ("/tmp/ipykernel_17/1.py", True),
        ("trajectories/run0.xtc, t / ps, and/or https://example.org/home/page", False),
    ],
)
def test_machine_paths_are_recognised(text: str, found: bool):
    assert bool(MACHINE_PATH.search(text)) == found


# Runs a notebook as Jupyter would, and prints what came of it. The limit of nbclient is one on every cell: what the
# cells before have left over makes it one on them all.
EXECUTE = """
import os, sys, time
import nbformat
from nbclient import NotebookClient

path, kernel, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3])
notebook = nbformat.read(path, as_version=4)
deadline = time.monotonic() + seconds
NotebookClient(
    notebook,
    timeout_func=lambda cell: max(1, int(deadline - time.monotonic())),
    kernel_name=kernel,
    resources={"metadata": {"path": os.path.dirname(path)}},
).execute()
sys.stdout.write(nbformat.writes(notebook))
"""


@each_notebook
def test_the_notebook_runs(path: Path, executed_notebooks: dict[str, Future[subprocess.CompletedProcess[str]]]):
    for name in ("nbclient", "nbformat", "ipykernel"):
        pytest.importorskip(name, reason=f"{name} executes the notebooks; install the extra 'notebooks'")
    if path.stem in SIMULATING:
        pytest.importorskip("openmm", reason="it simulates; install the extra 'simulate'")
    done = executed_notebooks[path.stem].result()
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert ["".join(output["text"]) for output in outputs if output.get("name") == "stderr"] == []
    assert _count_pictures(outputs) == _count_pictures(_outputs(path))


def execution(folder: Path) -> Callable[[Path], subprocess.CompletedProcess[str]]:
    """Function that executes a notebook in a process of its own; Jupyter's files go to the folder."""
    # Jupyter would warn that its folders will move.
    known = {"JUPYTER_PATH": str(folder), "JUPYTER_RUNTIME_DIR": str(folder / "runtime"), "JUPYTER_PLATFORM_DIRS": "1"}
    kernel = running_interpreter(folder)

    def execute(path: Path) -> subprocess.CompletedProcess[str]:
        seconds = SIMULATING.get(path.stem, SECONDS_PER_NOTEBOOK)
        command = [sys.executable, "-c", EXECUTE, str(path), kernel, str(seconds)]
        return subprocess.run(command, env={**os.environ, **known}, capture_output=True, text=True, check=False)

    return execute


def running_interpreter(folder: Path) -> str:
    """Name of a kernel that is the running interpreter with the package under test, whatever Jupyter knows."""
    name = "running-interpreter"
    (folder / "kernels" / name).mkdir(parents=True)
    package = str(Path(m3c_md.__file__).parents[1])
    search_path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    specification: dict[str, Any] = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "the running interpreter",
        "language": "python",
        # As in a fresh session of a user: no configuration, no history, and pictures drawn inside the notebook.
        "env": {"PYTHONPATH": search_path, "IPYTHONDIR": str(folder / "ipython"), "MPLBACKEND": ""},
    }
    (folder / "kernels" / name / "kernel.json").write_text(json.dumps(specification), encoding="utf-8")
    return name


def _code_cells(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code" and "".join(cell["source"]).strip()]


def _outputs(path: Path) -> Iterator[dict[str, Any]]:
    for cell in _code_cells(path):
        yield from cell["outputs"]


def _count_pictures(outputs: Iterable[dict[str, Any]]) -> int:
    return sum("image/png" in output.get("data", {}) for output in outputs)


def _texts(data: dict[str, Any]) -> list[str]:
    """Everything in an output that is not a picture."""
    return ["".join(value) for kind, value in data.items() if not kind.startswith("image/png")]


def _png_size(png: bytes) -> tuple[int, int]:
    """Width and height of a PNG picture, which stand at a fixed place of its header."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    return int(width), int(height)
