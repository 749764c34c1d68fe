"""Model of hidden Markov states over cells: a frame has the hidden state that its cell most likely comes from."""

from __future__ import annotations

from typing import Self

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.clustering.archive import Contents
from m3c_md.clustering.centers import CentersModel, stored_centers


class HiddenMarkovModel(CentersModel):
    """States as unions of the cells that a hidden Markov model most likely takes for theirs.

    Attributes
    ----------
    transition_matrix : (n_states, n_states) array
        Of the hidden chain.
    output_probabilities : (n_states, n_cells) array
        Chance of each cell in each hidden state.
    """

    def __init__(
        self,
        centers: FloatArray,
        scale: FloatArray,
        states: IntArray,
        populations: FloatArray,
        transition_matrix: FloatArray,
        output_probabilities: FloatArray,
    ) -> None:
        super().__init__(centers, scale, states, populations)
        self.transition_matrix = transition_matrix
        self.output_probabilities = output_probabilities

    @property
    def n_microstates(self) -> int:
        """Number of connected cells."""
        return len(self.centers)

    def _contents(self) -> Contents:
        contents = super()._contents()
        contents.arrays |= {
            "transition_matrix": np.asarray(self.transition_matrix),
            "output_probabilities": np.asarray(self.output_probabilities),
        }
        return contents

    @classmethod
    def _from_contents(cls, contents: Contents) -> Self:
        centers, scale, states, populations = stored_centers(contents)
        n, k = len(centers), len(populations)
        chain, output = contents.shares("transition_matrix", k, k), contents.shares("output_probabilities", k, n)
        return cls(centers, scale, states, populations, chain, output)._with_texts(contents)

    def _shown(self) -> list[str]:
        return [f"n_microstates={self.n_microstates}"]
