"""Processes that work for us, and signals."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType


@contextmanager
def deaf_workers() -> Iterator[None]:
    """Processes that are started inside the block do not hear a Ctrl-C; it comes to us, and we end them.

    A terminal sends it to all. A worker that it ends while a result is on its way leaves joblib waiting for the rest of
    it for ever. Signals are not lost here: they arrive at the end of the block, or at once where another thread of ours
    takes them.
    """
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield
        return
    # Python starts its tracker of shared memory with the first worker and lets Ctrl-C through after that, whatever was
    # blocked before: so it is started here, and the workers come later.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Ctrl-C inside the block is heard at its end.

    For calls into compiled code that calls Python in turn: where Ctrl-C hits the inner Python, OpenMM ends with an
    error of its own that says nothing.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    heard: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        before(*heard[0])
