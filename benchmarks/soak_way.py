"""What a user does with a system, step by step, for benchmarks/soak.py: fit, look, save, lump, go on with deeptime.

Every step checks what it gets: an answer that contradicts itself or the data is a `BrokenError`. After a fit no error
of the package is a good answer any more.
"""

from __future__ import annotations

import logging
import re
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from soak_systems import Plan, System

from m3c_md import M3C, load_model
from m3c_md.exceptions import DegenerateSolutionError, InputError, SolverError
from m3c_md.search.rungs import STREAMED
from m3c_md.validation import implied_timescales, metastability

# What may be wrong with the data of a system; an `InputError` that says anything else blames data which are good.
FAULTS = (
    r"^lagtime=\d+ needs trajectories of at least \d+ frames",
    r"^n_states=\d+, but there are only \d+ distinct frames",
    r"^all \d+ frames are equal",
    r"^\d+ windows cannot populate \d+ states",
    r"^the columns span up to \S+, too extreme",
    r"whole numbers from \d+ to \d+ in one dimension: that looks like a state trajectory",
)
REMEDY = re.compile(r"\b(ask|give|choose|use|try|lower|raise|remove|leave|set|add|check|change|supply|widen)\b", re.I)
# Lumping needs a microstate in every state, and not every state has one of few.
FEW_MICROSTATES = r"^state \d+ holds none of the \d+ microstates"
# Frames for what is not worth the time on all of them.
SOME_FRAMES = 20_000
# Seconds of CPU time of a fit: these, and so many for a million numbers; and those of deeptime's pipeline. By the clock
# it may be so many times as long.
SECONDS, SECONDS_PER_MILLION, RIVAL_SECONDS = 60.0, 30.0, 300.0
CLOCK = 5.0
# Every so many seeds are fitted twice.
TWICE = 5


class Stall(BaseException):
    """Time is up; no `except Exception` on the way shall take this for a failed start."""


class BrokenError(Exception):
    """An answer that contradicts itself or the data."""


def check(holds: Any, complaint: str) -> None:
    """Complain unless something holds; an assert would be gone with ``python -O``."""
    if not holds:
        raise BrokenError(complaint)


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `Stall` in the block after some seconds of CPU time, or many of the clock, where the system has alarms.

    CPU time, because others may work on the same machine. An alarm within a compiled loop is heard when that ends.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: Any) -> None:
        raise Stall(f"longer than {seconds:.0f} s")

    alarms = ((signal.ITIMER_PROF, signal.SIGPROF, seconds), (signal.ITIMER_REAL, signal.SIGALRM, CLOCK * seconds))
    before = [signal.signal(number, ring) for _, number, _ in alarms]
    for timer, _, after in alarms:
        signal.setitimer(timer, after)
    try:
        yield
    finally:
        for timer, _, _ in alarms:
            signal.setitimer(timer, 0.0)
        for (_, number, _), handler in zip(alarms, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def deeptimes_own() -> Iterator[None]:
    """What deeptime warns of in its own part, and writes to its log, is not ours."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def as_arrays(trajs: Any) -> list[NDArray[np.float64]]:
    """Trajectories as deeptime wants them."""
    given = list(trajs) if isinstance(trajs, list | tuple) else [trajs]
    return [np.ascontiguousarray(x, dtype=np.float64) for x in given]


def as_list(answer: Any, trajs: Any) -> list[NDArray[Any]]:
    return answer if isinstance(trajs, list | tuple) else [answer]


def fault(error: BaseException) -> str | None:
    """Return what is wrong with an exception of a fit, None if it is one that a user can do something about."""
    text = str(error)
    if not isinstance(error, InputError | SolverError | DegenerateSolutionError):
        return f"{type(error).__name__} is no error of the package"
    if isinstance(error, InputError) and not any(re.search(known, text) for known in FAULTS):
        return "an InputError where the input is good"
    if not re.search(r"\d", text) or not REMEDY.search(text):
        return f"{type(error).__name__} names no value or no remedy"
    return None


def fitted(system: System, seconds: float) -> tuple[Any, list[NDArray[np.int32]], float]:
    """Model, labels of all frames, and CPU seconds for both."""
    chosen = system.plan
    with at_most(seconds):
        began = time.process_time()
        model = M3C(chosen.n_asked, chosen.lagtime, random_state=chosen.seed).fit_fetch(system.trajs)
        spent = time.process_time() - began
    with at_most(seconds), named("transform"):
        began = time.process_time()
        labels = as_list(model.transform(system.trajs), system.trajs)
    return model, labels, spent + time.process_time() - began


@contextmanager
def named(step: str) -> Iterator[None]:
    """Say which step an exception comes from; after a fit no error of the package is a good answer either."""
    try:
        yield
    except Exception as error:
        raise BrokenError(f"{step}: {type(error).__name__}: {error}") from error


def check_labels(model: Any, labels: list[NDArray[np.int32]], plan: Plan, found: dict[str, Any]) -> None:
    """Check states and populations; how far these are from what the labels say is a number worth keeping."""
    n = plan.n_asked
    together = np.concatenate(labels)
    check([len(x) for x in labels] == list(plan.lengths), "labels have other lengths than the trajectories")
    check(together.dtype == np.int32, f"labels are {together.dtype}")
    check(together.min() >= 0 and together.max() < n, f"labels from {together.min()} to {together.max()}")
    counts = np.bincount(together, minlength=n)
    check(counts.min() > 0, f"state {counts.argmin()} of {n} has no frames in the training data")
    check(model.n_states == n, f"{model.n_states} states for {n}")
    check(abs(model.populations.sum() - 1.0) < 1e-9, f"populations sum to {model.populations.sum()}")
    check((np.diff(model.populations) <= 0.0).all(), "populations do not fall")
    used = np.concatenate([x for x in labels if len(x) > plan.lagtime])
    off = found["populations off by"] = float(
        np.abs(np.bincount(used, minlength=n) / len(used) - model.populations).max()
    )
    # Streamed fits count in single precision.
    check(off <= (1e-9 if plan.n_pairs <= STREAMED else 1e-3), f"populations are off by {off:.1e}")


def check_numbers(model: Any, system: System, labels: list[NDArray[np.int32]]) -> None:
    """Scores, margins and memberships of some frames."""
    first = as_list(system.trajs, system.trajs)[0][:SOME_FRAMES]
    scores, margins, soft = model.decision_function(first), model.margin(first), model.memberships(first)
    check(np.isfinite(scores).all() and scores.shape == (len(first), model.n_states), "scores")
    check(np.isfinite(margins).all() and margins.min() >= 0.0 and margins.shape == (len(first),), "margins")
    check(soft.shape == scores.shape and soft.min() >= 0.0, "memberships are negative or misshapen")
    check(np.abs(soft.sum(axis=1) - 1.0).max() < 1e-9, "memberships do not sum to one")
    clear = margins > 1e-6
    check((scores.argmax(axis=1) == labels[0][: len(first)])[clear].all(), "labels are not those of the largest score")


def check_records(model: Any, system: System) -> None:
    """Table of candidates, what was said, other candidates, and visits where the model has them."""
    table = model.candidates
    check(len(table) > 0 and table["fate"][0] == "winner", "the first candidate is not the winner")
    check(all(isinstance(text, str) for text in model.warnings), "warnings are no texts")
    check(np.isfinite(model.objective) and model.gap >= 0.0, f"objective {model.objective}, gap {model.gap}")
    check(repr(model).startswith("M3CModel("), "repr")
    if hasattr(model, "visits"):
        check(len(model.visits) == model.n_states, f"visits of {len(model.visits)} states")
    if len(table) > 1:
        some = as_arrays(system.trajs)[0][:100]
        other = model.alternative(1).transform(some)
        check(other.dtype == np.int32 and other.min() >= 0, "labels of the alternative")


def check_sample(model: Any, system: System, labels: list[NDArray[np.int32]]) -> None:
    for state, found in enumerate(model.sample(system.trajs, 3)):
        check(1 <= len(found) <= 3, f"{len(found)} frames of state {state}")
        check(all(labels[i][t] == state for i, t in found), f"a representative frame of state {state} is not in it")


def check_file(model: Any, system: System, labels: list[NDArray[np.int32]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.m3c"
        model.save(path)
        again = load_model(path)
    first = as_list(system.trajs, system.trajs)[0][:SOME_FRAMES]
    check(np.array_equal(again.transform(first), labels[0][: len(first)]), "a model from a file has other labels")


def check_lumping(model: Any, system: System) -> None:
    """Lump a few microstates, where deeptime can make a Markov model of them."""
    from deeptime.clustering import KMeans
    from deeptime.markov.msm import MaximumLikelihoodMSM

    lag, some, left = system.plan.lagtime, [], SOME_FRAMES
    for x in as_arrays(system.trajs):
        some += [x[:left]] if left > 0 and len(x) > lag else []
        left -= len(x)
    with deeptimes_own():
        try:
            centres = min(10 * system.plan.n_asked, sum(map(len, some)) // 5)
            cells = KMeans(centres, max_iter=5, fixed_seed=1, n_jobs=1).fit_fetch(np.concatenate(some))
            micro = [cells.transform(x, n_jobs=1) for x in some]
            msm = MaximumLikelihoodMSM(lagtime=lag).fit_fetch(micro)
        except Exception:  # whatever deeptime has against these data
            return
    try:
        lumped = model.lump(msm, trajs=some, dtrajs=micro)
    except InputError as error:
        if not re.search(FEW_MICROSTATES, str(error)):
            raise
        return
    matrix = lumped.coarse_grained_transition_matrix
    check(lumped.n_metastable == model.n_states and matrix.min() >= 0.0, "the lumped matrix is negative")
    check(np.abs(matrix.sum(axis=1) - 1.0).max() < 1e-6, "rows of the lumped matrix do not sum to one")


def check_kinetics(labels: list[NDArray[np.int32]], plan: Plan) -> None:
    """What comes after a fit: a Markov model by deeptime, metastability and implied timescales by the package."""
    from deeptime.markov.msm import MaximumLikelihoodMSM

    longest = max(plan.lengths)
    q = metastability(labels, plan.lagtime, plan.n_asked)
    check(np.isnan(q) or 0.0 <= q <= plan.n_asked + 1e-9, f"Q = {q}")
    with deeptimes_own():
        MaximumLikelihoodMSM(lagtime=plan.lagtime).fit_fetch([x for x in labels if len(x) > plan.lagtime])
    if longest > 4 * plan.lagtime:
        lags = [plan.lagtime, 2 * plan.lagtime]
        its = implied_timescales(labels, lags, n_states=plan.n_asked, confidence=None)
        check(len(its.lagtimes) == 2, f"timescales at {its.lagtimes} for {lags}")


def limit(plan: Plan) -> float:
    """Seconds of CPU time that a fit may take."""
    return SECONDS + SECONDS_PER_MILLION * plan.n_frames * plan.n_columns / 1e6


def public_way(system: System, seconds: float, found: dict[str, Any]) -> list[NDArray[np.int32]]:
    """Do everything that a user does with a system, and return its labels; raises where an answer is no good.

    Numbers go to ``found`` as they come: those of a fit are worth keeping whatever happens to its model.
    """
    model, labels, spent = fitted(system, seconds)
    found |= {"seconds": round(spent, 4), "gap": model.gap, "said": len(model.warnings)}
    steps: dict[str, Callable[[], Any]] = {
        "labels": lambda: check_labels(model, labels, system.plan, found),
        "numbers": lambda: check_numbers(model, system, labels),
        "records": lambda: check_records(model, system),
        "sample": lambda: check_sample(model, system, labels),
        "file": lambda: check_file(model, system, labels),
        "lump": lambda: check_lumping(model, system),
        "kinetics": lambda: check_kinetics(labels, system.plan),
    }
    for name, step in steps.items():
        with at_most(seconds), named(name):
            step()
    if system.plan.seed % TWICE == 0:
        again = fitted(system, seconds)[1]
        same = all(np.array_equal(a, b) for a, b in zip(again, labels, strict=True))
        check(same, "same seed, other labels")
    return labels


def rival(system: System) -> tuple[list[NDArray[Any]] | None, float, str]:
    """Labels by deeptime (None if it failed), CPU seconds, and how it failed."""
    from deeptime.clustering import KMeans
    from deeptime.markov import TransitionCountEstimator
    from deeptime.markov.msm import MaximumLikelihoodMSM

    data, lag = as_arrays(system.trajs), system.plan.lagtime
    began, labels, note = time.process_time(), None, ""
    try:
        with deeptimes_own(), at_most(RIVAL_SECONDS):
            cells = KMeans(200, max_iter=20, fixed_seed=13, n_jobs=1).fit_fetch(np.concatenate(data))
            micro = [cells.transform(x, n_jobs=1) for x in data]
            long = [x for x in micro if len(x) > lag]
            counts = TransitionCountEstimator(lag, "sliding").fit_fetch(long).submodel_largest()
            pcca = MaximumLikelihoodMSM(reversible=True).fit_fetch(counts).pcca(system.plan.n_asked)
            states = np.full(max(int(x.max()) for x in micro) + 201, -1)
            states[counts.state_symbols] = pcca.assignments
            labels = [states[x] for x in micro]
    except (Exception, Stall) as error:
        note = f"{type(error).__name__}: {error}"[:200]
    return labels, time.process_time() - began, note
