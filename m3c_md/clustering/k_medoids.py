"""KMedoids: direct decomposition of space around κ frames, blind to time."""

from __future__ import annotations

from typing import Any, Self, get_args

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.clustering.archive import Contents
from m3c_md.clustering.centers import CentersModel, stored_centers
from m3c_md.clustering.state_estimator import StateEstimator
from m3c_md.clustering.training_data import (
    check_distinct,
    clustering_notes,
    rare_state_notes,
    training_set,
)
from m3c_md.clustering.training_frames import training_frames
from m3c_md.exceptions import ModelFileError
from m3c_md.inputs.settings import check_choice, check_integer, check_random_state
from m3c_md.optimize.threads import ONE_BLAS_THREAD
from m3c_md.partitions.k_medoids import k_medoids
from m3c_md.search.problem import ColumnScale, column_scale


class KMedoidsModel(CentersModel):
    """Clusters around medoids, which are frames of the training data.

    Attributes
    ----------
    centers : (n_states, n_columns) array
        Medoids, in the order of the states.
    scatter : float
        Sum over the training frames of the (scaled) distance to their medoid.
    """

    def __init__(self, centers: FloatArray, scale: FloatArray, populations: FloatArray, scatter: float) -> None:
        super().__init__(centers, scale, np.arange(len(centers)), populations)
        self.scatter = scatter

    def _contents(self) -> Contents:
        contents = super()._contents()
        contents.arrays["scatter"] = np.array([self.scatter])
        return contents

    @classmethod
    def _from_contents(cls, contents: Contents) -> Self:
        centers, scale, states, populations = stored_centers(contents)
        if not np.array_equal(states, np.arange(len(populations))):
            raise ModelFileError(f"its {len(centers)} medoids are not those of {len(populations)} states in order")
        model = cls(centers, scale, populations, float(contents.array("scatter", 1)[0]))
        return model._with_texts(contents)

    def _shown(self) -> list[str]:
        return [f"scatter={self.scatter:.4g}"]


class KMedoids(StateEstimator):
    """k-medoids clustering of the frames into macrostates; the paper's simplest rival, here for comparison.

    Parameters
    ----------
    n_states : int
        Number κ of clusters.
    n_restarts : int, default=20
        Starts; the result with the least within-cluster scatter is kept.
    scale : "standard" or "none"
        Whether to divide each column by its standard deviation first.
    random_state : None, int or numpy.random.Generator

    Notes
    -----
    Beyond 3,000 frames medoids are sought in random samples of that size and judged on all frames; beyond 50 million
    numbers (frames times columns) in samples of 100,000 frames at equal distances and judged on these. All frames are
    then assigned block by block, so memory maps are never loaded as a whole.

    Examples
    --------
    >>> import numpy as np
    >>> from m3c_md import KMedoids
    >>> model = KMedoids(2, random_state=0).fit_fetch([[0.0], [0.1], [0.2], [5.0], [5.1]] * 11)
    >>> model.centers.ravel().tolist(), model.transform([[1.0], [4.0]]).tolist()
    ([0.1, 5.0], [0, 1])
    """

    def __init__(
        self, n_states: int, *, n_restarts: int = 20, scale: ColumnScale = "standard", random_state: Any = None
    ) -> None:
        super().__init__()
        self.n_states = n_states
        self.n_restarts = n_restarts
        self.scale = scale
        self.random_state = random_state

    def fit(self, data: Any, y: Any = None) -> Self:
        """Find the medoids of all frames; trajectories as in `M3C.fit`, ``y`` is ignored."""
        del y
        n_states, n_restarts, rng = self._checked_settings()
        given = training_set(data)
        frames, _ = training_frames(given, lagtime=0)
        check_distinct(frames.windows, n_states)
        sought = frames.windows.frames
        scale = column_scale(sought, self.scale)
        with ONE_BLAS_THREAD:
            found = k_medoids(sought / scale, n_states, rng, n_restarts=n_restarts)
            assert found.indices is not None, "medoids are frames"
            centers = sought[found.indices]
            order, populations = frames.ordered(centers, scale, np.arange(n_states), n_states)
        notes = clustering_notes(found, "k-medoids", "raise n_restarts, or ask for fewer states")
        notes += rare_state_notes(populations, "it may be an outlier: look at its frames, or ask for fewer states")
        model = KMedoidsModel(centers[order], scale, populations, frames.scatter(found, scale))
        self._keep(model, notes, given, frames.visits(model))
        return self

    def _checked_settings(self) -> tuple[int, int, np.random.Generator]:
        """Numbers of states and of restarts, and random numbers: before any data are read."""
        check_choice("scale", self.scale, get_args(ColumnScale))
        n_states, n_restarts = (
            check_integer("n_states", self.n_states, 2),
            check_integer("n_restarts", self.n_restarts, 1),
        )
        return n_states, n_restarts, check_random_state(self.random_state)
