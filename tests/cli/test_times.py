"""Times on the command line: what files say, lag times with a unit, and words where neither is there."""

from __future__ import annotations

import argparse
import json

import mdtraj as md
import numpy as np
import pytest

from m3c_md.cli import main
from m3c_md.cli.study import state_numbers
from m3c_md.cli.times import Time, lag_time, step_of_file, time_lines, time_step
from m3c_md.exceptions import InputError
from tests.features import random_trajectory, topology_of


def saved(path, times):
    """A trajectory of a dipeptide whose frames have these times in ps."""
    trajectory = random_trajectory(topology_of(["ACE", "ALA", "NME"]), len(times))
    trajectory.time = np.asarray(times, dtype=np.float32)
    trajectory.save(str(path))
    return path


def options(*files, **given):
    usual = {"dt": None, "unit": None, "lag": 1, "stride": 1}
    return argparse.Namespace(files=[str(path) for path in files], **{**usual, **given})


class TestStepOfFile:
    @pytest.mark.parametrize("ending", ["xtc", "trr"])
    def test_is_that_of_the_file(self, ending, tmp_path):
        assert step_of_file(saved(tmp_path / f"run.{ending}", np.arange(12) * 20.0 + 7.0)) == pytest.approx(20.0)

    def test_is_known_late_in_a_long_run(self, tmp_path):
        assert step_of_file(saved(tmp_path / "run.xtc", 1e6 + np.arange(12) * 10.0)) == pytest.approx(10.0)

    @pytest.mark.parametrize("times", [[0.0], [0.0, 0.0, 0.0], [5.0, 3.0, 1.0], [0.0, 1.0, 5.0, 6.0]])
    def test_is_unknown_where_times_say_none(self, times, tmp_path):
        assert step_of_file(saved(tmp_path / "run.xtc", times)) is None

    def test_numbers_of_frames_are_no_times(self, tmp_path):
        assert step_of_file(saved(tmp_path / "run.dcd", np.arange(5) * 20.0)) is None

    def test_damage_is_told_by_others(self, tmp_path):
        (tmp_path / "run.xtc").write_bytes(b"nothing")
        assert step_of_file(tmp_path / "run.xtc") is None


class TestTimeStep:
    def test_files_say_it_where_nobody_else_does(self, tmp_path):
        given = options(saved(tmp_path / "run.xtc", np.arange(5) * 20.0), stride=3)
        assert time_step(given) == (60.0, "ps")
        assert time_step(given) == (60.0, "ps")  # and says so again
        assert time_lines(given) == ["  time between frames of the files: 20 ps, as run.xtc says (--dt gives another)"]

    def test_long_steps_are_in_nanoseconds_and_the_unit_may_be_asked_for(self, tmp_path):
        path = saved(tmp_path / "run.xtc", np.arange(5) * 500.0)
        assert time_step(options(path)) == (0.5, "ns")
        assert time_step(options(path, unit="ps")) == (500.0, "ps")
        assert time_step(options(path, lag=Time(1.5e6, "fs"))) == (5e5, "fs")

    def test_the_user_knows_better(self, tmp_path):
        given = options(saved(tmp_path / "run.xtc", np.arange(5) * 20.0), dt=3.0)
        assert time_step(given) == (3.0, "ps")
        assert time_lines(given) == []

    def test_files_that_disagree_or_are_silent_leave_frames(self, tmp_path):
        first = saved(tmp_path / "a.xtc", np.arange(5) * 20.0)
        assert time_step(options(first, saved(tmp_path / "b.xtc", np.arange(5) * 10.0))) == (1.0, "frame")
        assert time_step(options(first, saved(tmp_path / "c.dcd", np.arange(5) * 20.0))) == (1.0, "frame")
        with pytest.raises(InputError, match="--unit ns says nothing without --dt"):
            time_step(options(tmp_path / "c.dcd", unit="ns"))


class TestLagTime:
    @pytest.mark.parametrize(("text", "wanted"), [("7", 7), ("0.5ns", Time(0.5, "ns")), (".2 us", Time(0.2, "us"))])
    def test_frames_or_a_time(self, text, wanted):
        assert lag_time(text) == wanted

    @pytest.mark.parametrize("text", ["0", "0.5", "-1", "ns", "5 steps", "0ns", "nan", "inf", "1e3", ""])
    def test_anything_else_is_told_in_frames(self, text):
        with pytest.raises(argparse.ArgumentTypeError, match=r"whole number of frames .* or a time .* such as 0.5ns"):
            lag_time(text)

    def test_a_time_becomes_frames(self, tmp_path):
        given = options(saved(tmp_path / "run.xtc", np.arange(5) * 500.0), lag=Time(3.0, "ns"), stride=2)
        assert time_step(given) == (1.0, "ns")
        assert given.lag == 3

    def test_a_part_of_a_frame_is_refused(self, tmp_path):
        given = options(saved(tmp_path / "run.xtc", np.arange(5) * 500.0), lag=Time(0.7, "ns"))
        with pytest.raises(InputError, match=r"--lag 0.7ns is 1.4 frames of 0.5 ns; give a multiple"):
            time_step(given)

    def test_a_time_without_a_step_is_refused(self, tmp_path):
        np.save(tmp_path / "x.npy", np.zeros((5, 1)))
        with pytest.raises(InputError, match="--lag 1ns is a time, but the time between frames is not known"):
            time_step(options(tmp_path / "x.npy", lag=Time(1.0, "ns")))


@pytest.mark.parametrize("text", ["1", "1-3", "4-2", "2-", "-4", "2-4-6", "two", "2.5"])
def test_numbers_of_states(text):
    assert state_numbers("2-4") == [2, 3, 4]
    if text == "2-":
        assert state_numbers(text) == [2]
        return
    with pytest.raises(argparse.ArgumentTypeError, match="a range such as 2-4"):
        state_numbers(text)


def test_fit_uses_the_time_of_the_files_and_says_so(molecule, tmp_path, capsys):
    trajectory = md.load(str(molecule.files[0]), top=str(molecule.top))
    trajectory.time = np.arange(len(trajectory), dtype=np.float32) * 4.0
    trajectory.save(str(tmp_path / "timed.xtc"))
    command = ["fit", str(tmp_path / "timed.xtc"), "--top", str(molecule.top), "--n-states", "2", "--lag", "0.008ns"]
    assert main([*command, "--structures", "0", "--json", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert (result["lag_time"], result["unit"]) == (pytest.approx(0.008), "ns")
    assert "time between frames of the files: 0.004 ns, as timed.xtc says" in said.err
    assert "looking for 2 states at lag time 0.008 ns" in said.err
    assert "as timed.xtc says" in (tmp_path / "out" / "report.txt").read_text()
