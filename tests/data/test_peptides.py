"""The start structures of the simulations: angles as asked for, bonds as in the table, all residues L."""

from __future__ import annotations

from types import SimpleNamespace

import mdtraj as md
import numpy as np
import pytest

from m3c_md.data.dynamics import DEFAULTS
from m3c_md.data.peptides import (
    _ORIGIN,
    START_ANGLES,
    AtomRow,
    build_peptide,
    check_chirality,
    peptide_rows,
    place_atom,
)
from tests.features import by_hand

Atoms = dict[tuple[int, str], np.ndarray]
PEPTIDES = [(1, True), (3, True), (1, False), (10, False)]


def placed_atoms(n_alanines: int, capped: bool, phi: float, psi: float) -> Atoms:
    """Positions in ångström by residue and atom name."""
    placed = {name: np.array(xyz) for name, xyz in _ORIGIN.items()}
    for row in peptide_rows(n_alanines, capped, phi, psi):
        assert row.atom not in placed
        placed[row.atom] = place_atom(*(placed[anchor] for anchor in row.anchors), row)
    return {atom: xyz for atom, xyz in placed.items() if atom not in _ORIGIN}


def angle_of(*points: np.ndarray) -> float:
    """Dihedral angle of four points in degrees, by a formula of the tests' own."""
    return float(np.degrees(by_hand(np.array([points]), np.array([[0, 1, 2, 3]]))[0, 0]))


def residues_of(atoms: Atoms) -> SimpleNamespace:
    """What `check_chirality` asks of a topology, with the atoms in the order of their names."""
    order = sorted(atoms)
    residues = []
    for number in sorted({residue for residue, _ in order}):
        own = [SimpleNamespace(name=name, index=i) for i, (residue, name) in enumerate(order) if residue == number]
        name = "ALA" if (number, "CB") in atoms else "CAP"
        residues.append(SimpleNamespace(name=name, id=str(number + 1), atoms=lambda own=own: own))
    return SimpleNamespace(residues=lambda: residues)


@pytest.mark.parametrize(("n_alanines", "capped"), PEPTIDES)
@pytest.mark.parametrize(("phi", "psi"), [*START_ANGLES.values(), (60.0, -170.0)])
class TestAngles:
    def test_backbone_angles_are_those_asked_for(self, n_alanines, capped, phi, psi):
        atoms = placed_atoms(n_alanines, capped, phi, psi)
        found = 0
        for i in sorted({residue for residue, name in atoms if name == "CB"}):
            n, ca, c = (atoms[i, name] for name in ("N", "CA", "C"))
            if i > 0:
                assert angle_of(atoms[i - 1, "C"], n, ca, c) == pytest.approx(phi)
                found += 1
            if (i + 1, "N") in atoms:
                assert angle_of(n, ca, c, atoms[i + 1, "N"]) == pytest.approx(psi)
                found += 1
        assert found == 2 * n_alanines - (0 if capped else 2)

    def test_peptide_bonds_are_flat_and_trans(self, n_alanines, capped, phi, psi):
        atoms = placed_atoms(n_alanines, capped, phi, psi)
        for i in range(max(residue for residue, _ in atoms)):
            before = atoms.get((i, "CA"), atoms.get((i, "CH3")))
            after = atoms.get((i + 1, "CA"), atoms[i + 1, "C"])
            c, o, n, h = atoms[i, "C"], atoms[i, "O"], atoms[i + 1, "N"], atoms[i + 1, "H"]
            assert abs(angle_of(before, c, n, after)) == pytest.approx(180.0)
            assert abs(angle_of(o, c, n, h)) == pytest.approx(180.0)
            assert angle_of(o, c, n, after) == pytest.approx(0.0, abs=1e-6)

    def test_residues_are_left_handed_and_a_mirror_image_is_not(self, n_alanines, capped, phi, psi):
        atoms = placed_atoms(n_alanines, capped, phi, psi)
        for i in sorted({residue for residue, name in atoms if name == "CB"}):
            # Looking from HA towards CA, one reads CO, R, N clockwise.
            ca = atoms[i, "CA"]
            turn = np.cross(atoms[i, "C"] - ca, atoms[i, "CB"] - ca)
            assert np.dot(turn, ca - atoms[i, "HA"]) > 0.0
        positions = np.array([atoms[atom] for atom in sorted(atoms)])
        check_chirality(residues_of(atoms), positions)
        with pytest.raises(ValueError, match=rf"ALA {2 if capped else 1} is not an L-amino acid"):
            check_chirality(residues_of(atoms), positions * [1.0, 1.0, -1.0])


def test_one_bad_residue_among_good_ones_is_found_and_named():
    atoms = placed_atoms(4, True, *START_ANGLES["coil"])
    atoms[3, "HA"], atoms[3, "CB"] = atoms[3, "CB"], atoms[3, "HA"]
    with pytest.raises(ValueError, match="ALA 4 is not"):
        check_chirality(residues_of(atoms), np.array([atoms[atom] for atom in sorted(atoms)]))


def test_an_atom_is_placed_by_bond_angle_and_dihedral():
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b, c = rng.normal(size=(3, 3))
        row = AtomRow(
            (0, "D"), ((0, "A"), (0, "B"), (0, "C")), rng.uniform(0.5, 2), rng.uniform(5, 175), rng.uniform(-179, 179)
        )
        d = place_atom(a, b, c, row)
        assert np.linalg.norm(d - c) == pytest.approx(row.bond)
        cosine = np.dot(b - c, d - c) / np.linalg.norm(b - c) / np.linalg.norm(d - c)
        assert np.degrees(np.arccos(cosine)) == pytest.approx(row.angle)
        assert angle_of(a, b, c, d) == pytest.approx(row.dihedral, abs=1e-5)


@pytest.mark.parametrize("start", START_ANGLES)
@pytest.mark.parametrize("settings", DEFAULTS.values(), ids=DEFAULTS)
def test_no_two_atoms_are_on_top_of_each_other(settings, start):
    atoms = placed_atoms(settings.n_alanines, settings.capped, *START_ANGLES[start])
    xyz = np.array(list(atoms.values()))
    distances = np.linalg.norm(xyz[:, None] - xyz, axis=-1) + 10.0 * np.eye(len(xyz))
    assert distances.min() > 0.95  # the shortest bond is that of H to N


@pytest.mark.parametrize("start", START_ANGLES)
@pytest.mark.parametrize("settings", DEFAULTS.values(), ids=DEFAULTS)
def test_topology_and_coordinates_for_openmm_are_of_the_same_atoms(settings, start):
    pytest.importorskip("openmm")
    topology, positions = build_peptide(settings.n_alanines, settings.capped, start)
    atoms = list(topology.atoms())
    assert positions.shape == (len(atoms), 3)
    placed = placed_atoms(settings.n_alanines, settings.capped, *START_ANGLES[start])
    for atom, xyz in zip(atoms, positions, strict=True):
        np.testing.assert_allclose(10.0 * xyz, placed[atom.residue.index, atom.name])
    bonds = [[one.index, other.index] for one, other in topology.bonds()]
    assert len(bonds) == len(atoms) - 1  # a tree: all atoms hang together
    lengths = np.linalg.norm(np.diff(positions[np.array(bonds)], axis=1), axis=-1)
    assert lengths.max() < 0.16
    check_chirality(topology, positions)
    molecule = md.Trajectory(positions, md.Topology.from_openmm(topology))
    phi, psi = np.radians(START_ANGLES[start])
    np.testing.assert_allclose(md.compute_phi(molecule)[1], phi, atol=1e-4)
    np.testing.assert_allclose(md.compute_psi(molecule)[1], psi, atol=1e-4)
