"""A decision rule outside of Python: as a collective variable of PLUMED or OpenMM, or as a TorchScript module.

`variable` folds a rule into one small series of cosines, and everything else writes that down: `plumed`,
`openmm_force`, `torch_module`. `M3CModel.to_plumed` and its like are the doors.
"""
