"""What scikit-learn expects of estimators and models, beside what deeptime does: names, attributes, messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from m3c_md.exceptions import InputError
from m3c_md.inputs.dataset import Dataset

if TYPE_CHECKING:
    from m3c_md.clustering.training_data import LaggedPair

# Frames up to which a fit keeps their states: a look at them takes 3 % of its time, and 18 % for a million frames.
MOST_LABELS = 200_000


class HasTransform(Protocol):
    """Whatever gives frames their states."""

    n_columns: int
    columns: list[str] | None

    def transform(self, data: Any) -> Any:
        """State of every frame."""


class ScikitModel:
    """scikit-learn's words for what a model does."""

    n_columns: int

    @property
    def n_states(self) -> int:
        """Number of states."""
        raise NotImplementedError

    def transform(self, data: Any) -> Any:
        """State of every frame."""
        raise NotImplementedError

    def predict(self, data: Any) -> Any:
        """State of every frame: scikit-learn's name for `transform`."""
        return self.transform(data)

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Return the few numbers that say which model this is; its arrays and records are attributes."""
        del deep
        return {"n_states": self.n_states, "n_columns": self.n_columns}


class ScikitFace:
    """scikit-learn's words for what an estimator does and knows after a fit."""

    _model: HasTransform | None
    _labels: NDArray[np.int32] | list[NDArray[np.int32]] | None = None

    @property
    def n_features_in_(self) -> int:
        """Number of columns of the fit."""
        return int(self._fitted("n_features_in_").n_columns)

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Names of the columns, after a fit to tables that have some."""
        columns = self._fitted("feature_names_in_").columns
        if columns is None:
            raise AttributeError("feature_names_in_ is there after a fit to DataFrames whose columns have names")
        return np.array(columns, dtype=object)

    @property
    def labels_(self) -> Any:
        """States of the frames of the fit, as `fit_predict` returns them; a list of arrays after a fit to a list."""
        self._fitted("labels_")
        if self._labels is None:
            raise AttributeError(
                f"labels_ of more than {MOST_LABELS:,} frames, or of frames that are not in memory, are not kept; call "
                "predict with them"
            )
        return self._labels

    def predict(self, data: Any) -> Any:
        """State of every frame under the fitted model: scikit-learn's name for `transform`."""
        return self.transform(data)

    def fit_predict(self, data: Any, y: Any = None, **options: Any) -> Any:
        """Fit and return the states of the training frames (scikit-learn's name for it)."""
        return self.fit_transform(data, y, **options)

    def transform(self, data: Any) -> Any:
        """States of frames under the fitted model, see `StateModel.transform`."""
        if self._model is None:
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"this {type(self).__name__} has no model yet; call fit first")
        shape: Any = getattr(data, "shape", ())
        if hasattr(self, "n_features_in_") and len(shape) == 2 and shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features as "
                "input; featurise these frames as those of the fit"
            )
        return self._model.transform(data)

    def fit_transform(self, data: Any, y: Any = None, **options: Any) -> Any:
        """Fit and return the states of the training frames; ``y`` is ignored, ``options`` are those of `fit`."""
        return self.fit(data, y, **options).transform(data)  # type: ignore[attr-defined]

    def _fitted(self, name: str) -> HasTransform:
        """Model of the fit, for an attribute that is there after a fit to frames only."""
        if self._model is None or not hasattr(self._model, "n_columns"):
            raise AttributeError(f"{name} of {type(self).__name__} is there after a fit to frames; call fit first")
        return self._model

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="clusterer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),  # states are int32, whatever the columns are
            input_tags=InputTags(),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return self._model is not None

    def _repr_html_(self) -> str:
        from sklearn.utils import estimator_html_repr

        return str(estimator_html_repr(self))


def labels_in_memory(model: HasTransform, given: Dataset | LaggedPair) -> Any:
    """States of the frames of a fit (of X, for a pair X, Y); None where these are too many, or are not in memory."""
    if not isinstance(given, Dataset):
        return model.transform(given.first) if len(given.first) <= MOST_LABELS else None
    arrays = all(isinstance(x, np.ndarray) and not isinstance(x, np.memmap) for x in given.trajectories)
    return model.transform(given) if arrays and given.n_frames <= MOST_LABELS else None
