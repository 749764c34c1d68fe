"""How many windows a search looks at: all candidates meet a small sample, fewer and fewer meet larger ones."""

from __future__ import annotations

# Windows that a search keeps in memory: kinetics are estimated from all of them.
SEARCHED = 100_000
# (windows, candidates that go on): all candidates meet the first sample, the survivors the next, ...
RUNGS = ((2000, 6), (6000, 3), (20_000, 2))
# Candidates that go on where none is to be dropped.
ALL = 10**9
# Of more windows than this, the winner is polished by looks at all the data, not with all features in memory.
STREAMED = RUNGS[-1][0]


def rung_sizes(n_windows: int, halving: bool, streamed: bool) -> list[tuple[int, int]]:
    """Sizes of the samples and numbers of survivors, ending with all windows unless these are looked at in a stream.

    Examples
    --------
    >>> rung_sizes(5000, halving=True, streamed=False)
    [(2000, 6), (5000, 3)]
    """
    if not halving:
        return [(n_windows, ALL)]
    if streamed:
        return list(RUNGS)
    # A sample of more than half of the windows saves less than it costs.
    smaller = [(size, keep) for size, keep in RUNGS if 2 * size <= n_windows]
    keep = RUNGS[len(smaller)][1] if len(smaller) < len(RUNGS) else 1
    return [*smaller, (n_windows, keep)]
