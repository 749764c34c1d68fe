"""Estimators that users hand in: what they are given, and what of them is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deeptime.clustering import KMeans as DeeptimeKMeans
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from m3c_md.clustering.given_estimator import GivenEstimator
from m3c_md.exceptions import InputError, ModelFileError, SolverError
from m3c_md.matching import agreement
from tests.conftest import hidden_markov_wells

pytestmark = pytest.mark.filterwarnings("ignore::m3c_md.exceptions.FewVisitsWarning")
WELLS = [hidden_markov_wells(n, 3, n) for n in (300, 200)]
TRAJS = [well.frames for well in WELLS]

GIVEN: dict[str, Any] = {
    "scikit-learn, clusters": KMeans(3, n_init=5),
    "scikit-learn, mixture": GaussianMixture(3, n_init=5),
    "scikit-learn, pipeline": make_pipeline(StandardScaler(), KMeans(3, n_init=5)),
    "deeptime": DeeptimeKMeans(3, fixed_seed=1, n_jobs=1),
}


class Returns:
    """An estimator that gives frames whatever labels a function finds."""

    def __init__(self, labels: Any) -> None:
        self.labels = labels

    def fit(self, data: Any) -> Returns:
        return self

    def predict(self, data: Any) -> Any:
        return self.labels(data)


@pytest.mark.parametrize("name", GIVEN)
def test_kinds_that_work(name: str) -> None:
    model = GivenEstimator(GIVEN[name], 3, random_state=0).fit_fetch(TRAJS)
    for states, well in zip(model.transform(TRAJS), WELLS, strict=True):
        assert states.dtype == np.int32
        assert agreement(states, well.states) > 0.98
    assert (np.diff(model.populations) <= 0.0).all()
    counts = np.bincount(np.concatenate(model.transform(TRAJS)), minlength=3)
    np.testing.assert_allclose(model.populations, counts / counts.sum())
    assert model.visits["frames"].tolist() == counts.tolist()


def test_what_was_given_is_left_alone_and_seeded_if_it_asks() -> None:
    mine = KMeans(3, init="random", n_init=1, max_iter=1)
    one, two = (GivenEstimator(mine, 3, random_state=4).fit_fetch(TRAJS) for _ in range(2))
    assert not hasattr(mine, "cluster_centers_")
    assert mine.random_state is None
    np.testing.assert_array_equal(one.fitted.cluster_centers_, two.fitted.cluster_centers_)
    kept = GivenEstimator(KMeans(3, random_state=9), 3, random_state=4).fit_fetch(TRAJS)
    assert kept.fitted.random_state == 9


@pytest.mark.parametrize(
    ("labels", "kind", "message"),
    [
        (
            lambda x: np.full(len(x), 3),
            InputError,
            "label 3 was given to frame 0, but with n_states=3 labels are 0 to 2",
        ),
        (lambda x: np.where(np.arange(len(x)) == 7, -1, 0), InputError, "label -1 was given to frame 7"),
        (lambda x: np.zeros(len(x) - 1, dtype=int), InputError, r"labels have shape \(299,\) and dtype int64 for 300"),
        (lambda x: np.zeros((len(x), 3)), InputError, r"shape \(300, 3\) and dtype float64 .* one whole number"),
        (lambda x: np.zeros(len(x)), InputError, "dtype float64"),
        (lambda x: 1 / 0, SolverError, "its labels ended with ZeroDivisionError: division by zero"),
    ],
)
def test_labels_are_checked(labels: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        GivenEstimator(Returns(labels), 3).fit(TRAJS)


def test_whatever_fit_raises_is_its_failure() -> None:
    with pytest.raises(SolverError, match="fit ended with ValueError: n_samples=20 should be >= n_clusters=30"):
        GivenEstimator(KMeans(30), 30).fit(TRAJS[0][:20])


def test_whole_trajectories_are_handed_on() -> None:
    seen: list[int] = []

    def labels(x: Any) -> Any:
        seen.append(len(x))
        return (np.arange(len(x)) % 100 > 49).astype(int)

    x = np.random.default_rng(0).normal(size=(20_000, 1))
    model = GivenEstimator(Returns(labels), 2).fit_fetch(x)
    assert set(seen) == {20_000}  # of the fit, and of its labels
    seen.clear()
    model.transform([x, x[:5]])
    assert seen == [20_000, 5]


def test_it_has_no_file(tmp_path: Path) -> None:
    model = GivenEstimator(KMeans(3), 3, random_state=0).fit_fetch(TRAJS)
    with pytest.raises(ModelFileError, match="a KMeans that was handed in has no file of ours"):
        model.save(tmp_path / "model.m3c")


def test_pairs_are_refused() -> None:
    with pytest.raises(InputError, match="needs trajectories, not a pair"):
        GivenEstimator(KMeans(3), 3).fit((TRAJS[0][:-1], TRAJS[0][1:]))
