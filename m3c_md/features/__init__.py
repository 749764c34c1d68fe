"""Files and mdtraj trajectories in, named sine and cosine time series of dihedral angles out."""

from m3c_md.features.featurizer import DihedralFeaturizer

__all__ = ["DihedralFeaturizer"]
