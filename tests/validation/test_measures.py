"""Measures of held-out data: known chains, deeptime's scores, and states that the data do not show."""

from __future__ import annotations

import numpy as np
import pytest
from deeptime.decomposition import VAMP

from m3c_md import KMedoids
from m3c_md.exceptions import FewVisitsWarning
from m3c_md.inputs.dataset import Dataset
from m3c_md.validation import transition_counts
from m3c_md.validation.measures import judge, microstate_timescales, vamp2_of_counts
from tests.conftest import hidden_markov_wells
from tests.markov import THREE_STATES, markov_chain, slowest, stationary

TRAIN, TEST = hidden_markov_wells(300, 3, 1), hidden_markov_wells(250, 3, 2)


class TestVamp2:
    def test_of_a_known_chain_is_the_sum_of_squared_eigenvalues(self) -> None:
        # Birth and death: reversible, so singular values of the weighted chain are its eigenvalues.
        flows = stationary(THREE_STATES)[:, None] * THREE_STATES
        eigenvalues = np.linalg.eigvals(THREE_STATES).real
        assert vamp2_of_counts(flows) == pytest.approx((eigenvalues**2).sum(), rel=1e-12)

    def test_is_the_score_of_deeptime_on_the_same_held_out_data(self) -> None:
        train, test = (np.eye(3)[markov_chain(THREE_STATES, 4_000, seed)] for seed in (0, 1))
        # Singular functions of the training data, scored by covariances of the test data.
        seen, unseen = (VAMP(lagtime=3).fit_fetch(x) for x in (train, test))
        counts = transition_counts(test.argmax(axis=1), 3, 3)
        assert vamp2_of_counts(counts) == pytest.approx(seen.score(2, test_model=unseen), rel=1e-9)

    def test_an_unvisited_state_adds_nothing(self) -> None:
        counts = np.array([[9.0, 1.0], [1.0, 9.0]])
        assert vamp2_of_counts(np.pad(counts, (0, 1))) == pytest.approx(vamp2_of_counts(counts))

    def test_without_memory_it_is_one(self) -> None:
        assert vamp2_of_counts(np.outer([0.2, 0.8], [0.3, 0.7])) == pytest.approx(1.0)


@pytest.fixture(scope="module")
def model() -> KMedoids:
    with pytest.warns(FewVisitsWarning):
        return KMedoids(3, random_state=0).fit_fetch(TRAIN.frames)


class TestStatesThatAreNotSeen:
    def test_never_visited(self, model: KMedoids) -> None:
        found = judge(model, [TEST.frames[TEST.states != 1]], 1)
        assert (found.never_visited, found.never_left) == (1, 0)
        assert 1.0 < found.metastability < 2.0
        assert np.isnan(found.timescales).tolist() == [False, True]

    def test_never_left(self, model: KMedoids) -> None:
        stay = TEST.frames[TEST.states == 0]
        found = judge(model, [stay, TEST.frames[TEST.states == 2]], 1)
        assert (found.never_visited, found.never_left) == (1, 2)
        assert found.metastability == 2.0

    def test_seen_and_left(self, model: KMedoids) -> None:
        found = judge(model, [TEST.frames], 1)
        assert (found.never_visited, found.never_left) == (0, 0)

    def test_visited_in_the_last_frame_only_counts_as_not_visited(self, model: KMedoids) -> None:
        once = np.concatenate([TEST.frames[TEST.states == 0][:20], TEST.frames[TEST.states == 1][:1]])
        assert judge(model, [once], 1).never_visited == 2


class TestTimescalesOfMicrostates:
    def test_of_a_known_chain(self) -> None:
        chain = markov_chain(THREE_STATES, 20_000, 0)
        x = chain[:, None] + 0.1 * np.random.default_rng(0).normal(size=(20_000, 1))
        data = Dataset.of(x)
        found = microstate_timescales(data, data, 2, 1)
        assert found[0] == pytest.approx(slowest(THREE_STATES, 1), rel=0.2)
        # Cells that keep to the wells lose nothing: as slow as the hidden chain itself.
        from m3c_md.validation import implied_timescales

        its = implied_timescales(chain, [1], confidence=None)
        np.testing.assert_allclose(found, [its.timescales_for_process(i)[0] for i in range(2)], rtol=0.02)

    def test_slow_coordinates_of_many_columns(self) -> None:
        rng = np.random.default_rng(3)
        chain = markov_chain(THREE_STATES, 4_000, 2)
        wide = np.column_stack([chain + 0.1 * rng.normal(size=4_000), 3.0 * rng.normal(size=(4_000, 30))])
        train, test = Dataset.of(wide[:2_000]), Dataset.of(wide[2_000:])
        from m3c_md.validation import implied_timescales

        truth = implied_timescales(chain[2_000:], [1], confidence=None).timescales_for_process(0)[0]
        assert microstate_timescales(train, test, 2, 1)[0] == pytest.approx(truth, rel=0.35)

    def test_too_few_data_and_equal_frames(self) -> None:
        few = Dataset.of(np.arange(30.0)[:, None])
        assert np.isnan(microstate_timescales(few, few, 2, 1)).all()
        equal = Dataset.of(np.ones((500, 2)))
        assert np.isnan(microstate_timescales(equal, equal, 2, 1)).all()
