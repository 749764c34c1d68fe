"""Fits of a comparison or a scan: over processes, and in files, so that one that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from m3c_md.clustering.given_estimator import GivenEstimator
from m3c_md.clustering.model_file import load_model
from m3c_md.disk import writing
from m3c_md.exceptions import InputError, ModelFileError
from m3c_md.inputs.dataset import double_blocks
from m3c_md.validation.measures import Judgement
from m3c_md.validation.methods import Fit, Task, Trial, fit_and_judge
from m3c_md.workers import deaf_workers


@dataclass(frozen=True)
class KeptFits:
    """Folder with a model file and a JSON text for every finished fit; the text is written last.

    Attributes
    ----------
    folder : Path
    comparison : str
        Fingerprint of data and random numbers, the same in all texts.
    """

    folder: Path
    comparison: str

    @classmethod
    def of(cls, folder: Path, trajectories: Sequence[Any], *options: Any) -> KeptFits:
        """Folder of the comparison with these data and options, made if it is not there."""
        digest = hashlib.sha256(repr((options, [x.shape for x in trajectories])).encode())
        for x in trajectories:
            for frames in double_blocks(x):
                digest.update(np.ascontiguousarray(frames).tobytes())
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, digest.hexdigest())

    def found(self, task: Task) -> Fit | None:
        """Fit that was finished before, None if it was not."""
        text, model = self._paths(task)
        if not text.exists():
            return None
        try:
            kept = json.loads(text.read_text(encoding="utf-8"))
            of_this = kept["comparison"] == self.comparison and kept["settings"] == _settings(task)
            trials = {
                setting: Trial(_judgement(inner), _judgements(judged))
                for setting, (inner, judged) in kept["trials"].items()
            }
            fit = Fit(
                None if kept["error"] else load_model(model),
                float(kept["seconds"]),
                _judgements(kept["judgements"]),
                str(kept["error"]),
                str(kept["setting"]),
                trials,
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelFileError(
                f"{text} is no finished fit of a comparison or scan ({error!s:.200}); remove it"
            ) from error
        if not of_this:
            raise InputError(
                f"checkpoint={str(self.folder)!r} belongs to a comparison or scan of other data or with other "
                "settings; remove the folder, or give another one"
            )
        return fit

    def keep(self, task: Task, fit: Fit) -> None:
        """Write the model and then, when that is safe, the text that says so."""
        text, model = self._paths(task)
        if fit.model is not None:
            fit.model.save(model)
        kept = {
            "comparison": self.comparison,
            "settings": _settings(task),
            "seconds": fit.seconds,
            "error": fit.error,
            "judgements": _plain(fit.judgements),
            "setting": fit.setting,
            "trials": {
                setting: [_plain({"": trial.inner})[""], _plain(trial.judgements)]
                for setting, trial in fit.trials.items()
            },
        }
        with writing(text, "a checkpoint") as partial:
            partial.write_text(json.dumps(kept, indent=1), encoding="utf-8")

    def _paths(self, task: Task) -> tuple[Path, Path]:
        stem = f"{re.sub(r'[^A-Za-z0-9+-]', '_', task.name)}_{task.run}"
        return self.folder / f"{stem}.json", self.folder / f"{stem}.m3c"


def _settings(task: Task) -> dict[str, str]:
    return {setting: repr(estimator.get_params()) for setting, estimator in task.settings.items()}


def _plain(judgements: dict[str, Judgement]) -> dict[str, list[Any]]:
    """Judgements as JSON knows them."""
    return {name: [*judged._replace(timescales=judged.timescales.tolist())] for name, judged in judgements.items()}


def _judgement(kept: list[Any]) -> Judgement:
    quality, vamp2, timescales, never_visited, never_left = kept
    times = np.array(timescales, dtype=np.float64)
    return Judgement(float(quality), float(vamp2), times, int(never_visited), int(never_left))


def _judgements(kept: dict[str, list[Any]]) -> dict[str, Judgement]:
    return {held_out: _judgement(judged) for held_out, judged in kept.items()}


def fit_all(tasks: Sequence[Task], lagtime: int, n_jobs: int | None, kept: KeptFits | None) -> Iterator[Fit]:
    """Return what comes of the tasks, in their order and as they end; they are spread over processes."""
    from joblib import Parallel, delayed

    with deaf_workers():
        results: Iterator[Fit] = Parallel(n_jobs=-1 if n_jobs is None else n_jobs, return_as="generator")(
            delayed(found_or_fitted)(task, lagtime, kept) for task in tasks
        )
    return results


def found_or_fitted(task: Task, lagtime: int, kept: KeptFits | None) -> Fit:
    """Fit and judge a method unless that was done before."""
    # Models of users' estimators have no files.
    if kept is None or any(isinstance(estimator, GivenEstimator) for estimator in task.settings.values()):
        return fit_and_judge(task, lagtime)
    found = kept.found(task)
    if found is None:
        found = fit_and_judge(task, lagtime)
        kept.keep(task, found)
    return found
