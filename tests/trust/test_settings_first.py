"""Settings are checked before any data are read: a typo is told at once, not after an hour of reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from sklearn.decomposition import PCA

from m3c_md import M3C, MMC, KMedoids, PCCAPlus, compare, scan_states
from m3c_md.cli import main
from m3c_md.clustering.state_estimator import StateEstimator
from m3c_md.exceptions import InputError


class Untouchable:
    """Data that nobody may look at, in whatever way."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise AssertionError(f"the data were asked for {name!r}")

    def __len__(self) -> NoReturn:
        raise AssertionError("the data were counted")

    def __iter__(self) -> NoReturn:
        raise AssertionError("the data were gone through")

    def __getitem__(self, place: object) -> NoReturn:
        raise AssertionError("the data were sliced")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise AssertionError("the data were converted")


SHARED = {"n_states": 1, "scale": "sideways", "random_state": "seven"}
MARGIN = {
    **SHARED,
    "bandwidth": "wide",
    "n_features": 0,
    "regularization": -1.0,
    "balance": (0.9, 0.99),
    "starts": ("kinetik",),
    "selection": "best",
    "features": "fancy",
    "n_coarse": 0,
    "max_iterations": 0,
    "tolerance": -1,
    "gap": 2.0,
    "metric": "fast",
    "n_jobs": 0,
    "progress": 3,
}
WRONG: dict[type[StateEstimator], dict[str, Any]] = {
    M3C: {**MARGIN, "lagtime": 0, "reweight": "yes"},
    MMC: MARGIN,
    KMedoids: {**SHARED, "n_restarts": 0},
    PCCAPlus: {**SHARED, "lagtime": 0, "n_microstates": 2, "discretization": "grid", "n_restarts": 0},
}
MORE_WRONG: list[tuple[type[StateEstimator], dict[str, Any], str]] = [
    (M3C, {"starts": ()}, "starts"),
    (M3C, {"starts": ("relaxation",), "n_coarse": 2}, "n_coarse=2 must be a whole number of at least 3"),
    (M3C, {"starts": (np.array([0.5, 1.5]),)}, "a start that is not a name must be integer states"),
    (M3C, {"balance": "even"}, "balance='even' must be two numbers"),
    (M3C, {"bandwidth": []}, "bandwidth is empty"),
    (M3C, {"bandwidth": (1.0, -1.0)}, "bandwidth=-1.0"),
    (M3C, {"n_features": "many"}, "n_features='many'"),
    (M3C, {"metric": None}, "metric=None is neither a name nor a matrix of numbers; give one of 'auto', 'standard'"),
    (M3C, {"metric": np.eye(2) * np.nan}, "^metric=(?s:.)* has entries that are not finite; replace them"),
    (M3C, {"metric": np.zeros((2, 2))}, "^metric=(?s:.)* is zero, so that all frames are alike"),
    (M3C, {"metric": [[1.0], [1.0, 2.0]]}, "^metric=.* is neither a name nor a matrix of numbers"),
    (M3C, {"metric": np.ones((2, 2, 2))}, "^metric=(?s:.)* is neither a name nor a matrix of numbers"),
    (M3C, {"metric": PCA}, "^metric=.* is a class; give one of its instances"),
    (MMC, {"metric": "kinetic"}, "^metric='kinetic' needs pairs of frames"),
]


def refused(estimator: StateEstimator, message: str, **options: Any) -> None:
    with pytest.raises(InputError, match=message):
        estimator.fit(Untouchable(), **options)


class TestEstimators:
    @pytest.mark.parametrize("kind", WRONG, ids=lambda kind: kind.__name__)
    def test_every_parameter_is_tried(self, kind: type[StateEstimator]) -> None:
        assert set(WRONG[kind]) == set(kind(3).get_params())

    @pytest.mark.parametrize(
        ("kind", "name"), [(kind, name) for kind, wrong in WRONG.items() for name in wrong], ids=str
    )
    def test_a_wrong_parameter_is_told_first(self, kind: type[StateEstimator], name: str) -> None:
        refused(kind(**{"n_states": 3, name: WRONG[kind][name]}), f"^{name}=")

    @pytest.mark.parametrize(("kind", "settings", "message"), MORE_WRONG)
    def test_so_is_this(self, kind: Any, settings: dict[str, Any], message: str) -> None:
        refused(kind(3, **settings), message)

    @pytest.mark.parametrize("kind", [M3C, MMC])
    def test_so_are_the_options_of_fit(self, kind: Any, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        refused(kind(3, random_state=0), "^client=7 has no methods", client=7)
        refused(kind(3, random_state=0), "is a file; give the path of a folder", checkpoint=tmp_path / "file")
        refused(kind(3), "^random_state=None does not give the same numbers", checkpoint=tmp_path / "folder")

    @pytest.mark.parametrize("kind", WRONG, ids=lambda kind: kind.__name__)
    def test_good_settings_do_look_at_the_data(self, kind: type[StateEstimator]) -> None:
        with pytest.raises(AssertionError, match="the data were"):
            kind(3).fit(Untouchable())


COMPARE: dict[str, Any] = {
    "n_states": 1,
    "methods": ("m3d",),
    "lagtime": 0,
    "lagtimes": [0],
    "allow_overlap": "yes",
    "n_microstates": 1,
    "n_components": 0,
    "tica_lagtime": 0,
    "dt": 0.0,
    "unit": "",
    "random_state": "seven",
    "n_jobs": 0,
    "progress": 3,
}
SCAN: dict[str, Any] = {
    name: COMPARE[name] for name in ("n_states", "lagtime", "dt", "unit", "random_state", "n_jobs", "progress")
}


class TestStudies:
    @pytest.mark.parametrize("name", COMPARE)
    def test_compare(self, name: str) -> None:
        with pytest.raises(InputError, match=f"^{name}="):
            compare(Untouchable(), **{"n_states": 3, "test": Untouchable(), name: COMPARE[name]})

    @pytest.mark.parametrize("name", [*SCAN, "n_resamples"])
    def test_scan(self, name: str) -> None:
        with pytest.raises(InputError, match=f"^{name}="):
            scan_states(Untouchable(), **{"n_states": [2, 3], name: SCAN.get(name, 0)})

    def test_checkpoints(self, tmp_path: Path) -> None:
        for study in (compare, scan_states):
            with pytest.raises(InputError, match=r"^random_state=None does not give the same numbers"):
                study(Untouchable(), 3, checkpoint=tmp_path)  # type: ignore[operator]

    def test_numbers_of_microstates_may_come_from_a_generator(self) -> None:
        rng = np.random.default_rng(0)
        trajs = [np.repeat([-1.0, 1.0] * 15, 20) + 0.2 * rng.normal(size=600) for _ in range(2)]
        numbers = (number for number in (8, 10))
        result = compare(trajs, 2, methods=["pcca+"], n_microstates=numbers, random_state=0, n_jobs=1)
        assert result.settings["setting"].unique().tolist() == ["8 cells", "10 cells"]


class TestCommands:
    """Files that are not there are not missed as long as something else is wrong."""

    @pytest.mark.parametrize("command", [["fit", "--n-states", "2"], ["compare", "--n-states", "2"], ["scan"]])
    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (["--jobs", "100000"], "n_jobs=100000 is more than"),
            (["--checkpoint", "FILE"], "is a file; give the path of a folder"),
        ],
    )
    def test_options(self, command: list[str], wrong: list[str], message: str, tmp_path: Path, capsys: Any) -> None:
        (tmp_path / "FILE").write_text("")
        given = [str(tmp_path / "FILE") if text == "FILE" else text for text in wrong]
        assert main([*command, "missing.npy", *given, "--out", str(tmp_path / "out")]) == 2
        assert message in capsys.readouterr().err

    def test_numbers_of_states_and_microstates(self, tmp_path: Path, capsys: Any) -> None:
        out = ["--out", str(tmp_path / "out")]
        assert main(["fit", "missing.npy", "--n-states", "300", *out]) == 2
        assert "balance=(0.01, 0.99) must satisfy" in capsys.readouterr().err
        assert main(["compare", "missing.npy", "--n-states", "30", "--microstates", "20", *out]) == 2
        assert "n_microstates=20 must be a whole number of at least 30" in capsys.readouterr().err
