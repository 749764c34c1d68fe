"""A study that shows itself as a report to send."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


class ShownStudy:
    """What comparisons and scans can do to be looked at."""

    def report(
        self, path: Any, data: Any = None, *, structures: Sequence[Any] | None = None, random_state: Any = None
    ) -> Path:
        """Write a report that opens in any browser, without a network: one HTML file that can be sent and kept.

        Verdict and tables come first, then the states of the first method, or of the suggested number; see
        `StateModel.report` for what is shown of these.

        Parameters
        ----------
        path : path
            Where to write, e.g. "report.html"; an existing file is replaced.
        data : array or list of arrays, optional
            Trajectories to draw maps of the states over; without them there are none, and no kinetics of a scan.
        structures : sequence of paths, optional
            A PDB file for every one of these states, with relevances from 0 to 100 as B-factors.
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
        >>> from m3c_md import compare
        >>> rng = np.random.default_rng(0)
        >>> trajs = [np.repeat([-1.0, 1.0] * 4, 40) + 0.2 * rng.normal(size=320) for _ in range(2)]
        >>> comparison = compare(trajs, 2, methods=("pcca+", "k-medoids"), n_microstates=10, random_state=0, n_jobs=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = comparison.report(f"{folder}/report.html", trajs, random_state=0)
        ...     print(comparison.verdict in path.read_text(encoding="utf-8"))
        True
        """
        from m3c_md.report.study_report import write_study_report

        return write_study_report(self, self._page(), path, data, structures, random_state)

    def _page(self) -> Callable[..., Any]:
        """Return the function that makes the page."""
        raise NotImplementedError
