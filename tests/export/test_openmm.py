"""The OpenMM force has the values and forces of the rule, whatever it is made of, and works inside of other forces."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from m3c_md.exceptions import InputError
from m3c_md.export.openmm_force import RuleFunction
from tests.export.conftest import Case

FORMS = {"ala2": ("expression", "python", "nested"), "ala10": ("python", "nested")}


class TestFunction:
    """What a `PythonForce` calls; no OpenMM needed."""

    def test_values_and_forces(self, case: Case) -> None:
        function = RuleFunction(case.model.collective_variable((0, 1)), case.columns.quartets)
        points = case.trajectory.xyz[:, function.particles].astype(np.float64)
        found = [function.energy_and_forces(x) for x in points]
        assert np.abs([value for value, _ in found] - case.differences(0, 1)).max() < 1e-6
        step, forces = 1e-5, np.array([force for _, force in found])
        for atom in range(0, len(function.particles), 8):
            shift = np.zeros(points.shape[1:])
            shift[atom, 1] = step
            slopes = [
                (function.energy_and_forces(x + shift)[0] - function.energy_and_forces(x - shift)[0]) / (2.0 * step)
                for x in points
            ]
            assert np.abs(slopes + forces[:, atom, 1]).max() < 1e-4

    def test_forces_neither_push_nor_turn_the_molecule(self, ala10: Case) -> None:
        function = RuleFunction(ala10.model.collective_variable((0, 1, 2), "membership"), ala10.columns.quartets)
        for x in ala10.trajectory.xyz[:20, function.particles].astype(np.float64):
            _, forces = function.energy_and_forces(x)
            assert np.abs(forces.sum(axis=0)).max() < 1e-10
            assert np.abs(np.cross(x, forces).sum(axis=0)).max() < 1e-10

    def test_it_pickles(self, ala2: Case) -> None:
        function = RuleFunction(ala2.model.collective_variable((0, 1)), ala2.columns.quartets)
        points = ala2.trajectory.xyz[0, function.particles].astype(np.float64)
        again = pickle.loads(pickle.dumps(function))
        assert again.energy_and_forces(points)[0] == function.energy_and_forces(points)[0]


def context_of(force: Any, n_atoms: int) -> Any:
    """Context in which the force is alone."""
    import openmm

    system = openmm.System()
    for _ in range(n_atoms):
        system.addParticle(12.0)
    system.addForce(force)
    platform = openmm.Platform.getPlatformByName("Reference")
    return openmm.Context(system, openmm.VerletIntegrator(0.001), platform)


def evaluated(context: Any, frames: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Energies and forces of frames."""
    energies, forces = [], []
    for positions in frames.astype(np.float64):
        context.setPositions(positions)
        state = context.getState(energy=True, forces=True)
        energies.append(state.getPotentialEnergy()._value)
        forces.append(state.getForces(asNumpy=True)._value)
    return np.array(energies), np.array(forces)


class TestForce:
    @pytest.fixture(autouse=True)
    def _openmm(self) -> None:
        pytest.importorskip("openmm", reason="the extra 'simulate'")

    def test_values_and_forces_of_every_form(self, case: Case) -> None:
        molecule = "ala2" if case.columns.n_angles == 2 else "ala10"
        function = RuleFunction(case.model.collective_variable((1, 0)), case.columns.quartets)
        frames = case.trajectory.xyz
        exact = np.zeros(frames.shape)
        points = frames[:, function.particles].astype(np.float64)
        exact[:, function.particles] = [function.energy_and_forces(x)[1] for x in points]
        for form in FORMS[molecule]:
            force = case.model.to_openmm(states=(1, 0), form=form)
            energies, forces = evaluated(context_of(force, frames.shape[1]), frames)
            assert np.abs(energies - case.differences(1, 0)).max() < 1e-6
            assert np.abs(forces - exact).max() < 1e-4

    @pytest.mark.parametrize("form", ["expression", "python", "nested"])
    def test_shares(self, ala2: Case, form: Any) -> None:
        force = ala2.model.to_openmm(states=(2, 0, 1), kind="membership", form=form)
        context = context_of(force, ala2.trajectory.n_atoms)
        energies, forces = evaluated(context, ala2.trajectory.xyz)
        powers = np.exp(2.0 * ala2.model.decision_function(ala2.frames))
        assert np.abs(energies - powers[:, 2] / powers.sum(axis=1)).max() < 1e-6
        step, atom = 1e-5, int(ala2.columns.quartets[0, 2])
        shift = np.zeros(forces.shape[1:])
        shift[atom, 0] = step
        points = ala2.trajectory.xyz.astype(np.float64)
        slopes = (evaluated(context, points + shift)[0] - evaluated(context, points - shift)[0]) / (2.0 * step)
        assert np.abs(slopes + forces[:, atom, 0]).max() < 1e-4

    @pytest.mark.parametrize("form", ["expression", "python", "nested"])
    @pytest.mark.parametrize("kind", ["difference", "membership"])
    def test_merged_states(self, ala2: Case, form: Any, kind: Any) -> None:
        merged = ala2.model.merge([1, [0, 2]])
        for states in ((0, 1), (1, 0)):
            force = merged.to_openmm(states=states, kind=kind, form=form)
            energies, forces = evaluated(context_of(force, ala2.trajectory.n_atoms), ala2.trajectory.xyz)
            variable = merged.collective_variable(states, kind)
            assert np.abs(energies - variable.values(ala2.frames)).max() < 1e-6
            function = RuleFunction(variable, ala2.columns.quartets)
            points = ala2.trajectory.xyz[:, function.particles].astype(np.float64)
            exact = np.array([function.energy_and_forces(x)[1] for x in points])
            assert np.abs(forces[:, function.particles] - exact).max() < 1e-4

    def test_the_form_fits_the_number_of_angles(self, ala2: Case, ala10: Case, monkeypatch: pytest.MonkeyPatch) -> None:
        import openmm

        assert isinstance(ala2.model.to_openmm(states=(0, 1)), openmm.CustomCVForce)
        if hasattr(openmm, "PythonForce"):
            assert isinstance(ala10.model.to_openmm(states=(0, 1)), openmm.PythonForce)
        monkeypatch.delattr(openmm, "PythonForce", raising=False)
        assert isinstance(ala10.model.to_openmm(states=(0, 1)), openmm.CustomCVForce)
        with pytest.raises(InputError, match=r"form='python' needs OpenMM 8\.3 or later"):
            ala10.model.to_openmm(states=(0, 1), form="python")

    @pytest.mark.parametrize("form", ["expression", "python", "nested"])
    def test_it_is_written_and_read_back(self, ala2: Case, form: Any) -> None:
        from openmm import XmlSerializer

        text = XmlSerializer.serialize(ala2.model.to_openmm(states=(0, 2), form=form))
        again = XmlSerializer.deserialize(text)
        energies, _ = evaluated(context_of(again, ala2.trajectory.n_atoms), ala2.trajectory.xyz[:20])
        assert np.abs(energies - ala2.differences(0, 2)[:20]).max() < 1e-6

    @pytest.mark.parametrize("form", ["expression", "python"])
    def test_metadynamics_takes_it_as_a_bias_variable(self, ala2: Case, form: Any) -> None:
        from openmm import LangevinMiddleIntegrator, Platform, app, unit

        from m3c_md.data.dynamics import make_system
        from m3c_md.data.peptides import build_peptide

        topology, positions = build_peptide(1, True, "coil")
        system = make_system(topology)
        variable = app.BiasVariable(ala2.model.to_openmm(states=(0, 1), form=form), -3.0, 3.0, 0.2)
        bias = app.Metadynamics(system, [variable], 300 * unit.kelvin, 5.0, 1.0, 10)
        integrator = LangevinMiddleIntegrator(300, 1.0, 0.002)
        simulation = app.Simulation(topology, system, integrator, Platform.getPlatformByName("Reference"))
        simulation.context.setPositions(positions)
        simulation.minimizeEnergy()
        bias.step(simulation, 50)
        (value,) = bias.getCollectiveVariables(simulation)
        at = simulation.context.getState(positions=True).getPositions(asNumpy=True)._value
        function = RuleFunction(ala2.model.collective_variable((0, 1)), ala2.columns.quartets)
        assert value == pytest.approx(function.energy_and_forces(at[function.particles])[0], abs=1e-6)
        assert bias.getFreeEnergy().min()._value < 0.0  # hills were dropped


def test_without_openmm_the_error_says_how_to_get_it(ala2: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openmm", None)
    with pytest.raises(InputError, match="to_openmm needs OpenMM, which is not installed; python -m pip install"):
        ala2.model.to_openmm(states=(0, 1))


def test_forms_and_labels_that_are_none(ala2: Case) -> None:
    with pytest.raises(InputError, match="form='table' is not known"):
        ala2.model.to_openmm(states=(0, 1), form="table")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rules on other columns go to PLUMED by a list of its labels"):
        ala2.model.to_openmm(["a", "b", "c", "d"], (0, 1))
