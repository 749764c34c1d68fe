"""What a search hands around cannot be changed by whoever gets it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import is_dataclass

import pytest

import m3c_md.optimize
import m3c_md.search


def records():
    """All dataclasses of the two rooms."""
    for room in (m3c_md.optimize, m3c_md.search):
        for module in pkgutil.iter_modules(room.__path__, room.__name__ + "."):
            for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                if is_dataclass(found) and found.__module__ == module.name:
                    yield found


@pytest.mark.parametrize("record", list(records()), ids=lambda record: record.__name__)
def test_records_are_frozen(record):
    assert record.__dataclass_params__.frozen
