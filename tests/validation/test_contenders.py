"""The methods by name: which stand in the table, with which settings, and what is refused before data are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from deeptime.clustering import KMeans as DeeptimeKMeans
from sklearn.cluster import DBSCAN, KMeans

from m3c_md import M3C, KMedoids
from m3c_md.clustering.given_estimator import GivenEstimator
from m3c_md.exceptions import InputError
from m3c_md.validation import contenders
from m3c_md.validation.contenders import DEFAULT, METHODS, Choices, Shape, build_methods, usable_numbers

FEW, MANY = Shape(10_000, 4, 5_000), Shape(10_000, 30, 5_000)


def built(methods: Any, shape: Shape = FEW, n_states: int = 3, lagtime: int = 5, **choices: Any) -> dict[str, Any]:
    return build_methods(methods, n_states, lagtime, Choices(**choices), shape)[0]


class TestBuild:
    def test_default_of_few_columns(self) -> None:
        found = built(None, n_microstates=(50, 20))
        assert list(found) == ["M3C", "PCCA+", "MMC", "k-medoids"] == [METHODS[name] for name in DEFAULT]
        assert list(found["PCCA+"]) == ["20 cells", "50 cells"]
        for settings in found.values():
            for setting, estimator in settings.items():
                values = estimator.get_params()
                assert values["n_states"] == 3
                assert values.get("lagtime", 5) == 5
                assert not setting or setting == f"{values['n_microstates']} cells"

    @pytest.mark.parametrize(("n_columns", "joins"), [(8, False), (9, True), (30, True)])
    def test_tica_joins_from_nine_columns_on(self, n_columns: int, joins: bool) -> None:
        assert ("TICA + PCCA+" in built(None, Shape(10_000, n_columns, 5_000))) is joins

    def test_settings_of_tica(self) -> None:
        settings = built("tica+pcca+", MANY, n_components=(5, 2), n_microstates=(50, 100))["TICA + PCCA+"]
        assert len(settings) == 8  # two lag times
        assert list(settings)[:2] == ["2 components at lag 5, 50 cells", "2 components at lag 5, 100 cells"]
        last = settings["5 components at lag 50, 100 cells"].get_params()
        assert (last["n_components"], last["tica_lagtime"], last["n_microstates"], last["lagtime"]) == (5, 50, 100, 5)

    def test_lag_time_of_tica(self) -> None:
        only = built("tica+pcca+", MANY, tica_lagtime=7, n_components=2, n_microstates=50)["TICA + PCCA+"]
        assert list(only) == ["2 components, 50 cells"]
        assert only["2 components, 50 cells"].get_params()["tica_lagtime"] == 7
        short = built("tica+pcca+", Shape(10_000, 30, 400), n_components=2, n_microstates=50)["TICA + PCCA+"]
        assert [one.get_params()["tica_lagtime"] for one in short.values()] == [5]  # 50 would be an eighth of all
        with pytest.raises(InputError, match="tica_lagtime=400 needs trajectories of at least 401 frames"):
            built("tica+pcca+", Shape(10_000, 30, 400), tica_lagtime=400)

    def test_no_more_components_than_columns(self) -> None:
        settings = built("tica+pcca+", FEW, n_components=(2, 5, 10), n_microstates=50, tica_lagtime=1)["TICA + PCCA+"]
        assert list(settings) == ["2 components, 50 cells", "4 components, 50 cells"]
        single = built("tica+pcca+", Shape(500, 1, 500), n_microstates=5, tica_lagtime=1)["TICA + PCCA+"]
        assert list(single) == ["1 component, 5 cells"]

    def test_hidden_markov_model_takes_slow_components_of_many_columns(self) -> None:
        few, many = built("hmm", FEW, n_microstates=50)["HMM"], built("hmm", MANY, n_microstates=50)["HMM"]
        assert [one.get_params()["n_components"] for one in few.values()] == [None]
        assert sorted({one.get_params()["n_components"] for one in many.values()}) == [2, 5, 10]

    def test_in_the_order_given_with_capitals_as_in_the_tables(self) -> None:
        assert list(built(["K-Medoids", "M3C", "m3c"])) == ["k-medoids", "M3C"]
        assert list(built("mmc")) == ["MMC"]

    @pytest.mark.parametrize("name", ["pcca", "PCCA+ (50)", "", None, 3])
    def test_an_unknown_name_lists_the_known(self, name: Any) -> None:
        with pytest.raises(InputError) as caught:
            built(("m3c", name))
        assert repr(name) in str(caught.value)
        assert all(repr(known) in str(caught.value) for known in METHODS)

    @pytest.mark.parametrize("names", [(), [], 7, {}])
    def test_no_names(self, names: Any) -> None:
        with pytest.raises(InputError, match=r"must name at least one of m3c, pcca\+, tica\+pcca\+"):
            built(names)

    def test_microstates_concern_those_that_have_them_only(self) -> None:
        assert build_methods(["k-medoids"], 60, 1, Choices((50, 100)), Shape(20, 2, 20))[1] == []
        with pytest.raises(InputError, match="n_microstates=50 must be a whole number of at least 60"):
            built(["pcca+"], n_states=60, n_microstates=(50, 100))

    @pytest.mark.parametrize(
        ("choice", "message"),
        [
            ({"n_components": 0}, "n_components=0 must be a whole number of at least 1"),
            ({"n_components": []}, "n_components is empty"),
            ({"n_components": "5"}, "n_components='5' must be a number or several"),
            ({"tica_lagtime": 1.5}, "tica_lagtime=1.5 must"),
        ],
    )
    def test_settings_are_refused_before_the_columns_are_known(self, choice: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            build_methods(None, 3, 1, Choices(**choice), Shape())

    def test_messages_are_said_once(self) -> None:
        _, messages = build_methods(["pcca+", "tica+pcca+"], 3, 1, Choices((10, 61)), Shape(600, 2, 600))
        assert messages == ["n_microstates 61 left out: fewer than ten of 600 training frames for each"]

    def test_vampnet_without_torch_is_left_out_with_a_word(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(contenders, "torch_is_missing", lambda: "it needs torch: pip install m3c_md[deep]")
        found, messages = build_methods(["m3c", "vampnet"], 3, 1, Choices(), FEW)
        assert list(found) == ["M3C"]
        assert messages == ["vampnet left out: it needs torch: pip install m3c_md[deep]"]
        with pytest.raises(InputError, match="vampnet left out: it needs torch"):
            build_methods("vampnet", 3, 1, Choices(), FEW)
        monkeypatch.setattr(contenders, "torch_is_missing", lambda: "")
        assert list(build_methods("vampnet", 3, 1, Choices(), FEW)[0]) == ["VAMPnet"]


class TestOfUsers:
    def test_alone_or_beside_ours(self) -> None:
        mine, other = KMeans(3), DeeptimeKMeans(3)
        assert list(built({"mine": mine})) == ["mine"]
        found = built(["m3c", {"mine": mine, "other": other}, "mmc"])
        assert list(found) == ["M3C", "mine", "other", "MMC"]
        assert isinstance(found["mine"][""], GivenEstimator)
        assert found["mine"][""].get_params(deep=False)["estimator"] is mine

    def test_estimators_of_this_package_are_taken_as_they_are(self) -> None:
        tuned = M3C(3, 5, bandwidth=1.0)
        assert built({"tuned": tuned})["tuned"][""] is tuned
        with pytest.raises(InputError, match=r"methods\['tuned'\] has n_states=3, but n_states=4 are compared"):
            built({"tuned": tuned}, n_states=4)

    @pytest.mark.parametrize(
        ("methods", "message"),
        [
            ({"mine": DBSCAN()}, r"methods\['mine'\]=DBSCAN\(\) cannot label frames that it has not seen"),
            ({"mine": 7}, r"methods\['mine'\]=7 cannot label frames"),
            ({"mine": KMeans}, r"methods\['mine'\]=KMeans is a class; give an estimator"),
            ({"": KMeans(3)}, "methods holds the name ''"),
            ({3: KMeans(3)}, "methods holds the name 3"),
            ({"M3C": KMeans(3)}, "holds the name 'M3C' twice, or it is that of a method of ours"),
            ([{"a": KMeans(3)}, {"a": KMeans(3)}], "holds the name 'a' twice"),
        ],
    )
    def test_refused(self, methods: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            built(methods)

    def test_k_medoids_of_ours_is_no_stranger(self) -> None:
        assert isinstance(built({"medoids": KMedoids(3)})["medoids"][""], KMedoids)


class TestNumbersOfMicrostates:
    @pytest.mark.parametrize("given", [40, np.int64(40), [40], (40, 40), range(40, 41), np.array([40]), {40}])
    def test_one_or_several(self, given: Any) -> None:
        assert usable_numbers(given, 3, 400) == ([40], "")

    def test_rising_and_ten_frames_for_each(self) -> None:
        kept, message = usable_numbers((100, 10, 40, 41), 3, 400)
        assert kept == [10, 40]
        assert message == "n_microstates 41, 100 left out: fewer than ten of 400 training frames for each"

    def test_the_smallest_stays_in_any_case(self) -> None:
        assert usable_numbers((200, 50), 3, 30)[0] == [50]

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ((), "n_microstates is empty"),
            (2, "n_microstates=2 must be a whole number of at least 3"),
            ((50, 1), "n_microstates=1 must"),
            (50.0, "n_microstates=50.0 must"),
            ("50", "n_microstates='50' must be a number or several"),
            (None, "n_microstates=None must"),
            ([[50, 100], [200]], r"n_microstates=\[50, 100\] must"),
            (True, "n_microstates=True must"),
        ],
    )
    def test_refused(self, given: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            usable_numbers(given, 3, 1000)
