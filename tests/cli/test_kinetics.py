"""``m3c-md fit --core`` and ``m3c-md kinetics``: states by coring, and kinetics with errors from a saved model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from m3c_md import kinetics, load_model
from m3c_md.cli import main
from tests.conftest import hidden_markov_wells


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of features, and a fit with coring."""
    path = tmp_path_factory.mktemp("kinetics")
    for seed in range(2):
        np.save(path / f"run{seed}.npy", hidden_markov_wells(900, 2, seed, stay=0.95).frames)
    files = [str(path / f"run{seed}.npy") for seed in range(2)]
    assert main(["fit", *files, "--n-states", "2", "--dt", "2", "--core", "--out", str(path / "fit")]) == 0
    return path


class TestFitWithCore:
    def test_cored_states_and_transitions_are_those_of_the_model(self, folder: Path) -> None:
        trajs = [np.load(folder / f"run{seed}.npy") for seed in range(2)]
        cored = load_model(folder / "fit" / "model.m3c").core(trajs)
        for seed in range(2):
            np.testing.assert_array_equal(np.load(folder / "fit" / "cored" / f"run{seed}.npy"), cored.dtrajs[seed])
            found = np.load(folder / "fit" / "transitions" / f"run{seed}.npy")
            np.testing.assert_array_equal(found, cored.transition[seed])

    def test_the_report_tells_plateaus_and_the_test_of_markovianity(self, folder: Path) -> None:
        report = (folder / "fit" / "report.txt").read_text()
        assert "timescales, where they no longer rise with the lag time:" in report
        assert "level from lag time" in report
        assert "Chapman-Kolmogorov test at lag time" in report
        assert "passed (" in report
        assert "coring with margin" in report


class TestKinetics:
    def test_tables_pictures_and_numbers(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = [str(folder / "fit" / "model.m3c"), *(str(folder / f"run{seed}.npy") for seed in range(2))]
        out = folder / "out"
        time = ["--core", "--dt", "2", "--unit", "ns", "--temperature", "300"]
        assert main(["kinetics", *arguments, *time, "--json", "--out", str(out)]) == 0
        result = json.loads(capsys.readouterr().out)
        assert result["unit"] == "ns"
        assert result["energy_unit"] == "kJ/mol"
        assert {path.name for path in out.iterdir()} == set(result["written"])
        states, passages = pd.read_csv(out / "states.csv"), pd.read_csv(out / "passages.csv")
        np.testing.assert_allclose(states["population"], [one["population"] for one in result["states"]])
        assert passages[["from", "to"]].to_numpy().tolist() == [[0, 1], [1, 0]]
        hidden = kinetics([hidden_markov_wells(900, 2, seed, stay=0.95).states for seed in range(2)], dt=2.0)
        np.testing.assert_allclose(np.sort(passages["mfpt"]), np.sort(hidden.pairs["mfpt"]), rtol=0.05)
        assert (passages["mfpt low"] < passages["mfpt high"]).all()
        assert (out / "network.png").read_bytes().startswith(b"\x89PNG")
        assert "life time (ns)" in (out / "states.md").read_text()
        assert (out / "states.tex").read_text().startswith("\\begin{tabular}")

    def test_the_wrong_files_are_refused(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        np.save(folder / "wide.npy", np.random.default_rng(0).normal(size=(50, 5)))
        code = main(
            ["kinetics", str(folder / "fit" / "model.m3c"), str(folder / "wide.npy"), "--out", str(folder / "x")]
        )
        assert code == 2
        assert "5 columns" in capsys.readouterr().err
        assert not (folder / "x").exists()
