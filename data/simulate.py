"""Molecular dynamics of alanine dipeptide and deca-alanine in implicit solvent, made from nothing but this file.

Coordinates are built from internal coordinates, the force field is Amber ff14SB with the OBC2 generalised Born model
(Onufriev, Bashford and Case 2004), and frames are written in chunks. Every chunk starts from the saved end of the one
before, in a new context and with a random seed that depends on the base seed, the trajectory and the chunk only.
A run that was killed therefore goes on with the same command as if nothing had happened, and loses at most one chunk.

Files below ``--out``::

    settings.json             what was run; a resumed run must agree with it
    topology.pdb              minimised first start structure
    traj_00.xtc               coordinates, one file per finished trajectory
    traj_00_dihedrals.npy     float32, radians, columns phi_1, ..., phi_m, psi_1, ..., psi_m, in the order of mdtraj
    parts_00/                 chunks (XTC) and checkpoint of the trajectory that is being made

Examples
--------
::

    python simulate.py alanine-dipeptide --out alanine_dipeptide
    python simulate.py deca-alanine --out deca_alanine --n-trajectories 4
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import mdtraj
    import openmm
    from openmm import app

FloatArray = npt.NDArray[np.floating]

TIME_STEP_PS = 0.004
"""Four femtoseconds: needs heavy hydrogens and constrained bonds to hydrogen, see `make_system`."""

HYDROGEN_MASS_AMU = 3.0

START_ANGLES = {"helix": (-63.0, -42.0), "coil": (-75.0, 145.0)}
"""Backbone angles (phi, psi) in degrees of the start structures: alpha helix, and extended polyproline II."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a run depends on; written to ``settings.json`` and compared with it when a run is resumed.

    Attributes
    ----------
    molecule
        A key of `DEFAULTS`.
    n_alanines, capped
        The peptide: its number of alanines, and whether it carries the caps Ace and NMe or charged ends.
    starts
        Names in `START_ANGLES`; trajectory ``i`` starts from ``starts[i % len(starts)]``.
    platform
        OpenMM platform. Reference is the fastest one on a single core for a few atoms.
    temperature, friction
        In kelvin and 1/ps, for Langevin dynamics.
    n_frames, steps_per_frame, chunk_frames
        Frames per trajectory, time steps between frames, frames per chunk.
    equilibration_frames
        Frames that are run from the minimised start structure and thrown away.
    seed
        Base seed; trajectory ``i`` uses ``seed + i``.
    """

    molecule: str
    n_alanines: int
    capped: bool
    starts: tuple[str, ...]
    platform: str
    temperature: float
    friction: float
    n_frames: int
    steps_per_frame: int
    chunk_frames: int
    equilibration_frames: int
    seed: int


DEFAULTS = {
    "alanine-dipeptide": Settings(
        molecule="alanine-dipeptide",
        n_alanines=1,
        capped=True,
        starts=("coil", "helix"),
        platform="Reference",
        temperature=500.0,
        friction=1.0,
        n_frames=10_000,
        steps_per_frame=500,
        chunk_frames=500,
        equilibration_frames=100,
        seed=20_000,
    ),
    "deca-alanine": Settings(
        molecule="deca-alanine",
        n_alanines=10,
        capped=False,
        starts=("coil", "helix"),
        platform="CPU",
        temperature=300.0,
        friction=1.0,
        n_frames=5_000,
        steps_per_frame=1_000,
        chunk_frames=100,
        equilibration_frames=25,
        seed=30_000,
    ),
}
DEFAULT_N_TRAJECTORIES = {"alanine-dipeptide": 20, "deca-alanine": 10}


# --- the molecule ------------------------------------------------------------------------------------------------


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


def place_atom(a: FloatArray, b: FloatArray, c: FloatArray, row: AtomRow) -> FloatArray:
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


def build_peptide(settings: Settings, start: str) -> tuple[app.Topology, FloatArray]:
    """Build topology and coordinates (nanometres, shape ``(n_atoms, 3)``) of a start structure."""
    from openmm import app

    placed: dict[tuple[int, str], FloatArray] = {name: np.array(xyz) for name, xyz in _ORIGIN.items()}
    for row in peptide_rows(settings.n_alanines, settings.capped, *START_ANGLES[start]):
        a, b, c = (placed[anchor] for anchor in row.anchors)
        placed[row.atom] = place_atom(a, b, c, row)
    atoms = sorted((atom for atom in placed if atom not in _ORIGIN), key=lambda atom: atom[0])

    names = ["ALA"] * settings.n_alanines
    if settings.capped:
        names = ["ACE", *names, "NME"]
    topology = app.Topology()
    chain = topology.addChain("A")
    residues = [topology.addResidue(name, chain, str(number)) for number, name in enumerate(names, start=1)]
    for residue, name in atoms:
        topology.addAtom(name, app.Element.getBySymbol(name[0]), residues[residue])
    topology.createStandardBonds()
    return topology, np.array([placed[atom] for atom in atoms]) / 10.0


def check_chirality(topology: app.Topology, positions: FloatArray) -> None:
    """Raise unless every alanine is an L-amino acid: seen from HA, the atoms N, C, CB run clockwise around CA."""
    for residue in topology.residues():
        index = {atom.name: atom.index for atom in residue.atoms()}
        if residue.name != "ALA":
            continue
        n, c, cb = (positions[index[name]] - positions[index["CA"]] for name in ("N", "C", "CB"))
        if float(np.dot(np.cross(n, c), cb)) <= 0.0:
            raise ValueError(f"residue {residue.name} {residue.id} is not an L-amino acid: the start structure is bad")


# --- the physics -------------------------------------------------------------------------------------------------

_BORN_RADII_NM = {"H": 0.12, "C": 0.17, "N": 0.155, "O": 0.15}
_BORN_RADIUS_H_ON_N_NM = 0.13
_BORN_SCALES = {"H": 0.85, "C": 0.72, "N": 0.79, "O": 0.85}


def make_born_force(topology: app.Topology, system: openmm.System) -> openmm.GBSAOBCForce:
    """Make the OBC2 implicit solvent with mbondi2 radii.

    OpenMM's ``implicit/obc2.xml`` gives the same energy by a `CustomGBForce`, which is about 30 times slower on a CPU.
    """
    import openmm
    from openmm import unit

    on_nitrogen = set()
    for pair in topology.bonds():
        for atom, partner in (pair, pair[::-1]):
            if atom.element.symbol == "H" and partner.element.symbol == "N":
                on_nitrogen.add(atom.index)
    (nonbonded,) = (force for force in system.getForces() if isinstance(force, openmm.NonbondedForce))
    born = openmm.GBSAOBCForce()
    born.setNonbondedMethod(openmm.GBSAOBCForce.NoCutoff)
    for atom in topology.atoms():
        charge = nonbonded.getParticleParameters(atom.index)[0].value_in_unit(unit.elementary_charge)
        symbol = atom.element.symbol
        radius = _BORN_RADIUS_H_ON_N_NM if atom.index in on_nitrogen else _BORN_RADII_NM[symbol]
        born.addParticle(charge, radius, _BORN_SCALES[symbol])
    return born


def make_system(topology: app.Topology) -> openmm.System:
    """Make the system: ff14SB, OBC2, no cutoff, bonds to hydrogen constrained, heavy hydrogens, free to drift."""
    from openmm import app, unit

    system = app.ForceField("amber14/protein.ff14SB.xml").createSystem(
        topology,
        nonbondedMethod=app.NoCutoff,
        constraints=app.HBonds,
        hydrogenMass=HYDROGEN_MASS_AMU * unit.amu,
        removeCMMotion=False,
    )
    system.addForce(make_born_force(topology, system))
    return system


class PhaseSpacePoint(NamedTuple):
    """Positions (nm) and velocities (nm/ps), double precision."""

    positions: FloatArray
    velocities: FloatArray


def _make_context(system: openmm.System, settings: Settings, seed: int) -> openmm.Context:
    """Make a context with one thread, whose noise is determined by ``seed``."""
    import openmm

    integrator = openmm.LangevinMiddleIntegrator(settings.temperature, settings.friction, TIME_STEP_PS)
    integrator.setRandomNumberSeed(seed)
    properties = {"Threads": "1"} if settings.platform == "CPU" else {}
    return openmm.Context(system, integrator, openmm.Platform.getPlatformByName(settings.platform), properties)


def chunk_seed(settings: Settings, trajectory: int, chunk: int) -> int:
    """Return a positive 31-bit seed; OpenMM takes zero for "choose one yourself".

    Chunk 0 is the equilibration, frames come from chunk 1 on.
    """
    return int(np.random.SeedSequence([settings.seed + trajectory, chunk]).generate_state(1)[0] % (2**31 - 1)) + 1


def minimise(system: openmm.System, settings: Settings, positions: FloatArray) -> FloatArray:
    """Return the positions of the nearest energy minimum."""
    import openmm

    context = _make_context(system, settings, seed=1)
    context.setPositions(positions)
    openmm.LocalEnergyMinimizer.minimize(context)
    return np.asarray(context.getState(positions=True).getPositions(asNumpy=True)._value)


def start_point(system: openmm.System, settings: Settings, positions: FloatArray, trajectory: int) -> PhaseSpacePoint:
    """Draw velocities, equilibrate, and return the point from which a trajectory starts."""
    seed = chunk_seed(settings, trajectory, 0)
    context = _make_context(system, settings, seed)
    context.setPositions(positions)
    context.setVelocitiesToTemperature(settings.temperature, seed)
    context.getIntegrator().step(settings.equilibration_frames * settings.steps_per_frame)
    return _current_point(context)


def _current_point(context: openmm.Context) -> PhaseSpacePoint:
    state = context.getState(positions=True, velocities=True)
    point = PhaseSpacePoint(
        np.array(state.getPositions(asNumpy=True)._value), np.array(state.getVelocities(asNumpy=True)._value)
    )
    if not (np.isfinite(point.positions).all() and np.isfinite(point.velocities).all()):
        raise FloatingPointError("the simulation blew up (coordinates are not finite): lower the temperature")
    return point


def run_chunk(
    system: openmm.System, settings: Settings, point: PhaseSpacePoint, n_frames: int, seed: int
) -> tuple[npt.NDArray[np.float32], PhaseSpacePoint]:
    """Run ``n_frames`` frames from ``point``; return them, shape ``(n_frames, n_atoms, 3)`` in nm, and the end."""
    context = _make_context(system, settings, seed)
    context.setPositions(point.positions)
    context.setVelocities(point.velocities)
    frames = np.empty((n_frames, *point.positions.shape), dtype=np.float32)
    for frame in range(n_frames):
        context.getIntegrator().step(settings.steps_per_frame)
        point = _current_point(context)
        # The centre stays at the origin so that the fixed precision of XTC never meets large numbers.
        frames[frame] = point.positions - point.positions.mean(axis=0)
    return frames, point


# --- files -------------------------------------------------------------------------------------------------------


def write_xtc(path: Path, frames: npt.NDArray[np.float32], first_frame: int, settings: Settings) -> None:
    """Write frames by way of a temporary file, so that the name never shows half a file.

    Frame ``i`` of a trajectory has time ``i * spacing``.
    """
    from mdtraj.formats import XTCTrajectoryFile

    temporary = path.with_name(f"writing_{path.name}")
    numbers = np.arange(first_frame, first_frame + len(frames), dtype=np.int32)
    spacing = settings.steps_per_frame * TIME_STEP_PS
    with XTCTrajectoryFile(str(temporary), "w") as file:
        file.write(frames, time=(numbers * spacing).astype(np.float32), step=numbers * settings.steps_per_frame)
    os.replace(temporary, path)


def write_checkpoint(path: Path, n_chunks: int, point: PhaseSpacePoint) -> None:
    """Save the end of chunk ``n_chunks``."""
    temporary = path.with_name(f"writing_{path.name}")
    np.savez(temporary, n_chunks=n_chunks, positions=point.positions, velocities=point.velocities)
    os.replace(temporary, path)


def read_checkpoint(path: Path) -> tuple[int, PhaseSpacePoint]:
    """Read what `write_checkpoint` wrote."""
    with np.load(path, allow_pickle=False) as file:
        return int(file["n_chunks"]), PhaseSpacePoint(file["positions"], file["velocities"])


def backbone_dihedrals(trajectory: mdtraj.Trajectory) -> npt.NDArray[np.float32]:
    """Return all phi, then all psi, in radians, one row per frame."""
    import mdtraj

    phi, psi = mdtraj.compute_phi(trajectory)[1], mdtraj.compute_psi(trajectory)[1]
    return np.hstack([phi, psi]).astype(np.float32)


def check_settings(folder: Path, settings: Settings) -> None:
    """Write the settings into a new folder; raise if the folder was made with others."""
    path = folder / "settings.json"
    text = json.dumps(dataclasses.asdict(settings), indent=2)
    if not path.exists():
        temporary = path.with_name("writing_settings.json")
        temporary.write_text(text + "\n")
        os.replace(temporary, path)
        return
    old, new = json.loads(path.read_text()), json.loads(text)
    differing = {key: (old.get(key), new[key]) for key in new if old.get(key) != new[key]}
    if differing:
        raise ValueError(f"{folder} was made with other settings (old, new): {differing}; choose another --out")


# --- a run -------------------------------------------------------------------------------------------------------


def run_trajectory(system: openmm.System, settings: Settings, start: FloatArray, trajectory: int, folder: Path) -> None:
    """Run one trajectory to its end, from its checkpoint if there is one."""
    stem = f"traj_{trajectory:02d}"
    parts = folder / f"parts_{trajectory:02d}"
    dihedrals_path = folder / f"{stem}_dihedrals.npy"
    if dihedrals_path.exists():
        shutil.rmtree(parts, ignore_errors=True)
        print(f"{stem}: finished before", flush=True)
        return
    parts.mkdir(exist_ok=True)
    checkpoint = parts / "checkpoint.npz"
    if checkpoint.exists():
        done, point = read_checkpoint(checkpoint)
    else:
        done, point = 0, start_point(system, settings, start, trajectory)
        write_checkpoint(checkpoint, done, point)
    n_chunks = math.ceil(settings.n_frames / settings.chunk_frames)
    for chunk in range(done, n_chunks):
        began = time.perf_counter()
        first = chunk * settings.chunk_frames
        n_frames = min(settings.chunk_frames, settings.n_frames - first)
        frames, point = run_chunk(system, settings, point, n_frames, chunk_seed(settings, trajectory, chunk + 1))
        # In this order: a stop between the two repeats the chunk and writes the same file again.
        write_xtc(parts / f"{chunk:05d}.xtc", frames, first, settings)
        write_checkpoint(checkpoint, chunk + 1, point)
        speed = n_frames * settings.steps_per_frame / (time.perf_counter() - began)
        print(f"{stem}: {first + n_frames}/{settings.n_frames} frames, {speed:.0f} steps/s", flush=True)
    finish_trajectory(settings, folder, stem, parts, n_chunks)


def finish_trajectory(settings: Settings, folder: Path, stem: str, parts: Path, n_chunks: int) -> None:
    """Join the chunks of a trajectory, compute its angles from what was saved, remove the chunks."""
    import mdtraj

    topology = mdtraj.load_topology(str(folder / "topology.pdb"))
    joined = mdtraj.load([str(parts / f"{chunk:05d}.xtc") for chunk in range(n_chunks)], top=topology)
    if joined.n_frames != settings.n_frames:
        raise RuntimeError(f"{parts} holds {joined.n_frames} frames, not {settings.n_frames}; remove it and run again")
    write_xtc(folder / f"{stem}.xtc", joined.xyz, 0, settings)
    temporary = folder / f"writing_{stem}_dihedrals.npy"
    np.save(temporary, backbone_dihedrals(joined))
    os.replace(temporary, folder / f"{stem}_dihedrals.npy")
    shutil.rmtree(parts)


def simulate(settings: Settings, n_trajectories: int, folder: Path) -> None:
    """Run trajectories ``0, ..., n_trajectories - 1`` one after the other; what is finished is not repeated."""
    from openmm import app

    folder.mkdir(parents=True, exist_ok=True)
    check_settings(folder, settings)
    starts = {}
    for name in settings.starts:
        topology, positions = build_peptide(settings, name)
        system = make_system(topology)
        starts[name] = minimise(system, settings, positions)
        check_chirality(topology, starts[name])
    pdb = folder / "topology.pdb"
    if not pdb.exists():
        temporary = folder / "writing_topology.pdb"
        with temporary.open("w") as file:
            app.PDBFile.writeFile(topology, starts[settings.starts[0]] * 10.0, file)
        os.replace(temporary, pdb)
    for trajectory in range(n_trajectories):
        start = starts[settings.starts[trajectory % len(settings.starts)]]
        run_trajectory(system, settings, start, trajectory, folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("molecule", choices=sorted(DEFAULTS))
    parser.add_argument("--out", type=Path, required=True, help="folder of the results; resumes what is in it")
    parser.add_argument("--n-trajectories", type=int, help="default: 20 (alanine-dipeptide), 10 (deca-alanine)")
    parser.add_argument("--n-frames", type=int, help="frames per trajectory")
    parser.add_argument("--temperature", type=float, help="kelvin")
    parser.add_argument("--seed", type=int, help="base seed; trajectory i uses seed + i")
    parser.add_argument("--starts", nargs="+", choices=sorted(START_ANGLES), help="start structures, taken in turn")
    options = parser.parse_args(arguments)
    chosen = {
        key: getattr(options, key)
        for key in ("n_frames", "temperature", "seed", "starts")
        if getattr(options, key) is not None
    }
    if "starts" in chosen:
        chosen["starts"] = tuple(chosen["starts"])
    settings = dataclasses.replace(DEFAULTS[options.molecule], **chosen)
    n_trajectories = options.n_trajectories or DEFAULT_N_TRAJECTORIES[options.molecule]
    try:
        simulate(settings, n_trajectories, options.out)
    except KeyboardInterrupt:
        print(f"stopped; the same command goes on from {options.out}", file=sys.stderr)
        return 130
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
