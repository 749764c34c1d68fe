"""Networks: populations, passage times, colours, and labels that can be read."""

from __future__ import annotations

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from deeptime.markov import TransitionCountEstimator
from deeptime.markov.msm import BayesianMSM, MarkovStateModel, MaximumLikelihoodMSM
from matplotlib.colors import to_hex
from matplotlib.patches import Circle, FancyArrowPatch

from m3c_md import kinetics
from m3c_md.exceptions import InputError
from m3c_md.plots import plot_network, state_color
from m3c_md.plots.network import common_power, format_time, ring_positions


def some_msm(n_states: int, seed: int = 0, lagtime: int = 5) -> MarkovStateModel:
    rng = np.random.default_rng(seed)
    counts = rng.random((n_states, n_states)) ** 3 + 0.01
    counts = counts + counts.T + np.diag(rng.uniform(5.0, 200.0, n_states))
    return MarkovStateModel(counts / counts.sum(axis=1, keepdims=True), lagtime=lagtime)


def circles(ax):
    return [patch for patch in ax.patches if isinstance(patch, Circle)]


def arrows(ax):
    return [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]


def states_and_times(ax):
    """Labels of circles by state, and labels of arrows."""
    texts = [text.get_text() for text in ax.texts]
    return [text for text in texts if "%" in text], [text for text in texts if "%" not in text]


@pytest.mark.parametrize("n_states", [1, 2, 3, 5])
def test_labels_are_populations_and_passage_times_in_units(n_states):
    msm = some_msm(n_states)
    ax = plot_network(msm, dt=0.2, unit="ns")
    states, times = states_and_times(ax)
    assert states == [f"{k}\n{p:.0%}" for k, p in enumerate(msm.stationary_distribution)]
    wanted = [0.2 * msm.mfpt(i, j) for i in range(n_states) for j in range(n_states) if i != j]
    np.testing.assert_allclose([float(text) for text in times], wanted, rtol=5e-3)
    assert len(arrows(ax)) == n_states * (n_states - 1)
    assert ax.get_xlabel() == "arrows: mean first-passage times / ns"


def test_long_times_share_a_power_of_ten():
    msm = some_msm(2)
    ax = plot_network(msm, dt=1e6, unit="fs")
    factor = 10.0 ** common_power(1e6 * np.array([[0.0, msm.mfpt(0, 1)], [msm.mfpt(1, 0), 0.0]]))
    assert ax.get_xlabel() == f"arrows: mean first-passage times / ($10^{{{np.log10(factor):.0f}}}$ fs)"
    found = [float(text) * factor for text in states_and_times(ax)[1]]
    np.testing.assert_allclose(found, [1e6 * msm.mfpt(0, 1), 1e6 * msm.mfpt(1, 0)], rtol=5e-3)


@pytest.mark.parametrize("n_states", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(4))
def test_labels_do_not_overlap(n_states, seed):
    ax = plot_network(some_msm(n_states, seed), dt=37.0, unit="ps")
    ax.figure.canvas.draw()
    renderer = ax.figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in ax.texts] + [ax.xaxis.label.get_window_extent(renderer)]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    width, height = ax.figure.canvas.get_width_height()
    assert all(min(box.x0, box.y0) >= 0 and box.x1 <= width and box.y1 <= height for box in boxes)
    assert not any(
        a.get_window_extent(renderer).overlaps(b.get_window_extent(renderer)) for a, b in combinations(circles(ax), 2)
    )


def test_area_of_large_states_is_proportional_to_probability():
    ax = plot_network(some_msm(3, seed=1))
    share = some_msm(3, seed=1).stationary_distribution
    radii = np.array([circle.radius for circle in circles(ax)])
    large = radii > radii.min() + 1e-9
    assert large.sum() >= 2
    ratio = radii[large] ** 2 / share[large]
    np.testing.assert_allclose(ratio, ratio[0])


def test_colours_are_those_of_the_states():
    ax = plot_network(some_msm(4))
    assert [to_hex(circle.get_facecolor()).upper() for circle in circles(ax)] == [state_color(k) for k in range(4)]
    leaving = [to_hex(arrow.get_edgecolor()).upper() for arrow in arrows(ax)]
    assert leaving == [state_color(i) for i in range(4) for _ in range(3)]


def test_states_keep_their_numbers_when_others_are_not_connected():
    trajectory = np.array([0] * 5 + [1, 2, 1, 1, 2, 2, 1, 2, 2, 1])  # 0 is never entered again
    counts = TransitionCountEstimator(1, "sliding").fit_fetch(trajectory).submodel_largest()
    ax = plot_network(MaximumLikelihoodMSM().fit_fetch(counts))
    assert [text[0] for text in states_and_times(ax)[0]] == ["1", "2"]
    assert to_hex(circles(ax)[0].get_facecolor()).upper() == state_color(1)


def test_arrows_are_wide_where_much_flows_and_dotted_where_nothing_does():
    chain = MarkovStateModel([[0.9, 0.1, 0.0], [0.1, 0.89, 0.01], [0.0, 0.01, 0.99]])
    found = dict(zip([(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)], arrows(plot_network(chain)), strict=True))
    assert found[0, 1].get_linewidth() == pytest.approx(found[1, 0].get_linewidth())  # detailed balance
    assert found[0, 1].get_linewidth() > found[1, 2].get_linewidth() > found[0, 2].get_linewidth()
    assert {pair for pair, arrow in found.items() if arrow.get_linestyle() == ":"} == {(0, 2), (2, 0)}


def test_states_that_exchange_fast_are_neighbours():
    times = np.full((4, 4), 100.0)
    for i, j in ((0, 2), (2, 1), (1, 3), (3, 0)):
        times[i, j] = times[j, i] = 1.0
    np.fill_diagonal(times, 0.0)
    places = ring_positions(times)
    assert np.linalg.norm(places[0] - places[1]) == pytest.approx(2.0)
    assert np.linalg.norm(places[0] - places[2]) == pytest.approx(np.sqrt(2.0))


def test_given_positions_and_axes_are_used():
    positions = np.array([[-60.0, -45.0], [-60.0, 135.0], [60.0, 45.0]])
    before = positions.copy()
    _, (left, right) = plt.subplots(1, 2, figsize=(9, 4.5))
    assert plot_network(some_msm(3), positions=positions, ax=left) is left
    assert len(plt.get_fignums()) == 1
    assert not right.patches
    np.testing.assert_array_equal([circle.center for circle in circles(left)], positions)
    np.testing.assert_array_equal(positions, before)


@pytest.mark.parametrize(
    ("msm", "options", "message"),
    [
        (np.eye(2), {}, "msm is a ndarray; give a deeptime MarkovStateModel"),
        (some_msm(3), {"dt": 0.0}, "dt=0.0"),
        (some_msm(3), {"positions": np.zeros((2, 2))}, r"shape \(2, 2\); give finite numbers of shape \(3, 2\)"),
        (some_msm(3), {"positions": np.zeros((3, 2))}, "all the same"),
    ],
)
def test_wrong_input_is_named(msm, options, message):
    with pytest.raises(InputError, match=message):
        plot_network(msm, **options)
    assert plt.get_fignums() == []


def test_times_are_written_with_three_digits():
    values = [0.001234, 0.5, 12.0, 123.456, 98765.0, 3.2e7, np.inf]
    assert [format_time(v) for v in values] == ["0.00123", "0.5", "12", "123", "98800", "3.2e+07", "∞"]


class TestErrors:
    def test_a_bayesian_msm_shows_its_intervals(self) -> None:
        chain = np.cumsum(np.random.default_rng(0).random(4000) < 0.05) % 2
        counts = TransitionCountEstimator(1, "effective").fit_fetch(chain)
        posterior = BayesianMSM(n_samples=50).fit_fetch(counts)
        ax = plot_network(posterior, dt=2.0, unit="ps")
        labels = [text.get_text() for text in ax.texts]
        assert len(labels) == 4
        assert all("–" in label for label in labels)
        times = sorted(2.0 * one.mfpt(0, 1) for one in posterior.samples)
        low, high = (float(x) for x in next(x for x in labels if "%" not in x).split("\n")[1].split("–"))
        assert times[0] <= low < high <= times[-1]
        assert ax.get_xlabel() == "arrows: mean first-passage times / ps, below: 95 % intervals"

    def test_kinetics_are_drawn_in_their_own_unit(self) -> None:
        chain = np.cumsum(np.random.default_rng(0).random(4000) < 0.05) % 2
        result = kinetics(chain, dt=2.0, unit="ns", random_state=0)
        ax = plot_network(result)
        assert "/ ns" in ax.get_xlabel()
        written = {text.get_text().split("\n")[0] for text in ax.texts}
        assert {format_time(time) for time in result.pairs["mfpt"]} <= written
        plain = plot_network(kinetics(chain, confidence=None))
        assert not any("–" in text.get_text() for text in plain.texts)
