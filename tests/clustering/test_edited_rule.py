"""Merged and split states: still a model, with the borders that it had and planted states inside of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from m3c_md import MMC, M3CModel, load_model
from m3c_md.clustering.archive import Contents
from m3c_md.clustering.edits import Merge, Split, origins
from m3c_md.exceptions import InputError, ModelFileError
from m3c_md.matching import agreement
from m3c_md.validation.state_tree import shared_frames, state_tree
from tests.conftest import Wells, quick
from tests.export.plumed_interpreter import Plumed

# Wells 0 and 1 exchange fast, and so do 2 and 3; between the two pairs it is ten times slower.
CHAIN = np.array(
    [[0.955, 0.04, 0.005, 0.0], [0.04, 0.955, 0.0, 0.005], [0.005, 0.0, 0.955, 0.04], [0.0, 0.005, 0.04, 0.955]]
)
CENTRES = np.array([[-2.0, -0.8, 0.0], [-2.0, 0.8, 0.0], [2.0, -0.6, 0.0], [2.0, 0.6, 0.0]])


class Planted(NamedTuple):
    """Four wells in two pairs, the true well of every frame, and a model of the pairs."""

    trajs: list[np.ndarray]
    wells: list[np.ndarray]
    model: M3CModel


def planted_series(n_trajectories: int, n_frames: int, seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    cumulated = CHAIN.cumsum(axis=1)
    trajs, wells = [], []
    for k in range(n_trajectories):
        states = np.empty(n_frames, dtype=np.intp)
        states[0] = k % 4
        for t, u in enumerate(rng.random(n_frames - 1)):
            states[t + 1] = np.searchsorted(cumulated[states[t]], u)
        trajs.append(CENTRES[states] + 0.2 * rng.normal(size=(n_frames, 3)))
        wells.append(states)
    return trajs, wells


@pytest.fixture(scope="module")
def planted() -> Planted:
    trajs, wells = planted_series(4, 700, 0)
    return Planted(trajs, wells, quick(2).fit_fetch(trajs))


@pytest.fixture(scope="module")
def divided(planted: Planted) -> M3CModel:
    """Both states of the model split in two."""
    first: M3CModel = planted.model.split(0, 2, planted.trajs, random_state=0, bandwidth=1.0, starts=("kinetic",))
    return first.split(1, 2, planted.trajs, random_state=0, bandwidth=1.0, starts=("kinetic",))


@pytest.fixture(scope="module")
def frames() -> np.ndarray:
    """Frames everywhere, also where no data were."""
    return np.random.default_rng(5).uniform(-4.0, 4.0, size=(2000, 3))


def as_any_model(model: M3CModel, frames: np.ndarray) -> None:
    """What is true of every model: the largest score decides, and margin and memberships follow from the scores."""
    scores, labels, margin = model.decision_function(frames), model.transform(frames), model.margin(frames)
    assert scores.shape == (len(frames), model.n_states)
    assert np.array_equal(scores.argmax(axis=1), labels)
    ordered = np.sort(scores, axis=1)
    np.testing.assert_array_equal(margin, ordered[:, -1] - ordered[:, -2])
    soft = model.memberships(frames)
    np.testing.assert_allclose(soft.sum(axis=1), 1.0, atol=1e-12)
    assert np.array_equal(soft.argmax(axis=1)[margin > 1e-9], labels[margin > 1e-9])
    assert soft.max(axis=1)[margin >= 1.0 + 1e-9].min() == pytest.approx(1.0, abs=1e-12)
    assert model.populations.sum() == pytest.approx(1.0)
    assert len(model.state_names) == model.n_states


@pytest.fixture(scope="module")
def merged(three_state_model: M3CModel) -> M3CModel:
    return three_state_model.merge([[0, 2], 1])


class TestMerge:
    def test_it_is_a_model(self, merged: M3CModel, three_wells: Wells) -> None:
        as_any_model(merged, three_wells.frames)

    def test_labels_are_those_of_before_with_other_numbers(
        self, merged: M3CModel, three_state_model: M3CModel, three_wells: Wells
    ) -> None:
        before = three_state_model.transform(three_wells.frames)
        assert np.array_equal(merged.transform(three_wells.frames), np.array([0, 1, 0])[before])
        assert merged.populations == pytest.approx(np.bincount(merged.transform(three_wells.frames)) / len(before))

    def test_the_border_that_vanished_is_no_border(self, three_state_model: M3CModel, three_wells: Wells) -> None:
        x, model = three_wells.frames, three_state_model
        centres = np.array([x[model.transform(x) == state].mean(axis=0) for state in range(3)])
        halfway = 0.5 * (centres[[0]] + centres[[2]])
        others = model.decision_function(halfway)[0]
        assert model.margin(halfway)[0] < 0.5
        assert model.merge([[0, 2], 1]).margin(halfway)[0] == pytest.approx(abs(max(others[[0, 2]]) - others[1]))

    def test_states_that_are_not_named_follow(self, divided: M3CModel, frames: np.ndarray) -> None:
        other = divided.merge([[3, 1]])
        assert np.array_equal(other.transform(frames), np.array([1, 0, 2, 0])[divided.transform(frames)])

    def test_names(self, divided: M3CModel) -> None:
        named = divided.rename({0: "helix", 3: "coil"})
        assert named.merge([["coil", 1], 2]).state_names == ["coil+1", "1", "helix"]
        assert named.merge([[1, 2]]).state_names == ["0", "helix", "coil"]

    def test_visits_and_relevance_need_data(self, divided: M3CModel, planted: Planted) -> None:
        without, with_data = divided.merge([[0, 2], [1, 3]]), divided.merge([[0, 2], [1, 3]], planted.trajs)
        assert without.visits is None
        with pytest.raises(InputError, match=r"merge\(groups, trajs\)"):
            _ = without.relevance
        with pytest.raises(InputError, match=r"merge\(groups, trajs\)"):
            without.slow_coordinates(planted.trajs)
        # The pairs of wells are told apart by the first column; what the model itself found is the same.
        assert with_data.relevance[0] > 0.8
        np.testing.assert_allclose(with_data.relevance, planted.model.relevance, atol=0.05)
        visits = with_data.visits
        assert visits is not None
        assert planted.model.visits is not None
        np.testing.assert_array_equal(visits, planted.model.visits)

    def test_alternative_gives_the_states_of_the_fit_back(self, merged: M3CModel, three_wells: Wells) -> None:
        assert merged.alternative(0).n_states == 3
        assert merged.objective == merged.alternative(0).objective
        assert len(merged.candidates) == len(merged.alternative(0).candidates)

    @pytest.mark.parametrize(
        ("groups", "message"),
        [
            ([[0, 1, 2]], "single state"),
            ([[0, 0], 1], "twice"),
            ([[0, 1], 1], "twice"),
            ([[0, 3]], "numbered 0 to 2"),
            ([["helix"]], "no such state"),
            ([[], 0], "without a state"),
            ([0.5], "whole number"),
            ("01", "list of states"),
            (3, "list of states"),
        ],
    )
    def test_bad_groups_are_refused(self, three_state_model: M3CModel, groups: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            three_state_model.merge(groups)


class TestSplit:
    def test_it_is_a_model(self, divided: M3CModel, frames: np.ndarray) -> None:
        as_any_model(divided, frames)

    def test_the_planted_wells_are_found(self, divided: M3CModel, planted: Planted) -> None:
        labels, wells = np.concatenate(divided.transform(planted.trajs)), np.concatenate(planted.wells)
        assert agreement(wells, labels) > 0.98
        trajs, wells = planted_series(2, 700, 1)
        assert agreement(np.concatenate(wells), np.concatenate(divided.transform(trajs))) > 0.98
        assert divided.populations == pytest.approx(np.bincount(labels) / len(labels))

    def test_merging_the_parts_gives_back_what_was_split(
        self, divided: M3CModel, planted: Planted, frames: np.ndarray
    ) -> None:
        again = divided.merge([[0, 2], [1, 3]])
        for method in ("transform", "decision_function", "margin", "memberships"):
            np.testing.assert_array_equal(getattr(again, method)(frames), getattr(planted.model, method)(frames))

    def test_other_states_keep_their_numbers_and_the_largest_part_that_of_the_state(
        self, divided: M3CModel, planted: Planted, frames: np.ndarray
    ) -> None:
        before, after = planted.model.transform(frames), divided.transform(frames)
        assert np.array_equal(np.array([0, 1, 0, 1])[after], before)
        assert divided.populations[0] >= divided.populations[2]
        assert divided.populations[1] >= divided.populations[3]

    def test_the_margin_is_that_to_the_nearest_border_of_either_kind(
        self, divided: M3CModel, planted: Planted, frames: np.ndarray
    ) -> None:
        outer = planted.model.margin(frames)
        within = np.full(len(frames), np.inf)
        for edit, state in zip(divided.edits, (0, 1), strict=True):
            assert isinstance(edit, Split)
            scores = edit.rule.scores(edit.feature_map(frames))
            own = planted.model.transform(frames) == state
            within[own] = np.abs(scores[0] - scores[1])[own]
        np.testing.assert_allclose(divided.margin(frames), np.minimum(outer, within), atol=1e-9)

    def test_what_tells_parts_apart_is_relevant(self, divided: M3CModel, planted: Planted) -> None:
        assert planted.model.relevance[1] < 0.2 < divided.relevance[1]
        assert divided.relevance[2] < 0.1
        assert divided.relevance.sum() == pytest.approx(1.0)
        assert divided.slow_coordinates(planted.trajs, 2)[0].shape == (700, 2)

    def test_names_and_visits(self, planted: Planted) -> None:
        named = planted.model.rename({1: "helix"})
        parts = named.split("helix", 2, planted.trajs, random_state=0, bandwidth=1.0, starts=("kinetic",))
        assert parts.state_names == ["0", "helix 1", "helix 2"]
        assert parts.visits is not None
        assert parts.visits["frames"].sum() == 2800
        assert parts.visits["name"].tolist() == parts.state_names
        assert parts.merge([0, ["helix 1", "helix 2"]]).state_names == ["0", "helix 1+helix 2"]

    def test_the_same_seed_gives_the_same_parts(self, planted: Planted, divided: M3CModel, frames: np.ndarray) -> None:
        options: dict[str, Any] = {"random_state": 0, "bandwidth": 1.0, "starts": ("kinetic",)}
        again = planted.model.split(0, 2, planted.trajs, **options).split(1, 2, planted.trajs, **options)
        np.testing.assert_array_equal(again.decision_function(frames), divided.decision_function(frames))

    def test_single_frames_split_too(self, planted: Planted) -> None:
        x = np.concatenate(planted.trajs)[::3]
        options: dict[str, Any] = {"bandwidth": 1.0, "starts": ("kmeans",), "random_state": 0}
        model = MMC(2, **options).fit_fetch(x).split(0, 2, x, **options)
        assert model.n_states == 3
        as_any_model(model, x)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [((2, 2), "numbered 0 to 1"), (("coil", 2), "no such state"), ((0, 1), "n=1"), ((0, 2.0), "n=2.0")],
    )
    def test_bad_arguments_are_refused(self, planted: Planted, arguments: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            planted.model.split(*arguments, planted.trajs)

    def test_settings_are_checked_before_data_are_read(self, planted: Planted) -> None:
        with pytest.raises(InputError, match="regularization"):
            planted.model.split(0, 2, "no data", regularization=-1.0)

    def test_a_state_without_frames_is_refused(self, planted: Planted) -> None:
        inside = CENTRES[[0]] + np.zeros((50, 1))
        empty = 1 - int(planted.model.transform(inside)[0])
        with pytest.raises(InputError, match="no transition pair"):
            planted.model.split(empty, 2, inside)


def test_gradients_are_those_of_the_scores(divided: M3CModel, frames: np.ndarray) -> None:
    for model in (divided, divided.merge([[0, 1]]), divided.merge([[0, 2], 1])):
        x, step = frames[:200], 1e-6
        found = model._gradients(x)
        for column in range(3):
            moved = np.zeros(3)
            moved[column] = step
            slope = (model.decision_function(x + moved) - model.decision_function(x - moved)) / (2.0 * step)
            # A frame or two may lie on a kink.
            assert np.quantile(np.abs(slope - found[:, :, column]), 0.99) < 1e-6


class TestFiles:
    @pytest.mark.parametrize(
        "change",
        [
            lambda m, x: m,
            lambda m, x: m.merge([[0, 2]]),
            lambda m, x: m.merge([[0, 1], 2], x).rename({0: "both"}),
        ],
        ids=["split", "merged", "merged with data"],
    )
    def test_it_comes_back(
        self,
        divided: M3CModel,
        planted: Planted,
        frames: np.ndarray,
        tmp_path: Path,
        change: Callable[[M3CModel, Any], M3CModel],
    ) -> None:
        model = change(divided, planted.trajs)
        model.save(tmp_path / "model.m3c")
        again = load_model(tmp_path / "model.m3c")
        assert isinstance(again, M3CModel)
        for method in ("transform", "decision_function", "margin", "memberships"):
            np.testing.assert_array_equal(getattr(again, method)(frames), getattr(model, method)(frames))
        np.testing.assert_array_equal(again.populations, model.populations)
        assert again.state_names == model.state_names
        assert (again.visits is None) == (model.visits is None)
        if model._described:
            np.testing.assert_array_equal(again.relevance, model.relevance)
        else:
            with pytest.raises(InputError, match="merge"):
                _ = again.relevance
        assert again.merge([[0, 1]]).n_states == model.n_states - 1

    def test_a_model_that_was_read_can_be_split(self, planted: Planted, tmp_path: Path) -> None:
        planted.model.save(tmp_path / "model.m3c")
        again = load_model(tmp_path / "model.m3c")
        assert isinstance(again, M3CModel)
        parts = again.split(0, 2, planted.trajs, random_state=0, bandwidth=1.0, starts=("kinetic",))
        assert parts.n_states == 3

    def test_a_fit_is_written_as_before(self, planted: Planted) -> None:
        contents = planted.model._contents()
        assert not [name for name in (*contents.settings, *contents.arrays) if "edit" in name or name == "described"]

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("edit_2_numbers", np.array([0, 1, 2, 4])),
            ("edit_2_numbers", np.array([0, 0, 2, 0])),
            ("edit_2_numbers", np.array([0, 0, 0, 0])),
            ("edit_2_numbers", np.array([0, 1, 0])),
            ("edit_0_state", np.array([2])),
            ("edit_0_weights", np.ones((2, 7))),
            ("edit_1_bias", np.ones(3)),
            ("edited_populations", np.array([0.5, 0.5])),
            ("edit_0_frequencies", None),
            ("n_edits", 40),
            ("n_edits", "1"),
            ("described", 1),
        ],
    )
    def test_damaged_edits_are_refused(self, divided: M3CModel, name: str, value: Any) -> None:
        contents = divided.merge([[0, 2]])._contents()
        settings, arrays = dict(contents.settings), dict(contents.arrays)
        if name in settings:
            settings[name] = value
        elif value is None:
            del arrays[name]
        else:
            arrays[name] = value
        with pytest.raises(ModelFileError):
            M3CModel._from_contents(Contents(settings, arrays))


class TestExports:
    def test_origins(self, divided: M3CModel) -> None:
        found = origins(2, divided.edits)
        assert [(one.rule, one.rows) for one in found if one is not None] == [
            (0, (0,)),
            (1, (0,)),
            (0, (1,)),
            (1, (1,)),
        ]
        whole = origins(2, [*divided.edits, Merge(np.array([0, 1, 0, 1]))])
        assert [(one.rule, one.rows) for one in whole if one is not None] == [(-1, (0,)), (-1, (1,))]
        assert origins(2, [*divided.edits, Merge(np.array([0, 0, 1, 2]))])[0] is None

    @pytest.mark.parametrize("kind", ["difference", "membership"])
    def test_merged_states_have_a_smooth_maximum(self, three_state_model: M3CModel, kind: Any) -> None:
        x = np.random.default_rng(2).uniform(-2.0, 2.0, size=(300, 2))
        merged = three_state_model.merge([[0, 2], 1])
        scores = three_state_model.decision_function(x)
        own = 0.5 * np.log(np.exp(2.0 * scores[:, 0]) + np.exp(2.0 * scores[:, 2]))
        difference = own - scores[:, 1]
        expected = difference if kind == "difference" else 1.0 / (1.0 + np.exp(-2.0 * difference))
        variable = merged.collective_variable((0, 1), kind)
        values, gradients = variable.values_and_gradients(x)
        np.testing.assert_allclose(values, expected, atol=1e-10)
        exact = merged.decision_function(x) @ [1.0, -1.0]
        assert 0.0 <= (difference - exact).min() <= (difference - exact).max() <= 0.5 * np.log(2.0) + 1e-9
        for column in range(2):
            moved = np.eye(2)[column] * 1e-5
            slope = (variable.values(x + moved) - variable.values(x - moved)) / 2e-5
            np.testing.assert_allclose(gradients[:, column], slope, atol=1e-7)
        low, high = variable.bounds
        assert low <= values.min() <= values.max() <= high

    @pytest.mark.parametrize("syntax", ["vectors", "classic"])
    @pytest.mark.parametrize("states", [(0, 1), (1, 0)])
    @pytest.mark.parametrize("kind", ["difference", "membership"])
    def test_plumed_computes_it(
        self, three_state_model: M3CModel, syntax: Any, states: tuple[int, int], kind: Any
    ) -> None:
        x = np.random.default_rng(3).uniform(-2.0, 2.0, size=(20, 2))
        merged = three_state_model.merge([[0, 2], 1])
        text = merged.to_plumed(["a", "b"], states, kind, syntax)
        assert "smooth maximum" in text
        expected = merged.collective_variable(states, kind).values(x)
        printed = Plumed(text, np.zeros((len(x), 0, 3)), a=x[:, 0], b=x[:, 1]).printed
        assert printed is not None
        np.testing.assert_allclose(printed, expected, atol=1e-6)

    def test_parts_of_a_split_are_exported_by_its_rule(self, divided: M3CModel, frames: np.ndarray) -> None:
        inside = frames[np.isin(divided.transform(frames), (0, 2))]
        values = divided.collective_variable((0, 2)).values(inside)
        scores = divided.decision_function(inside)
        np.testing.assert_allclose(values, scores[:, 0] - scores[:, 2], atol=1e-9)

    def test_a_part_against_another_state_is_refused(self, divided: M3CModel) -> None:
        with pytest.raises(InputError, match="kinks"):
            divided.collective_variable((0, 1))
        with pytest.raises(InputError, match="kinks"):
            divided.merge([[0, 1]]).to_plumed(["a", "b", "c"], (0, 1))

    def test_states_by_name(self, three_state_model: M3CModel) -> None:
        x = np.zeros((1, 2))
        named = three_state_model.rename(["a", "b", "c"])
        assert named.collective_variable(("c", "a")).values(x) == named.collective_variable((2, 0)).values(x)
        assert "score of c less that of a: 0 at the border" in named.to_plumed(["u", "v"], ("c", "a"))


def test_merging_the_states_of_a_split_gives_the_states_before_where_the_tree_says_so(planted: Planted) -> None:
    """Wherever all states of a row of the tree of `scan_states` are parts of states of the row above."""
    models = {2: planted.model, 3: quick(3).fit_fetch(planted.trajs), 4: quick(4).fit_fetch(planted.trajs)}
    labels = {number: np.concatenate(model.transform(planted.trajs)) for number, model in models.items()}
    overlaps = {2: shared_frames(0 * labels[2], labels[2], 1, 2)}
    overlaps |= {n: shared_frames(labels[n - 1], labels[n], n - 1, n) for n in (3, 4)}
    tree = state_tree(overlaps, dict.fromkeys(models, 1.0))
    for number in (3, 4):
        rows = tree[tree["n_states"] == number]
        assert rows["nested"].all(), "wells were planted in pairs"
        groups = [np.flatnonzero(rows["parent"] == state).tolist() for state in range(number - 1)]
        merged = np.concatenate(models[number].merge(groups).transform(planted.trajs))
        assert (merged == labels[number - 1]).mean() == rows["merged back"].iloc[0] > 0.99
