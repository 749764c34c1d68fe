"""The table of a scan: one row per number of states, with everything that speaks for or against it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from m3c_md.clustering.margin_model import M3CModel
from m3c_md.exceptions import M3CWarning
from m3c_md.inputs.dataset import Dataset
from m3c_md.markov.timescales import implied_timescales
from m3c_md.markov.transitions import metastability
from m3c_md.validation.methods import least_entered
from m3c_md.validation.scan_fits import REST, NumberOfStates
from m3c_md.validation.state_tree import shared_frames, state_tree
from m3c_md.validation.tables import WIDTH, aligned_lines
from m3c_md.wording import plain_number, with_error

if TYPE_CHECKING:
    import pandas as pd

StateArray = NDArray[np.int32]

_HEAD = ["states", "Q", "held-out Q", "slowest", "fastest", "stability", "smallest", "entered", "trajectories"]
_LEGEND = (
    "Q: metastability, at most the number of states; held-out Q: of fits to one half of the data, on the other half; "
    "slowest, fastest: timescales of exchange between the states in {unit}, at the lag time of the fit; stability: "
    "agreement with fits to halves of the data (adjusted Rand index, 1 for the same states); smallest: population; "
    "entered: how often the least entered state was; trajectories: how many visit the least visited state."
)


def table_and_tree(
    data: Dataset, fits: Mapping[int, NumberOfStates], lagtime: int, dt: float, unit: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Table of all numbers of states, and how their states split; all data are labelled once per number."""
    import pandas as pd

    rows, overlaps = [], {}
    above, n_above = np.zeros(data.n_frames, dtype=np.int32), 1
    for number, fit in fits.items():
        row = _empty_row(number, max(fits), fit, unit)
        if fit.model is not None:
            dtrajs = fit.model.transform(data)
            row |= _kinetics(dtrajs, number, lagtime, dt, unit) | _of_fits(fit, fit.model)
            labels = np.concatenate(dtrajs)
            overlaps[number] = shared_frames(above, labels, n_above, number)
            above, n_above = labels, number
        rows.append(row)
    table = pd.DataFrame(rows).set_index("n_states").astype({"entered": "Int64", "trajectories": "Int64"})
    fastest = {number: float(table.loc[number, f"t{number} / {unit}"]) for number in overlaps}
    return table, state_tree(overlaps, fastest, unit)


def terminal_lines(table: pd.DataFrame, unit: str) -> list[str]:
    """The table in lines of at most 100 characters, and what its columns are; `StateScan.table` has all.

    Parameters
    ----------
    table : DataFrame
        As in `StateScan.table`.
    unit : str
    """
    rows = [_HEAD]
    for number, row in table.iterrows():
        smallest = f"{min(row['populations']):.1%}" if row["populations"] else "-"
        rows.append(
            [
                *(str(number), with_error(row["Q"], row["Q ±"]), _number(row["held-out Q"], 4)),
                *(_number(row[f"t{i} / {unit}"]) for i in (2, number)),
                *(_number(row["stability"]), smallest),
                *(_number(row[name]) for name in ("entered", "trajectories")),
            ]
        )
    return [*aligned_lines(rows), "", *wrap(_LEGEND.format(unit=unit), WIDTH)]


def _number(value: Any, digits: int = 3) -> str:
    """A number with some digits, a count with all of them, a dash for what is not known."""
    if str(value) in ("nan", "None", "<NA>"):
        return "-"
    return plain_number(value, digits) if isinstance(value, float) else str(value)


def _empty_row(number: int, most: int, fit: NumberOfStates, unit: str) -> dict[str, Any]:
    """Row of a number of states that no model was found for."""
    row: dict[str, Any] = {"n_states": number, "Q": np.nan, "Q ±": np.nan, "held-out Q": np.nan}
    row |= {f"t{i} / {unit}": np.nan for i in range(2, most + 1)}
    row |= {"stability": np.nan, "least stability": np.nan, "halves": len(fit.halves), "populations": []}
    return row | {"entered": None, "trajectories": None, "warnings": fit.whole.error}


def _kinetics(dtrajs: list[StateArray], n_states: int, lagtime: int, dt: float, unit: str) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", M3CWarning)  # NaN says the same
        quality = metastability(dtrajs, lagtime, n_states)
        its = implied_timescales(dtrajs, [lagtime], n_states=n_states, confidence=None)
    values = {f"t{i + 2} / {unit}": its.timescales_for_process(i)[0] * dt for i in range(its.max_n_processes)}
    return {"Q": quality, **values}


def _of_fits(fit: NumberOfStates, model: M3CModel) -> dict[str, Any]:
    """Fields that come from the fits rather than from labels of all data."""
    held_out = [half.judgements[REST].metastability for half in fit.halves if REST in half.judgements]
    known = [quality for quality in held_out if not np.isnan(quality)]
    lost = [half.error for half in fit.halves if half.model is None]
    failed = [f"{len(lost)} of {len(fit.halves)} fits to halves of the data failed: {lost[0]}"] if lost else []
    return {
        "Q ±": model.records[model.chosen].support.error,
        "held-out Q": np.mean(known) if known else np.nan,
        "stability": np.mean(fit.agreements),
        "least stability": min(fit.agreements),
        "populations": model.populations.round(4).tolist(),
        "entered": least_entered(model),
        "trajectories": _fewest_trajectories(model),
        "warnings": "; ".join([*model.warnings, *failed]),
    }


def _fewest_trajectories(model: M3CModel) -> int | None:
    """Number of trajectories that visit the state which is visited by the fewest; None if that is not known."""
    counts = None if model.visits is None else model.visits["trajectories"]
    return None if counts is None or counts.isna().any() else int(counts.min())
