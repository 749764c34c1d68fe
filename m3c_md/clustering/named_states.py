"""What states are called: names that a model carries into its tables, pictures and files."""

from __future__ import annotations

import copy
from typing import Any, Self

from m3c_md.clustering.archive import Contents
from m3c_md.exceptions import InputError, ModelFileError
from m3c_md.inputs.state_names import check_state_names, default_names, renamed


class NamedStates:
    """States with names.

    Attributes
    ----------
    state_names : list of str
        What the states are called, in their order: their numbers until `rename` is called.
    """

    state_names: list[str]

    def rename(self, names: Any) -> Self:
        """Return the same model whose states are called by other names; this one does not change.

        Names appear in ``visits``, in `summary`, in legends, in what `save` writes and in the reports and file names of
        the command line. Labels stay numbers.

        Parameters
        ----------
        names : dict, or sequence of str
            New names by the number (or the old name) of a state, or the names of all states in their order. No two
            states have the same name, and a number is the name of no other state than its own.

        Examples
        --------
        >>> from m3c_md import KMedoids
        >>> model = KMedoids(2, random_state=0).fit_fetch([[0.0], [0.1], [5.0], [5.1], [5.2]] * 11)
        >>> model.rename({0: "open"}).state_names, model.state_names
        (['open', '1'], ['0', '1'])
        """
        new = renamed(self.state_names, names)
        other = copy.copy(self)
        other.state_names = new
        return other

    def _name_settings(self) -> dict[str, Any]:
        """Entry of a model file on names; none if states are called by their numbers."""
        own = self.state_names != default_names(len(self.state_names))
        return {"state_names": list(self.state_names)} if own else {}

    def _with_stored_names(self, contents: Contents) -> None:
        """Take the names that a model file holds, if it does."""
        if "state_names" not in contents.settings:
            return
        names = contents.texts("state_names", len(self.state_names))
        try:
            self.state_names = check_state_names(names, len(names))
        except InputError as error:
            raise ModelFileError(f"the setting 'state_names' is damaged: {error}") from error
