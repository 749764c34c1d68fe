"""Table of what functions, files and commands do not take: validation, comparison, features, systems, data, files.

Each row is a call, the exact type of its error, and a pattern of the message, which names the value and the remedy.
"""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import mdtraj as md
import numpy as np
import pandas as pd
import pytest
from deeptime.clustering import KMeans
from deeptime.markov.msm import MaximumLikelihoodMSM
from sklearn.exceptions import NotFittedError

from m3c_md import M3C, DihedralFeaturizer, compare, load_model, scan_states
from m3c_md.cli import main
from m3c_md.data import alanine_dipeptide, read_run
from m3c_md.exceptions import DegenerateSolutionError, InputError, ModelFileError, TrajectoryError
from m3c_md.systems import MODEL_I, agreement, classification_error, exact_reference, labelled_sequence, simulate
from m3c_md.validation import (
    chapman_kolmogorov,
    implied_timescales,
    metastability,
    transition_counts,
    transition_matrix,
)
from tests.conftest import hidden_markov_wells, quick
from tests.features import random_trajectory, topology_of
from tests.trust import refused

X, STATES = hidden_markov_wells(300, 3, seed=1)
PEPTIDE = topology_of(["ACE", "ALA", "ALA", "NME"])
WHOLE = r"must be a whole number of at least"
SEED = r"must be None, a whole number of at least 0 or a numpy\.random\.Generator"
HUGE = 10**30

# mdtraj's parsers leave files open when they fail.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Call = Callable[[Any], Any]
Row = tuple[str, Call, type[BaseException], str]


def huge_header() -> bytes:
    """An array file that promises eight terabytes."""
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """What the calls need: a model, microstates, and a folder with good and bad files in it."""
    folder = tmp_path_factory.mktemp("files")
    peptide = random_trajectory(PEPTIDE, 30)
    for name in ("good.xtc", "good.dcd", "good.pdb"):
        peptide.save(str(folder / name))
    peptide[0].save(str(folder / "top.pdb"))
    whole = (folder / "good.xtc").read_bytes()
    bad = np.random.default_rng(0).bytes(500)
    for name, data in {
        **{f"garbage{ending}": bad for ending in (".xtc", ".trr", ".dcd", ".nc", ".pdb", ".gro", ".m3c", ".npy")},
        **{f"empty{ending}": b"" for ending in (".xtc", ".dcd", ".pdb", ".m3c", ".npy")},
        **{"half.xtc": whole[:-50], "zip.npy": b"PK\x03\x04" + bad, "huge.npy": huge_header(), "text.foo": b"text"},
    }.items():
        (folder / name).write_bytes(data)
    for name, array in {
        "x0": hidden_markov_wells(200, 2, 0).frames,
        "x1": hidden_markov_wells(200, 2, 1).frames,
        "wide": np.zeros((9, 3)),
        "axes": np.zeros((3, 3, 3)),
        "nan": np.full((9, 2), np.nan),
        "none": np.zeros((0, 2)),
        "number": np.float64(3.0),
        "complex": np.zeros((5, 2), dtype=complex),
        "text": np.array(["a", "b"]),
    }.items():
        np.save(folder / f"{name}.npy", array)
    np.save(folder / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    (folder / "folder.xtc").mkdir()
    (folder / "folder.npy").mkdir()
    model = quick(3).fit_fetch(X)
    cells = KMeans(8, fixed_seed=1, n_jobs=1).fit_fetch(X)
    micro = cells.transform(X)
    msm = MaximumLikelihoodMSM(lagtime=1).fit_fetch(micro)
    yield SimpleNamespace(folder=folder, peptide=peptide, model=model, cells=cells, micro=micro, msm=msm)
    gc.collect()  # closes these files here, not in some other test


def rows(function: Call, values: tuple[Any, ...], kind: type[BaseException], message: str) -> list[Row]:
    """One row for each value, which stands for VALUE in the message."""

    def call(value: Any) -> Call:
        return lambda at: function(at)(value)

    name = getattr(function, "label", "")
    return [
        (f"{name} {value!r:.30}", call(value), kind, message.replace("VALUE", re.escape(repr(value))))
        for value in values
    ]


def on(label: str, function: Call) -> Call:
    function.label = label  # type: ignore[attr-defined]
    return function


OF_LABELS = {
    "metastability": metastability,
    "transition_counts": transition_counts,
    "transition_matrix": transition_matrix,
    "implied_timescales": lambda d, lagtime=1, **k: implied_timescales(d, lagtime, confidence=None, **k),
    "chapman_kolmogorov": lambda d, lagtime=1, **k: chapman_kolmogorov(d, lagtime, confidence=None, **k),
}
# name -> (labels, what the message says)
BAD_LABELS: dict[str, tuple[Any, str]] = {
    "None": (None, r"dtrajs is None; give an array of states"),
    "text": ("0110", r"dtrajs is '0110'; give an array of states"),
    "bytes": (b"0110", r"dtrajs is b'0110'; give an array of states"),
    "empty list": ([], r"dtrajs is an empty list; give at least one"),
    "no frames": ([[0, 1], []], r"trajectory 1 has no frames; leave it out"),
    "-1": ([[0, 1], [1, 0, -1]], r"trajectory 1 holds -1 at frame 2, but states are numbered from 0; split"),
    "fractions": ([0.0, 0.5, 1.0], r"dtrajs holds 0\.5 at frame 1, which is no state; give the whole numbers"),
    "nan": ([0.0, np.nan, 1.0], r"dtrajs holds nan at frame 1, which is no state; .*split"),
    "floats": (np.array([0.0, 1.0]), r"dtrajs has dtype float64, .*convert it with \.astype\(int\)"),
    "truth": ([True, False], r"dtrajs has dtype bool; .*\.astype\(int\)"),
    "objects": (np.array([0, None], dtype=object), r"dtrajs has dtype object.*convert"),
    "two axes": (np.zeros((3, 4), dtype=int), r"dtrajs has shape \(3, 4\).*list of arrays"),
    "frame numbers": (
        [0, 1, 10**9],
        r"dtrajs holds state 1000000000 at frame 2; number the states from 0 without gaps",
    ),
    "beyond all types": (np.array([0, 2**64 - 1], dtype=np.uint64), r"holds state 18446744073709551615 at frame 1"),
    "masked": (np.ma.masked_equal([0, 1, 9], 9), r"dtrajs is a masked array.*split"),
    "one frame": ([0], r"(lagtime=1 needs|lag time 1 cannot be used).*(longest has 1|has 1 frames)"),
    "all too short": ([[0], [1]], r"(lagtime=1 needs|lag time 1 cannot be used).*(longest has 1|has 1 frames)"),
}
D = [STATES[:150].astype(int), STATES[150:].astype(int)]
VALIDATION: list[Row] = [
    *[
        row
        for name, function in OF_LABELS.items()
        for row in [
            *rows(
                on(f"{name} lag", lambda at, f=function: lambda v: f(D, v)),
                (0, -5, 1.5, None if name in ("metastability", "chapman_kolmogorov") else True, np.nan),
                InputError,
                r"lag ?time=VALUE must be a whole number of frames of at least 1",
            ),
            *rows(
                on(f"{name} lag", lambda at, f=function: lambda v: f(D, v)),
                (150, HUGE),
                InputError,
                r"VALUE.* (needs traj|cannot be used).*the longest (trajectory )?has 150.*(shorter|at most 149)",
            ),
            *rows(
                on(f"{name} n_states", lambda at, f=function: lambda v: f(D, 1, n_states=v)),
                (0, -1, 2.0, "3", True),
                InputError,
                rf"n_states=VALUE {WHOLE} 1",
            ),
            *rows(
                on(f"{name} n_states", lambda at, f=function: lambda v: f(D, 1, n_states=v)),
                (2,),
                InputError,
                r"trajectory 0 holds state 2 at frame \d+, but n_states=2 allows 0 to 1 only; raise n_states",
            ),
            *rows(
                on(f"{name} n_states", lambda at, f=function: lambda v: f(D, 1, n_states=v)),
                (10**6, HUGE),
                InputError,
                r"n_states=1e\+\d+ in \d trajectories take .* GB of transition counts; give macrostates",
            ),
        ]
    ],
    *rows(
        on("timescales lagtimes", lambda at: lambda v: implied_timescales(D, v)),
        ("12", b"x", {1: 2}),
        InputError,
        r"lagtimes=VALUE must be a number or several, e\.g\. \[1, 2, 5\]",
    ),
    ("timescales lagtimes []", lambda at: implied_timescales(D, []), InputError, r"lagtimes is empty; give at least one"),
    *rows(
        on("timescales n_timescales", lambda at: lambda v: implied_timescales(D, 1, n_timescales=v)),
        (0, 1.5, "2"),
        InputError,
        rf"n_timescales=VALUE {WHOLE} 1",
    ),
    *rows(
        on("timescales confidence", lambda at: lambda v: implied_timescales(D, 1, confidence=v)),
        ("bayes", 0.95, True),
        InputError,
        r"confidence=VALUE is not known; choose one of 'auto', 'bootstrap', 'bayesian'",
    ),
    (
        "timescales bootstrap of two",
        lambda at: implied_timescales(D, 1, confidence="bootstrap"),
        InputError,
        r"needs at least 5 of more than 1 frames .*, but there are 2; use confidence='bayesian'",
    ),
    *[
        row
        for name, f in (("timescales", implied_timescales), ("chapman", chapman_kolmogorov))
        for row in [
            *rows(on(f"{name} n_samples", lambda at, f=f: lambda v: f(D, 1, n_samples=v)), (1, 0, 1.5, None), InputError, rf"n_samples=VALUE {WHOLE} 2"),
            *rows(on(f"{name} n_samples", lambda at, f=f: lambda v: f(D, 1, n_samples=v)), (HUGE,), InputError, r"n_samples=VALUE must not be larger than 100000"),
            *rows(on(f"{name} dt", lambda at, f=f: lambda v: f(D, 1, dt=v)), (0, -1, np.nan, np.inf, "2", None), InputError, r"dt=VALUE must be a positive finite number"),
            *rows(on(f"{name} unit", lambda at, f=f: lambda v: f(D, 1, unit=v)), ("", None, 5), InputError, r"unit=VALUE must be a non-empty string"),
            *rows(on(f"{name} seed", lambda at, f=f: lambda v: f(D, 1, random_state=v)), (-1, "a", True, []), InputError, rf"random_state=VALUE {SEED}"),
        ]
    ],
    *rows(on("chapman n_steps", lambda at: lambda v: chapman_kolmogorov(D, 1, v)), (0, -1, 2.5, None), InputError, rf"n_steps=VALUE {WHOLE} 1"),
    *rows(on("timescales progress", lambda at: lambda v: implied_timescales(D, 1, progress=v)), (5, "tqdm", len), InputError, r"progress=.* must be a progress bar class"),
]  # fmt: skip


def compared(**changes: Any) -> Any:
    given = {"trajs": [X[:150], X[150:]], "n_states": 3, "methods": ("k-medoids",), "random_state": 0, "n_jobs": 1}
    return compare(**{**given, **changes})


def scanned(**changes: Any) -> Any:
    given = {"trajs": X, "n_states": 2, "n_resamples": 1, "random_state": 0, "n_jobs": 1}
    return scan_states(**{**given, **changes})


def argument(of: Callable[..., Any], name: str) -> Call:
    return on(f"{of.__name__} {name}", lambda at: lambda value: of(**{name: value}))


STUDIES: list[Row] = [
    *[
        row
        for of in (compared, scanned)
        for row in [
            *rows(argument(of, "trajs"), (None, "run.xtc"), InputError, r"data is VALUE; give an array"),
            *rows(argument(of, "trajs"), ([],), InputError, r"data is an empty list; give at least one trajectory"),
            *rows(argument(of, "n_states"), (1, 2.5, None, True), InputError, rf"n_states=VALUE {WHOLE} 2"),
            *rows(argument(of, "lagtime"), (0, -5, 1.5, None), InputError, r"lagtime=VALUE must be a whole number of frames of at least 1"),
            *rows(argument(of, "lagtime"), (300, HUGE), InputError, r"lagtime=VALUE needs .*shorter lag time"),
            *rows(argument(of, "dt"), (0, -1, np.nan, "2"), InputError, r"dt=VALUE must be a positive finite number"),
            *rows(argument(of, "unit"), ("", None), InputError, r"unit=VALUE must be a non-empty string"),
            *rows(argument(of, "random_state"), (-1, "a", True), InputError, rf"random_state=VALUE {SEED}"),
            *rows(argument(of, "n_jobs"), (0, "a"), InputError, r"n_jobs=VALUE must be None, a positive number"),
            *rows(argument(of, "n_jobs"), (HUGE,), InputError, r"n_jobs=VALUE is more than 4096 processes"),
            *rows(argument(of, "progress"), (5, len), InputError, r"progress=.* must be a progress bar class"),
        ]
    ],
    *rows(argument(compared, "n_states"), (301, HUGE), InputError, r"but there are only 300 frames; ask for fewer"),
    *rows(argument(compared, "methods"), ((), 5), InputError, r"methods=VALUE must name at least one of m3c"),
    *rows(argument(compared, "methods"), (["pcca"], "tica"), InputError, r"is not known; choose one of 'm3c', 'pcca\+'"),
    *rows(argument(compared, "lagtimes"), ([0], [1.5], [-5]), InputError, r"lagtimes=.* must be a whole number of at"),
    *rows(argument(compared, "lagtimes"), ("12", b"x"), InputError, r"lagtimes=VALUE must be a number or several"),
    *rows(argument(compared, "lagtimes"), ([],), InputError, r"lagtimes is empty; give at least one"),
    *rows(argument(compared, "lagtimes"), ([150, 300],), InputError, r"lag times 150, 300 cannot be used.*at most 149"),
    *rows(argument(compared, "test"), ("x", []), InputError, r"give an array|give at least one trajectory"),
    *rows(argument(compared, "allow_overlap"), (1, None, "no"), InputError, r"allow_overlap=VALUE must be True or False"),
    ("compared test wide", lambda at: compared(test=np.zeros((9, 3))), InputError, r"3 columns.*featurise all"),
    ("compared test the same", lambda at: compared(test=X[:150]), InputError, r"has the same frames.*allow_overlap=True"),
    ("compared twice the same", lambda at: compared(trajs=[X, X]), InputError, r"has the same frames.*give every frame once"),
    (
        "compared columns in another order",
        lambda at: compared(
            trajs=pd.DataFrame(X, columns=["phi", "psi"]), test=pd.DataFrame(X + 1.0, columns=["psi", "phi"])
        ),
        InputError,
        r"column 0 of test is 'psi', but trajs has 'phi' there; bring its columns into that order",
    ),
    (
        "compared microstates", lambda at: compared(methods="pcca+", n_microstates=[1]), InputError,
        rf"n_microstates=1 {WHOLE} 3",
    ),
    ("compared no microstates", lambda at: compared(methods="pcca+", n_microstates=[]), InputError, r"is empty; give at"),
    ("compared text", lambda at: compared(methods="pcca+", n_microstates="50"), InputError, r"must be a number or several"),
    (
        "compared every method fails",
        lambda at: compared(methods="pcca+", n_microstates=10**9),
        DegenerateSolutionError,
        r"every method failed: PCCA\+: n_microstates=1000000000, but there are only 300 distinct frames",
    ),
    ("compared one frame", lambda at: compared(trajs=X[:3], lagtime=2), InputError, r"no halves of more than lagtime=2 frames; give"),
    *rows(argument(scanned, "n_states"), ([],), InputError, r"n_states is empty; give the numbers of states to try"),
    *rows(argument(scanned, "n_states"), ("23", b"2"), InputError, r"n_states=VALUE must be a number or several"),
    *rows(argument(scanned, "n_resamples"), (0, 1.5, None), InputError, rf"n_resamples=VALUE {WHOLE} 1"),
    ("scanned too many", lambda at: scanned(n_states=1000), DegenerateSolutionError, r"1000: balance=\(0.01, 0.99\) must satisfy"),
]  # fmt: skip


def model_call(name: str, **fixed: Any) -> Call:
    return on(f"model {name}", lambda at: lambda value: getattr(at.model, name)(value, **fixed))


MODELS: list[Row] = [
    *rows(on("sample n", lambda at: lambda v: at.model.sample(X, v)), (0, -1, 1.5, "2", None), InputError, rf"n=VALUE {WHOLE} 1"),
    *rows(on("sample by", lambda at: lambda v: at.model.sample(X, 2, by=v)), ("depth", None, 1), InputError, r"by=VALUE is not known; choose one of 'margin', 'random'"),
    *rows(on("core margin", lambda at: lambda v: at.model.core(X, v)), (-1, np.nan, np.inf, "a", True), InputError, r"margin=VALUE must be a number of at least 0$"),
    *rows(on("sample seed", lambda at: lambda v: at.model.sample(X, 2, by="random", random_state=v)), (-1, "a", 1.5, True, []), InputError, rf"random_state=VALUE {SEED}"),
    *rows(on("sample seed unused", lambda at: lambda v: at.model.sample(X, 2, random_state=v)), ("a",), InputError, rf"random_state=VALUE {SEED}"),
    ("sample data", lambda at: at.model.sample([X, X[:, :1]], 2), InputError, r"trajectory 1 has 1 columns, but the model"),
    *rows(model_call("alternative"), (-1, 0.5, None, "0"), InputError, rf"number=VALUE {WHOLE} 0"),
    *rows(model_call("alternative"), (1000, HUGE), InputError, r"number=VALUE must be a row of candidates, 0 to \d+$"),
    ("lump nothing", lambda at: at.model.lump(at.msm), InputError, r"either centers= of the microstates, or both"),
    ("lump half", lambda at: at.model.lump(at.msm, trajs=X), InputError, r"either centers= of the microstates, or both"),
    *rows(on("lump msm", lambda at: lambda v: at.model.lump(v, centers=X)), (None, "msm", 5), InputError, r"msm is a .*; give a deeptime MarkovStateModel"),
    ("lump few centers", lambda at: at.model.lump(at.msm, centers=X[:3]), InputError, r"got 3 microstates, but the MSM was made from 8"),
    ("lump wide centers", lambda at: at.model.lump(at.msm, centers=np.zeros((8, 3))), InputError, r"3 columns, but the model was fitted to 2"),
    ("lump nan", lambda at: at.model.lump(at.msm, centers=np.full((8, 2), np.nan)), InputError, r"centers holds nan at frame 0"),
    ("lump one state", lambda at: at.model.lump(at.msm, centers=np.zeros((8, 2))), InputError, r"holds none of the 8 microstates.*use more microstates"),
    ("lump -1", lambda at: at.model.lump(at.msm, trajs=X, dtrajs=at.micro - 1), InputError, r"dtrajs holds -1 at frame"),
    ("lump floats", lambda at: at.model.lump(at.msm, trajs=X, dtrajs=at.micro + 0.5), InputError, r"which is no state; give the whole numbers"),
    ("lump short", lambda at: at.model.lump(at.msm, trajs=X, dtrajs=at.micro[:-1]), InputError, r"\[300\] frames and dtrajs \[299\]; give every frame"),
    ("lump huge", lambda at: at.model.lump(at.msm, trajs=X, dtrajs=at.micro.astype(np.int64) * 10**12), InputError, r"hold microstate \d+, but the MSM was made from 8"),
    *rows(model_call("save"), (None, 5, b"x", "", "a\0b", ["x"]), InputError, r"path=VALUE is no name of a file; give a non-empty string or a pathlib\.Path"),
    ("save in a missing folder", lambda at: at.model.save(at.folder / "no" / "m.m3c"), FileNotFoundError, r"the model was not written \(.*m\.m3c"),
    ("save as a folder", lambda at: at.model.save(at.folder / "folder.npy"), IsADirectoryError, r"the model was not written \("),
    ("save under too long a name", lambda at: at.model.save(at.folder / ("x" * 300)), OSError, r"the model was not written \(File name too long"),
    *rows(on("load_model", lambda at: load_model), (None, 5, b"x", "", "a\0b"), InputError, r"path=VALUE is no name of a file"),
    ("load_model missing", lambda at: load_model(at.folder / "no.m3c"), FileNotFoundError, r"no\.m3c"),
    ("load_model folder", lambda at: load_model(at.folder), IsADirectoryError, r"is a folder; give the file of the model"),
    *[(f"load_model {name}", lambda at, n=name: load_model(at.folder / n), ModelFileError, rf"{name} cannot be used: it is damaged or no model file.*; fit the model again") for name in ("garbage.m3c", "empty.m3c", "x0.npy", "zip.npy")],
    *rows(on("fit client", lambda at: lambda v: quick(3).fit(X, client=v)), ("tcp://x", 5), InputError, r"client=.*Client"),
    ("transform without fit", lambda at: M3C(2).transform(X), NotFittedError, r"this M3C has no model yet; call fit first"),
]  # fmt: skip


def loaded(at: Any, files: Any, top: Any = "top.pdb", **options: Any) -> Any:
    """Load files of the folder."""

    def inside(name: Any) -> Any:
        return at.folder / name if isinstance(name, str) and name and "\0" not in name else name

    files = [inside(name) for name in files] if isinstance(files, list) and files else inside(files)
    return DihedralFeaturizer().load(files, inside(top), **options)


def spoilt_peptide(at: Any, value: float) -> md.Trajectory:
    bad = at.peptide[:]
    bad.xyz[3] = value
    return bad


def featurized(name: str) -> Call:
    return on(f"featurizer {name}", lambda at: lambda v: DihedralFeaturizer(**{name: v}).transform(at.peptide))


KINDS = r"phi, psi, omega, chi1"
FEATURES: list[Row] = [
    *rows(featurized("dihedrals"), (None, 5, (), []), InputError, r"dihedrals=VALUE must name at least one of " + KINDS),
    *rows(featurized("dihedrals"), ("phi psi", ("phi", 3), "tau"), InputError, r"is not known; choose one of 'phi', 'psi'"),
    *rows(featurized("dihedrals"), (("phi", "phi"),), InputError, r"names the same angle twice; name each once"),
    *rows(featurized("dihedrals"), ("chi1",), InputError, r"no residue has the angle 'chi1'.*leave 'chi1' out"),
    *rows(featurized("residues"), (5, 1.5, [1.5], {}, True), InputError, r"residues=.* must be a selection string of mdtraj"),
    *rows(featurized("residues"), ([99], [-1]), InputError, r"the topology has no residue \[.*run from 1 to 4"),
    *rows(featurized("residues"), ([],), InputError, r"the topology has no residue for an empty list"),
    *rows(featurized("residues"), ("((", "resid is"), InputError, r"is no selection that mdtraj understands.*write e\.g\."),
    *rows(featurized("residues"), ("name ZZ",), InputError, r"selects nothing of the topology; choose another"),
    *rows(featurized("sincos"), (1, None, "yes"), InputError, r"sincos=VALUE must be True or False"),
    *rows(featurized("periodic"), (1, None, "yes"), InputError, r"periodic=VALUE must be True or False"),
    *rows(on("transform", lambda at: DihedralFeaturizer().transform), (None, 5, "run.xtc"), InputError, r"the trajectory is VALUE; give an mdtraj\.Trajectory, or use load"),
    *rows(on("transform", lambda at: DihedralFeaturizer().transform), ([], ()), InputError, r"empty list; give at least one mdtraj"),
    ("transform a list", lambda at: DihedralFeaturizer().transform([at.peptide, None]), InputError, r"trajectory 1 is None; give an mdtraj"),
    ("transform no frames", lambda at: DihedralFeaturizer().transform(at.peptide[:0]), InputError, r"has no frames; leave it out"),
    ("transform no topology", lambda at: DihedralFeaturizer().transform(md.Trajectory(at.peptide.xyz, None)), InputError, r"has no topology"),
    ("transform water", lambda at: DihedralFeaturizer().transform(random_trajectory(topology_of(["HOH"]), 3)), InputError, r"no residue has the angle 'phi'.*no amino acids"),
    ("transform nan", lambda at: DihedralFeaturizer().transform(spoilt_peptide(at, np.nan)), TrajectoryError, r"frame 3: a coordinate of atom .* is not a finite number.*cut or repair"),
    ("transform a point", lambda at: DihedralFeaturizer().transform(spoilt_peptide(at, 0.0)), TrajectoryError, r"frame 3: atoms . and . lie at the same point.*cut or repair"),
    *rows(on("load", lambda at: lambda v: loaded(at, v)), (None, 5, b"x", {}, [3]), InputError, r"files=.* must be a file name, a pattern, or a list"),
    *rows(on("load", lambda at: lambda v: loaded(at, v)), ([],), InputError, r"files is an empty list; name at least one"),
    *rows(on("load", lambda at: lambda v: loaded(at, v)), ("", "a\0b", "no.xtc", "x" * 400), InputError, r"there is no file .*check its name and folder"),
    *rows(on("load", lambda at: lambda v: loaded(at, v)), ("*.nothing",), InputError, r"no file matches .*check the folder and the ending"),
    *rows(on("load", lambda at: lambda v: loaded(at, v)), (["good.xtc", "good.xtc"],), InputError, r"is named twice"),
    *[(f"load {name}", lambda at, n=name: loaded(at, n), TrajectoryError, rf"{name}.*(cannot be read|is damaged|no frames|truncated)") for name in ("garbage.xtc", "garbage.trr", "garbage.dcd", "garbage.nc", "empty.xtc", "empty.dcd", "half.xtc", "text.foo", "folder.xtc")],
    ("load some", lambda at: loaded(at, ["good.xtc", "garbage.xtc"]), TrajectoryError, r"garbage\.xtc.*\(1 of 2 files\)"),
    *rows(on("load top", lambda at: lambda v: loaded(at, "good.xtc", v)), (5, [], b"x"), InputError, r"top=VALUE must be a topology file, an mdtraj"),
    *rows(on("load top", lambda at: lambda v: loaded(at, "good.xtc", v)), (None,), InputError, r"top is missing, and files like .*good\.xtc do not say.*give top="),
    *rows(on("load top", lambda at: lambda v: loaded(at, "good.xtc", v)), ("no.pdb", "", "a\0b", "x" * 400), InputError, r"there is no topology file|no topology can be read"),
    *rows(on("load top", lambda at: lambda v: loaded(at, "good.xtc", v)), ("garbage.pdb", "good.xtc", "text.foo", "empty.pdb", "folder.xtc"), InputError, r"no topology can be read from|no residue has the angle"),
    *rows(on("load stride", lambda at: lambda v: loaded(at, "good.xtc", stride=v)), (0, -1, 1.5, None), InputError, rf"stride=VALUE {WHOLE} 1"),
    *rows(on("load chunk", lambda at: lambda v: loaded(at, "good.xtc", chunk=v)), (0, -1, 1.5, None), InputError, rf"chunk=VALUE {WHOLE} 1"),
    *rows(on("load atoms", lambda at: lambda v: loaded(at, "good.xtc", atoms=v)), ([], [0.5], 5), InputError, r"atoms=VALUE must be a selection string of mdtraj or a list"),
    *rows(on("load atoms", lambda at: lambda v: loaded(at, "good.xtc", atoms=v)), ([5, 3], [0, 10**6], [-1, 2]), InputError, r"atoms=VALUE must rise from atom to atom"),
    *rows(on("load atoms", lambda at: lambda v: loaded(at, "good.xtc", atoms=v)), ("name CA",), InputError, r"no residue has the angle"),
    *rows(on("load cache", lambda at: lambda v: loaded(at, "good.xtc", cache=v)), (5, b"x", "", "a\0b"), InputError, r"cache=VALUE is no name of a file"),
    ("load cache file", lambda at: loaded(at, "good.xtc", cache=at.folder / "good.xtc"), InputError, r"cache=.* cannot be made a folder .*; name another"),
    *rows(on("load n_jobs", lambda at: lambda v: loaded(at, "good.xtc", n_jobs=v)), (0, "a", HUGE), InputError, r"n_jobs=VALUE (must be None|is more than 4096)"),
    *rows(on("load progress", lambda at: lambda v: loaded(at, "good.xtc", progress=v)), (5, len, int), InputError, r"progress=.* must be a progress bar class"),
    ("iter_load two", lambda at: DihedralFeaturizer().iter_load(str(at.folder / "good.*"), at.folder / "top.pdb"), InputError, r"stands for 3 files, but iter_load reads one; call it for each"),
    *rows(on("iter_load chunk", lambda at: lambda v: DihedralFeaturizer().iter_load(at.folder / "good.xtc", PEPTIDE, chunk=v)), (0, None), InputError, rf"chunk=VALUE {WHOLE} 1"),
    *rows(on("iter_load progress", lambda at: lambda v: DihedralFeaturizer().iter_load(at.folder / "good.xtc", PEPTIDE, progress=v)), (5, len), InputError, r"progress=.* must be a progress bar"),
    ("describe nothing", lambda at: DihedralFeaturizer().describe(), InputError, r"knows no molecule yet; give a topology"),
    *rows(on("describe", lambda at: DihedralFeaturizer().describe), (5, []), InputError, r"top=VALUE must be a topology file"),
]  # fmt: skip


def run_without(at: Any, **files: bytes | None) -> Any:
    """Read a copy of a shipped run in which some files are others, or missing."""
    folder = at.folder / f"run_{len(list(at.folder.iterdir()))}"
    folder.mkdir()
    for name in ("settings.json", "topology.pdb", "traj_00_dihedrals.npy"):
        shutil.copy(alanine_dipeptide().folder / name, folder / name)
    for name, data in files.items():
        path = folder / {"settings": "settings.json", "topology": "topology.pdb"}.get(name, "traj_00_dihedrals.npy")
        path.unlink() if data is None else path.write_bytes(data)
    return read_run(folder)


def npy(array: Any) -> bytes:
    import io

    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def hot(value: Any) -> bytes:
    content = json.loads((alanine_dipeptide().folder / "settings.json").read_text())
    return json.dumps({**content, "temperature": value}).encode()


def reference() -> Any:
    return exact_reference(MODEL_I, 0.5)


RNG = np.random.default_rng(0)
CELLS = np.zeros(8 * 12, dtype=int)


def simulated(**changes: Any) -> Any:
    return simulate(**{"model": MODEL_I, "rng": RNG, "n_trajectories": 1, "duration": 1.0, **changes})


SYSTEMS: list[Row] = [
    *rows(argument(simulated, "model"), ("I", None, 1), InputError, r"model=VALUE must be a DiffusionModel, e\.g\. MODEL_I"),
    *rows(argument(simulated, "rng"), (0, None, "a"), InputError, r"rng=VALUE must be a numpy\.random\.Generator"),
    *rows(argument(simulated, "n_trajectories"), (0, -1, 1.5, "a", True), InputError, rf"n_trajectories=VALUE {WHOLE} 1"),
    *rows(argument(simulated, "n_trajectories"), (10**12,), InputError, r"n_trajectories=1e\+12 .*do not fit into memory"),
    *[row for name in ("duration", "interval", "step") for row in rows(argument(simulated, name), (0, -1.0, np.nan, np.inf, "a", [], True), InputError, r"=VALUE must be a positive finite number")],
    *rows(argument(simulated, "step"), (0.03,), InputError, r"is not a whole multiple of 0\.03; choose values that divide"),
    ("simulated diverges", lambda at: simulated(duration=20.0, interval=0.2, step=0.2), InputError, r"diverged with step=0\.2; choose a smaller"),
    *rows(on("reference spacing", lambda at: lambda v: exact_reference(MODEL_I, v)), (0, -1, None, "a", []), InputError, r"spacing=VALUE must be a positive finite number"),
    *rows(on("reference spacing", lambda at: lambda v: exact_reference(MODEL_I, v)), (1e-6,), InputError, r"spacing=1e-06 makes a grid of .* cells; choose a larger"),
    *rows(on("reference model", lambda at: exact_reference), (None, "I"), InputError, r"model=VALUE must be a DiffusionModel"),
    *rows(on("reference modes", lambda at: lambda v: reference().slow_modes(v)), (0, 1.5, None, "a", True), InputError, rf"count=VALUE {WHOLE} 1"),
    *rows(on("reference modes", lambda at: lambda v: reference().relaxation_times(v)), (10**6,), InputError, r"count=1000001 must not be larger than 94"),
    *rows(on("reference Q", lambda at: lambda v: reference().metastability(v, 0.2)), (None, [0, 1], "a"), InputError, r"labels must have shape \(96,\), one per cell"),
    *rows(on("reference lag", lambda at: lambda v: reference().metastability(CELLS, v)), (-1, np.nan, np.inf, None, "a", True), InputError, r"lagtime=VALUE must be a number of at least 0$"),
    *rows(on("reference best", lambda at: lambda v: reference().best_partition(v, 0.2)), (1, 2.5, None), InputError, rf"n_states=VALUE {WHOLE} 2"),
    *rows(on("sequence length", lambda at: lambda v: labelled_sequence(X, STATES, v, RNG)), (0, -1, 1.5, "a"), InputError, rf"length=VALUE {WHOLE} 1"),
    *rows(on("sequence length", lambda at: lambda v: labelled_sequence(X, STATES, v, RNG)), (301,), InputError, r"length must be between 1 and the 300 instances"),
    *rows(on("sequence rng", lambda at: lambda v: labelled_sequence(X, STATES, 9, v)), (0, None), InputError, r"rng=VALUE must be a numpy"),
    *rows(on("sequence X", lambda at: lambda v: labelled_sequence(v, STATES, 9, RNG)), ("a", None, X[:5]), InputError, r"need one class per pattern"),
    *rows(on("sequence matrix", lambda at: lambda v: labelled_sequence(X, STATES, 9, RNG, transition_matrix=v)), ("a", np.eye(2), np.eye(3), np.full((3, 3), np.nan)), InputError, r"transition_matrix"),
    ("sequence classes", lambda at: labelled_sequence(X, np.arange(300) % 5, 9, RNG), InputError, r"no transition matrix for 5 classes; give transition_matrix"),
    ("agreement lengths", lambda at: agreement([0, 1], [0]), InputError, r"one length > 0, got \(2,\), \(1,\)"),
    ("agreement nothing", lambda at: agreement([], []), InputError, r"one length > 0"),
    ("agreement nan", lambda at: agreement([0, np.nan], [0, 1]), InputError, r"labels_a holds labels of dtype float64 that are no states"),
    ("agreement None", lambda at: agreement([0, None], [0, 1]), InputError, r"labels_a holds labels of dtype object that are no states"),
    ("agreement ragged", lambda at: agreement([[0], [0, 1]], [0, 1]), InputError, r"cannot be read as arrays"),
    ("agreement weights", lambda at: agreement([0, 1], [0, 1], "ab"), InputError, r"cannot be read as arrays"),
    ("agreement negative", lambda at: agreement([0, 1], [0, 1], [-1, 1]), InputError, r"weights must be finite, not negative"),
    ("error lengths", lambda at: classification_error([0, 1], [0]), InputError, r"one length > 0"),
    *rows(on("read_run", lambda at: read_run), (None, 5, b"x", "", "a\0b"), InputError, r"folder=VALUE is no name of a file"),
    *rows(on("read_run", lambda at: read_run), ("no-such-folder",), InputError, r"has no settings\.json; give a folder that m3c-md simulate"),
    ("read_run no angles", lambda at: run_without(at, angles=None), InputError, r"has no finished trajectory; run m3c-md simulate again"),
    ("read_run garbage", lambda at: run_without(at, angles=b"hello"), InputError, r"traj_00_dihedrals\.npy is no array file"),
    ("read_run empty", lambda at: run_without(at, angles=b""), InputError, r"is no array file"),
    ("read_run huge", lambda at: run_without(at, angles=huge_header()), InputError, r"is damaged: its header promises 8000000000000 bytes"),
    ("read_run objects", lambda at: run_without(at, angles=npy(np.array([{}], dtype=object))), InputError, r"holds pickled objects, which are not read"),
    ("read_run columns", lambda at: run_without(at, angles=npy(np.zeros((5, 7), dtype=np.float32))), InputError, r"shape \(5, 7\), not float32 and \(n_frames, 2\)"),
    ("read_run nan", lambda at: run_without(at, angles=npy(np.full((5, 2), np.nan, dtype=np.float32))), InputError, r"holds angles that are not finite"),
    *[(f"read_run settings {data[:9]!r}", lambda at, d=data: run_without(at, settings=d), InputError, r"settings\.json was not written by m3c-md simulate; choose another") for data in (b"{", b"[]", b"\xff\xfe", b"", hot("hot"), hot(-3), hot(None))],
    ("read_run no topology", lambda at: run_without(at, topology=None), InputError, r"there is no topology file"),
    ("read_run topology", lambda at: run_without(at, topology=b"nonsense"), InputError, r"no residue has the angle|no topology can be read"),
]  # fmt: skip

ROWS = [*VALIDATION, *STUDIES, *MODELS, *FEATURES, *SYSTEMS]


@pytest.mark.parametrize("name", OF_LABELS)
@pytest.mark.parametrize("case", BAD_LABELS)
def test_labels(case: str, name: str) -> None:
    labels, message = BAD_LABELS[case]
    refused(lambda: OF_LABELS[name](labels), InputError, message)


@pytest.mark.parametrize(("call", "kind", "message"), [pytest.param(*row[1:], id=row[0]) for row in ROWS])
@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")
def test_calls(call: Call, kind: type[BaseException], message: str, at: SimpleNamespace) -> None:
    refused(lambda: call(at), kind, message)


# (arguments, exit code, what the last line says); names of files are those of the folder
COMMANDS: list[tuple[str, int, str]] = [
    ("fit no.npy --n-states 2", 2, r"there is no file 'no\.npy'.*check its name and folder"),
    ("fit no*.xtc --n-states 2", 2, r"no file matches 'no\*\.xtc'"),
    ("fit garbage.npy --n-states 2", 2, r"garbage\.npy is no array file .*numpy\.save"),
    ("fit empty.npy --n-states 2", 2, r"empty\.npy is no array file"),
    ("fit zip.npy --n-states 2", 2, r"zip\.npy is no array file"),
    ("fit huge.npy --n-states 2", 2, r"huge\.npy is damaged: its header promises 8000000000000 bytes .* there are 0"),
    ("fit objects.npy --n-states 2", 2, r"objects\.npy holds pickled objects, which are not read"),
    ("fit complex.npy --n-states 2", 2, r"complex\.npy has dtype complex128"),
    ("fit text.npy --n-states 2", 2, r"text\.npy has dtype <U1"),
    ("fit number.npy --n-states 2", 2, r"number\.npy has shape \(\); reshape"),
    ("fit axes.npy --n-states 2", 2, r"axes\.npy has shape \(3, 3, 3\); reshape"),
    ("fit none.npy --n-states 2", 2, r"none\.npy has shape \(0, 2\).*leave it out"),
    ("fit nan.npy --n-states 2", 2, r"nan\.npy holds nan at frame 0, column 0; remove or repair"),
    ("fit x0.npy wide.npy --n-states 2", 2, r"wide\.npy has 3 columns, but x0\.npy has 2; give arrays with the same"),
    ("fit folder.npy --n-states 2", 2, r"Is a directory: 'folder\.npy'"),
    ("fit x0.npy x0.npy --n-states 2", 2, r"x0\.npy is named twice"),
    ("fit x0.npy good.xtc --n-states 2", 2, r"is an array of features and good\.xtc a trajectory; give files of one"),
    ("fit x0.npy --n-states 1000", 2, r"balance=\(0.01, 0.99\) must satisfy .* or ask for fewer states"),
    ("fit x0.npy --n-states 2 --lag 500", 2, r"lagtime=500 needs trajectories of at least 501 frames.*shorter lag"),
    ("fit x0.npy --n-states 2 --stride 1000", 2, r"needs trajectories of at least 2 frames, but the longest has 1"),
    ("fit x0.npy --n-states 2 --jobs 1000000000", 2, r"n_jobs=1000000000 is more than 4096 processes"),
    ("fit x0.npy --n-states 2 --unit ns", 2, r"--unit ns says nothing without --dt; give the time"),
    ("fit x0.npy --n-states 2 --dt 2 --unit=", 2, r"--unit '' says nothing; name the unit of --dt"),
    ("fit x0.npy --n-states 2 --top top.pdb", 2, r"--top top\.pdb has no meaning for arrays.*drop it"),
    ("fit good.xtc --n-states 2", 2, r"good\.xtc does not say which atoms it holds; give --top"),
    ("fit good.xtc --top no.pdb --n-states 2", 2, r"there is no topology file 'no\.pdb'"),
    ("fit good.xtc --top garbage.pdb --n-states 2", 2, r"no topology can be read from garbage\.pdb|no residue has"),
    ("fit good.xtc --top top.pdb --n-states 2 --dihedrals chi9", 2, r"dihedrals='chi9' is not known; choose one of"),
    ("fit good.xtc --top top.pdb --n-states 2 --residues ((", 2, r"no selection that mdtraj understands"),
    ("fit garbage.xtc --top top.pdb --n-states 2", 2, r"garbage\.xtc cannot be read from its first frame on"),
    ("fit half.xtc --top top.pdb --n-states 2", 2, r"half\.xtc is damaged or truncated: it can be read up to frame"),
    ("fit x0.npy --n-states 1", 2, r"argument --n-states: '1' must be a whole number of at least 2"),
    ("fit x0.npy --n-states 2 --lag 0", 2, r"argument --lag: '0' must be a whole number of frames of at least 1"),
    ("fit x0.npy --n-states 2 --seed -1", 2, r"argument --seed: '-1' must be a whole number of at least 0"),
    ("fit x0.npy --n-states 2 --dt nan", 2, r"argument --dt: 'nan' must be a positive number"),
    ("fit x0.npy --n-states 2 --dt soon", 2, r"argument --dt: 'soon' must be a positive number"),
    ("fit x0.npy --n-states two", 2, r"argument --n-states: 'two' must be a whole number"),
    ("fit x0.npy", 2, r"required: --n-states"),
    ("transform no.m3c x0.npy", 2, r"there is no file no\.m3c; check its name and folder"),
    ("transform garbage.m3c x0.npy", 2, r"garbage\.m3c cannot be used: it is damaged or no model file"),
    ("transform folder.npy x0.npy", 2, r"folder\.npy is a folder; give the file of the model"),
    ("compare x0.npy x1.npy --n-states 2 --methods tica", 2, r"argument --methods: invalid choice: 'tica'"),
    ("compare x0.npy --n-states 500", 2, r"n_microstates=50 must be a whole number of at least 500"),
    (
        "compare x0.npy x1.npy --n-states 2 --methods pcca+ --microstates 5000",
        1,
        r"every method failed: .*only 400 dis",
    ),
    ("scan x0.npy --states 1000", 1, r"M3C failed for every number of states: 1000: balance=\(0.01, 0.99\) must"),
    ("scan x0.npy --states", 2, r"argument --states: expected at least one argument"),
    ("simulate water", 2, r"argument MOLECULE: invalid choice: 'water'"),
    ("simulate alanine-dipeptide --n-frames 0", 2, r"argument --n-frames: '0' must be a whole number of at least 1"),
    ("demo --jobs 0", 2, r"argument --jobs: '0' must be a whole number of at least 1"),
]


@pytest.mark.parametrize(("command", "code", "message"), COMMANDS, ids=[row[0] for row in COMMANDS])
@pytest.mark.filterwarnings("ignore::m3c_md.exceptions.M3CWarning")
def test_commands(
    command: str, code: int, message: str, at: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.chdir(at.folder)
    try:
        ended = main([*command.split(" "), "--out", "results"])
    except SystemExit as stop:
        ended = stop.code
    # A library below writes a word of its own about a damaged file, without a line end.
    last = capfd.readouterr().err.splitlines()[-1].replace("(xdrfile error) Undocumented error 3", "")
    assert ended == code, last
    assert last.startswith("m3c-md"), last
    assert re.search(message, last), last
    assert not os.path.exists("results")


def test_too_little_memory(at: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise MemoryError("Unable to allocate 8 TiB")

    monkeypatch.chdir(at.folder)
    monkeypatch.setattr("m3c_md.clustering.m3c.M3C.fit", full)
    assert main(["fit", "x0.npy", "--n-states", "2", "--out", "results"]) == 2
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("m3c-md: there is not enough memory (Unable to allocate 8 TiB); use a larger --stride")
    assert not os.path.exists("results")


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("a\0b", "--out=.* is no name of a file"),
        ("x" * 300, "File name too long"),
        ("top.pdb", "top.pdb is a file; choose another folder with --out"),
        ("top.pdb/below", "Not a directory"),
    ],
)
def test_results_that_cannot_be_put_there(
    out: str, message: str, at: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.chdir(at.folder)
    before = sorted(at.folder.rglob("*"))
    assert main(["fit", "x0.npy", "--n-states", "2", "--out", out]) == 2
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("m3c-md: ")
    assert re.search(message, last)
    assert sorted(at.folder.rglob("*")) == before


def test_the_tables_are_long() -> None:
    from tests.trust.test_bad_fits import BAD_ARGUMENTS, BAD_DATA, BAD_FRAMES

    arguments = sum(len(values) for _, _, values, _ in BAD_ARGUMENTS)
    assert len(ROWS) + len(BAD_LABELS) + len(COMMANDS) + len(BAD_DATA) + len(BAD_FRAMES) + arguments > 500
