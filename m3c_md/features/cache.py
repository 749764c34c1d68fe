"""Features of trajectory files kept on disk, found again only if nothing that they depend on has changed."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from m3c_md.exceptions import InputError
from m3c_md.features.dihedrals import Float32Array

# Part of every key: raise it when the same settings give other features than before.
_VERSION = 1


def cache_directory(cache: Any) -> Path | None:
    """Check the folder of a cache, and make it if it does not exist."""
    if cache is None:
        return None
    if not isinstance(cache, str | os.PathLike):
        raise InputError(f"cache={cache!r} must be a folder, or None")
    try:
        Path(cache).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cache={str(cache)!r} cannot be made a folder ({error.strerror}); name another") from error
    return Path(cache)


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
        features = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    usable = (
        isinstance(features, np.ndarray)
        and features.dtype == np.float32
        and features.ndim == 2
        and features.shape[0] > 0
        and features.shape[1] == n_columns
        and bool(np.isfinite(features).all())
    )
    return features if usable else None


def write_cached(file: Path, features: Float32Array) -> str | None:
    """Write features under a temporary name and rename it, so that a file of that name is always complete.

    Returns what went wrong, if anything did: the features are worth more than their copy on disk.
    """
    temporary = file.with_name(f"{file.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as handle:
            np.save(handle, features, allow_pickle=False)
        temporary.replace(file)
    except OSError as error:
        return f"features could not be kept in {file} ({error.strerror or error}); name another cache"
    finally:
        temporary.unlink(missing_ok=True)
    return None
