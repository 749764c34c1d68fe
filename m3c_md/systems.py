"""The paper's test systems: two diffusions with an exact reference, and labelled Markov sequences.

Paper sections 'Sequential unlabeled data' and 'Diffusion models', appendix 'Description of Model I and Model II'.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.sparse.linalg import eigsh
from scipy.special import ive

from m3c_md.exceptions import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]
Box = tuple[tuple[float, float], tuple[float, float]]


class _ProductWells:
    """depth * f(x1) * g(x2) with f, g sums of Gaussian bumps, and its gradient: the wells of both models.

    Few calls on small arrays matter here: a simulation evaluates the gradient 1e5 times for 10 points.
    """

    def __init__(self, depth: float, centres: tuple[list[float], list[float]], widths: tuple[float, float]) -> None:
        sizes = [len(part) for part in centres]
        roots = np.sqrt(np.repeat(widths, sizes))
        self._depth = depth
        self._gather = np.repeat(np.eye(2), sizes, axis=0)  # (bumps, 2): the coordinate that a bump belongs to
        self._scale = (self._gather * roots[:, None]).T.copy()
        self._shift = np.concatenate(centres) * roots
        self._slope = -2.0 * depth * self._gather * roots[:, None]

    def value(self, x: FloatArray) -> FloatArray:
        offset = x @ self._scale - self._shift
        return np.asarray(self._depth * (np.exp(-offset * offset) @ self._gather).prod(axis=-1))

    def gradient(self, x: FloatArray) -> FloatArray:
        offset = x @ self._scale - self._shift
        bumps = np.exp(-offset * offset)
        return np.asarray((bumps * offset) @ self._slope * (bumps @ self._gather)[..., ::-1])


_GAMMA = 1.67
_WELLS_1 = _ProductWells(-8.0, ([-1.0, 0.0, 1.0], [-0.75, 0.75]), (8.0, 200.0 / 36.0))
_WELLS_2 = _ProductWells(-4.0 * _GAMMA, ([-1.0], [-0.5, 0.5]), (0.8, 32.0))
_CUBIC_1, _LINEAR_1 = np.array([3.2, 0.0]), np.array([0.0, 32.0 / 9.0])


def _potential_1(x: ArrayLike) -> FloatArray:
    """U_I of the paper's appendix."""
    x = np.asarray(x, dtype=np.float64)
    return np.asarray(_WELLS_1.value(x) + 0.8 * x[..., 0] ** 4 + 16.0 / 9.0 * x[..., 1] ** 2)


def _gradient_1(x: ArrayLike) -> FloatArray:
    x = np.asarray(x, dtype=np.float64)
    return np.asarray(_WELLS_1.gradient(x) + (_CUBIC_1 * x * x + _LINEAR_1) * x)


def _arc(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Radius, angle, max{|angle| - pi/2, 0} and value of the arc-shaped well of Model II.

    The paper prints theta for |theta|; then the potential would jump across the negative x1 axis.
    """
    radius = np.maximum(np.hypot(x[..., 0], x[..., 1]), 1e-6)  # the arc is 1e-18 at the origin: any guard will do
    angle = np.arctan2(x[..., 1], x[..., 0])
    excess = np.maximum(np.abs(angle) - np.pi / 2, 0.0)
    return radius, angle, excess, np.exp(-16.0 * ((radius - 1.6) ** 2 + excess**2))


def _potential_2(x: ArrayLike) -> FloatArray:
    """U_II of the paper's appendix, first well corrected (see `_arc`)."""
    x = np.asarray(x, dtype=np.float64)
    return np.asarray(_WELLS_2.value(x) + _GAMMA * (0.2 * (x**4).sum(axis=-1) - 4.0 * _arc(x)[-1]))


def _gradient_2(x: ArrayLike) -> FloatArray:
    x = np.asarray(x, dtype=np.float64)
    radius, angle, excess, value = _arc(x)
    radial = value * (radius - 1.6) / radius
    angular = value * np.copysign(excess, angle) / (radius * radius)
    arc = np.empty_like(x)
    arc[..., 0] = radial * x[..., 0] - angular * x[..., 1]
    arc[..., 1] = radial * x[..., 1] + angular * x[..., 0]
    return np.asarray(_WELLS_2.gradient(x) + _GAMMA * (128.0 * arc + 0.8 * x * x * x))


@dataclass(frozen=True)
class DiffusionModel:
    """A two-dimensional reversible diffusion dx = -A grad U dt + sqrt(2A) du, with the paper's sampling protocol.

    Its stationary density is proportional to exp(-U).

    Attributes
    ----------
    potential, gradient : callable
        U and grad U, vectorised: (..., 2) arrays to (...) and (..., 2).
    mobility : tuple of float
        The constant diagonal of A.
    box, start_box : pair of (low, high)
        Where the stationary mass is (outside: below 1e-7), and where trajectories start, uniformly.
    n_trajectories, duration, interval, n_states : int, float, float, int
        The paper's protocol: how many, how long, the time between two samples, and the number of states.
    step : float
        Default step of the Euler-Maruyama scheme, see `simulate`.

    Examples
    --------
    >>> MODEL_I.potential([[0.0, 0.75], [0.0, 0.0]]).round(2)
    array([-7.01, -0.7 ])
    """

    name: str
    potential: Callable[[ArrayLike], FloatArray]
    gradient: Callable[[ArrayLike], FloatArray]
    mobility: tuple[float, float]
    box: Box
    start_box: Box
    n_trajectories: int
    duration: float
    interval: float
    step: float
    n_states: int = 3


# fmt: off
MODEL_I = DiffusionModel(
    name="Model I", potential=_potential_1, gradient=_gradient_1, mobility=(0.25, 9.0),
    box=((-2.0, 2.0), (-3.0, 3.0)), start_box=((-1.5, 1.5), (-1.5, 1.5)),
    n_trajectories=10, duration=80.0, interval=0.2, step=5e-4,
)
MODEL_II = DiffusionModel(
    name="Model II", potential=_potential_2, gradient=_gradient_2, mobility=(1.0 / _GAMMA, 1.0 / _GAMMA),
    box=((-2.5, 2.5), (-2.5, 2.5)), start_box=((-2.0, 2.0), (-2.0, 2.0)),
    n_trajectories=50, duration=1.0, interval=0.02, step=2e-4,
)
# fmt: on


def _whole_ratio(longer: float, shorter: float, names: str) -> int:
    """Return longer / shorter, which must be a positive whole number."""
    if not (0.0 < longer < np.inf and 0.0 < shorter < np.inf):
        raise InputError(f"{names} must be positive and finite, got {longer} and {shorter}")
    ratio = round(longer / shorter)
    if ratio < 1 or abs(longer / shorter - ratio) > 1e-6:
        raise InputError(f"{names}: {longer} is not a whole multiple of {shorter}; choose values that divide")
    return ratio


def simulate(
    model: DiffusionModel,
    rng: np.random.Generator,
    *,
    n_trajectories: int | None = None,
    duration: float | None = None,
    interval: float | None = None,
    step: float | None = None,
) -> list[FloatArray]:
    """Simulate a diffusion by the Euler-Maruyama scheme (paper, 'Diffusion models'), all trajectories side by side.

    Parameters
    ----------
    model : DiffusionModel
        Where the defaults of the other parameters, the paper's protocol, come from.
    rng : numpy.random.Generator
        Source of the starts and of the noise.
    n_trajectories : int, optional
        How many. Many data sets are simulated fastest as one call whose list is then cut into pieces.
    duration, interval, step : float, optional
        Length of a trajectory, time between samples and time step, each a whole multiple of the next.

    Returns
    -------
    list of ndarray (T, 2)
        One trajectory each. The start is the first sample: 80 time units every 0.2 are 401 frames.

    Notes
    -----
    The scheme's bias is of first order in the step. Model I is stiff: mobility 9 times curvature 92 in x2. At the
    default step 5e-4 its mean energy is 9 % above the exact one (19 % at 1e-3, 4 % at 2.5e-4), and Q of the right
    partition is 0.002 too low (0.005 at 1e-3, below 0.001 at 2.5e-4; standard errors 0.0005 to 0.001): a smaller
    error than that of Q from one data set of the paper's size. Model II at 2e-4 shows no bias in 8000 trajectories.

    Examples
    --------
    >>> trajs = simulate(MODEL_I, np.random.default_rng(0), n_trajectories=2, duration=1.0)
    >>> [traj.shape for traj in trajs]
    [(6, 2), (6, 2)]
    """
    count = model.n_trajectories if n_trajectories is None else n_trajectories
    interval = model.interval if interval is None else interval
    step = model.step if step is None else step
    n_samples = _whole_ratio(model.duration if duration is None else duration, interval, "duration and interval")
    n_steps = _whole_ratio(interval, step, "interval and step")
    if count < 1:
        raise InputError(f"n_trajectories must be at least 1, got {count}")
    mobility = np.array(model.mobility)
    drift, amplitude = -step * mobility, np.sqrt(2.0 * step * mobility)
    low, high = np.array(model.start_box).T
    x = rng.uniform(low, high, size=(count, 2))
    frames = np.empty((count, n_samples + 1, 2))
    frames[:, 0] = x
    with np.errstate(over="ignore", invalid="ignore"):  # a step too large diverges: reported below
        for sample in range(1, n_samples + 1):
            # The noise of a whole interval at once: one call instead of n_steps.
            for kick in rng.standard_normal((n_steps, count, 2)) * amplitude:
                x = x + drift * model.gradient(x) + kick
            frames[:, sample] = x
    if not (np.abs(frames) < 10.0 * np.abs(model.box).max()).all():
        raise InputError(f"the simulation diverged with step={step}; choose a smaller one (default {model.step})")
    return list(frames)


def _grid_generator(model: DiffusionModel, spacing: float) -> tuple[FloatArray, FloatArray, sparse.csr_array]:
    """Cell centres, stationary distribution and symmetrised finite-volume generator on a regular grid.

    Scharfetter-Gummel fluxes: the rate from cell i to its neighbour j is A/h^2 B(U_j - U_i) with B(u) = u/(e^u - 1),
    in detailed balance with exp(-U). The symmetric form diag(pi)^(1/2) L diag(pi)^(-1/2) has off-diagonal entries
    A/h^2 (d/2)/sinh(d/2), d = U_j - U_i, free of overflow where pi is tiny.
    """
    shape = tuple(_whole_ratio(high - low, spacing, "box side and spacing") for low, high in model.box)
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
        if not 1 <= count < len(self._root) - 1:
            raise InputError(f"the number of modes must be between 1 and {len(self._root) - 2}, got {count}")
        start = np.random.default_rng(0).standard_normal(len(self._root))  # ARPACK's own start would be random
        # Any small positive shift will do: the generator is singular, the shifted one is definite.
        values, vectors = eigsh(self._symmetric, count, sigma=0.01, v0=start)
        order = np.argsort(-values)
        return values[order], vectors[:, order] / self._root[:, None]

    def relaxation_times(self, count: int) -> FloatArray:
        """Return the `count` slowest relaxation times -1/lambda_i, i > 1, longest first."""
        return np.asarray(-1.0 / self.slow_modes(count + 1)[0][1:])

    def _propagate(self, labels: ArrayLike, lagtime: float) -> tuple[FloatArray, FloatArray]:
        """Return the states' indicators and their images under exp(L lagtime), both times sqrt(stationary)."""
        array = np.asarray(labels)
        if array.shape != self._root.shape:
            raise InputError(f"labels must have shape {self._root.shape}, one per cell, got {array.shape}")
        if not 0.0 <= lagtime < np.inf:
            raise InputError(f"lagtime must be finite and not negative, got {lagtime}")
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

    def best_partition(self, n_states: int, lagtime: float) -> IntArray:
        """Return the (locally) most metastable partition, states ordered by falling population; cached."""
        return _best_partition(self, n_states, lagtime)


@lru_cache(maxsize=8)
def exact_reference(model: DiffusionModel, spacing: float = 0.05) -> ExactReference:
    """Return the `ExactReference` of a model, built once per process.

    Examples
    --------
    >>> exact_reference(MODEL_II, 0.1) is exact_reference(MODEL_II, 0.1)
    True
    """
    return ExactReference(model, spacing)


@lru_cache(maxsize=32)
def _best_partition(reference: ExactReference, n_states: int, lagtime: float) -> IntArray:
    """Choose the best start, then ascend Q at falling lag times.

    Longer lags come first because at a short one the grid pins a boundary that should move less than a cell.
    """
    if n_states < 2:
        raise InputError(f"n_states must be at least 2, got {n_states}")
    starts = _starts(reference, n_states)
    labels = max(starts, key=lambda start: reference.metastability(start, lagtime))
    for factor in (4.0, 2.0, 1.0):
        labels = _ascend(reference, labels, factor * lagtime)
    rank = np.argsort(np.argsort(-np.bincount(labels, reference.stationary, n_states), kind="stable"))
    best: IntArray = rank[labels].astype(np.int32)
    best.setflags(write=False)
    return best


def _starts(reference: ExactReference, n_states: int) -> list[IntArray]:
    """Return the partition by n slow modes, and those by n + 1 modes with two states merged.

    The latter serve symmetric systems, whose n slow modes may cut a well in half (Model I with two states).
    """
    modes = reference.slow_modes(n_states + 1)[1]
    coarse, fine = (_simplex_labels(modes[:, :k], reference.stationary) for k in (n_states, n_states + 1))
    merged = [np.where(fine == b, a, fine - (fine > b)) for b in range(n_states + 1) for a in range(b)]
    return [coarse, *(labels.astype(np.int32) for labels in merged)]


def _simplex_labels(modes: FloatArray, weights: FloatArray) -> IntArray:
    """Label cells by the nearest corner of the simplex that the slow modes span (as PCCA does)."""
    inside = (weights > 1e-6)[:, None]  # no corners in the far tails
    corners = [int(np.argmax(((modes * inside) ** 2).sum(axis=1)))]
    cloud = (modes - modes[corners[0]]) * inside
    for _ in range(modes.shape[1] - 1):
        corners.append(int(np.argmax((cloud**2).sum(axis=1))))
        direction = cloud[corners[-1]] / np.linalg.norm(cloud[corners[-1]])
        cloud = cloud - np.outer(cloud @ direction, direction)
    return np.asarray(np.argmax(modes @ np.linalg.inv(modes[corners]), axis=1), dtype=np.int32)


def _ascend(reference: ExactReference, labels: IntArray, lagtime: float) -> IntArray:
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


def agreement(labels_a: ArrayLike, labels_b: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Return the fraction of weight on which two labelings agree after the best matching of their labels.

    Examples
    --------
    >>> agreement([0, 0, 1, 1], [1, 1, 0, 1])
    0.75
    """
    first, second = np.asarray(labels_a), np.asarray(labels_b)
    mass = np.ones(first.shape) if weights is None else np.asarray(weights, dtype=np.float64)
    if first.ndim != 1 or first.size == 0 or not first.shape == second.shape == mass.shape:
        raise InputError(
            f"need 1-d labels and weights of one length > 0, got {first.shape}, {second.shape}, {mass.shape}"
        )
    if not (mass >= 0).all() or not 0 < mass.sum() < np.inf:
        raise InputError("weights must be finite, not negative and not all zero")
    (names_a, index_a), (names_b, index_b) = (np.unique(part, return_inverse=True) for part in (first, second))
    table = np.zeros((len(names_a), len(names_b)))
    np.add.at(table, (index_a, index_b), mass)
    return min(1.0, float(table[linear_sum_assignment(table, maximize=True)].sum() / table.sum()))


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
    """Patterns and classes of a metastable sequence, and of all instances left over."""

    train_X: NDArray[Any]  # noqa: N815
    train_y: NDArray[Any]
    test_X: NDArray[Any]  # noqa: N815
    test_y: NDArray[Any]


def _label_chain(n_classes: int, transition_matrix: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    """Return the checked transition matrix and its stationary distribution."""
    if transition_matrix is None and n_classes not in _LABEL_CHAINS:
        raise InputError(f"the paper has no transition matrix for {n_classes} classes; give transition_matrix")
    matrix = np.asarray(_LABEL_CHAINS[n_classes] if transition_matrix is None else transition_matrix, dtype=np.float64)
    if matrix.shape != (n_classes, n_classes):
        raise InputError(f"transition_matrix must be {n_classes} x {n_classes} (classes in y), got {matrix.shape}")
    if not ((matrix >= 0).all() and np.allclose(matrix.sum(axis=1), 1.0, rtol=0.0, atol=1e-8)):
        raise InputError(f"transition_matrix must be stochastic, got row sums {matrix.sum(axis=1)}")
    equations = np.vstack((matrix.T - np.eye(n_classes), np.ones(n_classes)))
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
    if classes_of.ndim != 1 or len(patterns) != len(classes_of):
        raise InputError(f"need one class per pattern, got X {patterns.shape} and y {classes_of.shape}")
    if not 1 <= length <= len(classes_of):
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
