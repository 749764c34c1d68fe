"""Whether the inner loops have been compiled on this machine before: the first fit of all takes some seconds longer."""

from __future__ import annotations

from pathlib import Path

from m3c_md.optimize.kernels import compiled

COMPILING = "compiling the inner loops, once on this machine: some ten seconds"


def is_compiled() -> bool:
    """Whether a fit can begin at once: loops are kept from an earlier fit, or numba is not there or not wanted.

    Examples
    --------
    >>> is_compiled() in (True, False)
    True
    """
    loops = compiled()
    if loops is None or getattr(loops.pass_loop, "signatures", True):
        return True
    folder = loops.pass_loop.stats.cache_path
    # Numba names its files so; where it does so no longer, there is a word too many and no harm.
    return folder is None or any(Path(folder).glob(f"*.{loops.pass_loop.__name__}-*.nbi"))


def titled(name: str) -> str:
    """Title of a progress bar: the name of an estimator and, before the first fit of all, what takes so long.

    Examples
    --------
    >>> titled("M3C").startswith("M3C")
    True
    """
    return name if is_compiled() else f"{name} ({COMPILING})"
