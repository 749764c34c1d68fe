"""The fitted model: a decision rule on continuous coordinates, with the record of how it was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from deeptime.base import Model, Transformer
from numpy.typing import NDArray

from m3c_md.exceptions import InputError
from m3c_md.inputs import as_trajectories, check_choice, check_integer, is_list_of_arrays
from m3c_md.optimize.blocks import Rule
from m3c_md.optimize.feature_map import FourierMap
from m3c_md.optimize.window_loss import project_to_simplex
from m3c_md.search.selection import Candidate

if TYPE_CHECKING:
    import pandas as pd

FloatArray = NDArray[np.float64]

# Frames whose features are held at a time.
FRAMES_AT_ONCE = 16_384


class M3CModel(Model, Transformer):  # type: ignore[misc]
    """Metastable states as a decision rule: state = argmax_k (w_k · φ(x) + b_k), ordered by falling population.

    Parameters
    ----------
    base_map : FourierMap
        Feature map of bandwidth 1, common to all candidates.
    scale : (n_columns,) array
        Divisors of the columns.
    records : sequence of Candidate
        Everything that was tried, the winner first.
    lagtime : int
    effective_sample : float
        Effective sample size of the pair weights as a fraction of the pairs; 1 if they are uniform.
    chosen : int
        Which record is the rule of this model.

    Attributes
    ----------
    warnings : list of str
        What was said during the fit.
    """

    def __init__(
        self,
        base_map: FourierMap,
        scale: FloatArray,
        records: Sequence[Candidate],
        *,
        lagtime: int,
        effective_sample: float = 1.0,
        chosen: int = 0,
    ) -> None:
        super().__init__()
        self.base_map = base_map
        self.scale = scale
        self.records = [_without_labels(record) for record in records]
        self.lagtime = lagtime
        self.effective_sample = effective_sample
        self.chosen = chosen
        self.warnings: list[str] = []
        winner = self.records[chosen]
        self.feature_map = base_map.with_bandwidth(winner.bandwidth, scale)
        order = np.argsort(-winner.populations, kind="stable")
        self.rule = Rule(winner.optimum.rule.weights[order], winner.optimum.rule.bias[order])
        self.populations = winner.populations[order]

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.populations)

    @property
    def bandwidth(self) -> float:
        """Width σ of the Gaussian kernel, in units of the scaled columns."""
        return self.records[self.chosen].bandwidth

    @property
    def objective(self) -> float:
        """β/2 ||W||² + weighted mean loss of the rule for its labels."""
        return self.records[self.chosen].optimum.objective

    @property
    def lower_bound(self) -> float:
        """Value of a feasible dual point: no rule does better for the same labels."""
        return self.records[self.chosen].optimum.lower_bound

    @property
    def gap(self) -> float:
        """Certified relative duality gap, (objective - lower bound) / objective."""
        return self.records[self.chosen].optimum.gap

    @property
    def trace(self) -> tuple[float, ...]:
        """Objective after every half step of the last local search; it never rises."""
        return self.records[self.chosen].optimum.trace

    def alternative(self, number: int) -> M3CModel:
        """Return the model of another row of `candidates`, to look at before you trust the winner.

        A row that did not reach the end was fitted to a sample of the windows only and less accurately.
        """
        if not 0 <= check_integer("number", number, 0) < len(self.records):
            raise InputError(f"number={number} must be a row of candidates, 0 to {len(self.records) - 1}")
        return M3CModel(
            self.base_map,
            self.scale,
            self.records,
            lagtime=self.lagtime,
            effective_sample=self.effective_sample,
            chosen=number,
        )

    def transform(self, data: Any) -> Any:
        """State of every frame.

        Parameters
        ----------
        data : array (n_frames, n_columns), DataFrame, or list of them
            With the columns that the model was fitted to.

        Returns
        -------
        (n_frames,) int32 array, or list of them
        """
        return self._each(data, lambda scores: scores.argmax(axis=1).astype(np.int32))

    def decision_function(self, data: Any) -> Any:
        """Scores w_k · φ(x) + b_k, (n_frames, n_states); the largest decides."""
        return self._each(data, lambda scores: scores)

    def margin(self, data: Any) -> Any:
        """Lead of the largest score over the second largest, (n_frames,): small at a boundary, ≥ 1 well inside."""

        def lead(scores: FloatArray) -> FloatArray:
            top = np.partition(scores, -2, axis=1)[:, -2:]
            return np.asarray(top[:, 1] - top[:, 0])

        return self._each(data, lead)

    def memberships(self, data: Any) -> Any:
        """Soft assignment, (n_frames, n_states); rows are not negative and sum to 1.

        The Euclidean projection of the scores onto the probabilities: a frame with margin ≥ 1 belongs to its state
        alone, between two states membership changes linearly with the margin.
        """
        return self._each(data, lambda scores: project_to_simplex(scores.T).T)

    def sample(
        self, data: Any, n: int, *, by: Literal["margin", "random"] = "margin", random_state: Any = None
    ) -> list[NDArray[np.intp]]:
        """Representative frames of every state.

        Parameters
        ----------
        data : array or list of arrays
            Trajectories to choose from.
        n : int
            Frames per state; fewer if a state has fewer.
        by : "margin" or "random"
            The frames deepest inside a state, deepest first, or frames drawn at random without repetition.
        random_state : None, int or numpy.random.Generator
            For ``by="random"``.

        Returns
        -------
        list of (m, 2) arrays
            For every state (trajectory, frame) indices, as deeptime's sampling functions return them.

        Examples
        --------
        >>> import numpy as np
        >>> from m3c_md import M3C
        >>> x = np.repeat([-1.0, 1.0, -1.0, 1.0], 50)[:, None] + 0.1 * np.random.default_rng(0).normal(size=(200, 1))
        >>> [s.shape for s in M3C(2, random_state=0).fit_fetch(x).sample(x, 3)]
        [(3, 2), (3, 2)]
        """
        check_integer("n", n, 1)
        check_choice("by", by, ("margin", "random"))
        trajectories = as_trajectories(data, self.feature_map.n_columns)
        states = np.concatenate(self.transform(trajectories))
        where = np.concatenate(
            [np.column_stack([np.full(len(x), i), np.arange(len(x))]) for i, x in enumerate(trajectories)]
        )
        if by == "margin":
            order = np.argsort(-np.concatenate(self.margin(trajectories)), kind="stable")
        else:
            order = np.random.default_rng(random_state).permutation(len(states))
        return [where[order[states[order] == state][:n]] for state in range(self.n_states)]

    @property
    def candidates(self) -> pd.DataFrame:
        """Every (start, bandwidth) that was tried, the winner first: how well it did and what became of it."""
        import pandas as pd

        return pd.DataFrame(
            {
                "start": [c.start for c in self.records],
                "bandwidth": [c.bandwidth for c in self.records],
                "objective": [c.optimum.objective for c in self.records],
                "score": [c.score for c in self.records],
                "metastability": [c.metastability for c in self.records],
                "populations": [np.sort(c.populations)[::-1].round(4).tolist() for c in self.records],
                "degenerate": [c.fate.startswith("degenerate") for c in self.records],
                "windows": [c.n_windows for c in self.records],
                "iterations": [c.optimum.iterations for c in self.records],
                "fate": [c.fate for c in self.records],
            }
        )

    def __repr__(self) -> str:
        shares = ", ".join(f"{p:.3g}" for p in self.populations)
        return (
            f"M3CModel(n_states={self.n_states}, lagtime={self.lagtime}, populations=[{shares}], "
            f"bandwidth={self.bandwidth:.3g}, objective={self.objective:.4g}, gap={self.gap:.1e})"
        )

    def _each(self, data: Any, function: Callable[[FloatArray], NDArray[Any]]) -> Any:
        """Apply a function of the scores to one trajectory or to each of several, some frames at a time."""
        trajectories = as_trajectories(data, self.feature_map.n_columns)
        results = [
            np.concatenate(
                [
                    function(self.rule.scores(self.feature_map(x[start : start + FRAMES_AT_ONCE])).T)
                    for start in range(0, len(x), FRAMES_AT_ONCE)
                ]
            )
            for x in trajectories
        ]
        return results if is_list_of_arrays(data) else results[0]


def _without_labels(record: Candidate) -> Candidate:
    """Drop the window labels of a candidate: as long as the data, and of no use after the fit."""
    return replace(record, optimum=replace(record.optimum, labels=np.empty(0, dtype=np.intp)))
