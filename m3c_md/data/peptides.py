"""Polyalanines from nothing: coordinates from internal coordinates (a Z-matrix), topology for OpenMM."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from openmm import app

Positions = npt.NDArray[np.floating]

START_ANGLES = {"helix": (-63.0, -42.0), "coil": (-75.0, 145.0)}
"""Backbone angles (phi, psi) in degrees of the start structures: alpha helix, and extended polyproline II."""


class AtomRow(NamedTuple):
    """One row of a Z-matrix: an atom, and where it is relative to three atoms placed before it.

    Atoms are named ``(residue index, atom name)``. The new atom is bonded to ``anchors[2]``; ``angle`` is that of
    ``anchors[1]``, ``anchors[2]`` and the new atom, and ``dihedral`` that of all four. Angstrom and degrees.
    """

    atom: tuple[int, str]
    anchors: tuple[tuple[int, str], tuple[int, str], tuple[int, str]]
    bond: float
    angle: float
    dihedral: float


# Three fixed points, not atoms, to which the first atoms are attached so that no row of a Z-matrix is special.
_ORIGIN = {(-1, "X"): (0.0, 1.0, 0.0), (-1, "Y"): (0.0, 0.0, 0.0), (-1, "Z"): (1.0, 0.0, 0.0)}
_X, _Y, _Z = _ORIGIN
_METHYL_DIHEDRALS = (60.0, 180.0, 300.0)


def place_atom(a: Positions, b: Positions, c: Positions, row: AtomRow) -> Positions:
    """Return the position of an atom given those of its three anchors.

    Examples
    --------
    >>> row = AtomRow((0, "D"), ((0, "A"), (0, "B"), (0, "C")), bond=2.0, angle=90.0, dihedral=180.0)
    >>> points = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    >>> np.round(place_atom(*points, row), 6) + 0.0
    array([ 1., -2.,  0.])
    """
    angle, dihedral = math.radians(row.angle), math.radians(row.dihedral)
    forward = (c - b) / np.linalg.norm(c - b)
    normal = np.cross(b - a, forward)
    normal /= np.linalg.norm(normal)
    side = np.cross(normal, forward)
    direction = (
        -math.cos(angle) * forward
        + math.sin(angle) * math.cos(dihedral) * side
        + math.sin(angle) * math.sin(dihedral) * normal
    )
    return np.asarray(c + row.bond * direction)


def _acetyl_rows() -> Iterator[AtomRow]:
    """Yield the cap Ace as residue 0; its first hydrogen is trans to the next nitrogen."""
    h1, ch3, c = (0, "H1"), (0, "CH3"), (0, "C")
    yield AtomRow(h1, (_X, _Y, _Z), 1.0, 90.0, 0.0)
    yield AtomRow(ch3, (_Y, _Z, h1), 1.09, 109.5, 180.0)
    yield AtomRow((0, "H2"), (_Z, h1, ch3), 1.09, 109.5, 60.0)
    yield AtomRow((0, "H3"), (_Z, h1, ch3), 1.09, 109.5, 300.0)
    yield AtomRow(c, (_Z, h1, ch3), 1.52, 109.5, 180.0)
    yield AtomRow((0, "O"), (h1, ch3, c), 1.23, 120.5, 0.0)


def _alanine_rows(i: int, previous: tuple[int, str] | None, phi: float, psi: float, last: bool) -> Iterator[AtomRow]:
    """Yield an L-alanine as residue ``i``.

    ``previous`` is the atom of residue ``i - 1`` in the place of the alpha carbon, None for a charged N terminus;
    ``last`` asks for a charged C terminus.
    """
    n, ca, c, cb = ((i, name) for name in ("N", "CA", "C", "CB"))
    if previous is None:
        yield AtomRow(n, (_X, _Y, _Z), 1.0, 90.0, 0.0)
        yield AtomRow(ca, (_Y, _Z, n), 1.46, 110.0, 180.0)
        yield AtomRow(c, (_Z, n, ca), 1.52, 111.0, 180.0)
        for name, dihedral in zip(("H", "H2", "H3"), _METHYL_DIHEDRALS, strict=True):
            yield AtomRow((i, name), (c, ca, n), 1.01, 109.5, dihedral)
    else:
        before = (i - 1, "C")
        yield AtomRow(ca, (previous, before, n), 1.46, 121.7, 180.0)
        yield AtomRow(c, (before, n, ca), 1.52, 111.0, phi)
        yield AtomRow((i, "H"), (c, ca, n), 1.01, 118.0, phi + 180.0)
    yield AtomRow((i, "HA"), (n, c, ca), 1.09, 109.5, -119.0)
    yield AtomRow(cb, (n, c, ca), 1.53, 110.0, 122.7)  # the sign makes it L, `check_chirality` looks at it
    for name, dihedral in zip(("HB1", "HB2", "HB3"), _METHYL_DIHEDRALS, strict=True):
        yield AtomRow((i, name), (n, ca, cb), 1.09, 109.5, dihedral)
    yield AtomRow((i, "O"), (n, ca, c), 1.23, 120.5, psi + 180.0)
    if last:
        yield AtomRow((i, "OXT"), (n, ca, c), 1.25, 117.0, psi)


def _methylamide_rows(i: int) -> Iterator[AtomRow]:
    """Yield the cap NMe as residue ``i``; its nitrogen has been placed."""
    previous, before, n, methyl = (i - 1, "CA"), (i - 1, "C"), (i, "N"), (i, "C")
    yield AtomRow(methyl, (previous, before, n), 1.46, 121.7, 180.0)
    yield AtomRow((i, "H"), (previous, before, n), 1.01, 119.0, 0.0)
    for name, dihedral in zip(("H1", "H2", "H3"), _METHYL_DIHEDRALS, strict=True):
        yield AtomRow((i, name), (before, n, methyl), 1.09, 109.5, dihedral)


def peptide_rows(n_alanines: int, capped: bool, phi: float, psi: float) -> Iterator[AtomRow]:
    """Yield the Z-matrix of a polyalanine, all of whose residues have the same backbone angles."""
    first = 1 if capped else 0
    if capped:
        yield from _acetyl_rows()
        yield AtomRow((1, "N"), ((0, "H1"), (0, "CH3"), (0, "C")), 1.335, 116.6, 180.0)
    for i in range(first, first + n_alanines):
        last = i == first + n_alanines - 1
        previous = (i - 1, "CH3" if capped and i == 1 else "CA") if i > 0 else None
        yield from _alanine_rows(i, previous, phi, psi, last and not capped)
        if capped or not last:
            yield AtomRow((i + 1, "N"), ((i, "N"), (i, "CA"), (i, "C")), 1.335, 116.6, psi)
    if capped:
        yield from _methylamide_rows(first + n_alanines)


def build_peptide(n_alanines: int, capped: bool, start: str) -> tuple[app.Topology, Positions]:
    """Build topology and coordinates (nanometres, shape ``(n_atoms, 3)``) of a start structure."""
    from openmm import app

    placed: dict[tuple[int, str], Positions] = {name: np.array(xyz) for name, xyz in _ORIGIN.items()}
    for row in peptide_rows(n_alanines, capped, *START_ANGLES[start]):
        a, b, c = (placed[anchor] for anchor in row.anchors)
        placed[row.atom] = place_atom(a, b, c, row)
    atoms = sorted((atom for atom in placed if atom not in _ORIGIN), key=lambda atom: atom[0])

    names = ["ALA"] * n_alanines
    if capped:
        names = ["ACE", *names, "NME"]
    topology = app.Topology()
    chain = topology.addChain("A")
    residues = [topology.addResidue(name, chain, str(number)) for number, name in enumerate(names, start=1)]
    for residue, name in atoms:
        topology.addAtom(name, app.Element.getBySymbol(name[0]), residues[residue])
    topology.createStandardBonds()
    return topology, np.array([placed[atom] for atom in atoms]) / 10.0


def check_chirality(topology: app.Topology, positions: Positions) -> None:
    """Raise unless every alanine is an L-amino acid: seen from HA, the atoms N, C, CB run clockwise around CA."""
    for residue in topology.residues():
        index = {atom.name: atom.index for atom in residue.atoms()}
        if residue.name != "ALA":
            continue
        n, c, cb = (positions[index[name]] - positions[index["CA"]] for name in ("N", "C", "CB"))
        if float(np.dot(np.cross(n, c), cb)) <= 0.0:
            raise ValueError(f"residue {residue.name} {residue.id} is not an L-amino acid: the start structure is bad")
