"""The report in a real browser, where there is one: what it says, shows and asks for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from m3c_md import M3CModel
from m3c_md.report.hover_map import CELLS
from tests.report.browser import CHROMIUM, Browser, n_colors

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def page(report: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as browser:
        browser.open(report)
        browser.wait_for("document.documentElement.dataset.molecules")
        yield browser


def test_three_molecules_are_drawn_and_turn_together(page: Browser) -> None:
    assert page.evaluate("document.documentElement.dataset.molecules") == "3"
    assert page.evaluate("document.querySelectorAll('.molecule canvas').length") == 3
    before = [page.picture(box=page.box(".molecule", number)) for number in range(3)]
    assert all(n_colors(picture) > 20 for picture in before)
    box = page.box(".molecule")
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.drag(middle, (middle[0] + 80, middle[1] + 40))
    after = [page.picture(box=page.box(".molecule", number)) for number in range(3)]
    changed = [np.abs(new - old).max(axis=2) > 0.2 for old, new in zip(before, after, strict=True)]
    assert all(pixels.mean() > 0.005 for pixels in changed)
    assert all(n_colors(picture) > 20 for picture in after)


def test_the_map_tells_state_margin_and_population(page: Browser, searched_model: M3CModel, three_wells: Any) -> None:
    limits = page.evaluate("JSON.parse(document.querySelector('script.cells').textContent).limits")
    for state in range(3):
        # In the middle of a cell, where the page knows the same as the model; well inside the state.
        frame = three_wells.frames[searched_model.sample(three_wells.frames, 1)[state][0, 1]]
        cell = [
            int(CELLS * (value - low) / (high - low)) + 0.5
            for value, low, high in zip(frame, limits[::2], limits[1::2], strict=True)
        ]
        point = np.array(
            [low + c / CELLS * (high - low) for c, low, high in zip(cell, limits[::2], limits[1::2], strict=True)]
        )
        box = page.box("#map-panel-0 path")
        page.point_at(box["x"] + cell[0] / CELLS * box["width"], box["y"] + (1 - cell[1] / CELLS) * box["height"])
        assert page.evaluate("document.getElementById('tip').hidden") is False
        said = page.evaluate("document.getElementById('tip').innerText").splitlines()
        assert said[0] == f"state {searched_model.transform(point[None])[0]}" == f"state {state}"
        assert float(said[1].removeprefix("margin ")) == float(f"{searched_model.margin(point[None])[0]:.2g}")
        assert said[2] == f"population {searched_model.populations[state]:.1%}"
    page.point_at(box["x"] - 50, box["y"] - 50)
    page.wait_for("document.getElementById('tip').hidden")


def test_it_follows_the_reader_into_the_dark(page: Browser) -> None:
    page.evaluate("scrollTo(0, 0)")
    page.dark(False)
    light = page.picture()
    page.dark(True)
    dark = page.picture()
    page.dark(False)
    assert light[5, 5, :3].min() > 0.95
    assert dark[5, 5, :3].max() < 0.15
    # Whatever is drawn in the colour of ink is light now: the page is not black on black.
    assert n_colors(dark) > 20
    assert (dark[..., :3].min(axis=2) > 0.7).mean() > 0.002


def test_it_can_be_printed(page: Browser) -> None:
    printed = page.pdf()
    assert printed.startswith(b"%PDF")
    assert printed.count(b"/Type /Page\n") > 1 or printed.count(b"/Type /Page") > 2


def test_whole_molecules_are_printed(page: Browser) -> None:
    page.call("Emulation.setEmulatedMedia", media="print")
    try:
        boxes = page.evaluate(
            "[...document.querySelectorAll('.molecule')].map(box =>"
            " [box, box.querySelector('canvas')].map(part => [part.offsetWidth, part.offsetHeight]))"
        )
        assert len(boxes) == 3
        for box, canvas in boxes:
            # As wide as its frame, not as wide as it was on the screen.
            assert canvas == box
            assert box[0] > 50
    finally:
        page.call("Emulation.setEmulatedMedia", media="")


def test_names_stay_text(page: Browser) -> None:
    assert page.evaluate("typeof window.evil") == "undefined"
    assert "<script>window.evil = 1</script>" in page.evaluate("document.body.innerText")


def test_it_says_nothing_in_the_console_and_asks_for_nothing(page: Browser) -> None:
    # The last: whatever was pointed at, turned and printed before is included.
    assert page.messages() == []
    assert page.requests() == []


def test_it_can_be_read_without_javascript(report: Path, tmp_path: Path) -> None:
    with Browser(tmp_path) as browser:
        browser.call("Emulation.setScriptExecutionDisabled", value=True)
        browser.open(report)
        text = browser.evaluate("document.body.innerText")
        assert "3 metastable states" in text
        assert "Structures are drawn by JavaScript, which is off." in text
        picture = browser.picture(box=browser.box("figure svg"))
        assert n_colors(picture) > 20


@pytest.mark.parametrize("which", ["report", "comparison_report"])
def test_nothing_is_cut(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """On a desk and on a telephone: each page is drawn once, and then made narrow."""
    with Browser(tmp_path) as browser:
        browser.call("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
        browser.open(request.getfixturevalue(which))
        assert sideways(browser) == []
        if which == "comparison_report":
            assert browser.evaluate("document.querySelectorAll('#methods thead th').length") >= 9
            wide = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
            assert browser.evaluate(wide) == 0
        browser.call("Emulation.setDeviceMetricsOverride", width=390, height=900, deviceScaleFactor=1, mobile=False)
        assert sideways(browser) == []


def sideways(browser: Browser) -> list[str]:
    """What lies beyond the right of the window and cannot be reached by scrolling within it."""
    cut = "e.getBoundingClientRect().right > innerWidth && !e.closest('.scroll')"
    found = browser.evaluate(
        f"[...document.querySelectorAll('table, svg, pre')].filter(e => {cut}).map(e => e.tagName)"
    )
    page = "document.documentElement"
    return list(found) + ["page"] * browser.evaluate(f"+({page}.scrollWidth > {page}.clientWidth)")
