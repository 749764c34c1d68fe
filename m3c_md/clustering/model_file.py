"""Model files: which class a file belongs to."""

from __future__ import annotations

import os

from m3c_md.clustering.archive import check_kind, read_contents
from m3c_md.clustering.hidden_markov_model import HiddenMarkovModel
from m3c_md.clustering.k_medoids import KMedoidsModel
from m3c_md.clustering.kinetic_map import MappedModel
from m3c_md.clustering.m3c import M3C
from m3c_md.clustering.margin_model import M3CModel, MMCModel
from m3c_md.clustering.mmc import MMC
from m3c_md.clustering.pcca_plus import PCCAPlusModel
from m3c_md.clustering.state_model import StateModel
from m3c_md.clustering.vampnet import VAMPNetModel
from m3c_md.disk import checked_path
from m3c_md.exceptions import ModelFileError

# As ``m3c-md fit`` calls it.
MODEL = "model.m3c"
# Models that are read can be split, by an estimator that has to be there.
ESTIMATORS = (M3C, MMC)
MODELS: dict[str, type[StateModel]] = {
    model.__name__: model
    for model in (
        *(KMedoidsModel, M3CModel, MMCModel, PCCAPlusModel),
        *(HiddenMarkovModel, MappedModel, VAMPNetModel),
    )
}


def load_model(path: str | os.PathLike[str]) -> StateModel:
    """Read a model that ``model.save`` wrote; its labels are the same to the last bit.

    Nothing in the file is executed, and what it takes in memory is in proportion to its length.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    M3CModel, MMCModel, KMedoidsModel, PCCAPlusModel, MappedModel, HiddenMarkovModel or VAMPNetModel

    Raises
    ------
    ModelFileError
        If the file is no model, is damaged, or of a version that is not known here.
    OSError
        If there is no such file, or it cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from m3c_md import KMedoids, load_model
    >>> model = KMedoids(2, random_state=0).fit_fetch([[0.0], [0.1], [5.0], [5.1]] * 11)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(Path(folder) / "states.m3c")
    ...     again = load_model(Path(folder) / "states.m3c")
    >>> again.transform([[0.05], [5.05]]).tolist() == model.transform([[0.05], [5.05]]).tolist()
    True
    """
    folder = checked_path("path", path)
    if folder.is_dir():
        inside = [*sorted(folder.glob("*.m3c")), folder / MODEL]
        raise IsADirectoryError(f"{path} is a folder; give the file of the model in it, e.g. {inside[0]}")
    if not folder.exists():
        raise FileNotFoundError(
            f"there is no file {path}; check its name and folder (m3c-md fit and model.save write one)"
        )
    try:
        kind, contents = read_contents(path)
        check_kind(kind)
        return MODELS[kind]._from_contents(contents)
    except ModelFileError as error:
        raise ModelFileError(f"{path} cannot be used: {error}; fit the model again, or save it again") from error
