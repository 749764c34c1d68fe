"""Rules fitted again to resampled trajectories: where borders are sure, and kinetics that know it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from m3c_md import kinetics
from m3c_md.exceptions import InputError
from m3c_md.validation import ResampledRules, refit
from tests.conftest import hidden_markov_wells, quick

TRAJS = [hidden_markov_wells(150, 2, seed).frames for seed in range(12)]


@pytest.fixture(scope="module")
def rules() -> ResampledRules:
    return refit(quick(2), TRAJS, 6, random_state=0)


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.FewVisitsWarning")
class TestRefit:
    def test_wells_are_sure_and_the_border_is_not(self, rules: ResampledRules) -> None:
        centres = np.array([[1.5, 0.0], [-1.5, 0.0]])
        assert rules.border_uncertainty(centres).tolist() == [0.0, 0.0]
        across = np.column_stack([np.linspace(-1.0, 1.0, 401), np.zeros(401)])
        shares = rules.border_uncertainty(across)
        assert shares.max() > 0.0
        assert ((shares >= 0.0) & (shares <= 1.0)).all()
        # Those that are not sure lie around the border of the rule.
        border = across[np.flatnonzero(np.diff(rules.model.transform(across))), 0].mean()
        assert abs(across[shares > 0.0, 0] - border).max() < 0.5

    def test_a_list_gives_a_list(self, rules: ResampledRules) -> None:
        shares = rules.border_uncertainty(TRAJS)
        assert [len(share) for share in shares] == [150] * 12

    def test_states_have_the_numbers_of_the_rule(self, rules: ResampledRules) -> None:
        own = np.concatenate(rules.model.transform(TRAJS))
        for model, order in zip(rules.models, rules.orders, strict=True):
            assert (order[np.concatenate(model.transform(TRAJS))] == own).mean() > 0.99
        flipped = 1 - own
        assert rules.order_like(flipped).tolist() == [1, 0]

    def test_kinetics_agree_with_those_of_the_labels(self, rules: ResampledRules) -> None:
        plain = kinetics(rules.model.transform(TRAJS), 2, dt=0.5, unit="ns", random_state=0)
        again = rules.kinetics(2, dt=0.5, unit="ns")
        assert again.confidence == "refit"
        np.testing.assert_allclose(again.pairs["mfpt"], plain.pairs["mfpt"])
        width, before = (np.log(r.pairs["mfpt high"] / r.pairs["mfpt low"]).mean() for r in (again, plain))
        assert 0.3 < width / before < 3.0

    def test_few_trajectories_are_cut_into_blocks(self) -> None:
        rules = refit(quick(2), np.concatenate(TRAJS), 5, random_state=0)
        assert len(rules.parts.lengths) == 20
        assert sum(rules.parts.lengths) == 1800

    def test_the_estimator_is_left_as_it_was(self) -> None:
        estimator = quick(2)
        refit(estimator, TRAJS, 5, random_state=0)
        assert not estimator.has_model


@pytest.mark.parametrize(("estimator", "options"), [("M3C", {}), (quick(2), {"n_refits": 2})])
def test_bad_calls(estimator: Any, options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"estimator|n_refits"):
        refit(estimator, TRAJS, **options)
