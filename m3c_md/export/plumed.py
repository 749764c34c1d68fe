"""A collective variable as input of PLUMED: text, to be checked by the reference values that it carries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.export.variable import CollectiveVariable
from m3c_md.inputs.dihedral_columns import DihedralColumns
from m3c_md.inputs.state_names import state_title

Syntax = Literal["vectors", "classic"]
# Frames whose values are written down, at most.
REFERENCES = 5


def plumed_input(
    variable: CollectiveVariable,
    columns: DihedralColumns | Sequence[str],
    syntax: Syntax,
    reference: FloatArray | None = None,
    names: Sequence[str] | None = None,
) -> str:
    """Text of a PLUMED input that computes and prints a collective variable.

    Parameters
    ----------
    variable : CollectiveVariable
    columns : DihedralColumns or sequence of str
        Atoms of the columns (sines and cosines), or the labels under which PLUMED has them.
    syntax : "vectors" or "classic"
        A few actions on vectors (PLUMED 2.10 and later), or two for each cosine (all versions).
    reference : (n_frames, n_columns) array, optional
        Columns of frames for which values are written down.
    names : sequence of str, optional
        What the states are called.

    Examples
    --------
    >>> half = np.ones((1, 1))
    >>> variable = CollectiveVariable((0, 1), "difference", half, half, half, np.zeros(1))
    >>> print(plumed_input(variable, ["d"], "classic").splitlines()[-3])
    m3c_0_1_sum: COMBINE ARG=m3c_0_1_f1 COEFFICIENTS=1 PERIODIC=NO
    """
    name = variable_name(variable)
    # A matrix of one column is a vector to PLUMED.
    in_vectors = syntax == "vectors" and len(_angles_or_labels(columns)) > 1 and variable.n_terms > 1
    actions = _vector_actions(variable, columns, name) if in_vectors else _classic_actions(variable, columns, name)
    lines = [
        *_preamble(variable, columns, in_vectors, names),
        *_reference_lines(variable, name, reference),
        "",
        *actions,
        _result(variable, name),
        f"PRINT ARG={name} FILE=COLVAR STRIDE=1 FMT=%14.8f",
    ]
    return "\n".join(lines) + "\n"


def variable_name(variable: CollectiveVariable) -> str:
    """Label of a collective variable; all labels of its input begin with it, so that several fit into one file."""
    kind = "m3c" if variable.kind == "difference" else "m3c_share"
    return "_".join([kind, *map(str, variable.states)])


def _preamble(
    variable: CollectiveVariable,
    columns: DihedralColumns | Sequence[str],
    in_vectors: bool,
    names: Sequence[str] | None,
) -> list[str]:
    import m3c_md

    first, *rest = (state_title(names, state) for state in variable.states)
    others = ", ".join(rest)
    if variable.kind == "difference":
        theirs = f"that of {others}" if len(rest) == 1 else f"the mean of those of {others}"
        meaning = f"score of {first} less {theirs}: 0 at the border, 1 or more well inside {first}"
    else:
        meaning = f"share of {first} against {others}: 0.5 at a border, towards 1 inside {first}"
    lines = [
        f"# {variable_name(variable)} = {variable.formula}, by m3c_md {m3c_md.__version__}",
        f"# ({meaning}).",
        *(["# Of merged states f is the smooth maximum log(sum exp(2 f)) / 2 of the scores."] * variable.has_merged),
        "# It has no unit. Angles are in radians; the unit of length does not matter to them.",
        f"# Needs PLUMED {'2.10 or later (older ones read syntax=classic)' if in_vectors else '2.5 or later'}.",
        "# Add a bias that has it as ARG, and a larger STRIDE in the last line.",
    ]
    if not isinstance(columns, DihedralColumns):
        return [*lines, f"# Define these above, in the units of the fit: {', '.join(columns)}"]
    if columns.periodic:
        lines.append("# NOPBC is not set: angles are taken across the borders of the box, if there is one.")
    else:
        lines.append("# NOPBC: coordinates are taken as they are, so molecules must be whole (WHOLEMOLECULES).")
    described = zip(columns.names, columns.atoms, strict=True)
    return lines + [f"# angle {k}: {name} ({', '.join(atoms)})" for k, (name, atoms) in enumerate(described, start=1)]


def _reference_lines(variable: CollectiveVariable, name: str, reference: FloatArray | None) -> list[str]:
    if reference is None:
        return ["# No reference values: give to_plumed a trajectory to have some."]
    chosen = np.unique(np.linspace(0, len(reference) - 1, REFERENCES).astype(int))
    values = variable.values(np.asarray(reference[chosen], dtype=np.float64))
    return [
        f"# Reference: plumed driver must print these values for frames of the trajectory ({len(reference)} frames,",
        "# counted from 0) that m3c_md was given, but for the last digits (it read coordinates in single precision):",
        f"#  frame {name:>18}",
        *(f"# {frame:6d} {value:18.8f}" for frame, value in zip(chosen, values, strict=True)),
    ]


def _angles_or_labels(columns: DihedralColumns | Sequence[str]) -> Sequence[str]:
    return columns.names if isinstance(columns, DihedralColumns) else columns


def _vector_actions(variable: CollectiveVariable, columns: DihedralColumns | Sequence[str], name: str) -> Iterable[str]:
    if isinstance(columns, DihedralColumns):
        atoms = " ".join(f"ATOMS{k}={_atoms(four)}" for k, four in enumerate(columns.quartets, start=1))
        yield f"{name}_t: TORSION {atoms}{_nopbc(columns)}"
        parts = {"s": variable.frequencies[0::2], "c": variable.frequencies[1::2]}
        for part, function in (("s", "sin"), ("c", "cos")):
            yield f"{name}_{part}: CUSTOM ARG={name}_t FUNC={function}(x) PERIODIC=NO"
    else:
        yield f"{name}_x: CONCATENATE ARG={','.join(columns)}"
        parts = {"x": variable.frequencies}
    for part, frequencies in parts.items():
        n_columns, n_terms = frequencies.shape
        yield f"{name}_w{part}: CONSTANT NROWS={n_terms} NCOLS={n_columns} VALUES={_numbers(frequencies.T)}"
        yield f"{name}_u{part}: MATRIX_VECTOR_PRODUCT ARG={name}_w{part},{name}_{part}"
    terms = [f"u{part}" for part in parts]
    for d, _ in enumerate(variable.offsets):
        end = _ending(variable, d)
        yield f"{name}_p{end}: CONSTANT VALUES={_numbers(variable.phases[:, d])}"
        yield f"{name}_a{end}: CONSTANT VALUES={_numbers(variable.amplitudes[:, d])}"
        arguments = ",".join(f"{name}_{label}" for label in (*terms, f"p{end}", f"a{end}"))
        variables, angle = ",".join([*terms, "p", "a"]), "+".join([*terms, "p"])
        yield f"{name}_f{end}: CUSTOM ARG={arguments} VAR={variables} FUNC=a*cos({angle}) PERIODIC=NO"
        yield f"{name}_sum{end}: SUM ARG={name}_f{end} PERIODIC=NO"


def _classic_actions(
    variable: CollectiveVariable, columns: DihedralColumns | Sequence[str], name: str
) -> Iterable[str]:
    labels: Sequence[str] = [] if isinstance(columns, DihedralColumns) else columns
    if isinstance(columns, DihedralColumns):
        for k, four in enumerate(columns.quartets, start=1):
            yield f"{name}_t{k}: TORSION ATOMS={_atoms(four)}{_nopbc(columns)}"
            for part, function in (("s", "sin"), ("c", "cos")):
                yield f"{name}_{part}{k}: CUSTOM ARG={name}_t{k} FUNC={function}(x) PERIODIC=NO"
        labels = [f"{name}_{part}{k}" for k in range(1, columns.n_angles + 1) for part in ("s", "c")]
    arguments = ",".join(labels)
    for m in range(variable.n_terms):
        frequencies = _numbers(variable.frequencies[:, m])
        yield f"{name}_u{m + 1}: COMBINE ARG={arguments} COEFFICIENTS={frequencies} PERIODIC=NO"
    for d, _ in enumerate(variable.offsets):
        end = _ending(variable, d)
        for m, phase in enumerate(variable.phases[:, d], start=1):
            yield f"{name}_f{end}{m}: CUSTOM ARG={name}_u{m} FUNC=cos(x+({_number(phase)})) PERIODIC=NO"
        cosines = ",".join(f"{name}_f{end}{m}" for m in range(1, variable.n_terms + 1))
        amplitudes = _numbers(variable.amplitudes[:, d])
        yield f"{name}_sum{end}: COMBINE ARG={cosines} COEFFICIENTS={amplitudes} PERIODIC=NO"


def _result(variable: CollectiveVariable, name: str) -> str:
    """Action that makes the variable of the sums of cosines."""
    variables = [f"d{label}" for label in variable.labels]
    sums = ",".join(f"{name}_sum{_ending(variable, d)}" for d in range(variable.n_differences))
    shifted = [f"({d}+({_number(c)}))" for d, c in zip(variables, variable.offsets, strict=True)]
    return f"{name}: CUSTOM ARG={sums} VAR={','.join(variables)} FUNC={variable.expression(shifted)} PERIODIC=NO"


def _ending(variable: CollectiveVariable, number: int) -> str:
    """What labels that belong to one of several differences end in."""
    return "" if variable.n_differences == 1 else f"_{variable.labels[number]}_"


def _atoms(four: Iterable[int]) -> str:
    """Atom numbers as PLUMED counts them, from 1."""
    return ",".join(str(number + 1) for number in four)


def _nopbc(columns: DihedralColumns) -> str:
    return "" if columns.periodic else " NOPBC"


def _number(value: float) -> str:
    return f"{value:.12g}"


def _numbers(values: FloatArray) -> str:
    return ",".join(_number(value) for value in np.ravel(values))
