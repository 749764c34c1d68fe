"""TICA + PCCA+, hidden Markov model and VAMPnet: what they find, against deeptime's own steps; what they say."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deeptime.decomposition import TICA

from m3c_md import HiddenMarkov, PCCAPlus, TICAPCCAPlus, VAMPNet, load_model
from m3c_md.clustering import vampnet
from m3c_md.clustering.kinetic_map import MappedModel, kinetic_map
from m3c_md.clustering.vampnet import VAMPNetModel
from m3c_md.exceptions import DisconnectedWarning, InputError, M3CWarning, ModelFileError, SolverError
from m3c_md.inputs.dataset import Dataset
from m3c_md.matching import agreement
from tests.conftest import hidden_markov_wells
from tests.markov import THREE_STATES, markov_chain

pytestmark = [
    pytest.mark.filterwarnings("ignore::m3c_md.exceptions.FewVisitsWarning"),
    pytest.mark.filterwarnings("ignore::m3c_md.exceptions.NegativeMatrixWarning"),
]


def hidden_in_noise(seed: int, n_noise: int = 20, n_frames: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    """Three states that one column tells, among columns of far larger noise without memory."""
    rng = np.random.default_rng(seed)
    chain = markov_chain(THREE_STATES, n_frames, seed)
    x = rng.normal(size=(n_frames, 1 + n_noise)) * 10.0
    x[:, 0] = chain + 0.15 * rng.normal(size=n_frames)
    return x, chain


class TestKineticMap:
    def test_is_that_of_deeptime(self) -> None:
        x, _ = hidden_in_noise(0)
        scaled = x / x.std(axis=0)
        model = TICA(lagtime=2, scaling="kinetic_map").fit(scaled).fetch_model()
        ours, theirs = kinetic_map(Dataset.of(x), 2)(x), model.transform(scaled)
        np.testing.assert_allclose(ours - ours.mean(axis=0), theirs - theirs.mean(axis=0), atol=1e-9)

    def test_units_of_the_columns_do_not_matter(self) -> None:
        x, _ = hidden_in_noise(1)
        units = np.geomspace(1e-3, 1e3, x.shape[1])
        one, other = kinetic_map(Dataset.of(x), 1)(x), kinetic_map(Dataset.of(x * units), 1)(x * units)
        np.testing.assert_allclose(np.abs(one[:, 0]), np.abs(other[:, 0]), rtol=1e-6, atol=1e-8)

    def test_columns_that_are_sums_of_others_and_constant_ones(self) -> None:
        x, _ = hidden_in_noise(2, n_noise=3)
        odd = np.column_stack([x, x[:, :2].sum(axis=1), np.full(len(x), 7.0)])
        assert kinetic_map(Dataset.of(odd), 1).matrix.shape == (6, 4)

    def test_frames_that_do_not_change_at_all(self) -> None:
        with pytest.raises((SolverError, InputError)):
            kinetic_map(Dataset.of(np.ones((50, 3))), 1)


class TestTICAPCCAPlus:
    def test_finds_states_that_noise_hides_from_cells_of_the_columns(self) -> None:
        x, chain = hidden_in_noise(3)
        with_tica = TICAPCCAPlus(3, n_components=2, n_microstates=30, random_state=0).fit_predict(x)
        assert agreement(with_tica, chain) > 0.95
        raw = PCCAPlus(3, n_microstates=30, scale="none", random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", M3CWarning)
            assert agreement(raw.fit_predict(x), chain) < 0.8

    def test_is_pcca_plus_on_the_slow_coordinates(self) -> None:
        x, _ = hidden_in_noise(4)
        model = TICAPCCAPlus(3, n_components=2, tica_lagtime=3, n_microstates=20, random_state=5).fit_fetch(x)
        slow = kinetic_map(Dataset.of(x), 3).slowest(2)(x)
        steps = PCCAPlus(3, n_microstates=20, scale="none", random_state=5).fit_fetch(slow)
        assert isinstance(model, MappedModel)
        np.testing.assert_array_equal(model.transform(x), steps.transform(slow))
        np.testing.assert_array_equal(model.memberships(x), steps.memberships(slow))
        np.testing.assert_array_equal(model.populations, steps.populations)
        assert model.visits is not None
        assert model.visits.equals(steps.visits)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"n_components": 0}, "n_components=0 must"),
            ({"tica_lagtime": 0}, "tica_lagtime=0 must"),
            ({"n_microstates": 2}, "n_microstates=2 must"),
            ({"n_states": 1}, "n_states=1 must"),
            ({"random_state": -1}, "random_state=-1 must"),
        ],
    )
    @pytest.mark.parametrize("kind", [TICAPCCAPlus, HiddenMarkov])
    def test_settings_are_refused(self, kind: Any, change: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            kind(**{"n_states": 3, **change}).fit(np.zeros((5, 2)))


class TestHiddenMarkov:
    def test_states_and_chain_of_known_data(self) -> None:
        chain = markov_chain(THREE_STATES, 6_000, 7)
        x = chain[:, None] + 0.2 * np.random.default_rng(0).normal(size=(6_000, 1))
        model = HiddenMarkov(3, n_microstates=20, random_state=0).fit_fetch(x)
        assert agreement(model.transform(x), chain) > 0.97
        # Frames at the borders have the wrong cell, which lowers Q of the labels but not that of the hidden chain.
        np.testing.assert_allclose(np.trace(model.transition_matrix), np.trace(THREE_STATES), atol=0.01)
        np.testing.assert_allclose(model.output_probabilities.sum(axis=1), 1.0)

    def test_cells_outside_the_connected_set_shift_no_number(self) -> None:
        # An excursion that never comes back has cells of its own, which deeptime leaves out of its numbers.
        wells = hidden_markov_wells(600, 3, seed=4)
        away = np.full((30, 2), -40.0) + np.random.default_rng(1).normal(size=(30, 2))
        x = [away, wells.frames]  # never connected with the rest
        with pytest.warns(DisconnectedWarning):
            model = HiddenMarkov(3, n_microstates=25, random_state=0).fit_fetch(x)
        assert agreement(model.transform(wells.frames), wells.states) > 0.98

    def test_on_slow_coordinates(self) -> None:
        x, chain = hidden_in_noise(5)
        model = HiddenMarkov(3, n_components=2, n_microstates=25, random_state=0).fit_fetch(x)
        assert agreement(model.transform(x), chain) > 0.95
        assert model.n_components == 2

    def test_a_failure_of_deeptime_has_words(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise ValueError("no convergence")

        monkeypatch.setattr("m3c_md.clustering.hidden_markov.metastable_from_msm", fail)
        with pytest.raises(SolverError, match=r"hidden Markov model failed \(no convergence\); use other microstates"):
            HiddenMarkov(2, n_microstates=10).fit(hidden_markov_wells(200, 2).frames)


class TestFiles:
    @pytest.mark.parametrize(
        "estimator",
        [
            TICAPCCAPlus(3, n_components=2, n_microstates=15, random_state=0),
            HiddenMarkov(3, n_microstates=15, random_state=0),
            HiddenMarkov(3, n_components=1, n_microstates=15, random_state=0),
        ],
        ids=["tica", "hmm", "hmm on tica"],
    )
    def test_round_trip(self, estimator: Any, tmp_path: Path) -> None:
        x, _ = hidden_in_noise(6, n_frames=600)
        model = estimator.fit_fetch(x)
        model.save(tmp_path / "model.m3c")
        again = load_model(tmp_path / "model.m3c")
        np.testing.assert_array_equal(again.decision_function(x), model.decision_function(x))
        assert repr(again) == repr(model)
        assert again.visits.equals(model.visits)

    def test_an_inner_model_of_another_kind_is_refused(self, tmp_path: Path) -> None:
        x, _ = hidden_in_noise(6, n_frames=600)
        model = TICAPCCAPlus(3, n_components=2, n_microstates=15, random_state=0).fit_fetch(x)
        contents = model._contents()
        contents.settings["inner_kind"] = "M3CModel"
        with pytest.raises(ModelFileError, match="holds no model in slow coordinates, but 'M3CModel'"):
            MappedModel._from_contents(contents)


class TestVAMPNet:
    def network(self) -> VAMPNetModel:
        rng = np.random.default_rng(0)
        layers = [(rng.normal(size=(2, 4)), rng.normal(size=4)), (rng.normal(size=(4, 3)), rng.normal(size=3))]
        return VAMPNetModel(np.zeros(2), np.ones(2), layers, np.array([0.5, 0.3, 0.2]))

    def test_model_needs_no_torch(self, tmp_path: Path) -> None:
        model, x = self.network(), np.random.default_rng(1).normal(size=(50, 2))
        (first, bias), (second, last) = model.layers
        for frame, states in zip(x, model.memberships(x), strict=True):
            hidden = [value if value > 0 else np.exp(value) - 1.0 for value in frame @ first + bias]
            powers = np.exp(np.array(hidden) @ second + last)
            np.testing.assert_allclose(states, powers / powers.sum())
        model.save(tmp_path / "model.m3c")
        np.testing.assert_array_equal(
            load_model(tmp_path / "model.m3c").decision_function(x), model.decision_function(x)
        )

    def test_without_torch_it_says_what_to_do(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(vampnet, "find_spec", lambda name: None)
        with pytest.raises(InputError, match=r"a VAMPnet cannot be fitted: it needs torch: pip install m3c_md\[deep\]"):
            VAMPNet(2).fit(hidden_markov_wells(100, 2).frames)

    def test_settings_are_refused_first(self) -> None:
        for change in ({"n_states": 1}, {"lagtime": 0}, {"n_hidden": 0}, {"n_steps": 0}, {"learning_rate": 0.0}):
            (name,) = change
            with pytest.raises(InputError, match=f"{name}="):
                VAMPNet(**{"n_states": 2, **change}).fit(np.zeros((5, 2)))

    def test_fit(self) -> None:
        torch = pytest.importorskip("torch")
        wells = hidden_markov_wells(600, 3, seed=1)
        state = torch.random.get_rng_state()
        estimator = VAMPNet(3, n_hidden=10, n_steps=300, learning_rate=1e-2, random_state=0)
        model = estimator.fit_fetch(wells.frames)
        assert agreement(model.transform(wells.frames), wells.states) > 0.98
        assert (np.diff(model.populations) <= 0.0).all()
        again = estimator.fit_fetch(wells.frames)
        np.testing.assert_array_equal(again.decision_function(wells.frames), model.decision_function(wells.frames))
        assert torch.equal(state, torch.random.get_rng_state())  # torch's own numbers are left alone
