"""NumPy model of an array with all kinds of indexing, and strategies for keys and values."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tessarr.testing import keys
from tessarr.testing.strategies import values

__all__ = ["NUMPY_KINDS", "Model", "assert_same", "assigned", "selections"]

NUMPY_KINDS = ("basic", "advanced", "points", "mask")
"""Kinds of indexing whose keys have the same meaning in NumPy."""

OUTER, BLOCKS = "outer", "blocks"


Chunks = tuple[tuple[int, ...], ...]
"""Lengths of the chunks along each axis, cut at the edge of the array."""

STRATEGIES: dict[str, Any] = {
    "basic": keys.basic_keys,
    "advanced": keys.advanced_keys,
    OUTER: keys.outer_keys,
    "points": keys.point_keys,
    "mask": keys.masks,
}


class Model:
    """NumPy array that supports all kinds of indexing.

    The model applies a kind that NumPy lacks to the numbers of the elements, and then reads or
    assigns these elements in C order.
    """

    def __init__(self, array: np.ndarray, chunks: Chunks) -> None:
        self.array = array
        self._chunks = chunks
        self._numbers = np.arange(array.size).reshape(array.shape)

    def read(self, kind: str, key: Any) -> Any:
        """Return the expected result of a read."""
        if kind in NUMPY_KINDS:
            return self.array[key]
        result = np.asarray(self.array.reshape(-1)[self._index(kind, key)], self.array.dtype)
        scalar = kind == OUTER and result.ndim == 0 and not _has_ellipsis(key)
        return result[()] if scalar else result

    def write(self, kind: str, key: Any, value: Any) -> None:
        """Assign `value`; of repeated indices the last one in C order wins."""
        if kind in NUMPY_KINDS:
            self.array[key] = value
        else:
            self.array.reshape(-1)[self._index(kind, key)] = value

    def _index(self, kind: str, key: Any) -> np.ndarray:
        items = _items(key, self.array.ndim)
        if kind == OUTER:
            return _axis_by_axis(self._numbers, items)
        pairs = zip(items, self._chunks, strict=True)
        return self._numbers[tuple(_span(item, lengths) for item, lengths in pairs)]


def _has_ellipsis(key: Any) -> bool:
    return any(item is ... for item in (key if isinstance(key, tuple) else (key,)))


def _items(key: Any, rank: int) -> list[Any]:
    """Split a key without new axes into one item per axis."""
    items = list(key) if isinstance(key, tuple) else [key]
    position = next((n for n, item in enumerate(items) if item is ...), len(items))
    spare = rank - sum(item is not ... for item in items)
    return [*items[:position], *[slice(None)] * spare, *items[position + 1 :]]


def _axis_by_axis(array: np.ndarray, items: list[Any]) -> np.ndarray:
    """Index the axes one after the other, from the last to the first."""
    for axis in reversed(range(len(items))):
        item = items[axis]
        item = np.array(item, np.int64) if isinstance(item, list) else item
        array = array[(slice(None),) * axis + (item,)]
    return np.asarray(array)


def _span(item: Any, lengths: tuple[int, ...]) -> slice:
    """Convert an item that counts chunks to a slice of elements."""
    blocks = len(lengths)
    if isinstance(item, slice):
        start, stop, _ = item.indices(blocks)
    else:
        start = item % blocks
        stop = start + 1
    return slice(sum(lengths[:start]), sum(lengths[: max(start, stop)]))


@st.composite
def selections(draw: st.DrawFn, shape: tuple[int, ...], chunks: Chunks) -> Any:
    """Generate a kind of indexing and a valid key for it."""
    kind = draw(st.sampled_from(("basic", "basic", "advanced", OUTER, "points", "mask", BLOCKS)))
    if kind == BLOCKS:
        return kind, draw(keys.block_keys(tuple(map(len, chunks))))
    key = draw(STRATEGIES[kind](shape))
    # The masks of a key may not broadcast with its index arrays.
    return (kind, key) if kind != "advanced" or _fits(key, shape) else ("basic", ...)


def _fits(key: Any, shape: tuple[int, ...]) -> bool:
    """Return whether the masks of a key broadcast with its index arrays."""
    try:
        np.empty(shape, np.int8)[key]
    except IndexError:
        return False
    return True


@st.composite
def assigned(draw: st.DrawFn, dtype: np.dtype, shape: tuple[int, ...], fill: bytes) -> np.ndarray:
    """Generate a value that broadcasts to a shape; often it has the shape itself."""
    lengths = list(shape)
    if draw(st.integers(0, 2)) == 0:
        lengths = [draw(st.sampled_from((n, n, 1))) for n in shape]
        lengths = lengths[draw(st.integers(0, len(lengths))) :]
    return draw(values(dtype, tuple(lengths), fill=fill))


def assert_same(actual: Any, expected: Any) -> None:
    """Compare type, data type, shape and bits."""
    assert type(actual) is type(expected)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert actual.tobytes() == expected.tobytes()
