"""What is public, from the package itself, and the pages of the reference that are made of it."""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import pkgutil
from pathlib import Path
from unittest.mock import patch

import m3c_md
from m3c_md.cli import _parser

# Classes of what public functions return: not made by users, but everything they are asked for is documented.
RESULTS = (
    "m3c_md.clustering.state_model.StateModel",
    "m3c_md.clustering.margin_model.MMCModel",
    "m3c_md.clustering.k_medoids.KMedoidsModel",
    "m3c_md.clustering.pcca_plus.PCCAPlusModel",
    "m3c_md.clustering.kinetic_map.MappedModel",
    "m3c_md.clustering.hidden_markov_model.HiddenMarkovModel",
    "m3c_md.clustering.vampnet.VAMPNetModel",
    "m3c_md.clustering.lumped.LumpedModel",
    "m3c_md.clustering.summary.StateSummary",
    "m3c_md.clustering.visits.VisitCounts",
    "m3c_md.markov.coring.CoredTrajectories",
    "m3c_md.markov.coring.MarginChoice",
    "m3c_md.markov.plateau.Plateau",
)
# Many and small: one page has them all.
ERRORS = "m3c_md.exceptions"


def public_modules() -> list[str]:
    """Return the package and the modules right below it that say in ``__all__`` what they offer; and the errors."""
    below = [f"m3c_md.{found.name}" for found in pkgutil.iter_modules(m3c_md.__path__) if found.name != "__main__"]
    return ["m3c_md", *(name for name in below if name == ERRORS or offers(name))]


def offers(module: str) -> bool:
    """Whether a module says what is public in it."""
    return bool(getattr(importlib.import_module(module), "__all__", ()))


def names_of(module: str) -> list[str]:
    """Return the public names of a module, sorted: its ``__all__``, or the classes that it defines."""
    loaded = importlib.import_module(module)
    if hasattr(loaded, "__all__"):
        return sorted(loaded.__all__, key=str.lower)
    return sorted(name for name, kind in inspect.getmembers(loaded, inspect.isclass) if kind.__module__ == module)


def public_names() -> dict[str, list[str]]:
    """Return the public names of every public module, each object once: where it was found first."""
    seen: dict[int, str] = {}
    found: dict[str, list[str]] = {}
    for module in public_modules():
        loaded = importlib.import_module(module)
        found[module] = [
            name for name in names_of(module) if seen.setdefault(id(getattr(loaded, name)), module) == module
        ]
    return {module: names for module, names in found.items() if names}


def also_in(module: str) -> list[str]:
    """Return names that a module offers and that are described elsewhere."""
    return sorted(set(names_of(module)) - set(public_names().get(module, [])), key=str.lower)


def write_reference(folder: Path) -> None:
    """Write one page per public module, and one of results, with tables that autosummary makes pages of."""
    for module, names in public_names().items():
        if module == ERRORS:
            write(folder / f"{module}.rst", f"{module}\n{'=' * len(module)}\n.. automodule:: {module}\n   :members:\n")
            continue
        purpose = inspect.getdoc(importlib.import_module(module)) or ""
        again = ", ".join(f"`{name}`" for name in also_in(module))
        more = f"Also here, and described elsewhere: {again}.\n\n" if again else ""
        write_page(folder / f"{module}.rst", module, f"{purpose}\n\n{more}", [f"{module}.{name}" for name in names])
    text = "Classes of what estimators and functions return: no need to import them."
    write_page(folder / "results.rst", "Models and results", f"{text}\n\n", list(RESULTS))


def write_page(path: Path, title: str, text: str, names: list[str]) -> None:
    """Write a page with a table of names."""
    table = "\n".join(f"   {name}" for name in names)
    write(path, f"{title}\n{'=' * len(title)}\n{text}.. autosummary::\n   :toctree: generated\n\n{table}\n")


def write_command_line(folder: Path) -> None:
    """Write what every command says about itself."""
    lines = ["Command line", "============", "``python -m m3c_md`` is the same command.", ""]
    for title, words in helps().items():
        lines += [title, "-" * len(title), ".. code-block:: text", ""]
        lines += [f"   {line}".rstrip() for line in words.splitlines()] + [""]
    write(folder / "command_line.rst", "\n".join(lines) + "\n")


def helps() -> dict[str, str]:
    """Return what ``--help`` says, of ``m3c-md`` and of each of its commands."""
    # The width of a page, not of the window in which the pages are built.
    with patch.dict(os.environ, {"COLUMNS": "100"}):
        parser = _parser()
        (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        each = {f"m3c-md {name}": command.format_help() for name, command in commands.choices.items()}
        return {"m3c-md": parser.format_help(), **each}


def write(path: Path, text: str) -> None:
    """Write a file unless it is there with the same words: what has not changed is not built again."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
