"""Balanced labels for a fixed decision rule: the label step of Algorithm 1 (paper eq. m3c-D, line 8).

Given the loss H[n, k] that window n would have under label k, the labels of smallest total loss are wanted such
that every class holds between `lower` and `upper` windows. With the row sums D1 = 1 that the printed equation
lacks this is a transportation problem, whose linear programme has integral vertices: it is solved exactly, by the
minimum of each row where that is balanced (nearly always) and by min-cost flow on a much smaller graph otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from m3c_md.exceptions import InputError, SolverError

# Slack for shares such as 0.01 or 1/3 that binary floating point cannot represent.
_SHARE_TOLERANCE = 1e-9

# OR-tools works on integers and rejects costs whose product with the number of nodes nears 2**62.
_COST_BITS = 59
# Finer steps than this resolve only the rounding of the float64 costs themselves.
_MAX_COST_BITS = 50
# Flows of a vertex are whole numbers but for the tolerance of the simplex method.
_WHOLE = 1e-4
_REMEDY = "widen balance=, ask for fewer states, or use fewer windows"


@dataclass(frozen=True)
class BalancedLabels:
    """Labels of least total cost under class balance.

    Attributes
    ----------
    labels : (N,) ndarray of intp
        Class of each window.
    cost : float
        Sum of the chosen costs.
    counts : (k,) ndarray of intp
        Windows in each class.
    method : {"argmin", "flow"}
        Whether the row minima were already balanced or the min-cost flow had to decide.
    """

    labels: NDArray[np.intp]
    cost: float
    counts: NDArray[np.intp]
    method: Literal["argmin", "flow"]


def check_shares(n_states: int, balance: tuple[float, float]) -> None:
    """Refuse shares of the windows that no number of windows can satisfy; they must lie on both sides of 1/κ.

    Examples
    --------
    >>> check_shares(3, (0.01, 0.99))
    """
    (rho_l, rho_u), fair = balance, 1.0 / n_states
    if not (0.0 <= rho_l <= fair + _SHARE_TOLERANCE and fair - _SHARE_TOLERANCE <= rho_u <= 1.0):
        raise InputError(
            f"balance=({rho_l}, {rho_u}) must satisfy 0 <= lower <= 1/n_states = {fair:.6g} <= upper <= 1; "
            "lower the first or raise the second share, or ask for fewer states."
        )


def class_bounds(n_windows: int, n_states: int, balance: tuple[float, float]) -> tuple[int, int]:
    """Smallest and largest number of windows in a class: ceil(ϱ_l N) and floor(ϱ_u N), the former at least 1.

    Parameters
    ----------
    n_windows : int
        Number N of windows.
    n_states : int
        Number κ of classes.
    balance : (float, float)
        Shares (ϱ_l, ϱ_u) with 0 <= ϱ_l <= 1/κ <= ϱ_u <= 1.

    Returns
    -------
    lower, upper : int
        Bounds that at least one labelling satisfies.

    Raises
    ------
    InputError
        If the shares are out of order or no labelling of `n_windows` windows satisfies them.

    Examples
    --------
    >>> class_bounds(1000, 3, (0.01, 0.99))
    (10, 990)
    """
    rho_l, rho_u = (float(share) for share in balance)
    if n_states < 1 or n_windows < n_states:
        raise InputError(
            f"{n_windows} windows cannot populate {n_states} states; supply more data or ask for fewer states."
        )
    check_shares(n_states, (rho_l, rho_u))
    fair = 1.0 / n_states
    # A class without windows is no state: the paper's ϱ_l N <= count allows it for ϱ_l = 0, we do not.
    lower = max(1, math.ceil(rho_l * n_windows * (1.0 - _SHARE_TOLERANCE)))
    upper = math.floor(rho_u * n_windows * (1.0 + _SHARE_TOLERANCE))
    if n_states * lower > n_windows or n_states * upper < n_windows:
        raise InputError(
            f"balance=({rho_l}, {rho_u}) asks for {lower} to {upper} windows in each of {n_states} states, which "
            f"{n_windows} windows cannot satisfy; widen the shares around 1/n_states = {fair:.6g}."
        )
    return lower, upper


def balanced_labels(costs: ArrayLike, lower: int, upper: int) -> BalancedLabels:
    """Labels of least total cost with `lower` to `upper` windows in each class (eq. m3c-D with D1 = 1).

    Parameters
    ----------
    costs : (N, k) array_like
        Cost of each label for each window, the matrix H of the paper.
    lower, upper : int
        Bounds on the number of windows in a class, see `class_bounds`.

    Returns
    -------
    BalancedLabels
        The optimum. Row minima (lowest index on ties) where they are balanced; otherwise the min-cost flow, in which
        a move's extra cost is resolved to at least 2**-38 of the largest one for up to a million windows.

    Raises
    ------
    InputError
        If a cost is not finite or no labelling satisfies the bounds.
    SolverError
        If neither the min-cost flow nor, in its place, the linear program delivers an optimum.

    Examples
    --------
    >>> balanced_labels([[0.0, 5.0], [0.0, 2.0], [0.0, 9.0]], lower=1, upper=2).labels
    array([0, 1, 0])
    """
    H = _checked_costs(costs)
    n_windows, n_classes = H.shape
    if not (0 <= lower <= upper and n_classes * lower <= n_windows <= n_classes * upper):
        raise InputError(
            f"{n_windows} windows cannot be labelled with {lower} to {upper} in each of {n_classes} classes; "
            "take the bounds from class_bounds."
        )
    labels = np.argmin(H, axis=1)
    counts = np.bincount(labels, minlength=n_classes)
    method: Literal["argmin", "flow"] = "argmin"
    if counts.min() < lower or counts.max() > upper:
        method = "flow"
        labels = _relabel_by_flow(H, labels, lower, upper)
        counts = np.bincount(labels, minlength=n_classes)
        if counts.min() < lower or counts.max() > upper:
            raise SolverError(
                f"the min-cost flow of the label step left {counts.min()} to {counts.max()} windows to the classes, "
                f"outside of {lower} to {upper}; {_REMEDY}"
            )
    cost = float(np.take_along_axis(H, labels[:, None], axis=1).sum())
    return BalancedLabels(labels=labels, cost=cost, counts=counts, method=method)


def label_prices(costs: ArrayLike, labels: ArrayLike, lower: int, upper: int) -> NDArray[np.float64]:
    """Class prices that certify the optimality of balanced labels.

    Labels are optimal exactly if prices p exist under which each window sits in its cheapest class of H + p, a class
    below `upper` has p <= 0 and one above `lower` has p >= 0. These are difference constraints on the classes and a
    zero reference, solved by Bellman-Ford. For labels that are not optimal no such prices exist, and `price_bound`
    of what is returned stays below their cost.

    Parameters
    ----------
    costs : (N, k) array_like
        Cost of each label for each window.
    labels : (N,) array_like of int
        Labels within the bounds.
    lower, upper : int
        Bounds on the number of windows in a class.

    Returns
    -------
    (k,) ndarray
        Price of each class: positive where `upper` binds, negative where `lower` binds, otherwise zero.

    Examples
    --------
    >>> costs = [[0.0, 5.0], [0.0, 2.0], [0.0, 9.0]]
    >>> prices = label_prices(costs, [0, 1, 0], lower=1, upper=2)
    >>> price_bound(costs, prices, lower=1, upper=2)  # equals the cost of these labels: they are optimal
    2.0
    """
    H = _checked_costs(costs)
    y = np.asarray(labels, dtype=np.intp)
    n_classes = H.shape[1]
    counts = np.bincount(y, minlength=n_classes)
    # limit[j, k] bounds p_j - p_k; index n_classes is the reference, whose price is zero.
    limit = np.full((n_classes + 1, n_classes + 1), np.inf)
    for j in range(n_classes):
        members = H[y == j]
        if len(members):
            limit[j, :n_classes] = (members - members[:, j : j + 1]).min(axis=0)
    limit[:n_classes, -1][counts < upper] = 0.0
    limit[-1, :n_classes][counts > lower] = 0.0
    prices = np.zeros(n_classes + 1)
    for _ in range(n_classes + 1):
        prices = np.minimum(prices, (limit + prices).min(axis=1))
    relative: NDArray[np.float64] = prices[:-1] - prices[-1]
    return relative


def price_bound(costs: ArrayLike, prices: ArrayLike, lower: int, upper: int) -> float:
    """Lower bound on the cost of every balanced labelling, by weak duality, for any prices.

    Parameters
    ----------
    costs : (N, k) array_like
        Cost of each label for each window.
    prices : (k,) array_like
        Price of each class, for instance from `label_prices`.
    lower, upper : int
        Bounds on the number of windows in a class.

    Returns
    -------
    float
        Σ_n min_k (H[n, k] + p_k) − upper Σ_k max(p_k, 0) − lower Σ_k min(p_k, 0).

    Examples
    --------
    >>> price_bound([[0.0, 5.0], [0.0, 2.0], [0.0, 9.0]], [0.0, -1.0], lower=1, upper=2)
    1.0
    """
    H = _checked_costs(costs)
    p = np.asarray(prices, dtype=np.float64)
    bounds = upper * np.maximum(p, 0.0) + lower * np.minimum(p, 0.0)
    return float((H + p).min(axis=1).sum() - bounds.sum())


def _checked_costs(costs: ArrayLike) -> NDArray[np.float64]:
    H = np.asarray(costs, dtype=np.float64)
    if H.ndim != 2 or H.shape[1] == 0:
        raise InputError(f"costs must have shape (n_windows, n_classes), got {H.shape}.")
    if not np.isfinite(H).all():
        row, column = np.argwhere(~np.isfinite(H))[0]
        raise InputError(
            f"costs[{row}, {column}] = {H[row, column]} is not finite; check the features and the decision rule."
        )
    return H


def _useful_moves(
    H: NDArray[np.float64], labels: NDArray[np.intp], lower: int, upper: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Window, new class and extra cost of every move away from the row minima that some optimum may need.

    With m = total excess over `upper` + total deficit below `lower` of the row minima y0, the m cheapest moves of
    each pair of classes j -> k suffice. Proof. Take an optimum with the fewest windows moved away from y0. Its moves,
    seen as arcs j -> k between classes, contain no cycle: undoing one keeps all counts and, as y0 is the minimum of
    each row, never costs. So they decompose into simple paths j ~> k, and again undoing a path never costs, hence
    must be infeasible: either j sits at `upper`, then the paths from j are its excess in y0, or k sits at `lower`,
    then the paths into k are its deficit. So there are at most m paths, and as a simple path leaves a class at most
    once, at most m windows leave any class j. If one of them moves j -> k without being among the m cheapest for
    that, then one of those m still sits in j, and exchanging the two keeps the counts and does not cost.
    """
    n_classes = H.shape[1]
    counts = np.bincount(labels, minlength=n_classes)
    m = int(np.maximum(counts - upper, 0).sum() + np.maximum(lower - counts, 0).sum())
    windows, classes, extras = [], [], []
    for j in range(n_classes):
        members = np.flatnonzero(labels == j)
        for k in range(n_classes):
            if k == j:
                continue
            extra = H[members, k] - H[members, j]
            cheapest = np.argpartition(extra, m - 1)[:m] if m < len(members) else np.arange(len(members))
            windows.append(members[cheapest])
            classes.append(np.full(len(cheapest), k, dtype=np.intp))
            extras.append(extra[cheapest])
    return np.concatenate(windows), np.concatenate(classes), np.concatenate(extras)


def _relabel_by_flow(H: NDArray[np.float64], labels: NDArray[np.intp], lower: int, upper: int) -> NDArray[np.intp]:
    """Optimal balanced labels from the row minima `labels`, by min-cost flow over the useful moves.

    Each movable window sends one unit to a class; a class absorbs what it lacks to `lower` and passes the rest, up
    to `upper`, on to a common sink.
    """
    windows, classes, extras = _useful_moves(H, labels, lower, upper)
    movable, tails = np.unique(windows, return_inverse=True)
    n_movable, n_classes = len(movable), H.shape[1]
    held = np.bincount(labels, minlength=n_classes) - np.bincount(labels[movable], minlength=n_classes)
    missing = np.maximum(lower - held, 0)
    class_nodes = n_movable + np.arange(n_classes)
    sink = n_movable + n_classes
    n_moves = len(windows)
    flows = _min_cost_flow(
        tails=np.concatenate([tails, np.arange(n_movable), class_nodes]),
        heads=np.concatenate([n_movable + classes, n_movable + labels[movable], np.full(n_classes, sink)]),
        capacities=np.concatenate([np.ones(n_moves + n_movable, dtype=np.int64), upper - held - missing]),
        costs=np.concatenate([extras, np.zeros(n_movable + n_classes)]),
        supplies=np.concatenate([np.ones(n_movable, dtype=np.int64), -missing, [missing.sum() - n_movable]]),
    )
    moved = flows[:n_moves] > 0
    relabelled = labels.copy()
    relabelled[windows[moved]] = classes[moved]
    return relabelled


@cache
def _flow_solver() -> Any:
    """OR-tools' min-cost flow, or None: after cvxpy has loaded its own HiGHS it cannot be loaded (symbol clash).

    Asked once, for a failed import takes as long as many label steps.
    """
    try:
        from ortools.graph.python.min_cost_flow import SimpleMinCostFlow
    except ImportError:
        return None
    return SimpleMinCostFlow


def _min_cost_flow(
    tails: NDArray[np.intp],
    heads: NDArray[np.intp],
    capacities: NDArray[np.int64],
    costs: NDArray[np.float64],
    supplies: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Optimal flow on each arc for non-negative costs, rounded as finely as the solver's range allows.

    The linear program, which is exact too, answers where OR-tools is missing or does not report an optimum.
    """
    solver = _flow_solver()
    if solver is None:
        return _flow_by_linear_program(tails, heads, capacities, costs, supplies)
    n_nodes = len(supplies)
    bits = min(_MAX_COST_BITS, _COST_BITS - n_nodes.bit_length())
    largest = float(costs.max(initial=0.0)) or 1.0
    # Divide first: a scale factor by itself would overflow for costs near the smallest floats.
    integer_costs = np.rint(costs / largest * 2.0**bits).astype(np.int64)
    network = solver()
    arcs = network.add_arcs_with_capacity_and_unit_cost(
        tails.astype(np.int32), heads.astype(np.int32), capacities.astype(np.int64), integer_costs
    )
    network.set_nodes_supplies(np.arange(n_nodes, dtype=np.int32), supplies.astype(np.int64))
    status = network.solve()
    if status != network.OPTIMAL:
        try:
            return _flow_by_linear_program(tails, heads, capacities, costs, supplies)
        except SolverError as error:
            message = f"the min-cost flow of the label step over {n_nodes} nodes ended with status {status}; {error}"
            raise SolverError(message) from error
    flows: NDArray[np.int64] = network.flows(arcs)
    return flows


def _flow_by_linear_program(
    tails: NDArray[np.intp],
    heads: NDArray[np.intp],
    capacities: NDArray[np.int64],
    costs: NDArray[np.float64],
    supplies: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The same flow by the simplex method: slower, but its vertices are integral all the same."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    arcs = np.arange(len(tails))
    ends = (np.concatenate([tails, heads]), np.concatenate([arcs, arcs]))
    incidence = coo_array((np.repeat([1.0, -1.0], len(tails)), ends), shape=(len(supplies), len(tails)))
    bounds = np.column_stack([np.zeros(len(tails)), capacities])
    largest = float(costs.max(initial=0.0)) or 1.0
    result = linprog(costs / largest, A_eq=incidence.tocsr(), b_eq=supplies, bounds=bounds, method="highs-ds")
    if result.status != 0:
        raise SolverError(
            f"the linear program of the label step ended with status {result.status} ({result.message}); {_REMEDY}"
        )
    flows = np.asarray(result.x, dtype=np.float64)
    if not np.abs(flows - np.rint(flows)).max(initial=0.0) <= _WHOLE:
        raise SolverError(f"the linear program of the label step gave flows that are no whole numbers; {_REMEDY}")
    return np.rint(flows).astype(np.int64)
