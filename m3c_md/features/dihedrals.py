"""Which dihedral angles a molecule has, what they are called, and their arithmetic on arrays of coordinates."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import mdtraj as md
import numpy as np
from mdtraj.geometry import dihedral as md_dihedral
from numpy.typing import NDArray

from m3c_md.exceptions import InputError
from m3c_md.inputs.dihedral_columns import atom_name
from m3c_md.inputs.dihedral_names import KINDS, Dihedral, residue_names
from m3c_md.inputs.settings import check_choice

Float32Array = NDArray[np.float32]

# mdtraj's search for the atoms of each kind. The second atom of a quartet belongs to the residue that names the angle.
_SEARCHES = {kind: getattr(md_dihedral, f"indices_{kind}") for kind in KINDS}

# No two atoms of a dihedral angle that follow each other are further apart than this (nm) in any frame: bonds have 0.12
# to 0.2 nm. Whether they are bonded at all is for `m3c_md.features.topology` to judge, by many frames.
LONGEST_BOND = 0.3
# Nor are they closer than this (nm), a tenth of the precision of an XTC file.
SHORTEST_BOND = 1e-4


@dataclass(frozen=True)
class Dihedrals:
    """Dihedral angles of one topology, residue by residue, and of each residue in the order asked for.

    Attributes
    ----------
    names : tuple of str
        One name per angle, such as "phi ALA 2", none twice.
    quartets : array (n_angles, 4)
        Indices of the four atoms of each angle.
    atoms : tuple of tuples of str
        Names of these atoms, such as "ALA 2 CA", for each angle.
    n_atoms : int
        Number of atoms of the topology.
    missing : dict
        For each kind, the residues without it.
    """

    names: tuple[str, ...]
    quartets: NDArray[np.int32]
    atoms: tuple[tuple[str, ...], ...]
    n_atoms: int
    missing: dict[str, list[str]]


def check_kinds(kinds: Any) -> tuple[str, ...]:
    """Check names of kinds of dihedral angles: one, or a sequence without repetition.

    Examples
    --------
    >>> check_kinds("phi")
    ('phi',)
    """
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if not isinstance(kinds, Sequence) or len(kinds) == 0:
        raise InputError(f"dihedrals={kinds!r} must name at least one of {', '.join(KINDS)}")
    for kind in kinds:
        check_choice("dihedrals", kind, KINDS)
    if len(set(kinds)) < len(kinds):
        raise InputError(f"dihedrals={kinds!r} names the same angle twice; name each once")
    return tuple(kinds)


def find_dihedrals(topology: md.Topology, kinds: Sequence[str], residues: Any = None) -> Dihedrals:
    """Find and name the dihedral angles of a molecule.

    Parameters
    ----------
    topology : mdtraj.Topology
    kinds : sequence of str
        Some of `KINDS`.
    residues : optional
        A selection string of mdtraj, or the numbers of residues as they appear in the names.

    Examples
    --------
    >>> topology = md.Topology()
    >>> chain = topology.add_chain()
    >>> for number in (1, 2):
    ...     residue = topology.add_residue("ALA", chain, resSeq=number)
    ...     for name in ("N", "CA", "C"):
    ...         _ = topology.add_atom(name, md.element.Element.getBySymbol(name[0]), residue)
    >>> found = find_dihedrals(topology, ("phi", "psi"))
    >>> found.names, found.missing
    (('psi ALA 1', 'phi ALA 2'), {'phi': ['ALA 1'], 'psi': ['ALA 2']})
    """
    chosen = chosen_residues(topology, residues)
    names = residue_names(chosen)
    quartets: dict[tuple[int, str], Any] = {}
    for kind in kinds:
        for quartet in _SEARCHES[kind](topology):
            # The first match counts where an unusual residue has two candidates for a side-chain angle.
            quartets.setdefault((topology.atom(quartet[1]).residue.index, kind), quartet)
    missing = {
        kind: [names[residue.index] for residue in chosen if (residue.index, kind) not in quartets] for kind in kinds
    }
    for kind, without in missing.items():
        if len(without) == len(chosen):
            shown = ", ".join(without[:5]) + (", ..." if len(without) > 5 else "")
            raise InputError(
                f"no residue has the angle {kind!r} (looked at {len(without)}: {shown or 'no amino acids'}); leave "
                f"{kind!r} out, choose other residues, or give a topology with the usual atom names"
            )
    present = [(residue, kind) for residue in chosen for kind in kinds if (residue.index, kind) in quartets]
    fours = [quartets[residue.index, kind] for residue, kind in present]
    return Dihedrals(
        names=tuple(str(Dihedral(kind, names[residue.index])) for residue, kind in present),
        quartets=np.array(fours, dtype=np.int32),
        atoms=tuple(tuple(atom_name(topology.atom(number)) for number in four) for four in fours),
        n_atoms=topology.n_atoms,
        missing=missing,
    )


def chosen_residues(topology: md.Topology, residues: Any) -> list[Any]:
    """Amino acids (caps included), or what the user chose (see `find_dihedrals`), in the order of the topology."""
    if residues is None:
        return [residue for residue in topology.residues if residue.is_protein or _has_backbone(residue)]
    if isinstance(residues, str):
        wanted = {topology.atom(index).residue.index for index in select_atoms(topology, residues, "residues")}
        return [residue for residue in topology.residues if residue.index in wanted]
    if not isinstance(residues, Sequence | np.ndarray) or not all(_is_whole(number) for number in residues):
        raise InputError(
            f"residues={residues!r:.60} must be a selection string of mdtraj, such as 'resSeq 2 to 5', or a list of "
            "residue numbers"
        )
    known = {residue.resSeq for residue in topology.residues}
    unknown = sorted({int(number) for number in residues} - known)
    if unknown or len(residues) == 0:
        raise InputError(
            f"residues={list(residues)!r:.60}: the topology has no residue {unknown or 'for an empty list'}; its "
            f"residue numbers run from {min(known, default=0)} to {max(known, default=0)}"
        )
    numbers_wanted = {int(number) for number in residues}
    # A number also belongs to some water molecule in many files: take amino acids unless there are none of that number.
    matching = [residue for residue in topology.residues if residue.resSeq in numbers_wanted]
    return [residue for residue in matching if residue.is_protein or _has_backbone(residue)] or matching


def select_atoms(topology: md.Topology, selection: str, name: str) -> NDArray[np.int64]:
    """Atoms that a selection string of mdtraj stands for; there must be one.

    Parameters
    ----------
    topology : mdtraj.Topology
    selection, name : str
        What to select, and which argument it came from.
    """
    try:
        atoms: NDArray[np.int64] = topology.select(selection)
    except Exception as error:  # mdtraj's parser raises errors of many types
        raise InputError(
            f"{name}={selection!r} is no selection that mdtraj understands ({_first_line(error)}); write e.g. "
            "'resSeq 2 to 5', 'protein' or 'chainid 0'"
        ) from error
    if len(atoms) == 0:
        raise InputError(f"{name}={selection!r} selects nothing of the topology; choose another selection")
    return atoms


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _has_backbone(residue: Any) -> bool:
    return {"N", "CA", "C"} <= {atom.name for atom in residue.atoms}


class Geometry(NamedTuple):
    """Dihedral angles in radians (n_frames, n_angles), and the lengths of their bonds in nm (n_frames, n_bonds)."""

    angles: Float32Array
    lengths: Float32Array
    bonds: NDArray[np.int32]


def dihedral_angles(xyz: Float32Array, quartets: NDArray[np.int32], cells: NDArray[Any] | None = None) -> Geometry:
    """Compute dihedral angles, across the borders of the periodic box if there is one.

    A bond shorter than half the smallest height of the cell is its own minimum image, since no lattice vector is
    shorter than that height. Only the few bonds that are longer are wrapped; mdtraj, which searches the images of every
    bond, needs a hundred times as long for a triclinic cell.

    Parameters
    ----------
    xyz : array (n_frames, n_atoms, 3)
        In nm.
    quartets : array (n_angles, 4)
        Atoms of each angle.
    cells : array (n_frames, 3, 3), optional
        Vectors of the periodic cell, in rows. A cell without volume counts as none.

    Examples
    --------
    >>> xyz = np.array([[[0, 1, 0], [0, 0, 0], [1, 0, 0], [1, 0, 1]]], dtype=np.float32)
    >>> np.rad2deg(dihedral_angles(xyz, np.array([[0, 1, 2, 3]], dtype=np.int32)).angles)
    array([[90.]], dtype=float32)
    """
    steps = np.stack([quartets[:, :-1], quartets[:, 1:]], axis=-1).reshape(-1, 2)
    bonds, which = np.unique(steps, axis=0, return_inverse=True)
    with np.errstate(over="ignore", invalid="ignore"):  # coordinates that are not finite are the caller's to report
        vectors = np.take(xyz, bonds[:, 1], axis=1) - np.take(xyz, bonds[:, 0], axis=1)
        # Three sums are faster than one einsum or norm, and this is most of what checking costs.
        squares = vectors * vectors
        lengths = np.sqrt(squares[..., 0] + squares[..., 1] + squares[..., 2])
        angles = _angles_of_whole_molecules(xyz, quartets)
        if cells is not None:
            broken = take_shortest_images(vectors, lengths, cells)
            if len(broken):
                path = np.cumsum(vectors[broken][:, which.reshape(-1, 3)], axis=2, dtype=np.float32)
                path = np.concatenate([np.zeros_like(path[:, :, :1]), path], axis=2).reshape(len(broken), -1, 3)
                angles[broken] = _angles_of_whole_molecules(path, np.arange(path.shape[1]).reshape(-1, 4))
    return Geometry(angles, lengths, bonds)


def take_shortest_images(vectors: NDArray[Any], lengths: NDArray[Any], cells: NDArray[Any]) -> NDArray[np.int64]:
    """Replace vectors (n_frames, n, 3) that may reach across a cell, and their lengths; return the frames with any."""
    frames, places = np.nonzero((lengths > _safe_reach(cells)[:, None]) & np.isfinite(lengths))
    if len(frames):
        vectors[frames, places] = minimum_image(vectors[frames, places], cells[frames])
        lengths[frames, places] = np.linalg.norm(vectors[frames, places], axis=-1)
    return np.unique(frames)


def _angles_of_whole_molecules(xyz: Float32Array, quartets: NDArray[Any]) -> Float32Array:
    angles: Float32Array = md.compute_dihedrals(md.Trajectory(xyz, topology=None), quartets, periodic=False)
    return angles


def _safe_reach(cells: NDArray[Any]) -> NDArray[np.float64]:
    """Half the smallest height of each cell; infinite for a cell without volume."""
    a, b, c = np.moveaxis(cells.astype(np.float64), 1, 0)
    faces = np.linalg.norm([np.cross(b, c), np.cross(c, a), np.cross(a, b)], axis=-1).max(axis=0)
    volume = np.abs(np.einsum("tx,tx->t", a, np.cross(b, c)))
    has_volume = (volume > 0.0) & np.isfinite(volume)
    return np.where(has_volume, 0.5 * volume / np.where(has_volume, faces, 1.0), np.inf)


def cell_vectors(lengths: NDArray[Any], angles: NDArray[Any]) -> NDArray[np.float64]:
    """Vectors (in rows) of periodic cells from the lengths of their edges and the angles between them in degrees.

    mdtraj's own conversion checks each frame by itself, which takes longer than all the rest. A cell that does not
    exist has vectors that are zero or not numbers, and thus no volume.

    Parameters
    ----------
    lengths, angles : arrays (n_frames, 3)
        a, b, c; and the angles between b and c, a and c, a and b.

    Examples
    --------
    >>> cell_vectors(np.array([[1.0, 2.0, 3.0]]), np.array([[90.0, 90.0, 90.0]]))[0].round(12) + 0.0
    array([[1., 0., 0.],
           [0., 2., 0.],
           [0., 0., 3.]])
    """
    a, b, c = lengths.astype(np.float64).T
    cos_alpha, cos_beta, cos_gamma = np.cos(np.deg2rad(angles.astype(np.float64))).T
    sin_gamma = np.sin(np.deg2rad(angles[:, 2].astype(np.float64)))
    vectors = np.zeros((len(lengths), 3, 3))
    with np.errstate(divide="ignore", invalid="ignore"):
        vectors[:, 0, 0] = a
        vectors[:, 1, 0] = b * cos_gamma
        vectors[:, 1, 1] = b * sin_gamma
        vectors[:, 2, 0] = c * cos_beta
        vectors[:, 2, 1] = c * (cos_alpha - cos_beta * cos_gamma) / sin_gamma
        vectors[:, 2, 2] = np.sqrt(c**2 - vectors[:, 2, 0] ** 2 - vectors[:, 2, 1] ** 2)
    return vectors


def minimum_image(vectors: NDArray[Any], cells: NDArray[Any]) -> Float32Array:
    """Take the shortest periodic image of each vector.

    As everywhere in molecular dynamics, the cell must not be skewed beyond its reduced form: then the shortest image
    is one of the 27 around the rounded fractional coordinates.

    Parameters
    ----------
    vectors : array (n, 3)
    cells : array (n, 3, 3)
        The cell of each vector, its vectors in rows.

    Examples
    --------
    >>> minimum_image(np.array([[0.9, 0.0, 0.4]]), np.eye(3)[None])
    array([[-0.1,  0. ,  0.4]], dtype=float32)
    """
    cells = cells.astype(np.float64)
    fractions = np.linalg.solve(cells.transpose(0, 2, 1), vectors.astype(np.float64)[:, :, None])[:, :, 0]
    rounded = np.einsum("ni,nij->nj", fractions - np.rint(fractions), cells)
    best: NDArray[np.float64] = rounded.copy()
    for shift in np.ndindex(3, 3, 3):
        image = rounded + np.einsum("i,nij->nj", np.array(shift) - 1.0, cells)
        shorter = np.einsum("nj,nj->n", image, image) < np.einsum("nj,nj->n", best, best)
        best[shorter] = image[shorter]
    return best.astype(np.float32)


def first_unusable_frame(geometry: Geometry) -> tuple[int, str] | None:
    """First frame whose angles are not defined, and why; None if there is none.

    Examples
    --------
    >>> at_one_point = dihedral_angles(np.zeros((1, 4, 3), dtype=np.float32), np.array([[0, 1, 2, 3]], dtype=np.int32))
    >>> first_unusable_frame(at_one_point)
    (0, 'atoms 0 and 1 lie at the same point')
    """
    # One pass for good data. Comparisons with what is not a number are false.
    lengths_are_fine = geometry.lengths.min(initial=1.0) >= SHORTEST_BOND and geometry.lengths.max(initial=1.0) < np.inf
    if lengths_are_fine and np.isfinite(geometry.angles).all():
        return None
    with np.errstate(invalid="ignore"):
        coincide = geometry.lengths < SHORTEST_BOND
    infinite = ~np.isfinite(geometry.lengths)
    undefined = ~np.isfinite(geometry.angles).all(axis=1)
    frame = int(np.argmax(undefined | coincide.any(axis=1) | infinite.any(axis=1)))
    if coincide[frame].any():
        first, second = geometry.bonds[coincide[frame].argmax()]
        return frame, f"atoms {first} and {second} lie at the same point"
    if infinite[frame].any():
        first, second = geometry.bonds[infinite[frame].argmax()]
        return frame, f"a coordinate of atom {first} or {second} is not a finite number"
    return frame, "a dihedral angle is not a number"


def first_stretched_frame(geometry: Geometry) -> tuple[int, str] | None:
    """First frame with a bond that is none, and which atoms it would join; None if there is no such frame.

    Examples
    --------
    >>> line = np.arange(12, dtype=np.float32).reshape(1, 4, 3)
    >>> first_stretched_frame(dihedral_angles(line, np.array([[0, 1, 2, 3]], dtype=np.int32)))
    (0, 'atoms 0 and 1 are 5.2 nm apart')
    """
    long = np.flatnonzero(geometry.lengths.max(axis=1) > LONGEST_BOND)
    if len(long) == 0:
        return None
    frame = int(long[0])
    place = int(geometry.lengths[frame].argmax())
    first, second = geometry.bonds[place]
    return frame, f"atoms {first} and {second} are {geometry.lengths[frame, place]:.2g} nm apart"


def sines_and_cosines(angles: Float32Array) -> Float32Array:
    """Columns sin, cos of the first angle, sin, cos of the second, and so on.

    Examples
    --------
    >>> sines_and_cosines(np.zeros((1, 2), dtype=np.float32))
    array([[0., 1., 0., 1.]], dtype=float32)
    """
    columns = np.empty((len(angles), 2 * angles.shape[1]), dtype=np.float32)
    columns[:, 0::2] = np.sin(angles)
    columns[:, 1::2] = np.cos(angles)
    return columns
