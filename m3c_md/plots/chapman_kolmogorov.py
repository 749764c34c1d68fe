"""Chapman-Kolmogorov test: predictions of a Markov model beside estimates at longer lag times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from m3c_md.arrays import FloatArray
from m3c_md.confidence import CONFIDENCE, confidence_band
from m3c_md.exceptions import InputError
from m3c_md.inputs.state_names import check_state_names, default_names
from m3c_md.plots.axes import panels, time_units
from m3c_md.plots.colors import state_color


def plot_chapman_kolmogorov(test: Any, *, names: Sequence[str] | None = None, axes: Any = None) -> Any:
    """Draw a Chapman-Kolmogorov test: a panel for every pair of states, the colour that of the state of departure.

    Lines (with a 95 % band) are predictions of the model, points (with 95 % bars) are estimates at the longer lag time.

    Parameters
    ----------
    test : ChapmanKolmogorovTest
        deeptime's or a subclass; ``dt`` and ``unit`` attributes give the axes their unit.
    names : sequence of str, optional
        What the states are called, e.g. ``model.state_names``.
    axes : (n_states, n_states) array of axes, optional
        A new figure by default.

    Returns
    -------
    (n_states, n_states) array of axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from deeptime.util.validation import ChapmanKolmogorovTest
    >>> p = np.stack([np.linalg.matrix_power([[0.9, 0.1], [0.2, 0.8]], k) for k in range(4)])
    >>> axes = plot_chapman_kolmogorov(ChapmanKolmogorovTest([0, 1, 2, 3], p, None, p, None, None))
    >>> axes[0, 1].get_title(), axes[1, 0].get_xlabel()
    ('0 → 1', 'lag time / frame')
    """
    if not all(hasattr(test, name) for name in ("lagtimes", "predictions", "estimates", "n_components")):
        raise InputError(
            f"test is a {type(test).__name__}; give deeptime's ChapmanKolmogorovTest, e.g. the result of "
            "deeptime.util.validation.ck_test"
        )
    n = int(test.n_components)
    called = default_names(n) if names is None else check_state_names(names, n)
    (dt,), unit = time_units([test])
    times = np.asarray(test.lagtimes) * dt
    grid = panels(axes, (n, n), "pair of states", (1.9 * n + 0.8, 1.8 * n + 0.5), sharex=True, sharey=True)
    predicted, estimated = np.real(test.predictions), np.real(test.estimates)
    predicted_band = _band(test.predictions_samples, predicted.shape)
    estimated_band = _band(test.estimates_samples, estimated.shape)
    for i, j in np.ndindex(n, n):
        panel, color = grid[i, j], state_color(i)
        panel.plot(times, predicted[:, i, j], color=color, lw=1.8)
        panel.fill_between(times, *predicted_band[:, :, i, j], color=color, alpha=0.25, lw=0)
        panel.vlines(times, *estimated_band[:, :, i, j], color="black", lw=1.0)
        panel.plot(times, estimated[:, i, j], "o", ms=4, mfc="white", mec="black", mew=1.0)
        panel.set_title(f"{called[i]} → {called[j]}", fontsize="medium")
        panel.set(ylim=(-0.03, 1.03), yticks=(0.0, 0.5, 1.0), xlim=(0.0, 1.05 * times.max()))
        if i == n - 1:
            panel.set_xlabel(f"lag time / {unit}")
        if j == 0:
            panel.set_ylabel("probability")
    _legend(grid[0, n - 1], bool(np.isfinite(predicted_band).any()), bool(np.isfinite(estimated_band).any()))
    return grid if axes is None else axes


def _band(samples: Sequence[ArrayLike] | None, shape: tuple[int, ...]) -> FloatArray:
    """Percentiles of the samples of every lag time, (2, *shape); lag times may have different numbers of them."""
    bounds = np.full((2, *shape), np.nan)
    for lag, one in enumerate([] if samples is None else samples):
        if one is not None and len(np.asarray(one)):
            bounds[:, lag] = confidence_band(np.moveaxis(np.real(np.asarray(one)), 0, -1))
    return bounds


def _legend(panel: Any, has_band: bool, has_bars: bool) -> None:
    """In dark grey, since the colour of a panel names a state."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    share = f", {CONFIDENCE:.0%}"
    line, band = Line2D([], [], color="0.35", lw=1.8), Patch(color="0.35", alpha=0.25, lw=0)
    points = Line2D(
        [], [], ls="-" if has_bars else "", color="black", lw=1.0, marker="o", ms=4, mfc="white", mec="black"
    )
    panel.legend(
        [(band, line) if has_band else line, points],
        ["predicted" + share * has_band, "estimated" + share * has_bars],
        fontsize="small",
        loc="best",
    )
