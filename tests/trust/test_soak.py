"""A minute of benchmarks/soak.py: random systems, thresholds of the search and systems that were trouble once.

A seed that benchmarks/soak.py finds bad becomes a row of `SEEDS` with a comment when it is repaired.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from m3c_md import M3C
from m3c_md.exceptions import DegenerateSolutionError, InputError, M3CWarning
from m3c_md.matching import agreement

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if not (BENCHMARKS / "soak.py").exists():
    pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)


def from_benchmarks(name: str) -> ModuleType:
    """Module of the folder of benchmarks, whose modules find each other by their plain names."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


systems, way, soak, report = (from_benchmarks(f"soak{name}") for name in ("_systems", "_way", "", "_report"))

# Seeds that went wrong once, or that stand for their kind. Limits of time are those of the campaign.
SEEDS = (
    4,  # four states in 199 pairs of one column, a memory map
    9,  # eight wells in 120 trajectories of 1 to 37 frames, a repeated column, DataFrames
    29,  # columns from 1e-6 to 1e6: `transform` refused frames of the fit as too far away
    38,  # two states too many in 817 pairs of 63 columns: 34 s, most of them on labels that were about to be lost
    48,  # overlapping states in 258 pairs of 29 columns: 15 s were not enough, where deeptime takes 0.1 s
    57,  # all trajectories shorter than the lag time: an InputError
    61,  # more states asked for than differ, rounded to whole numbers: 15 s were not enough
    85,  # six states asked for, five wells: 15 s were not enough
    89,  # whole numbers from 0 to 2 in one column of integers: an InputError, as for states
    103,  # eight states in 47 pairs: 15 s were not enough
    104,  # a drift and constant columns in half precision
    121,  # two states, four asked for, collinear columns: 15 s were not enough
    163,  # outliers, two states too many: 15 s were not enough
    166,  # overlapping states, one in a single trajectory, columns from 1e-6 to 1e6: 15 s were not enough
    2005,  # a state too many in 22,795 pairs of rounded angles: 63 s were not enough
    2053,  # a slow coordinate without states, outliers, rounded: 62 s were not enough
    50718,  # held labels of 20,001 pairs, lag time 20: populations of pairs, not of frames
    51149,  # overlapping states: two candidates lost one, others that were left kept all: an error
)
PATIENCE = 0.5


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    soak.warm_up()


def assert_good(system: Any) -> dict[str, Any]:
    """Run a system through the public way, return what came of it."""
    try:
        row: dict[str, Any] = soak.soak(system, PATIENCE, against=False)
    finally:
        system.close()
    assert row["outcome"] in ("model", "typed error"), f"{row['reason']}: {row['text']} ({row['description']})"
    return row


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_system_ends_in_a_model_or_in_an_error_that_helps(seed: int) -> None:
    assert_good(systems.system(seed))


# Systems that ended in labels of next to nothing, where deeptime's PCCA+ had found the states: seeds, least accuracy.
FOUND = (
    (60377, 0.95),  # four wells, three frames far away: 0.26
    (60477, 0.95),  # eight wells in a row, 35 trajectories that see one or two: 0.51
    (70417, 0.95),  # the same in eight trajectories: an error before
    (62500, 0.90),  # eight wells among seven columns of slow noise: 0.27
    (62456, 0.95),  # three states that live for a few lag times, in 112 columns: 0.65
    (90668, 0.95),  # seven wells asked for, three visited, rounded to whole numbers: an error before
    (60556, 0.98),  # three states, and one of 0.15 % that overlaps in all but a few directions: 0.75
    (93460, 0.95),  # five wells in 383 pairs of nine columns: 0.80
    (92519, 0.90),  # eight states in 1,287 pairs of 64 columns, 99 trajectories: 0.79
    (50594, 0.90),  # four states and a rare one that live for a few lag times, in 109 columns: 0.27
)


@pytest.mark.parametrize(("seed", "least"), FOUND)
def test_states_that_others_find_are_found(seed: int, least: float) -> None:
    row = assert_good(systems.system(seed))
    assert row["outcome"] == "model"
    assert row["accuracy"] > least


# (pairs, columns, what is asked for beyond three states, modifiers): both sides of every threshold, and on each side of
# those that change the way data are held also states that no rule can keep, so that the search has to be helped.
CROSSED = (
    (1_999, 9, 0, ()),
    (2_000, 8, 1, ()),
    (3_999, 4, 0, ()),
    (4_000, 4, 0, ("overlapping",)),
    (8_000, 4, 0, ()),
    (8_001, 4, 0, ("duplicated",)),
    (11_999, 4, 0, ()),
    (12_000, 4, 1, ()),
    (20_000, 8, 0, ()),
    (20_000, 9, 0, ("overlapping",)),
    (20_001, 8, 0, ("overlapping",)),
    (20_001, 9, 0, ()),
    (20_001, 4, 0, ("duplicated",)),
    (20_001, 4, 0, ("rare state",)),
    (100_000, 4, 1, ()),
    (100_001, 4, 0, ("duplicated",)),
)


@pytest.mark.parametrize(("n_pairs", "n_columns", "more", "modifiers"), CROSSED)
def test_thresholds_of_the_search(n_pairs: int, n_columns: int, more: int, modifiers: tuple[str, ...]) -> None:
    lengths = (n_pairs // 2 + 1, n_pairs - n_pairs // 2 + 1)
    plan = systems.Plan(1, "angles", 3, 3 + more, n_columns, lengths, 1, modifiers, "float64", "list")
    assert plan.n_pairs == n_pairs
    assert assert_good(systems.build(plan))["outcome"] == "model"


class Angles(NamedTuple):
    """Sines and cosines of angles, the hidden state of every frame, and the best that one can say from the angles."""

    frames: np.ndarray
    states: np.ndarray
    nearest: np.ndarray


def three_hidden_states(n_frames: int, seed: int) -> Angles:
    """Two angles around centres that lie anywhere on the circle, so that some states overlap."""
    rng = np.random.default_rng(seed)
    states = np.cumsum(np.where(rng.random(n_frames) < 0.01, rng.integers(1, 3, size=n_frames), 0)) % 3
    centres = rng.uniform(-np.pi, np.pi, size=(3, 2))
    angles = centres[states] + rng.vonmises(0.0, 6.0, size=(n_frames, 2))
    nearest = np.cos(angles[:, None] - centres).sum(axis=2).argmax(axis=1)
    return Angles(np.column_stack([np.sin(angles), np.cos(angles)]), states, nearest)


# CPU seconds of fit and transform; deeptime's pipeline takes 1 and 2.5.
@pytest.mark.parametrize(("n_frames", "seconds"), [(30_000, 10.0), (100_001, 15.0)])
@pytest.mark.parametrize("seed", range(6))
def test_states_of_streamed_data_that_overlap(n_frames: int, seconds: float, seed: int) -> None:
    """Streamed fits whose labels were left as the start had them ended in "need 1-d labels and weights of one length".

    The winner then has a label for all windows in memory, a finalist for the 20,000 of the last sample.
    """
    frames, states, nearest = three_hidden_states(n_frames, seed)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        began = time.process_time()
        model = M3C(3, random_state=0).fit_fetch(frames)
        labels = model.transform(frames)
        spent = time.process_time() - began
    assert all(issubclass(w.category, M3CWarning) for w in told)
    assert np.bincount(labels, minlength=3).min() > 0.05 * n_frames
    assert (
        agreement(labels, states) > agreement(nearest, states) - 0.05
    )  # where states overlap, 0.8 is the best there is
    assert spent < seconds


class TestTheSoakItself:
    def test_a_system_is_a_function_of_its_seed(self) -> None:
        for seed in range(40):
            plan = systems.plan(seed)
            assert plan == systems.plan(seed)
            assert plan.n_frames * plan.n_columns <= systems.MOST_ENTRIES
            if plan.n_frames > 3000:
                continue
            one, other = systems.build(plan), systems.build(plan)
            arrays = way.as_arrays(one.trajs)
            assert [len(x) for x in arrays] == list(plan.lengths)
            for x, y in zip(arrays, way.as_arrays(other.trajs), strict=True):
                assert x.shape[1] == plan.n_columns
                assert np.isfinite(x).all()
                np.testing.assert_array_equal(x, y)
            one.close()
            other.close()

    def test_everything_that_can_be_drawn_is_drawn(self) -> None:
        plans = [systems.plan(seed) for seed in range(1000)]
        assert {plan.kind for plan in plans} == set(systems.KINDS)
        assert {plan.dtype for plan in plans} == set(systems.DTYPES)
        assert {plan.container for plan in plans} == set(systems.CONTAINERS)
        assert {name for plan in plans for name in plan.modifiers} == {*systems.OF_CHAINS, *systems.OF_TABLES}
        pairs = {plan.n_pairs for plan in plans}
        assert all({n - 1, n, n + 1} <= pairs for n in systems.THRESHOLDS)

    @pytest.mark.parametrize(
        ("error", "complaint"),
        [
            (InputError("lagtime=9 needs trajectories of at least 10 frames; choose a shorter lag time"), None),
            (DegenerateSolutionError("all 12 candidates are degenerate. Ask for fewer states."), None),
            # One of the package's, but raised by its own call of a function that checks what users give.
            (InputError("need 1-d labels and weights of one length > 0, got (3,), (2,), (3,)"), "the input is good"),
            (DegenerateSolutionError("nothing was found"), "no remedy"),
            (ValueError("array must not contain infs or NaNs"), "no error of the package"),
        ],
    )
    def test_which_errors_help(self, error: Exception, complaint: str | None) -> None:
        found = way.fault(error)
        assert found is None if complaint is None else complaint in found

    def test_an_alarm_ends_a_fit(self) -> None:
        with pytest.raises(way.Stall, match="longer than 0 s"), way.at_most(0.05):
            time.sleep(5.0)  # no CPU time: the clock's alarm comes later

    def test_an_alarm_by_cpu_time(self) -> None:
        began = time.process_time()
        with pytest.raises(way.Stall), way.at_most(0.1):
            sum(x for x in range(10**9))
        assert time.process_time() - began < 2.0

    def test_results_are_taken_up_again(self, tmp_path: Path) -> None:
        path = tmp_path / "results" / "soak.jsonl"
        path.parent.mkdir()
        outcomes = [(0, "started"), (0, "model"), (1, "started"), (1, "interrupted"), (2, "started"), (3, "started")]
        for seed, outcome in [*outcomes, (3, "started")]:
            soak.append({"seed": seed, "version": systems.VERSION, "outcome": outcome}, path)
        with path.open("a") as file:
            file.write('{"seed": 4, "outco')  # killed while it wrote
        rows = report.last_rows(path)
        assert rows[3]["reason"] == "died"
        assert soak.unfinished(range(5), path, False, 10**9) == [1, 2, 4]
        assert soak.unfinished(range(5), path, True, 10**9) == [0, 1, 2, 3, 4]

    def test_a_report_of_a_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(soak, "warm_up", lambda: None)
        path = tmp_path / "soak.jsonl"
        soak.run([57], path, PATIENCE)
        row = json.loads(path.read_text().splitlines()[-1])
        assert (row["seed"], row["outcome"], row["error"]) == (57, "typed error", "InputError")
        text = report.report(report.last_rows(path))
        assert "1 systems: 0 models, 1 errors" in text
        assert "lagtime=N needs trajectories" in text
