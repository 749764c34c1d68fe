"""Pictures. matplotlib is imported when something is drawn, not before.

All functions follow deeptime.plots: they draw into given axes or open a figure, return the axes and never show them. A
state has the same colour in every picture.
"""

from m3c_md.plots.chapman_kolmogorov import plot_chapman_kolmogorov
from m3c_md.plots.colors import STATE_COLORS, matched_order, state_color
from m3c_md.plots.comparison import plot_metastability, plot_scan
from m3c_md.plots.decomposition import plot_decomposition
from m3c_md.plots.network import plot_network
from m3c_md.plots.paths import plot_paths
from m3c_md.plots.profile import plot_profile, plot_profile_ramachandran
from m3c_md.plots.relevance import plot_relevance
from m3c_md.plots.search import plot_candidates, plot_search
from m3c_md.plots.state_map import plot_ramachandran, plot_state_map
from m3c_md.plots.timescales import plot_implied_timescales
from m3c_md.plots.tree import plot_state_tree

__all__ = [
    "STATE_COLORS",
    "matched_order",
    "plot_candidates",
    "plot_chapman_kolmogorov",
    "plot_decomposition",
    "plot_implied_timescales",
    "plot_metastability",
    "plot_network",
    "plot_paths",
    "plot_profile",
    "plot_profile_ramachandran",
    "plot_ramachandran",
    "plot_relevance",
    "plot_scan",
    "plot_search",
    "plot_state_map",
    "plot_state_tree",
    "state_color",
]
