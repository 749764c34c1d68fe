"""The paper's test systems: two diffusions with an exact reference, and labelled Markov sequences."""

from m3c_md.matching import agreement
from m3c_md.systems.diffusion import MODEL_I, MODEL_II, DiffusionModel, simulate
from m3c_md.systems.reference import ExactReference, exact_reference
from m3c_md.systems.sequences import LabelledSequence, classification_error, labelled_sequence

__all__ = [
    "MODEL_I",
    "MODEL_II",
    "DiffusionModel",
    "ExactReference",
    "LabelledSequence",
    "agreement",
    "classification_error",
    "exact_reference",
    "labelled_sequence",
    "simulate",
]
