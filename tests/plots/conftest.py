"""No picture is shown or left open, whatever a test does."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def _never_shown_and_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(plt, "show", lambda *_, **__: pytest.fail("a plotting function called show()"))
    plt.close("all")
    yield
    plt.close("all")
