"""Labelled data sets as metastable sequences: training and test errors of all methods (the paper's first table).

    python benchmarks/paper/sequences.py                       letter, satellite, waveform from ../shared/data/uci
    python benchmarks/paper/sequences.py --data DIR            from a folder of your own; also spambase and segment
    python benchmarks/paper/sequences.py --data DIR --download what DIR lacks is fetched by scikit-learn and kept there
    python benchmarks/paper/sequences.py --quick

DIR holds ``<name>.npz`` with X (n, d) of numbers and y (n,) of classes, of these classes and sizes: letter A and B
(1555 x 16), satellite 1 and 2 (2236 x 36), spambase (4601 x 57, 2 classes), waveform version 1 (5000 x 21, 3 classes),
segment the first four classes (1320 x 19). A data set that is not there is named and skipped.

Every experiment draws a Markov chain of 1000 classes and instances to go with it; methods see the instances only, and
the error is that of the best matching of states and classes, on the sequence and on all other instances. Writes
``results/sequences.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from studies import (
    Row,
    asked_methods,
    asked_seeds,
    data_folder,
    fit_and_judge,
    pcca_estimators,
    print_means,
    run_study,
    study_parser,
)

from m3c_md import M3C, MMC, KMedoids
from m3c_md.systems import LabelledSequence, classification_error, labelled_sequence

LENGTH = 1000
BINS = (50, 200, 300, 400)
# The paper's data sets: number of classes, name and version for `fetch_openml`, and which classes are used (the first).
DATA_SETS: dict[str, tuple[int, str, int, tuple[str, ...]]] = {
    "letter": (2, "letter", 1, ("A", "B")),
    "satellite": (2, "satimage", 1, ("1.", "2.")),
    "spambase": (2, "spambase", 1, ()),
    "waveform": (3, "waveform-5000", 1, ()),
    "segment": (4, "segment", 1, ("brickface", "sky", "foliage", "cement")),
}
WAVEFORM_COLUMNS = 21  # the other 19 columns of the public file are noise, which version 1 of the data set lacks


def estimators(n_states: int, seed: int) -> dict[str, Any]:
    """All methods; the paper's preset has absolute bandwidths, so columns are scaled for it as for the others."""
    common: dict[str, Any] = {"random_state": seed}
    return {
        "k-medoids": KMedoids(n_states, n_restarts=100, **common),
        "MMC": MMC(n_states, **common),
        **pcca_estimators(n_states, BINS, seed, n_restarts=3),
        "M3C": M3C(n_states, **common),
        "M3C.paper": M3C.paper(n_states, scale="standard", **common),
        "M3C.paper, kinetic start": M3C.paper(n_states, scale="standard", starts=("kinetic",), **common),
    }


METHODS = tuple(estimators(2, 0))


def load(folder: Path, name: str) -> tuple[Any, Any]:
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        return file["X"].astype(float), file["y"]


def download(folder: Path, name: str) -> None:
    """Fetch a data set and keep it in the folder."""
    from sklearn.datasets import fetch_openml

    _, public_name, version, classes = DATA_SETS[name]
    X, y = fetch_openml(public_name, version=version, return_X_y=True, as_frame=False)
    X = np.asarray(X, dtype=float)[:, : WAVEFORM_COLUMNS if name == "waveform" else None]
    chosen = np.isin(y, classes) if classes else np.ones(len(y), dtype=bool)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / f"{name}.npz", X=X[chosen], y=np.asarray(y[chosen], dtype=str))


def available(folder: Path, may_download: bool) -> list[str]:
    """Data sets that are there; the others are named."""
    if may_download:
        for name in DATA_SETS:
            if not (folder / f"{name}.npz").exists():
                try:
                    download(folder, name)
                except Exception as error:  # no network, no such data set: one is no reason to do without the others
                    print(f"{name}: not downloaded ({type(error).__name__}: {error})")
    found = [name for name in DATA_SETS if (folder / f"{name}.npz").exists()]
    for name in sorted(set(DATA_SETS) - set(found)):
        print(f"{name}: skipped, there is no {folder / name}.npz")
    return found


def judge(sequence: LabelledSequence, model: Any) -> Row:
    """Errors in per cent."""
    return {
        "test_error": 100.0 * classification_error(sequence.test_y, model.transform(sequence.test_X)),
        "train_error": 100.0 * classification_error(sequence.train_y, model.transform(sequence.train_X)),
    }


def experiment(folder: Path, name: str, seed: int) -> tuple[LabelledSequence, int]:
    """Sequence of one seed, and the number of its classes."""
    X, y = load(folder, name)
    return labelled_sequence(X, y, LENGTH, np.random.default_rng(seed)), len(np.unique(y))


def work(folder: Path, name: str, seed: int, methods: Sequence[str]) -> dict[str, Row]:
    sequence, n_states = experiment(folder, name, seed)
    known = estimators(n_states, seed)

    def quality(model: Any) -> float:
        return -float(judge(sequence, model)["test_error"])

    return {
        method: fit_and_judge(
            known[method], sequence.train_X, partial(judge, sequence), quality if method == "M3C" else None
        )
        for method in methods
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = study_parser(__doc__)
    data_folder(parser, "uci")
    parser.add_argument("--download", action="store_true", help="fetch what the folder lacks")
    options = parser.parse_args(arguments)
    names = available(options.data, options.download)
    seeds = dict.fromkeys(names, asked_seeds(options))
    rows = run_study("sequences", seeds, asked_methods(options, METHODS), partial(work, options.data), options)
    print_means(rows, METHODS, ("train_error", "test_error"))


if __name__ == "__main__":
    import sequences  # under its own name, by which other processes find its functions

    sequences.main()
