"""Output folders: nothing is overwritten by accident, and no half file is left behind."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from m3c_md.disk import checked_path, writing

if TYPE_CHECKING:
    import pandas as pd

# Dots per inch of all pictures.
RESOLUTION = 150


def add_output_options(parser: argparse.ArgumentParser, default: Path | None = None) -> None:
    """Where results go and how they are told."""
    group = parser.add_argument_group("output")
    usually = "" if default is None else " (default: %(default)s)"
    group.add_argument(
        "--out",
        type=Path,
        required=default is None,
        default=default,
        metavar="DIR",
        help=f"folder to write to{usually}",
    )
    group.add_argument("--force", action="store_true", help="replace the results of this command in an existing DIR")
    group.add_argument("--json", action="store_true", help="print one JSON object; all else goes to standard error")


def add_checkpoint_option(parser: argparse.ArgumentParser) -> None:
    """Where a long command keeps what it has done."""
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FOLDER",
        help="keep finished steps here; the same command goes on from them after a stop",
    )


class OutputFolder:
    """Folder that a command writes to; to be used as a context.

    Parameters
    ----------
    path : Path
    results : sequence of str
        Names or patterns of all files that the command may write. Entering raises an error if such files exist,
        unless ``force``: then they are removed when the first new one is complete.
    force : bool

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     with OutputFolder(Path(parent) / "new", ["report.txt"], force=False) as folder:
    ...         folder.text("report.txt", "done")
    ...     print((Path(parent) / "new" / "report.txt").read_text())
    done
    """

    def __init__(self, path: Path, results: Sequence[str], *, force: bool) -> None:
        self.path = path
        self.results = results
        self.force = force
        self.written: list[Path] = []
        self._old: list[Path] = []

    def __enter__(self) -> Self:
        checked_path("--out", self.path)
        if os.path.exists(self.path) and not self.path.is_dir():
            raise NotADirectoryError(f"{self.path} is a file; choose another folder with --out")
        self._old = [found for name in self.results for found in sorted(self.path.glob(name))]
        if self._old and not self.force:
            raise FileExistsError(f"{self._old[0]} exists; choose another folder with --out or overwrite with --force")
        # Before the work is done: that the folder cannot be had should be known at once.
        self.path.mkdir(parents=True, exist_ok=True)
        if not os.access(self.path, os.W_OK):
            raise PermissionError(f"{self.path} may not be written to; choose another folder with --out")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if not self.written:
            with contextlib.suppress(OSError):  # not empty: then it is not ours alone
                self.path.rmdir()
        if kind is KeyboardInterrupt:
            raise KeyboardInterrupt(self.finished())

    def protect(self, inputs: Iterable[Path | str]) -> None:
        """Refuse to go on if a file that was read is among those to be replaced."""
        read = {Path(path).resolve() for path in inputs}
        for path in self._old:
            if path.resolve() in read:
                raise FileExistsError(f"{path} is read and would be replaced; choose another folder with --out")

    def finished(self) -> str:
        """Say which files are complete."""
        names = ", ".join(self.names())
        return f"finished and complete in {self.path}: {names}" if names else "nothing was written"

    def names(self) -> list[str]:
        """Names of the files written so far, relative to the folder."""
        return [path.relative_to(self.path).as_posix() for path in self.written]

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Hand out a temporary path of the same ending, which becomes ``name`` if all goes well."""
        target = self.path / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with writing(target, name) as partial:
                yield partial
                while self._old:  # results of another run must not be mistaken for those of this one
                    self._old.pop().unlink(missing_ok=True)
        except OSError as error:
            if target.parent != self.path:
                with contextlib.suppress(OSError):  # not empty: then something is complete in it
                    target.parent.rmdir()
            message = f"{error.strerror or error}; {self.finished()}"
            raise (OSError(message) if error.errno is None else OSError(error.errno, message, str(target))) from error
        self.written.append(target)

    def text(self, name: str, text: str) -> None:
        """Write a text file."""
        with self.writing(name) as path:
            path.write_text(text, encoding="utf-8")

    def table(self, name: str, table: pd.DataFrame) -> None:
        """Write a table as comma-separated values, with its index."""
        with self.writing(name) as path:
            table.to_csv(path)

    def picture(self, name: str, drawn: Any) -> None:
        """Write a figure, or that of some axes, and close it."""
        import matplotlib.pyplot as plt
        import numpy as np

        first = np.atleast_1d(np.asarray(drawn, dtype=object)).ravel()[0]
        figure = first.figure or first  # a figure's own is None, or in newer versions itself
        with self.writing(name) as path:
            figure.savefig(path, dpi=RESOLUTION, bbox_inches="tight")
        plt.close(figure)
