"""Checkpoints: a folder in which a search that was stopped finds what it had done.

Every finished step is one file in the layout of model files (plain arrays, nothing is executed when it is read),
written under a temporary name and then renamed: however the process ends, a file is complete or not there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from m3c_md.clustering.archive import read_contents, write_contents
from m3c_md.clustering.candidate_file import candidates_of, contents_of
from m3c_md.disk import checked_path
from m3c_md.exceptions import InputError, ModelFileError
from m3c_md.search.selection import Candidate

KIND = "Candidates"
SUFFIX = ".step"


class CheckpointFolder:
    """Journal of one search in a folder; see `m3c_md.search.journal.Journal`.

    Parameters
    ----------
    folder : path
        Made if it is not there. Files of another search in it are an error, not overwritten.
    search : str
        Fingerprint of the search.
    """

    def __init__(self, folder: Path, search: str) -> None:
        self._folder = folder
        self._search = search
        folder.mkdir(parents=True, exist_ok=True)
        # What a killed process was writing has a name with a dot in front, and is no step.
        for path in sorted(folder.glob(f"[!.]*{SUFFIX}"))[:1]:
            self._read(path)

    def found(self, step: str) -> list[Candidate] | None:
        """Candidates of a step that was finished before, None if it was not."""
        path = self._path(step)
        return self._read(path) if path.exists() else None

    def keep(self, step: str, candidates: Sequence[Candidate]) -> None:
        """Keep the candidates of a step that has just been finished."""
        contents = contents_of(candidates, labels=True)
        contents.settings["search"] = self._search
        write_contents(KIND, contents, self._path(step), "a checkpoint")

    def _path(self, step: str) -> Path:
        return self._folder / (re.sub(r"[^A-Za-z0-9.+-]", "_", step) + SUFFIX)

    def _read(self, path: Path) -> list[Candidate]:
        try:
            kind, contents = read_contents(path)
            if kind != KIND:
                raise ModelFileError(f"it holds a {kind!r:.40}")
            candidates = candidates_of(contents)
        except ModelFileError as error:
            raise ModelFileError(f"{path} is no checkpoint of a fit: {error}; remove it") from error
        if contents.settings.get("search") != self._search:
            raise InputError(
                f"checkpoint={str(self._folder)!r} belongs to a fit with other data or other settings; remove the "
                "folder, or give another one"
            )
        return candidates


def check_checkpoint(folder: Any, random_state: Any) -> Path | None:
    """Folder of a checkpoint; the same random numbers must come again for a fit to go on where it stopped."""
    if folder is None:
        return None
    path = checked_path("checkpoint", folder)
    if path.exists() and not path.is_dir():
        raise InputError(f"checkpoint={str(path)!r} is a file; give the path of a folder")
    if isinstance(random_state, bool) or not hasattr(random_state, "__index__"):
        raise InputError(
            f"random_state={random_state!r:.60} does not give the same numbers again, so that a fit could not go on "
            "from its checkpoint; give a whole number"
        )
    return path
