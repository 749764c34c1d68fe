"""The face that all models share: a rule that gives every frame a state."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from deeptime.base import Model, Transformer
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray
from m3c_md.clustering.archive import Contents, save_model
from m3c_md.clustering.lumped import (
    LumpedModel,
    check_msm,
    lump_by_states,
    n_microstates,
    states_of_microstates,
)
from m3c_md.clustering.named_states import NamedStates
from m3c_md.clustering.sampled_states import SampledStates
from m3c_md.clustering.scikit_face import ScikitModel
from m3c_md.clustering.shown_model import ShownModel
from m3c_md.clustering.visits import VisitCounts, stored_visits
from m3c_md.exceptions import InputError
from m3c_md.inputs.dataset import Dataset
from m3c_md.inputs.settings import check_integer, check_range
from m3c_md.inputs.state_names import default_names, with_names
from m3c_md.inputs.trajectories import as_trajectory, check_names

if TYPE_CHECKING:
    import pandas as pd
    from deeptime.markov.msm import MarkovStateModel

    from m3c_md.clustering.summary import StateSummary
    from m3c_md.markov.coring import CoredTrajectories


# Squares of coordinates must not overflow.
LARGEST_COORDINATE = 1e100


class StateModel(ScikitModel, ShownModel, NamedStates, SampledStates, Model, Transformer):  # type: ignore[misc]
    """States as a rule on continuous coordinates: the state of a frame is the one with the largest score.

    Attributes
    ----------
    populations : (n_states,) array
        Share of the training frames in each state, in falling order after a fit.
    warnings : list of str
        What was said during the fit.
    columns : list of str or None
        Names of the columns, if the model was fitted to tables (DataFrames); new tables must have the same.
    """

    def __init__(self, populations: FloatArray, n_columns: int) -> None:
        super().__init__()
        self.populations = populations
        self.n_columns = n_columns
        self.warnings: list[str] = []
        self.columns: list[str] | None = None
        self.state_names = default_names(len(populations))
        self._visits: VisitCounts | None = None

    @property
    def visits(self) -> pd.DataFrame | None:
        """How often the training trajectories were in each state: what its population and its rates rest on.

        One row per state, counted over consecutive frames, whatever the lag time: ``frames``, ``visits`` (separate
        stays), ``entered`` and ``left`` (stays that begin, or end, with a transition rather than with a trajectory),
        ``trajectories`` that visit the state, and ``largest_share`` of its frames that comes from one trajectory. A
        rate from n transitions has a relative error of about 1/√n. Of pairs (X, Y), frames are those of X, transitions
        those from X to Y, and the rest is missing. None if it was not counted: for alternatives, and for models saved
        by a version that did not count.
        """
        return None if self._visits is None else with_names(self._visits.table(), self.state_names)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.populations)

    def _scores(self, frames: FloatArray) -> FloatArray:
        """Scores of some frames, (n_frames, n_states)."""
        raise NotImplementedError

    def _states(self, frames: FloatArray) -> NDArray[np.intp]:
        """State of some frames."""
        return np.asarray(self._scores(frames).argmax(axis=1))

    def _labels(self, frames: FloatArray) -> NDArray[np.int32]:
        """State of some frames, as users get them."""
        return self._states(frames).astype(np.int32)

    def _leads(self, frames: FloatArray) -> FloatArray:
        """Lead of the largest score over the second largest."""
        return np.asarray(self._depths(frames)["lead"])

    def _depths(self, frames: FloatArray) -> NDArray[Any]:
        """State of some frames and how deep they are inside, by one look at their scores."""
        scores = self._scores(frames)
        depths = np.empty(len(frames), dtype=[("state", np.int32), ("lead", np.float64)])
        depths["state"] = scores.argmax(axis=1)
        top = np.partition(scores, -2, axis=1)[:, -2:]
        depths["lead"] = top[:, 1] - top[:, 0]
        return depths

    def transform(self, data: Any) -> Any:
        """State of every frame.

        Parameters
        ----------
        data : array (n_frames, n_columns), DataFrame, list of them, or iterator
            With the columns that the model was fitted to. The arrays of an iterator are consecutive pieces of one
            trajectory, such as those of `DihedralFeaturizer.iter_load`; no more than one of them is held in memory.

        Returns
        -------
        (n_frames,) int32 array, or list of them
        """
        return self._each(data, self._labels)

    def decision_function(self, data: Any) -> Any:
        """Scores of all states, (n_frames, n_states); the largest decides."""
        return self._each(data, self._scores)

    def margin(self, data: Any) -> Any:
        """Lead of the largest score over the second largest, (n_frames,): small at a boundary."""
        return self._each(data, self._leads)

    def core(self, data: Any, margin: float | None = None, min_dwell: int = 1) -> CoredTrajectories:
        """States by coring: a frame keeps its last state until it is ``margin`` deep inside another one.

        Recrossings at borders vanish, and timescales at short lag times rise towards those at long ones. Frames before
        the first core have the state of that core, which leaves populations unbiased (see `m3c_md.markov.coring`).

        Parameters
        ----------
        data : array (n_frames, n_columns), DataFrame, list of them, or iterator
            As for `transform`, read once and block by block; 12 bytes a frame are kept.
        margin : float, optional
            Of a frame in the core of its state, see `margin`; with 0 states are those of `transform`. By default that
            at which timescales at lag 1 come closest to those at longer lag times; ``choice`` of the result says which
            were tried.
        min_dwell : int
            Frames that a stay must last to count; with ``margin=0`` this is the dynamical coring of MPP.

        Returns
        -------
        CoredTrajectories
            With ``dtrajs``, ``transition`` (frames on their way between two cores), ``margin`` and ``choice``.

        Examples
        --------
        >>> import numpy as np
        >>> from m3c_md import M3C
        >>> x = np.repeat([-1.0, 1.0] * 40, 25)[:, None] + 0.4 * np.random.default_rng(0).normal(size=(2000, 1))
        >>> model = M3C(2, random_state=0).fit_fetch(x)
        >>> plain, cored = model.transform(x), model.core(x, margin=1.0)  # x changes its side 79 times
        >>> bool(79 <= np.abs(np.diff(cored.dtrajs)).sum() < np.abs(np.diff(plain)).sum())
        True
        """
        from m3c_md.markov.coring import core_trajectories

        given = None if margin is None else check_range("margin", margin, 0.0)
        dwell = check_integer("min_dwell", min_dwell, 1)
        return core_trajectories(self._each(data, self._depths), self.n_states, given, dwell)

    def lump(self, msm: MarkovStateModel, *, centers: Any = None, trajs: Any = None, dtrajs: Any = None) -> LumpedModel:
        """Lump the microstates of a Markov state model by this model: the one line to change where PCCA+ stood.

        Give either ``centers`` or both ``trajs`` and ``dtrajs``; the latter looks at every frame and is the better.

        Parameters
        ----------
        msm : deeptime MarkovStateModel
            On microstates; restricted to a connected set or not.
        centers : (n_microstates, n_columns) array
            Centres of all microstates, e.g. ``KMeans(...).fit_fetch(trajs).cluster_centers``.
        trajs, dtrajs : list of arrays
            Trajectories and, frame by frame, their microstates: a microstate belongs to the state of most of its
            frames.

        Returns
        -------
        LumpedModel
            With the fields of deeptime's `PCCAModel`; states are numbered as in this model.

        Examples
        --------
        >>> import numpy as np
        >>> from deeptime.clustering import KMeans
        >>> from deeptime.markov.msm import MaximumLikelihoodMSM
        >>> from m3c_md import M3C
        >>> x = np.repeat([-1.0, 1.0] * 20, 25) + 0.3 * np.random.default_rng(0).normal(size=1000)
        >>> micro = KMeans(6, fixed_seed=1, n_jobs=1).fit_fetch(x[:, None])
        >>> msm = MaximumLikelihoodMSM(lagtime=1).fit_fetch(micro.transform(x[:, None]))
        >>> pcca = M3C(2, random_state=0).fit_fetch(x).lump(msm, centers=micro.cluster_centers)  # msm.pcca(2)
        >>> pcca.n_metastable, pcca.memberships.shape
        (2, (6, 2))
        """
        check_msm(msm)
        if centers is not None and trajs is None and dtrajs is None:
            states, purity = self.transform(as_trajectory(centers, "centers")), None
        elif centers is None and trajs is not None and dtrajs is not None:
            labels = self._of_trajectories(self._dataset(trajs), self._labels)
            states, purity = states_of_microstates(labels, dtrajs, self.n_states, n_microstates(msm))
        else:
            raise InputError("give lump either centers= of the microstates, or both trajs= and dtrajs=")
        return lump_by_states(msm, states, self.n_states, purity=purity)

    def summary(
        self, data: Any, lagtime: int = 1, *, core: bool = True, names: Sequence[str] | None = None, **options: Any
    ) -> StateSummary:
        """Table for a paper: populations and life times of the states with their 95 % intervals, visits, frames.

        Parameters
        ----------
        data : array or list of arrays
            Trajectories.
        lagtime : int
            Of the Markov model that populations and life times come from, in frames.
        core : bool
            Whether states are those of `core`, whose life times do not suffer from recrossings at borders.
        names : sequence of str, optional
            What the states are called; by default as in the model, see `rename`.
        **options
            Of `m3c_md.kinetics`: ``dt``, ``unit``, ``temperature``, ``confidence``, ``n_samples``, ``random_state``.

        Returns
        -------
        StateSummary
            With ``table`` (a DataFrame), ``to_markdown()`` and ``to_latex()``.

        Examples
        --------
        >>> import numpy as np
        >>> from m3c_md import M3C
        >>> x = np.repeat([-1.0, 1.0] * 20, 25)[:, None] + 0.2 * np.random.default_rng(0).normal(size=(1000, 1))
        >>> summary = M3C(2, random_state=0).fit_fetch(x).summary(x, names=["left", "right"], random_state=0)
        >>> summary.table["visits"].tolist()
        [20, 20]
        """
        from m3c_md.clustering.summary import summarize

        return summarize(self, data, lagtime, core=core, names=names, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file without pickle, to be read by `load_model`; an existing file is replaced."""
        save_model(self, path)

    def _texts(self) -> dict[str, Any]:
        """Settings that files of all models have."""
        texts: dict[str, Any] = {"warnings": self.warnings, **self._name_settings()}
        if self.columns is not None:
            texts["columns"] = self.columns
        if self._visits is not None:
            texts["n_trajectories"] = self._visits.n_trajectories
        return texts

    def _visit_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays that files of all models have."""
        return {} if self._visits is None else {"visits": self._visits.counts}

    def _with_texts(self, contents: Contents) -> Self:
        """Take what files of all models have."""
        self._visits = stored_visits(contents, self.n_states)
        self._with_stored_names(contents)
        self.warnings.extend(contents.texts("warnings"))
        if "columns" in contents.settings:
            self.columns = contents.texts("columns", self.n_columns)
        return self

    def _contents(self) -> Contents:
        """What a model file has to hold."""
        raise NotImplementedError

    @classmethod
    def _from_contents(cls, contents: Contents) -> Self:
        """Model from what a model file holds."""
        raise NotImplementedError

    def _each(self, data: Any, function: Callable[[FloatArray], NDArray[Any]]) -> Any:
        """Apply a function of frames to one trajectory or to each of several, some frames at a time."""
        if isinstance(data, Iterator):
            return self._of_pieces(data, function)
        dataset = self._dataset(data)
        results = self._of_trajectories(dataset, function)
        return results if dataset.several else results[0]

    def _of_trajectories(
        self, dataset: Dataset, function: Callable[[FloatArray], NDArray[Any]], before: int = 0
    ) -> list[NDArray[Any]]:
        """Function of the frames of each trajectory, the first of which is number ``before`` in messages."""
        farthest = self._farthest()

        def results(number: int) -> Iterator[NDArray[Any]]:
            for first, frames in dataset.blocks(number, before):
                _check_near(frames, farthest, dataset.name(number), first)
                yield function(frames)

        return [np.concatenate(list(results(number))) for number in range(len(dataset.trajectories))]

    def _of_pieces(self, pieces: Iterator[Any], function: Callable[[FloatArray], NDArray[Any]]) -> NDArray[Any]:
        """Function of the frames of one trajectory that comes in pieces."""
        parts: list[NDArray[Any]] = []
        n_frames = 0
        for piece in pieces:
            dataset = Dataset.of(piece, self.n_columns)
            parts.append(self._of_trajectories(dataset, function, n_frames)[0])
            n_frames += dataset.lengths[0]
        if not parts:
            raise InputError("the iterator of pieces is at its end: each can be read only once; make a new one")
        return np.concatenate(parts)

    def _farthest(self) -> FloatArray:
        """Largest coordinate in each column for which states can be told apart in floating point."""
        return np.full(self.n_columns, LARGEST_COORDINATE)

    def _dataset(self, data: Any) -> Dataset:
        """Data with the columns of the fit."""
        dataset = Dataset.of(data, self.n_columns)
        check_names(dataset.columns, self.columns, "these data", "the model was fitted to")
        return dataset

    def __repr__(self) -> str:
        shares = ", ".join(f"{p:.3g}" for p in self.populations)
        named = f", names={self.state_names}" if self._name_settings() else ""
        more = "".join(f", {text}" for text in self._shown())
        return f"{type(self).__name__}(n_states={self.n_states}, populations=[{shares}]{named}{more})"

    def _shown(self) -> list[str]:
        """What else the repr shows."""
        return []


def _check_near(frames: FloatArray, farthest: FloatArray, name: str, first: int) -> None:
    """Refuse frames so far away in some column that rounding would choose their state."""
    if (np.maximum(frames.max(axis=0), -frames.min(axis=0)) <= farthest).all():
        return
    frame, column = np.argwhere(np.abs(frames) > farthest)[0]
    raise InputError(
        f"{name} holds {frames[frame, column]:.4g} at frame {first + frame}, column {column}, too far from the frames "
        "of the fit to have a state; give the features of the fit, in the same units"
    )


def falling(populations: FloatArray) -> NDArray[np.intp]:
    """Order of states by falling population, ties as they stand.

    Examples
    --------
    >>> falling(np.array([0.2, 0.5, 0.3])).tolist()
    [1, 2, 0]
    """
    return np.argsort(-populations, kind="stable")
