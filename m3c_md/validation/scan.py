"""How many states? M3C for several numbers of them, and what speaks for each."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from deeptime.util.callbacks import ProgressCallback

from m3c_md.clustering.checkpoint import check_checkpoint
from m3c_md.clustering.m3c import M3C
from m3c_md.clustering.margin_model import M3CModel
from m3c_md.exceptions import DegenerateSolutionError, InputError, ShortTrajectoryWarning
from m3c_md.inputs.coordinates import check_coordinates
from m3c_md.inputs.dataset import Dataset
from m3c_md.inputs.settings import (
    as_list,
    check_integer,
    check_jobs,
    check_positive,
    check_progress,
    check_random_state,
    check_string,
)
from m3c_md.markup import paragraphs
from m3c_md.validation.kept_fits import KeptFits
from m3c_md.validation.scan_fits import fits_by_number, halves_of, n_features_for
from m3c_md.validation.scan_table import table_and_tree, terminal_lines
from m3c_md.validation.shown_study import ShownStudy
from m3c_md.validation.splits import long_trajectories
from m3c_md.validation.suggestion import suggest
from m3c_md.validation.tables import WIDTH
from m3c_md.wording import amount

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False, eq=False)
class StateScan(ShownStudy):
    """What speaks for each number of states; made by `scan_states`.

    Attributes
    ----------
    table : DataFrame
        One row per number of states: "Q" with its standard error "Q ±" (jackknife over parts of the data), "held-out Q"
        (mean over halves of the data of the Q that the fit to a half has on the other half, where a state that is not
        visited adds nothing), implied timescales at the lag time (in ``unit``), "stability" (mean adjusted Rand index
        between the labels by the fits to halves and to all data) and its smallest value, how many "halves" these rest
        on, populations, how often the state that is entered least was "entered" and how many "trajectories" visit the
        state that the fewest visit, warnings.
    tree : DataFrame
        How states split: one row per state of every number of states, with its parent among the states of the number
        before; see `m3c_md.validation.state_tree.state_tree`.
    models : dict
        Model for each number of states, with 100 random features; `M3C` itself takes 200 for up to 20,000 frames of
        more than eight columns.
    suggestion : int or None
        Number of states that the rule of `scan_states` picks; None if none is convincing.
    reason : str
        Why, in words. The decision is yours.
    lagtime, dt, unit
        As given.

    Examples
    --------
    >>> x = np.repeat([-1.0, 1.0] * 20, 25)[:, None] + 0.2 * np.random.default_rng(0).normal(size=(1000, 2))
    >>> scan = scan_states(x, (2, 3), n_resamples=2, n_jobs=1, random_state=0)
    >>> list(scan.table.index), scan.models[2].n_states, list(scan.tree.columns)[:3]
    ([2, 3], 2, ['n_states', 'state', 'parent'])
    """

    table: pd.DataFrame
    tree: pd.DataFrame
    models: dict[int, M3CModel]
    suggestion: int | None
    reason: str
    lagtime: int
    dt: float
    unit: str

    def plot(self, *, axes: Any = None) -> Any:
        """Draw timescales, stability and populations against the number of states; see `m3c_md.plots.plot_scan`."""
        from m3c_md.plots.comparison import plot_scan

        return plot_scan(self.table, lagtime=self.lagtime, dt=self.dt, unit=self.unit, axes=axes)

    def plot_tree(self, *, names: Any = None, ax: Any = None) -> Any:
        """Draw how states split as their number grows; see `m3c_md.plots.plot_state_tree`."""
        from m3c_md.plots.tree import plot_state_tree

        return plot_state_tree(self, names=names, ax=ax)

    def lines(self) -> list[str]:
        """Title, table and suggestion in lines of at most 100 characters."""
        chosen = "none" if self.suggestion is None else self.suggestion
        title = f"M3C at lag time {amount(self.lagtime * self.dt, self.unit, 6)}:"
        said = ["", f"Suggested number of states: {chosen}", *wrap(self.reason, WIDTH)]
        return [title, "", *terminal_lines(self.table, self.unit), *said]

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        from m3c_md.report.study_report import table_of_scan

        return f"{table_of_scan(self)}{paragraphs([self.reason])}"

    def _page(self) -> Any:
        from m3c_md.report.study_report import scan_page

        return scan_page


def scan_states(
    trajs: Any,
    n_states: int | Iterable[int] = range(2, 8),
    *,
    lagtime: int = 1,
    n_resamples: int = 5,
    dt: float = 1.0,
    unit: str = "frame",
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: Any = None,
    checkpoint: Any = None,
) -> StateScan:
    """Fit M3C for several numbers of states, measure how slow and how stable the states are, and suggest one.

    Among the numbers whose states are stable (mean adjusted Rand index of at least 0.8 between the labels of all frames
    by the model and by models of half of the data) and whose slow processes are all longer than the lag time, the
    largest with a clear gap to the next process is suggested. The gap is t_κ of κ states divided by t_{κ+1} of κ + 1
    states; it is clear from a factor of 2 and from the square root of the largest gap on. The largest number has no
    next one, so scan one further than you would go. `reason` has the numbers that this rests on.

    Parameters
    ----------
    trajs : array (n_frames, n_columns) or list of them
        Memory maps stay where they are, and many frames are read a slice at a time; all else is read once.
    n_states : int or iterable of int
        Numbers of states to try, e.g. ``range(2, 16)``.
    lagtime : int
        Lag time in frames.
    n_resamples : int
        How many halves of the data (random trajectories, or pieces of them if they are fewer than ten) are fitted again
        at most, from all starts in metric and bandwidth of the model. Two do where their mean adjusted Rand index is
        0.9 or more, or less than 0.7, and where every candidate lost a state.
    dt, unit : float, str
        Time between frames, for tables and pictures.
    random_state : None, int or numpy.random.Generator
    n_jobs : int, optional
        Processes over which the fits are spread; all cores by default.
    progress : optional
        True, or a progress bar class such as ``tqdm.tqdm``.
    checkpoint : path, optional
        Folder in which every finished fit is kept. The same scan with the same folder goes on where it was stopped, by
        whatever; remove the folder when you have the result. Needs a number as ``random_state``.

    Returns
    -------
    StateScan

    Examples
    --------
    >>> from m3c_md import scan_states
    >>> rng = np.random.default_rng(0)
    >>> trajs = [np.repeat([-1.0, 1.0] * 4, 40) + 0.2 * rng.normal(size=320) for _ in range(3)]
    >>> scan = scan_states(trajs, 2, n_resamples=2, random_state=0, n_jobs=1)  # range(2, 8) in earnest
    >>> scan.table.loc[2, "stability"], scan.suggestion
    (np.float64(1.0), 2)
    >>> scan.tree["population"].tolist()
    [0.5, 0.5]
    """
    # A typo is told at once, not after the time that it may take to read the data.
    check_integer("lagtime", lagtime, 1)
    numbers = sorted({check_integer("n_states", number, 2) for number in as_list("n_states", n_states)})
    if not numbers:
        raise InputError("n_states is empty; give the numbers of states to try, e.g. range(2, 8)")
    check_integer("n_resamples", n_resamples, 1)
    time_step, time_unit = check_positive("dt", dt), check_string("unit", unit)
    folder = check_checkpoint(checkpoint, random_state)
    seed = int(check_random_state(random_state).integers(2**63))
    jobs = check_jobs(n_jobs)
    progress = check_progress(progress)

    check_coordinates(trajs)
    data, too_short = long_trajectories(Dataset.of(trajs).shared(), lagtime)
    if too_short:
        warnings.warn(too_short, ShortTrajectoryWarning, stacklevel=2)
    halves = halves_of(data, lagtime, n_resamples, np.random.default_rng(seed))
    kept = None if folder is None else KeptFits.of(folder, data.trajectories, "scan", lagtime, seed)
    with ProgressCallback(progress, "scan", len(numbers) * (1 + n_resamples)) as bar:
        n_features = n_features_for(data, lagtime)
        estimators = [M3C(number, lagtime, n_features=n_features) for number in numbers]
        fits = fits_by_number(data, halves, estimators, seed, jobs, bar, kept)
    models = {number: fit.model for number, fit in fits.items() if fit.model is not None}
    if not models:
        raise DegenerateSolutionError(
            "M3C failed for every number of states: " + "; ".join(f"{n}: {fits[n].whole.error}" for n in numbers)
        )
    table, tree = table_and_tree(data, fits, lagtime, time_step, time_unit)
    suggestion, reason = suggest(table, lagtime * time_step, time_unit)
    return StateScan(table, tree, models, suggestion, reason, lagtime, time_step, time_unit)
