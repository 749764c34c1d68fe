"""What is published says the same everywhere: version, dependencies, changelog, and what a package index shows."""

from __future__ import annotations

import re
import runpy
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import m3c_md

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Packages that have another name where conda looks for them.
CONDA_NAMES = {"matplotlib": "matplotlib-base", "ortools": "ortools-python"}


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / ".ci" / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))


class TestRecipe:
    def test_has_the_version(self, recipe: dict[str, Any]) -> None:
        assert recipe["context"]["version"] == m3c_md.__version__

    def test_has_the_dependencies_of_the_project(self, recipe: dict[str, Any]) -> None:
        names = [re.fullmatch(r"([\w-]+)(>=[\d.]+)", requirement) for requirement in PROJECT["dependencies"]]
        expected = [f"{CONDA_NAMES.get(found[1], found[1])} {found[2]}" for found in names]
        python, *packages = recipe["requirements"]["run"]
        assert packages == expected
        lowest = recipe["context"]["python_min"]
        assert python.replace("${{ python_min }}", lowest).removeprefix("python ") == PROJECT["requires-python"]

    def test_builds_as_the_project_does(self, recipe: dict[str, Any]) -> None:
        system = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
        host = [requirement.replace(" ", "") for requirement in recipe["requirements"]["host"]]
        assert [requirement for requirement in system["requires"] if requirement not in host] == []
        assert recipe["build"]["noarch"] == "python"
        commands = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
        assert recipe["build"]["python"]["entry_points"] == commands
        assert recipe["about"]["license"] == PROJECT["license"]


class TestCitation:
    def test_has_version_licence_and_title(self) -> None:
        yaml = pytest.importorskip("yaml")
        citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
        assert str(citation["version"]) == m3c_md.__version__
        assert (citation["title"], citation["license"]) == (PROJECT["name"], PROJECT["license"])
        number = citation["preferred-citation"]["identifiers"][0]["value"]
        assert number in (ROOT / "README.md").read_text(encoding="utf-8")


class TestChangelog:
    HEADINGS = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)

    def test_sections_are_unreleased_or_versions_with_dates_newest_first(self) -> None:
        first, *rest = self.HEADINGS
        dated = self.HEADINGS if first != "[Unreleased]" else rest
        found = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)", heading) for heading in dated]
        assert all(found), f"sections are [Unreleased], or [X.Y.Z] - YYYY-MM-DD: {dated}"
        versions = [tuple(map(int, one[1].split("."))) for one in found]
        days = [date.fromisoformat(one[2]) for one in found]
        assert versions == sorted(versions, reverse=True)
        assert days == sorted(days, reverse=True)

    def test_the_day_of_the_release_is_that_of_the_citation(self) -> None:
        yaml = pytest.importorskip("yaml")
        citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
        released = f"[{citation['version']}] - {citation['date-released']}"
        assert released in self.HEADINGS

    def test_the_version_is_the_newest_or_the_next(self) -> None:
        versions = re.findall(r"\[(\d+\.\d+\.\d+)\]", " ".join(self.HEADINGS))
        assert self.HEADINGS[0] == "[Unreleased]" or versions[0] == m3c_md.__version__
        parts = [tuple(map(int, version.split("."))) for version in (*versions[:1], m3c_md.__version__)]
        assert parts == sorted(parts)


class TestDescription:
    """What a package index shows."""

    TEXT = (ROOT / PROJECT["readme"]).read_text(encoding="utf-8")
    README = (ROOT / "README.md").read_text(encoding="utf-8")

    def test_is_made_of_the_readme(self) -> None:
        describe = runpy.run_path(str(ROOT / ".ci" / "describe.py"), run_name="describe")["description"]
        assert describe(self.README) == self.TEXT, "run `python .ci/describe.py`"

    def test_has_no_picture_and_no_link_into_the_clone(self) -> None:
        assert "![" not in self.TEXT
        assert "<!--" not in self.TEXT
        assert [link for link in re.findall(r"\]\(([^)]*)\)", self.TEXT) if not link.startswith("https://")] == []

    def test_says_what_it_is_how_to_begin_what_words_mean_and_what_to_cite(self) -> None:
        headings = re.findall(r"^#+ (.*)$", self.TEXT.replace("```python\n", ""), flags=re.MULTILINE)
        assert headings == ["m3c_md", "Two commands", "Ten lines", "Words", "Citation"]
        assert "python -m pip install . && m3c-md demo" in self.TEXT
        assert "M3C(n_states=3, lagtime=1, random_state=0).fit_fetch(trajs)" in self.TEXT
        assert "arXiv:1501.00125" in self.TEXT
