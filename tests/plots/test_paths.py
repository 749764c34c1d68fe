"""Picture of transition paths: who stands where, what is written on the arrows."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pytest
from deeptime.markov.msm import MarkovStateModel
from matplotlib.patches import Circle, FancyArrowPatch

from m3c_md import transition_paths
from m3c_md.exceptions import InputError
from m3c_md.plots import plot_paths, state_color
from m3c_md.plots.paths import WAY, path_positions
from tests.markov import markov_chain

matplotlib.use("Agg")
FORK = np.array([[0.85, 0.1, 0.05, 0.0], [0.1, 0.8, 0.0, 0.1], [0.05, 0.0, 0.9, 0.05], [0.0, 0.1, 0.05, 0.85]])
NAMES = ["coil", "turn", "3-10", "helix"]


@pytest.fixture
def axes() -> Any:
    return plot_paths(transition_paths(MarkovStateModel(FORK), 0, 3, names=NAMES, dt=0.2, unit="ns"))


def of(axes: Any, kind: type) -> list[Any]:
    return [patch for patch in axes.patches if isinstance(patch, kind)]


def test_states_stand_at_their_committors(axes: Any) -> None:
    circles = of(axes, Circle)
    assert [circle.center[0] / WAY for circle in circles] == pytest.approx([0.0, 0.5, 0.5, 1.0])
    assert [circle.get_facecolor() for circle in circles] == [
        matplotlib.colors.to_rgba(state_color(state)) for state in range(4)
    ]
    assert circles[0].center[1] == circles[1].center[1] == circles[3].center[1] != circles[2].center[1]


def test_arrows_have_shares_and_fluxes_in_units(axes: Any) -> None:
    arrows = of(axes, FancyArrowPatch)
    assert len(arrows) == 4
    assert arrows[0].get_linewidth() > arrows[-1].get_linewidth()
    texts = [text.get_text() for text in axes.texts]
    assert texts.count("67%\n62.5") == 2
    assert {"coil\n25%", "helix\n25%"} <= set(texts)
    assert "mean first-passage time 5.33 ns" in axes.get_title()
    assert "flux in $10^{-3}$/ns" in axes.get_title()


def test_arrows_have_the_intervals_of_fluxes_that_are_known() -> None:
    chain = np.random.default_rng(0).random(2000)
    paths = transition_paths((chain < 0.3).astype(int), 0, 1, random_state=0)
    low, high = paths.intervals["total_flux"]
    texts = [text.get_text() for text in plot_paths(paths).texts]
    assert any(text.endswith(f"\n({low:.2g} to {high:.2g})") for text in texts), texts
    assert "(95 %)" in plot_paths(paths).get_title()


def test_states_without_flux_are_left_out() -> None:
    # A dead end hangs on the middle of a line.
    matrix = np.diag([0.1, 0.1], 1)
    matrix = np.pad(matrix + matrix.T, (0, 1))
    matrix[1, 3] = matrix[3, 1] = 0.1
    msm = MarkovStateModel(matrix + np.diag(1.0 - matrix.sum(axis=1)))
    axes = plot_paths(transition_paths(msm, 0, 2))
    assert len(of(axes, Circle)) == 3
    assert len(of(axes, FancyArrowPatch)) == 2


def test_no_two_states_overlap() -> None:
    rng = np.random.default_rng(0)
    for n in (3, 6, 10):
        committors = np.concatenate([[0.0], np.sort(rng.random(n)), [1.0]])
        places = path_positions(committors, [0, n + 1], np.full(n + 2, 0.4))
        apart = np.linalg.norm(places[:, None] - places, axis=2) + 9.0 * np.eye(n + 2)
        assert apart.min() > 0.8


def test_given_axes_are_used() -> None:
    import matplotlib.pyplot as plt

    _, given = plt.subplots()
    assert plot_paths(transition_paths(MarkovStateModel(FORK), 0, 3), ax=given) is given


def test_something_else_is_refused() -> None:
    with pytest.raises(InputError, match="transition_paths"):
        plot_paths(MarkovStateModel(FORK))  # type: ignore[arg-type]


# As of asp7: a state that is hardly on the way stands above the source, with little room between the two.
ASIDE = np.array([[0.985, 0.01, 0.005], [0.02, 0.979, 0.001], [0.02, 0.005, 0.975]])


def test_words_leave_short_arrows_to_be_seen() -> None:
    paths = transition_paths(markov_chain(ASIDE, 10_000, 0), 0, 2, dt=0.5, unit="ns", random_state=0)
    axes = plot_paths(paths)
    axes.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axes.texts if text.get_text().count("\n") == 2]
    arrows = of(axes, FancyArrowPatch)
    assert len(arrows) == len(boxes) == 3
    for arrow in arrows:
        points = arrow.get_transform().transform_path(arrow.get_path()).vertices
        way = points[0] + np.linspace(0.0, 1.0, 100)[:, None] * (points[2] - points[0])
        assert np.mean([any(box.contains(*point) for box in boxes) for point in way]) < 0.7


# As of asp7, the other way: a large state beside the target, with no room for words between, and a way past it.
PAST = np.array([[0.98, 0.014, 0.006], [0.003, 0.985, 0.012], [0.003, 0.025, 0.972]])


def test_arrows_that_bend_and_words_are_within_the_picture_and_not_under_states() -> None:
    paths = transition_paths(markov_chain(PAST, 10_000, 0), 0, 2, dt=0.5, unit="ns", random_state=0)
    axes = plot_paths(paths)
    axes.figure.canvas.draw()
    frame = axes.get_window_extent()
    words = [text.get_window_extent() for text in axes.texts if text.get_text().count("\n") == 2]
    circles = [circle.get_window_extent() for circle in of(axes, Circle)]
    assert len(words) == len(circles) == 3
    for box in words:
        assert frame.x0 <= box.x0 < box.x1 <= frame.x1
        assert frame.y0 <= box.y0 < box.y1 <= frame.y1
        assert not any(box.overlaps(other) for other in words if other is not box)
        for circle in circles:
            gap = np.maximum(np.abs(box.get_points().mean(0) - circle.get_points().mean(0)) - box.size / 2, 0.0)
            assert np.linalg.norm(gap) > circle.width / 2
    for arrow in of(axes, FancyArrowPatch):
        start, control, end = arrow.get_transform().transform_path(arrow.get_path()).vertices[:3]
        assert frame.contains(*(start + 2.0 * control + end) / 4.0)


def test_small_fluxes_are_written_without_exponents() -> None:
    axes = plot_paths(transition_paths(markov_chain(ASIDE, 10_000, 0), 0, 2, dt=0.5, unit="ns", random_state=0))
    assert not any("e-" in text.get_text() or "e+" in text.get_text() for text in axes.texts)
    assert "$10^{-3}$/ns" in axes.get_title()
