"""One BLAS thread while numbers are made: the first task sets the limit and the last lifts it."""

from __future__ import annotations

import pytest

from m3c_md.optimize import threads
from m3c_md.optimize.threads import OneBlasThread


class Controller:
    """Writes down what is asked of it."""

    def __init__(self):
        self.log = []

    def limit(self, *, limits):
        self.log.append(limits)
        return self

    def restore_original_limits(self):
        self.log.append("lifted")


def test_the_first_sets_it_and_the_last_lifts_it(monkeypatch):
    controller, one_thread = Controller(), OneBlasThread()
    monkeypatch.setattr(threads, "_blas", lambda: controller)
    for _ in range(2):
        controller.log.clear()
        with one_thread:
            with one_thread, one_thread:
                assert controller.log == [1]
            assert controller.log == [1]
        assert controller.log == [1, "lifted"]


def test_an_error_lifts_it_too(monkeypatch):
    controller = Controller()
    monkeypatch.setattr(threads, "_blas", lambda: controller)
    with pytest.raises(ZeroDivisionError), OneBlasThread():
        raise ZeroDivisionError
    assert controller.log == [1, "lifted"]


def test_libraries_are_looked_for_once():
    assert threads._blas() is threads._blas()
