"""Algorithm 1 and what improves it: windows, weights, starts, local search, selection among candidates."""
