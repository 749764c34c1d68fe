"""Maximum margin metastable clustering (M3C) of molecular dynamics trajectories."""
