"""State trajectories are no coordinates: refused by every fit, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from m3c_md import compare, scan_states
from m3c_md.cli import main
from m3c_md.exceptions import InputError
from m3c_md.inputs.coordinates import check_coordinates
from tests.clustering.test_common_face import MAKERS, by_name
from tests.conftest import hidden_markov_wells

MICRO = np.random.default_rng(0).integers(0, 200, 4000)
STATES = {
    "array": MICRO,
    "unsigned": MICRO.astype(np.uint16),
    "list of arrays": [MICRO[:2000], MICRO[2000:]],
    "numbers": MICRO.tolist(),
    "column": MICRO[:, None],
    "column of lists": MICRO[:, None].tolist(),
    "second of several": [MICRO.astype(float), MICRO],
    "series": pd.Series(MICRO),
    "table": pd.DataFrame({"state": MICRO}),
    "pair": (MICRO[:-1], MICRO[1:]),
    "few states": np.repeat([0, 1, 0, 1], 50),
    "numbered from one": np.repeat([1, 2, 1, 2], 50)[:, None],
}
COORDINATES = {
    "floats": MICRO.astype(float),
    "column of floats": MICRO.astype(np.float32)[:, None],
    "integers that do not come again": np.random.default_rng(0).integers(0, 10**6, (4000, 1)),
    "integers with gaps": 10 * MICRO[:, None],
    "negative integers": MICRO[:, None] - 100,
    "two columns": np.column_stack([MICRO, MICRO]),
    "truth values": MICRO[:, None] > 100,
    "list of floats": [[0.0], [1.0], [1.0]],
    # What is no data at all is refused by `Dataset.of`.
    "nothing": None,
    "text": "run1.npy",
    "no trajectory": [],
    "no frame": np.empty(0, dtype=int),
    "masked": np.ma.array(MICRO, mask=MICRO > 100),
    "ragged": [[0, 1], [2]],
    "dictionary": {0: MICRO},
    "iterator": iter([1, 2]),
    "number": 7,
}


@pytest.mark.parametrize("name", STATES)
def test_states_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="looks like a state trajectory, not coordinates; give the coordinates that"):
        check_coordinates(STATES[name])


@pytest.mark.parametrize("name", COORDINATES)
def test_all_else_is_not_ours(name: str) -> None:
    check_coordinates(COORDINATES[name])


def test_the_message_says_what_it_got() -> None:
    with pytest.raises(InputError, match=r"^trajectory 1 holds whole numbers from 0 to 199 in one dimension: that"):
        check_coordinates(STATES["second of several"])
    with pytest.raises(InputError, match=r"^data holds .*, or a true coordinate as floats of shape \(n_frames, 1\)$"):
        check_coordinates(MICRO)
    with pytest.raises(InputError, match=r"^X of the pair \(X, Y\) holds whole numbers"):
        check_coordinates(STATES["pair"])


class InAFile:
    """An array that may not be read whole."""

    def __init__(self, values: np.ndarray) -> None:
        self._values, self.shape, self.dtype = values, values.shape, values.dtype

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, rows: slice) -> np.ndarray:
        assert rows.stop is not None
        assert rows.stop <= 10_000
        return self._values[rows]


def test_files_are_not_read_whole() -> None:
    with pytest.raises(InputError, match=r"^data begins with whole numbers from 0 to 199 in one dimension"):
        check_coordinates(InAFile(np.tile(MICRO, 5)))


def test_floats_in_files_are_not_read_at_all() -> None:
    values = InAFile(MICRO.astype(float))
    values._values = None  # type: ignore[assignment]
    check_coordinates([values])


@by_name
class TestFits:
    def test_refuse_states(self, name: str) -> None:
        for data in (MICRO, [MICRO], (MICRO[:-1], MICRO[1:]), MICRO[:, None]):
            with pytest.raises(InputError, match="whole numbers from 0 to 199 in one dimension"):
                MAKERS[name]().fit(data)

    def test_take_floats(self, name: str) -> None:
        x = np.round(10.0 * hidden_markov_wells(600, 2, stay=0.9).frames[:, :1])
        assert MAKERS[name](2).fit_fetch(x).n_states == 2
        assert MAKERS[name](2).fit_fetch(x).transform(x.astype(int)).shape == (600,)  # a model knows its columns


class TestStudies:
    def test_compare_refuses_states(self) -> None:
        trajs: list[Any] = [hidden_markov_wells(200, 2, seed).frames[:, 0] for seed in (0, 1)]
        with pytest.raises(InputError, match="trajectory 0 holds whole numbers"):
            compare([MICRO, MICRO], 2)
        with pytest.raises(InputError, match="data holds whole numbers"):
            compare(trajs, 2, test=MICRO)

    def test_scan_refuses_states(self) -> None:
        with pytest.raises(InputError, match="data holds whole numbers"):
            scan_states(MICRO, 2)

    @pytest.mark.parametrize("command", [["fit", "--n-states", "2"], ["compare", "--n-states", "2"], ["scan"]])
    def test_commands_refuse_states(self, command: list[str], tmp_path: Path, capsys: Any) -> None:
        np.save(tmp_path / "dtraj.npy", MICRO)
        assert main([*command, str(tmp_path / "dtraj.npy"), "--out", str(tmp_path / "out")]) == 2
        said = capsys.readouterr().err
        assert f"{tmp_path / 'dtraj.npy'} holds whole numbers from 0 to 199 in one dimension" in said
