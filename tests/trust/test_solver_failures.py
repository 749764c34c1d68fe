"""Every solver call and every way it can fail, through whole fits: others take over and the model says so, or an error.

A row of a table is a solver and a failure. Where there is something to fall back on, the model has a warning that names
what happened and what to do (or an exact stand-in gives the same answer); where there is nothing, a `SolverError` does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import cvxpy
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
from deeptime.markov import PCCAModel
from deeptime.markov.msm import MarkovStateModel, MaximumLikelihoodMSM
from numpy.linalg import LinAlgError
from scipy.sparse.linalg import ArpackNoConvergence

from m3c_md import M3C, MMC, KMedoids, PCCAPlus, compare, load_model, scan_states
from m3c_md.exceptions import (
    ConvergenceWarning,
    DegenerateSolutionError,
    FailedStartWarning,
    InputError,
    M3CWarning,
    OverlappingStatesWarning,
    SolverError,
    WeightsWarning,
)
from m3c_md.frames.weights import weights_of_ratios
from m3c_md.matching import agreement
from m3c_md.optimize import labels as labels_module
from m3c_md.optimize.blocks import WindowBlock, class_sums
from m3c_md.optimize.full_relaxation import fixed_labels_value, solve_full_relaxation
from m3c_md.optimize.large_margin import solve_definite, solve_large_margin
from m3c_md.optimize.least_squares import least_squares_rule, second_moments
from m3c_md.optimize.relaxation import joint_kernel, kernel_features, solve_relaxation
from m3c_md.partitions.k_means import k_means
from m3c_md.partitions.k_medoids import k_medoids
from m3c_md.search import candidates as candidates_module
from m3c_md.search import label_modes as modes_module
from m3c_md.search import rungs as rungs_module
from m3c_md.search import steps as steps_module
from m3c_md.systems import MODEL_I, labelled_sequence
from m3c_md.systems.reference import ExactReference
from m3c_md.validation import chapman_kolmogorov, implied_timescales
from tests.conftest import Wells, hidden_markov_wells, other_warnings, quick
from tests.search._data import problem_of, search
from tests.trust import refused

Patch = pytest.MonkeyPatch
REMEDY = r"[Aa]dd other starts|[Uu]se|[Rr]aise|[Ww]iden|[Tt]ry|[Aa]sk for|[Ll]eave|[Gg]ive"


@pytest.fixture(scope="module")
def wells() -> Wells:
    return hidden_markov_wells(300, 2, seed=3)


def raising(error: BaseException) -> Callable[..., Any]:
    def broken(*arguments: Any, **options: Any) -> Any:
        raise error

    return broken


# --- the semidefinite relaxation -------------------------------------------------------------------------------------


class Panic(BaseException):
    """What a panic of Clarabel's Rust code arrives as."""


SOLVE = cvxpy.Problem.solve


def with_status(status: str | None) -> Callable[..., Any]:
    def solve(problem: Any, **options: Any) -> float:
        problem._status = status
        return float("nan")

    return solve


def with_values(status: str, change: Callable[[np.ndarray], np.ndarray | None]) -> Callable[..., Any]:
    """Solve in earnest, then spoil what was found."""

    def solve(problem: Any, **options: Any) -> Any:
        value = SOLVE(problem, **options)
        for variable in problem.variables():
            variable.save_value(change(variable.value))
        problem._status = status
        return value

    return solve


def without_multipliers(problem: Any, **options: Any) -> Any:
    value = SOLVE(problem, **options)
    for constraint in problem.constraints:
        constraint.dual_variables[0].save_value(None)
    return value


SDP_FAILURES: dict[str, tuple[Any, str]] = {
    **{
        status: (with_status(status), f"found no solution \\(status '{status}'\\)")
        for status in (
            "infeasible",
            "unbounded",
            "infeasible_inaccurate",
            "unbounded_inaccurate",
            "infeasible_or_unbounded",
            "user_limit",
            "solver_error",
        )
    },
    "no status": (with_status(None), "found no solution \\(status None\\)"),
    "SolverError": (raising(cvxpy.SolverError("it broke")), "failed on the relaxation: it broke"),
    "time-out": (raising(TimeoutError("too long")), "failed on the relaxation: too long"),
    "MemoryError": (raising(MemoryError("too large")), "failed on the relaxation: too large"),
    "panic": (raising(Panic("index out of bounds")), "failed on the relaxation: index out of bounds"),
    "not finite": (with_values("optimal", lambda x: np.full_like(x, np.nan)), "missing or not finite"),
    "infinite": (with_values("optimal", lambda x: np.where(x > 0.9, np.inf, x)), "missing or not finite"),
    "no values": (with_values("optimal", lambda x: None), "missing or not finite"),
    "no multipliers": (without_multipliers, "missing or not finite"),
    "inaccurate": (
        with_values("optimal_inaccurate", np.eye(len(range(30))).__rmul__),
        "'optimal_inaccurate'; its solution violates constraints by",
    ),
}
WITH_THE_RELAXATION: dict[str, tuple[Callable[[], Any], bool]] = {
    "M3C": (lambda: quick(2, starts=("relaxation",)), False),
    "M3C beside kmeans": (lambda: quick(2, starts=("relaxation", "kmeans")), True),
    "paper": (lambda: M3C.paper(2, random_state=0, bandwidth=1.0), False),
    "paper beside kmeans": (
        lambda: M3C.paper(2, random_state=0, bandwidth=1.0, starts=("relaxation-literal", "kmeans")),
        True,
    ),
    "MMC": (lambda: MMC(2, starts="relaxation", bandwidth=1.0, random_state=0), False),
    "MMC by default": (lambda: MMC(2, bandwidth=1.0, random_state=0), True),
}


@pytest.mark.parametrize("failure", SDP_FAILURES)
@pytest.mark.parametrize("method", WITH_THE_RELAXATION)
def test_the_relaxation_fails(wells: Wells, monkeypatch: Patch, failure: str, method: str) -> None:
    solve, words = SDP_FAILURES[failure]
    make, others = WITH_THE_RELAXATION[method]
    monkeypatch.setattr(cvxpy.Problem, "solve", solve)
    estimator = make()
    if not others:
        refused(lambda: estimator.fit(wells.frames), SolverError, f"start 'relaxation.*{words}.*Add other starts")
        assert not estimator.has_model
        return
    with pytest.warns(FailedStartWarning, match=words):
        model = estimator.fit_fetch(wells.frames)
    (said,) = other_warnings(model)
    assert said.startswith("start 'relaxation")
    assert "failed at bandwidth 1 (" in said
    assert said.endswith("the winner comes from what was left, so leave this start out or heed that advice")
    assert agreement(model.transform(wells.frames), wells.states) > 0.98
    assert set(model.candidates["start"]) == {"kmeans"}


class TestRelaxationsThatGoOn:
    def test_scs_answers_where_clarabel_fails(self, wells: Wells, monkeypatch: Patch) -> None:
        asked: list[str] = []

        def solve(problem: Any, solver: str, **options: Any) -> Any:
            asked.append(solver)
            if solver == "CLARABEL":
                raise cvxpy.SolverError("no luck")
            return SOLVE(problem, solver=solver, **options)

        monkeypatch.setattr(cvxpy.Problem, "solve", solve)
        model = quick(2, starts=("relaxation",)).fit_fetch(wells.frames)
        assert asked == ["CLARABEL", "SCS"]
        assert other_warnings(model) == []
        assert agreement(model.transform(wells.frames), wells.states) > 0.98

    def test_a_solver_that_was_asked_for_has_no_stand_in(self, monkeypatch: Patch) -> None:
        monkeypatch.setattr(cvxpy.Problem, "solve", with_status("user_limit"))
        options: dict[str, Any] = {"regularization": 0.1, "min_share": 0.1, "max_share": 0.9}
        for solver in ("SCS", "CLARABEL"):
            with pytest.raises(SolverError, match=f"^{solver} found no solution .*user_limit.*Try the other solver"):
                solve_relaxation(np.eye(4), [0.25] * 4, 2, solver=solver, **options)  # type: ignore[arg-type]

    def test_inaccurate_but_good_enough(self, wells: Wells, monkeypatch: Patch) -> None:
        """The measured violation decides, not the word."""
        expected = quick(2, starts=("relaxation",)).fit_fetch(wells.frames)
        monkeypatch.setattr(cvxpy.Problem, "solve", with_values("optimal_inaccurate", lambda x: x))
        model = quick(2, starts=("relaxation",)).fit_fetch(wells.frames)
        assert other_warnings(model) == []
        np.testing.assert_array_equal(model.decision_function(wells.frames), expected.decision_function(wells.frames))

    def test_ctrl_c_is_no_failure(self, wells: Wells, monkeypatch: Patch) -> None:
        monkeypatch.setattr(cvxpy.Problem, "solve", raising(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            quick(2, starts=("relaxation", "kmeans")).fit(wells.frames)


@pytest.mark.parametrize("failure", [name for name in SDP_FAILURES if name not in ("no multipliers", "inaccurate")])
def test_the_reference_forms_of_the_relaxation_fail(monkeypatch: Patch, failure: str) -> None:
    solve, words = SDP_FAILURES[failure]
    slices = kernel_features([[[0.0], [0.1], [5.0], [5.1]]], bandwidth=1.0)
    monkeypatch.setattr(cvxpy.Problem, "solve", solve)
    options: dict[str, Any] = {"regularization": 0.01, "min_share": 0.01, "max_share": 0.6}
    refused(lambda: solve_full_relaxation(slices, [0.25] * 4, 2, **options), SolverError, f"{words}.*Try")
    if failure in (
        "not finite",
        "infinite",
        "no values",
    ):  # these spoil variables, of which that one uses the value only
        monkeypatch.setattr(cvxpy.Problem, "value", np.nan)
        monkeypatch.setattr(cvxpy.Problem, "solve", with_status("optimal"))
    refused(lambda: fixed_labels_value(slices, [0.25] * 4, [0, 0, 1, 1], 2, regularization=0.01), SolverError, words)


# --- eigenvectors and linear systems of the starts --------------------------------------------------------------------

EIGEN_FAILURES: dict[str, Exception] = {
    "no convergence": LinAlgError("Eigenvalues did not converge"),
    "not finite": ValueError("array must not contain infs or NaNs"),
    "floating point": FloatingPointError("overflow encountered"),
}
# Start, what it calls, and what the message calls it.
STARTS_THAT_SOLVE: dict[str, tuple[str, Any, str, str]] = {
    "kinetic": ("kinetic", "m3c_md.search.starts", "eigh", "the slow coordinates of the features failed"),
    "pcca, eigenvectors": ("pcca", np.linalg, "eigh", "the eigenvectors of a relation of"),
    "pcca, simplex": ("pcca", np.linalg, "solve", "the simplex of 2 states failed"),
    "lumping, eigenvectors": ("lumping", np.linalg, "eigh", "the eigenvectors of a relation of"),
    "lumping, simplex": ("lumping", np.linalg, "solve", "the simplex of 5 states failed"),
    "relaxation, eigenvectors": ("relaxation", np.linalg, "eigh", "the eigenvectors of a relation of 30 windows"),
    "relaxation, simplex": ("relaxation", np.linalg, "solve", "the simplex of 2 states failed"),
    "relaxation, bound": ("relaxation", np.linalg, "eigvalsh", "the largest eigenvalue of the multipliers failed"),
}


def patched(monkeypatch: Patch, where: Any, name: str, value: Any) -> None:
    if isinstance(where, str):
        monkeypatch.setattr(f"{where}.{name}", value)
    else:
        monkeypatch.setattr(where, name, value)


@pytest.mark.parametrize("failure", EIGEN_FAILURES)
@pytest.mark.parametrize("row", STARTS_THAT_SOLVE)
def test_linear_algebra_of_a_start_fails(wells: Wells, monkeypatch: Patch, row: str, failure: str) -> None:
    start, where, name, words = STARTS_THAT_SOLVE[row]
    if start == "pcca":  # which would answer without these
        monkeypatch.setattr("m3c_md.optimize.rounding._pcca_memberships", lambda *arguments: None)
    patched(monkeypatch, where, name, raising(EIGEN_FAILURES[failure]))
    words = f"{words}.*{EIGEN_FAILURES[failure]}.*({REMEDY})"
    refused(lambda: quick(2, starts=(start,)).fit(wells.frames), SolverError, f"start '{start}' failed.*{words}")
    with pytest.warns(FailedStartWarning, match=words):
        model = quick(2, starts=(start, "kmeans")).fit_fetch(wells.frames)
    assert len(other_warnings(model)) == 1
    assert model.warnings[0].startswith(f"start '{start}' failed")
    assert agreement(model.transform(wells.frames), wells.states) > 0.98


def test_several_starts_fail(wells: Wells, monkeypatch: Patch) -> None:
    """Each is named once, however many bandwidths and searches it fails in."""
    monkeypatch.setattr(np.linalg, "eigh", raising(LinAlgError("no luck")))
    monkeypatch.setattr("m3c_md.search.starts.eigh", raising(LinAlgError("none either")))
    estimator = quick(2, bandwidth=(0.5, 1.0, 2.0), starts=("kinetic", "pcca", "lumping", "kmeans"))
    monkeypatch.setattr("m3c_md.optimize.rounding._pcca_memberships", lambda *arguments: None)
    with pytest.warns(FailedStartWarning) as caught:
        model = estimator.fit_fetch(wells.frames)
    failed = [str(one.message) for one in caught if one.category is FailedStartWarning]
    assert sorted(text.split(" (")[0] for text in failed) == [
        "start 'kinetic' failed at bandwidth 1",
        "start 'lumping' failed",
        "start 'pcca' failed",
    ]
    assert model.warnings[:3] == failed
    monkeypatch.setattr("m3c_md.search.starts.k_means", raising(SolverError("nor here; use more points")))
    everything = quick(2, starts=("kinetic", "pcca", "kmeans"))
    refused(
        lambda: everything.fit(wells.frames),
        SolverError,
        "(?=.*'kinetic' .*none either)(?=.*'pcca' .*no luck)(?=.*'kmeans' .*nor here)",
    )


def test_what_is_said_survives_in_a_file(wells: Wells, monkeypatch: Patch, tmp_path: Any) -> None:
    monkeypatch.setattr("m3c_md.search.starts.eigh", raising(LinAlgError("no luck")))
    with pytest.warns(FailedStartWarning):
        model = quick(2, starts=("kinetic", "kmeans")).fit_fetch(wells.frames)
    model.save(tmp_path / "model.m3c")
    assert load_model(tmp_path / "model.m3c").warnings == model.warnings
    assert "no luck" in model.warnings[0]


def test_an_estimator_keeps_the_model_it_had(wells: Wells, monkeypatch: Patch) -> None:
    estimator = quick(2).fit(wells.frames)
    before = estimator.fetch_model()
    monkeypatch.setattr("m3c_md.search.starts.eigh", raising(LinAlgError("no luck")))
    with pytest.raises(SolverError):
        estimator.fit(wells.frames)
    assert estimator.fetch_model() is before


def test_input_that_no_start_can_use_is_an_input_error(monkeypatch: Patch) -> None:
    """Where all starts fail for the data's sake, the first says why."""
    message = "1 distinct points cannot form n_clusters=2; ask for fewer clusters."
    monkeypatch.setattr("m3c_md.search.starts.k_means", raising(InputError(message)))
    with pytest.raises(InputError, match=message):
        quick(2, starts=("kmeans", "kinetic")).fit(hidden_markov_wells(200, 2).frames)


class TestPCCAOfTheMicrostates:
    """deeptime's PCCA+ may fail in many ways; the inner simplex algorithm then gives the start."""

    FAILURES: tuple[Any, ...] = (
        ValueError("x"),
        AssertionError("x"),
        LinAlgError("x"),
        ZeroDivisionError("x"),
        IndexError("x"),
        RuntimeError("x"),
        RuntimeWarning("x"),
        UserWarning("x"),
    )

    @pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
    def test_it_raises(self, wells: Wells, monkeypatch: Patch, error: Exception) -> None:
        monkeypatch.setattr("deeptime.markov.pcca", raising(error))
        model = quick(2, starts=("pcca",)).fit_fetch(wells.frames)
        assert other_warnings(model) == []
        assert agreement(model.transform(wells.frames), wells.states) > 0.98

    def test_it_gives_nonsense(self, wells: Wells, monkeypatch: Patch) -> None:
        def pcca(matrix: Any, n_states: int, **options: Any) -> Any:
            return SimpleNamespace(memberships=np.full((len(matrix), n_states), np.nan))

        monkeypatch.setattr("deeptime.markov.pcca", pcca)
        model = quick(2, starts=("pcca",)).fit_fetch(wells.frames)
        assert agreement(model.transform(wells.frames), wells.states) > 0.98


def test_what_pcca_plus_says_is_on_the_model(wells: Wells, monkeypatch: Patch) -> None:
    """deeptime goes on with the real parts of complex eigenvectors; numpy's warning of it is no use to anybody."""
    pcca = MarkovStateModel.pcca

    def complaining(msm: MarkovStateModel, n_states: int) -> PCCAModel:
        for _ in range(2):
            warnings.warn("complex eigenvectors.", RuntimeWarning, stacklevel=1)
        return pcca(msm, n_states)

    monkeypatch.setattr(MarkovStateModel, "pcca", complaining)
    with pytest.warns(ConvergenceWarning, match=r"PCCA\+: complex eigenvectors; ask for one state more") as said:
        model = PCCAPlus(2, n_microstates=20, random_state=0).fit_fetch(wells.frames)
    assert [str(one.message) for one in said] == model.warnings
    assert len(other_warnings(model)) == 1


# --- the label step ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lopsided() -> Wells:
    """Two states that overlap, of nearly equal size: within narrow bounds on their labels, rounds need a flow."""
    rng = np.random.default_rng(1)
    states = np.repeat([0, 1] * 5, [27, 23] * 5)
    frames = 2.0 * states[:, None] + 0.6 * rng.normal(size=(len(states), 1))
    return Wells(frames, states)


def narrow(**changes: Any) -> M3C:
    return quick(2, **{"balance": (0.44, 0.505), "starts": ("kmeans",), "reweight": False, **changes})


class FlowOf:
    """OR-tools' solver, which solves and then claims something else."""

    def __init__(self, status: str) -> None:
        self.status = status

    def __call__(self) -> Any:
        network = ORTOOLS()
        status = getattr(network, self.status)

        class Claims:
            OPTIMAL = network.OPTIMAL

            def solve(self) -> Any:
                network.solve()
                return status

            def __getattr__(self, name: str) -> Any:
                return getattr(network, name)

        return Claims()


ORTOOLS = labels_module._flow_solver()
FLOW_STATUSES = ("NOT_SOLVED", "FEASIBLE", "INFEASIBLE", "UNBALANCED", "BAD_RESULT", "BAD_COST_RANGE")
LP_FAILURES: dict[str, tuple[Any, str]] = {
    **{
        f"status {status}": (
            lambda *arguments, status=status, **options: SimpleNamespace(status=status, message="words", x=None),
            rf"linear program of the label step ended with status {status} \(words\); widen balance=",
        )
        for status in (1, 2, 3, 4)
    },
    "not finite": (
        lambda costs, **options: SimpleNamespace(status=0, message="", x=np.full(len(costs), np.nan)),
        "flows that are no whole numbers; widen balance=",
    ),
    "halves": (
        lambda costs, **options: SimpleNamespace(status=0, message="", x=np.full(len(costs), 0.5)),
        "flows that are no whole numbers; widen balance=",
    ),
    "nothing moved": (
        lambda costs, **options: SimpleNamespace(status=0, message="", x=np.zeros(len(costs))),
        r"left \d+ to \d+ windows to the classes, outside of \d+ to \d+; widen balance=",
    ),
}


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")
class TestTheLabelStep:
    def test_the_flow_is_needed(self, lopsided: Wells, monkeypatch: Patch) -> None:
        called: list[int] = []
        monkeypatch.setattr(labels_module, "_flow_solver", lambda: called.append(1) or ORTOOLS)
        narrow().fit(lopsided.frames)
        assert called

    @pytest.mark.parametrize("status", FLOW_STATUSES)
    def test_the_linear_program_answers_for_the_flow(self, lopsided: Wells, monkeypatch: Patch, status: str) -> None:
        expected = narrow().fit_fetch(lopsided.frames)
        monkeypatch.setattr(labels_module, "_flow_solver", lambda: FlowOf(status))
        model = narrow().fit_fetch(lopsided.frames)
        assert model.objective == pytest.approx(expected.objective, rel=1e-6)
        assert np.array_equal(model.transform(lopsided.frames), expected.transform(lopsided.frames))

    @pytest.mark.parametrize("failure", LP_FAILURES)
    def test_the_linear_program_fails(self, lopsided: Wells, monkeypatch: Patch, failure: str) -> None:
        linprog, words = LP_FAILURES[failure]
        monkeypatch.setattr(labels_module, "_flow_solver", lambda: None)
        monkeypatch.setattr(scipy.optimize, "linprog", linprog)
        refused(lambda: narrow().fit(lopsided.frames), SolverError, f"start 'kmeans' failed at bandwidth 1 .*{words}")

    def test_both_fail(self, lopsided: Wells, monkeypatch: Patch) -> None:
        monkeypatch.setattr(labels_module, "_flow_solver", lambda: FlowOf("BAD_RESULT"))
        monkeypatch.setattr(scipy.optimize, "linprog", LP_FAILURES["status 4"][0])
        words = r"min-cost flow .* ended with status .*BAD_RESULT; the linear program .* status 4 \(words\); widen"
        refused(lambda: narrow().fit(lopsided.frames), SolverError, words)

    def test_a_candidate_that_fails_is_missed_by_nobody(
        self, lopsided: Wells, monkeypatch: Patch, tmp_path: Any
    ) -> None:
        """One start of two fails in the search itself; a checkpoint does not hide that from whoever goes on."""
        original = steps_module._balanced_start

        def balanced_start(blocks: Any, trial: Any, *arguments: Any) -> Any:
            if trial.start == "labels 0":
                raise SolverError("no luck with these labels; use others")
            return original(blocks, trial, *arguments)

        monkeypatch.setattr(steps_module, "_balanced_start", balanced_start)
        turns = np.arange(len(lopsided.frames)) % 2  # given twice: what comes of one start comes of its twin
        options: dict[str, Any] = {"starts": (turns, turns, "kmeans"), "bandwidth": (0.5, 1.0, 2.0)}
        models = []
        for _ in range(2):
            with pytest.warns(
                FailedStartWarning, match=r"start 'labels [01]' failed at bandwidth 1 .no luck with these labels"
            ):
                models.append(quick(2, **options).fit(lopsided.frames, checkpoint=tmp_path / "fit").fetch_model())
        assert models[0].warnings == models[1].warnings
        assert [text.split(" (")[0] for text in models[0].warnings if "no luck" in text] == [
            "start 'labels 0' failed at bandwidth 1",
            "start 'labels 1' failed at bandwidth 1",
        ]
        assert set(models[0].candidates["start"]) == {"kmeans"}


# --- what the search does when candidates fail on the way ------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.ConvergenceWarning")
class TestCandidatesThatFailLate:
    @pytest.fixture(autouse=True)
    def small_rungs(self, monkeypatch: Patch) -> None:
        monkeypatch.setattr(rungs_module, "RUNGS", ((60, 4), (120, 3)))

    @pytest.mark.parametrize("n_lost", [1, 10])
    def test_on_a_larger_sample(self, wells: Wells, monkeypatch: Patch, n_lost: int) -> None:
        """One candidate, or all that had come so far: then those dropped before come to their turn."""
        original = modes_module.local_search
        lost: list[int] = []

        def local_search(blocks: Any, labels: Any, *arguments: Any, **options: Any) -> Any:
            if len(labels) == 120 and len(lost) < n_lost:
                lost.append(1)
                raise SolverError("no luck with so many; use fewer")
            return original(blocks, labels, *arguments, **options)

        monkeypatch.setattr(modes_module, "local_search", local_search)
        with pytest.warns(FailedStartWarning, match=r"failed at bandwidth .*no luck with so many; use fewer"):
            model = quick(2, bandwidth=(0.5, 0.7, 0.9, 1.2, 1.5, 1.9), starts=("kinetic", "random")).fit_fetch(
                wells.frames
            )
        assert model.candidates["fate"].eq("failed: 120 windows").sum() == len(lost)
        assert agreement(model.transform(wells.frames), wells.states) > 0.98

    def test_at_full_accuracy(self, wells: Wells, monkeypatch: Patch) -> None:
        original = candidates_module.polish_winner
        done: list[str] = []

        def polish(problem: Any, candidate: Any, *arguments: Any) -> Any:
            done.append(candidate.start)
            if len(done) == 1:
                raise SolverError("no luck at the end; use a larger gap")
            return original(problem, candidate, *arguments)

        monkeypatch.setattr(candidates_module, "polish_winner", polish)
        with pytest.warns(FailedStartWarning, match="no luck at the end; use a larger gap"):
            model = quick(2, bandwidth=(0.7, 1.0), starts=("kinetic",)).fit_fetch(wells.frames)
        assert "failed: at full accuracy" in set(model.candidates["fate"])
        assert agreement(model.transform(wells.frames), wells.states) > 0.98

    def test_all_of_them(self, wells: Wells, monkeypatch: Patch) -> None:
        monkeypatch.setattr(
            candidates_module, "polish_winner", raising(SolverError("no luck at the end; use a larger gap"))
        )
        refused(lambda: quick(2).fit(wells.frames), SolverError, "'kinetic' failed at bandwidth 1 .*no luck at the end")

    def test_without_a_list_the_first_failure_is_raised(self, wells: Wells, monkeypatch: Patch) -> None:
        problem = problem_of([wells.frames], 2)
        monkeypatch.setattr(modes_module, "local_search", raising(SolverError("no luck; use none")))
        with pytest.raises(SolverError, match="no luck; use none"):
            search(problem, (1.0,), ("kmeans",))
        monkeypatch.setattr("m3c_md.search.starts.eigh", raising(LinAlgError("none here")))
        with pytest.raises(SolverError, match=r"slow coordinates of the features failed \(none here"):
            search(problem, (1.0,), ("kinetic", "kmeans"))

    def test_with_states_that_all_others_lose(self, wells: Wells, monkeypatch: Patch) -> None:
        """A degenerate search tells of the starts that failed, which might have done better."""
        monkeypatch.setattr("m3c_md.search.starts.eigh", raising(LinAlgError("no luck")))
        estimator = quick(2, bandwidth=1e5, starts=("kinetic", "kmeans"))
        words = r"candidates are degenerate.*Besides, start 'kinetic' failed at bandwidth 1e\+05 .*no luck"
        refused(lambda: estimator.fit(wells.frames), DegenerateSolutionError, words)


# --- the large-margin problem -----------------------------------------------------------------------------------------


class TestLinearSystems:
    FAILURES: ClassVar[dict[str, tuple[str, Any, str]]] = {
        "no factor": ("cho_factor", raising(LinAlgError("not positive definite")), "no Cholesky factor"),
        "not finite": (
            "cho_solve",
            lambda factor, right, **options: np.full_like(right, np.nan),
            "has no finite solution",
        ),
    }

    @pytest.mark.parametrize("failure", FAILURES)
    @pytest.mark.parametrize("make", [lambda: quick(2), lambda: MMC(2, starts="kmeans", random_state=0)])
    def test_fit(self, wells: Wells, monkeypatch: Patch, failure: str, make: Callable[[], Any]) -> None:
        name, broken, words = self.FAILURES[failure]
        monkeypatch.setattr(f"m3c_md.optimize.large_margin.{name}", broken)
        refused(lambda: make().fit(wells.frames), SolverError, f"{words}.*raise regularization, use another bandwidth")

    def test_a_factor_that_a_ridge_makes_possible(self, wells: Wells, monkeypatch: Patch) -> None:
        expected = quick(2).fit_fetch(wells.frames)
        tries: list[int] = []

        def stubborn(matrix: Any, *arguments: Any, **options: Any) -> Any:
            tries.append(1)
            if len(tries) % 3:
                raise LinAlgError("not positive definite")
            return scipy.linalg.cho_factor(matrix, *arguments, **options)

        monkeypatch.setattr("m3c_md.optimize.large_margin.cho_factor", stubborn)
        model = quick(2).fit_fetch(wells.frames)
        assert other_warnings(model) == []
        assert model.gap <= 1e-3
        assert model.objective == pytest.approx(expected.objective, rel=1e-3)

    @pytest.mark.parametrize("entry", [np.nan, np.inf, -1.0, 0.0])
    def test_matrices_without_a_solution_end(self, entry: float) -> None:
        """Where there is no ridge that could help, a loop would never end."""
        matrix = np.full((2, 2), entry)
        with pytest.raises(SolverError, match=r"of the large-margin problem h.*raise regularization"):
            solve_definite(matrix, np.ones(2))

    def test_moments_that_single_precision_makes_indefinite(self) -> None:
        features = np.ones((50, 3), dtype=np.float32)
        features[:, 1] += np.linspace(0.0, 1e-7, 50, dtype=np.float32)
        block = WindowBlock(features, np.arange(50)[None], np.full(50, 0.02))
        classes = class_sums([block], np.arange(50) % 2, 2)
        moments = second_moments([block])
        moments[0, 0] -= 1e-5  # as much as rounding of long sums may take
        with pytest.raises(LinAlgError):
            np.linalg.cholesky(moments + 1e-9 * np.eye(4))
        rule = least_squares_rule(moments, classes, 1e-9)
        assert np.isfinite(rule.weights).all()
        assert np.isfinite(rule.bias).all()


class TestLimits:
    """Iterations that end at their limit: what is part of the answer says so."""

    def test_rounds_of_the_local_search(self, wells: Wells) -> None:
        with pytest.warns(
            ConvergenceWarning, match="local search stopped after 1 rounds.*raise max_iterations"
        ) as caught:
            model = quick(2, max_iterations=1, starts=("kmeans",), bandwidth=0.3).fit_fetch(wells.frames)
        assert str(caught[-1].message) in model.warnings

    def test_passes_of_the_large_margin_problem(self, wells: Wells, monkeypatch: Patch) -> None:
        for limit in ("HASTY_PASSES", "EXTRA_PASSES", "MAX_PASSES"):
            monkeypatch.setattr(f"m3c_md.search.local_search.{limit}", 1)
        with pytest.warns(ConvergenceWarning, match=r"a gap of \d.*e-\d+; raise"):
            model = quick(2).fit_fetch(wells.frames)
        assert model.gap > 1e-3

    @pytest.mark.parametrize(
        ("make", "where", "words"),
        [
            (
                lambda: KMedoids(5, random_state=0, n_restarts=1),
                "k_medoids.k_medoids",
                "k-medoids reached .* 5 centres",
            ),
            (
                lambda: PCCAPlus(2, n_microstates=20, discretization="k-medoids", n_restarts=1, random_state=0),
                "pcca_plus.k_medoids",
                "k-medoids reached .* 20 centres",
            ),
            (
                lambda: PCCAPlus(2, n_microstates=20, random_state=0),
                "pcca_plus.k_means",
                "k-means reached .* 20 centres",
            ),
        ],
    )
    def test_clusterings_that_are_the_answer(
        self, wells: Wells, monkeypatch: Patch, make: Callable[[], Any], where: str, words: str
    ) -> None:
        assert other_warnings(make().fit_fetch(wells.frames)) == []
        original = k_means if where.endswith("k_means") else k_medoids
        monkeypatch.setattr(f"m3c_md.clustering.{where}", partial(original, max_iterations=1))
        with pytest.warns(ConvergenceWarning, match=f"{words} stood still; raise n_restarts, or"):
            model = make().fit_fetch(wells.frames)
        assert len(other_warnings(model)) == 1

    @pytest.mark.parametrize("start", ["kmeans", "kmedoids"])
    def test_clusterings_that_only_start(self, wells: Wells, monkeypatch: Patch, start: str) -> None:
        for name, original in (("k_means", k_means), ("k_medoids", k_medoids)):
            monkeypatch.setattr(f"m3c_md.search.starts.{name}", partial(original, max_iterations=1))
        model = quick(2, starts=(start,)).fit_fetch(wells.frames)
        assert other_warnings(model) == []
        assert agreement(model.transform(wells.frames), wells.states) > 0.98


# --- PCCA+ and the Markov models of deeptime --------------------------------------------------------------------------

FOREIGN_ERRORS = (ValueError("x y z"), AssertionError("x y z"), LinAlgError("x y z"), RuntimeError("x y z"))


class TestPCCAPlus:
    def make(self) -> PCCAPlus:
        return PCCAPlus(2, n_microstates=10, random_state=0)

    @pytest.mark.parametrize("error", FOREIGN_ERRORS, ids=lambda error: type(error).__name__)
    def test_the_msm_fails(self, wells: Wells, monkeypatch: Patch, error: Exception) -> None:
        monkeypatch.setattr(MaximumLikelihoodMSM, "fit_fetch", raising(error))
        words = r"deeptime's MSM of 10 microstates failed \(x y z\); use fewer microstates"
        refused(lambda: self.make().fit(wells.frames), SolverError, words)

    def test_the_msm_is_nonsense(self, wells: Wells, monkeypatch: Patch) -> None:
        nonsense = SimpleNamespace(transition_matrix=np.full((10, 10), np.nan), stationary_distribution=np.ones(10))
        monkeypatch.setattr(MaximumLikelihoodMSM, "fit_fetch", lambda *arguments: nonsense)
        words = "deeptime's MSM of 10 microstates has entries that are no numbers; use fewer"
        refused(lambda: self.make().fit(wells.frames), SolverError, words)

    @pytest.mark.parametrize(
        "error",
        [*FOREIGN_ERRORS, ZeroDivisionError("x y z"), IndexError("x y z")],
        ids=lambda error: type(error).__name__,
    )
    def test_the_lumping_fails(self, wells: Wells, monkeypatch: Patch, error: Exception) -> None:
        monkeypatch.setattr(MarkovStateModel, "pcca", raising(error))
        words = r"deeptime's PCCA\+ failed for 2 states of 10 microstates \(x y z\); ask for one state more or less"
        refused(lambda: self.make().fit(wells.frames), SolverError, words)

    def test_the_lumping_is_nonsense(self, wells: Wells, monkeypatch: Patch) -> None:
        def pcca(msm: Any, n_states: int) -> PCCAModel:
            nonsense = np.full((msm.n_states, n_states), np.nan)
            return PCCAModel(np.eye(n_states), np.ones(n_states), nonsense, nonsense.T)

        monkeypatch.setattr(MarkovStateModel, "pcca", pcca)
        refused(
            lambda: self.make().fit(wells.frames), SolverError, r"memberships that are not finite.*ask for one state"
        )

    def test_a_comparison_goes_on_without_it(self, wells: Wells, monkeypatch: Patch) -> None:
        monkeypatch.setattr(MarkovStateModel, "pcca", raising(RuntimeError("x y z")))
        parts = [wells.frames[:150], wells.frames[150:]]
        result = compare(parts, 2, methods=("pcca+", "k-medoids"), n_microstates=8, random_state=0, n_jobs=1)
        assert list(result.models) == ["k-medoids"]
        assert "failed: deeptime's PCCA+ failed for 2 states" in result.table.loc["PCCA+", "warnings"]


# --- macro-MSMs -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dtrajs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [np.cumsum(rng.random(400) < 0.05) % 3 for _ in range(3)]


KINETICS: dict[str, Callable[[list[np.ndarray]], Any]] = {
    "timescales": lambda dtrajs: implied_timescales(dtrajs, [1, 2], confidence=None),
    "timescales with confidence": lambda dtrajs: implied_timescales(dtrajs, [1, 2], random_state=0),
    "Chapman-Kolmogorov": lambda dtrajs: chapman_kolmogorov(dtrajs, 1, 3, random_state=0),
}


class TestMacroMSMs:
    @pytest.mark.parametrize("call", KINETICS)
    @pytest.mark.parametrize("error", EIGEN_FAILURES.values(), ids=list(EIGEN_FAILURES))
    def test_newton_steps(self, dtrajs: list[np.ndarray], monkeypatch: Patch, call: str, error: Exception) -> None:
        monkeypatch.setattr(np.linalg, "solve", raising(error))
        words = f"a Newton step of the reversible estimate failed .*{error}.*; use a shorter lag time"
        refused(lambda: KINETICS[call](dtrajs), SolverError, words)

    @pytest.mark.parametrize("call", KINETICS)
    def test_no_convergence(self, dtrajs: list[np.ndarray], monkeypatch: Patch, call: str) -> None:
        monkeypatch.setattr("m3c_md.markov.reversible._MOST_STEPS", 1)
        words = r"did not converge in 1 Newton steps \(last step .*\); use a shorter lag time"
        refused(lambda: KINETICS[call](dtrajs), SolverError, words)

    def test_steps_that_are_not_finite(self, dtrajs: list[np.ndarray], monkeypatch: Patch) -> None:
        monkeypatch.setattr(np.linalg, "solve", lambda matrix, right: np.full_like(right, np.nan))
        refused(lambda: KINETICS["timescales"](dtrajs), SolverError, "did not converge .*last step nan.*use a shorter")

    @pytest.mark.parametrize("error", EIGEN_FAILURES.values(), ids=list(EIGEN_FAILURES))
    def test_eigenvalues(self, dtrajs: list[np.ndarray], monkeypatch: Patch, error: Exception) -> None:
        monkeypatch.setattr(np.linalg, "eigvalsh", raising(error))
        words = f"the eigenvalues of the transition matrices failed .*{error}.*; use a shorter lag time"
        refused(lambda: KINETICS["timescales"](dtrajs), SolverError, words)

    @pytest.mark.parametrize("error", FOREIGN_ERRORS[:1] + FOREIGN_ERRORS[2:], ids=lambda error: type(error).__name__)
    def test_the_sampler_fails(self, dtrajs: list[np.ndarray], monkeypatch: Patch, error: Exception) -> None:
        monkeypatch.setattr("m3c_md.markov.resampling.SamplerRev", raising(error))
        call = partial(implied_timescales, dtrajs, [1], confidence="bayesian", random_state=0)
        refused(call, SolverError, r"deeptime's sampler of the posterior failed \(x y z\); use confidence='bootstrap'")

    def test_the_sampler_gives_nonsense(self, dtrajs: list[np.ndarray], monkeypatch: Patch) -> None:
        nonsense = SimpleNamespace(sample=lambda sweeps, return_statdist: (np.full((3, 3), np.nan), np.ones(3)))
        monkeypatch.setattr("m3c_md.markov.resampling.SamplerRev", lambda *arguments, **options: nonsense)
        call = partial(implied_timescales, dtrajs, [1], confidence="bayesian", random_state=0)
        refused(call, SolverError, "sampler of the posterior gave numbers that are not finite; use confidence=")

    def test_a_comparison_names_it(self, wells: Wells, monkeypatch: Patch) -> None:
        monkeypatch.setattr("m3c_md.markov.reversible._MOST_STEPS", 1)
        call = partial(
            compare, [wells.frames[:150], wells.frames[150:]], 2, methods="k-medoids", random_state=0, n_jobs=1
        )
        refused(call, SolverError, "did not converge in 1 Newton steps .*; use a shorter lag time")

    def test_a_scan_names_it(self, wells: Wells, monkeypatch: Patch) -> None:
        monkeypatch.setattr("m3c_md.search.starts.eigh", raising(LinAlgError("no luck")))
        scan = scan_states(wells.frames, 2, n_resamples=1, random_state=0, n_jobs=1)
        assert "start 'kinetic' failed at bandwidth" in scan.table.loc[2, "warnings"]


# --- reference systems ------------------------------------------------------------------------------------------------


class TestReferences:
    def test_slow_modes(self, monkeypatch: Patch) -> None:
        error = ArpackNoConvergence("No convergence", np.empty(0), np.empty((0, 0)))
        monkeypatch.setattr("m3c_md.systems.reference.eigsh", raising(error))
        reference = ExactReference(MODEL_I, spacing=0.4)
        words = r"the search for 3 slow modes on \d+ cells failed .*No convergence.*; ask for fewer"
        refused(lambda: reference.slow_modes(3), SolverError, words)

    def test_stationary_distributions(self, monkeypatch: Patch) -> None:
        monkeypatch.setattr(np.linalg, "lstsq", raising(LinAlgError("SVD did not converge")))
        x, y = np.zeros((4, 1)), np.array([0, 0, 1, 1])
        call = partial(labelled_sequence, x, y, 4, np.random.default_rng(0))
        refused(call, SolverError, r"the stationary distribution of transition_matrix failed .*SVD.*; give another")


# --- data that make matrices singular, and windows without weight ----------------------------------------------------

ALL_STARTS = ("kinetic", "relaxation", "pcca", "lumping", "kmeans", "kmedoids", "random")


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.OverlappingStatesWarning")
@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.AmbiguousSolutionWarning")
class TestSingularKernels:
    """Duplicated points: kernel matrices of less than full rank, down to rank two."""

    @pytest.mark.parametrize("start", [*ALL_STARTS, "relaxation-literal"])
    @pytest.mark.parametrize("n_distinct", [2, 3, 7])
    def test_every_start(self, start: str, n_distinct: int) -> None:
        rng = np.random.default_rng(0)
        points = np.sort(rng.normal(size=(n_distinct, 2)), axis=0)
        states = np.repeat([0, 1] * 4, 25)
        x = points[np.where(states == 0, rng.integers(1, size=200), n_distinct - 1)]
        x[::9] = points[np.where(states == 0, n_distinct // 2 - 1, n_distinct // 2)[::9]]
        model = quick(2, starts=(start,)).fit_fetch(x)
        assert start == "random" or agreement(model.transform(x), states) > 0.98
        assert model.populations.min() > 0.0
        assert not [text for text in model.warnings if "failed" in text]

    @pytest.mark.parametrize("make", [lambda: MMC(2, random_state=0), lambda: PCCAPlus(2, n_microstates=2)])
    def test_the_other_methods(self, make: Callable[[], Any]) -> None:
        x = np.repeat([0.0, 1.0] * 5, 30)[:, None]
        labels = make().fit_fetch(x).transform(x)
        assert np.array_equal(labels == labels[0], x[:, 0] == 0.0)

    def test_a_start_that_finds_nothing_to_tell_apart(self, wells: Wells) -> None:
        """So wide a kernel is a constant in single precision: no coordinate is slow, and other starts go on."""
        with pytest.raises(
            DegenerateSolutionError, match=r"Besides, start 'kinetic' failed at bandwidth .*ask for|Ask for"
        ):
            quick(2, bandwidth=1e5, starts=("kinetic", "random")).fit(wells.frames)

    def test_features_that_do_not_vary(self, wells: Wells, monkeypatch: Patch) -> None:
        zero = np.zeros((100, 100))
        monkeypatch.setattr("m3c_md.search.starts._covariances", lambda blocks: (zero, zero))
        with pytest.warns(FailedStartWarning, match="the features do not vary, so they have no slow coordinates; use"):
            quick(2, starts=("kinetic", "kmeans")).fit(wells.frames)


class TestWeights:
    def led_away(self, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
        """Pairs all of which lead to where none begins: all weights towards the relaxed distribution vanish."""
        rng = np.random.default_rng(0)
        x = rng.choice([-1.0, 1.0], (n, 1)) + 0.1 * rng.normal(size=(n, 1))
        return x, x + 10.0

    def test_all_zero(self) -> None:
        first, second = self.led_away()
        with pytest.warns(WeightsWarning, match="no transition pair begins where the data lead to.*reweight=False"):
            model = M3C(2, random_state=0).fit_fetch((first, second))
        assert len(other_warnings(model)) == 1
        assert model.effective_sample == 1.0
        same = M3C(2, random_state=0, reweight=False).fit_fetch((first, second))
        assert other_warnings(same) == []
        assert agreement(model.transform(first), same.transform(first)) == 1.0

    @pytest.mark.parametrize("streamed", [False, True])
    @pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
    @pytest.mark.parametrize("make", [lambda: quick(2), lambda: quick(2, starts=("lumping", "relaxation"))])
    def test_ratios_that_say_nothing(
        self, wells: Wells, monkeypatch: Patch, make: Callable[[], M3C], value: float, streamed: bool
    ) -> None:
        if streamed:
            monkeypatch.setattr("m3c_md.clustering.margin_search.STREAMED", 100)
            monkeypatch.setattr(rungs_module, "RUNGS", ((100, 4), (200, 2)))
        monkeypatch.setattr(
            "m3c_md.search.problem.relaxed_ratios", lambda cells, horizon: np.full(cells.n_microstates, value)
        )
        with pytest.warns(WeightsWarning):
            model = make().fit_fetch(wells.frames)
        assert model.effective_sample == 1.0
        assert agreement(model.transform(wells.frames), wells.states) > 0.98

    @pytest.mark.parametrize("start", ALL_STARTS)
    def test_some_zero_ratios_leave_no_window_without_weight(
        self, wells: Wells, monkeypatch: Patch, start: str
    ) -> None:
        monkeypatch.setattr(
            "m3c_md.search.problem.relaxed_ratios", lambda cells, horizon: np.arange(cells.n_microstates) % 2.0
        )
        model = quick(2, starts=(start,)).fit_fetch(wells.frames)
        assert 0.0 < model.effective_sample < 1.0
        assert agreement(model.transform(wells.frames), wells.states) > 0.98
        assert weights_of_ratios([np.array([0.0, 1.0, 2.0])]).min() > 0.0

    def weighted(self, monkeypatch: Patch, change: Callable[[np.ndarray], np.ndarray]) -> None:
        """Weights as no search would have them: the clipping is got round."""
        monkeypatch.setattr("m3c_md.search.problem.weights_of_ratios", lambda ratios: change(np.asarray(ratios[0])))

    @pytest.mark.filterwarnings("ignore::m3c_md.exceptions.FailedStartWarning")
    @pytest.mark.parametrize("start", ALL_STARTS)
    def test_windows_of_weight_zero(self, wells: Wells, monkeypatch: Patch, start: str) -> None:
        """A third of the windows counts for nothing: the answer is that of the others."""

        def third(ratios: np.ndarray) -> np.ndarray:
            weights = (np.arange(len(ratios)) % 3 > 0).astype(float)
            return np.asarray(weights / weights.sum())

        self.weighted(monkeypatch, third)
        if start == "relaxation":  # a coarse window without weight has no place in its relation matrix
            words = "weights must be 30 positive numbers; drop windows without weight"
            refused(lambda: quick(2, starts=(start,)).fit(wells.frames), InputError, words)
            return
        model = quick(2, starts=(start,)).fit_fetch(wells.frames)
        assert agreement(model.transform(wells.frames), wells.states) > 0.98

    def test_a_state_of_weight_zero(self, wells: Wells, monkeypatch: Patch) -> None:
        states = wells.states[:-1]

        def one_state(ratios: np.ndarray) -> np.ndarray:
            weights = (states == 0).astype(float)
            return np.asarray(weights / weights.sum())

        self.weighted(monkeypatch, one_state)
        words = "state [01] has no window of positive weight; give every state at least one"
        refused(lambda: quick(2, starts=("kmeans",)).fit(wells.frames), InputError, words)
        # Failures come back from other processes as they are.
        with pytest.raises(InputError, match=words):
            quick(2, starts=("kmeans",), bandwidth=(0.5, 1.0), n_jobs=2).fit(wells.frames)
        coarse = r"weights must be 30 positive numbers; drop windows without weight|no window of positive weight"
        refused(lambda: quick(2, starts=("relaxation",)).fit(wells.frames), InputError, coarse)

    @pytest.mark.parametrize("value", [0.0, np.nan])
    @pytest.mark.parametrize("start", ["kinetic", "kmeans"])
    def test_no_weight_at_all(self, wells: Wells, monkeypatch: Patch, start: str, value: float) -> None:
        self.weighted(monkeypatch, lambda ratios: np.full(len(ratios), value))
        words = r"weights of \d+ windows sum to (0\.0|nan); some must be positive, all finite"
        refused(lambda: quick(2, starts=(start,)).fit(wells.frames), InputError, words)

    def test_a_sample_of_weight_zero_is_no_start(self) -> None:
        """Of many windows every fourth is solved first; where these have no weight, the problem begins from nothing."""
        n = 6000
        labels = np.arange(n) % 2
        x = 4.0 * labels[:, None] - 2.0 + 0.1 * np.random.default_rng(0).normal(size=(n, 1))
        for seen in (np.arange(n) % 4 == 0, np.arange(n) % 8 == 0):
            weights = np.where(seen, 0.0, 1.0) / np.count_nonzero(~seen)
            result = solve_large_margin([WindowBlock(x, np.arange(n)[None], weights)], labels, 2, 1e-2)
            assert result.converged

    def test_weights_that_are_no_numbers(self) -> None:
        block = WindowBlock(np.ones((3, 1)), np.arange(3)[None], np.full(3, np.nan))
        refused(lambda: class_sums([block], np.array([0, 1, 0]), 2), InputError, "sum to nan; normalise them")


def test_every_warning_is_typed_and_documented() -> None:
    for kind in (FailedStartWarning, WeightsWarning, ConvergenceWarning, OverlappingStatesWarning):
        assert issubclass(kind, M3CWarning)
        assert kind.__doc__


def test_the_kernel_of_bad_points(monkeypatch: Patch) -> None:
    monkeypatch.setattr(np.linalg, "eigh", raising(LinAlgError("no luck")))
    words = r"the eigenvectors of the kernel of 4 points failed \(no luck\); check the kernel"
    refused(lambda: kernel_features([[[0.0], [1.0]], [[2.0], [3.0]]], 1.0), SolverError, words)
    monkeypatch.setattr(np.linalg, "eigvalsh", raising(LinAlgError("no luck")))
    kernel = joint_kernel([[[0.0], [0.1], [5.0], [5.1]]], bandwidth=1.0)
    options: dict[str, Any] = {"regularization": 0.1, "min_share": 0.1, "max_share": 0.9, "n_slices": 1}
    refused(
        lambda: solve_relaxation(kernel, [0.25] * 4, 2, **options), SolverError, "eigenvalue of the .*no luck.*check"
    )
