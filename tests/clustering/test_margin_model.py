"""The fitted model: scores, margins, memberships, samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from m3c_md import M3CModel
from m3c_md.inputs import dataset as dataset_module
from tests.conftest import Wells


@pytest.fixture(scope="module")
def frames() -> np.ndarray:
    """Frames in the wells, between them and far away, where no data were."""
    rng = np.random.default_rng(8)
    return np.concatenate([rng.uniform(-2.5, 2.5, size=(400, 2)), rng.uniform(-50.0, 50.0, size=(40, 2))])


@pytest.fixture(scope="module")
def model(three_state_model: M3CModel) -> M3CModel:
    return three_state_model


class TestScores:
    def test_scores_are_the_rule_on_the_features(self, model: M3CModel, frames: np.ndarray) -> None:
        scores = model.decision_function(frames)
        assert scores.shape == (len(frames), model.n_states)
        expected = model.feature_map(frames) @ model.rule.weights.T + model.rule.bias
        assert scores == pytest.approx(expected, abs=1e-12)

    def test_the_largest_score_decides(self, model: M3CModel, frames: np.ndarray) -> None:
        assert np.array_equal(model.decision_function(frames).argmax(axis=1), model.transform(frames))

    def test_margin_is_the_lead_of_the_first_over_the_second(self, model: M3CModel, frames: np.ndarray) -> None:
        margin = model.margin(frames)
        ordered = np.sort(model.decision_function(frames), axis=1)
        assert margin.shape == (len(frames),)
        assert margin.min() >= 0.0
        assert np.array_equal(margin, ordered[:, -1] - ordered[:, -2])

    def test_margin_is_large_inside_a_state_and_small_between(self, model: M3CModel, three_wells: Wells) -> None:
        x, states = three_wells
        centres = np.array([x[states == state].mean(axis=0) for state in range(3)])
        halfway = 0.5 * (centres + np.roll(centres, 1, axis=0))
        assert model.margin(centres).min() > 1.0
        assert model.margin(halfway).max() < model.margin(centres).min()

    def test_a_list_gives_a_list(self, model: M3CModel, frames: np.ndarray) -> None:
        for method in (model.decision_function, model.margin, model.memberships):
            parts = method([frames[:10], frames[10:]])
            assert isinstance(parts, list)
            assert np.concatenate(parts) == pytest.approx(method(frames), abs=1e-12)


class TestMemberships:
    def test_rows_are_probabilities(self, model: M3CModel, frames: np.ndarray) -> None:
        soft = model.memberships(frames)
        assert soft.shape == (len(frames), model.n_states)
        assert soft.min() >= 0.0
        assert soft.max() <= 1.0 + 1e-12
        assert soft.sum(axis=1) == pytest.approx(1.0, abs=1e-12)

    def test_the_hard_state_has_the_largest_share(self, model: M3CModel, frames: np.ndarray) -> None:
        soft, labels = model.memberships(frames), model.transform(frames)
        assert np.array_equal(soft.argmax(axis=1), labels)

    def test_a_clear_frame_belongs_to_one_state_alone(self, model: M3CModel, frames: np.ndarray) -> None:
        soft, margin = model.memberships(frames), model.margin(frames)
        clear = margin >= 1.0 + 1e-9
        assert 0 < clear.sum() < len(frames)
        assert soft.max(axis=1)[clear] == pytest.approx(1.0, abs=1e-12)
        assert soft.max(axis=1)[margin < 1.0 - 1e-9].max() < 1.0

    def test_between_two_states_it_is_linear_in_the_margin(self, model: M3CModel, frames: np.ndarray) -> None:
        soft, margin = model.memberships(frames), model.margin(frames)
        two = (soft > 0.0).sum(axis=1) == 2
        assert two.any()
        assert soft.max(axis=1)[two] == pytest.approx(0.5 * (1.0 + margin[two]), abs=1e-9)


METHODS = pytest.mark.parametrize("method", ["transform", "decision_function", "margin", "memberships"])


class TestInvariance:
    @METHODS
    @pytest.mark.parametrize("batch", [1, 7, 100, 440])
    def test_batch_size(
        self, method: str, batch: int, model: M3CModel, frames: np.ndarray, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expected = getattr(model, method)(frames)
        monkeypatch.setattr(dataset_module, "FRAMES_AT_ONCE", batch)
        result = getattr(model, method)(frames)
        assert result.dtype == expected.dtype
        assert result == pytest.approx(expected, abs=1e-12)

    @METHODS
    @pytest.mark.parametrize(
        "reorder",
        [np.asfortranarray, lambda x: np.repeat(x, 3, axis=0)[::3], lambda x: x[::-1].copy()[::-1]],
        ids=["columns first", "strided", "backwards"],
    )
    def test_memory_order(self, method: str, reorder: Any, model: M3CModel, frames: np.ndarray) -> None:
        assert getattr(model, method)(reorder(frames)) == pytest.approx(getattr(model, method)(frames), abs=1e-12)

    @METHODS
    def test_splitting_and_joining(self, method: str, model: M3CModel, frames: np.ndarray) -> None:
        whole = getattr(model, method)(frames)
        one_by_one = [getattr(model, method)(frames[i : i + 1]) for i in range(0, len(frames), 40)]
        assert np.concatenate(one_by_one) == pytest.approx(whole[::40], abs=1e-12)
        assert np.concatenate(getattr(model, method)(np.array_split(frames, 5))) == pytest.approx(whole, abs=1e-12)

    def test_a_frame_does_not_depend_on_its_neighbours(self, model: M3CModel, frames: np.ndarray) -> None:
        order = np.random.default_rng(0).permutation(len(frames))
        assert np.array_equal(model.transform(frames[order]), model.transform(frames)[order])


class TestSample:
    @pytest.fixture
    def trajectories(self, three_wells: Wells) -> list[np.ndarray]:
        return [three_wells.frames[:250], three_wells.frames[250:]]

    @pytest.mark.parametrize("by", ["margin", "random"])
    def test_indices_point_into_the_right_state(self, by: Any, model: M3CModel, trajectories: list[np.ndarray]) -> None:
        labels = model.transform(trajectories)
        samples = model.sample(trajectories, 5, by=by, random_state=0)
        assert len(samples) == model.n_states
        for state, indices in enumerate(samples):
            assert indices.shape == (5, 2)
            assert np.issubdtype(indices.dtype, np.integer)
            assert [labels[i][t] for i, t in indices] == [state] * 5
            assert len({tuple(pair) for pair in indices.tolist()}) == 5

    def test_by_margin_the_deepest_come_first(self, model: M3CModel, trajectories: list[np.ndarray]) -> None:
        labels, margins = model.transform(trajectories), model.margin(trajectories)
        for state, indices in enumerate(model.sample(trajectories, 7)):
            found = [margins[i][t] for i, t in indices]
            inside = np.concatenate([m[x == state] for m, x in zip(margins, labels, strict=True)])
            assert found == sorted(inside, reverse=True)[:7]

    def test_random_is_reproducible_and_random(self, model: M3CModel, trajectories: list[np.ndarray]) -> None:
        draws = [model.sample(trajectories, 10, by="random", random_state=seed) for seed in (1, 1, 2)]
        assert all(np.array_equal(a, b) for a, b in zip(draws[0], draws[1], strict=True))
        assert not all(np.array_equal(a, b) for a, b in zip(draws[0], draws[2], strict=True))

    def test_random_takes_a_generator(self, model: M3CModel, trajectories: list[np.ndarray]) -> None:
        one = model.sample(trajectories, 4, by="random", random_state=1)
        other = model.sample(trajectories, 4, by="random", random_state=np.random.default_rng(1))
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))

    @pytest.mark.parametrize("by", ["margin", "random"])
    def test_a_state_with_fewer_frames_gives_all_it_has(self, by: Any, model: M3CModel, three_wells: Wells) -> None:
        x = three_wells.frames
        labels = model.transform(x)
        few = np.concatenate([x[labels == 0][:4], x[labels == 1][:1]])
        samples = model.sample(few, 3, by=by)
        assert [len(indices) for indices in samples] == [3, 1, 0]
        assert all(indices.shape[1] == 2 for indices in samples)
        assert samples[1].tolist() == [[0, 4]]

    def test_one_array_is_trajectory_zero(self, model: M3CModel, three_wells: Wells) -> None:
        samples = model.sample(three_wells.frames, 2)
        assert all((indices[:, 0] == 0).all() for indices in samples)


class TestDescription:
    def test_repr_says_what_was_found(self, model: M3CModel) -> None:
        text = repr(model)
        assert text.startswith("M3CModel(n_states=3, populations=[0.")
        assert "lagtime=1, bandwidth=" in text
        for share in model.populations:
            assert f"{share:.3g}" in text
        assert "gap=" in text
        assert "\n" not in text

    def test_properties(self, model: M3CModel) -> None:
        assert model.n_states == 3
        assert model.lagtime == 1
        assert model.bandwidth == 1.0
        assert model.populations.sum() == pytest.approx(1.0)


def test_states_do_not_depend_on_the_precision_they_are_computed_in(three_state_model):
    """Frames on the very border between two states get the state of the larger score in double precision."""
    rng = np.random.default_rng(0)
    ends = rng.normal(size=(2, 400, 2)) * 1.5
    for _ in range(60):  # bisect towards the border
        middle = ends.mean(axis=0)
        same = three_state_model.transform(middle) == three_state_model.transform(ends[0])
        ends = np.where(same[None, :, None], [middle, ends[1]], [ends[0], middle])
    frames = np.concatenate([ends[0], ends[1], ends.mean(axis=0)])
    assert three_state_model.margin(frames).min() < 1e-10
    expected = three_state_model.decision_function(frames).argmax(axis=1)
    np.testing.assert_array_equal(three_state_model.transform(frames), expected)
    np.testing.assert_array_equal(three_state_model.transform(frames[::-1])[::-1], expected)


@pytest.mark.parametrize("distance", [1e2, 1e5, 1e8])
def test_states_of_frames_far_away_are_those_of_the_scores(three_state_model: M3CModel, distance: float) -> None:
    """An angle of many turns is not known to single precision."""
    frames = distance * np.random.default_rng(0).normal(size=(5000, 2))
    states = three_state_model.decision_function(frames).argmax(axis=1)
    np.testing.assert_array_equal(three_state_model.transform(frames), states)
