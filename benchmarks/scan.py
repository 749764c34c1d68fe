"""Cost of a scan over numbers of states against one rival pipeline, and whether the right number is suggested.

    python benchmarks/scan.py --rows six-36 four-4 --draws 0 2        both draws included; CPU time of one thread
    python benchmarks/scan.py --rows suite --draws 0 0                how often suggestions are right on random systems

``six-36`` is 20,000 frames of six hidden states in 36 columns (`HMM(6, 18, ar=1)`), scanned from 2 to 10 and compared
with TICA (10 components at lag 10), deeptime's k-means (200 cells), MSM and PCCA+; ``four-4`` is 20,000 frames of four
states in 4 columns, scanned from 2 to 8 and compared with deeptime's pipeline without TICA; ``suite`` has random hidden
states and wells of 5,000 frames, scanned to one state more than there are.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from metric import SHARED
from metric_rivals import PLAIN_CELLS, Frames, deeptime_cells, lumpings
from metric_systems import many_states_module
from soak_way import deeptimes_own
from synthetic import dihedral_series

from m3c_md import M3C, scan_states

# States and angles of the suite, and whether there is slow noise within states: every third in twenty trajectories.
SUITE = ((3, 2, 0), (4, 18, 1), (5, 60, 0), (6, 6, 1), (3, 30, 0), (4, 2, 1), (5, 9, 0), (8, 18, 1))
LATTICES = ((2, 2), (2, 3), (3, 1))


class System(NamedTuple):
    """Trajectories, the true number of states, the numbers to scan, and whether the rival takes TICA."""

    name: str
    trajs: list[Frames]
    n_states: int
    numbers: range
    tica: bool


def six_36(draw: int) -> Iterator[System]:
    trajs, _ = many_states_module(SHARED).HMM(6, 18, ar=1, seed=draw).sim([20_000], 100 + draw)
    yield System("six-36", trajs, 6, range(2, 11), True)


def four_4(draw: int) -> Iterator[System]:
    yield System("four-4", [dihedral_series(20_000, 2, draw, n_states=4)[0]], 4, range(2, 9), False)


def suite(draw: int) -> Iterator[System]:
    systems = many_states_module(SHARED)
    for i, (k, n_angles, ar) in enumerate(SUITE):
        lengths = [250] * 20 if i % 3 == 2 else [5000]
        trajs, _ = systems.HMM(k, n_angles, ar=ar, seed=40 + 100 * draw + i).sim(lengths, 900 + 100 * draw + i)
        yield System(f"hmm-{k}-{n_angles}-{ar}", trajs, k, range(2, k + 2), True)
    for nx, ny in LATTICES:
        trajs, _ = systems.Wells(nx, ny, seed=3 + draw).sim([5000], 77 + draw)
        yield System(f"wells-{nx}x{ny}", trajs, nx * ny, range(2, nx * ny + 2), False)


ROWS: dict[str, Callable[[int], Iterator[System]]] = {"six-36": six_36, "four-4": four_4, "suite": suite}


def rival_seconds(system: System, seed: int) -> float:
    """CPU time of one lumping into the true number of states."""
    from deeptime.decomposition import TICA

    began = time.process_time()
    trajs = system.trajs
    if system.tica:
        dim = min(10, trajs[0].shape[1])
        model = TICA(lagtime=10, dim=dim, scaling="kinetic_map").fit(trajs).fetch_model()
        trajs = [model.transform(x) for x in trajs]
    list(lumpings(trajs, trajs, [system.n_states], {"cells": PLAIN_CELLS}, seed, began, deeptime_cells))
    return time.process_time() - began


def scan_line(system: System, draw: int) -> tuple[bool, str]:
    """Whether the suggestion is the true number, and a line about the scan."""
    rival = rival_seconds(system, draw)
    began = time.process_time()
    scan = scan_states(system.trajs, system.numbers, random_state=draw, n_jobs=1)
    seconds = time.process_time() - began
    table = scan.table
    fastest = ", ".join(f"{table.loc[n, f't{n} / frame']:.3g}" for n in table.index)
    stable = ", ".join(f"{value:.2f}" for value in table["stability"])
    return scan.suggestion == system.n_states, (
        f"{system.name} draw {draw}: {scan.suggestion} suggested, {system.n_states} true; {seconds:.1f} s, rival "
        f"{rival:.2f} s, ratio {seconds / rival:.1f}; fastest processes {fastest}; stability {stable}; "
        f"{table['halves'].sum()} halves"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=["six-36", "four-4"])
    parser.add_argument("--draws", nargs=2, type=int, default=(0, 2), metavar=("FIRST", "LAST"))
    options = parser.parse_args()
    right: list[bool] = []
    with deeptimes_own(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        M3C(2, random_state=0).fit(dihedral_series(3000, 2)[0])  # compiles
        for name in options.rows:
            for draw in range(options.draws[0], options.draws[1] + 1):
                for system in ROWS[name](draw):
                    found, line = scan_line(system, draw)
                    right.append(found)
                    print(line, flush=True)
    print(f"right number suggested: {np.sum(right)} of {len(right)}")


if __name__ == "__main__":
    main()
