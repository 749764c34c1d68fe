"""Whether a topology belongs to the coordinates: atoms that it calls bonded must lie as far apart as bonded atoms do.

Files of coordinates do not say which atom is which, so that a topology with the right number of atoms in another order
gives angles without meaning, and no other sign of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3c_md.exceptions import TrajectoryError
from m3c_md.features.dihedrals import Float32Array, cell_vectors, dihedral_angles, take_shortest_images
from m3c_md.features.skeleton import Skeleton

# How far a bond may be from the sum of its radii, as a factor. Real bonds reach from 0.8 (C≡N) to 1.06 (strained C-C);
# a single hot frame in a file of low precision adds 0.03 nm, a fifth. Two neighbours of the same atom are 1.36 (a
# hydrogen in the place of the heavy atom) to 1.6 times as far apart as bonded atoms.
_LONGEST = 1.3
_SHORTEST = 0.5
# Numbers of the frames that are looked at, counted after the stride: some next to each other and some far apart,
# the same ones however the file is cut into blocks.
_LOOKED_AT = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)
# No simulation has a box smaller than this (nm): its edge is at least twice the range of the forces.
_SMALLEST_BOX = 1.0
# Angstrom taken for nm and the reverse: no angle changes, so that it is no reason to refuse anything.
_OTHER_UNITS = (10.0, 0.1)
# Peptide bonds are planar, cis or trans, within 10 degrees or so; without order half of all omega are 45 degrees off.
_PLANAR = np.deg2rad(30.0)
# Fewer values of omega may all be on their way from cis to trans.
_ENOUGH_OMEGAS = 5

# A bonded partner is nearer than this (nm), whatever it is called: 0.13 to 0.15 nm, and a little more when hot.
_PARTNER = 0.17
# If it is called hydrogen, nearer than this: hydrogen bonds have 0.16 nm and more.
_PARTNER_NAMED_HYDROGEN = 0.15

_REMEDY = (
    "the topology lists atoms in another order than the trajectory, or is that of another molecule; give the topology "
    "that was written with the trajectory"
)
_HARMLESS = (
    "{}: {}; all but hydrogen is where it should be, so that the angles are right, but the topology lists hydrogen in "
    "another order than the trajectory"
)


@dataclass
class Inspection:
    """Looks at a few frames while they are read, and then says whether the topology fits."""

    skeleton: Skeleton
    seen: int = 0
    xyz: list[NDArray[np.float64]] = field(default_factory=list)
    cells: list[NDArray[np.float64]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether all frames that are to be looked at have gone by."""
        return self.seen > _LOOKED_AT[-1]

    def look(self, xyz: Float32Array, cell_lengths: NDArray[Any] | None, cell_angles: NDArray[Any] | None) -> None:
        """Keep what is needed of the next frames (n_frames, n_atoms, 3), with the cells of a trajectory of mdtraj."""
        chosen = [frame - self.seen for frame in _LOOKED_AT if self.seen <= frame < self.seen + len(xyz)]
        self.seen += len(xyz)
        if not chosen:
            return
        self.xyz += list(xyz[chosen][:, self.skeleton.atoms].astype(np.float64))
        if cell_lengths is None or cell_angles is None:
            self.cells += [np.zeros((3, 3))] * len(chosen)
        else:
            self.cells += list(cell_vectors(cell_lengths[chosen], cell_angles[chosen]))

    def conclude(self, name: str, notes: list[str]) -> None:
        """Raise a `TrajectoryError` if the topology does not fit; a note is for what does no harm to the angles."""
        if not self.xyz:
            return
        xyz, cells = np.array(self.xyz), np.array(self.cells)
        first = _verdict(self.skeleton, xyz, cells)
        if first.refused and all(_verdict(self.skeleton, xyz * unit, cells * unit).refused for unit in _OTHER_UNITS):
            notes.clear()  # of bonds that are too long, which this explains
            raise TrajectoryError(f"{name}: {first.reason}; {_REMEDY}")
        if first.reason and not first.refused:
            notes.append(_HARMLESS.format(name, first.reason))


@dataclass(frozen=True)
class _Verdict:
    refused: bool
    reason: str = ""


def _verdict(skeleton: Skeleton, xyz: NDArray[np.float64], cells: NDArray[np.float64]) -> _Verdict:
    """Compare a few frames (n_frames, n_atoms, 3) with what the skeleton expects."""
    limits = _LONGEST * skeleton.lengths
    medians = _medians(_bond_lengths(xyz, skeleton.bonds, limits, cells))
    off = (medians > limits) | (medians < _SHORTEST * skeleton.lengths)
    torn = _torn(skeleton, off, medians, xyz, cells)
    off &= ~torn
    # One hydrogen that strays does not make its neighbour stray, but most of its neighbours do.
    n_bonds, n_off = (np.bincount(b.ravel(), minlength=len(xyz[0])) for b in (skeleton.bonds, skeleton.bonds[off]))
    stray = skeleton.heavy & (2 * n_off > n_bonds)
    reason = _bond_message(skeleton, medians, off, len(xyz)) if off.any() else ""
    if stray.any() or (off & skeleton.heavy[skeleton.bonds].all(axis=1)).any():
        return _Verdict(refused=True, reason=reason)
    untorn = ~np.isin(skeleton.omegas, skeleton.bonds[torn]).any(axis=1)
    bent = _omega_message(skeleton.omegas[untorn], xyz, cells)
    return _Verdict(refused=bool(bent), reason=bent or reason)


def _medians(lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Median over frames, of two in the middle the lower: the mean of a whole and a broken bond is neither.

    What is not a number counts as long, and if most is, so is the median: neither too long nor too short.
    """
    medians: NDArray[np.float64] = np.sort(lengths, axis=0)[(len(lengths) - 1) // 2]
    return medians


def _bond_message(skeleton: Skeleton, medians: NDArray[np.float64], off: NDArray[np.bool_], n_frames: int) -> str:
    """Name the bond that is furthest from what it should be, and how many are like it."""
    worst = int(np.argmax(np.where(off, np.abs(np.log(np.maximum(medians, 1e-9) / skeleton.lengths)), 0.0)))
    first, second = (skeleton.names[i] for i in skeleton.bonds[worst])
    return (
        f"{first} and {second} are bonded in the topology, but {medians[worst]:.2g} nm apart in the median of "
        f"{_frames(n_frames)}, where {skeleton.lengths[worst]:.2g} nm are usual ({off.sum()} of {len(off)} bonds that "
        "were checked are off)"
    )


def _omega_message(quartets: NDArray[np.int32], xyz: NDArray[np.float64], cells: NDArray[np.float64]) -> str:
    """Say that most peptide bonds are not planar, if so. Cis is not held against them: rings may have nothing else."""
    omegas = dihedral_angles(xyz.astype(np.float32), quartets, cells).angles.astype(np.float64)
    omegas = omegas[np.isfinite(omegas)]
    bent = np.abs(np.sin(omegas)) > np.sin(_PLANAR)
    if len(omegas) < _ENOUGH_OMEGAS or 2 * bent.sum() <= len(omegas):
        return ""
    return (
        f"{bent.sum()} of {len(omegas)} angles omega (CA-C-N-CA, in {_frames(len(xyz))}) are more than "
        f"{np.rad2deg(_PLANAR):.0f} degrees from 0 and 180, but peptide bonds are planar"
    )


def _frames(number: int) -> str:
    return f"{number} frames" if number > 1 else "one frame"


def _bond_lengths(
    xyz: NDArray[np.float64], bonds: NDArray[np.int64], limits: NDArray[np.float64], cells: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Distances (n_frames, n_bonds), across the borders of the box where they are beyond their limits otherwise."""
    with np.errstate(invalid="ignore", over="ignore"):
        vectors = xyz[:, bonds[:, 1]] - xyz[:, bonds[:, 0]]
        lengths: NDArray[np.float64] = np.linalg.norm(vectors, axis=-1)
        if not (lengths > limits).any():
            return lengths
        images = lengths.copy()
        take_shortest_images(vectors, images, cells)
        return np.where(lengths > limits, images, lengths)


def _torn(
    skeleton: Skeleton,
    off: NDArray[np.bool_],
    medians: NDArray[np.float64],
    xyz: NDArray[np.float64],
    cells: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Which bonds are too long though the names of their atoms are right.

    Peptide bonds, because a chain ends there or residues are missing in between; and all bonds, because the border of a
    box that the trajectory does not tell runs through the molecule. The ends of such a bond have no partner. None is
    torn if an end has one after all, under another name: then the names are wrong.
    """
    torn = off & (medians > skeleton.lengths) & (skeleton.peptide | (medians > _SMALLEST_BOX))
    if 2 * torn.sum() > np.isfinite(medians).sum():  # no border runs through most bonds
        return np.zeros_like(torn)
    whole = {tuple(bond) for bond in skeleton.bonds[skeleton.peptide & ~off].tolist()}
    apart = [(before[1], after[0]) not in whole for before, after in itertools.pairwise(skeleton.ends.tolist())]
    first, last = skeleton.ends[[True, *apart], 0].tolist(), skeleton.ends[[*apart, True], 1].tolist()
    # The two ends of one piece may meet in a ring, if nothing but the bond to the next piece is torn.
    closes_ring = dict(zip(first + last, last + first, strict=True))
    closes_ring |= dict.fromkeys(skeleton.bonds[torn & ~skeleton.peptide].ravel().tolist(), -1)
    for end in np.unique(skeleton.bonds[torn]):
        # Hydrogen has another partner in every hydrogen bond.
        if not skeleton.heavy[end]:
            continue
        strangers = skeleton.residues != skeleton.residues[end]
        strangers[skeleton.listed[(skeleton.listed == end).any(axis=1)]] = False
        strangers[[other for other in [closes_ring.get(int(end), -1)] if other >= 0]] = False
        others = np.flatnonzero(strangers)
        pairs = np.stack([np.full(len(others), end), others], axis=1)
        limits = np.where(skeleton.heavy[others], _PARTNER, _PARTNER_NAMED_HYDROGEN)
        if (_medians(_bond_lengths(xyz, pairs, limits, cells)) < limits).any():
            return np.zeros_like(torn)
    return torn


def after_inspection(
    blocks: Iterable[Float32Array], inspection: Inspection, name: str, notes: list[str]
) -> Iterator[Float32Array]:
    """Hold blocks back until enough frames have been seen to judge the topology, then hand out all of them.

    Parameters
    ----------
    blocks : iterable of arrays
        Whoever makes them shows the frames to the inspection.
    inspection : Inspection
    name : str
        Of the trajectory, for messages.
    notes : list of str
        Where to put what is worth a warning.
    """
    source = iter(blocks)
    waiting: list[Float32Array] = []
    damage: TrajectoryError | None = None
    while not inspection.complete and damage is None:
        try:
            waiting.append(next(source))
        except StopIteration:
            break
        except TrajectoryError as error:  # the frames before it are good, if the topology is
            damage = error
    inspection.conclude(name, notes)
    yield from waiting
    if damage is not None:
        raise damage
    waiting.clear()
    yield from source
