"""Bits that a change of the house must not change: labels, objectives and messages of fits of every kind.

    python benchmarks/golden.py --keep before.json      on the code as it is
    python benchmarks/golden.py --against before.json   after the change: names every difference

Numbers are kept to the last bit, so both runs must be on one machine with the same packages.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import contextlib
import hashlib
import io
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3c_md import M3C, MMC, KMedoids, PCCAPlus, compare, load_model, scan_states
from m3c_md.cli import main as command_line
from m3c_md.data import alanine_dipeptide, deca_alanine

Found = dict[str, Any]


def angles(n_frames: int, n_states: int, seed: int, run: int = 0) -> NDArray[np.float64]:
    """Sines and cosines of two angles that hop between centres, the same ones in every run."""
    centres = np.random.default_rng(seed).uniform(-np.pi, np.pi, (n_states, 2))
    rng = np.random.default_rng([seed, run])
    hops = rng.random(n_frames) < 0.01
    states = np.cumsum(np.where(hops, rng.integers(1, n_states, n_frames), 0)) % n_states
    values = centres[states] + rng.vonmises(0.0, 6.0, (n_frames, 2))
    return np.concatenate([np.sin(values), np.cos(values)], axis=1)


def bits(*arrays: Any) -> str:
    """Hash of arrays."""
    total = hashlib.sha1()
    for array in arrays:
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def of_model(model: Any, data: Any) -> Found:
    """All that a model says about data."""
    labels = model.transform(data)
    several = isinstance(labels, list)
    found: Found = {
        "labels": bits(*labels) if several else bits(labels),
        "margins": bits(*model.margin(data)) if several else bits(model.margin(data)),
        "populations": [float(p).hex() for p in model.populations],
        "warnings": model.warnings,
        "repr": repr(model),
        "visits": None if model.visits is None else model.visits.to_csv(),
    }
    if hasattr(model, "objective"):
        found |= {"objective": float(model.objective).hex(), "gap": float(model.gap).hex()}
        found["candidates"] = model.candidates.to_csv()
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model.m3c"))
        found["again"] = repr(load_model(Path(folder, "model.m3c")))
    return found


def fitted(estimator: Any, data: Any, frames: Any = None) -> Found:
    """What comes of a fit."""
    return of_model(estimator.fit_fetch(data), data if frames is None else frames)


def lazy() -> Found:
    """What comes of a fit to Dask arrays."""
    import dask.array as da

    data = [angles(12_000, 3, 5, run) for run in range(2)]
    arrays = [da.from_array(x, chunks=(4000, x.shape[1])) for x in data]
    return fitted(M3C(3, random_state=0), arrays, data)


def refused(call: Callable[[], Any]) -> str:
    """Text of an exception."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was refused"


def timeless(table: Any) -> str:
    """Table without the times that it took."""
    return str(table.drop(columns="seconds", errors="ignore").to_csv(float_format="%.17g"))


def mistakes() -> Found:
    """Messages about bad input."""
    x = angles(300, 2, 0)
    hole = x.copy()
    hole[7, 2] = np.nan
    model = KMedoids(2, random_state=0).fit_fetch(x)
    calls: dict[str, Callable[[], Any]] = {
        "too short": lambda: M3C(2, lagtime=500).fit(x),
        "a hole": lambda: M3C(2).fit(hole),
        "columns": lambda: M3C(2).fit([x, x[:, :3]]),
        "states": lambda: M3C(1).fit(x),
        "dtrajs": lambda: PCCAPlus(2).fit(np.arange(300) % 2),
        "other columns": lambda: model.transform(x[:, :2]),
        "nothing": lambda: MMC(2).fit([]),
        "compare": lambda: compare(x, 2, methods=["m3d"]),
        "compare short": lambda: compare([x[:5], x[:5]], 2, lagtime=10),
        "scan": lambda: scan_states(x, [1]),
    }
    return {name: refused(call) for name, call in calls.items()}


def commands() -> Found:
    """Reports and files of the command line."""
    found: Found = {}
    with tempfile.TemporaryDirectory() as folder:
        for i in range(2):
            np.save(Path(folder, f"x{i}.npy"), angles(1500, 3, 3, run=i))
        files = [str(Path(folder, f"x{i}.npy")) for i in range(2)]
        for name, arguments in {
            "fit": ["fit", *files, "--n-states", "3", "--out", str(Path(folder, "fit"))],
            "transform": ["transform", str(Path(folder, "fit", "model.m3c")), *files, "--out", str(Path(folder, "t"))],
            "compare": ["compare", *files, "--n-states", "3", "--out", str(Path(folder, "compare"))],
            "scan": ["scan", *files, "--states", "2", "3", "--out", str(Path(folder, "scan"))],
        }.items():
            heard = io.StringIO()
            with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(io.StringIO()):
                try:
                    code: Any = command_line(arguments)
                except SystemExit as stop:
                    code = stop.code
            text = re.sub(r"\d+(\.\d+)? s\b", "# s", heard.getvalue().replace(folder, ""))
            found[name] = {"code": code, "text": "" if name == "compare" else text}  # its table holds times
        found["labels"] = {
            str(path.relative_to(folder)): bits(np.load(path)) for path in sorted(Path(folder).rglob("labels/*.npy"))
        }
    return found


def everything() -> dict[str, Callable[[], Found]]:
    """Cases by name."""
    small = angles(1500, 3, 0)
    pairs = (small[:-2], small[2:])
    some = [angles(800, 3, 1), angles(700, 3, 1, run=1)]
    ten = [x.astype(float) for x in alanine_dipeptide().features[:10]]
    return {
        "m3c": lambda: fitted(M3C(3, random_state=0), small),
        "m3c, two trajectories, lag 5": lambda: fitted(M3C(3, lagtime=5, random_state=1), some),
        "m3c, pairs": lambda: fitted(M3C(3, random_state=2), pairs, small),
        "m3c, a state too many": lambda: fitted(M3C(4, random_state=0), angles(4000, 3, 2)),
        "m3c, as in the paper": lambda: fitted(M3C.paper(3, random_state=0), small),
        "m3c, relaxation": lambda: fitted(M3C(2, starts=("relaxation",), random_state=0), small[:400]),
        "m3c, single precision": lambda: fitted(M3C(3, random_state=0), small.astype(np.float32)),
        "m3c, alanine dipeptide": lambda: fitted(M3C(3, random_state=0), ten),
        "m3c, deca-alanine": lambda: fitted(M3C(2, random_state=0), deca_alanine().features[:1]),
        "m3c, streamed": lambda: fitted(M3C(3, random_state=0), angles(25_000, 3, 4)),
        "m3c, streamed, a state too many": lambda: fitted(M3C(4, random_state=0), angles(110_000, 3, 4)),
        "m3c, dask": lazy,
        "mmc": lambda: fitted(MMC(3, random_state=0), small),
        "k-medoids": lambda: fitted(KMedoids(3, random_state=0), small),
        "pcca+": lambda: fitted(PCCAPlus(3, random_state=0), small),
        "pcca+, k-medoids": lambda: fitted(PCCAPlus(3, discretization="k-medoids", random_state=0), small),
        "compare": lambda: {"table": timeless(compare(some, 3, random_state=0).table)},
        "scan": lambda: {"table": timeless(scan_states(small, [2, 3, 4], random_state=0).table)},
        "mistakes": mistakes,
        "commands": commands,
    }


def differences(before: Any, after: Any, where: str = "") -> list[str]:
    """Name what differs."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = [*before, *(name for name in after if name not in before)]
        return [line for name in names for line in differences(before.get(name), after.get(name), f"{where} / {name}")]
    return [] if before == after else [f"{where}:\n  before {before}\n  after  {after}"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--against", type=Path, metavar="FILE")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = {}
    for name, case in everything().items():
        print(name, file=sys.stderr, flush=True)
        found[name] = case()
    found = json.loads(json.dumps(found, default=str))
    if options.keep:
        options.keep.write_text(json.dumps(found, indent=1))
    if options.against:
        different = differences(json.loads(options.against.read_text()), found)
        print("\n".join(different) or "the same bits")
        sys.exit(bool(different))
