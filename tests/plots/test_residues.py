"""One Ramachandran plot per residue: the right angles, the right states, and which residues are drawn."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from m3c_md.exceptions import InputError
from m3c_md.plots import plot_residues, state_color
from m3c_md.plots.residues import MOST_RESIDUES
from tests.conftest import quick

NAMES = [f"{function} {kind} ALA {n}" for n in (2, 3) for kind in ("phi", "psi") for function in ("sin", "cos")]
# States of ALA 2; ALA 3 knows nothing about them.
CENTRES = np.array([[-80.0, 150.0], [-60.0, -40.0]])


def columns_of(degrees):
    radians = np.deg2rad(degrees)
    return np.stack([np.sin(radians), np.cos(radians)], axis=-1).reshape(len(degrees), -1)


@pytest.fixture(scope="module")
def angles():
    rng = np.random.default_rng(0)
    states = np.repeat([0, 1] * 20, 30)
    own = CENTRES[states] + 12.0 * rng.normal(size=(1200, 2))
    return np.hstack([own, [-70.0, 0.0] + 12.0 * rng.normal(size=(1200, 2))])


@pytest.fixture(scope="module")
def model(angles):
    return quick(2, bandwidth=2.0).fit_fetch(columns_of(angles))


def state_at(panel, point):
    pixels, (left, right, bottom, top) = np.asarray(panel.images[1].get_array()), panel.images[1].get_extent()
    row = int((point[1] - bottom) / (top - bottom) * pixels.shape[0])
    column = int((point[0] - left) / (right - left) * pixels.shape[1])
    *color, opacity = pixels[row, column]
    return next(k for k in range(8) if np.allclose(to_rgb(state_color(k)), color)) if opacity > 0 else -1


def test_a_panel_shows_the_states_of_its_residue(model, angles):
    x = columns_of(angles)
    axes = plot_residues(model, [x[:500], x[500:]], columns=NAMES)
    assert [panel.get_title() for panel in axes] == ["ALA 2", "ALA 3"]
    wanted = model.transform(columns_of(np.hstack([CENTRES, [[-70.0, 0.0]] * 2])))
    assert [state_at(axes[0], centre) for centre in CENTRES] == wanted.tolist()
    assert state_at(axes[0], (60.0, 40.0)) == -1  # nobody was there
    assert (axes[0].get_xlabel(), axes[0].get_ylabel()) == ("φ / °", "ψ / °")


def test_names_that_the_model_knows_need_not_be_given(model, angles):
    knowing = model.copy()
    knowing.columns = NAMES
    assert len(plot_residues(knowing, columns_of(angles))) == 2
    with pytest.raises(InputError, match=r"give columns=featurizer.describe\(\), or fit with featurizer"):
        plot_residues(model, columns_of(angles))


def test_the_residues_that_matter_most_are_drawn_of_many(model, angles):
    rng = np.random.default_rng(1)
    n = MOST_RESIDUES + 3
    names = [f"{f} {kind} GLY {i}" for i in range(n) for kind in ("phi", "psi") for f in ("sin", "cos")]
    x = columns_of(rng.uniform(-180.0, 180.0, size=(300, 2 * n)))

    class Uniform:
        populations, n_states = np.array([1.0]), 1
        relevance = np.repeat(np.arange(n) / 100.0, 4)

        def transform(self, frames):
            return np.zeros(len(frames), dtype=np.int32)

        def margin(self, frames):
            return np.ones(len(frames))

    axes = plot_residues(Uniform(), x, columns=names)
    assert [panel.get_title() for panel in axes] == [f"GLY {i}" for i in range(3, n)]
    (chosen,) = plot_residues(Uniform(), x, columns=names, residues=["GLY 1"])
    assert chosen.get_title() == "GLY 1"


def test_wrong_input_is_named_before_anything_is_drawn(model, angles):
    x = columns_of(angles)
    with pytest.raises(InputError, match="must be among those with phi and psi, such as ALA 2, ALA 3"):
        plot_residues(model, x, columns=NAMES, residues=["ALA 9"])
    with pytest.raises(InputError, match="columns has 2 names, but data 8 columns"):
        plot_residues(model, x, columns=NAMES[:2])
    with pytest.raises(InputError, match="no residue has both phi and psi"):
        plot_residues(model, x, columns=[f"sin phi ALA {i}" for i in range(8)])
    assert plt.get_fignums() == []


def test_given_axes_are_used(model, angles):
    _, axes = plt.subplots(1, 2)
    assert plot_residues(model, columns_of(angles), columns=NAMES, ax=axes) is axes
    assert len(plt.get_fignums()) == 1
