"""The command line: ``m3c-md`` and its commands.

Nothing heavy is imported before the arguments are known to be good, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence

from m3c_md.cli.apply import add_transform
from m3c_md.cli.console import Console, plain_warnings
from m3c_md.cli.demo import add_demo
from m3c_md.cli.edit import add_edit
from m3c_md.cli.export import add_export
from m3c_md.cli.fit import add_fit
from m3c_md.cli.kinetics import add_kinetics
from m3c_md.cli.profile import add_profile
from m3c_md.cli.sample import add_sample
from m3c_md.cli.simulate import add_simulate
from m3c_md.cli.study import add_compare, add_scan

EXAMPLES = """examples:
  m3c-md demo
  m3c-md fit run*.xtc --top protein.pdb --n-states 3 --dt 2 --unit ps --out states
  m3c-md transform states/model.m3c new*.xtc --top protein.pdb --out new-states
  m3c-md kinetics states/model.m3c run*.xtc --top protein.pdb --core --dt 2 --unit ps --out kinetics
  m3c-md profile states/model.m3c run*.xtc --top protein.pdb --out profile
  m3c-md compare run*.xtc --top protein.pdb --n-states 3 --out comparison
  m3c-md scan run*.xtc --top protein.pdb --states 2-5 --out scan
  m3c-md fit distances*.npy --n-states 4 --out states      (your own features)
  m3c-md edit states/model.m3c --rename 0=helix 1=coil --out states/named.m3c
  m3c-md export states/model.m3c --top protein.pdb --to plumed --states 0 2 --out plumed.dat
  m3c-md sample states/model.m3c --states 0 2 --temperature 300 --out biased
  m3c-md simulate alanine-dipeptide --out ala2

exit codes: 0 success, 1 no solution found, 2 bad usage or input, 130 interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 success, 1 no solution, 2 bad usage, 130 interrupted."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = argparse.Namespace()
    try:
        parser = _parser()
        if not given:
            parser.exit(2, parser.format_help())
        parser.parse_args(given, options)
        options.command_line = shlex.join(["m3c-md", *given])
        return _run(options)
    except KeyboardInterrupt as interrupt:
        checkpoint = getattr(options, "checkpoint", None)
        more = "" if checkpoint is None else f"; the same command goes on from {checkpoint}"
        return _failed(f"interrupted; {str(interrupt) or 'files already written are complete'}{more}", 130)


def _run(options: argparse.Namespace) -> int:
    from concurrent.futures import BrokenExecutor

    from m3c_md.exceptions import DegenerateSolutionError, SolverError

    console = Console(json=getattr(options, "json", False))
    try:
        with plain_warnings(console):
            return int(options.run(options, console))
    except (ValueError, OSError) as error:
        return _failed(error, 2)
    except MemoryError as error:
        return _failed(f"there is not enough memory ({error}); use a larger --stride, or fewer files at a time", 2)
    except BrokenExecutor as error:  # of joblib, where the system ends a process, most often for its memory
        return _failed(f"a worker process died ({error}); use fewer --jobs, a larger --stride or fewer files", 1)
    except (DegenerateSolutionError, SolverError) as error:
        return _failed(error, 1)


def _failed(reason: object, code: int) -> int:
    """Say why in one line, whatever the message looks like."""
    print(f"m3c-md: {' '.join(str(reason).split())}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    from m3c_md import __version__

    parser = argparse.ArgumentParser(
        prog="m3c-md",
        description="Maximum margin metastable clustering of molecular dynamics trajectories.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"m3c-md {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (
        add_fit,
        add_transform,
        add_kinetics,
        add_profile,
        add_compare,
        add_scan,
        add_edit,
        add_export,
        add_sample,
        add_simulate,
        add_demo,
    ):
        add(commands)
    return parser
