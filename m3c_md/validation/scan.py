"""How many states? M3C for several numbers of them, and what speaks for each."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from deeptime.util.callbacks import ProgressCallback
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray
from m3c_md.clustering.checkpoint import check_checkpoint
from m3c_md.clustering.m3c import M3C
from m3c_md.clustering.margin_model import M3CModel
from m3c_md.exceptions import (
    DegenerateSolutionError,
    InputError,
    M3CWarning,
    ModelFileError,
    ShortTrajectoryWarning,
)
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
from m3c_md.markov.timescales import implied_timescales
from m3c_md.markov.transitions import metastability
from m3c_md.validation.kept_fits import KeptFits, fit_all
from m3c_md.validation.methods import Fit, Task, least_entered
from m3c_md.validation.splits import Split, long_trajectories

if TYPE_CHECKING:
    import pandas as pd

StateArray = NDArray[np.int32]

# Resampled fits of a number of states that every candidate lost one of: dear, and hardly worth it.
HELD_RESAMPLES = 2
# Adjusted Rand index between the labels of resampled data above which we call states stable.
STABLE = 0.8
# Fewer trajectories than this are cut into at least as many pieces before they are resampled.
N_PIECES = 10


@dataclass(frozen=True, repr=False, eq=False)
class StateScan:
    """What speaks for each number of states; made by `scan_states`.

    Attributes
    ----------
    table : DataFrame
        One row per number of states: Q, implied timescales at the lag time (in ``unit``), populations, stability (mean
        adjusted Rand index of the labels under resampling of the trajectories) and its smallest value, how often the
        least visited state was entered, warnings.
    models : dict
        Model for each number of states.
    suggestion : int or None
        Number of states that the rule of `scan_states` picks; None if none is convincing.
    reason : str
        Why, in words. The decision is yours.
    lagtime, dt, unit
        As given.
    """

    table: pd.DataFrame
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

    def __repr__(self) -> str:
        table = self.table.drop(columns="warnings").to_string(float_format=lambda value: f"{value:.4g}")
        return f"{table}\n\n{self.reason}"

    def _repr_html_(self) -> str:
        return str(self.table.to_html(float_format=lambda value: f"{value:.4g}")) + f"<p>{escape(self.reason)}</p>"


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
    by the model and by models of resampled trajectories) and whose slow processes are all longer than the lag time,
    the one with the largest gap to the next process is suggested: t_κ of κ states against t_{κ+1} of κ + 1 states. The
    largest number has no next one, so scan one further than you would go.

    Parameters
    ----------
    trajs : array (n_frames, n_columns) or list of them
        Memory maps stay where they are, and many frames are read a slice at a time; all else is read once.
    n_states : int or iterable of int
        Numbers of states to try.
    lagtime : int
        Lag time in frames.
    n_resamples : int
        How often the trajectories (pieces of them, if they are fewer than ten) are drawn anew with replacement and
        fitted again, from all starts at the bandwidth of the model; twice at most where every candidate lost a state.
    dt, unit : float, str
        Time between frames, for tables and pictures.
    random_state : None, int or numpy.random.Generator
    n_jobs : int, optional
        Processes over which the fits are spread; all cores by default.
    progress : optional
        A progress bar class such as ``tqdm.tqdm``.
    checkpoint : path, optional
        Folder in which every finished fit is kept. The same scan with the same folder goes on where it was stopped, by
        whatever; remove the folder when you have the result. Needs a number as ``random_state``.

    Returns
    -------
    StateScan

    Examples
    --------
    >>> import numpy as np
    >>> from m3c_md import scan_states
    >>> rng = np.random.default_rng(0)
    >>> trajs = [np.repeat([-1.0, 1.0] * 4, 40) + 0.2 * rng.normal(size=320) for _ in range(3)]
    >>> scan = scan_states(trajs, 2, n_resamples=2, random_state=0, n_jobs=1)  # range(2, 8) in earnest
    >>> scan.table.loc[2, "stability"], scan.suggestion
    (np.float64(1.0), 2)
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
    check_progress(progress)

    check_coordinates(trajs)
    data, too_short = long_trajectories(Dataset.of(trajs).shared(), lagtime)
    if too_short:
        warnings.warn(too_short, ShortTrajectoryWarning, stacklevel=2)
    samples = _samples(data, lagtime, n_resamples, np.random.default_rng(seed))
    kept = None if folder is None else KeptFits.of(folder, data.trajectories, "scan", lagtime, seed)
    with ProgressCallback(progress, "scan", len(numbers) * (1 + n_resamples)) as bar:
        fits = _fits_by_number(data, samples, [M3C(number, lagtime) for number in numbers], seed, jobs, bar, kept)
    models = {number: whole.model for number, (whole, *_) in fits.items() if isinstance(whole.model, M3CModel)}
    if not models:
        raise DegenerateSolutionError(
            "M3C failed for every number of states: " + "; ".join(f"{n}: {fits[n][0].error}" for n in numbers)
        )
    table = _table(data, fits, lagtime, time_step, time_unit)
    suggestion, reason = suggest(table, lagtime * time_step, time_unit)
    return StateScan(table, models, suggestion, reason, lagtime, time_step, time_unit)


def _samples(data: Dataset, lagtime: int, n_resamples: int, rng: np.random.Generator) -> list[Dataset]:
    """Draw trajectories with replacement, or pieces of them if they are fewer than ten."""
    # Of two trajectories every second draw would be the two again.
    wanted = -(-N_PIECES // len(data.lengths))
    pieces = data.cut([_equal_parts(n, max(1, min(wanted, n // (2 * lagtime + 2)))) for n in data.lengths])
    n_pieces = len(pieces.lengths)
    return [pieces.chosen(draw) for draw in rng.integers(n_pieces, size=(n_resamples, n_pieces))]


def _equal_parts(n_frames: int, n_parts: int) -> list[int]:
    """Where to cut frames into parts whose lengths differ by one at most, the longer ones first."""
    size, longer = divmod(n_frames, n_parts)
    return [i * size + min(i, longer) for i in range(1, n_parts)]


def _fits_by_number(
    data: Dataset,
    samples: list[Dataset],
    estimators: list[M3C],
    seed: int,
    n_jobs: int | None,
    bar: Any,
    kept: KeptFits | None,
) -> dict[int, list[Fit]]:
    """Fit the data and then, where that gave a model, the samples; for every number of states."""
    fits: dict[int, list[Fit]] = {estimator.n_states: [] for estimator in estimators}

    def run(some: list[tuple[M3C, Dataset, int]]) -> None:
        tasks = [_task(estimator, sample, i, seed) for estimator, sample, i in some]
        results = fit_all(tasks, estimators[0].lagtime, n_jobs, kept)
        for (estimator, _, _), task, fit in zip(some, tasks, results, strict=True):
            _check_kind(task, fit)
            fits[estimator.n_states].append(fit)
            bar()

    run([(estimator, data, 0) for estimator in estimators])
    again: list[tuple[M3C, Dataset, int]] = []
    for estimator in estimators:
        model: Any = fits[estimator.n_states][0].model
        if model is None:  # nothing that could come back
            bar(len(samples))
            continue
        # The search over bandwidths is the dear part, and what is asked here is whether the same states come back.
        fixed = M3C(**{**estimator.get_params(), "bandwidth": model.bandwidth})
        some = samples[:HELD_RESAMPLES] if model.records[0].held else samples
        again += [(fixed, sample, i + 1) for i, sample in enumerate(some)]
        bar(len(samples) - len(some))
    run(again)
    return fits


def _task(estimator: M3C, sample: Dataset, run: int, seed: int) -> Task:
    """Fit of one number of states to the data (run 0) or to a sample of them."""
    n_states = estimator.n_states
    return Task(f"{n_states} states", run, estimator, Split(sample, {}), (seed, n_states, run))


def _check_kind(task: Task, fit: Fit) -> None:
    """Refuse models of other methods, which a checkpoint may hold."""
    if not isinstance(fit.model, M3CModel | None):
        raise ModelFileError(f"the model of {task.name} in the checkpoint is a {type(fit.model).__name__}; remove it")


def _table(data: Dataset, fits: dict[int, list[Fit]], lagtime: int, dt: float, unit: str) -> pd.DataFrame:
    import pandas as pd

    most = max(fits)
    rows = []
    for number, (whole, *resampled) in fits.items():
        row: dict[str, Any] = {"n_states": number, "Q": np.nan}
        row |= {f"t{i} / {unit}": np.nan for i in range(2, most + 1)}
        row |= {"stability": np.nan, "least stability": np.nan, "populations": []}
        row |= {"entered": None, "warnings": whole.error}
        if whole.model is not None:
            dtrajs = whole.model.transform(data)
            row |= _kinetics(dtrajs, number, lagtime, dt, unit)
            indices = _rand_indices(np.concatenate(dtrajs), data, resampled)
            row |= {"stability": indices.mean(), "least stability": indices.min()}
            row["populations"] = whole.model.populations.round(4).tolist()
            row["entered"] = least_entered(whole.model)
            lost = [fit.error for fit in resampled if fit.model is None]
            failed = (
                [f"{len(lost)} of {len(resampled)} fits to resampled trajectories failed: {lost[0]}"] if lost else []
            )
            row["warnings"] = "; ".join([*whole.model.warnings, *failed])
        rows.append(row)
    return pd.DataFrame(rows).set_index("n_states").astype({"entered": "Int64"})


def _kinetics(dtrajs: list[StateArray], n_states: int, lagtime: int, dt: float, unit: str) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", M3CWarning)  # NaN says the same
        quality = metastability(dtrajs, lagtime, n_states)
        its = implied_timescales(dtrajs, [lagtime], n_states=n_states, confidence=None)
    values = {f"t{i + 2} / {unit}": its.timescales_for_process(i)[0] * dt for i in range(its.max_n_processes)}
    return {"Q": quality, **values}


def _rand_indices(labels: StateArray, data: Dataset, resampled: list[Fit]) -> FloatArray:
    """Adjusted Rand index of every resampled model with the labels; a fit that failed counts as zero."""
    from sklearn.metrics import adjusted_rand_score

    values = [
        0.0 if fit.model is None else adjusted_rand_score(labels, np.concatenate(fit.model.transform(data)))
        for fit in resampled
    ]
    return np.array(values)


def suggest(table: pd.DataFrame, lag: float, unit: str) -> tuple[int | None, str]:
    """Number of states with the largest gap to the next process among those that are stable and slow, and why.

    Parameters
    ----------
    table : DataFrame
        As in `StateScan.table`.
    lag : float
        Lag time in ``unit``.
    unit : str
    """
    # The fastest process of a decomposition into κ states is t_κ.
    fastest = {n: float(table.loc[n, f"t{n} / {unit}"]) for n in table.index}
    stability = {n: float(table.loc[n, "stability"]) for n in table.index}
    good = [n for n in table.index if stability[n] >= STABLE and fastest[n] > lag]
    if not good:
        best = max(stability, key=lambda n: np.nan_to_num(stability[n], nan=-1.0))
        speed = "is not resolved" if np.isnan(fastest[best]) else f"takes {fastest[best]:.3g} {unit}"
        return None, (
            f"No number of states is convincing: labels agree best for {best} states (adjusted Rand index "
            f"{stability[best]:.2f}, {STABLE} wanted), whose fastest process {speed} (lag time {lag:g} {unit}). More "
            "data, other features or another lag time may help."
        )
    gaps = {n: _gap(fastest, n, lag) for n in good}
    known = {n: gap for n, gap in gaps.items() if not np.isnan(gap)}
    chosen = max(known, key=lambda n: known[n]) if known else good[-1]
    reason = (
        f"{chosen} states: labels come back when trajectories are resampled (adjusted Rand index "
        f"{stability[chosen]:.2f}), and the fastest process of the states takes {fastest[chosen]:.3g} {unit}, longer "
        f"than the lag time of {lag:g} {unit}."
    )
    if chosen in known:
        # A next process below the lag time, or one that M3C cannot find, is not measured: the gap may be larger.
        least = "" if fastest[chosen + 1] > lag else "at least "
        reason += f" The next process is {least}{known[chosen]:.1f} times faster"
        reason += f", the largest gap among {', '.join(map(str, known))} states." if len(known) > 1 else "."
    unknown = [n for n in good if n not in known]
    if unknown:
        reason += f" The gap after {', '.join(map(str, unknown))} states is not known: scan one state more."
    unstable = [n for n in table.index if stability[n] < STABLE]
    if unstable:
        reason += f" Not stable: {', '.join(f'{n} ({stability[n]:.2f})' for n in unstable)}."
    missing = [n for n in table.index if np.isnan(stability[n])]
    if missing:
        reason += f" M3C failed for {', '.join(map(str, missing))} states."
    return chosen, reason


def _gap(fastest: dict[int, float], n: int, lag: float) -> float:
    """How many times slower the last process kept is than the first one left out; NaN if that is not known.

    A process below the lag time is not resolved: all that is known is that it is faster.
    """
    if n + 1 not in fastest:
        return np.nan
    return fastest[n] / max(float(np.nan_to_num(fastest[n + 1])), lag)
