"""benchmarks/proteins.py on small made-up files in the formats that it documents."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from m3c_md.exceptions import InputError

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "proteins.py"
if not SCRIPT.exists():
    pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    specification = importlib.util.spec_from_file_location("proteins_script", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


def walk(seed: int, n: int = 600) -> np.ndarray:
    """Three wells of three microstates each, numbered 1, 2, 3, 11, 12, 13, 21, 22, 23."""
    rng = np.random.default_rng(seed)
    wells = np.repeat(rng.permutation(np.arange(n // 30) % 3), 30)
    return 10 * wells + rng.integers(1, 4, n)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "hp35" / "microstates"
    made.mkdir(parents=True)
    np.save(made / "a.npy", walk(0))
    np.savetxt(made / "b.txt", walk(1), fmt="%d", header="microstate")
    return tmp_path


class TestFormats:
    def test_numbers_are_those_of_all_files_without_gaps(self, script: ModuleType, folder: Path) -> None:
        protein = script.read_protein(folder / "hp35")
        assert [len(x) for x in protein.microstates] == [600, 600]
        known = {number: i for i, number in enumerate([1, 2, 3, 11, 12, 13, 21, 22, 23])}
        for found, seed in zip(protein.microstates, (0, 1), strict=True):
            assert found.tolist() == [known[number] for number in walk(seed).tolist()]
        assert protein.features == []

    def test_features_and_lengths(self, script: ModuleType, folder: Path) -> None:
        features = folder / "hp35" / "features"
        features.mkdir()
        np.savetxt(features / "a.dat", np.column_stack([walk(0), walk(0)]))
        np.save(features / "b.npy", np.column_stack([walk(1), walk(1)]).astype(np.float32))
        np.savetxt(folder / "hp35" / "lengths.txt", [500, 400, 300], fmt="%d")
        protein = script.read_protein(folder / "hp35")
        assert [len(x) for x in protein.microstates] == [500, 400, 300]
        assert [x.shape for x in protein.features] == [(500, 2), (400, 2), (300, 2)]
        assert np.array_equal(np.concatenate(protein.features)[:, 0], np.concatenate([walk(0), walk(1)]))

    def test_what_does_not_fit_is_named(self, script: ModuleType, folder: Path) -> None:
        protein = folder / "hp35"
        np.savetxt(protein / "lengths.txt", [500], fmt="%d")
        with pytest.raises(InputError, match="sums to 500 frames, but there are 1200"):
            script.read_protein(protein)
        (protein / "features").mkdir()
        np.save(protein / "features" / "a.npy", np.zeros((600, 2)))
        with pytest.raises(InputError, match="has files for 1 of 2 trajectories"):
            script.read_protein(protein)
        np.save(protein / "features" / "b.npy", np.zeros((7, 2)))
        with pytest.raises(InputError, match=r"b.npy has 7 frames, but b.txt has 600"):
            script.read_protein(protein)
        np.save(protein / "microstates" / "a.npy", np.full(600, 0.5))
        with pytest.raises(InputError, match=r"a.npy has 1 columns or fractions"):
            script.read_protein(protein)
        with pytest.raises(InputError, match="has no file that ends in"):
            script.read_protein(folder)


def test_the_methods_side_by_side(script: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["--data", str(folder), "--states", "3", "--lag", "1"]) == 0
    said = capsys.readouterr().out
    assert "gb3: there is no folder" in said
    lines = {line.split(":")[0].strip(): line for line in said.splitlines()}
    assert lines["microstates"].startswith("  microstates: 9 of them")
    for method in ("PCCA+", "lump_microstates"):
        assert "3 of 3 states" in lines[method]
        assert 2.8 < float(lines[method].split("Q ")[1].split(",")[0]) < 3.0
    assert script.main(["--data", str(folder), "--protein", "gb3"]) == 1
