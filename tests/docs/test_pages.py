"""The pages keep their promises: cells run as printed, links lead somewhere, pages need no network."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import matplotlib
import numpy as np
import pytest

import m3c_md.systems

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Not what builds leave behind, nor the licence of what is vendored.
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if not {"_build", "_static", "jupyter_execute"} & set(path.parts)]
LINKED = [*PAGES, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
LINKED += [ROOT / folder / "README.md" for folder in ("notebooks", "benchmarks", "data")]
PUBLIC = ("m3c_md", *(f"m3c_md.{name}" for name in ("data", "features", "plots", "systems", "validation")))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def cells_of(path: Path) -> list[str]:
    return [code for language, code in FENCE.findall(path.read_text(encoding="utf-8")) if language == "python"]


@pytest.fixture(scope="module")
def simulated_once() -> Iterator[None]:
    """Simulations of many pages are one and the same, and take seconds."""
    kept: dict[str, list[np.ndarray]] = {}

    @wraps(m3c_md.systems.simulate)  # its docstring is looked at while this stands in
    def simulate(model: Any, rng: np.random.Generator, **options: Any) -> list[np.ndarray]:
        key = repr((model, rng.bit_generator.state, options))
        if key not in kept:
            kept[key] = m3c_md.systems.diffusion.simulate(model, rng, **options)
        return [trajectory.copy() for trajectory in kept[key]]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(m3c_md.systems, "simulate", simulate)
        yield


@pytest.mark.usefixtures("simulated_once")
@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.AmbiguousSolutionWarning")  # it is about the data of an example
@pytest.mark.parametrize("path", [path for path in PAGES if cells_of(path)], ids=name_of)
def test_the_cells_of_a_page_run_as_printed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One after the other, in an empty folder; a warning is an error, as everywhere in the tests."""
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code in cells_of(path):
        exec(compile(code, name_of(path), "exec"), names)
    assert capsys.readouterr().err == ""


def text_without_code(path: Path) -> str:
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", path.read_text(encoding="utf-8")))


def anchors_of(path: Path) -> set[str]:
    """Anchors of the headings of a page, as MyST and the hosts of clones make them."""
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text(encoding="utf-8")), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", LINKED, ids=name_of)
def test_links_inside_lead_to_files_and_headings(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", text_without_code(path)):
        if link.startswith(("http:", "https:")):
            continue
        target, _, anchor = unquote(link).partition("#")
        file = (path.parent / target).resolve() if target else path
        assert file.is_file(), f"{name_of(path)} links to {link}, which is not there"
        assert file.is_relative_to(ROOT)
        assert not anchor or anchor in anchors_of(file), f"{name_of(path)} links to {link}, which has no such heading"


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_included_files_exist(path: Path) -> None:
    for included in re.findall(r"^```\{include\} (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
        assert (path.parent / included).is_file(), included


def test_every_page_is_in_a_table_of_contents() -> None:
    """Named, or matched by a pattern of its folder; Sphinx would say the same, but is not installed everywhere."""
    listed = {DOCS / "index.md"}
    for page in PAGES:
        for body in re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.M):
            entries = [line.strip() for line in body.splitlines() if line.strip() and not line.startswith(":")]
            listed |= {found for entry in entries for found in page.parent.glob(f"{entry}.md")}
    assert [name_of(page) for page in PAGES if page not in listed] == []


def test_mathematics_is_drawn_without_a_network() -> None:
    script = (DOCS / "_static" / "mathjax" / "tex-svg.js").read_text(encoding="utf-8")
    assert "MathJax" in script
    assert (DOCS / "_static" / "mathjax" / "LICENSE").is_file()
    hosts = set(re.findall(r"https?://([\w.-]+)", script))
    # Names of formats, and the address in "About MathJax".
    assert hosts <= {"www.w3.org", "www.mathjax.org"}


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_has_an_example(module: str) -> None:
    """The doctests run it."""
    loaded = importlib.import_module(module)
    offered = [getattr(loaded, name) for name in loaded.__all__]
    missing = [found.__name__ for found in offered if callable(found) and ">>>" not in (inspect.getdoc(found) or "")]
    assert missing == []
