"""Structures for a page: laid over each other, and small whatever the molecule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from m3c_md.exceptions import InputError
from m3c_md.report.molecules import MOST_BYTES, MOST_MODELS, molecule_section, pack, read_models


def places(text: str) -> np.ndarray:
    return np.array([[float(line[i : i + 8]) for i in (30, 38, 46)] for line in text.splitlines()])


def protein(n_residues: int, path: Path, *, water: int = 0, n_models: int = 1) -> Path:
    """Helix of alanines with hydrogens and water."""
    rng = np.random.default_rng(0)
    lines, number = [], 0
    for residue in range(n_residues + water):
        names = ("N", "H", "CA", "HA", "CB", "C", "O") if residue < n_residues else ("O", "H1", "H2")
        for name in names:
            number += 1
            x, y, z = 0.15 * residue + rng.normal(size=3)
            kind = "ALA" if residue < n_residues else "HOH"
            where = f"{kind} A{residue % 10000:4d}    {x:8.3f}{y:8.3f}{z:8.3f}"
            lines.append(f"ATOM  {number % 100000:5d}  {name:<3} {where}  1.00 50.00          {name[0]:>2}")
    path.write_text("".join(f"MODEL {i}\n" + "\n".join(lines) + "\nENDMDL\n" for i in range(n_models)))
    return path


def test_states_are_laid_over_each_other(structures: list[Path]) -> None:
    packed, style = pack([read_models(path) for path in structures])
    assert style == "stick"
    first = places(packed[0][0])
    for state in packed:
        for text in state:
            # Shaken by 0.1 in each direction; turned and moved by much more.
            assert np.sqrt(((places(text) - first) ** 2).sum(axis=1).mean()) < 0.4
    spread = first.std(axis=0)
    assert spread[0] >= spread[1] >= spread[2]
    assert all(float(line[60:66]) == (99.99 if "ALA" in line else 0.0) for line in packed[2][1].splitlines())


def test_hydrogens_and_water_are_left_out(tmp_path: Path) -> None:
    (models,), style = pack([read_models(protein(5, tmp_path / "a.pdb", water=10, n_models=9))])
    assert len(models) == MOST_MODELS
    assert style == "stick"
    assert {line[76:78].strip() for line in models[0].splitlines()} == {"N", "C", "O"}
    assert len(models[0].splitlines()) == 25


@pytest.mark.parametrize(("n_residues", "style"), [(30, "cartoon"), (600, "cartoon"), (2_500, "trace")])
def test_large_ones_lose_details_until_they_fit(n_residues: int, style: str, tmp_path: Path) -> None:
    models = read_models(protein(n_residues, tmp_path / "a.pdb"))
    packed, drawn = pack([models] * 6)
    assert drawn == style
    assert sum(len(text) for state in packed for text in state) <= MOST_BYTES
    assert len(packed) == 6


def test_what_never_fits_is_said(tmp_path: Path) -> None:
    path = protein(1_600, tmp_path / "a.pdb")
    section = molecule_section([path] * 12, [f"state {k}" for k in range(12)], ["#000000"] * 12, "")
    assert "too large for this page" in section.body
    assert not section.three_d


def test_many_states_are_not_all_drawn(structures: list[Path]) -> None:
    names = [f"<state> {k}" for k in range(15)]
    section = molecule_section([structures[0]] * 15, names, ["#000000"] * 15, "Note <.")
    assert section.body.count('class="molecule"') == 12
    assert "The 3 smallest states are not drawn" in section.body
    assert "<state>" not in section.body
    assert "Note &lt;." in section.body


@pytest.mark.parametrize("text", ["no atoms here", "ATOM      1  N   ALA A   1       x.xxx   0.000   0.000"])
def test_files_that_are_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.pdb"
    path.write_text(text)
    with pytest.raises(InputError, match=r"a\.pdb"):
        read_models(path)
