"""The demonstration does its job, and refuses without doing damage; usage and exit codes."""

from __future__ import annotations

import numpy as np
import pytest

from m3c_md import cli
from m3c_md.cli.demo import DEMO_FILES
from m3c_md.exceptions import DegenerateSolutionError
from m3c_md.systems import MODEL_I, simulate


@pytest.fixture
def quick_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the demo's data: enough to find the three states, ten times as fast."""

    def shorter(model, rng):
        return simulate(model, rng, duration=8.0, step=1e-3)

    monkeypatch.setattr("m3c_md.systems.simulate", shorter)


@pytest.mark.usefixtures("quick_simulation")
@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")
def test_demo_writes_what_it_says(tmp_path, capsys):
    out = tmp_path / "my demo ü"
    assert cli.main(["demo", "--out", str(out), "--seed", "3"]) == 0
    assert sorted(path.name for path in out.iterdir()) == sorted(DEMO_FILES)
    labels = np.load(out / "labels.npy")
    assert labels.shape == (MODEL_I.n_trajectories, 41)
    assert set(np.unique(labels)) == {0, 1, 2}
    assert (out / "decomposition.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    said = capsys.readouterr()
    assert str(out / "decomposition.png") in said.out
    assert "M3C found 3 states in 410 frames" in said.out
    assert "100%" in said.err  # the progress bar


def test_existing_files_are_kept(tmp_path, capsys):
    (tmp_path / "labels.npy").write_text("precious")
    assert cli.main(["demo", "--out", str(tmp_path)]) == 2
    assert "--force" in capsys.readouterr().err
    assert (tmp_path / "labels.npy").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["labels.npy"]


def test_interrupt_is_reported_and_leaves_nothing(tmp_path, capsys, monkeypatch):
    def interrupted(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr("m3c_md.systems.simulate", interrupted)
    assert cli.main(["demo", "--out", str(tmp_path / "new")]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert list((tmp_path / "new").iterdir()) == []


def test_no_solution_is_reported_without_a_traceback(tmp_path, capsys, monkeypatch):
    def lost(*_args, **_options):
        raise DegenerateSolutionError("state 2 has 0.00% of the frames")

    monkeypatch.setattr("m3c_md.systems.simulate", lambda *_args: [np.zeros((2, 2))])
    monkeypatch.setattr("m3c_md.M3C.fit_fetch", lost)
    assert cli.main(["demo", "--out", str(tmp_path / "new")]) == 1
    assert "m3c-md: state 2 has" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code"), [([], 2), (["fly"], 2), (["demo", "--seed", "x"], 2), (["--version"], 0)]
)
def test_usage(arguments, code, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == code
    said = capsys.readouterr()
    assert ("usage: m3c-md" in said.err) == (code == 2)
