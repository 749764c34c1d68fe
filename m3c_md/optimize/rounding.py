"""From a relaxed relation matrix to labels: the spectral clustering of Algorithm 1, line 3.

The relation M of the relaxation, with windows of weight c, is read as a similarity: P = diag(Mc)⁻¹ M diag(c) is the
transition matrix of a walk on the windows that is reversible with respect to π_i ∝ c_i (Mc)_i. If M were the relation
of a labelling, the eigenvectors of P for the eigenvalue 1 would be constant on each class, i.e. each class would be
one vertex of a simplex in the space of the leading κ eigenvectors. Weber's inner simplex algorithm looks for those
vertices and reads all other windows as mixtures of them (Weber 2003; Deuflhard and Weber 2005).
"""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError, solving

# Blocks joined by less than this are separate for deeptime's PCCA+, whose eigenvectors then mix at random.
_CONNECTED = 1e-6
_REMEDY = "use another bandwidth, other starts, or fewer states"


def round_relation(
    relation: ArrayLike,
    n_states: int,
    *,
    weights: ArrayLike | None = None,
    method: Literal["inner_simplex", "pcca"] = "inner_simplex",
) -> NDArray[np.intp]:
    """Labels that fit a relation matrix best in the sense of Perron cluster analysis; no class is empty.

    Parameters
    ----------
    relation : (n, n) array
        Symmetric, not negative, positive diagonal: M of the relaxation.
    n_states : int
        Number κ of classes, at most n.
    weights : (n,) array, optional
        Positive weights of the windows; one window of weight 2 counts as two equal ones of weight 1.
    method : {"inner_simplex", "pcca"}
        The paper's algorithm, or PCCA+ as in deeptime, which optimises the vertices further. deeptime's PCCA+ is wrong
        on a relation that falls apart into blocks and fails on one without information (all ones): there the inner
        simplex algorithm answers for it.

    Returns
    -------
    (n,) ndarray of intp
        Classes numbered in the order of their first window. The answer is deterministic; where the relation leaves
        a choice (all ones, or more separate blocks than classes), that choice is arbitrary, but blocks stay whole.

    Raises
    ------
    InputError
        If the relation, the weights or the number of classes cannot be used.
    SolverError
        If the eigenvectors of the relation cannot be computed.

    Examples
    --------
    >>> import numpy as np
    >>> classes = np.array([0, 0, 1, 2, 2, 1])
    >>> round_relation(0.1 + 0.9 * (classes[:, None] == classes), n_states=3)
    array([0, 0, 1, 2, 2, 1])
    """
    M, c = _checked(relation, n_states, weights)
    if method not in ("inner_simplex", "pcca"):
        raise InputError(f"method must be 'inner_simplex' or 'pcca'; got {method!r}.")
    if n_states == 1:
        return np.zeros(len(M), dtype=np.intp)
    memberships = _pcca_memberships(M, c, n_states) if method == "pcca" else None
    if memberships is None:
        memberships = _inner_simplex_memberships(_leading_eigenvectors(M, c, n_states))
    return _in_order_of_appearance(_populated_labels(memberships))


def _leading_eigenvectors(M: FloatArray, c: FloatArray, n_states: int) -> FloatArray:
    """Leading right eigenvectors of P as columns, orthonormal with respect to π, the constant one first.

    P is similar to a symmetric matrix, hence real eigenvectors. The constant one is known and projected out before:
    where the eigenvalue 1 is multiple, a solver would return any basis of its space, possibly without it.
    """
    degree = M @ c
    root = np.sqrt(c * degree / np.sum(c * degree))
    scaled = np.sqrt(c / degree)
    symmetric = M * np.outer(scaled, scaled)
    # The spectrum of P lies in [-1, 1]: moved down by 3, the constant vector comes last of all.
    with solving(f"the eigenvectors of a relation of {len(M)} windows", _REMEDY):
        _, vectors = np.linalg.eigh(symmetric - 3.0 * np.outer(root, root))
    slow = vectors[:, :-n_states:-1] / root[:, None]
    return np.column_stack([np.ones(len(M)), slow])


def _inner_simplex_memberships(vectors: FloatArray) -> FloatArray:
    """Memberships χ = XA with A the inverse of the rows of X that span the (nearly) largest simplex.

    The first vertex is the row farthest from the origin, each further one the row farthest from the span of those
    found so far. Only distances count, so neither sign nor rotation within a degenerate eigenspace matters.
    """
    n_states = vectors.shape[1]
    vertices = [int(np.argmax(np.sum(vectors**2, axis=1)))]
    residual = vectors - vectors[vertices[0]]
    while len(vertices) < n_states:
        distance = np.sum(residual**2, axis=1)
        vertices.append(int(np.argmax(distance)))
        direction = residual[vertices[-1]] / np.sqrt(distance[vertices[-1]])
        residual = residual - np.outer(residual @ direction, direction)
    # Independent columns, one of them constant: the rows found are affinely independent and this is regular.
    with solving(f"the simplex of {n_states} states", _REMEDY):
        return np.asarray(np.linalg.solve(vectors[vertices].T, vectors.T).T, dtype=np.float64)


def _pcca_memberships(M: FloatArray, c: FloatArray, n_states: int) -> FloatArray | None:
    """Memberships of deeptime's PCCA+, or None where it fails, warns, or would be wrong without a word."""
    from deeptime.markov import pcca

    if n_states == len(M) or not _is_connected(M):
        return None
    degree = M @ c
    stationary = c * degree / np.sum(c * degree)
    try:
        with warnings.catch_warnings():
            # Singular systems, complex eigenvectors: the relation has no n_states slow processes to find.
            warnings.simplefilter("error", category=RuntimeWarning)
            warnings.simplefilter("error", category=UserWarning)
            model = pcca(M * c / degree[:, None], n_states, stationary_distribution=stationary)
    except (ValueError, AssertionError, ArithmeticError, IndexError, RuntimeError, RuntimeWarning, UserWarning):
        return None
    memberships = np.asarray(model.memberships, dtype=np.float64)
    return memberships if np.all(np.isfinite(memberships)) else None


def _populated_labels(memberships: FloatArray) -> NDArray[np.intp]:
    """Class of largest membership for each window; an empty class takes its most typical window from another.

    The inner simplex algorithm leaves none empty, since each vertex is a window of membership 1 in its own class.
    PCCA+ moves the vertices away from the windows and loses a class now and then.
    """
    labels: NDArray[np.intp] = np.argmax(memberships, axis=1)
    for empty in np.setdiff1d(np.arange(memberships.shape[1]), labels):
        counts = np.bincount(labels, minlength=memberships.shape[1])
        spare = np.flatnonzero(counts[labels] > 1)
        labels[spare[np.argmax(memberships[spare, empty])]] = empty
    return labels


def _in_order_of_appearance(labels: NDArray[np.intp]) -> NDArray[np.intp]:
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.intp)
    rank[np.argsort(first)] = np.arange(len(first))
    ordered: NDArray[np.intp] = rank[inverse]
    return ordered


def _is_connected(M: FloatArray) -> bool:
    from scipy.sparse.csgraph import connected_components

    n_components, _ = connected_components(_CONNECTED * M.max() < M, directed=False)
    return bool(n_components == 1)


def _checked(relation: ArrayLike, n_states: int, weights: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    M = np.asarray(relation, dtype=np.float64)
    if M.ndim != 2 or M.shape[0] != M.shape[1] or not np.all(np.isfinite(M)) or not np.allclose(M, M.T, atol=1e-6):
        raise InputError(f"relation must be a finite symmetric square matrix; got shape {M.shape}.")
    if M.min() < 0 or np.diag(M).min() <= 0:
        raise InputError(
            f"relation must not be negative and its diagonal must be positive; the smallest entry is {M.min():.3g}, "
            f"the smallest diagonal entry {np.diag(M).min():.3g}. Clip it to [0, 1] with unit diagonal."
        )
    if not 1 <= n_states <= len(M):
        raise InputError(f"n_states must lie between 1 and the number of windows ({len(M)}); got {n_states}.")
    c = np.ones(len(M)) if weights is None else np.asarray(weights, dtype=np.float64)
    if c.shape != (len(M),) or not np.all(c > 0) or not np.all(np.isfinite(c)):
        raise InputError(f"weights must be {len(M)} positive numbers; drop windows without weight.")
    return M, c
