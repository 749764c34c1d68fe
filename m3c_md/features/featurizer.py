"""The face of the room: from trajectory files or mdtraj trajectories to columns with names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import mdtraj as md
import numpy as np
from deeptime.base import Transformer
from deeptime.util.callbacks import ProgressCallback

from m3c_md.exceptions import InputError
from m3c_md.features.cache import cache_directory
from m3c_md.features.dihedrals import Float32Array, check_kinds, find_dihedrals
from m3c_md.features.files import read_topology, trajectory_blocks, trajectory_files
from m3c_md.features.reading import (
    ColumnLabels,
    Reading,
    Recipe,
    all_features,
    counted,
    read_file,
    regrouped,
    warn_of,
    warned_of,
)
from m3c_md.features.secondary_structure import find_backbone, structure_of_blocks
from m3c_md.features.skeleton import find_skeleton
from m3c_md.inputs.dihedral_columns import DihedralColumns
from m3c_md.inputs.secondary_structure import SecondaryStructure
from m3c_md.inputs.settings import check_flag, check_integer, check_jobs, check_progress
from m3c_md.markup import facts
from m3c_md.workers import deaf_workers

# Frames that are read at a time: a few hundred megabytes for a protein of some thousand atoms.
_DEFAULT_CHUNK = 10_000


class DihedralFeaturizer(Transformer):  # type: ignore[misc]
    """Sines and cosines (or values) of dihedral angles, from trajectory files or mdtraj trajectories.

    Columns go residue by residue in the order of the topology, within a residue angle by angle in the order of
    ``dihedrals``, and of each angle sine first, then cosine: "sin phi ALA 2", "cos phi ALA 2", "sin psi ALA 2", ...
    They depend on nothing else, so that files of the same molecule have the same columns; `describe` names them.
    After the first use a featuriser refuses molecules that would give other columns.

    Parameters
    ----------
    dihedrals : str or sequence of str
        Any of "phi", "psi", "omega", "chi1", "chi2", "chi3", "chi4", as mdtraj defines them. The omega of a residue is
        that of the bond to the next.
    residues : optional
        Which residues: None for all amino acids, a selection string of mdtraj such as ``"resSeq 2 to 5"`` or
        ``"chainid 0"``, or a list of residue numbers as they appear in the names of the columns (resSeq).
    sincos : bool
        Sine and cosine of each angle, or the angle itself in radians (-π to π).
    periodic : bool
        Whether to look across the borders of the periodic box (minimum image) where a trajectory says that it has
        one. False takes the coordinates as they are, which is right only for molecules that have been made whole.

    Notes
    -----
    Arrays are float32, as mdtraj's angles are. Residues without an angle that was asked for (at the ends of a chain,
    side chains that are too short) have no column for it; ``describe(...).missing`` names them.

    A topology whose bonded atoms do not lie as bonded atoms do in the trajectory, by the median over up to ten of the
    first 257 frames, is refused with a `TrajectoryError`: it lists the atoms in another order.

    Examples
    --------
    >>> from m3c_md.data import alanine_dipeptide
    >>> data = alanine_dipeptide()
    >>> featurizer = DihedralFeaturizer(("phi", "psi"), residues=[2])
    >>> [x.shape for x in featurizer.load(data.trajectory_files, data.topology_file, stride=100)]
    [(100, 4), (100, 4)]
    >>> featurizer.describe()
    ['sin phi ALA 2', 'cos phi ALA 2', 'sin psi ALA 2', 'cos psi ALA 2']
    """

    def __init__(
        self,
        dihedrals: str | Sequence[str] = ("phi", "psi"),
        *,
        residues: str | Sequence[int] | None = None,
        sincos: bool = True,
        periodic: bool = True,
    ) -> None:
        self.dihedrals = dihedrals
        self.residues = residues
        self.sincos = sincos
        self.periodic = periodic
        self._labels: ColumnLabels | None = None
        self._columns: DihedralColumns | None = None

    def __repr__(self) -> str:
        usual: dict[str, Any] = {"residues": None, "sincos": True, "periodic": True}
        changed = {name: value for name in usual if (value := getattr(self, name)) is not usual[name]}
        given = {"dihedrals": self.dihedrals, **changed}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def _repr_html_(self) -> str:
        """Settings and, after the first use, columns, for notebooks."""
        known: dict[str, Any] = {"settings": repr(self)}
        if self._labels is not None:
            known["columns"] = len(self._labels)
            known["first and last"] = " … ".join(dict.fromkeys([self._labels[0], self._labels[-1]]))
            known |= {f"without {kind}": ", ".join(names) for kind, names in self._labels.missing.items() if names}
        return facts(known)

    def describe(self, top: Any = None) -> ColumnLabels:
        """Name the columns, and the residues that lack an angle.

        Parameters
        ----------
        top : path, mdtraj.Topology or mdtraj.Trajectory, optional
            Left out, the molecule of the first use.

        Returns
        -------
        list of str
            With an attribute ``missing``, for each kind of angle the residues without it; ``print`` shows both.
        """
        if top is not None:
            return self._recipe(read_topology(top), 1).labels
        if self._labels is None:
            raise InputError("describe() knows no molecule yet; give a topology, or load a trajectory first")
        return self._labels

    def dihedral_columns(self, top: Any = None) -> DihedralColumns:
        """Say which atoms the columns are made of, for `M3CModel.to_plumed` and its like, and for ``M3C.fit``.

        Parameters
        ----------
        top : path, mdtraj.Topology or mdtraj.Trajectory, optional
            Left out, the molecule of the first use.

        Returns
        -------
        DihedralColumns

        Examples
        --------
        >>> from m3c_md.data import alanine_dipeptide
        >>> found = DihedralFeaturizer("phi").dihedral_columns(alanine_dipeptide().topology)
        >>> found.names, found.quartets.tolist(), found.atoms[0]
        (('phi ALA 2',), [[4, 6, 7, 8]], ('ACE 1 C', 'ALA 2 N', 'ALA 2 CA', 'ALA 2 C'))
        """
        if top is not None:
            return self._recipe(read_topology(top), 1).dihedral_columns
        if self._labels is None:
            raise InputError("this featurizer knows no molecule yet; give a topology, or load a trajectory first")
        if self._columns is None:
            raise InputError(
                "this featurizer has seen molecules that number the atoms of the same angles differently; give the "
                "topology whose numbers are wanted"
            )
        return self._columns

    def transform(self, data: Any) -> Any:
        """Compute the columns of a trajectory in memory.

        Parameters
        ----------
        data : mdtraj.Trajectory, or list of them

        Returns
        -------
        array (n_frames, n_columns) of float32, or list of them
        """
        if isinstance(data, list | tuple) and len(data) == 0:
            raise InputError("data is an empty list; give at least one mdtraj.Trajectory")
        if isinstance(data, list | tuple):
            return [self._transform(trajectory, f"trajectory {i}") for i, trajectory in enumerate(data)]
        return self._transform(data, "the trajectory")

    def load(
        self,
        files: Any,
        top: Any = None,
        *,
        stride: int = 1,
        chunk: int = _DEFAULT_CHUNK,
        atoms: Any = None,
        cache: Any = None,
        n_jobs: int | None = None,
        progress: Any = None,
    ) -> list[Float32Array]:
        """Read files and compute their columns, holding no more coordinates in memory than one block of frames.

        Parameters
        ----------
        files : str, path, or list of them
            Of any format that mdtraj reads. The files of a pattern ("run*.xtc") come in natural order: 2 before 10.
        top : path, mdtraj.Topology or mdtraj.Trajectory, optional
            Not needed if the first file has a topology itself (HDF5, PDB, GRO, ...).
        stride : int
            Take frames 0, stride, 2 stride, ... of each file.
        chunk : int
            Frames to read at once, at most; large molecules are read in smaller blocks. The result does not depend
            on it.
        atoms : str or list of int, optional
            Which atoms of ``top`` the files contain, if they were saved without, say, water: a selection string of
            mdtraj, or rising indices.
        cache : path, optional
            A folder where the columns of each file are kept. They are used again as long as file (place, size, time of
            change), atoms and settings are the same.
        n_jobs : int, optional
            Processes over which files are spread, through joblib.
        progress : optional
            True, or a progress bar class such as ``tqdm.tqdm``; it counts files.

        Returns
        -------
        list of arrays (n_frames, n_columns) of float32, one per file

        Raises
        ------
        TrajectoryError
            If some file is damaged, empty, or does not fit. All other files are read nevertheless: ``finished`` of the
            error has their columns, and ``partial`` those of the frames before a damage.
        """
        progress = check_progress(progress)
        chunk = check_integer("chunk", chunk, 1)
        directory = cache_directory(cache)
        paths = trajectory_files(files)
        topology = read_topology(top, paths, atoms)
        recipe = self._recipe(topology, check_integer("stride", stride, 1))
        self._remember(recipe)

        from joblib import Parallel, delayed

        readings: list[Reading] = []
        with ProgressCallback(progress, type(self).__name__, len(paths)) as bar:
            with deaf_workers():
                results = Parallel(n_jobs=check_jobs(n_jobs), return_as="generator")(
                    delayed(read_file)(path, topology, recipe, chunk, directory) for path in paths
                )
            for reading in results:
                readings.append(reading)
                bar(1)
        return all_features(paths, readings)

    def iter_load(
        self,
        file: Any,
        top: Any = None,
        *,
        chunk: int = _DEFAULT_CHUNK,
        stride: int = 1,
        atoms: Any = None,
        progress: Any = None,
    ) -> Iterator[Float32Array]:
        """Read one file and hand out its columns piece by piece, for data that do not fit into memory.

        Parameters
        ----------
        file : str or path
            One file, so that pieces of different trajectories are not mixed up.
        top, stride, atoms
            As for `load`.
        chunk : int
            Number of frames in each array; only the last may be shorter.
        progress : optional
            True, or a progress bar class such as ``tqdm.tqdm``; it counts frames. How many there are is not known
            beforehand.

        Returns
        -------
        iterator of arrays (chunk, n_columns) of float32
        """
        progress = check_progress(progress)
        paths = trajectory_files(file)
        if len(paths) > 1:
            raise InputError(f"{file!r:.60} stands for {len(paths)} files, but iter_load reads one; call it for each")
        chunk = check_integer("chunk", chunk, 1)
        topology = read_topology(top, paths, atoms)
        recipe = self._recipe(topology, check_integer("stride", stride, 1))
        self._remember(recipe)
        notes: list[str] = []
        blocks = recipe.blocks(trajectory_blocks(paths[0], topology, chunk), str(paths[0]), notes)
        return warned_of(counted(regrouped(blocks, chunk), progress), notes)

    def secondary_structure(self, data: Any, top: Any = None) -> SecondaryStructure:
        """Find helices and strands by DSSP, as mdtraj has it, in every frame.

        Parameters
        ----------
        data : mdtraj.Trajectory, or list of them; or files as for `load`
            Files are read block by block.
        top : path, mdtraj.Topology or mdtraj.Trajectory, optional
            Of files, as for `load`.

        Returns
        -------
        SecondaryStructure
            With no residues, and the reason in ``missing``, if the molecule is too short or has no whole backbone.

        Examples
        --------
        >>> from m3c_md.data import deca_alanine
        >>> data = deca_alanine()
        >>> found = DihedralFeaturizer().secondary_structure(data.trajectory_files, data.topology_file)
        >>> bool((found.codes[0] == 1).any(axis=0)[found.residues.index("ALA 5")])  # sometimes in a helix
        True
        """
        periodic = check_flag("periodic", self.periodic)
        sources = _sources(data, top)
        backbones = [find_backbone(topology, self.residues) for topology, _ in sources]
        found = [backbone for backbone in backbones if not isinstance(backbone, str)]
        if len(found) < len(backbones):
            return SecondaryStructure(missing=next(reason for reason in backbones if isinstance(reason, str)))
        names = tuple(found[0].residues.values())
        if any(tuple(backbone.residues.values()) != names for backbone in found):
            return SecondaryStructure(missing="the trajectories are of molecules with different residues")
        codes = [
            structure_of_blocks(blocks, backbone, periodic=periodic)
            for (_, blocks), backbone in zip(sources, found, strict=True)
        ]
        return SecondaryStructure(names, codes)

    def _recipe(self, topology: md.Topology, stride: int) -> Recipe:
        sincos, periodic = check_flag("sincos", self.sincos), check_flag("periodic", self.periodic)
        found = find_dihedrals(topology, check_kinds(self.dihedrals), self.residues)
        return Recipe(found, find_skeleton(topology, found.quartets), sincos, periodic, stride)

    def _remember(self, recipe: Recipe) -> None:
        labels, columns = recipe.labels, recipe.dihedral_columns
        if self._labels is None:
            self._labels, self._columns = labels, columns
        if labels != self._labels:
            pairs = zip(self._labels, labels, strict=False)
            change = next((f"{ours!r} would be {theirs!r}" for ours, theirs in pairs if ours != theirs), "")
            change = change or f"{len(self._labels)} columns would be {len(labels)}"
            raise InputError(
                f"this molecule has other columns than the first one of this featurizer ({change}); use another "
                "DihedralFeaturizer for it"
            )
        if self._columns is not None and not np.array_equal(columns.quartets, self._columns.quartets):
            self._columns = None

    def _transform(self, trajectory: Any, name: str) -> Float32Array:
        if not isinstance(trajectory, md.Trajectory):
            raise InputError(
                f"{name} is {trajectory!r:.60}; give an mdtraj.Trajectory, or use load for the names of files"
            )
        if trajectory.topology is None:
            raise InputError(f"{name} has no topology, and angles cannot be found; set its attribute topology")
        if len(trajectory) == 0:
            raise InputError(f"{name} has no frames; leave it out")
        recipe = self._recipe(trajectory.topology, 1)
        self._remember(recipe)
        notes: list[str] = []
        source = (trajectory[i : i + _DEFAULT_CHUNK] for i in range(0, len(trajectory), _DEFAULT_CHUNK))
        features = np.concatenate(list(recipe.blocks(source, name, notes)))
        warn_of(notes, stacklevel=4)
        return features


def _sources(data: Any, top: Any) -> list[tuple[md.Topology, Any]]:
    """Topology and blocks of frames of each trajectory, in memory or in a file."""
    given = data if isinstance(data, list | tuple) else [data]
    if given and all(isinstance(one, md.Trajectory) for one in given):
        return [(read_topology(one), [one]) for one in given]
    paths = trajectory_files(data)
    topology = read_topology(top, paths)
    return [(topology, trajectory_blocks(path, topology, _DEFAULT_CHUNK)) for path in paths]
