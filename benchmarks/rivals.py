"""M3C beside what people use, on the same splits: TICA + PCCA+, PCCA+ on the columns, hidden Markov models, VAMPnets.

    python benchmarks/rivals.py                                   all systems that there are data for
    python benchmarks/rivals.py --system deca-alanine --seeds 3   the first three splits of one
    python benchmarks/rivals.py --method m3c hmm                  some methods
    python benchmarks/rivals.py --report                          tables, and benchmarks/figures/rivals.png

Methods, their settings and the choice among these (by a held-out part of the training data) are those of
`m3c_md.compare`: the functions that are called here are its own. M3C has its defaults. Quality is exact Q (Model I,
Model II), test error in per cent (letter, satellite, waveform) or Q on held-out trajectories (all others; a state that
they never visit adds nothing). CPU seconds are those of the fit with the chosen setting, and with the choice added.

deca-alanine, alanine dipeptide   one trajectory is fitted, the others judge
asp7                              one of five blocks is fitted, the others judge; "of four" the other way round
mdshare alanine dipeptide         a random half of ten blocks, every 20 ps, is fitted, the others judge
langerin                          even trajectories, then odd ones

VAMPnets need torch, and are left out where it is not there. Rows are appended to benchmarks/results/rivals.jsonl and
not computed again. ``paper/report.py`` puts the report into RESULTS.md.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "paper"))

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from zlib import crc32

import diffusion
import metric_systems
import molecules
import numpy as np
import sequences
from rivals_section import FIGURE, METHODS, RESULTS, draw, last_rows, rivals_section
from studies import code_version, rounded

from m3c_md.clustering.state_model import StateModel
from m3c_md.clustering.vampnet import VAMPNet, torch_is_missing
from m3c_md.data import alanine_dipeptide
from m3c_md.exceptions import M3CWarning
from m3c_md.inputs.dataset import Dataset
from m3c_md.systems import simulate
from m3c_md.validation.contenders import Choices, Settings, Shape, build_methods
from m3c_md.validation.measures import judge
from m3c_md.validation.methods import Task, fit_and_judge
from m3c_md.validation.splits import INNER, Split, inner_split

Row = dict[str, Any]
LAGTIME = 1
# Data sets that are not part of the project lie beside the clone.
SHARED = HERE.parents[1] / "shared"
FRESH = 9000  # first seed of what is simulated or drawn, used by no other study


@dataclass(frozen=True)
class Case:
    """What is fitted, and what a model is worth."""

    n_states: int
    train: list[Any]
    quality: Callable[[StateModel], float]


@dataclass(frozen=True)
class System:
    """Cases by seed; None where there are no data for it."""

    case: Callable[[int, Path], Case | None]
    seeds: range


def diffusion_case(name: str, seed: int, shared: Path) -> Case:
    del shared
    model = diffusion.MODELS[name]
    trajectories = simulate(model, np.random.default_rng(seed))
    return Case(model.n_states, trajectories, partial(diffusion.exact_quality, name))


def sequence_case(name: str, seed: int, shared: Path) -> Case | None:
    folder = shared / "data" / "uci"
    if not (folder / f"{name}.npz").exists():
        return None
    sequence, n_states = sequences.experiment(folder, name, seed)
    return Case(n_states, [sequence.train_X], lambda model: float(sequences.judge(sequence, model)["test_error"]))


def alanine(seed: int, shared: Path) -> Iterator[metric_systems.Split]:
    del shared
    return metric_systems.one_of({}, [x.astype(np.float64) for x in alanine_dipeptide().features], seed)


def held_out_case(
    splits: Callable[[int, Path], Iterator[metric_systems.Split]], n_states: int, seed: int, shared: Path
) -> Case | None:
    """Return the split of a seed for any number of states."""
    split = next(splits(seed, shared), None)
    if split is None:
        return None
    test = split.test
    return Case(n_states, split.train, lambda model: judge(model, test, LAGTIME).metastability)


def molecule_case(name: str, seed: int, shared: Path) -> Case | None:
    """Split of paper/molecules.py."""
    try:
        molecule = molecules.load(name, shared / "data")
    except OSError:
        return None
    train, test = ([molecule.features[i].astype(np.float64) for i in numbers] for numbers in molecule.splits[seed])
    return Case(molecule.n_states, train, lambda model: judge(model, test, LAGTIME).metastability)


SYSTEMS: dict[str, System] = {
    **{name: System(partial(diffusion_case, name), range(FRESH, FRESH + 5)) for name in ("Model I", "Model II")},
    **{
        name: System(partial(sequence_case, name), range(FRESH, FRESH + 5))
        for name in ("letter", "satellite", "waveform")
    },
    "alanine dipeptide": System(partial(held_out_case, alanine, 3), range(4)),
    "deca-alanine": System(partial(held_out_case, metric_systems.deca, 2), range(10)),
    "mdshare alanine dipeptide": System(partial(molecule_case, "mdshare-alanine-dipeptide"), range(5)),
    **{f"asp7, {k} states": System(partial(held_out_case, metric_systems.asp7, k), range(5)) for k in (2, 3)},
    "asp7, 2 states, of four": System(partial(molecule_case, "asp7-2-of-four"), range(5)),
    **{
        f"langerin, {k} states": System(partial(held_out_case, metric_systems.langerin, k), range(2))
        for k in range(3, 9)
    },
}


def settings_of(method: str, n_states: int, train: Dataset) -> Settings:
    """Estimators of a method of `compare` by setting; none where it cannot be run."""
    shape = Shape(train.n_frames, train.n_columns, max(train.lengths))
    built, _ = build_methods(["m3c", method], n_states, LAGTIME, Choices(), shape)
    return built.get(METHODS[method], {})


def row_of(case: Case, method: str, seed: int) -> Row | None:
    """One method on one split as `compare` fits it with this ``random_state``; None where it cannot be run.

    Settings that were not chosen are not fitted to all training data, because hindsight is not shown here.
    """
    train = Dataset.of(case.train)
    settings = settings_of(method, case.n_states, train)
    if not settings:
        return None
    name = METHODS[method]
    stream = (int(np.random.default_rng(seed).integers(2**63)), 0, crc32(name.encode()))
    task = Task(name, 0, settings, Split(train, {}), stream)
    began = time.process_time()
    fit = fit_and_judge(task, LAGTIME)
    whole = time.process_time() - began
    alone, inner = whole, None
    began = time.process_time()
    if fit.trials:
        inner = fit.trials[fit.setting].inner.metastability
        fit_and_judge(task._replace(settings={fit.setting: settings[fit.setting]}), LAGTIME)
        alone = time.process_time() - began
    elif method != "m3c":
        inner = inner_q(task)
        whole += time.process_time() - began
    row: Row = {"n_settings": len(settings), "setting": fit.setting, "seconds": alone, "seconds with choice": whole}
    if inner is not None:
        row["inner Q"] = inner
    if fit.model is None:
        return row | {"error": fit.error[:200]}
    return row | {"quality": case.quality(fit.model), "found": int(np.count_nonzero(fit.model.populations))}


def inner_q(task: Task) -> float | None:
    """Q on held-out training data of a rival with a single setting, so that it can be chosen among the rivals."""
    inner = inner_split(task.split.train, LAGTIME)
    return None if inner is None else fit_and_judge(task._replace(split=inner), LAGTIME).judgements[INNER].metastability


def warm_up(methods: Sequence[str]) -> None:
    """Fit something small, so that no row pays for what is compiled or imported once."""
    rng = np.random.default_rng(0)
    states = np.repeat([0.0, 1.0] * 10, 50)[:, None]
    case = Case(2, [states + 0.1 * rng.normal(size=(1000, 9))], lambda model: 0.0)
    for method in methods:
        if method != "vampnet":
            row_of(case, method, 0)
        elif not torch_is_missing():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", M3CWarning)  # one step, because a thousand warm nothing else
                VAMPNet(2, n_steps=1, random_state=0).fit(case.train)


def run(systems: Sequence[str], methods: Sequence[str], n_seeds: int | None, shared: Path, results: Path) -> None:
    """Append the rows that are missing."""
    done = set(last_rows(results))
    code = code_version()
    warm_up(methods)
    for system in systems:
        for seed in SYSTEMS[system].seeds[:n_seeds]:
            missing = [method for method in methods if (system, seed, METHODS[method]) not in done]
            if not missing:
                continue
            case = SYSTEMS[system].case(seed, shared)
            if case is None:
                print(f"{system} {seed}: there are no data in {shared}", flush=True)
                continue
            for method in missing:
                row = row_of(case, method, seed)
                if row is None:
                    print(f"{system} {seed} {METHODS[method]}: cannot be run here", flush=True)
                    continue
                names = {"system": system, "seed": seed, "method": METHODS[method], "code": code}
                append(names | row, results)
                print(f"{system} {seed} {METHODS[method]}: {row.get('quality')}, {row['setting']}", flush=True)


def append(row: Row, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(rounded(row)) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, help="splits per system, all by default")
    parser.add_argument("--shared", type=Path, default=SHARED, help="folder of data that do not ship")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--figure", type=Path, default=FIGURE)
    parser.add_argument("--report", action="store_true", help="tell the results instead of adding to them")
    options = parser.parse_args(arguments)
    if not options.report:
        run(options.system, options.method, options.seeds, options.shared, options.results)
        return
    rows = list(last_rows(options.results).values())
    print("\n".join(rivals_section(rows)))
    draw(rows, options.figure)


if __name__ == "__main__":
    main()
