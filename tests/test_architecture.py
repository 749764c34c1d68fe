"""The house of the design notes: who may import whom, what is light to import, what is documented."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import m3c_md
import m3c_md.data

PACKAGE = Path(m3c_md.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
# Beside the tests, wherever the package was imported from: the gate takes it away from here and tests the wheel.
PROJECT = Path(__file__).parents[1] / "pyproject.toml"
DATA = PROJECT.parent / "data"

# Room -> rooms that it may import besides itself. Data flows left to right; everybody may raise the package's errors,
# and name the types of its arrays.
LEFT_OF: dict[str, set[str]] = {
    "exceptions": set(),
    "arrays": set(),
    "disk": {"exceptions"},
    "inputs": {"exceptions"},
    "matching": {"exceptions"},
    "workers": set(),
    "confidence": set(),
    "markup": set(),
    "wording": set(),
    "relevance": {"exceptions", "inputs"},
    "systems": {"exceptions", "inputs", "matching"},
    "features": {"exceptions", "disk", "inputs", "workers", "markup"},
    "optimize": {"exceptions"},
    "export": {"exceptions", "inputs", "optimize"},
    "data": {"exceptions", "disk", "inputs", "workers", "features", "export"},
    "markov": {"exceptions", "confidence", "inputs", "markup", "wording"},
    "plots": {"exceptions", "confidence", "inputs", "matching", "markov", "relevance", "wording"},
    "report": {"exceptions", "disk", "inputs", "markov", "markup", "plots", "relevance", "wording"},
    "frames": {"exceptions", "inputs", "optimize"},
    "partitions": {"exceptions", "optimize", "frames"},
    "search": {"exceptions", "matching", "workers", "optimize", "frames", "partitions"},
    "clustering": {
        *("exceptions", "disk", "inputs", "matching", "optimize", "export", "markov", "frames", "partitions", "search"),
        *("markup", "relevance", "report", "wording"),
    },
    "validation": {
        *("exceptions", "disk", "inputs", "matching", "workers", "markov", "clustering", "plots", "markup", "report"),
        *("confidence", "wording"),
    },
}
# Results of `markov` with a method that draws them, which looks to the right when it is called and not before.
DRAW_THEMSELVES = {"markov/timescales.py", "markov/chapman_kolmogorov.py"}
# The front doors see the whole house.
FRONT_DOORS = {"__init__", "__main__", "cli"}
# Slow to import, or not installed everywhere: only inside functions.
HEAVY = {"cvxpy", "ortools", "highspy", "scs", "clarabel", "matplotlib", "pandas", "dask", "distributed"}
HEAVY |= {"openmm", "torch"}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def room_of(path: Path) -> str:
    top = name_of(path).partition("/")[0].removesuffix(".py")
    return "systems" if top.startswith("systems") else top


def imported(nodes: list[ast.stmt] | list[ast.AST]) -> set[str]:
    """Absolute names of everything that some import statements bring in."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute, so that one can see where a name lives"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def at_import_time(tree: ast.Module) -> list[ast.AST]:
    """All nodes that run when the module is imported: not inside a function or a TYPE_CHECKING block."""
    nodes: list[ast.AST] = []
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        nodes.append(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo += node.orelse
            continue
        todo += list(ast.iter_child_nodes(node))
    return nodes


@pytest.mark.parametrize("path", MODULES, ids=name_of)
class TestEveryModule:
    def test_imports_only_rooms_to_its_left(self, path: Path) -> None:
        room = room_of(path)
        if room in FRONT_DOORS:
            return
        assert room in LEFT_OF, f"{name_of(path)} is in no room of the house; decide what it may import"
        names = imported(list(ast.walk(ast.parse(path.read_text()))))
        own = {name.split(".")[1] for name in names if name.startswith("m3c_md.")}
        rooms = {"systems" if name.startswith("systems") else name for name in own}
        if name_of(path) in DRAW_THEMSELVES:
            early = imported(at_import_time(ast.parse(path.read_text())))
            assert not [name for name in early if name.startswith("m3c_md.plots")]
            rooms -= {"plots"}
        assert rooms <= LEFT_OF[room] | {room, "arrays"}

    def test_loads_no_heavy_package_when_imported(self, path: Path) -> None:
        room = room_of(path)
        names = imported(at_import_time(ast.parse(path.read_text())))
        roots = {name.partition(".")[0] for name in names}
        assert not roots & HEAVY
        assert "mdtraj" not in roots or room == "features"
        # The featurizer would bring mdtraj and deeptime along.
        assert room != "data" or not [name for name in names if name.startswith("m3c_md.features")]

    def test_documents_everything_public(self, path: Path) -> None:
        tree = ast.parse(path.read_text())
        assert ast.get_docstring(tree), "the module itself"
        definitions = (ast.FunctionDef, ast.ClassDef)
        public = [node for node in tree.body if isinstance(node, definitions) and not node.name.startswith("_")]
        members = [
            member
            for owner in public
            if isinstance(owner, ast.ClassDef)
            for member in owner.body
            if isinstance(member, definitions) and not member.name.startswith("_")
        ]
        assert [node.name for node in public + members if not ast.get_docstring(node)] == []


def loaded_after(statement: str) -> set[str]:
    """Top-level packages in memory after a statement in a fresh interpreter."""
    code = f"import sys, json\n{statement}\nprint(json.dumps(sorted({{m.partition('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


class TestFrontDoor:
    def test_importing_the_package_loads_nothing(self) -> None:
        assert not loaded_after("import m3c_md") & (
            HEAVY | {"deeptime", "sklearn", "scipy", "numpy", "mdtraj", "joblib"}
        )

    def test_the_estimator_loads_no_solver_and_no_plots(self) -> None:
        # deeptime brings matplotlib and pandas along; that is its affair, but we add nothing to it.
        ours = loaded_after("from m3c_md import M3C; M3C(2)") - loaded_after("import deeptime.base")
        assert not ours & (HEAVY | {"mdtraj"})

    def test_every_promised_name_exists(self) -> None:
        assert set(m3c_md.__all__) <= set(dir(m3c_md))
        assert all(getattr(m3c_md, name).__name__ == name for name in m3c_md.__all__)

    def test_an_unknown_name_is_an_attribute_error(self) -> None:
        with pytest.raises(AttributeError, match="nonsense"):
            _ = m3c_md.nonsense

    def test_the_data_load_nothing_before_they_are_read(self) -> None:
        statement = "import m3c_md.data, m3c_md.data.simulate"
        assert not loaded_after(statement) & (HEAVY | {"deeptime", "sklearn", "scipy", "mdtraj", "joblib"})


class TestProject:
    def test_version_is_that_of_the_package(self) -> None:
        assert tomllib.loads(PROJECT.read_text())["tool"]["setuptools"]["dynamic"]["version"] == {
            "attr": "m3c_md.__version__"
        }
        assert f"version: {m3c_md.__version__}\n" in (PROJECT.parent / "CITATION.cff").read_text()

    def test_every_folder_of_code_is_installed(self) -> None:
        folders = {path.parent for path in MODULES if path.name == "__init__.py"}
        names = {".".join(folder.relative_to(PACKAGE.parent).parts) for folder in folders}
        setuptools = tomllib.loads(PROJECT.read_text())["tool"]["setuptools"]
        assert sorted(setuptools["packages"]) == sorted([*names, "m3c_md.data.files"])
        # No module lies in a folder that is not a package.
        assert {path.parent for path in MODULES} == folders
        assert setuptools["package-dir"] == {"m3c_md.data.files": "data"}

    def test_every_file_of_data_is_installed(self) -> None:
        patterns = tomllib.loads(PROJECT.read_text())["tool"]["setuptools"]["package-data"]
        files = {path for path in DATA.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        matched = {pattern: set(DATA.glob(pattern)) for pattern in patterns["m3c_md.data.files"]}
        assert [pattern for pattern, found in matched.items() if not found] == []
        missed = files - set().union(*matched.values())
        assert sorted(path.name for path in missed) == []
        assert not list(DATA.rglob("*.py")), "code lives in the package"
        shipped = m3c_md.data.SHIPPED
        assert {shipped / path.relative_to(DATA) for path in files} <= set(shipped.rglob("*"))
        assert (PACKAGE / "py.typed").exists()
        assert "py.typed" in patterns["m3c_md"]

    def test_every_file_of_the_report_is_installed(self) -> None:
        patterns = tomllib.loads(PROJECT.read_text())["tool"]["setuptools"]["package-data"]
        files = {path.name for path in (PACKAGE / "report").iterdir() if path.is_file() and path.suffix != ".py"}
        assert files == set(patterns["m3c_md.report"])
        assert "Redistribution and use in source and binary forms" in (
            PACKAGE / "report" / "3Dmol-LICENSE.txt"
        ).read_text(encoding="utf-8")


def picture() -> str:
    """Rooms and who imports whom, as the page draws them; an arrow that follows from others is left out."""
    arrows: dict[str, set[str]] = {}
    for path in MODULES:
        room = room_of(path)
        if room in FRONT_DOORS - {"cli"}:
            continue
        names = imported(list(ast.walk(ast.parse(path.read_text()))))
        rooms = {name.split(".")[1] for name in names if name.startswith("m3c_md.") and name.count(".") > 1}
        later = {"plots"} if name_of(path) in DRAW_THEMSELVES else set()
        arrows.setdefault(room, set()).update(rooms - {room} - later)
    folders = {room for room in arrows if (PACKAGE / room).is_dir()}

    def reached(room: str) -> set[str]:
        return arrows[room] | {further for other in arrows[room] for further in reached(other)}

    lines = [
        f"    {other} --> {room}"
        for room in sorted(folders)
        for other in sorted(arrows[room] & folders)
        if not any(other in reached(between) for between in arrows[room] if between != other)
    ]
    return "\n".join(["```mermaid", "flowchart LR", *lines, "```"])


def test_the_picture_on_the_page_is_drawn_from_the_code() -> None:
    page = PROJECT.parent / "docs" / "architecture.md"
    assert picture() in page.read_text(encoding="utf-8"), f"put this into docs/architecture.md:\n{picture()}"


MOST_LINES_OF_A_MODULE = 400
# Without the docstring: a public function has every parameter explained, and an example.
MOST_LINES_OF_A_FUNCTION = 60
USUAL_LINES_OF_A_FUNCTION = 25


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function that are not its docstring."""
    assert function.end_lineno is not None
    first = function.body[0]
    documented = ast.get_docstring(function) is not None
    described = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return function.end_lineno - function.lineno + 1 - described


class TestSizes:
    def test_no_module_is_long(self) -> None:
        lengths = {name_of(path): len(path.read_text().splitlines()) for path in MODULES}
        assert {name: n for name, n in lengths.items() if n > MOST_LINES_OF_A_MODULE} == {}

    def test_no_function_is_long_and_most_are_short(self) -> None:
        lengths = {
            f"{name_of(path)}: {node.name}, line {node.lineno}": code_lines(node)
            for path in MODULES
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert {name: n for name, n in lengths.items() if n > MOST_LINES_OF_A_FUNCTION} == {}
        assert sorted(lengths.values())[int(0.9 * len(lengths))] <= USUAL_LINES_OF_A_FUNCTION


def own_imports() -> dict[str, set[str]]:
    """Modules of the package that each of them imports, at once or inside a function, but not for types alone."""
    names = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in MODULES}
    modules = {name.removesuffix(".__init__"): path for name, path in names.items()}
    found = {}
    for module, path in modules.items():
        tree = ast.parse(path.read_text())
        for_types = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            for statement in node.body
            for inner in ast.walk(statement)
        }
        brought = imported([node for node in ast.walk(tree) if id(node) not in for_types])
        # A name may be a module, or something that a module holds.
        found[module] = {name if name in modules else name.rpartition(".")[0] for name in brought} & set(modules)
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not even inside functions: whoever needs the other belongs with it, or below it."""
    # The front door opens every room by name, and rooms ask it for the version only.
    imports = {module: names - {"m3c_md", module} for module, names in own_imports().items()}
    while leaves := [module for module, names in imports.items() if not names]:
        for leaf in leaves:
            del imports[leaf]
        imports = {module: names - set(leaves) for module, names in imports.items()}
    assert imports == {}
