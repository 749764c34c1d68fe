"""The README keeps its promises: its example runs as printed and its files exist."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
import numpy as np

import m3c_md

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_example_runs_as_printed():
    matplotlib.use("Agg")
    first, relevance, rates, second = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(first, names)
    assert names["msm"].transition_matrix.shape == (3, 3)
    assert np.trace(names["msm"].transition_matrix) > 2.9
    assert names["ax"].get_legend() is not None
    exec(relevance, names)
    assert len(names["ax"].patches) == len(names["model"].relevance) == 2
    assert [x.shape for x in names["slow"]] == [(len(x), 1) for x in names["trajs"]]
    exec(rates, names)
    assert abs(names["result"].states["population"].sum() - 1.0) < 1e-9
    # The last goes on where the first ended; two trajectories and the quick methods will do to see that it runs.
    names["trajs"] = names["trajs"][:2]
    exec(second.replace("n_states=3,", 'n_states=3, methods=("pcca+", "k-medoids"), n_jobs=1,'), names)
    assert names["comparison"].table.index.tolist() == ["PCCA+ (10)", "k-medoids"]


def test_linked_files_exist():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    local = [link for link in links if not link.startswith("http")]
    assert local
    for link in local:
        assert (Path(__file__).parents[1] / link).is_file(), link


def test_the_comparison_is_that_of_the_results():
    """The table of systems is made by ``benchmarks/paper/report.py``, not typed."""
    results = (Path(__file__).parents[1] / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    table = results.split("## In short\n\n")[1].split("\n\n")[0]
    assert len(table.splitlines()) > 8
    assert table in README


def test_every_room_is_described():
    for module in Path(m3c_md.__file__).parent.rglob("*.py"):
        if module.stem.startswith("__") or module.parent.name in ("plots", "systems"):
            continue
        assert f"`{module.stem}`" in README or f"`{module.name}`" in README, module.name
