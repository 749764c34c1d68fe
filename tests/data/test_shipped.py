"""The molecular dynamics that ships with the package: what it says of itself is true, and it is found from anywhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import mdtraj as md
import numpy as np
import pytest

import m3c_md
from m3c_md import DihedralFeaturizer
from m3c_md.data import MolecularData, alanine_dipeptide, deca_alanine, read_run
from m3c_md.data.dynamics import DEFAULT_N_TRAJECTORIES, DEFAULTS
from m3c_md.data.simulate import read_settings
from m3c_md.exceptions import FewVisitsWarning, InputError
from tests.conftest import quick

DATA = m3c_md.data.SHIPPED
MOST_BYTES = 12_000_000
SHIPPED = {"alanine-dipeptide": alanine_dipeptide, "deca-alanine": deca_alanine}


@pytest.fixture(scope="module", params=SHIPPED)
def molecule(request) -> str:
    if request.param == "deca-alanine" and not (DATA / "deca_alanine").exists():
        pytest.skip("there is no data/deca_alanine yet")
    return request.param


@pytest.fixture(scope="module")
def data(molecule) -> MolecularData:
    return SHIPPED[molecule]()


class TestBoth:
    def test_there_is_all_that_the_command_makes_by_default(self, molecule, data):
        assert read_settings(data.folder) == DEFAULTS[molecule]
        assert len(data.angles) == DEFAULT_N_TRAJECTORIES[molecule]
        assert {len(x) for x in data.angles} == {DEFAULTS[molecule].n_frames}

    def test_angles_are_in_radians_and_all_there(self, data):
        for angles in data.angles:
            assert angles.dtype == np.float32
            assert angles.shape[1] == len(data.angle_names)
            assert np.isfinite(angles).all()
            assert np.abs(angles).max() <= np.float32(np.pi)
            assert np.ptp(angles) > 6.0  # the whole circle

    def test_no_trajectory_is_there_twice(self, data):
        assert len({x.tobytes() for x in data.angles}) == len(data.angles)

    def test_columns_are_those_of_the_featurizer(self, data):
        assert data.angle_names == DihedralFeaturizer(sincos=False).describe(data.topology_file)
        assert data.columns == DihedralFeaturizer().describe(data.topology_file)
        assert {x.shape[1] for x in data.features} == {len(data.columns)}

    def test_features_are_those_of_the_coordinates(self, data):
        assert data.trajectory_files
        ours = DihedralFeaturizer().load(data.trajectory_files, data.topology_file)
        for theirs, features in zip(ours, data.features[: len(ours)], strict=True):
            assert features.dtype == theirs.dtype
            np.testing.assert_allclose(features, theirs, rtol=0.0, atol=1e-6)

    def test_coordinates_are_those_of_the_first_trajectories(self, data):
        names = [path.name for path in data.trajectory_files]
        assert names == [f"traj_{i:02d}.xtc" for i in range(len(names))]

    def test_times_of_the_files_are_those_of_the_data(self, data):
        frames = md.load(str(data.trajectory_files[0]), top=data.topology)
        np.testing.assert_allclose(frames.time, data.dt * np.arange(frames.n_frames), rtol=1e-6)

    def test_topology_has_all_atoms_and_bonds(self, molecule, data):
        settings = DEFAULTS[molecule]
        alanines = ["ALA"] * settings.n_alanines
        residues = [residue.name for residue in data.topology.residues]
        assert residues == (["ACE", *alanines, "NME"] if settings.capped else alanines)
        assert data.topology.n_bonds == data.topology.n_atoms - 1
        assert md.load(str(data.topology_file)).n_atoms == data.topology.n_atoms

    def test_every_residue_stays_left_handed(self, data):
        frames = md.load(str(data.trajectory_files[0]), top=data.topology).xyz
        for residue in data.topology.residues:
            if residue.name == "ALA":
                ca, n, c, cb = (frames[:, residue.atom(name).index] for name in ("CA", "N", "C", "CB"))
                assert (np.cross(n - ca, c - ca) * (cb - ca)).sum(axis=1).min() > 0.0

    def test_time_and_temperature_are_those_of_the_settings(self, molecule, data):
        content = json.loads((data.folder / "settings.json").read_text())
        assert (data.dt, data.unit) == (DEFAULTS[molecule].spacing, "ps")
        assert data.temperature == content["temperature"]

    def test_it_tells_what_it_is(self, data):
        text = str(data)
        for part in (
            f"{len(data.angles)} trajectories",
            f"{sum(map(len, data.angles))} frames every {data.dt:g} ps",
            f"{len(data.angle_names)} backbone dihedrals",
            f"{data.temperature:g} K",
            f"coordinates of {len(data.trajectory_files)}",
        ):
            assert part in text


class TestAlanineDipeptide:
    def test_angles_are_one_phi_and_one_psi(self):
        data = alanine_dipeptide()
        assert data.angle_names == ["phi ALA 2", "psi ALA 2"]
        assert (data.dt, data.temperature) == (2.0, 500.0)

    def test_states_are_right_handed_helix_extended_and_left_handed_helix(self):
        """A fit to a fifth of the two trajectories with coordinates; cuts by hand are far from where M3C draws them."""
        data = alanine_dipeptide()
        features = [x[:2000] for x in data.features[:2]]
        phi, psi = np.concatenate([x[:2000] for x in data.angles[:2]]).T
        with pytest.warns(FewVisitsWarning, match="by 1 of 2 trajectories"):
            model = quick(3).fit_fetch(features)
        states = np.concatenate(model.transform(features))
        positive = np.array([np.mean(phi[states == state] > 0.0) for state in range(3)])
        left = int(positive.argmax())
        assert positive[left] > 0.9
        others = [state for state in range(3) if state != left]
        assert positive[others].max() < 0.05
        # α_R has ψ around -10°, β around 150°.
        folded = np.abs(psi - np.radians(-10.0)) < np.radians(80.0)
        share = np.array([np.mean(folded[states == state]) for state in others])
        assert share.max() > 0.95
        assert share.min() < 0.05

    def test_every_trajectory_visits_all_three_states(self):
        """Or else Q could not be measured on it."""
        for angles in alanine_dipeptide().angles:
            phi, psi = angles.T
            folded = np.abs(psi - np.radians(-10.0)) < np.radians(80.0)
            counts = [np.sum(phi > 0.0), np.sum((phi <= 0.0) & folded), np.sum((phi <= 0.0) & ~folded)]
            assert min(counts) >= 10


class TestReadRun:
    @pytest.mark.parametrize("kind", [str, Path])
    def test_a_folder_that_is_none(self, kind, tmp_path):
        for folder in (tmp_path / "no such folder", tmp_path):
            with pytest.raises(InputError, match="m3c-md simulate") as caught:
                read_run(kind(folder))
            assert str(folder) in str(caught.value)
            assert "settings.json" in str(caught.value)

    def test_a_run_without_a_finished_trajectory(self, tmp_path):
        for name in ("settings.json", "topology.pdb"):
            shutil.copy(DATA / "alanine_dipeptide" / name, tmp_path)
        with pytest.raises(InputError, match=r"no finished trajectory; run m3c-md simulate again") as caught:
            read_run(tmp_path)
        assert str(tmp_path) in str(caught.value)

    def test_a_run_without_its_topology(self, tmp_path):
        for name in ("settings.json", "traj_00_dihedrals.npy"):
            shutil.copy(DATA / "alanine_dipeptide" / name, tmp_path)
        with pytest.raises(InputError, match=r"topology\.pdb"):
            read_run(tmp_path)

    @pytest.mark.parametrize("n_trajectories", [12, 103])
    def test_angles_and_coordinates_are_in_the_same_order(self, n_trajectories, tmp_path):
        for name in ("settings.json", "topology.pdb"):
            shutil.copy(DATA / "alanine_dipeptide" / name, tmp_path)
        for i in range(n_trajectories):
            np.save(tmp_path / f"traj_{i:02d}_dihedrals.npy", np.full((2, 2), i, dtype=np.float32))
            (tmp_path / f"traj_{i:02d}.xtc").touch()
        run = read_run(tmp_path)
        numbers = [int(x[0, 0]) for x in run.angles]
        assert [path.name for path in run.trajectory_files] == [f"traj_{i:02d}.xtc" for i in numbers]
        assert numbers == list(range(n_trajectories))


def test_data_are_small_enough_to_ship():
    files = [path for path in DATA.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES


def installed(folder: Path) -> Path:
    """Lay the package out as an installation does: files inside."""
    home = Path(m3c_md.__file__).parent
    (folder / "m3c_md" / "data").mkdir(parents=True)
    for path in [*home.iterdir(), *(home / "data").iterdir()]:
        if path.name not in ("data", "files", "__pycache__"):
            (folder / "m3c_md" / path.relative_to(home)).symlink_to(path)
    (folder / "m3c_md" / "data" / "files").symlink_to(DATA)
    return folder


@pytest.mark.parametrize("layout", ["clone", "installation"])
def test_data_are_found_from_another_working_folder(layout, tmp_path):
    home = Path(m3c_md.__file__).parents[1]
    if layout == "clone" and home not in DATA.parents[:1]:
        pytest.skip("the package is installed")
    if layout == "installation":
        try:
            home = installed(tmp_path / "site")
        except OSError:
            pytest.skip("no symbolic links here")
    (tmp_path / "work" / "data").mkdir(parents=True)
    (tmp_path / "work" / "data" / "__init__.py").write_text("raise ImportError('data of the user')")
    code = (
        "import m3c_md\nfrom m3c_md.data import alanine_dipeptide\n"
        "print(m3c_md.__file__)\ndata = alanine_dipeptide()\nprint(data.folder)\nprint(data)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "work",
        env={**os.environ, "PYTHONPATH": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    package, folder, text = done.stdout.splitlines()
    assert Path(package) == home / "m3c_md" / "__init__.py"
    assert Path(folder).parent == (DATA if layout == "clone" else home / "m3c_md" / "data" / "files")
    assert text == str(alanine_dipeptide())
