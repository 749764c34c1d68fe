"""Nothing wrong in silence: how a refusal is checked."""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import m3c_md

OURS = Path(m3c_md.__file__).parent
STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))


def raised_by_us(error: BaseException) -> bool:
    """Whether an error comes from this package: from one of its lines, or from the standard library that it called.

    Errors from inside numpy, scipy, deeptime, cvxpy or mdtraj end there instead, or begin there.
    """
    files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    while files and STANDARD_LIBRARY in files[-1].parents and "site-packages" not in files[-1].parts:
        files.pop()
    return bool(files) and OURS in files[-1].parents


def refused(call: Callable[[], Any], kind: type[BaseException], message: str) -> None:
    """Make a call that must fail with exactly this type of error, in such words, raised by this package."""
    with pytest.raises(kind) as caught:
        call()
    said = str(caught.value)
    assert type(caught.value) is kind, f"{type(caught.value).__name__}: {said}"
    assert re.search(message, said, flags=re.DOTALL), said
    assert raised_by_us(caught.value), traceback.format_exception(caught.value)
    assert len(said) < 1000
