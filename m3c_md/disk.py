"""Files: written as a whole or not at all, and arrays read without executing anything or trusting their headers.

Nothing heavy is imported here before it is needed: the command line starts with this module.
"""

from __future__ import annotations

import contextlib
import math
import os
import struct
import tokenize
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def checked_path(name: str, value: Any) -> Path:
    """Check the name of a file or folder; ``name`` is the argument that it came from.

    Examples
    --------
    >>> checked_path("path", "states.m3c").suffix
    '.m3c'
    """
    from m3c_md.exceptions import InputError

    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError(f"{name}={value!r:.60} is no name of a file; give a non-empty string or a pathlib.Path")
    return Path(text)


@contextlib.contextmanager
def writing(target: Path, what: str, *, temporary: Path | None = None) -> Iterator[Path]:
    """Hand out a temporary path of the same ending, which becomes ``target`` if all goes well and vanishes if not.

    Parameters
    ----------
    target : Path
        A file of that name is replaced, in one step and only by a complete one.
    what : str
        What is written, for the error.
    temporary : Path, optional
        In the same folder; by default a name that nobody can guess and that is not too long.

    Raises
    ------
    OSError
        In terms of ``target``, of the class that follows from its number, e.g. `PermissionError`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with writing(Path(folder) / "a.txt", "the text") as path:
    ...         _ = path.write_text("done")
    ...     print([path.name for path in Path(folder).iterdir()])
    ['a.txt']
    """
    partial = temporary or target.parent / f".{uuid.uuid4().hex}.part{target.suffix[:20]}"
    try:
        yield partial
        with partial.open("rb+") as file:  # or a crash of the machine could leave the new name with nothing in it
            os.fsync(file.fileno())
        partial.replace(target)
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        if error.errno is None:  # numpy counts the bytes that found no room, and does not say why
            raise OSError(f"{what} was not written to {target} ({reason})") from error
        raise OSError(error.errno, f"{what} was not written ({reason})", str(target)) from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


# What numpy raises over headers that are none: wrong magic, ends, texts, numbers, nesting.
_DAMAGE = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    SyntaxError,
    EOFError,
    struct.error,
    tokenize.TokenError,
    RecursionError,
)


def read_array(path: Path) -> NDArray[np.generic]:
    """Read an .npy file of plain numbers. Its header may not promise more than there is, and nothing is unpickled.

    Parameters
    ----------
    path : Path

    Raises
    ------
    InputError
        If the file holds anything else.
    OSError
        If there is no such file, or it cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        return parse_array(file, size, str(path))


def parse_array(file: BinaryIO, size: int, name: str) -> NDArray[np.generic]:
    """Read an array in .npy format that takes the first ``size`` bytes of an open file; see `read_array`."""
    import numpy as np

    from m3c_md.exceptions import InputError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # headers of Python 2 are as good as others
        try:
            version = np.lib.format.read_magic(file)
            headers = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
            shape, _, dtype = headers[((1, 0), (2, 0)).index(version)](file)
            wanted, found = math.prod(shape) * dtype.itemsize, size - file.tell()
        except (*_DAMAGE, MemoryError) as error:  # a header nested too deeply is called a lack of memory
            raise InputError(f"{name} is no array file ({error!s:.100}); write it with numpy.save") from error
        if dtype.hasobject:
            raise InputError(f"{name} holds pickled objects, which are not read; save an array of numbers")
        if wanted != found or min(shape, default=0) < 0:
            raise InputError(
                f"{name} is damaged: its header promises {wanted} bytes of dtype {dtype} and shape {shape}, and "
                f"there are {found}; write it again with numpy.save"
            )
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)
