"""Implied timescales: units, bands, gaps, panels."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from deeptime.util.validation import ImpliedTimescales

from m3c_md.exceptions import InputError
from m3c_md.plots import plot_implied_timescales
from m3c_md.validation import chapman_kolmogorov, implied_timescales
from tests.markov import THREE_STATES, markov_chain

LAGS = np.array([1, 2, 5, 10])


class InUnits(ImpliedTimescales):
    def __init__(self, *arguments, dt, unit):
        super().__init__(*arguments)
        self.dt, self.unit = dt, unit


def result(n_processes: int = 2, n_samples: int = 0, seed: int = 0, dt: float = 0.5, unit: str = "ns") -> InUnits:
    rng = np.random.default_rng(seed)
    its = 100.0 / 4.0 ** np.arange(n_processes) * rng.uniform(0.8, 1.2, size=(len(LAGS), n_processes))
    samples = [[row * rng.lognormal(sigma=0.2, size=n_processes) for _ in range(n_samples)] for row in its]
    return InUnits(LAGS, its, samples if n_samples else None, dt=dt, unit=unit)


def test_a_panel_per_process_a_line_per_method_in_units():
    methods = {"M3C": result(2, seed=1), "PCCA+": result(3, seed=2, dt=2.0)}
    axes = plot_implied_timescales(methods)
    assert [ax.get_title() for ax in axes] == ["$t_{2}$", "$t_{3}$", "$t_{4}$"]
    assert axes[0].get_ylabel() == "implied timescale / ns"
    assert {ax.get_xlabel() for ax in axes} == {"lag time / ns"}
    assert {ax.get_yscale() for ax in axes} == {"log"}
    for process, ax in enumerate(axes):
        for line, one in zip(ax.lines, methods.values(), strict=True):
            np.testing.assert_allclose(line.get_xdata(), LAGS * one.dt)
            wanted = one.timescales_for_process(process) * one.dt if process < one.max_n_processes else np.nan
            np.testing.assert_allclose(line.get_ydata(), np.broadcast_to(wanted, len(LAGS)))
    assert [text.get_text() for text in axes[0].get_legend().get_texts()] == ["M3C", "PCCA+"]
    assert len({line.get_color() for line in axes[0].lines}) == 2
    axes[0].figure.canvas.draw()


def test_bands_hold_95_percent_of_the_samples():
    one = result(2, n_samples=80)
    for process, ax in enumerate(plot_implied_timescales({"M3C": one})):
        corners = ax.collections[0].get_paths()[0].vertices
        for lag, samples in zip(LAGS, one.samples_for_process(process), strict=True):
            ends = corners[np.isclose(corners[:, 0], lag * one.dt), 1]
            np.testing.assert_allclose(
                (ends.min(), ends.max()), one.dt * np.quantile(samples, [0.025, 0.975], method="nearest")
            )


def test_bands_are_those_of_the_table():
    dtrajs = [markov_chain(THREE_STATES, 300, seed) for seed in range(12)]
    its = implied_timescales(dtrajs, LAGS, confidence="bootstrap", n_samples=21, dt=0.5, unit="ns", random_state=0)
    table = its.to_frame()
    for process, ax in enumerate(plot_implied_timescales(its)):
        corners = ax.collections[0].get_paths()[0].vertices
        for lag, row in table.iterrows():
            ends = corners[np.isclose(corners[:, 0], lag), 1]
            name = f"t{process + 2}"
            np.testing.assert_allclose((ends.min(), ends.max()), (row[f"{name} low"], row[f"{name} high"]))


def test_processes_and_samples_that_are_missing_leave_gaps():
    nan = np.nan
    samples = [[[20.0, 3.0], [22.0, nan]], [[21.0, nan], [23.0, nan]], None, [[25.0, nan]]]
    one = ImpliedTimescales(LAGS, [[21.0, 3.0], [22.0], [nan, nan], [24.0]], samples)
    axes = plot_implied_timescales({"gaps": one, "nothing": ImpliedTimescales([1, 2], [[nan], [nan]])})
    np.testing.assert_array_equal(axes[1].lines[0].get_ydata(), [3.0, nan, nan, nan])
    axes[0].figure.canvas.draw()  # warnings are errors


def test_bands_without_end_reach_the_edges_and_do_not_spoil_the_axis():
    samples = [[[20.0], [np.inf], [24.0]], [[0.0], [0.0], [1e9]], [[21.0], [22.0], [23.0]]]
    (ax,) = plot_implied_timescales(ImpliedTimescales([1, 2, 4], [[22.0], [np.inf], [22.0]], samples))
    ax.figure.canvas.draw()
    low, high = ax.get_ylim()
    assert 0.1 <= low < 1.0
    assert 220.0 <= high < 300.0
    corners = ax.collections[0].get_paths()[0].vertices
    first, second = (corners[np.isclose(corners[:, 0], lag), 1] for lag in (1.0, 2.0))
    assert first.max() == pytest.approx(high)
    assert (second.min(), second.max()) == (pytest.approx(low), pytest.approx(high))


def test_only_gaps_can_be_drawn():
    axes = plot_implied_timescales(ImpliedTimescales([1, 2], [[np.nan], [np.nan]]))
    axes[0].figure.canvas.draw()
    assert axes[0].get_legend() is None


def test_grey_area_is_where_a_timescale_is_below_its_lag_time():
    one = result()
    (ax, _) = plot_implied_timescales(one)
    corners = ax.collections[-1].get_paths()[0].vertices
    low, right = ax.get_ylim()[0], ax.get_xlim()[1]
    assert corners[:, 1].max() == pytest.approx(right)  # reaches the line t = lag at the right end
    above = corners[corners[:, 1] > low + 1e-9]
    np.testing.assert_allclose(above[:, 0], above[:, 1])
    assert low <= LAGS.min() * one.dt


def test_lag_times_far_apart_have_a_logarithmic_axis():
    """As of coring: t2 rises up to a lag time of 10, and lag times go on to 200."""
    lags = np.array([1, 2, 5, 10, 20, 50, 200])
    (ax,) = plot_implied_timescales(ImpliedTimescales(lags, (lags / (lags / 300.0 + 0.01))[:, None]))
    assert ax.get_xscale() == "log"
    corners = ax.collections[-1].get_paths()[0].vertices
    above = corners[corners[:, 1] > ax.get_ylim()[0] + 1e-9]
    np.testing.assert_allclose(above[:, 0], above[:, 1])
    assert ax.get_xlim()[0] < 1.0 < 200.0 < ax.get_xlim()[1]
    (ax,) = plot_implied_timescales(ImpliedTimescales(lags[:5], np.full((5, 1), 30.0)))
    assert ax.get_xscale() == "linear"


def test_exact_values_are_dashed_lines_of_their_panels():
    axes = plot_implied_timescales({"M3C": result(3)}, exact=[51.0, 13.0])
    dashed = [[line for line in ax.lines if line.get_label() == "exact"] for ax in axes]
    assert [len(lines) for lines in dashed] == [1, 1, 0]
    assert [lines[0].get_ydata()[0] for lines in dashed[:2]] == [51.0, 13.0]
    assert all(ax.get_ylim()[0] < value < ax.get_ylim()[1] for ax, value in zip(axes, (51.0, 13.0), strict=False))


def test_one_axes_takes_all_processes_by_line_style():
    _, ax = plt.subplots()
    methods = {"M3C": result(2, seed=1), "PCCA+": result(2, seed=2)}
    assert plot_implied_timescales(methods, ax=ax) is ax
    assert len(plt.get_fignums()) == 1
    assert len(ax.lines) == 4
    assert len({line.get_linestyle() for line in ax.lines}) == 2
    assert len({line.get_color() for line in ax.lines}) == 2
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["M3C", "PCCA+", "$t_{2}$", "$t_{3}$"]


def test_given_array_of_axes_is_used():
    _, axes = plt.subplots(1, 2)
    assert plot_implied_timescales(result(2), ax=axes) is axes
    assert [len(ax.lines) for ax in axes] == [1, 1]
    with pytest.raises(InputError, match="2 axes were given, but 3 are needed, one per process"):
        plot_implied_timescales(result(3), ax=axes)


@pytest.mark.parametrize(("n_timescales", "panels"), [(None, 5), (1, 1), (7, 7), (30, 9)])
def test_number_of_panels(n_timescales, panels):
    assert len(plot_implied_timescales(result(9), n_timescales=n_timescales)) == panels


def test_units_of_frames_by_default():
    one = ImpliedTimescales(LAGS, np.full((4, 1), 30.0))
    (ax,) = plot_implied_timescales(one)
    assert ax.get_xlabel() == "lag time / frame"
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), LAGS)


def test_input_is_not_changed():
    one = result(2, n_samples=20)
    before = one.lagtimes.copy(), one._its.copy(), one._its_stats.copy()
    plot_implied_timescales({"M3C": one})
    for old, new in zip(before, (one.lagtimes, one._its, one._its_stats), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    ("timescales", "options", "message"),
    [
        ({}, {}, "empty dict"),
        ({"M3C": np.ones(3)}, {}, "timescales of 'M3C' is a ndarray; give deeptime"),
        (np.ones(3), {}, "timescales is a ndarray"),
        ({"a": result(unit="ps"), "b": result(unit="ns")}, {}, r"different units, \['ns', 'ps'\]"),
        (result(), {"n_timescales": 0}, "n_timescales=0"),
    ],
)
def test_wrong_input_is_named(timescales, options, message):
    with pytest.raises(InputError, match=message):
        plot_implied_timescales(timescales, **options)
    assert plt.get_fignums() == []


def test_results_draw_themselves_into_figures_of_their_own():
    states = np.cumsum(np.random.default_rng(0).random(3000) < 0.05) % 2
    _, open_before = plt.subplots()
    its = implied_timescales(states, [1, 2], dt=0.5, unit="ns", random_state=0)
    (panel,) = its.plot()
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("lag time / ns", "implied timescale / ns")
    grid = chapman_kolmogorov(states, 1, 2, dt=0.5, unit="ns", random_state=0).plot()
    assert grid[0, 0].get_title() == "0 → 0"
    assert grid[1, 0].get_xlabel() == "lag time / ns"
    assert not open_before.has_data()
    assert its.plot(ax=open_before) is open_before
    assert open_before.has_data()
