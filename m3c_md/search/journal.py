"""What a search has done so far, so that one that was stopped need not begin again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from m3c_md.search.problem import SearchProblem
from m3c_md.search.selection import Candidate


class Journal(Protocol):
    """Keeps the candidates of every finished step of a search under the name of the step."""

    def found(self, step: str) -> list[Candidate] | None:
        """Candidates of a step that was finished before, None if it was not."""

    def keep(self, step: str, candidates: Sequence[Candidate]) -> None:
        """Keep the candidates of a step that has just been finished."""


class NoJournal:
    """Keeps nothing."""

    def found(self, step: str) -> list[Candidate] | None:
        """Nothing was finished before."""
        del step
        return None

    def keep(self, step: str, candidates: Sequence[Candidate]) -> None:
        """Forget."""


def fingerprint(problem: SearchProblem, *options: Any) -> str:
    """Name of a search: another one as soon as data, settings, features or options differ.

    Of data that are looked at in a stream, the sample and the number of windows stand for all.
    """
    digest = hashlib.sha256()
    arrays = [problem.data.frames, problem.data.windows, problem.weights, problem.scale]
    for one in problem.maps.values():
        arrays += [one.frequencies, one.phases, one.center]
    for part in [*arrays, problem.n_windows, problem.settings, *options]:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(repr(part).encode())
    return digest.hexdigest()
