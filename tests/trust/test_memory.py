"""What a million frames of 36 columns take beside themselves: the largest memory that a process ever had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import m3c_md

# Multiples of the data (float32, 144 MB) that each step may take on top of them.
MOST = {
    "read_array": 1.2,
    "transform": 0.5,
    "decision_function": 0.6,  # three numbers of double precision per frame, and a block of features
    "margin": 0.5,
    "sample": 0.6,
    "M3C": 2.0,  # a sample of 100,000 pairs and its features, whatever the number of frames
}
PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np
from m3c_md import M3C
from m3c_md.disk import read_array

N = 1_000_000
rng = np.random.default_rng(0)
states = (np.cumsum(rng.random(N) < 0.001) % 3).astype(np.float32)
x = np.empty((N, 36), dtype=np.float32)
for column in range(0, 36, 2):  # angles that know the state
    angle = 2.0 * states + 0.7 * rng.standard_normal(N, dtype=np.float32)
    x[:, column], x[:, column + 1] = np.sin(angle), np.cos(angle)
np.save(Path(sys.argv[1]) / "x.npy", x)
estimator = M3C(3, bandwidth=6.0, n_features=40, starts=("kinetic",), gap=0.1, random_state=0)
model = estimator.fit_fetch(x[:3000])
steps = {
    "read_array": lambda: read_array(Path(sys.argv[1]) / "x.npy"),
    "transform": lambda: model.transform(x),
    "decision_function": lambda: model.decision_function(x),
    "margin": lambda: model.margin(x),
    "sample": lambda: model.sample(x, 5),
    "M3C": lambda: estimator.fit(x),
}

def memory(kind):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith(kind))

taken = {}
for name, step in steps.items():
    Path("/proc/self/clear_refs").write_text("5")  # the largest memory is counted from now on
    before = memory("VmRSS")
    step()
    taken[name] = (memory("VmHWM") - before) / x.nbytes
print(json.dumps(taken))
"""


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="needs Linux to measure")
def test_a_million_frames(tmp_path: Path) -> None:
    home = Path(m3c_md.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(home), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    taken = json.loads(done.stdout)
    assert set(taken) == set(MOST)
    assert {name: share for name, share in taken.items() if share > MOST[name]} == {}
