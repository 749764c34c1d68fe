"""Properties of whole fits on random data: what must not matter does not, and what is promised holds.

The mathematics underneath has its own: losses, dual bounds and balanced labels against brute force in tests/optimize,
local search and windows in tests/search.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from m3c_md import M3C, MMC, KMedoids, PCCAPlus, compare, load_model, scan_states
from m3c_md.clustering.state_model import StateModel
from m3c_md.exceptions import DegenerateSolutionError, M3CWarning
from m3c_md.inputs import dataset
from m3c_md.matching import agreement
from m3c_md.optimize.feature_map import FourierMap, draw_fourier_map
from m3c_md.systems import MODEL_I, simulate
from m3c_md.validation import (
    chapman_kolmogorov,
    implied_timescales,
    metastability,
    transition_counts,
    transition_matrix,
)
from tests.conftest import Wells, hidden_markov_wells, quick


def examples(n: int) -> settings:
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(deadline=None, max_examples=n, derandomize=True, database=None, suppress_health_check=quiet)


SEEDS = st.integers(0, 10**6)
METHODS = ("transform", "decision_function", "margin", "memberships")


def fits(n_states: int) -> dict[str, Callable[[Any], StateModel]]:
    return {
        "M3C": quick(n_states).fit_fetch,
        "MMC": MMC(n_states, bandwidth=1.0, starts=("kmeans",), random_state=0).fit_fetch,
        "KMedoids": KMedoids(n_states, n_restarts=2, random_state=0).fit_fetch,
        "PCCAPlus": PCCAPlus(n_states, n_microstates=8, n_restarts=1, random_state=0).fit_fetch,
    }


by_name = pytest.mark.parametrize("name", fits(2))


@pytest.fixture(scope="module")
def models() -> dict[str, StateModel]:
    return {name: fit(hidden_markov_wells(300, 3, seed=1).frames) for name, fit in fits(3).items()}


@pytest.mark.parametrize("name", ["M3C", "MMC", "KMedoids", "PCCAPlus"])
@pytest.mark.parametrize("away", [1e3, -1e8])
def test_a_few_frames_far_away_leave_the_others_in_their_states(name: str, away: float) -> None:
    """The column that tells the states has an error of a writer in three frames: its unit must not be theirs."""
    data = hidden_markov_wells(2000, 2, seed=3)
    spoilt, places = data.frames.copy(), [300, 1000, 1701]
    spoilt[places, 0] += away
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", M3CWarning)
        estimators = {
            "M3C": M3C(2, random_state=0),
            "MMC": MMC(2, random_state=0),
            "KMedoids": KMedoids(3, random_state=0),  # a medoid of its own for what is far away
            "PCCAPlus": PCCAPlus(2, random_state=0),
        }
        states = estimators[name].fit_fetch(spoilt).transform(spoilt)
    others = np.delete(np.arange(2000), places)
    assert agreement(states[others], data.states[others]) > 0.98


def random_frames(seed: int, n_frames: int) -> np.ndarray:
    """In the wells, between them and far away."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-2.5, 2.5, size=(n_frames, 2)) * rng.choice([1.0, 30.0], size=(n_frames, 1), p=[0.9, 0.1])


def wells(seed: int, n_states: int = 3, n_frames: int = 200) -> Wells:
    """Every state is visited, more than once."""
    while True:
        found = hidden_markov_wells(n_frames, n_states, seed, stay=0.9)
        if np.bincount(found.states, minlength=n_states).min() > 20:
            return found
        seed += 1


class TestFramesAreFrames:
    """A frame has its state whatever comes with it, and however it lies in memory."""

    @by_name
    @examples(12)
    @given(seed=SEEDS, n_frames=st.integers(1, 60), batch=st.integers(1, 70), data=st.data())
    def test_batches_and_splits(
        self, name: str, seed: int, n_frames: int, batch: int, data: Any, models: dict[str, StateModel]
    ) -> None:
        x, model = random_frames(seed, n_frames), models[name]
        cuts = sorted(data.draw(st.sets(st.integers(1, max(n_frames - 1, 1)), max_size=5)) - {n_frames})
        whole = {method: getattr(model, method)(x) for method in METHODS}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dataset, "FRAMES_AT_ONCE", batch)
            for method in METHODS:
                parts = getattr(model, method)(np.split(x, cuts))
                assert [len(part) for part in parts] == np.diff([0, *cuts, n_frames]).tolist()
                joined = np.concatenate(parts)
                if method == "transform":
                    assert np.array_equal(joined, whole[method])
                assert joined == pytest.approx(whole[method], rel=1e-9, abs=1e-9)

    @by_name
    @examples(12)
    @given(seed=SEEDS, kind=st.sampled_from(["f4", "f8", ">f4", ">f8", "g"]), lay=st.sampled_from("CFRSM"))
    def test_memory_and_precision(
        self, name: str, seed: int, kind: str, lay: str, models: dict[str, StateModel], tmp_path: Path
    ) -> None:
        x = random_frames(seed, 40).astype(np.float32).astype(kind)
        np.save(tmp_path / "x.npy", x)
        laid = {
            "C": np.ascontiguousarray(x),
            "F": np.asfortranarray(x),
            "R": x[::-1].copy()[::-1],
            "S": np.repeat(x, 3, axis=1)[:, ::3],
            "M": np.load(tmp_path / "x.npy", mmap_mode="r"),
        }[lay]
        before = np.array(laid)
        for method in METHODS:
            expected = getattr(models[name], method)(np.array(x, dtype=np.float64))
            found = getattr(models[name], method)(laid)
            assert found.dtype == expected.dtype
            assert np.array_equal(found, expected) or method != "transform"
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert np.array_equal(laid, before)

    @by_name
    @examples(8)
    @given(seed=SEEDS)
    def test_order_of_frames(self, name: str, seed: int, models: dict[str, StateModel]) -> None:
        x = random_frames(seed, 50)
        order = np.random.default_rng(seed).permutation(50)
        assert np.array_equal(models[name].transform(x[order]), models[name].transform(x)[order])


class TestSymmetriesOfTheFit:
    @examples(6)
    @given(seed=SEEDS, n_states=st.integers(2, 4), data=st.data())
    def test_names_of_states_in_a_start(self, seed: int, n_states: int, data: Any) -> None:
        x, states = wells(seed, n_states)
        names = np.array(data.draw(st.permutations(range(n_states))))
        one, other = (quick(n_states, starts=[labels]).fit_fetch(x) for labels in (states, names[states]))
        assert np.array_equal(one.transform(x), other.transform(x)) or np.ptp(one.populations) < 0.05
        assert agreement(one.transform(x), other.transform(x)) == 1.0
        assert one.objective == pytest.approx(other.objective, rel=1e-3)

    @by_name
    @examples(5)
    @given(seed=SEEDS, data=st.data())
    def test_order_of_trajectories(self, name: str, seed: int, data: Any) -> None:
        x = wells(seed).frames
        parts = np.split(x, [60, 110, 150])
        turned = [parts[i] for i in data.draw(st.permutations(range(4)))]
        fit = fits(3)[name]
        assert agreement(fit(parts).transform(x), fit(turned).transform(x)) > 0.97

    @examples(6)
    @given(seed=SEEDS)
    def test_time_backwards(self, seed: int) -> None:
        """Without weights, pairs of frames are the same pairs; which comes first does not matter to a shared label."""
        x = wells(seed).frames
        one, other = (quick(3, reweight=False).fit_fetch(frames) for frames in (x, x[::-1]))
        assert agreement(one.transform(x), other.transform(x)) > 0.98
        assert one.objective == pytest.approx(other.objective, rel=0.02)

    @examples(6)
    @given(seed=SEEDS, lagtime=st.integers(1, 2))
    def test_time_begins_anywhere(self, seed: int, lagtime: int) -> None:
        """A trajectory given as overlapping pieces has the same pairs as the whole."""
        x = wells(seed).frames
        pieces = [x[:100], x[100 - lagtime :]]
        one, other = (quick(3, lagtime=lagtime, reweight=False).fit_fetch(frames) for frames in (x, pieces))
        assert agreement(one.transform(x), other.transform(x)) > 0.98

    @examples(10)
    @given(seed=SEEDS, kind=st.sampled_from(["orthogonal", "fourier"]), n_columns=st.integers(2, 5))
    def test_rotated_frequencies_of_rotated_frames(self, seed: int, kind: Any, n_columns: int) -> None:
        rng = np.random.default_rng(seed)
        base = draw_fourier_map(n_columns, 20, rng, kind=kind, center=rng.normal(size=n_columns))
        rotation = np.linalg.qr(rng.normal(size=(n_columns, n_columns)))[0]
        x = rng.normal(size=(15, n_columns))
        turned = FourierMap(rotation.T @ base.frequencies, base.phases, base.center @ rotation)
        assert turned(x @ rotation) == pytest.approx(base(x), abs=1e-12)

    @examples(5)
    @given(seed=SEEDS, angle=st.floats(0.0, 2.0 * np.pi), shift=st.floats(-100.0, 100.0))
    def test_rotated_and_shifted_frames(self, seed: int, angle: float, shift: float) -> None:
        x = wells(seed).frames
        rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        y = x @ rotation + shift
        one, other = (quick(3, scale="none", n_features=200).fit_fetch(frames) for frames in (x, y))
        assert agreement(one.transform(x), other.transform(y)) > 0.97

    @by_name
    @examples(4)
    @given(seed=SEEDS, power=st.integers(-20, 20))
    def test_units_of_the_columns(self, name: str, seed: int, power: int) -> None:
        """Powers of two change no digit, so the answer is the same to the last bit."""
        x = wells(seed).frames
        y = x * np.array([2.0**power, 2.0**-power])
        assert np.array_equal(fits(3)[name](x).transform(x), fits(3)[name](y).transform(y))


class TestPromises:
    @examples(10)
    @given(seed=SEEDS, n_states=st.integers(2, 4), regularization=st.sampled_from([1e-4, 3e-3, 0.1]))
    def test_certificate_trace_and_populations(self, seed: int, n_states: int, regularization: float) -> None:
        x = wells(seed, n_states).frames
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", M3CWarning)
            try:
                model = quick(n_states, regularization=regularization, bandwidth=(0.7, 1.5)).fit_fetch(x)
            except DegenerateSolutionError:  # too smooth a rule may lose a state, and then it says so
                return
        for number in range(len(model.records)):
            rival = model.alternative(number)
            assert rival.lower_bound <= rival.objective * (1.0 + 1e-12)
            assert 0.0 <= rival.gap <= 1.0
            assert (np.diff(rival.trace) <= 1e-6 * rival.objective).all()
        labels = model.transform(x)
        assert np.bincount(labels, minlength=n_states) / len(x) == pytest.approx(model.populations)
        assert (np.diff(model.populations) <= 0.0).all()
        assert model.populations.min() > 0.0
        assert 0.0 < model.effective_sample <= 1.0 + 1e-12

    @by_name
    @examples(5)
    @given(seed=SEEDS, n_states=st.integers(2, 4), names=st.booleans())
    def test_files_keep_every_bit(self, name: str, seed: int, n_states: int, names: bool, tmp_path: Path) -> None:
        import pandas as pd

        x = wells(seed, n_states).frames
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", M3CWarning)
            model = fits(n_states)[name](pd.DataFrame(x, columns=["φ", "<psi>"]) if names else x)
        model.save(tmp_path / "model.m3c")
        again = load_model(tmp_path / "model.m3c")
        again.save(tmp_path / "again.m3c")
        y = random_frames(seed, 40)
        for method in METHODS:
            assert np.array_equal(getattr(model, method)(y), getattr(again, method)(y))
        assert (tmp_path / "model.m3c").read_bytes() == (tmp_path / "again.m3c").read_bytes()
        assert (again.columns, again.warnings, repr(again)) == (model.columns, model.warnings, repr(model))

    @by_name
    @examples(6)
    @given(seed=SEEDS, n=st.integers(1, 9), by=st.sampled_from(["margin", "random"]))
    def test_samples_are_in_their_states(
        self, name: str, seed: int, n: int, by: Any, models: dict[str, StateModel]
    ) -> None:
        parts = np.split(random_frames(seed, 60), [17, 30])
        labels = models[name].transform(parts)
        for state, chosen in enumerate(models[name].sample(parts, n, by=by, random_state=seed)):
            assert len(chosen) == min(n, sum(int((part == state).sum()) for part in labels))
            assert len({tuple(place) for place in chosen.tolist()}) == len(chosen)
            assert all(labels[i][t] == state for i, t in chosen.tolist())

    @examples(25)
    @given(
        labels=st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=60), min_size=1, max_size=6),
        lagtime=st.integers(1, 3),
        confidence=st.sampled_from([None, "bayesian"]),
    )
    def test_kinetics_of_any_labels(self, labels: list[list[int]], lagtime: int, confidence: Any) -> None:
        if max(map(len, labels)) <= lagtime:
            return
        options: dict[str, Any] = {"confidence": confidence, "n_samples": 3, "n_states": 4, "random_state": 0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", M3CWarning)
            counts, matrix = transition_counts(labels, lagtime, 4), transition_matrix(labels, lagtime, 4)
            quality = metastability(labels, lagtime, 4)
            its = implied_timescales(labels, [lagtime], **options)
            test = chapman_kolmogorov(labels, lagtime, 2, **options)
        assert counts.sum() == sum(max(len(x) - lagtime, 0) for x in labels)
        known = counts.sum(axis=1) > 0
        assert matrix[known].sum(axis=1) == pytest.approx(1.0)
        assert np.isnan(matrix[~known]).all()
        assert np.isnan(quality) != known.all()
        assert np.isnan(quality) or 0.0 <= quality <= 4.0
        for process in range(its.max_n_processes):
            t = its.timescales_for_process(process)
            assert (np.isnan(t) | (t >= 0.0)).all()
        for matrices in (test.predictions, test.estimates):
            rows = matrices[~np.isnan(matrices).all(axis=-1)]
            assert np.nansum(rows, axis=-1) == pytest.approx(1.0)
        assert "timescales" in repr(its)
        assert "deviation" in repr(test)

    @examples(2)
    @given(seed=SEEDS)
    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")
    def test_studies_of_any_wells(self, seed: int) -> None:
        trajs = [wells(seed + 10 * i, 2, 150).frames for i in range(2)]
        comparison = compare(
            trajs, 2, methods=("pcca+", "k-medoids"), n_microstates=8, random_state=seed, n_jobs=1, unit="ns"
        )
        assert comparison.table["Q"].between(0.0, 2.0).all()
        assert np.diagonal(comparison.agreement) == pytest.approx(1.0)
        assert comparison.confusion("PCCA+", "k-medoids").to_numpy().sum() == 300
        scan = scan_states(trajs, 2, n_resamples=1, random_state=seed, n_jobs=1)
        assert scan.suggestion in (2, None)
        assert scan.table["Q"].between(0.0, 2.0).all()

    @examples(5)
    @given(seed=SEEDS, n=st.integers(1, 4), n_samples=st.integers(1, 5))
    def test_simulations(self, seed: int, n: int, n_samples: int) -> None:
        once, twice = (
            simulate(MODEL_I, np.random.default_rng(seed), n_trajectories=n, duration=0.2 * n_samples) for _ in range(2)
        )
        assert [x.shape for x in once] == n * [(n_samples + 1, 2)]
        assert all(np.array_equal(a, b) and np.isfinite(a).all() for a, b in zip(once, twice, strict=True))


def test_defaults_find_the_states_of_any_clear_wells() -> None:
    x, states = wells(5, 3, 400)
    assert agreement(M3C(3, random_state=0).fit_predict(x), states) > 0.98
