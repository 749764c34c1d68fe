"""Pictures show what the model says: colours, boundaries, limits, labels."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from m3c_md import M3C
from m3c_md.exceptions import InputError
from m3c_md.plots.decomposition import plot_candidates, plot_decomposition, state_color

matplotlib.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    x = 0.3 * rng.normal(size=(600, 2))
    x[:, 0] += np.repeat([-1.0, 1.0, -1.0, 1.0], 150)
    return M3C(2, random_state=0).fit_fetch(x), x


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


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


def test_given_axes_are_used_and_nothing_is_shown(fitted, monkeypatch):
    model, x = fitted
    monkeypatch.setattr(plt, "show", lambda *_: pytest.fail("a plotting function called show()"))
    _, (left, right) = plt.subplots(1, 2)
    assert plot_decomposition(model, [x[:300], x[300:]], ax=left, resolution=40) is left
    assert plot_candidates(model, ax=right) is right
    assert len(plt.get_fignums()) == 1


def test_candidates_are_all_drawn(fitted):
    model, _ = fitted
    ax = plot_candidates(model)
    drawn = sum(len(line.get_xdata()) for line in ax.lines if line.get_linestyle() == "None")
    assert drawn == len(model.candidates)
    assert "units" in ax.get_xlabel()
    assert {text.get_text() for text in ax.get_legend().get_texts()} == set(model.candidates["start"])


def test_models_of_other_dimension_are_refused():
    x = np.repeat([-1.0, 1.0, -1.0, 1.0], 50) + 0.1 * np.random.default_rng(0).normal(size=200)
    with pytest.raises(InputError, match="two columns, this one has 1"):
        plot_decomposition(M3C(2, random_state=0).fit_fetch(x), x)
