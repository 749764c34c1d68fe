"""``m3c-md simulate`` runs, goes on after a stop, and says in one line what is wrong and what to do."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import m3c_md
from m3c_md import DihedralFeaturizer
from m3c_md.cli import main
from m3c_md.cli.simulate import MOLECULES, STARTS
from m3c_md.data import read_run
from m3c_md.data import simulate as runs
from m3c_md.data.dynamics import DEFAULT_N_TRAJECTORIES, DEFAULTS, Settings, current_point
from m3c_md.data.peptides import START_ANGLES
from m3c_md.data.simulate import parts_path, read_settings
from tests.data.test_simulate import TINY, at_call, contents, stop, use_stand_ins


@pytest.fixture
def tiny(monkeypatch) -> None:
    """Trajectories of a few frames and steps."""
    monkeypatch.setitem(DEFAULTS, "alanine-dipeptide", TINY)
    monkeypatch.setitem(DEFAULT_N_TRAJECTORIES, "alanine-dipeptide", 3)


@pytest.fixture
def stand_ins(tiny, monkeypatch) -> None:
    """No physics, and no need of OpenMM: the command only looks whether it is there."""
    use_stand_ins(monkeypatch)
    monkeypatch.setitem(sys.modules, "openmm", ModuleType("openmm"))


@pytest.fixture(params=["stand-in", "OpenMM"])
def physics(request) -> None:
    if request.param == "OpenMM":
        pytest.importorskip("openmm")
        request.getfixturevalue("tiny")
    else:
        request.getfixturevalue("stand_ins")


def simulate(out: Path, *options: str) -> int:
    return main(["simulate", "alanine-dipeptide", "--out", str(out), *options])


def last_error(capsys) -> str:
    """The only line of complaint, below whatever a progress bar has drawn."""
    said = capsys.readouterr().err
    assert "Traceback" not in said
    last: str = said.splitlines()[-1]
    assert last.startswith("m3c-md: ")
    return last


@pytest.mark.usefixtures("physics")
class TestRun:
    def test_it_makes_what_it_says(self, tmp_path, capsys):
        assert simulate(tmp_path / "my run", "--n-trajectories", "2") == 0
        run = read_run(tmp_path / "my run")
        assert [len(x) for x in run.angles] == [7, 7]
        said = capsys.readouterr()
        assert f"{tmp_path / 'my run'}: {run}" in said.out
        assert f"--top {run.topology_file}" in said.out  # how to go on
        assert "14/14" in said.err  # the progress bar

    def test_after_ctrl_c_the_same_command_goes_on_to_the_same_bytes(self, tmp_path, capsys, monkeypatch):
        assert simulate(tmp_path / "whole") == 0
        with monkeypatch.context() as patch:
            patch.setattr(runs, "run_chunk", at_call(4, runs.run_chunk, stop))
            assert simulate(tmp_path / "stopped") == 130
        message = last_error(capsys)
        assert "interrupted" in message
        assert str(tmp_path / "stopped") in message
        assert "the same command goes on" in message
        assert simulate(tmp_path / "stopped") == 0
        assert " 10/21 " in capsys.readouterr().err  # the progress bar starts there
        assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")

    def test_json_is_one_object_and_all_else_goes_to_standard_error(self, tmp_path, capsys):
        options = ["--n-trajectories", "2", "--n-frames", "4", "--temperature", "400", "--seed", "9", "--json"]
        assert simulate(tmp_path / "new", *options, "--starts", "helix") == 0
        said = capsys.readouterr()
        result = json.loads(said.out)
        settings = read_settings(tmp_path / "new")
        assert settings == dataclasses.replace(TINY, n_frames=4, temperature=400.0, seed=9, starts=("helix",))
        assert result["settings"] == {**dataclasses.asdict(settings), "starts": ["helix"]}
        assert (result["command"], result["molecule"]) == ("simulate", "alanine-dipeptide")
        assert (result["n_trajectories"], result["n_frames"]) == (2, 8)
        assert (result["dt"], result["unit"]) == (pytest.approx(TINY.spacing), "ps")
        assert result["out"] == str(tmp_path / "new")
        assert "2 trajectories, 8 frames" in said.err

    def test_its_files_are_those_that_fit_reads(self, tmp_path, capsys):
        assert simulate(tmp_path, "--n-trajectories", "2") == 0
        features = DihedralFeaturizer().load(str(tmp_path / "traj_*.xtc"), tmp_path / "topology.pdb")
        for ours, theirs in zip(read_run(tmp_path).features, features, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.usefixtures("stand_ins")
class TestGoingOn:
    def test_a_finished_run_does_nothing(self, tmp_path, capsys, monkeypatch):
        assert simulate(tmp_path) == 0
        before = contents(tmp_path)
        monkeypatch.setattr(runs, "advance", stop)
        assert simulate(tmp_path) == 0
        assert contents(tmp_path) == before

    def test_more_trajectories(self, tmp_path, capsys):
        assert simulate(tmp_path, "--n-trajectories", "1") == 0
        assert simulate(tmp_path) == 0
        assert len(read_run(tmp_path).angles) == 3

    def test_fewer_trajectories_than_there_are_do_not_confuse_the_json(self, tmp_path, capsys):
        assert simulate(tmp_path) == 0
        capsys.readouterr()
        assert simulate(tmp_path, "--n-trajectories", "2", "--json") == 0
        result = json.loads(capsys.readouterr().out)
        assert result["n_frames"] == result["n_trajectories"] * TINY.n_frames

    @pytest.mark.parametrize(
        ("option", "name"),
        [
            (["--temperature", "300"], "temperature"),
            (["--n-frames", "8"], "n_frames"),
            (["--starts", "helix", "coil"], "starts"),
            (["--seed", "0"], "seed"),
        ],
    )
    def test_other_settings_are_refused_by_name(self, option, name, tmp_path, capsys):
        assert simulate(tmp_path, "--n-trajectories", "1") == 0
        before = contents(tmp_path)
        capsys.readouterr()
        assert simulate(tmp_path, "--n-trajectories", "1", *option) == 2
        message = last_error(capsys)
        assert f"'{name}'" in message
        assert "--out" in message
        assert contents(tmp_path) == before

    def test_another_molecule_is_refused(self, tmp_path, capsys):
        assert simulate(tmp_path, "--n-trajectories", "1") == 0
        assert main(["simulate", "deca-alanine", "--out", str(tmp_path)]) == 2
        assert "'deca-alanine'" in last_error(capsys)


class TestWithoutOpenMM:
    def test_the_message_names_the_remedy_and_nothing_is_written(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "openmm", None)
        assert simulate(tmp_path / "new") == 2
        message = last_error(capsys)
        assert "OpenMM" in message
        assert 'pip install "m3c_md[simulate]"' in message
        assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("stand_ins")
class TestTrouble:
    def test_a_folder_with_letters_beyond_ascii_is_no_trouble(self, tmp_path, capsys):
        """It is for mdtraj's XTC files."""
        assert simulate(tmp_path / "Jürgen", "--n-trajectories", "1") == 0
        assert len(read_run(tmp_path / "Jürgen").angles) == 1

    def test_a_file_in_place_of_the_folder(self, tmp_path, capsys):
        (tmp_path / "file").write_text("precious")
        for out in (tmp_path / "file", tmp_path / "file" / "below"):
            assert simulate(out) == 2
            assert str(tmp_path / "file") in last_error(capsys)
        assert (tmp_path / "file").read_text() == "precious"

    def test_a_simulation_that_blows_up_is_told_in_one_line(self, tmp_path, capsys, monkeypatch):
        nowhere = SimpleNamespace(_value=np.full((22, 3), np.nan))
        state = SimpleNamespace(getPositions=lambda **_: nowhere, getVelocities=lambda **_: nowhere)
        context = SimpleNamespace(getState=lambda **_: state)
        monkeypatch.setattr(runs, "run_chunk", lambda *_: current_point(context))
        assert simulate(tmp_path / "new") in (1, 2)
        assert "lower the temperature" in last_error(capsys)

    def test_a_lost_chunk_is_told_in_one_line(self, tmp_path, capsys, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(runs, "run_chunk", at_call(2, runs.run_chunk, stop))
            assert simulate(tmp_path) == 130
        (parts_path(tmp_path, 0) / "00000.xtc").unlink()
        assert simulate(tmp_path) in (1, 2)
        assert f"{parts_path(tmp_path, 0)} holds 4 frames, not 7; remove it" in last_error(capsys)

    @pytest.mark.parametrize("call", range(0, 12, 2))
    def test_a_full_disk_leaves_no_half_file_and_the_same_command_goes_on(self, call, tmp_path, capsys, monkeypatch):
        """At any of the files that a run writes."""

        def full(*_arguments: Any) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "some temporary name")

        assert simulate(tmp_path / "whole", "--n-trajectories", "1") == 0
        whole = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
        out = tmp_path / "out"
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", at_call(call, Path.replace, full))
            code = simulate(out, "--n-trajectories", "1")
        if code:
            assert code == 2
            assert "was not written (No space left on device): '" in last_error(capsys)
            assert not [path for path in out.rglob("*") if "writing" in path.name]
            assert simulate(out, "--n-trajectories", "1") == 0
        assert {path.name: path.read_bytes() for path in out.iterdir()} == whole

    @pytest.mark.parametrize("text", ['{"editor.fontSize": 12}', '{"molecule": '])
    def test_a_settings_file_of_somebody_else_is_named_in_one_line(self, text, tmp_path, capsys):
        (tmp_path / "settings.json").write_text(text)
        assert simulate(tmp_path) == 2
        assert str(tmp_path / "settings.json") in last_error(capsys)
        assert (tmp_path / "settings.json").read_text() == text


def test_a_molecule_that_is_too_hot_is_told_in_one_line(tmp_path, capsys, monkeypatch):
    pytest.importorskip("openmm")
    monkeypatch.setitem(DEFAULTS, "alanine-dipeptide", dataclasses.replace(TINY, steps_per_frame=50))
    assert simulate(tmp_path, "--temperature", "1e5", "--n-frames", "60") in (1, 2)
    assert "lower the temperature" in last_error(capsys)


@pytest.mark.parametrize("molecule", MOLECULES)
def test_without_options_it_makes_what_the_package_ships(molecule, tmp_path, monkeypatch, capsys):
    asked: list[tuple[Settings, int, Path, dict[str, Any]]] = []

    def remember(settings: Settings, n_trajectories: int, folder: Path, **options: Any) -> None:
        asked.append((settings, n_trajectories, folder, options))
        raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "openmm", ModuleType("openmm"))
    monkeypatch.setattr(runs, "simulate", remember)
    assert main(["simulate", molecule, "--out", str(tmp_path)]) == 130
    assert main(["simulate", molecule, "--out", str(tmp_path), "--jobs", "2"]) == 130
    assert [call[:3] for call in asked] == 2 * [(DEFAULTS[molecule], DEFAULT_N_TRAJECTORIES[molecule], tmp_path)]
    assert [call[3]["n_jobs"] for call in asked] == [1, 2]


class TestUsage:
    def test_molecules_and_starts_are_those_that_there_are(self):
        assert set(MOLECULES) == set(DEFAULTS)
        assert set(STARTS) == set(START_ANGLES)

    @pytest.mark.parametrize(
        ("given", "complaint"),
        [
            ([], "MOLECULE"),
            (["water", "--out", "OUT"], "water"),
            (["alanine-dipeptide"], "--out"),
            (["alanine-dipeptide", "--out", "OUT", "--n-trajectories", "0"], "'0' must be"),
            (["alanine-dipeptide", "--out", "OUT", "--n-frames", "1.5"], "'1.5' must be"),
            (["alanine-dipeptide", "--out", "OUT", "--temperature", "-3"], "'-3' must be"),
            (["alanine-dipeptide", "--out", "OUT", "--temperature", "nan"], "'nan' must be"),
            (["alanine-dipeptide", "--out", "OUT", "--starts", "sheet"], "sheet"),
            (["alanine-dipeptide", "--out", "OUT", "--seed", "-1"], "'-1' must be"),
            (["alanine-dipeptide", "--out", "OUT", "--jobs", "0"], "'0' must be"),
        ],
    )
    def test_bad_arguments(self, given, complaint, tmp_path, capsys):
        out = str(tmp_path / "new")
        with pytest.raises(SystemExit) as caught:
            main(["simulate", *(out if word == "OUT" else word for word in given)])
        assert caught.value.code == 2
        said = capsys.readouterr().err
        assert "usage: m3c-md simulate" in said
        assert complaint in said.splitlines()[-1]
        assert not (tmp_path / "new").exists()

    def test_help_has_examples(self, capsys):
        with pytest.raises(SystemExit) as caught:
            main(["simulate", "--help"])
        assert caught.value.code == 0
        assert "examples:\n  m3c-md simulate " in capsys.readouterr().out


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_ctrl_c_in_a_terminal_ends_all_processes_without_a_traceback(tmp_path):
    """A terminal sends the signal to the whole group: to the command and to its workers."""
    pytest.importorskip("openmm")
    program = (
        # Tests that a shell started in the background ignore the signal.
        "import sys, dataclasses, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from m3c_md.cli import main\nfrom m3c_md.data.dynamics import DEFAULTS\n"
        "if __name__ == '__main__':\n"
        "    DEFAULTS['alanine-dipeptide'] = dataclasses.replace(\n"
        "        DEFAULTS['alanine-dipeptide'], equilibration_frames=1, chunk_frames=2, steps_per_frame=50)\n"
        "    sys.exit(main(sys.argv[1:]))"
    )
    out = tmp_path / "run"
    running = subprocess.Popen(
        [sys.executable, "-c", program, "simulate", "alanine-dipeptide", "--out", str(out), "--jobs", "2"],
        cwd=Path(m3c_md.__file__).parents[1],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 60.0
        while not all(list(parts_path(out, i).glob("[0-9]*.xtc")) for i in range(2)):
            assert running.poll() is None, running.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGINT)
        said = running.communicate(timeout=30.0)[1]
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
    assert running.returncode == 130
    assert "Traceback" not in said
    assert (
        said.splitlines()[-1]
        == f"m3c-md: interrupted; {out} is complete up to the last chunk; the same command goes on"
    )
