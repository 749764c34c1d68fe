"""Small metastable series with known states, and models of them that many tests share."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

# Before numpy is there: processes side by side share the cores, and threads that wait for each other keep them busy.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

# First of all: once cvxpy has loaded its HiGHS, OR-tools cannot be loaded any more, and the label step would be tested
# with its stand-in alone.
import ortools.graph.python.min_cost_flow  # noqa: F401
import pytest
from numpy.typing import NDArray

from m3c_md import M3C, M3CModel
from m3c_md.clustering.state_model import StateModel
from m3c_md.exceptions import FewVisitsWarning

# Modules whose series are too short for ten entries into every state, and which are about something else: there a
# `FewVisitsWarning` is no error. It is in all others, and tests/clustering/test_visits.py is about it.
SHORT_SERIES = {
    *(f"clustering/test_{name}.py" for name in ("checkpoint", "common_face", "deeptime_contract", "k_medoids")),
    *(f"clustering/test_{name}.py" for name in ("lumped", "m3c", "margin_model", "mmc", "model_file", "odd_input")),
    "clustering/test_edited_rule.py",
    "clustering/test_pcca_plus.py",
    "optimize/test_loops_as_python.py",
    *(f"plots/test_{name}.py" for name in ("decomposition", "search", "state_map")),
    "frames/test_cluster.py",
    *(f"trust/test_{name}.py" for name in ("bad_fits", "interrupts", "other_users", "properties")),
    *(f"trust/test_{name}.py" for name in ("solver_failures", "warnings")),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    silent = pytest.mark.filterwarnings("ignore::m3c_md.exceptions.FewVisitsWarning")
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).as_posix() in SHORT_SERIES:
            # In front, where marks of the test itself count for more.
            item.add_marker(silent, append=False)


class Wells(NamedTuple):
    """A time series and the hidden state of each of its frames."""

    frames: NDArray[np.float64]
    states: NDArray[np.intp]


def hidden_markov_wells(n_frames: int, n_states: int, seed: int = 0, *, stay: float = 0.97) -> Wells:
    """Gaussian clouds on a circle, far apart, between which a Markov chain jumps; read-only arrays."""
    rng = np.random.default_rng(seed)
    angle = 2.0 * np.pi * np.arange(n_states) / n_states
    jumps = np.where(rng.random(n_frames) < stay, 0, rng.integers(1, n_states, n_frames))
    states = np.cumsum(jumps) % n_states
    centres = 1.5 * np.column_stack([np.cos(angle), np.sin(angle)])
    frames = centres[states] + 0.25 * rng.normal(size=(n_frames, 2))
    frames.flags.writeable = states.flags.writeable = False
    return Wells(frames, states)


def quick(n_states: int, **changes: Any) -> M3C:
    """Estimator with a search of a single candidate: a fit takes a fraction of a second."""
    return M3C(n_states, **{"bandwidth": 1.0, "starts": ("kinetic",), "random_state": 0, **changes})


def other_warnings(model: StateModel) -> list[str]:
    """What was said during a fit, apart from how rarely short series enter their states."""
    return [text for text in model.warnings if "hardly known; add trajectories that enter" not in text]


@pytest.fixture(autouse=True)
def _figures_are_closed() -> Iterator[None]:
    """Leave no figure open: matplotlib warns of too many, whichever test draws the next one."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


@pytest.fixture(scope="session")
def two_wells() -> Wells:
    return hidden_markov_wells(400, 2)


@pytest.fixture(scope="session")
def three_wells() -> Wells:
    return hidden_markov_wells(600, 3)


@pytest.fixture(scope="session")
def three_state_model(three_wells: Wells) -> M3CModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewVisitsWarning)
        model: M3CModel = quick(3).fit_fetch(three_wells.frames)
    return model


@pytest.fixture(scope="session")
def searched_model(three_wells: Wells) -> M3CModel:
    """Model of a search over two starts and three bandwidths, in one metric."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewVisitsWarning)
        estimator = quick(3, bandwidth=(0.5, 1.0, 2.0), starts=("kinetic", "kmeans"), metric="standard")
        model: M3CModel = estimator.fit_fetch(three_wells.frames)
    return model


@pytest.fixture(scope="session", autouse=True)
def executed_notebooks(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Any]]]:
    """What comes of the notebooks, if they are asked for: they run beside all other tests, one after the other."""
    chosen = [item for item in request.session.items if getattr(item, "originalname", "") == "test_the_notebook_runs"]
    if not chosen or not all(find_spec(name) for name in ("nbclient", "nbformat", "ipykernel")):
        yield {}
        return
    from tests.test_notebooks import SIMULATING, execution

    execute = execution(tmp_path_factory.mktemp("jupyter"))
    paths = sorted(item.callspec.params["path"] for item in chosen)
    if find_spec("openmm") is None:
        paths = [path for path in paths if path.stem not in SIMULATING]
    with ThreadPoolExecutor(1) as pool:
        yield {path.stem: pool.submit(execute, path) for path in paths}
        pool.shutdown(cancel_futures=True)
