"""Loops over frames and cells for numba; `m3c_md.optimize.compiled_loops` hands them out with those over windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# Compiled once per machine and kept beside this file (or in the user's cache folder).
_options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**_options)
def frame_sum_loop(windows, weights, labels, totals):  # type: ignore[no-untyped-def]
    """Add the weight of every window to its frames, in the row of its label: ``totals`` (n_states, n_frames)."""
    for window in range(windows.shape[1]):
        for i in range(windows.shape[0]):
            totals[labels[window], windows[i, window]] += weights[window]


@njit(fastmath={"nnan", "ninf", "nsz"}, **_options)
def nearest_loop(points, centers, labels):  # type: ignore[no-untyped-def]
    """Fill in the nearest centre of every point, the first on ties; ``centers`` is (n_columns, n_centers)."""
    n_columns, n_centers = centers.shape
    squares = np.empty(n_centers)
    for point in range(points.shape[0]):
        squares[:] = 0.0
        for column in range(n_columns):
            value = points[point, column]
            for center in range(n_centers):
                difference = value - centers[column, center]
                squares[center] += difference * difference
        best = squares[0]
        for center in range(1, n_centers):
            best = min(best, squares[center])
        place = 0
        while squares[place] != best:  # apart from the minimum, so that the processor takes several at a time there
            place += 1
        labels[point] = place


@njit(**_options)
def mean_loop(points, labels, counts, sums):  # type: ignore[no-untyped-def]
    """Add every point to the row of its label in ``sums`` (n_labels, n_columns), and one to its count."""
    for point in range(points.shape[0]):
        label = labels[point]
        counts[label] += 1
        for column in range(points.shape[1]):
            sums[label, column] += points[point, column]


@njit(fastmath={"reassoc", "contract", "nsz"}, **_options)
def state_loop(turns, phases, weights, bias, states, leads):  # type: ignore[no-untyped-def]
    """Fill in the state with the largest bias + weights · cos(2π (turns + phases)) of every frame, and its lead."""
    n_frames, n_features = turns.shape
    features = np.empty(n_features, dtype=np.float32)
    # sin(πt) by its series: below 1e-7 for half a turn, and several at a time, which the library's cosine is not.
    a, b, c = np.float32(3.14159265), np.float32(-5.16771278), np.float32(2.55016404)
    d, e, f = np.float32(-0.59926453), np.float32(0.08214589), np.float32(-0.00737043)
    half, one, two = np.float32(0.5), np.float32(1.0), np.float32(2.0)
    for frame in range(n_frames):
        for feature in range(n_features):
            t = turns[frame, feature] + phases[feature]
            t -= np.floor(t + half)
            square = t * t
            sine = t * (a + square * (b + square * (c + square * (d + square * (e + square * f)))))
            features[feature] = one - two * sine * sine
        best, second = -np.inf, -np.inf
        for state in range(weights.shape[0]):
            total = np.float32(0.0)
            for feature in range(n_features):
                total += weights[state, feature] * features[feature]
            score = total + bias[state]
            if score > best:
                best, second, states[frame] = score, best, state
            elif score > second:
                second = score
        leads[frame] = best - second


@njit(**_options)
def product_loop(coefficients, features, sums):  # type: ignore[no-untyped-def]
    """Add Σ_n coefficients[k, n] features[n] to ``sums`` (n_states, n_features), leaving zeros out: most are."""
    n_states, n_frames = coefficients.shape
    n_features = features.shape[1]
    for frame in range(n_frames):
        for state in range(n_states):
            factor = coefficients[state, frame]
            if factor != 0.0:
                for feature in range(n_features):
                    sums[state, feature] += factor * features[frame, feature]


@njit(**_options)
def flip_loop(symmetric, labels, n_states):  # type: ignore[no-untyped-def]
    """Raise Q by single flips of cells, steepest first, in place; see `flip_to_metastability`."""
    n = symmetric.shape[0]
    visits, to_state = np.zeros(n), np.zeros((n, n_states))
    mass, inner = np.zeros(n_states), np.zeros(n_states)
    members = np.zeros(n_states, dtype=np.intp)
    for i in range(n):
        for j in range(n):
            visits[i] += symmetric[i, j]
            to_state[i, labels[j]] += symmetric[i, j]
    for i in range(n):
        mass[labels[i]] += visits[i]
        inner[labels[i]] += to_state[i, labels[i]]
        members[labels[i]] += 1
    while True:
        best, cell, target = 1e-12, -1, -1  # as in `flip_to_metastability`: smaller gains are rounding
        for i in range(n):
            source = labels[i]
            rest = mass[source] - visits[i]
            if members[source] <= 1 or rest <= 0.0 or visits[i] == 0.0:
                continue
            own = symmetric[i, i]
            lost = (inner[source] - 2.0 * to_state[i, source] + own) / rest - inner[source] / mass[source]
            for state in range(n_states):
                if state != source:
                    before = inner[state] / mass[state] if mass[state] > 0.0 else 0.0
                    after = (inner[state] + 2.0 * to_state[i, state] + own) / (mass[state] + visits[i])
                    if lost + after - before > best:
                        best, cell, target = lost + after - before, i, state
        if cell < 0:
            return
        source = labels[cell]
        inner[source] += symmetric[cell, cell] - 2.0 * to_state[cell, source]
        inner[target] += symmetric[cell, cell] + 2.0 * to_state[cell, target]
        mass[source] -= visits[cell]
        mass[target] += visits[cell]
        members[source] -= 1
        members[target] += 1
        for j in range(n):
            to_state[j, source] -= symmetric[j, cell]
            to_state[j, target] += symmetric[j, cell]
        labels[cell] = target
