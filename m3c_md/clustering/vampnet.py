"""VAMPnet of deeptime: a small neural network whose outputs are memberships of states. It needs torch to be fitted."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Self

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.clustering.archive import Contents
from m3c_md.clustering.pcca_plus import FOREIGN
from m3c_md.clustering.state_estimator import StateEstimator
from m3c_md.clustering.state_model import StateModel, falling
from m3c_md.clustering.training_data import Note, rare_state_notes, training_set, transition_pairs
from m3c_md.clustering.visits import visits_of_windows
from m3c_md.exceptions import FewerStatesWarning, InputError, ModelFileError, SolverError
from m3c_md.inputs.settings import check_integer, check_positive, check_random_state
from m3c_md.optimize.threads import ONE_BLAS_THREAD
from m3c_md.search.problem import column_scale

# Pairs of frames that a step of the optimisation sees; VAMP-2 of much smaller batches is biased.
BATCH = 1_000
# Sum of covariances' eigenvalues below which they count as noise.
RIDGE = 1e-6

Layers = list[tuple[FloatArray, FloatArray]]


def torch_is_missing() -> str:
    """What to do if torch cannot be imported, else nothing."""
    return "" if find_spec("torch") is not None else "it needs torch: pip install m3c_md[deep]"


class VAMPNetModel(StateModel):
    """States as the largest outputs of a neural network; needs no torch.

    Attributes
    ----------
    mean, scale : (n_columns,) arrays
        What frames are standardised by.
    layers : list of (weights, biases)
        Of the network, an ELU after each layer but the last.
    """

    def __init__(self, mean: FloatArray, scale: FloatArray, layers: Layers, populations: FloatArray) -> None:
        super().__init__(populations, len(mean))
        self.mean = mean
        self.scale = scale
        self.layers = layers

    def memberships(self, data: Any) -> Any:
        """Softmax of the outputs, (n_frames, n_states)."""
        return self._each(data, lambda x: _softmax(self._scores(x)))

    def _scores(self, frames: FloatArray) -> FloatArray:
        values = (frames - self.mean) / self.scale
        for number, (weights, biases) in enumerate(self.layers):
            values = values @ weights + biases
            if number + 1 < len(self.layers):
                values = np.where(values > 0.0, values, np.expm1(np.minimum(values, 0.0)))
        return np.asarray(values)

    def _contents(self) -> Contents:
        arrays = {"mean": self.mean, "scale": self.scale, "populations": self.populations, **self._visit_arrays()}
        for number, (weights, biases) in enumerate(self.layers):
            arrays |= {f"weights_{number}": weights, f"biases_{number}": biases}
        return Contents({**self._texts(), "n_layers": len(self.layers)}, arrays)

    @classmethod
    def _from_contents(cls, contents: Contents) -> Self:
        mean, populations = contents.array("mean", None), contents.shares("populations", None)
        scale = contents.positive("scale", len(mean))
        layers: Layers = []
        width = len(mean)
        for number in range(contents.number("n_layers", 1, 20)):
            weights = contents.array(f"weights_{number}", width, None)
            width = weights.shape[1]
            layers.append((weights, contents.array(f"biases_{number}", width)))
        if width != len(populations) or width < 2:
            raise ModelFileError("its network has another number of outputs than states")
        return cls(mean, scale, layers, populations)._with_texts(contents)


class VAMPNet(StateEstimator):
    """VAMPnet: a network of two hidden layers with softmax outputs, trained by deeptime for VAMP-2 on the CPU.

    Parameters
    ----------
    n_states : int
        Number of outputs; the network may leave some of them unused.
    lagtime : int, default=1
        Lag time in frames.
    n_hidden : int, default=30
        Units in each of the two hidden layers.
    n_steps : int, default=1000
        Steps of the optimisation, each on 1,000 pairs of frames a lag time apart that are drawn at random.
    learning_rate : float, default=3e-3
        Of Adam.
    random_state : None, int or numpy.random.Generator

    Examples
    --------
    >>> from m3c_md import VAMPNet
    >>> VAMPNet(3, lagtime=10)  # .fit(trajs) needs torch
    VAMPNet(n_states=3, lagtime=10)
    """

    def __init__(
        self,
        n_states: int,
        lagtime: int = 1,
        *,
        n_hidden: int = 30,
        n_steps: int = 1_000,
        learning_rate: float = 3e-3,
        random_state: Any = None,
    ) -> None:
        super().__init__()
        self.n_states = n_states
        self.lagtime = lagtime
        self.n_hidden = n_hidden
        self.n_steps = n_steps
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, data: Any, y: Any = None) -> Self:
        """Find the states of trajectories; data as in `M3C.fit`, ``y`` is ignored."""
        del y
        n_states = check_integer("n_states", self.n_states, 2)
        check_integer("lagtime", self.lagtime, 1)
        check_integer("n_hidden", self.n_hidden, 1)
        check_integer("n_steps", self.n_steps, 1)
        check_positive("learning_rate", self.learning_rate)
        seed = int(check_random_state(self.random_state).integers(2**31))
        missing = torch_is_missing()
        if missing:
            raise InputError(f"a VAMPnet cannot be fitted: {missing}")
        given = training_set(data)
        windows, notes = transition_pairs(given, int(self.lagtime))
        mean, scale = windows.frames.mean(axis=0), column_scale(windows.frames, "standard")
        pairs = ((windows.frames - mean) / scale)[windows.windows]
        with ONE_BLAS_THREAD:
            layers = self._trained(pairs.astype(np.float32), seed)
        model = _ordered(VAMPNetModel(mean, scale, layers, np.full(n_states, 1.0 / n_states)), windows.frames)
        self._keep(model, [*notes, *_doubts(model)], given, visits_of_windows(model, windows))
        return self

    def _trained(self, pairs: Any, seed: int) -> Layers:
        """Weights and biases of the network; torch's own random numbers are left as they were."""
        import torch
        from deeptime.decomposition.deep import VAMPNet as DeeptimeVAMPNet

        n_columns, n_hidden = pairs.shape[-1], int(self.n_hidden)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = torch.nn.Sequential(
                torch.nn.Linear(n_columns, n_hidden),
                torch.nn.ELU(),
                torch.nn.Linear(n_hidden, n_hidden),
                torch.nn.ELU(),
                torch.nn.Linear(n_hidden, int(self.n_states)),
                torch.nn.Softmax(dim=1),
            )
            trainer = DeeptimeVAMPNet(network, learning_rate=float(self.learning_rate), device="cpu", epsilon=RIDGE)
            first, second = (torch.from_numpy(np.ascontiguousarray(x)) for x in pairs)
            try:
                for _ in range(int(self.n_steps)):
                    some = torch.randint(len(first), (min(BATCH, len(first)),))
                    trainer.partial_fit((first[some], second[some]))
            except FOREIGN as error:
                raise SolverError(f"deeptime's VAMPNet failed ({error!s:.200}); use fewer states") from error
            linear = [part for part in network if isinstance(part, torch.nn.Linear)]
            layers = [(p.weight.detach().double().numpy().T.copy(), p.bias.detach().double().numpy()) for p in linear]
        if not all(np.isfinite(part).all() for layer in layers for part in layer):
            raise SolverError("deeptime's VAMPNet ended with weights that are no numbers; use fewer states")
        return layers


def _softmax(scores: FloatArray) -> FloatArray:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _ordered(model: VAMPNetModel, frames: FloatArray) -> VAMPNetModel:
    """The same model with its states in the order of their populations."""
    shares = np.bincount(model.transform(frames), minlength=model.n_states) / len(frames)
    order = falling(shares)
    weights, biases = model.layers[-1]
    last = (np.ascontiguousarray(weights[:, order]), biases[order])
    return VAMPNetModel(model.mean, model.scale, [*model.layers[:-1], last], shares[order])


def _doubts(model: VAMPNetModel) -> list[Note]:
    n_populated = int(np.count_nonzero(model.populations))
    remedy = "ask for fewer states, or train for longer"
    notes = rare_state_notes(model.populations, remedy)
    if n_populated < model.n_states:
        message = f"the VAMPnet was asked for {model.n_states} states and populated {n_populated}; {remedy}"
        notes = [(message, FewerStatesWarning), *notes]
    return notes
