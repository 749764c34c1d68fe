"""Secondary structure, frame by frame and residue by residue: what features find and profiles of states count."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

# What a number in ``codes`` stands for.
FORMS = ("coil", "helix", "strand")


@dataclass(frozen=True)
class SecondaryStructure:
    """Helix, strand or coil; ``featurizer.secondary_structure(...)`` returns it.

    Attributes
    ----------
    residues : tuple of str
        Names such as "ALA 2", as in the names of columns; none if there is no secondary structure to speak of.
    codes : list of (n_frames, n_residues) arrays of uint8
        One per trajectory: 0 for coil, 1 for helix, 2 for strand.
    missing : str
        Why there is none; empty if there is.
    """

    residues: tuple[str, ...] = ()
    codes: list[NDArray[np.uint8]] = field(default_factory=list, repr=False)
    missing: str = ""
