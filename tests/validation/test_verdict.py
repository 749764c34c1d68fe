"""The verdict: paired intervals by hand, words for level, behind, failed, and for a single part."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from m3c_md.validation.verdict import Difference, differences_to_leader, paired_difference, short, verdict

NAN = np.nan


def splits(**values: list[float]) -> pd.DataFrame:
    return pd.DataFrame(
        [{"method": name, "held out": f"part {i}", "Q": q} for name, some in values.items() for i, q in enumerate(some)]
    )


def said(**values: list[float]) -> str:
    return verdict(*differences_to_leader(splits(**values)), {name: name for name in values})


class TestDifference:
    def test_is_the_paired_interval_of_scipy(self) -> None:
        rng = np.random.default_rng(0)
        a, b = rng.normal(size=(2, 6))
        found = paired_difference(a, b)
        low, high = ttest_rel(a, b).confidence_interval(0.95)
        assert (found.mean - found.half, found.mean + found.half) == pytest.approx((low, high))

    def test_is_paired(self) -> None:
        # Parts differ by far more than methods do; each part says the same of the methods.
        found = paired_difference(np.array([1.1, 2.1, 3.1]), np.array([1.0, 2.0, 3.0]))
        assert found.mean == pytest.approx(0.1)
        assert found.half < 1e-9
        assert not found.level

    def test_only_parts_that_judged_both(self) -> None:
        found = paired_difference(np.array([1.0, 2.0, NAN, 3.0]), np.array([0.5, NAN, 1.0, 2.0]))
        assert (found.mean, found.n_parts) == (0.75, 2)
        assert np.isnan(paired_difference(np.array([NAN]), np.array([1.0])).mean)


class TestVerdict:
    def test_level_and_behind(self) -> None:
        text = said(A=[2.9, 2.8, 2.7], B=[2.91, 2.79, 2.69], C=[2.7, 2.59, 2.5])
        assert text.startswith("A and B are level within errors; C is behind by .20")

    def test_two_parts_hardly_tell_methods_apart(self) -> None:
        text = said(A=[1.95, 1.93], B=[1.64, 1.72])
        assert text == "A and B are level within errors, which are large with two held-out parts (largest mean Q: A)."
        assert said(A=[1.95, 1.93], B=[1.95, 1.93]) == "A and B are level within errors."

    def test_one_leads(self) -> None:
        assert said(A=[1.5, 1.6], B=[1.4, 1.5]).startswith("A leads; B is behind by .10 ±")

    def test_the_leader_is_the_best_wherever_it_stands(self) -> None:
        leader, gaps = differences_to_leader(splits(A=[1.0, 1.1], B=[1.5, 1.61]))
        assert leader == "B"
        assert gaps["A"].mean == pytest.approx(0.505)

    def test_a_method_that_failed_somewhere_cannot_lead_by_it(self) -> None:
        leader, gaps = differences_to_leader(splits(A=[2.9, NAN, NAN], B=[2.9, 2.0, 2.1]))
        assert leader == "B"
        assert gaps["A"].n_parts == 1

    def test_failures_are_named(self) -> None:
        assert said(A=[1.0, 1.5], B=[NAN, NAN], C=[NAN, NAN]).endswith("; B and C failed.")
        assert said(A=[NAN, NAN]) == "No method could be judged by held-out data."

    def test_a_single_part_has_no_errors(self) -> None:
        text = said(A=[1.5], B=[1.75], C=[1.75])
        assert text.startswith("B and C have the same Q; A is behind by .25; one held-out part gives no errors")
        assert "±" not in text
        assert said(A=[1.5], B=[1.75]).startswith("B has the largest Q; A is behind")

    def test_a_method_alone(self) -> None:
        assert said(A=[1.5, 1.6]) == "A was the only one to be judged."

    def test_digits_show_that_the_interval_ends_before_zero(self) -> None:
        gaps = {"B": Difference(0.0041, 0.0036, 4)}
        assert verdict("A", gaps, {"A": "A", "B": "B"}) == "A leads; B is behind by .0041 ± .0036."

    def test_as_in_the_issue(self) -> None:
        assert Difference(0.22, 0.07, 5).words() == "behind by .22 ± .07"
        assert short(1.0449, 0.04) == "1.04"
