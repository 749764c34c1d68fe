"""``m3c-md compare`` and ``m3c-md scan`` print and write their tables and pictures."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from m3c_md.cli import main
from m3c_md.cli.study import COMPARE_FILES, METHODS, SCAN_FILES
from m3c_md.validation.contenders import METHODS as REAL_METHODS
from m3c_md.wording import with_error


def test_compare(molecule, tmp_path, capsys):
    files = [*map(str, molecule.files), "--top", str(molecule.top)]
    options = [
        "--n-states",
        "2",
        "--methods",
        "pcca+",
        "k-medoids",
        "--microstates",
        "10",
        "300",
        "--dt",
        "2",
        "--jobs",
        "1",
    ]
    assert main(["compare", *files, *options, "--out", str(tmp_path)]) == 0
    # PCCA+ and k-medoids do not know the relevance of residues, by which structures are coloured.
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        {*COMPARE_FILES} - {"states.png", "structures/state_*.pdb", "structures/frames.csv"}
    )
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Q of PCCA+" in page
    assert "n_microstates 300 left out" in page
    said = capsys.readouterr()
    assert "warning: n_microstates 300 left out" in said.err
    table = pd.read_csv(tmp_path / "table.csv", index_col=0)
    assert list(table.index) == ["PCCA+", "k-medoids"]
    assert table["setting"].fillna("").tolist() == ["10 cells", ""]
    for text in (said.out, (tmp_path / "report.txt").read_text()):
        assert "2 states at lag time 2 ps, on held-out trajectories:" in text
        assert with_error(*table.loc["PCCA+", ["Q", "Q ±"]]) in text
        assert "PCCA+ (10 cells)" in text
        assert all(len(line) <= 100 for line in text[text.index("2 states at lag") :].splitlines()[:8])
    splits = pd.read_csv(tmp_path / "splits.csv")
    assert splits.groupby("method")["Q"].mean().to_dict() == pytest.approx(table["Q"].to_dict())


def test_compare_with_settings_to_choose_among_as_json(arrays, tmp_path, capsys):
    options = [
        "--methods",
        "tica+pcca+",
        "k-medoids",
        "--components",
        "1",
        "2",
        "--microstates",
        "8",
        "--tica-lag",
        "2",
    ]
    assert main(["compare", *arrays, "--n-states", "2", *options, "--jobs", "1", "--json", "--out", str(tmp_path)]) == 0
    result = json.loads(capsys.readouterr().out)
    tica, medoids = result["table"]
    assert tica["method"] == "TICA + PCCA+"
    assert tica["setting"] in ("1 component, 8 cells", "2 components, 8 cells")
    assert {"Q", "Q in hindsight", "VAMP-2", "t2 ratio", "smallest", "entered", "never visited", "never left"} <= {
        *tica
    }
    assert medoids["Q in hindsight"] is None
    assert tica["method"] in result["verdict"]
    (gap,) = result["differences"]
    assert gap["behind by"] == pytest.approx(abs(tica["Q"] - medoids["Q"]), abs=1e-9)
    assert sorted({row["setting"] for row in result["settings"]}) == ["1 component, 8 cells", "2 components, 8 cells"]
    assert len(pd.read_csv(tmp_path / "settings.csv")) == len(result["settings"])


def test_compare_keeps_finished_fits(arrays, tmp_path, monkeypatch):
    command = ["compare", *arrays, "--n-states", "2", "--methods", "k-medoids", "--jobs", "1"]
    command += ["--checkpoint", str(tmp_path / "fits"), "--out"]
    assert main([*command, str(tmp_path / "one")]) == 0
    assert len(list((tmp_path / "fits").glob("*.json"))) == 3
    monkeypatch.setattr("m3c_md.validation.kept_fits.fit_and_judge", lambda *_: pytest.fail("fitted again"))
    assert main([*command, str(tmp_path / "two")]) == 0
    assert (tmp_path / "one" / "table.csv").read_text() == (tmp_path / "two" / "table.csv").read_text()


def test_compare_knows_the_methods_of_the_package(arrays, tmp_path, capsys):
    assert tuple(REAL_METHODS) == METHODS
    with pytest.raises(SystemExit):
        main(["compare", *arrays, "--n-states", "2", "--methods", "magic", "--out", str(tmp_path)])
    assert "magic" in capsys.readouterr().err


def test_scan(arrays, tmp_path, capsys):
    options = ["--states", "2", "--jobs", "1", "--json", "--out", str(tmp_path)]
    assert main(["scan", *arrays, *options]) == 0
    said = capsys.readouterr()
    result = json.loads(said.out)
    promised = sorted(name for name in SCAN_FILES if not name.startswith("structures/"))  # arrays have none
    assert sorted(path.name for path in tmp_path.iterdir()) == promised == sorted(result["written"])
    assert "2 states are suggested." in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert result["suggestion"] == 2
    assert "Suggested number of states: 2" in said.err
    assert "Suggested number of states: 2" in (tmp_path / "report.txt").read_text()
    assert result["table"][0]["n_states"] == 2
    assert [(row["n_states"], row["state"], row["parent"]) for row in result["tree"]] == [(2, 0, None), (2, 1, None)]
    tree = pd.read_csv(tmp_path / "tree.csv")
    assert tree["population"].tolist() == [row["population"] for row in result["tree"]]
    assert main(["scan", *arrays, *options]) == 2
    assert "exists; choose another folder" in capsys.readouterr().err
