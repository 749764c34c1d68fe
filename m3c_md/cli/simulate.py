"""``m3c-md simulate``: trajectories of alanine dipeptide or deca-alanine, made here."""

from __future__ import annotations

import argparse
import dataclasses
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from m3c_md.cli.console import Console
from m3c_md.cli.trajectories import positive_number, whole_number

# As in m3c_md.data.dynamics and m3c_md.data.peptides, which need numpy.
MOLECULES = ("alanine-dipeptide", "deca-alanine")
STARTS = ("coil", "helix")

EXAMPLES = """examples:
  m3c-md simulate alanine-dipeptide --out ala2 --jobs 2
  m3c-md simulate deca-alanine --out ala10 --n-trajectories 4 --temperature 320
  m3c-md fit ala2/traj_*.xtc --top ala2/topology.pdb --n-states 3 --dt 2 --unit ps --out states

Amber ff14SB with implicit solvent (OBC2), 4 fs steps, by OpenMM: python -m pip install "m3c_md[simulate]".
DIR gets topology.pdb, traj_00.xtc ..., traj_00_dihedrals.npy ... (radians) and settings.json. Frames are written
as they come: after a stop the same command goes on, and ends in the same bytes as if it had not been stopped."""


def add_simulate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "simulate",
        help="make trajectories of a small peptide with OpenMM",
        description="Simulate a small peptide in implicit solvent: how the data of this package were made.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("molecule", choices=MOLECULES, metavar="MOLECULE", help=" or ".join(MOLECULES))
    parser.add_argument(
        "--n-trajectories", type=whole_number(1), metavar="N", help="default: as many as the package ships"
    )
    parser.add_argument("--n-frames", type=whole_number(1), metavar="N", help="frames per trajectory")
    parser.add_argument("--temperature", type=positive_number, metavar="K", help="in kelvin")
    parser.add_argument("--starts", nargs="+", choices=STARTS, metavar="START", help="coil, helix: taken in turn")
    parser.add_argument("--seed", type=whole_number(0), help="base seed; trajectory i uses seed + i")
    parser.add_argument("--jobs", type=whole_number(1), default=1, metavar="N", help="processes (default: 1)")
    group = parser.add_argument_group("output")
    group.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write to, or to go on in")
    group.add_argument("--json", action="store_true", help="print one JSON object; all else goes to standard error")
    parser.set_defaults(run=run_simulate)


def run_simulate(options: argparse.Namespace, console: Console) -> int:
    """Run or go on with a simulation, and tell where it is."""
    from tqdm import tqdm

    from m3c_md.data import read_run
    from m3c_md.data.dynamics import DEFAULT_N_TRAJECTORIES, DEFAULTS
    from m3c_md.data.simulate import simulate
    from m3c_md.exceptions import InputError

    try:
        import openmm  # noqa: F401
    except ImportError as error:
        raise InputError(
            'm3c-md simulate needs OpenMM, which is not installed; python -m pip install "m3c_md[simulate]"'
        ) from error
    if options.out.exists() and not options.out.is_dir():
        raise NotADirectoryError(f"{options.out} is a file; choose another folder with --out")
    began = time.perf_counter()
    chosen: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name in ("n_frames", "temperature", "starts", "seed")
        if (value := getattr(options, name)) is not None
    }
    settings = dataclasses.replace(DEFAULTS[options.molecule], **chosen)
    n_trajectories = options.n_trajectories or DEFAULT_N_TRAJECTORIES[options.molecule]
    try:
        try:
            simulate(settings, n_trajectories, options.out, n_jobs=options.jobs, progress=tqdm)
        except BrokenProcessPool:
            time.sleep(0.5)  # Ctrl-C kills the processes first at times; then it is on its way here
            raise
    except BrokenProcessPool as error:
        raise OSError(f"a process of the simulation was killed; the same command goes on from {options.out}") from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{options.out} is complete up to the last chunk; the same command goes on") from None
    run = read_run(options.out)
    seconds = time.perf_counter() - began
    console.say(f"{options.out}: {run}")
    console.say(f"Next: m3c-md fit {options.out}/traj_*.xtc --top {run.topology_file} --dt {run.dt:g} --n-states ...")
    console.result(
        {
            "command": "simulate",
            "molecule": options.molecule,
            "settings": dataclasses.asdict(settings),
            "n_trajectories": len(run.angles),
            "n_frames": sum(map(len, run.angles)),
            "dt": run.dt,
            "unit": run.unit,
            "out": str(options.out),
            "seconds": seconds,
        }
    )
    return 0
