"""What a report holds: numbers of the model, names that are unique, nothing from elsewhere, and not too much of it."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from m3c_md import KMedoids, M3CModel
from m3c_md.exceptions import InputError, M3CWarning
from m3c_md.report.findings import find
from m3c_md.report.page import MOST_BYTES, Page, Section, remedy_of, warnings_section
from m3c_md.report.provenance import Provenance, versions
from tests.conftest import hidden_markov_wells
from tests.report.conftest import EVIL


@pytest.fixture(scope="module")
def text(report: Path) -> str:
    return report.read_text(encoding="utf-8")


class TestPage:
    def test_verdict_and_numbers_come_first(self, text: str, searched_model: M3CModel, three_wells: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", M3CWarning)
            found = find(searched_model, [three_wells.frames], dt=0.5, random_state=0)
        head = text[: text.index("<main>")]
        assert "3 metastable states; the slowest exchange takes" in head
        assert f"<dd>{found.quality:.3f} <small>of at most 3, lag time 0.5" in head
        assert f"<dd>{searched_model.populations.min():.1%} " in head
        body = text[text.index("<main>") :]
        for share in found.kinetics.states["life time"]:
            assert f"<td>{share:.3g} (" in body

    def test_it_has_all_parts(self, text: str) -> None:
        titles = re.findall(r"<h2>(.*?)</h2>", text)
        assert titles == [
            *("States", "Map", "Structures", "Implied timescales", "Chapman-Kolmogorov test", "Relevance"),
            *("Kinetics", "Search", "Warnings", "How to reproduce"),
        ]
        anchors = re.findall(r'<a href="#([^"]+)"', text)
        assert all(f'<section id="{anchor}">' in text for anchor in anchors)
        assert len(anchors) == len(titles)

    def test_names_within_are_unique_and_found(self, text: str) -> None:
        markup = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
        names = Counter(re.findall(r'\bid="([^"]+)"', markup))
        assert [name for name, count in names.items() if count > 1] == []
        used = set(re.findall(r'href="#([^"]+)"', markup)) | set(re.findall(r"url\(#([^)]+)\)", markup))
        assert used - set(names) == set()

    def test_nothing_comes_from_elsewhere(self, text: str) -> None:
        markup = re.sub(r"<script>.*?</script>|<details>.*?</details>", "", text, flags=re.DOTALL)
        assert "http://" not in markup
        assert "https://" not in markup
        assert {link[:1] for link in re.findall(r'(?:href|src)="([^"]*)"', markup)} == {"#", "d"}  # within, or data
        assert "default-src 'none'" in markup

    def test_it_is_small_and_carries_the_licence_of_what_it_carries(self, text: str) -> None:
        assert len(text.encode()) < MOST_BYTES
        assert "$3Dmol.createViewer" in text
        assert "University of Pittsburgh" in text

    def test_names_are_escaped(self, text: str) -> None:
        assert EVIL not in text
        assert "&lt;script&gt;window.evil" in text

    def test_it_says_how_to_get_it_again(self, text: str) -> None:
        part = text[text.index("<h2>How to reproduce") :]
        assert "model.report(" in part
        assert "random_state=0" in part
        assert versions()["numpy"] in part


def test_a_page_without_molecules_needs_no_viewer() -> None:
    page = Page("a", "b", sections=[Section("c", "<p>d</p>")]).html()
    assert "University of Pittsburgh" not in page
    assert len(page) < 20_000


class TestReportsOfModels:
    def test_the_users_style_and_figures_are_left_alone(
        self, searched_model: M3CModel, three_wells: Any, tmp_path: Path
    ) -> None:
        mine = plt.figure()
        with plt.rc_context({"axes.facecolor": "#123456", "svg.fonttype": "path"}), warnings.catch_warnings():
            warnings.simplefilter("ignore", M3CWarning)
            path = searched_model.report(tmp_path / "a.html", three_wells.frames, core=True, random_state=0)
            assert plt.rcParams["axes.facecolor"] == "#123456"
        assert plt.get_fignums() == [mine.number]
        text = path.read_text(encoding="utf-8")
        assert "#123456" not in text
        assert "cored with margin" in text

    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")
    def test_same_seed_same_file(
        self, report: Path, searched_model: M3CModel, three_wells: Any, structures: list[Path], tmp_path: Path
    ) -> None:
        path = tmp_path / "again.html"
        searched_model.report(path, [three_wells.frames], dt=0.5, unit=EVIL, structures=structures, random_state=0)
        first, second = report.read_text(encoding="utf-8"), path.read_text(encoding="utf-8")
        assert first.replace(str(report), "here") == second.replace(str(path), "here")

    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")
    def test_a_model_that_knows_little_has_a_short_report(self, tmp_path: Path) -> None:
        x = hidden_markov_wells(400, 2).frames[:, :1]
        path = KMedoids(2, random_state=0).fit_fetch(x).report(tmp_path / "k.html", x, random_state=0)
        titles = re.findall(r"<h2>(.*?)</h2>", path.read_text(encoding="utf-8"))
        assert "States" in titles
        assert not {"Map", "Structures", "Relevance", "Search"} & set(titles)

    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")
    def test_states_that_never_meet(self, searched_model: M3CModel, three_wells: Any, tmp_path: Path) -> None:
        # Each trajectory stays where it is: nothing is known about exchange, and the report says so.
        states = searched_model.transform(three_wells.frames)
        apart = [three_wells.frames[states == k] for k in range(3)]
        text = searched_model.report(tmp_path / "apart.html", apart, random_state=0).read_text(encoding="utf-8")
        assert "do not connect" in text

    @pytest.mark.parametrize(
        ("changed", "complaint"),
        [
            ({"structures": "state_0.pdb"}, "structures='state_0.pdb' must be 3 PDB files"),
            ({"structures": ["a.pdb"]}, "must be 3 PDB files"),
            ({"structures": ["a", "b", "c"]}, "structures holds 'a', which cannot be read"),
            ({"dt": 0.0}, "dt="),
            ({"unit": 3}, "unit="),
            ({"lagtime": 0}, "lagtime="),
            ({"core": "yes"}, "core="),
            ({"path": ""}, "path="),
        ],
    )
    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")
    def test_bad_settings(
        self, changed: dict[str, Any], complaint: str, searched_model: M3CModel, three_wells: Any, tmp_path: Path
    ) -> None:
        with pytest.raises(InputError, match=re.escape(complaint)):
            searched_model.report(**{"path": tmp_path / "r.html", "data": three_wells.frames, **changed})
        assert list(tmp_path.iterdir()) == []


class TestWarnings:
    def test_each_has_its_remedy(self) -> None:
        body = warnings_section(["t3 is <low>; t4 too. Remedy: look for fewer states", "it is so", "it is so"]).body
        assert body.count("<li>") == 2
        assert "t3 is &lt;low&gt;; t4 too.<em>Look for fewer states.</em>" in body

    def test_a_warning_without_one(self) -> None:
        assert remedy_of("it is so") == ("it is so", "")


def test_where_it_comes_from() -> None:
    body = Provenance("m3c-md fit '<x>'", 7, ["a <b>: 5 frames"], 1.25).section().body
    assert "m3c-md fit &#x27;&lt;x&gt;&#x27;" in body
    assert "a &lt;b&gt;: 5 frames" in body
    assert "<th>seed</th><td>7</td>" in body
    assert "<th>time</th><td>1.2 s</td>" in body


def test_numbers_that_are_not_known_are_dashes() -> None:
    import pandas as pd

    from m3c_md.report.study_report import as_text

    table = pd.DataFrame({"Q": [2.0, np.nan], "Q ±": [np.nan, np.nan], "n": [1, 2]})
    assert as_text(table).to_dict("list") == {"Q": ["2", "-"], "n": ["1", "2"]}
