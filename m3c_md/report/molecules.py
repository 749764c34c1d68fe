"""Structures of the states in 3D: PDB files made small, laid over each other and turned to show their broad side."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.exceptions import InputError
from m3c_md.report.page import Section

# All structures of a page together.
MOST_BYTES = 1_200_000
# More than that nobody compares, and each takes its time to draw.
MOST_VIEWS = 12
# Of a state: the frame deepest inside, and some more as thin lines.
MOST_MODELS = 5
# Chains from so many residues on are drawn as ribbons.
LEAST_RIBBON = 20
BACKBONE = frozenset(("N", "CA", "C", "O"))
SOLVENT = frozenset(
    (
        "HOH",
        "WAT",
        "SOL",
        "TIP",
        "TIP3",
        "TP3",
        "SPC",
        "NA",
        "CL",
        "K",
        "MG",
        "CA",
        "ZN",
        "NA+",
        "CL-",
        "CLA",
        "SOD",
        "POT",
    )
)
# Element, in columns 77 and 78; where that is left out, the first letter of the name tells.
Keep = Callable[["Atom"], bool]


class Atom(NamedTuple):
    """A line of a PDB file, and what it says."""

    line: str
    name: str
    residue: str
    element: str
    place: tuple[float, float, float]


def molecule_section(structures: Sequence[Any], names: Sequence[str], colors: Sequence[str], note: str) -> Section:
    """Structures of all states, next to each other.

    Parameters
    ----------
    structures : sequence of paths
        A PDB file for every state, with relevances from 0 to 100 as B-factors; several models are drawn over each
        other, the first of them in full.
    names, colors : sequences of str
        Of the states.
    note : str
        What else to say below them.
    """
    check_structures(structures, len(names))
    shown = structures[:MOST_VIEWS]
    packed, style = pack([read_models(path) for path in shown])
    if not packed:
        return Section("Structures", "<p>They are too large for this page; the files of the states have them.</p>")
    views = []
    for state, models in enumerate(packed):
        held = json.dumps({"style": style, "models": models}).replace("<", "\\u003c")
        swatch = f'<span class="swatch" style="background: {colors[state]}"></span>'
        views.append(
            f'<div><p>{swatch}{escape(names[state])}</p><div class="molecule" data-structures="structures-{state}">'
            "<noscript>Structures are drawn by JavaScript, which is off.</noscript></div>"
            f'<script type="application/json" id="structures-{state}">{held}</script></div>'
        )
    more = len(structures) - len(shown)
    left_out = f" The {more} smallest states are not drawn; their files have them." if more else ""
    caption = (
        "<figcaption>Drag to turn all of them together, scroll to zoom. Colour: relevance of the residue to the "
        f'states, from none<span class="ramp"></span>to most. {escape(note + left_out)}</figcaption>'
    )
    return Section(
        "Structures", f'<figure><div class="molecules">{"".join(views)}</div>{caption}</figure>', three_d=True
    )


def check_structures(structures: Any, n_states: int) -> None:
    """Refuse anything but a file for every state, or None."""
    if structures is None:
        return
    if isinstance(structures, str | os.PathLike) or not hasattr(structures, "__len__") or len(structures) != n_states:
        raise InputError(f"structures={structures!r:.60} must be {n_states} PDB files, one for every state")


def read_models(path: Any) -> list[list[Atom]]:
    """Atoms of the first models of a PDB file, without solvent and ions."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except (OSError, TypeError) as error:
        raise InputError(f"structures holds {path!r:.80}, which cannot be read ({error}); give PDB files") from error
    models: list[list[Atom]] = [[]]
    for line in text.splitlines():
        if line.startswith("ENDMDL"):
            if len(models) == MOST_MODELS:
                break
            models.append([])
        elif line.startswith(("ATOM  ", "HETATM")):
            atom = _atom(line, path)
            if atom.residue not in SOLVENT:
                models[-1].append(atom)
    found = [model for model in models if model]
    if not found:
        raise InputError(f"{path} holds no atoms that could be drawn; give a PDB file of the molecule")
    return found


def _atom(line: str, path: Any) -> Atom:
    try:
        place = float(line[30:38]), float(line[38:46]), float(line[46:54])
    except ValueError as error:
        raise InputError(f"{path} is no PDB file: {line!r:.80} has no coordinates; write it again") from error
    name = line[12:16].strip()
    return Atom(line, name, line[17:21].strip(), line[76:78].strip() or name.lstrip("0123456789")[:1], place)


def pack(states: Sequence[list[list[Atom]]]) -> tuple[list[list[str]], str]:
    """PDB text of every model of every state, small enough for a page, and how to draw it.

    Hydrogens are left out, and further details until it fits: models but the first, side chains, all but Cα.

    Returns
    -------
    list of lists of str
        Empty if nothing is small enough.
    str
        "stick", "cartoon" or "trace".
    """
    residues = len({atom.line[21:27] for atom in states[0][0] if atom.name == "CA"})
    style = "cartoon" if residues >= LEAST_RIBBON else "stick"
    steps: list[tuple[int, Keep, str]] = [
        (1 if style == "cartoon" else MOST_MODELS, lambda atom: atom.element != "H", style),
        (1, lambda atom: atom.element != "H", style),
        (1, lambda atom: atom.name in BACKBONE, style),
        (1, lambda atom: atom.name == "CA", "trace"),
    ]
    for most, keep, drawn in steps:
        kept = [[[atom for atom in model if keep(atom)] for model in models[:most]] for models in states]
        n_atoms = sum(len(model) for models in kept for model in models)
        if all(model for models in kept for model in models) and 79 * n_atoms <= MOST_BYTES:
            return _laid_over(kept, drawn), drawn
    return [], style


def _laid_over(states: list[list[list[Atom]]], style: str) -> list[list[str]]:
    """PDB text with all models laid over the first one, whose broad side is turned to the reader."""
    first = states[0][0]
    weights = _weights(first)
    # 3Dmol.js joins neighbours of a chain only where it knows their names, but all others by distance.
    record = "HETATM" if style == "stick" else ""
    target = _places(first)
    target = (target - target.mean(axis=0)) @ broad_side(target)
    packed = []
    for models in states:
        texts = []
        for model in models:
            places = _places(model)
            same = len(model) == len(first) >= 3
            moved = superposed(places, target, weights) if same else places - places.mean(axis=0)
            texts.append("\n".join(_line(record, *pair) for pair in zip(model, moved.tolist(), strict=True)))
        packed.append(texts)
    return packed


def _weights(model: list[Atom]) -> FloatArray:
    """What counts where structures are laid over each other: the backbone, most of it where residues are relevant."""
    relevance = np.array([_number_or_zero(atom.line[60:66]) for atom in model])
    backbone = np.array([atom.name in BACKBONE for atom in model])
    weights = 0.1 + relevance / 100.0
    return np.asarray(np.where(backbone, weights, 0.0) if backbone.sum() >= 3 else weights)


def _number_or_zero(text: str) -> float:
    return float(text) if text.strip().replace(".", "", 1).isdigit() else 0.0


def _places(model: list[Atom]) -> FloatArray:
    return np.array([atom.place for atom in model])


def _line(record: str, atom: Atom, place: Sequence[float]) -> str:
    x, y, z = place
    before, after = f"{record or atom.line[:6]}{atom.line[6:30]}", f"{atom.line[54:66]:<12}{'':10}{atom.element:>2}"
    return f"{before}{x:8.3f}{y:8.3f}{z:8.3f}{after}"


def broad_side(places: FloatArray) -> FloatArray:
    """Rotation (to be multiplied from the right) that puts the longest axis along x and the shortest along z.

    Examples
    --------
    >>> rotation = broad_side(np.array([[0.0, 0.0, 5.0], [0.0, 1.0, -5.0], [0.0, -1.0, 0.0]]))
    >>> bool(np.isclose(np.linalg.det(rotation), 1.0)), np.abs(rotation[:, 0]).argmax()
    (True, np.int64(2))
    """
    axes = np.linalg.svd(places - places.mean(axis=0))[2].T
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    return np.asarray(axes)


def superposed(places: FloatArray, target: FloatArray, weights: FloatArray) -> FloatArray:
    """Places moved and turned so that they lie as near to the target as they can, by weighted squares (Kabsch).

    Examples
    --------
    >>> target = np.random.default_rng(0).normal(size=(5, 3))
    >>> turned = target @ broad_side(target) + 3.0
    >>> bool(np.allclose(superposed(turned, target, np.ones(5)), target))
    True
    """
    ours, theirs = (np.average(x, axis=0, weights=weights) for x in (places, target))
    left, _, right = np.linalg.svd((weights[:, None] * (places - ours)).T @ (target - theirs))
    left[:, 2] *= np.sign(np.linalg.det(left @ right))  # a rotation, never a mirror image
    return np.asarray((places - ours) @ (left @ right) + theirs)
