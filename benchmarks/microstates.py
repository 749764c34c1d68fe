"""Microstates alone: `lump_microstates` beside deeptime's PCCA+ on random reversible chains.

    python benchmarks/microstates.py                     # 100 draws each of 3 to 6 blocks: the promise
    python benchmarks/microstates.py --sampled 20        # chains that are known from 5,000 transitions only
    python benchmarks/microstates.py --speed             # CPU time at 500 microstates

A chain has 20 to 500 microstates in blocks of random sizes, dense or with about sixteen neighbours a microstate;
transitions between blocks are rarer by a factor between 1/300 (well separated) and 1/2 (badly). Q is that of the
lumped chain, P(stay) summed over the states; PCCA+'s states are those of `pcca.assignments`. States that PCCA+ leaves
empty count nothing in its Q.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from deeptime.markov import TransitionCountEstimator
from deeptime.markov.msm import MarkovStateModel, MaximumLikelihoodMSM

from m3c_md import lump_microstates
from m3c_md.arrays import FloatArray, IntArray

RESULTS = Path(__file__).parent / "results" / "microstates.json"
BLOCKS = (3, 4, 5, 6)


def random_flows(n: int, n_blocks: int, separation: float, rng: np.random.Generator, *, sparse: bool) -> FloatArray:
    """Symmetric equilibrium flows of a connected chain in blocks, which sum to one."""
    shares = rng.dirichlet(np.full(n_blocks, 3.0))
    block = np.concatenate([np.repeat(np.arange(n_blocks), 2), rng.choice(n_blocks, n - 2 * n_blocks, p=shares)])
    weight = rng.lognormal(0.0, 1.0, n)
    flows = rng.exponential(1.0, (n, n)) ** 2 * np.sqrt(np.outer(weight, weight))
    if sparse:
        flows *= rng.random((n, n)) < min(1.0, 8.0 / n)
    flows *= np.where(
        block[:, None] == block, 1.0, separation * rng.gamma(1.0, 1.0, (n_blocks, n_blocks))[block][:, block]
    )
    flows = flows + flows.T
    flows += np.diag(flows.sum(axis=1) * rng.uniform(0.1, 2.0, n)) + 1e-9 * flows.mean()
    return np.asarray(flows / flows.sum())


def msm_of(flows: FloatArray) -> MarkovStateModel:
    weights = flows.sum(axis=1)
    return MarkovStateModel(flows / weights[:, None], stationary_distribution=weights, reversible=True)


def metastability(flows: FloatArray, labels: IntArray) -> float:
    """Q of the states that there are."""
    onehot = np.eye(int(labels.max()) + 1)[labels]
    macro = onehot.T @ flows @ onehot
    mass = macro.sum(axis=1)
    return float((np.diag(macro)[mass > 0.0] / mass[mass > 0.0]).sum())


def timed(function: Any, *arguments: Any) -> tuple[Any, float]:
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(*arguments)
    return result, time.process_time() - began


def one_draw(n_blocks: int, seed: int, transitions: int | None = None) -> dict[str, Any]:
    """Both lumpings of one chain, judged by the chain itself, or by its estimate and by the truth."""
    rng = np.random.default_rng([n_blocks, seed])
    n = int(np.exp(rng.uniform(np.log(20.0), np.log(500.0))))
    separation = float(np.exp(rng.uniform(np.log(1 / 300), np.log(1 / 2))))
    sparse = bool(rng.integers(2))
    truth = flows = random_flows(n, n_blocks, separation, rng, sparse=sparse)
    msm = msm_of(flows)
    if transitions is not None:
        counts = TransitionCountEstimator(1, "sliding").fit_fetch(msm.simulate(transitions, seed=seed))
        connected = counts.submodel_largest()
        msm = MaximumLikelihoodMSM().fit_fetch(connected)
        flows = msm.stationary_distribution[:, None] * msm.transition_matrix
        truth = truth[np.ix_(connected.state_symbols, connected.state_symbols)]
    theirs, their_time = timed(msm.pcca, n_blocks)
    ours, our_time = timed(lump_microstates, msm, n_blocks)
    return {
        "blocks": n_blocks,
        "seed": seed,
        "n": n,
        "separation": separation,
        "sparse": sparse,
        "q": metastability(flows, ours.assignments),
        "q_pcca": metastability(flows, theirs.assignments),
        "true_q": metastability(truth, ours.assignments),
        "true_q_pcca": metastability(truth, theirs.assignments),
        "populated": len(np.unique(ours.assignments)),
        "populated_pcca": len(np.unique(theirs.assignments)),
        "rarest": float(ours.coarse_grained_stationary_probability.min()),
        "rarest_pcca": float(min(flows[theirs.assignments == k].sum() for k in np.unique(theirs.assignments))),
        "negative": bool(ours.coarse_grained_transition_matrix.min() < 0.0),
        "negative_pcca": bool(theirs.coarse_grained_transition_matrix.min() < -1e-8),
        "held": ours.held,
        "seconds": our_time,
        "seconds_pcca": their_time,
    }


def told(rows: list[dict[str, Any]], title: str, q: str = "q") -> str:
    """One line of a table."""
    lead = np.array([row[q] - row[f"{q}_pcca"] for row in rows])
    full = [row[q] - row[f"{q}_pcca"] for row in rows if row["populated_pcca"] == row["blocks"]]
    wanted = sum(row["populated"] == row["blocks"] for row in rows)
    return (
        f"| {title} | {len(rows)} | {wanted} | {len(full)} | {lead.mean():+.4f} | {lead.min():+.4f} | "
        f"{np.mean(full) if full else np.nan:+.4f} | {sum(r['negative'] for r in rows)}, "
        f"{sum(r['negative_pcca'] for r in rows)} | {sum(r['held'] for r in rows)} | "
        f"{sum(r['seconds'] for r in rows) / sum(r['seconds_pcca'] for r in rows):.2f} |"
    )


HEAD = (
    "| chains | draws | all states (M3C) | all states (PCCA+) | Q - Q(PCCA+), mean | lowest | mean where PCCA+ has all "
    "| negative matrices (M3C, PCCA+) | held | CPU / PCCA+ |\n|---|---|---|---|---|---|---|---|---|---|"
)


def speed(repeats: int) -> None:
    """Median CPU time at 500 microstates, dense, and its ratio to PCCA+."""
    for n_blocks in BLOCKS:
        for separation in (1 / 100, 1 / 3):
            ratios, ours = [], []
            for seed in range(repeats):
                rng = np.random.default_rng([500, seed])
                msm = msm_of(random_flows(500, n_blocks, separation, rng, sparse=False))
                _, mine = timed(lump_microstates, msm, n_blocks)
                _, theirs = timed(msm.pcca, n_blocks)
                ratios.append(mine / theirs)
                ours.append(mine)
            print(
                f"{n_blocks} states, separation {separation:.3f}: {np.median(ours):.2f} s, {np.median(ratios):.2f} "
                f"({min(ratios):.2f}-{max(ratios):.2f}) times PCCA+"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--sampled", type=int, metavar="DRAWS", help="chains estimated from --transitions")
    parser.add_argument("--transitions", type=int, default=5_000)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--keep", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    timed(lump_microstates, msm_of(random_flows(30, 3, 0.1, np.random.default_rng(0), sparse=False)), 3)  # compile
    if options.speed:
        speed(3)
        return
    draws, transitions = (options.draws, None) if options.sampled is None else (options.sampled, options.transitions)
    rows: list[dict[str, Any]] = []
    print(HEAD)
    for n_blocks in BLOCKS:
        new = [one_draw(n_blocks, seed, transitions) for seed in range(options.first, options.first + draws)]
        rows += new
        print(told(new, f"{n_blocks} blocks", "q" if transitions is None else "true_q"), flush=True)
    for name, chosen in {
        "separation below 1/30": [row for row in rows if row["separation"] < 1 / 30],
        "above": [row for row in rows if row["separation"] >= 1 / 30],
        "all": rows,
    }.items():
        print(told(chosen, name, "q" if transitions is None else "true_q"))
    worst = min(rows, key=lambda row: row["q"] - row["q_pcca"])
    print("lowest:", json.dumps(worst))
    if options.keep:
        RESULTS.write_text(json.dumps(rows, indent=0) + "\n")


if __name__ == "__main__":
    main()
