"""``ts.array``: shared sources and copied sources."""

from __future__ import annotations

import array
import ctypes
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts
from tessarr.errors import ArgumentError


class Interface:
    """An object with the array interface."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.__array_interface__ = values.__array_interface__


class Convertible:
    """An object with ``__array__``."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values


SHARED: dict[str, Any] = {
    "array": np.arange(3),
    "part": np.arange(9)[1::3],
    "bytearray": bytearray(b"abc"),
    "memoryview": memoryview(bytearray(b"abc")),
    "array.array": array.array("i", [1, 2, 3]),
    "ctypes": (ctypes.c_int * 3)(1, 2, 3),
    "interface": Interface(np.arange(3.0)),
    "__array__": Convertible(np.arange(3.0)),
}


@pytest.mark.parametrize("copy", [False, None, 0])
@pytest.mark.parametrize("name", SHARED)
def test_arrays_and_buffers_are_shared(name: str, copy: Any) -> None:
    source = SHARED[name]
    store = ts.array(source, copy=copy)
    items = getattr(source, "values", source)
    items[1] = 7
    assert store[1].read().result() == 7
    store[2] = 9
    assert items[2] == 9


@pytest.mark.parametrize("name", SHARED)
def test_copy_is_independent(name: str) -> None:
    source = SHARED[name]
    store = ts.array(source, copy=True)
    before = store.read().result().tolist()
    getattr(source, "values", source)[0] = 5
    assert store.read().result().tolist() == before


@pytest.mark.parametrize(
    "source", [[1, 2], (1.5, 2), 3, np.int8(3), range(3), "text", [[True]]], ids=repr
)
def test_values_without_memory_need_copy(source: Any) -> None:
    ts.array(source)
    for copy in (False, np.False_):
        with pytest.raises(ArgumentError, match="without a copy"):
            ts.array(source, copy=copy)


def test_no_elements_need_no_copy() -> None:
    assert ts.array(np.empty((0, 3)), copy=False).shape == (0, 3)


def test_cast_needs_copy() -> None:
    with pytest.raises(ArgumentError, match="without a copy"):
        ts.array(np.arange(3, dtype="i4"), dtype="int64", copy=False)
    with pytest.raises(TypeError, match="Cannot cast"):
        ts.array(np.arange(3, dtype="i8"), dtype="int32", copy=False)
    with pytest.raises(ArgumentError, match="without a copy"):
        ts.array(np.arange(3, dtype=">i4"), copy=False)  # TensorStore reads other numbers


@pytest.mark.parametrize("name", ["copy", "write"])
def test_choices_are_booleans(name: str) -> None:
    for value in ("x", [], b""):
        with pytest.raises(TypeError, match=f"{name}: .* is not a boolean"):
            ts.array(np.arange(3), **{name: value})
    ts.array(np.arange(3), **{name: np.True_})


@pytest.mark.parametrize("dtype", [None, "json"])
def test_copies_keep_order_of_axes(dtype: str | None) -> None:
    source = np.asfortranarray(np.arange(6).reshape(2, 3))
    store = ts.array(source, dtype=dtype, copy=True)
    assert store.chunk_layout.inner_order == (1, 0)
    assert store.read().result().tolist() == source.tolist()
