"""M3C next to PCCA+ and the geometric methods, judged on trajectories that none of them has seen."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from deeptime.util.callbacks import ProgressCallback
from numpy.typing import NDArray

from m3c_md.clustering.checkpoint import check_checkpoint
from m3c_md.clustering.state_estimator import StateEstimator
from m3c_md.clustering.state_model import StateModel
from m3c_md.exceptions import DegenerateSolutionError, InputError, M3CWarning, ShortTrajectoryWarning
from m3c_md.inputs.coordinates import check_coordinates
from m3c_md.inputs.dataset import Dataset
from m3c_md.inputs.settings import (
    as_list,
    check_choice,
    check_flag,
    check_integer,
    check_jobs,
    check_positive,
    check_progress,
    check_random_state,
    check_string,
)
from m3c_md.inputs.trajectories import check_names
from m3c_md.markov.timescales import ImpliedTimescales, implied_timescales, usable_lagtimes
from m3c_md.markov.transitions import Note
from m3c_md.validation.kept_fits import KeptFits, fit_all
from m3c_md.validation.methods import METHODS, Fit, Task, build_methods, least_entered
from m3c_md.validation.splits import Split, check_disjoint, check_repeated, groups, hold_out, long_trajectories

if TYPE_CHECKING:
    import pandas as pd

StateArray = NDArray[np.int32]


@dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """Methods side by side; made by `compare`.

    Attributes
    ----------
    table : DataFrame
        One row per method: mean and spread (standard deviation) over the held-out trajectories of Q and of the implied
        timescales at the lag time (in ``unit``), populations, how often the least visited state was entered by the
        trajectories of the fit, seconds to fit, on how many of the held-out trajectories
        Q could be measured (they must visit all states), warnings.
    splits : DataFrame
        One row per method and held-out trajectory, or group of them.
    models : dict
        Model of each method, fitted to all training trajectories.
    dtrajs : dict
        States of the evaluated trajectories (the test data, or else all) under these models.
    timescales : dict
        Implied timescales of these, over the lag times.
    agreement : DataFrame
        Adjusted Rand index between methods: 1 if they agree up to the names of states, about 0 by chance.
    n_states, lagtime, dt, unit
        As given.
    messages : list of str
        What was left out and why.
    """

    table: pd.DataFrame
    splits: pd.DataFrame
    models: dict[str, StateModel]
    dtrajs: dict[str, list[StateArray]]
    timescales: dict[str, ImpliedTimescales]
    agreement: pd.DataFrame
    n_states: int
    lagtime: int
    dt: float
    unit: str
    messages: list[str] = field(default_factory=list)

    def confusion(self, method: str, other: str) -> pd.DataFrame:
        """Frames by their state in one method (rows) and in another (columns)."""
        import pandas as pd

        for name in (method, other):
            check_choice("method", name, tuple(self.dtrajs))
        first, second = (np.concatenate(self.dtrajs[name]) for name in (method, other))
        counts = np.bincount(first * self.n_states + second, minlength=self.n_states**2)
        states = range(self.n_states)
        return pd.DataFrame(
            counts.reshape(self.n_states, self.n_states),
            index=pd.Index(states, name=method),
            columns=pd.Index(states, name=other),
        )

    def plot_metastability(self, *, ax: Any = None) -> Any:
        """Draw Q of every method, mean and spread over the splits; see `m3c_md.plots.plot_metastability`."""
        from m3c_md.plots.comparison import plot_metastability

        return plot_metastability(self.splits, lagtime=self.lagtime, dt=self.dt, unit=self.unit, ax=ax)

    def plot_timescales(self, **options: Any) -> Any:
        """Draw the implied timescales of all methods; see `m3c_md.plots.plot_implied_timescales`."""
        from m3c_md.plots.timescales import plot_implied_timescales

        return plot_implied_timescales(self.timescales, **options)

    def plot_map(self, data: Any, **options: Any) -> Any:
        """Draw the states of every method over two coordinates; see `m3c_md.plots.plot_state_map`."""
        from m3c_md.plots.state_map import plot_state_map

        return plot_state_map(self.models, data, **options)

    @property
    def _title(self) -> str:
        return f"{self.n_states} states at lag time {self.lagtime * self.dt:g} {self.unit}, on held-out trajectories:"

    def __repr__(self) -> str:
        lines = [self._title, ""]
        lines += [self.table.drop(columns="warnings").to_string(float_format=lambda value: f"{value:.4g}")]
        notes = [f"{name}: {text}" for name, text in self.table["warnings"].items() if text]
        return "\n".join([*lines, *([""] if notes or self.messages else []), *notes, *self.messages])

    def _repr_html_(self) -> str:
        table = self.table.to_html(float_format=lambda value: f"{value:.4g}")
        notes = "".join(f"<p>{escape(message)}</p>" for message in self.messages)
        return f"<p>{escape(self._title)}</p>{table}{notes}"


def compare(
    trajs: Any,
    n_states: int,
    *,
    methods: Sequence[str] = METHODS,
    lagtime: int = 1,
    lagtimes: Sequence[int] | None = None,
    test: Any = None,
    allow_overlap: bool = False,
    n_microstates: int | Sequence[int] = (50, 100, 200),
    dt: float = 1.0,
    unit: str = "frame",
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: Any = None,
    checkpoint: Any = None,
) -> Comparison:
    """Fit several methods and judge them on trajectories that they have not seen.

    Parameters
    ----------
    trajs : array (n_frames, n_columns) or list of them
        Trajectories to fit to. Memory maps stay where they are: M3C and MMC read many frames a slice at a time, while
        PCCA+ and k-medoids need all of them in memory. All else is read once.
    n_states : int
        Number of states, the same for all methods.
    methods : sequence of str
        Among "m3c", "pcca+", "mmc", "k-medoids".
    lagtime : int
        Lag time in frames of the fits and of Q.
    lagtimes : sequence of int, optional
        Lag times of the implied timescales; those longer than the data are left out with a message. By default about
        ten, chosen by the data.
    test : list of arrays, optional
        Trajectories to judge by. By default every trajectory is held out in turn (groups of them if there are more
        than five) and judges a fit to the others; a single trajectory is cut into halves. The models returned are
        fitted to all of ``trajs`` in any case.
    allow_overlap : bool
        Whether ``test`` may share frames with ``trajs``, or trajectories with one another if there is no ``test``.
        Equal frames are found, rounded copies are not.
    n_microstates : int or sequence of int
        Numbers of microstates of PCCA+, each of which becomes a row.
    dt, unit : float, str
        Time between frames, for tables and pictures.
    random_state : None, int or numpy.random.Generator
        Same number, same answer, whatever ``n_jobs`` and whichever methods stand beside.
    n_jobs : int, optional
        Processes over which the fits are spread; all cores by default.
    progress : optional
        A progress bar class such as ``tqdm.tqdm``.
    checkpoint : path, optional
        Folder in which every finished fit is kept. The same comparison with the same folder goes on where it was
        stopped, by whatever; remove the folder when you have the result. Needs a number as ``random_state``.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import numpy as np
    >>> from m3c_md import compare
    >>> rng = np.random.default_rng(0)
    >>> trajs = [np.repeat([-1.0, 1.0] * 4, 40) + 0.2 * rng.normal(size=320) for _ in range(2)]
    >>> result = compare(trajs, 2, methods=("pcca+", "k-medoids"), n_microstates=10, random_state=0, n_jobs=1)
    >>> result.table["Q"].round(3).tolist()
    [1.956, 1.956]
    """
    # A typo is told at once, not after the time that it may take to read the data.
    check_integer("n_states", n_states, 2)
    check_integer("lagtime", lagtime, 1)
    n_microstates = as_list("n_microstates", n_microstates)
    build_methods(methods, n_states, lagtime, n_microstates, n_frames=0)  # in earnest below
    lags = None if lagtimes is None else _checked_lagtimes(lagtimes)
    check_flag("allow_overlap", allow_overlap)
    time_step, time_unit = check_positive("dt", dt), check_string("unit", unit)
    folder = check_checkpoint(checkpoint, random_state)
    seed = int(check_random_state(random_state).integers(2**63))
    jobs = check_jobs(n_jobs)
    check_progress(progress)

    data, judges, notes = _data_and_judges(trajs, test, n_states, lagtime)
    splits = _splits(data, judges, lagtime, allow_overlap=allow_overlap)
    n_train = min(split.train.n_frames for split in splits)
    estimators, fewer = build_methods(methods, n_states, lagtime, n_microstates, n_train)
    lags, too_long = (None, []) if lags is None else usable_lagtimes(max(judges.lengths), lags)
    for message, category in notes + too_long:
        warnings.warn(message, category, stacklevel=2)
    messages = [*(message for message, _ in notes), *([fewer] if fewer else []), *(message for message, _ in too_long)]

    # The models themselves can be judged on test data of their own only; held-out splits take other fits.
    runs = splits if test is not None else [Split(data, {}), *splits]
    kept = None if folder is None else KeptFits.of(folder, [*data.trajectories, *judges.trajectories], lagtime, seed)
    with ProgressCallback(progress, "compare", len(runs) * len(estimators)) as bar:
        fits = _fits_by_method(runs, estimators, lagtime, seed, jobs, bar, kept)
    models = _models(fits)
    dtrajs = {name: model.transform(judges) for name, model in models.items()}
    timescales = _timescales(dtrajs, lags, n_states, time_step, time_unit, seed)
    by_split = _table_of_splits(fits, time_step, time_unit)
    table, agreement = _table(by_split, fits, timescales, time_unit), _rand_indices(dtrajs)
    times = (lagtime, time_step, time_unit)
    return Comparison(table, by_split, models, dtrajs, timescales, agreement, n_states, *times, messages)


def _data_and_judges(trajs: Any, test: Any, n_states: int, lagtime: int) -> tuple[Dataset, Dataset, list[Note]]:
    """Trajectories to fit to, those to judge by (the same without ``test``), and what is said of short ones."""
    check_coordinates(trajs)
    data, too_short = long_trajectories(Dataset.of(trajs).shared(), lagtime)
    if n_states > data.n_frames:
        raise InputError(f"n_states={n_states:.6g}, but there are only {data.n_frames} frames; ask for fewer states")
    judges, too_short_test = data, ""
    if test is not None:
        check_coordinates(test)
        others = Dataset.of(test, data.n_columns)
        check_names(others.columns, data.columns, "test", "trajs has")
        judges, too_short_test = long_trajectories(others.shared(), lagtime, "test ")
    return data, judges, [(text, ShortTrajectoryWarning) for text in (too_short, too_short_test) if text]


def _splits(data: Dataset, judges: Dataset, lagtime: int, *, allow_overlap: bool) -> list[Split]:
    """What to fit to and what to judge by; without test data of their own, trajectories judge each other."""
    if judges is data:
        if not allow_overlap:
            check_repeated(data.trajectories)
        return hold_out(data, lagtime)
    if not allow_overlap:
        check_disjoint(data.trajectories, judges.trajectories)
    return [Split(data, groups(judges, "test trajectory"))]


def _checked_lagtimes(lagtimes: Any) -> list[int]:
    lags = sorted({check_integer("lagtimes", lag, 1) for lag in as_list("lagtimes", lagtimes)})
    if not lags:
        raise InputError("lagtimes is empty; give at least one lag time in frames, or None for a choice by the data")
    return lags


def _fits_by_method(
    runs: list[Split],
    estimators: dict[str, StateEstimator],
    lagtime: int,
    seed: int,
    n_jobs: int | None,
    bar: Any,
    kept: KeptFits | None,
) -> dict[str, list[Fit]]:
    """Every method on every split."""
    tasks = [
        # Numbers of a method's own: they do not depend on those that stand beside it.
        Task(name, i, estimator, split, (seed, i, crc32(name.encode())))
        for i, split in enumerate(runs)
        for name, estimator in estimators.items()
    ]
    fits: dict[str, list[Fit]] = {name: [] for name in estimators}
    for task, fit in zip(tasks, fit_all(tasks, lagtime, n_jobs, kept), strict=True):
        fits[task.name].append(fit)
        bar()
    return fits


def _models(fits: dict[str, list[Fit]]) -> dict[str, StateModel]:
    """Models of all training trajectories, of those methods that did not fail."""
    models = {name: whole.model for name, (whole, *_) in fits.items() if whole.model is not None}
    if not models:
        errors = "; ".join(f"{name}: {whole.error}" for name, (whole, *_) in fits.items())
        raise DegenerateSolutionError(f"every method failed: {errors}")
    return models


def _timescales(
    dtrajs: dict[str, list[StateArray]], lagtimes: list[int] | None, n_states: int, dt: float, unit: str, seed: int
) -> dict[str, ImpliedTimescales]:
    """Implied timescales of all methods over the same lag times: those chosen for the first, if none are given."""
    timescales: dict[str, ImpliedTimescales] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", M3CWarning)  # they are kept on the results
        for name, states in dtrajs.items():
            timescales[name] = implied_timescales(
                states, lagtimes, n_states=n_states, dt=dt, unit=unit, random_state=seed
            )
            lagtimes = timescales[name].lagtimes.tolist()
    return timescales


def _table_of_splits(fits: dict[str, list[Fit]], dt: float, unit: str) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for name, runs in fits.items():
        for fit in runs:
            for held_out, judged in fit.judgements.items():
                its = {f"t{i + 2} / {unit}": t * dt for i, t in enumerate(judged.timescales)}
                row = {"method": name, "held out": held_out, "Q": judged.metastability, **its}
                rows.append({**row, "seconds": fit.seconds, "error": fit.error})
    return pd.DataFrame(rows)


def _table(
    splits: pd.DataFrame, fits: dict[str, list[Fit]], timescales: dict[str, ImpliedTimescales], unit: str
) -> pd.DataFrame:
    """One row per method."""
    import pandas as pd

    measured = ["Q", *(column for column in splits.columns if column.endswith(f"/ {unit}"))]
    rows = []
    for name, (fit, *_) in fits.items():
        own = splits[splits["method"] == name]
        row: dict[str, Any] = {"method": name}
        for column in measured:
            # Sample standard deviation: NaN, not zero, if there is one split only.
            row[column], row[f"{column} ±"] = own[column].mean(), own[column].std()
        row["populations"] = [] if fit.model is None else fit.model.populations.round(4).tolist()
        row["entered"] = least_entered(fit.model)
        row["seconds"] = fit.seconds
        row["measured"] = f"{own['Q'].notna().sum()} of {len(own)}"
        said = [] if fit.model is None else [*fit.model.warnings, *timescales[name].warnings]
        errors = sorted({text for text in own["error"] if text} | ({fit.error} if fit.error else set()))
        n_unknown = int((own["Q"].isna() & (own["error"] == "")).sum())
        if n_unknown:
            said = [f"Q is not known for {n_unknown} of {len(own)} held-out parts that do not leave every state", *said]
        row["warnings"] = "; ".join([*(f"failed: {text}" for text in errors), *said])
        rows.append(row)
    return pd.DataFrame(rows).set_index("method").astype({"entered": "Int64"})


def _rand_indices(dtrajs: dict[str, list[StateArray]]) -> pd.DataFrame:
    import pandas as pd
    from sklearn.metrics import adjusted_rand_score

    labels = {name: np.concatenate(states) for name, states in dtrajs.items()}
    values = [[adjusted_rand_score(a, b) for b in labels.values()] for a in labels.values()]
    return pd.DataFrame(values, index=list(labels), columns=list(labels))
