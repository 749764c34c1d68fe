"""Relevance adds up over angles and residues, and nothing is lost or given to another residue."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from m3c_md import DihedralFeaturizer, relevance_by_dihedral, relevance_by_residue
from m3c_md.exceptions import InputError
from m3c_md.relevance import residues_and_kinds
from tests.conftest import quick
from tests.features import topology_of


@pytest.fixture
def relevance() -> pd.Series:
    """Shares of the columns of a peptide; each is a power of two, so that sums tell who is in them."""
    columns = DihedralFeaturizer(("chi1", "phi", "psi")).describe(topology_of(["ACE", "SER", "ALA", "NME"]))
    shares = 2.0 ** np.arange(len(columns))
    return pd.Series(shares / shares.sum(), index=list(columns), name="relevance")


def test_sine_and_cosine_of_an_angle_are_added(relevance):
    found = relevance_by_dihedral(relevance)
    assert found.index.tolist() == ["chi1 SER 2", "phi SER 2", "psi SER 2", "phi ALA 3", "psi ALA 3"]
    np.testing.assert_allclose(found, relevance.to_numpy().reshape(-1, 2).sum(axis=1))
    assert found.name == "relevance"


def test_angles_of_a_residue_are_added(relevance):
    found = relevance_by_residue(relevance)
    assert found.index.tolist() == ["SER 2", "ALA 3"]
    np.testing.assert_allclose(found, [63 / 1023, 960 / 1023])


def test_the_table_has_kinds_in_their_usual_order_and_zero_where_there_is_none(relevance):
    table = residues_and_kinds(relevance)
    assert (table.index.tolist(), table.columns.tolist()) == (["SER 2", "ALA 3"], ["phi", "psi", "chi1"])
    np.testing.assert_allclose(1023 * table.to_numpy(), [[12, 48, 3], [192, 768, 0]])


def test_residues_stay_in_the_order_of_the_sequence():
    columns = [f"phi ALA {number}" for number in (10, 9, 2)]
    shares = pd.Series([0.2, 0.5, 0.3], index=columns)
    assert relevance_by_residue(shares).index.tolist() == ["ALA 10", "ALA 9", "ALA 2"]
    assert residues_and_kinds(shares).index.tolist() == ["ALA 10", "ALA 9", "ALA 2"]


def test_names_can_be_given_to_a_model_that_has_none(relevance):
    nameless = relevance.set_axis(range(len(relevance)))
    columns = relevance.index.tolist()
    for function in (relevance_by_dihedral, relevance_by_residue, residues_and_kinds):
        assert function(nameless, columns).equals(function(relevance))
        with pytest.raises(InputError, match=r"column 0 has no name .* columns=featurizer\.describe\(\)"):
            function(nameless)


def test_what_is_no_relevance_is_refused(relevance):
    with pytest.raises(InputError, match=r"relevance=.* must be .* model\.relevance"):
        relevance_by_residue(relevance.to_numpy())
    for columns in (["phi ALA 2"], "phi ALA 2", 7):
        with pytest.raises(InputError, match=r"columns=.* names of the 10 columns"):
            relevance_by_dihedral(relevance, columns)


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.FewVisitsWarning")
def test_the_residue_that_moves_has_most_of_it(two_wells):
    noise = np.random.default_rng(1).normal(size=(len(two_wells.frames), 2))
    names = ["sin phi ALA 2", "cos phi ALA 2", "sin phi GLY 3", "cos phi GLY 3"]
    table = pd.DataFrame(np.column_stack([noise, two_wells.frames]), columns=names)
    shares = relevance_by_residue(quick(2).fit_fetch(table).relevance)
    assert shares.sum() == pytest.approx(1.0)
    assert shares["GLY 3"] > 0.8
