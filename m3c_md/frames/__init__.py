"""Access to frames: windows over them, and where they come from."""
