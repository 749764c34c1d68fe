"""Slow coordinates by TICA, and models whose states are those of another model in these coordinates."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from deeptime.decomposition import TICA

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.clustering.archive import Contents
from m3c_md.clustering.hidden_markov_model import HiddenMarkovModel
from m3c_md.clustering.pcca_plus import FOREIGN, PCCAPlus, PCCAPlusModel
from m3c_md.clustering.state_estimator import StateEstimator
from m3c_md.clustering.state_model import StateModel
from m3c_md.clustering.training_data import LaggedPair
from m3c_md.exceptions import ModelFileError, SolverError
from m3c_md.inputs.dataset import Dataset
from m3c_md.inputs.lengths import check_longest
from m3c_md.inputs.settings import check_integer
from m3c_md.optimize.threads import ONE_BLAS_THREAD
from m3c_md.partitions.k_means import k_means_cells
from m3c_md.partitions.microstates import MAX_POINTS, MAX_ROUNDS
from m3c_md.partitions.nearest import at_most_distinct
from m3c_md.search.problem import column_scale

# Models whose states can be those of slow coordinates, as files name them.
INNER: dict[str, type[StateModel]] = {model.__name__: model for model in (HiddenMarkovModel, PCCAPlusModel)}
# Before the names of the arrays of the inner model in a file.
PREFIX = "inner_"


@dataclass(frozen=True, eq=False)
class KineticMap:
    """Linear map from frames to slow coordinates: y = (x - mean) @ matrix, the slowest first.

    Attributes
    ----------
    mean : (n_columns,) array
    matrix : (n_columns, n_components) array
    """

    mean: FloatArray
    matrix: FloatArray

    def __call__(self, frames: FloatArray) -> FloatArray:
        """Slow coordinates of frames."""
        return np.asarray((frames - self.mean) @ self.matrix)

    def slowest(self, n_components: int) -> KineticMap:
        """Return the map to the first components only."""
        return KineticMap(self.mean, np.ascontiguousarray(self.matrix[:, :n_components]))


def kinetic_map(data: Dataset | LaggedPair, lagtime: int) -> KineticMap:
    """Slow coordinates of trajectories: TICA of the standardised columns, each coordinate scaled by its eigenvalue.

    Parameters
    ----------
    data : Dataset or LaggedPair
    lagtime : int
        In frames.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = np.column_stack([rng.normal(size=400), np.repeat([-1.0, 1.0] * 4, 50)])
    >>> slowest = kinetic_map(Dataset.of(x), 1).slowest(1).matrix[:, 0]
    >>> bool(abs(slowest[1]) > 10 * abs(slowest[0]))
    True
    """
    pair = isinstance(data, LaggedPair)
    if isinstance(data, Dataset):
        check_longest(data.lengths, lagtime)
    arrays = [data.first, data.second] if isinstance(data, LaggedPair) else data.arrays(reach=lagtime)
    frames = np.concatenate(arrays)
    scale = column_scale(frames, "standard")
    scaled = [x / scale for x in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of columns that are sums of others, which TICA leaves out
        try:
            estimator = TICA(lagtime=lagtime, scaling="kinetic_map")
            model = estimator.fit(tuple(scaled) if pair else scaled).fetch_model()
            origin = model.transform(np.zeros((1, len(scale))))
            matrix = (model.transform(np.eye(len(scale))) - origin) / scale[:, None]
        except FOREIGN as error:
            raise SolverError(
                f"deeptime's TICA failed at lag time {lagtime} ({error}); use another lag time"
            ) from error
    if not np.isfinite(matrix).all() or matrix.shape[1] == 0:
        raise SolverError(f"deeptime's TICA found no slow coordinate at lag time {lagtime}; use another lag time")
    return KineticMap(frames.mean(axis=0), np.ascontiguousarray(matrix, dtype=np.float64))


def cells_of(trajectories: list[FloatArray], n_cells: int, *, scaled: bool) -> list[IntArray]:
    """Cell of every frame of trajectories, at most ``n_cells`` of them by k-means; ``scaled``: of standardised columns.

    Examples
    --------
    >>> [cells.tolist() for cells in cells_of([np.array([[0.0], [1.0]]), np.array([[1.1]])], 2, scaled=True)]
    [[0, 1], [1]]
    """
    frames = np.concatenate(trajectories)
    points = frames / column_scale(frames, "standard") if scaled else frames
    with ONE_BLAS_THREAD:
        wanted = at_most_distinct(points, n_cells)
        # No choice of the user's depends on these cells, so they are always the same.
        rng = np.random.default_rng(0)
        _, cells = k_means_cells(points, wanted, rng, max_points=MAX_POINTS, max_iterations=MAX_ROUNDS)
    return np.split(cells, np.cumsum([len(x) for x in trajectories])[:-1])


class MappedModel(StateModel):
    """States of another model in slow coordinates.

    Attributes
    ----------
    map : KineticMap
    inner : StateModel
        The model in slow coordinates.
    """

    def __init__(self, coordinates: KineticMap, inner: StateModel) -> None:
        super().__init__(inner.populations, len(coordinates.mean))
        self.map = coordinates
        self.inner = inner

    @property
    def n_components(self) -> int:
        """Number of slow coordinates."""
        return int(self.map.matrix.shape[1])

    def memberships(self, data: Any) -> Any:
        """Membership of every frame, (n_frames, n_states), under the model in slow coordinates."""
        return self._each(data, lambda x: self.inner.memberships(self.map(x)))

    def _scores(self, frames: FloatArray) -> FloatArray:
        return self.inner._scores(self.map(frames))

    def _states(self, frames: FloatArray) -> IntArray:
        return self.inner._states(self.map(frames))

    def _farthest(self) -> FloatArray:
        # Beyond it the inner model could not tell its states apart, whichever column brought the frame there.
        per_unit = np.abs(self.map.matrix).max(axis=1)
        reach = self.inner._farthest().min() / np.maximum(per_unit, np.finfo(float).tiny) / len(per_unit)
        return np.asarray(np.minimum(super()._farthest(), np.abs(self.map.mean) + reach))

    def _contents(self) -> Contents:
        inner = self.inner._contents()
        arrays = {f"{PREFIX}{name}": array for name, array in inner.arrays.items()}
        settings = {**self._texts(), "inner_kind": type(self.inner).__name__, "inner": inner.settings}
        own = {"mean": self.map.mean, "matrix": self.map.matrix, **self._visit_arrays()}
        return Contents(settings, {**own, **arrays})

    @classmethod
    def _from_contents(cls, contents: Contents) -> Self:
        kind, settings = contents.settings.get("inner_kind"), contents.settings.get("inner")
        if kind not in INNER or not isinstance(settings, dict):
            raise ModelFileError(f"it holds no model in slow coordinates, but {kind!r:.40}")
        arrays = {
            name.removeprefix(PREFIX): array for name, array in contents.arrays.items() if name.startswith(PREFIX)
        }
        inner = INNER[kind]._from_contents(Contents(settings, arrays))
        mean = contents.array("mean", None)
        matrix = contents.array("matrix", len(mean), inner.n_columns)
        return cls(KineticMap(mean, matrix), inner)._with_texts(contents)

    def _shown(self) -> list[str]:
        return [f"n_components={self.n_components}", *self.inner._shown()]


class MapsSlowCoordinates(StateEstimator):
    """What estimators share that find cells in slow coordinates, or in the columns: settings, checks, maps."""

    _shared: dict[int, KineticMap] | None = None

    def __init__(
        self,
        n_states: int,
        lagtime: int,
        n_components: int | None,
        tica_lagtime: int | None,
        n_microstates: int,
        n_restarts: int,
        random_state: Any,
    ) -> None:
        super().__init__()
        self.n_states = n_states
        self.lagtime = lagtime
        self.n_components = n_components
        self.tica_lagtime = tica_lagtime
        self.n_microstates = n_microstates
        self.n_restarts = n_restarts
        self.random_state = random_state

    def share_maps(self, maps: dict[int, KineticMap]) -> None:
        """Take maps of the data to be fitted from here, by their lag time, and leave those that are missing here."""
        self._shared = maps

    def _checked_cells(self) -> PCCAPlus:
        """PCCA+ with these settings, for slow coordinates if there are any; all settings are checked, no data read."""
        for name in ("n_components", "tica_lagtime"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 1)
        cells = PCCAPlus(
            self.n_states,
            self.lagtime,
            n_microstates=self.n_microstates,
            n_restarts=self.n_restarts,
            scale="standard" if self.n_components is None else "none",  # the kinetic map is a scale of its own
            random_state=self.random_state,
        )
        cells._checked_settings()
        return cells

    def _map(self, given: Dataset | LaggedPair) -> KineticMap | None:
        """Map to the slow coordinates; None for the columns themselves."""
        if self.n_components is None:
            return None
        lagtime = int(self.lagtime if self.tica_lagtime is None else self.tica_lagtime)
        maps = {} if self._shared is None else self._shared
        if lagtime not in maps:
            maps[lagtime] = kinetic_map(given, lagtime)
        return maps[lagtime].slowest(int(self.n_components))
