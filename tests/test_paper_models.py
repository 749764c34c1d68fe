"""The default M3C on the paper's diffusions: few seeds here, twenty and more in benchmarks/paper/diffusion.py."""

from __future__ import annotations

import numpy as np
import pytest

from m3c_md import M3C
from m3c_md.exceptions import DegenerateSolutionError
from m3c_md.systems import MODEL_I, MODEL_II, agreement, exact_reference, simulate

N_SEEDS = 3


def data_sets(model, seed, count):
    trajectories = simulate(model, np.random.default_rng(seed), n_trajectories=count * model.n_trajectories)
    n = model.n_trajectories
    return [trajectories[i * n : (i + 1) * n] for i in range(count)]


@pytest.fixture(scope="module")
def model_1_sets():
    return data_sets(MODEL_I, 101, N_SEEDS)


def share_right(fitted, model):
    reference = exact_reference(model)
    best = reference.best_partition(model.n_states, model.interval)
    return agreement(fitted.transform(reference.points), best, reference.stationary)


def test_model_1_every_time(model_1_sets):
    reference = exact_reference(MODEL_I)
    values = []
    for seed, trajectories in enumerate(model_1_sets):
        fitted = M3C(3, random_state=seed).fit_fetch(trajectories)
        assert share_right(fitted, MODEL_I) > 0.99
        assert fitted.gap <= 1e-3
        values.append(reference.metastability(fitted.transform(reference.points), MODEL_I.interval))
    # The paper reports 2.9641; the best partition has 2.9649; a column cut wrongly costs more than 0.01.
    assert np.mean(values) > 2.963


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.AmbiguousSolutionWarning")
@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.FewVisitsWarning")
@pytest.mark.parametrize("seed", [0, 1])
def test_model_1_with_a_state_of_which_one_trajectory_has_most(seed):
    """Five of ten trajectories see it, seven eighths of it are in one: it is a state all the same."""
    trajectories = simulate(MODEL_I, np.random.default_rng(5005))
    assert share_right(M3C(3, random_state=seed).fit_fetch(trajectories), MODEL_I) > 0.95


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.AmbiguousSolutionWarning")  # and it is right
@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.FewVisitsWarning")  # each state is entered six to eight times
def test_model_2_right_decomposition_is_found_and_mostly_wins():
    right, among = 0, 0
    for seed, trajectories in enumerate(data_sets(MODEL_II, 202, N_SEEDS)):
        fitted = M3C(3, random_state=seed).fit_fetch(trajectories)
        rows = np.flatnonzero(~fitted.candidates["degenerate"].to_numpy())
        shares = [share_right(fitted.alternative(int(row)), MODEL_II) for row in rows]
        right += shares[0] > 0.95
        among += max(shares) > 0.95
    assert among == N_SEEDS
    assert right >= N_SEEDS / 2  # 35 of 40 in the benchmark: what is tested here is that nothing broke


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")
@pytest.mark.parametrize("exponent", range(-4, 5))
def test_no_bandwidth_of_the_paper_makes_a_degenerate_state_win(model_1_sets, exponent):
    """A constant rule with ϱ_l of the labels wrong costs 0.06, less than the right solution: it must never win."""
    estimator = M3C(3, bandwidth=2.0**exponent, scale="none", starts=("kinetic", "random"), random_state=0)
    try:
        fitted = estimator.fit_fetch(model_1_sets[0])
    except DegenerateSolutionError:
        return
    assert fitted.populations.min() >= estimator.balance[0]


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.OverlappingStatesWarning")
def test_the_papers_own_settings_run_and_never_return_an_empty_state(model_1_sets):
    fitted = M3C.paper(3, random_state=0, n_coarse=20, bandwidth=(0.5, 1.0)).fit_fetch(model_1_sets[0])
    assert fitted.populations.min() >= 0.01
    assert set(fitted.candidates["start"]) == {"relaxation-literal"}
    assert fitted.feature_map.n_features == 50
