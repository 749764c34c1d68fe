"""What a search does about solvers that fail: go on without that start or candidate, and remember."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from m3c_md.exceptions import InputError, SolverError


@dataclass(frozen=True)
class Failure:
    """A start, or a candidate that came of it, on which a solver failed; ``bandwidth`` is None for all of them."""

    start: str
    bandwidth: float | None
    error: SolverError | InputError


@contextmanager
def excused(failures: list[Failure] | None, bandwidth: float | None, *starts: str) -> Iterator[None]:
    """Put a failure in the list instead of letting it end the search, if there is a list."""
    try:
        yield
    except (SolverError, InputError) as error:
        if failures is None:
            raise
        failures += [Failure(start, bandwidth, error) for start in starts]


def failed_starts(failures: Sequence[Failure]) -> list[str]:
    """Say for every start that failed where and why, the same only once."""
    told: list[str] = []
    for start in dict.fromkeys(failure.start for failure in failures):
        own = [failure for failure in failures if failure.start == start]
        widths = sorted({failure.bandwidth for failure in own if failure.bandwidth is not None})
        where = f" at bandwidth {', '.join(f'{width:.3g}' for width in widths)}" if widths else ""
        told.append(f"start {start!r} failed{where} ({str(own[0].error).rstrip('.')})")
    return told


def all_failed(failures: list[Failure] | None) -> SolverError | InputError:
    """Error for a search of which nothing is left; input that no start can use is an error of the input."""
    assert failures, "nothing is left only where something failed"
    if all(isinstance(failure.error, InputError) for failure in failures):
        return failures[0].error
    reasons = "; ".join(failed_starts(failures))
    return SolverError(f"no candidate of the search is left: {reasons}. Add other starts, or use other bandwidths.")
