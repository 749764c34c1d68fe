"""Validation: metastability, timescales, Chapman-Kolmogorov test, kinetics, comparison of methods, number of states."""

from m3c_md.markov.chapman_kolmogorov import ChapmanKolmogorov, chapman_kolmogorov
from m3c_md.markov.kinetics import Kinetics, kinetics
from m3c_md.markov.timescales import ImpliedTimescales, implied_timescales
from m3c_md.markov.transitions import metastability, transition_counts, transition_matrix
from m3c_md.validation.borders import ResampledRules, refit
from m3c_md.validation.comparison import Comparison, compare
from m3c_md.validation.scan import StateScan, scan_states

__all__ = [
    "ChapmanKolmogorov",
    "Comparison",
    "ImpliedTimescales",
    "Kinetics",
    "ResampledRules",
    "StateScan",
    "chapman_kolmogorov",
    "compare",
    "implied_timescales",
    "kinetics",
    "metastability",
    "refit",
    "scan_states",
    "transition_counts",
    "transition_matrix",
]
