"""``m3c-md export`` needs a model and a topology, and says in one line what is wrong with either."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mdtraj as md
import numpy as np
import pytest

from m3c_md import KMedoids, load_model
from m3c_md.cli import main
from tests.export.conftest import fitted as quick_fit
from tests.export.plumed_interpreter import run
from tests.features import topology_of


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Model of alanine dipeptide, and its topology with coordinates."""
    folder, case = tmp_path_factory.mktemp("saved"), quick_fit("ala2", "kinetic", 3)
    case.model.save(folder / "model.m3c")
    case.trajectory[7].save(str(folder / "top.pdb"))
    return folder / "model.m3c", folder / "top.pdb"


def export(saved: tuple[Path, Path], out: Path, *options: str, to: str = "plumed", top: Path | None = None) -> int:
    return main(["export", str(saved[0]), "--top", str(top or saved[1]), "--to", to, "--out", str(out), *options])


def last_error(capsys: pytest.CaptureFixture[str]) -> str:
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_text_for_plumed_computes_the_rule_and_carries_a_reference(saved: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "new" / "plumed.dat"
    assert export(saved, out, "--states", "0", "2") == 0
    case = quick_fit("ala2", "kinetic", 3)
    printed = run(out.read_text(), case.trajectory).printed
    assert np.abs(printed - case.differences(0, 2)).max() < 1e-6  # type: ignore[operator]
    (line,) = (line for line in out.read_text().splitlines() if line.startswith("#      0 "))
    # Coordinates of a PDB file have three digits after the point, in Å.
    assert float(line.split()[-1]) == pytest.approx(case.differences(0, 2)[7], abs=0.05)


def test_every_option_arrives(saved: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--states", "2", "0", "1", "--kind", "membership", "--syntax", "classic", "--json")
    assert export(saved, tmp_path / "plumed.dat", *options) == 0
    model: Any = load_model(saved[0])
    found = json.loads(capsys.readouterr().out)
    assert (found["states"], found["kind"], found["atoms"][0]) == ([2, 0, 1], "membership", [5, 7, 8, 9])
    own = model.to_plumed(states=(2, 0, 1), kind="membership", syntax="classic", trajectory=md.load(str(saved[1])))
    assert (tmp_path / "plumed.dat").read_text() == own


def test_force_for_openmm(saved: tuple[Path, Path], tmp_path: Path) -> None:
    openmm = pytest.importorskip("openmm")
    assert export(saved, tmp_path / "force.xml", "--states", "0", "2", to="openmm") == 0
    assert isinstance(openmm.XmlSerializer.deserialize((tmp_path / "force.xml").read_text()), openmm.Force)


def test_fits_on_the_command_line_can_be_exported(fitted: Path, molecule: Any, tmp_path: Path) -> None:
    assert export((fitted / "model.m3c", molecule.top), tmp_path / "plumed.dat") == 0  # two states: none to name
    assert "m3c_0_1: CUSTOM" in (tmp_path / "plumed.dat").read_text()


class TestRefusals:
    def test_another_molecule(self, saved: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        other = topology_of(["ALA", "ALA", "ALA"])
        md.Trajectory(np.zeros((1, other.n_atoms, 3)), other).save(str(tmp_path / "other.pdb"))
        assert export(saved, tmp_path / "plumed.dat", "--states", "0", "1", top=tmp_path / "other.pdb") == 2
        assert "the topology has no atom" in last_error(capsys)
        assert not (tmp_path / "plumed.dat").exists()

    @pytest.mark.parametrize(
        ("states", "words"),
        [
            (["0", "3"], "there is no state 3"),
            (["1", "1"], "must be two or more different states"),
            ([], "states is missing"),
        ],
    )
    def test_states(self, saved: Any, tmp_path: Path, capsys: Any, states: list[str], words: str) -> None:
        assert export(saved, tmp_path / "plumed.dat", *(["--states", *states] if states else [])) == 2
        assert words in last_error(capsys)

    def test_a_model_without_atoms(self, saved: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        model: Any = load_model(saved[0])
        model.dihedral_columns = None
        model.save(tmp_path / "plain.m3c")
        assert export((tmp_path / "plain.m3c", saved[1]), tmp_path / "plumed.dat", "--states", "0", "1") == 2
        error = last_error(capsys)
        assert "does not say which atoms" in error
        assert "fit(..., featurizer=...)" in error

    def test_a_model_without_a_smooth_rule(
        self, saved: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        KMedoids(2, random_state=0).fit_fetch([[0.0], [0.1], [5.0], [5.1]] * 11).save(tmp_path / "medoids.m3c")
        assert export((tmp_path / "medoids.m3c", saved[1]), tmp_path / "plumed.dat", "--states", "0", "1") == 2
        assert "holds a KMedoidsModel, whose states have no smooth rule; fit M3C" in last_error(capsys)

    def test_an_existing_file_is_not_overwritten(self, saved: Any, tmp_path: Path, capsys: Any) -> None:
        out = tmp_path / "plumed.dat"
        out.write_text("mine")
        assert export(saved, out, "--states", "0", "1") == 2
        assert "exists; choose another name with --out or overwrite with --force" in last_error(capsys)
        assert out.read_text() == "mine"
        assert export(saved, out, "--states", "0", "1", "--force") == 0
        assert "TORSION" in out.read_text()
