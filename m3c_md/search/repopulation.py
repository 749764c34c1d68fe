"""Biases that give every state some frames: the end of a search in which every rule has left a state without any.

States that overlap, or that are not there, may be left without frames even by rules for labels that are held. What
such a rule says about the others is worth having all the same. So the scores of empty states are raised, each just
enough for the frames that are closest to it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.frames.windows import equally_spaced
from m3c_md.optimize.blocks import Rule
from m3c_md.search.label_modes import HELD
from m3c_md.search.local_search import LocalOptimum
from m3c_md.search.populations import frame_populations
from m3c_md.search.problem import SearchProblem
from m3c_md.search.scores import Selection, states_and_losses
from m3c_md.search.selection import TINY_STATE, Candidate, judge
from m3c_md.search.trials import LARGEST_LOOSENED, RAREST

# How the names of such candidates end.
RAISED = "(raised)"
# Raising one state may leave another one short: so many times for each state at most.
ROUNDS = 20
# Of the metastability of states that are never left, Q less that of labels without memory, at least this share.
LEAST_LEFT = 0.1


def repopulated(problem: SearchProblem, candidate: Candidate, selection: Selection, n_windows: int) -> Candidate | None:
    """A candidate with biases by which every state has frames; None where that is no answer.

    It is none where somebody asked for larger states, where frames do not differ enough, or where next to nothing is
    remembered. There is no certificate: biases are not those of the best rule for any labels.
    """
    if problem.settings.balance[0] > LARGEST_LOOSENED:
        return None
    settings = problem.settings.with_least_share(RAREST)
    chosen = equally_spaced(problem.data.n_windows, min(n_windows, problem.data.n_windows))
    blocks = problem.features(candidate.kernel, chosen)
    rule = candidate.optimum.rule
    scores = np.concatenate([rule.window_scores(block)[0] for block in blocks], axis=1)
    # Twice the floor: shares of all the data are not quite those of a sample.
    raised = raised_biases(scores, max(TINY_STATE, int(np.ceil(2.0 * settings.floor * len(chosen)))))
    if raised is None:
        return None
    rule = Rule(rule.weights, rule.bias + raised)
    labels = (scores + raised[:, None]).argmax(axis=0)
    seen = states_and_losses(blocks, rule, labels)
    objective = float(blocks.weights @ seen[1]) + settings.penalty(rule)
    optimum = LocalOptimum(rule, labels, objective, 0.0, 1, False, (objective,))
    name = f"{candidate.start} {RAISED}"
    found = judge(problem, name, candidate.kernel, blocks, optimum, selection, chosen, settings, HELD, seen=seen)
    if not found.metastability - 1.0 >= LEAST_LEFT * (settings.n_states - 1):
        return None
    return replace(found, populations=frame_populations(problem, found))


def raised_biases(scores: FloatArray, fewest: int) -> FloatArray | None:
    """What to add to the scores (n_states, n_frames) for each state to have ``fewest`` frames; None if that cannot be.

    A state that loses frames to another one is raised in its turn.

    Examples
    --------
    >>> scores = np.array([[0.9, 0.8, 0.1, 0.2], [0.1, 0.2, 0.9, 0.8], [-1.0, -0.5, -0.9, -1.0]])
    >>> raised = raised_biases(scores, 1)
    >>> (scores + raised[:, None]).argmax(axis=0).tolist()
    [0, 2, 1, 1]
    """
    raised, n_states = np.zeros(len(scores)), len(scores)
    for _ in range(ROUNDS * n_states):
        now = scores + raised[:, None]
        states = now.argmax(axis=0)
        counts = np.bincount(states, minlength=n_states)
        short = int(counts.argmin())
        if counts[short] >= fewest:
            return raised
        leads = np.sort((now.max(axis=0) - now[short])[states != short])
        missing = fewest - int(counts[short])
        if missing >= len(leads):
            return None
        raised[short] += 0.5 * (leads[missing - 1] + leads[missing])
    return None
