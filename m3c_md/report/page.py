"""The page itself: parts in order, a style for screen and print, and the little that moves; nothing from elsewhere."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import m3c_md
from m3c_md.disk import checked_path, writing
from m3c_md.markup import paragraphs, table, unbroken

# What a page may hold; browsers and mail take more, but it should open at once.
MOST_BYTES = 3_000_000


@dataclass(frozen=True)
class Section:
    """Part of a page.

    Attributes
    ----------
    title : str
    body : str
        HTML; whoever makes it escapes what is not.
    three_d : bool
        Whether it holds molecules, which need 3Dmol.js.
    pictures : mapping of str to matplotlib Figure
        What is drawn in it, by the names of files that would hold the same.
    """

    title: str
    body: str
    three_d: bool = False
    pictures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def anchor(self) -> str:
        """Name by which the list of contents finds it."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())


@dataclass(frozen=True)
class Page:
    """All that a report shows.

    Attributes
    ----------
    title : str
        Of what the report is.
    verdict : str
        What came of it, in a sentence.
    numbers : list of (str, str, str)
        The few that matter most: name, value, and a remark.
    sections : list of Section
    reason : str
        What the verdict rests on, if that takes more words.
    """

    title: str
    verdict: str
    numbers: list[tuple[str, str, str]] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    reason: str = ""

    @property
    def pictures(self) -> dict[str, Any]:
        """Figures of all sections, by the names of files that would hold the same."""
        return {name: drawn for section in self.sections for name, drawn in section.pictures.items()}

    def html(self) -> str:
        """Text of the file.

        Examples
        --------
        >>> text = Page("a < b", "It is so.", [("Q", "1.98", "of at most 2")], [Section("Map", "<p>here</p>")]).html()
        >>> "<h1>a &lt; b</h1>" in text, "<p>here</p>" in text, "Pittsburgh" in text
        (True, True, False)
        """
        three_d = any(section.three_d for section in self.sections)
        scripts = [*([_file("3Dmol-min.js")] if three_d else []), _file("page.js")]
        return Template(_file("page.html")).substitute(
            title=escape(self.title),
            verdict=paragraphs([self.verdict]),
            reason=paragraphs([self.reason] if self.reason else []),
            numbers="".join(_number(*one) for one in self.numbers),
            contents="".join(f'<a href="#{s.anchor}">{escape(s.title)}</a>' for s in self.sections),
            sections="".join(
                f'<section id="{s.anchor}"><h2>{escape(s.title)}</h2>{s.body}</section>' for s in self.sections
            ),
            style=_file("page.css"),
            scripts="".join(f"<script>{script}</script>" for script in scripts),
            trusted=" ".join(_trusted(script) for script in scripts),
            licence=_licence() if three_d else "",
            version=escape(m3c_md.__version__),
        )

    def write(self, path: Any) -> Path:
        """Write the file, complete or not at all, and return where it is."""
        target = checked_path("path", path)
        with writing(target, "the report") as partial:
            partial.write_text(self.html(), encoding="utf-8")
        return target


def _number(name: str, value: str, remark: str) -> str:
    return f"<div><dt>{escape(name)}</dt><dd>{unbroken(escape(value))} <small>{escape(remark)}</small></dd></div>"


def _file(name: str) -> str:
    return files("m3c_md.report").joinpath(name).read_text(encoding="utf-8")


def _trusted(script: str) -> str:
    """Words of the policy that let a browser run this script, and no other that may have got into the page."""
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


def _licence() -> str:
    return f"<details><summary>Licence of 3Dmol.js</summary><pre>{escape(_file('3Dmol-LICENSE.txt'))}</pre></details>"


def figure(svg: str, caption: str) -> str:
    """Picture with the words below it."""
    return f'<figure><div class="scroll">{svg}</div><figcaption>{escape(caption)}</figcaption></figure>'


def data_table(frame: Any, colors: Sequence[str] = ()) -> str:
    """Table of a DataFrame of text, its index first; it scrolls where the screen is narrow."""
    named = ["" if name is None else name for name in frame.index.names]
    rows = [
        [*(key if isinstance(key, tuple) else (key,)), *row]
        for key, row in zip(frame.index, frame.to_numpy().tolist(), strict=True)
    ]
    return f'<div class="scroll">{table(rows, [*named, *frame.columns], colors)}</div>'


def remedy_of(warning: str) -> tuple[str, str]:
    """What a warning says, and what can be done about it.

    Examples
    --------
    >>> remedy_of("t3 is not resolved; t4 is noise. Remedy: look for fewer states")
    ('t3 is not resolved; t4 is noise', 'look for fewer states')
    >>> remedy_of("the smallest state has 1 % of the frames; ask for fewer states")
    ('the smallest state has 1 % of the frames', 'ask for fewer states')
    """
    for mark in (". Remedy: ", "; "):
        what, found, remedy = warning.partition(mark)
        if found:
            return what, remedy
    return warning, ""


def warnings_section(warnings: Sequence[str]) -> Section:
    """All warnings, each with its remedy on a line of its own."""
    if not warnings:
        return Section("Warnings", paragraphs(["None."]))
    items = [
        f"<li>{escape(_sentence(what))}{f'<em>{escape(_sentence(remedy))}</em>' if remedy else ''}</li>"
        for what, remedy in map(remedy_of, dict.fromkeys(warnings))
    ]
    return Section("Warnings", f'<ul class="warnings">{"".join(items)}</ul>')


def _sentence(text: str) -> str:
    """Text with a capital, unless it begins with the name of something, and a full stop."""
    plain = text.partition(" ")[0].isalpha()
    return f"{text[:1].upper() if plain else text[:1]}{text[1:]}{'' if text.endswith('.') else '.'}"
