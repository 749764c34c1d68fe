"""``model.core`` and ``model.summary``: same conventions as transform, streamed, and tables that can be printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from m3c_md import KMedoids, M3CModel, kinetics
from m3c_md.exceptions import InputError
from tests.conftest import Wells

pytestmark = pytest.mark.filterwarnings("ignore::m3c_md.exceptions.FewVisitsWarning")


class TestCore:
    def test_margin_zero_is_transform(self, three_state_model: M3CModel, three_wells: Wells) -> None:
        cored = three_state_model.core(three_wells.frames, margin=0.0)
        np.testing.assert_array_equal(cored.dtrajs, three_state_model.transform(three_wells.frames))
        assert not cored.transition.any()
        assert cored.choice is None

    def test_frames_deep_inside_keep_their_state(self, three_state_model: M3CModel, three_wells: Wells) -> None:
        deep = three_state_model.margin(three_wells.frames) >= 0.9
        cored = three_state_model.core(three_wells.frames, margin=0.9)
        np.testing.assert_array_equal(cored.dtrajs[deep], three_state_model.transform(three_wells.frames)[deep])
        assert not cored.transition[deep].any()

    def test_a_list_gives_lists_and_trajectories_know_nothing_of_each_other(
        self, three_state_model: M3CModel, three_wells: Wells
    ) -> None:
        x = three_wells.frames
        both = three_state_model.core([x[:250], x[250:]], margin=0.8)
        for part, labels, way in zip((x[:250], x[250:]), both.dtrajs, both.transition, strict=True):
            alone = three_state_model.core(part, margin=0.8)
            np.testing.assert_array_equal(labels, alone.dtrajs)
            np.testing.assert_array_equal(way, alone.transition)

    def test_files_and_pieces_give_the_same(
        self, three_state_model: M3CModel, three_wells: Wells, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("m3c_md.inputs.dataset.FRAMES_AT_ONCE", 37)
        x = three_wells.frames
        np.save(tmp_path / "x.npy", x)
        expected = three_state_model.core(x)
        for data in (np.load(tmp_path / "x.npy", mmap_mode="r"), iter([x[:100], x[100:101], x[101:]])):
            again = three_state_model.core(data)
            assert again.margin == expected.margin
            np.testing.assert_array_equal(again.dtrajs, expected.dtrajs)
            np.testing.assert_array_equal(again.transition, expected.transition)

    def test_the_choice_is_shown(self, three_state_model: M3CModel, three_wells: Wells) -> None:
        cored = three_state_model.core(three_wells.frames)
        assert cored.choice is not None
        assert cored.choice.reason in repr(cored)
        assert cored.margin in cored.choice.table.index

    def test_other_models_can_be_cored(self, three_wells: Wells) -> None:
        model = KMedoids(3, random_state=0).fit_fetch(three_wells.frames)
        plain, cored = model.transform(three_wells.frames), model.core(three_wells.frames, 0.0, min_dwell=5)
        stays = np.diff(np.flatnonzero(np.diff(cored.dtrajs)))
        assert stays.min() >= 5
        assert np.count_nonzero(np.diff(cored.dtrajs)) < np.count_nonzero(np.diff(plain))

    @pytest.mark.parametrize("options", [{"margin": -1.0}, {"margin": "deep"}, {"min_dwell": 0}, {"min_dwell": 1.5}])
    def test_bad_settings_are_refused_before_data_are_read(
        self, three_state_model: M3CModel, options: dict[str, Any]
    ) -> None:
        with pytest.raises(InputError, match=next(iter(options))):
            three_state_model.core(iter([]), **options)


class TestSummary:
    @pytest.fixture
    def summary(self, three_state_model: M3CModel, three_wells: Wells) -> Any:
        names = ["a & b", "left_side", "rest"]
        return three_state_model.summary(three_wells.frames, names=names, dt=0.5, unit="ns", random_state=0)

    def test_it_says_what_the_parts_say(self, summary: Any, three_state_model: M3CModel, three_wells: Wells) -> None:
        cored = three_state_model.core(three_wells.frames)
        labels = cored.dtrajs
        assert summary.margin == cored.margin
        visits = [int((np.diff(labels == k, prepend=False) & (labels == k)).sum()) for k in range(3)]
        assert summary.table["visits"].tolist() == visits
        np.testing.assert_allclose(summary.table["population"], np.bincount(labels) / len(labels), atol=0.02)
        deepest = three_state_model.sample(three_wells.frames, 1)
        assert summary.table["frame"].tolist() == [int(one[0, 1]) for one in deepest]
        assert (summary.table["life time low"] < summary.table["life time"]).all()

    def test_life_times_are_those_of_the_hidden_chain(self, three_state_model: M3CModel, three_wells: Wells) -> None:
        table = three_state_model.summary(three_wells.frames, random_state=0).table
        hidden = kinetics(three_wells.states, confidence=None).states
        np.testing.assert_allclose(np.sort(table["life time"]), np.sort(hidden["life time"]), rtol=0.1)
        assert "name" not in table

    def test_markdown_and_latex(self, summary: Any) -> None:
        lines = summary.to_markdown().splitlines()
        assert lines[0].startswith("| state | name | population | life time (ns) | visits |")
        assert {line.count("|") for line in lines} == {8}
        latex = summary.to_latex()
        assert r"a \& b" in latex
        assert r"left\_side" in latex
        assert latex.count(r"\\") == 4
        assert latex.startswith(r"\begin{tabular}{lllllll}")

    def test_without_coring(self, three_state_model: M3CModel, three_wells: Wells) -> None:
        summary = three_state_model.summary(three_wells.frames, core=False, confidence=None)
        assert summary.margin == 0.0
        assert "not cored" in repr(summary)

    @pytest.mark.parametrize("names", ["abc", ["a"], ["a", "b", 3]])
    def test_bad_names(self, three_state_model: M3CModel, three_wells: Wells, names: Any) -> None:
        with pytest.raises(InputError, match="names="):
            three_state_model.summary(three_wells.frames, names=names)
