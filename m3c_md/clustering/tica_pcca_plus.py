"""TICA before PCCA+: the workflow that most people use."""

from __future__ import annotations

from typing import Any, Self

from m3c_md.clustering.kinetic_map import MappedModel, MapsSlowCoordinates
from m3c_md.clustering.state_estimator import quietly_fitted
from m3c_md.clustering.training_data import LaggedPair, training_set
from m3c_md.inputs.settings import check_integer


class TICAPCCAPlus(MapsSlowCoordinates):
    """TICA (kinetic map), microstates in its slowest components, reversible MSM, PCCA+.

    Parameters
    ----------
    n_states : int
        Number of metastable states asked for; PCCA+ may return fewer.
    lagtime : int, default=1
        Lag time of the Markov state model in frames.
    n_components : int, default=5
        Number of slow components; all of them if there are fewer.
    tica_lagtime : int, optional
        Lag time of TICA; that of the Markov state model by default.
    n_microstates : int, default=200
        Number of microstates.
    n_restarts : int, default=3
        Starts of k-means.
    random_state : None, int or numpy.random.Generator

    Examples
    --------
    >>> import numpy as np
    >>> from m3c_md import TICAPCCAPlus
    >>> rng = np.random.default_rng(0)
    >>> x = np.column_stack([np.repeat([-1.0, 1.0] * 20, 25) + 0.3 * rng.normal(size=1000), rng.normal(size=1000)])
    >>> model = TICAPCCAPlus(2, n_components=1, n_microstates=10, random_state=0).fit_fetch(x)
    >>> model.transform([[-1.0, 0.0], [1.0, 0.0]]).tolist() in ([0, 1], [1, 0])
    True
    """

    def __init__(
        self,
        n_states: int,
        lagtime: int = 1,
        *,
        n_components: int = 5,
        tica_lagtime: int | None = None,
        n_microstates: int = 200,
        n_restarts: int = 3,
        random_state: Any = None,
    ) -> None:
        super().__init__(n_states, lagtime, n_components, tica_lagtime, n_microstates, n_restarts, random_state)

    def fit(self, data: Any, y: Any = None) -> Self:
        """Find the states of trajectories; data as in `M3C.fit`, ``y`` is ignored."""
        del y
        check_integer("n_components", self.n_components, 1)  # without a number it would be plain PCCA+
        cells = self._checked_cells()
        given = training_set(data)
        coordinates = self._map(given)
        assert coordinates is not None, "there is a number of components"
        if isinstance(given, LaggedPair):
            mapped: Any = (coordinates(given.first), coordinates(given.second))
        else:
            mapped = [coordinates(x) for x in given.arrays()]
        model, notes = quietly_fitted(cells, mapped)
        assert model._visits is not None, "a fit counts them"
        self._keep(MappedModel(coordinates, model), notes, given, model._visits)
        return self
