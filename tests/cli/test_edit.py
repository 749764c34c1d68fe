"""``m3c-md edit`` names and merges states of a saved model, and leaves nothing half done."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from m3c_md import M3C, KMedoids, load_model
from m3c_md.cli import main

FRAMES = np.repeat([-2.0, 0.0, 2.0, 0.0] * 20, 20)[:, None] + 0.2 * np.random.default_rng(0).normal(size=(1600, 1))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    M3C(3, bandwidth=1.0, starts=("kinetic",), random_state=0).fit_fetch(FRAMES).save(folder / "model.m3c")
    (folder / "features.json").write_text("{}")
    return folder / "model.m3c"


def test_names_and_merged_states(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, out = saved.read_bytes(), tmp_path / "new" / "model.m3c"
    options = ["--rename", "0=middle", "--merge", "sides=1,2", "--json", "--out", str(out)]
    assert main(["edit", str(saved), *options]) == 0
    assert json.loads(capsys.readouterr().out)["state_names"] == ["sides", "middle"]
    old, new = load_model(saved), load_model(out)
    assert new.state_names == ["sides", "middle"]
    np.testing.assert_array_equal(new.transform(FRAMES), (old.transform(FRAMES) == 0).astype(int))
    assert saved.read_bytes() == before
    assert (out.parent / "features.json").read_text() == "{}"


def test_states_to_merge_go_by_their_new_names_too(saved: Path, tmp_path: Path) -> None:
    out = tmp_path / "new.m3c"
    edits = ["--rename", "1=left", "2=right", "--merge", "sides=left,right"]
    assert main(["edit", str(saved), *edits, "--out", str(out)]) == 0
    assert load_model(out).state_names == ["sides", "1"]


def test_states_may_be_given_by_name_and_the_input_replaced_if_told(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.m3c"
    path.write_bytes(saved.read_bytes())
    assert main(["edit", str(path), "--rename", "0=a", "2=c", "--out", str(path), "--force"]) == 0
    assert main(["edit", str(path), "--rename", "c=d", "--out", str(path), "--force"]) == 0
    assert load_model(path).state_names == ["a", "1", "d"]
    assert main(["edit", str(path), "--merge", "a,d", "--out", str(tmp_path / "merged.m3c")]) == 0
    assert load_model(tmp_path / "merged.m3c").state_names == ["a+d", "1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "nothing to do"),
        (["--rename", "7=x"], "numbered 0 to 2"),
        (["--rename", "coil=x"], "no such state"),
        (["--rename", "helix"], "STATE=NAME"),
        (["--rename", "0=a", "0=b"], "two names"),
        (["--rename", "0="], "names="),
        (["--merge", "0,9"], "numbered 0 to 2"),
        (["--merge", "0"], "at least two"),
        (["--merge", "0,0"], "twice"),
        (["--merge", "0,1,2"], "single state"),
    ],
)
def test_wrong_edits_write_nothing(
    saved: Path, options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["edit", str(saved), *options, "--out", str(tmp_path / "new" / "model.m3c")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_existing_files_stay(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = saved.read_bytes()
    assert main(["edit", str(saved), "--rename", "0=a", "--out", str(saved)]) == 2
    assert "--force" in capsys.readouterr().err
    assert saved.read_bytes() == before
    (tmp_path / "features.json").write_text("of another fit")
    assert main(["edit", str(saved), "--rename", "0=a", "--out", str(tmp_path / "a.m3c")]) == 2
    assert "another fit" in capsys.readouterr().err
    assert not (tmp_path / "a.m3c").exists()


def test_models_without_scores_cannot_be_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    KMedoids(3, random_state=0).fit_fetch(FRAMES).save(tmp_path / "model.m3c")
    assert main(["edit", str(tmp_path / "model.m3c"), "--merge", "0,1", "--out", str(tmp_path / "b.m3c")]) == 2
    assert "cannot be merged" in capsys.readouterr().err
