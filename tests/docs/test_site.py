"""The site that Sphinx makes of the pages: no warning, every public name, nothing from another host."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import zlib
from importlib.util import find_spec
from pathlib import Path

import pytest

import m3c_md

ROOT = Path(__file__).parents[2]
PARTS = ("sphinx", "numpydoc", "myst_nb", "furo")
pytestmark = pytest.mark.skipif(
    any(find_spec(part) is None for part in PARTS), reason="needs the extra docs: sphinx, numpydoc, myst-nb and furo"
)
# Said to be public on the first page of the reference.
MODULES = ("m3c_md", "m3c_md.features", "m3c_md.validation", "m3c_md.plots", "m3c_md.data", "m3c_md.systems")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages built from nothing, in a copy of what they are made of: the clone stays as it is."""
    copy = tmp_path_factory.mktemp("clone")
    left_by_builds = shutil.ignore_patterns("_build", "jupyter_execute", "generated", "*.rst", "__pycache__")
    shutil.copytree(ROOT / "docs", copy / "docs", ignore=lambda folder, names: kept(folder, left_by_builds, names))
    for folder in ("notebooks", "benchmarks", "data"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("*.xtc", "*.npy", "results"))
    for file in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / file, copy)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "docs", "docs/_build"]
    # Beside the copy there is no package: it is the one that this process has.
    path = str(Path(m3c_md.__file__).parents[1])
    done = subprocess.run(
        command, cwd=copy, env={**environment(), "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return copy / "docs" / "_build"


def kept(folder: str, ignored, names: list[str]) -> set[str]:
    """Names to leave out; templates are ``.rst`` files that are meant to be there."""
    return set() if "_templates" in folder else ignored(folder, names)


def environment() -> dict[str, str]:
    """Variables of this process without what would lead to another package."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def described(site: Path) -> set[str]:
    """Every name that has a description, from the inventory that other projects link by."""
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return {line.split(" ", 1)[0] for line in zlib.decompress(packed).decode().splitlines()}


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference(module: str, described: set[str]) -> None:
    """Under its own module, or under another that offers the same thing."""
    loaded = importlib.import_module(module)
    homes = {id(getattr(importlib.import_module(home), name)): f"{home}.{name}" for home, name in offered()}
    assert loaded.__all__
    assert [name for name in loaded.__all__ if homes[id(getattr(loaded, name))] not in described] == []


def offered() -> list[tuple[str, str]]:
    """(module, name) of all that is public, the first module last: what two of them offer is described there."""
    return [(module, name) for module in reversed(MODULES) for name in importlib.import_module(module).__all__]


def test_every_error_and_warning_is_in_the_reference(described: set[str]) -> None:
    errors = importlib.import_module("m3c_md.exceptions")
    names = [
        name for name, thing in vars(errors).items() if isinstance(thing, type) and thing.__module__ == errors.__name__
    ]
    assert len(names) > 10
    assert [name for name in names if f"m3c_md.exceptions.{name}" not in described] == []


def test_members_of_models_are_described(described: set[str]) -> None:
    for name in ("fit", "fit_fetch", "fetch_model", "paper"):
        assert f"m3c_md.M3C.{name}" in described
    for name in ("transform", "margin", "gap", "save", "to_plumed", "relevance"):
        assert f"m3c_md.M3CModel.{name}" in described


def test_every_module_that_offers_names_is_said_to_be_public() -> None:
    package = Path(m3c_md.__file__).parent
    modules = {path.parent.name: path for path in package.glob("*/__init__.py")}
    modules |= {path.stem: path for path in package.glob("[a-z]*.py")}
    says = re.compile(r"^__all__", flags=re.MULTILINE)
    offers = {f"m3c_md.{name}" for name, path in modules.items() if says.search(path.read_text(encoding="utf-8"))}
    assert offers == set(MODULES) - {"m3c_md"}
    page = (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    assert [name for name in MODULES if f"`{name.removeprefix('m3c_md.')}`" not in page] == []


def test_every_command_is_described(site: Path) -> None:
    page = (site / "reference" / "command_line.html").read_text(encoding="utf-8")
    for command in ("demo", "fit", "transform", "kinetics", "compare", "scan", "export", "sample", "simulate"):
        assert f"usage: m3c-md {command}" in page


def test_notebooks_are_shown_with_their_stored_pictures(site: Path) -> None:
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        page = (site / "tutorial" / f"{notebook.stem}.html").read_text(encoding="utf-8")
        assert 'src="../_images/' in page, notebook.name


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 80
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)\b[^>]*\bsrc=\"([^\"]*)\"", text)
        loaded += re.findall(r"<link\b[^>]*\brel=\"(?:stylesheet|preload|icon)\"[^>]*\bhref=\"([^\"]*)\"", text)
        assert [address for address in loaded if "//" in address] == [], page.name


def test_links_between_pages_lead_somewhere(site: Path) -> None:
    """Files and, on the same page, anchors."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for link in re.findall(r"<a\b[^>]*\bhref=\"([^\"]*)\"", text):
            if "//" in link or link.startswith("mailto:"):
                continue
            file, _, anchor = link.partition("#")
            assert not file or (page.parent / file).resolve().is_file(), f"{page.name}: {link}"
            assert file or not anchor or f'id="{anchor}"' in text, f"{page.name}: {link}"


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
@pytest.mark.parametrize("page", ["explanation/certificate", "explanation/method", "tutorial/6_errata"])
def test_a_browser_draws_every_formula(site: Path, page: str) -> None:
    file = site / f"{page}.html"
    # Rounds of a clock that runs as fast as it can, until the page has settled.
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=30000", "--enable-logging=stderr"]
    done = subprocess.run(
        ["chromium", *options, "--dump-dom", file.as_uri()], capture_output=True, text=True, check=True, timeout=300
    )
    formulas = file.read_text(encoding="utf-8").count('class="math notranslate')
    assert done.stdout.count("<mjx-container") == formulas > 10
    assert re.findall(r'data-mjx-error="([^"]*)"', done.stdout) == []
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
