"""What to do where every candidate of a search has lost a state: other settings, and which of their answers to take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from m3c_md.exceptions import DegenerateSolutionError
from m3c_md.search.candidates import search
from m3c_md.search.failures import Failure, failed_starts
from m3c_md.search.local_search import SearchSettings
from m3c_md.search.problem import SearchProblem
from m3c_md.search.selection import Candidate
from m3c_md.search.trials import Start, scouting

# Lower bounds on the labels tried in turn when every candidate has lost a state. Rarer states: if they leave so many
# windows to a state, and nobody asked for states much larger than by default. Tighter ones, as shares of 1/κ.
RARER_BALANCE = (0.003, 0.001)
FEWEST_WINDOWS = 10
LARGEST_LOOSENED = 0.02
TIGHTER_BALANCE = (0.25, 0.5)
# A solution whose Q comes as close as this to the number of states is taken at once.
CLEARLY_METASTABLE = 0.5


def search_until_populated(
    problem: SearchProblem, bandwidths: Sequence[float], starts: Sequence[Start], **options: Any
) -> tuple[list[Candidate], SearchSettings, list[Failure]]:
    """Search, and where every candidate is degenerate search again with other settings.

    There are two reasons. A state may be rarer than the balance allows for; then a smaller bound finds it. Or states
    overlap, and leaving ϱ_l of the labels wrong, at a cost of 3ϱ_l, is cheaper than keeping them apart; then labels are
    left as the starts had them. The objectives of different settings do not compare, so of what is found this way the
    most metastable is taken. If nothing is, labels are held closer to balance.

    Returns
    -------
    candidates : list of Candidate
    settings : SearchSettings
        Those that it took.
    failures : list of Failure
        Starts and candidates that failed on the way.
    """
    settings = problem.settings
    failures: list[Failure] = []
    options["failures"] = failures
    try:
        return search(problem, bandwidths, starts, **options), settings, failures
    except DegenerateSolutionError as error:
        failure = error
    found: list[tuple[list[Candidate], SearchSettings]] = []
    for other in _other_settings(settings, problem.n_windows, len(problem.data.windows)):
        if found and other.balance[0] > settings.balance[0]:
            break  # states held closer to balance are for where nothing else is left
        # Overlapping states deserve no long search.
        some = bandwidths if other.balance[0] < settings.balance[0] else scouting(bandwidths)
        try:
            found.append((search(replace(problem, settings=other), some, starts, **options), other))
        except DegenerateSolutionError:
            continue
        quality = found[-1][0][0].metastability
        if not quality <= settings.n_states - CLEARLY_METASTABLE:  # or not a number, for single frames
            break
    if not found and failures:
        raise DegenerateSolutionError(f"{failure} Besides, {'; '.join(failed_starts(failures))}.") from failure
    if not found:
        raise failure
    return *max(found, key=lambda one: np.nan_to_num(one[0][0].metastability)), failures


def _other_settings(settings: SearchSettings, n_windows: int, n_slices: int) -> list[SearchSettings]:
    """What to try, in this order, where the settings asked for leave some state empty."""
    lower, upper = settings.balance
    shares = [step / settings.n_states for step in TIGHTER_BALANCE if step / settings.n_states > lower]
    tighter = [replace(settings, balance=(share, upper), least_population=settings.guard) for share in shares]
    if n_slices == 1:  # single frames do not tell whether a rare state, or a start, is metastable
        return tighter
    shares = [share for share in RARER_BALANCE if share < lower <= LARGEST_LOOSENED]
    rarer = [replace(settings, balance=(x, upper)) for x in shares if x * n_windows >= FEWEST_WINDOWS]
    return [*rarer, replace(settings, hold_labels=True), *tighter]
