"""Random systems for benchmarks/soak.py: each is a pure function of one whole number, and never kind on purpose.

`plan` makes all decisions about a system (cheap), `build` makes its data, `system` does both. What is drawn: how many
states there are and how many are asked for, how frames come from them, in how many trajectories of which lengths, and
what the table looks like that a user has of it (units, types, order in memory, files). Sizes are near the thresholds of
the search more often than chance would have them there.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
Generator = np.random.Generator

# Another number here makes other systems of all seeds: rows of results made before then belong to nothing.
VERSION = 1
MOST_ENTRIES = 4_000_000
# Transition pairs at which the search changes its ways: sizes of its samples and their doubles (RUNGS), numbers of
# partitions, features in memory or streamed (STREAMED), all pairs searched or a sample of them (SEARCHED).
THRESHOLDS = (2_000, 4_000, 6_000, 8_000, 12_000, 20_000, 100_000)
# Up to 8 columns there are 100 random features, for more 200.
COLUMNS_AT_THRESHOLD = (8, 9)
KINDS = {"angles": 0.32, "gaussian": 0.24, "wells": 0.16, "noise": 0.08, "drift": 0.08, "slow": 0.12}
WITH_STATES = ("angles", "gaussian", "wells")
CHAINS = ("angles", "gaussian")
# Modifiers of the hidden chain, with their probabilities, and of the table.
OF_CHAINS = {"rare state": 0.15, "overlapping": 0.2, "duplicated": 0.08, "lonely state": 0.08}
OF_TABLES = {
    "outliers": 0.1,
    "constant columns": 0.08,
    "repeated columns": 0.08,
    "collinear columns": 0.08,
    "rounded": 0.1,
    "units": 0.12,
    "offset": 0.08,
    "slow noise columns": 0.15,
    "Fortran order": 0.1,
    "read-only": 0.1,
}
DTYPES = {"float64": 0.6, "float32": 0.2, "float16": 0.08, "int16": 0.06, "int64": 0.06}
CONTAINERS = {"list": 0.6, "memory map": 0.15, "DataFrame": 0.15, "tuple": 0.1}


@dataclass(frozen=True)
class Plan:
    """Everything that is decided about a system before there are any data."""

    seed: int
    kind: str
    n_true: int
    n_asked: int
    n_columns: int
    lengths: tuple[int, ...]
    lagtime: int
    modifiers: tuple[str, ...]
    dtype: str
    container: str

    @property
    def n_frames(self) -> int:
        """Number of frames in all trajectories."""
        return sum(self.lengths)

    @property
    def n_pairs(self) -> int:
        """Number of transition pairs."""
        return sum(max(0, n - self.lagtime) for n in self.lengths)

    @property
    def description(self) -> str:
        """One line for people."""
        states = f"{self.n_true} states" if self.kind in WITH_STATES else "no states"
        table = [*self.modifiers, *([] if self.dtype == "float64" else [self.dtype]), self.container]
        return (
            f"{self.kind}, {states}, {self.n_asked} asked; {self.n_frames} x {self.n_columns} in {len(self.lengths)} "
            f"trajectories of {min(self.lengths)} to {max(self.lengths)}, lag {self.lagtime}, {self.n_pairs} pairs; "
            + ", ".join(table)
        )


@dataclass(frozen=True)
class System:
    """Data as a user would give them, and the hidden states if there are any."""

    plan: Plan
    trajs: Any
    truth: list[IntArray] | None
    folder: Any = field(default=None, repr=False)

    def close(self) -> None:
        """Remove the files of memory maps."""
        if self.folder is not None:
            self.folder.cleanup()


def system(seed: int) -> System:
    return build(plan(seed))


def _draw(rng: Generator, shares: dict[str, float]) -> str:
    return str(rng.choice(list(shares), p=np.array(list(shares.values())) / sum(shares.values())))


def _log_uniform(rng: Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _on(rng: Generator, shares: dict[str, float]) -> list[str]:
    """Modifiers that happen, each by itself."""
    return [name for name, share in shares.items() if rng.random() < share]


def plan(seed: int) -> Plan:
    """Decide everything about the system of a seed."""
    rng = np.random.default_rng([VERSION, seed])
    kind = _draw(rng, KINDS)
    n_true = int(rng.integers(2, 9)) if kind in WITH_STATES else 1
    modifiers = _on(rng, OF_CHAINS) if kind in CHAINS else []
    lagtime = 1 if rng.random() < 0.5 else int(rng.integers(2, 21))
    lengths = _lengths(rng, lagtime)
    n_columns = int(rng.choice(COLUMNS_AT_THRESHOLD)) if rng.random() < 0.25 else round(_log_uniform(rng, 1, 120))
    n_columns = max(1, min(n_columns, MOST_ENTRIES // sum(lengths)))
    if kind == "angles":
        n_columns = max(2, n_columns)
    modifiers += _on(rng, OF_TABLES)
    dtype, container = _draw(rng, DTYPES), _draw(rng, CONTAINERS)
    if dtype == "float16" and {"units", "offset", "outliers"} & set(modifiers):
        dtype = "float32"  # half precision ends at 65504
    if dtype.startswith("int") and {"units", "outliers"} & set(modifiers):
        dtype = "int64"
    if container == "tuple" and len(lengths) == 2:
        container = "list"  # a tuple of two is a pair (X, Y)
    return Plan(
        seed, kind, n_true, _asked(rng, kind, n_true), n_columns, lengths, lagtime, tuple(modifiers), dtype, container
    )


def _asked(rng: Generator, kind: str, n_true: int) -> int:
    """Number of states asked for: that of the system, up to three more, or fewer."""
    if kind not in WITH_STATES:
        return int(rng.integers(2, 6))
    chance = rng.random()
    if chance < 0.2:
        return n_true + int(rng.integers(1, 4))
    if chance < 0.35:
        return int(rng.integers(2, n_true + 1))
    return n_true


def _lengths(rng: Generator, lagtime: int) -> tuple[int, ...]:
    """Lengths of the trajectories: 200 to 150,000 frames altogether, or just as many pairs as a threshold has."""
    at_threshold = rng.random() < 0.35
    n_pairs = int(rng.choice(THRESHOLDS)) + int(rng.integers(-1, 2)) if at_threshold else 0
    n_frames = n_pairs + lagtime if at_threshold else round(_log_uniform(rng, 200, 150_000))
    n_trajs = 1 if rng.random() < 0.35 else min(round(_log_uniform(rng, 2, 200)), n_frames // 2)
    if rng.random() < 0.5:
        lengths = np.full(n_trajs, n_frames // n_trajs)
    else:
        lengths = np.maximum(1, (n_frames * rng.dirichlet(np.full(n_trajs, 0.5))).astype(int))
    if rng.random() < 0.15:
        lengths = np.append(lengths, rng.integers(1, lagtime + 1, size=int(rng.integers(1, 4))))
    if at_threshold:  # the longest one sees to it
        longest = int(lengths.argmax())
        others = np.delete(lengths, longest)
        lengths[longest] = lagtime + max(1, n_pairs - int(np.maximum(others - lagtime, 0).sum()))
    return tuple(int(n) for n in rng.permutation(lengths))


def build(plan: Plan) -> System:
    """Make the data of a system."""
    rng = np.random.default_rng([VERSION, plan.seed, 1])
    informative, truth = _KINDS[plan.kind](rng, plan)
    columns = np.column_stack([informative, _other_columns(rng, plan, informative.shape[1])])
    table = _as_measured(rng, plan, columns[:, : plan.n_columns])
    cuts = np.cumsum(plan.lengths)[:-1]
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True) if plan.container == "memory map" else None
    trajs = [_as_given(x, i, plan, folder) for i, x in enumerate(np.split(table, cuts))]
    one = len(trajs) == 1 and rng.random() < 0.7
    given: Any = trajs[0] if one else tuple(trajs) if plan.container == "tuple" else trajs
    return System(plan, given, None if truth is None else np.split(truth, cuts), folder)


def _hidden_chain(rng: Generator, plan: Plan) -> IntArray:
    """States of all frames: now and then a state is drawn anew, and every trajectory begins with a draw."""
    k = plan.n_true
    shares = np.full(k, 1.0 / k) if rng.random() < 0.5 else rng.dirichlet(np.full(k, 3.0))
    if "rare state" in plan.modifiers:
        shares[-1] = 0.0
        rare = _log_uniform(rng, 0.001, 0.02)
        shares = shares / shares.sum() * (1.0 - rare)
        shares[-1] = rare
    elsewhere = shares
    if "lonely state" in plan.modifiers and k > 2:
        elsewhere = np.append(shares[:-1], 0.0) / shares[:-1].sum()
    rate = _log_uniform(rng, 1e-3, 0.1)
    lonely = int(rng.integers(len(plan.lengths)))
    parts = []
    for i, n in enumerate(plan.lengths):
        anew = rng.random(n) < rate
        anew[0] = True
        draws = rng.choice(k, size=int(anew.sum()), p=shares if i == lonely else elsewhere)
        parts.append(draws[np.cumsum(anew) - 1])
    return np.concatenate(parts)


def _emitted(rng: Generator, plan: Plan, centres: FloatArray) -> tuple[IntArray, FloatArray]:
    """What can be known of the hidden states, and the centre of every frame."""
    states = _hidden_chain(rng, plan)
    if "duplicated" in plan.modifiers:
        centres[1] = centres[0]
        states = np.where(states == 1, 0, states)
    return states, centres[states]


def _angles(rng: Generator, plan: Plan) -> tuple[FloatArray, IntArray]:
    """Sines and cosines of angles with von Mises noise around centres that chance has chosen, close ones too."""
    n_angles = min((plan.n_columns + 1) // 2, int(rng.integers(1, 6)))
    overlapping = "overlapping" in plan.modifiers
    concentration = rng.uniform(0.5, 3.0) if overlapping else _log_uniform(rng, 3.0, 40.0)
    states, centres = _emitted(rng, plan, rng.uniform(-np.pi, np.pi, size=(plan.n_true, n_angles)))
    angles = centres + rng.vonmises(0.0, concentration, size=centres.shape)
    return np.hstack([np.sin(angles), np.cos(angles)])[:, : plan.n_columns], states


def _gaussian(rng: Generator, plan: Plan) -> tuple[FloatArray, IntArray]:
    """Normal noise with memory around random centres."""
    n = min(plan.n_columns, int(rng.integers(1, 11)))
    apart = rng.uniform(0.3, 1.5) if "overlapping" in plan.modifiers else rng.uniform(1.5, 6.0)
    states, centres = _emitted(rng, plan, apart * rng.normal(size=(plan.n_true, n)))
    return centres + _autoregressive(rng, plan.n_frames, n, rng.uniform(0.0, 0.95)), states


def _wells(rng: Generator, plan: Plan) -> tuple[FloatArray, IntArray]:
    """Diffusion along a row of equal wells, one at every whole number, with reflecting ends."""
    k, n = plan.n_true, plan.n_frames
    barrier, step = rng.uniform(1.0, 6.0), _log_uniform(rng, 1e-3, 2e-2)
    begins = set(np.cumsum((0, *plan.lengths[:-1])).tolist())
    noise = (np.sqrt(2.0 * step) * rng.normal(size=n)).tolist()
    first = rng.integers(k, size=len(plan.lengths)).astype(float).tolist()
    path, x, run = [0.0] * n, 0.0, 0
    low, high, force = -0.5, k - 0.5, step * np.pi * barrier
    sine = np.sin(2.0 * np.pi * np.arange(1000) / 1000).tolist()  # a table: this loop is long
    for t in range(n):
        if t in begins:
            x, run = first[run], run + 1
        x += noise[t] - force * sine[int(1000.0 * x) % 1000]
        x = 2.0 * low - x if x < low else 2.0 * high - x if x > high else x
        path[t] = x
    position = np.array(path)
    return position[:, None], np.clip(np.rint(position), 0, k - 1).astype(np.intp)


def _noise(rng: Generator, plan: Plan) -> tuple[FloatArray, None]:
    shape = (plan.n_frames, plan.n_columns)
    return (rng.normal(size=shape) if rng.random() < 0.7 else rng.uniform(size=shape)), None


def _drift(rng: Generator, plan: Plan) -> tuple[FloatArray, None]:
    """Something that only ever grows, within every trajectory."""
    time = np.concatenate([np.arange(n) / max(plan.lengths) for n in plan.lengths])
    return _log_uniform(rng, 1.0, 30.0) * time[:, None] + rng.normal(size=(plan.n_frames, 1)), None


def _slow(rng: Generator, plan: Plan) -> tuple[FloatArray, None]:
    """A slow coordinate without any gap."""
    memory = 1.0 - _log_uniform(rng, 1e-4, 1e-2)
    return _autoregressive(rng, plan.n_frames, min(plan.n_columns, int(rng.integers(1, 4))), memory), None


_KINDS: dict[str, Any] = {  # one for each of KINDS
    "angles": _angles,
    "gaussian": _gaussian,
    "wells": _wells,
    "noise": _noise,
    "drift": _drift,
    "slow": _slow,
}


def _autoregressive(rng: Generator, n_frames: int, n_columns: int, memory: float) -> FloatArray:
    """Normal columns of variance one, each correlated with itself one frame later by ``memory``."""
    noise = rng.normal(size=(n_frames, n_columns))
    noise[1:] *= np.sqrt(1.0 - memory**2)
    return np.asarray(lfilter([1.0], [1.0, -memory], noise, axis=0))


def _other_columns(rng: Generator, plan: Plan, n_informative: int) -> FloatArray:
    """Columns that say nothing about the states."""
    n = max(0, plan.n_columns - n_informative)
    slow = "slow noise columns" in plan.modifiers
    return rng.uniform(0.1, 1.5) * _autoregressive(rng, plan.n_frames, n, rng.uniform(0.9, 0.999) if slow else 0.0)


def _as_measured(rng: Generator, plan: Plan, table: FloatArray) -> NDArray[Any]:
    """Do to the numbers what instruments, units and other programs do to them."""
    n_frames, n_columns = table.shape
    some = rng.permutation(n_columns)[: max(1, n_columns // 4)]
    on = set(plan.modifiers)
    if "rounded" in on:
        table = np.round(table, int(rng.integers(0, 2)))
    if "collinear columns" in on and n_columns > 2:
        table[:, some[0]] = table[:, np.delete(np.arange(n_columns), some[0])[:2]] @ rng.normal(size=2)
    if "repeated columns" in on:
        table[:, some] = table[:, [int(rng.integers(n_columns))]]
    if "constant columns" in on and n_columns > 1:
        table[:, some] = float(rng.choice([0.0, 1.0, -273.15, 1e4]))
    if "outliers" in on:
        frames = rng.integers(n_frames, size=int(rng.integers(1, 6)))
        table[frames, int(rng.integers(n_columns))] = rng.choice([-1.0, 1.0]) * _log_uniform(rng, 30.0, 1e9)
    if "units" in on:
        table = table * 10.0 ** rng.uniform(-6.0, 6.0, size=n_columns)
    if "offset" in on:
        table = table + 1e3 * rng.normal(size=n_columns)
    if plan.dtype.startswith("int"):
        limits = np.iinfo(plan.dtype)
        table = np.clip(np.rint(table * float(rng.choice([1.0, 10.0, 1000.0]))), limits.min / 2, limits.max / 2)
    return table.astype(plan.dtype, order="F" if "Fortran order" in on else "C")


def _as_given(x: NDArray[Any], number: int, plan: Plan, folder: Any) -> Any:
    """Put one trajectory into what users keep theirs in."""
    x = np.asfortranarray(x) if "Fortran order" in plan.modifiers else np.ascontiguousarray(x)
    if plan.container == "memory map":
        path = Path(folder.name) / f"{number}.npy"
        np.save(path, x)
        return np.load(path, mmap_mode="r")
    if plan.container == "DataFrame":
        import pandas as pd

        return pd.DataFrame(x, columns=[f"column {i}" for i in range(x.shape[1])])
    if "read-only" in plan.modifiers:
        x.flags.writeable = False
    return x
