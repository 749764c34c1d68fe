"""What a profile of states counts while it looks at the frames once: angles, regions, and frames at borders."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.inputs.secondary_structure import FORMS
from m3c_md.inputs.torsion_columns import Torsions

# Cells of a Ramachandran map along each axis: 5° each, so that the borders of regions are borders of cells.
CELLS = 72
# A frame is at a border if its lead is smaller than the margin that the rule was trained for.
MARGIN = 1.0
# Frames at a border that are looked at, nearest first: more do not change means over them.
MOST_AT_BORDER = 1000


@dataclass
class Border:
    """Frames between two states: how many, and those with the smallest lead.

    Attributes
    ----------
    n_frames : int
    frames : (n, n_columns) array
    leads : (n,) array
    """

    n_frames: int
    frames: FloatArray
    leads: FloatArray

    def add(self, frames: FloatArray, leads: FloatArray) -> None:
        """Add frames, and keep the nearest of all."""
        self.n_frames += len(frames)
        everything, all_leads = np.concatenate([self.frames, frames]), np.concatenate([self.leads, leads])
        nearest = np.argsort(all_leads, kind="stable")[:MOST_AT_BORDER]
        self.frames, self.leads = everything[nearest], all_leads[nearest]


@dataclass
class Counts:
    """Sums over the frames of every state.

    Attributes
    ----------
    angles : Torsions
    frames : (n_states,) array
        Numbers of frames.
    vectors : (n_states, n_angles) array of complex numbers
        Sums of exp(iθ).
    maps : (n_states, n_pairs, CELLS, CELLS) array
        Frames in the cells of the Ramachandran maps of residues with φ and ψ; φ runs along the last axis.
    forms : (n_states, n_residues, 3) array
        Frames in coil, helix and strand, of residues for which this is known.
    borders : dict
        `Border` by pairs of states i < j.
    """

    angles: Torsions
    frames: IntArray
    vectors: np.ndarray
    maps: np.ndarray
    forms: IntArray
    borders: dict[tuple[int, int], Border] = field(default_factory=dict)

    @classmethod
    def empty(cls, angles: Torsions, n_states: int, n_forms: int) -> Counts:
        """Nothing counted yet, of some angles and ``n_forms`` residues with a secondary structure."""
        return cls(
            angles,
            np.zeros(n_states, dtype=np.intp),
            np.zeros((n_states, len(angles.names)), dtype=np.complex128),
            np.zeros((n_states, len(angles.pairs), CELLS, CELLS), dtype=np.int32),
            np.zeros((n_states, n_forms, len(FORMS)), dtype=np.intp),
        )

    def add(self, frames: FloatArray, scores: FloatArray, numbers: IntArray, codes: Any = None) -> None:
        """Count some frames and, if it is known, their secondary structure.

        Parameters
        ----------
        frames : (n_frames, n_columns) array
        scores : (n_frames, n_parts) array
            Of the states, or of the parts of those that were merged.
        numbers : (n_parts,) int array
            State of every part.
        codes : (n_frames, n_residues) int array, optional
        """
        states = numbers[scores.argmax(axis=1)]
        radians = self.angles.of_frames(frames)
        for state in range(len(self.frames)):
            inside = states == state
            self.frames[state] += np.count_nonzero(inside)
            self.vectors[state] += np.exp(1j * radians[inside]).sum(axis=0)
            if codes is not None:
                self.forms[state] += np.stack([(codes[inside] == form).sum(axis=0) for form in range(len(FORMS))], -1)
        self._add_to_maps(radians, states)
        self._add_to_borders(frames, scores, numbers)

    def _add_to_maps(self, radians: FloatArray, states: IntArray) -> None:
        cells = np.floor((radians / (2.0 * np.pi) + 0.5) * CELLS).astype(np.intp) % CELLS
        n_states = len(self.frames)
        for number, (phi, psi) in enumerate(self.angles.pairs.values()):
            place = (states * CELLS + cells[:, psi]) * CELLS + cells[:, phi]
            found = np.bincount(place, minlength=n_states * CELLS**2).reshape(n_states, CELLS, CELLS)
            self.maps[:, number] += found.astype(np.int32)

    def _add_to_borders(self, frames: FloatArray, scores: FloatArray, numbers: IntArray) -> None:
        best = np.argsort(scores, axis=1)[:, -2:]
        lead = np.take_along_axis(scores, best[:, 1:], 1)[:, 0] - np.take_along_axis(scores, best[:, :1], 1)[:, 0]
        low, high = np.sort(numbers[best], axis=1).T
        for pair in combinations(range(len(self.frames)), 2):
            between = (low == pair[0]) & (high == pair[1]) & (lead < MARGIN)
            if between.any():
                nothing = Border(0, np.empty((0, frames.shape[1])), np.empty(0))
                self.borders.setdefault(pair, nothing).add(frames[between], lead[between])
