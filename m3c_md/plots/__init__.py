"""Pictures. matplotlib is imported when something is drawn, not before."""

from m3c_md.plots.decomposition import STATE_COLORS, plot_candidates, plot_decomposition, state_color

__all__ = ["STATE_COLORS", "plot_candidates", "plot_decomposition", "state_color"]
