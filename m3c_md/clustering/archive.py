"""Model files: one archive of plain arrays and a JSON text. Reading one executes nothing.

A file is an uncompressed zip archive with ``model.json`` and one ``NAME.npy`` for each array: little-endian float64 or
int64, or bool, in C order. `numpy.load` opens it. ``model.json`` holds ``format`` ("m3c_md model"), ``version`` (of
this layout, 1), ``package`` (the version that wrote it), ``kind`` (the class of the model) and ``settings`` (numbers
and texts; ``columns`` only if the columns had names). The arrays of each kind are those that the class names in its
``_contents``.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import reprlib
import struct
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from m3c_md.disk import checked_path, writing
from m3c_md.exceptions import ModelFileError

if TYPE_CHECKING:
    from m3c_md.clustering.state_model import StateModel


FORMAT = "m3c_md model"
VERSION = 1
# Classes of models that files hold.
KINDS = (
    *("KMedoidsModel", "M3CModel", "MMCModel", "PCCAPlusModel"),
    *("HiddenMarkovModel", "MappedModel", "VAMPNetModel"),
)
# Beyond the units of any data that can be fitted, and small enough to be squared.
LARGEST = 1e120


class Contents:
    """What is in a model file: settings, and arrays whose kind and shape are checked when they are taken."""

    def __init__(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.settings = settings
        self.arrays = arrays

    def array(self, name: str, *shape: int | None, kind: str = "f", finite: bool = True) -> NDArray[Any]:
        """Array of this shape (None: any length), of floats ("f"), integers ("i") or truth values ("b")."""
        if name not in self.arrays:
            raise ModelFileError(f"the array {name!r} is missing")
        value = self.arrays[name]
        wanted = {"f": np.float64, "i": np.int64, "b": np.bool_}[kind]
        fits = value.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, value.shape, strict=True))
        if value.dtype != wanted or not fits or 0 in value.shape:
            raise ModelFileError(f"the array {name!r} has dtype {value.dtype} and shape {value.shape}")
        if kind == "f" and finite and not (np.abs(value) <= LARGEST).all():
            raise ModelFileError(f"the array {name!r} has entries that are not finite, or above {LARGEST:g}")
        return value

    def positive(self, name: str, *shape: int | None) -> NDArray[Any]:
        """Array of positive floats."""
        value = self.array(name, *shape)
        if not (value >= 1.0 / LARGEST).all():
            raise ModelFileError(f"the array {name!r} has entries that are not positive, or below {1.0 / LARGEST:g}")
        return value

    def shares(self, name: str, *shape: int | None) -> NDArray[Any]:
        """Array of floats that are not negative, whose rows sum to one."""
        value = self.array(name, *shape)
        if not (value >= 0.0).all() or not np.allclose(value.sum(axis=-1), 1.0, rtol=0.0, atol=1e-6):
            raise ModelFileError(f"the array {name!r} has rows that are no shares of a whole")
        return value

    def indices(self, name: str, *shape: int | None, below: int) -> NDArray[Any]:
        """Array of integers from 0 to ``below - 1``."""
        value = self.array(name, *shape, kind="i")
        if value.min() < 0 or value.max() >= below:
            raise ModelFileError(f"the array {name!r} has entries outside 0 to {below - 1}")
        return value

    def number(self, name: str, smallest: int, largest: int = 2**53) -> int:
        """Whole number among the settings."""
        value = self.settings.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= largest:
            raise ModelFileError(f"the setting {name!r} is {reprlib.repr(value)}")
        return value

    def texts(self, name: str, length: int | None = None) -> list[str]:
        """List of texts among the settings."""
        value = self.settings.get(name)
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise ModelFileError(f"the setting {name!r} is {reprlib.repr(value)}")
        if length is not None and len(value) != length:
            raise ModelFileError(f"the setting {name!r} has {len(value)} entries, not {length}")
        return value


def save_model(model: StateModel, path: str | os.PathLike[str]) -> None:
    """Write a model file."""
    kind, contents = type(model).__name__, model._contents()
    contents = Contents(contents.settings, {name: _plain(array) for name, array in contents.arrays.items()})
    try:
        # What could not be read back is not written.
        check_kind(kind)
        type(model)._from_contents(contents)
    except ModelFileError as error:
        raise ModelFileError(f"this model cannot be saved: {error}") from error
    write_contents(kind, contents, path, "the model")


def check_kind(kind: str) -> None:
    """Refuse kinds of models that cannot be read back."""
    if kind not in KINDS:
        raise ModelFileError(f"it holds a {kind!r:.40}, and known are {', '.join(KINDS)}")


def write_contents(kind: str, contents: Contents, path: str | os.PathLike[str], what: str) -> None:
    """Write contents to a file in the layout of model files, as a whole or not at all."""
    target, data = checked_path("path", path), _archive(kind, contents)
    with writing(target, what) as partial, partial.open("xb") as file:
        file.write(data)


def _archive(kind: str, contents: Contents) -> bytes:
    """Bytes of a file; the same contents give the same bytes."""
    import m3c_md

    text = {
        "format": FORMAT,
        "version": VERSION,
        "package": m3c_md.__version__,
        "kind": kind,
        "settings": contents.settings,
    }
    archived = io.BytesIO()
    with zipfile.ZipFile(archived, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_member("model.json"), json.dumps(text, indent=1))
        for name, given in contents.arrays.items():
            array, buffer = _plain(given), io.BytesIO()
            little_endian = array.astype(array.dtype.newbyteorder("<"), copy=False)
            np.lib.format.write_array(buffer, little_endian, version=(1, 0), allow_pickle=False)
            archive.writestr(_member(f"{name}.npy"), buffer.getvalue())
    return archived.getvalue()


def _member(name: str) -> zipfile.ZipInfo:
    """Member without the time and the system that wrote it, readable where it is unpacked."""
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, 0o644 << 16
    return info


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Array of one of the three types that a file holds, whatever the machine's integers."""
    wanted = {"f": np.float64, "i": np.int64, "u": np.int64, "b": np.bool_}[array.dtype.kind]
    return np.ascontiguousarray(array, dtype=wanted)


# What zipfile and json raise over damaged bytes: wrong numbers, ends, seeks, texts, passwords, nesting.
_DAMAGE = (
    zipfile.BadZipFile,
    struct.error,
    ArithmeticError,
    LookupError,
    ValueError,
    TypeError,
    EOFError,
    OSError,
    RuntimeError,
)


def read_contents(path: str | os.PathLike[str]) -> tuple[str, Contents]:
    """Kind and contents of a file; the arrays are checked when they are taken."""
    data = checked_path("path", path).read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = _checked_names(archive.infolist(), len(data))
            kind, settings = _checked_text(json.loads(archive.read("model.json").decode("utf-8")))
            arrays = {name.removesuffix(".npy"): _array(archive.read(name)) for name in names if name != "model.json"}
            return kind, Contents(settings, arrays)
    except ModelFileError:
        raise
    except _DAMAGE as error:
        raise ModelFileError(f"it is damaged or no model file ({error!s:.200})") from error


def _checked_names(members: list[zipfile.ZipInfo], n_bytes: int) -> list[str]:
    """Names in an archive that cannot grow when it is read."""
    names = [info.filename for info in members]
    if "model.json" not in names:
        raise ModelFileError("it has no model.json, so it is no model file")
    for info in members:
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise ModelFileError(f"{info.filename!r:.40} is compressed, which model files are not")
        if info.filename != "model.json" and not info.filename.endswith(".npy"):
            raise ModelFileError(f"{info.filename!r:.40} does not belong in a model file")
    # Many members may point to the same bytes.
    if len(set(names)) < len(names) or sum(info.file_size for info in members) > n_bytes:
        raise ModelFileError("its members have the same name, or are together longer than the file")
    return names


def _checked_text(text: Any) -> tuple[str, dict[str, Any]]:
    """Kind and settings of a model.json of the known version."""
    if not isinstance(text, dict) or text.get("format") != FORMAT:
        raise ModelFileError(f"its model.json does not say {FORMAT!r}, so it is no model file")
    if text.get("version") != VERSION:
        raise ModelFileError(
            f"it has version {text.get('version')!r:.20} of the layout (m3c_md {text.get('package')!r:.20} wrote it), "
            f"and this m3c_md knows version {VERSION}; update m3c_md"
        )
    settings = text.get("settings")
    if not isinstance(settings, dict):
        raise ModelFileError("its model.json has no settings")
    return str(text.get("kind")), settings


# Header of an array as numpy writes it. Others are refused unread: evaluating them would be half of a Python parser.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '(<f8|<i8|\|b1)', 'fortran_order': False, 'shape': \(([0-9, ]{0,60})\), \} *\n",
    re.DOTALL,
)


def _array(data: bytes) -> NDArray[Any]:
    """Array of an .npy member; its header may not promise more than there is."""
    header = _HEADER.match(data)
    if header is None or int.from_bytes(header[1], "little") != header.end() - header.end(1):
        raise ModelFileError(f"an array does not begin as in a model file: {data[:80]!r}")
    dtype = np.dtype(header[2].decode())
    shape = tuple(int(length) for length in header[3].split(b",") if length.strip())
    if math.prod(shape) * dtype.itemsize != len(data) - header.end():
        raise ModelFileError(f"an array of dtype {dtype} and shape {shape} does not fit its {len(data)} bytes")
    return np.frombuffer(data, dtype, offset=header.end()).reshape(shape).astype(dtype.newbyteorder("="))
