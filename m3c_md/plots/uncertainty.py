"""Hatched zones in maps of states: where rules that were fitted to resampled trajectories disagree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError

# Shares of the resampled rules that give a frame another state, from which on it is hatched, and how. Every border has
# one half on its line; it is the width of the zone that says how sure the border is.
ZONES = ((0.05, "///"), (0.25, "xxx"))


class ResampledBorders(Protocol):
    """What a map needs of the result of `m3c_md.validation.refit`."""

    model: Any

    def border_uncertainty(self, data: Any) -> Any:
        """Share of the resampled rules that give a frame another state."""


def borders_by_name(given: Any, models: Mapping[str, Any]) -> dict[str, ResampledBorders]:
    """Resampled rules by the names of the models that they belong to, checked; none if none were given.

    Parameters
    ----------
    given : ResampledRules, dict of them, or None
    models : mapping of str to model
        What is drawn; a single one needs no dict.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if len(models) > 1:
            raise InputError(f"uncertainty must be a dict with some of the names {', '.join(models)}")
        given = {next(iter(models)): given}
    for name, rules in given.items():
        if name not in models:
            raise InputError(f"uncertainty has {name!r:.60}, which is not drawn; names are {', '.join(models):.200}")
        if not hasattr(rules, "border_uncertainty"):
            raise InputError(f"uncertainty={rules!r:.60} must be what m3c_md.validation.refit returns")
        if rules.model.n_states != models[name].n_states:
            raise InputError(
                f"uncertainty is of a rule with {rules.model.n_states} states, and the model has "
                f"{models[name].n_states}; draw the model of the same refit, rules.model"
            )
    return dict(given)


def draw_zones(panel: Any, x: FloatArray, y: FloatArray, shares: FloatArray) -> None:
    """Hatch the zones of a map, (len(y), len(x)); cells that are not known (NaN) stay as they are."""
    known = np.ma.masked_invalid(shares)
    levels = [*(least for least, _ in ZONES), 1.01]
    if known.count() and known.max() >= levels[0]:
        panel.contourf(x, y, known, levels=levels, colors="none", hatches=[hatch for _, hatch in ZONES])


def zone_handles() -> list[Any]:
    """Entries of a legend."""
    from matplotlib.patches import Patch

    return [
        Patch(facecolor="none", edgecolor="black", lw=0.0, hatch=hatch, label=f"≥ {least:.0%} of refits disagree")
        for least, hatch in ZONES
    ]
