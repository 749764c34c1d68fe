"""The paper's protocol on molecules: fit some trajectories, judge on all others, for every choice in turn.

    python benchmarks/paper/molecules.py                      everything there is data for
    python benchmarks/paper/molecules.py alanine-dipeptide    one system
    python benchmarks/paper/molecules.py --quick

Shipped data, as in the paper: each method is fitted to one trajectory and judged on all others.

Data beside the clone (``--data DIR``, default ../shared/data; skipped where they are not there):

mdshare-alanine-dipeptide
    One trajectory of 250 ns, every 20 ps as in the paper. α_L lives for nanoseconds and is visited 38 times, so half of
    its 25 ns blocks never see it: a fit to one block is a fit without the third state. The paper's trajectories are of
    200 ns. So an experiment is fitted to a random half of the ten blocks and judged on the other half.
asp7-2, asp7-3
    One trajectory of 5 µs, slowest implied timescale about 26 ns, in 5 blocks of 1 µs: 38 relaxation times each, about
    half of what the paper's trajectories of deca-alanine have. So the paper's protocol holds: fit one, judge on four.
    Two and three states, because timescales of 26, 18 and 13 ns do not say how many there are.
asp7-2-of-four
    The other way round, fit four and judge on the fifth.

Writes ``results/molecules.json``: held-out Q and implied timescales, populations, and where M3C's states are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from studies import SHARED, Row, asked_methods, fit_and_judge, pcca_estimators, print_means, run_study, study_parser

from m3c_md import M3C, MMC, DihedralFeaturizer, KMedoids
from m3c_md.data import MolecularData, alanine_dipeptide, deca_alanine
from m3c_md.validation import implied_timescales, metastability

Split = tuple[list[int], list[int]]
BINS = (100, 200, 300, 400, 500)
N_RANDOM_HALVES = 20


@dataclass(frozen=True)
class Molecule:
    """Trajectories of sines and cosines of angles, and who is fitted to which of them.

    Attributes
    ----------
    splits : list of (fitted, judged)
        Numbers of trajectories.
    lags : lag times of the implied timescales, in frames
    """

    angles: list[NDArray[np.float32]]
    angle_names: list[str]
    n_states: int
    dt: float
    unit: str
    splits: list[Split]
    lags: tuple[int, ...]

    @cached_property
    def features(self) -> list[NDArray[np.float32]]:
        """Sines and cosines of the angles."""
        return [np.stack([np.sin(x), np.cos(x)], axis=-1).reshape(len(x), -1) for x in self.angles]


def one_against_others(n: int) -> list[Split]:
    return [([i], [j for j in range(n) if j != i]) for i in range(n)]


def others_against_one(n: int) -> list[Split]:
    return [(others, one) for one, others in one_against_others(n)]


def random_halves(n: int) -> list[Split]:
    rng = np.random.default_rng(0)
    orders = [rng.permutation(n).tolist() for _ in range(N_RANDOM_HALVES)]
    return [(sorted(order[: n // 2]), sorted(order[n // 2 :])) for order in orders]


def shipped(read: Callable[[], MolecularData], n_states: int, lags: tuple[int, ...], folder: Path) -> Molecule:
    del folder
    data = read()
    splits = one_against_others(len(data.angles))
    return Molecule(data.angles, data.angle_names, n_states, data.dt, data.unit, splits, lags)


def mdshare(folder: Path) -> Molecule:
    angles = np.load(folder / "alanine_dipeptide_mdshare" / "dihedral_traj0.npy")
    blocks = [block[::20] for block in np.split(angles, 10)]
    return Molecule(blocks, ["phi", "psi"], 3, 20.0, "ps", random_halves(10), (1, 2, 5, 10, 20))


def asp7(n_states: int, split: Callable[[int], list[Split]], folder: Path) -> Molecule:
    featurizer = DihedralFeaturizer(dihedrals=("phi", "psi"), sincos=False)
    files = folder / "asp7" / "asp7.xtc", folder / "asp7" / "asp7_reordered.pdb"
    angles = featurizer.load([str(files[0])], top=str(files[1]))[0]
    names = list(featurizer.describe(str(files[1])))
    return Molecule(np.array_split(angles, 5), names, n_states, 0.5, "ns", split(5), (1, 2, 5, 10, 20, 50))


MOLECULES: dict[str, Callable[[Path], Molecule]] = {
    "alanine-dipeptide": partial(shipped, alanine_dipeptide, 3, (1, 2, 3, 5, 10)),
    "deca-alanine": partial(shipped, deca_alanine, 2, (1, 2, 5, 10, 25, 50)),
    "mdshare-alanine-dipeptide": mdshare,
    "asp7-2": partial(asp7, 2, one_against_others),
    "asp7-3": partial(asp7, 3, one_against_others),
    "asp7-2-of-four": partial(asp7, 2, others_against_one),
}


@cache
def load(name: str, folder: Path) -> Molecule:
    return MOLECULES[name](folder)


def estimators(n_states: int, seed: int) -> dict[str, Any]:
    common: dict[str, Any] = {"random_state": seed}
    return {
        "k-medoids": KMedoids(n_states, **common),
        "MMC": MMC(n_states, **common),
        **pcca_estimators(n_states, BINS, seed, n_restarts=3),
        "M3C": M3C(n_states, **common),
    }


METHODS = tuple(estimators(2, 0))


def judge(molecule: Molecule, judged: list[int], model: Any, *, long: bool = True) -> Row:
    """Held-out Q of a model, its implied timescales (zero where an eigenvalue is not positive) and its states."""
    features = molecule.features
    states = model.transform([features[i] for i in judged])
    row: Row = {"Q": metastability(states, 1, molecule.n_states)}
    if not np.isfinite(row["Q"]):
        raise ValueError("a state that held-out trajectories do not visit")
    if long:
        its = implied_timescales(states, molecule.lags, n_states=molecule.n_states, confidence=None, dt=molecule.dt)
        row["timescales"] = np.nan_to_num(its.to_frame().to_numpy())
        row["lag_times"], row["unit"] = [lag * molecule.dt for lag in molecule.lags], molecule.unit
        row["centres"] = state_centres(molecule, model)
    return row


def state_centres(molecule: Molecule, model: Any) -> list[list[float]]:
    """Circular mean of the first angles in every state, in degrees, over all trajectories."""
    angles = np.concatenate([x[:, :4] for x in molecule.angles]).astype(float)
    states = np.concatenate(model.transform(molecule.features))
    means = [np.angle(np.exp(1j * angles[states == k]).mean(axis=0), deg=True) for k in range(molecule.n_states)]
    return [mean.round(1).tolist() for mean in means]


def work(folder: Path, name: str, seed: int, methods: Sequence[str]) -> dict[str, Row]:
    molecule = load(name, folder)
    fitted, judged = molecule.splits[seed]
    known = estimators(molecule.n_states, seed)
    data = [molecule.features[i] for i in fitted]

    def quality(model: Any) -> float:
        return float(judge(molecule, judged, model, long=False)["Q"])

    return {
        method: fit_and_judge(
            known[method], data, partial(judge, molecule, judged), quality if method == "M3C" else None
        )
        for method in methods
    }


def available(names: Sequence[str], folder: Path) -> list[str]:
    """Systems whose data can be read; the others are named."""
    found = []
    for name in names:
        try:
            load(name, folder)
            found.append(name)
        except (OSError, ImportError) as error:
            print(f"{name}: skipped ({type(error).__name__}: {error})")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = study_parser(__doc__)
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=f"any of {', '.join(MOLECULES)}")
    parser.add_argument("--data", type=Path, default=SHARED, help="folder of the data that do not ship")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.systems) - set(MOLECULES))
    if unknown:
        parser.error(f"unknown systems {unknown}; known: {list(MOLECULES)}")
    names = available(options.systems or list(MOLECULES), options.data)
    count = 3 if options.quick else options.seeds
    seeds = {name: range(len(load(name, options.data).splits))[options.first :][:count] for name in names}
    rows = run_study("molecules", seeds, asked_methods(options, METHODS), partial(work, options.data), options)
    print_means(rows, METHODS, ("Q",))


if __name__ == "__main__":
    import molecules  # under its own name, by which other processes find its functions

    molecules.main()
