"""A rule that leaves Python: as a collective variable for PLUMED, OpenMM or PyTorch, to drive the next simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from m3c_md.clustering.archive import Contents
from m3c_md.clustering.edits import Edit, Split, origins
from m3c_md.exceptions import InputError, ModelFileError
from m3c_md.export.columns import check_labels, columns_of_frames, dihedral_columns_of
from m3c_md.export.openmm_force import Form, openmm_force
from m3c_md.export.plumed import Syntax, plumed_input
from m3c_md.export.torch_module import Inputs, torch_module
from m3c_md.export.variable import CollectiveVariable, Kind, check_states, collective_variable
from m3c_md.inputs.dihedral_columns import DihedralColumns
from m3c_md.inputs.settings import as_list, check_choice
from m3c_md.inputs.state_names import state_number
from m3c_md.inputs.trajectories import as_trajectory
from m3c_md.optimize.blocks import Rule
from m3c_md.optimize.feature_map import FourierMap

if TYPE_CHECKING:
    import openmm
    import torch


class PortableRule:
    """What models with a smooth rule can do outside of Python.

    Attributes
    ----------
    dihedral_columns : DihedralColumns or None
        Which atoms the columns are made of, if ``fit(..., featurizer=)`` was told.
    """

    feature_map: FourierMap
    rule: Rule
    edits: tuple[Edit, ...]
    state_names: list[str]
    columns: list[str] | None
    dihedral_columns: DihedralColumns | None = None

    def collective_variable(self, states: Any = None, kind: Kind = "difference") -> CollectiveVariable:
        """Fold the rule into the function of columns that all exports write down, see `to_plumed`."""
        named = [states] if isinstance(states, str) else states
        if named is not None:
            named = [state_number(self.state_names, x) if isinstance(x, str) else x for x in as_list("states", named)]
        chosen = check_states(named, len(self.state_names), kind)
        found = [origins(len(self.rule.bias), self.edits)[state] for state in chosen]
        if None in found or len({origin.rule for origin in found if origin is not None}) > 1:
            raise InputError(
                f"states={chosen}: a part of a state that was split has a score with kinks against other states, which "
                "cannot pull; name parts of one split, or ask the model before the split"
            )
        known = [origin for origin in found if origin is not None]
        edit = self.edits[known[0].rule] if known[0].rule >= 0 else None
        feature_map, rule = (edit.feature_map, edit.rule) if isinstance(edit, Split) else (self.feature_map, self.rule)
        return collective_variable(feature_map, rule, chosen, kind, [origin.rows for origin in known])

    def to_plumed(
        self,
        featurizer: Any = None,
        states: Any = None,
        kind: Kind = "difference",
        syntax: Syntax = "vectors",
        *,
        trajectory: Any = None,
    ) -> str:
        """Input of PLUMED that computes how far a frame is on the way from one state to another.

        Parameters
        ----------
        featurizer : DihedralFeaturizer, DihedralColumns or list of str, optional
            What the columns are made of: the featuriser of the fit, what its ``dihedral_columns(top)`` returns, or for
            columns of your own the labels under which PLUMED has them, one for each. Not needed if
            ``fit(..., featurizer=)`` was told.
        states : sequence of int or str
            A state i and one or more others j, by number or name; one alone is compared with all others. May be left
            out where there are only two. Of a merged state the smooth maximum log(Σ exp(2 f)) / 2 of its scores is
            taken; parts of a split can be compared with each other, but not with other states.
        kind : "difference" or "membership"
            f_i less the mean of all f_j, scores as in `decision_function`: zero at the border of two states; or the
            share 1 / (1 + Σ_j exp(-2 (f_i - f_j))), from 0 to 1. Both are smooth; labels are not, and cannot pull.
        syntax : "vectors" or "classic"
            A few actions on vectors, for PLUMED 2.10 and later, or two for each cosine, for all versions.
        trajectory : mdtraj.Trajectory, or array of columns, optional
            Some of its frames are written into the text with their values, to compare with ``plumed driver``.

        Returns
        -------
        str
            Torsions by atom numbers from 1; scaling, metric and bandwidth are in the constants.

        Examples
        --------
        >>> import numpy as np
        >>> from m3c_md import M3C
        >>> x = np.repeat([-1.0, 1.0] * 20, 25) + 0.1 * np.random.default_rng(0).normal(size=1000)
        >>> text = M3C(2, random_state=0).fit_fetch(x).to_plumed(["d"])
        >>> text.splitlines()[0].startswith("# m3c_0_1 = f_0 - f_1, by m3c_md")
        True
        """
        check_choice("syntax", syntax, get_args(Syntax))
        variable = self.collective_variable(states, kind)
        columns: DihedralColumns | list[str]
        if isinstance(featurizer, Sequence) and not isinstance(featurizer, str):
            columns = check_labels(featurizer, variable.n_columns)
        else:
            columns = self._atoms_of(featurizer)
        reference = None
        if trajectory is not None and isinstance(columns, DihedralColumns):
            reference = columns_of_frames(columns, trajectory)
        elif trajectory is not None:
            reference = as_trajectory(trajectory, "trajectory")
            if reference.shape[1] != variable.n_columns:
                raise InputError(
                    f"trajectory has {reference.shape[1]} columns, but the model was fitted to {variable.n_columns}"
                )
        return plumed_input(variable, columns, syntax, reference, self.state_names)

    def to_openmm(
        self, featurizer: Any = None, states: Any = None, kind: Kind = "difference", *, form: Form = "auto"
    ) -> openmm.Force:
        """OpenMM force whose energy, as a number, is the collective variable of `to_plumed`.

        For ``openmm.CustomCVForce.addCollectiveVariable`` and ``openmm.app.BiasVariable``; added to a System as it is,
        it would push towards the last state. Coordinates are taken as they are: molecules must be whole, as they are in
        OpenMM. `openmm.XmlSerializer` writes it down; a `PythonForce` needs this package to be read back.

        Parameters
        ----------
        featurizer : DihedralFeaturizer or DihedralColumns, optional
            As in `to_plumed`; atoms must be numbered as in the System.
        states, kind
            As in `to_plumed`.
        form : "auto", "python", "expression" or "nested"
            How it is computed. "auto" takes one expression for one or two dihedrals, `openmm.PythonForce` for more, and
            nested forces, several times slower, where OpenMM is too old for that.
        """
        check_choice("form", form, get_args(Form))
        return openmm_force(self.collective_variable(states, kind), self._atoms_of(featurizer), form)

    def to_torch(
        self, featurizer: Any = None, states: Any = None, kind: Kind = "difference", *, inputs: Inputs = "positions"
    ) -> torch.jit.ScriptModule:
        """TorchScript module that computes the collective variable of `to_plumed` in double precision.

        Parameters
        ----------
        featurizer : DihedralFeaturizer or DihedralColumns, optional
            As in `to_plumed`; not needed for ``inputs="columns"``.
        states, kind
            As in `to_plumed`.
        inputs : "positions" or "columns"
            What the module takes: positions of all atoms, (n_atoms, 3), for openmm-torch; or columns of the model, one
            frame or several, for PYTORCH_MODEL of PLUMED.
        """
        check_choice("inputs", inputs, get_args(Inputs))
        variable = self.collective_variable(states, kind)
        return torch_module(variable, self._atoms_of(featurizer) if inputs == "positions" else None)

    def _atoms_of(self, featurizer: Any) -> DihedralColumns:
        return dihedral_columns_of(featurizer, self.dihedral_columns, self.columns, self.feature_map.n_columns)

    def _dihedral_contents(self) -> Contents:
        """Entries of a model file on dihedrals; none if nothing is known."""
        known = self.dihedral_columns
        if known is None:
            return Contents({}, {})
        atoms = [name for four in known.atoms for name in four]
        settings = {"dihedrals": list(known.names), "dihedral_atoms": atoms, "sincos": known.sincos}
        return Contents({**settings, "periodic": known.periodic}, {"quartets": known.quartets})

    def _with_dihedrals(self, contents: Contents) -> None:
        """Take what a model file says about dihedrals, if it does."""
        if "dihedrals" not in contents.settings:
            return
        names = contents.texts("dihedrals")
        atoms = contents.texts("dihedral_atoms", 4 * len(names))
        flags = [contents.settings.get(flag) for flag in ("sincos", "periodic")]
        if not all(isinstance(flag, bool) for flag in flags):
            raise ModelFileError("its settings 'sincos' and 'periodic' are not true or false")
        quartets = contents.indices("quartets", len(names), 4, below=2**31)
        fours = tuple(tuple(atoms[k : k + 4]) for k in range(0, len(atoms), 4))
        found = DihedralColumns(tuple(names), quartets.astype(np.int64), fours, bool(flags[0]), bool(flags[1]))
        if len(found.columns) != self.feature_map.n_columns:
            raise ModelFileError(f"its dihedrals make {len(found.columns)} columns, not {self.feature_map.n_columns}")
        self.dihedral_columns = found
