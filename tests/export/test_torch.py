"""The TorchScript module computes the rule and its gradient, from positions or from columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from m3c_md.exceptions import InputError
from m3c_md.export.openmm_force import RuleFunction
from tests.export.conftest import Case


class TestModule:
    @pytest.fixture
    def torch(self) -> Any:
        return pytest.importorskip("torch", reason="the extra 'deep'")

    def test_values_and_forces_from_positions(self, case: Case, torch: Any) -> None:
        module = case.model.to_torch(states=(1, 0))
        function = RuleFunction(case.model.collective_variable((1, 0)), case.columns.quartets)
        expected = case.differences(1, 0)
        for number, frame in enumerate(case.trajectory.xyz.astype(np.float64)):
            positions = torch.tensor(frame, requires_grad=True)
            value = module(positions)
            assert value.shape == ()
            value.backward()
            assert abs(value.item() - expected[number]) < 1e-6
            exact = function.energy_and_forces(frame[function.particles])[1]
            assert np.abs(positions.grad.numpy()[function.particles] + exact).max() < 1e-4

    @pytest.mark.parametrize(("states", "kind"), [((0, 2), "difference"), ((0, 1, 2), "membership")])
    def test_values_from_columns_of_one_frame_or_several(self, ala2: Case, torch: Any, states: Any, kind: Any) -> None:
        module = ala2.model.to_torch(states=states, kind=kind, inputs="columns")
        expected = ala2.model.collective_variable(states, kind).values(ala2.frames)
        several = module(torch.from_numpy(ala2.frames)).numpy()
        assert several.shape == (200, 1)
        assert np.abs(several[:, 0] - expected).max() < 1e-9
        one = module(torch.from_numpy(ala2.frames[3])).numpy()
        assert one.shape == (1,)
        assert abs(one[0] - expected[3]) < 1e-9

    @pytest.mark.parametrize("kind", ["difference", "membership"])
    def test_merged_states(self, ala2: Case, torch: Any, kind: Any) -> None:
        merged = ala2.model.merge([1, [0, 2]])
        for states in ((0, 1), (1, 0)):
            module = merged.to_torch(states=states, kind=kind, inputs="columns")
            expected = merged.collective_variable(states, kind).values(ala2.frames)
            assert np.abs(module(torch.from_numpy(ala2.frames)).numpy()[:, 0] - expected).max() < 1e-9
            assert abs(module(torch.from_numpy(ala2.frames[3])).item() - expected[3]) < 1e-9

    @pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
    def test_it_takes_single_precision_and_is_read_back_without_this_package(
        self, ala2: Case, torch: Any, tmp_path: Path
    ) -> None:
        path = str(tmp_path / "variable.pt")
        ala2.model.to_torch(states=(0, 1)).save(path)
        again = torch.jit.load(path)
        value = again(torch.from_numpy(ala2.trajectory.xyz[5])).item()
        assert abs(value - ala2.differences(0, 1)[5]) < 1e-6

    def test_columns_need_no_atoms(self, ala2: Case, torch: Any) -> None:
        model = ala2.model.copy()
        model.dihedral_columns = None
        assert model.to_torch(states=(0, 1), inputs="columns") is not None
        with pytest.raises(InputError, match="does not know which atoms"):
            model.to_torch(states=(0, 1))


def test_without_torch_the_error_says_how_to_get_it(ala2: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(InputError, match="to_torch needs PyTorch, which is not installed; python -m pip install"):
        ala2.model.to_torch(states=(0, 1))


def test_inputs_that_are_none(ala2: Case) -> None:
    with pytest.raises(InputError, match="inputs='angles' is not known"):
        ala2.model.to_torch(states=(0, 1), inputs="angles")  # type: ignore[arg-type]
