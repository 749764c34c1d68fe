"""Settings of Sphinx. ``sphinx-build -W docs docs/_build`` needs the extra ``docs`` and no network."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

from docutils import nodes

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from public_names import write_command_line, write_reference  # noqa: E402
from room_picture import draw_fences  # noqa: E402

import m3c_md  # noqa: E402

project = "m3c_md"
author = "The m3c_md developers"
copyright = author
version = release = m3c_md.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc", "myst_nb"]
exclude_patterns = ["_build", "_static", "jupyter_execute", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]
default_role = "py:obj"

# Notebooks are shown as they are stored; the tests execute them.
nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
# Bars of progress and warnings of one run say nothing to a reader of another.
nb_output_stderr = "remove"

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False  # the template of a class lists them
numpydoc_class_members_toctree = False

html_theme = "furo"
html_title = f"m3c_md {release}"
html_static_path = ["_static"]
html_show_copyright = False
mathjax_path = "mathjax/tex-svg.js"


def copied_notebooks() -> None:
    """Put the notebooks where Sphinx looks; unchanged files keep their time, so that they are not read again."""
    for source in sorted((HERE.parent / "notebooks").glob("*.ipynb")):
        target = HERE / "tutorial" / source.name
        if not target.is_file() or target.read_bytes() != source.read_bytes():
            shutil.copy(source, target)


copied_notebooks()
write_reference(HERE / "reference")
write_command_line(HERE / "reference")


def as_tutorial(_app: Any, page: str, text: list[str]) -> None:
    """Turn links from pages to notebooks and back, which are right in a clone, into links of the copies."""
    up = "../" * page.count("/")
    text[0] = text[0].replace(f"]({up}../notebooks/", f"]({up}tutorial/")
    if page.startswith("tutorial/"):
        text[0] = text[0].replace("](../docs/", "](../")


def without_citations(_app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Take out the citations of docstrings inherited from deeptime: its list of references is not here."""
    lines[:] = [re.sub(r"\s*:footcite:[pt]?:?`[^`]*`", "", line) for line in lines]


def with_tags(_app: Any, doctree: Any) -> None:
    """Leave formulas with a number as they are: Sphinx would put several lines into "split", which takes no number."""
    for block in doctree.findall(nodes.math_block):
        if r"\tag" in block.astext():
            text = rf"\[{block.astext()}\]"
            block.children = [nodes.Text(text)]
            block["no-wrap"] = block["nowrap"] = True


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.connect("source-read", as_tutorial)
    app.connect("autodoc-process-docstring", without_citations)
    app.connect("doctree-read", draw_fences)
    app.connect("doctree-read", with_tags)
