"""``m3c-md profile``: tables, pictures and words about the states of a saved model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from m3c_md import DihedralFeaturizer, load_model, state_profile
from m3c_md.cli import main
from tests.cli.conftest import Molecule


def test_files_say_what_python_says(
    molecule: Molecule, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "profile"
    files = [str(path) for path in molecule.files]
    code = main(["profile", str(fitted / "model.m3c"), *files, "--top", str(molecule.top), "--json", "--out", str(out)])
    assert code == 0
    result = json.loads(capsys.readouterr().out)
    assert {path.name for path in out.iterdir()} == set(result["written"])
    assert set(result["written"]) == {
        *("angles.csv", "borders.csv", "residues.csv", "profile.png", "ramachandran.png", "report.txt")
    }
    expected = state_profile(load_model(fitted / "model.m3c"), DihedralFeaturizer(), files, molecule.top)
    angles = pd.read_csv(out / "angles.csv").set_index(["state", "dihedral"])
    pd.testing.assert_frame_equal(angles, expected.angles)
    assert [one["mean"] for one in result["angles"]] == expected.angles["mean"].tolist()
    np.testing.assert_allclose(pd.read_csv(out / "borders.csv").groupby(["state", "neighbour"])["share"].sum(), 1.0)
    report = (out / "report.txt").read_text()
    assert all(line in report for line in expected.words())
    assert "secondary structure was left out" in report


def test_arrays_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", np.repeat([-1.0, 1.0] * 30, 20)[:, None] + 0.2 * rng.normal(size=(1200, 1)))
    assert main(["fit", str(tmp_path / "x.npy"), "--n-states", "2", "--out", str(tmp_path / "fit")]) == 0
    model = str(tmp_path / "fit" / "model.m3c")
    assert main(["profile", model, str(tmp_path / "x.npy"), "--out", str(tmp_path / "profile")]) == 2
    assert "a profile needs dihedrals; fit to trajectory files" in capsys.readouterr().err
    assert not (tmp_path / "profile").exists()
