"""States that a search has kept, completed by splits."""

from __future__ import annotations

import numpy as np
import pytest

from m3c_md import M3C
from m3c_md.exceptions import M3CWarning
from m3c_md.matching import agreement
from m3c_md.search.splitting import completed_states
from tests.search._data import switching


def wells(n_windows, centers, rng, stay=0.98):
    """First and last points of windows in wells along a line, and the wells of both."""
    k = len(centers)
    first = rng.integers(k, size=n_windows)
    last = np.where(rng.random(n_windows) < stay, first, rng.integers(k, size=n_windows))
    states = np.stack([first, last])
    points = np.asarray(centers, dtype=float)[states][..., None] + 0.1 * rng.normal(size=(2, n_windows, 1))
    return points[0], points[1], states


def scores_of(states, n_states):
    return np.moveaxis(np.eye(n_states)[states], -1, 1)


class TestCompleted:
    rng = np.random.default_rng(0)

    def test_the_state_that_holds_two_wells_is_split(self):
        first, last, true = wells(600, [0.0, 1.0, 5.0], self.rng)
        known = np.where(true == 2, 1, 0)  # wells 0 and 1 are one state
        done = completed_states(first, last, scores_of(known, 3), 3, 10, np.random.default_rng(0))
        assert agreement(done, true[0]) > 0.99

    def test_a_state_that_was_cut_is_put_together_for_one_that_was_forgotten(self):
        first, last, true = wells(1200, [0.0, 1.0, 5.0, 9.0], self.rng)
        known = true.copy()
        known[true == 1] = 0  # two wells are one state,
        # and one well is cut in two at random: these halves have no memory.
        known[true == 3] = np.where(self.rng.random(true.shape) < 0.5, 1, 3)[true == 3]
        assert agreement(known[0], true[0]) < 0.9
        done = completed_states(first, last, scores_of(known, 4), 4, 10, np.random.default_rng(0))
        assert agreement(done, true[0]) > 0.99

    def test_a_state_of_few_windows_gives_way_to_a_split(self):
        first, last, true = wells(600, [0.0, 1.0, 5.0], self.rng)
        known = np.where(true == 2, 1, 0)
        known[:, :4] = 2
        done = completed_states(first, last, scores_of(known, 3), 3, 10, np.random.default_rng(0))
        assert np.bincount(done).min() >= 10
        assert agreement(done, true[0]) > 0.98

    @pytest.mark.parametrize("n_states", [3, 5, 8])
    def test_every_state_has_enough_windows_even_where_nothing_is_to_be_split(self, n_states):
        x = self.rng.normal(size=(400, 2))
        scores = np.zeros((2, n_states, 400))
        scores[:, 0] = 1.0
        done = completed_states(x, x, scores, n_states, 20, np.random.default_rng(0))
        assert len(np.unique(done)) == n_states
        assert np.bincount(done).min() >= 20

    def test_none_where_there_are_too_few_windows(self):
        x = self.rng.normal(size=(30, 1))
        assert completed_states(x, x, np.ones((2, 4, 30)), 4, 10, np.random.default_rng(0)) is None

    def test_none_where_all_points_are_the_same(self):
        x = np.zeros((100, 1))
        assert completed_states(x, x, np.ones((2, 2, 100)), 2, 10, np.random.default_rng(0)) is None


def test_more_states_than_there_are_keep_those_that_are_there():
    """Three wells and five states asked for: the borders of the three are borders of the five."""
    x, true = switching([1500, 1500], np.random.default_rng(1), spread=0.5)
    with pytest.warns(M3CWarning):
        five = np.concatenate(M3C(5, random_state=0).fit_fetch(x).transform(x))
    table = np.zeros((3, 5))
    np.add.at(table, (np.concatenate(true), five), 1)
    assert table.max(axis=0).sum() / table.sum() > 0.95
