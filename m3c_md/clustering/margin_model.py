"""Model of a large-margin rule on continuous coordinates, with the record of how it was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.clustering.archive import LARGEST, Contents
from m3c_md.clustering.candidate_file import candidates_of, contents_of
from m3c_md.clustering.edited_rule import EditedRule
from m3c_md.clustering.portable_rule import PortableRule
from m3c_md.clustering.state_model import falling
from m3c_md.exceptions import InputError, ModelFileError
from m3c_md.inputs.settings import check_integer
from m3c_md.optimize.blocks import Rule
from m3c_md.optimize.feature_map import FourierMap
from m3c_md.optimize.metric import Metric
from m3c_md.optimize.window_loss import project_to_simplex
from m3c_md.search.fate import FateKind
from m3c_md.search.selection import Candidate

if TYPE_CHECKING:
    import pandas as pd


# Frames further away than so many bandwidths have no state that arithmetic could tell.
MOST_PERIODS = 1e10


class MarginModel(PortableRule, EditedRule):
    """States as a decision rule: state = argmax_k (w_k · φ(x) + b_k), ordered by falling population.

    Parameters
    ----------
    metrics : mapping of str to Metric
        Metrics in which kernels take distances, by name.
    maps : mapping of str to FourierMap
        Feature map of bandwidth 1 for each of them.
    records : sequence of Candidate
        Everything that was tried, the winner first.
    sensitivity : (n_columns, n_directions) array
        Directions along which the winner's scores change, most first, in columns divided by ``spread``; their outer
        products add up to the mean outer product of the gradients.
    spread, shares : (n_columns,) arrays
        Standard deviations of the columns, and how much each matters, see `relevance`.
    chosen : int
        Which record is the rule of this model.
    """

    # Estimator that fits models of this class; it sets itself here, since it knows the model and not the other way.
    _estimator: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        maps: Mapping[str, FourierMap],
        records: Sequence[Candidate],
        *,
        sensitivity: FloatArray,
        spread: FloatArray,
        shares: FloatArray,
        chosen: int = 0,
    ) -> None:
        self.metrics = metrics
        self.maps = maps
        self.sensitivity = sensitivity
        self.spread = spread
        self.shares = shares
        self.records = [_without_labels(record) for record in records]
        self.chosen = chosen
        winner = self.records[chosen]
        order = falling(winner.populations)
        base_map = maps[winner.metric]
        super().__init__(winner.populations[order], base_map.n_columns)
        self.feature_map = base_map.with_bandwidth(winner.bandwidth)
        self.rule = Rule(winner.optimum.rule.weights[order], winner.optimum.rule.bias[order])

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Return the few numbers that say which model this is; its arrays and records are attributes."""
        winner = self.records[self.chosen]
        return {**super().get_params(deep), "bandwidth": winner.bandwidth, "metric": winner.metric}

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
        other.columns, other.dihedral_columns = self.columns, self.dihedral_columns
        return other

    def _with(self, chosen: int) -> Self:
        """Model of the same search with another rule."""
        return type(self)(self.metrics, self.maps, self.records, chosen=chosen, **self._of_columns())

    def _of_columns(self) -> dict[str, Any]:
        """Arguments of the constructor that say how much columns matter."""
        return {"sensitivity": self.sensitivity, "spread": self.spread, "shares": self.shares}

    def _farthest(self) -> FloatArray:
        # Beyond it the angles whose cosines are taken lose their digits, and rounding would choose the state.
        farthest = super()._farthest()
        for one in self._feature_maps():
            fastest = np.abs(one.frequencies).max(axis=1)
            reach = MOST_PERIODS / np.maximum(fastest, 1.0 / LARGEST)  # a metric may leave columns out
            farthest = np.minimum(farthest, np.abs(one.center) + reach)
        return farthest

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
                "degenerate": [c.fate.kind is FateKind.DEGENERATE for c in self.records],
                "windows": [c.n_windows for c in self.records],
                "held": [c.held for c in self.records],
                "iterations": [c.optimum.iterations for c in self.records],
                "fate": [str(c.fate) for c in self.records],
            }
        )

    @property
    def metric(self) -> FloatArray:
        """Matrix M of the metric in which the kernel takes distances: ``|x - x'|² = (x - x')ᵀ M (x - x')``."""
        return self.metrics[self.records[self.chosen].metric].full_matrix()

    @property
    def relevance(self) -> pd.Series:
        """How much each column matters to the states: shares that sum to one, by the name of the column.

        The mean square of the change of the scores where a frame gets the column of another frame, every state counted
        alike. Columns that repeat each other share what they say. See `plot_relevance`.
        """
        import pandas as pd

        self._check_winner("relevance")
        names = self.columns if self.columns is not None else list(range(self.n_columns))
        return pd.Series(self.shares, index=names, name="relevance")

    def _check_winner(self, what: str) -> None:
        """Refuse what was computed for the winner of the search alone, or for states that are merged now."""
        if self.chosen != 0:
            raise InputError(f"{what} was computed for the winner, not for row {self.chosen}; ask the fitted model")
        self._check_described(what)

    @property
    def n_directions(self) -> int:
        """Number of directions along which the scores change, see `slow_coordinates`; none where these are unknown."""
        return int(self.sensitivity.shape[1]) if self.chosen == 0 and self._described else 0

    def slow_coordinates(self, data: Any, n: int = 2) -> Any:
        """Projections of frames on the ``n`` directions along which the states change most, (n_frames, n).

        Directions are orthonormal in columns divided by their standard deviations; the largest component of each is
        positive, so that signs do not depend on the machine.
        """
        self._check_winner("slow_coordinates")
        most = self.sensitivity.shape[1]
        n = check_integer("n", n, 1)
        if n > most:
            raise InputError(f"n={n} must be 1 to {most}: the rule of this model changes along {most} directions")
        directions = self.sensitivity[:, :n] / np.linalg.norm(self.sensitivity[:, :n], axis=0)
        largest = np.abs(directions).argmax(axis=0)
        directions = directions * np.sign(directions[largest, np.arange(n)])
        center = self.feature_map.center
        return self._each(data, lambda x: ((x - center) / self.spread) @ directions)

    def _contents(self) -> Contents:
        kept = contents_of(self.records)
        first = next(iter(self.maps.values()))
        arrays = {"phases": first.phases, "center": first.center, **self._of_columns(), "shares": self.shares[None]}
        names = list(dict.fromkeys(record.metric for record in self.records))
        for number, name in enumerate(names):
            arrays[f"frequencies_{number}"] = self.maps[name].frequencies
            matrix = self.metrics[name].matrix
            arrays[f"{'factors' if matrix.ndim == 1 else 'matrix'}_{number}"] = matrix
        arrays |= {**kept.arrays, **self._visit_arrays()}
        settings = {"chosen": self.chosen, "metrics": names, **self._texts(), **kept.settings}
        for more in (self._dihedral_contents(), self._edit_contents()):
            settings, arrays = {**settings, **more.settings}, {**arrays, **more.arrays}
        return Contents(settings, arrays)

    @classmethod
    def _from_contents(cls, contents: Contents) -> Self:
        metrics, maps = _stored_metrics(contents)
        first = next(iter(maps.values()))
        records = candidates_of(contents, first.n_features)
        unknown = {record.metric for record in records} - set(metrics)
        if unknown:
            raise ModelFileError(f"its candidates name the metric {min(unknown)!r:.40}, which it does not hold")
        narrowest = min(record.bandwidth for record in records)
        if max(np.abs(one.frequencies).max() for one in maps.values()) > LARGEST * narrowest:
            raise ModelFileError("its bandwidths are too small for its frequencies")
        chosen = contents.number("chosen", 0, len(records) - 1)
        model = cls(
            metrics,
            maps,
            records,
            chosen=chosen,
            sensitivity=contents.array("sensitivity", first.n_columns, None),
            spread=contents.positive("spread", first.n_columns),
            shares=contents.shares("shares", 1, first.n_columns)[0],
            **cls._options(contents),
        )
        model._with_dihedrals(contents)
        model._with_stored_edits(contents)
        return model._with_texts(contents)

    @classmethod
    def _options(cls, contents: Contents) -> dict[str, Any]:
        """Further arguments of the constructor."""
        del contents
        return {}

    def _shown(self) -> list[str]:
        return [f"bandwidth={self.bandwidth:.3g}", f"objective={self.objective:.4g}", f"gap={self.gap:.1e}"]

    def _estimator_within(self, n: int, random_state: Any, settings: dict[str, Any]) -> Any:
        estimator = self._estimator(n, random_state=random_state, **settings)
        estimator._checked_settings()
        return estimator


class M3CModel(MarginModel):
    """Metastable states found by `M3C`; see `MarginModel` for what they are.

    Attributes
    ----------
    lagtime : int
    effective_sample : float
        Effective sample size of the pair weights as a fraction of the pairs; 1 if they are uniform.

    Examples
    --------
    >>> from m3c_md import M3C
    >>> x = np.repeat([-1.0, 1.0] * 20, 25)[:, None] + 0.2 * np.random.default_rng(0).normal(size=(1000, 2))
    >>> model = M3C(2, random_state=0).fit_fetch(x)
    >>> model.n_states, model.transform(x).shape, model.margin(x).shape, model.populations.round(1).tolist()
    (2, (1000,), (1000,), [0.5, 0.5])
    """

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        maps: Mapping[str, FourierMap],
        records: Sequence[Candidate],
        *,
        lagtime: int,
        effective_sample: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(metrics, maps, records, **options)
        self.lagtime = lagtime
        self.effective_sample = effective_sample

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Return the few numbers that say which model this is; its arrays and records are attributes."""
        return {**super().get_params(deep), "lagtime": self.lagtime}

    def _estimator_within(self, n: int, random_state: Any, settings: dict[str, Any]) -> Any:
        # Within a state there is no relaxed distribution to weight towards that the data would not have.
        return super()._estimator_within(n, random_state, {"lagtime": self.lagtime, "reweight": False, **settings})

    def _with(self, chosen: int) -> Self:
        options: dict[str, Any] = {"lagtime": self.lagtime, "effective_sample": self.effective_sample}
        return type(self)(self.metrics, self.maps, self.records, chosen=chosen, **options, **self._of_columns())

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


def _stored_metrics(contents: Contents) -> tuple[dict[str, Metric], dict[str, FourierMap]]:
    """Metrics of a model file and their feature maps, by name."""
    metrics: dict[str, Metric] = {}
    maps: dict[str, FourierMap] = {}
    n_columns = len(contents.array("center", None))
    phases, center = contents.array("phases", None), contents.array("center", n_columns)
    for number, name in enumerate(contents.texts("metrics")):
        frequencies = contents.array(f"frequencies_{number}", n_columns, len(phases))
        diagonal = f"factors_{number}" in contents.arrays
        shape = (f"factors_{number}", n_columns) if diagonal else (f"matrix_{number}", n_columns, None)
        metrics[name], maps[name] = Metric(name, contents.array(*shape)), FourierMap(frequencies, phases, center)
    if not metrics:
        raise ModelFileError("it holds no metric")
    return metrics, maps


def _without_labels(record: Candidate) -> Candidate:
    """Drop the window labels of a candidate: as long as the data, and of no use after the fit."""
    return replace(record, optimum=replace(record.optimum, labels=np.empty(0, dtype=np.intp)))
