"""How often data are read: a fit of small data converts every trajectory once, and files need not fit into memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import m3c_md
from m3c_md import M3C, MMC, KMedoids, PCCAPlus, compare
from m3c_md.clustering.state_estimator import StateEstimator
from tests.conftest import hidden_markov_wells

MAKERS: dict[str, Callable[[], StateEstimator]] = {
    "M3C": lambda: M3C(2, lagtime=3, bandwidth=1.0, n_features=20, starts=("kmeans",), random_state=0),
    "paper's start": lambda: M3C.paper(2, bandwidth=1.0, n_features=20, random_state=0),
    "MMC": lambda: MMC(2, bandwidth=1.0, n_features=20, starts=("kmeans",), random_state=0),
    "PCCA+": lambda: PCCAPlus(2, lagtime=3, n_microstates=10, random_state=0),
    "k-medoids": lambda: KMedoids(2, random_state=0),
}
LENGTHS = (120, 80, 150)


class OnDisk:
    """An array of single precision that counts the frames that are read from it."""

    def __init__(self, values: NDArray[np.float32]) -> None:
        self._values = values
        self.shape, self.dtype = values.shape, values.dtype
        self.n_read = 0

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, key: slice) -> NDArray[np.float32]:
        self.n_read += len(self._values[key])
        return self._values[key]

    def __array__(self, *_: Any, **__: Any) -> NDArray[np.float32]:
        return self[:]


def trajectories() -> list[NDArray[np.float32]]:
    return [hidden_markov_wells(n, 2, seed).frames.astype(np.float32) for seed, n in enumerate(LENGTHS)]


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")
@pytest.mark.parametrize("name", MAKERS)
class TestSmallFits:
    def test_every_frame_is_read_once(self, name: str) -> None:
        data = [OnDisk(x) for x in trajectories()]
        MAKERS[name]().fit(data)
        assert [x.n_read for x in data] == list(LENGTHS)

    def test_every_table_is_converted_once(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        converted: list[int] = []
        real = pd.DataFrame.__array__

        def counted(self: pd.DataFrame, *args: Any, **kwargs: Any) -> Any:
            converted.append(len(self))
            return real(self, *args, **kwargs)

        data = [pd.DataFrame(x) for x in trajectories()]
        monkeypatch.setattr(pd.DataFrame, "__array__", counted)
        MAKERS[name]().fit(data)
        assert converted == list(LENGTHS)


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")
def test_a_comparison_reads_what_is_no_memory_map_once() -> None:
    data = [OnDisk(x) for x in trajectories()]
    compare(data, 3, methods=("pcca+", "k-medoids"), n_microstates=5, random_state=0, n_jobs=1)
    assert [x.n_read for x in data] == list(LENGTHS)


# What a process may take on top of what it has; the file is larger, and twice as large in double precision.
ALLOWED = 60_000_000
N_FRAMES, N_COLUMNS = 200_000, 108
PROGRAM = """
import gc, resource, sys, warnings
from functools import partial
from pathlib import Path
import numpy as np
from deeptime.markov.msm import MarkovStateModel
from m3c_md import M3C, KMedoids, PCCAPlus, compare, scan_states
from m3c_md.clustering import margin_search, training_frames
from m3c_md.validation import contenders, measures, scan

warnings.simplefilter("ignore")
# Small samples and quick fits: how many frames are searched in, and for how long, does not depend on their number.
margin_search.STREAMED = margin_search.SEARCHED = measures.MOST_FRAMES = 5000
training_frames.MOST_NUMBERS, training_frames.SAMPLED_WINDOWS = 500_000, 3000
settings = {"bandwidth": 20.0, "n_features": 20, "starts": ("kinetic",), "reweight": False, "gap": 0.1}
contenders.M3C = scan.M3C = M3C = partial(M3C, **settings)
path, allowed, n_frames, n_columns = sys.argv[1], *map(int, sys.argv[2:])
rng = np.random.default_rng(0)
x = np.lib.format.open_memmap(path, "w+", np.float32, (n_frames, n_columns))
for begin in range(0, n_frames, 10_000):
    states = np.cumsum(rng.random((10_000, 1)) < 0.003, axis=0) % 3
    angles = 2.0 * states + 0.7 * rng.standard_normal((10_000, n_columns // 2))
    x[begin : begin + 10_000] = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
del x
x = np.load(path, mmap_mode="r")
assert x.nbytes > allowed
trajs = [x[: n_frames // 2], x[n_frames // 2 :]]

model = M3C(3, random_state=0).fit_fetch([part[:3000] for part in trajs])
micro = [model.transform(part) for part in trajs]
msm = MarkovStateModel(np.full((3, 3), 1.0 / 3.0))
steps = {
    "compare": lambda data: compare(data, 3, methods="m3c", lagtimes=1, random_state=0, n_jobs=1),
    "scan_states": lambda data: scan_states(data, 3, n_resamples=1, random_state=0, n_jobs=1),
    "pcca+": lambda data: PCCAPlus(3, n_microstates=20, random_state=0).fit(data),
    "k-medoids": lambda data: KMedoids(3, random_state=0).fit(data),
    "lump": lambda data: model.lump(msm, trajs=data, dtrajs=[part[: len(one)] for part, one in zip(micro, data)]),
}

def memory():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmData"))

for step in steps.values():  # loads and compiles what it needs
    step([part[:3000] for part in trajs])
gc.collect()
resource.setrlimit(resource.RLIMIT_DATA, (memory() + allowed, resource.RLIM_INFINITY))
for load in (lambda: np.array(x), lambda: np.asarray(x, dtype=np.float64)):
    try:
        load()
    except MemoryError:
        continue
    raise AssertionError("there is room for all of it: nothing is tested")
for name, step in steps.items():
    step(trajs)
    print(name)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux to limit the memory of a process")
def test_files_need_not_fit_into_memory(tmp_path: Path) -> None:
    home = Path(m3c_md.__file__).parents[1]
    sizes = [str(number) for number in (ALLOWED, N_FRAMES, N_COLUMNS)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "x.npy"), *sizes],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(home), os.environ.get("PYTHONPATH", "")]),
            # What is freed goes back at once, or it would be room that nobody sees (glibc keeps up to 64 MB).
            "MALLOC_MMAP_THRESHOLD_": "131072",
            "MALLOC_TRIM_THRESHOLD_": "131072",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["compare", "scan_states", "pcca+", "k-medoids", "lump"]
