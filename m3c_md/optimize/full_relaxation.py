"""The relaxation as the paper writes it, without reduction, and its value for given labels: slow, to check against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from m3c_md.exceptions import InputError
from m3c_md.optimize.relaxation import (
    Relaxation,
    Solver,
    as_relation,
    as_slices,
    check_finite,
    check_status,
    checked_relations,
    cvxpy_module,
    large_margin_dual,
    linear_constraints,
    run_solver,
)


def solve_full_relaxation(
    slices: Sequence[ArrayLike],
    weights: ArrayLike,
    n_states: int,
    *,
    regularization: float,
    min_share: float,
    max_share: float,
    row_sums: bool = True,
    solver: Solver = "CLARABEL",
) -> Relaxation:
    """Solve eq. m3c-sdp in M, D, α and θ: the reference for `solve_relaxation`, for small instances.

    Parameters
    ----------
    slices : sequence of n arrays (N^c, d)
        Features of the windows' slices, e.g. random Fourier features or `kernel_features`.
    weights, n_states, regularization, min_share, max_share, row_sums, solver
        As for `solve_relaxation`, but the printed form needs no condition on Kˢc.

    Examples
    --------
    >>> from m3c_md.optimize.relaxation import joint_gram, kernel_features, solve_relaxation
    >>> slices = kernel_features([[[0.0], [0.1], [5.0], [5.1]]], bandwidth=1.0)
    >>> options = dict(regularization=0.01, min_share=0.01, max_share=0.6)
    >>> full = solve_full_relaxation(slices, [0.25] * 4, 2, **options)
    >>> reduced = solve_relaxation(joint_gram(slices), [0.25] * 4, 2, n_slices=1, **options)
    >>> bool(abs(full.value - reduced.value) < 1e-5)
    True
    """
    cp = cvxpy_module()
    X, c = as_slices(slices), np.asarray(weights, dtype=np.float64)
    feasible = checked_relations(c, n_states, regularization, min_share, max_share, row_sums)
    M, D = cp.Variable((len(c), len(c)), symmetric=True), cp.Variable((len(c), n_states), nonneg=True)
    objective, constraints = large_margin_dual(X, c, D, M, regularization)
    constraints += [*linear_constraints(M, feasible), cp.bmat([[np.eye(n_states), D.T], [D, M]]) >> 0]
    constraints += [cp.sum(D, axis=1) == 1] if row_sums else [D <= 1]
    problem = cp.Problem(cp.Minimize(objective), constraints)
    status = run_solver(problem, solver, None)
    check_finite(solver, status, M.value, D.value, problem.value)
    violation = feasible.violation(relation := as_relation(M.value))
    check_status(solver, status, violation)
    return Relaxation(relation, 1 + problem.value / regularization, None, violation, status, solver, D.value)


def fixed_labels_value(
    slices: Sequence[ArrayLike], weights: ArrayLike, labels: ArrayLike, n_states: int, *, regularization: float
) -> float:
    """Value of eq. m3c-coarse-grained-equivalent with D and M of a given labelling.

    By strong duality it is the optimum of the large-margin problem min β/2 ‖W‖² + cᵀξ without bias.

    Examples
    --------
    >>> slices = [[[1.0, 0.0], [0.0, 1.0]]]
    >>> round(fixed_labels_value(slices, [0.5, 0.5], [0, 1], 2, regularization=0.1), 4)
    0.05
    """
    cp = cvxpy_module()
    X, c, y = as_slices(slices), np.asarray(weights, dtype=np.float64), np.asarray(labels)
    if y.shape != c.shape or y.min() < 0 or y.max() >= n_states:
        raise InputError(f"labels must be {len(c)} integers from 0 to {n_states - 1}; got {y.tolist()}.")
    D = np.eye(n_states)[y]
    objective, constraints = large_margin_dual(X, c, D, D @ D.T, regularization)
    problem = cp.Problem(cp.Minimize(objective), constraints)
    status = run_solver(problem, "CLARABEL", None)
    check_status("CLARABEL", status, np.inf)
    check_finite("CLARABEL", status, problem.value)
    return float(1 + problem.value / regularization)
