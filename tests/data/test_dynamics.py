"""The dynamics: a seed of its own for every chunk, the force field that is claimed, equal frames for equal seeds."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest

from m3c_md.data.dynamics import (
    DEFAULT_N_TRAJECTORIES,
    DEFAULTS,
    HYDROGEN_MASS_AMU,
    Settings,
    chunk_seed,
    make_system,
    minimise,
    run_chunk,
    start_point,
)
from m3c_md.data.peptides import START_ANGLES, build_peptide, check_chirality

STARTS = [(molecule, start) for molecule in DEFAULTS for start in START_ANGLES]
ALANINE = dataclasses.replace(DEFAULTS["alanine-dipeptide"], steps_per_frame=5, equilibration_frames=2)


class TestSettings:
    def test_molecules_are_consistent(self):
        assert {name: settings.molecule for name, settings in DEFAULTS.items()} == {name: name for name in DEFAULTS}
        assert DEFAULT_N_TRAJECTORIES.keys() == DEFAULTS.keys()
        for settings in DEFAULTS.values():
            assert set(settings.starts) <= set(START_ANGLES)

    def test_runs_of_different_molecules_share_no_random_numbers(self):
        used = [
            range(settings.seed, settings.seed + DEFAULT_N_TRAJECTORIES[name]) for name, settings in DEFAULTS.items()
        ]
        assert not set(used[0]) & set(used[1])

    def test_spacing_is_steps_of_four_femtoseconds(self):
        assert dataclasses.replace(ALANINE, steps_per_frame=250).spacing == pytest.approx(1.0)


class TestSeeds:
    def test_every_chunk_has_its_own(self):
        seeds = [chunk_seed(ALANINE, trajectory, chunk) for trajectory in range(20) for chunk in range(50)]
        assert len(set(seeds)) == len(seeds)

    def test_openmm_takes_them_and_never_chooses_one_itself(self):
        for base in (0, 1, 2**31 - 1, 2**40):
            settings = dataclasses.replace(ALANINE, seed=base)
            for trajectory, chunk in itertools.product(range(20), range(50)):
                assert 0 < chunk_seed(settings, trajectory, chunk) < 2**31

    def test_they_depend_on_the_sum_of_base_and_trajectory(self):
        moved = dataclasses.replace(ALANINE, seed=ALANINE.seed + 3)
        assert chunk_seed(moved, 0, 5) == chunk_seed(ALANINE, 3, 5)
        assert chunk_seed(moved, 0, 5) != chunk_seed(ALANINE, 0, 5)


class Start(NamedTuple):
    """A start structure with its system."""

    settings: Settings
    topology: Any
    positions: np.ndarray
    system: Any


@functools.cache
def made(molecule: str, start: str) -> Start:
    settings = DEFAULTS[molecule]
    topology, positions = build_peptide(settings.n_alanines, settings.capped, start)
    return Start(settings, topology, positions, make_system(topology))


def energy_and_forces(system: Any, positions: np.ndarray) -> tuple[float, np.ndarray]:
    """In kJ/mol and kJ/mol/nm."""
    openmm = pytest.importorskip("openmm")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(positions)
    state = context.getState(energy=True, forces=True)
    return state.getPotentialEnergy()._value, np.array(state.getForces(asNumpy=True)._value)


@pytest.mark.parametrize(("molecule", "start"), STARTS)
class TestForceField:
    @pytest.fixture(autouse=True)
    def needs_openmm(self) -> None:
        pytest.importorskip("openmm")

    def test_energy_and_forces_are_those_of_openmms_own_obc2(self, molecule, start):
        from openmm import app

        ours = made(molecule, start)
        field = app.ForceField("amber14/protein.ff14SB.xml", "implicit/obc2.xml")
        reference = field.createSystem(ours.topology, nonbondedMethod=app.NoCutoff, constraints=app.HBonds)
        vacuum = app.ForceField("amber14/protein.ff14SB.xml").createSystem(
            ours.topology, nonbondedMethod=app.NoCutoff, constraints=app.HBonds
        )
        energy, forces = energy_and_forces(ours.system, ours.positions)
        their_energy, their_forces = energy_and_forces(reference, ours.positions)
        without, _ = energy_and_forces(vacuum, ours.positions)
        assert np.isfinite(forces).all()
        # Against the part that the solvent has in it, lest the bonds of the peptide hide an error.
        assert abs(energy - their_energy) < 1e-3 * abs(their_energy - without)
        assert np.abs(forces - their_forces).max() < 1e-3 * np.abs(their_forces).max()

    def test_hydrogens_are_heavy_and_the_molecule_is_not_heavier(self, molecule, start):
        from openmm import unit

        _, topology, _, system = made(molecule, start)
        masses = [system.getParticleMass(i).value_in_unit(unit.amu) for i in range(system.getNumParticles())]
        elements = [atom.element for atom in topology.atoms()]
        hydrogens = [element.symbol == "H" for element in elements]
        np.testing.assert_allclose(np.array(masses)[hydrogens], HYDROGEN_MASS_AMU)
        assert sum(masses) == pytest.approx(sum(element.mass.value_in_unit(unit.amu) for element in elements), rel=1e-4)
        assert system.getNumConstraints() == sum(hydrogens)

    def test_a_mirror_image_is_refused(self, molecule, start):
        ours = made(molecule, start)
        check_chirality(ours.topology, ours.positions)
        with pytest.raises(ValueError, match="not an L-amino acid"):
            check_chirality(ours.topology, -ours.positions)

    def test_minimising_goes_down_and_keeps_the_residues_left_handed(self, molecule, start):
        ours = made(molecule, start)
        minimum = minimise(ours.system, ours.settings, ours.positions)
        before, after = (energy_and_forces(ours.system, xyz)[0] for xyz in (ours.positions, minimum))
        assert after < before - 1.0
        check_chirality(ours.topology, minimum)


class TestMotion:
    @pytest.fixture(autouse=True)
    def needs_openmm(self) -> None:
        pytest.importorskip("openmm")

    @pytest.mark.parametrize("molecule", DEFAULTS)
    def test_the_same_seed_gives_the_same_frames_and_another_does_not(self, molecule):
        ours = made(molecule, "coil")
        settings = dataclasses.replace(ours.settings, steps_per_frame=5, equilibration_frames=1)
        minimum = minimise(ours.system, settings, ours.positions)
        point = start_point(ours.system, settings, minimum, 0)
        frames, end = run_chunk(ours.system, settings, point, 3, 7)
        again, end_again = run_chunk(ours.system, settings, point, 3, 7)
        other, _ = run_chunk(ours.system, settings, point, 3, 8)
        np.testing.assert_array_equal(frames, again)
        np.testing.assert_array_equal(end, end_again)
        assert np.abs(frames[-1] - other[-1]).max() > 1e-4
        assert not np.array_equal(point.velocities, start_point(ours.system, settings, minimum, 1).velocities)

    def test_frames_are_centred_and_end_where_the_next_chunk_starts(self):
        ours = made("alanine-dipeptide", "coil")
        point = start_point(ours.system, ALANINE, ours.positions, 0)
        frames, end = run_chunk(ours.system, ALANINE, point, 4, 7)
        assert frames.shape == (4, len(ours.positions), 3)
        np.testing.assert_allclose(frames.mean(axis=1), 0.0, atol=1e-6)
        np.testing.assert_allclose(frames[-1], end.positions - end.positions.mean(axis=0), atol=1e-6)
        moved = np.linalg.norm(np.diff(frames, axis=0), axis=-1)
        assert moved.min() > 0.0
        assert moved.max() < 0.1  # nm in 20 fs

    def test_temperature_is_that_of_the_settings(self):
        from openmm import unit

        ours = made("alanine-dipeptide", "coil")
        settings = dataclasses.replace(ALANINE, equilibration_frames=100)
        masses = np.array(
            [ours.system.getParticleMass(i).value_in_unit(unit.amu) for i in range(ours.system.getNumParticles())]
        )
        freedoms = 3 * len(masses) - ours.system.getNumConstraints()
        kelvins = []
        for trajectory in range(3):
            point = start_point(ours.system, settings, ours.positions, trajectory)
            for chunk in range(20):
                _, point = run_chunk(ours.system, settings, point, 5, 1 + 100 * trajectory + chunk)
                energy = 0.5 * (masses[:, None] * point.velocities**2).sum()
                kelvins.append(energy / (0.5 * freedoms * 0.00831446))
        # Correlated samples of 54 degrees of freedom each: wrong units or a wrong thermostat are off by far more.
        assert np.mean(kelvins) == pytest.approx(settings.temperature, rel=0.15)

    def test_a_simulation_that_blows_up_says_so(self):
        ours = made("alanine-dipeptide", "coil")
        hot = dataclasses.replace(ALANINE, temperature=1e7, equilibration_frames=20)
        with pytest.raises((ArithmeticError, RuntimeError, ValueError), match="lower the temperature"):
            start_point(ours.system, hot, ours.positions, 0)

    def test_ctrl_c_is_heard_after_every_frame(self, monkeypatch):
        """Python hears it between calls of OpenMM only, so that no call may be longer than a frame."""
        import openmm

        steps = []
        step = openmm.LangevinMiddleIntegrator.step
        monkeypatch.setattr(
            openmm.LangevinMiddleIntegrator, "step", lambda self, n: (steps.append(n), step(self, n))[1]
        )
        ours = made("alanine-dipeptide", "coil")
        settings = dataclasses.replace(ALANINE, equilibration_frames=6)
        point = start_point(ours.system, settings, ours.positions, 0)
        run_chunk(ours.system, settings, point, 3, 7)
        assert sum(steps) == 9 * settings.steps_per_frame
        assert max(steps) <= settings.steps_per_frame
