"""Convex relaxation of M3C on coarse windows: the global search of Algorithm 1, line 2 (paper eq. m3c-sdp).

A *window* is a tuple of n time slices that share one label (n = 2: M3C pairs, n = 1: MMC). With the labels of N^c
weighted windows written as D = [1(y_i = k)] and M = [1(y_i = y_j)], the large-margin problem for fixed labels equals
one that is convex in (M, D); relaxing M = DDᵀ, M, D ∈ {0, 1} to M ⪰ DDᵀ, M, D ∈ [0, 1] gives a semidefinite programme.
Corrected here: Gram blocks XXᵀ, multipliers Λ1 = c, and row sums D1 = 1, without which the optimum has D = 0.

Permuting labels changes nothing, so solutions may be averaged over all permutations: D = δ1ᵀ, hence M ⪰ κδδᵀ, and Λ
is symmetric too. Then α and θ can be eliminated, and the value for given (M, δ), with C = diag(c), is

    1 - [n = 1] cᵀδ + δᵀC Kˢc/β - cᵀKˢc/(2βκ) - tr(M C Kˢ C)/(2β).

With row sums δ = 1/κ; without them δ = 0 is optimal where its factor is not negative. What is left is a problem in M
alone, `solve_relaxation`; `solve_full_relaxation` solves the whole programme and is the check on that elimination.
"""

from __future__ import annotations

import itertools
import logging
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError, SolverError, solving
from m3c_md.optimize.feature_map import gaussian_kernel

Solver = Literal["SCS", "CLARABEL"]
# Up to here the interior point method needs about a second; its time grows with the sixth power of the windows.
_CLARABEL_WINDOWS = 40
# Each further digit costs first-order SCS several times as much, the interior point method a few more steps.
_TOLERANCE: dict[str, float] = {"SCS": 1e-4, "CLARABEL": 1e-8}
# What becomes of a solver's status; one that is not listed is an error.
_ACCEPTED: dict[str, dict[str, Literal["always", "if measured"]]] = {
    "SCS": {"optimal": "always", "optimal_inaccurate": "if measured"},
    "CLARABEL": {"optimal": "always", "optimal_inaccurate": "if measured"},
}
# "if measured": limits on the constraint violation (of entries in [0, 1]) and on the gap relative to tr(M C Kˢ C).
_INACCURATE_VIOLATION = 1e-3
_INACCURATE_GAP = 1e-2
_SHARE_TOLERANCE = 1e-9  # for shares such as 1/3 that binary floating point cannot represent
_REMEDY = "Try the other solver, fewer coarse windows, a larger tolerance, or wider bounds min_share, max_share."
_EIGENVALUES = "check the kernel for numbers that are not finite, or use another bandwidth"


@dataclass(frozen=True)
class Relaxation:
    """Solution of the relaxed problem with the evidence for it.

    Attributes
    ----------
    relation : (N^c, N^c) ndarray
        M: symmetric, within [0, 1], unit diagonal; 1 for windows that belong together.
    value : float
        Objective at `relation`; the optimum bounds eq. m3c-coarse-grained from below.
    lower_bound : float or None
        Bound on the optimum, proved by the solver's multipliers however inaccurate; None for the full form.
    violation : float
        Largest violation of the constraints by `relation`.
    status, solver : str
        What the solver said, and its name.
    assignment : (N^c, k) ndarray or None
        D of the full form; None where label symmetry has eliminated it.
    """

    relation: FloatArray
    value: float
    lower_bound: float | None
    violation: float
    status: str
    solver: str
    assignment: FloatArray | None = None


@dataclass(frozen=True)
class _Relations:
    """The feasible set M ⪰ floor 11ᵀ, diag M = 1, M >= 0, min_share <= Mc <= max_share (M <= 1 follows)."""

    weights: FloatArray
    floor: float
    min_share: float
    max_share: float

    def violation(self, relation: FloatArray) -> float:
        """Largest violation by a symmetric matrix within [0, 1] of unit diagonal."""
        shares = relation @ self.weights
        with solving("the smallest eigenvalue of the relation", _EIGENVALUES):
            smallest = np.linalg.eigvalsh(relation - self.floor)[0]
        return float(max(-smallest, self.min_share - shares.min(), shares.max() - self.max_share, 0.0))

    def upper_bound(self, objective: FloatArray, nonneg: FloatArray, cap: FloatArray, cone: FloatArray) -> float:
        """Bound max <objective, M> by any multipliers of M >= 0, of the shares, and of the cone (its diagonal).

        With G = objective + nonneg - sym(cap cᵀ) and S = M - floor 11ᵀ ⪰ 0, whose diagonal is known, <G, S> is at
        most (1 - floor)(Σy + N λ_max(G - diag y)) for every y: inaccurate multipliers loosen the bound, no more.
        """
        G = objective + nonneg - 0.5 * (np.outer(cap, self.weights) + np.outer(self.weights, cap))
        y = np.diag(G) + cone
        with solving("the largest eigenvalue of the multipliers", _EIGENVALUES):
            excess = max(np.linalg.eigvalsh(G - np.diag(y))[-1], 0.0)
        balance = self.max_share * np.maximum(cap, 0.0).sum() - self.min_share * np.maximum(-cap, 0.0).sum()
        return float(self.floor * G.sum() + (1.0 - self.floor) * (y.sum() + len(y) * excess) + balance)


def joint_gram(slices: Sequence[ArrayLike]) -> FloatArray:
    """Sum Kˢ = (Σ_i X_i)(Σ_i X_i)ᵀ of the n² Gram blocks X_i X_jᵀ of n slices (N^c, d); paper eq. Ks, corrected.

    Examples
    --------
    >>> joint_gram([[[1.0], [2.0]], [[0.0], [1.0]]])
    array([[1., 3.],
           [3., 9.]])
    """
    total = as_slices(slices).sum(axis=0)
    return np.asarray(total @ total.T)


def joint_kernel(points: Sequence[ArrayLike], bandwidth: float) -> FloatArray:
    """Sum Kˢ of the n² blocks of the exact Gaussian kernel between n slices of points (N^c, D).

    Examples
    --------
    >>> joint_kernel([[[0.0], [9.0]], [[0.0], [9.0]]], 1.0).round(6)
    array([[4., 0.],
           [0., 4.]])
    """
    stack = as_slices(points)
    total = np.sum([gaussian_kernel(one, other, bandwidth) for one in stack for other in stack], axis=0)
    return np.asarray(0.5 * (total + total.T))


def kernel_features(points: Sequence[ArrayLike], bandwidth: float) -> list[FloatArray]:
    """Features (N^c, r) of each slice whose inner products are the exact Gaussian kernel between the given points.

    They are the eigen-factor of the kernel matrix of all n N^c points, so they serve only these points.

    Examples
    --------
    >>> first, second = kernel_features([[[0.0], [1.0]], [[2.0], [3.0]]], 1.0)
    >>> float((first[0] @ second[0]).round(4))  # exp(-2²/2)
    0.1353
    """
    stack = as_slices(points)
    everything = stack.reshape(-1, stack.shape[2])
    with solving(f"the eigenvectors of the kernel of {len(everything)} points", _EIGENVALUES):
        eigenvalues, vectors = np.linalg.eigh(gaussian_kernel(everything, everything, bandwidth))
    kept = eigenvalues > len(everything) * np.finfo(np.float64).eps * eigenvalues[-1]
    factor = vectors[:, kept] * np.sqrt(eigenvalues[kept])
    return list(factor.reshape(*stack.shape[:2], -1))


def solve_relaxation(
    gram: ArrayLike,
    weights: ArrayLike,
    n_states: int,
    *,
    regularization: float,
    min_share: float,
    max_share: float,
    row_sums: bool = True,
    n_slices: int = 2,
    solver: Solver | None = None,
    tolerance: float | None = None,
) -> Relaxation:
    """Solve eq. m3c-sdp after elimination of D, α and θ, i.e. maximise tr(M C Kˢ C) over relations M.

    Parameters
    ----------
    gram : (N^c, N^c) array
        Kˢ, see `joint_gram` and `joint_kernel`.
    weights : (N^c,) array
        Weights c of the coarse windows, not negative, of sum 1.
    n_states, regularization : int, float
        Number κ of states; β > 0, which scales the value and leaves `relation` alone.
    min_share, max_share : float
        Bounds on Mc, the relaxed share of each window's class. They shape the relaxation (where they are wide, M is
        nearly all ones) and are not the balance that the local search enforces.
    row_sums : bool, default=True
        Whether D1 = 1 is imposed. False is the printed form, where D vanishes: right only where Kˢc >= 0 (Kˢc >= β
        for one slice), as for a kernel that is not negative; this is checked.
    n_slices : int, default=2
        Number n of slices of a window. Only n = 1 matters, and only to the value (-1/κ, with row sums).
    solver, tolerance : {"SCS", "CLARABEL"}, float, optional
        By default Clarabel to 1e-8 up to 40 windows (where it fails, SCS), and above SCS to 1e-4, ten times faster
        there. Narrow kernels leave M almost free: Clarabel then returns the centre of the optimal set, SCS some point
        of it.

    Raises
    ------
    InputError
        For shares that no relation has, and other unusable input.
    SolverError
        If the solver fails, gives numbers that are not finite, or calls inaccurate what has a violation above 1e-3 or
        a relative gap above 1e-2.

    Examples
    --------
    >>> kernel = joint_kernel([[[0.0], [0.1], [5.0], [5.1]]], bandwidth=1.0)
    >>> options = dict(regularization=0.01, min_share=0.01, max_share=0.6, n_slices=1)
    >>> solve_relaxation(kernel, [0.25] * 4, 2, **options).relation[0] > 0.5
    array([ True,  True, False, False])
    """
    K, c = np.asarray(gram, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    feasible = checked_relations(c, n_states, regularization, min_share, max_share, row_sums)
    if K.shape != (len(c), len(c)) or not np.all(np.isfinite(K)) or not np.allclose(K, K.T):
        raise InputError(f"gram must be a finite symmetric ({len(c)}, {len(c)}) matrix; got shape {K.shape}.")
    similarity, least = K @ c, regularization if n_slices == 1 else 0.0
    if not row_sums and similarity.min() < least:
        remedy = "Use row_sums=True, a kernel that is not negative, or solve_full_relaxation."
        raise InputError(f"row_sums=False needs Kˢc >= {least:.4g}; its minimum is {similarity.min():.4g}. {remedy}")
    objective = K * np.outer(c, c)
    if solver is None and len(c) <= _CLARABEL_WINDOWS:
        try:
            solved = _solved(objective, feasible, "CLARABEL", tolerance)
        except SolverError as first:
            try:
                solved = _solved(objective, feasible, "SCS", tolerance)
            except SolverError as second:
                raise SolverError(f"{first} The other solver did no better: {second}") from second
    else:
        solved = _solved(objective, feasible, solver or "SCS", tolerance)
    relation, trace, bound, violation, status, used = solved
    shift = float(c @ similarity) / (2 * regularization * n_states)
    constant = 1.0 + shift - (n_slices == 1) / n_states if row_sums else 1.0 - shift
    value, lower_bound = (constant - maximum / (2 * regularization) for maximum in (trace, bound))
    return Relaxation(relation, value, lower_bound, violation, status, used)


def large_margin_dual(X: FloatArray, c: FloatArray, D: Any, M: Any, regularization: float) -> tuple[Any, list[Any]]:
    """Objective and constraint of eq. m3c-coarse-grained-equivalent in (α, θ), scaled; its value is 1 + optimum/β.

    Both are multiplied by β, with βα and √β θ for α and θ, so that no coefficient holds 1/β. The constraint
    q(D) + (1 ⊗ I)α + Rθ <= 0 then reads, for all κⁿ label tuples at once, Σ_i X_i V B_i + α1ᵀ <= β D E with
    V = θ + (Σ_i X_i)ᵀ C D, B_i the one-hot labels of slice i (B̄, B̲ of the paper) and E those of constant tuples.
    """
    cp = cvxpy_module()
    (n_slices, n_windows, n_features), n_states = X.shape, D.shape[1]
    one_hot = np.eye(n_states)[list(itertools.product(range(n_states), repeat=n_slices))]  # (tuple, slice, state)
    total = X.sum(axis=0)
    theta, alpha = cp.Variable((n_features, n_states)), cp.Variable((n_windows, 1))
    V = theta + (total.T * c) @ D
    margins = sum(X[i] @ V @ one_hot[:, i].T for i in range(n_slices)) + alpha @ np.ones((1, len(one_hot)))
    similarity = cp.sum(cp.multiply(total @ total.T * np.outer(c, c), M))
    objective = 0.5 * cp.sum_squares(theta) - c @ alpha[:, 0] - 0.5 * similarity
    return objective, [margins <= regularization * (D @ one_hot.prod(axis=1).T)]


def _solved(
    objective: FloatArray, feasible: _Relations, solver: str, tolerance: float | None
) -> tuple[FloatArray, float, float, float, str, str]:
    """Relation, <objective, relation>, bound on its maximum, violation, status and name of the solver, all checked."""
    relation, bound, status = _maximise(objective, feasible, solver, tolerance)
    trace, violation = float(np.sum(objective * relation)), feasible.violation(relation)
    check_status(solver, status, violation, (bound - trace) / max(abs(trace), np.finfo(np.float64).tiny))
    return relation, trace, bound, violation, status, solver


def _maximise(
    objective: FloatArray, feasible: _Relations, solver: str, tolerance: float | None
) -> tuple[FloatArray, float, str]:
    """Relation of (nearly) largest <objective, M>, a proved bound on that maximum, and the solver's status."""
    cp, n_windows = cvxpy_module(), len(objective)
    # The diagonal of M is fixed, so that of the objective is a constant: with narrow kernels it would otherwise
    # hide all the rest. A norm of N^c makes the multipliers as large as the entries of M, which suits SCS best.
    varying = objective - np.diag(np.diag(objective))
    size, noise = np.linalg.norm(varying), n_windows * np.finfo(np.float64).eps * np.linalg.norm(objective)
    scale = float(n_windows / size) if size > noise else 0.0
    M = cp.Variable((n_windows, n_windows), symmetric=True)
    constraints = [*linear_constraints(M, feasible), M - feasible.floor >> 0]
    problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(scale * varying, M))), constraints)
    status = run_solver(problem, solver, tolerance)
    check_finite(solver, status, M.value, *(constraint.dual_value for constraint in constraints))
    _, nonneg, upper, lower, cone = (constraint.dual_value for constraint in constraints)
    pairs = np.zeros_like(varying)
    pairs[np.triu_indices(n_windows, 1)] = 0.5 * np.maximum(nonneg, 0.0)
    cap = np.maximum(upper, 0.0) - np.maximum(lower, 0.0)
    bound = feasible.upper_bound(scale * varying, pairs + pairs.T, cap, np.diag(cone))
    at_most = bound / scale if scale > 0 else n_windows * size
    return as_relation(M.value), float(np.trace(objective) + at_most), status


def linear_constraints(M: Any, feasible: _Relations) -> list[Any]:
    """State the unit diagonal, M >= 0 (each pair once) and the bounds on Mc."""
    shares, pairs = M @ feasible.weights, np.triu_indices(M.shape[0], 1)
    return [cvxpy_module().diag(M) == 1, M[pairs] >= 0, shares <= feasible.max_share, shares >= feasible.min_share]


def cvxpy_module() -> Any:
    """Import cvxpy only when a problem is solved (it is slow), and untyped (its own hints lack most functions)."""
    # OR-tools and cvxpy's HiGHS bring different libraries of one name, and the loader gives the first to both: whoever
    # comes second cannot be loaded any more. The label step needs OR-tools and nobody here needs HiGHS, so OR-tools
    # comes first, and cvxpy logs that it has no HiGHS. If the user's cvxpy was there before, it keeps its solver and a
    # linear program does the label step.
    if "cvxpy" not in sys.modules:
        with suppress(ImportError):
            import ortools.graph.python.min_cost_flow  # noqa: F401
    logger = logging.getLogger("__cvxpy__")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        import cvxpy
    finally:
        logger.disabled = was_disabled
    return cvxpy


def run_solver(problem: Any, solver: str, tolerance: float | None) -> str:
    """Solve in place and return a status that comes with a solution; no error or warning of cvxpy gets out."""
    if solver not in _ACCEPTED:
        raise InputError(f"solver must be one of {sorted(_ACCEPTED)}; got {solver!r}.")
    eps = _TOLERANCE[solver] if tolerance is None else tolerance
    options: dict[str, float] = {"eps_abs": eps, "eps_rel": eps, "max_iters": 20_000}
    if solver == "CLARABEL":  # accept_unknown: lack of progress counts as inaccurate, to be judged by measuring
        options = {"tol_gap_abs": eps, "tol_gap_rel": eps, "tol_feas": eps, "accept_unknown": True}
    try:
        with warnings.catch_warnings():  # the same news is in the status, which `check_status` judges
            warnings.filterwarnings("ignore", message="Solution may be inaccurate", category=UserWarning)
            problem.solve(solver=solver, **options)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # cvxpy raises many kinds, Clarabel's panics are not even an Exception
        raise SolverError(f"{solver} failed on the relaxation: {error} {_REMEDY}") from error
    if problem.status not in _ACCEPTED[solver]:
        raise SolverError(f"{solver} found no solution (status {problem.status!r}). {_REMEDY}")
    return str(problem.status)


def check_finite(solver: str, status: str, *values: Any) -> None:
    """Refuse a solution that is missing or not finite, whatever the status says."""
    if any(value is None or not np.all(np.isfinite(value)) for value in values):
        raise SolverError(f"{solver} gave numbers that are missing or not finite (status {status!r}). {_REMEDY}")


def check_status(solver: str, status: str, violation: float, relative_gap: float = 0.0) -> None:
    """Refuse an end of a solver that is not known to be an optimum."""
    measured = violation <= _INACCURATE_VIOLATION and relative_gap <= _INACCURATE_GAP
    if _ACCEPTED[solver][status] == "if measured" and not measured:
        raise SolverError(
            f"{solver} ended with status {status!r}; its solution violates constraints by {violation:.1e} (accepted: "
            f"{_INACCURATE_VIOLATION:.0e}), relative gap {relative_gap:.1e} ({_INACCURATE_GAP:.0e}). {_REMEDY}"
        )


def as_relation(value: FloatArray) -> FloatArray:
    """Symmetric matrix of entries from 0 to 1 with ones on its diagonal, closest to what a solver returned."""
    relation = np.clip(0.5 * (value + value.T), 0.0, 1.0)
    np.fill_diagonal(relation, 1.0)
    return relation


def as_slices(slices: Sequence[ArrayLike]) -> FloatArray:
    """Features of all slices in one array (n_slices, n_windows, n_features); refuses shapes that differ."""
    arrays = [np.asarray(one, dtype=np.float64) for one in slices]
    shapes = [one.shape for one in arrays]
    if len(set(shapes)) != 1 or len(shapes[0]) != 2 or not all(np.isfinite(one).all() for one in arrays):
        raise InputError(f"slices must be finite (windows, columns) arrays of one shape; got shapes {shapes}.")
    return np.stack(arrays)


def checked_relations(
    c: FloatArray, n_states: int, regularization: float, min_share: float, max_share: float, row_sums: bool
) -> _Relations:
    """Refuse what no solver could solve, before one is called."""
    if c.ndim != 1 or not np.all(c >= 0) or abs(c.sum() - 1) > 1e-6:
        raise InputError(f"weights must be a vector, not negative, of sum 1; got shape {c.shape}, sum {c.sum():.6g}.")
    if not (2 <= n_states <= len(c) and regularization > 0):
        raise InputError(f"need 2 <= n_states <= {len(c)} and regularization > 0; got {n_states}, {regularization}.")
    if not 0 <= min_share <= max_share <= 1:
        raise InputError(f"shares must satisfy 0 <= min_share <= max_share <= 1; got {min_share}, {max_share}.")
    if max_share < c.max() - _SHARE_TOLERANCE:
        raise InputError(f"max_share = {max_share:.4g} is below the largest weight {c.max():.4g}; raise it to that.")
    if row_sums and not min_share - _SHARE_TOLERANCE <= 1 / n_states <= max_share + _SHARE_TOLERANCE:
        raise InputError(f"min_share, max_share must enclose 1/n_states; got {min_share:.4g}, {max_share:.4g}.")
    return _Relations(c, 1 / n_states if row_sums else 0.0, min_share, max_share)
