"""Candidates of a search as arrays and texts of a file: in model files, and beside them while a search goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from m3c_md.arrays import FloatArray
from m3c_md.clustering.archive import Contents
from m3c_md.exceptions import ModelFileError
from m3c_md.optimize.blocks import Rule
from m3c_md.search.fate import Fate
from m3c_md.search.local_search import LocalOptimum
from m3c_md.search.problem import Kernel
from m3c_md.search.selection import Candidate
from m3c_md.search.support import Support


def contents_of(candidates: Sequence[Candidate], *, labels: bool = False) -> Contents:
    """Return what a file has to hold to give the candidates back; ``labels`` of windows are as long as the data."""
    optima = [candidate.optimum for candidate in candidates]
    arrays = {
        "weights": np.array([one.rule.weights for one in optima]),
        "bias": np.array([one.rule.bias for one in optima]),
        "objective": np.array([one.objective for one in optima]),
        "lower_bound": np.array([one.lower_bound for one in optima]),
        "iterations": np.array([one.iterations for one in optima]),
        "converged": np.array([one.converged for one in optima]),
        "trace": np.concatenate([one.trace for one in optima]),
        "trace_lengths": np.array([len(one.trace) for one in optima]),
        "bandwidth": np.array([candidate.bandwidth for candidate in candidates]),
        "score": np.array([candidate.score for candidate in candidates]),
        "populations": np.array([candidate.populations for candidate in candidates]),
        "metastability": np.array([candidate.metastability for candidate in candidates]),
        "n_windows": np.array([candidate.n_windows for candidate in candidates]),
        "error": np.array([candidate.support.error for candidate in candidates]),
        "n_parts": np.array([candidate.support.n_parts for candidate in candidates]),
        "without": _side_by_side([candidate.support.without for candidate in candidates]),
        "expected": np.array([candidate.support.expected for candidate in candidates]),
        "lasting": np.array([candidate.support.lasting for candidate in candidates]),
        "lasting_without": _side_by_side([candidate.support.lasting_without for candidate in candidates]),
        "least_memory": np.array([candidate.support.least_memory for candidate in candidates]),
        "missing": np.array([candidate.support.missing for candidate in candidates]),
        # Not a number where it is that of the settings.
        "least_share": np.array([candidate.least_share for candidate in candidates], dtype=np.float64),
        "held": np.array([candidate.held for candidate in candidates]),
        "lost": np.array([one.lost for one in optima]),
    }
    if labels:
        arrays["labels"] = np.array([one.labels for one in optima])
        arrays["part_losses"] = _side_by_side([candidate.part_losses for candidate in candidates])
    texts = {"start": [c.start for c in candidates], "fate": [str(c.fate) for c in candidates]}
    return Contents({**texts, "metric": [c.metric for c in candidates]}, arrays)


def _side_by_side(rows: Sequence[Sequence[float]]) -> FloatArray:
    """Rows of different lengths as one array, filled up with what is not a number; a column at least."""
    table = np.full((len(rows), max(1, *(len(row) for row in rows))), np.nan)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return table


def candidates_of(contents: Contents, n_features: int | None = None) -> list[Candidate]:
    """Candidates that a file holds, with the labels of their windows if it has them."""
    weights = contents.array("weights", None, None, n_features)
    n, n_states = weights.shape[:2]
    bias, populations = contents.array("bias", n, n_states), contents.shares("populations", n, n_states)
    objective, bandwidth = contents.positive("objective", n), contents.positive("bandwidth", n)
    lower_bound, score = contents.array("lower_bound", n), contents.array("score", n)
    # Unknown for single frames, which say nothing about time.
    metastability = contents.array("metastability", n, finite=False)
    iterations, n_windows = (contents.indices(name, n, below=2**53) for name in ("iterations", "n_windows"))
    converged, trace = contents.array("converged", n, kind="b"), contents.array("trace", None)
    trace_lengths = contents.indices("trace_lengths", n, below=len(trace) + 1)
    starts, metrics = contents.texts("start", n), contents.texts("metric", n)
    fates = [_fate_of(text) for text in contents.texts("fate", n)]
    if trace_lengths.sum() != len(trace) or n_states < 2:
        raise ModelFileError(f"it has {n_states} states, and traces of together {len(trace)} entries")
    labels = np.empty((n, 0), dtype=np.intp)
    losses: list[tuple[float, ...]] = [()] * n
    if "labels" in contents.arrays:
        labels = contents.indices("labels", n, None, below=n_states).astype(np.intp)
        losses = _rows_of(contents, "part_losses", n)
    support, least_share, held = _details_of(contents, n)
    lost = contents.array("lost", n, kind="b")
    traces = np.split(trace, np.cumsum(trace_lengths)[:-1])
    return [
        Candidate(
            starts[i],
            Kernel(float(bandwidth[i]), metrics[i]),
            LocalOptimum(
                Rule(weights[i], bias[i]),
                labels[i],
                float(objective[i]),
                float(lower_bound[i]),
                int(iterations[i]),
                bool(converged[i]),
                tuple(traces[i].tolist()),
                bool(lost[i]),
            ),
            float(score[i]),
            populations[i],
            float(metastability[i]),
            int(n_windows[i]),
            fates[i],
            support[i],
            least_share[i],
            held[i],
            losses[i],
        )
        for i in range(n)
    ]


def _fate_of(text: str) -> Fate:
    """Fate in the words of a file."""
    try:
        return Fate.of_text(text)
    except ValueError as error:
        raise ModelFileError(f"the setting 'fate' is damaged: {error}") from error


def _details_of(contents: Contents, n: int) -> tuple[list[Support], list[float | None], list[bool]]:
    """Support of the candidates, bounds on their labels, and whether these were held."""
    error, n_parts = contents.array("error", n, finite=False), contents.indices("n_parts", n, below=2**53)
    share, held = contents.array("least_share", n, finite=False), contents.array("held", n, kind="b")
    without, expected = _rows_of(contents, "without", n), contents.array("expected", n, finite=False)
    support = [Support(float(error[i]), int(n_parts[i]), without[i], float(expected[i])) for i in range(n)]
    if "lasting" in contents.arrays:  # files of 0.2.0 did not know it
        lasting, later = contents.array("lasting", n, finite=False), _rows_of(contents, "lasting_without", n)
        support = [replace(one, lasting=float(lasting[i]), lasting_without=later[i]) for i, one in enumerate(support)]
    if "least_memory" in contents.arrays:  # nor this
        memory, missing = (contents.array(name, n, finite=False) for name in ("least_memory", "missing"))
        support = [
            replace(one, least_memory=float(memory[i]), missing=float(missing[i])) for i, one in enumerate(support)
        ]
    return support, [None if np.isnan(x) else float(x) for x in share], [bool(x) for x in held]


def _rows_of(contents: Contents, name: str, n: int) -> list[tuple[float, ...]]:
    """Rows of different lengths that were put side by side."""
    return [tuple(row[~np.isnan(row)].tolist()) for row in contents.array(name, n, None, finite=False)]
