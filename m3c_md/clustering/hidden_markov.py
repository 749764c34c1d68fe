"""Hidden Markov states: deeptime's discrete hidden Markov model on microstates, started from PCCA+."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from deeptime.markov import TransitionCountModel
from deeptime.markov.hmm import HiddenMarkovModel as DeeptimeModel
from deeptime.markov.hmm import MaximumLikelihoodHMM
from deeptime.markov.hmm.init.discrete import metastable_from_msm
from deeptime.markov.msm import MarkovStateModel

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.clustering.centers import ordered_states
from m3c_md.clustering.hidden_markov_model import HiddenMarkovModel
from m3c_md.clustering.kinetic_map import MappedModel, MapsSlowCoordinates
from m3c_md.clustering.pcca_plus import FOREIGN, PCCAPlusModel
from m3c_md.clustering.state_estimator import quietly_fitted
from m3c_md.clustering.training_data import LaggedPair, Note, rare_state_notes, training_set
from m3c_md.clustering.visits import visits_of
from m3c_md.exceptions import (
    FewerStatesWarning,
    InputError,
    NegativeMatrixWarning,
    RareStateWarning,
    SolverError,
)

# Rounds of expectation maximisation, and the gain in log-likelihood below which it ends; on alanine dipeptide labels
# stand still after 20 rounds, and 60 reach this gain.
MOST_ROUNDS = 100
LEAST_GAIN = 1e-3
# What PCCA+ may say that is not true of the hidden states.
OF_THE_START = (FewerStatesWarning, NegativeMatrixWarning, RareStateWarning)


class HiddenMarkov(MapsSlowCoordinates):
    """Discrete hidden Markov model of deeptime on microstates (of the columns, or of TICA's slow components).

    Microstates and a first guess come from PCCA+, then expectation maximisation takes over. A frame gets the hidden
    state that its microstate most likely comes from, without a look at the frames before and after, so that new frames
    have a state as well, and labels are not smoothed in time. (deeptime's Gaussian hidden Markov model knows
    one-dimensional data only.)

    Parameters
    ----------
    n_states : int
        Number of hidden states.
    lagtime : int, default=1
        Lag time in frames.
    n_components : int, optional
        Number of slow components of TICA in which microstates are found; by default it is the columns themselves.
    tica_lagtime : int, optional
        Lag time of TICA; ``lagtime`` by default.
    n_microstates : int, default=100
        Number of microstates.
    n_restarts : int, default=3
        Starts of k-means.
    random_state : None, int or numpy.random.Generator

    Examples
    --------
    >>> import numpy as np
    >>> from m3c_md import HiddenMarkov
    >>> x = np.repeat([-1.0, 1.0] * 20, 25)[:, None] + 0.3 * np.random.default_rng(0).normal(size=(1000, 1))
    >>> model = HiddenMarkov(2, n_microstates=10, random_state=0).fit_fetch(x)
    >>> model.transform([[-1.0], [1.0]]).tolist() in ([0, 1], [1, 0])
    True
    """

    def __init__(
        self,
        n_states: int,
        lagtime: int = 1,
        *,
        n_components: int | None = None,
        tica_lagtime: int | None = None,
        n_microstates: int = 100,
        n_restarts: int = 3,
        random_state: Any = None,
    ) -> None:
        super().__init__(n_states, lagtime, n_components, tica_lagtime, n_microstates, n_restarts, random_state)

    def fit(self, data: Any, y: Any = None) -> Self:
        """Find the states of trajectories; data as in `M3C.fit` but for pairs, ``y`` is ignored."""
        del y
        cells, lagtime = self._checked_cells(), int(self.lagtime)
        given = training_set(data)
        if isinstance(given, LaggedPair):
            raise InputError("a hidden Markov model needs trajectories, not a pair of arrays; give a list of arrays")
        coordinates = self._map(given)
        trajectories = given.arrays() if coordinates is None else [coordinates(x) for x in given.arrays()]
        start, notes = quietly_fitted(cells, trajectories)
        assert isinstance(start, PCCAPlusModel), "that is what PCCAPlus returns"
        long = [x for x in trajectories if len(x) > lagtime]
        hidden = _model_of(_expectation_maximisation(start, long, lagtime), start, long)
        visits = visits_of([hidden._states(x) for x in long], hidden.n_states)
        # Of the start only what its cells are worth concerns the result.
        notes = [note for note in notes if not issubclass(note[1], OF_THE_START)]
        model = hidden if coordinates is None else MappedModel(coordinates, hidden)
        self._keep(model, [*notes, *_fewer_notes(hidden)], given, visits)
        return self


def _expectation_maximisation(start: PCCAPlusModel, trajectories: list[FloatArray], lagtime: int) -> DeeptimeModel:
    """Hidden Markov model of largest likelihood that is reached from PCCA+."""
    cells = [np.asarray(start._nearest(x), dtype=np.int32) for x in trajectories]
    remedy = "use other microstates, or fewer states"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deeptime warns of rounds that were not enough, which is no harm
        try:
            guess = metastable_from_msm(_renumbered(start.msm), start.n_states)
            estimator = MaximumLikelihoodHMM(guess, lagtime=lagtime, stride=1, accuracy=LEAST_GAIN, maxit=MOST_ROUNDS)
            hidden: DeeptimeModel = estimator.fit_fetch(cells)
            finite = np.isfinite(hidden.metastable_memberships).all()
        except FOREIGN as error:
            raise SolverError(f"deeptime's hidden Markov model failed ({error}); {remedy}") from error
    if not finite:
        raise SolverError(f"deeptime's hidden Markov model has entries that are no numbers; {remedy}")
    return hidden


def _renumbered(msm: MarkovStateModel) -> MarkovStateModel:
    """The same chain with its cells numbered by themselves: deeptime counts those outside the connected set along."""
    counts = TransitionCountModel(msm.count_model.count_matrix, counting_mode="sliding", lagtime=msm.lagtime)
    return MarkovStateModel(
        msm.transition_matrix,
        stationary_distribution=msm.stationary_distribution,
        reversible=True,
        count_model=counts,
        transition_matrix_tolerance=1e-6,  # as strict as deeptime's estimator
    )


def _model_of(hidden: DeeptimeModel, start: PCCAPlusModel, trajectories: list[FloatArray]) -> HiddenMarkovModel:
    """Model with its states in the order of their populations."""
    k = start.n_states
    seen = np.asarray(hidden.observation_symbols)  # cells that occur at the lag time's stride
    of_cell = start.states.copy()
    of_cell[seen] = np.asarray(hidden.metastable_assignments)
    output = np.zeros((k, len(start.centers)))
    output[:, seen] = np.asarray(hidden.output_probabilities)
    frames = np.concatenate(trajectories)
    order, populations = ordered_states(frames, start.centers, start.scale, of_cell, k)
    states: IntArray = np.argsort(order)[of_cell]
    chain = np.asarray(hidden.transition_model.transition_matrix)[np.ix_(order, order)]
    return HiddenMarkovModel(start.centers, start.scale, states, populations, chain, output[order])


def _fewer_notes(model: HiddenMarkovModel) -> list[Note]:
    n_populated = int(np.count_nonzero(model.populations))
    remedy = "ask for fewer states, or for another number of microstates"
    notes = rare_state_notes(model.populations, remedy)
    if n_populated < model.n_states:
        message = f"the hidden Markov model was asked for {model.n_states} states and populated {n_populated}; {remedy}"
        notes = [(message, FewerStatesWarning), *notes]
    return notes
