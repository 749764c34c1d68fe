"""Maps of a model of two columns show what the model says: colours, limits, labels."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from m3c_md.exceptions import InputError
from m3c_md.plots import plot_decomposition, state_color
from tests.conftest import quick


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    x = 0.3 * rng.normal(size=(600, 2))
    x[:, 0] += np.repeat([-1.0, 1.0, -1.0, 1.0], 150)
    return quick(2).fit_fetch(x), x


def test_map_colours_follow_the_states(fitted):
    model, x = fitted
    ax = plot_decomposition(model, x, labels=("a / nm", "b / nm"), resolution=60)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a / nm", "b / nm")
    (image,) = ax.images
    pixels, (left, right, bottom, top) = image.get_array(), image.get_extent()
    columns = np.linspace(left, right, pixels.shape[1])
    rows = np.linspace(bottom, top, pixels.shape[0])
    for column, row in ((5, 30), (54, 30)):
        state = int(model.transform(np.array([[columns[column], rows[row]]]))[0])
        shade = 1.0 - pixels[row, column]
        full = 1.0 - np.array(to_rgb(state_color(state)))
        np.testing.assert_allclose(shade / shade.max(), full / full.max(), atol=1e-6)  # same hue, paler


def test_legend_names_every_state_with_its_population(fitted):
    model, x = fitted
    texts = [text.get_text() for text in plot_decomposition(model, x, resolution=40).get_legend().get_texts()]
    assert texts == [f"state {k} ({p:.0%})" for k, p in enumerate(model.populations)]


def test_given_axes_are_used(fitted):
    model, x = fitted
    _, axis = plt.subplots()
    assert plot_decomposition(model, [x[:300], x[300:]], ax=axis, resolution=40) is axis
    assert len(plt.get_fignums()) == 1


def test_models_of_other_dimension_are_refused():
    x = np.repeat([-1.0, 1.0, -1.0, 1.0], 50) + 0.1 * np.random.default_rng(0).normal(size=200)
    with pytest.raises(
        InputError,
        match=r"two columns, this model has 1; plot_state_map\(model, data\) .* plot_residues\(model, data\)",
    ):
        plot_decomposition(quick(2).fit_fetch(x), x)
