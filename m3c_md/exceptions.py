"""Every error and warning that the package raises on purpose, and how those of others become one of them.

Errors about input are also `deeptime.base.InputFormatError` and hence `ValueError`, so that code written for
deeptime catches them; each message names the offending value and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deeptime.base import InputFormatError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class InputError(InputFormatError):  # type: ignore[misc]
    """Data or a parameter that cannot be used; the message names the value and the remedy."""


class InputTypeError(InputError, TypeError):
    """Data of a type that no number can be made of; also a `TypeError`, as scikit-learn wants it."""


class SolverError(RuntimeError):
    """A numerical solver did not deliver a usable answer; the message carries its status."""


@contextmanager
def solving(what: str, remedy: str) -> Iterator[None]:
    """Turn what libraries of linear algebra raise inside the block into a `SolverError` that names the task.

    `ValueError` is among it: that is what they raise where a matrix is not finite, and `LinAlgError` is one. ARPACK
    raises a `RuntimeError`.

    Examples
    --------
    >>> with solving("the inverse", "use another matrix"):
    ...     raise ValueError("Singular matrix")
    Traceback (most recent call last):
    ...
    m3c_md.exceptions.SolverError: the inverse failed (Singular matrix); use another matrix
    """
    try:
        yield
    except (InputError, SolverError):
        raise
    except (ValueError, ArithmeticError, RuntimeError) as error:
        raise SolverError(f"{what} failed ({error}); {remedy}") from error


class DegenerateSolutionError(RuntimeError):
    """Every candidate leaves some state (almost) without frames; no honest decomposition can be returned."""


class M3CWarning(UserWarning):
    """Base class of the package's warnings."""


class NotFittedWarning(M3CWarning):
    """The model of an estimator was asked for before a fit."""


class ShortTrajectoryWarning(M3CWarning):
    """Trajectories too short to hold one window of the lag time were left out of the fit."""


class AmbiguousSolutionWarning(M3CWarning):
    """A clearly different decomposition scores almost as well as the one returned."""


class RareStateWarning(M3CWarning):
    """A state has fewer frames than the balance asks for, or than 1 % where there is none."""


class FewVisitsWarning(M3CWarning):
    """A state was entered a few times only, or by one of several trajectories: its population and rates are a guess."""


class UnrelatedPairWarning(M3CWarning):
    """A tuple of two arrays was read as frames and those a lag time later, but the two look unrelated."""


class OverlappingStatesWarning(M3CWarning):
    """States were found only with labels held closer to balance than asked for."""


class ConvergenceWarning(M3CWarning):
    """An iteration ended at its limit before it reached the requested accuracy."""


class FailedStartWarning(M3CWarning):
    """A solver failed on some start or candidate of the search, and the others had to do without it."""


class WeightsWarning(M3CWarning):
    """Frames or transition pairs could not be weighted as asked for: they count alike, or nearly so."""


class UnvisitedStateWarning(M3CWarning):
    """Trajectories never leave from some state, so its transition probabilities are unknown."""


class LagtimeWarning(M3CWarning):
    """Lag times too long for the trajectories were left out."""


class TimescaleWarning(M3CWarning):
    """An implied timescale is below its lag time, grows with it as noise does, or is too short where it was used."""


class DisconnectedWarning(M3CWarning):
    """Frames or states lie outside the largest set that the trajectories connect."""


class NonReversibleWarning(M3CWarning):
    """A transition matrix without detailed balance was lumped by the mean of its flows in both directions."""


class FewerStatesWarning(M3CWarning):
    """A method left some of the states asked for without frames."""


class NegativeMatrixWarning(M3CWarning):
    """A coarse transition matrix has negative entries and is no transition matrix."""


class ModelFileError(InputError):
    """A file that is no model, is damaged, or comes from a version that is not known here."""


class TrajectoryError(InputError):
    """Trajectories that cannot be used to their end; what could be read of files is not lost.

    Attributes
    ----------
    finished : dict
        Features of each file that was read to its end.
    partial : dict
        Features of the frames before the damage, for each file that has such frames.
    """

    def __init__(
        self,
        message: str,
        finished: dict[str, NDArray[np.float32]] | None = None,
        partial: dict[str, NDArray[np.float32]] | None = None,
    ) -> None:
        super().__init__(message)
        self.finished = finished or {}
        self.partial = partial or {}


class TrajectoryWarning(M3CWarning):
    """Trajectories were read, but their coordinates or the cache deserve a look."""
