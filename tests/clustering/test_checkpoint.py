"""A fit that was stopped goes on from its checkpoint: nothing is done twice, and the answer is the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from m3c_md import M3C, MMC
from m3c_md.exceptions import InputError, ModelFileError
from m3c_md.search import candidates as candidates_module
from m3c_md.search import rungs as rungs_module
from m3c_md.search import runner as runner_module
from tests.conftest import Wells, hidden_markov_wells, quick


@pytest.fixture(scope="module")
def wells() -> Wells:
    return hidden_markov_wells(900, 3, seed=5)


def several(**changes: Any) -> M3C:
    """Some bandwidths and starts, so that there is something to be stopped in."""
    return quick(3, **{"bandwidth": (0.5, 1.0, 2.0, 3.0), "starts": ("kinetic", "kmeans"), **changes})


def assert_same(model: Any, expected: Any, frames: np.ndarray) -> None:
    np.testing.assert_array_equal(model.decision_function(frames), expected.decision_function(frames))
    assert model.candidates.equals(expected.candidates)
    assert model.trace == expected.trace


class Stopped(BaseException):
    """As a Ctrl-C is: nothing catches it."""


@pytest.mark.parametrize("where", ["optimise_kernel", "polish_winner"])
@pytest.mark.parametrize("streamed", [False, True])
def test_finished_steps_are_not_done_again(wells, tmp_path, monkeypatch, where, streamed):
    if streamed:
        monkeypatch.setattr("m3c_md.clustering.margin_search.STREAMED", 500)
        monkeypatch.setattr("m3c_md.clustering.margin_search.SEARCHED", 700)
        monkeypatch.setattr(rungs_module, "RUNGS", ((200, 4), (400, 2)))
    expected = several().fit_fetch(wells.frames)
    done: list[str] = []
    owner = {"optimise_kernel": runner_module, "polish_winner": candidates_module}[where]
    original = getattr(owner, where)

    def watched(problem: Any, *arguments: Any) -> Any:
        if len(done) == limit:
            raise Stopped
        result = original(problem, *arguments)
        done.append(where)
        return result

    monkeypatch.setattr(owner, where, watched)
    limit = 10**9
    several().fit(wells.frames)
    n_steps = len(done)
    done.clear()
    for limit in range(n_steps):
        with pytest.raises(Stopped):
            several().fit(wells.frames, checkpoint=tmp_path / "fit")
        assert len(done) == limit
    limit = n_steps
    model = several().fit(wells.frames, checkpoint=tmp_path / "fit").fetch_model()
    assert len(done) == n_steps
    assert_same(model, expected, wells.frames)
    again = several().fit(wells.frames, checkpoint=tmp_path / "fit").fetch_model()
    assert len(done) == n_steps
    assert_same(again, expected, wells.frames)


KILLED = """
import os, random, signal, sys, time
import numpy as np
from m3c_md import M3C

frames, folder, result = np.load(sys.argv[1]), sys.argv[2], sys.argv[3]

def fit():
    model = M3C(3, n_features=60, random_state=4).fit_fetch(frames, checkpoint=folder)
    np.save(result, model.decision_function(frames))

M3C(2, random_state=0, bandwidth=1.0).fit(frames[:200])  # loaded and compiled, as the forks are then
delays = random.Random(7)
n_killed = 0
while n_killed < 20:
    child = os.fork()
    if child == 0:
        fit()
        os._exit(0)
    time.sleep(delays.uniform(0.0, 0.25))
    os.kill(child, signal.SIGKILL)
    n_killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    if os.path.exists(result):  # done before the twentieth kill: once more, from the start
        os.remove(result)
        for name in os.listdir(folder):
            os.remove(os.path.join(folder, name))
fit()
print(len(os.listdir(folder)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fit_killed_twenty_times_gives_the_same_answer(tmp_path):
    frames = hidden_markov_wells(3000, 3, seed=2).frames
    np.save(tmp_path / "frames.npy", frames)
    folder, result = tmp_path / "fit", tmp_path / "result.npy"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLED, tmp_path / "frames.npy", folder, result],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    expected = M3C(3, n_features=60, random_state=4).fit_fetch(frames).decision_function(frames)
    np.testing.assert_array_equal(np.load(result), expected)
    # Whatever was being written when it was killed has a name of its own, and no step is read from it.
    assert int(done.stdout) >= 5
    assert all(path.suffix in (".step", ".part") for path in folder.iterdir())


class TestRefused:
    def test_a_checkpoint_of_another_fit(self, wells, tmp_path):
        several().fit(wells.frames, checkpoint=tmp_path)
        kept = {path: path.read_bytes() for path in tmp_path.iterdir()}
        changes: list[dict[str, Any]] = [{"regularization": 1e-2}, {"random_state": 9}, {"starts": "kmeans"}]
        for change in changes:
            with pytest.raises(InputError, match="other data or other settings; remove the folder, or give another"):
                several(**change).fit(wells.frames, checkpoint=tmp_path)
        other = wells.frames.copy()
        other[17, 0] += 1e-9
        with pytest.raises(InputError, match="other data or other settings"):
            several().fit(other, checkpoint=tmp_path)
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == kept

    @pytest.mark.parametrize("random_state", [None, np.random.default_rng(0)])
    def test_random_numbers_that_do_not_come_again(self, wells, tmp_path, random_state):
        with pytest.raises(InputError, match=r"random_state=.* give a whole number"):
            several(random_state=random_state).fit(wells.frames, checkpoint=tmp_path / "fit")
        assert not (tmp_path / "fit").exists()

    def test_no_folder(self, wells, tmp_path):
        file = tmp_path / "file"
        file.write_text("mine")
        with pytest.raises(InputError, match="is a file; give the path of a folder"):
            several().fit(wells.frames, checkpoint=file)
        with pytest.raises(InputError, match="checkpoint=3 is no name of a file; give a non-empty"):
            several().fit(wells.frames, checkpoint=3)
        assert file.read_text() == "mine"

    @pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", None])
    def test_a_damaged_step(self, wells, tmp_path, damage):
        several().fit(wells.frames, checkpoint=tmp_path)
        for path in tmp_path.iterdir():
            path.write_bytes(path.read_bytes()[:-100] if damage is None else damage)
        with pytest.raises(ModelFileError, match=r"\.step is no checkpoint of a fit: .*; remove it"):
            several().fit(wells.frames, checkpoint=tmp_path)

    def test_a_model_is_no_step(self, wells, tmp_path):
        several().fit_fetch(wells.frames).save(tmp_path / "model.step")
        with pytest.raises(ModelFileError, match="it holds a 'M3CModel'"):
            several().fit(wells.frames, checkpoint=tmp_path)


def test_other_estimators_and_processes(wells, tmp_path):
    maker = MMC(3, bandwidth=(0.7, 1.0), starts=("kmeans",), random_state=0)
    expected = maker.fit_fetch(wells.frames)
    assert_same(maker.fit_fetch(wells.frames, checkpoint=tmp_path / "a b" / "ü"), expected, wells.frames)
    assert_same(maker.fit_fetch(wells.frames, checkpoint=str(tmp_path / "a b" / "ü")), expected, wells.frames)
    both = several(n_jobs=2).fit_fetch(wells.frames, checkpoint=tmp_path / "two")
    assert_same(both, several().fit_fetch(wells.frames), wells.frames)
    assert len(list((tmp_path / "two").iterdir())) == len(list(Path(tmp_path / "two").glob("*.step"))) > 3
