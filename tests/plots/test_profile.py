"""Pictures of profiles: what stands where, and which residues are chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from m3c_md.clustering.profile import StateProfile
from m3c_md.exceptions import InputError
from m3c_md.plots import plot_profile, plot_profile_ramachandran


def made_up(n_residues: int, *, helix: float | None = None, names: list[str] | None = None) -> StateProfile:
    """Two states; φ of residue 1 is at 10°, of residue 2 at 20°, ...; the later a residue, the more it tells."""
    residues = [f"ALA {n}" for n in range(1, n_residues + 1)]
    both = pd.MultiIndex.from_product([range(2), [f"phi {name}" for name in residues]], names=["state", "dihedral"])
    means = np.tile(10.0 * np.arange(1, n_residues + 1), 2)
    angles = pd.DataFrame({"mean": means, "spread": 15.0}, index=both)
    shares = np.arange(1.0, n_residues + 1) / np.arange(1.0, n_residues + 1).sum()
    borders = pd.DataFrame({"state": 0, "neighbour": 1, "dihedral": [f"phi {x}" for x in residues], "share": shares})
    index = pd.MultiIndex.from_product([range(2), residues], names=["state", "residue"])
    table = pd.DataFrame(0.5, index=index, columns=["α", "β", "α_L"])
    if helix is not None:
        table = table.assign(helix=helix, strand=0.0)
    maps = {name: np.ones((2, 72, 72), dtype=int) for name in residues}
    return StateProfile(angles, borders, table, np.array([0.6, 0.4]), names or ["0", "1"], maps, [])


class TestHeatMap:
    def test_numbers_stand_in_their_cells(self) -> None:
        (axis,) = plot_profile(made_up(3))
        texts = {tuple(map(float, text.get_position())): text.get_text() for text in axis.texts}
        assert texts == {(state, row): f"{10 * (row + 1)}" for state in range(2) for row in range(3)}
        assert [label.get_text() for label in axis.get_yticklabels()] == ["ALA 1", "ALA 2", "ALA 3"]

    def test_colours_go_around_in_a_circle(self) -> None:
        (axis,) = plot_profile(made_up(3))
        image = axis.images[0]
        np.testing.assert_allclose(image.cmap(image.norm(-180.0)), image.cmap(image.norm(180.0)), atol=0.02)
        apart = np.subtract(image.cmap(image.norm(-60.0)), image.cmap(image.norm(150.0)))
        assert np.abs(apart).max() > 0.2

    @pytest.mark.parametrize(("helix", "titles"), [(None, ["φ"]), (0.0, ["φ"]), (0.7, ["φ", "helix"])])
    def test_helix_and_strand_have_panels_where_they_occur(self, helix: float | None, titles: list[str]) -> None:
        assert [axis.get_title() for axis in plot_profile(made_up(3, helix=helix))] == titles

    def test_names_of_states(self) -> None:
        (axis,) = plot_profile(made_up(3, names=["folded", "1"]))
        assert [label.get_text() for label in axis.get_xticklabels()] == ["folded", "1"]

    def test_an_angle_that_a_residue_lacks_is_blank(self) -> None:
        profile = made_up(3)
        (axis,) = plot_profile(replace(profile, angles=profile.angles.drop(index="phi ALA 2", level="dihedral")))
        assert np.ma.getmaskarray(axis.images[0].get_array()).tolist() == [[False] * 2, [True] * 2, [False] * 2]

    def test_too_few_axes_are_refused(self) -> None:
        import matplotlib.pyplot as plt

        with pytest.raises(InputError, match="1 axes were given, but 2 are needed"):
            plot_profile(made_up(3, helix=0.5), ax=plt.subplots()[1])


class TestRamachandran:
    def test_a_row_for_each_state_and_a_column_for_each_residue(self) -> None:
        axes = plot_profile_ramachandran(made_up(3, names=["folded", "1"]))
        assert axes.shape == (2, 3)
        assert axes[0, 0].get_ylabel().startswith("folded, 60%")
        assert axes[1, 0].get_ylabel().startswith("state 1, 40%")
        assert [axis.get_title() for axis in axes[0]] == ["ALA 1", "ALA 2", "ALA 3"]

    def test_the_most_telling_of_many_residues_are_drawn(self) -> None:
        axes = plot_profile_ramachandran(made_up(12))
        assert [axis.get_title() for axis in axes[0]] == [f"ALA {n}" for n in range(5, 13)]

    def test_chosen_residues(self) -> None:
        assert plot_profile_ramachandran(made_up(12), residues=["ALA 2"])[0, 0].get_title() == "ALA 2"
        with pytest.raises(InputError, match="'GLY 2' is no residue with phi and psi"):
            plot_profile_ramachandran(made_up(3), residues=["GLY 2"])

    def test_cells_are_where_the_frames_are(self) -> None:
        profile = made_up(1)
        cells = np.zeros((2, 72, 72), dtype=int)
        cells[0, 66, 24] = 5  # ψ from 150 to 155°, φ from -60 to -55°
        profile.maps["ALA 1"] = cells
        image = plot_profile_ramachandran(profile)[0, 0].images[1]
        assert image.get_extent() == [-180, 180, -180, 180]
        assert np.argwhere(image.get_array()[..., 3] > 0).tolist() == [[66, 24]]
        assert image.origin == "lower"
