"""What is in a state: its torsions, its secondary structure, and what tells it from its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from m3c_md.arrays import FloatArray, IntArray
from m3c_md.clustering.edited_rule import EditedRule
from m3c_md.clustering.profile_counts import CELLS, Counts
from m3c_md.clustering.state_model import StateModel
from m3c_md.exceptions import InputError
from m3c_md.inputs.dataset import Dataset
from m3c_md.inputs.dihedral_columns import DihedralColumns, check_same_columns
from m3c_md.inputs.secondary_structure import FORMS, SecondaryStructure
from m3c_md.inputs.state_names import state_title
from m3c_md.inputs.torsion_columns import Torsions

if TYPE_CHECKING:
    import pandas as pd

# Regions of the Ramachandran map, as most textbooks draw them: φ from and to, ψ from and to, in degrees. They wrap
# around; what is in none of them is neither. The borders are multiples of the cells of `profile_counts`.
REGIONS = {"α": (120, 0, -120, 50), "β": (120, 0, 50, -120), "α_L": (0, 120, -120, 120)}
# Two states are neighbours if at least so many frames lie between them.
LEAST_AT_BORDER = 10
# A residue of a state is in a region, or in a helix, if it is there in more than this share of the frames.
MOST_OF_THE_TIME = 0.5
# Angles that are named between two states, and the share from which on one is worth it.
MOST_NAMED, LEAST_NAMED = 3, 0.1

# A mean of angles that are spread more widely than this, in degrees, says nothing.
WIDE = 90.0
# Columns of the table of borders that say where an angle is in the two states.
AROUND = ("mean", "spread", "other mean", "other spread")


@dataclass(frozen=True)
class StateProfile:
    """Torsions and secondary structure of every state, and what tells it from its neighbours; printed in words.

    Attributes
    ----------
    angles : pandas.DataFrame
        By state and dihedral: ``mean`` (circular) and ``spread`` (circular standard deviation, √(-2 ln R) with R the
        length of the mean of exp(iθ)), both in degrees.
    borders : pandas.DataFrame
        By state, neighbour and dihedral: ``share`` of the angle in what tells the two apart, ``mean`` and ``spread`` in
        the state, ``other mean`` and ``other spread`` in the neighbour; most first. ``frames`` at the border say what
        it rests on.
    residues : pandas.DataFrame
        By state and residue: shares of the frames in the regions ``α``, ``β`` and ``α_L`` of the Ramachandran map and,
        where it is known, in ``helix`` and ``strand`` by DSSP.
    populations : (n_states,) array
        Shares of the frames that were looked at.
    names : list of str
        What the states are called; tables have their numbers.
    maps : dict
        Frames in cells of 5° of the Ramachandran map, (n_states, 72, 72) with φ along the last axis, by residue.
    missing : list of str
        What was left out, and why.
    """

    angles: pd.DataFrame
    borders: pd.DataFrame
    residues: pd.DataFrame
    populations: FloatArray
    names: list[str]
    maps: dict[str, IntArray] = field(repr=False)
    missing: list[str]

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.populations)

    def words(self) -> list[str]:
        """Describe every state in a few lines."""
        lines = []
        for state, share in enumerate(self.populations):
            lines.append(f"{state_title(self.names, state)}, {share:.1%} of the frames")
            if share > 0.0:
                lines += [f"  {line}" for line in (*self._places(state), *self._differences(state))]
        return [*lines, *self.missing]

    def _places(self, state: int) -> list[str]:
        """Where the residues of a state are most of the time."""
        shares = self.residues.loc[state]
        lines = []
        for what, columns in (("torsions", list(REGIONS)), ("secondary structure", ["helix", "strand"])):
            if not set(columns) <= set(shares):
                continue
            found = shares[columns].dropna()
            where = [row.idxmax() if row.max() > MOST_OF_THE_TIME else "mixed" for _, row in found.iterrows()]
            if what == "secondary structure":
                where = ["coil" if one == "mixed" else one for one in where]
            lines.append(f"{what}: {', '.join(_runs(list(found.index), where))}")
        return lines

    def _differences(self, state: int) -> list[str]:
        """Say what tells a state from each of its neighbours."""
        lines = []
        own = self.borders[(self.borders["state"] == state) | (self.borders["neighbour"] == state)]
        for (first, second), rows in own.groupby(["state", "neighbour"], sort=False):
            here, there = ("", "other ") if first == state else ("other ", "")
            telling = rows[rows["share"] >= LEAST_NAMED].head(MOST_NAMED)
            angles = [
                f"{row['dihedral']} ({_around(row, here)} here, {_around(row, there)} there; {row['share']:.0%})"
                for row in (telling if len(telling) else rows.head(MOST_NAMED)).to_dict("records")
            ]
            other = state_title(self.names, int(second if first == state else first))
            lines.append(f"differs from {other} by {', '.join(angles)}")
        return lines

    def __repr__(self) -> str:
        return "\n".join([f"<{type(self).__name__}: {self.n_states} states>", *self.words()])


def state_profile(model: StateModel, featurizer: Any, trajs: Any, top: Any = None) -> StateProfile:
    """Profile of every state: mean and spread of its torsions, secondary structure, differences from its neighbours.

    What tells two neighbours apart is read from the rule: at the frames between them (those within the margin, nearest
    first) the derivative of the difference of their scores by each angle is squared, averaged, and multiplied with the
    variance 1 - R² of the angle over both states. Shares of all angles sum to one.

    Parameters
    ----------
    model : StateModel
        Fitted to dihedrals. Models other than those of M3C and MMC have no gradient, and no table of borders.
    featurizer : DihedralFeaturizer, DihedralColumns or sequence of str
        That of the fit, or for arrays the names of their columns.
    trajs : mdtraj trajectories, files, or arrays of the columns; one or a list
        Arrays have no secondary structure.
    top : path, mdtraj.Topology or mdtraj.Trajectory, optional
        Of files, as for `DihedralFeaturizer.load`.

    Returns
    -------
    StateProfile
        `m3c_md.plots.plot_profile` and `plot_profile_ramachandran` draw it.

    Examples
    --------
    >>> from m3c_md import M3C
    >>> from m3c_md.data import alanine_dipeptide
    >>> data = alanine_dipeptide()
    >>> model = M3C(3, random_state=0).fit_fetch(data.features[:2])
    >>> profile = state_profile(model, data.columns, data.features[:2])
    >>> profile.borders.groupby(["state", "neighbour"]).first()["dihedral"].tolist()  # ψ from β to α, φ to α_L
    ['psi ALA 2', 'phi ALA 2', 'phi ALA 2']
    """
    if not isinstance(model, StateModel):
        raise InputError(f"model={model!r:.60} must be a fitted model of this package, e.g. M3C(3).fit_fetch(trajs)")
    if _is_molecular(trajs):
        if not hasattr(featurizer, "secondary_structure"):
            raise InputError("trajectories of molecules need the DihedralFeaturizer of the fit, not names of columns")
        named = any(isinstance(one, str | Path) for one in (trajs if isinstance(trajs, list | tuple) else [trajs]))
        data = featurizer.load(trajs, top) if named else featurizer.transform(trajs)
        structure = featurizer.secondary_structure(trajs, top)
    else:
        data, structure = trajs, SecondaryStructure(missing="arrays have no coordinates; give trajectories or files")
    return profile_of_columns(model, _names_of(featurizer), data, structure)


def profile_of_columns(
    model: StateModel, columns: Sequence[str], data: Any, structure: SecondaryStructure
) -> StateProfile:
    """Profile from columns and a secondary structure that are known already, see `state_profile`."""
    check_same_columns(model.columns, columns, model.n_columns)
    angles = Torsions.of_all(columns)
    dataset = Dataset.of(data, model.n_columns)
    counts = Counts.empty(angles, model.n_states, len(structure.residues))
    for number in range(len(dataset.trajectories)):
        for first, frames in dataset.blocks(number):
            codes = structure.codes[number][first : first + len(frames)] if structure.residues else None
            counts.add(frames, *_parts(model, frames), codes)
    missing = [f"secondary structure was left out: {structure.missing}"] if structure.missing else []
    if not isinstance(model, EditedRule):
        missing.append(f"borders were left out: the rule of a {type(model).__name__} has no gradient")
    return StateProfile(
        _angle_table(counts),
        _border_table(model, counts),
        _residue_table(counts, structure.residues),
        counts.frames / counts.frames.sum(),
        list(model.state_names),
        dict(zip(angles.pairs, np.moveaxis(counts.maps, 1, 0), strict=True)),
        missing,
    )


def _parts(model: StateModel, frames: FloatArray) -> tuple[FloatArray, IntArray]:
    """Scores of the states, or of the parts of merged ones, and the state of every part."""
    return model._parts(frames) if isinstance(model, EditedRule) else (model._scores(frames), np.arange(model.n_states))


def _is_molecular(trajs: Any) -> bool:
    """Whether trajectories of mdtraj, or files, were given."""
    first = trajs[0] if isinstance(trajs, list | tuple) and len(trajs) else trajs
    return isinstance(first, str | Path) or (hasattr(first, "xyz") and hasattr(first, "topology"))


def _names_of(featurizer: Any) -> list[str]:
    """Names of the columns, whatever says them."""
    if isinstance(featurizer, DihedralColumns):
        return featurizer.columns
    if callable(getattr(featurizer, "describe", None)):
        return list(featurizer.describe())
    if isinstance(featurizer, Sequence) and not isinstance(featurizer, str):
        return [str(name) for name in featurizer]
    raise InputError(
        f"featurizer={featurizer!r:.60} must be the DihedralFeaturizer of the fit, or a list with the names of columns"
    )


def _around(row: dict[str, float], whose: str) -> str:
    mean, spread = row[f"{whose}mean"], row[f"{whose}spread"]
    return f"{mean:.0f} ± {spread:.0f}°" if spread < WIDE else "anything"


def _angle_table(counts: Counts) -> pd.DataFrame:
    import pandas as pd

    means, spreads = mean_angles(_mean_vectors(counts))
    index = pd.MultiIndex.from_product([range(len(means)), counts.angles.names], names=["state", "dihedral"])
    return pd.DataFrame({"mean": means.ravel(), "spread": spreads.ravel()}, index=index)


def _mean_vectors(counts: Counts) -> np.ndarray:
    """Means of exp(iθ) over the frames of each state; NaN in states without frames."""
    with np.errstate(invalid="ignore"):
        return np.asarray(counts.vectors / counts.frames[:, None])


def mean_angles(vectors: np.ndarray) -> tuple[FloatArray, FloatArray]:
    """Circular means and standard deviations in degrees, from means of exp(iθ).

    Examples
    --------
    >>> mean, spread = mean_angles(np.exp(1j * np.radians([350.0, 90.0])) * [1.0, np.exp(-0.5)])
    >>> mean.round(6).tolist(), spread.round().tolist()  # R = exp(-σ² / 2)
    ([-10.0, 90.0], [0.0, 57.0])
    """
    with np.errstate(divide="ignore"):
        spread = np.sqrt(-2.0 * np.log(np.minimum(np.abs(vectors), 1.0)))
    return np.degrees(np.angle(vectors)), np.degrees(spread)


def _border_table(model: StateModel, counts: Counts) -> pd.DataFrame:
    import pandas as pd

    names, vectors = counts.angles.names, _mean_vectors(counts)
    means, spreads = mean_angles(vectors)
    rows = []
    for (first, second), border in sorted(counts.borders.items()):
        if border.n_frames < LEAST_AT_BORDER or not isinstance(model, EditedRule):
            continue
        gradients = model._gradients(border.frames)
        radians = counts.angles.of_frames(border.frames)
        slopes = counts.angles.slopes(gradients[:, first] - gradients[:, second], radians)
        # A state that has no frames of its own here is as its neighbour is.
        variance = 1.0 - np.abs(np.nanmean(vectors[[first, second]], axis=0)) ** 2
        worth = (slopes**2).mean(axis=0) * variance
        shares = worth / worth.sum()
        for angle in np.argsort(-shares, kind="stable"):
            both = [(means[state, angle], spreads[state, angle]) for state in (first, second)]
            rows.append((first, second, names[angle], shares[angle], *both[0], *both[1], border.n_frames))
    return pd.DataFrame(rows, columns=["state", "neighbour", "dihedral", "share", *AROUND, "frames"])


def _residue_table(counts: Counts, of_structure: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    residues = _in_sequence(counts.angles.residues, of_structure)
    index = pd.MultiIndex.from_product([range(len(counts.frames)), residues], names=["state", "residue"])
    table = pd.DataFrame(np.nan, index=index, columns=list(REGIONS))
    with np.errstate(invalid="ignore"):
        for number, residue in enumerate(counts.angles.pairs):
            for region, limits in REGIONS.items():
                inside = counts.maps[:, number][:, _cells(limits)].sum(axis=1)
                table.loc[(slice(None), residue), region] = inside / counts.frames
        for form in ("helix", "strand") if of_structure else ():
            table[form] = np.nan
            for number, residue in enumerate(of_structure):
                shares = counts.forms[:, number, FORMS.index(form)] / counts.frames
                table.loc[(slice(None), residue), form] = shares
    return table


def _in_sequence(residues: Sequence[str], others: Sequence[str]) -> list[str]:
    """Residues of both lists in the order of the molecule, which the longer of them has."""
    longer, shorter = (others, residues) if len(others) > len(residues) else (residues, others)
    return list(dict.fromkeys([*longer, *shorter]))


def _cells(limits: tuple[int, int, int, int]) -> np.ndarray:
    """Cells of the map, ψ by φ, in a region that may wrap around."""
    degrees = -180.0 + (np.arange(CELLS) + 0.5) * 360.0 / CELLS
    phi, psi = ((degrees - low) % 360.0 < ((high - low) % 360.0 or 360.0) for low, high in (limits[:2], limits[2:]))
    return np.asarray(psi[:, None] & phi[None, :])


def _runs(residues: list[str], where: list[str]) -> list[str]:
    """Residues that follow each other and are in the same place, in one entry.

    Examples
    --------
    >>> _runs(["ALA 1", "ALA 2", "ALA 3"], ["β", "α", "α"])
    ['ALA 1 β', 'ALA 2 to ALA 3 α']
    """
    entries = []
    for place, run in groupby(zip(residues, where, strict=True), key=lambda pair: pair[1]):
        names = [name for name, _ in run]
        entries.append(f"{names[0] if len(names) == 1 else f'{names[0]} to {names[-1]}'} {place}")
    return entries
