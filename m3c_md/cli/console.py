"""What the user sees: lines, warnings without source code, one JSON object if that is asked for."""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any


class Console:
    """Lines for people go to standard output, or to standard error if standard output is for JSON.

    Parameters
    ----------
    json : bool
        Whether the result is one JSON object on standard output.
    """

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self.warnings: list[str] = []

    def say(self, text: str = "") -> None:
        """Print a line for people."""
        print(text, file=sys.stderr if self.json else sys.stdout, flush=True)

    def begin(self, what: str) -> None:
        """Say what is being done now and, before the first fit on a machine, why it takes longer than the next."""
        from m3c_md.clustering.compilation import COMPILING, is_compiled

        self.say(f"{what}{'' if is_compiled() else f' ({COMPILING})'} ...")

    def warn(self, message: str) -> None:
        """Print a warning as a plain line, each only once, and remember it for the report."""
        text = " ".join(message.split())
        if text not in self.warnings:
            self.warnings.append(text)
            print(f"warning: {text}", file=sys.stderr, flush=True)

    def result(self, result: dict[str, Any]) -> None:
        """Print the JSON object, if it was asked for."""
        if self.json:
            print(json.dumps(plain(result), indent=1, allow_nan=False), flush=True)


def progress_bar(*given: Any, **options: Any) -> Any:
    """Progress bar of tqdm that is drawn on a terminal only: in a file it would be a hundred lines of one."""
    from tqdm import tqdm

    return tqdm(*given, disable=None, **options)


def plain(value: Any) -> Any:
    """Turn a value into what JSON knows; numbers that are not finite become null.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"Q": np.float64(2.5), "t": np.array([1.0, np.nan])})
    {'Q': 2.5, 't': [1.0, None]}
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


@contextlib.contextmanager
def plain_warnings(console: Console) -> Iterator[None]:
    """Show warnings as lines of the console, those of the package without fail."""
    from m3c_md.exceptions import M3CWarning

    def show(message: Warning | str, *_where: Any, **_more: Any) -> None:
        console.warn(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", M3CWarning)
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def silent_standard_output() -> Iterator[None]:
    """Keep what C code prints away from the user: mdtraj's DCD reader greets every file on standard output.

    The buffers of C are emptied before standard output comes back, or else they would end up behind a JSON object.
    """
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        with contextlib.suppress(OSError, AttributeError, TypeError):  # where C's library is found in other ways
            ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
