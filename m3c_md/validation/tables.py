"""Tables of a comparison: of methods, held-out parts and settings; the first also as a terminal shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from m3c_md.arrays import FloatArray
from m3c_md.markov.timescales import ImpliedTimescales
from m3c_md.validation.measures import Judgement
from m3c_md.validation.methods import Fit, least_entered
from m3c_md.wording import plain_number, with_error

if TYPE_CHECKING:
    import pandas as pd

# Characters of a line in a terminal, and of a name in it at least.
WIDTH, LEAST_NAME = 100, 8
Fits = Mapping[str, list[Fit]]


def table_of_splits(fits: Fits, references: Mapping[str, FloatArray], dt: float, unit: str) -> pd.DataFrame:
    """One row per method and held-out part, with the setting that was chosen without it.

    Parameters
    ----------
    fits : dict
        Of each method, to all training data and then to those of every split.
    references : dict
        Timescales of microstates in frames, by held-out part.
    dt, unit : float, str
    """
    import pandas as pd

    rows = []
    for name, runs in fits.items():
        for fit in runs:
            for held_out, judged in fit.judgements.items():
                row = {"method": name, "setting": fit.setting, "held out": held_out}
                row |= _measures(judged, references[held_out], dt, unit)
                rows.append({**row, "seconds": fit.seconds, "error": fit.error})
    return pd.DataFrame(rows)


def _measures(judged: Judgement, reference: FloatArray, dt: float, unit: str) -> dict[str, Any]:
    times = judged.timescales
    return {
        "Q": judged.metastability,
        "VAMP-2": judged.vamp2,
        **{f"t{i + 2} / {unit}": t * dt for i, t in enumerate(times)},
        **{f"t{i + 2} ratio": t for i, t in enumerate(times / reference)},
        "never visited": judged.never_visited,
        "never left": judged.never_left,
    }


def table_of_settings(fits: Fits) -> pd.DataFrame:
    """One row per method, setting and held-out part, for methods with several settings.

    "inner Q" and "inner VAMP-2" are those of held-out training data, by which the choice was made; "Q" is that of the
    held-out part, of which the choice knew nothing.
    """
    import pandas as pd

    columns = ["method", "setting", "held out", "chosen", "inner Q", "inner VAMP-2", "Q", "VAMP-2"]
    rows = [
        (name, setting, held_out, setting == fit.setting, *trial.inner[:2], *judged[:2])
        for name, runs in fits.items()
        for fit in runs
        for setting, trial in fit.trials.items()
        for held_out, judged in trial.judgements.items()
    ]
    return pd.DataFrame(rows, columns=columns)


def table_of_methods(
    splits: pd.DataFrame,
    settings: pd.DataFrame,
    fits: Fits,
    timescales: Mapping[str, ImpliedTimescales],
    unit: str,
) -> pd.DataFrame:
    """One row per method."""
    import pandas as pd

    times = [column for column in splits.columns if column.endswith(f"/ {unit}")]
    ratios = [column for column in splits.columns if column.endswith(" ratio")]
    rows = []
    for name, (fit, *_) in fits.items():
        own = splits[splits["method"] == name]
        row: dict[str, Any] = {"method": name, "setting": fit.setting}
        # Sample standard deviation: NaN, not zero, if there is one split only.
        row |= {"Q": own["Q"].mean(), "Q ±": own["Q"].std(), "Q in hindsight": _hindsight(settings, name)}
        for column in ("VAMP-2", *times):
            row[column], row[f"{column} ±"] = own[column].mean(), own[column].std()
        row |= {column: own[column].mean() for column in ratios}
        row["populations"] = [] if fit.model is None else fit.model.populations.round(4).tolist()
        row["smallest"] = np.nan if fit.model is None else float(fit.model.populations.min())
        row["entered"] = least_entered(fit.model)
        row |= {column: int(own[column].sum()) for column in ("never visited", "never left")}
        row |= {"seconds": fit.seconds, "measured": f"{own['Q'].notna().sum()} of {len(own)}"}
        row["warnings"] = _warnings(own, fit, timescales.get(name))
        rows.append(row)
    return pd.DataFrame(rows).set_index("method").astype({"entered": "Int64"})


def agreement_of_methods(dtrajs: Mapping[str, Sequence[NDArray[np.int32]]]) -> pd.DataFrame:
    """Adjusted Rand index of every two methods."""
    import pandas as pd
    from sklearn.metrics import adjusted_rand_score

    labels = {name: np.concatenate(states) for name, states in dtrajs.items()}
    values = [[adjusted_rand_score(a, b) for b in labels.values()] for a in labels.values()]
    return pd.DataFrame(values, index=list(labels), columns=list(labels))


def _hindsight(settings: pd.DataFrame, method: str) -> float:
    """Mean Q of the settings that each held-out part itself would have chosen; NaN if there was no choice."""
    own = settings[settings["method"] == method]
    return float(own.groupby("held out")["Q"].max().mean()) if len(own) else np.nan


def _warnings(own: pd.DataFrame, fit: Fit, timescales: ImpliedTimescales | None) -> str:
    """What there is to say of a method: failures first, then what the held-out parts do not show, then the model's."""
    errors = sorted({text for text in own["error"] if text} | ({fit.error} if fit.error else set()))
    said = [f"failed: {text}" for text in errors]
    missed = own["never visited"]
    if missed.sum():
        said.append(
            f"{_times(missed.sum())} a state adds nothing to Q, because {(missed > 0).sum()} of {len(own)} held-out "
            "parts do not visit it"
        )
    if fit.trials and all(np.isnan(trial.inner.metastability) for trial in fit.trials.values()):
        said.append(
            f"its setting ({fit.setting}) is the first, not a choice: no fit to a part of the data came to an end"
        )
    if fit.model is not None:
        said += fit.model.warnings
    return "; ".join([*said, *([] if timescales is None else timescales.warnings)])


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def terminal_lines(title: str, verdict: str, table: pd.DataFrame, n_parts: int) -> list[str]:
    """Verdict and table of methods in lines of at most 100 characters.

    Parameters
    ----------
    title, verdict : str
    table : DataFrame
        As in `Comparison.table`.
    n_parts : int
        Number of held-out parts.
    """
    ratios = [column for column in table.columns if column.endswith(" ratio")]
    with_settings = bool(table["Q in hindsight"].notna().any())
    head = ["", "Q", "VAMP-2", _ratio_head(ratios), "smallest", "entered", "missed", "s"]
    if with_settings:
        head.insert(2, "hindsight")
    rows = [head]
    for name, row in table.iterrows():
        cells = [str(name), with_error(row["Q"], row["Q ±"]), _number(row["VAMP-2"])]
        cells += [_ratio_cell([row[column] for column in ratios]), _percent(row["smallest"])]
        cells += [_count(row["entered"]), _missed(row), plain_number(row["seconds"])]
        if with_settings:
            cells.insert(2, _number(row["Q in hindsight"]))
        rows.append(cells)
    return [title, *in_lines(verdict), "", *aligned_lines(rows), *_legend(table, n_parts, with_settings)]


def aligned_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of a table in lines, numbers to the right; where they would be too long, names in the first column give way.

    Examples
    --------
    >>> aligned_lines([["", "Q"], ["M3C", "2.66"], ["MMC", "2.6"]])
    ['        Q', 'M3C  2.66', 'MMC   2.6']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[0] = min(widths[0], max(LEAST_NAME, WIDTH - sum(widths[1:]) - 2 * len(widths[1:])))
    return [
        "  ".join(_aligned(cell, width, i) for i, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]


def notes(table: pd.DataFrame, messages: Sequence[str]) -> list[str]:
    """What there is to say of each method, and of all."""
    return [*(f"{name}: {text}" for name, text in table["warnings"].items() if text), *messages]


def _legend(table: pd.DataFrame, n_parts: int, with_settings: bool) -> list[str]:
    """What the columns are."""
    chosen = "; ".join(f"{name} {setting}" for name, setting in table["setting"].items() if setting)
    words = [f"Settings: {chosen}."] if chosen else []
    if with_settings:
        words.append("Settings are chosen on held-out training data; hindsight is what the test data would choose.")
    parts = f"{n_parts} held-out part{'s' if n_parts > 1 else ''}"
    words.append(
        f"Q: mean ± deviation over {parts}; t/micro: timescales over those of a micro-state MSM; smallest: "
        f"population; entered: how often the least entered state was; missed: states that {parts} never visit + visit "
        "and never leave."
    )
    return ["", *(line for text in words for line in in_lines(text))]


def in_lines(text: str, indent: str = "") -> list[str]:
    """Text as a terminal shows it, words whole; ``indent`` stands before all lines but the first.

    Examples
    --------
    >>> [len(line) for line in in_lines("word " * 30, "  ")]
    [99, 51]
    """
    return wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _aligned(cell: str, width: int, column: int) -> str:
    if column:
        return cell.rjust(width)
    return (cell if len(cell) <= width else f"{cell[: width - 1]}…").ljust(width)


def _ratio_head(ratios: Sequence[str]) -> str:
    numbers = [column.split(" ")[0] for column in ratios]
    if len(numbers) > 2:
        return f"{numbers[0]}..{numbers[-1]}/micro"
    return f"{' '.join(numbers)}/micro"


def _ratio_cell(values: Sequence[float]) -> str:
    shown = values if len(values) <= 2 else (values[0], values[-1])
    return (" " if len(values) <= 2 else "..").join(_ratio(value) for value in shown)


def _ratio(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}" if value < 10 else f"{value:.3g}"


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.4g}"


def _missed(row: Any) -> str:
    return "-" if np.isnan(row["Q"]) else f"{row['never visited']}+{row['never left']}"


def _percent(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.1%}"


def _count(value: Any) -> str:
    return "-" if str(value) in ("<NA>", "nan", "None") else str(value)
