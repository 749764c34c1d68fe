"""Table of states for a paper: as a DataFrame, in Markdown and in LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from m3c_md.clustering.visits import visits_of
from m3c_md.inputs.settings import check_flag
from m3c_md.inputs.state_names import names_or_none
from m3c_md.markov.kinetics import Kinetics, compact, kinetics
from m3c_md.wording import amount, intervals_by

if TYPE_CHECKING:
    import pandas as pd

    from m3c_md.clustering.state_model import StateModel

# Characters with a meaning of their own in LaTeX.
LATEX = {"\\": r"\textbackslash{}", **{c: f"\\{c}" for c in "&%$#_{}"}, "~": r"\textasciitilde{}", "^": r"\^{}"}


@dataclass(frozen=True)
class StateSummary:
    """Populations, life times, visits and a representative frame of every state.

    Attributes
    ----------
    table : pandas.DataFrame
        One row per state: ``name``, ``population`` and ``life time`` (each with ``... low`` and ``... high``, the ends
        of the 95 % interval), ``visits`` (separate stays), ``trajectory`` and ``frame`` of the frame deepest inside.
    kinetics : Kinetics
        Where populations and life times come from; has first-passage times and free energies, too.
    margin : float
        Of the coring, 0 without it.
    """

    table: pd.DataFrame
    kinetics: Kinetics
    margin: float

    def text_table(self) -> pd.DataFrame:
        """Table of text as it is printed: each value with its interval in one column, times with their unit."""
        shown = compact(self.table)
        return shown.rename(columns={"life time": f"life time ({self.kinetics.unit})"})

    def to_markdown(self) -> str:
        """Table in Markdown.

        Examples
        --------
        >>> import pandas as pd
        >>> result = kinetics([0, 0, 0, 1, 1] * 40, confidence=None)
        >>> print(StateSummary(pd.DataFrame({"name": ["a", "b"], "visits": [40, 40]}), result, 0.0).to_markdown())
        | state | name | visits |
        |---|---|---|
        | 0 | a | 40 |
        | 1 | b | 40 |
        """
        head, rows = self._cells()
        lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
        return "\n".join("|---" * len(head) + "|" if row[0] == "---" else f"| {' | '.join(row)} |" for row in lines)

    def to_latex(self) -> str:
        """Table in LaTeX (a tabular environment that needs no package)."""
        head, rows = self._cells()

        def line(cells: Sequence[str]) -> str:
            return " & ".join("".join(LATEX.get(c, c) for c in cell).replace(" to ", "--") for cell in cells) + r" \\"

        body = "\n".join(line(row) for row in rows)
        columns = "l" * len(head)
        return f"\\begin{{tabular}}{{{columns}}}\n\\hline\n{line(head)}\n\\hline\n{body}\n\\hline\n\\end{{tabular}}"

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        shown = self.text_table()
        head = ["state", *map(str, shown.columns)]
        return head, [[str(i), *map(str, row)] for i, row in zip(shown.index, shown.to_numpy().tolist(), strict=True)]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.described()}>\n{self.text_table().to_string()}"

    def described(self) -> str:
        """Say which Markov model the numbers come from."""
        result = self.kinetics
        how = f"cored with margin {self.margin:.3g}" if self.margin else "not cored"
        return (
            f"lag time {amount(result.lagtime * result.dt, result.unit, 4)}, {how}, {intervals_by(result.confidence)}"
        )


def summarize(
    model: StateModel, data: Any, lagtime: int, *, core: bool, names: Sequence[str] | None, **options: Any
) -> StateSummary:
    """Summary of a model's states in some trajectories, see `StateModel.summary`."""
    called = names_or_none(model.state_names if names is None else names, model.n_states)
    cored = model.core(data, None if check_flag("core", core) else 0.0)
    dtrajs = cored.dtrajs if isinstance(cored.dtrajs, list) else [cored.dtrajs]
    result = kinetics(dtrajs, lagtime, n_states=model.n_states, names=called, **options)
    deepest = model.sample(data, 1)
    table = result.states[[c for c in result.states if str(c).startswith(("name", "population", "life time"))]].copy()
    table["visits"] = visits_of(dtrajs, model.n_states).table()["visits"].to_numpy(dtype=int)
    for column, key in enumerate(("trajectory", "frame")):
        table[key] = [int(found[0, column]) if len(found) else -1 for found in deepest]
    return StateSummary(table, result, cored.margin)
