"""States in single precision: those of double precision wherever they claim to be sure, with numba and without."""

from __future__ import annotations

import numpy as np
import pytest

from m3c_md.optimize import kernels
from m3c_md.optimize import quick_states as module
from m3c_md.optimize.blocks import Rule
from m3c_md.optimize.feature_map import FourierMap, draw_fourier_map
from m3c_md.optimize.quick_states import MOST_TURNS, quick_states

WAYS = ["numba", "python", "arrays"]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "arrays":
        monkeypatch.setattr(module, "compiled", lambda: None)
    elif kernels.compiled() is None:
        pytest.skip("numba is missing or switched off")
    elif request.param == "python":
        loops = kernels.compiled()
        monkeypatch.setattr(loops, "state_loop", getattr(loops.state_loop, "py_func", loops.state_loop))
    return str(request.param)


def case(n_columns: int, n_features: int, n_states: int, seed: int = 0) -> tuple[FourierMap, Rule]:
    rng = np.random.default_rng(seed)
    phi = draw_fourier_map(n_columns, n_features, rng, kind="fourier", center=rng.normal(size=n_columns))
    return phi, Rule(rng.normal(size=(n_states, n_features)), rng.normal(size=n_states))


@pytest.mark.parametrize(("n_columns", "n_features", "n_states"), [(1, 7, 2), (3, 50, 4), (12, 101, 3)])
def test_what_is_sure_is_right(way: str, n_columns: int, n_features: int, n_states: int) -> None:
    phi, rule = case(n_columns, n_features, n_states)
    frames = np.random.default_rng(1).normal(size=(300 if way == "python" else 5000, n_columns)) * 3.0
    states, sure = quick_states(phi, rule, frames)
    np.testing.assert_array_equal(states[sure], rule.scores(phi(frames)).argmax(axis=0)[sure])
    assert sure.mean() > 0.95


def test_close_to_a_boundary_nothing_is_sure(way: str) -> None:
    phi, rule = case(2, 20, 2)
    twins = Rule(rule.weights[[0, 0]], rule.bias[[0, 0]])
    assert not quick_states(phi, twins, np.random.default_rng(0).normal(size=(50, 2)))[1].any()


@pytest.mark.parametrize("distance", [1e3, 1e5, 1e8, 1e30, 1e45, 1e99])
def test_far_away_nothing_is_sure(way: str, distance: float) -> None:
    """Single precision does not know the phase of an angle of many turns."""
    phi, rule = case(2, 20, 3)
    frames = distance * np.array([[1.0, 0.0], [0.0, -1.0], [1.0, 1.0]])
    assert distance * np.abs(phi.frequencies).max(axis=1).min() / (2.0 * np.pi) > MOST_TURNS
    assert not quick_states(phi, rule, frames)[1].any()


def test_columns_that_do_not_count(way: str) -> None:
    phi, rule = case(2, 20, 3)
    flat = FourierMap(np.vstack([phi.frequencies[:1], np.zeros((1, 20))]), phi.phases, phi.center)
    frames = np.random.default_rng(0).normal(size=(100, 2))
    states, sure = quick_states(flat, rule, frames)
    np.testing.assert_array_equal(states[sure], rule.scores(flat(frames)).argmax(axis=0)[sure])
    assert sure.any()


def test_units_do_not_matter(way: str) -> None:
    phi, rule = case(2, 20, 3)
    frames = np.random.default_rng(0).normal(size=(100, 2))
    for unit in (1e-60, 1e60):
        other = FourierMap(phi.frequencies / unit, phi.phases, phi.center * unit)
        states, sure = quick_states(other, rule, frames * unit)
        expected, also = quick_states(phi, rule, frames)
        np.testing.assert_array_equal(states[sure & also], expected[sure & also])
        assert (sure & also).mean() > 0.9
