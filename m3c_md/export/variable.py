"""A smooth function of columns that tells states apart: differences of the scores of a rule, as series of cosines.

With features φ(x) = sqrt(2/d) cos((x - centre) Ω + p), the difference of two scores is a sum of cosines, too. Centre,
scale, metric and bandwidth are in Ω and the phases, and features of one frequency (cosine and sine of orthogonal
features) are one term, so that half of the cosines remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError
from m3c_md.inputs.settings import as_list, check_choice, check_integer
from m3c_md.optimize.blocks import Rule
from m3c_md.optimize.feature_map import FourierMap

Kind = Literal["difference", "membership"]
# The logistic function of twice the difference has the slope of `MarginModel.memberships` at a border.
STEEPNESS = 2.0


@dataclass(frozen=True)
class CollectiveVariable:
    """Function of columns x whose level says how far a frame is on the way from one state to another.

    With d_k = Σ_m A_mk cos(x·ω_m + p_mk) + c_k, the score of the first state less that of another, it is the mean of
    all d_k for ``kind="difference"`` (kept as one sum of cosines), and 1 / (1 + Σ_k exp(-2 d_k)) for
    ``kind="membership"``: the share of the first state among those that are named.

    A merged state has several rows of the rule. The largest of their scores has kinks, which cannot pull, so that the
    smooth maximum log(Σ exp(2 f)) / 2 stands for it: larger by log(m) / 2 at most, for m rows. The d_k are then
    differences of the first row to all others.

    Attributes
    ----------
    states : tuple of int
        The first state, and those that it is compared with.
    kind : "difference" or "membership"
    frequencies : (n_columns, n_terms) array
        ω
    amplitudes, phases : (n_terms, n_differences) arrays
        A and p.
    offsets : (n_differences,) array
        c
    n_own : int
        How many of the differences, the first ones, are to rows of the first state itself.
    """

    states: tuple[int, ...]
    kind: Kind
    frequencies: FloatArray
    amplitudes: FloatArray
    phases: FloatArray
    offsets: FloatArray
    n_own: int = 0

    @property
    def n_columns(self) -> int:
        """Number of columns of a frame."""
        return int(self.frequencies.shape[0])

    @property
    def n_terms(self) -> int:
        """Number of cosines of a difference."""
        return int(self.frequencies.shape[1])

    @property
    def n_differences(self) -> int:
        """Number of states that the first one is compared with."""
        return len(self.offsets)

    @property
    def has_merged(self) -> bool:
        """Whether some of the states have several rows of the rule."""
        return self.n_differences > len(self.states) - 1

    @property
    def labels(self) -> list[str]:
        """One word for every difference: the state, or the number of the row where states have several."""
        if self.has_merged:
            return [f"r{k + 1}" for k in range(self.n_differences)]
        return [str(k) for k in self.states[1 : 1 + self.n_differences]]

    @property
    def formula(self) -> str:
        """What it is, in the words of the rule."""
        first, others = self.states[0], self.states[1:]
        if self.kind == "difference" and len(others) > 1:
            return f"f_{first} - ({' + '.join(f'f_{k}' for k in others)}) / {len(others)}"
        if self.kind == "difference":
            return f"f_{first} - f_{others[0]}"
        return f"1 / (1 + {' + '.join(f'exp(-{STEEPNESS:g} (f_{first} - f_{k}))' for k in others)})"

    def expression(self, differences: Sequence[str]) -> str:
        """Write the variable down as a formula of its differences, for programs that read formulas.

        Examples
        --------
        >>> one = np.ones((1, 2))
        >>> variable = CollectiveVariable((0, 1, 2), "membership", np.ones((1, 1)), one, one, np.zeros(2))
        >>> variable.expression(["a", "b"])
        '1/(1+exp(-2*a)+exp(-2*b))'
        """
        powers = [f"exp(-{STEEPNESS:g}*{difference})" for difference in differences]
        own, others = "+".join(["1", *powers[: self.n_own]]), "+".join(powers[self.n_own :])
        if self.kind == "membership":
            return f"{own if self.n_own == 0 else f'({own})'}/({own}+{others})"
        return f"log(({own})/({others}))/{STEEPNESS:g}" if self.has_merged else differences[0]

    @property
    def bounds(self) -> tuple[float, float]:
        """Values that it never leaves."""
        if self.kind == "membership":
            return 0.0, 1.0
        reach = np.abs(self.amplitudes).sum(axis=0)
        if self.has_merged:
            most = 2.0 * float((reach + np.abs(self.offsets)).max()) + np.log(self.n_differences) / STEEPNESS
            return -most, most
        return float(self.offsets[0] - reach[0]), float(self.offsets[0] + reach[0])

    def blurred(self, strength: float) -> CollectiveVariable:
        """Return the same variable seen through a blur: less level inside of states and less steep at borders.

        A mean over normally distributed shifts of the columns, with variance τ², damps cos(x·ω + p) by exp(-τ²|ω|²/2);
        ``strength`` is the mean of these exponents. Where states are merged, or for shares, differences are blurred
        before they are put together.
        """
        squares = (self.frequencies**2).sum(axis=0)
        damping = np.exp(-strength * squares / squares.mean())
        return replace(self, amplitudes=self.amplitudes * damping[:, None])

    def values(self, frames: FloatArray) -> FloatArray:
        """Value of each frame, (n_frames, n_columns) to (n_frames,)."""
        return self.values_and_gradients(frames)[0]

    def values_and_gradients(self, frames: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Value of each frame, (n_frames,), and its derivatives with respect to the columns, (n_frames, n_columns)."""
        angles = (frames @ self.frequencies)[:, :, None] + self.phases
        differences = (np.cos(angles) * self.amplitudes).sum(axis=1) + self.offsets
        slopes = -np.sin(angles) * self.amplitudes
        if self.kind == "difference" and not self.has_merged:
            return differences[:, 0], slopes[:, :, 0] @ self.frequencies.T
        values, chain = self._joined(np.exp(-STEEPNESS * differences))
        return values, (slopes @ chain[:, :, None])[:, :, 0] @ self.frequencies.T

    def _joined(self, powers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values, and derivatives with respect to the differences d, from exp(-2 d), (n_frames, n_differences)."""
        own = 1.0 + powers[:, : self.n_own].sum(axis=1)
        others = powers[:, self.n_own :].sum(axis=1)
        is_own = np.arange(self.n_differences) < self.n_own
        if self.kind == "difference":
            return np.log(own / others) / STEEPNESS, powers * np.where(
                is_own, -1.0 / own[:, None], 1.0 / others[:, None]
            )
        total = own + others
        signed = np.where(is_own, -others[:, None], own[:, None])
        return own / total, STEEPNESS * powers * signed / total[:, None] ** 2


def collective_variable(
    feature_map: FourierMap,
    rule: Rule,
    states: tuple[int, ...],
    kind: Kind,
    rows: Sequence[Sequence[int]] | None = None,
) -> CollectiveVariable:
    """Fold a rule into the collective variable of some of its states.

    Parameters
    ----------
    feature_map : FourierMap
        With bandwidth, metric and centre.
    rule : Rule
        Weights and bias of all rows.
    states, kind
        As `check_states` returns them.
    rows : sequence of sequences of int, optional
        Rows of the rule that each of the states has; by default the one of its number.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> half = rng.normal(size=(2, 5))
    >>> features = FourierMap(np.hstack([half, half]), np.repeat([0.0, -0.5 * np.pi], 5), rng.normal(size=2))
    >>> rule, x = Rule(rng.normal(size=(3, 10)), rng.normal(size=3)), rng.normal(size=(4, 2))
    >>> variable = collective_variable(features, rule, (2, 0), "difference")
    >>> scores = rule.scores(features(x))
    >>> variable.n_terms, bool(np.abs(variable.values(x) - (scores[2] - scores[0])).max() < 1e-12)
    (5, True)
    """
    members = [[state] for state in states] if rows is None else [list(some) for some in rows]
    first, others = members[0][0], [*members[0][1:], *(row for some in members[1:] for row in some)]
    weights = np.sqrt(2.0 / feature_map.n_features) * (rule.weights[first] - rule.weights[others]).T
    offsets = rule.bias[first] - rule.bias[others]
    if kind == "difference" and len(others) == len(states) - 1:
        weights, offsets = weights.mean(axis=1, keepdims=True), offsets.mean(keepdims=True)
    elif kind == "difference" and len(states) > 2:
        raise InputError(f"states={states}: a merged state is compared with one other; name two, or use 'membership'")
    phases = feature_map.phases - feature_map.center @ feature_map.frequencies
    # Terms of one frequency: Σ_j u_j cos(θ + p_j) is the real part of (Σ_j u_j exp(i p_j)) exp(i θ).
    frequencies, which = _distinct(feature_map.frequencies)
    vectors = np.zeros((frequencies.shape[1], len(offsets)), dtype=np.complex128)
    np.add.at(vectors, which, weights * np.exp(1j * phases)[:, None])
    return CollectiveVariable(
        states, kind, frequencies, np.abs(vectors), np.angle(vectors), offsets, len(members[0]) - 1
    )


def _distinct(frequencies: FloatArray) -> tuple[FloatArray, np.ndarray]:
    """Return the columns that differ, in the order of their first appearance, and which of them each column is."""
    _, first, which = np.unique(frequencies, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return frequencies[:, first[order]], rank[which.ravel()]


def check_states(states: Any, n_states: int, kind: Any) -> tuple[int, ...]:
    """States of a collective variable as users give them, checked; the two that there are where none are given.

    All others are added to one that stands alone.

    Examples
    --------
    >>> check_states([2, 0], 3, "difference"), check_states(None, 2, "membership"), check_states(2, 3, "difference")
    ((2, 0), (0, 1), (2, 0, 1))
    """
    check_choice("kind", kind, get_args(Kind))
    if states is None and n_states > 2:
        last = n_states - 1
        raise InputError(f"states is missing: name one or two of the {n_states} states, e.g. {last} or (0, {last})")
    named: Sequence[Any] = (0, 1) if states is None else as_list("states", states)
    checked = tuple(check_integer("states", state, 0) for state in named)
    if max(checked, default=0) >= n_states:
        raise InputError(f"states={checked}: there is no state {max(checked)}; they are numbered 0 to {n_states - 1}")
    if len(checked) == 1:
        checked += tuple(state for state in range(n_states) if state != checked[0])
    if len(set(checked)) < len(checked) or len(checked) < 2:
        raise InputError(f"states={checked} must be two or more different states, or one, for one against all others")
    return checked
