"""The picture of a search shows every candidate, and which of them are not to be trusted."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from m3c_md import M3CModel
from m3c_md.exceptions import InputError
from m3c_md.plots import plot_candidates, plot_search
from m3c_md.plots.search import WORDS
from m3c_md.search.fate import Fate, FateKind
from tests.plots._models import NearestCentre


@pytest.fixture(scope="module")
def judged(searched_model: M3CModel) -> M3CModel:
    """A copy of a model, one record of which is degenerate and one of which saw a sample only."""
    model = searched_model.copy()
    records = list(model.records)
    records[-1] = replace(records[-1], fate=Fate(FateKind.DEGENERATE, "state 1 has 0.00% of the frames"))
    records[-2] = replace(records[-2], fate=Fate(FateKind.DROPPED, "score after 300 windows"), n_windows=300)
    model.records = records
    return model


def traces(ax):
    return [line for line in ax.lines if line.get_linestyle() != "None"]


def ends(ax):
    return [line for line in ax.lines if line.get_linestyle() == "None"]


def test_candidates_are_all_drawn(searched_model):
    ax = plot_candidates(searched_model)
    assert sum(len(line.get_xdata()) for line in ends(ax)) == len(searched_model.candidates)
    assert "units" in ax.get_xlabel()
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {
        WORDS[start.split(" ")[0]] for start in searched_model.candidates["start"]
    }


def test_degenerate_candidates_are_crosses_at_their_place(judged):
    (cross,) = [line for line in ends(plot_candidates(judged)) if line.get_marker() == "x" and len(line.get_xdata())]
    worst = judged.records[-1]
    assert (cross.get_xdata()[0], cross.get_ydata()[0]) == (worst.bandwidth, worst.score)


def test_traces_are_those_of_the_records(judged):
    left, _ = plot_search(judged)
    drawn = sorted(tuple(line.get_ydata()) for line in traces(left))
    assert drawn == sorted(record.optimum.trace for record in judged.records)
    for line in traces(left):
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, len(line.get_ydata()) + 1))


def test_winner_is_thickest_degenerate_dashed_and_samples_hollow(judged):
    left, _ = plot_search(judged)
    thickest = max(traces(left), key=lambda line: line.get_linewidth())
    assert tuple(thickest.get_ydata()) == judged.records[0].optimum.trace
    (dashed,) = [line for line in traces(left) if line.get_linestyle() == "--"]
    assert tuple(dashed.get_ydata()) == judged.records[-1].optimum.trace
    (cross,) = [line for line in ends(left) if line.get_marker() == "x"]
    assert cross.get_ydata()[0] == judged.records[-1].optimum.trace[-1]
    (hollow,) = [line for line in ends(left) if line.get_markerfacecolor() == "white"]
    assert hollow.get_ydata()[0] == judged.records[-2].optimum.trace[-1]
    assert {"winner", "lost a state", "judged on a sample"} <= {
        text.get_text() for text in left.get_legend().get_texts()
    }


def test_a_start_has_one_colour_on_both_sides(judged):
    left, right = plot_search(judged)
    names = [text.get_text() for text in right.get_legend().get_texts()]
    colors = dict(zip(names, (line.get_color() for line in right.get_legend().get_lines()), strict=True))
    for record in judged.records:
        drawn = [line.get_color() for line in traces(left) if tuple(line.get_ydata()) == record.optimum.trace]
        assert colors[WORDS[record.start.split(" ")[0]]] in drawn


def test_further_starts_of_a_kind_have_its_colour_and_one_entry(judged):
    records = [replace(record, start=f"lumping {n} (learned)") for n, record in enumerate(judged.records)]
    model = judged.copy()
    model.records = records
    left, right = plot_search(model)
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["lumped cells"]
    assert right.get_legend().get_title().get_text() == "search began from"
    assert len({line.get_color() for line in traces(left)}) == 1
    assert left.get_xlabel() == "step of the search"


def test_given_axes_are_used(judged):
    _, axes = plt.subplots(1, 2)
    assert plot_search(judged, axes=axes) is axes
    assert plot_candidates(judged, ax=axes[0]) is axes[0]
    assert len(plt.get_fignums()) == 1
    with pytest.raises(InputError, match="1 axes were given, but 2 are needed"):
        plot_search(judged, axes=axes[0])


def test_a_model_without_a_search_is_refused():
    frames = np.array([[0.0], [1.0]])
    for plot in (plot_candidates, plot_search):
        with pytest.raises(InputError, match="NearestCentre has no record of a search"):
            plot(NearestCentre([[0.0], [1.0]], frames))
    assert plt.get_fignums() == []
