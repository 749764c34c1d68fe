"""How to get the same again: command or call, seed, data and versions."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.metadata import PackageNotFoundError, version

import m3c_md
from m3c_md.markup import table
from m3c_md.report.page import Section

# What results depend on; those of pictures and files among them.
PACKAGES = ("numpy", "scipy", "scikit-learn", "deeptime", "mdtraj", "numba", "ortools", "cvxpy", "pandas", "matplotlib")


@dataclass(frozen=True)
class Provenance:
    """Where a report comes from.

    Attributes
    ----------
    command : str
        Line of a shell or of Python.
    seed : object
        Random state that was given.
    data : sequence of str
        What was read, in lines.
    seconds : float or None
        How long it took.
    """

    command: str
    seed: object = None
    data: Sequence[str] = field(default_factory=list)
    seconds: float | None = None

    def section(self) -> Section:
        """Part of a report.

        Examples
        --------
        >>> "m3c-md fit &lt;x&gt;" in Provenance("m3c-md fit <x>", 0).section().body
        True
        """
        known: dict[str, object] = {"seed": "none was given" if self.seed is None else self.seed}
        if self.seconds is not None:
            known["time"] = f"{self.seconds:.1f} s"
        own, python, *others = versions().items()
        known |= {own[0]: own[1], python[0]: python[1], "with": ", ".join(f"{name} {found}" for name, found in others)}
        rows = table(known.items()).replace("<table>", '<table class="text">')
        lines = "\n".join(self.data)
        return Section(
            "How to reproduce",
            f"<pre>{escape(self.command)}</pre>{f'<pre>{escape(lines)}</pre>' if lines else ''}{rows}",
        )


def versions() -> dict[str, str]:
    """Versions of the package, of Python and of what results depend on.

    Examples
    --------
    >>> list(versions())[:2]
    ['m3c_md', 'Python']
    """
    found = {"m3c_md": m3c_md.__version__, "Python": f"{platform.python_version()} ({platform.platform(terse=True)})"}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
