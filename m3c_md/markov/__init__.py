"""Markov models of macrostates: counts, timescales, Chapman-Kolmogorov test, and what these rest on."""
