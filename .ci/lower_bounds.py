"""Print the oldest packages that pyproject.toml allows, as constraints for pip: every ``>=`` turned into ``==``."""

import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
for requirement in [*project["dependencies"], *project["optional-dependencies"]["test"]]:
    name, _, version = requirement.partition(">=")
    # Constraints have no extras: dask[array] is dask.
    print(f"{name.partition('[')[0]}=={version}")
