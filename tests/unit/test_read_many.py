"""Reads of many selections in one call of the engine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import tessarr
from calls import record_calls
from tessarr import codecs
from tessarr.codec.base import deliver
from tessarr.errors import ArgumentError, NotFoundError, SelectionError
from tessarr.extensions import BytesBytesCodec, register_codec

DATA = np.arange(12 * 10).reshape(12, 10).astype("i4")
KEYS: list[Any] = [
    3,
    (slice(2, 7), slice(3, 9)),
    (4, 5),
    (..., -1),
    slice(None, None, -3),
    ([1, 5, 1], slice(4)),
    np.arange(120).reshape(12, 10) % 7 == 0,
    (slice(4, 4), 2),
    (None, 2),
]


@register_codec
@dataclass(frozen=True)
class Counting(BytesBytesCodec):
    """A codec that counts decoded chunks."""

    name = "lab.counting"
    decoded: ClassVar[list[int]] = []

    def encode(self, data: Any) -> Any:
        return np.frombuffer(data, "u1")

    def decode(self, data: Any, out: Any = None) -> Any:
        self.decoded.append(len(data))
        return deliver(np.frombuffer(data, "u1"), out)


class Recorded(dict[str, bytes]):
    """A mapping that records the keys that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.keys_read: list[str] = []

    def __getitem__(self, key: str) -> bytes:
        self.keys_read.append(key)
        return super().__getitem__(key)


@pytest.fixture(params=["plain", "sharded"])
def array(request: pytest.FixtureRequest, store: Any) -> tessarr.Array:
    shards = {"plain": None, "sharded": (8, 8)}[request.param]
    return tessarr.create_array(store, data=DATA, chunks=(4, 4), shards=shards)


def test_read_many_returns_list_of_values(array: tessarr.Array) -> None:
    results = array.read_many(KEYS)
    assert isinstance(results, list)
    for key, result in zip(KEYS, results, strict=True):
        np.testing.assert_array_equal(result, DATA[key])
        assert type(result) is type(DATA[key])
        assert result.dtype == "i4"


def test_read_many_of_no_selections_is_an_empty_list(array: tessarr.Array) -> None:
    assert array.read_many([]) == []
    assert tessarr.read_many(iter([])) == []
    with pytest.raises(ArgumentError, match="no selections to stack"):
        array.read_many([], stack=True)


def test_stack_returns_one_array(array: tessarr.Array) -> None:
    crops = [(slice(i, i + 3), slice(j, j + 2)) for i, j in ((0, 0), (3, 5), (9, 8))]
    result = array.read_many(crops, stack=True)
    np.testing.assert_array_equal(result, np.stack([DATA[crop] for crop in crops]))
    np.testing.assert_array_equal(array.read_many([7, 2, 7], stack=True), DATA[[7, 2, 7]])
    np.testing.assert_array_equal(array.read_many([(1, 2), (3, 4)], stack=True), [12, 34])


def test_out_has_precedence_over_stack(array: tessarr.Array) -> None:
    """Values of `out` may differ from a new stack, in data type or as separate arrays."""
    parts = [np.zeros(()), np.zeros(2)]
    assert array.read_many([(1, 2), (3, [4, 5])], out=parts, stack=True) is not None
    np.testing.assert_array_equal(parts[1], [34, 35])
    stacked = np.zeros((1, 2), "f8")
    assert array.read_many([(3, [4, 5])], out=stacked, stack=True) is stacked
    np.testing.assert_array_equal(stacked, [[34, 35]])


def test_stack_of_several_shapes_raises(array: tessarr.Array) -> None:
    with pytest.raises(ArgumentError, match=r"\(10,\) of int32 .*\(12,\).* pass stack=False") as e:
        array.read_many([0, (..., 0)], stack=True)
    assert e.value.kind == "shape_mismatch"
    other = tessarr.ones(12)
    with pytest.raises(ArgumentError, match="float64"):
        tessarr.read_many([(array, (slice(None), 0)), (other, ...)], stack=True)


@pytest.mark.parametrize("dtype", ["i4", "f8"])
def test_out_array_receives_stacked_values(array: tessarr.Array, dtype: str) -> None:
    wide = np.zeros((3, 10, 2), dtype)
    out = wide[:, ::-1, 1]
    assert array.read_many([5, 0, 5], out=out) is out
    np.testing.assert_array_equal(out, DATA[[5, 0, 5]])
    assert not wide[..., 0].any()
    scalars = np.zeros(2, dtype)
    assert array.read_many([(1, 2), (3, 4)], scalars) is scalars
    assert scalars.tolist() == [12, 34]


def test_out_list_has_one_destination_each(array: tessarr.Array) -> None:
    row, block = np.zeros(10, "i4"), np.zeros((2, 3), "f4")
    result = array.read_many([4, (slice(2), slice(3))], out=[row, block])
    assert result[0] is row
    assert result[1] is block
    np.testing.assert_array_equal(row, DATA[4])
    np.testing.assert_array_equal(block, DATA[:2, :3])


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.zeros((3, 10), "i4"), "one entry for each of 2"),
        ([np.zeros(10)], "one entry for each of 2"),
        (np.zeros((2, 9), "i4"), "has shape"),
        (np.zeros((2, 10), "u4"), "data type"),
        (np.zeros((), "i4"), "one entry for each of 2"),
        (7, "out is no array"),
    ],
)
def test_out_that_does_not_fit_raises(array: tessarr.Array, out: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        array.read_many([0, 1], out=out)


def test_stored_array_is_no_destination(array: tessarr.Array) -> None:
    with pytest.raises(ArgumentError, match="in memory"):
        array.read_many([0, 1], out=tessarr.zeros((2, 10)))


def test_invalid_selections_raise(array: tessarr.Array) -> None:
    with pytest.raises(SelectionError, match="12 is out of bounds"):
        array.read_many([0, 12])
    with pytest.raises(ArgumentError, match="pairs of a Tessarr array and a selection, not int"):
        tessarr.read_many([0])  # type: ignore[list-item]
    with pytest.raises(ArgumentError, match="pairs"):
        tessarr.read_many([(DATA, 0)])  # type: ignore[list-item]


def test_several_arrays_are_read_together(array: tessarr.Array) -> None:
    labels = tessarr.array(["a", "b", "c"], dtype=str)
    image, label, again = tessarr.read_many([(array, 3), (labels, 1), (array, (3, 5))])
    np.testing.assert_array_equal(image, DATA[3])
    assert (label, again) == ("b", 35)


def test_text_and_fields() -> None:
    text = tessarr.array(["a", "bc", "", "d"], dtype=str, chunks=2)
    np.testing.assert_array_equal(text.read_many([1, 3], stack=True), ["bc", "d"])
    np.testing.assert_array_equal(text.read_many([slice(1, 3)])[0], ["bc", ""])
    records = np.array([(1, (2, 3)), (4, (5, 6))], [("a", "i2"), ("b", "f4", 2)])
    array = tessarr.array(records, chunks=1, zarr_format=2)
    assert array.read_many([("a", 1), ("a", 0)], stack=True).tolist() == [4, 1]
    pairs = array.read_many([("b", 1), ("b", 0)], stack=True)
    assert (pairs.dtype, pairs.tolist()) == (np.dtype("f4"), [[5, 6], [2, 3]])
    assert array.read_many([0])[0] == records[0]


@pytest.mark.parametrize("shards", [None, (8, 8)])
def test_each_chunk_is_fetched_and_decoded_once(shards: Any) -> None:
    store = Recorded()
    array = tessarr.create_array(
        store, data=DATA, chunks=(4, 4), shards=shards, compressors=[codecs.Zstd(), Counting()]
    )
    store.keys_read.clear()
    Counting.decoded.clear()
    crops = [(slice(i, i + 3), slice(j, j + 3)) for i in range(8) for j in range(7)]
    results = array.read_many(crops)
    np.testing.assert_array_equal(results, [DATA[crop] for crop in crops])
    assert len(Counting.decoded) == 9
    if shards is None:
        chunks = [key for key in store.keys_read if key.startswith("c/")]
        assert Counter(chunks) == {f"c/{i}/{j}": 1 for i in range(3) for j in range(3)}


def test_one_engine_call_reads_all(array: tessarr.Array) -> None:
    other = tessarr.ones(5)
    calls = record_calls(lambda: tessarr.read_many([(array, 0), (other, 1), (array, 2)]))
    assert Counter(calls.native)["run_reads"] == 1


def test_metadata_is_refreshed_once_per_call(store: Any) -> None:
    array = tessarr.create_array(store, data=DATA[0], chunks=2)
    reader = tessarr.open_array(store, cache_metadata=False)
    array.append(DATA[0])
    calls = record_calls(lambda: reader.read_many([15, 16, 17]))
    assert calls.names["ArrayMutation.refresh"] == 1
    assert reader.read_many([15, 19]) == [DATA[0, 5], DATA[0, 9]]


def test_error_of_a_chunk_is_raised(store: Any) -> None:
    array = tessarr.create_array(store, shape=8, chunks=2, dtype="i4")
    array[:4] = 1
    strict = array.with_config({"read_missing_chunks": False})
    with pytest.raises(NotFoundError):
        strict.read_many([0, 5])
    assert strict.read_many([0, 3]) == [1, 1]
