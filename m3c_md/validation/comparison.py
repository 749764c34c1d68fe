"""M3C next to what people use instead, judged on trajectories that none of the methods has seen."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from deeptime.util.callbacks import ProgressCallback
from numpy.typing import NDArray

from m3c_md.clustering.checkpoint import check_checkpoint
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
from m3c_md.markup import paragraphs
from m3c_md.validation.contenders import Choices, Settings, Shape, build_methods, label_of
from m3c_md.validation.kept_fits import KeptFits, fit_all
from m3c_md.validation.measures import reference_timescales
from m3c_md.validation.methods import Fit, Task, words_of_task
from m3c_md.validation.shown_study import ShownStudy
from m3c_md.validation.splits import Split, check_disjoint, check_repeated, groups, hold_out, long_trajectories
from m3c_md.validation.tables import (
    agreement_of_methods,
    in_lines,
    notes,
    table_of_methods,
    table_of_settings,
    table_of_splits,
    terminal_lines,
)
from m3c_md.validation.verdict import differences_to_leader, named_judges, verdict
from m3c_md.wording import amount

if TYPE_CHECKING:
    import pandas as pd

StateArray = NDArray[np.int32]


@dataclass(frozen=True, repr=False, eq=False)
class Comparison(ShownStudy):
    """Methods side by side; made by `compare`.

    Attributes
    ----------
    verdict : str
        Who leads, and how far the others lie behind, in words. Differences of Q are paired by held-out parts.
    table : DataFrame
        One row per method: the setting of its model; mean and spread (standard deviation) over the held-out parts of Q,
        of VAMP-2 and of the implied timescales at the lag time (in ``unit``); ratios of these timescales to those of a
        Markov state model of microstates on the same part; Q in hindsight, of the setting that each held-out part
        itself would have chosen; populations, the smallest of them, how often the least entered state was entered; how
        many states (summed over parts) the held-out data never visit, which then add nothing to Q, and how many they
        visit and never leave; seconds to fit, on how many parts the method could be judged, warnings.
    splits : DataFrame
        One row per method and held-out part: a trajectory, or a group of them.
    settings : DataFrame
        One row per method with several settings, setting and held-out part: whether it was chosen, Q and VAMP-2 on the
        part of the training data that chose, and on the held-out part.
    differences : DataFrame
        One row per method: Q of the leader minus its own, ends of the 95 % interval, number of parts.
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

    Examples
    --------
    >>> x = np.repeat([-1.0, 1.0] * 20, 25)[:, None] + 0.2 * np.random.default_rng(0).normal(size=(1000, 2))
    >>> found = compare([x, x[::-1]], 2, methods=("k-medoids",), n_jobs=1, random_state=0)
    >>> found.verdict, found.models["k-medoids"].n_states
    ('k-medoids was the only one to be judged.', 2)
    """

    verdict: str
    table: pd.DataFrame
    splits: pd.DataFrame
    settings: pd.DataFrame
    differences: pd.DataFrame
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
        judges = named_judges(self.splits["held out"])
        return f"{self.n_states} states at lag time {amount(self.lagtime * self.dt, self.unit, 6)}, on {judges}:"

    def lines(self) -> list[str]:
        """Title, verdict and table in lines of at most 100 characters."""
        return terminal_lines(self._title, self.verdict, self.table, self.splits["held out"].nunique())

    def __repr__(self) -> str:
        said = [line for text in notes(self.table, self.messages) for line in in_lines(text, "  ")]
        return "\n".join([*self.lines(), *([""] if said else []), *said])

    def _repr_html_(self) -> str:
        from m3c_md.report.study_report import table_of_comparison

        said = paragraphs(notes(self.table, self.messages))
        return f"{paragraphs([self._title, self.verdict])}{table_of_comparison(self)}{said}"

    def _page(self) -> Any:
        from m3c_md.report.study_report import comparison_page

        return comparison_page


def compare(
    trajs: Any,
    n_states: int,
    *,
    methods: Any = None,
    lagtime: int = 1,
    lagtimes: Sequence[int] | None = None,
    test: Any = None,
    allow_overlap: bool = False,
    n_microstates: int | Sequence[int] = (50, 100, 200),
    n_components: int | Sequence[int] = (2, 5, 10),
    tica_lagtime: int | Sequence[int] | None = None,
    dt: float = 1.0,
    unit: str = "frame",
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: Any = None,
    checkpoint: Any = None,
) -> Comparison:
    """Fit several methods and judge them on trajectories that they have not seen.

    Settings of a method that nobody knows beforehand (microstates, components) are chosen for each fit by one rule: all
    are fitted to a part of its training trajectories (every second one, or the first halves of fewer than four), and
    the one with the largest Q on the rest is taken, among equals that with the largest VAMP-2.

    Parameters
    ----------
    trajs : array (n_frames, n_columns) or list of them
        Trajectories to fit to. Memory maps stay where they are: M3C and MMC read many frames a slice at a time, while
        PCCA+ and k-medoids need all of them in memory. All else is read once.
    n_states : int
        Number of states, the same for all methods.
    methods : list of str and dict, optional
        Names among "m3c", "pcca+", "tica+pcca+", "hmm" (discrete hidden Markov model on microstates), "vampnet" (needs
        torch: the extra ``deep``), "mmc" and "k-medoids", and dicts ``{"name": estimator}`` of your own. These have
        ``fit``, ``fetch_model`` and ``transform`` as in deeptime (given a list of trajectories), or ``fit`` and
        ``predict`` as in scikit-learn (given all frames), and return labels from 0 to ``n_states - 1``. By default
        M3C, PCCA+, MMC and k-medoids, from nine columns on also TICA + PCCA+.
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
        Numbers of microstates of PCCA+, with TICA or without, and of the hidden Markov model, to choose among.
    n_components : int or sequence of int
        Numbers of slow components of TICA to choose among, for "tica+pcca+" and, from nine columns on, "hmm".
    tica_lagtime : int or sequence of int, optional
        Lag times of TICA to choose among; by default ``lagtime`` and, where trajectories are long enough, ten times
        as much.
    dt, unit : float, str
        Time between frames, for tables and pictures.
    random_state : None, int or numpy.random.Generator
        Same number, same answer, whatever ``n_jobs`` and whichever methods stand beside.
    n_jobs : int, optional
        Processes over which the fits are spread; all cores by default.
    progress : optional
        True, or a progress bar class such as ``tqdm.tqdm``; it names what is being fitted.
    checkpoint : path, optional
        Folder in which every finished fit is kept, but those of estimators of your own. The same comparison with the
        same folder goes on where it was stopped, by whatever; remove the folder when you have the result. Needs a
        number as ``random_state``.

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
    >>> result.verdict
    'PCCA+ (10 cells) and k-medoids are level within errors.'
    """
    # A typo is told at once, not after the time that it may take to read the data.
    check_integer("n_states", n_states, 2)
    check_integer("lagtime", lagtime, 1)
    choices = Choices(
        as_list("n_microstates", n_microstates),  # each may be a generator, to be read once
        as_list("n_components", n_components),
        None if tica_lagtime is None else as_list("tica_lagtime", tica_lagtime),
    )
    build_methods(methods, n_states, lagtime, choices, Shape())  # in earnest below
    lags = None if lagtimes is None else _checked_lagtimes(lagtimes)
    check_flag("allow_overlap", allow_overlap)
    time_step, time_unit = check_positive("dt", dt), check_string("unit", unit)
    folder = check_checkpoint(checkpoint, random_state)
    seed = int(check_random_state(random_state).integers(2**63))
    jobs = check_jobs(n_jobs)
    progress = check_progress(progress)

    data, judges, said = _data_and_judges(trajs, test, n_states, lagtime)
    splits = _splits(data, judges, lagtime, allow_overlap=allow_overlap)
    estimators, left_out = build_methods(methods, n_states, lagtime, choices, _shape(splits))
    lags, too_long = (None, []) if lags is None else usable_lagtimes(max(judges.lengths), lags)
    for message, category in said + too_long:
        warnings.warn(message, category, stacklevel=2)
    messages = [*(message for message, _ in said), *left_out, *(message for message, _ in too_long)]

    # The models themselves can be judged on test data of their own only; held-out splits take other fits.
    runs = splits if test is not None else [Split(data, {}), *splits]
    kept = None if folder is None else KeptFits.of(folder, [*data.trajectories, *judges.trajectories], lagtime, seed)
    with ProgressCallback(progress, "compare", len(runs) * len(estimators)) as bar:
        fits = _fits_by_method(runs, estimators, lagtime, seed, jobs, bar, kept)
    models = _models(fits)
    dtrajs = {name: model.transform(judges) for name, model in models.items()}
    timescales = _timescales(dtrajs, lags, n_states, time_step, time_unit, seed)
    by_split = table_of_splits(fits, reference_timescales(splits, n_states - 1, lagtime), time_step, time_unit)
    by_setting = table_of_settings(fits)
    table = table_of_methods(by_split, by_setting, fits, timescales, time_unit)
    words, differences = _judged(by_split, table)
    results = (words, table, by_split, by_setting, differences, models, dtrajs, timescales)
    given = (n_states, lagtime, time_step, time_unit)
    return Comparison(*results, agreement_of_methods(dtrajs), *given, messages)


def _shape(splits: list[Split]) -> Shape:
    """What limits the settings: the smallest part that one is fitted to."""
    trains = [split.train for split in splits]
    longest = min(max(train.lengths) for train in trains)
    return Shape(min(train.n_frames for train in trains), trains[0].n_columns, longest)


def _judged(splits: pd.DataFrame, table: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """Verdict, and the differences that it rests on."""
    import pandas as pd

    leader, gaps = differences_to_leader(splits)
    words = verdict(leader, gaps, {str(name): label_of(str(name), row["setting"]) for name, row in table.iterrows()})
    rows = {name: (gap.mean, gap.mean - gap.half, gap.mean + gap.half, gap.n_parts) for name, gap in gaps.items()}
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["behind by", "low", "high", "parts"])
    return words, frame.rename_axis(index="method")


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
    estimators: dict[str, Settings],
    lagtime: int,
    seed: int,
    n_jobs: int | None,
    bar: Any,
    kept: KeptFits | None,
) -> dict[str, list[Fit]]:
    """Every method on every split; the bar names the first that is not done."""
    tasks = [
        # Numbers of a method's own: they do not depend on those that stand beside it.
        Task(name, i, settings, split, (seed, i, crc32(name.encode())))
        for i, split in enumerate(runs)
        for name, settings in estimators.items()
    ]
    fits: dict[str, list[Fit]] = {name: [] for name in estimators}
    bar.set_description(words_of_task(tasks[0]))
    for number, fit in enumerate(fit_all(tasks, lagtime, n_jobs, kept)):
        fits[tasks[number].name].append(fit)
        bar.set_description("compare" if number + 1 == len(tasks) else words_of_task(tasks[number + 1]))
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
