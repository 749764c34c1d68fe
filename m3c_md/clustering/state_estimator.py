"""The face that all estimators share: fits of trajectories, and what is said to the user about them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

from deeptime.base import EstimatorTransformer

from m3c_md.clustering.scikit_face import ScikitFace, labels_in_memory
from m3c_md.clustering.state_model import StateModel
from m3c_md.clustering.training_data import LaggedPair, Note
from m3c_md.clustering.visits import VisitCounts, few_visits_notes
from m3c_md.exceptions import FewVisitsWarning, M3CWarning, NotFittedWarning
from m3c_md.inputs.dataset import Dataset

# Packages through which a user's call of fit may come.
_NOT_THE_USER = ("m3c_md", "deeptime", "sklearn")


class StateEstimator(ScikitFace, EstimatorTransformer):  # type: ignore[misc]
    """What the estimators have in common; a subclass has a constructor and a ``fit`` that sets ``_model``."""

    # deeptime's wrapper around fit hides its docstring and refuses DataFrames. Opting out of it is a promise that
    # fit never changes its input; a test holds us to it.
    _MUTABLE_INPUT_DATA: ClassVar[bool] = True

    def fetch_model(self) -> Any:
        """Return the fitted model; before a fit None, as in deeptime, and a word about it."""
        if self._model is None:
            message = f"this {type(self).__name__} has no model yet, so that None is returned; call fit first"
            warnings.warn(message, NotFittedWarning, stacklevel=callers() + 1)
        return self._model

    def _keep(
        self,
        model: StateModel,
        notes: Sequence[Note],
        given: Dataset | LaggedPair,
        visits: VisitCounts,
        columns: list[str] | None = None,
    ) -> None:
        """Store a fitted model, and say on it and to the user what there is to say; ``columns`` if data have none."""
        notes = [*notes, *few_visits_notes(visits)]
        model.columns = given.columns if columns is None else columns
        model._visits = visits
        model.warnings.extend(message for message, _ in notes)
        self._model = model
        self._labels = labels_in_memory(model, given)
        for message, category in notes:
            warnings.warn(message, category, stacklevel=callers() + 1)

    def __repr__(self) -> str:
        from inspect import signature

        defaults = {name: p.default for name, p in signature(type(self)).parameters.items()}
        shown = (f"{k}={v!r}" for k, v in self.get_params().items() if k == "n_states" or v is not defaults[k])
        return f"{type(self).__name__}({', '.join(shown)})"


def quietly_fitted(estimator: StateEstimator, data: Any) -> tuple[StateModel, list[Note]]:
    """Model of an estimator, and what it warned of except of few visits, which whoever keeps the model will count."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model: StateModel = estimator.fit_fetch(data)
    notes: list[Note] = []
    for warning in caught:
        if not issubclass(warning.category, M3CWarning):
            warnings.warn(warning.message, warning.category, stacklevel=2)
        elif not issubclass(warning.category, FewVisitsWarning):
            notes.append((str(warning.message), warning.category))
    return model, notes


def callers() -> int:
    """Number of calls between a warning and the user's line: of this package, and of deeptime's or scikit-learn's."""
    frame, depth = sys._getframe(1), 0
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _NOT_THE_USER:
        frame, depth = frame.f_back, depth + 1  # type: ignore[assignment]
    return depth
