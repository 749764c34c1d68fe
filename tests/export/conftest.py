"""Rules of real fits to both shipped molecules, in all metrics, and frames to compare exports on."""

from __future__ import annotations

import functools
import warnings
from typing import Any, NamedTuple

import mdtraj as md
import numpy as np
import pytest
from numpy.typing import NDArray

from m3c_md import M3C, DihedralFeaturizer, M3CModel
from m3c_md.data import alanine_dipeptide, deca_alanine
from m3c_md.export.columns import columns_of_frames
from m3c_md.inputs.dihedral_columns import DihedralColumns

N_FRAMES = 200


class Case(NamedTuple):
    """A model, the frames of a trajectory and their columns in double precision."""

    model: M3CModel
    trajectory: md.Trajectory
    frames: NDArray[np.float64]

    @property
    def columns(self) -> DihedralColumns:
        """Atoms of the columns."""
        known = self.model.dihedral_columns
        assert known is not None
        return known

    def differences(self, first: int, second: int) -> NDArray[np.float64]:
        """What all exports must compute."""
        scores = self.model.decision_function(self.frames)
        return np.asarray(scores[:, first] - scores[:, second])


@functools.cache
def molecule(name: str) -> tuple[DihedralFeaturizer, list[NDArray[np.float32]], md.Trajectory]:
    """Featurizer that knows the molecule, thinned training data, and frames of a trajectory."""
    data = {"ala2": alanine_dipeptide, "ala10": deca_alanine}[name]()
    trajectory = md.load(str(data.trajectory_files[0]), top=data.topology)
    featurizer = DihedralFeaturizer()
    featurizer.transform(trajectory[:2])
    step = len(trajectory) // N_FRAMES
    return featurizer, [x[::10] for x in data.features[:8]], trajectory[::step][:N_FRAMES]


@functools.cache
def fitted(name: str, metric: str, n_states: int) -> Case:
    """Quick fit whose rule lives in a metric of that name."""
    featurizer, trajs, trajectory = molecule(name)
    settings: dict[str, Any] = {"n_features": 40, "bandwidth": 2.0, "starts": ("kmeans",), "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short data: what the states are worth does not matter here
        model = M3C(n_states, metric=metric, **settings).fit_fetch(trajs, featurizer=featurizer)
    known = [record.metric for record in model.records]
    wanted = [k for k, found in enumerate(known) if metric != "learned" or found.startswith("learned")]
    model = model.alternative(wanted[0])
    assert model.dihedral_columns is not None
    return Case(model, trajectory, columns_of_frames(model.dihedral_columns, trajectory))


ALL = [
    *(("ala2", "standard", 4), ("ala2", "kinetic", 3), ("ala2", "learned", 2)),
    *(("ala10", "standard", 5), ("ala10", "kinetic", 6), ("ala10", "learned", 3)),
]


@pytest.fixture(params=ALL, ids=lambda p: "-".join(map(str, p)))
def case(request: pytest.FixtureRequest) -> Case:
    return fitted(*request.param)


@pytest.fixture
def ala2() -> Case:
    return fitted("ala2", "kinetic", 3)


@pytest.fixture
def ala10() -> Case:
    return fitted("ala10", "learned", 3)
