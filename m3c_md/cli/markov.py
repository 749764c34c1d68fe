"""What is said about Markov models of states in reports: plateaus of timescales, Markovianity, coring."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from m3c_md.cli.console import Console
from m3c_md.cli.output import OutputFolder
from m3c_md.cli.trajectories import Trajectories
from m3c_md.wording import amount

if TYPE_CHECKING:
    from m3c_md.clustering.state_model import StateModel
    from m3c_md.markov.chapman_kolmogorov import ChapmanKolmogorov
    from m3c_md.markov.coring import CoredTrajectories
    from m3c_md.markov.timescales import ImpliedTimescales


def add_core_option(parser: argparse.ArgumentParser) -> None:
    """Whether states are cored."""
    parser.add_argument(
        "--core",
        action="store_true",
        help="core the states: a frame keeps its last state until it is deep inside another one",
    )


def core_files(folder: OutputFolder, model: StateModel, data: Trajectories) -> CoredTrajectories:
    """Core all trajectories, and write their states and which frames are on their way between two cores."""
    import numpy as np

    cored = model.core(data.features)
    for kind, arrays in (("cored", cored.dtrajs), ("transitions", cored.transition)):
        for name, array in zip(data.names(), arrays, strict=True):
            with folder.writing(f"{kind}/{name}.npy") as path:
                np.save(path, array)
    return cored


def plateau_lines(timescales: ImpliedTimescales) -> list[str]:
    """One line for every timescale: its plateau, or that it still rises."""
    return [f"    {plateau.describe(timescales.dt, timescales.unit)}" for plateau in timescales.plateaus]


def plateau_result(timescales: ImpliedTimescales) -> dict[str, Any]:
    """Plateaus for scripts, in units."""
    dt = timescales.dt
    return {
        p.name: {
            **{"value": p.value * dt, "low": p.low * dt, "high": p.high * dt},
            **{"lag_time": p.lagtime * dt, "level": p.level},
        }
        for p in timescales.plateaus
    }


def warn_of_rise(console: Console, timescales: ImpliedTimescales) -> None:
    """Warn of timescales that are resolved, but were not seen to be level."""
    from m3c_md.report.findings import rising

    for text in rising(timescales):
        console.warn(text)


def markov_lines(test: ChapmanKolmogorov | None) -> list[str]:
    """Verdict of the Chapman-Kolmogorov test at the lag time from which the slowest timescale is level."""
    from m3c_md.report.findings import verdict_of_test

    if test is None:
        return []
    where = amount(test.lagtimes[1] * test.dt, test.unit, 4)
    return [f"  Chapman-Kolmogorov test at lag time {where}: {verdict_of_test(test)}"]


def coring_lines(cored: CoredTrajectories, timescales: ImpliedTimescales) -> list[str]:
    """What coring did."""
    import numpy as np

    why = "" if cored.choice is None else f": {cored.choice.reason}"
    on_the_way = np.concatenate(cored.transition).mean()
    return [
        f"  coring with margin {cored.margin:.3g}{why}",
        f"    {on_the_way:.2%} of the frames are on their way between two cores",
        "    timescales of the cored states:",
        *(f"  {line}" for line in plateau_lines(timescales)),
    ]
