"""Features of trajectory files kept on disk, found again only if nothing that they depend on has changed."""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from m3c_md.disk import checked_path, parse_array, writing
from m3c_md.exceptions import InputError
from m3c_md.features.dihedrals import Float32Array

# Part of every key: raise it when the same settings give other features than before, or none. 2: features of version 1
# may come from a topology that would be refused.
_VERSION = 2


# A checksum follows the array, where numpy does not look: a disk that errs must not change features in silence.
_CHECKSUM_BYTES = 8
_BYTES_AT_ONCE = 2**20


def cache_directory(cache: Any) -> Path | None:
    """Check the folder of a cache, and make it if it does not exist."""
    if cache is None:
        return None
    directory = checked_path("cache", cache)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cache={str(cache)!r} cannot be made a folder ({error.strerror}); name another") from error
    return directory


def cache_key(path: Path, settings: dict[str, Any]) -> str | None:
    """Fingerprint of a file as it is now (place, size, time of change) and of everything else that matters.

    Parameters
    ----------
    path : Path
        A trajectory file. Formats that keep a folder have no fingerprint: its time of change says nothing about the
        files in it.
    settings : dict
        Whatever else the features depend on, as JSON can write it.
    """
    if not path.is_file():
        return None
    status = path.stat()
    text = json.dumps([_VERSION, str(path.resolve()), status.st_size, status.st_mtime_ns, settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def cached_file(directory: Path, path: Path, key: str) -> Path:
    """Where the features of a trajectory file are kept."""
    return directory / f"{path.stem}-{key}.npy"


def read_cached(file: Path, n_columns: int) -> Float32Array | None:
    """Features in a cache file; None if there is none or if it is damaged, and they must be computed.

    Parameters
    ----------
    file : Path
    n_columns : int
        That the features must have.
    """
    try:
        with file.open("rb") as handle:
            size = file.stat().st_size - _CHECKSUM_BYTES
            if _checksum(handle, size) != handle.read(_CHECKSUM_BYTES):
                return None
            handle.seek(0)
            features = parse_array(handle, size, str(file))
    except (OSError, InputError):
        return None
    usable = (
        features.dtype == np.float32
        and features.ndim == 2
        and features.shape[0] > 0
        and features.shape[1] == n_columns
        and bool(np.isfinite(features).all())
    )
    return features.astype(np.float32, copy=False) if usable else None


def write_cached(file: Path, features: Float32Array) -> str | None:
    """Write features under a temporary name and rename it, so that a file of that name is always complete.

    Returns what went wrong, if anything did: the features are worth more than their copy on disk.
    """
    try:
        with writing(file, "the cache") as temporary:
            np.save(temporary, features, allow_pickle=False)
            with temporary.open("rb+") as handle:
                handle.write(_checksum(handle, temporary.stat().st_size))
    except OSError as error:
        return f"features could not be kept in {file} ({error.strerror or error}); name another cache"
    return None


def _checksum(handle: BinaryIO, size: int) -> bytes:
    """Checksum of the first ``size`` bytes of a file, which is left behind them."""
    handle.seek(0)
    value = 0
    for start in range(0, size, _BYTES_AT_ONCE):
        value = zlib.crc32(handle.read(min(_BYTES_AT_ONCE, size - start)), value)
    return f"{value:08x}".encode()
