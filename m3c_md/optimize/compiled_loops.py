"""Loops over windows for numba; import through `m3c_md.optimize.kernels.compiled`, which knows whether it is there.

Notation as in `window_loss`: scores (n_states, n_frames) belong to frames, ``windows`` (n_slices, n_windows) says which
frames a window has, and v holds the value 1{tuple ≠ (y, ..., y)} + Σ_i (s_{i, k_i} - s_{i, y}) of every label tuple.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from m3c_md.optimize.compiled_points import flip_loop, frame_sum_loop, mean_loop, nearest_loop, product_loop, state_loop

__all__ = [
    "active_loop",
    "cost_loop",
    "curvature_loop",
    "curvature_product_loop",
    "flip_loop",
    "frame_sum_loop",
    "mean_loop",
    "nearest_loop",
    "pass_loop",
    "product_loop",
    "slope_loop",
    "state_loop",
]

# Compiled once per machine and kept beside this file (or in the user's cache folder).
_options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(inline="always")
def _tuple_states(n_slices, n_states):  # type: ignore[no-untyped-def]
    """States of all label tuples, (n_tuples, n_slices), in the order of their base-n_states number."""
    n_tuples = n_states**n_slices
    states = np.empty((n_tuples, n_slices), dtype=np.intp)
    for number in range(n_tuples):
        rest = number
        for back in range(n_slices):
            states[number, n_slices - 1 - back] = rest % n_states
            rest //= n_states
    return states


@njit(inline="always")
def _near_tuples(lead, label, smoothing, places, values):  # type: ignore[no-untyped-def]
    """Fill in the tuples that may be less than μ below the largest v of one window, and some more.

    From the leads of its slices (zero for the own state). Returns the number of these tuples, the largest v and the
    number of the own tuple.
    """
    n_slices, n_states = lead.shape
    # The largest v without looking at tuples: as in `window_loss.window_losses`.
    positive, rival = 0.0, -np.inf
    for i in range(n_slices):
        best = -np.inf
        for state in range(n_states):
            if state != label:
                best = max(best, lead[i, state])
        rival = max(rival, best)
        positive += max(best, 0.0)
    highest = max(0.0, 1.0 + (positive if rival >= 0.0 else rival))
    # A state has a part in a tuple that matters only if it would with the best states in all other slices.
    allowance = highest - 1.0 - positive - smoothing - 1e-12 * (1.0 + positive)
    n_near, own = 1, 0
    places[0], values[0] = 0, 1.0
    for i in range(n_slices):
        best = 0.0
        for state in range(n_states):
            best = max(best, lead[i, state])
        n_choices = 0
        for state in range(n_states):
            if not lead[i, state] - best <= allowance:  # or not a number, which nothing may hide
                n_choices += 1
        # In place, from the end: what is there is read before it is overwritten.
        spot = n_near * n_choices
        for member in range(n_near - 1, -1, -1):
            place, value = places[member] * n_states, values[member]
            for state in range(n_states - 1, -1, -1):
                if not lead[i, state] - best <= allowance:
                    spot -= 1
                    places[spot], values[spot] = place + state, value + lead[i, state]
        n_near *= n_choices
        own = own * n_states + label
    largest = 0.0
    for member in range(n_near):
        if places[member] == own:
            values[member] = 0.0
        largest = max(largest, values[member])
    return n_near, largest, own


@njit(inline="always")
def _support(n_near, largest, smoothing, places, values, shares):  # type: ignore[no-untyped-def]
    """Project v / μ onto the simplex: keep the supporting tuples, fill in their probabilities; return their number."""
    n_support, total, threshold = 0, 0.0, 0.0
    for member in range(n_near):
        height = (values[member] - largest) / smoothing
        if height > -1.0:  # no other tuple can have a part
            places[n_support], values[n_support], shares[n_support] = places[member], values[member], height
            total += height
            n_support += 1
    while n_support > 0:  # what is not above the threshold of all is not above that of the rest either (Michelot)
        threshold = (total - 1.0) / n_support
        n_kept, kept = 0, 0.0
        for member in range(n_support):
            if shares[member] > threshold:
                places[n_kept], values[n_kept], shares[n_kept] = places[member], values[member], shares[member]
                kept += shares[member]
                n_kept += 1
        if n_kept == n_support:
            break
        n_support, total = n_kept, kept
    for member in range(n_support):
        shares[member] -= threshold
    return n_support


@njit(inline="always")
def _leads(scores, windows, window, label, lead):  # type: ignore[no-untyped-def]
    """Fill in s_ik - s_iy of one window; return the largest lead of a rival in any slice."""
    largest = -np.inf
    for i in range(lead.shape[0]):
        frame = windows[i, window]
        own = scores[label, frame]
        for state in range(lead.shape[1]):
            lead[i, state] = scores[state, frame] - own
            if state != label:
                largest = max(largest, lead[i, state])
    return largest


@njit(**_options)
def pass_loop(scores, windows, weights, labels, smoothing, slopes, curved, support):  # type: ignore[no-untyped-def]
    """Sum the smoothed losses of all windows; see `window_loss.SmoothedLoss` for the terms.

    ``slopes`` (n_states, n_frames), zero at first, receives the weighted derivatives with respect to the scores of
    frames; ``curved`` and ``support`` the windows with several supporting tuples and which these are. Returns Σ c of
    loss, smoothed loss, slack and violation, and the number of curved windows.
    """
    n_slices, n_windows = windows.shape
    n_states = scores.shape[0]
    n_tuples = n_states**n_slices
    states = _tuple_states(n_slices, n_states)
    lead = np.empty((n_slices, n_states))
    values, shares = np.empty(n_tuples), np.empty(n_tuples)
    places = np.empty(n_tuples, dtype=np.intp)
    loss, smoothed, slack, violation = 0.0, 0.0, 0.0, 0.0
    n_curved = 0
    for window in range(n_windows):
        label, weight = labels[window], weights[window]
        if _leads(scores, windows, window, label, lead) <= -1.0 - smoothing:
            continue  # right by the margin and more
        n_near, largest, own = _near_tuples(lead, label, smoothing, places, values)
        n_support = _support(n_near, largest, smoothing, places, values, shares)
        linear, square, at_own = 0.0, 0.0, 0.0
        for member in range(n_support):
            number, share = places[member], shares[member]
            linear += share * values[member]
            square += share * share
            if number == own:
                at_own = share
                continue
            for i in range(n_slices):
                frame = windows[i, window]
                slopes[states[number, i], frame] += weight * share
                slopes[label, frame] -= weight * share
        loss += weight * largest
        slack += weight * (largest - linear)
        smoothed += weight * (linear + 0.5 * smoothing * (1.0 - square))
        violation += weight * (1.0 - at_own)
        if n_support > 1:
            curved[n_curved] = window
            for number in range(n_tuples):
                support[n_curved, number] = False
            for member in range(n_support):
                support[n_curved, places[member]] = True
            n_curved += 1
    return loss, smoothed, slack, violation, n_curved


@njit(inline="always")
def _largest_lead(scores, change, length, windows, window, label):  # type: ignore[no-untyped-def]
    """Largest lead of a rival in any slice of a window at ``scores + length * change``."""
    largest = -np.inf
    for i in range(windows.shape[0]):
        frame = windows[i, window]
        own = scores[label, frame] + length * change[label, frame]
        for state in range(scores.shape[0]):
            if state != label:
                largest = max(largest, scores[state, frame] + length * change[state, frame] - own)
    return largest


@njit(**_options)
def active_loop(scores, change, reach, windows, labels, smoothing, active):  # type: ignore[no-untyped-def]
    """Fill in the windows that are not right by the margin everywhere up to ``reach``; return their number.

    The largest lead is convex along the line: what is below the margin at both ends is so in between.
    """
    n_active = 0
    for window in range(windows.shape[1]):
        label = labels[window]
        if (
            _largest_lead(scores, change, reach, windows, window, label) > -1.0 - smoothing
            or _largest_lead(scores, change, 0.0, windows, window, label) > -1.0 - smoothing
        ):
            active[n_active] = window
            n_active += 1
    return n_active


@njit(**_options)
def slope_loop(scores, change, length, windows, weights, labels, smoothing, active):  # type: ignore[no-untyped-def]
    """Derivative of the weighted smoothed loss of the ``active`` windows along ``scores + length * change``."""
    n_slices = windows.shape[0]
    n_states = scores.shape[0]
    n_tuples = n_states**n_slices
    states = _tuple_states(n_slices, n_states)
    lead, moves = np.empty((n_slices, n_states)), np.empty((n_slices, n_states))
    values, shares = np.empty(n_tuples), np.empty(n_tuples)
    places = np.empty(n_tuples, dtype=np.intp)
    total = 0.0
    for place in range(active.shape[0]):
        window = active[place]
        label = labels[window]
        largest = -np.inf
        for i in range(n_slices):
            frame = windows[i, window]
            own, own_move = scores[label, frame], change[label, frame]
            for state in range(n_states):
                moves[i, state] = change[state, frame] - own_move
                lead[i, state] = scores[state, frame] - own + length * moves[i, state]
                if state != label:
                    largest = max(largest, lead[i, state])
        if largest <= -1.0 - smoothing:
            continue
        for i in range(n_slices):
            lead[i, label] = 0.0
        n_near, largest, _ = _near_tuples(lead, label, smoothing, places, values)
        slope = 0.0
        for member in range(_support(n_near, largest, smoothing, places, values, shares)):
            along = 0.0  # zero for the own tuple
            for i in range(n_slices):
                along += moves[i, states[places[member], i]]
            slope += shares[member] * along
        total += weights[window] * slope
    return total


@njit(**_options)
def cost_loop(scores, windows, costs):  # type: ignore[no-untyped-def]
    """Fill in the loss of every window for every label, (n_windows, n_states)."""
    n_slices, n_windows = windows.shape
    n_states = scores.shape[0]
    best, second = np.empty(n_slices), np.empty(n_slices)
    place = np.empty(n_slices, dtype=np.intp)
    for window in range(n_windows):
        for i in range(n_slices):
            frame = windows[i, window]
            best[i], second[i], place[i] = -np.inf, -np.inf, 0
            for state in range(n_states):
                value = scores[state, frame]
                if value > best[i]:
                    second[i], best[i], place[i] = best[i], value, state
                elif value > second[i]:
                    second[i] = value
        for state in range(n_states):
            positive, largest = 0.0, -np.inf
            for i in range(n_slices):
                lead = (second[i] if place[i] == state else best[i]) - scores[state, windows[i, window]]
                positive += max(lead, 0.0)
                largest = max(largest, lead)
            costs[window, state] = max(0.0, 1.0 + (positive if largest >= 0.0 else largest))


@njit(**_options)
def curvature_loop(features, windows, weights, chosen, support, coordinates, rows):  # type: ignore[no-untyped-def]
    """Fill in the rows A with AᵀA = Σ c J'(I_S - 11ᵀ/|S|) J of some windows; see `blocks.curvature`.

    ``coordinates`` (n_states, n_contrasts) are the contrasts of the states; ``rows`` (n_rows, n_contrasts,
    n_features + 1) must be zero. The contrasts among tuples are those of `window_loss.orthonormal_contrasts`.
    """
    n_slices = windows.shape[0]
    n_states, n_contrasts = coordinates.shape
    n_features = features.shape[1]
    n_tuples = support.shape[1]
    states = _tuple_states(n_slices, n_states)
    members = np.empty(n_tuples, dtype=np.intp)
    factor = np.empty((n_slices, n_contrasts))
    done = 0
    for place in range(chosen.shape[0]):
        window = chosen[place]
        root = np.sqrt(weights[window])
        size = 0
        for number in range(n_tuples):
            if support[place, number]:
                members[size] = number
                size += 1
        for r in range(size - 1):
            factor[:] = 0.0
            length = np.sqrt((r + 1) * (r + 2.0))
            for member in range(r + 2):  # the first r + 1 tuples against the next
                number = members[member]
                share = root * ((1.0 if member <= r else -(r + 1.0)) / length)
                for i in range(n_slices):
                    for p in range(n_contrasts):
                        factor[i, p] += share * coordinates[states[number, i], p]
            for i in range(n_slices):
                frame = windows[i, window]
                for p in range(n_contrasts):
                    scale = factor[i, p]
                    if scale == 0.0:
                        continue
                    for feature in range(n_features):
                        rows[done, p, feature] += scale * features[frame, feature]
                    rows[done, p, n_features] += scale
            done += 1


@njit(**_options)
def curvature_product_loop(change, cells, ends, factors, slopes):  # type: ignore[no-untyped-def]
    """Add the change of the slopes to ``slopes`` when scores change; see `newton.CurvedWindows`, and there the arrays.

    ``change`` and ``slopes`` hold one value for every state of every frame, in the places that ``cells`` name.
    """
    n_slices = cells.shape[1]
    begin = 0
    for window in range(ends.shape[0]):
        end = ends[window]
        mean = 0.0
        for member in range(begin, end):
            for i in range(n_slices):
                mean += change[cells[member, i]]
        mean /= end - begin
        for member in range(begin, end):
            move = -mean
            for i in range(n_slices):
                move += change[cells[member, i]]
            move *= factors[window]
            for i in range(n_slices):
                slopes[cells[member, i]] += move
        begin = end
