"""What became of a candidate: one of a few kinds, with the detail that users read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FateKind(StrEnum):
    """How candidates end; the values are words of the table of candidates and of files."""

    OPEN = ""  # it has not ended
    WINNER = "winner"
    FINALIST = "finalist"
    DEGENERATE = "degenerate"
    SAME = "same as"
    DROPPED = "dropped"
    FAILED = "failed"


# Kinds of which there is nothing more to say.
_WITHOUT_DETAIL = (FateKind.OPEN, FateKind.WINNER, FateKind.FINALIST)


@dataclass(frozen=True)
class Fate:
    """Kind of an end and its detail, for instance which state has too few frames.

    Examples
    --------
    >>> str(Fate(FateKind.DROPPED, "score after 300 windows"))
    'dropped: score after 300 windows'
    >>> Fate.of_text("same as kmeans").kind
    <FateKind.SAME: 'same as'>
    """

    kind: FateKind = FateKind.OPEN
    detail: str = ""

    def __str__(self) -> str:
        """Words for tables, files and messages."""
        return f"{self.kind}{_joint(self.kind)}{self.detail}"

    @classmethod
    def of_text(cls, text: str) -> Fate:
        """Fate that a file says in the words of ``str``; nobody else has to read them.

        Raises
        ------
        ValueError
            If nothing ends like that.
        """
        for kind in FateKind:
            if kind in _WITHOUT_DETAIL and text == kind:
                return cls(kind)
            beginning = f"{kind}{_joint(kind)}"
            if kind not in _WITHOUT_DETAIL and text.startswith(beginning):
                return cls(kind, text.removeprefix(beginning))
        raise ValueError(f"no candidate ends as {text!r:.60}")


def _joint(kind: FateKind) -> str:
    """What stands between kind and detail."""
    if kind in _WITHOUT_DETAIL:
        return ""
    return " " if kind is FateKind.SAME else ": "
