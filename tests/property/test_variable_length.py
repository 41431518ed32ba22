"""Arrays with elements of variable length match NumPy arrays of objects."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessarr
from property.model import NUMPY_KINDS, Model, selections
from tessarr import codecs
from tessarr.stores import MemoryStore
from tessarr.testing.reference import ReferenceArray

TEXT = st.text(max_size=5) | st.sampled_from(["", "\0", "é\0", "日本", "x" * 40])
BYTES = st.binary(max_size=5) | st.sampled_from([b"", b"\0", b"ab\0", bytes(40)])
PLAIN = st.none() | st.booleans() | st.integers(-9, 2**70) | st.floats(allow_nan=False) | TEXT
NESTED = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=5,
)
NUMBERS = st.lists(st.integers(-99, 99), max_size=4).map(lambda values: np.array(values, "<i2"))


@dataclass
class Kind:
    """Strategy for elements, and the settings of arrays that hold them."""

    elements: st.SearchStrategy[Any]
    formats: tuple[int, ...]
    settings: dict[str, Any] = field(default_factory=dict)


KINDS = {
    "text": Kind(TEXT, (2, 3), {"dtype": str}),
    "bytes": Kind(BYTES, (2, 3), {"dtype": bytes}),
    "json": Kind(NESTED, (2,), {"dtype": object, "object_codec": codecs.JSON()}),
    "msgpack": Kind(
        st.none() | TEXT | BYTES | st.lists(TEXT, max_size=2),
        (2,),
        {"dtype": object, "object_codec": codecs.MsgPack()},
    ),
    "pickle": Kind(NESTED | BYTES, (2,), {"dtype": object, "object_codec": codecs.Pickle()}),
    "ragged": Kind(NUMBERS, (2,), {"dtype": "array:<i2"}),
    "labels": Kind(
        st.sampled_from(["", "a", "bc"]),
        (2,),
        {"dtype": object, "object_codec": codecs.Categorize(["a", "bc"], object)},
    ),
}
COMPRESSORS = (None, codecs.Zstd(1), codecs.Blosc(), codecs.GZip(1), codecs.Crc32c())


@st.composite
def arrays(draw: st.DrawFn, kind: Kind) -> tessarr.Array:
    """Draw an empty array with random settings."""
    rank = draw(st.integers(0, 3))
    chunks = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    shape = tuple(draw(st.integers(0, 7)) for _ in range(rank))
    zarr_format: Any = draw(st.sampled_from(kind.formats))
    options = dict(kind.settings)
    if zarr_format == 3 and draw(st.booleans()):
        options["shards"] = tuple(n * draw(st.integers(1, 2)) for n in chunks)
    if options["dtype"] in (str, bytes):
        options["fill_value"] = draw(kind.elements)
    return tessarr.create_array(
        MemoryStore(),
        shape=shape,
        chunks=chunks,
        order=draw(st.sampled_from("CF")),
        compressors=draw(st.sampled_from(COMPRESSORS)),
        write_empty_chunks=draw(st.booleans()),
        zarr_format=zarr_format,
        **options,
    )


@st.composite
def objects(draw: st.DrawFn, kind: Kind, shape: tuple[int, ...], fill: Any) -> np.ndarray:
    """Draw an array of objects."""
    size = int(np.prod(shape))
    pool = [fill, *draw(st.lists(kind.elements, min_size=1, max_size=4))]
    dice = draw(st.integers(0, 99).map(random.Random))
    result = np.empty(size, object)
    for number in range(size):
        result[number] = pool[dice.randrange(len(pool))]
    return result.reshape(shape)


class Subject:
    """Array with its elements in a list; NumPy selects their positions."""

    def __init__(self, array: tessarr.Array) -> None:
        self.array = array
        self.elements = [array.fill_value] * array.size
        self.numbers = Model(np.arange(array.size).reshape(array.shape), array.read_chunk_sizes)

    def view(self, method: str) -> Any:
        """Return the object to index with keys of this kind."""
        views = {"outer": "oindex", "points": "vindex", "blocks": "blocks"}
        return getattr(self.array, views[method]) if method in views else self.array

    def write(self, data: st.DataObject, kind: Kind) -> None:
        """Write one random selection; of repeated indices the last one wins."""
        method, key = data.draw(selections(self.array.shape, self.array.read_chunk_sizes))
        numbers = np.asarray(self.numbers.read(method, key))
        value = data.draw(objects(kind, numbers.shape, self.array.fill_value))
        if method in NUMPY_KINDS and data.draw(st.booleans()):
            self.array.write(key, value).result(60)
        else:
            self.view(method)[key] = value
        for number, element in zip(numbers.reshape(-1), value.reshape(-1), strict=True):
            self.elements[number] = element

    def read(self, data: st.DataObject) -> None:
        """Read one random selection and compare it."""
        method, key = data.draw(selections(self.array.shape, self.array.read_chunk_sizes))
        self.compare(self.view(method)[key], self.numbers.read(method, key))
        if method in NUMPY_KINDS:
            self.compare(self.array.read(key).result(60), self.numbers.read(method, key))

    def compare(self, actual: Any, numbers: Any) -> None:
        """Compare a result with the elements at these positions."""
        if not isinstance(numbers, np.ndarray):
            assert same(actual, self.elements[numbers])
            return
        assert actual.shape == numbers.shape
        assert actual.dtype == self.array.dtype
        for element, number in zip(actual.reshape(-1), numbers.reshape(-1), strict=True):
            assert same(element, self.elements[number])

    def compare_reference(self) -> None:
        """Read all elements with the slow reader, write with it, and read the result."""
        reference = ReferenceArray(self.array.store, scramble=1)
        result = reference.read()
        assert result.reshape(-1).tolist() == self.elements
        reference.write(..., result[::-1])
        assert self.array[...].tolist() == reference.read().tolist()


def same(actual: Any, expected: Any) -> bool:
    if isinstance(expected, np.ndarray):
        return actual.dtype == expected.dtype and actual.tolist() == expected.tolist()
    return type(actual) is type(expected) and actual == expected


@pytest.mark.parametrize("name", KINDS)
def test_writes_and_reads(name: str) -> None:
    """After random writes, random reads and the whole array equal NumPy's selections."""
    kind = KINDS[name]

    @given(st.data())
    def run(data: st.DataObject) -> None:
        with tessarr.options(allow_pickle=True):
            subject = Subject(data.draw(arrays(kind)))
            for _ in range(data.draw(st.integers(1, 3))):
                subject.write(data, kind)
                subject.read(data)
            array = subject.array
            subject.array = tessarr.open_array(array.store)
            subject.compare(subject.array[...], subject.numbers.array)
            if name in {"text", "bytes"} and array.ndim:
                subject.compare_reference()
        fill = np.fromiter([array.fill_value] * array.size, object).reshape(array.shape)
        array[...] = fill
        if not array.write_empty_chunks:
            assert array.nchunks_initialized == 0

    run()
