"""``m3c-md fit`` writes what it promises, and ``m3c-md transform`` labels new files the same way."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import mdtraj as md
import numpy as np
import pytest
from matplotlib.figure import Figure

import m3c_md
from m3c_md import DihedralFeaturizer, load_model, relevance_by_dihedral
from m3c_md.cli import main
from m3c_md.exceptions import DegenerateSolutionError
from tests.cli.conftest import N_FRAMES, switching_peptide
from tests.features import random_trajectory, topology_of

DCD = Path(__file__).parents[3] / "shared" / "data" / "alanine_dipeptide_msmbuilder"
PNG = b"\x89PNG\r\n\x1a\n"


def names_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


class TestFit:
    def test_all_files_are_there_and_nothing_else(self, fitted):
        assert names_in(fitted) == [
            *("features.json", "implied_timescales.png", "labels/run.npy", "labels/run_2.npy", "model.m3c"),
            *("ramachandran.png", "relevance.png", "report.html", "report.txt", "search.png"),
            *("structures/frames.csv", "structures/state_0.pdb", "structures/state_1.pdb"),
        ]
        assert all((fitted / name).read_bytes().startswith(PNG) for name in names_in(fitted) if name.endswith("png"))

    def test_the_page_shows_states_structures_and_the_command(self, fitted):
        page = (fitted / "report.html").read_text(encoding="utf-8")
        assert "<h1>2 states of 250 frames, run, run_2</h1>" in page
        assert page.count('class="molecule"') == 2
        assert "m3c-md fit " in page
        assert "psi ALA 2" in page
        assert "φ / °" in page

    def test_labels_are_those_of_the_model_and_right(self, fitted, molecule):
        features = DihedralFeaturizer().load(molecule.files, molecule.top, stride=2)
        labels = [np.load(fitted / "labels" / name) for name in ("run.npy", "run_2.npy")]
        for ours, theirs in zip(labels, load_model(fitted / "model.m3c").transform(features), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        agreement = np.mean(np.concatenate(labels) == np.concatenate([x[::2] for x in molecule.shapes]))
        assert max(agreement, 1.0 - agreement) == 1.0

    def test_structures_belong_to_their_states(self, fitted, molecule):
        model = load_model(fitted / "model.m3c")
        for state in range(2):
            frames = md.load(str(fitted / "structures" / f"state_{state}.pdb"))
            assert (frames.n_frames, frames.n_atoms) == (3, md.load(str(molecule.top)).n_atoms)
            assert model.transform(DihedralFeaturizer().transform(frames)).tolist() == [state] * 3

    def test_structures_are_frames_of_the_files(self, fitted, molecule):
        # The stride was 2: a frame that is taken at the wrong place may well have the right state.
        data = DihedralFeaturizer().load(molecule.files, molecule.top, stride=2)
        trajectory, frame = load_model(fitted / "model.m3c").sample(data, 1)[0][0]
        wanted = md.load(str(molecule.files[trajectory]), top=str(molecule.top))[2 * frame]
        found = md.load_frame(str(fitted / "structures" / "state_0.pdb"), 0)
        np.testing.assert_allclose(found.xyz, wanted.xyz, rtol=0.0, atol=1e-4)

    def test_report_says_what_was_done(self, fitted, molecule):
        report = (fitted / "report.txt").read_text()
        assert f"m3c-md {m3c_md.__version__}" in report
        assert "command: m3c-md fit" in report
        assert f"data: 2 trajectories, {N_FRAMES} frames (one in 2 of the files)" in report
        assert f"{molecule.files[1]}: {N_FRAMES // 2} frames" in report
        assert "sin phi ALA 2, cos phi ALA 2, sin psi ALA 2, cos psi ALA 2" in report
        assert "lag time 10 ps" in report  # 5 ps between frames, of which every second was used
        assert "t2 = " in report

    def test_report_names_the_angles_that_matter(self, fitted):
        report = (fitted / "report.txt").read_text()
        angles = relevance_by_dihedral(load_model(fitted / "model.m3c").relevance)
        first, second = angles.sort_values(ascending=False).items()
        assert "residues: ALA 2 100.0%\n" in report
        assert f"dihedrals: {first[0]} {first[1]:.1%}, {second[0]} {second[1]:.1%}\n" in report
        assert "B-factors: relevance of the residue to the states, from 0 to 100; 100 is ALA 2, which" in report

    def test_the_model_knows_what_its_columns_are_called(self, fitted):
        columns = json.loads((fitted / "features.json").read_text())["columns"]
        assert load_model(fitted / "model.m3c").columns == columns

    def test_features_json_can_be_read_back(self, fitted):
        content = json.loads((fitted / "features.json").read_text())
        assert content["dihedrals"] == ["phi", "psi"]
        assert content["columns"][2] == "sin psi ALA 2"

    def test_results_are_kept_without_force(self, fitted, arrays, capsys):
        before = (fitted / "report.txt").read_bytes()
        assert main(["fit", *arrays, "--n-states", "2", "--out", str(fitted)]) == 2
        assert "--force" in capsys.readouterr().err
        assert (fitted / "report.txt").read_bytes() == before


class TestArrays:
    def test_json_and_force(self, arrays, tmp_path, capsys):
        (tmp_path / "labels").mkdir()
        for name in ("labels/old.npy", "structures_of_mine.txt"):
            (tmp_path / name).write_text("old")
        options = ["--n-states", "2", "--dt", "0.5", "--unit", "ns", "--out", str(tmp_path), "--json", "--force"]
        assert main(["fit", *arrays, *options]) == 0
        said = capsys.readouterr()
        result = json.loads(said.out)
        assert "M3C found 2 states" in said.err
        assert sum(result["populations"]) == pytest.approx(1.0)
        visits = load_model(tmp_path / "model.m3c").visits
        assert [state["entered"] for state in result["visits"]] == visits["entered"].tolist()
        assert f"of the frames, entered {visits['entered'][0]} times, in {len(arrays)} trajectories" in said.err
        assert 1.0 < result["Q"] <= 2.0
        assert (result["lag_time"], result["unit"]) == (0.5, "ns")
        assert result["timescales"]["t2"] > 0.5
        # A result of an earlier run is gone, another file is not, and no picture needs φ and ψ.
        assert sorted([*result["written"], "structures_of_mine.txt"]) == names_in(tmp_path)
        assert "labels/old.npy" not in result["written"]
        # Columns without names are told by their numbers, and there is no residue to speak of.
        assert sum(result["relevance"]) == pytest.approx(1.0)
        leading = int(np.argmax(result["relevance"]))
        assert f"columns: column {leading} {max(result['relevance']):.1%}" in said.err
        assert not any(word in said.err for word in ("residues:", "dihedrals:", "B-factors"))
        assert "ramachandran.png" not in result["written"]

    def test_no_solution(self, arrays, tmp_path, capsys, monkeypatch):
        def lost(*_args, **_options):
            raise DegenerateSolutionError("state 1 has\n0.00% of the frames")

        monkeypatch.setattr("m3c_md.clustering.m3c.M3C.fit", lost)
        assert main(["fit", *arrays, "--n-states", "2", "--out", str(tmp_path / "new")]) == 1
        assert capsys.readouterr().err.splitlines()[-1] == "m3c-md: state 1 has 0.00% of the frames"
        assert not (tmp_path / "new").exists()


class TestInterrupt:
    def test_during_the_fit_nothing_is_left(self, arrays, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr("m3c_md.clustering.m3c.M3C.fit", interrupt)
        assert main(["fit", *arrays, "--n-states", "2", "--out", str(tmp_path / "new")]) == 130
        assert "interrupted; nothing was written" in capsys.readouterr().err
        assert not (tmp_path / "new").exists()

    def test_with_a_checkpoint_the_same_command_goes_on(self, arrays, tmp_path, capsys, monkeypatch):
        command = ["fit", *arrays, "--n-states", "2", "--checkpoint", str(tmp_path / "steps"), "--out"]
        with monkeypatch.context() as patch:
            patch.setattr("m3c_md.search.candidates.polish_winner", interrupt)
            assert main([*command, str(tmp_path / "new")]) == 130
        last = capsys.readouterr().err.splitlines()[-1]
        assert last == f"m3c-md: interrupted; nothing was written; the same command goes on from {tmp_path / 'steps'}"
        steps = names_in(tmp_path / "steps")
        assert steps
        assert main([*command, str(tmp_path / "new")]) == 0
        assert set(steps) < set(names_in(tmp_path / "steps"))
        assert main(["fit", *arrays, "--n-states", "2", "--out", str(tmp_path / "other")]) == 0
        for name in ("model.m3c", "labels/x0.npy"):
            assert (tmp_path / "new" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()

    def test_later_what_was_finished_stays_and_is_named(self, arrays, three_state_model, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr("m3c_md.clustering.m3c.M3C.fit_fetch", lambda *_, **__: three_state_model)
        monkeypatch.setattr("m3c_md.report.model_report.plot_search", interrupt)
        assert main(["fit", *arrays, "--n-states", "3", "--out", str(tmp_path)]) == 130
        finished = ["features.json", "labels/x0.npy", "labels/x1.npy", "model.m3c", "report.txt"]
        assert names_in(tmp_path) == finished
        last = capsys.readouterr().err.splitlines()[-1]
        assert last.startswith("m3c-md: interrupted; finished and complete")
        assert all(name in last for name in finished)


def interrupt(*_args, **_options):
    raise KeyboardInterrupt


def test_every_picture_is_drawn_once_for_its_file_and_for_the_report(arrays, three_state_model, tmp_path, monkeypatch):
    drawn = []
    begin = Figure.__init__

    def counted(self, *args, **options):
        drawn.append(self)
        begin(self, *args, **options)

    monkeypatch.setattr("m3c_md.clustering.m3c.M3C.fit_fetch", lambda *_, **__: three_state_model)
    monkeypatch.setattr(Figure, "__init__", counted)
    assert main(["fit", *arrays, "--n-states", "3", "--out", str(tmp_path)]) == 0
    pictures = [name for name in names_in(tmp_path) if name.endswith(".png")]
    assert pictures == ["implied_timescales.png", "relevance.png", "search.png", "states.png"]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(drawn) == page.count('role="img"') >= len(pictures)
    # The file has a ground of its own, whereas the page shines through the picture in it.
    assert (matplotlib.image.imread(tmp_path / "search.png")[0, 0] == 1.0).all()


class TestBadInput:
    @pytest.mark.parametrize(
        ("changed", "complaint"),
        [
            (["no-such.npy"], "there is no file 'no-such.npy'"),
            (["FILES", "--n-states", "1000"], "balance=(0.01, 0.99) must satisfy 0 <= lower <= 1/n_states = 0.001"),
            (["FILES", "--lag", "500"], "lag"),
            (["FILES", "--unit", "ns"], "--dt"),
            (["FILES", "--top", "some.pdb"], "--top some.pdb has no meaning"),
        ],
    )
    def test_arrays(self, changed, complaint, arrays, tmp_path, capsys):
        given = [item for name in changed for item in (arrays if name == "FILES" else [name])]
        states = [] if "--n-states" in given else ["--n-states", "2"]
        assert main(["fit", *given, *states, "--out", str(tmp_path / "new")]) == 2
        said = capsys.readouterr().err.splitlines()
        assert said[-1].startswith("m3c-md: ")
        assert complaint in said[-1]
        assert not (tmp_path / "new").exists()

    def test_arrays_that_are_none(self, arrays, tmp_path, capsys):
        bad, wide, nan = tmp_path / "bad.npy", tmp_path / "wide.npy", tmp_path / "nan.npy"
        bad.write_text("hello")
        np.save(wide, np.zeros((10, 3)))
        np.save(nan, np.full((10, 2), np.nan))
        for path, complaint in ((bad, "numpy.save"), (wide, "3 columns"), (nan, "nan at frame 0")):
            assert main(["fit", arrays[0], str(path), "--n-states", "2", "--out", str(tmp_path / "new")]) == 2
            said = capsys.readouterr().err.splitlines()[-1]
            assert str(path) in said
            assert complaint in said

    def test_molecules(self, molecule, arrays, tmp_path, capsys):
        run, top = str(molecule.files[0]), str(molecule.top)
        for given, complaint in (
            ([run], "give --top"),
            ([run, "--top", "missing.pdb"], "missing.pdb"),
            ([run, arrays[0], "--top", top], "files of one sort"),
            ([run, "--top", top, "--dihedrals", "chi9"], "chi9"),
            ([run, "--top", top, "--residues", "resSeq 77"], "resSeq 77"),
        ):
            assert main(["fit", *given, "--n-states", "2", "--out", str(tmp_path / "new")]) == 2
            assert complaint in capsys.readouterr().err.splitlines()[-1]

    def test_a_damaged_file_is_named_in_one_line(self, molecule, tmp_path, capsys):
        (tmp_path / "half.xtc").write_bytes(molecule.files[0].read_bytes()[:-100])
        files = [str(molecule.files[0]), str(tmp_path / "half.xtc")]
        assert main(["fit", *files, "--top", str(molecule.top), "--n-states", "2", "--out", str(tmp_path / "o")]) == 2
        assert "half.xtc is damaged" in capsys.readouterr().err.splitlines()[-1]

    @pytest.mark.parametrize("given", [["--n-states", "1"], ["--lag", "0"], ["--dt", "-1"], ["--stride", "x"], []])
    def test_usage(self, given, arrays, tmp_path, capsys):
        with pytest.raises(SystemExit) as caught:
            main(["fit", *arrays, *given, "--out", str(tmp_path / "new")])
        assert caught.value.code == 2
        assert "usage: m3c-md fit" in capsys.readouterr().err


class TestTransform:
    def test_new_files_get_the_labels_of_the_model(self, fitted, molecule, tmp_path, capsys):
        trajectory, shapes = switching_peptide(100, seed=9)
        trajectory.save(str(tmp_path / "new.xtc"))
        given = [str(fitted / "model.m3c"), str(tmp_path / "new.xtc"), "--top", str(molecule.top)]
        assert main(["transform", *given, "--out", str(tmp_path / "out"), "--json"]) == 0
        labels = np.load(tmp_path / "out" / "labels" / "new.npy")
        features = DihedralFeaturizer().load(tmp_path / "new.xtc", molecule.top)[0]
        np.testing.assert_array_equal(labels, load_model(fitted / "model.m3c").transform(features))
        assert max(np.mean(labels == shapes), np.mean(labels != shapes)) == 1.0
        result = json.loads(capsys.readouterr().out)
        assert result["populations"] == pytest.approx(np.bincount(labels, minlength=2) / 100)
        assert names_in(tmp_path / "out") == sorted(result["written"])

    def test_another_molecule_is_refused(self, fitted, tmp_path, capsys):
        for name, residues, complaint in (
            ("other", ["ACE", "LYS", "NME"], "'sin phi LYS 2', but"),
            ("longer", ["ACE", "ALA", "ALA", "NME"], "8 columns"),
        ):
            random_trajectory(topology_of(residues), 20).save(str(tmp_path / f"{name}.pdb"))
            given = ["transform", str(fitted / "model.m3c"), str(tmp_path / f"{name}.pdb")]
            assert main([*given, "--out", str(tmp_path / "out")]) == 2
            assert complaint in capsys.readouterr().err.splitlines()[-1]

    def test_arrays_do_not_pass_for_dihedrals(self, fitted, arrays, tmp_path, capsys):
        assert main(["transform", str(fitted / "model.m3c"), *arrays, "--out", str(tmp_path / "out")]) == 2
        assert "was fitted to dihedrals (phi psi)" in capsys.readouterr().err

    def test_models_of_arrays(self, three_state_model, molecule, tmp_path, capsys):
        three_state_model.save(tmp_path / "model.m3c")
        run = ["transform", str(tmp_path / "model.m3c")]
        out = ["--out", str(tmp_path / "out")]
        np.save(tmp_path / "x.npy", np.zeros((5, 2)))
        np.save(tmp_path / "wide.npy", np.zeros((5, 3)))
        assert main([*run, str(tmp_path / "x.npy"), *out]) == 2
        assert "features.json is missing" in capsys.readouterr().err
        settings = {"format": "m3c_md features", "version": 1, "dihedrals": None, "residues": None}
        for columns, file, complaint in (
            (["column 0"], "x.npy", "has 1 columns, but"),
            (["column 0", "column 1"], "wide.npy", "wide.npy has 3 columns"),
            (["column 0", "column 1"], str(molecule.files[0]), "was fitted to arrays of 2 columns"),
            ("nonsense", "x.npy", "no feature settings"),
        ):
            (tmp_path / "features.json").write_text(json.dumps({**settings, "columns": columns}))
            assert main([*run, str(tmp_path / file), *out]) == 2
            assert complaint in capsys.readouterr().err
        (tmp_path / "features.json").write_text(json.dumps({**settings, "columns": ["column 0", "column 1"]}))
        assert main([*run, str(tmp_path / "x.npy"), *out]) == 0
        expected = three_state_model.transform(np.zeros((5, 2)))
        np.testing.assert_array_equal(np.load(tmp_path / "out" / "labels" / "x.npy"), expected)

    def test_no_model(self, arrays, tmp_path, capsys):
        assert main(["transform", str(tmp_path / "no.m3c"), *arrays, "--out", str(tmp_path / "out")]) == 2
        assert "no.m3c" in capsys.readouterr().err


@pytest.mark.skipif(not DCD.exists(), reason="needs the shared data")
def test_a_process_of_its_own_prints_json_and_nothing_else(fitted, tmp_path):
    """The DCD reader greets on C's standard output, which only a process of its own shows."""
    program = "import sys; from m3c_md.cli import main; sys.exit(main())"
    given = ["transform", fitted / "model.m3c", DCD / "trajectory-0.dcd", "--top", DCD / "ala2.pdb"]
    command = [sys.executable, "-c", program, *map(str, given), "--out", str(tmp_path / "out"), "--json"]
    done = subprocess.run(command, cwd=Path(m3c_md.__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_frames"] == 9999
    assert "%|" not in done.stderr  # no progress bars in files and pipes
    assert "Traceback" not in done.stderr
