"""scikit-learn's own suite of checks, and its habits: predict, labels_, names of columns, progress=True."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from m3c_md import M3C, MMC, HiddenMarkov, KMedoids, PCCAPlus, TICAPCCAPlus
from m3c_md.clustering import scikit_face
from m3c_md.exceptions import InputError, InputTypeError, NotFittedWarning

# One bandwidth, to spare time; rivals need fewer cells than the few frames of scikit-learn's data.
ESTIMATORS = {
    "M3C": M3C(2, random_state=0, n_features=20, bandwidth=1.0, starts=("kmeans",)),
    "MMC": MMC(2, random_state=0, n_features=20, bandwidth=1.0, starts=("kmeans",)),
    "KMedoids": KMedoids(2, random_state=0),
    "PCCAPlus": PCCAPlus(2, n_microstates=4, random_state=0),
    "TICAPCCAPlus": TICAPCCAPlus(2, n_microstates=4, random_state=0),
    "HiddenMarkov": HiddenMarkov(2, n_microstates=4, random_state=0),
}
# What deeptime's contract asks for and scikit-learn refuses. (Labels in place of floats are none: a tag says so.)
CONFLICTS = {"check_fit1d": "a series (n_frames,) is one column in deeptime, and scikit-learn wants an error"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_suite_of_scikit_learn(name: str) -> None:
    results = check_estimator(ESTIMATORS[name], on_fail=None, on_skip=None, expected_failed_checks=CONFLICTS)
    wrong = {r["check_name"]: str(r["exception"])[:300] for r in results if r["status"] == "failed"}
    assert not wrong
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == set(CONFLICTS)
    assert sum(r["status"] == "passed" for r in results) >= 40


@pytest.fixture(scope="module")
def frames() -> np.ndarray:
    """Two wells that a trajectory enters often enough to leave nobody in doubt."""
    x = np.random.default_rng(0).normal(scale=0.2, size=(1200, 2))
    x[:, 0] += np.repeat([-1.0, 1.0] * 24, 25)
    x.flags.writeable = False
    return x


def quick(**settings: Any) -> KMedoids:
    return KMedoids(2, random_state=0, n_restarts=1, **settings)


class TestHabits:
    def test_predict_is_transform(self, frames: np.ndarray) -> None:
        x = frames
        estimator = quick().fit(x)
        assert np.array_equal(estimator.predict(x), estimator.transform(x))
        assert np.array_equal(estimator.model.predict(x), estimator.transform(x))
        with pytest.raises(NotFittedError, match="call fit first"):
            quick().predict(x)

    def test_labels_are_those_of_fit_predict(self, frames: np.ndarray) -> None:
        x = frames
        for data in (x, [x, x[:700]], pd.DataFrame(x, columns=["a", "b"])):
            estimator = quick()
            wanted = estimator.fit_predict(data)
            found = estimator.labels_
            assert type(found) is type(wanted)
            for ours, theirs in zip(found, wanted, strict=True) if isinstance(wanted, list) else [(found, wanted)]:
                assert np.array_equal(ours, theirs)
                assert ours.dtype == np.int32

    def test_labels_of_pairs_are_of_the_first_frames(self, frames: np.ndarray) -> None:
        x = frames
        estimator = quick().fit((x[:-1], x[1:]))
        assert np.array_equal(estimator.labels_, estimator.predict(x[:-1]))

    def test_many_labels_are_not_kept(self, frames: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(scikit_face, "MOST_LABELS", 10)
        estimator = quick().fit(frames)
        with pytest.raises(AttributeError, match="call predict"):
            _ = estimator.labels_

    def test_labels_of_the_last_fit(self, frames: np.ndarray) -> None:
        estimator = quick().fit(frames)
        assert len(estimator.fit(frames[:1000]).labels_) == 1000
        assert not hasattr(clone(estimator), "labels_")

    def test_columns(self, frames: np.ndarray) -> None:
        estimator = quick()
        assert not hasattr(estimator, "n_features_in_")
        estimator.fit(frames)
        assert estimator.n_features_in_ == 2
        assert not hasattr(estimator, "feature_names_in_")
        estimator.fit(pd.DataFrame(frames, columns=["phi", "psi"]))
        assert estimator.feature_names_in_.tolist() == ["phi", "psi"]
        assert estimator.feature_names_in_.dtype == object
        with pytest.raises(InputError, match="X has 3 features, but KMedoids is expecting 2 features as input"):
            estimator.predict(np.zeros((4, 3)))

    def test_microstates_have_no_columns(self) -> None:
        estimator = M3C(2).fit(np.array([[0.9, 0.1, 0.0], [0.1, 0.89, 0.01], [0.0, 0.01, 0.99]]), microstates=True)
        for name in ("n_features_in_", "labels_", "feature_names_in_"):
            assert not hasattr(estimator, name)

    def test_params_of_a_model_are_short(self, frames: np.ndarray) -> None:
        model = M3C(2, 3, random_state=0, bandwidth=1.0, n_features=20, starts=("kmeans",)).fit_fetch(frames)
        assert model.get_params() == {
            "n_states": 2,
            "n_columns": 2,
            "bandwidth": 1.0,
            "metric": "standard",
            "lagtime": 3,
        }
        assert quick().fit_fetch(frames).get_params() == {"n_states": 2, "n_columns": 2}


class TestWords:
    def test_model_before_fit(self) -> None:
        with pytest.warns(NotFittedWarning, match="this M3C has no model yet, so that None is returned; call fit"):
            assert M3C(2).fetch_model() is None
        with pytest.warns(NotFittedWarning):
            assert quick().model is None
        assert not quick().has_model

    def test_the_warning_points_to_the_users_line(self) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            M3C(2).fetch_model()
        assert caught[0].filename == __file__

    @pytest.mark.parametrize(("value", "word"), [(np.nan, "holds nan"), (np.inf, "holds inf"), (-np.inf, "holds -inf")])
    def test_numbers_that_are_none(self, value: float, word: str, frames: np.ndarray) -> None:
        x = frames.copy()
        x[7, 1] = value
        with pytest.raises(InputError, match=f"{word} at frame 7, column 1"):
            quick().fit(x)

    def test_objects_that_are_numbers(self, frames: np.ndarray) -> None:
        x = frames
        assert np.array_equal(quick().fit_predict(x.astype(object)), quick().fit_predict(x))
        with pytest.raises(InputTypeError, match="not 'dict'"):
            quick().fit(np.array([[1.0, {}], [2.0, 3.0]], dtype=object))
        with pytest.raises(InputError, match="numbers are needed"):
            quick().fit(np.array([["1.0", 2.0], [2.0, 3.0]], dtype=object))

    def test_one_frame(self, frames: np.ndarray) -> None:
        model = quick().fit_fetch(frames)
        with pytest.raises(InputError, match=r"Reshape your data to \(1, 2\)"):
            model.transform(frames[0])
        for estimator in (M3C(2), MMC(2), KMedoids(2), TICAPCCAPlus(2), HiddenMarkov(2)):
            with pytest.raises(InputError, match="1 sample"):
                estimator.fit(frames[:1])


class TestProgress:
    def test_true_is_a_bar_and_false_is_none(self, frames: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
        settings = {"random_state": 0, "bandwidth": 1.0, "n_features": 20, "starts": ("kmeans",)}
        M3C(2, progress=False, **settings).fit(frames)
        assert capsys.readouterr().err == ""
        M3C(2, progress=True, **settings).fit(frames)
        assert "M3C: 100%" in capsys.readouterr().err

    def test_anything_else_is_refused(self, frames: np.ndarray) -> None:
        with pytest.raises(InputError, match=r"must be a progress bar class such as tqdm\.tqdm, True or None"):
            M3C(2, progress="yes").fit(frames)
