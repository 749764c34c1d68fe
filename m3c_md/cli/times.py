"""Times on the command line: the step between frames, which files may say themselves, and lag times with a unit."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import NamedTuple

# Picoseconds in the units of time that are understood.
PICOSECONDS = {"fs": 1e-3, "ps": 1.0, "ns": 1e3, "us": 1e6, "µs": 1e6, "ms": 1e9}
# Picoseconds between frames from which on nanoseconds are easier to read.
LONG_STEP = 100.0
# Formats whose frames always have a time of their own; of others mdtraj may count the frames instead.
TIMED = (".xtc", ".trr")
# Frames of a file that are looked at, relative differences between steps that are none, and those of single precision.
SEEN, ROUNDING, PRECISION = 10, 1e-3, 1e-6


class Time(NamedTuple):
    """A time with its unit, as it was given."""

    value: float
    unit: str

    def __str__(self) -> str:
        return f"{self.value:g}{self.unit}"


def lag_time(text: str) -> int | Time:
    """Argument type: a whole number of frames, or a time with its unit.

    Examples
    --------
    >>> lag_time("5"), lag_time("0.5ns")
    (5, Time(value=0.5, unit='ns'))
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-zµ]*)\s*", text)
    number, unit = found.groups() if found else ("0", "")
    if unit in PICOSECONDS and float(number) > 0.0:
        return Time(float(number), unit)
    if unit or not number.isdecimal() or int(number) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a whole number of frames of at least 1, or a time with its unit such as 0.5ns (known "
            f"are {', '.join(PICOSECONDS)})"
        )
    return int(number)


def time_step(options: argparse.Namespace) -> tuple[float, str]:
    """Time between two frames that are used, and its unit; ``options.lag`` is turned into frames.

    Without --dt it is what the files say, and frames where they say nothing. Only their first frames are read.
    """
    from m3c_md.exceptions import InputError

    if options.unit == "":
        raise InputError("--unit '' says nothing; name the unit of --dt, e.g. ps, or leave --unit out")
    if not hasattr(options, "time_source"):
        options.time_source = None
        if options.dt is None and options.unit in (None, *PICOSECONDS):
            _take_from_files(options)
    if options.dt is None and options.unit is not None:
        raise InputError(f"--unit {options.unit} says nothing without --dt; give the time between two frames")
    # Where nobody knows a time, times are in frames that are used, as --lag and the warnings are.
    dt, unit = (1.0, "frame") if options.dt is None else (options.dt * options.stride, options.unit or "ps")
    if isinstance(options.lag, Time):
        options.lag = _in_frames(options.lag, dt, unit)
    return dt, unit


def time_lines(options: argparse.Namespace) -> list[str]:
    """Where the time between frames comes from, if it was not given."""
    if getattr(options, "time_source", None) is None:
        return []
    return [f"  time between frames of the files: {options.dt:g} {options.unit}, {options.time_source}"]


def _take_from_files(options: argparse.Namespace) -> None:
    """Set --dt and --unit to what all files say, if they do."""
    from m3c_md.exceptions import InputError
    from m3c_md.features.files import trajectory_files

    try:
        steps = {path: step_of_file(path) for path in trajectory_files(options.files)}
    except InputError:  # told when they are read, after all that can be checked without them
        return
    known = [step for step in steps.values() if step is not None]
    if not known or len(known) < len(steps) or max(known) - min(known) > ROUNDING * max(known):
        return
    wanted = options.lag.unit if isinstance(options.lag, Time) else "ns" if known[0] >= LONG_STEP else "ps"
    options.unit = options.unit or wanted
    options.dt = float(f"{known[0] / PICOSECONDS[options.unit]:.6g}")
    options.time_source = f"as {next(iter(steps)).name} says (--dt gives another)"


def step_of_file(path: Path) -> float | None:
    """Time between the first frames of a file in picoseconds; None where it says none, or they are not equally spaced.

    What is wrong with a file is told when its frames are read.
    """
    import mdtraj as md
    import numpy as np

    from m3c_md.features.files import extension_of, plain_path

    if extension_of(path) not in TIMED:
        return None
    try:
        with plain_path(path) as name, md.open(name) as file:
            times = np.asarray(file.read(n_frames=SEEN)[1], dtype=np.float64)
    except Exception:
        return None
    steps = np.diff(times)
    if times.size < 2 or not np.isfinite(times).all() or steps[0] <= 0.0:
        return None
    return None if np.ptp(steps) > ROUNDING * steps[0] + PRECISION * np.abs(times).max() else float(np.mean(steps))


def _in_frames(lag: Time, dt: float, unit: str) -> int:
    """Lag time in frames that are used."""
    from m3c_md.exceptions import InputError

    if unit not in PICOSECONDS:
        raise InputError(
            f"--lag {lag} is a time, but the time between frames is not known in such a unit; give --dt and --unit, or "
            "--lag in frames"
        )
    frames = lag.value * PICOSECONDS[lag.unit] / (dt * PICOSECONDS[unit])
    if abs(frames - round(frames)) > ROUNDING * frames or round(frames) < 1:
        raise InputError(
            f"--lag {lag} is {frames:.4g} frames of {dt:g} {unit}; give a multiple of that, or a whole number of frames"
        )
    return round(frames)
