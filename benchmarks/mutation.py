"""Mutation testing of optimize/ and search/: change the code in one place, and see whether a test notices.

    python -m pip install -e ".[test]" cosmic-ray coverage
    python benchmarks/mutation.py --fraction 0.25      # a random quarter of the mutants of every module
    python benchmarks/mutation.py --survivors          # only those that survived so far, after tests were added
    python benchmarks/mutation.py --report             # tables of what has been found

Mutants are made by the operators of cosmic-ray, without those of its replacements that every test notices (`*` by `<<`
raises a TypeError): numbers ± 1, + by -, * by /, comparisons by their boundary and their opposite, `and` by `or`, True
by False, negated conditions, loops that are not entered, break by continue, deleted signs, other exceptions, deleted
decorators. Annotations are left alone, they are never evaluated.

A mutant meets the tests that run its statement (as coverage says), those of the module's own test file first, then the
cheap ones, `--seconds` of them in all; the first failure kills it, as does running ten times as long as it should. The
repository is copied to a temporary folder, and nothing else is changed. Every mutant gets a process of its own, forked
after the libraries (not m3c_md) have been loaded. Loops for numba are run as plain Python, where coverage can see them.
Everything is recorded in benchmarks/results/mutation.json, and a run that was stopped goes on from there; records of
modules that have changed since are forgotten. Survivors that no test could kill are listed, with reasons, in
benchmarks/results/mutation_equivalent.json.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse
import ast
import contextlib
import hashlib
import importlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from functools import lru_cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "benchmarks" / "results" / "mutation.json"
EQUIVALENT = ROOT / "benchmarks" / "results" / "mutation_equivalent.json"
ROOMS = ("m3c_md/optimize", "m3c_md/search")
TESTS = ("tests/optimize", "tests/search", "tests/clustering", "tests/trust/test_solver_failures.py")
# Those that are run with loops as plain Python.
PLAIN_TESTS = ("tests/optimize", "tests/search/test_lumping.py")
COMPILED = "m3c_md/optimize/compiled_loops.py"
# Modules whose tests have another name than theirs.
OWN_TESTS = {
    "blocks": ("test_kernels", "test_large_margin"),
    "compiled_loops": ("test_kernels",),
    "streaming": ("test_streaming", "test_polish"),
    "journal": ("test_checkpoint",),
    "large_margin": ("test_large_margin", "test_line_search"),
}
RECORD_TESTS = "tests/search/test_records.py"
BINARY = {
    **{"Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "FloorDiv": "Mul", "Mod": "FloorDiv", "Pow": "Mul"},
    **{"BitAnd": "BitOr", "BitOr": "BitAnd", "BitXor": "BitAnd", "LShift": "RShift", "RShift": "LShift"},
}
COMPARISONS = {
    **{"Eq": ("NotEq",), "NotEq": ("Eq",), "Is": ("IsNot",), "IsNot": ("Is",)},
    **{"Lt": ("LtE", "GtE"), "LtE": ("Lt", "Gt"), "Gt": ("GtE", "LtE"), "GtE": ("Gt", "Lt")},
}
OPERATORS = (
    *(f"core/ReplaceBinaryOperator_{old}_{new}" for old, new in BINARY.items()),
    *(f"core/ReplaceComparisonOperator_{old}_{new}" for old, news in COMPARISONS.items() for new in news),
    *(f"core/ReplaceUnaryOperator_Delete_{old}" for old in ("Not", "USub", "Invert")),
    *("core/NumberReplacer", "core/ReplaceAndWithOr", "core/ReplaceOrWithAnd", "core/AddNot"),
    *("core/ReplaceTrueWithFalse", "core/ReplaceFalseWithTrue", "core/ReplaceBreakWithContinue"),
    *("core/ReplaceContinueWithBreak", "core/ZeroIterationForLoop", "core/ExceptionReplacer", "core/RemoveDecorator"),
)
LIBRARIES = (
    *("ortools.graph.python.min_cost_flow", "pytest", "hypothesis", "numba", "pandas", "scipy.stats", "joblib"),
    *("sklearn.cluster", "scipy.sparse.csgraph", "deeptime.markov.msm", "mdtraj", "matplotlib", "dask.array"),
    *("distributed", "numpy.testing"),
)
# Hypothesis is loaded before pytest, which says so; and doctests come with other folders.
_PLUGINS = ("-p", "no:cacheprovider", "-p", "no:doctest", "-W", "ignore::pytest.PytestAssertRewriteWarning")
PYTEST = ("-x", "-q", *_PLUGINS, "-o", "addopts=--strict-markers")


# --- mutants ---------------------------------------------------------------------------------------------------------


def modules() -> list[str]:
    paths = [path for room in ROOMS for path in sorted((ROOT / room).glob("*.py")) if path.name != "__init__.py"]
    return [path.relative_to(ROOT).as_posix() for path in paths]


def annotation_spans(tree: ast.Module) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where annotations begin and end; those of a dataclass too, which keeps them as text."""
    found: list[ast.expr | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            found.append(node.annotation)
    return [((a.lineno, a.col_offset), (a.end_lineno or 0, a.end_col_offset or 0)) for a in found if a is not None]


def chunks(source: str) -> list[tuple[int, int]]:
    """First and last line of every statement of a module; cosmic-ray parses anew for each mutant, so less at a time."""
    found = []
    for node in ast.parse(source).body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        found.append((first, node.end_lineno or first))
    return found


def mutants_of(path: str) -> list[dict[str, Any]]:
    """All mutants of a module: where, by which operator, and the changed line before and after."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator

    source = (ROOT / path).read_text()
    lines = source.splitlines()
    spans = annotation_spans(ast.parse(source))
    found = []
    for first, last in chunks(source):
        nodes = list(ast_nodes(get_ast("\n".join(lines[first - 1 : last]) + "\n")))
        for name in OPERATORS:
            if path == COMPILED and name == "core/RemoveDecorator":
                continue  # njit, which is switched off here
            operator = get_operator(name)()
            positions = [span for node in nodes for span in operator.mutation_positions(node)]
            for occurrence, ((line, column), _) in enumerate(positions):
                place = (first + line - 1, len(lines[first + line - 2][:column].encode()))  # in bytes, as `ast` has it
                if any(begin <= place < end for begin, end in spans):
                    continue
                changed = mutated_chunk(lines[first - 1 : last], name, occurrence)
                if changed is None:
                    continue
                old, after = lines[first - 1 : last], changed.splitlines()
                row = next((i for i, (a, b) in enumerate(zip(old, after, strict=False)) if a != b), line - 1)
                texts = {"before": old[row].strip(), "after": after[row].strip()}
                where = {"path": path, "chunk": [first, last], "operator": name, "occurrence": occurrence}
                found.append({**where, "line": first + row, **texts})
    return found


def mutated_chunk(lines: list[str], name: str, occurrence: int) -> str | None:
    """Changed lines, or None where cosmic-ray changes nothing or makes what is not Python."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = "\n".join(lines) + "\n"
    try:
        changed: str | None = mutate_code(source, get_operator(name)(), occurrence)
        if changed is None or changed == source:
            return None
        compile(changed, "mutant", "exec")
    except (SyntaxError, ValueError, AttributeError):  # the last for exceptions with a dotted name
        return None
    return changed


def mutated_source(mutant: dict[str, Any]) -> str:
    lines = (ROOT / mutant["path"]).read_text().splitlines()
    first, last = mutant["chunk"]
    changed = mutated_chunk(lines[first - 1 : last], mutant["operator"], mutant["occurrence"])
    return "\n".join([*lines[: first - 1], changed or "", *lines[last:]]) + "\n"


def key(mutant: dict[str, Any]) -> str:
    return f"{mutant['path']}:{mutant['chunk'][0]}:{mutant['operator']}:{mutant['occurrence']}"


def sample(mutants: list[dict[str, Any]], fraction: float, seed: int) -> list[dict[str, Any]]:
    """The same share of every module, at random; a larger share contains a smaller one."""
    shuffled = sorted(mutants, key=key)
    random.Random(seed).shuffle(shuffled)
    return shuffled[: -int(-fraction * len(shuffled) // 1)]


# --- which tests run which statement ---------------------------------------------------------------------------------


class Seconds:
    """Pytest plugin: what every test takes with its fixtures, and (with coverage) what it runs."""

    def __init__(self, coverage: Any = None) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.coverage = coverage

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """What runs from now on belongs to this test."""
        if self.coverage is not None:
            self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add up setup, call and teardown."""
        self.seconds[report.nodeid] += report.duration


def write_map(target: Path, tests: list[str]) -> None:
    """Run tests under coverage (in the current folder) and write {tests: seconds, lines: {path: {line: tests}}}."""
    import coverage
    import pytest

    calm_hypothesis()
    watch = coverage.Coverage(data_file=None, include=[f"{room}/*" for room in ROOMS])
    watch.start()
    plugin = Seconds(watch)
    status = pytest.main([*PYTEST, *tests], plugins=[plugin])
    watch.stop()
    if status != 0:
        raise SystemExit("a test fails without any mutation")
    data = watch.get_data()
    lines = {
        Path(file).resolve().relative_to(Path.cwd()).as_posix(): {
            str(line): sorted(set(names)) for line, names in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    target.write_text(json.dumps({"seconds": plugin.seconds, "lines": lines}))


def calm_hypothesis() -> None:
    """The same examples every time, and no deadlines: a busy machine kills no mutant."""
    import hypothesis

    hypothesis.settings.register_profile("mutation", derandomize=True, database=None, deadline=None)
    hypothesis.settings.load_profile("mutation")


def statement_lines(source: str, line: int) -> tuple[set[int], bool]:
    """Lines of the innermost statement at a line, the whole body for a def or class; whether it runs at import."""
    best: ast.stmt | None = None
    inside = False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            if first <= line <= (node.end_lineno or line):
                best = node if best is None or node.lineno >= best.lineno else best
                inside |= isinstance(node, ast.FunctionDef) and node.body[0].lineno <= line
    if best is None:
        return {line}, True
    compound = isinstance(best, ast.If | ast.For | ast.While | ast.With | ast.Try)
    last = best.body[0].lineno - 1 if compound else best.end_lineno  # type: ignore[attr-defined]
    return set(range(best.lineno, max(last or line, line) + 1)), not inside and not isinstance(best, ast.FunctionDef)


def own_tests(path: str) -> tuple[str, ...]:
    module = Path(path).stem
    return OWN_TESTS.get(module, (f"test_{module}",))


def tests_for(mutant: dict[str, Any], covered: dict[str, Any], budget: float, among: list[str] | None) -> list[str]:
    """Tests that run the statement: the module's own first, then cheap ones, as many as the budget allows."""
    lines = covered["lines"].get(mutant["path"], {})
    wanted, at_import = statement_lines((ROOT / mutant["path"]).read_text(), mutant["line"])
    names = {name for line, found in lines.items() if at_import or int(line) in wanted for name in found if name}
    own = own_tests(mutant["path"])
    if at_import:  # classes and constants are looked at by tests that run nothing of the module
        files = {name: name.split("::")[0] for name in covered["seconds"]}
        names |= {name for name, file in files.items() if file == RECORD_TESTS or Path(file).stem in own}
    if among:
        names = {name for name in names if name.split("::")[0] in among}
    seconds = covered["seconds"]
    ranked = sorted(names, key=lambda name: (Path(name.split("::")[0]).stem not in own, seconds.get(name, 0.0), name))
    chosen, spent = [], 0.0
    for name in ranked:
        if spent + seconds.get(name, 0.0) <= budget or not chosen:
            chosen.append(name)
            spent += seconds.get(name, 0.0)
    return chosen


# --- running ---------------------------------------------------------------------------------------------------------


class Chosen:
    """Pytest plugin: run these tests only, in this order."""

    def __init__(self, names: list[str]) -> None:
        self.rank = {name: i for i, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Choose and sort."""
        items[:] = sorted((i for i in items if i.nodeid in self.rank), key=lambda item: self.rank[item.nodeid])


def copy_repository(target: Path) -> None:
    """What the tests need, with the data where an installed package has them."""
    for name in ("m3c_md", "tests", "data"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, target / name)
    (target / "m3c_md" / "data").symlink_to("../data")


def load_libraries() -> None:
    """Everything that a fork should not have to load, but cvxpy, which is loaded with care (see `_cvxpy`)."""
    for name in LIBRARIES:
        importlib.import_module(name)


def run_tests(names: list[str], limit: float) -> str:
    """Run tests in a fork, with the copy as current folder: "killed", "survived" or "timeout" (of processor time)."""
    child = os.fork()
    if child == 0:
        status = 3
        try:
            os.setpgid(0, 0)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            silence = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silence, stream)
            import resource

            import pytest

            resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))  # a mutant must not take all memory
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
            calm_hypothesis()
            files = sorted({name.split("::")[0] for name in names})
            status = int(pytest.main([*PYTEST, *files], plugins=[Chosen(names)]))
        finally:
            os._exit(status)
    ended = time.monotonic() + 20.0 * limit  # for those that wait; a busy machine must not kill
    try:
        while time.monotonic() < ended:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                slow = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
                return "timeout" if slow else "survived" if status == 0 else "killed"
            time.sleep(0.02)
        return "timeout"
    finally:  # it, if this is a stop, and workers that it left behind
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


def run_mutant(mutant: dict[str, Any], covered: dict[str, Any], copy: Path, names: list[str]) -> dict[str, Any]:
    record = {**mutant, "tests": len(names)}
    if not names:
        return {**record, "status": "not run", "seconds": 0.0}
    file = copy / mutant["path"]
    file.write_text(mutated_source(mutant))
    began = time.monotonic()
    # The module's own tests by themselves: collecting all those others takes longer than most mutants live.
    own = own_tests(mutant["path"])
    stages = [[n for n in names if (Path(n.split("::")[0]).stem in own) == first] for first in (True, False)]
    status = "survived"
    try:
        for stage in stages:
            if stage and status == "survived":
                status = run_tests(stage, 20.0 + 10.0 * sum(covered["seconds"].get(name, 0.0) for name in stage))
    finally:
        file.write_text((ROOT / mutant["path"]).read_text())
    return {**record, "status": status, "seconds": round(time.monotonic() - began, 1)}


def digest(path: str) -> str:
    return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()[:16]


def load_records(file: Path) -> dict[str, Any]:
    """Records of modules that are still what they were."""
    if not file.exists():
        return {"sources": {}, "sizes": {}, "mutants": {}}
    stored: dict[str, Any] = json.loads(file.read_text())
    fresh = {path for path, was in stored["sources"].items() if (ROOT / path).exists() and was == digest(path)}
    mutants = {name: row for name, row in stored["mutants"].items() if row["path"] in fresh}
    sizes = {path: size for path, size in stored["sizes"].items() if path in fresh}
    return {"sources": {path: digest(path) for path in sorted(fresh)}, "sizes": sizes, "mutants": mutants}


def save_records(records: dict[str, Any], file: Path) -> None:
    part = file.with_suffix(".part")
    part.write_text(json.dumps(records, indent=0, sort_keys=True, ensure_ascii=False) + "\n")
    part.replace(file)


def prepare(copy: Path, wanted: set[str]) -> dict[str, dict[str, Any]]:
    """Copy the repository, and run the tests once as they are; what is wanted of {"compiled": map, "plain": map}.

    In a copy that was kept, only test files that have changed since are run.
    """
    if not (copy / "tests").exists():
        copy_repository(copy)
    for path in modules():  # a run that was stopped leaves a mutant behind
        if (copy / path).read_text() != (ROOT / path).read_text():
            shutil.copy(ROOT / path, copy / path)
    shutil.copytree(ROOT / "tests", copy / "tests", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    maps = {}
    for name, rooms, off in (("compiled", TESTS, "0"), ("plain", PLAIN_TESTS, "1")):
        if name in wanted:
            files = {p.relative_to(ROOT).as_posix() for room in rooms for p in files_in(room)}
            maps[name] = up_to_date_map(copy / f"{name}.json", {file: digest(file) for file in files}, off)
    return maps


def files_in(place: str) -> list[Path]:
    return [ROOT / place] if place.endswith(".py") else sorted((ROOT / place).glob("test_*.py"))


def up_to_date_map(target: Path, files: dict[str, str], jit_off: str) -> dict[str, Any]:
    """Map of some test files (with digests), of which those that have changed are run."""
    known = json.loads(target.read_text()) if target.exists() else {"files": {}, "seconds": {}, "lines": {}}
    stale = sorted(file for file, now in files.items() if known["files"].get(file) != now)

    def current(name: str) -> bool:
        file = name.split("::")[0]
        return file in files and file not in stale

    known["files"] = files
    known["seconds"] = {name: value for name, value in known["seconds"].items() if current(name)}
    for lines in known["lines"].values():
        for line, names in lines.items():
            lines[line] = [name for name in names if current(name)]
    if stale:
        part = target.with_suffix(".part")
        command = [sys.executable, __file__, "--map", str(part), *stale]
        environment = {**os.environ, "NUMBA_DISABLE_JIT": jit_off, "PYTHONPATH": str(target.parent)}
        subprocess.run(command, cwd=target.parent, env=environment, check=True)
        found = json.loads(part.read_text())
        known["seconds"] |= found["seconds"]
        for path, lines in found["lines"].items():
            together = known["lines"].setdefault(path, {})
            for line, names in lines.items():
                together[line] = sorted({*together.get(line, []), *names})
    target.write_text(json.dumps(known))
    return known


def wanted(path: str, only: list[str] | None) -> bool:
    return not only or Path(path).stem in only


def run(options: argparse.Namespace) -> None:
    from tqdm import tqdm

    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    records = load_records(options.records)
    if options.survivors:
        rows = [row for row in records["mutants"].values() if row["status"] in ("survived", "not run")]
        todo = [row for row in rows if not judged_equivalent(row) and wanted(row["path"], options.only)]
    else:
        todo = []
        for path in modules():
            if wanted(path, options.only):
                mutants = mutants_of(path)
                records["sources"][path], records["sizes"][path] = digest(path), len(mutants)
                chosen = sample(mutants, options.fraction, options.seed)
                todo += [mutant for mutant in chosen if key(mutant) not in records["mutants"]]
    random.Random(options.seed).shuffle(todo)
    # Those of the compiled loops last: numba is switched off for them, once and for all.
    todo.sort(key=lambda mutant: mutant["path"] == COMPILED)
    with contextlib.ExitStack() as stack:
        options.records = options.records.resolve()
        folder = options.copy or stack.enter_context(tempfile.TemporaryDirectory())
        copy = Path(folder).resolve()
        copy.mkdir(parents=True, exist_ok=True)
        maps = prepare(copy, {"plain" if m["path"] == COMPILED else "compiled" for m in todo})
        os.chdir(copy)
        sys.path.insert(0, str(copy))
        os.environ["PYTHONPATH"] = str(copy)  # for processes that tests start
        load_libraries()
        import numba

        tqdm.monitor_interval = 0  # no thread beside those that are forked
        for mutant in tqdm(todo, unit="mutant", disable=None if not options.progress else False):
            plain = mutant["path"] == COMPILED
            os.environ["NUMBA_DISABLE_JIT"] = str(int(plain))
            numba.config.DISABLE_JIT = int(plain)
            covered = maps["plain" if plain else "compiled"]
            names = tests_for(mutant, covered, options.seconds, options.tests)
            if options.tests and not names:
                continue
            records["mutants"][key(mutant)] = run_mutant(mutant, covered, copy, names)
            save_records(records, options.records)
    save_records(records, options.records)
    report(records)


# --- report ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def judgements() -> dict[tuple[str, str, str], str]:
    """Reasons why a mutant cannot be told from the original, by module, line before and line after."""
    if not EQUIVALENT.exists():
        return {}
    rows = json.loads(EQUIVALENT.read_text())
    return {(row["path"], row["before"], row["after"]): row["reason"] for row in rows}


def judged_equivalent(mutant: dict[str, Any]) -> str | None:
    return judgements().get((mutant["path"], mutant["before"], mutant["after"]))


def wilson(killed: int, total: int) -> tuple[float, float]:
    """95 % confidence interval of a share."""
    z = 1.96
    centre = (killed + z * z / 2) / (total + z * z)
    half = z / (total + z * z) * (killed * (total - killed) / total + z * z / 4) ** 0.5
    return centre - half, centre + half


def report(records: dict[str, Any], list_survivors: bool = False) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    for row in records["mutants"].values():
        status = {"timeout": "killed", "not run": "survived"}.get(row["status"], row["status"])
        reason = judged_equivalent(row) if status == "survived" else None
        counts[row["path"]]["equivalent" if reason else status] += 1
        if reason:
            reasons[reason] += 1
    total = sum(counts.values(), Counter())
    print(f"{'module':42} mutants  run  killed  survived  equivalent  score  without equivalent")
    for path in [*sorted(counts), "all"]:
        row = counts[path] if path != "all" else total
        size = sum(records["sizes"].values()) if path == "all" else records["sizes"][path]
        number, killed = sum(row.values()), row["killed"]
        adjusted = f"{killed / max(1, number - row['equivalent']):.1%}"
        print(
            f"{path:42} {size:7} {number:4} {killed:7} {row['survived']:9} {row['equivalent']:11} "
            f"{killed / number:6.1%} {adjusted:>8}"
        )
    number, killed = sum(total.values()), total["killed"]
    for name, among in (("score", number), ("without equivalent", number - total["equivalent"])):
        low, high = wilson(killed, among)
        print(f"{name}: {killed} of {among}, {killed / among:.1%} (95 %: {low:.1%} to {high:.1%})")
    for reason, count in reasons.most_common():
        print(f"{count:5}  {reason}")
    if list_survivors:
        for row in sorted(records["mutants"].values(), key=lambda row: (row["path"], row["line"])):
            if row["status"] in ("survived", "not run") and not judged_equivalent(row):
                print(f"\n{row['path']}:{row['line']} {row['operator'][5:]} ({row['status']}, {row['tests']} tests)")
                print(f"  - {row['before']}\n  + {row['after']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fraction", type=float, default=1.0, help="share of the mutants of every module")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of mutants")
    parser.add_argument("--seconds", type=float, default=8.0, help="of tests that a mutant has to survive")
    parser.add_argument("--only", nargs="*", help="names of modules")
    parser.add_argument("--survivors", action="store_true", help="run again what survived")
    parser.add_argument("--report", action="store_true", help="tables and the list of survivors, nothing is run")
    parser.add_argument("--tests", nargs="*", help="test files, if not all: new ones for --survivors")
    parser.add_argument("--copy", help="folder for the copy of the repository, kept for the next run")
    parser.add_argument("--records", type=Path, default=RECORDS, help="file of the records")
    parser.add_argument("--progress", action="store_true", help="a progress bar even where there is no terminal")
    parser.add_argument("--map", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.map:
        sys.path.insert(0, os.getcwd())
        write_map(Path(options.map[0]), options.map[1:])
    elif options.report:
        report(load_records(options.records), list_survivors=True)
    else:
        run(options)


if __name__ == "__main__":
    main()
