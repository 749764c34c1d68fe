"""What dihedral angles and their columns are called, and what such a name says: made and read here, nowhere else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from m3c_md.exceptions import InputError

# Kinds of angles, in the order in which they are drawn.
KINDS = ("phi", "psi", "omega", "chi1", "chi2", "chi3", "chi4")
FUNCTIONS = ("sin", "cos")

_COLUMN = re.compile(
    rf"(?:(?:{'|'.join(FUNCTIONS)}) )?(?P<kind>{'|'.join(KINDS)}) "
    r"(?P<residue>\S* -?\d+(?: chain \S.*?)?(?: \(residue \d+\))?)"
)


class Dihedral(NamedTuple):
    """Kind of an angle, and the residue that it is named after."""

    kind: str
    residue: str

    def __str__(self) -> str:
        return f"{self.kind} {self.residue}"


def residue_names(residues: Sequence[Any]) -> dict[int, str]:
    """Names such as "ALA 2", with the chain if there are several, and with the index where that does not suffice.

    Parameters
    ----------
    residues : sequence of residues of an mdtraj.Topology

    Returns
    -------
    dict
        Name by the index of the residue; none twice.
    """
    chains = {residue.chain.index: residue.chain for residue in residues}
    letters = [chain.chain_id for chain in chains.values()]
    lettered = all(letters) and len(set(letters)) == len(letters)
    names = {}
    for residue in residues:
        name = f"{residue.name} {residue.resSeq}"
        if len(chains) > 1:
            name += f" chain {residue.chain.chain_id if lettered else residue.chain.index}"
        names[residue.index] = name
    uses = Counter(names.values())
    return {index: name if uses[name] == 1 else f"{name} (residue {index})" for index, name in names.items()}


def column_names(dihedrals: Sequence[str], *, sincos: bool) -> list[str]:
    """Names of the columns of some angles.

    Examples
    --------
    >>> column_names(["phi ALA 2"], sincos=True)
    ['sin phi ALA 2', 'cos phi ALA 2']
    """
    return [f"{function} {name}" for name in dihedrals for function in FUNCTIONS] if sincos else list(dihedrals)


def dihedral_of(column: Hashable) -> Dihedral:
    """Angle that a column of `DihedralFeaturizer` belongs to; an error for any other name.

    Examples
    --------
    >>> dihedral_of("sin phi ALA 2 chain B")
    Dihedral(kind='phi', residue='ALA 2 chain B')
    >>> str(dihedral_of("cos chi1 LYS 7"))
    'chi1 LYS 7'
    """
    found = _COLUMN.fullmatch(column) if isinstance(column, str) else None
    if found is None:
        raise InputError(
            f"column {column!r:.60} has no name that DihedralFeaturizer gives, such as 'sin phi ALA 2'; take the "
            "relevance of single columns, or give columns=featurizer.describe()"
        )
    return Dihedral(found["kind"], found["residue"])


def are_of_dihedrals(columns: Sequence[Hashable]) -> bool:
    """Whether all columns are called as `DihedralFeaturizer` calls them.

    Examples
    --------
    >>> are_of_dihedrals(["sin phi ALA 2", "cos phi ALA 2"]), are_of_dihedrals(["sin phi ALA 2", "distance"])
    (True, False)
    """
    return all(isinstance(column, str) and _COLUMN.fullmatch(column) for column in columns)
