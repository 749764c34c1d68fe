"""Chapman-Kolmogorov test: the right numbers in the right panels."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from deeptime.util.validation import ChapmanKolmogorovTest

from m3c_md.exceptions import InputError
from m3c_md.plots import plot_chapman_kolmogorov, state_color

MATRIX = np.array([[0.90, 0.08, 0.02], [0.10, 0.85, 0.05], [0.01, 0.04, 0.95]])
LAGS = np.array([0, 4, 8, 12])


def some_test(n_samples: int = 0) -> ChapmanKolmogorovTest:
    """Different numbers everywhere, so that no panel can stand for another."""
    rng = np.random.default_rng(0)
    predicted = np.stack([np.linalg.matrix_power(MATRIX, k) for k in range(4)])
    estimated = predicted * rng.uniform(0.9, 1.1, predicted.shape)
    samples = [
        [p * rng.uniform(0.8, 1.2, p.shape) for _ in range(n_samples if lag else 1)] for lag, p in enumerate(predicted)
    ]
    more = [
        [p * rng.uniform(0.7, 1.3, p.shape) for _ in range(n_samples if lag else 1)] for lag, p in enumerate(predicted)
    ]
    test = ChapmanKolmogorovTest(
        LAGS, predicted, samples if n_samples else [], estimated, more if n_samples else None, None
    )
    test.dt, test.unit = 0.25, "ns"
    return test


def test_every_panel_has_prediction_and_estimate_of_its_pair():
    test = some_test()
    axes = plot_chapman_kolmogorov(test)
    assert axes.shape == (3, 3)
    for i, j in np.ndindex(3, 3):
        line, points = axes[i, j].lines
        assert axes[i, j].get_title() == f"{i} → {j}"
        np.testing.assert_array_equal(line.get_xdata(), LAGS * 0.25)
        np.testing.assert_array_equal(line.get_ydata(), test.predictions[:, i, j])
        np.testing.assert_array_equal(points.get_ydata(), test.estimates[:, i, j])
        assert line.get_color() == state_color(i)
        low, high = axes[i, j].get_ylim()
        assert low <= 0.0 < 1.0 <= high < 1.1
    assert {ax.get_xlabel() for ax in axes[-1]} == {"lag time / ns"}
    assert {ax.get_ylabel() for ax in axes[:, 0]} == {"probability"}
    axes[0, 0].figure.canvas.draw()


def test_bands_and_bars_hold_95_percent_of_the_samples():
    test = some_test(n_samples=60)
    axes = plot_chapman_kolmogorov(test)
    for i, j in np.ndindex(3, 3):
        band, bars = axes[i, j].collections
        corners = band.get_paths()[0].vertices
        for lag, time in enumerate(LAGS * 0.25):
            predicted = np.quantile([s[i, j] for s in test.predictions_samples[lag]], [0.025, 0.975], method="nearest")
            ends = corners[np.isclose(corners[:, 0], time), 1]
            np.testing.assert_allclose((ends.min(), ends.max()), predicted)
            estimated = np.quantile([s[i, j] for s in test.estimates_samples[lag]], [0.025, 0.975], method="nearest")
            np.testing.assert_allclose(bars.get_segments()[lag], [[time, estimated[0]], [time, estimated[1]]])
    assert [t.get_text() for t in axes[0, 2].get_legend().get_texts()] == ["predicted, 95%", "estimated, 95%"]


def test_estimates_may_be_missing():
    test = some_test(n_samples=5)
    test.estimates[2] = np.nan
    test.estimates[:, 1] = test.predictions[:, 1] = np.nan  # a state outside of the connected set
    for sample in (*test.predictions_samples[3], *test.estimates_samples[3]):
        sample[1] = np.nan
    plot_chapman_kolmogorov(test)[0, 0].figure.canvas.draw()


def test_units_of_frames_by_default():
    test = some_test()
    plain = ChapmanKolmogorovTest(LAGS, test.predictions, None, test.estimates, None, None)
    axes = plot_chapman_kolmogorov(plain)
    assert axes[2, 0].get_xlabel() == "lag time / frame"
    np.testing.assert_array_equal(axes[0, 0].lines[0].get_xdata(), LAGS)


def test_given_axes_are_used():
    _, axes = plt.subplots(3, 3)
    assert plot_chapman_kolmogorov(some_test(), axes=axes) is axes
    assert len(plt.get_fignums()) == 1
    assert all(len(ax.lines) == 2 for ax in axes.ravel())
    with pytest.raises(InputError, match="3 axes were given, but 9 are needed, one per pair of states"):
        plot_chapman_kolmogorov(some_test(), axes=axes[0])


def test_wrong_kind_is_named():
    with pytest.raises(InputError, match="test is a ndarray"):
        plot_chapman_kolmogorov(MATRIX)
