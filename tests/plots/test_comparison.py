"""Pictures of a comparison and of a scan: every value where it belongs, units, gaps, given axes."""

from __future__ import annotations

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from m3c_md.exceptions import InputError
from m3c_md.plots import STATE_COLORS, plot_metastability, plot_scan, state_color

NAN = np.nan


def splits(**values: list[float]) -> pd.DataFrame:
    return pd.DataFrame([{"method": name, "Q": q} for name, some in values.items() for q in some])


def scan_table(unit: str = "ns") -> pd.DataFrame:
    rows = [
        {"t2": 40.0, "t3": NAN, "t4": NAN, "stability": 1.0, "least stability": 1.0, "populations": [0.7, 0.3]},
        {"t2": 42.0, "t3": 11.0, "t4": NAN, "stability": 0.9, "least stability": 0.7, "populations": [0.5, 0.3, 0.2]},
        {"t2": NAN, "t3": NAN, "t4": NAN, "stability": NAN, "least stability": NAN, "populations": []},
    ]
    table = pd.DataFrame(rows, index=pd.Index([2, 3, 4], name="n_states"))
    return table.rename(columns={f"t{i}": f"t{i} / {unit}" for i in (2, 3, 4)})


class TestMetastability:
    def test_dots_mean_and_spread(self) -> None:
        axes = plot_metastability(splits(M3C=[2.7, 2.9, 2.8], kMedoids=[2.0, 2.4]), lagtime=5, dt=0.5, unit="ns")
        assert axes.get_xlabel() == "held-out metastability Q at lag time 2.5 ns"
        assert [label.get_text() for label in axes.get_yticklabels()] == ["M3C", "kMedoids"]
        assert axes.yaxis_inverted()  # the first on top
        for row, values in enumerate([[2.7, 2.9, 2.8], [2.0, 2.4]]):
            lines = [line for line in axes.lines if len(line.get_ydata()) and np.all(line.get_ydata() == row)]
            drawn = [line.get_xdata() for line in lines]
            assert any(np.array_equal(x, values) for x in drawn)
            assert any(len(x) == 1 and np.isclose(x[0], np.mean(values)) for x in drawn)
            ends = axes.collections[row].get_segments()[0][:, 0]
            spread = np.std(values, ddof=1)
            np.testing.assert_allclose(ends, [np.mean(values) - spread, np.mean(values) + spread])
        axes.figure.canvas.draw()

    def test_unknown_values_leave_a_gap_but_keep_the_row(self) -> None:
        axes = plot_metastability(splits(A=[NAN, NAN], B=[2.0, NAN], C=[1.0, 2.0]))
        assert [label.get_text() for label in axes.get_yticklabels()] == ["A", "B", "C"]
        assert all(np.isfinite(np.asarray(line.get_xdata(), dtype=float)).all() for line in axes.lines)
        axes.figure.canvas.draw()

    def test_nothing_known(self) -> None:
        plot_metastability(splits(A=[NAN])).figure.canvas.draw()

    def test_given_axes(self) -> None:
        _, ax = plt.subplots()
        assert plot_metastability(splits(A=[1.0, 1.5]), ax=ax) is ax
        assert len(plt.get_fignums()) == 1

    def test_methods_look_different(self) -> None:
        axes = plot_metastability(splits(**{name: [1.0, 1.2] for name in "ABCD"}))
        assert len({line.get_color() for line in axes.lines}) == 4

    def test_marks_do_not_run_into_each_other(self) -> None:
        axes = plot_metastability(splits(A=[2.96952, 2.97085], B=[2.9696, 2.97079]))
        axes.figure.canvas.draw()
        low, high = axes.get_xlim()
        labels = [x for x in axes.get_xticklabels() if low <= x.get_position()[0] <= high]
        boxes = [label.get_window_extent() for label in labels]
        assert len(boxes) > 1
        assert all(one.x1 < other.x0 for one, other in pairwise(boxes))

    def test_the_table_is_not_changed(self) -> None:
        table = splits(A=[1.0, NAN])
        before = table.copy()
        plot_metastability(table)
        pd.testing.assert_frame_equal(table, before)


class TestScan:
    def test_three_panels_with_units(self) -> None:
        left, middle, right = plot_scan(scan_table(), lagtime=4, dt=0.5, unit="ns")
        assert left.get_ylabel() == "implied timescale / ns"
        assert left.get_yscale() == "log"
        assert [text.get_text() for text in left.get_legend().get_texts()][:2] == ["$t_{2}$", "$t_{3}$"]
        assert "Rand index" in middle.get_ylabel()
        assert "population" in right.get_ylabel()
        for axes in (left, middle, right):
            assert axes.get_xlabel() == "number of states"
            assert axes.get_xticks().tolist() == [2, 3, 4]
        left.figure.canvas.draw()

    def test_values(self) -> None:
        left, middle, right = plot_scan(scan_table(), unit="ns")
        np.testing.assert_array_equal(left.lines[0].get_ydata(), [40.0, 42.0, NAN])
        np.testing.assert_array_equal(left.lines[1].get_ydata(), [NAN, 11.0, NAN])
        np.testing.assert_array_equal(np.asarray(middle.lines[0].get_ydata(), dtype=float), [1.0, 0.9, NAN])
        np.testing.assert_allclose(middle.collections[0].get_segments()[1][:, 1], [0.7, 0.9])
        heights = [bar.get_height() for bar in right.patches]
        np.testing.assert_allclose(heights, [0.7, 0.3, 0.5, 0.3, 0.2])
        tops = [bar.get_y() + bar.get_height() for bar in right.patches]
        np.testing.assert_allclose(tops, [0.7, 1.0, 0.5, 0.8, 1.0])

    def test_states_have_their_colours_and_nothing_else_has(self) -> None:
        left, middle, right = plot_scan(scan_table(), unit="ns")
        assert not {line.get_color() for axes in (left, middle) for line in axes.lines} & set(STATE_COLORS)
        colors = [plt.matplotlib.colors.to_hex(bar.get_facecolor()) for bar in right.patches]
        assert colors == [state_color(i).lower() for i in (0, 1, 0, 1, 2)]

    @pytest.mark.parametrize("value", [0.09251256281407036, 1.0, 0.3])
    def test_equal_stabilities_whose_mean_rounds_down(self, value: float) -> None:
        table = scan_table().assign(**{"stability": np.mean([value] * 3), "least stability": value})
        plot_scan(table, unit="ns")[0].figure.canvas.draw()

    @pytest.mark.parametrize("value", [NAN, np.inf, 0.01])
    def test_odd_timescales(self, value: float) -> None:
        table = scan_table()
        table["t2 / ns"] = table["t3 / ns"] = value
        plot_scan(table, unit="ns", lagtime=3)[0].figure.canvas.draw()

    def test_given_axes(self) -> None:
        _, given = plt.subplots(1, 3)
        assert all(a is b for a, b in zip(plot_scan(scan_table(), unit="ns", axes=given), given, strict=True))
        with pytest.raises(InputError, match="2 axes were given, but 3 are needed, one per property"):
            plot_scan(scan_table(), unit="ns", axes=given[:2])

    def test_another_unit_than_that_of_the_table(self) -> None:
        with pytest.raises(InputError, match="no timescales in unit='ps', only t2 / ns"):
            plot_scan(scan_table(), unit="ps")
