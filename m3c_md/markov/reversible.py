"""Macro-MSMs from counts: the reversible estimate of largest likelihood for many small count matrices at once.

deeptime's estimator takes one matrix per call and converges linearly; bootstrap bands need thousands of matrices. Here
all are solved together by Newton's method, to machine precision (the tests compare with deeptime).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.special import expit

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import SolverError, solving

# Newton steps after which something must be wrong: they converge quadratically, but a long one is cut to the logarithm
# of its length, so a far start may take many.
_MOST_STEPS = 200
_REMEDY = "use a shorter lag time, more data or fewer states"


def largest_connected_set(counts: FloatArray) -> NDArray[np.intp]:
    """States of the largest set in which the transitions lead from each state to each other one.

    Largest is meant in states, as in deeptime; among equals, in transitions within the set. A single state that was
    never seen to stay where it is makes no set: empty then.

    Examples
    --------
    >>> largest_connected_set(np.array([[5.0, 1.0, 0.0], [2.0, 3.0, 1.0], [0.0, 0.0, 9.0]]))
    array([0, 1])
    """
    return _largest(_strong_components(counts > 0.0), counts)


def _strong_components(pattern: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    _, component = connected_components(pattern, directed=True, connection="strong")
    return [np.flatnonzero(component == c) for c in range(component.max() + 1)]


def _largest(components: list[NDArray[np.intp]], counts: FloatArray) -> NDArray[np.intp]:
    size = max(len(states) for states in components)
    largest = [states for states in components if len(states) == size]
    if size > 1 and len(largest) == 1:
        return largest[0]
    inside = [counts[np.ix_(states, states)].sum() for states in largest]
    best = min(range(len(largest)), key=lambda c: (-inside[c], largest[c][0]))
    return largest[best] if inside[best] > 0.0 else np.empty(0, dtype=np.intp)


def reversible_flows(counts: FloatArray) -> FloatArray:
    """Equilibrium flows x_ij = pi_i T_ij of the reversible transition matrices of largest likelihood.

    Parameters
    ----------
    counts : array (n, k, k)
        Count matrices, estimated independently of each other.

    Returns
    -------
    array (n, k, k)
        Symmetric matrices of sum 1; rows and columns of states outside the largest connected set are NaN.

    Examples
    --------
    >>> reversible_flows(np.array([[[8.0, 2.0], [2.0, 3.0]]])).round(3)
    array([[[0.533, 0.133],
            [0.133, 0.2  ]]])
    """
    flows = np.full(counts.shape, np.nan)
    components: dict[bytes, list[NDArray[np.intp]]] = {}  # resampled counts have few different patterns
    members: dict[bytes, list[int]] = {}
    for index, (count, pattern) in enumerate(zip(counts, counts > 0.0, strict=True)):
        key = pattern.tobytes()
        if key not in components:
            components[key] = _strong_components(pattern)
        members.setdefault(_largest(components[key], count).tobytes(), []).append(index)
    for key, group in members.items():
        states = np.frombuffer(key, dtype=np.intp)
        if len(states):
            block = np.ix_(np.array(group), states, states)
            flows[block] = _connected_flows(counts[block])
    return flows


def transition_matrices(flows: FloatArray) -> FloatArray:
    """Transition matrices T_ij = x_ij / x_i of equilibrium flows; what is NaN stays NaN.

    Examples
    --------
    >>> transition_matrices(np.array([[0.3, 0.1], [0.1, 0.5]])).round(3)
    array([[0.75 , 0.25 ],
           [0.167, 0.833]])
    """
    # Rows of connected states are never zero; the others are NaN throughout.
    total = np.where(np.isnan(flows), 0.0, flows).sum(axis=-1, keepdims=True)
    matrices = np.full_like(flows, np.nan)
    np.divide(flows, total, out=matrices, where=total > 0.0)
    return matrices


def relaxation_eigenvalues(flows: FloatArray) -> FloatArray:
    """Eigenvalues of reversible transition matrices below the stationary 1, in falling order.

    Parameters
    ----------
    flows : array (n, k, k)
        From `reversible_flows`.

    Returns
    -------
    array (n, k - 1)
        NaN, at the end, for processes that states outside the connected set would have.

    Examples
    --------
    >>> relaxation_eigenvalues(np.array([[[0.4, 0.1], [0.1, 0.4]]])).round(12)
    array([[0.6]])
    """
    k = flows.shape[-1]
    root = np.sqrt(np.where(np.isnan(flows), 0.0, flows).sum(axis=-1))
    outside = root == 0.0
    root[outside] = 1.0
    # T is similar to the symmetric x_ij / sqrt(x_i x_j). States outside stand in it by themselves with the impossible
    # eigenvalue -2, so that they sort to the end.
    symmetric = np.where(np.isnan(flows), 0.0, flows) / (root[..., :, None] * root[..., None, :])
    symmetric[..., np.arange(k), np.arange(k)] -= 2.0 * outside
    with solving("the eigenvalues of the transition matrices", _REMEDY):
        eigenvalues = np.linalg.eigvalsh(symmetric)[..., ::-1][..., 1:]
    # Half way between the lowest that there is and the impossible one.
    return np.asarray(np.where(eigenvalues < -1.5, np.nan, eigenvalues))


def _connected_flows(counts: FloatArray) -> FloatArray:
    r"""Solve the likelihood equations for strongly connected count matrices (n, k, k) by damped Newton steps.

    The maximum has x_ij = C_ij / (u_i + u_j) with C = c + cᵀ and row sums c_i / u_i (Trendelkamp-Schroer et al., J.
    Chem. Phys. 143, 174101 (2015)). With u = exp(y) this says Σ_j C_ij σ(y_i - y_j) = c_i, where σ is the logistic
    function: the Bradley-Terry equations, stationarity of a convex function of y that has a minimum because the counts
    are connected. The third derivatives of that function along a step d are bounded by δ = max d - min d times the
    second, hence the step length log(1 + δ)/δ decreases it without a line search, from every start.
    """
    n, k, _ = counts.shape
    if k == 1:
        return np.ones((n, 1, 1))
    off_diagonal = counts * (1.0 - np.eye(k))  # a diagonal count stands on both sides of the equations
    entering = off_diagonal.transpose(0, 2, 1)
    y = np.zeros((n, k))
    for _ in range(_MOST_STEPS):
        forward = expit(y[:, :, None] - y[:, None, :])
        backward = forward.transpose(0, 2, 1)
        # Equal to Σ_j C_ij σ(y_i - y_j) - c_i, but without the difference of large numbers.
        gradient = (entering * forward - off_diagonal * backward).sum(axis=2)
        hessian = -(off_diagonal + entering) * forward * backward
        curvature = -hessian.sum(axis=2)
        hessian[:, np.arange(k), np.arange(k)] = curvature
        # y + constant is the same solution: fill that null space with a curvature of the usual size.
        hessian += np.maximum(curvature.mean(axis=1), np.finfo(float).tiny)[:, None, None]
        with solving("a Newton step of the reversible estimate", _REMEDY):
            step = -np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        spread = np.ptp(step, axis=1)
        y += step * (np.log1p(spread) / np.maximum(spread, 1e-300))[:, None]
        if (spread < 1e-8).all():  # quadratic convergence: the step just made leaves an error of about 1e-16
            break
    else:
        raise SolverError(
            f"the reversible estimate did not converge in {_MOST_STEPS} Newton steps (last step {spread.max():.1e}); "
            f"{_REMEDY}"
        )
    u = np.exp(y - y.mean(axis=1, keepdims=True))
    flows = (counts + counts.transpose(0, 2, 1)) / (u[:, :, None] + u[:, None, :])
    return np.asarray(flows / flows.sum(axis=(1, 2), keepdims=True))
