"""Published microstates of proteins: `lump_microstates`, and M3C on features where there are some, beside PCCA+.

    python benchmarks/proteins.py --data DIR                               all proteins that DIR holds
    python benchmarks/proteins.py --data DIR --protein hp35 --states 12 --lag 50

The data are not part of the project: DIR is a folder of your copies, with one folder for each protein, named hp35, gb3,
hdat, trypsin-benzamidine or chignolin. In it:

microstates/   one file for each trajectory: ``.npy`` of whole numbers (n_frames,), or text (``.txt``, ``.dat``) with
               one number in each line, lines that begin with # left out. Numbers may begin anywhere and have gaps; the
               same number is the same microstate in all files.
features/      optional: files of the same names, ``.npy`` (n_frames, n_columns) or text with columns, for M3C.
lengths.txt    optional: where the files hold several trajectories one after the other, the frames of each in turn;
               text, one number in each line.

A protein that is not there is named and skipped. Numbers of states and lag times below are first guesses, not those of
a paper: give those of the publication that your copy comes from. Every method is fitted to all trajectories and judged
on them: Q = Σ_k P(stay) and implied timescales of its states at the lag time, populations, and how often the
least visited state was entered. Microstates outside the connected set get the state that they exchange most with, for
all methods. Timescales are in frames; the first line has those of the microstates.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from deeptime.markov import TransitionCountEstimator
from deeptime.markov.msm import MaximumLikelihoodMSM
from numpy.typing import NDArray

from m3c_md import M3C, lump_microstates
from m3c_md.clustering.lumped import spread_states
from m3c_md.clustering.microstate_lumping import with_neighbours
from m3c_md.clustering.visits import ENTERED, visits_of
from m3c_md.exceptions import InputError

Labels = list[NDArray[np.integer]]
# Number of states and lag time in frames.
PROTEINS: dict[str, tuple[int, int]] = {
    "hp35": (12, 50),
    "gb3": (3, 10),
    "hdat": (4, 10),
    "trypsin-benzamidine": (5, 10),
    "chignolin": (3, 10),
}
KINDS = (".npy", ".txt", ".dat")


class Protein(NamedTuple):
    """Microstates and, if there are any, features of the same frames."""

    microstates: Labels
    features: list[NDArray[np.floating]]


def read_protein(folder: Path) -> Protein:
    """Read microstates, numbered from 0 without gaps, and features of one protein."""
    files = _files(folder / "microstates")
    if not files:
        raise InputError(f"{folder / 'microstates'} has no file that ends in {', '.join(KINDS)}")
    raw = [_whole_numbers(path) for path in files]
    _, numbers = np.unique(np.concatenate(raw), return_inverse=True)
    states = np.split(numbers, np.cumsum([len(x) for x in raw])[:-1])
    features = []
    for path, own in zip(files, states, strict=True):
        partners = [other for other in _files(folder / "features") if other.stem == path.stem]
        if not partners:
            continue
        columns = _table(partners[0])
        if len(columns) != len(own):
            raise InputError(f"{partners[0].name} has {len(columns)} frames, but {path.name} has {len(own)}")
        features.append(columns)
    if features and len(features) != len(states):
        raise InputError(f"{folder / 'features'} has files for {len(features)} of {len(states)} trajectories")
    return _split(folder / "lengths.txt", states, features)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.suffix in KINDS)


def _table(path: Path) -> NDArray[np.float64]:
    array = np.load(path, allow_pickle=False) if path.suffix == ".npy" else np.loadtxt(path, comments="#", ndmin=2)
    return np.asarray(array, dtype=np.float64).reshape(len(array), -1)


def _whole_numbers(path: Path) -> NDArray[np.intp]:
    values = _table(path)
    if values.shape[1] != 1 or not (values == np.floor(values)).all():
        raise InputError(f"{path.name} has {values.shape[1]} columns or fractions; give one microstate in each line")
    return values[:, 0].astype(np.intp)


def _split(lengths_file: Path, states: Labels, features: list[NDArray[np.floating]]) -> Protein:
    """Trajectories as ``lengths.txt`` cuts them, if there is such a file."""
    if not lengths_file.exists():
        return Protein(states, features)
    lengths = _whole_numbers(lengths_file)
    joined = np.concatenate(states)
    if lengths.sum() != len(joined):
        raise InputError(f"{lengths_file.name} sums to {lengths.sum()} frames, but there are {len(joined)}")
    ends = np.cumsum(lengths)[:-1]
    return Protein(np.split(joined, ends), np.split(np.concatenate(features), ends) if features else [])


def pcca_labels(microstates: Labels, n_states: int, lag: int) -> Labels:
    """States of PCCA+ on the largest connected set."""
    counts = TransitionCountEstimator(lag, "sliding").fit_fetch([x for x in microstates if len(x) > lag])
    connected = counts.submodel_largest()
    assignments = MaximumLikelihoodMSM().fit_fetch(connected).pcca(n_states).assignments
    n_all = int(max(x.max() for x in microstates)) + 1
    full = np.zeros((n_all, n_all))
    full[: counts.n_states_full, : counts.n_states_full] = counts.count_matrix_full
    states = spread_states(assignments, connected.state_symbols, n_all)
    everything, _ = with_neighbours(states, (full + full.T,), n_states)
    return [np.maximum(everything, 0)[x] for x in microstates]


def timescales(labels: Labels, lag: int, n: int) -> NDArray[np.float64]:
    """Slowest implied timescales on the largest connected set, in frames."""
    counts = TransitionCountEstimator(lag, "sliding").fit_fetch([x for x in labels if len(x) > lag])
    msm = MaximumLikelihoodMSM().fit_fetch(counts.submodel_largest())
    return np.asarray(msm.timescales(k=min(n, msm.n_states - 1)))


def judged(labels: Labels, n_states: int, lag: int) -> str:
    """One line on the states of a method; a state without frames adds nothing to Q."""
    pairs = np.concatenate([x[:-lag] * n_states + x[lag:] for x in labels if len(x) > lag])
    counts = np.bincount(pairs, minlength=n_states**2).reshape(n_states, n_states)
    left = counts.sum(axis=1)
    q = float((np.diag(counts)[left > 0] / left[left > 0]).sum())
    visits = visits_of(labels, n_states).counts
    populations = np.sort(np.bincount(np.concatenate(labels), minlength=n_states))[::-1] / sum(map(len, labels))
    shares = " ".join(f"{share:.3f}" for share in populations)
    times = " ".join(f"{value:.4g}" for value in timescales(labels, lag, 3))
    return (
        f"Q {q:.4f}, {np.count_nonzero(populations)} of {n_states} states, entered {visits[ENTERED].min()} times or "
        f"more, timescales {times}, populations {shares}"
    )


def study(protein: Protein, n_states: int, lag: int) -> dict[str, str]:
    """What is to be said of every method."""
    methods = {
        "PCCA+": lambda: pcca_labels(protein.microstates, n_states, lag),
        "lump_microstates": lambda: lump_microstates(protein.microstates, n_states, lagtime=lag).transform(
            protein.microstates
        ),
    }
    if protein.features:
        methods["M3C on features"] = lambda: M3C(n_states, lag, random_state=0).fit_transform(protein.features)
    slow = " ".join(f"{value:.4g}" for value in timescales(protein.microstates, lag, 3))
    said = {"microstates": f"{int(max(x.max() for x in protein.microstates)) + 1} of them, timescales {slow}"}
    for name, labels_of in methods.items():
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rare and hardly visited states are in the table
            labels = labels_of()
        seconds = time.process_time() - began
        said[name] = f"{judged([x.astype(np.intp) for x in labels], n_states, lag)}, {seconds:.1f} s"
    return said


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--protein", nargs="+", choices=PROTEINS, default=list(PROTEINS))
    parser.add_argument("--states", type=int, help="number of states")
    parser.add_argument("--lag", type=int, help="lag time in frames")
    options = parser.parse_args(arguments)
    n_found = 0
    for name in options.protein:
        folder = options.data / name
        if not folder.is_dir():
            print(f"{name}: there is no folder {folder}; skipped")
            continue
        n_found += 1
        n_states, lag = options.states or PROTEINS[name][0], options.lag or PROTEINS[name][1]
        print(f"{name}, {n_states} states, lag time {lag} frames")
        for method, text in study(read_protein(folder), n_states, lag).items():
            print(f"  {method}: {text}", flush=True)
    return 0 if n_found else 1


if __name__ == "__main__":
    sys.exit(main())
