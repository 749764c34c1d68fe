"""Relevance of columns added up over dihedral angles and residues, to see which of them define the states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from m3c_md.exceptions import InputError
from m3c_md.inputs.dihedral_names import KINDS, dihedral_of

if TYPE_CHECKING:
    import pandas as pd


def relevance_by_dihedral(relevance: pd.Series, columns: Sequence[str] | None = None) -> pd.Series:
    """Shares of the dihedral angles in the relevance: sine and cosine of an angle added up.

    Parameters
    ----------
    relevance : Series
        ``model.relevance`` of a model of M3C or MMC.
    columns : sequence of str, optional
        Names of the columns, ``featurizer.describe()``. Not needed if the model was fitted to tables that have them.

    Returns
    -------
    Series
        Shares that sum to one, by the name of the angle, in the order of the columns.

    Examples
    --------
    >>> import pandas as pd
    >>> shares = pd.Series([0.5, 0.25, 0.25], index=["sin phi ALA 2", "cos phi ALA 2", "sin psi ALA 2"])
    >>> relevance_by_dihedral(shares).to_dict()
    {'phi ALA 2': 0.75, 'psi ALA 2': 0.25}
    """
    named = named_relevance(relevance, columns)
    return named.groupby([str(dihedral_of(name)) for name in named.index], sort=False).sum()


def relevance_by_residue(relevance: pd.Series, columns: Sequence[str] | None = None) -> pd.Series:
    """Shares of the residues in the relevance: all angles that are named after a residue added up.

    Parameters
    ----------
    relevance, columns
        As in `relevance_by_dihedral`.

    Returns
    -------
    Series
        Shares that sum to one, by the name of the residue, in the order of the sequence.

    Examples
    --------
    >>> import pandas as pd
    >>> relevance_by_residue(pd.Series([0.5, 0.25, 0.25]), ["phi ALA 2", "psi ALA 2", "phi GLY 3"]).to_dict()
    {'ALA 2': 0.75, 'GLY 3': 0.25}
    """
    named = named_relevance(relevance, columns)
    return named.groupby([dihedral_of(name).residue for name in named.index], sort=False).sum()


def residues_and_kinds(relevance: pd.Series, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Table of shares: a row for each residue in the order of the sequence, a column for each kind of angle.

    Examples
    --------
    >>> import pandas as pd
    >>> residues_and_kinds(pd.Series([0.5, 0.25, 0.25]), ["psi ALA 2", "phi ALA 2", "phi GLY 3"])
            phi  psi
    ALA 2  0.25  0.5
    GLY 3  0.25  0.0
    """
    named = named_relevance(relevance, columns)
    angles = [dihedral_of(name) for name in named.index]
    residues = list(dict.fromkeys(angle.residue for angle in angles))
    kinds = [kind for kind in KINDS if any(angle.kind == kind for angle in angles)]
    sums = named.groupby([[angle.residue for angle in angles], [angle.kind for angle in angles]]).sum()
    return sums.unstack(fill_value=0.0).loc[residues, kinds]


def named_relevance(relevance: Any, columns: Sequence[str] | None = None) -> pd.Series:
    """Relevance with the names of the columns, if these are given and as many."""
    import pandas as pd

    if not isinstance(relevance, pd.Series):
        raise InputError(f"relevance={relevance!r:.60} must be the relevance of a model, a Series: model.relevance")
    if columns is None:
        return relevance
    if isinstance(columns, str) or not isinstance(columns, Sequence) or len(columns) != len(relevance):
        raise InputError(
            f"columns={columns!r:.60} must be the names of the {len(relevance)} columns that the model was fitted to, "
            "e.g. featurizer.describe()"
        )
    return relevance.set_axis(list(columns))
