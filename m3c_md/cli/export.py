"""``m3c-md export``: the rule of a saved model as a collective variable of PLUMED or OpenMM."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from m3c_md.cli.console import Console
from m3c_md.cli.trajectories import whole_number

if TYPE_CHECKING:
    from m3c_md.clustering.margin_model import MarginModel
    from m3c_md.inputs.dihedral_columns import DihedralColumns

EXAMPLES = """examples:
  m3c-md export states/model.m3c --top protein.pdb --to plumed --states 0 2 --out plumed.dat
  m3c-md export states/model.m3c --top protein.pdb --to openmm --states 0 2 --kind membership --out variable.xml

The variable is the score of the first state less the mean of the others that are named, or of all others where it is
alone (--kind difference), or its share among them (membership).
plumed: FILE is a complete input; check its reference values, if TOP has coordinates, by
  plumed driver --plumed FILE --mf_pdb TOP
openmm: FILE is what openmm.XmlSerializer.deserialize reads, a force for openmm.app.BiasVariable or CustomCVForce.
MODEL must be of m3c-md fit on trajectory files, or of M3C(...).fit(..., featurizer=...) in Python."""


def add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "export",
        help="the rule of a model as a collective variable for PLUMED or OpenMM",
        description="Write the decision rule of a model as a collective variable, to bias the next simulation along.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="model.m3c of an earlier fit")
    parser.add_argument(
        "--top", required=True, metavar="TOP", help="topology of the simulation, by which atoms are numbered"
    )
    parser.add_argument("--to", required=True, choices=("plumed", "openmm"), help="for which program")
    parser.add_argument(
        "--states", type=whole_number(0), nargs="+", metavar="I", help="a state, alone or before others; from 0 on"
    )
    parser.add_argument(
        "--kind", choices=("difference", "membership"), default="difference", help="default: difference"
    )
    parser.add_argument(
        "--syntax",
        choices=("vectors", "classic"),
        default="vectors",
        help="of PLUMED: vectors needs 2.10 or later (default), classic works with all versions",
    )
    group = parser.add_argument_group("output")
    group.add_argument("--out", type=Path, required=True, metavar="FILE", help="file to write")
    group.add_argument("--force", action="store_true", help="replace FILE if it exists")
    group.add_argument("--json", action="store_true", help="print one JSON object; all else goes to standard error")
    parser.set_defaults(run=run_export)


def run_export(options: argparse.Namespace, console: Console) -> int:
    """Write the collective variable of a model to a file."""
    from m3c_md.disk import checked_path, writing

    target = checked_path("--out", options.out)
    if target.exists() and (target.is_dir() or not options.force):
        raise FileExistsError(f"{target} exists; choose another name with --out or overwrite with --force")
    model = portable_model(options.model)
    variable = model.collective_variable(options.states, options.kind)
    columns = atoms_in(model, options.top)
    if options.to == "plumed":
        reference = frames_of(options.top, columns)
        text = model.to_plumed(columns, variable.states, options.kind, options.syntax, trajectory=reference)
    else:
        force = model.to_openmm(columns, variable.states, options.kind)
        from openmm import XmlSerializer

        text = XmlSerializer.serialize(force)
    target.parent.mkdir(parents=True, exist_ok=True)
    with writing(target, "the collective variable") as partial:
        partial.write_text(text, encoding="utf-8")
    console.say(
        f"Written to {target}: {variable.formula}, {variable.n_terms * variable.n_differences} cosines of "
        f"{columns.n_angles} dihedrals."
    )
    console.result(
        {
            "command": "export",
            "to": options.to,
            "states": list(variable.states),
            "kind": variable.kind,
            "formula": variable.formula,
            "n_cosines": variable.n_terms,
            "atoms": (columns.quartets + 1).tolist(),
            "out": str(target),
        }
    )
    return 0


def portable_model(path: Path) -> MarginModel:
    """Read a model whose rule is smooth and that knows the atoms of its columns."""
    from m3c_md import load_model
    from m3c_md.clustering.margin_model import MarginModel
    from m3c_md.exceptions import InputError

    model = load_model(path)
    if not isinstance(model, MarginModel):
        raise InputError(f"{path} holds a {type(model).__name__}, whose states have no smooth rule; fit M3C")
    if model.dihedral_columns is None:
        raise InputError(
            f"{path} does not say which atoms its columns are made of; fit again to trajectory files (m3c-md fit), or "
            "with fit(..., featurizer=...) in Python; rules on other columns go to PLUMED by model.to_plumed([labels])"
        )
    return model


def atoms_in(model: MarginModel, top: str) -> DihedralColumns:
    """Columns of a model with the atom numbers of a topology file."""
    from m3c_md.export.columns import dihedral_columns_of
    from m3c_md.features.files import read_topology

    known = dihedral_columns_of(None, model.dihedral_columns, model.columns, model.n_columns)
    return known.in_topology(read_topology(top))


def frames_of(top: str, columns: DihedralColumns) -> Any:
    """Coordinates that a topology file has, as an mdtraj.Trajectory; None if it has none, or not of whole molecules."""
    import mdtraj

    from m3c_md.export.columns import columns_of_frames

    try:
        found = mdtraj.load(top)
        columns_of_frames(columns, found)
    except Exception:  # an `InputError`, or what mdtraj raises over files without coordinates
        return None
    return found
