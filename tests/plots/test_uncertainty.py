"""Zones of uncertain borders in maps of states: where they lie, and which results are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.contour import ContourSet

from m3c_md.exceptions import InputError
from m3c_md.plots import plot_decomposition, plot_ramachandran, plot_state_map
from m3c_md.validation import refit
from tests.conftest import hidden_markov_wells, quick
from tests.plots._models import NearestCentre

RNG = np.random.default_rng(0)
FRAMES = RNG.uniform(-1.0, 1.0, size=(4000, 2))
MODEL = NearestCentre([[-0.5, 0.0], [0.5, 0.0]], FRAMES)


class StepRules:
    """Half of the rules disagree within 0.2 of the border at x = 0, a tenth within 0.4, none beyond."""

    model = MODEL

    def border_uncertainty(self, frames: np.ndarray) -> np.ndarray:
        distance = np.abs(np.asarray(frames)[:, 0])
        return np.where(distance < 0.2, 0.5, np.where(distance < 0.4, 0.1, 0.0))


def zones(panel: Any) -> list[tuple[float, float]]:
    """Left and right ends of each hatched zone."""
    (found,) = [one for one in panel.get_children() if isinstance(one, ContourSet) and any(one.hatches)]
    assert found.hatches == ["///", "xxx"]
    return [(path.get_extents().x0, path.get_extents().x1) for path in found.get_paths()]


def hatched(panel: Any) -> bool:
    return any(isinstance(one, ContourSet) and one.hatches and any(one.hatches) for one in panel.get_children())


# Without a way back to columns, cells of the map have the mean of their frames.
@pytest.mark.parametrize("embed", [None, lambda points: points], ids=["cells", "rule"])
def test_zones_lie_where_rules_disagree(embed: Any) -> None:
    axis = plot_state_map(MODEL, FRAMES, coordinates=FRAMES, embed=embed, uncertainty=StepRules(), bins=40)
    wide, narrow = zones(axis)
    np.testing.assert_allclose(wide, (-0.4, 0.4), atol=0.06)
    np.testing.assert_allclose(narrow, (-0.2, 0.2), atol=0.06)
    labels = [text.get_text() for text in axis.get_legend().get_texts()]
    assert labels[-2:] == ["≥ 5% of refits disagree", "≥ 25% of refits disagree"]


def test_maps_without_it_are_as_before() -> None:
    axis = plot_state_map(MODEL, FRAMES)
    assert not hatched(axis)
    assert len(axis.get_legend().get_texts()) == 2


def test_a_decomposition_has_the_zones_of_a_refit() -> None:
    trajs = [hidden_markov_wells(100, 2, seed, stay=0.9).frames for seed in range(10)]
    rules = refit(quick(2, metric="standard"), trajs, 5, random_state=0)
    axis = plot_decomposition(rules.model, trajs, uncertainty=rules, resolution=60)
    (found,) = [one for one in axis.get_children() if isinstance(one, ContourSet) and any(one.hatches)]
    frames = np.concatenate(trajs)
    mesh = RNG.uniform(frames.min(axis=0), frames.max(axis=0), size=(2000, 2))
    inside = found.get_paths()[0].contains_points(mesh) | found.get_paths()[1].contains_points(mesh)
    assert 0.01 < inside.mean() < 0.9
    assert (inside == (rules.border_uncertainty(mesh) >= 0.05)).mean() > 0.9


def test_a_ramachandran_map_has_them_in_degrees() -> None:
    angles = np.radians(180.0) * FRAMES
    rules = StepRules()
    axis = plot_ramachandran(MODEL, FRAMES, angles, unit="radians", uncertainty=rules, bins=30)
    np.testing.assert_allclose(zones(axis)[0], (-0.4 * 180.0, 0.4 * 180.0), atol=12.0)


def test_a_panel_of_its_own_for_every_model() -> None:
    axes = plot_state_map({"a": MODEL, "b": MODEL}, FRAMES, uncertainty={"b": StepRules()})
    assert [hatched(axis) for axis in axes] == [False, True]


class TestRefusals:
    def test_several_models_need_a_dict(self) -> None:
        with pytest.raises(InputError, match="must be a dict with some of the names a, b"):
            plot_state_map({"a": MODEL, "b": MODEL}, FRAMES, uncertainty=StepRules())

    def test_a_name_that_is_not_drawn(self) -> None:
        with pytest.raises(InputError, match="'c', which is not drawn"):
            plot_state_map({"a": MODEL}, FRAMES, uncertainty={"c": StepRules()})

    def test_something_else(self) -> None:
        with pytest.raises(InputError, match=r"uncertainty=0\.5 must be what m3c_md\.validation\.refit returns"):
            plot_state_map(MODEL, FRAMES, uncertainty=0.5)

    def test_rules_of_another_number_of_states(self) -> None:
        other = NearestCentre([[-0.5, 0.0], [0.5, 0.0], [0.0, 0.5]], FRAMES)
        with pytest.raises(InputError, match="rule with 2 states, and the model has 3"):
            plot_state_map(other, FRAMES, uncertainty=StepRules())
