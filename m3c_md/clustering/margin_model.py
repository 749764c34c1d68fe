"""Model of a large-margin rule on continuous coordinates, with the record of how it was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray
from m3c_md.clustering.archive import LARGEST, Contents
from m3c_md.clustering.candidate_file import candidates_of, contents_of
from m3c_md.clustering.state_model import StateModel, falling
from m3c_md.exceptions import InputError, ModelFileError
from m3c_md.inputs.settings import check_integer
from m3c_md.optimize.blocks import Rule
from m3c_md.optimize.feature_map import FourierMap
from m3c_md.optimize.metric import Metric
from m3c_md.optimize.quick_states import quick_states
from m3c_md.optimize.window_loss import project_to_simplex
from m3c_md.search.selection import Candidate

if TYPE_CHECKING:
    import pandas as pd


# Frames further away than so many bandwidths have no state that arithmetic could tell.
MOST_PERIODS = 1e10


class MarginModel(StateModel):
    """States as a decision rule: state = argmax_k (w_k · φ(x) + b_k), ordered by falling population.

    Parameters
    ----------
    metrics : mapping of str to Metric
        Metrics in which kernels take distances, by name.
    maps : mapping of str to FourierMap
        Feature map of bandwidth 1 for each of them.
    records : sequence of Candidate
        Everything that was tried, the winner first.
    chosen : int
        Which record is the rule of this model.
    """

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        maps: Mapping[str, FourierMap],
        records: Sequence[Candidate],
        *,
        chosen: int = 0,
    ) -> None:
        self.metrics = metrics
        self.maps = maps
        self.records = [_without_labels(record) for record in records]
        self.chosen = chosen
        winner = self.records[chosen]
        order = falling(winner.populations)
        base_map = maps[winner.metric]
        super().__init__(winner.populations[order], base_map.n_columns)
        self.feature_map = base_map.with_bandwidth(winner.bandwidth)
        self.rule = Rule(winner.optimum.rule.weights[order], winner.optimum.rule.bias[order])

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

    def alternative(self, number: int) -> Self:
        """Return the model of another row of `candidates`, to look at before you trust the winner.

        A row that did not reach the end was fitted to a sample of the windows only and less accurately. The visits of
        its states were not counted: ``visits`` is None.
        """
        chosen = check_integer("number", number, 0)
        if chosen >= len(self.records):
            raise InputError(f"number={number} must be a row of candidates, 0 to {len(self.records) - 1}")
        other = self._with(chosen)
        other.columns = self.columns
        return other

    def _with(self, chosen: int) -> Self:
        """Model of the same search with another rule."""
        return type(self)(self.metrics, self.maps, self.records, chosen=chosen)

    def _farthest(self) -> FloatArray:
        # Beyond it the angles whose cosines are taken lose their digits, and rounding would choose the state.
        fastest = np.abs(self.feature_map.frequencies).max(axis=1)
        reach = MOST_PERIODS / np.maximum(fastest, np.finfo(float).tiny)
        return np.minimum(super()._farthest(), np.abs(self.feature_map.center) + reach)

    def _scores(self, frames: FloatArray) -> FloatArray:
        return self.rule.scores(self.feature_map(frames)).T

    def _states(self, frames: FloatArray) -> NDArray[np.intp]:
        """States by single precision, several times as fast, and by double precision where rounding could decide."""
        states, sure = quick_states(self.feature_map, self.rule, frames)
        close = np.flatnonzero(~sure)
        if len(close):
            states[close] = self._scores(frames[close]).argmax(axis=1)
        return states

    def memberships(self, data: Any) -> Any:
        """Soft assignment, (n_frames, n_states); rows are not negative and sum to 1.

        The Euclidean projection of the scores onto the probabilities: a frame with margin ≥ 1 belongs to its state
        alone, between two states membership changes linearly with the margin.
        """
        return self._each(data, lambda x: project_to_simplex(self._scores(x).T).T)

    @property
    def candidates(self) -> pd.DataFrame:
        """Every (start, bandwidth) that was tried, the winner first: how well it did and what became of it.

        ``error`` is the standard error of the metastability (jackknife over independent parts of the data: trajectories
        or, where there are fewer than ten, blocks of them), and ``parts`` says in how many of these the state that is
        seen in the fewest is seen: a candidate with a large error rests on too little data to win. ``held`` candidates
        keep the labels of their start. Rows without iterations are starts as least squares judged them.
        """
        import pandas as pd

        return pd.DataFrame(
            {
                "start": [c.start for c in self.records],
                "metric": [c.metric for c in self.records],
                "bandwidth": [c.bandwidth for c in self.records],
                "objective": [c.optimum.objective for c in self.records],
                "score": [c.score for c in self.records],
                "metastability": [c.metastability for c in self.records],
                "error": [c.support.error for c in self.records],
                "parts": [c.support.n_parts for c in self.records],
                "populations": [np.sort(c.populations)[::-1].round(4).tolist() for c in self.records],
                "degenerate": [c.fate.startswith("degenerate") for c in self.records],
                "windows": [c.n_windows for c in self.records],
                "held": [c.held for c in self.records],
                "iterations": [c.optimum.iterations for c in self.records],
                "fate": [c.fate for c in self.records],
            }
        )

    def _contents(self) -> Contents:
        kept = contents_of(self.records)
        arrays = {
            "frequencies": self.base_map.frequencies,
            "phases": self.base_map.phases,
            "center": self.base_map.center,
            "scale": self.scale,
            **kept.arrays,
            **self._visit_arrays(),
        }
        return Contents({"chosen": self.chosen, **self._texts(), **kept.settings}, arrays)

    @classmethod
    def _from_contents(cls, contents: Contents) -> Self:
        frequencies = contents.array("frequencies", None, None)
        n_columns, n_features = frequencies.shape
        base_map = FourierMap(frequencies, contents.array("phases", n_features), contents.array("center", n_columns))
        records, scale = candidates_of(contents, n_features), contents.positive("scale", n_columns)
        narrowest = min(record.bandwidth for record in records) * float(scale.min())
        if np.abs(frequencies).max() > LARGEST * narrowest:
            raise ModelFileError("its bandwidths and scales are too small for its frequencies")
        chosen = contents.number("chosen", 0, len(records) - 1)
        model = cls(base_map, scale, records, chosen=chosen, **cls._options(contents))
        return model._with_texts(contents)

    @classmethod
    def _options(cls, contents: Contents) -> dict[str, Any]:
        """Further arguments of the constructor."""
        del contents
        return {}

    def _shown(self) -> list[str]:
        return [f"bandwidth={self.bandwidth:.3g}", f"objective={self.objective:.4g}", f"gap={self.gap:.1e}"]


class M3CModel(MarginModel):
    """Metastable states found by `M3C`; see `MarginModel` for what they are.

    Attributes
    ----------
    lagtime : int
    effective_sample : float
        Effective sample size of the pair weights as a fraction of the pairs; 1 if they are uniform.
    """

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        maps: Mapping[str, FourierMap],
        records: Sequence[Candidate],
        *,
        lagtime: int,
        effective_sample: float = 1.0,
        chosen: int = 0,
    ) -> None:
        super().__init__(metrics, maps, records, chosen=chosen)
        self.lagtime = lagtime
        self.effective_sample = effective_sample

    def _with(self, chosen: int) -> Self:
        options: dict[str, Any] = {"lagtime": self.lagtime, "effective_sample": self.effective_sample}
        return type(self)(self.metrics, self.maps, self.records, chosen=chosen, **options)

    def _contents(self) -> Contents:
        contents = super()._contents()
        contents.settings["lagtime"] = self.lagtime
        contents.arrays["effective_sample"] = np.array([self.effective_sample])
        return contents

    @classmethod
    def _options(cls, contents: Contents) -> dict[str, Any]:
        sample = float(contents.positive("effective_sample", 1)[0])
        return {"lagtime": contents.number("lagtime", 1), "effective_sample": sample}

    def _shown(self) -> list[str]:
        return [f"lagtime={self.lagtime}", *super()._shown()]


class MMCModel(MarginModel):
    """Clusters found by `MMC`; see `MarginModel` for what they are."""


def _without_labels(record: Candidate) -> Candidate:
    """Drop the window labels of a candidate: as long as the data, and of no use after the fit."""
    return replace(record, optimum=replace(record.optimum, labels=np.empty(0, dtype=np.intp)))
