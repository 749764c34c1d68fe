"""What is usable but deserves a word: a typed warning, kept on the model; and how results show themselves."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deeptime.decomposition import TICA
from sklearn.pipeline import make_pipeline

from m3c_md import DihedralFeaturizer, M3CModel, PCCAPlus
from m3c_md.clustering.search_notes import _doubts
from m3c_md.exceptions import InputError, RareStateWarning, UnrelatedPairWarning
from m3c_md.matching import agreement
from m3c_md.search.local_search import SearchSettings
from m3c_md.validation import chapman_kolmogorov, implied_timescales
from tests.conftest import hidden_markov_wells, quick
from tests.features import random_trajectory, topology_of


def with_a_rare_state() -> np.ndarray:
    """Two wells, and a third that is entered four times for two frames of ten thousand."""
    x = np.repeat([-2.0, 2.0] * 10, 500)
    for start in (700, 2700, 4700, 6700):
        x[start : start + 2] = 9.0
    return np.asarray(x + 0.1 * np.random.default_rng(0).normal(size=len(x)))


class TestRareStates:
    def test_pcca_plus_says_so(self) -> None:
        with pytest.warns(RareStateWarning, match=r"has 0\.08% of the frames, less than 1%; ask for fewer states"):
            model = PCCAPlus(3, n_microstates=12, random_state=0).fit_fetch(with_a_rare_state())
        assert model.populations[-1] == pytest.approx(8 / 10_000)
        assert len([text for text in model.warnings if "smallest state has 0.08%" in text]) == 1

    def test_so_does_m3c(self, three_state_model: M3CModel) -> None:
        """A winner below the balance is returned only where there is no other, which is hard to bring about."""
        rare = dataclasses.replace(three_state_model.records[0], populations=np.array([0.5, 0.493, 0.007]))
        settings = SearchSettings(3, 3e-3, (0.01, 0.99))
        ((message, category),) = _doubts(rare, settings, 1)
        assert category is RareStateWarning
        assert message.startswith("the smallest state has 0.70% of the frames, less than balance[0]=0.01; lower")

    def test_common_states_are_no_reason(self) -> None:
        assert (
            PCCAPlus(2, n_microstates=12, random_state=0).fit_fetch(hidden_markov_wells(600, 2).frames).warnings == []
        )


class TestTuplesOfTwo:
    """deeptime's convention: frames, and the frames one lag time later."""

    def test_pairs_are_taken_as_such(self) -> None:
        x, states = hidden_markov_wells(600, 3, stay=0.9)
        model = quick(3).fit_fetch((x[:-1], x[1:]))
        assert model.warnings == []
        assert agreement(model.transform(x), states) > 0.98

    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.OverlappingStatesWarning")
    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.AmbiguousSolutionWarning")
    def test_two_trajectories_are_recognised(self) -> None:
        trajs = tuple(hidden_markov_wells(600, 2, seed, stay=0.9).frames for seed in (0, 1))
        correlation = max(np.corrcoef(trajs[0][:, i], trajs[1][:, i])[0, 1] for i in range(2))
        assert correlation < 0.1
        with pytest.warns(
            UnrelatedPairWarning, match=r"at most -?0\.\d+\); if these are two trajectories, give .* list"
        ):
            quick(2).fit(trajs)
        assert quick(2).fit_fetch(list(trajs)).warnings == []

    def test_few_pairs_say_nothing(self) -> None:
        x = hidden_markov_wells(600, 2, stay=0.5).frames
        assert quick(2).fit_fetch((x[:60], x[300:360])).n_states == 2

    def test_models_take_tuples_for_trajectories(self) -> None:
        x = hidden_markov_wells(300, 2).frames
        model = quick(2).fit_fetch(x)
        first, second = model.transform((x[:100], x[100:200]))
        assert np.array_equal(np.concatenate([first, second]), model.transform(x[:200]))


def test_a_pipeline_that_stacks_trajectories_is_told_what_to_do() -> None:
    parts = [hidden_markov_wells(200, 2, seed).frames for seed in (0, 1)]
    pipeline = make_pipeline(TICA(lagtime=1, dim=2), quick(2))
    with pytest.raises(
        InputError, match=r"shape \(2, 200, 2\).*give list\(\.\.\.\) of it .*pipeline.*fit it by itself"
    ):
        pipeline.fit(parts)
    tica = TICA(lagtime=1, dim=2).fit_fetch(parts)
    assert len(quick(2).fit_predict(list(tica.transform(parts)))) == 2


class TestHowResultsShow:
    def test_featurizer(self) -> None:
        assert repr(DihedralFeaturizer()) == "DihedralFeaturizer(dihedrals=('phi', 'psi'))"
        given = DihedralFeaturizer("chi1", residues="resSeq 2", sincos=False, periodic=False)
        assert repr(given) == (
            "DihedralFeaturizer(dihedrals='chi1', residues='resSeq 2', sincos=False, periodic=False)"
        )
        assert repr(eval(repr(given), {"DihedralFeaturizer": DihedralFeaturizer})) == repr(given)

    def test_kinetics(self) -> None:
        labels = np.cumsum(np.random.default_rng(0).random(5000) < 0.05) % 2
        its = implied_timescales(labels, [1, 5], dt=2.0, unit="ps", confidence=None)
        assert repr(its) == (
            "<ImpliedTimescales: 1 timescales at 2 lag times (2 to 10 ps), "
            f"{its.plateaus[0].describe(2.0, 'ps')}, confidence None>"
        )
        assert "level from lag time 2 ps on" in repr(its), "a chain of two states has one timescale at all lag times"
        test = chapman_kolmogorov(labels, 1, 3, dt=2.0, unit="ps", confidence=None)
        assert repr(test).startswith("<ChapmanKolmogorov: 2 states, 3 multiples of 2 ps, largest deviation 0.0")
        assert repr(test).endswith("not judged (confidence None)>")

    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.TimescaleWarning")
    def test_kinetics_of_one_state(self) -> None:
        shown = repr(implied_timescales([0] * 20, [1], confidence=None))
        assert shown == (
            "<ImpliedTimescales: 0 timescales at 1 lag times (1 to 1 frame), no timescale, confidence None, 1 warning>"
        )


class Bar:
    """What deeptime asks of a progress bar, with a memory."""

    def __init__(self, total: int | None = None) -> None:
        self.total, self.n, self.closed = total, 0, False
        BARS.append(self)

    def update(self, n: int = 1) -> None:
        self.n += n

    def set_description(self, text: Any) -> None:
        assert text == "frames"

    def close(self) -> None:
        self.closed = True


BARS: list[Bar] = []


def test_reading_piece_by_piece_shows_progress(tmp_path: Path) -> None:
    trajectory = random_trajectory(topology_of(["ACE", "ALA", "NME"]), 25)
    trajectory.save(str(tmp_path / "a.xtc"))
    BARS.clear()
    seen = []
    for piece in DihedralFeaturizer().iter_load(tmp_path / "a.xtc", trajectory.topology, chunk=10, progress=Bar):
        seen.append((len(piece), BARS[0].n))
    assert seen == [(10, 10), (10, 20), (5, 25)]
    assert BARS[0].closed
    assert len(BARS) == 1
