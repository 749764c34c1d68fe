"""Labelled Markov sequences: any labelled data set as a metastable process (paper, 'Sequential unlabeled data')."""

from __future__ import annotations

from bisect import bisect
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError, solving
from m3c_md.inputs.settings import check_generator, check_integer
from m3c_md.matching import agreement


def classification_error(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Return the fraction of wrong labels under the best matching (err of 'Sequential unlabeled data').

    Examples
    --------
    >>> classification_error(["a", "a", "b", "b"], [7, 7, 7, 3])
    0.25
    """
    return 1.0 - agreement(y_true, y_pred)


# Transition matrices of the class labels, by number of classes (paper, 'Sequential unlabeled data', step 1).
# fmt: off
_LABEL_CHAINS = {
    2: [[0.97, 0.03], [0.03, 0.97]],
    3: [[0.97, 0.015, 0.015], [0.025, 0.95, 0.025], [0.02, 0.02, 0.96]],
    4: [[0.9517, 0.0198, 0.0138, 0.0147], [0.0198, 0.9509, 0.0134, 0.0159],
        [0.0138, 0.0134, 0.9535, 0.0193], [0.0147, 0.0159, 0.0193, 0.9501]],
}
# fmt: on
_CHAIN_TRIES = 1000


class LabelledSequence(NamedTuple):
    """Patterns and classes of a metastable sequence, and of all instances left over.

    Examples
    --------
    >>> y = np.repeat([0, 1], 100)
    >>> sequence = labelled_sequence(y[:, None] + 0.5, y, 50, np.random.default_rng(0))
    >>> sequence.train_X.shape, sequence.train_y.shape
    ((50, 1), (50,))
    """

    train_X: NDArray[Any]  # noqa: N815
    train_y: NDArray[Any]
    test_X: NDArray[Any]  # noqa: N815
    test_y: NDArray[Any]


def _label_chain(n_classes: int, transition_matrix: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    """Return the checked transition matrix and its stationary distribution."""
    if transition_matrix is None and n_classes not in _LABEL_CHAINS:
        raise InputError(f"the paper has no transition matrix for {n_classes} classes; give transition_matrix")
    try:
        given = _LABEL_CHAINS[n_classes] if transition_matrix is None else transition_matrix
        matrix = np.asarray(given, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InputError(f"transition_matrix={transition_matrix!r:.60} is no matrix of numbers ({error})") from error
    if matrix.shape != (n_classes, n_classes):
        raise InputError(f"transition_matrix must be {n_classes} x {n_classes} (classes in y), got {matrix.shape}")
    if not ((matrix >= 0).all() and np.allclose(matrix.sum(axis=1), 1.0, rtol=0.0, atol=1e-8)):
        raise InputError(f"transition_matrix must be stochastic, got row sums {matrix.sum(axis=1)}")
    equations = np.vstack((matrix.T - np.eye(n_classes), np.ones(n_classes)))
    with solving("the stationary distribution of transition_matrix", "give another matrix"):
        solution, _, rank, _ = np.linalg.lstsq(equations, np.append(np.zeros(n_classes), 1.0), rcond=None)
    if rank < n_classes:
        raise InputError("transition_matrix has several stationary distributions; connect its classes")
    return matrix, np.maximum(solution, 0.0)


def _draw_chain(matrix: FloatArray, stationary: FloatArray, length: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw one Markov chain of states from its stationary start, by inversion."""
    limits = np.cumsum(np.vstack((matrix, stationary)), axis=1)[:, :-1].tolist()  # the last row draws the start
    chain, state = [], -1
    for uniform in rng.random(length).tolist():
        state = bisect(limits[state], uniform)
        chain.append(state)
    return np.array(chain, dtype=np.intp)


def labelled_sequence(
    X: ArrayLike, y: ArrayLike, length: int, rng: np.random.Generator, *, transition_matrix: ArrayLike | None = None
) -> LabelledSequence:
    """Turn a labelled data set into a metastable sequence (paper, 'Sequential unlabeled data', steps 1 and 2).

    A Markov chain of classes is drawn from its stationary start, then patterns of these classes without repetition;
    chains that need more patterns of a class than exist are drawn again.

    Parameters
    ----------
    X, y : array (n, d), array (n,)
        Patterns and their classes; the i-th state of the chain is the i-th smallest class.
    length : int
        Length N of the sequence.
    rng : numpy.random.Generator
        Source of randomness.
    transition_matrix : array (k, k), optional
        Of the classes; the paper's for 2, 3 and 4 classes.

    Returns
    -------
    LabelledSequence
        The sequence as train_X, train_y, and all instances not in it as test_X, test_y in their old order.

    Examples
    --------
    >>> X, y = np.arange(200.0)[:, None], np.repeat(["a", "b"], 100)
    >>> sequence = labelled_sequence(X, y, 50, np.random.default_rng(0))
    >>> sequence.train_X.shape, sequence.test_y.shape
    ((50, 1), (150,))
    """
    patterns, classes_of = np.asarray(X), np.asarray(y)
    if classes_of.ndim != 1 or patterns.ndim == 0 or len(patterns) != len(classes_of):
        raise InputError(f"need one class per pattern, got X {patterns.shape} and y {classes_of.shape}")
    check_generator(rng)
    check_integer("length", length, 1)
    if length > len(classes_of):
        raise InputError(f"length must be between 1 and the {len(classes_of)} instances of the data set, got {length}")
    classes, index, sizes = np.unique(classes_of, return_inverse=True, return_counts=True)
    matrix, stationary = _label_chain(len(classes), transition_matrix)
    for _ in range(_CHAIN_TRIES):
        chain = _draw_chain(matrix, stationary, length, rng)
        needed = np.bincount(chain, minlength=len(classes))
        if (needed <= sizes).all():
            break
    else:
        worst = int(np.argmax(needed - sizes))
        raise InputError(
            f"no feasible chain of length {length} in {_CHAIN_TRIES} tries: class {classes[worst]} has {sizes[worst]} "
            f"instances but the last chain needed {needed[worst]} ({stationary[worst] * length:.0f} on average); "
            "shorten the sequence or change transition_matrix"
        )
    chosen = np.empty(length, dtype=np.intp)
    for state in range(len(classes)):
        chosen[chain == state] = rng.permutation(np.flatnonzero(index == state))[: needed[state]]
    rest = np.setdiff1d(np.arange(len(classes_of)), chosen)
    return LabelledSequence(patterns[chosen], classes_of[chosen], patterns[rest], classes_of[rest])
