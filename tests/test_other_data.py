"""States of many short trajectories hold on trajectories that were not fitted, whatever the seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from m3c_md import M3C
from m3c_md.validation import metastability

LANGERIN = Path(__file__).parents[2] / "shared" / "data" / "langerin" / "langerin_tica.npz"


@pytest.fixture(scope="module")
def halves():
    """Even and odd trajectories."""
    if not LANGERIN.exists():
        pytest.skip("no Langerin beside the clone")
    with np.load(LANGERIN) as stored:
        trajectories = np.split(stored["X"].astype(np.float64), np.cumsum(stored["lengths"])[:-1])
    return trajectories[::2], trajectories[1::2]


@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_langerin_states_hold_on_the_other_half(halves, seed):
    """The same labels by a rule that follows the fitted half more closely had 2.73 with seed 1."""
    fitted, judged = halves
    model = M3C(3, random_state=seed).fit_fetch(fitted)
    assert metastability(model.transform(judged), lagtime=1) >= 2.99
