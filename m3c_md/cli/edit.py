"""``m3c-md edit``: name and merge the states of a saved model."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from m3c_md.cli.console import Console
from m3c_md.cli.fit import FEATURES

if TYPE_CHECKING:
    from m3c_md.clustering.state_model import StateModel

EXAMPLES = """examples:
  m3c-md edit states/model.m3c --rename 0=helix 1=coil --out states/named.m3c
  m3c-md edit states/model.m3c --rename 1=coil --merge helix=0,2 --out states/merged.m3c

States are those of MODEL, by number or name. Renaming comes first: --merge knows the new names, too. A merged state
has the name before "=", or the names of its members. Merged states come first, in the order given; the others follow.
MODEL stays as it is, unless FILE is MODEL and --force is given. features.json of the fit is copied to the folder of
FILE, where m3c-md transform and kinetics look for it. Splitting a state needs trajectories: load_model(...).split(...)
in Python does it."""


def add_edit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "edit",
        help="name and merge the states of a saved model",
        description="Name and merge the states of a saved model.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="model.m3c of an earlier fit")
    parser.add_argument("--rename", nargs="+", default=[], metavar="STATE=NAME", help="what states are called")
    parser.add_argument(
        "--merge", nargs="+", default=[], metavar="[NAME=]I,J", help="states that become one, with its name if wanted"
    )
    group = parser.add_argument_group("output")
    group.add_argument("--out", type=Path, required=True, metavar="FILE", help="model file to write")
    group.add_argument("--force", action="store_true", help="replace FILE if it exists")
    group.add_argument("--json", action="store_true", help="print one JSON object; all else goes to standard error")
    parser.set_defaults(run=run_edit)


def run_edit(options: argparse.Namespace, console: Console) -> int:
    """Write a model with other names, or with fewer states."""
    from m3c_md import load_model
    from m3c_md.disk import checked_path, writing
    from m3c_md.exceptions import InputError
    from m3c_md.inputs.state_names import state_title

    if not options.rename and not options.merge:
        raise InputError("nothing to do; give --rename STATE=NAME or --merge I,J")
    target = checked_path("--out", options.out)
    if target.exists() and (target.is_dir() or not options.force):
        raise FileExistsError(f"{target} exists; choose another name with --out or overwrite with --force")
    model = edited(load_model(options.model), options.rename, options.merge)
    features, copy = options.model.parent / FEATURES, target.parent / FEATURES
    if features.exists() and copy.exists() and copy.read_bytes() != features.read_bytes():
        raise FileExistsError(f"{copy} is that of another fit; choose another folder with --out")
    target.parent.mkdir(parents=True, exist_ok=True)
    if features.exists() and not copy.exists():
        with writing(copy, FEATURES) as partial:
            shutil.copyfile(features, partial)
    model.save(target)  # complete or not at all
    console.say(f"Written to {target}:")
    for state, share in enumerate(model.populations):
        console.say(f"  {state}: {state_title(model.state_names, state)}, population {share:.4f}")
    populations = [float(share) for share in model.populations]
    console.result(
        {"command": "edit", "state_names": model.state_names, "populations": populations, "out": str(target)}
    )
    return 0


def edited(model: StateModel, rename: list[str], merge: list[str]) -> Any:
    """Return the model after what the options ask for; states are those of the model given, by number or name.

    Renaming comes first, so that states to merge may go by their new names, too.

    Parameters
    ----------
    model : StateModel
    rename : list of str
        Such as "0=helix".
    merge : list of str
        Such as "0,2" or "helix=0,2".
    """
    from m3c_md.exceptions import InputError

    old = list(model.state_names)
    changes: dict[int, str] = {}
    for text in rename:
        state, equals, name = text.partition("=")
        if not equals:
            raise InputError(f"--rename {text}: write STATE=NAME, e.g. 0=helix")
        number = _number(old, state, "--rename")
        if number in changes:
            raise InputError(f"--rename has two names for state {number}; give it one")
        changes[number] = name
    new: Any = model.rename(changes) if changes else model
    if not merge:
        return new
    if not hasattr(model, "merge"):
        raise InputError(f"--merge: states of a {type(model).__name__} cannot be merged; fit M3C or MMC")
    names, groups, called = {}, [], list(new.state_names)
    for place, text in enumerate(merge):
        name, equals, members = text.rpartition("=")
        states = [state.strip() for state in members.split(",")]
        groups.append([_number(called if state in called else old, state, "--merge") for state in states])
        if len(groups[-1]) < 2:
            raise InputError(f"--merge {text}: write at least two states with a comma between them, e.g. 0,2")
        if equals:
            names[place] = name
    new = new.merge(groups)
    return new.rename(names) if names else new


def _number(names: list[str], state: str, option: str) -> int:
    """Number of a state that was typed as number or name."""
    from m3c_md.inputs.state_names import state_number

    typed = state.strip()
    return state_number(names, int(typed) if typed.isdecimal() else typed, option)
