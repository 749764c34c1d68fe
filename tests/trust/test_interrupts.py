"""Ctrl-C, as a terminal sends it: to the whole group of processes, in the midst of a fit, a comparison, or reading.

Commands end with code 130 and one line, calls with a KeyboardInterrupt; objects stay as they were, files are complete
or absent, and a checkpoint takes up the work.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import m3c_md
from m3c_md import M3C, compare, load_model
from m3c_md.cli import main
from m3c_md.workers import deaf_workers, interrupts_later
from tests.conftest import hidden_markov_wells, quick
from tests.features import random_trajectory, topology_of

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals")

PATIENCE = 120.0
N_FILES = 300
# A shell that starts the tests in the background has them, and all that they start, ignore Ctrl-C.
HEAR = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
COMMAND = "import sys\nfrom m3c_md.cli import main\nif __name__ == '__main__':\n    sys.exit(main(sys.argv[1:]))"


def names_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


class Running:
    """A Python program in a process group of its own, which is stopped as often as wanted."""

    def __init__(self, program: str, *arguments: object, log: Path) -> None:
        self.log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-c", HEAR + program, *map(str, arguments)],
                cwd=Path(m3c_md.__file__).parents[1],
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_until(self, ready: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                pytest.fail(self.said)
            time.sleep(0.002)

    def ctrl_c(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> int:
        """Exit code; nothing of the group is left."""
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.kill()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def last_line(said: str) -> str:
    """What a command says at its end; progress bars rewrite their line."""
    return said.replace("\r", "\n").splitlines()[-1]


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("arrays")
    for seed in range(2):
        np.save(folder / f"x{seed}.npy", hidden_markov_wells(4000, 3, seed).frames)
    return [str(folder / f"x{seed}.npy") for seed in range(2)]


@pytest.fixture(scope="module")
def molecule(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """A topology, a short trajectory, and many more, which take seconds to read."""
    folder = tmp_path_factory.mktemp("molecule")
    topology = topology_of(["ACE", *["ALA"] * 5, "NME"])
    short = random_trajectory(topology, 200)
    short[0].save(str(folder / "top.pdb"))
    short.save(str(folder / "a.xtc"))
    piece = (folder / "a.xtc").read_bytes()  # files of this format may be joined end to end
    (folder / "b0.xtc").write_bytes(50 * piece)
    for number in range(1, N_FILES - 1):
        os.link(folder / "b0.xtc", folder / f"b{number}.xtc")
    return str(folder / "top.pdb"), [str(path) for path in sorted(folder.glob("*.xtc"))]


class TestCommands:
    def test_fit(self, arrays: list[str], tmp_path: Path) -> None:
        out, steps = tmp_path / "out", tmp_path / "steps"
        given = ["fit", *arrays, "--n-states", "3", "--out", str(out), "--checkpoint", str(steps)]
        running = Running(COMMAND, *given, log=tmp_path / "log")
        running.wait_until(lambda: list(steps.glob("[!.]*.step")))
        running.ctrl_c()
        assert running.end() == 130
        said = running.said
        assert last_line(said) == f"m3c-md: interrupted; nothing was written; the same command goes on from {steps}"
        assert "Traceback" not in said
        assert not out.exists()
        assert {path.suffix for path in steps.iterdir()} == {".step"}
        before = {path: path.stat().st_mtime_ns for path in steps.iterdir()}
        assert main(given) == 0
        assert {path: path.stat().st_mtime_ns for path in before} == before
        trajs = [np.load(path) for path in arrays]
        expected = M3C(3, random_state=0).fit_fetch(trajs).decision_function(trajs)
        for ours, theirs in zip(load_model(out / "model.m3c").decision_function(trajs), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)

    def test_compare(self, arrays: list[str], tmp_path: Path) -> None:
        """With other processes at work, which get the signal as well."""
        out, fits = tmp_path / "out", tmp_path / "fits"
        given = ["compare", *arrays, "--n-states", "3", "--methods", "k-medoids", "m3c", "pcca+", "--microstates", "20"]
        given += ["--out", str(out), "--checkpoint", str(fits)]
        running = Running(COMMAND, *given, log=tmp_path / "log")
        running.wait_until(lambda: list(fits.glob("[!.]*.json")))
        running.ctrl_c()
        assert running.end() == 130
        said = running.said
        assert last_line(said) == f"m3c-md: interrupted; nothing was written; the same command goes on from {fits}"
        assert "KeyboardInterrupt" not in said  # of a worker: they do not hear the signal
        assert not out.exists()
        assert {path.suffix for path in fits.iterdir()} <= {".json", ".m3c"}
        kept = len(list(fits.glob("*.json")))
        assert 1 <= kept < 9
        trajs = [np.load(path) for path in arrays]
        options = {"methods": ("k-medoids",), "random_state": 0, "n_jobs": 1}
        # A call with the same data and seed knows the fits that the command has finished.
        again = compare(trajs, 3, checkpoint=fits, **options)
        assert again.table.equals(compare(trajs, 3, checkpoint=fits, **options).table)
        assert len(list(fits.glob("*.json"))) >= kept

    def test_reading(self, molecule: tuple[str, list[str]], tmp_path: Path) -> None:
        top, files = molecule
        out = tmp_path / "out"
        given = ["fit", *files, "--top", top, "--n-states", "2", "--jobs", "1", "--out", str(out)]
        running = Running(COMMAND, *given, log=tmp_path / "log")
        running.wait_until(lambda: f"reading {N_FILES} files" in running.said)
        running.ctrl_c()
        assert running.end() == 130
        assert last_line(running.said) == "m3c-md: interrupted; nothing was written"
        assert "Traceback" not in running.said
        assert names_in(tmp_path) == ["log"]

    def test_before_anything_has_begun(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted() -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("m3c_md.cli._parser", interrupted)
        assert main(["demo"]) == 130
        assert capsys.readouterr().err == "m3c-md: interrupted; files already written are complete\n"


# Three calls in turn, each of them interrupted once.
CALLS = """
import pathlib, sys
import numpy as np
from m3c_md import M3C, DihedralFeaturizer, compare

if __name__ == "__main__":
    top, short, *others = sys.argv[2:]
    arrays, long = others[-2:], others[:-2]
    home = pathlib.Path(sys.argv[1])
    trajs = [np.load(path) for path in arrays]

    estimator = M3C(3, random_state=0, bandwidth=1.0, starts=("kmeans",))
    try:
        M3C(2, random_state=0).fit(trajs, checkpoint=home / "nothing")
    except KeyboardInterrupt:
        print("first fit")
    before = estimator.fit(trajs[0][:300]).fetch_model()
    estimator.set_params(bandwidth="auto", starts=("kinetic", "lumping", "kmeans"))
    try:
        estimator.fit(trajs, checkpoint=home / "fit")
    except KeyboardInterrupt:
        print("fit", estimator.fetch_model() is before)
    try:
        compare(trajs, 3, methods=("k-medoids", "m3c"), random_state=0, checkpoint=home / "compare", n_jobs=2)
    except KeyboardInterrupt:
        print("compare")
    featurizer = DihedralFeaturizer()
    featurizer.load(short, top, cache=home / "cache")
    known = featurizer.describe()
    (home / "reading").touch()
    try:
        featurizer.load([short, *long], top, cache=home / "cache", n_jobs=1)
    except KeyboardInterrupt:
        again = featurizer.load(short, top, cache=home / "cache")
        print("load", list(featurizer.describe()) == list(known), len(again[0]))
    sys.exit(7)
"""


def test_calls(arrays: list[str], molecule: tuple[str, list[str]], tmp_path: Path) -> None:
    top, files = molecule
    running = Running(CALLS, tmp_path, top, *files, *arrays, log=tmp_path / "log")
    for folder, pattern in (("nothing", "[!.]*.step"), ("fit", "[!.]*.step"), ("compare", "[!.]*.json")):
        running.wait_until(lambda folder=folder, pattern=pattern: list((tmp_path / folder).glob(pattern)))
        running.ctrl_c()
    running.wait_until((tmp_path / "reading").exists)
    time.sleep(0.2)
    running.ctrl_c()
    assert running.end() == 7, running.said
    lines = [line for line in running.said.splitlines() if line.startswith(("first fit", "fit ", "compare", "load "))]
    assert lines == ["first fit", "fit True", "compare", "load True 200"], running.said
    for folder, endings in (("nothing", {".step"}), ("fit", {".step"}), ("compare", {".json", ".m3c"})):
        assert {path.suffix for path in (tmp_path / folder).iterdir()} <= endings
    assert 1 <= len(names_in(tmp_path / "cache")) < N_FILES
    assert not [name for name in names_in(tmp_path / "cache") if ".part" in name]
    # The steps that were finished serve the same fit, which ends as if nothing had happened.
    trajs = [np.load(path) for path in arrays]
    options = {"random_state": 0, "bandwidth": "auto", "starts": ("kinetic", "lumping", "kmeans")}
    model = M3C(3, **options).fit(trajs, checkpoint=tmp_path / "fit").fetch_model()
    expected = M3C(3, **options).fit_fetch(trajs)
    assert model.candidates.equals(expected.candidates)
    for ours, theirs in zip(model.decision_function(trajs), expected.decision_function(trajs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_step_that_was_half_written_is_none(arrays: list[str], tmp_path: Path) -> None:
    """A process that is killed outright leaves the file that it was writing, under its temporary name."""
    frames = np.load(arrays[0])[:300]
    expected = quick(3).fit(frames, checkpoint=tmp_path / "whole").fetch_model()
    steps = sorted((tmp_path / "whole").iterdir())
    (tmp_path / "half").mkdir()
    half = tmp_path / "half" / f".{'0' * 32}.part{steps[0].suffix}"
    half.write_bytes(steps[0].read_bytes()[:500])
    model = quick(3).fit(frames, checkpoint=tmp_path / "half").fetch_model()
    np.testing.assert_array_equal(model.decision_function(frames), expected.decision_function(frames))
    assert {path.name for path in (tmp_path / "half").iterdir()} == {half.name, *(path.name for path in steps)}


def test_a_command_whose_workers_die_says_so_in_one_line(
    arrays: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    def die(*arguments: object, **options: object) -> None:
        raise TerminatedWorkerError("killed by the system, the exit codes are SIGKILL(-9)")

    monkeypatch.setattr("m3c_md.clustering.m3c.M3C.fit_fetch", die)
    assert main(["fit", arrays[0], "--n-states", "2", "--out", str(tmp_path / "out")]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("m3c-md: a worker process died (killed by the system, the exit codes are SIGKILL(-9)); use")
    assert names_in(tmp_path) == []


class TestWorkers:
    """Ctrl-C is for the process that the user talks to; the others are ended by it, not in the midst of an answer."""

    def test_they_are_deaf(self) -> None:
        program = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
        with deaf_workers():
            child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert child.stdout == "True\n"
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])

    def test_workers_of_joblib_are_deaf(self, tmp_path: Path) -> None:
        """In a new process, since the first worker of all is the one that once heard."""
        program = (
            "import signal\n"
            "from joblib import Parallel, delayed\n"
            "from m3c_md.workers import deaf_workers\n"
            "if __name__ == '__main__':\n"
            "    with deaf_workers():\n"
            "        asked = [delayed(signal.pthread_sigmask)(signal.SIG_BLOCK, [])] * 4\n"
            "        masks = Parallel(2, return_as='generator')(asked)\n"
            "    print(all(signal.SIGINT in mask for mask in masks))\n"
        )
        (tmp_path / "program.py").write_text(program)
        child = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True, check=True)
        assert child.stdout == "True\n"

    @pytest.fixture
    def hearing(self) -> Iterator[None]:
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
        signal.signal(signal.SIGINT, before)

    @pytest.mark.usefixtures("hearing")
    def test_no_signal_is_lost(self) -> None:
        reached = []

        def interrupted() -> None:
            with deaf_workers():
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                reached.append("the end of the block")

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert reached
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])

    def test_threads_hear_nothing_anyway(self) -> None:
        def look() -> None:
            with deaf_workers():
                seen.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))

        seen: list[set[signal.Signals]] = []
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert seen == [set()]

    @pytest.mark.usefixtures("hearing")
    def test_they_can_wait_for_the_end_of_a_block(self) -> None:
        reached = []

        def interrupted() -> None:
            with interrupts_later():
                for _ in range(2):
                    signal.raise_signal(signal.SIGINT)
                reached.append("the end of the block")
            reached.append("what comes later")

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert reached == ["the end of the block"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_whoever_ignores_them_still_does(self) -> None:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with interrupts_later():
                assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
                signal.raise_signal(signal.SIGINT)
        finally:
            signal.signal(signal.SIGINT, before)
