"""Look into the wheel and the source distribution before they are published: ``check_distributions.py CLONE WHEEL``."""

from __future__ import annotations

import re
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

LARGEST = 15_000_000


def check(clone: Path, wheel: Path) -> None:
    """Exit with a message if the wheel holds too much, too little, or a description that an index cannot show."""
    names = set(zipfile.ZipFile(wheel).namelist())
    metadata = Parser().parsestr(
        zipfile.ZipFile(wheel).read(next(name for name in names if name.endswith("/METADATA"))).decode()
    )
    modules = {path.relative_to(clone).as_posix() for path in (clone / "m3c_md").rglob("*.py")}
    data = {
        f"m3c_md/data/files/{path.relative_to(clone / 'data').as_posix()}"
        for path in (clone / "data").rglob("*")
        if path.is_file()
    }
    packed = {name for name in names if ".dist-info/" not in name}
    code = {name for name in packed if name.endswith(".py")}
    problems = {
        f"is larger than {LARGEST} bytes": wheel.stat().st_size > LARGEST,
        f"lacks {sorted((modules | data | {'m3c_md/py.typed'}) - packed)}": not modules | data <= packed,
        f"holds code that is not the package: {sorted(code - modules)}": code != modules,
        "holds files outside the package": any(not name.startswith("m3c_md/") for name in packed),
        "has no licence": not any(name.endswith("/licenses/LICENSE") for name in names),
        "has a description with links that lead nowhere": re.search(r"\]\((?!https://)", metadata.get_payload()),
        "has another version than its name": metadata["Version"] not in wheel.name,
    }
    found = [text for text, wrong in problems.items() if wrong]
    if found:
        sys.exit(f"{wheel.name} {'; it '.join(found)}")
    print(f"{wheel.name}: {len(packed)} files, {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    check(Path(sys.argv[1]), Path(sys.argv[2]))
