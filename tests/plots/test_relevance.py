"""Bars of the relevance are those of the model, under the right names and in one colour for each kind of angle."""

from __future__ import annotations

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from m3c_md import DihedralFeaturizer
from m3c_md.exceptions import InputError
from m3c_md.plots import plot_relevance
from tests.features import topology_of
from tests.plots._models import NearestCentre


def model_with(columns) -> SimpleNamespace:
    """Anything with a relevance; the shares are different numbers."""
    shares = 1.0 + np.arange(len(columns))
    return SimpleNamespace(relevance=pd.Series(shares / shares.sum(), index=columns, name="relevance"))


@pytest.fixture
def peptide() -> SimpleNamespace:
    return model_with(
        list(DihedralFeaturizer(("phi", "psi", "chi1")).describe(topology_of(["ACE", "ALA", "SER", "NME"])))
    )


def names_of(ax) -> list[str]:
    return [text.get_text() for text in ax.get_xticklabels()]


def test_columns_without_names_have_numbers(three_state_model):
    ax = plot_relevance(three_state_model)
    assert [bar.get_height() for bar in ax.patches] == pytest.approx(100.0 * three_state_model.relevance.to_numpy())
    assert (names_of(ax), ax.get_xlabel(), ax.get_legend()) == (["0", "1"], "column", None)
    assert "%" in ax.get_ylabel()


def test_residues_are_stacked_by_the_kind_of_angle(peptide):
    ax = plot_relevance(peptide)
    assert (names_of(ax), ax.get_xlabel()) == (["ALA 2", "SER 3"], "residue")
    kinds = [text.get_text() for text in ax.get_legend().get_texts()]
    assert kinds == ["phi", "psi", "chi1"]
    shares = peptide.relevance
    for kind, bars in zip(kinds, ax.containers, strict=True):
        for residue, bar in zip(("ALA 2", "SER 3"), bars, strict=True):
            wanted = shares.reindex([f"sin {kind} {residue}", f"cos {kind} {residue}"]).fillna(0.0).sum()
            assert bar.get_height() == pytest.approx(100.0 * wanted)
    # Each stands on the one before, and the bar of serine, the last to be stacked, ends at its share.
    assert ax.containers[1][0].get_y() == pytest.approx(ax.containers[0][0].get_height())
    top = ax.containers[-1][1]
    assert top.get_y() + top.get_height() == pytest.approx(100.0 * shares[shares.index.str.endswith("SER 3")].sum())
    assert ax.get_ylim()[1] > top.get_y() + top.get_height()


def test_a_kind_has_one_colour_whatever_else_is_drawn(peptide):
    residues, angles = plot_relevance(peptide), plot_relevance(peptide, by="dihedral")
    colors = {bars.get_label(): bars[0].get_facecolor() for bars in residues.containers}
    assert len(set(colors.values())) == 3
    for bars in angles.containers:
        assert bars[0].get_facecolor() == colors[bars.get_label()]
    alone = plot_relevance(model_with(["sin chi1 SER 2", "sin chi1 SER 3"]))
    assert alone.containers[0][0].get_facecolor() == colors["chi1"]


def test_one_residue_has_a_bar_for_each_angle():
    ax = plot_relevance(model_with(["sin psi ALA 2", "cos psi ALA 2", "sin phi ALA 2", "cos phi ALA 2"]))
    assert (names_of(ax), ax.get_xlabel()) == (["psi ALA 2", "phi ALA 2"], "dihedral")
    heights = np.sum([[bar.get_height() for bar in bars] for bars in ax.containers], axis=0)
    np.testing.assert_allclose(heights, [30.0, 70.0])


def test_bars_can_be_chosen_and_names_given(peptide):
    ax = plot_relevance(peptide, by="column")
    assert (len(ax.patches), names_of(ax)) == (10, list(peptide.relevance.index))
    nameless = model_with(range(10))
    assert names_of(plot_relevance(nameless, columns=list(peptide.relevance.index))) == ["ALA 2", "SER 3"]
    with pytest.raises(InputError, match="column 0 has no name that DihedralFeaturizer gives"):
        plot_relevance(nameless, by="residue")
    with pytest.raises(InputError, match="names of the 10 columns"):
        plot_relevance(nameless, columns=["a"])
    with pytest.raises(InputError, match="by='atom' is not known"):
        plot_relevance(nameless, by="atom")


def test_of_many_names_some_are_left_out_and_none_is_moved():
    ax = plot_relevance(model_with([f"sin phi ALA {number}" for number in range(1, 301)]))
    assert len(ax.patches) == 300
    assert 20 < len(names_of(ax)) < 100
    for place, name in zip(ax.get_xticks(), names_of(ax), strict=True):
        assert name == f"ALA {round(place) + 1}"


def test_given_axes_are_used(peptide):
    _, ax = plt.subplots()
    assert plot_relevance(peptide, ax=ax) is ax
    assert len(plt.get_fignums()) == 1


def test_a_model_without_relevance_is_refused():
    with pytest.raises(InputError, match="NearestCentre has no relevance; give the model of a fitted M3C or MMC"):
        plot_relevance(NearestCentre([[0.0], [1.0]], np.array([[0.0], [1.0]])))
    assert plt.get_fignums() == []
