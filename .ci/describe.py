"""Write what a package index shows (``.ci/description.md``): the README as far as it needs no picture and no clone.

Run ``python .ci/describe.py`` after a change of the README; ``tests/test_release.py`` compares the two.
"""

from __future__ import annotations

import re
from pathlib import Path

PICTURE = re.compile(r"<!-- picture -->.*?<!-- end of picture -->\n+", flags=re.DOTALL)
# These consist of links into the clone, or of numbers that belong beside their pictures.
ELSEWHERE = re.compile(r"## (?:How it compares|Where to read on)\n.*?(?=^## |\Z)", flags=re.DOTALL | re.MULTILINE)
# Links into the clone: alone in a line or in brackets they go, elsewhere their words stay.
MORE = re.compile(r"^More in \[.*\n+", flags=re.MULTILINE)
ASIDE = re.compile(r"\s\(\[[^\]]*\]\((?!https?://)[^)]*\)\)")
LINK = re.compile(r"\[([^\]]*)\]\((?!https?://)[^)]*\)")


def description(readme: str) -> str:
    """Return the README without pictures, their captions, and what only a clone has."""
    text = MORE.sub("", ELSEWHERE.sub("", PICTURE.sub("", readme)))
    return LINK.sub(r"\1", ASIDE.sub("", text))


if __name__ == "__main__":
    here = Path(__file__).parent
    text = (here.parent / "README.md").read_text(encoding="utf-8")
    (here / "description.md").write_text(description(text), encoding="utf-8")
