"""Registries: names, entry points, failures to load."""

from __future__ import annotations

import pytest

from tessarr.errors import UnsupportedError
from tessarr.format.registry import Registry


class Entry:
    def __init__(self, name, value):
        self.name, self.value = name, str(value)
        self._value = value

    def load(self):
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


@pytest.fixture
def registry(monkeypatch):
    entries = [Entry("good", 1), Entry("bad", ImportError("no such module"))]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: entries)
    return Registry("thing", "example.things")


def test_entry_point_loads_on_first_use(registry):
    assert registry.find("good") == 1
    assert registry.find("other") is None
    assert list(registry.names()) == ["bad", "good"]


def test_failing_entry_point_error_has_name(registry):
    with pytest.raises(UnsupportedError, match="no such module") as caught:
        registry.find("bad")
    assert caught.value.kind == "missing_package"
    assert caught.value.extension == "bad"


def test_later_registration_replaces_earlier(registry):
    registry["good"] = 2
    assert registry.find("good") == 2
