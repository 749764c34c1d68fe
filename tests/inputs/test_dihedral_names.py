"""Names of columns are read as they are made, and nothing else passes for one."""

from __future__ import annotations

import pytest

from m3c_md import DihedralFeaturizer
from m3c_md.exceptions import InputError
from m3c_md.features.dihedrals import chosen_residues
from m3c_md.inputs.dihedral_names import KINDS, are_of_dihedrals, dihedral_of, residue_names
from tests.features import topology_of

MOLECULES = {
    "one chain": topology_of(["ACE", "LYS", "ALA", "NME"]),
    "negative numbers": topology_of(["ALA", "LYS", "ALA"], first=-1),
    "letters": topology_of(["ALA", "LYS"], ["LYS", "ALA"], letters=["A", "B"]),
    "numbered chains": topology_of(["ALA", "LYS"], ["LYS", "ALA"]),
}


@pytest.mark.parametrize("sincos", [True, False])
@pytest.mark.parametrize("molecule", MOLECULES)
def test_every_name_that_is_made_is_read(molecule, sincos):
    topology = MOLECULES[molecule]
    columns = DihedralFeaturizer(KINDS, sincos=sincos).describe(topology)
    assert are_of_dihedrals(columns)
    known = set(residue_names(chosen_residues(topology, None)).values())
    for column in columns:
        angle = dihedral_of(column)
        assert angle.residue in known
        assert column.removeprefix("sin ").removeprefix("cos ") == f"{angle.kind} {angle.residue}"
    assert {dihedral_of(column).kind for column in columns} == set(KINDS)


def test_residues_whose_numbers_repeat_are_told_apart():
    topology = topology_of(["ALA", "ALA", "ALA"])
    for residue in topology.residues:
        residue.resSeq = 7
    columns = DihedralFeaturizer("phi").describe(topology)
    residues = [dihedral_of(column).residue for column in columns]
    assert residues == 2 * ["ALA 7 (residue 1)"] + 2 * ["ALA 7 (residue 2)"]


@pytest.mark.parametrize(
    "name", ["distance", "phi", "sin phi", "tan phi ALA 2", "chi5 LYS 2", "phi ALA", "sin  phi ALA 2", "phi ALA 2 x", 0]
)
def test_other_names_are_refused_with_a_remedy(name):
    assert not are_of_dihedrals(["sin phi ALA 2", name])
    with pytest.raises(InputError, match=rf"column {name!r} has no name .* columns=featurizer\.describe\(\)"):
        dihedral_of(name)
