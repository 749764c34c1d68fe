"""State maps: free energy the right way round, colours that match across methods, periodic axes."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from m3c_md import M3C
from m3c_md.exceptions import InputError
from m3c_md.plots import plot_ramachandran, plot_state_map, state_color
from m3c_md.plots.grid import free_energy, map_domain, nearness
from tests.conftest import quick
from tests.plots._models import NearestCentre

ALANINE = Path(__file__).parents[3] / "shared" / "data" / "alanine_dipeptide_mdshare" / "dihedral_traj0.npy"
CENTRES = np.array([[-2.0, 1.0], [2.0, 1.0], [0.0, -3.0]])


@pytest.fixture(scope="module")
def clouds():
    """Frames around three centres, most of them around the first."""
    rng = np.random.default_rng(0)
    return np.repeat(CENTRES, [300, 200, 100], axis=0) + 0.3 * rng.normal(size=(600, 2))


def sines_and_cosines(degrees):
    angles = np.deg2rad(degrees)
    return np.column_stack([np.sin(angles), np.cos(angles)])


@pytest.fixture(scope="module")
def torsions():
    """Angles of two states, one of which lies across the edge at psi = 180, and a model of their sines and cosines."""
    rng = np.random.default_rng(1)
    centres = np.array([[-80.0, 178.0], [-70.0, -40.0]])
    angles = np.repeat(centres, 200, axis=0) + 15.0 * rng.normal(size=(400, 2))
    columns = sines_and_cosines(angles)
    return angles, columns, NearestCentre(sines_and_cosines(centres), columns)


def states_drawn(ax, points):
    """Opaque colours of the layer of states at points, as (state, opacity); state -1 where nothing is drawn."""
    image = ax.images[1]
    pixels, (left, right, bottom, top) = np.asarray(image.get_array()), image.get_extent()
    found = []
    for x, y in points:
        row = int((y - bottom) / (top - bottom) * pixels.shape[0])
        column = int((x - left) / (right - left) * pixels.shape[1])
        *color, opacity = pixels[row, column]
        names = [k for k in range(8) if np.allclose(to_rgb(state_color(k)), color)]
        found.append((names[0] if opacity > 0 else -1, float(opacity)))
    return found


def boundary_points(ax):
    """Vertices of all boundary lines."""
    paths = [path for collection in ax.collections for path in collection.get_paths()]
    return np.concatenate([path.vertices for path in paths])


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


class TestFreeEnergy:
    def test_minimum_is_the_densest_cell_and_axes_are_not_swapped(self, clouds):
        ax = plot_state_map(NearestCentre(CENTRES, clouds), clouds, bins=20)
        energy = np.ma.filled(ax.images[0].get_array(), np.nan)
        left, right, bottom, top = ax.images[0].get_extent()
        row, column = np.unravel_index(np.nanargmin(energy), energy.shape)
        densest = (left + (column + 0.5) / 20 * (right - left), bottom + (row + 0.5) / 20 * (top - bottom))
        assert np.linalg.norm(densest - CENTRES[0]) < 0.5
        assert np.nanmin(energy) == 0.0

    def test_is_minus_the_logarithm_of_the_share(self):
        points = np.repeat([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]], [8, 4, 1], axis=0)
        energy = free_energy(points, map_domain(points, None), 2)
        np.testing.assert_allclose(energy, [[0.0, np.log(2.0)], [np.nan, np.log(8.0)]])

    def test_counts_across_a_periodic_edge(self):
        points = np.array([[179.0, 0.0], [-179.0, 0.0], [181.0, 360.0], [10.0, 0.0]])
        domain = map_domain(points, (360.0, 360.0))
        energy = free_energy(domain.wrap(points), domain, 3)
        np.testing.assert_allclose(energy[1], [0.0, np.log(2.0), np.log(2.0)])

    def test_has_a_labelled_scale(self, clouds):
        ax = plot_state_map(NearestCentre(CENTRES, clouds), clouds)
        labels = [one.get_ylabel() for one in [*ax.child_axes, *ax.figure.axes]]
        assert "free energy / kT" in labels


class TestStates:
    def test_colours_are_those_of_the_states_and_pale_at_boundaries(self, clouds):
        ax = plot_state_map(NearestCentre(CENTRES, clouds), clouds, labels=("a / nm", "b / nm"))
        inside, boundary = states_drawn(ax, CENTRES), states_drawn(ax, [(0.02, 1.5)])
        assert [state for state, _ in inside] == [0, 1, 2]
        assert boundary[0][1] < 0.3 * min(opacity for _, opacity in inside)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("a / nm", "b / nm")

    def test_shading_does_not_depend_on_the_unit_of_the_margin(self, clouds):
        pictures = [
            plot_state_map(NearestCentre(CENTRES, clouds, margin_unit=unit), clouds, resolution=40)
            .images[1]
            .get_array()
            for unit in (1.0, 1000.0)
        ]
        np.testing.assert_allclose(*pictures, atol=1e-9)

    def test_boundaries_lie_where_the_state_changes(self, clouds):
        ax = plot_state_map(NearestCentre(CENTRES, clouds), clouds, resolution=100)
        distances = np.sort(np.linalg.norm(boundary_points(ax)[:, None] - CENTRES, axis=2), axis=1)
        assert len(distances) > 50
        assert (distances[:, 1] - distances[:, 0]).max() < 0.06  # cells are 0.06 wide

    def test_legend_has_populations(self, clouds):
        ax = plot_state_map(NearestCentre(CENTRES, clouds), clouds)
        assert legend_texts(ax) == ["0: 50%", "1: 33%", "2: 17%"]

    def test_a_model_without_any_margin_is_drawn(self, clouds):
        ax = plot_state_map(NearestCentre(CENTRES, clouds, margin_unit=0.0), clouds, resolution=40)
        assert [state for state, _ in states_drawn(ax, CENTRES)] == [0, 1, 2]
        assert len(boundary_points(ax)) > 0


class TestSeveralModels:
    def test_states_have_the_same_colour_in_every_panel(self, clouds):
        models = {
            "first": NearestCentre(CENTRES, clouds),
            "renumbered": NearestCentre(CENTRES[[2, 0, 1]], clouds),
            "four": NearestCentre([[0.0, -3.0], [-2.0, 1.2], [-2.0, 0.2], [2.0, 1.0]], clouds),
        }
        axes = plot_state_map(models, clouds, resolution=60)
        assert [ax.get_title() for ax in axes] == list(models)
        for ax in axes:
            found = [state for state, _ in states_drawn(ax, CENTRES + np.array([0.0, 0.1]))]
            assert found == [0, 1, 2]
        assert states_drawn(axes[2], [(-2.0, 0.0)])[0][0] == 3
        assert legend_texts(axes[1]) == ["0 (1): 50%", "1 (2): 33%", "2 (0): 17%"]
        patches = axes[1].get_legend().get_patches()
        assert [patch.get_facecolor()[:3] for patch in patches] == [to_rgb(state_color(k)) for k in range(3)]

    def test_free_energy_and_limits_are_shared(self, clouds):
        models = {"a": NearestCentre(CENTRES, clouds), "b": NearestCentre(CENTRES[:2], clouds)}
        first, second = plot_state_map(models, clouds, resolution=40)
        np.testing.assert_array_equal(first.images[0].get_array(), second.images[0].get_array())
        assert first.get_xlim() == second.get_xlim()
        first.figure.canvas.draw()

    def test_given_axes_are_used(self, clouds):
        model = NearestCentre(CENTRES, clouds)
        _, axes = plt.subplots(1, 2)
        assert plot_state_map(model, clouds, ax=axes[0], resolution=20) is axes[0]
        assert not axes[1].images
        assert plot_state_map({"a": model, "b": model}, clouds, ax=axes, resolution=20) is axes
        assert len(plt.get_fignums()) == 1
        with pytest.raises(InputError, match="2 axes were given, but 1 are needed, one per model"):
            plot_state_map(model, clouds, ax=axes)


class TestOtherCoordinates:
    def test_state_across_a_periodic_edge_is_seen_at_both(self, torsions):
        angles, columns, model = torsions
        ax = plot_ramachandran(model, columns, angles, embed=sines_and_cosines, resolution=72)
        assert (ax.get_xlim(), ax.get_ylim()) == ((-180.0, 180.0), (-180.0, 180.0))
        assert [s for s, _ in states_drawn(ax, [(-80, 179), (-80, -179), (-70, -40)])] == [0, 0, 1]
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("φ / °", "ψ / °")
        assert ax.get_xticks().tolist() == [-180, -90, 0, 90, 180]
        lines = boundary_points(ax)
        # Between the states in psi only, along all of phi: no line at the edge psi = 180.
        assert np.abs(np.abs(lines[:, 1]) - 180.0).min() > 30.0
        shown = lines[np.abs(lines[:, 0]) <= 180.0]
        assert shown[:, 0].min() < -175.0
        assert shown[:, 0].max() > 175.0

    def test_radians_give_the_same_picture(self, torsions):
        angles, columns, model = torsions
        first = plot_ramachandran(model, columns, angles, embed=sines_and_cosines, resolution=36)
        second = plot_ramachandran(
            model,
            columns,
            np.deg2rad(angles),
            embed=lambda points: sines_and_cosines(np.rad2deg(points)),
            unit="radians",
            resolution=36,
        )
        for a, b in zip(first.images, second.images, strict=True):
            np.testing.assert_allclose(np.ma.filled(a.get_array(), 9.0), np.ma.filled(b.get_array(), 9.0), atol=1e-9)

    def test_without_embed_cells_have_the_state_of_most_frames_and_empty_ones_none(self, torsions):
        angles, columns, model = torsions
        ax = plot_ramachandran(model, columns, angles, bins=12)
        drawn = [state for state, _ in states_drawn(ax, [(-80, 170), (-80, -170), (-70, -40), (100, 0)])]
        assert drawn == [0, 0, 1, -1]
        assert np.ma.getmaskarray(ax.images[0].get_array())[6, 9] or np.isnan(ax.images[0].get_array()[6, 9])

    def test_majority_decides_and_lines_part_neighbouring_cells(self):
        coordinates = np.array([[0.0, 0.0]] * 3 + [[1.0, 0.0]] * 3 + [[0.0, 1.0]])
        hidden = np.array([[0.0], [0.0], [1.0], [1.0], [1.0], [0.0], [0.0]])
        ax = plot_state_map(NearestCentre([[0.0], [1.0]], hidden), hidden, coordinates=coordinates, bins=2)
        drawn = [state for state, _ in states_drawn(ax, [(0.1, 0.1), (0.9, 0.1), (0.1, 0.9), (0.9, 0.9)])]
        assert drawn == [0, 1, 0, -1]
        (segment,) = ax.collections[0].get_segments()
        np.testing.assert_allclose(segment, [[0.5, -0.05], [0.5, 0.5]])

    def test_one_axis_may_be_periodic(self, clouds):
        ax = plot_state_map(NearestCentre(CENTRES, clouds), clouds, periodic=(None, 12.0), resolution=30)
        assert ax.get_ylim() == (-6.0, 6.0)
        assert ax.get_xlim()[0] < clouds[:, 0].min()

    def test_lists_of_trajectories_give_the_same_picture(self, torsions):
        angles, columns, model = torsions
        whole = plot_ramachandran(model, columns, angles, bins=12)
        parts = plot_ramachandran(model, [columns[:150], columns[150:]], [angles[:150], angles[150:]], bins=12)
        np.testing.assert_array_equal(whole.images[1].get_array(), parts.images[1].get_array())

    def test_input_is_not_changed(self, torsions):
        angles, columns, model = torsions
        before = angles.copy(), columns.copy()
        plot_ramachandran(model, columns, angles, embed=sines_and_cosines, resolution=20)
        plot_ramachandran(model, columns, angles, bins=12)
        np.testing.assert_array_equal(angles, before[0])
        np.testing.assert_array_equal(columns, before[1])


class TestManyColumns:
    @pytest.fixture(scope="class")
    @classmethod
    def fitted(cls):
        """Two states along the sum of the first two of four columns."""
        rng = np.random.default_rng(2)
        x = 0.3 * rng.normal(size=(900, 4))
        x[:, :2] += np.repeat([-1.0, 1.0] * 18, 25)[:, None]
        return quick(2, bandwidth=2.0).fit_fetch(x), x

    def test_states_are_drawn_over_slow_coordinates(self, fitted):
        model, x = fitted
        ax = plot_state_map(model, [x[:500], x[500:]], bins=20)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("slow coordinate 1", "slow coordinate 2")
        states, slow = model.transform(x), model.slow_coordinates(x)
        centres = np.array([np.median(slow[states == k], axis=0) for k in range(2)])
        assert [state for state, _ in states_drawn(ax, centres)] == [0, 1]

    def test_labels_of_the_user_stay(self, fitted):
        ax = plot_state_map(*fitted, labels=("first", "second"))
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("first", "second")

    def test_the_first_model_that_knows_them_gives_the_coordinates(self, fitted):
        model, x = fitted
        other = NearestCentre(np.array([[-1.0] * 4, [1.0] * 4]), x)
        left, right = plot_state_map({"other": other, "M3C": model}, x)
        assert left.get_xlabel() == right.get_xlabel() == "slow coordinate 1"
        assert left.get_xlim() == right.get_xlim()


class TestPaleness:
    def test_colours_are_pale_where_no_frame_is(self, clouds):
        ax = plot_state_map(NearestCentre(CENTRES, clouds), clouds)
        (_, inside), (state, outside) = states_drawn(ax, [CENTRES[0], (-2.5, -3.0)])
        assert state == 2  # the boundary is far away, and so are all frames
        assert outside < 0.2 * inside

    def test_nearness_goes_around_a_periodic_edge(self):
        points = np.array([[179.0, 0.0]])
        here, there = (nearness(points, map_domain(points, (p, 360.0)), 16)[8] for p in (None, 360.0))
        assert there[0] == there[-1] == 1.0
        assert there[7] == 0.0
        assert here.max() == 1.0


class TestUnits:
    def test_radians_without_a_word_are_refused(self, torsions):
        angles, columns, model = torsions
        with pytest.raises(InputError, match=r'looks like radians .*sincos=False.*say unit="radians"'):
            plot_ramachandran(model, columns, np.deg2rad(angles / 2.0))
        assert plt.get_fignums() == []

    def test_small_angles_are_drawn_where_the_unit_is_given(self, torsions):
        angles, columns, model = torsions
        assert plot_ramachandran(model, columns, angles / 100.0, unit="degrees").get_xlabel() == "φ / °"

    def test_degrees_are_no_radians(self, torsions):
        angles, columns, model = torsions
        with pytest.raises(InputError, match=r'no angle in radians .*say unit="degrees"'):
            plot_ramachandran(model, columns, angles, unit="radians")


class TestWrongInput:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({}, "data has 4 columns, a map has two, and no model here knows slow coordinates; give coordinates="),
            ({"embed": sines_and_cosines}, "give coordinates= as well"),
            ({"coordinates": np.zeros((7, 2))}, "coordinates have 7 frames, data 400"),
            ({"coordinates": np.zeros((400, 3))}, "coordinates have 3 columns"),
            ({"coordinates": np.zeros((400, 2)), "embed": lambda p: p}, "data has 4 columns; return an array of shape"),
            ({"coordinates": np.zeros((400, 2)), "periodic": (360.0, -1.0)}, "periodic=-1.0"),
            ({"coordinates": np.zeros((400, 2)), "periodic": (360.0,)}, "must name two periods"),
            ({"coordinates": np.zeros((400, 2)), "bins": 1}, "bins=1"),
        ],
    )
    def test_is_named_before_anything_is_drawn(self, torsions, options, message):
        with pytest.raises(InputError, match=message):
            plot_state_map(torsions[2], torsions[1], **options)
        assert plt.get_fignums() == []

    def test_model_of_other_columns(self, three_state_model, torsions):
        with pytest.raises(InputError, match="4 columns, but the model was fitted to 2"):
            plot_ramachandran(three_state_model, torsions[1], torsions[0])

    def test_no_model(self, clouds):
        with pytest.raises(InputError, match="empty dict"):
            plot_state_map({}, clouds)
        with pytest.raises(InputError, match="model 'M3C' is a M3C without margin; give a fitted model"):
            plot_state_map({"M3C": M3C(2)}, clouds)
        assert plt.get_fignums() == []

    def test_unit_of_angles(self, torsions):
        with pytest.raises(InputError, match="unit='gradians' is not known"):
            plot_ramachandran(torsions[2], torsions[1], torsions[0], unit="gradians")


def test_a_fitted_model_is_drawn(three_state_model, three_wells):
    ax = plot_state_map(three_state_model, three_wells.frames, resolution=60)
    states = three_state_model.transform(three_wells.frames)
    centres = np.array([three_wells.frames[states == k].mean(axis=0) for k in range(3)])
    assert [state for state, _ in states_drawn(ax, centres)] == [0, 1, 2]


@pytest.mark.skipif(not ALANINE.exists(), reason="alanine dipeptide data are not here")
def test_alanine_dipeptide_beta_region_wraps():
    angles = np.rad2deg(np.load(ALANINE)[::40].astype(np.float64))
    columns = sines_and_cosines(angles)
    model = quick(3, bandwidth=1.5).fit_fetch(columns)
    ax = plot_ramachandran({"M3C": model}, columns, angles, embed=sines_and_cosines, resolution=90)[0]
    beta, across, alpha = (state for state, _ in states_drawn(ax, [(-80, 150), (-80, -179), (-80, -20)]))
    assert beta == across == model.transform(sines_and_cosines([[-80.0, 150.0]]))[0]
    assert alpha == model.transform(sines_and_cosines([[-80.0, -20.0]]))[0] != beta


class TestManyMaps:
    def test_more_than_four_come_in_rows_and_do_not_overlap(self, clouds):
        axes = plot_state_map({f"method {i}": NearestCentre(CENTRES, clouds) for i in range(5)}, clouds, bins=20)
        axes[0].figure.canvas.draw()
        boxes = [panel.get_tightbbox() for panel in axes]
        assert len({round(panel.get_position().y0, 3) for panel in axes}) == 2
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
        assert [bool(panel.get_ylabel()) for panel in axes] == [True, False, False, True, False]
