"""From the files on the command line to features, and what has to be known to make the same features again."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from m3c_md.cli.console import progress_bar, silent_standard_output
from m3c_md.cli.times import lag_time
from m3c_md.disk import read_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT = "m3c_md features"
VERSION = 1


def whole_number(least: int) -> Callable[[str], int]:
    """Argument type: a whole number that is not too small.

    Examples
    --------
    >>> whole_number(1)("12")
    12
    """

    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least {least}")
        return number

    return convert


def positive_number(text: str) -> float:
    """Argument type: a positive number.

    Examples
    --------
    >>> positive_number("0.5")
    0.5
    """
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} must be a positive number")
    return number


def add_file_options(parser: argparse.ArgumentParser) -> None:
    """Which files to read."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILES",
        help="trajectories of any format that mdtraj reads, or .npy arrays (n_frames, n_columns) of your own features; "
        "patterns such as 'run*.xtc' are understood",
    )
    parser.add_argument("--top", metavar="TOP", help="topology file, e.g. the PDB that the simulation started from")
    parser.add_argument("--jobs", type=whole_number(1), metavar="N", help="processes to spread the work over")


def add_time_options(parser: Any) -> None:
    """How time goes in the files, and the lag time."""
    parser.add_argument(
        "--lag",
        type=lag_time,
        default=1,
        metavar="N",
        help="lag time: a number of frames (those that --stride leaves, where there is one), or a time such as 0.5ns "
        "(default: 1 frame)",
    )
    parser.add_argument(
        "--dt",
        type=positive_number,
        metavar="X",
        help="time between two frames of the files (default: what .xtc and .trr files say; times of others are in "
        "frames)",
    )
    parser.add_argument("--unit", help="unit of time (default: ps, or ns where files say so long a step)")


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Which files to read, what to make of them, and how time goes in them."""
    add_file_options(parser)
    group = parser.add_argument_group("features and time")
    group.add_argument(
        "--dihedrals",
        nargs="+",
        default=["phi", "psi"],
        metavar="KIND",
        help="phi, psi, omega, chi1 to chi4 (default: phi psi); sine and cosine of each become columns",
    )
    group.add_argument("--residues", metavar="SEL", help="mdtraj selection of residues, e.g. 'resSeq 2 to 5'")
    group.add_argument(
        "--stride", type=whole_number(1), default=1, metavar="N", help="use every Nth frame (default: 1)"
    )
    add_time_options(group)
    group.add_argument("--seed", type=whole_number(0), default=0, help="same seed, same answer (default: 0)")


@dataclass(frozen=True)
class FeatureSettings:
    """What the columns are; written beside a model, so that new files are treated alike.

    Attributes
    ----------
    columns : list of str
    dihedrals : list of str or None
        None for arrays of the user's own.
    residues : str or None
    missing : dict
        Residues without an angle that was asked for, by the kind of angle.
    """

    columns: list[str]
    dihedrals: list[str] | None = None
    residues: str | None = None
    missing: dict[str, list[str]] = field(default_factory=dict)

    def to_json(self) -> str:
        """Text of features.json."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "dihedrals": self.dihedrals,
            "residues": self.residues,
            "columns": self.columns,
        }
        return json.dumps(content, indent=1)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a features.json; an error if it is none."""
        from m3c_md.exceptions import InputError

        def texts(value: Any) -> bool:
            return isinstance(value, list) and all(isinstance(item, str) for item in value)

        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise InputError(f"{path} is missing: m3c-md fit wrote it beside the model, keep them together") from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is no file of feature settings ({error}); fit the model again") from error
        known = isinstance(content, dict) and content.get("format") == FORMAT and content.get("version") == VERSION
        if (
            not known
            or not texts(content.get("columns"))
            or not (content.get("dihedrals") is None or texts(content["dihedrals"]))
            or not isinstance(content.get("residues"), str | None)
        ):
            raise InputError(f"{path} has no feature settings of version {VERSION}; fit the model again")
        return cls(content["columns"], content.get("dihedrals"), content.get("residues"))


@dataclass(frozen=True)
class Trajectories:
    """Features of all files.

    Attributes
    ----------
    files : list of Path
    features : list of arrays (n_frames, n_columns)
    settings : FeatureSettings
    stride : int
        Frame i of the features is frame ``i * stride`` of the file.
    top : str or None
        Topology file.
    featurizer : DihedralFeaturizer or None
        What made the features of trajectory files.
    """

    files: list[Path]
    features: list[NDArray[Any]]
    settings: FeatureSettings
    stride: int = 1
    top: str | None = None
    featurizer: Any = None

    @property
    def inputs(self) -> list[Path]:
        """All files that were read."""
        return [*self.files, *([] if self.top is None else [Path(self.top)])]

    @property
    def n_frames(self) -> int:
        """Number of frames in all trajectories."""
        return sum(map(len, self.features))

    def names(self) -> list[str]:
        """One name per file, its own without the ending; a number is added where names repeat."""
        return unique_names([path.stem for path in self.files])


def unique_names(stems: Sequence[str]) -> list[str]:
    """Names for files that can stand in one folder, on any file system.

    Examples
    --------
    >>> unique_names(["run", "run", "Run_2"])
    ['run', 'run_2', 'Run_2_2']
    """
    taken: set[str] = set()
    names = []
    for stem in stems:
        name, number = stem, 1
        while name.casefold() in taken:
            number += 1
            name = f"{stem}_{number}"
        taken.add(name.casefold())
        names.append(name)
    return names


def load_trajectories(options: argparse.Namespace, settings: FeatureSettings | None = None) -> Trajectories:
    """Read the files on the command line, with the features that it asks for or with those of an earlier fit."""
    from m3c_md.exceptions import InputError
    from m3c_md.features.files import trajectory_files

    files = trajectory_files(options.files)
    arrays = [path for path in files if path.suffix == ".npy"]
    if arrays and len(arrays) < len(files):
        other = next(path for path in files if path.suffix != ".npy")
        raise InputError(f"{arrays[0]} is an array of features and {other} a trajectory; give files of one sort")
    stride = getattr(options, "stride", 1)
    if arrays:
        if options.top is not None:
            raise InputError(f"--top {options.top} has no meaning for arrays of features such as {files[0]}; drop it")
        return _from_arrays(files, stride, fitted=settings is None)
    dihedrals, residues = (
        (options.dihedrals, options.residues) if settings is None else (settings.dihedrals, settings.residues)
    )
    return _from_molecules(files, options, dihedrals, residues, stride)


def _from_arrays(files: list[Path], stride: int, *, fitted: bool) -> Trajectories:
    from m3c_md.exceptions import InputError
    from m3c_md.inputs.coordinates import check_coordinates
    from m3c_md.inputs.trajectories import as_trajectory

    features = []
    for path in files:
        array = read_array(path)
        if fitted:
            check_coordinates(array, [str(path)])
        features.append(as_trajectory(array[::stride] if array.ndim else array, str(path)))
        if features[-1].shape[1] != features[0].shape[1]:
            raise InputError(
                f"{path} has {features[-1].shape[1]} columns, but {files[0]} has {features[0].shape[1]}; give arrays "
                "with the same columns"
            )
    columns = [f"column {i}" for i in range(features[0].shape[1])]
    return Trajectories(files, features, FeatureSettings(columns), stride)


def _from_molecules(
    files: list[Path], options: argparse.Namespace, dihedrals: Any, residues: str | None, stride: int
) -> Trajectories:
    from m3c_md.exceptions import InputError
    from m3c_md.features import DihedralFeaturizer
    from m3c_md.features.files import read_topology

    try:
        topology = read_topology(options.top, files)
    except InputError as error:
        if options.top is not None:
            raise
        raise InputError(
            f"{files[0]} does not say which atoms it holds; give --top, e.g. the PDB file that the simulation started "
            "from"
        ) from error
    featurizer = DihedralFeaturizer(dihedrals, residues=residues)
    with silent_standard_output():
        features = featurizer.load(files, topology, stride=stride, n_jobs=options.jobs, progress=progress_bar)
    labels = featurizer.describe()
    settings = FeatureSettings(list(labels), list(dihedrals), residues, dict(labels.missing))
    return Trajectories(files, list(features), settings, stride, options.top, featurizer)
