"""A model that shows itself: as a report to send, and as a small table in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from m3c_md.arrays import FloatArray
from m3c_md.disk import checked_path
from m3c_md.inputs.settings import check_flag, check_integer, check_positive, check_random_state, check_string
from m3c_md.markup import paragraphs, table

if TYPE_CHECKING:
    import pandas as pd


class ShownModel:
    """What models can do to be looked at."""

    populations: FloatArray
    warnings: list[str]
    state_names: list[str]
    if TYPE_CHECKING:

        @property
        def visits(self) -> pd.DataFrame | None:
            """How often each state was entered."""

        def _shown(self) -> list[str]: ...

    def report(
        self,
        path: Any,
        data: Any,
        *,
        lagtime: int | None = None,
        dt: float = 1.0,
        unit: str = "frame",
        core: bool = False,
        structures: Sequence[Any] | None = None,
        random_state: Any = None,
    ) -> Path:
        """Write a report that opens in any browser, without a network: one HTML file that can be sent and kept.

        It begins with the verdict and has the states, their map (point at it to read state, margin and population),
        structures in 3D, implied timescales, Chapman-Kolmogorov test, relevance, kinetics with errors, the search,
        warnings with what to do about them, and how to reproduce it.

        Parameters
        ----------
        path : path
            Where to write, e.g. "report.html"; an existing file is replaced.
        data : array (n_frames, n_columns), or list of them
            Trajectories with the columns of the fit.
        lagtime : int, optional
            Of the metastability Q, in frames; by default that of the fit.
        dt, unit : float, str
            Time between frames and its unit.
        core : bool
            Whether timescales and kinetics are those of cored states as well, see `core`.
        structures : sequence of paths, optional
            A PDB file for every state, such as ``m3c-md fit`` writes, with relevances from 0 to 100 as B-factors.
        random_state : None, int or numpy.random.Generator
            For the intervals.

        Returns
        -------
        Path
            Where it is.

        Examples
        --------
        >>> import tempfile
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> from m3c_md import M3C
        >>> x = np.random.default_rng(0).normal(size=(1000, 2)) * 0.3
        >>> x[:, 0] += np.repeat([-1.0, 1.0] * 20, 25)
        >>> model = M3C(2, random_state=0).fit_fetch(x)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = model.report(f"{folder}/report.html", x, dt=2.0, unit="ps", random_state=0)
        ...     print(path.name, "2 metastable states" in path.read_text(encoding="utf-8"))
        report.html True
        """
        from m3c_md.report.model_report import write_model_report

        checked_path("path", path)
        check_random_state(random_state)
        return write_model_report(
            self,
            path,
            data,
            lagtime=check_integer("lagtime", getattr(self, "lagtime", 1) if lagtime is None else lagtime, 1),
            dt=check_positive("dt", dt),
            unit=check_string("unit", unit),
            core=check_flag("core", core),
            structures=structures,
            random_state=random_state,
        )

    def _repr_html_(self) -> str:
        """Table of the states, for notebooks."""
        head = ["state", "of the frames"]
        columns: list[Sequence[Any]] = [self.state_names, [f"{share:.1%}" for share in self.populations]]
        if self.visits is not None:
            head += ["entered", "trajectories"]
            columns += [self.visits[name].tolist() for name in head[2:]]
        title = ", ".join([f"{type(self).__name__}: {len(self.populations)} states", *self._shown()])
        return paragraphs([title]) + table(zip(*columns, strict=True), head) + paragraphs(self.warnings)
