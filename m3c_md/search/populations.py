"""Populations of the winner's states: every frame counts once."""

from __future__ import annotations

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.frames.source import FrameBlock
from m3c_md.frames.windows import BLOCK_SIZE
from m3c_md.optimize.blocks import Rule
from m3c_md.optimize.feature_map import FourierMap
from m3c_md.optimize.quick_states import states_of_rule
from m3c_md.search.problem import SearchProblem
from m3c_md.search.selection import Candidate


def frame_populations(problem: SearchProblem, candidate: Candidate) -> FloatArray:
    """Share of all frames that a candidate's rule gives to each state."""
    feature_map, n_states = problem.feature_map(*candidate.kernel), problem.settings.n_states
    counts = np.zeros(n_states)
    if problem.everything is not None:  # then the problem has pairs of frames, and most frames twice
        for some in problem.everything.map(_own_states, feature_map, candidate.optimum.rule):
            counts += np.bincount(some, minlength=n_states)
        return np.asarray(counts / counts.sum())
    for start in range(0, len(problem.data.frames), BLOCK_SIZE):
        states = states_of_rule(feature_map, candidate.optimum.rule, problem.data.frames[start : start + BLOCK_SIZE])
        counts += np.bincount(states, minlength=n_states)
    return np.asarray(counts / counts.sum())


def _own_states(block: FrameBlock, feature_map: FourierMap, rule: Rule) -> IntArray:
    """States of the frames of a block that no other block has."""
    return states_of_rule(feature_map, rule, np.asarray(block.frames[block.own], dtype=np.float64))
