"""What pyproject.toml cannot say: the README without what a package index could not show."""

from __future__ import annotations

import re
from pathlib import Path

PICTURE = re.compile(r"<!-- picture -->.*?<!-- end of picture -->\n+", flags=re.DOTALL)
# Links into the clone: alone in brackets they go, elsewhere their words stay.
ASIDE = re.compile(r"\s\(\[[^\]]*\]\((?!https?://)[^)]*\)\)")
LINK = re.compile(r"\[([^\]]*)\]\((?!https?://)[^)]*\)")


def long_description(readme: str) -> str:
    """Return the README without pictures, their captions, and links into the clone."""
    return LINK.sub(r"\1", ASIDE.sub("", PICTURE.sub("", readme)))


if __name__ == "__main__":
    from setuptools import setup

    setup(
        long_description=long_description((Path(__file__).parent / "README.md").read_text(encoding="utf-8")),
        long_description_content_type="text/markdown",
    )
