"""Does coring by margin make implied timescales flat? M3C and PCCA+, with and without coring.

    python benchmarks/coring.py                       all systems that are here
    python benchmarks/coring.py --system "Model I"    one of them
    python benchmarks/coring.py --report              tables and benchmarks/figures/coring.png from the results
    python benchmarks/coring.py --amounts             Model I, by the number of trajectories; a minute or two

PCCA+ (200 micro states) is cored as MPP does it (a stay counts if it lasts so many frames: Nagel, Weber, Lickert and
Stock, J. Chem. Phys. 150, 094111 (2019)), with the number of frames chosen as M3C chooses its margin. Molecules that
are not part of the project are skipped where they are absent. Rows are appended to benchmarks/results/coring.jsonl.

Model I has 20 data sets of the paper's size, and 60 more, simulated with a small step; its relaxation times are known.
Data sets of this size scatter by 20 to 30 %, so that the median of 20 is known to 4 to 9 %. What coring does is
therefore judged on the same data: "exact states" are those of the most metastable partition of the reference, and the
last lines have the timescales of every data set relative to what these give at a longer lag time.

With --amounts trajectories are drawn in equilibrium from the exact transition matrix of Model I on a grid, so that the
only errors are those of coring and of too few data; rows go to benchmarks/results/coring_amounts.jsonl.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from m3c_md import M3C, DihedralFeaturizer, PCCAPlus
from m3c_md.data import alanine_dipeptide, deca_alanine
from m3c_md.exceptions import M3CWarning
from m3c_md.markov.coring import LEAST_TIMESCALE, LONGER, TOLERANCE, core_trajectories
from m3c_md.systems import MODEL_I, exact_reference, simulate
from m3c_md.validation import implied_timescales

HERE = Path(__file__).parent
RESULTS, FIGURE = HERE / "results" / "coring.jsonl", HERE / "figures" / "coring.png"
AMOUNTS = HERE / "results" / "coring_amounts.jsonl"
SHARED = HERE.parents[1] / "shared" / "data"
N_SEEDS = 20
DWELLS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50)
LAGS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200)
METHODS = ("exact states", "M3C", "M3C cored", "PCCA+", "PCCA+ cored")
MODEL_I_SYSTEMS = ("Model I", "Model I, 60 more")
# Where timescales of exact states are read, a little more than a tenth of t2: level, and known well.
LATER = 12 * MODEL_I.interval


def model_i(seed: int, n_sets: int) -> Iterator[list[Any]]:
    trajs = simulate(MODEL_I, np.random.default_rng(seed), n_trajectories=10 * n_sets, step=1e-4)
    for number in range(n_sets):
        yield trajs[10 * number : 10 * number + 10]


def from_files(folder: str, files: str, top: str) -> Iterator[list[Any]]:
    paths = sorted((SHARED / folder).glob(files))
    if paths:
        yield DihedralFeaturizer(dihedrals=("phi", "psi")).load(paths, top=SHARED / folder / top)


def mdshare() -> Iterator[list[Any]]:
    path = SHARED / "alanine_dipeptide_mdshare" / "dihedral_traj0.npy"
    if path.exists():
        angles = np.load(path)
        yield [np.column_stack([np.sin(angles), np.cos(angles)])]


# Name: number of states, time between frames, its unit, data sets.
SYSTEMS: dict[str, tuple[int, float, str, Callable[[], Iterator[list[Any]]]]] = {
    "Model I": (3, MODEL_I.interval, "time units", lambda: model_i(2026, N_SEEDS)),
    "Model I, 60 more": (3, MODEL_I.interval, "time units", lambda: model_i(4711, 60)),
    "alanine dipeptide, shipped": (3, 2.0, "ps", lambda: iter([list(alanine_dipeptide().features)])),
    "alanine dipeptide, mdshare": (3, 1.0, "ps", mdshare),
    "alanine dipeptide, msmbuilder": (
        *(2, 1.0, "ps"),
        lambda: from_files("alanine_dipeptide_msmbuilder", "trajectory-*.dcd", "ala2.pdb"),
    ),
    "asp7, 2 states": (2, 0.5, "ns", lambda: from_files("asp7", "asp7.xtc", "asp7_reordered.pdb")),
    "asp7, 3 states": (3, 0.5, "ns", lambda: from_files("asp7", "asp7.xtc", "asp7_reordered.pdb")),
    "deca-alanine": (2, 4.0, "ps", lambda: iter([list(deca_alanine().features)])),
}


def at_lags(dtrajs: Any, n_states: int, lags: Any, confidence: str | None = None) -> Any:
    return implied_timescales(dtrajs, lags, n_states=n_states, confidence=confidence, random_state=0)


def best_dwell(model: Any, trajs: list[Any]) -> int:
    """The dwell at which timescales at lag 1 come closest to those at longer lags, chosen as margins are."""

    def times(dtrajs: Any, lag: int) -> Any:
        return at_lags(dtrajs, model.n_states, [lag])._its[0]

    now = times(model.transform(trajs), 1)
    judged = np.flatnonzero(now >= LEAST_TIMESCALE)
    missing = []
    for dwell in DWELLS:
        dtrajs = model.core(trajs, 0.0, dwell).dtrajs
        first = times(dtrajs, 1)
        later = [times(dtrajs, max(2, round(LONGER * now[p])))[p] for p in judged]
        missing.append(np.log(later / first[judged]))
    good = (np.array(missing) <= TOLERANCE).all(axis=1)
    looked_at = int(good.argmax()) + 1 if good.any() else len(DWELLS)
    return DWELLS[int(np.nansum(np.square(missing), axis=1)[:looked_at].argmin())]


def rows_of(system: str, seed: int, trajs: list[Any]) -> Iterator[dict[str, Any]]:
    n_states, dt, *_ = SYSTEMS[system]
    lags = [lag for lag in LAGS if lag <= max(map(len, trajs)) // 10]
    m3c = M3C(n_states, random_state=seed).fit_fetch(trajs)
    pcca = PCCAPlus(n_states, n_microstates=200, random_state=seed).fit_fetch(trajs)
    cored, dwell = m3c.core(trajs), best_dwell(pcca, trajs)
    states = {}
    if system in MODEL_I_SYSTEMS:
        from equilibrium import exact_states

        states["exact states"] = (exact_states(trajs), 0.0)
    states |= {
        "M3C": (m3c.transform(trajs), 0.0),
        "M3C cored": (cored.dtrajs, cored.margin),
        "PCCA+": (pcca.transform(trajs), 1.0),
        "PCCA+ cored": (pcca.core(trajs, 0.0, dwell).dtrajs, float(dwell)),
    }
    for method, (dtrajs, setting) in states.items():
        its = at_lags(dtrajs, n_states, lags, "auto")
        table = its.to_frame() * dt
        yield {
            **{
                "system": system,
                "seed": seed,
                "method": method,
                "setting": setting,
                "lags": [lag * dt for lag in lags],
            },
            "timescales": {name: table[name].round(4).tolist() for name in table},
            "plateaus": [p.describe(dt, SYSTEMS[system][2]) for p in its.plateaus],
            "populations": (np.bincount(np.concatenate(dtrajs), minlength=n_states) / sum(map(len, dtrajs))).tolist(),
        }


def latest_rows() -> list[dict[str, Any]]:
    """The last row of every system, data set and method."""
    rows = map(json.loads, RESULTS.read_text().splitlines())
    return list({(row["system"], row["seed"], row["method"]): row for row in rows}.values())


def medians_at_first_lag(rows: list[dict[str, Any]], system: str, method: str) -> dict[str, float]:
    """Median over data sets of every timescale at the shortest lag time."""
    mine = [row["timescales"] for row in rows if row["system"] == system and row["method"] == method]
    return {name: float(np.median([row[name][0] for row in mine])) for name in mine[0] if " " not in name}


def is_coring_worse(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Timescales of real data at lag 1, as labelled and cored, beside those as labelled at a longer lag time.

    The longer lag time is the last one at which the timescale is twice as long as the lag time. Timescales of fewer
    than four frames have none, and are left out.
    """
    for system in [name for name in SYSTEMS if name not in MODEL_I_SYSTEMS]:
        plain, cored = (
            next((row for row in rows if row["system"] == system and row["method"] == method), None)
            for method in ("M3C", "M3C cored")
        )
        if plain is None or cored is None:
            continue
        lags = np.array(plain["lags"])
        for name in [name for name in plain["timescales"] if " " not in name]:
            times, low, high = (np.array(plain["timescales"][f"{name}{end}"], float) for end in ("", " low", " high"))
            if times[0] < LEAST_TIMESCALE * SYSTEMS[system][1]:
                continue
            later = np.flatnonzero(times > 2.0 * lags)[-1]
            yield {
                **{"system": system, "name": name, "labelled": times[0], "cored": cored["timescales"][name][0]},
                **{"later": times[later], "low": low[later], "high": high[later], "lag": lags[later]},
            }


def against_exact_states(rows: list[dict[str, Any]], system: str, method: str, lag: float) -> dict[str, Any]:
    """Timescales relative to those of the exact states of the same data at a longer lag time: median, its error."""
    of = {name: {r["seed"]: r for r in rows if (r["system"], r["method"]) == (system, name)} for name in METHODS}
    found = {}
    for name in ("t2", "t3"):
        ratios = [
            of[method][seed]["timescales"][name][row["lags"].index(lag)]
            / row["timescales"][name][row["lags"].index(LATER)]
            for seed, row in of["exact states"].items()
        ]
        found[name] = (float(np.median(ratios)), error_of_median(ratios))
    return found


def error_of_median(values: Any) -> float:
    """Standard error by resampling."""
    draws = np.random.default_rng(0).integers(len(values), size=(1000, len(values)))
    return float(np.median(np.asarray(values)[draws], axis=1).std())


def report(rows: list[dict[str, Any]]) -> None:
    exact = exact_reference(MODEL_I).relaxation_times(2)
    for system in SYSTEMS:
        ours = [row for row in rows if row["system"] == system]
        seeds = sorted({row["seed"] for row in ours})
        if not ours:
            continue
        print(f"\n{system} ({len(seeds)} data sets), {SYSTEMS[system][2]}")
        if system in MODEL_I_SYSTEMS:
            print(f"  exact: t2 {exact[0]:.1f}, t3 {exact[1]:.1f}")
        for method in METHODS:
            mine = [row for row in ours if row["method"] == method]
            if not mine:
                continue
            settings = [row["setting"] for row in mine]
            print(f"  {method:12s} (margin or dwell {np.median(settings):.3g})")
            for name in [name for name in mine[0]["timescales"] if " " not in name]:
                values = np.array([row["timescales"][name] for row in mine], dtype=float)
                line = "  ".join(f"{v:.4g}" for v in np.median(values, axis=0))
                spread = ""
                if len(mine) > 1:
                    first = values[:, 0]
                    error = first.std(ddof=1) / len(first) ** 0.5
                    spread = (
                        f"; lag 1: median {np.median(first):.2f} ± {error_of_median(first):.2f}, "
                        f"mean {first.mean():.2f} ± {error:.2f}, 1 / mean rate {1 / (1 / first).mean():.2f}"
                    )
                print(f"    {name}: {line}{spread}")
            if len(mine) == 1:
                for text in mine[0]["plateaus"]:
                    print(f"      {text}")
        if system in MODEL_I_SYSTEMS:
            print(f"  relative to exact states at lag {LATER:g} on the same data, medians")
            for method in METHODS:
                for lag in (MODEL_I.interval, LATER):
                    found = against_exact_states(rows, system, method, lag)
                    words = ", ".join(
                        f"{name} {100 * (m - 1):+.1f} ± {100 * e:.1f} %" for name, (m, e) in found.items()
                    )
                    print(f"    {method:12s} lag {lag:g}: {words}")


def draw(rows: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from m3c_md.plots.axes import plain_log_ticks

    shown = [name for name in SYSTEMS if name != MODEL_I_SYSTEMS[1] and any(row["system"] == name for row in rows)]
    figure, axes = plt.subplots(
        2, (len(shown) + 1) // 2, figsize=(3.3 * ((len(shown) + 1) // 2), 6.2), layout="constrained"
    )
    styles = {"M3C": ("C0", ":"), "M3C cored": ("C0", "-"), "PCCA+": ("C1", ":"), "PCCA+ cored": ("C1", "-")}
    for axis, system in zip(axes.ravel(), shown, strict=False):
        for method, (color, line) in styles.items():
            mine = [row for row in rows if row["system"] == system and row["method"] == method]
            values = np.median(np.array([row["timescales"]["t2"] for row in mine], dtype=float), axis=0)
            axis.plot(mine[0]["lags"], values, line, color=color, marker="o", ms=3, label=method)
            if method == "M3C":
                low, high = (
                    np.median(np.array([r["timescales"][f"t2 {e}"] for r in mine]), axis=0) for e in ("low", "high")
                )
                axis.fill_between(mine[0]["lags"], low, high, color=color, alpha=0.12, lw=0)
        if system == "Model I":
            axis.axhline(exact_reference(MODEL_I).relaxation_times(1)[0], color="black", ls="--", lw=1.0, label="exact")
        unit = SYSTEMS[system][2]
        axis.set(xscale="log", ylim=(0, None), title=system, xlabel=f"lag time / {unit}", ylabel=f"$t_2$ / {unit}")
        plain_log_ticks(axis.xaxis)
    for axis in axes.ravel()[len(shown) :]:
        axis.axis("off")
    axes.ravel()[0].legend(fontsize="small")
    figure.savefig(FIGURE, dpi=110)


def amounts(seed: int, sizes: tuple[int, ...] = (10, 40, 160, 640), n_drawn: int = 640) -> Iterator[dict[str, Any]]:
    """Timescales of Model I relative to the exact ones, by how many trajectories are given at once."""
    from equilibrium import drawn_cells

    rng = np.random.default_rng(seed)
    reference, cells = drawn_cells(n_drawn, 401, rng)
    exact = reference.relaxation_times(2) / MODEL_I.interval
    model = M3C(3, random_state=seed).fit_fetch(simulate(MODEL_I, rng, step=1e-4))
    depths = np.empty(len(reference.points), dtype=[("state", np.int32), ("lead", float)])
    depths["state"], depths["lead"] = model.transform(reference.points), model.margin(reference.points)
    for size in sizes:
        found: dict[str, list[Any]] = {"labels": [], "labels later": [], "cored": [], "margin": []}
        for first in range(0, n_drawn, size):
            frames = [depths[x] for x in cells[first : first + size]]
            cored = core_trajectories(frames, 3, None, 1)
            found["margin"].append(cored.margin)
            for name, lag, dtrajs in (
                ("labels", 1, [x["state"] for x in frames]),
                ("labels later", round(LONGER * exact[0]), [x["state"] for x in frames]),
                ("cored", 1, cored.dtrajs),
            ):
                found[name].append(at_lags(dtrajs, 3, [lag])._its[0] / exact - 1.0)
        medians = {name: np.round(np.nanmedian(values, axis=0), 4).tolist() for name, values in found.items()}
        yield {"seed": seed, "n_trajectories": size, "n_sets": n_drawn // size, **medians}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--amounts", action="store_true")
    parser.add_argument("--seed", type=int, default=0, help="of --amounts")
    options = parser.parse_args()
    if options.amounts:
        for row in amounts(options.seed):
            with AMOUNTS.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(row, flush=True)
        return
    if not options.report:
        warnings.simplefilter("ignore", M3CWarning)
        for system in options.system:
            for seed, trajs in enumerate(SYSTEMS[system][3]()):
                with RESULTS.open("a") as file:
                    file.writelines(json.dumps(row) + "\n" for row in rows_of(system, seed, trajs))
                print(system, seed, flush=True)
    rows = latest_rows()
    report(rows)
    print("\nIs coring ever worse? Timescales at lag 1, and as labelled at a longer lag time (95 %):")
    for row in is_coring_worse(rows):
        now = "{system}, {name}: labelled {labelled:.4g}, cored {cored:.4g}; ".format(**row)
        print("  ", now, "at lag {lag:g} {later:.4g} ({low:.4g} to {high:.4g})".format(**row), sep="")
    draw(rows)


if __name__ == "__main__":
    main()
