"""What notebooks show of results: a small table, and nothing that a name could turn into HTML."""

from __future__ import annotations

import numpy as np
import pytest

from m3c_md import DihedralFeaturizer, M3CModel
from m3c_md.data import alanine_dipeptide
from m3c_md.markov.timescales import ImpliedTimescales
from m3c_md.markup import table
from tests.report.conftest import EVIL


def test_models_show_their_states(searched_model: M3CModel) -> None:
    html = searched_model._repr_html_()
    assert html.startswith(f"<p>M3CModel: 3 states, lagtime=1, bandwidth={searched_model.bandwidth:.3g}")
    assert html.count("<tr>") == 4
    for state, share in enumerate(searched_model.populations):
        assert f"<tr><th>{state}</th><td>{share:.1%}</td><td>{searched_model.visits['entered'][state]}</td>" in html


def test_what_models_warn_of_is_escaped(searched_model: M3CModel) -> None:
    copy = searched_model.alternative(0)
    copy.warnings.append(EVIL)
    html = copy._repr_html_()
    assert EVIL not in html
    assert "&lt;script&gt;" in html
    assert "entered" not in html  # alternatives do not know


def test_timescales_show_where_they_are_level() -> None:
    its = ImpliedTimescales([1, 2, 5, 10], np.array([[5.0], [8.0], [10.0], [10.1]]), dt=0.5, unit=EVIL, warnings=[EVIL])
    html = its._repr_html_()
    assert "<tr><th>t2</th><td>5</td><td>-</td><td>2.5</td><td>level</td></tr>" in html
    assert EVIL not in html
    unresolved = ImpliedTimescales([2, 4], np.array([[1.0], [np.nan]]))._repr_html_()
    assert "<td>not resolved</td>" in unresolved


@pytest.mark.parametrize("used", [False, True])
def test_featurisers_show_their_columns_once_they_know_them(used: bool) -> None:
    featurizer = DihedralFeaturizer(("phi", "psi"))
    if used:
        data = alanine_dipeptide()
        featurizer.load(data.trajectory_files[:1], data.topology_file, stride=5000)
    html = featurizer._repr_html_()
    assert ("<th>columns</th><td>4</td>" in html) is used
    assert ("sin phi ALA 2 … cos psi ALA 2" in html) is used
    assert ("without psi</th><td>ACE 1, NME 3" in html) is used
    assert EVIL not in DihedralFeaturizer(EVIL)._repr_html_()


def test_squares_stand_before_names() -> None:
    assert '<th><span class="swatch" style="background:#ff0000"></span>a</th>' in table([("a", 1)], colors=["#ff0000"])
