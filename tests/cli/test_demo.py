"""The demonstration does its job, and refuses without doing damage; usage and exit codes."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import mdtraj as md
import numpy as np
import pandas as pd
import pytest

import m3c_md
from m3c_md import DihedralFeaturizer, cli, load_model
from m3c_md.cli.demo import DEMO_FILES, N_STATES, STRUCTURES_PER_STATE
from m3c_md.data import MolecularData, alanine_dipeptide, read_run
from m3c_md.exceptions import DegenerateSolutionError
from m3c_md.validation import metastability
from m3c_md.validation.comparison import Comparison, compare
from m3c_md.wording import with_error

N_FRAMES, N_TRAJECTORIES = 1000, 4
PNG = b"\x89PNG\r\n\x1a\n"


def names_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def short(tmp_path_factory) -> MolecularData:
    """The beginnings of four of the shipped trajectories: enough to find the three states."""
    shipped, folder = alanine_dipeptide(), tmp_path_factory.mktemp("short")
    for path in (shipped.folder / "settings.json", shipped.topology_file):
        shutil.copy(path, folder)
    for path in shipped.trajectory_files:
        md.load(str(path), top=shipped.topology)[:N_FRAMES].save(str(folder / path.name))
    for i, angles in enumerate(shipped.angles[:N_TRAJECTORIES]):
        np.save(folder / f"traj_{i:02d}_dihedrals.npy", angles[:N_FRAMES])
    return read_run(folder)


class Demo(NamedTuple):
    """What a demonstration wrote and said, and what it asked `compare` for."""

    out: Path
    said: str
    errors: str
    asked: dict[str, Any]
    comparison: Comparison


@pytest.fixture(scope="module")
def demo(short, tmp_path_factory) -> Demo:
    """One real run."""
    asked: list[tuple[Any, ...]] = []

    def remembered(*arguments, **options):
        asked.append(({"trajs": arguments[0], "n_states": arguments[1], **options}, compare(*arguments, **options)))
        return asked[-1][1]

    out = tmp_path_factory.mktemp("demo") / "my demo ü"
    said, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(errors):
        patch.setattr("m3c_md.data.alanine_dipeptide", lambda: short)
        patch.setattr("m3c_md.compare", remembered)
        assert cli.main(["demo", "--out", str(out), "--seed", "3", "--jobs", "1"]) == 0
    return Demo(out, said.getvalue(), errors.getvalue(), *asked[0])


@pytest.fixture
def no_fit(short, demo, monkeypatch) -> None:
    """Have the fits of the real run at hand."""
    monkeypatch.setattr("m3c_md.data.alanine_dipeptide", lambda: short)
    monkeypatch.setattr("m3c_md.compare", lambda *_args, **_options: demo.comparison)


class TestResults:
    def test_all_promised_files_are_there_and_nothing_else(self, demo):
        found = names_in(demo.out)
        assert found == sorted(
            [
                *("features.json", "implied_timescales.png", "labels/traj_00.npy", "labels/traj_01.npy"),
                *("metastability.png", "model.m3c", "ramachandran.png", "relevance.png", "report.html"),
                *("report.txt", "search.png"),
                *(f"structures/state_{state}.pdb" for state in range(N_STATES)),
                "structures/frames.csv",
                "table.csv",
            ]
        )
        # All of them are known to be results, so that another run does not overwrite or leave them by accident.
        known = {path for name in DEMO_FILES for path in demo.out.glob(name)}
        assert {path.relative_to(demo.out).as_posix() for path in known} == set(found)
        assert all((demo.out / name).read_bytes().startswith(PNG) for name in found if name.endswith(".png"))

    def test_labels_are_those_of_the_model_for_the_files(self, demo, short):
        features = DihedralFeaturizer().load(short.trajectory_files, short.topology_file)
        model = load_model(demo.out / "model.m3c")
        for path, states in zip(short.trajectory_files, model.transform(features), strict=True):
            np.testing.assert_array_equal(np.load(demo.out / "labels" / f"{path.stem}.npy"), states)

    def test_states_are_those_of_the_textbook(self, demo, short):
        """A left-handed helix (φ > 0), and two states that ψ tells apart."""
        states = np.concatenate([np.load(path) for path in sorted((demo.out / "labels").iterdir())])
        phi, psi = np.concatenate(short.angles[:2]).T
        positive = [np.mean(phi[states == state] > 0.0) for state in range(N_STATES)]
        folded = [np.mean(np.abs(psi[states == state] + 0.17) < 1.4) for state in range(N_STATES)]
        left = int(np.argmax(positive))
        others = [folded[state] for state in range(N_STATES) if state != left]
        assert positive[left] > 0.9
        assert max(others) > 0.9
        assert min(others) < 0.1

    def test_it_fits_the_files_and_judges_by_the_others(self, demo, short):
        for fitted, expected in zip(demo.asked["trajs"], short.features[:2], strict=True):
            np.testing.assert_allclose(fitted, expected, atol=1e-6)
        for judge, expected in zip(demo.asked["test"], short.features[2:], strict=True):
            np.testing.assert_array_equal(judge, expected)

    def test_table_has_the_metastability_of_the_trajectories_that_were_not_fitted(self, demo, short):
        table = pd.read_csv(demo.out / "table.csv", index_col=0)
        assert table.index[0] == "M3C"
        assert any(name.startswith("PCCA+") for name in table.index)
        model = load_model(demo.out / "model.m3c")
        quality = [metastability(model.transform(x), 1, N_STATES) for x in short.features[2:]]
        assert table.loc["M3C", "Q"] == pytest.approx(np.mean(quality))

    def test_structures_belong_to_their_states(self, demo, short):
        model = load_model(demo.out / "model.m3c")
        for state in range(N_STATES):
            frames = md.load(str(demo.out / "structures" / f"state_{state}.pdb"))
            assert (frames.n_frames, frames.n_atoms) == (STRUCTURES_PER_STATE, short.topology.n_atoms)
            assert set(model.transform(DihedralFeaturizer().transform(frames))) == {state}

    def test_it_says_what_it_did_and_where_to_look(self, demo, short):
        assert str(short) in demo.said
        assert f"data: 2 trajectories, {2 * N_FRAMES} frames" in demo.said
        assert f"M3C found {N_STATES} states" in demo.said
        assert "lag time 2 ps" in demo.said
        assert "residues: ALA 2 100.0%" in demo.said
        assert "B-factors: relevance of the residue" in demo.said
        assert with_error(*demo.comparison.table.loc["M3C", ["Q", "Q ±"]]) in demo.said
        assert demo.said.splitlines()[-1] == f"Open the report in a browser: {demo.out / 'report.html'}"
        steps = [demo.said.index(word) for word in ("Reading traj_00.xtc", "Fitting M3C and PCCA+", "Writing labels")]
        assert steps == sorted(steps)
        assert "%|" not in demo.errors  # no progress bars in files
        assert "Traceback" not in demo.errors

    def test_the_page_shows_it_all(self, demo):
        page = (demo.out / "report.html").read_text(encoding="utf-8")
        assert f"<p>{demo.comparison.verdict}</p>" in page
        assert page.count('class="molecule"') == N_STATES
        assert page.count('class="cells"') == len(demo.comparison.models)
        assert len(page.encode()) < 3_000_000

    def test_report_has_the_same_and_the_command(self, demo, short):
        report = (demo.out / "report.txt").read_text(encoding="utf-8")
        assert f"m3c-md {m3c_md.__version__}" in report
        assert "command: m3c-md demo --out" in report
        assert f"{short.trajectory_files[1]}: {N_FRAMES} frames" in report
        findings = demo.said[demo.said.index("M3C found") : demo.said.index("\n\nWriting labels")]
        assert findings in report

    def test_warnings_of_the_methods_are_told_and_reported(self, demo):
        warned = [text for text in demo.comparison.table["warnings"] if text]
        assert warned  # two short trajectories to judge by leave something to warn of
        report = (demo.out / "report.txt").read_text(encoding="utf-8")
        for text in warned:
            assert text in report
            assert text in demo.errors


class TestOptions:
    @pytest.mark.usefixtures("no_fit")
    def test_json_is_one_object_and_all_else_goes_to_standard_error(self, demo, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert cli.main(["demo", "--json"]) == 0
        said = capsys.readouterr()
        result = json.loads(said.out)
        assert result["command"] == "demo"
        assert result["out"] == "m3c-demo"  # here, unless one says where
        assert sorted(result["written"]) == names_in(tmp_path / "m3c-demo")
        assert result["populations"] == pytest.approx(demo.comparison.models["M3C"].populations.tolist())
        assert [row["method"] for row in result["table"]] == list(demo.comparison.table.index)
        assert result["table"][0]["Q"] == pytest.approx(demo.comparison.table.loc["M3C", "Q"])
        assert f"M3C found {N_STATES} states" in said.err

    @pytest.mark.parametrize(("given", "seed", "jobs"), [([], 0, None), (["--seed", "5", "--jobs", "1"], 5, 1)])
    def test_seed_and_jobs_are_passed_on(self, given, seed, jobs, short, tmp_path, monkeypatch, capsys):
        asked: dict[str, Any] = {}

        def remember(_trajs, n_states, **options):
            asked.update(options, n_states=n_states)
            raise KeyboardInterrupt

        monkeypatch.setattr("m3c_md.data.alanine_dipeptide", lambda: short)
        monkeypatch.setattr("m3c_md.compare", remember)
        assert cli.main(["demo", "--out", str(tmp_path / "new"), *given]) == 130
        assert (asked["random_state"], asked["n_jobs"], asked["n_states"]) == (seed, jobs, N_STATES)


class TestExistingFiles:
    @pytest.mark.parametrize("name", ["table.csv", "labels/old.npy", "structures/state_7.pdb", "report.txt"])
    def test_are_kept(self, name, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr("m3c_md.compare", fail_if_called)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("precious")
        assert cli.main(["demo", "--out", str(tmp_path)]) == 2
        said = capsys.readouterr().err
        assert "--force" in said
        assert Path(name).name in said
        assert names_in(tmp_path) == [name]
        assert (tmp_path / name).read_text() == "precious"

    @pytest.mark.usefixtures("no_fit")
    def test_are_replaced_if_asked_for_and_those_of_others_stay(self, demo, tmp_path, capsys):
        for name in ("labels", "structures"):
            (tmp_path / name).mkdir()
        for name in ("table.csv", "labels/old.npy", "structures/state_7.pdb", "mine.txt", "structures/mine.pdb"):
            (tmp_path / name).write_text("old")
        assert cli.main(["demo", "--out", str(tmp_path), "--force"]) == 0
        assert names_in(tmp_path) == sorted([*names_in(demo.out), "mine.txt", "structures/mine.pdb"])
        assert (tmp_path / "table.csv").read_bytes() == (demo.out / "table.csv").read_bytes()
        assert (tmp_path / "mine.txt").read_text() == "old"

    def test_a_file_in_place_of_the_folder_is_kept(self, tmp_path, capsys):
        (tmp_path / "file").write_text("precious")
        assert cli.main(["demo", "--out", str(tmp_path / "file"), "--force"]) == 2
        assert "is a file" in capsys.readouterr().err
        assert (tmp_path / "file").read_text() == "precious"


def fail_if_called(*_args, **_options):
    raise AssertionError("work was done before the folder was looked at")


def interrupt(*_args, **_options):
    raise KeyboardInterrupt


class TestStops:
    def test_an_interrupt_during_the_fit_leaves_nothing(self, short, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr("m3c_md.data.alanine_dipeptide", lambda: short)
        monkeypatch.setattr("m3c_md.compare", interrupt)
        assert cli.main(["demo", "--out", str(tmp_path / "new")]) == 130
        assert capsys.readouterr().err.splitlines()[-1] == "m3c-md: interrupted; nothing was written"
        assert not (tmp_path / "new").exists()

    @pytest.mark.usefixtures("no_fit")
    @pytest.mark.parametrize("moment", ["matplotlib.figure.Figure.savefig", "mdtraj.join"])
    def test_later_what_was_finished_stays_and_is_named(self, moment, demo, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(moment, interrupt)
        assert cli.main(["demo", "--out", str(tmp_path)]) == 130
        finished = names_in(tmp_path)
        assert {"labels/traj_00.npy", "labels/traj_01.npy", "model.m3c", "table.csv"} <= set(finished)
        assert "report.html" not in finished
        assert set(finished) < set(names_in(demo.out))
        last = capsys.readouterr().err.splitlines()[-1]
        assert last.startswith("m3c-md: interrupted; finished and complete")
        assert all(name in last for name in finished)

    def test_no_solution_by_any_method_is_told_in_one_line(self, short, tmp_path, capsys, monkeypatch):
        def lost(*_args, **_options):
            raise DegenerateSolutionError("every method failed:\nM3C: state 2 has 0.00% of the frames")

        monkeypatch.setattr("m3c_md.data.alanine_dipeptide", lambda: short)
        monkeypatch.setattr("m3c_md.compare", lost)
        assert cli.main(["demo", "--out", str(tmp_path / "new")]) == 1
        last = capsys.readouterr().err.splitlines()[-1]
        assert last == "m3c-md: every method failed: M3C: state 2 has 0.00% of the frames"
        assert not (tmp_path / "new").exists()

    def test_no_solution_by_m3c_alone_is_told_in_one_line(self, short, tmp_path, capsys, monkeypatch):
        """PCCA+ has a model then, so that `compare` returns."""

        def lost(*_args, **_options):
            raise DegenerateSolutionError("state 2 has 0.00% of the frames")

        monkeypatch.setattr("m3c_md.data.alanine_dipeptide", lambda: short)
        monkeypatch.setattr("m3c_md.clustering.m3c.M3C.fit", lost)
        assert cli.main(["demo", "--out", str(tmp_path / "new"), "--jobs", "1"]) == 1
        last = capsys.readouterr().err.splitlines()[-1]
        assert last.startswith("m3c-md: ")
        assert "state 2 has 0.00% of the frames" in last
        assert not (tmp_path / "new").exists()

    def test_data_below_a_folder_with_letters_beyond_ascii_are_read(self, short, tmp_path, capsys, monkeypatch):
        """Such as /home/Jürgen/venv; mdtraj's XTC files have trouble with it."""
        shutil.copytree(short.folder, tmp_path / "Jürgen")
        monkeypatch.setattr("m3c_md.data.alanine_dipeptide", lambda: read_run(tmp_path / "Jürgen"))
        monkeypatch.setattr("m3c_md.compare", interrupt)
        assert cli.main(["demo", "--out", str(tmp_path / "new")]) == 130
        assert f"data: 2 trajectories, {2 * N_FRAMES} frames" in capsys.readouterr().out

    def test_missing_data_are_told_in_one_line(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr("m3c_md.data.SHIPPED", tmp_path / "nowhere")
        assert cli.main(["demo", "--out", str(tmp_path / "new")]) == 2
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert str(tmp_path / "nowhere" / "alanine_dipeptide") in said[0]
        assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 2),
        (["fly"], 2),
        (["demo", "--seed", "x"], 2),
        (["demo", "--seed", "-1"], 2),
        (["demo", "--jobs", "0"], 2),
        (["demo", "more"], 2),
        (["--version"], 0),
        (["demo", "--help"], 0),
    ],
)
def test_usage(arguments, code, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == code
    said = capsys.readouterr()
    assert ("usage: m3c-md" in said.err) == (code == 2)
    assert bool(said.out) == (code == 0)
