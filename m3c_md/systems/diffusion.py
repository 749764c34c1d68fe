"""Model I and Model II: two-dimensional metastable diffusions, and their simulation.

Paper section 'Diffusion models', appendix 'Description of Model I and Model II'.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError
from m3c_md.inputs.settings import check_generator, check_integer, check_positive

Box = tuple[tuple[float, float], tuple[float, float]]

# What the samples of a simulation, or the noise between two of them, may take.
MOST_BYTES = 2e10


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


def whole_ratio(longer: float, shorter: float, names: str) -> int:
    """Return longer / shorter, which must be a positive whole number."""
    for value in (longer, shorter):
        check_positive(names, value)
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
    if not isinstance(model, DiffusionModel):
        raise InputError(f"model={model!r:.60} must be a DiffusionModel, e.g. MODEL_I")
    check_generator(rng)
    count = check_integer("n_trajectories", model.n_trajectories if n_trajectories is None else n_trajectories, 1)
    interval = model.interval if interval is None else interval
    step = model.step if step is None else step
    n_samples = whole_ratio(model.duration if duration is None else duration, interval, "duration and interval")
    n_steps = whole_ratio(interval, step, "interval and step")
    if count * n_samples * 16 > MOST_BYTES or count * n_steps * 16 > MOST_BYTES:
        raise InputError(
            f"n_trajectories={count:.6g} of {n_samples:.6g} samples and {n_steps:.6g} steps between two of them do not "
            "fit into memory; simulate fewer at a time"
        )
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
