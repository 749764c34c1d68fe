"""The suggestion of a scan: stable, slow, the largest gap; its reason has the numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from m3c_md.validation.suggestion import suggest


def table(rows: dict[int, tuple[float, float]], unit: str = "ps", entered: int | None = 50) -> pd.DataFrame:
    """Stability and fastest timescale of each number of states."""
    most = max(rows)
    filled = []
    for n, (stability, fastest) in rows.items():
        times = {f"t{i} / {unit}": np.nan if i > n else fastest + 100.0 * (n - i) for i in range(2, most + 1)}
        filled.append({"n_states": n, "Q": 0.9 * n, **times, "stability": stability, "entered": entered})
    return pd.DataFrame(filled).set_index("n_states").astype({"entered": "Int64"})


class TestSuggest:
    def test_the_largest_gap_wins(self) -> None:
        chosen, reason = suggest(table({2: (1.0, 50.0), 3: (0.9, 40.0), 4: (0.95, 4.0), 5: (0.2, 3.0)}), 1.0, "ps")
        assert chosen == 3
        assert (
            "One state more would add a process that is 10.0 times faster (t4 of 4 states: 4 ps); for other" in reason
        )
        assert "this factor is 1.2 for 2, 1.3 for 4. The largest number of states with a clear gap" in reason
        assert "(adjusted Rand index 0.90, at least 0.8 is asked for)" in reason
        assert "t3, takes 40 ps at the lag time of the fit, 1 ps" in reason
        assert "Not stable: 5 (0.20)." in reason

    def test_the_last_clear_gap_wins_over_the_first_splits_of_a_tree(self) -> None:
        times = {2: (1.0, 500.0), 3: (1.0, 70.0), 4: (1.0, 20.0), 5: (0.9, 5.0), 6: (0.5, 4.0)}
        assert suggest(table(times), 1.0, "ps")[0] == 4  # gaps 7.1, 3.5, 4, 1.25
        times[5] = (0.9, 8.0)
        assert suggest(table(times), 1.0, "ps")[0] == 3  # gaps 7.1, 3.5, 2.5 is less than sqrt(7.1), 2

    def test_without_a_clear_gap_the_largest(self) -> None:
        times = {2: (1.0, 90.0), 3: (1.0, 50.0), 4: (1.0, 45.0)}
        chosen, reason = suggest(table(times), 1.0, "ps")
        assert chosen == 2
        assert "this factor is 1.1 for 3. No factor is clear (2 or more)" in reason
        assert "with a clear gap" not in reason

    def test_a_next_process_below_the_lag_counts_as_the_lag(self) -> None:
        chosen, reason = suggest(table({2: (1.0, 50.0), 3: (1.0, 30.0), 4: (1.0, 0.001)}), 5.0, "ps")
        assert chosen == 3
        assert "at least 6.0 times faster" in reason

    @pytest.mark.parametrize("next_one", [(np.nan, np.nan), (1.0, np.nan), (0.5, -np.inf)])
    def test_a_next_process_that_is_not_found_counts_as_the_lag(self, next_one: tuple[float, float]) -> None:
        chosen, reason = suggest(table({2: (1.0, 50.0), 3: (1.0, 30.0), 4: next_one}), 2.0, "ps")
        assert chosen == 3
        assert "at least 15.0 times faster" in reason

    def test_unstable_ones_are_listed_and_not_chosen(self) -> None:
        chosen, reason = suggest(table({2: (0.85, 30.0), 3: (0.79, 29.0), 4: (np.nan, np.nan)}), 1.0, "ps")
        assert chosen == 2
        assert "Not stable: 3 (0.79). M3C failed for 4 states." in reason
        assert "for other numbers" not in reason  # of one candidate

    def test_exactly_stable_is_stable(self) -> None:
        assert suggest(table({2: (0.8, 30.0), 3: (0.0, 1.0)}), 1.0, "ps")[0] == 2

    def test_exactly_the_lag_is_not_slow(self) -> None:
        assert suggest(table({2: (1.0, 5.0)}), 5.0, "ps")[0] is None

    def test_the_last_number_has_no_next_one(self) -> None:
        chosen, reason = suggest(table({2: (1.0, 50.0), 3: (1.0, 40.0)}), 1.0, "ps")
        assert chosen == 2
        assert "1.2 times faster" in reason
        assert "What would follow 3 states is not known: scan one state more." in reason

    def test_without_any_gap_the_largest_number(self) -> None:
        chosen, reason = suggest(table({2: (1.0, 50.0), 4: (1.0, 40.0), 6: (0.3, 30.0)}), 1.0, "ps")
        assert chosen == 4
        assert "What would follow 2, 4 states is not known" in reason

    def test_none_is_convincing(self) -> None:
        chosen, reason = suggest(table({2: (0.5, 50.0), 3: (0.7, 40.0)}), 1.0, "ps")
        assert chosen is None
        assert "agree best for 3 states (adjusted Rand index 0.70, at least 0.8 is asked for)" in reason
        assert "takes 40 ps (lag time 1 ps)" in reason

    def test_stable_but_not_slow(self) -> None:
        chosen, reason = suggest(table({2: (1.0, np.nan), 3: (np.nan, np.nan)}), 1.0, "ps")
        assert chosen is None
        assert "best for 2 states (adjusted Rand index 1.00" in reason
        assert "fastest process is too fast to be measured" in reason
        assert "nan" not in reason

    def test_a_negative_agreement_is_better_than_none(self) -> None:
        assert "best for 3 states" in suggest(table({2: (np.nan, np.nan), 3: (-0.1, 4.0)}), 1.0, "ps")[1]


class TestVisits:
    ROWS = {2: (1.0, 50.0), 3: (1.0, 30.0), 4: (0.3, 1.5)}  # noqa: RUF012

    def test_are_told(self) -> None:
        assert "The state that is entered least was entered 50 times." in suggest(table(self.ROWS), 1.0, "ps")[1]

    def test_few_of_them_are_warned_of(self) -> None:
        few = table(self.ROWS, entered=9)
        chosen, reason = suggest(few, 1.0, "ps")
        assert chosen == 3
        assert "was entered 9 times only: its population and rates are hardly known. Add data." in reason
        few.loc[2, "entered"] = 10
        assert "Add data, or take 2 states." in suggest(few, 1.0, "ps")[1]

    def test_unknown_ones_are_left_out(self) -> None:
        reason = suggest(table(self.ROWS, entered=None), 1.0, "ps")[1]
        assert "entered" not in reason
        assert "NA" not in reason
