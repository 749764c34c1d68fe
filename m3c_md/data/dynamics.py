"""Langevin dynamics of polyalanines: Amber ff14SB with the OBC2 generalised Born model, by OpenMM."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from m3c_md.data.peptides import Positions

if TYPE_CHECKING:
    import openmm
    from openmm import app

TIME_STEP_PS = 0.004
"""Four femtoseconds: needs heavy hydrogens and constrained bonds to hydrogen, see `make_system`."""

HYDROGEN_MASS_AMU = 3.0


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
        Names in `peptides.START_ANGLES`; trajectory ``i`` starts from ``starts[i % len(starts)]``.
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
    time_step
        In ps.
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
    time_step: float = TIME_STEP_PS

    @property
    def spacing(self) -> float:
        """Time between two frames, in ps."""
        return self.steps_per_frame * self.time_step


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
        n_frames=2_500,
        steps_per_frame=1_000,
        chunk_frames=100,
        equilibration_frames=25,
        seed=30_000,
    ),
}
DEFAULT_N_TRAJECTORIES = {"alanine-dipeptide": 20, "deca-alanine": 10}


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

    positions: Positions
    velocities: Positions


def make_context(system: openmm.System, settings: Settings, seed: int) -> openmm.Context:
    """Make a context with one thread, whose noise is determined by ``seed``."""
    import openmm

    integrator = openmm.LangevinMiddleIntegrator(settings.temperature, settings.friction, settings.time_step)
    integrator.setRandomNumberSeed(seed)
    properties = {"Threads": "1"} if settings.platform == "CPU" else {}
    return openmm.Context(system, integrator, openmm.Platform.getPlatformByName(settings.platform), properties)


def chunk_seed(settings: Settings, trajectory: int, chunk: int) -> int:
    """Return a positive 31-bit seed; OpenMM takes zero for "choose one yourself".

    Chunk 0 is the equilibration, frames come from chunk 1 on.
    """
    return int(np.random.SeedSequence([settings.seed + trajectory, chunk]).generate_state(1)[0] % (2**31 - 1)) + 1


def minimise(system: openmm.System, settings: Settings, positions: Positions) -> Positions:
    """Return the positions of the nearest energy minimum."""
    import openmm

    context = make_context(system, settings, seed=1)
    context.setPositions(positions)
    openmm.LocalEnergyMinimizer.minimize(context)
    return np.asarray(context.getState(positions=True).getPositions(asNumpy=True)._value)


def start_point(system: openmm.System, settings: Settings, positions: Positions, trajectory: int) -> PhaseSpacePoint:
    """Draw velocities, equilibrate, and return the point from which a trajectory starts."""
    seed = chunk_seed(settings, trajectory, 0)
    context = make_context(system, settings, seed)
    context.setPositions(positions)
    context.setVelocitiesToTemperature(settings.temperature, seed)
    for _ in range(settings.equilibration_frames):  # frame by frame, so that Ctrl-C is heard
        context.getIntegrator().step(settings.steps_per_frame)
    return current_point(context)


def current_point(context: openmm.Context) -> PhaseSpacePoint:
    """Return where a simulation is; an error if it blew up."""
    state = context.getState(positions=True, velocities=True)
    point = PhaseSpacePoint(
        np.array(state.getPositions(asNumpy=True)._value), np.array(state.getVelocities(asNumpy=True)._value)
    )
    if not (np.isfinite(point.positions).all() and np.isfinite(point.velocities).all()):
        raise ValueError("the simulation blew up (coordinates are not finite); lower the temperature")
    return point


def run_chunk(
    system: openmm.System, settings: Settings, point: PhaseSpacePoint, n_frames: int, seed: int
) -> tuple[npt.NDArray[np.float32], PhaseSpacePoint]:
    """Run ``n_frames`` frames from ``point``; return them, shape ``(n_frames, n_atoms, 3)`` in nm, and the end."""
    context = make_context(system, settings, seed)
    context.setPositions(point.positions)
    context.setVelocities(point.velocities)
    frames = np.empty((n_frames, *point.positions.shape), dtype=np.float32)
    for frame in range(n_frames):
        context.getIntegrator().step(settings.steps_per_frame)
        point = current_point(context)
        # The centre stays at the origin so that the fixed precision of XTC never meets large numbers.
        frames[frame] = point.positions - point.positions.mean(axis=0)
    return frames, point
