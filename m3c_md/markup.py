"""HTML of the results that notebooks and reports show: small tables and text, every word of it escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape


def table(rows: Iterable[Sequence[object]], head: Sequence[object] = (), colors: Sequence[str] = ()) -> str:
    """HTML table of some rows.

    Parameters
    ----------
    rows : iterable of sequences
        Cells become text; the first of a row is its name.
    head : sequence, optional
        Names of the columns.
    colors : sequence of str, optional
        Of a square before the name of each row.

    Examples
    --------
    >>> table([("<a>", 1)], ["state", "frames"])
    '<table><thead><tr><th>state</th><th>frames</th></tr></thead><tbody><tr><th>&lt;a&gt;</th><td>1</td></tr>...
    """
    top = f"<thead>{_row(head, 'th')}</thead>" if head else ""
    marks = [f'<span class="swatch" style="background:{escape(color)}"></span>' for color in colors]
    body = [_row(row, "td", marks[i] if marks else "") for i, row in enumerate(rows)]
    return f"<table>{top}<tbody>{''.join(body)}</tbody></table>"


def _row(cells: Sequence[object], kind: str, mark: str = "") -> str:
    first, *others = (unbroken(escape(str(cell))) for cell in cells)
    return f"<tr><th>{mark}{first}</th>{''.join(f'<{kind}>{cell}</{kind}>' for cell in others)}</tr>"


def unbroken(text: str) -> str:
    r"""Text in which an interval, or an error with its sign, goes to the next line as a whole or not at all.

    Examples
    --------
    >>> unbroken("2.66 ± 0.01"), unbroken("20 (10 to 30)")
    ('2.66 ±\xa00.01', '20 (10\xa0to\xa030)')
    """
    text = re.sub(r"\(\S+ to \S+\)", lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    return text.replace("± ", "±\N{NO-BREAK SPACE}")


def facts(known: Mapping[str, object]) -> str:
    """Table of names and values, without a head.

    Examples
    --------
    >>> facts({"Q": 2.5})
    '<table><tbody><tr><th>Q</th><td>2.5</td></tr></tbody></table>'
    """
    return table(known.items())


def paragraphs(texts: Iterable[object]) -> str:
    """Each text in a paragraph of its own.

    Examples
    --------
    >>> paragraphs(["a < b"])
    '<p>a &lt; b</p>'
    """
    return "".join(f"<p>{escape(str(text))}</p>" for text in texts)
