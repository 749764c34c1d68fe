"""PLUMED itself computes the rule and its forces from the exported text; skipped where there is no PLUMED."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from m3c_md import M3C, M3CModel
from m3c_md.cli import main
from m3c_md.export.openmm_force import RuleFunction
from tests.export.conftest import Case
from tests.export.real_plumed import OF_VECTORS, drive, read_colvar, version

pytestmark = pytest.mark.skipif(version() is None, reason="no plumed on the PATH")
# PRINT writes eight digits after the point.
PRINTED = 6e-9


@pytest.fixture(params=["vectors", "classic"])
def syntax(request: pytest.FixtureRequest) -> str:
    known = version()
    if request.param == "vectors" and known is not None and known < OF_VECTORS:
        pytest.skip("this PLUMED has no actions on vectors")
    return str(request.param)


def compare(case: Case, model: M3CModel, states: object, kind: str, syntax: str, folder: Path) -> None:
    """Values and forces by PLUMED are those of the variable, whose values are tested by themselves."""
    text = model.to_plumed(states=states, kind=kind, syntax=syntax)  # type: ignore[arg-type]
    found = drive(text, case.trajectory.xyz, folder)
    variable = model.collective_variable(states, kind)  # type: ignore[arg-type]
    assert np.abs(found.printed - variable.values(case.frames)).max() < PRINTED
    function = RuleFunction(variable, case.columns.quartets)
    exact = np.zeros(case.trajectory.xyz.shape)
    points = case.trajectory.xyz[:, function.particles].astype(np.float64)
    exact[:, function.particles] = [function.energy_and_forces(x)[1] for x in points]
    assert np.abs(exact).max() > 1.0
    assert np.abs(found.forces - exact).max() < 1e-7


def test_differences_are_those_of_the_decision_function(case: Case, syntax: str, tmp_path: Path) -> None:
    last = case.model.n_states - 1
    text = case.model.to_plumed(states=(last, 0), syntax=syntax)  # type: ignore[arg-type]
    found = drive(text, case.trajectory.xyz, tmp_path)
    assert np.abs(found.printed - case.differences(last, 0)).max() < PRINTED


def test_forces(case: Case, syntax: str, tmp_path: Path) -> None:
    compare(case, case.model, (1, 0), "difference", syntax, tmp_path)


def test_shares_and_one_state_against_all_others(ala10: Case, syntax: str, tmp_path: Path) -> None:
    compare(ala10, ala10.model, (2, 0, 1), "membership", syntax, tmp_path)
    compare(ala10, ala10.model, 2, "difference", syntax, tmp_path)


@pytest.mark.parametrize("kind", ["difference", "membership"])
def test_merged_states(ala2: Case, syntax: str, kind: str, tmp_path: Path) -> None:
    merged = ala2.model.merge([1, [0, 2]])
    for states in ((0, 1), (1, 0)):
        compare(ala2, merged, states, kind, syntax, tmp_path)


def test_whole_molecules_need_no_box(ala2: Case, syntax: str, tmp_path: Path) -> None:
    text = ala2.model.to_plumed(replace(ala2.columns, periodic=False), (0, 1), syntax=syntax)  # type: ignore[arg-type]
    assert " NOPBC\n" in text
    found = drive(text, ala2.trajectory.xyz, tmp_path)
    assert np.abs(found.printed - ala2.differences(0, 1)).max() < PRINTED


@pytest.mark.parametrize("n_columns", [1, 3])
def test_columns_of_ones_own(syntax: str, n_columns: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    side = np.repeat([-1.0, 1.0] * 20, 25)
    x = np.column_stack([side, 10.0 * rng.normal(size=1000), 0.1 * side]) + 0.2 * rng.normal(size=(1000, 3))
    model = M3C(2, random_state=0, n_features=20).fit_fetch(x[:, :n_columns])
    text = model.to_plumed(["v.x", "v.y", "v.z"][:n_columns], syntax=syntax)  # type: ignore[arg-type]
    above = "v: DISTANCE ATOMS=1,2 NOPBC COMPONENTS\n"  # from an atom at the origin
    found = drive(above + text, np.stack([np.zeros_like(x), x], axis=1), tmp_path)
    scores = model.decision_function(x[:, :n_columns])
    assert np.abs(found.printed - (scores[:, 0] - scores[:, 1])).max() < 1e-6


def test_a_file_of_the_command_line_is_checked_as_it_says(ala2: Case, syntax: str, tmp_path: Path) -> None:
    """What help and file promise: plumed driver --mf_pdb TOP prints the reference values of the file."""
    ala2.model.save(tmp_path / "model.m3c")
    ala2.trajectory[7].save(str(tmp_path / "top.pdb"))
    files = [str(tmp_path / "model.m3c"), "--top", str(tmp_path / "top.pdb"), "--out", str(tmp_path / "plumed.dat")]
    assert main(["export", *files, "--to", "plumed", "--states", "0", "2", "--syntax", syntax]) == 0
    command = ["plumed", "driver", "--plumed", "plumed.dat", "--mf_pdb", "top.pdb"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (said,) = re.findall(r"^# +0 +(-?\d+\.\d{8})$", (tmp_path / "plumed.dat").read_text(), re.MULTILINE)
    assert read_colvar(tmp_path / "COLVAR")[0] == pytest.approx(float(said), abs=1e-5)  # mdtraj has single precision
