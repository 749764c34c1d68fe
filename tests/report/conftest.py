"""A report with everything in it, made once: three states, three structures, and names that would like to be HTML."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from m3c_md import M3CModel, compare
from m3c_md.data import alanine_dipeptide
from m3c_md.exceptions import M3CWarning

EVIL = "<script>window.evil = 1</script>"


@pytest.fixture(scope="session")
def structures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Alanine dipeptide three times, each turned and shaken in its own way, with relevances for B-factors."""
    folder = tmp_path_factory.mktemp("structures")
    rng = np.random.default_rng(0)
    lines = alanine_dipeptide().topology_file.read_text().splitlines()
    atoms = [line for line in lines if line.startswith(("ATOM", "HETATM"))]
    places = np.array([[float(line[i : i + 8]) for i in (30, 38, 46)] for line in atoms])
    files = []
    for state in range(3):
        models = []
        for _ in range(2):
            turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
            turn[:, 0] *= np.sign(np.linalg.det(turn))
            moved = (places + 0.1 * rng.normal(size=places.shape)) @ turn + 5.0 * rng.normal(size=3)
            models.append(
                [
                    f"{line[:30]}{x:8.3f}{y:8.3f}{z:8.3f}{line[54:60]}{99.99 if 'ALA' in line else 0.0:6.2f}{line[66:]}"
                    for line, (x, y, z) in zip(atoms, moved.tolist(), strict=True)
                ]
            )
        text = "".join(f"MODEL {i}\n" + "\n".join(model) + "\nENDMDL\n" for i, model in enumerate(models))
        files.append(folder / f"state_{state}.pdb")
        files[-1].write_text(text)
    return files


@pytest.fixture(scope="session")
def report(
    searched_model: M3CModel, three_wells: Any, structures: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Report of a model whose unit of time is not to be trusted."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", M3CWarning)
        searched_model.report(path, [three_wells.frames], dt=0.5, unit=EVIL, structures=structures, random_state=0)
    return path


@pytest.fixture(scope="session")
def comparison_report(three_wells: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Report of methods with settings, spreads and times: its table is the widest that there is."""
    path = tmp_path_factory.mktemp("comparison") / "report.html"
    trajs = np.array_split(three_wells.frames, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", M3CWarning)
        methods = ("pcca+", "tica+pcca+", "k-medoids")
        comparison = compare(trajs, 3, methods=methods, n_microstates=20, dt=0.5, unit="ns", random_state=0, n_jobs=1)
        comparison.report(path, trajs, random_state=0)
    return path
