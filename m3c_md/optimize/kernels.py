"""The inner loops over windows, compiled by numba: what `window_loss` does with whole arrays, window by window.

A window meets few label tuples that matter, and looking at those alone is ten times faster than sorting arrays of all
of them. `window_loss` remains the reference, and the way to go where numba is missing; see `compiled`.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

# Set to 1 to do without numba, e.g. where compiled code is not allowed to be kept.
SWITCH = "M3C_MD_NO_NUMBA"


@lru_cache(maxsize=1)
def compiled() -> Any:
    """Compiled kernels as attributes of a module, or None where numba is missing or not wanted."""
    if os.environ.get(SWITCH, "0") not in ("", "0"):
        return None
    try:
        import numba  # noqa: F401
    except ImportError:
        return None
    from m3c_md.optimize import compiled_loops

    return compiled_loops
