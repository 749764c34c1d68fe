"""Visits of states: counted over all frames, the same however the frames are cut, and a word where they are few."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from m3c_md import M3C, load_model
from m3c_md.clustering.visits import (
    VisitCounts,
    few_visits_notes,
    stays_of_block,
    visits_of,
    visits_of_pairs,
    visits_of_source,
)
from m3c_md.exceptions import FewVisitsWarning, InputError, ModelFileError
from m3c_md.frames import source as source_module
from m3c_md.frames.source import LocalSource
from tests.clustering.test_common_face import MAKERS, by_name
from tests.conftest import hidden_markov_wells, quick

COLUMNS = ["frames", "visits", "entered", "left", "trajectories", "largest_share"]
by_margin = pytest.mark.parametrize("name", ["M3C", "MMC"])


def plainly(dtrajs: Sequence[Sequence[int]], n_states: int) -> pd.DataFrame:
    """The same counts, written down as they are defined."""
    rows = []
    for state in range(n_states):
        runs = [[(key, len(list(run))) for key, run in groupby(map(int, x))] for x in dtrajs]
        entered = sum(key == state for stays in runs for key, _ in stays[1:])
        left = sum(key == state for stays in runs for key, _ in stays[:-1])
        visits = sum(key == state for stays in runs for key, _ in stays)
        frames = [sum(length for key, length in stays if key == state) for stays in runs]
        share = max(frames) / sum(frames) if sum(frames) else np.nan
        rows.append([sum(frames), visits, entered, left, sum(n > 0 for n in frames), share])
    table = pd.DataFrame(rows, columns=COLUMNS, index=pd.RangeIndex(n_states, name="state"))
    return table.astype({"visits": "Int64", "trajectories": "Int64"})


class FirstColumn:
    """A model whose frames carry their states."""

    def __init__(self, n_states: int) -> None:
        self.n_states = n_states

    def _states(self, frames: np.ndarray) -> np.ndarray:
        return frames[:, 0].astype(np.intp)


class TestCounts:
    @given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=8))
    @settings(max_examples=100, deadline=None)
    def test_are_those_of_the_definition(self, dtrajs: list[list[int]]) -> None:
        counted = visits_of([np.array(x) for x in dtrajs], 5)
        pd.testing.assert_frame_equal(counted.table(), plainly(dtrajs, 5))
        assert counted.n_trajectories == len(dtrajs)

    @given(
        dtrajs=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=25), min_size=1, max_size=8),
        lagtime=st.integers(1, 3),
        n_slices=st.integers(1, 2),
        size=st.integers(1, 12),
    )
    @settings(max_examples=150, deadline=None)
    def test_do_not_depend_on_how_frames_are_cut(
        self, dtrajs: list[list[int]], lagtime: int, n_slices: int, size: int
    ) -> None:
        kept = [x for x in dtrajs if len(x) > (n_slices - 1) * lagtime]
        if not kept:
            return
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(source_module.plan_blocks, "__defaults__", (size,))
            source = LocalSource([np.array(x, dtype=float)[:, None] for x in dtrajs], lagtime, n_slices)
        counted = visits_of_source(FirstColumn(3), source)
        pd.testing.assert_frame_equal(counted.table(), plainly(kept, 3))
        assert counted.n_trajectories == len(kept)

    def test_what_a_block_returns_is_small(self) -> None:
        """Of many short trajectories as of one long one."""
        for lengths in ([2] * 4000, [8000]):
            source = LocalSource([np.zeros((n, 1)) for n in lengths], 1)
            for stays in source.map(stays_of_block, FirstColumn(3)):
                assert stays.sums.size + stays.ends.size <= 8 * 3

    def test_of_pairs_some_are_not_known(self) -> None:
        table = visits_of_pairs(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0]), 3).table()
        assert table["frames"].tolist() == [2, 1, 1]
        assert table["entered"].tolist() == [1, 1, 0]
        assert table["left"].tolist() == [1, 0, 1]
        assert table[["visits", "trajectories", "largest_share"]].isna().all(axis=None)
        assert list(table.columns) == COLUMNS


@by_name
class TestModels:
    def test_count_all_training_frames(self, name: str) -> None:
        trajs = [hidden_markov_wells(n, 3, seed, stay=0.9).frames for seed, n in enumerate((300, 150, 400))]
        model = MAKERS[name]().fit_fetch(trajs)
        assert not [text for text in model.warnings if "entered" in text]
        pd.testing.assert_frame_equal(model.visits, plainly(model.transform(trajs), 3))

    def test_count_consecutive_frames_whatever_the_lag_time(self, name: str) -> None:
        if name not in ("M3C", "PCCAPlus"):
            return
        trajs = [hidden_markov_wells(n, 3, seed, stay=0.95).frames for seed, n in enumerate((500, 300, 600))]
        model = MAKERS[name](lagtime=3).fit_fetch(trajs)
        pd.testing.assert_frame_equal(model.visits, plainly(model.transform(trajs), 3))

    def test_count_pairs(self, name: str) -> None:
        x = hidden_markov_wells(600, 3, stay=0.9).frames
        if name == "HiddenMarkov":  # which needs to know what follows what
            with pytest.raises(InputError, match="needs trajectories, not a pair"):
                MAKERS[name]().fit((x[:-1], x[1:]))
            return
        model = MAKERS[name]().fit_fetch((x[:-1], x[1:]))
        states = model.transform(x)
        expected = visits_of_pairs(states[:-1], states[1:], 3).table()
        pd.testing.assert_frame_equal(model.visits, expected)
        pd.testing.assert_series_equal(model.visits["entered"], plainly([states], 3)["entered"])

    def test_keep_them_in_files(self, name: str, tmp_path: Path) -> None:
        trajs = [hidden_markov_wells(200, 3, seed, stay=0.8).frames for seed in range(2)]
        model = MAKERS[name]().fit_fetch(trajs)
        model.save(tmp_path / "model.m3c")
        pd.testing.assert_frame_equal(load_model(tmp_path / "model.m3c").visits, model.visits)
        model._visits = None  # as a version wrote it that did not count
        model.save(tmp_path / "old.m3c")
        assert load_model(tmp_path / "old.m3c").visits is None
        wrong = np.full((6, 3), -2)
        model._visits = VisitCounts(wrong, 1)
        with pytest.raises(ModelFileError, match="'visits' has entries that are no counts"):
            model.save(tmp_path / "wrong.m3c")

    def test_say_which_states_were_hardly_entered(self, name: str) -> None:
        trajs = [hidden_markov_wells(400, 2, seed, stay=0.9).frames for seed in range(3)]
        away = trajs[1].copy()
        for begin in (50, 200):
            away[begin : begin + 60] = 5.0 + 0.25 * np.random.default_rng(begin).normal(size=(60, 2))
        with pytest.warns(
            FewVisitsWarning,
            match="^state 2 was entered 2 times and visited by 1 of 3 trajectories: its population and rates are "
            "hardly known; add trajectories that enter it, or ask for fewer states$",
        ) as caught:
            model = MAKERS[name]().fit_fetch([trajs[0], away, trajs[2]])
        assert len([one for one in caught if one.category is FewVisitsWarning]) == 1
        assert sum("was entered 2 times" in text for text in model.warnings) == 1


@by_margin
class TestManyFrames:
    """Blocks that are read when they are needed."""

    def test_are_counted_as_few_are(self, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        trajs = [hidden_markov_wells(n, 3, seed, stay=0.9).frames for seed, n in enumerate((700, 2, 1200, 1, 40))]
        path = tmp_path / "frames.npy"
        np.save(path, trajs[2])
        monkeypatch.setattr("m3c_md.clustering.margin_search.STREAMED", 1000)
        monkeypatch.setattr(source_module.plan_blocks, "__defaults__", (333,))
        seen: list[Any] = []
        monkeypatch.setattr(
            "m3c_md.clustering.margin_search.visits_of_source",
            lambda model, source: seen.append(source) or visits_of_source(model, source),
        )
        options = {"lagtime": 1} if name == "M3C" else {}
        kept = trajs if name == "MMC" else [x for x in trajs if len(x) > 1]
        given = [*trajs[:2], np.load(path, mmap_mode="r"), *trajs[3:]]
        if name == "M3C":
            with pytest.warns(UserWarning, match="1 of 5 trajectories"):
                model = MAKERS[name](**options).fit_fetch(given)
        else:
            model = MAKERS[name](**options).fit_fetch(given)
        assert len(seen) == 1
        pd.testing.assert_frame_equal(model.visits, plainly(model.transform(kept), 3))


class TestAlternatives:
    def test_have_states_whose_visits_are_unknown(self, searched_model: Any) -> None:
        assert searched_model.visits is not None
        assert searched_model.alternative(1).visits is None


class TestWarning:
    """A rate from n events has a relative error of about 1 / sqrt(n)."""

    def test_enough_is_enough(self) -> None:
        often = np.tile([0, 0, 1, 1], 11)
        assert few_visits_notes(visits_of([often], 2)) == []
        assert few_visits_notes(visits_of([often, often[:4]], 2)) == []

    def test_nine_entries_are_few(self) -> None:
        text, category = few_visits_notes(visits_of([np.tile([0, 0, 1, 1], 10)], 2))[0]
        assert category is FewVisitsWarning
        assert text.startswith("state 0 was entered 9 times: its population and rates are hardly known")

    def test_one_of_several_trajectories_is_few(self) -> None:
        dtrajs = [np.tile([0, 1, 2], 40), np.tile([0, 1], 40)]
        ((text, _),) = few_visits_notes(visits_of(dtrajs, 3))
        assert text.startswith("state 2 was entered 40 times and visited by 1 of 2 trajectories: its")

    def test_several_states_are_named_in_one_sentence(self) -> None:
        ((text, _),) = few_visits_notes(visits_of([np.array([0, 1, 1, 2])], 3))
        assert text == (
            "state 0 was never entered, state 1 was entered once, state 2 was entered once: their populations and "
            "rates are hardly known; add trajectories that enter them, or ask for fewer states"
        )

    def test_many_states_are_not_all_named(self) -> None:
        ((text, _),) = few_visits_notes(visits_of([np.arange(20)], 20))
        assert "state 7 was" in text
        assert "state 8 was" not in text
        assert " and 12 more states" in text

    def test_states_without_frames_are_said_elsewhere(self) -> None:
        assert few_visits_notes(visits_of([np.tile([0, 1], 20)], 3)) == []

    def test_pairs_have_entries_too(self) -> None:
        ((text, _),) = few_visits_notes(visits_of_pairs(np.zeros(9, dtype=int), np.arange(9) % 2, 2))
        assert text.startswith("state 0 was never entered: its population")  # state 1 has no frame in X

    def test_a_default_fit_says_it(self) -> None:
        x = np.repeat([-1.0, 1.0] * 3, 170)[:, None] + 0.1 * np.random.default_rng(0).normal(size=(1020, 1))
        with pytest.warns(
            FewVisitsWarning, match=r"^state 0 was entered \d times, state 1 was entered \d times: their"
        ):
            M3C(2, random_state=0).fit(x)

    def test_it_is_not_said_of_data_with_enough_transitions(self) -> None:
        assert quick(2).fit_fetch(hidden_markov_wells(1000, 2).frames).warnings == []
