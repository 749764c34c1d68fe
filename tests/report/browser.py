"""Chromium without a window, driven through two pipes: its own protocol, and nothing to install besides."""

from __future__ import annotations

import base64
import io
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import matplotlib.image
import numpy as np

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SWITCHES = (
    *("--headless", "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    *("--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--remote-debugging-pipe"),
)
# Seconds: a busy machine draws three molecules without a graphics card.
PATIENCE = 120.0


class Browser:
    """A page in Chromium, with everything that it says and asks for."""

    def __init__(self, folder: Path, size: tuple[int, int] = (1280, 900)) -> None:
        ours, theirs = os.pipe(), os.pipe()  # what we say, what Chromium says

        def to_fixed_numbers() -> None:  # Chromium reads from 3 and writes to 4
            places = os.dup(ours[0]), os.dup(theirs[1])
            os.dup2(places[0], 3)
            os.dup2(places[1], 4)

        assert CHROMIUM is not None
        self._process = subprocess.Popen(
            [CHROMIUM, *SWITCHES, f"--user-data-dir={folder}", f"--window-size={size[0]},{size[1]}", "about:blank"],
            preexec_fn=to_fixed_numbers,
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(ours[0])
        os.close(theirs[1])
        self._write, self._read = ours[1], theirs[0]
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # Chromium ends when its pipes do, and takes its own processes with it.
        os.close(self._write)
        os.close(self._read)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask Chromium for something and wait for the answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while (answer := self._message(until)).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, (method, answer)
        return dict(answer["result"])

    def _message(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert select.select([self._read], [], [], max(0.0, until - time.monotonic()))[0], "Chromium is silent"
            piece = os.read(self._read, 1 << 20)
            assert piece, "Chromium has gone"
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(text))

    def open(self, path: Path) -> None:
        """Open a file and wait until it is there."""
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        until = time.monotonic() + PATIENCE
        while not self.said("Page.loadEventFired"):
            self.events.append(self._message(until))

    def said(self, method: str) -> list[dict[str, Any]]:
        """Events of one kind since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def messages(self) -> list[Any]:
        """Everything in the console, and errors that nobody caught."""
        self.evaluate("0")  # what is on its way arrives before the answer
        return [m for kind in ("consoleAPICalled", "exceptionThrown") for m in self.said(f"Runtime.{kind}")] + [
            entry["entry"] for entry in self.said("Log.entryAdded")
        ]

    def requests(self) -> list[str]:
        """Addresses that were asked for, but for the page itself and what it holds."""
        urls = [event["request"]["url"] for event in self.said("Network.requestWillBeSent")]
        return [url for url in urls[1:] if not url.startswith(("data:", "blob:"))]

    def evaluate(self, expression: str) -> Any:
        """Value of JavaScript in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until something is true in the page."""
        until = time.monotonic() + PATIENCE
        while not self.evaluate(expression):
            assert time.monotonic() < until, f"not within {PATIENCE} s: {expression}"
            time.sleep(0.1)

    def point_at(self, x: float, y: float) -> None:
        """Move the pointer."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press, move, release."""
        for kind, (x, y) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def box(self, selector: str, number: int = 0) -> dict[str, float]:
        """Place of an element in the window, after scrolling to it."""
        element = f"document.querySelectorAll({json.dumps(selector)})[{number}]"
        self.evaluate(f"{element}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        return dict(self.evaluate(f"{element}.getBoundingClientRect().toJSON()"))

    def picture(self, path: Path | None = None, box: dict[str, float] | None = None, *, whole: bool = False) -> Any:
        """Pixels of the window, of a part of it, or of the whole page."""
        options: dict[str, Any] = {"captureBeyondViewport": whole}
        if box is not None:
            scroll = self.evaluate("[scrollX, scrollY]")
            size = {name: box[name] for name in ("width", "height")}
            options["clip"] = {**size, "x": box["x"] + scroll[0], "y": box["y"] + scroll[1], "scale": 1}
        elif whole:
            high = self.evaluate("document.documentElement.scrollHeight")
            wide = self.evaluate("innerWidth")
            options["clip"] = {"x": 0, "y": 0, "width": wide, "height": high, "scale": 1}
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png", **options)["data"])
        if path is not None:
            path.write_bytes(data)
        return matplotlib.image.imread(io.BytesIO(data))

    def dark(self, on: bool) -> None:
        """Ask for dark pages, or for light ones."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def pdf(self) -> bytes:
        """Print the page."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])


def n_colors(picture: Any) -> int:
    """Number of different colours in a picture, to four bits: one for a blank one."""
    pixels = (np.asarray(picture)[..., :3].reshape(-1, 3) * 15).astype(int)
    return len(np.unique(pixels @ np.array([256, 16, 1])))
