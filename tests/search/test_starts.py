"""Starts: complete labelings, and kinetics where geometry is misleading."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from m3c_md.frames.windows import FeatureBlocks
from m3c_md.matching import agreement
from m3c_md.search import starts as starts_module
from m3c_md.search.problem import BandwidthStart, Kernel, SharedStart
from m3c_md.search.starts import (
    N_LUMPINGS,
    SAME_DECOMPOSITION,
    bandwidth_start,
    kinetic_labels,
    relaxation_labels,
    shared_starts,
)
from tests.search._data import problem_of, slow_and_wide, switching

SHARED = get_args(SharedStart)
OWN = get_args(BandwidthStart)


def labels_of(name, problem, seed=0, bandwidth=2.0):
    """Label sets of a start of either kind, for all windows."""
    rng = np.random.default_rng(seed)
    if name in SHARED:
        return shared_starts(name, problem, rng)
    return [bandwidth_start(name, problem, Kernel(bandwidth), np.arange(problem.data.n_windows), rng)]


@pytest.fixture(scope="module")
def easy():
    """Three clear wells."""
    trajectories, wells = switching([400, 300], np.random.default_rng(0))
    problem = problem_of(trajectories, 3, starts=("lumping", "relaxation"))
    return problem, np.concatenate(wells)[problem.data.windows[0]]


@pytest.fixture(scope="module")
def misleading():
    """Two wells whose slow direction is the narrow one."""
    trajectories, wells = slow_and_wide([500, 500], np.random.default_rng(0))
    problem = problem_of(trajectories, 2, starts=("lumping",))
    return problem, np.concatenate(wells)[problem.data.windows[0]]


class TestAll:
    @pytest.mark.parametrize("name", [*SHARED, *OWN])
    def test_every_window_has_a_state_and_every_state_a_window(self, easy, name):
        problem, _ = easy
        for labels in labels_of(name, problem):
            assert labels.shape == (problem.data.n_windows,)
            assert labels.dtype.kind == "i"
            np.testing.assert_array_equal(np.unique(labels), np.arange(3))

    @pytest.mark.parametrize("name", [*SHARED, *OWN])
    def test_same_seed_same_labels_and_clear_wells_are_found(self, easy, name):
        problem, wells = easy
        first, second = labels_of(name, problem, 7), labels_of(name, problem, 7)
        for one, two in zip(first, second, strict=True):
            np.testing.assert_array_equal(one, two)
        if name not in ("random", "relaxation-literal"):
            assert agreement(first[0], wells) > 0.95

    @pytest.mark.parametrize("n_states", [2, 4])
    @pytest.mark.parametrize("name", SHARED)
    def test_other_numbers_of_states(self, name, n_states):
        trajectories, _ = switching([150, 150], np.random.default_rng(1))
        for labels in labels_of(name, problem_of(trajectories, n_states)):
            np.testing.assert_array_equal(np.unique(labels), np.arange(n_states))


class TestKineticsAgainstGeometry:
    @pytest.mark.parametrize("name", ["kinetic", "lumping", "pcca"])
    def test_kinetic_starts_find_the_slow_direction(self, misleading, name):
        problem, wells = misleading
        assert agreement(labels_of(name, problem)[0], wells) > 0.95

    @pytest.mark.parametrize("name", ["kmeans", "kmedoids"])
    def test_geometric_starts_follow_the_wide_one(self, misleading, name):
        problem, wells = misleading
        (labels,) = labels_of(name, problem)
        lobes = (problem.data.frames[problem.data.windows[0], 1] > 0.0).astype(int)
        assert agreement(labels, wells) < 0.8
        if name == "kmeans":
            assert agreement(labels, lobes) > 0.98

    @pytest.mark.parametrize("bandwidth", [0.7, 2.0, 8.0])
    def test_kinetic_start_at_all_reasonable_bandwidths(self, misleading, bandwidth):
        problem, wells = misleading
        assert agreement(labels_of("kinetic", problem, bandwidth=bandwidth)[0], wells) > 0.95


class TestKinetic:
    def test_order_of_windows_does_not_matter(self, easy):
        problem, _ = easy
        order = np.random.default_rng(0).permutation(problem.data.n_windows)
        feature_map = problem.feature_map(2.0)
        plain = FeatureBlocks(problem.data, feature_map, problem.weights)
        moved = FeatureBlocks(problem.data, feature_map, problem.weights[order], order)
        one = kinetic_labels(plain, 3, np.random.default_rng(0))
        two = kinetic_labels(moved, 3, np.random.default_rng(1))
        assert agreement(one[order], two) > 0.99

    def test_chosen_windows_only(self, easy):
        problem, wells = easy
        chosen = np.arange(0, problem.data.n_windows, 2)
        labels = bandwidth_start("kinetic", problem, Kernel(2.0), chosen, np.random.default_rng(0))
        assert labels.shape == chosen.shape
        assert agreement(labels, wells[chosen]) > 0.98

    @pytest.mark.parametrize("bandwidth", [0.01, 1e5])
    def test_useless_bandwidths_still_give_all_states(self, easy, bandwidth):
        (labels,) = labels_of("kinetic", easy[0], bandwidth=bandwidth)
        np.testing.assert_array_equal(np.unique(labels), np.arange(3))


class TestLumping:
    def test_a_second_set_is_a_different_decomposition(self):
        # Four wells for two states: there is more than one way to pair them.
        corners = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0]])
        trajectories, _ = switching([800], np.random.default_rng(0), centers=corners, stay=0.97)
        sets = labels_of("lumping", problem_of(trajectories, 2))
        assert 2 <= len(sets) <= N_LUMPINGS
        for one, other in itertools.combinations(sets, 2):
            assert agreement(one, other) < SAME_DECOMPOSITION

    def test_no_second_set_where_all_agree(self):
        trajectories, wells = switching([400, 400], np.random.default_rng(0), np.array([[0.0, 0.0], [6.0, 0.0]]))
        problem = problem_of(trajectories, 2, reweight=True)
        sets = labels_of("lumping", problem)
        assert agreement(sets[0], np.concatenate(wells)[problem.data.windows[0]]) == 1.0
        for second in sets[1:]:
            assert agreement(sets[0], second) < SAME_DECOMPOSITION


def test_random_start_is_balanced_and_depends_on_the_seed(easy):
    problem, wells = easy
    (one,), (two,) = (labels_of("random", problem, seed) for seed in (0, 1))
    assert np.ptp(np.bincount(one)) <= 1
    assert (one != two).mean() > 0.5
    assert agreement(one, wells) < 0.6


class TestRelaxation:
    @pytest.mark.parametrize("literal", [False, True])
    def test_coarse_windows_get_all_states(self, easy, literal):
        problem, _ = easy
        labels = relaxation_labels(problem, problem.coarse, Kernel(2.0), literal=literal)
        assert labels.shape == (len(problem.coarse.centers),)
        np.testing.assert_array_equal(np.unique(labels), np.arange(3))

    @pytest.mark.parametrize("name", ["relaxation", "relaxation-literal"])
    def test_windows_take_the_state_of_their_coarse_window(self, easy, name):
        problem, _ = easy
        coarse = problem.coarse.labels
        (labels,) = labels_of(name, problem)
        for number in range(len(problem.coarse.centers)):
            assert len(np.unique(labels[coarse == number])) == 1

    @pytest.mark.parametrize("n_slices", [1, 3])
    def test_windows_of_other_lengths(self, n_slices):
        trajectories, wells = switching([200, 200], np.random.default_rng(0), np.array([[0.0, 0.0], [5.0, 0.0]]))
        problem = problem_of(trajectories, 2, starts=("relaxation",), n_slices=n_slices, reweight=True)
        (labels,) = labels_of("relaxation", problem)
        assert agreement(labels, np.concatenate(wells)[problem.data.windows[0]]) > 0.95

    def test_a_heavy_coarse_window_does_not_make_it_infeasible(self):
        # Nine in ten windows are the same point, which no class below the cap could hold.
        rng = np.random.default_rng(0)
        frames = np.zeros((400, 1))
        frames[360:] = 5.0 + 0.1 * rng.normal(size=(40, 1))
        problem = problem_of([frames], 2, starts=("relaxation",), n_coarse=8)
        (labels,) = labels_of("relaxation", problem)
        np.testing.assert_array_equal(np.unique(labels), [0, 1])

    def test_label_step_still_works_after_a_relaxation(self):
        """OR-tools must come before the HiGHS that cvxpy loads; only a fresh process can tell."""
        program = (
            "import numpy as np\n"
            "from m3c_md.optimize.labels import _flow_solver, balanced_labels\n"
            "from m3c_md.search.starts import N_LUMPINGS, SAME_DECOMPOSITION, relaxation_labels\n"
            "from m3c_md.search.problem import Kernel\n"
            "from tests.search._data import problem_of, switching\n"
            "data, _ = switching([60], np.random.default_rng(0))\n"
            "problem = problem_of(data, 2, starts=('relaxation',), n_coarse=6)\n"
            "relaxation_labels(problem, problem.coarse, Kernel(2.0), literal=False)\n"
            "print(balanced_labels([[0.0, 1.0], [0.0, 2.0]], 1, 1).labels.tolist(), _flow_solver().__name__)\n"
        )
        root = Path(__file__).parents[2]
        done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == "[1, 0] SimpleMinCostFlow"

    @pytest.mark.parametrize("name", ["relaxation", "relaxation-literal"])
    def test_units_of_the_columns_do_not_matter(self, name):
        """With scaled columns coarse windows live in scaled units, and the map of the features in those of the data."""
        trajectories, wells = switching([300, 200], np.random.default_rng(0))
        labels = []
        for units in (np.array([1.0, 1.0]), np.array([1e-3, 50.0])):
            problem = problem_of([x * units for x in trajectories], 3, starts=(name,), scale="standard")
            labels.append(labels_of(name, problem, bandwidth=0.7)[0])
        assert agreement(*labels) == 1.0
        assert agreement(labels[0], np.concatenate(wells)[problem.data.windows[0]]) > 0.9


def test_labels_of_pcca_are_those_of_the_first_frames(monkeypatch):
    trajectories, _ = switching([200, 200, 200], np.random.default_rng(0))
    problem = problem_of(trajectories, 3, starts=("pcca",))
    cells = problem.partitions[0]
    states = np.arange(len(cells.centers)) % 3
    monkeypatch.setattr(starts_module, "pcca_microstates", lambda *given: states)
    (labels,) = shared_starts("pcca", problem, np.random.default_rng(0))
    np.testing.assert_array_equal(labels, states[cells.windows[0]])
    assert (states[cells.windows[0]] != states[cells.windows[1]]).any()


def test_covariances_are_those_of_both_ends_without_their_mean():
    trajectories, _ = switching([90, 60, 50], np.random.default_rng(1))
    problem = problem_of(trajectories, 3, n_features=6)
    weights = np.random.default_rng(2).uniform(size=problem.data.n_windows)
    blocks = FeatureBlocks(problem.data, problem.feature_map(2.0), weights)
    features = problem.feature_map(2.0)(problem.data.frames)
    x, y = (features[frames] for frames in problem.data.windows)
    w = weights / weights.sum()
    both, doubled = np.concatenate([x, y]), np.concatenate([w, w]) / 2.0
    mean = doubled @ both
    expected = np.cov(both.T, aweights=doubled, bias=True)
    lagged = (x - mean).T @ (w[:, None] * (y - mean))
    instantaneous, found = starts_module._covariances(blocks)
    np.testing.assert_allclose(instantaneous, expected, atol=1e-12)
    np.testing.assert_allclose(found, 0.5 * (lagged + lagged.T), atol=1e-12)
