"""Maximum margin metastable clustering (M3C): metastable states of molecular dynamics without discretisation.

Names are imported on first use, so that ``import m3c_md`` itself costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from m3c_md.clustering.hidden_markov import HiddenMarkov
    from m3c_md.clustering.k_medoids import KMedoids
    from m3c_md.clustering.m3c import M3C
    from m3c_md.clustering.margin_model import M3CModel
    from m3c_md.clustering.microstate_lumping import lump_microstates
    from m3c_md.clustering.mmc import MMC
    from m3c_md.clustering.model_file import load_model
    from m3c_md.clustering.pcca_plus import PCCAPlus
    from m3c_md.clustering.profile import state_profile
    from m3c_md.clustering.tica_pcca_plus import TICAPCCAPlus
    from m3c_md.clustering.vampnet import VAMPNet
    from m3c_md.features.featurizer import DihedralFeaturizer
    from m3c_md.markov.kinetics import kinetics
    from m3c_md.markov.paths import transition_paths
    from m3c_md.relevance import relevance_by_dihedral, relevance_by_residue
    from m3c_md.validation.comparison import compare
    from m3c_md.validation.scan import scan_states

__version__ = "0.2.0"
__all__ = [
    "M3C",
    "MMC",
    "DihedralFeaturizer",
    "HiddenMarkov",
    "KMedoids",
    "M3CModel",
    "PCCAPlus",
    "TICAPCCAPlus",
    "VAMPNet",
    "compare",
    "kinetics",
    "load_model",
    "lump_microstates",
    "relevance_by_dihedral",
    "relevance_by_residue",
    "scan_states",
    "state_profile",
    "transition_paths",
]

_HOMES = {
    "DihedralFeaturizer": "m3c_md.features.featurizer",
    "HiddenMarkov": "m3c_md.clustering.hidden_markov",
    "KMedoids": "m3c_md.clustering.k_medoids",
    "M3C": "m3c_md.clustering.m3c",
    "M3CModel": "m3c_md.clustering.margin_model",
    "MMC": "m3c_md.clustering.mmc",
    "PCCAPlus": "m3c_md.clustering.pcca_plus",
    "TICAPCCAPlus": "m3c_md.clustering.tica_pcca_plus",
    "VAMPNet": "m3c_md.clustering.vampnet",
    "compare": "m3c_md.validation.comparison",
    "kinetics": "m3c_md.markov.kinetics",
    "load_model": "m3c_md.clustering.model_file",
    "lump_microstates": "m3c_md.clustering.microstate_lumping",
    "relevance_by_dihedral": "m3c_md.relevance",
    "relevance_by_residue": "m3c_md.relevance",
    "scan_states": "m3c_md.validation.scan",
    "transition_paths": "m3c_md.markov.paths",
    "state_profile": "m3c_md.clustering.profile",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'm3c_md' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
