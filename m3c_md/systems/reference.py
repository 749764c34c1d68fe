"""The exact reference of a diffusion: its generator on a grid, hence Q of any partition and relaxation times."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import eigsh
from scipy.special import ive

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError, solving
from m3c_md.inputs.settings import check_integer, check_positive, check_range
from m3c_md.systems.diffusion import DiffusionModel, whole_ratio

StateArray = NDArray[np.int32]

# Of a grid; the generator of so many takes about a gigabyte.
MOST_CELLS = 5e6


def _grid_generator(model: DiffusionModel, spacing: float) -> tuple[FloatArray, FloatArray, sparse.csr_array]:
    """Cell centres, stationary distribution and symmetrised finite-volume generator on a regular grid.

    Scharfetter-Gummel fluxes: the rate from cell i to its neighbour j is A/h^2 B(U_j - U_i) with B(u) = u/(e^u - 1),
    in detailed balance with exp(-U). The symmetric form diag(pi)^(1/2) L diag(pi)^(-1/2) has off-diagonal entries
    A/h^2 (d/2)/sinh(d/2), d = U_j - U_i, free of overflow where pi is tiny.
    """
    shape = tuple(whole_ratio(high - low, spacing, "box side and spacing") for low, high in model.box)
    if np.prod([float(size) for size in shape]) > MOST_CELLS:
        raise InputError(f"spacing={spacing:g} makes a grid of {shape} cells; choose a larger one, e.g. 0.05")
    axes = [low + spacing * (np.arange(size) + 0.5) for (low, _), size in zip(model.box, shape, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    energy = model.potential(points)
    stationary = np.exp(energy.min() - energy)
    stationary /= stationary.sum()
    index = np.arange(len(points)).reshape(shape)
    pairs = [(index[:-1].ravel(), index[1:].ravel()), (index[:, :-1].ravel(), index[:, 1:].ravel())]
    rows = np.concatenate([first for first, _ in pairs])
    cols = np.concatenate([second for _, second in pairs])
    scale = np.repeat(np.array(model.mobility) / spacing**2, [len(first) for first, _ in pairs])
    half = (energy[cols] - energy[rows]) / 2.0
    coupling = scale * np.divide(half, np.sinh(half), out=np.ones_like(half), where=half != 0.0)
    leaving = np.bincount(rows, coupling * np.exp(-half), len(points))
    leaving += np.bincount(cols, coupling * np.exp(half), len(points))
    upper = sparse.coo_array((coupling, (rows, cols)), shape=(len(points), len(points)))
    return points, stationary, (upper + upper.T - sparse.diags_array(leaving)).tocsr()


def _heat(symmetric: sparse.csr_array, vectors: FloatArray, time: float) -> FloatArray:
    """Apply exp(time * symmetric) to vectors, for a symmetric generator (spectrum in [-radius, 0]).

    Chebyshev expansion exp(z(x - 1)) = sum_k (2 - [k = 0]) e^-z I_k(z) T_k(x): about sqrt(60 z) products for
    an error of 1e-13, where Taylor schemes such as `expm_multiply` need of the order of z.
    """
    radius = 2.0 * np.abs(symmetric.diagonal()).max()
    z = time * radius / 2.0
    weights = 2.0 * ive(np.arange(40 + int(np.sqrt(80.0 * z))), z)
    weights = weights[: np.flatnonzero(weights > 1e-15)[-1] + 1]
    twice = (symmetric * (4.0 / radius) + 2.0 * sparse.eye_array(symmetric.shape[0])).tocsr()
    previous, current = vectors, 0.5 * (twice @ vectors)
    total = 0.5 * weights[0] * previous
    for weight in weights[1:]:
        total += weight * current
        previous, current = current, twice @ current - previous
    return np.asarray(total)


class ExactReference:
    """A diffusion as a reversible Markov jump process on small cells: exact answers up to the spacing squared.

    Partitions are given as labels of the cells, e.g. a model's prediction for `points`. States are the labels that
    occur, in rising order.

    Parameters
    ----------
    model : DiffusionModel
        The diffusion.
    spacing : float
        Edge of a cell; must divide the sides of the model's box.

    Attributes
    ----------
    points, stationary : ndarray (n, 2), ndarray (n,)
        Cell centres and stationary distribution.
    generator : scipy.sparse.csr_array (n, n)
        Rates between neighbouring cells, rows sum to zero.

    Examples
    --------
    >>> from m3c_md.systems import MODEL_I
    >>> reference = ExactReference(MODEL_I, spacing=0.1)
    >>> thirds = np.digitize(reference.points[:, 0], [-0.5, 0.5])
    >>> round(reference.metastability(thirds, lagtime=0.2), 2)
    2.96
    """

    def __init__(self, model: DiffusionModel, spacing: float = 0.05) -> None:
        self.points, self.stationary, self._symmetric = _grid_generator(model, spacing)
        self._root = np.sqrt(self.stationary)
        for shared in (self.points, self.stationary):  # references are cached: nobody may change them
            shared.setflags(write=False)

    @property
    def generator(self) -> sparse.csr_array:
        """The generator L in its usual, not symmetrised form."""
        return (sparse.diags_array(1.0 / self._root) @ self._symmetric @ sparse.diags_array(self._root)).tocsr()

    def slow_modes(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Return the `count` eigenvalues of the generator next to zero (zero first) and its right eigenvectors."""
        check_integer("count", count, 1, len(self._root) - 2)
        start = np.random.default_rng(0).standard_normal(len(self._root))  # ARPACK's own start would be random
        # Any small positive shift will do: the generator is singular, the shifted one is definite.
        with solving(
            f"the search for {count} slow modes on {len(start)} cells", "ask for fewer, or change the spacing"
        ):
            values, vectors = eigsh(self._symmetric, count, sigma=0.01, v0=start)
        order = np.argsort(-values)
        return values[order], vectors[:, order] / self._root[:, None]

    def relaxation_times(self, count: int) -> FloatArray:
        """Return the `count` slowest relaxation times -1/lambda_i, i > 1, longest first."""
        return np.asarray(-1.0 / self.slow_modes(check_integer("count", count, 1) + 1)[0][1:])

    def _propagate(self, labels: ArrayLike, lagtime: float) -> tuple[FloatArray, FloatArray]:
        """Return the states' indicators and their images under exp(L lagtime), both times sqrt(stationary)."""
        array = np.asarray(labels)
        if array.shape != self._root.shape:
            raise InputError(f"labels must have shape {self._root.shape}, one per cell, got {array.shape}")
        check_range("lagtime", lagtime, 0.0)
        states, index = np.unique(array, return_inverse=True)
        indicators = self._root[:, None] * np.eye(len(states))[index]
        return indicators, _heat(self._symmetric, indicators, lagtime)

    def transition_matrix(self, labels: ArrayLike, lagtime: float) -> FloatArray:
        """Return P_ij(lagtime) between the states of a partition at equilibrium (paper, 'Diffusion models')."""
        indicators, images = self._propagate(labels, lagtime)
        return np.asarray(indicators.T @ images / (indicators**2).sum(axis=0)[:, None])

    def metastability(self, labels: ArrayLike, lagtime: float) -> float:
        """Return Q = sum_k P_kk(lagtime) of a partition."""
        return float(np.trace(self.transition_matrix(labels, lagtime)))

    def best_partition(self, n_states: int, lagtime: float) -> StateArray:
        """Return the (locally) most metastable partition, states ordered by falling population; cached."""
        most = len(self._root) - 3  # as many slow modes can be found, and one more is needed
        return _best_partition(self, check_integer("n_states", n_states, 2, most), check_positive("lagtime", lagtime))


def exact_reference(model: DiffusionModel, spacing: float = 0.05) -> ExactReference:
    """Return the `ExactReference` of a model, built once per process.

    Examples
    --------
    >>> from m3c_md.systems import MODEL_II
    >>> exact_reference(MODEL_II, 0.1) is exact_reference(MODEL_II, 0.1)
    True
    """
    if not isinstance(model, DiffusionModel):
        raise InputError(f"model={model!r:.60} must be a DiffusionModel, e.g. MODEL_I")
    return _exact_reference(model, check_positive("spacing", spacing))


@lru_cache(maxsize=8)
def _exact_reference(model: DiffusionModel, spacing: float) -> ExactReference:
    return ExactReference(model, spacing)


@lru_cache(maxsize=32)
def _best_partition(reference: ExactReference, n_states: int, lagtime: float) -> StateArray:
    """Choose the best start, then ascend Q at falling lag times.

    Longer lags come first because at a short one the grid pins a boundary that should move less than a cell.
    """
    starts = _starts(reference, n_states)
    labels = max(starts, key=lambda start: reference.metastability(start, lagtime))
    for factor in (4.0, 2.0, 1.0):
        labels = _ascend(reference, labels, factor * lagtime)
    rank = np.argsort(np.argsort(-np.bincount(labels, reference.stationary, n_states), kind="stable"))
    best: StateArray = rank[labels].astype(np.int32)
    best.setflags(write=False)
    return best


def _starts(reference: ExactReference, n_states: int) -> list[StateArray]:
    """Return the partition by n slow modes, and those by n + 1 modes with two states merged.

    The latter serve symmetric systems, whose n slow modes may cut a well in half (Model I with two states).
    """
    modes = reference.slow_modes(n_states + 1)[1]
    coarse, fine = (_simplex_labels(modes[:, :k], reference.stationary) for k in (n_states, n_states + 1))
    merged = [np.where(fine == b, a, fine - (fine > b)) for b in range(n_states + 1) for a in range(b)]
    return [coarse, *(labels.astype(np.int32) for labels in merged)]


def _simplex_labels(modes: FloatArray, weights: FloatArray) -> StateArray:
    """Label cells by the nearest corner of the simplex that the slow modes span (as PCCA does)."""
    inside = (weights > 1e-6)[:, None]  # no corners in the far tails
    corners = [int(np.argmax(((modes * inside) ** 2).sum(axis=1)))]
    cloud = (modes - modes[corners[0]]) * inside
    for _ in range(modes.shape[1] - 1):
        corners.append(int(np.argmax((cloud**2).sum(axis=1))))
        direction = cloud[corners[-1]] / np.linalg.norm(cloud[corners[-1]])
        cloud = cloud - np.outer(cloud @ direction, direction)
    with solving(f"the simplex of {modes.shape[1]} slow modes", "ask for fewer states, or change the spacing"):
        memberships = modes @ np.linalg.inv(modes[corners])
    return np.asarray(np.argmax(memberships, axis=1), dtype=np.int32)


def _ascend(reference: ExactReference, labels: StateArray, lagtime: float) -> StateArray:
    """Raise Q until no update helps.

    Q is convex in the indicators (quadratic over linear, exp(L lagtime) being positive semidefinite), so moving all
    cells at once to the largest entry of the gradient, (2 (P 1_k)_i - P_kk) / pi_k, never lowers it.
    """
    best = -np.inf
    while True:
        indicators, images = reference._propagate(labels, lagtime)
        mass = (indicators**2).sum(axis=0)
        stay = (indicators * images).sum(axis=0) / mass
        if stay.sum() <= best + 1e-12:
            return labels
        best, fallback = stay.sum(), labels
        scores = (2.0 * images / np.sqrt(reference.stationary)[:, None] - stay) / mass
        labels = np.argmax(scores, axis=1).astype(np.int32)
        if len(np.unique(labels)) < len(mass):  # an emptied state leaves the feasible set
            return fallback
