"""The paper's figure of Model I: methods that see time find the three columns, methods that see geometry do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from m3c_md import M3C, MMC, KMedoids, PCCAPlus
from m3c_md.systems import MODEL_I, ExactReference, agreement, exact_reference, simulate


@pytest.fixture(scope="module")
def trajectories() -> list[np.ndarray]:
    return simulate(MODEL_I, np.random.default_rng(0))


@pytest.fixture(scope="module")
def reference() -> ExactReference:
    return exact_reference(MODEL_I)


def exact_q_and_share(model: Any, reference: ExactReference) -> tuple[float, float]:
    """Exact metastability, and the share of stationary mass on which the best partition is met."""
    labels = model.transform(reference.points)
    best = reference.best_partition(MODEL_I.n_states, MODEL_I.interval)
    return reference.metastability(labels, MODEL_I.interval), agreement(labels, best, reference.stationary)


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.NegativeMatrixWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        # The default search has its own test in test_paper_models.py.
        M3C(3, bandwidth=(0.5, 1.0), starts=("kinetic",), random_state=0),
        PCCAPlus(3, n_microstates=10, random_state=0),
        PCCAPlus(3, n_microstates=10, discretization="k-medoids", random_state=0),
    ],
    ids=["M3C", "PCCA+ with k-means", "PCCA+ with k-medoids"],
)
def test_kinetic_methods_find_the_columns(
    estimator: Any, trajectories: list[np.ndarray], reference: ExactReference
) -> None:
    q, share = exact_q_and_share(estimator.fit_fetch(trajectories), reference)
    # The best partition has 2.9649.
    assert q > 2.955
    assert share > 0.98


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.AmbiguousSolutionWarning")
@pytest.mark.parametrize("estimator", [KMedoids(3, random_state=0), MMC(3, random_state=0)], ids=["KMedoids", "MMC"])
def test_geometric_methods_do_not(estimator: Any, trajectories: list[np.ndarray], reference: ExactReference) -> None:
    q, share = exact_q_and_share(estimator.fit_fetch(trajectories), reference)
    assert q < 2.9
    assert share < 0.9
