"""The README keeps its promises: its example runs as printed and its files exist."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
import numpy as np

import m3c_md

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_runs_as_printed():
    matplotlib.use("Agg")
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    assert names["msm"].transition_matrix.shape == (3, 3)
    assert np.trace(names["msm"].transition_matrix) > 2.9
    assert names["ax"].get_legend() is not None


def test_it_is_short_and_begins_in_words_of_chemistry():
    assert len(README.splitlines()) <= 120
    first = README.split("\n## ")[0]
    assert [word for word in ("dual", "kernel", "certificate", "convex", "large-margin") if word in first] == []
    # Two pictures and two tables, of which one compares.
    assert len(re.findall(r"!\[", README)) == 2
    assert README.count("| TICA + PCCA+ |") == 1


def test_linked_files_exist():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    local = [link for link in links if not link.startswith("http")]
    assert local
    for link in local:
        assert (ROOT / link).is_file(), link


def test_the_comparison_is_that_of_the_results():
    """The table of systems is made by ``benchmarks/paper/report.py``, not typed."""
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    table = results.split("## The rivals that people use\n\n")[1].split("\n\n")[1]
    assert len(table.splitlines()) > 8
    assert table in README


def test_every_room_is_described():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for module in Path(m3c_md.__file__).parent.rglob("*.py"):
        if module.stem.startswith("__") or module.parent.name in ("plots", "systems"):
            continue
        described = f"`{module.stem}`" in page or f"`{module.name}`" in page
        assert described, f"say in the table of docs/architecture.md what {module.name} is for"


def test_the_architecture_section_is_easy_to_find():
    for text in (README, (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        assert "[architecture section](docs/architecture.md)" in text
