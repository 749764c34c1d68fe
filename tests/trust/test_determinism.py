"""Same seed, same answer: again, in other processes, with other numbers of threads, from files or from memory.

That a streamed fit is one in memory is seen in tests/search/test_polish.py, that the number of processes does not
matter in tests/search/test_candidates.py and tests/validation/test_comparison.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import m3c_md
from m3c_md import M3C
from m3c_md.search.rungs import STREAMED
from tests.conftest import hidden_markov_wells

# Fits of all methods, small and streamed; prints a fingerprint of labels and numbers of each.
PROGRAM = """
import hashlib, json, sys
import numpy as np
from m3c_md import M3C, MMC, KMedoids, PCCAPlus
from m3c_md.validation import implied_timescales
from tests.conftest import hidden_markov_wells

x, states = hidden_markov_wells(1500, 3, seed=4)
wide = np.column_stack([x, x @ np.random.default_rng(0).normal(size=(2, 4))])
large = hidden_markov_wells(21_000, 3, seed=5).frames
fits = {
    "M3C": (M3C(3, bandwidth=(0.7, 1.4), starts=("kinetic", "kmeans"), random_state=0), wide),
    "M3C, streamed": (M3C(3, bandwidth=1.0, starts=("kinetic",), random_state=0), large),
    "MMC": (MMC(3, bandwidth=1.0, starts=("kmeans",), random_state=0), wide),
    "KMedoids": (KMedoids(3, n_restarts=2, random_state=0), wide),
    "PCCAPlus": (PCCAPlus(3, n_microstates=30, random_state=0), wide),
}
found = {}
for name, (estimator, data) in fits.items():
    model = estimator.fit_fetch(data)
    numbers = [model.populations, getattr(model, "objective", 0.0), getattr(model, "centers", 0.0)]
    its = implied_timescales(model.transform(data), [1, 3], random_state=0)
    numbers += [its.timescales_for_process(i) for i in range(2)]
    labels = model.transform(data)
    found[name] = [
        hashlib.sha256(labels.tobytes()).hexdigest(),
        hashlib.sha256(b"".join(np.asarray(n, dtype=float).tobytes() for n in numbers)).hexdigest(),
    ]
print(json.dumps(found))
"""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def fingerprints(n_threads: int) -> dict[str, list[str]]:
    settings = {**os.environ, **dict.fromkeys(THREADS, str(n_threads)), "PYTHONHASHSEED": str(n_threads)}
    home = Path(m3c_md.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-W", "error::m3c_md.exceptions.M3CWarning", "-c", PROGRAM],
        cwd=Path(__file__).parents[2],
        env={**settings, "PYTHONPATH": os.pathsep.join([str(home), settings.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_threads_change_no_bit() -> None:
    assert fingerprints(1) == fingerprints(2)


@pytest.fixture(scope="module")
def large() -> np.ndarray:
    return hidden_markov_wells(STREAMED + 1000, 3, seed=5).frames


class Slices:
    """An array that lies elsewhere: all that it gives is slices, and not too long ones."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.shape, self.dtype = array.shape, array.dtype

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, key: Any) -> np.ndarray:
        part = np.array(self._array[key])
        assert len(part) < 20_000, "all at once"
        return part


def test_files_and_slices_give_what_memory_gives(large: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", large)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(large))
    forms = {
        "memory": large,
        "again": large.copy(),
        "Fortran order": np.asfortranarray(large),
        "memory map": np.load(tmp_path / "x.npy", mmap_mode="r"),
        "memory map in Fortran order": np.load(tmp_path / "fortran.npy", mmap_mode="r"),
        "slices": Slices(large),
    }
    labels, objectives = {}, {}
    for name, form in forms.items():
        model = M3C(3, bandwidth=1.0, starts=("kinetic",), random_state=0).fit_fetch([form])
        labels[name], objectives[name] = model.transform(form), model.objective
    for name in forms:
        assert np.array_equal(labels[name], labels["memory"]), name
        assert objectives[name] == pytest.approx(objectives["memory"], rel=1e-9), name
