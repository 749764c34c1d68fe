"""Mathematics on arrays, without trajectories: features, the large-margin problem, label step, relaxation."""
