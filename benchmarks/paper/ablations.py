"""Every default on trial: one setting changed at a time, on seeds that no other study has used.

    python benchmarks/paper/ablations.py --seeds 40                            all variants on all systems
    python benchmarks/paper/ablations.py --systems "Model II" --methods default "selection objective"
    python benchmarks/paper/ablations.py --quick

A row is the quality of one variant in one experiment: exact Q for the diffusions, held-out Q for molecules, test error
for labelled sequences. The report compares variants with the default experiment by experiment. Experiments on molecules
are the splits of ``molecules.py``, taken in turn with seeds of their own for the random features. Writes
``results/ablations.json``.

"cross-validated ..." fits the default, takes the best candidate of every clearly different decomposition that it met,
fits each again to four fifths of the trajectories (of the time, where there is one) from its own labels, five times,
and chooses by what is left out: the loss, the class-averaged loss, or Q. "bandwidth ..." keeps the winner's
decomposition but takes the bandwidth with the best score, the widest one whose score is not worse by more than that, or
the one with the least loss on what is left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import diffusion
import molecules
import numpy as np
import sequences
from numpy.typing import NDArray
from studies import SHARED, Row, asked_methods, asked_seeds, fit_and_judge, print_means, run_study, study_parser

from m3c_md import M3C
from m3c_md.exceptions import M3CWarning
from m3c_md.matching import agreement
from m3c_md.optimize.window_loss import label_costs
from m3c_md.systems import simulate
from m3c_md.validation import metastability

SYSTEMS = (
    "Model I",
    "Model II",
    "letter",
    "satellite",
    "waveform",
    "alanine-dipeptide",
    "mdshare-alanine-dipeptide",
    "deca-alanine",
    "asp7-2",
    "asp7-3",
)
FIRST_FRESH_SEED = 60_000
BASELINE = "default"
# Variant -> settings of M3C that differ from the default, in the order of importance.
VARIANTS: dict[str, dict[str, Any]] = {
    BASELINE: {},
    "selection objective": {"selection": "objective"},
    "β 0.0003": {"regularization": 3e-4},
    "β 0.001": {"regularization": 1e-3},
    "β 0.01": {"regularization": 1e-2},
    "β 0.03": {"regularization": 3e-2},
    "50 features": {"n_features": 50},
    "100 features": {"n_features": 100},
    "200 features": {"n_features": 200},
    "400 features": {"n_features": 400},
    "paper's features": {"features": "fourier"},
    "unweighted": {"reweight": False},
    "balance 0.003": {"balance": (0.003, 0.997)},
    "balance 0.03": {"balance": (0.03, 0.97)},
    "balance 0.1": {"balance": (0.1, 0.9)},
    "columns as they are": {"scale": "none"},
    "lag 2": {"lagtime": 2},
    "lag 5": {"lagtime": 5},
    "lag 10": {"lagtime": 10},
    "start kinetic": {"starts": ("kinetic",)},
    "start lumping": {"starts": ("lumping",)},
    "start kmeans": {"starts": ("kmeans",)},
    "start pcca": {"starts": ("pcca",)},
    "start SDP, exact kernel, tight cap": {"starts": ("relaxation",)},
    "start SDP, literal": {"starts": ("relaxation-literal",)},
    "all starts": {"starts": ("kinetic", "lumping", "kmeans", "pcca", "relaxation")},
}
CROSS_VALIDATED = ("cross-validated loss", "cross-validated class-averaged loss", "cross-validated Q")
# How much worse a wider bandwidth may score.
WIDEST = {"bandwidth of the best score": 0.0, "bandwidth widest within 10 %": 0.1, "bandwidth widest within 30 %": 0.3}
BEST_BANDWIDTH = "bandwidth cross-validated"
METHODS = (*VARIANTS, *WIDEST, BEST_BANDWIDTH, *CROSS_VALIDATED)
N_FOLDS = 5
N_RIVALS = 6
SAME_DECOMPOSITION = 0.93


@dataclass(frozen=True)
class Experiment:
    """Trajectories to fit, and how good a model is: ``quality`` is Q, or a test error in per cent."""

    data: list[NDArray[Any]]
    n_states: int
    quality: Callable[[Any], float]


def experiment(system: str, seed: int, folder: Path) -> Experiment:
    if system in diffusion.MODELS:
        model = diffusion.MODELS[system]
        trajectories = simulate(model, np.random.default_rng(seed))
        return Experiment(trajectories, model.n_states, lambda fitted: diffusion.judge(system, fitted, long=False)["Q"])
    if system in sequences.DATA_SETS:
        sequence, n_states = sequences.experiment(folder / "uci", system, seed)
        return Experiment([sequence.train_X], n_states, lambda fitted: sequences.judge(sequence, fitted)["test_error"])
    molecule = molecules.load(system, folder)
    fitted_to, judged = molecule.splits[seed % len(molecule.splits)]
    data = [molecule.features[i] for i in fitted_to]
    judge = partial(molecules.judge, molecule, judged, long=False)
    return Experiment(data, molecule.n_states, lambda fitted: judge(fitted)["Q"])


def work(folder: Path, system: str, seed: int, methods: Sequence[str]) -> dict[str, Row]:
    one = experiment(system, seed, folder)
    known = {name: M3C(one.n_states, random_state=seed, **VARIANTS[name]) for name in methods if name in VARIANTS}
    rows = {
        name: fit_and_judge(estimator, one.data, lambda model: {"quality": one.quality(model)})
        for name, estimator in known.items()
    }
    if set(methods) - set(known):
        rows |= other_choices(one, seed, [name for name in methods if name not in known])
    return rows


def other_choices(one: Experiment, seed: int, methods: Sequence[str]) -> dict[str, Row]:
    """Other choices among the candidates of the default fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", M3CWarning)
        try:
            model = M3C(one.n_states, random_state=seed).fit_fetch(one.data)
            rows = cross_validated(one, model, seed) if set(methods) & set(CROSS_VALIDATED) else {}
            if set(methods) - set(CROSS_VALIDATED):
                rows |= other_bandwidths(one, model, seed, methods)
        except (RuntimeError, ValueError) as error:
            return {name: {"error": f"{type(error).__name__}: {error}"[:200]} for name in methods}
    return {name: rows[name] for name in methods}


def other_bandwidths(one: Experiment, model: Any, seed: int, methods: Sequence[str]) -> dict[str, Row]:
    """The winner's decomposition at other bandwidths."""
    table = model.candidates
    states = np.concatenate(model.transform(one.data))
    scores: dict[float, float] = {}
    labels: dict[float, Any] = {}
    for number in np.flatnonzero(~table["degenerate"].to_numpy()):
        other = model.alternative(int(number)).transform(one.data)
        if agreement(states, np.concatenate(other)) >= SAME_DECOMPOSITION:
            width, score = float(table["bandwidth"][number]), float(table["score"][number])
            if score < scores.get(width, np.inf):
                scores[width], labels[width] = score, other
    again = {width: refitted(one, width, labels[width], seed) for width in scores}
    chosen = {
        name: max(width for width, score in scores.items() if score <= (1.0 + WIDEST[name]) * min(scores.values()))
        for name in methods
        if name in WIDEST
    }
    if BEST_BANDWIDTH in methods:
        chosen[BEST_BANDWIDTH] = min(scores, key=lambda width: held_out(one, again[width], seed)[0])
    return {
        name: {"quality": one.quality(again[width]), "bandwidth": width, "default_bandwidth": model.bandwidth}
        for name, width in chosen.items()
    }


def refitted(one: Experiment, bandwidth: float, labels: Any, seed: int) -> Any:
    """Rule at one bandwidth, started from labels, with the random features of the default fit."""
    return M3C(one.n_states, bandwidth=bandwidth, starts=[labels], random_state=seed).fit_fetch(one.data)


def cross_validated(one: Experiment, model: Any, seed: int) -> dict[str, Row]:
    """Choice among the decompositions of the default fit by each cross-validated rule."""
    rivals = different_candidates(model, one.data)
    winners = np.argmin(np.array([held_out(one, rival, seed) for rival in rivals]), axis=0)
    return {
        name: {"quality": one.quality(rivals[winner]), "n_rivals": len(rivals), "agrees": bool(winner == 0)}
        for name, winner in zip(CROSS_VALIDATED, winners, strict=True)
    }


def different_candidates(model: Any, data: list[NDArray[Any]]) -> list[Any]:
    """Best candidates by score no two of which are the same decomposition, the winner first."""
    table = model.candidates
    kept: list[tuple[Any, NDArray[Any]]] = []
    usable = table[~table["degenerate"]]
    for number in [0, *usable.index[1:][np.argsort(usable["score"].to_numpy()[1:], kind="stable")]]:
        other = model.alternative(int(number))
        states = np.concatenate(other.transform(data))
        fresh = all(agreement(states, known) < SAME_DECOMPOSITION for _, known in kept)
        if fresh and len(np.unique(states)) == model.n_states and len(kept) < N_RIVALS:
            kept.append((other, states))
    return [other for other, _ in kept]


def held_out(one: Experiment, model: Any, seed: int) -> tuple[float, float, float]:
    """Mean over the folds of loss, class-averaged loss and -Q on what is left out, the candidate fitted again."""
    parts = one.data if len(one.data) >= N_FOLDS else np.array_split(one.data[0], N_FOLDS)
    folds = np.arange(len(parts)) % N_FOLDS
    found = []
    for fold in range(N_FOLDS):
        train, test = ([x for x, f in zip(parts, folds, strict=True) if (f == fold) == left] for left in (False, True))
        starts = [model.transform(train)]
        if len(np.unique(np.concatenate(starts[0]))) < one.n_states:
            return np.inf, np.inf, np.inf  # a state that one fold has all of is no state of the data
        again = M3C(one.n_states, bandwidth=model.bandwidth, starts=starts, random_state=seed).fit_fetch(train)
        found.append(losses(again, test, one.n_states))
    return tuple(np.mean(found, axis=0))


def losses(model: Any, test: list[NDArray[Any]], n_states: int) -> tuple[float, float, float]:
    """Loss and class-averaged loss of transition pairs under their best labels, and -Q."""
    scores = [model.decision_function(x).T for x in test]
    costs = np.concatenate([label_costs(np.stack([s[:, :-1], s[:, 1:]])) for s in scores], axis=1)
    labels, loss = costs.argmin(axis=0), costs.min(axis=0)
    # A state that is not visited costs nothing, and stays with certainty: neither for nor against it.
    by_class = [loss[labels == k].mean() if (labels == k).any() else 0.0 for k in range(n_states)]
    quality = metastability(model.transform(test), 1, n_states)
    return float(loss.mean()), float(np.mean(by_class)), -quality if np.isfinite(quality) else -float(n_states)


def available(names: Sequence[str], folder: Path) -> list[str]:
    """Systems whose data are there; the others are named."""
    uci = [name for name in sequences.available(folder / "uci", may_download=False) if name in names]
    molecular = molecules.available([name for name in names if name in molecules.MOLECULES], folder)
    return [name for name in names if name in {*diffusion.MODELS, *uci, *molecular}]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = study_parser(__doc__, seeds=40)
    parser.set_defaults(first=FIRST_FRESH_SEED)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--data", type=Path, default=SHARED, help="folder of the data that do not ship")
    options = parser.parse_args(arguments)
    seeds = dict.fromkeys(available(options.systems, options.data), asked_seeds(options))
    rows = run_study("ablations", seeds, asked_methods(options, METHODS), partial(work, options.data), options)
    print_means(rows, METHODS, ("quality",))


if __name__ == "__main__":
    import ablations  # under its own name, by which other processes find its functions

    ablations.main()
