"""Writes of text and bytes: accepted classes, ranks and masked values."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.random_views import outcome

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")


class _Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class _Bytes(bytes):
    def __bytes__(self) -> bytes:
        return b"something else"


def _objects(*items: object) -> np.ma.MaskedArray[Any, Any]:
    return np.ma.array(np.array(items, object), mask=[False, True])


_SOURCES: dict[str, Any] = {
    "derived text": [_Text("a"), "b"],
    "derived bytes": [_Bytes(b"a"), b"b"],
    "NumPy's text": [np.str_("a"), "b"],
    "one derived text": _Text("a"),
    "one derived bytes": _Bytes(b"a"),
    "array of derived text": np.array([_Text("a"), "b"], object),
    "masked text": np.ma.array(["a", "b"], mask=[False, True]),
    "masked bytes": np.ma.array([b"a", b"b"], mask=[False, True]),
    "masked objects": _objects("a", _Text("b")),
    "masked bytes as objects": _objects(b"a", b"b"),
    "masked text of any length": np.ma.array(
        np.array(["a", "b"], np.dtypes.StringDType()), mask=[False, True]
    ),
    "masked None": _objects("a", None),
    "masked": np.ma.masked,
    "lists in lists": [["a", "b"], ["c", "d"]],
    "empty lists": [[], []],
    "table of text": np.array([["a", "b"], ["c", "d"]]),
    "table of numbers": np.array([[1, 2], [3, 4]]),
    "numbers": [1, 2],
    "three numbers": [1, 2, 3],
    "three texts": ["a", "b", "c"],
    "three dimensions": np.zeros((2, 2, 2)),
    "None": None,
    "list of None": [None, "a"],
}


def _read(store: Any) -> Any:
    result = np.asarray(store.read().result())
    return result.tolist(), [type(item) for item in result.ravel().tolist()]


def _written(ts: Any, source: Any, shape: tuple[int, ...], *, name: str, empty: Any) -> Any:
    store = ts.array(np.full(shape, empty, object), dtype=name, copy=True)
    store.write(source).result()
    return _read(store)


@pytest.mark.parametrize(("name", "empty"), [("ustring", ""), ("string", b"")])
@pytest.mark.parametrize("shape", [(), (2,), (1, 2)])
def test_text_writes_match_tensorstore(name: str, empty: Any, shape: tuple[int, ...]) -> None:
    """Elements become plain objects, writes ignore masks, and rank errors have precedence."""
    for value, source in _SOURCES.items():
        actual, expected = (
            outcome(lambda ts=ts, s=source: _written(ts, s, shape, name=name, empty=empty))
            for ts in (ours, theirs)
        )
        assert actual == expected, value


@pytest.mark.parametrize("name", ["ustring", "string"])
def test_memory_arrays_have_plain_elements(name: str) -> None:
    """A copied array has plain elements, too; otherwise an array of objects is shared unchanged."""
    for (value, source), copy in itertools.product(_SOURCES.items(), (None, True)):
        if copy is None and isinstance(source, np.ndarray):
            continue
        actual, expected = (
            outcome(lambda ts=ts, s=source, c=copy: _read(ts.array(s, dtype=name, copy=c)))
            for ts in (ours, theirs)
        )
        assert actual == expected, value
