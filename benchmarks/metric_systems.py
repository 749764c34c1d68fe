"""What benchmarks/metric.py measures on: data to fit, data to judge by, and the truth where it is known.

A seed says everything about a split: which trajectory of a molecule is fitted, or which system is made.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from synthetic import dihedral_series

from m3c_md import DihedralFeaturizer
from m3c_md.data import alanine_dipeptide, deca_alanine
from m3c_md.systems import MODEL_I, simulate

Frames = NDArray[np.floating]
N_FRAMES = 20_000
N_NOISE = (0, 60, 120, 300, 500)  # none: the true columns alone
N_FOLDS, N_RANDOM_HALVES = 2, 10


@dataclass(frozen=True)
class Split:
    """Trajectories to fit and to judge by.

    Attributes
    ----------
    systems : dict
        Number of states by name of the system; several where the same data are asked for more than one number.
    truth : list of arrays, optional
        True states of the frames of ``test``.
    informative : array of bool, optional
        Columns that depend on the state.
    """

    systems: dict[str, int]
    train: list[Frames]
    test: list[Frames]
    truth: list[NDArray[np.intp]] | None = None
    informative: NDArray[np.bool_] | None = None


def one_of(systems: dict[str, int], trajectories: list[Frames], seed: int) -> Iterator[Split]:
    """One trajectory is fitted, the others judge; nothing for a seed that is no trajectory."""
    if seed < len(trajectories):
        yield Split(systems, [trajectories[seed]], [x for i, x in enumerate(trajectories) if i != seed])


def deca(seed: int, shared: Path) -> Iterator[Split]:
    del shared
    yield from one_of({"deca-2": 2}, [x.astype(np.float64) for x in deca_alanine().features], seed)


@cache
def asp7_blocks(folder: Path) -> list[Frames]:
    frames = DihedralFeaturizer().load(folder / "asp7.xtc", folder / "asp7_reordered.pdb")[0]
    return np.array_split(frames.astype(np.float64), 5)


def asp7(seed: int, shared: Path) -> Iterator[Split]:
    folder = shared / "data" / "asp7"
    if folder.exists():
        yield from one_of({"asp7-2": 2, "asp7-3": 3}, asp7_blocks(folder), seed)


def langerin(seed: int, shared: Path) -> Iterator[Split]:
    """Seeds 0 and 1 are the even and the odd trajectories, the others random halves."""
    path = shared / "data" / "langerin" / "langerin_tica.npz"
    if not path.exists() or seed >= N_FOLDS + N_RANDOM_HALVES:
        return
    with np.load(path) as stored:
        trajectories = np.split(stored["X"].astype(np.float64), np.cumsum(stored["lengths"])[:-1])
    n = len(trajectories)
    fitted = np.arange(n) % 2 == seed
    if seed >= N_FOLDS:
        fitted = np.random.default_rng(seed).permutation(n) < n // 2
    train = [x for x, chosen in zip(trajectories, fitted, strict=True) if chosen]
    test = [x for x, chosen in zip(trajectories, fitted, strict=True) if not chosen]
    yield Split({f"langerin-{k}": k for k in (3, 4, 5, 6)}, train, test)


def distant_centres(rng: np.random.Generator, k: int, least: float = 1.2) -> Frames:
    """Angles of ``k`` states, uniform, each two of them at least so far apart in one of two angles."""
    while True:
        centres = rng.uniform(-np.pi, np.pi, size=(k, 2))
        apart = np.abs(np.angle(np.exp(1j * (centres[:, None] - centres[None])))).max(axis=-1)
        if apart[np.triu_indices(k, 1)].min() >= least:
            return centres


def slow_noise(rng: np.random.Generator, n_frames: int, n_columns: int) -> Frames:
    """Columns that relax within 33 frames at most and tell nothing; of variance 1 from the first frame on."""
    from scipy.signal import lfilter

    columns = np.empty((n_frames, n_columns))
    for column, memory in zip(columns.T, rng.uniform(0.0, 0.97, n_columns), strict=True):
        kicks = np.sqrt(1.0 - memory**2) * rng.standard_normal(n_frames)
        kicks[0] = rng.standard_normal()
        column[:] = lfilter([1.0], [1.0, -memory], kicks)
    return columns


def noise(seed: int, shared: Path) -> Iterator[Split]:
    """Three hidden states in four columns; the same, beside noise. All frames are fitted and judged by."""
    del shared
    k = 3
    rng = np.random.default_rng([seed, 4])
    centres = distant_centres(rng, k)
    jumps = np.where(rng.random(N_FRAMES) < 0.01, rng.integers(1, k, size=N_FRAMES), 0)
    states = np.cumsum(jumps) % k
    angles = centres[states] + rng.vonmises(0.0, 6.0, size=(N_FRAMES, 2))
    true = np.hstack([np.sin(angles), np.cos(angles)])
    others = slow_noise(np.random.default_rng([seed, 5]), N_FRAMES, max(N_NOISE))
    for n in N_NOISE:
        x = [np.hstack([true, others[:, :n]])]
        yield Split({f"noise-{n}": k}, x, x, [states])


@cache
def many_states_module(shared: Path) -> Any:
    """Module of the systems beside the clone, None where they are not."""
    path = shared / "systems" / "many_states.py"
    if not path.exists():
        return None
    spec = importlib.util.spec_from_file_location("many_states", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # numba's cache asks for its functions by this name
    spec.loader.exec_module(module)
    return module


def hidden_markov(shared: Path) -> Any:
    """Class `HMM` of the systems beside the clone, None where they are not."""
    return getattr(many_states_module(shared), "HMM", None)


def short(seed: int, shared: Path) -> Iterator[Split]:
    """30 to 50 trajectories of 500 frames, no longer than the states live; the even ones are fitted."""
    hmm = hidden_markov(shared)
    for k in (3, 4) if hmm else ():
        n = int(np.random.default_rng([seed, k]).integers(30, 51))
        x, states = hmm(k, 18, ar=1, t_slow=5000.0, t_fast=500.0, seed=seed).sim([500] * n, 100 + seed)
        yield Split({f"short-{k}": k}, x[::2], x[1::2], states[1::2])


def made(hmm: Any, name: str, k: int, n_angles: int, seed: int) -> Split:
    """One trajectory of a system beside the clone, and which columns (all sines, then all cosines) tell its states."""
    system = hmm(k, n_angles, ar=1, seed=seed)
    x, states = system.sim([N_FRAMES], 100 + seed)
    return Split({name: k}, x, x, states, np.tile(np.arange(n_angles) < system.n_info, 2))


def relevance(seed: int, shared: Path) -> Iterator[Split]:
    hmm = hidden_markov(shared)
    for k in (3, 4, 5, 6) if hmm else ():
        for n_angles in (18, 60):
            yield made(hmm, f"hmm-{k}-of-{2 * n_angles}", k, n_angles, seed)


def cost(seed: int, shared: Path) -> Iterator[Split]:
    """Systems where plain columns suffice (known by few columns), and where they do not."""
    x = simulate(MODEL_I, np.random.default_rng(seed))
    yield Split({"model-1 (2 columns)": 3}, x, x)
    ala = [x.astype(np.float64) for x in alanine_dipeptide().features]
    yield Split({"ala2 (4 columns)": 3}, ala, ala)
    frames, states = dihedral_series(N_FRAMES, 2, seed)
    yield Split({"dihedrals (4 columns)": 3}, [frames], [frames], [states])
    hmm = hidden_markov(shared)
    wide = ((5, 18), (6, 18), (5, 60), (5, 150), (5, 300))
    for k, n_angles in wide if hmm else ():
        yield made(hmm, f"hmm-{k} ({2 * n_angles} columns)", k, n_angles, seed)


STUDIES: dict[str, Callable[[int, Path], Iterator[Split]]] = {
    "deca": deca, "asp7": asp7, "langerin": langerin, "noise": noise, "short": short, "relevance": relevance,
    "cost": cost,
}  # fmt: skip
