"""The tree of states: every state where it belongs, sizes by population, dashes where nothing was split."""

from __future__ import annotations

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from m3c_md.exceptions import InputError
from m3c_md.plots import plot_state_tree, state_color

NAN = np.nan


def tree(unit: str = "ns") -> pd.DataFrame:
    """Two states, then three of which the last two are parts of state 1, then four of which one is not nested."""
    rows = [
        *[(2, 0, pd.NA, True, 0.6, 90.0), (2, 1, pd.NA, True, 0.4, 90.0)],
        *[(3, 0, 0, True, 0.6, NAN), (3, 1, 1, True, 0.3, 20.0), (3, 2, 1, True, 0.1, 20.0)],
        *[(4, 0, 0, True, 0.4, 5.0), (4, 1, 1, True, 0.3, NAN), (4, 2, 0, False, 0.2, 5.0), (4, 3, 2, True, 0.1, NAN)],
    ]
    names = ["n_states", "state", "parent", "nested", "population", f"timescale / {unit}"]
    return pd.DataFrame(rows, columns=names).astype({"parent": "Int64"})


def circles(axes: plt.Axes) -> dict[tuple[float, float], tuple[float, str]]:
    """Area and colour of circles by their places."""
    from matplotlib.colors import to_hex

    return {
        tuple(np.round(dots.get_offsets()[0], 6)): (dots.get_sizes()[0], to_hex(dots.get_facecolor()[0]).upper())
        for dots in axes.collections
    }


class TestTree:
    def test_rows_from_top_to_bottom(self) -> None:
        axes = plot_state_tree(tree())
        assert [label.get_text() for label in axes.get_yticklabels()] == ["2 states", "3 states", "4 states"]
        heights = sorted({y for _, y in circles(axes)}, reverse=True)
        assert heights == axes.get_yticks().tolist()
        assert [sum(y == height for _, y in circles(axes)) for height in heights] == [2, 3, 4]

    def test_parents_stand_above_their_children(self) -> None:
        axes = plot_state_tree(tree())
        numbers = {tuple(np.round(t.get_position(), 6)): t.get_text() for t in axes.texts if t.get_text().isdigit()}
        places = {(-y, int(text)): x for (x, y), text in numbers.items()}
        assert places[0, 0] == places[1, 0] == (places[2, 0] + places[2, 2]) / 2
        assert places[0, 1] == (places[1, 1] + places[1, 2]) / 2
        # The last row side by side, children of one state beside each other.
        assert [places[2, state] for state in (0, 2, 1, 3)] == [0.0, 1.0, 2.0, 3.0]

    def test_areas_and_colours(self) -> None:
        drawn = circles(plot_state_tree(tree()))
        areas = {y: [area for (_, height), (area, _) in sorted(drawn.items()) if height == y] for y in (0.0, -2.0)}
        assert areas[0.0][0] / areas[0.0][1] == pytest.approx(0.6 / 0.4)
        assert areas[-2.0][0] / areas[-2.0][2] == pytest.approx(0.4 / 0.3)
        colors = [color for (_, y), (_, color) in sorted(drawn.items()) if y == 0.0]
        assert colors == [state_color(0).upper(), state_color(1).upper()]

    def test_no_branch_runs_through_a_population(self) -> None:
        # As of asp7: the large state loses a part in every row, and its thick branch leads to the left.
        rows = [
            *[(2, 0, pd.NA, True, 0.87, 10.8), (2, 1, pd.NA, True, 0.13, 10.8)],
            *[(3, 0, 0, True, 0.68, 7.7), (3, 1, 0, True, 0.2, 7.7), (3, 2, 1, True, 0.12, NAN)],
            *[(4, 0, 0, True, 0.56, 5.7), (4, 1, 1, True, 0.2, NAN), (4, 2, 2, True, 0.12, NAN)],
            (4, 3, 0, True, 0.12, 5.7),
        ]
        axes = plot_state_tree(pd.DataFrame(rows, columns=tree().columns).astype({"parent": "Int64"}))
        axes.figure.canvas.draw()
        shares = [text.get_window_extent() for text in axes.texts if text.get_text().endswith("%")]
        assert len(shares) == 9
        for line in axes.lines:
            ends = axes.transData.transform(line.get_xydata())
            way = ends[0] + np.linspace(0.0, 1.0, 200)[:, None] * (ends[1] - ends[0])
            half = 0.5 * line.get_linewidth() * axes.figure.dpi / 72.0
            assert not any(box.padded(half).contains(*point) for box in shares for point in way)

    def test_lines(self) -> None:
        axes = plot_state_tree(tree())
        assert len(axes.lines) == 7
        dashed = [line for line in axes.lines if line.get_linestyle() != "-"]
        assert len(dashed) == 1
        assert dashed[0].get_color() == state_color(2)
        widths = {line.get_color(): line.get_linewidth() for line in axes.lines if line.get_ydata()[0] == 0.0}
        assert widths[state_color(0)] > widths[state_color(1)] > widths[state_color(3)]

    def test_times_with_their_unit(self) -> None:
        said = [text.get_text() for text in plot_state_tree(tree("µs")).texts]
        assert said[-3:] == ["$t_{2}$ = 90 µs", "$t_{3}$ = 20 µs", "$t_{4}$ = 5 µs"]
        assert "60%" in said

    def test_a_time_that_is_not_known(self) -> None:
        one = tree()
        one.loc[one["n_states"] == 4, "timescale / ns"] = NAN
        assert plot_state_tree(one).texts[-1].get_text() == "$t_{4}$ = unknown"

    def test_a_branch_that_ends(self) -> None:
        one = tree()
        one.loc[8, "parent"] = 1  # nothing comes of state 2 of three
        axes = plot_state_tree(one)
        places = sorted(x for x, y in circles(axes) if y == -2.0)
        assert len(set(places)) == 4

    def test_of_a_scan_into_given_axes(self) -> None:
        given = plt.subplots()[1]
        assert plot_state_tree(SimpleNamespace(tree=tree()), ax=given) is given

    @pytest.mark.parametrize("wrong", [None, 3, pd.DataFrame({"n_states": [2]}), tree().drop(columns="nested")])
    def test_refused(self, wrong: object) -> None:
        with pytest.raises(InputError, match="without a tree of states; give what scan_states returned"):
            plot_state_tree(wrong)
