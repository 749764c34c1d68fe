"""Names and paths on the command line: a renamed model in reports and file names, ``m3c-md kinetics --paths``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mdtraj as md
import numpy as np
import pandas as pd
import pytest

from m3c_md import load_model, transition_paths
from m3c_md.cli import main
from tests.cli.conftest import Molecule


@pytest.fixture(scope="module")
def named(fitted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a fit whose states were renamed."""
    folder = tmp_path_factory.mktemp("named")
    load_model(fitted / "model.m3c").rename(["curled up", "long"]).save(folder / "model.m3c")
    shutil.copy(fitted / "features.json", folder)
    return folder


def arguments(folder: Path, molecule: Molecule) -> list[str]:
    return [str(folder / "model.m3c"), *map(str, molecule.files), "--top", str(molecule.top)]


def test_a_report_of_transform_has_names(named: Path, molecule: Molecule, tmp_path: Path) -> None:
    assert main(["transform", *arguments(named, molecule), "--out", str(tmp_path / "out")]) == 0
    report = (tmp_path / "out" / "report.txt").read_text()
    assert "  curled up: " in report
    assert "state 0" not in report


class TestPaths:
    @pytest.fixture(scope="class")
    @staticmethod
    def out(named: Path, molecule: Molecule, tmp_path_factory: pytest.TempPathFactory) -> Path:
        out = tmp_path_factory.mktemp("paths") / "out"
        options = ["--paths", "curled up", "1", "--dt", "5", "--out", str(out)]
        assert main(["kinetics", *arguments(named, molecule), *options]) == 0
        return out

    def test_tables_have_the_names_and_the_numbers_of_the_paths(
        self, out: Path, named: Path, molecule: Molecule
    ) -> None:
        model = load_model(named / "model.m3c")
        labels = [np.asarray(x) for x in molecule.shapes]
        first = int(pd.read_csv(out / "states.csv").set_index("name").loc["curled up", "state"])
        assert first == 0
        table = pd.read_csv(out / "paths.csv")
        assert table["path"].tolist() == ["curled up → long"]
        # The shapes are planted and every frame shows its own, but for the numbers of the states.
        numbers = (0, 1) if np.bincount(np.concatenate(labels))[0] * 2 >= len(np.concatenate(labels)) else (1, 0)
        planted = transition_paths(labels, *numbers, dt=5.0)
        assert table["flux"][0] == pytest.approx(planted.total_flux, rel=0.02)
        assert table["flux low"][0] < planted.total_flux < table["flux high"][0]
        assert pd.read_csv(out / "committors.csv")["name"].tolist() == model.state_names
        assert pd.read_csv(out / "fluxes.csv")[["from name", "to name"]].to_numpy().tolist() == [["curled up", "long"]]
        report = (out / "report.txt").read_text()
        assert "paths from curled up to long:" in report
        assert (out / "paths.png").read_bytes().startswith(b"\x89PNG")
        assert "| 0 | curled up |" in (out / "states.md").read_text()

    def test_frames_at_the_border_are_next_to_a_crossing(self, out: Path, molecule: Molecule) -> None:
        table = pd.read_csv(out / "transitions.csv")
        assert len(table) == 10
        assert (np.diff(table["margin"]) >= 0.0).all()
        for file, frame in zip(table["file"], table["frame"], strict=True):
            shapes = molecule.shapes[list(map(str, molecule.files)).index(file)]
            assert len(set(shapes[max(frame - 1, 0) : frame + 2])) == 2

    def test_their_structures_are_superposed_frames_of_the_files(self, out: Path, molecule: Molecule) -> None:
        (path,) = (out / "structures").iterdir()
        assert path.name == "transition_0_curled_up_to_1_long.pdb"
        written, table = md.load(str(path)), pd.read_csv(out / "transitions.csv")
        assert written.n_frames == len(table)
        original = md.join(
            [md.load_frame(f, k, top=str(molecule.top)) for f, k in zip(table["file"], table["frame"], strict=True)]
        )
        backbone = written.topology.select("backbone")
        # The same shapes, and turned as well as can be on top of the first.
        np.testing.assert_allclose(
            md.rmsd(written, original, 0), md.rmsd(original, original, 0), atol=2e-3, err_msg="other frames"
        )
        moved = np.sqrt(((written.xyz[:, backbone] - written.xyz[0, backbone]) ** 2).sum(axis=2).mean(axis=1))
        np.testing.assert_allclose(moved, md.rmsd(written, written, 0, backbone), atol=2e-3)

    def test_json(self, named: Path, arrays: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["fit", *arrays, "--n-states", "2", "--out", str(tmp_path / "fit")]) == 0
        capsys.readouterr()
        options = ["--paths", "1", "0", "--json", "--out", str(tmp_path / "out")]
        assert main(["kinetics", str(tmp_path / "fit" / "model.m3c"), *arrays, *options]) == 0
        found = json.loads(capsys.readouterr().out)["paths"]
        assert found["paths"][0]["path"] == "1 → 0"
        assert found["mfpt"] > found["duration"] == 1.0
        low, high = found["total_flux_interval"]
        assert low < found["total_flux"] < high
        assert found["fluxes"][0]["flux low"] == pytest.approx(low)
        assert not (tmp_path / "out" / "structures").exists()

    @pytest.mark.parametrize(("ends", "message"), [(["long", "wide"], "no such state"), (["1", "long"], "twice")])
    def test_bad_states_are_refused_before_files_are_read(
        self, named: Path, ends: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = ["--paths", *ends, "--out", str(tmp_path / "out")]
        assert main(["kinetics", str(named / "model.m3c"), "missing.xtc", *options]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_structures_of_states_have_their_names(named: Path, molecule: Molecule, tmp_path: Path) -> None:
    from argparse import Namespace

    from m3c_md.cli.output import OutputFolder
    from m3c_md.cli.structures import write_structures
    from m3c_md.cli.trajectories import load_trajectories

    model = load_model(named / "model.m3c")
    options = {"dihedrals": ["phi", "psi"], "residues": None, "jobs": 1, "top": str(molecule.top)}
    data = load_trajectories(Namespace(files=[str(molecule.files[0])], **options))
    with OutputFolder(tmp_path / "out", ["structures/*"], force=False) as folder:
        write_structures(folder, model, data, 2)  # type: ignore[arg-type]
        pictures = ["structures/state_0_curled_up.pdb", "structures/state_1_long.pdb"]
        assert sorted(folder.names()) == ["structures/frames.csv", *pictures]
