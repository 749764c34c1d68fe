"""Names of states: carried by the model into tables, files and pictures, and never in the way of numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest

from m3c_md import KMedoids, M3CModel, kinetics, load_model
from m3c_md.exceptions import InputError, ModelFileError
from m3c_md.inputs.state_names import state_file, state_number
from m3c_md.markov.chapman_kolmogorov import chapman_kolmogorov
from m3c_md.plots import plot_chapman_kolmogorov, plot_decomposition, plot_network, plot_state_map, plot_state_tree
from tests.conftest import Wells

matplotlib.use("Agg")
NAMES = ["left", "1", "far right"]


@pytest.fixture(scope="module")
def named(three_state_model: M3CModel) -> M3CModel:
    return three_state_model.rename({0: "left", 2: "far right"})


class TestRename:
    def test_the_first_model_keeps_its_numbers(self, named: M3CModel, three_state_model: M3CModel) -> None:
        assert named.state_names == NAMES
        assert three_state_model.state_names == ["0", "1", "2"]

    def test_labels_and_scores_stay(self, named: M3CModel, three_state_model: M3CModel, three_wells: Wells) -> None:
        x = three_wells.frames
        assert np.array_equal(named.transform(x), three_state_model.transform(x))
        assert np.array_equal(named.decision_function(x), three_state_model.decision_function(x))

    def test_by_the_old_name_and_all_at_once(self, named: M3CModel) -> None:
        assert named.rename({"left": "L", 1: "M"}).state_names == ["L", "M", "far right"]
        assert named.rename(["a", "b", "c"]).state_names == ["a", "b", "c"]

    def test_names_may_be_exchanged(self, named: M3CModel) -> None:
        exchanged = named.rename({"left": "far right", "far right": "left"})
        assert exchanged.state_names == ["far right", "1", "left"]

    @pytest.mark.parametrize(
        ("names", "message"),
        [
            ({3: "x"}, "numbered 0 to 2"),
            ({"right": "x"}, "called left, 1, far right"),
            ({0: "far right"}, "two states"),
            ({0: "1"}, "is a number"),
            ({0: ""}, "must be 3 words"),
            ({0: 7}, "must be 3 words"),
            ({0: "a\nb"}, "one line"),
            ({0: "x" * 61}, "60 letters"),
            ({0: "a", "left": "b"}, "two names for state 0"),
            (["a", "b"], "3 words"),
            ("abc", "3 words"),
            (None, "3 words"),
        ],
    )
    def test_bad_names_are_refused(self, named: M3CModel, names: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            named.rename(names)

    def test_a_state_is_found_by_number_or_name(self) -> None:
        assert [state_number(NAMES, state) for state in ("far right", 2, "1", np.int64(1))] == [2, 2, 1, 1]


class TestFiles:
    def test_names_are_saved(self, named: M3CModel, tmp_path: Path) -> None:
        named.save(tmp_path / "model.m3c")
        assert load_model(tmp_path / "model.m3c").state_names == NAMES

    def test_a_model_without_names_is_written_as_before(self, named: M3CModel) -> None:
        assert "state_names" in named._contents().settings
        assert "state_names" not in named.rename(["0", "1", "2"])._contents().settings

    def test_other_models_have_names_too(self, tmp_path: Path) -> None:
        x = np.tile([[0.0], [0.1], [0.2], [5.0], [5.1]], (11, 1))
        KMedoids(2, random_state=0).fit_fetch(x).rename({1: "β"}).save(tmp_path / "model.m3c")
        assert load_model(tmp_path / "model.m3c").state_names == ["0", "β"]

    @pytest.mark.parametrize("stored", [["a", "a", "b"], ["a"], "abc", ["2", "1", "0"]])
    def test_damaged_names_are_refused(self, named: M3CModel, stored: Any) -> None:
        contents = named._contents()
        contents.settings["state_names"] = stored
        with pytest.raises(ModelFileError, match="state_names"):
            M3CModel._from_contents(contents)

    @pytest.mark.parametrize("name", ["../../etc", "a/b\\c", "COM: 1?", "...", "α-helix"])
    def test_file_names_stay_in_their_folder(self, name: str) -> None:
        word = state_file([name], 0)
        assert word.startswith("0")
        assert not set(word) & set('/\\:?*"<>| ')
        assert Path(f"state_{word}.pdb").name == f"state_{word}.pdb"


class TestTables:
    def test_visits(self, named: M3CModel, three_state_model: M3CModel) -> None:
        visits, plain = named.visits, three_state_model.visits
        assert visits is not None
        assert plain is not None
        assert visits["name"].tolist() == NAMES
        pd.testing.assert_frame_equal(visits.drop(columns="name"), plain)

    def test_kinetics(self, named: M3CModel, three_wells: Wells) -> None:
        dtraj = named.transform(three_wells.frames)
        result = kinetics(dtraj, names=named.state_names, confidence=None)
        plain = kinetics(dtraj, confidence=None)
        assert result.states["name"].tolist() == NAMES
        by_name = result.pairs.set_index(["from name", "to name"])["mfpt"]
        assert by_name["far right", "left"] == plain.pairs["mfpt"][2, 0]
        np.testing.assert_array_equal(result.matrix("rate"), plain.matrix("rate"))
        assert "far right" in repr(result)
        assert "name" not in plain.states

    def test_summary(self, named: M3CModel, three_wells: Wells) -> None:
        summary = named.summary(three_wells.frames, confidence=None)
        assert summary.table["name"].tolist() == NAMES
        assert "| 2 | far right |" in summary.to_markdown()
        assert "far right &" in summary.to_latex()
        assert summary.kinetics.names == NAMES


def texts(axes: Any) -> str:
    """All that is written in the legend and inside of some axes."""
    legend = axes.get_legend()
    return " | ".join([*(t.get_text() for t in axes.texts), *(t.get_text() for t in (legend.texts if legend else ()))])


class TestPictures:
    def test_maps(self, named: M3CModel, three_wells: Wells) -> None:
        assert "far right (" in texts(plot_decomposition(named, three_wells.frames, resolution=20))
        assert "far right: " in texts(plot_state_map(named, three_wells.frames, resolution=20))

    def test_a_second_model_has_the_names_of_the_first(
        self, named: M3CModel, three_state_model: M3CModel, three_wells: Wells
    ) -> None:
        axes = plot_state_map({"a": named, "b": three_state_model}, three_wells.frames, resolution=20)
        assert "far right: " in texts(axes[1])

    def test_network(self, named: M3CModel, three_wells: Wells) -> None:
        result = kinetics(named.transform(three_wells.frames), names=named.state_names, confidence=None)
        assert "far right\n" in texts(plot_network(result))
        assert "other\n" in texts(plot_network(result, names=["other", "b", "c"]))
        with pytest.raises(InputError, match="names="):
            plot_network(result, names=["a", "b"])

    def test_chapman_kolmogorov(self, named: M3CModel, three_wells: Wells) -> None:
        test = chapman_kolmogorov(named.transform(three_wells.frames), 1, 2, confidence=None)
        assert plot_chapman_kolmogorov(test, names=named.state_names)[0, 2].get_title() == "left → far right"

    def test_tree(self) -> None:
        tree = pd.DataFrame(
            {"n_states": [2, 2, 3, 3, 3], "state": [0, 1, 0, 1, 2], "parent": [None, None, 0, 1, 0]}
        ).assign(population=[0.6, 0.4, 0.4, 0.4, 0.2], nested=True, **{"timescale / ps": [90.0, 90, 20, None, 20]})
        assert "far right" in texts(plot_state_tree(tree, names={3: NAMES}))
        with pytest.raises(InputError, match="names="):
            plot_state_tree(tree, names={4: NAMES})
