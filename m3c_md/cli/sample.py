"""``m3c-md sample``: biased simulations of a shipped peptide along the rule of a model, and what they say."""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from m3c_md.cli.console import Console
from m3c_md.cli.export import portable_model
from m3c_md.cli.trajectories import positive_number, whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from m3c_md.clustering.margin_model import MarginModel
    from m3c_md.data.free_energies import StateWeights
    from m3c_md.data.sampling import Filled
    from m3c_md.inputs.dihedral_columns import DihedralColumns

CORE = 0.5
"""Margin from which on a frame is in the core of its state: going to and fro at a border is no entry."""

FEW_ENTRIES = 10
"""A state that was entered less often has a population that is a guess: a third of it, by counting statistics."""

N_TRAJECTORIES, N_FRAMES, CHUNK_FRAMES = 8, 1000, 100
"""Trajectories (errors over fewer are hardly known themselves), frames to collect for each, frames that a stop loses at
most."""

EXAMPLES = """examples:
  m3c-md sample states/model.m3c --states 2 --temperature 300 --out biased
  m3c-md sample states/model.m3c --states 0 2 --n-trajectories 16 --n-frames 5000 --out biased

MODEL must be of alanine dipeptide or deca-alanine, by m3c-md fit. Name the state that is to be entered and left more
often: metadynamics along its score less the mean of all others (or of those that are named after it) fills a bias,
until the molecule has gone to the other side of the border and back three times (or for --fill-frames times four). The
bias then stays as it is while frames are collected; weights undo it. DIR gets what m3c-md simulate writes, and
traj_00_bias.npy ... (variable and bias of each frame, kJ/mol). Needs OpenMM: python -m pip install "m3c_md[simulate]".
After a stop the same command goes on."""


def add_sample(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "sample",
        help="simulate a small peptide with a bias along the rule of a model",
        description="Drive a small peptide across the borders of a model, and undo the bias by weights.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="model.m3c of an earlier fit")
    parser.add_argument(
        "--states", type=whole_number(0), nargs="+", metavar="I", help="a state, alone or before others; from 0 on"
    )
    parser.add_argument(
        "--n-trajectories",
        type=whole_number(1),
        default=N_TRAJECTORIES,
        metavar="N",
        help=f"each with its own bias (default: {N_TRAJECTORIES})",
    )
    parser.add_argument(
        "--n-frames",
        type=whole_number(1),
        default=N_FRAMES,
        metavar="N",
        help=f"frames to collect per trajectory (default: {N_FRAMES})",
    )
    parser.add_argument(
        "--fill-frames",
        type=whole_number(1),
        metavar="N",
        help="frames while the bias is filled, at least; four times as many at most (default: 500)",
    )
    parser.add_argument("--temperature", type=positive_number, metavar="K", help="in kelvin")
    parser.add_argument("--height", type=positive_number, metavar="H", help="of the first hills, kJ/mol (default: 0.5)")
    parser.add_argument("--seed", type=whole_number(0), help="base seed; trajectory i uses seed + i")
    group = parser.add_argument_group("output")
    group.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write to, or to go on in")
    group.add_argument("--json", action="store_true", help="print one JSON object; all else goes to standard error")
    parser.set_defaults(run=run_sample)


def run_sample(options: argparse.Namespace, console: Console) -> int:
    """Run or go on with biased simulations, and tell the populations without the bias."""
    from tqdm import tqdm

    from m3c_md.data import read_run
    from m3c_md.data.bias import Filling
    from m3c_md.data.dynamics import DEFAULTS
    from m3c_md.data.free_energies import state_weights
    from m3c_md.data.sampling import read_fillings, read_weights, sample
    from m3c_md.data.simulate import read_settings
    from m3c_md.exceptions import InputError

    try:
        import openmm  # noqa: F401
    except ImportError as error:
        raise InputError(
            'm3c-md sample needs OpenMM, which is not installed; python -m pip install "m3c_md[simulate]"'
        ) from error
    if options.out.exists() and not options.out.is_dir():
        raise NotADirectoryError(f"{options.out} is a file; choose another folder with --out")
    began = time.perf_counter()
    model = portable_model(options.model)
    variable = model.collective_variable(options.states)
    molecule, columns = molecule_of(model)
    given = _given(options, ("n_frames", "temperature", "seed"))
    settings = dataclasses.replace(DEFAULTS[molecule], chunk_frames=CHUNK_FRAMES, **given)
    filling = Filling(**_given(options, ("fill_frames", "height")))
    try:
        sample(settings, filling, variable, columns, options.n_trajectories, options.out, progress=tqdm)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{options.out} is complete up to the last chunk; the same command goes on") from None
    run, weights, fillings = read_run(options.out), read_weights(options.out), read_fillings(options.out)
    found = state_weights(model.transform(run.features), weights, model.n_states, settings.temperature)
    entered = entries_per_ns(model.core(run.features, margin=CORE).dtrajs, model.n_states, run.dt)
    console.say(f"{options.out}: {run}, biased along {variable.formula}.")
    console.say(filling_text(fillings, run.dt))
    _say_populations(console, model, found, entered)
    ns = sum(map(len, run.angles)) * run.dt / 1000.0
    for doubt in doubts(fillings, [round(rate * ns) for rate in entered]):
        console.warn(doubt)
    console.result(
        {
            "command": "sample",
            "molecule": molecule,
            "states": list(variable.states),
            "settings": {**dataclasses.asdict(read_settings(options.out)), **dataclasses.asdict(filling)},
            "n_trajectories": len(run.angles),
            "filling": [filled._asdict() for filled in fillings],
            **found._asdict(),
            "entries_per_ns": entered,
            "warnings": console.warnings,
            "out": str(options.out),
            "seconds": time.perf_counter() - began,
        }
    )
    return 0


def _say_populations(console: Console, model: MarginModel, found: StateWeights, entered: Any) -> None:
    from m3c_md.inputs.state_names import state_title

    console.say("Without the bias (± standard error over trajectories; entries are those of the biased run):")
    for state in range(model.n_states):
        console.say(
            f"  {state_title(model.state_names, state)}: population {found.populations[state]:.4f} ± "
            f"{found.population_errors[state]:.4f}, free energy {found.free_energies[state]:.2f} ± "
            f"{found.free_energy_errors[state]:.2f} kJ/mol, entered {entered[state]:.2f} times per ns"
        )


def _given(options: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def molecule_of(model: MarginModel) -> tuple[str, DihedralColumns]:
    """Name of the shipped peptide that a model is about, and the atoms of its columns in it."""
    from m3c_md.data import alanine_dipeptide, deca_alanine
    from m3c_md.exceptions import InputError
    from m3c_md.export.columns import dihedral_columns_of

    known = dihedral_columns_of(None, model.dihedral_columns, model.columns, model.n_columns)
    for name, data in (("alanine-dipeptide", alanine_dipeptide), ("deca-alanine", deca_alanine)):
        try:
            return name, known.in_topology(data().topology)
        except InputError:
            continue
    raise InputError(
        f"the model is about {known.names[0]!r} of neither alanine dipeptide nor deca-alanine, which are all that is "
        "simulated here; m3c-md export writes its rule for your own simulation"
    )


def filling_text(fillings: Sequence[Filled], dt: float) -> str:
    """How long biases were filled, and how often the molecule went to and fro meanwhile.

    Examples
    --------
    >>> from m3c_md.data.sampling import Filled
    >>> filling_text([Filled(500, 4), Filled(700, 3)], 2.0)
    'Biases were filled for 1 to 1.4 ns, with 3 to 4 round trips across the border.'
    """
    times = [filled.frames * dt / 1000.0 for filled in fillings]
    trips = [filled.round_trips for filled in fillings]
    return (
        f"Biases were filled for {_span(times)} ns, with {_span(trips)} round trip{'s' * (max(trips) != 1)} across the "
        "border."
    )


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"


def doubts(fillings: Sequence[Filled], n_entered: Sequence[int]) -> list[str]:
    """Why the populations of a biased run should not be trusted, and what to do; nothing if there is no reason.

    Examples
    --------
    >>> from m3c_md.data.sampling import Filled
    >>> doubts([Filled(500, 4), Filled(700, 3)], [40, 30, 12])
    []
    >>> [doubt.split(";")[0] for doubt in doubts([Filled(500, 4)], [40, 3, 2])]
    ['states entered fewer than 10 times: 1, 2']
    """
    from m3c_md.data.bias import ROUND_TRIPS

    found = []
    n_short = sum(filled.round_trips < ROUND_TRIPS for filled in fillings)
    if n_short:
        found.append(
            f"{n_short} of {len(fillings)} trajectories made fewer than {ROUND_TRIPS} round trips across the border "
            "while their bias was filled, and may stay on one side of it; use a larger --fill-frames"
        )
    few = [str(state) for state, n in enumerate(n_entered) if n < FEW_ENTRIES]
    if few:
        found.append(
            f"states entered fewer than {FEW_ENTRIES} times: {', '.join(few)}; their populations are guesses, however "
            "small the errors are; use a larger --n-frames or --n-trajectories"
        )
    return found


def entries_per_ns(labels: list[Any], n_states: int, dt: float) -> Any:
    """How often each state is entered per nanosecond.

    Parameters
    ----------
    labels : list of (n_frames,) int arrays
    n_states : int
    dt : float
        Time between two frames, in ps.

    Examples
    --------
    >>> import numpy as np
    >>> entries_per_ns([np.array([0, 0, 1, 0]), np.array([1, 0])], 2, 100.0).round(3).tolist()
    [3.333, 1.667]
    """
    import numpy as np

    entered = np.concatenate([x[1:][x[1:] != x[:-1]] for x in labels])
    return np.bincount(entered, minlength=n_states) / (sum(map(len, labels)) * dt / 1000.0)
